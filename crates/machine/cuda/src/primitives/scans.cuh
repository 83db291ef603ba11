// Scans of a warp and of a block, which all of its threads call, and the share of a block in a row of tiles.

__device__ inline int lane() { return threadIdx.x % WARP; }
__device__ inline int warp() { return threadIdx.x / WARP; }

// The sum over the lanes up to this one; in the last lane it is the warp's.
template <class T, class Plus> __device__ inline T warp_scan(T x, Plus plus) {
#pragma unroll
  for (int d = 1; d < WARP; d *= 2) {
    const T before = __shfl_up_sync(ALL, x, d);
    if (lane() >= d) x = plus(before, x);
  }
  return x;
}

// The sum over the threads before this one; `sum` becomes the block's. `room` may be used again after the next barrier.
template <class T, class Plus> __device__ inline T block_scan(T x, T* room, T& sum, Plus plus) {
  const T up_to = warp_scan(x, plus);
  if (lane() == WARP - 1) room[warp()] = up_to;
  T before = __shfl_up_sync(ALL, up_to, 1);
  if (lane() == 0) before = 0;
  __syncthreads();
  sum = 0;
  for (int w = 0; w < WARPS; ++w) {
    if (w == warp()) before = plus(sum, before);
    sum = plus(sum, room[w]);
  }
  return before;
}

// The elements lo..hi are those of this block.
__device__ inline void share(const Length& n, i64 each_block, i64& lo, i64& hi) {
  const i64 all = length(n);
  lo = blockIdx.x * each_block;
  hi = lo + each_block < all ? lo + each_block : all;
}
