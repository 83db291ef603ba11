"""The arguments of sums over charges."""

from __future__ import annotations

from typing import Any, NamedTuple

from madelung import _arguments as check
from madelung._functions.laws import COULOMB


class Arguments(NamedTuple):
    """The arguments of a sum."""

    positions: Any
    charges: Any
    cell: Any
    batch_idx: Any
    pbc: Any
    slab_correction: Any
    slab_height: Any
    lists: tuple[Any, ...]
    alpha: Any
    cutoff: Any
    k_cutoff: Any
    miller: tuple[Any, Any]
    mesh: tuple[Any, Any]
    exclusions: Any
    law: Any
    widths: Any
    accuracy: Any
    method: Any


_NAMES = tuple(Arguments.__annotations__)


def changed(of: Arguments, **others: Any) -> Arguments:
    """Arguments with some other ones: `_replace`, which compiled graphs of PyTorch 2.7 do not have."""
    return Arguments(*[others[name] if name in others else getattr(of, name) for name in _NAMES])


def arguments(positions: Any, charges: Any, cell: Any, batch_idx: Any = None, **given: Any) -> Arguments:
    """The arguments of a sum; those that are not given are None."""
    rest = dict.fromkeys(Arguments._fields[4:]) | {
        "slab_correction": False,
        "lists": (None,) * 7 + (False,),
        "miller": (None, None),
        "mesh": (None, None),
        "law": COULOMB,
    }
    return Arguments(positions, charges, cell, batch_idx, **(rest | given))


def part(positions: Any, charges: Any, cell: Any, batch_idx: Any, **given: Any) -> Arguments:
    """The arguments of a part of a sum over a lattice, which has a cell."""
    if cell is None:
        check.refuse("cell", "lattice vectors (3, 3) or (B, 3, 3)", "None", TypeError)
    return arguments(positions, charges, cell, batch_idx, **given)
