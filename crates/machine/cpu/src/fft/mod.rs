//! Real 3-D Fourier transforms, with a line on each lane of a register.
//!
//! Each line is transformed by itself and lines meet in pairs that the sizes of the mesh fix, so neither the number of
//! threads nor the rest of a batch changes a bit. Plans are kept by the thread that calls: that needs no lock, which a
//! fork could find held.
#![expect(unsafe_code, reason = "tasks write to disjoint parts of arrays, on lanes")]
// Sound because the sizes of the arrays are compared with the mesh's at the entry, tasks of a stage have disjoint shares,
// and lanes are entered where `Cpu::isa` has found their instructions.

mod complex;
mod lines;
mod plan;
mod planes;
mod transform;

use complex::Complex;
use madelung_core::array::Plain;
use madelung_core::backend::Waves;
use madelung_core::backend::pool::Pool;
use madelung_core::backend::{Context, Meshes};
use madelung_core::runtime::lanes::{Elem, Isa, Lane};
use plan::Plan;
use std::cell::RefCell;
use std::sync::Arc;
use transform::{Direction, Stages, Task, Transform};

/// Nodes of meshes that one task transforms in both stages, while they are in the cache.
const SMALL: usize = 1 << 14;

/// The most nanoseconds of a task.
const LONG: usize = 500_000;

/// A number with plans and lanes.
pub(crate) trait Float: Elem + Plain + Lane<Elem = Self> {
    /// The least magnitude whose sums with others of the kind are all normal.
    const LEAST: f64;

    /// This thread's plan for a length.
    fn plan(len: usize) -> Arc<Plan<Self>>;

    /// Runs a task on the lanes of `isa`.
    ///
    /// # Safety
    /// The processor has these instructions; otherwise those of [`Transform::run`].
    unsafe fn task(isa: Isa, transform: &Transform<Self>, task: &Task);

    /// Transforms a share of complex lines on the lanes of `isa`.
    ///
    /// # Safety
    /// The processor has these instructions; otherwise those of [`Complex::run`].
    unsafe fn complex(isa: Isa, of: &Complex<Self>, share: (usize, usize));
}

/// Calls a function of the lanes of `isa`.
macro_rules! on_lanes {
    ($isa:expr, [$portable:ident, $avx2:ident, $avx512:ident], $f:ident($($arg:expr),*)) => {{
        use madelung_core::runtime::lanes;
        use transform::Lanes;
        match $isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => lanes::$avx512::$f($($arg),*),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => lanes::$avx2::$f($($arg),*),
            _ => lanes::$portable::$f($($arg),*),
        }
    }};
}

macro_rules! float {
    ($T:ident: $portable:ident, $avx2:ident, $avx512:ident) => {
        impl Float for $T {
            const LEAST: f64 = ($T::MIN_POSITIVE / $T::EPSILON) as f64;

            fn plan(len: usize) -> Arc<Plan<Self>> {
                thread_local! {
                    static PLANS: RefCell<Vec<Arc<Plan<$T>>>> = const { RefCell::new(vec![]) };
                }
                PLANS.with(|plans| Plan::of(len, plans))
            }

            unsafe fn task(isa: Isa, transform: &Transform<Self>, task: &Task) {
                // SAFETY: the caller's promise.
                unsafe { on_lanes!(isa, [$portable, $avx2, $avx512], task(transform, task)) }
            }

            unsafe fn complex(isa: Isa, of: &Complex<Self>, share: (usize, usize)) {
                // SAFETY: the caller's promise.
                unsafe { on_lanes!(isa, [$portable, $avx2, $avx512], complex(of, share)) }
            }
        }
    };
}
float!(f32: Portable32, Avx2F32, Avx512F32);
float!(f64: Portable64, Avx2F64, Avx512F64);

/// `x`, or 0 where its like would make sums that are not normal: processors take a hundred times as long for those, and a
/// spectrum that decays like a Gaussian has many.
#[inline(always)]
fn normal<L: Lane<Elem: Float>>(x: L) -> L {
    L::select(x.abs().lt(L::splat(<L::Elem as Float>::LEAST)), L::splat(0.0), x)
}

/// The sizes of a mesh.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    mesh: [usize; 3],
    /// The factor of waves that stand for two.
    twice: f64,
}

impl Shape {
    fn nodes(&self) -> usize {
        self.mesh.iter().product()
    }

    fn waves(&self) -> usize {
        self.mesh[0] * self.width()
    }

    fn half(&self) -> usize {
        self.mesh[2] / 2 + 1
    }

    /// Nodes of a plane.
    fn plane(&self) -> usize {
        self.mesh[1] * self.mesh[2]
    }

    /// Waves of a plane.
    fn width(&self) -> usize {
        self.mesh[1] * self.half()
    }

    /// The factor of the waves with this k₃.
    fn factor(&self, k: usize) -> f64 {
        let stands_for_two = k > 0 && 2 * k != self.mesh[2];
        if stands_for_two { self.twice } else { 1.0 }
    }

    /// Nanoseconds: about 0.15 for each node and factor of two in the size.
    fn cost(&self) -> usize {
        self.nodes() * (self.nodes().max(2).ilog2() as usize) / 7
    }
}

/// See [`Context::real_fft`].
pub(crate) fn forward<T: Float>(
    context: &Context<'_>,
    isa: Isa,
    meshes: &[Meshes],
    waves: Waves,
    values: &[T],
    [re, im]: [&mut [T]; 2],
) {
    let twice = if waves == Waves::All { 2.0 } else { 1.0 };
    check(meshes, values.len(), [re.len(), im.len()]);
    let spectrum = [re.as_mut_ptr(), im.as_mut_ptr()];
    run_all(context, isa, meshes, twice, Direction::Forward, values.as_ptr().cast_mut(), spectrum);
}

