"""Points around queries: declarations and bodies of the public functions."""

from __future__ import annotations

from typing import Any

from madelung import _arguments as check
from madelung._functions.declare import KEYWORDS, Parameter, function, text
from madelung._functions.framework import Framework
from madelung._functions.parameters import CELL, ERRORS, PBC, STREAM
from madelung._schema import CHECKED, DIRECTED

_QUERIES = Parameter(
    "queries", "reals", text("(M, 3), float32 or float64, anywhere.", cuda="In the memory of a device.")
)
_POINTS = Parameter("points", "reals", text("(N, 3), of the queries' dtype, anywhere. They may be the queries."))
_FEATURES = Parameter("features", "reals", text("(N, F), of the queries' dtype."))
_SIGMA = Parameter("sigma", "per_system", text("length σ of the weight, one for all systems or (B,)."))
_CELL = CELL.but(default=None, text=text("(3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic."))
_PBC = PBC.but(text=text("(3,) or (B, 3) of bool. None: all axes of a cell are periodic.", jax="No traced array."))
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
_ERRORS = text(ERRORS.common, **ERRORS.notes)
# Names of ops, by those of weights.
_RADIUS_WEIGHTS = {"exp": "exponential", "gaussian": "gaussian", "inverse": "inverse"}
_KNN_WEIGHTS = {"softmax": "exponential", "gaussian": "gaussian", "inverse": "inverse"}


def _around(f: Framework, queries: Any, points: Any, cell: Any, pbc: Any, batches: tuple[Any, Any]) -> tuple[Any, ...]:
    """Queries, points, cells, the system of each query and of each point, the periodic axes as searches take them, and
    the system of the call.
    """
    query_batch_idx, batch_idx = batches
    system = f.system(
        points, check.NO_CHARGES, f.no_cell(points, "points") if cell is None else cell, batch_idx, "points"
    )
    r, h, of_points = f.atoms(system)
    q = f.table("queries", queries, ("M", 3), system)
    if query_batch_idx is not None:
        of_queries = f.integers("query_batch_idx", query_batch_idx, (q.shape[0],), system)
    else:
        if system.systems != 1:
            expected = f"the system of each query, as the points are in {system.systems} systems"
            check.refuse("query_batch_idx", expected, "None")
        of_queries = f.one_system(q.shape[0], system)
    check.fits("query_batch_idx", of_queries, q.shape[:1])
    check.fits("batch_idx", of_points, r.shape[:1])
    axes = check.periodic(f.value("pbc", pbc))
    check.lattices(system.systems, axes)
    rows, bits = check.search_axes(axes, cell)
    return (q, r, h), (of_queries, of_points), (f.indices(rows, r), bits), axes, system


def _nearest(f: Framework, arrays: Any, batches: Any, axes: Any, k: int) -> tuple[Any, ...]:
    """Inputs of an op that make up the list of the k nearest points, their indices (M, k) and images (M, k, 3)."""
    rows, bits = axes
    q, r, h = arrays
    ptr, indices, shifts = f.search("nearest", q, r, h, rows, *batches, bits, k)
    return (ptr, indices.reshape(-1), shifts.reshape(-1, 3), DIRECTED + CHECKED), indices, shifts


def _features(f: Framework, features: Any, sigma: Any, points: Any, system: Any) -> tuple[Any, Any]:
    """Features of the points, and the length of a weight."""
    x = f.table("features", features, ("N", "F"), system)
    check.fits("features", x, (points.shape[0], "F"))
    return x, f.per_system("sigma", sigma, system)


