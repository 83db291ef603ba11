//! Every function on every lane type of this processor.
#![expect(
    unsafe_code,
    reason = "lane types are entered after a check of the processor; memory functions are unsafe"
)]

mod accuracy;
mod arithmetic;
mod memory;
mod reference;

/// Calls a generic function of [`Lane`](super::Lane) for every lane type that runs here.
macro_rules! on_every_lane {
    ($test:ident($($arg:expr),*)) => {
        $test::<f64>($($arg),*);
        $test::<f32>($($arg),*);
        $test::<crate::lanes::Portable64>($($arg),*);
        $test::<crate::lanes::Portable32>($($arg),*);
        #[cfg(target_arch = "x86_64")]
        {
            use crate::lanes::{Avx2F32, Avx2F64, Avx512F32, Avx512F64, Isa};
            #[target_feature(enable = "avx2,fma")]
            fn avx2(run: impl FnOnce()) {
                run();
            }
            #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
            fn avx512(run: impl FnOnce()) {
                run();
            }
            let mut ran = vec![Isa::Portable];
            if Isa::detect() >= Isa::Avx2 {
                ran.push(Isa::Avx2);
                // SAFETY: the processor has these features.
                unsafe { avx2(#[inline(always)] || { $test::<Avx2F64>($($arg),*); $test::<Avx2F32>($($arg),*); }) };
            }
            if Isa::detect() >= Isa::Avx512 {
                ran.push(Isa::Avx512);
                // SAFETY: the processor has these features.
                unsafe { avx512(#[inline(always)] || { $test::<Avx512F64>($($arg),*); $test::<Avx512F32>($($arg),*); }) };
            }
            println!("{}: {ran:?}", stringify!($test));
            assert_eq!(ran, Isa::available());
        }
    };
}
use on_every_lane;
