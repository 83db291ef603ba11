"""Whether atoms have left the skin of their list: declaration and body of the public function."""

from __future__ import annotations

from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung._functions.declare import KEYWORDS, Parameter, function, text
from madelung._functions.framework import Framework
from madelung._functions.parameters import BATCH_IDX, CELL, ERRORS, PBC, POSITIONS, STREAM


@function(
    POSITIONS.but(text=text("(N, 3), float32 or float64, as they are now.")),
    Parameter("reference_positions", "reals", text("(N, 3), of the same dtype, those that the list was made for.")),
    Parameter(
        "skin",
        "number",
        text("by which the radius of the list exceeds the cutoff of what it is used for.", jax="A Python number."),
    ),
    CELL.but(default=None, text=text("(3, 3) or (B, 3, 3), as they are now and as the list was made for; or neither.")),
    CELL.but(name="reference_cell", default=None, text=text("")),
    KEYWORDS,
    PBC.but(
        text=text(
            "(3,) or (B, 3) of bool, as they are now and as the list was made for. None: all axes of a cell.",
            cuda="Those of the device are int32 (B, 3), or are read.",
        )
    ),
    PBC.but(name="reference_pbc", text=text("")),
    BATCH_IDX.but(
        text=text(
            "(N,), the system of each atom, sorted.",
            torch="In compiled graphs with a cell for each system.",
            jax="Under `jit` with a cell for each system.",
        )
    ),
    STREAM,
    notes={
        "torch": "Compiled graphs hold the call. On a device nothing is read or waited for.",
        "jax": "Under `jit` too.",
        "cuda": "Nothing is waited for.",
    },
    returns=text("(B,) bool, for each system.", cuda="As int32, 1 or 0."),
    raises=ERRORS,
    result="Array",
)
def needs_rebuild(
    f: Framework,
    positions: Any,
    reference_positions: Any,
    skin: Any,
    cell: Any,
    reference_cell: Any,
    pbc: Any,
    reference_pbc: Any,
    batch_idx: Any,
) -> Any:
    """Whether a neighbour list of each system has to be made again before pairs within the cutoff may be missing.

    That is so once an atom has moved by more than half of the skin from its reference, or cell or periodic axes
    are others. An atom that is nowhere (NaN) has moved.
    """
    if not check.number("skin", skin) >= 0.0:
        check.refuse("skin", "a number from 0 up", skin)
    if (cell is None) != (reference_cell is None):
        check.refuse("reference_cell", "a cell where there is one now, else None", check.described(reference_cell))
    lattice = f.no_cell(positions) if cell is None else cell
    system = f.system(positions, check.NO_CHARGES, lattice, batch_idx)
    r, h, of = f.atoms(system)
    before, known = f.reals("reference_positions", reference_positions, ("N", 3), r), h
    check.fits("reference_positions", before, r.shape)
    if cell is not None:
        shape = tuple(cell.shape if hasattr(cell, "shape") else np.shape(cell))
        known = f.reals("reference_cell", reference_cell, shape, r)
        check.fits("reference_cell", known, shape)
        known = f.atoms(f.system(before, check.NO_CHARGES, known, batch_idx, "reference_positions"))[1]
    check.fits("batch_idx", of, r.shape[:1])
    if pbc is None and reference_pbc is None:
        axes = [f.indices(np.empty((0, 3), np.int32), r)] * 2
    else:
        of_cell = (cell is not None,) * 3
        given = {"pbc": pbc, "reference_pbc": reference_pbc}
        axes = [f.axes(name, of_cell if x is None else x, system) for name, x in given.items()]
    (flags,) = f.search("needs_rebuild", r, before, h, known, of, system.systems, float(skin), *axes)
    return f.flags(flags)
