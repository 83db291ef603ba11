//! The oracle under test itself: known lattice sums, stored values, finite differences, independence of alpha.
//! A test binary takes it in with `mod common;` and `#[path = "common/oracle_checks.rs"] mod oracle_checks;`.

use crate::common::numeric::{
    assert_close_rms, finite_difference_with_error, fourth_order_difference, richardson, rms, rms_difference,
};
use crate::common::oracle::{
    Reference, balanced_alpha, erfc, ewald, ewald_truncated, real_space, reciprocal_space, volume,
};
use crate::common::references::{reference_case, reference_cases};
use crate::common::systems::{
    System, known_crystals, left_handed_cell, orthorhombic_cell, random_system, rock_salt, triclinic_cell,
};

/// Every array of two results, relative to the RMS of its own, or to `scale` for forces that vanish.
#[track_caller]
fn assert_same(a: &Reference, b: &Reference, tolerance: f64, scale: f64) {
    assert_close_rms(&[a.energy], &[b.energy], tolerance, b.energy.abs());
    assert_close_rms(&a.atom_energies, &b.atom_energies, tolerance, rms(&b.atom_energies));
    assert_close_rms(&a.charge_gradients, &b.charge_gradients, tolerance, rms(&b.charge_gradients));
    let (forces, expected) = (a.forces.as_flattened(), b.forces.as_flattened());
    assert_close_rms(forces, expected, tolerance, rms(expected).max(scale));
    assert_close_rms(
        a.virial.as_flattened(),
        b.virial.as_flattened(),
        tolerance,
        rms(b.virial.as_flattened()),
    );
}

fn small_systems() -> [System; 3] {
    [
        random_system(1, 7, orthorhombic_cell(60.0), 0.0, 1.0),
        random_system(2, 6, triclinic_cell(50.0), 0.0, 1.0),
        random_system(3, 6, left_handed_cell(55.0), 1.7, 1.0),
    ]
}

#[test]
fn erfc_to_the_last_digits() {
    // mpmath with 40 digits, at exactly these doubles.
    let table = [
        (0.001, 0.9988716212090307),
        (0.1, 0.887537083981715),
        (0.3, 0.6713732405408726),
        (0.49999999999, 0.4795001221957413),
        (0.5, 0.4795001221869535),
        (0.75, 0.28884436634648486),
        (1.0, 0.15729920705028513),
        (1.5, 0.033894853524689274),
        (2.0, 0.004677734981047266),
        (2.75, 0.00010062192211963683),
        (3.5, 7.430983723414128e-07),
        (4.25, 1.8505741373867425e-09),
        (5.0, 1.537459794428035e-12),
        (6.2, 1.816675617238127e-18),
        (6.2829, 6.371274457585923e-19),
        (6.2833, 6.33893578841763e-19),
        (6.5, 3.8421483271206475e-20),
        (7.0, 4.183825607779414e-23),
        (9.0, 4.13703174651381e-37),
        (15.0, 7.212994172451207e-100),
        (-0.2, 1.2227025892104784),
        (-1.3, 1.9340079449406524),
        (-4.0, 1.999999984582742),
    ];
    for (x, expected) in table {
        let error = (erfc(x) / expected - 1.0).abs();
        assert!(error <= 6e-16, "erfc({x}): relative error {error:e}");
    }
    assert_eq!(erfc(0.0), 1.0);
    assert_eq!(erfc(40.0), 0.0);
}

#[test]
fn madelung_constants() {
    for crystal in known_crystals() {
        let result = crystal.system.ewald();
        let constant = crystal.constant_from(result.energy);
        let error = (constant / crystal.madelung_constant - 1.0).abs();
        assert!(error < 1e-14, "{}: {constant}, expected {}", crystal.name, crystal.madelung_constant);
        // E goes with 1/L, so the trace of the virial is the energy; all of these are cubic.
        for (a, row) in result.virial.iter().enumerate() {
            assert!((3.0 * row[a] / result.energy - 1.0).abs() < 1e-13, "{}", crystal.name);
        }
        assert!(rms(result.forces.as_flattened()) < 1e-13 * result.energy.abs());
    }
}

#[test]
fn stored_references() {
    for case in reference_cases() {
        let result = case.system.ewald();
        assert_same(&result, &case.expected, 3e-14, case.system.force_unit());
    }
}

#[test]
fn result_does_not_depend_on_alpha() {
    for system in small_systems() {
        let alpha = balanced_alpha(system.positions.len(), &system.cell);
        let expected = system.ewald();
        for factor in [0.6, 1.4] {
            let other = ewald(&system.positions, &system.charges, &system.cell, factor * alpha);
            assert_same(&other, &expected, 5e-15, 0.0);
        }
    }
}

