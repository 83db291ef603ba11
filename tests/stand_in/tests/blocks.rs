//! The emulation of blocks: sums by barriers and shuffles against their closed forms, in every order, and its errors
//! for texts that a GPU would hang on.
#![expect(unsafe_code, reason = "what the C++ compiler made is called here")]

use libloading::Library;
use madelung_stand_in::{HOST, Order, compiled};
use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

type Function = unsafe extern "C" fn(*mut i64, i32, u64) -> *const c_char;

const KERNELS: &str = r#"
__global__ void block_sum(long long* out) {
  __shared__ double parts[8];
  double x = threadIdx.x + 1000.0 * blockIdx.x;
  for (int by = 16; by > 0; by /= 2) x += __shfl_down_sync(~0u, x, by);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x < 32) {
    double sum = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0;
    for (int with = 4; with > 0; with /= 2) sum += __shfl_xor_sync(~0u, sum, with, 8);
    if (threadIdx.x == 0) out[blockIdx.x] = (long long)sum;
  }
}
// An inclusive scan in groups of eight lanes, each with a mask and a length of its own.
__global__ void groups(long long* out) {
  const int lane = threadIdx.x % 32, group = lane / 8;
  const unsigned mask = 0xffu << (8 * group);
  int x = 1;
  for (int n = 0; n <= group; ++n)
    for (int by = 1; by < 8; by *= 2) {
      const int from = __shfl_up_sync(mask, x, by, 8);
      if (lane % 8 >= by) x += from;
    }
  const unsigned odd = __ballot_sync(mask, lane % 2);
  __syncwarp(mask);
  const bool any = __any_sync(mask, lane == 9), all = __all_sync(mask, lane >= 8);
  const float last = __shfl_sync(mask, float(x) + 0.5f, 7, 8);
  out[threadIdx.x] = x + 1000 * (long long)last + 10000000LL * (odd >> (8 * group)) + (any ? 1LL << 40 : 0) + (all ? 1LL << 41 : 0);
}
__global__ void counts(long long* out) {
  const int odd = __syncthreads_count(threadIdx.x % 2), none = __syncthreads_or(0), all = __syncthreads_and(1);
  if (threadIdx.x == 0) out[0] = odd + 1000 * none + 100000 * all;
}
// Exchanges of a warp of which some threads have left: they are among those that are there.
__global__ void remaining(long long* out) {
  const int lane = threadIdx.x % 32;
  if (threadIdx.x >= 44) return;
  long long x = 1LL << lane;
  for (int with = 2; with > 0; with /= 2) x += __shfl_xor_sync(~0u, x, with);
  out[threadIdx.x] = __any_sync(~0u, lane == 31) ? -x : x;
}
// Threads that wait for others see the order.
__global__ void turns(long long* out) {
  __shared__ int next;
  if (threadIdx.x == 0) next = 0;
  __syncthreads();
  out[atomicAdd(&next, 1)] = threadIdx.x;
}
__global__ void missing(long long* out) {
  __shared__ int x;
  if (threadIdx.x == 3) return;
  x = threadIdx.x;
  __syncthreads();
  out[0] = x;
}
__global__ void another(long long*) {
  if (threadIdx.x < 5) __syncthreads();
  else __syncthreads();
}
__global__ void misfit(long long*) {
  if (threadIdx.x % 2) __syncwarp(~0u);
  else __ballot_sync(~0u, 1);
}
__global__ void strangers(long long*) {
  if (threadIdx.x < 32) __syncwarp(threadIdx.x < 16 ? 0xffffu : ~0u);
  else __syncthreads();
}
__global__ void trap(long long*) { __trap(); }
"#;

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let launches = [
            ("block_sum", 3, 256),
            ("groups", 1, 32),
            ("counts", 1, 100),
            ("remaining", 1, 64),
            ("turns", 1, 64),
            ("missing", 1, 40),
            ("another", 1, 40),
            ("misfit", 1, 32),
            ("strangers", 1, 64),
            ("trap", 1, 32),
        ];
        let launches: String = launches
            .iter()
            .map(|(name, blocks, threads)| {
                format!(
                    "extern \"C\" const char* launch_{name}(long long* out, int kind, unsigned long long seed) {{ return \
                     stand_in::launch({blocks}, {threads}, {{stand_in::Order::Kind(kind), seed}}, [=] {{ {name}(out); \
                     }}); }}\n"
                )
            })
            .collect();
        compiled(&format!("{HOST}{KERNELS}{launches}"))
    })
}

