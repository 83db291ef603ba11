//! Logarithms of weights at distance d. Kernels of other crates can import the functions, with their derivatives:
//! `use madelung_neighbors::aggregate::weight::exponential;` at the head of a `kernels!` block.

madelung_core::kernels! {
    /// Exponential weight exp(−d/σ).
    #[func]
    pub fn exponential(d: Real, sigma: Real) -> Real { -d / sigma }

    /// Gaussian weight exp(−d²/2σ²).
    #[func]
    pub fn gaussian(d: Real, sigma: Real) -> Real { -0.5 * (d / sigma) * (d / sigma) }

    /// Inverse distance, 1/(d + σ): finite where a query is on a point.
    #[func]
    pub fn inverse(d: Real, sigma: Real) -> Real { -log(d + sigma) }
}
