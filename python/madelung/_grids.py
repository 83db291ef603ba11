"""Points sorted in space once, to be searched often."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import GenericAlias
from typing import Any, ClassVar

import numpy as np

from madelung import _arguments as check
from madelung import _native


@dataclass(frozen=True, eq=False)
class HashGrid:
    """Points sorted in space once, for any number of calls around any queries.

    Given in place of the points to `radius`, `knn` and the aggregations, which take cell, periodic axes and systems
    from it, and as an argument of kernels. Arrays of NumPy are copied; tensors of PyTorch must not be written to
    afterwards, and keep their derivatives. The CPU keeps the sorted points with the first call that reads them (not
    under `jit` or in graphs, and not on devices, where each call sorts them anew).

    As a type of a kernel's parameter: `HashGrid[Rows, Points]` or `HashGrid[Rows, Points, Entries]` has
    `g.query(x[i], radius)`, in which each call searches once, before it runs; what is found has no derivative.
    """

    points: Any
    """(N, 3), of the dtype of the call."""
    cell: Any = None
    """(3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic."""
    pbc: Any = None
    """(3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero."""
    capacity: int | None = None
    """The most pairs that a kernel's query may find; needed where sizes are known before values are, as under `jit`."""
    batch_idx: Any = None
    """(N,), the system of each point, sorted. None: one system, or in kernels the batch over the points."""

    word: ClassVar = "HashGrid"
    ARRAYS: ClassVar = ("points", "cell", "pbc")

    def __class_getitem__(cls, args: Any) -> GenericAlias:
        return GenericAlias(cls, args if isinstance(args, tuple) else (args,))

    def __post_init__(self) -> None:
        if isinstance(self.points, np.ndarray):
            points = self.points.copy()
            points.flags.writeable = False
            object.__setattr__(self, "points", points)
        object.__setattr__(self, "_version", _version(self.points))
        object.__setattr__(self, "_kept", None)

    def __reduce__(self) -> Any:
        return type(self), (self.points, self.cell, self.pbc, self.capacity, self.batch_idx)

    def __repr__(self) -> str:
        return f"HashGrid({check.described(self.points)})"

    def check_points(self) -> None:
        """Refuses points that were written to after the grid was made."""
        known = (self._version, _version(self.points))  # type: ignore[attr-defined]
        if None not in known and known[0] != known[1]:
            check.refuse("points", "those that the grid was made of", "ones that were written to since (make it anew)")

    def kept(self, *arrays: Any) -> Any:
        """The sorted points: of points, cells, periodic axes, and the systems of points, all of NumPy."""
        found = self._kept  # type: ignore[attr-defined]
        if found is None:
            found = _native.Grid(*(np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x for x in arrays))
            object.__setattr__(self, "_kept", found)
        return found


def _version(x: Any) -> int | None:
    """How often a tensor of PyTorch was written to; None in graphs, and for others."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(x, torch.Tensor) or torch.compiler.is_compiling() or x.is_inference():
        return None
    return x._version
