"""Gradients of calls on NumPy arrays: against those of PyTorch and finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conftest import required
from kernel_cases import Case, cases, tensors
from madelung.kernels import Array, Out, Real, Tape, dims, floor, kernel

torch = required("torch")

(Row,) = dims("Row")


@kernel
def squared(i: Row, x: Array[Real, Row], y: Out[Real, Row]):
    y[i] = x[i] ** 2


def recorded(case: Case, smooth: list[Any]) -> tuple[Any, ...]:
    found = case(*smooth, **case.rest)
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("name", list(cases()))
def test_gradients_of_both_orders_are_those_of_pytorch(name: str) -> None:
    case = cases()[name]
    smooth = [np.array(x, float) for x in case.smooth.values()]
    with Tape() as outer:
        with Tape() as inner:
            out = recorded(case, smooth)
        first = inner.gradient(out[0], smooth)
    second = outer.gradient(first[0], smooth, weights=2 * first[0])

    leaves = [tensors(x).requires_grad_() for x in smooth]
    found = case(*leaves, **tensors(case.rest))
    value = (found[0] if isinstance(found, tuple) else found).sum()
    want = torch.autograd.grad(value, leaves, create_graph=True, materialize_grads=True)
    twice = torch.autograd.grad(want[0].square().sum(), leaves, materialize_grads=True)
    for got, expected in zip([*first, *second], [*want, *twice], strict=True):
        expected = expected.detach().numpy()
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13 * (1 + np.abs(expected).max()))


def test_gradients_go_through_several_calls_and_add() -> None:
    x = np.array([0.5, -1.5, 2.0])
    with Tape() as tape:
        y = squared(x)
        z = squared(y)
    np.testing.assert_allclose(tape.gradient(z, x), 4 * x**3)
    np.testing.assert_allclose(tape.gradient(z, [x, y], weights=[1.0, 0.0, 2.0])[0], np.array([1, 0, 2]) * 4 * x**3)
    np.testing.assert_array_equal(tape.gradient(y, [x, y])[1], 1.0)
    # Values are those of the call.
    x[:] = 7.0
    np.testing.assert_allclose(tape.gradient(y, x), [1.0, -3.0, 4.0])


def test_a_gradient_against_differences() -> None:
    case = cases()["real_space"]
    smooth = [np.array(x, float) for x in case.smooth.values()]
    with Tape() as tape:
        out = recorded(case, smooth)
    gradient, step = tape.gradient(out[0], smooth[0]), 1e-5
    rng = np.random.default_rng(1)
    along = rng.normal(size=smooth[0].shape)
    ends = [recorded(case, [smooth[0] + sign * step * along, *smooth[1:]])[0].sum() for sign in (1, -1)]
    assert abs((ends[0] - ends[1]) / (2 * step) - (gradient * along).sum()) < 1e-7 * np.abs(gradient).sum()


def test_nothing_is_recorded_outside() -> None:
    x = np.ones(2)
    with Tape() as tape:
        pass
    y = squared(x)
    with pytest.raises(ValueError, match="`of`: expected an output of a call that was recorded"):
        tape.gradient(y, x)
    with tape:
        y = squared(x)
    with pytest.raises(ValueError, match="`by`: expected arrays of floats that a recorded call was given"):
        tape.gradient(y, x.copy())
    with pytest.raises(ValueError, match="`weights`: expected"):
        tape.gradient(y, x, weights=np.ones(3))


def test_third_derivatives_are_refused() -> None:
    x = np.ones(2)
    with Tape() as third, Tape() as second, Tape() as first:
        y = squared(x)
        slope = first.gradient(y, x)
        curve = second.gradient(slope, x)
    np.testing.assert_allclose(curve, 2.0)
    with pytest.raises(NotImplementedError, match="third order"):
        third.gradient(curve, x)


@kernel
def scaled(i: Row, x: Array[Real, Row], scale: Real, y: Out[Real, Row]):
    y[i] = scale * x[i]


@kernel
def stepped(i: Row, x: Array[Real, Row], w: Array[Real, Row], y: Out[Real, Row]):
    y[i] = x[i] * floor(w[i])


@kernel
def summed(i: Row, x: Array[Real, Row], total: Out[Real]):
    total += x[i]


def test_what_numpy_does_between_calls_is_an_error() -> None:
    x = np.array([0.5, -1.5])
    with Tape() as tape:
        y = squared(x)
        twice = 2 * y
        z = squared(twice)
        of_view = squared(y[:1])
        constant = stepped(x, y)
    for of in (z, of_view):
        with pytest.raises(ValueError, match=r"`by`: expected an array from which recorded calls lead to `of`"):
            tape.gradient(of, x)
    with pytest.raises(ValueError, match=r"`by\[1\]`: expected an array .*, from which none do"):
        tape.gradient(z, [twice, x])
    np.testing.assert_allclose(tape.gradient(z, twice), 2 * twice)
    # A gradient that is zero is that of a call.
    np.testing.assert_array_equal(tape.gradient(constant, y), 0.0)


def test_numbers_have_no_gradient() -> None:
    x, u = np.array([0.5, -1.5]), np.array([2.0, 3.0])
    with Tape() as outer, Tape() as inner:
        total = summed(x)
        z = scaled(x, total)
        y = scaled(u, total)
        slope = inner.gradient(y, u)
    np.testing.assert_allclose(slope, [total, total])
    for of in (z, y, slope):
        with pytest.raises(ValueError, match=r"`scale`: expected a number, which has no gradient \(annotate it `Array"):
            outer.gradient(of, x)
