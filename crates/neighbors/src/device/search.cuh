// Points in a grid of cells, with points in the order of their cells' buckets and a warp for each row. Distances are computed
// in f32 first, from the middle of a cell; where these do not tell, distances in the type of the positions decide, which are
// rounded step by step, as on the CPU.
typedef unsigned u32;
typedef long long i64;
typedef unsigned long long u64;

#define FUNCTION extern "C" __global__ void __launch_bounds__(THREADS)

constexpr int THREADS = 128, WARP = 32;
constexpr bool IS_SINGLE = sizeof(POSITION) == sizeof(float);
constexpr u32 ALL = 0xffffffffu;
// Candidates are taken WARP at a time: of so many times the count keeps which are pairs, two for each lane.
constexpr int KEPT = 2 * WARP;
// Cells are narrower along the last axis, where they are taken in runs, so that runs end closer to the reach.
constexpr int NARROWER = 4;
// Reasons of backend/status.rs, and the arguments that the host names.
constexpr int CAPACITY = 2, NOT_FINITE = 3, FLAT = 8, FAR = 16;
constexpr u32 CUTOFF = 4, ROOM_FOR_PAIRS = 5;

__device__ inline void raise(u32* word, int reason, u32 param) {
  atomicOr(word, 1u << reason);
  atomicMax(word + 1 + reason, param);
}

struct System {
  double rows[9], inverse[9], heights[3], per[3], margin[3];
  double skew, lengths;
  int cells[3], usable;
  double cell_size;
  // The largest |coordinate| of its points, rounded up to a float: as bits, which order alike.
  u32 largest;
  // Ends of its points along open axes, as `ordered` has floats: the upper ones, and the lower ones with the other sign.
  u32 ends[6], unused;
  // The buckets that are the system's own, two for each point. If it is `dense` each cell has one, else cells hash to as many
  // as `mask` says.
  u32 first, room, mask;
  int dense;
};

// Whole sectors of memory.
struct __align__(16) Point {
  double r[3];
  int system, self;
  int wrap[3];
  // The lower bits. Cells that have these in common are too far apart for both to be within reach.
  int cell[3];
};

// A point in the order of buckets: where it lies in its cell, and its number.
struct __align__(16) Record {
  float at[3];
  int self;
};

// Which candidates of a row were pairs, for the first KEPT steps: each lane has those of two.
struct __align__(8) Kept {
  u32 early, late;
};

struct Search {
  // A cutoff of 0 is not known yet.
  double cutoff, cell_size;
  i64 points, systems, buckets, capacity;
  // Cells of `cells` systems, or one for all.
  const void* cell;
  i64 cell_is_wide, cells;
  // For `each` system, or one for all, or null: then `axes` has a bit for each axis.
  const int* pbc;
  i64 axes, each, half, packed;
  // Zero where the list is to stay as it is, or null.
  const i64* wanted;
  u32* word;
  // Raised where an image may be too far away to be packed, or null.
  i64* wide;
  // Numbers of arguments in the word, from 1 on: positions and cell.
  u32 of_positions, of_cell;
};

__device__ inline bool idle(const Search& a) { return a.wanted && *a.wanted == 0; }

__device__ inline double norm(const double* v) {
  const double scale = fmax(fmax(fabs(v[0]), fabs(v[1])), fabs(v[2]));
  if (!(scale > 0)) return scale;
  const double x = v[0] / scale, y = v[1] / scale, z = v[2] / scale;
  return scale * sqrt(x * x + y * y + z * z);
}

__device__ inline void cross(const double* a, const double* b, double* c) {
  c[0] = a[1] * b[2] - a[2] * b[1];
  c[1] = a[2] * b[0] - a[0] * b[2];
  c[2] = a[0] * b[1] - a[1] * b[0];
}

__device__ inline void normalise(double* v) {
  const double length = norm(v);
  for (int c = 0; c < 3; ++c) v[c] /= length;
}

