// A pool of device memory that a user plugs into PyTorch in place of its own allocator, which counts what it is asked for.
#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

extern "C" int cudaMalloc(void** block, size_t bytes);

namespace {
std::mutex turn;
// Blocks that were given back, by size: later work may have them, as PyTorch gives back in the order of its stream.
std::map<size_t, std::vector<void*>> kept;
size_t asked, taken, live, most;
}  // namespace

extern "C" void* pool_take(ptrdiff_t size, int device, void* stream) {
  (void)device, (void)stream;
  const std::lock_guard<std::mutex> lock(turn);
  const size_t bytes = size_t(size);
  ++asked;
  live += bytes;
  most = live > most ? live : most;
  if (!kept[bytes].empty()) {
    void* block = kept[bytes].back();
    kept[bytes].pop_back();
    return block;
  }
  // Nothing is not asked of the driver.
  taken += bytes > 0;
  void* block = nullptr;
  return cudaMalloc(&block, bytes) == 0 ? block : nullptr;
}

extern "C" void pool_give(void* block, ptrdiff_t size, int device, void* stream) {
  (void)device, (void)stream;
  const std::lock_guard<std::mutex> lock(turn);
  live -= size_t(size);
  kept[size_t(size)].push_back(block);
}

// Later requests go to the driver again.
extern "C" void pool_forget() {
  const std::lock_guard<std::mutex> lock(turn);
  kept.clear();
}

// Blocks asked for, those that were new, bytes that are out, and the most that were since the last look.
extern "C" void pool_counts(size_t* counts) {
  const std::lock_guard<std::mutex> lock(turn);
  counts[0] = asked, counts[1] = taken, counts[2] = live, counts[3] = most;
  most = live;
}
