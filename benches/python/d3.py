"""D3 dispersion: energies and forces, beside s-dftd3 and tad-dftd3 where they can be imported.

    python benches/python/d3.py [--molecules 32 256] [--triples] [--rounds 15]

Clusters of water without periodic axes, of so many molecules at the density of the liquid, with cutoffs that no pair
reaches: all of them count. Energies and forces of PBE agree, or nothing is timed. The calls take turns; times are
medians and the least, in ms.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from madelung.d3 import D3

BOHR, HARTREE, BEYOND = 0.529177210903, 27.211386245988, 200.0
Call = Callable[[], tuple[float, Any]]


def cluster(molecules: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions in Å and atomic numbers."""
    random, edge = np.random.default_rng(0), int(np.ceil(molecules ** (1 / 3)))
    sites = np.stack(np.meshgrid(*[np.arange(edge)] * 3), axis=-1).reshape(-1, 1, 3)[:molecules] * 3.1
    water = np.array([[0.0, 0.0, 0.0], [0.76, 0.59, 0.0], [-0.76, 0.59, 0.0]])
    turns = np.linalg.qr(random.normal(size=(molecules, 3, 3)))[0]
    return (sites + water @ turns).reshape(-1, 3), np.tile([8, 1, 1], molecules)


def of_madelung(r: np.ndarray, z: np.ndarray, triples: bool) -> Call:
    cutoffs = dict.fromkeys(("cutoff", "coordination_cutoff", "three_body_cutoff"), BEYOND * BOHR)
    d3 = replace(D3.of_functional("pbe", length="angstrom", energy="eV", three_body=triples), **cutoffs)

    def both() -> tuple[float, np.ndarray]:
        energy, forces = d3(r, z, compute_forces=True)
        return float(energy[0]), forces

    return both


def of_fortran(r: np.ndarray, z: np.ndarray, triples: bool) -> Call:
    from dftd3.interface import DispersionModel, RationalDampingParam

    damping = RationalDampingParam(method="pbe", atm=triples)

    def both() -> tuple[float, np.ndarray]:
        model = DispersionModel(z, r / BOHR)
        model.set_realspace_cutoff(BEYOND, BEYOND, BEYOND)
        found = model.get_dispersion(damping, grad=True)
        return float(found["energy"]) * HARTREE, -found["gradient"] * HARTREE / BOHR

    return both


def of_torch(r: np.ndarray, z: np.ndarray, triples: bool) -> Call:
    import tad_dftd3
    import torch
    from tad_dftd3.cutoff import Cutoff
    from tad_dftd3.param import get_functional_params

    numbers, damping = torch.tensor(z), get_functional_params("pbe", "bj", dtype=torch.float64)
    damping["s9"] = damping["s9"] * triples
    beyond = Cutoff(disp2=BEYOND, disp3=BEYOND, cn=BEYOND)

    def both() -> tuple[float, np.ndarray]:
        positions = torch.tensor(r / BOHR, requires_grad=True)
        energy = tad_dftd3.dftd3(numbers, positions, damping, cutoff=beyond).sum()
        (slope,) = torch.autograd.grad(energy, positions)
        return energy.item() * HARTREE, -slope.numpy() * HARTREE / BOHR

    return both


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--molecules", type=int, nargs="+", default=[32, 256])
    parser.add_argument("--triples", action="store_true", help="with the three-body term; tad-dftd3 damps it otherwise")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    others = {"dftd3": of_fortran} | ({} if given.triples else {"tad_dftd3": of_torch})
    ways = {"madelung": of_madelung} | {n: f for n, f in others.items() if importlib.util.find_spec(n)}
    print("".join(f"{title:>22}" for title in ("atoms", *ways)))
    for molecules in given.molecules:
        r, z = cluster(molecules)
        calls = {name: way(r, z, given.triples) for name, way in ways.items()}
        energy, forces = calls["madelung"]()
        for name, call in calls.items():
            e, f = call()
            # That of the parameters in float32, and of an older bohr, in tad-dftd3.
            assert abs(e / energy - 1.0) < 1e-7 and abs(f - forces).max() < 1e-6 * abs(forces).max(), name
        # Machine code is made beside the first calls, some seconds.
        warm = time.perf_counter() + 6.0
        while time.perf_counter() < warm:
            calls["madelung"]()
        times: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(given.rounds):
            for name, call in calls.items():
                start = time.perf_counter()
                call()
                times[name].append(1e3 * (time.perf_counter() - start))
        cells = (f"{statistics.median(t):.2f} ({min(t):.2f})" for t in times.values())
        print(f"{len(z):>22}" + "".join(f"{cell:>22}" for cell in cells))


if __name__ == "__main__":
    main()
