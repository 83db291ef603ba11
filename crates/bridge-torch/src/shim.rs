//! The part of torch's stable C shim that the bridge uses, found in the libtorch that the process has already loaded.
//!
//! Functions of the shim keep their signatures across torch releases. `at::get_num_threads`, the fallback for releases
//! whose shim has no such function, is not part of the shim, but a C++ function of signature `int ()`. Torch is never
//! unloaded, so the pointers stay valid for the life of the process.
#![expect(unsafe_code, reason = "foreign functions, found by name")]

use madelung_core::{Error, Result};
use std::ffi::{c_char, c_int, c_void};
use std::fmt::Display;
use std::sync::OnceLock;

/// The shim's handle of a tensor.
pub(crate) type Handle = *mut c_void;
/// A boxed kernel: the results replace the arguments in the array.
pub(crate) type Boxed = unsafe extern "C-unwind" fn(*mut u64, u64, u64);
/// A part of a parallel loop: from, to, and the loop's data.
pub(crate) type Loop = unsafe extern "C" fn(i64, i64, *mut c_void);
/// The shim's status: 0 for success.
type Code = i32;

macro_rules! shim {
    (needed { $($name:ident: fn($($arg:ty),*) $(-> $result:ty)?;)* }
     newer { $($new:ident: fn($($new_arg:ty),*) $(-> $new_result:ty)?;)* }) => {
        /// The functions of the shim.
        #[derive(Debug)]
        pub(crate) struct Shim {
            $(pub(crate) $name: unsafe extern "C-unwind" fn($($arg),*) $(-> $result)?,)*
            $(pub(crate) $new: Option<unsafe extern "C-unwind" fn($($new_arg),*) $(-> $new_result)?>,)*
            at_get_num_threads: Option<unsafe extern "C-unwind" fn() -> c_int>,
            /// The process that has found the functions.
            pub(crate) process: u32,
        }

        impl Shim {
            fn find(library: &Library) -> Result<Self> {
                let missing = |name: &str| Error::Unsupported(format!(
                    "this PyTorch has no `{name}`: Madelung needs PyTorch 2.7 or newer"
                ));
                // SAFETY: the symbols have these types in every release that has them; see the head of this file.
                unsafe {
                    Ok(Self {
                        $($name: *library
                            .get(concat!(stringify!($name), "\0").as_bytes())
                            .map_err(|_| missing(stringify!($name)))?,)*
                        $($new: library.get(concat!(stringify!($new), "\0").as_bytes()).ok().map(|f| *f),)*
                        at_get_num_threads: library.get(b"_ZN2at15get_num_threadsEv\0").ok().map(|f| *f),
                        process: std::process::id(),
                    })
                }
            }
        }
    };
}

shim! {
    needed {
        aoti_torch_device_type_cpu: fn() -> i32;
        aoti_torch_device_type_cuda: fn() -> i32;
        aoti_torch_dtype_float16: fn() -> i32;
        aoti_torch_dtype_bfloat16: fn() -> i32;
        aoti_torch_dtype_float32: fn() -> i32;
        aoti_torch_dtype_float64: fn() -> i32;
        aoti_torch_dtype_int32: fn() -> i32;
        aoti_torch_dtype_int64: fn() -> i32;
        aoti_torch_get_data_ptr: fn(Handle, *mut *mut c_void) -> Code;
        aoti_torch_get_dim: fn(Handle, *mut i64) -> Code;
        aoti_torch_get_sizes: fn(Handle, *mut *mut i64) -> Code;
        aoti_torch_get_strides: fn(Handle, *mut *mut i64) -> Code;
        aoti_torch_get_dtype: fn(Handle, *mut i32) -> Code;
        aoti_torch_get_device_type: fn(Handle, *mut i32) -> Code;
        aoti_torch_get_device_index: fn(Handle, *mut i32) -> Code;
        aoti_torch_delete_tensor_object: fn(Handle) -> Code;
        aoti_torch_new_uninitialized_tensor: fn(*mut Handle) -> Code;
        aoti_torch_empty_strided: fn(i64, *const i64, *const i64, i32, i32, i32, *mut Handle) -> Code;
        aoti_torch_call_dispatcher: fn(*const c_char, *const c_char, *mut u64) -> Code;
        aoti_torch_check: fn(bool, *const c_char, *const c_char, u32, *const c_char);
        aoti_torch_library_init_fragment: fn(*const c_char, *const c_char, u32, *mut *mut c_void) -> Code;
        aoti_torch_library_init_impl: fn(*const c_char, *const c_char, *const c_char, u32, *mut *mut c_void) -> Code;
        aoti_torch_library_def: fn(*mut c_void, *const c_char) -> Code;
        aoti_torch_library_impl: fn(*mut c_void, *const c_char, Boxed) -> Code;
    }
    newer {
        torch_get_num_threads: fn(*mut u32) -> Code;
        torch_parallel_for: fn(i64, i64, i64, Loop, *mut c_void) -> Code;
        torch_exception_get_what_without_backtrace: fn() -> *const c_char;
    }
}

