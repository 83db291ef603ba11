// Real numbers stored as ELEMENT, each by itself.

FUNCTION add(ELEMENT* to, const ELEMENT* from, Length n) {
  each(length(n), [&](i64 i) { set(to[i], get(to[i]) + get(from[i])); });
}

FUNCTION poison(ELEMENT* to, Length n, const u32* word) {
  if (*word == 0) return;
  each(length(n), [&](i64 i) { set(to[i], of_bits(0x7fc00000u)); });
}

FUNCTION check_finite(const ELEMENT* from, Length n, Status status) {
  each(length(n), [&](i64 i) {
    const auto x = get(from[i]);
    if (!(x - x == 0)) raise(status, NOT_FINITE);
  });
}

// The weight of a row, if rows have any: that of its system, of which there are so many, or its own; and a factor of all.
struct Weights {
  const void* values;
  const i32* system_of;
  i64 wide, systems;
  f64 factor;
};

FUNCTION scale_rows(const ELEMENT* unit, ELEMENT* to, Length rows, i64 width, Weights weights) {
  each(length(rows) * width, [&](i64 i) {
    if (!weights.values) return set(to[i], weights.factor * get(unit[i]));
    i64 at = quotient(i, width);
    if (weights.system_of) {
      at = weights.system_of[at];
      // A system that is not there, which the call has found, has no weight.
      if (at < 0 || at >= weights.systems) return set(to[i], of_bits(0x7fc00000u));
    }
    const f64 weight = weights.wide ? ((const f64*)weights.values)[at] : f64(((const f32*)weights.values)[at]);
    set(to[i], weights.factor * weight * get(unit[i]));
  });
}
