"""Aggregated features against sums over every image of every point, in every namespace."""

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
LOGARITHMS = {
    "exp": lambda d, sigma: -d / sigma,
    "softmax": lambda d, sigma: -d / sigma,
    "gaussian": lambda d, sigma: -0.5 * (d / sigma) ** 2,
    "inverse": lambda d, sigma: -np.log(d + sigma),
}


@pytest.fixture(autouse=True)
def doubles() -> Iterator[None]:
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield


def call(space: str, name: str, *inputs: Any, **options: Any) -> np.ndarray:
    module, array = NAMESPACES[space]
    given = {key: array(x) if isinstance(x, np.ndarray) else x for key, x in options.items()}
    return np.asarray(getattr(module, name)(*(array(x) if isinstance(x, np.ndarray) else x for x in inputs), **given))


def distances(queries: Any, points: Any, cell: Any, pbc: Any, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """Distances (M, images · N) of all images within reach, and the point of each."""
    inverse = np.linalg.inv(cell)
    spread = np.ptp(np.concatenate([queries, points]) @ inverse, axis=0)
    most = [int(np.ceil(reach * np.linalg.norm(inverse[:, a]) + spread[a])) if pbc[a] else 0 for a in range(3)]
    every = np.stack(np.meshgrid(*(np.arange(-m, m + 1) for m in most), indexing="ij"), -1).reshape(-1, 3)
    d = points[None, None] - queries[:, None, None] + (every @ cell)[None, :, None]
    lengths = np.sqrt((d**2).sum(-1)).reshape(len(queries), -1)
    return lengths, np.tile(np.arange(len(points)), len(every))


def within(queries: Any, points: Any, x: Any, radius: float, sigma: float, weight: str, cell: Any, pbc: Any) -> Any:
    d, j = distances(queries, points, cell, pbc, radius)
    w = np.where(d <= radius, np.exp(LOGARITHMS[weight](d, sigma)), 0.0)
    return w @ x[j], w.sum(1)


def nearest(queries: Any, points: Any, x: Any, k: int, sigma: float, weight: str, cell: Any, pbc: Any) -> Any:
    reach = np.linalg.norm(cell, axis=1).sum()
    d, j = distances(queries, points, cell, pbc, reach)
    assert not np.any(pbc) or np.sort(d, axis=1)[:, k - 1].max() < reach
    order = np.argsort(d, axis=1, kind="stable")[:, :k]
    u = LOGARITHMS[weight](np.take_along_axis(d, order, 1), sigma)
    w = np.exp(u - u.max(1, keepdims=True))
    return (w[..., None] * x[j[order]]).sum(1) / w.sum(1)[:, None]


def case(seed: int) -> tuple[Any, ...]:
    """Queries and points, some far outside of the cell, features, a cell of any shape, and its periodic axes."""
    g = np.random.default_rng([3, seed])
    cell = 0.6 * g.normal(size=(3, 3)) + (4.0 if seed % 3 else 2.2) * np.eye(3) * g.choice([-1, 1])
    pbc = g.random(3) < 0.6
    n, m, width = int(g.integers(0, 60)), int(g.integers(1, 40)), int(g.choice([1, 2, 7, 16, 33]))
    points, queries = (g.uniform(-0.5, 1.5, (count, 3)) @ cell for count in (n, m))
    if seed % 4 == 0 and n:
        queries[0] = points[0]
    return queries, points, g.normal(size=(n, width)), cell, pbc


@pytest.mark.parametrize("seed", range(40))
def test_within_a_radius(seed: int) -> None:
    queries, points, x, cell, pbc = case(seed)
    g = np.random.default_rng(seed)
    radius, sigma = g.uniform(0.3, 4.0), g.uniform(0.3, 2.0)
    weight = ("exp", "gaussian", "inverse")[seed % 3]
    total, norm = within(queries, points, x, radius, sigma, weight, cell, pbc)
    options = {"cell": cell, "pbc": pbc} if pbc.any() or seed % 2 else {}
    largest = max(1e-300, np.abs(total).max(initial=0.0))
    for space in NAMESPACES:
        given = queries, points, x, radius, sigma
        sums = call(space, "radius_aggregate", *given, weight=weight, normalize=False, **options)
        np.testing.assert_allclose(sums, total, rtol=0, atol=1e-12 * largest)
        means = call(space, "radius_aggregate", *given, weight=weight, eps=1e-3, **options)
        expected = total / (norm + 1e-3)[:, None]
        np.testing.assert_allclose(means, expected, rtol=0, atol=1e-12 * max(1.0, np.abs(expected).max(initial=0.0)))


@pytest.mark.parametrize("seed", range(30))
def test_nearest(seed: int) -> None:
    queries, points, x, cell, pbc = case(seed)
    k = 1 + seed % 6
    weight = ("softmax", "gaussian", "inverse")[seed % 3]
    options = {"cell": cell, "pbc": pbc} if pbc.any() or seed % 2 else {}
    if not len(points) or (not pbc.any() and k > len(points)):
        for space in NAMESPACES:
            with pytest.raises(ValueError, match=f"`k`: expected at most {len(points)}, the points that query 0 has"):
                call(space, "knn_aggregate", queries, points, x, k, 0.7, weight=weight, **options)
        return
    expected = nearest(queries, points, x, k, 0.7, weight, cell, pbc)
    for space in NAMESPACES:
        means = call(space, "knn_aggregate", queries, points, x, k, 0.7, weight=weight, **options)
        np.testing.assert_allclose(means, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@spaces
def test_many_points(space: str) -> None:
    """Several blocks of several tasks, and a crowd beside them, in both precisions."""
    g = np.random.default_rng(0)
    points = np.concatenate([g.uniform(-1, 1, (2000, 3)), 1e-3 * g.normal(size=(300, 3)), [[1e5, 0.0, 0.0]]])
    queries = np.concatenate([g.uniform(-1, 1, (700, 3)), points[-5:]])
    x = g.normal(size=(len(points), 5))
    total, norm = within(queries, points, x, 0.2, 0.1, "exp", np.eye(3), (False,) * 3)
    means = call(space, "radius_aggregate", queries, points, x, 0.2, 0.1)
    np.testing.assert_allclose(means, total / (norm + 1e-8)[:, None], rtol=0, atol=1e-12)
    again = call(space, "radius_aggregate", queries, points, x, 0.2, 0.1)
    np.testing.assert_array_equal(means, again)
    single = [a.astype(np.float32) for a in (queries, points, x)]
    exact = within(*(a.astype(float) for a in single), 0.2, 0.1, "exp", np.eye(3), (False,) * 3)
    means = call(space, "radius_aggregate", *single, 0.2, 0.1)
    assert means.dtype == np.float32
    # Weights have the error of distances, 1e-7 / 0.1, and sums of up to 300 terms that of their length.
    np.testing.assert_allclose(means, exact[0] / (exact[1] + 1e-8)[:, None], rtol=0, atol=1e-5)


@spaces
def test_batches_are_apart(space: str) -> None:
    g = np.random.default_rng(5)
    sizes, asked = [40, 0, 7, 1], [20, 3, 0, 5]
    cells = np.stack([4.0 * np.eye(3) + 0.3 * g.normal(size=(3, 3)) for _ in sizes])
    pbc = np.array([[True] * 3, [True] * 3, [False] * 3, [True, False, True]])
    points = [g.uniform(0, 4, (n, 3)) for n in sizes]
    queries = [g.uniform(0, 4, (n, 3)) for n in asked]
    x = [g.normal(size=(n, 3)) for n in sizes]
    of, of_queries = (np.repeat(np.arange(4), n).astype(np.int32) for n in (sizes, asked))
    together = call(
        space,
        "radius_aggregate",
        *(np.concatenate(a) for a in (queries, points, x)),
        1.7,
        0.5,
        cell=cells,
        pbc=pbc,
        batch_idx=of,
        query_batch_idx=of_queries,
    )
    alone = [
        call(space, "radius_aggregate", queries[b], points[b], x[b], 1.7, 0.5, cell=cells[b], pbc=pbc[b])
        for b in range(4)
    ]
    np.testing.assert_array_equal(together, np.concatenate(alone))


def system() -> tuple[Any, ...]:
    """Inputs whose pairs stay on their side of the radius 1.3 within the steps of differences."""
    for seed in range(100):
        g = np.random.default_rng(seed)
        queries, points = g.uniform(0, 2.2, (5, 3)), g.uniform(0, 2.2, (21, 3))
        d, _ = distances(queries, points, 2.5 * np.eye(3), (True,) * 3, 1.5)
        if np.abs(d - 1.3).min() > 4e-3 and np.abs(np.diff(np.sort(d, axis=1)[:, 5:7], axis=1)).min() > 8e-3:
            return queries, points, g.normal(size=(21, 3)), np.array(0.6)
    raise AssertionError("no such inputs")


CALLS = {
    "exp": ("radius_aggregate", 1.3, {}),
    "gaussian": ("radius_aggregate", 1.3, {"weight": "gaussian", "normalize": False}),
    "inverse": ("radius_aggregate", 1.3, {"weight": "inverse"}),
    "softmax": ("knn_aggregate", 6, {}),
    "nearest gaussian": ("knn_aggregate", 6, {"weight": "gaussian"}),
    "nearest inverse": ("knn_aggregate", 6, {"weight": "inverse"}),
}


@pytest.mark.parametrize("which", CALLS)
def test_derivatives_to_second_order_in_torch(which: str) -> None:
    name, size, options = CALLS[which]
    inputs = [torch.from_numpy(x).requires_grad_() for x in system()]
    cell = 2.5 * torch.eye(3, dtype=torch.float64)

    def features(q: Any, r: Any, x: Any, sigma: Any) -> Any:
        return getattr(mt, name)(q, r, x, size, sigma, cell, **options)

    check_torch(features, inputs)
    compiled = torch.compile(features, fullgraph=True, backend="aot_eager")
    results = [f(*inputs) for f in (compiled, features)]
    assert torch.equal(*results)
    gradients = [torch.autograd.grad((y**2).sum(), inputs) for y in results]
    assert all(torch.equal(a, b) for a, b in zip(*gradients))


@pytest.mark.parametrize("which", CALLS)
def test_derivatives_to_second_order_in_jax(which: str) -> None:
    name, size, options = CALLS[which]
    inputs = [jnp.asarray(x) for x in system()]

    def features(q: Any, r: Any, x: Any, sigma: Any) -> Any:
        return getattr(mj, name)(q, r, x, size, sigma, 2.5 * jnp.eye(3), **options)

    check_jax(features, inputs)
    np.testing.assert_array_equal(jax.jit(features)(*inputs), features(*inputs))
    many = jnp.stack([inputs[0], inputs[0] + 0.1])
    mapped = jax.vmap(lambda q: features(q, *inputs[1:]))(many)
    np.testing.assert_array_equal(mapped, [features(q, *inputs[1:]) for q in many])


def test_export() -> None:
    class Module(torch.nn.Module):
        def forward(self, q: Any, r: Any, x: Any, sigma: Any) -> Any:
            return mt.radius_aggregate(q, r, x, 1.3, sigma)

    inputs = tuple(torch.from_numpy(x) for x in system())
    assert torch.equal(torch.export.export(Module(), inputs).module()(*inputs), Module()(*inputs))


def test_namespaces_have_the_same_bits() -> None:
    inputs = system()
    for name, size, options in CALLS.values():
        given = *inputs[:3], size, 0.6
        one, two, three = (call(space, name, *given, **options) for space in NAMESPACES)
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, three)


WRONG = [
    ("radius_aggregate", {"radius": 0.0}, ValueError, "`radius`: expected a number above zero, got 0.0"),
    ("radius_aggregate", {"radius": None}, ValueError, "`radius`: expected a number above zero, got None"),
    ("radius_aggregate", {"radius": np.nan}, ValueError, "`radius`: expected a finite number"),
    ("radius_aggregate", {"weight": "softmax"}, ValueError, "`weight`: expected 'exp' or 'gaussian' or 'inverse'"),
    ("radius_aggregate", {"normalize": 1}, TypeError, "`normalize`"),
    ("radius_aggregate", {"eps": np.inf}, ValueError, "`eps`"),
    ("radius_aggregate", {"sigma": 0.0}, ValueError, "`sigma`: expected .*got 0"),
    ("radius_aggregate", {"sigma": np.ones(2)}, ValueError, "`sigma`: expected a number"),
    ("radius_aggregate", {"points": np.full((5, 3), np.nan)}, ValueError, "`points`: expected finite"),
    ("radius_aggregate", {"queries": np.full((3, 3), np.inf)}, ValueError, "`(queries|points)`: expected finite"),
    ("radius_aggregate", {"features": np.zeros((4, 2))}, ValueError, r"`features`: expected shape \(5, F\)"),
    ("radius_aggregate", {"features": np.zeros((5, 0))}, ValueError, "`features`: expected a feature width"),
    ("radius_aggregate", {"pbc": True}, ValueError, "`cell`"),
    ("radius_aggregate", {"batch_idx": np.array([0, 0, 1, 1, 1])}, ValueError, "`query_batch_idx`"),
    ("radius_aggregate", {"query_batch_idx": np.array([0, 1, 1])}, ValueError, "`query_batch_idx`"),
    ("knn_aggregate", {"k": 0}, ValueError, "`k`: expected an integer from 1 up, got 0"),
    ("knn_aggregate", {"k": 6}, ValueError, "`k`: expected at most 5, the points that query 0 has"),
    ("knn_aggregate", {"weight": "exp"}, ValueError, "`weight`: expected 'softmax'"),
]


@spaces
@pytest.mark.parametrize(("name", "change", "error", "text"), WRONG)
def test_wrong_arguments(space: str, name: str, change: dict[str, Any], error: Any, text: str) -> None:
    """The argument is named where the op finds the error, too, which frameworks hand on as errors of their own."""
    g = np.random.default_rng(0)
    size = {"k": 2} if name == "knn_aggregate" else {"radius": 0.5}
    good = {"queries": g.random((3, 3)), "points": g.random((5, 3)), "features": g.random((5, 2)), "sigma": 0.3}
    known = space == "numpy"
    with pytest.raises(error if known else Exception, match=text if known else text.split(":")[0].rstrip("`")):
        call(space, name, **(good | size | change))
