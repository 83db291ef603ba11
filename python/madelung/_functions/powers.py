"""Pair laws of sums over the lattice: inverse powers of the distance."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from madelung import _arguments as check
from madelung._functions.declare import Parameter, function, text
from madelung._functions.framework import Framework
from madelung._functions.parameters import ERRORS

EXPONENT = Parameter(
    "exponent",
    "count",
    text(
        "p of the pair law q_i q_j/rᵖ, 1 to 6: 1 of charges, 6 of dispersion, with the coefficients √C₆ of atoms as "
        "charges and a prefactor of −1. For p = 3 systems are neutral."
    ),
    1,
)

# What is left of the charges of a neutral system, over the sum of their sizes: the rounding of float32.
_NEUTRAL = 1e-6


class Law(NamedTuple):
    """A pair law: the prefix of its ops, and their real inputs."""

    prefix: str
    reals: tuple[Any, ...]


def power_of(exponent: Any) -> int:
    """The exponent of a call, checked."""
    p = check.integer("exponent", exponent)
    if not 1 <= p <= 6:
        check.refuse("exponent", "1 to 6", p)
    return p


def law_of(f: Framework, system: Any, split: Any, exponent: Any) -> Law:
    """The pair law of a call with splitting parameters."""
    p = power_of(exponent)
    if p == 1:
        return Law("ewald", (split,))
    return Law("inverse_power", (split, f.per_system("exponent", float(p), system)))


def check_neutral(f: Framework, of: tuple[Any, ...], exponent: Any, no_lattice: tuple[bool, ...]) -> None:
    """Refuses charges, where they can be read, whose sum over the lattice depends on the order of its terms."""
    _, charges, _, batch_idx = of
    if power_of(exponent) != 3 or False not in no_lattice or not f.is_readable(charges, batch_idx):
        return
    q = np.asarray(f.value("charges", charges), np.float64)
    idx = np.zeros(len(q), np.int64) if batch_idx is None else np.asarray(f.value("batch_idx", batch_idx))
    total, size = np.bincount(idx, q), np.bincount(idx, np.abs(q))
    bad = (np.abs(total) > _NEUTRAL * size) & ~np.broadcast_to(no_lattice, total.shape)
    if bad.any():
        b = int(bad.argmax())
        check.refuse("charges", "a sum of zero with `exponent=3`", f"{total[b]} (system {b})")


@function(
    Parameter("sigma", "reals", text("(N,), the diameter σ of each atom, in L, above zero."), shape=("N",)),
    Parameter("epsilon", "reals", text("(N,), the depth ε of the well of each atom, from zero up."), shape=("N",)),
    returns=text("the coefficients (N, 7), and the sign of each set, (7,)."),
    raises=ERRORS,
    result="tuple[Array, Array]",
    without=("cuda",),
)
def dispersion_coefficients(f: Framework, sigma: Any, epsilon: Any) -> tuple[Any, Any]:
    """Dispersion coefficients by the rules of Lorentz and Berthelot, as seven sets of charges of a sum with p = 6.

    C₆ of a pair is 4 √(ε_i ε_j) ((σ_i + σ_j)/2)⁶, a sum of seven products by the binomial theorem (In 't Veld, Ismail
    and Grest, J. Chem. Phys. 127, 144711 (2007)); those of two unlike factors are a square less a square. So the energy
    −Σ C₆/r⁶ is `ewald_summation(positions, coefficients, cell, exponent=6, prefactor=-1.0) @ signs`, and forces are
    those of the sets, each times its sign, added up. For coefficients √(C_i C_j) one set, √C_i, is enough. As C₆ goes
    with √ε_i, its derivative by a depth of zero is infinite.
    """
    for name, x, least in (("sigma", sigma, "above zero"), ("epsilon", epsilon, "from zero up")):
        if "float" not in str(getattr(x, "dtype", "")) or len(x.shape) != 1 or not x.shape[0]:
            check.refuse(name, "a real array (N,)", check.described(x), TypeError)
        if f.is_readable(x):
            values = np.asarray(f.value(name, x))
            if not (np.isfinite(values).all() and (values > 0.0 if x is sigma else values >= 0.0).all()):
                check.refuse(name, f"numbers {least}", float(values.min()))
    if epsilon.shape != sigma.shape:
        check.refuse("epsilon", f"shape {tuple(sigma.shape)}", tuple(epsilon.shape))
    # The result does not depend on the unit of σ: in that of its mean squares lose no digits to each other.
    unit = sigma.mean()
    root, s = 2.0 * epsilon**0.5 * unit**3, sigma / unit
    a = [math.sqrt(math.comb(6, k)) / 8.0 * root * s**k for k in range(7)]
    sets = [a[3]]
    for k in range(3):
        sets += [(a[k] + a[6 - k]) / math.sqrt(2.0), (a[k] - a[6 - k]) / math.sqrt(2.0)]
    return f.stacked(sets), f.numbers(np.array([1.0, *(1.0, -1.0) * 3]), sigma)
