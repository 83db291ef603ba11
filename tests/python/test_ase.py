"""The ASE calculator: against known crystals, finite differences, and itself with other settings."""

import copy
import json
import re
import subprocess
import sys

import ase.io
import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk
from ase.calculators.calculator import PropertyNotImplementedError
from ase.filters import FrechetCellFilter
from ase.stress import voigt_6_to_full_3x3_stress

import madelung.numpy as mn
from conftest import CASES, ROOT, assert_close
from differences import fourth_order
from madelung.ase import Madelung
from madelung.units import EV_ANGSTROM

SALT = {"Na": 1.0, "Cl": -1.0}


def salt(size: int = 1, rattle: float = 0.0) -> Atoms:
    atoms = bulk("NaCl", "rocksalt", a=5.64, cubic=True) * size
    atoms.positions += np.random.default_rng(1).normal(scale=rattle, size=(len(atoms), 3))
    return atoms


def skewed(**settings) -> Atoms:
    """Ions in a cell without right angles, far from equilibrium, some outside the cell, with a net charge."""
    rng = np.random.default_rng(7)
    cell = [[5.0, 0.3, -0.6], [1.1, 4.7, 0.2], [-0.4, 1.5, 5.6]]
    sites = np.stack(np.meshgrid(*[np.arange(2) / 2] * 3), -1).reshape(-1, 3)
    atoms = Atoms("NaClNaClNaClNaCl", cell=cell, pbc=True)
    atoms.set_scaled_positions(sites + rng.uniform(-0.1, 0.1, sites.shape))
    atoms.positions[3] += 2 * atoms.cell[0] - atoms.cell[2]
    atoms.set_initial_charges(rng.uniform(-1.0, 1.0, len(atoms)))
    atoms.calc = Madelung(accuracy=1e-10, **settings)
    return atoms


@pytest.mark.parametrize(
    ("atoms", "charges", "distance", "constant"),
    [
        (bulk("NaCl", "rocksalt", a=5.64), {"Na": 1, "Cl": -1}, 2.82, 1.7475645946331822),
        (bulk("CsCl", "cesiumchloride", a=4.12), {"Cs": 1, "Cl": -1}, 4.12 * np.sqrt(0.75), 1.7626747730709884),
        (bulk("ZnS", "zincblende", a=5.41), {"Zn": 2, "S": -2}, 5.41 * np.sqrt(3) / 4, 4 * 1.6380550533887894),
    ],
    ids=["NaCl", "CsCl", "ZnS"],
)
@pytest.mark.parametrize("skin", [0.0, 1.0])
def test_madelung_constants(atoms: Atoms, charges: dict, distance: float, constant: float, skin: float):
    atoms.calc = Madelung(charges, accuracy=1e-13, skin=skin)
    energy = -constant * EV_ANGSTROM / distance
    assert atoms.get_potential_energy() == pytest.approx(energy, rel=1e-12)
    assert atoms.get_potential_energy(force_consistent=True) == atoms.get_potential_energy()
    assert atoms.get_potential_energies().sum() == pytest.approx(energy, rel=1e-12)
    assert np.abs(atoms.get_forces()).max() < 1e-10
    # E goes as 1/length, so the trace of ∂E/∂ε is −E, and a cubic crystal has a third of it along each axis.
    pressure = energy / (3 * atoms.get_volume())
    np.testing.assert_allclose(atoms.get_stress(), [-pressure] * 3 + [0.0] * 3, atol=1e-12 * abs(pressure))


def test_stored_references():
    """Every array, from sums that share no code with the library."""
    reference = CASES["triclinic_random_charged"]
    atoms = Atoms("H" * len(reference.charges), positions=reference.positions, cell=reference.cell, pbc=True)
    atoms.calc = Madelung(reference.charges, accuracy=1e-14)
    # Rounding; the virial is truncated: see test_ewald.py.
    assert_close(atoms.get_potential_energies(), EV_ANGSTROM * reference.atom_energies, 2e-14)
    assert_close(atoms.get_forces(), EV_ANGSTROM * reference.forces, 2e-14)
    stress = -EV_ANGSTROM * reference.virial / abs(np.linalg.det(reference.cell))
    assert_close(voigt_6_to_full_3x3_stress(atoms.get_stress()), stress, 1e-12)


