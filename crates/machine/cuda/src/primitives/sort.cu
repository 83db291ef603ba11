// A stable radix sort, eight bits of the keys at a time from the lowest, after Merrill and Grimshaw. A few blocks share
// the keys: each counts its digits, the counts are added up digit by digit and block by block, and each block takes its
// keys, tile by tile, to their places: within the tile through shared memory, so that writes are contiguous.

constexpr int DIGITS = 256, ITEMS = 64 / sizeof(KEY), TILE = THREADS * ITEMS;
static_assert(DIGITS == THREADS, "a thread for each digit");

struct Plus {
  __device__ u32 operator()(u32 a, u32 b) const { return a + b; }
};

struct Tile {
  // In their order within the tile.
  KEY keys[TILE];
  u32 payload[TILE];
  // Counts of each digit among the keys of each warp so far, later those of the warps before.
  u32 counts[WARPS][DIGITS];
  // The offset of each digit.
  u32 first[DIGITS];
  u32 room[WARPS];
};

__device__ inline u32 mask_of(int bits) { return bits < 8 ? (1u << bits) - 1 : 255u; }
__device__ inline u32 digit_of(KEY key, i64 shift, u32 mask) { return u32(key >> shift) & mask; }

// Thread t's k-th key.
__device__ inline int place_in_tile(int k) { return (warp() * ITEMS + k) * WARP + lane(); }

// Computes the places of this thread's keys within the tile; the result is the number of keys with this thread's digit.
// Missing keys are the largest, and come after all others.
__device__ inline u32 rank_tile(const KEY (&keys)[ITEMS], u32 (&places)[ITEMS], Tile& tile, i64 shift, u32 mask) {
  for (int d = lane(); d < DIGITS; d += WARP) tile.counts[warp()][d] = 0;
  __syncwarp();
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const u32 digit = digit_of(keys[k], shift, mask);
    u32 equal = ALL;
#pragma unroll
    for (int bit = 0; bit < 8; ++bit) {
      const bool one = digit >> bit & 1;
      const u32 ones = __ballot_sync(ALL, one);
      equal &= one ? ones : ~ones;
    }
    const u32 before = __popc(equal & ((1u << lane()) - 1));
    places[k] = tile.counts[warp()][digit] + before;
    __syncwarp();
    if (before == 0) tile.counts[warp()][digit] += __popc(equal);
    __syncwarp();
  }
  __syncthreads();
  u32 own = 0, all;
  for (int w = 0; w < WARPS; ++w) {
    const u32 count = tile.counts[w][threadIdx.x];
    tile.counts[w][threadIdx.x] = own;
    own += count;
  }
  tile.first[threadIdx.x] = block_scan(own, tile.room, all, Plus());
  __syncthreads();
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const u32 digit = digit_of(keys[k], shift, mask);
    places[k] += tile.first[digit] + tile.counts[warp()][digit];
  }
  return own;
}

// All keys, where one tile holds them.
FUNCTION sort_tile(KEY* keys, u32* payload, Length n, i64 bits) {
  __shared__ Tile tile;
  const int all = int(length(n));
  KEY own[ITEMS];
  u32 places[ITEMS], number[ITEMS];
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const int i = place_in_tile(k);
    own[k] = i < all ? keys[i] : ~KEY(0);
    number[k] = i < all ? payload[i] : 0;
  }
  for (int shift = 0; shift < int(bits); shift += 8) {
    rank_tile(own, places, tile, shift, mask_of(int(bits) - shift));
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      tile.keys[places[k]] = own[k];
      tile.payload[places[k]] = number[k];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      own[k] = tile.keys[place_in_tile(k)];
      number[k] = tile.payload[place_in_tile(k)];
    }
    __syncthreads();
  }
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const int i = place_in_tile(k);
    if (i < all) {
      keys[i] = own[k];
      payload[i] = number[k];
    }
  }
}

// `counts` has, for each digit, a number for each block.
FUNCTION sort_count(const KEY* keys, Length n, i64 each_block, i64 shift, i64 bits, u32* counts) {
  // Warps count apart, since neighbouring keys are often equal.
  __shared__ u32 digits[WARPS][DIGITS];
  const u32 mask = mask_of(int(bits));
  i64 lo, hi;
  share(n, each_block, lo, hi);
  for (int w = 0; w < WARPS; ++w) digits[w][threadIdx.x] = 0;
  __syncthreads();
#pragma unroll 4
  for (i64 i = lo + threadIdx.x; i < hi; i += THREADS) atomicAdd(&digits[warp()][digit_of(keys[i], shift, mask)], 1u);
  __syncthreads();
  u32 sum = 0;
  for (int w = 0; w < WARPS; ++w) sum += digits[w][threadIdx.x];
  counts[i64(threadIdx.x) * gridDim.x + blockIdx.x] = sum;
}

FUNCTION sort_place(const KEY* keys, const u32* payload, KEY* to_keys, u32* to_payload, Length n, i64 each_block, i64 shift,
                    i64 bits, const u32* counts, const u32* totals) {
  __shared__ Tile tile;
  // The place of the block's next key of each digit.
  __shared__ u32 next[DIGITS];
  const u32 mask = mask_of(int(bits));
  i64 lo, hi;
  share(n, each_block, lo, hi);
  if (lo >= hi) return;
  u32 all;
  next[threadIdx.x] = block_scan(totals[threadIdx.x], tile.room, all, Plus()) + counts[i64(threadIdx.x) * gridDim.x + blockIdx.x];
  __syncthreads();
  for (i64 start = lo; start < hi; start += TILE) {
    const int here = hi - start < TILE ? int(hi - start) : TILE;
    KEY own[ITEMS];
    u32 places[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      const int i = place_in_tile(k);
      own[k] = i < here ? keys[start + i] : ~KEY(0);
    }
    const u32 count = rank_tile(own, places, tile, shift, mask);
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      const int i = place_in_tile(k);
      tile.keys[places[k]] = own[k];
      if (i < here) tile.payload[places[k]] = payload[start + i];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      const int p = k * THREADS + threadIdx.x;
      if (p >= here) continue;
      const KEY key = tile.keys[p];
      const u32 digit = digit_of(key, shift, mask), to = next[digit] + p - tile.first[digit];
      to_keys[to] = key;
      to_payload[to] = tile.payload[p];
    }
    __syncthreads();
    next[threadIdx.x] += count;
    __syncthreads();
  }
}

// Prefix sums of a digit's counts over blocks, and their total: a block for each digit.
FUNCTION sort_starts(u32* counts, i64 blocks, u32* totals) {
  __shared__ u32 room[WARPS];
  u32* const own = counts + blockIdx.x * blocks;
  u32 sum = 0, all;
  for (i64 first = 0; first < blocks; first += THREADS) {
    const i64 b = first + threadIdx.x;
    const u32 before = block_scan(b < blocks ? own[b] : 0, room, all, Plus());
    if (b < blocks) own[b] = sum + before;
    sum += all;
    __syncthreads();
  }
  if (threadIdx.x == 0) totals[blockIdx.x] = sum;
}
