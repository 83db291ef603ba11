//! XLA's typed FFI: the C structs of `xla/ffi/api/c_api.h`, and a frame as safe views.
//!
//! The structs are the common prefix of the runtimes from 0.1 (jaxlib 0.4.35) to 0.3; later runtimes append fields,
//! which are not used. XLA calls a handler with a frame that is valid during the call, when nothing writes to the
//! operand buffers and the result buffers belong to the handler. No panic unwinds out of a handler.
#![expect(unsafe_code, reason = "a foreign calling convention and memory behind foreign pointers")]

use madelung_bridge::unfit;
use madelung_core::array::{Array, DType, Data, Place, View};
use madelung_core::stop::caught;
use madelung_core::structure::pairs::clusters::STALE;
use madelung_core::{Error, Result};
use madelung_cuda::{Arena, Stream};
use std::any::Any;
use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

/// The header version of these declarations.
const HEADER: (c_int, c_int) = (0, 3);
/// The oldest version, which every runtime accepts.
const OLDEST: (c_int, c_int) = (0, 1);

const EXTENSION_METADATA: u32 = 1;
const STAGE_EXECUTE: u32 = 3;
const BUFFER: u32 = 1;
const ATTRIBUTE_SCALAR: u32 = 3;
const ATTRIBUTE_STRING: u32 = 4;

const CANCELLED: u32 = 1;
const INVALID_ARGUMENT: u32 = 3;
const RESOURCE_EXHAUSTED: u32 = 8;
const UNIMPLEMENTED: u32 = 12;
const INTERNAL: u32 = 13;

/// The trait of handlers whose work XLA may capture in a command buffer and replay.
pub(crate) const CAPTURABLE: u32 = 1;

const S64: u32 = 5;
const U8: u32 = 6;
const F64: u32 = 12;
const DTYPES: [(u32, DType); 6] = [
    (F64, DType::F64),
    (11, DType::F32),
    (4, DType::I32),
    (S64, DType::I64),
    (10, DType::F16),
    (16, DType::BF16),
];

#[repr(C)]
struct Extension {
    size: usize,
    kind: u32,
    next: *mut Extension,
}

#[repr(C)]
struct Version {
    size: usize,
    extension: *mut Extension,
    major: c_int,
    minor: c_int,
}

#[repr(C)]
struct Metadata {
    size: usize,
    version: Version,
    traits: u32,
}

#[repr(C)]
struct MetadataExtension {
    base: Extension,
    metadata: *mut Metadata,
}

#[repr(C)]
struct ErrorCreate {
    size: usize,
    extension: *mut Extension,
    message: *const c_char,
    code: u32,
}

/// XLA's table of functions, each of which returns an error or null.
#[repr(C)]
pub(crate) struct Api {
    size: usize,
    extension: *mut Extension,
    version: Version,
    internal: *const c_void,
    error_create: unsafe extern "C" fn(*mut ErrorCreate) -> *mut c_void,
    pub(crate) error_message: Option<unsafe extern "C" fn(*mut ApiArguments<1>)>,
    pub(crate) error_destroy: Option<unsafe extern "C" fn(*mut ApiArguments<0>)>,
    _handler_register: *const c_void,
    pub(crate) stream_get: Option<unsafe extern "C" fn(*mut ApiArguments<1>) -> *mut c_void>,
    _type_register: *const c_void,
    _context_get: *const c_void,
    _state: [*const c_void; 2],
    pub(crate) memory_allocate: Option<unsafe extern "C" fn(*mut ApiArguments<3>) -> *mut c_void>,
    pub(crate) memory_free: Option<unsafe extern "C" fn(*mut ApiArguments<2>) -> *mut c_void>,
}

/// The arguments of a function of XLA: its subject (the execution's context, or an error), and the words that it reads
/// or writes.
#[repr(C)]
pub(crate) struct ApiArguments<const WORDS: usize> {
    size: usize,
    extension: *mut Extension,
    pub(crate) of: *mut c_void,
    pub(crate) words: [usize; WORDS],
}

