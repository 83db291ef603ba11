//! Primitives of a device besides kernels of the language: scans, sorts, reductions over segments, Fourier transforms,
//! and elementwise operations.
//!
//! Each primitive takes device addresses and is queued on a stream. None allocates, waits or reads back, so that a
//! graph can capture it: memory for its own use is scratch, whose size a function gives ahead of the call. Lengths are
//! known to the host, at least as capacities ([`Length`]). Results are bitwise reproducible, and equal the CPU's
//! ([`madelung_core::backend::primitives`]) except for the order of additions in sums.
//!
//! Calls are those of a [`Queue`], which is made with a promise that all addresses are good.
#![expect(
    unsafe_code,
    reason = "functions are launched here, with the addresses that the caller answers for"
)]

mod elementwise;
mod fft;
mod reduce;
mod scan;
mod sort;
mod transpose;

pub(crate) use elementwise::bits_of;
pub use elementwise::{WeightOf, add, cast, check_finite, fill, poison, scale_rows};
pub use fft::{fft_scratch, inverse_real_fft, real_fft};
pub use reduce::{
    Segments, TARGETS, Target, reduce_partials, reduce_scratch, segmented_broadcast, segmented_sum,
};
pub use scan::{scan, scan_scratch};
pub use sort::{Key, segment_bounds, sort_by_key, sort_scratch};
pub use transpose::{List, Transposed, transpose, transpose_scratch};

use crate::cufft::Plan;
use crate::{Device, Function, Program, Stream};
use madelung_core::array::DType;
use madelung_core::{Error, Result};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Threads of every block: THREADS in common.cuh.
const THREADS: usize = 256;
/// Elements of a block, where each is treated by itself: EACH_TILE in common.cuh.
const EACH_TILE: usize = 4 * THREADS;

/// A number of elements.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    capacity: usize,
    count: u64,
    wide: bool,
}

impl Length {
    /// A length that the host knows.
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

    /// The layout of the text's `Length`.
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
    /// The status of a call whose errors are ignored.
    pub const IGNORED: Self = Self { word: 0, param: 0 };

    /// The word ([`madelung_core::backend::status::Word`]) at an address, to be raised for a parameter if there is one.
    pub fn new(word: u64, param: Option<u32>) -> Self {
        Self { word, param: param.map_or(0, |p| u64::from(p) + 1) }
    }
}

/// Memory that a call may use as it likes, aligned to 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Scratch {
    /// The address; any number if it is empty.
    pub address: u64,
    /// The size.
    pub bytes: usize,
}

impl Scratch {
    /// No scratch.
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

/// The bytes of scratch for an array of `bytes` bytes, so that the next array is aligned.
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

/// A stream, for calls with addresses.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    stream: Stream,
}

impl Queue {
    /// The queue of a stream.
    ///
    /// # Safety
    /// The addresses in every call are those of the device's memory, aligned to its elements, with as many of them as
    /// the call says, and nothing else uses them until the stream has finished the call. The data satisfy the call's
    /// requirements: offsets do not fall and lie in their range, systems exist.
    pub unsafe fn new(stream: Stream) -> Self {
        Self { stream }
    }

    pub(crate) fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<()> {
        // SAFETY: these are addresses of a call, of different arrays: see `new`.
        unsafe { self.stream.copy(to, from, bytes) }
    }

    fn transform(&self, plan: &Plan, from: u64, to: u64, work: u64) -> Result<()> {
        // SAFETY: these are addresses of a call, with room for what the plan is for: see `new` and `fft`.
        unsafe { plan.run(self.stream, from, to, work) }
    }
}

/// A text that is compiled for one choice of types or another.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    name: &'static str,
    pieces: &'static [&'static str],
}

impl Text {
    /// Text of a name, in pieces.
    pub const fn new(name: &'static str, pieces: &'static [&'static str]) -> Self {
        Self { name, pieces }
    }

    /// The text with types in the place of names.
    pub fn of(&self, types: &[(&'static str, &'static str)]) -> Compiled {
        Compiled {
            name: self.name,
            pieces: self.pieces,
            types: types.to_vec(),
            functions: &[],
            contracts: true,
        }
    }
}

/// A text with its types.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The name.
    pub name: &'static str,
    /// The CUDA text, in pieces.
    pub pieces: &'static [&'static str],
    /// The macros that are defined ahead of the text.
    pub types: Vec<(&'static str, &'static str)>,
    /// The functions.
    pub functions: &'static [&'static str],
    /// See [`Program::contracts`].
    pub contracts: bool,
}

/// The functions that were launched before. Looking one up in a device means to hash its text.
type Known = HashMap<(usize, &'static str, Vec<(&'static str, &'static str)>, &'static str), Function>;
static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

impl Compiled {
    /// The text with these functions.
    #[must_use]
    pub fn with(mut self, functions: &'static [&'static str]) -> Self {
        self.functions = functions;
        self
    }

    /// The CUDA text.
    pub fn text(&self) -> String {
        self.pieces.concat()
    }

    /// A function of the text on a device, compiled at first use.
    ///
    /// # Errors
    /// The compiler's, the driver's.
    pub fn function(&self, device: &'static Device, function: &'static str) -> Result<Function> {
        let key = (device.ordinal(), self.name, self.types.clone(), function);
        if let Some(known) = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(*known);
        }
        let Self { name, types, contracts, .. } = self;
        let program = Program { name, text: self.text().into(), defines: types, contracts: *contracts };
        let found = device.function(&program, function)?;
        KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(key, found);
        Ok(found)
    }

    fn launch(
        &self,
        queue: &Queue,
        function: &'static str,
        blocks: usize,
        arguments: Arguments,
    ) -> Result<()> {
        if blocks == 0 {
            return Ok(());
        }
        let Some(grid) = u32::try_from(blocks).ok().filter(|n| *n <= i32::MAX as u32) else {
            let expected = format!("so many that {} blocks have them", i32::MAX);
            return Err(Error::argument("elements", expected, format!("as many as {blocks} have")));
        };
        let function = self.function(queue.stream.device(), function)?;
        let args: Vec<*const c_void> =
            arguments.starts.iter().map(|at| (&raw const arguments.words[*at]).cast()).collect();
        // SAFETY: each call here gives its function's parameters, all of them numbers of 64 bits, addresses or structs of
        // these; what they stand for has been promised in `Queue::new`.
        unsafe { queue.stream.launch(function, [grid, 1, 1], [THREADS as u32, 1, 1], &args) }
    }
}

/// Texts of all primitives with all types.
pub(crate) fn programs() -> Vec<Compiled> {
    [
        elementwise::programs(),
        scan::programs(),
        sort::programs(),
        reduce::programs(),
        fft::programs(),
        transpose::programs(),
    ]
    .concat()
}

/// The arguments of a function, all of 64-bit numbers.
#[derive(Default)]
struct Arguments {
    words: Vec<u64>,
    starts: Vec<usize>,
}

impl Arguments {
    fn new() -> Self {
        Self::default()
    }

    /// A number or an address.
    fn word(self, word: u64) -> Self {
        self.words(&[word])
    }

    /// A struct of numbers.
    fn words(mut self, words: &[u64]) -> Self {
        self.starts.push(self.words.len());
        self.words.extend_from_slice(words);
        self
    }

    fn length(self, n: Length) -> Self {
        self.words(&n.words())
    }

    fn status(self, status: Status) -> Self {
        self.words(&[status.word, status.param])
    }
}
