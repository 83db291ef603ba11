//! The values of `examples/data/known.json` for each file, against the oracle at the digits of that file. A test binary
//! takes it in with `mod common;` and `#[path = "common/example_checks.rs"] mod example_checks;`.

use serde_json::Value;

use crate::common::systems::System;

const KNOWN: &str = include_str!("../../examples/data/known.json");
const FILES: [(&str, &str); 4] = [
    ("rock_salt.xyz", include_str!("../../examples/data/rock_salt.xyz")),
    ("rutile.xyz", include_str!("../../examples/data/rutile.xyz")),
    ("triclinic.xyz", include_str!("../../examples/data/triclinic.xyz")),
    ("water.xyz", include_str!("../../examples/data/water.xyz")),
];

/// Just enough of extended XYZ for the files at hand: species, position and charge on each line.
fn parse(text: &str) -> System {
    let number = |word: &str| word.parse::<f64>().expect("a number");
    let lattice = text.split('"').nth(1).expect("Lattice=\"…\"");
    let lattice: Vec<f64> = lattice.split_whitespace().map(number).collect();
    let rows: Vec<[f64; 4]> = text
        .lines()
        .skip(2)
        .map(|line| {
            let row: Vec<f64> = line.split_whitespace().skip(1).map(number).collect();
            row.try_into().expect("x y z charge")
        })
        .collect();
    assert_eq!(text.lines().next().map(number), Some(rows.len() as f64));
    System {
        positions: rows.iter().map(|r| [r[0], r[1], r[2]]).collect(),
        charges: rows.iter().map(|r| r[3]).collect(),
        cell: lattice.as_chunks().0.to_vec().try_into().expect("nine numbers"),
    }
}

#[test]
fn known_values_hold() {
    let known: Value = serde_json::from_str(KNOWN).expect("valid JSON");
    assert_eq!(known.as_object().expect("an object").len(), FILES.len());
    for (name, text) in FILES {
        let (known, system) = (&known[name], parse(text));
        let energy = known["energy"].as_f64().expect("an energy");
        let result = system.ewald();
        assert!((result.energy / energy - 1.0).abs() < 1e-14, "{name}: {} and {energy}", result.energy);
        assert!(system.charges.iter().sum::<f64>().abs() < 1e-9, "{name} is neutral");
        if let (Some(constant), Some(distance)) =
            (known["madelung_constant"].as_f64(), known["reference_distance"].as_f64())
        {
            let units = known["formula_units"].as_f64().expect("formula units");
            let found = -result.energy * distance / units;
            assert!((found / constant - 1.0).abs() < 1e-14, "{name}: {found} and {constant}");
        }
    }
}
