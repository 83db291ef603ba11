//! A little XLA: call frames, and the functions that a handler may call with one. Declared from jaxlib's `c_api.h`,
//! apart from the crate's own declarations.
#![expect(unsafe_code, reason = "a foreign calling convention, spoken from the other side")]

use libloading::Library;
use madelung_bridge_jax::{CallFrame, Handler};
use madelung_core::array::{Array, DType, Data, View};
use madelung_cuda::{Block, Device, Graph, Memory, Stream};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Struct size, and extensions.
type Head = (usize, usize);

#[repr(C)]
struct ErrorCreate {
    size: usize,
    extension: usize,
    message: *const c_char,
    code: u32,
}

#[repr(C)]
struct ErrorMessage {
    size: usize,
    extension: usize,
    error: *mut Failure,
    message: *const c_char,
}

#[repr(C)]
struct ErrorDestroy {
    size: usize,
    extension: usize,
    error: *mut Failure,
}

#[repr(C)]
struct StreamGet {
    size: usize,
    extension: usize,
    context: *const Xla,
    stream: usize,
}

#[repr(C)]
struct Allocate {
    size: usize,
    extension: usize,
    context: *const Xla,
    bytes: usize,
    alignment: usize,
    data: usize,
}

#[repr(C)]
struct Free {
    size: usize,
    extension: usize,
    context: *const Xla,
    bytes: usize,
    data: usize,
}

#[repr(C)]
struct Api {
    size: usize,
    extension: usize,
    version: (usize, usize, c_int, c_int),
    internal: usize,
    error_create: extern "C" fn(&ErrorCreate) -> *mut Failure,
    error_get_message: extern "C" fn(&mut ErrorMessage),
    error_destroy: extern "C" fn(&ErrorDestroy),
    handler_register: usize,
    stream_get: extern "C" fn(&mut StreamGet) -> *mut Failure,
    type_register: usize,
    execution_context_get: usize,
    state_set: usize,
    state_get: usize,
    device_memory_allocate: extern "C" fn(&mut Allocate) -> *mut Failure,
    device_memory_free: extern "C" fn(&Free) -> *mut Failure,
    thread_pool: [usize; 2],
    future: [usize; 3],
    run_id_get: usize,
    device_ordinal_get: usize,
}

#[repr(C)]
struct Buffer {
    head: Head,
    dtype: u32,
    data: usize,
    rank: i64,
    dims: *const i64,
}

#[repr(C)]
struct Span {
    start: *const u8,
    len: usize,
}

#[repr(C)]
struct Scalar {
    dtype: u32,
    value: *const c_void,
}

/// Arguments or results.
#[repr(C)]
struct Buffers {
    head: Head,
    count: i64,
    kinds: *const u32,
    items: *const *const Buffer,
}

#[repr(C)]
struct Attributes {
    head: Head,
    count: i64,
    kinds: *const u32,
    names: *const *const Span,
    items: *const *const c_void,
}

#[repr(C)]
struct Frame {
    head: Head,
    api: *const Api,
    context: *const Xla,
    stage: u32,
    arguments: Buffers,
    results: Buffers,
    attributes: Attributes,
    future: usize,
}

/// An error: its code and text.
struct Failure {
    code: u32,
    text: CString,
}

/// An attribute of a call.
#[derive(Clone, Debug)]
pub(crate) enum Attribute {
    Int(i64),
    Real(f64),
    Text(String),
}

/// XLA on a device: its stream and its memory, with the blocks that a handler holds.
pub(crate) struct Xla {
    pub(crate) memory: Memory,
    given: Mutex<BTreeMap<usize, Block>>,
    /// Whether there is none left.
    pub(crate) exhausted: AtomicBool,
    /// Whether it says that its stream is the default one.
    pub(crate) default_stream: AtomicBool,
}

const RESOURCE_EXHAUSTED: u32 = 8;

extern "C" fn error_create(args: &ErrorCreate) -> *mut Failure {
    assert_eq!(args.size, size_of::<ErrorCreate>());
    // SAFETY: a handler gives a text.
    let text = unsafe { CStr::from_ptr(args.message) }.to_owned();
    Box::into_raw(Box::new(Failure { code: args.code, text }))
}

extern "C" fn error_get_message(args: &mut ErrorMessage) {
    assert_eq!(args.size, size_of::<ErrorMessage>());
    // SAFETY: the error is one of ours, and not destroyed yet.
    args.message = unsafe { &*args.error }.text.as_ptr();
}

