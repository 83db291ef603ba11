"""Ewald sums: declarations and bodies of the public functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung._functions.boundaries import (
    BOUNDARIES,
    PERIODIC,
    SLAB_CORRECTION,
    Boundaries,
    boundaries,
    slab_term,
)
from madelung._functions.channels import CHANNELS, ENERGIES_OF_CHANNELS, of_channels
from madelung._functions.declare import KEYWORDS, REQUIRED, function, text
from madelung._functions.direct import LIST, METHOD, METHODS, by_kind, direct_sum, kinds_of_sums
from madelung._functions.exclusions import EXCLUSIONS, excluded_pairs, total, without
from madelung._functions.framework import Framework
from madelung._functions.gaussians import SPREADS, widths_term
from madelung._functions.lists import pairs_of, reach_of
from madelung._functions.parameters import (
    ACCURACY,
    ALPHA,
    BATCH_IDX,
    CELL,
    CHARGES,
    CUTOFF,
    ENERGY_ERRORS,
    ERRORS,
    K_CUTOFF,
    LISTS,
    MILLER,
    OUTPUTS,
    POSITIONS,
    STREAM,
)
from madelung._functions.powers import EXPONENT, check_neutral, law_of, power_of
from madelung._functions.results import EwaldParameters
from madelung._functions.waves import check_waves, waves_of

SYSTEM, SYSTEM_OF_CHANNELS = (POSITIONS, CHARGES, CELL), (POSITIONS, CHANNELS, CELL)
DERIVATIVES = (
    "Energies are differentiable twice in positions, charges, cell and alpha; forces, charge gradients and virials "
    "once more"
)


@function(
    *SYSTEM_OF_CHANNELS,
    ALPHA,
    KEYWORDS,
    LISTS,
    CUTOFF,
    EXCLUSIONS,
    EXPONENT,
    BATCH_IDX,
    OUTPUTS,
    STREAM,
    returns=ENERGIES_OF_CHANNELS,
    raises=ENERGY_ERRORS,
)
@of_channels
def ewald_real_space(
    f: Framework,
    positions: Any,
    charges: Any,
    cell: Any,
    alpha: Any,
    lists: tuple[Any, ...],
    cutoff: Any,
    exclusions: Any,
    exponent: Any,
    batch_idx: Any,
    outputs: tuple[Any, ...],
) -> Any:
    """The real-space part of an Ewald sum: ½ Σ q_i q_j erfc(αr)/r over pairs closer than `cutoff`."""
    wanted, system = f.outputs(outputs), f.system(positions, charges, cell, batch_idx)
    split, reach = f.per_system("alpha", alpha, system), f.distance("cutoff", reach_of(lists, cutoff))
    atoms = (positions, cell, None, batch_idx)
    excluded = excluded_pairs(f, system, atoms, exclusions)
    pairs = without(f, pairs_of(f, system, atoms, lists, reach), excluded)
    reach = check.UNBOUNDED if reach is None else reach
    law = law_of(f, system, split, exponent)
    left_out = excluded and excluded.term(law, reach, (1.0, 0.0))
    return total(f, system, wanted, (f"{law.prefix}_real_space", law.reals, (*pairs, reach)), left_out)


@function(
    *SYSTEM_OF_CHANNELS,
    ALPHA,
    K_CUTOFF,
    KEYWORDS,
    MILLER,
    EXCLUSIONS,
    EXPONENT,
    BATCH_IDX,
    OUTPUTS,
    STREAM,
    returns=ENERGIES_OF_CHANNELS,
    raises=ENERGY_ERRORS,
)
@of_channels
def ewald_reciprocal_space(
    f: Framework,
    positions: Any,
    charges: Any,
    cell: Any,
    alpha: Any,
    k_cutoff: Any,
    miller: tuple[Any, Any],
    exclusions: Any,
    exponent: Any,
    batch_idx: Any,
    outputs: tuple[Any, ...],
) -> Any:
    """The reciprocal part of an Ewald sum, over 0 < |k| ≤ `k_cutoff`.

    The self term −α/√π Σq² and the uniform background −πQ²/(2α²V) of a charged cell are part of it.
    """
    wanted, system = f.outputs(outputs), f.system(positions, charges, cell, batch_idx)
    split, waves = f.per_system("alpha", alpha, system), waves_of(f, system, cell, k_cutoff, miller)
    excluded = excluded_pairs(f, system, (positions, cell, None, batch_idx), exclusions)
    check_neutral(f, (positions, charges, cell, batch_idx), exponent, PERIODIC.no_lattice)
    law = law_of(f, system, split, exponent)
    left_out = excluded and excluded.term(law, check.UNBOUNDED, (0.0, 1.0))
    return total(f, system, wanted, (f"{law.prefix}_reciprocal_space", law.reals, waves), left_out)


@function(
    *SYSTEM_OF_CHANNELS,
    ALPHA.but(default=None),
    KEYWORDS,
    K_CUTOFF,
    CUTOFF.but(
        kind="per_system",
        text=text(
            "radius of the real-space sum, in L, one for all systems or (B,); one is needed with a neighbour list.",
            jax="Python numbers.",
        ),
    ),
    MILLER,
    LISTS,
    EXCLUSIONS,
    EXPONENT,
    SPREADS,
    ACCURACY,
    BOUNDARIES,
    SLAB_CORRECTION,
    METHOD,
    BATCH_IDX,
    OUTPUTS,
    STREAM,
    notes={
        "torch": DERIVATIVES + '. With `energy_reduction="system"` the gradients are computed together with the '
        "energies, so that a backward pass only scales them. In a compiled graph, lists, `alpha`, `cutoff` and Miller "
        "indices are given: their sizes depend on values, and without them the graph breaks at this call.\n\nOf CUDA "
        "tensors, arguments that are left out are made from values of the device: from the cell, and from charges for "
        "`alpha` and the cutoffs, read once as long as they stay unchanged. While `torch.cuda.graph` captures, nothing "
        "can be read, and a missing argument is an error.",
        "jax": DERIVATIVES + "; in every mode of JAX. Under `jit`, `vmap`, `scan` and `shard_map` no size may depend "
        "on a value: there the list (with its `neighbor_ptr`, see `neighbor_list` and `NeighborList`), `cutoff`, "
        "`alpha` and `miller_indices` are given. Gradients outside of `jit` need none of that.",
        "cuda": "With `alpha`, `cutoff`, `miller_indices` and a full list with its offsets and images nothing is "
        "waited for. Where `alpha`, `cutoff` or `k_cutoff` is chosen the call waits for charges and cell and reads "
        "them; without `miller_indices` it reads the cell.",
    },
    returns=ENERGIES_OF_CHANNELS,
    raises=ENERGY_ERRORS,
)
@of_channels
def ewald_summation(
    f: Framework,
    positions: Any,
    charges: Any,
    cell: Any,
    alpha: Any,
    k_cutoff: Any,
    cutoff: Any,
    miller: tuple[Any, Any],
    lists: tuple[Any, ...],
    exclusions: Any,
    exponent: Any,
    widths: Any,
    accuracy: Any,
    pbc: Any,
    slab_correction: Any,
    method: Any,
    batch_idx: Any,
    outputs: tuple[Any, ...],
) -> Any:
    """The Coulomb energy of periodic point charges, by Ewald's sum (Ann. Phys. 369, 253 (1921)).

    Crystals, slabs, wires and molecules may be in one batch: see `pbc`. A charged cell gets a uniform background.
    Those of `alpha`, `cutoff` and `k_cutoff` that are None are chosen for `accuracy`, for each system alone (see
    `estimate_ewald_parameters`); where all are, small systems are summed directly (see `method`). With
    `miller_indices`, in graphs, under transforms and on devices given parameters are taken as they are.
    """
    edges = boundaries(f, pbc, cell, slab_correction)
    accuracy = accuracy if accuracy is None else check_accuracy(f, accuracy)
    check_waves(k_cutoff, miller)
    of, kinds = (positions, charges, cell, batch_idx), LIST
    if method is None and accuracy is not None and power_of(exponent) == 1 and f.is_readable(*of):
        chosen = (alpha, k_cutoff, cutoff, *miller, *lists[:-1], exclusions, widths, lists[-1] or None)
        if not any([x is not None for x in chosen]):
            kinds = f.untraced(kinds_of_sums, f, of, accuracy, edges)
    if len(kinds) > 1:

        def of_part(r: Any, q: Any, h: Any, *its: Any) -> Any:
            rest = (exponent, widths, accuracy, *its, outputs)
            return ewald_summation(f, r, q, h, alpha, k_cutoff, cutoff, miller, lists, exclusions, *rest)

        try:
            return by_kind(f, of_part, of, pbc, kinds, outputs)
        except (ValueError, TypeError, RuntimeError):
            # The error of the whole has the numbers of its atoms and systems.
            of_part(*of[:3], pbc, slab_correction, "list", batch_idx)
            raise
    if method is None:
        method = "list" if kinds == LIST else "direct"
    check.word("method", method, METHODS)
    if method == "direct":
        given = (alpha, cutoff, k_cutoff)
        if power_of(exponent) != 1:
            check.refuse("exponent", '1 with `method="direct"`', exponent)
        return direct_sum(f, of, given, miller, (exclusions, widths, lists), accuracy, edges, outputs)
    has_list = any([x is not None for x in lists[:-1]])
    cutoff = known_reach(lists, cutoff, alpha, edges)
    period = edges.closed(f, cell, positions)
    wanted, system = f.outputs(outputs), f.system(positions, charges, period, batch_idx)
    edges.check(system.systems)
    cutoff, reach = cutoffs_of(f, lists, cutoff, system.systems)
    of, has_waves = (positions, charges, period, batch_idx), miller[0] is not None
    edges.check_law(f, of, exponent)
    edges.check_widths(widths, exclusions, exponent)
    listed = edges.listed(f, system, of, cell)
    excluded = excluded_pairs(f, *listed, exclusions)
    edges = edges.with_pairs(f, cell, excluded, lists)
    spread = widths_term(f, widths, (listed[0], (positions, cell, pbc, batch_idx)), lists, (cutoff, accuracy))
    if edges.only_wires:
        check_unused(f, system, alpha=alpha, k_cutoff=k_cutoff)
        if has_waves:
            waves_of(f, system, period, None, miller)
        return total(f, listed[0], wanted, edges.wires_alone(f, of, cell, listed, lists, cutoff, excluded), spread)
    is_left = alpha is None or (cutoff is None and not has_list) or (k_cutoff is None and not has_waves)
    is_left = is_left or (not (edges.is_lattice or (has_list and has_waves)))
    if is_left or (accuracy is not None and not has_waves and f.is_readable(*of, alpha)):
        _, rows = f.untraced(parameters_of, f, of, alpha, cutoff, k_cutoff, accuracy, edges, exponent)
        if not has_list and (cutoff is None or not edges.is_lattice):
            # The search keeps to the cutoff of each system.
            cutoff, reach = [row[1] for row in rows], check.UNBOUNDED
        if alpha is None:
            alpha = [row[0] for row in rows]
        if not has_waves:
            k_cutoff = [row[2] for row in rows]
    listed_reach, reach = reach, reach if edges.is_lattice else check.UNBOUNDED
    pairs = without(f, pairs_of(f, *listed, lists, cutoff), excluded)
    waves = waves_of(f, system, period, k_cutoff, miller)
    law = law_of(f, system, edges.splits(f, f.per_system("alpha", alpha, system)), exponent)
    sums = f"{law.prefix}_summation", law.reals, (*pairs, reach, *waves)
    left_out = excluded and excluded.term(law, reach, (1.0, 1.0))
    slabs, wires = slab_term(f, system, edges.slab_axes), edges.wires(f, of, cell, pairs, listed_reach, excluded)
    return total(f, edges.lattices(f, system, of), wanted, sums, slabs, wires, left_out, spread)


@function(
    *SYSTEM,
    ACCURACY,
    CUTOFF.but(
        kind="per_system",
        text=text(
            "radius of the real-space sum, in L, one for all systems or (B,). Kept where it is given, as are `alpha` "
            "and `k_cutoff`."
        ),
    ),
    KEYWORDS,
    ALPHA.but(default=None, text=text("splitting parameter in 1/L, one for all systems or (B,).")),
    K_CUTOFF.but(text=text("radius of the reciprocal sum, in radians per L, one for all systems or (B,).")),
    EXPONENT,
    BATCH_IDX.but(text=text("(N,), the system of each atom, sorted. None: one system.")),
    notes={"jax": "Not under `jit`.", "cuda": "Arrays on a device are read, for which the call waits."},
    returns=text(
        "Numbers for one system; for a batch (a cell (B, 3, 3), or `batch_idx`) arrays (B,) of float64.",
        torch="They are tensors, on the positions' device.",
        jax="They are arrays of NumPy.",
        cuda="They are arrays of NumPy.",
    ),
    raises=ERRORS,
    result="EwaldParameters",
    eager=True,
)
def estimate_ewald_parameters(
    f: Framework,
    positions: Any,
    charges: Any,
    cell: Any,
    accuracy: Any,
    cutoff: Any,
    alpha: Any,
    k_cutoff: Any,
    exponent: Any,
    batch_idx: Any,
) -> EwaldParameters:
    """The parameters that `ewald_summation` uses over a list: the cheapest for an accuracy.

    By the error estimates of Kolafa and Perram, Mol. Simul. 9, 351 (1992), for charges at random places. Errors of
    ordered and of small systems are smaller or larger, so the estimate that is chosen, and predicted, is about half of
    the accuracy.
    """
    of = (positions, charges, cell, batch_idx)
    system, rows = parameters_of(f, of, alpha, cutoff, k_cutoff, accuracy, PERIODIC, exponent)
    if system.single:
        return EwaldParameters(*rows[0])
    split, reach, waves, error = np.array(rows).reshape(-1, 4).T.copy()
    return EwaldParameters(*(f.array(x, positions) for x in (split, reach, waves, error)))


@function(
    CELL.but(text=text("(3, 3) or (B, 3, 3), rows are lattice vectors.", cuda="In the memory of a device; read.")),
    K_CUTOFF.but(default=REQUIRED, text=text("in radians per L, one for all systems or (B,).")),
    STREAM.but(text=text("where the work is put, as for `ewald_summation`.")),
    notes={
        "torch": "Compiled graphs need them, as sizes there may not depend on values.",
        "jax": "Calls under `jit` need them, as sizes there may not depend on values. Not under `jit` itself.",
        "cuda": "Calls that shall wait for nothing, and captures, need them.",
    },
    returns=text("`miller_indices` (K, 3) and `miller_batch_idx` (K,), the system of each, int32."),
    raises=text("TypeError, ValueError: For a cell that is singular or no array, and cutoffs that are not above zero."),
    result="tuple[Array, Array]",
    eager=True,
)
def generate_miller_indices(f: Framework, cell: Any, k_cutoff: Any) -> tuple[Any, Any]:
    """The wave vectors k = m · B with 0 < |k| ≤ `k_cutoff`, one of each two ±k, where B = 2π (cell⁻¹)ᵀ.

    To be given in place of `k_cutoff`, for cells that change so little that the set may stay.
    """
    h = check.cells(f.value("cell", cell))
    systems = len(h.reshape(-1, 3, 3))
    indices, of = f.waves(cell, check.per_system("k_cutoff", f.value("k_cutoff", k_cutoff), systems), systems)
    return f.copied(indices), f.copied(of)


def check_accuracy(f: Framework, accuracy: Any) -> float:
    """An accuracy that Ewald sums can have."""
    given = f.distance("accuracy", accuracy)
    if given is None or not 1e-14 <= given < 1.0:
        check.refuse("accuracy", "a relative force error from 1e-14 (the rounding of float64) to below 1", accuracy)
    return float(given)


def check_unused(f: Framework, system: Any, **given: Any) -> None:
    """Refuses parameters that no call takes, where a call does not use them."""
    for name, x in given.items():
        if x is not None and f.is_readable(x):
            check.per_system(name, f.value(name, x), system.systems)


def known_reach(lists: tuple[Any, ...], cutoff: Any, alpha: Any, edges: Boundaries) -> Any:
    """The cutoff of a call that chooses one where no list is given: that of the list, where this knows it."""
    cutoff = reach_of(lists, cutoff)
    # All pairs of a list count where there are open systems.
    counts_all = not edges.is_lattice and (alpha is not None or False not in edges.no_lattice)
    if cutoff is None and (lists[1] is not None or lists[4] is not None) and not counts_all:
        check.refuse("cutoff", "the cutoff that the neighbour list was built for", "None")
    return cutoff


def cutoffs_of(f: Framework, lists: tuple[Any, ...], cutoff: Any, systems: int) -> tuple[Any, Any]:
    """A cutoff, or a list of those of each system, and the one that is an input of the op."""
    if not isinstance(cutoff, (float, int)) and getattr(cutoff, "ndim", isinstance(cutoff, (list, tuple))):
        each = check.per_system("cutoff", f.value("cutoff", cutoff), systems)
        cutoff = each[0] if len(each) == 1 else each
    if isinstance(cutoff, list) and any(x is not None for x in lists[:-1]):
        check.refuse("cutoff", "one number with a neighbour list", f"{len(cutoff)} numbers")
    return cutoff, check.UNBOUNDED if isinstance(cutoff, list) else f.distance("cutoff", cutoff)


def parameters_of(
    f: Framework,
    of: tuple[Any, ...],
    alpha: Any,
    cutoff: Any,
    k_cutoff: Any,
    accuracy: Any,
    edges: Boundaries = PERIODIC,
    exponent: Any = 1,
) -> tuple[check.Charges, list[tuple[float, float, float, float]]]:
    """Charges as arrays of NumPy, and (alpha, cutoff, k_cutoff, predicted error) of each system."""
    charges, split, waves = f.values(*of), f.value("alpha", alpha), f.value("k_cutoff", k_cutoff)
    settings = check.settings(charges.systems, split, f.value("cutoff", cutoff), waves, accuracy)

    def estimated(some: check.Charges, settings: check.Settings) -> Any:
        return _native.ewald_parameters(some, settings, power_of(exponent))

    return charges, edges.parameters(f, of, charges, settings, estimated)
