//! The energy of a pair at distance r, its ends, and the energies of bonded terms. Kernels of other crates can import the
//! functions, with their derivatives: `use madelung_potentials::formula::lennard_jones;` at the head of a `kernels!` block.

madelung_core::kernels! {
    /// Born–Mayer–Huggins: A exp(B(σ − r)) − C/r⁶ − D/r⁸, with `amplitude` A, `steepness` B, `c6` C and `c8` D (Huggins and
    /// Mayer, J. Chem. Phys. 1, 643 (1933); parameters of the alkali halides: Fumi and Tosi, J. Phys. Chem. Solids 25, 31
    /// and 45 (1964), where B = 1/ρ). Without dispersion it is the potential of Born and Mayer.
    #[func]
    pub fn born_mayer(r: Real, amplitude: Real, steepness: Real, sigma: Real, c6: Real, c8: Real) -> Real {
        let s = 1.0 / r;
        let s2 = s * s;
        amplitude * exp(steepness * (sigma - r)) - pow(s2, 3) * (c6 + c8 * s2)
    }

    /// Buckingham: A exp(−r/ρ) − C/r⁶, with `amplitude` A and `c6` C (Buckingham, Proc. R. Soc. Lond. A 168, 264 (1938)).
    #[func]
    pub fn buckingham(r: Real, amplitude: Real, rho: Real, c6: Real) -> Real {
        amplitude * exp(-r / rho) - c6 * pow(1.0 / r, 6)
    }

    /// Lennard-Jones: 4ε[(σ/r)¹² − (σ/r)⁶].
    #[func]
    pub fn lennard_jones(r: Real, epsilon: Real, sigma: Real) -> Real {
        let s6 = pow(sigma * (1.0 / r), 6);
        4.0 * epsilon * (s6 * s6 - s6)
    }

    /// Lennard-Jones, σ in two parts, of which one is 0: an `arithmetic` mean and a `geometric` one.
    #[func]
    pub fn mixed_lennard_jones(r: Real, epsilon: Real, arithmetic: Real, geometric: Real) -> Real {
        lennard_jones(r, epsilon, arithmetic + geometric)
    }

    /// Dispersion of Lennard-Jones, −4ε(σ/r)⁶, with such a σ.
    #[func]
    pub fn mixed_dispersion(r: Real, epsilon: Real, arithmetic: Real, geometric: Real) -> Real {
        -4.0 * epsilon * pow((arithmetic + geometric) * (1.0 / r), 6)
    }

    /// Mie: C ε[(σ/r)ⁿ − (σ/r)ᵐ] with C = n/(n − m) (n/m)^(m/(n − m)), of depth ε, with `repulsive` n and `attractive` m
    /// (Mie, Ann. Phys. 316, 657 (1903)). n = 12 and m = 6 is the potential of Lennard-Jones.
    #[func]
    pub fn mie(r: Real, epsilon: Real, sigma: Real, repulsive: Real, attractive: Real) -> Real {
        let width = repulsive - attractive;
        let depth = epsilon * repulsive / width * pow(repulsive / attractive, attractive / width);
        let s = sigma / r;
        depth * (pow(s, repulsive) - pow(s, attractive))
    }

    /// Morse: D{[1 − exp(−a(r − r₀))]² − 1}, with `depth` D, `steepness` a and `length` r₀ (Morse, Phys. Rev. 34, 57 (1929)).
    #[func]
    pub fn morse(r: Real, depth: Real, steepness: Real, length: Real) -> Real {
        let x = exp(steepness * (length - r));
        depth * x * (x - 2.0)
    }

    /// Soft core: 4ελ(u⁻² − u⁻¹) with u = α(1 − λ)² + (r/σ)⁶, the potential of Lennard-Jones at λ = 1, finite at r = 0 below
    /// (Beutler et al., Chem. Phys. Lett. 222, 529 (1994)), with `coupling` λ and `softness` α.
    #[func]
    pub fn soft_core(r: Real, epsilon: Real, sigma: Real, coupling: Real, softness: Real) -> Real {
        let x = 1.0 - coupling;
        let y = 1.0 / (softness * x * x + pow(r / sigma, 6));
        4.0 * epsilon * coupling * y * (y - 1.0)
    }

    /// Tang–Toennies: A exp(−br) − Σₙ fₙ(br) Cₙ/rⁿ over n = 6, 8, 10, with the damping fₙ(x) = 1 − exp(−x) Σₖ xᵏ/k!, k = 0 to n,
    /// `amplitude` A and `steepness` b (Tang and Toennies, J. Chem. Phys. 80, 3726 (1984), eqs. 1 and 2). The damping is a
    /// difference of near numbers where br is small.
    #[func]
    pub fn tang_toennies(r: Real, amplitude: Real, steepness: Real, c6: Real, c8: Real, c10: Real) -> Real {
        // At 700 exp(−x) is 0 to all digits, and the powers of x are numbers in f32, too.
        let x = min(steepness * r, 700.0);
        let decay = exp(-x);
        let to6 = 1.0 + x * (1.0 + x / 2.0 * (1.0 + x / 3.0 * (1.0 + x / 4.0 * (1.0 + x / 5.0 * (1.0 + x / 6.0)))));
        let to8 = to6 + pow(x, 7) / 5040.0 * (1.0 + x / 8.0);
        let to10 = to8 + pow(x, 9) / 362880.0 * (1.0 + x / 10.0);
        let s2 = 1.0 / (r * r);
        let damped = c6 * (1.0 - decay * to6) + s2 * (c8 * (1.0 - decay * to8) + s2 * c10 * (1.0 - decay * to10));
        amplitude * decay - pow(s2, 3) * damped
    }

    /// Yukawa: A exp(−κr)/r, with `amplitude` A and `kappa` κ (Yukawa, Proc. Phys.-Math. Soc. Jpn. 17, 48 (1935)).
    #[func]
    pub fn yukawa(r: Real, amplitude: Real, kappa: Real) -> Real {
        amplitude * exp(-kappa * r) / r
    }

    /// Ziegler–Biersack–Littmark: A φ(r/a)/r, with `amplitude` A = Z₁Z₂e²/4πε₀, `length` a = 0.46850 Å/(Z₁^0.23 + Z₂^0.23) and the
    /// universal screening function φ (Ziegler, Biersack and Littmark, The Stopping and Range of Ions in Solids (1985)).
    #[func]
    pub fn zbl(r: Real, amplitude: Real, length: Real) -> Real {
        let x = r / length;
        let near = 0.18175 * exp(-3.19980 * x) + 0.50986 * exp(-0.94229 * x);
        amplitude / r * (near + 0.28022 * exp(-0.40290 * x) + 0.02817 * exp(-0.20162 * x))
    }

    /// Factor of an energy that goes from 1 at r = a to 0 at the `cutoff` b, 1 − y²(c₀ + c₁y + c₂y² + c₃y³). From a = `taper` on
    /// the taper 1 − 10y³ + 15y⁴ − 6y⁵ with y = (r − a)/(b − a) and two continuous derivatives, the switch of potentials of
    /// GROMACS (van der Spoel and van Maaren, J. Chem. Theory Comput. 2, 1 (2006)) and OpenMM; or, where `switch` is below the
    /// cutoff, from a = `switch` on that of CHARMM, (1 − y)²(1 + 2y) with y = (r² − a²)/(b² − a²) (Brooks et al., J. Comput.
    /// Chem. 4, 187 (1983)).
    #[func]
    pub fn end_factor(r: Real, cutoff: Real, taper: Real, switch: Real) -> Real {
        // Numbers of the call, one of each for all pairs.
        let of_square = switch < cutoff;
        let a = if of_square { switch } else { taper };
        let per_width = 1.0 / (cutoff - a);
        let per_area = if of_square { per_width / (cutoff + a) } else { 0.0 };
        let least = if of_square { a * per_area } else { per_width };
        let c0 = if of_square { 3.0 } else { 0.0 };
        let c1 = if of_square { -2.0 } else { 10.0 };
        let c2 = if of_square { 0.0 } else { -15.0 };
        let c3 = if of_square { 0.0 } else { 6.0 };
        let y = (r - a) * (least + per_area * r);
        if r > a { 1.0 - y * y * (c0 + y * (c1 + y * (c2 + y * c3))) } else { 1.0 }
    }

    /// Difference of an energy and one that ends at the `cutoff`, from the `value`, the `slope` and the `curvature` there. For
    /// `bend` = 0 a constant and a straight line: energy and force end at 0. Else constant up to r = `bend`, and from there
    /// on −A/3 (r − bend)³ − B/4 (r − bend)⁴, so that the force and its slope end at 0, too: the force switch of GROMACS (van
    /// der Spoel and van Maaren, J. Chem. Theory Comput. 2, 1 (2006)), where A and B follow from a power of r.
    #[func]
    pub fn end_terms(r: Real, cutoff: Real, bend: Real, value: Real, slope: Real, curvature: Real) -> Real {
        let w = cutoff - bend;
        let y = if r > bend { (r - bend) / w } else { 0.0 };
        let y3 = y * y * y;
        let first = if bend > 0.0 { w * (y3 * (1.0 - 0.5 * y) - 0.5) } else { r - cutoff };
        let second = if bend > 0.0 { w * w * (y3 * (0.25 * y - 1.0 / 3.0) + 1.0 / 12.0) } else { 0.0 };
        value + slope * first + curvature * second
    }
}