extern "C" fn error_destroy(args: &ErrorDestroy) {
    assert_eq!(args.size, size_of::<ErrorDestroy>());
    // SAFETY: the error is one of ours, and destroyed once.
    drop(unsafe { Box::from_raw(args.error) });
}

extern "C" fn stream_get(args: &mut StreamGet) -> *mut Failure {
    assert_eq!(args.size, size_of::<StreamGet>());
    // SAFETY: the context is that of the frame.
    let xla = unsafe { &*args.context };
    let is_default = xla.default_stream.load(Ordering::Relaxed);
    args.stream = if is_default { 0 } else { xla.memory.stream().as_raw() };
    null_mut()
}

extern "C" fn device_memory_allocate(args: &mut Allocate) -> *mut Failure {
    assert_eq!(args.size, size_of::<Allocate>());
    assert!(args.alignment.is_power_of_two() && args.alignment <= 16, "XLA takes no other alignment");
    // SAFETY: the context is that of the frame.
    let xla = unsafe { &*args.context };
    if xla.exhausted.load(Ordering::Relaxed) {
        let text = c"no memory is left".to_owned();
        return Box::into_raw(Box::new(Failure { code: RESOURCE_EXHAUSTED, text }));
    }
    let block = xla.memory.allocate(args.bytes).expect("memory");
    args.data = block.address() as usize;
    xla.given.lock().expect("a lock").insert(args.data, block);
    null_mut()
}

extern "C" fn device_memory_free(args: &Free) -> *mut Failure {
    assert_eq!(args.size, size_of::<Free>());
    // SAFETY: the context is that of the frame.
    let xla = unsafe { &*args.context };
    let block = xla.given.lock().expect("a lock").remove(&args.data).expect("a block that was handed out");
    assert_eq!(block.bytes(), args.bytes);
    null_mut()
}

static API: Api = Api {
    size: size_of::<Api>(),
    extension: 0,
    version: (size_of::<(usize, usize, c_int, c_int)>(), 0, 0, 3),
    internal: 0,
    error_create,
    error_get_message,
    error_destroy,
    handler_register: 0,
    stream_get,
    type_register: 0,
    execution_context_get: 0,
    state_set: 0,
    state_get: 0,
    device_memory_allocate,
    device_memory_free,
    thread_pool: [0; 2],
    future: [0; 3],
    run_id_get: 0,
    device_ordinal_get: 0,
};

fn number(dtype: DType) -> u32 {
    match dtype {
        DType::F64 => 12,
        DType::F32 => 11,
        DType::F16 => 10,
        DType::BF16 => 16,
        DType::I32 => 4,
        DType::I64 => 5,
    }
}

/// An array as a handler finds it: where its elements lie does not matter here.
struct Given {
    dims: Vec<i64>,
    dtype: u32,
    data: usize,
}

impl Given {
    fn new(array: &Array) -> Self {
        let view = array.view();
        let data = match view.data() {
            Data::Device(there) => there.address() as usize,
            data => data.pointer().expose_provenance(),
        };
        Self { dims: view.shape().iter().map(|n| *n as i64).collect(), dtype: number(view.dtype()), data }
    }

    fn buffer(&self) -> Buffer {
        let head = (size_of::<Buffer>(), 0);
        Buffer {
            head,
            dtype: self.dtype,
            data: self.data,
            rank: self.dims.len() as i64,
            dims: self.dims.as_ptr(),
        }
    }
}

