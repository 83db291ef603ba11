// Offsets of segments among sorted KEYs, as OFFSETs. The first threads compute an offset each; all check that the keys
// are sorted and below the number of segments.
FUNCTION bounds(const KEY* keys, Length n, OFFSET* offsets, i64 segments, Status status) {
  const i64 all = length(n), i = i64(blockIdx.x) * THREADS + threadIdx.x;
  if (i <= segments) offsets[i] = OFFSET(rank_of<false>(keys, 0, all, u64(i)));
  if (!status.word || i >= all) return;
  if (u64(keys[i]) >= u64(segments) || (i > 0 && keys[i - 1] > keys[i])) raise(status, BAD_INDEX);
}
