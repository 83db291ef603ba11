"""Pair potentials of other programs: of LAMMPS, and of OpenMM's Reference platform.

The values stand in tests/data/pair_references.json, made by make_pair_references.py.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import ROOT

STORED = json.loads((ROOT / "tests" / "data" / "pair_references.json").read_text())
CUTOFF, NEAREST, SWITCH = STORED["cutoffs"]
RULES = ("lorentz-berthelot", "geometric", "waldman-hagler")


def tables(law: str) -> list[Any]:
    """The tables of a law from what LAMMPS takes for the pairs 1-1, 1-2 and 2-2."""
    columns = list(np.array(STORED["laws"][law]).T)
    if law == "born_mayer":
        # With ρ = 1/B, and the other sign of D.
        columns[1], columns[4] = 1.0 / columns[1], -columns[4]
    # What LAMMPS has once for all types: the inverse length of Yukawa's potential, and the softness.
    columns += [np.full(3, x) for x in {"yukawa": [0.7], "soft_core": [0.5]}.get(law, [])]
    return [np.array([[x[0], x[1]], [x[1], x[2]]]) for x in columns]


def check(name: str, law: str, parameters: list[Any], has_energy: bool = True, **options: Any) -> None:
    positions, types, cell = (np.array(STORED[x]) for x in ("positions", "types", "cell"))
    pairs, factors = np.array([p[:2] for p in STORED["pairs"]], np.int32), np.array([p[2] for p in STORED["pairs"]])
    given = {"exclusions": (pairs, factors), "energy_reduction": "system", "compute_forces": True, **options}
    energy, forces = getattr(mn, law)(positions, types.astype(np.int32), *parameters, cell=cell, **given)
    expected = STORED["cases"][name]
    # Sums of a thousand terms, of which the largest are some hundred times their sum.
    largest = np.abs(expected["forces"]).max()
    assert not has_energy or abs(energy[0] - expected["energy"]) < 1e-12 * abs(expected["energy"])
    assert np.abs(forces - expected["forces"]).max() < 1e-12 * max(largest, 1.0)


@pytest.mark.parametrize("law", STORED["laws"])
def test_laws(law: str) -> None:
    check(law, law, tables(law), cutoff=CUTOFF, end="cut")


@pytest.mark.parametrize("name", [x for x in STORED["cases"] if " " in x])
def test_ends_and_tails(name: str) -> None:
    """With the ends that LAMMPS has: a shift of four laws, others of Lennard-Jones' potential alone."""
    end, law = name.split()
    ends = {"end": end, **({"onset": STORED["begin"]} if end.endswith("switch") else {})}
    given = {"end": "cut", "tail_correction": True} if end == "tail" else ends
    # LAMMPS' `lj/smooth/linear` has the factors of pairs in its forces alone.
    check(name, law, tables(law), end != "force-shift", cutoff=CUTOFF, **given)


@pytest.mark.parametrize("rule", RULES)
def test_mixing(rule: str) -> None:
    check(rule, "lennard_jones", list(np.array(STORED["mixed"]).T), cutoff=CUTOFF, end="cut", mixing=rule)


def test_openmm() -> None:
    """Its switching function is the taper; it has it for no pair with a factor, all of which are nearer."""
    given = {"cutoff": NEAREST, "onset": SWITCH, "mixing": "lorentz-berthelot"}
    check("openmm", "lennard_jones", list(np.array(STORED["mixed"]).T), **given)
