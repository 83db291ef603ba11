"""Arrays of NumPy behind the public functions: checked when they are taken."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung import _native, _neighbors
from madelung._functions import lists
from madelung._functions.framework import Common, Found, made_once, with_unit_cells
from madelung._functions.strains import atomic_virials
from madelung._neighbors import NeighborList as _NeighborList
from madelung._neighbors import Neighbors
from madelung._schema import CHECKED, FULL, VALUE
from madelung.numpy._ops import OPS

# The systems of atoms of which none is told apart.
_NO_ROWS = np.empty(0, np.int32)
# Periodic axes now and before, of which none are compared.
_NO_AXES = (np.empty((0, 3), np.int32),) * 2


def _atoms(positions: Any, cutoff: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any) -> tuple[Any, ...]:
    """The inputs that searches have in common, checked."""
    r, reach = check.reals("positions", positions, ("N", 3)), check.positive("cutoff", cutoff)
    axes = check.periodic(pbc)
    h = np.empty((0, 3, 3), r.dtype) if cell is None else check.cells(cell, r).reshape(-1, 3, 3)
    systems = check.lattices(None if cell is None else len(h), axes)
    rows, bits = check.search_axes(axes, cell)
    return r, h, rows, *check.groups(batch_idx, batch_ptr, len(r), systems).of(len(r)), reach, bits


def _is_in_rows(found: check.Neighbors) -> bool:
    """Whether a full list is as ops take it, which check the rest of it for less than a copy costs."""
    pairs, ptr = found.neighbor_list, found.neighbor_ptr
    if pairs is None or ptr is None or found.half_fill:
        return False
    if ptr[0] != 0 or ptr[-1] != pairs.shape[1] or (ptr[1:] < ptr[:-1]).any():
        return False
    return np.array_equal(pairs[0], np.repeat(np.arange(len(ptr) - 1, dtype=np.int32), np.diff(ptr)))


def _dtype(like: Any) -> np.dtype:
    """The dtype of arrays beside another one, which may be a sequence."""
    return getattr(like, "dtype", np.dtype(np.float64)).newbyteorder("=")


def _spread(x: Any, shape: tuple[int, ...]) -> Any:
    """An array with a row of each system, of one that has these or one row for all."""
    if x.size == math.prod(shape):
        return np.ascontiguousarray(x).reshape(shape)
    return np.ascontiguousarray(np.broadcast_to(x, shape))


class Numpy(Common):
    """The framework of `madelung.numpy`: see `madelung._functions.framework.Framework`."""

    system, outputs = staticmethod(check.charged), staticmethod(check.outputs)

    @staticmethod
    def atoms(system: check.Charges) -> tuple[Any, Any, Any]:
        r, idx = system.positions, system.groups.batch_idx
        h = _spread(system.cell, (system.systems, 3, 3))
        return r, h, np.zeros(len(r), np.int32) if idx is None else idx

    @staticmethod
    def op(name: str, *inputs: Any) -> tuple[Any, ...]:
        try:
            return OPS[name].value(*inputs)
        except (ValueError, MemoryError) as error:
            raise check.renamed(error) from None

    search = counted = op
    keeps_room = False

    @staticmethod
    def numbers(values: Any, like: Any) -> Any:
        return values.astype(like.dtype)

    @staticmethod
    def minimum(form: Any, slopes: Any, start: Any, arrays: tuple[Any, ...]) -> Any:
        return form.least(slopes, start, arrays).astype(slopes.dtype)

    @staticmethod
    def indices(values: Any, like: Any) -> Any:
        return values

    @staticmethod
    def where(systems: Any, value: Any, x: Any) -> Any:
        x = np.asarray(x)
        value = np.asarray(value, x.dtype)
        return np.where(np.reshape(systems, (-1, *[1] * value.ndim)), value, x)

    @staticmethod
    def no_cell(positions: Any, name: str = "positions") -> Any:
        return np.eye(3, dtype=check.reals(name, positions, ("N", 3)).dtype)

    @staticmethod
    def opened(system: check.Charges, pbc: Any, own: tuple[float, float]) -> tuple[check.Charges, Any]:
        h, dtype = system.cell, system.positions.dtype
        cells, numbers = with_unit_cells(
            np.where, h.reshape(-1, 3, 3), np.eye(3, dtype=dtype), check.periodic(pbc), own
        )
        cells = cells[0] if h.ndim == 2 and len(cells) == 1 else cells
        numbers = np.ascontiguousarray(np.broadcast_to(numbers, system.systems), dtype)
        return replace(system, cell=cells), numbers

    @staticmethod
    def stacked(arrays: Sequence[Any], axis: int = 1) -> Any:
        return np.stack(arrays, axis)

    @staticmethod
    def joined(arrays: Sequence[Any]) -> Any:
        return np.concatenate(arrays)

    @staticmethod
    def is_own(x: Any) -> bool:
        """See `Framework`; sequences of numbers become arrays."""
        return isinstance(x, (np.ndarray, list))

    @staticmethod
    def reals(
        name: str, x: Any, shape: Sequence[int | str], like: Any, other: str | None = None, exact: bool = False
    ) -> Any:
        if other is None:
            is_own = isinstance(x, np.ndarray) or not hasattr(x, "dtype")
            return check.reals(name, x if is_own else np.asarray(x, like.dtype), shape, like, exact)
        array, dtype = check.reals(name, x, shape), _dtype(like)
        if array.dtype != dtype:
            if hasattr(x, "dtype"):
                check.refuse(name, f"{dtype}, as `{other}`", array.dtype, TypeError)
            array = array.astype(dtype)
        return array

    @staticmethod
    def full(shape: Sequence[int], x: float, like: Any) -> Any:
        return np.full(shape, x, _dtype(like))

    @staticmethod
    def absent(like: Any) -> Any:
        return np.empty(0, _dtype(like))

    @staticmethod
    def per_system(name: str, x: Any, system: check.Charges, signed: bool = False) -> Any:
        # A number that float32 does not hold is refused by the op.
        with np.errstate(over="ignore"):
            values = np.array(check.per_system(name, x, system.systems, signed)).astype(system.positions.dtype)
        return _spread(values, (system.systems,))

    @staticmethod
    def distance(name: str, x: Any) -> float | None:
        return None if x is None else check.positive(name, x)

    @staticmethod
    def integers(name: str, x: Any, shape: Sequence[int | str], by_name: bool = False, wide: bool = False) -> Any:
        return check.integers(name, x, shape, np.int64 if wide else np.int32)

    @staticmethod
    def axes(name: str, x: Any, system: Any) -> np.ndarray:
        return _neighbors.axes_of_systems(name, x, system.systems)

    @staticmethod
    def one_system(like: Any, rows: int) -> Any:
        return np.zeros(rows, np.int32)

    @staticmethod
    def segments(arrays: dict[str, Any], segment_idx: Any, num_segments: Any) -> tuple[list[Any], Any, int]:
        checked = [check.reals(name, x, check.with_features(x)) for name, x in arrays.items()]
        for name, x in zip(arrays, checked):
            check.alike(name, x, next(iter(arrays)), checked[0])
        return checked, *check.segmented(segment_idx, num_segments, len(checked[0]))

    @staticmethod
    def apart(idx: Any, columns: int, segments: int) -> Any:
        return (np.arange(columns, dtype=idx.dtype)[:, None] * segments + idx).reshape(-1)

    @staticmethod
    def listed(
        system: check.Charges, lists: tuple[Any, ...], cutoff: float | None, own: bool = False
    ) -> tuple[Any, ...] | None:
        atoms, (given, *plain) = len(system.positions), lists
        if given is not None:
            if not own and _neighbors.differs(getattr(given, "cell", None), system.cell.reshape(-1, 3, 3)):
                _neighbors.refuse_cell()
            return _neighbors.checked(given, atoms, cutoff, plain)
        found = check.neighbors(atoms, *plain)
        if found is None:
            return None
        if _is_in_rows(found):
            return found.neighbor_ptr, found.neighbor_list[1], found.shifts, FULL
        return *_native.full_list(found, atoms), FULL + CHECKED

    @staticmethod
    def kept(make: Any, key: Any, like: Any) -> tuple[Any, ...]:
        return made_once(make, key, like.dtype)

    @staticmethod
    def waves(cell: Any, k_cutoff: Sequence[float], systems: int) -> tuple[Any, Any]:
        return check.miller_indices(check.cells(cell), k_cutoff, systems)

    @staticmethod
    def energies(op: str, system: check.Charges, reals: Any, rest: Any, wanted: check.Outputs) -> Any:
        of = OPS[f"{op}_total" if wanted.per_system else op]
        flat = Numpy.of_energies(system, reals, rest, wanted.prefactor)
        try:
            results = of.energies(of.wanted(wanted), lambda member, *bits: of.run(member, flat, (), *bits))
        except (ValueError, MemoryError) as error:
            raise check.renamed(error) from None
        if wanted.virial and system.single:
            results[-1] = results[-1][0]
        if wanted.of_atoms:
            results.append(atomic_virials(Numpy, op, system, reals, rest, wanted.prefactor))
        return results[0] if len(results) == 1 else tuple(results)

    @staticmethod
    def energies_along(op: str, system: check.Charges, reals: Any, rest: Any, prefactor: float, *along: Any) -> Any:
        of, flat = OPS[op], Numpy.of_energies(system, reals, rest, prefactor)
        member, extra = of.tangent(along)
        return of.run(member, flat, extra)[0]

    neighbor_list = classmethod(lists.neighbor_list)

    @staticmethod
    def searched(
        positions: Any, cutoff: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any, options: check.ListOptions
    ) -> Found:
        r, h, _, idx, systems, *_ = atoms = _atoms(positions, cutoff, cell, pbc, batch_idx, batch_ptr)
        method = (None, "cell_list", "brute_force").index(options.method)
        pairs, ptr, shifts = OPS["neighbor_search"].run(VALUE, (*atoms, options.half_fill, -1, method))
        check.list_fits(ptr, options)
        return Found(pairs, ptr, shifts, r, h, idx, systems)

    @staticmethod
    def pair_vectors(found: Found, kind: int) -> tuple[Any, Any]:
        return Numpy.op("pair_vectors", *Numpy.pair_inputs(found, kind))

    @staticmethod
    def pair_differences(found: Found, kind: int) -> Any:
        return Numpy.pair_vectors(found, kind)[0]

    @staticmethod
    def pair_inputs(found: Found, kind: int) -> tuple[Any, ...]:
        r, systems = found.positions, found.systems
        # Without a cell no pair is with an image.
        h = found.cell if len(found.cell) else np.eye(3, dtype=r.dtype)[None]
        h = _spread(h, (systems, 3, 3))
        return r, h, found.batch_idx, found.ptr, found.pairs[1], found.shifts, kind + CHECKED

    @staticmethod
    def places(rows: Any, ptr: Any, width: int) -> Any:
        """See `Framework`; all have one."""
        ahead = np.arange(len(ptr) - 1) * width - ptr[:-1]
        return np.arange(len(rows)) + np.repeat(ahead, np.diff(ptr))

    @staticmethod
    def spread(x: Any, at: Any, atoms: int, width: int, fill: int = 0) -> Any:
        try:
            full = np.full((atoms * width, *x.shape[1:]), fill, x.dtype)
        except MemoryError:
            raise MemoryError(f"`max_neighbors`: out of memory: {atoms} rows of {width} are needed") from None
        if x.ndim == 1:
            full[at] = x
        else:
            # Each row as one element, which takes half of the time.
            row = np.dtype((np.void, x.dtype.itemsize * x.shape[1]))
            full.view(row)[at] = x.view(row)
        return full.reshape(atoms, width, *x.shape[1:])

    @staticmethod
    def find_neighbors(
        positions: Any,
        cutoff: Any,
        cell: Any,
        pbc: Any,
        batch_idx: Any,
        batch_ptr: Any,
        form: Any,
        array: Callable[[np.ndarray], Any] = lambda x: x,
    ) -> Neighbors:
        """See `Framework`. `array`: the arrays of another framework, of those of NumPy."""
        each = cutoff if isinstance(cutoff, list) else []
        r, h, *_, reach, _ = atoms = _atoms(positions, check.largest(cutoff), cell, pbc, batch_idx, batch_ptr)
        kept = -1 if form is None else ("rows", "clusters").index(form)
        index, columns, images = Numpy.op("find_neighbors", *atoms, np.array(each, r.dtype), kept, -1, -1, -1)
        at, axes = None if cell is None else array(h.copy()), _neighbors.axes_of(pbc, cell)
        arrays, in_form = (array(index), array(columns), array(images)), _neighbors.form_of(columns)
        return Neighbors(*arrays, at, None, in_form, len(r), reach, axes)

    @staticmethod
    def renewed(
        known: Neighbors, positions: Any, reach: Any, cell: Any, pbc: Any, batch_idx: Any, form: Any
    ) -> Neighbors:
        """A list of several systems, in which those that have left their skins are searched for again; the same object
        if none has."""
        r, h, rows, idx, systems, reach, bits = _atoms(positions, reach, cell, pbc, batch_idx, None)
        before = h if known.cell is None else known.cell
        (flags,) = Numpy.search("needs_rebuild", r, known.positions, h, before, idx, systems, known.skin, *_NO_AXES)
        if not flags.any():
            return known
        kept = -1 if form is None else ("rows", "clusters").index(form)
        columns, images = (x if x.ndim == 2 else x[:, None] for x in (known.columns, known.images))
        former = (flags, known.index, columns, images)
        *found, still = Numpy.search("renewed_neighbors", r, h, rows, idx, reach, bits, *former, kept, -1, -1, -1, -1)
        at = np.where((still != 0)[idx][:, None], known.positions, r)
        arrays = dict(zip(("index", "columns", "images"), found))
        at_cell = None if cell is None else h.copy()
        return replace(known, **arrays, cell=at_cell, positions=at, form=_neighbors.form_of(found[1]))

    @staticmethod
    def values(*charges: Any) -> check.Charges:
        return check.charged(*charges)

    @staticmethod
    def value(name: str, x: Any) -> Any:
        return x

    @staticmethod
    def is_same(known: Any, x: Any) -> bool:
        return isinstance(x, np.ndarray) and x.dtype == known.dtype and x.tobytes() == known.tobytes()

    @staticmethod
    def is_host(x: Any) -> bool:
        return True

    @staticmethod
    def check_output(name: str, out: Any, shape: Sequence[int], dtype: Any, like: Any) -> None:
        if not isinstance(out, np.ndarray):
            check.refuse(name, "an array of NumPy, as the inputs", check.described(out), TypeError)
        if out.dtype != dtype:
            check.refuse(name, str(dtype), out.dtype, TypeError)
        check.fits(name, out, shape)
        if not out.flags.writeable:
            check.refuse(name, "an array that can be written to", "one that is read-only")

    @staticmethod
    def room(out: np.ndarray) -> np.ndarray | None:
        return out if out.flags.carray and out.size else None

    @staticmethod
    def overlap(out: np.ndarray, x: Any) -> bool:
        return isinstance(x, np.ndarray) and np.may_share_memory(out, x)

    @staticmethod
    def write(out: np.ndarray, x: np.ndarray) -> None:
        out[...] = x


class NeighborList(_NeighborList):
    __doc__ = _NeighborList.__doc__

    def _found(self, positions: Any, cell: Any, pbc: Any, batch_idx: Any) -> Neighbors:
        return Numpy.find_neighbors(positions, self.cutoff + self.skin, cell, pbc, batch_idx, None, self.form)

    def _moved(self, reference: Any, positions: Any) -> bool:
        r, none = check.reals("positions", positions, ("N", 3)), np.empty((0, 3, 3), reference.dtype)
        return bool(Numpy.search("needs_rebuild", r, reference, none, none, _NO_ROWS, 1, self.skin, *_NO_AXES)[0])

    def _renewed(self, neighbors: Neighbors, positions: Any, cell: Any, pbc: Any, batch_idx: Any) -> Neighbors:
        reach = self.cutoff + self.skin
        return Numpy.renewed(neighbors, positions, reach, cell, pbc, batch_idx, self.form)
