//! What only a kernel can see: the status word of a launch, and what becomes of it.

use crate::runtime::{Kernel, Reason};
use crate::{Error, Result};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The status word of a launch: a bit for each reason, and behind it for each reason the last parameter (position + 1;
/// 0: unknown) that it was raised for. Rows raise it in any order, and it ends up the same.
#[derive(Debug, Default)]
pub struct Word([AtomicU32; 1 + Reason::ALL.len()]);

impl Word {
    /// Its length.
    pub const LEN: usize = 1 + Reason::ALL.len();

    /// As kernels of a device left it.
    pub fn of(word: [u32; Self::LEN]) -> Self {
        Self(word.map(AtomicU32::new))
    }

    /// Where kernels find it.
    pub fn pointer(&self) -> *mut u32 {
        self.0.as_ptr().cast::<u32>().cast_mut()
    }

    /// The bits that were raised.
    pub fn bits(&self) -> u32 {
        self.0[0].load(Relaxed)
    }

    /// The first reason, and the parameter where one is known.
    pub fn first(&self) -> Option<(Reason, Option<usize>)> {
        let bits = self.bits();
        let reason = Reason::ALL.into_iter().find(|r| bits & r.bit() != 0)?;
        let param = self.0[1 + reason as usize].load(Relaxed);
        Some((reason, (param as usize).checked_sub(1)))
    }

    /// The error that it stands for; `name` gives a parameter (or the call as a whole) the name that the caller knows.
    pub fn error(&self, name: impl Fn(Option<usize>) -> String) -> Option<Error> {
        self.first().map(|(reason, param)| {
            let (expected, got) = reason.text();
            Error::argument(name(param), expected, got)
        })
    }

    /// [`Word::error`] where nobody but the kernel knows names.
    pub fn error_of(&self, kernel: &Kernel) -> Option<Error> {
        self.error(|param| match param {
            Some(p) => format!("{}::{}", kernel.name, kernel.params[p].name),
            None => kernel.name.to_string(),
        })
    }
}

/// What becomes of an error that only a run shows.
pub trait Status: Sync {
    /// Takes it. `Err` ends the call with it; `Ok` puts it off: real outputs of the call become NaN, and the next
    /// [`Status::check`] gives it.
    fn raise(&self, error: Error) -> Result<()>;

    /// The first error that was put off since the last check.
    ///
    /// # Errors
    /// That one.
    fn check(&self) -> Result<()>;
}

/// Every error at once, as eager calls on a CPU have it.
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

/// Errors wait for the next check, as where nothing is to synchronise for them.
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
