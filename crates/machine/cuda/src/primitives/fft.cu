// Between the interleaved half spectra of cuFFT and real and imaginary parts in arrays of their own.

// cuFFT's layout.
struct alignas(2 * sizeof(ELEMENT)) Complex {
  ELEMENT re, im;
};

// Waves with k3 = 0 and k3 = K3/2 stand for themselves alone; the others are multiplied by `weight`.
FUNCTION fft_split(const Complex* spectrum, ELEMENT* re, ELEMENT* im, i64 waves, i64 k3, f64 weight) {
  const i64 half = k3 / 2 + 1;
  const ELEMENT factor = ELEMENT(weight);
  each(waves, [&](i64 i) {
    const i64 k = i - quotient(i, half) * half;
    const ELEMENT f = k == 0 || 2 * k == k3 ? ELEMENT(1) : factor;
    const Complex x = spectrum[i];
    re[i] = f * x.re;
    im[i] = f * x.im;
  });
}

// A real mesh depends, of its waves with k3 = 0 and k3 = K3/2, on the part in common with those at -k alone: the rest
// is dropped, since cuFFT's result is undefined for it.
FUNCTION fft_join(const ELEMENT* re, const ELEMENT* im, Complex* spectrum, i64 waves, i64 k1, i64 k2, i64 k3, f64 weight) {
  const i64 half = k3 / 2 + 1;
  const ELEMENT factor = ELEMENT(weight);
  each(waves, [&](i64 i) {
    const i64 line = quotient(i, half), k = i - line * half;
    if (k > 0 && 2 * k != k3) {
      spectrum[i] = {factor * re[i], factor * im[i]};
      return;
    }
    const i64 plane = quotient(line, k2), b = line - plane * k2, system = quotient(plane, k1), a = plane - system * k1;
    const i64 other = ((system * k1 + (a ? k1 - a : 0)) * k2 + (b ? k2 - b : 0)) * half + k;
    spectrum[i] = {ELEMENT(0.5) * (re[i] + re[other]), ELEMENT(0.5) * (im[i] - im[other])};
  });
}
