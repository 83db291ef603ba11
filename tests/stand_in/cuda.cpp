// A stand-in for libcuda.so: its streams queue, and what is queued runs on the host when somebody waits for it, so that
// a missing synchronisation shows. Fills the places of CUDA 12's driver API that Madelung and its tests call.
#include "cuda.hpp"

using namespace stand_in;

namespace {

std::recursive_mutex lock;
Arena* arena;
std::map<Address, Allocation> allocations;
std::vector<std::unique_ptr<Context>> contexts;
std::set<Event*> events;
std::set<Module*> modules;
std::set<Graph*> graphs;
std::vector<size_t> used;
size_t limit;
unsigned long long turns = 0, order_seed = 0;
int order_kind = 0;
std::string message;
thread_local std::vector<Context*> stack;
thread_local int capture_mode = 0;
// Outlive their threads: what is queued does.
thread_local std::map<Context*, Stream*> per_thread;

Context* current() { return stack.empty() ? nullptr : stack.back(); }
int devices() { return int(environment("STAND_IN_DEVICES", 2)); }
int capability() { return int(environment("STAND_IN_CAPABILITY", 90)); }

bool live(Stream* s) { return s->context->legacy.get() == s || s->context->streams.count(s); }

// The stream behind a handle; null is no stream.
Stream* stream_of(void* handle) {
  Context* c = current();
  if (!c) return nullptr;
  const auto raw = reinterpret_cast<size_t>(handle);
  if (raw < 2) return c->legacy.get();
  if (raw == 2) {
    auto& s = per_thread[c];
    if (!s) c->streams.insert(s = new Stream{c, true, {}, nullptr});
    return s;
  }
  for (auto& context : contexts)
    if (context->streams.count(static_cast<Stream*>(handle))) return static_cast<Stream*>(handle);
  return nullptr;
}

// Runs a stream's queue up to a turn. Work of the legacy stream and that of blocking streams wait for each other.
Result drain(Stream* s, unsigned long long turn) {
  Context* c = s->context;
  while (!s->queue.empty() && s->queue.front().turn <= turn) {
    Operation next = std::move(s->queue.front());
    s->queue.pop_front();
    if (s == c->legacy.get()) {
      for (Stream* other : std::set<Stream*>(c->streams))
        if (other->blocking) drain(other, next.turn);
    } else if (s->blocking) {
      drain(c->legacy.get(), next.turn);
    }
    if (c->sticky) continue;
    Arena::Open open(*arena);
    c->sticky = next.run();
  }
  return c->sticky;
}
Result drain(Context* c) {
  drain(c->legacy.get(), turns);
  for (Stream* s : std::set<Stream*>(c->streams)) drain(s, turns);
  return c->sticky;
}

// What may not be called while a stream captures: it breaks the captures that forbid it.
Result forbidden() {
  bool found = false;
  for (auto& c : contexts)
    for (Stream* s : c->streams)
      if (s->capture && capture_mode != 2 && s->capture->mode != 2 &&
          (s->capture->mode == 0 || s->capture->thread == std::this_thread::get_id())) {
        s->capture->valid = false;
        found = true;
      }
  return found ? capture_unsupported : success;
}

Result enqueue(Stream* s, std::function<Result()> run) {
  if (s->context->sticky) return s->context->sticky;
  if (s->capture) {
    if (!s->capture->valid) return capture_invalidated;
    s->capture->graph->nodes.push_back(std::move(run));
    return success;
  }
  if (s == s->context->legacy.get())
    for (Stream* other : s->context->streams)
      if (other->capture && other->blocking) {
        other->capture->valid = false;
        return capture_implicit;
      }
  s->queue.push_back({++turns, std::move(run)});
  return success;
}

std::map<Address, Allocation>::iterator find(Address p) {
  auto found = allocations.upper_bound(p);
  if (found == allocations.begin()) return allocations.end();
  --found;
  return p - found->first < found->second.bytes && !found->second.leaving ? found : allocations.end();
}
bool covers(Address p, size_t n) {
  auto found = find(p);
  return found != allocations.end() && p + n <= found->first + found->second.bytes && current() &&
         found->second.device == current()->device;
}

// Freed and fresh memory: bits that are no number.
void poison(Address p, size_t n) {
  Arena::Open open(*arena);
  std::memset(reinterpret_cast<void*>(p), 0xff, n);
}
Result allocate(Address* p, size_t n) {
  Context* c = current();
  if (!c) return invalid_context;
  if (c->sticky) return c->sticky;
  if (!n || !p) return invalid_value;
  const size_t room = (n + 511) / 256 * 256;  // a gap behind everything
  if (used[c->device] + n > limit) return out_of_memory;
  Address at = Address(arena->base);
  for (auto& a : allocations) {
    if (a.first - at >= room) break;
    at = a.first + (a.second.bytes + 511) / 256 * 256;
  }
  if (at + room > Address(arena->base) + Arena::bytes) return out_of_memory;
  used[c->device] += n;
  allocations[at] = {n, c->device};
  poison(at, n);
  *p = at;
  return success;
}
void release(Address p) {
  auto found = allocations.find(p);
  used[found->second.device] -= found->second.bytes;
  poison(p, found->second.bytes);
  allocations.erase(found);
}

void start() {
  if (arena) return;
  arena = new Arena;
  limit = size_t(environment("STAND_IN_MEMORY", 1ll << 30));
  for (int d = 0; d < devices(); ++d) {
    contexts.push_back(std::make_unique<Context>());
    contexts[d]->device = d;
    contexts[d]->legacy = std::make_unique<Stream>(Stream{contexts[d].get(), true, {}, nullptr});
  }
  used.assign(contexts.size(), 0);
}

Result copy(Stream* s, void* to, const void* from, size_t n) {
  return enqueue(s, [=] {
    std::memcpy(to, from, n);
    return success;
  });
}
Result copy_now(void* to, const void* from, size_t n) {
  if (Result r = forbidden()) return r;
  Stream* s = current()->legacy.get();
  if (Result r = copy(s, to, from, n)) return r;
  return drain(s, turns);
}

}  // namespace

