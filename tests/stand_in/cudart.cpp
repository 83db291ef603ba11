// A stand-in for the part of CUDA 13's runtime API that PyTorch calls, above the stand-in for the driver. It is loaded
// ahead of libcudart.so.13, so that these functions are found first. What is not here is the real library's, which
// fails where there is no driver. A launch of a kernel that PyTorch brings is an error: only texts run. Tests in Python
// make it and load it (tests/python/stand_in.py).
#include "cudart.hpp"

using namespace stand_in;

namespace {

std::mutex lock;
// Host memory that copies may read and write while the host goes on, by where it begins.
std::map<char*, size_t> pinned;
thread_local int chosen = 0;
thread_local int last = 0;

int said(int error) {
  if (error) last = error;
  return error;
}

// Makes a device's primary context the current one.
int choose(int device) {
  static std::map<int, void*> contexts;
  std::lock_guard<std::mutex> held(lock);
  if (int r = cuInit(0)) return r;
  auto found = contexts.find(device);
  if (found == contexts.end()) {
    void* context;
    if (int r = cuDevicePrimaryCtxRetain(&context, device)) return r;
    found = contexts.emplace(device, context).first;
  }
  return cuCtxSetCurrent(found->second);
}

// A thread that has no context gets that of its device.
int enter() {
  void* context = nullptr;
  if (int r = cuInit(0)) return r;
  cuCtxGetCurrent(&context);
  return context ? success : choose(chosen);
}

bool is_pinned(const void* p) {
  std::lock_guard<std::mutex> held(lock);
  auto at = static_cast<char*>(const_cast<void*>(p));
  auto after = pinned.upper_bound(at);
  return after != pinned.begin() && size_t(at - std::prev(after)->first) < std::prev(after)->second;
}

struct Place {
  Memory memory;
  int device;
  // How much lies there, from the pointer on.
  size_t bytes;
};

Place place_of(const void* p) {
  int attributes[] = {2, 9, 11, 12}, device = -2;
  unsigned kind = 0;
  Address start = 0;
  size_t bytes = 0;
  void* data[] = {&kind, &device, &start, &bytes};
  cuPointerGetAttributes(4, attributes, data, Address(p));
  if (kind == 2) return {Memory::device, device, size_t(start + bytes - Address(p))};
  return {is_pinned(p) ? Memory::host : Memory::unregistered, -2, ~size_t(0)};
}

int enqueue(void* stream, std::function<void()> work) {
  auto* kept = new std::function<void()>(std::move(work));
  return stand_in_enqueue(
      stream, [](void* f) { (*static_cast<std::function<void()>*>(f))(); }, kept,
      [](void* f) { delete static_cast<std::function<void()>*>(f); });
}

// A copy between any two places. Pageable memory is read before the call returns, and written before it returns;
// everything else waits for its turn.
int copy(void* to, const void* from, size_t bytes, int kind, void* stream) {
  if (int r = enter()) return r;
  if (!bytes) return success;
  const Place target = place_of(to), source = place_of(from);
  const bool into = target.memory == Memory::device, out = source.memory == Memory::device;
  if (bytes > target.bytes || bytes > source.bytes) return invalid_value;
  if (kind != copy_default && kind != (out ? 2 : 0) + (into ? 1 : 0)) return invalid_direction;
  int capturing = 0;
  if (int r = cuStreamIsCapturing(stream, &capturing)) return r;
  if (source.memory == Memory::unregistered && !capturing) {
    std::vector<char> staged(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
    if (int r = enqueue(stream, [=, staged = std::move(staged)] { std::memcpy(to, staged.data(), bytes); })) return r;
  } else if (int r = enqueue(stream, [=] { std::memcpy(to, from, bytes); })) {
    return r;
  }
  return target.memory == Memory::unregistered && !capturing ? cuStreamSynchronize(stream) : success;
}

int fill(void* p, int value, size_t bytes, void* stream) {
  if (int r = enter()) return r;
  if (!bytes) return success;
  const Place place = place_of(p);
  if (place.memory != Memory::device || bytes > place.bytes) return invalid_value;
  return enqueue(stream, [=] { std::memset(p, value, bytes); });
}

int pin(void** p, size_t bytes) {
  if (int r = enter()) return r;
  *p = bytes ? std::malloc(bytes) : nullptr;
  if (bytes && !*p) return out_of_memory;
  std::lock_guard<std::mutex> held(lock);
  if (bytes) pinned[static_cast<char*>(*p)] = bytes;
  return success;
}

// What PyTorch is given for functions of the driver that are not stood in for.
int unsupported() { return not_supported; }

// What a `<<<…>>>` says, until the launch itself asks.
struct Configuration {
  Dimensions grid, block;
  size_t shared;
  void* stream;
};
thread_local std::vector<Configuration> configurations;

// Machine code of a GPU.
int launch() {
  log("cudaLaunchKernel");
  return said(not_supported);
}

}  // namespace

#define CALL(name) log(#name)
#define IN_CONTEXT \
  if (int r = enter()) return said(r)

extern "C" {

// Devices.

int cudaDriverGetVersion(int* version) {
  *version = 13020;
  return success;
}
int cudaRuntimeGetVersion(int* version) {
  *version = 13020;
  return success;
}
int cudaGetDeviceCount(int* count) {
  CALL(cudaGetDeviceCount);
  *count = 0;
  if (int r = cuInit(0)) return said(r);
  return said(cuDeviceGetCount(count));
}
int cudaGetDevice(int* device) {
  CALL(cudaGetDevice);
  void* context = nullptr;
  if (int r = cuInit(0)) return said(r);
  cuCtxGetCurrent(&context);
  if (context) return said(cuCtxGetDevice(device));
  *device = chosen;
  return success;
}
int cudaSetDevice(int device) {
  CALL(cudaSetDevice);
  if (int r = choose(device)) return said(r);
  chosen = device;
  return success;
}
int cudaGetDeviceProperties(Properties* p, int device) {
  CALL(cudaGetDeviceProperties);
  if (int r = cuInit(0)) return said(r);
  const auto get = [&](int attribute) {
    int value = 0;
    cuDeviceGetAttribute(&value, attribute, device);
    return value;
  };
  *p = Properties{};
  if (int r = cuDeviceTotalMem_v2(&p->total_memory, device)) return said(r);
  cuDeviceGetName(p->name, sizeof p->name, device);
  p->uuid[0] = char(device);
  p->pci_bus = device;
  p->shared_per_block = get(8);
  p->shared_per_block_most = get(97);
  p->shared_per_multiprocessor = get(97);
  p->warp = get(10);
  p->threads_per_block = get(1);
  p->threads_per_multiprocessor = get(39);
  p->multiprocessors = get(16);
  p->major = get(75);
  p->minor = get(76);
  p->registers_per_block = p->registers_per_multiprocessor = 1 << 16;
  p->unified_addressing = 1;
  const int block[] = {1024, 1024, 64}, grid[] = {0x7fffffff, 65535, 65535};
  std::copy(block, block + 3, p->block);
  std::copy(grid, grid + 3, p->grid);
  return success;
}
int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  CALL(cudaDeviceGetAttribute);
  if (int r = cuInit(0)) return said(r);
  return said(cuDeviceGetAttribute(value, attribute, device));
}
int cudaDeviceGetPCIBusId(char* text, int length, int device) {
  std::snprintf(text, length, "0000:%02x:00.0", device);
  return success;
}
int cudaDeviceSynchronize() {
  CALL(cudaDeviceSynchronize);
  IN_CONTEXT;
  return said(cuCtxSynchronize());
}
int cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return success;
}
int cudaDeviceEnablePeerAccess(int, unsigned) { return said(not_supported); }
int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return success;
}
int cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long, int* status) {
  for (const char* version : {"_v2", ""})
    if ((*function = dlsym(RTLD_DEFAULT, (std::string(name) + version).c_str()))) break;
  if (!*function) *function = reinterpret_cast<void*>(&unsupported);
  if (status) *status = 0;
  return success;
}

