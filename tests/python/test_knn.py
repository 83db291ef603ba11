"""Nearest points against brute force over images, in every namespace."""

from __future__ import annotations

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


@pytest.fixture(autouse=True)
def doubles() -> Iterator[None]:
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield


def call(space: str, queries: Any, points: Any, k: int, **options: Any) -> list[np.ndarray]:
    module, array = NAMESPACES[space]
    given = {name: array(x) if isinstance(x, np.ndarray) else x for name, x in options.items()}
    return [np.asarray(x) for x in module.knn(array(queries), array(points), k, **given)]


def images(cell: np.ndarray, pbc: Any, reach: float) -> np.ndarray:
    """All S whose translation may bring a point within reach, for points within a box around the cell."""
    inverse = np.linalg.inv(cell)
    most = [int(np.ceil(reach * np.linalg.norm(inverse[:, a]) + 3)) if pbc[a] else 0 for a in range(3)]
    return np.stack(np.meshgrid(*(np.arange(-m, m + 1) for m in most), indexing="ij"), -1).reshape(-1, 3)


def brute_force(queries: Any, points: Any, k: int, cell: Any, pbc: Any) -> tuple[np.ndarray, ...]:
    """Indices, distances and images, by distance, then index, then S."""
    reach = 2.0 * np.abs(cell).sum()
    every = images(cell, pbc, reach)
    found: list[Any] = []
    for q in queries:
        d = points[None] - q + (every @ cell)[:, None]
        lengths = np.sqrt((d**2).sum(-1))
        s, j = np.meshgrid(np.arange(len(every)), np.arange(len(points)), indexing="ij")
        order = np.lexsort([*every[s.ravel()].T[::-1], j.ravel(), lengths.ravel()])[:k]
        assert len(order) < k or lengths.ravel()[order[-1]] < reach or not any(pbc)
        found.append((j.ravel()[order], lengths.ravel()[order], every[s.ravel()[order]]))
    return tuple(np.stack(x) for x in zip(*found))


@pytest.mark.parametrize("seed", range(40))
def test_against_brute_force(seed: int) -> None:
    g = np.random.default_rng([7, seed])
    cell = g.normal(size=(3, 3)) + (4.0 if seed % 3 else 1.0) * np.eye(3) * g.choice([-1, 1])
    pbc = g.random(3) < 0.6
    n, k = int(g.integers(1, 30)), int(g.integers(1, 12))
    k = k if pbc.any() else min(k, n)
    points, queries = (g.uniform(-0.5, 1.5, (m, 3)) @ cell for m in (n, 9))
    expected = brute_force(queries, points, k, cell, pbc)
    options = {"cell": cell, "pbc": pbc} if pbc.any() or seed % 2 else {}
    indices, distances, shifts, vectors = call(
        "numpy", queries, points, k, **options, return_shifts=True, return_vectors=True
    )
    np.testing.assert_array_equal(indices, expected[0])
    np.testing.assert_array_equal(shifts, expected[2])
    np.testing.assert_allclose(distances, expected[1], rtol=0, atol=1e-13 * expected[1].max())
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), distances, rtol=1e-14)
    for space in ("torch", "jax"):
        for x, y in zip(call(space, queries, points, k, **options, return_shifts=True), (indices, distances, shifts)):
            np.testing.assert_array_equal(x, y)


@spaces
def test_ties_go_by_index_and_batches_are_apart(space: str) -> None:
    grid = np.stack(np.meshgrid(*[np.arange(3.0)] * 3, indexing="ij"), -1).reshape(-1, 3)
    indices, distances = call(space, grid[13:14], grid, 7)
    assert indices.tolist() == [[13, 4, 10, 12, 14, 16, 22]]
    assert distances.tolist() == [[0.0, *[1.0] * 6]]
    two, of = np.concatenate([grid, 0.5 * grid]), np.repeat([0, 1], [27, 27]).astype(np.int32)
    both = call(space, two, two, 5, batch_idx=of, query_batch_idx=of)
    first, second = call(space, grid, grid, 5), call(space, 0.5 * grid, 0.5 * grid, 5)
    np.testing.assert_array_equal(both[0], np.concatenate([first[0], second[0] + 27]))
    np.testing.assert_array_equal(both[1], np.concatenate([first[1], second[1]]))


@spaces
def test_single_precision(space: str) -> None:
    """Searched for the coordinates given, and lengths to single precision."""
    g = np.random.default_rng(3)
    points = g.random((50, 3)).astype(np.float32)
    indices, distances = call(space, points, points, 4)
    expected = brute_force(points.astype(float), points.astype(float), 4, np.eye(3), (False,) * 3)
    np.testing.assert_array_equal(indices, expected[0])
    assert distances.dtype == np.float32
    np.testing.assert_allclose(distances, expected[1], rtol=0, atol=2e-7)


def system() -> tuple[Any, ...]:
    g = np.random.default_rng(1)
    cell = 3.0 * np.eye(3) + 0.3 * g.normal(size=(3, 3))
    return g.random((4, 3)) @ cell, g.random((9, 3)) @ cell, cell


