// An emulation of CUDA for a host's C++ compiler: this text goes ahead of CUDA text. A launch runs block after block; a
// thread is a fiber that is left only at a barrier or another collective operation, so kernels without them cost a call
// per thread. The order of blocks and threads is chosen by the caller.
#undef _FORTIFY_SOURCE  // its longjmp refuses to leave a fiber
#include <csetjmp>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <sys/mman.h>
#include <type_traits>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))

#define STAND_IN_VECTORS(T, name, align2, align4)                                                                  \
  struct name##1 { T x; };                                                                                         \
  struct alignas(align2) name##2 { T x, y; };                                                                      \
  struct name##3 { T x, y, z; };                                                                                   \
  struct alignas(align4) name##4 { T x, y, z, w; };                                                                \
  inline name##1 make_##name##1(T x) { return {x}; }                                                               \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                                       \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                                               \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
STAND_IN_VECTORS(float, float, 8, 16)
STAND_IN_VECTORS(double, double, 16, 16)
STAND_IN_VECTORS(int, int, 8, 16)
STAND_IN_VECTORS(unsigned, uint, 8, 16)
STAND_IN_VECTORS(short, short, 4, 8)
STAND_IN_VECTORS(unsigned short, ushort, 4, 8)
STAND_IN_VECTORS(unsigned char, uchar, 2, 4)
STAND_IN_VECTORS(long long, longlong, 16, 16)
STAND_IN_VECTORS(unsigned long long, ulonglong, 16, 16)
#undef STAND_IN_VECTORS
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

static thread_local uint3 blockIdx, threadIdx;
static thread_local dim3 blockDim, gridDim;
static constexpr int warpSize = 32;

// Each library its own: several are loaded at once, and their fibers must not be mixed.
namespace stand_in {
namespace {

// The order of a launch's blocks, and of the threads of each block between two barriers.
struct Order {
  enum Kind : int { forwards, backwards, shuffled } kind = forwards;
  unsigned long long seed = 0;
};

// Stacks side by side: one mapping and a page that nobody may touch, as a process may have 65,530 mappings and blocks of
// every library in every thread have stacks.
struct Stacks {
  static constexpr size_t number = 32, bytes = 256 << 10, guard = 4096;
  char* memory;

  Stacks() {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
    void* const all = mmap(nullptr, number * bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (all == MAP_FAILED || mprotect(all, guard, PROT_NONE)) {
      std::perror("fibers' stacks");
      std::abort();
    }
    memory = static_cast<char*>(all);
  }
  Stacks(const Stacks&) = delete;
  ~Stacks() { munmap(memory, number * bytes); }
};

// A stack that threads run on, one at a time.
struct Fiber {
  static constexpr unsigned long long mark = 0x5354414E44494E21;
  ucontext_t start;
  jmp_buf at;
  char* memory;
  bool begun = false;

  explicit Fiber(char* memory) : memory(memory) {}
  Fiber(const Fiber&) = delete;
  // The last number of the stack, behind the page that nobody may touch.
  unsigned long long& end() { return *reinterpret_cast<unsigned long long*>(memory + Stacks::guard); }
  // A stack that has overflowed has overwritten it.
  void check() {
    if (end() == mark) return;
    std::fprintf(stderr, "the stack of a thread of a kernel has overflowed\n");
    std::abort();
  }
};

// What an exchange gives a thread.
enum class Gets { from_source, votes };

struct Thread {
  enum State { fresh, ready, in_block, in_warp, left } state = fresh;
  Fiber* fiber = nullptr;
  // The collective operation at which it waits: its name, the value given, the source, and the value received.
  const char* what = nullptr;
  int line = 0, source = 0;
  unsigned mask = 0;
  Gets gets = Gets::from_source;
  unsigned long long given = 0, got = 0;
  // The number of barriers of the block and exchanges of the warp so far.
  unsigned barriers = 0, exchanges = 0;
};

// The block that runs on this thread of the host.
class Block {
 public:
  // Runs a launch; returns an error message, or null.
  const char* launch(dim3 grid, dim3 block, Order order, void (*kernel)(void*), void* arguments) {
    this->kernel = kernel;
    this->arguments = arguments;
    this->order = order;
    random = order.seed * 0x9E3779B97F4A7C15ull + 1;
    gridDim = grid;
    blockDim = block;
    threads.resize(size_t(block.x) * block.y * block.z);
    std::vector<unsigned> blocks(size_t(grid.x) * grid.y * grid.z);
    arrange(blocks);
    message[0] = 0;
    for (unsigned n : blocks) {
      blockIdx = {n % grid.x, n / grid.x % grid.y, n / grid.x / grid.y};
      run();
      if (message[0]) break;
    }
    trim();
    return message[0] ? message : nullptr;
  }

