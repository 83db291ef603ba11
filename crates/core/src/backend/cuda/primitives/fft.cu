// Between the interleaved half spectra of cuFFT and real and imaginary parts in arrays of their own.

// Of REALs.
struct alignas(2 * sizeof(REAL)) Complex {
  REAL re, im;
};

// Waves with k3 = 0 and k3 = K3/2 stand for themselves alone; the others are multiplied by `weight`.
FUNCTION fft_split(const Complex* spectrum, REAL* re, REAL* im, i64 waves, i64 k3, f64 weight) {
  const i64 half = k3 / 2 + 1;
  const REAL factor = REAL(weight);
  each(waves, [&](i64 i) {
    const i64 k = i - quotient(i, half) * half;
    const REAL f = k == 0 || 2 * k == k3 ? REAL(1) : factor;
    const Complex x = spectrum[i];
    re[i] = f * x.re;
    im[i] = f * x.im;
  });
}

// A real mesh comes of what its waves with k3 = 0 and k3 = K3/2 have in common with those at -k: the rest is left out,
// since what cuFFT makes of it is not defined.
FUNCTION fft_join(const REAL* re, const REAL* im, Complex* spectrum, i64 waves, i64 k1, i64 k2, i64 k3, f64 weight) {
  const i64 half = k3 / 2 + 1;
  const REAL factor = REAL(weight);
  each(waves, [&](i64 i) {
    const i64 line = quotient(i, half), k = i - line * half;
    if (k > 0 && 2 * k != k3) {
      spectrum[i] = {factor * re[i], factor * im[i]};
      return;
    }
    const i64 plane = quotient(line, k2), b = line - plane * k2, system = quotient(plane, k1), a = plane - system * k1;
    const i64 other = ((system * k1 + (a ? k1 - a : 0)) * k2 + (b ? k2 - b : 0)) * half + k;
    spectrum[i] = {REAL(0.5) * (re[i] + re[other]), REAL(0.5) * (im[i] - im[other])};
  });
}