@pytest.mark.parametrize("skin", [0.0, 0.5])
def test_forces_and_stress_against_finite_differences(skin: float):
    """The difference is wrong by h⁴ and by the rounding of the energy over h: some 1e-10 of the forces."""
    atoms = skewed(skin=skin)
    forces, stress = atoms.get_forces(), atoms.get_stress()
    positions, cell = atoms.positions.copy(), atoms.cell.array.copy()
    rng = np.random.default_rng(2)

    def moved(direction):
        def energy(step):
            atoms.positions = positions + step * direction
            return atoms.get_potential_energy()

        return energy

    def strained(strain):
        def energy(step):
            atoms.set_cell(cell @ (np.eye(3) + step * strain))
            atoms.positions = positions @ (np.eye(3) + step * strain)
            return atoms.get_potential_energy()

        return energy

    for _ in range(3):
        direction = rng.normal(size=positions.shape)
        expected = -fourth_order(moved(direction), 1e-3)
        assert np.sum(forces * direction) == pytest.approx(expected, abs=1e-8 * np.linalg.norm(forces))
    atoms.positions = positions
    volume = atoms.get_volume()
    for a, b, component in ((0, 0, 0), (1, 1, 1), (2, 2, 2), (1, 2, 3), (0, 2, 4), (0, 1, 5)):
        strain = np.zeros((3, 3))
        strain[a, b] += 0.5
        strain[b, a] += 0.5
        expected = fourth_order(strained(strain), 1e-3) / volume
        assert stress[component] == pytest.approx(expected, abs=1e-8 * np.abs(stress).max())


POTENTIALS = {
    "born_mayer": {
        pair: {"amplitude": a, "steepness": 3.15, "sigma": sigma, "c6": c6, "c8": c8}
        # Tosi and Fumi, J. Phys. Chem. Solids 25, 45 (1964), for NaCl; lengths in Å, energies in eV.
        for pair, a, sigma, c6, c8 in (
            ("Na-Na", 0.2637, 2.340, 1.0486, 0.4993),
            ("Na-Cl", 0.2110, 2.755, 6.9906, 8.6758),
            ("Cl-Cl", 0.1582, 3.170, 72.4022, 145.4285),
        )
    }
}


def test_potentials_beside_the_charges():
    """The lattice energy of NaCl: 786 kJ/mol, 8.15 eV for each pair of ions, by a Born–Haber cycle."""
    atoms = salt(2)
    atoms.calc = Madelung(SALT, accuracy=1e-8, cutoff=8.0, potentials=POTENTIALS, potential_cutoff=8.0)
    assert atoms.get_potential_energy() / (len(atoms) / 2) == pytest.approx(-8.15, rel=0.02)
    # Its parts, and derivatives of the whole.
    atoms.rattle(0.1, seed=1)
    elements, types = np.unique(np.array(atoms.symbols), return_inverse=True)
    pairs = [
        [POTENTIALS["born_mayer"].get(f"{a}-{b}", POTENTIALS["born_mayer"].get(f"{b}-{a}")) for b in elements]
        for a in elements
    ]
    names = ("amplitude", "steepness", "sigma", "c6", "c8")
    tables = [np.array([[pair[name] for pair in row] for row in pairs]) for name in names]
    charges_alone = atoms.copy()
    charges_alone.calc = Madelung(SALT, accuracy=1e-8, cutoff=8.0)
    more = mn.born_mayer(
        atoms.positions, types, *tables, 8.0, atoms.cell.array, compute_forces=True, energy_reduction="system"
    )
    assert atoms.get_potential_energy() == pytest.approx(charges_alone.get_potential_energy() + more[0][0], rel=1e-12)
    assert_close(atoms.get_forces(), charges_alone.get_forces() + more[1], 1e-11)
    # Differences see the sum's own jumps at the cutoff, which its accuracy bounds.
    atoms.calc = Madelung(SALT, accuracy=1e-13, cutoff=8.0, potentials=POTENTIALS, potential_cutoff=8.0)
    positions, forces = atoms.positions.copy(), atoms.get_forces()
    direction = np.random.default_rng(2).normal(size=positions.shape)

    def energy(step: float) -> float:
        atoms.positions = positions + step * direction
        return atoms.get_potential_energy()

    expected = -fourth_order(energy, 1e-3)
    assert np.sum(forces * direction) == pytest.approx(expected, abs=1e-8 * np.linalg.norm(forces))
    # Beyond the cutoff of the charges.
    atoms.calc = Madelung(SALT, accuracy=1e-8, cutoff=6.0, potentials=POTENTIALS, potential_cutoff=8.0)
    charges_alone.calc = Madelung(SALT, accuracy=1e-8, cutoff=6.0)
    charges_alone.positions = positions
    atoms.positions = positions
    assert atoms.get_potential_energy() == pytest.approx(charges_alone.get_potential_energy() + more[0][0], rel=1e-12)
    again = Madelung(**json.loads(json.dumps(atoms.calc.todict())))
    assert again.get_potential_energy(atoms) == atoms.get_potential_energy()


