"""Calls of the bodies that public functions have, as the namespaces make them."""

from __future__ import annotations

from typing import Any

import numpy as np

import madelung.numpy as mn
from madelung._functions.declare import FUNCTIONS
from madelung._neighbors import Neighbors, flatten, unflatten

ALPHA, CUTOFF, SIDE = 0.9, 3.0, 7.0
FLAGS = ("compute_forces", "compute_charge_gradients", "compute_virial")


def arguments(name: str, dtype: type, systems: int, has_cell: bool = True) -> dict:
    """Everything that a function takes, as arrays of NumPy; `systems`: 0 for one that is no batch."""
    rng = np.random.default_rng(3)
    count = max(systems, 1)
    r = (rng.random((12 * count, 3)) * SIDE).astype(dtype)
    cell = (np.eye(3) * SIDE + rng.random((3, 3)) * 0.3).astype(dtype)
    given = {"positions": r, "cell": cell if has_cell else None}
    if systems:
        given |= {"cell": np.stack([cell * (1 + 0.01 * b) for b in range(count)]).astype(dtype)}
        given["batch_idx"] = np.repeat(np.arange(count, dtype=np.int32), 12)
    declared = {p.name: p for p in FUNCTIONS[name].parameters()}
    of = declared.keys()
    batch = {k: given[k] for k in ("batch_idx",) if k in given}
    if "neighbors" in of:
        given["neighbors"] = mn.find_neighbors(r, CUTOFF, given["cell"], **batch)
    charges = np.where(np.arange(len(r)) % 2, 1.0, -1.0).astype(dtype)
    waves, wave_idx = mn.generate_miller_indices(given["cell"] if has_cell else cell, 3.0)
    known = {
        "charges": charges,
        "types": (np.arange(len(r)) % 2).astype(np.int32),
        "alpha": ALPHA,
        "cutoff": CUTOFF,
        "miller_indices": waves,
        "miller_batch_idx": wave_idx,
        "mesh_dimensions": (8, 9, 10),
        "spline_order": 4,
    }
    if "dispersion" in of:
        # Those of a sum over all pairs, which has tests of its own.
        del known["alpha"], known["mesh_dimensions"]
    if "atoms" in of:
        width = declared["atoms"].shape[1]
        first = np.flatnonzero(np.arange(len(r)) % 12 <= 12 - width)
        atoms = (first[:, None] + np.arange(width)).astype(np.int32)
        of_terms = {
            n: np.linspace(0.8, 1.2, len(atoms)).astype(dtype) for n, p in declared.items() if p.shape == ("P",)
        }
        known |= {"atoms": atoms} | of_terms
    # The exponents of Mie's potential differ.
    scales = {"repulsive": 12.0, "attractive": 6.0}
    tables = {
        n: scales.get(n, 1.0) * np.array([[0.7, 0.9], [0.9, 1.1]], dtype)
        for n, p in declared.items()
        if p.shape == ("K", "K")
    }
    return given | {k: v for k, v in known.items() if k in of} | tables


def passed(name: str, given: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of a body."""
    declared = FUNCTIONS[name]
    values = {p.name: given.get(p.name, p.default) for p in declared.parameters()}
    groups = [getattr(item, "parameters", None) for item in declared.arguments()]
    return tuple(
        values[item.name] if group is None else tuple(values[p.name] for p in group)
        for item, group in zip(declared.arguments(), groups)
    )


def lent(x: Any) -> Any:
    """Of arrays of NumPy tensors on the same memory."""
    import torch

    if isinstance(x, np.ndarray):
        return torch.from_numpy(x)
    if isinstance(x, Neighbors):
        arrays, others = flatten(x)
        return unflatten([lent(array) for array in arrays], others)
    return tuple(map(lent, x)) if isinstance(x, tuple) else x
