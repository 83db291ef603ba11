"""Queries among points: the arguments of a call, checked, the searches, and the vectors of what they find."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung._functions.framework import Framework
from madelung._grids import HashGrid
from madelung._neighbors import plain_axes
from madelung._schema import CHECKED, DIRECTED


@dataclass(frozen=True, slots=True)
class Sites:
    """Points of a call, as inputs of ops."""

    points: Any
    """(N, 3) or of more coordinates."""
    cell: Any
    """A cell for each system."""
    batch_idx: Any
    """The system of each point."""
    system: Any
    rows: Any
    """Periodic axes of systems, as searches take them."""
    bits: int
    kept: Any = None
    """A grid that is kept, and no points with no batch, in whose place a search takes it; None if there is none."""

    @property
    def is_wide(self) -> bool:
        """Whether points have more than three coordinates."""
        return self.points.shape[1] > 3


@dataclass(frozen=True, slots=True)
class Around:
    """Queries among points, as inputs of ops."""

    queries: Any
    of_queries: Any
    """The system of each query."""
    sites: Sites
    order: Any
    """The order of the points in space; empty where none is known."""

    @property
    def arrays(self) -> tuple[Any, Any, Any]:
        """Queries, points, in three coordinates or more, and a cell for each system."""
        return self.queries, self.sites.points, self.sites.cell

    @property
    def batches(self) -> tuple[Any, Any]:
        """The system of each query and of each point."""
        return self.of_queries, self.sites.batch_idx

    @property
    def system(self) -> Any:
        """The points as charges of a call."""
        return self.sites.system

    def searched(self) -> tuple[tuple[Any, ...], int]:
        """Inputs of a search within three coordinates, and the number of the grid that it finds its points in, or 0."""
        sites, kept = self.sites, self.sites.kept
        points, batch_idx = (sites.points, sites.batch_idx) if kept is None else kept[1:]
        arrays = self.queries, points, sites.cell, sites.rows, self.order, self.of_queries, batch_idx
        return arrays, 0 if kept is None else kept[0].number

    def wide(self) -> tuple[Any, ...]:
        """Queries and points of more coordinates, and the system of each with their number, which no cell says."""
        sites, systems = self.sites, self.system.systems
        return self.queries, sites.points, self.of_queries, systems, sites.batch_idx, systems


def in_space(f: Framework, name: str, x: Any, cell: Any) -> Any:
    """Points of one or two coordinates as points in space; others as they are."""
    x = check.any_array(name, x) if isinstance(x, list) and f.is_own(x) else x
    if not hasattr(x, "shape") or len(x.shape) != 2 or x.shape[1] not in (1, 2):
        return x
    if cell is not None:
        check.refuse(name, "three coordinates with a cell", tuple(x.shape))
    rows, axes = x.shape
    columns = f.joined([f.transposed(x, (rows, axes)), f.full((rows * (3 - axes),), 0.0, x)])
    return f.transposed(columns, (3, rows)).reshape((rows, 3))


def along_axes(f: Framework, vectors: Any, x: Any) -> Any:
    """Vectors (…, 3) with as many components as points had coordinates when they were given."""
    if isinstance(x, HashGrid):
        x = x.points
    if not hasattr(x, "shape") or x.shape[-1] == vectors.shape[-1]:
        return vectors
    axes, shape = x.shape[-1], vectors.shape[:-1]
    rows = math.prod(shape)
    columns = f.transposed(vectors, (rows, 3))[: axes * rows]
    return f.transposed(columns, (axes, rows)).reshape((*shape, axes))


def around(
    f: Framework,
    queries: Any,
    points: Any,
    cell: Any,
    pbc: Any,
    batches: tuple[Any, Any],
    order: Any = None,
    names: tuple[str, str, str, str] = ("queries", "points", "query_batch_idx", "batch_idx"),
) -> Around:
    """The arguments of a call, checked; `names` are those of queries, points, and the systems of either."""
    of_query, of_point, of_batch, of_points_batch = names
    query_batch_idx, batch_idx = batches
    grid = points if isinstance(points, HashGrid) else None
    if grid is not None:
        for name, x in (("cell", cell), ("pbc", pbc), (of_points_batch, batch_idx), ("order", order)):
            if x is not None:
                check.refuse(name, "None with a `HashGrid`, which has its own", check.described(x))
        points, cell, pbc, batch_idx = grid.points, grid.cell, grid.pbc, grid.batch_idx
    of_each = [getattr(x, "shape", ()) for x in (queries, points)]
    if [len(shape) for shape in of_each] == [2, 2] and of_each[0][1] != of_each[1][1]:
        # The one that is not in space has the wrong number of coordinates.
        if of_each[1][1] == 3:
            check.fits(of_query, queries, ("M", 3))
        check.fits(of_point, points, ("N", of_each[0][1]))
    is_keeping = grid is not None and f.is_readable(queries, points, cell, batch_idx)
    sites = grid.known(f) if is_keeping else None
    sites = _sites(f, points, cell, pbc, batch_idx, names) if sites is None else sites
    q = in_space(f, of_query, f.widened(queries), cell)
    q = f.reals(of_query, q, ("M", sites.points.shape[1]), sites.system.positions)
    more = 0
    if batch_idx is not None and getattr(cell, "ndim", 0) < 3:
        rows = q.shape[0] + sites.points.shape[0]
        more = _systems_of(f, sites.system.systems, of_batch, query_batch_idx, rows)
    if more:
        sites = _sites(f, points, cell, pbc, batch_idx, names, more)
    if is_keeping and sites.kept is None:
        sites = _kept(f, grid, sites)
        # What was made of arrays has their derivatives in the call alone, and more systems are of these queries.
        is_plain = sites.points is grid.points and not f.is_differentiated(sites.cell)
        if not more and is_plain and sites.kept is not None and f.is_readable(sites.rows):
            grid.keep(f, sites)
    if query_batch_idx is not None:
        of_queries = f.integers(of_batch, query_batch_idx, (q.shape[0],))
    else:
        if sites.system.systems != 1:
            expected = f"the system of each query, as the points are in {sites.system.systems} systems"
            check.refuse(of_batch, expected, "None")
        of_queries = f.one_system(sites.system.positions, q.shape[0])
    check.fits(of_query, q, ("M", sites.points.shape[1]))
    check.fits(of_batch, of_queries, q.shape[:1])
    none = np.empty(0, np.int32)
    points = sites.points
    known = f.indices(none, points) if order is None else f.integers("order", order, points.shape[:1])
    return Around(q, of_queries, sites, known)


def _sites(
    f: Framework,
    points: Any,
    cell: Any,
    pbc: Any,
    batch_idx: Any,
    names: tuple[str, str, str, str],
    systems: int | None = None,
) -> Sites:
    """Points, checked. `systems`: their number, of one cell; None: as many as the points are in."""
    _, of_point, _, of_points_batch = names
    points = in_space(f, of_point, f.widened(points), cell)
    wide = points if len(getattr(points, "shape", ())) == 2 and points.shape[1] > 3 else None
    if wide is not None:
        # Systems, precision and place are those of the first coordinates.
        if cell is not None:
            check.refuse(of_point, "three coordinates with a cell", tuple(points.shape))
        points = points[:, :3]
    cells = f.no_cell(points, of_point) if cell is None else cell
    cells = cells if systems is None else f.stacked([cells] * systems, 0)
    system = f.system(points, check.NO_CHARGES, cells, batch_idx, of_point)
    r, h, of_points = f.atoms(system)
    r = r if wide is None else wide
    check.fits(of_point, r, ("N", 3 if wide is None else wide.shape[1]))
    check.fits(of_points_batch, of_points, r.shape[:1])
    # Graphs hold Python's own truths as constants.
    plain = plain_axes(pbc)
    periodic = plain if plain is not None and len(plain) == 1 else check.periodic(f.value("pbc", pbc))
    check.lattices(system.systems, periodic)
    rows, bits = check.search_axes(periodic, cell)
    return Sites(r, h, of_points, system, f.indices(rows, r), bits)


def _kept(f: Framework, grid: HashGrid, sites: Sites) -> Sites:
    """Points with a grid of them, where the host can keep one."""
    r, h, of_points = sites.points, sites.cell, sites.batch_idx
    if sites.is_wide or not (f.is_host(r) and f.is_readable(r, h, of_points)):
        return sites
    values = [f.value(name, x) for name, x in (("points", r), ("cell", h), ("batch_idx", of_points))]
    kept = grid.kept(*values[:2], f.value("pbc", sites.rows), sites.bits, values[2], sites.system.systems)
    return replace(sites, kept=(kept, r[:0], of_points[:0]))


def _systems_of(f: Framework, systems: int, name: str, query_batch_idx: Any, rows: int) -> int:
    """The number of systems, where queries are in more than points are; else 0."""
    if query_batch_idx is None or not f.is_readable(query_batch_idx):
        return 0
    of = f.value(name, query_batch_idx)
    of = check.any_array(name, of) if isinstance(of, (list, tuple)) else of
    last = int(of[-1]) if getattr(of, "ndim", 0) == 1 and len(of) and of.dtype.kind in "iu" else 0
    return last + 1 if systems <= last < rows else 0


def within(f: Framework, call: Around, radius: float, capacity: int | None) -> tuple[Any, Any, Any]:
    """Offsets of each query's points within a radius, their indices and images."""
    room = -1 if capacity is None else capacity
    if call.sites.is_wide:
        return f.counted("points_within", *call.wide(), radius, room)
    arrays, grid = call.searched()
    return f.counted("radius_search", *arrays, radius, call.sites.bits, grid, room)


