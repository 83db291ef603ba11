//! The parts of kernels that calls of ops launch.

use madelung_core::runtime::{Part, Role, SlotArray};

/// Energies of atoms on a mesh, which come from a gradient of the energy of their system.
const BY_SUMS: &str = "gather_value_0";

/// Vectors that choose images: no result changes with them.
const OF_IMAGES: &str = "periodic_reciprocals_gradient";

/// Whether some call has to launch a part. Those of gradients that make nothing but values are launched where nothing has
/// made the values before, which may be in no op. What reads nothing is constant: its tangents are zero, and not asked for.
pub(crate) fn is_launched(part: &Part) -> bool {
    let makes_gradients =
        |array| matches!(array, SlotArray::Values(r) if r.has(Role::COTANGENT) || r.has(Role::HIDDEN));
    let is_needed = !part.cuda.name.contains("_gradient_")
        || !part.reductions.is_empty()
        || part.written.iter().any(|n| makes_gradients(part.slots[*n].array));
    let reads = (0..part.slots.len()).any(|n| !part.written.contains(&n));
    let is_used = part.cuda.name != BY_SUMS && !part.cuda.name.starts_with(OF_IMAGES);
    is_needed && is_used && (reads || !part.cuda.name.contains("tangent"))
}
