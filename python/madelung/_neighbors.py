"""Neighbours as a search found them, and lists with a skin, for every namespace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung._schema import CHECKED, FULL

# First integer of a list that is no longer one of its atoms: the core's `STALE`.
STALE = -2
# Periodic axes, by value: None if all of a cell are.
Axes = tuple[tuple[bool, ...], ...] | None
_ALL = ((True, True, True),)

# Largest difference of a cell from that of its list, relative to its longest component: what float32 rounds off.
_SAME = 1e-5


@dataclass(frozen=True, eq=False, repr=False)
class Neighbors:
    """All pairs of atoms and images closer than a cutoff, from both sides, in the form that is fastest to use.

    What `find_neighbors` and `NeighborList` give, and every function with a `neighbors` argument takes: an immutable
    value of integer arrays of one framework, a pytree in PyTorch and JAX. In `form` "clusters" (systems of at least 512
    atoms with some hundred neighbours each, on the CPU) each pair is there once, with one mask for sixteen atoms that
    are neighbours in space; in "rows" each atom has its columns and images. `coo`, `csr` and `matrix` give plain
    arrays.
    """

    index: Any
    """Rows: where those of each atom begin, (N+1,); clusters: the frame (F,)."""
    columns: Any
    """Rows: the neighbour of each pair (P,); clusters: entries (E, 2)."""
    images: Any
    """Rows: the image of each pair, (P, 3) or packed (P,); clusters: runs (R, 3)."""
    cell: Any
    """The cell that the list was made in, (1, 3, 3) or (B, 3, 3); None without one."""
    positions: Any
    """The positions (N, 3) from which `NeighborList` measures how far atoms have moved; else None."""
    form: str
    """How pairs are kept: "clusters" or "rows"."""
    atoms: int
    """Number of atoms N."""
    cutoff: float
    """The cutoff up to which no pair is missing."""
    pbc: Axes
    """The periodic axes of all systems or of each; None: all axes of the cell."""
    batch_idx: Any = None
    """The system of each atom (N,) in a list of `NeighborList`, if it was made for several; else None."""
    skin: float = 0.0
    """The skin of the `NeighborList` that made it."""

    ARRAYS: ClassVar = ("index", "columns", "images", "cell", "positions", "batch_idx")

    def __repr__(self) -> str:
        """The numbers of the list: arrays are long, and may have no values."""
        numbers = ", ".join(f"{name}={getattr(self, name)!r}" for name in _OTHERS)
        return f"Neighbors({numbers}, arrays of {type(self.index).__module__.partition('.')[0]})"

    def to(self, device: Any, *, non_blocking: bool = False) -> Neighbors:
        """The list on a device of PyTorch, as tensors have it; on others than the CPU in rows."""
        known = self
        if known.form == "clusters" and str(device).partition(":")[0] != "cpu":
            index, columns, images = self.csr()
            known = replace(self, index=index, columns=columns, images=images, form="rows")
        return known._with(lambda x: x.to(device=device, non_blocking=non_blocking))

    def pin_memory(self) -> Neighbors:
        """The list in pinned memory of the host, for which PyTorch's `DataLoader` asks."""
        return self._with(lambda x: x.pin_memory())

    def _with(self, change: Callable[[Any], Any]) -> Neighbors:
        """The list with other tensors."""
        if not hasattr(self.index, "detach"):
            check.refuse("neighbors", "a list of PyTorch's tensors", f"one of {check.described(self.index)}", TypeError)
        arrays = {name: getattr(self, name) for name in self.ARRAYS}
        return replace(self, **{name: x if x is None else change(x) for name, x in arrays.items()})

    @property
    def num_pairs(self) -> Any:
        """Number of directed pairs, an array ()."""
        return self.index[..., 9 if self.form == "clusters" else -1]

    @property
    def did_overflow(self) -> Any:
        """Whether arrays of fixed size (under `jit`) were too small for the list, an array ()."""
        if self.form == "clusters":
            return self.index[..., 1] != 0
        return self.index[..., -1] > self.columns.shape[-1]

    def csr(self) -> tuple[Any, Any, Any]:
        """Offsets of each atom's pairs (N+1,), their columns (P,) and images (P, 3), ordered by i, j, S."""
        return tuple(_like(self.index, x) for x in self._in_rows(packed=False))

    def _in_rows(self, packed: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        index, columns, images = (_array(x) for x in (self.index, self.columns, self.images))
        if self.form == "rows":
            # Without the room that is not used.
            columns, images = columns[: index[-1]], images[: index[-1]]
        return _native.neighbor_rows(index, columns, images, self.atoms, packed)

    @cached_property
    def _rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Clusters as rows, kept for kernels that go through pairs row by row.

        Of NumPy: arrays of a framework would belong to the transform or the mode of the first call.
        """
        return self._in_rows(packed=True)

    def coo(self) -> tuple[Any, Any, Any]:
        """`neighbor_list` (2, P), `neighbor_ptr` (N+1,) and `neighbor_shifts` (P, 3), ordered by i, j, S.

        Of JAX's `NeighborList` in rows it may be asked for under `jit`: then P is the room, filled up with N and zero.
        """
        if self.form == "rows" and self.images.ndim == 2 and "jax" in str(type(self.index).__module__):
            from madelung.jax._neighbors import coo

            return coo(self)
        ptr, columns, shifts = map(_array, self.csr())
        rows = np.repeat(np.arange(self.atoms, dtype=np.int32), np.diff(ptr))
        return tuple(_like(self.index, x) for x in (np.stack([rows, columns]), ptr, shifts))

    def matrix(self, fill_value: int | None = None) -> tuple[Any, Any, Any]:
        """`neighbor_matrix` (N, M), `num_neighbors` (N,) and `neighbor_matrix_shifts` (N, M, 3), padded with
        `fill_value` (None: N) and zero."""
        ptr, columns, shifts = map(_array, self.csr())
        counts = np.diff(ptr)
        there = np.arange(counts.max(initial=0)) < counts[:, None]
        matrix = np.full(there.shape, self.atoms if fill_value is None else fill_value, np.int32)
        images = np.zeros((*there.shape, 3), np.int32)
        matrix[there], images[there] = columns, shifts
        return tuple(_like(self.index, x) for x in (matrix, counts.astype(np.int32), images))

    @property
    def lists(self) -> dict[str, Any]:
        """The list as plain arrays for functions that take these: `ewald_summation(…, **neighbors.lists)`."""
        return dict(zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), self.coo()))

    def __reduce__(self) -> Any:
        """Pickles by the values of the fields."""
        return Neighbors, tuple(getattr(self, field.name) for field in fields(self))


def flatten(neighbors: Neighbors) -> tuple[list[Any], tuple[Any, ...]]:
    """The arrays of a list, and the other fields, which belong to its type."""
    return [getattr(neighbors, x) for x in Neighbors.ARRAYS], tuple(getattr(neighbors, x) for x in _OTHERS)


def unflatten(arrays: Any, others: tuple[Any, ...]) -> Neighbors:
    """The list of arrays and the rest."""
    return Neighbors(**dict(zip(Neighbors.ARRAYS, arrays)), **dict(zip(_OTHERS, others)))


_OTHERS = tuple(field.name for field in fields(Neighbors) if field.name not in Neighbors.ARRAYS)


def form_of(columns: Any) -> str:
    """The form of a list that a search has made."""
    return "clusters" if columns.ndim == 2 else "rows"


def _array(x: Any) -> np.ndarray:
    return np.ascontiguousarray(x.detach().cpu().numpy() if hasattr(x, "detach") else np.asarray(x))


def _like(x: Any, array: np.ndarray) -> Any:
    """An array of NumPy as one of the framework and the place of another."""
    if isinstance(x, np.ndarray):
        return array
    if hasattr(x, "detach"):
        return x.new_tensor(array, dtype=x.dtype)
    import jax

    return jax.device_put(array, next(iter(x.devices())))


def rows_of(neighbors: Neighbors) -> tuple[Any, ...]:
    """The list in rows as inputs of an op, arrays of NumPy, as `checked` gives it."""
    return *neighbors._rows, FULL + CHECKED


def checked(neighbors: Any, atoms: int, cutoff: float | None, others: tuple[Any, ...]) -> tuple[Any, ...]:
    """The list as inputs of an op; `others` are the plain lists of the call. Neither the cell nor values are read."""
    if not isinstance(neighbors, Neighbors):
        check.refuse(
            "neighbors", "what `find_neighbors` or `NeighborList` gives", check.described(neighbors), TypeError
        )
    if any(x is not None and x is not False for x in others):
        check.refuse("neighbors", "one list", "plain arrays of a list too")
    if neighbors.atoms != atoms:
        check.refuse("neighbors", f"a list of {atoms} atoms", neighbors.atoms)
    if cutoff is not None and cutoff > neighbors.cutoff:
        check.refuse("neighbors", f"a list for a cutoff of {cutoff:g} or more", f"one for {neighbors.cutoff:g}")
    # The search made it full. On a device that is checked, as others may have written to its arrays.
    return neighbors.index, neighbors.columns, neighbors.images, FULL + CHECKED


def plain_axes(pbc: Any) -> tuple[tuple[bool, ...], ...] | None:
    """The periodic axes as rows of Python's own truths, which compiled graphs hold as constants; None for arrays."""
    rows = (pbc,) * 3 if isinstance(pbc, bool) else pbc
    if not isinstance(rows, (tuple, list)) or not rows:
        return None
    rows = rows if isinstance(rows[0], (tuple, list)) else (rows,)
    is_plain = all([isinstance(row, (tuple, list)) and len(row) == 3 for row in rows])
    if is_plain and all([x is True or x is False for row in rows for x in row]):
        return tuple([tuple(row) for row in rows])
    return None


def axes_of_systems(name: str, pbc: Any, systems: int) -> Any:
    """The periodic axes of each system, int32 (B, 3)."""
    rows = np.asarray(check.periodic(pbc, name), np.int32)
    axes_fit(name, len(rows), systems)
    return np.ascontiguousarray(np.broadcast_to(rows, (systems, 3)))


def axes_fit(name: str, rows: Any, systems: Any) -> None:
    """Refuses rows of periodic axes that are neither one nor one for each system."""
    if rows != 1 and rows != systems:
        check.refuse(name, f"one row for all systems, or one for each of the {systems}", rows)


def axes_of(pbc: Any, cell: Any) -> Axes:
    """Periodic axes by value; None: all of a cell, or none without one."""
    rows = plain_axes(pbc)
    if rows is None:
        axes = check.periodic(_array(pbc) if hasattr(pbc, "shape") else pbc)
        if axes is None:
            return None
        rows = tuple(map(tuple, axes.tolist()))
    return None if all([x is (cell is not None) for row in rows for x in row]) else rows


def check_axes(neighbors: Any, cell: Any, pbc: Any, is_readable: Callable[..., bool]) -> None:
    """Refuses a list that was made with other periodic axes."""
    if not isinstance(neighbors, Neighbors):
        return
    if (neighbors.cell is None) != (cell is None):
        if cell is not None:
            check.refuse("neighbors", "a list that was made with a cell", "one without")
        check.refuse("neighbors", "a list that was made without a cell", "one with")
    if neighbors.pbc is None and isinstance(pbc, tuple) and pbc == _ALL and cell is not None:
        return
    axes = axes_of(pbc, cell)
    if neighbors.pbc != axes:
        if cell is not None and is_readable(cell, neighbors.cell):
            # Axes that are not given are those of the cell, of which vectors of zero are open.
            rows = np.broadcast_arrays(*(_rows_of_axes(*x) for x in ((neighbors.pbc, neighbors.cell), (axes, cell))))
            if np.array_equal(*rows):
                return
        expected = f"a list for the periodic axes {pbc if pbc is not None else 'of the cell'}"
        check.refuse("neighbors", expected, f"one for {neighbors.pbc}")


def _rows_of_axes(axes: Axes, cell: Any) -> np.ndarray:
    return _array(cell).reshape(-1, 3, 3).any(-1) if axes is None else np.array(axes)


def refuse_cell() -> None:
    """Refuses a list of another cell."""
    check.refuse("neighbors", "a list that was made in this cell", "one of another cell, or out of date")


def _has_left_skin(f: Any, neighbors: Neighbors, positions: Any) -> bool:
    """Whether an atom has moved by more than half the skin since a list was made."""
    from madelung.numpy._ops import PLAIN

    reference = neighbors.positions
    if reference is None or not neighbors.skin or not f.is_readable(reference, positions):
        return False
    known, now = (f.value("positions", x) for x in (reference, positions))
    # What is not finite is refused by its own name.
    return not PLAIN.is_near(known, now, neighbors.skin) and bool(np.isfinite(now).all())


def check_skin(f: Any, neighbors: Any, positions: Any) -> None:
    """Refuses a list that has to be updated before pairs within its cutoff may be missing."""
    if isinstance(neighbors, Neighbors) and _has_left_skin(f, neighbors, positions):
        expected = f"a list that `update` gave for these positions, as its skin is {neighbors.skin:g}"
        check.refuse("neighbors", expected, "one from which an atom has moved by more than half of that")


def check_kernel_list(f: Any, name: str, neighbors: Neighbors, given: Mapping[str, Any]) -> None:
    """Refuses a list that is not one of a kernel's `cutoff`, `cell` and `positions`, where arguments are so named."""
    cutoff, cell, reference = given.get("cutoff"), given.get("cell"), neighbors.cell
    # Of several lists each may have its own.
    if isinstance(cutoff, (int, float)) and cutoff > neighbors.cutoff and _is_only_list(given):
        check.refuse(name, f"a list for a cutoff of {cutoff:g} or more", f"one for {neighbors.cutoff:g}")
    if cell is not None and reference is not None and not f.is_same(reference, cell) and f.is_readable(cell, reference):
        known, now = (np.asarray(f.value("cell", x)).reshape(-1, 3, 3) for x in (reference, cell))
        if differs(known, now):
            check.refuse(name, "a list that was made in this cell", "one of another cell, or out of date")
    check_skin(f, neighbors, given.get("positions"))


def marked(f: Any, index: Any, neighbors: Neighbors, cell: Any) -> Any:
    """The offsets of a list for a kernel with an argument `cell`: marked if it is another one than that of the
    list, where values cannot be read."""
    reference = neighbors.cell
    if cell is None or reference is None or f.is_same(reference, cell) or f.is_readable(cell, reference):
        return index
    return f.marked(index, reference, cell)


def _is_only_list(given: Mapping[str, Any]) -> bool:
    return sum([isinstance(x, Neighbors) for x in given.values()]) == 1


def differs(reference: Any, cell: Any) -> Any:
    """Whether a cell (B, 3, 3) is another one than that of a list, by more than rounding: a bool, or an array of it."""
    if reference is None or not cell.shape[0]:
        return False
    if reference.shape[0] not in (1, cell.shape[0]):
        refuse_cell()
    # Not (… <= …), so that NaN differs.
    return ~(abs(cell - reference).max() <= _SAME * abs(reference).max())


@dataclass(frozen=True)
class NeighborList:
    """Neighbours of atoms that move: searched for again when an atom has moved by more than half a skin.

        search = NeighborList(cutoff=9.0, skin=1.0)
        neighbors = search.allocate(positions, cell)
        neighbors = search.update(neighbors, positions, cell)   # at every step

    Args:
        cutoff: in the unit of the positions.
        skin: pairs up to `cutoff + skin` are searched for, so that none within the cutoff is missing until an atom has
            moved by more than half the skin, or cell, periodic axes, systems or the number of atoms have changed.
            Functions leave out pairs beyond the cutoff.
        form: "clusters" or "rows"; None: which is faster.
    """

    cutoff: float
    skin: float = 0.0
    form: str | None = None

    def __post_init__(self) -> None:
        check.positive("cutoff", self.cutoff)
        if check.number("skin", self.skin) < 0.0:
            check.refuse("skin", "a number from 0 up", self.skin)
        if self.form is not None:
            check.word("form", self.form, ("clusters", "rows"))

    def _found(self, positions: Any, cell: Any, pbc: Any, batch_idx: Any) -> Neighbors:
        """All pairs closer than the cutoff and the skin; `find_neighbors` of the namespace."""
        raise NotImplementedError

    def _moved(self, reference: Any, positions: Any) -> bool:
        """Whether an atom has moved by more than half a skin, of one dtype and shape: the op `needs_rebuild`."""
        raise NotImplementedError

    def _renewed(self, neighbors: Neighbors, positions: Any, cell: Any, pbc: Any, batch_idx: Any) -> Neighbors:
        """A list of several systems, in which those that need it are searched for again: the op `renewed_neighbors`."""
        raise NotImplementedError

    def allocate(self, positions: Any, cell: Any = None, pbc: Any = None, batch_idx: Any = None) -> Neighbors:
        """The neighbours of these atoms; arguments as for `find_neighbors`."""
        found = self._found(positions, cell, pbc, batch_idx)
        of = None if batch_idx is None else _copied(batch_idx)
        return replace(found, positions=_copied(positions), batch_idx=of, **self._reach)

    def update(
        self, neighbors: Neighbors, positions: Any, cell: Any = None, pbc: Any = None, batch_idx: Any = None
    ) -> Neighbors:
        """The neighbours for the atoms' present positions: the given ones, while they are still good.

        Of several systems those are searched for again that have left their skins, or whose cells are others.
        """
        if not self._fits(neighbors, positions, cell, pbc, batch_idx):
            return self.allocate(positions, cell, pbc, batch_idx)
        if batch_idx is not None:
            return self._renewed(neighbors, positions, cell, pbc, batch_idx)
        if cell is not None and bool((cell.reshape(-1, 3, 3) != neighbors.cell).any()):
            return self.allocate(positions, cell, pbc)
        return self.allocate(positions, cell, pbc) if self._moved(neighbors.positions, positions) else neighbors

    @property
    def _reach(self) -> dict[str, float]:
        return {"cutoff": float(self.cutoff), "skin": float(self.skin)}

    def _made(self, neighbors: Neighbors) -> bool:
        """Whether a list was made for this cutoff and this skin."""
        return {"cutoff": neighbors.cutoff, "skin": neighbors.skin} == self._reach

    def _fits(self, neighbors: Neighbors, positions: Any, cell: Any, pbc: Any, batch_idx: Any) -> bool:
        """Whether a list is one of these systems and axes, wherever their atoms were."""
        reference = neighbors.positions
        if not self._made(neighbors):
            return False
        if reference is None or tuple(reference.shape) != tuple(positions.shape) or self.skin == 0.0:
            return False
        if (cell is None) != (neighbors.cell is None) or neighbors.pbc != axes_of(pbc, cell):
            return False
        if cell is not None and cell.reshape(-1, 3, 3).shape != neighbors.cell.shape:
            return False
        known = neighbors.batch_idx
        if (known is None) != (batch_idx is None) or (known is not None and not _same(known, batch_idx)):
            return False
        return bool(positions.dtype == reference.dtype)


def with_room(found: Neighbors, room: float, capacity: int | None, like: Neighbors | None) -> Neighbors:
    """Neighbours of NumPy with room to spare, for so many pairs, or in arrays as long as those of another list."""
    index, columns, images = found.index, found.columns, found.images
    if images.ndim == 1:
        # The search in graphs gives three integers.
        images = _native.neighbor_rows(index, columns, images, found.atoms, False)[2]
    of = [len(x) for x in (index, columns, images)]
    rooms = [int(np.ceil(room * n)) for n in of]
    if found.form == "rows":
        pairs = rooms[1] if capacity is None else capacity
        if of[1] > pairs:
            check.refuse("capacity", f"at least {of[1]}, the number of pairs within cutoff and skin", capacity)
        rooms = [of[0], pairs, pairs]
    if like is not None and like.form == found.form:
        known = [len(x) for x in (like.index, like.columns, like.images)]
        rooms = known if all(n <= most for n, most in zip(of, known)) else rooms
    behind = (0, found.atoms if found.form == "rows" else 0, 0)
    padded = (
        np.pad(x, [(0, n - len(x)), *[(0, 0)] * (x.ndim - 1)], constant_values=fill)
        for x, n, fill in zip((index, columns, images), rooms, behind)
    )
    return replace(found, **dict(zip(("index", "columns", "images"), padded)))


def without_room(neighbors: Neighbors) -> Neighbors:
    """A list as short as it is, in arrays of NumPy."""
    given = {name: getattr(neighbors, name) for name in Neighbors.ARRAYS}
    arrays = {name: _array(x) for name, x in given.items() if x is not None}
    if neighbors.form == "rows":
        pairs = arrays["index"][-1]
        arrays.update({name: arrays[name][:pairs] for name in ("columns", "images")})
    return replace(neighbors, **arrays)


def _copied(x: Any) -> Any:
    return x.detach().clone() if hasattr(x, "detach") else np.array(x)


def _same(known: Any, x: Any) -> bool:
    """Whether integers are those that are known."""
    return len(x) == len(known) and bool((known == (x if hasattr(x, "shape") else np.asarray(x))).all())
