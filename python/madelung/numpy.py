"""Neighbour lists and Ewald sums of NumPy arrays.

Units: lengths in any L, charges in elementary charges, energies in e²/L times `prefactor`
(`madelung.units.EV_ANGSTROM` for eV from Å).

Signs: forces are −∂E/∂r, charge gradients ∂E/∂q, the virial −∂E/∂ε for r → r(1+ε), cell → cell(1+ε). A pair's vector
is r_ij = r_j − r_i + S · cell, where the rows of `cell` are the lattice vectors.

Results have the dtype of `positions`, float32 or float64; other real arrays of a call must have it too. Every function
raises TypeError for an argument of the wrong type and ValueError for one of the wrong shape or value, with its name.

Other Python threads run during a call. They must not write to its arrays meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from madelung import _arguments as check
from madelung import _native

__all__ = [
    "EwaldParameters",
    "estimate_ewald_parameters",
    "ewald_real_space",
    "ewald_reciprocal_space",
    "ewald_summation",
    "neighbor_list",
]

Floats = npt.NDArray[np.floating]
# An array, or a tuple of arrays: with a union type every caller would have to say which.
Result = Any


@dataclass(frozen=True, slots=True)
class EwaldParameters:
    """The parameters of an Ewald sum. For a batch, all but the cutoff are arrays (B,)."""

    alpha: float | Floats
    """Splitting parameter, in 1/L."""
    cutoff: float
    """Radius of the real-space sum, in L. It may exceed the cell."""
    k_cutoff: float | Floats
    """Radius of the reciprocal sum, in radians per L."""
    predicted_force_error: float | Floats
    """Expected RMS error of the forces, in units of q²_rms/(V/N)^(2/3)."""


def neighbor_list(
    positions: npt.ArrayLike,
    cutoff: float,
    cell: npt.ArrayLike | None = None,
    pbc: npt.ArrayLike | None = None,
    batch_idx: npt.ArrayLike | None = None,
    batch_ptr: npt.ArrayLike | None = None,
    *,
    half_fill: bool = False,
    format: Literal["coo", "csr", "matrix"] = "coo",
    max_neighbors: int | None = None,
    capacity: int | None = None,
    fill_value: int | None = None,
    return_distances: bool = False,
    return_vectors: bool = False,
    method: Literal["cell_list", "brute_force"] | None = None,
) -> tuple[npt.NDArray, ...]:
    """All pairs of atoms and images closer than `cutoff` (strictly).

    The cell may have any shape and handedness and may be smaller than the cutoff. Rows are ordered by i, then j, then
    S, and the list depends neither on the method nor on the number of threads.

    Args:
        positions: (N, 3), anywhere: they need not lie inside the cell.
        cutoff: in the unit of the positions.
        cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
        pbc: (3,) or (B, 3) of bool. None: all axes of a cell are periodic.
        batch_idx: (N,), the system of each atom, sorted. `batch_ptr`, (B+1,): where each system begins.
        half_fill: every pair once (i < j, and of an atom's own images one of each two) instead of from both sides.
        format: which arrays are returned, see below.
        max_neighbors: the most pairs that an atom may have, and the width of a matrix. None: as many as it has.
        capacity: the most pairs that the list may have. None: as many as it has.
        fill_value: the entry behind the neighbours of a row of a matrix. None: N.
        return_distances, return_vectors: whether |r_ij| and r_ij of each pair are returned, zero in the padding.
        method: None chooses by the size of the system.

    Returns:
        For "coo": `neighbor_list` (2, P), `neighbor_ptr` (N+1,), `neighbor_shifts` (P, 3);
        for "csr": `neighbor_ptr` (N+1,), `indices` (P,), `neighbor_shifts` (P, 3);
        for "matrix": `neighbor_matrix` (N, M), `num_neighbors` (N,), `neighbor_matrix_shifts` (N, M, 3);
        all int32; then distances (P,) or (N, M) and vectors (P, 3) or (N, M, 3) if asked for.

    Raises:
        ValueError: Among others where the list does not fit `max_neighbors` or `capacity`: the message has what is
            needed. A list is never cut short.
    """
    r = check.reals("positions", positions, ("N", 3))
    cutoff = check.positive("cutoff", cutoff)
    axes = check.periodic(pbc)
    lattice = None
    if cell is not None:
        lattice = check.cells(cell, r)
        lattice = np.require(lattice.reshape(-1, 3, 3), np.float64, ["C", "A"])
    systems = check.lattices(None if lattice is None else len(lattice), axes)
    if lattice is None and axes is not None and axes.any():
        check.refuse("cell", "lattice vectors for the periodic axes", "None")
    groups = check.groups(batch_idx, batch_ptr, len(r), systems)
    options = check.list_options(
        half_fill, format, method, max_neighbors, capacity, fill_value, return_distances, return_vectors
    )
    return _native.neighbor_list(r, cutoff, lattice, None if axes is None else axes.tolist(), groups, options)


def ewald_real_space(
    positions: npt.ArrayLike,
    charges: npt.ArrayLike,
    cell: npt.ArrayLike,
    alpha: float | npt.ArrayLike,
    *,
    neighbor_list: npt.ArrayLike | None = None,
    neighbor_ptr: npt.ArrayLike | None = None,
    neighbor_shifts: npt.ArrayLike | None = None,
    neighbor_matrix: npt.ArrayLike | None = None,
    neighbor_matrix_shifts: npt.ArrayLike | None = None,
    fill_value: int | None = None,
    half_fill: bool = False,
    cutoff: float | None = None,
    batch_idx: npt.ArrayLike | None = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_charge_gradients: bool = False,
    compute_virial: bool = False,
) -> Result:
    """The real-space part of an Ewald sum: ½ Σ q_i q_j erfc(αr)/r over pairs closer than `cutoff`.

    Args:
        positions, charges, cell, batch_idx: as for `ewald_summation`.
        alpha: splitting parameter in 1/L, one for all systems or (B,).
        neighbor_list, neighbor_ptr, neighbor_shifts, neighbor_matrix, neighbor_matrix_shifts, fill_value, half_fill:
            as for `ewald_summation`.
        cutoff: in L. May be left out where a list is given: then all its pairs count.
        prefactor, energy_reduction, compute_forces, compute_charge_gradients, compute_virial: as for
            `ewald_summation`.

    Returns:
        As `ewald_summation`.
    """
    system = check.charged(positions, charges, cell, batch_idx)
    split = check.per_system("alpha", alpha, system.systems)
    neighbors = check.neighbors(
        len(system.positions),
        neighbor_list,
        neighbor_ptr,
        neighbor_shifts,
        neighbor_matrix,
        neighbor_matrix_shifts,
        fill_value,
        half_fill,
    )
    if cutoff is not None:
        reach = check.positive("cutoff", cutoff)
    elif neighbors is not None:
        reach = check.UNBOUNDED
    else:
        check.refuse("cutoff", "the radius of the sum, as no neighbour list is given", "None")
    wanted = _wanted(prefactor, energy_reduction, compute_forces, compute_charge_gradients, compute_virial)
    return _unwrapped(_native.ewald_real_space(system, split, reach, neighbors, wanted), system, wanted)


def ewald_reciprocal_space(
    positions: npt.ArrayLike,
    charges: npt.ArrayLike,
    cell: npt.ArrayLike,
    alpha: float | npt.ArrayLike,
    k_cutoff: float | npt.ArrayLike,
    *,
    batch_idx: npt.ArrayLike | None = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_charge_gradients: bool = False,
    compute_virial: bool = False,
) -> Result:
    """The reciprocal part of an Ewald sum, over 0 < |k| ≤ `k_cutoff`.

    The self term −α/√π Σq² and the uniform background −πQ²/(2α²V) of a charged cell are part of it.

    Args:
        positions, charges, cell, batch_idx: as for `ewald_summation`.
        alpha: splitting parameter in 1/L, one for all systems or (B,).
        k_cutoff: in radians per L, one for all systems or (B,).
        prefactor, energy_reduction, compute_forces, compute_charge_gradients, compute_virial: as for
            `ewald_summation`.

    Returns:
        As `ewald_summation`.
    """
    system = check.charged(positions, charges, cell, batch_idx)
    split = check.per_system("alpha", alpha, system.systems)
    waves = check.per_system("k_cutoff", k_cutoff, system.systems)
    wanted = _wanted(prefactor, energy_reduction, compute_forces, compute_charge_gradients, compute_virial)
    return _unwrapped(_native.ewald_reciprocal_space(system, split, waves, wanted), system, wanted)


def ewald_summation(
    positions: npt.ArrayLike,
    charges: npt.ArrayLike,
    cell: npt.ArrayLike,
    alpha: float | npt.ArrayLike | None = None,
    *,
    k_cutoff: float | npt.ArrayLike | None = None,
    cutoff: float | None = None,
    neighbor_list: npt.ArrayLike | None = None,
    neighbor_ptr: npt.ArrayLike | None = None,
    neighbor_shifts: npt.ArrayLike | None = None,
    neighbor_matrix: npt.ArrayLike | None = None,
    neighbor_matrix_shifts: npt.ArrayLike | None = None,
    fill_value: int | None = None,
    half_fill: bool = False,
    accuracy: float = 1e-6,
    pbc: npt.ArrayLike | None = None,
    batch_idx: npt.ArrayLike | None = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_charge_gradients: bool = False,
    compute_virial: bool = False,
) -> Result:
    """The Coulomb energy of periodic point charges, by Ewald's sum (Ann. Phys. 369, 253 (1921)).

    A charged cell gets a uniform background. Those of `alpha`, `cutoff` and `k_cutoff` that are None are chosen for
    `accuracy` (see `estimate_ewald_parameters`).

    Args:
        positions: (N, 3), float32 or float64.
        charges: (N,)
        cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness.
        alpha: splitting parameter in 1/L, one for all systems or (B,). The result does not depend on it, but for the
            error that the cutoffs leave.
        k_cutoff: radius of the reciprocal sum, in radians per L, one for all systems or (B,).
        cutoff: radius of the real-space sum, in L; needed with a neighbour list.
        neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than
            the cutoff do not count, so a list with a skin does. Without a list the call builds one.
        neighbor_matrix, neighbor_matrix_shifts, fill_value: those pairs as a matrix.
        half_fill: whether the list that is given has every pair once.
        accuracy: target for the RMS force error, in units of q²_rms/(V/N)^(2/3).
        pbc: (3,) or (B, 3) of bool; must be True everywhere.
        batch_idx: (N,), the system of each atom, sorted. None: one system.
        prefactor: multiplies energies and every derivative of them.
        energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
        compute_forces, compute_charge_gradients, compute_virial: whether these are returned too.

    Returns:
        The energies, (N,) or (B,), followed by the requested ones of: forces (N, 3), charge gradients (N,) (the
        potential at each charge), virial ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3)). A single
        array comes unwrapped, several as a tuple.

    Raises:
        ValueError: Among others for two charges on one point.
    """
    system = check.charged(positions, charges, cell, batch_idx)
    check.fully_periodic(pbc, system.systems)
    neighbors = check.neighbors(
        len(system.positions),
        neighbor_list,
        neighbor_ptr,
        neighbor_shifts,
        neighbor_matrix,
        neighbor_matrix_shifts,
        fill_value,
        half_fill,
    )
    if neighbors is not None and cutoff is None:
        check.refuse("cutoff", "the cutoff that the neighbour list was built for", "None")
    settings = check.settings(system.systems, alpha, cutoff, k_cutoff, accuracy)
    wanted = _wanted(prefactor, energy_reduction, compute_forces, compute_charge_gradients, compute_virial)
    return _unwrapped(_native.ewald_summation(system, settings, neighbors, wanted), system, wanted)


def estimate_ewald_parameters(
    positions: npt.ArrayLike,
    charges: npt.ArrayLike,
    cell: npt.ArrayLike,
    accuracy: float = 1e-6,
    cutoff: float | None = None,
    *,
    alpha: float | npt.ArrayLike | None = None,
    k_cutoff: float | npt.ArrayLike | None = None,
    batch_idx: npt.ArrayLike | None = None,
) -> EwaldParameters:
    """The parameters that `ewald_summation` uses: the cheapest for an accuracy.

    By the error estimates of Kolafa and Perram, Mol. Simul. 9, 351 (1992), for charges at random places. In a crystal
    the error is often smaller than that, and up to 1.75 times it was measured.

    Args:
        positions, charges, cell, batch_idx: as for `ewald_summation`.
        accuracy: target for the RMS force error, in units of q²_rms/(V/N)^(2/3), from 1e-14 to below 1.
        cutoff, alpha, k_cutoff: those given are kept; the predicted error is that of the result.

    Returns:
        Numbers for one system; for a batch (a cell (B, 3, 3), or `batch_idx`) arrays (B,), but for the cutoff, which
        all systems share.
    """
    system = check.charged(positions, charges, cell, batch_idx)
    settings = check.settings(system.systems, alpha, cutoff, k_cutoff, accuracy)
    rows = np.array(_native.ewald_parameters(system, settings)).reshape(-1, 4)
    if _is_single(system):
        return EwaldParameters(*rows[0].tolist())
    split, reach, waves, error = rows.T.copy()
    return EwaldParameters(split, float(reach[0]) if len(reach) else float("nan"), waves, error)


def _wanted(prefactor: Any, reduction: Any, forces: Any, charge_gradients: Any, virial: Any) -> check.Outputs:
    return check.Outputs(
        prefactor=check.number("prefactor", prefactor),
        per_system=check.word("energy_reduction", reduction, ("atom", "system")) == "system",
        forces=check.flag("compute_forces", forces),
        charge_gradients=check.flag("compute_charge_gradients", charge_gradients),
        virial=check.flag("compute_virial", virial),
    )


def _is_single(system: check.Charges) -> bool:
    return system.cell.ndim == 2 and system.groups.batch_idx is None


def _unwrapped(arrays: tuple[Floats, ...], system: check.Charges, wanted: check.Outputs) -> Result:
    if wanted.virial and _is_single(system):
        arrays = (*arrays[:-1], arrays[-1][0])
    return arrays[0] if len(arrays) == 1 else arrays
