"""Arrays of other libraries in the place of NumPy's: in calls of kernels, launches and the functions of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import madelung.kernels as mk
import madelung.numpy as mn
from madelung.kernels import Array, HashGrid, InOut, Int, Out, Pairs, Real, Vec3, dims, kernel, length

Row, Point = dims("Row Point")


class Lent:
    """Array of a library that speaks DLPack alone."""

    def __init__(self, x: Any) -> None:
        self.x = np.asarray(x)

    def __dlpack__(self, **options: Any) -> Any:
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.x.__dlpack_device__()


class LentOfOld(Lent):
    """One of the first protocol, which does not say whether memory may be written to."""

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.x.__dlpack__()


class Exposed:
    """Array of a library with NumPy's interface, as those of Warp."""

    def __init__(self, x: Any) -> None:
        self._x = np.asarray(x)
        self.__array_interface__ = self._x.__array_interface__


class OnDevice:
    """Array in the memory of a CUDA device."""

    def __dlpack__(self, **options: Any) -> Any:
        raise AssertionError("nobody asks for it")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


KINDS = [Lent, LentOfOld, Exposed]
kinds = pytest.mark.parametrize("lend", KINDS)


@kernel
def scaled(i: Row, x: Array[Real, Row], n: Array[Int, Row], a: Array[Real], y: Out[Real, Row]):
    y[i] = a * n[i] * x[i]


@kernel(adjoint=False)
def axpy(i: Row, a: Real, x: Array[Real, Row], y: InOut[Real, Row]):
    y[i] = a * x[i] + y[i]


@kernel
def spread(i: Row, x: Array[Vec3, Row], pairs: Pairs[Row], sums: Out[Real, Row]):
    e = 0.0
    for j, _ in pairs.row(i):
        e += length(x[j] - x[i])
    sums[i] = e


@kernel
def near(
    i: Row,
    x: Array[Vec3, Row],
    points: Array[Vec3, Point],
    radius: Real,
    grid: HashGrid[Row, Point],
    count: Out[Real, Row],
):
    n = 0.0
    for j, _ in grid.query(x[i], radius):
        n += 1 / (1 + length(points[j] - x[i]))
    count[i] = n


@kinds
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_calls_of_kernels(lend: Callable[[Any], Any], dtype: Any) -> None:
    x, n, a = np.array([0.5, -1.0, 2.0], dtype), np.array([1, 2, 3], np.int32), np.array(1.5, dtype)
    y = scaled(lend(x), lend(n), lend(a))
    assert type(y) is np.ndarray and y.dtype == dtype
    np.testing.assert_array_equal(y, scaled(x, n, a))
    # Beside arrays of NumPy, with gaps, and of another dtype, which is not cast in silence.
    np.testing.assert_array_equal(scaled(lend(np.repeat(x, 2)[::2]), n, a), y)
    np.testing.assert_array_equal(scaled(x, lend(n.astype(np.int64)), a), y)
    other = np.float32 if dtype is np.float64 else np.float64
    with pytest.raises(TypeError, match="`a`: expected float.., as `x`, got float"):
        scaled(x, n, lend(a.astype(other)))


@kinds
def test_launches(lend: Callable[[Any], Any]) -> None:
    """Memory is written where it lies."""
    x, y = np.arange(4.0), np.ones(4)
    mk.launch(axpy, {"a": 2.0, "x": lend(x)}, {"y": lend(y)})
    np.testing.assert_array_equal(y, 2 * x + 1)
    mk.launch(axpy, {"a": 2.0, "x": x}, {"y": mk.asarray(lend(y))})
    np.testing.assert_array_equal(y, 4 * x + 1)
    with pytest.raises(ValueError, match="`y`: expected memory of its own, got that of `x`"):
        mk.launch(axpy, {"a": 2.0, "x": lend(y)}, {"y": lend(y)})
    fixed = y.copy()
    fixed.flags.writeable = False
    if lend is Exposed:
        with pytest.raises(ValueError, match="`y`: expected an array that can be written to"):
            mk.launch(axpy, {"a": 2.0, "x": x}, {"y": lend(fixed)})


