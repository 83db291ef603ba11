"""Values on which the parameters of a sum depend, and the parameters that it leaves open: `plan::numbers` chooses."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung._functions.framework import Framework
from madelung._functions.requests import Numbers, Request
from madelung._functions.sum_arguments import Arguments


def values_of(f: Framework, of: Arguments, system: Any, axes: Any, by_extents: bool) -> tuple[Any, ...]:
    """Cells, the numbers of atoms, and as far as they are needed the extents of all systems, in Python's own types.

    Of systems without `pbc` axes whose vectors are zero are not periodic: then None, and the axes that are.
    """
    systems = system.systems
    h = np.eye(3) if of.cell is None else np.asarray(check.cells(f.value("cell", of.cell)), np.float64)
    h = np.ascontiguousarray(h.reshape(-1, 3, 3))
    if len(h) != systems:
        h = np.repeat(h, systems, axis=0)
    if axes is None and not (is_there := h.any(-1)).all():
        return None, is_there.tolist(), ()
    atoms = _atoms_of_systems(f, system.positions, of.batch_idx, systems)
    extents: tuple[float, ...] = ()
    if by_extents:
        r = np.ascontiguousarray(f.value("positions", of.positions), np.float64)
        rows = ((of.cell is not None,) * 3,) if axes is None else axes
        extents = tuple(_native.extents(r, list(atoms), h, list(rows)))
    return h.tobytes(), atoms, extents


def _atoms_of_systems(f: Framework, positions: Any, batch_idx: Any, systems: int) -> tuple[int, ...]:
    """The number of atoms of each system."""
    atoms = positions.shape[0]
    if batch_idx is None:
        return (atoms,)
    idx = check.integers("batch_idx", f.value("batch_idx", batch_idx), (atoms,))
    if atoms and (idx[0] < 0 or idx[-1] >= systems or (idx[1:] < idx[:-1]).any()):
        check.refuse(
            "batch_idx",
            f"systems 0 to {systems - 1}, sorted (the atoms of one, then those of the next)",
            check.described(idx),
        )
    return tuple(np.bincount(idx, minlength=systems).tolist())


@functools.lru_cache(maxsize=8)
def kinds_of(request: Request, cells: bytes, atoms: tuple[int, ...], extents: Any, accuracy: Any) -> tuple[int, ...]:
    h = np.frombuffer(cells).reshape(-1, 3, 3)
    return tuple(_native.sum_kinds(request, list(atoms), h, list(extents), accuracy))


def numbers_of(
    f: Framework, of: Arguments, system: Any, request: Request, values: tuple[Any, ...], is_direct: bool
) -> Numbers:
    """The parameters that a call leaves open."""
    own = (("alpha", of.alpha), ("cutoff", of.cutoff), ("k_cutoff", of.k_cutoff), ("slab_height", of.slab_height))
    each = [None if x is None else tuple(check.per_system(name, f.value(name, x), system.systems)) for name, x in own]
    nodes, order = (None if x is None else tuple(x) for x in of.mesh)
    given = (*each, nodes, order, of.accuracy)
    key = (request, *values, (), *given)
    found = _numbers_of(*key)
    if found.by_crowding and (crowding := _crowding(f, of, request, values, found)):
        key = (request, *values, crowding, *given)
        found = _numbers_of(*key)
    if is_direct:
        alpha, cutoff, *lines = f.kept(_lines, key, system.positions)
        return found._replace(alpha=alpha, cutoff=cutoff, lines=tuple(lines))
    return found


@functools.lru_cache(maxsize=64)
def _numbers_of(request: Request, cells: bytes, atoms: Any, extents: Any, crowding: Any, *given: Any) -> Numbers:
    h = np.frombuffer(cells).reshape(-1, 3, 3)
    return Numbers(*_native.sum_numbers(request, list(atoms), h, list(extents), list(crowding), given))


def _crowding(
    f: Framework, of: Arguments, request: Request, values: tuple[Any, ...], filled: Numbers
) -> tuple[float, ...]:
    """The density around the atoms of each system over that of its cell; empty where all cells are filled."""
    cells, atoms, _ = values
    h = np.frombuffer(cells).reshape(-1, 3, 3)
    r = np.ascontiguousarray(f.value("positions", of.positions), np.float64)
    return tuple(_native.crowding(request, list(atoms), h, list(filled.cutoff), list(filled.heights), r) or ())


def _lines(*key: Any) -> tuple[Any, ...]:
    found = _numbers_of(*key)
    images, lines, beside, of = found.lines
    arrays = np.array(lines, np.int32).reshape(-1, 3), np.array(beside, np.int32), np.array(of, np.int32)
    return np.array(found.alpha), np.array(found.cutoff), *images, *arrays