impl<const WORDS: usize> ApiArguments<WORDS> {
    pub(crate) fn new(of: *mut c_void, words: [usize; WORDS]) -> Self {
        Self { size: size_of::<Self>(), extension: null_mut(), of, words }
    }
}

#[repr(C)]
struct Text {
    start: *const u8,
    len: usize,
}

#[repr(C)]
struct Scalar {
    dtype: u32,
    value: *const c_void,
}

#[repr(C)]
struct RawBuffer {
    size: usize,
    extension: *mut Extension,
    dtype: u32,
    data: *mut u8,
    rank: i64,
    dims: *const i64,
}

#[repr(C)]
struct Buffers {
    size: usize,
    extension: *mut Extension,
    count: i64,
    kinds: *const u32,
    items: *const *const RawBuffer,
}

#[repr(C)]
struct Attributes {
    size: usize,
    extension: *mut Extension,
    count: i64,
    kinds: *const u32,
    names: *const *const Text,
    items: *const *const c_void,
}

/// XLA's frame of a call.
#[repr(C)]
pub struct CallFrame {
    size: usize,
    extension: *mut Extension,
    api: *const Api,
    context: *mut c_void,
    stage: u32,
    operands: Buffers,
    results: Buffers,
    attributes: Attributes,
}

/// A handler for registration, which returns XLA's error or null.
pub type Handler = unsafe extern "C" fn(*mut CallFrame) -> *mut c_void;

/// A frame during its execution.
pub(crate) struct Call<'a>(&'a CallFrame);

/// An operand buffer.
#[derive(Clone, Debug)]
pub(crate) struct Operand<'a> {
    dtype: u32,
    data: *const u8,
    pub(crate) shape: Vec<usize>,
    life: std::marker::PhantomData<&'a u8>,
}

/// A result buffer.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    dtype: u32,
    data: *mut u8,
    pub(crate) shape: Vec<usize>,
    life: std::marker::PhantomData<&'a mut u8>,
}

fn number_of(dtype: DType) -> u32 {
    DTYPES.iter().find(|(_, of)| *of == dtype).map_or(0, |(n, _)| *n)
}

fn dtype_of(number: u32) -> Option<DType> {
    DTYPES.iter().find(|(n, _)| *n == number).map(|(_, dtype)| *dtype)
}

impl<'a> Call<'a> {
    /// XLA's functions, and the execution context to pass to them.
    pub(crate) fn runtime(&self) -> (&'static Api, *mut c_void) {
        // SAFETY: an executed frame has the API, which lives as long as the process.
        (unsafe { &*self.0.api }, self.0.context)
    }

