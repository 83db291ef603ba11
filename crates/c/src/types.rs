//! Structs of callers.

#![allow(unsafe_code, reason = "a promise that zeros are a value of plain structs")]

use crate::memory::Versioned;
use std::ffi::c_void;

/// Charged particles. Fields that are 0 or null are left out.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct madelung_system {
    /// sizeof(madelung_system).
    pub size: u32,
    /// 1: `periodic` says which axes are periodic; 0: all where there is a cell, none without.
    pub has_periodic: i32,
    /// The number of atoms, N.
    pub atoms: i64,
    /// Positions (N, 3).
    pub positions: *const f64,
    /// Charges (N).
    pub charges: *const f64,
    /// Lattice vectors (3, 3), rows; null: no axis is periodic.
    pub cell: *const f64,
    /// Which axes are periodic, 0 or 1 each.
    pub periodic: [i32; 3],
    /// Widths of Gaussian charges (N); null: points.
    pub widths: *const f64,
    /// The number of excluded pairs, P.
    pub exclusions: i64,
    /// Their atoms (P, 2).
    pub excluded: *const i32,
    /// Factors of their energies (P); null: 0, they are left out.
    pub factors: *const f64,
}

/// Ewald's sum, over waves.
pub const MADELUNG_EWALD: i32 = 0;
/// Ewald's sum on a mesh (smooth particle mesh Ewald).
pub const MADELUNG_PME: i32 = 1;
/// All pairs of an open system; or those within `cutoff`, with charges damped by `alpha` where it is not 0.
pub const MADELUNG_COULOMB: i32 = 2;
/// The damped shifted force sum of `alpha` and `cutoff`.
pub const MADELUNG_DSF: i32 = 3;
/// The real-space part of Ewald's sum, within `cutoff`.
pub const MADELUNG_REAL_SPACE: i32 = 4;
/// The reciprocal part of Ewald's sum, over waves up to `k_cutoff`.
pub const MADELUNG_RECIPROCAL_SPACE: i32 = 5;

/// A sum and its parameters. Of MADELUNG_EWALD and MADELUNG_PME those that are 0 are chosen for the accuracy; with a list, which
/// belongs to a cutoff, the cutoff is given.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct madelung_sum {
    /// sizeof(madelung_sum).
    pub size: u32,
    /// One of MADELUNG_EWALD, ….
    pub kind: i32,
    /// Target for the RMS force error, in units of q²_rms/(V/N)^(2/3); 0: 1e-6.
    pub accuracy: f64,
    /// Splitting parameter, in 1/L.
    pub alpha: f64,
    /// Radius of the sum over pairs, in L.
    pub cutoff: f64,
    /// Radius of the sum over waves, in radians per L.
    pub k_cutoff: f64,
    /// Nodes of a mesh along the lattice vectors.
    pub mesh: [i32; 3],
    /// Order of its splines.
    pub spline_order: i32,
    /// The factor of energies and all that follows from them: 14.3996454784 for eV and Å; 0: 1.
    pub prefactor: f64,
}

/// Arrays for results; what is null is not wanted.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct madelung_results {
    /// sizeof(madelung_results).
    pub size: u32,
    /// 1: results are added to what the arrays hold; 0: they are written.
    pub adds: i32,
    /// The energy (1).
    pub energy: *mut f64,
    /// Energies of atoms (N), a pair's energy split half and half.
    pub energies: *mut f64,
    /// Forces −∂E/∂r (N, 3).
    pub forces: *mut f64,
    /// Site potentials ∂E/∂q (N).
    pub charge_gradients: *mut f64,
    /// Virial −∂E/∂ε (3, 3).
    pub virial: *mut f64,
}

/// Messages of the processes that share a system.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct madelung_exchange {
    /// sizeof(madelung_exchange).
    pub size: u32,
    /// This process, from 0 on.
    pub rank: i32,
    /// The number of processes.
    pub ranks: i32,
    /// Handed to the function.
    pub data: *mut c_void,
    /// Sends `sent`\[p\] numbers to each process p and receives `received`\[p\] from it; in both arrays the parts of the
    /// processes lie behind each other. All processes call it, in the same order. 0, or another number where it failed.
    pub all_to_all: Option<
        unsafe extern "C" fn(
            data: *mut c_void,
            send: *const f64,
            sent: *const i64,
            receive: *mut f64,
            received: *const i64,
        ) -> i32,
    >,
}

/// float.
pub const MADELUNG_F32: i32 = 2;
/// double.
pub const MADELUNG_F64: i32 = 3;
/// int32_t.
pub const MADELUNG_I32: i32 = 4;
/// int64_t.
pub const MADELUNG_I64: i32 = 5;

/// An array in the memory of the process, its elements one after the other, the last axis the fastest.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct madelung_array {
    /// One of MADELUNG_F32, ….
    pub dtype: i32,
    /// The number of axes.
    pub axes: i32,
    /// Lengths of the axes.
    pub shape: *const i64,
    /// The first element, at an address that is a multiple of its size; null, of a tensor behind the op's own: zeros.
    pub data: *const c_void,
}

/// A number among the arguments of an op.
#[repr(C)]
#[derive(Clone, Copy)]
pub union madelung_number {
    /// An integer.
    pub integer: i64,
    /// A real.
    pub real: f64,
}

// SAFETY: numbers and pointers, of which 0 is one.
unsafe impl Versioned for madelung_system {
    const FIRST: usize = size_of::<Self>();
}

// SAFETY: as above.
unsafe impl Versioned for madelung_sum {
    const FIRST: usize = size_of::<Self>();
}

// SAFETY: as above; a function that is 0 is none.
unsafe impl Versioned for madelung_exchange {
    const FIRST: usize = size_of::<Self>();
}

// SAFETY: as above.
unsafe impl Versioned for madelung_results {
    const FIRST: usize = size_of::<Self>();
}
