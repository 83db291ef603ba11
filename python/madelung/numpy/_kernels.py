"""Kernels on NumPy arrays. Nothing here names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from madelung._schema import VALUE
from madelung.numpy._framework import Numpy
from madelung.numpy._ops import Op


def opened(given: Mapping[str, Any], stream: Any) -> tuple[type[Numpy], Mapping[str, Any]]:
    """The framework of a call, and its arguments."""
    return Numpy, given


def add(target: Any) -> tuple[Op, Callable[..., Any]]:
    """An op of kernels, and the function that calls it with all inputs in order."""
    op = Op(target.described)

    def call(*flat: Any, into: Sequence[Any] = ()) -> Any:
        results = op.run(VALUE, flat, into=into)
        return results[0] if len(results) == 1 else tuple(results)

    return op, call
