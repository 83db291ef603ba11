//! Range-separated pair potentials: modules of six functions, from which [`charge_sum!`](crate::charge_sum) makes
//! kernels and ops. Kernels of other crates can import the functions, with their derivatives: `use
//! madelung_electrostatics::potential::coulomb::short_range;` at the head of a `kernels!` block.
//!
//! | function | value |
//! |---|---|
//! | `full(r)` | the potential φ at distance r |
//! | `short_range(r, alpha)` | the short-range part, the terms of the real-space sum |
//! | `long_range(r, alpha)` | the long-range part, φ minus the short-range part, which excluded pairs subtract |
//! | `long_range_k2(k2, volume, alpha)` | the Fourier coefficient of the long-range part in a cell at k² ≠ 0 (the transform divided by the volume): the factor of the reciprocal sum and of a mesh |
//! | `self_term(alpha)` | the long-range part at r = 0, a charge's interaction with itself |
//! | `background(volume, alpha)` | the term that the sum subtracts for k = 0: the coefficient of the short-range part if a uniform background neutralises the cell; minus that of the long-range part for a plain lattice sum that converges |
//!
//! The potential's own parameters come last in every function. The energy of charge i is
//! ½ qᵢ [Σⱼ qⱼ `short_range` + Σ_k `long_range_k2` Re S(k)* exp(i k·rᵢ) − qᵢ `self_term` − Q `background`].

/// 1/r, split by erfc(αr), with a uniform background.
pub mod coulomb {
    madelung_core::kernels! {
        /// 1/r
        #[func]
        pub fn full(r: Real) -> Real {
            1.0 / r
        }

        /// erfc(αr)/r
        #[func]
        pub fn short_range(r: Real, alpha: Real) -> Real {
            erfc(alpha * r) / r
        }

        /// erf(αr)/r
        #[func]
        pub fn long_range(r: Real, alpha: Real) -> Real {
            (1.0 - erfc(alpha * r)) / r
        }

        /// 4π/(V k²) · exp(−k²/4α²)
        #[func]
        pub fn long_range_k2(k2: Real, volume: Real, alpha: Real) -> Real {
            4.0 * PI / (volume * k2) * exp(-k2 / (4.0 * (alpha * alpha)))
        }

        /// 2α/√π
        #[func]
        pub fn self_term(alpha: Real) -> Real {
            2.0 * alpha / sqrt(PI)
        }

        /// π/(α²V)
        #[func]
        pub fn background(volume: Real, alpha: Real) -> Real {
            PI / (alpha * alpha * volume)
        }
    }
}
