//! The two passes of a search, counting the pairs of each row and writing them, and their common device memory.
#![expect(unsafe_code, reason = "kernels are launched with addresses of the call's arrays")]

use super::Periodic;
use madelung_core::array::{Array, DType, Place, View};
use madelung_core::backend::Context;
use madelung_core::backend::Scan;
use madelung_core::backend::status::Word;
use madelung_core::structure::DeviceBatch;
use madelung_core::structure::pairs::Kind;
use madelung_core::{Error, Result};
use madelung_cuda::memory::{Rooms, address};
use madelung_cuda::primitives::{self as raw, Compiled, Integer, Length, Status, Text};
use madelung_cuda::validation::{self, arguments};
use madelung_cuda::{Cuda, Stream};
use std::ffi::c_void;

/// THREADS in search.cuh.
const THREADS: usize = 128;
/// Threads of a row.
pub(super) const WARP: usize = 32;
/// Bytes that the count keeps per row.
pub(super) const KEPT: usize = 8 * WARP;
/// Bytes of a System, a Point and a Record in search.cuh.
pub(super) const SYSTEM: usize = 304;
const POINT: usize = 64;
const RECORD: usize = 16;
/// The names of the status word's parameters, from 0 on: as search.cuh numbers them from 1 on.
const NAMES: [&str; 5] = ["positions", "cell", "batch_idx", "cutoff", "capacity"];
pub(super) const BATCH: usize = 2;
/// The numbers of positions and cell there.
pub(super) const PARAMS: [u32; 2] = [1, 2];
/// The call that errors name.
const CALL: &str = "neighbor_list";

/// The struct Search of search.cuh.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Call {
    cutoff: f64,
    cell_size: f64,
    pub(super) points: i64,
    systems: i64,
    buckets: i64,
    pub(super) capacity: i64,
    cell: u64,
    cell_is_wide: i64,
    cells: i64,
    pbc: u64,
    axes: i64,
    each: i64,
    half: i64,
    packed: i64,
    wanted: u64,
    word: u64,
    wide: u64,
    /// Numbers of arguments in the word, from 1 on: positions and cell.
    params: [u32; 2],
}

const CELLS: &str = include_str!("cells.cuh");
const ROWS: &str = include_str!("rows.cuh");
const LISTS: Text =
    Text::new("search", &[include_str!("search.cuh"), "\n", CELLS, ROWS, include_str!("search.cu")]);
const GRIDS: Text =
    Text::new("grid", &[include_str!("search.cuh"), "\n", CELLS, ROWS, include_str!("grid.cu")]);
const ORDERS: Text = Text::new("order", &[include_str!("search.cuh"), "\n", CELLS, include_str!("order.cu")]);
const EXCLUDED: Text =
    Text::new("exclude", &[include_str!("search.cuh"), "\n", CELLS, include_str!("exclude.cu")]);
const NARROWED: Text = Text::new("narrow", &[include_str!("search.cuh"), "\n", include_str!("narrow.cu")]);

/// The target of a search.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
    Lists,
    Grids,
    Orders,
    Narrowed,
    Excluded,
}

fn program(of: Of, positions: DType) -> Compiled {
    let types = [("POSITION", if positions == DType::F32 { "float" } else { "double" })];
    let program = match of {
        Of::Lists => LISTS.of(&types).with(&[
            "geometry",
            "place",
            "gather",
            "decide",
            "keep",
            "count",
            "fill",
            "finish",
            "coordinates",
            "moved",
        ]),
        Of::Grids => GRIDS.of(&types).with(&[
            "geometry",
            "extent",
            "share_out",
            "place",
            "gather",
            "seal",
            "same",
            "count",
            "fill",
            "finish",
            "settle",
            "strides",
            "nearest",
            "spoil",
        ]),
        Of::Orders => ORDERS.of(&types).with(&["geometry", "place", "gather", "surround", "curve", "number"]),
        Of::Excluded => EXCLUDED.of(&types).with(&[
            "geometry", "place", "gather", "images", "by_atoms", "enlist", "refuse", "count", "fill",
            "settle",
        ]),
        Of::Narrowed => NARROWED.of(&types).with(&["count", "fill", "settle"]),
    };
    // Without contraction, so that both passes compute equal numbers.
    Compiled { contracts: false, ..program }
}

