//! Access of kernels without adjoint to shared memory: outputs, and the status word.
//!
//! Sound because every access to an output of such a kernel, the row's own element included, is one of the relaxed
//! atomic operations below, for as long as the launch has the array to itself; so two rows that meet at an element are
//! no data race, and one of the values that were written stays. Relaxed loads and stores are plain moves on the
//! processors there are.
#![expect(unsafe_code, reason = "elements are reached through a launch's pointers")]

use crate::lanes::Elem;
use crate::launch::LaunchAbi;
use madelung_abi::Reason;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

/// An element type of real outputs.
pub trait SharedReal: Elem {
    /// The element, as f64.
    ///
    /// # Safety
    /// `p` is valid, and touched by functions of this module alone.
    unsafe fn load(p: *mut Self) -> f64;
    /// Writes `x`, rounded.
    ///
    /// # Safety
    /// As [`SharedReal::load`].
    unsafe fn store(p: *mut Self, x: f64);
}

/// An element type of integer outputs.
pub trait SharedInt: Copy + Into<i64> + TryFrom<i64> + 'static {
    /// The element.
    ///
    /// # Safety
    /// `p` is valid, and touched by functions of this module alone.
    unsafe fn load(p: *mut Self) -> Self;
    /// Writes `x`.
    ///
    /// # Safety
    /// As [`SharedInt::load`].
    unsafe fn store(p: *mut Self, x: Self);
    /// Adds `x`, wrapping, and gives the element before.
    ///
    /// # Safety
    /// As [`SharedInt::load`].
    unsafe fn add(p: *mut Self, x: Self) -> Self;
    /// Keeps the larger, and gives the element before.
    ///
    /// # Safety
    /// As [`SharedInt::load`].
    unsafe fn max(p: *mut Self, x: Self) -> Self;
    /// Keeps the smaller, and gives the element before.
    ///
    /// # Safety
    /// As [`SharedInt::load`].
    unsafe fn min(p: *mut Self, x: Self) -> Self;
}

macro_rules! shared {
    (real $($t:ty, $atomic:ty);*) => {$(
        impl SharedReal for $t {
            #[inline(always)]
            unsafe fn load(p: *mut Self) -> f64 {
                const { assert!(align_of::<$t>() == align_of::<$atomic>()) };
                // SAFETY: the caller's promise; the atomic has the size and alignment of the element.
                Self::from_bits(unsafe { <$atomic>::from_ptr(p.cast()) }.load(Relaxed)).into()
            }
            #[inline(always)]
            unsafe fn store(p: *mut Self, x: f64) {
                const { assert!(align_of::<$t>() == align_of::<$atomic>()) };
                // SAFETY: as for `load`.
                unsafe { <$atomic>::from_ptr(p.cast()) }.store((x as Self).to_bits(), Relaxed);
            }
        }
    )*};
    (int $($t:ty, $atomic:ty);*) => {$(
        impl SharedInt for $t {
            #[inline(always)]
            unsafe fn load(p: *mut Self) -> Self {
                const { assert!(align_of::<$t>() == align_of::<$atomic>()) };
                // SAFETY: the caller's promise; the atomic has the size and alignment of the element.
                unsafe { <$atomic>::from_ptr(p) }.load(Relaxed)
            }
            #[inline(always)]
            unsafe fn store(p: *mut Self, x: Self) {
                const { assert!(align_of::<$t>() == align_of::<$atomic>()) };
                // SAFETY: as for `load`.
                unsafe { <$atomic>::from_ptr(p) }.store(x, Relaxed);
            }
            shared!(update add fetch_add $t, $atomic);
            shared!(update max fetch_max $t, $atomic);
            shared!(update min fetch_min $t, $atomic);
        }
    )*};
    (update $name:ident $fetch:ident $t:ty, $atomic:ty) => {
        #[inline(always)]
        unsafe fn $name(p: *mut Self, x: Self) -> Self {
            const { assert!(align_of::<$t>() == align_of::<$atomic>()) };
            // SAFETY: as for `load`.
            unsafe { <$atomic>::from_ptr(p) }.$fetch(x, Relaxed)
        }
    };
}
shared!(real f32, AtomicU32; f64, AtomicU64);
shared!(int i32, AtomicI32; i64, AtomicI64);

