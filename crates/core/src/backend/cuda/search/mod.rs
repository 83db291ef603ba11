//! Neighbour lists of points in the memory of a device, made there without the host: nothing is read back, and in a call
//! after the first one nothing but the context's allocator gives memory, so that a graph can capture it.
//!
//! The list is the one that the search of the CPU makes, bit for bit: a pair is decided by the same rounded numbers, and
//! rows have the same order.
#![expect(unsafe_code, reason = "kernels are launched with addresses of the call's arrays")]

use super::checks::{self, arguments};
use super::memory::{Rooms, address};
use super::primitives::{self as raw, Compiled, Integer, Key, Length, Status, Text};
use super::{Cuda, Device, Function};
use crate::array::{Array, DType, Place, View};
use crate::backend::Context;
use crate::backend::primitives::Scan;
use crate::backend::remote::Check;
use crate::device::{DeviceArg, DeviceBatch, DevicePairs};
use crate::pairs::Kind;
use crate::{Error, Result};
use std::ffi::c_void;

/// THREADS in search.cu.
const THREADS: usize = 128;
/// Threads of a row.
const WARP: usize = 32;
/// Bytes of a System and of a Point in search.cu.
const SYSTEM: usize = 256;
const POINT: usize = 64;
/// What the status word's parameters are, from 0 on: as search.cu numbers them from 1 on.
const NAMES: [&str; 5] = ["positions", "cell", "batch_idx", "cutoff", "capacity"];
const BATCH: usize = 2;

/// Which axes are periodic.
#[derive(Clone, Debug)]
pub enum Periodic<'a> {
    /// The same ones in every system.
    All([bool; 3]),
    /// Those of each system, int32 (B, 3) on the device: 0 for open axes.
    Each(View<'a>),
}

/// What kind of list, and how large it may be.
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

/// Neighbour lists of a number of atoms, one after the other in the same memory.
///
/// Images are up to 500 boxes away along the first axis and 1000 along the others; packed shifts have this range too, for
/// atoms that lie in boxes far apart.
#[derive(Debug)]
pub struct DeviceSearch {
    options: DeviceOptions,
    ptr: Array,
    others: Array,
    shifts: Array,
    /// What the last list was made of.
    positions: Option<Array>,
    cell: Option<Array>,
}

/// The struct Search of search.cu.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Call {
    cutoff: f64,
    points: i64,
    systems: i64,
    buckets: i64,
    capacity: i64,
    cell: u64,
    cell_is_wide: i64,
    pbc: u64,
    axes: i64,
    half: i64,
    packed: i64,
    word: u64,
}

#[derive(Clone, Copy, Debug)]
struct Functions {
    geometry: Function,
    place: Function,
    gather: Function,
    count: Function,
    fill: Function,
    finish: Function,
    moved: Function,
}

const SEARCH: Text = Text::new("search", include_str!("search.cu"));

fn program(positions: DType) -> Compiled {
    let real = if positions == DType::F32 { "float" } else { "double" };
    let functions = &["geometry", "place", "gather", "count", "fill", "finish", "moved"];
    SEARCH.of(&[("POSITION", real)]).with(functions)
}

pub(super) fn programs() -> Vec<Compiled> {
    [DType::F32, DType::F64].map(program).into()
}

fn functions(device: &'static Device, positions: DType) -> Result<Functions> {
    let program = program(positions);
    let function = |name| program.function(device, name);
    Ok(Functions {
        geometry: function("geometry")?,
        place: function("place")?,
        gather: function("gather")?,
        count: function("count")?,
        fill: function("fill")?,
        finish: function("finish")?,
        moved: function("moved")?,
    })
}

