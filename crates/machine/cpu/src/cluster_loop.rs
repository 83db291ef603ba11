//! The first phase of cluster forms: atoms are packed, pieces of the list run over copies of the clusters that they
//! touch, and their sums are added in the order of the pieces.
//!
//! Pieces belong to one system and are cut by its pairs alone, so the bits depend neither on threads nor on the rest of
//! the batch.
#![expect(unsafe_code, reason = "generated code is called here, and its arrays are made for it")]

use crate::cluster_list::{BLOCK, Block, ClusterList};
use crate::launch::Shared;
use madelung_core::array::{Buffer, DType, Data, Plain};
use madelung_core::backend::PairLoops;
use madelung_core::backend::pool::{Pool, map_tasks, split_tasks};
use madelung_core::backend::{Bound, Launch};
use madelung_core::runtime::lanes::traced::Lanes;
use madelung_core::runtime::lanes::{Elem, Isa};
use madelung_core::runtime::{ClusterArray, ClusterForm, Entry, Packed, ParamKind, Role, SlotArray};
use madelung_core::stop::if_asked;
use madelung_core::structure::pairs::Kind;
use madelung_core::structure::pairs::order::{SpatialOrder, wrapped};
use madelung_core::structure::{Batch, Clusters};

/// A first phase that has run.
pub(crate) struct Sums {
    /// For each row its sums.
    pub(crate) sums: Buffer<f64>,
    /// The systems that have them.
    pub(crate) systems: Vec<bool>,
}

/// Sixty-four bytes, as long as the longest register and a line of the cache.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u64; 8]);

// SAFETY: numbers, as many as the alignment has room for.
unsafe impl Plain for Line {}

/// Number of lines that hold `n` elements of `size` bytes.
fn lines(n: usize, size: usize) -> usize {
    (n * size).div_ceil(size_of::<Line>())
}

/// Zeros for `n` elements of `size` bytes.
fn zeros(n: usize, size: usize) -> Buffer<Line> {
    Buffer::zeros(lines(n, size))
}

/// The cluster form of a launch that gives all that is wanted of it.
fn form<'l>(launch: &Launch<'l>) -> Option<&'l ClusterForm> {
    let is_wanted = |(p, r): &(usize, Role)| matches!(launch.array(*p, *r), Some(Bound::Output { .. }));
    let form = launch.part.clusters.as_ref().filter(|_| launch.part.scattered.is_empty())?;
    (!form.without.iter().any(is_wanted)).then_some(form)
}

/// The systems of a list in clusters whose pairs a launch takes so; none where its part takes rows.
pub(crate) fn systems(loops: PairLoops, launch: &Launch<'_>) -> Option<Vec<bool>> {
    let form = form(launch)?;
    let list = launch.structure(form.list)?.as_clusters()?;
    let systems: Vec<bool> = match loops {
        PairLoops::Rows => return None,
        PairLoops::Auto => list.in_clusters().collect(),
        PairLoops::Clusters => list.in_clusters().map(|_| true).collect(),
    };
    let alone = launch.part.batch.is_some() || systems.len() == 1;
    (alone && systems.contains(&true)).then_some(systems)
}

/// Runs the first phase for the pairs of `systems` (see [`systems`]), or, if clusters are asked for, of any full list.
pub(crate) fn sums(
    loops: PairLoops,
    systems: Option<Vec<bool>>,
    pool: &dyn Pool,
    launch: &Launch<'_>,
    shared: &Shared,
    isa: Isa,
) -> Option<Sums> {
    let form = form(launch)?;
    let structure = launch.structure(form.list)?;
    let made;
    let (list, systems) = match (structure.as_clusters(), systems) {
        (Some(list), Some(systems)) => (list, systems),
        (None, _) if loops == PairLoops::Clusters => {
            let rows = structure.as_pairs().filter(|list| list.kind() == Kind::Full && !list.is_empty())?;
            made = Clusters::from_list(rows, &order(launch, form)?, true, pool).ok()?;
            let systems = vec![true; made.ptr().len() - 1];
            (&made, Some(systems).filter(|s| launch.part.batch.is_some() || s.len() == 1)?)
        }
        _ => return None,
    };
    let single = launch.dtype == DType::F32;
    let (entry, width) = (form.pairs.entry(single, isa), Lanes::of(isa, single, false).n);
    let work = Work { launch, form, shared, entry, isa, list: &ClusterList::new(list, width), pool };
    let sums = match launch.dtype {
        DType::F32 => work.run::<f32>(&systems),
        _ => work.run::<f64>(&systems),
    };
    Some(Sums { sums, systems })
}

