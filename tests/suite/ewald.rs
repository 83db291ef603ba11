//! Values of the Ewald sum against stored references, constants of crystals and invariances.

use crate::common::numeric::{assert_close_rms, rms};
use crate::common::references::reference_cases;
use crate::common::systems::{known_crystals, random_system, triclinic_cell};
use crate::support::Arrays;
use madelung::array::DType;
use madelung::{EwaldSettings, Options, ewald_summation};

/// All of a sum, as numbers.
struct Sum {
    energies: Vec<f64>,
    forces: Vec<f64>,
    charge_gradients: Vec<f64>,
    virial: Vec<f64>,
}

fn sum(arrays: &Arrays, settings: &EwaldSettings) -> Sum {
    let done =
        ewald_summation(&madelung::cpu::context(), &arrays.system(), settings, None, &Options::everything())
            .expect("a sum");
    let numbers = |a: Option<madelung::array::Array>| a.expect("asked for").to_f64().unwrap();
    Sum {
        energies: done.energies.to_f64().unwrap(),
        forces: numbers(done.forces),
        charge_gradients: numbers(done.charge_gradients),
        virial: numbers(done.virial),
    }
}

/// Where symmetry makes an array zero, its error is measured in units of the site potentials.
fn scale(of: &[f64], potentials: &[f64]) -> f64 {
    let own = rms(of);
    let other = rms(potentials);
    if own > 1e-9 * other { own } else { other }
}

#[test]
fn references_in_f64() {
    for case in reference_cases() {
        let arrays = Arrays::new(&[&case.system], DType::F64);
        let got = sum(&arrays, &EwaldSettings::accuracy(1e-14));
        let want = &case.expected;
        let potentials = &want.charge_gradients;
        let check = |name: &str, a: &[f64], b: &[f64]| {
            let scale = scale(b, potentials);
            let worst = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / scale;
            println!("{} {name}: {worst:.1e}", case.name);
            assert_close_rms(a, b, 1e-11, scale);
        };
        check("energy", &[got.energies.iter().sum()], &[want.energy]);
        check("atom energies", &got.energies, &want.atom_energies);
        check("forces", &got.forces, want.forces.as_flattened());
        check("charge gradients", &got.charge_gradients, potentials);
        check("virial", &got.virial, want.virial.as_flattened());
    }
}

#[test]
fn references_in_f32() {
    for case in reference_cases() {
        let arrays = Arrays::new(&[&case.system], DType::F32);
        // The reference at the rounded inputs is the f64 sum, held against the stored values above.
        let wide = Arrays::new(&[&arrays.rounded()], DType::F64);
        let exact = sum(&wide, &EwaldSettings::accuracy(1e-12));
        // Finer than f32 is asked for, so that its rounding is all that is left.
        let p = EwaldSettings::accuracy(1e-7).parameters(&wide.system()).expect("parameters")[0];
        let (alpha, cutoff, k_cutoff) = (Some(vec![p.alpha]), Some(vec![p.cutoff]), Some(vec![p.k_cutoff]));
        let got = sum(&arrays, &EwaldSettings { alpha, cutoff, k_cutoff, ..EwaldSettings::default() });
        let check = |name: &str, a: &[f64], b: &[f64]| {
            // A sum that cancels to a thousandth of its terms (wurtzite's forces) keeps the rounding of the terms.
            let (own, terms) = (rms(b), rms(&exact.charge_gradients));
            let scale = if own > 1e-2 * terms { own } else { terms };
            let error = rms(&a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<_>>()) / scale;
            println!("{} {name}: {error:.1e}", case.name);
            assert!(error < 1e-5, "{} {name}: {error:e}", case.name);
        };
        check("atom energies", &got.energies, &exact.energies);
        check("forces", &got.forces, &exact.forces);
        check("charge gradients", &got.charge_gradients, &exact.charge_gradients);
        check("virial", &got.virial, &exact.virial);
    }
}

#[test]
fn madelung_constants() {
    for crystal in known_crystals() {
        let arrays = Arrays::new(&[&crystal.system], DType::F64);
        let energy: f64 = sum(&arrays, &EwaldSettings::accuracy(1e-14)).energies.iter().sum();
        let got = crystal.constant_from(energy);
        let error = (got / crystal.madelung_constant - 1.0).abs();
        println!("{}: {got:.15} ({error:.1e})", crystal.name);
        assert!(error < 1e-12, "{}: {got}", crystal.name);
    }
}

#[test]
fn independent_of_alpha() {
    for (seed, charge) in [(1, 0.0), (2, 1.5)] {
        let system = random_system(seed, 24, triclinic_cell(600.0), charge, 1.2);
        let arrays = Arrays::new(&[&system], DType::F64);
        let at = |alpha: f64| {
            let settings = EwaldSettings {
                alpha: Some(vec![alpha]),
                cutoff: Some(vec![6.3 / alpha]),
                k_cutoff: Some(vec![2.0 * alpha * 6.3]),
                ..EwaldSettings::default()
            };
            sum(&arrays, &settings)
        };
        let (a, b) = (at(0.45), at(0.7));
        assert_close_rms(&a.energies, &b.energies, 1e-11, rms(&a.energies));
        assert_close_rms(&a.forces, &b.forces, 1e-11, rms(&a.forces));
        assert_close_rms(&a.charge_gradients, &b.charge_gradients, 1e-11, rms(&a.charge_gradients));
        assert_close_rms(&a.virial, &b.virial, 1e-11, rms(&a.virial));
    }
}
