"""The arguments of a call on a CUDA device: shapes and dtypes checked, arrays of the host copied there.

Values are not read unless a docstring says so: the ops check them on the device, and errors wait for
`madelung.check_device`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung._device_arrays import ON_DEVICE, Array, arrays_of, filled, is_given, part, uploaded
from madelung._schema import CHECKED, FULL

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_INTEGERS = (np.dtype(np.int32), np.dtype(np.int64))


class Arguments:
    """The arrays of a call by their names. `positions` lie on the device where it runs."""

    def __init__(self, stream: Any, **given: Any) -> None:
        if not is_given(given["positions"]):
            check.refuse("positions", ON_DEVICE, check.described(given["positions"]), TypeError)
        here = {name: x for name, x in given.items() if is_given(x)}
        arrays, self.stream = arrays_of(here, stream)
        self._given = {**given, **arrays}

    def __getitem__(self, name: str) -> Any:
        """The argument as given, as an `Array` if it lies on the device."""
        return self._given[name]

    def reals(self, name: str, shape: tuple[int | str, ...], like: Array | None = None) -> Array:
        """A float32 or float64 array, of the dtype of `like` where that is given."""
        x = self[name]
        if not isinstance(x, Array):
            return uploaded(check.reals(name, x, shape, like), self.stream)
        if x.dtype not in _FLOATS:
            check.refuse(name, "float32 or float64", x.dtype, TypeError)
        if like is not None and x.dtype != like.dtype:
            check.refuse(name, f"{like.dtype}, as the positions", x.dtype, TypeError)
        check.fits(name, x, shape)
        return x

    def integers(self, name: str, shape: tuple[int | str, ...]) -> Array:
        """An array of int32 or int64."""
        x = self[name]
        if not isinstance(x, Array):
            return uploaded(check.integers(name, x, shape), self.stream)
        if x.dtype not in _INTEGERS:
            check.refuse(name, "integers", x.dtype, TypeError)
        check.fits(name, x, shape)
        return x

    def cells(self, like: Array) -> Array:
        """Lattice vectors (3, 3) or (B, 3, 3)."""
        cell = self["cell"]
        if not isinstance(cell, Array):
            return uploaded(check.cells(cell, like), self.stream)
        if cell.ndim not in (2, 3):
            check.refuse("cell", "shape (3, 3) or (B, 3, 3)", cell.shape)
        return self.reals("cell", (3, 3) if cell.ndim == 2 else ("B", 3, 3), like)

    def systems_of(self, atoms: int, systems: int | None) -> tuple[Array, int]:
        """The system of each atom, and how many there are. Where nothing says how many, it is read."""
        if self["batch_idx"] is None:
            if systems not in (None, 1):
                check.refuse("batch_idx", f"the system of each atom, as there are {systems} cells", "None")
            return self.zeros(np.int32, atoms), 1
        idx = self.integers("batch_idx", (atoms,))
        if systems is None:
            systems = int(part(idx, atoms - 1, (1,)).numpy()[0]) + 1 if atoms else 0
        return idx, systems

    def value(self, name: str) -> Any:
        """The argument as given, copied from the device if it lies there, for which the call waits."""
        x = self[name]
        return x.numpy() if isinstance(x, Array) else x

    def zeros(self, dtype: Any, *shape: int) -> Array:
        """Zeros."""
        return filled(shape, dtype, 0.0, self.stream)


@dataclass(frozen=True, slots=True)
class Frame:
    """The input of a search for neighbours."""

    positions: Array
    cell: Array | None
    """(B, 3, 3), or (1, 3, 3) for all systems."""
    axes: tuple[bool, ...]
    """The periodic ones of all systems, if `pbc` is None."""
    pbc: Array | None
    batch_idx: Array
    systems: int

    def searched(
        self, cutoff: float, half: bool, capacity: int | None, stream: _native.DeviceStream
    ) -> tuple[Array, Array, Array]:
        """Pairs (2, P), where those of each atom begin, and images. Waits for their number without a capacity."""
        arrays = (self.positions, self.cell, self.pbc, self.batch_idx)
        found = _native.device_neighbors(
            tuple(None if x is None else x._native for x in arrays),
            self.axes,
            self.systems,
            cutoff,
            half,
            capacity,
            stream,
        )
        pairs, ptr, shifts = map(Array, found)
        return pairs, ptr, shifts


class System:
    """The charges of a call."""

    def __init__(self, given: Arguments) -> None:
        self.given = given
        self.positions = r = given.reals("positions", ("N", 3))
        self.charges = given.reals("charges", (len(r),), r)
        h = given.cells(r)
        self.is_single = h.ndim == 2 and given["batch_idx"] is None
        self.idx, self.count = given.systems_of(len(r), len(h) if h.ndim == 3 else None)
        if h.size != 9 * self.count:
            # One for all of them.
            h = uploaded(np.repeat(h.numpy()[None], self.count, axis=0), given.stream)
        self.cell = part(h, 0, (self.count, 3, 3))

    def values(self) -> check.Charges:
        """The charges as NumPy arrays, values checked. Waits."""
        return check.charged(*(self.given.value(name) for name in ("positions", "charges", "cell", "batch_idx")))

    def parameters(self, alpha: Any, cutoff: Any, k_cutoff: Any, accuracy: Any) -> Any:
        """(alpha, cutoff, k_cutoff, predicted error) of each system. Waits."""
        system = self.values()
        return _native.ewald_parameters(system, check.settings(system.systems, alpha, cutoff, k_cutoff, accuracy))

    def splitting(self, alpha: Any) -> Array:
        """`alpha` (B,) in the dtype of the positions."""
        if isinstance(alpha, Array):
            if alpha.dtype != self.positions.dtype:
                check.refuse("alpha", f"{self.positions.dtype}, as the positions", alpha.dtype, TypeError)
            if alpha.shape != (self.count,) and not (self.count == 1 and alpha.shape == ()):
                check.refuse("alpha", f"shape ({self.count},), one for each system", alpha.shape)
            return part(alpha, 0, (self.count,))
        each = check.per_system("alpha", alpha, self.count)
        if len(set(each)) == 1:
            return filled((self.count,), self.positions.dtype, each[0], self.given.stream)
        return uploaded(np.array(each, self.positions.dtype), self.given.stream)

    def reals(self, alpha: Any, prefactor: float) -> tuple[Any, ...]:
        """The inputs that all sums begin with."""
        no_strain = self.given.zeros(self.positions.dtype, 0)
        return self.positions, self.charges, self.cell, self.splitting(alpha), no_strain, self.idx, prefactor

    def pairs(self, fill_value: Any, half_fill: Any, cutoff: float | None) -> tuple[Array, Array, Array, int]:
        """Offsets, columns, images and kind of a full list: the one that is given, or a new one."""
        given, atoms = self.given, len(self.positions)
        names = ("neighbor_list", "neighbor_ptr", "neighbor_shifts", "neighbor_matrix", "neighbor_matrix_shifts")
        there = [given[name] is not None for name in names]
        if there == [True, True, True, False, False] and fill_value is None and half_fill is False:
            pairs = given.integers("neighbor_list", (2, "P"))
            count = pairs.shape[1]
            shifts = given.integers("neighbor_shifts", (count, 3))
            return given.integers("neighbor_ptr", (atoms + 1,)), part(pairs, count, (count,)), shifts, FULL
        # Other forms are made full on the host.
        found = check.neighbors(atoms, *(given.value(name) for name in names), fill_value, half_fill)
        if found is not None:
            ptr, others, shifts = (uploaded(x, given.stream) for x in _native.full_list(found, atoms))
            return ptr, others, shifts, FULL
        if cutoff is None:
            check.refuse("cutoff", "the radius of the sum, as no neighbour list is given", "None")
        frame = Frame(self.positions, self.cell, (True, True, True), None, self.idx, self.count)
        pairs, ptr, shifts = frame.searched(cutoff, False, None, given.stream)
        count = pairs.shape[1]
        return ptr, part(pairs, count, (count,)), shifts, FULL + CHECKED

    def waves(self, k_cutoff: Any) -> tuple[Array, Array]:
        """Miller indices and the system of each."""
        given = self.given
        miller, of = given["miller_indices"], given["miller_batch_idx"]
        if miller is None:
            if of is not None:
                check.refuse("miller_batch_idx", "it with `miller_indices`", "it without")
            if k_cutoff is None:
                check.refuse("k_cutoff", "the radius of the sum, as no `miller_indices` are given", "None")
            return waves_of(self.cell.numpy(), check.per_system("k_cutoff", k_cutoff, self.count), given.stream)
        if k_cutoff is not None:
            check.refuse("k_cutoff", "it or `miller_indices`", "both")
        miller = given.integers("miller_indices", ("K", 3))
        if of is None:
            if self.count != 1:
                expected = f"the system of each index, as there are {self.count} systems"
                check.refuse("miller_batch_idx", expected, "None")
            return miller, given.zeros(np.int32, len(miller))
        return miller, given.integers("miller_batch_idx", (len(miller),))


# Most runs ask for one cell again and again. The key has the cell's value, and the stream, whose memory they lie in.
_WAVES: dict[Any, tuple[Array, Array]] = {}
_MOST_WAVES = 8
_LOCK = threading.Lock()


def waves_of(cells: Any, k_cutoff: list[float], stream: _native.DeviceStream) -> tuple[Array, Array]:
    """The Miller indices of cells whose values are known, and the system of each."""
    h = np.require(cells, np.float64, ["C", "A"]).reshape(-1, 3, 3)
    key = (h.tobytes(), tuple(k_cutoff), stream.device, stream.id)
    with _LOCK:
        found = _WAVES.get(key)
    if found is None:
        miller, ptr = _native.miller_indices(h, k_cutoff)
        of = np.repeat(np.arange(len(h), dtype=np.int32), np.diff(ptr))
        found = uploaded(miller, stream), uploaded(of, stream)
        with _LOCK:
            while len(_WAVES) >= _MOST_WAVES:
                del _WAVES[next(iter(_WAVES))]
            _WAVES[key] = found
    return found
