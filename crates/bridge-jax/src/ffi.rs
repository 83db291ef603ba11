//! XLA's typed FFI: the C structs of `xla/ffi/api/c_api.h`, and a frame as safe views.
//!
//! The structs are the part that every runtime from 0.1 (jaxlib 0.4.35) to 0.3 lays out alike; what later ones added
//! stands behind it and is not touched. XLA calls a handler with a frame that stays whole for the call, whose operand
//! buffers nobody writes to meanwhile and whose result buffers nobody else has. Nothing unwinds out of a handler.
#![expect(unsafe_code, reason = "a foreign calling convention and memory behind foreign pointers")]

use madelung_core::array::{DType, Data, View};
use madelung_core::{Error, Result};
use std::any::Any;
use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

/// The version of the header that these declarations were read from.
const HEADER: (c_int, c_int) = (0, 3);
/// What every runtime since the first that asks accepts.
const OLDEST: (c_int, c_int) = (0, 1);

const EXTENSION_METADATA: u32 = 1;
const STAGE_EXECUTE: u32 = 3;
const BUFFER: u32 = 1;
const ATTRIBUTE_SCALAR: u32 = 3;
const ATTRIBUTE_STRING: u32 = 4;
const COMMAND_BUFFER_COMPATIBLE: u32 = 1;

const INVALID_ARGUMENT: u32 = 3;
const UNIMPLEMENTED: u32 = 12;
const INTERNAL: u32 = 13;

const S64: u32 = 5;
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

#[repr(C)]
struct Api {
    size: usize,
    extension: *mut Extension,
    version: Version,
    internal: *const c_void,
    error_create: unsafe extern "C" fn(*mut ErrorCreate) -> *mut c_void,
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

/// A call as XLA makes it.
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

/// A handler, as it is registered. The result is XLA's error, or null.
pub type Handler = unsafe extern "C" fn(*mut CallFrame) -> *mut c_void;

/// A frame that is being executed.
pub(crate) struct Call<'a>(&'a CallFrame);

/// An operand.
#[derive(Clone, Debug)]
pub(crate) struct Operand<'a> {
    dtype: u32,
    data: *const u8,
    pub(crate) shape: Vec<usize>,
    life: std::marker::PhantomData<&'a u8>,
}

/// A result, which is to be written.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    dtype: u32,
    data: *mut u8,
    pub(crate) shape: Vec<usize>,
    life: std::marker::PhantomData<&'a mut u8>,
}

fn dtype_of(number: u32) -> Option<DType> {
    DTYPES.iter().find(|(n, _)| *n == number).map(|(_, dtype)| *dtype)
}

impl<'a> Call<'a> {
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

    /// The results in order. To be asked for once.
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
            // SAFETY: XLA gives `count` kinds and items, and an item of this kind is a buffer with `rank` sizes.
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

    /// The attribute of a name: its kind and its value.
    fn attribute(&self, name: &str) -> Result<(u32, *const c_void)> {
        let of = &self.0.attributes;
        for n in 0..of.count as usize {
            // SAFETY: XLA gives `count` names, kinds and items.
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
                // SAFETY: both dtypes that are asked for have 64 bits.
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

    /// A text.
    pub(crate) fn text(&self, name: &str) -> Result<&'a str> {
        let (kind, item) = self.attribute(name)?;
        if kind != ATTRIBUTE_STRING {
            return Err(Error::argument(name, "an attribute that is a string", "one of another type"));
        }
        // SAFETY: an attribute of this kind is a text, which lives as long as the frame.
        let text: &'a Text = unsafe { &*item.cast::<Text>() };
        std::str::from_utf8(text.bytes()).map_err(|e| Error::argument(name, "UTF-8", e.to_string()))
    }
}

impl Text {
    fn bytes(&self) -> &[u8] {
        match self.len {
            0 => &[],
            // SAFETY: XLA's text has so many bytes.
            n => unsafe { std::slice::from_raw_parts(self.start, n) },
        }
    }
}

impl<'a> Operand<'a> {
    /// The elements; the shape may have been made smaller along the first axis. `name` is that of the argument.
    pub(crate) fn view(&self, name: &dyn Fn() -> String) -> Result<View<'a>> {
        let Some(dtype) = dtype_of(self.dtype) else {
            let expected = "an array of floating-point numbers or of int32 or int64";
            return Err(Error::argument(name(), expected, "one of another dtype"));
        };
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

    fn elements<T>(&self) -> &'a [T] {
        match self.shape.iter().product() {
            0 => &[],
            // SAFETY: `buffers` found memory that is there and aligned, XLA has as many elements there and more, in
            // row-major order, and they stay through the call.
            n => unsafe { std::slice::from_raw_parts(self.data.cast(), n) },
        }
    }
}

