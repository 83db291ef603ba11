"""Batches of structures, as arrays of NumPy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung._structures import arrays_of, is_atoms

# What `collated` itself makes of a structure, or adds to a batch.
_GEOMETRY = ("positions", "cell", "pbc")
ADDED = ("batch_idx", "neighbors", "latent_ewald")

# Quantities of a system, whose arrays are of these shapes: with as many atoms as rows they could be of atoms, too.
_OF_SYSTEMS = {
    **dict.fromkeys(("stress", "virial", "virials", "strain", "quadrupole"), ((3, 3), (9,), (6,))),
    **dict.fromkeys(("dipole", "polarization", "field"), ((3,),)),
    "polarizability": ((3, 3),),
}


def collated(structures: Iterable[Any], per_system: Sequence[str]) -> dict[str, np.ndarray]:
    """Structures one after the other; see `madelung.torch.nn.collate`."""
    if is_atoms(structures) or isinstance(structures, Mapping):
        check.refuse("structures", "several of them, in a list", f"one, {check.described(structures)}", TypeError)
    given = [arrays_of(one) if is_atoms(one) else one for one in structures]
    if not given:
        check.refuse("structures", "at least one", "none")
    for one in given:
        if not isinstance(one, Mapping):
            check.refuse("structures", "mappings of arrays, or `Atoms` of ASE", check.described(one), TypeError)
    names = list(given[0])
    for n, one in enumerate(given):
        # A cell, or periodic axes, may be missing.
        if set(one) - {"cell", "pbc"} != set(names) - {"cell", "pbc"}:
            check.refuse("structures", f"{sorted(names)} in each, as in the first", f"{sorted(one)} in structure {n}")
    for name in ("positions", *per_system):
        if name not in names:
            check.refuse("structures", f"`{name}` in each", sorted(names))
    for name in ADDED:
        if name in names:
            check.refuse("structures", f"no `{name}`, which a batch adds", sorted(names))
    positions = [check.reals("positions", _array(one["positions"]), ("N", 3)) for one in given]
    dtype = positions[0].dtype
    for r in positions:
        if r.dtype != dtype:
            check.refuse("positions", f"{dtype} in each structure, as in the first", r.dtype, TypeError)
    cells, axes = zip(*(_lattice(one, dtype) for one in given))
    batch = {"positions": np.concatenate(positions), "cell": np.stack(cells), "pbc": np.stack(axes)}
    batch["batch_idx"] = np.repeat(np.arange(len(given), dtype=np.int32), [len(r) for r in positions])
    for name in names:
        if name not in _GEOMETRY:
            arrays = [_array(one[name]) for one in given]
            if any(x.dtype.kind not in "biuf" for x in arrays):
                check.refuse(name, "numbers", arrays[0].dtype, TypeError)
            batch[name] = _joined(name, arrays, positions, name in per_system or _is_of_systems(name, arrays))
    return batch


def _is_of_systems(name: str, arrays: list[np.ndarray]) -> bool:
    """Whether arrays are a quantity of systems by their name, such as `stress` and `dft_stress`, and their shape."""
    shapes = _OF_SYSTEMS.get(name.lower().rpartition("_")[2], ())
    return all(x.shape in shapes for x in arrays)


def _lattice(one: Mapping[str, Any], dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """The cell, zero without periodic axes, and the axes of a structure."""
    given = one.get("cell")
    cell = np.zeros((3, 3), dtype) if given is None else np.asarray(_array(given), dtype)
    check.fits("cell", cell, (3, 3))
    axes = check.periodic(None if one.get("pbc") is None else _array(one["pbc"]))
    axes = cell.any(1) if axes is None else axes[0]
    if (axes & ~cell.any(1)).any():
        check.refuse("cell", "a lattice vector for each periodic axis", cell.tolist())
    return (cell if axes.any() else np.zeros_like(cell)), axes


def _joined(name: str, arrays: list[np.ndarray], positions: list[np.ndarray], per_system: bool) -> np.ndarray:
    """An array of atoms, or of systems."""
    shapes = {x.shape if per_system or x.ndim == 0 else x.shape[1:] for x in arrays}
    if len(shapes) != 1 or len({x.ndim for x in arrays}) != 1:
        check.refuse(name, "arrays of one shape in all structures", sorted(x.shape for x in arrays))
    if per_system or arrays[0].ndim == 0:
        return np.stack(arrays)
    for x, r in zip(arrays, positions):
        if len(x) != len(r):
            check.refuse(name, f"a row for each of {len(r)} atoms (or its name in `per_system`)", x.shape)
    return np.concatenate(arrays)


def _array(x: Any) -> np.ndarray:
    return x.detach().cpu().numpy() if hasattr(x, "detach") else np.asarray(x)
