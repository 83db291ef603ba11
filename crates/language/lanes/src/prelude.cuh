// Runtime of printed kernels. A host compiler reads it after a text that emulates the rest of CUDA, so that machines
// without a GPU can check the text that runs on a GPU.

// The type of sums.
#ifndef ACC
#define ACC double
#endif
// The number of threads per row, in kernels whose rows may be shared: 1, 2, 4, 8, 16 or 32, a divisor of the block
// size.
#ifndef LANES
#define LANES 1
#endif
// The highest order of splines in the batch, up to 10.
#ifndef ORDER
#define ORDER 10
#endif
// Whether some have a lower one.
#ifndef ORDERS_DIFFER
#define ORDERS_DIFFER 1
#endif
// The mode of additions to shared elements: 0: as they come, in any order; 1, then 2: the two passes of sums in fixed
// point (see Scattered and Node).
#ifndef SCATTER
#define SCATTER 0
#endif
// The binary logarithm of the addends that a node has at most, where sums have one word (see Node).
#ifndef CROWD
#define CROWD 31
#endif
// The terms that a thread adds up in REAL before they go to a sum, where sums are wider.
#define FEW (sizeof(REAL) < sizeof(ACC) ? 8 : 1)
// Whether partners' data are loaded from records.
#ifndef PACKED
#define PACKED 0
#endif
#if PACKED
#define GATHERED(plain, packed) packed
#else
#define GATHERED(plain, packed) plain
#endif
// Numbers side by side: loads of 16 bytes get them.
template <class T, int N> struct alignas(16) Record { T of[N]; };

struct Launch {
  void* pointers[64];
  double reals[8];
  long long ints[4];
  unsigned long long adds;
  long long dims[16];
  unsigned* status;
};

// Whether something was found before that no row shall follow: an index out of range, say.
__device__ inline bool is_stopped(const Launch& a) { return a.status && *(volatile unsigned*)a.status; }
__device__ inline double wide(double x) { return x; }
// x y + z with one rounding. Where floats go to a sum of doubles, the product is one of floats.
template <class X, class Y, class Z> __device__ inline auto fused(X x, Y y, Z z) {
  using T = decltype(x * y + z);
  if constexpr (sizeof(x * y) < sizeof(T)) return x * y + z;
  else return fma(T(x), T(y), T(z));
}
template <class T> __device__ inline T exp_neg_sq(T x) {
  // x^2 = h + l exactly: without the low part the exponential of a large argument loses digits.
  T h = x * x, l = fma(x, x, -h);
  T e = exp(-h);
  return fma(-e, l, e);
}
// The angle of the point (x, y), whatever the signs of zeros, as on the CPU: 0 + -0 is 0.
template <class Y, class X> __device__ inline auto angle(Y y, X x) {
  using T = decltype(y + x);
  return atan2(T(0) + T(y), T(0) + T(x));
}
// Two functions of one number that share most of their work.
template <class T> struct Both { T first, second; };
template <class T, int N> __device__ inline T polynomial(T x, const T (&coefficients)[N]) {
  T sum = coefficients[N - 1];
  for (int n = N - 2; n >= 0; --n) sum = fma(sum, x, coefficients[n]);
  return sum;
}
// A quotient of numbers far from the ends of the range.
__device__ inline double quotient(double x, double y) { return x / y; }
__device__ inline float quotient(float x, float y) { return __fdividef(x, y); }
// erfc(a) = exp(-a^2) top(a) / bottom(a) for a >= 0, as in math/functions.rs; at `end` it is zero. NaN stays NaN.
template <class T, int N, int M>
__device__ inline Both<T> erfc_exp_neg_sq(T x, T end, const T (&top)[N], const T (&bottom)[M]) {
  T a = x < 0 ? -x : x;
  a = a > end ? end : a;
  const T e = exp_neg_sq(a), value = e * quotient(polynomial(a, top), polynomial(a, bottom));
  return {x < 0 ? T(2) - value : value, e};
}
// Constants of memory are operands of instructions; those of the text would have to be loaded again in every iteration.
__constant__ double ERFC_TOP[] = {1.0, 2.190206174391594, 2.373176066829152, 1.633672406760698, 0.7796645643103053,
                            0.2664229553914064, 0.06517829813617443, 0.011045567712213097, 0.0011855359931105948,
                            6.229353260782317e-5};
