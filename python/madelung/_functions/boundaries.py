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
        "cell and positions. With `miller_indices` and `mesh_dimensions`, which belong to a cell, that of the cell, "
        "whose gap is looked at: without values, in graphs, under transforms and on devices, it is needed there."
    ),
    None,
)
BOUNDARIES = PBC.but(
    text=text(
        "(3,) or (B, 3) of bool, the periodic axes of all systems or of each. Left out, an axis is periodic where its "
        "vector in `cell` is not zero. Three axes: Ewald's sum. Two: a slab, with `slab_correction=True`. One: a wire, "
        "summed over all pairs and all images along the axis, exactly; only the vector along the axis counts. No axis: "
        "an open system, summed over all pairs, exactly; its cell is not looked at. Wires and open systems need no "
        "list: pairs of theirs count in a given one with `exclusions`, `widths` or an `exponent` alone.",
        torch="In a compiled graph a tensor where all else is given: a given list is taken as made for these axes, "
        "slabs without `slab_correction` are NaN, and without `pbc` no vector may be zero.",
        jax="Under `jit` a traced array where all else is given: a given list is taken as made for these axes, slabs "
        "without `slab_correction` are NaN, and without `pbc` no vector may be zero.",
        cuda="An array of NumPy; True everywhere.",
    )
)

LATTICES = PBC.but(
    text=text(
        "(3,) or (B, 3) of bool, the periodic axes, two or three. None: the axes of the cell whose vectors are not "
        "zero.",
        jax="No traced array.",
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


def open_axes(f: Framework, cell: Any, pbc: Any) -> list[list[bool]] | None:
    """Periodic axes of a call without `pbc` whose cell has vectors of zero, which are open axes; None of others.

    Values are read, so calls ask only where they read them anyway, or where a cell has been refused.
    """
    if pbc is not None or cell is None or not f.is_readable(cell):
        return None
    h = f.value("cell", cell)
    # No vector is zero where no element of the diagonal is: for most cells all that has to be looked at.
    if getattr(h, "shape", None) == (3, 3) and h[0][0] and h[1][1] and h[2][2]:
        return None
    rows = check.cells(h).reshape(-1, 3, 3).any(-1)
    return None if rows.all() else rows.tolist()


def periodic_axes(f: Framework, cell: Any, pbc: Any) -> Any:
    """The periodic axes of a call in Python's own types, by its cell where `pbc` is not given."""
    return axes_of(f, open_axes(f, cell, pbc) if pbc is None else pbc) or ((cell is not None,) * 3,)


def of_kind(axes: Any, kind: str) -> Any:
    """Whether systems are of a kind, by an array (B, 3) of periodic axes and the names that plans have for kinds."""
    count = axes.sum(-1)
    if kind in ("lattice", "no_lattice"):
        return count > 1 if kind == "lattice" else count < 2
    return count == ("open", "wire", "slab", "crystal").index(kind)


def integers_of_kind(axes: Any, kind: str) -> Any:
    """1 for systems that are open, along the periodic axis of wires, and along the open axis of slabs; else 0."""
    found = of_kind(axes, kind)
    if kind == "open":
        return (1 - axes[:, 0]) * found
    return (axes if kind == "wire" else 1 - axes) * found[:, None]


# The cell of systems that are no lattice.
_UNIT = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


def with_unit_cells(f: Framework, systems: Any, cell: Any, count: Any) -> Any:
    """The cells of `count` systems, with the unit cell for some of them."""
    found = f.where(systems, _UNIT, cell)
    return found[0] if len(cell.shape) == 2 and count == 1 else found


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
        text=text("(3,) or (B, 3) of bool, the periodic axes: a system with two of them is a slab."),
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
    if f.has_no_value(pbc):
        periodic = f.axes("pbc", pbc, system)
        axes, is_none = integers_of_kind(periodic, "slab"), periodic.sum(-1) != 2
    else:
        rows = periodic_axes(f, cell, pbc)
        is_none = tuple([sum(row) != 2 for row in rows])
        slabs = [[int(not x and sum(row) == 2) for x in row] for row in rows]
        axes = np.array(each_system(slabs, system.systems), np.int32)
    if f.has_no_value(pbc) or any([sum(row) < 2 for row in rows]):
        # Cells of molecules and wires are not looked at.
        cell = with_unit_cells(f, is_none, cell, system.systems)
        system = f.system(positions, charges, cell, batch_idx)
    return f.energies("slab_correction", system, (), (f.indices(axes, system.positions),), wanted)
