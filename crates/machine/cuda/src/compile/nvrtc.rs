//! NVRTC: compiles CUDA text for the driver.
#![expect(unsafe_code, reason = "foreign functions are called here")]

use crate::driver::libraries::{Wanted, library_functions};
use crate::driver::sys::driver;
use madelung_core::{Error, Result};
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

const NVRTC: Wanted = Wanted {
    stem: "nvrtc",
    majors: &[(14, 14), (13, 13), (12, 12)],
    install: "CUDA's toolkit, or `pip install nvidia-cuda-nvrtc-cu12` (for drivers of CUDA 13: nvidia-cuda-nvrtc)",
};

type Handle = *mut c_void;

library_functions! {
    /// Functions of NVRTC, by its own names.
    Functions {
        nvrtcVersion(*mut c_int, *mut c_int);
        nvrtcGetNumSupportedArchs(*mut c_int);
        nvrtcGetSupportedArchs(*mut c_int);
        nvrtcCreateProgram(*mut Handle, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char);
        nvrtcDestroyProgram(*mut Handle);
        nvrtcCompileProgram(Handle, c_int, *const *const c_char);
        nvrtcGetProgramLogSize(Handle, *mut usize);
        nvrtcGetProgramLog(Handle, *mut c_char);
        nvrtcGetCUBINSize(Handle, *mut usize);
        nvrtcGetCUBIN(Handle, *mut c_char);
        nvrtcGetPTXSize(Handle, *mut usize);
        nvrtcGetPTX(Handle, *mut c_char);
    }
}

/// The compiler that was found.
#[derive(Debug)]
pub(crate) struct Nvrtc {
    functions: Functions,
    /// Major and minor.
    pub(crate) version: (i32, i32),
    /// The architectures that it knows, as ten times the major number and the minor one.
    known: Vec<i32>,
}

/// The target of a compilation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// Code for one architecture.
    Real(i32),
    /// PTX, which the driver finishes.
    Virtual(i32),
}

impl Target {
    /// The compiler option.
    pub(crate) fn option(self) -> String {
        match self {
            Self::Real(n) => format!("--gpu-architecture=sm_{n}"),
            Self::Virtual(n) => format!("--gpu-architecture=compute_{n}"),
        }
    }
}

/// Whether kernels can be compiled: there is a driver, and NVRTC.
pub fn has_compiler() -> bool {
    Nvrtc::get().is_ok()
}

impl Nvrtc {
    /// The compiler, searched again until it is found. It is looked for again as long as there is none.
    ///
    /// # Errors
    /// There is none; the error has the places searched and the package to install.
    pub(crate) fn get() -> Result<&'static Self> {
        static FOUND: OnceLock<Nvrtc> = OnceLock::new();
        if let Some(found) = FOUND.get() {
            return Ok(found);
        }
        let library = NVRTC.load(driver()?.major()?)?;
        // SAFETY: these are NVRTC's signatures since 11.2.
        let functions = unsafe { Functions::find(library)? };
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: the places are writable.
        let code = unsafe {
            (functions.nvrtcVersion)(&raw mut major, &raw mut minor)
                | (functions.nvrtcGetNumSupportedArchs)(&raw mut count)
        };
        check(code, "asking NVRTC what it knows")?;
        let mut known = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: there is room for as many as it said.
        let code = unsafe { (functions.nvrtcGetSupportedArchs)(known.as_mut_ptr()) };
        check(code, "asking NVRTC what it knows")?;
        Ok(FOUND.get_or_init(|| Self { functions, version: (major, minor), known }))
    }

    /// The target for an architecture: itself, or the newest older one that NVRTC knows.
    ///
    /// # Errors
    /// This NVRTC knows newer ones only.
    pub(crate) fn target(&self, (major, minor): (i32, i32)) -> Result<Target> {
        let wanted = 10 * major + minor;
        if self.known.contains(&wanted) {
            return Ok(Target::Real(wanted));
        }
        let older = self.known.iter().copied().filter(|n| *n < wanted).max();
        older.map(Target::Virtual).ok_or_else(|| {
            let (a, b) = self.version;
            Error::Unsupported(format!(
                "CUDA: NVRTC {a}.{b} does not compile for this GPU (sm_{wanted}); install an older one, such as \
                 `pip install nvidia-cuda-nvrtc-cu12`"
            ))
        })
    }

    /// Compiles a text.
    ///
    /// # Errors
    /// The text is refused: the error has the compiler's log.
    pub(crate) fn compile(
        &self,
        name: &str,
        text: &str,
        options: &[String],
        target: Target,
    ) -> Result<Vec<u8>> {
        let whole = |argument: &str, s: &str| {
            CString::new(s).map_err(|_| Error::argument(argument, "a text without zeros", "one with a zero"))
        };
        let (text, file) = (whole("text", text)?, whole("name", name)?);
        let options = options.iter().map(|o| whole("defines", o)).collect::<Result<Vec<_>>>()?;
        let options: Vec<_> = options.iter().map(|o| o.as_ptr()).collect();
        let f = &self.functions;
        let mut handle = null_mut();
        // SAFETY: both texts end with a zero, there are no headers, and the place is writable.
        let code = unsafe {
            (f.nvrtcCreateProgram)(&raw mut handle, text.as_ptr(), file.as_ptr(), 0, null(), null())
        };
        check(code, "NVRTC's making of a program")?;
        let program = Compiling { functions: f, handle };
        // SAFETY: the program is there, and the options are texts that end with a zero.
        let code = unsafe { (f.nvrtcCompileProgram)(handle, options.len() as c_int, options.as_ptr()) };
        if code != 0 {
            let log = program.bytes(f.nvrtcGetProgramLogSize, f.nvrtcGetProgramLog).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            return Err(Error::Driver(format!(
                "NVRTC {}.{} refuses `{name}` for {target:?} ({code}):\n{}",
                self.version.0,
                self.version.1,
                log.trim_end_matches('\0').trim_end()
            )));
        }
        match target {
            Target::Real(_) => program.bytes(f.nvrtcGetCUBINSize, f.nvrtcGetCUBIN),
            Target::Virtual(_) => program.bytes(f.nvrtcGetPTXSize, f.nvrtcGetPTX),
        }
    }
}

/// A program, until it is dropped.
struct Compiling<'a> {
    functions: &'a Functions,
    handle: Handle,
}

impl Compiling<'_> {
    fn bytes(
        &self,
        size: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
        get: unsafe extern "C" fn(Handle, *mut c_char) -> c_int,
    ) -> Result<Vec<u8>> {
        let mut n = 0;
        // SAFETY: the program is there and the place writable.
        check(unsafe { size(self.handle, &raw mut n) }, "asking NVRTC for a size")?;
        let mut bytes = vec![0_u8; n];
        // SAFETY: there is room for as many bytes as it said.
        check(unsafe { get(self.handle, bytes.as_mut_ptr().cast()) }, "taking what NVRTC made")?;
        Ok(bytes)
    }
}

impl Drop for Compiling<'_> {
    fn drop(&mut self) {
        // SAFETY: the program is there, and used no more.
        unsafe { (self.functions.nvrtcDestroyProgram)(&raw mut self.handle) };
    }
}

fn check(code: c_int, doing: &str) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Error::Driver(format!("{doing}: NVRTC's error {code}"))) }
}
