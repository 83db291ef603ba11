//! 1/rᵖ for p = 1 to 6, split by incomplete gamma functions (Nijboer and De Wette, Physica 23, 309 (1957)): with x = α²r²,
//! y = k²/4α², Q(a, x) = Γ(a, x)/Γ(a) and the exponential integrals Eₙ(y) = ∫₁^∞ exp(−yt)/tⁿ dt,
//!
//! ```text
//! short-range part   Q(p/2, x)/rᵖ
//! long-range part    αᵖ/Γ(p/2) ∫₀¹ t^(p/2−1) exp(−xt) dt      in waves: π^(3/2) αᵖ⁻³/(V Γ(p/2)) E₍ₚ₋₁₎⸝₂(y)
//! ```
//!
//! The exponent is a real number of each system that is rounded to p; nothing is differentiated by it. p = 6 is dispersion
//! (Essmann et al., J. Chem. Phys. 103, 8577 (1995), §IV). For p < 3 a uniform background neutralises the cell, as for
//! charges; for p > 3 the sum converges without one, and the term k = 0 is part of it. Both are one formula, since the term
//! 2/(p − 3) of Eₙ(0) changes its sign. For p = 3 the sum is that of neutral cells: the term k = 0 is left out.

madelung_core::kernels! {
    /// The number of an exponent among those of 1 to 6, as a polynomial: exact there, as its products are whole numbers. A
    /// choice among terms by conditions would leave code for each of them in every derivative.
    #[func]
    fn of_exponent(exponent: Real, p1: Real, p2: Real, p3: Real, p4: Real, p5: Real, p6: Real) -> Real {
        let p = min(max(nearest(exponent), 1.0), 6.0);
        let low = (p - 1.0) * (p - 2.0);
        let middle = (p - 3.0) * (p - 4.0);
        let high = (p - 5.0) * (p - 6.0);
        let first = middle * high * (p1 * ((p - 2.0) / -120.0) + p2 * ((p - 1.0) / 24.0));
        let second = low * high * (p3 * ((p - 4.0) / -12.0) + p4 * ((p - 3.0) / 12.0));
        first + second + low * middle * (p5 * ((p - 6.0) / -24.0) + p6 * ((p - 5.0) / 120.0))
    }

    /// xᵖ
    #[func]
    fn power(x: Real, p: Real) -> Real {
        let d1 = of_exponent(p, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0);
        let d2 = of_exponent(p, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0);
        let d3 = of_exponent(p, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0);
        let d4 = of_exponent(p, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0);
        let d5 = of_exponent(p, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0);
        let d6 = of_exponent(p, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0);
        x * (d1 + x * (d2 + x * (d3 + x * (d4 + x * (d5 + x * d6)))))
    }

    /// 1 for odd exponents and 0 for even ones.
    #[func]
    fn is_odd(p: Real) -> Real {
        of_exponent(p, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0)
    }

    /// Γ(p/2)
    #[func]
    fn gamma_of_half(p: Real) -> Real {
        of_exponent(p, sqrt(PI), 1.0, sqrt(PI) / 2.0, 1.0, 0.75 * sqrt(PI), 2.0)
    }

    /// 1/rᵖ
    #[func]
    pub fn full(r: Real, exponent: Real) -> Real {
        power(1.0 / r, exponent)
    }

    /// Q(p/2, α²r²)/rᵖ. From Q(½) = erfc(αr) and Q(1) = exp(−x) by Q(a + 1) = Q(a) + xᵃ exp(−x)/Γ(a + 1).
    #[func]
    pub fn short_range(r: Real, alpha: Real, exponent: Real) -> Real {
        let s = alpha * r;
        let x = s * s;
        let odd = is_odd(exponent);
        let c0 = 1.0 - odd;
        let c1 = of_exponent(exponent, 0.0, 0.0, 2.0 / sqrt(PI), 0.0, 2.0 / sqrt(PI), 0.0);
        let c2 = of_exponent(exponent, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0);
        let c3 = of_exponent(exponent, 0.0, 0.0, 0.0, 0.0, 4.0 / (3.0 * sqrt(PI)), 0.0);
        let c4 = of_exponent(exponent, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5);
        let polynomial = c0 + s * (c1 + s * (c2 + s * (c3 + s * c4)));
        (odd * erfc(s) + polynomial * exp(-x)) * power(1.0 / r, exponent)
    }

    /// αᵖ/Γ(p/2) ∫₀¹ t^(p/2−1) exp(−α²r²t) dt
    #[func]
    pub fn long_range(r2: Real, alpha: Real, exponent: Real) -> Real {
        let a = of_exponent(exponent, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0);
        power(alpha, exponent) / gamma_of_half(exponent) * lower_gamma(alpha * alpha * r2, a, is_odd(exponent))
    }

    /// ∫₀¹ t^(a−1) exp(−xt) dt for a = ½, 1, … 5, below x = 2 by its series exp(−x) Σ xⁿ/(a (a + 1) … (a + n)), and from
    /// there by a recurrence upwards from a = ½ or 1. Its derivative is −1 times that of a + 1.
    #[func]
    fn lower_gamma(x: Real, a: Real, odd: Real) -> Real {
        if x < 2.0 { lower_gamma_near(x, a) } else { lower_gamma_far(x, a, odd) }
    }

    #[derivative(lower_gamma)]
    fn lower_gamma_derivative(x: Real, a: Real, odd: Real) -> (Real, Real, Real) {
        (-lower_gamma_1(x, a + 1.0, odd), 0.0, 0.0)
    }

    #[func]
    fn lower_gamma_1(x: Real, a: Real, odd: Real) -> Real {
        if x < 2.0 { lower_gamma_near(x, a) } else { lower_gamma_far(x, a, odd) }
    }

    #[derivative(lower_gamma_1)]
    fn lower_gamma_1_derivative(x: Real, a: Real, odd: Real) -> (Real, Real, Real) {
        (-lower_gamma_2(x, a + 1.0, odd), 0.0, 0.0)
    }

    #[func]
    fn lower_gamma_2(x: Real, a: Real, odd: Real) -> Real {
        if x < 2.0 { lower_gamma_near(x, a) } else { lower_gamma_far(x, a, odd) }
    }

    #[func]
    fn lower_gamma_near(x: Real, a: Real) -> Real {
        let s = 1.0 + x / (a + 24.0);
        let s = 1.0 + x / (a + 23.0) * s;
        let s = 1.0 + x / (a + 22.0) * s;
        let s = 1.0 + x / (a + 21.0) * s;
        let s = 1.0 + x / (a + 20.0) * s;
        let s = 1.0 + x / (a + 19.0) * s;
        let s = 1.0 + x / (a + 18.0) * s;
        let s = 1.0 + x / (a + 17.0) * s;
        let s = 1.0 + x / (a + 16.0) * s;
        let s = 1.0 + x / (a + 15.0) * s;
        let s = 1.0 + x / (a + 14.0) * s;
        let s = 1.0 + x / (a + 13.0) * s;
        let s = 1.0 + x / (a + 12.0) * s;
        let s = 1.0 + x / (a + 11.0) * s;
        let s = 1.0 + x / (a + 10.0) * s;
        let s = 1.0 + x / (a + 9.0) * s;
        let s = 1.0 + x / (a + 8.0) * s;
        let s = 1.0 + x / (a + 7.0) * s;
        let s = 1.0 + x / (a + 6.0) * s;
        let s = 1.0 + x / (a + 5.0) * s;
        let s = 1.0 + x / (a + 4.0) * s;
        let s = 1.0 + x / (a + 3.0) * s;
        let s = 1.0 + x / (a + 2.0) * s;
        let s = 1.0 + x / (a + 1.0) * s;
        s / a * exp(-x)
    }

    #[func]
    fn lower_gamma_far(x: Real, a: Real, odd: Real) -> Real {
        let e = exp(-x);
        let b = 1.0 - 0.5 * odd;
        let g0 = odd * (sqrt(PI / x) * erf(sqrt(x))) + (1.0 - odd) * ((1.0 - e) / x);
        let g1 = (b * g0 - e) / x;
        let g2 = ((b + 1.0) * g1 - e) / x;
        let g3 = ((b + 2.0) * g2 - e) / x;
        let g4 = ((b + 3.0) * g3 - e) / x;
        of_exponent(a - b + 1.0, g0, g1, g2, g3, g4, g4)
    }

    /// π^(3/2) αᵖ⁻³/(V Γ(p/2)) E₍ₚ₋₁₎⸝₂(k²/4α²)
    #[func]
    pub fn long_range_k2(k2: Real, volume: Real, alpha: Real, exponent: Real) -> Real {
        scale(volume, alpha, exponent) * exponential_integral(k2 / (4.0 * (alpha * alpha)), exponent)
    }

    /// π^(3/2) αᵖ⁻³/(V Γ(p/2))
    #[func]
    fn scale(volume: Real, alpha: Real, p: Real) -> Real {
        PI * sqrt(PI) * power(alpha, p) / (pow(alpha, 3) * gamma_of_half(p) * volume)
    }

    /// Eₙ(y) for n = (p − 1)/2 and y > 0, by n Eₙ₊₁ = exp(−y) − y Eₙ.
    #[func]
    fn exponential_integral(y: Real, p: Real) -> Real {
        let e = exp(-y);
        let half = sqrt(PI / y) * erfc(sqrt(y));
        let three_halves = 2.0 * (e - y * half);
        let one = e1(y);
        of_exponent(p, e / y, half, one, three_halves, e - y * one, (e - y * three_halves) / 1.5)
    }

    /// E₁(y), up to 2 as a polynomial less ln y + γ, and from there as exp(−y)/y times one of (y − 7)/(y + 3)
    /// (tools/fit_special_functions.py). Its derivative is −exp(−y)/y.
    #[func]
    fn e1(y: Real) -> Real {
        if y < 2.0 { e1_entire(y - 1.0) - log(y) - 0.5772156649015329 } else { exp(-y) / y * e1_scaled((y - 7.0) / (y + 3.0)) }
    }

    #[derivative(e1)]
    fn e1_derivative(y: Real) -> Real {
        -exp(-y) / y
    }

    #[func]
    fn e1_entire(z: Real) -> Real {
        let s = -1.182607500913166e-15;
        let s = z * s + 2.0275599041646246e-14;
        let s = z * s - 3.228179474775047e-13;
        let s = z * s + 4.891653180645899e-12;
        let s = z * s - 6.930092423551448e-11;
        let s = z * s + 9.134337560783327e-10;
        let s = z * s - 1.1142547816765393e-08;
        let s = z * s + 1.25022510647735e-07;
        let s = z * s - 1.281149584336136e-06;
        let s = z * s + 1.1891592755503217e-05;
        let s = z * s - 9.903080293028101e-05;
        let s = z * s + 0.0007319693654687311;
        let s = z * s - 0.004747039219038452;
        let s = z * s + 0.0267671323571314;
        let s = z * s - 0.13212055882855767;
        let s = z * s + 0.6321205588285577;
        let s = z * s + 0.7965995992970532;
        s
    }

    #[func]
    fn e1_scaled(z: Real) -> Real {
        let s = -6.26435372337776e-11;
        let s = z * s + 2.1767564360154282e-10;
        let s = z * s - 6.954866227188402e-11;
        let s = z * s + 6.838997659882796e-11;
        let s = z * s - 1.3502786971389233e-09;
        let s = z * s + 3.895175979070809e-09;
        let s = z * s - 7.835702212763055e-09;
        let s = z * s + 2.1127769538102652e-08;
        let s = z * s - 5.544414010048657e-08;
        let s = z * s + 1.5154215957455697e-07;
        let s = z * s - 3.937172729330982e-07;
        let s = z * s + 1.0901933354318191e-06;
        let s = z * s - 2.914015741217968e-06;
        let s = z * s + 8.262824722868472e-06;
        let s = z * s - 2.278026526114966e-05;
        let s = z * s + 6.712646289874403e-05;
        let s = z * s - 0.0001930553568978963;
        let s = z * s + 0.0006074517052144057;
        let s = z * s - 0.0018636252889425295;
        let s = z * s + 0.0066995889438138485;
        let s = z * s - 0.02307622224177783;
        let s = z * s + 0.1312876861306214;
        let s = z * s + 0.8864876725364293;
        s
    }

    /// αᵖ/Γ(p/2 + 1)
    #[func]
    pub fn self_term(alpha: Real, exponent: Real) -> Real {
        power(alpha, exponent) / (gamma_of_half(exponent) * of_exponent(exponent, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0))
    }

    /// π^(3/2) αᵖ⁻³/(V Γ(p/2)) · 2/(3 − p), and 0 for p = 3.
    #[func]
    pub fn background(volume: Real, alpha: Real, exponent: Real) -> Real {
        scale(volume, alpha, exponent) * of_exponent(exponent, 1.0, 2.0, 0.0, -2.0, -1.0, -2.0 / 3.0)
    }
}