__device__ inline double fraction(const System& s, double x, double y, double z, int k) {
  return x * s.inverse[k] + y * s.inverse[3 + k] + z * s.inverse[6 + k];
}

// Whether shifts have room for the images within a distance, and there are not too many of them.
__device__ inline bool few_images(const System& s, double cutoff) {
  bool few = true;
  double images = 1;
  for (int k = 0; k < 3; ++k) {
    if (s.cells[k] == 0) continue;
    const double boxes = cutoff / s.heights[k];
    images *= 2 * boxes + 2;
    few = few && boxes + 2 <= (k == 0 ? 511 : 1023);
  }
  return few && images <= 268435456.0;
}

// The largest distance along an axis between coordinates, none beyond `largest`, of points within a cutoff: with some dozen
// roundings of the type of the positions, as `Lattice::slack` has them.
__device__ inline double reach(const System& s, double largest, double cutoff) {
  const double off = (IS_SINGLE ? 0x1p-18 : 0x1p-43) * s.skew * (largest + cutoff + s.lengths);
  return cutoff * (1 + 1e-9) + (IS_SINGLE ? fmin(off, cutoff) : off);
}

// Puts cells into the boxes of a system, as many as there is one of already along each periodic axis: of half the size, or as
// much more as its buckets ask for; or, if they are more than these even then, of the whole size, and they hash.
__device__ inline void divide(System& s, double cell_size) {
  s.cell_size = cell_size;
  s.dense = 0;
  for (double size = cell_size / 2; !s.dense && size < 1.1 * cell_size; size *= 1.26) {
    double all = 1;
    for (int k = 0; k < 3; ++k) {
      const double wide = k == 2 ? size / NARROWER : size;
      if (s.cells[k] > 0) s.cells[k] = int(fmin(fmax(floor(s.heights[k] / wide), 1.0), 1073741824.0));
      s.per[k] = s.cells[k] > 0 ? s.cells[k] : 1 / wide;
      all *= s.cells[k];
    }
    s.dense = 0 < all && all <= s.room;
  }
}

__device__ inline u32 bucket_of(const System& s, u32 x, u32 y, u32 z) {
  if (s.dense) return s.first + (x * u32(s.cells[1]) + y) * u32(s.cells[2]) + z;
  u64 h = (x * 6364136223846793005ull + y) * 3935559000370003845ull;
  h ^= u64(i64(h) >> 29);
  return s.first + (u32(h + z) & s.mask);
}

__device__ inline i64 cell_along(double s, double per, int n) {
  const i64 c = i64(floor(s * per));
  return n > 0 ? (c < 0 ? 0 : c < n - 1 ? c : n - 1) : c;
}

// A point that was moved into its cell.
__device__ inline void in_cell(const System& s, const Point& p, double* at) {
  for (int c = 0; c < 3; ++c) {
    at[c] = p.r[c] - (p.wrap[0] * s.rows[c] + p.wrap[1] * s.rows[3 + c] + p.wrap[2] * s.rows[6 + c]);
  }
}

// Its fractional coordinates.
__device__ inline void fractions(const System& s, const Point& p, double* u) {
  double at[3];
  in_cell(s, p, at);
  for (int k = 0; k < 3; ++k) u[k] = fraction(s, at[0], at[1], at[2], k);
}

// Puts a point into its cell, and says why it cannot be there, or 0.
__device__ inline int put(const System& s, const POSITION* r, Point& p, i64* cell, double& largest) {
  largest = 0;
  for (int c = 0; c < 3; ++c) {
    p.r[c] = double(r[c]);
    // A NaN is not at most anything.
    if (!(fabs(p.r[c]) <= 1.7976931348623157e308)) return NOT_FINITE;
    largest = fmax(largest, fabs(p.r[c]));
  }
  bool far = !(largest < 1e38);
  for (int k = 0; k < 3; ++k) {
    const double boxes = s.cells[k] > 0 ? floor(fraction(s, p.r[0], p.r[1], p.r[2], k)) : 0;
    far = far || !(fabs(boxes) <= 536870912.0);
    p.wrap[k] = far ? 0 : int(boxes);
  }
  double u[3];
  fractions(s, p, u);
  for (int k = 0; k < 3; ++k) {
    far = far || !(fabs(u[k] * s.per[k]) < (k == 2 ? NARROWER * 1e15 : 1e15));
    cell[k] = far ? 0 : cell_along(u[k], s.per[k], s.cells[k]);
    p.cell[k] = int(u32(u64(cell[k])));
  }
  return far ? FAR : 0;
}

