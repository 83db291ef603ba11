//! Errors that only a running kernel can detect: the status word of a launch, and its handling.

use crate::runtime::{Kernel, Reason};
use crate::{Error, Result};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The status word of a launch: a bit for each reason, then for each reason the parameter with the highest position
/// (position + 1; 0: unknown) that raised it. The result does not depend on the order of rows.
#[derive(Debug, Default)]
pub struct Word([AtomicU32; 1 + Reason::ALL.len()]);

impl Word {
    /// The number of 32-bit words.
    pub const LEN: usize = 1 + Reason::ALL.len();

    /// The word that kernels of a device wrote.
    pub fn of(word: [u32; Self::LEN]) -> Self {
        Self(word.map(AtomicU32::new))
    }

    /// The address for kernels.
    pub fn pointer(&self) -> *mut u32 {
        self.0.as_ptr().cast::<u32>().cast_mut()
    }

    /// The bits of the raised reasons.
    pub fn bits(&self) -> u32 {
        self.0[0].load(Relaxed)
    }

    /// The first raised reason, and its parameter if known.
    pub fn first(&self) -> Option<(Reason, Option<usize>)> {
        let bits = self.bits();
        let reason = Reason::ALL.into_iter().find(|r| bits & r.bit() != 0)?;
        let param = self.0[1 + reason as usize].load(Relaxed);
        Some((reason, (param as usize).checked_sub(1)))
    }

    /// The error of the first raised reason; `name` is the caller's name of a parameter, or of the call as a whole.
    pub fn error(&self, name: impl Fn(Option<usize>) -> String) -> Option<Error> {
        self.first().map(|(reason, param)| {
            let (expected, got) = reason.text();
            Error::argument(name(param), expected, got)
        })
    }

    /// [`Word::error`] with the kernel's own names.
    pub fn error_of(&self, kernel: &Kernel) -> Option<Error> {
        self.error(|param| match param {
            Some(p) => format!("{}::{}", kernel.name, kernel.params[p].name),
            None => kernel.name.to_string(),
        })
    }
}

/// The policy for errors detected while kernels run.
pub trait Status: Sync {
    /// Handles an error. `Err` ends the call; `Ok` defers the error: real outputs of the call become NaN, and the next
    /// [`Status::check`] returns the error.
    fn raise(&self, error: Error) -> Result<()>;

    /// Reports deferred errors.
    ///
    /// # Errors
    /// The first error deferred since the last check.
    fn check(&self) -> Result<()>;
}

/// Immediate errors, as for eager calls on a CPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct AtOnce;

impl Status for AtOnce {
    fn raise(&self, error: Error) -> Result<()> {
        Err(error)
    }

    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// Deferred errors, for calls that must not synchronise.
#[derive(Debug, Default)]
pub struct Deferred(Mutex<Option<Error>>);

impl Status for Deferred {
    fn raise(&self, error: Error) -> Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        Ok(())
    }

    fn check(&self) -> Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}
