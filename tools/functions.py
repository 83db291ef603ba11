#!/usr/bin/env python3
"""Writes the public functions of every namespace, and their page, from the declarations in `madelung._functions`.

.venv/bin/python tools/functions.py           writes python/madelung/*/_functions.py and docs/reference.md
.venv/bin/python tools/functions.py --check   names the files that are not as it would write them, and fails
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from madelung import _functions
from madelung._functions.declare import (
    ARRAYS,
    ENERGIES,
    FUNCTIONS,
    KEYWORDS,
    NAMESPACES,
    REQUIRED,
    Function,
    Group,
    Namespace,
    Parameter,
    Text,
)

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 120
# Importing them declares their functions.
for module_of in pkgutil.iter_modules(_functions.__path__):
    importlib.import_module(f"madelung._functions.{module_of.name}")
# By module: the order in which modules import each other says nothing to a reader.
DECLARED = sorted(FUNCTIONS.values(), key=lambda declared: declared.body.__module__)

TITLES = {
    "numpy": "NumPy arrays",
    "torch": "PyTorch tensors",
    "jax": "JAX arrays",
    "cuda": "arrays in the memory of CUDA devices",
}
# Types of an argument and of a result.
ARRAY = {
    "numpy": ("npt.ArrayLike", "npt.NDArray"),
    "torch": ("Tensor", "Tensor"),
    "jax": ("ArrayLike", "Array"),
    "cuda": ("Any", "Array"),
}
IMPORTS = {
    "numpy": """
import numpy.typing as npt

{functions}
from madelung.numpy._framework import Numpy
""",
    "torch": """
from torch import Tensor

{functions}
from madelung.torch._errors import FAILURES, explained
from madelung.torch._framework import Graph, is_compiling, mode_of, outside_graphs
""",
    "jax": """
from jax import Array
from jax.typing import ArrayLike

