"""Results of public functions that are no arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class EwaldParameters:
    """Parameters of an Ewald sum. For a batch, arrays (B,)."""

    alpha: Any
    """Splitting parameter, in 1/L."""
    cutoff: Any
    """Radius of the real-space sum, in L. It may exceed the cell."""
    k_cutoff: Any
    """Radius of the reciprocal sum, in radians per L."""
    predicted_force_error: Any
    """Expected RMS error of the forces, in units of q²_rms/(V/N)^(2/3)."""
    slab_height: Any = 0.0
    """Height of the cell of slabs, in L; 0 for crystals."""


@dataclass(frozen=True, slots=True)
class PmeParameters:
    """Parameters of a particle mesh Ewald sum. For a batch, arrays (B,), and B sizes and orders of meshes."""

    alpha: Any
    """Splitting parameter, in 1/L."""
    cutoff: Any
    """Radius of the real-space sum, in L. It may exceed the cell."""
    mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...]
    """Nodes of the mesh along each lattice vector."""
    spline_order: int | tuple[int, ...]
    """Order of the splines."""
    predicted_force_error: Any
    """Expected RMS error of the forces, in units of q²_rms/(V/N)^(2/3)."""
    slab_height: Any = 0.0
    """Height of the cell of slabs, in L; 0 for crystals."""
