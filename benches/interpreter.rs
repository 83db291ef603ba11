//! The interpreter beside compiled code: the real-space Ewald sum and a Lennard-Jones fluid, made at run time and by
//! `kernels!` from one text, row by row on one thread; ns per directed pair of the thread's own time, in turns of many calls,
//! as systems count that time in ticks.

use madelung_core::array::{Array, DType};
use madelung_core::backend::pool::Serial;
use madelung_core::backend::{Context, PairLoops};
use madelung_core::op::{Arg, Cotangent, Op, Request};
use madelung_core::runtime::Kernel;
use madelung_core::structure::Batch;
use madelung_core::structure::pairs::{Kind, PairList};
use madelung_jit::{Declaration, kernels};
use std::sync::Arc;
use std::time::Instant;

/// Items for the compiler, and their text.
macro_rules! both {
    ($($items:tt)*) => {
        madelung_core::kernels! { $($items)* }
        const SOURCE: &str = stringify!($($items)*);
    };
}

both! {
    #[kernel(fast(positions))]
    fn real_space(
        i: Atom, positions: &[Vec3; Atom], charges: &[Real; Atom], cell: &[Mat3; System], alpha: &[Real; System],
        cutoff: Real, atoms: &Batch<Atom, System>, pairs: &Pairs<Atom>, energy: &mut [Real; Atom],
    ) {
        let b = atoms.of(i);
        let mut e = 0.0;
        for (j, shift) in pairs.row(i) {
            let d = positions[j] - positions[i] + shift * cell[b];
            let r = length(d);
            if r < cutoff { e += charges[j] * erfc(alpha[b] * r) / r; }
        }
        energy[i] = 0.5 * charges[i] * e;
    }

    #[kernel(fast(positions))]
    fn lennard_jones(
        i: Atom, positions: &[Vec3; Atom], cell: &[Mat3; System], sigma: &[Real; System], cutoff: Real,
        atoms: &Batch<Atom, System>, pairs: &Pairs<Atom>, energy: &mut [Real; Atom],
    ) {
        let b = atoms.of(i);
        let mut e = 0.0;
        for (j, shift) in pairs.row(i) {
            let d = positions[j] - positions[i] + shift * cell[b];
            let s = sigma[b] * sigma[b] / dot(d, d);
            let s6 = s * s * s;
            if dot(d, d) < cutoff * cutoff { e += 2.0 * (s6 * s6 - s6); }
        }
        energy[i] = e;
    }
}

const EDGE: usize = 12;
const CUTOFF: f64 = 9.0;
const CALLS: usize = 20;
const TURNS: usize = 3;

struct Fluid {
    positions: Vec<f64>,
    charges: Vec<f64>,
    length: f64,
    batch: Batch<'static>,
    pairs: PairList<'static>,
}

/// A jittered lattice of 0.1 atoms per unit of volume, and its full list.
fn fluid() -> Fluid {
    let spacing = 10f64.cbrt();
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    };
    let length = EDGE as f64 * spacing;
    let (mut positions, mut charges) = (vec![], vec![]);
    for n in 0..EDGE.pow(3) {
        let site = [n / (EDGE * EDGE), n / EDGE % EDGE, n % EDGE];
        positions.extend(site.map(|s| (s as f64 + 0.5 + 0.6 * random()) * spacing));
        charges.push(if site.iter().sum::<usize>() % 2 == 0 { 1.0 } else { -1.0 });
    }
    let (mut ptr, mut others, mut shifts) = (vec![0i64], vec![], vec![]);
    for i in 0..charges.len() {
        for j in 0..charges.len() {
            let d: [f64; 3] = std::array::from_fn(|c| positions[3 * j + c] - positions[3 * i + c]);
            let image = d.map(|x| -(x / length).round());
            let r2: f64 = d.iter().zip(image).map(|(x, s)| (x + s * length).powi(2)).sum();
            if i != j && r2 < CUTOFF * CUTOFF {
                others.push(j as i32);
                shifts.push(image.map(|s| s as i32));
            }
        }
        ptr.push(others.len() as i64);
    }
    let n = charges.len();
    let pairs = PairList::from_csr(ptr, others, shifts, n, Kind::Full).expect("a full list");
    Fluid { positions, charges, length, batch: Batch::single(n).expect("few"), pairs }
}

/// Seconds that this thread has run, where the system says so: others may share the processor.
fn now() -> f64 {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ran = text.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    ran.map_or_else(|| START.elapsed().as_secs_f64(), |ns| 1e-9 * ns)
}

fn op(kernel: &'static Kernel) -> Arc<Op> {
    Declaration::default().op(("benches", kernel.name, 1), &[kernel]).expect("an op")
}

/// Seconds of a value, of forces, or of the gradient by everything with a weight for each atom.
fn seconds(op: &Op, fluid: &Fluid, dtype: DType, member: &str) -> f64 {
    let make = |shape: &[usize], data: &[f64]| Array::from_f64(dtype, shape, data).expect("its shape");
    let (n, l) = (fluid.charges.len(), fluid.length);
    let arrays = [
        ("positions", make(&[n, 3], &fluid.positions)),
        ("charges", make(&[n], &fluid.charges)),
        ("cell", make(&[1, 3, 3], &[l, 0.0, 0.0, 0.0, l, 0.0, 0.0, 0.0, l])),
        ("alpha", make(&[1], &[0.3])),
        ("sigma", make(&[1], &[1.5])),
    ];
    let args: Vec<Arg<'_>> = op
        .args
        .iter()
        .map(|arg| match &*arg.name {
            "cutoff" => Arg::Real(CUTOFF),
            "atoms" => Arg::Structure(&fluid.batch),
            "pairs" => Arg::Structure(&fluid.pairs),
            name => Arg::Array(arrays.iter().find(|(known, _)| *known == name).expect("an array").1.view()),
        })
        .collect();
    let weights = make(&[n], &vec![1.0; n]);
    let all: Vec<usize> = (0..op.args.len()).filter(|arg| op.is_differentiable(*arg)).collect();
    let (uniform, each) = ([Some(Cotangent::Uniform(1.0))], [Some(Cotangent::Array(weights.view()))]);
    let request = match member {
        "value" => Request { values: true, ..Request::default() },
        "forces" => Request { cotangents: &uniform, gradients: &all[..1], ..Request::default() },
        _ => Request { cotangents: &each, gradients: &all, ..Request::default() },
    };
    let context = Context { pool: &Serial, pair_loops: PairLoops::Rows, ..madelung_cpu::context() };
    let start = now();
    for _ in 0..CALLS {
        op.evaluate(&context, &args, &request).expect("a call");
    }
    (now() - start) / CALLS as f64
}

fn main() {
    let fluid = fluid();
    let made = kernels(SOURCE).expect("it compiles");
    for (compiled, made) in [&REAL_SPACE, &LENNARD_JONES].into_iter().zip(made) {
        let ops = [op(compiled), op(made.kernel())];
        for dtype in [DType::F64, DType::F32] {
            for member in ["value", "forces", "gradient"] {
                let mut least = [f64::INFINITY; 2];
                for _ in 0..TURNS {
                    for (op, least) in ops.iter().zip(&mut least) {
                        *least = least.min(seconds(op, &fluid, dtype, member));
                    }
                }
                let [code, interpreter] = least.map(|s| s * 1e9 / fluid.pairs.len() as f64);
                let (name, ratio) = (compiled.name, interpreter / code);
                println!(
                    "{name} {dtype} {member}: compiled {code:.2}, interpreter {interpreter:.2} ns ({ratio:.2})"
                );
            }
        }
    }
}
