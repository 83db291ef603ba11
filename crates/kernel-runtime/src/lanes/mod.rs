//! What generated kernel code calls: SIMD lanes and the special functions on them.
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
mod single;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests;

pub use isa::Isa;
pub use lane::{Elem, Lane};
pub use portable::{Portable32, Portable64};
#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2F32, Avx2F64, Avx512F32, Avx512F64};

macro_rules! special {
    ($(#[$doc:meta])* $module:ident, $inline:ident) => {
        $(#[$doc])*
        pub mod $module {
            use super::Lane;

            /// `e^x`.
            #[inline($inline)]
            pub fn exp<L: Lane>(x: L) -> L {
                x.exp()
            }
            /// Natural logarithm.
            #[inline($inline)]
            pub fn ln<L: Lane>(x: L) -> L {
                x.ln()
            }
            /// `x^e`.
            #[inline($inline)]
            pub fn pow<L: Lane>(x: L, e: L) -> L {
                x.pow(e)
            }
            /// The complementary error function.
            #[inline($inline)]
            pub fn erfc<L: Lane>(x: L) -> L {
                x.erfc()
            }
            /// `exp(-x²)`.
            #[inline($inline)]
            pub fn exp_neg_sq<L: Lane>(x: L) -> L {
                x.exp_neg_sq()
            }
            /// `(erfc(x), exp(-x²))`.
            #[inline($inline)]
            pub fn erfc_exp_neg_sq<L: Lane>(x: L) -> (L, L) {
                x.erfc_exp_neg_sq()
            }
            /// Sine.
            #[inline($inline)]
            pub fn sin<L: Lane>(x: L) -> L {
                x.sin()
            }
            /// Cosine.
            #[inline($inline)]
            pub fn cos<L: Lane>(x: L) -> L {
                x.cos()
            }
            /// The square root and one over it.
            #[inline($inline)]
            pub fn sqrt_recip<L: Lane>(x: L) -> (L, L) {
                x.sqrt_recip()
            }
            /// Sine and cosine.
            #[inline($inline)]
            pub fn sin_cos<L: Lane>(x: L) -> (L, L) {
                x.sin_cos()
            }
        }
    };
}
special!(
    /// The special functions of lanes as a kernel's loops have them: inlined.
    inlined,
    always
);
special!(
    /// The same, each once for every lane type: for kernels whose code shall be small.
    outlined,
    never
);

/// The same functions for scalar f64 code outside the loops.
pub mod scalar {
    use super::Lane;

    /// The complementary error function.
    pub fn erfc(x: f64) -> f64 {
        Lane::erfc(x)
    }
    /// `exp(-x²)`, with the rounding error of the square made good.
    pub fn exp_neg_sq(x: f64) -> f64 {
        Lane::exp_neg_sq(x)
    }
    /// `(erfc(x), exp(-x²))`.
    pub fn erfc_exp_neg_sq(x: f64) -> (f64, f64) {
        Lane::erfc_exp_neg_sq(x)
    }
    /// `e^x`.
    pub fn exp(x: f64) -> f64 {
        f64::exp(x)
    }
    /// Natural logarithm.
    pub fn ln(x: f64) -> f64 {
        f64::ln(x)
    }
    /// `x^e`.
    pub fn pow(x: f64, e: f64) -> f64 {
        f64::powf(x, e)
    }
    /// Sine.
    pub fn sin(x: f64) -> f64 {
        f64::sin(x)
    }
    /// Cosine.
    pub fn cos(x: f64) -> f64 {
        f64::cos(x)
    }
    /// Sine and cosine.
    pub fn sin_cos(x: f64) -> (f64, f64) {
        f64::sin_cos(x)
    }
    /// Square root.
    pub fn sqrt(x: f64) -> f64 {
        f64::sqrt(x)
    }
}