// Without a division next to the box.
__device__ inline int floor_div(int x, int n) {
  return -n <= x && x < 2ll * n ? int(x >= n) - int(x < 0) : x / n - (x % n < 0);
}

// The packing of math/packed.rs.
__device__ inline int pack(int x, int y, int z) {
  return int((u32(x) << 22) + (u32(y) << 11) + u32(z));
}

__device__ inline void unpack(int packed, int* s) {
  const int biased = int(u32(packed) + (1024u << 11 | 1024u));
  s[0] = biased >> 22;
  s[1] = (biased >> 11 & 2047) - 1024;
  s[2] = (biased & 2047) - 1024;
}

// (r_j - r_i) + S . cell.
__device__ inline void displacement(const double* rows, const double* from, const double* to, const int* t, double* d) {
  double moved[3] = {0, 0, 0};
  if (t[0] != 0 || t[1] != 0 || t[2] != 0) {
    for (int c = 0; c < 3; ++c) {
      const double x = __dmul_rn(double(t[0]), rows[c]), y = __dmul_rn(double(t[1]), rows[3 + c]);
      moved[c] = __dadd_rn(__dadd_rn(x, y), __dmul_rn(double(t[2]), rows[6 + c]));
    }
  }
  for (int c = 0; c < 3; ++c) d[c] = __dadd_rn(__dsub_rn(to[c], from[c]), moved[c]);
}

__device__ inline double square(const double* d) {
  return __dadd_rn(__dadd_rn(__dmul_rn(d[0], d[0]), __dmul_rn(d[1], d[1])), __dmul_rn(d[2], d[2]));
}

// |(r_j - r_i) + S . cell|, in the type of the positions.
__device__ inline double distance(const double* rows, const double* from, const double* to, const int* t) {
  if (IS_SINGLE) {
    float v[3];
    for (int c = 0; c < 3; ++c) {
      const float x = __fmul_rn(float(t[0]), float(rows[c])), y = __fmul_rn(float(t[1]), float(rows[3 + c]));
      const float moved = __fadd_rn(__fadd_rn(x, y), __fmul_rn(float(t[2]), float(rows[6 + c])));
      v[c] = __fadd_rn(__fsub_rn(float(to[c]), float(from[c])), moved);
    }
    const float found = __fadd_rn(__fadd_rn(__fmul_rn(v[0], v[0]), __fmul_rn(v[1], v[1])), __fmul_rn(v[2], v[2]));
    // Others have no room in single precision.
    if (1e-30f <= found && found < 1e30f) return __fsqrt_rn(found);
  }
  double d[3];
  displacement(rows, from, to, t, d);
  return __dsqrt_rn(square(d));
}

// A cutoff in the type of the positions.
__device__ inline double rounded(double cutoff) { return IS_SINGLE ? __double2float_rn(cutoff) : cutoff; }

// What squared distances in f32 tell: pairs are nearer than the limit below the one, and farther beyond the other.
struct Band {
  float below, above;
};

