"""Arrays of NumPy that kernels go on with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import madelung.kernels as mk
from in_out_kernels import Bin, Point, arguments, axpy, expected, go_on
from madelung.kernels import Array, InOut, Int, Out, Real
from madelung.numpy._framework import Numpy

both = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def assert_equal(found: dict[str, Any], wanted: dict[str, Any], like: dict[str, Any]) -> None:
    for name, x in wanted.items():
        np.testing.assert_array_equal(found[name], x, name)
        assert found[name].dtype == like.get(name, x).dtype, name


@both
@pytest.mark.parametrize("rows", [6, 0])
def test_calls(dtype: Any, rows: int) -> None:
    """Arguments stay as they are, whichever way they are given."""
    inputs, held = arguments(dtype, rows)
    kept = {name: x.copy() for name, x in held.items()}
    wanted = expected(inputs, held)
    assert (go_on.outputs, go_on.in_out) == (list(wanted), list(held))
    for results in (go_on(**inputs, **held), go_on(*inputs.values(), *held.values())):
        assert_equal(dict(zip(wanted, results)), wanted, held)
    for name, x in kept.items():
        np.testing.assert_array_equal(held[name], x, name)
    # Of other integers, in Fortran's order, and from a list.
    others = held | {"n": held["n"].astype(np.int64), "wide": held["wide"].astype(object).tolist()}
    others |= {"m": np.asfortranarray(held["m"]), "counts": held["counts"].astype(np.int16)}
    assert_equal(dict(zip(wanted, go_on(**inputs, **others))), wanted, held)


@both
@pytest.mark.parametrize("rows", [6, 0])
def test_launch(dtype: Any, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays are read and written where they are; outputs without the mark begin at zero, whatever they hold."""
    copied = []
    monkeypatch.setattr(Numpy, "write", staticmethod(lambda out, x: copied.append(out.size) or np.copyto(out, x)))
    inputs, held = arguments(dtype, rows)
    wanted = expected(inputs, held)
    arrays = {name: x.copy() for name, x in held.items()} | {"new": np.full(3, 99, np.int32)}
    mk.launch(go_on, inputs, arrays)
    assert set(copied) <= {0}
    assert_equal(arrays, wanted, held)
    # Once more from there.
    wanted = expected(inputs, {name: wanted[name] for name in held})
    del arrays["new"]
    mk.launch(go_on, inputs, arrays)
    assert_equal(arrays, {name: wanted[name] for name in held}, held)


@both
def test_launch_with_gaps(dtype: Any) -> None:
    inputs, held = arguments(dtype)
    wanted = expected(inputs, held)
    around = {name: np.full((*x.shape, 2), -77, x.dtype) for name, x in held.items()}
    for name, x in held.items():
        around[name][..., 1] = x
    around["v"] = np.full((12, 3), -77, dtype)[::-2]
    around["v"][...] = held["v"]
    within = {name: x if name == "v" else x[..., 1] for name, x in around.items()}
    mk.launch(go_on, inputs, within)
    assert_equal(within, {name: wanted[name] for name in held}, held)
    assert (around["v"].base[::2] == -77).all()
    assert all((x[..., 0] == -77).all() for name, x in around.items() if name != "v")


def test_machine_code() -> None:
    assert go_on.compile("float32", "float64")
    for dtype in (np.float64, np.float32):
        inputs, held = arguments(dtype)
        wanted = expected(inputs, held)
        assert_equal(dict(zip(wanted, go_on(**inputs, **held))), wanted, held)


def test_many_rows() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 200_000))
    # Products may be rounded once more where they are not fused.
    tolerance = np.spacing(np.abs(0.3 * x) + np.abs(y))
    before = y.copy()
    mk.launch(axpy, {"a": 0.3, "x": x}, {"y": y})
    assert (np.abs(y - (0.3 * x + before)) <= tolerance).all()
    np.testing.assert_array_equal(axpy(0.3, x, before), y)


@mk.kernel(adjoint=False)
def histogram(i: Point, x: Array[Real, Point], width: Real, counts: InOut[Int, Bin]):
    mk.atomic_add(counts[int(mk.floor(x[i] / width))], 1)


def test_running_histogram() -> None:
    counts, frames = np.zeros(8, np.int32), np.random.default_rng(1).uniform(0, 4, (5, 100))
    for x in frames:
        mk.launch(histogram, {"x": x, "width": 0.5}, {"counts": counts})
    np.testing.assert_array_equal(counts, np.histogram(frames, 8, (0, 4))[0])


@mk.kernel(adjoint=False)
def aged(i: Point, age: InOut[Int, Point]):
    age[i] += 1


def test_integers_alone() -> None:
    ages = np.array([3, 0, -1], np.int32)
    np.testing.assert_array_equal(aged(ages), [4, 1, 0])
    mk.launch(aged, {}, {"age": ages})
    mk.launch(aged, {}, {"age": ages})
    np.testing.assert_array_equal(ages, [5, 2, 1])
    np.testing.assert_array_equal(aged([1, 2]), [2, 3])
    with pytest.raises(TypeError, match="expected arrays of NumPy, PyTorch or JAX for `age`, got none"):
        aged(3)


