"""Arrays of NumPy behind the public functions: checked when they are taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung._functions.framework import Immediate
from madelung._schema import FULL
from madelung.numpy._ops import OPS


class Numpy(Immediate):
    """The framework of `madelung.numpy`: see `madelung._functions.framework.Framework`."""

    system, outputs = staticmethod(check.charged), staticmethod(check.outputs)

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
    def listed(system: check.Charges, lists: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """See `Framework`."""
        atoms = len(system.positions)
        found = check.neighbors(atoms, *lists)
        return None if found is None else (_native.given_pairs(found, atoms), None, None, FULL)

    @staticmethod
    def searched(system: check.Charges, cutoff: float) -> tuple[Any, ...]:
        """See `Framework`."""
        return _native.found_pairs(system, cutoff), None, None, FULL

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
        flat = (r, system.charges, h, *reals, *batch, *rest)
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
        r, reach = check.reals("positions", positions, ("N", 3)), check.positive("cutoff", cutoff)
        axes = check.periodic(pbc)
        h = None
        if cell is not None:
            h = check.lattice(check.cells(cell, r))
        systems = check.lattices(None if h is None else len(h), axes)
        if h is None and axes is not None and axes.any():
            check.refuse("cell", "lattice vectors for the periodic axes", "None")
        groups = check.groups(batch_idx, batch_ptr, len(r), systems)
        return _native.neighbor_list(r, reach, h, None if axes is None else axes.tolist(), groups, options)

    @staticmethod
    def values(*charges: Any) -> check.Charges:
        """See `Framework`."""
        return check.charged(*charges)

    @staticmethod
    def value(name: str, x: Any) -> Any:
        """See `Framework`."""
        return x
