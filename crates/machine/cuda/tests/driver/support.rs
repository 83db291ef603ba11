//! Separate processes, programs to run, and the driver calls of a caller.
#![expect(unsafe_code, reason = "streams are made here, as a framework makes them")]

use libloading::Library;
use madelung_core::Result;
use madelung_cuda::{Device, Function, Program, Stream};
use std::ffi::{c_int, c_uint, c_void};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::ptr::null_mut;

/// Whether this is the process in which a test runs. If not, that one is started, with an empty cache and this
/// environment, and has to succeed: libraries loaded and memory lost in one test do not affect another one.
pub(crate) fn apart(test: &str, environment: &[(&str, &str)]) -> bool {
    if std::env::var_os("MADELUNG_TEST_APART").is_some() {
        return true;
    }
    let cache = tempfile::tempdir().expect("a temporary folder");
    finish(start(test, cache.path(), environment));
    false
}

/// Starts a test in a process of its own.
pub(crate) fn start(test: &str, cache: &Path, environment: &[(&str, &str)]) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture", "--include-ignored"])
        .env("MADELUNG_TEST_APART", "yes")
        .env("MADELUNG_CACHE", cache)
        .envs(environment.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a process")
}

pub(crate) fn finish(process: Child) {
    let done = process.wait_with_output().expect("a process that ends");
    let [out, err] = [&done.stdout, &done.stderr].map(|text| String::from_utf8_lossy(text));
    let ran = out.contains("1 passed");
    assert!(done.status.success() && ran, "{}\n{out}\n{err}", done.status);
}

/// `x[n] += by` for a number of elements, and the sum of a block by a barrier.
pub(crate) const TEXT: &str = r#"
struct Range { long long first, count; };
#define KERNEL extern "C" __global__ void
KERNEL __launch_bounds__(256) add(double* x, double by, Range range) {
  const long long n = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (n < range.count) x[range.first + n] += by * STEP;
}
KERNEL sum(const double* x, double* out, int n) {
  __shared__ double parts[4];
  double mine = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) mine += x[i];
  for (int by = 16; by > 0; by /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, by);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x == 0) *out = parts[0] + parts[1] + parts[2] + parts[3];
}
KERNEL hang(double* x) {
  if (threadIdx.x > 0) __syncthreads();
}
"#;

pub(crate) fn program() -> Program<'static> {
    Program { name: "test.cu", text: TEXT.into(), defines: &[("STEP", "1")], contracts: true }
}

pub(crate) fn function(device: &'static Device, name: &str) -> Function {
    device.function(&program(), name).expect("a function of the program")
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Range {
    first: i64,
    count: i64,
}

/// `x[n] += by` for `n` elements at an address.
pub(crate) fn add(stream: Stream, function: Function, x: u64, n: usize, by: f64) -> Result<()> {
    let range = Range { first: 0, count: n as i64 };
    let args: [*const c_void; 3] = [(&raw const x).cast(), (&raw const by).cast(), (&raw const range).cast()];
    // SAFETY: these are the parameters of `add`, and the tests pass addresses of as many elements.
    unsafe { stream.launch(function, [n.div_ceil(128) as u32, 1, 1], [128, 1, 1], &args) }
}

/// Two blocks of two warps, of a function that takes an address.
pub(crate) fn launch(stream: Stream, function: Function, x: u64) {
    // SAFETY: this is the function's parameter, and the tests pass an address of as many elements as it uses.
    unsafe { stream.launch(function, [2, 1, 1], [64, 1, 1], &[(&raw const x).cast()]) }.expect("a launch");
}

/// The sum of `n` elements, left at an address.
pub(crate) fn sum(stream: Stream, function: Function, x: u64, out: u64, n: usize) -> Result<()> {
    let n = n as i32;
    let args: [*const c_void; 3] = [(&raw const x).cast(), (&raw const out).cast(), (&raw const n).cast()];
    // SAFETY: these are the parameters of `sum`, and the tests pass addresses of as many elements.
    unsafe { stream.launch(function, [1; 3], [128, 1, 1], &args) }
}

pub(crate) fn upload(stream: Stream, to: u64, from: &[f64]) {
    // SAFETY: the tests pass blocks that are large enough.
    unsafe { stream.upload(to, from) }.expect("a copy");
}

pub(crate) fn download(stream: Stream, from: u64, n: usize) -> Vec<f64> {
    let mut to = vec![0.0; n];
    // SAFETY: the tests pass blocks that hold as many doubles.
    unsafe { stream.download(&mut to, from) }.expect("a copy");
    to
}

/// The driver as another library of the process sees it.
pub(crate) struct Raw(Library);

impl Raw {
    pub(crate) fn new() -> Self {
        // SAFETY: it is loaded already.
        Self(unsafe { Library::new("libcuda.so") }.expect("the stand-in"))
    }

    /// The current context, as a number.
    pub(crate) fn current(&self) -> usize {
        let mut context: *mut c_void = null_mut();
        // SAFETY: this is the function's signature, and the place is writable.
        unsafe {
            let get = self.0.get::<unsafe extern "C" fn(*mut *mut c_void) -> c_uint>("cuCtxGetCurrent");
            assert_eq!(get.expect("a function of the driver")(&raw mut context), 0);
        }
        context as usize
    }

    /// Makes a device's primary context current.
    pub(crate) fn set_current(&self, device: c_int) -> usize {
        let mut context: *mut c_void = null_mut();
        // SAFETY: these are the functions' signatures, and the place is writable.
        unsafe {
            let retain = self
                .0
                .get::<unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_uint>("cuDevicePrimaryCtxRetain");
            assert_eq!(retain.expect("a function of the driver")(&raw mut context, device), 0);
            let set = self.0.get::<unsafe extern "C" fn(*mut c_void) -> c_uint>("cuCtxSetCurrent");
            assert_eq!(set.expect("a function of the driver")(context), 0);
        }
        context as usize
    }

    /// A stream of its own on a device.
    pub(crate) fn stream(&self, device: &'static Device) -> Stream {
        let before = self.current();
        self.set_current(device.ordinal() as c_int);
        let mut stream: *mut c_void = null_mut();
        // SAFETY: these are the functions' signatures, the place is writable, and the stream is never destroyed.
        unsafe {
            let create =
                self.0.get::<unsafe extern "C" fn(*mut *mut c_void, c_uint) -> c_uint>("cuStreamCreate");
            assert_eq!(create.expect("a function of the driver")(&raw mut stream, 1), 0);
            let set = self.0.get::<unsafe extern "C" fn(*mut c_void) -> c_uint>("cuCtxSetCurrent");
            assert_eq!(set.expect("a function of the driver")(before as *mut c_void), 0);
            device.stream(stream as usize).expect("a stream of this device")
        }
    }

    /// Waits for a stream; what the driver says.
    pub(crate) fn wait(&self, stream: Stream) -> c_uint {
        // SAFETY: this is the function's signature, and the stream is there.
        unsafe {
            let wait = self.0.get::<unsafe extern "C" fn(*mut c_void) -> c_uint>("cuStreamSynchronize");
            wait.expect("a function of the driver")(stream.as_raw() as *mut c_void)
        }
    }
}
