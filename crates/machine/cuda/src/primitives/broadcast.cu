// Each segment's values, stored as ELEMENT, to its rows. A block looks for the segments of its first and last row, and each
// thread between them.
FUNCTION broadcast(const ELEMENT* values, i64 width, Segments segments, ELEMENT* rows) {
  __shared__ i64 ends[2];
  const i64 all = i64(offset(segments, segments.count)) * width, first = i64(blockIdx.x) * EACH_TILE;
  if (first >= all) return;
  if (threadIdx.x < 2) {
    const i64 last = (first + EACH_TILE < all ? first + EACH_TILE : all) - 1;
    ends[threadIdx.x] = segment_of(segments, quotient(threadIdx.x == 0 ? first : last, width));
  }
  __syncthreads();
  each(all, [&](i64 i) {
    const i64 row = quotient(i, width);
    const i64 up_to = ends[0] == ends[1] ? 0 : rank_of<true>(segments.offsets, ends[0], ends[1] + 1, row) - 1;
    const i64 s = up_to < ends[0] ? ends[0] : up_to;
    rows[i] = values[s * width + (i - row * width)];
  });
}
