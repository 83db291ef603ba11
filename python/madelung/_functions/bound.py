"""Public functions bound to the arrays of a namespace."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from madelung import _arguments as check
from madelung._functions.declare import FUNCTIONS, Namespace, Parameter

Call = Callable[..., Any]


class Bound:
    """Functions of a namespace: a call of one is a call of its body with the namespace's framework.

    Args:
        namespace: whose functions they are.
        call: of a body with the stream, if one is given, and the body's arguments behind the framework.
        read: the same of bodies that read values of arrays.
    """

    def __init__(self, namespace: Namespace, call: Call, read: Call | None = None) -> None:
        self._namespace, self._call, self._read = namespace, call, read or call

    def __reduce__(self) -> tuple[Call, tuple[Namespace]]:
        return _of, (self._namespace,)


def _of(namespace: Namespace) -> Any:
    return importlib.import_module(f"madelung.{namespace}._functions").bound


def through(namespace: Namespace, framework: Any) -> Call:
    """Calls of bodies with one framework."""

    def call(body: Call, stream: Any, *given: Any) -> Any:
        refuse_foreign(namespace, body, stream, given)
        return body(framework, *given)

    return call


def refuse_foreign(namespace: Namespace, body: Call, stream: Any, given: tuple[Any, ...]) -> None:
    """Refuses arguments that the namespace lacks."""
    if stream is not None:
        check.refuse("stream", f"None, as `madelung.{namespace}` has no argument for streams", check.described(stream))
    for n, k, p in _foreign(namespace, body.__name__):
        x = given[n] if k is None else given[n][k]
        if x is not None and x is not False:
            check.refuse(p.name, f"{p.default}, as `madelung.{namespace}` has no {p.name}", check.described(x))


@functools.cache
def _foreign(namespace: Namespace, name: str) -> list[tuple[int, int | None, Parameter]]:
    return FUNCTIONS[name].places(lambda p: namespace in p.without)
