//! Small ops, a backend that counts launches, and an allocator that counts bytes.

pub(crate) use crate::support::{array, names, numbers};
use madelung_core::Result;
use madelung_core::array::{Array, DType};
use madelung_core::backend::Context;
use madelung_core::backend::context::{Allocator, Heap};
use madelung_core::backend::pool::Serial;
use madelung_core::op::{Op, OpBuilder};
use madelung_core::structure::Batch;
use madelung_core::structure::pairs::{Kind, PairList};
use madelung_core::tape::{Tape, Value, Var};
use madelung_cpu::Cpu;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

madelung_core::kernels! {
    /// ρᵢ = Σⱼ exp(−wᵢ r²)
    #[kernel]
    fn density(
        i: Atom,
        positions: &[Vec3; Atom],
        width: &[Real; Atom],
        pairs: &Pairs<Atom>,
        rho: &mut [Real; Atom],
    ) {
        let mut sum = 0.0;
        for (j, shift) in pairs.row(i) {
            let d = positions[j] - positions[i];
            sum += exp(-width[i] * dot(d, d));
        }
        rho[i] = sum;
    }

    /// Eᵢ = −√(1 + ρᵢ²)
    #[kernel]
    fn embedding(i: Atom, rho: &[Real; Atom], energy: &mut [Real; Atom]) {
        energy[i] = -sqrt(1.0 + rho[i] * rho[i]);
    }

    #[kernel]
    fn sum_energies(
        i: Atom,
        atom_energy: &[Real; Atom],
        atoms: &Batch<Atom, System>,
        energy: &mut [Real; System],
    ) {
        energy[atoms.of(i)] += atom_energy[i];
    }

    /// yᵢ = xᵢ + sin(sᵢ xᵢ)
    #[kernel]
    fn wave(i: Atom, x: &[Real; Atom], scale: &[Real; Atom], y: &mut [Real; Atom]) {
        y[i] = x[i] + sin(scale[i] * x[i]);
    }
}

/// Per-atom energies, in two steps.
pub(crate) fn embedded(saved: bool) -> Arc<Op> {
    let op = arguments("embedded").output("energy", &["Atom"]);
    let op = if saved { op.saved("rho", &["Atom"]) } else { op.scratch("rho", &["Atom"]) };
    op.step(&DENSITY).step(&EMBEDDING).build().expect("an op")
}

/// Per-system energies; `saved` are the arguments whose gradients come with them.
pub(crate) fn total(saved: &[&str]) -> Result<Arc<Op>> {
    arguments("total")
        .batch("atoms", "Atom", "System")
        .output("energy", &["System"])
        .scratch("rho", &["Atom"])
        .scratch("atom_energy", &["Atom"])
        .saved_gradients(saved)
        .step(&DENSITY)
        .step_as(&EMBEDDING, &[("energy", "atom_energy")])
        .step(&SUM_ENERGIES)
        .build()
}

fn arguments(name: &str) -> OpBuilder {
    Op::new("test", name, 1).real("positions", &["Atom", "3"]).real("width", &["Atom"]).pairs("pairs", "Atom")
}

pub(crate) fn wave() -> Arc<Op> {
    Op::new("test", "wave", 1)
        .real("x", &["Atom"])
        .real("scale", &["Atom"])
        .output("y", &["Atom"])
        .step(&WAVE)
        .build()
        .expect("an op")
}

/// Sum of an array's elements, weighted: the shapes that systems have need not be those of physics.
pub(crate) fn sum() -> Arc<Op> {
    Op::new("test", "sum", 1)
        .real("atom_energy", &["Atom"])
        .batch("atoms", "Atom", "System")
        .output("energy", &["System"])
        .step(&SUM_ENERGIES)
        .build()
        .expect("an op")
}

/// Counts launches.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    cpu: Cpu,
    launches: AtomicUsize,
}

impl Counting {
    /// The launches since the last time.
    pub(crate) fn launches(&self) -> usize {
        self.launches.swap(0, Ordering::Relaxed)
    }
}

