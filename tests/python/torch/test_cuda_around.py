"""Points around queries on a GPU: indices of the CPU's, values and derivatives within rounding, graphs, limits.

`MADELUNG_TEST_DEVICE=cuda` runs these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from test_cuda import captured

import madelung
import madelung.torch as mt
from conftest import DEVICE
from differences import check_torch

pytestmark = pytest.mark.skipif(DEVICE != "cuda", reason="not asked for: MADELUNG_TEST_DEVICE=cuda")


def there(x: Any) -> Any:
    return x.detach().to(DEVICE).requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x


CELLS = {
    "open": {},
    "periodic": {"cell": np.array([[2.6, 0.0, 0.0], [0.4, 2.4, 0.0], [-0.3, 0.2, -2.7]])},
    "slab": {"cell": np.array([[2.6, 0.0, 0.0], [0.4, 2.4, 0.0], [9.0, 9.0, 9.0]]), "pbc": (True, True, False)},
    "wire": {"cell": 2.2 * np.eye(3), "pbc": (False, False, True)},
    "batch": {
        "cell": np.stack([2.5 * np.eye(3), np.eye(3), 1.5 * np.eye(3)]),
        "pbc": np.array([[True] * 3, [False] * 3, [True, False, True]]),
        "query_batch_idx": np.repeat(np.arange(3, dtype=np.int32), [6, 5, 3]),
        "batch_idx": np.repeat(np.arange(3, dtype=np.int32), [14, 12, 9]),
    },
}


def inputs(dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    """Queries, points and features: some of the former outside of the cells, and one on a point."""
    g = np.random.default_rng(4)
    queries, points = g.uniform(-1.0, 3.0, (14, 3)), g.uniform(0.0, 2.5, (35, 3))
    queries[2] = points[5]
    return [torch.tensor(x, dtype=dtype) for x in (queries, points, g.normal(size=(35, 4)))]


def options(name: str, dtype: torch.dtype = torch.float64) -> dict[str, Any]:
    made = {key: torch.tensor(x) if isinstance(x, np.ndarray) else x for key, x in CELLS[name].items()}
    return {key: x.to(dtype) if key == "cell" else x for key, x in made.items()}


SEARCHES: dict[str, Callable[..., tuple[torch.Tensor, ...]]] = {
    "knn": lambda q, r, **more: mt.knn(q, r, 6, return_shifts=True, return_vectors=True, **more),
    "knn within": lambda q, r, **more: mt.knn(q, r, 6, radius=0.9, return_shifts=True, return_vectors=True, **more),
    "radius": lambda q, r, **more: mt.radius(q, r, 1.3, return_shifts=True, return_vectors=True, **more),
}
AGGREGATIONS = {
    "exp": ("radius_aggregate", 1.3, {}),
    "gaussian": ("radius_aggregate", 1.3, {"weight": "gaussian", "normalize": False, "max_neighbors": 200}),
    "inverse": ("radius_aggregate", 1.3, {"weight": "inverse"}),
    "softmax": ("knn_aggregate", 5, {}),
    "nearest inverse": ("knn_aggregate", 5, {"weight": "inverse"}),
}


def aggregate(which: str, q: Any, r: Any, x: Any, sigma: Any, **more: Any) -> Any:
    name, size, own = AGGREGATIONS[which]
    return getattr(mt, name)(q, r, x, size, sigma, **own, **more)


def close(found: Any, expected: Any, tolerance: float = 1e-12) -> None:
    for a, b in zip(found, expected, strict=True):
        assert a.device.type == DEVICE and a.dtype == b.dtype
        largest = float(b.detach().abs().max()) if b.numel() else 0.0
        torch.testing.assert_close(a.detach().cpu(), b.detach(), rtol=0, atol=tolerance * max(largest, 1e-300))


def derivatives(f: Callable[..., torch.Tensor], xs: list[torch.Tensor]) -> list[torch.Tensor]:
    """A function's results, and first and second derivatives of a number that depends on all of them."""
    xs = [x.detach().requires_grad_() for x in xs]
    out = f(*xs)
    weights = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).reshape(out.shape).to(out)
    first = torch.autograd.grad((weights * out * out).sum(), xs, create_graph=True)
    second = torch.autograd.grad(sum((g * g).sum() for g in first), xs, materialize_grads=True)
    return [out, *first, *second]


