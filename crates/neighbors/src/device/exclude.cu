// Pairs that sums leave out: their images and their list, and lists without them.

// Reasons of backend/status.rs, and the argument that has the pairs.
constexpr int INDEX = 0, ITSELF = 11, CROSSING = 12, TWICE = 18, OPEN = 19;
// Images from -REACH up to below REACH are sorted.
constexpr int REACH = 1 << 20;

struct Pairs {
  i64 count;
  // Atoms of each pair, and its image, where images are given.
  const int *atoms, *given;
  u32 param;
};

// Entry 2p is pair p from its first atom, entry 2p + 1 from its second.
__device__ inline void entry_of(const Pairs& pairs, const int* images, u32 e, int* i, int* j, int* s) {
  const int* pair = pairs.atoms + 2 * i64(e / 2);
  const int side = e % 2;
  *i = pair[side];
  *j = pair[1 - side];
  for (int k = 0; k < 3; ++k) s[k] = (side ? -1 : 1) * images[3 * i64(e / 2) + k];
}

// The image S at which |r_j - r_i + S . cell| is smallest; of several the first in lexicographic order.
__device__ inline void nearest_image(const System& s, const double* i, const double* j, int* best) {
  double at[3], d[3];
  for (int c = 0; c < 3; ++c) d[c] = j[c] - i[c];
  bool is_periodic[3];
  for (int k = 0; k < 3; ++k) {
    is_periodic[k] = s.cells[k] > 0;
    at[k] = fraction(s, d[0], d[1], d[2], k);
    best[k] = is_periodic[k] ? int(-round(at[k])) : 0;
  }
  displacement(s.rows, i, j, best, d);
  double least = square(d);
  const double reach = sqrt(least);
  int from[3], to[3];
  for (int k = 0; k < 3; ++k) {
    const double most = is_periodic[k] ? fmin(reach / s.heights[k], 1e3) + 1e-9 : 0;
    from[k] = is_periodic[k] ? int(ceil(-at[k] - most)) : 0;
    to[k] = is_periodic[k] ? int(floor(-at[k] + most)) : 0;
  }
  for (int x = from[0]; x <= to[0]; ++x) {
    for (int y = from[1]; y <= to[1]; ++y) {
      for (int z = from[2]; z <= to[2]; ++z) {
        const int image[3] = {x, y, z};
        displacement(s.rows, i, j, image, d);
        const double length = square(d);
        const bool is_first = x != best[0] ? x < best[0] : y != best[1] ? y < best[1] : z < best[2];
        if (length < least || (length == least && is_first)) {
          least = length;
          for (int k = 0; k < 3; ++k) best[k] = image[k];
        }
      }
    }
  }
}

// The image of each pair, and its two entries in order. Keys are those of images, where these are given.
FUNCTION images(Search a, const POSITION* r, const int* of, const System* systems, Pairs pairs, int* images, u64* keys,
                u32* order) {
  const i64 p = blockIdx.x * i64(THREADS) + threadIdx.x;
  if (p >= pairs.count) return;
  int image[3] = {0, 0, 0};
  int wrong = -1;
  if (*a.word == 0) {
    const int i = pairs.atoms[2 * p], j = pairs.atoms[2 * p + 1];
    if (i < 0 || i >= a.points || j < 0 || j >= a.points) {
      wrong = INDEX;
    } else if (of[i] != of[j]) {
      wrong = CROSSING;
    } else {
      const System& s = systems[of[i]];
      double from[3], to[3];
      for (int c = 0; c < 3; ++c) {
        from[c] = double(r[3 * i64(i) + c]);
        to[c] = double(r[3 * i64(j) + c]);
      }
      for (int k = 0; pairs.given && k < 3; ++k) {
        image[k] = pairs.given[3 * p + k];
        if (image[k] != 0 && s.cells[k] == 0) wrong = OPEN;
        if (image[k] >= REACH || image[k] <= -REACH) wrong = FAR;
      }
      if (!pairs.given && s.usable) nearest_image(s, from, to, image);
      if (i == j && image[0] == 0 && image[1] == 0 && image[2] == 0) wrong = ITSELF;
    }
    if (wrong >= 0) raise(a.word, wrong, pairs.param);
  }
  for (int k = 0; k < 3; ++k) images[3 * p + k] = image[k];
  for (int side = 0; side < 2; ++side) {
    u64 key = 0;
    for (int k = 0; k < 3; ++k) key = key << 21 | u64(REACH + (side ? -image[k] : image[k]));
    keys[2 * p + side] = key;
    order[2 * p + side] = u32(2 * p + side);
  }
}