/// All texts of the searches with all types, for programs that compile them ahead.
pub fn programs() -> Vec<Compiled> {
    let of = |of: Of| [DType::F32, DType::F64].map(|positions| program(of, positions));
    [Of::Lists, Of::Grids, Of::Orders, Of::Narrowed, Of::Excluded].map(of).concat()
}

/// Points, and which of them belong together.
#[derive(Clone, Copy, Debug)]
pub struct DeviceFrame<'a> {
    /// (N, 3), float32 or float64.
    pub positions: &'a View<'a>,
    /// Lattice vectors as rows, (B, 3, 3), or (1, 3, 3) for those of all systems; float32 or float64. Those along open axes
    /// play no part.
    pub cell: Option<&'a View<'a>>,
    /// The periodic axes.
    pub pbc: &'a Periodic<'a>,
    /// The system of each atom.
    pub batch: &'a DeviceBatch<'a>,
}

pub(super) fn same_place(name: &str, view: &View<'_>, place: Place) -> Result<()> {
    if view.place() == place {
        return Ok(());
    }
    Err(Error::argument(name, format!("an array of {place}"), format!("one of {}", view.place())))
}

/// Reals of one of some shapes where a stream has them.
pub(super) fn reals(name: &str, view: &View<'_>, shapes: &[&[usize]], place: Place) -> Result<()> {
    same_place(name, view, place)?;
    if !shapes.contains(&view.shape()) || !matches!(view.dtype(), DType::F32 | DType::F64) {
        let got = format!("{} {:?}", view.dtype(), view.shape());
        return Err(Error::argument(name, format!("float32 or float64 {:?}", shapes[0]), got));
    }
    Ok(())
}

/// Integers of a type and shape where a stream has them.
pub(super) fn integers(
    name: &str,
    view: &View<'_>,
    dtype: DType,
    shape: &[usize],
    place: Place,
) -> Result<()> {
    same_place(name, view, place)?;
    if view.dtype() != dtype || view.shape() != shape {
        let got = format!("{} {:?}", view.dtype(), view.shape());
        return Err(Error::argument(name, format!("{dtype} {shape:?}"), got));
    }
    Ok(())
}

impl Call {
    /// The number of buckets.
    pub(super) fn buckets(&self) -> usize {
        self.buckets as usize
    }

    /// The call with other numbers of positions and cell.
    pub(super) fn naming(self, params: [u32; 2]) -> Self {
        Self { params, ..self }
    }

    /// The parameters of a grid that is built, and of its searches.
    pub(super) fn of_grid(points: usize, systems: usize, cell_size: f64, capacity: usize, word: u64) -> Self {
        Self {
            cutoff: 0.0,
            cell_size,
            points: points as i64,
            systems: systems as i64,
            buckets: buckets(points) as i64,
            capacity: capacity as i64,
            cell: 0,
            cell_is_wide: 0,
            cells: 0,
            pbc: 0,
            axes: 0,
            each: 0,
            half: 0,
            packed: 0,
            wanted: 0,
            word,
            wide: 0,
            params: PARAMS,
        }
    }
}

/// Whether there is such a list.
pub(super) fn check_kind(cutoff: f64, kind: Kind) -> Result<()> {
    if !(cutoff > 0.0 && cutoff.is_finite()) {
        return Err(Error::argument("cutoff", "a positive number", cutoff.to_string()));
    }
    if kind == Kind::Directed {
        return Err(Error::argument("kind", "a full or a half list", "a directed one"));
    }
    Ok(())
}

