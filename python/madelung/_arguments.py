"""Checks of arguments, once, at the edge: each message names the argument, the expected value and the one given.

Checked arrays are contiguous, aligned and in the machine's byte order, so that the compiled part can borrow them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from madelung import _native

Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.int32]

# A cutoff that leaves out no pair of a list: a float32 can hold it, and no pair is as long.
UNBOUNDED = 1e30

# In place of the charges of atoms that have none.
NO_CHARGES: Any = object()

_INT32, _INT64 = np.iinfo(np.int32), np.iinfo(np.int64)
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_NUMBERS = (_F32, _F64, np.dtype(np.int32), np.dtype(np.int64))


@dataclass(frozen=True, slots=True)
class Groups:
    """The systems of the atoms; all None for one system."""

    batch_idx: Ints | None = None
    batch_ptr: Ints | None = None
    systems: int | None = None

    def of(self, atoms: int) -> tuple[Ints, int]:
        """The system of each atom, and the number of systems."""
        if self.batch_idx is not None:
            return self.batch_idx, self.number
        if self.batch_ptr is not None:
            return np.repeat(np.arange(self.number, dtype=np.int32), np.diff(self.batch_ptr)), self.number
        return np.zeros(atoms, np.int32), 1

    @property
    def number(self) -> int:
        """The number of systems."""
        return 1 if self.systems is None else self.systems


@dataclass(frozen=True, slots=True)
class Charges:
    """Point charges in their cells, or atoms without charges."""

    positions: Floats
    charges: Any
    cell: Floats
    groups: Groups

    @property
    def systems(self) -> int:
        """The number of systems."""
        return self.groups.number

    @property
    def single(self) -> bool:
        """Whether the call is not batched."""
        return self.cell.ndim == 2 and self.groups.batch_idx is None


@dataclass(frozen=True, slots=True)
class Neighbors:
    """A neighbour list as COO or as a matrix, with one shift per entry: arrays, or a framework's own."""

    neighbor_list: Any
    neighbor_ptr: Any
    neighbor_matrix: Any
    shifts: Any
    fill_value: int
    half_fill: bool


@dataclass(frozen=True, slots=True)
class Outputs:
    """The results that a call returns, and their unit."""

    prefactor: float
    per_system: bool
    forces: bool
    charge_gradients: bool
    virial: bool
    hybrid: bool
    of_atoms: bool = False
    """Whether the virial is that of each atom."""


class ListOptions(NamedTuple):
    """The kind of a neighbour list, its form, and limits of its size."""

    half_fill: bool
    format: str
    method: str | None
    max_neighbors: int | None
    capacity: int | None
    fill_value: int | None
    distances: bool
    vectors: bool


def refuse(name: str, expected: str, got: Any, kind: type[Exception] = ValueError) -> NoReturn:
    """Raises `kind` in the words of every error of this library."""
    raise kind(f"`{name}`: expected {expected}, got {got}")


# Numbers that set sizes.
NOT_DIFFERENTIATED = "a number, by which there is no gradient (`.detach()`, `jax.lax.stop_gradient`)"

# Names of ops' arguments in errors, and those of the functions.
_NAMES = {
    "`atoms: batch_idx`": "`batch_idx`",
    "`query_batch_idx: batch_idx`": "`query_batch_idx`",
    "`batch_idx: batch_idx`": "`batch_idx`",
    "`waves: batch_idx`": "`miller_batch_idx`",
    "`waves`": "`miller_batch_idx`",
    "`miller`": "`miller_indices`",
    "`pairs: ": "`",
    "`excluded: ": "`exclusions: ",
    "`factors`": "`exclusions`",
    "`pairs`": "`neighbor_list`",
}


