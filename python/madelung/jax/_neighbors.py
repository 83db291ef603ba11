"""Neighbour lists of JAX arrays: of exact size outside of `jit`, with a capacity inside."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from madelung import _arguments as check
from madelung import _native
from madelung._neighbors import NeighborList as _NeighborList
from madelung._neighbors import Neighbors, axes_of, check_axes, flatten, unflatten
from madelung._schema import FULL, HALF
from madelung.jax import _compat, _ops
from madelung.jax import _inputs as given
from madelung.jax._autodiff import with_scratch
from madelung.numpy._framework import Numpy

__all__ = ["NeighborList", "Neighbors"]

_TARGET = _native.jax_targets()[0]

# Shapes of the three arrays of a list.
Shapes = tuple[tuple[int, ...], ...]


def _types(positions: Any, cell: Any, pbc: Any, idx: Any, *, shapes: Shapes, **_: Any) -> list[Any]:
    return [_compat.like(positions, shape, np.int32) for shape in shapes]


def _lower(ctx: Any, *operands: Any, cutoff: float, half: bool, systems: int, shapes: Shapes) -> Any:
    del shapes
    return jax.ffi.ffi_lowering(_TARGET)(ctx, *operands, **_attributes(cutoff, half, systems))


def _lower_on_cuda(ctx: Any, *operands: Any, cutoff: float, half: bool, systems: int, shapes: Shapes) -> Any:
    if len(shapes[0]) == 1:
        raise NotImplementedError("neighbours in clusters are lists of the CPU: make one with form='rows'")
    attributes = _attributes(cutoff, half, systems)
    call = functools.partial(_native.jax_search_scratch, systems)
    results = with_scratch(ctx, _TARGET, call, operands, attributes)
    if results is not None:
        return results
    return _lower(ctx, *operands, cutoff=cutoff, half=half, systems=systems, shapes=shapes)


def _attributes(cutoff: float, half: bool, systems: int) -> dict[str, Any]:
    return {"cutoff": np.float64(cutoff), "half": np.int64(half), "systems": np.int64(systems)}


def _batch(operands: Any, axes: Any, **params: Any) -> Any:
    operands = [x if d is None else jnp.moveaxis(x, d, 0) for x, d in zip(operands, axes)]

    def call(xs: list[Any]) -> list[Any]:
        left = iter(xs)
        return _search.bind(*[x if d is None else next(left) for x, d in zip(operands, axes)], **params)

    results = lax.map(call, [x for x, d in zip(operands, axes) if d is not None])
    return results, [0] * len(results)


@functools.lru_cache(maxsize=256)
def _jitted(params: tuple[tuple[str, Any], ...]) -> Callable[..., Any]:
    return jax.jit(functools.partial(_search.bind, **dict(params)))


_search = Primitive(_TARGET)
_search.multiple_results = True
_search.def_impl(lambda *operands, **params: _jitted(tuple(sorted(params.items())))(*operands))
_search.def_abstract_eval(_types)
batching.primitive_batchers[_search] = _batch
mlir.register_lowering(_search, _lower)
mlir.register_lowering(_search, _lower_on_cuda, platform="cuda")


def neighbor_list(
    positions: Any,
    cutoff: Any,
    cell: Any,
    pbc: Any,
    batch_idx: Any,
    batch_ptr: Any,
    options: check.ListOptions,
) -> tuple[jax.Array, ...]:
    """A list of exact size, or with a capacity and a flag of overflow; and lengths and vectors of its pairs."""
    r = given.reals("positions", positions, ("N", 3))
    h = None if cell is None else given.cells(cell, r)
    form, room, half = options.format, options.capacity, options.half_fill
    if room is not None and form == "matrix":
        check.refuse("format", "'coo' or 'csr' with a capacity (a matrix has `max_neighbors`)", "'matrix'")
    traced = given.is_traced(r, h, pbc, batch_idx, batch_ptr)
    if traced and room is None:
        check.refuse("capacity", "the number of pairs that the list has room for, under `jit`", "None")
    if traced and (options.max_neighbors is not None or options.method is not None):
        check.refuse("max_neighbors", "no limit and no method under `jit`", "one")
    reach = given.static("cutoff", cutoff)
    if traced:
        idx, systems = _systems(len(r), h, batch_idx, batch_ptr)
        shapes = ((2, room), (len(r) + 1,), (room, 3))
        found = _bounded(r, reach, h, pbc, idx, systems, half, shapes)
    else:
        arrays = (given.value("batch_idx", batch_idx), given.value("batch_ptr", batch_ptr))
        axes = given.value("pbc", pbc) if isinstance(pbc, jax.Array) else pbc
        plain = options._replace(format="coo" if form == "csr" else form, distances=False, vectors=False)
        found = Numpy.neighbor_list(given.value("positions", r), reach, given.value("cell", h), axes, *arrays, plain)
        if room is not None:
            found = _padded(found, room, len(r))
        if options.distances or options.vectors:
            ptr = given.value("batch_ptr", batch_ptr)
            idx = (
                np.repeat(np.arange(len(ptr) - 1, dtype=np.int32), np.diff(ptr))
                if batch_idx is None and ptr is not None
                else batch_idx
            )
            idx, systems = _measured_systems(len(r), h, idx, ptr)
        found = given.beside(r, found)
    arrays = found
    if form == "csr":
        arrays = (found[1], found[0][1], found[2])
    measured: list[Any] = []
    if options.distances or options.vectors:
        measured = _measured(r, h, idx, systems, found, options)
    if room is None:
        return (*arrays, *measured)
    pairs = found[1][-1]
    return (*arrays, *measured, pairs, pairs > room)


def _padded(found: Any, room: int, atoms: int) -> tuple[Any, ...]:
    pairs, ptr, shifts = found
    spare = room - pairs.shape[1]
    return np.pad(pairs, ((0, 0), (0, spare)), constant_values=atoms), ptr, np.pad(shifts, ((0, spare), (0, 0)))


def _systems(atoms: int, cell: Any, batch_idx: Any, batch_ptr: Any) -> tuple[Any, int]:
    """The system of each atom, and how many there are, from shapes alone."""
    several = cell is not None and cell.ndim == 3
    if batch_ptr is not None:
        ptr = given.integers("batch_ptr", batch_ptr, ("B+1",))
        if several and len(ptr) != len(cell) + 1:
            check.refuse("batch_ptr", f"{len(cell) + 1} offsets, as there are {len(cell)} cells", len(ptr))
        systems = jnp.arange(len(ptr) - 1, dtype=jnp.int32)
        return jnp.repeat(systems, jnp.diff(ptr), total_repeat_length=atoms), len(ptr) - 1
    if batch_idx is not None:
        if not several:
            expected = "one for each system, (B, 3, 3), under `jit` with `batch_idx`"
            check.refuse("cell", expected, "None" if cell is None else "one for all of them")
        return given.integers("batch_idx", batch_idx, (atoms,)), len(cell)
    if several and len(cell) != 1:
        check.refuse("batch_idx", f"the system of each atom, as there are {len(cell)} cells", "None")
    return jnp.zeros(atoms, jnp.int32), 1


def _measured_systems(atoms: int, cell: Any, idx: Any, batch_ptr: Any) -> tuple[Any, int]:
    if idx is None:
        return jnp.zeros(atoms, jnp.int32), 1
    known = np.asarray(given.hidden(idx))
    systems = len(batch_ptr) - 1 if batch_ptr is not None else int(known[-1]) + 1 if len(known) else 0
    if cell is not None and cell.ndim == 3:
        systems = max(systems, len(cell))
    return jnp.asarray(known, jnp.int32), systems


def _bounded(
    positions: Any, cutoff: float, cell: Any, pbc: Any, idx: Any, systems: int, half: bool, shapes: Shapes
) -> list[Any]:
    """A list in arrays of fixed shapes: pairs (2, C), offsets and images, or a frame, entries and runs of clusters."""
    r = lax.stop_gradient(positions)
    h = jnp.zeros((0, 3, 3), r.dtype) if cell is None else lax.stop_gradient(cell).reshape(-1, 3, 3)
    axes = jnp.zeros((0, 3), jnp.int32)
    if pbc is not None:
        if not isinstance(pbc, jax.core.Tracer):
            pbc = check.periodic(pbc)
            if cell is None and pbc.any():
                check.refuse("cell", "lattice vectors for the periodic axes", "None")
        if cell is not None or isinstance(pbc, jax.core.Tracer):
            axes = jnp.asarray(pbc).reshape(-1, 3).astype(jnp.int32)
    operands = _compat.vary([r, h, axes, idx])
    return _search.bind(*operands, cutoff=cutoff, half=half, systems=systems, shapes=shapes)


def _measured(positions: Any, cell: Any, idx: Any, systems: int, found: Any, options: check.ListOptions) -> list[Any]:
    """The lengths and vectors of the pairs of a list, in its shape."""
    if options.format == "matrix":
        matrix, counts, shifts = (np.asarray(x) for x in found)
        there = np.arange(matrix.shape[1]) < counts[:, None]
        ptr = jnp.asarray(np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]).astype(np.int32))
        columns, shifts = jnp.asarray(matrix[there]), jnp.asarray(shifts[there])
    else:
        pairs, ptr, shifts = found
        columns = pairs[1]
    if cell is None:
        # No pair is with an image.
        cell = jnp.eye(3, dtype=positions.dtype)
    if cell.ndim == 2 or len(cell) != systems:
        cell = jnp.broadcast_to(cell, (systems, 3, 3))
    kind = HALF if options.half_fill else FULL
    vectors, distances = _ops.OPS["pair_vectors"](positions, cell, idx, ptr, columns, shifts, kind)
    if options.format == "matrix":
        rows, slots = np.nonzero(there)
        distances = jnp.zeros(matrix.shape, distances.dtype).at[rows, slots].set(distances)
        vectors = jnp.zeros((*matrix.shape, 3), vectors.dtype).at[rows, slots].set(vectors)
    return [x for x, asked in ((distances, options.distances), (vectors, options.vectors)) if asked]


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
    arrays = [("cell", cell), ("pbc", pbc), ("batch_idx", batch_idx), ("batch_ptr", batch_ptr)]
    others = (given.value(name, x) if isinstance(x, jax.Array) else x for name, x in arrays)
    if given.is_remote(r):
        if form == "clusters":
            check.refuse("form", "'rows' on a device", "'clusters'")
        form = "rows"
    return Numpy.find_neighbors(given.value("positions", r), given.static("cutoff", cutoff), *others, form)


def _of_jax(found: Neighbors, positions: Any, cell: Any) -> Neighbors:
    """Neighbours in arrays of JAX, beside the positions."""
    arrays = dict(zip(Neighbors.ARRAYS, given.beside(positions, (found.index, found.columns, found.images))))
    at = None if cell is None else given.hidden(jnp.asarray(cell)).reshape(-1, 3, 3)
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
            moved by more than half the skin, or cell, periodic axes or the number of atoms have changed. Functions
            leave out pairs beyond the cutoff.
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
        r = lax.stop_gradient(given.reals("positions", positions, neighbors.positions.shape))
        h = None if cell is None else lax.stop_gradient(given.cells(cell, r)).reshape(-1, 3, 3)
        if (h is None) != (neighbors.cell is None):
            check.refuse("cell", "a cell if the list was allocated with one, else None", "the other")
        moved = jnp.max(jnp.sum((r - neighbors.positions) ** 2, -1), initial=0.0)
        # True for NaN, which the search refuses.
        stale = ~(4.0 * moved <= self.skin**2)
        if h is not None:
            stale = stale | jnp.any(h != neighbors.cell)
        if not given.is_traced(stale, neighbors.index, batch_idx):
            if not (stale or neighbors.did_overflow or neighbors.pbc != axes_of(pbc, cell)):
                return neighbors
            return self._with_room(r, cell, pbc, batch_idx, None if neighbors.did_overflow else neighbors)
        # A list that had too little room has made results NaN, and positions may follow them: no search.
        again = stale & ~neighbors.did_overflow
        idx, systems = _systems(len(r), h, batch_idx, None)
        check_axes(neighbors, cell, pbc)
        axes = None if neighbors.pbc is None else np.array(neighbors.pbc)

        def search() -> Neighbors:
            # Under `vmap` every branch is taken by all, and positions that led to no search may not be finite.
            at = jnp.where(again, r, neighbors.positions)
            reach, like = self.cutoff + self.skin, (neighbors.index, neighbors.columns, neighbors.images)
            if neighbors.form == "clusters":
                shapes = tuple(x.shape for x in like)
                found = _bounded(at, reach, h, axes, idx, systems, False, shapes)
            else:
                room = neighbors.columns.shape[0]
                shapes = ((2, room), (len(r) + 1,), (room, 3))
                pairs, ptr, images = _bounded(at, reach, h, axes, idx, systems, False, shapes)
                found = [ptr, pairs[1], images]
            return replace(neighbors, **dict(zip(Neighbors.ARRAYS, found)), cell=h, positions=at)

        return lax.cond(again, search, lambda: neighbors)

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
        return replace(found, positions=given.hidden(jnp.asarray(positions)), cutoff=float(self.cutoff))
