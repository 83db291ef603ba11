//! Range-separated pair potentials: modules of six functions, from which [`charge_sum!`](crate::charge_sum) makes
//! kernels and ops, as [`ChargeSum::from_source`](crate::ChargeSum::from_source) does of source text. Kernels of other crates can import the functions, with their derivatives: `use
//! madelung_electrostatics::potential::coulomb::short_range;` at the head of a `kernels!` block.
//!
//! | function | value |
//! |---|---|
//! | `full(r)` | the potential φ at distance r |
//! | `short_range(r, alpha)` | the short-range part, the terms of the real-space sum |
//! | `long_range(r2, alpha)` | the long-range part at r², φ minus the short-range part: smooth at r = 0, where excluded pairs may be |
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
        pub fn long_range(r2: Real, alpha: Real) -> Real {
            2.0 / sqrt(PI) * alpha * boys0(alpha * alpha * r2)
        }

        /// Boys function F₀(x) = ∫₀¹ exp(−xt²) dt, whose derivative is −F₁.
        #[func]
        fn boys0(x: Real) -> Real {
            if x < 1.0 { 2.0 * x * boys1(x) + exp(-x) } else { half_erf(x) }
        }

        #[derivative(boys0)]
        fn boys0_derivative(x: Real) -> Real {
            -boys1(x)
        }

        /// F₁(x) = ∫₀¹ t² exp(−xt²) dt
        #[func]
        fn boys1(x: Real) -> Real {
            if x < 1.0 { (2.0 * x * boys2(x) + exp(-x)) / 3.0 } else { (half_erf(x) - exp(-x)) / (2.0 * x) }
        }

        #[derivative(boys1)]
        fn boys1_derivative(x: Real) -> Real {
            -boys2(x)
        }

        /// F₂(x) = ∫₀¹ t⁴ exp(−xt²) dt, below 1 by its series Σ (−x)ᵏ/(k! (2k + 5)).
        #[func]
        fn boys2(x: Real) -> Real {
            let s = 1.291750630374969e-15;
            let s = 2.1849039233770904e-14 - x * s;
            let s = 3.475983514463553e-13 - x * s;
            let s = 5.18033672155536e-12 - x * s;
            let s = 7.198881719954517e-11 - x * s;
            let s = 9.278558661274711e-10 - x * s;
            let s = 1.1022927689594356e-08 - x * s;
            let s = 1.198144314086343e-07 - x * s;
            let s = 1.1810279667422524e-06 - x * s;
            let s = 1.0442773600668338e-05 - x * s;
            let s = 8.169934640522875e-05 - x * s;
            let s = 0.0005555555555555556 - x * s;
            let s = 0.003205128205128205 - x * s;
            let s = 0.015151515151515152 - x * s;
            let s = 0.05555555555555555 - x * s;
            let s = 0.14285714285714285 - x * s;
            let s = 0.2 - x * s;
            let from_below = 3.0 * (half_erf(x) - exp(-x)) / (2.0 * x);
            if x < 1.0 { s } else { (from_below - exp(-x)) / (2.0 * x) }
        }

        /// F₀(x) for x > 0.
        #[func]
        fn half_erf(x: Real) -> Real {
            0.5 * sqrt(PI / x) * erf(sqrt(x))
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
