#!/usr/bin/env python3
"""Writes the public functions of every namespace, and their page, from the declarations in `madelung._functions`.

.venv/bin/python tools/functions.py           writes python/madelung/_api.py and */_functions.py, docs/reference.md and
                                              docs/reference
.venv/bin/python tools/functions.py --check   names the files that are not as it would write them, and fails
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
import textwrap
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from madelung import _functions
from madelung._functions.declare import (
    ENERGIES,
    FUNCTIONS,
    KEYWORDS,
    NAMESPACES,
    REQUIRED,
    Function,
    Group,
    Namespace,
    Parameter,
)

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 120
# Importing them declares their functions.
for module_of in pkgutil.iter_modules(_functions.__path__):
    importlib.import_module(f"madelung._functions.{module_of.name}")
# By module: the order in which modules import each other says nothing to a reader.
DECLARED = sorted(FUNCTIONS.values(), key=lambda declared: declared.body.__module__)

API = ROOT / "python/madelung/_api.py"
HEAD = '''"""Public functions, for arrays of any library: written by `tools/functions.py` from `madelung._functions`."""

# fmt: off

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar, overload

{bodies}
from madelung._functions.bound import Bound
from madelung._functions.laws import BoundLaw
from madelung._functions.results import EwaldParameters, PmeParameters
from madelung._neighbors import Neighbors

# Arguments that may be arrays, and arrays of results.
ArrayLike = TypeVar("ArrayLike")
Array = TypeVar("Array")


class Functions(Bound, Generic[ArrayLike, Array]):
    """The public functions, bound to a framework: each namespace has those of its own arrays.

    In the texts NumPy, PyTorch, JAX and CUDA stand for `madelung.numpy`, `madelung.torch`, `madelung.jax` and
    `madelung.cuda`.
    """
'''
# Imports of a namespace, and its arrays: those of arguments and those of results.
BOUND: dict[Namespace, str] = {
    "numpy": """
import numpy.typing as npt

from madelung._api import Functions
from madelung.numpy._bound import call

bound: Functions[npt.ArrayLike, npt.NDArray] = Functions("numpy", call)
""",
    "torch": """
from torch import Tensor

from madelung._api import Functions
from madelung.torch._bound import call, read

bound: Functions[Tensor, Tensor] = Functions("torch", call, read)
""",
    "jax": """
from jax import Array
from jax.typing import ArrayLike

from madelung._api import Functions
from madelung._functions.bound import through
from madelung.jax._framework import Jax

bound: Functions[ArrayLike, Array] = Functions("jax", through("jax", Jax))
""",
    "cuda": """
from typing import Any

from madelung._api import Functions
from madelung.cuda._arrays import Array
from madelung.cuda._framework import call