def test_potentials_that_are_none():
    good = {"Na-Cl": {"epsilon": 0.1, "sigma": 2.0}}
    wrong = {
        "`potentials`: expected a dict with keys among": {"stockmayer": good},
        'such as "Na-Cl"': {"lennard_jones": {"Na": good["Na-Cl"]}},
        "expected the parameters epsilon, sigma": {"lennard_jones": {"Na-Cl": {"epsilon": 0.1}}},
        "expected Na-Cl once": {"lennard_jones": good | {"Cl-Na": good["Na-Cl"]}},
    }
    for message, potentials in wrong.items():
        with pytest.raises(ValueError, match=message):
            Madelung(SALT, potentials=potentials)
    with pytest.raises(ValueError, match="`potential_cutoff`: expected the radius of the potentials.*got None"):
        Madelung(SALT, potentials={"lennard_jones": good})
    atoms = salt()
    atoms.calc = Madelung(SALT, potentials={"lennard_jones": good}, potential_cutoff=6.0)
    with pytest.raises(ValueError, match="`potential_cutoff`"):
        atoms.calc.set(potential_cutoff=None)
    with pytest.raises(ValueError, match="expected parameters for each pair of elements, got none for Cl-Cl"):
        atoms.get_potential_energy()


def test_the_skin_changes_nothing_along_a_trajectory():
    """Same pairs in another order of summation: rounding apart, the same numbers."""
    atoms = salt(2, rattle=0.1)
    velocities = np.random.default_rng(3).normal(scale=0.02, size=atoms.positions.shape)
    split = {"alpha": 0.45, "cutoff": 8.0, "k_cutoff": 3.6, "accuracy": 1e-5}
    calculators = {skin: Madelung(SALT, **split, skin=skin) for skin in (0.0, 0.3, 1.0)}
    for _ in range(20):
        atoms.positions += velocities
        results = {}
        for skin, calculator in calculators.items():
            atoms.calc = calculator
            results[skin] = (atoms.get_potential_energies(), atoms.get_forces(), atoms.get_stress())
        for skin in (0.3, 1.0):
            for found, expected in zip(results[skin], results[0.0]):
                assert_close(found, expected, 1e-12)
    builds = {skin: calculator.list_builds for skin, calculator in calculators.items()}
    assert builds[0.0] == 20
    assert 1 < builds[1.0] < builds[0.3] < 20


