"""Writes openmm_references.json: what OpenMM's Reference platform (in double precision) gives for point charges.

    pip install numpy openmm
    python tests/data/make_openmm_references.py          compares every stored value with the sum
    python tests/data/make_openmm_references.py --write  writes the file anew

In OpenMM's units: nm, kJ/mol, e. The amorphous salt stands in the file; the other boxes are made here. Each is summed
twice: by Ewald's sum at two tolerances where the box is rectangular, and on two meshes where it is not (for such boxes
OpenMM has meshes alone). The finer sum is kept, with its differences from the other: its own error is less than a tenth
of them, 1/15 on meshes, where errors of forces fall with the fourth power of the distance of nodes.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import openmm
from openmm.unit import kilojoule_per_mole, nanometer

FILE = Path(__file__).with_name("openmm_references.json")
# Of α times the cutoff: erfc is then 1e-13.
CONVERGED = 5.2


def water() -> dict:
    """Sixty-four molecules of TIP3P water, whole, in a sheared box: pairs of a molecule are left out, and some pairs of
    hydrogen atoms of two molecules scaled."""
    rng = np.random.default_rng(64)
    cell = np.array([[1.4, 0.0, 0.0], [0.42, 1.3, 0.0], [-0.51, 0.38, 1.2]])
    places = np.stack(np.meshgrid(*[np.arange(4) / 4] * 3, indexing="ij"), -1).reshape(-1, 3) @ cell
    angle = np.deg2rad(104.52)
    molecule = 0.09572 * np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [np.cos(angle), np.sin(angle), 0.0]])
    axes = np.linalg.qr(rng.normal(size=(len(places), 3, 3)))[0]
    positions = (places[:, None] + molecule @ axes).reshape(-1, 3)
    first = 3 * np.arange(len(places))
    within = [[i + a, i + b, 0.0] for i in first for a, b in ((0, 1), (0, 2), (1, 2))]
    scaled = [[i + 1, i + 5, factor] for i, factor in zip(first[:-1:4], np.linspace(0.25, 1.5, 16), strict=True)]
    charges = np.tile([-0.834, 0.417, 0.417], len(places))
    return described(positions, charges, cell, within + scaled, [[0.59, [135] * 3], [0.59, [270] * 3]])


def ions() -> dict:
    """Sixty ions at random places, no two closer than 0.2 nm, in a strongly sheared box with a charge of two."""
    rng = np.random.default_rng(60)
    cell = np.array([[1.5, 0.0, 0.0], [-0.74, 1.6, 0.0], [0.7, -0.78, 1.7]])
    places: list[np.ndarray] = []
    while len(places) < 60:
        new = rng.random(3)
        apart = np.array([new - each for each in places]).reshape(-1, 3)
        apart -= np.round(apart)
        if not len(places) or np.linalg.norm(apart @ cell, axis=1).min() > 0.2:
            places.append(new)
    charges = np.where(np.arange(60) < 31, 1.0, -1.0)
    return described(np.array(places) @ cell, charges, cell, [], [[0.74, [135] * 3], [0.74, [270] * 3]])


def described(positions: np.ndarray, charges: np.ndarray, cell: np.ndarray, pairs: list, sums: list) -> dict:
    """A case. Positions are rounded, so that the file is short."""
    pairs = [[int(i), int(j), float(factor)] for i, j, factor in pairs]
    return {
        "positions": np.round(positions, 5).tolist(),
        "charges": charges.tolist(),
        "cell": cell.tolist(),
        "pairs": pairs,
        "sums": sums,
    }


def summed(case: dict, cutoff: float, settings: float | list[int]) -> tuple[float, np.ndarray]:
    """Energy and forces, by Ewald's sum at a tolerance or on a mesh."""
    system, force = openmm.System(), openmm.NonbondedForce()
    charges = case["charges"]
    for charge in charges:
        system.addParticle(1.0)
        force.addParticle(charge, 0.1, 0.0)
    for i, j, factor in case["pairs"]:
        force.addException(i, j, factor * charges[i] * charges[j], 0.1, 0.0)
    system.setDefaultPeriodicBoxVectors(*[openmm.Vec3(*row) for row in case["cell"]])
    force.setCutoffDistance(cutoff)
    if isinstance(settings, float):
        force.setNonbondedMethod(openmm.NonbondedForce.Ewald)
        force.setEwaldErrorTolerance(settings)
    else:
        force.setNonbondedMethod(openmm.NonbondedForce.PME)
        force.setPMEParameters(CONVERGED / cutoff, *settings)
    system.addForce(force)
    return state(system, case["positions"])


def state(system: openmm.System, positions: list) -> tuple[float, np.ndarray]:
    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
    context.setPositions([openmm.Vec3(*r) for r in positions])
    found = context.getState(getEnergy=True, getForces=True)
    forces = found.getForces(asNumpy=True).value_in_unit(kilojoule_per_mole / nanometer)
    return found.getPotentialEnergy().value_in_unit(kilojoule_per_mole), np.array(forces)


def coulomb_constant() -> float:
    """The energy of two unit charges 1 nm apart."""
    system, force = openmm.System(), openmm.NonbondedForce()
    for _ in range(2):
        system.addParticle(1.0)
        force.addParticle(1.0, 0.1, 0.0)
    system.addForce(force)
    return state(system, [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])[0]


def rms(vectors: np.ndarray) -> float:
    """Over atoms, of the lengths."""
    return float(np.sqrt(np.mean(np.sum(np.square(vectors), axis=1))))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--write", action="store_true", help="writes the values into the file")
    write = arguments.parse_args().write
    stored = json.loads(FILE.read_text())
    given = ("positions", "charges", "cell", "pairs", "sums", "gromacs_energy")
    salt = {name: stored["cases"]["amorphous_salt"][name] for name in given}
    made = {"amorphous_salt": salt, "triclinic_water": water(), "triclinic_ions": ions()}
    for name, case in made.items():
        coarse, fine = (summed(case, *each) for each in case["sums"])
        energy, forces = fine
        case |= {"energy": energy, "energy_difference": abs(energy - coarse[0])}
        case |= {"force_difference": rms(forces - coarse[1]), "forces": np.round(forces, 9).tolist()}
        differences = f"two sums {case['energy_difference']:.1e} and {case['force_difference']:.1e}"
        if old := stored["cases"].get(name):
            differences += f", stored {abs(energy - old['energy']):.1e} and {rms(forces - old['forces']):.1e}"
        print(f"{name}: energy {energy:.12g}, RMS force {rms(forces):.6g}; {differences}")
    if write:
        openmm_is = {"version": openmm.version.version, "coulomb_constant": coulomb_constant()}
        lines = ",\n".join(f'"{name}": {json.dumps(case)}' for name, case in made.items())
        FILE.write_text(json.dumps(openmm_is)[:-1] + ', "cases": {\n' + lines + "\n}}\n")


if __name__ == "__main__":
    main()
