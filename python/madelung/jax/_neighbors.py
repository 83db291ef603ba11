"""Neighbour lists of JAX arrays: of exact size outside of `jit`, with a capacity inside."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from madelung import _arguments as check
from madelung._functions.framework import Found
from madelung._neighbors import NeighborList as _NeighborList
from madelung._neighbors import Neighbors, axes_of, check_axes, flatten, unflatten, with_room, without_room
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
    return _ops.OPS["pair_vectors"](*pair_inputs(found, kind))


def pair_differences(found: Found, kind: int) -> jax.Array:
    return _ops.OPS["pair_differences"](*pair_inputs(found, kind))


def pair_inputs(found: Found, kind: int) -> tuple[Any, ...]:
    r, h, systems = found.positions, found.cell, found.systems
    if h is None:
        # No pair is with an image.
        h = jnp.eye(3, dtype=r.dtype)
    if h.ndim == 2 or len(h) != systems:
        h = jnp.broadcast_to(h, (systems, 3, 3))
    return r, h, jnp.asarray(found.batch_idx), found.ptr, found.pairs[1], found.shifts, kind


def spread(x: Any, at: Any, atoms: int, width: int, fill: int = 0) -> jax.Array:
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
        of = jnp.searchsorted(ptr[1:], jnp.arange(atoms, dtype=ptr.dtype), side="right").astype(jnp.int32)
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
    rows = jnp.repeat(atoms, jnp.append(counts, room - counts.sum(dtype=counts.dtype)), total_repeat_length=room)
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
        """The neighbours for the atoms' present positions: the given ones, while they are still good.

        Of several systems those are searched for again that have left their skins, or whose cells are others.
        """
        if neighbors.positions is None:
            check.refuse("neighbors", "a list that `allocate` or `update` gave", "one of `find_neighbors`")
        r = lax.stop_gradient(given.reals("positions", positions, neighbors.positions.shape))
        h = None if cell is None else lax.stop_gradient(given.cells(cell, r)).reshape(-1, 3, 3)
        if (h is None) != (neighbors.cell is None):
            check.refuse("cell", "a cell if the list was allocated with one, else None", "the other")
        if (batch_idx is None) != (neighbors.batch_idx is None):
            expected = "the systems of the atoms if the list was allocated with them, else None"
            check.refuse("batch_idx", expected, "the other")
        idx = None if batch_idx is None else given.integers("batch_idx", batch_idx, (len(r),))
        if not given.is_traced(r, h, idx, neighbors.index, neighbors.positions, neighbors.cell, neighbors.batch_idx):
            return self._outside_jit(neighbors, r, h, cell, pbc, idx)
        if not self._made(neighbors):
            expected = f"a list for a cutoff of {self.cutoff:g} and a skin of {self.skin:g} under `jit`"
            check.refuse("neighbors", expected, f"one for {neighbors.cutoff:g} and {neighbors.skin:g}")
        if positions.dtype != neighbors.positions.dtype:
            expected = f"{neighbors.positions.dtype}, as the list was allocated for"
            check.refuse("positions", expected, positions.dtype, TypeError)
        if h is not None and h.shape != neighbors.cell.shape:
            check.refuse("cell", f"{neighbors.cell.shape}, as the list was allocated with", h.shape)
        if isinstance(pbc, jax.core.Tracer):
            check.refuse("pbc", "flags with values under `jit`, those of the list", "a traced array")
        check_axes(neighbors, cell, pbc, lambda *x: not given.is_traced(*x))
        axes = None if neighbors.pbc is None else np.array(neighbors.pbc)
        of_atoms, systems = _systems(len(r), h, batch_idx, None)
        flags = self._flags(neighbors, r, h, of_atoms, systems)
        if idx is not None:
            flags = jnp.where(jnp.any(idx != neighbors.batch_idx), 1, flags)
            # The search looks at what came.
            idx = idx.astype(neighbors.batch_idx.dtype)
        # A list that had too little room has made results NaN, and positions may follow them: no search.
        flags = jnp.where(neighbors.did_overflow, 0, flags)
        again = jnp.any(flags != 0)

        def search() -> Neighbors:
            # Under `vmap` every branch is taken by all, and positions that led to no search may not be finite.
            at = jnp.where(again, r, neighbors.positions)
            atoms = _atoms(at, self.cutoff + self.skin, h, axes, of_atoms, systems)
            columns, images = neighbors.columns, neighbors.images
            if systems == 1 and neighbors.form == "rows":
                # The search that devices have, too.
                pairs, *found = _search(atoms, False, len(columns))
                found.insert(1, pairs[1])
                return replace(neighbors, **dict(zip(Neighbors.ARRAYS, found)), cell=h, positions=at, batch_idx=idx)
            *atoms, of, _, reach, bits = atoms
            former = (flags, neighbors.index, columns if columns.ndim == 2 else columns[:, None], images)
            sizes = (len(neighbors.index), len(columns), columns.shape[1] if columns.ndim == 2 else 1, len(images))
            arguments = (*atoms, of, reach, bits, *former, int(neighbors.form == "clusters"), *sizes)
            *found, kept = _ops.OPS["renewed_neighbors"](*arguments)
            found[1] = found[1].reshape(columns.shape)
            before = jnp.where((kept[of_atoms] != 0)[:, None], neighbors.positions, at)
            return replace(neighbors, **dict(zip(Neighbors.ARRAYS, found)), cell=h, positions=before, batch_idx=idx)

        return lax.cond(again, search, lambda: neighbors)

    def _outside_jit(self, neighbors: Neighbors, r: Any, h: Any, cell: Any, pbc: Any, idx: Any) -> Neighbors:
        """`update` where all arrays have values."""
        like = None if neighbors.did_overflow else neighbors
        fits = like is not None and self._made(neighbors) and neighbors.pbc == axes_of(pbc, cell)
        fits = fits and r.dtype == neighbors.positions.dtype and (h is None or h.shape == neighbors.cell.shape)
        if not (fits and (idx is None or bool(jnp.array_equal(idx, neighbors.batch_idx)))):
            return self._with_room(r, cell, pbc, idx, like)
        if idx is None:
            flags = self._flags(neighbors, r, h, jnp.zeros(len(r), jnp.int32), 1)
            return self._with_room(r, cell, pbc, idx, like) if bool(flags[0]) else neighbors
        known = without_room(neighbors)
        values = [given.value(*x) for x in (("positions", r), ("cell", h))]
        axes = given.value("pbc", pbc) if isinstance(pbc, jax.Array) else pbc
        form = "rows" if given.is_remote(r) else self.form
        of = given.value("batch_idx", idx)
        found = Numpy.renewed(known, values[0], self.cutoff + self.skin, values[1], axes, of, form)
        if found is known:
            return neighbors
        (at,) = given.beside(r, (found.positions,))
        return self._in_room(replace(found, batch_idx=None), r, cell, at, idx, like)

    def _flags(self, neighbors: Neighbors, r: Any, h: Any, of_atoms: Any, systems: int) -> Any:
        """Whether each system has left its skin or has another cell, (B,) int32; so it is with NaN."""
        before = lax.stop_gradient(neighbors.positions)
        if h is None:
            h = known = jnp.zeros((0, 3, 3), r.dtype)
        else:
            known = neighbors.cell.astype(h.dtype)
        none = jnp.zeros((0, 3), jnp.int32)
        return _ops.OPS["needs_rebuild"](r, before, h, known, of_atoms, systems, float(self.skin), none, none)

    def _with_room(self, positions: Any, cell: Any, pbc: Any, batch_idx: Any, like: Neighbors | None) -> Neighbors:
        """The neighbours in arrays of the shapes of other ones, or with room to spare."""
        found = _of_numpy(positions, self.cutoff + self.skin, cell, pbc, batch_idx, None, self.form)
        at = jnp.array(given.hidden(jnp.asarray(positions)))
        return self._in_room(found, positions, cell, at, batch_idx, like)

    def _in_room(
        self, found: Neighbors, positions: Any, cell: Any, at: Any, batch_idx: Any, like: Neighbors | None
    ) -> Neighbors:
        """Neighbours of NumPy in arrays of JAX, measured from some positions."""
        found = _of_jax(with_room(found, self.room, None, like), positions, cell)
        of = None if batch_idx is None else jnp.array(given.integers("batch_idx", batch_idx, (len(at),)), jnp.int32)
        return replace(found, positions=at, batch_idx=of, **self._reach)
