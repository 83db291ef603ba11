// Sums of the rows of each segment, of numbers stored as REAL.

FUNCTION sum_chunks(const REAL* values, i64 width, i64 across, Segments segments, Sum* parts) {
  chunks<Add>(Rows<REAL>{values, width}, width, int(across), segments, parts);
}

FUNCTION sum_segments(const REAL* values, i64 width, i64 across, i64 at_once, Segments segments, const Sum* parts,
                      REAL* sums) {
  segments_of<Add>(Rows<REAL>{values, width}, width, int(across), int(at_once), segments, parts,
                   [&](i64 s, i64 c, Sum x) { sums[s * width + c] = REAL(x.sum); });
}
