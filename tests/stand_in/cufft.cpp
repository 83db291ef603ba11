// A stand-in for libcufft.so: real transforms of rank 3 in batches, as plain sums along each axis, queued on the stand-in
// driver's streams.
#include "log.hpp"

#include <cmath>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <vector>

using stand_in::log;

namespace {

enum Result { success = 0, invalid_plan = 1, invalid_value = 4, internal_error = 5, exec_failed = 6 };
enum Type { r2c = 0x2a, c2r = 0x2c, d2z = 0x6a, z2d = 0x6c };
using Complex = std::complex<double>;

struct Plan {
  int n[3] = {0, 0, 0}, batch = 0, type = 0;
  void* stream = nullptr;
  void* work = nullptr;
  bool automatic = true;
  size_t half() const { return size_t(n[2]) / 2 + 1; }
  size_t reals() const { return size_t(n[0]) * n[1] * n[2]; }
  size_t waves() const { return size_t(n[0]) * n[1] * half(); }
  bool is_double() const { return type == d2z || type == z2d; }
  // The spectrum in doubles.
  size_t bytes() const { return size_t(batch) * waves() * (is_double() ? 16 : 8); }
};
std::mutex lock;
std::map<int, Plan> plans;
int next = 1;

// Sums along one axis of (outer, n, inner).
void along(std::vector<Complex>& x, size_t outer, size_t n, size_t inner, double sign) {
  std::vector<Complex> line(n), turn(n);
  for (size_t k = 0; k < n; ++k) turn[k] = std::polar(1.0, sign * 2 * std::acos(-1.0) * double(k) / double(n));
  for (size_t o = 0; o < outer; ++o)
    for (size_t i = 0; i < inner; ++i) {
      Complex* at = &x[o * n * inner + i];
      for (size_t k = 0; k < n; ++k) {
        Complex sum = 0;
        for (size_t j = 0; j < n; ++j) sum += at[j * inner] * turn[j * k % n];
        line[k] = sum;
      }
      for (size_t k = 0; k < n; ++k) at[k * inner] = line[k];
    }
}

template <class T> void forward(const Plan& p, const T* in, std::complex<T>* out) {
  const size_t a = p.n[0], b = p.n[1], c = p.n[2], half = p.half();
  std::vector<Complex> x(in, in + p.reals());
  along(x, a * b, c, 1, -1);
  along(x, a, b, c, -1);
  along(x, 1, a, b * c, -1);
  for (size_t row = 0; row < a * b; ++row)
    for (size_t k = 0; k < half; ++k) out[row * half + k] = std::complex<T>(x[row * c + k]);
}

template <class T> void inverse(const Plan& p, const std::complex<T>* in, T* out) {
  const size_t a = p.n[0], b = p.n[1], c = p.n[2], half = p.half();
  std::vector<Complex> x(p.reals());
  // The half that is not there is the conjugate of that which is.
  for (size_t i = 0; i < a; ++i)
    for (size_t j = 0; j < b; ++j)
      for (size_t k = 0; k < c; ++k)
        x[(i * b + j) * c + k] = k < half ? Complex(in[(i * b + j) * half + k])
                                          : std::conj(Complex(in[((a - i) % a * b + (b - j) % b) * half + c - k]));
  along(x, a * b, c, 1, 1);
  along(x, a, b, c, 1);
  along(x, 1, a, b * c, 1);
  for (size_t n = 0; n < p.reals(); ++n) out[n] = T(x[n].real());
}

struct Task {
  Plan plan;
  void *in, *out;
};
template <class T> void transform(const Task& t) {
  for (int n = 0; n < t.plan.batch; ++n) {
    if (t.plan.type == d2z || t.plan.type == r2c)
      forward(t.plan, static_cast<T*>(t.in) + n * t.plan.reals(), static_cast<std::complex<T>*>(t.out) + n * t.plan.waves());
    else
      inverse(t.plan, static_cast<std::complex<T>*>(t.in) + n * t.plan.waves(), static_cast<T*>(t.out) + n * t.plan.reals());
  }
}

using Enqueue = int (*)(void*, void (*)(void*), void*, void (*)(void*));
Enqueue driver() {
  void* cuda = dlopen("libcuda.so", RTLD_NOW | RTLD_NOLOAD);
  return cuda ? reinterpret_cast<Enqueue>(dlsym(cuda, "stand_in_enqueue")) : nullptr;
}

int execute(int plan, Type type, void* in, void* out) {
  std::lock_guard<std::mutex> held(lock);
  auto found = plans.find(plan);
  if (found == plans.end() || found->second.type != type) return invalid_plan;
  if (!found->second.automatic && !found->second.work) return exec_failed;
  const Enqueue enqueue = driver();
  if (!enqueue) return internal_error;
  auto run = [](void* data) {
    const Task& t = *static_cast<Task*>(data);
    // Real ones use the work area: nobody may keep anything there.
    if (t.plan.work) std::memset(t.plan.work, 0xff, t.plan.bytes());
    t.plan.is_double() ? transform<double>(t) : transform<float>(t);
  };
  auto drop = [](void* data) { delete static_cast<Task*>(data); };
  return enqueue(found->second.stream, run, new Task{found->second, in, out}, drop) ? exec_failed : success;
}

}  // namespace

