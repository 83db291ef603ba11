//! The driver's functions that are called here.
//!
//! cudarc finds the library and has its types. The functions are looked up once and all together: a driver that lacks
//! one is then an error and no panic, and an error code that this build does not know stays a number.
#![expect(unsafe_code, reason = "foreign functions are looked up and declared here")]

use cudarc::driver::sys;
use madelung_core::{Error, Result};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::fmt::Display;
use std::ptr::null;
use std::sync::OnceLock;

/// The result of every function of the driver.
pub(crate) type Code = c_uint;

/// Destructor of a user object, called by the driver after the last reference to it. It must not call the driver.
pub(crate) type Destroy = unsafe extern "C" fn(*mut c_void);

const OUT_OF_MEMORY: Code = 2;

/// Codes after which a context runs nothing any more.
const LOST: [Code; 13] = [214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 999];

macro_rules! functions {
    ($($name:ident($($argument:ty),*);)*) => {
        /// The functions, by the driver's own names.
        #[derive(Debug)]
        #[expect(non_snake_case, reason = "the driver's names")]
        pub(crate) struct Driver {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) -> Code,)*
        }

        impl Driver {
            /// The functions of the driver that cudarc found, or the name of one that it lacks.
            ///
            /// # Safety
            /// There is a driver.
            unsafe fn load() -> std::result::Result<Self, &'static str> {
                // SAFETY: the caller knows that there is a driver.
                let library = unsafe { sys::culib() };
                Ok(Self {
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        // SAFETY: these are the signatures of CUDA's driver API since 11.1.
                        let found = unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> Code>(name.as_bytes()) };
                        *found.map_err(|_| stringify!($name))?
                    },)*
                })
            }

            /// Functions that do nothing and say that all is well.
            pub(crate) fn still() -> Self {
                Self {
                    $($name: {
                        unsafe extern "C" fn nothing($(_: $argument),*) -> Code {
                            0
                        }
                        nothing
                    },)*
                }
            }
        }
    };
}

functions! {
    cuInit(c_uint);
    cuDriverGetVersion(*mut c_int);
    cuGetErrorName(Code, *mut *const c_char);
    cuGetErrorString(Code, *mut *const c_char);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGet(*mut sys::CUdevice, c_int);
    cuDeviceGetAttribute(*mut c_int, c_int, sys::CUdevice);
    cuDevicePrimaryCtxRetain(*mut sys::CUcontext, sys::CUdevice);
    cuCtxGetCurrent(*mut sys::CUcontext);
    cuCtxPushCurrent_v2(sys::CUcontext);
    cuCtxPopCurrent_v2(*mut sys::CUcontext);
    cuCtxGetDevice(*mut sys::CUdevice);
    cuCtxSynchronize();
    cuMemGetInfo_v2(*mut usize, *mut usize);
    cuMemAlloc_v2(*mut sys::CUdeviceptr, usize);
    cuMemFree_v2(sys::CUdeviceptr);
    cuPointerGetAttributes(c_uint, *mut c_int, *mut *mut c_void, sys::CUdeviceptr);
    cuMemcpyHtoDAsync_v2(sys::CUdeviceptr, *const c_void, usize, sys::CUstream);
    cuMemcpyDtoHAsync_v2(*mut c_void, sys::CUdeviceptr, usize, sys::CUstream);
    cuMemcpyDtoDAsync_v2(sys::CUdeviceptr, sys::CUdeviceptr, usize, sys::CUstream);
    cuMemcpyDtoH_v2(*mut c_void, sys::CUdeviceptr, usize);
    cuMemcpyHtoD_v2(sys::CUdeviceptr, *const c_void, usize);
    cuMemsetD8Async(sys::CUdeviceptr, u8, usize, sys::CUstream);
    cuStreamGetCtx(sys::CUstream, *mut sys::CUcontext);
    cuStreamGetId(sys::CUstream, *mut c_ulonglong);
    cuStreamWaitEvent(sys::CUstream, sys::CUevent, c_uint);
    cuEventCreate(*mut sys::CUevent, c_uint);
    cuEventRecord(sys::CUevent, sys::CUstream);
    cuEventQuery(sys::CUevent);
    cuEventDestroy_v2(sys::CUevent);
    cuStreamSynchronize(sys::CUstream);
    cuStreamIsCapturing(sys::CUstream, *mut c_int);
    cuStreamBeginCapture_v2(sys::CUstream, c_int);
    cuStreamEndCapture(sys::CUstream, *mut sys::CUgraph);
    cuStreamGetCaptureInfo_v2(
        sys::CUstream, *mut c_int, *mut c_ulonglong, *mut sys::CUgraph, *mut *const sys::CUgraphNode, *mut usize
    );
    cuUserObjectCreate(*mut sys::CUuserObject, *mut c_void, Destroy, c_uint, c_uint);
    cuGraphRetainUserObject(sys::CUgraph, sys::CUuserObject, c_uint, c_uint);
    cuThreadExchangeStreamCaptureMode(*mut c_int);
    cuGraphInstantiateWithFlags(*mut sys::CUgraphExec, sys::CUgraph, c_ulonglong);
    cuGraphLaunch(sys::CUgraphExec, sys::CUstream);
    cuGraphDestroy(sys::CUgraph);
    cuGraphExecDestroy(sys::CUgraphExec);
    cuModuleLoadData(*mut sys::CUmodule, *const c_void);
    cuModuleGetFunction(*mut sys::CUfunction, sys::CUmodule, *const c_char);
    cuLaunchKernel(
        sys::CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, sys::CUstream, *mut *mut c_void, *mut *mut c_void
    );
}

