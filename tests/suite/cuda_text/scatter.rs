//! Sums in fixed point, at elements that rows share and at the nodes of meshes: against sums in twice the digits, the same bits
//! in every order, and what is not a number.
#![expect(unsafe_code, reason = "what the C++ compiler made is called here")]

use crate::common::systems::SplitMix64;
use libloading::Library;
use madelung_core::runtime::{
    FINISH_NODES, FINISH_SCATTERED, MESH_HEADER, MESH_RECORD, PRELUDE, SCATTERED_BYTES, SHAPES, node_bytes,
};
use madelung_stand_in::{HOST, Order, compiled};
use std::ffi::c_char;

/// Adds n values to the elements of their places: one pass.
type Add = unsafe extern "C" fn(*const f64, *const i32, i64, *mut u64, i32, u64) -> *const c_char;
/// Puts the sums of n elements where they go, or adds them.
type Finish = unsafe extern "C" fn(*const u64, *mut f64, i64, bool) -> *const c_char;

const TEXT: &str = "
__global__ void add(const double* values, const int* places, long long n, Scattered* to) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) scatter(to, places[i], values[i]);
}
extern \"C\" const char* host_add(const double* values, const int* places, long long n, Scattered* to, int order,
                                unsigned long long seed) {
  return stand_in::launch(unsigned((n + 63) / 64), 64, {stand_in::Order::Kind(order), seed},
                          [&] { add(values, places, n, to); });
}
extern \"C\" const char* host_finish(const Scattered* sums, double* to, long long n, bool adds) {
  return stand_in::launch(unsigned(n), 1, {}, [&] { madelung_scattered(sums, to, n, adds); });
}
";

struct Adder {
    passes: [Library; 2],
}

impl Adder {
    fn new() -> Self {
        let pass = |n| {
            compiled(&format!(
                "{HOST}#define REAL double\n#define SCATTER {n}\n{PRELUDE}{FINISH_SCATTERED}{TEXT}"
            ))
        };
        Self { passes: [pass(1), pass(2)] }
    }

    /// What the elements become that are `before`, or are overwritten.
    fn sums(&self, values: &[(usize, f64)], n: usize, order: Order, before: Option<f64>) -> Vec<f64> {
        let places: Vec<i32> = values.iter().map(|v| v.0 as i32).collect();
        let numbers: Vec<f64> = values.iter().map(|v| v.1).collect();
        let mut words = vec![0u64; n * SCATTERED_BYTES / 8];
        let mut to = vec![before.unwrap_or(f64::NAN); n];
        let (kind, seed) = order.as_cxx();
        for library in &self.passes {
            // SAFETY: the function has this signature; every place is one of the n elements, which `words` has room for.
            let failed = unsafe {
                let add = library.get::<Add>("host_add").expect("a function");
                add(numbers.as_ptr(), places.as_ptr(), numbers.len() as i64, words.as_mut_ptr(), kind, seed)
            };
            assert!(failed.is_null());
        }
        // SAFETY: as above.
        let failed = unsafe {
            let finish = self.passes[1].get::<Finish>("host_finish").expect("a function");
            finish(words.as_ptr(), to.as_mut_ptr(), n as i64, before.is_some())
        };
        assert!(failed.is_null());
        to
    }
}

/// The sum of an element's values in twice the digits, and the largest of them.
fn exact(values: &[(usize, f64)], place: usize) -> (f64, f64) {
    let (mut high, mut low, mut largest) = (0.0f64, 0.0f64, 0.0f64);
    for (_, x) in values.iter().filter(|v| v.0 == place) {
        let sum = high + x;
        let rest = sum - high;
        low += (high - (sum - rest)) + (x - rest);
        high = sum;
        largest = largest.max(x.abs());
    }
    (high + low, largest)
}

