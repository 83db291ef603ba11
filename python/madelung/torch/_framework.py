"""PyTorch behind the public functions, in three modes: eager on the CPU, eager on a CUDA device, and in graphs."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar

import torch

from madelung import _arguments as check
from madelung import _neighbors as _found
from madelung._functions import lists, requests
from madelung._functions.strains import atomic_virials
from madelung._schema import FULL
from madelung.torch import _inputs as given
from madelung.torch import _ops, _search
from madelung.torch._autograd import _transforms_active
from madelung.torch._calls import Calls
from madelung.torch._energies import Energies
from madelung.torch._inputs import System
from madelung.torch._lists import columns_of, is_checked, is_made_in, is_same
from madelung.torch._specialised import not_compiled
from madelung.torch._whole import in_graph

Given, Result = ParamSpec("Given"), TypeVar("Result")

is_compiling = torch.compiler.is_compiling

# By this name, unchanged from 2.7 to 2.15, graphs hold the result of a function as a constant
# (`torch.compiler.assume_constant_result`, which imports the compiler).
requests.constant_plan._dynamo_marked_constant = True  # type: ignore[attr-defined]

# Ops of energies per atom, with their twins of energies per system.
ENERGIES = {name: (Energies(name), Energies(f"{name}_total")) for name in _ops.OPS if f"{name}_total" in _ops.OPS}

_NO_STRAIN = torch.empty(0, device="cpu")


@lru_cache(maxsize=64)
def _constant(value: float, dtype: torch.dtype, systems: int) -> torch.Tensor:
    with given.plain():
        return torch.full((systems,), value, dtype=dtype, device="cpu")


@lru_cache(maxsize=64)
def _zeros(n: int) -> torch.Tensor:
    with given.plain():
        return torch.zeros(n, dtype=torch.int32, device="cpu")


def _is_fake(x: torch.Tensor) -> bool:
    """Whether the tensor has no memory outside of graphs: tensors derived from it are not to be kept."""
    return type(x) is not torch.Tensor and hasattr(x, "fake_mode")


def _is_passing(like: torch.Tensor) -> bool:
    """Whether tensors made beside one of a device belong to a graph that is captured, or have no memory."""
    return _is_fake(like) or given.is_captured(like)


# For each list in COO form that was checked: its state, and its columns, by identity. Tensors are held weakly, and
# views are kept, so that a list on memory that others write to is read in its present state.
_known: dict[int, tuple[Any, ...]] = {}


class _Mode(Calls):
    """The part that modes share: see `madelung._functions.framework.Framework`."""

    # Whether sizes of tensors are numbers.
    reads_sizes = True

    neighbor_list, pair_vectors = classmethod(lists.neighbor_list), staticmethod(_search.pair_vectors)
    pair_differences, pair_inputs = staticmethod(_search.pair_differences), staticmethod(_search.pair_inputs)
    places, spread = staticmethod(_search.places), staticmethod(_search.spread)

    @classmethod
    def system(cls, positions: Any, charges: Any, cell: Any, batch_idx: Any, name: str = "positions") -> System:
        if charges is not check.NO_CHARGES and charges.dtype != positions.dtype:
            charges = given.exact(charges, positions)
        if batch_idx is None:
            single = cell.dim() == 2
            if not single and cell.shape[0] != 1:
                check.refuse("batch_idx", f"the system of each atom, as there are {cell.shape[0]} cells", "None")
            lattice, atoms = cell.unsqueeze(0) if single else cell, cls.one_system(positions, positions.shape[0])
            return System(positions, charges, lattice, atoms, 1, single, cell, None)
        if cell.dim() == 3:
            return System(positions, charges, cell, batch_idx, cell.shape[0], False, cell, batch_idx)
        systems = cls.systems(positions, charges, cell, batch_idx)
        return System(positions, charges, cell.expand(systems, 3, 3), batch_idx, systems, False, cell, batch_idx)

    @classmethod
    def per_system(cls, name: str, x: Any, system: System, signed: bool = False) -> torch.Tensor:
        positions, systems = system.positions, system.systems
        if type(x) is float or type(x) is int:
            return cls.constant(x, positions, systems)
        if isinstance(x, torch.Tensor):
            if not x.is_floating_point() or x.dim() > 1 or (x.dim() and x.shape[0] not in (1, systems)):
                check.per_system(name, given.view(name, x), systems, signed)
            return x.to(positions.dtype).expand(systems)
        values = check.per_system(name, x, systems, signed)
        if len(values) == 1:
            return cls.constant(values[0], positions, systems)
        return cls.constants(tuple(values), positions)

    @staticmethod
    def no_cell(positions: Any, name: str = "positions") -> torch.Tensor:
        return torch.eye(3, dtype=positions.dtype, device=positions.device)

    @staticmethod
    def distance(name: str, x: Any) -> float | None:
        return x if x is None or type(x) is float else check.positive(name, x)

    @classmethod
    def listed(
        cls, system: System, lists: tuple[Any, ...], cutoff: float | None, own: bool = False
    ) -> tuple[Any, ...] | None:
        neighbors, pairs, ptr, shifts, matrix, matrix_shifts, fill_value, half_fill = lists
        if neighbors is not None:
            return cls.found(neighbors, system, cutoff, lists[1:], own)
        whole = pairs is not None and ptr is not None and shifts is not None
        if whole and matrix is matrix_shifts is fill_value is None and half_fill is False:
            return cls.coo(pairs, ptr, shifts, system.positions)
        full = cls.converted(system.positions, *lists[1:])
        return None if full is None else (*full, FULL)

    @classmethod
    def found(cls, neighbors: Any, system: System, cutoff: float | None, others: Any, own: bool) -> tuple[Any, ...]:
        """The inputs of an op that make up neighbours. Those of another cell are marked as stale."""
        atoms = system.positions.shape[0] if cls.reads_sizes else getattr(neighbors, "atoms", None)
        index, columns, images, kind = _found.checked(neighbors, atoms, cutoff, others)
        if own:
            return index, columns, images, kind
        # Others may have written to the arrays of a device, where the host does not look at them.
        is_checked = columns.is_cpu or cls.is_checked((index, columns, images), FULL, atoms)
        if not cls.is_made_in(neighbors.cell, system.cell):
            index = cls.marked(index, neighbors.cell, system.lattice)
        return index, columns, images, kind if is_checked else FULL

    @staticmethod
    def marked(index: torch.Tensor, reference: Any, cell: torch.Tensor) -> torch.Tensor:
        stale = _found.differs(reference, cell.detach().reshape(-1, 3, 3))
        # Of a list that is checked ops look at the mark alone.
        return index if stale is False else torch.cat([torch.where(stale, _found.STALE, index[:1]), index[1:]])

    @staticmethod
    def is_checked(arrays: tuple[Any, ...], kind: int, atoms: int) -> bool:
        """Whether a list on a device is known to be one."""
        return False

    @staticmethod
    def is_made_in(reference: Any, cell: torch.Tensor) -> bool:
        """Whether a list is known to be one of this cell."""
        return False

    @classmethod
    def energies(cls, op: str, system: System, reals: Any, rest: Any, outputs: Any) -> Any:
        prefactor, reduction, forces, charge_gradients, virial, hybrid = outputs
        per_system = reduction == "system"
        if not per_system and reduction != "atom":
            check.outputs(outputs)
        e = ENERGIES[op][int(per_system)]
        by_positions, by_charges, by_strain = e.wanted_bits
        want = by_positions if _flag("compute_forces", forces) else 0
        want |= by_charges if _flag("compute_charge_gradients", charge_gradients) else 0
        of_atoms = virial == "atom"
        want |= by_strain if not of_atoms and _flag("compute_virial", virial) else 0
        hybrid = _flag("hybrid_forces", hybrid)
        unit = prefactor if type(prefactor) is float else check.number("prefactor", prefactor)
        found = cls.evaluated(e, cls.of_energies(system, reals, rest, unit), want, hybrid, system.single)
        if not of_atoms:
            return found
        virials = atomic_virials(cls, op, system, reals, rest, unit)
        return (*found, virials) if isinstance(found, tuple) else (found, virials)

    @classmethod
    def energies_along(cls, op: str, system: System, reals: Any, rest: Any, prefactor: float, *along: Any) -> Any:
        return ENERGIES[op][0].along(cls.of_energies(system, reals, rest, prefactor), along)

    @classmethod
    def evaluated(cls, e: Energies, flat: Any, want: int, hybrid: bool, single: bool) -> Any:
        """The results of a function of energies; `single`: of one system that is no batch."""
        if not (want or hybrid):
            return cls.plain(e, flat)
        results = cls.with_gradients(e, flat, want, hybrid)
        if single and want & e.wanted_bits[2]:
            results = (*results[:-1], results[-1][0])
        return results[0] if len(results) == 1 else tuple(results)

    @staticmethod
    def plain(e: Energies, flat: Any) -> torch.Tensor:
        """The energies alone."""
        return e.value(*flat)

    @staticmethod
    def with_gradients(e: Energies, flat: Any, want: int, hybrid: bool) -> tuple[torch.Tensor, ...]:
        """The energies and the gradients of `want`."""
        return e.eager(flat, want, hybrid)

    values = staticmethod(given.charged)

    @staticmethod
    def outputs(given: tuple[Any, ...]) -> tuple[Any, ...]:
        """See `Framework`; checked when they are read."""
        return given

    @staticmethod
    def value(name: str, x: Any) -> Any:
        return given.view(name, x) if isinstance(x, torch.Tensor) else x

    @staticmethod
    def copied(x: torch.Tensor) -> torch.Tensor:
        """See `Framework`; others are kept for later calls."""
        return x.clone()

    @staticmethod
    def array(values: Any, like: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(values.copy()).to(like.device)


def _flag(name: str, x: Any) -> bool:
    return x if x is True or x is False else check.flag(name, x)


_any_system, _any_per_system, _any_energies = (
    getattr(_Mode, name).__func__ for name in ("system", "per_system", "energies")
)
PLAIN = {name: of_atoms.value for name, (of_atoms, _) in ENERGIES.items()}


class Eager(_Mode):
    """The mode of calls outside of graphs, on the CPU. Constants are made once."""

    converted = staticmethod(given.converted)
    waves, systems = staticmethod(given.waves), staticmethod(given.systems_of)
    searched = staticmethod(_search.searched_on_host)
    find_neighbors = staticmethod(_search.find_neighbors_on_host)

    # What most calls of small systems are, without the questions that other calls need.

    @staticmethod
    def system(positions: Any, charges: Any, cell: Any, batch_idx: Any, name: str = "positions") -> System:
        if batch_idx is None and type(positions) in given.PLAIN and cell.dim() == 2:
            n = positions.shape[0]
            if n <= given.KEPT and (charges is check.NO_CHARGES or charges.dtype is positions.dtype):
                return System(positions, charges, cell.unsqueeze(0), _zeros(n), 1, True, cell, None)
        return _any_system(Eager, positions, charges, cell, batch_idx)

    @staticmethod
    def per_system(name: str, x: Any, system: System, signed: bool = False) -> torch.Tensor:
        if type(x) is float and type(system.positions) in given.PLAIN:
            return _constant(x, system.positions.dtype, system.systems)
        return _any_per_system(Eager, name, x, system, signed)

    @staticmethod
    def energies(op: str, system: System, reals: Any, rest: Any, outputs: Any) -> Any:
        prefactor, reduction, forces, charge_gradients, virial, hybrid = outputs
        if forces is charge_gradients is virial is hybrid is False and reduction == "atom" and type(prefactor) is float:
            inputs, atoms = check.inputs(*system[:3]), system.atoms
            return PLAIN[op](*inputs, *reals, _NO_STRAIN, atoms, prefactor, *rest)
        return _any_energies(Eager, op, system, reals, rest, outputs)

    @classmethod
    def found(cls, neighbors: Any, system: System, cutoff: float | None, others: Any, own: bool) -> tuple[Any, ...]:
        """See `_Mode.found`; those of another cell are refused."""
        reference, lattice = getattr(neighbors, "cell", None), system.lattice
        if own or type(lattice) not in given.PLAIN or _transforms_active():
            return super().found(neighbors, system, cutoff, others, own)
        inputs = _found.checked(neighbors, system.positions.shape[0], cutoff, others)
        same = reference is None or (reference.dtype == lattice.dtype and torch.equal(reference, lattice))
        if not same and _found.differs(reference, lattice.detach()):
            _found.refuse_cell()
        return inputs

    is_same = staticmethod(is_same)

    # Constants.

    @staticmethod
    def one_system(like: torch.Tensor, n: Any) -> torch.Tensor:
        return like.new_zeros(n, dtype=torch.int32) if n > given.KEPT or _is_fake(like) else _zeros(n)

    @staticmethod
    def absent(like: torch.Tensor) -> torch.Tensor:
        return _NO_STRAIN

    @staticmethod
    def constant(value: float, like: torch.Tensor, systems: int) -> torch.Tensor:
        """A number for each system."""
        return like.new_full((systems,), value) if _is_fake(like) else _constant(value, like.dtype, systems)

    @staticmethod
    def constants(values: tuple[float, ...], like: torch.Tensor) -> torch.Tensor:
        """A number of its own for each system."""
        return like.new_tensor(values)

    @staticmethod
    def coo(neighbor_list: Any, neighbor_ptr: Any, neighbor_shifts: Any, positions: Any) -> tuple[Any, ...]:
        """Offsets, columns and images of a full list that has all of them."""
        atoms = positions.shape[0]
        key = id(neighbor_list)
        known = _known.get(key)
        if known is not None:
            pairs, ptr, columns, rows, pairs_version, ptr_version, pairs_at, ptr_at = known
            if (
                pairs() is neighbor_list
                and ptr() is neighbor_ptr
                and rows == atoms
                and pairs_version == neighbor_list._version
                and ptr_version == neighbor_ptr._version
                and pairs_at == neighbor_list.data_ptr()
                and ptr_at == neighbor_ptr.data_ptr()
            ):
                return neighbor_ptr, columns, neighbor_shifts, FULL
        if _transforms_active() and any(map(given.is_transformed, (neighbor_list, neighbor_ptr, neighbor_shifts))):
            # A list for each element: its rows have no values here, and the op checks the rest.
            return neighbor_ptr, neighbor_list[1], neighbor_shifts, FULL
        given.converted(positions, neighbor_list, neighbor_ptr, neighbor_shifts, None, None, None, False)
        # Of an alias: a view would keep its base, and with it this entry, alive.
        columns = neighbor_list.detach()[1]
        # Neither tensors that do not tell when they are changed, nor views that belong to a transform.
        if not (neighbor_list.is_inference() or neighbor_ptr.is_inference() or _transforms_active()):
            pairs, ptr = weakref.ref(neighbor_list, lambda _: _known.pop(key, None)), weakref.ref(neighbor_ptr)
            versions = (neighbor_list._version, neighbor_ptr._version)
            places = (neighbor_list.data_ptr(), neighbor_ptr.data_ptr())
            _known[key] = (pairs, ptr, columns, atoms, *versions, *places)
        return neighbor_ptr, columns, neighbor_shifts, FULL


class _Made(_Mode):
    """Constants that are made in every call, as they belong to the graph that is compiled or captured."""

    @staticmethod
    def one_system(like: torch.Tensor, n: Any) -> torch.Tensor:
        return like.new_zeros(n, dtype=torch.int32)

    @staticmethod
    def absent(like: torch.Tensor) -> torch.Tensor:
        return like.new_empty(0)

    @staticmethod
    def constant(value: float, like: torch.Tensor, systems: int) -> torch.Tensor:
        return like.new_full((systems,), value)


class Device(_Made):
    """The mode of calls on a CUDA device, where only `given.view` reads values: once of a tensor that does not change.

    Constants are made once for each stream, except during the capture of a graph, which then owns them.
    """

    keeps_room, searched = True, staticmethod(_search.searched)
    find_neighbors = staticmethod(_search.find_neighbors)
    is_checked = staticmethod(is_checked)

    @staticmethod
    def is_made_in(reference: Any, cell: torch.Tensor) -> bool:
        """See `_Mode.is_made_in`; a graph that is captured runs with later values."""
        return is_made_in(reference, cell) and not given.is_captured(cell)

    @staticmethod
    def one_system(like: torch.Tensor, n: Any) -> torch.Tensor:
        if n > given.KEPT or _is_passing(like):
            return _Made.one_system(like, n)
        return _zeros_on(n, like.device, given.stream_of(like))

    @staticmethod
    def absent(like: torch.Tensor) -> torch.Tensor:
        return _Made.absent(like) if _is_fake(like) else _empty_on(like.device)

    @staticmethod
    def constant(value: float, like: torch.Tensor, systems: int) -> torch.Tensor:
        if _is_passing(like):
            return _Made.constant(value, like, systems)
        return _constant_on(value, like.dtype, systems, like.device, given.stream_of(like))

    @staticmethod
    def systems(positions: Any, charges: Any, cell: Any, batch_idx: Any) -> int:
        """See `Eager.systems`; neither charges nor cells are read."""
        of = check.integers("batch_idx", given.view("batch_idx", batch_idx, positions), (positions.shape[0],))
        return int(of[-1]) + 1 if len(of) else 0

    @staticmethod
    def constants(values: tuple[float, ...], like: torch.Tensor) -> torch.Tensor:
        """See `Eager.constants`; they are copied to the device once."""
        given.refuse_in_capture("alpha", "a number or a tensor", like, f"{len(values)} numbers")
        if _is_fake(like):
            return like.new_tensor(values)
        return _numbers_on(values, like.dtype, like.device, given.stream_of(like))

    @staticmethod
    def waves(cell: Any, k_cutoff: Sequence[float], systems: int) -> tuple[torch.Tensor, torch.Tensor]:
        """See `Eager.waves`; the cell is read."""
        given.refuse_in_capture("miller_indices", "what `generate_miller_indices` returns", cell)
        cells = given.cells_of(cell, systems).tobytes()
        return _waves_on(cells, tuple(k_cutoff), cell.device, given.stream_of(cell))

    @staticmethod
    def coo(neighbor_list: Any, neighbor_ptr: Any, neighbor_shifts: Any, positions: Any) -> tuple[Any, ...]:
        """See `Eager.coo`; rows are not compared with the offsets."""
        return neighbor_ptr, columns_of(neighbor_list), neighbor_shifts, FULL

    @staticmethod
    def converted(
        positions: Any,
        neighbor_list: Any,
        neighbor_ptr: Any,
        neighbor_shifts: Any,
        neighbor_matrix: Any,
        neighbor_matrix_shifts: Any,
        fill_value: Any,
        half_fill: Any,
    ) -> tuple[torch.Tensor, ...] | None:
        """See `Eager.converted`, by a sort on the device: no value is read.

        Entries that are out of range come first, where no list begins, so that the op finds them.
        """
        atoms, device = positions.shape[0], positions.device

        def integers(name: str, x: Any, shape: Sequence[int | str]) -> torch.Tensor:
            return given.integers(name, x, shape, positions)

        lists = (neighbor_list, neighbor_ptr, neighbor_shifts, neighbor_matrix, neighbor_matrix_shifts)
        found = check.neighbors(atoms, *lists, fill_value, half_fill, integers)
        if found is None:
            return None
        if found.neighbor_matrix is not None:
            columns = found.neighbor_matrix
            there = columns != found.fill_value
            rows = torch.arange(atoms, dtype=columns.dtype, device=device).unsqueeze(1)
            rows = torch.where(there, rows, atoms).reshape(-1)
            columns = torch.where(there, columns, atoms).reshape(-1)
        else:
            rows, columns = found.neighbor_list
        shifts = found.shifts
        # Behind the last pair stands the number of atoms, in both.
        wrong = (rows == atoms) != (columns == atoms)
        if found.neighbor_ptr is not None:
            ends = found.neighbor_ptr[1:].to(rows.dtype)
            entries = torch.arange(len(rows), dtype=rows.dtype, device=device)
            wrong |= torch.searchsorted(ends, entries, right=True) != rows
        rows = torch.where(wrong, -1, rows)
        if found.half_fill:
            rows, columns = torch.cat([rows, columns]), torch.cat([columns, rows])
            shifts = torch.cat([shifts, -shifts])
        rows = torch.where(rows > atoms, -1, rows)
        rows, order = torch.sort(rows, stable=True)
        starts = torch.arange(atoms + 1, dtype=rows.dtype, device=device)
        return torch.searchsorted(rows, starts), columns[order], shifts[order]


# The copies on a device of tensors that are kept on the host. Those of each stream are its own: PyTorch's allocator
# reuses freed memory in the order of the stream that allocated it.
@lru_cache(maxsize=8)
def _numbers_on(values: tuple[float, ...], dtype: torch.dtype, device: torch.device, stream: int) -> torch.Tensor:
    with given.plain():
        return torch.tensor(values, dtype=dtype, device=device)


@lru_cache(maxsize=64)
def _zeros_on(n: int, device: torch.device, stream: int) -> torch.Tensor:
    with given.plain():
        return torch.zeros(n, dtype=torch.int32, device=device)


@lru_cache(maxsize=64)
def _constant_on(value: float, dtype: torch.dtype, systems: int, device: torch.device, stream: int) -> torch.Tensor:
    with given.plain():
        return torch.full((systems,), value, dtype=dtype, device=device)


@lru_cache(maxsize=64)
def _empty_on(device: torch.device) -> torch.Tensor:
    with given.plain():
        return torch.empty(0, device=device)


@lru_cache(maxsize=8)
def _waves_on(
    cells: bytes, k_cutoff: tuple[float, ...], device: torch.device, stream: int
) -> tuple[torch.Tensor, torch.Tensor]:
    indices, of = given.waves_of(cells, k_cutoff)
    with given.plain():
        return indices.to(device), of.to(device)


# `torch.jit.is_tracing`, which costs five times as much.
_is_recorded = torch._C._is_tracing
_dispatch_mode, _PROXY = torch._C._get_dispatch_mode, torch._C._TorchDispatchModeKey.PROXY


def _refuse_trace(tracer: str) -> None:
    expected = f"a call outside of `{tracer}`, which would leave out gradients (`torch.compile`, `torch.export` and "
    check.refuse("positions", f"{expected}`make_fx` of `torch.func.grad` do not)", "a traced tensor")


def mode_of(like: Any) -> type[_Mode]:
    """The mode of a call outside of graphs, by the place of its first tensor."""
    if _is_recorded():
        _refuse_trace("torch.jit.trace")
    if _dispatch_mode(_PROXY) is not None:
        if not _transforms_active() and not like.requires_grad:
            _refuse_trace("make_fx")
        return Graph
    return Eager if like.is_cpu else Device


def mode_among(arguments: Iterable[Any]) -> type[_Mode]:
    """The mode of a kernel's call, by the place of its first tensor."""
    if is_compiling():
        return Graph
    if _is_recorded() or _dispatch_mode(_PROXY) is not None:
        return Traced
    for x in arguments:
        if isinstance(x, torch.Tensor):
            return Eager if x.is_cpu else Device
    return Eager


