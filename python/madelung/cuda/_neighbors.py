"""Neighbour lists of arrays in the memory of CUDA devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung._neighbors import Neighbors, axes_of
from madelung._schema import CHECKED, FULL, HALF
from madelung.cuda._arrays import Array, part
from madelung.cuda._ops import OPS
from madelung.cuda._stream import Stream
from madelung.numpy._framework import Numpy


@dataclass(frozen=True, slots=True)
class Frame:
    """The input of a search for neighbours."""

    positions: Array
    cell: Array | None
    """(B, 3, 3), or (1, 3, 3) for all systems."""
    axes: tuple[bool, ...]
    """The periodic ones of all systems, if `pbc` is None."""
    pbc: Array | None
    batch_idx: Array
    systems: int

    def searched(
        self, cutoff: float, half: bool, capacity: int | None, stream: _native.DeviceStream
    ) -> tuple[Array, Array, Array]:
        """Pairs (2, P), where those of each atom begin, and images. Waits for their number without a capacity."""
        arrays = (self.positions, self.cell, self.pbc, self.batch_idx)
        found = _native.device_neighbors(
            tuple(None if x is None else x._native for x in arrays),
            self.axes,
            self.systems,
            cutoff,
            half,
            capacity,
            stream,
        )
        pairs, ptr, shifts = map(Array, found)
        return pairs, ptr, shifts


def neighbor_list(
    on: Stream,
    positions: Any,
    cutoff: Any,
    cell: Any,
    pbc: Any,
    batch_idx: Any,
    batch_ptr: Any,
    options: check.ListOptions,
) -> tuple[Array, ...]:
    """The list in the requested form, and the lengths and vectors of its pairs."""
    reach, half, form = check.positive("cutoff", cutoff), options.half_fill, options.format
    if form == "matrix" or options.max_neighbors is not None:
        given = (_value(positions), reach, _value(cell), pbc, _value(batch_idx), _value(batch_ptr))
        arrays = Numpy.neighbor_list(*given, options)
        return tuple(map(on.uploaded, arrays))
    (r, lattice, idx, systems, _), frame = _frame(on, positions, cell, pbc, batch_idx, batch_ptr)
    pairs, ptr, shifts = frame.searched(reach, half, options.capacity, on.stream)
    columns = part(pairs, pairs.shape[1], (pairs.shape[1],))
    arrays = (pairs, ptr, shifts) if form == "coo" else (ptr, columns, shifts)
    if not (options.distances or options.vectors):
        return arrays
    kind = (HALF if half else FULL) + CHECKED
    if lattice is None or len(lattice) != systems:
        # Without a cell no pair is with an image.
        one = np.eye(3, dtype=r.dtype)[None] if lattice is None else lattice.numpy()
        lattice = on.uploaded(np.repeat(one, systems, axis=0))
    flat = (r, lattice, idx, ptr, columns, shifts, kind)
    vectors, distances = OPS["pair_vectors"].run("", flat, on.stream)
    return (*arrays, *(x for x, asked in ((distances, options.distances), (vectors, options.vectors)) if asked))


def find_neighbors(
    on: Stream, positions: Any, cutoff: float, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any, form: Any
) -> Neighbors:
    """All pairs closer than a cutoff, in rows."""
    if form == "clusters":
        check.refuse("form", "'rows' on a device", "'clusters'")
    (r, lattice, _, _, axes), frame = _frame(on, positions, cell, pbc, batch_idx, batch_ptr)
    pairs, ptr, shifts = frame.searched(cutoff, False, None, on.stream)
    columns = part(pairs, pairs.shape[1], (pairs.shape[1],))
    return Neighbors(ptr, columns, shifts, lattice, None, "rows", len(r), float(cutoff), axes_of(axes, lattice))


def _value(x: Any) -> Any:
    return x.numpy() if isinstance(x, Array) else x


def _frame(
    on: Stream, positions: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any
) -> tuple[tuple[Array, Array | None, Array, int, Any], Frame]:
    """The atoms of a search, and its input."""
    r, lattice, idx, systems, axes = atoms = _atoms(on, positions, cell, pbc, batch_idx, batch_ptr)
    same = (lattice is not None,) * 3 if axes is None else tuple(axes[0].tolist())
    each = None if axes is None or len(axes) == 1 else on.uploaded(axes.astype(np.int32))
    return atoms, Frame(r, lattice, same, each, idx, systems)


def _atoms(
    on: Stream, positions: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any
) -> tuple[Array, Array | None, Array, int, Any]:
    """Positions, cells (1 or B, 3, 3), the system of each atom, how many systems there are, and their periodic axes."""
    r, axes = on.reals("positions", positions, ("N", 3)), check.periodic(pbc)
    lattice = None
    if cell is not None:
        h = on.cells(cell, r)
        lattice = part(h, 0, (h.size // 9, 3, 3))
    elif axes is not None and axes.any():
        check.refuse("cell", "lattice vectors for the periodic axes", "None")
    systems = check.lattices(None if lattice is None else len(lattice), axes)
    if batch_ptr is not None:
        groups = check.groups(_value(batch_idx), _value(batch_ptr), len(r), systems)
        counts = np.diff(groups.batch_ptr)
        idx = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        return r, lattice, on.uploaded(idx), len(counts), axes
    return r, lattice, *on.systems_of(batch_idx, len(r), systems), axes
