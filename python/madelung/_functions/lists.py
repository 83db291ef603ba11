"""Neighbour lists in arrays, and the pairs of a call: those that the caller gives, or a search finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung._functions.framework import Found, Framework
from madelung._functions.sites import along_axes, around, in_space, within
from madelung._neighbors import check_axes, check_skin
from madelung._schema import CHECKED, DIRECTED, FULL, HALF


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
    if not f.has_no_value(pbc):
        check_axes(lists[0], cell, pbc, f.is_readable)
    check_skin(f, lists[0], positions)
    pairs = f.listed(system, lists, None if isinstance(cutoff, list) else cutoff)
    if pairs is not None:
        return pairs
    if cutoff is None:
        check.refuse("cutoff", "the radius of the sum, as no neighbour list is given", "None")
    found = f.find_neighbors(positions, cutoff, cell, pbc, batch_idx, None, None)
    pairs = f.listed(system, (found, *lists[1:]), None, own=True)
    assert pairs is not None
    return pairs


@dataclass(frozen=True)
class Chosen:
    """The pairs that a list is asked for, where these are not all within one cutoff."""

    types: Any = None
    centers: Any = None
    sources: Any = None
    source_batch_idx: Any = None

    def of(self, values: Callable[[Any], Any]) -> Chosen:
        """The choice with other arrays in place of these."""
        return Chosen(*(values(getattr(self, x.name)) for x in fields(self)))


def _reaches(f: Framework, cutoff: Any, chosen: Chosen) -> tuple[Any, list[Any], bool]:
    """The radius of the search, the cutoff of each list (or a matrix for types), and whether there are several."""
    if chosen.types is not None:
        matrix = np.asarray(f.value("cutoff", cutoff))
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.dtype.kind not in "iuf":
            check.refuse("cutoff", "numbers (T, T) for pairs of types", check.described(cutoff))
        if not ((matrix >= 0.0) & (matrix < np.inf)).all() or not matrix.any() or (matrix != matrix.T).any():
            expected = "numbers from 0 up, some of them positive, the same for either order of two types"
            check.refuse("cutoff", expected, matrix.tolist())
        return float(matrix.max()), [matrix], False
    if isinstance(cutoff, (tuple, list)):
        each = [check.positive("cutoff", x) for x in cutoff]
        if not each:
            check.refuse("cutoff", "at least one number", cutoff)
        return max(each), each, True
    return cutoff, [], False


def neighbor_list(
    f: Framework,
    positions: Any,
    cutoff: Any,
    cell: Any,
    pbc: Any,
    batch_idx: Any,
    batch_ptr: Any,
    chosen: Chosen,
    options: check.ListOptions,
) -> tuple[Any, ...]:
    """The list in the requested form, and the lengths and vectors of its pairs; one for each of several cutoffs."""
    reach, cutoffs, is_several = _reaches(f, cutoff, chosen)
    if chosen.sources is None and chosen.source_batch_idx is not None:
        check.refuse("source_batch_idx", "None without `sources`", check.described(chosen.source_batch_idx))
    given, positions = positions, in_space(f, "positions", positions, cell)
    if chosen.centers is None and chosen.sources is None:
        wide = options._replace(max_neighbors=None) if cutoffs else options
        found = f.searched(positions, reach, cell, pbc, batch_idx, batch_ptr, wide)
    else:
        found = _between(f, positions, reach, cell, pbc, batch_idx, batch_ptr, chosen, options)
        cutoffs = cutoffs or [reach]
    each = [_narrowed(f, found, x, chosen, options) for x in cutoffs] or [found]
    listed = tuple(f.listing(_arrays(f, x, options, given), options) for x in each)
    return listed if is_several else listed[0]


def _between(
    f: Framework,
    positions: Any,
    reach: Any,
    cell: Any,
    pbc: Any,
    batch_idx: Any,
    batch_ptr: Any,
    chosen: Chosen,
    options: check.ListOptions,
) -> Found:
    """All points within reach of the centres, or of atoms among sources: of centres themselves too."""
    centers, sources, source_batch_idx = chosen.centers, chosen.sources, chosen.source_batch_idx
    what = "`sources`" if centers is None else "`centers`"
    if centers is not None and sources is not None:
        check.refuse("centers", "None with `sources`", check.described(centers))
    for name, x in (("batch_ptr", batch_ptr), ("method", options.method), ("half_fill", options.half_fill or None)):
        if x is not None:
            check.refuse(name, f"{False if name == 'half_fill' else None} with {what}", check.described(x))
    radius = f.distance("cutoff", reach)
    if radius is None:
        check.refuse("cutoff", "a number above zero", "None")
    room = options.capacity if f.keeps_room else None
    if centers is None:
        if chosen.types is not None:
            check.refuse("types", "None with `sources`", check.described(chosen.types))
        names = ("positions", "sources", "batch_idx", "source_batch_idx")
        call = around(f, positions, sources, cell, pbc, (batch_idx, source_batch_idx), None, names)
    else:
        if f.is_readable(centers):
            known = check.integers("centers", f.value("centers", centers), ("M",))
            if len(known) and (known[0] < 0 or known[-1] >= len(positions) or (np.diff(known) <= 0).any()):
                check.refuse("centers", f"indices below {len(positions)} that rise", check.described(known))
        of = None if batch_idx is None else f.taken(batch_idx, centers)
        names = ("positions", "positions", "batch_idx", "batch_idx")
        call = around(f, f.taken(positions, centers), positions, cell, pbc, (of, batch_idx), None, names)
        # A centre is within reach of itself.
        room = None if room is None else room + call.arrays[0].shape[0]
    ptr, indices, shifts = within(f, call, radius, room)
    (q, r, h), (of_queries, of_points) = call.arrays, call.batches
    return Found((None, indices), ptr, shifts, q, h, of_queries, call.system.systems, r, of_points)


def _narrowed(f: Framework, found: Found, cutoff: Any, chosen: Chosen, options: check.ListOptions) -> Found:
    """The pairs of a list closer than a cutoff, or than those of their types; of centres without themselves."""
    if found.sources is None:
        r, h, of, ptr, columns, shifts, _ = f.pair_inputs(found, FULL)
        arrays, batches = (r, r, h), (of, of)
    else:
        arrays, batches = (found.positions, found.sources, found.cell), (found.batch_idx, found.source_batch_idx)
        ptr, columns, shifts = found.ptr, found.pairs[1], found.shifts
    none = f.indices(np.empty(0, np.int32), arrays[0])
    types = of_rows = none
    matrix, radius = np.empty((0, 0)), cutoff
    if chosen.types is not None:
        types = f.integers("types", chosen.types, (arrays[1].shape[0],))
        of_rows = types if chosen.centers is None else f.taken(types, chosen.centers)
        matrix, radius = cutoff, float(cutoff.max())
    own = none if chosen.centers is None else f.integers("centers", chosen.centers, (arrays[0].shape[0],))
    room = options.capacity if f.keeps_room and options.capacity is not None else -1
    pairs, ptr, shifts = f.counted(
        "narrowed_pairs",
        *(*arrays, f.numbers(matrix, arrays[0]), of_rows, types, own, *batches),
        *(ptr, columns, shifts, DIRECTED + CHECKED, radius, room),
    )
    if f.is_readable(ptr):
        check.list_fits(f.value("neighbor_ptr", ptr), options)
    elif options.max_neighbors is not None:
        check.refuse("max_neighbors", "None where the offsets have no values yet", options.max_neighbors)
    return replace(found, pairs=pairs, ptr=ptr, shifts=shifts)


def _measured(f: Framework, found: Found, options: check.ListOptions, positions: Any) -> list[Any]:
    """Lengths and vectors of pairs, as far as they are asked for; these have the components of the positions."""
    kind = HALF if options.half_fill else FULL
    if not options.distances and not options.vectors:
        return []
    if found.sources is not None:
        arrays = (found.positions, found.sources, found.cell, found.batch_idx, found.source_batch_idx)
        pairs = (found.ptr, found.pairs[1], found.shifts, DIRECTED + CHECKED)
        vectors, distances = f.op("point_vectors", *arrays, *pairs)
    elif options.distances:
        vectors, distances = f.pair_vectors(found, kind)
    else:
        # Has derivatives where points lie on one place, as lengths have not.
        vectors, distances = f.pair_differences(found, kind), None
    if options.vectors:
        vectors = along_axes(f, vectors, positions)
    return [distances] * options.distances + [vectors] * options.vectors


def _arrays(f: Framework, found: Found, options: check.ListOptions, positions: Any) -> tuple[Any, ...]:
    """The list in the requested form, and the lengths and vectors of its pairs."""
    pairs, ptr, shifts, atoms = found.pairs, found.ptr, found.shifts, len(found.positions)
    columns = atoms if found.sources is None else len(found.sources)
    measured = _measured(f, found, options, positions)
    if options.format == "coo":
        return pairs, ptr, shifts, *measured
    if options.format == "csr":
        return ptr, pairs[1], shifts, *measured
    fill = columns if options.fill_value is None else options.fill_value
    if 0 <= fill < columns:
        check.refuse("fill_value", f"a number that is not one of the {columns} indices", fill)
    counts = ptr[1:] - ptr[:-1]
    width = options.max_neighbors
    if width is None:
        width = int(counts.max()) if atoms else 0
    at = f.places(pairs[0], ptr, width)
    matrix = f.spread(pairs[1], at, atoms, width, fill)
    if options.capacity is not None and atoms:
        # A matrix that would not have all pairs has none, but an index that every function refuses.
        passed = (counts.max() > width) | (ptr[-1] > options.capacity)
        matrix = matrix + passed * ((columns + 1 if fill == -1 else -1) - matrix)
    return matrix, counts, *(f.spread(x, at, atoms, width) for x in (shifts, *measured))
