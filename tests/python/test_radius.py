"""Points within a radius of queries, and chosen pairs of lists, against brute force over images in every namespace."""

from __future__ import annotations

import contextlib
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


def call(space: str, name: str, *arrays: Any, **options: Any) -> Any:
    """A function of a namespace with arrays of it; its results as NumPy's."""
    module, array = NAMESPACES[space]

    def given(x: Any) -> Any:
        return array(x) if isinstance(x, np.ndarray) else x

    found = getattr(module, name)(*map(given, arrays), **{key: given(x) for key, x in options.items()})
    return jax.tree_util.tree_map(np.asarray, found)


def brute_force(queries: Any, points: Any, cell: Any, pbc: Any, reach: float) -> tuple[np.ndarray, ...]:
    """All (i, j), S and lengths up to a reach of a few boxes, by i, j and S."""
    most = [int(np.ceil(reach * np.linalg.norm(a)) + 3) if axis else 0 for a, axis in zip(np.linalg.inv(cell).T, pbc)]
    images = np.stack(np.meshgrid(*(np.arange(-m, m + 1) for m in most), indexing="ij"), -1).reshape(-1, 3)
    d = points[None, :, None] - queries[:, None, None] + images @ cell
    lengths = np.sqrt((d**2).sum(-1))
    i, j, s = np.nonzero(lengths <= reach)
    return np.stack([i, j]), images[s], lengths[i, j, s]


def case(seed: int) -> tuple[Any, ...]:
    g = np.random.default_rng([17, seed])
    cell = g.normal(size=(3, 3)) + (4.0 if seed % 3 else 1.0) * np.eye(3) * g.choice([-1, 1])
    pbc = g.random(3) < 0.6
    queries, points = (g.uniform(-0.5, 1.5, (m, 3)) @ cell for m in (9, int(g.integers(1, 30))))
    options = {"cell": cell, "pbc": pbc} if pbc.any() or seed % 2 else {}
    return queries, points, cell, pbc, float(g.uniform(0.2, 1.5) * abs(np.linalg.det(cell)) ** (1 / 3)), options


@pytest.mark.parametrize("seed", range(30))
def test_against_brute_force(seed: int) -> None:
    queries, points, cell, pbc, reach, options = case(seed)
    pairs, images, lengths = brute_force(queries, points, cell, pbc, reach)
    for space in NAMESPACES:
        asked = {"return_shifts": True, "return_vectors": True}
        ptr, indices, distances, shifts, vectors = call(space, "radius", queries, points, reach, **options, **asked)
        np.testing.assert_array_equal(np.repeat(np.arange(9), np.diff(ptr)), pairs[0])
        np.testing.assert_array_equal(indices, pairs[1])
        np.testing.assert_array_equal(shifts, images)
        np.testing.assert_allclose(distances, lengths, rtol=1e-13, atol=1e-13 * reach)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), distances, rtol=1e-13, atol=1e-13 * reach)
        among = call(space, "neighbor_list", queries, reach, **options, sources=points)
        for x, y in zip(among, (pairs, ptr, images)):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("seed", range(12))
def test_chosen_pairs_are_those_of_the_full_list(seed: int) -> None:
    g, (_, _, cell, pbc, reach, options) = np.random.default_rng(seed), case(seed)
    r = g.uniform(-0.5, 1.5, (25, 3)) @ cell
    centers, types = np.flatnonzero(g.random(25) < 0.3).astype(np.int32), g.integers(0, 3, 25).astype(np.int32)
    cutoffs = g.uniform(0.0, reach, (3, 3)) * (g.random((3, 3)) < 0.8)
    cutoffs = np.maximum(cutoffs, cutoffs.T)
    cutoffs[1, 1] = reach
    (i, j), images, lengths = brute_force(r, r, cell, pbc, reach)
    there = ~((i == j) & (images == 0).all(1))
    kept = {
        "all": (there, {}),
        "centers": (there & np.isin(i, centers), {"centers": centers}),
        "types": (there & (lengths < cutoffs[types[i], types[j]]), {"types": types}),
        "both": (
            there & np.isin(i, centers) & (lengths < cutoffs[types[i], types[j]]),
            {"types": types, "centers": centers},
        ),
    }
    for space in NAMESPACES:
        for name, (rows, chosen) in kept.items():
            cutoff = cutoffs if "types" in chosen else reach
            found = call(space, "neighbor_list", r, cutoff, **options, **chosen, return_distances=True)
            first = centers[found[0][0]] if "centers" in chosen else found[0][0]
            np.testing.assert_array_equal(np.stack([first, found[0][1]]), np.stack([i, j])[:, rows], err_msg=name)
            np.testing.assert_array_equal(found[2], images[rows])
            np.testing.assert_allclose(found[3], lengths[rows], rtol=1e-13)
            np.testing.assert_array_equal(np.repeat(np.arange(len(found[1]) - 1), np.diff(found[1])), found[0][0])
        each = call(space, "neighbor_list", r, (0.5 * reach, reach), **options, half_fill=True, return_vectors=True)
        for cutoff, several in zip((0.5 * reach, reach), each):
            alone = call(space, "neighbor_list", r, cutoff, **options, half_fill=True, return_vectors=True)
            for x, y in zip(several, alone):
                np.testing.assert_array_equal(x, y)
        matrix, counts, *_ = call(space, "neighbor_list", r, reach, **options, centers=centers, format="matrix")
        np.testing.assert_array_equal(matrix[matrix < 25], j[kept["centers"][0]])
        np.testing.assert_array_equal(counts, [(i[there] == c).sum() for c in centers])