bound: Functions[Any, Array] = Functions("cuda", call)
""",
}


def annotation(p: Parameter) -> str:
    """The type of a parameter."""
    kind = {
        "reals": "ArrayLike",
        "integers": "ArrayLike",
        "per_system": "float | ArrayLike",
        "sizes": "float | ArrayLike",
        "axes": "Any",
        "number": "float",
        "positive": "float",
        "cutoffs": "float | tuple[float, ...] | ArrayLike",
        "count": "int",
        "counts": "int | tuple[int, ...]",
        "nodes": "tuple[int, int, int] | tuple[tuple[int, int, int], ...]",
        "flag": " | ".join(["bool", *[f'Literal["{word}"]' for word in p.words]]),
        "word": "Literal[" + ", ".join(f'"{word}"' for word in p.words) + "]",
        "stream": "Any",
        "neighbors": "Neighbors",
        "law": "BoundLaw",
        "exclusions": "ArrayLike | tuple[ArrayLike | float | None, ...]",
    }[p.kind]
    return f"{kind} | None" if (p.default is None or p.or_none) and kind != "Any" else kind


def default(p: Parameter) -> str:
    """The default of a parameter, as source."""
    return f'"{p.default}"' if isinstance(p.default, str) else repr(p.default).replace("e-0", "e-")


def signature(declared: Function) -> Iterator[str]:
    """The parameters of a signature."""
    yield "self,"
    for item in declared.items:
        if item == KEYWORDS:
            yield "*,"
            continue
        for p in item.parameters if isinstance(item, Group) else (item,):
            value = "" if p.default is REQUIRED else f" = {default(p)}"
            yield f"{p.name}: {annotation(p)}{value},"


def filled(items: Iterator[str] | list[str], indent: int) -> str:
    """Items one after the other, in lines of full width without breaks inside an item."""
    whole = " ".join(item.replace(" ", "\0") for item in items)
    # Within a class, and a body.
    lines = textwrap.fill(whole, WIDTH - 8 - indent, break_long_words=False, break_on_hyphens=False)
    return textwrap.indent(lines, " " * indent).replace("\0", " ")


def overloads(declared: Function) -> Iterator[str]:
    """The lines of the types of results: one array, or several where one of the flags asks for more."""
    flag = re.compile(r': bool( \| Literal\["\w+"\])?')
    one = [flag.sub(": Literal[False]", p) if p.startswith("compute_") else p for p in signature(declared)]
    for parameters, result in ((one, "Array"), (signature(declared), "tuple[Array, ...]")):
        yield from ("@overload", f"def {declared.name}(", filled(parameters, 4), f") -> {result}: ...", "")


def arguments(declared: Function) -> Iterator[str]:
    """The arguments of a body behind its framework."""
    for item in declared.arguments():
        if isinstance(item, Group):
            first, *others = (p.name for p in item.parameters)
            yield from (f"{name}," for name in (f"({first}", *others[:-1], f"{others[-1]})"))
        else:
            yield f"{item.name},"


def function(declared: Function) -> str:
    """A function."""
    names = [p.name for p in declared.parameters()]
    body = f"{declared.body.__module__.rpartition('.')[2]}.{declared.name}"
    call = "self._call"
    if declared.eager:
        call = "(self._read if capacity is None else self._call)" if "capacity" in names else "self._read"
    stream = "stream" if "stream" in names else "None"
    lines = [*overloads(declared)] if declared.result == ENERGIES else []
    lines += [f"def {declared.name}(", filled(signature(declared), 4), f") -> {declared.result}:"]
    documented = declared.docstring(WIDTH - 8).splitlines()
    inside = [f'"""{documented[0]}', *documented[1:], '"""']
    inside += [f"return {call}(", filled([f"{body},", f"{stream},", *arguments(declared)], 4), ")"]
    lines += [f"    {line}" for line in "\n".join(inside).splitlines()]
    return "\n".join(f"    {line}".rstrip() for line in "\n".join(lines).splitlines()) + "\n"


def api() -> str:
    """The class of all functions."""
    modules = sorted({declared.body.__module__.rpartition(".")[2] for declared in DECLARED})
    bodies = "from madelung._functions import (\n" + "".join(f"    {name},\n" for name in modules) + ")"
    return HEAD.format(bodies=bodies) + "".join(f"\n{function(declared)}" for declared in DECLARED)


def bound(namespace: Namespace) -> str:
    """The functions of a namespace."""
    names = sorted(declared.name for declared in DECLARED if namespace not in declared.without)
    listed = "\n__all__ = [\n" + "".join(f'    "{name}",\n' for name in names) + "]\n\n"
    head = f'"""Public functions of {NAMESPACES[namespace]}: written by `tools/functions.py`."""\n\n'
    return head + BOUND[namespace].lstrip() + listed + "".join(f"{name} = bound.{name}\n" for name in names)


# Chapters of the page, by the modules of the declarations.
CHAPTERS = {
    "Sums of charges": (
        "ewald",
        "mesh",
        "boundaries",
        "pair_sums",
        "gaussians",
        "equilibration",
        "latent",
        "powers",
        "fields",
    ),
    "Pair potentials": ("potentials",),
    "Bonded terms": ("bonded",),
    "Neighbours": ("neighbors", "around", "verlet"),
    "Segments": ("segments",),
}
MODULES = [name for modules in CHAPTERS.values() for name in modules]


def chapters() -> dict[str, list[Function]]:
    """The functions of each chapter, in the order of its modules."""
    of = {name: [d for d in DECLARED if d.body.__module__.rpartition(".")[2] == name] for name in MODULES}
    left = [declared.name for declared in DECLARED if not any(declared in here for here in of.values())]
    assert not left, f"in no chapter: {left}"
    return {title: [d for name in modules for d in of[name]] for title, modules in CHAPTERS.items()}


def file_of(title: str) -> str:
    """The page of a chapter, in docs/reference."""
    return title.lower().replace(" ", "-") + ".md"


# Pages of the functions.
PAGES = {declared.name: file_of(title) for title, here in chapters().items() for declared in here}


def contents() -> str:
    """The page of all functions, with their first sentences."""
    lines = [
        "# Functions",
        "",
        "Written by `tools/functions.py` from `python/madelung/_functions`. Every function is there in "
        "`madelung.numpy`, `madelung.torch`, `madelung.jax` and `madelung.cuda`, but where it says otherwise, with one "
        "name, one order of arguments and one meaning; differences are said behind NumPy, PyTorch, JAX and CUDA. "
        "Units, signs and words: [conventions.md](conventions.md).",
    ]
    for title, here in chapters().items():
        lines += ["", f"## [{title}](reference/{file_of(title)})", ""]
        lines += [f"- [`{d.name}`](reference/{PAGES[d.name]}#{d.name}): {d.summary()}" for d in here]
    return "\n".join(lines) + "\n"


def linked(text: str, declared: Function) -> str:
    """A text with links to the functions that it names; a name of an argument stands for the argument."""
    own = {declared.name, *(p.name for p in declared.parameters())}

    def link(name: re.Match[str]) -> str:
        return f"[{name[0]}]({PAGES[name[1]]}#{name[1]})" if name[1] in PAGES.keys() - own else name[0]

    return re.sub(r"`(\w+)`", link, text)


def call(declared: Function) -> str:
    """The call of a function, with defaults."""
    given = []
    for item in declared.items:
        for p in item.parameters if isinstance(item, Group) else () if item == KEYWORDS else (item,):
            given.append(p.name if p.default is REQUIRED else f"{p.name}={default(p)}".replace('"', "'"))
        given += ["*"] if item == KEYWORDS else []
    return f"`{declared.name}({', '.join(given)})`"


def rows(declared: Function) -> Iterator[str]:
    """The rows of a table of arguments; neighbours that share a text and a default share a row."""
    for (said, value), shared in groupby(declared.explained(), lambda each: (each[1], each[0].default)):
        parameters = [p for p, _ in shared]
        names = ", ".join(f"`{p.name}`" for p in parameters)
        given = "" if value is REQUIRED else f" = `{default(parameters[0])}`".replace('"', "'")
        text = linked(said.replace("\n", " ").replace("|", "&#124;"), declared)
        yield f"| {names}{given} | {text} |"


def chapter(title: str, here: list[Function]) -> str:
    """The page of a chapter: every function with its arguments, results and errors."""
    lines = [f"# {title}", "", "[All functions](../reference.md), [units and words](../conventions.md)."]
    for declared in here:
        lines += ["", f"## {declared.name}", "", linked(declared.text.common, declared), "", call(declared)]
        if declared.without:
            lines += ["", f"Not in {' and '.join(f'`madelung.{name}`' for name in declared.without)}."]
        for note in declared.text.supplements():
            lines += ["", linked(note.replace("\n\n", " "), declared)]
        lines += ["", "| argument | |", "|---|---|"]
        lines += rows(declared)
        lines += ["", f"**Returns** {linked(declared.returns.complete(), declared)}"]
        lines += ["", f"**Raises** {linked(declared.raises.complete(), declared)}"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes the files, or compares them."""
    files = {ROOT / "python/madelung" / name / "_functions.py": bound(name) for name in NAMESPACES}
    files |= {API: api(), ROOT / "docs/reference.md": contents()}
    files |= {ROOT / "docs/reference" / file_of(title): chapter(title, here) for title, here in chapters().items()}
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    if "--check" not in sys.argv[1:]:
        for path in stale:
            path.write_text(files[path])
    elif stale:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        sys.exit(f"not as tools/functions.py writes them: {names}")


if __name__ == "__main__":
    main()
