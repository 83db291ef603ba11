"""Writes bonded_references.json: what OpenMM's Reference platform gives for bonded terms, in float64 (kJ/mol, nm).

    pip install numpy openmm
    python tests/data/make_bonded_references.py          compares every stored value with OpenMM's
    python tests/data/make_bonded_references.py --write  writes the file anew

Chains of atoms in a sheared cell, wrapped into it, so that bonds cross its faces.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openmm
from openmm.unit import kilojoule_per_mole, nanometer

FILE = Path(__file__).with_name("bonded_references.json")
CELL = np.array([[1.1, 0.0, 0.0], [0.25, 1.0, 0.0], [-0.15, 0.3, 1.2]])
CHAIN, CHAINS = 8, 5
# By the function: how many atoms a term has, and ranges of its parameters.
TERMS: dict[str, tuple[int, list[tuple[float, float]]]] = {
    "harmonic_bonds": (2, [(1e5, 4e5), (0.10, 0.16)]),
    "morse_bonds": (2, [(200.0, 500.0), (15.0, 25.0), (0.10, 0.16)]),
    "harmonic_angles": (3, [(200.0, 600.0), (1.7, 2.2)]),
    "cosine_angles": (3, [(200.0, 600.0), (1.7, np.pi)]),
    "periodic_dihedrals": (4, [(1.0, 20.0), (1.0, 4.0), (-np.pi, np.pi)]),
    "ryckaert_bellemans": (4, [(-10.0, 10.0)] * 6),
    "harmonic_impropers": (4, [(20.0, 200.0), (-np.pi, np.pi)]),
    "lennard_jones_pairs": (2, [(0.1, 1.0), (0.09, 0.13)]),
}


def forces() -> dict[str, tuple[Any, Callable[..., Any]]]:
    """OpenMM's force of each function, and what adds a term."""
    morse = openmm.CustomBondForce("D*(1-exp(-a*(r-r0)))^2")
    cosine = openmm.CustomAngleForce("0.5*k*(cos(theta)-cos(theta0))^2")
    improper = openmm.CustomTorsionForce(f"0.5*k*min(d, {2 * np.pi!r}-d)^2; d=abs(theta-theta0)")
    pairs = openmm.CustomBondForce("4*epsilon*((sigma/r)^12-(sigma/r)^6)")
    of = {morse: "D a r0", cosine: "k theta0", improper: "k theta0", pairs: "epsilon sigma"}
    for force, names in of.items():
        add = getattr(force, next(x for x in dir(force) if x.startswith("addPer") and x.endswith("Parameter")))
        for name in names.split():
            add(name)
    bonds, angles, torsions = openmm.HarmonicBondForce(), openmm.HarmonicAngleForce(), openmm.PeriodicTorsionForce()
    series = openmm.RBTorsionForce()
    return {
        "harmonic_bonds": (bonds, lambda atoms, k, r0: bonds.addBond(*atoms, r0, k)),
        "morse_bonds": (morse, lambda atoms, *p: morse.addBond(*atoms, p)),
        "harmonic_angles": (angles, lambda atoms, k, theta0: angles.addAngle(*atoms, theta0, k)),
        "cosine_angles": (cosine, lambda atoms, *p: cosine.addAngle(*atoms, p)),
        "periodic_dihedrals": (
            torsions,
            lambda atoms, k, n, phase: torsions.addTorsion(*atoms, int(n), phase, k),
        ),
        "ryckaert_bellemans": (series, lambda atoms, *c: series.addTorsion(*atoms, *c)),
        "harmonic_impropers": (improper, lambda atoms, *p: improper.addTorsion(*atoms, p)),
        "lennard_jones_pairs": (pairs, lambda atoms, *p: pairs.addBond(*atoms, p)),
    }


def given() -> tuple[np.ndarray, dict[str, tuple[list[list[int]], list[list[float]]]]]:
    """Atoms in the cell, and by function the atoms and the parameters of terms."""
    rng = np.random.default_rng(53)
    places = []
    for _ in range(CHAINS):
        at = rng.random(3) @ CELL
        for k in range(CHAIN):
            places.append(at)
            step = np.array([0.08, 0.07 * (-1) ** k, 0.05 * (1 if k % 3 else -1)]) + rng.normal(size=3) * 0.02
            at = at + step
    inside = np.array(places) @ np.linalg.inv(CELL)
    positions = np.round((inside - np.floor(inside)) @ CELL, 6)
    terms = {}
    for name, (width, ranges) in TERMS.items():
        atoms = [
            [CHAIN * chain + first + k for k in range(width)]
            for chain in range(CHAINS)
            for first in range(CHAIN - width + 1)
        ]
        order = rng.permutation(len(atoms))
        atoms = [atoms[k][:: 1 if k % 3 else -1] for k in order]
        drawn = [[round(float(rng.uniform(*of)), 4) for of in ranges] for _ in atoms]
        if name == "periodic_dihedrals":
            drawn = [[k, float(int(n)), phase] for k, n, phase in drawn]
        terms[name] = atoms, drawn
    return positions, terms


def evaluated(positions: np.ndarray, force: Any) -> tuple[float, np.ndarray]:
    """Energy and forces."""
    system = openmm.System()
    for _ in positions:
        system.addParticle(1.0)
    system.setDefaultPeriodicBoxVectors(*[openmm.Vec3(*row) for row in CELL])
    force.setUsesPeriodicBoundaryConditions(True)
    system.addForce(force)
    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
    context.setPositions([openmm.Vec3(*r) for r in positions])
    found = context.getState(getEnergy=True, getForces=True)
    by = found.getForces(asNumpy=True).value_in_unit(kilojoule_per_mole / nanometer)
    return found.getPotentialEnergy().value_in_unit(kilojoule_per_mole), np.array(by)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--write", action="store_true", help="writes the values into the file")
    write = arguments.parse_args().write
    positions, terms = given()
    stored = json.loads(FILE.read_text())["terms"] if FILE.exists() else {}
    lines = []
    for name, (force, add) in forces().items():
        atoms, parameters = terms[name]
        for of, values in zip(atoms, parameters, strict=True):
            add(of, *values)
        energy, by = evaluated(positions, force)
        old = stored.get(name, {"energy": np.nan, "forces": np.nan})
        apart = abs(energy - old["energy"]), np.abs(by - old["forces"]).max()
        largest = np.abs(by).max()
        print(f"{name}: energy {energy:.12g}, largest force {largest:.6g}; stored {apart[0]:.1e}, {apart[1]:.1e}")
        case = {"atoms": atoms, "parameters": parameters, "energy": energy, "forces": np.round(by, 9).tolist()}
        lines.append(f'"{name}": {json.dumps(case)}')
    if write:
        head = json.dumps({"positions": positions.tolist(), "cell": CELL.tolist()})[:-1]
        FILE.write_text(head + ', "terms": {\n' + ",\n".join(lines) + "\n}}\n")


if __name__ == "__main__":
    main()
