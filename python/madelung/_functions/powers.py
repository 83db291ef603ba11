"""Coefficients of dispersion: sums of inverse powers of the distance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung._functions.declare import Parameter, function, text
from madelung._functions.framework import Framework
from madelung._functions.parameters import ERRORS


def root_of(epsilon: Any) -> Any:
    """√ε, whose derivative at 0 is 0."""
    return (epsilon + (epsilon == 0.0)) ** 0.5 * (epsilon > 0.0)


@function(
    Parameter("sigma", "reals", text("(N,), the diameter σ of each atom, in L, from zero up."), shape=("N",)),
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
    with √ε_i, its derivative by a depth of zero is infinite, and taken as zero.
    """
    for name, x in (("sigma", sigma), ("epsilon", epsilon)):
        if "float" not in str(getattr(x, "dtype", "")) or len(x.shape) != 1 or not x.shape[0]:
            check.refuse(name, "a real array (N,)", check.described(x), TypeError)
        if f.is_readable(x):
            values = np.asarray(f.value(name, x))
            if not (np.isfinite(values).all() and (values >= 0.0).all()):
                check.refuse(name, "numbers from zero up", float(values.min()))
    if epsilon.shape != sigma.shape:
        check.refuse("epsilon", f"shape {tuple(sigma.shape)}", tuple(epsilon.shape))
    # The result does not depend on the unit of σ: in that of its mean squares lose no digits to each other.
    unit = sigma.mean()
    unit = unit + (unit == 0.0)
    root, s = 2.0 * root_of(epsilon) * unit**3, sigma / unit
    a = [math.sqrt(math.comb(6, k)) / 8.0 * root * s**k for k in range(7)]
    sets = [a[3]]
    for k in range(3):
        sets += [(a[k] + a[6 - k]) / math.sqrt(2.0), (a[k] - a[6 - k]) / math.sqrt(2.0)]
    return f.stacked(sets), f.numbers(np.array([1.0, *(1.0, -1.0) * 3]), sigma)
