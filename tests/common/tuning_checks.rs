//! Parameter estimates against forces: the measured RMS force error over the predicted one.
//! A test binary takes it in with `mod common;`, a `use` of `estimate_ewald_parameters` and
//! `#[path = "common/tuning_checks.rs"] mod tuning_checks;`.

use super::{Prescribed, estimate_ewald_parameters};
use crate::common::numeric::rms_vector_difference;
use crate::common::oracle::{Reference, ewald_truncated};
use crate::common::references::reference_case;
use crate::common::systems::{
    System, left_handed_cell, orthorhombic_cell, random_system, rock_salt, triclinic_cell,
};

/// RMS over atoms of the force error with estimated parameters, over the predicted error.
fn error_ratio(system: &System, exact: &Reference, accuracy: f64, cutoff: Option<f64>) -> f64 {
    let natoms = system.positions.len();
    let given = Prescribed { cutoff, ..Prescribed::default() };
    let p = estimate_ewald_parameters(natoms, &system.cell, Some(accuracy), given).unwrap();
    let result =
        ewald_truncated(&system.positions, &system.charges, &system.cell, p.alpha, p.cutoff, p.k_cutoff);
    rms_vector_difference(&result.forces, &exact.forces) / system.force_unit() / p.predicted_force_error
}

#[test]
fn random_systems_have_the_predicted_error() {
    for (seed, natoms) in [(1, 50), (2, 100), (3, 200)] {
        let volume = 10.0 * natoms as f64;
        for (cell, charge) in
            [(orthorhombic_cell(volume), 0.0), (triclinic_cell(volume), 0.0), (left_handed_cell(volume), 3.0)]
        {
            let system = random_system(seed, natoms, cell, charge, 0.8);
            let exact = system.ewald();
            for accuracy in [1e-3, 1e-5, 1e-7, 1e-9] {
                let ratio = error_ratio(&system, &exact, accuracy, None);
                assert!((0.5..1.6).contains(&ratio), "{natoms} atoms, {accuracy:e}: {ratio}");
            }
        }
    }
}

#[test]
fn given_cutoffs_have_the_predicted_error() {
    let system = random_system(4, 60, triclinic_cell(600.0), 0.0, 0.8);
    let exact = system.ewald();
    let side = system.volume().cbrt();
    for cutoff in [0.4 * side, 0.6 * side, 1.2 * side] {
        for accuracy in [1e-3, 1e-6, 1e-9] {
            let ratio = error_ratio(&system, &exact, accuracy, Some(cutoff));
            assert!((0.4..1.8).contains(&ratio), "cutoff {cutoff}, {accuracy:e}: {ratio}");
        }
    }
}

#[test]
fn water_has_the_predicted_error() {
    let case = reference_case("water_801");
    for accuracy in [1e-3, 1e-6, 1e-9] {
        let ratio = error_ratio(&case.system, &case.expected, accuracy, None);
        assert!((0.3..1.4).contains(&ratio), "{accuracy:e}: {ratio}");
    }
}

/// Terms related by symmetry cancel or add up, so only an upper limit holds.
#[test]
fn crystals_stay_within_twice_the_estimate() {
    let crystals = [
        reference_case("TiO2_rutile").system,
        reference_case("ZnO_wurtzite").system,
        rock_salt(2, 2.8, 0.1, 5),
    ];
    for system in crystals {
        let exact = system.ewald();
        for accuracy in [1e-3, 1e-5, 1e-7, 1e-9] {
            let ratio = error_ratio(&system, &exact, accuracy, None);
            assert!(ratio < 2.0, "{accuracy:e}: {ratio}");
        }
    }
}
