madelung_core::kernels! {
    /// What is found when the derivatives are formed points at the kernel's name.
    #[kernel]
    fn triplets(i: Atom, x: &[Real; Atom], pairs: &Pairs<Atom>, out: &mut [Real; Atom]) {
        let mut e = 0.0;
        for (j, shift) in pairs.row(i) {
            for (k, t) in pairs.row(i) {
                e += x[j] * x[k];
            }
        }
        out[i] = e;
    }
}

fn main() {}