    /// The operands in order.
    pub(crate) fn operands(&self) -> Result<Vec<Operand<'a>>> {
        let read = |(dtype, data, shape): (u32, *mut u8, Vec<usize>)| Operand {
            dtype,
            data,
            shape,
            life: std::marker::PhantomData,
        };
        Ok(self.buffers(&self.0.operands)?.into_iter().map(read).collect())
    }

    /// The results in order; to be called once.
    pub(crate) fn outputs(&self) -> Result<Vec<Output<'a>>> {
        let read = |(dtype, data, shape): (u32, *mut u8, Vec<usize>)| Output {
            dtype,
            data,
            shape,
            life: std::marker::PhantomData,
        };
        Ok(self.buffers(&self.0.results)?.into_iter().map(read).collect())
    }

    fn buffers(&self, of: &Buffers) -> Result<Vec<(u32, *mut u8, Vec<usize>)>> {
        let mut out = Vec::with_capacity(of.count as usize);
        for n in 0..of.count as usize {
            // SAFETY: there are `count` kinds and items, and an item of this kind is a buffer with `rank` sizes.
            let (kind, raw) = unsafe { (*of.kinds.add(n), &**of.items.add(n)) };
            if kind != BUFFER {
                return Err(Error::Unsupported(format!(
                    "JAX: array {n} of a call is no buffer (kind {kind})"
                )));
            }
            let mut shape = Vec::with_capacity(raw.rank as usize);
            for axis in 0..raw.rank as usize {
                // SAFETY: as above.
                shape.push(unsafe { *raw.dims.add(axis) } as usize);
            }
            let elements: usize = shape.iter().product();
            let size = dtype_of(raw.dtype).map_or(1, DType::size);
            if elements > 0 && (raw.data.is_null() || !raw.data.addr().is_multiple_of(size)) {
                let expected = "arrays whose memory is there and aligned";
                return Err(Error::argument(
                    format!("array {n} of the call"),
                    expected,
                    format!("address {:#x}", raw.data.addr()),
                ));
            }
            out.push((raw.dtype, raw.data, shape));
        }
        Ok(out)
    }

    /// The kind and value of the attribute `name`.
    fn attribute(&self, name: &str) -> Result<(u32, *const c_void)> {
        let of = &self.0.attributes;
        for n in 0..of.count as usize {
            // SAFETY: there are `count` names, kinds and items.
            let (text, kind, item) = unsafe { (&**of.names.add(n), *of.kinds.add(n), *of.items.add(n)) };
            if text.bytes() == name.as_bytes() {
                return Ok((kind, item));
            }
        }
        Err(Error::argument(name, "an attribute of the call", "none"))
    }

    fn scalar(&self, name: &str, dtype: u32, expected: &str) -> Result<u64> {
        let (kind, item) = self.attribute(name)?;
        if kind == ATTRIBUTE_SCALAR {
            // SAFETY: an attribute of this kind is a scalar.
            let scalar = unsafe { &*item.cast::<Scalar>() };
            if scalar.dtype == dtype {
                // SAFETY: both dtypes in use have 64 bits.
                return Ok(unsafe { scalar.value.cast::<u64>().read_unaligned() });
            }
        }
        Err(Error::argument(name, format!("an attribute that is {expected}"), "one of another type"))
    }

    /// The bits of an integer attribute.
    pub(crate) fn integer(&self, name: &str) -> Result<u64> {
        self.scalar(name, S64, "a 64-bit integer")
    }

    /// The bits of a real attribute.
    pub(crate) fn real(&self, name: &str) -> Result<u64> {
        self.scalar(name, F64, "a double")
    }

    /// The string attribute `name`.
    pub(crate) fn text(&self, name: &str) -> Result<&'a str> {
        let (kind, item) = self.attribute(name)?;
        if kind != ATTRIBUTE_STRING {
            return Err(Error::argument(name, "an attribute that is a string", "one of another type"));
        }
        // SAFETY: an attribute of this kind is a string, which lives as long as the frame.
        let text: &'a Text = unsafe { &*item.cast::<Text>() };
        std::str::from_utf8(text.bytes()).map_err(|e| Error::argument(name, "UTF-8", e.to_string()))
    }
}

impl Text {
    fn bytes(&self) -> &[u8] {
        match self.len {
            0 => &[],
            // SAFETY: the string has `n` bytes.
            n => unsafe { std::slice::from_raw_parts(self.start, n) },
        }
    }
}

impl<'a> Operand<'a> {
    /// An operand without memory, for measuring the scratch of a call.
    pub(crate) fn without_memory(dtype: DType, shape: &[usize]) -> Self {
        Self {
            dtype: number_of(dtype),
            data: null_mut(),
            shape: shape.into(),
            life: std::marker::PhantomData,
        }
    }

