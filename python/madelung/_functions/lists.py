"""Neighbour lists in arrays, and the pairs of a call: those that the caller gives, or a search finds."""

from __future__ import annotations

from typing import Any

from madelung import _arguments as check
from madelung._functions.framework import Framework
from madelung._neighbors import check_axes
from madelung._schema import FULL, HALF


def reach_of(lists: tuple[Any, ...], cutoff: Any) -> Any:
    """The cutoff of a call: the one that is given, or that of its neighbours."""
    return getattr(lists[0], "cutoff", None) if cutoff is None else cutoff


def pairs_of(
    f: Framework, system: Any, atoms: tuple[Any, Any, Any, Any], lists: tuple[Any, ...], cutoff: Any
) -> tuple[Any, ...]:
    """Inputs of an op that make up the full list of a call; `atoms`: positions, cell, periodic axes and systems.

    Without a given list the cutoff may be a list of those of each system, which a device has the largest of.
    """
    positions, cell, pbc, batch_idx = atoms
    check_axes(lists[0], cell, pbc)
    pairs = f.listed(system, lists, None if isinstance(cutoff, list) else cutoff)
    if pairs is not None:
        return pairs
    if cutoff is None:
        check.refuse("cutoff", "the radius of the sum, as no neighbour list is given", "None")
    found = f.find_neighbors(positions, cutoff, cell, pbc, batch_idx, None, None)
    pairs = f.listed(system, (found, *lists[1:]), None, own=True)
    assert pairs is not None
    return pairs


def neighbor_list(
    f: Framework,
    positions: Any,
    cutoff: Any,
    cell: Any,
    pbc: Any,
    batch_idx: Any,
    batch_ptr: Any,
    options: check.ListOptions,
) -> tuple[Any, ...]:
    """The list in the requested form, and the lengths and vectors of its pairs."""
    found = f.searched(positions, cutoff, cell, pbc, batch_idx, batch_ptr, options)
    pairs, ptr, shifts, atoms = found.pairs, found.ptr, found.shifts, len(found.positions)
    measured: list[Any] = []
    if options.distances or options.vectors:
        kind = HALF if options.half_fill else FULL
        if options.distances:
            vectors, distances = f.pair_vectors(found, kind)
            measured.append(distances)
        else:
            # Has derivatives where points lie on one place, as lengths have not.
            vectors = f.pair_differences(found, kind)
        if options.vectors:
            measured.append(vectors)
    if options.format == "coo":
        return pairs, ptr, shifts, *measured
    if options.format == "csr":
        return ptr, f.columns(pairs), shifts, *measured
    fill = atoms if options.fill_value is None else options.fill_value
    if 0 <= fill < atoms:
        check.refuse("fill_value", f"a number that is not one of the {atoms} indices", fill)
    counts = ptr[1:] - ptr[:-1]
    width = options.max_neighbors
    if width is None:
        width = int(counts.max()) if atoms else 0
    at = f.places(pairs[0], ptr, width)
    matrix = f.spread(f.columns(pairs), at, atoms, width, fill)
    if options.capacity is not None and atoms:
        # A matrix that would not have all pairs has none, but an index that every function refuses.
        passed = (counts.max() > width) | (ptr[-1] > options.capacity)
        matrix = matrix + passed * ((atoms + 1 if fill == -1 else -1) - matrix)
    return matrix, counts, *(f.spread(x, at, atoms, width) for x in (shifts, *measured))
