//! Pairs that sums leave out, in the memory of a device: their images and their list, and lists without them.
#![expect(unsafe_code, reason = "offsets are read from an address of the call's arrays")]

use super::passes::{self, Launches, Of, WARP, integers, queue};
use crate::atoms::{Atoms, wrong};
use crate::coo::room;
use crate::list::ListArrays;
use madelung_core::array::{Array, DType, Place, View};
use madelung_core::backend::{Check, Context, Scan};
use madelung_core::runtime::SlotArray;
use madelung_core::structure::Structure;
use madelung_core::structure::pairs::Kind;
use madelung_core::{Error, Result};
use madelung_cuda::Cuda;
use madelung_cuda::memory::{Rooms, address};
use madelung_cuda::primitives::{self as raw, Integer, Key, Length, Status};
use madelung_cuda::validation::{self, arguments};

/// The names of the arguments, from 1 on in the word.
const NAMES: [&str; 4] = ["positions", "cell", "batch_idx", "exclusions"];
const EXCLUSIONS: usize = 3;
/// Images are looked for in cells of any size.
const CELL_SIZE: f64 = 1e30;

/// The struct Pairs of exclude.cu.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Pairs {
    count: i64,
    atoms: u64,
    given: u64,
    param: u32,
}

/// The list of pairs (P, 2) with images (P, 3), or without a row of these the nearest, as `exclusion_list` gives it.
///
/// # Errors
/// The array whose dtype, shape or place is another; the driver's. What is wrong with pairs waits in the device's record.
pub(crate) fn exclusions(
    cuda: &Cuda,
    context: &Context<'_>,
    atoms: &Atoms<'_>,
    [pairs, shifts]: [&View<'_>; 2],
) -> Result<Vec<Array>> {
    let (frame, stream, place) = (atoms.frame()?, cuda.stream(), Place::Cuda(cuda.device().ordinal()));
    frame.check(place)?;
    let (n, systems, count) = (frame.batch.atoms(), frame.batch.systems(), pairs.shape()[0]);
    let entries = 2 * count;
    passes::check_capacity("exclusions", entries)?;
    for view in [pairs, shifts] {
        integers("exclusions", view, DType::I32, view.shape(), place)?;
    }
    let mut checks = vec![(EXCLUSIONS, Check::Below(pairs.clone(), n))];
    checks.extend(frame.batch.checks().into_iter().map(|check| (passes::BATCH, check)));
    let word = validation::begin(stream, context, &checks, &mut [])?;
    let given = if shifts.is_empty() { 0 } else { address(shifts) };
    let pairs = Pairs { count: count as i64, atoms: address(pairs), given, param: EXCLUSIONS as u32 + 1 };
    let call = frame.call(0.0, CELL_SIZE, Kind::Full, address(&word.view()));
    let launches = Launches { stream, of: Of::Excluded, positions: frame.positions.dtype() };
    let arrays = [&[n + 1][..], &[entries], &[entries, 3], &[entries]];
    let mut arrays = arrays.iter().enumerate().map(|(k, shape)| room(context, k, shape));
    let mut next = || arrays.next().unwrap_or_else(|| Err(wrong()));
    let (ptr, columns, images, exclusion_of) = (next()?, next()?, next()?, next()?);
    let mut rooms = Rooms::new(context);
    let geometry = rooms.scratch(passes::SYSTEM * systems)?.address;
    let found = rooms.scratch(12 * count)?.address;
    let [keys, order, rows] =
        [rooms.scratch(8 * entries)?, rooms.scratch(4 * entries)?, rooms.scratch(4 * entries)?]
            .map(|s| s.address);
    let [r, of, starts] =
        [frame.positions.clone(), frame.batch.idx(), frame.batch.ptr()].map(|view| address(&view));
    launches.run("geometry", systems, &arguments![&call, &starts, &geometry])?;
    let launched = arguments![&call, &r, &of, &geometry, &pairs, &found, &keys, &order];
    launches.run("images", count, &launched)?;
    let sort = |rooms: &mut Rooms<'_>, bits| {
        let scratch = rooms.scratch(raw::sort_scratch(Key::U64, entries))?;
        raw::sort_by_key(&queue(cuda), Key::U64, keys, order, Length::new(entries), bits, scratch)
    };
    if given != 0 {
        sort(&mut rooms, 63)?;
    }
    launches.run("by_atoms", entries, &arguments![&call, &pairs, &order, &keys])?;
    sort(&mut rooms, 64)?;
    let [into, shifts, of_pair] = [&columns, &images, &exclusion_of].map(|array| address(&array.view()));
    let launched = arguments![&call, &pairs, &found, &keys, &order, &rows, &into, &shifts, &of_pair];
    launches.run("enlist", entries, &launched)?;
    let offsets = (Integer::I32, address(&ptr.view()));
    raw::segment_bounds(&queue(cuda), Key::U32, rows, Length::new(entries), offsets, n, Status::IGNORED)?;
    launches.run("refuse", n + 1, &arguments![&call, &offsets.1])?;
    drop(rooms);
    let names = || NAMES.map(str::to_string).to_vec();
    validation::end(stream, context, word, &mut [], "exclusions", &names)?;
    Ok(vec![ptr, columns, images, exclusion_of])
}