def renamed(error: Exception) -> Exception:
    """An op's error in the names of the functions' arguments."""
    text = str(error)
    if "out of memory" in text:
        # What was not given was made from a cutoff.
        return MemoryError(text.replace("`miller`", "`k_cutoff`").replace("`pairs`", "`cutoff`"))
    for of_op, here in _NAMES.items():
        text = text.replace(of_op, here)
    return ValueError(text)


def described(x: Any) -> str:
    """A short description of `x`."""
    if isinstance(x, (np.ndarray, np.generic)):
        return f"{x.dtype} of shape {x.shape}"
    if isinstance(x, (bool, int, float, complex, str)) or x is None:
        return repr(x)
    return type(x).__name__


def any_array(name: str, x: Any) -> npt.NDArray:
    if x is None:
        refuse(name, "an array", "None", TypeError)
    if isinstance(x, np.ma.MaskedArray):
        refuse(name, "an array without a mask", "a masked array", TypeError)
    try:
        return np.asarray(x)
    except Exception as error:
        if getattr(x, "requires_grad", False):
            refuse(name, NOT_DIFFERENTIATED, "a tensor that requires one", TypeError)
        raise ValueError(f"`{name}`: expected an array, got {described(x)} ({error})") from error


def reals(
    name: str, x: Any, shape: Sequence[int | str], like: npt.NDArray | None = None, exact: bool = False
) -> Floats:
    """A float32 or float64 array, of the dtype of `like` where that is given.

    Lists have no dtype of their own: they take that of `like`, or float64, as do integers with `exact`.
    """
    is_usual = type(x) is np.ndarray and x.dtype in (_F64, _F32) and (like is None or x.dtype is like.dtype)
    # Arrays that are read-only too, which `flags.carray` leaves out.
    if is_usual and (flags := x.flags).c_contiguous and flags.aligned:
        fits(name, x, shape)
        return x
    array = any_array(name, x)
    expected = "float32 or float64" if like is None else as_positions(name, like.dtype)
    if array.dtype.kind in ("iu" if exact else "") or (not hasattr(x, "dtype") and array.dtype.kind in "iuf"):
        array = array.astype(np.float64 if like is None else like.dtype)
    kind = array.dtype.newbyteorder("=")
    if kind not in (_F32, _F64) or (like is not None and kind != like.dtype):
        refuse(name, expected, array.dtype, TypeError)
    fits(name, array, shape)
    return np.require(array, kind, ["C", "A"])


def as_positions(name: str, dtype: Any) -> str:
    """Expectation of an array that has another dtype than the positions."""
    return f"{dtype}, as the positions (convert `{name}`)"


def integers(name: str, x: Any, shape: Sequence[int | str], dtype: Any = np.int32) -> Ints:
    """An array of a dtype (int32), from any integers that it can hold."""
    array = any_array(name, x)
    if array.size == 0 and not hasattr(x, "dtype"):
        array = array.astype(dtype)
    if array.dtype.kind not in "iu":
        refuse(name, "integers", array.dtype, TypeError)
    fits(name, array, shape)
    if array.size and array.dtype != dtype:
        range_of = np.iinfo(dtype)
        for extreme in (int(array.min()), int(array.max())):
            if not range_of.min <= extreme <= range_of.max:
                refuse(name, f"integers that {range_of.bits} bits can hold", extreme)
    return np.require(array, dtype, ["C", "A"])


def numbers(name: str, x: Any) -> npt.NDArray:
    """An array of float32, float64, int32 or int64."""
    array = any_array(name, x)
    if array.dtype.newbyteorder("=") not in _NUMBERS:
        refuse(name, "float32, float64, int32 or int64", array.dtype, TypeError)
    return np.require(array, array.dtype.newbyteorder("="), ["C", "A"])


def fits(name: str, array: Any, shape: Sequence[int | str]) -> None:
    """Checks the shape of an array, or a tensor, against one whose letters stand for any length."""
    if array.ndim == len(shape):
        for want, have in zip(shape, array.shape):
            if want != have and not isinstance(want, str):
                break
        else:
            return
    wanted = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    refuse(name, f"shape ({wanted})", tuple(array.shape))


