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

from typing import Any

from madelung import _arguments as check
from madelung._functions.results import EwaldParameters, PmeParameters
from madelung._neighbors import Neighbors
from madelung._schema import named
from madelung.numpy import _functions
from madelung.numpy._framework import NeighborList
from madelung.numpy._functions import *  # noqa: F403
from madelung.numpy._ops import OPS

__all__ = ["EwaldParameters", "NeighborList", "Neighbors", "PmeParameters", "call"]
__all__ += _functions.__all__


def call(name: str, *inputs: Any, cotangents: Any = None) -> tuple[Any, ...]:
    """Any op of `madelung.ops()`, by its name, with arrays and numbers as its inputs, in their order.

    A structured argument is several inputs: a batch the system of each row; a list of pairs its offsets, columns,
    images and kind (0 full, 1 half, 2 directed); numbers that no array says follow.

    Args:
        name: such as "pair_vectors".
        inputs: arrays of float32 or float64, and of int32 or int64.
        cotangents: one array, or None for zero, for each output.

    Returns:
        The outputs; with cotangents the gradients by all differentiable arguments in their place.

    Raises:
        TypeError, ValueError: For an op that there is not, and inputs that are not its own.
    """
    op = named(OPS, name)
    arrays = {name: check.numbers(name, x) for name, x in op.arrays(inputs, cotangents).items()}
    return op.call(inputs, arrays, cotangents, op.run)
