"""Neighbour lists of JAX arrays: of exact size outside of `jit`, with a capacity inside."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from madelung import _arguments as check
from madelung import _native
from madelung._functions.framework import Found
from madelung._neighbors import NeighborList as _NeighborList
from madelung._neighbors import Neighbors, axes_of, check_axes, flatten, unflatten
from madelung.jax import _inputs as given
from madelung.jax import _ops
from madelung.numpy._framework import Numpy

__all__ = ["NeighborList", "Neighbors"]


def searched(
    positions: Any, cutoff: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any, options: check.ListOptions
) -> Found:
    """See `Framework`; with a capacity the arrays have that size."""
    r = given.reals("positions", positions, ("N", 3))
    h = None if cell is None else given.cells(cell, r)
    room = options.capacity
    if room is not None and options.format == "matrix":
        check.refuse("format", "'coo' or 'csr' with a capacity (a matrix has `max_neighbors`)", "'matrix'")
    reach = given.static("cutoff", cutoff)
    if given.is_traced(r, h, pbc, batch_idx, batch_ptr):
        if room is None:
            check.refuse("capacity", "the number of pairs that the list has room for, under `jit`", "None")
        for name in ("max_neighbors", "method"):
            if getattr(options, name) is not None:
                check.refuse(name, "None under `jit`", getattr(options, name))
        idx, systems = _systems(len(r), h, batch_idx, batch_ptr)
        found = _search(_atoms(r, reach, h, pbc, idx, systems), options.half_fill, room)
    else:
        values = [given.value(*x) for x in (("positions", r), ("cell", h))]
        axes = given.value("pbc", pbc) if isinstance(pbc, jax.Array) else pbc
        others = (given.value("batch_idx", batch_idx), given.value("batch_ptr", batch_ptr))
        host = Numpy.searched(values[0], reach, values[1], axes, *others, options)
        found = host.pairs, host.ptr, host.shifts
        if room is not None:
            found = _padded(found, room, len(r))
        found, idx, systems = given.beside(r, found), host.batch_idx, host.systems
    return Found(*found, r, h, idx, systems)


def pair_vectors(found: Found, kind: int) -> tuple[jax.Array, jax.Array]:
    """See `Framework`."""
    return _ops.OPS["pair_vectors"](*pair_inputs(found, kind))


def pair_differences(found: Found, kind: int) -> jax.Array:
    """See `Framework`."""
    return _ops.OPS["pair_differences"](*pair_inputs(found, kind))


def pair_inputs(found: Found, kind: int) -> tuple[Any, ...]:
    """See `Framework`."""
    r, h, systems = found.positions, found.cell, found.systems
    if h is None:
        # No pair is with an image.
        h = jnp.eye(3, dtype=r.dtype)
    if h.ndim == 2 or len(h) != systems:
        h = jnp.broadcast_to(h, (systems, 3, 3))
    return r, h, jnp.asarray(found.batch_idx), found.ptr, found.pairs[1], found.shifts, kind


def spread(x: Any, at: Any, atoms: int, width: int, fill: int = 0) -> jax.Array:
    """See `Framework`."""
    full = jnp.full((atoms * width, *x.shape[1:]), fill, x.dtype)
    return full.at[at].set(x).reshape(atoms, width, *x.shape[1:])


def _padded(found: Any, room: int, atoms: int) -> tuple[Any, ...]:
    pairs, ptr, shifts = found
    spare = room - pairs.shape[1]
    return np.pad(pairs, ((0, 0), (0, spare)), constant_values=atoms), ptr, np.pad(shifts, ((0, spare), (0, 0)))


def _systems(atoms: int, cell: Any, batch_idx: Any, batch_ptr: Any) -> tuple[Any, int]:
    """The system of each atom, and how many there are, from shapes alone."""
    several = cell is not None and cell.ndim == 3
    if batch_ptr is not None:
        ptr = given.integers("batch_ptr", batch_ptr, ("B+1",))
        if len(ptr) == 0:
            check.refuse("batch_ptr", "where each system begins, and the number of atoms", "no number")
        if several and len(ptr) != len(cell) + 1:
            check.refuse("batch_ptr", f"{len(cell) + 1} offsets, as there are {len(cell)} cells", len(ptr))
        of = jnp.searchsorted(ptr[1:], jnp.arange(atoms, dtype=jnp.int32), side="right").astype(jnp.int32)
        # Offsets of other atoms leave none a system, which the search refuses.
        right = (ptr[0] == 0) & (ptr[-1] == atoms) & (jnp.diff(ptr) >= 0).all()
        return jnp.where(right, of, -1), len(ptr) - 1
    if batch_idx is not None:
        if not several:
            expected = "one for each system, (B, 3, 3), under `jit` with `batch_idx`"
            check.refuse("cell", expected, "None" if cell is None else "one for all of them")
        return given.integers("batch_idx", batch_idx, (atoms,)), len(cell)
    if several and len(cell) != 1:
        check.refuse("batch_idx", f"the system of each atom, as there are {len(cell)} cells", "None")
    return jnp.zeros(atoms, jnp.int32), 1


def _atoms(positions: Any, cutoff: float, cell: Any, pbc: Any, idx: Any, systems: int) -> tuple[Any, ...]:
    """The inputs that searches have in common."""
    r = lax.stop_gradient(positions)
    h = jnp.zeros((0, 3, 3), r.dtype) if cell is None else lax.stop_gradient(cell).reshape(-1, 3, 3)
    if isinstance(pbc, jax.core.Tracer):
        if pbc.dtype != jnp.bool_:
            check.refuse("pbc", "True or False for each axis", pbc.dtype, TypeError)
        rows, bits = (jnp.broadcast_to(pbc, (3,)) if pbc.ndim == 0 else pbc).reshape(-1, 3).astype(jnp.int32), 0
    else:
        rows, bits = check.search_axes(check.periodic(pbc), cell)
    return r, h, jnp.asarray(rows), idx, systems, cutoff, bits


def _search(atoms: tuple[Any, ...], half: bool, room: int) -> tuple[Any, ...]:
    """A list with room for so many pairs."""
    return _ops.OPS["neighbor_search"](*atoms, int(half), room, 0)


jax.tree_util.register_pytree_with_keys(
    Neighbors,
    lambda x: (
        [(jax.tree_util.GetAttrKey(name), leaf) for name, leaf in zip(Neighbors.ARRAYS, flatten(x)[0])],
        flatten(x)[1],
    ),
    lambda numbers, arrays: unflatten(arrays, numbers),
    lambda x: tuple(flatten(x)),
)


def find_neighbors(
    positions: Any, cutoff: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any, form: Any
) -> Neighbors:
    """All pairs closer than a cutoff, in the form that is fastest or in a given one; not under `jit`."""
    return _of_jax(_of_numpy(positions, cutoff, cell, pbc, batch_idx, batch_ptr, form), positions, cell)


def _of_numpy(positions: Any, cutoff: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any, form: Any) -> Neighbors:
    """The neighbours, in arrays of NumPy."""
    r = given.reals("positions", positions, ("N", 3))
    # In the precision that JAX has for the positions.
    cell = jnp.asarray(cell) if isinstance(cell, np.ndarray) else cell
    arrays = [("cell", cell), ("pbc", pbc), ("batch_idx", batch_idx), ("batch_ptr", batch_ptr)]
    others = (given.value(name, x) if isinstance(x, jax.Array) else x for name, x in arrays)
    if given.is_remote(r):
        if form == "clusters":
            check.refuse("form", "'rows' on a device", "'clusters'")
        form = "rows"
    reach = cutoff if isinstance(cutoff, list) else given.static("cutoff", cutoff)
    return Numpy.find_neighbors(given.value("positions", r), reach, *others, form)


def _of_jax(found: Neighbors, positions: Any, cell: Any) -> Neighbors:
    """Neighbours in arrays of JAX, beside the positions."""
    arrays = dict(zip(Neighbors.ARRAYS, given.beside(positions, (found.index, found.columns, found.images))))
    # A copy, as the caller may donate either.
    at = None if cell is None else jnp.array(given.hidden(jnp.asarray(cell))).reshape(-1, 3, 3)
    return replace(found, **arrays, cell=at)


def coo(neighbors: Neighbors) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Pairs (2, C), offsets and images of a list in rows with room for C pairs; a list of more has none."""
    room, ptr = neighbors.columns.shape[0], neighbors.index
    counts = jnp.where(neighbors.did_overflow, 0, jnp.diff(ptr))
    atoms = jnp.arange(neighbors.atoms + 1, dtype=jnp.int32)
    rows = jnp.repeat(atoms, jnp.append(counts, room - counts.sum()), total_repeat_length=room)
    columns = jnp.where(rows < neighbors.atoms, neighbors.columns, neighbors.atoms)
    return jnp.stack([rows, columns]), ptr, neighbors.images


