//! Resources that XLA lends a call on a CUDA device: its stream, and scratch memory.
//!
//! XLA's functions may be called from any thread while the frame is executed. Arrays in scratch memory are dropped
//! before the handler returns; freed memory goes to later work of the stream.
#![expect(unsafe_code, reason = "foreign functions, and memory that they hand out")]

use crate::ffi::{Api, ApiArguments, Call, Output};
use madelung_core::array::{Array, DType, Place};
use madelung_core::backend::Context;
use madelung_core::backend::context::Allocator;
use madelung_core::{Error, Result};
use madelung_cuda::{Cuda, Stream};
use std::ffi::{CStr, c_char, c_void};

/// The largest alignment that XLA accepts; its blocks begin at multiples of 256.
const ALIGNMENT: usize = 16;

/// XLA's functions, and the context of an execution.
#[derive(Clone, Copy)]
struct Xla {
    api: &'static Api,
    context: *mut c_void,
}

// SAFETY: XLA's functions for memory may be called from any thread.
unsafe impl Send for Xla {}
// SAFETY: as above.
unsafe impl Sync for Xla {}

/// The stream of a call, and XLA's allocator for work on that stream.
struct Runtime {
    xla: Xla,
    stream: Stream,
}

/// A block of XLA's memory, freed on drop.
struct Block {
    xla: Xla,
    address: usize,
    bytes: usize,
}

impl Runtime {
    /// The runtime of a call.
    fn of(call: &Call<'_>) -> Result<Self> {
        let (api, context) = call.runtime();
        let xla = Xla { api, context };
        let get = xla.has(api.stream_get)?;
        let mut arguments = ApiArguments::new(context, [0]);
        // SAFETY: the arguments are those of the function.
        xla.check(unsafe { get(&raw mut arguments) }, "asking XLA for its stream")?;
        // SAFETY: XLA's stream lives for longer than the call.
        let stream = unsafe { Stream::of(arguments.words[0]) }?;
        Ok(Self { xla, stream })
    }
}

/// Runs `work` on XLA's stream, with `scratch` or, without one, with memory of XLA's allocator.
pub(crate) fn on_stream(
    call: &Call<'_>,
    scratch: Option<&Output<'_>>,
    work: impl FnOnce(&Context<'_>, Stream) -> Result<()>,
) -> Result<()> {
    let runtime = Runtime::of(call)?;
    let stream = runtime.stream;
    let arena = scratch.map(|output| output.arena_on(stream)).transpose()?;
    let allocator: &dyn Allocator = match &arena {
        Some(arena) => arena,
        None => &runtime,
    };
    work(&Context { allocator, ..Context::new(&Cuda::new(stream)) }, stream)
}

/// The last result of a call, which is its scratch.
pub(crate) fn scratch_of<'a>(outputs: &mut Vec<Output<'a>>) -> Result<Output<'a>> {
    outputs.pop().ok_or_else(|| Error::argument("results", "scratch as the last one", "none"))
}

impl Xla {
    fn has<F>(&self, function: Option<F>) -> Result<F> {
        function.ok_or_else(|| {
            Error::Unsupported("JAX: this XLA lacks a function of its FFI; madelung.jax needs 0.6".into())
        })
    }

    /// Checks an error pointer of XLA.
    ///
    /// # Errors
    /// XLA's error, unless the pointer is null.
    fn check(&self, error: *mut c_void, doing: &str) -> Result<()> {
        if error.is_null() {
            return Ok(());
        }
        let mut text = "no reason is given".to_string();
        if let (Some(message), Some(destroy)) = (self.api.error_message, self.api.error_destroy) {
            let (mut arguments, mut over) = (ApiArguments::new(error, [0]), ApiArguments::new(error, []));
            // SAFETY: the error is owned, its message lives as long, and it is destroyed once.
            unsafe {
                message(&raw mut arguments);
                let message = std::ptr::with_exposed_provenance::<c_char>(arguments.words[0]);
                if !message.is_null() {
                    text = CStr::from_ptr(message).to_string_lossy().into_owned();
                }
                destroy(&raw mut over);
            }
        }
        Err(Error::Driver(format!("{doing}: {text}")))
    }

    fn allocate(self, bytes: usize) -> Result<Block> {
        if bytes == 0 {
            return Ok(Block { xla: self, address: 0, bytes });
        }
        let allocate = self.has(self.api.memory_allocate)?;
        let mut arguments = ApiArguments::new(self.context, [bytes, ALIGNMENT, 0]);
        // SAFETY: the arguments are those of the function.
        let code = unsafe { allocate(&raw mut arguments) };
        self.check(code, &format!("asking XLA for {bytes} bytes")).map_err(|error| {
            let ran_out =
                ["RESOURCE_EXHAUSTED", "memory"].iter().any(|word| error.to_string().contains(word));
            if ran_out { Error::memory(bytes, None) } else { error }
        })?;
        Ok(Block { xla: self, address: arguments.words[2], bytes })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let (Some(free), true) = (self.xla.api.memory_free, self.bytes > 0) {
            let mut arguments = ApiArguments::new(self.xla.context, [self.bytes, self.address]);
            // SAFETY: the block came from this execution and is not used again.
            let error = unsafe { free(&raw mut arguments) };
            // A block that XLA fails to free is leaked, which harms nothing else.
            let _ = self.xla.check(error, "giving memory back to XLA");
        }
    }
}

impl Allocator for Runtime {
    fn zeros(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        let array = self.room(dtype, shape)?;
        let view = array.view();
        // SAFETY: the new array has as many bytes, and nothing else uses them.
        unsafe { self.stream.zero(view.data().pointer().addr() as u64, view.len() * dtype.size())? };
        Ok(array)
    }

    fn room(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        let block = self.xla.allocate(shape.iter().product::<usize>() * dtype.size())?;
        let (place, address) = (Place::Cuda(self.stream.device().ordinal()), block.address as u64);
        // SAFETY: the block has as many bytes, aligned for any dtype, and is reused only by later work of the stream.
        Ok(unsafe { Array::remote(place, dtype, shape, address, Box::new(block)) })
    }

    fn recycle(&self, array: Array) {
        drop(array);
    }
}
