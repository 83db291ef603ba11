"""The three modes of calls: eager on the CPU, eager on a CUDA device, and in graphs. Each provides constants and
lists."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from madelung import _arguments as check
from madelung.torch import _inputs as given
from madelung.torch import _search
from madelung.torch._autograd import _transforms_active

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


class Eager:
    """The mode of calls outside of graphs, on the CPU. Constants are made once."""

    converted, searched = staticmethod(given.converted), staticmethod(given.searched)
    waves, systems = staticmethod(given.waves), staticmethod(given.systems_of)

    @staticmethod
    def one_system(like: torch.Tensor, n: int) -> torch.Tensor:
        """The batch index of `n` rows that all belong to one system."""
        return like.new_zeros(n, dtype=torch.int32) if n > given.KEPT or _is_fake(like) else _zeros(n)

    @staticmethod
    def no_strain(like: torch.Tensor) -> torch.Tensor:
        """The strain of a call: zero."""
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
    def coo(neighbor_list: Any, neighbor_ptr: Any, neighbor_shifts: Any, positions: Any) -> tuple[Any, Any, Any]:
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
                return neighbor_ptr, columns, neighbor_shifts
        given.converted(positions, neighbor_list, neighbor_ptr, neighbor_shifts, None, None, None, False)
        # Of an alias: a view would keep its base, and with it this entry, alive.
        columns = neighbor_list.detach()[1]
        # Neither tensors that do not tell when they are changed, nor views that belong to a transform.
        if not (neighbor_list.is_inference() or neighbor_ptr.is_inference() or _transforms_active()):
            pairs, ptr = weakref.ref(neighbor_list, lambda _: _known.pop(key, None)), weakref.ref(neighbor_ptr)
            versions = (neighbor_list._version, neighbor_ptr._version)
            places = (neighbor_list.data_ptr(), neighbor_ptr.data_ptr())
            _known[key] = (pairs, ptr, columns, atoms, *versions, *places)
        return neighbor_ptr, columns, neighbor_shifts


class _Made:
    """Constants that are made in every call, as they belong to the graph that is compiled or captured."""

    @staticmethod
    def one_system(like: torch.Tensor, n: int) -> torch.Tensor:
        """See `Eager.one_system`."""
        return like.new_zeros(n, dtype=torch.int32)

    @staticmethod
    def no_strain(like: torch.Tensor) -> torch.Tensor:
        """See `Eager.no_strain`."""
        return like.new_empty(0)

    @staticmethod
    def constant(value: float, like: torch.Tensor, systems: int) -> torch.Tensor:
        """See `Eager.constant`."""
        return like.new_full((systems,), value)


class Device(_Made):
    """The mode of calls on a CUDA device, where only `given.view` reads values: once of a tensor that does not change.

    Constants are made once for each stream, except during the capture of a graph, which then owns them.
    """

    @staticmethod
    def one_system(like: torch.Tensor, n: int) -> torch.Tensor:
        """See `Eager.one_system`."""
        if n > given.KEPT or _is_passing(like):
            return _Made.one_system(like, n)
        return _zeros_on(n, like.device, _stream(like))

    @staticmethod
    def no_strain(like: torch.Tensor) -> torch.Tensor:
        """See `Eager.no_strain`."""
        return _Made.no_strain(like) if _is_fake(like) else _empty_on(like.device)

    @staticmethod
    def constant(value: float, like: torch.Tensor, systems: int) -> torch.Tensor:
        """See `Eager.constant`."""
        if _is_passing(like):
            return _Made.constant(value, like, systems)
        return _constant_on(value, like.dtype, systems, like.device, _stream(like))

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
        return _numbers_on(values, like.dtype, like.device, _stream(like))

    @staticmethod
    def waves(cell: Any, k_cutoff: Sequence[float], systems: int) -> tuple[torch.Tensor, torch.Tensor]:
        """See `Eager.waves`; the cell is read."""
        given.refuse_in_capture("miller_indices", "what `generate_miller_indices` returns", cell)
        cells = given.cells_of(cell, systems).tobytes()
        return _waves_on(cells, tuple(k_cutoff), cell.device, _stream(cell))

    @staticmethod
    def coo(neighbor_list: Any, neighbor_ptr: Any, neighbor_shifts: Any, positions: Any) -> tuple[Any, Any, Any]:
        """See `Eager.coo`; rows are not compared with the offsets."""
        return neighbor_ptr, _search.columns_of(neighbor_list), neighbor_shifts

    @staticmethod
    def searched(
        positions: Any, charges: Any, cell: Any, batch_idx: Any, cutoff: Any
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """See `Eager.searched`; the number of pairs is read."""
        given.refuse_in_capture("neighbor_list", "what `neighbor_list` with a `capacity` returns", positions)
        found = _search.search(positions, check.positive("cutoff", cutoff), cell, None, batch_idx, None, False, None)
        return found.ptr, _search.columns_of(found.pairs), found.shifts

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


def _stream(like: torch.Tensor) -> int:
    """The stream that PyTorch puts work on, where a tensor lies."""
    return torch.cuda.current_stream(like.device).cuda_stream if like.is_cuda else 0


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


def outside_graphs(like: Any) -> type[Eager] | type[Device]:
    """The mode by the place of a call's positions or cell."""
    return Eager if like.is_cpu else Device


class Graph(_Made):
    """The mode of calls in graphs, where constants are part of the graph, and lists are not checked.

    Steps that depend on values break the graph.
    """

    @staticmethod
    @torch.compiler.disable
    def converted(positions: Any, *lists: Any) -> tuple[torch.Tensor, ...] | None:
        """See `Eager.converted`."""
        return outside_graphs(positions).converted(positions, *lists)

    @staticmethod
    @torch.compiler.disable
    def searched(positions: Any, *others: Any) -> tuple[torch.Tensor, ...]:
        """See `Eager.searched`."""
        return outside_graphs(positions).searched(positions, *others)

    @staticmethod
    @torch.compiler.disable
    def waves(cell: Any, k_cutoff: Sequence[float], systems: int) -> tuple[torch.Tensor, torch.Tensor]:
        """See `Eager.waves`."""
        return outside_graphs(cell).waves(cell, k_cutoff, systems)

    @staticmethod
    def systems(positions: Any, charges: Any, cell: Any, batch_idx: Any) -> int:
        """Refuses arguments whose values would give the number of systems."""
        expected = "one for each system, (B, 3, 3), in a compiled graph with `batch_idx` (`cell.expand(B, 3, 3)`)"
        check.refuse("cell", expected, "one for all of them")

    @staticmethod
    def constants(values: tuple[float, ...], like: torch.Tensor) -> torch.Tensor:
        """See `Eager.constants`."""
        return like.new_tensor(values)

    @staticmethod
    def coo(neighbor_list: Any, neighbor_ptr: Any, neighbor_shifts: Any, positions: Any) -> tuple[Any, Any, Any]:
        """See `Eager.coo`."""
        return neighbor_ptr, neighbor_list[1], neighbor_shifts


Mode = type[Eager] | type[Device] | type[Graph]
