// Conversion of the sums in fixed point at n nodes of meshes to REAL (or T0), written to an array or added to its elements: in
// one word they are of up to 2^crowd addends.
#ifndef T0
#define T0 REAL
#endif
extern "C" __global__ void madelung_nodes(const Node* sums, const int* pointer, T0* to, long long n, bool adds, int crowd,
                                          const __grid_constant__ Shapes argument) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int* shapes = shapes_at(pointer, argument);
  const int exponent = *(const int*)(sums + system_of(shapes, i, 4));
  to[i] = T0((adds ? double(to[i]) : 0) + sums[shapes[0] + i].sum(exponent, crowd));
}
#undef T0
