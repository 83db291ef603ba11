//! Neighbour lists of points in the memory of a device, and grids that are searched around others, made there without
//! the host: no call reads back, and after the first call only the context's allocator gives memory, so that a graph
//! can capture it.
//!
//! Lists are the CPU's, bit for bit: pairs are decided by equal rounded numbers, and rows have an equal order.
#![expect(unsafe_code, reason = "lists are declared checked")]

mod around;
mod coo;
mod counted;
mod exclude;
mod grid;
mod narrow;
mod order;
mod passes;

pub use crate::atoms::Periodic;
pub(crate) use around::{Around, GridOfCall};
pub use coo::{DeviceCoo, neighbor_coo};
pub(crate) use exclude::{exclusions, without};
pub use grid::{DeviceGrid, GridWithCapacity, NearestArrays, QueryPairs};
pub(crate) use narrow::NarrowedList;
pub(crate) use order::order;
pub use passes::DeviceFrame;
pub use passes::programs;

use madelung_core::array::{Array, DType, Place, View};
use madelung_core::backend::Context;
use madelung_core::structure::pairs::Kind;
use madelung_core::structure::{DeviceBatch, DevicePairs};
use madelung_core::{Error, Result};
use madelung_cuda::Cuda;
use madelung_cuda::memory::address;
use passes::{Counted, Entries, ListParameters, integers};

/// The kind of a list, and limits of its size.
#[derive(Clone, Copy, Debug)]
pub struct DeviceOptions {
    /// Pairs are closer than this, in the unit of positions.
    pub cutoff: f64,
    /// Full or half.
    pub kind: Kind,
    /// Room for so many pairs.
    pub capacity: usize,
    /// Images in one integer each; otherwise in three, which have room for any.
    pub packed: bool,
}

/// Neighbour lists of a number of atoms, made one after the other in one memory.
///
/// Images are up to 500 boxes away along the first axis and 1000 along the others; packed shifts have this range too,
/// for atoms that lie in boxes far apart.
#[derive(Debug)]
pub struct DeviceSearch {
    options: DeviceOptions,
    ptr: Array,
    others: Array,
    shifts: Array,
    /// The input of the last list.
    positions: Option<Array>,
    cell: Option<Array>,
}

impl DeviceSearch {
    /// Memory for lists of `atoms` atoms, from the context's allocator, without a list before the first search.
    ///
    /// # Errors
    /// `cutoff`, where it is not a positive number; `kind` for a directed list; `capacity`, where there are more
    /// entries than 32-bit integers count; memory ran out.
    pub fn new(context: &Context<'_>, atoms: usize, options: DeviceOptions) -> Result<Self> {
        let DeviceOptions { cutoff, kind, capacity, packed } = options;
        passes::check_kind(cutoff, kind)?;
        passes::check_capacity("capacity", capacity)?;
        if i32::try_from(atoms).is_err() {
            return Err(Error::argument(
                "positions",
                format!("at most {} atoms", i32::MAX),
                atoms.to_string(),
            ));
        }
        let shape = [capacity, 3];
        let memory = context.allocator;
        Ok(Self {
            options,
            ptr: memory.zeros(DType::I64, &[atoms + 1])?,
            others: memory.room(DType::I32, &[capacity])?,
            shifts: memory.room(DType::I32, if packed { &shape[..1] } else { &shape })?,
            positions: None,
            cell: None,
        })
    }

    /// Makes the list of these positions (N, 3) with r_ij = r_j − r_i + S · cell, in place of the one before. `cell`
    /// (B, 3, 3), or (1, 3, 3) for all systems, has lattice vectors as rows; those along open axes play no part. Both
    /// are float32 or float64.
    ///
    /// Errors on the device wait in its record ([`super::check`]): positions or cells that are not finite, cells that
    /// are flat, positions too far away, a cutoff over too many boxes, and a list that has passed its capacity. Then
    /// calls with the list make NaN. The offsets of a list that has passed its capacity are the true ones all the same.
    ///
    /// # Errors
    /// The one whose dtype, shape or place is another; `cell`, where it is missing for periodic axes; the driver's.
    pub fn search(
        &mut self,
        cuda: &Cuda,
        context: &Context<'_>,
        positions: &View<'_>,
        cell: Option<&View<'_>>,
        pbc: &Periodic<'_>,
        batch: &DeviceBatch<'_>,
    ) -> Result<()> {
        let frame = DeviceFrame { positions, cell, pbc, batch };
        self.check(cuda, &frame)?;
        self.run(cuda, context, &frame, None)
    }

