//! The facade's integration tests, in one binary.

#[path = "../common/mod.rs"]
mod common;

#[path = "../common/example_checks.rs"]
mod example_checks;
#[path = "../common/oracle_checks.rs"]
mod oracle_checks;
#[path = "../common/tuning_checks.rs"]
mod tuning_checks;

mod bad_input;
mod clusters;
mod derivatives;
mod ewald;
mod exactness;
mod imports;
mod support;

use madelung::estimate_ewald_parameters;