@spaces
def test_systems_of_a_batch_are_apart(space: str) -> None:
    g = np.random.default_rng(3)
    q, r, cells = g.random((2, 5, 3)) * 4, g.random((2, 9, 3)) * 4, np.stack([4.0 * np.eye(3), 5.0 * np.eye(3)])
    of_q, of_r = (np.repeat([0, 1], n).astype(np.int32) for n in (5, 9))
    batches = {"batch_idx": of_r, "query_batch_idx": of_q}
    _, indices, distances = call(space, "radius", q.reshape(-1, 3), r.reshape(-1, 3), 1.5, cells, **batches)
    alone = [call(space, "radius", q[b], r[b], 1.5, cells[b]) for b in range(2)]
    np.testing.assert_array_equal(indices, np.concatenate([alone[0][1], alone[1][1] + 9]))
    np.testing.assert_array_equal(distances, np.concatenate([x[2] for x in alone]))
    pairs, _, _ = call(
        space,
        "neighbor_list",
        q.reshape(-1, 3),
        1.5,
        cells,
        batch_idx=of_q,
        sources=r.reshape(-1, 3),
        source_batch_idx=of_r,
    )
    np.testing.assert_array_equal(pairs[1], indices)
    centers = np.array([1, 7, 8, 12], np.int32)
    full = call(space, "neighbor_list", r.reshape(-1, 3), 1.5, cells, batch_idx=of_r)[0]
    part = call(space, "neighbor_list", r.reshape(-1, 3), 1.5, cells, batch_idx=of_r, centers=centers)[0]
    np.testing.assert_array_equal(part[1], full[1][np.isin(full[0], centers)])


@spaces
def test_systems_without_points_or_queries(space: str) -> None:
    x = np.random.default_rng(4).random((6, 3))
    of = np.array([0, 0, 0, 1, 1, 1], np.int32)
    alone = call(space, "radius", x[:3], x[:3], 2.0)
    ptr, indices, distances = call(space, "radius", x, x[:3], 2.0, query_batch_idx=of, batch_idx=of[:3])
    np.testing.assert_array_equal(ptr, [*alone[0], 9, 9, 9])
    np.testing.assert_array_equal(indices, alone[1])
    np.testing.assert_array_equal(distances, alone[2])
    ptr, *_ = call(space, "radius", x[:3], x, 2.0, query_batch_idx=of[:3], batch_idx=of)
    np.testing.assert_array_equal(ptr, alone[0])
    ptr, *_ = call(space, "radius", x, x[:0], 2.0, query_batch_idx=of, batch_idx=of[:0])
    assert not ptr.any()
    features = np.arange(6.0).reshape(3, 2)
    module, array = NAMESPACES[space]
    q, r, f, of_q, of_r = map(array, (x, x[:3], features, of, of[:3]))
    out = np.asarray(module.radius_aggregate(q, r, f, 2.0, 0.5, query_batch_idx=of_q, batch_idx=of_r))
    assert not out[3:].any() and out[:3].all()


@spaces
def test_energies_of_trailing_systems_without_atoms(space: str) -> None:
    """The number of systems is that of the cells, which are zero for systems without periodic axes."""
    module, array = NAMESPACES[space]
    r, q, of, h = (
        array(x) for x in (np.eye(3), np.array([1.0, -1.0, 2.0]), np.array([0, 0, 2], np.int32), np.zeros((5, 3, 3)))
    )
    energies = np.asarray(module.coulomb(r, q, cell=h, batch_idx=of, energy_reduction="system"))
    np.testing.assert_allclose(energies, [-1.0 / np.sqrt(2.0), 0, 0, 0, 0])


