"""Virials of atoms: their sum is the virial, and each is −∂Eᵢ/∂ε, against differences; in every namespace."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from bodies import arguments
from conftest import ROOT, required
from differences import fourth_order
from madelung._functions.declare import FUNCTIONS

torch, jax = required("torch"), required("jax")

import madelung.jax as mj  # noqa: E402
import madelung.torch as mt  # noqa: E402

# Charges that follow from the positions have results of their own in front; virials in a field are not symmetric, and
# have tests of their own (`test_fields.py`).
NAMES = sorted(
    name
    for name, declared in FUNCTIONS.items()
    if any(p.name == "compute_virial" for p in declared.parameters())
    and declared.result.startswith("Array |")
    and name != "uniform_field"
)


WIDTHS, SLAB = np.full(24, 0.3), np.array([True, True, False])


def called(namespace: Any, name: str, given: dict[str, Any], **wanted: Any) -> Any:
    return getattr(namespace, name)(**given, **wanted)


@pytest.mark.parametrize("name", NAMES)
def test_sums_and_differences(name: str) -> None:
    given = arguments(name, np.float64, 2)
    # What some functions take besides.
    given |= {"slab_correction": {"pbc": np.array([True, True, False])}, "gaussian_correction": {"widths": WIDTHS}}.get(
        name, {}
    )
    if name == "latent_ewald":
        given.pop("neighbors")
    per_atom, virials = called(mn, name, given, compute_virial="atom")
    total, virial = called(mn, name, given, energy_reduction="system", compute_virial=True)
    scale = np.abs(virials).max()
    assert virials.shape == (len(per_atom), 3, 3) and np.array_equal(virials, virials.swapaxes(1, 2))
    sums = np.stack([virials[given["batch_idx"] == b].sum(0) for b in range(2)])
    assert np.abs(sums - virial).max() < 1e-12 * np.abs(virials).sum(0).max()
    # Beside energies of systems and other results they are the same.
    also = called(mn, name, given, energy_reduction="system", compute_forces=True, compute_virial="atom")
    assert np.array_equal(also[-1], virials) and np.allclose(also[0], total, rtol=1e-14)
    # A list has the images of its own cell.
    free = {k: v for k, v in given.items() if k != "neighbors"}
    rng = np.random.default_rng(5)
    strain = rng.normal(size=(3, 3))
    strain += strain.T

    def strained(h: float) -> Any:
        by = np.eye(3) + h * strain
        return called(mn, name, {**free, "positions": free["positions"] @ by, "cell": free["cell"] @ by})

    if name in ("ewald_real_space", "coulomb", "dsf") or "types" in free:
        # Pairs are cut off: with a list none enters or leaves.
        def strained(h: float) -> Any:
            by = np.eye(3) + h * strain
            moved = {**given, "positions": given["positions"] @ by, "cell": given["cell"] @ by}
            moved["neighbors"] = mn.find_neighbors(
                moved["positions"], 1.2 * given["cutoff"], moved["cell"], batch_idx=given["batch_idx"]
            )
            return called(mn, name, moved)

    expected = -fourth_order(strained, 1e-4)
    found = (virials * strain).sum((1, 2))
    assert np.abs(found - expected).max() < 1e-7 * max(scale, 1.0)


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("name", ["ewald_summation", "harmonic_angles", "lennard_jones", "particle_mesh_ewald"])
def test_namespaces(name: str) -> None:
    given = arguments(name, np.float64, 0)
    given.pop("neighbors", None)
    _, expected = called(mn, name, given, compute_virial="atom")
    tensors = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in given.items()}
    _, found = called(mt, name, tensors, compute_virial="atom")
    assert np.abs(found.numpy() - expected).max() < 1e-13 * np.abs(expected).max()
    arrays = {k: jax.numpy.asarray(v) if isinstance(v, np.ndarray) else v for k, v in given.items()}
    _, found = called(mj, name, arrays, compute_virial="atom")
    assert np.abs(found - expected).max() < 1e-13 * np.abs(expected).max()
    # They are differentiable like forces.
    weights = torch.tensor(np.random.default_rng(2).normal(size=expected.shape))
    r = tensors["positions"].clone().requires_grad_()
    (slope,) = torch.autograd.grad(
        (called(mt, name, {**tensors, "positions": r}, compute_virial="atom")[1] * weights).sum(), r
    )
    step = np.random.default_rng(3).normal(size=r.shape)

    def moved(h: float) -> float:
        at = {**given, "positions": given["positions"] + h * step}
        return float((called(mn, name, at, compute_virial="atom")[1] * weights.numpy()).sum())

    assert float((slope.numpy() * step).sum()) == pytest.approx(fourth_order(moved, 1e-4), rel=1e-6)


def test_a_pair_is_split_half_and_half() -> None:
    """−½ Σⱼ V′(r) r r/r of each atom, as in LAMMPS' `compute stress/atom`, whose sign is the other."""
    rng = np.random.default_rng(4)
    r = 4.0 * rng.random((9, 3))
    types, table = np.zeros(9, np.int32), np.ones((1, 1))
    _, virials = mn.yukawa(r, types, table, table, 30.0, end="cut", compute_virial="atom")
    d = r[None] - r[:, None]
    length = np.linalg.norm(d, axis=-1) + np.eye(9)
    slope = -np.exp(-length) * (1 + length) / length**2 * (1 - np.eye(9))
    expected = -0.5 * np.einsum("ij,ija,ijb->iab", slope / length, d, d)
    assert np.abs(virials - expected).max() < 1e-13 * np.abs(expected).max()


