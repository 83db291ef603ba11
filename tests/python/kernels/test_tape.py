"""Gradients of calls on NumPy arrays: against those of PyTorch and finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conftest import required
from kernel_cases import Case, cases, tensors
from madelung.kernels import Array, InOut, Out, Real, Tape, dims, floor, kernel, launch

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


@kernel
def distance(i: Row, x: Array[Real, Row], to: Array[Real, Row], loss: Out[Real]):
    loss += (x[i] - to[i]) ** 2


@kernel(adjoint=False)
def accumulated(i: Row, x: Array[Real, Row], y: InOut[Real, Row]):
    y[i] += x[i]


def test_a_loop_of_steps_down_a_gradient() -> None:
    """Recorded once, by a launch and a call; each step reads what is in the arrays by then."""
    x, to, y, loss = np.array([3.0, -1.0, 0.5]), np.array([4.0, 1.0, 9.0]), np.zeros(3), np.zeros(1)
    with Tape() as tape:
        launch(squared, {"x": x}, {"y": y})
        launch(distance, {"x": y, "to": to}, {"loss": loss[0:1].reshape(())})
        total = distance(y, to)
    with pytest.raises(ValueError, match="`loss`: expected an output of a call that was recorded"):
        tape.backward(x)
    for _ in range(3):
        tape.zero()
        tape.backward(loss=total)
        assert list(map(id, tape.gradients)) == [id(x), id(to)]
        np.testing.assert_allclose(tape.gradients[x], 2 * (x**2 - to) * 2 * x, rtol=1e-14)
        np.testing.assert_allclose(tape.gradients[to], -2 * (x**2 - to), rtol=1e-14)
        x -= 0.01 * tape.gradients[x]
        with pytest.raises(ValueError, match=r"`x`: expected the values that .* \(`replay` takes others\)"):
            tape.backward(total)
        tape.replay()
        np.testing.assert_array_equal(y, x**2)
        np.testing.assert_allclose(loss, ((x**2 - to) ** 2).sum(), rtol=1e-14)
        assert total == loss[0]


def test_gradients_are_summed_until_zero() -> None:
    x, w = np.array([0.5, -1.5, 2.0]), np.array([1.0, 0.0, 2.0])
    with Tape() as tape:
        y = squared(x)
        z = squared(y)
    tape.backward(z)
    gradient = tape.gradients[x]
    np.testing.assert_allclose(gradient, 4 * x**3)
    tape.backward(z, weights=w)
    tape.backward([y, z], weights=[w, None])
    np.testing.assert_allclose(gradient, 4 * x**3 * (2 + w) + w * 2 * x)
    tape.zero()
    assert tape.gradients[x] is gradient and (gradient == 0).all() and len(tape.gradients) == 1
    tape.backward(y)
    np.testing.assert_array_equal(gradient, 2 * x)
    assert x in tape.gradients and y not in tape.gradients and x.copy() not in tape.gradients
    for other in (y, x.copy(), 3):
        with pytest.raises(KeyError, match="`gradients`: expected an array that calls were given"):
            tape.gradients[other]
    with pytest.raises(ValueError, match="`weights`: expected one for each of 2 results, got 1"):
        tape.backward([y, z], weights=[w])


@pytest.mark.parametrize("name", list(cases()))
def test_derivatives_after_a_replay_are_those_of_new_values(name: str) -> None:
    """Those of a tape of its own at these values, in second order too."""
    case = cases()[name]
    smooth = [np.array(x, float) for x in case.smooth.values()]
    others = [np.asarray(1.01 * x) for x in smooth]

    def taken(smooth: list[Any]) -> tuple[Tape, Tape, Any, Any]:
        with Tape() as outer:
            with Tape() as inner:
                out = recorded(case, smooth)
            return outer, inner, out, inner.gradient(out[0], smooth)[0]

    def derivatives(outer: Tape, inner: Tape, out: Any, first: Any, smooth: list[Any]) -> list[Any]:
        return [out[0], *inner.gradient(out[0], smooth), *outer.gradient(first, smooth)]

    expected = derivatives(*taken(others), others)
    record = taken(smooth)
    for x, y in zip(smooth, others):
        x[...] = y
    record[0].replay()
    for a, b in zip(derivatives(*record, smooth), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_launches_are_recorded() -> None:
    x, y, z = np.array([0.5, -1.5, 2.0]), np.empty(3), np.full((3, 2), np.nan)[:, 1]
    with Tape() as tape:
        launch(squared, {"x": x}, {"y": y})
        launch(squared, {"x": y}, {"y": z})
    np.testing.assert_array_equal(z, x**4)
    np.testing.assert_allclose(tape.gradient(z, [x, y])[0], 4 * x**3)
    x[:] = [1.0, 2.0, 3.0]
    tape.replay()
    np.testing.assert_array_equal(z, [1, 16, 81])
    np.testing.assert_allclose(tape.gradient(z, x), 4 * x**3)


def test_arrays_that_are_written_twice() -> None:
    """Each launch reads what the one before has left, and its derivative is by that."""
    x, y = np.array([1.5, 2.0]), np.array([0.5, 3.0])
    with Tape() as tape:
        launch(squared, {"x": x}, {"y": y})
        launch(squared, {"x": y}, {"y": x})
        launch(squared, {"x": x}, {"y": y})
    begin = np.sqrt(np.sqrt(x))
    np.testing.assert_allclose(y, begin**8)
    # By `x` as it was at first.
    np.testing.assert_allclose(tape.gradient(y, x), 8 * begin**7)


def test_replays_go_on_with_arrays_in_place() -> None:
    x, y = np.array([1.0, 2.0]), np.array([10.0, 20.0])
    with Tape() as tape:
        launch(accumulated, {"x": x}, {"y": y})
    for n in (2, 3):
        tape.replay()
        np.testing.assert_array_equal(y, [10 + n, 20 + 2 * n])
    # Others may write to it between.
    y[:] = 0
    with tape:
        launch(accumulated, {"x": x}, {"y": y})
    tape.replay()
    np.testing.assert_array_equal(y, 3 * x)


def test_replays_are_not_recorded() -> None:
    x = np.array([1.0, 2.0])
    with Tape() as tape:
        y = squared(x)
    with Tape() as other:
        tape.replay()
        tape.backward(y)
    with pytest.raises(ValueError, match="`of`: expected an output"):
        other.gradient(y, x)
    assert len(tape._nodes) == 1


def test_what_numpy_writes_between_calls_is_an_error() -> None:
    x = np.array([0.5, -1.5])
    with Tape() as tape:
        y = squared(x)
        y *= 2
        with pytest.raises(ValueError, match="`x`: expected an array as a recorded call left it .*, got one that was"):
            squared(y)
        launch(squared, {"x": x}, {"y": y})
        z = squared(y)
    np.testing.assert_allclose(tape.gradient(z, x), 4 * x**3)


def test_backward_through_numbers_is_an_error() -> None:
    x, u = np.array([0.5, -1.5]), np.array([2.0, 3.0])
    with Tape() as tape:
        total = summed(x)
        z, y = scaled(x, total), scaled(u, total)
    with pytest.raises(ValueError, match="`scale`: expected a number, which has no gradient"):
        tape.backward(z)
    tape.backward(y)
    np.testing.assert_array_equal(tape.gradients[u], [total, total])
    assert x not in tape.gradients
