// Integers in the other type.
FUNCTION widen(const i32* from, i64* to, Length n) {
  each(length(n), [&](i64 i) { to[i] = from[i]; });
}

FUNCTION narrow(const i64* from, i32* to, Length n, Status status) {
  each(length(n), [&](i64 i) {
    const i64 x = from[i], largest = 0x7fffffff;
    to[i] = i32(x > largest ? largest : x < -largest - 1 ? -largest - 1 : x);
    if (to[i] != x) raise(status, OVERFLOW_OF_INTEGER);
  });
}
