// Real numbers by the types they are stored in, without the headers of CUDA, which NVRTC does not always find.

struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };

__device__ inline u32 bits_of(f32 x) {
  u32 bits;
  memcpy(&bits, &x, 4);
  return bits;
}
__device__ inline f32 of_bits(u32 bits) {
  f32 x;
  memcpy(&x, &bits, 4);
  return x;
}

__device__ inline f64 get(f64 x) { return x; }
__device__ inline f32 get(f32 x) { return x; }
__device__ inline f32 get(bf16 x) { return of_bits(u32(x.bits) << 16); }
__device__ inline f32 get(f16 x) {
  const u32 sign = (x.bits & 0x8000u) << 16, rest = x.bits & 0x7fffu;
  // Steps of 2^-24 below the first exponent, whose bias differs by 112.
  const f32 small = f32(rest) * 5.9604644775390625e-8f;
  const u32 bits = rest < 0x400u ? bits_of(small) : (rest << 13) + ((rest < 0x7c00u ? 112u : 224u) << 23);
  return of_bits(sign | bits);
}

// Rounding to odd: a number that is no f32 is truncated, with the last bit set. Rounding the result to a type with two
// bits less or fewer gives the rounding of x; rounding to nearest twice does not.
__device__ inline f32 odd(f64 x) {
  const f32 near = f32(x);
  if (f64(near) == x || x != x) return near;
  const u32 bits = bits_of(near);
  return of_bits((fabs(f64(near)) > fabs(x) ? bits - 1 : bits) | 1);
}

// To nearest, ties to even, and infinite beyond the range.
__device__ inline void set(f64& to, f64 x) { to = x; }
__device__ inline void set(f32& to, f64 x) { to = f32(x); }
__device__ inline void set(f32& to, f32 x) { to = x; }
__device__ inline void set(f64& to, f32 x) { to = x; }
__device__ inline void set(bf16& to, f32 x) {
  const u32 bits = bits_of(x);
  to.bits = x != x ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}
__device__ inline void set(f16& to, f32 x) {
  const u32 sign = bits_of(x) >> 16 & 0x8000u, rest = bits_of(x) & 0x7fffffffu;
  u32 bits;
  if (rest > 0x7f800000u) {
    bits = 0x7e00u | (rest >> 13 & 0x3ffu);
  } else if (rest >= 0x477ff000u) {
    bits = 0x7c00u;
  } else if (rest < 0x38800000u) {
    // 2^23 more leaves no bits but those of whole steps of 2^-24.
    bits = bits_of(of_bits(rest) * 16777216.0f + 8388608.0f) - 0x4b000000u;
  } else {
    bits = (rest - (112u << 23) + 0xfffu + (rest >> 13 & 1)) >> 13;
  }
  to.bits = sign | bits;
}
__device__ inline void set(bf16& to, f64 x) { set(to, odd(x)); }
__device__ inline void set(f16& to, f64 x) { set(to, odd(x)); }