#[test]
fn sums_are_exact_and_do_not_depend_on_the_order() {
    let adder = Adder::new();
    let mut rng = SplitMix64(31);
    const PLACES: usize = 7;
    // Each element has numbers of a size of its own, over 18 decades.
    let values: Vec<(usize, f64)> = (0..5000)
        .map(|_| {
            let place = (rng.next_u64() % PLACES as u64) as usize;
            let size = rng.uniform(-12.0, 6.0) + [0.0, 200.0, -200.0, -290.0, 30.0, -30.0, 1.0][place];
            (place, rng.uniform(-1.0, 1.0) * 10f64.powf(size))
        })
        .collect();
    let got = adder.sums(&values, PLACES + 1, Order::Forwards, None);
    for (place, x) in got[..PLACES].iter().enumerate() {
        let (want, largest) = exact(&values, place);
        let bound = values.len() as f64 * largest * 2f64.powi(-63) + want.abs() * f64::EPSILON;
        // Below 2⁻⁹⁹¹ the unit does not shrink further.
        let bound = bound.max(values.len() as f64 * 2f64.powi(-991 - 63));
        assert!((x - want).abs() <= bound, "element {place}: {x:e}, not {want:e} within {bound:e}");
    }
    assert_eq!(got[PLACES], 0.0, "what nothing is added to");
    for order in [Order::Backwards, Order::Shuffled(1), Order::Shuffled(2), Order::Shuffled(3)] {
        assert_eq!(adder.sums(&values, PLACES + 1, order, None), got, "{order:?}");
    }
    // An element's bits are its own: alone it has the same.
    let alone: Vec<_> = values.iter().copied().filter(|v| v.0 == 2).collect();
    assert_eq!(adder.sums(&alone, 3, Order::Forwards, None)[2], got[2]);
    let added = adder.sums(&values, PLACES + 1, Order::Forwards, Some(0.75));
    assert!(added.iter().zip(&got).all(|(a, b)| *a == 0.75 + b));
}

#[test]
fn what_is_no_number_makes_its_own_element_nan() {
    let adder = Adder::new();
    let inf = f64::INFINITY;
    let values =
        [(0, 1.0), (0, inf), (1, f64::NAN), (1, 2.0), (2, 3.0), (2, -1.0), (3, inf), (3, -inf), (4, -0.0)];
    for order in [Order::Forwards, Order::Backwards] {
        let got = adder.sums(&values, 5, order, None);
        assert!([0, 1, 3].iter().all(|n| got[*n].is_nan()), "{got:?}");
        assert_eq!([got[2], got[4]], [2.0, 0.0]);
    }
}

/// Adds n values to nodes, a row to a value and four lanes to a row: one pass.
type AddAtNodes = unsafe extern "C" fn(
    *const f64,
    *const i32,
    *const i32,
    i64,
    *const i32,
    *mut u64,
    i32,
    u64,
) -> *const c_char;
/// Puts the sums of n nodes where they go.
type FinishNodes = unsafe extern "C" fn(*const u64, *const i32, *mut f64, i64) -> *const c_char;

const NODES: &str = "
__global__ void add(const double* values, const int* places, const int* systems, long long n, const int* shapes, Node* to) {
  const long long row = (long long)blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES;
  if (row >= n) return;
  AtNodes at(to, shapes, systems[row]);
  if (LANE == row % LANES) at.add(places[row], values[row]);
  at.leave(WARP);
}
extern \"C\" const char* host_add(const double* values, const int* places, const int* systems, long long n, const int* shapes,
                                Node* to, int order, unsigned long long seed) {
  return stand_in::launch(unsigned((n * LANES + 63) / 64), 64, {stand_in::Order::Kind(order), seed},
                          [&] { add(values, places, systems, n, shapes, to); });
}
extern \"C\" const char* host_finish(const Node* sums, const int* shapes, double* to, long long n) {
  return stand_in::launch(unsigned(n), 1, {}, [&] { madelung_nodes(sums, nullptr, to, n, false, CROWD, *(const Shapes*)shapes); });
}
";

/// The nodes of two systems.
const OF_SYSTEMS: [usize; 2] = [3, 4];

struct AtNodes {
    passes: [Library; 2],
    bytes: usize,
}

impl AtNodes {
    fn new(real: &str, crowd: u32) -> Self {
        let pass = |n| {
            compiled(&format!(
                "{HOST}#define REAL {real}\n#define LANES 4\n#define SCATTER {n}\n#define CROWD {crowd}\n{PRELUDE}#define T0 \
                 double\n{FINISH_NODES}{NODES}"
            ))
        };
        Self { passes: [pass(1), pass(2)], bytes: node_bytes(if real == "float" { 4 } else { 8 }) }
    }

