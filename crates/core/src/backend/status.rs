//! What only a kernel can see: the status word of a launch, and what becomes of it.

use super::kernel::Kernel;
use crate::{Error, Result};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Why a row raised the status word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    /// An index is out of range.
    Index = 0,
    /// Two points coincide.
    Coincident = 1,
    /// There is more than there is room for.
    Capacity = 2,
    /// A number is infinite or NaN.
    NotFinite = 3,
    /// An integer does not fit its array.
    Overflow = 4,
    /// An integer was divided by zero.
    Division = 5,
    /// A number is not above zero.
    NotPositive = 6,
    /// A number is not zero.
    NotZero = 7,
    /// Lattice vectors span no volume.
    Flat = 8,
    /// A batch's rows are not in the order of its systems.
    Unordered = 9,
    /// Offsets of a list fall, or do not fit its entries.
    Offsets = 10,
    /// An atom is paired with itself.
    Itself = 11,
    /// A pair joins two systems.
    Crossing = 12,
    /// Pairs are there from one side only.
    OneSided = 13,
    /// A result is infinite or NaN.
    Result = 14,
    /// A grid was built from other points.
    Stale = 15,
    /// Points or images are too far away to be numbered.
    Far = 16,
    /// There are fewer points than are asked for.
    Few = 17,
}

impl Reason {
    /// All of them, in the order of their bits.
    pub const ALL: [Self; 18] = [
        Self::Index,
        Self::Coincident,
        Self::Capacity,
        Self::NotFinite,
        Self::Overflow,
        Self::Division,
        Self::NotPositive,
        Self::NotZero,
        Self::Flat,
        Self::Unordered,
        Self::Offsets,
        Self::Itself,
        Self::Crossing,
        Self::OneSided,
        Self::Result,
        Self::Stale,
        Self::Far,
        Self::Few,
    ];

    /// Its bit of the word.
    pub fn bit(self) -> u32 {
        1 << self as u32
    }

    /// What should have been, and what was.
    fn text(self) -> (&'static str, &'static str) {
        match self {
            Self::Index => ("indices of rows that are there", "one out of range"),
            Self::Coincident => ("points that are apart", "two on the same place"),
            Self::Capacity => ("room for all that there is", "a capacity that is too small"),
            Self::NotFinite => ("finite numbers", "an infinity or NaN"),
            Self::Overflow => ("integers that fit its elements", "one that does not"),
            Self::Division => ("divisors other than zero", "zero"),
            Self::NotPositive => ("finite numbers > 0", "others"),
            Self::NotZero => ("zeros: it stands for a derivative, not a deformation", "others"),
            Self::Flat => ("three lattice vectors (rows) that span a volume", "others"),
            Self::Unordered => ("systems one after the other, each where its offsets say", "others"),
            Self::Offsets => ("offsets that never fall, from 0 on", "others"),
            Self::Itself => ("pairs of two atoms (or images)", "an atom paired with itself at shift 0"),
            Self::Crossing => ("pairs within one system", "a pair of two systems"),
            Self::OneSided => (
                "a full list (every (i, j, S) with its (j, i, −S)); declare a half list as half, or turn it into a full \
                 one first",
                "pairs without their reverse: a half list, or one that was cut short",
            ),
            Self::Result => {
                ("arguments with a finite result", "an infinity or NaN (two points on one place?)")
            }
            Self::Stale => {
                ("a grid of the call's points (after they have moved: `rebuild`)", "a grid of others")
            }
            Self::Far => (
                "coordinates within 2^29 boxes and 1e15 cells of the origin, and distances of at most 500 boxes along the \
                 first axis and 1000 along the others",
                "some beyond",
            ),
            Self::Few => ("no more than there are points (or a fill value)", "more"),
        }
    }
}

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
