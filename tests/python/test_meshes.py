"""Meshes of different sizes in one batch: each system has the mesh, and the bits, that it has alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import assert_close
from test_pme import EVERYTHING, TRICLINIC, salt


def different(count: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Systems of 8, 27 (charged) or 64 ions in cells of different sizes and shapes, of one handedness and the other."""
    edges = [(4, 2, 3)[n % 3] for n in range(count)]
    shapes = [np.diag([0.8 + 0.05 * (n % 11), 1.0 - 2.0 * (n % 2), 1.0 + 0.2 * (n % 7)]) for n in range(count)]
    cells = [edge / 4 * shape @ TRICLINIC for edge, shape in zip(edges, shapes)]
    return [salt(n, edge, cell) for n, (edge, cell) in enumerate(zip(edges, cells))]


def together(systems: list[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    sizes = [len(q) for _, q, _ in systems]
    r, q = (np.concatenate([s[n] for s in systems]) for n in (0, 1))
    return r, q, np.stack([s[2] for s in systems]), np.repeat(np.arange(len(systems), dtype=np.int32), sizes)


def same(found: Any, singles: list[Any]) -> None:
    """Energies, forces and potentials by atoms, virials by systems: equal bits."""
    for n in range(3):
        assert np.array_equal(np.asarray(found[n]), np.concatenate([np.asarray(x[n]) for x in singles]))
    assert np.array_equal(np.asarray(found[3]), np.stack([np.asarray(x[3]) for x in singles]))


def test_64_different_systems_are_64_single_calls() -> None:
    systems = different(64)
    r, q, h, idx = together(systems)
    singles = [mn.particle_mesh_ewald(*s, **EVERYTHING) for s in systems]
    same(mn.particle_mesh_ewald(r, q, h, batch_idx=idx, **EVERYTHING), singles)
    p = mn.estimate_pme_parameters(r, q, h, 1e-6, batch_idx=idx)
    assert len(set(p.mesh_dimensions)) > 10
    for b, s in enumerate(systems[:6]):
        alone = mn.estimate_pme_parameters(*s, 1e-6)
        assert (p.mesh_dimensions[b], p.spline_order[b]) == (alone.mesh_dimensions, alone.spline_order)
        assert (p.alpha[b], p.cutoff[b]) == (alone.alpha, alone.cutoff)
    # They are what the function takes; cutoffs are kept by the search.
    given = {"cutoff": p.cutoff, "mesh_dimensions": p.mesh_dimensions, "spline_order": p.spline_order}
    same(mn.particle_mesh_ewald(r, q, h, p.alpha, batch_idx=idx, accuracy=None, **given, **EVERYTHING), singles)


def test_by_spacing_and_by_nodes() -> None:
    systems = different(7)
    r, q, h, idx = together(systems)
    order = (4, 5, 6, 7, 8, 5, 4)
    singles = [
        mn.pme_reciprocal_space(*s, 0.4, mesh_spacing=0.9, spline_order=p, **EVERYTHING) for s, p in zip(systems, order)
    ]
    given = {"mesh_spacing": 0.9, "spline_order": order, "batch_idx": idx}
    same(mn.pme_reciprocal_space(r, q, h, 0.4, **given, **EVERYTHING), singles)
    nodes = [(8 + b, 16 - b, 9) for b in range(7)]
    singles = [mn.pme_reciprocal_space(*s, 0.4, mesh_dimensions=k, **EVERYTHING) for s, k in zip(systems, nodes)]
    for given in (nodes, np.array(nodes), tuple(map(list, nodes))):
        same(mn.pme_reciprocal_space(r, q, h, 0.4, mesh_dimensions=given, batch_idx=idx, **EVERYTHING), singles)


def test_open_systems_beside_periodic_ones() -> None:
    systems = different(4)
    r, q, h, idx = together(systems)
    pbc = np.array([[True] * 3, [False] * 3, [True] * 3, [False] * 3])
    singles = [mn.particle_mesh_ewald(*s, pbc=axes, **EVERYTHING) for s, axes in zip(systems, pbc)]
    same(mn.particle_mesh_ewald(r, q, h, pbc=pbc, batch_idx=idx, **EVERYTHING), singles)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_other_namespaces_have_the_same_bits(dtype: str) -> None:
    torch, mt = pytest.importorskip("torch"), pytest.importorskip("madelung.torch")
    jax, mj = pytest.importorskip("jax"), pytest.importorskip("madelung.jax")
    *arrays, idx = together(different(9))
    arrays = [x.astype(dtype) for x in arrays]
    expected = mn.particle_mesh_ewald(*arrays, batch_idx=idx, accuracy=1e-4, **EVERYTHING)
    found = mt.particle_mesh_ewald(*map(torch.tensor, arrays), batch_idx=torch.tensor(idx), accuracy=1e-4, **EVERYTHING)
    for a, b in zip(found, expected):
        assert np.array_equal(a.numpy(), b)
    with jax.enable_x64(True):
        found = mj.particle_mesh_ewald(*map(jax.numpy.asarray, arrays), batch_idx=idx, accuracy=1e-4, **EVERYTHING)
    for a, b in zip(found, expected):
        assert np.array_equal(np.asarray(a), b)


# Static in graphs.
NODES = ((9, 8, 10), (6, 9, 7), (12, 8, 8))
ORDER = (5, 6, 7)


def test_under_jit_and_vmap() -> None:
    jax, mj = pytest.importorskip("jax"), pytest.importorskip("madelung.jax")
    systems = different(3)
    r, q, h, idx = together(systems)
    singles = [
        mn.pme_reciprocal_space(*s, 0.4, mesh_dimensions=k, spline_order=p, **EVERYTHING)
        for s, k, p in zip(systems, NODES, ORDER)
    ]
    with jax.enable_x64(True):

        def sums(r: Any, q: Any, h: Any) -> Any:
            given = {"mesh_dimensions": NODES, "spline_order": ORDER, "batch_idx": jax.numpy.asarray(idx)}
            return mj.pme_reciprocal_space(r, q, h, 0.4, **given, **EVERYTHING)

        arrays = [jax.numpy.asarray(x) for x in (r, q, h)]
        same(jax.jit(sums)(*arrays), singles)
        many = jax.jit(jax.vmap(sums, (0, None, None)))(jax.numpy.stack([arrays[0], arrays[0] + 0.3]), *arrays[1:])
        same([x[0] for x in many], singles)
        for a, b in zip(many, sums(arrays[0] + 0.3, *arrays[1:])):
            assert np.array_equal(a[1], b)
        second = jax.jit(jax.grad(lambda r: (sums(r, *arrays[1:])[1] ** 2).sum()))(arrays[0])
        assert np.isfinite(second).all()


def test_in_graphs_and_under_transforms() -> None:
    torch, mt = pytest.importorskip("torch"), pytest.importorskip("madelung.torch")
    systems = different(3)
    r, q, h, idx = map(torch.tensor, together(systems))

    def sums(r: Any, q: Any, h: Any) -> Any:
        given = {"mesh_dimensions": NODES, "spline_order": ORDER, "batch_idx": idx}
        return mt.pme_reciprocal_space(r, q, h, 0.4, **given, **EVERYTHING)

    singles = [
        mn.pme_reciprocal_space(*s, 0.4, mesh_dimensions=k, spline_order=p, **EVERYTHING)
        for s, k, p in zip(systems, NODES, ORDER)
    ]
    eager = sums(r, q, h)
    same(eager, singles)
    same(torch.compile(sums, fullgraph=True, backend="aot_eager")(r, q, h), singles)
    many = torch.func.vmap(sums, (0, None, None))(torch.stack([r, r + 0.3]), q, h)
    same([x[0] for x in many], singles)
    for a, b in zip(many, sums(r + 0.3, q, h)):
        assert torch.equal(a[1], b)
    exported = torch.export.export(as_module(sums), (r, q, h)).module()
    same(exported(r, q, h), singles)

    def loss(r: Any) -> Any:
        return (sums(r, q, h)[1] ** 2).sum()

    x = r.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(x), x)
    assert torch.equal(torch.func.grad(loss)(r), expected)
    u = torch.randn(r.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    near, far = (float(loss(r + t * u) - loss(r - t * u)) for t in (1e-3, 2e-3))
    along = (8 * near - far) / 12e-3
    assert abs(along - float((expected * u).sum())) < 1e-7 * float(expected.norm() * u.norm())


def as_module(function: Any) -> Any:
    """A function as a module."""
    torch = pytest.importorskip("torch")

    class Module(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, *arrays: Any) -> Any:
            return function(*arrays)

    return Module()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"mesh_dimensions": [(8, 8, 8)] * 2}, "`mesh_dimensions`: expected one for all, or one for each of 3"),
        ({"mesh_dimensions": [(8, 8, 8), (8, 8, 4), (8, 8, 8)]}, "`mesh_dimensions`: expected three integers from 5"),
        ({"mesh_dimensions": [(8, 8, 8), (8, 8), (8, 8, 8)]}, "`mesh_dimensions`: expected three integers, or three"),
        ({"mesh_dimensions": [(8, 8, 8), 8, (8, 8, 8)]}, "`mesh_dimensions`: expected three integers, or three"),
        ({"mesh_dimensions": [(8, 8, 8.5)] * 3}, "`mesh_dimensions`: expected an integer"),
        ({"mesh_dimensions": (8, 8, 8), "spline_order": (5, 6)}, "`spline_order`: expected one for all, or one for"),
        ({"mesh_dimensions": (8, 8, 8), "spline_order": (5, 9, 6)}, "`spline_order`: expected 4 to 8"),
        (
            {"mesh_dimensions": (5, 5, 5), "spline_order": (4, 6, 5)},
            "`mesh_dimensions`: expected three integers from 6",
        ),
        ({"mesh_dimensions": (8, 8, 8), "spline_order": []}, "`spline_order`: expected 4 to 8, got no number"),
        ({"mesh_dimensions": (8, 8, 8), "spline_order": 5.5}, "`spline_order`: expected an integer"),
        ({"mesh_dimensions": [(8, 8, 8), (6, 8, 8), (8, 8, 8)], "spline_order": (5, 7, 6)}, "from 7, the order"),
    ],
)
def test_bad_input(wrong: dict[str, Any], message: str) -> None:
    r, q, h, idx = together(different(3))
    for sums in (mn.pme_reciprocal_space, mn.particle_mesh_ewald):
        with pytest.raises((TypeError, ValueError), match=message):
            sums(r, q, h, 0.5, **wrong, batch_idx=idx)


def test_orders_without_meshes_and_spacings_without_cells() -> None:
    r, q, h, idx = together(different(3))
    with pytest.raises(ValueError, match="`spline_order`: expected one for all, or one for each of 3 systems"):
        mn.particle_mesh_ewald(r, q, h, spline_order=(4, 5), batch_idx=idx)
    open_sum = mn.particle_mesh_ewald(r, q, None, pbc=False, batch_idx=idx)
    assert np.array_equal(mn.particle_mesh_ewald(r, q, None, pbc=False, mesh_spacing=1.0, batch_idx=idx), open_sum)
    h[1] = 0.0
    axes = [[True] * 3, [False] * 3, [True] * 3]
    mixed = mn.particle_mesh_ewald(r, q, h, 0.5, mesh_spacing=1.0, cutoff=3.0, accuracy=None, pbc=axes, batch_idx=idx)
    assert_close(mixed[idx == 1], open_sum[idx == 1], 1e-12, 0.1)
