"""Energies and forces of other programs: OpenMM's Reference platform, and GROMACS.

The values stand in tests/data/openmm_references.json, made by make_openmm_references.py.
"""

import json

import numpy as np
import pytest

from conftest import ROOT
from madelung.numpy import ewald_summation, particle_mesh_ewald

STORED = json.loads((ROOT / "tests" / "data" / "openmm_references.json").read_text())
CASES = STORED["cases"]


def system(case):
    return tuple(np.array(case[name]) for name in ("positions", "charges", "cell"))


def options(case):
    """In kJ/mol and nm, with OpenMM's own constant. It takes pairs of a list where they stand, without images."""
    given = {"prefactor": STORED["coulomb_constant"], "energy_reduction": "system", "compute_forces": True}
    if not case["pairs"]:
        return given
    pairs, factors = np.array([p[:2] for p in case["pairs"]], dtype=np.int32), np.array([p[2] for p in case["pairs"]])
    return {**given, "exclusions": (pairs, factors, np.zeros((len(pairs), 3), dtype=np.int32))}


def rms(vectors):
    return np.sqrt(np.mean(np.sum(vectors**2, axis=1)))


@pytest.mark.parametrize("name", CASES)
def test_ewald(name):
    """To the error of OpenMM's sum: a tenth of what its two sums differ by."""
    case = CASES[name]
    energy, forces = ewald_summation(*system(case), accuracy=1e-12, **options(case))
    assert abs(energy[0] - case["energy"]) < 0.1 * case["energy_difference"]
    assert rms(forces - case["forces"]) < 0.1 * case["force_difference"]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("accuracy", [1e-4, 1e-6, 1e-8])
def test_mesh(name, accuracy):
    """To the accuracy that is asked for, beside the error of OpenMM's sum."""
    case = CASES[name]
    _, charges, cell = system(case)
    unit = STORED["coulomb_constant"] * np.mean(charges**2) / (abs(np.linalg.det(cell)) / len(charges)) ** (2 / 3)
    _, forces = particle_mesh_ewald(*system(case), accuracy=accuracy, **options(case))
    assert rms(forces - case["forces"]) < accuracy * unit + 0.1 * case["force_difference"]


def test_gromacs():
    """The energy that GROMACS has for the amorphous salt, to its six digits."""
    case = CASES["amorphous_salt"]
    for summed in (ewald_summation, particle_mesh_ewald):
        energy, _ = summed(*system(case), accuracy=1e-8, **options(case))
        assert abs(energy[0] - case["gromacs_energy"]) < 0.5
