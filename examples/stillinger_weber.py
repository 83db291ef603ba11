"""A three-body potential of one's own: silicon by Stillinger and Weber, its forces, and dynamics at constant energy.

The energy (Phys. Rev. B 31, 5262 (1985)) is a sum over bonds and over the angles between them. Both stand in one
kernel, with a loop over the neighbours of an atom in another one; forces come by autograd of PyTorch. The cohesive
energy is held against the published one, forces against differences of the energy, and 216 atoms move by velocity
Verlet. `phonons.py` takes the vibrations of the same kernel, in JAX.

    python examples/stillinger_weber.py                 # prints the drift; a plot in stillinger_weber.png
    python examples/stillinger_weber.py --steps 200     # a short one

Lengths are in Å, energies in eV, times in fs, masses in u.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

import madelung.numpy
from madelung.kernels import Array, Batch, Mat3, Out, Pairs, Real, Vec3, dims, dot, exp, func, kernel, length

Atom, System = dims("Atom System")
Numbers = npt.NDArray[np.float64]

# Stillinger and Weber's parameters of silicon.
EPSILON, SIGMA = 2.1683, 2.0951
A, B, LAMBDA, GAMMA = 7.049556277, 0.6022245584, 21.0, 1.20
CUTOFF = 1.80 * SIGMA
LATTICE_PARAMETER, COHESIVE_ENERGY, MASS = 5.431, -4.3366, 28.0855

SKIN = 0.5
BOLTZMANN = 8.617333262e-5  # eV/K
ACCELERATION = 9.648533212e-3  # eV/(Å u), in Å/fs²
# What |E(t) − E(0)| must not exceed, of the mean kinetic energy.
ALLOWED_DRIFT = 5e-3


@func
def decay(r: Real, rate: Real) -> Real:
    """exp(rate σ/(r − r_c)), which goes to zero at the cutoff with all its derivatives."""
    return exp(rate * SIGMA / (r - CUTOFF)) if r < CUTOFF else 0.0


# The gradient adds to both neighbours of an angle, which takes `scatter` where one loop over pairs is in another.
@kernel(scatter=True)
def stillinger_weber(
    i: Atom,
    positions: Array[Vec3, Atom],
    cell: Array[Mat3, System],
    atoms: Batch[Atom, System],
    pairs: Pairs[Atom],
    energy: Out[Real, Atom],
):
    """½ Σⱼ φ₂(r_ij) + ½ Σⱼ Σ_{k≠j} λ ε w(r_ij) w(r_ik) (cos θ_jik + 1/3)²."""
    b = atoms.of(i)
    e = 0.0
    for j, n in pairs.row(i):
        u = positions[j] - positions[i] + n @ cell[b]
        r = length(u)
        w = decay(r, GAMMA)
        e += A * EPSILON * (B * (SIGMA / r) ** 4 - 1) * decay(r, 1.0)
        # The inner loop visits bond j itself, too, at cos θ = 1: taken off here.
        e -= LAMBDA * EPSILON * w**2 * (1 + 1 / 3) ** 2
        for k, m in pairs.row(i):
            v = positions[k] - positions[i] + m @ cell[b]
            s = length(v)
            e += LAMBDA * EPSILON * w * decay(s, GAMMA) * (dot(u, v) / (r * s) + 1 / 3) ** 2
    energy[i] = e / 2


def diamond(edge: int, constant: float = LATTICE_PARAMETER) -> tuple[Numbers, Numbers]:
    """Positions (8 edge³, 3) of edge³ conventional cells of diamond, and the cell (3, 3) of them all."""
    face_centred = np.array([[0, 0, 0], [0, 2, 2], [2, 0, 2], [2, 2, 0]])
    basis = (face_centred[:, None] + np.array([[0, 0, 0], [1, 1, 1]])).reshape(-1, 3) / 4
    corners = np.stack(np.meshgrid(*[np.arange(edge)] * 3, indexing="ij"), axis=-1).reshape(-1, 1, 3)
    return constant * (corners + basis).reshape(-1, 3), edge * constant * np.eye(3)


def potential(cell: Numbers) -> Callable[[Numbers], tuple[float, Numbers]]:
    """Energy and forces as a function of positions, over a list of neighbours that is kept while its skin allows."""
    # Imported here: `phonons.py` needs no PyTorch.
    import torch

    from madelung.torch import NeighborList

    box, search, neighbors = torch.from_numpy(cell), NeighborList(CUTOFF, SKIN), None

    def evaluate(positions: Numbers) -> tuple[float, Numbers]:
        nonlocal neighbors
        r = torch.tensor(positions, requires_grad=True)
        at = (r.detach(), box)
        neighbors = search.allocate(*at) if neighbors is None else search.update(neighbors, *at)
        energy = stillinger_weber(r, box, pairs=neighbors).sum()
        return energy.item(), -torch.autograd.grad(energy, r)[0].numpy()

    return evaluate


def error_of_forces(positions: Numbers, cell: Numbers, rng: np.random.Generator) -> float:
    """Of the derivative along a random direction in a rattled crystal, relative to differences of fourth order."""
    evaluate, h = potential(cell), 5e-4
    rattled = positions + rng.normal(scale=0.1, size=positions.shape)
    direction = rng.normal(size=positions.shape)
    far, near, after, farther = (evaluate(rattled + n * h * direction)[0] for n in (-2, -1, 1, 2))
    difference = (8 * (after - near) - (farther - far)) / (12 * h)
    return float(abs(np.sum(evaluate(rattled)[1] * direction) / difference + 1))


def progress(steps: range) -> Iterable[int]:
    """A bar where a terminal is looked at, and tqdm is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return steps
    return tqdm(steps, disable=None)


