"""Neighbour lists that are searched on a CUDA device.

With a capacity nothing is read: the list has room for so many pairs, the number of atoms stands behind the last one,
and one that does not fit is an error of `madelung.check_device`. Without one the number of pairs is read.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from madelung import _arguments as check
from madelung._neighbors import Neighbors, axes_of
from madelung._schema import CHECKED, FULL, HALF
from madelung.torch import _inputs as given
from madelung.torch import _ops
from madelung.torch._autograd import _transforms_active
from madelung.torch._lists import remember

# A capacity of as many as there are.
_ALL = -1

_NAME = "madelung::neighbor_search_v1"


def _fake(
    positions: Tensor,
    cell: Tensor,
    pbc: Tensor,
    batch_idx: Tensor,
    systems: int,
    cutoff: float,
    half: int,
    capacity: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """The shapes and dtypes of a search's results, for tracing."""
    room = torch.library.get_ctx().new_dynamic_size() if capacity < 0 else capacity
    shapes = ((2, room), (positions.shape[0] + 1,), (room, 3))
    pairs, ptr, shifts = (positions.new_empty(shape, dtype=torch.int32) for shape in shapes)
    return pairs, ptr, shifts


# Without this object torch would forget the registrations made through it.
_KEPT = torch.library.Library("madelung", "FRAGMENT")
torch.library.register_fake(_NAME, _fake, lib=_KEPT)
# Lists have no derivatives.
_KEPT.impl("neighbor_search_v1", torch.library.fallthrough_kernel, "Autograd")
_neighbor_search = torch.ops.madelung.neighbor_search_v1.default


@dataclass(frozen=True, slots=True)
class Found:
    """A list in COO form, and the batch that it is of."""

    pairs: Tensor
    ptr: Tensor
    shifts: Tensor
    # The system of each atom, and the cell of each system.
    of: Tensor
    cell: Tensor


# The columns of lists that were found here, by the identity of the list, which is held weakly: one view of them for all
# calls, so that calls know them as checked.
_columns: dict[int, tuple[Any, Tensor]] = {}


def columns_of(pairs: Any) -> Any:
    """The second row of a list."""
    known = _columns.get(id(pairs))
    return known[1] if known is not None and known[0]() is pairs else pairs[1]


def search(
    positions: Any, cutoff: float, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any, half: bool, capacity: int | None
) -> Found:
    """All pairs closer than a cutoff, from both sides or half of them, without gradients."""
    given.reals_like("positions", positions, ("N", 3), positions)
    for name, x in (("positions", positions), ("cell", cell)):
        if isinstance(x, Tensor) and (given.is_transformed(x) or x.device.type == "meta"):
            given.refuse_without_values(name, x)
    if capacity is None:
        given.refuse_in_capture("capacity", "how many pairs there is room for", positions)
    if cell is not None:
        expected = (3, 3) if isinstance(cell, Tensor) and cell.dim() == 2 else ("B", 3, 3)
        given.reals_like("cell", cell, expected, positions)
        cell = cell.reshape(-1, 3, 3)
    axes = _periodic(pbc, cell, positions)
    found = check.lattices(None if cell is None else len(cell), axes)
    of, systems = _batch(positions, found, batch_idx, batch_ptr)
    if cell is None:
        # No pair is with an image.
        cell = torch.eye(3, dtype=positions.dtype, device=positions.device).unsqueeze(0)
    most = _ALL if capacity is None else capacity
    pairs, ptr, shifts = _neighbor_search(positions.detach(), cell.detach(), axes, of, systems, cutoff, int(half), most)
    if not (half or pairs.is_inference() or _transforms_active() or given.is_traced(pairs)):
        _remember(pairs, ptr, shifts, len(positions))
    return Found(pairs, ptr, shifts, of, cell if len(cell) == systems else cell.expand(systems, 3, 3))


def _remember(pairs: Tensor, ptr: Tensor, shifts: Tensor, atoms: int) -> None:
    """Remembers full lists as checked, while they stay unchanged."""
    key = id(pairs)
    # Of an alias: a view would keep its base, and with it this entry, alive.
    columns = pairs.detach()[1]
    _columns[key] = (weakref.ref(pairs, lambda _: _columns.pop(key, None)), columns)
    arrays = (ptr, columns, shifts)
    remember([(arrays, (FULL, atoms, [(x._version, x.data_ptr(), x.shape) for x in arrays]))])


def _periodic(pbc: Any, cell: Any, positions: Tensor) -> Tensor:
    """The periodic axes, int32: (1, 3) on the host, or a row for each system on the device."""
    if isinstance(pbc, Tensor) and pbc.is_cuda:
        given.expect("pbc", pbc, positions)
        if pbc.dtype != torch.bool:
            check.refuse("pbc", "True or False for each axis", str(pbc.dtype).removeprefix("torch."), TypeError)
        if pbc.dim() not in (1, 2) or pbc.shape[-1] != 3:
            check.refuse("pbc", "shape (3,) or (B, 3)", tuple(pbc.shape))
        if cell is None:
            check.refuse("cell", "lattice vectors for what axes are periodic", "None")
        return pbc.reshape(-1, 3).to(torch.int32)
    axes = check.periodic(given.view("pbc", pbc) if isinstance(pbc, Tensor) else pbc)
    if axes is None:
        return torch.full((1, 3), int(cell is not None), dtype=torch.int32, device="cpu")
    if cell is None and axes.any():
        check.refuse("cell", "lattice vectors for the periodic axes", "None")
    rows = torch.from_numpy(axes.astype("int32"))
    if len(rows) == 1:
        return rows
    given.refuse_in_capture("pbc", "one row, or a tensor on the device", positions, "rows on the host")
    return rows.to(positions.device)