@spaces
def test_an_order_in_space_changes_no_result(space: str) -> None:
    g = np.random.default_rng(5)
    q, r, cells = g.random((40, 3)) * 4, g.random((90, 3)) * 4, np.stack([4.0 * np.eye(3), 5.0 * np.eye(3)])
    batches = {"batch_idx": np.repeat([0, 1], [30, 60]).astype(np.int32)}
    order = call(space, "spatial_order", r, cells, **batches)
    assert sorted(order[:30]) == list(range(30))
    assert sorted(order[30:]) == list(range(60))
    batches["query_batch_idx"] = np.repeat([0, 1], 20).astype(np.int32)
    stale = np.concatenate([g.permutation(30), g.permutation(60)]).astype(np.int32)
    for name, rest in (
        ("radius", (0.9,)),
        ("knn", (4,)),
        ("knn_aggregate", (r, 4, 0.3)),
        ("radius_aggregate", (r, 0.9, 0.3)),
    ):
        arrays = (q, r, rest[0], *rest[1:]) if "aggregate" in name else (q, r, *rest)
        expected = call(space, name, *arrays, cell=cells, **batches)
        for known in (order, stale):
            found = call(space, name, *arrays, cell=cells, **batches, order=known)
            for x, y in zip(jax.tree_util.tree_leaves(found), jax.tree_util.tree_leaves(expected)):
                # Sums over points follow their order.
                exact = {"rtol": 1e-13, "atol": 1e-13} if name == "radius_aggregate" else {"rtol": 0, "atol": 0}
                np.testing.assert_allclose(x, y, **exact)


HALVES = [("numpy", np.float16), ("jax", jnp.float16), ("jax", jnp.bfloat16)]
HALVES += [("torch", torch.float16), ("torch", torch.bfloat16)]


@pytest.mark.parametrize(("space", "dtype"), HALVES)
def test_half_precision_is_searched_in_single(space: str, dtype: Any) -> None:
    module, array = NAMESPACES[space]
    g = np.random.default_rng(2)
    given = [array(g.random((n, 3)).astype(np.float32)) for n in (12, 50)]
    half = [x.to(dtype) if space == "torch" else x.astype(dtype) for x in given]
    wide = [x.float() if space == "torch" else x.astype(np.float32) for x in half]
    for name, rest in (
        ("radius", (0.3,)),
        ("knn", (4,)),
        ("knn_aggregate", (4, 0.2)),
        ("radius_aggregate", (0.3, 0.2)),
    ):
        features = "aggregate" in name
        found, expected = (
            jax.tree_util.tree_leaves(getattr(module, name)(*x, *([x[1]] * features), *rest)) for x in (half, wide)
        )
        for x, y in zip(found, expected):
            if "int" in str(x.dtype):
                np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
            else:
                assert x.dtype == dtype
                rounded = y.to(dtype).float() if space == "torch" else y.astype(dtype).astype(np.float32)
                np.testing.assert_array_equal(np.asarray(x.float() if space == "torch" else x, np.float32), rounded)
    if space == "torch":
        leaf = half[1].clone().requires_grad_()
        mt.radius_aggregate(half[0], leaf, leaf, 0.3, 0.2).sum().backward()
        assert leaf.grad.dtype == dtype
        assert leaf.grad.abs().max() > 0


def test_derivatives_to_second_order() -> None:
    g = np.random.default_rng(1)
    cell = 3.0 * np.eye(3) + 0.3 * g.normal(size=(3, 3))
    arrays = g.random((4, 3)) @ cell, g.random((9, 3)) @ cell, cell
    inputs = [torch.from_numpy(x).requires_grad_() for x in arrays]

    def distances(q: Any, r: Any, h: Any) -> Any:
        return mt.radius(q, r, 1.7, h)[2] ** 1.5

    check_torch(distances, inputs)
    check_torch(lambda q, r, h: mt.neighbor_list(q, 1.7, h, sources=r, return_distances=True)[3] ** 1.5, inputs)
    chosen = {"centers": torch.tensor([1, 4]), "return_vectors": True}
    check_torch(lambda r, h: mt.neighbor_list(r, 1.7, h, **chosen)[3] ** 3, inputs[1:])
    check_jax(lambda q, r, h: mj.radius(q, r, 1.7, h, capacity=80)[2] ** 3, [jnp.asarray(x) for x in arrays])