/// Reals of a shape where a stream has them.
fn reals(cuda: &Cuda, name: &str, view: &View<'_>, shape: &[usize]) -> Result<()> {
    let place = Place::Cuda(cuda.device().ordinal());
    if view.place() != place {
        return Err(Error::argument(
            name,
            format!("an array of {place}"),
            format!("one of {}", view.place()),
        ));
    }
    if view.shape() != shape || !matches!(view.dtype(), DType::F32 | DType::F64) {
        let got = format!("{} {:?}", view.dtype(), view.shape());
        return Err(Error::argument(name, format!("float32 or float64 {shape:?}"), got));
    }
    Ok(())
}

fn launch(cuda: &Cuda, function: Function, threads: usize, arguments: &[*const c_void]) -> Result<()> {
    if threads == 0 {
        return Ok(());
    }
    let Some(blocks) = i32::try_from(threads.div_ceil(THREADS)).ok() else {
        return Err(Error::argument("positions", "atoms that 2^31 blocks have threads for", "more"));
    };
    // SAFETY: every call here gives its function's parameters: a Call, addresses and numbers. The addresses are those of
    // arrays whose shapes were checked, or of rooms with as many bytes as the function uses; integers that came with the
    // call are compared with their ranges before they index.
    unsafe { cuda.stream().launch(function, [blocks as u32, 1, 1], [THREADS as u32, 1, 1], arguments) }
}

impl DeviceSearch {
    /// Room for lists of `atoms` atoms, from the context's allocator. What it holds before the first search is no list.
    ///
    /// # Errors
    /// `cutoff`, where it is not a positive number; `kind` for a directed list; `capacity`, where there are more entries
    /// than 32-bit integers count; memory ran out.
    pub fn new(context: &Context<'_>, atoms: usize, options: DeviceOptions) -> Result<Self> {
        let DeviceOptions { cutoff, kind, capacity, packed } = options;
        if !(cutoff > 0.0 && cutoff.is_finite()) {
            return Err(Error::argument("cutoff", "a positive number", cutoff.to_string()));
        }
        if kind == Kind::Directed {
            return Err(Error::argument("kind", "a full or a half list", "a directed one"));
        }
        // A row of more pairs than an i32 counts is counted as i32::MAX, which must not fit.
        if capacity >= i32::MAX as usize {
            return Err(Error::argument("capacity", format!("less than {}", i32::MAX), capacity.to_string()));
        }
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
    /// (B, 3, 3) has lattice vectors as rows; those along open axes play no part. Both are float32 or float64.
    ///
    /// What is found on the device waits in its record ([`super::check`]): positions or cells that are not finite, cells
    /// that are flat, positions too far away, a cutoff over too many boxes, and a list that has passed its capacity. Then
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
        self.check(cuda, positions, cell, pbc, batch)?;
        let n = batch.atoms();
        let found = functions(cuda.device(), positions.dtype())?;
        self.keep(cuda, context, positions, cell)?;
        let checks = [(BATCH, Check::Integers { arg: DeviceArg::Batch(batch), batches: None })];
        let word = checks::begin(cuda.stream(), context, &checks)?;
        let buckets = n.max(1).next_power_of_two().min(1 << 30);
        let call = self.call(batch, cell, Some(pbc), buckets, address(&word.view()));
        let mut rooms = Rooms::new(context);
        let systems = rooms.scratch(SYSTEM * batch.systems())?.address;
        let [points, sorted] = [rooms.scratch(POINT * n)?, rooms.scratch(POINT * n)?].map(|s| s.address);
        let [keys, order, counts] =
            [rooms.scratch(4 * n)?, rooms.scratch(4 * n)?, rooms.scratch(4 * n)?].map(|s| s.address);
        let bounds = rooms.scratch(4 * (buckets + 1))?.address;
        let (r, of) = (address(positions), address(batch.idx()));
        launch(cuda, found.geometry, batch.systems(), &arguments![&call, &systems])?;
        launch(cuda, found.place, n, &arguments![&call, &r, &of, &systems, &points, &keys, &order])?;
        let (queue, length) = (cuda.queue(), Length::new(n));
        let scratch = rooms.scratch(raw::sort_scratch(Key::U32, n))?;
        let bits = buckets.ilog2() as usize;
        raw::sort_by_key(&queue, Key::U32, keys, order, length, bits, scratch)?;
        let to = (Integer::I32, bounds);
        raw::segment_bounds(&queue, Key::U32, keys, length, to, buckets, Status::IGNORED)?;
        launch(cuda, found.gather, n, &arguments![&call, &points, &order, &sorted])?;
        launch(cuda, found.count, n * WARP, &arguments![&call, &systems, &sorted, &bounds, &counts])?;
        let scratch = rooms.scratch(raw::scan_scratch(n))?;
        let ptr = address(&self.ptr.view());
        let [from, to] = [(Integer::I32, counts), (Integer::I64, ptr)];
        raw::scan(&queue, Scan::Exclusive, from, to, length, Status::IGNORED, scratch)?;
        let [others, shifts] = [&self.others, &self.shifts].map(|array| address(&array.view()));
        let arguments = arguments![&call, &systems, &points, &sorted, &bounds, &ptr, &others, &shifts];
        launch(cuda, found.fill, n * WARP, &arguments)?;
        launch(cuda, found.finish, n, &arguments![&call, &ptr])?;
        let names = || NAMES.map(str::to_string).to_vec();
        checks::end(cuda.stream(), context, word, &mut [], "neighbor_list", &names)
    }

