"""Energy conservation in jitted JAX: a salt of 216 ions at constant energy for 2 ps, its steps in one `lax.scan`.

The potential is that of Fumi and Tosi for NaCl (J. Phys. Chem. Solids 25, 31 (1964)) without its dispersion terms:
point charges, whose Ewald sum and forces are one call of `madelung.jax`, and a Born-Mayer repulsion in plain
`jax.numpy` over the same neighbour list, with forces by `jax.grad`. The list is made again inside the scan when an ion
has moved by half the skin. It has room for a fixed number of pairs; should they not fit, the flag says so, and the
steps since the last look at it are repeated with a larger one.

    python examples/jax_md.py                 # prints the drift; a plot in jax_md.png if there is Matplotlib
    python examples/jax_md.py --steps 200     # a short one
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from madelung.jax import NeighborList, Neighbors, estimate_ewald_parameters, ewald_summation, generate_miller_indices
from madelung.units import EV_ANGSTROM

# Energies of a run are compared to one part in 10⁵ and better. It is the program that decides this, not the library.
jax.config.update("jax_enable_x64", True)

# Lengths in Å, energies in eV, masses in u; then a unit of time is so many fs.
FEMTOSECONDS = 10.180505710
BOLTZMANN = 8.617333262e-5
LATTICE_PARAMETER = 5.745
MASSES, SIZES, VALENCES = np.array([22.98977, 35.453]), np.array([1.170, 1.585]), np.array([1 / 8, -1 / 8])
STRENGTH, LENGTH, ONSET, CUTOFF = 0.2110, 0.3170, 6.0, 7.0
# What a run of 2 ps must not exceed, of the total energy.
ALLOWED_DRIFT = 1e-5


class Salt(NamedTuple):
    """Ions on the sites of rock salt, with velocities as Maxwell and Boltzmann have them."""

    positions: jax.Array
    velocities: jax.Array
    cell: jax.Array
    kinds: jax.Array

    @classmethod
    def of(cls, size: int, temperature: float, seed: int) -> Salt:
        sites = np.stack(np.meshgrid(*[np.arange(2 * size)] * 3, indexing="ij"), -1).reshape(-1, 3)
        kinds = sites.sum(1) % 2
        masses = MASSES[kinds][:, None]
        velocities = np.sqrt(BOLTZMANN * temperature / masses) * np.random.default_rng(seed).normal(size=sites.shape)
        velocities -= (masses * velocities).sum(0) / masses.sum()
        cell = LATTICE_PARAMETER * size * np.eye(3)
        arrays = (sites * LATTICE_PARAMETER / 2, velocities, cell, kinds)
        return cls(*map(jnp.asarray, arrays))


def repulsion(positions: Any, cell: Any, kinds: Any, neighbors: Neighbors) -> Any:
    """Σ c_ij b exp((σ_i + σ_j − r_ij)/ρ) t(r_ij) over all pairs, tapered from `ONSET` to `CUTOFF`."""
    (i, j), _, images = neighbors.coo()
    there = j < len(positions)
    vectors = positions[j] - positions[i] + images @ cell
    # What fills the list up gets some length, so that the square root has a derivative.
    r = jnp.sqrt(jnp.where(there, (vectors**2).sum(-1), CUTOFF**2))
    x = jnp.clip((r - ONSET) / (CUTOFF - ONSET), 0.0, 1.0)
    taper = 1 - x**3 * (10 - 15 * x + 6 * x**2)
    sizes, valences = jnp.asarray(SIZES)[kinds], jnp.asarray(VALENCES)[kinds]
    energies = (1 + valences[i] + valences[j]) * jnp.exp((sizes[i] + sizes[j] - r) / LENGTH) * taper
    return 0.5 * STRENGTH * jnp.where(there, energies, 0.0).sum()


def simulate(salt: Salt, steps: int, timestep: float, block: int) -> tuple[np.ndarray, int]:
    """Potential and kinetic energies (steps, 2) in eV by velocity Verlet, and how often the list had to grow."""
    charges = 1.0 - 2.0 * salt.kinds
    masses, dt = jnp.asarray(MASSES)[salt.kinds][:, None], timestep / FEMTOSECONDS
    settings = estimate_ewald_parameters(salt.positions, charges, salt.cell, 1e-6, CUTOFF)
    miller, _ = generate_miller_indices(salt.cell, settings.k_cutoff)
    search = NeighborList(CUTOFF, skin=0.6, form="rows")

    def potential(r: Any, neighbors: Neighbors) -> tuple[Any, Any]:
        coulomb, forces = ewald_summation(
            r,
            charges,
            salt.cell,
            settings.alpha,
            cutoff=CUTOFF,
            miller_indices=miller,
            prefactor=EV_ANGSTROM,
            energy_reduction="system",
            compute_forces=True,
            neighbors=neighbors,
        )
        energy, gradient = jax.value_and_grad(repulsion)(r, salt.cell, salt.kinds, neighbors)
        return coulomb[0] + energy, forces - gradient

    def step(state: Any, _: Any) -> Any:
        r, v, f, neighbors = state
        v = v + 0.5 * dt * f / masses
        r = r + dt * v
        neighbors = search.update(neighbors, r, salt.cell)
        energy, f = potential(r, neighbors)
        v = v + 0.5 * dt * f / masses
        return (r, v, f, neighbors), jnp.stack([energy, 0.5 * (masses * v**2).sum()])

    run = jax.jit(lambda state: lax.scan(step, state, length=block))
    neighbors = search.allocate(salt.positions, salt.cell)
    state = (salt.positions, salt.velocities, jax.jit(potential)(salt.positions, neighbors)[1], neighbors)
    energies, grown = [], 0
    while len(energies) * block < steps:
        after, of_block = run(state)
        if after[3].did_overflow:
            room = 1.25 * float(after[3].num_pairs / state[3].num_pairs)
            larger = NeighborList(CUTOFF, skin=0.6, form="rows", room=room)
            state, grown = (*state[:3], larger.allocate(state[0], salt.cell)), grown + 1
            continue
        state = after
        energies.append(np.asarray(of_block))
    return np.concatenate(energies), grown


def plot(path: Path, times: np.ndarray, energies: np.ndarray) -> None:
    """The energy's deviation over time."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    total = energies.sum(1)
    figure, axes = pyplot.subplots(figsize=(6, 3.5), layout="constrained")
    axes.plot(times, 1000 * (total - total[0]))
    axes.set(xlabel="time (fs)", ylabel="E(t) − E(0) (meV)")
    figure.savefig(path, dpi=150)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", type=int, default=3, help="conventional cells along an edge (3: 216 ions)")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--timestep", type=float, default=1.0, help="in fs")
    parser.add_argument("--temperature", type=float, default=600.0, help="of the velocities at the start, in K")
    parser.add_argument("--plot", type=Path, default=Path("jax_md.png"))
    given = parser.parse_args(arguments)
    if given.size < 1 or given.steps < 1:
        parser.error("expected at least one cell and one step")
    salt = Salt.of(given.size, given.temperature, seed=0)
    block = min(100, given.steps)
    began = time.perf_counter()
    energies, grown = simulate(salt, given.steps, given.timestep, block)
    seconds = time.perf_counter() - began
    total = energies.sum(1)
    drift = float(np.abs(total - total[0]).max() / abs(total[0]))
    kelvin = energies[len(energies) // 2 :, 1].mean() / (1.5 * BOLTZMANN * len(salt.positions))
    print(f"{len(salt.positions)} ions, {len(energies)} steps of {given.timestep} fs in {seconds:.1f} s")
    print(f"energy {total[0]:.6f} eV, temperature {kelvin:.0f} K, list grown {grown} times")
    print(f"largest |E(t) − E(0)| = {np.abs(total - total[0]).max():.2e} eV = {drift:.1e} of the total energy")
    try:
        plot(given.plot, given.timestep * np.arange(1, len(energies) + 1), energies)
        print(f"plot in {given.plot}")
    except ImportError:
        print("no plot: Matplotlib is not installed")
    if not drift <= ALLOWED_DRIFT:
        print(f"the energy is not conserved: expected at most {ALLOWED_DRIFT:.0e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