/// Raises a bit of the launch's status word for a parameter (position + 1; 0: for none).
///
/// # Safety
/// The launch's status word is there.
#[cold]
pub unsafe fn raise(a: &LaunchAbi, reason: Reason, param: u32) {
    // SAFETY: the caller's promise; the word has an entry for every reason behind its bits.
    unsafe {
        AtomicU32::from_ptr(a.status).fetch_or(reason.bit(), Relaxed);
        AtomicU32::from_ptr(a.status.add(1 + reason as usize)).fetch_max(param, Relaxed);
    }
}

/// A real element.
///
/// # Safety
/// As [`SharedReal::load`].
#[inline(always)]
pub unsafe fn load<E: SharedReal>(p: *mut E) -> f64 {
    // SAFETY: the caller's promise.
    unsafe { E::load(p) }
}

/// Writes a real element.
///
/// # Safety
/// As [`SharedReal::store`].
#[inline(always)]
pub unsafe fn store<E: SharedReal>(p: *mut E, x: f64) {
    // SAFETY: the caller's promise.
    unsafe { E::store(p, x) };
}

/// An integer element.
///
/// # Safety
/// As [`SharedInt::load`].
#[inline(always)]
pub unsafe fn load_int<I: SharedInt>(p: *mut I) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { I::load(p) }.into()
}

/// Writes an integer element; one that does not fit raises the status word instead.
///
/// # Safety
/// As [`SharedInt::store`] and [`raise`].
#[inline(always)]
pub unsafe fn store_int<I: SharedInt>(a: &LaunchAbi, p: *mut I, x: i64, param: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        match I::try_from(x) {
            Ok(x) => I::store(p, x),
            Err(_) => raise(a, Reason::Overflow, param),
        }
    }
}

/// Adds to an integer element and gives it as it was; a sum that does not fit raises the status word.
///
/// # Safety
/// As [`SharedInt::add`] and [`raise`].
#[inline(always)]
pub unsafe fn atomic_add<I: SharedInt>(a: &LaunchAbi, p: *mut I, x: i64, param: u32) -> i64 {
    // SAFETY: the caller's promise.
    unsafe {
        let Ok(narrow) = I::try_from(x) else {
            raise(a, Reason::Overflow, param);
            return I::load(p).into();
        };
        let before: i64 = I::add(p, narrow).into();
        if before.checked_add(x).and_then(|sum| I::try_from(sum).ok()).is_none() {
            raise(a, Reason::Overflow, param);
        }
        before
    }
}

/// Keeps the larger of an integer element and `x`, and gives the element as it was.
///
/// # Safety
/// As [`SharedInt::max`] and [`raise`].
#[inline(always)]
pub unsafe fn atomic_max<I: SharedInt>(a: &LaunchAbi, p: *mut I, x: i64, param: u32) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { atomic_extremum(a, p, x, param, I::max) }
}

/// Keeps the smaller of an integer element and `x`, and gives the element as it was.
///
/// # Safety
/// As [`SharedInt::min`] and [`raise`].
#[inline(always)]
pub unsafe fn atomic_min<I: SharedInt>(a: &LaunchAbi, p: *mut I, x: i64, param: u32) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { atomic_extremum(a, p, x, param, I::min) }
}

/// [`atomic_max`] or [`atomic_min`]; an `x` that does not fit raises the status word.
#[inline(always)]
unsafe fn atomic_extremum<I: SharedInt>(
    a: &LaunchAbi,
    p: *mut I,
    x: i64,
    param: u32,
    keep: unsafe fn(*mut I, I) -> I,
) -> i64 {
    // SAFETY: the caller's promise.
    unsafe {
        match I::try_from(x) {
            Ok(x) => keep(p, x).into(),
            Err(_) => {
                raise(a, Reason::Overflow, param);
                I::load(p).into()
            }
        }
    }
}
