//! Sums and extrema of segments of rows, sums over the rows of kernels, and rows that get their segment's values.

use super::{Arguments, Compiled, Length, Queue, Scratch, THREADS, Text, tiles};
use madelung_core::array::DType;
use madelung_core::{Error, Result};

macro_rules! folds {
    ($($file:literal),*) => {
        &[include_str!("common.cuh"), include_str!("segments.cuh"), include_str!("folds.cuh"), $(include_str!($file)),*]
    };
}
const SUM: Text = Text::new("sum", folds!("add.cuh", "sum.cu"));
const PARTIALS: Text = Text::new("partials", folds!("add.cuh", "partials.cu"));
const BROADCAST: Text = Text::new(
    "broadcast",
    &[include_str!("common.cuh"), include_str!("segments.cuh"), include_str!("broadcast.cu")],
);

/// Rows of a chunk: CHUNK in folds.cuh.
const CHUNK: usize = 1024;
/// Threads of a warp, and warps of a block.
const WARP: usize = 32;
const WARPS: usize = THREADS / WARP;
/// Below this many, every warp has a group of components of one segment to itself. It changes no bit.
const FEW: usize = 1 << 12;
/// The most sums that one call puts in their places: TARGETS in partials.cu.
pub const TARGETS: usize = 32;

/// Ranges of rows.
#[derive(Clone, Copy, Debug)]
pub enum Segments {
    /// Segment s is rows `offsets[s]..offsets[s + 1]`.
    Offsets {
        /// The address of `count + 1` offsets, i32, which never fall and begin with 0.
        offsets: u64,
        /// The number of segments.
        count: usize,
        /// The largest number of rows that there may be.
        rows: usize,
    },
    /// One segment of all rows.
    All(Length),
}

impl Segments {
    fn count(self) -> usize {
        match self {
            Self::Offsets { count, .. } => count,
            Self::All(_) => 1,
        }
    }

    fn rows(self) -> usize {
        match self {
            Self::Offsets { rows, .. } => rows,
            Self::All(rows) => rows.capacity,
        }
    }

    fn words(self) -> [u64; 5] {
        let (offsets, rows) = match self {
            Self::Offsets { offsets, rows, .. } => (offsets, Length::new(rows)),
            Self::All(rows) => (0, rows),
        };
        let [capacity, count, wide] = rows.words();
        [offsets, self.count() as u64, capacity, count, wide]
    }
}

fn check_rows(segments: Segments) -> Result<()> {
    let rows = segments.rows();
    if i32::try_from(rows).is_ok() {
        return Ok(());
    }
    Err(Error::argument("rows", format!("at most {}", i32::MAX), rows.to_string()))
}

/// The bytes of scratch for sums and extrema of up to `rows` rows of `width` components.
pub fn reduce_scratch(rows: usize, width: usize) -> usize {
    // Two for each stretch of rows and component: a number and a row.
    if rows <= CHUNK { 0 } else { 2 * rows.div_ceil(CHUNK) * width * 16 }
}

/// The division of a row's components among threads and warps.
struct Shares {
    /// Neighbouring components that neighbouring threads take: whole sectors of memory.
    across: usize,
    /// Groups of as many.
    groups: usize,
    /// Groups that a warp takes.
    at_once: usize,
}

impl Shares {
    fn new(segments: usize, width: usize) -> Self {
        let across = width.next_power_of_two().min(8);
        let groups = width.div_ceil(across);
        let at_once = if segments * groups <= FEW { 1 } else { WARP / across };
        Self { across, groups, at_once }
    }
}

/// Common arguments of the two launches. `values` are those ahead of the width; those after the scratch are each
/// launch's own.
struct Fold<'a> {
    program: &'a Compiled,
    functions: [&'static str; 2],
    values: &'a [u64],
    width: usize,
    segments: Segments,
    scratch: Scratch,
}

impl Fold<'_> {
    fn launch(
        &self,
        queue: &Queue,
        chunks: impl Fn(Arguments) -> Arguments,
        segments: impl Fn(Arguments) -> Arguments,
    ) -> Result<()> {
        check_rows(self.segments)?;
        let (rows, count) = (self.segments.rows(), self.segments.count());
        self.scratch.check(reduce_scratch(rows, self.width))?;
        if self.width == 0 || count == 0 {
            return Ok(());
        }
        let shares = Shares::new(count, self.width);
        let values = || self.values.iter().fold(Arguments::new(), |a, word| a.word(*word));
        let head = || values().word(self.width as u64).word(shares.across as u64);
        if rows > CHUNK {
            let arguments = head().words(&self.segments.words()).word(self.scratch.address);
            let blocks = rows.div_ceil(CHUNK) * shares.groups;
            self.program.launch(queue, self.functions[0], blocks, chunks(arguments))?;
        }
        let arguments = head().word(shares.at_once as u64).words(&self.segments.words());
        let blocks = (count * shares.groups).div_ceil(shares.at_once * WARPS);
        self.program.launch(queue, self.functions[1], blocks, segments(arguments.word(self.scratch.address)))
    }
}

