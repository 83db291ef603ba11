//! Programs: CUDA text, compiled once for a device and kept by the process and on disk.
#![expect(unsafe_code, reason = "foreign functions are called here")]

use crate::compile::cache;
use crate::compile::hash::Hash;
use crate::compile::nvrtc::{Nvrtc, Target};
use crate::driver::device::Device;
use cudarc::driver::sys;
use madelung_core::{Error, Result};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::{CString, c_int};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

/// Code that no driver takes for another device, or that is broken.
const REFUSED: [u32; 4] = [200, 209, 218, 222];

/// CUDA text with macros that are defined ahead of it.
#[derive(Clone, Debug)]
pub struct Program<'a> {
    /// The name in the compiler's messages.
    pub name: &'a str,
    /// The text.
    pub text: Cow<'a, str>,
    /// Macros and their definitions.
    pub defines: &'a [(&'a str, &'a str)],
    /// Whether a product and a sum may be rounded once, as the compiler likes.
    pub contracts: bool,
}

/// A function of a program on a device. Holds for as long as the process lives.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    device: &'static Device,
    /// An address, for threads share it.
    raw: usize,
}

impl Function {
    /// The device that it is for.
    pub fn device(&self) -> &'static Device {
        self.device
    }

    pub(crate) fn raw(&self) -> sys::CUfunction {
        self.raw as sys::CUfunction
    }
}

/// A program that was loaded, or is being loaded: requests for other programs do not wait.
#[derive(Debug, Default)]
struct Module {
    raw: Option<usize>,
    functions: HashMap<String, usize>,
}

/// The programs of a device. They are never unloaded: functions may be launched at any time.
#[derive(Debug, Default)]
pub(crate) struct Modules(Mutex<HashMap<u128, Arc<Mutex<Module>>>>);

impl Program<'_> {
    fn hash(&self) -> Hash {
        let hash = Hash::new().with(self.text.as_bytes()).with(&[u8::from(self.contracts)]);
        let hash = hash.with(&(self.defines.len() as u64).to_le_bytes());
        self.defines
            .iter()
            .fold(hash, |hash, (name, value)| hash.with(name.as_bytes()).with(value.as_bytes()))
    }
}

impl Device {
    /// A function of a program, which is compiled for this device if neither this process nor the cache on disk has it.
    /// Looking one up costs a hash of the text: keep the `Function` for frequent launches.
    ///
    /// # Errors
    /// There is no NVRTC, or none for this architecture; the compiler refuses the text (the error has its log); the
    /// program has no such function.
    pub fn function(&'static self, program: &Program<'_>, function: &str) -> Result<Function> {
        if self.is_still() {
            return Ok(Function { device: self, raw: 0 });
        }
        let key = program.hash();
        let module = {
            let mut modules = self.modules.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(modules.entry(key.finish()).or_default())
        };
        let mut module = module.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(raw) = module.functions.get(function) {
            return Ok(Function { device: self, raw: *raw });
        }
        let _current = self.enter()?;
        let raw = match module.raw {
            Some(raw) => raw,
            None => *module.raw.insert(self.load(program, key)?),
        };
        let name = CString::new(function)
            .map_err(|_| Error::argument("function", "a name without zeros", "one with a zero"))?;
        let mut found = null_mut();
        // SAFETY: the module is loaded, the name ends with a zero, and the place is writable.
        let code =
            unsafe { (self.driver.cuModuleGetFunction)(&raw mut found, raw as sys::CUmodule, name.as_ptr()) };
        self.driver.check(code, format_args!("looking for `{function}` in `{}`", program.name))?;
        module.functions.insert(function.to_string(), found as usize);
        Ok(Function { device: self, raw: found as usize })
    }

    /// Loads a program from the cache or compiles it.
    fn load(&self, program: &Program<'_>, key: Hash) -> Result<usize> {
        let nvrtc = Nvrtc::get()?;
        let target = nvrtc.target(self.architecture())?;
        let mut options =
            vec![target.option(), "--std=c++17".to_string(), format!("--fmad={}", program.contracts)];
        options.extend(program.defines.iter().map(|(name, value)| format!("--define-macro={name}={value}")));
        let (major, minor) = nvrtc.version;
        let key = key
            .with(options[0].as_bytes())
            .with(options[1].as_bytes())
            .with(format!("{major}.{minor}").as_bytes())
            .finish();
        let doing = format!("loading `{}` on device {}", program.name, self.ordinal());
        if let Some(kept) = cache::get(key) {
            match self.load_image(&kept) {
                Ok(module) => return Ok(module),
                Err(code) if REFUSED.contains(&code) => cache::discard(key),
                Err(code) => return self.driver.check(code, doing).map(|()| 0),
            }
        }
        let made = nvrtc.compile(program.name, &program.text, &options, target)?;
        match self.load_image(&made) {
            Ok(module) => {
                cache::put(key, &made);
                Ok(module)
            }
            Err(code) => {
                let how = if matches!(target, Target::Virtual(_)) { ", from PTX," } else { "" };
                self.driver
                    .check(code, format_args!("{doing}{how} as NVRTC {major}.{minor} made it"))
                    .map(|()| 0)
            }
        }
    }

    fn load_image(&self, image: &[u8]) -> std::result::Result<usize, u32> {
        // A capture in progress on another stream does not affect the loading.
        let _relaxed = Relaxed::new(self);
        let mut module = null_mut();
        // SAFETY: the image is whole, as the compiler made it, and the place is writable.
        match unsafe { (self.driver.cuModuleLoadData)(&raw mut module, image.as_ptr().cast()) } {
            0 => Ok(module as usize),
            code => Err(code),
        }
    }
}

/// While this lives, this thread may allocate and load although a stream captures.
pub(crate) struct Relaxed<'a> {
    device: &'a Device,
    before: c_int,
}

impl<'a> Relaxed<'a> {
    pub(crate) fn new(device: &'a Device) -> Self {
        /// `CU_STREAM_CAPTURE_MODE_RELAXED`
        const RELAXED: c_int = 2;
        let mut before = RELAXED;
        // SAFETY: the place holds a mode and gets the one before.
        unsafe { (device.driver.cuThreadExchangeStreamCaptureMode)(&raw mut before) };
        Self { device, before }
    }
}

impl Drop for Relaxed<'_> {
    fn drop(&mut self) {
        // SAFETY: the place holds the mode that this thread had.
        unsafe { (self.device.driver.cuThreadExchangeStreamCaptureMode)(&raw mut self.before) };
    }
}