/// An order for a list that has none.
fn order(launch: &Launch<'_>, form: &ClusterForm) -> Option<SpatialOrder> {
    let Some(Bound::Input(positions)) = launch.array(form.positions, Role::VALUE) else { return None };
    let one;
    let batch = match launch.part.batch.and_then(|p| launch.batch(p)) {
        Some(batch) => batch,
        None => {
            one = Batch::single(launch.rows()).ok()?;
            &one
        }
    };
    SpatialOrder::new(positions, &cells(launch, form, Role::VALUE, batch.systems()), batch).ok()
}

/// The cell of each system, or its tangent; none where images play no part.
fn cells(launch: &Launch<'_>, form: &ClusterForm, role: Role, systems: usize) -> Vec<[[f64; 3]; 3]> {
    let Some(Bound::Input(view)) = form.cell.and_then(|cell| launch.array(cell, role)) else {
        return vec![];
    };
    let element = |n: usize| view.at(n).unwrap_or(f64::NAN);
    let cell = |b: usize| std::array::from_fn(|r| std::array::from_fn(|k| element(9 * b + 3 * r + k)));
    let cells: Vec<_> = (0..view.len() / 9).map(cell).collect();
    if cells.len() == 1 { vec![cells[0]; systems] } else { cells }
}

struct Work<'a> {
    launch: &'a Launch<'a>,
    form: &'a ClusterForm,
    shared: &'a Shared,
    entry: Entry,
    isa: Isa,
    list: &'a ClusterList<'a>,
    pool: &'a dyn Pool,
}

