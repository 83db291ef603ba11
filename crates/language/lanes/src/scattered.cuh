// Conversion of n sums in fixed point to REAL (or T0), written to an array or added to its elements.
#ifndef T0
#define T0 REAL
#endif
extern "C" __global__ void madelung_scattered(const Scattered* sums, T0* to, long long n, bool adds) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = T0((adds ? double(to[i]) : 0) + sum_of(sums[i], sums[i].exponent));
}
#undef T0
