//! The registers of a run, and its control flow.
//!
//! Pointers to registers on lanes come from vectors that are not moved during a run, with their numbers compared; a block's
//! vectors never exceed the room of a register.

use super::BLOCK;
use super::line::{Line, Step};
use super::world::World;
use madelung_kernel::program::{
    Address, Class, Condition, Family, Indices, Instruction, Integer, MAX_ORDERS, Mask, Room, Scalar, Shape,
    Table, Vector,
};
use madelung_lanes::{ClusterEntry, Lane, LaunchAbi, MeshShape, Spilled, Splines, WaveLine};

/// The iterations that are open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// The first one.
    pub(super) k: usize,
    /// The one behind the last of the loop.
    pub(super) end: usize,
    /// Vectors, and the lanes of the last one that have an iteration.
    pub(super) vectors: usize,
    pub(super) rest: usize,
    /// The entries of clusters that are the iterations, a vector each; null where these are lanes.
    pub(super) entries: *const ClusterEntry,
}

impl Open {
    /// The iterations of a vector.
    #[inline(always)]
    pub(super) fn iterations<W: World>(&self) -> usize {
        if self.entries.is_null() { W::L::N } else { 1 }
    }
}

/// A run of a program.
pub(super) struct Machine<'r, W: World> {
    line: &'r Line,
    pub(super) a: &'r LaunchAbi,
    pub(super) partials: *mut f64,
    scalars: Vec<f64>,
    integers: Vec<i64>,
    conditions: Vec<bool>,
    /// One vector for each of a block's, register by register.
    each: Vec<W::L>,
    one: Vec<W::L>,
    masks: Vec<<W::L as Lane>::Mask>,
    indices: Vec<<W::L as Lane>::Index>,
    rooms: Vec<Spilled<f64>>,
    shapes: Vec<MeshShape>,
    tables: Vec<Splines<MAX_ORDERS>>,
    pub(super) wave_line: WaveLine,
    pub(super) open: Open,
    /// The vector of a register that is the first of these iterations.
    first: usize,
    /// The iterations of the loops around the open one.
    around: Vec<Open>,
}

/// A mesh that nobody asked for.
const NO_MESH: MeshShape = [2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2];

impl<'r, W: World> Machine<'r, W> {
    /// # Safety
    /// The processor has the lanes.
    #[inline(always)]
    pub(super) unsafe fn new(line: &'r Line, a: &'r LaunchAbi, partials: *mut f64) -> Self {
        let count = |class: Class| line.registers[class as usize];
        let outside = Open { k: 0, end: 0, vectors: 1, rest: W::L::N, entries: std::ptr::null() };
        let no_table = Splines::<MAX_ORDERS>::new::<f64>(&NO_MESH, 0, 0.0);
        let mut m = Self {
            line,
            a,
            partials,
            scalars: vec![0.0; count(Class::Scalar)],
            integers: vec![0; count(Class::Integer)],
            conditions: vec![false; count(Class::Condition)],
            each: vec![W::L::splat(0.0); count(Class::Each) * BLOCK],
            one: vec![W::L::splat(0.0); count(Class::One)],
            masks: vec![W::L::mask(false); count(Class::Mask) * BLOCK],
            indices: vec![<W::L as Lane>::Index::default(); count(Class::Indices) * BLOCK],
            rooms: vec![Spilled::default(); count(Class::Room)],
            shapes: vec![NO_MESH; count(Class::Shape)],
            tables: vec![no_table; count(Class::Table)],
            wave_line: WaveLine::new(NO_MESH, 0),
            open: outside,
            first: 0,
            around: vec![],
        };
        for (r, x) in &line.scalars {
            m.scalars[*r] = *x;
        }
        for (r, x) in &line.integers {
            m.integers[*r] = *x;
        }
        for (r, x) in &line.vectors {
            m.one[*r] = W::L::splat(*x);
        }
        m
    }

