"""Charges that are not periodic along all axes: declarations and bodies of the public functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from madelung import _arguments as check
from madelung._functions.channels import CHANNELS, ENERGIES_OF_CHANNELS, of_channels
from madelung._functions.declare import KEYWORDS, REQUIRED, Parameter, function, text
from madelung._functions.exclusions import EXCLUSIONS, Excluded, excluded_pairs, total, without
from madelung._functions.framework import Framework
from madelung._functions.lists import pairs_of, reach_of
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
from madelung._functions.powers import EXPONENT, check_neutral, law_of, power_of
from madelung._neighbors import plain_axes

# An open system is a periodic one whose period L and splitting parameter α = 1/L leave nothing of images, waves and
# erf(αr).
# In float32 volumes and squares of wave numbers have to stay within its range.
_PERIODS = {"float64": 1e30, "float32": 1e10}

SLAB_CORRECTION = Parameter(
    "slab_correction",
    "flag",
    text(
        "whether systems that are periodic along two axes get the correction for slabs: see `slab_correction`. Their "
        "cell has a gap g along the open axis, whose error falls as exp(−2πg/L) with the longer period L along the "
        "slab: below 1e-6 of the energy for g = L."
    ),
    False,
)
BOUNDARIES = PBC.but(
    text=text(
        "(3,) or (B, 3) of bool, the periodic axes. Three: Ewald's sum. None: an open system, whose sum is over all "
        "pairs, exactly; its cell is not looked at, and a list that is given for it has all of its pairs. One: a wire, "
        "over all pairs and all images along the axis, exactly; of its cell the vector along the axis counts, and of a "
        "list its pairs with `exclusions` or `widths` alone. Two: a slab, with `slab_correction=True`. None for all: "
        "True, or without a cell False.",
        jax="No traced array.",
        cuda="An array of NumPy; True everywhere.",
    )
)


class Boundaries(NamedTuple):
    """The boundary conditions of a call, in Python's own types: compiled graphs hold them as constants."""

    no_lattice: tuple[bool, ...]
    """Whether each system, or all of them, is summed over all pairs: without a periodic axis, or with one."""
    slab_axes: tuple[tuple[int, ...], ...] | None
    """1 along the axis along which a slab is open, of each system or all; None where no slab is corrected."""
    wire_axes: tuple[tuple[int, ...], ...] | None
    """1 along the periodic axis of a wire, of each system or all; None where there is no wire."""
    axes: Any
    """The periodic axes of lists."""
    wire_reaches: tuple[float, ...] = ()
    """How far lists have the pairs of the wires of each system or of all: half a period. Empty where none count."""

    @property
    def is_lattice(self) -> bool:
        """Whether all systems are summed over a lattice."""
        return True not in self.no_lattice

    def check(self, systems: Any) -> None:
        """Refuses rows of other systems than those of a call."""
        if len(self.no_lattice) not in (1, systems):
            check.refuse("pbc", f"one row, or one for each of {systems} systems", f"{len(self.no_lattice)} rows")

    def closed(self, f: Framework, cell: Any, positions: Any) -> Any:
        """The cells of a call: those of systems that are no lattice with a period of which no image is seen."""
        if self.is_lattice:
            return cell
        if cell is None or (False not in self.no_lattice and len(cell.shape) == 2):
            return f.no_cell(positions) * period_of(positions)
        wide = [[period_of(positions) * (k == n) for k in range(3)] for n in range(3)]
        return f.where(self.no_lattice, wide, cell)

    def splits(self, f: Framework, alpha: Any) -> Any:
        """Splitting parameters (B,): those of systems that are no lattice leave no reciprocal part."""
        return alpha if self.is_lattice else f.where(self.no_lattice, 1.0 / period_of(alpha), alpha)

    def parameters(
        self, f: Framework, of: tuple[Any, ...], charges: check.Charges, settings: Any, estimate: Callable[..., Any]
    ) -> list[Any]:
        """(alpha, cutoff, …) of each system: those of open ones reach all pairs. `estimate` gives those of lattices."""
        if self.is_lattice:
            return estimate(charges, settings)
        no_lattice = np.broadcast_to(self.no_lattice, (charges.systems,))
        some = {}
        for name in ("alpha", "cutoff", "k_cutoff", "mesh_dimensions", "spline_order"):
            given = getattr(settings, name, None)
            if given is not None and len(given) > 1:
                some[name] = [x for x, skip in zip(given, no_lattice) if not skip]
        found: Any = ()
        if not no_lattice.all():
            found = estimate(_of_systems(charges, ~no_lattice), replace(settings, **some))
        others, reaches = iter(found), extents(f, of[0], of[3], charges.systems)
        of_wires = np.broadcast_to(self.wire_reaches or (0.0,), (charges.systems,))
        for b, axis in enumerate(np.broadcast_to(self.wire_axes or (0,), (charges.systems, 3))):
            if axis.any():
                reaches[b] = max(float(of_wires[b]), 1e-9 * reaches[b])
        alpha = 1.0 / period_of(of[0])
        return [(alpha, reaches[b], 0.1 * alpha) if no_lattice[b] else next(others) for b in range(charges.systems)]

    def with_pairs(self, f: Framework, cell: Any, excluded: Any, lists: tuple[Any, ...]) -> Boundaries:
        """The same with the pairs of wires in the lists that a call searches for, as exclusions need them."""
        if self.wire_axes is None or excluded is None or any([x is not None for x in lists[:-1]]):
            return self
        return self._replace(wire_reaches=f.untraced(_half_periods, f, self.wire_axes, cell))

    def listed(self, f: Framework, system: Any, of: tuple[Any, ...], cell: Any) -> tuple[Any, tuple[Any, ...]]:
        """The atoms of a list, in the cells that were given for it."""
        positions, charges, _, batch_idx = of
        if not self.is_lattice:
            system = f.system(positions, charges, f.no_cell(positions) if cell is None else cell, batch_idx)
        return system, (positions, cell, self.axes, batch_idx)

    @property
    def only_wires(self) -> bool:
        """Whether no system takes part in a sum over the lattice."""
        return self.wire_axes is not None and all([1 in axis for axis in self.wire_axes])

    def wires(
        self, f: Framework, of: tuple[Any, ...], cell: Any, pairs: Any, reach: Any, excluded: Excluded | None
    ) -> tuple[Any, ...] | None:
        """The op of the wires of a call, its inputs, and its atoms, in the cells that were given.

        With exclusions it takes a list without these, of pairs as far as `reach`.
        """
        if self.wire_axes is None:
            return None
        positions, charges, _, batch_idx = of
        system = f.system(positions, charges, cell, batch_idx)
        axes = _of_each(f, self.wire_axes, system)
        if excluded is None:
            return "wire_summation", (), (axes,), system
        left_out = excluded.inputs(check.UNBOUNDED if reach is None else reach, (1.0, 1.0))
        return (
            "wire_summation_without",
            (),
            (axes, *pairs, *left_out),
            self._charged(f, (*of[:2], cell, batch_idx), wires=True),
        )

    def wires_alone(
        self,
        f: Framework,
        of: tuple[Any, ...],
        cell: Any,
        listed: tuple[Any, tuple[Any, ...]],
        lists: tuple[Any, ...],
        cutoff: Any,
        excluded: Excluded | None,
    ) -> tuple[Any, ...] | None:
        """The same of a call that has nothing else, with the list that exclusions need."""
        has_list = any([x is not None for x in lists[:-1]])
        if excluded is None:
            if has_list:
                f.listed(listed[0], lists, None)
            return self.wires(f, of, cell, (), None, None)
        search = cutoff if has_list else np.broadcast_to(self.wire_reaches, listed[0].systems).tolist()
        reach = cutoff if has_list else None
        pairs = without(f, pairs_of(f, *listed, lists, search), excluded)
        return self.wires(f, of, cell, pairs, reach, excluded)

    def check_law(self, f: Framework, of: tuple[Any, ...], exponent: Any) -> None:
        """Refuses an inverse power that these systems have no sum of."""
        p = power_of(exponent)
        if p > 1 and (self.slab_axes is not None or self.wire_axes is not None):
            check.refuse("exponent", "1 with slabs and wires", p)
        check_neutral(f, of, p, self.no_lattice)

    def check_widths(self, widths: Any, exclusions: Any, exponent: Any) -> None:
        """Refuses what Gaussian charges of their own widths do not go with."""
        if widths is None:
            return
        if exclusions is not None:
            check.refuse("exclusions", "None with `widths`", check.described(exclusions))
        if power_of(exponent) != 1:
            check.refuse("exponent", "1 with `widths`", exponent)

    def lattices(self, f: Framework, system: Any, of: tuple[Any, ...]) -> Any:
        """The atoms of a sum over the lattice, in which those of wires have no charge: they may be in its list."""
        return system if self.wire_axes is None else self._charged(f, of, wires=False)

    def _charged(self, f: Framework, of: tuple[Any, ...], wires: bool) -> Any:
        """The atoms of a call, in which those of wires alone have charges, or those of other systems."""
        positions, charges, cell, batch_idx = of
        system = f.system(positions, charges, cell, batch_idx)
        r, _, idx = f.atoms(system)
        each = [float((1 in axis) == wires) for axis in self.wire_axes or ()]
        counts = f.numbers(np.array(each * (system.systems if len(each) == 1 else 1)), r)
        return f.system(positions, charges * f.taken(counts, idx), cell, batch_idx)


