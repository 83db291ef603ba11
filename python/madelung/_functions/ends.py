"""Ends of pair potentials at their cutoff, and the mean energy of what their pairs lack."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from madelung import _arguments as check
from madelung._functions.declare import Group, Parameter, text
from madelung._functions.framework import Framework

_WITH_ONSET = ("taper", "switch", "force-switch")
_WORDS = (*_WITH_ONSET, "shift", "force-shift", "cut")
ENDS = Group(
    "ends",
    (
        Parameter(
            "end",
            "word",
            text(
                'how the energy V of a pair goes to 0 at the cutoff. "taper": from `onset` on times 1 − 10x³ + 15x⁴ − '
                '6x⁵, where x goes from 0 there to 1 at the cutoff. "switch": times (1 − z)²(1 + 2z), where z does so '
                'with r², as in CHARMM. "force-switch": less a constant, and from `onset` on less Ax³/3 + Bx⁴/4, x = r '
                "− `onset`, so that the force and its slope go to 0, as in GROMACS. "
                '"shift": less its value at the cutoff. "force-shift": less a straight line, so that the force ends at '
                '0, too. "cut": it is cut off.'
            ),
            "taper",
            words=_WORDS,
        ),
        Parameter(
            "onset",
            "positive",
            text(
                "distance at which a taper, a switch or a force switch begins, below the cutoff. None: nine tenths of "
                "the cutoff.",
                jax="A Python number.",
            ),
            None,
        ),
        Parameter(
            "tail_correction",
            "flag",
            text(
                "whether the mean energy of what pairs lack is added: beyond the cutoff, and what the end takes off. "
                "Eᵢ = (2π/V) Σₜ Nₜ ∫ r² v(r) dr over the types t, of atoms spread evenly over a crystal. Exclusions do "
                "not change it. Energies that fall slower than r⁻⁴ are refused, where parameters can be read."
            ),
            False,
            without=("cuda",),
        ),
    ),
)

# Points and weights of Gauss and Legendre for an interval from 0 to 1, and fewer of them to compare with.
_RULES = {n: tuple(0.5 * (x + k) for x, k in zip(np.polynomial.legendre.leggauss(n), (1.0, 0.0))) for n in (32, 24)}


class Ends(NamedTuple):
    """How energies of pairs end."""

    word: str
    cutoff: float
    onset: float
    """Distance at which a taper, a switch or a force switch begins; the cutoff for other ends."""
    has_tail: bool

    def numbers(self) -> tuple[float, float, float]:
        """The numbers of an op: the cutoff, and where a taper and a switch begin."""
        taper, switch = (self.onset if self.word == w else self.cutoff for w in ("taper", "switch"))
        return self.cutoff, taper, switch

    @property
    def takes_off(self) -> bool:
        """Whether it takes something off energies, in the place of a factor."""
        return self.word not in ("taper", "switch", "cut")

    @property
    def bend(self) -> float:
        """Distance at which a force switch begins; 0 for shifts."""
        return self.onset if self.word == "force-switch" else 0.0


def ends_of(f: Framework, given: tuple[Any, Any, Any], cutoff: float, cell: Any, pbc: Any) -> Ends:
    """The ends of a call, checked."""
    word, onset, tail = given
    check.word("end", word, _WORDS)
    start = f.distance("onset", onset)
    if start is not None and not start > 0.0:
        check.positive("onset", start)
    if word not in _WITH_ONSET:
        if start is not None:
            check.refuse("onset", f'None with `end="{word}"`', start)
        start = cutoff
    elif start is None:
        start = 0.9 * cutoff
    elif not start < cutoff:
        check.refuse("onset", f"a distance below the cutoff, {cutoff}", start)
    has_tail = check.flag("tail_correction", tail)
    if has_tail:
        if cell is None:
            check.refuse("cell", "lattice vectors (3, 3) or (B, 3, 3) with `tail_correction`", "None")
        if pbc is not None and not f.is_readable(pbc):
            check.refuse("pbc", "None, or axes that can be read, with `tail_correction`", "an array of a graph")
        if pbc is not None and not np.asarray(f.value("pbc", pbc)).all():
            check.refuse("pbc", "all axes periodic with `tail_correction`", np.asarray(f.value("pbc", pbc)).tolist())
    return Ends(word, cutoff, start, has_tail)


def _at(f: Framework, op: str, tables: list[Any], distances: np.ndarray, like: Any) -> tuple[Any, ...]:
    """Energies of all pairs of types at distances, (K², M) each, and their first and second derivatives."""
    kinds = tables[0].shape[0]
    of_rows = np.indices((kinds, kinds), np.int32).reshape(2, -1).repeat(len(distances), 1)
    rows = f.numbers(np.tile(distances, kinds * kinds), like)
    try:
        found = f.op(f"{op}_at", *tables, rows, *[f.indices(x, like) for x in of_rows])
    except ValueError as error:
        if "a finite result" in str(error):
            reach = f"distances at which energies of all types are numbers, from {distances.min():.4} on"
            check.refuse("cutoff", reach, "an infinity or NaN there")
        raise
    return tuple([x.reshape((kinds * kinds, len(distances))) for x in found])


def at_end(f: Framework, op: str, tables: list[Any], ends: Ends, like: Any) -> list[Any]:
    """Value, slope and curvature of the energy of two types at the cutoff, (K, K) each, of which the end takes what it
    makes 0; none where it takes nothing off."""
    shape = tuple(tables[0].shape)
    if not ends.takes_off:
        return []
    known = {"shift": 1, "force-shift": 2, "force-switch": 3}[ends.word]
    found = _at(f, op, tables, np.array([ends.cutoff]), like)[:known]
    return [*[x.reshape(shape) for x in found], *[f.full(shape, 0.0, like)] * (3 - known)]


def nodes(begin: float, end: float, points: int = 32) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of a quadrature."""
    x, weights = _RULES[points]
    return begin + (end - begin) * x, (end - begin) * weights