/// See [`Context::inverse_real_fft`].
pub(crate) fn inverse<T: Float>(
    context: &Context<'_>,
    isa: Isa,
    meshes: &[Meshes],
    waves: Waves,
    [re, im]: [&[T]; 2],
    values: &mut [T],
) {
    // A wave and its conjugate are both in the planes, so waves that stand for two count twice by themselves.
    let twice = if waves == Waves::All { 1.0 } else { 0.5 };
    check(meshes, values.len(), [re.len(), im.len()]);
    let spectrum = [re, im].map(|part| part.as_ptr().cast_mut());
    run_all(context, isa, meshes, twice, Direction::Inverse, values.as_mut_ptr(), spectrum);
}

/// See [`Context::complex_fft`].
pub(crate) fn complex<T: Float>(
    context: &Context<'_>,
    isa: Isa,
    sizes: [usize; 3],
    inverse: bool,
    parts: [&mut [T]; 2],
) {
    let numbers: usize = sizes.iter().product();
    assert!(parts.iter().all(|part| part.len() == numbers), "sizes of complex lines");
    if numbers == 0 {
        return;
    }
    let of = Complex { sizes, plan: T::plan(sizes[1]), inverse, parts: parts.map(<[T]>::as_mut_ptr) };
    // Nanoseconds: complex numbers take about twice as long as the nodes of a mesh.
    let cost = numbers * (sizes[1].max(2).ilog2() as usize) * 2 / 7;
    let pool = context.threads_for(cost);
    let tasks = shares(cost, pool.threads(), sizes[0] * sizes[2]);
    // SAFETY: `isa` was found, sizes were compared, and each task has a share of its own.
    pool.run(tasks, &|t| unsafe { T::complex(isa, &of, (t, tasks)) });
}

fn check(meshes: &[Meshes], nodes: usize, parts: [usize; 2]) {
    let counts = meshes.iter().try_fold([0usize; 2], |[nodes, waves], of_size| {
        let [n, w] = of_size.counts()?;
        Some([nodes.checked_add(n)?, waves.checked_add(w)?])
    });
    assert!(parts.iter().all(|len| counts == Some([nodes, *len])), "sizes of a mesh");
}

/// Transforms the meshes of each size.
fn run_all<T: Float>(
    context: &Context<'_>,
    isa: Isa,
    meshes: &[Meshes],
    twice: f64,
    direction: Direction,
    mut mesh: *mut T,
    mut spectrum: [*mut T; 2],
) {
    let transforms: Vec<(Transform<T>, usize)> = meshes
        .iter()
        .map(|Meshes { sizes, systems }| {
            let shape = Shape { mesh: *sizes, twice };
            let of_size = Transform { shape, direction, plans: sizes.map(T::plan), mesh, spectrum };
            mesh = mesh.wrapping_add(systems * shape.nodes());
            spectrum = spectrum.map(|part| part.wrapping_add(systems * shape.waves()));
            (of_size, *systems)
        })
        .collect();
    let is_small = transforms.iter().all(|(transform, _)| transform.shape.nodes() <= SMALL);
    if transforms.len() < 2 || !is_small {
        transforms.iter().for_each(|(transform, systems)| run(context, isa, transform, *systems));
        return;
    }
    let each = transforms.iter().flat_map(|(transform, systems)| (0..*systems).map(move |b| (transform, b)));
    let each: Vec<(&Transform<T>, usize)> = each.collect();
    let cost = each.iter().map(|(transform, _)| transform.shape.cost()).sum();
    context.threads_for(cost).run(each.len(), &|n| {
        let (transform, system) = each[n];
        let task = Task { systems: system..system + 1, stages: Stages::Both, share: (0, 1) };
        // SAFETY: `isa` was found, sizes were compared, and each task has a system of its own.
        unsafe { T::task(isa, transform, &task) };
    });
}

fn run<T: Float>(context: &Context<'_>, isa: Isa, transform: &Transform<T>, systems: usize) {
    let cost = transform.shape.cost();
    let pool = &context.threads_for(systems * cost);
    let threads = pool.threads();
    // SAFETY: `isa` was found; sizes were compared; each task has a share of its own, and a stage follows the other.
    let task = |task: &Task| unsafe { T::task(isa, transform, task) };
    if transform.shape.nodes() <= SMALL && (threads == 1 || systems >= 4 * threads) {
        let groups = shares(systems * cost, threads, systems);
        let systems = |g: usize| systems * g / groups..systems * (g + 1) / groups;
        pool.run(groups, &|g| task(&Task { systems: systems(g), stages: Stages::Both, share: (0, 1) }));
        return;
    }
    let parts = shares(systems * cost / 2, threads, usize::MAX).div_ceil(systems.max(1));
    let stages = [Stages::Columns, Stages::Planes];
    let order = if transform.direction == Direction::Forward { [0, 1] } else { [1, 0] };
    for stages in order.map(|n| stages[n]) {
        pool.run(systems * parts, &|t| {
            let system = t / parts;
            task(&Task { systems: system..system + 1, stages, share: (t % parts, parts) });
        });
    }
}

/// The number of tasks for work that takes `cost` nanoseconds on one thread.
fn shares(cost: usize, threads: usize, most: usize) -> usize {
    let even = if threads == 1 { 1 } else { 4 * threads };
    even.max(cost / LONG).min(most)
}