def _batch(positions: Tensor, systems: int | None, batch_idx: Any, batch_ptr: Any) -> tuple[Tensor, int]:
    """The system of each atom, int32, and how many there are. Numbers that do not fit become −1, which the search
    refuses."""
    atoms = len(positions)
    if batch_idx is None and batch_ptr is None:
        if systems not in (None, 1):
            check.refuse("batch_idx", f"the system of each atom, as there are {systems} cells", "None")
        return positions.new_zeros(atoms, dtype=torch.int32), 1
    of = None
    if batch_ptr is not None:
        ptr = given.integers("batch_ptr", batch_ptr, ("B+1",), positions)
        if len(ptr) == 0 or (systems is not None and len(ptr) != systems + 1):
            expected = "offsets" if systems is None else f"{systems + 1} offsets, as there are {systems} cells"
            check.refuse("batch_ptr", expected, len(ptr))
        systems = len(ptr) - 1
        rows = torch.arange(atoms, dtype=ptr.dtype, device=ptr.device)
        of = torch.searchsorted(ptr[1:].contiguous(), rows, right=True, out_int32=True)
        of = torch.where((ptr[0] == 0) & (ptr[-1] == atoms), of, -1)
    if batch_idx is not None:
        idx = given.integers("batch_idx", batch_idx, (atoms,), positions)
        if systems is None:
            values = check.integers("batch_idx", given.view("batch_idx", idx), (atoms,))
            systems = int(values[-1]) + 1 if atoms else 0
        # Numbers beyond i32 are no system either.
        idx = idx.clamp(-1, torch.iinfo(torch.int32).max).to(torch.int32) if idx.dtype == torch.int64 else idx
        of = idx if of is None else torch.where(idx == of, of, -1)
    assert of is not None and systems is not None
    return of, systems


def find_neighbors(
    positions: Any, cutoff: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any, form: Any
) -> Neighbors:
    """All pairs closer than a cutoff, in rows."""
    if form == "clusters":
        check.refuse("form", "'rows' on a device", "'clusters'")
    given.refuse_in_capture("neighbor_list", "what `neighbor_list` with a `capacity` returns", positions)
    found = search(positions, cutoff, cell, pbc, batch_idx, batch_ptr, False, None)
    at = None if cell is None else cell.detach().clone().reshape(-1, 3, 3)
    arrays = (found.ptr, columns_of(found.pairs), found.shifts, at, None)
    return Neighbors(*arrays, "rows", len(positions), float(cutoff), axes_of(pbc, cell))


def neighbor_list(
    positions: Any, cutoff: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any, options: check.ListOptions
) -> tuple[Tensor, ...]:
    """The list in the requested form, and the lengths and vectors of its pairs."""
    most, capacity = options.max_neighbors, options.capacity
    if capacity is not None and (most is None) == (options.format == "matrix"):
        expected = "the width of the matrix" if most is None else "None"
        expected += f" with `capacity` and the format {options.format!r}, as nothing is read from the device"
        check.refuse("max_neighbors", expected, most)
    if options.fill_value is not None and 0 <= options.fill_value < len(positions):
        expected = f"a number that is not one of the {len(positions)} indices"
        check.refuse("fill_value", expected, options.fill_value)
    cutoff = check.positive("cutoff", cutoff)
    found = search(positions, cutoff, cell, pbc, batch_idx, batch_ptr, options.half_fill, capacity)
    atoms = len(positions)
    if capacity is None and (most is not None or options.format == "matrix"):
        longest = int(found.ptr.diff().max()) if atoms else 0
        if most is not None and longest > most:
            check.refuse("max_neighbors", f"at least {longest}", most)
        most = longest if most is None else most
    measured: list[Tensor] = []
    if options.distances or options.vectors:
        # Made by the search, so it needs no check.
        kind = (HALF if options.half_fill else FULL) + CHECKED
        of_list = (found.ptr, columns_of(found.pairs), found.shifts, kind)
        vectors, distances = _ops.pair_vectors(positions, found.cell, found.of, *of_list)
        measured = [x for x, asked in ((distances, options.distances), (vectors, options.vectors)) if asked]
    if options.format == "coo":
        return found.pairs, found.ptr, found.shifts, *measured
    if options.format == "csr":
        return found.ptr, found.pairs[1], found.shifts, *measured
    assert most is not None
    counts = found.ptr.diff()
    rows, columns = found.pairs
    slots = torch.arange(len(rows), device=rows.device) - found.ptr[rows.long()]
    # Entries without a place go behind the last one.
    at = torch.where((rows < atoms) & (slots < most), rows.long() * most + slots, atoms * most)

    def spread(x: Tensor, fill: int = 0) -> Tensor:
        full = x.new_full((atoms * most + 1, *x.shape[1:]), fill)
        return full.index_copy(0, at, x)[:-1].reshape(atoms, most, *x.shape[1:])

    fill = atoms if options.fill_value is None else options.fill_value
    matrix = spread(columns, fill)
    if capacity is not None and atoms:
        # A matrix that would not have all pairs has none, but an index that every function refuses.
        passed = (counts.max() > most) | (found.ptr[-1] > capacity)
        matrix = torch.where(passed, atoms + 1 if fill == -1 else -1, matrix)
    return matrix, counts, spread(found.shifts), *map(spread, measured)
