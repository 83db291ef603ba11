//! The tests of madelung-neighbors, as one binary. Those of devices are in it: they take turns at the driver that stands in
//! ([`gpu::Gpu`]), which the others do not touch, and look for races in a process that they start themselves.

mod aggregate;
#[cfg(target_os = "linux")]
mod device;
mod errors;
mod every_cell;
#[cfg(target_os = "linux")]
mod gpu;
mod grid_query;
mod hash_grid;
mod kept;
mod oracle;
mod pair_vectors;
mod renewed;
mod systems;
