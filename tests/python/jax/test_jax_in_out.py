"""Arrays of JAX that kernels go on with: arguments and results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conftest import required
from in_out_kernels import Point, arguments, axpy, expected, go_on
from madelung.jax import jax_kernel
from madelung.kernels import Array, Int, Out, Real, atomic_add, kernel, op

jax = required("jax")
jnp = jax.numpy


pytestmark = pytest.mark.usefixtures("double_precision")


def arrays(of: dict[str, Any]) -> dict[str, Any]:
    return {name: jnp.asarray(x) for name, x in of.items()}


def assert_equal(found: Any, wanted: dict[str, Any], like: dict[str, Any]) -> None:
    for x, (name, want) in zip(found, wanted.items(), strict=True):
        np.testing.assert_array_equal(x, want, name)
        assert x.dtype == like.get(name, want).dtype, name


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rows", [6, 0])
def test_calls(dtype: Any, rows: int) -> None:
    inputs, held = arguments(dtype, rows)
    wanted, given = expected(inputs, held), arrays(inputs | held)
    for f in (go_on, jax.jit(lambda **x: go_on(**x)), jax.jit(jax_kernel(go_on, num_outputs=9))):
        assert_equal(f(**given), wanted, held)
    for name, x in held.items():
        np.testing.assert_array_equal(given[name], x, name)


def test_without_x64() -> None:
    """Integers of 64 bits from the 32 that JAX has then; others are not cut in silence."""
    inputs, held = arguments(np.float32)
    held["wide"] -= 2**40
    with jax.enable_x64(False) if hasattr(jax, "enable_x64") else jax.experimental.disable_x64():
        assert_equal(go_on(**arrays(inputs), **arrays(held)), expected(inputs, held), held)
        with pytest.raises(ValueError, match="`wide`: expected integers that 32 bits can hold, got 1099511627776"):
            go_on(**arrays(inputs), **arrays(held) | {"wide": np.full(6, 2**40)})


def test_in_out_arguments() -> None:
    """An in-out argument stands at its own place, whether it is named or not."""
    x, y = jnp.arange(4.0), jnp.asarray([1.0, 2.0, 0.5, -1.0])
    for names in (None, "y", ["y"]):
        f = jax_kernel(axpy, in_out_argnames=names)
        np.testing.assert_array_equal(jax.jit(f, static_argnums=0)(2.0, x, y)[0], 2 * x + y)
        np.testing.assert_array_equal(f(2.0, y=y, x=x)[0], 2 * x + y)
    steps = jax.jit(
        lambda y: jax.lax.scan(lambda y, x: (jax_kernel(axpy)(2.0, x, y)[0], None), y, jnp.stack([x, 3 * x]))
    )
    np.testing.assert_array_equal(steps(y)[0], 8 * x + y)
    (several,) = jax.vmap(lambda x, y: jax_kernel(axpy)(2.0, x, y))(jnp.stack([x, -x]), jnp.stack([y, 2 * y]))
    np.testing.assert_array_equal(several, [2 * x + y, 2 * y - 2 * x])
    np.testing.assert_array_equal(jax.vmap(lambda y: axpy(2.0, x, y))(jnp.stack([y, -y]))[1], 2 * x - y)


def test_vmap() -> None:
    """Each call has rows of its own, though kernels compute the numbers of some."""
    inputs, held = arguments()
    others = {name: x[::-1].copy() if x.ndim else x + 1 for name, x in (inputs | held).items()}
    stacked = {name: jnp.stack([x, others[name]]) for name, x in (inputs | held).items()}
    found = jax.vmap(lambda x: go_on(**x))(stacked)
    for k, given in enumerate((inputs | held, others)):
        wanted = expected({name: given[name] for name in inputs}, {name: given[name] for name in held})
        assert_equal([x[k] for x in found], wanted, held)


@kernel
def summed(i: Point, x: Array[Real, Point], total: Out[Real]):
    total += x[i] ** 2


@kernel(adjoint=False)
def counted(i: Point, bin: Array[Int, Point], new: Out[Int]):
    atomic_add(new, bin[i])


def test_beside_sums() -> None:
    """An op whose sums are added to what is given, and whose other array is gone on with."""
    x, y = jnp.arange(4.0), jnp.ones(4)
    f = jax_kernel(op("tests::beside", [summed, axpy]), in_out_argnames=["total", "y"])
    total, after = f(x, 2.0, y, jnp.asarray(100.0))
    assert total == 114
    np.testing.assert_array_equal(after, 2 * x + 1)


def test_refused() -> None:
    x, y = jnp.arange(4.0), jnp.ones(4)
    expected = r"expected an output of a kernel with derivatives, or an `InOut\[…\]` \(`counted` writes to it\)"
    with pytest.raises(ValueError, match=f"`in_out_argnames`: {expected}, got `new`, an `Out"):
        jax_kernel(counted, in_out_argnames="new")
    with pytest.raises(TypeError, match="`axpy`: `y` is missing"):
        jax_kernel(axpy, in_out_argnames="y")(2.0, x)
    with pytest.raises(TypeError, match="`axpy`: expected 3 arguments"):
        jax_kernel(axpy, in_out_argnames="y")(2.0, x, y, y)
    for by in (0, 1):
        with pytest.raises(Exception, match="no form for .*: it is not differentiated"):
            jax.block_until_ready(jax.grad(lambda *xs: jax_kernel(axpy)(2.0, *xs)[0].sum(), by)(x, y))
