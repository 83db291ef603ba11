// Queries: a grid searched around other points than its own.

// Reasons of backend/status.rs.
constexpr int STALE = 15, FEW = 17;
#define INFINITE __longlong_as_double(0x7ff0000000000000ll)

// Asked for no number of blocks, ptxas would rather spill than have fewer of them.
#define ROW_FUNCTION extern "C" __global__ void __launch_bounds__(THREADS, 3)

struct Queries {
  double radius;
  i64 queries;
  const POSITION* r;
  // The system of each, or null where there is one.
  const int* of;
  // The status word of the grid's build.
  const u32* built;
  // The numbers of the arguments in the search's status word.
  u32 positions, within, grid, room;
};

// A float in integers that order alike, none of which is 0.
__device__ inline u32 ordered(float x) {
  const u32 bits = __float_as_uint(x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ inline float from_ordered(u32 bits) {
  return __uint_as_float(bits & 0x80000000u ? bits & 0x7fffffffu : ~bits);
}

// How far the points of each system reach along its open axes.
FUNCTION extent(Search a, const POSITION* r, const int* of, System* systems) {
  const i64 i = blockIdx.x * i64(THREADS) + threadIdx.x;
  if (i >= a.points) return;
  const int b = of[i];
  if (b < 0 || b >= a.systems || !systems[b].usable) return;
  System& s = systems[b];
  for (int k = 0; k < 3; ++k) {
    if (s.cells[k] > 0) continue;
    const float x = float(fraction(s, double(r[3 * i]), double(r[3 * i + 1]), double(r[3 * i + 2]), k));
    for (int side = 0; side < 2; ++side) {
      const u32 end = ordered(side == 0 ? x : -x);
      u32* to = s.ends + 2 * k + side;
      if (end > *(volatile u32*)to) atomicMax(to, end);
    }
  }
}

// Cells that hold about `share` points, were these spread evenly over a box, an area or a line, and that are no smaller
// than those that there are; nor so small that coordinates had no room in them.
FUNCTION share_out(Search a, const int* ptr, double share, System* systems) {
  const i64 b = blockIdx.x * i64(THREADS) + threadIdx.x;
  if (b >= a.systems || !systems[b].usable) return;
  System s = systems[b];
  const int number = ptr[b + 1] - ptr[b];
  const double part = share / (number > 1 ? number : 1);
  double edges[3], least = a.cell_size;
  for (int k = 0; k < 3; ++k) {
    edges[k] = s.heights[k];
    if (s.cells[k] > 0) continue;
    const double high = s.ends[2 * k] ? from_ordered(s.ends[2 * k]) : 0;
    const double low = s.ends[2 * k + 1] ? -from_ordered(s.ends[2 * k + 1]) : 0;
    edges[k] = high - low;
    least = fmax(least, 1e-12 * fmax(fabs(high), fabs(low)));
  }
  double size = least, all = part;
  for (int n = 1; n <= 3; ++n) {
    int longest = 0;
    for (int k = 1; k < 3; ++k) longest = edges[k] > edges[longest] ? k : longest;
    all *= edges[longest];
    edges[longest] = -1;
    size = fmax(size, n == 1 ? all : n == 2 ? sqrt(all) : cbrt(all));
  }
  // A NaN or infinity is left to whoever places the points.
  divide(s, size > 0 && size < 1e300 ? size : 1);
  systems[b] = s;
}

FUNCTION seal(Search a, u32* built, int words) {
  if (int(threadIdx.x) < words) built[threadIdx.x] = a.word[threadIdx.x];
}

// Checks that these are the points of the grid, in the grid's systems where systems are given.
FUNCTION same(Search a, const u32* built, const Point* points, const POSITION* r, const int* of, u32 grid) {
  const i64 i = blockIdx.x * i64(THREADS) + threadIdx.x;
  // A grid whose build failed has no points.
  if (i >= a.points || *built != 0) return;
  bool as_before = !of || points[i].system == of[i];
  for (int c = 0; c < 3; ++c) as_before = as_before && points[i].r[c] == double(r[3 * i + c]);
  if (!as_before) raise(a.word, STALE, grid);
}

// A row of a search: a query in its cell, and the points of its system. In shared memory, as registers are few.
struct Row {
  Point here;
  double largest;
  i64 begin, end;
};

// Whether there is something to search for; all lanes of a warp together.
__device__ __forceinline__ bool begin_row(const Search& a, const Queries& q, const System* systems, i64 row,
                                          Row& into) {
  const bool first = threadIdx.x % WARP == 0;
  if (*q.built != 0) {
    for (int reason = 0; row == 0 && first && reason < 32; ++reason) {
      if (*q.built >> reason & 1) raise(a.word, reason, q.grid);
    }
    return false;
  }
  const int b = q.of ? q.of[row] : 0;
  if (b < 0 || b >= a.systems) return false;
  i64 cell[3];
  Row found;
  found.here.system = b;
  found.here.self = int(row);
  const int wrong = put(systems[b], q.r + 3 * row, found.here, cell, found.largest);
  if (wrong && first) raise(a.word, wrong, q.positions);
  if (wrong) return false;
  found.largest = fmax(found.largest, double(__uint_as_float(systems[b].largest)));
  found.begin = systems[b].first / 2;
  found.end = found.begin + systems[b].room / 2;
  if (first) into = found;
  __syncwarp();
  return found.begin < found.end;
}

// |r_j - q_i + S . cell|
__device__ inline double distance_of(const System& s, const Point& i, const Point& j, const int* n) {
  int t[3];
  for (int k = 0; k < 3; ++k) t[k] = n[k] + i.wrap[k] - j.wrap[k];
  return distance(s.rows, i.r, j.r, t);
}

// `visit` from point to point in place of from cell to cell.
template <bool AGAIN, class Pair, class F>
__device__ __forceinline__ void visit_all(const System& s, const Row& row, double within, const Point* points, Kept& kept,
                                          Pair is_pair, F f) {
  const int lane = threadIdx.x % WARP;
  double u[3], far[3];
  int images[3];
  fractions(s, row.here, u);
  for (int k = 0; k < 3; ++k) {
    far[k] = within / s.heights[k] + s.margin[k];
    images[k] = s.cells[k] > 0 ? int(floor(2 * far[k])) + 1 : 1;
  }
  int time = 0;
  for (i64 base = row.begin; base < row.end; base += WARP) {
    const bool is_point = base + lane < row.end;
    const Point& j = points[is_point ? base + lane : row.begin];
    double v[3];
    int low[3];
    fractions(s, j, v);
    for (int k = 0; k < 3; ++k) low[k] = s.cells[k] > 0 ? int(ceil(u[k] - far[k] - v[k])) : 0;
    for (int x = 0; x < images[0]; ++x) {
      for (int y = 0; y < images[1]; ++y) {
        for (int z = 0; z < images[2]; ++z) {
          const int now = time;
          time += is_kept(time);
          const bool known = AGAIN && is_kept(now);
          u32 hits = known ? kept_hits(kept, now) : 0;
          if (known && hits == 0) continue;
          const int n[3] = {low[0] + x, low[1] + y, low[2] + z};
          if (!known) {
            hits = __ballot_sync(ALL, is_point && is_pair(j, n));
            if (!AGAIN) keep_hits(kept, now, hits);
          }
          f(hits, j.self, pack(n[0], n[1], n[2]));
        }
      }
    }
  }
}

// All pairs of a row: whichever are fewer, cells within reach or images of all points, are looked at one by one. So a radius
// of many cells costs no more than there are points.
template <bool AGAIN, class Pair, class F>
__device__ __forceinline__ void look(const System& s, const Row& row, double radius, const Band& band, const Point* points,
                                     const Record* sorted, const int* bounds, Kept& kept, Pair is_pair, F f) {
  const double within = reach(s, row.largest, radius);
  double u[3], cells = 1, all = double(row.end - row.begin);
  fractions(s, row.here, u);
  for (int k = 0; k < 3; ++k) {
    const double far = within / s.heights[k] + s.margin[k];
    const double along = floor((u[k] + far) * s.per[k]) - floor((u[k] - far) * s.per[k]) + 1;
    cells *= k == 2 ? along / NARROWER : along;
    all *= s.cells[k] > 0 ? 2 * far + 1 : 1;
  }
  // More cells are not counted in 32 bits.
  if (cells < fmin(all, 0x1p26)) {
    const auto all_are = [](int, int) { return true; };
    visit<AGAIN>(s, row.here, within, band, points, sorted, bounds, kept, all_are, is_pair, f);
  } else {
    visit_all<AGAIN>(s, row, within, points, kept, is_pair, f);
  }
}

ROW_FUNCTION count(Search a, Queries q, const System* systems, const Point* points, const Record* sorted, const int* bounds,
               int* counts, Kept* kept) {
  const i64 row = (blockIdx.x * i64(THREADS) + threadIdx.x) / WARP;
  const int lane = threadIdx.x % WARP;
  if (row >= q.queries) return;
  u32 found = 0;
  Kept mine = {};
  __shared__ Row heres[THREADS / WARP];
  Row& here = heres[threadIdx.x / WARP];
  if (begin_row(a, q, systems, row, here)) {
    const System& s = systems[here.here.system];
    if (few_images(s, q.radius)) {
      const auto pair = [&](const Point& j, const int* n) { return distance_of(s, here.here, j, n) <= q.radius; };
      look<false>(s, here, q.radius, band_of(s, here.largest, q.radius), points, sorted, bounds, mine,
                  pair, [&](u32 hits, int, int) { found = with_more(found, hits); });
    } else if (lane == 0) {
      raise(a.word, FAR, q.within);
    }
  }
  kept[WARP * row + lane] = mine;
  if (lane == 0) counts[row] = int(found);
}

// Finds the entries of a row again, sorts them by (j, S) and writes them with shifts for the coordinates that were given.
ROW_FUNCTION fill(Search a, Queries q, const System* systems, const Point* points, const Record* sorted, const int* bounds,
              const Kept* kept, const i64* ptr, int* others, int* shifts) {
  __shared__ Room rooms[THREADS / WARP];
  Room& room = rooms[threadIdx.x / WARP];
  const i64 row = (blockIdx.x * i64(THREADS) + threadIdx.x) / WARP;
  if (row >= q.queries || *a.word != 0 || ptr[q.queries] > a.capacity) return;
  const i64 begin = ptr[row], n = ptr[row + 1] - begin;
  __shared__ Row heres[THREADS / WARP];
  Row& here = heres[threadIdx.x / WARP];
  if (n == 0 || !begin_row(a, q, systems, row, here)) return;
  const System& s = systems[here.here.system];
  const Boxes boxes = boxes_within(s, here.here, reach(s, here.largest, q.radius));
  const Entries entries(a, room.keys, n, boxes, others + begin, shifts + 3 * begin);
  Kept mine = kept[WARP * row + threadIdx.x % WARP];
  i64 done = 0;
  const auto pair = [&](const Point& j, const int* n) { return distance_of(s, here.here, j, n) <= q.radius; };
  look<true>(s, here, q.radius, band_of(s, here.largest, q.radius), points, sorted, bounds, mine, pair,
             [&](u32 hits, int j, int code) { entries.add(hits, done, j, code); });
  write_row(a, entries, n, here.here, points, nullptr, room);
}

// A list that was not made has offsets that its users refuse.
FUNCTION finish(Search a, Queries q, i64* ptr) {
  const i64 i = blockIdx.x * i64(THREADS) + threadIdx.x;
  if (i >= q.queries) return;
  if ((*a.word & ~(1u << CAPACITY)) != 0) {
    ptr[i + 1] = a.capacity + 1;
  } else if (i == q.queries - 1 && ptr[i + 1] > a.capacity) {
    raise(a.word, CAPACITY, q.room);
  }
}

// Offsets in 32 bits, and behind the last pair the number of points; a list that was not made has offsets that its users refuse.
FUNCTION settle(Search a, Queries q, const i64* ptr, int* offsets, int* others, int* shifts) {
  const i64 at = blockIdx.x * i64(THREADS) + threadIdx.x;
  const bool failed = (*a.word & ~(1u << CAPACITY)) != 0;
  const i64 total = ptr[q.queries];
  if (at <= q.queries) {
    const i64 offset = !failed ? ptr[at] : at == 0 ? 0 : a.capacity + 1;
    offsets[at] = offset < 2147483647 ? int(offset) : 2147483647;
    if (at == 0 && !failed && total > a.capacity) raise(a.word, CAPACITY, q.room);
  }
  const i64 unused = failed || total > a.capacity ? 0 : total, threads = i64(gridDim.x) * THREADS;
  for (i64 e = unused + at; e < a.capacity; e += threads) others[e] = int(a.points);
  for (i64 e = 3 * unused + at; e < 3 * a.capacity; e += threads) shifts[e] = 0;
}

// Beginnings and ends of rows with room for k entries each, or such that their users refuse.
FUNCTION strides(Search a, Queries q, i64 k, const int* counts, int* ranges) {
  const i64 at = blockIdx.x * i64(THREADS) + threadIdx.x;
  if (at >= q.queries) return;
  ranges[at] = int(*a.word == 0 ? at * k : 0);
  ranges[q.queries + at] = int(*a.word == 0 ? at * k + counts[at] : q.queries * k + 1);
}

// The nearest points of a row that were found so far, by distance, then point, then S, of which packed boxes have the order: up to
// a warp's number in its lanes, else in the place where they are wanted.
struct Nearest {
  i64 k, have;
  int* index;
  double* distance;
  int* shift;
  double own;
  u64 own_key;

  __device__ void clear() {
    have = 0;
    own = INFINITE;
    own_key = ~0ull;
  }

  __device__ u64 key(i64 n) const { return key_of(index[n], shift[3 * n]); }

  __device__ void set(i64 n, double d, u64 of) {
    distance[n] = d;
    index[n] = int(of >> 32);
    shift[3 * n] = code_of(of);
  }

  // The distance beyond which no point is one of them.
  __device__ double last() const {
    if (k <= WARP) return __shfl_sync(ALL, own, int(k) - 1);
    return have < k ? INFINITE : distance[k - 1];
  }

  // Puts one where it belongs; all lanes of a warp together.
  __device__ __forceinline__ void insert(double d, u64 of) {
    if (k > WARP) {
      insert_in_memory(d, of);
      return;
    }
    const int lane = threadIdx.x % WARP, at = __popc(__ballot_sync(ALL, own < d || (own == d && own_key < of)));
    const double before = __shfl_up_sync(ALL, own, 1);
    const u64 key_before = __shfl_up_sync(ALL, own_key, 1);
    if (lane >= at) {
      own = lane == at ? d : before;
      own_key = lane == at ? of : key_before;
    }
    have += have < k;
  }

  __device__ __forceinline__ void insert_in_memory(double d, u64 of) {
    const int lane = threadIdx.x % WARP;
    i64 at = 0;
    for (i64 base = 0; base < have; base += WARP) {
      const i64 n = base + lane;
      at += __popc(__ballot_sync(ALL, n < have && (distance[n] < d || (distance[n] == d && key(n) < of))));
    }
    if (at >= k) return;
    // Entries from the place to the end move up, and the last one drops out.
    for (i64 top = have < k ? have : k - 1; top > at; top -= WARP) {
      const i64 n = top - lane;
      const bool moves = n > at;
      const double other = moves ? distance[n - 1] : 0;
      const u64 other_key = moves ? key(n - 1) : 0;
      __syncwarp();
      if (moves) set(n, other, other_key);
      __syncwarp();
    }
    if (lane == 0) set(at, d, of);
    have += have < k;
    __syncwarp();
  }

  // All of them to where they are wanted.
  __device__ void finish() {
    const int lane = threadIdx.x % WARP;
    if (k <= WARP && lane < have) set(lane, own, own_key);
    __syncwarp();
  }
};

// A radius within which k points are likely, and many more are not.
__device__ inline double first_radius(const System& s, i64 number, i64 k) {
  // The number of images of the system that hold k points.
  const double boxes = (double(k) + 1) / double(number);
  double radius = s.cell_size, volume = 1;
  bool closed = true;
  for (int c = 0; c < 3; ++c) {
    closed = closed && s.cells[c] > 0;
    if (s.cells[c] > 0) radius = fmin(radius, (boxes + 1) * s.heights[c]);
  }
  if (!closed) return radius;
  double normal[3];
  cross(s.rows, s.rows + 3, normal);
  volume = fabs(normal[0] * s.rows[6] + normal[1] * s.rows[7] + normal[2] * s.rows[8]);
  // Twice as many more as are missing by chance.
  const double more = 2 * sqrt(double(k)) / double(number);
  return fmin(radius, cbrt(0.75 * (boxes + more) * volume / 3.141592653589793));
}

// The k nearest points of each query within its radius, by distance, then point, then S; places that no point is left for get
// `empty`.
ROW_FUNCTION nearest(Search a, Queries q, const System* systems, const Point* points, const Record* sorted, const int* bounds,
                     i64 k, int empty, int all, int* counts, int* index, double* distance, int* shift) {
  const i64 row = (blockIdx.x * i64(THREADS) + threadIdx.x) / WARP;
  const int lane = threadIdx.x % WARP;
  if (row >= q.queries) return;
  Nearest found = {k, 0, index + k * row, distance + k * row, shift + 3 * k * row};
  found.clear();
  __shared__ Row heres[THREADS / WARP];
  Row& here = heres[threadIdx.x / WARP];
  const bool some = begin_row(a, q, systems, row, here);
  const System& s = systems[some ? here.here.system : 0];
  if (some && k > 0) {
    const i64 number = here.end - here.begin;
    const bool finite = s.cells[0] == 0 && s.cells[1] == 0 && s.cells[2] == 0;
    for (double radius = first_radius(s, number, k);; radius *= 2) {
      if (!few_images(s, radius)) {
        if (lane == 0) raise(a.word, FAR, q.positions);
        break;
      }
      double d = 0;
      Kept unused = {};
      i64 seen = 0;
      found.clear();
      const double within = fmin(radius, q.radius);
      const auto pair = [&](const Point& j, const int* n) { return (d = distance_of(s, here.here, j, n)) <= within; };
      // Distances are wanted, so that none is told by the band.
      Band band = {-1, band_of(s, here.largest, radius).above};
      look<false>(s, here, radius, band, points, sorted, bounds, unused, pair, [&](u32 hits, int j, int code) {
        seen += __popc(hits);
        const u64 key = key_of(j, code);
        for (bool first = true;; first = false) {
          const double last = found.last();
          hits &= __ballot_sync(ALL, d <= last);
          if (hits == 0) {
            // What is farther need not be looked at any more.
            if (!first && last < radius) band.above = band_of(s, here.largest, last).above;
            break;
          }
          const int from = __ffs(int(hits)) - 1;
          found.insert(__shfl_sync(ALL, d, from), __shfl_sync(ALL, key, from));
          hits &= hits - 1;
        }
      });
      // All within the radius were seen, so the nearest of them are the nearest of all.
      if (found.have == k || (finite && seen == number) || radius >= q.radius) break;
    }
    found.finish();
  }
  for (i64 n = lane; n < k; n += WARP) {
    const bool is_point = n < found.have;
    int t[3] = {0, 0, 0};
    const int j = is_point ? found.index[n] : 0;
    if (is_point) {
      unpack(code_of(found.key(n)), t);
      for (int c = 0; c < 3; ++c) t[c] += here.here.wrap[c] - points[j].wrap[c];
    }
    found.index[n] = is_point ? j : empty;
    for (int c = 0; c < 3; ++c) found.shift[3 * n + c] = t[c];
    if (!is_point) found.distance[n] = INFINITE;
  }
  if (lane != 0) return;
  counts[row] = int(found.have);
  if (all != 0 && found.have < k) raise(a.word, FEW, q.within);
}

// Distances become NaN after an error.
FUNCTION spoil(Search a, i64 count, double* distance) {
  const i64 n = blockIdx.x * i64(THREADS) + threadIdx.x;
  if (n < count && *a.word != 0) distance[n] = __longlong_as_double(0x7ff8000000000000ll);
}