madelung_stand_in::launches_by!(Counting, |counting, context, args| {
    counting.launches.fetch_add(1, Ordering::Relaxed);
    counting.cpu.launch(context, args)
});

/// Counts the bytes that are out, and the most there ever were.
#[derive(Debug, Default)]
pub(crate) struct Bytes {
    live: AtomicUsize,
    peak: AtomicUsize,
}

fn bytes(array: &Array) -> usize {
    array.shape().iter().product::<usize>() * array.dtype().size()
}

impl Bytes {
    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }
}

impl Allocator for Bytes {
    fn zeros(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        let array = Heap.zeros(dtype, shape)?;
        let live = self.live.fetch_add(bytes(&array), Ordering::Relaxed) + bytes(&array);
        self.peak.fetch_max(live, Ordering::Relaxed);
        Ok(array)
    }

    fn recycle(&self, array: Array) {
        let before = self.live.fetch_sub(bytes(&array), Ordering::Relaxed);
        assert!(before >= bytes(&array), "an array that the allocator did not give");
    }
}

pub(crate) fn on<'a>(backend: &'a Counting, allocator: &'a Bytes) -> Context<'a> {
    Context { pool: &Serial, allocator, ..Context::new(backend) }
}

pub(crate) fn random(seed: usize, shape: &[usize]) -> Array {
    array(shape, &numbers(seed, shape.iter().product()))
}

/// Atoms of two systems, every pair of each within reach.
pub(crate) struct Atoms {
    pub(crate) positions: Array,
    pub(crate) width: Array,
    pub(crate) batch: Arc<Batch<'static>>,
    pub(crate) pairs: Arc<PairList<'static>>,
}

impl Atoms {
    pub(crate) fn new() -> Self {
        let ptr = [0, 5, 12];
        let (mut i, mut j) = (vec![], vec![]);
        for system in ptr.windows(2) {
            for a in system[0]..system[1] {
                for b in (system[0]..system[1]).filter(|b| *b != a) {
                    i.push(a);
                    j.push(b);
                }
            }
        }
        let shifts = vec![[0; 3]; i.len()];
        let pairs = PairList::from_coo(&i, j, shifts, 12, 12, Kind::Full).expect("a list");
        Self {
            positions: random(1, &[12, 3]),
            width: array(&[12], &numbers(2, 12).iter().map(|x| 0.6 + 0.3 * x).collect::<Vec<_>>()),
            batch: Arc::new(Batch::from_ptr(ptr.to_vec()).expect("a batch")),
            pairs: Arc::new(pairs),
        }
    }

    /// The arguments of [`embedded`], or of [`total`].
    pub(crate) fn on_tape(&self, positions: Var, width: Var, batch: bool) -> Vec<Value> {
        let mut args = vec![positions.into(), width.into(), Value::Structure(self.pairs.clone())];
        args.extend(batch.then(|| Value::Structure(self.batch.clone())));
        args
    }
}

/// The largest difference, in units of the largest number.
pub(crate) fn difference(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let largest = b.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    a.iter().zip(b).fold(0.0f64, |m, (a, b)| m.max((a - b).abs())) / largest
}

pub(crate) fn dot(a: &Array, b: &Array) -> f64 {
    a.to_f64().unwrap().iter().zip(b.to_f64().unwrap()).map(|(a, b)| a * b).sum()
}

/// x + h u
pub(crate) fn moved(x: &Array, u: &Array, h: f64) -> Array {
    let data: Vec<f64> =
        x.to_f64().unwrap().iter().zip(u.to_f64().unwrap()).map(|(x, u)| x + h * u).collect();
    array(x.shape(), &data)
}

/// The derivative of `f` at 0, to the sixth order of the step.
pub(crate) fn slope(mut f: impl FnMut(f64) -> f64) -> f64 {
    let h = 4e-3;
    let mut odd = |k: f64| f(k * h) - f(-k * h);
    (45.0 * odd(1.0) - 9.0 * odd(2.0) + odd(3.0)) / (60.0 * h)
}

/// A tape on the heap.
pub(crate) fn tape() -> Tape<'static> {
    Tape::new(madelung_cpu::context())
}
