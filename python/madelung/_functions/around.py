"""Points around queries: declarations and bodies of the public functions."""

from __future__ import annotations

from typing import Any

from madelung import _arguments as check
from madelung._functions.declare import KEYWORDS, Parameter, function, text
from madelung._functions.framework import Framework
from madelung._functions.parameters import CELL, ERRORS, PBC, STREAM
from madelung._functions.sites import Around, along_axes, around, measured, nearest, reach_of, within
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
    pairs, indices, shifts = nearest(f, call, most, radius)
    vectors, distances = measured(f, call, pairs, vectors_too, radius is not None)
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
    ptr, indices, shifts = within(f, call, reach_of(f, radius), options.capacity if f.keeps_room else None)
    if f.is_readable(ptr):
        check.list_fits(f.value("query_ptr", ptr), options)
    elif options.max_neighbors is not None:
        check.refuse("max_neighbors", "None where the offsets have no values yet", options.max_neighbors)
    pairs = (ptr, indices, shifts, DIRECTED + CHECKED)
    vectors, distances = measured(f, call, pairs, vectors_too, capacity is not None)
    results = [ptr, indices, f.rounded(distances, queries)]
    results += [shifts] * shifts_too
    if vectors_too:
        results.append(f.rounded(along_axes(f, vectors, queries), queries))
    return tuple(results)


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
    (order,) = f.search("spatial_order", *call.arrays[1:], call.sites.rows, call.batches[1], call.sites.bits)
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
    reach = reach_of(f, radius)
    call = around(f, queries, points, cell, pbc, (query_batch_idx, batch_idx), order)
    (q, r, h), (of_queries, of_points) = call.arrays, call.batches
    x, length = _features(f, features, sigma, call)
    (of_query,) = f.search("query_order", q, h, call.sites.rows, of_queries, call.sites.bits)
    known = call.order
    if call.sites.kept is not None:
        known = f.indices(call.sites.kept[0].order, r)
    elif order is None:
        (known,) = f.search("point_order", r, h, call.sites.rows, of_points, call.sites.bits)
    scale = 1.0 if check.flag("normalize", normalize) else 0.0
    most = -1 if max_neighbors is None else check.at_least_one("max_neighbors", max_neighbors)
    (out,) = f.op(
        f"radius_aggregate_{name}",
        *(q, r, x, length, h),
        *call.batches,
        *(call.sites.rows, call.sites.bits, most),
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
    pairs, _, _ = nearest(f, call, most, radius)
    q, r, h = call.arrays
    (out,) = f.op(f"list_aggregate_{name}", q, r, x, length, h, *call.batches, *pairs)
    return f.rounded(out, features)