{functions}
from madelung.jax._framework import Jax
""",
    "cuda": """
{functions}
from madelung.cuda._arrays import Array
from madelung.cuda._framework import opened
""",
}


def annotation(p: Parameter, namespace: Namespace) -> str:
    """The type of a parameter."""
    array = ARRAY[namespace][0]
    kind = {
        "reals": array,
        "integers": array,
        "per_system": array if array == "Any" else f"float | {array}",
        "sizes": array if array == "Any" else f"float | {array}",
        "axes": "Any",
        "number": "float",
        "positive": "float",
        "cutoffs": array if array == "Any" else f"float | tuple[float, ...] | {array}",
        "count": "int",
        "counts": "int | tuple[int, ...]",
        "nodes": "tuple[int, int, int] | tuple[tuple[int, int, int], ...]",
        "flag": "bool",
        "word": "Literal[" + ", ".join(f'"{word}"' for word in p.words) + "]",
        "stream": "Any",
        "neighbors": "Neighbors",
        "exclusions": array if array == "Any" else f"{array} | tuple[{array} | float | None, ...]",
    }[p.kind]
    return f"{kind} | None" if (p.default is None or p.or_none) and kind != "Any" else kind


def default(p: Parameter) -> str:
    """The default of a parameter, as source."""
    return f'"{p.default}"' if isinstance(p.default, str) else repr(p.default).replace("e-0", "e-")


def signature(declared: Function, namespace: Namespace) -> Iterator[str]:
    """The parameters of a signature."""
    for item in declared.items:
        if item == KEYWORDS:
            yield "*,"
            continue
        for p in item.parameters if isinstance(item, Group) else (item,):
            if namespace not in p.without:
                value = "" if p.default is REQUIRED else f" = {default(p)}"
                yield f"{p.name}: {annotation(p, namespace)}{value},"


def overloads(declared: Function, namespace: Namespace) -> Iterator[str]:
    """The lines of the types of results: one array, or several where one of the flags asks for more."""
    array = ARRAY[namespace][1]
    one = [
        p.replace(": bool", ": Literal[False]") if p.startswith("compute_") else p
        for p in signature(declared, namespace)
    ]
    yield "# fmt: off"
    for parameters, result in ((one, array), (signature(declared, namespace), f"tuple[{array}, ...]")):
        # Without breaks inside a parameter.
        whole = " ".join(p.replace(" ", "\0") for p in parameters)
        filled = textwrap.indent(textwrap.fill(whole, WIDTH - 4), " " * 4).replace("\0", " ")
        yield from ("@overload", f"def {declared.name}(", filled, f") -> {result}: ...")
    yield "# fmt: on"


def given(declared: Function, namespace: Namespace) -> Iterator[str]:
    """The lines of the arguments of a body."""

    def passed(p: Parameter) -> str:
        return default(p) if namespace in p.without else p.name

    for item in declared.arguments():
        if isinstance(item, Group):
            yield from ("(", *(f"    {passed(p)}," for p in item.parameters), "),")
        else:
            yield f"{passed(item)},"


def body(declared: Function, namespace: Namespace) -> Iterator[str]:
    """The lines of a function behind its docstring."""
    call = f"{declared.body.__module__.rpartition('.')[2]}.{declared.name}"
    arguments = [f"    {line}" for line in given(declared, namespace)]
    if namespace in ("numpy", "jax"):
        yield from (f"return {call}(", f"    {namespace.capitalize()},", *arguments, ")")
    elif namespace == "cuda":
        arrays = [p.name for p in declared.parameters(namespace) if p.kind in ARRAYS]
        stream = "stream" if any(p.kind == "stream" for p in declared.parameters()) else "None"
        yield from ("(", "    f,", *(f"    {a}," for a in arrays), ") = opened(")
        yield from (f"    {stream},", *(f"    {a}={a}," for a in arrays), ")")
        yield from (f"return {call}(", "    f,", *arguments, ")")
    else:
        first = next(iter(declared.parameters())).name
        yield from ("given = (", *arguments, ")")
        if not declared.eager or any(p.name == "capacity" for p in declared.parameters()):
            yield from ("if is_compiling():", f"    return {call}(Graph, *given)")
        yield from ("try:", f"    return {call}(mode_of({first}), *given)", "except FAILURES as error:")
        # Without the name the traceback and its frame would keep each other, and the tensors of the call.
        yield from ("    failure = error", "try:", f'    raise explained("{declared.name}", failure, given)')
        yield from ("finally:", "    del failure")


def function(declared: Function, namespace: Namespace) -> str:
    """A function."""
    lines = ["@outside_graphs"] if namespace == "torch" and declared.eager else []
    if declared.result == ENERGIES:
        lines += overloads(declared, namespace)
    result = declared.result.replace("Array", ARRAY[namespace][1])
    lines += [f"def {declared.name}(", *(f"    {p}" for p in signature(declared, namespace)), f") -> {result}:"]
    documented = declared.docstring(namespace, WIDTH - 4).splitlines()
    inside = [f'"""{documented[0]}', *documented[1:], '"""', *body(declared, namespace)]
    return "\n".join([*lines, *(f"    {line}".rstrip() for line in inside)]) + "\n"


def module(namespace: Namespace) -> str:
    """The functions of a namespace."""
    here = {declared.name: declared for declared in DECLARED if namespace not in declared.without}
    modules = sorted({declared.body.__module__.rpartition(".")[2] for declared in here.values()})
    head = f'"""Functions of {TITLES[namespace]}: written by `tools/functions.py` from `madelung._functions`."""\n\n'
    head += "from __future__ import annotations\n\nfrom typing import Any, Literal, overload\n\n"
    bodies = f"from madelung._functions import {', '.join(modules)}\n"
    if len(bodies) > WIDTH:
        bodies = "from madelung._functions import (\n" + "".join(f"    {name},\n" for name in modules) + ")\n"
    bodies += "from madelung._functions.results import EwaldParameters, PmeParameters\n"
    bodies += "from madelung._neighbors import Neighbors"
    head += IMPORTS[namespace].lstrip().format(functions=bodies)
    names = "\n__all__ = [\n" + "".join(f'    "{name}",\n' for name in sorted(here)) + "]\n"
    return head + names + "".join(f"\n\n{function(declared, namespace)}" for declared in here.values())


def supplemented(said: Text) -> str:
    """A text with its supplements, each under the name of its namespace."""
    notes = [f"*{namespace}*: {note}" for namespace, note in said.notes.items()]
    return " ".join([said.common.replace("\n", " "), *notes]).replace("\n", " ").strip()


def page() -> str:
    """The page of all functions."""
    lines = [
        "# Functions",
        "",
        "Written by `tools/functions.py` from `python/madelung/_functions`. Every function is there in "
        "`madelung.numpy`, `madelung.torch`, `madelung.jax` and `madelung.cuda`, but where it says otherwise, with one "
        "name, one order of arguments and one meaning; differences are said under the name of the namespace. Units, "
        "signs and words: [conventions.md](conventions.md).",
    ]
    for declared in DECLARED:
        lines += ["", f"## {declared.name}", "", declared.text.common]
        if declared.without:
            lines += ["", f"Not in {' and '.join(f'`madelung.{name}`' for name in declared.without)}."]
        for namespace, note in declared.text.notes.items():
            lines += ["", f"*{namespace}*: " + note.replace("\n\n", " ")]
        lines += ["", "| argument | default | |", "|---|---|---|"]
        shared = ""
        for p in declared.parameters():
            shared = supplemented(p.text) or shared
            said = f"*cuda* only: {shared}" if p.kind == "stream" else shared
            if p.without and p.kind != "stream":
                said += f" Not in {' and '.join(p.without)}."
            value = "" if p.default is REQUIRED else f"`{default(p)}`".replace('"', "'")
            lines.append(f"| `{p.name}` | {value} | {said.replace('|', '&#124;')} |")
        lines += ["", f"**Returns** {supplemented(declared.returns)}"]
        lines += ["", f"**Raises** {supplemented(declared.raises)}"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes the files, or compares them."""
    files = {ROOT / "python/madelung" / name / "_functions.py": module(name) for name in NAMESPACES}
    files[ROOT / "docs/reference.md"] = page()
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    if "--check" not in sys.argv[1:]:
        for path in stale:
            path.write_text(files[path])
    elif stale:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        sys.exit(f"not as tools/functions.py writes them: {names}")


if __name__ == "__main__":
    main()
