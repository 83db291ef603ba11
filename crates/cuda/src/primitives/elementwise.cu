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

// The weight of a row: that of its system, of which there are so many, its own, or the only one.
struct Weights {
  const void* values;
  const i32* system_of;
  i64 wide, one, systems;
};

FUNCTION scale_rows(const ELEMENT* unit, ELEMENT* to, Length rows, i64 width, Weights weights) {
  each(length(rows) * width, [&](i64 i) {
    i64 at = weights.one ? 0 : quotient(i, width);
    if (weights.system_of) {
      at = weights.system_of[at];
      // A system that is not there, which the call has found, has no weight.
      if (at < 0 || at >= weights.systems) return set(to[i], of_bits(0x7fc00000u));
    }
    const f64 weight = weights.wide ? ((const f64*)weights.values)[at] : f64(((const f32*)weights.values)[at]);
    set(to[i], weight * get(unit[i]));
  });
}