def outside_graphs(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """A function that breaks graphs but with a capacity. PyTorch's wrapper for that costs other calls 4 µs."""
    disabled = not_compiled(function)

    @functools.wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        return (disabled if is_compiling() and kwargs.get("capacity") is None else function)(*args, **kwargs)

    return call


class Graph(_Made):
    """The mode of calls in graphs, where constants are part of the graph, and lists are not checked.

    Steps that depend on values break the graph.
    """

    reads_sizes, keeps_room, searched = False, True, staticmethod(_search.searched)

    @staticmethod
    @not_compiled
    def converted(positions: Any, *lists: Any) -> tuple[torch.Tensor, ...] | None:
        return mode_of(positions).converted(positions, *lists)

    @staticmethod
    @not_compiled
    def find_neighbors(positions: Any, *others: Any) -> Any:
        return mode_of(positions).find_neighbors(positions, *others)

    @staticmethod
    @not_compiled
    def waves(cell: Any, k_cutoff: Sequence[float], systems: int) -> tuple[torch.Tensor, torch.Tensor]:
        return mode_of(cell).waves(cell, k_cutoff, systems)

    @staticmethod
    @not_compiled
    def untraced(function: Callable[..., Result], *args: Any) -> Result:
        return function(*args)

    @staticmethod
    def whole(body: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        return in_graph(body.__name__, given)

    planned = staticmethod(requests.plan_in_graph)

    @staticmethod
    def plain(e: Energies, flat: Any) -> torch.Tensor:
        return e.public(*flat)

    @staticmethod
    def with_gradients(e: Energies, flat: Any, want: int, hybrid: bool) -> tuple[torch.Tensor, ...]:
        return e.in_graph(flat, want, hybrid)

    @staticmethod
    def systems(positions: Any, charges: Any, cell: Any, batch_idx: Any) -> int:
        """Refuses arguments whose values would give the number of systems."""
        expected = "one for each system, (B, 3, 3), in a compiled graph with `batch_idx` (`cell.expand(B, 3, 3)`)"
        check.refuse("cell", expected, "one for all of them")

    @staticmethod
    def constants(values: tuple[float, ...], like: torch.Tensor) -> torch.Tensor:
        return like.new_tensor(values)

    @staticmethod
    def coo(neighbor_list: Any, neighbor_ptr: Any, neighbor_shifts: Any, positions: Any) -> tuple[Any, ...]:
        return neighbor_ptr, neighbor_list[1], neighbor_shifts, FULL


class Traced(Graph):
    """The mode of kernels' calls in traces, which may leave out gradients: those that search are refused there."""

    @classmethod
    def system(cls, positions: Any, *others: Any) -> System:
        return mode_of(positions).system(positions, *others)
