"""Kernels on arrays of CUDA devices. Nothing here names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from madelung import _native
from madelung._neighbors import Neighbors
from madelung._schema import VALUE
from madelung.cuda._arrays import arrays_of, is_given
from madelung.cuda._framework import Cuda
from madelung.cuda._ops import Op
from madelung.kernels._frameworks import mapped


def opened(given: Mapping[str, Any], stream: Any) -> tuple[Cuda, dict[str, Any]]:
    """The framework of a call, and its arguments: arrays in the memory of a device as `Array`s, without derivatives."""
    found: dict[str, Any] = {}

    def seen(name: str, x: Any) -> Any:
        if is_given(x):
            found[name] = x.detach() if getattr(x, "requires_grad", False) else x
        return x

    for name, x in given.items():
        _mapped(name, x, seen)
    arrays, on = arrays_of(found, stream)
    return Cuda(on), {name: _mapped(name, x, lambda part, y: arrays.get(part, y)) for name, x in given.items()}


def _mapped(name: str, x: Any, f: Callable[[str, Any], Any]) -> Any:
    """An argument whose arrays, each under a name of its own, are replaced."""
    if isinstance(x, Neighbors):
        # Lists of the host are copied as plain arrays.
        if not is_given(x.columns):
            return x.coo()
        parts = ("index", "columns", "images")
        return replace(x, **{part: f(f"{name}: {part}", getattr(x, part)) for part in parts})
    return mapped(name, x, f)


def add(target: Any) -> tuple[Op, Callable[..., Any]]:
    """An op of kernels, and the function that puts it on a stream with all inputs in order."""
    op = Op(target.described)

    def call(stream: _native.DeviceStream, *flat: Any, into: Sequence[Any] = ()) -> Any:
        results = op.run(VALUE, flat, stream, into=into)
        return results[0] if len(results) == 1 else tuple(results)

    return op, call
