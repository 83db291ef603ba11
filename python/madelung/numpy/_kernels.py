"""Kernels on NumPy arrays. Nothing here names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung._own_streams import OwnStreams
from madelung._schema import VALUE
from madelung.kernels import _tape
from madelung.numpy._framework import Numpy
from madelung.numpy._ops import Op


class Arrays(OwnStreams):
    """See `madelung.kernels._bind.Arrays`."""

    @staticmethod
    def is_own(x: Any) -> bool:
        """See `Arrays`; sequences of numbers become arrays."""
        return isinstance(x, (np.ndarray, list))

    @staticmethod
    def reals(name: str, x: Any, shape: Sequence[int | str], like: Any, other: str) -> Any:
        array = check.reals(name, x, shape)
        dtype = getattr(like, "dtype", np.dtype(np.float64)).newbyteorder("=")
        if array.dtype != dtype:
            if hasattr(x, "dtype"):
                check.refuse(name, f"{dtype}, as `{other}`", array.dtype, TypeError)
            array = array.astype(dtype)
        return array

    @staticmethod
    def integers(name: str, x: Any, shape: Sequence[int | str], like: Any) -> Any:
        return check.integers(name, x, shape)

    @staticmethod
    def full(shape: Sequence[int], x: float, like: Any) -> Any:
        return np.full(shape, x, getattr(like, "dtype", np.float64))

    @staticmethod
    def zeros(rows: int, like: Any) -> Any:
        return np.zeros(rows, np.int32)

    @staticmethod
    def absent(like: Any) -> Any:
        return np.empty(0, getattr(like, "dtype", np.float64))

    @staticmethod
    def meshes(numbers: Sequence[int]) -> Any:
        return numbers

    @staticmethod
    def is_host(x: Any) -> bool:
        return True

    @staticmethod
    def is_known(x: Any) -> bool:
        return True

    @staticmethod
    def is_constant(x: Any) -> bool:
        return not _tape.is_recording()

    @staticmethod
    def is_differentiated(x: Any) -> bool:
        """See `Arrays`; tapes find it where a gradient is asked for."""
        return False

    @staticmethod
    def of_host(x: np.ndarray) -> Any:
        return x

    @staticmethod
    def functions(like: Any) -> Any:
        return Numpy

    @staticmethod
    def plain(function: Callable[..., Any], inputs: Mapping[str, Any]) -> Any:
        return function(**inputs)

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


def add(target: Any) -> tuple[Op, Callable[..., Any]]:
    """An op of kernels, and the function that calls it with all inputs in order."""
    op = Op(target.described)

    def call(*flat: Any, into: Sequence[Any] = ()) -> Any:
        results = op.run(VALUE, flat, into=into)
        return results[0] if len(results) == 1 else tuple(results)

    return op, call
