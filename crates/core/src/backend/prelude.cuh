// What the printed kernels call. A host compiler reads it behind text that has the rest of what a GPU offers, so that the
// very text that runs on a GPU can be checked where there is none.

// What sums are carried in.
#ifndef ACC
#define ACC double
#endif

struct Launch {
  void* pointers[64];
  double reals[8];
  long long ints[4];
  unsigned long long adds;
  long long dims[16];
  unsigned* status;
};

template <class T> __device__ inline T exp_neg_sq(T x) {
  // x^2 = h + l exactly: without the low part the exponential of a large argument loses digits.
  T h = x * x, l = fma(x, x, -h);
  T e = exp(-h);
  return e - e * l;
}
// A component of the shift of a list's entry: three integers each, or one in which they are packed (math/packed.rs).
__device__ inline int shift(const int* triples, const int* packed, long long entry, int component) {
  if (!packed) return triples[3 * entry + component];
  int biased = packed[entry] + (1024 << 11 | 1024);
  return component == 0 ? biased >> 22 : (biased >> (component == 1 ? 11 : 0) & 2047) - 1024;
}
template <class T> __device__ inline void put(T* p, long long i, double v, bool adds) {
  if (p) p[i] = T(adds ? double(p[i]) + v : v);
}
template <class T> __device__ inline void scatter(T* p, long long i, double v) {
  if (p) atomicAdd(p + i, T(v));
}

// What kernels that are not differentiated call. Their rows share outputs, so these are read and written as they are
// in memory; integers are 64-bit and wrap, which signed ones do not do by themselves.
template <class T> __device__ inline T load(T* p) { return *(volatile T*)p; }
template <class T> __device__ inline void store(T* p, T v) { *(volatile T*)p = v; }
__device__ inline void raise(const Launch& a, int reason, unsigned param) {
  atomicOr(a.status, 1u << reason);
  atomicMax(a.status + 1 + reason, param);
}
__device__ inline bool fits(int*, long long v) { return v == (long long)(int)v; }
__device__ inline bool fits(long long*, long long) { return true; }
template <class T> __device__ inline void store_int(const Launch& a, T* p, long long v, unsigned param) {
  if (fits(p, v)) store(p, T(v)); else raise(a, 4, param);
}
__device__ inline long long wrap_add(long long x, long long y) {
  return (long long)((unsigned long long)x + (unsigned long long)y);
}
__device__ inline long long wrap_sub(long long x, long long y) {
  return (long long)((unsigned long long)x - (unsigned long long)y);
}
__device__ inline long long wrap_mul(long long x, long long y) {
  return (long long)((unsigned long long)x * (unsigned long long)y);
}
__device__ inline long long int_div(long long x, long long y) { return y == -1 ? wrap_sub(0, x) : x / y; }
__device__ inline long long int_rem(long long x, long long y) { return y == -1 ? 0 : x % y; }
__device__ inline long long shift_left(long long x, long long n) {
  return (long long)((unsigned long long)x << (n & 63));
}
__device__ inline bool is_finite(double x) { return x - x == 0; }
__device__ inline long long to_int(double x) {
  if (!(x == x)) return 0;
  if (x >= 9223372036854775808.0) return 9223372036854775807LL;
  if (x < -9223372036854775808.0) return -9223372036854775807LL - 1;
  return (long long)x;
}
__device__ inline int add_to(int* p, long long v) { return atomicAdd(p, int(v)); }
__device__ inline long long add_to(long long* p, long long v) {
  return (long long)atomicAdd((unsigned long long*)p, (unsigned long long)v);
}
template <class T> __device__ inline long long atomic_add(const Launch& a, T* p, long long v, unsigned param) {
  if (!fits(p, v)) { raise(a, 4, param); return load(p); }
  const long long before = add_to(p, v), sum = wrap_add(before, v);
  if (!fits(p, sum) || (v >= 0 ? sum < before : sum > before)) raise(a, 4, param);
  return before;
}
template <class T> __device__ inline long long atomic_max(const Launch& a, T* p, long long v, unsigned param) {
  if (!fits(p, v)) { raise(a, 4, param); return load(p); }
  return atomicMax(p, T(v));
}
template <class T> __device__ inline long long atomic_min(const Launch& a, T* p, long long v, unsigned param) {
  if (!fits(p, v)) { raise(a, 4, param); return load(p); }
  return atomicMin(p, T(v));
}

// M_p and its first N - 1 derivatives at the p nodes below x (Essmann et al. 1995, eq. 4.1), and the nodes' indices.
template <int N> struct Splines {
  ACC weights[N][10];
  int indices[10];
  __device__ Splines(const int* shape, int axis, double x) {
    const int size = shape[axis], order = shape[3];
    const double cells = floor(floor(x) / size), first = fma(-cells, double(size), floor(x));
    const ACC fraction = ACC(x - floor(x));
    int index = first > 0 ? (first < size ? int(first) : size - 1) : 0;
    for (int j = 0; j < order; ++j) {
      indices[j] = index;
      index = index == 0 ? size - 1 : index - 1;
    }
    ACC m[10] = {1};
    for (int n = 1; n <= order; ++n) {
      for (int j = n - 1; n > 1 && j >= 0; --j) {
        const ACC at = fraction + j;
        m[j] = (ACC(1) / (n - 1)) * (at * m[j] + (n - at) * (j == 0 ? ACC(0) : m[j - 1]));
      }
      // The d-th derivative of M_p is the d-th difference of M_(p-d).
      const int d = order - n;
      if (d >= N) continue;
      for (int j = 0; j < 10; ++j) weights[d][j] = m[j];
      for (int k = 0; k < d; ++k)
        for (int j = order - 1; j >= 1; --j) weights[d][j] -= weights[d][j - 1];
    }
    for (int d = order; d < N; ++d)
      for (int j = 0; j < 10; ++j) weights[d][j] = 0;
  }
};
__device__ inline long long mesh_node(const int* shape, long long system, int i, int j, int k) {
  return ((system * shape[0] + i) * shape[1] + j) * shape[2] + k;
}
