//! Pair potentials, split for charge sums: a module of six functions each, which [`charge_sum!`](crate::charge_sum) makes
//! kernels and ops of. Kernels of other crates import them, too, with their derivatives:
//! `use madelung_electrostatics::potential::coulomb::short_range;` at the head of a `kernels!` block.
//!
//! | function | is |
//! |---|---|
//! | `full(r)` | the potential φ at distance r |
//! | `short_range(r, alpha)` | its short-range part, the terms of the real-space sum |
//! | `long_range(r, alpha)` | its long-range part, φ minus the short-range part: excluded pairs give this back |
//! | `long_range_k2(k2, volume, alpha)` | the long-range part's Fourier coefficient at k² ≠ 0 in a cell (its transform over the volume), the terms of the reciprocal sum and the factor of a mesh |
//! | `self_term(alpha)` | the long-range part at r = 0, which every charge finds at its own place |
//! | `background(volume, alpha)` | the coefficient that the sum takes off at k = 0: the short-range part's, where a uniform charge neutralises the cell; minus the long-range part's, where the plain sum over the lattice converges and is wanted |
//!
//! The potential's own parameters come last, in every function. A charge's energy is
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