#define ENTER(name)                                  \
  log(#name);                                        \
  std::lock_guard<std::recursive_mutex> held(lock)
#define STARTED \
  if (!arena) return not_initialized
#define IN_CONTEXT                                          \
  if (!arena) return not_initialized;                       \
  if (!current()) return invalid_context;                   \
  if (current()->sticky) return current()->sticky
#define ON_STREAM(handle)                      \
  IN_CONTEXT;                                  \
  Stream* const s = stream_of(handle);         \
  if (!s || !live(s)) return invalid_handle

extern "C" {

// For tests and for the other stand-ins.
void stand_in_order(int kind, unsigned long long seed) {
  std::lock_guard<std::recursive_mutex> held(lock);
  order_kind = kind;
  order_seed = seed;
}
// Bytes that each device has.
void stand_in_memory(size_t bytes) {
  std::lock_guard<std::recursive_mutex> held(lock);
  start();
  limit = bytes;
}
// What the last kernel that failed said.
const char* stand_in_message() { return message.c_str(); }
// Queues work on a stream, with device memory open while it runs.
int stand_in_enqueue(void* handle, void (*run)(void*), void* data, void (*drop)(void*)) {
  std::lock_guard<std::recursive_mutex> held(lock);
  std::shared_ptr<void> kept(data, drop);
  ON_STREAM(handle);
  return enqueue(s, [=] {
    run(kept.get());
    return success;
  });
}

int cuInit(unsigned flags) {
  ENTER(cuInit);
  if (flags) return invalid_value;
  if (devices() < 1) return no_device;
  start();
  return success;
}
int cuDriverGetVersion(int* version) {
  ENTER(cuDriverGetVersion);
  *version = 12080;
  return success;
}
int cuGetErrorName(int error, const char** name) {
  static const std::map<int, const char*> names = {
      {0, "CUDA_SUCCESS"}, {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {3, "CUDA_ERROR_NOT_INITIALIZED"},
      {100, "CUDA_ERROR_NO_DEVICE"}, {101, "CUDA_ERROR_INVALID_DEVICE"}, {200, "CUDA_ERROR_INVALID_IMAGE"},
      {201, "CUDA_ERROR_INVALID_CONTEXT"}, {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {400, "CUDA_ERROR_INVALID_HANDLE"},
      {500, "CUDA_ERROR_NOT_FOUND"}, {600, "CUDA_ERROR_NOT_READY"}, {719, "CUDA_ERROR_LAUNCH_FAILED"},
      {801, "CUDA_ERROR_NOT_SUPPORTED"}, {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
      {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"}, {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"},
      {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"}, {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"}};
  auto found = names.find(error);
  *name = found == names.end() ? nullptr : found->second;
  return found == names.end() ? invalid_value : success;
}
int cuGetErrorString(int error, const char** text) {
  const char* name;
  if (int r = cuGetErrorName(error, &name)) return r;
  *text = error == launch_failed ? "unspecified launch failure" : "as the stand-in has it";
  return success;
}

int cuDeviceGetCount(int* count) {
  ENTER(cuDeviceGetCount);
  STARTED;
  *count = int(contexts.size());
  return success;
}
int cuDeviceGet(int* device, int ordinal) {
  ENTER(cuDeviceGet);
  STARTED;
  if (ordinal < 0 || ordinal >= int(contexts.size())) return invalid_device;
  *device = ordinal;
  return success;
}
int cuDeviceGetName(char* name, int length, int) {
  ENTER(cuDeviceGetName);
  std::snprintf(name, length, "stand-in");
  return success;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  ENTER(cuDeviceTotalMem_v2);
  STARTED;
  *bytes = limit;
  return success;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  ENTER(cuDeviceGetAttribute);
  STARTED;
  if (device < 0 || device >= int(contexts.size())) return invalid_device;
  switch (attribute) {
    case 1: *value = 1024; break;                // threads per block
    case 8: *value = 48 << 10; break;            // shared memory per block
    case 10: *value = 32; break;                 // threads of a warp
    case 16: *value = 4; break;                  // multiprocessors
    case 39: *value = 2048; break;               // threads per multiprocessor
    case 75: *value = capability() / 10; break;  // compute capability
    case 76: *value = capability() % 10; break;
    case 97: *value = 48 << 10; break;           // shared memory per block, opted in
    case 115: *value = 1; break;                 // memory pools
    default: *value = 0;
  }
  return success;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  ENTER(cuDevicePrimaryCtxRetain);
  STARTED;
  if (device < 0 || device >= int(contexts.size())) return invalid_device;
  ++contexts[device]->retained;
  *context = contexts[device].get();
  return success;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  ENTER(cuDevicePrimaryCtxRelease_v2);
  STARTED;
  if (device < 0 || device >= int(contexts.size())) return invalid_device;
  return contexts[device]->retained-- > 0 ? success : invalid_context;
}
int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  ENTER(cuDevicePrimaryCtxGetState);
  STARTED;
  if (device < 0 || device >= int(contexts.size())) return invalid_device;
  *flags = 0;
  *active = contexts[device]->retained > 0;
  return success;
}
int cuCtxGetCurrent(void** context) {
  ENTER(cuCtxGetCurrent);
  *context = current();
  return success;
}
int cuCtxSetCurrent(void* context) {
  ENTER(cuCtxSetCurrent);
  if (!stack.empty()) stack.pop_back();
  if (context) stack.push_back(static_cast<Context*>(context));
  return success;
}
int cuCtxPushCurrent_v2(void* context) {
  ENTER(cuCtxPushCurrent_v2);
  if (!context) return invalid_context;
  stack.push_back(static_cast<Context*>(context));
  return success;
}
int cuCtxPopCurrent_v2(void** context) {
  ENTER(cuCtxPopCurrent_v2);
  if (stack.empty()) return invalid_context;
  if (context) *context = stack.back();
  stack.pop_back();
  return success;
}
int cuCtxGetDevice(int* device) {
  ENTER(cuCtxGetDevice);
  if (!current()) return invalid_context;
  *device = current()->device;
  return success;
}
int cuCtxSynchronize() {
  ENTER(cuCtxSynchronize);
  IN_CONTEXT;
  if (Result r = forbidden()) return r;
  return drain(current());
}

int cuStreamCreate(void** stream, unsigned flags) {
  ENTER(cuStreamCreate);
  IN_CONTEXT;
  auto* s = new Stream{current(), !(flags & 1), {}, nullptr};
  current()->streams.insert(s);
  *stream = s;
  return success;
}
int cuStreamDestroy_v2(void* stream) {
  ENTER(cuStreamDestroy_v2);
  ON_STREAM(stream);
  drain(s, turns);
  s->context->streams.erase(s);
  delete s;
  return success;
}
int cuStreamSynchronize(void* stream) {
  ENTER(cuStreamSynchronize);
  ON_STREAM(stream);
  if (s->capture) s->capture->valid = false;
  if (s->capture) return capture_unsupported;
  if (s == s->context->legacy.get())
    for (Stream* other : std::set<Stream*>(s->context->streams))
      if (other->blocking) drain(other, turns);
  return drain(s, turns);
}
int cuStreamQuery(void* stream) {
  ENTER(cuStreamQuery);
  ON_STREAM(stream);
  if (s->capture) s->capture->valid = false;
  if (s->capture) return capture_unsupported;
  return drain(s, turns);
}
int cuStreamGetCtx(void* stream, void** context) {
  ENTER(cuStreamGetCtx);
  ON_STREAM(stream);
  *context = s->context;
  return success;
}
int cuStreamGetId(void* stream, unsigned long long* id) {
  ENTER(cuStreamGetId);
  ON_STREAM(stream);
  *id = s->id;
  return success;
}
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  ENTER(cuStreamWaitEvent);
  ON_STREAM(stream);
  auto* e = static_cast<Event*>(event);
  if (!events.count(e)) return invalid_handle;
  if (!e->stream) return success;
  return enqueue(s, [other = e->stream, turn = e->turn] { return live(other) ? drain(other, turn) : success; });
}

int cuEventCreate(void** event, unsigned) {
  ENTER(cuEventCreate);
  IN_CONTEXT;
  auto* e = new Event{current()};
  events.insert(e);
  *event = e;
  return success;
}
int cuEventDestroy_v2(void* event) {
  ENTER(cuEventDestroy_v2);
  if (!events.erase(static_cast<Event*>(event))) return invalid_handle;
  delete static_cast<Event*>(event);
  return success;
}
int cuEventRecord(void* event, void* stream) {
  ENTER(cuEventRecord);
  ON_STREAM(stream);
  auto* e = static_cast<Event*>(event);
  if (!events.count(e) || e->context != s->context) return invalid_handle;
  if (s->capture) return not_supported;
  e->stream = s;
  e->turn = turns;
  return success;
}
int cuEventSynchronize(void* event) {
  ENTER(cuEventSynchronize);
  IN_CONTEXT;
  auto* e = static_cast<Event*>(event);
  if (!events.count(e)) return invalid_handle;
  return e->stream && live(e->stream) ? drain(e->stream, e->turn) : success;
}
int cuEventQuery(void* event) {
  ENTER(cuEventQuery);
  IN_CONTEXT;
  auto* e = static_cast<Event*>(event);
  if (!events.count(e)) return invalid_handle;
  return e->stream && live(e->stream) ? drain(e->stream, e->turn) : success;
}

int cuMemAlloc_v2(Address* p, size_t n) {
  ENTER(cuMemAlloc_v2);
  IN_CONTEXT;
  if (Result r = forbidden()) return r;
  return allocate(p, n);
}
int cuMemFree_v2(Address p) {
  ENTER(cuMemFree_v2);
  IN_CONTEXT;
  if (!p) return success;
  if (Result r = forbidden()) return r;
  auto found = find(p);
  if (found == allocations.end() || found->first != p) return invalid_value;
  if (Result r = drain(contexts[found->second.device].get())) return r;
  release(p);
  return success;
}
int cuMemAllocAsync(Address* p, size_t n, void* stream) {
  ENTER(cuMemAllocAsync);
  ON_STREAM(stream);
  if (s->capture) s->capture->valid = false;
  return s->capture ? not_supported : allocate(p, n);
}
int cuMemFreeAsync(Address p, void* stream) {
  ENTER(cuMemFreeAsync);
  ON_STREAM(stream);
  auto found = find(p);
  if (found == allocations.end() || found->first != p) return invalid_value;
  if (s->capture) s->capture->valid = false;
  if (s->capture) return not_supported;
  found->second.leaving = true;
  return enqueue(s, [=] {
    release(p);
    return success;
  });
}
int cuMemGetInfo_v2(size_t* free, size_t* total) {
  ENTER(cuMemGetInfo_v2);
  IN_CONTEXT;
  *total = limit;
  *free = limit - std::min(limit, used[current()->device]);
  return success;
}
int cuPointerGetAttribute(void* data, int attribute, Address p) {
  ENTER(cuPointerGetAttribute);
  STARTED;
  auto found = find(p);
  if (found == allocations.end()) return invalid_value;
  switch (attribute) {
    case 1: *static_cast<void**>(data) = contexts[found->second.device].get(); return success;
    case 2: *static_cast<unsigned*>(data) = 2; return success;  // device memory
    case 3: *static_cast<Address*>(data) = p; return success;
    case 9: *static_cast<int*>(data) = found->second.device; return success;
    default: return invalid_value;
  }
}
int cuPointerGetAttributes(unsigned count, int* attributes, void** data, Address p) {
  ENTER(cuPointerGetAttributes);
  STARTED;
  auto found = find(p);
  for (unsigned n = 0; n < count; ++n) {
    // What is no pointer of CUDA's has no attribute, and that is no error.
    const bool known = found != allocations.end();
    switch (attributes[n]) {
      case 1: *static_cast<void**>(data[n]) = known ? contexts[found->second.device].get() : nullptr; break;
      case 2: *static_cast<unsigned*>(data[n]) = known ? 2 : 0; break;
      case 9: *static_cast<int*>(data[n]) = known ? found->second.device : -2; break;
      case 11: *static_cast<Address*>(data[n]) = known ? found->first : 0; break;
      case 12: *static_cast<size_t*>(data[n]) = known ? found->second.bytes : 0; break;
      default: return invalid_value;
    }
  }
  return success;
}

int cuMemcpyHtoD_v2(Address to, const void* from, size_t n) {
  ENTER(cuMemcpyHtoD_v2);
  IN_CONTEXT;
  return covers(to, n) ? copy_now(reinterpret_cast<void*>(to), from, n) : invalid_value;
}
int cuMemcpyDtoH_v2(void* to, Address from, size_t n) {
  ENTER(cuMemcpyDtoH_v2);
  IN_CONTEXT;
  return covers(from, n) ? copy_now(to, reinterpret_cast<void*>(from), n) : invalid_value;
}
int cuMemcpyDtoD_v2(Address to, Address from, size_t n) {
  ENTER(cuMemcpyDtoD_v2);
  IN_CONTEXT;
  if (!covers(to, n) || !covers(from, n)) return invalid_value;
  return copy_now(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), n);
}
int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t n, void* stream) {
  ENTER(cuMemcpyHtoDAsync_v2);
  ON_STREAM(stream);
  return covers(to, n) ? copy(s, reinterpret_cast<void*>(to), from, n) : invalid_value;
}
int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t n, void* stream) {
  ENTER(cuMemcpyDtoHAsync_v2);
  ON_STREAM(stream);
  return covers(from, n) ? copy(s, to, reinterpret_cast<void*>(from), n) : invalid_value;
}
int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t n, void* stream) {
  ENTER(cuMemcpyDtoDAsync_v2);
  ON_STREAM(stream);
  if (!covers(to, n) || !covers(from, n)) return invalid_value;
  log_queued("copy " + std::to_string(n));
  return copy(s, reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), n);
}
int cuMemsetD8Async(Address p, unsigned char value, size_t n, void* stream) {
  ENTER(cuMemsetD8Async);
  ON_STREAM(stream);
  if (!covers(p, n)) return invalid_value;
  log_queued("fill " + std::to_string(n));
  return enqueue(s, [=] {
    std::memset(reinterpret_cast<void*>(p), value, n);
    return success;
  });
}

}  // extern "C"

#include "cuda_launch.hpp"
