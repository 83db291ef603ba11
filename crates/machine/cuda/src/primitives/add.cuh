// Sums, in f64.

struct Sum {
  f64 sum;
};
struct Add {
  typedef Sum Value;
  __device__ static Sum none() { return {0}; }
  template <class T> __device__ static Sum of(T x, u32) { return {f64(x)}; }
  __device__ static Sum both(Sum a, Sum b) { return {a.sum + b.sum}; }
  __device__ static Sum across(Sum a, int with) { return {__shfl_xor_sync(ALL, a.sum, with)}; }
};
