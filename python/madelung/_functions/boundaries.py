"""Boundary conditions: their parameters, and the correction for slabs."""

from __future__ import annotations

from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung._functions.channels import CHANNELS, ENERGIES_OF_CHANNELS, of_channels
from madelung._functions.declare import KEYWORDS, REQUIRED, Parameter, function, text
from madelung._functions.framework import Framework
from madelung._functions.parameters import BATCH_IDX, CELL, ENERGY_ERRORS, OUTPUTS, PBC, POSITIONS, STREAM
from madelung._neighbors import plain_axes

SLAB_CORRECTION = Parameter(
    "slab_correction",
    "flag",
    text(
        "whether systems may be periodic along two axes: they then get the correction for slabs, see "
        "`slab_correction`, and are summed in a cell of the library's own height, or of `slab_height`. The vector "
        "along the open axis does not count, and may be zero.",
        jax="Under `jit` give `slab_height`.",
    ),
    False,
)
SLAB_HEIGHT = Parameter(
    "slab_height",
    "per_system",
    text(
        "height of the cells of slabs along their normal, in L, one for all systems or (B,), for calls that cannot "
        "read values: the thickness of the slab and a gap g of at least the cutoff, whose error falls as exp(−2πg/L) "
        "with the longer period L along the slab: g = 2.1 L for 1e-6 of the forces. None: chosen for `accuracy` from "
        "cell and positions. With `miller_indices` and `mesh_dimensions`, which belong to a cell, that of the cell."
    ),
    None,
)
BOUNDARIES = PBC.but(
    text=text(
        "(3,) or (B, 3) of bool, the periodic axes. Three: Ewald's sum. None: an open system, whose sum is over all "
        "pairs, exactly, whatever list is given; its cell is not looked at. One: a wire, over all pairs and all images "
        "along the axis, exactly; of its cell the vector along the axis counts. Of a list the pairs of both count with "
        "`exclusions`, `widths` or an `exponent` alone. Two: a slab, with `slab_correction=True`. None for all: True, "
        "or without a cell False.",
        jax="No traced array.",
        cuda="An array of NumPy; True everywhere.",
    )
)

LATTICES = PBC.but(
    text=text(
        "(3,) or (B, 3) of bool, the periodic axes, two or three. None: all axes of the cell.", jax="No traced array."
    )
)


def axes_of(f: Framework, pbc: Any) -> tuple[tuple[bool, ...], ...] | None:
    """Periodic axes in Python's own types, which compiled graphs hold as constants: a row of each system or all."""
    plain = None if pbc is None else plain_axes(pbc)
    if pbc is None or plain is not None:
        return plain
    return tuple([tuple(row) for row in f.untraced(_read_axes, f, pbc)])


def _read_axes(f: Framework, pbc: Any) -> Any:
    axes = check.periodic(f.value("pbc", pbc))
    assert axes is not None
    return axes.tolist()


def each_system(rows: Any, systems: Any) -> Any:
    """A row for each system, from rows of each or one of all."""
    if len(rows) not in (1, systems):
        check.refuse("pbc", f"one row, or one for each of {systems} systems", f"{len(rows)} rows")
    return rows * (systems if len(rows) == 1 else 1)


@function(
    POSITIONS,
    CHANNELS,
    CELL,
    PBC.but(
        default=REQUIRED,
        text=text(
            "(3,) or (B, 3) of bool, the periodic axes: a system with two of them is a slab.", jax="No traced array."
        ),
    ),
    KEYWORDS,
    BATCH_IDX,
    OUTPUTS,
    STREAM,
    returns=ENERGIES_OF_CHANNELS,
    raises=ENERGY_ERRORS,
)
@of_channels
def slab_correction(
    f: Framework, positions: Any, charges: Any, cell: Any, pbc: Any, batch_idx: Any, outputs: tuple[Any, ...]
) -> Any:
    """The correction of a sum over the lattice for slabs, which are no lattice along their normal.

    (2π/V) [(Σ q z)² − Q Σ q z² − Q² L²/12] with the height z along the normal and the period L, in any cell, charged or
    not (Yeh and Berkowitz, J. Chem. Phys. 111, 3155 (1999); Ballenegger, Arnold and Cerdà, J. Chem. Phys. 131,
    094107 (2009)). To be added to an Ewald sum, as `slab_correction=True` does there. Atoms of a slab are not wrapped
    along its normal. Zero for all other systems.
    """
    wanted, system = f.outputs(outputs), f.system(positions, charges, cell, batch_idx)
    rows = [[int(not x and sum(row) == 2) for x in row] for row in axes_of(f, pbc) or ((True,) * 3,)]
    axes = np.array(each_system(rows, system.systems), np.int32)
    return f.energies("slab_correction", system, (), (f.indices(axes, system.positions),), wanted)
