"""Force fields of molecules that OpenMM reads, against its Reference platform, for the structures that it ships."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import required
from madelung.forcefield import ForceField, from_openmm

openmm, torch, jax = required("openmm"), required("torch"), required("jax")
import openmm.app as app  # noqa: E402
from openmm import unit  # noqa: E402

DATA = Path(app.__file__).parent / "data"
PERIODIC = {"nonbondedMethod": app.PME, "nonbondedCutoff": 0.9, "ewaldErrorTolerance": 1e-6}
# Of the files: whether the peptide stands alone, the force fields, the options, and forces that are left out.
SYSTEMS: dict[str, tuple[str, bool, list[str], dict[str, Any], tuple[str, ...]]] = {
    "flexible water": ("tip3p.pdb", False, ["amber14/tip3p.xml"], {**PERIODIC, "rigidWater": False}, ()),
    "switched water": ("spce.pdb", False, ["spce.xml"], {**PERIODIC, "switchDistance": 0.75}, ()),
    "peptide": ("test.pdb", True, ["amber14-all.xml"], {"nonbondedMethod": app.NoCutoff}, ()),
    "peptide without CMAP": (
        "test.pdb",
        True,
        ["amber19-all.xml"],
        {"nonbondedMethod": app.NoCutoff},
        ("CMAPTorsionForce",),
    ),
    "peptide in water": (
        "test.pdb",
        False,
        ["amber14-all.xml", "amber14/tip3p.xml"],
        {**PERIODIC, "switchDistance": 0.8},
        (),
    ),
}

pytestmark = pytest.mark.usefixtures("double_precision")


@cache
def read(name: str) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """OpenMM's system, positions and cell in nm."""
    file, is_alone, files, options, _ = SYSTEMS[name]
    pdb = app.PDBFile(str(DATA / file))
    model = app.Modeller(pdb.topology, pdb.positions)
    if is_alone:
        model.deleteWater()
        model.delete([a for a in model.topology.atoms() if a.residue.name == "Cl"])
    system = app.ForceField(*files).createSystem(model.topology, **options)
    r = np.array(model.positions.value_in_unit(unit.nanometer))
    box = system.getDefaultPeriodicBoxVectors()
    cell = np.array([[float(x) for x in v.value_in_unit(unit.nanometer)] for v in box])
    return system, r, None if options["nonbondedMethod"] == app.NoCutoff else cell


@cache
def field_of(name: str) -> ForceField:
    """The field, with an Ewald sum that is as exact as OpenMM's."""
    return replace(from_openmm(read(name)[0], leave_out=SYSTEMS[name][-1]), accuracy=1e-7)


@cache
def of_openmm(name: str) -> tuple[float, np.ndarray]:
    """Energy and forces."""
    system, r, _ = read(name)
    for k in reversed(range(system.getNumForces())):
        if type(system.getForce(k)).__name__ in SYSTEMS[name][-1]:
            system = openmm.XmlSerializer.clone(system)
            system.removeForce(k)
    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
    context.setPositions(r)
    state = context.getState(getEnergy=True, getForces=True)
    forces = state.getForces(asNumpy=True).value_in_unit(unit.kilojoule_per_mole / unit.nanometer)
    return state.getPotentialEnergy().value_in_unit(unit.kilojoule_per_mole), np.array(forces)


@pytest.mark.parametrize("name", SYSTEMS)
def test_against_openmm(name: str) -> None:
    """To the error of both Ewald sums; without one, to rounding."""
    _, r, cell = read(name)
    expected, by = of_openmm(name)
    energy, forces = field_of(name)(r, cell, compute_forces=True)
    exact = cell is None
    assert energy[0] == pytest.approx(expected, rel=1e-11 if exact else 1e-6)
    off = np.sqrt(((forces - by) ** 2).mean() / (by**2).mean())
    assert off < (1e-12 if exact else 1e-5)


