madelung_core::kernels! {
    #[kernel]
    fn index(i: Atom, alpha: &[Real; System], out: &mut [Real; Atom]) {
        out[i] = alpha[i];
    }
}

madelung_core::kernels! {
    #[kernel]
    fn number(i: Atom, x: &[Real; Atom], n: i32, out: &mut [Real; Atom]) {
        out[i] = x[i] * n;
    }
}

madelung_core::kernels! {
    #[kernel]
    fn parameter(i: Atom, x: &[f64; Atom], out: &mut [Real; Atom]) {
        out[i] = x[i];
    }
}

madelung_core::kernels! {
    #[func]
    fn square(x: Real) -> Real {
        x * x
    }

    #[derivative(square)]
    fn square_derivative(x: Real) -> (Real, Real) {
        (2.0 * x, x)
    }

    #[kernel]
    fn partials(i: Atom, x: &[Real; Atom], out: &mut [Real; Atom]) {
        out[i] = square(x[i]);
    }
}

fn main() {}
