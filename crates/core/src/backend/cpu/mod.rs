//! The CPU backend: rows in chunks over a pool, every sum in an order that depends neither on the number of threads
//! nor on what else is in the batch.
//!
//! Chunks never cross the border of a system and start anew at each, so a system gives the same bits alone and in a
//! batch. What chunks add to shared elements is kept apart per chunk and added in their order.
#![expect(unsafe_code, reason = "generated code is called here, and pointers are made for it")]

use super::context::Context;
use super::kernel::{Array as ArrayOf, Launch, Run};
use super::launch::{Backend, Bound, Launching};
use super::pool::{Serial, map_tasks};
use crate::Result;
use crate::array::{Array, DType, Data, DataMut};
use crate::math::Isa;

/// The processor this runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    isa: Option<Isa>,
}

impl Cpu {
    /// The processor with the instructions it has.
    pub const fn new() -> Self {
        Self { isa: None }
    }

    /// The same with no wider instructions than these (and none that it does not have).
    pub const fn at_most(isa: Isa) -> Self {
        Self { isa: Some(isa) }
    }

    /// The instructions that kernels run on.
    pub fn isa(&self) -> Isa {
        self.isa.map_or(Isa::detect(), |isa| isa.min(Isa::detect()))
    }
}

/// Rows per chunk, where rows do not loop over data and where they do.
const CHUNK: [usize; 2] = [4096, 64];
/// Into how many pieces a system is cut where rows add to each other's elements, each with its own buffer.
const PIECES: usize = 8;
/// Nanoseconds of work below which threads cost more than they bring.
const WORTH_THREADS: usize = 30_000;

impl Backend for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn run(&self, context: &Context<'_>, launch: &mut Launching<'_>) -> Result<()> {
        launch.check()?;
        let isa = self.isa();
        let mut done = || run(context, launch, isa);
        context.stream.run(&mut done);
        Ok(())
    }
}

/// A launch that threads share.
struct Shared(Launch);
// SAFETY: threads read inputs, and write disjoint rows of outputs or buffers of their own.
unsafe impl Sync for Shared {}

fn run(context: &Context<'_>, launch: &mut Launching<'_>, isa: Isa) {
    let part = launch.part;
    let entry = match launch.dtype {
        DType::F32 => part.run.f32[isa as usize],
        _ => part.run.f64[isa as usize],
    };
    let shared = Shared(pointers(launch));
    let segments: Vec<(usize, std::ops::Range<usize>)> = match part.batch.and_then(|p| launch.batch(p)) {
        Some(batch) => (0..batch.systems()).map(|s| (s, batch.members(s))).collect(),
        None => vec![(0, 0..launch.rows())],
    };
    let pool = if cost(launch) < WORTH_THREADS { &Serial } else { context.pool };
    if part.scattered.is_empty() {
        let chunks = cut(&segments, CHUNK[usize::from(part.loops)]);
        let partials = chunked(pool, &shared, entry, &chunks, part.reductions.len());
        reduce(launch, &chunks, &partials);
    } else {
        scattered(pool, launch, &shared, entry, &segments);
    }
}

/// A rough number of nanoseconds.
fn cost(launch: &Launching<'_>) -> usize {
    let rows = launch.rows();
    if !launch.part.loops {
        return rows * 10;
    }
    let pairs: usize = launch.pairs.iter().map(|(_, list)| list.len()).sum();
    let members = launch.dims.iter().copied().max().unwrap_or(0)
        / launch.batches.first().map_or(1, |b| b.1.systems().max(1));
    if launch.pairs.is_empty() { rows * members * 2 } else { pairs * 5 }
}

/// (system, first row, last row + 1)
type Chunk = (usize, usize, usize);

fn cut(segments: &[(usize, std::ops::Range<usize>)], size: usize) -> Vec<Chunk> {
    let mut chunks = vec![];
    for (system, rows) in segments {
        let mut lo = rows.start;
        while lo < rows.end {
            let hi = rows.end.min(lo + size);
            chunks.push((*system, lo, hi));
            lo = hi;
        }
    }
    chunks
}