def test_the_list_is_built_when_needed():
    atoms = salt(2)
    calculator = atoms.calc = Madelung(SALT, cutoff=6.0, skin=1.0)
    assert calculator.list_builds == 0
    assert calculator.ewald_parameters is None

    def builds() -> int:
        atoms.get_potential_energy()
        return calculator.list_builds

    assert builds() == 1
    atoms.positions[0, 0] += 0.499
    assert builds() == 1
    atoms.positions[1, 1] -= 0.4
    assert builds() == 1
    atoms.positions[0, 0] += 0.002
    assert builds() == 2
    atoms.positions[0, 0] -= 0.002
    assert builds() == 2
    atoms.positions[5] += atoms.cell[1]  # the same place, another image
    assert builds() == 3
    # A strain takes its part of the skin.
    atoms.set_cell(atoms.cell * 1.001, scale_atoms=False)
    assert builds() == 3
    atoms.set_cell(atoms.cell * 0.95, scale_atoms=True)
    assert builds() == 3
    atoms.set_cell(atoms.cell * 1.05, scale_atoms=False)
    assert builds() == 4
    atoms.numbers[0] = 17
    assert builds() == 4
    del atoms[[0, 1]]
    assert builds() == 1  # new parameters, and with them a new list
    calculator.set(skin=2.0)
    assert calculator.list_builds == 0
    assert builds() == 1


def test_lists_survive_strains():
    """The same pairs as those of lists that are found anew in each cell."""
    rng = np.random.default_rng(5)
    atoms = salt(2, rattle=0.1)
    split = {"alpha": 0.45, "cutoff": 8.0, "k_cutoff": 3.6, "accuracy": 1e-5}
    kept, anew = (
        Madelung(SALT, **split, potentials=POTENTIALS, potential_cutoff=7.0, skin=skin) for skin in (1.0, 0.0)
    )
    for _ in range(20):
        atoms.set_cell(atoms.cell.array @ (np.eye(3) + rng.uniform(-3e-3, 3e-3, (3, 3))), scale_atoms=True)
        atoms.positions += rng.normal(scale=0.04, size=atoms.positions.shape)
        for of in ("get_potential_energies", "get_forces", "get_stress"):
            found, expected = (getattr(calculator, of)(atoms) for calculator in (kept, anew))
            assert_close(found, expected, 1e-12)
    assert 1 < kept.list_builds < 6
    assert anew.list_builds == 20


def lattice_energy(a: float, cutoff: float) -> float:
    """Energy of an ion of NaCl, in eV: Madelung's constant, and `POTENTIALS` over all neighbours within a radius."""
    n = np.stack(np.meshgrid(*[np.arange(-12, 13)] * 3), -1).reshape(-1, 3)
    r, is_other = a / 2 * np.linalg.norm(n, axis=1), n.sum(1) % 2 == 1
    near = (r > 0.0) & (r < cutoff)
    r, is_other = r[near], is_other[near]
    x = np.maximum(r / cutoff - 0.9, 0.0) / 0.1
    taper = 1.0 - 10.0 * x**3 + 15.0 * x**4 - 6.0 * x**5
    total = -1.7475645946331822 * EV_ANGSTROM / a * 2
    for pair, of in (("Na-Na", ~is_other), ("Na-Cl", is_other), ("Na-Cl", is_other), ("Cl-Cl", ~is_other)):
        p = POTENTIALS["born_mayer"][pair]
        energies = p["amplitude"] * np.exp(p["steepness"] * (p["sigma"] - r)) - p["c6"] / r**6 - p["c8"] / r**8
        total += 0.5 * (energies * taper)[of].sum()
    return total / 2


@pytest.mark.parametrize("accuracy", [1e-5, 1e-8])
def test_a_crystal_has_one_energy(accuracy: float):
    """Of any number of atoms, and while its cell grows: what potentials give does not depend on the Coulomb sum."""
    unit = EV_ANGSTROM / 2.82
    for size in (1, 2, 3):
        atoms = salt(size)
        atoms.calc = Madelung(SALT, accuracy=accuracy, potentials=POTENTIALS, potential_cutoff=7.5)
        for a in 5.64 * np.linspace(1.0, 1.12, 25 if size == 2 else 2):
            atoms.set_cell([size * a] * 3, scale_atoms=True)
            assert abs(atoms.get_potential_energy() / len(atoms) - lattice_energy(a, 7.5)) < accuracy * unit


