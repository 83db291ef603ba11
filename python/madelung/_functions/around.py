"""Points around queries: declarations and bodies of the public functions."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from madelung import _arguments as check
from madelung._functions.declare import KEYWORDS, Parameter, function, text
from madelung._functions.framework import Framework
from madelung._functions.parameters import CELL, ERRORS, PBC, STREAM
from madelung._grids import HashGrid
from madelung._neighbors import plain_axes
from madelung._schema import CHECKED, DIRECTED

_QUERIES = Parameter(
    "queries",
    "reals",
    text(
        "(M, 3), float32 or float64, anywhere; without a cell of any number of coordinates (up to three for features, "
        "vectors and grids that are kept). Those of half precision are searched in float32, and real results rounded "
        "back.",
        cuda="Not of half precision.",
    ),
)
_POINTS = Parameter(
    "points",
    "reals",
    text(
        "(N, 3), or as many coordinates as the queries, of their dtype, anywhere; they may be the queries. Or a "
        "`HashGrid` of them, kept from call to call."
    ),
)
_FEATURES = Parameter("features", "reals", text("(N, F), of the queries' dtype, or of half precision."))
_SIGMA = Parameter("sigma", "per_system", text("length σ of the weight, one for all systems or (B,)."))
_CELL = CELL.but(default=None, text=text("(3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic."))
_PBC = PBC.but(
    text=text("(3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero.", jax="No traced array.")
)
_BATCHES = (
    Parameter(
        "query_batch_idx",
        "integers",
        text("(M,) and (N,), the system of each query and of each point, sorted: a query sees the points of its own."),
        None,
        ("M",),
    ),
    Parameter("batch_idx", "integers", default=None, shape=("N",)),
)
_ORDER = Parameter(
    "order",
    "integers",
    text("(N,), what `spatial_order` gives for the points, or gave before they moved: it saves time alone."),
    None,
    ("N",),
)
_RETURNED = (
    Parameter("return_shifts", "flag", text("whether the images S and the vectors are returned too."), False),
    Parameter("return_vectors", "flag", default=False),
)
_WITHIN = Parameter(
    "radius",
    "positive",
    text(
        "largest distance of a point that counts, in L, or infinity: a query may then have fewer than k points. None: "
        "each has k.",
        jax="A Python number.",
    ),
    None,
)
_FILLED = "{} one, arrays have that length, filled up with N, and zero in images and lengths."
# Names of ops, by those of weights.
_RADIUS_WEIGHTS = {"exp": "exponential", "gaussian": "gaussian", "inverse": "inverse"}
_KNN_WEIGHTS = {"softmax": "exponential", "gaussian": "gaussian", "inverse": "inverse"}


class Around(NamedTuple):
    """Queries among points, as inputs of ops."""

    arrays: tuple[Any, Any, Any]
    """Queries, points, in three coordinates or more, and a cell for each system."""
    batches: tuple[Any, Any]
    """The system of each query and of each point."""
    rows: Any
    """Periodic axes of systems, as searches take them."""
    bits: int
    system: Any
    order: Any
    """The order of the points in space; empty where none is known."""
    kept: Any
    """A grid that is kept, if there is one."""

    @property
    def grid(self) -> int:
        """Its number, or 0."""
        return 0 if self.kept is None else self.kept.number

    @property
    def is_wide(self) -> bool:
        """Whether points have more than three coordinates."""
        return self.arrays[1].shape[1] > 3

    @property
    def batches_and_systems(self) -> tuple[Any, ...]:
        """The system of each query and of each point, with the number of systems, where no cell has it."""
        of_queries, of_points = self.batches
        return of_queries, self.system.systems, of_points, self.system.systems


def in_space(f: Framework, name: str, x: Any, cell: Any) -> Any:
    """Points of one or two coordinates as points in space; others as they are."""
    x = np.asarray(x) if isinstance(x, list) and f.is_own(x) else x
    if not hasattr(x, "shape") or len(x.shape) != 2 or x.shape[1] not in (1, 2):
        return x
    if cell is not None:
        check.refuse(name, "three coordinates with a cell", check.described(x))
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
    queries, points = in_space(f, of_query, f.widened(queries), cell), in_space(f, of_point, f.widened(points), cell)
    wide = points if len(getattr(points, "shape", ())) == 2 and points.shape[1] > 3 else None
    if wide is not None:
        # Systems, precision and place are those of the first coordinates.
        if cell is not None:
            check.refuse(of_point, "three coordinates with a cell", check.described(points))
        points = points[:, :3]
    system = f.system(
        points, check.NO_CHARGES, f.no_cell(points, of_point) if cell is None else cell, batch_idx, of_point
    )
    r, h, of_points = f.atoms(system)
    axes = 3 if wide is None else wide.shape[1]
    q = f.reals(of_query, queries, ("M", axes), system.positions)
    is_each = batch_idx is None or getattr(cell, "ndim", 0) > 2
    more = 0 if is_each else _systems_of(f, system.systems, of_batch, query_batch_idx, q.shape[0] + r.shape[0])
    if more:
        cells = f.stacked([cell if cell is not None else f.no_cell(points, of_point)] * more, 0)
        system = f.system(points, check.NO_CHARGES, cells, batch_idx, of_point)
        r, h, of_points = f.atoms(system)
    r = r if wide is None else wide
    if query_batch_idx is not None:
        of_queries = f.integers(of_batch, query_batch_idx, (q.shape[0],))
    else:
        if system.systems != 1:
            expected = f"the system of each query, as the points are in {system.systems} systems"
            check.refuse(of_batch, expected, "None")
        of_queries = f.one_system(system.positions, q.shape[0])
    check.fits(of_query, q, ("M", axes))
    check.fits(of_point, r, ("N", axes))
    check.fits(of_batch, of_queries, q.shape[:1])
    check.fits(of_points_batch, of_points, r.shape[:1])
    # Graphs hold Python's own truths as constants.
    plain = plain_axes(pbc)
    periodic = plain if plain is not None and len(plain) == 1 else check.periodic(f.value("pbc", pbc))
    check.lattices(system.systems, periodic)
    rows, bits = check.search_axes(periodic, cell)
    kept, none = None, np.empty(0, np.int32)
    if grid is not None and wide is None and f.is_host(r) and f.is_readable(r, h, of_points):
        values = (f.value(name, x) for name, x in (("points", r), ("cell", h), ("batch_idx", of_points)))
        given, cells, systems = values
        kept = grid.kept(given, cells, rows, bits, systems, system.systems)
    known = f.indices(none, r) if order is None else f.integers("order", order, (r.shape[0],))
    return Around((q, r, h), (of_queries, of_points), f.indices(rows, r), bits, system, known, kept)


def _systems_of(f: Framework, systems: int, name: str, query_batch_idx: Any, rows: int) -> int:
    """The number of systems, where queries are in more than points are; else 0."""
    if query_batch_idx is None or not f.is_readable(query_batch_idx):
        return 0
    of = f.value(name, query_batch_idx)
    last = int(of[-1]) if getattr(of, "ndim", 0) == 1 and len(of) and of.dtype.kind in "iu" else 0
    return last + 1 if systems <= last < rows else 0


def within(f: Framework, call: Around, radius: float, capacity: int | None) -> tuple[Any, Any, Any]:
    """Offsets of each query's points within a radius, their indices and images."""
    room = -1 if capacity is None else capacity
    if call.is_wide:
        return f.counted("points_within", *call.arrays[:2], *call.batches_and_systems, radius, room)
    arrays = (*call.arrays, call.rows, call.order, *call.batches)
    return f.counted("radius_search", *arrays, radius, call.bits, call.grid, room)


