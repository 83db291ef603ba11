"""Neighbour lists of tensors. On the CPU they are NumPy's.

On a CUDA device, with a capacity, nothing is read: the list has room for so many pairs, the number of atoms stands
behind the last one, and one that does not fit is an error of `madelung.check_device`. Without one the number of pairs
is read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from madelung import _arguments as check
from madelung._functions.framework import Found
from madelung._neighbors import Neighbors, axes_of, without_room
from madelung._schema import CHECKED, FULL, VALUE
from madelung.numpy._framework import Numpy
from madelung.torch import _inputs as given
from madelung.torch import _ops
from madelung.torch._autograd import _transforms_active
from madelung.torch._lists import remember_cell, remember_columns, remember_search, tells

is_compiling = torch.compiler.is_compiling

# Lists have no derivatives.
_neighbor_search, _find_neighbors = (
    _ops.OPS[name].overload(VALUE, private=True) for name in ("neighbor_search", "find_neighbors")
)


def searched_on_host(
    positions: Any, cutoff: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any, options: check.ListOptions
) -> Found:
    found = Numpy.searched(*_views(positions, cutoff, cell, pbc, batch_idx, batch_ptr), options)
    pairs, ptr, shifts, of = map(torch.from_numpy, (found.pairs, found.ptr, found.shifts, found.batch_idx))
    return Found(pairs, ptr, shifts, positions, cell, of, found.systems)


def find_neighbors_on_host(
    positions: Any, cutoff: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any, form: Any
) -> Neighbors:
    """All pairs closer than a cutoff, in the form that is fastest or in a given one."""
    views = _views(positions, cutoff, cell, pbc, batch_idx, batch_ptr)
    return Numpy.find_neighbors(*views, form, torch.from_numpy)


def renewed_on_host(
    neighbors: Neighbors, positions: Any, reach: float, cell: Any, pbc: Any, batch_idx: Any, form: Any
) -> Neighbors:
    """A list of several systems, in which those that have left their skins are searched for again; the same object if
    none has."""
    r, _, h, axes, of, _ = _views(positions, reach, cell, pbc, batch_idx, None)
    known = without_room(neighbors)
    found = Numpy.renewed(known, r, reach, h, axes, of, form)
    if found is known:
        return neighbors
    arrays = {name: torch.from_numpy(getattr(found, name)) for name in ("index", "columns", "images", "positions")}
    return replace(found, **arrays, cell=_kept(cell), batch_idx=neighbors.batch_idx)


def _views(positions: Any, cutoff: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any) -> tuple[Any, ...]:
    """The arguments of a search as arrays of NumPy."""
    r, _, h = given.reals(positions, None, cell)
    if r is None:
        check.refuse("positions", "a tensor", "None", TypeError)
    idx, ptr = given.view("batch_idx", batch_idx, positions), given.view("batch_ptr", batch_ptr, positions)
    return r, cutoff, h, given.view("pbc", pbc) if isinstance(pbc, Tensor) else pbc, idx, ptr


def _kept(cell: Any) -> Any:
    """The cell of a list."""
    return None if cell is None else cell.detach().clone().reshape(-1, 3, 3)


def pair_vectors(found: Found, kind: int) -> tuple[Tensor, Tensor]:
    return _ops.pair_vectors(*pair_inputs(found, kind))


def pair_differences(found: Found, kind: int) -> Tensor:
    return _ops.pair_differences(*pair_inputs(found, kind))


def pair_inputs(found: Found, kind: int) -> tuple[Any, ...]:
    r, h, systems = found.positions, found.cell, found.systems
    # Without a cell no pair is with an image.
    h = (torch.eye(3, dtype=r.dtype, device=r.device) if h is None else h).reshape(-1, 3, 3)
    h = h if len(h) == systems else h.expand(systems, 3, 3)
    # Made by the search, so it needs no check.
    return r, h, found.batch_idx, found.ptr, found.pairs[1], found.shifts, kind + CHECKED


def places(rows: Tensor, ptr: Tensor, width: int) -> Tensor:
    rows, atoms = rows.long(), len(ptr) - 1
    slots = torch.arange(len(rows), device=rows.device) - ptr[rows]
    return torch.where((rows < atoms) & (slots < width), rows * width + slots, atoms * width)


def spread(x: Tensor, at: Tensor, atoms: int, width: int, fill: int = 0) -> Tensor:
    full = x.new_full((atoms * width + 1, *x.shape[1:]), fill)
    return full.index_copy(0, at, x)[:-1].reshape(atoms, width, *x.shape[1:])


def searched(
    positions: Any, cutoff: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any, options: check.ListOptions
) -> Found:
    """See `Framework`; with a capacity the list has room for so many pairs."""
    most, capacity = options.max_neighbors, options.capacity
    if capacity is not None and (most is None) == (options.format == "matrix"):
        expected = "the width of the matrix" if most is None else "None"
        expected += f" with `capacity` and the format {options.format!r}, as nothing is read from the device"
        check.refuse("max_neighbors", expected, most)
    cutoff = check.positive("cutoff", cutoff)
    found = _search(positions, cutoff, cell, pbc, batch_idx, batch_ptr, options.half_fill, capacity)
    if capacity is None and most is not None:
        check.list_fits(found.ptr.cpu().numpy(), options)
    return found


def _search(
    positions: Any, cutoff: float, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any, half: bool, capacity: int | None
) -> Found:
    """All pairs closer than a cutoff, from both sides or half of them, without gradients."""
    if capacity is None:
        given.refuse_in_capture("capacity", "how many pairs there is room for", positions)
    atoms = _atoms(positions, cutoff, cell, pbc, batch_idx, batch_ptr)
    of, systems = atoms[3:5]
    search = _ops.neighbor_search if is_compiling() else _neighbor_search
    pairs, ptr, shifts = search(*atoms, int(half), -1 if capacity is None else capacity, 0)
    if not (is_compiling() or half or pairs.is_inference() or _transforms_active() or given.is_traced(pairs)):
        _remember(pairs, ptr, shifts, len(positions))
    return Found(pairs, ptr, shifts, positions, cell, of, systems)


def _atoms(positions: Any, cutoff: float, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any) -> tuple[Any, ...]:
    """The inputs that searches have in common."""
    given.reals_like("positions", positions, ("N", 3), positions)
    for name, x in (("positions", positions), ("cell", cell)):
        if isinstance(x, Tensor) and (_is_transformed(x) or x.device.type == "meta"):
            given.refuse_without_values(name, x)
    h = positions.new_empty(0, 3, 3)
    if cell is not None:
        expected = (3, 3) if isinstance(cell, Tensor) and cell.dim() == 2 else ("B", 3, 3)
        given.reals_like("cell", cell, expected, positions)
        h = cell.reshape(-1, 3, 3)
    axes, bits = _periodic(pbc, cell, positions)
    found = check.lattices(None if cell is None else len(h), None if len(axes) == 0 else axes)
    of, systems = _batch(positions, found, batch_idx, batch_ptr)
    return positions.detach(), h.detach(), axes, of, systems, cutoff, bits


def _is_transformed(x: Tensor) -> bool:
    """Whether it is a tensor of a transform; one of a graph is none."""
    return not is_compiling() and given.is_transformed(x)


def _remember(pairs: Tensor, ptr: Tensor, shifts: Tensor, atoms: int) -> None:
    """Remembers full lists as checked, while they stay unchanged."""
    # Of an alias: a view would keep its base, and with it this entry, alive.
    columns = pairs.detach()[1]
    remember_columns(pairs, columns)
    remember_search((ptr, columns, shifts), FULL, atoms)


def _periodic(pbc: Any, cell: Any, positions: Tensor) -> tuple[Tensor, int]:
    """The periodic axes: a row for each system on the device, int32, or none and the bits of those of all systems."""
    if isinstance(pbc, Tensor) and pbc.is_cuda:
        given.expect("pbc", pbc, positions)
        if pbc.dtype != torch.bool:
            check.refuse("pbc", "True or False for each axis", str(pbc.dtype).removeprefix("torch."), TypeError)
        pbc = pbc.expand(3) if pbc.dim() == 0 else pbc
        if pbc.dim() not in (1, 2) or pbc.shape[-1] != 3:
            check.refuse("pbc", "shape (3,) or (B, 3)", tuple(pbc.shape))
        if cell is None:
            check.refuse("cell", "lattice vectors for what axes are periodic", "None")
        return pbc.reshape(-1, 3).to(torch.int32), 0
    axes = check.periodic(given.view("pbc", pbc) if isinstance(pbc, Tensor) else pbc)
    rows, bits = check.search_axes(axes, cell)
    if len(rows) == 0:
        return positions.new_empty((0, 3), dtype=torch.int32), bits
    given.refuse_in_capture("pbc", "one row, or a tensor on the device", positions, "rows on the host")
    return torch.from_numpy(rows).to(positions.device), bits


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
            systems = check.named_systems(values, atoms)
        # Numbers beyond i32 are no system either.
        idx = idx.clamp(-1, torch.iinfo(torch.int32).max).to(torch.int32) if idx.dtype == torch.int64 else idx
        of = idx if of is None else torch.where(idx == of, of, -1)
    assert of is not None and systems is not None
    return of, systems


def batch_of(positions: Tensor, systems: int | None, batch_idx: Any) -> tuple[Tensor, int]:
    """The system of each atom, int32, and how many there are."""
    return _batch(positions, systems, batch_idx, None)


def find_neighbors(
    positions: Any, cutoff: Any, cell: Any, pbc: Any, batch_idx: Any, batch_ptr: Any, form: Any
) -> Neighbors:
    """All pairs closer than a cutoff, in rows."""
    if form == "clusters":
        check.refuse("form", "'rows' on a device", "'clusters'")
    given.refuse_in_capture("neighbor_list", "what `neighbor_list` with a `capacity` returns", positions)
    cutoff = check.largest(cutoff)
    atoms = _atoms(positions, cutoff, cell, pbc, batch_idx, batch_ptr)
    if hasattr(positions, "fake_mode"):
        # Of sizes that are not known, as `neighbor_list` has them.
        found = _search(positions, cutoff, cell, pbc, batch_idx, batch_ptr, False, None)
        return Neighbors(
            *(found.ptr, found.pairs[1], found.shifts),
            _kept(cell),
            None,
            "rows",
            len(positions),
            float(cutoff),
            axes_of(pbc, cell),
        )
    arrays = index, columns, images = _find_neighbors(*atoms, positions.new_empty(0), 0, -1, -1, -1)
    if not (columns.is_inference() or _transforms_active() or given.is_traced(columns)):
        remember_search(arrays, FULL, len(positions))
    at = _kept(cell)
    if at is not None and tells(cell):
        remember_cell(at, cell)
    arrays = (index, columns, images, at, None)
    return Neighbors(*arrays, "rows", len(positions), float(cutoff), axes_of(pbc, cell))