@pytest.mark.parametrize("method", ["ewald", "pme"])
def test_the_stress_of_a_coarse_sum(method: str):
    """By differences of its own energy: waves and mesh stay as they are while the cell is strained."""
    atoms = salt(2, rattle=0.1)
    # All pairs count whose erfc is above rounding, so that none that comes within the cutoff is seen.
    given = {"alpha": 0.45, "cutoff": 13.5}
    given |= {"k_cutoff": 2.0, "accuracy": None} if method == "ewald" else {"accuracy": 1e-3}
    atoms.calc = Madelung(SALT, method=method, **given)
    stress = voigt_6_to_full_3x3_stress(atoms.get_stress())
    positions, cell, volume = atoms.positions.copy(), atoms.cell.array.copy(), atoms.get_volume()
    rng = np.random.default_rng(6)
    for _ in range(4):
        strain = rng.uniform(-1.0, 1.0, (3, 3))
        strain = strain + strain.T

        def energy(step: float, strain: np.ndarray = strain) -> float:
            atoms.set_cell(cell @ (np.eye(3) + step * strain))
            atoms.positions = positions @ (np.eye(3) + step * strain)
            return atoms.get_potential_energy()

        expected = fourth_order(energy, 2e-3) / volume
        assert np.sum(stress * strain) == pytest.approx(expected, abs=1e-7 * np.abs(stress).max())


def test_parameters_are_chosen_once():
    atoms = salt()
    calculator = atoms.calc = Madelung(SALT, accuracy=1e-8)

    def chosen():
        atoms.get_potential_energy()
        return calculator.ewald_parameters

    first = chosen()
    assert 0.5e-8 < first.predicted_force_error < 0.6e-8
    atoms.rattle(0.1)
    assert chosen() is first
    for _ in range(3):
        atoms.set_cell(atoms.cell * 1.03, scale_atoms=True)
        if atoms.cell[0, 0] <= 5.64 * 1.1:
            assert chosen() is first
    assert chosen().alpha == pytest.approx(first.alpha, rel=1e-12)
    atoms.set_cell(atoms.cell * 1.02, scale_atoms=True)
    assert chosen().alpha < first.alpha
    atoms *= (2, 1, 1)
    atoms.calc = calculator
    assert chosen().alpha < first.alpha

    calculator.set(alpha=0.5, cutoff=9.0, k_cutoff=5.0)
    given = chosen()
    assert (given.alpha, given.cutoff, given.k_cutoff) == (0.5, 9.0, 5.0)


def test_charges_in_three_ways():
    atoms = salt(rattle=0.1)
    array = np.where(atoms.symbols == "Na", 1.0, -1.0)
    atoms.calc = Madelung({**SALT, "K": 1})
    by_element = atoms.get_forces()
    np.testing.assert_array_equal(atoms.get_charges(), array)
    for given in (array, array.astype(np.float32), [1 if s == "Na" else -1 for s in atoms.symbols]):
        atoms.calc = Madelung(given)
        np.testing.assert_array_equal(atoms.get_forces(), by_element)
    atoms.calc = Madelung()
    atoms.set_initial_charges(array)
    np.testing.assert_array_equal(atoms.get_forces(), by_element)
    np.testing.assert_array_equal(atoms.get_charges(), array)
    atoms.set_initial_charges(2 * array)
    np.testing.assert_allclose(atoms.get_forces(), 4 * by_element, rtol=1e-12)