def _nearest(f: Framework, call: Around, k: int, radius: Any) -> tuple[Any, ...]:
    """Inputs of an op that make up the list of the k nearest points, their indices (M, k) and images (M, k, 3)."""
    reach = 0.0 if radius is None else _reach(f, radius, any_distance=True)
    if call.is_wide:
        ranges, indices, shifts = f.search("nearest_points", *call.arrays[:2], *call.batches_and_systems, reach, k)
    else:
        arrays = (*call.arrays, call.rows, call.order, *call.batches)
        ranges, indices, shifts = f.search("nearest", *arrays, reach, call.bits, call.grid, k)
    pairs = call.arrays[0].shape[0] * k
    return (ranges, indices.reshape((pairs,)), shifts.reshape((pairs, 3)), DIRECTED + CHECKED), indices, shifts


def _measured(f: Framework, call: Around, pairs: tuple[Any, ...], vectors_too: bool) -> tuple[Any, Any]:
    """Vectors of pairs, where they are wanted or have three components, and distances."""
    if not call.is_wide:
        return f.op("point_vectors", *call.arrays, *call.batches, *pairs)
    if vectors_too:
        check.refuse("return_vectors", "False for points of more than three coordinates", True)
    return None, f.op("point_distances", *call.arrays[:2], *call.batches_and_systems, *pairs)[0]


