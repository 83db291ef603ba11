// An emulation of CUDA for a host's C++ compiler: this text goes ahead of CUDA text, and blocks.cuh, which takes longer to
// compile than a text, behind this one. With STAND_IN_APART it does not, for texts that are linked with blocks.cuh itself,
// compiled behind this one with STAND_IN_BODY.
#undef _FORTIFY_SOURCE  // its longjmp refuses to leave a fiber
#include <cmath>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>
#if !defined(STAND_IN_APART)
#include <csetjmp>
#include <cstdarg>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>
#endif

#if defined(STAND_IN_APART)
#define STAND_IN_ONCE extern __attribute__((visibility("hidden")))
#elif defined(STAND_IN_BODY)
#define STAND_IN_ONCE __attribute__((visibility("hidden")))
#else
#define STAND_IN_ONCE static
#endif

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

STAND_IN_ONCE __thread uint3 blockIdx, threadIdx;
STAND_IN_ONCE __thread dim3 blockDim, gridDim;
static constexpr int warpSize = 32;

namespace stand_in {

// The order of a launch's blocks, and of the threads of each block between two barriers.
struct Order {
  enum Kind : int { forwards, backwards, shuffled } kind = forwards;
  unsigned long long seed = 0;
};

// What an exchange gives a thread.
enum class Gets { from_source, votes };

struct Fiber;
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

// Runs a launch of a function for every thread; returns an error message, or null. The message holds until the next launch.
STAND_IN_ONCE const char* run(dim3 grid, dim3 threads, Order order, void (*kernel)(void*), void* arguments);
// All threads of the block; how many gave true.
STAND_IN_ONCE unsigned long long barrier(const char* what, int line, bool given);
// An exchange among the lanes of a warp that a mask names and that have not left the kernel; returns the source's value, or
// the lanes with a nonzero value.
STAND_IN_ONCE unsigned long long exchange(const char* what, int line, unsigned mask, Gets gets, int source,
                                          unsigned long long given);
// The thread that runs, its number in the block and in its warp.
STAND_IN_ONCE const Thread& running();
STAND_IN_ONCE unsigned number();
STAND_IN_ONCE int lane();
// Ends the launch with an error message.
[[noreturn]] STAND_IN_ONCE void fail(const char* message);

namespace {

// The same of a function object.
template <class Body> const char* launch(dim3 grid, dim3 threads, Order order, Body body) {
  return run(grid, threads, order, [](void* body) { (*static_cast<Body*>(body))(); }, &body);
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
  return same_bits<T>(exchange(what, line, mask, Gets::from_source, source, bits(value)));
}
inline unsigned vote(const char* what, int line, unsigned mask, bool given) {
  return unsigned(exchange(what, line, mask, Gets::votes, 0, given));
}

}  // namespace
}  // namespace stand_in

#define STAND_IN_LINE int line = __builtin_LINE()
inline void __syncthreads(STAND_IN_LINE) { stand_in::barrier("__syncthreads", line, true); }
inline int __syncthreads_count(int p, STAND_IN_LINE) {
  return int(stand_in::barrier("__syncthreads_count", line, p));
}
inline int __syncthreads_or(int p, STAND_IN_LINE) { return stand_in::barrier("__syncthreads_or", line, p) != 0; }
inline int __syncthreads_and(int p, STAND_IN_LINE) { return stand_in::barrier("__syncthreads_and", line, !p) == 0; }
inline void __syncwarp(unsigned mask = ~0u, STAND_IN_LINE) { stand_in::vote("__syncwarp", line, mask, true); }
inline unsigned __ballot_sync(unsigned mask, int p, STAND_IN_LINE) { return stand_in::vote("__ballot_sync", line, mask, p); }
inline int __any_sync(unsigned mask, int p, STAND_IN_LINE) { return stand_in::vote("__any_sync", line, mask, p) != 0; }
inline int __all_sync(unsigned mask, int p, STAND_IN_LINE) { return stand_in::vote("__all_sync", line, mask, !p) == 0; }
template <class T> T __shfl_sync(unsigned mask, T value, int source, int width = 32, STAND_IN_LINE) {
  const int first = stand_in::lane() & -width;
  return stand_in::shuffle("__shfl_sync", line, mask, value, first + (source & (width - 1)));
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, STAND_IN_LINE) {
  const int lane = stand_in::lane(), from = lane - int(by);
  return stand_in::shuffle("__shfl_up_sync", line, mask, value, from < (lane & -width) ? lane : from);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, STAND_IN_LINE) {
  const int lane = stand_in::lane(), from = lane + int(by);
  return stand_in::shuffle("__shfl_down_sync", line, mask, value, from >= (lane & -width) + width ? lane : from);
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32, STAND_IN_LINE) {
  const int lane = stand_in::lane(), from = lane ^ with;
  return stand_in::shuffle("__shfl_xor_sync", line, mask, value, from >= (lane & -width) + width ? lane : from);
}
#undef STAND_IN_LINE
[[noreturn]] inline void __trap() { stand_in::fail("__trap"); }
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