/// The sum of each segment's rows, added in f64 and rounded once: `width` components of f32 or f64 a row, from `values`
/// to `sums`. A segment's bits do not depend on other segments.
///
/// # Errors
/// `dtype`, where it is neither f32 nor f64; `rows`, where there may be more than an i32 counts; `scratch`, where it is
/// smaller than [`reduce_scratch`]; those of the driver.
pub fn segmented_sum(
    queue: &Queue,
    dtype: DType,
    values: u64,
    width: usize,
    segments: Segments,
    sums: u64,
    scratch: Scratch,
) -> Result<()> {
    let fold = Fold {
        program: &sum(float(dtype)?),
        functions: ["sum_chunks", "sum_segments"],
        values: &[values],
        width,
        segments,
        scratch,
    };
    fold.launch(queue, |a| a, |a| a.word(sums))
}

/// Each segment's row to all of its rows: the transpose of [`segmented_sum`], from `values` to `rows`.
///
/// # Errors
/// `dtype`, where it is neither f32 nor f64; `rows`, where there may be more than an i32 counts; those of the driver.
pub fn segmented_broadcast(
    queue: &Queue,
    dtype: DType,
    values: u64,
    width: usize,
    segments: Segments,
    rows: u64,
) -> Result<()> {
    check_rows(segments)?;
    let blocks = tiles(segments.rows() * width);
    let arguments = Arguments::new().word(values).word(width as u64).words(&segments.words()).word(rows);
    broadcast(float(dtype)?).launch(queue, "broadcast", blocks, arguments)
}

/// The destination of a sum over the rows of a kernel: element `segment * stride + component` of an array.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The array.
    pub array: u64,
    /// The type of the array, f32 or f64.
    pub dtype: DType,
    /// Elements from one segment to the next.
    pub stride: usize,
    /// The element's position after `segment * stride`.
    pub component: usize,
    /// The column of the partial sums.
    pub column: usize,
    /// Whether the sum is added to the element, in f64 and rounded once.
    pub adds: bool,
}

/// Adds up columns of `columns` doubles a row, at `partials`, over the rows of each segment, and puts the sums in their
/// places. No two targets are one element.
///
/// # Errors
/// `targets`, where there are more than [`TARGETS`] or one's column or type is none; `rows` and `scratch` as
/// [`segmented_sum`], with as many components as there are targets; those of the driver.
pub fn reduce_partials(
    queue: &Queue,
    partials: u64,
    columns: usize,
    segments: Segments,
    targets: &[Target],
    scratch: Scratch,
) -> Result<()> {
    if targets.len() > TARGETS {
        return Err(Error::argument("targets", format!("at most {TARGETS}"), targets.len().to_string()));
    }
    let mut words = [0; 4 * TARGETS];
    for (words, target) in words.chunks_exact_mut(4).zip(targets) {
        if target.column >= columns {
            let expected = format!("columns below {columns}");
            return Err(Error::argument("targets", expected, target.column.to_string()));
        }
        let wide = u64::from(float(target.dtype)? == "f64");
        // Two halves, the lower one first.
        let flags = wide | u64::from(target.adds) << 1;
        words.copy_from_slice(&[
            target.array,
            target.stride as u64,
            target.component as u64,
            target.column as u64 | flags << 32,
        ]);
    }
    let fold = Fold {
        program: &PARTIALS.of(&[]),
        functions: ["partial_chunks", "partial_segments"],
        values: &[partials, columns as u64],
        width: targets.len(),
        segments,
        scratch,
    };
    fold.launch(queue, |a| a.words(&words), |a| a.words(&words))
}

fn float(dtype: DType) -> Result<&'static str> {
    match dtype {
        DType::F32 => Ok("f32"),
        DType::F64 => Ok("f64"),
        other => Err(Error::argument("dtype", "float32 or float64", other.to_string())),
    }
}

fn sum(real: &'static str) -> Compiled {
    SUM.of(&[("ELEMENT", real)])
}

fn broadcast(real: &'static str) -> Compiled {
    BROADCAST.of(&[("ELEMENT", real)])
}

pub(crate) fn programs() -> Vec<Compiled> {
    let mut all = vec![PARTIALS.of(&[]).with(&["partial_chunks", "partial_segments"])];
    for real in ["f32", "f64"] {
        all.push(sum(real).with(&["sum_chunks", "sum_segments"]));
        all.push(broadcast(real).with(&["broadcast"]));
    }
    all
}
