"""Pair laws of sums over the lattice: inverse powers of the distance, and laws of users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from madelung import _arguments as check
from madelung._functions.declare import Group, Parameter, text
from madelung._functions.framework import Framework

EXPONENT = Parameter(
    "exponent",
    "count",
    text(
        "p of the pair law q_i q_j/rᵖ, 1 to 6: 1 of charges, 6 of dispersion, with the coefficients √C₆ of atoms as "
        "charges and a prefactor of −1. For p = 3 systems are neutral."
    ),
    1,
)
LAW = Group(
    "law",
    (
        EXPONENT,
        Parameter(
            "law",
            "law",
            text(
                "in place of the exponent a pair law of one's own with its parameters, as `yukawa(kappa=0.8)`: what "
                "`madelung.kernels.law` makes. Crystals alone; α, the cutoff, and waves or mesh are given, as nothing "
                "estimates the errors of such a sum, and `accuracy` is None. Differentiable by the parameters.",
                cuda="Parameters are numbers, or what `madelung.cuda.asarray` gives.",
            ),
            None,
        ),
    ),
)

# What is left of the charges of a neutral system, over the sum of their sizes: the rounding of float32.
_NEUTRAL = 1e-6


class BoundLaw(NamedTuple):
    """Pair law with its parameters: what a law made by `madelung.kernels.law` gives when it is called with them."""

    prefix: str
    """Prefix of the names of its ops."""
    parameters: dict[str, Any]
    """Its own parameters: for each a number, or an array with one for each system."""
    planned: Any
    """The pair law in a request of a plan: p of 1/rᵖ, or name, prefix and parameters of a user's law."""
    excludes: bool = True
    """Whether it has the long-range part by which pairs are left out."""


COULOMB = BoundLaw("ewald", {}, 1)


def law_of(given: tuple[Any, Any], exclusions: Any = None) -> BoundLaw:
    """The pair law of a call's exponent and law, checked."""
    exponent, law = given
    p = check.integer("exponent", exponent)
    if not 1 <= p <= 6:
        check.refuse("exponent", "1 to 6", p)
    if law is None:
        return COULOMB if p == 1 else BoundLaw("inverse_power", {"exponent": float(p)}, p)
    if not isinstance(law, BoundLaw):
        expected = "a law with its parameters, as `yukawa(kappa=0.8)`"
        check.refuse("law", expected, check.described(law), TypeError)
    if p != 1:
        check.refuse("exponent", "1 with `law`", p)
    if exclusions is not None and not law.excludes:
        check.refuse("law", "one with `long_range` or `full`, by which pairs are left out", law.planned[0])
    return law


def check_neutral(f: Framework, of: tuple[Any, ...], law: BoundLaw, no_lattice: tuple[bool, ...]) -> None:
    """Refuses charges, where they can be read, whose sum over the lattice depends on the order of its terms."""
    _, charges, _, batch_idx = of
    if law.planned != 3 or False not in no_lattice or not f.is_readable(charges, batch_idx):
        return
    q = np.asarray(f.value("charges", charges), np.float64)
    idx = np.zeros(len(q), np.int64) if batch_idx is None else np.asarray(f.value("batch_idx", batch_idx))
    total, size = np.bincount(idx, q), np.bincount(idx, np.abs(q))
    bad = (np.abs(total) > _NEUTRAL * size) & ~np.broadcast_to(no_lattice, total.shape)
    if bad.any():
        b = int(bad.argmax())
        check.refuse("charges", "a sum of zero with `exponent=3`", f"{total[b]} (system {b})")


# Laws that users have made, and for each namespace that is there the function that makes the ops of one known to it.
_LAWS: dict[str, Any] = {}
_NAMESPACES: list[Callable[[Any], None]] = []


def announce(law: Any) -> None:
    """Makes a law known to all namespaces, those that are imported later too."""
    if law.prefix not in _LAWS:
        _LAWS[law.prefix] = law
        for add in _NAMESPACES:
            add(law)


def follow(add: Callable[[Any], None]) -> None:
    """Lets a namespace know of each law, those that are there too."""
    _NAMESPACES.append(add)
    for law in _LAWS.values():
        add(law)
