"""Kernels on PyTorch tensors. Nothing here names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from madelung.torch import _ops
from madelung.torch._framework import mode_among
from madelung.torch._schema import Op, parse


def opened(given: Mapping[str, Any], stream: Any) -> tuple[Any, Mapping[str, Any]]:
    """The mode of a call, and its arguments."""
    return mode_among(given.values()), given


def add(target: Any) -> tuple[Op, Callable[..., Any]]:
    """An op of kernels, registered with PyTorch, and the function that calls it with all inputs in order."""
    (op,) = parse(target.for_torch(_ops.libtorch()))
    # The same kernels, defined again: their name has a hash of what they do.
    key = (op.namespace, op.name)
    if key not in _ADDED:
        _ADDED[key] = (op, _ops.add(op))
    return _ADDED[key]


_ADDED: dict[tuple[str, str], tuple[Op, Callable[..., Any]]] = {}
