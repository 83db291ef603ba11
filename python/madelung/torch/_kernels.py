"""Kernels on PyTorch tensors. Nothing here names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from madelung import _arguments as check
from madelung._own_streams import OwnStreams
from madelung.torch import _inputs as given
from madelung.torch import _ops
from madelung.torch._framework import Graph, is_compiling, mode_of
from madelung.torch._schema import Op, parse

_FLOATS = (torch.float32, torch.float64)


class Arrays(OwnStreams):
    """See `madelung.kernels._bind.Arrays`."""

    @staticmethod
    def is_own(x: Any) -> bool:
        return isinstance(x, torch.Tensor)

    @staticmethod
    def reals(name: str, x: Any, shape: Sequence[int | str], like: torch.Tensor, other: str) -> torch.Tensor:
        _expect(name, x, like, other)
        if x.dtype not in _FLOATS:
            check.refuse(name, "float32 or float64", _short(x.dtype), TypeError)
        if x.dtype != like.dtype:
            check.refuse(name, f"{_short(like.dtype)}, as `{other}`", _short(x.dtype), TypeError)
        check.fits(name, x, shape)
        return x

    @staticmethod
    def integers(name: str, x: Any, shape: Sequence[int | str], like: torch.Tensor) -> torch.Tensor:
        return given.integers(name, x, shape, None)

    @staticmethod
    def full(shape: Sequence[Any], x: float, like: torch.Tensor) -> torch.Tensor:
        return torch.full(list(shape), x, dtype=like.dtype, device=like.device)

    @staticmethod
    def zeros(rows: Any, like: torch.Tensor) -> torch.Tensor:
        return torch.zeros(rows, dtype=torch.int32, device=like.device)

    @staticmethod
    def absent(like: torch.Tensor) -> torch.Tensor:
        return torch.empty(0, dtype=like.dtype, device=like.device)

    @staticmethod
    def meshes(numbers: Sequence[int]) -> torch.Tensor:
        """See `Arrays`: a tensor on the CPU, as the dispatcher's kernels take no lists."""
        return torch.tensor(numbers, dtype=torch.int64, device="cpu")

    @staticmethod
    def is_host(x: torch.Tensor) -> bool:
        return x.is_cpu

    @staticmethod
    def is_known(x: Any) -> bool:
        return x.is_cpu and not given.is_traced(x)

    @staticmethod
    def is_constant(x: Any) -> bool:
        return not isinstance(x, torch.Tensor) or not (x.requires_grad or given.is_traced(x))

    @staticmethod
    def is_differentiated(x: torch.Tensor) -> bool:
        return given.is_differentiated(x)

    @staticmethod
    def of_host(x: np.ndarray) -> Any:
        return torch.from_numpy(x)

    @staticmethod
    def functions(like: torch.Tensor) -> Any:
        return Graph if is_compiling() else mode_of(like)

    @staticmethod
    def plain(function: Callable[..., Any], inputs: Mapping[str, Any]) -> Any:
        with torch.no_grad():
            return function(**inputs)

    @staticmethod
    def check_output(name: str, out: Any, shape: Sequence[int], dtype: Any, like: torch.Tensor) -> None:
        given.expect(name, out)
        if out.device != like.device:
            check.refuse(name, f"a tensor on {like.device}", f"one on {out.device}")
        if out.dtype != dtype:
            check.refuse(name, _short(dtype), _short(out.dtype), TypeError)
        check.fits(name, out, shape)
        if out.requires_grad:
            check.refuse(name, "a tensor without gradient", "one that requires it")
        if any([n > 1 and stride == 0 for n, stride in zip(out.shape, out.stride())]):
            check.refuse(name, "a tensor with memory for each element", "one that was expanded")
        if out.is_inference() and not torch.is_inference_mode_enabled():
            check.refuse(name, "a tensor that can be written to", "one of inference mode")

    @staticmethod
    def overlap(out: torch.Tensor, x: Any) -> bool:
        if not isinstance(x, torch.Tensor) or not out.numel() or not x.numel():
            return False
        (first, behind), (begin, end) = map(_memory, (out, x))
        return first < end and begin < behind

    @staticmethod
    def write(out: torch.Tensor, x: torch.Tensor) -> None:
        out.copy_(x)


def _memory(x: torch.Tensor) -> tuple[int, int]:
    """The addresses of a tensor's first byte and of the one behind its last."""
    last = sum((n - 1) * stride for n, stride in zip(x.shape, x.stride()))
    return x.data_ptr(), x.data_ptr() + (last + 1) * x.element_size()


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _expect(name: str, x: Any, like: torch.Tensor, other: str) -> None:
    given.expect(name, x)
    if x.device != like.device:
        check.refuse(name, f"a tensor on {like.device} like `{other}` (`.to(…)` moves it)", f"one on {x.device}")


def add(target: Any) -> tuple[Op, Callable[..., Any]]:
    """An op of kernels, registered with PyTorch, and the function that calls it with all inputs in order."""
    (op,) = parse(target.for_torch(_ops.libtorch()))
    # The same kernels, defined again: their name has a hash of what they do.
    key = (op.namespace, op.name)
    if key not in _ADDED:
        _ADDED[key] = (op, _ops.add(op))
    return _ADDED[key]


_ADDED: dict[tuple[str, str], tuple[Op, Callable[..., Any]]] = {}
