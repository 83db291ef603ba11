"""Neighbour lists and Ewald sums of NumPy arrays.

Units: lengths in any L, charges in elementary charges, energies in e²/L times `prefactor`
(`madelung.units.EV_ANGSTROM` for eV from Å).

Signs: forces are −∂E/∂r, charge gradients ∂E/∂q, the virial −∂E/∂ε for r → r(1+ε), cell → cell(1+ε). A pair's vector
is r_ij = r_j − r_i + S · cell, where the rows of `cell` are the lattice vectors.

Results have the dtype of `positions`, float32 or float64; other real arrays of a call must have it too. Every function
raises TypeError for an argument of the wrong type and ValueError for one of the wrong shape or value, with its name.

Other Python threads run during a call. They must not write to its arrays meanwhile.
"""

from __future__ import annotations

from madelung._functions.results import EwaldParameters
from madelung.numpy._functions import (
    estimate_ewald_parameters,
    ewald_real_space,
    ewald_reciprocal_space,
    ewald_summation,
    generate_miller_indices,
    neighbor_list,
)

__all__ = [
    "EwaldParameters",
    "estimate_ewald_parameters",
    "ewald_real_space",
    "ewald_reciprocal_space",
    "ewald_summation",
    "generate_miller_indices",
    "neighbor_list",
]
