"""The install verifies itself: crystals whose Madelung constants are known, and derivatives against differences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from madelung.numpy import estimate_ewald_parameters, ewald_summation, neighbor_list

# Borwein, Glasser, McPhedran, Wan and Zucker, "Lattice Sums Then and Now" (2013).
_NACL = 1.747564594633182
_CSCL = 1.7626747730709884
_ZINCBLENDE = 1.6380550533887894
# One charge in a cubic box with its background: Nijboer and Ruijgrok, J. Stat. Phys. 53, 361 (1988).
_WIGNER = 0.5 * 2.8372974794806195

_FCC = np.array([[0.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [0.5, 0.5, 0.0]])
_QUARTER_DIAGONAL = np.sqrt(3.0) / 4.0


@dataclass(frozen=True, slots=True)
class Crystal:
    """A cubic cell of side 1, and its constant: E = −constant · formula_units / distance."""

    name: str
    sublattices: tuple[tuple[float, npt.NDArray], ...]
    distance: float
    formula_units: int
    constant: float


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the table."""

    what: str
    expected: float
    found: float
    tolerance: float
    """Relative to the expected value."""

    @property
    def error(self) -> float:
        """Relative."""
        return abs(self.found - self.expected) / abs(self.expected)

    @property
    def good(self) -> bool:
        """Whether the error is below the tolerance (NaN is not)."""
        return self.error <= self.tolerance


CRYSTALS = (
    Crystal("NaCl", ((1.0, _FCC), (-1.0, _FCC + 0.5)), 0.5, 4, _NACL),
    Crystal("CsCl", ((1.0, np.zeros((1, 3))), (-1.0, np.full((1, 3), 0.5))), 2 * _QUARTER_DIAGONAL, 1, _CSCL),
    Crystal("zincblende", ((1.0, _FCC), (-1.0, _FCC + 0.25)), _QUARTER_DIAGONAL, 4, _ZINCBLENDE),
    # CsCl and twice zincblende, all at one distance between anion and cation: 5.0387848798485670.
    Crystal(
        "fluorite",
        ((2.0, _FCC), (-1.0, _FCC + 0.25), (-1.0, _FCC + 0.75)),
        _QUARTER_DIAGONAL,
        4,
        _CSCL + 2 * _ZINCBLENDE,
    ),
    Crystal("one charge", ((1.0, np.zeros((1, 3))),), 1.0, 1, _WIGNER),
)


def findings() -> Iterator[Finding]:
    """All checks, one after the other."""
    for dtype, accuracy, tolerance in ((np.float64, 1e-13, 1e-12), (np.float32, 1e-8, 1e-5)):
        for crystal in CRYSTALS:
            found = _constant(crystal, dtype, accuracy)
            yield Finding(f"{crystal.name}, {np.dtype(dtype)}", crystal.constant, found, tolerance)
    yield from _derivatives()
    yield _pairs()


def _constant(crystal: Crystal, dtype: type, accuracy: float) -> float:
    positions = np.concatenate([sites for _, sites in crystal.sublattices]).astype(dtype)
    charges = np.concatenate([np.full(len(sites), q) for q, sites in crystal.sublattices]).astype(dtype)
    cell = np.eye(3, dtype=dtype)
    # Finer than float32 is asked for, so that its rounding is all that is left.
    p = estimate_ewald_parameters(*(x.astype(np.float64) for x in (positions, charges, cell)), accuracy)
    split = {"alpha": p.alpha, "cutoff": p.cutoff, "k_cutoff": p.k_cutoff}
    energy = ewald_summation(positions, charges, cell, **split, energy_reduction="system")
    return -float(energy[0]) * crystal.distance / crystal.formula_units


def _derivatives() -> Iterator[Finding]:
    """Directional derivatives of a random charged cell, each against a difference of fourth order."""
    rng = np.random.default_rng(1921)
    cell = np.array([[4.0, 0.2, -0.5], [0.9, 3.8, 0.2], [-0.3, 1.2, 4.5]])
    grid = np.stack(np.meshgrid(*[np.arange(2) / 2] * 3), -1).reshape(-1, 3)
    positions = (grid + rng.uniform(-0.1, 0.1, grid.shape)) @ cell
    charges = rng.uniform(-1.0, 1.0, len(grid))
    split = {"alpha": 1.3, "cutoff": 4.5, "k_cutoff": 15.0}

    def energy(positions: npt.NDArray, charges: npt.NDArray, cell: npt.NDArray) -> float:
        return float(ewald_summation(positions, charges, cell, **split, energy_reduction="system")[0])

    _, forces, potentials, virial = ewald_summation(
        positions, charges, cell, **split, compute_forces=True, compute_charge_gradients=True, compute_virial=True
    )
    dr, dq, strain = rng.normal(size=positions.shape), rng.normal(size=charges.shape), rng.normal(size=(3, 3))
    one = np.eye(3)
    cases = (
        ("forces", -np.sum(forces * dr), lambda h: energy(positions + h * dr, charges, cell)),
        ("charge gradients", potentials @ dq, lambda h: energy(positions, charges + h * dq, cell)),
        (
            "virial",
            -np.sum(virial * strain),
            lambda h: energy(positions @ (one + h * strain), charges, cell @ (one + h * strain)),
        ),
    )
    h = 1e-3
    for name, derivative, f in cases:
        difference = (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)
        yield Finding(f"{name}, finite differences", float(difference), float(derivative), 1e-8)


def _pairs() -> Finding:
    """Six neighbours at 1 and twelve at √2 in a simple cubic lattice of side 1, from a cell with one atom."""
    pairs, _, _ = neighbor_list(np.zeros((1, 3)), 1.5, np.eye(3))
    return Finding("neighbours, simple cubic", 18.0, float(pairs.shape[1]), 0.0)