// A point in its cell has coordinates up to F, and the image of another within the limit c up to F + c. Each is rounded to f32
// once, by 2^-24 of itself, and so is their difference; the f64 before that, and the rule's own, is off by less than what
// `reach` has for it. So a difference is off by at most `off`, a square by 2 sqrt(3) c off + 3 off^2 and four roundings of
// itself, and the ends of the band by one. Where squares have no room in f32, numbers below 2^-125 and infinities do not tell.
__device__ inline Band band_of(const System& s, double largest, double limit) {
  const bool open = s.cells[0] == 0 || s.cells[1] == 0 || s.cells[2] == 0;
  const double farthest = s.lengths + (open ? 2 * largest : 0);
  const double off = 0x1p-23 * (farthest + limit) + (reach(s, largest, limit) - limit);
  const double square = limit * limit, wide = 4 * off * (limit + off) + 0x1p-21 * square + 0x1p-125;
  return {float(square - wide), float(square + wide)};
}

// Cells along the last axis whose points lie one after the other.
struct Run {
  // The first point, how many there are, and the packed boxes that the cells are away.
  int begin;
  u32 count;
  int code;
  // Which cells: others may share their buckets.
  int cell[3];
  u32 cells;
  // The row's own point, as far away from their box.
  float from[3];
};

// The cells from `low` on, `cells` of them, in the box that `low` lies in: all in buckets that follow each other, of which none
// comes twice. `at` is the row's point in its cell.
__device__ inline Run run_of(const System& s, const double* at, const int* low, u32 cells, const int* bounds) {
  int n[3];
  Run run = {};
  for (int k = 0; k < 3; ++k) {
    n[k] = s.cells[k] > 0 ? floor_div(low[k], s.cells[k]) : 0;
    run.cell[k] = low[k] - n[k] * s.cells[k];
  }
  run.code = pack(n[0], n[1], n[2]);
  run.cells = cells;
  const u32 bucket = bucket_of(s, u32(run.cell[0]), u32(run.cell[1]), u32(run.cell[2])), last = s.first + s.mask;
  run.begin = bounds[bucket];
  if (s.dense || cells - 1 <= last - bucket) {
    run.count = u32(bounds[bucket + cells] - run.begin);
  } else {
    // Behind the last bucket comes the first.
    run.count = u32(bounds[last + 1] - run.begin) + bounds[bucket + min(cells, s.mask + 1) - s.mask - 1] - bounds[s.first];
  }
  for (int c = 0; c < 3; ++c) {
    run.from[c] = float(at[c] - (n[0] * s.rows[c] + n[1] * s.rows[3 + c] + n[2] * s.rows[6 + c]));
  }
  return run;
}

// Whether the step `time` of a row is kept, and what of it.
__device__ inline bool is_kept(int time) { return time < KEPT; }
__device__ inline u32 kept_hits(const Kept& kept, int time) {
  return __shfl_sync(ALL, time < WARP ? kept.early : kept.late, time % WARP);
}
__device__ inline void keep_hits(Kept& kept, int time, u32 hits) {
  const int lane = threadIdx.x % WARP;
  if (time == lane) kept.early = hits;
  if (time == lane + WARP) kept.late = hits;
}