def nearest(f: Framework, call: Around, k: int, radius: Any) -> tuple[Any, ...]:
    """Inputs of an op that make up the list of the k nearest points, their indices (M, k) and images (M, k, 3)."""
    reach = 0.0 if radius is None else reach_of(f, radius, any_distance=True)
    if call.sites.is_wide:
        ranges, indices, shifts = f.search("nearest_points", *call.wide(), reach, k)
    else:
        arrays, grid = call.searched()
        ranges, indices, shifts = f.search("nearest", *arrays, reach, call.sites.bits, grid, k)
    pairs = call.queries.shape[0] * k
    return (ranges, indices.reshape((pairs,)), shifts.reshape((pairs, 3)), DIRECTED + CHECKED), indices, shifts


def measured(f: Framework, call: Around, pairs: tuple[Any, ...], vectors_too: bool, is_filled: bool) -> tuple[Any, Any]:
    """Vectors of pairs, where they are wanted or have three components, and distances. `is_filled`: whether indices may
    be followed by N."""
    sites = call.sites
    if sites.is_wide:
        if vectors_too:
            check.refuse("return_vectors", "False for points of more than three coordinates", True)
        return None, f.op("point_distances", *call.wide(), *pairs)[0]
    points, of_points, (ptr, indices, *rest) = sites.points, sites.batch_idx, pairs
    is_single = sites.system.systems == 1
    # What follows the last point has no system.
    if sites.kept is not None and 0 < indices.shape[0] < points.shape[0] and (is_single or not is_filled):
        # The op goes through all points that it is given, and so it is given those that were found.
        of_points = f.one_system(points, indices.shape[0]) if is_single else f.taken(of_points, indices)
        found = f.at(points, indices) if is_filled else f.taken(points, indices)
        points, indices = found, f.indices(np.arange(indices.shape[0], dtype=np.int32), points)
    return f.op("point_vectors", call.queries, points, sites.cell, call.of_queries, of_points, ptr, indices, *rest)


def reach_of(f: Framework, radius: Any, any_distance: bool = False) -> float:
    if any_distance and isinstance(radius, float) and radius == math.inf:
        return radius
    reach = f.distance("radius", radius)
    # NaN is not above zero.
    return reach if reach is not None and reach > 0.0 else check.refuse("radius", "a number above zero", reach)