@pytest.mark.parametrize("cells", CELLS)
@pytest.mark.parametrize("name", SEARCHES)
def test_searches(name: str, cells: str) -> None:
    """The same pairs as on the CPU, in the same order; vectors with derivatives."""
    q, r, _ = inputs()
    more = options(cells)
    expected = SEARCHES[name](q, r, **more)
    found = SEARCHES[name](there(q), there(r), **{key: there(x) for key, x in more.items()})
    for a, b in zip(found, expected, strict=True):
        if not b.is_floating_point():
            assert a.dtype == b.dtype and a.tolist() == b.tolist()
    close([a for a in found if a.is_floating_point()], [b for b in expected if b.is_floating_point()])

    def vectors(device: Any, h: Any) -> Callable[..., torch.Tensor]:
        kept = {key: device(x) for key, x in more.items() if key != "cell"}
        return lambda q, r, *h: SEARCHES[name](q, r, **kept, **({"cell": h[0]} if h else {}))[-1]

    h = [more["cell"]] if "cell" in more else []
    both = [derivatives(vectors(device, h), [device(x) for x in (q, r, *h)]) for device in (there, lambda x: x)]
    close(*both)


@pytest.mark.parametrize("cells", CELLS)
@pytest.mark.parametrize("which", AGGREGATIONS)
def test_aggregations(which: str, cells: str) -> None:
    """Values and derivatives to second order are the CPU's, whose own are held against sums over images."""
    more, sigma = options(cells), torch.tensor(0.6, dtype=torch.float64)

    def on(device: Callable[[Any], Any]) -> list[torch.Tensor]:
        kept = {key: device(x) for key, x in more.items()}
        return derivatives(lambda *xs: aggregate(which, *xs, **kept), [device(x) for x in (*inputs(), sigma)])

    close(on(there), on(lambda x: x), 1e-11)


