"""Neighbour lists of tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor

from madelung import _arguments as check
from madelung import numpy as _numpy
from madelung._schema import CHECKED, FULL, HALF
from madelung.torch import _inputs as given
from madelung.torch import _mode, _ops, _search

__all__ = ["neighbor_list"]

_is_compiling = torch.compiler.is_compiling

Given, Result = ParamSpec("Given"), TypeVar("Result")


def _outside_graphs(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """A function that breaks graphs. The wrapper that PyTorch makes for that costs calls outside of graphs 4 µs."""
    disabled = torch.compiler.disable(function)

    @functools.wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        return (disabled if _is_compiling() else function)(*args, **kwargs)

    return call


@_outside_graphs
def neighbor_list(
    positions: Tensor,
    cutoff: float,
    cell: Tensor | None = None,
    pbc: Any = None,
    batch_idx: Tensor | None = None,
    batch_ptr: Tensor | None = None,
    *,
    half_fill: bool = False,
    format: Literal["coo", "csr", "matrix"] = "coo",
    max_neighbors: int | None = None,
    capacity: int | None = None,
    fill_value: int | None = None,
    return_distances: bool = False,
    return_vectors: bool = False,
    method: Literal["cell_list", "brute_force"] | None = None,
) -> tuple[Tensor, ...]:
    """All pairs of atoms and images closer than `cutoff` (strictly).

    The list of `madelung.numpy.neighbor_list`, with its pairs in its order. Distances and vectors are differentiable
    twice in positions and cell; which pairs there are is not. The number of pairs depends on values, so a compiled
    graph breaks here (an error with `fullgraph=True` and in exported graphs): make the list outside of it.

    CUDA tensors are searched on their device. Without `capacity` the number of pairs is read from it. With one, nothing
    is read or waited for, and `torch.cuda.graph` can capture the call: the tensors have room for `capacity` pairs, with
    N behind the last one (and zero in shifts, distances and vectors) and true offsets, and a list that does not fit is
    an error of `madelung.check_device` in what reads it.

    Args:
        positions: (N, 3), anywhere: they need not lie inside the cell.
        cutoff: in the unit of the positions.
        cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
        pbc: (3,) or (B, 3) of bool. None: all axes of a cell are periodic.
        batch_idx: (N,), the system of each atom, sorted. `batch_ptr`, (B+1,): where each system begins.
        half_fill: every pair once (i < j, and of an atom's own images one of each two) instead of from both sides.
        format: which tensors are returned, see below.
        max_neighbors: the most pairs that an atom may have, and the width of a matrix. None: as many as it has. On a
            CUDA device it goes with `capacity` for a matrix alone, which has −1 everywhere (N + 1 where that is the
            `fill_value`) if it does not fit.
        capacity: the most pairs that the list may have. None: as many as it has.
        fill_value: the entry behind the neighbours of a row of a matrix. None: N.
        return_distances, return_vectors: whether |r_ij| and r_ij of each pair are returned, zero in the padding.
        method: None chooses by the size of the system.

    Returns:
        For "coo": `neighbor_list` (2, P), `neighbor_ptr` (N+1,), `neighbor_shifts` (P, 3);
        for "csr": `neighbor_ptr` (N+1,), `indices` (P,), `neighbor_shifts` (P, 3);
        for "matrix": `neighbor_matrix` (N, M), `num_neighbors` (N,), `neighbor_matrix_shifts` (N, M, 3);
        all int32; then distances (P,) or (N, M) and vectors (P, 3) or (N, M, 3) if asked for.

    Raises:
        TypeError: For an argument that is no tensor, or of the wrong dtype.
        ValueError: Among others where the list does not fit `max_neighbors` or `capacity`: the message has what is
            needed. A list is never cut short.
    """
    if isinstance(positions, Tensor) and positions.is_cuda:
        options = check.list_options(
            half_fill, format, method, max_neighbors, capacity, fill_value, return_distances, return_vectors
        )
        return _search.neighbor_list(positions, cutoff, cell, pbc, batch_idx, batch_ptr, options)
    r, _, h = given.reals(positions, None, cell)
    if r is None:
        check.refuse("positions", "a tensor", "None", TypeError)
    idx, ptr = given.view("batch_idx", batch_idx, positions), given.view("batch_ptr", batch_ptr, positions)
    found = _numpy.neighbor_list(
        r,
        cutoff,
        h,
        given.view("pbc", pbc) if isinstance(pbc, Tensor) else pbc,
        idx,
        ptr,
        half_fill=half_fill,
        format=format,
        max_neighbors=max_neighbors,
        capacity=capacity,
        fill_value=fill_value,
        method=method,
    )
    arrays = tuple(map(torch.from_numpy, found))
    lengths, arrows = (
        check.flag("return_distances", return_distances),
        check.flag("return_vectors", return_vectors),
    )
    if not (lengths or arrows):
        return arrays
    vectors, distances = _measured(positions, cell, idx, ptr, found, format, half_fill)
    return (*arrays, *[x for x, asked in ((distances, lengths), (vectors, arrows)) if asked])


def _measured(
    positions: Tensor, cell: Tensor | None, idx: Any, batch_ptr: Any, found: Any, format: str, half_fill: bool
) -> tuple[Tensor, Tensor]:
    """The vectors of the pairs of a list and their lengths, in its shape."""
    slots = None
    if format == "coo":
        pairs, ptr, shifts = found
        columns = pairs[1]
    elif format == "csr":
        ptr, columns, shifts = found
    else:
        matrix, counts, shifts = found
        there = np.arange(matrix.shape[1]) < counts[:, None]
        slots = np.flatnonzero(there)
        ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
        columns, shifts = matrix[there], shifts[there]
    if idx is None and batch_ptr is not None:
        idx = np.repeat(np.arange(len(batch_ptr) - 1, dtype=np.int32), np.diff(batch_ptr))
    systems = 1
    if idx is not None:
        systems = len(batch_ptr) - 1 if batch_ptr is not None else int(idx[-1]) + 1 if len(idx) else 0
    if cell is None:
        # No pair is with an image.
        cell = torch.eye(3, dtype=positions.dtype, device="cpu")
    if cell.dim() == 2:
        cell = cell.expand(systems, 3, 3)
    atoms = _mode.Eager.one_system(positions, len(positions)) if idx is None else torch.from_numpy(idx)
    # Made by the search, so it needs no check.
    kind = (HALF if half_fill else FULL) + CHECKED
    lists = [torch.from_numpy(np.ascontiguousarray(x)) for x in (ptr, columns, shifts)]
    vectors, distances = _ops.pair_vectors(positions, cell, atoms, *lists, kind)
    if slots is None:
        return vectors, distances
    at, size = torch.from_numpy(slots), matrix.size
    distances = distances.new_zeros(size).index_copy(0, at, distances)
    vectors = vectors.new_zeros(size, 3).index_copy(0, at, vectors)
    return vectors.reshape(*matrix.shape, 3), distances.reshape(matrix.shape)