@function(
    _QUERIES,
    _POINTS,
    Parameter("k", "count", text("how many points each query has, from 1 up.")),
    _CELL,
    _PBC,
    KEYWORDS,
    *_BATCHES,
    Parameter("return_shifts", "flag", text("whether the images S and the vectors are returned too."), False),
    Parameter("return_vectors", "flag", default=False),
    STREAM,
    notes={
        "torch": "Distances and vectors are differentiable twice in queries, points and cell; which points are nearest "
        "is not. Compiled graphs hold the call (with a cell for each system where there are several). On the CPU.",
        "jax": "Distances and vectors are differentiable twice in queries, points and cell; which points are nearest "
        "is not. Under `jit` too (with a cell for each system where there are several). On the CPU.",
        "cuda": "Not on devices yet, but from Rust.",
    },
    returns=text(
        "`indices` (M, k) int32 and `distances` (M, k), by distance, then index, then S; then, if asked for, shifts "
        "(M, k, 3) int32 and vectors (M, k, 3), r_j − q_i + S · cell."
    ),
    raises=text(
        f"{ERRORS.common} ValueError also where a query has fewer than k points: the message says how many.",
        **ERRORS.notes,
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
    return_shifts: Any,
    return_vectors: Any,
) -> tuple[Any, ...]:
    """The k nearest points of each query, exactly.

    With periodic axes every image counts as a point of its own, so k may exceed the number of points. A query that is
    on a point has it at distance zero, where the distance has a derivative of zero.
    """
    most = check.at_least_one("k", k)
    shifts_too, vectors_too = check.flag("return_shifts", return_shifts), check.flag("return_vectors", return_vectors)
    arrays, batches, axes, _, _ = _around(f, queries, points, cell, pbc, (query_batch_idx, batch_idx))
    pairs, indices, shifts = _nearest(f, arrays, batches, axes, most)
    vectors, distances = f.op("point_vectors", *arrays, *batches, *pairs)
    results = [indices, distances.reshape(indices.shape)]
    results += [shifts] * shifts_too + [vectors.reshape(shifts.shape)] * vectors_too
    return tuple(results)


@function(
    _QUERIES,
    _POINTS,
    _FEATURES,
    Parameter("radius", "number", text("largest distance of a point that counts, in L.", jax="A Python number.")),
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
    STREAM,
    notes={
        "torch": "Differentiable twice in queries, points, features and sigma. Compiled graphs hold the call (with a "
        "cell for each system where there are several). On the CPU.",
        "jax": "Differentiable twice in queries, points, features and sigma. Under `jit` too (with a cell for each "
        "system where there are several). On the CPU.",
        "cuda": "Not on devices yet.",
    },
    returns=text("(M, F), Σ w f / (Σ w + eps) over the points, and images of points, within the radius of each query."),
    raises=_ERRORS,
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
) -> Any:
    """Features of the points within a radius of each query, weighted by distance.

    Points are searched for while their features are added up, and no list of pairs is kept: memory grows with points
    and queries. A query that is on a point has it at distance zero, where the distance has a derivative of zero. Points
    enter and leave at the radius with the weight that they have there, which is no part of the derivatives.
    """
    name = _RADIUS_WEIGHTS[check.word("weight", weight, tuple(_RADIUS_WEIGHTS))]
    reach = f.distance("radius", radius)
    if reach is None:
        check.refuse("radius", "a number above zero", "None")
    arrays, batches, (rows, bits), axes, system = _around(f, queries, points, cell, pbc, (query_batch_idx, batch_idx))
    q, r, h = arrays
    x, length = _features(f, features, sigma, r, system)
    if bits != 7:
        # Lattice vectors of open axes are zero.
        open_axes = [[0.0] * 3] if axes is None else axes.tolist()
        h = h * f.table("pbc", [[[float(axis)] for axis in of] for of in open_axes], ("B", 3, 1), system)
    places = f.search("spatial_order", q, r, h, rows, *batches, bits)
    scale = 1.0 if check.flag("normalize", normalize) else 0.0
    (out,) = f.op(
        f"radius_aggregate_{name}",
        *(q, r, x, length, h),
        *batches,
        *(check.number("eps", eps), scale, reach),
        *places,
    )
    return out


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
    STREAM,
    notes={
        "torch": "Differentiable twice in queries, points, features and sigma; which points are nearest is not. "
        "Compiled graphs hold the call (with a cell for each system where there are several). On the CPU.",
        "jax": "Differentiable twice in queries, points, features and sigma; which points are nearest is not. Under "
        "`jit` too (with a cell for each system where there are several). On the CPU.",
        "cuda": "Not on devices yet.",
    },
    returns=text("(M, F), Σ w f / Σ w over the k nearest points of each query."),
    raises=text(
        f"{ERRORS.common} ValueError also where a query has fewer than k points: the message says how many.",
        **ERRORS.notes,
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
) -> Any:
    """Features of the k nearest points of each query, weighted by distance.

    With periodic axes every image counts as a point of its own. A query that is on a point has it at distance zero,
    where the distance has a derivative of zero.
    """
    name = _KNN_WEIGHTS[check.word("weight", weight, tuple(_KNN_WEIGHTS))]
    most = check.at_least_one("k", k)
    arrays, batches, axes, _, system = _around(f, queries, points, cell, pbc, (query_batch_idx, batch_idx))
    x, length = _features(f, features, sigma, arrays[1], system)
    pairs, _, _ = _nearest(f, arrays, batches, axes, most)
    q, r, h = arrays
    (out,) = f.op(f"list_aggregate_{name}", q, r, x, length, h, *batches, *pairs)
    return out
