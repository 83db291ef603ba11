// Segments of rows.

// Segment s is rows offset(s)..end_of(s, offset(s)); without offsets there is one, of all rows. An i32 counts them. Offsets
// that are no offsets, which a call has found and raised by then, make wrong segments, but none beyond the rows.
struct Segments {
  const i32* offsets;
  i64 count;
  Length rows;
};
__device__ inline u32 offset(const Segments& segments, i64 s) {
  const u32 rows = u32(length(segments.rows));
  if (!segments.offsets) return s == 0 ? 0 : rows;
  const i32 at = segments.offsets[s];
  return at < 0 ? 0 : u32(at) < rows ? u32(at) : rows;
}
__device__ inline u32 end_of(const Segments& segments, i64 s, u32 begin) {
  const u32 end = offset(segments, s + 1);
  return end < begin ? begin : end;
}
// The segment of a row that is there: the last one that begins at it or before.
__device__ inline i64 segment_of(const Segments& segments, i64 row) {
  if (!segments.offsets) return 0;
  const i64 s = rank_of<true>(segments.offsets, 0, segments.count, row) - 1;
  return s < 0 ? 0 : s;
}
