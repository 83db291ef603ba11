// Pairs of a list that are closer than shorter cutoffs.

struct Narrow {
  double cutoff;
  i64 rows, points, kinds, capacity;
  const POSITION *from, *to, *cells, *cutoffs;
  // The system of each row.
  const int* of;
  const i64 *start, *end;
  // Images as three integers, or packed.
  const int *others, *triples, *packed;
  // Types of rows and points, where there are cutoffs for types, and the point that each row is, or null.
  const int *row_types, *types, *own;
  u32* word;
  u32 room;
};

// The entries of a row that are pairs, WARP at a time: calls `f(lanes that have one, entry, image)`.
template <class F>
__device__ __forceinline__ void visit_row(const Narrow& a, i64 row, F f) {
  const int lane = threadIdx.x % WARP;
  double rows[9], from[3];
  for (int n = 0; n < 9; ++n) rows[n] = double(a.cells[9 * i64(a.of[row]) + n]);
  for (int c = 0; c < 3; ++c) from[c] = double(a.from[3 * row + c]);
  const i64 end = a.end[row];
  for (i64 base = a.start[row]; base < end; base += WARP) {
    const i64 e = base + lane;
    int t[3] = {0, 0, 0};
    bool found = false;
    if (e < end) {
      const int j = a.others[e];
      if (a.packed) unpack(a.packed[e], t);
      for (int k = 0; !a.packed && k < 3; ++k) t[k] = a.triples[3 * e + k];
      double to[3];
      for (int c = 0; c < 3; ++c) to[c] = double(a.to[3 * i64(j) + c]);
      const double cutoff = a.kinds > 0 ? double(a.cutoffs[a.row_types[row] * a.kinds + a.types[j]]) : a.cutoff;
      const bool self = a.own && a.own[row] == j && t[0] == 0 && t[1] == 0 && t[2] == 0;
      found = distance(rows, from, to, t) < rounded(cutoff) && !self;
    }
    f(__ballot_sync(ALL, found), e, t);
  }
}

FUNCTION count(Narrow a, int* counts) {
  const i64 row = (blockIdx.x * i64(THREADS) + threadIdx.x) / WARP;
  if (row >= a.rows) return;
  // Nothing may be followed where something is wrong, and no list is made then: more than any has room for.
  int found = *a.word == 0 ? 0 : 2147483647;
  if (found == 0) visit_row(a, row, [&](u32 hits, i64, const int*) { found += __popc(hits); });
  if (threadIdx.x % WARP == 0) counts[row] = found;
}

FUNCTION fill(Narrow a, const i64* ptr, int* rows, int* others, int* shifts) {
  const i64 row = (blockIdx.x * i64(THREADS) + threadIdx.x) / WARP;
  if (row >= a.rows || *a.word != 0 || ptr[a.rows] > a.capacity) return;
  const int lane = threadIdx.x % WARP;
  i64 next = ptr[row];
  visit_row(a, row, [&](u32 hits, i64 e, const int* t) {
    if (hits >> lane & 1) {
      const i64 to = next + __popc(hits & ((1u << lane) - 1));
      rows[to] = int(row);
      others[to] = a.others[e];
      for (int k = 0; k < 3; ++k) shifts[3 * to + k] = t[k];
    }
    next += __popc(hits);
  });
}

// Offsets in 32 bits, and the numbers of rows and points behind the last pair.
FUNCTION settle(Narrow a, const i64* ptr, int* offsets, int* rows, int* others, int* shifts) {
  const i64 at = blockIdx.x * i64(THREADS) + threadIdx.x;
  const i64 total = ptr[a.rows];
  if (at <= a.rows) {
    offsets[at] = ptr[at] < 2147483647 ? int(ptr[at]) : 2147483647;
    if (at == 0 && total > a.capacity) raise(a.word, CAPACITY, a.room);
  }
  if (at < a.capacity && (at >= total || total > a.capacity)) {
    rows[at] = int(a.rows);
    others[at] = int(a.points);
    for (int k = 0; k < 3; ++k) shifts[3 * at + k] = 0;
  }
}
