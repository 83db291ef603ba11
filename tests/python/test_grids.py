"""Kernels in Python that query a grid, in every framework: sums over the points that brute force finds."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import madelung.kernels as mk
import madelung.numpy
from conftest import assert_close
from differences import check_jax, check_torch
from madelung.kernels import Array, Batch, HashGrid, Mat3, Out, Pairs, Real, Vec3, dot, length
from test_radius import NAMESPACES, brute_force, doubles, spaces

__all__ = ["doubles"]

Query, Point, System, Edge = mk.dims("Query Point System Edge")


@mk.kernel
def weighed(
    i: Query,
    x: Array[Vec3, Query],
    y: Array[Vec3, Point],
    q: Array[Real, Point],
    cell: Array[Mat3, System],
    radius: Real,
    queries: Batch[Query, System],
    points: Batch[Point, System],
    near: HashGrid[Query, Point],
    energy: Out[Real, Query],
):
    """Sum of weights that vanish at the radius, with their first derivatives."""
    e = 0.0
    for j, shift in near.query(x[i], radius):
        d = y[j] - x[i] + shift @ cell[queries.of(i)]
        s = 1 - dot(d, d) / radius**2
        e += q[j] * s**4
    energy[i] = e**2


@mk.kernel
def listed(
    i: Query,
    x: Array[Vec3, Query],
    y: Array[Vec3, Point],
    q: Array[Real, Point],
    cell: Array[Mat3, System],
    radius: Real,
    queries: Batch[Query, System],
    points: Batch[Point, System],
    near: Pairs[Query, Point],
    energy: Out[Real, Query],
):
    """The same of a list."""
    e = 0.0
    for j, shift in near.row(i):
        d = y[j] - x[i] + shift @ cell[queries.of(i)]
        s = 1 - dot(d, d) / radius**2
        e += q[j] * s**4
    energy[i] = e**2


def case() -> tuple[list[Any], float]:
    """Queries, points, weights and a cell; and a radius larger than a box."""
    g = np.random.default_rng(3)
    cell = g.normal(size=(3, 3)) + 3.0 * np.eye(3)
    x, y = (g.uniform(-0.5, 1.5, (n, 3)) @ cell for n in (7, 12))
    return [x, y, g.normal(size=12), cell], 2.5


def pairs_of(x: Any, y: Any, cell: Any, pbc: Any, radius: float) -> tuple[Any, ...]:
    pairs, images, _ = brute_force(x, y, cell, pbc, radius)
    ptr = np.concatenate([[0], np.bincount(pairs[0], minlength=len(x)).cumsum()])
    return pairs.astype(np.int32), ptr.astype(np.int32), images.astype(np.int32)


def grid(y: Any, cell: Any, pbc: tuple[bool, ...], **options: Any) -> HashGrid:
    return HashGrid(y, cell, pbc, **options) if any(pbc) else HashGrid(y, **options)


boundaries = pytest.mark.parametrize("pbc", [(True, True, True), (True, False, True), (False, False, False)])


@spaces
@boundaries
def test_against_brute_force(space: str, pbc: Any) -> None:
    """What plain sums give, and the bits of the same kernel with the pairs of brute force."""
    (x, y, q, h), radius = case()
    array = NAMESPACES[space][1]
    given = [array(a) for a in (x, y, q, h)]
    found = weighed(*given, radius, near=grid(given[1], given[3], pbc))
    (i, j), _, lengths = brute_force(x, y, h, pbc, radius)
    expected = np.bincount(i, q[j] * (1 - (lengths / radius) ** 2) ** 4, len(x)) ** 2
    assert_close(np.asarray(found), expected, 1e-13)
    pairs = tuple(array(a) for a in pairs_of(x, y, h, pbc, radius))
    np.testing.assert_array_equal(found, listed(*given, radius, near=pairs))
    # A grid's parameter takes the pairs of a search, too.
    np.testing.assert_array_equal(found, weighed(*given, radius, near=pairs))


@boundaries
def test_derivatives_of_torch(pbc: Any) -> None:
    smooth, radius = case()
    x = [torch.from_numpy(a) for a in smooth]

    def f(x: Any, y: Any, q: Any, h: Any) -> Any:
        return weighed(x, y, q, h, radius, near=grid(y, h, pbc))

    check_torch(f, x, forward=True)
    leaves = [a.clone().requires_grad_() for a in x]
    assert torch.autograd.gradcheck(f, leaves, eps=1e-5, atol=1e-7, rtol=1e-6)


@boundaries
def test_derivatives_of_jax(pbc: Any) -> None:
    """Those of `jit` too, where the list has a size of its own."""
    smooth, radius = case()
    x = [jnp.asarray(a) for a in smooth]

    def f(x: Any, y: Any, q: Any, h: Any) -> Any:
        return weighed(x, y, q, h, radius, near=grid(y, h, pbc, capacity=600))

    check_jax(f, x)

    def total(*at: Any) -> Any:
        return weighed(*at, radius, near=grid(at[1], at[3], pbc)).sum()

    found = jax.grad(total, (0, 1, 2, 3))(*x)
    leaves = [torch.from_numpy(a).requires_grad_() for a in smooth]
    values = weighed(*leaves, radius, near=grid(leaves[1], leaves[3], pbc)).sum()
    for a, b in zip(found, torch.autograd.grad(values, leaves)):
        np.testing.assert_array_equal(a, b)


def test_tape() -> None:
    pbc = (True, True, True)
    (x, y, q, h), radius = case()
    with mk.Tape() as tape:
        energy = weighed(x, y, q, h, radius, near=grid(y, h, pbc))
    leaves = [torch.from_numpy(a).requires_grad_() for a in (x, y, q, h)]
    values = weighed(*leaves, radius, near=grid(leaves[1], leaves[3], pbc))
    for a, b in zip(tape.gradient(energy, [x, y, q, h]), torch.autograd.grad(values.sum(), leaves)):
        np.testing.assert_array_equal(a, b)


@boundaries
def test_vmap(pbc: Any) -> None:
    """With room for the pairs of each call, of which the last one fills it; without, none can be."""
    smooth, radius = case()
    moved = [np.stack([a, 1.03 * a, 0.96 * a]) for a in smooth]
    expected = [weighed(*at, radius, near=grid(at[1], at[3], pbc)) for at in zip(*moved)]
    counts = [brute_force(x, y, h, pbc, radius)[2].size for x, y, _, h in zip(*moved)]
    assert counts[2] == max(counts)

    def f(x: Any, y: Any, q: Any, h: Any) -> Any:
        return weighed(x, y, q, h, radius, near=grid(y, h, pbc, capacity=counts[2]))

    def without(x: Any, y: Any, q: Any, h: Any) -> Any:
        return weighed(x, y, q, h, radius, near=grid(y, h, pbc))

    of_jax, of_torch = ([array(a) for a in moved] for array in (jnp.asarray, torch.from_numpy))
    np.testing.assert_array_equal(jax.vmap(f)(*of_jax), expected)
    np.testing.assert_array_equal(jax.jit(jax.vmap(f))(*of_jax), expected)
    np.testing.assert_array_equal(torch.func.vmap(f)(*of_torch), expected)
    for vmap, at in ((jax.vmap, of_jax), (torch.func.vmap, of_torch)):
        if len(set(counts)) > 1:
            with pytest.raises(ValueError, match="`near: capacity`"):
                vmap(without)(*at)
    # Of weights alone, which no search depends on.
    x, y, q, h = (torch.from_numpy(a) for a in smooth)
    near = grid(y, h, pbc)
    found = torch.func.vmap(lambda q: weighed(x, y, q, h, radius, near=near))(torch.stack([q, 2 * q]))
    assert torch.equal(found[0], weighed(x, y, q, h, radius, near=near))


def test_vmap_with_room_in_pytorch() -> None:
    """Within other transforms, and with a capacity that is too small for some calls: whichever they are, an error."""
    pbc = (True, True, True)
    smooth, radius = case()
    moved = [np.stack([a, 1.03 * a, 0.96 * a]) for a in smooth]
    expected = torch.stack([torch.from_numpy(weighed(*at, radius, near=grid(at[1], at[3], pbc))) for at in zip(*moved)])
    counts = [brute_force(x, y, h, pbc, radius)[2].size for x, y, _, h in zip(*moved)]
    of_torch = [torch.from_numpy(a) for a in moved]

    def f(x: Any, y: Any, q: Any, h: Any, capacity: int = max(counts) + 20) -> Any:
        return weighed(x, y, q, h, radius, near=grid(y, h, pbc, capacity=capacity))

    vmap, grad, loose = torch.func.vmap, torch.func.grad, {"rtol": 1e-12, "atol": 1e-12}
    twice = vmap(vmap(f))(*[torch.stack([a, a.flip(0)]) for a in of_torch])
    torch.testing.assert_close(twice, torch.stack([expected, expected.flip(0)]), **loose)
    outside = grad(lambda x: vmap(f)(x, *of_torch[1:]).sum())(of_torch[0])
    inside = vmap(grad(lambda *at: f(*at).sum()))(*of_torch)
    torch.testing.assert_close(outside, inside, **loose)
    compiled = torch.compile(vmap(f), fullgraph=True, backend="aot_eager")(*of_torch)
    torch.testing.assert_close(compiled, expected, **loose)
    assert min(counts) < max(counts)
    for order in ((0, 1, 2), (2, 1, 0)):
        at = [a[list(order)] for a in of_torch]
        with pytest.raises(ValueError, match="`near: neighbor_ptr`: expected .* to the number of pairs"):
            vmap(lambda *at: f(*at, capacity=max(counts) - 1))(*at)


@boundaries
@pytest.mark.parametrize("capacity", [None, 600])
def test_compiled(pbc: Any, capacity: int | None) -> None:
    """In one graph, of dynamic shapes or with a capacity."""
    smooth, radius = case()
    x = [torch.from_numpy(a).requires_grad_() for a in smooth]

    def f(x: Any, y: Any, q: Any, h: Any) -> Any:
        return weighed(x, y, q, h, radius, near=grid(y, h, pbc, capacity=capacity)).sum()

    torch.compiler.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=capacity is None):
        value = torch.compile(f, fullgraph=True, backend="aot_eager")(*x)
    expected = f(*x)
    assert torch.equal(value, expected)
    for a, b in zip(torch.autograd.grad(value, x), torch.autograd.grad(expected, x)):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@spaces
def test_systems(space: str) -> None:
    """Two systems give what each gives alone, and see no points of each other."""
    (x, y, q, h), radius = case()
    pbc = (True, True, False)
    cells = np.stack([h, 0.9 * h])
    alone = [
        weighed(x[:3], y[:7], q[:7], cells[0], radius, near=HashGrid(y[:7], cells[0], pbc)),
        weighed(x[3:], y[7:], q[7:], cells[1], radius, near=HashGrid(y[7:], cells[1], pbc)),
    ]
    array = NAMESPACES[space][1]
    of_rows, of_points = (array(np.array(n, np.int32)) for n in ([0] * 3 + [1] * 4, [0] * 7 + [1] * 5))
    given = [array(a) for a in (x, y, q, cells)]
    for batch in (of_rows, (of_rows, 2)):
        near = HashGrid(given[1], given[3], [pbc, pbc])
        found = weighed(*given, radius, batch, of_points, near)
        np.testing.assert_array_equal(found, np.concatenate(alone))


@mk.kernel
def counted(
    i: Query, x: Array[Vec3, Query], radius: Real, near: HashGrid[Query, Query, Edge], n: Out[Real, Query],
    d: Out[Real, Edge],
):  # fmt: skip
    """The rows are the points, and open; a result for each pair."""
    m = 0.0
    for j, _, p in near.query(x[i], radius):
        m += 1
        d[p] = length(x[j] - x[i])
    n[i] = m


@spaces
def test_rows_are_points(space: str) -> None:
    (_, y, *_), radius = case()
    array = NAMESPACES[space][1]
    n, d = counted(array(y), radius, HashGrid(array(y)))
    _, _, lengths = brute_force(y, y, np.eye(3), [False] * 3, radius)
    distances = np.linalg.norm(y[:, None] - y, axis=-1)
    np.testing.assert_array_equal(n, (distances <= radius).sum(1))
    np.testing.assert_allclose(d, lengths, rtol=1e-14, atol=1e-15)


def test_ops_and_launches() -> None:
    """One search of all steps, and results in place."""

    @mk.kernel
    def number(i: Query, x: Array[Vec3, Query], radius: Real, near: HashGrid[Query, Point], n: Out[Real, Query]):
        m = 0.0
        for _, _ in near.query(x[i], radius):
            m += 1
        n[i] = m

    @mk.kernel
    def mean(
        i: Query, x: Array[Vec3, Query], q: Array[Real, Point], radius: Real, near: HashGrid[Query, Point],
        n: Array[Real, Query], found: Out[Real, Query],
    ):  # fmt: skip
        m = 0.0
        for j, _ in near.query(x[i], radius):
            m += q[j]
        found[i] = m / n[i] if n[i] > 0 else 0.0

    means = mk.op("tests::means", [number, mean], scratch=[mk.OutputSpec("n", Real, (Query,))])
    (x, y, q, _), radius = case()
    near = np.linalg.norm(x[:, None] - y, axis=-1) <= radius
    expected = (near * q).sum(1) / np.maximum(near.sum(1), 1)
    given = {"x": x, "q": q, "radius": radius, "near": HashGrid(y)}
    assert_close(means(**given), expected, 1e-14)
    out = np.full(len(x), np.nan)
    mk.launch(means, given, {"found": out})
    np.testing.assert_array_equal(out, means(**given))
    single = {name: a.astype(np.float32) if isinstance(a, np.ndarray) else a for name, a in given.items()}
    assert_close(means(**single | {"near": HashGrid(y.astype(np.float32))}), expected, 1e-6)

    @mk.kernel
    def moved(i: Query, x: Array[Vec3, Query], z: Out[Vec3, Query]):
        z[i] = 2 * x[i]

    @mk.kernel
    def around(i: Query, z: Array[Vec3, Query], radius: Real, near: HashGrid[Query, Point], n: Out[Real, Query]):
        m = 0.0
        for _, _ in near.query(z[i], radius):
            m += 1
        n[i] = m

    @mk.kernel
    def farther(i: Query, x: Array[Vec3, Query], wide: Real, near: HashGrid[Query, Point], m: Out[Real, Query]):
        n = 0.0
        for _, _ in near.query(x[i], wide):
            n += 1
        m[i] = n

    with pytest.raises(ValueError, match="`near` to be queried around an argument, .*, got `z`, which a step writes"):
        mk.op("tests::moved", [moved, around], saved=[mk.OutputSpec("z", Vec3, (Query,))])
    with pytest.raises(ValueError, match="one query of `near` in all of them"):
        mk.op("tests::both", [number, farther])


def refused(kind: type[Exception], text: str, **changed: Any) -> None:
    (x, y, q, h), radius = case()
    given = {"x": x, "y": y, "q": q, "cell": h, "radius": radius, "near": HashGrid(y, h)}
    with pytest.raises(kind, match=re.escape(text)):
        weighed(**given | changed)


def test_refused() -> None:
    (_, y, _, h), _ = case()
    refused(ValueError, "`near`: expected 12 of `Point`, as in other arguments, got 11", near=HashGrid(y[:11], h))
    refused(ValueError, "`near: points`: expected shape (N, 3), got (12,)", near=HashGrid(y[:, 0], h))
    refused(TypeError, "`near: points`: expected float64", near=HashGrid(y.astype(np.float32), h))
    refused(ValueError, "`near: cell`: expected shape (3, 3), got (2, 2)", near=HashGrid(y, h[:2, :2]))
    refused(ValueError, "`radius`: expected a number above zero, got 0.0", radius=0.0)
    refused(ValueError, "`near: capacity`: expected at least ", near=HashGrid(y, h, capacity=3))
    refused(ValueError, "`near: cell`: expected lattice vectors", near=HashGrid(y, None, True))
    refused(ValueError, "`near: points`: expected finite", near=HashGrid(np.where(y == y[0], np.nan, y), h))
    refused(ValueError, "`near: pbc`: expected", near=HashGrid(y, h, [True] * 2))
    refused(TypeError, "`near`: expected HashGrid(points, cell), or what `neighbor_list(", near=y)
    refused(TypeError, "`near`: expected HashGrid(points, cell)", near=madelung.numpy.find_neighbors(y, 2.5, h))
    with pytest.raises(TypeError, match="`near`: expected what `find_neighbors` gives"):
        listed(*case()[0], 2.5, near=HashGrid(y, h))
    of = np.array([0] * 4 + [1] * 3, np.int32)
    refused(ValueError, "`points`: expected the system of each row", queries=of, cell=np.stack([h, h]))
    with pytest.raises(ValueError, match="capacity"):
        jax.jit(lambda y: weighed(*map(jnp.asarray, case()[0]), 2.5, near=HashGrid(y, h)))(jnp.asarray(y))


@spaces
def test_a_grid_of_other_points_is_refused(space: str) -> None:
    """Of other coordinates: the loop would go on with those of the argument."""
    _, array = NAMESPACES[space]
    (x, y, q, cell), radius = case()
    given = [array(a) for a in (x, y, q, cell)]
    same = weighed(*given, radius, near=HashGrid(given[1], given[3]))
    # Equal points in another array are the same.
    found = weighed(*given, radius, near=HashGrid(array(y.copy()), given[3]))
    np.testing.assert_array_equal(np.asarray(found), np.asarray(same))
    with pytest.raises(ValueError, match="`near`: expected a grid of the points `y`, got one of other points"):
        weighed(*given, radius, near=HashGrid(array(y + 1e-9), given[3]))


@mk.kernel
def drifting(
    i: Query,
    x: Array[Vec3, Query],
    v: Array[Vec3, Point],
    radius: Real,
    near: HashGrid[Query, Point],
    w: Out[Vec3, Query],
):
    """A sum that says nothing of the points' places."""
    s = mk.vec3(0, 0, 0)
    for j, _ in near.query(x[i], radius):
        s += v[j]
    w[i] = s


