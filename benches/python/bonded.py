"""Bonded terms of molecules: energies and forces, beside OpenMM where it can be imported.

    python benches/python/bonded.py [--atoms 100000] [--threads 2] [--rounds 30]

Flexible water (two harmonic bonds and a harmonic angle a molecule) and chains of a hundred beads (harmonic bonds,
harmonic angles, periodic dihedrals), in a periodic cube, from NumPy and by OpenMM's platform CPU in single precision.
Energies agree, or nothing is timed. The calls take turns; times are the medians and the least of all terms together, in
ms.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

SIDE, STIFFNESS, WATER, BEADS = 10.0, 1000.0, 3, 100
# That of single precision.
AGREEMENT = 1e-4

Term = tuple[str, np.ndarray, list[np.ndarray]]


def places(atoms: int, of: int) -> np.ndarray:
    """Molecules of so many atoms, each 0.1 nm from the one before in directions by chance."""
    random = np.random.default_rng(atoms)
    steps = random.normal(size=(atoms // of, of, 3))
    steps *= 0.1 / np.linalg.norm(steps, axis=2, keepdims=True)
    return (SIDE * random.random((atoms // of, 1, 3)) + np.cumsum(steps, axis=1)).reshape(-1, 3)


def terms(atoms: int, of: int) -> list[Term]:
    """The bonds, angles and dihedrals along molecules of so many atoms."""
    first = np.arange(atoms // of * of)
    found: list[Term] = []
    for width, name in ((2, "harmonic_bonds"), (3, "harmonic_angles"), (4, "periodic_dihedrals")):
        begins = first[first % of <= of - width]
        if len(begins) == 0:
            continue
        chain = (begins[:, None] + np.arange(width)).astype(np.int32)
        numbers = {2: [STIFFNESS, 0.11], 3: [STIFFNESS, 1.9], 4: [5.0, 3.0, 0.4]}[width]
        found.append((name, chain, [np.full(len(chain), x) for x in numbers]))
    return found


def of_madelung(r: np.ndarray, given: list[Term], dtype: type) -> Callable[[], Any]:
    import madelung.numpy as mn

    cell, r = (SIDE * np.eye(3)).astype(dtype), r.astype(dtype)
    calls = [
        (getattr(mn, name), (r, atoms, *(x.astype(dtype) for x in parameters), cell))
        for name, atoms, parameters in given
    ]

    def both() -> tuple[float, np.ndarray]:
        found = [call(*args, energy_reduction="system", compute_forces=True) for call, args in calls]
        return sum(float(e[0]) for e, _ in found), sum(f for _, f in found)

    return both


def of_openmm(r: np.ndarray, given: list[Term], threads: int) -> Callable[[], Any]:
    import openmm
    from openmm import unit

    system = openmm.System()
    system.setDefaultPeriodicBoxVectors(*(SIDE * np.eye(3)))
    for _ in r:
        system.addParticle(1.0)
    bonds, angles, dihedrals = openmm.HarmonicBondForce(), openmm.HarmonicAngleForce(), openmm.PeriodicTorsionForce()
    for name, atoms, parameters in given:
        for chain, numbers in zip(atoms.tolist(), zip(*parameters)):
            if name == "harmonic_bonds":
                bonds.addBond(*chain, numbers[1], numbers[0])
            elif name == "harmonic_angles":
                angles.addAngle(*chain, numbers[1], numbers[0])
            else:
                dihedrals.addTorsion(*chain, int(numbers[1]), numbers[2], numbers[0])
    for force in (bonds, angles, dihedrals):
        force.setUsesPeriodicBoundaryConditions(True)
        system.addForce(force)
    platform = openmm.Platform.getPlatformByName("CPU")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform, {"Threads": str(threads)})
    context.setPositions(r)

    def both() -> tuple[float, np.ndarray]:
        state = context.getState(getEnergy=True, getForces=True)
        energy = state.getPotentialEnergy().value_in_unit(unit.kilojoule_per_mole)
        return energy, state.getForces(asNumpy=True)

    return both


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--atoms", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    # Before the library makes its threads.
    os.environ["MADELUNG_NUM_THREADS"] = str(options.threads)
    for of, what in ((WATER, "water"), (BEADS, "chains")):
        r, given = places(options.atoms, of), terms(options.atoms, of)
        counts = ", ".join(f"{len(atoms)} {name}" for name, atoms, _ in given)
        print(f"{what}: {len(r)} atoms, {counts}, {options.threads} threads")
        calls = {f"madelung, {t.__name__}": of_madelung(r, given, t) for t in (np.float64, np.float32)}
        if importlib.util.find_spec("openmm"):
            calls["OpenMM, CPU"] = of_openmm(r, given, options.threads)
        (first, expected), *others = [(name, call()[0]) for name, call in calls.items()]
        for name, energy in others:
            if not abs(energy - expected) < AGREEMENT * abs(expected):
                raise SystemExit(f"{name}: {energy}, {first}: {expected}")
        times: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(options.rounds):
            for name, call in calls.items():
                begin = time.perf_counter()
                call()
                times[name].append(1e3 * (time.perf_counter() - begin))
        for name, spent in times.items():
            print(f"    {name:20} {statistics.median(spent):8.2f} {min(spent):8.2f}")


if __name__ == "__main__":
    main()
