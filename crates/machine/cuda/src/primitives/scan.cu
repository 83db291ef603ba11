// Sums of everything before. A few blocks share the numbers; each adds up its own, and then starts from the sum of those
// before it. Numbers are COUNTs; sums become SUMs, and are carried in 64 bits that stop at 2^63, which is more than any type
// of sums holds.

constexpr int ITEMS = 8, TILE = THREADS * ITEMS;

struct Plus {
  __device__ u64 operator()(u64 a, u64 b) const {
    const u64 top = 1ull << 63, sum = a + b;
    return sum < a || sum > top ? top : sum;
  }
};

// A negative number counts as none; it has been raised.
__device__ inline u64 count(COUNT x) { return x > 0 ? u64(x) : 0; }

FUNCTION scan_totals(const COUNT* counts, Length n, i64 each_block, u64* totals) {
  __shared__ u64 room[WARPS];
  i64 lo, hi;
  share(n, each_block, lo, hi);
  if (lo >= hi) return;
  u64 mine = 0, sum;
#pragma unroll 4
  for (i64 i = lo + threadIdx.x; i < hi; i += THREADS) mine = Plus()(mine, count(counts[i]));
  block_scan(mine, room, sum, Plus());
  if (threadIdx.x == 0) totals[blockIdx.x] = sum;
}

// `totals` are those of the blocks before. The place of a sum may be that of its number.
FUNCTION scan(const COUNT* counts, SUM* sums, Length n, i64 each_block, const u64* totals, i64 exclusive, u64 largest,
              Status status) {
  __shared__ u64 room[WARPS];
  i64 lo, hi;
  share(n, each_block, lo, hi);
  if (lo >= hi && blockIdx.x > 0) return;
  u64 mine = 0, start;
  for (i64 b = threadIdx.x; b < blockIdx.x; b += THREADS) mine = Plus()(mine, totals[b]);
  block_scan(mine, room, start, Plus());
  bool negative = false;
  for (i64 tile = lo; tile < hi; tile += TILE) {
    const i64 first = tile + warp() * (WARP * ITEMS) + lane();
    // Within the warp.
    u64 results[ITEMS], sum = 0;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      const i64 i = first + k * WARP;
      const COUNT x = i < hi ? counts[i] : COUNT(0);
      negative |= i64(x) < 0;
      const u64 up_to = Plus()(sum, warp_scan(count(x), Plus()));
      const u64 before = __shfl_up_sync(ALL, up_to, 1);
      results[k] = !exclusive ? up_to : lane() == 0 ? sum : before;
      sum = __shfl_sync(ALL, up_to, WARP - 1);
    }
    // The tile before has its room until here.
    __syncthreads();
    if (lane() == 0) room[warp()] = sum;
    __syncthreads();
    u64 base = start;
    for (int w = 0; w < WARPS; ++w) {
      if (w == warp()) base = start;
      start = Plus()(start, room[w]);
    }
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      const i64 i = first + k * WARP;
      if (i < hi) sums[i] = SUM(Plus()(base, results[k]));
    }
  }
  const bool last = threadIdx.x == 0 && hi == length(n);
  if (last && exclusive) sums[hi] = SUM(start);
  if (negative || (last && start > largest)) raise(status, OVERFLOW_OF_INTEGER);
}
