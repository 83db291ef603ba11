"""Kernels on NumPy arrays. Nothing here names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from madelung._interop import on_host
from madelung._schema import VALUE
from madelung.kernels._frameworks import mapped
from madelung.numpy._framework import Numpy
from madelung.numpy._ops import Op

_PLAIN = (np.ndarray, float, int)


def opened(given: Mapping[str, Any], stream: Any) -> tuple[type[Numpy], Mapping[str, Any]]:
    """The framework of a call, and its arguments: those of other libraries as arrays of NumPy."""
    if all([type(x) in _PLAIN for x in given.values()]):
        return Numpy, given
    return Numpy, {name: mapped(name, x, on_host) for name, x in given.items()}


def repeats(is_launch: bool) -> Callable[[Any], Any]:
    """Function of an array that says when it goes to the op as it is: see `Repeated.like`."""
    return _kind


def _kind(x: Any) -> Any:
    flags = x.flags if type(x) is np.ndarray else None
    is_plain = flags is not None and flags.c_contiguous and flags.aligned
    return (x.dtype, x.shape, flags.writeable, flags.owndata) if is_plain else None


def add(target: Any) -> tuple[Op, Callable[..., Any]]:
    """An op of kernels, and the function that calls it with all inputs in order."""
    op = Op(target.described)

    def call(*flat: Any, into: Sequence[Any] = ()) -> Any:
        results = op.run(VALUE, flat, into=into)
        return results[0] if len(results) == 1 else tuple(results)

    return op, call
