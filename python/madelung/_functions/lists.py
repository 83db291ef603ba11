"""The pairs of a call: those that the caller gives, or a search finds."""

from __future__ import annotations

from typing import Any

from madelung import _arguments as check
from madelung._functions.framework import Framework
from madelung._neighbors import check_axes


def reach_of(lists: tuple[Any, ...], cutoff: Any) -> Any:
    """The cutoff of a call: the one that is given, or that of its neighbours."""
    return getattr(lists[0], "cutoff", None) if cutoff is None else cutoff


def pairs_of(
    f: Framework, system: Any, atoms: tuple[Any, Any, Any, Any], lists: tuple[Any, ...], cutoff: float | None
) -> tuple[Any, ...]:
    """Inputs of an op that make up the full list of a call; `atoms`: positions, cell, periodic axes and systems."""
    positions, cell, pbc, batch_idx = atoms
    check_axes(lists[0], cell, pbc)
    pairs = f.listed(system, lists, cutoff)
    if pairs is not None:
        return pairs
    if cutoff is None:
        check.refuse("cutoff", "the radius of the sum, as no neighbour list is given", "None")
    found = f.find_neighbors(positions, cutoff, cell, pbc, batch_idx, None, None)
    pairs = f.listed(system, (found, *lists[1:]), cutoff, own=True)
    assert pairs is not None
    return pairs
