"""Ewald sums: declarations and bodies of the public functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung._functions.boundaries import (
    BOUNDARIES,
    LATTICES,
    SLAB_CORRECTION,
    SLAB_HEIGHT,
    axes_of,
    each_system,
    open_axes,
)
from madelung._functions.channels import CHANNELS, ENERGIES_OF_CHANNELS, of_channels
from madelung._functions.declare import KEYWORDS, REQUIRED, Parameter, function, text
from madelung._functions.exclusions import EXCLUSIONS
from madelung._functions.framework import Framework
from madelung._functions.gaussians import SPREADS
from madelung._functions.laws import EXPONENT, LAW, law_of
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
    PBC,
    POSITIONS,
    STREAM,
)
from madelung._functions.plans import estimated, summed
from madelung._functions.results import EwaldParameters
from madelung._functions.sum_arguments import Arguments, arguments, part
from madelung._functions.waves import check_waves

METHOD = Parameter(
    "method",
    "word",
    text(
        '"direct": all pairs and waves in one pass, without a list, for systems of some tens to a few hundred atoms '
        "and batches of them. The cutoff is then at most the smallest height of the cell, and half of it or all where "
        'it is chosen. "list": pairs of a list, which is given or searched for. None: "list" where a list or a '
        "parameter is given; else, for each system, the sum that costs less.",
        torch="In graphs, under transforms of `torch.func` and on devices that is the one over a list.",
        jax="On devices that is the one over a list.",
        cuda="That is the one over a list.",
    ),
    None,
    words=("direct", "list"),
)

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
    LAW,
    BATCH_IDX,
    OUTPUTS,
    STREAM,
    returns=ENERGIES_OF_CHANNELS,
    raises=ENERGY_ERRORS,
    op="ewald_real_space",
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
    pair_law: tuple[Any, Any],
    batch_idx: Any,
    outputs: tuple[Any, ...],
) -> Any:
    """The real-space part of an Ewald sum: ½ Σ q_i q_j erfc(αr)/r over pairs closer than `cutoff`."""
    given = {"lists": lists, "exclusions": exclusions, "law": law_of(pair_law, exclusions)}
    of = part(positions, charges, cell, batch_idx, alpha=alpha, cutoff=f.distance("cutoff", cutoff), **given)
    return summed(f, of, "real_space", outputs)


@function(
    *SYSTEM_OF_CHANNELS,
    ALPHA,
    K_CUTOFF,
    KEYWORDS,
    MILLER,
    EXCLUSIONS,
    LAW,
    BATCH_IDX,
    OUTPUTS,
    STREAM,
    returns=ENERGIES_OF_CHANNELS,
    raises=ENERGY_ERRORS,
    op="ewald_reciprocal_space",
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
    pair_law: tuple[Any, Any],
    batch_idx: Any,
    outputs: tuple[Any, ...],
) -> Any:
    """The reciprocal part of an Ewald sum, over 0 < |k| ≤ `k_cutoff`.

    The self term −α/√π Σq² and the uniform background −πQ²/(2α²V) of a charged cell are part of it.
    """
    check_waves(k_cutoff, miller)
    given = {"k_cutoff": k_cutoff, "miller": miller, "exclusions": exclusions, "law": law_of(pair_law, exclusions)}
    return summed(f, part(positions, charges, cell, batch_idx, alpha=alpha, **given), "reciprocal_space", outputs)


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
    LAW,
    SPREADS,
    ACCURACY,
    BOUNDARIES,
    SLAB_CORRECTION,
    SLAB_HEIGHT,
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
    op="ewald_summation",
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
    pair_law: tuple[Any, Any],
    widths: Any,
    accuracy: Any,
    pbc: Any,
    slab_correction: Any,
    slab_height: Any,
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
    parameters = (alpha, cutoff, k_cutoff, miller, (None, None))
    others = (exclusions, law_of(pair_law, exclusions), widths, accuracy, method)
    slabs = (pbc, slab_correction, slab_height)
    of = Arguments(positions, charges, cell, batch_idx, *slabs, lists, *parameters, *others)
    return summed(f, of, "waves", outputs)


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
    LATTICES,
    SLAB_HEIGHT,
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
    pbc: Any,
    slab_height: Any,
    batch_idx: Any,
) -> EwaldParameters:
    """The parameters that `ewald_summation` uses over a list: the cheapest for an accuracy.

    By the error estimates of Kolafa and Perram, Mol. Simul. 9, 351 (1992), for charges at random places. Errors of
    ordered and of small systems are smaller or larger, so the estimate that is chosen, and predicted, is about half of
    the accuracy.
    """
    law = law_of((exponent, None))
    given = {"alpha": alpha, "cutoff": cutoff, "k_cutoff": k_cutoff, "law": law, "accuracy": accuracy}
    of = arguments(positions, charges, cell, batch_idx, pbc=pbc, slab_correction=True, slab_height=slab_height, **given)
    found, single = estimated(f, of, "waves")
    each = found.alpha, found.cutoff, found.k_cutoff, found.errors, found.heights
    if single:
        return EwaldParameters(*(x[0] for x in each))
    return EwaldParameters(*(f.array(np.array(x), positions) for x in each))


@function(
    CELL.but(text=text("(3, 3) or (B, 3, 3), rows are lattice vectors.", cuda="It is read.")),
    K_CUTOFF.but(default=REQUIRED, text=text("in radians per L, one for all systems or (B,).")),
    KEYWORDS,
    PBC.but(
        text=text(
            "(3,) or (B, 3) of bool, the periodic axes: systems with fewer than two have no waves, and slabs those of "
            "a cell of `slab_height`. None: the axes of the cell whose vectors are not zero.",
            jax="No traced array.",
        )
    ),
    SLAB_HEIGHT.but(text=text("height of the cells of slabs along their normal, in L, one for all systems or (B,).")),
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
def generate_miller_indices(f: Framework, cell: Any, k_cutoff: Any, pbc: Any, slab_height: Any) -> tuple[Any, Any]:
    """The wave vectors k = m · B with 0 < |k| ≤ `k_cutoff`, one of each two ±k, where B = 2π (cell⁻¹)ᵀ.

    To be given in place of `k_cutoff`, for cells that change so little that the set may stay.
    """
    systems = len(check.cells(f.value("cell", cell)).reshape(-1, 3, 3))
    radii = check.per_system("k_cutoff", f.value("k_cutoff", k_cutoff), systems)
    axes = axes_of(f, open_axes(f, cell, pbc) if pbc is None else pbc)
    if axes is not None:
        periodic = each_system(axes, systems)
        # Systems that are no lattice have no waves.
        radii = [x if sum(row) > 1 else 0.0 for x, row in zip(radii * (systems if len(radii) == 1 else 1), periodic)]
        if any([sum(row) == 2 for row in periodic]):
            if slab_height is None:
                check.refuse("slab_height", "the height of the cell of slabs, to which the waves belong", "None")
            axis = np.array([[not x and sum(row) == 2 for x in row] for row in periodic], np.int32)
            heights = np.array(check.per_system("slab_height", f.value("slab_height", slab_height), systems))
            cell = (cell if hasattr(cell, "shape") else np.asarray(cell, np.float64)).reshape((systems, 3, 3))
            heights = f.numbers(np.broadcast_to(heights, (systems,)).copy(), cell)
            (cell,) = f.op("upright_cells", cell, heights, f.indices(axis, cell))
    indices, of = f.waves(cell, radii, systems)
    return f.copied(indices), f.copied(of)
