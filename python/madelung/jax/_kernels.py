"""Kernels on JAX arrays. Nothing here names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from madelung import _arguments as check
from madelung._own_streams import OwnStreams
from madelung.jax import _inputs as given
from madelung.jax import _ops
from madelung.jax._autodiff import Op
from madelung.jax._framework import Jax


class Arrays(OwnStreams):
    """See `madelung.kernels._bind.Arrays`."""

    @staticmethod
    def is_own(x: Any) -> bool:
        return isinstance(x, jax.Array)

    @staticmethod
    def reals(name: str, x: Any, shape: Sequence[int | str], like: Any, other: str) -> Any:
        array = given.reals(name, x, shape)
        if array.dtype != like.dtype:
            check.refuse(name, f"{like.dtype}, as `{other}`", array.dtype, TypeError)
        return array

    @staticmethod
    def integers(name: str, x: Any, shape: Sequence[int | str], like: Any) -> Any:
        return given.integers(name, x, shape)

    @staticmethod
    def full(shape: Sequence[int], x: float, like: Any) -> Any:
        return jnp.full(tuple(shape), x, like.dtype)

    @staticmethod
    def zeros(rows: int, like: Any) -> Any:
        return jnp.zeros(rows, jnp.int32)

    @staticmethod
    def absent(like: Any) -> Any:
        return jnp.zeros(0, like.dtype)

    @staticmethod
    def meshes(numbers: Sequence[int]) -> Any:
        return numbers

    @staticmethod
    def is_host(x: Any) -> bool:
        """See `Arrays`; what is not known to be there is not."""
        return isinstance(x, np.ndarray) or not (given.is_traced(x) or given.is_remote(x))

    @staticmethod
    def is_known(x: Any) -> bool:
        return Arrays.is_host(x)

    @staticmethod
    def is_constant(x: Any) -> bool:
        return not isinstance(x, jax.core.Tracer)

    @staticmethod
    def is_differentiated(x: Any) -> bool:
        return isinstance(x, jax.core.Tracer) and not given.is_traced(x)

    @staticmethod
    def of_host(x: np.ndarray) -> Any:
        return jnp.asarray(x)

    @staticmethod
    def functions(like: Any) -> Any:
        return Jax

    @staticmethod
    def plain(function: Callable[..., Any], inputs: Mapping[str, Any]) -> Any:
        return function(**inputs)

    @staticmethod
    def check_output(name: str, out: Any, shape: Sequence[int], dtype: Any, like: Any) -> NoReturn:
        check.refuse(name, "an array of NumPy or PyTorch", "one of JAX, which does not change", TypeError)

    @staticmethod
    def overlap(out: Any, x: Any) -> bool:
        """See `Arrays`: none is written to."""
        return False

    @staticmethod
    def write(out: Any, x: Any) -> None:
        """See `Arrays`: none is written to."""


def add(target: Any) -> tuple[Op, Callable[..., Any]]:
    """An op of kernels, registered with JAX, and the function that calls it with all inputs in order."""
    family = _ops.add(Op(target.described))
    return family.op, family
