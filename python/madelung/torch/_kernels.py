"""Kernels on PyTorch tensors. Nothing here names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from madelung import _schema
from madelung._schema import VALUE
from madelung.numpy import _ops as _host
from madelung.torch import _ops
from madelung.torch._framework import Eager, is_compiling, mode_among
from madelung.torch._inputs import PLAIN
from madelung.torch._plain import is_usual
from madelung.torch._schema import Op, parse


class _InPlace(Eager):
    """The mode of kernels on the host, whose results are computed where they are to lie, as arrays of NumPy."""

    @staticmethod
    def room(out: torch.Tensor) -> torch.Tensor | None:
        return out if out.is_contiguous() and out.numel() and is_usual() else None

    @staticmethod
    def run(call: Callable[..., Any], flat: Sequence[Any], into: Sequence[Any] = ()) -> Any:
        written = [x for x in into if x is not None]
        if not written or not all([type(x) in PLAIN for x in (*flat, *written) if isinstance(x, torch.Tensor)]):
            return call(*flat)
        op: _schema.NamedOp = call.on_host  # type: ignore[attr-defined]
        arrays = [_array(x, i.type) if isinstance(x, torch.Tensor) else x for i, x in zip(op.inputs, flat)]
        found = op.run(VALUE, arrays, into=[None if x is None else x.numpy() for x in into])
        # What autograd has kept of these is no longer what it was.
        torch.autograd.graph.increment_version(written)
        return tuple([None if x is None else torch.from_numpy(x) for x in found])

    @staticmethod
    def again(call: Callable[..., Any], flat: Sequence[Any], into: Sequence[Any]) -> None:
        arrays = [x.numpy() if type(x) in PLAIN else x for x in flat]
        op: _schema.NamedOp = call.on_host  # type: ignore[attr-defined]
        for n in call.lists:  # type: ignore[attr-defined]
            arrays[n] = tuple(flat[n].tolist())
        op.run(VALUE, arrays, into=[x if x is None else x.numpy() for x in into])
        torch.autograd.graph.increment_version([x for x in into if x is not None])


def _array(x: torch.Tensor, kind: str) -> Any:
    """A tensor of the host as an op on arrays of NumPy takes it."""
    if kind == "integers":
        return tuple(x.tolist())
    return x.detach().numpy() if x.requires_grad else x.numpy()


def opened(given: Mapping[str, Any], stream: Any) -> tuple[Any, Mapping[str, Any]]:
    """The mode of a call, and its arguments."""
    mode = mode_among(given.values())
    return _InPlace if mode is Eager else mode, given


def repeats(is_launch: bool) -> Callable[[Any], Any] | None:
    """Function of a tensor that says when it goes to the op as it is; None where others see calls, as autograd does."""
    return _kind if is_launch and not is_compiling() and is_usual() and mode_among(()) is Eager else None


def _kind(x: Any) -> Any:
    is_plain = type(x) in PLAIN and x.is_cpu and not x.requires_grad and x.is_contiguous() and not x.is_inference()
    return (x.dtype, x.shape, False) if is_plain else None


def add(target: Any) -> tuple[Op, Callable[..., Any]]:
    """An op of kernels, registered with PyTorch, and the function that calls it with all inputs in order."""
    (op,) = parse(target.for_torch(_ops.libtorch()))
    # The same kernels, defined again: their name has a hash of what they do.
    key = (op.namespace, op.name)
    if key not in _ADDED:
        _ADDED[key] = (op, _ops.add(op))
        _ADDED[key][1].on_host = _host.Op(target.described)  # type: ignore[attr-defined]
        _ADDED[key][1].lists = [n for n, i in enumerate(op.inputs) if i.type == "integers"]  # type: ignore[attr-defined]
    return _ADDED[key]


_ADDED: dict[tuple[str, str], tuple[Op, Callable[..., Any]]] = {}