    /// Makes the list again only if a flag of some system is raised, int32 (B,) on the device as
    /// [`DeviceSearch::needs_rebuild`] gives them: then as [`DeviceSearch::search`] does, for all systems. Otherwise the
    /// list, and the positions that it was made of, stay as they are, and the kernels return at once. So one graph holds
    /// steps that make the list and steps that do not.
    ///
    /// Kind, periodic axes and systems of the atoms should be those of the last search: flags do not tell that they change.
    ///
    /// # Errors
    /// As for [`DeviceSearch::search`] and [`DeviceSearch::needs_rebuild`]; `flags`, where their dtype, shape or place is
    /// another.
    pub fn search_if(
        &mut self,
        cuda: &Cuda,
        context: &Context<'_>,
        frame: &DeviceFrame<'_>,
        flags: &View<'_>,
    ) -> Result<()> {
        self.check(cuda, frame)?;
        self.same_as_before(frame)?;
        integers("flags", flags, DType::I32, &[frame.batch.systems()], frame.positions.place())?;
        self.run(cuda, context, frame, Some(flags))
    }

    /// The frame was checked.
    fn run(
        &mut self,
        cuda: &Cuda,
        context: &Context<'_>,
        frame: &DeviceFrame<'_>,
        flags: Option<&View<'_>>,
    ) -> Result<()> {
        self.make_room(context, frame)?;
        let DeviceOptions { cutoff, kind, capacity, packed } = self.options;
        let [ptr, others, shifts] =
            [&self.ptr, &self.others, &self.shifts].map(|array| address(&array.view()));
        let mut counted =
            Counted::new(cuda, context, frame, ListParameters { cutoff, kind, ptr: Some(ptr), flags })?;
        counted.keep(frame, self.before())?;
        counted.fill(Entries { rows: 0, others, shifts, capacity, packed })?;
        counted.finish()?;
        counted.end()
    }

