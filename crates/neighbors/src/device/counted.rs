//! The two passes of a search of a grid, counting the pairs of each query and writing them.
#![expect(unsafe_code, reason = "offsets are read from addresses of the call's arrays")]

use super::passes::{Call, Cells, KEPT, Launches, Of, WARP, fillers, queue};
use madelung_core::array::{Array, DType};
use madelung_core::backend::{Context, Scan};
use madelung_core::{Error, Result};
use madelung_cuda::Cuda;
use madelung_cuda::memory::{Rooms, address};
use madelung_cuda::primitives::{self as raw, Integer, Length, Status};
use madelung_cuda::validation::arguments;

/// The struct Queries of grid.cu.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Queries {
    pub(super) radius: f64,
    pub(super) queries: i64,
    pub(super) r: u64,
    pub(super) of: u64,
    pub(super) built: u64,
    /// Numbers of arguments, from 1 on: positions, radius (or number of points), grid, capacity.
    pub(super) params: [u32; 4],
}

/// Queries of a search, and the dtype of their positions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) queries: Queries,
    pub(super) positions: DType,
}

/// A search that has counted its pairs, and written the offsets of each query's.
pub(super) struct CountedPairs<'c> {
    launches: Launches,
    call: Call,
    asked: Queries,
    cells: Cells,
    /// Memory of what the count keeps.
    _rooms: Rooms<'c>,
    kept: u64,
    ptr: u64,
}

impl<'c> CountedPairs<'c> {
    /// Counts, and writes the offsets, int64 (M + 1,).
    pub(super) fn new(
        cuda: &Cuda,
        context: &'c Context<'c>,
        (call, cells): (Call, Cells),
        Asked { queries: asked, positions }: Asked,
        ptr: &Array,
    ) -> Result<Self> {
        let m = asked.queries as usize;
        let launches = Launches { stream: cuda.stream(), of: Of::Grids, positions };
        let Cells { systems, points, sorted, bounds } = &cells;
        let (mut rooms, mut short) = (Rooms::new(context), Rooms::new(context));
        let (kept, counts) = (rooms.scratch(KEPT * m)?.address, short.scratch(4 * m)?.address);
        let arguments = arguments![&call, &asked, systems, points, sorted, bounds, &counts, &kept];
        launches.run("count", m * WARP, &arguments)?;
        let (scratch, ptr) = (short.scratch(raw::scan_scratch(m))?, address(&ptr.view()));
        let [from, to] = [(Integer::I32, counts), (Integer::I64, ptr)];
        raw::scan(&queue(cuda), Scan::Exclusive, from, to, Length::new(m), Status::IGNORED, scratch)?;
        Ok(Self { launches, call, asked, cells, _rooms: rooms, kept, ptr })
    }

    /// The number of pairs, for which it waits.
    pub(super) fn total(&self) -> Result<usize> {
        let mut total = [0i64];
        // SAFETY: there is one offset more than queries.
        unsafe { self.launches.stream.download(&mut total, self.ptr + 8 * self.asked.queries as u64)? };
        usize::try_from(total[0]).ok().filter(|total| *total < i32::MAX as usize).ok_or_else(|| {
            let expected = format!("one within which there are less than {} pairs", i32::MAX);
            Error::argument("radius", expected, format!("one with {}", total[0]))
        })
    }

    /// Writes the points and images of the pairs, if they all have room.
    pub(super) fn fill(&mut self, [others, shifts]: [&Array; 2]) -> Result<()> {
        self.call.capacity = others.shape()[0] as i64;
        let Self { call, asked, cells: Cells { systems, points, sorted, bounds }, kept, ptr, .. } = self;
        let [others, shifts] = [others, shifts].map(|array| address(&array.view()));
        let arguments = arguments![call, asked, systems, points, sorted, bounds, kept, ptr, &others, &shifts];
        self.launches.run("fill", asked.queries as usize * WARP, &arguments)
    }

    /// Makes the offsets of a list that was not made ones that calls refuse, behind [`CountedPairs::fill`].
    pub(super) fn finish(&self) -> Result<()> {
        let arguments = arguments![&self.call, &self.asked, &self.ptr];
        self.launches.run("finish", self.asked.queries as usize, &arguments)
    }

    /// Offsets as i32 (M + 1,), and fill values behind the last pair.
    pub(super) fn settle(&self, offsets: &Array, into: [&Array; 2]) -> Result<()> {
        let threads = fillers(self.asked.queries as usize + 1, into[0].shape()[0]);
        let [offsets, others, shifts] = [offsets, into[0], into[1]].map(|array| address(&array.view()));
        let arguments = arguments![&self.call, &self.asked, &self.ptr, &offsets, &others, &shifts];
        self.launches.run("settle", threads, &arguments)
    }
}