    /// What the nodes become: a value's system is the one that has its node.
    fn sums(&self, values: &[(usize, f64)], order: Order) -> Vec<f64> {
        let n = OF_SYSTEMS.iter().sum::<usize>();
        let mut shapes = [0i32; SHAPES];
        shapes[0] = 2;
        // Behind its sizes and the order of its splines, a system has its first node.
        shapes[MESH_HEADER + MESH_RECORD + 4] = OF_SYSTEMS[0] as i32;
        let places: Vec<i32> = values.iter().map(|v| v.0 as i32).collect();
        let systems: Vec<i32> = values.iter().map(|v| i32::from(v.0 >= OF_SYSTEMS[0])).collect();
        let numbers: Vec<f64> = values.iter().map(|v| v.1).collect();
        let mut words = vec![0u64; (2 + n) * self.bytes / 8];
        let mut to = vec![f64::NAN; n];
        let (kind, seed) = order.as_cxx();
        for library in &self.passes {
            // SAFETY: the function has this signature; every place is one of the n nodes, which `words` has room for.
            let failed = unsafe {
                let add = library.get::<AddAtNodes>("host_add").expect("a function");
                let (count, to) = (numbers.len() as i64, words.as_mut_ptr());
                add(
                    numbers.as_ptr(),
                    places.as_ptr(),
                    systems.as_ptr(),
                    count,
                    shapes.as_ptr(),
                    to,
                    kind,
                    seed,
                )
            };
            assert!(failed.is_null());
        }
        // SAFETY: as above.
        let failed = unsafe {
            let finish = self.passes[1].get::<FinishNodes>("host_finish").expect("a function");
            finish(words.as_ptr(), shapes.as_ptr(), to.as_mut_ptr(), n as i64)
        };
        assert!(failed.is_null());
        to
    }
}

/// The bound that the design promises, with charges of 10⁻⁶ beside those of 10⁶ and 10⁵ addends on few nodes; a system of its
/// own has its own unit.
#[test]
fn sums_at_nodes_are_off_by_half_a_unit_an_addend() {
    let mut rng = SplitMix64(77);
    let values: Vec<(usize, f64)> = (0..100_000)
        .map(|n| {
            let node = (rng.next_u64() % 7) as usize;
            let size = if node < OF_SYSTEMS[0] { [1e6, 1e-6][n % 2] } else { 1e-6 };
            (node, rng.uniform(-1.0, 1.0) * size)
        })
        .collect();
    // Two words have 63 bits below the largest addend, one has 62 less those of the sum.
    for (real, crowd, bits) in [("double", 31, 63), ("float", 20, 42), ("float", 24, 38), ("float", 31, 31)] {
        let adder = AtNodes::new(real, crowd);
        let got = adder.sums(&values, Order::Forwards);
        for (node, x) in got.iter().enumerate() {
            let (want, _) = exact(&values, node);
            let of = |n: usize| usize::from(n >= OF_SYSTEMS[0]);
            let in_system = values.iter().filter(|v| of(v.0) == of(node));
            let largest = in_system.fold(0.0f64, |largest, v| largest.max(v.1.abs()));
            let addends = values.iter().filter(|v| v.0 == node).count() as f64;
            // The power of two above the largest addend is up to twice as large.
            let bound = addends * largest * 2f64.powi(-bits) + want.abs() * f64::EPSILON;
            assert!((x - want).abs() <= bound, "{real}, node {node}: {x:e}, not {want:e} within {bound:e}");
        }
        for order in [Order::Backwards, Order::Shuffled(1), Order::Shuffled(2)] {
            assert_eq!(adder.sums(&values, order), got, "{real} {order:?}");
        }
        // A system's bits are its own: alone it has the same.
        let alone: Vec<_> = values.iter().copied().filter(|v| v.0 >= OF_SYSTEMS[0]).collect();
        let own = adder.sums(&alone, Order::Forwards);
        assert_eq!(own, [&[0.0; 3], &got[OF_SYSTEMS[0]..]].concat());
        // As many addends as there is room for, all of one sign and nearly of the largest size.
        let crowded = vec![(1, -1.999); 1 << 17];
        assert_eq!(
            adder.sums(&crowded, Order::Forwards)[1],
            adder.sums(&crowded[..1], Order::Forwards)[1] * 131_072.0
        );
    }
}

#[test]
fn what_is_no_number_makes_its_own_system_nan() {
    for real in ["float", "double"] {
        let adder = AtNodes::new(real, 20);
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let got = adder.sums(&[(0, 1.0), (1, bad), (3, 3.0), (3, -1.0), (5, -0.0)], Order::Backwards);
            assert!(got[..3].iter().all(|x| x.is_nan()), "{got:?}");
            assert_eq!(got[3..], [2.0, 0.0, 0.0, 0.0]);
        }
    }
}