def number(name: str, x: Any) -> float:
    """A finite real number."""
    if type(x) is float and -math.inf < x < math.inf:
        return x
    value = None
    if not isinstance(x, (bool, str, bytes, type(None))):
        array = any_array(name, x)
        if array.ndim == 0 and array.dtype.kind in "iuf":
            value = float(array)
    if value is None:
        refuse(name, "a number", described(x), TypeError)
    if not np.isfinite(value):
        refuse(name, "a finite number", value)
    return value


def positive(name: str, x: Any) -> float:
    """A finite number above zero."""
    value = number(name, x)
    if value <= 0.0:
        refuse(name, "a number above zero", value)
    return value


def per_system(name: str, x: Any, systems: int, signed: bool = False) -> list[float]:
    """A positive number for all systems, or one for each; `signed`: of any sign."""
    array = any_array(name, x)
    if isinstance(x, (bool, str, bytes)) or array.dtype.kind not in "iuf":
        refuse(name, "a number, or one for each system", described(x), TypeError)
    if array.ndim > 1 or (array.ndim == 1 and len(array) not in (1, systems)):
        refuse(name, f"a number, or shape ({systems},)", array.shape)
    return [(number if signed else positive)(name, value) for value in array.reshape(-1)]


def flag(name: str, x: Any) -> bool:
    """True or False."""
    if x is True or x is False:
        return x
    if not isinstance(x, (bool, np.bool_)):
        refuse(name, "True or False", described(x), TypeError)
    return bool(x)


def count(name: str, x: Any) -> int | None:
    """An integer from 0 up, or None."""
    if x is None:
        return None
    value = integer(name, x)
    if value < 0:
        refuse(name, "an integer from 0 up", value)
    return value


def at_least_one(name: str, x: Any) -> int:
    """An integer from 1 up."""
    value = integer(name, x)
    if value < 1:
        refuse(name, "an integer from 1 up", value)
    return value


def integer_list(name: str, x: Any) -> tuple[int, ...]:
    """Integers of the host."""
    if not hasattr(x, "__iter__"):
        refuse(name, "integers", described(x), TypeError)
    return tuple(integer(name, k) for k in x)


def integer(name: str, x: Any, wide: bool = False) -> int:
    """An integer that an int32 can hold; `wide`: an int64."""
    try:
        value = operator.index(x)
    except TypeError:
        value = None
    if value is None or isinstance(x, bool):
        refuse(name, "an integer", described(x), TypeError)
    range_of = _INT64 if wide else _INT32
    if not range_of.min <= value <= range_of.max:
        refuse(name, f"an integer that {range_of.bits} bits can hold", value)
    return value


def word(name: str, x: Any, words: Sequence[str]) -> str:
    """One of `words`."""
    if not (isinstance(x, str) and x in words):
        refuse(name, " or ".join(map(repr, words)), described(x), ValueError if isinstance(x, str) else TypeError)
    return x


def periodic(pbc: Any, name: str = "pbc") -> npt.NDArray[np.bool_] | None:
    """The periodic axes: one flag for all, (3,) or (B, 3), as (1, 3) or (B, 3). Flags may be 0 and 1."""
    if pbc is None:
        return None
    array = any_array(name, pbc)
    if array.dtype.kind in "iu" and np.isin(array, (0, 1)).all():
        array = array.astype(np.bool_)
    if array.dtype != np.bool_:
        got = array.dtype if array.dtype.kind not in "iu" else array.tolist()
        refuse(name, "True or False for each axis", got, TypeError)
    if array.ndim == 0:
        array = np.repeat(array, 3)
    if array.ndim not in (1, 2) or array.shape[-1] != 3:
        refuse(name, "shape (3,) or (B, 3)", array.shape)
    return array.reshape(-1, 3)