// Calls `f(lanes that have a pair, j, packed boxes)` with all lanes of the warp together, until every pair of the row came once:
// those that are `wanted(j, packed boxes)` and for which `is_pair(other point, boxes)`, if the band does not tell, in the cells
// `within` reach. Each lane finds a run of cells, and then all look at the points of these runs. `kept` has the results of the
// first pass; AGAIN is the second pass, which computes no distance.
template <bool AGAIN, class Wanted, class Pair, class F>
__device__ __forceinline__ void visit(const System& s, const Point& i, double within, const Band& band, const Point* points,
                                      const Record* sorted, const int* bounds, Kept& kept, Wanted wanted, Pair is_pair, F f) {
  const int lane = threadIdx.x % WARP;
  double at[3];
  in_cell(s, i, at);
  // The lower bits of cells along open axes; along others they are so few that no more are needed.
  u32 low[3], size[3];
  for (int k = 0; k < 3; ++k) {
    const double u = fraction(s, at[0], at[1], at[2], k), far = within / s.heights[k] + s.margin[k];
    const double first = floor((u - far) * s.per[k]);
    low[k] = u32(u64(i64(first)));
    size[k] = u32(floor((u + far) * s.per[k]) - first) + 1;
  }
  // Boxes along the last axis, where there are any.
  const int box = s.cells[2], first_box = box ? floor_div(int(low[2]), box) : 0;
  const u32 boxes = box ? floor_div(int(low[2] + size[2] - 1), box) - first_box + 1 : 1;
  const u32 runs = size[0] * size[1] * boxes;
  const bool dense = s.dense;
  const u32 number = s.room / 2, last = s.first / 2 + number - 1;
  int time = 0;
  for (u32 base = 0; base < runs; base += WARP) {
    const u32 run = base + lane;
    Run mine = {};
    if (run < runs) {
      const u32 xy = run / boxes, x = xy / size[1];
      int begin[3] = {int(low[0] + x), int(low[1] + xy % size[1]), int(low[2])}, end = int(low[2] + size[2]);
      if (box) {
        const int in_box = (first_box + int(run % boxes)) * box;
        begin[2] = max(begin[2], in_box);
        end = min(end, in_box + box);
      }
      mine = run_of(s, at, begin, u32(end) - u32(begin[2]), bounds);
    }
    // Candidates are numbered through: the numbers at which runs end.
    u32 ends = mine.count;
    for (int by = 1; by < WARP; by *= 2) {
      const u32 before = __shfl_up_sync(ALL, ends, by);
      ends += lane >= by ? before : 0;
    }
    const u32 all = __shfl_sync(ALL, ends, WARP - 1);
    for (u32 some = 0; some < all; some += WARP) {
      const int now = time;
      time += is_kept(time);
      const bool known = AGAIN && is_kept(now);
      u32 hits = known ? kept_hits(kept, now) : 0;
      if (known && hits == 0) continue;
      const u32 candidate = min(some + lane, all - 1);
      int of = 0;
#pragma unroll
      for (int by = WARP / 2; by > 0; by /= 2) of += __shfl_sync(ALL, ends, of + by - 1) <= candidate ? by : 0;
      const int code = __shfl_sync(ALL, mine.code, of);
      // Behind the system's last point comes its first.
      u32 p = __shfl_sync(ALL, u32(mine.begin) - (ends - mine.count), of) + candidate;
      p -= p > last ? number : 0;
      int j = 0;
      if (known) {
        j = sorted[p].self;
      } else {
        const Record its = sorted[p];
        j = its.self;
        float square = 0;
        for (int c = 0; c < 3; ++c) {
          const float d = its.at[c] - __shfl_sync(ALL, mine.from[c], of);
          square = __fmaf_rn(d, d, square);
        }
        // A NaN is not above.
        bool found = (some + lane < all) & !(square > band.above) & wanted(j, code);
        if (!dense) {
          // Other cells may share the buckets.
          int cell[3];
          for (int k = 0; k < 3; ++k) cell[k] = __shfl_sync(ALL, mine.cell[k], of);
          const u32 cells = __shfl_sync(ALL, mine.cells, of);
          const int* its_cell = points[j].cell;
          found = found && its_cell[0] == cell[0] && its_cell[1] == cell[1] && u32(its_cell[2]) - u32(cell[2]) < cells;
        }
        if (found & !(square < band.below)) {
          int n[3];
          unpack(code, n);
          found = is_pair(points[j], n);
        }
        hits = __ballot_sync(ALL, found);
        if (!AGAIN) keep_hits(kept, now, hits);
      }
      f(hits, j, code);
    }
  }
}

// A count of pairs with those of a step, up to the largest that an i32 has.
__device__ inline u32 with_more(u32 count, u32 hits) { return min(count + __popc(hits), 2147483647u); }

// The sort key of a row's entries, by (j, S): for one j the wrap of the points is common, and boxes order like S.
__device__ inline u64 key_of(int j, int code) { return u64(u32(j)) << 32 | (u32(code) ^ 0x80000000u); }
__device__ inline int code_of(u64 key) { return int(u32(key) ^ 0x80000000u); }
