"""Errors of kernels, and messages of the compiler in words of Python."""

from __future__ import annotations

import re


class KernelError(SyntaxError):
    """A kernel that cannot be: it points at the expression in the Python source, as a SyntaxError does."""

    __module__ = "madelung.kernels"


# What the compiler writes in words of its own language, longest forms first, and how Python has it. Templates of types
# are matched by patterns.
_ELEMENT = r"(?:Zero<\w+>|\w+)"
_WORDS: list[tuple[str, str]] = [
    # Statements and declarations.
    (r"`let mut`, `x = …`, `\+=` and the like", "`x = …`, `+=` and the like"),
    (r"there are `let`, `let mut`, `\+=`", "there are `x = …`, `+=`"),
    (r"there are `let`, ", "there are "),
    (r"`while`, `loop`, `break`", "`while`, `break`"),
    (r"`let mut` declares a sum", "what `+=` adds to is a sum"),
    (r"`let mut (\w+): [^=`]+ = ", r"`\1 = "),
    (r"`let mut (\w+) = ", r"`\1 = "),
    (r"`let (\w+) = ", r"`\1 = "),
    (r"declare it with `(\w+) = ", r"begin it with `\1 = "),
    (r"use a new `let`", "take a new name"),
    (r"on a `let mut` array of sums", "on an array of sums"),
    (r"on a `let mut` sum", "on a sum"),
    (r"sum into a `let mut`", "sum into a name of its own"),
    (r"a sum \(`let mut`\)", "a sum"),
    (
        r"the array is declared `let mut`, and added to by element",
        "an array of sums is added to by element, `a[k] += …`",
    ),
    (
        r"a function has no (sums|variables): `let mut` belongs in the kernel",
        r"a function has no \1: `+=` belongs in the kernel",
    ),
    (r"`let`s and one expression at the end", "assignments and one `return …` at the end"),
    (r"`let` binds one plain name", "an assignment has one plain name"),
    (r"`let` needs a value: there are", "an assignment has a value: there are"),
    (r"declare it `&mut`", "declare it `Out[…]`"),
    (r"its `&mut` parameters", "its parameters `Out[…]`"),
    (r"`\*output \+= …`", "`output += …`"),
    (r"`\*output = …`", "`output = …`"),
    (r"`\*(\w+) = …`", r"`\1 = …`"),
    (r"`\*(\w+)`", r"`\1`"),
    (r"is read by its name, without `\*` ", "is read by its name "),
    (r"`if condition \{ continue; \}`", "`if condition: continue`"),
    (r"`if c \{ a \} else \{ b \}`", "`a if c else b`"),
    (r"a block after `else`", "statements after `else:`"),
    (r"`loop` has no trip count", "`while` has no trip count"),
    (r"`array\.len\(\)`", "`len(array)`"),
    # Loops.
    (r"`for \(([\w, ]+)\) in …`", r"`for \1 in …`"),
    (r"`for \(([\w, ]+)\) in ", r"`for \1 in "),
    (r"in lo\.\.hi", "in range(lo, hi)"),
    (r"in 0\.\.(\w+)", r"in range(\1)"),
    # Types, from the inside outwards.
    (r"\[0\.0; (\w+)\]", r"[0.0] * \1"),
    (r"`&mut \[InOut<(\w+)>; (\w+)\]`", r"`InOut[\1, \2]`"),
    (r"`&mut InOut<(\w+)>`", r"`InOut[\1]`"),
    (rf"`&mut \[\[({_ELEMENT}); (\w+)\]; (\w+)\]`", r"`Out[\1, \3, \2]`"),
    (rf"`&\[\[({_ELEMENT}); (\w+)\]; (\w+)\]`", r"`Array[\1, \3, \2]`"),
    (rf"`&mut \[({_ELEMENT}); (\w+)\]`", r"`Out[\1, \2]`"),
    (rf"`&\[({_ELEMENT}); (\w+)\]`", r"`Array[\1, \2]`"),
    (rf"(\w+): &\[({_ELEMENT}); (\w+)\]", r"\1: Array[\2, \3]"),
    (r"&(Batch|Pairs|HashGrid|Map|Mesh)<([\w, ]+)>", r"\1[\2]"),
    (r"`&mut (\w+)`", r"`Out[\1]`"),
    (r"`&(\w+)`", r"`Array[\1]`"),
    (r"Zero<(\w+)>", r"Zero[\1]"),
    (r"\[(\w+);(\d+)\]", r"a list of \2 \1"),
    (r"`-> Real` behind its arguments", "`-> Real` behind its parameters"),
    (r"`i32`", "`Int`"),
    (r"`i64`", "`Int64`"),
    (r"\bi32\b", "Int"),
    (r"\bi64\b", "Int64"),
    (r"\bf64\b", "float64"),
    (r"\bbool\b", "a condition"),
    # Expressions.
    (r"`\(?(\w+) as Real\)?`", r"`float(\1)`"),
    (r"`\(?(\w+) as Int64\)?`", r"`int(\1)`"),
    (r"`\(?(\w+) as Vec3\)?`", r"`Vec3(\1)`"),
    (r"`as Int64`", "`int(…)`"),
    (r"does not become a (\w+) by `as`", r"does not become a \1"),
    (r"&& \|\| & \| \^ on conditions", "and, or, not on conditions"),
    (r"&& \|\| on conditions", "and, or on conditions"),
    (r"&& \|\| !", "and, or, not"),
    (r"`true` and `false`", "`True` and `False`"),
    (r"`pow\((\w+), (\w+)\)`", r"`\1 ** \2`"),
    (r"`pow\((\w+), (\d+\.\d+)\)`", r"`\1 ** \2`"),
    (r"`raise\((\w+)\)`", r"`raise_(\1)`"),
    (r"`raise\((\w+), (\w+)\)`", r"`raise_(\1, \2)`"),
    (r"atomic_min raise\b", "atomic_min raise_"),
    (r"array\[row\]\[c(hannel)?\]", "array[row, c]"),
    (r"`x\[i\]\[0\]`", "`x[i, 0]`"),
    (r"(\w+\[\w+)\]\[(\w+)\] (\+?=)", r"\1, \2] \3"),
    (r"(\w+\[\w+\.of\(\w+\))\]\[(\w+\.of\(\w+\))\]", r"\1, \2]"),
    # Items.
    (r"`#\[derivative\((\w+)\)\]`: there is no `#\[func\] fn \1` in this block", r"there is no `@func` `\1`"),
    (r"`#\[func\]`s of this block", "`@func`s"),
    (r"`kernels!` holds functions only: .*", "a source of kernels holds functions only"),
    (r"say what this is: .*", "say what this is: `@kernel`, `@func` or `@f.derivative`"),
    (r"`fast\(input, …\)`", '`fast=[("input", …)]`'),
    (r"`scatter`: gradients", "`scatter=True`: gradients"),
    (
        r"; `clusters`: gradients .*?, too; `small`: compiles fast, runs slowly; "
        r"`rounded`: .*?; or `prefix\(word\)`: .* name",
        "; `small=True`: compiles fast, runs slowly",
    ),
    (r"`no_adjoint` stands", "`adjoint=False` stands"),
    (r" in this block\b", ""),
]
_PATTERNS = [(re.compile(pattern), words) for pattern, words in _WORDS]


def in_python(message: str, names: dict[str, str] | None = None) -> str:
    """A message of the compiler in words of Python; `names` has the names that Python gives to those in the source."""
    for pattern, words in _PATTERNS:
        message = pattern.sub(words, message)
    for written, name in (names or {}).items():
        message = re.sub(rf"(?<=`)([^`]*)\b{re.escape(written)}\b", lambda m, n=name: m[1] + n, message)
    return message
