"""Ewald sums of JAX arrays."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung import numpy as _numpy
from madelung._schema import FULL
from madelung.jax import _inputs as given
from madelung.jax._energies import Energies
from madelung.numpy import EwaldParameters

__all__ = [
    "EwaldParameters",
    "estimate_ewald_parameters",
    "ewald_real_space",
    "ewald_reciprocal_space",
    "ewald_summation",
    "generate_miller_indices",
]

# An array, or a tuple of arrays: with a union type every caller would have to say which.
Result = Any

# By whether the energies are those of systems.
_REAL = (Energies("ewald_real_space"), Energies("ewald_real_space_total"))
_RECIPROCAL = (Energies("ewald_reciprocal_space"), Energies("ewald_reciprocal_space_total"))
_SUM = (Energies("ewald_summation"), Energies("ewald_summation_total"))

# Bits of the first op, for all six: their differentiable arguments are common.
_FORCES, _CHARGE_GRADIENTS, _VIRIAL = (_REAL[0].bit[name] for name in ("positions", "charges", "strain"))


def ewald_real_space(
    positions: Any,
    charges: Any,
    cell: Any,
    alpha: Any,
    *,
    neighbor_list: Any = None,
    neighbor_ptr: Any = None,
    neighbor_shifts: Any = None,
    neighbor_matrix: Any = None,
    neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None,
    half_fill: bool = False,
    cutoff: float | None = None,
    batch_idx: Any = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_charge_gradients: bool = False,
    compute_virial: bool = False,
    hybrid_forces: bool = False,
) -> Result:
    """The real-space part of an Ewald sum: ½ Σ q_i q_j erfc(αr)/r over pairs closer than `cutoff`.

    Args:
        positions, charges, cell, batch_idx: as for `ewald_summation`.
        alpha: splitting parameter in 1/L, one for all systems or (B,).
        neighbor_list, neighbor_ptr, neighbor_shifts, neighbor_matrix, neighbor_matrix_shifts, fill_value, half_fill:
            as for `ewald_summation`.
        cutoff: in L. May be left out where a list is given: then all its pairs count.
        prefactor, energy_reduction, compute_forces, compute_charge_gradients, compute_virial, hybrid_forces: as for
            `ewald_summation`.

    Returns:
        As `ewald_summation`.

    Raises:
        TypeError, ValueError: As `ewald_summation`.
    """
    system = _System(positions, charges, cell, batch_idx)
    split = given.splitting(alpha, system.positions, system.count)
    reach = None if cutoff is None else given.static("cutoff", cutoff)
    pairs = system.pairs(
        neighbor_list,
        neighbor_ptr,
        neighbor_shifts,
        neighbor_matrix,
        neighbor_matrix_shifts,
        fill_value,
        half_fill,
        reach,
    )
    flat = (*system.reals(split, prefactor), *pairs, FULL, check.UNBOUNDED if reach is None else reach)
    wanted = (energy_reduction, compute_forces, compute_charge_gradients, compute_virial, hybrid_forces)
    return _run(_REAL, flat, system, *wanted)


def ewald_reciprocal_space(
    positions: Any,
    charges: Any,
    cell: Any,
    alpha: Any,
    k_cutoff: Any = None,
    *,
    miller_indices: Any = None,
    miller_batch_idx: Any = None,
    batch_idx: Any = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_charge_gradients: bool = False,
    compute_virial: bool = False,
    hybrid_forces: bool = False,
) -> Result:
    """The reciprocal part of an Ewald sum, over 0 < |k| ≤ `k_cutoff`.

    The self term −α/√π Σq² and the uniform background −πQ²/(2α²V) of a charged cell are part of it.

    Args:
        positions, charges, cell, batch_idx: as for `ewald_summation`.
        alpha: splitting parameter in 1/L, one for all systems or (B,).
        k_cutoff: in radians per L, one for all systems or (B,).
        miller_indices, miller_batch_idx: in place of `k_cutoff`, see `ewald_summation`.
        prefactor, energy_reduction, compute_forces, compute_charge_gradients, compute_virial, hybrid_forces: as for
            `ewald_summation`.

    Returns:
        As `ewald_summation`.

    Raises:
        TypeError, ValueError: As `ewald_summation`.
    """
    system = _System(positions, charges, cell, batch_idx)
    split = given.splitting(alpha, system.positions, system.count)
    waves = system.waves(k_cutoff, miller_indices, miller_batch_idx)
    wanted = (energy_reduction, compute_forces, compute_charge_gradients, compute_virial, hybrid_forces)
    return _run(_RECIPROCAL, (*system.reals(split, prefactor), *waves), system, *wanted)


def ewald_summation(
    positions: Any,
    charges: Any,
    cell: Any,
    alpha: Any = None,
    *,
    k_cutoff: Any = None,
    cutoff: float | None = None,
    miller_indices: Any = None,
    miller_batch_idx: Any = None,
    neighbor_list: Any = None,
    neighbor_ptr: Any = None,
    neighbor_shifts: Any = None,
    neighbor_matrix: Any = None,
    neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None,
    half_fill: bool = False,
    accuracy: float = 1e-6,
    pbc: Any = None,
    batch_idx: Any = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_charge_gradients: bool = False,
    compute_virial: bool = False,
    hybrid_forces: bool = False,
) -> Result:
    """The Coulomb energy of periodic point charges, by Ewald's sum (Ann. Phys. 369, 253 (1921)).

    A charged cell gets a uniform background. Those of `alpha`, `cutoff` and `k_cutoff` that are None are chosen for
    `accuracy` (see `estimate_ewald_parameters`).

    Energies are differentiable twice in positions, charges, cell and alpha; forces, charge gradients and virials once
    more; in every mode of JAX. Under `jit`, `vmap`, `scan` and `shard_map` no size may depend on a value: there the
    list (with its `neighbor_ptr`, see `neighbor_list` and `NeighborList`), `cutoff`, `alpha` and `miller_indices` are
    given. Gradients outside of `jit` need none of that.

    Args:
        positions: (N, 3), float32 or float64.
        charges: (N,)
        cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness.
        alpha: splitting parameter in 1/L, one for all systems or (B,). The result does not depend on it, but for the
            error that the cutoffs leave.
        k_cutoff: radius of the reciprocal sum, in radians per L, one for all systems or (B,).
        cutoff: radius of the real-space sum, in L, a Python number; needed with a neighbour list.
        miller_indices, miller_batch_idx: in place of `k_cutoff` the wave vectors themselves, (K, 3), and the system of
            each, (K,), sorted, as `generate_miller_indices` returns them; the latter may be left out for one system.
        neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than
            the cutoff do not count, so a list with a skin does. Without a list the call builds one. A list that has
            overflown its capacity makes every result NaN.
        neighbor_matrix, neighbor_matrix_shifts, fill_value: those pairs as a matrix; not under `jit`.
        half_fill: whether the list that is given has every pair once; not under `jit`.
        accuracy: target for the RMS force error, in units of q²_rms/(V/N)^(2/3).
        pbc: (3,) or (B, 3) of bool; must be True everywhere.
        batch_idx: (N,), the system of each atom, sorted. None: one system. Under `jit` with a cell for each system.
        prefactor: multiplies energies and every derivative of them; a Python number.
        energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
        compute_forces, compute_charge_gradients, compute_virial: whether these are returned too.
        hybrid_forces: the energy's first derivative by positions and cell is zero and by the charges what it is, so
            that forces (at fixed charges) and what `grad` brings through charges that depend on the positions add up to
            the total force. Nothing is detached: second derivatives are those of the true function.

    Returns:
        The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q
        (N,), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3)), where E is the sum of the
        energies. A single array comes unwrapped, several as a tuple.

    Raises:
        TypeError: For an argument that is no array, or of the wrong dtype.
        ValueError: For a wrong shape or value. What only the kernel can see (two charges on one point, a cell that is
            not finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
    """
    if cutoff is None and (neighbor_list is not None or neighbor_matrix is not None):
        check.refuse("cutoff", "the cutoff that the neighbour list was built for", "None")
    system = _System(positions, charges, cell, batch_idx)
    if pbc is not None:
        check.fully_periodic(given.value("pbc", pbc) if isinstance(pbc, jax.Array) else pbc, system.count)
    if alpha is None or cutoff is None or (k_cutoff is None and miller_indices is None):
        rows = system.parameters(alpha, cutoff, k_cutoff, accuracy)
        cutoff = rows[0][1] if rows else 1.0
        if alpha is None:
            alpha = np.array([row[0] for row in rows])
        if k_cutoff is None and miller_indices is None:
            k_cutoff = [row[2] for row in rows]
    reach = given.static("cutoff", cutoff)
    split = given.splitting(alpha, system.positions, system.count)
    pairs = system.pairs(
        neighbor_list,
        neighbor_ptr,
        neighbor_shifts,
        neighbor_matrix,
        neighbor_matrix_shifts,
        fill_value,
        half_fill,
        reach,
    )
    waves = system.waves(k_cutoff, miller_indices, miller_batch_idx)
    wanted = (energy_reduction, compute_forces, compute_charge_gradients, compute_virial, hybrid_forces)
    return _run(_SUM, (*system.reals(split, prefactor), *pairs, FULL, reach, *waves), system, *wanted)


def estimate_ewald_parameters(
    positions: Any,
    charges: Any,
    cell: Any,
    accuracy: float = 1e-6,
    cutoff: float | None = None,
    *,
    alpha: Any = None,
    k_cutoff: Any = None,
    batch_idx: Any = None,
) -> EwaldParameters:
    """The parameters that `ewald_summation` uses: the cheapest for an accuracy. Not under `jit`.

    As `madelung.numpy.estimate_ewald_parameters`: numbers for one system; for a batch (a cell (B, 3, 3), or
    `batch_idx`) NumPy arrays (B,) of float64, but for the cutoff, which all systems share.

    Args:
        positions, charges, cell, batch_idx: as for `ewald_summation`.
        accuracy: target for the RMS force error, in units of q²_rms/(V/N)^(2/3), from 1e-14 to below 1.
        cutoff, alpha, k_cutoff: those given are kept; the predicted error is that of the result.

    Raises:
        TypeError, ValueError: As `ewald_summation`.
    """
    system = _System(positions, charges, cell, batch_idx).values()
    return _numpy.estimate_ewald_parameters(
        system.positions,
        system.charges,
        system.cell,
        accuracy,
        cutoff,
        alpha=given.value("alpha", alpha) if isinstance(alpha, jax.Array) else alpha,
        k_cutoff=given.value("k_cutoff", k_cutoff) if isinstance(k_cutoff, jax.Array) else k_cutoff,
        batch_idx=system.groups.batch_idx,
    )


def generate_miller_indices(cell: Any, k_cutoff: Any) -> tuple[jax.Array, jax.Array]:
    """The wave vectors k = m · B with 0 < |k| ≤ `k_cutoff`, one of each two ±k, where B = 2π (cell⁻¹)ᵀ.

    For calls under `jit`, and for cells that change so little that the set may stay. Not under `jit` itself.

    Args:
        cell: (3, 3) or (B, 3, 3), rows are lattice vectors.
        k_cutoff: in radians per L, one for all systems or (B,).

    Returns:
        `miller_indices` (K, 3) and `miller_batch_idx` (K,), the system of each, int32.

    Raises:
        TypeError, ValueError: For a cell that is singular or no array, and cutoffs that are not above zero.
    """
    h = given.value("cell", given.cells(cell, None)).reshape(-1, 3, 3)
    return _waves_of(h, given.numbers("k_cutoff", k_cutoff, len(h)), cell)


class _System:
    """The charges of a call: shapes and dtypes checked."""

    def __init__(self, positions: Any, charges: Any, cell: Any, batch_idx: Any) -> None:
        self.positions = r = given.reals("positions", positions, ("N", 3))
        self.charges = given.reals("charges", charges, (len(r),), r)
        self.cell = h = given.cells(cell, r)
        self.idx = None if batch_idx is None else given.integers("batch_idx", batch_idx, (len(r),))
        self.is_single = h.ndim == 2 and batch_idx is None
        self.is_traced = given.is_traced(r, charges, h, self.idx)
        # On a device the op checks values, and records errors: `madelung.check_device`.
        if not self.is_traced and not given.is_remote(r, charges, h, self.idx):
            self.values()
        if h.ndim == 3:
            self.count = len(h)
            if self.idx is None and self.count != 1:
                check.refuse("batch_idx", f"the system of each atom, as there are {self.count} cells", "None")
        elif self.idx is None:
            self.count = 1
        elif given.is_traced(self.idx):
            check.refuse("cell", "one for each system, (B, 3, 3), under `jit` with `batch_idx`", "one for all of them")
        else:
            last = given.value("batch_idx", self.idx[-1:])
            self.count = int(last[0]) + 1 if len(last) else 0

    def values(self) -> check.Charges:
        """The charges as NumPy arrays, values checked."""
        return given.charged(self.positions, self.charges, self.cell, self.idx)

    def parameters(self, alpha: Any, cutoff: Any, k_cutoff: Any, accuracy: Any) -> Any:
        """(alpha, cutoff, k_cutoff, predicted error) of each system."""
        system = self.values()
        split, waves = (
            given.value(name, x) if isinstance(x, jax.Array) else x
            for name, x in (("alpha", alpha), ("k_cutoff", k_cutoff))
        )
        return _native.ewald_parameters(system, check.settings(system.systems, split, cutoff, waves, accuracy))

    def reals(self, alpha: Any, prefactor: Any) -> tuple[Any, ...]:
        """The inputs that all sums begin with."""
        if isinstance(prefactor, jax.core.Tracer):
            check.refuse("prefactor", "a number that is known when the function is traced", "a traced array")
        idx = jnp.zeros(len(self.positions), jnp.int32) if self.idx is None else self.idx
        h = jnp.broadcast_to(self.cell, (self.count, 3, 3))
        no_strain = jnp.zeros(0, self.positions.dtype)
        return self.positions, self.charges, h, alpha, no_strain, idx, check.number("prefactor", prefactor)

    def pairs(
        self, pairs: Any, ptr: Any, shifts: Any, matrix: Any, matrix_shifts: Any, fill: Any, half: Any, cutoff: Any
    ) -> tuple[Any, ...]:
        """Offsets, columns and images of a full list: the one that is given, or a new one."""
        atoms = len(self.positions)
        plain = matrix is None and matrix_shifts is None and fill is None and half is False
        if plain and all(x is not None for x in (pairs, ptr, shifts)):
            pairs = given.integers("neighbor_list", pairs, (2, "P"))
            ptr = given.integers("neighbor_ptr", ptr, (atoms + 1,))
            shifts = given.integers("neighbor_shifts", shifts, (pairs.shape[1], 3))
            if not given.is_traced(pairs, ptr) and not given.is_remote(pairs, ptr):
                _check_rows(given.value("neighbor_list", pairs)[0], given.value("neighbor_ptr", ptr))
            return ptr, pairs[1], shifts
        names = ("neighbor_list", "neighbor_ptr", "neighbor_shifts", "neighbor_matrix", "neighbor_matrix_shifts")
        lists = (pairs, ptr, shifts, matrix, matrix_shifts)
        if given.is_traced(*lists):
            expected = (
                "a full list with `neighbor_ptr` and `neighbor_shifts`, as `neighbor_list` returns it, under `jit`"
            )
            check.refuse("neighbor_list", expected, "another form")
        values = [given.value(name, x) for name, x in zip(names, lists)]
        found = check.neighbors(atoms, *values, fill, half)
        if found is not None:
            return tuple(map(jnp.asarray, _native.full_list(found, atoms)))
        if cutoff is None:
            check.refuse("cutoff", "the radius of the sum, as no neighbour list is given", "None")
        system = self.values()
        h = np.require(system.cell.reshape(-1, 3, 3), np.float64, ["C", "A"])
        options = check.ListOptions(False, "csr", None, None, None, None, False, False)
        return tuple(map(jnp.asarray, _native.neighbor_list(system.positions, cutoff, h, None, system.groups, options)))

    def waves(self, k_cutoff: Any, miller: Any, of: Any) -> tuple[Any, Any]:
        """Miller indices and the system of each."""
        if miller is None:
            if of is not None:
                check.refuse("miller_batch_idx", "it with `miller_indices`", "it without")
            if k_cutoff is None:
                check.refuse("k_cutoff", "the radius of the sum, as no `miller_indices` are given", "None")
            h = given.value("cell", self.cell).reshape(-1, 3, 3)
            h = h if len(h) == self.count else np.repeat(h, self.count, axis=0)
            return _waves_of(h, given.numbers("k_cutoff", k_cutoff, self.count), self.cell)
        if k_cutoff is not None:
            check.refuse("k_cutoff", "it or `miller_indices`", "both")
        miller = given.integers("miller_indices", miller, ("K", 3))
        if of is None:
            if self.count != 1:
                got = "None"
                check.refuse("miller_batch_idx", f"the system of each index, as there are {self.count} systems", got)
            return miller, jnp.zeros(len(miller), jnp.int32)
        return miller, given.integers("miller_batch_idx", of, (len(miller),))


def _check_rows(rows: np.ndarray, ptr: np.ndarray) -> None:
    """Checks that the first row of a list agrees with its offsets; the op finds other errors of either."""
    needed, counts = int(ptr[-1]), np.diff(ptr)
    if needed > len(rows):
        expected = f"room for {needed} pairs (`capacity`), which is what `neighbor_ptr` says"
        check.refuse("neighbor_list", expected, len(rows))
    if ptr[0] != 0 or (counts < 0).any():
        return
    wrong = np.flatnonzero(rows[:needed] != np.repeat(np.arange(len(counts)), counts))
    if len(wrong):
        at = int(wrong[0])
        expected = f"atom {np.searchsorted(ptr, at, side='right') - 1} in pair {at}, as `neighbor_ptr` says"
        check.refuse("neighbor_list", expected, f"atom {rows[at]}")


def _waves_of(cells: Any, k_cutoff: list[float], like: Any) -> tuple[jax.Array, jax.Array]:
    cells = np.require(cells, np.float64, ["C", "A"])
    return given.beside(like, _waves(cells.tobytes(), tuple(k_cutoff)))


# Most runs ask for one cell again and again. The key is the cell's value.
@lru_cache(maxsize=8)
def _waves(cells: bytes, k_cutoff: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    lattice = np.frombuffer(cells).reshape(-1, 3, 3)
    miller, ptr = _native.miller_indices(lattice.copy(), list(k_cutoff))
    return miller, np.repeat(np.arange(len(lattice), dtype=np.int32), np.diff(ptr))


def _run(
    energies: tuple[Energies, Energies],
    flat: tuple[Any, ...],
    system: _System,
    reduction: Any,
    forces: Any,
    charge_gradients: Any,
    virial: Any,
    hybrid: Any,
) -> Result:
    want = _FORCES if check.flag("compute_forces", forces) else 0
    want |= _CHARGE_GRADIENTS if check.flag("compute_charge_gradients", charge_gradients) else 0
    want |= _VIRIAL if check.flag("compute_virial", virial) else 0
    per_system = check.word("energy_reduction", reduction, ("atom", "system")) == "system"
    results = energies[per_system](flat, want, check.flag("hybrid_forces", hybrid))
    if want & _VIRIAL and system.is_single:
        results[-1] = results[-1][0]
    return results[0] if len(results) == 1 else tuple(results)
