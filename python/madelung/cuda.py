"""Neighbour lists and Ewald sums of arrays in the memory of an NVIDIA GPU, from any library.

The functions of `madelung.numpy` for CuPy, Numba, PyTorch, JAX, and other libraries that speak DLPack or has a
`__cuda_array_interface__`, without PyTorch or JAX being there. Units, signs and words are those of `madelung.numpy`;
results are `Array`s, which those libraries take without a copy.

`positions` say on which device a call runs, whichever is current. Every other array lies there too, or is one that
NumPy takes and is copied there, for which the host waits. Arrays are in row-major order, of float32 or float64 as the
positions, and of int32 or int64.

A call is put on `stream` and waits for nothing but where its documentation says so. The stream waits for those that the
arrays were written on; what is written to them later has to be on one of these streams, or behind a synchronisation.
Errors that only values show (two charges on one point, a list that has passed its capacity) make results NaN or
infinite, and `madelung.check_device` raises them.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung import numpy as _numpy
from madelung._device_arrays import Array, arrays_of, asarray, is_given, part
from madelung._device_neighbors import neighbor_list
from madelung._device_ops import OPS, Op
from madelung._device_system import Arguments, System, waves_of
from madelung._schema import GRADIENT, VALUE
from madelung.numpy import EwaldParameters

__all__ = [
    "Array",
    "EwaldParameters",
    "asarray",
    "call",
    "estimate_ewald_parameters",
    "ewald_real_space",
    "ewald_reciprocal_space",
    "ewald_summation",
    "generate_miller_indices",
    "neighbor_list",
    "release_memory",
]

# An array, or a tuple of arrays: with a union type every caller would have to say which.
Result = Any

# By whether the energies are those of systems.
_REAL = (OPS["ewald_real_space"], OPS["ewald_real_space_total"])
_RECIPROCAL = (OPS["ewald_reciprocal_space"], OPS["ewald_reciprocal_space_total"])
_SUM = (OPS["ewald_summation"], OPS["ewald_summation_total"])


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
    stream: Any = None,
) -> Result:
    """The real-space part of an Ewald sum: ½ Σ q_i q_j erfc(αr)/r over pairs closer than `cutoff`.

    Args:
        positions, charges, cell, batch_idx: as for `ewald_summation`.
        alpha: splitting parameter in 1/L, one for all systems or (B,).
        neighbor_list, neighbor_ptr, neighbor_shifts, neighbor_matrix, neighbor_matrix_shifts, fill_value, half_fill:
            as for `ewald_summation`.
        cutoff: in L. May be left out where a list is given: then all its pairs count.
        prefactor, energy_reduction, compute_forces, compute_charge_gradients, compute_virial, stream: as for
            `ewald_summation`.

    Returns:
        As `ewald_summation`.

    Raises:
        TypeError, ValueError, NotImplementedError: As `ewald_summation`.
    """
    wanted = _Wanted(prefactor, energy_reduction, compute_forces, compute_charge_gradients, compute_virial)
    given = Arguments(
        stream,
        positions=positions,
        charges=charges,
        cell=cell,
        alpha=alpha,
        batch_idx=batch_idx,
        neighbor_list=neighbor_list,
        neighbor_ptr=neighbor_ptr,
        neighbor_shifts=neighbor_shifts,
        neighbor_matrix=neighbor_matrix,
        neighbor_matrix_shifts=neighbor_matrix_shifts,
    )
    system = System(given)
    reach = None if cutoff is None else check.positive("cutoff", cutoff)
    pairs = system.pairs(fill_value, half_fill, reach)
    flat = (*system.reals(given["alpha"], wanted.prefactor), *pairs, check.UNBOUNDED if reach is None else reach)
    return wanted.of(_REAL, flat, system)


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
    stream: Any = None,
) -> Result:
    """The reciprocal part of an Ewald sum, over 0 < |k| ≤ `k_cutoff`.

    The self term −α/√π Σq² and the uniform background −πQ²/(2α²V) of a charged cell are part of it.

    Args:
        positions, charges, cell, batch_idx: as for `ewald_summation`.
        alpha: splitting parameter in 1/L, one for all systems or (B,).
        k_cutoff: in radians per L, one for all systems or (B,). The cell is then read, for which the call waits.
        miller_indices, miller_batch_idx: in place of `k_cutoff`, see `ewald_summation`.
        prefactor, energy_reduction, compute_forces, compute_charge_gradients, compute_virial, stream: as for
            `ewald_summation`.

    Returns:
        As `ewald_summation`.

    Raises:
        TypeError, ValueError, NotImplementedError: As `ewald_summation`.
    """
    wanted = _Wanted(prefactor, energy_reduction, compute_forces, compute_charge_gradients, compute_virial)
    given = Arguments(
        stream,
        positions=positions,
        charges=charges,
        cell=cell,
        alpha=alpha,
        k_cutoff=k_cutoff,
        miller_indices=miller_indices,
        miller_batch_idx=miller_batch_idx,
        batch_idx=batch_idx,
    )
    system = System(given)
    waves = system.waves(given.value("k_cutoff"))
    flat = (*system.reals(given["alpha"], wanted.prefactor), *waves)
    return wanted.of(_RECIPROCAL, flat, system)


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
    stream: Any = None,
) -> Result:
    """The Coulomb energy of periodic point charges, by Ewald's sum (Ann. Phys. 369, 253 (1921)).

    A charged cell gets a uniform background. With `alpha`, `cutoff`, `miller_indices` and a full list with its offsets
    and images nothing is waited for. Those of `alpha`, `cutoff` and `k_cutoff` that are None are chosen for `accuracy`:
    then the call waits for charges and cell and reads them. Without `miller_indices` it reads the cell.

    Args:
        positions: (N, 3), float32 or float64, in the memory of a device.
        charges: (N,)
        cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness. With
            `batch_idx`, a cell (3, 3) makes the call wait.
        alpha: splitting parameter in 1/L, a number for all systems or (B,).
        k_cutoff: radius of the reciprocal sum, in radians per L, one for all systems or (B,).
        cutoff: radius of the real-space sum, in L; needed with a neighbour list.
        miller_indices, miller_batch_idx: in place of `k_cutoff`, the wave vectors (K, 3) and the system of each (K,),
            as `generate_miller_indices` returns them.
        neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than
            the cutoff do not count, so a list with a skin does. Without a list the call makes one, for which it waits.
        neighbor_matrix, neighbor_matrix_shifts, fill_value: those pairs as a matrix. It is read, and made a list on the
            host, as is a list without offsets.
        half_fill: whether the list that is given has every pair once. It is then made full on the host.
        accuracy: target for the RMS force error, in units of q²_rms/(V/N)^(2/3).
        pbc: (3,) or (B, 3) of bool, of NumPy; must be True everywhere.
        batch_idx: (N,), the system of each atom, sorted. None: one system.
        prefactor: multiplies energies and every derivative of them.
        energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
        compute_forces, compute_charge_gradients, compute_virial: whether these are returned too.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        The energies, (N,) or (B,), followed by the requested ones of: forces (N, 3), charge gradients (N,) (the
        potential at each charge), virial ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3)). A single
        array comes unwrapped, several as a tuple.

    Raises:
        TypeError: For an argument that is no array, or of the wrong dtype.
        ValueError: For a wrong shape or value, arrays or a stream of another device, memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    if cutoff is None and (neighbor_list is not None or neighbor_matrix is not None):
        check.refuse("cutoff", "the cutoff that the neighbour list was built for", "None")
    wanted = _Wanted(prefactor, energy_reduction, compute_forces, compute_charge_gradients, compute_virial)
    given = Arguments(
        stream,
        positions=positions,
        charges=charges,
        cell=cell,
        alpha=alpha,
        k_cutoff=k_cutoff,
        miller_indices=miller_indices,
        miller_batch_idx=miller_batch_idx,
        neighbor_list=neighbor_list,
        neighbor_ptr=neighbor_ptr,
        neighbor_shifts=neighbor_shifts,
        neighbor_matrix=neighbor_matrix,
        neighbor_matrix_shifts=neighbor_matrix_shifts,
        batch_idx=batch_idx,
    )
    system = System(given)
    check.fully_periodic(pbc, system.count)
    split, waves, reach = given["alpha"], given.value("k_cutoff"), cutoff
    if split is None or reach is None or (waves is None and miller_indices is None):
        rows = system.parameters(given.value("alpha"), cutoff, waves, accuracy)
        reach = rows[0][1] if rows else 1.0
        if split is None:
            split = np.array([row[0] for row in rows])
        if waves is None and miller_indices is None:
            waves = [row[2] for row in rows]
    reach = check.positive("cutoff", reach)
    pairs, waves = system.pairs(fill_value, half_fill, reach), system.waves(waves)
    flat = (*system.reals(split, wanted.prefactor), *pairs, reach, *waves)
    return wanted.of(_SUM, flat, system)


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
    """The parameters that `ewald_summation` uses: the cheapest for an accuracy.

    Arguments and results are those of `madelung.numpy.estimate_ewald_parameters`. Arrays on a device are read, for
    which the call waits.
    """
    names = ("positions", "charges", "cell", "alpha", "k_cutoff", "batch_idx")
    given = dict(zip(names, (positions, charges, cell, alpha, k_cutoff, batch_idx)))
    arrays, _ = arrays_of({name: x for name, x in given.items() if is_given(x)}, None)
    values = {**given, **{name: array.numpy() for name, array in arrays.items()}}
    r, q, h = (values.pop(name) for name in names[:3])
    return _numpy.estimate_ewald_parameters(r, q, h, accuracy, cutoff, **values)


