"""Conversion of the functions' arguments to the ops' inputs.

Shapes and dtypes are known while a call is traced, and checked then. Values are not: steps that depend on them (lists
without a capacity, parameters, wave vectors) need arrays that are not traced, or traced for derivatives alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from madelung import _arguments as check

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def array(name: str, x: Any) -> Any:
    """A JAX array from one, or from NumPy's."""
    if not isinstance(x, (jax.Array, np.ndarray, np.generic)):
        kind = check.described(x) if x is None or not isinstance(x, (list, tuple)) else type(x).__name__
        check.refuse(name, "an array (`jnp.asarray` makes one)", kind, TypeError)
    return jnp.asarray(x)


def reals(name: str, x: Any, shape: Sequence[int | str], like: Any = None, exact: bool = False) -> Any:
    """A float32 or float64 array, of the dtype of `like` where that is given; `exact`: or integers, as such."""
    x = array(name, x)
    if exact and jnp.issubdtype(x.dtype, jnp.integer):
        x = x.astype(like.dtype)
    if x.dtype not in _FLOATS:
        check.refuse(name, "float32 or float64", x.dtype, TypeError)
    if like is not None and x.dtype != like.dtype:
        check.refuse(name, check.as_positions(name, like.dtype), x.dtype, TypeError)
    check.fits(name, x, shape)
    return x


def integers(name: str, x: Any, shape: Sequence[int | str], wide: bool = False) -> Any:
    """An array of int32, from any integers that an int32 can hold; `wide`: one of int64 stays as it is.

    While values are not known int64 stays int64: the op looks at each, on a device too.
    """
    if isinstance(x, np.ndarray):
        # Before JAX, which may cut them to 32 bits.
        x = check.integers(name, x, shape, jax.dtypes.canonicalize_dtype(np.int64) if wide else np.int32)
    x = array(name, x)
    if not jnp.issubdtype(x.dtype, jnp.integer):
        check.refuse(name, "integers", x.dtype, TypeError)
    check.fits(name, x, shape)
    if x.dtype == jnp.int32 or (wide and x.dtype == jnp.int64):
        return x
    if not is_traced(x) and not is_remote(x):
        check.integers(name, value(name, x), shape)
    elif x.dtype == jnp.int64:
        return x
    elif x.dtype.itemsize >= 4:
        check.refuse(name, "int32 or int64 where values are not known (under `jit`, on a device)", x.dtype, TypeError)
    return x.astype(jnp.int32)


def cells(cell: Any, like: Any) -> Any:
    """Lattice vectors (3, 3) or (B, 3, 3)."""
    cell = array("cell", cell)
    if cell.ndim not in (2, 3):
        check.refuse("cell", "shape (3, 3) or (B, 3, 3)", cell.shape)
    return reals("cell", cell, (3, 3) if cell.ndim == 2 else ("B", 3, 3), like)


def is_traced(*xs: Any) -> bool:
    """Whether one of the arrays has no value yet. Arrays that are traced for derivatives alone have one."""
    return any(isinstance(hidden(x), jax.core.Tracer) for x in xs if x is not None)


def hidden(x: Any) -> Any:
    """The value of an array, without derivatives."""
    return lax.stop_gradient(x) if isinstance(x, jax.core.Tracer) else x


def is_remote(*xs: Any) -> bool:
    """Whether one with a value lies in the memory of a device: reading it waits for its computation."""
    arrays = (hidden(x) for x in xs if x is not None)
    return any(
        device.platform != "cpu"
        for x in arrays
        if isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer)
        for device in x.devices()
    )


def beside(like: Any, arrays: Iterable[Any]) -> tuple[Any, ...]:
    """Arrays of NumPy as JAX's: on the device that `like` was put on, else JAX's default device."""
    like = hidden(like)
    if isinstance(like, jax.Array) and not isinstance(like, jax.core.Tracer) and like.committed:
        devices = like.devices()
        if len(devices) == 1:
            (device,) = devices
            return tuple(jax.device_put(x, device) for x in arrays)
    return tuple(map(jnp.asarray, arrays))


def value(name: str, x: Any) -> Any:
    """The value as a NumPy array; `None` stays `None`."""
    if x is None:
        return None
    x = hidden(x)
    if isinstance(x, jax.core.Tracer):
        expected = "an array with a value: what depends on it has no size yet while a function is traced (outside of "
        expected += "`jit`, make the neighbour list, cutoffs, alpha and Miller indices, and give them)"
        check.refuse(name, expected, "a traced array")
    return np.asarray(x)


def static(name: str, x: Any) -> float:
    """A positive number that is known while a call is traced."""
    if isinstance(x, jax.core.Tracer):
        check.refuse(name, "a number that is known when the function is traced (`static_argnames`)", "a traced array")
    return check.positive(name, x)


def per_system(name: str, x: Any, positions: Any, systems: int, signed: bool = False) -> Any:
    """Positive numbers (B,), or `signed` ones, in the dtype of the positions, with derivatives where they have them."""
    if isinstance(x, jax.core.Tracer) or is_remote(x):
        if not jnp.issubdtype(x.dtype, jnp.floating) or x.ndim > 1 or x.shape not in ((), (1,), (systems,)):
            check.refuse(name, f"a number, or shape ({systems},)", f"{x.dtype} of shape {x.shape}")
        return jnp.broadcast_to(x.astype(positions.dtype), (systems,))
    check.per_system(name, np.asarray(x) if isinstance(x, jax.Array) else x, systems, signed)
    return jnp.broadcast_to(jnp.asarray(x, positions.dtype), (systems,))
