madelung_core::kernels! {
    #[kernel]
    fn carried(i: Atom, x: &[Real; Atom], pairs: &Pairs<Atom>, out: &mut [Real; Atom]) {
        let mut e = 0.0;
        for (j, shift) in pairs.row(i) {
            e += 0.5 * e + x[j];
        }
        out[i] = e;
    }
}

madelung_core::kernels! {
    #[kernel]
    fn product(i: Atom, x: &[Real; Atom], pairs: &Pairs<Atom>, out: &mut [Real; Atom]) {
        let mut e = 1.0;
        for (j, shift) in pairs.row(i) {
            e *= x[j];
        }
        out[i] = e;
    }
}

madelung_core::kernels! {
    #[kernel]
    fn scattered(i: Atom, x: &[Real; Atom], pairs: &Pairs<Atom>, out: &mut [Real; Atom]) {
        for (j, shift) in pairs.row(i) {
            out[j] += x[i];
        }
    }
}

madelung_core::kernels! {
    #[kernel]
    fn search(i: Atom, x: &[Real; Atom], out: &mut [Real; Atom]) {
        while x[i] > 0.0 {}
    }
}

fn main() {}
