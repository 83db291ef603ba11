// Modules, launches, captures and graphs of the stand-in driver.

namespace {

// A library in memory: how long it is, by its own headers; 0 for what is none.
size_t length_of(const unsigned char* image) {
  if (std::memcmp(image, "\177ELF", 4)) return 0;
  unsigned long long sections;
  unsigned short size, count;
  std::memcpy(&sections, image + 0x28, 8);
  std::memcpy(&size, image + 0x3a, 2);
  std::memcpy(&count, image + 0x3c, 2);
  return sections + size * count;
}

// The bytes of an image: a library, or the hexadecimal text that the stand-in for NVRTC calls PTX.
std::string library_in(const void* image) {
  const auto* bytes = static_cast<const unsigned char*>(image);
  if (const size_t n = length_of(bytes)) return std::string(static_cast<const char*>(image), n);
  static const char head[] = "// stand-in PTX\n";
  if (std::strncmp(static_cast<const char*>(image), head, sizeof head - 1)) return {};
  std::string out;
  for (const char* p = static_cast<const char*>(image) + sizeof head - 1; p[0] && p[1]; p += 2)
    out.push_back(char(std::stoi(std::string(p, 2), nullptr, 16)));
  return out;
}

Races& races() {
  static Races all{};
  if (!all.begin) {
    all.begin = arena->base;
    all.end = arena->base + Arena::bytes;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    all.cells = mmap(nullptr, Arena::bytes / 2 * 32, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (all.cells == MAP_FAILED) std::abort();
  }
  return all;
}

}  // namespace

extern "C" {

int cuModuleLoadData(void** module, const void* image) {
  ENTER(cuModuleLoadData);
  IN_CONTEXT;
  if (Result r = forbidden()) return r;
  const std::string bytes = library_in(image);
  if (bytes.empty()) return invalid_image;
  std::string name = std::filesystem::temp_directory_path() / "stand-in-module-XXXXXX";
  const int file = mkstemp(name.data());
  const bool written = file >= 0 && write(file, bytes.data(), bytes.size()) == ssize_t(bytes.size());
  if (file >= 0) close(file);
  void* library = written ? dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(name.c_str());
  if (!library) return invalid_image;
  auto* architecture = static_cast<const int*>(dlsym(library, "stand_in_architecture"));
  auto* virtual_one = static_cast<const int*>(dlsym(library, "stand_in_virtual"));
  const bool fits = architecture && virtual_one &&
                    (*virtual_one ? *architecture <= capability()
                                  : *architecture / 10 == capability() / 10 && *architecture <= capability());
  if (!fits) {
    dlclose(library);
    return no_binary;
  }
  if (void* told = dlsym(library, "stand_in_races")) *static_cast<Races**>(told) = &races();
  auto* m = new Module{current(), library, {}};
  modules.insert(m);
  *module = m;
  return success;
}
int cuModuleLoadDataEx(void** module, const void* image, unsigned, void*, void**) { return cuModuleLoadData(module, image); }
int cuModuleUnload(void* module) {
  ENTER(cuModuleUnload);
  IN_CONTEXT;
  auto* m = static_cast<Module*>(module);
  if (!modules.count(m)) return invalid_handle;
  drain(m->context);
  modules.erase(m);
  dlclose(m->library);
  delete m;
  return success;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  ENTER(cuModuleGetFunction);
  IN_CONTEXT;
  auto* m = static_cast<Module*>(module);
  if (!modules.count(m)) return invalid_handle;
  auto& f = m->functions[name];
  if (!f) {
    void* kernel = dlsym(m->library, (std::string("stand_in_kernel_") + name).c_str());
    if (!kernel) return not_found;
    f = std::make_unique<Function>(Function{m, static_cast<const Kernel*>(kernel), name});
  }
  *function = f.get();
  return success;
}
int cuFuncGetAttribute(int* value, int attribute, void*) {
  ENTER(cuFuncGetAttribute);
  *value = attribute == 0 ? 1024 : attribute == 4 ? 32 : 0;  // threads per block, registers
  return success;
}
int cuFuncSetAttribute(void*, int, int) {
  ENTER(cuFuncSetAttribute);
  return success;
}

int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void* stream, void** parameters, void** extra) {
  ENTER(cuLaunchKernel);
  ON_STREAM(stream);
  auto* f = static_cast<Function*>(function);
  if (!f || !modules.count(f->module) || f->module->context != s->context) return invalid_handle;
  const bool fits = gx && gy && gz && bx && by && bz && gx < 1u << 31 && gy < 65536 && gz < 65536 && bz <= 64 &&
                    size_t(bx) * by * bz <= 1024;
  size_t bytes = 0;
  for (unsigned n = 0; n < f->kernel->count; ++n) bytes += f->kernel->sizes[n];
  if (!fits || bytes > 4096 || shared || extra || (f->kernel->count && !parameters)) return invalid_value;
  // Parameters are the launch's own from here on.
  auto kept = std::make_shared<std::vector<std::unique_ptr<char[]>>>();
  for (unsigned n = 0; n < f->kernel->count; ++n) {
    kept->push_back(std::make_unique<char[]>(f->kernel->sizes[n]));
    std::memcpy(kept->back().get(), parameters[n], f->kernel->sizes[n]);
  }
  log_queued(f->name + " " + std::to_string(size_t(gx) * gy * gz) + " x " + std::to_string(size_t(bx) * by * bz));
  return enqueue(s, [=] {
    const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
    std::vector<void*> addresses;
    for (auto& value : *kept) addresses.push_back(value.get());
    if (std::getenv("STAND_IN_RACES")) ++races().launch;
    const char* failed = f->kernel->run(grid, block, order_kind, order_seed, addresses.data());
    if (!failed) return success;
    message = f->name + ": " + failed;
    std::fprintf(stderr, "%s\n", message.c_str());
    return launch_failed;
  });
}

int cuStreamBeginCapture_v2(void* stream, int mode) {
  ENTER(cuStreamBeginCapture_v2);
  ON_STREAM(stream);
  if (s == s->context->legacy.get()) return capture_unsupported;
  if (s->capture || mode < 0 || mode > 2) return invalid_value;
  s->capture = std::make_unique<Capture>(Capture{std::make_unique<Graph>(Graph{{}, s->context}), mode, std::this_thread::get_id()});
  return success;
}
int cuStreamEndCapture(void* stream, void** graph) {
  ENTER(cuStreamEndCapture);
  ON_STREAM(stream);
  *graph = nullptr;
  if (!s->capture) return capture_unmatched;
  if (s->capture->mode != 2 && s->capture->thread != std::this_thread::get_id()) return capture_wrong_thread;
  const auto capture = std::move(s->capture);
  if (!capture->valid) return capture_invalidated;
  *graph = capture->graph.release();
  graphs.insert(static_cast<Graph*>(*graph));
  return success;
}
int cuStreamIsCapturing(void* stream, int* status) {
  ENTER(cuStreamIsCapturing);
  ON_STREAM(stream);
  *status = !s->capture ? 0 : s->capture->valid ? 1 : 2;
  return success;
}
// A capture has a name that no other one has. Its nodes are nobody's to see.
int cuStreamGetCaptureInfo_v2(void* stream, int* status, unsigned long long* id, void** graph, const void* nodes, void* count) {
  ENTER(cuStreamGetCaptureInfo_v2);
  if (nodes || count) return not_supported;
  if (int r = cuStreamIsCapturing(stream, status)) return r;
  Stream* const s = stream_of(stream);
  if (id) *id = s->capture ? s->capture->id : 0;
  if (graph) *graph = s->capture ? s->capture->graph.get() : nullptr;
  return success;
}
// The object of a user, whose destructor another thread calls when no graph has it.
int cuUserObjectCreate(void** object, void* p, void (*destroy)(void*), unsigned count, unsigned flags) {
  ENTER(cuUserObjectCreate);
  if (count != 1 || flags != 1) return invalid_value;
  *object = new std::shared_ptr<void>(p, [destroy](void* p) { std::thread(destroy, p).join(); });
  return success;
}
int cuGraphRetainUserObject(void* graph, void* object, unsigned count, unsigned flags) {
  ENTER(cuGraphRetainUserObject);
  // The graph takes the only reference.
  if (count != 1 || flags != 1) return invalid_value;
  auto* taken = static_cast<std::shared_ptr<void>*>(object);
  static_cast<Graph*>(graph)->objects.push_back(*taken);
  delete taken;
  return success;
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
  ENTER(cuThreadExchangeStreamCaptureMode);
  if (*mode < 0 || *mode > 2) return invalid_value;
  std::swap(*mode, capture_mode);
  return success;
}
int cuGraphInstantiateWithFlags(void** made, void* graph, unsigned long long) {
  ENTER(cuGraphInstantiateWithFlags);
  IN_CONTEXT;
  auto* g = static_cast<Graph*>(graph);
  if (!graphs.count(g)) return invalid_handle;
  *made = *graphs.insert(new Graph(*g)).first;
  return success;
}
int cuGraphLaunch(void* made, void* stream) {
  ENTER(cuGraphLaunch);
  ON_STREAM(stream);
  auto* g = static_cast<Graph*>(made);
  if (!graphs.count(g) || g->context != s->context) return invalid_handle;
  for (auto& node : g->nodes)
    if (Result r = enqueue(s, node)) return r;
  return success;
}
int cuGraphDestroy(void* graph) {
  ENTER(cuGraphDestroy);
  if (!graphs.erase(static_cast<Graph*>(graph))) return invalid_handle;
  delete static_cast<Graph*>(graph);
  return success;
}
int cuGraphExecDestroy(void* made) {
  ENTER(cuGraphExecDestroy);
  if (!graphs.erase(static_cast<Graph*>(made))) return invalid_handle;
  delete static_cast<Graph*>(made);
  return success;
}

}  // extern "C"