/// A row of more pairs than an i32 counts is counted as `i32::MAX`, which must not fit.
pub(super) fn check_capacity(name: &str, capacity: usize) -> Result<()> {
    if capacity >= i32::MAX as usize {
        return Err(Error::argument(name, format!("less than {}", i32::MAX), capacity.to_string()));
    }
    Ok(())
}

impl DeviceFrame<'_> {
    pub(super) fn check(&self, place: Place) -> Result<()> {
        let (atoms, systems) = (self.batch.atoms(), self.batch.systems());
        reals("positions", self.positions, &[&[atoms, 3]], place)?;
        same_place("batch_idx", &self.batch.idx(), place)?;
        if let Some(cell) = self.cell {
            reals("cell", cell, &[&[systems, 3, 3], &[1, 3, 3]], place)?;
        }
        match self.pbc {
            Periodic::All(axes) if self.cell.is_none() && axes.contains(&true) => {
                Err(Error::argument("cell", "lattice vectors for the periodic axes", "no cell"))
            }
            Periodic::Each(_) if self.cell.is_none() => {
                Err(Error::argument("cell", "lattice vectors for what axes are periodic", "no cell"))
            }
            Periodic::Each(each) => {
                same_place("pbc", each, place)?;
                if each.dtype() != DType::I32 || ![[systems, 3], [1, 3]].iter().any(|s| each.shape() == s) {
                    let got = format!("{} {:?}", each.dtype(), each.shape());
                    return Err(Error::argument("pbc", format!("int32 [{systems}, 3]"), got));
                }
                Ok(())
            }
            Periodic::All(_) | Periodic::OfCells => Ok(()),
        }
    }

    pub(super) fn call(&self, cutoff: f64, cell_size: f64, kind: Kind, word: u64) -> Call {
        let (pbc, axes, each) = match self.pbc {
            Periodic::Each(each) => (address(each), 0, each.shape()[0]),
            Periodic::OfCells => (0, 15, 0),
            Periodic::All(axes) => (0, (0..3).map(|k| i64::from(axes[k]) << k).sum(), 0),
        };
        Call {
            cutoff,
            cell_size,
            points: self.batch.atoms() as i64,
            systems: self.batch.systems() as i64,
            buckets: buckets(self.batch.atoms()) as i64,
            capacity: 0,
            cell: self.cell.map_or(0, address),
            cell_is_wide: i64::from(self.cell.is_some_and(|cell| cell.dtype() == DType::F64)),
            cells: self.cell.map_or(0, |cell| cell.shape()[0] as i64),
            pbc,
            axes,
            each: each as i64,
            half: i64::from(kind == Kind::Half),
            packed: 0,
            wanted: 0,
            word,
            wide: 0,
            params: PARAMS,
        }
    }
}

/// Functions of one program, on a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launches {
    pub(super) stream: Stream,
    pub(super) of: Of,
    pub(super) positions: DType,
}

/// The primitives in the order of a stream.
pub(super) fn queue(cuda: &Cuda) -> raw::Queue {
    // SAFETY: addresses and lengths are those of arrays that were checked, or of scratch that was opened for the call.
    unsafe { raw::Queue::new(cuda.stream()) }
}

impl Launches {
    pub(super) fn run(
        &self,
        function: &'static str,
        threads: usize,
        arguments: &[*const c_void],
    ) -> Result<()> {
        if threads == 0 {
            return Ok(());
        }
        let Some(blocks) = i32::try_from(threads.div_ceil(THREADS)).ok() else {
            return Err(Error::argument("positions", "atoms that 2^31 blocks have threads for", "more"));
        };
        let function = program(self.of, self.positions).function(self.stream.device(), function)?;
        // SAFETY: every call gives its function's parameters: a Call, addresses and numbers. The addresses are those
        // of arrays whose shapes were checked, or of rooms with as many bytes as the function uses; integers that came with
        // the call are compared with their ranges before they index.
        unsafe { self.stream.launch(function, [blocks as u32, 1, 1], [THREADS as u32, 1, 1], arguments) }
    }
}

