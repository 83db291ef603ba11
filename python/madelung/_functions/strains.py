"""Virials of atoms: derivatives of their energies by strains."""

from __future__ import annotations

from typing import Any

import numpy as np

from madelung._functions.framework import Framework

_AXES = range(3)


def atomic_virials(
    f: type[Framework] | Framework, op: str, system: Any, reals: tuple[Any, ...], rest: tuple[Any, ...], prefactor: Any
) -> Any:
    """−∂Eᵢ/∂ε of each atom, (N, 3, 3), for an op of energies, which do not change where all turns: it is symmetric.

    The other arguments are those of `Framework.energies`."""
    like = f.atoms(system)[0]
    found = {}
    for k in _AXES:
        for j in range(k + 1):
            strain = np.zeros((system.systems, 3, 3))
            strain[:, j, k] -= 0.5
            strain[:, k, j] -= 0.5
            direction = {"strain": f.numbers(strain, like)}
            found[j, k] = found[k, j] = f.energies_along(op, system, reals, rest, prefactor, direction)
    return f.stacked([found[j, k] for j in _AXES for k in _AXES]).reshape((like.shape[0], 3, 3))
