// Sums of the rows of each segment, of numbers stored as ELEMENT.

FUNCTION sum_chunks(const ELEMENT* values, i64 width, i64 across, Segments segments, Sum* parts) {
  chunks<Add>(Rows<ELEMENT>{values, width}, width, int(across), segments, parts);
}

FUNCTION sum_segments(const ELEMENT* values, i64 width, i64 across, i64 at_once, Segments segments, const Sum* parts,
                      ELEMENT* sums) {
  segments_of<Add>(Rows<ELEMENT>{values, width}, width, int(across), int(at_once), segments, parts,
                   [&](i64 s, i64 c, Sum x) { sums[s * width + c] = ELEMENT(x.sum); });
}