def _features(f: Framework, features: Any, sigma: Any, call: Around) -> tuple[Any, Any]:
    """Features of the points, and the length of a weight."""
    points, system = call.arrays[1], call.system
    check.fits("points", points, ("N", 3))
    x = f.reals("features", f.widened(features), ("N", "F"), system.positions)
    check.fits("features", x, (points.shape[0], "F"))
    if x.shape[1] == 0:
        check.refuse("features", "a feature width of at least 1", check.described(x))
    return x, f.per_system("sigma", sigma, system)


@function(
    _QUERIES,
    _POINTS,
    Parameter("k", "count", text("how many points each query has, from 1 up.")),
    _CELL,
    _PBC,
    KEYWORDS,
    *_BATCHES,
    _WITHIN,
    _ORDER,
    *_RETURNED,
    STREAM,
    notes={
        "torch": "Distances and vectors are differentiable twice in queries, points and cell; which points are nearest "
        "is not. Compiled graphs hold the call (with a cell for each system where there are several). On a device "
        "nothing is read or waited for.",
        "jax": "Distances and vectors are differentiable twice in queries, points and cell; which points are nearest "
        "is not. Under `jit` too (with a cell for each system where there are several).",
        "cuda": "Nothing is waited for, but the number of systems that share one cell.",
    },
    returns=text(
        "`indices` (M, k) int32 and `distances` (M, k), by distance, then index, then S; then, if asked for, shifts "
        "(M, k, 3) int32 and vectors (M, k, 3), r_j − q_i + S · cell. Behind the last point of a query, N in indices "
        "and zero in the others."
    ),
    raises=text(
        f"{ERRORS.common} ValueError also where a query has fewer than k points, and `radius` is None: the message "
        "says how many.",
    ),
    result="tuple[Array, ...]",
)
def knn(
    f: Framework,
    queries: Any,
    points: Any,
    k: Any,
    cell: Any,
    pbc: Any,
    query_batch_idx: Any,
    batch_idx: Any,
    radius: Any,
    order: Any,
    return_shifts: Any,
    return_vectors: Any,
) -> tuple[Any, ...]:
    """The k nearest points of each query, exactly.

    With periodic axes every image counts as a point of its own, so k may exceed the number of points. A query that is
    on a point has it at distance zero, where the distance has a derivative of zero.
    """
    most = check.at_least_one("k", k)
    shifts_too, vectors_too = check.flag("return_shifts", return_shifts), check.flag("return_vectors", return_vectors)
    call = around(f, queries, points, cell, pbc, (query_batch_idx, batch_idx), order)
    pairs, indices, shifts = _nearest(f, call, most, radius)
    vectors, distances = _measured(f, call, pairs, vectors_too)
    results = [indices, f.rounded(distances.reshape(indices.shape), queries)]
    results += [shifts] * shifts_too
    if vectors_too:
        results.append(f.rounded(along_axes(f, vectors.reshape(shifts.shape), queries), queries))
    return tuple(results)


@function(
    _QUERIES,
    _POINTS,
    Parameter("radius", "positive", text("largest distance of a point that counts, in L.", jax="A Python number.")),
    _CELL,
    _PBC,
    KEYWORDS,
    *_BATCHES,
    Parameter(
        "max_neighbors",
        "count",
        text(
            "the most points that a query may have. None: as many as there are.",
            torch="None on a device, where offsets are not read.",
            jax="None under `jit`.",
            cuda="None: offsets are not read.",
        ),
        None,
    ),
    Parameter(
        "capacity",
        "count",
        text(
            "the most pairs that there may be. None: as many as there are.",
            torch=_FILLED.format("On a device, with"),
            jax=f"{_FILLED.format('With')} Needed under `jit`, where of more pairs there is none at all, and lengths "
            "are NaN.",
            cuda=_FILLED.format("With"),
        ),
        None,
    ),
    _ORDER,
    *_RETURNED,
    STREAM,
    notes={
        "torch": "Distances and vectors are differentiable twice in queries, points and cell; which points are within "
        "the radius is not. The number of pairs depends on values: compiled graphs hold the call where they capture "
        "such shapes (`torch._dynamo.config.capture_dynamic_output_shape_ops`, and `torch.export`). On a device a call "
        "without `capacity` waits for that number.",
        "jax": "Distances and vectors are differentiable twice in queries, points and cell; which points are within "
        "the radius is not.",
        "cuda": "Without `capacity` the call waits for the number of pairs.",
    },
    returns=text(
        "`query_ptr` (M+1,) int32, where the points of each query begin, `indices` (P,) int32 and `distances` (P,), by "
        "query, index and S; then, if asked for, shifts (P, 3) int32 and vectors (P, 3), r_j − q_i + S · cell."
    ),
    raises=text(
        f"{ERRORS.common} ValueError also where points do not fit `max_neighbors` or `capacity`: the message has the "
        "size that is needed. A list is never cut short.",
    ),
    result="tuple[Array, ...]",
)
def radius(
    f: Framework,
    queries: Any,
    points: Any,
    radius: Any,
    cell: Any,
    pbc: Any,
    query_batch_idx: Any,
    batch_idx: Any,
    max_neighbors: Any,
    capacity: Any,
    order: Any,
    return_shifts: Any,
    return_vectors: Any,
) -> tuple[Any, ...]:
    """All points within a radius of each query: |r_j − q_i + S · cell| ≤ radius.

    With periodic axes every image counts as a point of its own. A query that is on a point has it at distance zero,
    where the distance has a derivative of zero.
    """
    options = check.list_options(False, "csr", None, max_neighbors, capacity, None, False, False)
    shifts_too, vectors_too = check.flag("return_shifts", return_shifts), check.flag("return_vectors", return_vectors)
    call = around(f, queries, points, cell, pbc, (query_batch_idx, batch_idx), order)
    ptr, indices, shifts = within(f, call, _reach(f, radius), options.capacity if f.keeps_room else None)
    if f.is_readable(ptr):
        check.list_fits(f.value("query_ptr", ptr), options)
    elif options.max_neighbors is not None:
        check.refuse("max_neighbors", "None where the offsets have no values yet", options.max_neighbors)
    pairs = (ptr, indices, shifts, DIRECTED + CHECKED)
    vectors, distances = _measured(f, call, pairs, vectors_too)
    results = [ptr, indices, f.rounded(distances, queries)]
    results += [shifts] * shifts_too
    if vectors_too:
        results.append(f.rounded(along_axes(f, vectors, queries), queries))
    return tuple(results)