fn chunked(
    pool: &dyn super::pool::Pool,
    shared: &Shared,
    entry: Run,
    chunks: &[Chunk],
    sums: usize,
) -> Vec<f64> {
    // Neighbouring chunks go to one task; which ones changes nothing in the result.
    let tasks = chunks.len().min(pool.threads() * 8).max(1);
    let of_task = |t: usize| chunks.len() * t / tasks..chunks.len() * (t + 1) / tasks;
    let parts = map_tasks(pool, tasks, |t| {
        let mine = &chunks[of_task(t)];
        let mut partials = vec![0.0; mine.len() * sums];
        for (n, (_, lo, hi)) in mine.iter().enumerate() {
            let at = partials[n * sums..].as_mut_ptr();
            // SAFETY: the launch was checked; rows lo..hi belong to this chunk alone, and `at` has room for its sums.
            unsafe { entry(&shared.0, *lo, *hi, at) };
        }
        partials
    });
    parts.concat()
}

fn pointers(launch: &mut Launching<'_>) -> Launch {
    let mut l = Launch { pointers: [std::ptr::null_mut(); 64], reals: [0.0; 8], ints: [0; 4], adds: 0 };
    l.reals[..launch.reals.len()].copy_from_slice(&launch.reals);
    l.ints[..launch.ints.len()].copy_from_slice(&launch.ints);
    for (n, slot) in launch.part.slots.iter().enumerate() {
        if launch.part.scattered.contains(&n) {
            continue;
        }
        l.pointers[n] = match slot.array {
            ArrayOf::Values(role) => {
                let bound = launch.arrays.iter_mut().find(|(key, _)| *key == (slot.param, role));
                match bound.map(|(_, b)| b) {
                    Some(Bound::Input(view)) => match view.data() {
                        Data::F32(d) => d.as_ptr().cast_mut().cast(),
                        Data::F64(d) => d.as_ptr().cast_mut().cast(),
                        Data::I32(d) => d.as_ptr().cast_mut().cast(),
                    },
                    Some(Bound::Output { array, adds }) => {
                        l.adds |= u64::from(*adds) << n;
                        match array.data_mut() {
                            Some(DataMut::F32(d)) => d.as_mut_ptr().cast(),
                            Some(DataMut::F64(d)) => d.as_mut_ptr().cast(),
                            None => std::ptr::null_mut(),
                        }
                    }
                    Some(Bound::Unwanted) | None => std::ptr::null_mut(),
                }
            }
            ArrayOf::SystemOf => launch.batch(slot.param).map_or(std::ptr::null_mut(), |b| ints(b.idx())),
            ArrayOf::Members => launch.batch(slot.param).map_or(std::ptr::null_mut(), |b| ints(b.ptr())),
            list => launch.pair_list(slot.param).map_or(std::ptr::null_mut(), |pairs| match list {
                ArrayOf::Start => ints(pairs.starts()),
                ArrayOf::End => ints(pairs.ends()),
                ArrayOf::Column => ints(pairs.others()),
                _ => ints(pairs.shifts().as_flattened()),
            }),
        };
    }
    l
}

fn ints(d: &[i32]) -> *mut u8 {
    d.as_ptr().cast_mut().cast()
}

/// Adds the chunks' sums to their targets, in order.
fn reduce(launch: &mut Launching<'_>, chunks: &[Chunk], partials: &[f64]) {
    let reductions = launch.part.reductions;
    let sums = reductions.len();
    for ((param, role), bound) in &mut launch.arrays {
        if let Bound::Output { array, adds: false } = bound
            && reductions.iter().any(|r| (r.param, r.role) == (*param, *role))
        {
            match array.data_mut() {
                Some(DataMut::F32(d)) => d.fill(0.0),
                Some(DataMut::F64(d)) => d.fill(0.0),
                None => {}
            }
        }
    }
    for (r, reduction) in reductions.iter().enumerate() {
        let kernel = launch.kernel;
        let bound = launch.arrays.iter_mut().find(|(key, _)| *key == (reduction.param, reduction.role));
        let Some((_, Bound::Output { array, .. })) = bound else { continue };
        let stride = match kernel.params[reduction.param].kind {
            super::kernel::ParamKind::Real { components, .. }
            | super::kernel::ParamKind::Output { components, .. } => components,
            _ => 1,
        };
        let mut n = 0;
        while n < chunks.len() {
            let system = chunks[n].0;
            let mut sum = 0.0;
            while n < chunks.len() && (reduction.batch.is_none() || chunks[n].0 == system) {
                sum += partials[n * sums + r];
                n += 1;
            }
            let row = if reduction.batch.is_some() { system } else { 0 };
            add_at(array, row * stride + reduction.component, sum);
        }
    }
}