PERIODIC = Boundaries((False,), None, None, None)


def _half_periods(f: Framework, axes: tuple[tuple[int, ...], ...], cell: Any) -> tuple[float, ...]:
    """Half the period of the wire of each system, or of all."""
    h = np.asarray(f.value("cell", cell), np.float64).reshape(-1, 3, 3)
    along = (np.array(axes)[:, :, None] * h).sum(axis=1)
    return tuple((0.5 * np.linalg.norm(along, axis=1)).tolist())


def _of_systems(charges: check.Charges, chosen: Any) -> check.Charges:
    """The charges of some systems."""
    idx, systems = charges.groups.of(len(charges.positions))
    here = chosen[idx]
    batch_idx = (np.cumsum(chosen) - 1).astype(np.int32)[idx[here]]
    cell = np.broadcast_to(charges.cell, (systems, 3, 3))[chosen]
    groups = check.Groups(batch_idx=batch_idx, systems=len(cell))
    return check.Charges(charges.positions[here], np.asarray(charges.charges)[here], np.ascontiguousarray(cell), groups)


def period_of(x: Any) -> float:
    """The period of open systems, by the dtype of an array."""
    return next(period for name, period in _PERIODS.items() if name in str(x.dtype))


def extents(f: Framework, positions: Any, batch_idx: Any, systems: int) -> list[float]:
    """A distance beyond all pairs of each system."""
    r = np.asarray(f.value("positions", positions), np.float64).reshape(-1, 3)
    of = np.zeros(len(r), np.int64) if batch_idx is None else np.asarray(f.value("batch_idx", batch_idx))
    found = []
    for b in range(systems):
        own = r[of == b]
        size = np.linalg.norm(np.ptp(own, axis=0)) if len(own) else 0.0
        found.append(1.001 * float(size) + 1e-3 if np.isfinite(size) else 1.0)
    return found


