//! The facade's integration tests, in one binary. Those of devices are in it: they take turns at the driver that stands in,
//! which the others do not touch, and look for races in a process that they start themselves.

#[path = "../common/mod.rs"]
mod common;

#[path = "../common/declared.rs"]
mod declared;
#[path = "../common/every_form.rs"]
mod every_form;
#[path = "../common/example_checks.rs"]
mod example_checks;
#[path = "../common/kinds.rs"]
mod kinds;
#[path = "../common/oracle_checks.rs"]
mod oracle_checks;
#[path = "../common/parts.rs"]
mod parts;
#[path = "../common/tuning_checks.rs"]
mod tuning_checks;

mod backends;
mod bad_input;
mod clusters;
mod cuda;
mod cuda_text;
mod derivatives;
mod documented;
mod ewald;
mod exactness;
mod far;
mod imports;
mod laws;
mod support;

use madelung::{Prescribed, estimate_ewald_parameters};