    /// A view of an operand in host memory; `name` is the name of the argument in errors.
    pub(crate) fn view(&self, name: &dyn Fn() -> String) -> Result<View<'a>> {
        let dtype = self.supported_dtype(name)?;
        let data = match dtype {
            DType::F16 => Data::F16(self.elements()),
            DType::BF16 => Data::BF16(self.elements()),
            DType::F32 => Data::F32(self.elements()),
            DType::F64 => Data::F64(self.elements()),
            DType::I32 => Data::I32(self.elements()),
            DType::I64 => Data::I64(self.elements()),
        };
        View::new(data, &self.shape)
    }

    /// A view of an operand in device memory.
    pub(crate) fn view_on(&self, place: Place, name: &dyn Fn() -> String) -> Result<View<'a>> {
        let dtype = self.supported_dtype(name)?;
        // SAFETY: the buffer has as many elements, in row-major order, and XLA orders writes to it on the call's
        // stream.
        Ok(unsafe { View::remote(place, dtype, &self.shape, self.data.addr() as u64) })
    }

    fn supported_dtype(&self, name: &dyn Fn() -> String) -> Result<DType> {
        dtype_of(self.dtype).ok_or_else(|| {
            let expected = "an array of floating-point numbers or of int32 or int64";
            Error::argument(name(), expected, "one of another dtype")
        })
    }

    fn elements<T>(&self) -> &'a [T] {
        match self.shape.iter().product() {
            0 => &[],
            // SAFETY: `buffers` checked that the memory is not null and aligned; it has at least as many elements (rows
            // may have been cut off), in row-major order, and is valid during the call.
            n => unsafe { std::slice::from_raw_parts(self.data.cast(), n) },
        }
    }
}

impl Output<'_> {
    /// An output without memory, like [`Operand::without_memory`].
    pub(crate) fn without_memory(dtype: DType, shape: &[usize]) -> Self {
        Self {
            dtype: number_of(dtype),
            data: null_mut(),
            shape: shape.into(),
            life: std::marker::PhantomData,
        }
    }

    /// The result as an array of a device, for work on the call's stream.
    pub(crate) fn array_on(&self, place: Place) -> Result<Array> {
        let dtype = dtype_of(self.dtype).ok_or_else(unknown)?;
        // SAFETY: the buffer has as many elements, in row-major order, and belongs to this work of the stream; the
        // array is dropped before the handler returns.
        Ok(unsafe { Array::remote(place, dtype, &self.shape, self.data.addr() as u64, Box::new(())) })
    }

    /// The result as scratch memory of the call.
    pub(crate) fn arena_on(&self, stream: Stream) -> Result<Arena> {
        let (U8, [bytes]) = (self.dtype, &self.shape[..]) else {
            let got = format!("an array of shape {:?} and another dtype", self.shape);
            return Err(Error::argument("scratch", "uint8 of one axis as the last result", got));
        };
        // SAFETY: the buffer has as many bytes and belongs to this work of the stream; arrays in it are dropped before
        // the handler returns.
        Ok(unsafe { Arena::new(stream, self.data.addr() as u64, *bytes) })
    }

    fn bytes(&self) -> Result<usize> {
        let size = dtype_of(self.dtype).ok_or_else(unknown)?.size();
        Ok(size * self.shape.iter().product::<usize>())
    }

    /// Writes an array, padded with rows of zeros.
    pub(crate) fn write(&mut self, array: &View<'_>) -> Result<()> {
        let (whole, shape) = (self.bytes()?, array.shape());
        let fits = shape.len() == self.shape.len()
            && shape.get(1..) == self.shape.get(1..)
            && shape.first() <= self.shape.first();
        self.must_fit(array, fits)?;
        let bytes = array.len() * array.dtype().size();
        if whole > 0 {
            // SAFETY: the result has `whole` bytes and the array `bytes` ≤ `whole`; they do not overlap.
            unsafe {
                std::ptr::copy_nonoverlapping(array.data().pointer(), self.data, bytes);
                std::ptr::write_bytes(self.data.add(bytes), 0, whole - bytes);
            }
        }
        Ok(())
    }

    /// Enqueues a copy of a device array to the result, unless it is the result itself.
    pub(crate) fn write_on(&mut self, stream: Stream, array: &View<'_>) -> Result<()> {
        self.must_fit(array, array.shape() == self.shape)?;
        let (Data::Device(from), bytes) = (array.data(), self.bytes()?) else {
            return Err(Error::argument("result", "an array of a device", "one of the host"));
        };
        if from.address() == self.data.addr() as u64 {
            return Ok(());
        }
        // SAFETY: the buffer has as many bytes and belongs to this work of the stream.
        unsafe { stream.copy(self.data.addr() as u64, from.address(), bytes) }
    }

    fn must_fit(&self, array: &View<'_>, fits: bool) -> Result<()> {
        if fits && dtype_of(self.dtype) == Some(array.dtype()) {
            return Ok(());
        }
        Err(unfit(array.dtype(), array.shape(), &self.shape))
    }

    /// Sets all elements to NaN, and integers to those of a list that is out of date and longer than every room, so that what is
    /// made of it is poisoned in turn.
    pub(crate) fn poison(&mut self) -> Result<()> {
        let is_real = dtype_of(self.dtype).is_some_and(|dtype| dtype.is_real());
        // All bits set is a NaN in every format.
        let byte = if is_real { 0xff } else { 0x7f };
        let whole = self.bytes()?;
        if whole > 0 {
            // SAFETY: the result has `whole` bytes.
            unsafe { std::ptr::write_bytes(self.data, byte, whole) };
        }
        if whole >= size_of::<i32>() && dtype_of(self.dtype) == Some(DType::I32) {
            // SAFETY: the result has an element, which is an i32.
            unsafe { self.data.cast::<i32>().write_unaligned(STALE) };
        }
        Ok(())
    }
}