def periodic_axes(f: Framework, pbc: Any, cell: Any) -> tuple[tuple[bool, ...], ...]:
    """The periodic axes of each system, or of all."""
    if pbc is None:
        return ((cell is not None,) * 3,)
    plain = plain_axes(pbc)
    if plain is not None:
        return plain
    read = f.untraced(lambda: check.periodic(f.value("pbc", pbc)))
    return tuple([tuple(row) for row in read.tolist()])


def boundaries(f: Framework, pbc: Any, cell: Any, correct: Any) -> Boundaries:
    """The boundary conditions that `pbc` says."""
    is_corrected = check.flag("slab_correction", correct)
    if pbc is None and cell is not None and not is_corrected:
        return PERIODIC
    axes = periodic_axes(f, pbc, cell)
    if cell is None and any([True in row for row in axes]):
        check.refuse("cell", "lattice vectors for the periodic axes", "None")
    check.lattices(None if cell is None or len(cell.shape) == 2 else cell.shape[0], axes)
    counts = [sum(row) for row in axes]
    if (2 in counts) != is_corrected:
        if is_corrected:
            check.refuse("slab_correction", "False without a system that is periodic along two axes", True)
        b = counts.index(2)
        check.refuse("pbc", "two periodic axes with `slab_correction=True` alone", f"{list(axes[b])} (system {b})")
    slabs = (
        tuple([tuple([int(not x and n == 2) for x in row]) for row, n in zip(axes, counts)]) if is_corrected else None
    )
    wires = tuple([tuple([int(x and n == 1) for x in row]) for row, n in zip(axes, counts)]) if 1 in counts else None
    no_lattice = tuple([n < 2 for n in counts])
    # Images of a slab are neighbours, too: the correction is one of the sum over the lattice.
    lists = tuple([row if n < 2 else (True,) * 3 for row, n in zip(axes, counts)])
    return Boundaries(no_lattice, slabs, wires, lists if True in no_lattice and cell is not None else None)


