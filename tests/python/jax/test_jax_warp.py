"""Arguments and results of `jax_kernel` and `jax_callable`, as callers of Warp know them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from conftest import required
from madelung.jax import jax_callable, jax_kernel
from madelung.kernels import Array, Batch, InOut, Int, Out, Real, Vec3, atomic_add, dims, kernel, op

jax = required("jax")
jnp = jax.numpy

pytestmark = pytest.mark.usefixtures("double_precision")

Row, Group, Entry, Bin = dims("Row Group Entry Bin")


@kernel
def tripled(i: Row, x: Array[Real, Row], y: Out[Real, Row]):
    y[i] = 3 * x[i]


@kernel
def sums(i: Row, x: Array[Real, Row], of: Batch[Row, Group], total: Out[Real, Group], moved: Out[Vec3, Row]):
    total[of.of(i)] += x[i]
    moved[i] = Vec3(x[i], 0.0, 1.0)


@kernel(adjoint=False)
def looked_up(i: Row, table: Array[Real, Entry], indices: Array[Int, Row], y: Out[Real, Row]):
    y[i] = table[indices[i]]


@kernel(adjoint=False)
def histogram(i: Row, bin: Array[Int, Row], counts: InOut[Int, Bin]):
    atomic_add(counts[bin[i]], 1)


@kernel
def added(i: Row, x: Array[Real, Row], y: Out[Real, Row], total: Out[Real]):
    y[i] = 2 * x[i]
    total += x[i] ** 2


X = np.array([0.5, -1.0, 2.0, 4.0])
Y = np.array([1.0, 2.0, 3.0, 4.0])
OF = np.array([0, 0, 2, 2], np.int32)


def test_one_output_is_a_tuple_of_one() -> None:
    """An axis of length one too, which would be unpacked in the place of the tuple."""
    for x in (X, X[:1]):
        for f in (jax_kernel(tripled), jax.jit(jax_kernel(tripled, num_outputs=1)), jax_kernel(tripled, None)):
            (y,) = f(jnp.asarray(x))
            np.testing.assert_array_equal(y, 3 * x)
    (y,) = jax.jit(jax.vmap(jax_kernel(tripled)))(jnp.stack([X, -X]))
    np.testing.assert_array_equal(y, [3 * X, -3 * X])
    (slope,) = jax.grad(lambda x: (jax_kernel(tripled)(x)[0] ** 2).sum(), argnums=(0,))(jnp.asarray(X))
    np.testing.assert_array_equal(slope, 18 * X)
    (y,) = jax_kernel(tripled, enable_backward=False)(jnp.asarray(X), launch_dims=4, output_dims={Row: 4})
    np.testing.assert_array_equal(y, 3 * X)


@pytest.mark.parametrize(
    "given",
    [
        {"output_dims": {"Group": 3}},
        {"output_dims": {Group: 3, "moved": (4, 3)}},
        {"output_dims": {"total": 3, "moved": 4}, "launch_dims": 4},
        {"output_dims": {"total": (3,), "moved": [4]}, "launch_dims": (4,), "vmap_method": "sequential"},
    ],
)
def test_sizes_of_calls(given: dict[str, Any]) -> None:
    """Options of the function and of a call, under `jit` too."""
    x, of = jnp.asarray(X), jnp.asarray(OF)
    for f in (jax_kernel(sums, **given), partial(jax_kernel(sums, output_dims={"Group": 9}), **given)):
        for call in (f, jax.jit(f)):
            total, moved = call(x, of)
            np.testing.assert_array_equal(total, [-0.5, 0, 6])
            np.testing.assert_array_equal(moved, np.stack([X, 0 * X, 1 + 0 * X], 1))


def test_lookup_under_vmap() -> None:
    table, indices = jnp.arange(10.0), jnp.asarray(np.random.default_rng(0).integers(0, 10, (3, 5)), jnp.int32)
    for axis, rows in ((0, 5), (1, 3)):
        f = partial(jax_kernel(looked_up), launch_dims=rows)
        (found,) = jax.jit(jax.vmap(f, in_axes=(None, axis)))(table, indices)
        np.testing.assert_array_equal(found, indices if axis == 0 else indices.T)


def test_sizes_that_arrays_do_not_have() -> None:
    x, of = jnp.asarray(X), jnp.asarray(OF)
    f = jax_kernel(sums)

    def refused(message: str, kind: type[Exception] = ValueError, **given: Any) -> None:
        with pytest.raises(kind, match=message):
            f(x, of, **given)

    refused("`output_dims`: expected 4 of `Row`, as the arguments have, got 3", output_dims={"Group": 3, "moved": 3})
    refused("`launch_dims`: expected 4 of `Row`, as the arguments have, got 5", launch_dims=5, output_dims={Group: 3})
    refused(
        r"`launch_dims`: expected one number, of rows, as a kernel has one index .*, got \(2, 2\)", launch_dims=(2, 2)
    )
    refused(r"`output_dims`: expected names of outputs \(total, moved\) or of dimensions", output_dims={"sum": 3})
    refused(r"`output_dims: moved`: expected sizes of \(Row, 3\), got \(4, 2\)", output_dims={"moved": (4, 2)})
    refused("`output_dims: Group`: expected an integer from 0 up, got -1", output_dims={Group: -1})
    refused("`output_dims: total`: expected an integer, got 2.5", TypeError, output_dims={"total": 2.5})
    refused("`output_dims`: expected one size of `Row`, got 4 and 5", output_dims={"moved": 4, Row: 5})
    refused("`vmap_method`: expected 'sequential' or", vmap_method="legacy")
    several = op("tests::several", [tripled, histogram])
    with pytest.raises(ValueError, match="`launch_dims`: expected 4 of `Row`, as the arguments have, got 3"):
        jax_kernel(several)(x, of, jnp.zeros(3, jnp.int32), launch_dims=3)
    with pytest.raises(ValueError, match="`launch_dims`: expected 4 of `Row`"):
        jax.jit(partial(jax_kernel(tripled), launch_dims=3))(x)


def test_in_out_rows_are_added_to() -> None:
    x, y, total = jnp.asarray(X), jnp.asarray([1.0, 2.0, 3.0, 4.0]), jnp.asarray(100.0)
    found = jax.jit(jax_kernel(added, in_out_argnames=["y", "total"]))(x, y, total)
    np.testing.assert_array_equal(found[0], y + 2 * x)
    np.testing.assert_array_equal(found[1], 100 + (X**2).sum())
    slope = jax.grad(lambda y: jax_kernel(added, in_out_argnames="y")(x, y)[0].sum())(y)
    np.testing.assert_array_equal(slope, 1.0)


def accumulated(x: Array[Real, Row], y: Out[Real, Row], counts: Out[Int, Bin], new: Out[Real, Row]):
    """Two outputs that go on with what they hold, and one that does not."""
    y[...] += x
    counts[...] += 1
    new[...] = -x


@pytest.mark.host("callbacks get arrays of NumPy there")
def test_in_out_arguments_of_callables() -> None:
    x, y, counts = jnp.asarray(X), jnp.asarray(Y), jnp.asarray([5, 6], jnp.int32)
    f = jax_callable(accumulated, num_outputs=3, in_out_argnames=["counts", "y"])
    for call in (f, jax.jit(f)):
        for found in (call(x, y, counts), call(x, counts=counts, y=y), call(x, y, counts)):
            np.testing.assert_array_equal(found[0], X + Y)
            np.testing.assert_array_equal(found[1], [6, 7])
            np.testing.assert_array_equal(found[2], -X)
    assert y.tolist() == [1, 2, 3, 4] and counts.tolist() == [5, 6]
    steps = jax.jit(lambda y: jax.lax.scan(lambda y, x: (f(x, y, counts)[0], None), y, jnp.stack([x, x, x]))[0])
    np.testing.assert_array_equal(steps(y), 3 * X + Y)
    mapped = jax.vmap(lambda x, y: f(x, y, counts, vmap_method="sequential"))(jnp.stack([x, -x]), jnp.stack([y, y]))
    np.testing.assert_array_equal(mapped[0], [X + Y, Y - X])
    np.testing.assert_array_equal(mapped[1], [[6, 7], [6, 7]])
    with pytest.raises(TypeError, match="`accumulated`: `counts` is missing: expected an array for this output"):
        f(x, y)
    with pytest.raises(ValueError, match=r"`y`: expected float64 of shape \(4,\), got float64 of shape \(3,\)"):
        f(x, y[1:], counts)
    with pytest.raises(ValueError, match=r"`counts`: expected int32 of shape \(2,\), got int64"):
        f(x, y, counts.astype(jnp.int64))
    with pytest.raises(ValueError, match="`in_out_argnames`: expected outputs: y, counts, new, got 'x'"):
        jax_callable(accumulated, in_out_argnames="x")
    with pytest.raises(TypeError, match="`accumulated`: expected 1 arguments"):
        f(x, y, counts, x)


def test_one_output_of_a_callable_is_a_tuple_of_one() -> None:
    def doubled(x: Array[Real, Row], y: Out[Real, Row]):
        y[...] = 2 * x

    (y,) = jax_callable(doubled)(jnp.asarray(X[:1]), output_dims=1)
    assert y.tolist() == [1.0]