impl Output<'_> {
    fn bytes(&self) -> Result<usize> {
        let size = dtype_of(self.dtype).map(DType::size);
        let size =
            size.ok_or_else(|| Error::Unsupported("JAX: a result of a dtype that no op has".into()))?;
        Ok(size * self.shape.iter().product::<usize>())
    }

    /// Writes an array, and zeros behind it where it has fewer rows.
    pub(crate) fn write(&mut self, array: &View<'_>) -> Result<()> {
        let (whole, shape) = (self.bytes()?, array.shape());
        let fits = dtype_of(self.dtype) == Some(array.dtype())
            && shape.len() == self.shape.len()
            && shape.get(1..) == self.shape.get(1..)
            && shape.first() <= self.shape.first();
        if !fits {
            let got = format!("{} of shape {shape:?} for one of shape {:?}", array.dtype(), self.shape);
            return Err(Error::argument("result", "the array that tracing has promised", got));
        }
        let bytes = array.len() * array.dtype().size();
        if whole > 0 {
            // SAFETY: the result has `whole` bytes, `bytes` of which the array has too; they are apart.
            unsafe {
                std::ptr::copy_nonoverlapping(array.data().pointer(), self.data, bytes);
                std::ptr::write_bytes(self.data.add(bytes), 0, whole - bytes);
            }
        }
        Ok(())
    }

    /// Writes NaN everywhere (0 in integers).
    pub(crate) fn poison(&mut self) -> Result<()> {
        // All bits set are a NaN in every format.
        let byte = if dtype_of(self.dtype).is_some_and(|dtype| dtype.is_real()) { 0xff } else { 0 };
        let whole = self.bytes()?;
        if whole > 0 {
            // SAFETY: the result has so many bytes.
            unsafe { std::ptr::write_bytes(self.data, byte, whole) };
        }
        Ok(())
    }
}

