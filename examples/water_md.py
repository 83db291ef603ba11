"""Liquid water: 267 flexible molecules at constant energy, and their radial distribution function beside experiment.

The model is SPC/Fw (Wu, Tepper and Voth, J. Chem. Phys. 124, 024503 (2006)): charges, a Lennard-Jones potential between
oxygen atoms, harmonic bonds and angles. The charges interact by particle mesh Ewald without the pairs within a molecule
(`exclusions`), the oxygen atoms by `lennard_jones`, over one list of neighbours; bonds and angles are written here in
NumPy. ASE moves the atoms, by velocity Verlet. Beside the curve of g_OO stands the first peak as X-ray diffraction has
it: 2.57(5) at 2.80(1) Å (Skinner et al., J. Chem. Phys. 138, 074506 (2013)).

    python examples/water_md.py                 # prints drift and peak; a plot in water_md.png if there is Matplotlib
    python examples/water_md.py --steps 200 --equilibration 100     # a short one
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import ase.io
import numpy as np
import numpy.typing as npt
from ase import Atoms, units
from ase.calculators.calculator import Calculator, all_changes
from ase.md.verlet import VelocityVerlet
from tqdm import tqdm

from madelung.numpy import (
    NeighborList,
    estimate_pme_parameters,
    lennard_jones,
    neighbor_list,
    particle_mesh_ewald,
)
from madelung.units import EV_ANGSTROM

Array = npt.NDArray[np.float64]

STRUCTURE = Path(__file__).with_name("data") / "water.xyz"
KCAL = units.kcal / units.mol
# SPC/Fw, in e, eV and Å.
CHARGES = (-0.82, 0.41, 0.41)
EPSILON, SIGMA = 0.1554253 * KCAL, 3.165492
BOND, BOND_LENGTH = 1059.162 * KCAL, 1.012
ANGLE, ANGLE_AT_REST = 75.90 * KCAL, np.deg2rad(113.24)
CUTOFF, SKIN = 9.0, 1.0
# The first peak of g_OO, in Å and without unit, and their uncertainties: Skinner et al. (2013).
PEAK, PEAK_ERROR = (2.80, 2.57), (0.01, 0.05)
# Steps between new momenta in equilibration.
REDRAWN = 100
# What the line through E(t) may rise or fall by, of the kinetic energy per ps.
ALLOWED_DRIFT = 1e-4


class Water(Calculator):
    """SPC/Fw water, in eV and Å: atoms in the order O, H, H."""

    implemented_properties: ClassVar = ["energy", "free_energy", "forces"]

    def __init__(self, molecules: int, accuracy: float) -> None:
        super().__init__()
        self.accuracy = accuracy
        self.charges = np.tile(CHARGES, molecules)
        self.types = np.tile(np.array([0, 1, 1], dtype=np.int32), molecules)
        first = 3 * np.arange(molecules, dtype=np.int32)[:, None, None]
        self.within = (first + np.array([[0, 1], [0, 2], [1, 2]], dtype=np.int32)).reshape(-1, 2)
        self.lists = NeighborList(CUTOFF, SKIN)
        self.neighbors: Any = None
        self.mesh: dict[str, Any] = {}

    def calculate(
        self, atoms: Atoms | None = None, properties: Sequence[str] = ("energy",), system_changes: Any = all_changes
    ) -> None:
        super().calculate(atoms, properties, system_changes)
        r, cell = self.atoms.positions, self.atoms.cell.array
        if self.neighbors is None:
            self.neighbors = self.lists.allocate(r, cell)
            p = estimate_pme_parameters(r, self.charges, cell, self.accuracy, CUTOFF)
            self.mesh = {name: getattr(p, name) for name in ("alpha", "mesh_dimensions", "spline_order")}
        else:
            self.neighbors = self.lists.update(self.neighbors, r, cell)
        wanted = {"neighbors": self.neighbors, "compute_forces": True, "energy_reduction": "system"}
        coulomb, forces = particle_mesh_ewald(
            r, self.charges, cell, **self.mesh, cutoff=CUTOFF, exclusions=self.within,
            prefactor=EV_ANGSTROM, **wanted,
        )  # fmt: skip
        depth, length = np.array([[EPSILON, 0.0], [0.0, 0.0]]), np.array([[SIGMA, 1.0], [1.0, 1.0]])
        dispersion, more = lennard_jones(r, self.types, depth, length, CUTOFF, cell, **wanted)
        within, intramolecular = bonds_and_angles(r)
        energy = float(coulomb[0] + dispersion[0] + within)
        self.results = {"energy": energy, "free_energy": energy, "forces": forces + more + intramolecular}


def bonds_and_angles(positions: Array) -> tuple[float, Array]:
    """½ k_b Σ (r − r₀)² + ½ k_a Σ (θ − θ₀)² of whole molecules, and its forces."""
    oxygen, *hydrogen = (positions[n::3] for n in range(3))
    d = np.stack([h - oxygen for h in hydrogen])
    r = np.linalg.norm(d, axis=-1, keepdims=True)
    unit = d / r
    cosine = np.sum(unit[0] * unit[1], axis=-1, keepdims=True)
    stretch, bend = r - BOND_LENGTH, np.arccos(cosine) - ANGLE_AT_REST
    # ∂θ/∂d of either bond: −(û' − û cos θ)/(r sin θ)
    turn = -(unit[::-1] - unit * cosine) / (r * np.sqrt(1 - cosine**2))
    pull = -BOND * stretch * unit - ANGLE * bend * turn
    forces = np.empty_like(positions)
    forces[0::3], forces[1::3], forces[2::3] = -pull.sum(0), *pull
    return float(0.5 * BOND * np.sum(stretch**2) + 0.5 * ANGLE * np.sum(bend**2)), forces


class Distribution:
    """The radial distribution function of the oxygen atoms, averaged over frames."""

    def __init__(self, edges: Array) -> None:
        self.edges, self.counts, self.ideal = edges, np.zeros(len(edges) - 1), 0.0

    def add(self, positions: Array, cell: Array) -> None:
        """Counts one frame."""
        oxygen = positions[0::3]
        *_, distances = neighbor_list(oxygen, self.edges[-1], cell, return_distances=True)
        self.counts += np.histogram(distances, self.edges)[0]
        self.ideal += len(oxygen) ** 2 / abs(np.linalg.det(cell))

    @property
    def curve(self) -> tuple[Array, Array]:
        """The middles of the bins in Å, and g."""
        shells = 4 / 3 * np.pi * np.diff(self.edges**3)
        return 0.5 * (self.edges[1:] + self.edges[:-1]), self.counts / (shells * self.ideal)

    @property
    def peak(self) -> tuple[float, float]:
        """Place and height of the highest peak, of a parabola through the five bins around it."""
        r, g = self.curve
        top = int(np.clip(np.argmax(g), 2, len(g) - 3))
        a, b, c = np.polyfit(r[top - 2 : top + 3] - r[top], g[top - 2 : top + 3], 2)
        return float(r[top] - b / (2 * a)), float(c - b * b / (4 * a))


@dataclass(frozen=True)
class Run:
    """Energies of a trajectory in eV at times in fs, its distribution, and what it took."""

    times: Array
    potential: Array
    kinetic: Array
    momentum: float
    distribution: Distribution
    seconds: float

    @property
    def deviation(self) -> Array:
        """E(t) − E(0), in eV."""
        total = self.potential + self.kinetic
        return total - total[0]

    @property
    def drift(self) -> float:
        """The slope of a line through E(t) per ps, relative to the mean kinetic energy."""
        return float(np.polyfit(self.times / 1000, self.deviation, 1)[0] / self.kinetic.mean())


def liquid(accuracy: float) -> Atoms:
    """The box of TIP3P water of the examples, with the masses and the potential of SPC/Fw."""
    atoms = ase.io.read(STRUCTURE)
    # Molecules in one piece.
    first = atoms.positions[0::3].repeat(3, axis=0)
    sides = atoms.cell.lengths()
    atoms.positions -= sides * np.round((atoms.positions - first) / sides)
    atoms.calc = Water(len(atoms) // 3, accuracy)
    return atoms


def thermal(atoms: Atoms, temperature: float, rng: np.random.Generator) -> None:
    """Gives momenta as Maxwell and Boltzmann have them, to a box that is at rest as a whole."""
    masses = atoms.get_masses()[:, None]
    momenta = np.sqrt(masses * units.kB * temperature) * rng.normal(size=atoms.positions.shape)
    atoms.set_momenta(momenta - masses * momenta.sum(0) / masses.sum())


def equilibrated(atoms: Atoms, steps: int, time_step: float, temperature: float, rng: np.random.Generator) -> None:
    """Dynamics whose momenta are drawn anew (Andersen's thermostat), so that bonds find their lengths."""
    dynamics = VelocityVerlet(atoms, timestep=time_step * units.fs)
    for n in tqdm(range(steps), desc="equilibration", disable=not sys.stderr.isatty()):
        if n % REDRAWN == 0:
            thermal(atoms, temperature, rng)
        dynamics.run(1)
    thermal(atoms, temperature, rng)


def simulate(atoms: Atoms, steps: int, time_step: float, every: int) -> Run:
    """Velocity Verlet, with the energies at every step, and the distribution at some."""
    sides = atoms.cell.lengths()
    distribution = Distribution(np.arange(2.0, 0.5 * sides.min(), 0.05))
    dynamics = VelocityVerlet(atoms, timestep=time_step * units.fs)
    energies = []
    start = time.perf_counter()
    bar = tqdm(dynamics.irun(steps), total=steps + 1, desc="dynamics", disable=not sys.stderr.isatty())
    for n, _ in enumerate(bar):
        energies.append((atoms.get_potential_energy(), atoms.get_kinetic_energy()))
        if n % every == 0:
            distribution.add(atoms.positions, atoms.cell.array)
    seconds = time.perf_counter() - start
    potential, kinetic = np.array(energies).T
    # Over what each atom has of it.
    momenta = atoms.get_momenta()
    momentum = np.linalg.norm(momenta.sum(0)) / np.sqrt(np.sum(momenta**2))
    return Run(time_step * np.arange(steps + 1), potential, kinetic, float(momentum), distribution, seconds)


def plot(run: Run, file: Path) -> None:
    """Energy against time, and the distribution beside experiment."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no plot: Matplotlib is not installed")
        return
    figure = Figure(figsize=(7, 6), layout="constrained")
    above, below = figure.subplots(2)
    above.plot(run.times / 1000, run.deviation / run.kinetic.mean(), linewidth=0.8)
    above.set_xlabel("time, ps")
    above.set_ylabel("(E(t) − E(0)) / mean kinetic energy")
    below.plot(*run.distribution.curve, label="SPC/Fw, particle mesh Ewald")
    below.errorbar(
        *PEAK, xerr=PEAK_ERROR[0], yerr=PEAK_ERROR[1], fmt="o", capsize=3, color="black",
        label="first peak by X-ray diffraction (Skinner et al. 2013)",
    )  # fmt: skip
    below.axhline(1.0, color="gray", linewidth=0.5)
    below.set_xlabel("r, Å")
    below.set_ylabel("g$_{OO}$")
    below.legend()
    figure.savefig(file, dpi=150)
    print(f"plot in {file}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Gives 0, or 1 where the energy has drifted too far."""
    parser = argparse.ArgumentParser(description="Liquid water, and its radial distribution function.")
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--equilibration", type=int, default=3000, help="steps before these (default 3000)")
    parser.add_argument("--time-step", type=float, default=0.5, help="in fs (default 0.5)")
    parser.add_argument("--temperature", type=float, default=298.0, help="in K (default 298)")
    parser.add_argument("--accuracy", type=float, default=1e-4, help="of the Coulomb sum (default 1e-4)")
    parser.add_argument("--every", type=int, default=20, help="steps between frames of the distribution (default 20)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, default=Path("water_md.png"), metavar="FILE.png")
    options = parser.parse_args(arguments)

    atoms = liquid(options.accuracy)
    rng = np.random.default_rng(options.seed)
    equilibrated(atoms, options.equilibration, options.time_step, options.temperature, rng)
    run = simulate(atoms, options.steps, options.time_step, options.every)
    kelvin = run.kinetic / (1.5 * units.kB * len(atoms))
    place, height = run.distribution.peak
    print(f"{len(atoms) // 3} molecules, {options.steps} steps of {options.time_step:g} fs in {run.seconds:.1f} s")
    print(f"temperature             {kelvin.mean():.0f} K")
    print(f"largest |E(t) - E(0)|   {np.abs(run.deviation).max() / run.kinetic.mean():.1e} of the kinetic energy")
    print(f"slope of E(t)           {run.drift:+.1e} of it per ps   (allowed {ALLOWED_DRIFT:.0e})")
    print(f"momentum at the end     {run.momentum:.1e} of that of all atoms, added in squares")
    measured = "(by X-ray diffraction {1:.2f}(5) at {0:.2f}(1) A)".format(*PEAK)
    print(f"first peak of g_OO      {height:.2f} at {place:.2f} A   {measured}")
    plot(run, options.plot)
    return 0 if abs(run.drift) <= ALLOWED_DRIFT else 1


if __name__ == "__main__":
    sys.exit(main())
