"""Sums of several sets of charges at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from madelung import _arguments as check
from madelung._functions.declare import text
from madelung._functions.framework import Framework
from madelung._functions.parameters import CHARGES, ENERGIES

CHANNELS = CHARGES.but(
    text=text(
        f"{CHARGES.text.common} Or (N, C), C sets of charges, each with its own results. Without a list and parameters "
        "each set searches for itself.",
        cuda="The call then waits for the charges and the results, which are split and joined on the host.",
    ),
    shape=("N", "C"),
)
ENERGIES_OF_CHANNELS = text(
    f"{ENERGIES.common} Of charges (N, C) energies and charge gradients are (N, C), or energies (B, C), forces "
    "(N, C, 3) and virials (C, 3, 3) or (B, C, 3, 3), of each atom (N, C, 3, 3)."
)


def of_channels(body: Callable[..., Any]) -> Callable[..., Any]:
    """The body of a function of charges (N,), which takes charges (N, C) too: the results of each set side by side."""

    @functools.wraps(body)
    def of_each(f: Framework, positions: Any, charges: Any, *rest: Any) -> Any:
        if getattr(charges, "ndim", 1) != 2:
            return body(f, positions, charges, *rest)
        if not charges.shape[1]:
            check.refuse("charges", "at least one set", tuple(charges.shape))
        found = [body(f, positions, q, *rest) for q in f.channels(charges)]
        if not isinstance(found[0], tuple):
            return f.stacked(found)
        # The virial is the last result, and has no axis for systems where there is one.
        axes = [1] * len(found[0])
        axes[-1] = 0 if rest[-1][4] and len(found[0][-1].shape) == 2 else 1
        return tuple([f.stacked(each, axis) for each, axis in zip(zip(*found), axes)])

    return of_each
