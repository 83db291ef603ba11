// Entries of a row: found in the order of cells, sorted by (j, S), and written.

// Entries that shared memory has room for; more are sorted where they are written.
constexpr int ROOM = 1024;

// The boxes that entries of a row may lie in: from `low` on, numbered along each axis in `width` bits.
struct Boxes {
  int low[3], width;
};

// Those within a distance, and one more on each side, so that rounding does not matter.
__device__ inline Boxes boxes_within(const System& s, const Point& i, double within) {
  double u[3];
  fractions(s, i, u);
  Boxes boxes = {{0, 0, 0}, 0};
  int last = 0;
  for (int k = 0; k < 3; ++k) {
    if (s.cells[k] == 0) continue;
    const double far = within / s.heights[k] + s.margin[k];
    boxes.low[k] = int(floor(u[k] - far)) - 1;
    last = max(last, int(floor(u[k] + far)) + 1 - boxes.low[k]);
  }
  boxes.width = WARP - __clz(last);
  return boxes;
}

// Compares each of 32 K keys with that whose number differs by the bits `with`; the smaller one comes first.
template <int K> __device__ inline void exchange(u32 (&keys)[K], int with) {
  const int lanes = with / K, own = with % K;
  if (lanes == 0) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if ((k ^ own) < k) continue;
      const u32 x = keys[k], y = keys[k ^ own];
      keys[k] = min(x, y);
      keys[k ^ own] = max(x, y);
    }
    return;
  }
  const int lane = threadIdx.x % WARP;
  const bool first = (lane ^ lanes) > lane;
  u32 theirs[K];
#pragma unroll
  for (int k = 0; k < K; ++k) theirs[k] = __shfl_xor_sync(ALL, keys[k ^ own], lanes);
#pragma unroll
  for (int k = 0; k < K; ++k) keys[k] = first ? min(keys[k], theirs[k]) : max(keys[k], theirs[k]);
}

// Sorts up to 32 K keys of a warp in its registers: each lane has K that follow one another, in a bitonic sort whose
// comparisons all put the smaller one first, so that missing keys are the largest.
template <int K> __device__ __noinline__ void sort_in_registers(u32* room, int n) {
  const int first = K * (threadIdx.x % WARP);
  u32 keys[K];
  __syncwarp();
#pragma unroll
  for (int k = 0; k < K; ++k) keys[k] = first + k < n ? room[first + k] : ~0u;
#pragma unroll
  for (int run = 1; run < WARP * K; run *= 2) {
    exchange(keys, 2 * run - 1);
#pragma unroll
    for (int by = run / 2; by > 0; by /= 2) exchange(keys, by);
  }
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (first + k < n) room[first + k] = keys[k];
  }
  __syncwarp();
}

// The entries of a row: each a point j and the boxes n that it lies away, which for one j are in the order of S.
struct Entries {
  // Keys of 32 bits in shared memory, where that has room for them and they have room for j and n; or others and shifts hold
  // keys of 64 bits until they are written.
  u32* room;
  Boxes boxes;
  bool fit;
  int *others, *shifts;
  i64 stride;

  __device__ Entries(const Search& a, u32* room, i64 n, const Boxes& boxes, int* others, int* shifts)
      : room(room), boxes(boxes), others(others), shifts(shifts), stride(a.packed ? 1 : 3) {
    fit = n <= ROOM && 3 * boxes.width < 32 && a.points <= 1ll << (32 - 3 * boxes.width);
  }

  // Those of a warp's lanes, behind the first `done`.
  __device__ void add(u32 hits, i64& done, int j, int code) const {
    const int lane = threadIdx.x % WARP;
    int n[3];
    unpack(code, n);
    u32 key = u32(j);
    for (int k = 0; k < 3; ++k) key = key << boxes.width | u32(n[k] - boxes.low[k]);
    const i64 at = done + __popc(hits & ((1u << lane) - 1));
    done += __popc(hits);
    if (!(hits >> lane & 1)) return;
    if (fit) {
      room[at] = key;
    } else {
      set(at, key_of(j, code));
    }
  }

  __device__ void get(i64 at, int& j, int* n) const {
    if (fit) {
      const u32 key = room[at], all = (1u << boxes.width) - 1;
      j = int(key >> 3 * boxes.width);
      for (int k = 0; k < 3; ++k) n[k] = int(key >> (2 - k) * boxes.width & all) + boxes.low[k];
    } else {
      j = others[at];
      unpack(code_of(wide(at)), n);
    }
  }

  __device__ u64 wide(i64 at) const { return u64(u32(others[at])) << 32 | u32(shifts[stride * at]); }

  __device__ void set(i64 at, u64 key) const {
    others[at] = int(key >> 32);
    shifts[stride * at] = int(u32(key));
  }

  __device__ void sort(i64 n) const {
    if (!fit) {
      sort_wide(n);
    } else if (n <= 4 * WARP) {
      sort_in_registers<4>(room, int(n));
    } else if (n <= 8 * WARP) {
      sort_in_registers<8>(room, int(n));
    } else if (n <= 16 * WARP) {
      sort_in_registers<16>(room, int(n));
    } else {
      sort_in_registers<32>(room, int(n));
    }
  }

  // The same sort, of any number of keys in memory.
  __device__ void sort_wide(i64 n) const {
    const int lane = threadIdx.x % WARP;
    const auto order = [&](i64 x, i64 y) {
      if (y >= n) return;
      const u64 p = wide(x), q = wide(y);
      if (q < p) {
        set(x, q);
        set(y, p);
      }
    };
    i64 half = 1;
    while (2 * half < n) half *= 2;
    for (i64 run = 1; run < n; run *= 2) {
      __syncwarp();
      for (i64 t = lane; t < half; t += WARP) {
        const i64 within = t & (run - 1), x = 2 * (t - within) + within;
        order(x, x ^ (2 * run - 1));
      }
      for (i64 by = run / 2; by > 0; by /= 2) {
        __syncwarp();
        for (i64 t = lane; t < half; t += WARP) {
          const i64 within = t & (by - 1), x = 2 * (t - within) + within;
          order(x, x + by);
        }
      }
    }
    __syncwarp();
  }
};

// Shared memory of a warp.
struct Room {
  u32 keys[ROOM];
  int shifts[3 * WARP];
};

// Sorts the entries of row i and writes them, with shifts for the coordinates that were given.
__device__ inline void write_row(const Search& a, const Entries& entries, i64 n, const Point& i, const Point* points,
                                 int* rows, Room& room) {
  const int lane = threadIdx.x % WARP;
  entries.sort(n);
  for (i64 base = 0; base < n; base += WARP) {
    const i64 e = base + lane;
    int j = 0, t[3] = {0, 0, 0};
    if (e < n) {
      entries.get(e, j, t);
      for (int k = 0; k < 3; ++k) t[k] += i.wrap[k] - points[j].wrap[k];
      entries.others[e] = j;
      if (rows) rows[e] = i.self;
    }
    if (a.packed) {
      if (abs(t[0]) > 511 || abs(t[1]) > 1023 || abs(t[2]) > 1023) raise(a.word, FAR, a.of_positions);
      if (e < n) entries.shifts[e] = pack(t[0], t[1], t[2]);
      continue;
    }
    // Through shared memory, so that lanes side by side write side by side.
    for (int k = 0; k < 3; ++k) room.shifts[3 * lane + k] = t[k];
    __syncwarp();
    for (int k = lane; k < 3 * WARP; k += WARP) {
      if (3 * base + k < 3 * n) entries.shifts[3 * base + k] = room.shifts[k];
    }
    __syncwarp();
  }
}
