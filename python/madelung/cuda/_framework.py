"""Arrays of CUDA devices behind functions and kernels: shapes and dtypes checked, arrays of the host copied there.

Values are not read unless a docstring says so: the ops check them on the device, and errors wait for
`madelung.check_device`.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung import _neighbors as _found
from madelung._functions import lists
from madelung._functions.bound import refuse_foreign, straight_calls
from madelung._functions.declare import ARRAYS, FUNCTIONS, Parameter
from madelung._functions.framework import Common, made_once, with_unit_cells
from madelung._functions.strains import atomic_virials
from madelung._neighbors import Neighbors
from madelung._schema import FULL, VALUE
from madelung.cuda import _neighbors
from madelung.cuda._arrays import ON_DEVICE, Array, arrays_of, asarray, is_given, part, stream_of
from madelung.cuda._ops import OPS
from madelung.cuda._stream import Stream
from madelung.numpy._framework import Numpy


@dataclass(frozen=True, slots=True)
class System:
    """Charges of a call."""

    positions: Array
    charges: Array
    cell: Array
    """(B, 3, 3)"""
    batch_idx: Array
    systems: int
    single: bool


class Cuda(Stream, Common):
    """The framework of a call of `madelung.cuda`: see `madelung._functions.framework.Framework`."""

    kind, rounds = "arrays in the memory of a CUDA device", False

    @staticmethod
    def is_own(x: Any) -> bool:
        return isinstance(x, Array)

    @staticmethod
    def widened(x: Any, like: Any = None) -> Any:
        """See `Framework`; half precision is refused where it is checked."""
        return x

    def system(self, positions: Any, charges: Any, cell: Any, batch_idx: Any, name: str = "positions") -> System:
        r = self.reals(name, positions, ("N", 3))
        q = charges if charges is check.NO_CHARGES else self.reals("charges", charges, (len(r),), r, exact=True)
        h = self.cells(cell, r)
        idx, systems = self.systems_of(batch_idx, len(r), len(h) if h.ndim == 3 else None)
        # One for all of them, or one for each.
        each = part(h, 0, (systems, 3, 3)) if h.size == 9 * systems else self.repeated(part(h, 0, (3, 3)), systems)
        return System(r, q, each, idx, systems, h.ndim == 2 and batch_idx is None)

    @staticmethod
    def atoms(system: System) -> tuple[Array, Array, Array]:
        return system.positions, system.cell, system.batch_idx

    def op(self, name: str, *inputs: Any) -> tuple[Any, ...]:
        dtype = next(x.dtype for x in inputs if isinstance(x, Array))
        flat = [self.of_systems(x, dtype) if isinstance(x, list) else x for x in inputs]
        return tuple(OPS[name].run(VALUE, flat, self.stream))

    def of_systems(self, x: Any, dtype: np.dtype) -> Array:
        """A number for each system, as `per_system` gives it."""
        if isinstance(x, Array):
            return x
        return self.uploaded(np.array(x, dtype)) if len(set(x)) > 1 else self.constant(len(x), dtype, sum(x[:1]))

    search = counted = op

    @staticmethod
    def flags(x: Array) -> Array:
        """See `Framework`; they stay integers."""
        return x

    def numbers(self, values: Any, like: Any) -> Array:
        return self.uploaded(values.astype(like.dtype))

    def indices(self, values: Any, like: Any) -> Array:
        return self.uploaded(values) if values.size else self.filled(values.shape, np.int32, 0.0)

    @staticmethod
    def per_system(name: str, x: Any, system: System, signed: bool = False) -> Any:
        """See `Framework`; numbers of the host are copied to the device when the op is called."""
        dtype = system.positions.dtype
        if isinstance(x, Array):
            if x.dtype != dtype:
                check.refuse(name, check.as_positions(name, dtype), x.dtype, TypeError)
            if x.shape != (system.systems,) and not (system.systems == 1 and x.shape == ()):
                check.refuse(name, f"shape ({system.systems},), one for each system", x.shape)
            return part(x, 0, (system.systems,))
        values = check.per_system(name, x, system.systems, signed)
        return values * system.systems if len(values) == 1 else values

    @staticmethod
    def distance(name: str, x: Any) -> float | None:
        return None if x is None else check.positive(name, x)

    def no_cell(self, positions: Any, name: str = "positions") -> Array:
        return self.unit(self.reals(name, positions, ("N", 3)).dtype)

    def opened(self, system: System, pbc: Any, own: tuple[float, float]) -> tuple[System, list[float]]:
        """See `Framework`; the cell is read."""
        h = system.cell.numpy()
        cells, numbers = with_unit_cells(
            np.where, h, np.eye(3, dtype=h.dtype), check.periodic(self.value("pbc", pbc)), own
        )
        numbers = np.broadcast_to(numbers, system.systems).tolist()
        return replace(system, cell=self.uploaded(np.ascontiguousarray(cells))), numbers

    def channels(self, charges: Any) -> Sequence[Any]:
        if not isinstance(charges, Array) or charges.ndim != 2:
            return Common.channels(charges)
        rows, sets = charges.shape
        each = self.transposed(charges, charges.shape)
        return [part(each, c * rows, (rows,)) for c in range(sets)]

    def added(self, arrays: Sequence[Array]) -> Array:
        """See `Framework`; added in float64, and rounded once."""
        first = arrays[0]
        if len(arrays) == 1 or not first.size:
            return first
        rows = self.joined([part(x, 0, (1, x.size)) for x in arrays])
        return self.op("segment_sum", rows, self.one_system(rows, len(rows)), 1)[0].reshape(first.shape)

    def stacked(self, arrays: Sequence[Array], axis: int = 1) -> Array:
        shape = arrays[0].shape
        each = self.joined([part(x, 0, (1, *shape)) for x in arrays])
        if axis == 0:
            return each
        return self.transposed(each, each.shape[:2]).reshape((shape[0], len(arrays), *shape[1:]))

    def full(self, shape: Sequence[int], x: float, like: Array) -> Array:
        return self.filled(tuple(shape), like.dtype, x)

    def absent(self, like: Array) -> Array:
        return self.constant(0, like.dtype, 0.0)

    def axes(self, name: str, x: Any, system: System) -> Array:
        """See `Framework`; read, but for integers of each system."""
        x = asarray(x, system.positions.device) if is_given(x) and not isinstance(x, Array) else x
        if isinstance(x, Array) and x.dtype == np.int32 and x.shape == (system.systems, 3):
            return x
        return self.indices(_found.axes_of_systems(name, self.value(name, x), system.systems), system.positions)

    def one_system(self, like: Any, rows: int) -> Array:
        return self.constant(rows, np.int32, 0.0)

    def segments(self, arrays: dict[str, Any], segment_idx: Any, num_segments: Any) -> tuple[list[Any], Any, int]:
        """See `Framework`; without a number of segments the last index is read."""
        checked = [self.reals(name, x, check.with_features(x)) for name, x in arrays.items()]
        for name, x in zip(arrays, checked):
            check.alike(name, x, next(iter(arrays)), checked[0])
        rows = len(checked[0])
        idx, segments = self.integers("segment_idx", segment_idx, (rows,)), check.count("num_segments", num_segments)
        if segments is None:
            last = part(idx, max(rows - 1, 0), (min(rows, 1),)).numpy()
            segments = int(check.integers("segment_idx", last, ("S",))[0]) + 1 if rows else 0
        return checked, idx, segments

    def transposed(self, x: Array, shape: Sequence[int]) -> Array:
        """See `Framework`; elements may be arrays themselves. On the host: no copy on a device leaves out elements."""
        return self.uploaded(x.numpy().reshape(*shape, -1).swapaxes(0, 1).reshape(-1))

    def apart(self, idx: Any, columns: int, segments: int) -> Array:
        """See `Framework`; on the host, as no op adds integers."""
        return self.uploaded(Numpy.apart(idx.numpy(), columns, segments))

    def listed(
        self, system: System, lists: tuple[Any, ...], cutoff: float | None, own: bool = False
    ) -> tuple[Any, ...] | None:
        """See `Framework`; lists that are not full, or without offsets, are made so on the host.

        The cell is not compared with that of neighbours.
        """
        atoms, (neighbors, *lists) = len(system.positions), lists
        if neighbors is not None:
            *arrays, kind = _found.checked(neighbors, atoms, cutoff, lists)
            return *arrays, kind if own else _neighbors.kind_of(*arrays)
        there = [x is not None for x in lists[:5]]
        if there == [True, True, True, False, False] and lists[5] is None and lists[6] is False:
            pairs = self.integers("neighbor_list", lists[0], (2, "P"))
            count = pairs.shape[1]
            shifts = self.integers("neighbor_shifts", lists[2], (count, 3))
            ptr = self.integers("neighbor_ptr", lists[1], (atoms + 1,))
            columns = part(pairs, count, (count,))
            return ptr, columns, shifts, _neighbors.kind_of(ptr, columns, shifts)
        found = check.neighbors(atoms, *(self.value("", x) for x in lists[:5]), *lists[5:])
        if found is None:
            return None
        return (*map(self.uploaded, _native.full_list(found, atoms)), FULL)

    def kept(self, make: Any, key: Any, like: Any) -> tuple[Any, ...]:
        found = made_once(make, key, like.dtype)
        return tuple(self.uploaded(x) if isinstance(x, np.ndarray) else x for x in found)

    def waves(self, cell: Any, k_cutoff: Sequence[float], systems: int) -> tuple[Array, Array]:
        """See `Framework`; reads the cell."""
        h = np.require(check.cells(self.value("cell", cell)), np.float64, ["C", "A"])
        # The stream too, whose memory the arrays lie in.
        key = (h.tobytes(), tuple(k_cutoff), systems, self.stream.device, self.stream.id)
        with _LOCK:
            found = _WAVES.get(key)
        if found is None:
            indices, of = check.miller_indices(h, k_cutoff, systems)
            found = self.uploaded(indices), self.uploaded(of)
            with _LOCK:
                while len(_WAVES) >= _MOST_WAVES:
                    del _WAVES[next(iter(_WAVES))]
                _WAVES[key] = found
        return found

    outputs = staticmethod(check.outputs)

    def energies(self, op: str, system: System, reals: Any, rest: Any, wanted: check.Outputs) -> Any:
        of = OPS[f"{op}_total" if wanted.per_system else op]
        flat = self.of_energies(system, reals, rest, wanted.prefactor)
        results = of.energies(of.wanted(wanted), lambda member, *bits: of.run(member, flat, self.stream, (), *bits))
        if wanted.virial and system.single:
            results[-1] = part(results[-1], 0, (3, 3))
        if wanted.of_atoms:
            results.append(atomic_virials(self, op, system, reals, rest, wanted.prefactor))
        return results[0] if len(results) == 1 else tuple(results)

    def of_energies(self, system: System, reals: Any, rest: Any, prefactor: float) -> tuple[Any, ...]:
        batch = (self.absent(system.positions), system.batch_idx, prefactor)
        atoms = check.inputs(system.positions, system.charges, system.cell)
        return *atoms, *[self.of_systems(x, system.positions.dtype) for x in reals], *batch, *rest

    def energies_along(self, op: str, system: System, reals: Any, rest: Any, prefactor: float, *along: Any) -> Any:
        of, flat = OPS[op], self.of_energies(system, reals, rest, prefactor)
        member, extra = of.tangent(along)
        return of.run(member, flat, self.stream, extra)[0]

    def neighbor_list(self, *given: Any) -> tuple[Array, ...]:
        """See `Framework`; matrices, and lists with a limit for each atom or of some pairs, are made on the host."""
        *arguments, chosen, options = given
        if options.format == "matrix" or options.max_neighbors is not None or chosen != lists.Chosen():
            values = (self.value("", x) for x in arguments)
            found = lists.neighbor_list(Numpy, *values, chosen.of(lambda x: self.value("", x)), options)
            if isinstance(found[0], tuple):
                return tuple(tuple(map(self.uploaded, arrays)) for arrays in found)
            return tuple(map(self.uploaded, found))
        return lists.neighbor_list(self, *given)

    searched, pair_vectors, pair_inputs = _neighbors.searched, _neighbors.pair_vectors, _neighbors.pair_inputs
    pair_differences = _neighbors.pair_differences

    def find_neighbors(self, *given: Any) -> Neighbors:
        return _neighbors.find_neighbors(self, *given)

    def values(self, *charges: Any) -> check.Charges:
        """See `Framework`; waits."""
        return check.charged(*(self.value("", x) for x in charges))

    @staticmethod
    def value(name: str, x: Any) -> Any:
        """See `Framework`; waits for an array of the device."""
        return x.numpy() if isinstance(x, Array) else x

    @staticmethod
    def is_readable(*given: Any) -> bool:
        return False

    is_host = is_readable

    def run(self, call: Callable[..., Any], flat: Sequence[Any], into: Sequence[Any] = ()) -> Any:
        return call(self.stream, *flat, into=into)

    @staticmethod
    def check_output(name: str, out: Any, shape: Sequence[int], dtype: Any, like: Any) -> None:
        if not isinstance(out, Array):
            check.refuse(name, ON_DEVICE, check.described(out), TypeError)
        if out.dtype != dtype:
            check.refuse(name, str(dtype), out.dtype, TypeError)
        check.fits(name, out, shape)
        if out._native.read_only:
            check.refuse(name, "an array that can be written to", "one that is read-only")

    @staticmethod
    def room(out: Array) -> Array:
        return out

    @staticmethod
    def overlap(out: Array, x: Any) -> bool:
        if not isinstance(x, Array) or not out.size or not x.size:
            return False
        (first, behind), (begin, end) = map(_memory, (out, x))
        return first < end and begin < behind


def _memory(x: Array) -> tuple[int, int]:
    """The addresses of an array's first byte and of the one behind its last."""
    return x._native.address, x._native.address + x.size * x.dtype.itemsize


