"""The common part of kernels' arrays in frameworks that have streams of their own, or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


class OwnStreams:
    """See `madelung.kernels._bind.Arrays`."""

    kind = "arrays of NumPy, PyTorch or JAX"

    @classmethod
    def opened(cls, given: Mapping[str, Any], stream: Any) -> tuple[Any, Mapping[str, Any]]:
        return cls, given

    @staticmethod
    def run(call: Callable[..., Any], flat: Sequence[Any], into: Sequence[Any] = ()) -> Any:
        return call(*flat) if all([x is None for x in into]) else call(*flat, into=into)

    @staticmethod
    def room(out: Any) -> Any:
        """See `Arrays`: a framework's own calls make their results."""
        return None
