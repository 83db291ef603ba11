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

    /// ∫₀¹ t^(a−1) exp(−xt) dt for a = ½, 1, … 3. By parts it is (exp(−x) + x g)/a with g, that of a + 1, which is also −1
    /// times its derivative: so one evaluation of the last, for a + 2, serves the integral and its first derivatives.
    #[func]
    fn lower_gamma(x: Real, a: Real, odd: Real) -> Real {
        (exp(-x) + x * lower_gamma_1(x, a + 1.0, odd)) / a
    }

    #[derivative(lower_gamma)]
    fn lower_gamma_derivative(x: Real, a: Real, odd: Real) -> (Real, Real, Real) {
        (-lower_gamma_1(x, a + 1.0, odd), 0.0, 0.0)
    }

    #[func]
    fn lower_gamma_1(x: Real, a: Real, odd: Real) -> Real {
        (exp(-x) + x * lower_gamma_2(x, a + 1.0, odd)) / a
    }

    #[derivative(lower_gamma_1)]
    fn lower_gamma_1_derivative(x: Real, a: Real, odd: Real) -> (Real, Real, Real) {
        (-lower_gamma_2(x, a + 1.0, odd), 0.0, 0.0)
    }

    /// The integral for a = 5/2, 3, … 5, from that for 9/2 or 5 downwards.
    #[func]
    fn lower_gamma_2(x: Real, a: Real, odd: Real) -> Real {
        let b = 1.0 - 0.5 * odd;
        let e = exp(-x);
        let g4 = if x < 3.0 { lower_gamma_near(x - 1.5, odd) * e } else { lower_gamma_far(x, b, odd) };
        let g3 = (e + x * g4) / (b + 3.0);
        let g2 = (e + x * g3) / (b + 2.0);
        of_exponent(a - b + 1.0, g2, g2, g2, g3, g4, g4)
    }

    /// exp(x) times the integral for a = 9/2 or 5 (tools/fit_special_functions.py --powers).
    #[func]
    fn lower_gamma_near(z: Real, odd: Real) -> Real {
        odd * lower_gamma_odd(z) + (1.0 - odd) * lower_gamma_even(z)
    }

    #[func]
    fn lower_gamma_odd(z: Real) -> Real {
        let s = 1.3595243641629386e-15;
        let s = z * s + 2.499735777388096e-14;
        let s = z * s + 4.1864103944633373e-13;
        let s = z * s + 6.753449472844152e-12;
        let s = z * s + 1.0211174317223402e-10;
        let s = z * s + 1.4389228854973779e-09;
        let s = z * s + 1.8798712004214332e-08;
        let s = z * s + 2.2621123807454692e-07;
        let s = z * s + 2.4876969520769613e-06;
        let s = z * s + 2.4764490605560804e-05;
        let s = z * s + 0.00022050519740421794;
        let s = z * s + 0.001729270061359044;
        let s = z * s + 0.011698651552580631;
        let s = z * s + 0.06627497303902033;
        let s = z * s + 0.30019584681382316;
        s
    }

    #[func]
    fn lower_gamma_even(z: Real) -> Real {
        let s = 6.215518780304499e-16;
        let s = z * s + 1.1707603012073641e-14;
        let s = z * s + 2.0168041757929176e-13;
        let s = z * s + 3.3483382923439382e-12;
        let s = z * s + 5.2194158860951165e-11;
        let s = z * s + 7.598856599945101e-10;
        let s = z * s + 1.0281464783855609e-08;
        let s = z * s + 1.2849527797405468e-07;
        let s = z * s + 1.4725780093606548e-06;
        let s = z * s + 1.5338691524132727e-05;
        let s = z * s + 0.00014363208003483998;
        let s = z * s + 0.0011922807866868602;
        let s = z * s + 0.008611617593674223;
        let s = z * s + 0.052729160305299755;
        let s = z * s + 0.26311607415487154;
        s
    }

    /// The integral for a = 9/2 or 5, from that for ½ or 1 upwards.
    #[func]
    fn lower_gamma_far(x: Real, b: Real, odd: Real) -> Real {
        let e = exp(-x);
        let g0 = odd * (sqrt(PI / x) * erf(sqrt(x))) + (1.0 - odd) * ((1.0 - e) / x);
        let g1 = (b * g0 - e) / x;
        let g2 = ((b + 1.0) * g1 - e) / x;
        let g3 = ((b + 2.0) * g2 - e) / x;
        ((b + 3.0) * g3 - e) / x
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
    /// (tools/fit_special_functions.py --powers). Its derivative is −exp(−y)/y.
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
        let s = -1.1834310258740575e-15;
        let s = z * s + 2.027560202609235e-14;
        let s = z * s - 3.228146527965191e-13;
        let s = z * s + 4.891653169500429e-12;
        let s = z * s - 6.930092959045842e-11;
        let s = z * s + 9.134337560949701e-10;
        let s = z * s - 1.1142547812233216e-08;
        let s = z * s + 1.2502251064772238e-07;
        let s = z * s - 1.2811495843382609e-06;
        let s = z * s + 1.1891592755503222e-05;
        let s = z * s - 9.903080293028047e-05;
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
        let s = -6.833170371747345e-11;
        let s = z * s + 2.1804877647387914e-10;
        let s = z * s - 3.8165704173488245e-11;
        let s = z * s + 6.642213056758104e-11;
        let s = z * s - 1.4250756259940342e-09;
        let s = z * s + 3.899621079018259e-09;
        let s = z * s - 7.734915707997583e-09;
        let s = z * s + 2.1122154494597588e-08;
        let s = z * s - 5.552851502710235e-08;
        let s = z * s + 1.515465037818882e-07;
        let s = z * s - 3.9367186429896546e-07;
        let s = z * s + 1.0901912156688754e-06;
        let s = z * s - 2.9140314512098175e-06;
        let s = z * s + 8.262825370660798e-06;
        let s = z * s - 2.2780261867856998e-05;
        let s = z * s + 6.71264627795641e-05;
        let s = z * s - 0.00019305535732645234;
        let s = z * s + 0.0006074517052265943;
        let s = z * s - 0.0018636252889146284;
        let s = z * s + 0.006699588943813248;
        let s = z * s - 0.02307622224177856;
        let s = z * s + 0.13128768613062142;
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