@dataclass(frozen=True)
class NeighborList(_NeighborList):
    """Neighbours of atoms that move: `allocate` them outside of `jit`, `update` them inside.

        search = NeighborList(cutoff=9.0, skin=1.0)
        neighbors = search.allocate(positions, cell)
        neighbors = search.update(neighbors, positions, cell)   # in a jitted step
        if neighbors.did_overflow: ...                          # after the steps: allocate, and repeat them

    Outside of `jit`, `update` makes room by itself.

    Args:
        cutoff: in the unit of the positions.
        skin: pairs up to `cutoff + skin` are searched for, so that none within the cutoff is missing until an atom has
            moved by more than half the skin, or cell, periodic axes, systems or the number of atoms have changed.
            Functions leave out pairs beyond the cutoff.
        form: "clusters" or "rows"; None: which is faster.
        room: how many times the first list fits.
    """

    room: float = 1.25

    def __post_init__(self) -> None:
        super().__post_init__()
        if check.number("room", self.room) < 1.0:
            check.refuse("room", "a number from 1 up", self.room)

    def allocate(self, positions: Any, cell: Any = None, pbc: Any = None, batch_idx: Any = None) -> Neighbors:
        """The neighbours of these atoms, with room to spare; arguments as for `find_neighbors`. Not under `jit`."""
        return self._with_room(positions, cell, pbc, batch_idx, None)

    def update(
        self, neighbors: Neighbors, positions: Any, cell: Any = None, pbc: Any = None, batch_idx: Any = None
    ) -> Neighbors:
        """The neighbours for the atoms' present positions: the given ones, while they are still good."""
        if neighbors.positions is None:
            check.refuse("neighbors", "a list that `allocate` or `update` gave", "one of `find_neighbors`")
        r = lax.stop_gradient(given.reals("positions", positions, neighbors.positions.shape))
        h = None if cell is None else lax.stop_gradient(given.cells(cell, r)).reshape(-1, 3, 3)
        if (h is None) != (neighbors.cell is None):
            check.refuse("cell", "a cell if the list was allocated with one, else None", "the other")
        # True for NaN, which the search refuses.
        stale = self._moved(neighbors.positions, r)
        if h is not None:
            stale = stale | jnp.any(h != neighbors.cell)
        if (batch_idx is None) != (neighbors.batch_idx is None):
            expected = "the systems of the atoms if the list was allocated with them, else None"
            check.refuse("batch_idx", expected, "the other")
        idx = None if batch_idx is None else given.integers("batch_idx", batch_idx, (len(r),))
        if idx is not None:
            stale = stale | jnp.any(idx != neighbors.batch_idx)
        made = self._made(neighbors)
        if not given.is_traced(stale, neighbors.index, batch_idx):
            if made and not (stale or neighbors.did_overflow or neighbors.pbc != axes_of(pbc, cell)):
                return neighbors
            return self._with_room(r, cell, pbc, batch_idx, None if neighbors.did_overflow else neighbors)
        if not made:
            expected = f"a list for a cutoff of {self.cutoff:g} and a skin of {self.skin:g} under `jit`"
            check.refuse("neighbors", expected, f"one for {neighbors.cutoff:g} and {neighbors.skin:g}")
        # A list that had too little room has made results NaN, and positions may follow them: no search.
        again = stale & ~neighbors.did_overflow
        of_atoms, systems = _systems(len(r), h, batch_idx, None)
        check_axes(neighbors, cell, pbc)
        axes = None if neighbors.pbc is None else np.array(neighbors.pbc)

        def search() -> Neighbors:
            # Under `vmap` every branch is taken by all, and positions that led to no search may not be finite.
            at = jnp.where(again, r, neighbors.positions)
            atoms = _atoms(at, self.cutoff + self.skin, h, axes, of_atoms, systems)
            if neighbors.form == "clusters":
                rooms = (x.shape[0] for x in (neighbors.index, neighbors.columns, neighbors.images))
                found = _ops.OPS["find_neighbors"](*atoms, jnp.zeros(0, r.dtype), 1, *rooms)
            else:
                pairs, ptr, images = _search(atoms, False, neighbors.columns.shape[0])
                found = ptr, pairs[1], images
            return replace(neighbors, **dict(zip(Neighbors.ARRAYS, found)), cell=h, positions=at, batch_idx=idx)

        return lax.cond(again, search, lambda: neighbors)

    def _moved(self, reference: Any, positions: Any) -> Any:
        """An array ()."""
        if positions.dtype != reference.dtype:
            if given.is_traced(positions, reference):
                check.refuse(
                    "positions", f"{reference.dtype}, as the list was allocated for", positions.dtype, TypeError
                )
            return jnp.array(True)
        none, one = jnp.zeros((0, 3, 3), positions.dtype), jnp.zeros(len(positions), jnp.int32)
        r, before = positions, lax.stop_gradient(reference)
        return _ops.OPS["needs_rebuild"](r, before, none, none, one, 1, float(self.skin))[0] != 0

    def _with_room(self, positions: Any, cell: Any, pbc: Any, batch_idx: Any, like: Neighbors | None) -> Neighbors:
        """The neighbours in arrays of the shapes of other ones, or with room to spare."""
        found = _of_numpy(positions, self.cutoff + self.skin, cell, pbc, batch_idx, None, self.form)
        arrays = [found.index, found.columns, found.images]
        if arrays[2].ndim == 1:
            # The search under `jit` gives three integers.
            arrays[2] = _native.neighbor_rows(*arrays, found.atoms)[2]
        rooms = [int(np.ceil(self.room * len(x))) for x in arrays]
        if found.form == "rows":
            rooms[0] = len(arrays[0])
        if like is not None and like.form == found.form:
            known = [len(x) for x in (like.index, like.columns, like.images)]
            if all(len(x) <= n for x, n in zip(arrays, known)):
                rooms = known
        padded = [np.pad(x, [(0, n - len(x)), *[(0, 0)] * (x.ndim - 1)]) for x, n in zip(arrays, rooms)]
        found = _of_jax(replace(found, **dict(zip(Neighbors.ARRAYS, padded))), positions, cell)
        at = jnp.array(given.hidden(jnp.asarray(positions)))
        of = None if batch_idx is None else jnp.array(given.integers("batch_idx", batch_idx, (len(at),)))
        return replace(found, positions=at, batch_idx=of, **self._reach)
