// Sums over the rows of a kernel, which it has left row by row.

// The destination of a sum: element segment * stride + component of an array.
struct Target {
  void* array;
  i64 stride, component;
  i32 column;
  // 1: f64 and not f32; 2: added and not put.
  u32 flags;
};
constexpr int TARGETS = 32;
struct Targets {
  Target of[TARGETS];
};
struct Partials {
  const f64* values;
  i64 width;
  const Targets& targets;
  __device__ i64 column(i64 c) const { return targets.of[c].column; }
};
template <class T> __device__ inline void put_sum(T* to, f64 x, bool adds) { *to = T(adds ? f64(*to) + x : x); }

FUNCTION partial_chunks(const f64* values, i64 columns, i64 width, i64 across, Segments segments, Sum* parts,
                        const __grid_constant__ Targets targets) {
  chunks<Add>(Partials{values, columns, targets}, width, int(across), segments, parts);
}
FUNCTION partial_segments(const f64* values, i64 columns, i64 width, i64 across, i64 at_once, Segments segments,
                          const Sum* parts, const __grid_constant__ Targets targets) {
  segments_of<Add>(Partials{values, columns, targets}, width, int(across), int(at_once), segments, parts,
                   [&](i64 s, i64 c, Sum x) {
                     const Target& target = targets.of[c];
                     const i64 at = s * target.stride + target.component;
                     if (target.flags & 1) put_sum((f64*)target.array + at, x.sum, target.flags & 2);
                     else put_sum((f32*)target.array + at, x.sum, target.flags & 2);
                   });
}
