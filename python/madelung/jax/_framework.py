"""Arrays of JAX behind the public functions: a traced array has no value, unless it is traced for derivatives alone."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from madelung import _arguments as check
from madelung import _native
from madelung import _neighbors as _found
from madelung._functions import lists
from madelung._functions.framework import Common, made_once, with_unit_cells
from madelung._functions.strains import atomic_virials
from madelung._schema import FULL
from madelung.jax import _inputs as given
from madelung.jax import _neighbors
from madelung.jax._energies import energies, tangents
from madelung.jax._least import least
from madelung.jax._ops import OPS
from madelung.numpy._framework import Numpy


class System:
    """Charges of a call: shapes and dtypes checked, and values where there are."""

    def __init__(self, positions: Any, charges: Any, cell: Any, batch_idx: Any, name: str = "positions") -> None:
        self.name, self.positions = name, given.reals(name, positions, ("N", 3))
        r = self.positions
        none = charges is check.NO_CHARGES
        self.charges = charges if none else given.reals("charges", charges, (len(r),), r, exact=True)
        charges = None if none else charges
        self.cell = h = given.cells(cell, r)
        self.idx = None if batch_idx is None else given.integers("batch_idx", batch_idx, (len(r),))
        self.single = h.ndim == 2 and batch_idx is None
        # On a device the op checks values, and records errors: `madelung.check_device`.
        if not given.is_traced(r, charges, h, self.idx) and not given.is_remote(r, charges, h, self.idx):
            self.values()
        if h.ndim == 3:
            self.systems = len(h)
            if self.idx is None and self.systems != 1:
                check.refuse("batch_idx", f"the system of each atom, as there are {self.systems} cells", "None")
        elif self.idx is None:
            self.systems = 1
        elif given.is_traced(self.idx):
            check.refuse("cell", "one for each system, (B, 3, 3), under `jit` with `batch_idx`", "one for all of them")
        else:
            self.systems = check.named_systems(given.value("batch_idx", self.idx[-1:]), len(r))

    def values(self) -> check.Charges:
        """The charges as NumPy arrays, values checked."""
        arrays = {self.name: self.positions, "charges": self.charges, "cell": self.cell, "batch_idx": self.idx}
        values = (x if x is check.NO_CHARGES else given.value(name, x) for name, x in arrays.items())
        return check.charged(*values, self.name)


class Jax(Common):
    """The framework of `madelung.jax`: see `madelung._functions.framework.Framework`."""

    system, minimum = System, staticmethod(least)

    @staticmethod
    def default_real() -> Any:
        found = jnp.zeros(0)
        return None if found.dtype == jnp.float64 else found

    @staticmethod
    def outputs(given: tuple[Any, ...]) -> check.Outputs:
        if isinstance(given[0], jax.core.Tracer):
            check.refuse("prefactor", "a number that is known when the function is traced", "a traced array")
        return check.outputs(given)

    @staticmethod
    def atoms(system: System) -> tuple[Any, Any, Any]:
        r = system.positions
        idx = Jax.one_system(r, len(r)) if system.idx is None else system.idx
        return r, jnp.broadcast_to(system.cell, (system.systems, 3, 3)), idx

    @staticmethod
    def op(name: str, *inputs: Any) -> tuple[Any, ...]:
        found = OPS[name](*inputs)
        return tuple(found) if isinstance(found, (tuple, list)) else (found,)

    @classmethod
    def search(cls, name: str, *inputs: Any) -> tuple[Any, ...]:
        return cls.op(name, *(lax.stop_gradient(x) if isinstance(x, jax.Array) else x for x in inputs))

    @staticmethod
    def numbers(values: Any, like: Any) -> Any:
        return jnp.asarray(values, like.dtype)

    @classmethod
    def counted(cls, name: str, *inputs: Any) -> tuple[Any, ...]:
        """See `Framework`; traced calls need a capacity."""
        arrays = [x for x in inputs if isinstance(x, (jax.Array, np.ndarray))]
        if inputs[-1] >= 0:
            return cls.search(name, *inputs)
        if given.is_traced(*map(given.hidden, arrays)):
            check.refuse("capacity", "the number of pairs that the list has room for, under `jit`", "None")
        values = (np.asarray(given.hidden(x)) if isinstance(x, jax.Array) else x for x in inputs)
        return given.beside(inputs[0], Numpy.counted(name, *values))

    @staticmethod
    def where(systems: Any, value: Any, x: Any) -> Any:
        x = jnp.asarray(x)
        value = jnp.asarray(value, x.dtype)
        shape = (-1, *[1] * value.ndim)
        return jnp.where(systems.reshape(shape) if hasattr(systems, "shape") else np.reshape(systems, shape), value, x)

    @staticmethod
    def indices(values: Any, like: Any) -> Any:
        return jnp.asarray(values)

    @staticmethod
    def no_cell(positions: Any, name: str = "positions") -> Any:
        return jnp.eye(3, dtype=given.reals(name, positions, ("N", 3)).dtype)

    @staticmethod
    def opened(system: System, pbc: Any, own: tuple[float, float]) -> tuple[System, Any]:
        h, changed = system.cell, copy.copy(system)
        axes = pbc if pbc is None or given.is_traced(pbc) else check.periodic(given.value("pbc", pbc))
        cells, numbers = with_unit_cells(jnp.where, h.reshape(-1, 3, 3), jnp.eye(3, dtype=h.dtype), axes, own)
        changed.cell = cells[0] if h.ndim == 2 and len(cells) == 1 else cells
        return changed, jnp.broadcast_to(numbers.astype(h.dtype), (system.systems,))

    @staticmethod
    def stacked(arrays: Sequence[Any], axis: int = 1) -> Any:
        return jnp.stack(arrays, axis)

    @staticmethod
    def joined(arrays: Sequence[Any]) -> Any:
        return jnp.concatenate(arrays)

    @staticmethod
    def is_own(x: Any) -> bool:
        return isinstance(x, jax.Array)

    @staticmethod
    def reals(
        name: str, x: Any, shape: Sequence[int | str], like: Any, other: str | None = None, exact: bool = False
    ) -> Any:
        if other is None:
            x = x if isinstance(x, (jax.Array, np.ndarray)) else np.asarray(x, like.dtype)
            return given.reals(name, x, shape, like, exact)
        array = given.reals(name, x, shape)
        if array.dtype != like.dtype:
            check.refuse(name, f"{like.dtype}, as `{other}`", array.dtype, TypeError)
        return array

    @staticmethod
    def full(shape: Sequence[int], x: float, like: Any) -> Any:
        return jnp.full(tuple(shape), x, like.dtype)

    @staticmethod
    def absent(like: Any) -> Any:
        return jnp.zeros(0, like.dtype)

    @staticmethod
    def per_system(name: str, x: Any, system: System, signed: bool = False) -> Any:
        return given.per_system(name, x, system.positions, system.systems, signed)

    @staticmethod
    def distance(name: str, x: Any) -> float | None:
        return None if x is None else given.static(name, x)

    @staticmethod
    def integers(name: str, x: Any, shape: Sequence[int | str], by_name: bool = False, wide: bool = False) -> Any:
        return given.integers(name, x, shape, wide)

    @staticmethod
    def axes(name: str, x: Any, system: System) -> Any:
        if not isinstance(x, jax.Array):
            return jnp.asarray(_found.axes_of_systems(name, x, system.systems))
        rows = (x if x.ndim else jnp.repeat(x, 3)).reshape(-1, *x.shape[-1:] or (3,))
        if x.ndim > 2 or rows.shape[-1] != 3 or jnp.issubdtype(x.dtype, jnp.floating):
            check.refuse(name, "flags of shape (3,) or (B, 3)", f"{x.dtype} {x.shape}")
        _found.axes_fit(name, rows.shape[0], system.systems)
        return jnp.broadcast_to((rows != 0).astype(jnp.int32), (system.systems, 3))

    @staticmethod
    def one_system(like: Any, rows: int) -> Any:
        return jnp.zeros(rows, jnp.int32)

    @staticmethod
    def segments(arrays: dict[str, Any], segment_idx: Any, num_segments: Any) -> tuple[list[Any], Any, int]:
        checked = [given.reals(name, x, check.with_features(x)) for name, x in arrays.items()]
        for name, x in zip(arrays, checked):
            check.alike(name, x, next(iter(arrays)), checked[0])
        rows = checked[0].shape[0]
        idx = given.integers("segment_idx", segment_idx, (rows,))
        if not given.is_traced(idx) and not given.is_remote(idx):
            return checked, idx, check.segmented(given.value("segment_idx", idx), num_segments, rows)[1]
        segments = check.count("num_segments", num_segments)
        if segments is None and given.is_traced(idx):
            check.refuse("num_segments", "the number of segments, where the indices are traced (under `jit`)", "None")
        if segments is None:
            last = check.integers("segment_idx", given.value("segment_idx", idx[-1:]), (min(rows, 1),))
            segments = int(last[0]) + 1 if rows else 0
        return checked, idx, segments

    @staticmethod
    def apart(idx: Any, columns: int, segments: int) -> Any:
        return (jnp.arange(columns, dtype=idx.dtype)[:, None] * segments + idx).reshape(-1)

    @staticmethod
    def listed(
        system: System, lists: tuple[Any, ...], cutoff: float | None, own: bool = False
    ) -> tuple[Any, ...] | None:
        """See `Framework`; neighbours of another cell are marked as stale while the call is traced."""
        atoms = len(system.positions)
        neighbors, pairs, ptr, shifts, matrix, matrix_shifts, fill, half = lists
        if neighbors is not None:
            index, columns, images, kind = _found.checked(neighbors, atoms, cutoff, lists[1:])
            if own:
                return index, columns, images, kind
            h = given.hidden(system.cell).reshape(-1, 3, 3)
            if given.is_traced(index, h, neighbors.cell) or given.is_remote(index, h):
                # Arrays never change, so it is what the search has made, but for the mark, which ops look at.
                return Jax.marked(index, neighbors.cell, h), columns, images, kind
            reference = None if neighbors.cell is None else np.asarray(neighbors.cell)
            if _found.differs(reference, np.asarray(h)):
                _found.refuse_cell()
            return index, columns, images, kind
        plain = matrix is None and matrix_shifts is None and fill is None and half is False
        if plain and all(x is not None for x in (pairs, ptr, shifts)):
            pairs = given.integers("neighbor_list", pairs, (2, "P"))
            ptr = given.integers("neighbor_ptr", ptr, (atoms + 1,))
            shifts = given.integers("neighbor_shifts", shifts, (pairs.shape[1], 3))
            if not given.is_traced(pairs, ptr) and not given.is_remote(pairs, ptr):
                _check_rows(given.value("neighbor_list", pairs)[0], given.value("neighbor_ptr", ptr))
            return ptr, pairs[1], shifts, FULL
        if given.is_traced(*lists[1:6]):
            expected = (
                "a full list with `neighbor_ptr` and `neighbor_shifts`, as `neighbor_list` returns it, under `jit`"
            )
            check.refuse("neighbor_list", expected, "another form")
        found = check.neighbors(atoms, *(given.value("neighbor_list", x) for x in lists[1:6]), fill, half)
        return None if found is None else (*map(jnp.asarray, _native.full_list(found, atoms)), FULL)

    @staticmethod
    def marked(index: Any, reference: Any, cell: Any) -> Any:
        stale = _found.differs(reference, given.hidden(cell).reshape(-1, 3, 3))
        return index if stale is False else index.at[0].set(jnp.where(stale, _found.STALE, index[0]))

    @staticmethod
    def kept(make: Any, key: Any, like: Any) -> tuple[Any, ...]:
        """See `Framework`; not under `jit`."""
        found = made_once(make, key, like.dtype)
        return tuple(given.beside(like, (x,))[0] if isinstance(x, np.ndarray) else x for x in found)

    @staticmethod
    def waves(cell: Any, k_cutoff: Sequence[float], systems: int) -> tuple[Any, Any]:
        """See `Framework`; not under `jit`."""
        h = check.cells(given.value("cell", given.cells(cell, None)))
        # The cell is a part of the key by its value.
        found = _waves(np.require(h, np.float64, ["C", "A"]).tobytes(), tuple(k_cutoff), systems)
        return given.beside(cell, found)

    @staticmethod
    def energies(op: str, system: System, reals: Any, rest: Any, wanted: check.Outputs) -> Any:
        flat = Jax.of_energies(system, reals, rest, wanted.prefactor)
        results = energies(f"{op}_total" if wanted.per_system else op, flat, wanted)
        if wanted.virial and system.single:
            results[-1] = results[-1][0]
        if wanted.of_atoms:
            results.append(atomic_virials(Jax, op, system, reals, rest, wanted.prefactor))
        return results[0] if len(results) == 1 else tuple(results)

    @staticmethod
    def energies_along(op: str, system: System, reals: Any, rest: Any, prefactor: float, *along: Any) -> Any:
        return tangents(op, Jax.of_energies(system, reals, rest, prefactor), along)

    neighbor_list = classmethod(lists.neighbor_list)

    @staticmethod
    def listing(arrays: tuple[Any, ...], options: Any) -> tuple[Any, ...]:
        """See `Framework`; with a capacity the number of pairs follows, and a flag of overflow."""
        if options.capacity is None:
            return arrays
        pairs = arrays[options.format == "coo"][-1]
        return (*arrays, pairs, pairs > options.capacity)

    searched, pair_vectors = staticmethod(_neighbors.searched), staticmethod(_neighbors.pair_vectors)
    pair_differences, pair_inputs = staticmethod(_neighbors.pair_differences), staticmethod(_neighbors.pair_inputs)
    spread = staticmethod(_neighbors.spread)

    @staticmethod
    def places(rows: Any, ptr: Any, width: int) -> Any:
        return Numpy.places(np.asarray(rows), np.asarray(ptr), width)

    find_neighbors = staticmethod(_neighbors.find_neighbors)

    @staticmethod
    def values(*charges: Any) -> check.Charges:
        return System(*charges).values()

    @staticmethod
    def value(name: str, x: Any) -> Any:
        return given.value(name, x) if isinstance(x, jax.Array) else x

    has_no_value = staticmethod(given.is_traced)

    @staticmethod
    def is_readable(*arrays: Any) -> bool:
        return not given.is_traced(*arrays) and not given.is_remote(*arrays)

    @staticmethod
    def is_host(x: Any) -> bool:
        """See `Framework`; what is not known to be there is not."""
        return Jax.is_readable(x)

    @staticmethod
    def is_differentiated(x: Any) -> bool:
        return isinstance(x, jax.core.Tracer) and not given.is_traced(x)

    @staticmethod
    def check_output(name: str, out: Any, shape: Sequence[int], dtype: Any, like: Any) -> NoReturn:
        """See `Framework`; nothing is written to arrays of JAX."""
        check.refuse(name, "an array of NumPy or PyTorch", "one of JAX, which does not change", TypeError)


def _check_rows(rows: np.ndarray, ptr: np.ndarray) -> None:
    """Checks that the first row of a list agrees with its offsets; the op finds other errors of either."""
    needed, counts = int(ptr[-1]), np.diff(ptr)
    if needed > len(rows):
        expected = f"room for {needed} pairs (`capacity`), which is what `neighbor_ptr` says"
        check.refuse("neighbor_list", expected, len(rows))
    if ptr[0] != 0 or (counts < 0).any():
        return
    wrong = np.flatnonzero(rows[:needed] != np.repeat(np.arange(len(counts)), counts))
    if len(wrong):
        at = int(wrong[0])
        expected = f"atom {np.searchsorted(ptr, at, side='right') - 1} in pair {at}, as `neighbor_ptr` says"
        check.refuse("neighbor_list", expected, f"atom {rows[at]}")


# Most runs ask for one cell again and again.
@lru_cache(maxsize=8)
def _waves(cells: bytes, k_cutoff: tuple[float, ...], systems: int) -> tuple[np.ndarray, np.ndarray]:
    return check.miller_indices(np.frombuffer(cells).copy(), k_cutoff, systems)
