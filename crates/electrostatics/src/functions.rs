//! Formulas of one pair, for kernels of other crates as well: `use madelung_electrostatics::functions::screened;` at the
//! head of a `kernels!` block, and its derivative comes with it.

madelung_core::kernels! {
    /// erfc(αr)/r
    #[func]
    pub fn screened(r: Real, alpha: Real) -> Real {
        erfc(alpha * r) / r
    }
}
