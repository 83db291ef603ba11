// Neighbour lists: a grid of cells as wide as the cutoff, searched around its own points.

// Whether the list of some system is not to stay, where `wanted` was 0: then as many as there are points, and buckets.
FUNCTION decide(Search a, const int* flags, i64* wanted) {
  const i64 b = blockIdx.x * i64(THREADS) + threadIdx.x;
  if (b >= a.systems || flags[b] == 0) return;
  wanted[0] = a.points;
  wanted[1] = a.buckets;
}

// Copies the list's input, for `moved`.
FUNCTION keep(Search a, const POSITION* r, POSITION* positions, void* cell) {
  const i64 at = blockIdx.x * i64(THREADS) + threadIdx.x;
  if (idle(a)) return;
  if (at < 3 * a.points) positions[at] = r[at];
  if (at >= 9 * a.cells) return;
  if (a.cell_is_wide) {
    ((double*)cell)[at] = ((const double*)a.cell)[at];
  } else {
    ((float*)cell)[at] = ((const float*)a.cell)[at];
  }
}

// Whether the image of a point that lies `n` boxes from the other one, both in their cells, is as near as neighbours are.
__device__ inline bool is_near(const Search& a, const System& s, const Point& i, const Point& j, const int* n) {
  int t[3];
  for (int k = 0; k < 3; ++k) t[k] = n[k] + i.wrap[k] - j.wrap[k];
  return distance(s.rows, i.r, j.r, t) < rounded(a.cutoff);
}

// The pairs of point i that its row has, of which a half list has one of two; packed boxes are in the order of images.
template <bool AGAIN, class F>
__device__ __forceinline__ void visit_pairs(const Search& a, const System& s, const Point& i, const Point* points,
                                            const Record* sorted, const int* bounds, Kept& kept, F f) {
  const double largest = double(__uint_as_float(s.largest));
  const bool half = a.half;
  const int self = i.self;
  const auto wanted = [=](int j, int code) {
    return j == self ? (half ? code > 0 : code != 0) : !half | (j > self);
  };
  const auto is_pair = [&](const Point& j, const int* n) { return is_near(a, s, i, j, n); };
  visit<AGAIN>(s, i, reach(s, largest, a.cutoff), band_of(s, largest, a.cutoff), points, sorted, bounds, kept, wanted, is_pair,
               f);
}

// Rows in the order of their points' buckets: neighbouring warps read the same cells.
FUNCTION count(Search a, const System* systems, const Point* points, const Record* sorted, const int* bounds, int* counts,
               Kept* kept) {
  const i64 row = (blockIdx.x * i64(THREADS) + threadIdx.x) / WARP;
  if (row >= a.points || idle(a)) return;
  if (*a.word != 0) {
    counts[row] = 0;
    return;
  }
  const Point& i = points[sorted[row].self];
  u32 found = 0;
  Kept mine = {};
  visit_pairs<false>(a, systems[i.system], i, points, sorted, bounds, mine,
                     [&](u32 hits, int, int) { found = with_more(found, hits); });
  kept[WARP * row + threadIdx.x % WARP] = mine;
  if (threadIdx.x % WARP == 0) counts[i.self] = int(found);
}

// Finds the entries of a row again, sorts them by (j, S) and writes them with shifts for the coordinates that were given.
FUNCTION fill(Search a, const System* systems, const Point* points, const Record* sorted, const int* bounds, const Kept* kept,
              const i64* ptr, int* rows, int* others, int* shifts) {
  __shared__ Room rooms[THREADS / WARP];
  Room& room = rooms[threadIdx.x / WARP];
  const i64 row = (blockIdx.x * i64(THREADS) + threadIdx.x) / WARP;
  // The word says no more than this: where it was raised, all rows were counted as empty.
  if (row >= a.points || idle(a) || ptr[a.points] == 0 || ptr[a.points] > a.capacity) return;
  const Point& i = points[sorted[row].self];
  const i64 begin = ptr[i.self], n = ptr[i.self + 1] - begin;
  if (n == 0) return;
  const System& s = systems[i.system];
  const Boxes boxes = boxes_within(s, i, reach(s, double(__uint_as_float(s.largest)), a.cutoff));
  const Entries entries(a, room.keys, n, boxes, others + begin, shifts + (a.packed ? 1 : 3) * begin);
  Kept mine = kept[WARP * row + threadIdx.x % WARP];
  i64 done = 0;
  visit_pairs<true>(a, s, i, points, sorted, bounds, mine,
                    [&](u32 hits, int j, int code) { entries.add(hits, done, j, code); });
  write_row(a, entries, n, i, points, rows ? rows + begin : rows, room);
}