def lattices(cells: int | None, axes: Any) -> int | None:
    """The number of systems by cells and periodic axes; None where one of each is for all."""
    found = [n for n in (cells, None if axes is None else len(axes)) if n not in (None, 1)]
    if len(set(found)) == 2:
        refuse("pbc", f"one row for all systems, or one for each of the {found[0]} cells", found[1])
    return found[0] if found else None


# The bits of all axes, and that of cells whose vectors say which are open.
AXES_OF_CELL = 15


def search_axes(axes: Any, cell: Any) -> tuple[Ints, int]:
    """The periodic axes of a search: int32 (B, 3) for each system, or (0, 3) and the bits of those of all.

    Without axes those of the cell, which the fourth bit asks for: vectors that are zero are open axes.
    """
    if axes is not None and cell is None and any([x for row in axes for x in row]):
        refuse("cell", "lattice vectors for the periodic axes", "None")
    if axes is not None and len(axes) != 1:
        return axes.astype(np.int32), 0
    if axes is None:
        return np.zeros((0, 3), np.int32), 0 if cell is None else AXES_OF_CELL
    return np.zeros((0, 3), np.int32), sum(1 << k for k in range(3) if axes[0][k])


def list_options(
    half_fill: Any,
    format: Any,
    method: Any,
    max_neighbors: Any,
    capacity: Any,
    fill_value: Any,
    return_distances: Any,
    return_vectors: Any,
) -> ListOptions:
    """The options of a neighbour list, checked."""
    form = word("format", format, ("coo", "csr", "matrix"))
    fill = None if fill_value is None else integer("fill_value", fill_value)
    if fill is not None and form != "matrix":
        refuse("fill_value", "it with the format 'matrix' only", repr(form))
    return ListOptions(
        half_fill=flag("half_fill", half_fill),
        format=form,
        method=None if method is None else word("method", method, ("cell_list", "brute_force")),
        max_neighbors=count("max_neighbors", max_neighbors),
        capacity=count("capacity", capacity),
        fill_value=fill,
        distances=flag("return_distances", return_distances),
        vectors=flag("return_vectors", return_vectors),
    )


def list_fits(ptr: Ints, options: ListOptions) -> None:
    """Refuses a list of more pairs than the caller has room for."""
    if options.max_neighbors is not None:
        longest = int(np.diff(ptr).max(initial=0))
        if options.max_neighbors < longest:
            expected = f"at least {longest}, the neighbours of the atom that has most"
            refuse("max_neighbors", expected, options.max_neighbors)
    if options.capacity is not None and options.capacity < ptr[-1]:
        refuse("capacity", f"at least {ptr[-1]}, the number of pairs", options.capacity)


def largest(cutoff: Any) -> Any:
    """The largest of a list of cutoffs, one for each system; anything else as it is."""
    return max(cutoff, default=1.0) if isinstance(cutoff, list) else cutoff


def lattice(cells: Floats) -> Floats:
    """Lattice vectors (B, 3, 3) of float64, as the compiled part takes them."""
    if cells.dtype is not _F64 or not cells.flags.carray:
        cells = np.require(cells, np.float64, ["C", "A"])
    return cells.reshape(-1, 3, 3)


def outputs(given: tuple[Any, ...]) -> Outputs:
    """The results that a call returns, from the arguments of their group."""
    prefactor, reduction, forces, charge_gradients, virial, hybrid = given
    return Outputs(
        prefactor=number("prefactor", prefactor),
        per_system=word("energy_reduction", reduction, ("atom", "system")) == "system",
        forces=flag("compute_forces", forces),
        charge_gradients=flag("compute_charge_gradients", charge_gradients),
        virial=virial_wanted(virial) is True,
        hybrid=flag("hybrid_forces", hybrid),
        of_atoms=virial == "atom",
    )


