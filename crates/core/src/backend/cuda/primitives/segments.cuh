// Segments of rows.

// Segment s is rows offset(s)..offset(s + 1); without offsets there is one, of all rows. An i32 counts them.
struct Segments {
  const i32* offsets;
  i64 count;
  Length rows;
};
__device__ inline u32 offset(const Segments& segments, i64 s) {
  if (segments.offsets) return u32(segments.offsets[s]);
  return s == 0 ? 0 : u32(length(segments.rows));
}
// The segment of a row that is there: the last one that begins at it or before.
__device__ inline i64 segment_of(const Segments& segments, i64 row) {
  if (!segments.offsets) return 0;
  return rank_of<true>(segments.offsets, 0, segments.count + 1, row) - 1;
}