/// Threads for as many offsets, which fill the rest of a list's capacity too.
pub(super) fn fillers(offsets: usize, capacity: usize) -> usize {
    offsets.max(capacity.min(1 << 17))
}

/// Two for each point, which are its system's.
fn buckets(points: usize) -> usize {
    2 * points
}

/// Addresses of a grid: its systems; its points, and these in the order of their buckets; where buckets begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cells {
    pub(super) systems: u64,
    pub(super) points: u64,
    pub(super) sorted: u64,
    pub(super) bounds: u64,
}

impl Cells {
    /// Bytes of each, for points of some systems.
    pub(super) fn bytes(points: usize, systems: usize) -> [usize; 4] {
        [SYSTEM * systems, POINT * points, RECORD * points, 4 * (buckets(points) + 1)]
    }

    pub(super) fn at([systems, points, sorted, bounds]: [u64; 4]) -> Self {
        Self { systems, points, sorted, bounds }
    }

    /// Puts the points into them; the frame was checked. `buckets`: how many there are. `share`: about how many points a cell
    /// holds at least.
    pub(super) fn fill(
        &self,
        cuda: &Cuda,
        context: &Context<'_>,
        launches: &Launches,
        call: &Call,
        frame: &DeviceFrame<'_>,
        (buckets, share): (Length, Option<f64>),
    ) -> Result<()> {
        let n = frame.batch.atoms();
        let mut rooms = Rooms::new(context);
        let [keys, numbers] = [rooms.scratch(4 * n)?, rooms.scratch(4 * n)?].map(|s| s.address);
        let [r, of, ptr] = [frame.positions, &frame.batch.idx(), &frame.batch.ptr()].map(address);
        let Self { systems, points, sorted, bounds } = self;
        launches.run("geometry", frame.batch.systems(), &arguments![call, &ptr, systems])?;
        if let Some(share) = share {
            launches.run("extent", n, &arguments![call, &r, &of, systems])?;
            launches.run("share_out", frame.batch.systems(), &arguments![call, &ptr, &share, systems])?;
        }
        // SAFETY: there is a number for each bucket.
        unsafe { cuda.stream().zero(*bounds, 4 * call.buckets())? };
        launches.run("place", n, &arguments![call, &r, &of, systems, points, &keys, &numbers, bounds])?;
        // How many points each bucket has becomes where it begins.
        let scratch = rooms.scratch(raw::scan_scratch(call.buckets()))?;
        let counts = (Integer::I32, *bounds);
        raw::scan(&queue(cuda), Scan::Exclusive, counts, counts, buckets, Status::IGNORED, scratch)?;
        launches.run("gather", n, &arguments![call, systems, points, &keys, &numbers, bounds, sorted])
    }
}

/// The parameters of a search for a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListParameters<'a> {
    pub(super) cutoff: f64,
    pub(super) kind: Kind,
    /// Room for offsets; otherwise they have a room for as long as the search.
    pub(super) ptr: Option<u64>,
    /// Flags, int32 (B,): if none is raised, the search does nothing and changes no offset.
    pub(super) flags: Option<&'a View<'a>>,
}

/// The addresses of a list's entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entries {
    /// The row of each, or 0.
    pub(super) rows: u64,
    pub(super) others: u64,
    pub(super) shifts: u64,
    pub(super) capacity: usize,
    pub(super) packed: bool,
}

fn lists(cuda: &Cuda, frame: &DeviceFrame<'_>) -> Launches {
    Launches { stream: cuda.stream(), of: Of::Lists, positions: frame.positions.dtype() }
}

