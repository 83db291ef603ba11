//! The extension module of the Python package; the public functions and the checks of their arguments are in
//! `python/madelung`.

mod call;
mod captures;
mod convert;
mod cuda;
mod device;
mod dlpack;
mod electrostatics;
mod graph;
mod grids;
mod jax;
mod kernels;
mod lists;
mod machine_code;
mod op_call;
mod owned;
mod plain;
mod plain_op;
mod plan;
mod processes;
mod signals;
mod straight;
mod stream;
mod torch;

use pyo3::prelude::*;

/// The compiled part of Madelung.
#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::cuda::{check_device, cuda_devices, cuda_primitives, cuda_sources, set_library_folders};
    #[pymodule_export]
    use super::device::{
        DeviceArray, device_constant, device_filled, device_from_address, device_from_capsule,
        device_of_pointer, device_upload, device_write,
    };
    #[pymodule_export]
    use super::electrostatics::{LeastCharges, mesh_of_spacing, miller_indices, wave_lines};
    #[pymodule_export]
    use super::graph::DeviceGraph;
    #[pymodule_export]
    use super::grids::Grid;
    #[pymodule_export]
    use super::jax::{jax_handlers, jax_scratch};
    #[pymodule_export]
    use super::kernels::{
        kernel_functions, kernel_op, kernels, law_ops, library_kernels, lowered_kernels, torch_kernel_ops,
    };
    #[pymodule_export]
    use super::lists::{full_list, neighbor_rows};
    #[pymodule_export]
    use super::machine_code::{
        has_machine_code, install_machine_code, kernel_llvm, kernel_parts, machine_code_name,
        machine_code_symbols, stop_waiting, wanted_parts,
    };
    #[pymodule_export]
    use super::op_call::{described_ops, device_call, host_call};
    #[pymodule_export]
    use super::plain::Plain;
    #[pymodule_export]
    use super::plain_op::PlainOp;
    #[pymodule_export]
    use super::plan::{
        all_pairs, all_pairs_ptr, crowding, extents, gaussian_reach, meshes_reach, sum_accuracy, sum_kinds,
        sum_numbers, sum_plan,
    };
    #[pymodule_export]
    use super::processes::{ewald_of_domain, withdraw_from_domain};
    #[pymodule_export]
    use super::straight::{InGraph, Straight};
    #[pymodule_export]
    use super::stream::{DeviceStream, device_looks, note_record, release_device_memory};
    #[pymodule_export]
    use super::torch::torch_init;
    #[pymodule_export]
    use super::{isa, registry_json, set_threads, threads, version};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::signals::watch(module.py())
    }
}

/// The version of the library.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// The instruction set of kernels on this CPU.
#[pyfunction]
fn isa() -> String {
    format!("{:?}", madelung_core::runtime::Isa::detect())
}

/// The number of threads that share the work of a call.
#[pyfunction]
fn threads() -> usize {
    use madelung::backend::pool::{Pool, Threads};
    Threads::shared().threads()
}

/// Sets the number of threads of calls from now on; 0: all that the process may use.
#[pyfunction]
fn set_threads(threads: usize) {
    madelung::backend::pool::Threads::shared().set_threads(threads);
}

/// The declarations of all ops, as JSON.
#[pyfunction]
fn registry_json() -> PyResult<String> {
    let ops = madelung::registries().into_iter().flat_map(|r| r.iter().cloned());
    Ok(madelung::op::Registry::new(ops).map_err(call::exception)?.to_json())
}
