"""The example of liquid water: its forces against differences, its distribution against an ideal gas, a short run."""

import importlib.util
import re
import subprocess
import sys

import numpy as np
import pytest

from conftest import ROOT, required
from differences import fourth_order

required("ase")
EXAMPLE = ROOT / "examples" / "water_md.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("water_md", EXAMPLE)
    module = sys.modules["water_md"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_forces_are_those_of_the_energy(example):
    """Along a random direction, by differences of fourth order. At this accuracy the pairs that cross the cutoff, some
    two hundred, change the energy by 1e-9 of what the forces do."""
    atoms = example.liquid(1e-9)
    rng = np.random.default_rng(2)
    atoms.positions += rng.normal(scale=0.03, size=atoms.positions.shape)
    start, direction = atoms.positions.copy(), rng.normal(size=atoms.positions.shape)
    expected = -np.sum(atoms.get_forces() * direction)

    def energy(step):
        atoms.positions = start + step * direction
        return atoms.get_potential_energy()

    found = fourth_order(energy, 1e-3)
    assert found == pytest.approx(expected, rel=1e-7)


def test_bonds_and_angles(example):
    """A molecule with one bond stretched by 0.1 Å, and one with an angle of 90°."""
    rest = example.BOND_LENGTH
    straight = np.array([np.cos(example.ANGLE_AT_REST), np.sin(example.ANGLE_AT_REST), 0.0])
    stretched = np.array([[0.0, 0.0, 0.0], [rest + 0.1, 0.0, 0.0], rest * straight])
    energy, forces = example.bonds_and_angles(stretched)
    assert energy == pytest.approx(0.5 * example.BOND * 0.01)
    np.testing.assert_allclose(forces[1], [-0.1 * example.BOND, 0.0, 0.0], atol=1e-12)
    right = np.array([[0.0, 0.0, 0.0], [rest, 0.0, 0.0], [0.0, rest, 0.0]])
    energy, forces = example.bonds_and_angles(right)
    bent = np.pi / 2 - example.ANGLE_AT_REST
    assert energy == pytest.approx(0.5 * example.ANGLE * bent**2)
    # The angle opens towards its place of rest.
    np.testing.assert_allclose(forces[1], [0.0, example.ANGLE * bent / rest, 0.0], atol=1e-12)
    np.testing.assert_allclose(forces.sum(0), 0.0, atol=1e-12)


def test_an_ideal_gas_has_no_structure(example):
    """4,000 points at random places: the number in each shell is that of the density, to four deviations of Poisson's
    distribution, as each pair is counted twice."""
    rng = np.random.default_rng(0)
    cell = 20.0 * np.eye(3)
    distribution = example.Distribution(np.arange(2.0, 8.0, 0.5))
    distribution.add(rng.uniform(0, 20, (4000, 3)).repeat(3, axis=0), cell)
    _, g = distribution.curve
    assert (np.abs(g - 1) < 4 * np.sqrt(2 / distribution.counts)).all()


def test_short_run(tmp_path):
    """As a user starts it."""
    arguments = ["--steps", 40, "--equilibration", 40, "--time-step", 0.25, "--every", 10]
    arguments += ["--plot", tmp_path / "water.png"]
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False
    )
    assert "267 molecules, 40 steps of 0.25 fs" in done.stdout, done.stdout + done.stderr
    # No bar, as this is no terminal.
    assert not done.stderr, done.stderr
    height, place = re.search(r"first peak of g_OO +([\d.]+) at ([\d.]+) A", done.stdout).groups()
    # Already that of liquid water.
    assert 2.0 < float(height) < 4.0 and 2.6 < float(place) < 3.0
    deviation = re.search(r"largest .* ([\d.e+-]+) of the kinetic energy", done.stdout).group(1)
    assert float(deviation) < 0.01