def test_boundaries_and_errors() -> None:
    """Batches of crystals, slabs and molecules, which are summed in parts, and slabs that are not known to be ones."""
    rng = np.random.default_rng(6)
    r, q = 6.0 * rng.random((24, 3)), np.tile([1.0, -1.0], 12)
    cells, idx = np.stack([7.0 * np.eye(3)] * 3), np.repeat([0, 1, 2], 8).astype(np.int32)
    pbc = np.array([[True] * 3, [True, True, False], [False] * 3])
    given = {"pbc": pbc, "slab_correction": True, "batch_idx": idx, "accuracy": 1e-8}
    for of in (mn.ewald_summation, mn.particle_mesh_ewald):
        _, virials = of(r, q, cells, compute_virial="atom", **given)
        _, virial = of(r, q, cells, compute_virial=True, **given)
        sums = np.stack([virials[idx == b].sum(0) for b in range(3)])
        assert np.abs(sums - virial).max() < 1e-12 * np.abs(virial).max()
    message = "`compute_virial`: expected True or False, or 'atom', got 'atoms'"
    for namespace, array in ((mn, np.asarray), (mt, torch.tensor), (mj, jax.numpy.asarray)):
        with pytest.raises(TypeError, match=message):
            namespace.particle_mesh_ewald(array(r[:8]), array(q[:8]), array(cells[0]), compute_virial="atoms")


def test_example() -> None:
    """The energy of its liquid stays, and its conductivity is the integral of correlations that are known."""
    spec = importlib.util.spec_from_file_location("heat_flux", ROOT / "examples" / "heat_flux.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["heat_flux"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    liquid = module.Argon(3)

    def energy() -> float:
        kinetic = 0.5 * module.MASS * (liquid.velocities**2).sum()
        return float(liquid.evaluate(compute_forces=True)[0].sum() + kinetic)

    before, kinetic = energy(), 1.5 * 108 * module.KELVIN * module.TEMPERATURE
    for _ in range(200):
        liquid.step()
    assert abs(energy() - before) < 2e-3 * kinetic
    assert np.isfinite(liquid.heat_flux()).all()
    # White noise of a variance of 1 along each axis: half a sample of it, three times, over 3V kT².
    fluxes = np.random.default_rng(1).normal(size=(200000, 3))
    found = module.conductivity(fluxes, 2.0, 50.0, 10)
    expected = 0.5 * module.EVERY * module.STEP / (2.0 * module.KELVIN * 50.0**2) * module.WATT / module.TIME * 1e10
    assert found == pytest.approx(expected, rel=0.05)


def test_heat_flux() -> None:
    """Of an open cluster it is the change of Σ Eᵢ rᵢ in time."""
    rng = np.random.default_rng(7)
    r, v, mass = 5.0 * rng.random((8, 3)), rng.normal(size=(8, 3)), rng.uniform(1.0, 3.0, 8)
    q, types, table = rng.normal(size=8), np.zeros(8, np.int32), np.ones((1, 1))

    def terms(positions: Any, **wanted: Any) -> list[Any]:
        both = mn.coulomb(positions, q, pbc=False, **wanted), mn.yukawa(positions, types, table, table, 99.0, **wanted)
        return [sum(x) for x in zip(*both)]

    energies, forces, virials = terms(r, compute_forces=True, compute_virial="atom")
    kinetic = 0.5 * mass * (v**2).sum(1)
    flux = (energies + kinetic) @ v + np.einsum("iab,ib->a", virials, v)

    def moments(t: float) -> Any:
        # To second order in time; the change of the kinetic energies comes from the forces at 0.
        moved, faster = r + t * v, v + t * forces / mass[:, None]
        energies = terms(moved, compute_forces=True)[0]
        return (energies + 0.5 * mass * (faster**2).sum(1)) @ moved

    assert np.abs(flux - fourth_order(moments, 1e-4)).max() < 1e-9 * np.abs(flux).max()