/// The driver, ready for use. It is looked for again as long as there is none.
///
/// # Errors
/// There is no driver, it is too old, or it has no device.
pub(crate) fn driver() -> Result<&'static Driver> {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    if let Some(found) = DRIVER.get() {
        return Ok(found);
    }
    // SAFETY: the driver's library may be loaded at any time.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::Unsupported(
            "CUDA: this machine has no NVIDIA driver (libcuda.so.1); on a machine with an NVIDIA GPU, install one".into(),
        ));
    }
    // SAFETY: there is one.
    let found = unsafe { Driver::load() }.map_err(|name| {
        Error::Unsupported(format!(
            "CUDA: the NVIDIA driver lacks {name}; install one for CUDA 12.0 or later"
        ))
    })?;
    // SAFETY: initialising twice is allowed.
    found.check(unsafe { (found.cuInit)(0) }, "initialising the NVIDIA driver")?;
    Ok(DRIVER.get_or_init(|| found))
}

impl Driver {
    /// An error for every code but success; `doing` describes the call.
    pub(crate) fn check(&self, code: Code, doing: impl Display) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let text = |function: unsafe extern "C" fn(Code, *mut *const c_char) -> Code| {
            let mut text = null();
            // SAFETY: the place is writable, and what comes is a text of the driver's own that stays.
            unsafe {
                let known = function(code, &raw mut text) == 0 && !text.is_null();
                known.then(|| CStr::from_ptr(text).to_string_lossy())
            }
        };
        let (name, what) = (text(self.cuGetErrorName), text(self.cuGetErrorString));
        let lost = if LOST.contains(&code) {
            "; the device's context is lost, and nothing runs on it before the process is started again"
        } else {
            ""
        };
        Err(Error::Driver(format!(
            "{doing}: {} ({code}): {}{lost}",
            name.as_deref().unwrap_or("an error without a name"),
            what.as_deref().unwrap_or("nothing is known of it"),
        )))
    }

    /// Whether a code says that memory ran out.
    pub(crate) fn is_out_of_memory(code: Code) -> bool {
        code == OUT_OF_MEMORY
    }

    /// The version of CUDA that the driver is for.
    pub(crate) fn major(&self) -> Result<i32> {
        let mut version = 0;
        // SAFETY: the place is writable.
        let code = unsafe { (self.cuDriverGetVersion)(&raw mut version) };
        self.check(code, "asking for the driver's version")?;
        Ok(version / 1000)
    }
}
