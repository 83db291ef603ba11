"""Nearest points against brute force over images, in every namespace."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import madelung
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
    ({"points": np.zeros(3)}, ValueError, r"`points`: expected shape \(N, 3\)"),
    ({"points": np.full((5, 3), np.inf)}, ValueError, "`points`: expected finite coordinates"),
    ({"cell": np.ones((3, 3))}, ValueError, "`cell`"),
    ({"pbc": True}, ValueError, "`cell`: expected lattice vectors for the periodic axes"),
    ({"batch_idx": np.array([0, 0, 1, 1, 1])}, ValueError, "`query_batch_idx`: expected the system of each query"),
    ({"query_batch_idx": np.array([0, 1, 1])}, ValueError, "`query_batch_idx`"),
    ({"query_batch_idx": np.array([0, 0])}, ValueError, "`query_batch_idx`"),
    ({"return_shifts": 1}, TypeError, "`return_shifts`"),
    ({"radius": np.nan}, ValueError, "`radius`"),
    ({"radius": -np.inf}, ValueError, "`radius`"),
    ({"radius": 0.0}, ValueError, "`radius`: expected a number above zero"),
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


@spaces
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("periodic", [False, True])
def test_fewer_points_than_k_within_a_radius(space: str, dtype: Any, periodic: bool) -> None:
    g = np.random.default_rng(11)
    cell = np.array([[3.0, 0.0, 0.0], [0.5, 2.8, 0.0], [0.0, -0.4, 3.1]], dtype)
    points, queries = (g.random((n, 3)).astype(dtype) * dtype(3.0) for n in (40, 30))
    axes = [periodic] * 3
    given: dict[str, Any] = {"cell": cell, "pbc": axes} if periodic else {}
    _, reached, _ = brute_force(queries, points, 12, cell, axes)
    for radius in (0.4, 0.8, 1.1, float(reached[3, 5]) * (1 + 1e-6)):
        j, d, s, v = call(space, queries, points, 12, radius=radius, return_shifts=True, return_vectors=True, **given)
        wanted_j, wanted_d, wanted_s = brute_force(queries, points, 12, cell, axes)
        inside = wanted_d <= radius
        assert 0 < inside.sum() < inside.size
        np.testing.assert_array_equal(j, np.where(inside, wanted_j, len(points)))
        np.testing.assert_array_equal(s, np.where(inside[..., None], wanted_s, 0))
        np.testing.assert_allclose(d, np.where(inside, wanted_d, 0.0), atol=1e-12 if dtype == np.float64 else 4e-6)
        np.testing.assert_allclose(np.linalg.norm(v, axis=-1), d, rtol=1e-6, atol=1e-12)


@spaces
def test_systems_with_fewer_points_than_k(space: str) -> None:
    points = np.array([[0.0, 0, 0], [1, 0, 0], [5, 5, 5], [5, 5, 7], [5, 5, 6]])
    of_points, queries, of_queries = np.array([0, 0, 2, 2, 2]), np.zeros((4, 3)), np.array([0, 1, 2, 3])
    batches = {"query_batch_idx": of_queries, "batch_idx": of_points}
    j, d = call(space, queries, points, 3, radius=np.inf, **batches)
    assert j.tolist() == [[0, 1, 5], [5, 5, 5], [2, 4, 3], [5, 5, 5]]
    np.testing.assert_allclose(d[0], [0, 1, 0])
    np.testing.assert_allclose(d[2], np.sqrt([75, 86, 99]))
    text = "`k`: expected at most 2, the points that query 0 has, or a radius, got 3"
    with pytest.raises((ValueError, RuntimeError), match=text):
        call(space, queries, points, 3, **batches)
    j, _ = call(space, queries, np.zeros((0, 3)), 2, radius=np.inf)
    assert j.tolist() == [[0, 0]] * 4


@spaces
@pytest.mark.parametrize("axes", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_points_of_any_number_of_coordinates(space: str, axes: int, dtype: Any) -> None:
    g = np.random.default_rng(axes)
    points, queries = (g.normal(size=(n, axes)).astype(dtype) for n in (300, 50))
    of_points, of_queries = np.repeat([0, 1, 2], [100, 197, 3]), np.repeat([0, 1, 2, 3], [20, 19, 10, 1])
    d = np.linalg.norm(points.astype(float) - queries[:, None], axis=-1)
    d[of_queries[:, None] != of_points] = np.inf
    batches, order, tight = {"query_batch_idx": of_queries, "batch_idx": of_points}, np.argsort(d, axis=1), 1e-14
    if dtype == np.float32:
        tight = 2e-6
    j, found = call(space, queries[:39], points, 7, query_batch_idx=of_queries[:39], batch_idx=of_points, radius=np.inf)
    np.testing.assert_array_equal(j, order[:39, :7])
    np.testing.assert_allclose(found, np.sort(d, axis=1)[:39, :7], rtol=tight)
    radius = float(np.median(np.sort(d, axis=1)[:39, 3])) * (1.0 + 1e-5)
    j, found = call(space, queries, points, 7, radius=radius, **batches)
    near = np.sort(d, axis=1)[:, :7]
    assert 0 < (near <= radius).sum() < near.size
    np.testing.assert_array_equal(j, np.where(near <= radius, order[:, :7], len(points)))
    np.testing.assert_allclose(found, np.where(near <= radius, near, 0.0), rtol=tight)
    module, array = NAMESPACES[space]
    given = {name: array(x) for name, x in batches.items()}
    ptr, j, found = map(np.asarray, module.radius(array(queries), array(points), radius, **given))
    i, wanted = np.nonzero(d <= radius)
    np.testing.assert_array_equal(np.diff(ptr), np.bincount(i, minlength=len(queries)))
    np.testing.assert_array_equal(j, wanted)
    np.testing.assert_allclose(found, d[i, wanted], rtol=tight)
    if axes != 3:
        with pytest.raises(ValueError, match="`(queries|points)`: expected three coordinates with a cell"):
            call(space, queries, points, 7, cell=np.eye(3, dtype=dtype))
    if axes < 4:
        j, v = call(space, queries[:9], points[:90], 7, return_vectors=True)[::2]
        np.testing.assert_allclose(v, points[j] - queries[:9, None], rtol=0, atol=tight)
    else:
        with pytest.raises(ValueError, match="`return_vectors`: expected False for points of more than three"):
            call(space, queries, points, 3, return_vectors=True)


@pytest.mark.parametrize("axes", [1, 2, 3, 4, 8])
def test_derivatives_of_padded_rows_of_any_number_of_coordinates(axes: int) -> None:
    g = np.random.default_rng(3)
    q, r = (torch.tensor(g.normal(size=(n, axes)), requires_grad=True) for n in (6, 9))
    # Between two distances that are far apart, so that no difference moves a point across.
    every = torch.cdist(q, r).detach().flatten().sort().values[15:35]
    at = every.diff().argmax()
    radius = float(every[at : at + 2].mean())

    def both(q: Any, r: Any) -> Any:
        found = mt.knn(q, r, 5, radius=radius, return_vectors=axes < 4)
        ptr, _, within = mt.radius(q, r, radius)
        assert 0 < int((found[0] == 9).sum()) < found[0].numel() and ptr[-1] > 0
        return (*found[1:], within)

    assert torch.autograd.gradcheck(both, (q, r))
    assert torch.autograd.gradgradcheck(both, (q, r))
    checked = lambda q, r: mj.knn(q, r, 5, radius=radius)[1]  # noqa: E731
    check_jax(checked, (jnp.asarray(q.detach().numpy()), jnp.asarray(r.detach().numpy())))


@spaces
@pytest.mark.parametrize("axes", [1, 2, 3, 4, 5, 8, 21])
def test_a_distance_is_a_radius_that_has_its_point(space: str, axes: int) -> None:
    g = np.random.default_rng(5)
    module, array = NAMESPACES[space]
    for dtype in (np.float64, np.float32):
        points = array((g.random((300, axes)) * 9).astype(dtype))
        queries = points[:40]
        _, d = module.knn(queries, points, 6)
        for i in range(40):
            ptr, _, found = module.radius(queries[i : i + 1], points, float(d[i, 5]))
            assert int(ptr[1]) == 6 and float(found.max()) == float(d[i, 5])
            j, found = module.knn(queries[i : i + 1], points, 8, radius=float(d[i, 5]))
            assert int((np.asarray(j) < 300).sum()) == 6 and float(found.max()) == float(d[i, 5])


@spaces
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_grid_is_kept(space: str, dtype: Any) -> None:
    g = np.random.default_rng(9)
    module, array = NAMESPACES[space]
    points, queries = ((g.random((n, 3)) * 5).astype(dtype) for n in (500, 60))
    cell, of = np.stack([4 * np.eye(3), 5 * np.eye(3)]).astype(dtype), np.repeat([0, 1], [200, 300])
    of_queries = np.repeat([0, 1], 30)
    q, r, h = map(array, (queries, points, cell))
    features, sigma = array(g.random((500, 3)).astype(dtype)), 0.7
    plain = {"cell": h, "batch_idx": array(of), "query_batch_idx": array(of_queries)}
    grid, own = madelung.HashGrid(r, h, batch_idx=array(of)), {"query_batch_idx": array(of_queries)}
    for _ in range(2):
        for one, other in [
            (module.knn(q, r, 5, **plain), module.knn(q, grid, 5, **own)),
            (module.radius(q, r, 1.1, **plain), module.radius(q, grid, 1.1, **own)),
            (
                [module.radius_aggregate(q, r, features, 1.1, sigma, **plain)],
                [module.radius_aggregate(q, grid, features, 1.1, sigma, **own)],
            ),
            (
                [module.knn_aggregate(q, r, features, 5, sigma, **plain)],
                [module.knn_aggregate(q, grid, features, 5, sigma, **own)],
            ),
        ]:
            for x, y in zip(one, other):
                np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-6 if dtype == np.float32 else 1e-14)
    assert pickle.loads(pickle.dumps(grid)).points.shape == (500, 3)
    with pytest.raises(ValueError, match="`cell`: expected None with a `HashGrid`"):
        module.knn(q, grid, 5, **plain)


def test_a_grid_follows_its_points() -> None:
    for module, array in ((mn, np.asarray), (mt, torch.as_tensor)):
        points = array(np.random.default_rng(0).random((50, 3)))
        grid = madelung.HashGrid(points)
        before = module.knn(points[:3], grid, 2)
        points += array(np.random.default_rng(1).random((50, 3)))
        for x, y in zip(module.knn(points[:3], grid, 2), module.knn(points[:3], points, 2)):
            np.testing.assert_array_equal(x, y)
        assert (np.asarray(before[1]) != np.asarray(module.knn(points[:3], grid, 2)[1])).any()


@pytest.mark.parametrize("systems", [1, 2])
def test_few_queries_around_a_kept_grid(systems: int) -> None:
    """Of few pairs the op is given the points that were found: values and derivatives are those of all points."""
    g = np.random.default_rng(10)
    r, q = torch.tensor(g.random((400, 3)) * 6), torch.tensor(g.random((7, 3)) * 6)
    cells = torch.tensor(np.stack([6 * np.eye(3) + 0.2 * g.random((3, 3)) for _ in range(systems)]))
    cell = cells[0] if systems == 1 else cells
    of = None if systems == 1 else torch.arange(400) * systems // 400
    own = {} if systems == 1 else {"query_batch_idx": torch.arange(7) * systems // 7}
    arrays = [x.requires_grad_() for x in (q, r, cell)]
    grid = madelung.HashGrid(r, cell, batch_idx=of)
    with torch.inference_mode():
        inside = mt.knn(q, grid, 4, **own)
    calls = [
        lambda r, **rest: mt.knn(q, r, 4, return_vectors=True, **own, **rest),
        lambda r, **rest: mt.knn(q, r, 5, radius=0.9, return_vectors=True, **own, **rest),
        lambda r, **rest: mt.radius(q, r, 0.8, return_vectors=True, **own, **rest),
    ]
    for n, call in enumerate(calls):
        several = []
        for found in (call(grid), call(r, cell=cell, batch_idx=of)):
            weights = torch.linspace(1.0, 2.0, found[-1].numel(), dtype=r.dtype).reshape(found[-1].shape)
            loss = (found[-1] * weights).pow(2).sum() + found[-2 if n == 2 else 1].sum()
            first = torch.autograd.grad(loss, arrays, create_graph=True)
            second = torch.autograd.grad(sum(x.pow(2).sum() for x in first), arrays)
            several.append([*found, *first, *second])
        for x, y in zip(*several, strict=True):
            torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(inside[0], calls[0](r, cell=cell, batch_idx=of)[0])


def test_a_grid_of_read_only_points_is_not_compared() -> None:
    g = np.random.default_rng(11)
    points, queries = g.random((300, 3)), g.random((5, 3))
    points.flags.writeable = False
    grid = madelung.HashGrid(points)
    for call in (
        lambda x: mn.knn(queries, x, 3),
        lambda x: mn.radius(queries, x, 0.2),
        lambda x: mn.knn(queries, x, 3),
    ):
        for x, y in zip(call(grid), call(points)):
            np.testing.assert_array_equal(x, y)
    # Of queries in more systems than the points are in, the grid is another one, in this call alone.
    of, of_queries = np.zeros(300, np.int32), np.array([0, 0, 1, 1, 2], np.int32)
    grid = madelung.HashGrid(points, batch_idx=of)
    for _ in range(2):
        found = mn.radius(queries, grid, 0.2, query_batch_idx=of_queries)
        for x, y in zip(found, mn.radius(queries, points, 0.2, query_batch_idx=of_queries, batch_idx=of)):
            np.testing.assert_array_equal(x, y)
        alone = mn.radius(queries[:2], grid, 0.2, query_batch_idx=of_queries[:2])
        np.testing.assert_array_equal(alone[1], found[1])


def test_queries_far_apart() -> None:
    """Of scattered queries each has a search of its own, of those side by side several have one."""
    g = np.random.default_rng(12)
    points = g.random((6000, 3)) * np.array([1.0, 2.0, 3.0])
    near = 0.5 + 0.01 * g.random((40, 3))
    for queries in (g.random((45, 3)) * np.array([1.2, 2.0, 3.0]) - 0.1, np.concatenate([near, near + 1.0, near[:3]])):
        for cell in (None, np.diag([1.0, 2.0, 3.0])):
            ptr, indices, distances = mn.radius(queries, points, 0.11, cell)
            d = points[None] - queries[:, None]
            if cell is not None:
                d -= np.round(d / np.diag(cell)) * np.diag(cell)
            d = np.linalg.norm(d, axis=-1)
            rows, others = np.nonzero(d <= 0.11)
            np.testing.assert_array_equal(np.repeat(np.arange(len(queries)), np.diff(ptr)), rows)
            np.testing.assert_array_equal(indices, others)
            np.testing.assert_allclose(distances, d[rows, others], rtol=1e-12, atol=1e-14)


def test_what_is_kept_with_a_grid_follows_every_array() -> None:
    g = np.random.default_rng(13)
    p, q = torch.tensor(g.random((200, 3)) * 5), torch.tensor(g.random((4, 3)) * 5)

    def as_without(grid: Any, points: Any, queries: Any = q, module: Any = mt, **rest: Any) -> None:
        for x, y in zip(module.knn(queries, grid, 3), module.knn(queries, points, 3, **rest)):
            np.testing.assert_array_equal(np.asarray(x), np.asarray(y))

    # The memory of a cell that NumPy writes to.
    memory = np.eye(3) * 5
    grid = madelung.HashGrid(p, cell := torch.from_numpy(memory))
    for factor in (1.0, 0.4):
        memory *= factor
        as_without(grid, p, cell=cell)
    # Points given anew, fewer and more.
    grid = madelung.HashGrid(points := p.clone())
    for n in (200, 100, 150):
        points.data = torch.tensor(g.random((n, 3)) * 5)
        as_without(grid, points)
    # Read-only points that can be written to for a while.
    grid = madelung.HashGrid(array := p.numpy().copy())
    for is_writeable in (False, True, False):
        array.flags.writeable = is_writeable
        if is_writeable:
            array[:] = g.random((200, 3)) * 5
        as_without(grid, array, q.numpy(), mn)
    # What a trace has made of the arrays is not kept.
    grid = madelung.HashGrid(jp := jnp.asarray(p.numpy()))
    jax.jit(lambda w: (mj.knn(jnp.asarray(q.numpy()), grid, 3)[1] * w).sum())(1.0)
    as_without(grid, jp, jnp.asarray(q.numpy()), mj)


@pytest.mark.parametrize("several", [False, True])
def test_a_kept_grid_has_the_derivatives_of_each_call(several: bool) -> None:
    g = np.random.default_rng(14)
    p, q = torch.tensor(g.random((200, 3)) * 5), torch.tensor(g.random((4, 3)) * 5)
    of, own = (torch.arange(200) // 100, {"query_batch_idx": torch.arange(4) // 2}) if several else (None, {})
    cell = torch.eye(3, dtype=p.dtype) * 5
    grid = madelung.HashGrid(p, cell, batch_idx=of)
    mt.knn(q, grid, 4, **own)
    cell.requires_grad_()
    with torch.no_grad():
        mt.knn(q, grid, 4, **own)
    one, other = (
        torch.autograd.grad(mt.knn(q, x, 4, **own, **rest)[1].sum(), cell)[0]
        for x, rest in ((grid, {}), (p, {"cell": cell, "batch_idx": of}))
    )
    torch.testing.assert_close(one, other)
    assert one.abs().sum() > 0


def test_systems_in_lists_of_python() -> None:
    """More of queries than of points, as a graph network's batch may have them."""
    x = np.random.default_rng(0).random((6, 3))
    of_queries, of_points = [0, 0, 0, 1, 1, 1], [0, 0, 0]
    arrays = {"query_batch_idx": np.array(of_queries), "batch_idx": np.array(of_points)}
    for found, expected in zip(
        mn.radius(x, x[:3], 2.0, query_batch_idx=of_queries, batch_idx=of_points), mn.radius(x, x[:3], 2.0, **arrays)
    ):
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="`query_batch_idx`: expected an array"):
        mn.radius(x, x[:3], 2.0, query_batch_idx=[[0], [0, 1]], batch_idx=of_points)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_nearest_points_are_those_of_the_distances_that_are_returned(dtype: Any) -> None:
    """Points on a sphere, whose distances differ by their rounding alone."""
    g = np.random.default_rng(11)
    for _ in range(20):
        points = g.normal(size=(200, 8))
        points = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(dtype)
        query = np.zeros((1, 8), dtype)
        every, all_of = mn.knn(query, points, 200)
        assert (np.diff(all_of[0]) >= 0).all()
        j, d = mn.knn(query, points, 60)
        np.testing.assert_array_equal(d[0], all_of[0, :60])
        np.testing.assert_array_equal(j[0], every[0, :60])
        radius = float(all_of[0, 120])
        _, found, within = mn.radius(query, points, radius)
        assert set(found) == set(every[0, all_of[0] <= radius]) and within.max() <= radius
        j, d = mn.knn(query, points, 150, radius=radius)
        np.testing.assert_array_equal(d[0, d[0] > 0], all_of[0, all_of[0] <= radius][:150])
    # Squares that are no normal numbers.
    points = (g.random((50, 5)) * 1e-20).astype(dtype)
    for p in points:
        d = float(np.max(mn.knn(points[:1], p[None], 1)[1]))
        assert d == 0 or len(mn.radius(points[:1], p[None], d)[1]) == 1
