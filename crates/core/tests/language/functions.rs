mod library {
    madelung_core::kernels! {
        #[func]
        pub fn half(x: Real) -> Real {
            0.5 * x
        }
    }
}

mod everything {
    madelung_core::kernels! {
        use crate::library::*;
    }
}

mod arguments {
    madelung_core::kernels! {
        use crate::library::half;

        #[kernel]
        fn k(i: Atom, x: &[Real; Atom], v: &[Vec3; Atom], out: &mut [Real; Atom]) {
            out[i] = half(x[i], x[i]);
        }
    }
}

mod twice {
    madelung_core::kernels! {
        use crate::library::half;

        #[func]
        fn half(x: Real) -> Real {
            x
        }
    }
}

mod handed_on {
    madelung_core::kernels! {
        pub use crate::library::half;
    }
}

mod wrong {
    madelung_core::kernels! {
        #[func]
        pub fn wrong(x: Real) -> Vec3 {
            x
        }
    }
}

fn main() {
    library::half!(1.0);
}