def _reach(f: Framework, radius: Any, any_distance: bool = False) -> float:
    if any_distance and isinstance(radius, float) and radius == math.inf:
        return radius
    reach = f.distance("radius", radius)
    # NaN is not above zero.
    return reach if reach is not None and reach > 0.0 else check.refuse("radius", "a number above zero", reach)


@function(
    _POINTS.but(text=text("(N, 3), float32 or float64 or of half precision, anywhere.")),
    _CELL,
    _PBC,
    KEYWORDS,
    _BATCHES[1].but(text=text("(N,), the system of each point, sorted.")),
    STREAM,
    notes={
        "torch": "On a device nothing is read or waited for.",
        "cuda": "Nothing is waited for, but the number of systems that share one cell.",
    },
    returns=text("(N,) int32: for each place the number of its point within its system, from 0 on."),
    raises=ERRORS,
    result="Array",
)
def spatial_order(f: Framework, points: Any, cell: Any, pbc: Any, batch_idx: Any) -> Any:
    """An order in space of the points of each system, in which those that follow each other are neighbours.

    Given to searches as `order`, it saves them from finding one. Atoms that are sorted so (`points[order]`, of one
    system) make sums over neighbours faster. It follows Hilbert's curve.
    """
    names = ("points", "points", "batch_idx", "batch_idx")
    call = around(f, points, points, cell, pbc, (batch_idx, batch_idx), None, names)
    (order,) = f.search("spatial_order", *call.arrays[1:], call.rows, call.batches[1], call.bits)
    return order