/// Answers what XLA asks when a handler is registered, and runs `work` in the frames of calls.
///
/// # Safety
/// The frame is one that XLA calls a handler with.
unsafe fn enter(
    frame: *mut CallFrame,
    traits: u32,
    work: impl FnOnce(&Call<'_>) -> Result<()>,
) -> *mut c_void {
    // SAFETY: as promised by the caller.
    let frame = unsafe { &*frame };
    // SAFETY: extensions are a list, and one of this kind has the metadata; the API, where it is given, has a version.
    unsafe {
        let mut extension = frame.extension;
        while !extension.is_null() {
            if (*extension).kind == EXTENSION_METADATA {
                let metadata = (*extension.cast::<MetadataExtension>()).metadata;
                // A runtime takes versions up to its own, and with a later one it would lose its whole backend. Those
                // up to 0.1 do not say theirs.
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
    let (code, message) = match catch_unwind(AssertUnwindSafe(|| work(&Call(frame)))) {
        Ok(Ok(())) => return null_mut(),
        Ok(Err(error @ Error::Unsupported(_))) => (UNIMPLEMENTED, error.to_string()),
        Ok(Err(error)) => (INVALID_ARGUMENT, error.to_string()),
        Err(panic) => (INTERNAL, format!("a defect in Madelung, please report it: {}", said(&*panic))),
    };
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    let mut create = ErrorCreate {
        size: size_of::<ErrorCreate>(),
        extension: null_mut(),
        message: message.as_ptr(),
        code,
    };
    // SAFETY: a frame that is executed has the API; the text is copied.
    unsafe { ((*frame.api).error_create)(&raw mut create) }
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Runs a member of an op's family on the CPU.
///
/// # Safety
/// XLA calls it, as a handler.
pub(crate) unsafe extern "C" fn member(frame: *mut CallFrame) -> *mut c_void {
    // SAFETY: as promised by the caller.
    unsafe { enter(frame, 0, crate::call::run) }
}

/// Finds the pairs of a neighbour list on the CPU.
///
/// # Safety
/// XLA calls it, as a handler.
pub(crate) unsafe extern "C" fn search(frame: *mut CallFrame) -> *mut c_void {
    // SAFETY: as promised by the caller.
    unsafe { enter(frame, 0, crate::search::run) }
}

/// Says on CUDA devices that nothing runs there.
///
/// # Safety
/// XLA calls it, as a handler.
pub(crate) unsafe extern "C" fn no_cuda(frame: *mut CallFrame) -> *mut c_void {
    let refuse = |_: &Call<'_>| {
        let message = "this build of Madelung has no CUDA backend: put the arrays on the CPU \
                       (`jax.device_put(x, jax.devices(\"cpu\")[0])`), or call within `jax.default_device` of it";
        Err(Error::Unsupported(message.into()))
    };
    // SAFETY: as promised by the caller.
    unsafe { enter(frame, COMMAND_BUFFER_COMPATIBLE, refuse) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;
    use std::ptr::null;
    use std::sync::Mutex;

    static SAID: Mutex<Vec<(u32, String)>> = Mutex::new(Vec::new());

    unsafe extern "C" fn create(args: *mut ErrorCreate) -> *mut c_void {
        // SAFETY: `enter` gives arguments with a text.
        let (code, text) =
            unsafe { ((*args).code, CStr::from_ptr((*args).message).to_string_lossy().into()) };
        SAID.lock().expect("a lock").push((code, text));
        args.cast()
    }

    fn version((major, minor): (c_int, c_int)) -> Version {
        Version { size: size_of::<Version>(), extension: null_mut(), major, minor }
    }

    fn api(of: (c_int, c_int)) -> Api {
        Api { size: 0, extension: null_mut(), version: version(of), internal: null(), error_create: create }
    }

    fn frame(api: *const Api, stage: u32, extension: *mut Extension) -> CallFrame {
        let none = || Buffers { size: 0, extension: null_mut(), count: 0, kinds: null(), items: null() };
        CallFrame {
            size: size_of::<CallFrame>(),
            extension,
            api,
            context: null_mut(),
            stage,
            operands: none(),
            results: none(),
            attributes: Attributes {
                size: 0,
                extension: null_mut(),
                count: 0,
                kinds: null(),
                names: null(),
                items: null(),
            },
        }
    }

    /// What a handler answers a runtime of some version that registers it, or one that does not say.
    fn answer(runtime: Option<(c_int, c_int)>, handler: Handler) -> ((c_int, c_int), u32) {
        let api = runtime.map(api);
        let mut metadata = Metadata { size: size_of::<Metadata>(), version: version((7, 7)), traits: 7 };
        let base = |kind, next| Extension { size: size_of::<Extension>(), kind, next };
        let mut asked =
            MetadataExtension { base: base(EXTENSION_METADATA, null_mut()), metadata: &raw mut metadata };
        // Behind one that is none of ours.
        let mut other = base(99, (&raw mut asked).cast());
        let mut frame = frame(api.as_ref().map_or(null(), |api| api), 0, &raw mut other);
        // SAFETY: a frame as XLA registers with.
        assert!(unsafe { handler(&raw mut frame) }.is_null());
        ((metadata.version.major, metadata.version.minor), metadata.traits)
    }

    #[test]
    fn no_runtime_is_told_a_version_beyond_its_own() {
        assert_eq!(answer(None, member), ((0, 1), 0));
        assert_eq!(answer(Some((0, 1)), member), ((0, 1), 0));
        assert_eq!(answer(Some((0, 2)), search), ((0, 2), 0));
        assert_eq!(answer(Some((0, 3)), member), ((0, 3), 0));
        assert_eq!(answer(Some((0, 9)), member), (HEADER, 0));
        assert_eq!(answer(Some((1, 0)), no_cuda), (HEADER, COMMAND_BUFFER_COMPATIBLE));
    }

    fn run(stage: u32, work: impl FnOnce(&Call<'_>) -> Result<()>) -> Option<(u32, String)> {
        let api = api(HEADER);
        let mut frame = frame(&raw const api, stage, null_mut());
        // SAFETY: a frame as XLA calls with.
        let failed = !unsafe { enter(&raw mut frame, 0, work) }.is_null();
        failed.then(|| SAID.lock().expect("a lock").pop().expect("an error"))
    }

    #[test]
    fn errors_and_panics_become_errors_of_xla() {
        assert_eq!(run(STAGE_EXECUTE, |_| Ok(())), None);
        let error = run(STAGE_EXECUTE, |call| call.text("target").map(|_| ()));
        let text = "`target`: expected an attribute of the call, got none";
        assert_eq!(error, Some((INVALID_ARGUMENT, text.into())));
        let error = run(STAGE_EXECUTE, |_| Err(Error::Unsupported("with a\0null".into())));
        assert_eq!(error, Some((UNIMPLEMENTED, "with a null".into())));
        let error = run(STAGE_EXECUTE, |_| panic!("on purpose"));
        assert_eq!(error, Some((INTERNAL, "a defect in Madelung, please report it: on purpose".into())));
        // Only what is executed does something.
        assert_eq!(run(0, |_| panic!("not called")), None);
    }
}
