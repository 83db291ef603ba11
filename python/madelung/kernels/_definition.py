"""Python functions as they stand in their files, and the names that they see."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable
from typing import Any

from madelung.kernels import _types as kinds
from madelung.kernels._errors import KernelError
from madelung.kernels._types import Dim

MISSING = object()


class Definition:
    """A function's syntax tree, with the place of each node in its file, and the scope around it."""

    def __init__(self, function: Callable[..., Any], source: str | None = None) -> None:
        function = inspect.unwrap(function)
        if not inspect.isfunction(function):
            raise TypeError(f"a kernel is made of a function, got {type(function).__name__}")
        self.function, self.name = function, function.__name__
        self._lines: list[str]
        if source is None:
            self._lines, self.file, first = _source_of(function)
        else:
            # Under a name of its own, so that tracebacks show it.
            self._lines, self.file, first = source.splitlines(keepends=True), f"<source of {self.name}>", 1
            linecache.cache[self.file] = (len(source), None, self._lines, self.file)
        self._first = first
        text = "".join(self._lines)
        # A text in quotes may begin with an empty line.
        nested = next((line[:1].isspace() for line in self._lines if line.strip()), False)
        try:
            # Indented functions are parsed as the body of a statement: no line of theirs is changed.
            tree = ast.parse("if True:\n" + text if nested else text)
        except SyntaxError as e:
            raise KernelError(f"`{self.name}`: its source cannot be read alone ({e.msg}): pass `source=`") from None
        self._before = int(nested)
        found = [
            n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.name == self.name
        ]
        if not found:
            raise KernelError(f"`source`: expected a definition of `{self.name}`, got none")
        self.tree: Any = found[0]
        if isinstance(self.tree, ast.AsyncFunctionDef):
            raise self.error(self.tree, "a kernel is a plain function, not an `async` one")
        cells = zip(function.__code__.co_freevars, function.__closure__ or ())
        self._closure = {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}

    def lookup(self, name: str) -> Any:
        """The value of a name around the function, as it is now; `MISSING` where there is none."""
        builtins = self.function.__globals__.get("__builtins__", {})
        builtins = builtins if isinstance(builtins, dict) else vars(builtins)
        for scope in (self._closure, self.function.__globals__, builtins):
            if name in scope:
                return scope[name]
        return MISSING

    def annotation(self, name: str, node: ast.expr) -> Any:
        """The value of an annotation. Names that are not known are those of dimensions: with `from __future__ import
        annotations` those of an enclosing function are not seen from here."""
        try:
            value = self.function.__annotations__.get(name, MISSING)
        except NameError:
            value = MISSING
        if value is not MISSING and not isinstance(value, str):
            return value
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = ast.parse(node.value, mode="eval").body
        try:
            return eval(compile(ast.Expression(node), self.file, "eval"), {}, _Names(self))
        except Exception as e:
            raise self.error(node, f"this annotation cannot be evaluated: {e}") from None

    def error(self, node: ast.AST, message: str) -> KernelError:
        """An error at a node: its line of the file, and its columns in characters."""
        at: Any = node
        line, last = at.lineno - self._before, at.end_lineno - self._before
        start, end = self._column(line, at.col_offset), self._column(last, at.end_col_offset)
        if node is self.tree:
            name = self._line(line).index(self.name, start - 1)
            start, last, end = name + 1, line, name + 1 + len(self.name)
        elif line != last:
            # A block: its first line says which.
            last, end = line, len(self._line(line).rstrip("\n")) + 1
        return KernelError(
            message,
            (self.file, line + self._first - 1, start, self._line(line), last + self._first - 1, end),
        )

    def _line(self, line: int) -> str:
        return self._lines[line - 1] if 0 < line <= len(self._lines) else ""

    def _column(self, line: int, bytes_before: int) -> int:
        return len(self._line(line).encode()[:bytes_before].decode(errors="ignore")) + 1


_WORDS = "Array Batch Dim HashGrid InOut Int Int64 IVec3 Map Mat2 Mat3 Mesh Out Pairs Real Vec2 Vec3 Vec4 Zero"
_TYPES = {word: getattr(kinds, word) for word in _WORDS.split()}


class _Names(dict):
    def __init__(self, definition: Definition) -> None:
        super().__init__()
        self._definition = definition

    def __missing__(self, name: str) -> Any:
        value = self._definition.lookup(name)
        # Types of this package mean themselves where they were imported by an enclosing function.
        value = _TYPES.get(name, MISSING) if value is MISSING else value
        return type(name, (Dim,), {}) if value is MISSING else value


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _source_of(function: Any) -> tuple[list[str], str, int]:
    """The lines of a function with its decorators, their file, and the number of the first."""
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    block = lines[code.co_firstlineno - 1 :]
    if not block:
        raise KernelError(
            f"`{function.__name__}` has no source that could be read (it was made by `exec`, or typed into an "
            f"interpreter "
            f"that keeps none): pass the text of its definition, `source=`"
        )
    try:
        return inspect.getblock(block), code.co_filename, code.co_firstlineno
    except (SyntaxError, IndentationError):
        return block, code.co_filename, code.co_firstlineno