@pytest.mark.parametrize("name", ["peptide", "switched water"])
def test_every_library(name: str) -> None:
    _, r, cell = read(name)
    field, flags = field_of(name), {"compute_forces": True, "compute_virial": True}
    expected = field(r, cell, **flags)
    tensors = [None if x is None else torch.from_numpy(x) for x in (r, cell)]
    arrays = [None if x is None else jax.numpy.asarray(x) for x in (r, cell)]
    for found in (field(*tensors, **flags), field(*arrays, **flags)):
        for a, b in zip(found, expected):
            np.testing.assert_allclose(np.asarray(a), b, rtol=0, atol=1e-11 * np.abs(b).max())
    atoms = field(r, cell, energy_reduction="atom")
    assert atoms.sum() == pytest.approx(expected[0][0], rel=1e-12)


def test_gradients_of_parameters_and_the_virial() -> None:
    """Against differences, in water with a taper and a tail."""
    _, r, cell = read("switched water")
    field = field_of("switched water")
    virial = field(r, cell, compute_virial=True)[1]
    strain = np.random.default_rng(1).normal(size=(3, 3))
    h = 1e-5

    def strained(h: float) -> float:
        by = np.eye(3) + h * strain
        return field(r @ by, cell @ by)[0]

    assert (virial * strain).sum() == pytest.approx(-(strained(h) - strained(-h)) / (2 * h), rel=1e-5)
    charges, epsilon = (torch.tensor(x, requires_grad=True) for x in (field.charges, field.epsilon))
    energy = replace(field, charges=charges, epsilon=epsilon)(torch.from_numpy(r), torch.from_numpy(cell))
    energy.sum().backward()
    for name, given in (("charges", charges), ("epsilon", epsilon)):
        way = np.random.default_rng(2).normal(size=given.shape) * np.abs(given.detach().numpy()).max()
        moved = [replace(field, **{name: getattr(field, name) + s * 1e-5 * way})(r, cell)[0] for s in (1.0, -1.0)]
        assert (given.grad.numpy() * way).sum() == pytest.approx((moved[0] - moved[1]) / 2e-5, rel=1e-6)


def test_other_units_and_ase() -> None:
    ase, calculators = required("ase"), required("madelung.ase")
    _, r, cell = read("switched water")
    field = field_of("switched water")
    energy, forces, virial = field(r, cell, compute_forces=True, compute_virial=True)
    atoms = ase.Atoms("OHH" * (len(r) // 3), positions=10.0 * r, cell=10.0 * cell, pbc=True)
    atoms.calc = calculators.ForceFieldCalculator(field)
    per_mole = ase.units.kJ / ase.units.mol
    assert atoms.get_potential_energy() == pytest.approx(per_mole * energy[0], rel=1e-9)
    np.testing.assert_allclose(atoms.get_forces(), 0.1 * per_mole * forces, rtol=0, atol=1e-9)
    pressure = -atoms.get_stress(voigt=False) * atoms.get_volume()
    np.testing.assert_allclose(pressure, per_mole * virial, rtol=0, atol=1e-9 * np.abs(virial).max())
    atoms.pbc = False
    with pytest.raises(ValueError, match=r"`atoms.pbc`: expected all axes periodic"):
        atoms.get_potential_energy()


def test_what_there_is_no_function_for_is_named() -> None:
    system = openmm.XmlSerializer.clone(read("peptide without CMAP")[0])
    with pytest.raises(ValueError, match="got CMAPTorsionForce"):
        from_openmm(system)
    pdb = app.PDBFile(str(DATA / "tip4pew.pdb"))
    water = app.ForceField("tip4pew.xml").createSystem(pdb.topology, nonbondedMethod=app.PME)
    with pytest.raises(ValueError, match="expected atoms without virtual sites, got one at 3"):
        from_openmm(water)
    pdb = app.PDBFile(str(DATA / "spce.pdb"))
    for method, name in ((app.CutoffPeriodic, "CutoffPeriodic"), (app.LJPME, "LJPME")):
        water = app.ForceField("spce.xml").createSystem(pdb.topology, nonbondedMethod=method)
        with pytest.raises(ValueError, match=f"expected a NonbondedForce of NoCutoff, Ewald or PME, got {name}"):
            from_openmm(water)
    with pytest.raises(TypeError, match=r"`system`: expected an openmm.System"):
        from_openmm("water")
    r = read("peptide")[1]
    with pytest.raises(ValueError, match="`cell`: expected None, as the field has no cutoff"):
        field_of("peptide")(r, np.eye(3))
