// The sums in fixed point of n elements, put into an array of REAL (or T0) or added to what it has.
#ifndef T0
#define T0 REAL
#endif
extern "C" __global__ void madelung_scattered(const Scattered* sums, T0* to, long long n, bool adds) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = T0(adds ? double(to[i]) + sum_of(sums[i]) : sum_of(sums[i]));
}
#undef T0
