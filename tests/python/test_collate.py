"""Batches of structures: what belongs to atoms and what to systems, and structures of ASE."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conftest import required

required("ase")
required("torch")
required("jax")
from ase import Atoms  # noqa: E402
from ase.calculators.calculator import Calculator  # noqa: E402
from ase.calculators.singlepoint import SinglePointCalculator  # noqa: E402

from madelung.jax import nn as jax_nn  # noqa: E402
from madelung.torch import nn  # noqa: E402

POSITIONS = np.array([[0.0, 0.0, 0.0], [0.96, 0.0, 0.0], [-0.24, 0.93, 0.0]])
CHARGES = np.array([-0.8, 0.4, 0.4])


@pytest.mark.parametrize("collate", [nn.collate, jax_nn.collate])
def test_quantities_of_systems_are_known_by_name(collate: Any) -> None:
    """Three atoms, and six: arrays of systems have as many rows as there are atoms."""
    for atoms, of_systems in (
        (3, {"stress": (3, 3), "dft_virial": (3, 3), "dipole": (3,), "REF_dipole": (3,), "polarizability": (3, 3)}),
        (6, {"stress": (6,), "virials": (6,)}),
        (9, {"strain": (9,)}),
    ):
        of_atoms = {"charges": (atoms,), "forces": (atoms, 3), "atomic_dipole": (atoms, 3), "virial": (atoms, 3, 3)}
        arrays = {name: np.random.default_rng(1).normal(size=shape) for name, shape in (of_systems | of_atoms).items()}
        one = {"positions": np.arange(3.0 * atoms).reshape(atoms, 3), "energy": 1.0, **arrays}
        batch = collate([one, one])
        assert tuple(batch["energy"].shape) == (2,)
        for name, shape in of_systems.items():
            assert tuple(batch[name].shape) == (2, *shape), name
            np.testing.assert_allclose(np.asarray(batch[name])[1], arrays[name], rtol=1e-6)
        for name, shape in of_atoms.items():
            assert tuple(batch[name].shape) == (2 * atoms, *shape[1:]), name


class Untouched(Calculator):
    """Calculator that could say charges, and is not asked to."""

    implemented_properties = ["charges"]  # noqa: RUF012

    def calculate(self, *_: Any) -> None:
        raise AssertionError("`collate` computes nothing")


@pytest.mark.parametrize("collate", [nn.collate, jax_nn.collate])
def test_atoms_of_ase(collate: Any) -> None:
    initial = Atoms("OH2", positions=POSITIONS, cell=np.diag([9.0, 8.0, 7.0]), pbc=True, charges=CHARGES)
    computed = Atoms("OH2", positions=POSITIONS + 1.0)
    computed.calc = SinglePointCalculator(computed, charges=2.0 * CHARGES)
    batch = collate([initial, computed])
    assert sorted(batch) == ["batch_idx", "cell", "charges", "pbc", "positions"]
    np.testing.assert_allclose(batch["positions"], np.concatenate([POSITIONS, POSITIONS + 1.0]), rtol=1e-6)
    np.testing.assert_allclose(batch["charges"], np.concatenate([CHARGES, 2.0 * CHARGES]), rtol=1e-6)
    assert batch["cell"].tolist() == [np.diag([9.0, 8.0, 7.0]).tolist(), np.zeros((3, 3)).tolist()]
    assert batch["pbc"].tolist() == [[True] * 3, [False] * 3]
    # Beside mappings.
    mixed = collate([initial, {"positions": POSITIONS, "charges": CHARGES}])
    assert mixed["batch_idx"].tolist() == [0, 0, 0, 1, 1, 1]
    # Charges of atoms that have moved since are none.
    computed.positions += 0.1
    with pytest.raises(ValueError, match=r"`structures`: .*'charges'.*got \['cell', 'pbc', 'positions'\] in structure"):
        collate([initial, computed])
    computed.calc = Untouched()
    assert "charges" not in collate([computed])


@pytest.mark.parametrize("collate", [nn.collate, jax_nn.collate])
def test_what_is_no_structure(collate: Any) -> None:
    atoms = Atoms("OH2", positions=POSITIONS)
    with pytest.raises(TypeError, match="`structures`: expected several of them, in a list, got one, Atoms"):
        collate(atoms)
    with pytest.raises(TypeError, match="`structures`: expected several of them, in a list, got one, dict"):
        collate({"positions": POSITIONS})
    with pytest.raises(TypeError, match="`structures`: expected mappings of arrays, or `Atoms` of ASE, got tuple"):
        collate([(POSITIONS, CHARGES)])
    with pytest.raises(TypeError, match="`symbols`: expected numbers, got <U1"):
        collate([{"positions": POSITIONS, "symbols": np.array(["O", "H", "H"])}])
    with pytest.raises(TypeError, match="`charges`: expected numbers, got object"):
        collate([{"positions": POSITIONS, "charges": None}])