// Errors.

int cudaPeekAtLastError() { return last; }
int cudaGetLastError() { return std::exchange(last, success); }
const char* cudaGetErrorName(int error) {
  const char* name;
  return cuGetErrorName(error, &name) ? "an error that the stand-in has no name for" : name;
}
const char* cudaGetErrorString(int error) {
  switch (error) {
    case out_of_memory: return "out of memory";
    case launch_failed: return "unspecified launch failure";
    case not_supported: return "operation not supported by the stand-in";
    default: return cudaGetErrorName(error);
  }
}

// Memory.

int cudaMalloc(void** p, size_t bytes) {
  CALL(cudaMalloc);
  IN_CONTEXT;
  Address at = 0;
  const int r = bytes ? cuMemAlloc_v2(&at, bytes) : success;
  *p = reinterpret_cast<void*>(at);
  return said(r);
}
int cudaFree(void* p) {
  CALL(cudaFree);
  IN_CONTEXT;
  return said(cuMemFree_v2(Address(p)));
}
int cudaMallocAsync(void**, size_t, void*) { return said(not_supported); }
int cudaFreeAsync(void*, void*) { return said(not_supported); }
int cudaMallocManaged(void**, size_t, unsigned) { return said(not_supported); }
int cudaHostAlloc(void** p, size_t bytes, unsigned) {
  CALL(cudaHostAlloc);
  return said(pin(p, bytes));
}
int cudaMallocHost(void** p, size_t bytes) { return cudaHostAlloc(p, bytes, 0); }
int cudaFreeHost(void* p) {
  CALL(cudaFreeHost);
  IN_CONTEXT;
  if (int r = cuCtxSynchronize()) return said(r);
  std::lock_guard<std::mutex> held(lock);
  if (p && !pinned.erase(static_cast<char*>(p))) return said(invalid_value);
  std::free(p);
  return success;
}
int cudaHostRegister(void* p, size_t bytes, unsigned) {
  CALL(cudaHostRegister);
  std::lock_guard<std::mutex> held(lock);
  pinned[static_cast<char*>(p)] = bytes;
  return success;
}
int cudaHostUnregister(void* p) {
  CALL(cudaHostUnregister);
  std::lock_guard<std::mutex> held(lock);
  return said(pinned.erase(static_cast<char*>(p)) ? success : invalid_value);
}
int cudaMemGetInfo(size_t* free, size_t* total) {
  CALL(cudaMemGetInfo);
  IN_CONTEXT;
  return said(cuMemGetInfo_v2(free, total));
}
int cudaPointerGetAttributes(Attributes* a, const void* p) {
  CALL(cudaPointerGetAttributes);
  IN_CONTEXT;
  const Place place = place_of(p);
  *a = Attributes{};
  a->memory = int(place.memory);
  a->device = place.memory == Memory::device ? place.device : place.memory == Memory::host ? 0 : -2;
  a->on_device = place.memory == Memory::unregistered ? nullptr : const_cast<void*>(p);
  a->on_host = place.memory == Memory::device ? nullptr : const_cast<void*>(p);
  return success;
}
int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  CALL(cudaMemcpyAsync);
  return said(copy(to, from, bytes, kind, stream));
}
int cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, void* stream) {
  CALL(cudaMemcpyPeerAsync);
  return said(copy(to, from, bytes, copy_default, stream));
}
int cudaMemcpy(void* to, const void* from, size_t bytes, int kind) {
  CALL(cudaMemcpy);
  if (int r = copy(to, from, bytes, kind, nullptr)) return said(r);
  return said(cuStreamSynchronize(nullptr));
}
int cudaMemsetAsync(void* p, int value, size_t bytes, void* stream) {
  CALL(cudaMemsetAsync);
  return said(fill(p, value, bytes, stream));
}
int cudaMemset(void* p, int value, size_t bytes) {
  CALL(cudaMemset);
  return said(fill(p, value, bytes, nullptr));
}

