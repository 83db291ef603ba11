"""Calls and launches like earlier ones, which skip what the first one has found: with the results and errors of all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import madelung.kernels as mk
from conftest import required
from madelung.kernels import Array, Batch, InOut, Int, Out, Real, dims, kernel
from madelung.kernels import _op as ops

Row, System = dims("Row System")


@kernel
def scaled(i: Row, a: Real, n: Int, x: Array[Real, Row], y: Out[Real, Row]):
    y[i] = a * n * x[i]


@kernel(adjoint=False)
def axpy(i: Row, a: Real, x: Array[Real, Row], y: InOut[Real, Row]):
    y[i] = a * x[i] + y[i]


@kernel
def summed(i: Row, x: Array[Real, Row], of: Batch[Row, System], w: Array[Real, System], total: Out[Real, System]):
    total[of.of(i)] += w[of.of(i)] * x[i]


@pytest.fixture
def nothing_bound(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Function after which no call is bound to its op."""

    def bound(*_: Any) -> None:
        raise AssertionError("a call that was bound")

    return lambda: monkeypatch.setattr(ops, "Call", bound)


X = np.array([0.5, -1.0, 2.0])


def test_calls(nothing_bound: Any) -> None:
    x, idx, w = X.copy(), np.array([0, 1, 1], np.int32), np.array([2.0, 3.0])
    for _ in range(2):
        (
            scaled(2.0, 3, x),
            scaled(2.0, 3, x.astype(np.float32)),
            scaled(a=2.0, x=x, n=3),
            summed(x, idx, w),
            summed(x, w=w[:1]),
        )
    nothing_bound()
    x[0], idx[1], w[0] = 7.0, 0, 5.0
    np.testing.assert_array_equal(scaled(0.5, 4, x), 2 * x)
    np.testing.assert_array_equal(scaled(a=0.5, x=x, n=4), 2 * x)
    assert scaled(0.5, 4, x.astype(np.float32)).dtype == np.float32
    np.testing.assert_array_equal(summed(x, idx, w), [5 * (7 - 1), 3 * 2])
    np.testing.assert_array_equal(summed(x, w=w[:1]), [5 * 8])


def test_launches(nothing_bound: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into other arrays than before, in place."""
    x, y, z = X.copy(), np.ones(3), np.empty((2, 3))
    for out in (y, y.copy()):
        mk.launch(axpy, {"a": 1.0, "x": x}, {"y": out})
    for _ in range(2):
        mk.launch(scaled, {"a": 2.0, "n": 3, "x": x}, {"y": z[0]})
    nothing_bound()
    x[0] = 4.0
    mk.launch(axpy, {"a": 2.0, "x": x}, {"y": y})
    np.testing.assert_array_equal(y, [0.5 + 1 + 8, 0.0 - 2, 3.0 + 4])
    mk.launch(scaled, {"a": 0.5, "n": 2, "x": x}, {"y": z[1]})
    np.testing.assert_array_equal(z[1], x)


def test_errors_after_a_call_that_was_right() -> None:
    x, y, both = X.copy(), np.ones(3), np.zeros(4)

    def launch(a: Any = 2.0, x: Any = x, y: Any = y) -> None:
        mk.launch(axpy, {"a": a, "x": x}, {"y": y})

    for _ in range(2):
        launch()
        launch(x=both[:3].copy()[:], y=both[1:])
        scaled(2.0, 3, x)
    kept = y.copy()
    with pytest.raises(ValueError, match="`a`: expected a finite number, got nan"):
        launch(a=float("nan"))
    with pytest.raises(ValueError, match="`n`: expected an integer that 32 bits can hold"):
        scaled(2.0, 2**31, x)
    with pytest.raises(TypeError, match="`n`: expected an integer, got True"):
        scaled(2.0, True, x)
    for shared in (y, y[:]):
        with pytest.raises(ValueError, match="`y`: expected memory of its own, got that of `x`"):
            launch(x=shared)
    with pytest.raises(ValueError, match="`y`: expected memory of its own, got that of `x`"):
        launch(x=both[:3], y=both[1:])
    fixed = y.copy()
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="`y`: expected an array that can be written to"):
        launch(y=fixed)
    with pytest.raises(TypeError, match="`y`: expected float64, as `x`, got float32"):
        launch(y=y.astype(np.float32))
    with pytest.raises(ValueError, match=r"`y`: expected shape \(3,\)"):
        launch(y=np.ones(4))
    with pytest.raises(ValueError, match="`y`: expected finite numbers|`x`: expected finite numbers"):
        launch(x=np.array([1.0, np.inf, 2.0]))
    np.testing.assert_array_equal(y, kept)


def test_tapes_record_calls_like_earlier_ones() -> None:
    x = X.copy()
    for _ in range(2):
        scaled(2.0, 3, x)
    with mk.Tape() as tape:
        y = scaled(2.0, 3, x)
    np.testing.assert_array_equal(tape.gradient(y, x), 6.0)


@pytest.mark.host("kernels of the host")
def test_tensors(nothing_bound: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are computed where they are to lie, and autograd is told."""
    torch = required("torch")
    from madelung.torch._kernels import _InPlace

    def copied(*_: Any) -> None:
        raise AssertionError("a result that was copied")

    monkeypatch.setattr(_InPlace, "write", staticmethod(copied))
    x, y = torch.from_numpy(X.copy()), torch.ones(3, dtype=torch.float64)
    for leaf in (x, x.clone().requires_grad_()):
        mk.launch(axpy, {"a": 2.0, "x": leaf}, {"y": y})
    nothing_bound()
    before = y.clone()
    leaf = torch.ones(3, dtype=torch.float64, requires_grad=True)
    product = (leaf * y).sum()
    mk.launch(axpy, {"a": 0.5, "x": x}, {"y": y})
    assert torch.equal(y, before + 0.5 * x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
    monkeypatch.undo()
    with pytest.raises(ValueError, match="`y`: expected memory of its own, got that of `x`"):
        mk.launch(axpy, {"a": 0.5, "x": y}, {"y": y})
    # Under transforms, which see a copy.
    found = torch.func.vmap(lambda x: scaled(2.0, 3, x))(torch.stack([x, -x]))
    assert torch.equal(found, torch.stack([6 * x, -6 * x]))
