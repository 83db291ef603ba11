//! Real 3-D Fourier transforms: real lines along the third axis (realfft), complex ones along the other two
//! (rustfft), side by side over the pool.
//!
//! Each line is transformed by itself, so the number of threads changes no bit. Plans are kept by the thread that
//! calls: that needs no lock, which a fork could find held.
#![expect(unsafe_code, reason = "pairs of reals are complex numbers")]

use madelung_core::Result;
use madelung_core::array::{Array, DType};
use madelung_core::backend::Context;
use madelung_core::backend::Waves;
use madelung_core::backend::pool::Pool;
use realfft::RealFftPlanner;
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftNum, FftPlanner};
use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

/// Columns that are transformed together, so that memory is read by whole cache lines.
const COLUMNS: usize = 16;

/// Keeps plans by length.
pub(crate) struct Planners<T: FftNum> {
    real: RealFftPlanner<T>,
    complex: FftPlanner<T>,
}

/// A number with plans.
pub(crate) trait Float: FftNum {
    /// The element type.
    const DTYPE: DType;
    /// Calls `f` with this thread's plans.
    fn planners<R>(f: impl FnOnce(&mut Planners<Self>) -> R) -> R;
    /// A factor, which both types hold exactly.
    fn factor(x: f32) -> Self;
    /// The elements of an array of this type.
    fn elements(array: &mut Array) -> &mut [Self];
}

macro_rules! float {
    ($T:ty, $V:ident) => {
        impl Float for $T {
            const DTYPE: DType = DType::$V;

            fn planners<R>(f: impl FnOnce(&mut Planners<Self>) -> R) -> R {
                thread_local! {
                    static PLANNERS: RefCell<Planners<$T>> =
                        RefCell::new(Planners { real: RealFftPlanner::new(), complex: FftPlanner::new() });
                }
                PLANNERS.with_borrow_mut(f)
            }

            fn factor(x: f32) -> Self {
                x.into()
            }

            fn elements(array: &mut Array) -> &mut [Self] {
                match array {
                    Array::$V(a) => a,
                    _ => &mut [],
                }
            }
        }
    };
}
float!(f32, F32);
float!(f64, F64);

fn complex<T: Float>(reals: &mut [T]) -> &mut [Complex<T>] {
    // SAFETY: `Complex` is two numbers in C's layout, so the alignment is that of one, and half as many fit.
    unsafe { std::slice::from_raw_parts_mut(reals.as_mut_ptr().cast(), reals.len() / 2) }
}

/// Sizes that every step of a transform needs.
struct Shape {
    systems: usize,
    k1: usize,
    k2: usize,
    k3: usize,
    /// K₃/2 + 1.
    half: usize,
    /// The factor of waves that stand for two.
    twice: f32,
}

impl Shape {
    fn new(mesh: [usize; 3], nodes: usize, twice: f32) -> Self {
        let [k1, k2, k3] = mesh;
        Self { systems: nodes / (k1 * k2 * k3), k1, k2, k3, half: k3 / 2 + 1, twice }
    }

    fn waves(&self) -> usize {
        self.systems * self.k1 * self.k2 * self.half
    }

    /// The factor of the waves with this k₃.
    fn factor(&self, k: usize) -> f32 {
        let stands_for_two = k > 0 && 2 * k != self.k3;
        if stands_for_two { self.twice } else { 1.0 }
    }

    /// About 2 ns for each number and factor of two in the size.
    fn cost(&self) -> usize {
        let lines = self.k1 * self.k2 * self.k3;
        2 * self.waves() * (lines.max(2).ilog2() as usize)
    }
}