__constant__ double ERFC_BOTTOM[] = {1.0, 3.318585341487093, 5.1177986303923415, 4.842157199251182, 3.1220702838299563,
                               1.4386314998121184, 0.4819560700993259, 0.1165761793125135, 0.01963296523619841,
                               0.002101307836324408, 0.0001104124117576006};
__device__ inline Both<double> erfc_exp_neg_sq(double x) { return erfc_exp_neg_sq(x, 28.0, ERFC_TOP, ERFC_BOTTOM); }
__device__ inline Both<float> erfc_exp_neg_sq(float x) {
  constexpr float top[] = {float(1.0), float(1.2392041683197021), float(0.7324315309524536), float(0.22961150109767914),
                           float(0.03287816047668457)};
  constexpr float bottom[] = {float(1.0), float(2.367583751678467), float(2.40395450592041), float(1.3269122838974),
                              float(0.407001793384552), float(0.05827433615922928)};
  return erfc_exp_neg_sq(x, 11.0f, top, bottom);
}
template <class T> __device__ inline Both<T> sin_cos(T x) {
  Both<T> both;
  sincos(x, &both.first, &both.second);
  return both;
}
// Sine and cosine of 2 pi x. The period is taken off exactly, so a loop carries no branch for large numbers.
template <class T> __device__ inline Both<T> sin_cos_turns(T x) {
  Both<T> both;
  sincospi(T(2) * x, &both.first, &both.second);
  return both;
}
// The inverse first: the root from it takes one step of Newton's method and no division.
template <class T> __device__ inline Both<T> sqrt_recip(T x) {
  const T inverse = rsqrt(x), near = x * inverse;
  const T root = fma(fma(-near, near, x), T(0.5) * inverse, near);
  return {x == 0 || inverse == 0 ? x : root, inverse};
}

