"""Text of the kernel language that remembers the Python expressions it came from."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from madelung.kernels._definition import Definition

# What binds tightly: names and calls, then operators, down to `if … else …`.
CLOSED, SIGN, PRODUCT, SUM, SHIFT, AND_BITS, XOR_BITS, OR_BITS, COMPARISON, AND, OR, CHOICE = range(12, 0, -1)

# A place in Python: the definition, and the node there.
Place = tuple["Definition", ast.AST]


@dataclass(frozen=True)
class Text:
    """Text, and for stretches of it (begin, end) the place in Python."""

    string: str
    places: list[tuple[int, int, Place]] = field(default_factory=list)
    # How tightly its outermost operator binds: operands of tighter ones stand in parentheses.
    binds: int = CLOSED

    def __str__(self) -> str:
        return self.string

    def within(self, binds: int = CLOSED) -> Text:
        """The text as an operand, in parentheses where its own operator does not bind as tightly."""
        return self if self.binds >= binds else joined(None, "(", self, ")")

    def place(self, line: int, column: int, end: tuple[int, int] | None) -> Place | None:
        """Origin of a stretch of the text: lines count from 1, columns from 0. Where the end is not known, the widest
        expression that begins there."""
        lines = self.string.split("\n")

        def offset(line: int, column: int) -> int:
            return sum(len(text) + 1 for text in lines[: line - 1]) + column

        begin = offset(line, column)
        until = begin if end is None else offset(*end)
        around = [p for p in self.places if p[0] <= begin and p[1] >= until]
        if end is None and (here := [p for p in around if p[0] == begin]):
            return max(here, key=lambda p: p[1])[2]
        return min(around, key=lambda p: p[1] - p[0])[2] if around else None


def joined(place: Place | None, *parts: str | Text, binds: int = CLOSED) -> Text:
    """Parts one after the other, which came from `place` as a whole."""
    string, places = "", []
    for part in parts:
        if isinstance(part, Text):
            places += [(begin + len(string), end + len(string), at) for begin, end, at in part.places]
        string += str(part)
    if place is not None:
        places.append((0, len(string), place))
    return Text(string, places, binds)
