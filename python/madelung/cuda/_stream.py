"""A stream, and arrays that are checked, made, copied or joined on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung.cuda._arrays import Array, constant, filled, part, uploaded
from madelung.numpy._framework import Numpy

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_INTEGERS = (np.dtype(np.int32), np.dtype(np.int64))


class Stream:
    """The stream of a call."""

    def __init__(self, stream: _native.DeviceStream) -> None:
        self.stream = stream

    def uploaded(self, x: Any) -> Array:
        """A copy of an array of NumPy."""
        return uploaded(x, self.stream)

    def filled(self, shape: tuple[int, ...], dtype: Any, value: float) -> Array:
        """An array of one value."""
        return filled(shape, dtype, value, self.stream)

    def constant(self, count: int, dtype: Any, value: float) -> Array:
        """An input of ops that is one number everywhere, for calls that nothing is wrong with; not to be returned."""
        return constant(count, dtype, value, self.stream)

    def write(self, out: Array, x: Array) -> None:
        """Writes the elements of an array to another one that has as many."""
        _native.device_write(out._native, x._native, self.stream)

    def joined(self, arrays: Sequence[Array]) -> Array:
        """Arrays one after the other along their first axis."""
        first = arrays[0]
        out, at = self.filled((sum(map(len, arrays)), *first.shape[1:]), first.dtype, 0.0), 0
        for x in arrays:
            if x.size:
                self.write(part(out, at, x.shape), x)
                at += x.size
        return out

    def repeated(self, x: Array, times: int) -> Array:
        """Copies of an array along a new first axis."""
        out, there, size = self.filled((times, *x.shape), x.dtype, 0.0), 0, x.size
        while there < times:
            # All that are there make twice as many.
            more = min(max(there, 1), times - there)
            self.write(part(out, there * size, (more * size,)), part(out if there else x, 0, (more * size,)))
            there += more
        return out

    def unit(self, dtype: Any) -> Array:
        """The matrix that changes no vector."""
        row = self.joined([self.filled((1,), dtype, 1.0), self.filled((3,), dtype, 0.0)])
        return part(self.repeated(row, 3), 0, (3, 3))

    def reals(
        self,
        name: str,
        x: Any,
        shape: tuple[int | str, ...],
        like: Array | None = None,
        other: str | None = None,
        exact: bool = False,
    ) -> Array:
        """A float32 or float64 array, as that of `Framework` where `like` is given."""
        if not isinstance(x, Array):
            x = check.reals(name, x, shape) if like is None else Numpy.reals(name, x, shape, like, other, exact)
            return self.uploaded(x)
        if x.dtype not in _FLOATS:
            check.refuse(name, "float32 or float64", x.dtype, TypeError)
        if like is not None and x.dtype != like.dtype:
            expected = check.as_positions(name, like.dtype) if other is None else f"{like.dtype}, as `{other}`"
            check.refuse(name, expected, x.dtype, TypeError)
        check.fits(name, x, shape)
        return x

    def integers(
        self, name: str, x: Any, shape: Sequence[int | str], by_name: bool = False, wide: bool = False
    ) -> Array:
        """An array of int32 or int64."""
        if not isinstance(x, Array):
            return self.uploaded(check.integers(name, x, shape, np.int64 if wide else np.int32))
        if x.dtype not in _INTEGERS:
            check.refuse(name, "integers of int32 or int64", x.dtype, TypeError)
        check.fits(name, x, shape)
        return x

    def cells(self, cell: Any, like: Array) -> Array:
        """Lattice vectors (3, 3) or (B, 3, 3)."""
        if not isinstance(cell, Array):
            return self.uploaded(check.cells(cell, like))
        if cell.ndim not in (2, 3):
            check.refuse("cell", "shape (3, 3) or (B, 3, 3)", cell.shape)
        return self.reals("cell", cell, (3, 3) if cell.ndim == 2 else ("B", 3, 3), like)

    def systems_of(self, batch_idx: Any, atoms: int, systems: int | None) -> tuple[Array, int]:
        """The system of each atom, and how many there are. Where nothing says how many, the last index is read."""
        if batch_idx is None:
            if systems not in (None, 1):
                check.refuse("batch_idx", f"the system of each atom, as there are {systems} cells", "None")
            return self.constant(atoms, np.int32, 0.0), 1
        idx = self.integers("batch_idx", batch_idx, (atoms,))
        if systems is None:
            systems = check.named_systems(part(idx, atoms - 1, (1,)).numpy(), atoms) if atoms else 0
        return idx, systems