    /// The list of the last search, or one that calls refuse.
    ///
    /// # Errors
    /// None, once there is a search.
    pub fn list(&self) -> Result<DevicePairs<'_>> {
        let (ptr, n) = (self.ptr.view(), self.atoms());
        let (starts, ends) = (ptr.rows(0, n)?, ptr.rows(1, n)?);
        let list =
            DevicePairs::new(starts, ends, self.others.view(), self.shifts.view(), n, self.options.kind)?;
        // SAFETY: offsets are sums of counts from 0 on, or pass the capacity; entries are atoms of the row's system, each
        // pair once, from both sides in a full list; before the first search all offsets are 0.
        Ok(unsafe { list.assume_checked() })
    }

    /// Where the pairs of each atom begin, and one more, int64 (N + 1,): true whatever the capacity is, and all but the
    /// first capacity + 1 where there is no list.
    pub fn neighbor_ptr(&self) -> View<'_> {
        self.ptr.view()
    }

    /// The number of atoms N.
    pub fn atoms(&self) -> usize {
        self.ptr.shape()[0] - 1
    }

    /// What it was made with.
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
        self.check(cuda, positions, cell, &Periodic::All([false; 3]), batch)?;
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
        same("positions", Some(positions), self.positions.as_ref())?;
        same("cell", cell, self.cell.as_ref())?;
        let systems = batch.systems();
        let flags = context.allocator.zeros(DType::I32, &[systems])?;
        let found = functions(cuda.device(), positions.dtype())?;
        let call = self.call(batch, cell, None, 0, 0);
        let [before, cell_before] =
            [&self.positions, &self.cell].map(|array| array.as_ref().map_or(0, |a| address(&a.view())));
        let (r, of, to) = (address(positions), address(batch.idx()), address(&flags.view()));
        let most = skin / 2.0;
        let arguments = arguments![&call, &r, &before, &of, &cell_before, &most, &to];
        launch(cuda, found.moved, systems.max(batch.atoms()), &arguments)?;
        Ok(flags)
    }

    /// Gives the memory back.
    pub fn recycle(self, context: &Context<'_>) {
        let arrays = [Some(self.ptr), Some(self.others), Some(self.shifts), self.positions, self.cell];
        arrays.into_iter().flatten().for_each(|array| context.allocator.recycle(array));
    }

    fn check(
        &self,
        cuda: &Cuda,
        positions: &View<'_>,
        cell: Option<&View<'_>>,
        pbc: &Periodic<'_>,
        batch: &DeviceBatch<'_>,
    ) -> Result<()> {
        if batch.atoms() != self.atoms() {
            let expected = format!("a batch of {} atoms, as the search was made for", self.atoms());
            return Err(Error::argument("batch_idx", expected, batch.atoms().to_string()));
        }
        reals(cuda, "positions", positions, &[batch.atoms(), 3])?;
        let place = positions.place();
        let elsewhere = |name: &str, view: &View<'_>| {
            let error =
                || Error::argument(name, format!("an array of {place}"), format!("one of {}", view.place()));
            if view.place() == place { Ok(()) } else { Err(error()) }
        };
        elsewhere("batch_idx", batch.idx())?;
        for (name, array) in [("neighbor_ptr", &self.ptr), ("neighbor_list", &self.others)] {
            elsewhere(name, &array.view())?;
        }
        if let Some(cell) = cell {
            reals(cuda, "cell", cell, &[batch.systems(), 3, 3])?;
        }
        match pbc {
            Periodic::All(axes) if cell.is_none() && axes.contains(&true) => {
                Err(Error::argument("cell", "lattice vectors for the periodic axes", "no cell"))
            }
            Periodic::Each(_) if cell.is_none() => {
                Err(Error::argument("cell", "lattice vectors for what axes are periodic", "no cell"))
            }
            Periodic::Each(each) => {
                elsewhere("pbc", each)?;
                if each.dtype() != DType::I32 || each.shape() != [batch.systems(), 3] {
                    let got = format!("{} {:?}", each.dtype(), each.shape());
                    return Err(Error::argument("pbc", format!("int32 [{}, 3]", batch.systems()), got));
                }
                Ok(())
            }
            Periodic::All(_) => Ok(()),
        }
    }

    /// Copies what the list is made of, for [`DeviceSearch::needs_rebuild`].
    fn keep(
        &mut self,
        cuda: &Cuda,
        context: &Context<'_>,
        positions: &View<'_>,
        cell: Option<&View<'_>>,
    ) -> Result<()> {
        for (now, kept) in [(Some(positions), &mut self.positions), (cell, &mut self.cell)] {
            let same = |kept: &Array| {
                now.is_some_and(|now| (kept.dtype(), kept.shape()) == (now.dtype(), now.shape()))
            };
            if kept.as_ref().is_some_and(|kept| !same(kept))
                && let Some(other) = kept.take()
            {
                context.allocator.recycle(other);
            }
            let Some(now) = now else { continue };
            let to = match kept {
                Some(kept) => kept,
                None => kept.insert(context.allocator.room(now.dtype(), now.shape())?),
            };
            // SAFETY: both have as many elements of the same type, and are two arrays.
            unsafe {
                cuda.stream().copy(address(&to.view()), address(now), now.len() * now.dtype().size())?;
            }
        }
        Ok(())
    }

    fn call(
        &self,
        batch: &DeviceBatch<'_>,
        cell: Option<&View<'_>>,
        pbc: Option<&Periodic<'_>>,
        buckets: usize,
        word: u64,
    ) -> Call {
        let (pbc, axes) = match pbc {
            Some(Periodic::Each(each)) => (address(each), 0),
            Some(Periodic::All(axes)) => (0, (0..3).map(|k| i64::from(axes[k]) << k).sum()),
            None => (0, 0),
        };
        Call {
            cutoff: self.options.cutoff,
            points: batch.atoms() as i64,
            systems: batch.systems() as i64,
            buckets: buckets as i64,
            capacity: self.options.capacity as i64,
            cell: cell.map_or(0, address),
            cell_is_wide: i64::from(cell.is_some_and(|cell| cell.dtype() == DType::F64)),
            pbc,
            axes,
            half: i64::from(self.options.kind == Kind::Half),
            packed: i64::from(self.options.packed),
            word,
        }
    }
}