#[cfg(unix)]
use libloading::os::unix::Library;
#[cfg(windows)]
use libloading::os::windows::Library;

static SHIM: OnceLock<Shim> = OnceLock::new();

/// The functions of the shim, after [`load`].
pub(crate) fn shim() -> &'static Shim {
    SHIM.get().expect("ops are registered after the shim was found")
}

/// Finds the functions of the shim in a library that the process has loaded.
pub(crate) fn load(path: &str) -> Result<&'static Shim> {
    if let Some(shim) = SHIM.get() {
        return Ok(shim);
    }
    let library = loaded(path).ok_or_else(|| {
        Error::argument("path", "a libtorch that is loaded (`import torch` loads it)", format!("`{path}`"))
    })?;
    let found = Shim::find(&library)?;
    // The library stays loaded for the sake of its functions.
    std::mem::forget(library);
    _ = CUDA_LIBRARY.set(path.replace("torch_cpu", "torch_cuda"));
    Ok(SHIM.get_or_init(|| found))
}

/// The path of torch's CUDA library, which exists in builds for CUDA.
static CUDA_LIBRARY: OnceLock<String> = OnceLock::new();

type CurrentStream = unsafe extern "C-unwind" fn(i32, *mut *mut c_void) -> Code;

/// torch's current stream of a device in this thread.
pub(crate) fn current_stream(device: usize) -> Result<usize> {
    static FOUND: OnceLock<Option<CurrentStream>> = OnceLock::new();
    let find = || {
        let library = loaded(CUDA_LIBRARY.get()?)?;
        // SAFETY: the symbol has this type in every release that has it.
        let found = unsafe { library.get::<CurrentStream>(b"aoti_torch_get_current_cuda_stream\0") };
        let found = found.ok().map(|f| *f);
        std::mem::forget(library);
        found
    };
    let Some(current) = *FOUND.get_or_init(find) else {
        return Err(Error::Unsupported(
            "a CUDA tensor, and no build of PyTorch for CUDA that tells its streams".into(),
        ));
    };
    let mut stream = std::ptr::null_mut();
    // SAFETY: the result goes to a local variable.
    let code = unsafe { current(device as i32, &raw mut stream) };
    shim().done(code, "asking for the current stream")?;
    Ok(stream as usize)
}

#[cfg(unix)]
fn loaded(path: &str) -> Option<Library> {
    // SAFETY: with RTLD_NOLOAD nothing is loaded, so no initialiser runs.
    unsafe { Library::open(Some(path), libc::RTLD_NOW | libc::RTLD_NOLOAD) }.ok()
}

#[cfg(windows)]
fn loaded(path: &str) -> Option<Library> {
    Library::open_already_loaded(path).ok()
}

impl Shim {
    /// Checks the status of a call.
    ///
    /// # Errors
    /// torch's error, where the call failed.
    pub(crate) fn done(&self, code: Code, action: impl Display) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let reason = self.torch_exception_get_what_without_backtrace.map(|f| {
            // SAFETY: no arguments; the text is a C string, or null, that lives until the next error of this thread.
            let text = unsafe { f() };
            // SAFETY: as above.
            let text = (!text.is_null()).then(|| unsafe { std::ffi::CStr::from_ptr(text) });
            text.map(|t| format!(": {}", t.to_string_lossy())).unwrap_or_default()
        });
        Err(Error::Unsupported(format!("PyTorch: {action} failed{}", reason.unwrap_or_default())))
    }

    /// `torch.get_num_threads()`; None if this torch has no such function.
    pub(crate) fn threads(&self) -> Option<usize> {
        let mut threads = 0u32;
        // SAFETY: both write or return one integer.
        let known = unsafe {
            match (self.torch_get_num_threads, self.at_get_num_threads) {
                (Some(f), _) => (f(&raw mut threads) == 0).then_some(threads as usize),
                (None, Some(f)) => usize::try_from(f()).ok(),
                (None, None) => None,
            }
        };
        known.filter(|n| *n > 0)
    }
}
