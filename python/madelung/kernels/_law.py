"""Pair laws of sums over the lattice, made of functions of the kernel language."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

from madelung import _arguments as check
from madelung import _native
from madelung._functions.laws import BoundLaw, announce
from madelung.kernels import _background
from madelung.kernels._kernel import Func, is_func
from madelung.kernels._names import Names
from madelung.kernels._source import Block
from madelung.kernels._types import Real

_NAMES = Names(ast.parse(""))
# The functions of a law, and what each is given ahead of the law's own parameters.
_GIVEN = {
    "short_range": ("r", "alpha"),
    "long_range_k2": ("k2", "volume", "alpha"),
    "self_term": ("alpha",),
    "background": ("volume", "alpha"),
    "long_range": ("r2", "alpha"),
    "full": ("r",),
}


class Law:
    """Pair law; made by `law`. Called with its parameters it is what sums take as `law=`."""

    def __init__(self, name: str, parameters: tuple[str, ...], functions: dict[str, Func]) -> None:
        self.__name__, self._parameters = name, parameters
        texts = [str(text) for text in Block(is_func, functions).texts]
        self._excludes = bool({"long_range", "full"} & {*functions})
        if "long_range" not in functions:
            texts.append(_long_range(parameters, self._excludes))
        source = "\n".join(texts)
        digest = hashlib.sha256(json.dumps([parameters, source]).encode()).hexdigest()[:10]
        # With what it means in its name, as an op: a changed law is another one, and graphs keep theirs.
        self.prefix = f"{name}_{digest}"
        self.described: list[dict[str, Any]] = json.loads(_native.law_ops(self.prefix, parameters, source))
        announce(self)
        _background.start()

    def __repr__(self) -> str:
        return f"<law {self.__name__}>"

    def __call__(self, /, **parameters: Any) -> BoundLaw:
        """The law with its parameters: for each a number, or an array with one for each system, which can be
        differentiated by.

        Raises:
            TypeError: For a parameter that is missing or that the law does not have.
        """
        own = ", ".join(self._parameters) or "none"
        for name in self._parameters:
            if name not in parameters:
                raise TypeError(f"`{self.__name__}`: `{name}` is missing: expected {own}")
        for name in parameters:
            if name not in self._parameters:
                raise TypeError(f"`{self.__name__}`: there is no parameter `{name}`: expected {own}")
        planned = (self.__name__, self.prefix, self._parameters)
        return BoundLaw(self.prefix, {name: parameters[name] for name in self._parameters}, planned, self._excludes)

    def for_torch(self, library: str) -> str:
        """The descriptions of its ops, after they were registered with a libtorch."""
        return _native.torch_kernel_ops(library, self.prefix)


def _long_range(parameters: tuple[str, ...], is_difference: bool) -> str:
    """The long-range part where there is no function of it: a difference, or what no sum asks for."""
    declared, given = ("".join(f", {name}{kind}" for name in parameters) for kind in (": Real", ""))
    value = f"full(sqrt(r2){given}) - short_range(sqrt(r2), alpha{given})" if is_difference else "0.0"
    return f"#[func] fn long_range(r2: Real, alpha: Real{declared}) -> Real {{ {value} }}"


def law(name: str, /, **parameters: Any) -> Callable[..., Law]:
    """Pair law φ(r) of sums over the lattice, of functions that `@func` made.

    `yukawa = law("yukawa", kappa=Real)(short_range=…, …)` is a law with the parameter κ, and
    `ewald_summation(…, law=yukawa(kappa=0.8))` its sum, in every namespace, with all derivatives, also by κ. The energy
    of charge i is ½ q_i [Σ_j q_j `short_range` + Σ_k `long_range_k2` Re S(k)* exp(i k·r_i) − q_i `self_term` −
    Q `background`]; α splits the law into two parts that converge fast, and the sum does not depend on it.

    The functions, whose last arguments are the law's own parameters:

        short_range(r, alpha): the short-range part at distance r.
        long_range_k2(k2, volume, alpha): the Fourier coefficient of the long-range part at k², its transform divided by
            the volume of the cell.
        self_term(alpha): the long-range part at r = 0.
        background(volume, alpha): what is taken away for k = 0: minus the coefficient of the long-range part there if
            the lattice sum converges, or that of the short-range part if a uniform background neutralises the cell.
        long_range(r2, alpha): the long-range part at r², smooth at 0; for `exclusions` alone.
        full(r): the law itself, from which the long-range part is the difference where there is no `long_range`; pairs
            that are left out must then not lie on one point.

    Args:
        name: of its ops and in errors.
        parameters: the law's own parameters, `kappa=Real`: a number, or one for each system.

    Returns:
        The function of these functions, by keyword, that makes the law. Equal functions give the same ops.

    Raises:
        TypeError, ValueError: For names that are none, and functions that are missing or take other parameters.
    """
    for what, word in (("name", name), *(("parameters", p) for p in parameters)):
        if not isinstance(word, str) or not re.fullmatch(r"[A-Za-z]\w*", word, re.ASCII) or _NAMES[word] != word:
            expected = "a name of letters, digits and underscores that is no word of the kernel language"
            check.refuse(what, expected, repr(word))
    for p, kind in parameters.items():
        if kind not in (Real, float):
            check.refuse(p, "Real", check.described(kind), TypeError)
    own = tuple(parameters)

    def made(
        *,
        short_range: Func,
        long_range_k2: Func,
        self_term: Func,
        background: Func,
        long_range: Func | None = None,
        full: Func | None = None,
    ) -> Law:
        each = (short_range, long_range_k2, self_term, background, long_range, full)
        functions = {role: f for role, f in zip(_GIVEN, each) if f is not None}
        for role, f in functions.items():
            if not isinstance(f, Func):
                check.refuse(role, "a function that `@func` made", check.described(f), TypeError)
            expected, got = (*_GIVEN[role], *own), f.parameters
            if got != expected or not f.is_of_reals:
                check.refuse(role, f"reals ({', '.join(expected)})", f"({', '.join(got)})")
        return Law(name, own, functions)

    return made