// Streams.

int cudaStreamCreateWithFlags(void** stream, unsigned flags) {
  CALL(cudaStreamCreateWithFlags);
  IN_CONTEXT;
  return said(cuStreamCreate(stream, flags));
}
int cudaStreamCreate(void** stream) { return cudaStreamCreateWithFlags(stream, 0); }
int cudaStreamCreateWithPriority(void** stream, unsigned flags, int) { return cudaStreamCreateWithFlags(stream, flags); }
int cudaStreamGetPriority(void*, int* priority) {
  *priority = 0;
  return success;
}
int cudaStreamDestroy(void* stream) {
  CALL(cudaStreamDestroy);
  IN_CONTEXT;
  return said(cuStreamDestroy_v2(stream));
}
int cudaStreamQuery(void* stream) {
  CALL(cudaStreamQuery);
  IN_CONTEXT;
  return said(cuStreamQuery(stream));
}
int cudaStreamSynchronize(void* stream) {
  CALL(cudaStreamSynchronize);
  IN_CONTEXT;
  return said(cuStreamSynchronize(stream));
}
int cudaStreamWaitEvent(void* stream, void* event, unsigned flags) {
  CALL(cudaStreamWaitEvent);
  IN_CONTEXT;
  return said(cuStreamWaitEvent(stream, event, flags));
}
int cudaLaunchHostFunc(void* stream, void (*f)(void*), void* data) {
  CALL(cudaLaunchHostFunc);
  IN_CONTEXT;
  return said(enqueue(stream, [=] { f(data); }));
}
int cudaStreamAddCallback(void* stream, void (*f)(void*, int, void*), void* data, unsigned) {
  CALL(cudaStreamAddCallback);
  IN_CONTEXT;
  return said(enqueue(stream, [=] { f(stream, success, data); }));
}

// Events. They have no times.