/// Calls a handler as XLA does. Its error is its code and text.
fn call(
    handler: Handler,
    context: *const Xla,
    given: [&[Given]; 2],
    attributes: &BTreeMap<String, Attribute>,
) -> Result<(), (u32, String)> {
    let buffers = given.map(|arrays| arrays.iter().map(Given::buffer).collect::<Vec<_>>());
    let items = buffers.each_ref().map(|buffers| buffers.iter().map(std::ptr::from_ref).collect::<Vec<_>>());
    let ones = vec![1_u32; given[0].len().max(given[1].len())];
    let list = |items: &[*const Buffer]| Buffers {
        head: (size_of::<Buffers>(), 0),
        count: items.len() as i64,
        kinds: ones.as_ptr(),
        items: items.as_ptr(),
    };
    let span = |text: &str| Span { start: text.as_ptr(), len: text.len() };
    let names: Vec<Span> = attributes.keys().map(|name| span(name)).collect();
    let texts: Vec<Span> = attributes
        .values()
        .map(|a| if let Attribute::Text(text) = a { span(text) } else { span("") })
        .collect();
    let scalars: Vec<Scalar> = attributes
        .values()
        .map(|attribute| match attribute {
            Attribute::Int(value) => Scalar { dtype: 5, value: std::ptr::from_ref(value).cast() },
            Attribute::Real(value) => Scalar { dtype: 12, value: std::ptr::from_ref(value).cast() },
            Attribute::Text(_) => Scalar { dtype: 0, value: null() },
        })
        .collect();
    let is_text: Vec<bool> = attributes.values().map(|a| matches!(a, Attribute::Text(_))).collect();
    let kinds: Vec<u32> = is_text.iter().map(|text| if *text { 4 } else { 3 }).collect();
    let values: Vec<*const c_void> = (0..kinds.len())
        .map(|n| match is_text[n] {
            true => std::ptr::from_ref(&texts[n]).cast(),
            false => std::ptr::from_ref(&scalars[n]).cast(),
        })
        .collect();
    let names: Vec<*const Span> = names.iter().map(std::ptr::from_ref).collect();
    let mut frame = Frame {
        head: (size_of::<Frame>(), 0),
        api: &raw const API,
        context,
        stage: 3,
        arguments: list(&items[0]),
        results: list(&items[1]),
        attributes: Attributes {
            head: (size_of::<Attributes>(), 0),
            count: kinds.len() as i64,
            kinds: kinds.as_ptr(),
            names: names.as_ptr(),
            items: values.as_ptr(),
        },
        future: 0,
    };
    // SAFETY: the frame is laid out as XLA's, and all that it names lives through the call.
    let failure = unsafe { handler((&raw mut frame).cast::<CallFrame>()) }.cast::<Failure>();
    if failure.is_null() {
        return Ok(());
    }
    // SAFETY: it is one of ours, and handed over.
    let failure = unsafe { Box::from_raw(failure) };
    Err((failure.code, failure.text.to_string_lossy().into_owned()))
}

/// Calls a handler of the CPU; the results, which are f64 of these shapes.
pub(crate) fn call_on_cpu(
    handler: Handler,
    operands: &[Array],
    results: &[Vec<usize>],
    attributes: &BTreeMap<String, Attribute>,
) -> Result<Vec<Vec<f64>>, (u32, String)> {
    call_on_cpu_with(handler, operands, results, attributes, -7.0)
}

/// A call on the CPU with results of type T, which hold `none` before.
pub(crate) fn call_on_cpu_with<T: Number>(
    handler: Handler,
    operands: &[Array],
    results: &[Vec<usize>],
    attributes: &BTreeMap<String, Attribute>,
    none: T,
) -> Result<Vec<Vec<T>>, (u32, String)> {
    let operands: Vec<Given> = operands.iter().map(Given::new).collect();
    let mut written: Vec<Vec<T>> = results.iter().map(|shape| vec![none; shape.iter().product()]).collect();
    let to = written.iter_mut().zip(results).map(|(data, shape)| Given {
        dims: shape.iter().map(|n| *n as i64).collect(),
        dtype: number(T::DTYPE),
        data: data.as_mut_ptr().expose_provenance(),
    });
    let to: Vec<Given> = to.collect();
    call(handler, null(), [&operands, &to], attributes)?;
    Ok(written)
}

/// Elements of results.
pub(crate) trait Number: Copy {
    const DTYPE: DType;
}

impl Number for f64 {
    const DTYPE: DType = DType::F64;
}

impl Number for i32 {
    const DTYPE: DType = DType::I32;
}

impl Xla {
    /// XLA on a device, with a stream of its own.
    pub(crate) fn new(ordinal: usize) -> Self {
        let device = Device::get(ordinal).expect("a device");
        Self {
            memory: Memory::new(stream(device)),
            given: Mutex::default(),
            exhausted: AtomicBool::new(false),
            default_stream: AtomicBool::new(false),
        }
    }

    /// Copies of arrays there.
    pub(crate) fn send(&self, arrays: &[Array]) -> Vec<Array> {
        arrays.iter().map(|array| self.memory.upload(&array.view()).expect("a copy")).collect()
    }