// A list that was not made has offsets that its users refuse.
FUNCTION finish(Search a, i64* ptr) {
  const i64 i = blockIdx.x * i64(THREADS) + threadIdx.x;
  if (i >= a.points || idle(a)) return;
  const bool failed = (*a.word & ~(1u << CAPACITY)) != 0;
  if (failed) {
    ptr[i + 1] = a.capacity + 1;
  } else if (i == a.points - 1 && ptr[i + 1] > a.capacity) {
    raise(a.word, CAPACITY, ROOM_FOR_PAIRS);
  }
}

// Offsets that an i32 has no room for become its largest number, which is beyond any capacity; and fill values behind the last
// entry, or everywhere where there is no list.
FUNCTION coordinates(Search a, const i64* ptr, int* offsets, int* rows, int* others, int* shifts) {
  const i64 at = blockIdx.x * i64(THREADS) + threadIdx.x;
  const bool failed = (*a.word & ~(1u << CAPACITY)) != 0;
  const i64 total = ptr[a.points];
  if (at <= a.points) {
    const i64 offset = !failed ? ptr[at] : at == 0 ? 0 : a.capacity + 1;
    offsets[at] = offset < 2147483647 ? int(offset) : 2147483647;
    if (at == 0 && !failed && total > a.capacity) raise(a.word, CAPACITY, ROOM_FOR_PAIRS);
  }
  // A raised word makes the total 0.
  const i64 unused = total > a.capacity ? 0 : total, threads = i64(gridDim.x) * THREADS;
  const i64 width = a.packed ? 1 : 3;
  for (i64 e = unused + at; e < a.capacity; e += threads) {
    others[e] = int(a.points);
    if (rows) rows[e] = int(a.points);
  }
  for (i64 e = width * unused + at; e < width * a.capacity; e += threads) shifts[e] = 0;
}

// Systems in which a point has moved by more than a distance, or whose cell or periodic axes have changed.
FUNCTION moved(Search a, const POSITION* r, const POSITION* before, const int* of, const void* cell_before,
               const int* axes, i64 rows, const int* axes_before, i64 rows_before, double most, int* flags) {
  const i64 i = blockIdx.x * i64(THREADS) + threadIdx.x;
  if (i < a.points) {
    double square = 0;
    for (int c = 0; c < 3; ++c) {
      const double d = double(r[3 * i + c]) - double(before[3 * i + c]);
      square += d * d;
    }
    const int b = of[i];
    if (b >= 0 && b < a.systems && !(square <= most * most)) atomicOr(flags + b, 1);
  }
  if (i < a.systems && a.cell) {
    bool same = true;
    const i64 first = a.cells > 1 ? 9 * i : 0;
    for (i64 n = first; n < first + 9; ++n) {
      same = same && (a.cell_is_wide ? ((const double*)a.cell)[n] == ((const double*)cell_before)[n]
                                     : ((const float*)a.cell)[n] == ((const float*)cell_before)[n]);
    }
    if (!same) atomicOr(flags + i, 1);
  }
  if (i < a.systems && axes) {
    bool same = true;
    for (int k = 0; k < 3; ++k) {
      same = same && (axes[(rows > 1 ? 3 * i : 0) + k] != 0) == (axes_before[(rows_before > 1 ? 3 * i : 0) + k] != 0);
    }
    if (!same) atomicOr(flags + i, 1);
  }
}