@function(
    _QUERIES,
    _POINTS,
    _FEATURES,
    Parameter("radius", "positive", text("largest distance of a point that counts, in L.", jax="A Python number.")),
    _SIGMA,
    _CELL,
    _PBC,
    KEYWORDS,
    Parameter(
        "weight",
        "word",
        text('"exp": exp(−d/σ), "gaussian": exp(−d²/2σ²), "inverse": 1/(d + σ), where d is the distance.'),
        "exp",
        words=tuple(_RADIUS_WEIGHTS),
    ),
    Parameter("normalize", "flag", text("whether sums are divided by the sum of their weights and `eps`."), True),
    Parameter("eps", "number", text("added to the sum of weights: a query without a point then has zeros."), 1e-8),
    *_BATCHES,
    _ORDER,
    Parameter(
        "max_neighbors",
        "count",
        text(
            "on a device the most points of a query, on average, for which there is memory; None: as many as there "
            "are, for whose number every pass waits. The CPU needs none."
        ),
        None,
    ),
    STREAM,
    notes={
        "torch": "Differentiable twice in queries, points, features and sigma. Compiled graphs hold the call (with a "
        "cell for each system where there are several), and captured ones with `max_neighbors`.",
        "jax": "Differentiable twice in queries, points, features and sigma. Under `jit` too (with a cell for each "
        "system where there are several).",
        "cuda": "Derivatives by `call`. With `max_neighbors` nothing is waited for, but the number of systems that "
        "share one cell.",
    },
    returns=text("(M, F), Σ w f / (Σ w + eps) over the points, and images of points, within the radius of each query."),
    raises=ERRORS,
    result="Array",
)
def radius_aggregate(
    f: Framework,
    queries: Any,
    points: Any,
    features: Any,
    radius: Any,
    sigma: Any,
    cell: Any,
    pbc: Any,
    weight: Any,
    normalize: Any,
    eps: Any,
    query_batch_idx: Any,
    batch_idx: Any,
    order: Any,
    max_neighbors: Any,
) -> Any:
    """Features of the points within a radius of each query, weighted by distance.

    Points are searched for while their features are added up, and no list of pairs is kept: memory grows with points
    and queries. On a device each pass, forwards and backwards, has a list while it runs. A query that is on a point has
    it at distance zero, where the distance has a derivative of zero. Points enter and leave at the radius with the
    weight that they have there, which is no part of the derivatives.
    """
    name = _RADIUS_WEIGHTS[check.word("weight", weight, tuple(_RADIUS_WEIGHTS))]
    reach = _reach(f, radius)
    call = around(f, queries, points, cell, pbc, (query_batch_idx, batch_idx), order)
    (q, r, h), (of_queries, of_points) = call.arrays, call.batches
    x, length = _features(f, features, sigma, call)
    (of_query,) = f.search("query_order", q, h, call.rows, of_queries, call.bits)
    known = call.order
    if call.kept is not None:
        known = f.indices(call.kept.order, r)
    elif order is None:
        (known,) = f.search("point_order", r, h, call.rows, of_points, call.bits)
    scale = 1.0 if check.flag("normalize", normalize) else 0.0
    most = -1 if max_neighbors is None else check.at_least_one("max_neighbors", max_neighbors)
    (out,) = f.op(
        f"radius_aggregate_{name}",
        *(q, r, x, length, h),
        *call.batches,
        *(call.rows, call.bits, most),
        *(check.number("eps", eps), scale, reach),
        *(of_query, known),
    )
    return f.rounded(out, features)


@function(
    _QUERIES,
    _POINTS,
    _FEATURES,
    Parameter("k", "count", text("how many points each query has, from 1 up.")),
    _SIGMA,
    _CELL,
    _PBC,
    KEYWORDS,
    Parameter(
        "weight",
        "word",
        text(
            '"softmax": exp(−d/σ), "gaussian": exp(−d²/2σ²), "inverse": 1/(d + σ), where d is the distance. Each is '
            "relative to the largest of its query, so weights never vanish together."
        ),
        "softmax",
        words=tuple(_KNN_WEIGHTS),
    ),
    *_BATCHES,
    _WITHIN,
    _ORDER,
    STREAM,
    notes={
        "torch": "Differentiable twice in queries, points, features and sigma; which points are nearest is not. "
        "Compiled graphs hold the call (with a cell for each system where there are several). On a device nothing "
        "is read or waited for.",
        "jax": "Differentiable twice in queries, points, features and sigma; which points are nearest is not. Under "
        "`jit` too (with a cell for each system where there are several).",
        "cuda": "Derivatives by `call`. Nothing is waited for, but the number of systems that share one cell.",
    },
    returns=text("(M, F), Σ w f / Σ w over the k nearest points of each query, zero for one without a point."),
    raises=text(
        f"{ERRORS.common} ValueError also where a query has fewer than k points, and `radius` is None: the message "
        "says how many.",
    ),
    result="Array",
)
def knn_aggregate(
    f: Framework,
    queries: Any,
    points: Any,
    features: Any,
    k: Any,
    sigma: Any,
    cell: Any,
    pbc: Any,
    weight: Any,
    query_batch_idx: Any,
    batch_idx: Any,
    radius: Any,
    order: Any,
) -> Any:
    """Features of the k nearest points of each query, weighted by distance.

    With periodic axes every image counts as a point of its own. A query that is on a point has it at distance zero,
    where the distance has a derivative of zero.
    """
    name = _KNN_WEIGHTS[check.word("weight", weight, tuple(_KNN_WEIGHTS))]
    most = check.at_least_one("k", k)
    call = around(f, queries, points, cell, pbc, (query_batch_idx, batch_idx), order)
    x, length = _features(f, features, sigma, call)
    pairs, _, _ = _nearest(f, call, most, radius)
    q, r, h = call.arrays
    (out,) = f.op(f"list_aggregate_{name}", q, r, x, length, h, *call.batches, *pairs)
    return f.rounded(out, features)