/// The struct List of exclude.cu.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct List {
    start: u64,
    end: u64,
    others: u64,
    triples: u64,
    packed: u64,
}

impl List {
    fn of(list: &dyn Structure) -> Result<Self> {
        let of = |array: SlotArray| Ok::<_, Error>(list.array(array)?.map_or(0, |view| address(&view)));
        Ok(Self {
            start: of(SlotArray::Start)?,
            end: of(SlotArray::End)?,
            others: of(SlotArray::Column)?,
            triples: of(SlotArray::Shift)?,
            packed: of(SlotArray::PackedShift)?,
        })
    }
}

/// The struct Without of exclude.cu.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Without {
    rows: i64,
    capacity: i64,
    list: List,
    excluded: List,
    word: u64,
    room: u32,
}

/// The names of the arguments, from 1 on in the word.
const LISTS: [&str; 3] = ["exclusions", "neighbor_list", "capacity"];

/// A list in rows without the pairs of another one, as `rows_without` gives it; without a capacity the host waits for the number
/// of its pairs.
///
/// # Errors
/// Lists of different numbers of atoms; without a capacity what the device has found wrong; the driver's.
pub(crate) fn without(
    cuda: &Cuda,
    context: &Context<'_>,
    [excluded, list]: [&dyn Structure; 2],
    capacity: Option<usize>,
) -> Result<ListArrays> {
    let stream = cuda.stream();
    let (Some(n), Some(theirs)) = (list.sizes()[0], excluded.sizes()[0]) else { return Err(wrong()) };
    if n != theirs {
        return Err(Error::argument("exclusions", format!("those of {n} atoms"), theirs.to_string()));
    }
    let mut checks = vec![];
    for (param, list) in [excluded, list].into_iter().enumerate() {
        checks.extend(list.check(&[])?.into_iter().map(|check| (param, check)));
    }
    let word = validation::begin(stream, context, &checks, &mut [])?;
    let mut call = Without {
        rows: n as i64,
        capacity: 0,
        list: List::of(list)?,
        excluded: List::of(excluded)?,
        word: address(&word.view()),
        room: LISTS.len() as u32,
    };
    let launches = Launches { stream, of: Of::Excluded, positions: DType::F64 };
    let mut rooms = Rooms::new(context);
    let counts = rooms.scratch(4 * n)?.address;
    let wide = context.allocator.zeros(DType::I64, &[n + 1])?;
    let ptr = address(&wide.view());
    launches.run("count", n * WARP, &arguments![&call, &counts])?;
    let scratch = rooms.scratch(raw::scan_scratch(n))?;
    let [from, to] = [(Integer::I32, counts), (Integer::I64, ptr)];
    raw::scan(&queue(cuda), Scan::Exclusive, from, to, Length::new(n), Status::IGNORED, scratch)?;
    let capacity = match capacity {
        Some(capacity) => capacity,
        None => {
            let name = |param: Option<usize>| LISTS[param.unwrap_or(1).min(2)].to_string();
            passes::word(stream, &word)?.error(name).map_or(Ok(()), Err)?;
            let mut total = [0i64];
            // SAFETY: there is one offset more than rows.
            unsafe { stream.download(&mut total, ptr + 8 * n as u64)? };
            // No more than the list has.
            total[0] as usize
        }
    };
    passes::check_capacity("capacity", capacity)?;
    let arrays = ListArrays {
        index: room(context, 0, &[n + 1])?,
        columns: room(context, 1, &[capacity])?,
        images: room(context, 2, &[capacity, 3])?,
    };
    call.capacity = capacity as i64;
    let [offsets, others, images] =
        [&arrays.index, &arrays.columns, &arrays.images].map(|array| address(&array.view()));
    launches.run("fill", n * WARP, &arguments![&call, &ptr, &others, &images])?;
    let threads = (n + 1).max(capacity);
    launches.run("settle", threads, &arguments![&call, &ptr, &offsets, &others, &images])?;
    drop(rooms);
    context.allocator.recycle(wide);
    let names = || LISTS.map(str::to_string).to_vec();
    validation::end(stream, context, word, &mut [], "neighbor_list", &names)?;
    Ok(arrays)
}
