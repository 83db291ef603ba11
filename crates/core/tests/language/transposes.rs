madelung_core::kernels! {
    /// What is found when the derivatives are formed points at the kernel's name.
    #[kernel]
    fn embedding(i: Atom, x: &[Real; Atom], pairs: &Pairs<Atom>, out: &mut [Real; Atom]) {
        let mut rho = 0.0;
        for (j, shift) in pairs.row(i) {
            rho += x[j];
        }
        out[i] = -sqrt(rho);
    }
}

fn main() {}
