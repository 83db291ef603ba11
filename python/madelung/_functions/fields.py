"""Electrostatic potential, field and field gradient at points."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung._functions.boundaries import BOUNDARIES, SLAB_CORRECTION, SLAB_HEIGHT
from madelung._functions.declare import KEYWORDS, Group, Parameter, function, text
from madelung._functions.framework import Framework
from madelung._functions.gaussians import SPREADS
from madelung._functions.laws import LAW, law_of
from madelung._functions.mesh import MESH_DIMENSIONS, mesh_of
from madelung._functions.parameters import (
    ACCURACY,
    ALPHA,
    BATCH_IDX,
    CELL,
    CHARGES,
    CUTOFF,
    ENERGIES,
    ENERGY_ERRORS,
    K_CUTOFF,
    OUTPUTS,
    POSITIONS,
)
from madelung._functions.plans import evaluated, evaluated_along, of_other_atoms, prepared
from madelung._functions.sum_arguments import arguments

_POINTS = POSITIONS.but(name="points", text=text("(M, 3), of the positions' dtype, where the results are those of."))
# Charge at a point, a power of two: so small that points hardly see each other, and rounding takes no digits.
_PROBE = 2.0**-20
# Width of the Gaussian charge that stands for a point beside others, over the smallest of these.
_NARROW = 1e-5
_DIFFERENTIABLE = "The potential is differentiable twice in points, positions, charges and cell, the field once."
_WANTED = Group(
    "outputs",
    (
        OUTPUTS.parameters[0],
        Parameter("compute_field", "flag", text("whether these are returned too."), False),
        Parameter("compute_field_gradient", "flag", default=False),
    ),
)


@function(
    _POINTS,
    POSITIONS,
    CHARGES,
    CELL.but(default=None),
    KEYWORDS,
    Parameter(
        "method",
        "word",
        text('how the sum over a lattice is done: "pme", on a mesh, or "ewald", over waves.'),
        "pme",
        words=("pme", "ewald"),
    ),
    Parameter(
        "own_atoms",
        "integers",
        text(
            "(M,), for each point the atom on it, whose own term is left out, or −1. None: no point is on an atom. "
            "With the atoms themselves as points: their numbers, from 0 on. Values are read."
        ),
        None,
        shape=("M",),
    ),
    Parameter(
        "point_batch_idx",
        "integers",
        text("(M,), the system of each point, sorted, beside `batch_idx`. Values of both are read."),
        None,
        shape=("M",),
    ),
    ALPHA.but(default=None),
    CUTOFF.but(kind="per_system", text=text("radius of the real-space sum, in L, one for all systems or (B,).")),
    K_CUTOFF,
    MESH_DIMENSIONS,
    LAW,
    SPREADS,
    ACCURACY,
    BOUNDARIES,
    SLAB_CORRECTION,
    SLAB_HEIGHT,
    BATCH_IDX,
    _WANTED,
    notes={
        "torch": _DIFFERENTIABLE,
        "jax": f"{_DIFFERENTIABLE} Not under `jit`.",
    },
    returns=text(
        "The potential φ (M,), followed by the requested ones of: the field −∂φ/∂r (M, 3) and its gradient −∂²φ/∂r∂r "
        "(M, 3, 3), symmetric. A single array comes unwrapped, several as a tuple."
    ),
    raises=ENERGY_ERRORS,
    eager=True,
    without=("cuda",),
)
def electrostatic_potential(
    f: Framework,
    points: Any,
    positions: Any,
    charges: Any,
    cell: Any,
    method: Any,
    own_atoms: Any,
    point_batch_idx: Any,
    alpha: Any,
    cutoff: Any,
    k_cutoff: Any,
    mesh_dimensions: Any,
    pair_law: tuple[Any, Any],
    widths: Any,
    accuracy: Any,
    pbc: Any,
    slab_correction: Any,
    slab_height: Any,
    batch_idx: Any,
    outputs: tuple[Any, ...],
) -> Any:
    """The electrostatic potential of charges at points, in whatever boundaries `pbc` says.

    A charge ±q at each point has energies, forces and second derivatives in the sums of `particle_mesh_ewald` and
    `ewald_summation`, of whose differences for both signs the points' own images and each other drop out. No two points
    are on one place. The cost is that of two sums of atoms and points together, and of twelve more, of second
    derivatives, for the gradient of the field.
    """
    prefactor, *flags = outputs
    unit = check.number("prefactor", prefactor)
    wants_field, wants_gradient = (check.flag(p.name, x) for p, x in zip(_WANTED.parameters[1:], flags))
    on_mesh = check.word("method", method, ("pme", "ewald")) == "pme"
    for name, x, word in (("mesh_dimensions", mesh_dimensions, "pme"), ("k_cutoff", k_cutoff, "ewald")):
        if x is not None and method != word:
            check.refuse(name, f'None, or `method="{word}"`', check.described(x))
    points = f.reals("points", points, ("M", 3), positions)
    n, m = positions.shape[0], points.shape[0]
    at = np.asarray(f.untraced(f.value, "points", points))
    for k in np.flatnonzero(~np.isfinite(at).all(1))[:1]:
        check.refuse("points", "finite coordinates", f"{at[k].tolist()} of point {k}")
    order, batch = _sorted(f, (batch_idx, point_batch_idx), (n, m), positions)
    back = np.argsort(order).astype(np.int32)

    def both(of_atoms: Any, of_points: Any) -> Any:
        return f.taken(f.joined([of_atoms, of_points]), f.indices(order, positions))

    def at_points(x: Any) -> Any:
        return f.taken(x, f.indices(back[n:], positions))

    excluded = None
    if own_atoms is not None:
        own = np.asarray(f.value("own_atoms", f.integers("own_atoms", own_atoms, (m,))))
        if ((own < -1) | (own >= n)).any():
            check.refuse("own_atoms", f"numbers of atoms, 0 to {n - 1}, or -1", own[(own < -1) | (own >= n)][0])
        there = np.flatnonzero(own >= 0)
        excluded = f.indices(np.stack([back[own[there]], back[n + there]], 1).astype(np.int32), positions)
    zeros = f.numbers(np.zeros(m), positions)
    charges = f.reals("charges", charges, ("N",), positions)
    check.fits("charges", charges, (n,))
    atoms = both(positions, points)
    if widths is not None:
        widths = f.reals("widths", widths, ("N",), positions)
        check.fits("widths", widths, (n,))
        least = float(np.min(f.untraced(f.value, "widths", widths), initial=np.inf)) if n else 1.0
        widths = both(widths, f.numbers(np.full(m, _NARROW * least), positions))
    of = arguments(
        atoms,
        both(charges, zeros),
        cell,
        batch,
        pbc=pbc,
        slab_correction=slab_correction,
        slab_height=slab_height,
        alpha=alpha,
        cutoff=cutoff,
        k_cutoff=k_cutoff,
        mesh=mesh_of(f, cell, (mesh_dimensions, None, None)),
        exclusions=excluded,
        law=law_of(pair_law, excluded),
        widths=widths,
        accuracy=accuracy,
        method=None if on_mesh else "list",
    )
    sums = prepared(f, of, "mesh" if on_mesh else "waves")
    lattice = f.no_cell(atoms) if cell is None else cell
    units = [f.numbers(np.full(m, x), positions) for x in (_PROBE, -_PROBE)]
    probed = [of_other_atoms(*sums, atoms, both(charges, x), lattice, widths) for x in units]
    wanted = f.outputs((unit / _PROBE, "atom", wants_field, False, False, False))
    try:
        results = [x if wants_field else (x,) for x in [evaluated(*of, wanted) for of in probed]]
    except ValueError as error:
        _refuse_coincident(error, order, n)
        raise
    # An atom has half of its energies with others.
    found = [by * (at_points(x) - at_points(y)) for by, x, y in zip((1.0, 0.5), *results)]
    if wants_gradient:
        is_point = f.taken(f.numbers(np.repeat([0.0, 1.0], [n, m]), positions), f.indices(order, positions))
        steps = [{"positions": f.numbers(-np.eye(3)[a], positions) * is_point.reshape((n + m, 1))} for a in range(3)]
        second = {}
        for a, b in itertools.combinations_with_replacement(range(3), 2):
            # −φ'' of a point: both of its halves of ±φ/2, with one of the steps the other way.
            along = steps[a], {"positions": -steps[b]["positions"]}
            values = [at_points(evaluated_along(*x, unit / _PROBE, *along)) for x in probed]
            second[a, b] = second[b, a] = values[0] - values[1]
        rows = [second[a, b] for a in range(3) for b in range(3)]
        found.append(f.stacked(rows).reshape((m, 3, 3)))
    return found[0] if len(found) == 1 else tuple(found)


def _refuse_coincident(error: ValueError, order: np.ndarray, atoms: int) -> None:
    """The error of a point on an atom or on another one, in the words of this function."""
    found = re.search(r"no two atoms on one point, got atoms (\d+) and (\d+)", str(error))
    if found:
        at = sorted(int(order[int(k)]) for k in found.groups())
        if at[1] >= atoms:
            other = f"point {at[0] - atoms}" if at[0] >= atoms else f"atom {at[0]}, which `own_atoms` does not name"
            check.refuse("points", "places without an atom or another point", f"point {at[1] - atoms} on {other}")


def _sorted(f: Framework, of: tuple[Any, Any], counts: tuple[int, int], like: Any) -> tuple[np.ndarray, Any]:
    """The order of atoms and points by their systems, and these; None for one system."""
    if all(x is None for x in of):
        return np.arange(sum(counts), dtype=np.int32), None
    systems = []
    for name, x, count in zip(("batch_idx", "point_batch_idx"), of, counts):
        if x is None:
            check.refuse(name, "the system of each, as of the others", "None")
        systems.append(np.asarray(f.value(name, f.integers(name, x, (count,)))))
    joined = np.concatenate(systems)
    order = np.argsort(joined, kind="stable").astype(np.int32)
    return order, f.indices(joined[order].astype(np.int32), like)


@function(
    POSITIONS,
    CHARGES,
    Parameter("field", "reals", text("(3,) or (B, 3), in units of energy over charge and length."), shape=("B", 3)),
    CELL.but(default=None, text=text("(3, 3) or (B, 3, 3); with it the virial has the shape of its results.")),
    KEYWORDS,
    BATCH_IDX,
    OUTPUTS,
    notes={
        "torch": "Differentiable twice in positions, charges and field.",
        "jax": "Differentiable twice in positions, charges and field.",
    },
    returns=ENERGIES,
    raises=ENERGY_ERRORS,
    without=("cuda",),
)
def uniform_field(
    f: Framework,
    positions: Any,
    charges: Any,
    field: Any,
    cell: Any,
    batch_idx: Any,
    outputs: tuple[Any, ...],
) -> Any:
    """The energy of charges in a uniform external field, −Σ qᵢ rᵢ·F, to be added to a sum of charges.

    Along periodic axes it depends on which images of the atoms are given: with those that dynamics does not wrap it is
    that of the force qᵢF on each. Its virial −∂E/∂ε, for a field that stays, is not symmetric.
    """
    wanted = f.outputs(outputs)
    system = f.system(positions, charges, f.no_cell(positions) if cell is None else cell, batch_idx)
    return f.energies("uniform_field", system, (of_systems(f, field, system),), (), wanted)


def of_systems(f: Framework, field: Any, system: Any, name: str = "field") -> Any:
    """A field for each system, (B, 3)."""
    like = system.positions
    shape = getattr(field, "shape", np.shape(field))
    if len(shape) == 1:
        one = f.reals(name, field, (3,), like)
        return f.full((system.systems, 1), 1.0, like) * one.reshape((1, 3))
    field = f.reals(name, field, ("B", 3), like)
    check.fits(name, field, (system.systems, 3))
    return field
