"""Particle mesh Ewald sums in every namespace, against Ewald's sum and finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn

EVERYTHING = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}
MESH = {"mesh_dimensions": (15, 12, 14), "spline_order": 6}
TRICLINIC = np.array([[11.2, 0.0, 0.0], [2.1, 11.2, 0.0], [-1.4, 1.7, 11.2]])


def salt(seed: int, edge: int = 4, cell: np.ndarray = TRICLINIC) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ions at the places of rock salt, moved a little, in a triclinic cell."""
    rng = np.random.default_rng(seed)
    places = np.stack(np.meshgrid(*[np.arange(edge)] * 3, indexing="ij"), -1).reshape(-1, 3)
    moved = (places + rng.uniform(-0.15, 0.15, places.shape)) / edge
    return moved @ cell, np.where(places.sum(1) % 2, -1.0, 1.0), cell.copy()


def batch(cells: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Three systems of different sizes."""
    systems = [salt(n, edge, TRICLINIC * edge / 4) for n, edge in enumerate((4, 2, 4))]
    r, q = (np.concatenate([s[n] for s in systems]) for n in (0, 1))
    return r, q, np.stack([s[2] for s in systems]), np.repeat(np.arange(3, dtype=np.int32), [64, 8, 64])


def difference(of: Callable[[float], float], step: float) -> float:
    """The derivative at zero, of fourth order."""
    near, far = (of(h) - of(-h) for h in (step, 2 * step))
    return (8 * near - far) / (12 * step)


def rms(x: Any) -> float:
    return float(np.sqrt(np.mean(np.asarray(x, np.float64) ** 2)))


def test_a_fine_mesh_gives_the_sum_over_waves() -> None:
    r, q, h = salt(1)
    exact = mn.ewald_reciprocal_space(r, q, h, 0.5, 9.0, **EVERYTHING)
    found = mn.pme_reciprocal_space(r, q, h, 0.5, mesh_dimensions=(54, 54, 54), spline_order=8, **EVERYTHING)
    for a, b in zip(found, exact):
        assert rms(a - b) < 1e-9 * rms(b)


@pytest.mark.parametrize("accuracy", [1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("order", [4, 5, 7])
def test_accuracy_is_kept(accuracy: float, order: int) -> None:
    r, q, h = salt(2)
    _, exact = mn.ewald_summation(r, q, h, accuracy=1e-12, compute_forces=True)
    _, found = mn.particle_mesh_ewald(r, q, h, accuracy=accuracy, spline_order=order, compute_forces=True)
    error = np.sqrt(((found - exact) ** 2).sum(1).mean()) * (np.linalg.det(h) / len(q)) ** (2 / 3)
    assert 0.05 * accuracy < error < accuracy


def ions_in(box: np.ndarray, part: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ions at a distance of 1 Å or more in a part of a box, which lies across its corners, 0.1 in 1 Å³."""
    rng, found = np.random.default_rng(seed), np.empty((0, 3))
    while len(found) < 0.1 * part.prod():
        place = rng.random(3) * part
        if not len(found) or ((found - place) ** 2).sum(1).min() > 1.0:
            found = np.vstack([found, place])
    return (found - 0.4 * part) % box, np.where(np.arange(len(found)) % 2, -1.0, 1.0), np.diag(box)


CUBE, LAYER = np.full(3, 20.0), np.array([25.0, 25.0, 6.0])
PARTS = [(f * CUBE, CUBE) for f in (1.0, 2.0, 4.0, 10.0)] + [
    (np.array([25.0, 25.0, 6.0 * f]), LAYER) for f in (4.0, 20.0)
]


@pytest.mark.parametrize("order", [None, 4, 6])
@pytest.mark.parametrize(("box", "part"), PARTS)
def test_accuracy_is_kept_in_a_part_of_the_cell(box: np.ndarray, part: np.ndarray, order: int | None) -> None:
    """Of charges that are taken as spread over the cell it was up to 5 times the target."""
    r, q, h = ions_in(box, part)
    _, exact = mn.ewald_summation(r, q, h, accuracy=1e-11, compute_forces=True)
    for accuracy in (1e-4, 1e-5, 1e-7):
        _, found = mn.particle_mesh_ewald(r, q, h, accuracy=accuracy, spline_order=order, compute_forces=True)
        error = np.sqrt(((found - exact) ** 2).sum(1).mean()) * (box.prod() / len(q)) ** (2 / 3)
        assert error < 1.4 * accuracy, (accuracy, error)


def test_crowds_are_known_wherever_they_lie() -> None:
    """Parameters stay when a droplet moves, and when one of its ions leaves it."""
    r, q, h = ions_in(4 * CUBE, CUBE)
    of = lambda r: mn.estimate_pme_parameters(r, q, h, 1e-5, 30.0, spline_order=6)  # noqa: E731
    p = of(r)
    for shift in ([0.0, 31.0, -17.0], [8.0, 3.0, 170.0]):
        assert of(r + shift).alpha == pytest.approx(p.alpha, rel=0.03)
    assert of(np.vstack([[[40.0, 40.0, 40.0]], r[1:]])) == p
    filled = of(np.random.default_rng(1).random(r.shape) @ h)
    assert filled.alpha < p.alpha and np.prod(filled.mesh_dimensions) < np.prod(p.mesh_dimensions)


def test_mesh_by_spacing() -> None:
    r, q, h = salt(3)
    found = mn.pme_reciprocal_space(r, q, h, 0.5, mesh_spacing=0.8)
    nodes = [int(np.ceil(x / 0.8)) for x in np.linalg.norm(h, axis=1)]
    assert nodes == [14, 15, 15]
    assert np.array_equal(found, mn.pme_reciprocal_space(r, q, h, 0.5, mesh_dimensions=nodes))


@pytest.mark.parametrize("reduction", ["atom", "system"])
def test_forces_are_derivatives_of_the_energy_of_the_mesh(reduction: str) -> None:
    """To 1e-10. Differences of fourth order leave h⁴ of the fifth derivative, 8e-12 of the first here (as steps of 3 h
    show), and rounding 6e-15/h = 6e-12. A strain of h moves ions by some 5 h, and so has a fifth of the step."""
    r, q, h = salt(4)
    options = {**MESH, "energy_reduction": reduction}
    energy = lambda r, q, h: np.sum(mn.pme_reciprocal_space(r, q, h, 0.5, **options))  # noqa: E731
    _, forces, potentials, virial = mn.pme_reciprocal_space(r, q, h, 0.5, **options, **EVERYTHING)
    rng = np.random.default_rng(0)
    u, v, strain = rng.normal(size=r.shape), rng.normal(size=q.shape), rng.normal(size=(3, 3))
    moved = difference(lambda t: energy(r + t * u, q, h), 1e-3)
    charged = difference(lambda t: energy(r, q + t * v, h), 1e-3)
    strained = difference(lambda t: energy(r @ (np.eye(3) + t * strain), q, h @ (np.eye(3) + t * strain)), 2e-4)
    assert abs(moved + (forces * u).sum()) < 1e-10 * rms(forces) * np.sqrt(u.size)
    assert abs(charged - (potentials * v).sum()) < 1e-10 * rms(potentials) * np.sqrt(v.size)
    assert abs(strained + (virial * strain).sum()) < 1e-10 * rms(virial) * 3


def test_a_batch_is_its_systems() -> None:
    r, q, h, idx = batch()
    together = mn.pme_reciprocal_space(r, q, h, 0.5, **MESH, batch_idx=idx, **EVERYTHING)
    for b in range(3):
        of = idx == b
        alone = mn.pme_reciprocal_space(r[of], q[of], h[b], 0.5, **MESH, **EVERYTHING)
        for n, x in enumerate(alone):
            assert np.array_equal(together[n][b] if n == 3 else together[n][of], x)
    exact = mn.ewald_summation(r, q, h, batch_idx=idx, accuracy=1e-11)
    assert rms(mn.particle_mesh_ewald(r, q, h, batch_idx=idx, accuracy=1e-7) - exact) < 1e-7 * rms(exact)


def test_parameters() -> None:
    r, q, h = salt(5)
    p = mn.estimate_pme_parameters(r, q, h, 1e-4)
    assert p.spline_order in range(4, 9) and 0.3e-4 < p.predicted_force_error <= 1e-4
    given = {"alpha": p.alpha, "cutoff": p.cutoff, "mesh_dimensions": p.mesh_dimensions}
    given["spline_order"] = p.spline_order
    assert np.array_equal(
        mn.particle_mesh_ewald(r, q, h, accuracy=1e-4), mn.particle_mesh_ewald(r, q, h, **given, accuracy=None)
    )
    r, q, h, idx = batch()
    p = mn.estimate_pme_parameters(r, q, h, 1e-4, batch_idx=idx)
    assert p.alpha.shape == p.cutoff.shape == (3,) and len(p.mesh_dimensions) == 3
    assert (p.predicted_force_error <= 1e-4).all()


def test_other_namespaces_have_the_same_bits() -> None:
    torch, mt = pytest.importorskip("torch"), pytest.importorskip("madelung.torch")
    r, q, h, idx = batch()
    given = {"alpha": 0.5, "cutoff": 5.0, **MESH, "accuracy": None, **EVERYTHING}
    expected = mn.particle_mesh_ewald(r, q, h, **given, batch_idx=idx)
    found = mt.particle_mesh_ewald(*map(torch.tensor, (r, q, h)), **given, batch_idx=torch.tensor(idx))
    for a, b in zip(found, expected):
        assert np.array_equal(a.numpy(), b)
    jax, mj = pytest.importorskip("jax"), pytest.importorskip("madelung.jax")
    with jax.enable_x64(True):
        found = mj.particle_mesh_ewald(*map(jax.numpy.asarray, (r, q, h)), **given, batch_idx=idx)
    for a, b in zip(found, expected):
        assert np.array_equal(np.asarray(a), b)


def test_compiled_and_differentiated() -> None:
    torch, mt = pytest.importorskip("torch"), pytest.importorskip("madelung.torch")
    r, q, h = map(torch.tensor, salt(6))
    lists = mt.find_neighbors(r, 4.0, h)

    def loss(r: Any, q: Any) -> Any:
        given = {**MESH, "cutoff": 4.0, "neighbors": lists, "accuracy": None, "compute_forces": True}
        energies, forces = mt.particle_mesh_ewald(r, q, h, 0.6, **given)
        return energies.sum() + (forces**2).sum()

    of = [x.clone().requires_grad_() for x in (r, q)]
    eager = torch.autograd.grad(loss(*of), of)
    compiled = torch.autograd.grad(torch.compile(loss, fullgraph=True, backend="aot_eager")(*of), of)
    for a, b in zip(compiled, eager):
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-12 * float(b.abs().max()))
    u = torch.randn(r.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    along = difference(lambda t: float(loss(r + t * u, q)), 1e-3)
    assert abs(along - float((eager[0] * u).sum())) < 1e-8 * float(eager[0].norm()) * float(u.norm())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"spline_order": 3}, "`spline_order`: expected 4 to 8"),
        ({"spline_order": 9}, "`spline_order`: expected 4 to 8"),
        ({"mesh_dimensions": (4, 8, 8)}, "`mesh_dimensions`: expected three integers from 5"),
        ({"mesh_dimensions": (8, 8)}, "`mesh_dimensions`: expected three integers"),
        ({"mesh_dimensions": 8}, "`mesh_dimensions`: expected three integers"),
        ({"mesh_dimensions": (8, 8, 8), "mesh_spacing": 1.0}, "`mesh_spacing`: expected it or"),
        ({"mesh_spacing": 0.0}, "`mesh_spacing`: expected a number above zero"),
        ({"mesh_spacing": 1e-9}, "`mesh_spacing`: expected a finite number above zero, with no more"),
        (
            {"mesh_dimensions": (8, 8, 8), "cutoff": 3.0, "accuracy": 1e-6},
            "`accuracy`: expected one that the given parameters allow",
        ),
        ({"accuracy": 1e-12}, "`accuracy`: expected a relative force error from 1e-10"),
        ({"pbc": [True, True, False]}, "`pbc`"),
    ],
)
def test_bad_input(wrong: dict[str, Any], message: str) -> None:
    r, q, h = salt(7)
    with pytest.raises((TypeError, ValueError), match=message):
        mn.particle_mesh_ewald(r, q, h, **wrong)


def test_a_mesh_is_needed() -> None:
    with pytest.raises(ValueError, match="`mesh_dimensions`: expected three integers"):
        mn.pme_reciprocal_space(*salt(8), 0.5)
