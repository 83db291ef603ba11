//! What a device does besides launching kernels of the language: scans, sorts, reductions over segments, Fourier
//! transforms, and what is done to arrays element by element.
//!
//! Everything here is given device addresses and queued on a stream. Nothing allocates, waits or is read back, so that a
//! graph can capture it: what memory a call needs besides is scratch, whose size a function says before. Lengths are known
//! to the host, at least as capacities ([`Length`]). Results have the same bits every time, and are those of the CPU
//! ([`crate::backend::primitives`]) but for the order in which sums are added.

mod elementwise;
mod reduce;
mod scan;
mod sort;
mod transpose;

pub use elementwise::{WeightOf, Weights, add, cast, check_finite, fill, poison, scale_rows};
pub use reduce::{
    Segments, TARGETS, Target, reduce_partials, reduce_scratch, segmented_broadcast, segmented_extremum,
    segmented_sum,
};
pub use scan::{scan, scan_scratch};
pub use sort::{Key, segment_bounds, sort_by_key, sort_scratch};
pub use transpose::{List, Transposed, transpose, transpose_scratch};

use super::Stream;
use crate::array::DType;
use crate::{Error, Result};

/// Threads of every block: THREADS in common.cuh.
const THREADS: usize = 256;
/// Elements of a block, where each is treated by itself: EACH_TILE in common.cuh.
const EACH_TILE: usize = 4 * THREADS;

/// How many elements there are.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    capacity: usize,
    count: u64,
    wide: bool,
}

impl Length {
    /// As many.
    pub fn new(n: usize) -> Self {
        Self { capacity: n, count: 0, wide: false }
    }

    /// Up to as many: the true number is at an address on the device, an i32 or an i64. One that is larger counts as the
    /// capacity, one below zero as zero.
    ///
    /// # Errors
    /// `count`, where it is a u32.
    pub fn on_device(capacity: usize, count: (Integer, u64)) -> Result<Self> {
        let wide = match count.0 {
            Integer::I32 => false,
            Integer::I64 => true,
            Integer::U32 => return Err(Error::argument("count", "i32 or i64", "u32")),
        };
        Ok(Self { capacity, count: count.1, wide })
    }

    /// In the layout of the text's `Length`.
    fn words(self) -> [u64; 3] {
        [self.capacity as u64, self.count, u64::from(self.wide)]
    }
}

/// The type of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integer {
    /// i32
    I32,
    /// u32
    U32,
    /// i64
    I64,
}

impl Integer {
    fn name(self) -> &'static str {
        match self {
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::I64 => "i64",
        }
    }

    fn largest(self) -> u64 {
        match self {
            Self::I32 => i32::MAX as u64,
            Self::U32 => u32::MAX.into(),
            Self::I64 => i64::MAX as u64,
        }
    }
}

/// The status word that a call raises.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    word: u64,
    param: u64,
}

impl Status {
    /// Of a call whose reasons nobody asks for.
    pub const IGNORED: Self = Self { word: 0, param: 0 };

    /// The word ([`crate::backend::status::Word`]) at an address, to be raised for a parameter if there is one.
    pub fn new(word: u64, param: Option<u32>) -> Self {
        Self { word, param: param.map_or(0, |p| u64::from(p) + 1) }
    }
}

/// Memory that a call may use as it likes, aligned to 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Scratch {
    /// Where it is; any number if it is empty.
    pub address: u64,
    /// Its size.
    pub bytes: usize,
}

impl Scratch {
    /// None.
    pub const EMPTY: Self = Self { address: 0, bytes: 0 };

    fn check(self, needed: usize) -> Result<()> {
        if self.bytes < needed {
            return Err(Error::argument("scratch", format!("{needed} bytes"), self.bytes.to_string()));
        }
        if needed > 0 && !self.address.is_multiple_of(16) {
            let got = format!("{:#x}", self.address);
            return Err(Error::argument("scratch", "an address that is a multiple of 16", got));
        }
        Ok(())
    }
}

/// The bytes of scratch for what has as many, so that what comes next is aligned.
fn room(bytes: usize) -> usize {
    bytes.next_multiple_of(16)
}

/// Blocks for elements that are treated by themselves.
fn tiles(n: usize) -> usize {
    n.div_ceil(EACH_TILE)
}

/// The name of a real type in the texts.
fn real(name: &str, dtype: DType) -> Result<&'static str> {
    match dtype {
        DType::F16 => Ok("f16"),
        DType::BF16 => Ok("bf16"),
        DType::F32 => Ok("f32"),
        DType::F64 => Ok("f64"),
        DType::I32 | DType::I64 => Err(Error::argument(name, "a real type", dtype.to_string())),
    }
}
