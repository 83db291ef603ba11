"""Kernels and functions written in Python."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Sequence
from typing import Any, overload

from madelung import _native
from madelung.kernels import _background
from madelung.kernels import _types as kinds
from madelung.kernels._definition import Definition
from madelung.kernels._names import Names
from madelung.kernels._op import Declaration, Op
from madelung.kernels._source import Block, Source, Translator
from madelung.kernels._text import Text
from madelung.kernels.functions import LibraryFunction


class Func:
    """Function that kernels and other functions call; made by `@func`."""

    def __init__(self, definition: Definition) -> None:
        self.definition, self.name = definition, definition.name
        f = definition.tree
        if f.returns is None:
            raise definition.error(f, f"say what `{self.name}` gives back: `-> Real`, or the type it has")
        self._returns = kinds.written(definition.annotation("return", f.returns))
        if self._returns not in kinds.VALUES:
            raise definition.error(f.returns, f"a function gives back {kinds.VALUES_EXPECTED}")
        self._derivative: Definition | None = None
        self.gives_integer = self._returns == "i32"
        arguments = [*f.args.posonlyargs, *f.args.args]
        self.integer_parameters = frozenset(
            n
            for n, a in enumerate(arguments)
            if a.annotation is not None and kinds.integers(definition.annotation(a.arg, a.annotation))
        )
        names = Names(f)
        self.parameters = tuple([names[a.arg] for a in arguments])
        self.is_of_reals = self._returns == "Real" and all(
            [kinds.written(definition.annotation(a.arg, a.annotation)) == "Real" for a in arguments if a.annotation]
        )
        self.__name__, self.__doc__ = self.name, definition.function.__doc__
        # Once alone: what is wrong with a function is found where it is written.
        self.sources(Block(is_func), self.name)

    def __repr__(self) -> str:
        return f"<func {self.name}>"

    def __call__(self, *args: Any) -> Any:
        raise TypeError(f"`{self.name}` is a function of kernels: it is called within a kernel or another `@func`")

    def derivative(self, function: Callable[..., Any]) -> Func:
        """Decorator: its partial derivatives, as a real or a tuple with one for each parameter."""
        definition = Definition(function)
        Translator(definition, Block(is_func)).func("partials", "derivative", "Real")
        self._derivative = definition
        return self

    def sources(self, block: Block, name: str) -> list[Text]:
        """See `Function`."""
        assert self._returns is not None
        texts = [Translator(self.definition, block).func(name, "func", self._returns)]
        if self._derivative is not None:
            of = Translator(self._derivative, block)
            count = len(self.definition.tree.args.args)
            returns = "Real" if count == 1 else f"({', '.join(['Real'] * count)})"
            texts.append(of.func(f"{name}_derivative", f"derivative({name})", returns))
        return texts


def is_func(found: Any) -> bool:
    """Whether something was made by `@func`, or is a function of the library."""
    return isinstance(found, (Func, LibraryFunction))


class Kernel:
    """Kernel: a formula over one row, with every derivative of it."""

    def __init__(self, definition: Definition, adjoint: bool, **options: Any) -> None:
        self.__name__, self.__doc__ = definition.name, definition.function.__doc__
        self.__module__, self.__qualname__ = definition.function.__module__, definition.function.__qualname__
        block = Block(is_func)
        translator = Translator(definition, block, adjoint)
        self._source = Source(block, translator.kernel(options), definition)
        self.parameters, self.rows, self.adjoint = translator.parameters, translator.rows, adjoint
        found = json.loads(_native.kernels(self.source))
        if error := found.get("error"):
            end = (error["end_line"], error["end_column"])
            raise self._source.error(error["message"], error["line"], error["column"], end)
        # The names of positions and radius that each grid is queried with, in the source.
        self.queries = {p["name"]: p["query"] for k in found["kernels"] for p in k["params"] if "query" in p}
        # By the name of an array those that are subtracted from it, or it from them: of a query's positions the points.
        self.differences = _differences(definition.tree, {p.name: p.written for p in self.parameters})
        self.name = translator.names[definition.name]
        self._op = Op(Declaration(f"user::{self.name}", [self]))
        _background.start()

    def __repr__(self) -> str:
        return f"<kernel {self.__name__}>"

    def __reduce__(self) -> str:
        """Pickles by name, as functions do."""
        return self.__qualname__

    @property
    def source(self) -> str:
        """The kernel in the kernel language."""
        return str(self._source)

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs."""
        return self._op.outputs

    @property
    def in_out(self) -> list[str]:
        """The names of the outputs that begin as arguments."""
        return self._op.in_out

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs of an op of this kernel alone: see `Op`."""
        return self._op(*args, **kwargs)

    def compile(self, *dtypes: str) -> bool:
        """Machine code in the place of the interpreter: see `Op.compile`."""
        return self._op.compile(*dtypes)


def _differences(tree: ast.AST, written: dict[str, str]) -> dict[str, set[str]]:
    """Which arrays elements are subtracted of, by the names in the source."""
    alias: dict[str, set[str]] = {}

    def arrays(e: ast.AST) -> set[str]:
        """The arrays of which elements are added up."""
        match e:
            case ast.Subscript(value=ast.Name(id=name)) if name in written:
                return {written[name]}
            case ast.Name(id=name):
                return alias.get(name, set())
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
                return arrays(left) | arrays(right)
        return set()

    found: dict[str, set[str]] = {}
    for n in ast.walk(tree):
        match n:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                alias.setdefault(name, set()).update(arrays(value))
    for n in ast.walk(tree):
        match n:
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                for a in arrays(left):
                    for b in arrays(right) - {a}:
                        found.setdefault(a, set()).add(b)
                        found.setdefault(b, set()).add(a)
    return found


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...
@overload
def kernel(
    *,
    fast: Sequence[Sequence[str]] = (),
    scatter: bool = False,
    adjoint: bool = True,
    small: bool = False,
    source: str | None = None,
) -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(
    function: Callable[..., Any] | None = None,
    /,
    *,
    fast: Sequence[Sequence[str]] = (),
    scatter: bool = False,
    adjoint: bool = True,
    small: bool = False,
    source: str | None = None,
) -> Any:
    """Decorator: makes a kernel of a function.

    `fast` lists sets of inputs, each of which gets a gradient of its own where the weights of all rows are equal;
    `scatter` adds gradients that need no transpose of a pair list; `small` compiles fast and runs slowly. With
    `adjoint=False` the kernel has values and no derivatives, and may assign, loop while a condition holds, and count.
    `source` is the text of the function's definition, where Python has not kept it.
    """
    sets = [
        (names,) if isinstance(names, str) else tuple(names) for names in ([fast] if isinstance(fast, str) else fast)
    ]

    def made(f: Callable[..., Any]) -> Kernel:
        return Kernel(Definition(f, source), adjoint, fast=sets, scatter=scatter, small=small)

    return made if function is None else made(function)


@overload
def func(function: Callable[..., Any], /) -> Func: ...
@overload
def func(*, source: str) -> Callable[[Callable[..., Any]], Func]: ...
def func(function: Callable[..., Any] | None = None, /, *, source: str | None = None) -> Any:
    """Decorator: makes a function that kernels call. `@name.derivative` gives it a derivative of its own."""
    if function is None:
        return lambda f: Func(Definition(f, source))
    return Func(Definition(function))