def test_what_changes_the_results_and_what_does_not():
    atoms = salt(rattle=0.1)
    charges = np.where(atoms.symbols == "Na", 1.0, -1.0)
    calculator = atoms.calc = Madelung(charges)
    energy = atoms.get_potential_energy()
    charges *= 3.0  # the caller's array, not the calculator's
    assert not calculator.calculation_required(atoms, ["energy", "forces", "stress", "charges"])
    atoms.set_initial_charges(charges)
    atoms.set_initial_magnetic_moments([1.0] * len(atoms))
    assert not calculator.calculation_required(atoms, ["energy"])
    assert calculator.set(charges=charges) != {}
    assert calculator.calculation_required(atoms, ["energy"])
    assert atoms.get_potential_energy() == pytest.approx(9 * energy, rel=1e-12)
    assert calculator.set(charges=charges, skin=0.5) == {}
    assert not calculator.calculation_required(atoms, ["energy"])
    calculator.set(charges=None)
    atoms.set_initial_charges(charges / 3)
    assert atoms.get_potential_energy() == pytest.approx(energy, rel=1e-12)
    with pytest.raises(PropertyNotImplementedError):
        atoms.get_magnetic_moment()


def test_copies_and_files(tmp_path):
    atoms = salt(rattle=0.1)
    atoms.calc = Madelung(SALT, accuracy=1e-8, skin=1.0)
    energy, stress = atoms.get_potential_energy(), atoms.get_stress()
    twin = atoms.copy()
    twin.calc = copy.deepcopy(atoms.calc)
    assert twin.get_potential_energy() == energy
    assert atoms.calc.todict() == {"charges": SALT, "accuracy": 1e-8, "skin": 1.0}
    again = Madelung(**json.loads(json.dumps(atoms.calc.todict())))
    assert again.get_potential_energy(atoms) == energy
    ase.io.write(tmp_path / "salt.traj", atoms)
    read = ase.io.read(tmp_path / "salt.traj")
    assert read.get_potential_energy() == energy
    np.testing.assert_array_equal(read.get_stress(), stress)


def test_a_cell_can_be_relaxed():
    """Bare charges collapse, and the stress must say so: the first step makes the cell smaller."""
    atoms = bulk("NaCl", "rocksalt", a=5.64)
    atoms.calc = Madelung(SALT)
    volume = atoms.get_volume()
    filtered = FrechetCellFilter(atoms)
    filtered.set_positions(filtered.get_positions() + 1e-3 * filtered.get_forces())
    assert atoms.get_volume() < volume


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"charges": {"Na": "one"}}, TypeError, "`charges['Na']`: expected a number"),
        ({"charges": {"Na": np.inf}}, ValueError, "`charges['Na']`: expected a finite number"),
        ({"charges": {"Xy": 1.0}}, ValueError, "`charges`: expected chemical symbols as keys, got 'Xy'"),
        ({"charges": {11: 1.0}}, ValueError, "`charges`: expected chemical symbols as keys, got 11"),
        ({"charges": np.ones((2, 3))}, ValueError, "`charges`: expected shape (N,), got (2, 3)"),
        ({"charges": "Na"}, TypeError, "`charges`: expected"),
        ({"accuracy": 0.0}, ValueError, "`accuracy`: expected a number above zero"),
        ({"accuracy": "x"}, TypeError, "`accuracy`: expected a number"),
        ({"alpha": -1.0}, ValueError, "`alpha`: expected a number above zero"),
        ({"cutoff": "10"}, TypeError, "`cutoff`: expected a number"),
        ({"k_cutoff": np.nan}, ValueError, "`k_cutoff`: expected a finite number"),
        ({"skin": -0.1}, ValueError, "`skin`: expected a length of zero or more"),
        ({"skin": None}, TypeError, "`skin`: expected a number"),
    ],
)
def test_bad_settings(settings: dict, error: type, message: str):
    with pytest.raises(error, match=re.escape(message)):
        Madelung(**settings)


def test_an_unknown_setting():
    with pytest.raises(TypeError, match="`acuracy`: expected one of the parameters charges, accuracy"):
        Madelung(SALT).set(acuracy=1e-3)


