"""Phonons of silicon: force constants of the Stillinger-Weber kernel by JAX, and the dispersion along Γ-X-K-Γ-L.

The kernel is that of `stillinger_weber.py`. Force constants are second derivatives of its energy in a supercell, by
`jax.jacfwd` of `jax.grad` under `jax.jit`: exact, with no displacement to choose. Checked are the acoustic modes at Γ,
which have no frequency, the force constants against differences of forces, and elastic constants by sound velocities.

    python examples/phonons.py                 # prints the checks; a plot in phonons.png if there is Matplotlib

Lengths are in Å, energies in eV, masses in u, frequencies in THz.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from stillinger_weber import ACCELERATION, CUTOFF, LATTICE_PARAMETER, MASS, Numbers, diamond, stillinger_weber

from madelung.jax import find_neighbors

# Second derivatives are compared to one part in 10⁸. It is the program that decides this, not the library.
jax.config.update("jax_enable_x64", True)

# √(eV/(Å² u))/2π in THz: `ACCELERATION` has squares of fs.
TERAHERTZ = 1000 * np.sqrt(ACCELERATION) / (2 * np.pi)
# u THz²/Å in GPa.
GIGAPASCAL = 1.66053907e-2
# Elastic constants of this potential in GPa (Cowley, Phys. Rev. Lett. 60, 2379 (1988)).
C11, C44 = 151.4, 56.4
# The Raman line of the crystal, at 520 cm⁻¹, in THz.
RAMAN = 15.6
# Wave vectors in 2π/a. U and K differ by a reciprocal lattice vector.
NAMES, CORNERS = "ΓXUKΓL", np.array([[0, 0, 0], [4, 0, 0], [4, 1, 1], [3, 3, 0], [0, 0, 0], [2, 2, 2]]) / 4


class Crystal:
    """Silicon on its sites, with the force constants between the two atoms of its primitive cell and all others."""

    def __init__(self, size: int) -> None:
        sites, box = diamond(size)
        self.positions, self.cell = jnp.asarray(sites), jnp.asarray(box)
        self.pairs = find_neighbors(self.positions, CUTOFF, self.cell)
        self.gradient = jax.jit(jax.grad(self.energy))
        columns = jax.jit(jax.jacfwd(lambda d: self.gradient(self.positions.at[:2].add(d))))
        # Φ(l α, κ β), (N, 3, 2, 3) in eV/Å²: a column for each direction of each atom of the primitive cell.
        self.force_constants = np.asarray(columns(jnp.zeros((2, 3))))
        # From each of the two, the nearest image of each atom.
        vectors = sites[:, None] - sites[:2]
        self.vectors = vectors - np.diag(box) * np.round(vectors / np.diag(box))

    def energy(self, positions: jax.Array) -> jax.Array:
        """In eV."""
        return stillinger_weber(positions, self.cell, pairs=self.pairs).sum()

    def dynamical_matrix(self, q: Numbers) -> npt.NDArray[np.complex128]:
        """D(q) (..., 6, 6) in eV/(Å² u) at wave vectors (..., 3) in 2π/a: Σ_l Φ(l α, κ β) exp(−i q · (r_l − r_κ))/m."""
        phase = np.exp(-2j * np.pi / LATTICE_PARAMETER * np.einsum("...x,lkx->...lk", q, self.vectors))
        # Atoms of the two sublattices take turns in `diamond`.
        terms = np.einsum("...lk,lakb->...lakb", phase, self.force_constants)
        blocks = terms.reshape(*q.shape[:-1], -1, 2, 3, 2, 3).sum(-5)
        return blocks.reshape(*q.shape[:-1], 6, 6) / MASS

    def frequencies(self, q: Numbers) -> Numbers:
        """Of the six branches (..., 6) in THz, ascending; negative where they are imaginary."""
        squares = np.linalg.eigvalsh(self.dynamical_matrix(q))
        return TERAHERTZ * np.sign(squares) * np.sqrt(np.abs(squares))

    def elastic_constants(self) -> tuple[float, float]:
        """C₁₁ and C₄₄ in GPa, as ρ v² of longitudinal and transverse sound along Γ-X."""
        step = 1e-3
        transverse, _, longitudinal = self.frequencies(np.array([step, 0, 0]))[:3] * LATTICE_PARAMETER / step
        density = 8 * MASS / LATTICE_PARAMETER**3
        return density * longitudinal**2 * GIGAPASCAL, density * transverse**2 * GIGAPASCAL

    def error_of_force_constants(self, h: float = 1e-3) -> float:
        """Against differences of the forces, of fourth order, for one displacement; relative to the largest one."""
        forces = [np.asarray(self.gradient(self.positions.at[0, 0].add(n * h))) for n in (-2, -1, 1, 2)]
        difference = (8 * (forces[2] - forces[1]) - (forces[3] - forces[0])) / (12 * h)
        return float(np.abs(self.force_constants[:, :, 0, 0] - difference).max() / np.abs(difference).max())


def plot(crystal: Crystal, file: Path) -> None:
    """The dispersion."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no plot: Matplotlib is not installed")
        return
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    places = [0.0]
    for name, start, end in zip(NAMES, CORNERS, CORNERS[1:]):
        along = np.linspace(0, 1, 60)[:, None]
        # U and K are one point of the plot.
        distance = 0.0 if name == "U" else float(np.linalg.norm(end - start))
        if distance:
            curves = crystal.frequencies(start + along * (end - start))
            axes.plot(places[-1] + distance * along[:, 0], curves, color="C0", linewidth=1)
        places.append(places[-1] + distance)
    axes.plot([0], [RAMAN], "ko", clip_on=False, label="Raman line")
    names = [*NAMES[:2], "", "U, K", *NAMES[4:]]
    axes.set_xticks(places, names)
    axes.set(ylabel="frequency, THz", xlim=(0, places[-1]), ylim=(0, None))
    axes.grid(axis="x")
    axes.legend()
    figure.savefig(file, dpi=150)
    print(f"plot in {file}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Gives 0, or 1 where a check fails."""
    parser = argparse.ArgumentParser(description="Phonons of silicon by the Stillinger-Weber potential.")
    parser.add_argument("--size", type=int, default=2, help="conventional cells of 8 atoms along each axis (default 2)")
    parser.add_argument("--plot", type=Path, default=Path("phonons.png"), metavar="FILE.png")
    options = parser.parse_args(arguments)
    if options.size < 2:
        parser.error("expected at least two cells: second neighbours interact")

    crystal = Crystal(options.size)
    gamma = crystal.dynamical_matrix(np.zeros(3))
    largest = np.abs(gamma).max()
    # The acoustic sum rule: what moves as a whole feels no force.
    acoustic = np.abs(gamma.reshape(6, 2, 3).sum(1)).max() / largest
    general = crystal.dynamical_matrix(np.array([0.3, 0.2, 0.1]))
    asymmetry = np.abs(general - general.conj().T).max() / largest
    error = crystal.error_of_force_constants()
    found = crystal.elastic_constants()
    print(f"{len(crystal.positions)} atoms in the supercell")
    print(f"acoustic sum rule at Γ     {acoustic:.1e} of the largest element of D")
    print(f"D(q) less its adjoint      {asymmetry:.1e} of it")
    print(f"error of force constants   {error:.1e} of the largest one, by differences of forces")
    for name, q in zip(NAMES[:2], CORNERS):
        # Rounded, with no sign left of what is zero.
        listed = ", ".join(f"{x:.4f}" for x in np.round(crystal.frequencies(q), 4) + 0.0)
        print(f"frequencies at {name}           {listed} THz")
    print(f"C11, C44                   {found[0]:.1f}, {found[1]:.1f} GPa (published {C11}, {C44})")
    plot(crystal, options.plot)
    good = max(acoustic, asymmetry) < 1e-12 and error < 1e-8 and np.allclose(found, (C11, C44), atol=0.1)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
