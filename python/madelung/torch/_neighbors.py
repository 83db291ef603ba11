"""Neighbour lists of tensors on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from madelung import _arguments as check
from madelung._neighbors import Neighbors
from madelung._schema import CHECKED, FULL, HALF
from madelung.numpy._framework import Numpy
from madelung.torch import _inputs as given
from madelung.torch import _ops


def neighbor_list(
    positions: Any,
    cutoff: Any,
    cell: Any,
    pbc: Any,
    batch_idx: Any,
    batch_ptr: Any,
    options: check.ListOptions,
) -> tuple[Tensor, ...]:
    """The list in the requested form, and the lengths and vectors of its pairs."""
    r, h, axes, idx, ptr = _views(positions, cell, pbc, batch_idx, batch_ptr)
    found = Numpy.neighbor_list(r, cutoff, h, axes, idx, ptr, options._replace(distances=False, vectors=False))
    arrays = tuple(map(torch.from_numpy, found))
    if not (options.distances or options.vectors):
        return arrays
    vectors, distances = _measured(positions, cell, idx, ptr, found, options.format, options.half_fill)
    return (*arrays, *[x for x, asked in ((distances, options.distances), (vectors, options.vectors)) if asked])


def find_neighbors(
    positions: Any, cutoff: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any, form: Any
) -> Neighbors:
    """All pairs closer than a cutoff, in the form that is fastest or in a given one."""
    r, h, axes, idx, ptr = _views(positions, cell, pbc, batch_idx, batch_ptr)
    found = Numpy.find_neighbors(r, cutoff, h, axes, idx, ptr, form)
    arrays = (torch.from_numpy(x) for x in (found.index, found.columns, found.images))
    at = None if cell is None else cell.detach().clone().reshape(-1, 3, 3)
    return Neighbors(*arrays, at, None, found.form, found.atoms, found.cutoff, found.pbc)


def _views(positions: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any) -> tuple[Any, ...]:
    """The arguments of a search as arrays of NumPy."""
    r, _, h = given.reals(positions, None, cell)
    if r is None:
        check.refuse("positions", "a tensor", "None", TypeError)
    idx, ptr = given.view("batch_idx", batch_idx, positions), given.view("batch_ptr", batch_ptr, positions)
    return r, h, given.view("pbc", pbc) if isinstance(pbc, Tensor) else pbc, idx, ptr


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
    atoms = positions.new_zeros(len(positions), dtype=torch.int32) if idx is None else torch.from_numpy(idx)
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