def virial_wanted(x: Any) -> Any:
    """False, True, or "atom" for the virial of each atom."""
    if isinstance(x, str) and x != "atom":
        refuse("compute_virial", "True or False, or 'atom'", repr(x), TypeError)
    return x if isinstance(x, str) else flag("compute_virial", x)


def cells(cell: Any, like: npt.NDArray | None = None) -> Floats:
    """Lattice vectors (3, 3) or (B, 3, 3)."""
    array = any_array("cell", cell)
    if array.ndim not in (2, 3):
        refuse("cell", "shape (3, 3) or (B, 3, 3)", array.shape)
    return reals("cell", cell, (3, 3) if array.ndim == 2 else ("B", 3, 3), like)


def miller_indices(cells: Floats, k_cutoff: Sequence[float], systems: int) -> tuple[Ints, Ints]:
    """Miller indices up to a radius for each system, and the system of each; one cell serves all systems."""
    h = lattice(cells)
    if len(h) != systems:
        h = np.repeat(h, systems, axis=0)
    indices, ptr = _native.miller_indices(h, k_cutoff)
    return indices, np.repeat(np.arange(systems, dtype=np.int32), np.diff(ptr))


def groups(batch_idx: Any, batch_ptr: Any, atoms: int, systems: int | None) -> Groups:
    """The systems of the atoms, of `systems` systems where their number is known."""
    if batch_idx is None and batch_ptr is None:
        if systems not in (None, 1):
            refuse("batch_idx", f"the system of each atom, as there are {systems} cells", "None")
        return Groups()
    ptr = idx = None
    if batch_ptr is not None:
        ptr = integers("batch_ptr", batch_ptr, ("B+1",))
        if len(ptr) == 0 or ptr[0] != 0 or ptr[-1] != atoms or np.any(ptr[1:] < ptr[:-1]):
            refuse("batch_ptr", f"offsets that rise from 0 to the number of atoms, {atoms}", _short(ptr))
        if systems is not None and len(ptr) != systems + 1:
            refuse("batch_ptr", f"{systems + 1} offsets, as there are {systems} cells", len(ptr))
        systems = len(ptr) - 1
    if batch_idx is not None:
        idx = integers("batch_idx", batch_idx, (atoms,))
        if systems is None:
            systems = named_systems(idx, atoms)
        if ptr is not None and not np.array_equal(idx, np.repeat(np.arange(systems), np.diff(ptr))):
            refuse("batch_idx", "the systems that `batch_ptr` says", _short(idx))
    return Groups(idx, ptr, systems)


def named_systems(batch_idx: Ints, atoms: int) -> int:
    """The number of systems where no cell says it, from all indices or the last one: no more than atoms."""
    if len(batch_idx) == 0:
        return 0
    for extreme in (batch_idx.min(), batch_idx.max()):
        if not 0 <= extreme < atoms:
            expected = f"systems numbered from 0 to below {atoms}, the number of atoms, without a cell for each system"
            refuse("batch_idx", expected, extreme)
    return int(batch_idx[-1]) + 1


def segmented(segment_idx: Any, num_segments: Any, entries: int) -> tuple[Ints, int]:
    """The segment of each entry, sorted, and the number of segments: the one given, or one more than the last index."""
    idx, given = integers("segment_idx", segment_idx, (entries,)), count("num_segments", num_segments)
    if len(idx) == 0:
        return idx, given or 0
    if idx[0] < 0:
        refuse("segment_idx", "segments numbered from 0 up", f"{idx[0]} for entry 0")
    falls = np.flatnonzero(idx[1:] < idx[:-1])
    if len(falls):
        at = int(falls[0])
        expected = "a sorted array (the entries of one segment, then those of the next)"
        refuse("segment_idx", expected, f"{idx[at]} for entry {at}, then {idx[at + 1]} for entry {at + 1}")
    if given is not None and idx[-1] >= given:
        refuse("segment_idx", f"segments below {given} (`num_segments`)", f"{idx[-1]} for entry {len(idx) - 1}")
    return idx, int(idx[-1]) + 1 if given is None else given