def test_other_arrays_over_the_points_are_no_points() -> None:
    (x, y, _, _), radius = case()
    v = np.random.default_rng(0).normal(size=y.shape)
    found = drifting(x, v, radius, near=HashGrid(y))
    near = np.linalg.norm(y - x[:, None], axis=-1) <= radius
    np.testing.assert_allclose(found, near @ v, rtol=1e-13)


@mk.kernel
def displaced(
    i: Query,
    x: Array[Vec3, Query],
    y: Array[Vec3, Point],
    moved: Array[Vec3, Point],
    cell: Array[Mat3, System],
    radius: Real,
    queries: Batch[Query, System],
    near: HashGrid[Query, Point],
    w: Out[Vec3, Query],
):
    """Two arrays over the points, either of which may be those of the grid; vectors in one more step."""
    s = mk.vec3(0, 0, 0)
    for j, shift in near.query(x[i], radius):
        p = y[j] + shift @ cell[queries.of(i)]
        s += (p - x[i]) + (shift @ cell[queries.of(i)] + moved[j] - x[i])
    w[i] = s


def test_which_points_a_grid_may_have() -> None:
    (x, y, _, cell), radius = case()
    moved = y + 0.1
    assert [set(query.points) for query in displaced._op._declaration.queries.values()] == [{"y", "moved"}]
    for points in (y, moved, y.copy()):
        assert np.isfinite(displaced(x, y, moved, cell, radius, near=HashGrid(points, cell))).all()
    with pytest.raises(
        ValueError, match="`near`: expected a grid of the points `moved` or `y`, got one of other points"
    ):
        displaced(x, y, moved, cell, radius, near=HashGrid(y + 0.2, cell))