  // All threads of the block; how many gave true.
  unsigned long long barrier(const char* what, int line, bool given) {
    wait(Thread::in_block, what, line, ~0u, 0, given);
    ++threads[current].barriers;
    if (gone) fail("%s in line %d: a thread has left the kernel before it", what, line);
    if (met && (met_line != line || !same(met_what, what)))
      fail("%s in line %d meets %s in line %d: a barrier must be the same for a whole block", what, line, met_what, met_line);
    met_what = what;
    met_line = line;
    sum += given;
    if (++met == threads.size()) {
      for (Thread& t : threads) {
        t.state = Thread::ready;
        t.got = sum;
      }
      met = sum = 0;
    }
    // The last thread waits as well, or it would always be the first to go on.
    pause(threads[current].fiber);
    return threads[current].got;
  }

  // An exchange among the lanes of a warp that a mask names and that have not left the kernel; returns the source's value, or
  // the lanes with a nonzero value.
  unsigned long long exchange(const char* what, int line, unsigned mask, Gets gets, int source, unsigned long long given) {
    const size_t first = current & ~size_t(31);
    if (!(mask >> (current - first) & 1)) fail("%s in line %d: the mask %08x leaves out its own lane", what, line, mask);
    wait(Thread::in_warp, what, line, mask, source, given);
    threads[current].gets = gets;
    ++threads[current].exchanges;
    for (int lane = 0; lane < 32; ++lane) {
      if (!(mask >> lane & 1)) continue;
      if (first + lane >= threads.size())
        fail("%s in line %d: the mask %08x names lane %d, which the block does not have", what, line, mask, lane);
      const Thread& t = threads[first + lane];
      if (t.state == Thread::in_warp && (t.mask != mask || !same(t.what, what)))
        fail("%s of lanes %08x in line %d meets %s of lanes %08x in line %d", what, mask, line, t.what, t.mask, t.line);
    }
    settle(first, mask);
    pause(threads[current].fiber);
    return threads[current].got;
  }

  int lane() const { return int(current & 31); }
  // The thread that runs.
  const Thread& running() const { return threads[current]; }
  unsigned number() const { return unsigned(current); }

  [[noreturn]] __attribute__((format(printf, 2, 3))) void fail(const char* format, ...) {
    va_list values;
    va_start(values, format);
    std::vsnprintf(message, sizeof message, format, values);
    va_end(values);
    _longjmp(scheduler, 1);
  }

 private:
  void (*kernel)(void*) = nullptr;
  void* arguments = nullptr;
  Order order;
  unsigned long long random = 1;
  std::vector<Thread> threads;
  std::vector<unsigned> turns;
  size_t turn = 0, current = 0;
  // Threads that have left the kernel, those that wait at a barrier, what they gave, and which barrier it is.
  size_t gone = 0, met = 0, sum = 0;
  const char* met_what = nullptr;
  int met_line = 0;
  std::vector<std::unique_ptr<Stacks>> stacks;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Fiber*> idle;
  jmp_buf scheduler;
  char message[512];

  // Names of operations, which are one text where they stand in one line.
  static bool same(const char* a, const char* b) { return a == b || !std::strcmp(a, b); }

  void arrange(std::vector<unsigned>& all) {
    std::iota(all.begin(), all.end(), 0u);
    if (order.kind == Order::backwards)
      for (size_t n = 0; n < all.size(); ++n) all[n] = unsigned(all.size() - 1 - n);
    if (order.kind != Order::shuffled) return;
    for (size_t n = all.size(); n > 1; --n) {
      random ^= random << 13;
      random ^= random >> 7;
      random ^= random << 17;
      std::swap(all[n - 1], all[random % n]);
    }
  }

