"""Functions of second degree of charges, whose minima `Framework.minimum` finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from madelung import _native
from madelung._functions.framework import Framework
from madelung._functions.segments import segment_sum


class Parts(NamedTuple):
    """Atoms of a call in parts, which are its systems or molecules."""

    count: int
    of: Any
    """The part of each atom, as an input of an op."""
    order: Any
    """The atoms, those of one part behind those of the one before; None where they stand so."""

    def sums(self, f: Framework, x: Any) -> Any:
        """The sum of numbers of atoms over each part."""
        if self.order is None:
            return segment_sum(f, x, self.of, self.count)
        return segment_sum(f, f.taken(x, self.order), f.taken(self.of, self.order), self.count)


class Form(NamedTuple):
    """The function ½ q A q of charges, and how they may change."""

    f: Framework
    energy: Callable[..., tuple[Any, Any]]
    """The value and A q, of charges and the arrays that A depends on."""
    diagonal: Callable[..., Any]
    """About the diagonal of A, of the same arrays."""
    systems: Parts
    groups: Parts
    """Atoms whose charges keep their sum."""
    free: Any
    """1 of atoms whose charges change, and 0 of others."""
    narrow: bool
    """Whether A is one of float32."""

    def both(self, u: Any, v: Any, *arrays: Any) -> Any:
        """u A v, from energies alone: so it has as many derivatives as these."""
        return self.energy(u + v, *arrays)[0] - self.energy(u, *arrays)[0] - self.energy(v, *arrays)[0]

    def least(self, slopes: Any, start: Any, arrays: tuple[Any, ...]) -> np.ndarray:
        """The charges of the least slopes·q + ½ q A q from a start, by the search of Rust, of arrays that have values.

        An error where there is no minimum.
        """
        f = self.f
        free, groups, of = (f.value("charges", x) for x in (self.free, self.groups.of, self.systems.of))
        groups = np.where(free > 0.0, groups, -1)
        reals = [values(f, x) for x in (slopes, start, self.diagonal(*arrays))]
        of, groups = (np.require(x, np.int32, ["C", "A"]) for x in (of, groups))
        search = _native.LeastCharges(*reals, of, self.systems.count, groups, self.narrow)
        while (asked := search.asked) is not None:
            search.answered(values(f, self.energy(f.numbers(asked, slopes), *arrays)[1]))
        return search.charges


def values(f: Framework, x: Any) -> np.ndarray:
    """The values of an array in float64."""
    return np.array(f.value("charges", x), np.float64)