// The threads of a row. They go through a kernel together, so each exchange is one of all of them; or of all threads of the
// warp that have a row, where each of these comes by: a mask that the compiler knows costs no instructions.
#define WARP ~0u
#if LANES > 1
#define LANE int(threadIdx.x % LANES)
#else
#define LANE 0
#endif
__device__ inline unsigned lanes_of_row() { return ~0u >> (32 - LANES) << (threadIdx.x % 32 / LANES * LANES); }
__device__ inline void wait_for_lanes() {
  if (LANES > 1) __syncwarp(lanes_of_row());
}
// A sum in a fixed order: equal bits in every lane, and in every run.
template <class T> __device__ inline T sum_of_lanes(T x, unsigned threads) {
  for (int n = LANES / 2; n > 0; n /= 2) x += __shfl_xor_sync(threads, x, n);
  return x;
}
// Sums of few terms: a sum of their own where sums are wider, else the sum itself.
__device__ inline float& few_of(double&, float& few) { return few; }
template <class T> __device__ inline T& few_of(T& sum, T&) { return sum; }
__device__ inline void add_few(double& sum, float few) { sum += few; }
template <class T> __device__ inline void add_few(T&, T) {}
// The terms of a thread among so many ones ahead, up to FEW.
__device__ inline int few_steps(long long ahead) { return FEW > 1 && ahead < FEW * LANES ? int(ahead + LANES - 1) / LANES : FEW; }
// The largest, and its place: the first one where several are largest; -1 is that of an initial value.
template <class T> __device__ inline void best_of_lanes(T& best, T& place, unsigned threads) {
  for (int n = LANES / 2; n > 0; n /= 2) {
    const T x = __shfl_xor_sync(threads, best, n), at = __shfl_xor_sync(threads, place, n);
    if (at >= 0 && (x > best || (x == best && place >= 0 && at < place))) {
      best = x;
      place = at;
    }
  }
}
// The shift of a list's entry: three integers each, or one in which they are packed (math/packed.rs).
struct Shift { int of[3]; };
__device__ inline Shift shift(const int* triples, const int* packed, long long entry) {
  if (!packed) return {{triples[3 * entry], triples[3 * entry + 1], triples[3 * entry + 2]}};
  const int biased = packed[entry] + (1024 << 11 | 1024);
  return {{biased >> 22, (biased >> 11 & 2047) - 1024, (biased & 2047) - 1024}};
}
// A sum in fixed point, independent of the order of addends; all fields begin as zeros. The kernel runs twice: SCATTER
// 1 finds the exponent of the largest addend of every element and writes nothing else, and SCATTER 2 adds. With 2^E the
// power of two above the largest addend, `high` counts units of 2^(E-31) and `low` those of 2^(E-63): an addend is off
// by 2^(E-64) at most, 2^-63 of the largest one, and 2^31 of them fit. The sum depends on the element's own addends
// alone. An addend that is infinite or NaN has the largest exponent, and makes its element NaN.
struct TwoWords {
  long long high, low;
};
struct Scattered : TwoWords {
  int exponent;  // That of a double, with its bias
};
__device__ inline int exponent_of(double v) { return int(__double_as_longlong(v) >> 52 & 2047); }
// 2^n for a normal number.
__device__ inline double power_of_two(int n) { return __longlong_as_double((long long)(n + 1023) << 52); }
// E - 31. It is bounded so that 2 to its power and the inverse are normal numbers: where all addends are below 2^-991, they
// are as exact as one of that size.
__device__ inline int unit_of(int exponent) { return (exponent < 31 ? 31 : exponent) - 1022 - 31; }
// The exponent only grows, so an old value causes one more atomic operation at most.
__device__ inline void find_exponent(int* largest, int exponent) {
  if (exponent > *(volatile int*)largest) atomicMax(largest, exponent);
}
__device__ inline void add_fixed(long long* p, long long units) {
  atomicAdd((unsigned long long*)p, (unsigned long long)units);
}
// v in units of 1 / scale: a power of two.
__device__ inline void add_fixed(TwoWords* p, double scale, double v) {
  const double units = v * scale, high = rint(units);
  add_fixed(&p->high, llrint(high));
  add_fixed(&p->low, llrint((units - high) * 4294967296.0));
}
__device__ inline double not_a_number() { return __longlong_as_double(2047LL << 52 | 1LL << 51); }
// The sum, to a unit in the last place.
__device__ inline double sum_of(const TwoWords& s, int exponent) {
  if (exponent == 2047) return not_a_number();
  const long long high = s.high + (s.low >> 32), low = s.low & 0xffffffffLL;
  return fma(double(low), 1 / 4294967296.0, double(high)) * power_of_two(unit_of(exponent));
}
#if SCATTER == 0
#define SCATTERED(T) T
#else
#define SCATTERED(T) Scattered
#endif
// A null array is skipped.
template <class T> __device__ inline void put(T* p, long long i, double v, bool adds) {
  if (p && SCATTER != 1) p[i] = T(adds ? double(p[i]) + v : v);
}
template <class T> __device__ inline void scatter(T* p, long long i, double v) {
  if (p) atomicAdd(p + i, T(v));
}
__device__ inline void scatter(Scattered* p, long long i, double v) {
  if (!p) return;
  const int exponent = p[i].exponent;
  if (SCATTER == 1) find_exponent(&p[i].exponent, exponent_of(v));
  else if (exponent != 2047 && v != 0) add_fixed(p + i, power_of_two(-unit_of(exponent)), v);
}
// The row's own element of an array that other rows add to as well.
__device__ inline void put(Scattered* p, long long i, double v, bool) { scatter(p, i, v); }
// The row's term of a sum over rows.
__device__ inline void leave(double* partials, long long i, double sum) {
  if (SCATTER != 1) partials[i] = sum;
}

// Functions of kernels without adjoint. Their rows share outputs, so loads and stores are volatile; integers are 64-bit
// and wrap, which needs unsigned arithmetic.
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