def tail_integrals(f: Framework, op: str, tables: list[Any], taken: list[Any], ends: Ends, like: Any) -> Any:
    """∫ r² v(r) dr of two types, (K, K): over v = V beyond the cutoff, and within it over what the end takes off V.

    Where values can be read, energies that fall so slowly that fewer points have another integral are refused.
    """
    found = _integrals(f, op, tables, taken, ends, like, 32)
    if f.is_readable(*tables):
        # To the digits of the dtype, of which the sum of 32 terms loses one.
        error = 1e-6 if like.dtype.itemsize == 8 else 1e-4
        fine, coarse = (
            np.asarray(f.value("cutoff", x), np.float64)
            for x in (found, _integrals(f, op, tables, taken, ends, like, 24))
        )
        wrong = ~(np.abs(fine - coarse) <= error * np.abs(fine).max(initial=0.0))
        if wrong.any():
            a, b = np.argwhere(wrong)[0].tolist()
            expected = "energies that fall fast beyond the cutoff, as r⁻⁴ or exp(−r/ρ) with ρ below it"
            check.refuse("tail_correction", expected, f"slower ones of types {a} and {b}")
    return found


def _integrals(f: Framework, op: str, tables: list[Any], taken: list[Any], ends: Ends, like: Any, points: int) -> Any:
    """`tail_integrals` by a number of points."""
    cutoff, onset, kinds = ends.cutoff, ends.onset, tables[0].shape[0]
    # r = cutoff/t², so that halves of whole powers, from r⁻⁴ down, are polynomials of t.
    t, weights = nodes(0.0, 1.0, points)
    at, weights = cutoff / t**2, weights * 2.0 * cutoff**3 / t**7
    total = (_at(f, op, tables, at, like)[0] * f.numbers(weights, like)).sum(1)
    if ends.word in ("taper", "switch"):
        r, of_r = nodes(onset, cutoff, points)
        factor, _, _ = f.op("end_shapes", f.numbers(r, like), *ends.numbers(), 0.0)
        total = total + (_at(f, op, tables, r, like)[0] * (1.0 - factor) * f.numbers(of_r * r**2, like)).sum(1)
    total = total.reshape((kinds, kinds))
    if taken:
        r, of_r = (np.append(*x) for x in zip(nodes(0.0, ends.bend, points), nodes(ends.bend, cutoff, points)))
        _, *shapes = f.op("end_shapes", f.numbers(r, like), *ends.numbers(), ends.bend)
        value, *others = taken
        total = total + value * (cutoff**3 / 3.0)
        for x, shape in zip(others, shapes):
            total = total + x * (shape * f.numbers(of_r * r**2, like)).sum()
    return total
