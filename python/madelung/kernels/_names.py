"""Names of Python as the kernel language can have them: ASCII, and none of its own words."""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Iterable

_TEXT = """abstract as async await become box break const continue crate do dyn else enum extern false final fn for gen
if impl in let loop macro match mod move mut override priv pub ref return self Self static struct super trait true try
type typeof unsafe unsized use virtual where while yield i32 i64 f32 f64 bool Real Vec2 Vec3 Vec4 Mat2 Mat3
IVec3 Zero"""
_WORDS = frozenset(_TEXT.split())
_LETTER = re.compile(r".* (SMALL|CAPITAL) LETTER (\w+)$")


def _spelled(letter: str) -> str:
    if letter.isascii():
        return letter
    found = _LETTER.match(unicodedata.name(letter, ""))
    if not found:
        return f"u{ord(letter):x}"
    return found[2].lower() if found[1] == "SMALL" else found[2].capitalize()


class Names:
    """The names of one function: those that can stay do so."""

    def __init__(self, tree: ast.AST) -> None:
        found = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name)]
        found += [n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)]
        self._written: dict[str, str] = {}
        self._taken: set[str] = set()
        for name in sorted(set(found), key=lambda name: (self._plain(name) != name, name)):
            self._written[name] = unique(self._plain(name), self._taken)
            self._taken.add(self._written[name])

    @staticmethod
    def _plain(name: str) -> str:
        plain = name if name.isascii() else "".join(map(_spelled, name))
        return f"{plain}_" if plain in _WORDS else plain

    def __getitem__(self, name: str) -> str:
        """The name in the source."""
        return self._written.get(name, self._plain(name))

    @property
    def changed(self) -> dict[str, str]:
        """The names that the source has in place of Python's."""
        return {written: name for name, written in self._written.items() if written != name}


def unique(name: str, taken: Iterable[str]) -> str:
    """The name, with a number behind it where it is taken."""
    tried, n = name, 2
    while tried in taken:
        tried, n = f"{name}_{n}", n + 1
    return tried
