// Blocks and threads (host.cuh). A launch runs block after block; a thread is a fiber that is left only at a barrier or another
// collective operation, so kernels without them cost a call per thread. The order of blocks and threads is chosen by the caller.

// Each library its own: several are loaded at once, and their fibers must not be mixed.
namespace stand_in {
namespace {

// A switch between fibers. GCC's own jumps keep three registers, and the C library's take several times as long; a jump may
// not stand in a function that sets one.
#if defined(__GNUC__) && !defined(__clang__)
typedef void* Jump[5];
#define STAND_IN_SET(jump) __builtin_setjmp(jump)
[[noreturn]] __attribute__((noinline)) void go(Jump& to) { __builtin_longjmp(to, 1); }
#else
typedef jmp_buf Jump;
#define STAND_IN_SET(jump) _setjmp(jump)
[[noreturn]] void go(Jump& to) { _longjmp(to, 1); }
#endif

// Stacks side by side: one mapping and a page that nobody may touch, as a process may have 65,530 mappings and blocks of
// every library in every thread have stacks.
struct Stacks {
  static constexpr size_t number = 32, bytes = 256 << 10, guard = 4096;
  char* memory;

  Stacks() {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
    void* const all = mmap(nullptr, number * bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (all == MAP_FAILED || mprotect(all, guard, PROT_NONE)) {
      std::perror("fibers' stacks");
      std::abort();
    }
    memory = static_cast<char*>(all);
  }
  Stacks(const Stacks&) = delete;
  ~Stacks() { munmap(memory, number * bytes); }
};

}  // namespace

// A stack that threads run on, one at a time.
struct Fiber {
  static constexpr unsigned long long mark = 0x5354414E44494E21;
  ucontext_t start;
  Jump at;
  char* memory;
  bool begun = false;

  explicit Fiber(char* memory) : memory(memory) {}
  Fiber(const Fiber&) = delete;
  // The last number of the stack, behind the page that nobody may touch.
  unsigned long long& end() { return *reinterpret_cast<unsigned long long*>(memory + Stacks::guard); }
  // A stack that has overflowed has overwritten it.
  void check() {
    if (end() == mark) return;
    std::fprintf(stderr, "the stack of a thread of a kernel has overflowed\n");
    std::abort();
  }
};

namespace {

// The lanes of a warp that there are, that wait in an exchange, and that have left the kernel; and those of them that wait in
// the exchange in which the last one does.
struct Warp {
  unsigned all = 0, wait = 0, left = 0, together = 0, mask = 0;
  const char* what = nullptr;
};

// The block that runs on this thread of the host.
class Block {
 public:
  const char* launch(dim3 grid, dim3 block, Order order, void (*kernel)(void*), void* arguments) {
    this->kernel = kernel;
    this->arguments = arguments;
    this->order = order;
    random = order.seed * 0x9E3779B97F4A7C15ull + 1;
    gridDim = grid;
    blockDim = block;
    threads.resize(size_t(block.x) * block.y * block.z);
    std::vector<unsigned> blocks(size_t(grid.x) * grid.y * grid.z);
    arrange(blocks);
    message[0] = 0;
    for (unsigned n : blocks) {
      blockIdx = {n % grid.x, n / grid.x % grid.y, n / grid.x / grid.y};
      run();
      if (message[0]) break;
    }
    trim();
    return message[0] ? message : nullptr;
  }

  unsigned long long barrier(const char* what, int line, bool given) {
    wait(Thread::in_block, what, line, ~0u, 0, given);
    ++threads[current].barriers;
    if (gone) fail("%s in line %d: a thread has left the kernel before it", what, line);
    if (met && (met_line != line || !same(met_what, what)))
      fail("%s in line %d meets %s in line %d: a barrier must be the same for a whole block", what, line, met_what, met_line);
    met_what = what;
    met_line = line;
    sum += given;
    if (++met == threads.size()) {
      for (Thread& t : threads) {
        t.state = Thread::ready;
        t.got = sum;
      }
      met = sum = 0;
    }
    // The last thread waits as well, or it would always be the first to go on.
    pause(threads[current].fiber);
    return threads[current].got;
  }

