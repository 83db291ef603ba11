"""Structures as ASE keeps them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def is_atoms(x: Any) -> bool:
    """Whether something is ASE's `Atoms`, which whoever has them has imported."""
    ase = sys.modules.get("ase")
    return ase is not None and isinstance(x, ase.Atoms)


def charges_of(atoms: Any) -> np.ndarray | None:
    """Charges that come with `Atoms`: the initial ones, else those among a calculator's results; None: neither."""
    if atoms.has("initial_charges"):
        return atoms.get_initial_charges()
    if atoms.calc is None:
        return None
    try:
        # Of these very atoms, and nothing is computed for it.
        return atoms.calc.get_property("charges", atoms, allow_calculation=False)
    except NotImplementedError:
        return None


def arrays_of(atoms: Any) -> dict[str, Any]:
    """`Atoms` as arrays by this library's names."""
    found = {"positions": atoms.positions, "cell": atoms.cell.array, "pbc": atoms.pbc}
    charges = charges_of(atoms)
    return found if charges is None else {**found, "charges": charges}