    /// # Safety
    /// As for a `Run` of the program's part.
    #[inline(always)]
    pub(super) unsafe fn run(mut self, lo: usize, hi: usize) {
        let [first, last] = self.line.rows;
        (*self.int(first), *self.int(last)) = (lo as i64, hi as i64);
        let mut at = 0;
        loop {
            // A step that is not there would end the run; programs end with `End`.
            let Some(step) = self.line.steps.get(at) else { return };
            at += 1;
            match step {
                // SAFETY: the caller's promises.
                Step::OnLanes(i) => unsafe { self.of_lanes(i) },
                // SAFETY: the caller's promises.
                Step::Chain(links) => unsafe { self.chain(links) },
                Step::Group(..) => unreachable!("groups are chains when a line is done"),
                // SAFETY: the caller's promises.
                Step::Do(i) => unsafe { self.instruction(i) },
                Step::InTurns(all) => {
                    let open = self.open;
                    for v in 0..open.vectors {
                        let rest = if v + 1 < open.vectors { W::L::N } else { open.rest };
                        self.open = Open { k: open.k + v * open.iterations::<W>(), vectors: 1, rest, ..open };
                        self.first = v;
                        // No closure, which would not have the processor's instructions.
                        for i in all {
                            // SAFETY: the caller's promises.
                            unsafe { self.instruction(i) };
                        }
                    }
                    (self.open, self.first) = (open, 0);
                }
                Step::Jump(place) => at = *place,
                Step::JumpUnless(condition, place) => {
                    if !*self.condition(*condition) {
                        at = *place;
                    }
                }
                Step::For { variable, from, to, end } => {
                    *self.int(*variable) = *self.int(*from);
                    if *self.int(*variable) >= *self.int(*to) {
                        at = *end;
                    }
                }
                Step::NextTurn { variable, to, body } => {
                    *self.int(*variable) += 1;
                    if *self.int(*variable) < *self.int(*to) {
                        at = *body;
                    }
                }
                Step::Segments { begin, stop, from, to, entries, end } => {
                    *self.int(*begin) = *self.int(*from);
                    if !self.segment(*begin, *stop, *to, *entries) {
                        at = *end;
                    }
                }
                Step::NextSegment { begin, stop, to, entries, body } => {
                    *self.int(*begin) = *self.int(*stop);
                    if self.segment(*begin, *stop, *to, *entries) {
                        at = *body;
                    }
                }
                Step::Lanes { variable, from, to, single, entries, end } => {
                    let (k, until) = (*self.int(*from) as usize, *self.int(*to) as usize);
                    if k >= until {
                        at = *end;
                        continue;
                    }
                    let entries =
                        entries.map_or(std::ptr::null(), |slot| self.pointer(slot) as *const ClusterEntry);
                    let open = Open { k, end: until, vectors: 1, rest: 0, entries };
                    self.around.push(std::mem::replace(&mut self.open, open));
                    self.vectors(*variable, *single);
                }
                Step::NextVectors { variable, single, body } => {
                    let Open { vectors, rest, entries, .. } = self.open;
                    self.open.k += if entries.is_null() { (vectors - 1) * W::L::N + rest } else { vectors };
                    if self.open.k < self.open.end {
                        self.vectors(*variable, *single);
                        at = *body;
                    } else if let Some(around) = self.around.pop() {
                        self.open = around;
                    }
                }
                Step::Lines { begin, stop, from, to, shape, end } => {
                    let (lo, hi) = (*self.int(*from), *self.int(*to));
                    if lo >= hi {
                        at = *end;
                        continue;
                    }
                    self.wave_line = WaveLine::new(*self.shape(*shape), lo as usize);
                    *self.int(*begin) = lo;
                    *self.int(*stop) = hi.min(self.wave_line.end() as i64);
                }
                Step::NextLine { begin, stop, to, body } => {
                    let (lo, hi) = (*self.int(*stop), *self.int(*to));
                    if lo < hi {
                        self.wave_line.step();
                        *self.int(*begin) = lo;
                        *self.int(*stop) = hi.min(self.wave_line.end() as i64);
                        at = *body;
                    }
                }
                Step::End => return,
            }
        }
    }

    /// The end of the segment that begins, if it is one.
    #[inline(always)]
    fn segment(&mut self, begin: Integer, stop: Integer, to: Integer, entries: bool) -> bool {
        let (k, end) = (*self.int(begin) as usize, *self.int(to) as usize);
        let of_vector = if entries { 1 } else { W::L::N };
        *self.int(stop) = end.min(k.saturating_add(of_vector.saturating_mul(W::L::FLUSH))) as i64;
        *self.int(begin) < *self.int(to)
    }