/// See [`Context::real_fft`].
pub(crate) fn forward<T: Float>(
    context: &Context<'_>,
    mesh: [usize; 3],
    waves: Waves,
    values: &[T],
    [re, im]: [&mut [T]; 2],
) -> Result<()> {
    let shape = Shape::new(mesh, values.len(), if waves == Waves::All { 2.0 } else { 1.0 });
    if shape.systems == 0 {
        return Ok(());
    }
    let pool = &context.threads_for(shape.cost());
    let mut room = context.allocator.room(T::DTYPE, &[2 * shape.waves()])?;
    let spectrum = complex(T::elements(&mut room));
    let (real, second, first) = T::planners(|p| {
        let (second, first) = (p.complex.plan_fft_forward(shape.k2), p.complex.plan_fft_forward(shape.k1));
        (p.real.plan_fft_forward(shape.k3), second, first)
    });
    let (plane, mesh_plane) = (shape.k2 * shape.half, shape.k2 * shape.k3);
    let planes: Vec<_> = values.chunks_exact(mesh_plane).zip(spectrum.chunks_exact_mut(plane)).collect();
    each(pool, planes, |planes| {
        let mut line = vec![T::zero(); shape.k3];
        let mut scratch = real.make_scratch_vec();
        let mut columns = Columns::new(&*second);
        for (values, spectrum) in planes {
            for (from, to) in values.chunks_exact(shape.k3).zip(spectrum.chunks_exact_mut(shape.half)) {
                line.copy_from_slice(from);
                real.process_with_scratch(&mut line, to, &mut scratch).expect("lengths are the plan's");
            }
            for lo in (0..shape.half).step_by(COLUMNS) {
                let block = lo..shape.half.min(lo + COLUMNS);
                columns.load(block.clone(), |k2, k3| spectrum[k2 * shape.half + k3]);
                columns.transform(&*second);
                columns.store(block, |k2, k3, x| spectrum[k2 * shape.half + k3] = x);
            }
        }
    });
    let spectrum = &*spectrum;
    let parts = split_columns(re, &shape, pool).into_iter().zip(split_columns(im, &shape, pool)).collect();
    each(pool, parts, |parts| {
        let mut columns = Columns::new(&*first);
        for ((part, mut re), (_, mut im)) in parts {
            for lo in part.columns.clone().step_by(COLUMNS) {
                let block = lo..part.columns.end.min(lo + COLUMNS);
                columns.load(block.clone(), |k1, at| spectrum[(part.system * shape.k1 + k1) * plane + at]);
                columns.transform(&*first);
                columns.store(block, |k1, at, x| {
                    let factor = T::factor(shape.factor(at % shape.half));
                    re[k1][at - part.columns.start] = factor * x.re;
                    im[k1][at - part.columns.start] = factor * x.im;
                });
            }
        }
    });
    context.allocator.recycle(room);
    Ok(())
}

/// See [`Context::inverse_real_fft`].
pub(crate) fn inverse<T: Float>(
    context: &Context<'_>,
    mesh: [usize; 3],
    waves: Waves,
    [re, im]: [&[T]; 2],
    values: &mut [T],
) -> Result<()> {
    // The transform of a real line counts the waves that stand for two twice.
    let shape = Shape::new(mesh, values.len(), if waves == Waves::All { 1.0 } else { 0.5 });
    if shape.systems == 0 {
        return Ok(());
    }
    let pool = &context.threads_for(shape.cost());
    let mut room = context.allocator.room(T::DTYPE, &[2 * shape.waves()])?;
    let spectrum = complex(T::elements(&mut room));
    let (real, second, first) = T::planners(|p| {
        let (second, first) = (p.complex.plan_fft_inverse(shape.k2), p.complex.plan_fft_inverse(shape.k1));
        (p.real.plan_fft_inverse(shape.k3), second, first)
    });
    let (plane, mesh_plane) = (shape.k2 * shape.half, shape.k2 * shape.k3);
    each(pool, split_columns(&mut *spectrum, &shape, pool), |parts| {
        let mut columns = Columns::new(&*first);
        for (part, mut to) in parts {
            for lo in part.columns.clone().step_by(COLUMNS) {
                let block = lo..part.columns.end.min(lo + COLUMNS);
                columns.load(block.clone(), |k1, at| {
                    let (wave, factor) = (
                        (part.system * shape.k1 + k1) * plane + at,
                        T::factor(shape.factor(at % shape.half)),
                    );
                    Complex::new(factor * re[wave], factor * im[wave])
                });
                columns.transform(&*first);
                columns.store(block, |k1, at, x| to[k1][at - part.columns.start] = x);
            }
        }
    });
    let planes: Vec<_> = spectrum.chunks_exact_mut(plane).zip(values.chunks_exact_mut(mesh_plane)).collect();
    each(pool, planes, |planes| {
        let mut scratch = real.make_scratch_vec();
        let mut columns = Columns::new(&*second);
        for (spectrum, values) in planes {
            for lo in (0..shape.half).step_by(COLUMNS) {
                let block = lo..shape.half.min(lo + COLUMNS);
                columns.load(block.clone(), |k2, k3| spectrum[k2 * shape.half + k3]);
                columns.transform(&*second);
                columns.store(block, |k2, k3, x| spectrum[k2 * shape.half + k3] = x);
            }
            for (from, to) in spectrum.chunks_exact_mut(shape.half).zip(values.chunks_exact_mut(shape.k3)) {
                // Waves that are their own partners give a real line by their real part alone.
                from[0].im = T::zero();
                if shape.k3.is_multiple_of(2) {
                    from[shape.half - 1].im = T::zero();
                }
                real.process_with_scratch(from, to, &mut scratch).expect("lengths are the plan's");
            }
        }
    });
    context.allocator.recycle(room);
    Ok(())
}

