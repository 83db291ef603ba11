// What the printed kernels call. NVRTC reads it as it is; a host compiler reads it with MADELUNG_HOST defined, so that
// the very text that runs on a GPU can be checked where there is none.
#ifdef MADELUNG_HOST
#include <cmath>
#define __global__
#define __device__
struct HostDim { unsigned x; };
static thread_local HostDim blockIdx, blockDim, threadIdx;
using std::cos; using std::erfc; using std::exp; using std::log; using std::pow; using std::rint; using std::sin; using std::sqrt;
#endif

struct Launch {
  void* pointers[64];
  double reals[8];
  long long ints[4];
  unsigned long long adds;
};

template <class T> __device__ inline T exp_neg_sq(T x) {
  // x^2 = h + l exactly: without the low part the exponential of a large argument loses digits.
  T h = x * x, l = fma(x, x, -h);
  T e = exp(-h);
  return e - e * l;
}
template <class T> __device__ inline void put(T* p, long long i, double v, bool adds) {
  if (p) p[i] = T(adds ? p[i] + v : v);
}
template <class T> __device__ inline void scatter(T* p, long long i, double v) {
#ifdef MADELUNG_HOST
  if (p) p[i] += T(v);
#else
  if (p) atomicAdd(p + i, T(v));
#endif
}
