// What the stand-in for the runtime calls of the driver's, and the records of CUDA 13 that it fills.
#pragma once
#include "cuda.hpp"

#include <cstddef>
#include <map>
#include <utility>

using stand_in::Address;

extern "C" {
int stand_in_enqueue(void* stream, void (*run)(void*), void* data, void (*drop)(void*));
int cuInit(unsigned flags);
int cuGetErrorName(int error, const char** name);
int cuDeviceGetCount(int* count);
int cuDeviceGetName(char* name, int length, int device);
int cuDeviceTotalMem_v2(size_t* bytes, int device);
int cuDeviceGetAttribute(int* value, int attribute, int device);
int cuDevicePrimaryCtxRetain(void** context, int device);
int cuCtxGetCurrent(void** context);
int cuCtxSetCurrent(void* context);
int cuCtxGetDevice(int* device);
int cuCtxSynchronize();
int cuStreamCreate(void** stream, unsigned flags);
int cuStreamDestroy_v2(void* stream);
int cuStreamSynchronize(void* stream);
int cuStreamQuery(void* stream);
int cuStreamWaitEvent(void* stream, void* event, unsigned flags);
int cuStreamBeginCapture_v2(void* stream, int mode);
int cuStreamEndCapture(void* stream, void** graph);
int cuStreamIsCapturing(void* stream, int* status);
int cuStreamGetCaptureInfo_v2(void* stream, int* status, unsigned long long* id, void** graph, const void* nodes, void* count);
int cuThreadExchangeStreamCaptureMode(int* mode);
int cuEventCreate(void** event, unsigned flags);
int cuEventDestroy_v2(void* event);
int cuEventRecord(void* event, void* stream);
int cuEventSynchronize(void* event);
int cuEventQuery(void* event);
int cuMemAlloc_v2(Address* p, size_t bytes);
int cuMemFree_v2(Address p);
int cuMemGetInfo_v2(size_t* free, size_t* total);
int cuPointerGetAttributes(unsigned count, int* attributes, void** data, Address p);
int cuGraphInstantiateWithFlags(void** made, void* graph, unsigned long long flags);
int cuGraphLaunch(void* made, void* stream);
int cuGraphDestroy(void* graph);
int cuGraphExecDestroy(void* made);
}

namespace stand_in {

// Errors of the runtime have the driver's numbers, but for this one.
constexpr int invalid_direction = 21;

// Direction of a copy: whichever it is.
constexpr int copy_default = 4;

enum class Memory : int { unregistered = 0, host = 1, device = 2 };

struct Dimensions {
  unsigned x, y, z;
};

// cudaPointerAttributes
struct Attributes {
  int memory, device;
  void *on_device, *on_host;
  long reserved[8];
};
static_assert(sizeof(Attributes) == 88);

// cudaDeviceProp: what is read by PyTorch has a name.
struct Properties {
  char name[256];
  char uuid[16];
  char other_0[16];
  size_t total_memory, shared_per_block;
  int registers_per_block, warp;
  size_t pitch;
  int threads_per_block, block[3], grid[3];
  size_t constant_memory;
  int major, minor;
  size_t alignment[2];
  int multiprocessors, integrated;
  int other_1[44];
  int pci_bus, pci_device, pci_domain, tcc, copy_engines, unified_addressing;
  int bus_width, l2_cache, l2_cache_persisting, threads_per_multiprocessor;
  int other_2[3];
  size_t shared_per_multiprocessor;
  int registers_per_multiprocessor, managed_memory;
  int other_3[8];
  size_t shared_per_block_most;
  int other_4[82];
};
static_assert(offsetof(Properties, total_memory) == 288);
static_assert(offsetof(Properties, threads_per_block) == 320);
static_assert(offsetof(Properties, major) == 360);
static_assert(offsetof(Properties, multiprocessors) == 384);
static_assert(offsetof(Properties, pci_bus) == 568);
static_assert(offsetof(Properties, threads_per_multiprocessor) == 604);
static_assert(offsetof(Properties, shared_per_multiprocessor) == 624);
static_assert(offsetof(Properties, shared_per_block_most) == 672);
static_assert(sizeof(Properties) == 1008);

}  // namespace stand_in
