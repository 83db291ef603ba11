"""Arrays of NumPy behind the public functions: checked when they are taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung import _native, _neighbors
from madelung._functions.framework import Immediate
from madelung._neighbors import NeighborList as _NeighborList
from madelung._neighbors import Neighbors
from madelung._schema import CHECKED, FULL
from madelung.numpy._ops import OPS


def _searched(positions: Any, cutoff: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any) -> tuple[Any, ...]:
    """Positions, cutoff, cells, periodic axes and systems of a search, checked."""
    r, reach = check.reals("positions", positions, ("N", 3)), check.positive("cutoff", cutoff)
    axes = check.periodic(pbc)
    h = None
    if cell is not None:
        h = check.lattice(check.cells(cell, r))
    systems = check.lattices(None if h is None else len(h), axes)
    if h is None and axes is not None and axes.any():
        check.refuse("cell", "lattice vectors for the periodic axes", "None")
    groups = check.groups(batch_idx, batch_ptr, len(r), systems)
    return r, reach, h, None if axes is None else axes.tolist(), groups


class Numpy(Immediate):
    """The framework of `madelung.numpy`: see `madelung._functions.framework.Framework`."""

    system, outputs = staticmethod(check.charged), staticmethod(check.outputs)

    @staticmethod
    def no_cell(positions: Any) -> Any:
        """See `Framework`."""
        return np.eye(3, dtype=check.reals("positions", positions, ("N", 3)).dtype)

    @staticmethod
    def table(name: str, x: Any, shape: Sequence[int | str], system: check.Charges) -> Any:
        """See `Framework`."""
        r = system.positions
        return check.reals(name, x if isinstance(x, np.ndarray) else np.asarray(x, r.dtype), shape, r)

    @staticmethod
    def per_system(name: str, x: Any, system: check.Charges) -> Any:
        """See `Framework`."""
        # A number that float32 does not hold is refused by the op.
        with np.errstate(over="ignore"):
            values = np.array(check.per_system(name, x, system.systems)).astype(system.positions.dtype)
        return np.ascontiguousarray(np.broadcast_to(values, system.systems))

    @staticmethod
    def distance(name: str, x: Any) -> float | None:
        """See `Framework`."""
        return None if x is None else check.positive(name, x)

    @staticmethod
    def integers(name: str, x: Any, shape: Sequence[int | str], system: check.Charges) -> Any:
        """See `Framework`."""
        return check.integers(name, x, shape)

    @staticmethod
    def one_system(rows: int, system: check.Charges) -> Any:
        """See `Framework`."""
        return np.zeros(rows, np.int32)

    @staticmethod
    def listed(
        system: check.Charges, lists: tuple[Any, ...], cutoff: float | None, own: bool = False
    ) -> tuple[Any, ...] | None:
        """See `Framework`."""
        atoms, (given, *plain) = len(system.positions), lists
        if given is not None:
            if not own and _neighbors.differs(getattr(given, "cell", None), system.cell.reshape(-1, 3, 3)):
                _neighbors.refuse_cell()
            return _neighbors.checked(given, atoms, cutoff, plain)
        found = check.neighbors(atoms, *plain)
        return None if found is None else (*_native.full_list(found, atoms), FULL + CHECKED)

    @staticmethod
    def waves(cell: Any, k_cutoff: Sequence[float], systems: int) -> tuple[Any, Any]:
        """See `Framework`."""
        return check.miller_indices(check.cells(cell), k_cutoff, systems)

    @staticmethod
    def energies(op: str, system: check.Charges, reals: Any, rest: Any, wanted: check.Outputs) -> Any:
        """See `Framework`."""
        of = OPS[f"{op}_total" if wanted.per_system else op]
        r, idx, systems = system.positions, system.groups.batch_idx, system.systems
        h = np.ascontiguousarray(np.broadcast_to(system.cell, (systems, 3, 3)))
        batch = (np.empty(0, r.dtype), np.zeros(len(r), np.int32) if idx is None else idx, wanted.prefactor)
        flat = (*check.inputs(r, system.charges, h), *reals, *batch, *rest)
        try:
            results = of.energies(of.wanted(wanted), lambda member, *bits: of.run(member, flat, (), *bits))
        except ValueError as error:
            raise check.renamed(error) from None
        if wanted.virial and system.single:
            results[-1] = results[-1][0]
        return results[0] if len(results) == 1 else tuple(results)

    @staticmethod
    def neighbor_list(
        positions: Any, cutoff: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any, options: check.ListOptions
    ) -> tuple[Any, ...]:
        """See `Framework`."""
        return _native.neighbor_list(*_searched(positions, cutoff, cell, pbc, batch_idx, batch_ptr), options)

    @staticmethod
    def find_neighbors(
        positions: Any, cutoff: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any, form: Any
    ) -> Neighbors:
        """See `Framework`."""
        atoms = _searched(positions, cutoff, cell, pbc, batch_idx, batch_ptr)
        r, reach, h, _, _ = atoms
        found = _native.find_neighbors(*atoms, form)
        at = None if h is None else h.copy()
        axes = _neighbors.axes_of(pbc, cell)
        return Neighbors(*found, at, None, _neighbors.form_of(found[1]), len(r), float(reach), axes)

    @staticmethod
    def values(*charges: Any) -> check.Charges:
        """See `Framework`."""
        return check.charged(*charges)

    @staticmethod
    def value(name: str, x: Any) -> Any:
        """See `Framework`."""
        return x


class NeighborList(_NeighborList):
    __doc__ = _NeighborList.__doc__

    def _found(self, positions: Any, cell: Any, pbc: Any, batch_idx: Any) -> Neighbors:
        return Numpy.find_neighbors(positions, self.cutoff + self.skin, cell, pbc, batch_idx, None, self.form)