  unsigned long long exchange(const char* what, int line, unsigned mask, Gets gets, int source, unsigned long long given) {
    const size_t first = current & ~size_t(31);
    Warp& warp = warps[current / 32];
    if (!(mask >> (current - first) & 1)) fail("%s in line %d: the mask %08x leaves out its own lane", what, line, mask);
    if (mask & ~warp.all)
      fail("%s in line %d: the mask %08x names lane %d, which the block does not have", what, line, mask,
           __builtin_ctz(mask & ~warp.all));
    if (warp.mask != mask || warp.what != what) {
      warp.together = 0;
      warp.mask = mask;
      warp.what = what;
    }
    for (unsigned others = mask & warp.wait & ~warp.together; others; others &= others - 1) {
      const Thread& t = threads[first + __builtin_ctz(others)];
      if (t.mask != mask || !same(t.what, what))
        fail("%s of lanes %08x in line %d meets %s of lanes %08x in line %d", what, mask, line, t.what, t.mask, t.line);
    }
    wait(Thread::in_warp, what, line, mask, source, given);
    threads[current].gets = gets;
    ++threads[current].exchanges;
    warp.wait |= 1u << (current - first);
    warp.together |= 1u << (current - first);
    settle(first, mask);
    pause(threads[current].fiber);
    return threads[current].got;
  }

  // The thread that runs.
  const Thread& running() const { return threads[current]; }
  unsigned number() const { return unsigned(current); }

  [[noreturn]] __attribute__((format(printf, 2, 3))) void fail(const char* format, ...) {
    va_list values;
    va_start(values, format);
    std::vsnprintf(message, sizeof message, format, values);
    va_end(values);
    go(scheduler);
  }

 private:
  void (*kernel)(void*) = nullptr;
  void* arguments = nullptr;
  Order order;
  unsigned long long random = 1;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<unsigned> turns;
  size_t turn = 0, current = 0;
  // Threads that have left the kernel, those that wait at a barrier, what they gave, and which barrier it is.
  size_t gone = 0, met = 0, sum = 0;
  const char* met_what = nullptr;
  int met_line = 0;
  std::vector<std::unique_ptr<Stacks>> stacks;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Fiber*> idle;
  Jump scheduler;
  char message[512];

  // Names of operations, which are one text where they stand in one line.
  static bool same(const char* a, const char* b) { return a == b || !std::strcmp(a, b); }

  void arrange(std::vector<unsigned>& all) {
    std::iota(all.begin(), all.end(), 0u);
    if (order.kind == Order::backwards)
      for (size_t n = 0; n < all.size(); ++n) all[n] = unsigned(all.size() - 1 - n);
    if (order.kind != Order::shuffled) return;
    for (size_t n = all.size(); n > 1; --n) {
      random ^= random << 13;
      random ^= random >> 7;
      random ^= random << 17;
      std::swap(all[n - 1], all[random % n]);
    }
  }

  void run() {
    for (Thread& t : threads) t = Thread();
    warps.assign((threads.size() + 31) / 32, Warp());
    for (size_t n = 0; n < threads.size(); ++n) warps[n / 32].all |= 1u << n % 32;
    gone = met = sum = 0;
    turns.resize(threads.size());
    for (bool moved = true, all_left = false, first = true; !all_left;) {
      moved = false;
      all_left = true;
      if (first || order.kind == Order::shuffled) arrange(turns);
      first = false;
      for (turn = 0; turn < turns.size(); ++turn) {
        const Thread::State state = threads[turns[turn]].state;
        if (state != Thread::fresh && state != Thread::ready) continue;
        enter(turns[turn]);
        moved = true;
        if (message[0]) return give_up();
      }
      for (const Thread& t : threads) all_left &= t.state == Thread::left;
      if (!moved && !all_left) return describe();
    }
  }

  // Keeps as many stacks as most blocks have threads.
  void trim() {
    constexpr size_t kept = 4;
    if (stacks.size() <= kept) return;
    fibers.resize(kept * Stacks::number);
    stacks.resize(kept);
    idle.clear();
    for (auto& fiber : fibers) idle.push_back(fiber.get());
  }

  // The contents of the stacks are discarded.
  void give_up() {
    idle.clear();
    for (auto& fiber : fibers) {
      fiber->begun = false;
      idle.push_back(fiber.get());
    }
  }

  void describe() {
    give_up();
    const Thread *waits = nullptr, *other = nullptr;
    for (const Thread& t : threads)
      if (t.state == Thread::in_block || (t.state == Thread::in_warp && !waits)) waits = &t;
    for (const Thread& t : threads)
      if (t.state != waits->state) other = &t;
    const size_t n = waits - threads.data();
    if (!other || other->state == Thread::left)
      std::snprintf(message, sizeof message, "thread %zu waits at %s in line %d, which other threads never reach", n, waits->what,
                    waits->line);
    else
      std::snprintf(message, sizeof message, "thread %zu waits at %s in line %d, and thread %zu at %s in line %d", n, waits->what,
                    waits->line, size_t(other - threads.data()), other->what, other->line);
  }

  void become(size_t n) {
    current = n;
    threadIdx = {unsigned(n % blockDim.x), unsigned(n / blockDim.x % blockDim.y), unsigned(n / blockDim.x / blockDim.y)};
  }

