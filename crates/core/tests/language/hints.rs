#![deny(unused_variables)]

madelung_core::kernels! {
    #[kernel]
    fn element(i: Atom, positions: &[Vec3; Atom], out: &mut [Real; Atom]) {
        let d = positions[i];
        out[i] = d[0];
    }
}

madelung_core::kernels! {
    #[kernel]
    fn norm(i: Atom, positions: &[Vec3; Atom], out: &mut [Real; Atom]) {
        out[i] = norm(positions[i]);
    }
}

madelung_core::kernels! {
    #[kernel]
    fn norm_of(i: Atom, positions: &[Vec3; Atom], out: &mut [Real; Atom]) {
        out[i] = positions[i].norm();
    }
}

madelung_core::kernels! {
    #[kernel]
    fn stars(i: Atom, x: &[Real; Atom], out: &mut [Real; Atom]) {
        out[i] = 4.0 / x[i] ** 6;
    }
}

madelung_core::kernels! {
    #[kernel]
    fn caret(i: Atom, x: &[Real; Atom], out: &mut [Real; Atom]) {
        out[i] = x[i]^6;
    }
}

madelung_core::kernels! {
    #[func]
    fn square(x: Real) {
        x * x
    }
}

madelung_core::kernels! {
    #[kernel]
    fn unused(i: Atom, x: &[Real; Atom], scale: Real, _known: &Real, out: &mut [Real; Atom]) {
        out[i] = x[i];
    }
}

fn main() {}