@pytest.mark.parametrize("which", AGGREGATIONS)
def test_against_differences(which: str) -> None:
    """On the device alone, of points that stay on their side of the radius."""
    g = np.random.default_rng(2)
    q, r, x = (torch.tensor(g.normal(size=size), device=DEVICE) for size in ((4, 3), (12, 3), (12, 2)))
    apart = (torch.cdist(q.cpu(), r.cpu()) - 1.3).abs().min()
    steps = torch.cdist(q.cpu(), r.cpu()).sort(dim=1).values[:, 4:6].diff(dim=1).min()
    assert apart > 3e-3 and steps > 6e-3
    sigma = torch.tensor(0.6, dtype=torch.float64, device=DEVICE)
    check_torch(lambda *xs: aggregate(which, *xs), [a.requires_grad_() for a in (q, r, x, sigma)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_other_precisions(dtype: torch.dtype) -> None:
    q, r, x = inputs(dtype)
    more = options("periodic", torch.float32)
    kept = {key: there(value) for key, value in more.items()}
    for name, search in SEARCHES.items():
        expected, found = search(q, r, **more), search(there(q), there(r), **kept)
        assert [a.dtype for a in found] == [b.dtype for b in expected], name
        assert all(torch.equal(a.cpu(), b) for a, b in zip(found, expected) if not b.is_floating_point())
    for which in AGGREGATIONS:
        expected = aggregate(which, q, r, x, 0.6, **more)
        # A unit in the last place of the results, on top of sums in float32.
        bound = max(1e-5, 2 * torch.finfo(dtype).eps)
        close([aggregate(which, there(q), there(r), there(x), 0.6, **kept)], [expected], bound)


def test_orders_in_space() -> None:
    g = np.random.default_rng(0)
    points = torch.tensor(g.normal(size=(900, 3)))
    assert torch.equal(mt.spatial_order(there(points)).cpu(), mt.spatial_order(points))
    more = options("batch")
    batch = {"batch_idx": torch.tensor(np.repeat([0, 1, 2], [500, 0, 400]).astype(np.int32))}
    more = {"cell": more["cell"], "pbc": more["pbc"], **batch}
    found = mt.spatial_order(there(points), **{key: there(x) for key, x in more.items()})
    assert torch.equal(found.cpu(), mt.spatial_order(points, **more))
    q, r, x = inputs()
    order = mt.spatial_order(there(r))
    for which in AGGREGATIONS:
        known = aggregate(which, there(q), there(r), there(x), 0.6, order=order)
        assert torch.equal(known, aggregate(which, there(q), there(r), there(x), 0.6))


@pytest.mark.parametrize("which", ["gaussian", "softmax"])
def test_graphs(which: str) -> None:
    """Forwards and backwards in one captured graph, with other points at every replay."""
    more = {key: there(x) for key, x in options("periodic").items()}
    xs = [there(x).requires_grad_() for x in (*inputs(), torch.tensor(0.6, dtype=torch.float64))]

    def step() -> tuple[torch.Tensor, ...]:
        out = aggregate(which, *xs, **more)
        return out.detach(), *torch.autograd.grad(out, xs, torch.ones_like(out))

    graph, results = captured(step)
    for shift in (0.0, 0.3, -0.2):
        q, r, x = inputs()
        with torch.no_grad():
            xs[1].copy_(r + shift * torch.sin(40.0 * r))
        graph.replay()
        here = [a.requires_grad_() for a in (q, r + shift * torch.sin(40.0 * r), x, xs[3].detach().cpu())]
        out = aggregate(which, *here, **options("periodic"))
        close(results, [out, *torch.autograd.grad(out, here, torch.ones_like(out))], 1e-11)


def test_graphs_of_searches() -> None:
    """Numbers of the nearest points are known, and of those within a radius with a capacity."""
    q, r, _ = map(there, inputs())

    def step() -> tuple[torch.Tensor, ...]:
        return *mt.knn(q, r, 6), *mt.radius(q, r, 0.9, capacity=200)

    graph, found = captured(step)
    for scale in (1.0, 0.9):
        with torch.no_grad():
            r.copy_(scale * inputs()[1])
        graph.replay()
        expected = mt.knn(q.cpu(), r.cpu(), 6)
        assert torch.equal(found[0].cpu(), expected[0])
        ptr, indices, distances = mt.radius(q.cpu(), r.cpu(), 0.9)
        assert torch.equal(found[2].cpu(), ptr) and len(found[3]) == 200
        assert torch.equal(found[3][: len(indices)].cpu(), indices) and bool((found[3][len(indices) :] == len(r)).all())
        close([found[4][: len(indices)]], [distances])


def test_limits() -> None:
    """What does not fit is never cut: results are NaN, and the device's record says of which argument."""
    q, r, x = map(there, inputs())
    out = mt.radius_aggregate(q, r, x, 1.3, 0.6, max_neighbors=1)
    assert bool(out.isnan().all())
    with pytest.raises(ValueError, match="max_neighbors`: expected room for all that there is"):
        madelung.check_device()
    for options, name in (({"k": 36}, "k"), ({"k": 3, "queries": q * torch.nan}, "queries")):
        given = {"queries": q, "points": r, **options}
        _, distances = mt.knn(**given)
        assert bool(distances.isnan().all())
        with pytest.raises(ValueError, match=f"{name}`: expected"):
            madelung.check_device()
    with pytest.raises((ValueError, RuntimeError), match="points"):
        mt.radius(q, r * torch.nan, 0.5)
    out = mt.radius_aggregate(q, r * torch.nan, x, 1.3, 0.6)
    assert bool(out.isnan().all())
    with pytest.raises(ValueError, match="points`: expected finite"):
        madelung.check_device()
    flat = torch.ones(3, 3, dtype=torch.float64, device=DEVICE)
    assert bool(mt.radius_aggregate(q, r, x, 1.3, 0.6, flat, max_neighbors=9).isnan().all())
    with pytest.raises(ValueError, match="cell`: expected"):
        madelung.check_device()
    with pytest.raises(ValueError, match="`max_neighbors`: expected an integer from 1 up, got 0"):
        mt.radius_aggregate(q, r, x, 1.3, 0.6, max_neighbors=0)


def test_crowds_gaps_and_points_far_away() -> None:
    """Cells are sized by what there is: all points on one place, on a line, far from the origin, alone."""
    g = torch.Generator().manual_seed(1)
    cloud = torch.randn(60, 3, generator=g, dtype=torch.float64)
    line = cloud * torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    for points in (cloud[:1].expand(9, 3).contiguous(), line, cloud + 1e6, 1e-9 * cloud, 1e9 * cloud, cloud[:1]):
        queries = torch.cat([points[:3], points[:2] + 1e-3])
        k = min(5, len(points))
        for a, b in zip(mt.knn(there(queries), there(points), k), mt.knn(queries, points, k)):
            assert torch.equal(a.cpu(), b) or (a.is_floating_point() and torch.allclose(a.cpu(), b, rtol=1e-14))
        reach = 0.3 * float(points.abs().max())
        found, expected = mt.radius(there(queries), there(points), reach), mt.radius(queries, points, reach)
        assert torch.equal(found[0].cpu(), expected[0]) and torch.equal(found[1].cpu(), expected[1])
        # Of a radius so small that cells of its size would be too many to number.
        tiny = [mt.radius(place(queries), place(points), 1e-12)[1].cpu() for place in (there, lambda x: x)]
        assert torch.equal(*tiny)


LISTS = {
    "several cutoffs": {"cutoff": (1.0, 1.6)},
    "types": {"cutoff": np.array([[1.0, 1.5], [1.5, 0.0]]), "types": np.arange(35, dtype=np.int64) % 2},
    "centers": {"cutoff": 1.3, "centers": np.array([2, 7, 30])},
    "centers and types": {
        "cutoff": np.array([[1.0, 1.5], [1.5, 0.7]]),
        "types": np.arange(35, dtype=np.int32) % 2,
        "centers": np.array([0, 34], np.int32),
    },
    "sources": {"cutoff": 1.1, "sources": np.random.default_rng(8).uniform(-1.0, 3.0, (20, 3))},
}


@pytest.mark.parametrize("capacity", [None, 2000])
@pytest.mark.parametrize("cells", ["open", "periodic", "slab"])
@pytest.mark.parametrize("which", LISTS)
def test_lists_of_some_pairs(which: str, cells: str, capacity: int | None) -> None:
    """The same pairs as on the CPU, in the same order; with a capacity behind the last one the numbers of points."""
    r = inputs()[1]
    given = {
        key: torch.tensor(x) if isinstance(x, np.ndarray) else x
        for key, x in {**options(cells), **LISTS[which]}.items()
    }
    more = {"return_distances": True, "return_vectors": True}
    expected = mt.neighbor_list(r, **given, **more)
    found = mt.neighbor_list(there(r), **{key: there(x) for key, x in given.items()}, **more, capacity=capacity)
    if which != "several cutoffs":
        expected, found = (expected,), (found,)
    for (pairs, ptr, shifts, *lengths), a in zip(expected, found, strict=True):
        count = pairs.shape[1]
        assert torch.equal(a[1].cpu(), ptr) and torch.equal(a[0][:, :count].cpu(), pairs)
        assert torch.equal(a[2][:count].cpu(), shifts)
        close([x[:count] for x in a[3:]], lengths)
        if capacity is not None:
            points = len(given["sources"]) if "sources" in given else len(r)
            assert a[0].shape[1] == capacity and bool((a[0][1, count:] == points).all())


def test_wrong_lists_of_some_pairs() -> None:
    r = there(inputs()[1])
    for more, name in (
        ({"cutoff": torch.ones(2, 2, dtype=r.dtype), "types": torch.full((35,), 2, device=DEVICE)}, "types"),
        ({"cutoff": 1.0, "sources": r * torch.nan}, "sources|points"),
    ):
        with pytest.raises((ValueError, RuntimeError), match=name):
            mt.neighbor_list(r, **more)
    # Neither of the lists may pass for one that has no pairs.
    for pairs, ptr, shifts in mt.neighbor_list(r, (1.0, 1.6), capacity=3):
        assert int(ptr[-1]) > 3 and bool((pairs[1] == len(r)).all()) and not bool(shifts.any())
    with pytest.raises(ValueError, match="capacity`: expected room for all that there is"):
        madelung.check_device()
