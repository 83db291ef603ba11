"""Calls of the public functions with PyTorch's modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from madelung._functions.bound import refuse_differentiated, refuse_foreign, straight_calls
from madelung._functions.declare import FUNCTIONS
from madelung._native import InGraph
from madelung.torch._errors import FAILURES, explained
from madelung.torch._framework import ENERGIES, Device, Eager, Graph, is_compiling, mode_of, outside_graphs
from madelung.torch._inputs import under_autocast
from madelung.torch._plain import PLAIN


def call(body: Callable[..., Any], stream: Any, *given: Any) -> Any:
    """A body with the mode of its first tensor, and the error of a call that failed in the words of this library."""
    if stream is not None:
        refuse_foreign("torch", body, stream, given)
    if is_compiling():
        return body(Graph, *(_widened(body, given) or given))
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
        mode = mode_of(given[0])
        refuse_differentiated(mode, body, given)
        return body(mode, *given)
    except FAILURES as error:
        failure = error
    if wide := _widened(body, given):
        return call(body, stream, *wide)
    try:
        raise explained(body.__name__, failure, given)
    finally:
        # Without the name the traceback and its frame would keep each other, and the tensors of the call.
        del failure


def _widened(body: Callable[..., Any], given: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """See `under_autocast`; the arguments of functions that take half precision stay as they are."""
    return None if body.__name__ in _TAKE_HALF else under_autocast(given)


STRAIGHT = {} if PLAIN is None else straight_calls(PLAIN, lambda op: ((Eager, Device), ENERGIES[op]))
# A tuple of names: graphs of PyTorch 2.7 look for a word in that, and not for a function in a set.
_TAKE_HALF = tuple([x.body.__name__ for x in FUNCTIONS.values() if any([p.name == "queries" for p in x.parameters()])])

# Of bodies that read values, at which compiled graphs break.
read = outside_graphs(call)
