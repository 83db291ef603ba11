"""Neighbours of tensors as a value: a node of PyTorch's trees, and lists with a skin."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree

from madelung._neighbors import NeighborList as _NeighborList
from madelung._neighbors import Neighbors, flatten, unflatten
from madelung.torch import _inputs as given
from madelung.torch import _ops
from madelung.torch._framework import mode_of, outside_graphs


def _context(dumped: list[Any]) -> tuple[Any, ...]:
    """The fields of a list that are no arrays, as they were before JSON."""
    return tuple(tuple(map(tuple, x)) if isinstance(x, list) else x for x in dumped)


_pytree.register_pytree_node(
    Neighbors,
    flatten,
    unflatten,
    serialized_type_name="madelung.Neighbors",
    to_dumpable_context=list,
    from_dumpable_context=_context,
    flatten_with_keys_fn=lambda x: (
        [(_pytree.GetAttrKey(name), leaf) for name, leaf in zip(Neighbors.ARRAYS, flatten(x)[0])],
        flatten(x)[1],
    ),
)


class NeighborList(_NeighborList):
    __doc__ = _NeighborList.__doc__

    # Sizes of lists depend on values.
    allocate = outside_graphs(_NeighborList.allocate)
    update = outside_graphs(_NeighborList.update)

    def _found(self, positions: Any, cell: Any, pbc: Any, batch_idx: Any) -> Neighbors:
        find = mode_of(positions).find_neighbors
        return find(positions, self.cutoff + self.skin, cell, pbc, batch_idx, None, self.form)

    def _moved(self, reference: Any, positions: Any) -> bool:
        none = reference.new_empty((0, 3, 3))
        # A device reads the systems of atoms, and `vmap` makes systems of calls.
        rows = 0 if reference.is_cpu and not given.is_transformed(positions) else len(reference)
        of = reference.new_zeros(rows, dtype=torch.int32)
        return bool(_ops.needs_rebuild(positions.detach().contiguous(), reference, none, none, of, 1, float(self.skin)))
