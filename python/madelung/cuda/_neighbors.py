"""Neighbour lists of arrays in the memory of CUDA devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung._functions.framework import Found
from madelung._neighbors import Neighbors, axes_of
from madelung._schema import CHECKED, FULL, VALUE
from madelung.cuda._arrays import Array, part
from madelung.cuda._ops import OPS
from madelung.cuda._stream import Stream


def searched(
    on: Stream, positions: Any, cutoff: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any, options: Any
) -> Found:
    """See `Framework`; with a capacity the arrays have that size."""
    r, h, _, idx, systems, *_ = atoms = _atoms(on, positions, cutoff, cell, pbc, batch_idx, batch_ptr)
    return Found(*_search(on, atoms, options.half_fill, options.capacity), r, h, idx, systems)


def _search(on: Stream, atoms: tuple[Any, ...], half: bool, capacity: int | None) -> list[Any]:
    """Pairs (2, P), where those of each atom begin, and images. Waits for their number without a capacity."""
    rest = (half, -1 if capacity is None else capacity, 0)
    pairs, ptr, shifts = OPS["neighbor_search"].run(VALUE, (*atoms, *rest), on.stream)
    if not half:
        ptr._native.found_list(pairs._native, shifts._native)
    return [pairs, ptr, shifts]


def kind_of(ptr: Array, columns: Array, images: Array) -> int:
    """The kind of a full list, whose check is left out where a search has made it and nobody can have written to it."""
    is_checked = ptr._native.is_checked_list(columns._native, images._native)
    return FULL + CHECKED if is_checked else FULL


def pair_vectors(on: Stream, found: Found, kind: int) -> list[Any]:
    return OPS["pair_vectors"].run(VALUE, pair_inputs(on, found, kind), on.stream)


def pair_differences(on: Stream, found: Found, kind: int) -> Any:
    return OPS["pair_differences"].run(VALUE, pair_inputs(on, found, kind), on.stream)[0]


def pair_inputs(on: Stream, found: Found, kind: int) -> tuple[Any, ...]:
    h = found.cell
    if len(h) != found.systems:
        # Without a cell no pair is with an image.
        h = on.repeated(h[0] if len(h) else on.unit(h.dtype), found.systems)
    return found.positions, h, found.batch_idx, found.ptr, found.pairs[1], found.shifts, kind + CHECKED


def find_neighbors(
    on: Stream, positions: Any, cutoff: float, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any, form: Any
) -> Neighbors:
    """All pairs closer than a cutoff, in rows."""
    if form == "clusters":
        check.refuse("form", "'rows' on a device", "'clusters'")
    cutoff = check.largest(cutoff)
    r, h, *_ = atoms = _atoms(on, positions, cutoff, cell, pbc, batch_idx, batch_ptr)
    given = (*atoms, on.filled((0,), r.dtype, 0.0), 0, -1, -1, -1)
    index, columns, images = OPS["find_neighbors"].run(VALUE, given, on.stream)
    index._native.found_list(columns._native, images._native)
    at, axes = None if cell is None else h, axes_of(check.periodic(pbc), cell)
    return Neighbors(index, columns, images, at, None, "rows", len(r), float(cutoff), axes)


def _atoms(
    on: Stream, positions: Any, cutoff: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any
) -> tuple[Any, ...]:
    """The inputs that searches have in common, checked."""
    reach = check.positive("cutoff", cutoff)
    r, axes = on.reals("positions", positions, ("N", 3)), check.periodic(pbc)
    h = on.filled((0, 3, 3), r.dtype, 0.0)
    if cell is not None:
        h = on.cells(cell, r)
        h = part(h, 0, (h.size // 9, 3, 3))
    rows, bits = check.search_axes(axes, cell)
    systems = check.lattices(None if cell is None else len(h), axes)
    if batch_ptr is None:
        idx, systems = on.systems_of(batch_idx, len(r), systems)
    else:
        values = (x.numpy() if isinstance(x, Array) else x for x in (batch_idx, batch_ptr))
        of, systems = check.groups(*values, len(r), systems).of(len(r))
        idx = on.uploaded(of)
    each = on.uploaded(rows) if len(rows) else on.filled((0, 3), np.int32, 0.0)
    return r, h, each, idx, systems, reach, bits
