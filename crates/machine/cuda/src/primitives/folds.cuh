// Reductions over the rows of each segment.
//
// A segment of up to TINY rows is added up by one thread; one of more by a warp, whose lanes take rows in turn and then
// meet in a tree; one of more than CHUNK rows by blocks, a chunk each from the segment's first row on, and its chunks
// by a warp as if they were rows. So the order of additions depends on the number of the segment's rows and on their
// width alone.
//
// Neighbouring threads take `across` (1, 2, 4 or 8) neighbouring components; a group is as many.

constexpr u32 TINY = 8, CHUNK = 1024;

// Chunks begin where their segment does. Of those that begin in a stretch of CHUNK rows, one at most belongs to a
// segment that reaches to the stretch's first row, and one to a segment that begins behind it.
__device__ inline i64 place_of_chunk(u32 begin, u32 k) {
  const u32 first = begin + k * CHUNK;
  return 2 * (first / CHUNK) + (k == 0 && first % CHUNK != 0);
}

// Rows of components, the c-th of them in column `column(c)`.
template <class T> struct Rows {
  const T* values;
  i64 width;
  __device__ i64 column(i64 c) const { return c; }
};

// The results of chunks, at their places in `parts`: a block for each stretch of CHUNK rows and group of components.
template <class Op, class Source>
__device__ inline void chunks(const Source& source, i64 width, int across, const Segments& segments,
                              typename Op::Value* parts) {
  __shared__ typename Op::Value room[WARPS][8];
  const int thread = threadIdx.x;
  const i64 groups = (width + across - 1) / across, stretch = quotient(blockIdx.x, groups);
  const u32 first_row = u32(stretch) * CHUNK, rows = offset(segments, segments.count);
  if (first_row >= rows) return;
  const u32 last_row = (first_row + CHUNK < rows ? first_row + CHUNK : rows) - 1;
  const i64 c = (blockIdx.x - stretch * groups) * across + thread % across;
  for (int n = 0; n < 2; ++n) {
    const i64 s = segment_of(segments, n == 0 ? first_row : last_row);
    const u32 begin = offset(segments, s), end = end_of(segments, s, begin);
    if (end - begin <= CHUNK || (n == 1 && begin <= first_row)) continue;
    // In the segment that reaches to the first row, the chunk that begins in this stretch.
    const u32 k = n == 1 ? 0 : (first_row - begin + CHUNK - 1) / CHUNK;
    const u32 lo = begin + k * CHUNK, hi = lo + CHUNK < end ? lo + CHUNK : end;
    if (lo >= hi) continue;
    auto mine = Op::none();
    if (c < width) {
      const i64 column = source.column(c);
#pragma unroll 4
      for (u32 row = lo + thread / across; row < hi; row += THREADS / across)
        mine = Op::both(mine, Op::of(source.values[row * source.width + column], row));
    }
    for (int with = across; with < WARP; with *= 2) mine = Op::both(mine, Op::across(mine, with));
    __syncthreads();
    if (thread % WARP < across) room[thread / WARP][thread % WARP] = mine;
    __syncthreads();
    if (thread < across && c < width) {
      for (int w = 1; w < WARPS; ++w) mine = Op::both(mine, room[w][thread]);
      parts[place_of_chunk(begin, k) * width + c] = mine;
    }
  }
}

// Each warp takes `at_once` groups of components, of as many segments or fewer; `put(segment, component, result)`.
template <class Op, class Source, class Put>
__device__ inline void segments_of(const Source& source, i64 width, int across, int at_once, const Segments& segments,
                                   const typename Op::Value* parts, Put put) {
  const i64 groups = (width + across - 1) / across, units = segments.count * groups;
  const int lane = threadIdx.x % WARP, sub = lane / across, inner = lane % across, rows_at_once = WARP / across;
  const i64 unit = (i64(blockIdx.x) * WARPS + threadIdx.x / WARP) * at_once + sub;
  const bool has = sub < at_once && unit < units;
  const i64 s = has ? quotient(unit, groups) : 0, group = has ? unit - s * groups : 0;
  const i64 c = group * across + inner;
  const u32 begin = has ? offset(segments, s) : 0, end = has ? end_of(segments, s, begin) : 0;
  auto mine = Op::none();
  if (end - begin <= TINY && c < width) {
    const i64 column = source.column(c);
    for (u32 row = begin; row < end; ++row) mine = Op::both(mine, Op::of(source.values[row * source.width + column], row));
  }
  for (int n = 0; n < at_once; ++n) {
    const u32 first = __shfl_sync(ALL, begin, n * across), last = __shfl_sync(ALL, end, n * across);
    const i64 c = __shfl_sync(ALL, group, n * across) * across + inner;
    if (last - first <= TINY) continue;
    auto sum = Op::none();
    if (c < width && last - first <= CHUNK) {
      const i64 column = source.column(c);
#pragma unroll 4
      for (u32 row = first + sub; row < last; row += rows_at_once)
        sum = Op::both(sum, Op::of(source.values[row * source.width + column], row));
    } else if (c < width) {
#pragma unroll 4
      for (u32 k = sub; k < (last - first + CHUNK - 1) / CHUNK; k += rows_at_once)
        sum = Op::both(sum, parts[place_of_chunk(first, k) * width + c]);
    }
    for (int with = across; with < WARP; with *= 2) sum = Op::both(sum, Op::across(sum, with));
    if (n == sub) mine = sum;
  }
  if (has && c < width) put(s, c, mine);
}
