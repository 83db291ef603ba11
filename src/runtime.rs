//! Kernels that are made at run time, from source text of the kernel language.
//!
//! ```
//! use madelung::runtime::{Declaration, kernels};
//! let source = "
//!     use madelung::potentials::formula::lennard_jones;
//!     #[kernel]
//!     fn energies(i: Atom, positions: &[Vec3; Atom], epsilon: Real, sigma: Real, pairs: &Pairs<Atom>, energy: &mut [Real; Atom]) {
//!         let mut e = 0.0;
//!         for (j, shift) in pairs.row(i) { e += lennard_jones(length(positions[j] - positions[i]), epsilon, sigma); }
//!         energy[i] = 0.5 * e;
//!     }";
//! let op = Declaration::default().op(("mine", "energies", 1), &[kernels(source)?[0].kernel()])?;
//! assert_eq!(op.outputs[0].name, "energy");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use madelung_jit::{
    Declaration, Function, Machine, Made, PartCode, Place, SourceError, Wanted, function, kernels_with, llvm,
    lowered_text, stop_waiting, wait_for_wanted,
};

/// The functions of the library that sources of [`kernels`] can import, by their paths or the ends of these that are no
/// other function's: `use madelung::potentials::formula::lennard_jones;`.
pub fn functions() -> Vec<Function> {
    macro_rules! of {
        ($($crate_:ident $(:: $module:ident)* : $($name:ident)*;)*) => {
            [$(of!(@one [$crate_ $(:: $module)*] $($name)*)),*].concat()
        };
        (@one $path:tt $($name:ident)*) => {
            vec![$(of!(@function $path $name)),*]
        };
        (@function [$first:ident $(:: $rest:ident)*] $name:ident) => {
            function!($first $(:: $rest)* :: $name)
        };
    }
    of! {
        madelung_electrostatics::potential::coulomb:
            full short_range long_range long_range_k2 self_term background;
        madelung_electrostatics::inverse_power: full short_range long_range long_range_k2 self_term background;
        madelung_potentials::formula:
            born_mayer buckingham end_factor end_terms lennard_jones mie mixed_dispersion mixed_lennard_jones morse
            soft_core tang_toennies yukawa zbl;
    }
}

/// The kernels of a block of source text, in its order: of the language of [`kernels!`](crate::kernels), which may import
/// the library's [`functions`]. Equal text gives the same kernels; they live as long as the process.
///
/// # Errors
/// What the compiler of the kernel language refuses, with the place in the text.
pub fn kernels(source: &str) -> Result<&'static [Made], SourceError> {
    kernels_with(source, &functions())
}
