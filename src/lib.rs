//! Energies, forces and every derivative of them for charged particles and their neighbourhoods.
//!
//! The public interface: one list of names over the crates that do the work. [`ewald_summation`] and [`neighbor_list`]
//! answer at once; [`kernels!`], [`op`] and [`tape`] are for potentials of your own.

#![forbid(unsafe_code)]

/// The programs of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The programs of the page of Rust, as tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/rust.md")]
struct Page;

pub use madelung_core::{Error, Result, kernels};
pub use madelung_electrostatics::{
    DEFAULT_ACCURACY, Energies, Equilibrated, EwaldParameters, EwaldSettings, LatentSettings, Options,
    PmeParameters, PmeSettings, Prescribed, PrescribedMesh, QeqSettings, Reduction, System, coulomb, dsf,
    estimate_ewald_parameters, estimate_pme_parameters, ewald_real_space, ewald_reciprocal_space,
    ewald_summation, latent_ewald, particle_mesh_ewald, pme_reciprocal_space, qeq,
};
pub use madelung_neighbors::{find_neighbors, neighbor_list};

/// Arrays, owned and borrowed, in the memory of the process or of a device.
pub mod array {
    pub use madelung_core::array::{Array, DType, Data, DataMut, Elements, Owner, Place, View};
}

/// Contexts of calls: the backend, memory and threads that a call may use.
pub mod backend {
    pub use madelung_core::backend::{Allocator, Context, Heap, PairLoops};

    /// Thread pools.
    pub mod pool {
        pub use madelung_core::backend::pool::{Pool, Serial, Threads};
    }
}

/// Batches of systems.
pub mod batch {
    pub use madelung_core::structure::Batch;
}

/// Cells of periodic systems.
pub mod cell {
    pub use madelung_core::cell::Cell;
}

/// Batches, pair lists and maps in the memory of a device.
pub mod device {
    pub use madelung_core::structure::{DeviceBatch, DeviceMap, DevicePairs};
}

/// Maps from rows to the elements that they belong to.
pub mod map {
    pub use madelung_core::structure::Map;
}

/// Meshes of particle–mesh methods.
pub mod mesh {
    pub use madelung_core::structure::{Mesh, Window};
}

/// Ops: kernels with named arguments, shapes and derivatives.
pub mod op {
    pub use madelung_core::op::{
        Arg, ArgKind, ArgSpec, Constraint, Cotangent, Direction, Evaluated, Linear, Op, OpBuilder,
        OutputSpec, Registry, Request, Size, Work,
    };
    pub use madelung_core::structure::Structure;
}

/// Memory of large arrays, which is kept for later ones: bytes that are kept, and how to give them back.
pub mod memory {
    pub use madelung_core::array::kept::{bytes, trim};
}

/// Calls that stop midway, because the host program asks for it.
pub mod stop {
    pub use madelung_core::stop::on_interrupt;
}

/// Pair lists and their formats.
pub mod pairs {
    pub use madelung_core::structure::pairs::order::SpatialOrder;
    pub use madelung_core::structure::pairs::{
        Clusters, Coo, Csr, Kind, Matrix, Neighbors, PairList, Shifts,
    };
}

pub mod runtime;

/// Reverse-mode differentiation of sequences of op calls, to any order.
pub mod tape {
    pub use madelung_core::tape::{Retain, Tape, Value, Var};
}

/// The CPU backend.
pub mod cpu {
    pub use madelung_core::runtime::Isa;
    pub use madelung_cpu::{Cpu, context};
}

/// The CUDA backend.
pub mod cuda {
    pub use madelung_cuda::{
        Arena, Capture, Cuda, Device, Graph, Memory, Stream, check, has_compiler, measure,
        set_library_folders,
    };
}

/// Neighbour lists and searches around any points, on the host and on a device.
pub mod neighbors {
    pub use madelung_neighbors::{
        CooArrays, Coordinate, Cutoff, DeviceCoo, DeviceFrame, DeviceGrid, DeviceOptions, DeviceSearch,
        ExcludedPairs, Form, HashGrid, KeptGrid, ListArrays, Method, Nearest, NearestArrays, NeighborSearch,
        Options, Periodic, QueryPairs, distances, neighbor_coo, registry,
    };
}

/// Parts of the Ewald sums: their ops, k-vectors and the formulas that kernels of other crates may use.
pub mod electrostatics {
    pub use madelung_electrostatics::{
        ChargeSum, INVERSE_POWER, charge_sum, inverse_power, plan, potential, registry,
    };

    /// One system on the mesh of several processes.
    pub mod domains {
        pub use madelung_electrostatics::domains::{
            Exchange, Processes, particle_mesh_ewald_of_domain, pme_reciprocal_space_of_domain, withdraw,
        };
    }

    /// Parameters of sums over all pairs and waves at once.
    pub mod direct {
        pub use madelung_electrostatics::direct::{
            direct_parameters, listed_cost, training_cost, wave_lines,
        };
    }

    /// Charges of least energy.
    pub mod equilibration {
        pub use madelung_electrostatics::equilibration::{Groups, Minimum};
    }

    /// k-vectors of the reciprocal sum.
    pub mod kvectors {
        pub use madelung_electrostatics::kvectors::{miller_indices, miller_indices_batch};
    }

    /// Sums ready to be evaluated: ops with their arguments.
    pub mod prepared {
        pub use madelung_electrostatics::prepared::{
            Argument, Lattice, Prepared, SumSettings, Summand, Summands, prepare,
        };
    }

    /// Meshes of particle mesh Ewald sums.
    pub mod mesh {
        pub use madelung_electrostatics::mesh::{SPLINE_ORDER, mesh_dimensions};
    }
}

/// Short-range pair potentials between atoms of types: their ops, and the formulas that kernels of other crates may use.
pub mod potentials {
    pub use madelung_potentials::{
        BORN_MAYER, BUCKINGHAM, DISPERSION_OF_ATOMS, END_TERMS, LENNARD_JONES, LENNARD_JONES_OF_ATOMS, MIE,
        MORSE, PairPotential, SOFT_CORE, TANG_TOENNIES, YUKAWA, ZBL, formula, pair_potential, registry,
    };
}

/// Registries of all ops of the library.
pub fn registries() -> Vec<&'static op::Registry> {
    vec![neighbors::registry(), electrostatics::registry(), potentials::registry()]
}

/// Units of energies.
pub mod units {
    /// e²/(4πε₀) in eV·Å, CODATA 2018: the `prefactor` for energies in eV from lengths in Å.
    pub const EV_ANGSTROM: f64 = 14.399_645_478_4;
}
