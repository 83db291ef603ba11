// Real numbers stored as FROM, in the type TO.
FUNCTION cast(const FROM* from, TO* to, Length n) {
  each(length(n), [&](i64 i) { set(to[i], get(from[i])); });
}
