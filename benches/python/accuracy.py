"""The accuracy that is asked for, and the error that is measured: random systems of seven kinds, each method.

python benches/python/accuracy.py         the table of docs/electrostatics/accuracy.md: 350 systems, half a minute

Prints, for each method and target, the share of systems whose RMS force error is below the target, and the median and
the largest ratio of error to target, of all systems and of each kind. The reference is Ewald's sum over a list at
1e-13. "As chosen" sums small systems directly.
"""

from __future__ import annotations

import argparse
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from madelung.numpy import ewald_summation, particle_mesh_ewald

Array = npt.NDArray[np.float64]
System = tuple[Array, Array, Array, dict[str, Any]]

TARGETS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
METHODS = {
    "ewald, list": functools.partial(ewald_summation, method="list"),
    "ewald, as chosen": ewald_summation,
    "pme": particle_mesh_ewald,
}
FEWEST, MOST = 20, 3000

_FCC = np.array([[0.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [0.5, 0.5, 0.0]])
_HCP = np.array([[0.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 1 / 3, 0.5], [0.5, 5 / 6, 0.5]])
_BCC = np.array([[0.0, 0.0, 0.0], [0.5, 0.5, 0.5]])
# Edges of a rectangular cell in Å, and the fractional places of each charge.
CRYSTALS = {
    "rock salt": ((5.64, 5.64, 5.64), ((1.0, _FCC), (-1.0, _FCC + 0.5))),
    "caesium chloride": ((4.12, 4.12, 4.12), ((1.0, _BCC[:1]), (-1.0, _BCC[1:]))),
    "zincblende": ((5.41, 5.41, 5.41), ((2.0, _FCC), (-2.0, _FCC + 0.25))),
    "fluorite": ((5.46, 5.46, 5.46), ((2.0, _FCC), (-1.0, np.concatenate([_FCC + 0.25, _FCC + 0.75])))),
    "wurtzite": ((3.25, 3.25 * np.sqrt(3), 5.21), ((2.0, _HCP), (-2.0, _HCP + np.array([0.0, 0.0, 0.382])))),
    "rutile": (
        (4.594, 4.594, 2.959),
        ((4.0, _BCC), (-2.0, np.array([[x, y, z] for x, y, z in (
            (0.305, 0.305, 0.0), (-0.305, -0.305, 0.0), (0.195, 0.805, 0.5), (0.805, 0.195, 0.5))]))),
    ),
}  # fmt: skip
WATER = np.array([[0.0, 0.0, 0.0], [0.76, 0.59, 0.0], [-0.76, 0.59, 0.0]])


def repeats(atoms_of_one: float, rng: np.random.Generator, even: bool = False) -> npt.NDArray[np.int64]:
    """Numbers of cells along three axes, equal to within a factor of about two, for 20 to 3,000 atoms in all."""
    while True:
        edge = (np.exp(rng.uniform(np.log(FEWEST), np.log(MOST))) / atoms_of_one) ** (1 / 3)
        axes = np.maximum(edge * rng.uniform(0.7, 1.4, 3), 0.5)
        counts = 2 * np.maximum(np.rint(axes / 2), 1) if even else np.maximum(np.rint(axes), 1)
        if FEWEST <= atoms_of_one * counts.prod() <= MOST:
            return counts.astype(int)


def grid(counts: npt.NDArray[np.int64]) -> Array:
    """The points of a grid of so many along each axis."""
    return np.stack(np.meshgrid(*map(np.arange, counts), indexing="ij"), -1).reshape(-1, 3).astype(float)


def crystal(rng: np.random.Generator) -> System:
    """A perfect crystal."""
    edges, sublattices = CRYSTALS[rng.choice(list(CRYSTALS))]
    places = np.concatenate([sites for _, sites in sublattices])
    charges = np.concatenate([np.full(len(sites), charge) for charge, sites in sublattices])
    counts = repeats(len(places), rng)
    positions = (grid(counts)[:, None] + places).reshape(-1, 3) * edges
    return positions, np.tile(charges, counts.prod()), np.diag(counts * edges), {}


def salt(rng: np.random.Generator, disorder: float) -> System:
    """Rock salt whose ions are displaced by normal deviates, in Å."""
    counts = repeats(1, rng, even=True)
    places = grid(counts)
    positions = 2.8 * places + rng.normal(scale=disorder, size=places.shape)
    return positions, np.where(places.sum(1) % 2, -1.0, 1.0), 2.8 * np.diag(counts), {}


def water(rng: np.random.Generator) -> System:
    """Molecules of water at the density of the liquid, turned at random."""
    counts = repeats(3, rng)
    places = 3.1 * grid(counts)
    axes = np.linalg.qr(rng.normal(size=(len(places), 3, 3)))[0]
    positions = (places[:, None] + WATER @ axes).reshape(-1, 3)
    return positions, np.tile([-0.834, 0.417, 0.417], len(places)), 3.1 * np.diag(counts), {}


def gas(rng: np.random.Generator, edges: Array, charges: str) -> System:
    """Charges at random places of a box, whose edges are given in (V/N)^(1/3) for one atom."""
    atoms = int(np.exp(rng.uniform(np.log(FEWEST), np.log(MOST))))
    cell = np.diag(atoms ** (1 / 3) * edges)
    q = rng.normal(size=atoms) if charges == "normal" else rng.choice([-1.0, 1.0], atoms)
    return rng.uniform(0, 1, (atoms, 3)) @ cell, q, cell, {}


def triclinic(rng: np.random.Generator) -> System:
    """A disordered salt in a sheared cell."""
    positions, charges, cell, _ = salt(rng, 0.3)
    shear = np.eye(3) + np.tril(rng.uniform(-0.6, 0.6, (3, 3)), -1)
    return positions @ shear, charges, cell @ shear, {}


def slab(rng: np.random.Generator) -> System:
    """A layer of a disordered salt, with 1.5 to 3 times its thickness to the next."""
    positions, charges, cell, _ = salt(rng, 0.2)
    cell[2, 2] *= rng.uniform(2.5, 4.0)
    return positions, charges, cell, {"pbc": (True, True, False), "slab_correction": True}


KINDS = {
    "crystal": crystal,
    "melt": lambda rng: salt(rng, rng.uniform(0.3, 0.8)),
    "water": water,
    "sparse": lambda rng: gas(rng, np.full(3, 3.0 * rng.uniform(1.5, 3.0)), "normal"),
    "elongated": lambda rng: gas(rng, 2.15 * np.array([0.5, 0.5, 4.0]), "salt"),
    "triclinic": triclinic,
    "slab": slab,
}


def ratios(system: System) -> dict[tuple[str, float], float]:
    """The error over the target, of each method and target."""
    r, q, h, boundary = system
    unit = np.mean(q**2) / (abs(np.linalg.det(h)) / len(q)) ** (2 / 3)
    exact = ewald_summation(r, q, h, accuracy=1e-13, compute_forces=True, method="list", **boundary)[1]
    found = {}
    for name, summed in METHODS.items():
        for target in TARGETS:
            forces = summed(r, q, h, accuracy=target, compute_forces=True, **boundary)[1]
            found[name, target] = np.sqrt(np.mean(np.sum((forces - exact) ** 2, axis=1))) / unit / target
    return found


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", type=int, default=350)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    measured: dict[str, list[dict[tuple[str, float], float]]] = {kind: [] for kind in KINDS}
    for _, kind in zip(range(options.systems), list(KINDS) * options.systems, strict=False):
        measured[kind].append(ratios(KINDS[kind](rng)))
    print("| method | target | below it | median | largest | " + " | ".join(measured) + " |")
    print("|---|---|---|---|---|" + "---|" * len(measured))
    for name in METHODS:
        for target in TARGETS:
            kinds = [np.array([each[name, target] for each in found]) for found in measured.values()]
            x = np.concatenate(kinds)
            of_kinds = " | ".join(f"{np.median(each):.2f}, {each.max():.2f}" if len(each) else "" for each in kinds)
            print(
                f"| {name} | {target:.0e} | {np.mean(x <= 1):.1%} | {np.median(x):.2f} | {x.max():.2f} | {of_kinds} |"
            )


if __name__ == "__main__":
    main()