  void run() {
    for (Thread& t : threads) t = Thread();
    gone = met = sum = 0;
    turns.resize(threads.size());
    for (bool moved = true, all_left = false; !all_left;) {
      moved = false;
      all_left = true;
      arrange(turns);
      for (turn = 0; turn < turns.size(); ++turn) {
        const Thread::State state = threads[turns[turn]].state;
        if (state != Thread::fresh && state != Thread::ready) continue;
        enter(turns[turn]);
        moved = true;
        if (message[0]) return give_up();
      }
      for (const Thread& t : threads) all_left &= t.state == Thread::left;
      if (!moved && !all_left) return describe();
    }
  }

  // Keeps as many stacks as most blocks have threads.
  void trim() {
    constexpr size_t kept = 4;
    if (stacks.size() <= kept) return;
    fibers.resize(kept * Stacks::number);
    stacks.resize(kept);
    idle.clear();
    for (auto& fiber : fibers) idle.push_back(fiber.get());
  }

  // The contents of the stacks are discarded.
  void give_up() {
    idle.clear();
    for (auto& fiber : fibers) {
      fiber->begun = false;
      idle.push_back(fiber.get());
    }
  }

  void describe() {
    give_up();
    const Thread *waits = nullptr, *other = nullptr;
    for (const Thread& t : threads)
      if (t.state == Thread::in_block || (t.state == Thread::in_warp && !waits)) waits = &t;
    for (const Thread& t : threads)
      if (t.state != waits->state) other = &t;
    const size_t n = waits - threads.data();
    if (!other || other->state == Thread::left)
      std::snprintf(message, sizeof message, "thread %zu waits at %s in line %d, which other threads never reach", n, waits->what,
                    waits->line);
    else
      std::snprintf(message, sizeof message, "thread %zu waits at %s in line %d, and thread %zu at %s in line %d", n, waits->what,
                    waits->line, size_t(other - threads.data()), other->what, other->line);
  }

  void become(size_t n) {
    current = n;
    threadIdx = {unsigned(n % blockDim.x), unsigned(n / blockDim.x % blockDim.y), unsigned(n / blockDim.x / blockDim.y)};
  }

  // Runs a thread until it waits or leaves.
  __attribute__((noinline)) void enter(size_t n) {
    become(n);
    Thread& thread = threads[n];
    if (!thread.fiber) {
      if (idle.empty()) {
        stacks.push_back(std::make_unique<Stacks>());
        for (size_t k = 0; k < Stacks::number; ++k) {
          fibers.push_back(std::make_unique<Fiber>(stacks.back()->memory + k * Stacks::bytes));
          idle.push_back(fibers.back().get());
        }
      }
      thread.fiber = idle.back();
      idle.pop_back();
    }
    Fiber* fiber = thread.fiber;
    if (_setjmp(scheduler)) return;
    if (fiber->begun) _longjmp(fiber->at, 1);
    fiber->begun = true;
    fiber->end() = Fiber::mark;
    getcontext(&fiber->start);
    fiber->start.uc_stack.ss_sp = fiber->memory;
    fiber->start.uc_stack.ss_size = Stacks::bytes;
    fiber->start.uc_link = nullptr;
    const auto self = reinterpret_cast<unsigned long long>(this);
    makecontext(&fiber->start, reinterpret_cast<void (*)()>(&Block::begin), 2, unsigned(self), unsigned(self >> 32));
    setcontext(&fiber->start);
  }

  static void begin(unsigned low, unsigned high) {
    reinterpret_cast<Block*>(low | (unsigned long long)high << 32)->work();
  }

  // Threads of which none waits share a fiber without a switch between them.
  [[noreturn]] void work() {
    for (;;) {
      kernel(arguments);
      Thread& done = threads[current];
      Fiber* const fiber = done.fiber;
      done.state = Thread::left;
      ++gone;
      settle_without(current);
      done.fiber = nullptr;
      fiber->check();
      if (turn + 1 < turns.size() && threads[turns[turn + 1]].state == Thread::fresh) {
        ++turn;
        threads[turns[turn]].fiber = fiber;
        become(turns[turn]);
      } else {
        idle.push_back(fiber);
        pause(fiber);
      }
    }
  }

