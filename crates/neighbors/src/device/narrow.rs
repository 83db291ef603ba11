//! Pairs of a list within shorter cutoffs, in the memory of a device.
#![expect(unsafe_code, reason = "offsets are read from an address of the call's arrays")]

use super::passes::{self, Launches, Of, WARP, integers, queue, reals};
use crate::atoms::wrong;
use crate::coo::room;
use madelung_core::array::{Array, DType, Place, View};
use madelung_core::backend::{Check, Context, Scan};
use madelung_core::runtime::SlotArray;
use madelung_core::structure::Structure;
use madelung_core::{Error, Result};
use madelung_cuda::Cuda;
use madelung_cuda::memory::{Rooms, address};
use madelung_cuda::primitives::{self as raw, Integer, Length, Status};
use madelung_cuda::validation::{self, arguments};

/// The struct Narrow of narrow.cu.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Call {
    cutoff: f64,
    rows: i64,
    points: i64,
    kinds: i64,
    capacity: i64,
    /// Positions of rows and points, cells, cutoffs of types.
    reals: [u64; 4],
    of: u64,
    start: u64,
    end: u64,
    others: u64,
    triples: u64,
    packed: u64,
    /// Types of rows and points, and the point that each row is.
    ints: [u64; 3],
    word: u64,
    room: u32,
}

/// The names of the arguments, from 1 on in the word.
const NAMES: [&str; 9] =
    ["positions", "sources", "cell", "cutoff", "types", "centers", "batch_idx", "neighbor_list", "capacity"];

/// Pairs of a list, and cutoffs, in the memory of a device; shapes were checked.
pub(crate) struct NarrowedList<'a> {
    pub(crate) cuda: &'a Cuda,
    pub(crate) batch: &'a dyn Structure,
    pub(crate) pairs: &'a dyn Structure,
    /// Positions of rows and points, cells, cutoffs of types (T, T).
    pub(crate) reals: [&'a View<'a>; 4],
    /// Types of rows and points, and the point that each row is; empty: none.
    pub(crate) ints: [&'a View<'a>; 3],
    pub(crate) cutoff: f64,
}

impl NarrowedList<'_> {
    /// The list, as `narrowed_pairs` gives it; without a capacity the host waits for the number of its pairs.
    ///
    /// # Errors
    /// The array whose dtype or place is another; without a capacity what the device has found wrong; the driver's.
    pub(crate) fn list(&self, context: &Context<'_>, capacity: Option<usize>) -> Result<Vec<Array>> {
        let (stream, place) = (self.cuda.stream(), Place::Cuda(self.cuda.device().ordinal()));
        let [Some(m), Some(n), _] = self.pairs.sizes() else { return Err(wrong()) };
        let kinds = self.reals[3].shape()[0];
        for (name, view) in NAMES.iter().zip(self.reals) {
            reals(name, view, &[view.shape()], place)?;
            if view.dtype() != self.reals[0].dtype() {
                return Err(Error::argument(
                    *name,
                    self.reals[0].dtype().to_string(),
                    view.dtype().to_string(),
                ));
            }
        }
        let mut checks: Vec<(usize, Check<'_>)> =
            (0..4).map(|n| (n, Check::Finite(self.reals[n].clone()))).collect();
        for (param, view, below) in [(4, self.ints[0], kinds), (4, self.ints[1], kinds), (5, self.ints[2], n)]
        {
            integers(NAMES[param], view, DType::I32, view.shape(), place)?;
            checks.push((param, Check::Below(view.clone(), below)));
        }
        checks.extend(self.batch.check(&[])?.into_iter().map(|check| (6, check)));
        checks.extend(self.pairs.check(&[])?.into_iter().map(|check| (7, check)));
        let word = validation::begin(stream, context, &checks, &mut [])?;
        let of = |structure: &dyn Structure, array: SlotArray| {
            Ok::<_, Error>(structure.array(array)?.map_or(0, |view| address(&view)))
        };
        let given = |view: &View<'_>| if view.is_empty() { 0 } else { address(view) };
        let mut call = Call {
            cutoff: self.cutoff,
            rows: m as i64,
            points: n as i64,
            kinds: kinds as i64,
            capacity: 0,
            reals: self.reals.map(address),
            of: of(self.batch, SlotArray::SystemOf)?,
            start: of(self.pairs, SlotArray::Start)?,
            end: of(self.pairs, SlotArray::End)?,
            others: of(self.pairs, SlotArray::Column)?,
            triples: of(self.pairs, SlotArray::Shift)?,
            packed: of(self.pairs, SlotArray::PackedShift)?,
            ints: self.ints.map(given),
            word: address(&word.view()),
            room: NAMES.len() as u32,
        };
        let launches = Launches { stream, of: Of::Narrowed, positions: self.reals[0].dtype() };
        let mut rooms = Rooms::new(context);
        let counts = rooms.scratch(4 * m)?.address;
        let wide = context.allocator.zeros(DType::I64, &[m + 1])?;
        let ptr = address(&wide.view());
        launches.run("count", m * WARP, &arguments![&call, &counts])?;
        let scratch = rooms.scratch(raw::scan_scratch(m))?;
        let [from, to] = [(Integer::I32, counts), (Integer::I64, ptr)];
        raw::scan(&queue(self.cuda), Scan::Exclusive, from, to, Length::new(m), Status::IGNORED, scratch)?;
        let capacity = match capacity {
            Some(capacity) => capacity,
            None => {
                let name = |param: Option<usize>| NAMES[param.unwrap_or(7).min(8)].to_string();
                passes::word(stream, &word)?.error(name).map_or(Ok(()), Err)?;
                let mut total = [0i64];
                // SAFETY: there is one offset more than rows.
                unsafe { stream.download(&mut total, ptr + 8 * m as u64)? };
                // No more than the list has.
                total[0] as usize
            }
        };
        passes::check_capacity("capacity", capacity)?;
        let [list, offsets, shifts] = [
            room(context, 0, &[2, capacity])?,
            room(context, 1, &[m + 1])?,
            room(context, 2, &[capacity, 3])?,
        ];
        integers("neighbor_list", &list.view(), DType::I32, &[2, capacity], place)?;
        call.capacity = capacity as i64;
        let [rows, narrow, images] = [&list, &offsets, &shifts].map(|array| address(&array.view()));
        let others = rows + (capacity * DType::I32.size()) as u64;
        launches.run("fill", m * WARP, &arguments![&call, &ptr, &rows, &others, &images])?;
        let threads = (m + 1).max(capacity);
        launches.run("settle", threads, &arguments![&call, &ptr, &narrow, &rows, &others, &images])?;
        drop(rooms);
        context.allocator.recycle(wide);
        let names = || NAMES.map(str::to_string).to_vec();
        validation::end(stream, context, word, &mut [], "neighbor_list", &names)?;
        Ok(vec![list, offsets, shifts])
    }
}
