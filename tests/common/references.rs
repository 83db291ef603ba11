//! The stored reference values of `tests/data/ewald_references.json`.

use serde_json::Value;

use super::oracle::Reference;
use super::systems::System;

/// One periodic system and the results of an independent Ewald sum. See `tests/data/README.md`.
#[derive(Clone, Debug)]
pub struct ReferenceCase {
    /// The name, such as `MgO` or `water_801`.
    pub name: String,
    /// A remark on the case; mostly empty.
    pub note: String,
    /// Positions, charges and cell.
    pub system: System,
    /// Energy and first derivatives, Coulomb constant 1.
    pub expected: Reference,
}

/// All stored cases, in the order of the file.
///
/// # Panics
/// If the file does not have the expected form.
pub fn reference_cases() -> Vec<ReferenceCase> {
    let file: Value =
        serde_json::from_str(include_str!("../data/ewald_references.json")).expect("valid JSON");
    file.as_array().expect("a list of cases").iter().map(case).collect()
}

/// The stored case of that name.
///
/// # Panics
/// If there is none.
pub fn reference_case(name: &str) -> ReferenceCase {
    let found = reference_cases().into_iter().find(|case| case.name == name);
    found.unwrap_or_else(|| panic!("no reference case `{name}`"))
}

fn case(value: &Value) -> ReferenceCase {
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    ReferenceCase {
        name: text("name"),
        note: text("note"),
        system: System {
            positions: vectors(&value["positions"]),
            charges: numbers(&value["charges"]),
            cell: matrix(&value["cell"]),
        },
        expected: Reference {
            energy: number(&value["energy"]),
            atom_energies: numbers(&value["atom_energies"]),
            forces: vectors(&value["forces"]),
            charge_gradients: numbers(&value["charge_gradients"]),
            virial: matrix(&value["virial"]),
        },
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("expected a number, got {value}"))
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap_or_else(|| panic!("expected a list, got {value}")).iter().map(number).collect()
}

fn vectors(value: &Value) -> Vec<[f64; 3]> {
    let rows = value.as_array().unwrap_or_else(|| panic!("expected a list, got {value}"));
    rows.iter().map(|row| numbers(row).try_into().expect("three components")).collect()
}

fn matrix(value: &Value) -> [[f64; 3]; 3] {
    vectors(value).try_into().expect("three rows")
}
