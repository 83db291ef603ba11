//! The energy of a pair at distance r, and the taper. Kernels of other crates can import the functions, with their
//! derivatives: `use madelung_potentials::formula::lennard_jones;` at the head of a `kernels!` block.

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

    /// Taper 1 − 10x³ + 15x⁴ − 6x⁵, from 1 at x = 0 to 0 at x = 1 with two continuous derivatives: the switch of potentials
    /// of GROMACS (van der Spoel and van Maaren, J. Chem. Theory Comput. 2, 1 (2006)) and OpenMM.
    #[func]
    pub fn taper_factor(x: Real) -> Real {
        1.0 - x * x * x * (10.0 - x * (15.0 - 6.0 * x))
    }
}
