"""Calls of the bodies that public functions have, as the namespaces make them."""

from __future__ import annotations

from typing import Any

import numpy as np

from madelung._functions.declare import FUNCTIONS
from madelung._neighbors import Neighbors, flatten, unflatten


def passed(name: str, given: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of a body."""
    declared = FUNCTIONS[name]
    values = {p.name: given.get(p.name, p.default) for p in declared.parameters()}
    groups = [getattr(item, "parameters", None) for item in declared.arguments()]
    return tuple(
        values[item.name] if group is None else tuple(values[p.name] for p in group)
        for item, group in zip(declared.arguments(), groups)
    )


def lent(x: Any) -> Any:
    """Of arrays of NumPy tensors on the same memory."""
    import torch

    if isinstance(x, np.ndarray):
        return torch.from_numpy(x)
    if isinstance(x, Neighbors):
        arrays, others = flatten(x)
        return unflatten([lent(array) for array in arrays], others)
    return tuple(map(lent, x)) if isinstance(x, tuple) else x