def simulate(
    positions: Numbers, cell: Numbers, steps: int, time_step: float, temperature: float, rng: np.random.Generator
) -> Numbers:
    """Potential and kinetic energy (steps + 1, 2) by velocity Verlet, of a crystal that is at rest as a whole.

    The atoms start from their sites, so half of `temperature` is left when they have settled.
    """
    evaluate = potential(cell)
    r, v = positions, rng.normal(size=positions.shape)
    v *= np.sqrt(BOLTZMANN * temperature / MASS * ACCELERATION)
    v -= v.mean(0)
    energy, forces = evaluate(r)
    energies = [(energy, MASS * np.sum(v**2) / (2 * ACCELERATION))]
    for _ in progress(range(steps)):
        v = v + 0.5 * time_step * ACCELERATION * forces / MASS
        r = r + time_step * v
        energy, forces = evaluate(r)
        v = v + 0.5 * time_step * ACCELERATION * forces / MASS
        energies.append((energy, MASS * np.sum(v**2) / (2 * ACCELERATION)))
    return np.array(energies)


def plot(times: Numbers, deviation: Numbers, kelvin: Numbers, file: Path) -> None:
    """Energy and temperature against time."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no plot: Matplotlib is not installed")
        return
    figure = Figure(figsize=(7, 5), layout="constrained")
    above, below = figure.subplots(2, sharex=True)
    above.plot(times / 1000, 1e6 * deviation, linewidth=0.8)
    above.set_ylabel("E(t) − E(0), µeV per atom")
    below.plot(times / 1000, kelvin, linewidth=0.8)
    below.set(xlabel="time, ps", ylabel="temperature, K")
    figure.savefig(file, dpi=150)
    print(f"plot in {file}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Gives 0, or 1 where the energy has drifted too far."""
    parser = argparse.ArgumentParser(description="Silicon by the Stillinger-Weber potential, at constant energy.")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--time-step", type=float, default=1.0, help="in fs (default 1)")
    parser.add_argument("--size", type=int, default=3, help="conventional cells of 8 atoms along each axis (default 3)")
    parser.add_argument("--temperature", type=float, default=600.0, help="twice that of the run, in K (default 600)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, default=Path("stillinger_weber.png"), metavar="FILE.png")
    options = parser.parse_args(arguments)

    rng = np.random.default_rng(options.seed)
    positions, cell = diamond(options.size)
    pairs = madelung.numpy.find_neighbors(positions, CUTOFF, cell)
    energy = stillinger_weber(positions, cell, pairs=pairs).mean()
    print(f"cohesive energy            {energy:.6f} eV per atom at {LATTICE_PARAMETER} Å (published {COHESIVE_ENERGY})")
    print(f"error of forces            {error_of_forces(positions, cell, rng):.1e} of them, by differences")
    # Machine code where LLVM is installed; the interpreter has the same numbers, more slowly.
    kind = "machine code" if stillinger_weber.compile("float64") else "the interpreter"
    start = time.perf_counter()
    energies = simulate(positions, cell, options.steps, options.time_step, options.temperature, rng)
    seconds, atoms = time.perf_counter() - start, len(positions)
    deviation = energies.sum(1) - energies[0].sum()
    kelvin = energies[:, 1] / (1.5 * BOLTZMANN * (atoms - 1))
    times, half, kinetic = options.time_step * np.arange(len(energies)), len(energies) // 2, energies[:, 1].mean()
    drift = np.abs(deviation).max() / kinetic
    slope = np.polyfit(times[half:] / 1000, deviation[half:], 1)[0] / kinetic
    print(f"{atoms} atoms, {options.steps} steps of {options.time_step:g} fs in {seconds:.1f} s by {kind}")
    print(f"temperature                {kelvin[half:].mean():.0f} K in the second half")
    print(f"largest |E(t) - E(0)|      {drift:.1e} of the kinetic energy   (allowed {ALLOWED_DRIFT:.0e})")
    print(f"slope of E(t)              {slope:+.1e} of it per ps, in the second half")
    plot(times, deviation / atoms, kelvin, options.plot)
    return 0 if drift <= ALLOWED_DRIFT else 1


if __name__ == "__main__":
    sys.exit(main())