def test_derivatives_to_second_order_in_torch() -> None:
    inputs = [torch.from_numpy(x).requires_grad_() for x in system()]

    def distances(q: Any, r: Any, h: Any) -> Any:
        return mt.knn(q, r, 5, h)[1] ** 1.5

    assert torch.autograd.gradcheck(distances, inputs, fast_mode=True, rtol=1e-5, atol=1e-7)
    check_torch(distances, inputs)
    compiled = torch.compile(distances, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*inputs), distances(*inputs))
    exported = torch.export.export(_Module(), tuple(x.detach() for x in inputs)).module()
    assert torch.equal(exported(*inputs), distances(*inputs))


class _Module(torch.nn.Module):
    def forward(self, q: Any, r: Any, h: Any) -> Any:
        return mt.knn(q, r, 5, h)[1] ** 1.5


def test_derivatives_to_second_order_in_jax() -> None:
    inputs = [jnp.asarray(x) for x in system()]

    def distances(q: Any, r: Any, h: Any) -> Any:
        return mj.knn(q, r, 5, h)[1] ** 1.5

    check_jax(distances, inputs)
    np.testing.assert_array_equal(jax.jit(distances)(*inputs), distances(*inputs))
    many = jnp.stack([inputs[0], inputs[0] + 0.1])
    mapped = jax.vmap(lambda q: distances(q, *inputs[1:]))(many)
    np.testing.assert_array_equal(mapped, [distances(q, *inputs[1:]) for q in many])


def test_points_on_one_place_have_gradients() -> None:
    r = torch.from_numpy(system()[1]).requires_grad_()
    mt.knn(r, r, 3)[1].sum().backward()
    assert torch.isfinite(r.grad).all() and r.grad.abs().max() > 0.1
    gradient = jax.grad(lambda x: mj.knn(x, x, 3)[1].sum())(jnp.asarray(r.detach().numpy()))
    np.testing.assert_allclose(gradient, r.grad, rtol=0, atol=1e-15)


WRONG = [
    ({"k": 0}, ValueError, "`k`: expected an integer from 1 up, got 0"),
    ({"k": 2.0}, TypeError, "`k`: expected an integer"),
    ({"k": 6}, ValueError, "`k`: expected at most 5, the points that query 0 has"),
    ({"queries": np.zeros((3, 2))}, ValueError, r"`queries`: expected shape \(M, 3\)"),
    ({"queries": np.zeros((3, 3), np.float32)}, (ValueError, TypeError), "`queries`: expected .*float64"),
    ({"queries": np.full((1, 3), np.nan)}, ValueError, "`queries`: expected finite coordinates"),
    ({"points": np.zeros((3, 4))}, ValueError, r"`points`: expected shape \(N, 3\)"),
    ({"points": np.full((5, 3), np.inf)}, ValueError, "`points`: expected finite coordinates"),
    ({"cell": np.ones((3, 3))}, ValueError, "`cell`"),
    ({"pbc": True}, ValueError, "`cell`: expected lattice vectors for the periodic axes"),
    ({"batch_idx": np.array([0, 0, 1, 1, 1])}, ValueError, "`query_batch_idx`: expected the system of each query"),
    ({"query_batch_idx": np.array([0, 1, 1])}, ValueError, "`query_batch_idx`"),
    ({"query_batch_idx": np.array([0, 0])}, ValueError, "`query_batch_idx`"),
    ({"return_shifts": 1}, TypeError, "`return_shifts`"),
]


@pytest.mark.parametrize(("change", "error", "text"), WRONG)
def test_wrong_arguments(change: dict[str, Any], error: Any, text: str) -> None:
    g = np.random.default_rng(0)
    good = {"queries": g.random((3, 3)), "points": g.random((5, 3)), "k": 2}
    with pytest.raises(error, match=text):
        mn.knn(**(good | change))


@pytest.mark.parametrize("space", ["numpy", "torch"])
def test_more_neighbors_than_can_be_addressed(space: str) -> None:
    """XLA has no memory for the results before the search is asked."""
    with pytest.raises((ValueError, RuntimeError), match="`k`: expected numbers of neighbours that can be addressed"):
        call(space, np.zeros((3, 3)), np.zeros((5, 3)), 2**31 - 1, cell=np.eye(3))


@pytest.mark.parametrize("space", ["torch", "jax"])
@pytest.mark.parametrize(("change", "error", "text"), WRONG)
def test_wrong_arguments_are_named(space: str, change: dict[str, Any], error: Any, text: str) -> None:
    """The argument is named where the op finds the error, too; of two that disagree either one."""
    g = np.random.default_rng(0)
    good = {"queries": g.random((3, 3)), "points": g.random((5, 3)), "k": 2}
    name = "`(queries|points)`" if "queries" in change else text.split(":")[0].rstrip("`")
    with pytest.raises(Exception, match=name):
        call(space, **(good | change))
