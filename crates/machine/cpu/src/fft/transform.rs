//! A real transform of one mesh, in two stages of complex lines without a spectrum besides.
//!
//! *Columns*, along the first axis, are real on one side: two vectors of them are one of complex numbers. Their spectrum
//! at −k is the conjugate of that at k, so plane k of the real parts and plane K₁ − k of the imaginary parts are all
//! there is: as many numbers as the mesh has. *Planes* of that spectrum are complex, so both of their axes are
//! transformed in full, and give the waves of two planes, at k and at −k. Planes 0 and K₁/2 are real, and go together as
//! the parts of one. No length has to be even, no lane is left empty by a half spectrum, and all passes are the same.
//!
//! Forwards, columns leave their planes in the memory of the two parts of the spectrum, where the stage of planes
//! transforms them in place; backwards, planes leave theirs in the memory of the mesh.

use super::complex::Complex;
use super::lines::{self, Lines};
use super::plan::Plan;
use super::{Float, Shape};
use madelung_core::array::Buffer;
use madelung_core::runtime::lanes::Lane;
use std::ops::Range;
use std::sync::Arc;

/// The most lanes that there are.
pub(super) const MOST: usize = 16;

/// Lanes with the two functions that are compiled for their instructions.
pub(super) trait Lanes: Lane<Elem: Float> {
    /// [`lines::run`].
    ///
    /// # Safety
    /// That of [`lines::run`].
    unsafe fn lines(
        plan: &Plan<Self::Elem>,
        from: Lines<Self::Elem>,
        to: Lines<Self::Elem>,
        room: *mut Self::Elem,
    );

    /// [`Transform::run`].
    ///
    /// # Safety
    /// That of [`Transform::run`].
    unsafe fn task(transform: &Transform<Self::Elem>, task: &Task);

    /// [`Complex::run`].
    ///
    /// # Safety
    /// That of [`Complex::run`].
    unsafe fn complex(of: &Complex<Self::Elem>, share: (usize, usize));
}

