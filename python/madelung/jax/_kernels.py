"""Kernels on JAX arrays. Nothing here names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from madelung.jax import _ops
from madelung.jax._autodiff import Op
from madelung.jax._framework import Jax


def opened(given: Mapping[str, Any], stream: Any) -> tuple[type[Jax], Mapping[str, Any]]:
    """The framework of a call, and its arguments."""
    return Jax, given


def add(target: Any) -> tuple[Op, Callable[..., Any]]:
    """An op of kernels, registered with JAX, and the function that calls it with all inputs in order."""
    family = _ops.add(Op(target.described))
    return family.op, family