def slab_term(f: Framework, system: Any, slabs: Any) -> tuple[Any, ...] | None:
    """The op of the correction for slabs, and its inputs."""
    return None if slabs is None else ("slab_correction", (), (_of_each(f, slabs, system),))


def _of_each(f: Framework, axes: tuple[tuple[int, ...], ...], system: Any) -> Any:
    """An axis of each system, from those of each or one of all."""
    each = np.array(axes * (system.systems if len(axes) == 1 else 1), np.int32).reshape(-1, 3)
    return f.indices(each, f.atoms(system)[0])


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
    edges = boundaries(f, pbc, cell, True)
    edges.check(system.systems)
    return total(f, system, wanted, slab_term(f, system, edges.slab_axes))


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
            "pairs closer than it count, in L. None: all pairs of the list, or all pairs of systems without a periodic "
            "axis.",
            jax="A Python number.",
        )
    ),
    Parameter("alpha", "number", text("damping α in 1/L, from 0 up.", jax="A Python number."), 0.0),
    LISTS,
    EXCLUSIONS,
    EXPONENT,
    PBC.but(text=text("(3,) or (B, 3) of bool. None: all axes of a cell are periodic.", jax="No traced array.")),
    BATCH_IDX,
    OUTPUTS,
    STREAM,
    returns=ENERGIES_OF_CHANNELS,
    raises=ENERGY_ERRORS,
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
    damping = check.number("alpha", alpha)
    if damping < 0.0:
        check.refuse("alpha", "a number from 0 up", damping)
    axes = check.periodic(f.value("pbc", pbc))
    h = f.no_cell(positions) if cell is None else cell
    wanted, system = f.outputs(outputs), f.system(positions, charges, h, batch_idx)
    reach = f.distance("cutoff", reach_of(lists, cutoff))
    is_given = any(x is not None for x in lists[:-1])
    search: Any = reach
    if reach is None and not is_given:
        if axes.any() if axes is not None else cell is not None:
            check.refuse("cutoff", "the radius of the sum, as there are periodic axes", "None")
        search = f.untraced(extents, f, positions, batch_idx, system.systems)
    atoms = (positions, cell, pbc, batch_idx)
    excluded = excluded_pairs(f, system, atoms, exclusions)
    pairs = without(f, pairs_of(f, system, atoms, lists, search), excluded)
    reach = check.UNBOUNDED if reach is None else reach
    split = f.per_system("alpha", damping or 1.0 / period_of(positions), system)
    law = law_of(f, system, split, exponent)
    left_out = excluded and excluded.term(law, reach, (1.0, 0.0))
    return total(f, system, wanted, (f"{law.prefix}_real_space", law.reals, (*pairs, reach)), left_out)


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
    PBC.but(text=text("(3,) or (B, 3) of bool. None: all axes of a cell are periodic.", jax="No traced array.")),
    BATCH_IDX,
    OUTPUTS,
    STREAM,
    returns=ENERGIES_OF_CHANNELS,
    raises=ENERGY_ERRORS,
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
    h = f.no_cell(positions) if cell is None else cell
    wanted, system = f.outputs(outputs), f.system(positions, charges, h, batch_idx)
    reach = f.distance("cutoff", cutoff)
    if reach is None:
        check.refuse("cutoff", "the radius of the sum", "None")
    pairs = pairs_of(f, system, (positions, cell, pbc, batch_idx), lists, reach)
    split = f.per_system("alpha", alpha, system)
    return f.energies("damped_shifted_force", system, (split,), (*pairs, reach), wanted)
