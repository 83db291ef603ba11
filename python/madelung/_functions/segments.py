"""Sums, means, extrema and softmax over sorted segments: declarations and bodies of the public functions."""

from __future__ import annotations

from typing import Any

from madelung import _arguments as check
from madelung._functions.declare import Parameter, Text, function, text
from madelung._functions.framework import Framework
from madelung._functions.parameters import ERRORS, STREAM

_MOST = 2**31 - 1

_VALUES = Parameter(
    "values",
    "reals",
    text(
        "(P,) or (P, …), float32 or float64: a number for each entry, or features of any shape. NaN and infinities are "
        "an error.",
    ),
)
_SEGMENT_IDX = Parameter(
    "segment_idx",
    "integers",
    text(
        "(P,), the segment of each entry, sorted: the first row of a neighbour list, the `batch_idx` of atoms.",
    ),
    shape=("P",),
)
_NUM_SEGMENTS = Parameter(
    "num_segments",
    "count",
    text(
        "how many segments there are, S; any may be empty. None: one more than the last index. Give it where trailing "
        "atoms may have no neighbours.",
        torch="Compiled graphs and `vmap` need it.",
        jax="Under `jit` and `vmap` of the indices it is needed: a Python number.",
        cuda="None makes the call wait.",
    ),
    None,
)
_TWICE = "Differentiable twice, in compiled graphs too."
_NOTES = {"torch": _TWICE, "jax": "Differentiable twice, in every mode, under `jit` and `vmap`."}
_BY_COLUMNS = {
    **_NOTES,
    "cuda": "Values with several features are transposed on the host, for which the call waits.",
}
_ERRORS = text(
    f"{ERRORS.common} ValueError for indices that are not sorted, negative, or not below `num_segments`, and for "
    "values that are not finite: the message says which.",
    **ERRORS.notes,
)


def _reduced(said: str) -> Text:
    return text(f"(S,), or (S, …) with the shape of the features: {said}")


@function(
    _VALUES,
    _SEGMENT_IDX,
    _NUM_SEGMENTS,
    STREAM,
    notes=_NOTES,
    returns=_reduced("the sums; 0 for an empty segment."),
    raises=_ERRORS,
    result="Array",
)
def segment_sum(f: Framework, values: Any, segment_idx: Any, num_segments: Any) -> Any:
    """The sum of the entries of each segment.

    Carried in float64, in a fixed order: the same bits in every run. Messages add up to an atom's by the first row of
    its pairs; energies of atoms add up to a system's by `batch_idx`.
    """
    return _of_features(f, "segment_sum", values, segment_idx, num_segments)


@function(
    _VALUES,
    _SEGMENT_IDX,
    _NUM_SEGMENTS,
    STREAM,
    notes=_NOTES,
    returns=_reduced("the means; 0 for an empty segment."),
    raises=_ERRORS,
    result="Array",
)
def segment_mean(f: Framework, values: Any, segment_idx: Any, num_segments: Any) -> Any:
    """The mean of the entries of each segment."""
    return _of_features(f, "segment_mean", values, segment_idx, num_segments)


@function(
    _VALUES,
    _SEGMENT_IDX,
    _NUM_SEGMENTS,
    STREAM,
    notes=_BY_COLUMNS,
    returns=_reduced("the largest entries; 0 for an empty segment, as in PyTorch Geometric (`jax.ops` has −∞ there)."),
    raises=_ERRORS,
    result="Array",
)
def segment_max(f: Framework, values: Any, segment_idx: Any, num_segments: Any) -> Any:
    """The largest entry of each segment, for every feature by itself.

    Its derivative is that of the entry; where several are equal, of the first one.
    """
    (x,), idx, segments = f.segments({"values": values}, segment_idx, num_segments)
    width = _width("values", x)
    found = _by_columns(f, "segment_max", x, idx, segments)
    return _rows(f, found, (segments, width)).reshape((segments, *x.shape[1:]))


@function(
    _VALUES.but(
        text=text(
            "(P,) or (P, …), float32 or float64: a score for each entry, or several (heads), each with a softmax of "
            "its own. NaN and infinities are an error.",
        )
    ),
    _SEGMENT_IDX,
    _NUM_SEGMENTS,
    STREAM,
    notes=_BY_COLUMNS,
    returns=text("The weights, of the shape of the values."),
    raises=_ERRORS,
    result="Array",
)
def segment_softmax(f: Framework, values: Any, segment_idx: Any, num_segments: Any) -> Any:
    """The softmax within each segment: exp(x_p) / Σ_q exp(x_q), the weights of attention over the neighbours.

    The weights of a segment add up to one. Computed after subtracting the segment's largest entry, so it never becomes
    0/0 and never overflows.
    """
    (x,), idx, segments = f.segments({"values": values}, segment_idx, num_segments)
    width = _width("values", x)
    found = _by_columns(f, "segment_softmax", x, idx, segments)
    return _rows(f, found, (x.shape[0], width)).reshape(x.shape)


@function(
    Parameter(
        "x",
        "reals",
        text(
            "(P,) or (P, …), float32 or float64, of one shape and dtype: numbers or vectors of any shape. NaN and "
            "infinities are an error.",
        ),
    ),
    Parameter("y", "reals"),
    _SEGMENT_IDX,
    _NUM_SEGMENTS,
    STREAM,
    notes=_NOTES,
    returns=text("(S,), the sums; 0 for an empty segment."),
    raises=_ERRORS,
    result="Array",
)
def segment_dot(f: Framework, x: Any, y: Any, segment_idx: Any, num_segments: Any) -> Any:
    """The inner product of the vectors of each segment: Σ_p x_p · y_p over its entries and all of their features.

    The work Σ F · v of each system, norms, lengths of steps. `segment_sum(x * y, …)` keeps the features apart, and
    `segment_sum(w[:, None] * x, …)` is the weighted sum of attention.
    """
    (x, y), idx, segments = f.segments({"x": x, "y": y}, segment_idx, num_segments)
    shape = x.shape[0], _width("x", x)
    return f.op("segment_dot", x.reshape(shape), y.reshape(shape), idx, segments)[0]


def _width(name: str, x: Any) -> Any:
    """The number of features."""
    width = 1
    for length in x.shape[1:]:
        width = width * length
    if width == 0:
        check.refuse(name, "at least one feature", tuple(x.shape))
    return width


def _of_features(f: Framework, op: str, values: Any, segment_idx: Any, num_segments: Any) -> Any:
    """The result (S, …) of an op of features."""
    (x,), idx, segments = f.segments({"values": values}, segment_idx, num_segments)
    found = f.op(op, x.reshape((x.shape[0], _width("values", x))), idx, segments)[0]
    return found.reshape((segments, *x.shape[1:]))


def _by_columns(f: Framework, op: str, x: Any, idx: Any, segments: Any) -> Any:
    """The result, flat, of an op of one number for each entry: each feature has segments of its own, behind those of
    the one before."""
    rows, width = x.shape[0], _width("values", x)
    if width == 1:
        return f.op(op, x.reshape((rows,)), idx, segments)[0]
    if width * segments > _MOST:
        check.refuse("num_segments", f"at most {_MOST // width}, with {width} features", segments)
    return f.op(op, f.transposed(x, (rows, width)), f.apart(idx, width, segments), width * segments)[0]


def _rows(f: Framework, found: Any, shape: tuple[Any, Any]) -> Any:
    """Results of `_by_columns`, in the order of rows."""
    rows, width = shape
    return found if width == 1 else f.transposed(found, (width, rows))