fn add_at(array: &mut Array, at: usize, x: f64) {
    match array.data_mut() {
        Some(DataMut::F32(d)) => d[at] = (f64::from(d[at]) + x) as f32,
        Some(DataMut::F64(d)) => d[at] += x,
        None => {}
    }
}

fn scattered(
    pool: &dyn super::pool::Pool,
    launch: &mut Launching<'_>,
    shared: &Shared,
    entry: Run,
    segments: &[(usize, std::ops::Range<usize>)],
) {
    let part = launch.part;
    let lens: Vec<usize> = part
        .scattered
        .iter()
        .map(|n| {
            let slot = part.slots[*n];
            let ArrayOf::Values(role) = slot.array else { return 0 };
            match launch.array(slot.param, role) {
                Some(Bound::Output { array, .. }) => array.shape().iter().product(),
                // Unwanted, but the code adds to it all the same.
                _ => match launch.kernel.params[slot.param].kind {
                    super::kernel::ParamKind::Real { dim, components, .. } => {
                        dim.map_or(1, |d| launch.dims[d]) * components
                    }
                    _ => 0,
                },
            }
        })
        .collect();
    let sums = part.reductions.len();
    let pieces = map_tasks(pool, PIECES, |p| {
        let mut buffers: Vec<Vec<f64>> = lens.iter().map(|n| vec![0.0; *n]).collect();
        let mut mine = shared.0;
        for (buffer, slot) in buffers.iter_mut().zip(part.scattered) {
            mine.pointers[*slot] = buffer.as_mut_ptr().cast();
        }
        let chunks: Vec<Chunk> = segments
            .iter()
            .map(|(s, r)| (*s, r.start + r.len() * p / PIECES, r.start + r.len() * (p + 1) / PIECES))
            .collect();
        let mut partials = vec![0.0; chunks.len() * sums];
        for (n, (_, lo, hi)) in chunks.iter().enumerate() {
            let at = partials[n * sums..].as_mut_ptr();
            // SAFETY: as in `chunked`; what is scattered goes to this piece's own buffers.
            unsafe { entry(&mine, *lo, *hi, at) };
        }
        (buffers, chunks, partials)
    });
    for (n, slot) in part.scattered.iter().enumerate() {
        let slot = part.slots[*slot];
        let ArrayOf::Values(role) = slot.array else { continue };
        let bound = launch.arrays.iter_mut().find(|(key, _)| *key == (slot.param, role));
        let Some((_, Bound::Output { array, adds })) = bound else { continue };
        for at in 0..lens[n] {
            let sum: f64 = pieces.iter().map(|(buffers, ..)| buffers[n][at]).sum();
            let before = if *adds { 1.0 } else { 0.0 };
            match array.data_mut() {
                Some(DataMut::F32(d)) => d[at] = (before * f64::from(d[at]) + sum) as f32,
                Some(DataMut::F64(d)) => d[at] = before * d[at] + sum,
                None => {}
            }
        }
    }
    // System by system, piece by piece.
    let mut chunks = vec![];
    let mut partials = vec![];
    for s in 0..segments.len() {
        for (_, of_piece, sums_of_piece) in &pieces {
            chunks.push(of_piece[s]);
            partials.extend_from_slice(&sums_of_piece[s * sums..(s + 1) * sums]);
        }
    }
    reduce(launch, &chunks, &partials);
}
