"""The accuracy that is asked for, and the error that is measured: random systems of seven kinds, both methods.

python benches/python/accuracy.py --systems 300

Prints, for each method and target, the share of systems whose RMS force error is below the target, and the median and
largest ratio of the error to the target. The reference is Ewald's sum at 1e-13.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from madelung.numpy import ewald_summation, particle_mesh_ewald

KINDS = ("crystal", "melt", "water", "sparse", "elongated", "triclinic", "slab")
TARGETS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
METHODS = {"ewald": ewald_summation, "pme": particle_mesh_ewald}


def system(kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
    """Positions, charges, cell and boundary conditions of 20 to 3,000 atoms."""
    atoms = int(np.exp(rng.uniform(np.log(20), np.log(3000))))
    edge = max(2, 2 * round(atoms ** (1 / 3) / 2))
    places = np.stack(np.meshgrid(*[np.arange(edge)] * 3, indexing="ij"), -1).reshape(-1, 3)
    salt, cell, boundary = np.where(places.sum(1) % 2, -1.0, 1.0), 2.8 * edge * np.eye(3), {}
    positions, charges = 2.8 * places, salt
    if kind == "melt":
        positions = positions + rng.normal(scale=0.6, size=positions.shape)
    elif kind == "water":
        edge = max(2, round((atoms / 3) ** (1 / 3)))
        places = np.stack(np.meshgrid(*[np.arange(edge)] * 3, indexing="ij"), -1).reshape(-1, 3)
        cell = 3.1 * edge * np.eye(3)
        axes = np.linalg.qr(rng.normal(size=(len(places), 3, 3)))[0]
        oh = np.array([[0.0, 0.0, 0.0], [0.76, 0.59, 0.0], [-0.76, 0.59, 0.0]])
        positions = (3.1 * places[:, None] + oh @ axes).reshape(-1, 3)
        charges = np.tile([-0.834, 0.417, 0.417], len(places))
    elif kind == "sparse":
        size = 3.0 * atoms ** (1 / 3) * rng.uniform(1.5, 3.0)
        positions, cell = rng.uniform(0, size, (atoms, 3)), size * np.eye(3)
        charges = rng.normal(size=atoms)
    elif kind == "elongated":
        cell = (10.0 * atoms) ** (1 / 3) * np.diag([0.5, 0.5, 4.0])
        positions, charges = rng.uniform(0, 1, (atoms, 3)) @ cell, rng.choice([-1.0, 1.0], atoms)
    elif kind == "triclinic":
        cell = cell @ (np.eye(3) + np.tril(rng.uniform(-0.6, 0.6, (3, 3)), -1))
        positions = (places / edge) @ cell + rng.normal(scale=0.3, size=positions.shape)
    elif kind == "slab":
        positions = positions + rng.normal(scale=0.2, size=positions.shape)
        cell[2, 2] *= 2.5
        boundary = {"pbc": (True, True, False), "slab_correction": True}
    return positions, charges, cell, boundary


def ratios(kind: str, rng: np.random.Generator) -> dict[tuple[str, float], float]:
    """The error over the target, of each method and target."""
    r, q, h, boundary = system(kind, rng)
    unit = np.mean(q**2) / (np.linalg.det(h) / len(q)) ** (2 / 3)
    exact = ewald_summation(r, q, h, accuracy=1e-13, compute_forces=True, **boundary)[1]
    found = {}
    for name, summed in METHODS.items():
        for target in TARGETS:
            forces = summed(r, q, h, accuracy=target, compute_forces=True, **boundary)[1]
            found[name, target] = np.sqrt(np.mean(np.sum((forces - exact) ** 2, axis=1))) / unit / target
    return found


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", type=int, default=70)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    measured: dict[str, list[dict[tuple[str, float], float]]] = {kind: [] for kind in KINDS}
    for n in range(options.systems):
        kind = KINDS[n % len(KINDS)]
        measured[kind].append(ratios(kind, rng))
    together = [x for kind in KINDS for x in measured[kind]]
    print("method  target  below  median  largest   (largest by kind: " + ", ".join(KINDS) + ")")
    for name in METHODS:
        for target in TARGETS:
            x = np.array([each[name, target] for each in together])
            kinds = [max((each[name, target] for each in measured[kind]), default=0.0) for kind in KINDS]
            by_kind = " ".join(f"{each:.2f}" for each in kinds)
            print(f"{name:6}  {target:.0e}  {np.mean(x <= 1):5.0%}  {np.median(x):6.2f}  {x.max():7.2f}   ({by_kind})")


if __name__ == "__main__":
    main()