def test_graphs_hold_it() -> None:
    q, r, cell = torch.rand(4, 3, dtype=torch.float64), torch.rand(9, 3, dtype=torch.float64), torch.eye(3).double()

    def total(q: Any, r: Any) -> Any:
        return mt.radius(q, r, 0.6, cell)[2].sum()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(total, fullgraph=True, backend="aot_eager")
        for some in (q, q + 0.3):
            assert torch.equal(compiled(some, r), total(some, r))

    class Module(torch.nn.Module):
        def forward(self, q: Any, r: Any) -> Any:
            return total(q, r)

    assert torch.equal(torch.export.export(Module(), (q, r)).module()(q, r), total(q, r))


def test_rooms_under_jit() -> None:
    g = np.random.default_rng(4)
    q, r, cell = jnp.asarray(g.random((4, 3))), jnp.asarray(g.random((9, 3))), jnp.eye(3)
    known = mj.radius(q, r, 0.6, cell, return_shifts=True)
    pairs = len(known[1])
    jitted = jax.jit(lambda q, r, room: mj.radius(q, r, 0.6, cell, capacity=room, return_shifts=True), static_argnums=2)
    found = jitted(q, r, pairs + 3)
    np.testing.assert_array_equal(found[0], known[0])
    for x, y, rest in zip(found[1:], known[1:], (9, 0, 0)):
        np.testing.assert_array_equal(x[:pairs], y)
        np.testing.assert_array_equal(x[pairs:], rest)
    small = jitted(q, r, pairs - 1)
    assert small[0][-1] == pairs
    assert np.isnan(small[2]).all()
    centers, types, cutoffs = jnp.array([2, 5]), jnp.asarray(np.arange(9) % 2), np.array([[0.3, 0.6], [0.6, 0.0]])
    expected = mn.neighbor_list(np.asarray(r), cutoffs, np.eye(3), types=np.arange(9) % 2, centers=np.array([2, 5]))
    listed = jax.jit(lambda r: mj.neighbor_list(r, cutoffs, cell, types=types, centers=centers, capacity=200))(r)
    assert int(listed[3]) == expected[0].shape[1]
    np.testing.assert_array_equal(listed[0][:, : int(listed[3])], expected[0])
    np.testing.assert_array_equal(listed[0][:, int(listed[3]) :], [[2], [9]] * np.ones(200 - int(listed[3]), int))
    with pytest.raises(ValueError, match="`capacity`: expected the number of pairs"):
        jax.jit(lambda q: mj.radius(q, r, 0.6))(q)


WRONG = [
    ("radius", {"radius": 0.0}, "`radius`: expected a number above zero"),
    ("radius", {"radius": None}, "`radius`: expected a number above zero"),
    ("radius", {"radius": np.nan}, "`radius`"),
    ("radius", {"max_neighbors": 1}, "`max_neighbors`: expected at least 3"),
    ("radius", {"capacity": 4}, "`capacity`: expected at least 9, the number of pairs"),
    ("radius", {"queries": np.full((3, 3), np.nan)}, "`queries`: expected finite coordinates"),
    ("radius", {"points": np.full((3, 3), np.inf)}, "`points`: expected finite coordinates"),
    ("radius", {"order": np.array([0, 1, 1])}, "`order`: expected every number from 0 to below 3 once"),
    ("radius", {"order": np.array([0, 1])}, "`order`: expected shape"),
    ("spatial_order", {"points": np.full((3, 3), np.nan)}, "`points`: expected finite coordinates"),
    ("neighbor_list", {"cutoff": ()}, "`cutoff`: expected at least one number"),
    ("neighbor_list", {"cutoff": (1.0, -1.0)}, "`cutoff`: expected a number above zero"),
    ("neighbor_list", {"types": np.zeros(3, int)}, r"`cutoff`: expected numbers \(T, T\)"),
    ("neighbor_list", {"types": np.zeros(3, int), "cutoff": np.ones((2, 1))}, r"`cutoff`: expected numbers \(T, T\)"),
    ("neighbor_list", {"types": np.array([0, 1, 2]), "cutoff": np.ones((2, 2))}, "`types`: expected numbers from 0"),
    ("neighbor_list", {"types": np.zeros(2, int), "cutoff": np.ones((1, 1))}, "`types`: expected shape"),
    ("neighbor_list", {"types": np.zeros(3, int), "cutoff": np.array([[1.0, 2.0], [1.0, 1.0]])}, "`cutoff`: .* order"),
    ("neighbor_list", {"centers": np.array([0, 3])}, "`centers`: expected indices below 3 that rise"),
    ("neighbor_list", {"centers": np.array([1, 0])}, "`centers`: expected indices below 3 that rise"),
    ("neighbor_list", {"centers": np.array([0]), "sources": np.zeros((2, 3))}, "`centers`: expected None with"),
    ("neighbor_list", {"sources": np.zeros((2, 3)), "half_fill": True}, "`half_fill`: expected False with `sources`"),
    ("neighbor_list", {"sources": np.zeros((2, 3)), "method": "cell_list"}, "`method`: expected None with `sources`"),
    ("neighbor_list", {"sources": np.zeros((2, 3)), "types": np.zeros(3, int), "cutoff": np.ones((1, 1))}, "`types`"),
    ("neighbor_list", {"sources": np.zeros((2, 2))}, "`sources`: expected shape"),
    ("neighbor_list", {"sources": np.zeros((2, 3)), "source_batch_idx": np.array([0, 1])}, "`batch_idx`"),
    ("neighbor_list", {"source_batch_idx": np.zeros(2, int)}, "`source_batch_idx`: expected None without `sources`"),
    ("neighbor_list", {"cutoff": (0.5, 2.0), "max_neighbors": 1}, "`max_neighbors`: expected at least 2"),
]


