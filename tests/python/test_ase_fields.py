"""Stresses of atoms and external fields in the calculator of ASE."""

from __future__ import annotations

import numpy as np
from ase.build import bulk
from ase.stress import voigt_6_to_full_3x3_stress

from madelung.ase import Madelung


def test_stresses_of_atoms() -> None:
    """They add up to the stress, and come when they are asked for."""
    rng = np.random.default_rng(3)
    atoms = bulk("NaCl", "rocksalt", a=5.64, cubic=True)
    atoms.positions += rng.normal(scale=0.1, size=(8, 3))
    law = {"Na-Cl": {"epsilon": 0.02, "sigma": 2.5}, "Na-Na": {"epsilon": 0.01, "sigma": 2.2}}
    law["Cl-Cl"] = {"epsilon": 0.01, "sigma": 3.2}
    atoms.calc = Madelung({"Na": 1, "Cl": -1}, potentials={"lennard_jones": law}, potential_cutoff=6.0)
    stress = atoms.get_stress()
    assert "stresses" not in atoms.calc.results
    stresses = atoms.get_stresses()
    assert stresses.shape == (8, 6)
    np.testing.assert_allclose(stresses.sum(0), stress, rtol=0, atol=1e-14)
    np.testing.assert_allclose(atoms.get_stress(), stress, rtol=0, atol=1e-14)


def test_external_field() -> None:
    """A force qF on each atom, and −q r·F of energy."""
    atoms = bulk("NaCl", "rocksalt", a=5.64, cubic=True)
    field = np.array([0.1, -0.2, 0.05])
    found = []
    for given in (None, field):
        atoms.calc = Madelung({"Na": 1, "Cl": -1}, external_field=given)
        found.append((atoms.get_potential_energy(), atoms.get_forces(), atoms.get_stress()))
    charges = np.where(atoms.numbers == 11, 1.0, -1.0)
    np.testing.assert_allclose(found[1][0] - found[0][0], -charges @ atoms.positions @ field, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found[1][1] - found[0][1], charges[:, None] * field, rtol=0, atol=1e-12)
    moment = np.outer(charges @ atoms.positions, field)
    stress = -0.5 * (moment + moment.T) / atoms.get_volume()
    np.testing.assert_allclose(voigt_6_to_full_3x3_stress(found[1][2] - found[0][2]), stress, rtol=0, atol=1e-12)
