// Points in a grid whose cells hash to buckets: as in grid/kernels.rs, with points in the order of their buckets and a
// warp for each row. Squared distances are rounded step by step, as on the CPU.
typedef unsigned u32;
typedef long long i64;
typedef unsigned long long u64;

#define FUNCTION extern "C" __global__ void __launch_bounds__(THREADS)

constexpr int THREADS = 128, WARP = 32;
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
};

// Whole sectors of memory.
struct __align__(16) Point {
  double r[3];
  int system, self;
  int wrap[3];
  // The lower bits. Cells that have these in common are too far apart for both to be within reach.
  int cell[3];
};

struct __align__(16) Four {
  int x, y, z, w;
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

// The largest distance along an axis between coordinates, none beyond `largest`, of points within a cutoff.
__device__ inline double reach(const System& s, double largest, double cutoff) {
  return cutoff * (1 + 1e-9) + 0x1p-43 * s.skew * (largest + cutoff + s.lengths);
}

// Puts cells into the boxes of a system, as many as there is one of already along each periodic axis.
__device__ inline void divide(System& s, double cell_size) {
  s.cell_size = cell_size;
  for (int k = 0; k < 3; ++k) {
    const double size = k == 2 ? cell_size / NARROWER : cell_size;
    if (s.cells[k] > 0) s.cells[k] = int(fmin(fmax(floor(s.heights[k] / size), 1.0), 1073741824.0));
    s.per[k] = s.cells[k] > 0 ? s.cells[k] : 1 / size;
  }
}

__device__ inline u32 bucket_of(u64 b, u64 x, u64 y, u64 z, u64 buckets) {
  u64 h = ((b * 2971215073ull + x) * 6364136223846793005ull + y) * 3935559000370003845ull;
  h ^= u64(i64(h) >> 29);
  return u32((h + z) & (buckets - 1));
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

__device__ inline Point sorted_point(const Search& a, const Four* sorted, i64 p) {
  const Four cell = sorted[p], box = sorted[a.points + p];
  const double* r = (const double*)(sorted + 2 * a.points) + p;
  return {{r[0], r[a.points], r[2 * a.points]}, cell.w, box.w, {box.x, box.y, box.z}, {cell.x, cell.y, cell.z}};
}

__device__ inline i64 floor_div(i64 x, i64 n) {
  const i64 q = x / n;
  return q - (x % n < 0);
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

// Cells along the last axis whose points lie one after the other.
struct Run {
  // The first point, how many there are, the packed boxes that the cells are away, and which cells.
  int begin, count, code, x, y, z;
  u32 cells;
};

// The cells from `low` on, `cells` of them, in the box that `low` lies in: all in buckets that follow each other, of which none
// comes twice.
__device__ inline Run run_of(const Search& a, const System& s, int system, const i64* low, i64 cells, const int* bounds) {
  u64 wrapped[3];
  int n[3];
  for (int k = 0; k < 3; ++k) {
    n[k] = s.cells[k] > 0 ? int(floor_div(low[k], s.cells[k])) : 0;
    wrapped[k] = u64(low[k] - i64(n[k]) * s.cells[k]);
  }
  const u32 bucket = bucket_of(u64(system), wrapped[0], wrapped[1], wrapped[2], u64(a.buckets));
  const i64 end = bucket + (cells < a.buckets ? cells : a.buckets);
  const int begin = bounds[bucket];
  const int count = end <= a.buckets ? bounds[end] - begin : int(a.points) - begin + bounds[end - a.buckets];
  const u32 in_bits = cells < 0xffffffffll ? u32(cells) : 0xffffffffu;
  return {begin, count, pack(n[0], n[1], n[2]), int(u32(wrapped[0])), int(u32(wrapped[1])), int(u32(wrapped[2])), in_bits};
}

__device__ inline Run run_from(const Run& run, int lane) {
  return {__shfl_sync(ALL, run.begin, lane), __shfl_sync(ALL, run.count, lane), __shfl_sync(ALL, run.code, lane),
          __shfl_sync(ALL, run.x, lane),     __shfl_sync(ALL, run.y, lane),     __shfl_sync(ALL, run.z, lane),
          __shfl_sync(ALL, run.cells, lane)};
}

// Calls `f(lanes that have a pair, j, packed boxes)` with all lanes of the warp together, until every pair of the row
// came once: those for which `is_pair(other point, boxes)`, in the cells `within` reach. Each lane finds a run of
// cells, and then all look at the points of one run after the other. `kept` has the results of the first pass; AGAIN is
// the second pass, which computes no distance.
template <bool AGAIN, class Pair, class F>
__device__ __forceinline__ void visit(const Search& a, const System& s, const Point& i, double within, const Four* sorted,
                                      const int* bounds, u64& kept, Pair is_pair, F f) {
  const int lane = threadIdx.x % WARP;
  double u[3];
  fractions(s, i, u);
  i64 low[3], size[3];
  for (int k = 0; k < 3; ++k) {
    const double far = within / s.heights[k] + s.margin[k];
    low[k] = i64(floor((u[k] - far) * s.per[k]));
    size[k] = i64(floor((u[k] + far) * s.per[k])) - low[k] + 1;
  }
  // Boxes along the last axis, where there are any.
  const i64 box = s.cells[2] > 0 ? s.cells[2] : 0, first_box = box ? floor_div(low[2], box) : 0;
  const i64 boxes = box ? floor_div(low[2] + size[2] - 1, box) - first_box + 1 : 1;
  const i64 runs = size[0] * size[1] * boxes;
  i64 time = 0;
  for (i64 base = 0; base < runs; base += WARP) {
    const i64 at = base + lane;
    Run mine = {};
    if (at < runs) {
      const i64 xy = at / boxes, x = xy / size[1], in_box = (first_box + at - xy * boxes) * box;
      i64 begin[3] = {low[0] + x, low[1] + (xy - x * size[1]), low[2]}, end = low[2] + size[2];
      if (box) {
        begin[2] = begin[2] < in_box ? in_box : begin[2];
        end = end < in_box + box ? end : in_box + box;
      }
      mine = run_of(a, s, i.system, begin, end - begin[2], bounds);
    }
    for (u32 left = __ballot_sync(ALL, mine.count > 0); left != 0; left &= left - 1) {
      const Run run = run_from(mine, __ffs(int(left)) - 1);
      for (u32 some = 0; some < u32(run.count); some += WARP, ++time) {
        const bool known = AGAIN && time < KEPT;
        u32 hits = known ? u32(__shfl_sync(ALL, kept, int(time / 2)) >> 32 * (time % 2)) : 0;
        if (known && hits == 0) continue;
        // Behind the last bucket comes the first.
        i64 p = i64(run.begin) + some + lane;
        if (p >= a.points) p -= a.points;
        int j = 0;
        if (known) {
          if (hits >> lane & 1) j = sorted[a.points + p].w;
        } else {
          bool found = false;
          if (some + lane < u32(run.count)) {
            const Four its = sorted[p];
            // Other cells, and other systems, may share the buckets.
            if (its.x == run.x && its.y == run.y && u32(its.z) - u32(run.z) < run.cells && its.w == i.system) {
              const Point other = sorted_point(a, sorted, p);
              int n[3];
              unpack(run.code, n);
              found = is_pair(other, n);
              j = other.self;
            }
          }
          hits = __ballot_sync(ALL, found);
          if (!AGAIN && time / 2 == lane) kept |= u64(hits) << 32 * (time % 2);
        }
        f(hits, j, run.code);
      }
    }
  }
}

// The sort key of a row's entries, by (j, S): for one j the wrap of the points is common, and boxes order like S.
__device__ inline u64 key_of(int j, int code) { return u64(u32(j)) << 32 | (u32(code) ^ 0x80000000u); }
__device__ inline int code_of(u64 key) { return int(u32(key) ^ 0x80000000u); }