  __attribute__((noinline)) void pause(Fiber* fiber) {
    if (!_setjmp(fiber->at)) _longjmp(scheduler, 1);
  }

  // Ends an exchange where every lane of the mask waits or has left.
  void settle(size_t first, unsigned mask) {
    unsigned here = 0, votes = 0;
    for (int lane = 0; lane < 32; ++lane) {
      if (!(mask >> lane & 1)) continue;
      const Thread& t = threads[first + lane];
      if (t.state == Thread::left) continue;
      if (t.state != Thread::in_warp) return;
      here |= 1u << lane;
      votes |= unsigned(t.given != 0) << lane;
    }
    for (int lane = 0; lane < 32; ++lane) {
      if (!(here >> lane & 1)) continue;
      Thread& t = threads[first + lane];
      t.state = Thread::ready;
      // The value of a lane that takes no part is undefined: bits that are not a number, nor a small one.
      t.got = t.gets == Gets::votes ? votes : here >> t.source & 1 ? threads[first + t.source].given : ~0ull - 2;
    }
  }

  // Ends the exchange that waits for a thread that leaves.
  void settle_without(size_t n) {
    const size_t first = n & ~size_t(31);
    for (size_t k = first; k < first + 32 && k < threads.size(); ++k)
      if (threads[k].state == Thread::in_warp && threads[k].mask >> (n - first) & 1) return settle(first, threads[k].mask);
  }

  void wait(Thread::State state, const char* what, int line, unsigned mask, int source, unsigned long long given) {
    Thread& t = threads[current];
    t.state = state;
    t.what = what;
    t.line = line;
    t.mask = mask;
    t.source = source;
    t.given = given;
  }
};

// One for each library: a shared one would leave fibers in the code of another library.
static Block& block() {
  static thread_local Block block;
  return block;
}

// Runs a launch of a function for every thread; returns an error message, or null. The message holds until the next
// launch.
template <class Body> const char* launch(dim3 grid, dim3 threads, Order order, Body body) {
  return block().launch(grid, threads, order, [](void* body) { (*static_cast<Body*>(body))(); }, &body);
}

// A kernel as a driver launches it: the sizes of its parameters, and a call with their addresses.
struct Kernel {
  unsigned count;
  const size_t* sizes;
  const char* (*run)(const unsigned* grid, const unsigned* threads, int order, unsigned long long seed, void** parameters);
};
template <auto function> struct Entry;
template <class... A, void (*function)(A...)> struct Entry<function> {
  static constexpr size_t sizes[sizeof...(A) + 1] = {sizeof(A)..., 0};
  template <size_t... n> static void call(void** parameters, std::index_sequence<n...>) {
    function(*static_cast<A*>(parameters[n])...);
  }
  static const char* run(const unsigned* g, const unsigned* t, int order, unsigned long long seed, void** parameters) {
    return launch({g[0], g[1], g[2]}, {t[0], t[1], t[2]}, Order{Order::Kind(order), seed},
                  [=] { call(parameters, std::index_sequence_for<A...>()); });
  }
  static constexpr Kernel kernel = {sizeof...(A), sizes, run};
};

template <class T> unsigned long long bits(T value) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "shuffles are of 32 or 64 bits");
  unsigned long long all = 0;
  std::memcpy(&all, &value, sizeof(T));
  return all;
}
template <class To, class From> To same_bits(From from) {
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}
template <class T> T shuffle(const char* what, int line, unsigned mask, T value, int source) {
  return same_bits<T>(block().exchange(what, line, mask, Gets::from_source, source, bits(value)));
}
inline unsigned vote(const char* what, int line, unsigned mask, bool given) {
  return unsigned(block().exchange(what, line, mask, Gets::votes, 0, given));
}

}  // namespace
}  // namespace stand_in