fn unknown() -> Error {
    Error::Unsupported("JAX: a result of a dtype that no op has".into())
}

/// Answers XLA's query of a handler's metadata at its registration, and runs `work` in the frames of calls.
///
/// # Safety
/// The frame is one that XLA calls a handler with.
pub(crate) unsafe fn enter(
    frame: *mut CallFrame,
    traits: u32,
    work: impl FnOnce(&Call<'_>) -> Result<()>,
) -> *mut c_void {
    // SAFETY: as promised by the caller.
    let frame = unsafe { &*frame };
    // SAFETY: extensions are a linked list, and one of this kind has the metadata; the API, if given, has a version.
    unsafe {
        let mut extension = frame.extension;
        while !extension.is_null() {
            if (*extension).kind == EXTENSION_METADATA {
                let metadata = (*extension.cast::<MetadataExtension>()).metadata;
                // A runtime rejects versions later than its own, and fails to load the backend. Runtimes up to 0.1 do
                // not report a version.
                let answer = match frame.api.is_null() {
                    true => OLDEST,
                    false => HEADER.min(((*frame.api).version.major, (*frame.api).version.minor)),
                };
                ((*metadata).version.major, (*metadata).version.minor) = answer;
                (*metadata).traits = traits;
                return null_mut();
            }
            extension = (*extension).next;
        }
    }
    if frame.stage != STAGE_EXECUTE {
        return null_mut();
    }
    let (code, message) = match catch_unwind(AssertUnwindSafe(|| caught(String::new, || work(&Call(frame)))))
    {
        Ok(Ok(())) => return null_mut(),
        Ok(Err(error @ Error::Unsupported(_))) => (UNIMPLEMENTED, error.to_string()),
        Ok(Err(error @ Error::Memory { .. })) => (RESOURCE_EXHAUSTED, error.to_string()),
        Ok(Err(Error::Interrupted)) => (CANCELLED, Error::Interrupted.to_string()),
        Ok(Err(error @ Error::Driver(_))) => (INTERNAL, error.to_string()),
        Ok(Err(error)) => (INVALID_ARGUMENT, error.to_string()),
        Err(panic) => {
            (INTERNAL, format!("a defect in Madelung, please report it: {}", panic_message(&*panic)))
        }
    };
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    let mut create = ErrorCreate {
        size: size_of::<ErrorCreate>(),
        extension: null_mut(),
        message: message.as_ptr(),
        code,
    };
    // SAFETY: an executed frame has the API; the message is copied.
    unsafe { ((*frame.api).error_create)(&raw mut create) }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
