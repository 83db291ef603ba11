// The largest (LARGEST 1) or smallest (0) number of each segment and component, stored as ELEMENT, and its row.

struct Best {
  f64 value;
  i32 row;
};
struct Extremum {
  typedef Best Value;
  __device__ static Best none() { return {0, -1}; }
  template <class T> __device__ static Best of(T x, u32 row) { return {f64(x), i32(row)}; }
  // A NaN wins; of equal ones the first.
  __device__ static Best both(Best a, Best b) {
    if (a.row < 0) return b;
    if (b.row < 0) return a;
    const bool nan_a = a.value != a.value, nan_b = b.value != b.value;
    if (nan_a != nan_b) return nan_a ? a : b;
    if (!nan_a && a.value != b.value) return (a.value > b.value) == bool(LARGEST) ? a : b;
    return a.row < b.row ? a : b;
  }
  __device__ static Best across(Best a, int with) {
    return {__shfl_xor_sync(ALL, a.value, with), __shfl_xor_sync(ALL, a.row, with)};
  }
};

FUNCTION extremum_chunks(const ELEMENT* values, i64 width, i64 across, Segments segments, Best* parts) {
  chunks<Extremum>(Rows<ELEMENT>{values, width}, width, int(across), segments, parts);
}

FUNCTION extremum_segments(const ELEMENT* values, i64 width, i64 across, i64 at_once, Segments segments, const Best* parts,
                           ELEMENT* extrema, i32* arguments) {
  segments_of<Extremum>(Rows<ELEMENT>{values, width}, width, int(across), int(at_once), segments, parts,
                        [&](i64 s, i64 c, Best x) {
                          extrema[s * width + c] = ELEMENT(x.value);
                          arguments[s * width + c] = x.row;
                        });
}
