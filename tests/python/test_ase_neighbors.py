"""`madelung.ase.neighbor_list` against ASE's own function."""

from __future__ import annotations

from typing import Any

import ase.build
import ase.neighborlist
import numpy as np
import pytest
from ase import Atoms

from madelung.ase import neighbor_list

GENERATOR = np.random.default_rng(11)
MASKS = [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]


def random_atoms(pbc: Any, n: int = 40) -> Atoms:
    """Ions of three elements in a skewed cell, some of them outside."""
    cell = 6.0 * np.eye(3) + GENERATOR.normal(size=(3, 3))
    positions = GENERATOR.uniform(-0.5, 1.5, (n, 3)) @ cell
    return Atoms(GENERATOR.choice(["Na", "Cl", "O"], n), positions, cell=cell, pbc=pbc)


def ordered(found: Any) -> dict[str, Any]:
    arrays = dict(zip("ijSDd", found))
    order = np.lexsort([*arrays["S"].T[::-1], arrays["j"], arrays["i"]])
    return {letter: x[order] for letter, x in arrays.items()}


def same(atoms: Atoms, cutoff: Any, **options: Any) -> int:
    ours = neighbor_list("ijSDd", atoms, cutoff, **options)
    theirs = ordered(ase.neighborlist.neighbor_list("ijSDd", atoms, cutoff, **options))
    for x, (letter, y) in zip(ours, theirs.items()):
        if letter in "ijS":
            np.testing.assert_array_equal(x, y)
        else:
            np.testing.assert_allclose(x, y, rtol=0, atol=1e-13 * np.abs(atoms.positions).max())
    return len(ours[0])


CUTOFFS = [
    4.0,
    11.0,
    {("Na", "Cl"): 3.5, ("O", "O"): 5.0, (8, 11): 2.0},
    {("Cl", "Cl"): 4.0, ("H", "C"): 9.0},
    "radii",
]


@pytest.mark.parametrize("self_interaction", [False, True])
@pytest.mark.parametrize("cutoff", CUTOFFS, ids=str)
@pytest.mark.parametrize("pbc", MASKS, ids=str)
def test_pairs_are_those_of_ase(pbc: Any, cutoff: Any, self_interaction: bool) -> None:
    atoms = random_atoms(pbc)
    if isinstance(cutoff, str):
        cutoff = GENERATOR.uniform(0.5, 2.5, len(atoms))
    assert same(atoms, cutoff, self_interaction=self_interaction) > 0


def test_cells_without_all_lattice_vectors() -> None:
    slab = ase.build.fcc111("Al", (2, 2, 3))
    wire = Atoms("C2", [[0, 0, 0], [0.1, 0.2, 1.0]], cell=[0, 0, 2.0], pbc=(0, 0, 1))
    for atoms in (slab, wire, ase.build.molecule("C6H6")):
        assert same(atoms, 4.0) > 0


def test_quantities() -> None:
    atoms = random_atoms(True)
    every = dict(zip("ijSDd", neighbor_list("ijSDd", atoms, 3.0)))
    for letters in ("i", "d", "dji", "DS", "jj"):
        found = neighbor_list(letters, atoms, 3.0)
        for letter, x in zip(letters, found if len(letters) > 1 else [found]):
            np.testing.assert_array_equal(x, every[letter])


@pytest.mark.parametrize("n", [0, 1])
def test_no_pairs(n: int) -> None:
    for cutoff in (1.0, {("Na", "Na"): 1.0}, np.zeros(n), {("H", "H"): 1.0}):
        i, shifts, d = neighbor_list("iSd", Atoms("Na" * n), cutoff)
        assert (i.shape, shifts.shape, d.shape) == ((0,), (0, 3), (0,))


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"quantities": "ijk"}, ValueError, "`quantities`: expected letters of i, j, S, D and d, got 'ijk'"),
        ({"quantities": ""}, ValueError, "`quantities`"),
        ({"atoms": None}, TypeError, "`atoms`: expected ASE's Atoms, got None"),
        (
            {"atoms": Atoms("Na", pbc=True)},
            ValueError,
            "`atoms.cell`: expected a lattice vector along each periodic axis",
        ),
        ({"cutoff": 0.0}, ValueError, "`cutoff`: expected a number above zero"),
        ({"cutoff": None}, (TypeError, ValueError), "`cutoff`"),
        ({"cutoff": {}}, ValueError, "`cutoff`: expected at least one pair of elements"),
        ({"cutoff": {"Na": 1.0}}, ValueError, "`cutoff`: expected pairs of elements as keys, got 'Na'"),
        ({"cutoff": {("Na", "Xx"): 1.0}}, ValueError, "`cutoff`: expected symbols or atomic numbers"),
        ({"cutoff": {("Na", "Cl"): -1.0}}, ValueError, r"`cutoff\[\('Na', 'Cl'\)\]`: expected a number above zero"),
        ({"cutoff": {("Na", "Cl"): 1.0, (17, 11): 2.0}}, ValueError, "expected 1, as for the same pair of elements"),
        ({"cutoff": np.ones(3)}, ValueError, r"`cutoff`: expected shape \(40,\)"),
        ({"cutoff": -np.ones(40)}, ValueError, "`cutoff`: expected radii from 0 up, got -1"),
        ({"self_interaction": 2}, TypeError, "`self_interaction`"),
    ],
)
def test_wrong_arguments(change: dict[str, Any], error: Any, text: str) -> None:
    good = {"quantities": "ij", "atoms": random_atoms(True), "cutoff": 3.0}
    with pytest.raises(error, match=text):
        neighbor_list(**(good | change))
