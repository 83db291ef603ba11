"""The arguments of sums over charges."""

from __future__ import annotations

from typing import Any, NamedTuple

from madelung import _arguments as check
from madelung._functions.laws import COULOMB, BoundLaw


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
# A call without a list.
NO_LISTS = (None,) * 7 + (False,)


def changed(of: Arguments, **others: Any) -> Arguments:
    """Arguments with some other ones: `_replace`, which compiled graphs of PyTorch 2.7 do not have."""
    return Arguments(*[others[name] if name in others else getattr(of, name) for name in _NAMES])


def arguments(
    positions: Any,
    charges: Any,
    cell: Any,
    batch_idx: Any = None,
    *,
    pbc: Any = None,
    slab_correction: Any = False,
    slab_height: Any = None,
    lists: tuple[Any, ...] = NO_LISTS,
    alpha: Any = None,
    cutoff: Any = None,
    k_cutoff: Any = None,
    miller: tuple[Any, Any] = (None, None),
    mesh: tuple[Any, Any] = (None, None),
    exclusions: Any = None,
    law: BoundLaw | None = None,
    widths: Any = None,
    accuracy: Any = None,
    method: Any = None,
) -> Arguments:
    """The arguments of a sum."""
    slabs, parameters = (pbc, slab_correction, slab_height), (alpha, cutoff, k_cutoff, miller, mesh)
    others = (exclusions, COULOMB if law is None else law, widths, accuracy, method)
    return Arguments(positions, charges, cell, batch_idx, *slabs, lists, *parameters, *others)


def part(positions: Any, charges: Any, cell: Any, batch_idx: Any, **given: Any) -> Arguments:
    """The arguments of a part of a sum over a lattice, which has a cell."""
    if cell is None:
        check.refuse("cell", "lattice vectors (3, 3) or (B, 3, 3)", "None", TypeError)
    return arguments(positions, charges, cell, batch_idx, **given)
