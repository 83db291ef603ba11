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
    "CHARMM's peptide without CMAP": (
        "test.pdb",
        True,
        ["charmm36.xml"],
        {"nonbondedMethod": app.NoCutoff},
        ("CMAPTorsionForce",),
    ),
    "CHARMM's peptide in water without CMAP": (
        "test.pdb",
        False,
        ["charmm36.xml", "charmm36/water.xml"],
        {**PERIODIC, "switchDistance": 0.75},
        ("CMAPTorsionForce",),
    ),
    "peptide in water": (
        "test.pdb",
        False,
        ["amber14-all.xml", "amber14/tip3p.xml"],
        {**PERIODIC, "switchDistance": 0.8},
        (),
    ),
    "peptide in water, LJPME": (
        "test.pdb",
        False,
        ["amber14-all.xml", "amber14/tip3p.xml"],
        {**PERIODIC, "nonbondedMethod": app.LJPME},
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


def evaluated(system: Any, r: np.ndarray) -> tuple[float, np.ndarray]:
    """Energy and forces of OpenMM's Reference platform."""
    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
    context.setPositions(r)
    state = context.getState(getEnergy=True, getForces=True)
    forces = state.getForces(asNumpy=True).value_in_unit(unit.kilojoule_per_mole / unit.nanometer)
    return state.getPotentialEnergy().value_in_unit(unit.kilojoule_per_mole), np.array(forces)


@cache
def of_openmm(name: str) -> tuple[float, np.ndarray]:
    """Energy and forces without the forces that are left out."""
    system, r, _ = read(name)
    for k in reversed(range(system.getNumForces())):
        if type(system.getForce(k)).__name__ in SYSTEMS[name][-1]:
            system = openmm.XmlSerializer.clone(system)
            system.removeForce(k)
    return evaluated(system, r)


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


def test_tails_of_tables_and_virials_of_atoms() -> None:
    """The correction for what lies beyond the cutoff of a force with tables, and its part in virials of atoms."""
    name = "CHARMM's peptide in water without CMAP"
    system, (_, r, cell) = openmm.XmlSerializer.clone(read(name)[0]), read(name)
    for k in reversed(range(system.getNumForces())):
        force = system.getForce(k)
        if isinstance(force, openmm.CMAPTorsionForce):
            system.removeForce(k)
        elif isinstance(force, openmm.CustomNonbondedForce):
            force.setUseLongRangeCorrection(True)
    field = replace(from_openmm(system), accuracy=1e-7)
    assert field.tail
    energy, virials = field(r, cell, compute_virial="atom")
    assert energy[0] == pytest.approx(evaluated(system, r)[0], rel=1e-7)
    virial = field(r, cell, compute_virial=True)[1]
    assert np.abs(virials.sum(0) - virial).max() < 1e-11 * np.abs(virials).sum(0).max()


# Butane and argon with the combination rule of OPLS, geometric means.
GROMACS = """
[ defaults ]
1 3 yes 0.5 0.5
[ atomtypes ]
CH3 6 15.035 0.0 A 0.3905 0.7322
CH2 6 14.027 0.0 A 0.3905 0.4937
AR 18 39.948 0.0 A 0.3405 0.9977
[ moleculetype ]
BUT 3
[ atoms ]
1 CH3 1 BUT C1 1 0.10 15.035
2 CH2 1 BUT C2 1 -0.15 14.027
3 CH2 1 BUT C3 1 -0.05 14.027
4 CH3 1 BUT C4 1 0.10 15.035
[ bonds ]
1 2 1 0.153 217568
2 3 1 0.153 217568
3 4 1 0.153 217568
[ pairs ]
1 4 1
[ angles ]
1 2 3 1 112.4 527.2
2 3 4 1 112.4 527.2
[ dihedrals ]
1 2 3 4 3 9.279 12.156 -13.120 -3.060 26.240 -31.495
[ moleculetype ]
ARG 0
[ atoms ]
1 AR 1 ARG AR 1 0.0 39.948
[ system ]
butane
[ molecules ]
BUT 40
ARG 5
"""


@pytest.mark.parametrize("options", [{}, {"switchDistance": 0.7}])
def test_files_of_gromacs_with_geometric_means(tmp_path: Path, options: dict[str, Any]) -> None:
    (tmp_path / "butane.top").write_text(GROMACS)
    top = app.GromacsTopFile(str(tmp_path / "butane.top"), periodicBoxVectors=np.eye(3).tolist() * unit.nanometer * 2.4)
    system = top.createSystem(nonbondedMethod=app.PME, nonbondedCutoff=0.9, ewaldErrorTolerance=1e-7, **options)
    rng = np.random.default_rng(7)
    places = 0.6 * np.stack(np.meshgrid(*[np.arange(4)] * 3), -1).reshape(-1, 3)[rng.permutation(64)[:45]]
    chain = np.array([[0.0, 0.0, 0.0], [0.15, 0.02, 0.0], [0.2, 0.16, 0.03], [0.34, 0.2, 0.05]])
    r = np.concatenate([place + chain for place in places[:40]] + [places[40:]])
    r += rng.normal(scale=0.01, size=r.shape)
    expected, by = evaluated(system, r)
    energy, forces = replace(from_openmm(system), accuracy=1e-7)(r, 2.4 * np.eye(3), compute_forces=True)
    assert energy[0] == pytest.approx(expected, rel=1e-6)
    assert np.sqrt(((forces - by) ** 2).mean() / (by**2).mean()) < 1e-5


def chains(method: int = 0) -> tuple[Any, np.ndarray, np.ndarray]:
    """OpenMM's system of a charged chain with Ryckaert–Bellemans torsions and exceptions of every kind."""
    rng = np.random.default_rng(3)
    system, bonds, series = openmm.System(), openmm.HarmonicBondForce(), openmm.RBTorsionForce()
    nonbonded = openmm.NonbondedForce()
    cell, n = 2.4 * np.eye(3), 24
    r = np.cumsum(0.08 + 0.05 * rng.normal(size=(n, 3)), axis=0) + 0.2 * rng.random((1, 3))
    system.setDefaultPeriodicBoxVectors(*cell)
    for i in range(n):
        system.addParticle(1.0)
        nonbonded.addParticle(0.0 if i % 5 == 0 else rng.normal(), 0.1 + 0.02 * (i % 3), 0.5 * (i % 4))
    for i in range(n - 1):
        bonds.addBond(i, i + 1, 0.15, 1e4)
        nonbonded.addException(i, i + 1, 0.0, 1.0, 0.0)
    for i in range(n - 3):
        series.addTorsion(i, i + 1, i + 2, i + 3, *rng.normal(size=6))
        charge = [nonbonded.getParticleParameters(k)[0]._value for k in (i, i + 3)]
        nonbonded.addException(i, i + 3, 0.8 * charge[0] * charge[1], 0.13, 0.4)
    nonbonded.setNonbondedMethod(method)
    nonbonded.setCutoffDistance(1.1)
    nonbonded.setEwaldErrorTolerance(1e-6)
    for force in (bonds, series, nonbonded, openmm.MonteCarloBarostat(1.0, 300.0)):
        if method or not isinstance(force, openmm.MonteCarloBarostat):
            system.addForce(force)
    return system, r, cell


@pytest.mark.parametrize("method", ["NoCutoff", "Ewald", "PME"])
def test_chains_with_exceptions(method: str) -> None:
    system, r, cell = chains(getattr(openmm.NonbondedForce, method))
    expected, by = evaluated(system, r)
    field = replace(from_openmm(system), accuracy=1e-8)
    energy, forces = field(r, cell if field.cutoff else None, compute_forces=True)
    bound = 1e-6 if field.cutoff else 1e-11
    assert energy[0] == pytest.approx(expected, rel=bound)
    assert np.abs(forces - by).max() < 10 * bound * np.abs(by).max()
    # In Å and eV.
    scaled = field.in_units(10.0, 0.25)
    energy_2, forces_2 = scaled(10 * r, 10 * cell if field.cutoff else None, compute_forces=True)
    assert energy_2[0] == pytest.approx(0.25 * energy[0], rel=1e-9)
    np.testing.assert_allclose(forces_2, 0.025 * forces, rtol=0, atol=1e-9 * np.abs(forces).max())
    single = field(r.astype(np.float32), cell.astype(np.float32) if field.cutoff else None, compute_forces=True)
    assert {x.dtype for x in single} == {np.dtype(np.float32)}
    np.testing.assert_allclose(single[1], forces, rtol=0, atol=1e-4 * np.abs(forces).max())


def test_under_jit() -> None:
    """With the parameters of PME that OpenMM was given."""
    import madelung.jax as mj

    system, r, cell = chains(openmm.NonbondedForce.PME)
    system.getForce(2).setPMEParameters(3.0, 24, 24, 24)
    field = from_openmm(system)
    assert field.mesh_dimensions == (24, 24, 24)
    x, h = jax.numpy.asarray(r), jax.numpy.asarray(cell)
    near = mj.find_neighbors(x, 1.1, h)
    expected = field(r, cell, compute_forces=True)
    found = jax.jit(lambda x, h, near: field(x, h, neighbors=near, compute_forces=True))(x, h, near)
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-11 * np.abs(b).max())
    alone = from_openmm(chains()[0])
    np.testing.assert_allclose(jax.jit(alone)(x), alone(r), rtol=1e-12)
    by = jax.jit(jax.grad(lambda epsilon: replace(alone, epsilon=epsilon)(x)[0]))(jax.numpy.asarray(alone.epsilon))
    assert np.isfinite(by).all() and np.abs(by).max() > 0


