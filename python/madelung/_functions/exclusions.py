"""Pairs that a sum leaves out or scales."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from madelung import _arguments as check
from madelung._functions.declare import Parameter, text
from madelung._functions.framework import Framework
from madelung._schema import CHECKED, FULL

EXCLUSIONS = Parameter(
    "exclusions",
    "exclusions",
    text(
        "pairs (P, 2) of atoms that are left out, each once; or a tuple of pairs and factors (P,), or one for all, "
        "by which their energies are multiplied instead of 0 (differentiable), or of pairs, factors (or None) and "
        "images (P, 3), the nearest by default. A factor counts for the whole interaction of the pair, in the real and "
        "the reciprocal part alike; a pair that is left out may lie on one point.",
    ),
    None,
    without=("cuda",),
)

NO_AXIS = 0


class Excluded(NamedTuple):
    """Pairs with factors, as inputs of ops."""

    pairs: tuple[Any, ...]
    """Their list: offsets, columns, images, kind."""
    exclusion_of: Any
    """The pair of each entry of the list."""
    factors: Any
    are_left_out: bool
    """Whether no factor is given, so that all are 0."""


def excluded_pairs(f: Framework, system: Any, atoms: tuple[Any, ...], exclusions: Any) -> Excluded | None:
    """The pairs that a call excludes, if any; `atoms`: positions, cell, periodic axes and systems, as of its list."""
    if exclusions is None:
        return None
    given = exclusions if isinstance(exclusions, tuple) else (exclusions,)
    if not 1 <= len(given) <= 3:
        check.refuse("exclusions", "pairs, or a tuple of pairs, factors and images", f"a tuple of {len(given)}")
    pairs, factors, images = (*given, None, None)[:3]
    r, h, idx = f.atoms(system)

    def integers(x: Any, width: int) -> Any:
        x = f.indices(np.asarray(x).reshape(-1, width), r) if isinstance(x, list) else x
        return f.integers("exclusions", x, ("P", width))

    pairs = integers(pairs, 2)
    count = pairs.shape[0]
    images = f.indices(np.empty((0, 3), np.int32), r) if images is None else integers(images, 3)
    are_left_out = factors is None
    if are_left_out:
        factors = f.numbers(np.zeros(count), r)
    elif isinstance(factors, (int, float)) or getattr(factors, "ndim", 1) == 0:
        factors = f.numbers(np.ones(count), r) * f.reals("exclusions", factors, (), r, exact=True)
    else:
        factors = f.reals("exclusions", factors, ("P",), r, exact=True)
    check.fits("exclusions", factors, (count,))
    _, cell, pbc, _ = atoms
    axes = f.indices(np.empty((0, 3), np.int32), r) if pbc is None else f.axes("pbc", pbc, system)
    along = NO_AXIS if cell is None else check.AXES_OF_CELL
    *found, exclusion_of = f.search("exclusion_list", r, h, axes, pairs, images, idx, along)
    return Excluded((*found, FULL + CHECKED), exclusion_of, factors, are_left_out)


def without(f: Framework, pairs: tuple[Any, ...], excluded: Excluded | None) -> tuple[Any, ...]:
    """The list of a call, as inputs of its op, without the pairs that it excludes."""
    if excluded is None:
        return pairs
    index, columns, _, _ = pairs
    both = (*excluded.pairs, *pairs)
    if len(columns.shape) == 2:
        rooms = (index.shape[0], columns.shape[0], pairs[2].shape[0])
        return *f.search("clusters_without", *both, *rooms), FULL + CHECKED
    room = -1 if f.is_readable(*both) else columns.shape[0]
    return *f.counted("rows_without", *both, room), FULL + CHECKED
