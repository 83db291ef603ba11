"""Gaussian charges: declarations and bodies of the public functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung._functions.boundaries import axes_of, each_system, of_kind
from madelung._functions.channels import CHANNELS, ENERGIES_OF_CHANNELS, of_channels
from madelung._functions.declare import KEYWORDS, Parameter, function, text
from madelung._functions.framework import Framework
from madelung._functions.lists import pairs_of, reach_of
from madelung._functions.parameters import (
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

WIDTHS = Parameter("widths", "reals", text("(N,), the width σ of each charge, in L, above zero."), shape=("N",))
SPREADS = WIDTHS.but(
    default=None,
    text=text(
        "(N,), the width σ of each charge, in L, above zero: Gaussian charges in place of points, see "
        "`gaussian_correction`. Pairs closer than 11 σ are searched for; of a list that is given all pairs count."
    ),
)


@function(
    POSITIONS,
    CHANNELS,
    WIDTHS,
    CELL.but(
        default=None,
        text=text("(3, 3), for all systems, or (B, 3, 3); rows are lattice vectors. None: no axis is periodic."),
    ),
    KEYWORDS,
    CUTOFF.but(
        text=text(
            "pairs closer than it count, in L; the error is erfc(r/2σ) of the largest σ there. None: all pairs of a "
            "list that is given, or those closer than 11 σ.",
            jax="A Python number.",
        )
    ),
    LISTS,
    PBC.but(text=text("(3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero.")),
    BATCH_IDX,
    OUTPUTS,
    STREAM,
    returns=ENERGIES_OF_CHANNELS,
    raises=ENERGY_ERRORS,
)
@of_channels
def gaussian_correction(
    f: Framework,
    positions: Any,
    charges: Any,
    widths: Any,
    cell: Any,
    cutoff: Any,
    lists: tuple[Any, ...],
    pbc: Any,
    batch_idx: Any,
    outputs: tuple[Any, ...],
) -> Any:
    """The Coulomb energy of Gaussian charges less that of point charges: to be added to a sum of the latter.

    Charge i has the density q_i (2πσ_i²)^(−3/2) exp(−r²/2σ_i²). The sum is −½ Σ q_i q_j erfc(r/√(2(σ_i²+σ_j²)))/r
    over pairs, and Σ q_i²/(2√π σ_i), the energies of charges with themselves. With three periodic axes
    (2π/V) Σ q_i Σ q_i σ_i² is added, so that the whole has no term k = 0, as an Ewald sum of point charges has none:
    zero for a neutral cell, but part of ∂E/∂q.
    """
    h = f.no_cell(positions) if cell is None else cell
    wanted, system = f.outputs(outputs), f.system(positions, charges, h, batch_idx)
    spreads = f.reals("widths", widths, ("N",), system.positions)
    reach = f.distance("cutoff", reach_of(lists, cutoff))
    if reach is None and all(x is None for x in lists[:-1]):
        reach = f.untraced(reach_of_widths, f, spreads)
    pairs = pairs_of(f, system, (positions, cell, pbc, batch_idx), lists, reach)
    reach = check.UNBOUNDED if reach is None else reach
    if f.has_no_value(pbc):
        background = of_kind(f.axes("pbc", pbc, system), "crystal")
    else:
        # A cell with a vector of zero has none.
        axes = axes_of(f, pbc) or ((cell is not None,) * 3,)
        background = np.array([float(all(row)) for row in each_system(axes, system.systems)])
    inputs = (spreads, f.numbers(background, system.positions), *pairs, reach)
    return f.energies("gaussian_correction", system, (), inputs, wanted)


def widest_of(f: Framework, widths: Any) -> float:
    """The largest width of Gaussian charges."""
    sigma = np.asarray(f.value("widths", widths), np.float64)
    if not (np.isfinite(sigma).all() and (sigma > 0.0).all()):
        check.refuse("widths", "numbers above zero", sigma.tolist() if len(sigma) < 10 else float(sigma.min()))
    return float(np.max(sigma, initial=1e-3))


def reach_of_widths(f: Framework, widths: Any) -> float:
    """The distance beyond which Gaussian charges are point charges."""
    return _native.gaussian_reach(widest_of(f, widths), None)