def test_molecules_and_slabs_by_finite_differences():
    atoms = salt()
    atoms.rattle(0.1, seed=3)
    atoms.pbc = False
    atoms.calc = Madelung({"Na": 1, "Cl": -1})
    d = atoms.get_all_distances()
    q = np.where(atoms.symbols == "Na", 1.0, -1.0)
    np.fill_diagonal(d, np.inf)
    assert abs(atoms.get_potential_energy() / EV_ANGSTROM - 0.5 * (q[:, None] * q / d).sum()) < 1e-12
    with pytest.raises(PropertyNotImplementedError):
        atoms.get_stress()
    for pbc in ((False, False, False), (True, False, False), (True, False, True)):
        atoms.pbc = pbc
        if sum(pbc) == 2:
            atoms.cell[1] = [0.4, 22.0, -0.7]
        forces, step = atoms.get_forces(), 1e-4
        energies = []
        for sign in (1, -1):
            moved = atoms.copy()
            moved.positions[2, 1] += sign * step
            moved.calc = Madelung({"Na": 1, "Cl": -1}, accuracy=1e-9)
            energies.append(moved.get_potential_energy())
        assert abs((energies[0] - energies[1]) / (2 * step) + forces[2, 1]) < 1e-5 * np.abs(forces).max()
    assert atoms.get_stress().shape == (6,)


def test_a_wire():
    """A chain of ions, whose cell has one vector: Madelung's constant 2 ln 2, and no stress; beside a pair potential,
    whose list follows the axis alone."""
    a = 2.82
    atoms = Atoms("NaCl", [[0.0, 0.0, 0.0], [0.0, 0.0, a]], cell=[0.0, 0.0, 2 * a], pbc=(False, False, True))
    atoms.calc = Madelung(SALT)
    charged = -2.0 * np.log(2.0) / a * EV_ANGSTROM
    assert abs(atoms.get_potential_energy() - charged) < 1e-13 * abs(charged)
    assert np.abs(atoms.get_forces()).max() < 1e-12
    with pytest.raises(PropertyNotImplementedError):
        atoms.get_stress()
    pairs = {pair: {"epsilon": 0.01, "sigma": 2.5} for pair in ("Na-Na", "Na-Cl", "Cl-Cl")}
    atoms.calc = Madelung(SALT, potentials={"lennard_jones": pairs}, potential_cutoff=6.0)
    # Two neighbours at a, two at 2a within the taper, which begins at 5.4.
    lj = [4 * 0.01 * ((2.5 / r) ** 12 - (2.5 / r) ** 6) for r in (a, 2 * a)]
    tapered = (atoms.get_potential_energy() - charged - 2 * lj[0]) / (2 * lj[1])
    assert 0.0 < tapered < 1.0
    atoms.positions[1, 2] += 0.2
    forces, step, energies = atoms.get_forces(), 1e-4, []
    for sign in (1, -1):
        atoms.positions[1, 2] += sign * step
        energies.append(atoms.get_potential_energy())
        atoms.positions[1, 2] -= sign * step
    assert abs((energies[0] - energies[1]) / (2 * step) + forces[1, 2]) < 1e-6 * np.abs(forces).max()
    # Of a cell with a volume the stress is −∂E/∂ε over it.
    atoms.cell = [20.0, 20.0, 2 * a]
    stress, energies = atoms.get_stress()[2], []
    for sign in (1, -1):
        strained = atoms.copy()
        strained.set_cell([20.0, 20.0, 2 * a * (1 + sign * step)], scale_atoms=True)
        strained.calc = atoms.calc
        energies.append(strained.get_potential_energy())
    assert abs((energies[0] - energies[1]) / (2 * step) / atoms.get_volume() - stress) < 1e-6 * abs(stress)


def changed(**attributes) -> Atoms:
    atoms = salt()
    for name, value in attributes.items():
        setattr(atoms, name, value)
    return atoms