/// Lines across memory, gathered.
struct Columns<T> {
    lines: Vec<Complex<T>>,
    scratch: Vec<Complex<T>>,
    len: usize,
    used: usize,
}

impl<T: Float> Columns<T> {
    fn new(plan: &dyn Fft<T>) -> Self {
        let zero = Complex::new(T::zero(), T::zero());
        let len = plan.len();
        let scratch = vec![zero; plan.get_inplace_scratch_len()];
        Self { lines: vec![zero; COLUMNS * len], scratch, len, used: 0 }
    }

    /// `from(along the line, column)`
    fn load(&mut self, columns: std::ops::Range<usize>, from: impl Fn(usize, usize) -> Complex<T>) {
        self.used = columns.len() * self.len;
        for k in 0..self.len {
            for (c, column) in columns.clone().enumerate() {
                self.lines[c * self.len + k] = from(k, column);
            }
        }
    }

    fn transform(&mut self, plan: &dyn Fft<T>) {
        plan.process_with_scratch(&mut self.lines[..self.used], &mut self.scratch);
    }

    /// `to(along the line, column, element)`
    fn store(&self, columns: std::ops::Range<usize>, mut to: impl FnMut(usize, usize, Complex<T>)) {
        for k in 0..self.len {
            for (c, column) in columns.clone().enumerate() {
                to(k, column, self.lines[c * self.len + k]);
            }
        }
    }
}

/// Some of the columns along the first axis, of one system.
struct Part {
    system: usize,
    columns: std::ops::Range<usize>,
}

/// A half spectrum by parts, each with its piece of every row.
fn split_columns<'d, T>(
    mut data: &'d mut [T],
    shape: &Shape,
    pool: &dyn Pool,
) -> Vec<(Part, Vec<&'d mut [T]>)> {
    let width = shape.k2 * shape.half;
    let blocks = width.div_ceil(COLUMNS);
    let of_system = (4 * pool.threads()).div_ceil(shape.systems).min(blocks);
    let cut = |p: usize| (blocks * p / of_system * COLUMNS).min(width);
    let mut parts = vec![];
    for system in 0..shape.systems {
        let first = parts.len();
        for p in 0..of_system {
            parts.push((Part { system, columns: cut(p)..cut(p + 1) }, Vec::with_capacity(shape.k1)));
        }
        for _ in 0..shape.k1 {
            for (part, rows) in &mut parts[first..] {
                let (row, rest) = std::mem::take(&mut data).split_at_mut(part.columns.len());
                rows.push(row);
                data = rest;
            }
        }
    }
    parts
}

/// Runs `task` on chunks of neighbouring items.
fn each<I: Send>(pool: &dyn Pool, items: Vec<I>, task: impl Fn(Vec<I>) + Sync) {
    let tasks = items.len().min(4 * pool.threads()).max(1);
    let mut groups: Vec<Mutex<Vec<I>>> = (0..tasks).map(|_| Mutex::default()).collect();
    let len = items.len();
    for (n, item) in items.into_iter().enumerate() {
        // The task t whose share, len·t/tasks ..., has item n.
        let t = ((n + 1) * tasks - 1) / len;
        groups[t].get_mut().unwrap_or_else(PoisonError::into_inner).push(item);
    }
    pool.run(tasks, &|t| {
        task(std::mem::take(&mut *groups[t].lock().unwrap_or_else(PoisonError::into_inner)));
    });
}
