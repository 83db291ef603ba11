"""Calls of the public functions with PyTorch's modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from madelung._functions.bound import refuse_foreign, straight_calls
from madelung._native import InGraph
from madelung.torch._errors import FAILURES, explained
from madelung.torch._framework import ENERGIES, Device, Eager, Graph, is_compiling, mode_of, outside_graphs
from madelung.torch._plain import PLAIN


def call(body: Callable[..., Any], stream: Any, *given: Any) -> Any:
    """A body with the mode of its first tensor, and the error of a call that failed in the words of this library."""
    if stream is not None:
        refuse_foreign("torch", body, stream, given)
    if is_compiling():
        return body(Graph, *given)
    try:
        found = STRAIGHT[body](given) if body in STRAIGHT else NotImplemented
        if type(found) is InGraph:
            try:
                return Eager.evaluated(*found.arguments)
            except FAILURES:
                # The body has another way for some cells, and the error of others.
                pass
        elif found is not NotImplemented:
            return found
        return body(mode_of(given[0]), *given)
    except FAILURES as error:
        failure = error
    try:
        raise explained(body.__name__, failure, given)
    finally:
        # Without the name the traceback and its frame would keep each other, and the tensors of the call.
        del failure


STRAIGHT = {} if PLAIN is None else straight_calls(PLAIN, lambda op: ((Eager, Device), ENERGIES[op]), Eager)

# Of bodies that read values, at which compiled graphs break.
read = outside_graphs(call)