macro_rules! lanes {
    ($($L:ident $(if $arch:literal with $features:literal)?;)*) => {$(
        $(#[cfg(target_arch = $arch)])?
        impl Lanes for madelung_core::runtime::lanes::$L {
            $(#[target_feature(enable = $features)])?
            unsafe fn lines(
                plan: &Plan<Self::Elem>,
                from: Lines<Self::Elem>,
                to: Lines<Self::Elem>,
                room: *mut Self::Elem,
            ) {
                // SAFETY: the caller's promise.
                unsafe { lines::run::<Self>(plan, from, to, room) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn task(transform: &Transform<Self::Elem>, task: &Task) {
                // SAFETY: the caller's promise.
                unsafe { transform.run::<Self>(task) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn complex(of: &Complex<Self::Elem>, share: (usize, usize)) {
                // SAFETY: the caller's promise.
                unsafe { of.run::<Self>(share) }
            }
        }
    )*};
}
lanes! {
    Portable32;
    Portable64;
    Avx2F32 if "x86_64" with "avx2,fma";
    Avx2F64 if "x86_64" with "avx2,fma";
    Avx512F32 if "x86_64" with "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma";
    Avx512F64 if "x86_64" with "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma";
}

/// The direction of a transform.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Inverse,
}

/// Part of a transform that is one task's: for each of the systems, its share of the columns, its share of the planes, or all
/// of both.
pub(crate) struct Task {
    pub(super) systems: Range<usize>,
    pub(super) stages: Stages,
    /// Share `share.0` of `share.1`.
    pub(super) share: (usize, usize),
}

/// Stages of a transform.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stages {
    Columns,
    Planes,
    Both,
}

/// The transforms of a batch.
pub(crate) struct Transform<T> {
    pub(super) shape: Shape,
    pub(super) direction: Direction,
    /// One for each axis.
    pub(super) plans: [Arc<Plan<T>>; 3],
    /// Only read by a transform forwards.
    pub(super) mesh: *mut T,
    /// The real and the imaginary part, only read by an inverse transform.
    pub(super) spectrum: [*mut T; 2],
}

// SAFETY: tasks of one stage write to different elements: the columns of their share, or the planes of theirs.
unsafe impl<T: Sync> Sync for Transform<T> {}

/// A range of columns, at most as many as there are lanes, and where they lie in their memory.
pub(super) struct Block<T> {
    pub(super) at: *mut T,
    pub(super) width: usize,
    /// The distance of planes.
    pub(super) plane: usize,
}

impl<T: Float> Block<T> {
    #[inline(always)]
    pub(super) unsafe fn load<L: Lanes<Elem = T>>(&self, plane: usize) -> L {
        let at = self.at.wrapping_add(plane * self.plane);
        // SAFETY: the caller's block has this plane.
        unsafe {
            match self.width {
                0 => L::splat(0.0),
                n if n == L::N => L::load(at),
                n => L::load_some(at, n),
            }
        }
    }

    #[inline(always)]
    pub(super) unsafe fn store<L: Lanes<Elem = T>>(&self, plane: usize, x: L) {
        let at = self.at.wrapping_add(plane * self.plane);
        // SAFETY: the caller's block has this plane.
        unsafe { if self.width == L::N { x.store(at) } else { x.store_first(at, self.width) } }
    }
}

/// Room of a task, in parts that begin at cache lines.
pub(super) struct Room<T: Float> {
    memory: Buffer<T>,
    used: usize,
}

impl<T: Float> Room<T> {
    pub(super) fn new(len: usize) -> Self {
        let memory = Buffer::<T>::zeros(len + 8 * MOST);
        let used = memory.as_ptr().align_offset(64).min(MOST);
        Self { memory, used }
    }

    pub(super) fn part(&mut self, len: usize) -> *mut T {
        let part = &mut self.memory[self.used..][..len];
        self.used += len.next_multiple_of(MOST);
        part.as_mut_ptr()
    }

    pub(super) fn lines(&mut self, len: usize, stride: usize) -> Lines<T> {
        Lines { re: self.part(len * stride), im: self.part(len * stride), stride }
    }
}

/// The share of `items` that is part `p` of `parts`.
pub(super) fn share(items: usize, (p, parts): (usize, usize)) -> Range<usize> {
    items * p / parts..items * (p + 1) / parts
}

impl<T: Float> Transform<T> {
    /// # Safety
    /// The processor has the instructions of `L`; the arrays have the sizes of the shape; no other task of this stage has
    /// the same share of the same system, and the stage before is done.
    #[inline(always)]
    unsafe fn run<L: Lanes<Elem = T>>(&self, task: &Task) {
        for system in task.systems.clone() {
            let of_columns = task.stages != Stages::Planes;
            let of_planes = task.stages != Stages::Columns;
            // SAFETY: the caller's promise.
            unsafe {
                match self.direction {
                    Direction::Forward => {
                        if of_columns {
                            self.columns::<L>(system, task.share);
                        }
                        if of_planes {
                            self.planes::<L>(system, task.share);
                        }
                    }
                    Direction::Inverse => {
                        if of_planes {
                            self.planes_back::<L>(system, task.share);
                        }
                        if of_columns {
                            self.columns_back::<L>(system, task.share);
                        }
                    }
                }
            }
        }
    }

    pub(super) fn mesh_of(&self, system: usize) -> *mut T {
        self.mesh.wrapping_add(system * self.shape.nodes())
    }

    pub(super) fn spectrum_of(&self, system: usize) -> [*mut T; 2] {
        self.spectrum.map(|part| part.wrapping_add(system * self.shape.waves()))
    }

    fn mesh_block(&self, mesh: *mut T, (from, width): (usize, usize)) -> Block<T> {
        Block { at: mesh.wrapping_add(from), width, plane: self.shape.plane() }
    }

    /// The first column and the width of a vector of columns that does not cross the place where their planes are cut in
    /// two. Planes lie in the memory of the spectrum: their first K₂ (K₃/2 + 1) numbers in that of the real part, the
    /// others in that of the imaginary part.
    fn cut(&self, block: usize, lanes: usize) -> (usize, usize) {
        let (plane, width) = (self.shape.plane(), self.shape.width().min(self.shape.plane()));
        let first = width.div_ceil(lanes);
        if block < first {
            return (block * lanes, lanes.min(width - block * lanes));
        }
        let from = width + (block - first) * lanes;
        (from, lanes.min(plane.saturating_sub(from)))
    }

    fn spectrum_block(&self, [re, im]: [*mut T; 2], (from, width): (usize, usize)) -> Block<T> {
        let plane = self.shape.width();
        let at = if from < plane { re.wrapping_add(from) } else { im.wrapping_add(from - plane) };
        Block { at, width, plane }
    }

    /// The real transform along the first axis, from the mesh to planes in the memory of the spectrum.
    ///
    /// # Safety
    /// Those of [`Self::run`].
    #[inline(always)]
    unsafe fn columns<L: Lanes<Elem = T>>(&self, system: usize, part: (usize, usize)) {
        let [k1, ..] = self.shape.mesh;
        let (mesh, spectrum) = (self.mesh_of(system), self.spectrum_of(system));
        let plan = &*self.plans[0];
        let mut room = Room::new((plan.room() + 4 * k1) * L::N);
        let (own, x, z) = (room.part(plan.room() * L::N), room.lines(k1, L::N), room.lines(k1, L::N));
        let (plane, width) = (self.shape.plane(), self.shape.width().min(self.shape.plane()));
        let blocks = width.div_ceil(L::N) + (plane - width).div_ceil(L::N);
        for pair in share(blocks.div_ceil(2), part) {
            let blocks = [2 * pair, 2 * pair + 1].map(|block| self.cut(block, L::N));
            let [from_a, from_b] = blocks.map(|block| self.mesh_block(mesh, block));
            let [to_a, to_b] = blocks.map(|block| self.spectrum_block(spectrum, block));
            // SAFETY: blocks lie inside their planes.
            unsafe {
                let lines = if from_a.width == L::N && from_b.width == L::N {
                    Lines { re: from_a.at, im: from_b.at, stride: plane }
                } else {
                    for n in 0..k1 {
                        x.set::<L>(n, [from_a.load(n), from_b.load(n)]);
                    }
                    x
                };
                L::lines(plan, lines, z, own);
                for k in [0, k1 / 2] {
                    if 2 * k % k1 == 0 {
                        let [re, im] = z.get::<L>(k);
                        to_a.store(k, re);
                        to_b.store(k, im);
                    }
                }
                // Twice the spectra of both.
                for k in 1..k1.div_ceil(2) {
                    let (z, y) = (z.get::<L>(k), z.get::<L>(k1 - k));
                    to_a.store(k, z[0] + y[0]);
                    to_b.store(k, z[1] + y[1]);
                    to_a.store(k1 - k, z[1] - y[1]);
                    to_b.store(k1 - k, y[0] - z[0]);
                }
            }
        }
    }

    /// The real part of the inverse transform along the first axis, in the memory of the mesh.
    ///
    /// # Safety
    /// Those of [`Self::run`].
    #[inline(always)]
    unsafe fn columns_back<L: Lanes<Elem = T>>(&self, system: usize, part: (usize, usize)) {
        let [k1, ..] = self.shape.mesh;
        let mesh = self.mesh_of(system);
        let plan = &*self.plans[0];
        let mut room = Room::new((plan.room() + 4 * k1) * L::N);
        let (own, x, z) = (room.part(plan.room() * L::N), room.lines(k1, L::N), room.lines(k1, L::N));
        let plane = self.shape.plane();
        for pair in share(plane.div_ceil(2 * L::N), part) {
            let [a, b] = [2 * pair * L::N, (2 * pair + 1) * L::N]
                .map(|from| self.mesh_block(mesh, (from, L::N.min(plane.saturating_sub(from)))));
            // SAFETY: blocks lie inside their planes.
            unsafe {
                for k in [0, k1 / 2] {
                    if 2 * k % k1 == 0 {
                        z.set::<L>(k, [a.load(k), b.load(k)]);
                    }
                }
                for k in 1..k1.div_ceil(2) {
                    let (a, b): ([L; 2], [L; 2]) = ([a.load(k), a.load(k1 - k)], [b.load(k), b.load(k1 - k)]);
                    z.set(k, [a[0] - b[1], a[1] + b[0]]);
                    z.set(k1 - k, [a[0] + b[1], b[0] - a[1]]);
                }
                if b.width == L::N {
                    let to = Lines { re: a.at, im: b.at, stride: plane };
                    L::lines(plan, z.exchanged(), to.exchanged(), own);
                } else {
                    L::lines(plan, z.exchanged(), x.exchanged(), own);
                    for n in 0..k1 {
                        let [re, im] = x.get::<L>(n);
                        a.store(n, re);
                        b.store(n, im);
                    }
                }
            }
        }
    }
}