@pytest.mark.parametrize(
    ("atoms", "settings", "message"),
    [
        (changed(pbc=(True, False, False), cell=(0.0, 5.6, 5.6)), {}, "`atoms.cell`: expected a lattice vector along"),
        (changed(pbc=(True, False, False)), {"method": "pme"}, "`method`: expected 'direct'"),
        (changed(pbc=False), {"alpha": 0.4}, "`alpha`: expected None with at most one periodic axis"),
        (changed(pbc=False), {"method": "ewald"}, "`method`: expected 'direct'"),
        (changed(), {"method": "direct"}, "`method`: expected 'ewald' or 'pme'"),
        (changed(cell=(5.6, 5.6, 0.0)), {}, "`atoms.cell`: expected three lattice vectors that span a volume"),
        (changed(), {"charges": None}, "`charges`: expected a dict or an array, as the atoms have no initial charges"),
        (changed(), {"charges": {"Na": 1.0}}, "`charges`: expected one for each element of the atoms, got none for Cl"),
        (changed(), {"charges": [1.0, -1.0]}, "`charges`: expected shape (8,), got (2,)"),
        (changed(positions=np.zeros((8, 3))), {}, "one point"),
        (changed(positions=np.full((8, 3), np.nan)), {"skin": 1.0}, "`positions`: expected finite coordinates"),
        (changed(), {"accuracy": 2.0}, "`accuracy`"),
    ],
)
def test_bad_atoms(atoms: Atoms, settings: dict, message: str):
    atoms.calc = Madelung(**{"charges": SALT, **settings})
    with pytest.raises(ValueError, match=re.escape(message)):
        atoms.get_potential_energy()
    assert atoms.calc.results == {}


def test_examples_as_the_command_line_has_them():
    known = json.loads((ROOT / "examples" / "data" / "known.json").read_text())
    for file, entry in known.items():
        atoms = ase.io.read(ROOT / "examples" / "data" / file)
        atoms.calc = Madelung(accuracy=1e-12)
        assert atoms.get_potential_energy() == pytest.approx(EV_ANGSTROM * entry["energy"], rel=1e-11)


def test_without_ase():
    code = "import sys; sys.modules['ase'] = None; import madelung.numpy, madelung.ase"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.endswith("ImportError: madelung.ase needs ASE 3.23 or newer: pip install 'madelung[ase]'\n")


def test_methods_agree():
    """Within the accuracy of each: the sum over waves, the mesh, and the one that is cheaper."""
    atoms = salt(6, rattle=0.1)
    found = {}
    for method in ("ewald", "pme", None):
        atoms.calc = Madelung(SALT, accuracy=1e-5, method=method)
        found[method] = atoms.get_potential_energy(), atoms.get_forces(), atoms.get_stress()
        names = {"ewald": "EwaldParameters", "pme": "PmeParameters"}
        assert type(atoms.calc.ewald_parameters).__name__ == names.get(method, "PmeParameters")
    unit = EV_ANGSTROM / (atoms.get_volume() / len(atoms)) ** (2 / 3)
    difference = found["pme"][1] - found["ewald"][1]
    assert np.sqrt((difference**2).sum(1).mean()) < 2e-5 * unit
    assert found["pme"][0] == pytest.approx(found["ewald"][0], rel=1e-5)
    assert np.array_equal(found[None][1], found["pme"][1])


def test_small_systems_and_high_accuracies_have_no_mesh():
    for atoms, accuracy in [(salt(1), 1e-4), (salt(3), 1e-13)]:
        atoms.calc = Madelung(SALT, accuracy=accuracy)
        atoms.get_potential_energy()
        assert type(atoms.calc.ewald_parameters).__name__ == "EwaldParameters"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "spme"}, "`method`: expected 'ewald' or 'pme'"),
        ({"method": "pme", "k_cutoff": 3.0}, "`k_cutoff`: expected None on a mesh"),
    ],
)
def test_bad_methods(settings: dict, message: str):
    def energy() -> float:
        atoms = salt(1)
        atoms.calc = Madelung(SALT, **settings)
        return atoms.get_potential_energy()

    with pytest.raises(ValueError, match=message):
        energy()