fn launch(name: &str, order: Order) -> Result<[i64; 64], String> {
    let mut out = [-1; 64];
    let (kind, seed) = order.as_cxx();
    // SAFETY: every function of the library has this signature, none writes more than 64 numbers, and what it answers is
    // null or a text with its zero, until the next launch.
    let failed = unsafe {
        let function =
            library().get::<Function>(format!("launch_{name}")).expect("a launch for every kernel");
        let failed = function(out.as_mut_ptr(), kind, seed);
        (!failed.is_null()).then(|| CStr::from_ptr(failed).to_string_lossy().into_owned())
    };
    failed.map_or(Ok(out), Err)
}

const ORDERS: [Order; 4] = [Order::Forwards, Order::Backwards, Order::Shuffled(1), Order::Shuffled(2)];

#[test]
fn sums_of_blocks() {
    for order in ORDERS {
        let out = launch("block_sum", order).expect("a launch");
        let expected = [0, 1, 2].map(|block| 255 * 256 / 2 + 256_000 * block);
        assert_eq!(out[..3], expected, "{order:?}");
    }
}

#[test]
fn groups_of_lanes() {
    // An inclusive scan of ones, repeated: prefix sums of prefix sums are binomial coefficients.
    fn binomial(n: i64, k: i64) -> i64 {
        (1..=k).fold(1, |c, j| c * (n - k + j) / j)
    }
    for order in ORDERS {
        let out = launch("groups", order).expect("a launch");
        for lane in 0..32_i64 {
            let (group, n) = (lane / 8, lane % 8);
            let scanned = |n: i64| binomial(n + group + 1, group + 1);
            let flags = i64::from(group == 1) << 40 | i64::from(group >= 1) << 41;
            let expected = scanned(n) + 1000 * scanned(7) + 10_000_000 * 0b1010_1010 + flags;
            assert_eq!(out[lane as usize], expected, "{order:?} {lane}");
        }
    }
}

#[test]
fn votes_of_blocks() {
    for order in ORDERS {
        assert_eq!(launch("counts", order).expect("a launch")[0], 100_050, "{order:?}");
    }
}

#[test]
fn exchanges_are_among_threads_that_are_there() {
    for order in ORDERS {
        let out = launch("remaining", order).expect("a launch");
        for (n, x) in out[..44].iter().enumerate() {
            let four = 0b1111 << (n % 32 / 4 * 4);
            assert_eq!(*x, if n < 32 { -four } else { four }, "{order:?} {n}");
        }
        assert_eq!(out[44..], [-1; 20], "{order:?}");
    }
}

#[test]
fn orders_are_those_asked_for() {
    let forwards = launch("turns", Order::Forwards).expect("a launch");
    assert!(forwards.is_sorted());
    let mut backwards = launch("turns", Order::Backwards).expect("a launch");
    backwards.reverse();
    assert_eq!(forwards, backwards);
    let mut shuffled = launch("turns", Order::Shuffled(3)).expect("a launch");
    assert!(shuffled != forwards && shuffled != backwards);
    shuffled.sort();
    assert_eq!(forwards, shuffled);
}

#[test]
fn what_would_hang_is_said() {
    let cases = [
        ("missing", "__syncthreads"),
        ("another", "a barrier must be the same for a whole block"),
        ("misfit", "meets"),
        ("strangers", "waits at __syncthreads"),
        ("trap", "__trap"),
    ];
    for (name, part) in cases {
        for order in ORDERS {
            let said = launch(name, order).expect_err("a GPU would hang");
            let fits = said.contains(part) || name == "strangers" && said.contains("meets");
            assert!(fits, "{name} {order:?}: {said}");
        }
    }
    // An aborted launch does not disturb the next one.
    assert_eq!(launch("counts", Order::Forwards).expect("a launch")[0], 100_050);
}
