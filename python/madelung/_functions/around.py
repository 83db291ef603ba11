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


@function(
    _QUERIES,
    _POINTS,
    Parameter("k", "count", text("how many points each query has, from 1 up.")),
    CELL.but(default=None, text=text("(3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.")),
    PBC.but(text=text("(3,) or (B, 3) of bool. None: all axes of a cell are periodic.", jax="No traced array.")),
    KEYWORDS,
    Parameter(
        "query_batch_idx",
        "integers",
        text("(M,) and (N,), the system of each query and of each point, sorted: a query sees the points of its own."),
        None,
        ("M",),
    ),
    Parameter("batch_idx", "integers", default=None, shape=("N",)),
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
    batches = (of_queries, of_points)
    ptr, indices, shifts = f.search("nearest", q, r, h, f.indices(rows, r), *batches, bits, most)
    found = (ptr, indices.reshape(-1), shifts.reshape(-1, 3), DIRECTED + CHECKED)
    vectors, distances = f.op("point_vectors", q, r, h, *batches, *found)
    results = [indices, distances.reshape(indices.shape)]
    results += [shifts] * shifts_too + [vectors.reshape(shifts.shape)] * vectors_too
    return tuple(results)