def generate_miller_indices(cell: Any, k_cutoff: Any, stream: Any = None) -> tuple[Array, Array]:
    """The wave vectors k = m · B with 0 < |k| ≤ `k_cutoff`, one of each two ±k, where B = 2π (cell⁻¹)ᵀ.

    For calls that shall wait for nothing, and for cells that change so little that the set may stay. Reads the cell.

    Args:
        cell: (3, 3) or (B, 3, 3), in the memory of a device; rows are lattice vectors.
        k_cutoff: in radians per L, one for all systems or (B,).
        stream: as for `ewald_summation`.

    Returns:
        `miller_indices` (K, 3) and `miller_batch_idx` (K,), the system of each, int32.

    Raises:
        TypeError, ValueError: For a cell that is singular or no array, and cutoffs that are not above zero.
    """
    arrays, on = arrays_of({"cell": cell}, stream)
    h = check.cells(arrays["cell"].numpy(), np.empty(0, arrays["cell"].dtype)).reshape(-1, 3, 3)
    return waves_of(h, check.per_system("k_cutoff", k_cutoff, len(h)), on)


def call(name: str, *inputs: Any, cotangents: Any = None, stream: Any = None) -> tuple[Array | None, ...]:
    """Any op of `madelung.ops()`, by its name, with arrays of a device and numbers as its inputs, in their order.

    A structured argument is several inputs: a batch the system of each row; a list of pairs its offsets, columns,
    images and kind (0 full, 1 half, 2 directed); numbers that no array says follow. Nothing is waited for.

    Args:
        name: such as "pair_vectors".
        inputs: arrays are in the memory of one device.
        cotangents: one array, or None for zero, for each output.
        stream: as for `ewald_summation`.

    Returns:
        The outputs; with cotangents the gradients by all differentiable arguments in their place.

    Raises:
        TypeError, ValueError: For an op that there is not, and inputs that are not its own.
    """
    op = OPS.get(name) if isinstance(name, str) else None
    if op is None:
        check.refuse("name", "one of " + ", ".join(OPS), check.described(name))
    if len(inputs) != len(op.inputs):
        expected = ", ".join(i.name for i in op.inputs)
        check.refuse("inputs", f"{len(op.inputs)} of them ({expected})", len(inputs))
    extra = [] if cotangents is None else list(cotangents)
    if cotangents is not None and len(extra) != len(op.outputs):
        check.refuse("cotangents", f"{len(op.outputs)}, one for each output", len(extra))
    given = {op.inputs[n].name: inputs[n] for n in op.tensors}
    for output, x in zip(op.outputs, extra):
        if x is not None:
            given[f"cotangent of {output['name']}"] = x
    arrays, on = arrays_of(given, stream)
    flat = [arrays[i.name] if i.type == "tensor" else _number(i.name, i.type, x) for i, x in zip(op.inputs, inputs)]
    if cotangents is None:
        return tuple(op.run(VALUE, flat, on))
    weights = [arrays.get(f"cotangent of {output['name']}") for output in op.outputs]
    every = (1 << len(op.reals)) - 1
    return tuple(op.run(GRADIENT, flat, on, [*weights, *[None] * len(op.saves)], every))


