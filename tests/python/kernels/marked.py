"""Python sources of kernels, with marks « » around the expression that an error points at."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

import madelung.kernels as mk

Atom, System, Wave, Group, Feature, Wide, Edge, Query, Point, Node, Element, Other = mk.dims(
    "Atom System Wave Group Feature Wide Edge Query Point Node Element Other"
)

PARAMETERS = (
    "i: Atom, positions: Array[Vec3, Atom], charges: Array[Real, Atom], kinds: Array[Int, Atom], cell: Array[Mat3, "
    "System], "
    "g: Array[Real], z: Array[Real, Wave], cutoff: Real, n: Int, atoms: Batch[Atom, System], waves: Batch[Wave, "
    "System], "
    "groups: Batch[System, Group], pairs: Pairs[Atom], energy: Out[Real, Atom], force: Out[Vec3, Atom], total: "
    "Out[Real, System], one: Out[Real]"
)
# What stands around the kernels here.
SCOPE = {name: value for name, value in vars(mk).items() if not name.startswith("_")}
SCOPE |= {d.__name__: d for d in (Atom, System, Wave, Group, Feature, Wide, Edge, Query, Point, Node, Element, Other)}


def defined(source: str, scope: dict[str, Any] | None = None, name: str = "k", **options: Any) -> Any:
    """The kernel of a source."""
    scope = {**SCOPE, **(scope or {})}
    exec(compile(source, "<a test>", "exec", flags=0), scope)
    return mk.kernel(source=source, **options)(scope[name])


def refused(source: str, message: str, scope: dict[str, Any] | None = None, **options: Any) -> None:
    """Asserts that a source is refused with a message that holds `message`, at the marked expression."""
    source = textwrap.dedent(source)
    plain = source.replace("«", "").replace("»", "")
    with pytest.raises(mk.KernelError) as caught:
        defined(plain, scope, **options)
    error = caught.value
    assert message in str(error.msg), f"{plain}\nsays: {error.msg}\nnot: {message}"
    if "«" not in source:
        return
    before, rest = source.split("«")
    begin, end = (text.rsplit("\n", 1)[-1] for text in (before, f"{before}{rest.split('»')[0]}"))
    expected = (before.count("\n") + 1, len(begin) + 1, len(end) + 1)
    got = (error.lineno, error.offset, error.end_offset)
    assert got == expected, (
        f"{plain}\n{error.msg}\npoints at "
        f"{plain.splitlines()[error.lineno - 1][error.offset - 1 : error.end_offset - 1]!r}"
    )


def body(statements: str, message: str, scope: dict[str, Any] | None = None, **options: Any) -> None:
    """Asserts that a kernel of these statements is refused."""
    lines = textwrap.dedent(statements).strip("\n")
    end = "" if "energy[i]" in lines or options.get("adjoint") is False else "\n    energy[i] = 0.0"
    refused(f"def k({PARAMETERS}):\n{textwrap.indent(lines, '    ')}{end}\n", message, scope, **options)


def in_loop(statements: str, message: str, scope: dict[str, Any] | None = None) -> None:
    """Asserts that these statements are refused in a loop over pairs, with a sum `e` outside."""
    lines = textwrap.indent(textwrap.dedent(statements).strip("\n"), "    ")
    body(f"e = 0.0\nfor j, shift in pairs.row(i):\n{lines}\nenergy[i] = e", message, scope)


def value(expression: str, message: str, scope: dict[str, Any] | None = None) -> None:
    """Asserts that a kernel that computes this expression is refused."""
    body(f"x = {expression}", message, scope)


def translated(source: str, scope: dict[str, Any] | None = None, **options: Any) -> str:
    """The source of a kernel in the kernel language."""
    return defined(textwrap.dedent(source), scope, **options).source


def statements(lines: str, parameters: str = PARAMETERS, scope: dict[str, Any] | None = None, **options: Any) -> str:
    """The statements of a kernel in the kernel language, without the kernel's own indentation."""
    text = translated(f"def k({parameters}):\n{textwrap.indent(textwrap.dedent(lines), '    ')}\n", scope, **options)
    return textwrap.dedent(text.split(") {\n", 1)[1].rsplit("}\n", 1)[0])