/// The word of a search, and the checks of its batch, which is argument `param`.
pub(super) fn begin(
    stream: Stream,
    context: &Context<'_>,
    batch: Option<&DeviceBatch<'_>>,
    param: usize,
) -> Result<Array> {
    let checks = batch.into_iter().flat_map(DeviceBatch::checks).map(|check| (param, check));
    validation::begin(stream, context, &checks.collect::<Vec<_>>(), &mut [])
}

/// The status word of a call, for which it waits.
pub(super) fn word(stream: Stream, word: &Array) -> Result<Word> {
    let mut words = [0u32; Word::LEN];
    // SAFETY: the word has this length.
    unsafe { stream.download(&mut words, address(&word.view()))? };
    Ok(Word::of(words))
}

/// A search after its count, with the sorted points still in memory.
pub(super) struct Counted<'c> {
    launches: Launches,
    call: Call,
    rooms: Rooms<'c>,
    word: Array,
    cells: Cells,
    kept: u64,
    /// The offsets of each row's entries: i64, true unless the word was raised, and then zeros.
    ptr: u64,
}

impl<'c> Counted<'c> {
    /// Counts; the frame was checked.
    pub(super) fn new(
        cuda: &Cuda,
        context: &'c Context<'c>,
        frame: &DeviceFrame<'_>,
        parameters: ListParameters<'_>,
    ) -> Result<Self> {
        let (batch, n) = (frame.batch, frame.batch.atoms());
        let word = begin(cuda.stream(), context, Some(batch), BATCH)?;
        let mut call =
            frame.call(parameters.cutoff, parameters.cutoff, parameters.kind, address(&word.view()));
        let mut rooms = Rooms::new(context);
        let launches = lists(cuda, frame);
        let (mut length, mut buckets) = (Length::new(n), Length::new(call.buckets()));
        if let Some(flags) = parameters.flags {
            let wanted = rooms.scratch(16)?.address;
            // SAFETY: the room has as many bytes.
            unsafe { cuda.stream().zero(wanted, 16)? };
            let flags = address(flags);
            launches.run("decide", batch.systems(), &arguments![&call, &flags, &wanted])?;
            call.wanted = wanted;
            length = Length::on_device(n, (Integer::I64, wanted))?;
            buckets = Length::on_device(call.buckets(), (Integer::I64, wanted + 8))?;
        }
        let ptr = match parameters.ptr {
            Some(ptr) => ptr,
            None => {
                let ptr = rooms.scratch(8 * (n + 2))?.address;
                call.wide = ptr + 8 * (n as u64 + 1);
                ptr
            }
        };
        let [systems, points, sorted, bounds] = Cells::bytes(n, batch.systems());
        let cells = Cells::at([
            rooms.scratch(systems)?.address,
            rooms.scratch(points)?.address,
            rooms.scratch(sorted)?.address,
            rooms.scratch(bounds)?.address,
        ]);
        cells.fill(cuda, context, &launches, &call, frame, (buckets, None))?;
        let kept = rooms.scratch(KEPT * n)?.address;
        // Scratch that only the count needs.
        let mut short = Rooms::new(context);
        let counts = short.scratch(4 * n)?.address;
        let Cells { systems, points, sorted, bounds } = &cells;
        let arguments = arguments![&call, systems, points, sorted, bounds, &counts, &kept];
        launches.run("count", n * WARP, &arguments)?;
        let scratch = short.scratch(raw::scan_scratch(n))?;
        let [from, to] = [(Integer::I32, counts), (Integer::I64, ptr)];
        raw::scan(&queue(cuda), Scan::Exclusive, from, to, length, Status::IGNORED, scratch)?;
        drop(short);
        Ok(Self { launches, call, rooms, word, cells, kept, ptr })
    }

    /// Copies positions and cells to arrays of equal types and shapes.
    pub(super) fn keep(&self, frame: &DeviceFrame<'_>, [positions, cell]: [u64; 2]) -> Result<()> {
        let threads = (3 * self.call.points).max(9 * self.call.cells) as usize;
        let from = address(frame.positions);
        self.launches.run("keep", threads, &arguments![&self.call, &from, &positions, &cell])
    }

