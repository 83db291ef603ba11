"""Declarations of public functions: parameters with their texts, and one body for all namespaces.

A body takes a `Framework` and the arguments in the order of the declaration, those of a group as one tuple.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Literal

Namespace = Literal["numpy", "torch", "jax", "cuda"]
NAMESPACES: dict[Namespace, str] = {"numpy": "NumPy", "torch": "PyTorch", "jax": "JAX", "cuda": "CUDA"}

# Default of a parameter that every caller gives.
REQUIRED: Any = inspect.Parameter.empty
# Parameters behind it are given by keyword.
KEYWORDS = "*"

# Types of parameters: arrays of real numbers or integers, a number for each system that is an input of the op or only
# sets sizes, a number, any or above zero, or several, and so on.
Kind = Literal[
    "reals",
    "integers",
    "per_system",
    "sizes",
    "number",
    "positive",
    "cutoffs",
    "count",
    "counts",
    "nodes",
    "flag",
    "axes",
    "word",
    "stream",
    "neighbors",
    "exclusions",
    "law",
]
ON_DEVICE: tuple[Kind, ...] = ("reals", "integers", "per_system")
ARRAYS: tuple[Kind, ...] = (*ON_DEVICE, "sizes")


@dataclass(frozen=True)
class Text:
    """Documentation: sentences, and a supplement of some namespaces."""

    common: str
    notes: dict[str, str] = field(default_factory=dict)

    def supplements(self) -> list[str]:
        """The supplements, each behind the names of its namespaces."""
        of = {note: [NAMESPACES[n] for n in NAMESPACES if self.notes.get(n) == note] for note in self.notes.values()}
        return [f"{', '.join(names)}: {note}" for note, names in of.items()]

    def complete(self) -> str:
        """The text with all supplements."""
        return " ".join([self.common, *self.supplements()]).strip()


def text(common: str, **notes: str) -> Text:
    """A text, and what namespaces add to it."""
    return Text(common, notes)


@dataclass(frozen=True)
class Parameter:
    """Parameter of public functions."""

    name: str
    kind: Kind
    text: Text = Text("")
    """Its line of the docstring. Empty: that of the parameter before."""
    default: Any = REQUIRED
    shape: tuple[int | str, ...] = ()
    """Shape of an array of integers. Letters stand for any length."""
    words: tuple[str, ...] = ()
    without: tuple[Namespace, ...] = ()
    """Namespaces that refuse another value than the default."""
    or_none: bool = False
    """Whether None says something beside another default."""

    def but(self, **changes: Any) -> Parameter:
        """The parameter with another default or text."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Group:
    """Parameters that a body takes as one tuple."""

    name: str
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True)
class Function:
    """Public function of every namespace."""

    name: str
    body: Callable[..., Any]
    items: tuple[Parameter | Group | str, ...]
    text: Text
    returns: Text
    raises: Text
    result: str
    """Type of the result; `Array` is that of the namespace's arrays."""
    eager: bool
    """Whether compiled graphs of PyTorch break at a call."""
    without: tuple[Namespace, ...] = ()
    """Namespaces that lack it."""
    op: str | None = None
    """The op that a call is where all of its inputs are given, by the names of parameters."""

    def arguments(self) -> Iterator[Parameter | Group]:
        """The arguments of the body, behind the framework."""
        for item in self.items:
            if not isinstance(item, str) and getattr(item, "kind", None) != "stream":
                yield item

    def parameters(self) -> Iterator[Parameter]:
        """All parameters."""
        for item in self.items:
            if not isinstance(item, str):
                yield from item.parameters if isinstance(item, Group) else (item,)

    def places(self, fits: Callable[[Parameter], bool]) -> list[tuple[int, int | None, Parameter]]:
        """The parameters that fit a condition, each with its place among the body's arguments, and in its group."""
        found: list[tuple[int, int | None, Parameter]] = []
        for n, item in enumerate(self.arguments()):
            members = enumerate(item.parameters) if isinstance(item, Group) else [(None, item)]
            found += [(n, k, p) for k, p in members if fits(p)]
        return found

    def summary(self) -> str:
        """The first line of the docstring."""
        return self.text.common.partition("\n")[0]

    def docstring(self, width: int) -> str:
        """The docstring, complete."""
        parts = [wrapped(part.replace("\n", " "), width) for part in self.text.common.strip().split("\n\n")]
        parts += [wrapped(note, width) for note in self.text.supplements()]
        parts.append("Args:\n" + "\n".join(self.described(width)))
        for head, section in (("Returns", self.returns), ("Raises", self.raises)):
            parts.append(f"{head}:\n" + wrapped(section.complete(), width, " " * 4))
        return "\n\n".join(parts)

    def explained(self) -> Iterator[tuple[Parameter, str]]:
        """Each parameter with its text, or that of the parameter before."""
        said = ""
        for p in self.parameters():
            said = p.text.complete() or said
            yield p, said

    def described(self, width: int) -> list[str]:
        """A paragraph for each text; neighbours that share one share the paragraph."""
        found = [(said, [p.name for p, _ in of]) for said, of in groupby(self.explained(), lambda each: each[1])]
        return [wrapped(f"{', '.join(names)}: {said}", width, " " * 4, " " * 8) for said, names in found]


def wrapped(said: str, width: int, first: str = "", then: str | None = None) -> str:
    """Text in lines of at most `width` characters; its own ends of lines stay."""
    fill = textwrap.TextWrapper(
        width,
        initial_indent=first,
        subsequent_indent=first if then is None else then,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(map(fill.fill, said.split("\n")))


# Type of the result of functions that return energies, and what flags `compute_…` ask for: its overloads say which.
ENERGIES = "Array | tuple[Array, ...]"

# All public functions, by their names.
FUNCTIONS: dict[str, Function] = {}

Body = Callable[..., Any]


def function(
    *items: Parameter | Group | str,
    returns: Text,
    raises: Text,
    notes: dict[str, str] | None = None,
    result: str = ENERGIES,
    eager: bool = False,
    without: tuple[Namespace, ...] = (),
    op: str | None = None,
) -> Callable[[Body], Body]:
    """Declares a function. The body's docstring is that of all namespaces; `notes` are supplements of some."""

    def declared(body: Body) -> Body:
        said = Text(inspect.cleandoc(body.__doc__ or ""), notes or {})
        own = (items, said, returns, raises, result, eager, without, op)
        FUNCTIONS[body.__name__] = Function(body.__name__, body, *own)
        return body

    return declared
