"""Neighbours of tensors as a value: a node of PyTorch's trees, and lists with a skin."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree

from madelung import _arguments as check
from madelung._neighbors import NeighborList as _NeighborList
from madelung._neighbors import Neighbors, flatten, unflatten, with_room, without_room
from madelung.torch import _inputs as given
from madelung.torch import _ops, _search
from madelung.torch._framework import Graph, is_compiling, mode_of, outside_graphs


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

# Tensors and plain numbers, so that `torch.load` takes files that have it.
torch.serialization.add_safe_globals([Neighbors])


@dataclass(frozen=True)
class NeighborList(_NeighborList):
    """Neighbours of atoms that move: searched for again when an atom has moved by more than half a skin.

        search = NeighborList(cutoff=9.0, skin=1.0)
        neighbors = search.allocate(positions, cell)
        neighbors = search.update(neighbors, positions, cell)   # at every step

    Of a fixed size (`room` or `capacity`) `update` stands in whole graphs, with a cell for each system:

        search = NeighborList(cutoff=9.0, skin=1.0, room=1.25)
        neighbors = search.allocate(positions, cell)
        neighbors = search.update(neighbors, positions, cell)   # in a compiled step
        if neighbors.did_overflow: ...                          # after the steps: allocate, and repeat them

    A list that has become too long for its arrays there has no pairs, but true counts, and whatever is given it is an
    error. Outside of graphs, `update` makes room by itself.

    Args:
        cutoff: in the unit of the positions.
        skin: pairs up to `cutoff + skin` are searched for, so that none within the cutoff is missing until an atom has
            moved by more than half the skin, or cell, periodic axes, systems or the number of atoms have changed.
            Functions leave out pairs beyond the cutoff.
        form: "clusters" or "rows"; None: which is faster.
        room: how many times the first list fits.
        capacity: the number of pairs up to `cutoff + skin` that the list has room for, in rows. With one, `allocate`
            stands in whole graphs too.
    """

    room: float = 1.0
    capacity: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if check.number("room", self.room) < 1.0:
            check.refuse("room", "a number from 1 up", self.room)
        if self.capacity is not None:
            check.count("capacity", self.capacity)
            if self.form == "clusters":
                check.refuse("form", "'rows' (or None) with a capacity, which counts pairs", self.form)
            object.__setattr__(self, "form", "rows")

    @property
    def _is_fixed(self) -> bool:
        """Whether arrays keep their size."""
        return self.room != 1.0 or self.capacity is not None

    def allocate(self, positions: Any, cell: Any = None, pbc: Any = None, batch_idx: Any = None) -> Neighbors:
        """The neighbours of these atoms; arguments as for `find_neighbors`."""
        if is_compiling() and self.capacity is not None:
            return self._in_graph(None, positions, cell, pbc, batch_idx)
        return self._allocated(positions, cell, pbc, batch_idx, None)

    def update(
        self, neighbors: Neighbors, positions: Any, cell: Any = None, pbc: Any = None, batch_idx: Any = None
    ) -> Neighbors:
        """The neighbours for the atoms' present positions: the given ones, while they are still good.

        Of several systems those are searched for again that have left their skins, or whose cells are others.
        """
        if is_compiling() and self._is_fixed:
            return self._in_graph(neighbors, positions, cell, pbc, batch_idx)
        return self._updated(neighbors, positions, cell, pbc, batch_idx)

    # Sizes of other lists depend on values.

    @outside_graphs
    def _allocated(self, positions: Any, cell: Any, pbc: Any, batch_idx: Any, like: Neighbors | None) -> Neighbors:
        found = _NeighborList.allocate(self, positions, cell, pbc, batch_idx)
        return self._in_room(found, like) if self._is_fixed else found

    @outside_graphs
    def _updated(self, neighbors: Neighbors, positions: Any, cell: Any, pbc: Any, batch_idx: Any) -> Neighbors:
        if not self._is_fixed:
            return _NeighborList.update(self, neighbors, positions, cell, pbc, batch_idx)
        like = neighbors
        if bool(neighbors.did_overflow):
            # Out of date, whatever its atoms.
            neighbors = replace(neighbors, positions=None)
        found = _NeighborList.update(replace(self, room=1.0, capacity=None), neighbors, positions, cell, pbc, batch_idx)
        return found if found is neighbors else self._in_room(found, like)

    def _in_room(self, found: Neighbors, like: Neighbors | None) -> Neighbors:
        """A list with room to spare, or as much as another one has."""
        if like is not None and bool(like.did_overflow):
            like = None
        roomy = with_room(without_room(found), self.room, self.capacity, like)
        arrays = {name: found.index.new_tensor(getattr(roomy, name)) for name in ("index", "columns", "images")}
        return replace(found, **arrays)

    def _in_graph(self, neighbors: Neighbors | None, positions: Any, cell: Any, pbc: Any, batch_idx: Any) -> Neighbors:
        """The list with the systems that need it searched for again, in arrays of the same sizes; or a first one."""
        r = positions.detach()
        h = r.new_empty(0, 3, 3) if cell is None else cell.detach().reshape(-1, 3, 3)
        axes = _axes(pbc, cell)
        if batch_idx is None:
            of, systems = r.new_zeros(r.shape[0], dtype=torch.int32), 1
        elif cell is None or cell.dim() != 3:
            expected = "one for each system, (B, 3, 3), in a compiled graph with `batch_idx` (`cell.expand(B, 3, 3)`)"
            check.refuse("cell", expected, "None" if cell is None else "one for all of them")
        else:
            of, systems = batch_idx.to(torch.int32), h.shape[0]
        if neighbors is None:
            flags = r.new_ones(systems, dtype=torch.int32)
            former = [r.new_empty(shape, dtype=torch.int32) for shape in ((0,), (0, 1), (0, 3))]
            sizes = (0, r.shape[0] + 1, self.capacity, 1, self.capacity)
        else:
            flags = self._flags(neighbors, r, h, axes, (batch_idx, of, systems))
            index, columns, images = neighbors.index, neighbors.columns, neighbors.images
            lanes = columns.shape[1] if columns.dim() == 2 else 1
            former = [index, columns.reshape(-1, lanes), images]
            form = int(neighbors.form == "clusters")
            sizes = (form, index.shape[0], columns.shape[0], lanes, images.shape[0])
        bits = 0 if cell is None else check.AXES_OF_CELL
        rows = r.new_empty((0, 3), dtype=torch.int32)
        if axes is not None and len(axes) == 1:
            bits = sum(1 << k for k in range(3) if axes[0][k])
        elif axes is not None:
            bits, rows = 0, torch.tensor(axes, dtype=torch.int32, device=r.device)
        reach = self.cutoff + self.skin
        arguments = (r, h, rows, of, reach, bits, flags, *former, *sizes)
        index, columns, images, kept = Graph.search("renewed_neighbors", *arguments)
        columns = columns.reshape(-1) if sizes[3] == 1 else columns
        known = () if batch_idx is None else batch_idx.clone()
        if neighbors is None:
            at, form, atoms = r.clone(), "rows", r.shape[0]
        else:
            at = torch.where((kept[of.long()] != 0).unsqueeze(1), neighbors.positions, r)
            form, atoms = neighbors.form, neighbors.atoms
        lattice = None if cell is None else h.clone()
        systems_of = None if batch_idx is None else known
        reaches = (float(self.cutoff), axes, systems_of, float(self.skin))
        return Neighbors(index, columns, images, lattice, at, form, atoms, *reaches)

    def _flags(self, neighbors: Neighbors, r: Any, h: Any, axes: Any, batch: tuple[Any, Any, int]) -> Any:
        """The systems that need another list, in a graph; (B,) int32."""
        batch_idx, of, systems = batch
        if neighbors.positions is None or neighbors.images.dim() != 2:
            expected = "a list with `room` or a `capacity` that `allocate` or `update` gave"
            check.refuse("neighbors", expected, "another one")
        if not self._made(neighbors):
            expected = f"a list for a cutoff of {self.cutoff:g} and a skin of {self.skin:g} in a graph"
            check.refuse("neighbors", expected, f"one for {neighbors.cutoff:g} and {neighbors.skin:g}")
        if neighbors.pbc != axes:
            check.refuse("neighbors", f"a list for the periodic axes {axes}", f"one for {neighbors.pbc}")
        for name, x, known in (("cell", h, neighbors.cell), ("batch_idx", batch_idx, neighbors.batch_idx)):
            is_given = x is not None and not (name == "cell" and x.shape[0] == 0)
            if is_given != (known is not None) or (is_given and x.shape != known.shape):
                check.refuse(name, "what the list was allocated with, of the same shape", "another one")
        before = h if neighbors.cell is None else neighbors.cell
        given_to = (r, neighbors.positions, h, before, of, systems, float(self.skin), *_no_axes(r))
        (flags,) = Graph.search("needs_rebuild", *given_to)
        if batch_idx is not None:
            flags = torch.where((batch_idx != neighbors.batch_idx).any(), torch.ones_like(flags), flags)
        # Of a list that has no skin every step is out of date.
        return flags if self.skin > 0.0 else torch.ones_like(flags)

    def _found(self, positions: Any, cell: Any, pbc: Any, batch_idx: Any) -> Neighbors:
        find = mode_of(positions).find_neighbors
        return find(positions, self.cutoff + self.skin, cell, pbc, batch_idx, None, self.form)

    def _moved(self, reference: Any, positions: Any) -> bool:
        none = reference.new_empty((0, 3, 3))
        # A device reads the systems of atoms, and `vmap` makes systems of calls.
        rows = 0 if reference.is_cpu and not given.is_transformed(positions) else len(reference)
        of = reference.new_zeros(rows, dtype=torch.int32)
        r, last = positions.detach().contiguous(), (of, 1, float(self.skin), *_no_axes(reference))
        return bool(_ops.needs_rebuild(r, reference, none, none, *last))

    def _renewed(self, neighbors: Neighbors, positions: Any, cell: Any, pbc: Any, batch_idx: Any) -> Neighbors:
        if not positions.is_cpu:
            # On a device all systems are searched for at once.
            moved = mode_of(positions).search
            h = positions.new_empty(0, 3, 3) if cell is None else cell.reshape(-1, 3, 3)
            before = h if cell is None else neighbors.cell
            of, systems = _search.batch_of(positions, None if len(h) in (0, 1) else len(h), batch_idx)
            arguments = (positions, neighbors.positions, h, before, of, systems, float(self.skin), *_no_axes(positions))
            if not bool(moved("needs_rebuild", *arguments)[0].any()):
                return neighbors
            return self.allocate(positions, cell, pbc, batch_idx)
        reach = self.cutoff + self.skin
        return _search.renewed_on_host(neighbors, positions, reach, cell, pbc, batch_idx, self.form)


def _no_axes(like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Periodic axes now and before, of which none are compared."""
    none = like.new_empty(0, 3, dtype=torch.int32)
    return none, none


def _axes(pbc: Any, cell: Any) -> Any:
    """Periodic axes by value, as `axes_of`, of flags that are numbers."""
    if pbc is None:
        return None
    if isinstance(pbc, torch.Tensor):
        check.refuse("pbc", "flags that are known when the graph is made", "a tensor")
    flags = (pbc,) * 3 if isinstance(pbc, (bool, int)) else tuple(pbc)
    rows = flags if len(flags) > 0 and isinstance(flags[0], (tuple, list)) else (flags,)
    axes = tuple(tuple(bool(flag) for flag in row) for row in rows)
    return None if cell is not None and all(all(row) for row in axes) else axes
