//! SIMD lanes, and the special functions on them, which generated code calls.
//!
//! Every function stands once, in [`functions`], over the operations that a lane type has; `f32` and `f64` are
//! lanes of one, so the scalar form of a kernel and its lanes differ by the rounding of fused operations only.
//! Generated code picks the lane type with [`Isa::detect`] and enters it through a `#[target_feature]` function:
//! all lane methods are inlined into that function, and none of them may run outside such a one.

mod coefficients;
mod functions;
mod isa;
mod lane;
pub mod packed;
mod portable;
#[cfg(target_arch = "x86_64")]
mod registers;
mod single;
pub mod traced;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests;

pub use isa::Isa;
pub use lane::{Elem, Lane, Work};
pub use portable::{Portable32, Portable64};
#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2F32, Avx2F64, Avx512F32, Avx512F64};

/// The output of work, compiled for the lanes that this processor has: for loops that the compiler turns into vector
/// instructions.
pub fn vectorized<W: Work>(work: W) -> W::Output {
    match Isa::detect() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => Avx512F64::apart(work),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => Avx2F64::apart(work),
        _ => work.run(),
    }
}

/// The special functions, each compiled once for every lane type: for kernels whose code is to be small. All others call
/// [`Lane`]'s own, which are inlined.
pub mod outlined {
    use super::Lane;

    macro_rules! outlined {
        ($($f:ident($($x:ident),+) -> $Result:ty;)*) => {$(
            #[doc = concat!("[`Lane::", stringify!($f), "`].")]
            #[inline(always)]
            pub fn $f<L: Lane>($($x: L),+) -> $Result {
                L::apart(move || Lane::$f($($x),+))
            }
        )*};
    }
    outlined! {
        exp(x) -> L;
        ln(x) -> L;
        pow(x, e) -> L;
        erfc(x) -> L;
        exp_neg_sq(x) -> L;
        erfc_exp_neg_sq(x) -> (L, L);
        erf(x) -> L;
        tanh(x) -> L;
        atan2(y, x) -> L;
        asin(x) -> L;
        acos(x) -> L;
        floor(x) -> L;
        sin(x) -> L;
        cos(x) -> L;
        sin_cos(x) -> (L, L);
        sqrt_recip(x) -> (L, L);
    }
}

/// The special functions of f64 outside the loops: the standard library's, and [`Lane`]'s where it has none.
pub mod scalar {
    use super::Lane;

    macro_rules! scalar {
        ($($f:ident($($x:ident),+) = $of:path;)*) => {$(
            #[doc = concat!("[`", stringify!($of), "`].")]
            pub fn $f($($x: f64),+) -> f64 {
                $of($($x),+)
            }
        )*};
    }
    scalar! {
        exp(x) = f64::exp;
        ln(x) = f64::ln;
        pow(x, e) = f64::powf;
        erfc(x) = Lane::erfc;
        exp_neg_sq(x) = Lane::exp_neg_sq;
        erf(x) = Lane::erf;
        tanh(x) = f64::tanh;
        atan2(y, x) = Lane::atan2;
        asin(x) = f64::asin;
        acos(x) = f64::acos;
        floor(x) = f64::floor;
        sin(x) = f64::sin;
        cos(x) = f64::cos;
    }
}
