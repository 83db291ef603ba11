"""Points sorted in space once, to be searched often."""

from __future__ import annotations

import sys
from collections.abc import Sequence
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
    from it, and as an argument of kernels. The CPU keeps the sorted points as long as they are what they were. PyTorch
    counts what its own functions write to tensors in place; NumPy's arrays are compared in each call (1 ns a point),
    but for those that are read-only for good (`points.flags.writeable = False`). Under `jit`, in graphs and on devices
    each call sorts them anew.

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
    ARRAYS: ClassVar = ("points", "cell", "pbc", "batch_idx")

    def __class_getitem__(cls, args: Any) -> GenericAlias:
        return GenericAlias(cls, args if isinstance(args, tuple) else (args,))

    def __post_init__(self) -> None:
        object.__setattr__(self, "_kept", None)
        object.__setattr__(self, "_known", None)

    def __reduce__(self) -> Any:
        return type(self), (self.points, self.cell, self.pbc, self.capacity, self.batch_idx)

    def __repr__(self) -> str:
        return f"HashGrid({check.described(self.points)})"

    def kept(self, points: Any, *others: Any) -> Any:
        """The sorted points: of points, cells, periodic axes, and the systems of points, all of NumPy. They are sorted
        anew where anything else than the last time is given."""
        found, version = self._kept, _version(self.points)  # type: ignore[attr-defined]
        if found is not None and version == found[2] and _are_same(found[1], others):
            is_same = version is not None or np.array_equal(found[3], points)
            if is_same:
                return found[0]
        given = [np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x for x in (points, *others)]
        # What cannot change, or says so, is not compared.
        copies = [x.copy() if isinstance(x, np.ndarray) else x for x in others]
        found = _native.Grid(*given), copies, version, None if version is not None else given[0].copy()
        object.__setattr__(self, "_kept", found)
        return found[0]

    def keep(self, framework: Any, sites: Any) -> None:
        """Keeps the points as a framework's calls take them, where they cannot change unseen."""
        version = _version(self.points)
        if version is not None:
            copies = [None if x is None else _elements(x).copy() for x in self._others()]
            object.__setattr__(self, "_known", (self._mode(framework), version, copies, sites))

    def known(self, framework: Any) -> Any:
        """Points kept for a framework's calls, if the arrays are what they were; else None."""
        found = self._known  # type: ignore[attr-defined]
        if found is None:
            return None
        mode, version, copies, sites = found
        if mode == self._mode(framework) and version == _version(self.points):
            others = [
                x is None if copy is None else x is not None and np.array_equal(copy, _elements(x))
                for copy, x in zip(copies, self._others())
            ]
            if all(others):
                return sites
        object.__setattr__(self, "_known", None)
        return None

    def _others(self) -> tuple[Any, Any, Any]:
        return self.cell, self.pbc, self.batch_idx

    def _mode(self, framework: Any) -> tuple[Any, ...]:
        """The framework, and which derivatives a call has: what is made of arrays serves with these alone."""
        kind = framework if isinstance(framework, type) else type(framework)
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(self.points, torch.Tensor):
            return (kind,)
        wanted = [getattr(x, "requires_grad", False) for x in (self.points, self.cell)]
        return kind, *wanted, torch.is_grad_enabled(), torch.is_inference_mode_enabled()


def _are_same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return all(np.array_equal(x, y) if isinstance(x, np.ndarray) else x == y for x, y in zip(one, other))


def _elements(x: Any) -> np.ndarray:
    return np.asarray(x.detach() if hasattr(x, "detach") else x)


def _version(x: Any) -> Any:
    """A number that tells a state of an array from a later one: of PyTorch's tensors, and of what cannot be written to.
    None where there is none."""
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch is not None and isinstance(x, torch.Tensor):
        return None if x.is_inference() else (x._version, x.data_ptr(), x.shape)
    if isinstance(x, np.ndarray):
        return 0 if not x.flags.writeable and x.base is None else None
    return 0 if jax is not None and isinstance(x, jax.Array) else None