    /// The list of the last search, or one that calls refuse.
    ///
    /// # Errors
    /// None, once there is a search.
    pub fn list(&self) -> Result<DevicePairs<'_>> {
        let [ptr, others, shifts] = [&self.ptr, &self.others, &self.shifts].map(Array::view);
        let list = DevicePairs::from_csr(ptr, others, shifts, self.atoms(), self.options.kind)?;
        // SAFETY: offsets are sums of counts from 0 on, or pass the capacity; entries are atoms of the row's system, each
        // pair once, from both sides in a full list; before the first search all offsets are 0.
        Ok(unsafe { list.assume_checked() })
    }

    /// The offsets of each atom's pairs, int64 (N + 1,): true for any capacity, and all but the first capacity + 1
    /// where there is no list.
    pub fn neighbor_ptr(&self) -> View<'_> {
        self.ptr.view()
    }

    /// The number of atoms N.
    pub fn atoms(&self) -> usize {
        self.ptr.shape()[0] - 1
    }

    /// The options of the search.
    pub fn options(&self) -> DeviceOptions {
        self.options
    }

    /// For each system whether its list has to be made again, int32 (B,) on the device: an atom has moved by more than
    /// half of `skin` since the last search, or the cell is another one. A list that was made for cutoff + skin holds all
    /// pairs within the cutoff as long as it has not.
    ///
    /// # Errors
    /// `skin`, where it is negative or not finite; `positions` and `cell`, where their dtype, shape or place is not that
    /// of the last search, or there was none; the driver's.
    pub fn needs_rebuild(
        &self,
        cuda: &Cuda,
        context: &Context<'_>,
        positions: &View<'_>,
        cell: Option<&View<'_>>,
        batch: &DeviceBatch<'_>,
        skin: f64,
    ) -> Result<Array> {
        if !(skin >= 0.0 && skin.is_finite()) {
            return Err(Error::argument("skin", "a finite number ≥ 0", skin.to_string()));
        }
        let frame = DeviceFrame { positions, cell, pbc: &Periodic::All([false; 3]), batch };
        self.check(cuda, &frame)?;
        self.same_as_before(&frame)?;
        let [before, cell_before] =
            [&self.positions, &self.cell].map(|array| array.as_ref().map(Array::view));
        moved(cuda, context, &frame, [before.as_ref(), cell_before.as_ref()], [None, None], skin)
    }

    /// Gives the memory back.
    pub fn recycle(self, context: &Context<'_>) {
        let arrays = [Some(self.ptr), Some(self.others), Some(self.shifts), self.positions, self.cell];
        arrays.into_iter().flatten().for_each(|array| context.allocator.recycle(array));
    }

    fn check(&self, cuda: &Cuda, frame: &DeviceFrame<'_>) -> Result<()> {
        let (atoms, capacity, place) =
            (self.atoms(), self.options.capacity, Place::Cuda(cuda.device().ordinal()));
        if frame.batch.atoms() != atoms {
            let expected = format!("a batch of {atoms} atoms, as the search was made for");
            return Err(Error::argument("batch_idx", expected, frame.batch.atoms().to_string()));
        }
        frame.check(place)?;
        integers("neighbor_ptr", &self.ptr.view(), DType::I64, &[atoms + 1], place)?;
        integers("neighbor_list", &self.others.view(), DType::I32, &[capacity], place)
    }

    /// Whether types and shapes are those of the last search.
    fn same_as_before(&self, frame: &DeviceFrame<'_>) -> Result<()> {
        let same = |name: &str, now: Option<&View<'_>>, before: Option<&Array>| {
            let show = |found: Option<(DType, &[usize])>| {
                found.map_or("none".to_string(), |(dtype, shape)| format!("{dtype} {shape:?}"))
            };
            let now = show(now.map(|v| (v.dtype(), v.shape())));
            let before = show(before.map(|a| (a.dtype(), a.shape())));
            if now == before {
                Ok(())
            } else {
                Err(Error::argument(name, format!("{before}, as in the last search"), now))
            }
        };
        same("positions", Some(frame.positions), self.positions.as_ref())?;
        same("cell", frame.cell, self.cell.as_ref())
    }

    /// The addresses of the last list's input: positions, and the cell or 0.
    fn before(&self) -> [u64; 2] {
        [&self.positions, &self.cell].map(|array| array.as_ref().map_or(0, |a| address(&a.view())))
    }

    /// Allocates the copy of the list's input for [`DeviceSearch::needs_rebuild`].
    fn make_room(&mut self, context: &Context<'_>, frame: &DeviceFrame<'_>) -> Result<()> {
        for (now, kept) in [(Some(frame.positions), &mut self.positions), (frame.cell, &mut self.cell)] {
            let same = |kept: &Array| {
                now.is_some_and(|now| (kept.dtype(), kept.shape()) == (now.dtype(), now.shape()))
            };
            if kept.as_ref().is_some_and(|kept| !same(kept))
                && let Some(other) = kept.take()
            {
                context.allocator.recycle(other);
            }
            if let (Some(now), None) = (now, &kept) {
                *kept = Some(context.allocator.room(now.dtype(), now.shape())?);
            }
        }
        Ok(())
    }
}

/// For each system whether a point has moved by more than half of `skin` from `before`, or the cell or the periodic axes, of
/// which both sets are given or none, are others than before, int32 (B,) on the device.
pub(crate) fn moved(
    cuda: &Cuda,
    context: &Context<'_>,
    frame: &DeviceFrame<'_>,
    before: [Option<&View<'_>>; 2],
    axes: [Option<&View<'_>>; 2],
    skin: f64,
) -> Result<Array> {
    let place = Place::Cuda(cuda.device().ordinal());
    frame.check(place)?;
    for (name, view) in ["pbc", "reference_pbc"].into_iter().zip(axes) {
        view.map_or(Ok(()), |view| integers(name, view, DType::I32, view.shape(), place))?;
    }
    for (name, view) in ["reference_positions", "reference_cell"].into_iter().zip(before) {
        view.map_or(Ok(()), |view| passes::same_place(name, view, place))?;
    }
    let flags = context.allocator.zeros(DType::I32, &[frame.batch.systems()])?;
    let before = before.map(|view| view.map_or(0, address));
    let axes = axes.map(|view| view.filter(|view| !view.is_empty()));
    let axes = axes.map(|view| view.map_or((0, 0), |view| (address(view), view.shape()[0] as i64)));
    passes::moved(cuda, frame, before, axes, skin / 2.0, address(&flags.view()))?;
    Ok(flags)
}