def release_memory() -> None:
    """Gives the memory that arrays and calls have left back to the driver, which waits for the devices."""
    _native.release_device_memory()


def _number(name: str, kind: str, x: Any) -> float | int:
    return check.integer(name, x) if kind == "int" else check.number(name, x)


class _Wanted:
    """The results that a call returns, and their unit."""

    def __init__(self, prefactor: Any, reduction: Any, forces: Any, charge_gradients: Any, virial: Any) -> None:
        self.prefactor = check.number("prefactor", prefactor)
        self.per_system = check.word("energy_reduction", reduction, ("atom", "system")) == "system"
        flags = {
            "positions": check.flag("compute_forces", forces),
            "charges": check.flag("compute_charge_gradients", charge_gradients),
            "strain": check.flag("compute_virial", virial),
        }
        self.by = [name for name, wanted in flags.items() if wanted]

    def of(self, ops: tuple[Op, Op], flat: tuple[Any, ...], system: System) -> Result:
        """The results, from the op of atoms' or that of systems' energies."""
        op = ops[self.per_system]
        results = op.energies(flat, sum(op.bit[name] for name in self.by), system.given.stream)
        if "strain" in self.by and system.is_single:
            results[-1] = part(results[-1], 0, (3, 3))
        return results[0] if len(results) == 1 else tuple(results)
