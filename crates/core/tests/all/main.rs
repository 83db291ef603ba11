//! The tests of madelung-core that may share a process, as one binary: each binary more links the crate once more.

mod channels;
mod clusters;
mod functions;
mod linear_steps;
mod mesh;
mod no_adjoint;
mod pairs;
mod quadratic;
mod storage;
mod support;
mod tape;
