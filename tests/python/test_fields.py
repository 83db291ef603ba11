"""Potentials, fields and field gradients at points: in closed form, at atoms, and against differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import required
from differences import fourth_order

torch, jax = required("torch"), required("jax")

import madelung.jax as mj  # noqa: E402
import madelung.torch as mt  # noqa: E402

CELL = np.array([[7.0, 0.0, 0.0], [1.0, 6.5, 0.0], [-0.5, 0.8, 7.5]])
NOT_FINITE = np.array([[0.5, 0.5, 0.5], [0.0, np.nan, 1.0]])
WANTED = {"compute_field": True, "compute_field_gradient": True}


def crystal() -> tuple[Any, Any, Any]:
    """Positions, charges and points."""
    rng = np.random.default_rng(8)
    sites = np.stack(np.meshgrid(*[np.arange(4)] * 3), -1).reshape(-1, 3) / 4
    r = (sites + 0.04 * rng.normal(size=sites.shape))[:40] @ CELL
    q = rng.normal(size=40)
    q -= q.mean()
    points = (sites[:9] + 0.125 + 0.02 * rng.normal(size=(9, 3))) @ CELL
    return r, q, points


def test_open_space() -> None:
    """Σ q/r, Σ q r/r³ and its gradient."""
    r, q, points = crystal()
    found = mn.electrostatic_potential(points, r, q, pbc=False, prefactor=1.5, **WANTED)
    d = points[:, None] - r[None]
    length = np.linalg.norm(d, axis=-1)
    outer = 3 * d[..., None] * d[..., None, :] / length[..., None, None] ** 5
    expected = (
        1.5 * (q / length).sum(1),
        1.5 * (q[:, None] * d / length[..., None] ** 3).sum(1),
        1.5 * (q[:, None, None] * (np.eye(3) / length[..., None, None] ** 3 - outer)).sum(1),
    )
    for x, y in zip(found, expected):
        assert np.abs(x - y).max() < 1e-12 * np.abs(y).max()


@pytest.mark.parametrize("method", ["pme", "ewald"])
def test_differences(method: str) -> None:
    """Of a crystal that is charged: the field is −∂φ/∂r, and its gradient follows from it."""
    r, q, points = crystal()
    q = q + 0.05
    split: dict[str, Any] = {"alpha": 0.75, "cutoff": 7.0, "method": method}
    split |= {"mesh_dimensions": (40, 40, 40)} if method == "pme" else {"k_cutoff": 9.0}
    phi, field, gradient = mn.electrostatic_potential(points, r, q, CELL, **split, **WANTED)
    step = np.random.default_rng(9).normal(size=3)

    def moved(h: float, **wanted: Any) -> Any:
        return mn.electrostatic_potential(points + h * step, r, q, CELL, **split, **wanted)

    by_step = fourth_order(moved, 1e-3)
    assert np.abs(field @ step + by_step).max() < 1e-8 * np.abs(by_step).max()
    by_step = fourth_order(lambda h: moved(h, compute_field=True)[1], 1e-3)
    assert np.abs(gradient @ step - by_step).max() < 1e-8 * np.abs(by_step).max()
    # ∇·E = 4πρ, and outside of the charges there is the background alone.
    background = 4 * np.pi * q.sum() / np.linalg.det(CELL)
    assert np.abs(np.trace(gradient, axis1=1, axis2=2) + background).max() < 1e-4 * np.abs(gradient).max()
    other = mn.electrostatic_potential(points, r, q, CELL, method="ewald" if method == "pme" else "pme", accuracy=1e-9)
    assert np.abs(phi - other).max() < 1e-5 * np.abs(phi).max()


@pytest.mark.parametrize("boundary", [{}, {"pbc": False}, {"pbc": [True, True, False], "slab_correction": True}])
def test_on_atoms(boundary: dict[str, Any]) -> None:
    """Without the terms of the atoms on them: ∂E/∂q, and forces over charges."""
    r, q, _ = crystal()
    q = q + 0.01
    given = {**boundary, "accuracy": 1e-8} | ({"pbc": np.array(boundary["pbc"])} if boundary.get("pbc") else {})
    own = np.arange(40)
    phi, field = mn.electrostatic_potential(r, r, q, CELL, own_atoms=own, compute_field=True, **given)
    _, forces, potentials = mn.particle_mesh_ewald(
        r, q, CELL, compute_forces=True, compute_charge_gradients=True, **given
    )
    assert np.abs(phi - potentials).max() < 1e-7 * np.abs(potentials).max()
    assert np.abs(field * q[:, None] - forces).max() < 1e-6 * np.abs(forces).max()


def test_sodium_chloride() -> None:
    """The potential at a sodium ion is −1.74756/d, and there is neither a field nor, of a cubic site, a gradient."""
    sites = np.stack(np.meshgrid(*[np.arange(4)] * 3), -1).reshape(-1, 3)
    q = np.where(sites.sum(1) % 2, -1.0, 1.0)
    given = {"own_atoms": [0], "accuracy": 1e-9, **WANTED}
    phi, field, gradient = mn.electrostatic_potential(2.8 * sites[:1], 2.8 * sites, q, 11.2 * np.eye(3), **given)
    assert phi[0] == pytest.approx(-1.747564594633 / 2.8, rel=1e-8)
    assert np.abs(field).max() < 1e-8 and np.abs(gradient - np.trace(gradient[0]) / 3 * np.eye(3)).max() < 1e-8


@pytest.mark.usefixtures("double_precision")
def test_namespaces_and_derivatives() -> None:
    r, q, points = crystal()
    split = {"alpha": 0.6, "cutoff": 6.0, "mesh_dimensions": (20, 20, 20)}
    expected = mn.electrostatic_potential(points, r, q, CELL, **split, **WANTED)
    given = [torch.tensor(x) for x in (points, r, q, CELL)]
    found = mt.electrostatic_potential(*given, **split, **WANTED)
    for x, y in zip(found, expected):
        assert np.abs(x.numpy() - y).max() < 1e-12 * np.abs(y).max()
    found = mj.electrostatic_potential(*map(jax.numpy.asarray, (points, r, q, CELL)), **split, **WANTED)
    for x, y in zip(found, expected):
        assert np.abs(x - y).max() < 1e-12 * np.abs(y).max()
    given[0].requires_grad_()
    given[2].requires_grad_()
    phi, field = mt.electrostatic_potential(*given, **split, compute_field=True)
    by_points, by_charges = torch.autograd.grad(phi.sum(), (given[0], given[2]), retain_graph=True)
    assert np.abs(by_points.numpy() + expected[1]).max() < 1e-11 * np.abs(expected[1]).max()
    assert float(by_charges @ given[2]) == pytest.approx(float(phi.sum()), rel=1e-10)
    (again,) = torch.autograd.grad(field[:, 0].sum(), given[0])
    assert np.abs(again.numpy() - expected[2][:, 0]).max() < 1e-10 * np.abs(expected[2]).max()


def test_batches() -> None:
    """Points of systems that are not in their order with the atoms."""
    r, q, points = crystal()
    cells = np.stack([CELL, 1.1 * CELL])
    split = {"alpha": 0.6, "cutoff": 6.0, "mesh_dimensions": (20, 20, 20)}
    idx, of_points = np.repeat([0, 1], [40, 40]).astype(np.int32), np.repeat([0, 1], [9, 4]).astype(np.int32)
    both = mn.electrostatic_potential(
        np.concatenate([points, 1.1 * points[:4]]),
        np.concatenate([r, 1.1 * r]),
        np.concatenate([q, -q]),
        cells,
        batch_idx=idx,
        point_batch_idx=of_points,
        **split,
        **WANTED,
    )
    first = mn.electrostatic_potential(points, r, q, CELL, **split, **WANTED)
    second = mn.electrostatic_potential(1.1 * points[:4], 1.1 * r, -q, cells[1], **split, **WANTED)
    for x, y, z in zip(both, first, second):
        assert np.abs(x - np.concatenate([y, z])).max() < 1e-12 * np.abs(x).max()


@pytest.mark.usefixtures("double_precision")
def test_uniform_field() -> None:
    r, q, _ = crystal()
    field = np.array([[0.3, -0.1, 0.2], [0.0, 0.4, 0.1]])
    idx = np.repeat([0, 1], 20).astype(np.int32)
    wanted = {"compute_forces": True, "compute_charge_gradients": True}
    energy, forces, potentials = mn.uniform_field(r, q, field, batch_idx=idx, prefactor=2.0, **wanted)
    along = (r * field[idx]).sum(1)
    assert np.abs(energy + 2.0 * q * along).max() < 1e-14 * np.abs(energy).max()
    assert np.abs(forces - 2.0 * q[:, None] * field[idx]).max() < 1e-15
    assert np.abs(potentials + 2.0 * along).max() < 1e-14 * np.abs(along).max()
    _, of_atoms = mn.uniform_field(r, q, field[0], CELL, compute_virial="atom")
    _, virial = mn.uniform_field(r, q, field[0], CELL, compute_virial=True)
    expected = q[:, None, None] * r[:, :, None] * field[0]
    assert np.abs(of_atoms - expected).max() < 1e-14 * np.abs(expected).max()
    assert np.abs(virial - expected.sum(0)).max() < 1e-13 * np.abs(expected).sum(0).max()
    tensors = [torch.tensor(x, requires_grad=True) for x in (r, q, field[0])]
    total = mt.uniform_field(*tensors).sum()
    by_field = torch.autograd.grad(total, tensors[2])[0].numpy()
    assert np.abs(by_field + q @ r).max() < 1e-13
    by_field = jax.grad(lambda x: mj.uniform_field(*map(jax.numpy.asarray, (r, q)), x).sum())(field[0])
    assert np.abs(by_field + q @ r).max() < 1e-13
    with pytest.raises(ValueError, match="`field`: expected shape"):
        mn.uniform_field(r, q, np.zeros((3, 3)))


def test_gaussian_charges() -> None:
    """Outside of them they are points; at the middle of one its potential is q √(2/π)/σ."""
    r, q = np.zeros((1, 3)), np.array([2.0])
    given = {"widths": np.array([0.5]), "pbc": False}
    points = np.array([[9.0, 0.0, 0.0], [0.3, 0.0, 0.0], [0.0, 0.0, 1e-6]])
    for unit in (1.0, 1e-3):
        given["widths"] = np.array([0.5 * unit])
        phi = unit * mn.electrostatic_potential(points * unit, r, q, **given)
        assert phi[0] == pytest.approx(2.0 / 9.0, rel=1e-12)
        assert phi[1] == pytest.approx(2.0 * math.erf(0.3 / np.sqrt(2) / 0.5) / 0.3, rel=1e-9)
        assert phi[2] == pytest.approx(2.0 * np.sqrt(2 / np.pi) / 0.5, rel=1e-9)


@pytest.mark.parametrize(
    ("message", "given"),
    [
        ("`own_atoms`: expected numbers of atoms, 0 to 39, or -1, got 40", {"own_atoms": [*range(8), 40]}),
        ("`method`: expected 'pme' or 'ewald'", {"method": "direct"}),
        ("`points`: expected finite coordinates, got [0.0, nan, 1.0] of point 1", {"points": NOT_FINITE}),
        ("`charges`: expected shape (40,), got (3,)", {"charges": np.ones(3)}),
        ("`widths`: expected shape (40,), got (3,)", {"widths": np.ones(3)}),
        ('`mesh_dimensions`: expected None, or `method="pme"`', {"method": "ewald", "mesh_dimensions": (9, 9, 9)}),
        ('`k_cutoff`: expected None, or `method="ewald"`', {"k_cutoff": 3.0}),
        ("`batch_idx`: expected the system of each", {"point_batch_idx": np.zeros(9, np.int32)}),
    ],
)
def test_errors(message: str, given: dict[str, Any]) -> None:
    r, q, points = crystal()
    arguments = {"points": points, "positions": r, "charges": q, "cell": CELL, **given}
    with pytest.raises(ValueError, match=".*") as error:
        mn.electrostatic_potential(**arguments)
    assert message in str(error.value)
    with pytest.raises(ValueError, match="`points`: expected places .*, got point 0 on atom 3, which `own_atoms`"):
        mn.electrostatic_potential(r[3:5], r, q, CELL)
    with pytest.raises(ValueError, match="`points`: expected places .*, got point 2 on point 0"):
        mn.electrostatic_potential(points[[0, 1, 0]], r, q, CELL)
    # In the order of systems, which is not that of the arguments.
    two = {"batch_idx": np.repeat([0, 1], 20).astype(np.int32), "point_batch_idx": np.array([0, 1], np.int32)}
    with pytest.raises(ValueError, match="`points`: expected places .*, got point 1 on atom 30, which `own_atoms`"):
        mn.electrostatic_potential(r[[0, 30]] + [[0.5] * 3, [0.0] * 3], r, q, np.stack([CELL] * 2), **two)
