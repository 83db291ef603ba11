"""Points around queries: declarations and bodies of the public functions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from madelung import _arguments as check
from madelung._functions.declare import KEYWORDS, Parameter, function, text
from madelung._functions.framework import Framework
from madelung._functions.parameters import CELL, ERRORS, PBC, STREAM
from madelung._neighbors import plain_axes
from madelung._schema import CHECKED, DIRECTED

_QUERIES = Parameter(
    "queries",
    "reals",
    text(
        "(M, 3), float32 or float64, anywhere. Those of half precision are searched in float32, and real results "
        "rounded back.",
        cuda="Not of half precision.",
    ),
)
_POINTS = Parameter("points", "reals", text("(N, 3), of the queries' dtype, anywhere. They may be the queries."))
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
_FILLED = "{} one, arrays have that length, filled up with N, and zero in images and lengths."
# Names of ops, by those of weights.
_RADIUS_WEIGHTS = {"exp": "exponential", "gaussian": "gaussian", "inverse": "inverse"}
_KNN_WEIGHTS = {"softmax": "exponential", "gaussian": "gaussian", "inverse": "inverse"}


class Around(NamedTuple):
    """Queries among points, as inputs of ops."""

    arrays: tuple[Any, Any, Any]
    """Queries, points, and a cell for each system."""
    batches: tuple[Any, Any]
    """The system of each query and of each point."""
    rows: Any
    """Periodic axes of systems, as searches take them."""
    bits: int
    system: Any
    order: Any
    """The order of the points in space; empty where none is known."""


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
    queries, points = f.widened(queries), f.widened(points)
    system = f.system(
        points, check.NO_CHARGES, f.no_cell(points, of_point) if cell is None else cell, batch_idx, of_point
    )
    r, h, of_points = f.atoms(system)
    q = f.reals(of_query, queries, ("M", 3), system.positions)
    if query_batch_idx is not None:
        of_queries = f.integers(of_batch, query_batch_idx, (q.shape[0],))
    else:
        if system.systems != 1:
            expected = f"the system of each query, as the points are in {system.systems} systems"
            check.refuse(of_batch, expected, "None")
        of_queries = f.one_system(system.positions, q.shape[0])
    check.fits(of_query, q, ("M", 3))
    check.fits(of_point, r, ("N", 3))
    check.fits(of_batch, of_queries, q.shape[:1])
    check.fits(of_points_batch, of_points, r.shape[:1])
    # Graphs hold Python's own truths as constants.
    plain = plain_axes(pbc)
    axes = plain if plain is not None and len(plain) == 1 else check.periodic(f.value("pbc", pbc))
    check.lattices(system.systems, axes)
    rows, bits = check.search_axes(axes, cell)
    none = np.empty(0, np.int32)
    known = f.indices(none, r) if order is None else f.integers("order", order, (r.shape[0],))
    return Around((q, r, h), (of_queries, of_points), f.indices(rows, r), bits, system, known)


def within(f: Framework, call: Around, radius: float, capacity: int | None) -> tuple[Any, Any, Any]:
    """Offsets of each query's points within a radius, their indices and images."""
    room = -1 if capacity is None else capacity
    return f.counted("radius_search", *call.arrays, call.rows, call.order, *call.batches, radius, call.bits, room)


def _nearest(f: Framework, call: Around, k: int) -> tuple[Any, ...]:
    """Inputs of an op that make up the list of the k nearest points, their indices (M, k) and images (M, k, 3)."""
    ptr, indices, shifts = f.search("nearest", *call.arrays, call.rows, call.order, *call.batches, call.bits, k)
    pairs = call.arrays[0].shape[0] * k
    return (ptr, indices.reshape((pairs,)), shifts.reshape((pairs, 3)), DIRECTED + CHECKED), indices, shifts


def _features(f: Framework, features: Any, sigma: Any, points: Any, system: Any) -> tuple[Any, Any]:
    """Features of the points, and the length of a weight."""
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
        "(M, k, 3) int32 and vectors (M, k, 3), r_j − q_i + S · cell."
    ),
    raises=text(
        f"{ERRORS.common} ValueError also where a query has fewer than k points: the message says how many.",
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
    pairs, indices, shifts = _nearest(f, call, most)
    vectors, distances = f.op("point_vectors", *call.arrays, *call.batches, *pairs)
    results = [indices, f.rounded(distances.reshape(indices.shape), queries)]
    results += [shifts] * shifts_too + [f.rounded(vectors.reshape(shifts.shape), queries)] * vectors_too
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
    vectors, distances = f.op("point_vectors", *call.arrays, *call.batches, *pairs)
    results = [ptr, indices, f.rounded(distances, queries)]
    return (*results, *[shifts] * shifts_too, *[f.rounded(vectors, queries)] * vectors_too)


def _reach(f: Framework, radius: Any) -> float:
    reach = f.distance("radius", radius)
    return check.refuse("radius", "a number above zero", reach) if reach is None or reach <= 0.0 else reach


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
        text("exp(−d/σ), exp(−d²/2σ²) or 1/(d + σ), where d is the distance."),
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
    x, length = _features(f, features, sigma, r, call.system)
    (of_query,) = f.search("query_order", q, h, call.rows, of_queries, call.bits)
    known = call.order
    if order is None:
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
            "exp(−d/σ), exp(−d²/2σ²) or 1/(d + σ), where d is the distance, relative to the largest: so weights never "
            "vanish together."
        ),
        "softmax",
        words=tuple(_KNN_WEIGHTS),
    ),
    *_BATCHES,
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
    returns=text("(M, F), Σ w f / Σ w over the k nearest points of each query."),
    raises=text(
        f"{ERRORS.common} ValueError also where a query has fewer than k points: the message says how many.",
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
    order: Any,
) -> Any:
    """Features of the k nearest points of each query, weighted by distance.

    With periodic axes every image counts as a point of its own. A query that is on a point has it at distance zero,
    where the distance has a derivative of zero.
    """
    name = _KNN_WEIGHTS[check.word("weight", weight, tuple(_KNN_WEIGHTS))]
    most = check.at_least_one("k", k)
    call = around(f, queries, points, cell, pbc, (query_batch_idx, batch_idx), order)
    x, length = _features(f, features, sigma, call.arrays[1], call.system)
    pairs, _, _ = _nearest(f, call, most)
    q, r, h = call.arrays
    (out,) = f.op(f"list_aggregate_{name}", q, r, x, length, h, *call.batches, *pairs)
    return f.rounded(out, features)