impl Work<'_> {
    fn run<E: Elem>(&self, systems: &[bool]) -> Buffer<f64> {
        let packed = self.pack::<E>();
        let given = self.list.given;
        let sums = map_tasks(self.pool, given.pieces(), |p| {
            if systems[given.piece(p).system] { self.piece::<E>(p, &packed) } else { Buffer::new() }
        });
        self.collect(&sums)
    }

    /// The components of all clusters.
    fn pack<E: Elem>(&self) -> Buffer<Line> {
        let (list, form, width) = (self.list, self.form, self.list.width);
        let columns = form.packed.len();
        // Positions are wrapped by the cell, and their tangents by the cell's.
        let systems = list.given.ptr().len() - 1;
        let cells_of = |role| cells(self.launch, form, role, systems);
        let of_positions = |c: &Packed| (c.param == form.positions).then(|| cells_of(c.role));
        let cells: Vec<_> = form.packed.iter().map(|c| of_positions(c).unwrap_or_default()).collect();
        let clusters = list.systems.len();
        let block = columns * width;
        let (mut packed, _) = Buffer::<Line>::room(lines(clusters * block, size_of::<E>()));
        // SAFETY: lines are plain numbers, and there are enough of them.
        let flat =
            unsafe { std::slice::from_raw_parts_mut(packed.as_mut_ptr().cast::<E>(), clusters * block) };
        let tasks = (clusters / 256).clamp(1, self.pool.threads() * 4);
        let ends: Vec<usize> = (1..=tasks).map(|t| clusters * t / tasks * block).collect();
        split_tasks(self.pool, flat, &ends, |t, part| {
            let first = clusters * t / tasks;
            for (n, column) in form.packed.iter().enumerate() {
                if let Some(elements) = self.launch.integers(column.param, SlotArray::MapOf) {
                    for (c, out) in part.chunks_exact_mut(block).enumerate() {
                        let atoms = &list.given.slots()[(first + c) * width..(first + c + 1) * width];
                        let out = out[n * width..].as_mut_ptr().cast::<i32>();
                        for (lane, atom) in atoms.iter().enumerate() {
                            let element = elements.at(*atom as usize).unwrap_or(0.0) as i32;
                            // SAFETY: the component has `width` elements, none smaller than an i32.
                            unsafe { out.add(lane).write(element) };
                        }
                    }
                    continue;
                }
                let (data, stride) = self.component(column.param, column.role);
                for (c, out) in part.chunks_exact_mut(block).enumerate() {
                    let cluster = first + c;
                    let cell = cells[n].get(list.systems[cluster] as usize);
                    let atoms = &list.given.slots()[cluster * width..(cluster + 1) * width];
                    for (out, atom) in out[n * width..].iter_mut().zip(atoms) {
                        let i = *atom as usize;
                        let x = data.at(stride * i + column.component).unwrap_or(f64::NAN);
                        *out = E::of_f64(match (cell, cell.map(|_| list.given.wrap(i))) {
                            (Some(cell), Some(wrap)) if wrap != [0; 3] => {
                                let mut r = [0.0; 3];
                                r[column.component] = x;
                                wrapped(r, wrap, cell)[column.component]
                            }
                            _ => x,
                        });
                    }
                }
            }
        });
        packed
    }

    fn component(&self, param: usize, role: Role) -> (Data<'_>, usize) {
        let stride = match self.launch.kernel.params[param].kind {
            ParamKind::Real { components, .. }
            | ParamKind::Output { components, .. }
            | ParamKind::Ints { components, .. } => components,
            _ => 1,
        };
        match self.launch.array(param, role) {
            Some(Bound::Input(view)) => (view.data(), stride),
            _ => (Data::F64(&[]), stride),
        }
    }

    /// The sums that piece `p` leaves, for the clusters that it touches.
    fn piece<E: Elem>(&self, p: usize, packed: &[Line]) -> Buffer<Line> {
        let (piece, members, width) = (self.list.given.piece(p), &self.list.members[p], self.list.width);
        let (block, sums) = (self.form.packed.len() * width, self.form.sums * width);
        let here = members.len();
        let (mut mine, _) = Buffer::<Line>::room(lines(here * block, size_of::<E>()));
        for (n, cluster) in members.iter().enumerate() {
            // SAFETY: both hold `block` elements for each of their clusters.
            unsafe {
                let from = packed.as_ptr().cast::<E>().add(*cluster as usize * block);
                std::ptr::copy_nonoverlapping(from, mine.as_mut_ptr().cast::<E>().add(n * block), block);
            }
        }
        let mut result = zeros(here * sums, size_of::<f64>());
        let mut columns = if size_of::<E>() == size_of::<f64>() {
            Buffer::new()
        } else {
            zeros(here * sums, size_of::<E>())
        };
        let sums_here = result.as_mut_ptr().cast::<f64>();
        let columns_here = columns.as_mut_ptr().cast::<E>();
        let (mut abi, slots) = (self.shared.0, self.launch.part.slots.len());
        abi.pointers[ClusterArray::Packed.behind(slots)] = mine.as_mut_ptr().cast();
        abi.pointers[ClusterArray::Columns.behind(slots)] =
            if columns.is_empty() { sums_here.cast() } else { columns_here.cast() };
        abi.pointers[ClusterArray::Sums.behind(slots)] = sums_here.cast();
        let (mut part, mut touched, mut seen) = (Block::default(), vec![], vec![u32::MAX; here]);
        for (n, first) in (0..piece.runs.len()).step_by(BLOCK).enumerate() {
            if_asked();
            let runs = first..piece.runs.len().min(first + BLOCK);
            self.list.expand(&piece, runs.clone(), &mut part);
            abi.pointers[ClusterArray::Runs.behind(slots)] = part.runs.as_mut_ptr().cast();
            abi.pointers[ClusterArray::Entries.behind(slots)] = part.entries.as_mut_ptr().cast();
            // SAFETY: the launch was checked; runs and entries name clusters of this piece, for which there is room,
            // and rows of the launch. A first phase has no sums over all rows.
            unsafe { self.entry.run(&abi, 0, runs.len(), std::ptr::null_mut()) };
            if columns.is_empty() {
                continue;
            }
            touched.clear();
            for entry in &part.entries[..part.count] {
                if std::mem::replace(&mut seen[entry.cluster as usize], n as u32) != n as u32 {
                    touched.push(entry.cluster as usize);
                }
            }
            // SAFETY: there is room for `sums` elements of each cluster in both, and the call above is over.
            let (columns, result) = unsafe {
                let columns = std::slice::from_raw_parts_mut(columns_here, here * sums);
                (columns, std::slice::from_raw_parts_mut(sums_here, here * sums))
            };
            for cluster in &touched {
                let of_cluster = cluster * sums..(cluster + 1) * sums;
                flush(self.isa, &mut columns[of_cluster.clone()], &mut result[of_cluster]);
            }
        }
        drop(columns);
        result
    }

    /// The sums of each row over the pieces, in their order.
    fn collect(&self, pieces: &[Buffer<Line>]) -> Buffer<f64> {
        let (list, sums, width) = (self.list, self.form.sums, self.list.width);
        let mut rows = Buffer::zeros(self.launch.rows() * sums);
        let (out, slots) = (Rows(rows.as_mut_ptr()), list.given.slots());
        let clusters = list.systems.len();
        let tasks = (clusters / 256).clamp(1, self.pool.threads() * 4);
        self.pool.run(tasks, &|t| {
            let out = &out;
            let mut total = vec![0.0; sums * width];
            for cluster in clusters * t / tasks..clusters * (t + 1) / tasks {
                total.fill(0.0);
                let shares = list.share_ptr[cluster] as usize..list.share_ptr[cluster + 1] as usize;
                for (piece, here) in &list.shares[shares] {
                    let lines = &pieces[*piece as usize];
                    if lines.is_empty() {
                        continue;
                    }
                    // SAFETY: the piece has `sums · width` elements for each of its clusters.
                    let share = unsafe {
                        let from = lines.as_ptr().cast::<f64>().add(*here as usize * sums * width);
                        std::slice::from_raw_parts(from, sums * width)
                    };
                    for (total, share) in total.iter_mut().zip(share) {
                        *total += share;
                    }
                }
                let first = cluster * width;
                for (lane, atom) in slots[first..first + width].iter().enumerate() {
                    // Behind the last atom of a system it is repeated, for no pair.
                    if first + lane > 0 && slots[first + lane - 1] == *atom {
                        break;
                    }
                    for k in 0..sums {
                        // SAFETY: an atom is in one cluster, and so in one task.
                        unsafe { *out.0.add(*atom as usize * sums + k) = total[k * width + lane] };
                    }
                }
            }
        });
        rows
    }
}

/// Moves sums to f64.
fn flush<E: Elem>(isa: Isa, from: &mut [E], to: &mut [f64]) {
    #[inline(always)]
    fn portable<E: Elem>(from: &mut [E], to: &mut [f64]) {
        for (to, from) in to.iter_mut().zip(&*from) {
            *to += from.to_f64();
        }
        from.fill(E::default());
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512vl")]
    fn wide<E: Elem>(from: &mut [E], to: &mut [f64]) {
        portable(from, to);
    }
    #[cfg(target_arch = "x86_64")]
    if isa == Isa::Avx512 {
        // SAFETY: a backend has this value only where the processor has these instructions.
        return unsafe { wide(from, to) };
    }
    portable(from, to);
}

/// Rows of which each task writes its own.
struct Rows(*mut f64);
// SAFETY: see above.
unsafe impl Sync for Rows {}
