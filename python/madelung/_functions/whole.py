"""Functions that compiled graphs of PyTorch hold as one op, as they read values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from madelung._functions.framework import Framework

Body = Callable[..., Any]

# The shapes of such functions' results, of a framework and all arguments, by their names.
SHAPES: dict[str, Callable[..., Sequence[Any]]] = {}


def whole(shapes: Callable[..., Sequence[Any]]) -> Callable[[Body], Body]:
    """The body of a function that is one op of graphs."""

    def of(body: Body) -> Body:
        SHAPES[body.__name__] = shapes

        @functools.wraps(body)
        def call(f: Framework, *given: Any) -> Any:
            return f.whole(body, given)

        return call

    return of
