"""Neighbour lists of arrays in the memory of CUDA devices."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from madelung import _arguments as check
from madelung import numpy as _numpy
from madelung._device_arrays import Array, part, uploaded
from madelung._device_ops import OPS
from madelung._device_system import Arguments, Frame
from madelung._schema import CHECKED, FULL, HALF


def neighbor_list(
    positions: Any,
    cutoff: float,
    cell: Any = None,
    pbc: Any = None,
    batch_idx: Any = None,
    batch_ptr: Any = None,
    *,
    half_fill: bool = False,
    format: Literal["coo", "csr", "matrix"] = "coo",
    max_neighbors: int | None = None,
    capacity: int | None = None,
    fill_value: int | None = None,
    return_distances: bool = False,
    return_vectors: bool = False,
    method: Literal["cell_list", "brute_force"] | None = None,
    stream: Any = None,
) -> tuple[Array, ...]:
    """All pairs of atoms and images closer than `cutoff` (strictly): the list of `madelung.numpy.neighbor_list`.

    It is made on the device, for images up to 500 boxes away along the first axis and 1000 along the others. Without a
    capacity the call waits once, for the number of pairs; with one it waits for nothing.

    Args:
        positions: (N, 3), in the memory of a device, anywhere: they need not lie inside the cell.
        cutoff: in the unit of the positions.
        cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
        pbc: (3,) or (B, 3) of bool, of NumPy. None: all axes of a cell are periodic.
        batch_idx: (N,), the system of each atom, sorted. Without a cell for each system its last one is read.
            `batch_ptr`, (B+1,): where each system begins. It is read.
        half_fill: every pair once (i < j, and of an atom's own images one of each two) instead of from both sides.
        format: which arrays are returned, see below. A "matrix" is made on the host.
        max_neighbors: the most pairs that an atom may have, and the width of a matrix. Makes the list on the host.
        capacity: the number of pairs that there is room for: then arrays have that length, with N, and zero in images,
            behind the last pair, whose number is the last of `neighbor_ptr`. A list of more has no pair at all;
            `madelung.check_device` raises that, and every function that is given the list makes NaN of it.
        fill_value: the entry behind the neighbours of a row of a matrix. None: N.
        return_distances, return_vectors: whether |r_ij| and r_ij of each pair are returned, zero in the padding.
        method: there is one on a device, and the list is the same.
        stream: as for `ewald_summation`.

    Returns:
        For "coo": `neighbor_list` (2, P), `neighbor_ptr` (N+1,), `neighbor_shifts` (P, 3);
        for "csr": `neighbor_ptr` (N+1,), `indices` (P,), `neighbor_shifts` (P, 3);
        for "matrix": `neighbor_matrix` (N, M), `num_neighbors` (N,), `neighbor_matrix_shifts` (N, M, 3);
        all int32; then distances (P,) or (N, M) and vectors (P, 3) or (N, M, 3) if asked for.

    Raises:
        TypeError, ValueError, NotImplementedError: As `ewald_summation`; ValueError where the list does not fit
            `max_neighbors`. A list is never cut short.
    """
    reach, half = check.positive("cutoff", cutoff), check.flag("half_fill", half_fill)
    room, most = check.count("capacity", capacity), check.count("max_neighbors", max_neighbors)
    form = check.word("format", format, ("coo", "csr", "matrix"))
    lengths, arrows = check.flag("return_distances", return_distances), check.flag("return_vectors", return_vectors)
    if fill_value is not None and form != "matrix":
        check.refuse("fill_value", "it with the format 'matrix' only", repr(form))
    if method is not None:
        check.word("method", method, ("cell_list", "brute_force"))
    given = Arguments(stream, positions=positions, cell=cell, batch_idx=batch_idx, batch_ptr=batch_ptr)
    if form == "matrix" or most is not None:
        arrays = _numpy.neighbor_list(
            *(given.value("positions"), reach, given.value("cell"), pbc),
            *(given.value("batch_idx"), given.value("batch_ptr")),
            half_fill=half,
            format=form,
            max_neighbors=most,
            capacity=room,
            fill_value=fill_value,
            return_distances=lengths,
            return_vectors=arrows,
        )
        return tuple(uploaded(x, given.stream) for x in arrays)
    r, lattice, idx, systems, axes = _frame(given, pbc)
    same = (lattice is not None,) * 3 if axes is None else tuple(axes[0].tolist())
    each = None if axes is None or len(axes) == 1 else uploaded(axes.astype(np.int32), given.stream)
    pairs, ptr, shifts = Frame(r, lattice, same, each, idx, systems).searched(reach, half, room, given.stream)
    columns = part(pairs, pairs.shape[1], (pairs.shape[1],))
    arrays = (pairs, ptr, shifts) if form == "coo" else (ptr, columns, shifts)
    if not (lengths or arrows):
        return arrays
    kind = (HALF if half else FULL) + CHECKED
    if lattice is None or len(lattice) != systems:
        # Without a cell no pair is with an image.
        one = np.eye(3, dtype=r.dtype)[None] if lattice is None else lattice.numpy()
        lattice = uploaded(np.repeat(one, systems, axis=0), given.stream)
    flat = (r, lattice, idx, ptr, columns, shifts, kind)
    vectors, distances = OPS["pair_vectors"].run("", flat, given.stream)
    return (*arrays, *(x for x, asked in ((distances, lengths), (vectors, arrows)) if asked))


def _frame(given: Arguments, pbc: Any) -> tuple[Array, Array | None, Array, int, Any]:
    """Positions, cells (1 or B, 3, 3), the system of each atom, how many systems there are, and their periodic axes."""
    r, axes = given.reals("positions", ("N", 3)), check.periodic(pbc)
    lattice = None
    if given["cell"] is not None:
        h = given.cells(r)
        lattice = part(h, 0, (h.size // 9, 3, 3))
    elif axes is not None and axes.any():
        check.refuse("cell", "lattice vectors for the periodic axes", "None")
    per_system = [len(x) for x in (lattice, axes) if x is not None and len(x) != 1]
    if len(set(per_system)) == 2:
        check.refuse("pbc", f"one row for all systems, or one for each of the {per_system[0]} cells", per_system[1])
    systems = per_system[0] if per_system else None
    if given["batch_ptr"] is not None:
        groups = check.groups(given.value("batch_idx"), given.value("batch_ptr"), len(r), systems)
        counts = np.diff(groups.batch_ptr)
        idx = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        return r, lattice, uploaded(idx, given.stream), len(counts), axes
    return r, lattice, *given.systems_of(len(r), systems), axes
