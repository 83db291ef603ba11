"""Kernels on arrays of CUDA devices. Nothing here names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung._neighbors import Neighbors
from madelung._schema import VALUE
from madelung.cuda._arrays import ON_DEVICE, Array, arrays_of, is_given
from madelung.cuda._framework import Cuda
from madelung.cuda._ops import Op
from madelung.cuda._stream import Stream
from madelung.kernels._types import HashGrid


class Arrays(Stream):
    """See `madelung.kernels._bind.Arrays`: those of a call, which has its stream."""

    kind = "arrays in the memory of a CUDA device"

    @classmethod
    def opened(cls, given: Mapping[str, Any], stream: Any) -> tuple[Arrays, dict[str, Any]]:
        """See `Arrays`: those in the memory of a device become `Array`s, without derivatives."""
        found: dict[str, Any] = {}

        def seen(name: str, x: Any) -> Any:
            if is_given(x):
                found[name] = x.detach() if getattr(x, "requires_grad", False) else x
            return x

        for name, x in given.items():
            _mapped(name, x, seen)
        arrays, on = arrays_of(found, stream)
        taken = {name: _mapped(name, x, lambda part, y: arrays.get(part, y)) for name, x in given.items()}
        return cls(on), taken

    def run(self, call: Callable[..., Any], flat: Sequence[Any], into: Sequence[Any] = ()) -> Any:
        return call(self.stream, *flat, into=into)

    @staticmethod
    def is_own(x: Any) -> bool:
        return isinstance(x, Array)

    def reals(self, name: str, x: Any, shape: Any, like: Any = None, other: Any = None) -> Array:
        return super().reals(name, x, shape, like)

    def full(self, shape: Sequence[int], x: float, like: Array) -> Array:
        return self.filled(tuple(shape), like.dtype, x)

    def zeros(self, rows: int, like: Array) -> Array:
        return self.filled((rows,), np.int32, 0.0)

    def absent(self, like: Array) -> Array:
        return self.filled((0,), like.dtype, 0.0)

    @staticmethod
    def meshes(numbers: Sequence[int]) -> Any:
        return numbers

    @staticmethod
    def is_host(x: Any) -> bool:
        return False

    @staticmethod
    def is_known(x: Any) -> bool:
        return False

    @staticmethod
    def is_constant(x: Any) -> bool:
        return True

    @staticmethod
    def is_differentiated(x: Any) -> bool:
        return False

    def of_host(self, x: np.ndarray) -> Array:
        return self.uploaded(x)

    def functions(self, like: Any) -> Any:
        return Cuda(self.stream)

    @staticmethod
    def plain(function: Callable[..., Any], inputs: Mapping[str, Any]) -> Any:
        return function(**inputs)

    @staticmethod
    def check_output(name: str, out: Any, shape: Sequence[int], dtype: Any, like: Any) -> None:
        if not isinstance(out, Array):
            check.refuse(name, ON_DEVICE, check.described(out), TypeError)
        if out.dtype != dtype:
            check.refuse(name, str(dtype), out.dtype, TypeError)
        check.fits(name, out, shape)
        if out._native.read_only:
            check.refuse(name, "an array that can be written to", "one that is read-only")

    @staticmethod
    def room(out: Array) -> Array:
        return out

    @staticmethod
    def overlap(out: Array, x: Any) -> bool:
        if not isinstance(x, Array) or not out.size or not x.size:
            return False
        (first, behind), (begin, end) = map(_memory, (out, x))
        return first < end and begin < behind

    def write(self, out: Array, x: Array) -> None:
        _native.device_write(out._native, x._native, self.stream)


def _mapped(name: str, x: Any, f: Callable[[str, Any], Any]) -> Any:
    """An argument whose arrays, each under a name of its own, are replaced."""
    if isinstance(x, Neighbors):
        # Lists of the host are copied as plain arrays.
        if not is_given(x.columns):
            return x.coo()
        parts = ("index", "columns", "images")
        return replace(x, **{part: f(f"{name}: {part}", getattr(x, part)) for part in parts})
    if isinstance(x, HashGrid):
        return replace(x, **{part: f(f"{name}: {part}", getattr(x, part)) for part in HashGrid.ARRAYS})
    if isinstance(x, (tuple, list)):
        return tuple(f(f"{name}: {n}", y) for n, y in enumerate(x))
    return f(name, x)


def _memory(x: Array) -> tuple[int, int]:
    """The addresses of an array's first byte and of the one behind its last."""
    return x._native.address, x._native.address + x.size * x.dtype.itemsize


def add(target: Any) -> tuple[Op, Callable[..., Any]]:
    """An op of kernels, and the function that puts it on a stream with all inputs in order."""
    op = Op(target.described)

    def call(stream: _native.DeviceStream, *flat: Any, into: Sequence[Any] = ()) -> Any:
        results = op.run(VALUE, flat, stream, into=into)
        return results[0] if len(results) == 1 else tuple(results)

    return op, call
