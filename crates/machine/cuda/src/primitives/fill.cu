// Fill with an element's BITS, as a type without sign.
FUNCTION fill(BITS* to, Length n, u64 bits) {
  each(length(n), [&](i64 i) { to[i] = BITS(bits); });
}
