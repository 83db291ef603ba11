"""Ewald sums of tensors."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from madelung import _arguments as check
from madelung import _native
from madelung import numpy as _numpy
from madelung._schema import FULL
from madelung.numpy import EwaldParameters
from madelung.torch import _inputs as given
from madelung.torch import _mode
from madelung.torch._energies import Energies
from madelung.torch._mode import Mode

__all__ = [
    "EwaldParameters",
    "estimate_ewald_parameters",
    "ewald_real_space",
    "ewald_reciprocal_space",
    "ewald_summation",
    "generate_miller_indices",
]

# A tensor, or a tuple of tensors: with a union type every caller would have to say which.
Result = Any

_is_compiling = torch.compiler.is_compiling

# By whether the energies are those of systems.
_REAL = (Energies("ewald_real_space"), Energies("ewald_real_space_total"))
_RECIPROCAL = (Energies("ewald_reciprocal_space"), Energies("ewald_reciprocal_space_total"))
_SUM = (Energies("ewald_summation"), Energies("ewald_summation_total"))

# Bits of the first op, for all six: their differentiable arguments are common.
_FORCES, _CHARGE_GRADIENTS, _VIRIAL = (_REAL[0].bit[name] for name in ("positions", "charges", "strain"))


def ewald_real_space(
    positions: Tensor,
    charges: Tensor,
    cell: Tensor,
    alpha: float | Tensor,
    *,
    neighbor_list: Tensor | None = None,
    neighbor_ptr: Tensor | None = None,
    neighbor_shifts: Tensor | None = None,
    neighbor_matrix: Tensor | None = None,
    neighbor_matrix_shifts: Tensor | None = None,
    fill_value: int | None = None,
    half_fill: bool = False,
    cutoff: float | None = None,
    batch_idx: Tensor | None = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_charge_gradients: bool = False,
    compute_virial: bool = False,
    hybrid_forces: bool = False,
) -> Result:
    """The real-space part of an Ewald sum: ½ Σ q_i q_j erfc(αr)/r over pairs closer than `cutoff`.

    Args:
        positions, charges, cell, batch_idx: as for `ewald_summation`.
        alpha: splitting parameter in 1/L, one for all systems or (B,).
        neighbor_list, neighbor_ptr, neighbor_shifts, neighbor_matrix, neighbor_matrix_shifts, fill_value, half_fill:
            as for `ewald_summation`.
        cutoff: in L. May be left out where a list is given: then all its pairs count.
        prefactor, energy_reduction, compute_forces, compute_charge_gradients, compute_virial, hybrid_forces: as for
            `ewald_summation`.

    Returns:
        As `ewald_summation`.

    Raises:
        TypeError, ValueError: As `ewald_summation`.
    """
    lists = (
        neighbor_list,
        neighbor_ptr,
        neighbor_shifts,
        neighbor_matrix,
        neighbor_matrix_shifts,
        fill_value,
        half_fill,
    )
    outputs = (
        prefactor,
        energy_reduction,
        compute_forces,
        compute_charge_gradients,
        compute_virial,
        hybrid_forces,
    )
    if _is_compiling():
        return _real_space(_mode.Graph, positions, charges, cell, alpha, lists, cutoff, batch_idx, outputs)
    try:
        mode = _mode.Eager if positions.is_cpu else _mode.Device
        return _real_space(mode, positions, charges, cell, alpha, lists, cutoff, batch_idx, outputs)
    except _FAILURES as error:
        failure = error
    raise _explained(failure, positions, charges, cell, batch_idx, outputs, lists, alpha=alpha, cutoff=cutoff)


def _real_space(
    mode: Mode,
    positions: Any,
    charges: Any,
    cell: Any,
    alpha: Any,
    lists: Any,
    cutoff: Any,
    batch_idx: Any,
    outputs: Any,
) -> Result:
    lattice, atoms, systems, single = _system(mode, positions, charges, cell, batch_idx)
    ptr, columns, shifts = _pairs(mode, positions, charges, cell, batch_idx, lists, cutoff)
    if cutoff is None:
        cutoff = check.UNBOUNDED
    elif type(cutoff) is not float:
        cutoff = check.positive("cutoff", cutoff)
    split = given.splitting(mode, alpha, positions, systems)
    prefactor, per_system, want, hybrid = _wanted(outputs)
    strain = mode.no_strain(positions)
    flat = (positions, charges, lattice, split, strain, atoms, prefactor, ptr, columns, shifts, FULL, cutoff)
    return _run(mode, _REAL[per_system], flat, want, hybrid, single)


def ewald_reciprocal_space(
    positions: Tensor,
    charges: Tensor,
    cell: Tensor,
    alpha: float | Tensor,
    k_cutoff: float | Tensor | None = None,
    *,
    miller_indices: Tensor | None = None,
    miller_batch_idx: Tensor | None = None,
    batch_idx: Tensor | None = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_charge_gradients: bool = False,
    compute_virial: bool = False,
    hybrid_forces: bool = False,
) -> Result:
    """The reciprocal part of an Ewald sum, over 0 < |k| ≤ `k_cutoff`.

    The self term −α/√π Σq² and the uniform background −πQ²/(2α²V) of a charged cell are part of it.

    Args:
        positions, charges, cell, batch_idx: as for `ewald_summation`.
        alpha: splitting parameter in 1/L, one for all systems or (B,).
        k_cutoff: in radians per L, one for all systems or (B,).
        miller_indices, miller_batch_idx: in place of `k_cutoff`, see `ewald_summation`.
        prefactor, energy_reduction, compute_forces, compute_charge_gradients, compute_virial, hybrid_forces: as for
            `ewald_summation`.

    Returns:
        As `ewald_summation`.

    Raises:
        TypeError, ValueError: As `ewald_summation`.
    """
    outputs = (
        prefactor,
        energy_reduction,
        compute_forces,
        compute_charge_gradients,
        compute_virial,
        hybrid_forces,
    )
    miller = (miller_indices, miller_batch_idx)
    if _is_compiling():
        return _reciprocal_space(_mode.Graph, positions, charges, cell, alpha, k_cutoff, miller, batch_idx, outputs)
    try:
        mode = _mode.Eager if positions.is_cpu else _mode.Device
        return _reciprocal_space(mode, positions, charges, cell, alpha, k_cutoff, miller, batch_idx, outputs)
    except _FAILURES as error:
        failure = error
    waves = {"k_cutoff": k_cutoff, "miller": miller}
    raise _explained(failure, positions, charges, cell, batch_idx, outputs, alpha=alpha, **waves)


def _reciprocal_space(
    mode: Mode,
    positions: Any,
    charges: Any,
    cell: Any,
    alpha: Any,
    k_cutoff: Any,
    miller: Any,
    batch_idx: Any,
    outputs: Any,
) -> Result:
    lattice, atoms, systems, single = _system(mode, positions, charges, cell, batch_idx)
    split = given.splitting(mode, alpha, positions, systems)
    indices, of = _waves(mode, positions, cell, k_cutoff, miller, systems)
    prefactor, per_system, want, hybrid = _wanted(outputs)
    flat = (positions, charges, lattice, split, mode.no_strain(positions), atoms, prefactor, indices, of)
    return _run(mode, _RECIPROCAL[per_system], flat, want, hybrid, single)


def ewald_summation(
    positions: Tensor,
    charges: Tensor,
    cell: Tensor,
    alpha: float | Tensor | None = None,
    *,
    k_cutoff: float | Tensor | None = None,
    cutoff: float | None = None,
    miller_indices: Tensor | None = None,
    miller_batch_idx: Tensor | None = None,
    neighbor_list: Tensor | None = None,
    neighbor_ptr: Tensor | None = None,
    neighbor_shifts: Tensor | None = None,
    neighbor_matrix: Tensor | None = None,
    neighbor_matrix_shifts: Tensor | None = None,
    fill_value: int | None = None,
    half_fill: bool = False,
    accuracy: float = 1e-6,
    pbc: Any = None,
    batch_idx: Tensor | None = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_charge_gradients: bool = False,
    compute_virial: bool = False,
    hybrid_forces: bool = False,
) -> Result:
    """The Coulomb energy of periodic point charges, by Ewald's sum (Ann. Phys. 369, 253 (1921)).

    A charged cell gets a uniform background. Those of `alpha`, `cutoff` and `k_cutoff` that are None are chosen for
    `accuracy` (see `estimate_ewald_parameters`).

    Energies are differentiable twice in positions, charges, cell and alpha; forces, charge gradients and virials once
    more. With `energy_reduction="system"` the gradients are computed together with the energies, so that a backward
    pass only scales them. In a compiled graph, lists, `alpha`, `cutoff` and Miller indices are given: their sizes
    depend on values, and without them the graph breaks at this call.

    Of CUDA tensors, what these are made of is read from the device where they are left out: the cell, and charges for
    `alpha` and the cutoffs, once only as long as they stay the same. While `torch.cuda.graph` captures, nothing can be
    read, and what is missing is an error.

    Args:
        positions: (N, 3), float32 or float64.
        charges: (N,)
        cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness.
        alpha: splitting parameter in 1/L, one for all systems or (B,). The result does not depend on it, but for the
            error that the cutoffs leave.
        k_cutoff: radius of the reciprocal sum, in radians per L, one for all systems or (B,).
        cutoff: radius of the real-space sum, in L; needed with a neighbour list.
        miller_indices, miller_batch_idx: in place of `k_cutoff` the wave vectors themselves, (K, 3), and the system of
            each, (K,), sorted, as `generate_miller_indices` returns them; the latter may be left out for one system.
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
        hybrid_forces: the energy's first derivative by positions and cell is zero and by the charges what it is, so
            that forces (at fixed charges) and what autograd brings through charges that depend on the positions add up
            to the total force. Nothing is detached: second derivatives are those of the true function.

    Returns:
        The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q
        (N,), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3)), where E is the sum of the
        energies. A single tensor comes unwrapped, several as a tuple.

    Raises:
        TypeError: For an argument that is no tensor, or of the wrong dtype.
        ValueError: For a wrong shape, value or device; among others for two charges on one point.
    """
    lists = (
        neighbor_list,
        neighbor_ptr,
        neighbor_shifts,
        neighbor_matrix,
        neighbor_matrix_shifts,
        fill_value,
        half_fill,
    )
    outputs = (
        prefactor,
        energy_reduction,
        compute_forces,
        compute_charge_gradients,
        compute_virial,
        hybrid_forces,
    )
    split = (alpha, cutoff, k_cutoff, (miller_indices, miller_batch_idx), accuracy)
    if _is_compiling():
        return _summation(_mode.Graph, positions, charges, cell, split, lists, pbc, batch_idx, outputs)
    try:
        mode = _mode.Eager if positions.is_cpu else _mode.Device
        return _summation(mode, positions, charges, cell, split, lists, pbc, batch_idx, outputs)
    except _FAILURES as error:
        failure = error
    settings = {"alpha": alpha, "cutoff": cutoff, "k_cutoff": k_cutoff, "miller": split[3], "accuracy": accuracy}
    raise _explained(failure, positions, charges, cell, batch_idx, outputs, lists, **settings)


def _summation(
    mode: Mode, positions: Any, charges: Any, cell: Any, split: Any, lists: Any, pbc: Any, batch_idx: Any, outputs: Any
) -> Result:
    alpha, cutoff, k_cutoff, miller, accuracy = split
    if cutoff is None and (lists[0] is not None or lists[3] is not None):
        check.refuse("cutoff", "the cutoff that the neighbour list was built for", "None")
    lattice, atoms, systems, single = _system(mode, positions, charges, cell, batch_idx)
    if pbc is not None:
        _check_periodic(pbc, systems)
    if alpha is None or cutoff is None or (k_cutoff is None and miller[0] is None):
        rows = _parameters(positions, charges, cell, batch_idx, alpha, cutoff, k_cutoff, accuracy)
        cutoff = rows[0][1] if rows else 1.0
        if alpha is None:
            alpha = [row[0] for row in rows]
        if k_cutoff is None and miller[0] is None:
            k_cutoff = [row[2] for row in rows]
    if type(cutoff) is not float:
        cutoff = check.positive("cutoff", cutoff)
    ptr, columns, shifts = _pairs(mode, positions, charges, cell, batch_idx, lists, cutoff)
    indices, of = _waves(mode, positions, cell, k_cutoff, miller, systems)
    alphas = given.splitting(mode, alpha, positions, systems)
    prefactor, per_system, want, hybrid = _wanted(outputs)
    strain = mode.no_strain(positions)
    reals = (positions, charges, lattice, alphas, strain, atoms, prefactor)
    flat = (*reals, ptr, columns, shifts, FULL, cutoff, indices, of)
    return _run(mode, _SUM[per_system], flat, want, hybrid, single)


def estimate_ewald_parameters(
    positions: Tensor,
    charges: Tensor,
    cell: Tensor,
    accuracy: float = 1e-6,
    cutoff: float | None = None,
    *,
    alpha: float | Tensor | None = None,
    k_cutoff: float | Tensor | None = None,
    batch_idx: Tensor | None = None,
) -> EwaldParameters:
    """The parameters that `ewald_summation` uses: the cheapest for an accuracy.

    As `madelung.numpy.estimate_ewald_parameters`. The result depends on no tensor by a graph.

    Args:
        positions, charges, cell, batch_idx: as for `ewald_summation`.
        accuracy: target for the RMS force error, in units of q²_rms/(V/N)^(2/3), from 1e-14 to below 1.
        cutoff, alpha, k_cutoff: those given are kept; the predicted error is that of the result.

    Returns:
        Numbers for one system; for a batch (a cell (B, 3, 3), or `batch_idx`) tensors (B,) of float64, but for the
        cutoff, which all systems share.

    Raises:
        TypeError, ValueError: As `ewald_summation`.
    """
    system = given.charged(positions, charges, cell, batch_idx)
    found = _numpy.estimate_ewald_parameters(
        system.positions,
        system.charges,
        system.cell,
        accuracy,
        cutoff,
        alpha=given.view("alpha", alpha) if isinstance(alpha, Tensor) else alpha,
        k_cutoff=given.view("k_cutoff", k_cutoff) if isinstance(k_cutoff, Tensor) else k_cutoff,
        batch_idx=system.groups.batch_idx,
    )
    if isinstance(found.alpha, float):
        return found
    of_batch = (
        torch.from_numpy(x.copy()).to(positions.device)
        for x in (found.alpha, found.k_cutoff, found.predicted_force_error)
    )
    split, waves, error = of_batch
    return EwaldParameters(split, found.cutoff, waves, error)


def generate_miller_indices(cell: Tensor, k_cutoff: float | Tensor) -> tuple[Tensor, Tensor]:
    """The wave vectors k = m · B with 0 < |k| ≤ `k_cutoff`, one of each two ±k, where B = 2π (cell⁻¹)ᵀ.

    For calls in compiled graphs, and for cells that change so little that the set may stay.

    Args:
        cell: (3, 3) or (B, 3, 3), rows are lattice vectors.
        k_cutoff: in radians per L, one for all systems or (B,).

    Returns:
        `miller_indices` (K, 3) and `miller_batch_idx` (K,), the system of each, int32.

    Raises:
        TypeError, ValueError: For a cell that is singular or no tensor, and cutoffs that are not above zero.
    """
    h = given.view("cell", cell)
    if h is None:
        check.refuse("cell", "a tensor", "None", TypeError)
    systems = len(check.reals("cell", h, (3, 3) if h.ndim == 2 else ("B", 3, 3)).reshape(-1, 3, 3))
    mode = _mode.Graph if _is_compiling() else _mode.outside_graphs(cell)
    indices, of = mode.waves(cell, given.numbers("k_cutoff", k_cutoff, systems), systems)
    # Copies, since the tensors are kept for later calls.
    return indices.clone(), of.clone()


# Errors that an op, the checks before it, or a tensor's method called on another object may raise.
_FAILURES = (AttributeError, IndexError, TypeError, ValueError, RuntimeError)


# The tensors of a list among the arguments.
_LISTS = ("neighbor_list", "neighbor_ptr", "neighbor_shifts", "neighbor_matrix", "neighbor_matrix_shifts")

# The names of an op's arguments in its messages, and those of the functions here.
_NAMES = {
    "`atoms: batch_idx`": "`batch_idx`",
    "`waves: batch_idx`": "`miller_batch_idx`",
    "`waves`": "`miller_batch_idx`",
    "`miller`": "`miller_indices`",
    "`pairs: ": "`",
    "`pairs`": "`neighbor_list`",
}


def _system(mode: Mode, positions: Any, charges: Any, cell: Any, batch_idx: Any) -> tuple[Any, Any, Any, bool]:
    """The cells (B, 3, 3), the system of each atom, the number of systems, and whether there is but one, unbatched."""
    if batch_idx is None:
        if cell.dim() == 2:
            return cell.unsqueeze(0), mode.one_system(positions, positions.shape[0]), 1, True
        if cell.shape[0] != 1:
            check.refuse("batch_idx", f"the system of each atom, as there are {cell.shape[0]} cells", "None")
        return cell, mode.one_system(positions, positions.shape[0]), 1, False
    if cell.dim() == 3:
        return cell, batch_idx, cell.shape[0], False
    systems = mode.systems(positions, charges, cell, batch_idx)
    return cell.expand(systems, 3, 3), batch_idx, systems, False


def _pairs(
    mode: Mode, positions: Any, charges: Any, cell: Any, batch_idx: Any, lists: Any, cutoff: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Offsets, columns and images of a full list: the one that is given, or a new one."""
    neighbor_list, neighbor_ptr, neighbor_shifts, *others = lists
    if neighbor_list is not None and neighbor_ptr is not None and neighbor_shifts is not None:
        matrix, matrix_shifts, fill_value, half_fill = others
        if matrix is None and matrix_shifts is None and fill_value is None and half_fill is False:
            return mode.coo(neighbor_list, neighbor_ptr, neighbor_shifts, positions)
    full = mode.converted(positions, *lists)
    if full is not None:
        return full
    if cutoff is None:
        check.refuse("cutoff", "the radius of the sum, as no neighbour list is given", "None")
    return mode.searched(positions, charges, cell, batch_idx, cutoff)


