"""Public functions bound to the arrays of a namespace."""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from madelung import _arguments as check
from madelung import _native
from madelung._functions.declare import FUNCTIONS, REQUIRED, Group, Namespace, Parameter
from madelung._neighbors import Neighbors
from madelung._schema import DIRECT, VALUE

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


def through(
    namespace: Namespace,
    framework: Any,
    straight: Mapping[Call, Call] = MappingProxyType({}),
    own: Callable[[str, Any], Any] | None = None,
) -> Call:
    """Calls of bodies with one framework, but for those that are straight.

    `own`: an argument as the framework's, by its name.
    """

    def call(body: Call, stream: Any, *given: Any) -> Any:
        if stream is None and body in straight and (found := straight[body](given)) is not NotImplemented:
            return found
        if own is not None:
            given = _owned(body.__name__, given, own)
        refuse_foreign(namespace, body, stream, given)
        refuse_differentiated(framework, body, given)
        return body(framework, *given)

    return call


def _owned(name: str, given: tuple[Any, ...], own: Callable[[str, Any], Any]) -> tuple[Any, ...]:
    """The arguments of a function, each as a framework's own."""
    found = [list(x) if n in _groups(name) else x for n, x in enumerate(given)]
    for n, k, p in _parameters(name):
        if k is None:
            found[n] = own(p.name, found[n])
        else:
            found[n][k] = own(p.name, found[n][k])
    return tuple([tuple(x) if n in _groups(name) else x for n, x in enumerate(found)])


@functools.cache
def _parameters(name: str) -> list[tuple[int, int | None, Parameter]]:
    return FUNCTIONS[name].places(lambda p: True)


@functools.cache
def _groups(name: str) -> set[int]:
    return {n for n, k, _ in _parameters(name) if k is not None}


def straight_calls(plain: Any, derived: Callable[[str], Any] = lambda op: None) -> dict[Call, Call]:
    """For each body with an op: the call on plain arrays, which else is not implemented.

    `derived`: the modes on the host and on devices that take an op in graphs of derivatives, and the op in them.
    """
    # Which declares the functions.
    importlib.import_module("madelung._api")
    targets = {op["op"]["name"]: dict(op["targets"]) for op in json.loads(_native.described_ops())}
    found: dict[Call, Call] = {}
    for declared in FUNCTIONS.values():
        if declared.op is None:
            continue
        members = [[targets[op][member] for member in (VALUE, DIRECT)] for op in (declared.op, f"{declared.op}_total")]
        parameters = [
            (p.name, [] if p.default is REQUIRED else [p.default]) for p in declared.parameters() if p.kind != "stream"
        ]
        groups = [len(x.parameters) if isinstance(x, Group) else None for x in declared.arguments()]
        found[declared.body] = _native.Straight(members, parameters, groups, plain, Neighbors, derived(declared.op))
    return found


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


def refuse_differentiated(f: Any, body: Call, given: tuple[Any, ...]) -> None:
    """Refuses a derivative by what only sets sizes, such as a cutoff: reading the number would lose it."""
    for n, k, p in _sizes(body.__name__):
        x = given[n] if k is None else given[n][k]
        if x is not None and type(x) is not float and f.is_own(x) and f.is_differentiated(x):
            check.refuse(p.name, check.NOT_DIFFERENTIATED, "one that is differentiated", TypeError)


@functools.cache
def _sizes(name: str) -> list[tuple[int, int | None, Parameter]]:
    kinds = ("sizes", "number", "positive", "cutoffs")
    return FUNCTIONS[name].places(lambda p: p.kind in kinds or p.name == "cutoff")
