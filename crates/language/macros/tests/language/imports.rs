// What `madelung_core::kernels!` calls; functions need nothing else of that crate.
use madelung_macros::kernels as __kernels;

mod library {
    crate::__kernels! { (crate)
        #[func]
        pub fn half(x: Real) -> Real {
            0.5 * x
        }
    }
}

mod everything {
    crate::__kernels! { (crate)
        use crate::library::*;
    }
}

mod arguments {
    crate::__kernels! { (crate)
        use crate::library::half;

        #[kernel]
        fn k(i: Atom, x: &[Real; Atom], v: &[Vec3; Atom], out: &mut [Real; Atom]) {
            out[i] = half(x[i], x[i]);
        }
    }
}

mod twice {
    crate::__kernels! { (crate)
        use crate::library::half;

        #[func]
        fn half(x: Real) -> Real {
            x
        }
    }
}

mod handed_on {
    crate::__kernels! { (crate)
        pub use crate::library::half;
    }
}

mod wrong {
    crate::__kernels! { (crate)
        #[func]
        pub fn wrong(x: Real) -> Vec3 {
            x
        }
    }
}

fn main() {
    library::half!(1.0);
}