def _waves(mode: Mode, positions: Any, cell: Any, k_cutoff: Any, miller: Any, systems: Any) -> tuple[Tensor, Tensor]:
    """Miller indices and the system of each."""
    indices, of = miller
    if indices is None:
        if of is not None:
            check.refuse("miller_batch_idx", "it with `miller_indices`", "it without")
        if k_cutoff is None:
            check.refuse("k_cutoff", "the radius of the sum, as no `miller_indices` are given", "None")
        return mode.waves(cell, given.numbers("k_cutoff", k_cutoff, systems), systems)
    if k_cutoff is not None:
        check.refuse("k_cutoff", "it or `miller_indices`", "both")
    if of is None:
        if systems != 1:
            check.refuse("miller_batch_idx", f"the system of each index, as there are {systems} systems", "None")
        of = mode.one_system(positions, indices.shape[0])
    return indices, of


def _wanted(outputs: Any) -> tuple[float, bool, int, bool]:
    """The prefactor, whether energies are per system, which gradients are returned, and whether forces are hybrid."""
    prefactor, reduction, forces, charge_gradients, virial, hybrid = outputs
    if type(prefactor) is float and forces is charge_gradients is virial is hybrid is False:
        if reduction == "atom":
            return prefactor, False, 0, False
        if reduction == "system":
            return prefactor, True, 0, False
    prefactor = prefactor if type(prefactor) is float else check.number("prefactor", prefactor)
    want = _FORCES if check.flag("compute_forces", forces) else 0
    want |= _CHARGE_GRADIENTS if check.flag("compute_charge_gradients", charge_gradients) else 0
    want |= _VIRIAL if check.flag("compute_virial", virial) else 0
    per_system = check.word("energy_reduction", reduction, ("atom", "system")) == "system"
    return prefactor, per_system, want, check.flag("hybrid_forces", hybrid)


