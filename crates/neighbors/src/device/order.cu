// Points of each system in an order in space, as near/cloud.rs has it; those within one part of the box stay as they are.

// For each way in which the curve goes through a box, and each octant of it: the way through the octant, and its place.
struct Curve {
  unsigned char next[24][8];
};

// The box around the points of a system: numbers as `ordered_wide` has them, lower ends with the other sign.
struct Box {
  u64 high[3], low[3];
};

constexpr int BITS = 10;

// A double in integers that order alike, none of which is 0.
__device__ inline u64 ordered_wide(double x) {
  const u64 bits = u64(__double_as_longlong(x));
  return bits >> 63 ? ~bits : bits | 1ull << 63;
}
__device__ inline double from_ordered(u64 bits) {
  return __longlong_as_double(i64(bits >> 63 ? bits & ~(1ull << 63) : ~bits));
}

// Finds the boxes around systems.
FUNCTION surround(Search a, const POSITION* r, const int* of, const System* systems, Box* boxes) {
  const i64 i = blockIdx.x * i64(THREADS) + threadIdx.x;
  if (i >= a.points) return;
  const int b = of[i];
  if (b < 0 || b >= a.systems || !systems[b].usable) return;
  Point p;
  i64 cell[3];
  double largest, at[3];
  const int wrong = put(systems[b], r + 3 * i, p, cell, largest);
  if (wrong) return raise(a.word, wrong, a.of_positions);
  in_cell(systems[b], p, at);
  for (int k = 0; k < 3; ++k) {
    for (int side = 0; side < 2; ++side) {
      const u64 end = ordered_wide(side == 0 ? at[k] : -at[k]);
      u64* to = (side == 0 ? boxes[b].high : boxes[b].low) + k;
      if (end > *(volatile u64*)to) atomicMax(to, end);
    }
  }
}

// The place of each point along the curve through its box, behind the number of its system.
FUNCTION curve(Search a, const POSITION* r, const int* of, const System* systems, const Box* boxes, Curve table, u64* keys,
               u32* rows) {
  const i64 i = blockIdx.x * i64(THREADS) + threadIdx.x;
  if (i >= a.points) return;
  keys[i] = 0;
  rows[i] = u32(i);
  // Where something is wrong, boxes may be empty.
  if (*a.word != 0) return;
  const int b = of[i];
  Point p;
  i64 cell[3];
  double largest, at[3], low[3], edge = 0;
  put(systems[b], r + 3 * i, p, cell, largest);
  in_cell(systems[b], p, at);
  for (int k = 0; k < 3; ++k) {
    low[k] = -from_ordered(boxes[b].low[k]);
    edge = fmax(edge, from_ordered(boxes[b].high[k]) - low[k]);
  }
  const double scale = edge > 0 ? double(1 << BITS) * (1 - 1e-9) / edge : 0;
  u32 part[3], way = 0;
  for (int k = 0; k < 3; ++k) part[k] = u32((at[k] - low[k]) * scale);
  u64 place = 0;
  for (int level = BITS - 1; level >= 0; --level) {
    const u32 octant = (part[0] >> level & 1) << 2 | (part[1] >> level & 1) << 1 | (part[2] >> level & 1);
    const u32 next = table.next[way][octant];
    way = next >> 3;
    place = place << 3 | (next & 7);
  }
  keys[i] = u64(b) << 3 * BITS | place;
}

// The number of each place's point within its system.
FUNCTION number(Search a, const int* of, const int* ptr, const u32* rows, int* order) {
  const i64 i = blockIdx.x * i64(THREADS) + threadIdx.x;
  if (i < a.points) order[i] = *a.word == 0 ? int(rows ? rows[i] : u32(i)) - ptr[of[i]] : 0;
}
