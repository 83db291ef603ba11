"""Linear maps whose transposes are given, in every mode of JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from madelung.jax import _compat

# Of arrays that it depends on in any way, and of those in which it is linear.
Map = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]


def linear(forward: Map, transpose: Map, kept: Sequence[Any], moved: Sequence[Any], results: Sequence[Any]) -> Any:
    """The results of a linear map, of the types of some arrays. Its derivative by what it depends on is that of
    `forward`, and that of its transpose the one of `transpose`: neither refers to traced arrays but its arguments."""
    types = tuple([(x.shape, x.dtype) for x in results])
    return _linear.bind(*kept, *moved, forward=forward, transpose=transpose, kept=len(kept), results=types)


def _apply(*operands: Any, forward: Map, transpose: Map, kept: int, results: Any) -> list[Any]:
    del transpose, results
    return list(forward(operands[:kept], operands[kept:]))


def _types(*avals: Any, results: Any, **params: Any) -> list[Any]:
    del params
    return [_compat.like(avals[-1], shape, dtype) for shape, dtype in results]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    results, kept = _linear.bind(*primals, **params), params["kept"]
    # Integers have none.
    at = [n for n, t in enumerate(tangents) if type(t) is not ad.Zero and t.dtype != jax.dtypes.float0]
    if all(n >= kept for n in at):
        return results, _linear.bind(*primals[:kept], *map(ad.instantiate_zeros, tangents[kept:]), **params)

    def function(*some: Any) -> list[Any]:
        operands = list(primals)
        for n, x in zip(at, some):
            operands[n] = x
        return _apply(*operands, **params)

    return results, jax.jvp(function, [primals[n] for n in at], [tangents[n] for n in at])[1]


def _transpose(
    cotangents: Sequence[Any], *operands: Any, forward: Map, transpose: Map, kept: int, results: Any
) -> list[Any]:
    if all(type(ct) is ad.Zero for ct in cotangents):
        return [None] * len(operands)
    moved = operands[kept:]
    avals = [x.aval if ad.is_undefined_primal(x) else x for x in moved]
    found = _linear.bind(
        *operands[:kept],
        *map(ad.instantiate_zeros, cotangents),
        forward=transpose,
        transpose=forward,
        kept=kept,
        results=tuple([(x.shape, x.dtype) for x in avals]),
    )
    return [None] * kept + [g if ad.is_undefined_primal(x) else None for g, x in zip(found, moved)]


def _batch(operands: Sequence[Any], axes: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    kept, at = params["kept"], list(axes[: params["kept"]])
    size = next(x.shape[d] for x, d in zip(operands, axes) if d is not None)
    moved = [
        jnp.broadcast_to(x, (size, *x.shape)) if d is None else jnp.moveaxis(x, d, 0)
        for x, d in zip(operands[kept:], axes[kept:])
    ]

    def mapped(f: Map) -> Map:
        return lambda xs, moved: jax.vmap(lambda a, b: list(f(a, b)), (at, 0))(list(xs), list(moved))

    maps = {name: mapped(params[name]) for name in ("forward", "transpose")}
    types = tuple([((size, *shape), dtype) for shape, dtype in params["results"]])
    found = _linear.bind(*operands[:kept], *moved, **maps, kept=kept, results=types)
    return found, [0] * len(found)


_linear = Primitive("madelung_linear")
_linear.multiple_results = True
_linear.def_impl(_apply)
_linear.def_abstract_eval(_types)
ad.primitive_jvps[_linear] = _jvp
ad.primitive_transposes[_linear] = _transpose
batching.primitive_batchers[_linear] = _batch
mlir.register_lowering(_linear, mlir.lower_fun(_apply, multiple_results=True))