// Bonded terms: functions of the distance of two atoms, the angle of three and the dihedral angle of four.
madelung_core::kernels! {
    /// Harmonic: ½k(x − x₀)², of a distance or an angle, with `stiffness` k and `rest` x₀.
    #[func]
    pub fn harmonic(x: Real, stiffness: Real, rest: Real) -> Real {
        let d = x - rest;
        0.5 * stiffness * d * d
    }

    /// Morse bond: D[1 − exp(−a(r − r₀))]², with `depth` D, `steepness` a and `rest` r₀ (Morse, Phys. Rev. 34, 57 (1929)).
    #[func]
    pub fn morse_bond(x: Real, depth: Real, steepness: Real, rest: Real) -> Real {
        let y = 1.0 - exp(steepness * (rest - x));
        depth * y * y
    }

    /// Harmonic in the cosine of an angle: ½k(cos θ − cos θ₀)² of cos θ, with `stiffness` k and `rest` θ₀.
    #[func]
    pub fn cosine(x: Real, stiffness: Real, rest: Real) -> Real {
        let d = x - cos(rest);
        0.5 * stiffness * d * d
    }

    /// Periodic: k[1 + cos(nφ − φ₀)], with `stiffness` k, `periodicity` n and `phase` φ₀.
    #[func]
    pub fn periodic(x: Real, stiffness: Real, periodicity: Real, phase: Real) -> Real {
        stiffness * (1.0 + cos(periodicity * x - phase))
    }

    /// Ryckaert–Bellemans: Σₙ Cₙ cosⁿ ψ, n = 0 to 5, with ψ = φ − π (Ryckaert and Bellemans, Chem. Phys. Lett. 30, 123
    /// (1975)).
    #[func]
    pub fn ryckaert_bellemans(x: Real, c0: Real, c1: Real, c2: Real, c3: Real, c4: Real, c5: Real) -> Real {
        let y = -cos(x);
        c0 + y * (c1 + y * (c2 + y * (c3 + y * (c4 + y * c5))))
    }

    /// Harmonic in a dihedral angle: ½k(φ − φ₀)², with the difference in [−π, π], `stiffness` k and `rest` φ₀.
    #[func]
    pub fn improper(x: Real, stiffness: Real, rest: Real) -> Real {
        let turns = (x - rest) / (2.0 * PI);
        let d = 2.0 * PI * (turns - nearest(turns));
        0.5 * stiffness * d * d
    }

    /// The angle at the middle one of three atoms, between the vectors to both others, from 0 to π.
    #[func]
    pub(crate) fn angle(u: Vec3, v: Vec3) -> Real {
        atan2(length(cross(u, v)), dot(u, v))
    }

    /// The cosine of that angle.
    #[func]
    pub(crate) fn angle_cosine(u: Vec3, v: Vec3) -> Real {
        dot(u, v) / (length(u) * length(v))
    }

    /// The dihedral angle of four atoms from the vectors u, v, w of each to the next: 0 where the outer two are on one
    /// side, positive for a right-handed screw (IUPAC; Blondel and Karplus, J. Comput. Chem. 17, 1132 (1996)).
    #[func]
    pub(crate) fn dihedral(u: Vec3, v: Vec3, w: Vec3) -> Real {
        let n = cross(v, w);
        atan2(length(v) * dot(u, n), dot(cross(u, v), n))
    }
}