#define PLAN(handle)                       \
  std::lock_guard<std::mutex> held(lock);  \
  auto found = plans.find(handle);         \
  if (found == plans.end()) return invalid_plan; \
  Plan& p = found->second

extern "C" {

int cufftGetVersion(int* version) {
  log("cufftGetVersion");
  *version = 11300;
  return success;
}
int cufftCreate(int* plan) {
  log("cufftCreate");
  std::lock_guard<std::mutex> held(lock);
  plans[*plan = next++] = Plan();
  return success;
}
int cufftDestroy(int plan) {
  log("cufftDestroy");
  std::lock_guard<std::mutex> held(lock);
  return plans.erase(plan) ? success : invalid_plan;
}
int cufftSetAutoAllocation(int plan, int automatic) {
  log("cufftSetAutoAllocation");
  PLAN(plan);
  if (p.batch) return invalid_value;
  p.automatic = automatic;
  return success;
}
int cufftMakePlanMany(int plan, int rank, int* n, int* inembed, int, int, int* onembed, int, int, int type, int batch,
                      size_t* work) {
  log("cufftMakePlanMany");
  PLAN(plan);
  const bool known = type == r2c || type == c2r || type == d2z || type == z2d;
  if (rank != 3 || inembed || onembed || !known || batch < 1 || n[0] < 1 || n[1] < 1 || n[2] < 1) return invalid_value;
  for (int axis = 0; axis < 3; ++axis) p.n[axis] = n[axis];
  p.type = type;
  p.batch = batch;
  *work = p.bytes();
  return success;
}
int cufftSetWorkArea(int plan, void* work) {
  log("cufftSetWorkArea");
  PLAN(plan);
  p.work = work;
  return success;
}
int cufftSetStream(int plan, void* stream) {
  log("cufftSetStream");
  PLAN(plan);
  p.stream = stream;
  return success;
}
int cufftExecD2Z(int plan, double* in, void* out) {
  log("cufftExecD2Z");
  return execute(plan, d2z, in, out);
}
int cufftExecZ2D(int plan, void* in, double* out) {
  log("cufftExecZ2D");
  return execute(plan, z2d, in, out);
}
int cufftExecR2C(int plan, float* in, void* out) {
  log("cufftExecR2C");
  return execute(plan, r2c, in, out);
}
int cufftExecC2R(int plan, void* in, float* out) {
  log("cufftExecC2R");
  return execute(plan, c2r, in, out);
}

}  // extern "C"