int cudaEventCreateWithFlags(void** event, unsigned flags) {
  CALL(cudaEventCreateWithFlags);
  IN_CONTEXT;
  return said(cuEventCreate(event, flags));
}
int cudaEventCreate(void** event) { return cudaEventCreateWithFlags(event, 0); }
int cudaEventDestroy(void* event) { return said(cuEventDestroy_v2(event)); }
int cudaEventRecord(void* event, void* stream) {
  CALL(cudaEventRecord);
  IN_CONTEXT;
  return said(cuEventRecord(event, stream));
}
int cudaEventRecordWithFlags(void* event, void* stream, unsigned) { return cudaEventRecord(event, stream); }
int cudaEventQuery(void* event) {
  CALL(cudaEventQuery);
  IN_CONTEXT;
  return said(cuEventQuery(event));
}
int cudaEventSynchronize(void* event) {
  CALL(cudaEventSynchronize);
  IN_CONTEXT;
  return said(cuEventSynchronize(event));
}
int cudaEventElapsedTime(float*, void*, void*) { return said(not_supported); }

// Captures and graphs.

int cudaThreadExchangeStreamCaptureMode(int* mode) { return said(cuThreadExchangeStreamCaptureMode(mode)); }
int cudaStreamBeginCapture(void* stream, int mode) {
  CALL(cudaStreamBeginCapture);
  IN_CONTEXT;
  return said(cuStreamBeginCapture_v2(stream, mode));
}
int cudaStreamEndCapture(void* stream, void** graph) {
  CALL(cudaStreamEndCapture);
  IN_CONTEXT;
  return said(cuStreamEndCapture(stream, graph));
}
int cudaStreamIsCapturing(void* stream, int* status) {
  IN_CONTEXT;
  return said(cuStreamIsCapturing(stream, status));
}
// What is captured is a chain: a node is the number of those up to it, and depends on the one before.
int cudaStreamGetCaptureInfo(void* stream, int* status, unsigned long long* id, void** graph, const size_t** nodes,
                             const void** edges, size_t* count) {
  IN_CONTEXT;
  thread_local size_t last_node;
  void* found = nullptr;
  if (int r = cuStreamGetCaptureInfo_v2(stream, status, id, &found, nullptr, nullptr)) return said(r);
  last_node = found ? static_cast<Graph*>(found)->nodes.size() : 0;
  if (graph) *graph = found;
  if (nodes) *nodes = &last_node;
  if (edges) *edges = nullptr;
  if (count) *count = last_node > 0;
  return success;
}
int cudaGraphNodeGetDependencies(size_t node, size_t* before, void* edges, size_t* count) {
  if (edges) return said(not_supported);
  if (before && node > 1) *before = node - 1;
  *count = node > 1;
  return success;
}
int cudaStreamUpdateCaptureDependencies(void*, void**, const void*, size_t, unsigned) { return said(not_supported); }
int cudaGraphInstantiateWithFlags(void** made, void* graph, unsigned long long flags) {
  CALL(cudaGraphInstantiateWithFlags);
  IN_CONTEXT;
  return said(cuGraphInstantiateWithFlags(made, graph, flags));
}
int cudaGraphInstantiate(void** made, void* graph, unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(made, graph, flags);
}
int cudaGraphLaunch(void* made, void* stream) {
  CALL(cudaGraphLaunch);
  IN_CONTEXT;
  return said(cuGraphLaunch(made, stream));
}
int cudaGraphDestroy(void* graph) { return said(cuGraphDestroy(graph)); }
int cudaGraphExecDestroy(void* made) { return said(cuGraphExecDestroy(made)); }
int cudaGraphGetNodes(void* graph, void** nodes, size_t* count) {
  if (nodes) return said(not_supported);
  *count = static_cast<Graph*>(graph)->nodes.size();
  return success;
}

// Kernels.

unsigned __cudaPushCallConfiguration(Dimensions grid, Dimensions block, size_t shared, void* stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
int __cudaPopCallConfiguration(Dimensions* grid, Dimensions* block, size_t* shared, void* stream) {
  const Configuration c = configurations.back();
  configurations.pop_back();
  *grid = c.grid;
  *block = c.block;
  *shared = c.shared;
  *static_cast<void**>(stream) = c.stream;
  return success;
}
int __cudaGetKernel(const void** kernel, const void* function) {
  *kernel = function;
  return success;
}
int __cudaLaunchKernel(const void*, Dimensions, Dimensions, void**, size_t, void*) { return launch(); }
int cudaLaunchKernel(const void*, Dimensions, Dimensions, void**, size_t, void*) { return launch(); }
int cudaLaunchKernelExC(const void*, const void*, void**) { return launch(); }
int cudaFuncGetAttributes(void*, const void*) { return said(not_supported); }
int cudaFuncSetAttribute(const void*, int, int) { return said(not_supported); }
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int*, const void*, int, size_t) { return said(not_supported); }
int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int*, const void*, int, size_t, unsigned) {
  return said(not_supported);
}

}  // extern "C"