    /// Opens the next vectors of a loop.
    #[inline(always)]
    fn vectors(&mut self, variable: Integer, single: bool) {
        *self.int(variable) = self.open.k as i64;
        let of_vector = self.open.iterations::<W>();
        let most = if single { of_vector } else { BLOCK * of_vector };
        let count = (self.open.end - self.open.k).min(most);
        self.open.vectors = count.div_ceil(of_vector);
        self.open.rest = if of_vector == 1 { W::L::N } else { count - (self.open.vectors - 1) * of_vector };
    }

    /// # Safety
    /// As for a `Run` of the program's part.
    #[inline(always)]
    unsafe fn instruction(&mut self, i: &Instruction) {
        // SAFETY: the caller's promise.
        unsafe {
            match i.family() {
                Family::Scalars => self.of_scalars(i),
                Family::Lanes => self.of_lanes(i),
                Family::Elements => self.of_elements(i),
                Family::Meshes => self.of_meshes(i),
                Family::Loads | Family::Stores => self.of_arrays(i),
                Family::LoadsOfPairs | Family::StoresOfPairs => {
                    assert!(!W::WIDE, "rows and nodes on lanes have no pairs and no channels");
                    if !W::WIDE {
                        self.of_pairs(i);
                    }
                }
                Family::Control => unreachable!("control flow is steps of the line"),
            }
        }
    }

    #[inline(always)]
    pub(super) fn scalar(&mut self, r: Scalar) -> &mut f64 {
        &mut self.scalars[r.0 as usize]
    }

    #[inline(always)]
    pub(super) fn int(&mut self, r: Integer) -> &mut i64 {
        &mut self.integers[r.0 as usize]
    }

    #[inline(always)]
    pub(super) fn condition(&mut self, r: Condition) -> &mut bool {
        &mut self.conditions[r.0 as usize]
    }

    #[inline(always)]
    pub(super) fn room(&mut self, r: Room) -> &mut Spilled<f64> {
        &mut self.rooms[r.0 as usize]
    }

    #[inline(always)]
    pub(super) fn shape(&mut self, r: Shape) -> &mut MeshShape {
        &mut self.shapes[r.0 as usize]
    }

    #[inline(always)]
    pub(super) fn table(&mut self, r: Table) -> &mut Splines<MAX_ORDERS> {
        &mut self.tables[r.0 as usize]
    }

    /// The first vector of a register, and the distance to the next one. Other registers' pointers stay valid.
    #[inline(always)]
    pub(super) fn vector(&mut self, r: Vector) -> (*mut W::L, usize) {
        match r {
            Vector::Each(n) => (of_block(&mut self.each, n, self.first), 1),
            Vector::One(n) => {
                assert!((n as usize) < self.one.len());
                (self.one.as_mut_ptr().wrapping_add(n as usize), 0)
            }
        }
    }

    #[inline(always)]
    pub(super) fn mask(&mut self, r: Mask) -> *mut <W::L as Lane>::Mask {
        of_block(&mut self.masks, r.0, self.first)
    }

    #[inline(always)]
    pub(super) fn index(&mut self, r: Indices) -> *mut <W::L as Lane>::Index {
        of_block(&mut self.indices, r.0, self.first)
    }

    /// The element that an address names.
    #[inline(always)]
    pub(super) fn place(&mut self, at: &Address) -> usize {
        at.row.map_or(0, |row| *self.int(row) as usize * at.stride) + at.component
    }

    /// The first of the elements that lanes name from an offset on.
    #[inline(always)]
    pub(super) fn first(&mut self, first: Option<Integer>) -> usize {
        first.map_or(0, |first| *self.int(first) as usize) + self.open.k
    }

    #[inline(always)]
    pub(super) fn pointer<T>(&self, slot: usize) -> *mut T {
        self.a.pointers[slot].cast()
    }
}

/// The vectors of a register, from one on.
#[inline(always)]
fn of_block<T>(registers: &mut Vec<T>, n: u32, first: usize) -> *mut T {
    let at = n as usize * BLOCK + first;
    assert!(at < registers.len());
    registers.as_mut_ptr().wrapping_add(at)
}
