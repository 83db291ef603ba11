// Common code of the primitives. A block has 256 threads everywhere. Types are defined ahead of a text, one program for
// each combination, so only those in use are compiled.
typedef unsigned short u16;
typedef int i32;
typedef unsigned u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

constexpr int THREADS = 256, WARP = 32, WARPS = THREADS / WARP;
constexpr u32 ALL = 0xffffffffu;

#define FUNCTION extern "C" __global__ void __launch_bounds__(THREADS)

// The number of elements: the capacity of memory, and the address of the true number, if only the device knows it.
struct Length {
  i64 capacity;
  const void* count;
  i64 wide;
};

__device__ inline i64 length(const Length& n) {
  if (!n.count) return n.capacity;
  const i64 count = n.wide ? *(const i64*)n.count : i64(*(const i32*)n.count);
  return count < 0 ? 0 : count < n.capacity ? count : n.capacity;
}

// The status word (backend/status.rs), if anybody wants to know, and the parameter it is raised for.
struct Status {
  u32* word;
  u64 param;
};

constexpr int BAD_INDEX = 0, NOT_FINITE = 3, OVERFLOW_OF_INTEGER = 4;

__device__ inline void raise(const Status& status, int reason) {
  if (!status.word) return;
  atomicOr(status.word, 1u << reason);
  atomicMax(status.word + 1 + reason, u32(status.param));
}

// Elements of one pass of a block, in which each thread has as many as it needs to keep loads in flight.
constexpr int EACH = 4, EACH_TILE = THREADS * EACH;

// Calls `f` for every i below n that is this thread's.
template <class F> __device__ inline void each(i64 n, F f) {
  const i64 first = i64(blockIdx.x) * EACH_TILE;
  if (first >= n) return;
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    const i64 i = first + k * THREADS + threadIdx.x;
    if (i < n) f(i);
  }
}

// Of numbers that are not negative: 64-bit division is slow.
__device__ inline i64 quotient(i64 x, i64 by) {
  return (x | by) >> 32 ? x / by : i64(u32(x) / u32(by));
}

// The number of the sorted numbers lo..hi that are at most x (UP_TO) or below it.
template <bool UP_TO, class T, class X> __device__ inline i64 rank_of(const T* sorted, i64 lo, i64 hi, X x) {
  while (lo < hi) {
    const i64 mid = lo + (hi - lo) / 2;
    const X at = X(sorted[mid]);
    if (UP_TO ? at <= x : at < x) lo = mid + 1; else hi = mid;
  }
  return lo;
}