// Keys of entries by their atoms.
FUNCTION by_atoms(Search a, Pairs pairs, const u32* order, u64* keys) {
  const i64 k = blockIdx.x * i64(THREADS) + threadIdx.x;
  if (k >= 2 * pairs.count) return;
  const int* pair = pairs.atoms + 2 * i64(order[k] / 2);
  const int side = order[k] % 2;
  // Where something is wrong, indices may be any numbers: all entries are those of the first atom.
  keys[k] = *a.word != 0 ? 0 : u64(u32(pair[side])) << 32 | u32(pair[1 - side]);
}

// The list, in the order of its keys.
FUNCTION enlist(Search a, Pairs pairs, const int* images, const u64* keys, const u32* order, u32* rows, int* columns,
                int* shifts, int* exclusion_of) {
  const i64 k = blockIdx.x * i64(THREADS) + threadIdx.x;
  if (k >= 2 * pairs.count) return;
  rows[k] = u32(keys[k] >> 32);
  columns[k] = int(u32(keys[k]));
  exclusion_of[k] = int(order[k] / 2);
  int i, j, s[3], before[3];
  entry_of(pairs, images, order[k], &i, &j, s);
  for (int c = 0; c < 3; ++c) shifts[3 * k + c] = s[c];
  if (k == 0 || keys[k] != keys[k - 1] || *a.word != 0) return;
  entry_of(pairs, images, order[k - 1], &i, &j, before);
  if (s[0] == before[0] && s[1] == before[1] && s[2] == before[2]) raise(a.word, TWICE, pairs.param);
}

// Offsets that calls refuse, where something is wrong.
FUNCTION refuse(Search a, int* ptr) {
  const i64 at = blockIdx.x * i64(THREADS) + threadIdx.x;
  if (at <= a.points && *a.word != 0) ptr[at] = at == 0 ? 0 : 2147483647;
}

struct List {
  const i64 *start, *end;
  // Images as three integers, or packed.
  const int *others, *triples, *packed;
};

struct Without {
  i64 rows, capacity;
  List list, excluded;
  u32* word;
  u32 room;
};

__device__ inline void image_of(const List& list, i64 e, int* t) {
  if (list.packed) unpack(list.packed[e], t);
  for (int k = 0; !list.packed && k < 3; ++k) t[k] = list.triples[3 * e + k];
}

// The entries of a row that stay, WARP at a time: calls `f(lanes that have one, entry, image)`.
template <class F>
__device__ __forceinline__ void visit_row(const Without& a, i64 row, F f) {
  const int lane = threadIdx.x % WARP;
  const i64 end = a.list.end[row];
  for (i64 base = a.list.start[row]; base < end; base += WARP) {
    const i64 e = base + lane;
    int t[3] = {0, 0, 0}, u[3];
    bool stays = e < end;
    if (stays) image_of(a.list, e, t);
    for (i64 x = a.excluded.start[row]; stays && x < a.excluded.end[row]; ++x) {
      if (a.excluded.others[x] != a.list.others[e]) continue;
      image_of(a.excluded, x, u);
      stays = t[0] != u[0] || t[1] != u[1] || t[2] != u[2];
    }
    f(__ballot_sync(ALL, stays), e, t);
  }
}

FUNCTION count(Without a, int* counts) {
  const i64 row = (blockIdx.x * i64(THREADS) + threadIdx.x) / WARP;
  if (row >= a.rows) return;
  // Nothing may be followed where something is wrong, and no list is made then: more than any has room for.
  int found = *a.word == 0 ? 0 : 2147483647;
  if (found == 0) visit_row(a, row, [&](u32 hits, i64, const int*) { found += __popc(hits); });
  if (threadIdx.x % WARP == 0) counts[row] = found;
}

FUNCTION fill(Without a, const i64* ptr, int* others, int* shifts) {
  const i64 row = (blockIdx.x * i64(THREADS) + threadIdx.x) / WARP;
  if (row >= a.rows || *a.word != 0 || ptr[a.rows] > a.capacity) return;
  const int lane = threadIdx.x % WARP;
  i64 next = ptr[row];
  visit_row(a, row, [&](u32 hits, i64 e, const int* t) {
    if (hits >> lane & 1) {
      const i64 to = next + __popc(hits & ((1u << lane) - 1));
      others[to] = a.list.others[e];
      for (int k = 0; k < 3; ++k) shifts[3 * to + k] = t[k];
    }
    next += __popc(hits);
  });
}

// Offsets in 32 bits, and zeros behind the last pair.
FUNCTION settle(Without a, const i64* ptr, int* offsets, int* others, int* shifts) {
  const i64 at = blockIdx.x * i64(THREADS) + threadIdx.x;
  const i64 total = ptr[a.rows];
  if (at <= a.rows) {
    offsets[at] = ptr[at] < 2147483647 ? int(ptr[at]) : 2147483647;
    if (at == 0 && total > a.capacity) raise(a.word, CAPACITY, a.room);
  }
  if (at < a.capacity && (at >= total || total > a.capacity)) {
    others[at] = int(a.rows);
    for (int k = 0; k < 3; ++k) shifts[3 * at + k] = 0;
  }
}
