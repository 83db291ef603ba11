"""Latent Ewald summation: declarations and bodies of the public functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung._functions.declare import KEYWORDS, Group, Parameter, function, text
from madelung._functions.ewald import DERIVATIVES
from madelung._functions.framework import Framework
from madelung._functions.parameters import (
    BATCH_IDX,
    CELL,
    CHARGES,
    ENERGIES,
    ENERGY_ERRORS,
    ERRORS,
    LISTS,
    MILLER,
    OUTPUTS,
    PBC,
    POSITIONS,
    STREAM,
)
from madelung._functions.waves import waves_of
from madelung._neighbors import Neighbors

_CELL = CELL.but(
    default=None,
    text=text(
        "(3, 3), for all systems, or (B, 3, 3); rows are lattice vectors. A cell of zeros has no "
        "periodic axes; None: no system has any.",
        cuda="It is read, for which the call waits.",
    ),
)
_PBC = PBC.but(
    text=text(
        "(3,) or (B, 3) of bool, all True or all False for each system. None: systems are periodic whose cell is not "
        "zero.",
        cuda="An array of NumPy.",
    )
)
_DL = Parameter(
    "dl",
    "sizes",
    text(
        "shortest wavelength of the sum over waves, in L, one for all systems or (B,): 0 < |k| ≤ 2π/dl. It is part of "
        "the model, as the sum need not be converged there."
    ),
    2.0,
)
_GIVEN = text("what `latent_ewald_lists` gives for these systems; without it the call makes it.")


@function(
    POSITIONS,
    CHARGES.but(
        text=text("(N,), or (N, C) for C channels, whose energies add up; of the positions' dtype."), shape=("N", "C")
    ),
    _CELL,
    Parameter(
        "sigma",
        "per_system",
        text("width σ of the Gaussian charges, in L, one for all systems or (B,).", cuda="Numbers of the host."),
        1.0,
    ),
    _DL.but(text=text(f"{_DL.text.common} Not looked at with `miller_indices`.")),
    KEYWORDS,
    Parameter(
        "remove_self_interaction",
        "flag",
        text("whether the energy q²/(σ√(2π)) of each charge with itself is left out."),
        True,
    ),
    Group(
        "miller",
        (
            MILLER.parameters[0].but(text=_GIVEN),
            MILLER.parameters[1],
        ),
    ),
    LISTS.parameters[0].but(text=_GIVEN),
    _PBC,
    BATCH_IDX,
    OUTPUTS,
    STREAM,
    notes={
        "torch": DERIVATIVES.replace("alpha", "sigma") + ". In a compiled graph `miller_indices` and `neighbors` are "
        "given: their sizes depend on values, and without them the graph breaks at this call.",
        "jax": DERIVATIVES.replace("alpha", "sigma") + "; in every mode of JAX. Under `jit`, `vmap`, `scan` and "
        "`shard_map` `miller_indices` and `neighbors` are given.",
        "cuda": "The call waits for the cell, and with channels for the charges and the results, which the host splits "
        "and puts side by side.",
    },
    returns=text(ENERGIES.common.replace("∂E/∂q (N,)", "∂E/∂q (of the shape of the charges)")),
    raises=ENERGY_ERRORS,
)
def latent_ewald(
    f: Framework,
    positions: Any,
    charges: Any,
    cell: Any,
    sigma: Any,
    dl: Any,
    remove_self_interaction: Any,
    miller: tuple[Any, Any],
    neighbors: Any,
    pbc: Any,
    batch_idx: Any,
    outputs: tuple[Any, ...],
) -> Any:
    """The electrostatic energy of latent charges: Gaussians of width σ, without a background.

    The charge part of Latent Ewald Summation (Cheng, npj Comput. Mater. 11, 80 (2025)). Periodic systems:
    (2π/V) Σ_k exp(−σ²k²/2)/k² |S(k)|² over 0 < |k| ≤ 2π/dl, without the energy of each charge with itself. Systems
    without periodic axes: ½ Σ q_i q_j erf(r/√2σ)/r over all pairs. A batch may hold both. The prefactor of networks
    that were trained with another implementation is `madelung.units.LATENT_EWALD`.
    """
    wanted = f.outputs(outputs)
    own = (-1.0, 0.0) if not check.flag("remove_self_interaction", remove_self_interaction) else (0.0, 1.0)
    lattice, axes = _lattice(f, positions, cell, pbc)
    parts, inputs = [], None
    for charge in f.channels(charges):
        system = f.system(positions, charge, lattice, batch_idx)
        if inputs is None:
            inputs = _inputs(f, system, (positions, lattice, axes, batch_idx), dl, miller, neighbors)
        system, selves = f.opened(system, axes, own)
        rest = (*inputs[0], check.UNBOUNDED, *inputs[1])
        parts.append(f.energies("latent_summation", system, (_alpha(f, sigma, system), selves), rest, wanted))
    if len(parts) == 1 and len(charges.shape) == 1:
        return parts[0]
    if not parts:
        check.refuse("charges", "at least one channel", tuple(charges.shape))
    if not isinstance(parts[0], tuple):
        return f.added(parts)
    # Charge gradients follow the forces.
    at = 1 + bool(outputs[2]) if outputs[3] else None
    return tuple((f.stacked if n == at else f.added)(list(each)) for n, each in enumerate(zip(*parts)))


@function(
    POSITIONS.but(text=text("(N, 3); only their number counts.")),
    _CELL,
    _DL,
    KEYWORDS,
    _PBC,
    BATCH_IDX,
    STREAM,
    notes={
        "torch": "Compiled graphs need them.",
        "jax": "Calls under `jit` need them. Not under `jit` itself.",
        "cuda": "Arrays on a device are read, for which the call waits.",
    },
    returns=text(
        "`neighbors`, all pairs of atoms of systems without periodic axes; `miller_indices` and `miller_batch_idx`, "
        "the waves of the others with 0 < |k| ≤ 2π/dl."
    ),
    raises=ERRORS,
    result="dict[str, Any]",
    eager=True,
)
def latent_ewald_lists(f: Framework, positions: Any, cell: Any, dl: Any, pbc: Any, batch_idx: Any) -> dict[str, Any]:
    """Lists and waves of `latent_ewald`, to be given to it: `latent_ewald(…, **latent_ewald_lists(…))`.

    For any positions of the atoms, and for cells that change so little that the set of waves may stay.
    """
    lattice, axes = _lattice(f, positions, cell, pbc)
    system = f.system(positions, check.NO_CHARGES, lattice, batch_idx)
    neighbors, (miller, of) = _made(f, (positions, lattice, axes, batch_idx), system.systems, dl, None, None)
    return {"neighbors": neighbors, "miller_indices": f.copied(miller), "miller_batch_idx": f.copied(of)}


def _lattice(f: Framework, positions: Any, cell: Any, pbc: Any) -> tuple[Any, Any]:
    """The cell and the periodic axes of a call, which may have none."""
    if cell is not None:
        return cell, pbc
    axes = check.periodic(f.value("pbc", pbc))
    if axes is not None and axes.any():
        check.refuse("cell", "lattice vectors for the periodic axes", "None")
    return f.no_cell(positions), np.zeros((1, 3), np.bool_)


def _alpha(f: Framework, sigma: Any, system: Any) -> Any:
    """The splitting parameter 1/(√2σ) of each system."""
    given = f.per_system("sigma", sigma, system)
    # One over: a number over an array is rounded once in some libraries and twice in others.
    if isinstance(given, list):
        return [1.0 / (math.sqrt(2.0) * x) for x in given]
    return 1.0 / (math.sqrt(2.0) * given)


def _inputs(
    f: Framework, system: Any, atoms: tuple[Any, ...], dl: Any, miller: tuple[Any, Any], neighbors: Any
) -> tuple[Any, Any]:
    """The pairs and the waves of a call, as inputs of its op."""
    positions, cell, pbc, batch_idx = atoms
    waves = None if miller[0] is None and miller[1] is None else waves_of(f, system, cell, None, miller)
    own = neighbors is None
    if not own and not isinstance(neighbors, Neighbors):
        check.refuse("neighbors", "what `latent_ewald_lists` gives", check.described(neighbors), TypeError)
    if own or waves is None:
        neighbors, waves = f.untraced(_made, f, atoms, system.systems, dl, neighbors, waves)
    elif f.is_readable(*atoms, neighbors.index):
        is_open = ~_periodic(f, cell, pbc, system.systems)
        expected = _native.all_pairs_ptr(_members(f, len(positions), batch_idx), is_open.tolist())
        given = f.value("neighbors", neighbors.index)
        if neighbors.form != "rows" or given.shape != expected.shape or (given != expected).any():
            check.refuse("neighbors", "what `latent_ewald_lists` gives for these systems", "another list")
    pairs = f.listed(system, (neighbors, *(None,) * 6, False), check.UNBOUNDED, own=own)
    assert pairs is not None
    return pairs, waves


def _made(
    f: Framework, atoms: tuple[Any, ...], systems: int, dl: Any, neighbors: Any, waves: Any
) -> tuple[Neighbors, Any]:
    """The pairs and the waves of a call that is not given both, from values."""
    positions, cell, pbc, batch_idx = atoms
    periodic = _periodic(f, cell, pbc, systems)
    if waves is None:
        each = check.per_system("dl", f.value("dl", dl), systems)
        each = each * systems if len(each) == 1 else each
        waves = f.waves(cell, [2.0 * math.pi / x if of else 0.0 for x, of in zip(each, periodic)], systems)
    return _all_pairs(f, positions, batch_idx, periodic) if neighbors is None else neighbors, waves


def _periodic(f: Framework, cell: Any, pbc: Any, systems: int) -> np.ndarray:
    """Whether each system is periodic, along all axes."""
    axes = check.periodic(f.value("pbc", pbc))
    if axes is None:
        axes = (check.cells(f.value("cell", cell)).reshape(-1, 3, 3) != 0.0).any(-1)
    if len(axes) not in (1, systems):
        check.refuse("pbc", f"one row, or one for each of {systems} systems", axes.shape)
    if (axes.any(1) != axes.all(1)).any():
        check.refuse("pbc", "all axes of a system, or none of them", axes.tolist())
    return np.broadcast_to(axes.all(1), systems)


def _members(f: Framework, atoms: int, batch_idx: Any) -> np.ndarray:
    """The system of each atom."""
    idx = np.zeros(atoms, np.int32) if batch_idx is None else f.value("batch_idx", batch_idx)
    return check.integers("batch_idx", idx, (atoms,))


def _all_pairs(f: Framework, positions: Any, batch_idx: Any, periodic: np.ndarray) -> Neighbors:
    """All pairs within each open system."""
    atoms = len(positions)
    ptr, columns = _native.all_pairs(_members(f, atoms, batch_idx), (~periodic).tolist())
    # No pair is with an image: packed, which takes a third of the memory.
    arrays = (f.indices(x, positions) for x in (ptr, columns, np.zeros_like(columns)))
    return Neighbors(*arrays, None, None, "rows", atoms, check.UNBOUNDED, None)