#[test]
fn parts_add_up() {
    for system in small_systems() {
        let System { positions, charges, cell } = &system;
        let (alpha, cutoff, k_cutoff) = (0.8, 5.0, 6.0);
        let real = real_space(positions, charges, cell, alpha, cutoff);
        let reciprocal = reciprocal_space(positions, charges, cell, alpha, k_cutoff);
        let both = ewald_truncated(positions, charges, cell, alpha, cutoff, k_cutoff);
        assert!((real.energy + reciprocal.energy - both.energy).abs() < 1e-13 * both.energy.abs());
        for ((f, g), sum) in real.forces.iter().zip(&reciprocal.forces).zip(&both.forces) {
            assert!((0..3).all(|a| (f[a] + g[a] - sum[a]).abs() < 1e-13));
        }
    }
}

/// The reciprocal sum is smooth in the positions for any k cutoff, so its own forces can be checked.
#[test]
fn truncated_reciprocal_forces() {
    let [_, _, system] = small_systems();
    let reciprocal =
        |positions: &[[f64; 3]]| reciprocal_space(positions, &system.charges, &system.cell, 0.8, 3.0);
    let (gradient, error) = finite_difference_with_error(
        |x| {
            let (rows, _) = x.as_chunks::<3>();
            reciprocal(rows).energy
        },
        system.positions.as_flattened(),
        2e-2,
    );
    let negative: Vec<f64> = gradient.iter().map(|g| -g).collect();
    assert!(error < 1e-8);
    assert!(rms_difference(&negative, reciprocal(&system.positions).forces.as_flattened()) < 2.0 * error);
}

#[test]
fn derivatives_are_those_of_the_energy() {
    for system in small_systems() {
        let result = system.ewald();
        let (gradient, _) = finite_difference_with_error(
            |x| System { positions: x.as_chunks().0.to_vec(), ..system.clone() }.ewald().energy,
            system.positions.as_flattened(),
            4e-2,
        );
        let negative: Vec<f64> = gradient.iter().map(|g| -g).collect();
        let forces = result.forces.as_flattened();
        assert_close_rms(&negative, forces, 1e-9, rms(forces));

        let (gradient, _) = finite_difference_with_error(
            |charges| System { charges: charges.to_vec(), ..system.clone() }.ewald().energy,
            &system.charges,
            0.1,
        );
        assert_close_rms(&gradient, &result.charge_gradients, 1e-11, rms(&result.charge_gradients));

        let (gradient, _) = finite_difference_with_error(
            |strain| {
                let strain = [0, 3, 6].map(|i| [strain[i], strain[i + 1], strain[i + 2]]);
                system.strained(&strain).ewald().energy
            },
            &[0.0; 9],
            1e-2,
        );
        let negative: Vec<f64> = gradient.iter().map(|g| -g).collect();
        let virial = result.virial.as_flattened();
        assert_close_rms(&negative, virial, 1e-9, rms(virial));
    }
}

#[test]
fn images_and_supercells_are_the_same_crystal() {
    for system in small_systems() {
        assert_same(&system.unwrapped(9, 4).ewald(), &system.ewald(), 3e-14, 0.0);
    }
    // A jittered crystal and its double along the third axis.
    let system = rock_salt(1, 2.8, 0.2, 4);
    let mut double = system.clone();
    double.positions.extend(system.positions.iter().map(|r| [r[0], r[1], r[2] + system.cell[2][2]]));
    double.charges.extend(&system.charges);
    double.cell[2][2] *= 2.0;
    let (one, two) = (system.ewald(), double.ewald());
    assert!((two.energy / one.energy - 2.0).abs() < 1e-13);
    let (forces, rest) = two.forces.split_at(8);
    assert_close_rms(forces.as_flattened(), rest.as_flattened(), 1e-13, rms(one.forces.as_flattened()));
    assert_close_rms(forces.as_flattened(), one.forces.as_flattened(), 1e-13, rms(one.forces.as_flattened()));
}

#[test]
fn generators_keep_their_word() {
    let system = random_system(5, 40, left_handed_cell(400.0), 2.5, 1.1);
    assert!((system.charges.iter().sum::<f64>() - 2.5).abs() < 1e-12);
    assert!((volume(&system.cell) - 400.0).abs() < 1e-10);
    let [a, b, c] = system.cell;
    let determinant = a[0] * (b[1] * c[2] - b[2] * c[1])
        + a[1] * (b[2] * c[0] - b[0] * c[2])
        + a[2] * (b[0] * c[1] - b[1] * c[0]);
    assert!(determinant < 0.0);
    assert_eq!(system.positions, random_system(5, 40, left_handed_cell(400.0), 2.5, 1.1).positions);
    assert_eq!(reference_case("water_801").system.positions.len(), 801);
}

#[test]
fn finite_differences_converge_as_they_say() {
    let (x, exact) = (0.7_f64, 0.7_f64.exp());
    for h in [0.1, 0.05] {
        let fourth = (fourth_order_difference(f64::exp, x, h) - exact).abs();
        assert!(fourth < 0.2 * h.powi(4) * exact, "{fourth:e}");
        let (value, error) = richardson(f64::exp, x, h);
        assert!((value - exact).abs() <= error && error < 1e-2 * fourth.max(1e-10), "{error:e}");
    }
}
