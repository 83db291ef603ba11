// Behind a text that the host's compiler has compiled with -fsanitize=thread: the functions called at each access to
// memory. Two threads of a launch race where one writes bytes that the other reads or writes, and neither a barrier
// lies between them nor the end of the launch: they are of two blocks, or of two warps since the last barrier, or of
// one warp since its last exchange. Then the launch fails. Atomic and volatile accesses do not count, and of memory
// only that of the device.

namespace stand_in {
namespace {

// The last thread that accessed some bytes; `many`: several blocks did.
struct Access {
  unsigned launch, block, thread;
  unsigned short barriers, exchanges : 15, many : 1;
};
struct Cell {
  Access write, read;
};

}  // namespace
}  // namespace stand_in

extern "C" {
// Of the driver, as cuda.hpp has it.
struct Races {
  char *begin, *end;
  stand_in::Cell* cells;
  unsigned launch;
};
Races* stand_in_races;
}

#define STAND_IN_UNSEEN __attribute__((no_sanitize("thread")))

namespace stand_in {
namespace {

STAND_IN_UNSEEN inline bool is_ordered(const Access& before, const Access& now) {
  if (before.launch != now.launch) return true;
  if (before.many || before.block != now.block) return false;
  if (before.thread == now.thread || before.barriers != now.barriers) return true;
  return before.thread / 32 == now.thread / 32 && before.exchanges != now.exchanges;
}

STAND_IN_UNSEEN void race(const char* what, const Access& now, const char* which, const Access& before) {
  char message[200];
  std::snprintf(message, sizeof message, "thread %u of block %u %s what thread %u of block %u %s in the same launch", now.thread,
                now.block, what, before.thread, before.block, which);
  fail(message);
}

STAND_IN_UNSEEN void access(const void* place, size_t bytes, bool writes) {
  const Races* races = stand_in_races;
  const auto at = static_cast<const char*>(place);
  if (!races || at < races->begin || at >= races->end) return;
  const Thread& thread = running();
  Access now;
  now.launch = races->launch;
  now.block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  now.thread = number();
  now.barriers = (unsigned short)thread.barriers;
  now.exchanges = thread.exchanges & 0x7fff;
  // No type has less than two bytes.
  for (size_t n = (at - races->begin) / 2; n <= (at - races->begin + bytes - 1) / 2; ++n) {
    Cell& cell = races->cells[n];
    now.many = 0;
    if (!is_ordered(cell.write, now)) race(writes ? "writes" : "reads", now, "writes", cell.write);
    if (writes) {
      if (!is_ordered(cell.read, now)) race("writes", now, "reads", cell.read);
      cell.write = now;
    } else {
      now.many = cell.read.launch == now.launch && (cell.read.many || cell.read.block != now.block);
      cell.read = now;
    }
  }
}

}  // namespace
}  // namespace stand_in

extern "C" {
#define STAND_IN_ACCESS(n)                                                                             \
  STAND_IN_UNSEEN void __tsan_read##n(void* p) { stand_in::access(p, n, false); }                   \
  STAND_IN_UNSEEN void __tsan_write##n(void* p) { stand_in::access(p, n, true); }                   \
  STAND_IN_UNSEEN void __tsan_unaligned_read##n(void* p) { stand_in::access(p, n, false); }         \
  STAND_IN_UNSEEN void __tsan_unaligned_write##n(void* p) { stand_in::access(p, n, true); }         \
  STAND_IN_UNSEEN void __tsan_volatile_read##n(void*) {}                                            \
  STAND_IN_UNSEEN void __tsan_volatile_write##n(void*) {}                                           \
  STAND_IN_UNSEEN void __tsan_unaligned_volatile_read##n(void*) {}                                  \
  STAND_IN_UNSEEN void __tsan_unaligned_volatile_write##n(void*) {}
STAND_IN_ACCESS(1)
STAND_IN_ACCESS(2)
STAND_IN_ACCESS(4)
STAND_IN_ACCESS(8)
STAND_IN_ACCESS(16)
STAND_IN_UNSEEN void __tsan_read_range(void* p, size_t n) { if (n) stand_in::access(p, n, false); }
STAND_IN_UNSEEN void __tsan_write_range(void* p, size_t n) { if (n) stand_in::access(p, n, true); }
STAND_IN_UNSEEN void __tsan_func_entry(void*) {}
STAND_IN_UNSEEN void __tsan_func_exit() {}
STAND_IN_UNSEEN void __tsan_init() {}
STAND_IN_UNSEEN void __tsan_vptr_read(void*) {}
STAND_IN_UNSEEN void __tsan_vptr_update(void*, void*) {}
}
