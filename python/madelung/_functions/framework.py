"""The adapter of a framework: what bodies of public functions, and calls of a user's kernels, ask of one."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from madelung import _arguments as check
from madelung._functions.requests import Plan, Request, plan_of
from madelung._neighbors import Neighbors

if TYPE_CHECKING:
    from madelung._functions.minima import Form

Result = TypeVar("Result")

# Types of arrays that are searched in float32, as NumPy and JAX name them.
HALF_PRECISION = ("float16", "bfloat16")


def is_half(x: Any) -> bool:
    """Whether something is an array of half precision."""
    dtype = getattr(x, "dtype", None)
    # The names of NumPy's dtypes take microseconds.
    return getattr(dtype, "itemsize", 0) == 2 and str(dtype).removeprefix("torch.") in HALF_PRECISION


class System(Protocol):
    """Charges of a call."""

    @property
    def systems(self) -> int:
        """The number of systems."""
        ...

    @property
    def single(self) -> bool:
        """Whether the call is not batched: one cell (3, 3), and no `batch_idx`."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """A list that a search has found, and its atoms, as `Framework.pair_vectors` takes them."""

    pairs: Any
    ptr: Any
    shifts: Any
    positions: Any
    cell: Any
    batch_idx: Any
    systems: int
    sources: Any = None
    """The points of the pairs, and the system of each; None where these are the atoms."""
    source_batch_idx: Any = None


class Framework(Protocol):
    """Arrays of a framework as inputs of ops, and ops' results as results of functions.

    Calls of a user's kernels ask `reals` and `integers` for all checks, as their ops know no name in Python.
    """

    # For errors: the arrays that a kernel takes.
    kind: str

    def is_own(self, x: Any) -> bool:
        """Whether an object is an array of the framework, as a kernel takes it."""
        ...

    def system(self, positions: Any, charges: Any, cell: Any, batch_idx: Any, name: str = "positions") -> System:
        """The atoms of a call, as the framework's other methods take them; charges may be `check.NO_CHARGES`."""
        ...

    def atoms(self, system: Any) -> tuple[Any, Any, Any]:
        """Inputs of an op that atoms make up: positions, a cell for each system, and the system of each atom."""
        ...

    def op(self, name: str, *inputs: Any) -> tuple[Any, ...]:
        """The results of an op of several: with derivatives where the framework has them."""
        ...

    def search(self, name: str, *inputs: Any) -> tuple[Any, ...]:
        """The results of an op of integers, which has no derivatives."""
        ...

    def counted(self, name: str, *inputs: Any) -> tuple[Any, ...]:
        """Results of a search whose last input is a capacity: below zero, arrays are as long as what it finds."""
        ...

    def widened(self, x: Any, like: Any = None) -> Any:
        """An array of half precision in float32, or in the dtype of another one, with its derivatives; anything else as
        it is."""
        ...

    def under_autocast(self, arrays: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The arguments of a kernel, those in half precision widened where the framework gives it by itself; None where
        there is nothing to widen."""
        ...

    def rounded(self, x: Any, like: Any) -> Any:
        """A result in the precision of an argument of half precision, else as it is: with derivatives where it has
        them."""
        ...

    def default_real(self) -> Any:
        """An empty array of the dtype of reals where no array says one; None for float64."""
        ...

    def in_dtype(self, x: Any, like: Any) -> Any:
        """A result in the dtype of an array: with derivatives where it has them."""
        ...

    def taken(self, x: Any, rows: Any) -> Any:
        """Some rows of an array: with derivatives where it has them."""
        ...

    def at(self, x: Any, rows: Any) -> Any:
        """Rows of an array as `taken`, and the last one for a number beyond it."""
        ...

    def indices(self, values: Any, like: Any) -> Any:
        """An input of int32 beside another one, from one of NumPy."""
        ...

    def flags(self, x: Any) -> Any:
        """Truths from integers that are not zero."""
        ...

    def outputs(self, given: tuple[Any, ...]) -> Any:
        """The arguments that say which results a call returns, checked, as `energies` takes them."""
        ...

    def no_cell(self, positions: Any, name: str = "positions") -> Any:
        """A cell (3, 3) for atoms without periodic axes, which no result depends on."""
        ...

    def opened(self, system: Any, pbc: Any, own: tuple[float, float]) -> tuple[Any, Any]:
        """Atoms whose systems have a cell (`no_cell`) where they are not periodic, and a number (B,), the first one for
        those, the second one for periodic systems. Without `pbc` systems are periodic whose cell is not zero."""
        ...

    def channels(self, charges: Any) -> Sequence[Any]:
        """The columns of charges (N, C), or charges (N,) alone."""
        ...

    def added(self, arrays: Sequence[Any]) -> Any:
        """The sum of results, in their order: with derivatives where they have them."""
        ...

    def stacked(self, arrays: Sequence[Any], axis: int = 1) -> Any:
        """Results side by side along a new axis, as columns: with derivatives where they have them."""
        ...

    def joined(self, arrays: Sequence[Any]) -> Any:
        """Results one after the other along their first axis: with derivatives where they have them."""
        ...

    def reals(
        self, name: str, x: Any, shape: Sequence[int | str], like: Any, other: str | None = None, exact: bool = False
    ) -> Any:
        """An array of real numbers beside another one and of its dtype: with derivatives where it has them. `other`:
        that one's name, in a call of a kernel; None: it is the positions, and an op may check the rest. `exact`: or of
        integers."""
        ...

    def full(self, shape: Sequence[Any], x: float, like: Any) -> Any:
        """An array filled with a number, beside another one and of its dtype."""
        ...

    def absent(self, like: Any) -> Any:
        """The array that stands for zero."""
        ...

    def per_system(self, name: str, x: Any, system: Any, signed: bool = False) -> Any:
        """A number for each system, (B,), of the positions' dtype: with derivatives where it has them. Positive, or
        `signed`, of any sign."""
        ...

    def distance(self, name: str, x: Any) -> float | None:
        """A positive number of the host, such as a distance, or None."""
        ...

    def integers(self, name: str, x: Any, shape: Sequence[int | str], by_name: bool = False, wide: bool = False) -> Any:
        """An array of integers. `by_name`: of a call of a kernel; else an op may check it. `wide`: of 64 bits."""
        ...

    def integer_list(self, values: Sequence[int]) -> Any:
        """Integers of the host, as an input of an op."""
        ...

    def kept(self, make: Callable[..., tuple[Any, ...]], key: tuple[Any, ...], like: Any) -> tuple[Any, ...]:
        """Results of a function of arguments that can be hashed, its arrays as inputs of the dtype of another one: kept
        for later calls."""
        ...

    def axes(self, name: str, x: Any, system: Any) -> Any:
        """The periodic axes of each system as an input of int32 (B, 3)."""
        ...

    def one_system(self, like: Any, rows: Any) -> Any:
        """The batch index, beside another array, of so many rows of a single system: zeros."""
        ...

    def segments(self, arrays: dict[str, Any], segment_idx: Any, num_segments: Any) -> tuple[list[Any], Any, Any]:
        """Arrays of one shape and dtype, with derivatives where they have them, the segment of each of their rows, and
        the number of segments."""
        ...

    def transposed(self, x: Any, shape: tuple[Any, Any]) -> Any:
        """A table of so many rows and columns, transposed and flat: with derivatives where it has them."""
        ...

    def apart(self, idx: Any, columns: Any, segments: Any) -> Any:
        """The segments of a transposed table, where each column has segments of its own."""
        ...

    def listed(
        self, system: Any, lists: tuple[Any, ...], cutoff: float | None, own: bool = False
    ) -> tuple[Any, ...] | None:
        """Inputs of an op that make up the full list, up to a cutoff, that the caller gives; None without one.

        `own`: the call has found it.
        """
        ...

    def waves(self, cell: Any, k_cutoff: Sequence[float], systems: int) -> tuple[Any, Any]:
        """Miller indices up to a radius for each system, and the system of each."""
        ...

    def energies(self, op: str, system: Any, reals: tuple[Any, ...], rest: tuple[Any, ...], wanted: Any) -> Any:
        """The results of an op of energies, or of its twin `…_total` for those of systems.

        Its inputs are those of the system (positions, charges if it has any, cell), `reals`, the strain, the batch, the
        prefactor and `rest`.
        """
        ...

    def energies_along(
        self,
        op: str,
        system: Any,
        reals: tuple[Any, ...],
        rest: tuple[Any, ...],
        prefactor: Any,
        *along: dict[str, Any],
    ) -> Any:
        """Derivatives of the energies of atoms along one direction, or along two: each has arrays for some of the op's
        inputs, by their names. The other arguments are those of `energies`."""
        ...

    def minimum(self, form: Form, slopes: Any, start: Any, arrays: tuple[Any, ...]) -> Any:
        """The charges q of the least slopes·q + ½ q A q, from a start, where A depends on some arrays. By the implicit
        function theorem they have two derivatives where the framework has them. Where values are not there, charges
        are NaN of systems without a minimum; else these are an error."""
        ...

    def where(self, systems: Any, value: Any, x: Any) -> Any:
        """An array of systems with a value in the rows of some of them: with derivatives where it has them."""
        ...

    def find_neighbors(
        self, positions: Any, cutoff: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any, form: Any
    ) -> Neighbors:
        """All pairs closer than a cutoff, in the form that is fastest or in a given one."""
        ...

    def neighbor_list(
        self,
        positions: Any,
        cutoff: Any,
        cell: Any,
        pbc: Any,
        batch_idx: Any,
        batch_ptr: Any,
        chosen: Any,
        options: Any,
    ) -> tuple[Any, ...]:
        """A neighbour list of the pairs that are `lists.Chosen`; `options` are those of `check.list_options`."""
        ...

    rounds: bool
    """Whether results can have another dtype than that of an op."""

    keeps_room: bool
    """Whether the arrays of a list with a capacity have that length."""

    def numbers(self, values: Any, like: Any) -> Any:
        """An input of real numbers beside another one, from one of NumPy."""
        ...

    def listing(self, arrays: tuple[Any, ...], options: Any) -> tuple[Any, ...]:
        """The results for a list, from its arrays."""
        ...

    def pair_inputs(self, found: Found, kind: int) -> tuple[Any, ...]:
        """Inputs of an op of pairs: positions, a cell for each system, the system of each atom, and the list."""
        ...

    def searched(
        self, positions: Any, cutoff: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any, options: Any
    ) -> Found:
        """The pairs of a neighbour list, within the limits of the options: those of its form are checked."""
        ...

    def pair_vectors(self, found: Found, kind: int) -> tuple[Any, Any]:
        """The vectors of pairs and their lengths: with derivatives where the framework has them."""
        ...

    def pair_differences(self, found: Found, kind: int) -> Any:
        """The vectors of pairs, as `pair_vectors`."""
        ...

    def places(self, rows: Any, ptr: Any, width: int) -> Any:
        """The places of pairs in a matrix of so many columns, flat; behind the matrix for those that have none."""
        ...

    def spread(self, x: Any, at: Any, atoms: int, width: int, fill: int = 0) -> Any:
        """An array (P, …) in the places of a matrix (N, width, …)."""
        ...

    def values(self, positions: Any, charges: Any, cell: Any, batch_idx: Any) -> check.Charges:
        """Charges as arrays of NumPy."""
        ...

    def value(self, name: str, x: Any) -> Any:
        """An array as one of NumPy; anything else as it is."""
        ...

    def has_no_value(self, x: Any) -> bool:
        """Whether it is an array of a graph or a transform."""
        ...

    def is_readable(self, *given: Any) -> bool:
        """Whether the values of all arrays are there without waiting for a device or leaving a graph."""
        ...

    def is_same(self, known: Any, x: Any) -> bool:
        """Whether two arrays are known to be equal, without waiting for a device; where that is not known, no."""
        ...

    def is_host(self, x: Any) -> bool:
        """Whether an array lies in memory of the host."""
        ...

    def is_differentiated(self, x: Any) -> bool:
        """Whether derivatives by an array that has values are taken, which a number read from it would lose."""
        ...

    def marked(self, index: Any, reference: Any, cell: Any) -> Any:
        """The offsets of a list, with the mark of one that is stale where a cell, (3, 3) or (B, 3, 3), is another one
        than its reference."""
        ...

    def copied(self, x: Any) -> Any:
        """An array that the caller may write to."""
        ...

    def array(self, values: Any, like: Any) -> Any:
        """An array of float64 that is no input of an op, beside another one, from one of NumPy."""
        ...

    def untraced(self, function: Callable[..., Result], *args: Any) -> Result:
        """The result of a function that reads values, while a graph is traced too."""
        ...

    def whole(self, body: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        """The results of a body of `whole.whole`."""
        ...

    def planned(self, request: Request) -> Plan:
        """The plan of a sum."""
        ...

    # Calls of kernels, and launches into arrays of the caller.

    def run(self, call: Callable[..., Any], flat: Sequence[Any], into: Sequence[Any] = ()) -> Any:
        """Calls a kernel's op with all inputs in order; `into` has arrays for its results, from `room`."""
        ...

    def again(self, call: Callable[..., Any], flat: Sequence[Any], into: Sequence[Any]) -> Any:
        """A call as `run` makes it, of arrays that went to the op as they are in an earlier one; of a launch without
        results."""
        ...

    def without_derivatives(self, function: Callable[[], Result]) -> Result:
        """The result of a function, without derivatives."""
        ...

    def check_output(self, name: str, out: Any, shape: Sequence[int], dtype: Any, like: Any) -> None:
        """Refuses what a result of a shape and dtype, beside another array, cannot be written to."""
        ...

    def room(self, out: Any) -> Any:
        """The array, if a call can write a result to it; None where the result is to be copied."""
        ...

    def overlap(self, out: Any, x: Any) -> bool:
        """Whether an array that passed `check_output` lies in the memory of another one."""
        ...

    def write(self, out: Any, x: Any) -> None:
        """Writes an array to one that passed `check_output`."""
        ...


def with_unit_cells(where: Any, cell: Any, unit: Any, pbc: Any, own: tuple[float, float]) -> tuple[Any, Any]:
    """The cells (B, 3, 3) and numbers (B,) of `Framework.opened`, by a framework's `where`; NaN for systems with some
    periodic axes."""
    axes = (cell != 0.0).any(-1) if pbc is None else pbc.reshape(-1, 3)
    periodic, some = axes.all(-1), axes.any(-1)
    numbers = where(periodic, own[1], where(some, math.nan, own[0]))
    return where(periodic[:, None, None], cell, unit), numbers


# Most runs ask for one cell again and again.
@functools.lru_cache(maxsize=8)
def made_once(make: Callable[..., tuple[Any, ...]], key: tuple[Any, ...], dtype: Any) -> tuple[Any, ...]:
    """The results of `Framework.kept` as arrays of NumPy that nobody writes to."""
    found = tuple(x.astype(dtype) if getattr(x, "dtype", None) == np.float64 else x for x in make(*key))
    for x in found:
        if isinstance(x, np.ndarray):
            x.flags.writeable = False
    return found


class Common:
    """Methods of `Framework` where one has no other: for arrays with the methods of NumPy's, calls that trace no
    graph, and results that never change or that no later call shares."""

    kind = "arrays of NumPy, PyTorch or JAX"
    rounds = keeps_room = True

    @staticmethod
    def integer_list(values: Sequence[int]) -> tuple[int, ...]:
        return tuple(values)

    @staticmethod
    def channels(charges: Any) -> Sequence[Any]:
        if getattr(charges, "ndim", 1) != 2:
            return [charges]
        return [charges[:, c] for c in range(charges.shape[1])]

    @staticmethod
    def added(arrays: Sequence[Any]) -> Any:
        return functools.reduce(operator.add, arrays)

    @staticmethod
    def transposed(x: Any, shape: tuple[Any, Any]) -> Any:
        return x.reshape(shape).T.reshape(-1)

    @staticmethod
    def flags(x: Any) -> Any:
        return x != 0

    @staticmethod
    def widened(x: Any, like: Any = None) -> Any:
        return x.astype(np.float32 if like is None else like.dtype) if is_half(x) else x

    @staticmethod
    def under_autocast(arrays: tuple[Any, ...]) -> tuple[Any, ...] | None:
        return None

    @classmethod
    def rounded(cls, x: Any, like: Any) -> Any:
        return cls.in_dtype(x, like) if is_half(like) else x

    @staticmethod
    def default_real() -> Any:
        return None

    @staticmethod
    def in_dtype(x: Any, like: Any) -> Any:
        return x.astype(like.dtype)

    @staticmethod
    def taken(x: Any, rows: Any) -> Any:
        return x[rows]

    @classmethod
    def of_energies(cls: Any, system: Any, reals: Any, rest: Any, prefactor: float) -> tuple[Any, ...]:
        """The inputs of an op of energies, as those of `energies`, in their order."""
        r, h, idx = cls.atoms(system)
        return *check.inputs(r, system.charges, h), *reals, cls.absent(r), idx, prefactor, *rest

    @staticmethod
    def at(x: Any, rows: Any) -> Any:
        return x.take(rows, axis=0, mode="clip")

    @staticmethod
    def listing(arrays: tuple[Any, ...], options: Any) -> tuple[Any, ...]:
        return arrays

    @staticmethod
    def marked(index: Any, reference: Any, cell: Any) -> Any:
        """See `Framework`; on a device the host does not look at cells."""
        return index

    @staticmethod
    def copied(x: Any) -> Any:
        return x

    @staticmethod
    def array(values: Any, like: Any) -> Any:
        """See `Framework`; stays an array of NumPy."""
        return values

    @staticmethod
    def untraced(function: Callable[..., Result], *args: Any) -> Result:
        return function(*args)

    @classmethod
    def whole(cls, body: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        return body(cls, *given)

    planned = staticmethod(plan_of)

    @staticmethod
    def is_readable(*given: Any) -> bool:
        return True

    @staticmethod
    def is_same(known: Any, x: Any) -> bool:
        return False

    @staticmethod
    def has_no_value(x: Any) -> bool:
        return False

    @staticmethod
    def is_differentiated(x: Any) -> bool:
        return False

    @staticmethod
    def run(call: Callable[..., Any], flat: Sequence[Any], into: Sequence[Any] = ()) -> Any:
        return call(*flat) if all([x is None for x in into]) else call(*flat, into=into)

    @classmethod
    def again(cls, call: Callable[..., Any], flat: Sequence[Any], into: Sequence[Any]) -> Any:
        return cls.run(call, flat, into)

    @staticmethod
    def without_derivatives(function: Callable[[], Result]) -> Result:
        return function()

    @staticmethod
    def room(out: Any) -> Any:
        """See `Framework`; a framework's own calls make their results."""
        return None