def test_refused_launches() -> None:
    x, y = np.arange(4.0), np.ones(4)

    def refused(kind: type[Exception], message: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        with pytest.raises(kind, match=message):
            mk.launch(axpy, {"a": 2.0, "x": x, **inputs}, outputs)
        np.testing.assert_array_equal(y, 1.0)

    alone = "`y`: expected its array under `outputs` alone, where it is read and written, got one under `inputs`"
    refused(ValueError, alone, {"y": y}, {"y": y})
    refused(ValueError, alone, {"y": y}, {})
    refused(ValueError, "`outputs`: expected an array for `y`, which is read and written, got none", {}, {})
    refused(ValueError, "`outputs`: expected arrays for y, got one for `x`", {}, {"x": x, "y": y})
    refused(ValueError, "`y`: expected memory of its own, got that of `x`", {"x": y}, {"y": y})
    refused(ValueError, "`y`: expected memory of its own, got that of `x`", {"x": y[:3]}, {"y": y[1:]})
    refused(TypeError, "`y`: expected float64, as `x`, got float32", {}, {"y": y.astype(np.float32)})
    refused(ValueError, r"`y`: expected shape \(4,\), got \(3,\)", {}, {"y": y[1:]})
    fixed = y.copy()
    fixed.flags.writeable = False
    refused(ValueError, "`y`: expected an array that can be written to", {}, {"y": fixed})
    refused(ValueError, "`y`: expected finite numbers, got NaN in row 2", {}, {"y": np.array([0, 1, np.nan, 3])})
    inputs, held = arguments()
    with pytest.raises(TypeError, match="`n`: expected int32, got int64"):
        mk.launch(go_on, inputs, held | {"n": held["n"].astype(np.int64)})
    with pytest.raises(TypeError, match="`wide`: expected int64, got int32"):
        mk.launch(go_on, inputs, held | {"wide": held["n"]})
    with pytest.raises(TypeError, match="`axpy`: `y` is missing"):
        axpy(2.0, x)
    with pytest.raises(ValueError, match="`n`: expected integers that 32 bits can hold, got 1099511627776"):
        go_on(**inputs, **held | {"n": np.full(6, 2**40)})


@mk.kernel
def squared(i: Point, x: Array[Real, Point], y: Out[Real, Point]):
    y[i] = x[i] ** 2


@mk.kernel(adjoint=False)
def seen(i: Point, y: Array[Real, Point], before: Out[Real, Point]):
    before[i] = y[i]


@mk.kernel(adjoint=False)
def doubled(i: Point, y: InOut[Real, Point]):
    y[i] *= 2


def test_ops() -> None:
    """Of several kernels: a step goes on with what an earlier one left, or with the op's argument."""
    x, y = np.arange(4.0), np.array([3.0, -1.0, 0.5, 8.0])
    left = mk.op("tests::left", [squared, axpy, doubled])
    assert (left.outputs, left.in_out) == (["y"], [])
    np.testing.assert_array_equal(left(x, a=3.0), 2 * (x**2 + 3 * x))
    out = np.full(4, np.nan)
    mk.launch(left, {"x": x, "a": 3.0}, {"y": out})
    np.testing.assert_array_equal(out, 2 * (x**2 + 3 * x))
    # Read by an earlier step, which sees it as it was, in place too.
    begun = mk.op("tests::begun", [seen, doubled, axpy], constraints={"y": "finite"})
    assert (begun.outputs, begun.in_out) == (["before", "y"], ["y"])
    before, after = begun(y, a=3.0, x=x)
    np.testing.assert_array_equal(before, y)
    np.testing.assert_array_equal(after, 2 * y + 3 * x)
    place = y.copy()
    mk.launch(begun, {"a": 3.0, "x": x}, {"y": place, "before": out})
    np.testing.assert_array_equal(place, 2 * y + 3 * x)
    np.testing.assert_array_equal(out, y)
    # Scratch is no argument: some step has to write it first.
    between = [mk.OutputSpec("y", Real, (Point,))]
    inner = mk.op("tests::inner", [squared, doubled, seen], scratch=between)
    np.testing.assert_array_equal(inner(x), 2 * x**2)
    with pytest.raises(ValueError, match="`scratch`: expected `y` to be written by a step before one that goes on"):
        mk.op("tests::bad", [doubled, seen], scratch=between)
    with pytest.raises(ValueError, match="`scratch`: expected `y`, which `seen` reads after an earlier step wrote it"):
        mk.op("tests::bad", [doubled, seen])
    with pytest.raises(ValueError, match="an array that no earlier step has read"):
        mk.op("tests::bad", [squared, seen, doubled], scratch=between)(x)
    with pytest.raises(ValueError, match="`y`: expected finite numbers > 0"):
        mk.op("tests::positive", [doubled], constraints={"y": "positive"})(y)


def test_no_derivatives() -> None:
    x, y = np.arange(4.0), np.ones(4)
    with mk.Tape() as tape:
        found = mk.op("tests::left", [squared, doubled])(x), axpy(2.0, x, y)
    for result, by in ((found[0], x), (found[1], x), (found[1], y)):
        with pytest.raises(NotImplementedError, match="no form for Gradient: it is not differentiated"):
            tape.gradient(result, by)