    /// The number of pairs, for which it waits, and whether their images can be packed.
    pub(super) fn total(&self) -> Result<(usize, bool)> {
        let (stream, mut found) = (self.launches.stream, [0i64; 2]);
        // SAFETY: there is one offset more than points, and behind it what `place` finds.
        unsafe { stream.download(&mut found, self.ptr + 8 * self.call.points as u64)? };
        let [total, wide] = found;
        if total == 0 {
            // A raised word leaves all rows without pairs.
            let word = word(stream, &self.word)?;
            let name = |param: Option<usize>| match param.and_then(|p| NAMES.get(p)) {
                Some(argument) => format!("{CALL}::{argument}"),
                None => CALL.to_string(),
            };
            word.error(name).map_or(Ok(()), Err)?;
        }
        match i32::try_from(total) {
            Ok(total) if total < i32::MAX => Ok((total as usize, total == 0 || wide == 0)),
            _ => {
                let expected = format!("one that gives less than {} pairs", i32::MAX);
                Err(Error::argument(format!("{CALL}::cutoff"), expected, "one that gives as many, or more"))
            }
        }
    }

    /// Writes the entries, if they all have room.
    pub(super) fn fill(&mut self, into: Entries) -> Result<()> {
        let Entries { rows, others, shifts, capacity, packed } = into;
        (self.call.capacity, self.call.packed) = (capacity as i64, i64::from(packed));
        let Self { call, cells: Cells { systems, points, sorted, bounds }, kept, ptr, .. } = self;
        let arguments = arguments![call, systems, points, sorted, bounds, kept, ptr, &rows, &others, &shifts];
        self.launches.run("fill", call.points as usize * WARP, &arguments)
    }

    /// Makes the offsets of a list that was not made ones that calls refuse, behind [`Counted::fill`].
    pub(super) fn finish(&self) -> Result<()> {
        self.launches.run("finish", self.call.points as usize, &arguments![&self.call, &self.ptr])
    }

    /// Offsets as i32, and fill values in the unused entries: after [`Counted::fill`].
    pub(super) fn coordinates(&self, offsets: u64, into: Entries) -> Result<()> {
        let threads = fillers(self.call.points as usize + 1, into.capacity);
        let arguments = arguments![&self.call, &self.ptr, &offsets, &into.rows, &into.others, &into.shifts];
        self.launches.run("coordinates", threads, &arguments)
    }

    /// Puts errors into the device's record, and frees the memory.
    pub(super) fn end(self) -> Result<()> {
        let names = || NAMES.map(str::to_string).to_vec();
        validation::end(self.launches.stream, self.rooms.context(), self.word, &mut [], CALL, &names)
    }
}

/// Raises the flag of each system in which a point has moved by more than `most` from `before`, or whose cell is not
/// the one of `before`; the frame and `before` have equal types and shapes. `axes`: the periodic ones now and before, and how
/// many rows there are of them, 1 or B.
pub(super) fn moved(
    cuda: &Cuda,
    frame: &DeviceFrame<'_>,
    [before, cell_before]: [u64; 2],
    [(axes, rows), (axes_before, rows_before)]: [(u64, i64); 2],
    most: f64,
    flags: u64,
) -> Result<()> {
    let launches = lists(cuda, frame);
    let call = frame.call(0.0, 0.0, Kind::Full, 0);
    let (r, of) = (address(frame.positions), address(&frame.batch.idx()));
    let arguments = arguments![
        &call,
        &r,
        &before,
        &of,
        &cell_before,
        &axes,
        &rows,
        &axes_before,
        &rows_before,
        &most,
        &flags
    ];
    launches.run("moved", frame.batch.systems().max(frame.batch.atoms()), &arguments)
}
