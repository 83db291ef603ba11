"""Differences between releases of JAX. No name here is private to JAX, but these have moved between 0.6 and 0.10."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec


def manual_axes(x: Any) -> frozenset[str]:
    """The mesh axes of `shard_map` along which an array (or its type) differs."""
    aval = x if isinstance(x, jax.core.ShapedArray) else jax.typeof(x)
    of = getattr(aval, "mat", None) or getattr(aval, "manual_axis_type", None)
    if of is not None:
        return frozenset(getattr(of, "varying", ()))
    return frozenset(getattr(aval, "vma", ()))


def vary(operands: Sequence[Any]) -> list[Any]:
    """The operands, all varying along a common set of mesh axes.

    Results then vary, too, and the transpose sums the cotangents of a shared operand over devices: without it gradients
    within `shard_map` would miss that sum.
    """
    axes = [manual_axes(x) for x in operands]
    union = frozenset().union(*axes)
    if not union:
        return list(operands)
    return [_cast(x, tuple(sorted(union - have))) if union - have else x for x, have in zip(operands, axes)]


def _cast(x: Any, axes: tuple[str, ...]) -> Any:
    if hasattr(lax, "pcast"):
        return lax.pcast(x, axes, to="varying")
    return lax.pvary(x, axes)


def like(aval: Any, shape: Sequence[Any], dtype: Any) -> Any:
    """The type of a result that differs along the mesh axes that `aval` differs along."""
    sharding = NamedSharding(aval.sharding.mesh, PartitionSpec(*[None] * len(shape)))
    return aval.update(shape=tuple(shape), dtype=np.dtype(dtype), weak_type=False, sharding=sharding)