    /// Memory for results of f64, filled with fill values.
    pub(crate) fn results(&self, shapes: &[Vec<usize>]) -> Vec<Array> {
        let filled: Vec<Array> = shapes.iter().map(|shape| Array::filled(DType::F64, shape, -7.0)).collect();
        self.send(&filled)
    }

    /// Calls a handler of CUDA's with arrays that lie there. Every block of scratch is back afterwards.
    pub(crate) fn call(
        &self,
        handler: Handler,
        operands: &[Array],
        results: &[Array],
        attributes: &BTreeMap<String, Attribute>,
    ) -> Result<(), (u32, String)> {
        self.call_with(handler, operands, results, None, attributes)
    }

    /// A call with memory for scratch, and its number of bytes, as the last result.
    pub(crate) fn call_with(
        &self,
        handler: Handler,
        operands: &[Array],
        results: &[Array],
        scratch: Option<(&Array, usize)>,
        attributes: &BTreeMap<String, Attribute>,
    ) -> Result<(), (u32, String)> {
        let mut given = [operands, results].map(|arrays| arrays.iter().map(Given::new).collect::<Vec<_>>());
        // XLA's number of uint8 is 6.
        given[1].extend(scratch.map(|(memory, bytes)| Given {
            dims: vec![bytes as i64],
            dtype: 6,
            ..Given::new(memory)
        }));
        let done = call(handler, self, given.each_ref().map(Vec::as_slice), attributes);
        assert!(self.given.lock().expect("a lock").is_empty(), "scratch that was not given back");
        done
    }

    /// Other numbers in arrays there.
    pub(crate) fn overwrite(&self, arrays: &[Array], by: &[Array]) {
        for (array, from) in arrays.iter().zip(by) {
            let (to, from) = (array.view(), self.memory.upload(&from.view()).expect("a copy"));
            let bytes = to.len() * to.dtype().size();
            let address = |view: &View<'_>| view.data().pointer().addr() as u64;
            // SAFETY: both arrays have as many bytes, and lie apart.
            unsafe { self.memory.stream().copy(address(&to), address(&from.view()), bytes) }.expect("a copy");
        }
    }

    /// The work of a call on the stream, as a graph.
    pub(crate) fn capture(&self, mut call: impl FnMut()) -> Graph {
        Graph::capture(self.memory.stream(), |_| {
            call();
            Ok(())
        })
        .expect("a graph")
    }

    /// Runs a graph of calls whose arrays are still there.
    pub(crate) fn replay(&self, graph: &Graph) {
        // SAFETY: the caller has them.
        unsafe { graph.replay() }.expect("a replay");
    }

    /// Memory for scratch.
    pub(crate) fn scratch(&self, bytes: usize) -> Array {
        self.send(&[Array::zeros(DType::F16, &[bytes.div_ceil(2)])]).remove(0)
    }

    /// The elements of arrays on the device.
    pub(crate) fn read(&self, arrays: &[Array]) -> Vec<Vec<f64>> {
        let stream = self.memory.stream();
        arrays.iter().map(|array| stream.read(&array.view()).expect("a copy").to_f64().unwrap()).collect()
    }
}

/// A stream of its own, as XLA makes one. No context is current afterwards.
fn stream(device: &'static Device) -> Stream {
    // SAFETY: these are the functions' signatures, the places are writable, and the stream is never destroyed.
    unsafe {
        let driver = Library::new("libcuda.so").expect("the stand-in, which is loaded already");
        let retain = driver
            .get::<unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_uint>("cuDevicePrimaryCtxRetain")
            .expect("a function of the driver");
        let set = driver
            .get::<unsafe extern "C" fn(*mut c_void) -> c_uint>("cuCtxSetCurrent")
            .expect("a function of the driver");
        let create = driver
            .get::<unsafe extern "C" fn(*mut *mut c_void, c_uint) -> c_uint>("cuStreamCreate")
            .expect("a function of the driver");
        let (mut context, mut stream) = (null_mut(), null_mut());
        assert_eq!(retain(&raw mut context, device.ordinal() as c_int), 0);
        assert_eq!(set(context), 0);
        assert_eq!(create(&raw mut stream, 1), 0);
        assert_eq!(set(null_mut()), 0);
        device.stream(stream as usize).expect("a stream of this device")
    }
}

/// Integers as an array.
pub(crate) fn integers(shape: &[usize], data: &[i32]) -> Array {
    View::new(Data::I32(data), shape).expect("a shape that fits").to_array().unwrap()
}
