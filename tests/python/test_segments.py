"""Segment operations against loops of NumPy, with derivatives to second order, in every namespace."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import madelung.jax as mj
import madelung.numpy as mn
import madelung.torch as mt
from differences import check_jax, check_torch

NAMESPACES = {"numpy": (mn, np.asarray), "torch": (mt, torch.as_tensor), "jax": (mj, jnp.asarray)}
spaces = pytest.mark.parametrize("space", NAMESPACES)
NAMES = ("segment_sum", "segment_mean", "segment_max", "segment_softmax", "segment_dot")
names = pytest.mark.parametrize("name", NAMES)
# Of one number for each entry, of one feature, more than lanes have room for, and of several axes.
SHAPES = ((), (1,), (33,), (3, 5))
shapes = pytest.mark.parametrize("shape", SHAPES)
# Empty segments first, between and last; one that is long.
IDX = np.repeat([1, 2, 4, 5], [3, 1, 70, 6])
SEGMENTS = 8


@pytest.fixture(autouse=True)
def doubles() -> Iterator[None]:
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield
    torch.compiler.reset()


def call(space: str, name: str, *given: Any) -> np.ndarray:
    module, array = NAMESPACES[space]
    return np.asarray(getattr(module, name)(*(array(x) if isinstance(x, np.ndarray) else x for x in given)))


def values(name: str, shape: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    g = np.random.default_rng([5, seed])
    if name == "segment_max":
        # Apart from each other, so that differences of values tell derivatives.
        apart = np.linspace(-2, 2, len(IDX)).reshape(-1, *[1] * len(shape))
        return [g.permuted(np.broadcast_to(apart, (len(IDX), *shape)), axis=0)]
    return [g.normal(size=(len(IDX), *shape)) for _ in range(2 if name == "segment_dot" else 1)]


def loops(name: str, arrays: list[np.ndarray], idx: np.ndarray, segments: int) -> np.ndarray:
    """The definition, an element at a time."""
    x = arrays[0].astype(float).reshape(len(idx), math.prod(arrays[0].shape[1:]))
    rows = [np.flatnonzero(idx == s) for s in range(segments)]
    if name == "segment_dot":
        y = arrays[1].astype(float).reshape(x.shape)
        return np.array([sum(float(x[p] @ y[p]) for p in of) for of in rows])
    if name == "segment_softmax":
        weights = np.zeros_like(x)
        for of in rows:
            for c in range(x.shape[1]):
                e = np.exp(x[of, c] - max(x[of, c], default=0.0))
                weights[of, c] = e / e.sum()
        return weights.reshape(arrays[0].shape)
    reduce = {"segment_sum": np.sum, "segment_mean": np.mean, "segment_max": np.max}[name]
    found = np.zeros((segments, x.shape[1]))
    for s, of in enumerate(rows):
        for c in range(x.shape[1]):
            found[s, c] = reduce(x[of, c]) if len(of) else 0.0
    return found.reshape(segments, *arrays[0].shape[1:])


@spaces
@names
@shapes
def test_against_loops(space: str, name: str, shape: tuple[int, ...]) -> None:
    arrays = values(name, shape)
    for idx in (IDX, IDX.astype(np.int32)):
        found, expected = call(space, name, *arrays, idx, SEGMENTS), loops(name, arrays, IDX, SEGMENTS)
        assert found.shape == expected.shape and found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * max(np.abs(expected).max(), 1.0))
    as_many = call(space, name, *arrays, IDX)
    np.testing.assert_array_equal(as_many, found if name == "segment_softmax" else found[:6])


@spaces
@names
def test_single_precision(space: str, name: str) -> None:
    arrays = [x.astype(np.float32) for x in values(name, (33,))]
    found, expected = call(space, name, *arrays, IDX, SEGMENTS), loops(name, arrays, IDX, SEGMENTS)
    assert found.dtype == np.float32
    # Sums are carried in float64: rounding is that of addends, or of the result.
    np.testing.assert_allclose(found, expected, rtol=0, atol=5e-7 * np.abs(expected).max())


@spaces
def test_sums_lose_no_small_addends(space: str) -> None:
    """2²⁴ + 1 is no float32."""
    x = np.array([2.0**24, *[1.0] * 1000], np.float32)
    idx = np.zeros(len(x), np.int32)
    assert call(space, "segment_sum", x, idx) == [2.0**24 + 1000]
    np.testing.assert_allclose(call(space, "segment_mean", x, idx), (2.0**24 + 1000) / 1001, rtol=2.0**-23)


@spaces
@names
def test_the_same_bits_twice(space: str, name: str) -> None:
    arrays = values(name, (33,))
    first, second = (call(space, name, *arrays, IDX, SEGMENTS) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, call("numpy", name, *arrays, IDX, SEGMENTS))


@spaces
@names
def test_without_entries_and_without_segments(space: str, name: str) -> None:
    for segments in (0, 3):
        nothing = [np.zeros((0, 2))] * (2 if name == "segment_dot" else 1)
        found = call(space, name, *nothing, np.zeros(0, np.int32), segments)
        np.testing.assert_array_equal(found, loops(name, nothing, np.zeros(0, int), segments))


@spaces
def test_softmax_of_large_scores(space: str) -> None:
    """Neither overflows nor becomes 0/0, and its weights add up to one."""
    scores = np.array([[1e300, -1e300], [-1e300, -1e300], [800.0, -800.0], [800.0, -801.0], [-5e3, 5e3]])
    idx = np.array([0, 0, 1, 1, 3])
    weights = call(space, "segment_softmax", scores, idx, 4)
    e = 1.0 / (1.0 + np.exp(-1.0))
    np.testing.assert_allclose(weights, [[1, 0.5], [0, 0.5], [0.5, e], [0.5, 1 - e], [1, 1]], rtol=1e-15)
    sums = call(space, "segment_sum", call(space, "segment_softmax", *values("segment_softmax", (33,)), IDX), IDX, 6)
    np.testing.assert_allclose(sums[[1, 2, 4, 5]], 1.0, rtol=1e-14)
    np.testing.assert_array_equal(sums[[0, 3]], 0.0)


@spaces
def test_largest_of_extreme_numbers(space: str) -> None:
    least = -np.finfo(float).max
    x = np.array([least, -1e308, least, -3.0, -2.0, -2.0])
    assert call(space, "segment_max", x, np.array([0, 0, 1, 3, 3, 3])).tolist() == [-1e308, least, 0.0, -2.0]
    x = np.array([-np.finfo(np.float32).max, -1e38], np.float32)
    assert call(space, "segment_max", x, np.array([0, 1])).tolist() == x.tolist()


def test_the_first_of_equals_has_the_derivative() -> None:
    x = torch.tensor([1.0, 3.0, 3.0, 2.0, 2.0], requires_grad=True)
    mt.segment_max(x, torch.tensor([0, 0, 0, 1, 1]), 3).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.0, 1.0, 0.0]


@names
@shapes
def test_derivatives_in_torch(name: str, shape: tuple[int, ...]) -> None:
    function, idx = getattr(mt, name), torch.from_numpy(IDX)
    x = [torch.from_numpy(a).requires_grad_() for a in values(name, shape)]

    # Not linear, so that second derivatives are there.
    def f(*x: Any) -> Any:
        return function(*x, idx, SEGMENTS) ** 3

    assert torch.autograd.gradcheck(f, x, fast_mode=True, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, x, fast_mode=True, atol=1e-4)
    check_torch(f, x, forward=True)


@names
@shapes
def test_derivatives_in_jax(name: str, shape: tuple[int, ...]) -> None:
    function, idx = getattr(mj, name), jnp.asarray(IDX)
    x = [jnp.asarray(a) for a in values(name, shape)]
    check_jax(lambda *x: function(*x, idx, SEGMENTS) ** 3, x)


class _Module(torch.nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.function = getattr(mt, name)

    def forward(self, idx: Any, *x: Any) -> Any:
        return self.function(*x, idx, SEGMENTS) ** 3


@names
@pytest.mark.parametrize("shape", SHAPES[::3])
def test_compiled_and_exported(name: str, shape: tuple[int, ...]) -> None:
    module, idx = _Module(name), torch.from_numpy(IDX)
    x = [torch.from_numpy(a).requires_grad_() for a in values(name, shape)]
    expected = module(idx, *x)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")(idx, *x)
    assert torch.equal(compiled, expected)
    for got, want in zip(torch.autograd.grad(compiled.sum(), x), torch.autograd.grad(expected.sum(), x)):
        torch.testing.assert_close(got, want, rtol=1e-14, atol=1e-14)
    exported = torch.export.export(module, (idx, *(a.detach() for a in x))).module()
    assert torch.equal(exported(idx, *x), expected)


@names
def test_compiled_for_any_length(name: str) -> None:
    """One graph for lists of any length: the number of segments may be a size."""

    @torch.compile(fullgraph=True, backend="aot_eager", dynamic=True)
    def f(idx: Any, atoms: Any, *x: Any) -> Any:
        return getattr(mt, name)(*x, idx, atoms.shape[0])

    for rows, atoms in ((80, 8), (74, 7), (4, 6)):
        x = [torch.from_numpy(a[:rows]) for a in values(name, (5,))]
        idx = torch.from_numpy(IDX[:rows])
        assert torch.equal(f(idx, torch.zeros(atoms, 3), *x), getattr(mt, name)(*x, idx, atoms))


@names
@pytest.mark.parametrize("shape", SHAPES[::2])
def test_jitted_and_mapped(name: str, shape: tuple[int, ...]) -> None:
    function, idx = getattr(mj, name), jnp.asarray(IDX)
    x, others = ([jnp.asarray(a) for a in values(name, shape, seed)] for seed in (0, 1))
    jitted = jax.jit(lambda idx, *x: function(*x, idx, SEGMENTS))
    np.testing.assert_array_equal(jitted(idx, *x), function(*x, idx, SEGMENTS))
    many = [jnp.stack(both) for both in zip(x, others)]
    mapped = jax.jit(jax.vmap(lambda *x: function(*x, idx, SEGMENTS)))(*many)
    np.testing.assert_array_equal(mapped, [function(*a, idx, SEGMENTS) for a in (x, others)])
    lists = jnp.stack([idx, idx + 1])
    mapped = jax.vmap(lambda idx: function(*x, idx, SEGMENTS))(lists)
    np.testing.assert_array_equal(mapped, [function(*x, i, SEGMENTS) for i in lists])
    with pytest.raises(ValueError, match="`num_segments`: expected the number of segments"):
        jax.jit(lambda idx: function(*x, idx))(idx)


@names
def test_mapped_in_torch(name: str) -> None:
    function, idx = getattr(mt, name), torch.from_numpy(IDX)
    x, others = ([torch.from_numpy(a) for a in values(name, (3,), seed)] for seed in (0, 1))
    many = [torch.stack(both) for both in zip(x, others)]
    mapped = torch.func.vmap(lambda *x: function(*x, idx, SEGMENTS))(*many)
    for got, a in zip(mapped, (x, others)):
        assert torch.equal(got, function(*a, idx, SEGMENTS))


def test_rows_of_neighbours() -> None:
    """Coordination numbers and vectors that add up to zero, in a crystal."""
    from madelung.torch import neighbor_list

    grid = torch.cartesian_prod(*[torch.arange(4.0, dtype=torch.float64)] * 3)
    pairs, _, _, vectors = neighbor_list(grid, 1.2, 4.0 * torch.eye(3, dtype=torch.float64), return_vectors=True)
    assert mt.segment_sum(torch.ones(pairs.shape[1]), pairs[0], 64).tolist() == [6.0] * 64
    assert mt.segment_sum(vectors, pairs[0], 64).abs().max() < 1e-14
    assert mt.segment_dot(vectors, vectors, pairs[0], 64).sub(6.0).abs().max() < 1e-14


GOOD = {"values": np.ones((4, 2)), "segment_idx": np.array([0, 0, 2, 2]), "num_segments": 3}
WRONG = [
    ({"values": np.array(1.0)}, ValueError, r"`values`: expected shape \(P,\), got \(\)"),
    ({"values": np.ones((4, 0))}, ValueError, r"`values`: expected at least one feature, got \(4, 0\)"),
    ({"values": np.ones((4, 2), int)}, Exception, r"`values`: expected float32 or float64, got int64"),
    ({"values": np.full((4, 2), np.nan)}, Exception, "`values`: expected finite numbers, got NaN in row 0"),
    ({"values": np.full((4, 1), np.inf)}, Exception, "`values`: expected finite numbers, got inf in row 0"),
    ({"segment_idx": np.array([0, 0, 2])}, ValueError, r"`segment_idx`: expected shape \(4,\), got \(3,\)"),
    ({"segment_idx": np.zeros((4, 1), int)}, ValueError, r"`segment_idx`: expected shape \(4,\), got \(4, 1\)"),
    ({"segment_idx": np.array([0, 2, 1, 2])}, ValueError, "`segment_idx`: expected a sorted .* 2 for entry 1, then 1"),
    ({"segment_idx": np.array([-1, 0, 1, 2])}, ValueError, "`segment_idx`: expected segments numbered from 0 up, got"),
    ({"segment_idx": np.array([0, 0, 2, 3])}, ValueError, "`segment_idx`: expected segments below 3 .* got 3 for"),
    ({"segment_idx": np.ones(4)}, TypeError, "`segment_idx`: expected integers, got float64"),
    ({"segment_idx": np.array([0, 0, 1, 2**31])}, ValueError, "`segment_idx`: expected integers that 32 bits can hold"),
    ({"num_segments": -1}, ValueError, "`num_segments`: expected an integer from 0 up, got -1"),
    ({"num_segments": 2.0}, TypeError, "`num_segments`: expected an integer, got 2.0"),
    ({"num_segments": True}, TypeError, "`num_segments`: expected an integer, got True"),
]


@spaces
@pytest.mark.parametrize("name", NAMES[:4])
@pytest.mark.parametrize(("change", "error", "message"), WRONG)
def test_wrong_arguments(space: str, name: str, change: dict[str, Any], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call(space, name, *(GOOD | change).values())


@spaces
def test_wrong_pairs_of_arrays(space: str) -> None:
    x, idx = np.ones((4, 2)), GOOD["segment_idx"]
    with pytest.raises(ValueError, match=r"`y`: expected shape \(4, 2\), as `x`, got \(4, 1\)"):
        call(space, "segment_dot", x, np.ones((4, 1)), idx, 3)
    with pytest.raises(TypeError, match="`y`: expected .*float64, as `x`, got .*float32"):
        call(space, "segment_dot", x, np.ones((4, 2), np.float32), idx, 3)


@spaces
def test_more_segments_than_can_be_numbered(space: str) -> None:
    with pytest.raises(ValueError, match="`num_segments`: expected at most 1073741823, with 2 features"):
        call(space, "segment_max", np.ones((4, 2)), GOOD["segment_idx"], 2**30)


def test_compiled_graphs_are_told_how_many() -> None:
    compiled = torch.compile(lambda x, idx: mt.segment_sum(x, idx), fullgraph=True, backend="eager")
    with pytest.raises(Exception, match="num_segments"):
        compiled(torch.ones(4), torch.tensor([0, 0, 1, 1]))