def with_features(x: Any) -> tuple[int | str, ...]:
    """The shape of an array whose entries have features of any shape, for `fits`."""
    return ("P", *np.shape(x)[1:])


def alike(name: str, x: Any, other: str, like: Any) -> None:
    """Refuses an array of another shape or dtype than another argument's."""
    if x.dtype != like.dtype:
        refuse(name, f"{like.dtype}, as `{other}`", x.dtype, TypeError)
    if x.shape != like.shape:
        refuse(name, f"shape {tuple(like.shape)}, as `{other}`", tuple(x.shape))


def _short(array: npt.NDArray) -> str:
    return np.array2string(array, threshold=8, edgeitems=3)


def charged(positions: Any, charges: Any, cell: Any, batch_idx: Any, name: str = "positions") -> Charges:
    """Point charges, checked against each other; or atoms with `NO_CHARGES`."""
    r = reals(name, positions, ("N", 3))
    q = charges if charges is NO_CHARGES else reals("charges", charges, (len(r),), r, exact=True)
    h = cells(cell, r)
    return Charges(r, q, h, groups(batch_idx, None, len(r), len(h) if h.ndim == 3 else None))


def inputs(positions: Any, charges: Any, cell: Any) -> tuple[Any, ...]:
    """The first inputs of an op of energies: without charges where the atoms have none."""
    return (positions, cell) if charges is NO_CHARGES else (positions, charges, cell)


def neighbors(
    atoms: int,
    neighbor_list: Any,
    neighbor_ptr: Any,
    neighbor_shifts: Any,
    neighbor_matrix: Any,
    neighbor_matrix_shifts: Any,
    fill_value: Any,
    half_fill: Any,
    integers: Callable[[str, Any, Sequence[int | str]], Any] = integers,
) -> Neighbors | None:
    """The neighbour list of a call, or None where it is given none. `integers` checks one of its arrays."""
    half = flag("half_fill", half_fill)
    fill = atoms if fill_value is None else integer("fill_value", fill_value)
    if neighbor_list is not None and neighbor_matrix is not None:
        refuse("neighbor_matrix", "one form of the list", "`neighbor_list` too")
    if neighbor_list is not None:
        pairs = integers("neighbor_list", neighbor_list, (2, "P"))
        ptr = None if neighbor_ptr is None else integers("neighbor_ptr", neighbor_ptr, (atoms + 1,))
        if neighbor_shifts is None:
            refuse("neighbor_shifts", f"the image of each of the {pairs.shape[1]} pairs", "None")
        shifts = integers("neighbor_shifts", neighbor_shifts, (pairs.shape[1], 3))
        unused = {"neighbor_matrix_shifts": neighbor_matrix_shifts, "fill_value": fill_value}
        found = Neighbors(pairs, ptr, None, shifts, fill, half)
    elif neighbor_matrix is not None:
        matrix = integers("neighbor_matrix", neighbor_matrix, (atoms, "M"))
        if neighbor_matrix_shifts is None:
            refuse("neighbor_matrix_shifts", f"shape {(*matrix.shape, 3)}", "None")
        shifts = integers("neighbor_matrix_shifts", neighbor_matrix_shifts, (*matrix.shape, 3))
        unused = {"neighbor_ptr": neighbor_ptr, "neighbor_shifts": neighbor_shifts}
        found = Neighbors(None, None, matrix, shifts.reshape(-1, 3), fill, half)
    else:
        unused = {
            "neighbor_ptr": neighbor_ptr,
            "neighbor_shifts": neighbor_shifts,
            "neighbor_matrix_shifts": neighbor_matrix_shifts,
            "fill_value": fill_value,
            "half_fill": half or None,
        }
        found = None
    for name, value in unused.items():
        if value is not None:
            refuse(name, "it with the list that it belongs to", "it without")
    return found