@pytest.mark.parametrize("method", ["NoCutoff", "PME", "LJPME"])
def test_tensors(method: str) -> None:
    system, r, cell = chains(getattr(openmm.NonbondedForce, method))
    field, flags = from_openmm(system), {"compute_forces": True, "compute_virial": True}
    given = (r, cell) if field.cutoff else (r,)
    expected = field(*given, **flags)
    for a, b in zip(field(*map(torch.from_numpy, given), **flags), expected):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-11 * np.abs(b).max())
    assert field(*given, energy_reduction="atom").sum() == pytest.approx(expected[0][0], rel=1e-12)


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
    system = chains()[0]
    system.addForce(openmm.CMAPTorsionForce())
    with pytest.raises(ValueError, match="got CMAPTorsionForce"):
        from_openmm(system)
    assert len(from_openmm(system, leave_out=["CMAPTorsionForce"]).terms) == 3
    with pytest.raises(TypeError, match="`leave_out`: expected a list of names"):
        from_openmm(system, leave_out="CMAPTorsionForce")
    with pytest.raises(ValueError, match=r"`leave_out`: expected names among .*, got Torsions"):
        from_openmm(system, leave_out=["CMAPTorsionForce", "Torsions"])
    system = chains()[0]
    system.getForce(0).setUsesPeriodicBoundaryConditions(True)
    with pytest.raises(ValueError, match="got none, and a periodic HarmonicBondForce"):
        from_openmm(system)
    system = chains()[0]
    system.getForce(2).addException(0, 10, 0.5, 1.0, 0.0)
    with pytest.raises(ValueError, match=r"multiples of those of the atoms, got not those of \[0, 10\]"):
        from_openmm(system)
    system = chains()[0]
    system.setVirtualSite(2, openmm.TwoParticleAverageSite(0, 1, 0.5, 0.5))
    with pytest.raises(ValueError, match="expected atoms without virtual sites, got one at 2"):
        from_openmm(system)
    for name in ("CutoffPeriodic", "CutoffNonPeriodic"):
        system = chains(getattr(openmm.NonbondedForce, name))[0]
        with pytest.raises(ValueError, match=f"expected a NonbondedForce of NoCutoff, Ewald, PME or LJPME, got {name}"):
            from_openmm(system)
    for force, message in (
        (
            openmm.CustomTorsionForce("k*theta"),
            r"a CustomTorsionForce with the energy k\*\(theta-theta0\)\^2 or .*, got k",
        ),
        (openmm.CustomBondForce("k*r"), "a CustomBondForce with the energy 4.*, or `leave_out` with its name, got k"),
        (openmm.CustomNonbondedForce("1/r"), "a CustomNonbondedForce with the energy acoef.*, got 1/r"),
    ):
        system = chains()[0]
        system.addForce(force)
        with pytest.raises(ValueError, match=f"`system`: expected {message}"):
            from_openmm(system)
    torsions = openmm.CustomTorsionForce("k*(theta-theta0)^2")
    torsions.addPerTorsionParameter("k")
    torsions.addPerTorsionParameter("theta0")
    torsions.addTorsion(0, 1, 2, 3, [1.0, 3.0])
    system = chains()[0]
    system.addForce(torsions)
    with pytest.raises(ValueError, match="with theta0 = 0, as it is not periodic, got 3.0"):
        from_openmm(system)
    with pytest.raises(TypeError, match=r"`system`: expected an openmm.System"):
        from_openmm("water")
    _, r, cell = chains()
    alone, periodic = from_openmm(chains()[0]), from_openmm(chains(openmm.NonbondedForce.PME)[0])
    with pytest.raises(ValueError, match="`cell`: expected None, as the field has no cutoff"):
        alone(r, cell)
    with pytest.raises(ValueError, match="`positions`: expected shape"):
        alone(r[1:])
    with pytest.raises(ValueError, match="`cell`: expected a cell, as the field has a cutoff"):
        periodic(r)