def _run(mode: Mode, energies: Energies, flat: Any, want: int, hybrid: bool, single: bool) -> Result:
    if not (want or hybrid):
        return energies.public(*flat) if mode is _mode.Graph else energies.value(*flat)
    results = energies.in_graph(flat, want, hybrid) if mode is _mode.Graph else energies.eager(flat, want, hybrid)
    if want & _VIRIAL and single:
        results = (*results[:-1], results[-1][0])
    return results[0] if len(results) == 1 else tuple(results)


@torch.compiler.disable
def _check_periodic(pbc: Any, systems: int) -> None:
    check.fully_periodic(given.view("pbc", pbc) if isinstance(pbc, Tensor) else pbc, systems)


@torch.compiler.disable
def _parameters(
    positions: Any, charges: Any, cell: Any, batch_idx: Any, alpha: Any, cutoff: Any, k_cutoff: Any, accuracy: Any
) -> list[tuple[float, float, float, float]]:
    """(alpha, cutoff, k_cutoff, predicted error) of each system."""
    system = given.charged(positions, charges, cell, batch_idx)
    split = given.view("alpha", alpha) if isinstance(alpha, Tensor) else alpha
    waves = given.view("k_cutoff", k_cutoff) if isinstance(k_cutoff, Tensor) else k_cutoff
    return _native.ewald_parameters(system, check.settings(system.systems, split, cutoff, waves, accuracy))