#define STAND_IN_LINE int line = __builtin_LINE()
inline void __syncthreads(STAND_IN_LINE) { stand_in::block().barrier("__syncthreads", line, true); }
inline int __syncthreads_count(int p, STAND_IN_LINE) {
  return int(stand_in::block().barrier("__syncthreads_count", line, p));
}
inline int __syncthreads_or(int p, STAND_IN_LINE) { return stand_in::block().barrier("__syncthreads_or", line, p) != 0; }
inline int __syncthreads_and(int p, STAND_IN_LINE) { return stand_in::block().barrier("__syncthreads_and", line, !p) == 0; }
inline void __syncwarp(unsigned mask = ~0u, STAND_IN_LINE) { stand_in::vote("__syncwarp", line, mask, true); }
inline unsigned __ballot_sync(unsigned mask, int p, STAND_IN_LINE) { return stand_in::vote("__ballot_sync", line, mask, p); }
inline int __any_sync(unsigned mask, int p, STAND_IN_LINE) { return stand_in::vote("__any_sync", line, mask, p) != 0; }
inline int __all_sync(unsigned mask, int p, STAND_IN_LINE) { return stand_in::vote("__all_sync", line, mask, !p) == 0; }
template <class T> T __shfl_sync(unsigned mask, T value, int source, int width = 32, STAND_IN_LINE) {
  const int first = stand_in::block().lane() & -width;
  return stand_in::shuffle("__shfl_sync", line, mask, value, first + (source & (width - 1)));
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, STAND_IN_LINE) {
  const int lane = stand_in::block().lane(), from = lane - int(by);
  return stand_in::shuffle("__shfl_up_sync", line, mask, value, from < (lane & -width) ? lane : from);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, STAND_IN_LINE) {
  const int lane = stand_in::block().lane(), from = lane + int(by);
  return stand_in::shuffle("__shfl_down_sync", line, mask, value, from >= (lane & -width) + width ? lane : from);
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32, STAND_IN_LINE) {
  const int lane = stand_in::block().lane(), from = lane ^ with;
  return stand_in::shuffle("__shfl_xor_sync", line, mask, value, from >= (lane & -width) + width ? lane : from);
}
#undef STAND_IN_LINE
[[noreturn]] inline void __trap() { stand_in::block().fail("__trap"); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

// Atomics, of the types that CUDA has them for and no others; integers wrap.
#define STAND_IN_ATOMIC(name, T, value) \
  __attribute__((no_sanitize("thread"))) inline T name(T* p, T v) { const T old = *p; *p = value; return old; }
STAND_IN_ATOMIC(atomicAdd, int, int(unsigned(old) + unsigned(v)))
STAND_IN_ATOMIC(atomicAdd, unsigned, old + v)
STAND_IN_ATOMIC(atomicAdd, unsigned long long, old + v)
STAND_IN_ATOMIC(atomicAdd, float, old + v)
STAND_IN_ATOMIC(atomicAdd, double, old + v)
STAND_IN_ATOMIC(atomicSub, int, int(unsigned(old) - unsigned(v)))
STAND_IN_ATOMIC(atomicSub, unsigned, old - v)
STAND_IN_ATOMIC(atomicExch, int, v)
STAND_IN_ATOMIC(atomicExch, unsigned, v)
STAND_IN_ATOMIC(atomicExch, unsigned long long, v)
STAND_IN_ATOMIC(atomicExch, float, v)
#define STAND_IN_ORDERED(T)                           \
  STAND_IN_ATOMIC(atomicMax, T, v > old ? v : old) \
  STAND_IN_ATOMIC(atomicMin, T, v < old ? v : old)
STAND_IN_ORDERED(int)
STAND_IN_ORDERED(unsigned)
STAND_IN_ORDERED(long long)
STAND_IN_ORDERED(unsigned long long)
#undef STAND_IN_ORDERED
#define STAND_IN_BITS(T)                      \
  STAND_IN_ATOMIC(atomicAnd, T, old & v)   \
  STAND_IN_ATOMIC(atomicOr, T, old | v)    \
  STAND_IN_ATOMIC(atomicXor, T, old ^ v)   \
  __attribute__((no_sanitize("thread"))) inline T atomicCAS(T* p, T compare, T v) { \
    const T old = *p;                                                               \
    if (old == compare) *p = v;                                                     \
    return old;                                                                     \
  }
STAND_IN_BITS(int)
STAND_IN_BITS(unsigned)
STAND_IN_BITS(unsigned long long)
#undef STAND_IN_BITS
#undef STAND_IN_ATOMIC

template <class T> T __ldg(const T* p) { return *p; }
template <class T> T __ldcs(const T* p) { return *p; }
template <class T> T __ldcg(const T* p) { return *p; }
template <class T> void __stcs(T* p, T v) { *p = v; }
template <class T> void __stcg(T* p, T v) { *p = v; }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline unsigned __umulhi(unsigned x, unsigned y) { return unsigned((unsigned long long)x * y >> 32); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return (unsigned long long)((unsigned __int128)x * y >> 64);
}
inline int __float_as_int(float x) { return stand_in::same_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return stand_in::same_bits<unsigned>(x); }
inline float __int_as_float(int x) { return stand_in::same_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return stand_in::same_bits<float>(x); }
inline long long __double_as_longlong(double x) { return stand_in::same_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return stand_in::same_bits<double>(x); }

using std::acos; using std::asin; using std::atan; using std::atan2; using std::cbrt; using std::ceil; using std::copysign;
using std::cos; using std::cosh; using std::erf; using std::erfc; using std::exp; using std::exp2; using std::expm1;
using std::fabs; using std::floor; using std::fma; using std::fmax; using std::fmin; using std::fmod; using std::frexp;
using std::hypot; using std::ilogb; using std::isfinite; using std::isinf; using std::isnan; using std::ldexp;
using std::llrint; using std::log; using std::log1p; using std::log2; using std::lrint; using std::nearbyint; using std::pow;
using std::rint; using std::round; using std::signbit; using std::sin; using std::sinh; using std::sqrt; using std::tan;
using std::tanh; using std::tgamma; using std::trunc;
inline double rsqrt(double x) { return 1 / sqrt(x); }
inline float rsqrt(float x) { return 1 / sqrt(x); }
inline float rsqrtf(float x) { return 1 / sqrt(x); }
inline void sincos(float x, float* s, float* c) { *s = sin(x); *c = cos(x); }
template <class T> inline void sincospi(T x, T* s, T* c) {
  const T angle = T(3.141592653589793) * (x - 2 * rint(x / 2));
  *s = sin(angle), *c = cos(angle);
}
// exp(x^2) erfc(x): x^2 = h + l exactly, and from 26, where erfc leaves the normal numbers, its asymptotic series.
inline double erfcx(double x) {
  if (!(x < 26)) {
    double sum = 1, term = 1;
    for (int n = 1; n < 9; ++n) sum += term *= -(2 * n - 1) / (2 * x * x);
    return sum / (x * sqrt(acos(-1.0)));
  }
  const double h = x * x, e = exp(h);
  return (e + e * fma(x, x, -h)) * erfc(x);
}
inline float erfcx(float x) { return float(erfcx(double(x))); }
inline float erfcxf(float x) { return float(erfcx(double(x))); }
#define STAND_IN_EXTREMA(T)                                 \
  inline T min(T x, T y) { return y < x ? y : x; }       \
  inline T max(T x, T y) { return x < y ? y : x; }
STAND_IN_EXTREMA(int)
STAND_IN_EXTREMA(unsigned)
STAND_IN_EXTREMA(long long)
STAND_IN_EXTREMA(unsigned long long)
#undef STAND_IN_EXTREMA
inline float min(float x, float y) { return fmin(x, y); }
inline float max(float x, float y) { return fmax(x, y); }
inline double min(double x, double y) { return fmin(x, y); }
inline double max(double x, double y) { return fmax(x, y); }
#define STAND_IN_ROUNDED(T, letter)                                          \
  inline T __##letter##add_rn(T x, T y) { return x + y; }                 \
  inline T __##letter##sub_rn(T x, T y) { return x - y; }                 \
  inline T __##letter##mul_rn(T x, T y) { return x * y; }                 \
  inline T __##letter##div_rn(T x, T y) { return x / y; }                 \
  inline T __##letter##sqrt_rn(T x) { return sqrt(x); }
STAND_IN_ROUNDED(float, f)
STAND_IN_ROUNDED(double, d)
#undef STAND_IN_ROUNDED
inline float __fdividef(float x, float y) { return x / y; }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
inline float __fmaf_rn(float x, float y, float z) { return fma(x, y, z); }
inline float __double2float_rn(double x) { return float(x); }
inline long long __double2ll_rn(double x) { return llrint(x); }
inline double __ll2double_rn(long long x) { return double(x); }
