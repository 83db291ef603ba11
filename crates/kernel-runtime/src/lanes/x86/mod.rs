//! Lanes on AVX2 and AVX-512 registers.
//!
//! Every method is `#[inline(always)]`, so it is compiled for the features of the function it is called from. The
//! one thing that a caller must keep: these types are used only inside functions that enable `avx2,fma`, or
//! `avx512f,avx512dq,avx512vl,avx512bw,avx2,fma`, entered after [`Isa::detect`](super::Isa::detect) has found them.
//! No closures here: whether these are inlined is the compiler's choice.
#![expect(unsafe_code, reason = "processor intrinsics, and memory whose validity the caller promises")]

mod avx2_f32;
mod avx2_f64;
mod avx512_f32;
mod avx512_f64;

pub use avx2_f32::Avx2F32;
pub use avx2_f64::Avx2F64;
pub use avx512_f32::Avx512F32;
pub use avx512_f64::Avx512F64;

/// √x and 1/√x where x is 0 or infinite, as `fixupimm` takes it: four bits for each class of x. Zeros (the third class):
/// x itself (1), and an infinity of its sign (6). Infinity (the sixth): itself (5), and 0 (8).
const ROOT_ENDS: (i32, i32) = (1 << 8 | 5 << 20, 6 << 8 | 8 << 20);

/// Intrinsics that touch registers only.
macro_rules! arch {
    ($($body:tt)*) => {{
        // SAFETY: a lane type is used only where its features are enabled (see the module), and nothing here
        // touches memory.
        unsafe { $($body)* }
    }};
}

/// The operators of a lane type, each one intrinsic. The negative is a subtraction from −0, which the compiler
/// knows as a negation and folds into fused operations.
macro_rules! operators {
    ($L:ident: $($Op:ident $op:ident $f:ident),*; $sub:ident $set1:ident) => {
        $(impl core::ops::$Op for $L {
            type Output = Self;
            #[inline(always)]
            fn $op(self, o: Self) -> Self {
                Self(arch!($f(self.0, o.0)))
            }
        })*
        impl core::ops::Neg for $L {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                Self(arch!($sub($set1(-0.0), self.0)))
            }
        }
    };
}

use {arch, operators};
