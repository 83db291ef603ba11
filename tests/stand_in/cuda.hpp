// What the stand-in for the driver keeps: devices, memory, streams, modules. One lock guards all of it.
#pragma once
#include "log.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace stand_in {

enum Result : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  no_binary = 209,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  launch_failed = 719,
  not_supported = 801,
  capture_unsupported = 900,
  capture_invalidated = 901,
  capture_unmatched = 903,
  capture_implicit = 906,
  capture_wrong_thread = 908,
};

using Address = unsigned long long;

inline long long environment(const char* name, long long otherwise) {
  const char* value = std::getenv(name);
  return value ? std::atoll(value) : otherwise;
}

// Device memory: closed to the host but for the time that the stand-in itself works on it.
class Arena {
 public:
  static constexpr size_t bytes = size_t(16) << 30, page = 2 << 20;
  Arena() {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* const all = mmap(nullptr, bytes + page, PROT_NONE, flags, -1, 0);
    if (all == MAP_FAILED) std::abort();
    base = reinterpret_cast<char*>((reinterpret_cast<size_t>(all) + page - 1) / page * page);
    // It opens and closes at every operation, which takes a time for each page that has been used.
    madvise(base, bytes, MADV_HUGEPAGE);
  }
  // Open while it lives.
  class Open {
   public:
    explicit Open(Arena& arena) : arena(arena) {
      if (arena.open++ == 0) arena.protect(PROT_READ | PROT_WRITE);
    }
    ~Open() {
      if (--arena.open == 0) arena.protect(PROT_NONE);
    }

   private:
    Arena& arena;
  };
  char* base;

 private:
  int open = 0;
  void protect(int how) {
    if (mprotect(base, bytes, how)) std::abort();
  }
};

struct Allocation {
  size_t bytes;
  int device;
  // Given back on a stream that has not come so far.
  bool leaving = false;
};

struct Stream;
struct Context {
  int device = 0;
  int retained = 0;
  Result sticky = success;
  std::set<Stream*> streams;
  std::unique_ptr<Stream> legacy;
};

struct Operation {
  unsigned long long turn;
  std::function<Result()> run;
};

struct Graph {
  std::vector<std::function<Result()>> nodes;
  Context* context;
  // Of the user; copies of the graph have them too.
  std::vector<std::shared_ptr<void>> objects = {};
};

struct Capture {
  std::unique_ptr<Graph> graph;
  int mode;
  std::thread::id thread;
  bool valid = true;
  unsigned long long id = next();

  static unsigned long long next() {
    static std::atomic<unsigned long long> captures{0};
    return ++captures;
  }
};

struct Stream {
  Context* context;
  bool blocking;
  std::deque<Operation> queue;
  std::unique_ptr<Capture> capture;
  unsigned long long id = next();

  // No two have the same, even at the same address.
  static unsigned long long next() {
    static std::atomic<unsigned long long> streams{0};
    return ++streams;
  }
};

struct Event {
  Context* context;
  Stream* stream = nullptr;
  unsigned long long turn = 0;
};

// As host.cuh has it.
struct Kernel {
  unsigned count;
  const size_t* sizes;
  const char* (*run)(const unsigned*, const unsigned*, int, unsigned long long, void**);
};
// What texts that look for races are told (races.cuh): where device memory lies, room for who has accessed each two bytes of
// it last, and the number of the launch.
struct Races {
  char *begin, *end;
  void* cells;
  unsigned launch;
};
struct Module;
struct Function {
  Module* module;
  const Kernel* kernel;
  std::string name;
};
struct Module {
  Context* context;
  void* library;
  std::map<std::string, std::unique_ptr<Function>> functions;
};

}  // namespace stand_in