def _explained(
    error: Exception,
    positions: Any,
    charges: Any,
    cell: Any,
    batch_idx: Any,
    outputs: Any,
    lists: Any = None,
    *,
    alpha: Any,
    cutoff: Any = None,
    k_cutoff: Any = None,
    miller: Any = (None, None),
    accuracy: Any = None,
) -> Exception:
    """The error of a call that failed, in the words of this library: raised, or returned."""
    if any(isinstance(x, Tensor) and given.is_transformed(x) for x in (positions, charges, cell)):
        return error
    tensors = {"charges": charges, "cell": cell, "batch_idx": batch_idx, "alpha": alpha}
    tensors |= zip(("miller_indices", "miller_batch_idx"), miller)
    tensors |= zip(_LISTS, lists or ())
    for name, x in tensors.items():
        if isinstance(x, Tensor):
            given.expect(name, x, positions)
    if isinstance(positions, Tensor) and (given.is_traced(positions) or given.is_captured(positions)):
        return _renamed(error)
    system = given.charged(positions, charges, cell, batch_idx)
    for name, value in (("alpha", alpha), ("k_cutoff", k_cutoff)):
        given.numbers(name, value, system.systems)
    for name, value in (("cutoff", cutoff), ("accuracy", accuracy)):
        if value is not None:
            check.positive(name, value)
    if lists is not None:
        given.converted(positions, *lists)
    indices, of = miller
    if indices is not None:
        rows = check.integers("miller_indices", given.view("miller_indices", indices, positions), ("K", 3))
        if of is not None:
            check.integers("miller_batch_idx", given.view("miller_batch_idx", of, positions), (len(rows),))
    _wanted(outputs)
    return _renamed(error)


def _renamed(error: Exception) -> Exception:
    """An op's error in the names of the functions' arguments."""
    text = str(error)
    if isinstance(error, RuntimeError) and text.startswith("`"):
        for of_op, here in _NAMES.items():
            text = text.replace(of_op, here)
        return ValueError(text)
    return error