// M_p and its first N - 1 derivatives at the p nodes below x (Essmann et al. 1995, eq. 4.1), and what the nodes' indices in the
// window are in the mesh: the node of three indices is their sum. A node beyond the window, or behind the first p, has no
// weight, and the index of the window's first node. Of the nodes of an axis that STEP lanes share, a lane has every STEP-th
// one. Loops are repeated by the compiler, so that arrays are registers.
#define NODES_OF_LANE ((ORDER + LANES - 1) / LANES)
template <int N, int STEP> class Splines {
  enum { NODES = (ORDER + STEP - 1) / STEP };
  REAL weights[N][NODES];
  int indices[NODES];

 public:
  __device__ Splines(const int* shape, int axis, REAL x) {
    const int size = shape[axis], order = ORDERS_DIFFER ? shape[3] : ORDER;
    const int origin = shape[8 + axis], extent = shape[11 + axis], along = axis < 2 ? shape[13] : 1;
    const int stride = axis < 1 ? shape[12] * along : along, begin = axis < 1 ? shape[4] : 0;
    const REAL whole = floor(x), fraction = x - whole;
    REAL place = fma(-floor(whole / REAL(size)), REAL(size), whole);
    // The quotient may have been rounded to the next whole number.
    place = place < 0 ? place + REAL(size) : place;
    const int first = place > 0 ? (place < REAL(size) ? int(place) : size - 1) : 0;
    REAL all[N][ORDER], m[ORDER];
#pragma unroll
    for (int j = 0; j < ORDER; ++j) m[j] = REAL(j == 0);
#pragma unroll
    for (int d = 0; d < N; ++d)
#pragma unroll
      for (int j = 0; j < ORDER; ++j) all[d][j] = 0;
#pragma unroll
    for (int n = 1; n <= ORDER; ++n) {
      if (n > order) break;
#pragma unroll
      for (int j = n - 1; n > 1 && j >= 0; --j) {
        const REAL at = fraction + REAL(j), behind = j == 0 ? REAL(0) : m[j - 1];
        m[j] = REAL(1.0 / (n - 1)) * fma(at, m[j], (REAL(n) - at) * behind);
      }
      // The d-th derivative of M_p is the d-th difference of M_(p-d).
#pragma unroll
      for (int d = 0; d < N; ++d) {
        if (n != order - d) continue;
#pragma unroll
        for (int j = 0; j < ORDER; ++j) all[d][j] = m[j];
      }
    }
#pragma unroll
    for (int d = 1; d < N; ++d)
#pragma unroll
      for (int k = 0; k < d; ++k)
#pragma unroll
        for (int j = ORDER - 1; j >= 1; --j) all[d][j] -= all[d][j - 1];
#pragma unroll
    for (int n = 0; n < NODES; ++n) {
      const int node = n * STEP + (STEP == 1 ? 0 : LANE);
      int index = first - (node < order ? node : 0);
      if (index < 0) index += size;
      index -= origin;
      if (index < 0) index += size;
      indices[n] = begin + (index < extent ? index * stride : 0);
#pragma unroll
      for (int d = 0; d < N; ++d) {
        REAL weight = 0;
#pragma unroll
        for (int j = n * STEP; j < ORDER && j < (n + 1) * STEP; ++j)
          weight = j == node ? all[d][j] : weight;
        weights[d][n] = index < extent ? weight : REAL(0);
      }
    }
  }
  // A loop that is not repeated by the compiler chooses among registers.
  __device__ REAL weight(int d, int n) const {
    REAL weight = weights[d][0];
#pragma unroll
    for (int k = 1; k < NODES; ++k) weight = k == n ? weights[d][k] : weight;
    return weight;
  }
  __device__ int index(int n) const {
    int index = indices[0];
#pragma unroll
    for (int k = 1; k < NODES; ++k) index = k == n ? indices[k] : index;
    return index;
  }
};
// The shapes of meshes of up to two systems, as an argument of a launch: no memory has to be written ahead of it.
struct Shapes { int of[32]; };
__device__ inline const int* shapes_at(const void* pointer, const Shapes& argument) {
  return pointer ? (const int*)pointer : argument.of;
}
// Meshes are a number of systems and two planes, and from 4 on fourteen numbers of each system: three sizes, the order of the
// splines, the first node, wave and plane, where moduli begin, and the window's origin and extent.
__device__ inline const int* mesh_of(const int* shapes, long long system) { return shapes + 4 + 14 * system; }
// Sums in fixed point at the nodes of meshes, in one unit for all nodes of a system: ahead of the nodes stand as many
// elements as there are systems, each of which holds the exponent of the system's largest addend, as SCATTER 1 finds it.
// With 2^E the power of two above that, a double's sum has two words in units of 2^(E-31) and 2^(E-63) for up to 2^31
// addends, and a float's one word in units of 2^(E-62+CROWD) for up to 2^CROWD of them: an addend is off by half a unit at
// most. A system with an addend that is infinite or NaN has no number.
template <class T> struct NodeOf;
template <> struct NodeOf<double> : TwoWords {
  static __device__ double scale(int exponent) { return power_of_two(-unit_of(exponent)); }
  __device__ void add(double scale, double v) { add_fixed(this, scale, v); }
  __device__ double sum(int exponent, int) const { return sum_of(*this, exponent); }
};
template <> struct NodeOf<float> {
  long long units;
  // As unit_of, for units of this size.
  static __device__ int unit(int exponent, int crowd) { return (exponent < 100 ? 100 : exponent) - 1022 - 62 + crowd; }
  static __device__ double scale(int exponent) { return power_of_two(-unit(exponent, CROWD)); }
  __device__ void add(double scale, double v) { add_fixed(&units, llrint(v * scale)); }
  __device__ double sum(int exponent, int crowd) const {
    return exponent == 2047 ? not_a_number() : double(units) * power_of_two(unit(exponent, crowd));
  }
};
using Node = NodeOf<REAL>;
#if SCATTER == 0
#define NODES(T) T
#else
#define NODES(T) Node
#endif
// What a thread adds at nodes of a system. A null array is skipped.
template <class T> struct AtNodes {
  T* p;
  __device__ AtNodes(T* p, const int*, long long) : p(p) {}
  __device__ void add(long long node, double v) const { if (p) atomicAdd(p + node, T(v)); }
  __device__ void leave(unsigned) const {}
};
template <> struct AtNodes<Node> {
  Node* p;
  int* largest;
  int exponent;
  double scale;
  __device__ AtNodes(Node* sums, const int* shapes, long long system) : largest((int*)(sums + system)) {
    exponent = sums && SCATTER == 2 ? *largest : 0;
    p = sums && exponent != 2047 ? sums + shapes[0] : nullptr;
    scale = Node::scale(exponent);
  }
  __device__ void add(long long node, double v) {
    if (!p) return;
    if (SCATTER == 2) return p[node].add(scale, v);
    const int of = exponent_of(v);
    exponent = of > exponent ? of : exponent;
  }
  // The largest addend of the threads that come by together.
  __device__ void leave(unsigned threads) {
    if (!p || SCATTER == 2) return;
    for (int n = LANES / 2; n > 0 && threads; n /= 2) {
      const int other = __shfl_xor_sync(threads, exponent, n);
      exponent = other > exponent ? other : exponent;
    }
    if (!threads || LANE == 0) find_exponent(largest, exponent);
  }
};
// The system of a node or wave: that number of a system says which is its first.
__device__ inline int system_of(const int* shapes, long long place, int number) {
  int first = 0, behind = shapes[0];
  while (first + 1 < behind) {
    const int middle = (first + behind) / 2;
    if (mesh_of(shapes, middle)[number] <= place) first = middle;
    else behind = middle;
  }
  return first;
}
__device__ inline long long wave_system(const int* shapes, long long wave) { return system_of(shapes, wave, 5); }
__device__ inline int wave_place(const int* shape, long long wave, int axis) {
  // A system has fewer waves than an int can number.
  const int along = shape[2] / 2 + 1, place = (int)(wave - shape[5]);
  if (axis == 2) return place % along;
  return axis == 1 ? place / along % shape[1] : place / along / shape[1];
}
__device__ inline int wave_index(const int* shape, long long wave, int axis) {
  const int k = wave_place(shape, wave, axis);
  return 2 * k > shape[axis] ? k - shape[axis] : k;
}
__device__ inline int wave_count(const int* shape, long long wave) {
  const int k = wave_place(shape, wave, 2);
  return k == 0 || 2 * k == shape[2] ? 1 : 2;
}
__device__ inline double wave_modulus(const int* shape, const double* moduli, long long wave) {
  moduli += shape[7];
  const double xy = moduli[wave_place(shape, wave, 0)] * moduli[shape[0] + wave_place(shape, wave, 1)];
  return xy * moduli[shape[0] + shape[1] + wave_place(shape, wave, 2)];
}