# Most runs ask for one cell again and again. The key has the cell's value.
_WAVES: dict[Any, tuple[Array, Array]] = {}
_MOST_WAVES = 8
_LOCK = threading.Lock()


def call(body: Callable[..., Any], stream: Any, *given: Any) -> Any:
    """A body on a stream, whose arguments in the memory of a device are `Array`s.

    The first of them lies on the device where the call runs.
    """
    straight, first = STRAIGHT.get(body), given[0]
    if straight is not None and isinstance(first, Array):
        found = straight(given, stream_of(stream, first.device))
        if found is not NotImplemented:
            return found
    refuse_foreign("cuda", body, None, given)
    places = _arrays_of(body.__name__)
    arrays = {p.name: given[n] if k is None else given[n][k] for n, k, p in places}
    name, first = next(iter(arrays.items()))
    if not is_given(first):
        check.refuse(name, ON_DEVICE, check.described(first), TypeError)
    there, on = arrays_of({name: x for name, x in arrays.items() if is_given(x)}, stream)
    items: list[Any] = list(given)
    for n, k, p in places:
        x = there.get(p.name, arrays[p.name])
        items[n] = x if k is None else (*items[n][:k], x, *items[n][k + 1 :])
    if straight is not None and any(x is not arrays[name] for name, x in there.items()):
        found = straight(tuple(items), on)
        if found is not NotImplemented:
            return found
    return body(Cuda(on), *items)


STRAIGHT = straight_calls(_native.Plain.of_cuda(Array))


@functools.cache
def _arrays_of(name: str) -> list[tuple[int, int | None, Parameter]]:
    return FUNCTIONS[name].places(lambda p: p.kind in ARRAYS)
