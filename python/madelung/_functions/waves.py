"""Wave vectors of a call."""

from __future__ import annotations

from typing import Any

from madelung import _arguments as check
from madelung._functions.framework import Framework


def waves_of(f: Framework, system: Any, cell: Any, k_cutoff: Any, miller: tuple[Any, Any]) -> tuple[Any, Any]:
    """Miller indices and the system of each."""
    indices, of = miller
    if indices is None:
        if of is not None:
            check.refuse("miller_batch_idx", "it with `miller_indices`", "it without")
        if k_cutoff is None:
            check.refuse("k_cutoff", "the radius of the sum, as no `miller_indices` are given", "None")
        each = check.per_system("k_cutoff", f.value("k_cutoff", k_cutoff), system.systems)
        return f.waves(cell, each, system.systems)
    check_waves(k_cutoff, miller)
    indices = f.integers("miller_indices", indices, ("K", 3))
    rows = indices.shape[0]
    if of is not None:
        return indices, f.integers("miller_batch_idx", of, (rows,))
    if system.systems != 1:
        check.refuse("miller_batch_idx", f"the system of each index, as there are {system.systems} systems", "None")
    return indices, f.one_system(system.positions, rows)


def check_waves(k_cutoff: Any, miller: tuple[Any, Any]) -> None:
    """Refuses two choices of waves."""
    if k_cutoff is not None and miller[0] is not None:
        check.refuse("k_cutoff", "it or `miller_indices`", "both")