@kinds
def test_lists_and_grids(lend: Callable[[Any], Any]) -> None:
    rng = np.random.default_rng(0)
    x, points = rng.uniform(0, 4, (12, 3)), rng.uniform(0, 4, (9, 3))
    pairs = mn.neighbor_list(x, 2.0)
    np.testing.assert_array_equal(spread(lend(x), tuple(map(lend, pairs))), spread(x, pairs))
    found = near(lend(x), lend(points), 1.5, HashGrid(lend(points)))
    np.testing.assert_array_equal(found, near(x, points, 1.5, HashGrid(points)))


@kinds
def test_functions(lend: Callable[[Any], Any]) -> None:
    rng = np.random.default_rng(1)
    r, q, h = rng.uniform(0, 8, (10, 3)), np.tile([1.0, -1.0], 5), 8 * np.eye(3)
    for dtype in (np.float64, np.float32):
        arrays = [x.astype(dtype) for x in (r, q, h)]
        given = {"accuracy": 1e-4, "compute_forces": True}
        for a, b in zip(mn.ewald_summation(*map(lend, arrays), **given), mn.ewald_summation(*arrays, **given)):
            assert type(a) is np.ndarray and a.dtype == dtype
            np.testing.assert_array_equal(a, b)
    for a, b in zip(mn.neighbor_list(lend(r), 3.0, lend(h)), mn.neighbor_list(r, 3.0, h)):
        np.testing.assert_array_equal(a, b)
    excluded = np.array([[0, 1], [2, 3]], np.int32)
    given = {"exclusions": (lend(excluded), lend(np.array([0.0, 0.5]))), "accuracy": 1e-4}
    expected = mn.ewald_summation(r, q, h, **given | {"exclusions": (excluded, np.array([0.0, 0.5]))})
    np.testing.assert_array_equal(mn.ewald_summation(lend(r), lend(q), lend(h), **given), expected)
    idx = np.array([0, 0, 1], np.int64)
    np.testing.assert_array_equal(mn.segment_sum(lend(q[:3]), lend(idx)), mn.segment_sum(q[:3], idx))


def test_gradients() -> None:
    x, n, a, y = np.array([0.5, -1.0, 2.0]), np.array([1, 2, 3], np.int32), np.array(1.5), np.empty(3)
    lent = Lent(x)
    with mk.Tape() as tape:
        mk.launch(scaled, {"x": lent, "n": Lent(n), "a": a}, {"y": Lent(y)})
    tape.backward(Lent(y))
    np.testing.assert_array_equal(tape.gradients[lent], 1.5 * n)
    np.testing.assert_array_equal(tape.gradient(y, Lent(x)), 1.5 * n)


def test_capsules() -> None:
    """Taken once, and by one call."""
    x, n, a = np.array([0.5, -1.0]), np.array([1, 2], np.int32), np.array(1.5)
    for options in ({}, {"max_version": (1, 0)} if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else {}):
        capsule = x.__dlpack__(**options)
        np.testing.assert_array_equal(scaled(capsule, n, a), scaled(x, n, a))
        with pytest.raises(ValueError, match="`x`: expected a capsule of DLPack that nobody has taken yet"):
            scaled(capsule, n, a)
    y = np.ones(2)
    mk.launch(axpy, {"a": 2.0, "x": x}, {"y": y.__dlpack__()})
    np.testing.assert_array_equal(y, 2 * x + 1)
    assert mk.asarray(x.__dlpack__()).ctypes.data == x.ctypes.data
    np.testing.assert_array_equal(mn.segment_sum(x.__dlpack__(), n), mn.segment_sum(x, n))


def test_refused() -> None:
    x, n, a = np.array([0.5, -1.0]), np.array([1, 2], np.int32), np.array(1.5)
    with pytest.raises(TypeError, match="`x`: expected an array, with `__dlpack__` or an array interface, got 3"):
        mk.asarray(3)
    with pytest.raises(TypeError, match="`positions`: expected an array in the memory of the host, .* one of a CUDA"):
        mn.neighbor_list(OnDevice(), 2.0)

    class Refusing(Lent):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("no numbers of this kind")

    with pytest.raises(TypeError, match=r"`x`: expected an array .* of floats or .*, got Refusing \(no numbers"):
        scaled(Refusing(x), n, a)