  // Runs a thread until it waits or leaves.
  __attribute__((noinline)) void enter(size_t n) {
    become(n);
    Thread& thread = threads[n];
    if (!thread.fiber) {
      if (idle.empty()) {
        stacks.push_back(std::make_unique<Stacks>());
        for (size_t k = 0; k < Stacks::number; ++k) {
          fibers.push_back(std::make_unique<Fiber>(stacks.back()->memory + k * Stacks::bytes));
          idle.push_back(fibers.back().get());
        }
      }
      thread.fiber = idle.back();
      idle.pop_back();
    }
    Fiber* fiber = thread.fiber;
    if (STAND_IN_SET(scheduler)) return;
    if (fiber->begun) go(fiber->at);
    fiber->begun = true;
    fiber->end() = Fiber::mark;
    getcontext(&fiber->start);
    fiber->start.uc_stack.ss_sp = fiber->memory;
    fiber->start.uc_stack.ss_size = Stacks::bytes;
    fiber->start.uc_link = nullptr;
    const auto self = reinterpret_cast<unsigned long long>(this);
    makecontext(&fiber->start, reinterpret_cast<void (*)()>(&Block::begin), 2, unsigned(self), unsigned(self >> 32));
    setcontext(&fiber->start);
  }

  static void begin(unsigned low, unsigned high) {
    reinterpret_cast<Block*>(low | (unsigned long long)high << 32)->work();
  }

  // Threads of which none waits share a fiber without a switch between them.
  [[noreturn]] void work() {
    for (;;) {
      kernel(arguments);
      Thread& done = threads[current];
      Fiber* const fiber = done.fiber;
      done.state = Thread::left;
      ++gone;
      settle_without(current);
      done.fiber = nullptr;
      fiber->check();
      if (turn + 1 < turns.size() && threads[turns[turn + 1]].state == Thread::fresh) {
        ++turn;
        threads[turns[turn]].fiber = fiber;
        become(turns[turn]);
      } else {
        idle.push_back(fiber);
        pause(fiber);
      }
    }
  }

  __attribute__((noinline)) void pause(Fiber* fiber) {
    if (!STAND_IN_SET(fiber->at)) go(scheduler);
  }

  // Ends an exchange where every lane of the mask waits or has left.
  void settle(size_t first, unsigned mask) {
    Warp& warp = warps[first / 32];
    const unsigned here = mask & warp.wait;
    if ((mask & ~warp.left) != here) return;
    warp.wait &= ~here;
    warp.together &= ~here;
    unsigned votes = 0;
    for (unsigned lanes = here; lanes; lanes &= lanes - 1) {
      const int lane = __builtin_ctz(lanes);
      votes |= unsigned(threads[first + lane].given != 0) << lane;
    }
    for (unsigned lanes = here; lanes; lanes &= lanes - 1) {
      Thread& t = threads[first + __builtin_ctz(lanes)];
      t.state = Thread::ready;
      // The value of a lane that takes no part is undefined: bits that are not a number, nor a small one.
      t.got = t.gets == Gets::votes ? votes : here >> t.source & 1 ? threads[first + t.source].given : ~0ull - 2;
    }
  }

  // Ends the exchange that waits for a thread that leaves.
  void settle_without(size_t n) {
    const size_t first = n & ~size_t(31);
    Warp& warp = warps[n / 32];
    warp.left |= 1u << (n - first);
    for (unsigned lanes = warp.wait; lanes; lanes &= lanes - 1) {
      const unsigned mask = threads[first + __builtin_ctz(lanes)].mask;
      if (mask >> (n - first) & 1) return settle(first, mask);
    }
  }

  void wait(Thread::State state, const char* what, int line, unsigned mask, int source, unsigned long long given) {
    Thread& t = threads[current];
    t.state = state;
    t.what = what;
    t.line = line;
    t.mask = mask;
    t.source = source;
    t.given = given;
  }
};

// One for each library: a shared one would leave fibers in the code of another library.
Block& block() {
  static thread_local Block block;
  return block;
}

}  // namespace

const char* run(dim3 grid, dim3 threads, Order order, void (*kernel)(void*), void* arguments) {
  return block().launch(grid, threads, order, kernel, arguments);
}
unsigned long long barrier(const char* what, int line, bool given) { return block().barrier(what, line, given); }
unsigned long long exchange(const char* what, int line, unsigned mask, Gets gets, int source, unsigned long long given) {
  return block().exchange(what, line, mask, gets, source, given);
}
const Thread& running() { return block().running(); }
unsigned number() { return block().number(); }
int lane() { return int(block().number() & 31); }
void fail(const char* message) { block().fail("%s", message); }

}  // namespace stand_in
