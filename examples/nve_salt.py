"""Energy conservation: a salt of 512 ions at constant energy for 2 ps.

The potential is that of Fumi and Tosi for NaCl (J. Phys. Chem. Solids 25, 31 (1964)) without its dispersion terms:
point charges, whose Ewald sum comes from `madelung.ase`, and a Born-Mayer repulsion, written here in plain PyTorch over
the distances of `madelung.torch.neighbor_list`, with its forces by autograd. ASE moves the ions, by velocity Verlet.

    python examples/nve_salt.py                 # prints the drift; a plot in nve_salt.png if there is Matplotlib
    python examples/nve_salt.py --steps 200     # a short one
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from ase import Atoms, units
from ase.build import bulk
from ase.calculators.calculator import Calculator, all_changes
from ase.calculators.mixing import SumCalculator
from ase.md.verlet import VelocityVerlet

from madelung.ase import Madelung
from madelung.torch import neighbor_list

# The side of the conventional cell where this potential has its least energy, in Å.
LATTICE_PARAMETER = 5.745
# What a run of 2 ps must not exceed, of the total energy.
ALLOWED_DRIFT = 1e-5


class BornMayer(Calculator):
    """E = Σ c_ij b exp((σ_i + σ_j − r_ij)/ρ) t(r_ij) over all pairs, in eV and Å.

    The taper t falls from 1 at `onset` to 0 at `cutoff` with two continuous derivatives, so that no pair that crosses
    the cutoff changes the energy by a jump.
    """

    implemented_properties: ClassVar = ["energy", "free_energy", "forces"]

    strength, length = 0.2110, 0.3170  # b in eV, ρ in Å
    radius: ClassVar = {"Na": 1.170, "Cl": 1.585}  # σ in Å
    valence: ClassVar = {"Na": 1 / 8, "Cl": -1 / 8}  # Pauling's c_ij = 1 + z_i/n_i + z_j/n_j
    onset, cutoff = 6.0, 7.0

    def calculate(
        self, atoms: Atoms | None = None, properties: Sequence[str] = ("energy",), system_changes: Any = all_changes
    ) -> None:
        super().calculate(atoms, properties, system_changes)
        symbols = self.atoms.symbols
        positions = torch.tensor(self.atoms.positions, requires_grad=True)
        cell = torch.tensor(self.atoms.cell.array)
        (i, j), _, _, distances = neighbor_list(positions, self.cutoff, cell, half_fill=True, return_distances=True)
        radius = torch.tensor([self.radius[symbol] for symbol in symbols], dtype=torch.float64)
        valence = torch.tensor([self.valence[symbol] for symbol in symbols], dtype=torch.float64)
        repulsion = torch.exp((radius[i] + radius[j] - distances) / self.length) * self.taper(distances)
        energy = self.strength * torch.sum((1 + valence[i] + valence[j]) * repulsion)
        (gradient,) = torch.autograd.grad(energy, positions)
        self.results = {"energy": energy.item(), "free_energy": energy.item(), "forces": -gradient.numpy()}

    def taper(self, r: torch.Tensor) -> torch.Tensor:
        """1 − 10x³ + 15x⁴ − 6x⁵ between onset and cutoff."""
        x = ((r - self.onset) / (self.cutoff - self.onset)).clamp(0.0, 1.0)
        return 1 - x**3 * (10 - 15 * x + 6 * x**2)


@dataclass(frozen=True)
class Run:
    """A trajectory's energies in eV, at times in fs, and what it took."""

    times: npt.NDArray[np.float64]
    potential: npt.NDArray[np.float64]
    kinetic: npt.NDArray[np.float64]
    ions: int
    seconds: float

    @property
    def deviation(self) -> npt.NDArray[np.float64]:
        """E(t) − E(0), in eV."""
        total = self.potential + self.kinetic
        return total - total[0]

    @property
    def drift(self) -> float:
        """The largest |E(t) − E(0)| of the run, relative to |E(0)|."""
        return float(np.abs(self.deviation).max() / abs(self.potential[0] + self.kinetic[0]))

    @property
    def drift_of_kinetic(self) -> float:
        """The same, relative to the mean kinetic energy."""
        return float(np.abs(self.deviation).max() / self.kinetic.mean())

    @property
    def slope(self) -> float:
        """Of a line through E(t), in eV per ps."""
        return float(np.polyfit(self.times / 1000, self.deviation, 1)[0])

    @property
    def temperature(self) -> npt.NDArray[np.float64]:
        """In kelvin."""
        return self.kinetic / (1.5 * units.kB * self.ions)


