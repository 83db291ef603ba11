"""Coulomb sums over pairs: declarations and bodies of the public functions."""

from __future__ import annotations

from typing import Any

from madelung import _arguments as check
from madelung._functions.boundaries import periodic_axes
from madelung._functions.channels import CHANNELS, ENERGIES_OF_CHANNELS, of_channels
from madelung._functions.declare import KEYWORDS, REQUIRED, Parameter, function, text
from madelung._functions.exclusions import EXCLUSIONS
from madelung._functions.framework import Framework
from madelung._functions.laws import EXPONENT, law_of
from madelung._functions.parameters import (
    ALPHA,
    BATCH_IDX,
    CELL,
    CUTOFF,
    ENERGY_ERRORS,
    LISTS,
    OUTPUTS,
    PBC,
    POSITIONS,
    STREAM,
)
from madelung._functions.plans import summed
from madelung._functions.sum_arguments import arguments


@function(
    POSITIONS,
    CHANNELS,
    CELL.but(
        default=None,
        text=text("(3, 3), for all systems, or (B, 3, 3); rows are lattice vectors. None: no axis is periodic."),
    ),
    KEYWORDS,
    CUTOFF.but(
        text=text(
            "pairs closer than it count, in L. None: all pairs of systems without a periodic axis, whatever list is "
            "given; of others, or with damping, all pairs of the list.",
            jax="A Python number.",
        )
    ),
    Parameter("alpha", "number", text("damping α in 1/L, from 0 up.", jax="A Python number."), 0.0),
    LISTS,
    EXCLUSIONS,
    EXPONENT,
    PBC.but(text=text("(3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero.")),
    BATCH_IDX,
    OUTPUTS,
    STREAM,
    returns=ENERGIES_OF_CHANNELS,
    raises=ENERGY_ERRORS,
    op="ewald_real_space",
)
@of_channels
def coulomb(
    f: Framework,
    positions: Any,
    charges: Any,
    cell: Any,
    cutoff: Any,
    alpha: Any,
    lists: tuple[Any, ...],
    exclusions: Any,
    exponent: Any,
    pbc: Any,
    batch_idx: Any,
    outputs: tuple[Any, ...],
) -> Any:
    """The Coulomb energy over pairs: ½ Σ q_i q_j erfc(αr)/r, over all pairs of a molecule or those within a cutoff.

    Open systems (no cell) need no cutoff: the sum is exact. Over pairs within a cutoff it converges slowly, if at all;
    see `dsf`, and `ewald_summation` for periodic systems.
    """
    law, damping = law_of((exponent, None)), check.number("alpha", alpha)
    if damping < 0.0:
        check.refuse("alpha", "a number from 0 up", damping)
    is_whole = False
    if cutoff is None:
        axes = periodic_axes(f, cell, pbc)
        is_whole = damping == 0.0 and not any([x for row in axes for x in row])
        # The axes of a cell whose vectors are zero are open.
        pbc = pbc if cell is None else axes
    given = {"pbc": pbc, "slab_correction": True, "lists": lists, "exclusions": exclusions, "law": law}
    reach = f.distance("cutoff", cutoff)
    of = arguments(positions, charges, cell, batch_idx, alpha=damping or None, cutoff=reach, **given)
    return summed(f, of, "waves" if is_whole else "pairs", outputs)


@function(
    POSITIONS,
    CHANNELS,
    CUTOFF.but(default=REQUIRED, text=text("radius r_c of the sum, in L.", jax="A Python number.")),
    ALPHA.but(default=0.2, text=text("damping α in 1/L, one for all systems or (B,).")),
    CELL.but(
        default=None,
        text=text("(3, 3), for all systems, or (B, 3, 3); rows are lattice vectors. None: no axis is periodic."),
    ),
    KEYWORDS,
    LISTS,
    PBC.but(text=text("(3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero.")),
    BATCH_IDX,
    OUTPUTS,
    STREAM,
    returns=ENERGIES_OF_CHANNELS,
    raises=ENERGY_ERRORS,
    op="damped_shifted_force",
)
@of_channels
def dsf(
    f: Framework,
    positions: Any,
    charges: Any,
    cutoff: Any,
    alpha: Any,
    cell: Any,
    lists: tuple[Any, ...],
    pbc: Any,
    batch_idx: Any,
    outputs: tuple[Any, ...],
) -> Any:
    """The damped shifted force sum of Fennell and Gezelter, J. Chem. Phys. 124, 234104 (2006).

    With v(r) = erfc(αr)/r, ½ Σ q_i q_j [v(r) − v(r_c) − v′(r_c)(r − r_c)] over pairs closer than r_c, and of each
    charge with itself −q²[v(r_c)/2 − r_c v′(r_c)/2 + α/√π]: energies and forces go to zero at the cutoff. An
    approximation of Ewald's sum for disordered, neutral systems, whose time goes with N.
    """
    reach = f.distance("cutoff", cutoff)
    if reach is None:
        check.refuse("cutoff", "the radius of the sum", "None")
    given = {"pbc": pbc, "slab_correction": True, "lists": lists}
    of = arguments(positions, charges, cell, batch_idx, alpha=alpha, cutoff=reach, **given)
    return summed(f, of, "shifted", outputs)
