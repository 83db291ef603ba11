"""Virials of atoms: derivatives of their energies by strains."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from madelung._functions.framework import Framework

_AXES = range(3)
# Ops whose energies change where all turns.
_DIRECTED = ("uniform_field", "charge_transfer")


def atomic_virials(
    f: type[Framework] | Framework, op: str, system: Any, reals: tuple[Any, ...], rest: tuple[Any, ...], prefactor: Any
) -> Any:
    """−∂Eᵢ/∂ε of each atom, (N, 3, 3), for an op of energies: symmetric, where these do not change as all turns.

    The other arguments are those of `Framework.energies`."""
    like = f.atoms(system)[0]
    found: dict[tuple[int, int], Any] = {}
    is_symmetric = op not in _DIRECTED
    for j, k in itertools.product(_AXES, _AXES):
        if is_symmetric and j > k:
            found[j, k] = found[k, j]
            continue
        strain = np.zeros((system.systems, 3, 3))
        strain[:, j, k] -= 0.5 if is_symmetric else 1.0
        strain[:, k, j] -= 0.5 if is_symmetric else 0.0
        direction = {"strain": f.numbers(strain, like)}
        found[j, k] = f.energies_along(op, system, reals, rest, prefactor, direction)
    return f.stacked([found[j, k] for j in _AXES for k in _AXES]).reshape((like.shape[0], 3, 3))
