"""Kernels whose sizes no array among their arguments has: histograms, fills, tables."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import required
from madelung.kernels import Array, Int, Out, Real, atomic_add, dims, kernel, launch

torch = required("torch")
Atom, Bin = dims("Atom Bin")


@kernel(adjoint=False)
def histogram(i: Atom, x: Array[Int, Atom], count: Out[Int, Bin]):
    atomic_add(count[x[i]], 1)


@kernel(adjoint=False)
def weighted(i: Atom, x: Array[Int, Atom], w: Array[Real, Atom], count: Out[Int, Bin], total: Out[Real, Atom]):
    atomic_add(count[x[i]], 2)
    total[i] = 2.0 * w[i]


@kernel(adjoint=False)
def multiples(i: Bin, n: Int, y: Out[Int, Bin]):
    y[i] = int(i) * n


@kernel(adjoint=False)
def halves(i: Bin, y: Out[Real, Bin]):
    y[i] = 0.5 * float(int(i))


@pytest.mark.parametrize("array", [np.asarray, torch.as_tensor])
def test_histograms(array):
    x = np.random.default_rng(0).integers(0, 7, 100)
    expected = np.bincount(x, minlength=9)
    np.testing.assert_array_equal(histogram(array(x), Bin=9), expected)
    out = array(np.full(9, -5, np.int32))
    launch(histogram, {"x": array(x)}, {"count": out})
    np.testing.assert_array_equal(out, expected)
    w = np.random.default_rng(1).random(100)
    count, total = weighted(array(x), array(w), Bin=8)
    np.testing.assert_array_equal(count, 2 * expected[:8])
    np.testing.assert_array_equal(total, 2 * w)
    assert len(histogram(array(x[:0]), Bin=0)) == 0


@pytest.mark.parametrize("array", [np.asarray, torch.as_tensor])
def test_kernels_without_inputs(array):
    out = array(np.zeros(6, np.int32))
    launch(multiples, {"n": 3}, {"y": out})
    np.testing.assert_array_equal(out, np.arange(6) * 3)
    np.testing.assert_array_equal(multiples(n=2, Bin=4), np.arange(4) * 2)
    out = array(np.zeros(5))
    launch(halves, {}, {"y": out})
    np.testing.assert_array_equal(out, 0.5 * np.arange(5))
    np.testing.assert_array_equal(halves(Bin=3), [0.0, 0.5, 1.0])


def test_sizes_that_are_wrong():
    x = np.array([0, 1, 3])
    with pytest.raises(TypeError, match="`Bin` is missing"):
        histogram(x)
    with pytest.raises(ValueError, match="`Bin`: expected the size of a dimension, from 0 up, got -1"):
        histogram(x, Bin=-1)
    with pytest.raises(TypeError, match="`Bin`: expected an integer"):
        histogram(x, Bin=2.5)
    with pytest.raises(ValueError, match="4"):
        launch(histogram, {"x": x, "Bin": 4}, {"count": np.zeros(5, np.int32)})


def test_sizes_of_jax() -> None:
    jax_kernel = required("madelung.jax").jax_kernel
    (count,) = jax_kernel(histogram)(np.array([0, 1, 1]), output_dims=5)
    np.testing.assert_array_equal(count, [1, 2, 0, 0, 0])


@pytest.mark.parametrize("array", [np.asarray, torch.as_tensor])
def test_launches_with_another_size(array) -> None:
    x, out = array(np.array([0, 1, 1])), array(np.zeros(5, np.int32))
    for _ in range(3):
        launch(histogram, {"x": x, "Bin": 5}, {"count": out})
    for size in (9, -2):
        with pytest.raises(ValueError, match="`count`: expected shape|`Bin`: expected the size"):
            launch(histogram, {"x": x, "Bin": size}, {"count": out})


@kernel(adjoint=False)
def part(i: Atom, n: Array[Int, Atom], y: Out[Real, Atom]):
    y[i] = float(n[i]) / 3.0


def test_reals_of_integers_have_the_dtype_that_is_theirs() -> None:
    n = np.array([1, 2, 4])
    assert part(n).dtype == np.float64
    for dtype in (np.float32, np.float64, np.float16):
        for array in (np.asarray, torch.as_tensor):
            out = array(np.zeros(3, dtype))
            for _ in range(3):
                launch(part, {"n": array(n)}, {"y": out})
                np.testing.assert_array_equal(out, (n / 3.0).astype(dtype))
    for dtype in (np.int64, np.complex64):
        for array in (np.asarray, torch.as_tensor):
            with pytest.raises(TypeError, match="`y`: expected"):
                launch(part, {"n": array(n)}, {"y": array(np.zeros(3, dtype))})
    for dtype in (torch.float32, torch.float64):
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            for _ in range(3):
                found = part(torch.as_tensor(n))
                assert found.dtype == dtype
                np.testing.assert_array_equal(found, torch.as_tensor(n / 3.0, dtype=dtype))
            assert torch.compile(part, fullgraph=True, backend="aot_eager")(torch.as_tensor(n)).dtype == dtype
        finally:
            torch.set_default_dtype(before)


def test_reals_of_integers_in_jax() -> None:
    jax = required("jax")
    n = jax.numpy.arange(3)
    for is_double in (False, True):
        with jax.enable_x64(is_double):
            dtype = np.float64 if is_double else np.float32
            for f in (part, jax.jit(part)):
                found = f(n)
                assert found.dtype == dtype
                np.testing.assert_array_equal(found, (np.arange(3) / 3.0).astype(dtype))
            assert halves(Bin=2).dtype == np.float64
            carried, _ = jax.lax.scan(lambda x, _: (x + part(n), None), jax.numpy.zeros(3), None, length=2)
            np.testing.assert_allclose(carried, 2.0 * np.arange(3) / 3.0, rtol=1e-6)