def good(name: str) -> dict[str, Any]:
    points = np.random.default_rng(0).random((3, 3))
    return {
        "radius": {"queries": points, "points": points, "radius": 2.0},
        "spatial_order": {"points": points},
        "neighbor_list": {"positions": points, "cutoff": 2.0},
    }[name]


@pytest.mark.parametrize(("name", "change", "text"), WRONG)
def test_wrong_arguments(name: str, change: dict[str, Any], text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        getattr(mn, name)(**(good(name) | change))


@pytest.mark.parametrize("space", ["torch", "jax"])
@pytest.mark.parametrize(("name", "change", "text"), WRONG)
def test_wrong_arguments_are_named(space: str, name: str, change: dict[str, Any], text: str) -> None:
    """The argument is named where the op finds the error, too."""
    with pytest.raises(Exception, match=text.split(":")[0].rstrip("`")):
        call(space, name, **(good(name) | change))


def test_ops_refuse_arrays_that_do_not_belong_together() -> None:
    """By their names ops take any arrays: one that is too short or too long is an error of an argument."""
    r, of, none = np.random.default_rng(0).random((3, 3)), np.zeros(3, np.int32), np.zeros(0, np.int32)
    ptr, columns, shifts = (x.astype(np.int32) for x in (np.arange(4), np.arange(3), np.zeros((3, 3))))
    cell, no_axes = 9.0 * np.eye(3)[None], np.zeros((0, 3), np.int32)
    calls = {
        "radius_search": [r, r, cell, no_axes, np.arange(3, dtype=np.int32), of, of, 1.0, 0, 0, -1],
        "nearest": [r, r, cell, no_axes, np.arange(3, dtype=np.int32), of, of, 0.0, 0, 0, 2],
        "points_within": [r, r, of, 1, of, 1, 1.0, -1],
        "nearest_points": [r, r, of, 1, of, 1, 0.0, 2],
        "narrowed_pairs": [r, r, cell, np.ones((1, 1)), of, of, of, of, of, ptr, columns, shifts, 2, 1.0, -1],
    }
    calls["narrowed_pairs"][6] = np.arange(3, dtype=np.int32)
    for name, inputs in calls.items():
        mn.call(name, *inputs)
        for n, x in enumerate(inputs):
            for wrong in (x[:-1], np.concatenate([x, x[-1:]]), x[:, :-1]) if np.ndim(x) > 1 else ():
                _refused(name, inputs, n, wrong)
            for wrong in (x[:-1], np.concatenate([x, x[-1:]]), x - 1, x + 9) if np.ndim(x) == 1 else ():
                _refused(name, inputs, n, wrong)
    assert len(mn.call("narrowed_pairs", *calls["narrowed_pairs"][:6], none, *calls["narrowed_pairs"][7:])[1]) == 4


def _refused(name: str, inputs: list[Any], n: int, wrong: np.ndarray) -> None:
    """A call either has a result (of axes that no row gives, or systems without a point) or is a `ValueError`."""
    with contextlib.suppress(ValueError):
        mn.call(name, *inputs[:n], wrong, *inputs[n + 1 :])
