"""Coulomb sums as a force of OpenMM, against OpenMM's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conftest import required
from test_forcefield import evaluated, read

openmm = required("openmm")
from madelung.openmm import coulomb_force, take_coulomb  # noqa: E402


def copied(name: str) -> tuple[Any, np.ndarray]:
    system, r, _ = read(name)
    return openmm.XmlSerializer.clone(system), r


@pytest.mark.parametrize("method", [None, "ewald", "pme"])
def test_water(method: Any) -> None:
    """To the error of OpenMM's mesh; with a list that is kept while atoms move a little, and found again."""
    system, r = copied("flexible water")
    for force in system.getForces():
        if isinstance(force, openmm.NonbondedForce):
            force.setEwaldErrorTolerance(1e-7)
    expected = [evaluated(system, x) for x in (r, r + 0.02 * np.sin(r), r + 0.3)]
    force = take_coulomb(system, accuracy=1e-8, method=method)
    assert force.usesPeriodicBoundaryConditions()
    # As it comes back from a file.
    system = openmm.XmlSerializer.deserialize(openmm.XmlSerializer.serialize(system))
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    for x, (energy, forces) in zip((r, r + 0.02 * np.sin(r), r + 0.3), expected):
        context.setPositions(x)
        state = context.getState(getEnergy=True, getForces=True)
        assert state.getPotentialEnergy()._value == pytest.approx(energy, rel=1e-6)
        got = np.array(state.getForces(asNumpy=True)._value)
        assert np.sqrt(((got - forces) ** 2).mean() / (forces**2).mean()) < 1e-5


def test_a_peptide_without_cutoff() -> None:
    system, r = copied("peptide")
    energy, forces = evaluated(system, r)
    assert not take_coulomb(system).usesPeriodicBoundaryConditions()
    got = evaluated(system, r)
    assert got[0] == pytest.approx(energy, rel=1e-10)
    assert np.abs(got[1] - forces).max() < 1e-9 * np.abs(forces).max()


def test_dynamics_keep_the_energy() -> None:
    """Of ions that move, beside repulsion."""
    edge, length = 6, 0.282
    places = length * np.stack(np.meshgrid(*[np.arange(edge)] * 3, indexing="ij"), -1).reshape(-1, 3)
    charges = 1.0 - 2.0 * (np.rint(places / length).sum(1) % 2)
    system, repulsion = openmm.System(), openmm.CustomNonbondedForce("2.3e5*exp(-r/0.0317)")
    system.setDefaultPeriodicBoxVectors(*(edge * length * np.eye(3)))
    for _ in charges:
        system.addParticle(30.0)
        repulsion.addParticle([])
    repulsion.setNonbondedMethod(repulsion.CutoffPeriodic)
    repulsion.setCutoffDistance(0.8)
    system.addForce(repulsion)
    system.addForce(coulomb_force(charges, accuracy=1e-6))
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(places + 0.005 * np.sin(np.arange(places.size)).reshape(-1, 3))
    context.setVelocitiesToTemperature(300.0, 1)
    totals = []
    for _ in range(10):
        context.getIntegrator().step(20)
        state = context.getState(getEnergy=True)
        totals.append((state.getPotentialEnergy() + state.getKineticEnergy())._value)
        kinetic = state.getKineticEnergy()._value
    assert np.ptp(totals) < 2e-3 * kinetic


def test_errors() -> None:
    for given, message in (
        ({"charges": [np.nan]}, "`charges`: expected finite numbers"),
        ({"charges": [1.0], "method": "direct"}, "`method`"),
        ({"charges": [1.0], "accuracy": -1.0}, "`accuracy`"),
    ):
        with pytest.raises(ValueError, match=message):
            coulomb_force(**given)
    with pytest.raises(TypeError, match="`system`: expected an openmm.System"):
        take_coulomb(None)
    with pytest.raises(ValueError, match="`system`: expected one NonbondedForce, got 0 of them"):
        take_coulomb(openmm.System())
    system = openmm.System()
    for _ in range(2):
        system.addParticle(1.0)
    system.addForce(coulomb_force([1.0, -1.0, 0.0], periodic=False))
    with pytest.raises(openmm.OpenMMException, match="`charges`: expected"):
        evaluated(system, np.eye(3)[:2])
