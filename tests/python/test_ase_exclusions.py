"""Exclusions of ASE's calculator."""

import json

import numpy as np
import pytest
from ase import Atoms

import madelung.numpy as mn
from conftest import assert_close
from madelung.ase import Madelung
from madelung.units import EV_ANGSTROM
from test_ase import POTENTIALS, SALT, salt


def test_exclusions():
    """Of charges and potentials alike, as their functions take them."""
    atoms = salt(2, rattle=0.1)
    pairs, factors = np.array([[0, 1], [4, 11], [2, 7]], np.int32), np.array([0.0, 0.5, 0.0])
    # The calculator has more waves than the sum beside it.
    given = {"accuracy": 1e-12, "cutoff": 8.0, "potentials": POTENTIALS, "potential_cutoff": 8.0}
    atoms.calc = Madelung(SALT, **given, method="ewald", exclusions=(pairs, factors))
    energies, forces = atoms.get_potential_energies(), atoms.get_forces()
    elements, types = np.unique(np.array(atoms.symbols), return_inverse=True)
    of = POTENTIALS["born_mayer"]
    of = [[of.get(f"{a}-{b}", of.get(f"{b}-{a}")) for b in elements] for a in elements]
    names = ("amplitude", "steepness", "sigma", "c6", "c8")
    tables = [np.array([[pair[name] for pair in row] for row in of]) for name in names]
    more = {"exclusions": (pairs, factors), "compute_forces": True}
    cell, charges = atoms.cell.array, np.array([SALT[x] for x in atoms.symbols], float)
    short = mn.born_mayer(atoms.positions, types, *tables, 8.0, cell, **more)
    split = atoms.calc.ewald_parameters
    given_split = {"k_cutoff": split.k_cutoff, "cutoff": split.cutoff}
    coulomb = mn.ewald_summation(
        atoms.positions, charges, cell, split.alpha, **given_split, prefactor=EV_ANGSTROM, accuracy=None, **more
    )
    assert_close(energies, short[0] + coulomb[0], 1e-10)
    assert_close(forces, short[1] + coulomb[1], 1e-10)
    again = Madelung(**json.loads(json.dumps({k: listed(v) for k, v in atoms.calc.todict().items()})))
    assert again.get_potential_energy(atoms) == atoms.get_potential_energy()
    atoms.calc.set(exclusions=None)
    assert atoms.get_potential_energy() != energies.sum()
    wrongs = (
        ([[0.5, 1.0]], "integers"),
        (([[0, 1]], 0.5, [[0, 0, 0]], 1), "a tuple of 4"),
        (([[0, 1]], [0.5, 0.5]), r"shape \(1,\)"),
        (([[0, 1]], None, [[0, 0]]), "shape"),
        ({"pairs": [[0, 1]], "factor": 0.5}, "keys among pairs, factors, images"),
    )
    for wrong, message in wrongs:
        with pytest.raises((TypeError, ValueError), match=f"`exclusions`: expected.*{message}"):
            Madelung(SALT, exclusions=wrong)
    # On a mesh, to the accuracy of that.
    on_mesh = Madelung(SALT, **given | {"accuracy": 1e-8}, method="pme", exclusions=(pairs, factors))
    assert_close(on_mesh.get_forces(atoms), forces, 1e-6)
    # Of a molecule, whose charges are summed over all pairs.
    water = Atoms("OHH", [[0.0, 0.0, 0.0], [0.96, 0.0, 0.0], [-0.24, 0.93, 0.0]])
    water.calc = Madelung({"O": -0.8, "H": 0.4}, exclusions=[[0, 1], [0, 2]])
    assert water.get_potential_energy() == pytest.approx(0.16 * EV_ANGSTROM / water.get_distance(1, 2), rel=1e-12)


def listed(x):
    """A parameter with lists in the place of arrays."""
    if isinstance(x, dict):
        return {name: listed(y) for name, y in x.items()}
    return x.tolist() if isinstance(x, np.ndarray) else x