def salt(size: int, temperature: float, seed: int) -> Atoms:
    """size³ conventional cells of rock salt, as a whole at rest, with velocities as Maxwell and Boltzmann have them.

    The ions start from their sites, so half of `temperature` is left when they have settled.
    """
    atoms = bulk("NaCl", "rocksalt", a=LATTICE_PARAMETER, cubic=True) * size
    thermal = np.sqrt(units.kB * temperature / atoms.get_masses())[:, None]
    velocities = thermal * np.random.default_rng(seed).normal(size=atoms.positions.shape)
    atoms.set_velocities(velocities - np.average(velocities, axis=0, weights=atoms.get_masses()))
    return atoms


def potential(accuracy: float = 1e-6) -> Calculator:
    """Coulomb and repulsion."""
    return SumCalculator([Madelung({"Na": 1, "Cl": -1}, accuracy=accuracy), BornMayer()])


def simulate(atoms: Atoms, steps: int, time_step: float) -> Run:
    """Velocity Verlet, with the energies at every step."""
    dynamics = VelocityVerlet(atoms, timestep=time_step * units.fs)
    energies = []
    start = time.perf_counter()
    for _ in dynamics.irun(steps):
        energies.append((atoms.get_potential_energy(), atoms.get_kinetic_energy()))
    seconds = time.perf_counter() - start
    potential, kinetic = np.array(energies).T
    return Run(time_step * np.arange(steps + 1), potential, kinetic, len(atoms), seconds)


def plot(run: Run, file: Path) -> None:
    """Energy and temperature against time."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no plot: Matplotlib is not installed")
        return
    figure = Figure(figsize=(7, 5), layout="constrained")
    above, below = figure.subplots(2, sharex=True)
    above.plot(run.times / 1000, run.deviation / run.ions * 1e6, linewidth=0.8)
    above.set_ylabel("E(t) − E(0), µeV per ion")
    below.plot(run.times / 1000, run.temperature, linewidth=0.8)
    below.set_ylabel("temperature, K")
    below.set_xlabel("time, ps")
    figure.suptitle(f"{run.ions} ions: largest |E(t) − E(0)| / |E(0)| = {run.drift:.1e}")
    figure.savefig(file, dpi=150)
    print(f"plot in {file}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Gives 0, or 1 where the energy has drifted too far."""
    parser = argparse.ArgumentParser(description="Energy conservation of a salt at constant energy.")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--time-step", type=float, default=1.0, help="in fs (default 1)")
    parser.add_argument("--size", type=int, default=4, help="conventional cells of 8 ions along each axis (default 4)")
    parser.add_argument("--temperature", type=float, default=600.0, help="of the first step, in K (default 600)")
    parser.add_argument("--accuracy", type=float, default=1e-6, help="of the Ewald sum (default 1e-6)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, default=Path("nve_salt.png"), metavar="FILE.png")
    parser.add_argument("--threads", type=int, default=1, help="for PyTorch (default 1: the tensors are small)")
    options = parser.parse_args(arguments)

    torch.set_num_threads(options.threads)
    atoms = salt(options.size, options.temperature, options.seed)
    atoms.calc = potential(options.accuracy)
    run = simulate(atoms, options.steps, options.time_step)
    total = run.potential[0] + run.kinetic[0]
    print(f"{run.ions} ions, {options.steps} steps of {options.time_step:g} fs in {run.seconds:.1f} s")
    print(f"temperature                {run.temperature[len(run.times) // 2 :].mean():.0f} K in the second half")
    print(f"E(0)                       {total:.6f} eV")
    print(f"largest |E(t) - E(0)|      {np.abs(run.deviation).max():.2e} eV")
    print(f"  relative to |E(0)|       {run.drift:.2e}   (allowed {ALLOWED_DRIFT:.0e})")
    print(f"  relative to mean E_kin   {run.drift_of_kinetic:.2e}")
    if options.steps > 1:
        print(f"slope of E(t)              {run.slope:+.2e} eV/ps, {run.slope / abs(total):+.1e} of |E(0)| per ps")
    plot(run, options.plot)
    return 0 if run.drift <= ALLOWED_DRIFT else 1


if __name__ == "__main__":
    sys.exit(main())
