"""What users pass to the functions, as what the ops take.

Straight lines for calls that are right; what is wrong is found by the op, or by its absence here, and then `views`
makes NumPy arrays of everything for the checks of `madelung.numpy`, which have the words.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from madelung import _arguments as check
from madelung import _native
from madelung.torch._functions import _transforms_active

_is_compiling = torch.compiler.is_compiling

_NO_STRAIN = torch.empty(0, device="cpu")
_FLOATS = (torch.float32, torch.float64)
_PLAIN = (torch.Tensor, torch.nn.Parameter)
# Indices that are made anew for systems larger than this: nobody feels it there, and they are not kept.
_KEPT_ATOMS = 1 << 16


def view(name: str, x: Any, positions: Any = None) -> Any:
    """A tensor as the NumPy array on the same memory, for checks and for the native search; `None` stays `None`."""
    if x is None:
        return None
    if type(x) in _PLAIN and not _transforms_active():
        try:
            return x.detach().numpy()
        except (TypeError, RuntimeError):
            # What is wrong with it is found out below.
            pass
    if not isinstance(x, torch.Tensor):
        check.refuse(name, "a tensor (`torch.as_tensor` makes one)", check.described(x), TypeError)
    if isinstance(positions, torch.Tensor) and x.device != positions.device:
        expected = f"a tensor on {positions.device} like `positions` (`.to(…)` moves it)"
        check.refuse(name, expected, f"one on {x.device}")
    if x.device.type not in ("cpu", "meta"):
        expected = "a tensor on the CPU, as these functions take no others yet (`.cpu()` moves it)"
        check.refuse(name, expected, f"one on {x.device}")
    if x.device.type == "meta" or is_traced(x):
        expected = "a tensor with values: what depends on them is computed eagerly (in a graph, give the neighbour "
        expected += "list, the cutoff, alpha and the Miller indices)"
        check.refuse(name, expected, "one on meta" if x.device.type == "meta" else "a traced tensor")
    if x.layout is not torch.strided:
        check.refuse(name, "a dense tensor (`.to_dense()`)", str(x.layout).removeprefix("torch."), TypeError)
    try:
        # Transforms would make a tensor of their own of it, without memory.
        with torch._C._DisableFuncTorch():
            return x.detach().resolve_neg().numpy()
    except (TypeError, RuntimeError) as error:
        dtype = str(x.dtype).removeprefix("torch.")
        expected = "float32 or float64" if x.is_floating_point() else "a dtype that NumPy has"
        raise TypeError(f"`{name}`: expected {expected}, got {dtype} ({error})") from error


def is_traced(x: torch.Tensor) -> bool:
    """Whether there is no memory behind it: in graphs, and under transforms."""
    return is_transformed(x) or hasattr(x, "fake_mode")


def is_transformed(x: torch.Tensor) -> bool:
    """The same but for fake tensors, of which the device is known."""
    return _is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(x)


def reals(positions: Any, charges: Any, cell: Any) -> tuple[Any, Any, Any]:
    """Views of the arrays that are differentiable, of one dtype."""
    r = view("positions", positions)
    if positions is not None and positions.dtype not in _FLOATS:
        expected = "float32 or float64 (`positions.double()`)"
        check.refuse("positions", expected, str(positions.dtype).removeprefix("torch."), TypeError)
    return r, view("charges", charges, positions), view("cell", cell, positions)


def charged(positions: Any, charges: Any, cell: Any, batch_idx: Any) -> check.Charges:
    """The charges of a call as the native functions take them."""
    for name, x in (("positions", positions), ("charges", charges), ("cell", cell)):
        if x is None:
            check.refuse(name, "a tensor", "None", TypeError)
    r, q, h = reals(positions, charges, cell)
    return check.charged(r, q, h, view("batch_idx", batch_idx, positions))


@contextmanager
def _plain() -> Iterator[None]:
    """Where tensors are made that are kept for later calls: belonging to no transform, and usable in any graph."""
    with torch.inference_mode(False), torch._C._DisableFuncTorch():
        yield


@lru_cache(maxsize=64)
def _constant(value: float, dtype: torch.dtype, systems: int) -> torch.Tensor:
    with _plain():
        return torch.full((systems,), value, dtype=dtype, device="cpu")


@lru_cache(maxsize=64)
def _zeros(n: int) -> torch.Tensor:
    with _plain():
        return torch.zeros(n, dtype=torch.int32, device="cpu")


def _is_fake(x: torch.Tensor) -> bool:
    """Whether it has no memory outside of graphs: what is made beside it is not to be kept."""
    return type(x) is not torch.Tensor and hasattr(x, "fake_mode")


def splitting(how: type[Eager] | type[Graph], alpha: Any, positions: torch.Tensor, systems: int) -> torch.Tensor:
    """`alpha` (B,) in the dtype of the positions: in the graph where it is a tensor."""
    if type(alpha) is float or type(alpha) is int:
        return how.constant(alpha, positions, systems)
    if isinstance(alpha, torch.Tensor):
        if not alpha.is_floating_point() or alpha.dim() > 1 or (alpha.dim() and alpha.shape[0] not in (1, systems)):
            check.per_system("alpha", view("alpha", alpha), systems)
        return alpha.to(positions.dtype).expand(systems)
    values = check.per_system("alpha", alpha, systems)
    return positions.new_tensor(values).expand(systems)


def numbers(name: str, x: Any, systems: int) -> list[float] | None:
    """Numbers for each system that only set sizes."""
    if x is None:
        return None
    return check.per_system(name, view(name, x) if isinstance(x, torch.Tensor) else x, systems)


# For each list in COO form that was checked: what it was, and its columns, by identity. Tensors are held weakly, and
# what is kept are views, so that a list on memory that others write to is read as it is.
_known: dict[int, tuple[Any, ...]] = {}


def converted(
    atoms: int,
    neighbor_list: Any,
    neighbor_ptr: Any,
    neighbor_shifts: Any,
    neighbor_matrix: Any,
    neighbor_matrix_shifts: Any,
    fill_value: Any,
    half_fill: Any,
) -> tuple[torch.Tensor, ...] | None:
    """Offsets, columns and images of a list in any form, checked; None without one."""
    found = check.neighbors(
        atoms,
        view("neighbor_list", neighbor_list),
        view("neighbor_ptr", neighbor_ptr),
        view("neighbor_shifts", neighbor_shifts),
        view("neighbor_matrix", neighbor_matrix),
        view("neighbor_matrix_shifts", neighbor_matrix_shifts),
        fill_value,
        half_fill,
    )
    return None if found is None else tuple(map(torch.from_numpy, _native.full_list(found, atoms)))


def searched(positions: Any, charges: Any, cell: Any, batch_idx: Any, cutoff: Any) -> tuple[torch.Tensor, ...]:
    """Offsets, columns and images of all pairs closer than a cutoff."""
    system, cutoff = charged(positions, charges, cell, batch_idx), check.positive("cutoff", cutoff)
    cell = np.require(system.cell.reshape(-1, 3, 3), np.float64, ["C", "A"])
    wish = check.Wish(False, "csr", None, None, None, None, False, False)
    found = _native.neighbor_list(system.positions, cutoff, cell, None, system.groups, wish)
    return tuple(map(torch.from_numpy, found))


def waves(cell: Any, k_cutoff: Sequence[float], systems: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Miller indices up to a cutoff, and the system of each."""
    cells = np.require(view("cell", cell).reshape(-1, 3, 3), np.float64, ["C", "A"])
    if len(cells) != systems:
        cells = np.repeat(cells, systems, axis=0)
    return _waves(cells.tobytes(), tuple(k_cutoff))


# Most runs ask for one cell again and again. The key is the cell's value.
@lru_cache(maxsize=8)
def _waves(cells: bytes, k_cutoff: tuple[float, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    lattice = np.frombuffer(cells).reshape(-1, 3, 3)
    miller, ptr = _native.miller_indices(lattice.copy(), k_cutoff)
    idx = np.repeat(np.arange(len(lattice), dtype=np.int32), np.diff(ptr))
    with _plain():
        return torch.from_numpy(miller), torch.from_numpy(idx)


class Eager:
    """What calls outside of graphs need besides what they are given. Constants are made once."""

    converted, searched, waves = staticmethod(converted), staticmethod(searched), staticmethod(waves)

    @staticmethod
    def one_system(like: torch.Tensor, n: int) -> torch.Tensor:
        """The batch index of `n` rows that all belong to one system."""
        return like.new_zeros(n, dtype=torch.int32) if n > _KEPT_ATOMS or _is_fake(like) else _zeros(n)

    @staticmethod
    def no_strain(like: torch.Tensor) -> torch.Tensor:
        """The strain of a call: zero."""
        return _NO_STRAIN

    @staticmethod
    def constant(value: float, like: torch.Tensor, systems: int) -> torch.Tensor:
        """A number for each system."""
        return like.new_full((systems,), value) if _is_fake(like) else _constant(value, like.dtype, systems)

    @staticmethod
    def coo(neighbor_list: Any, neighbor_ptr: Any, neighbor_shifts: Any, atoms: int) -> tuple[Any, Any, Any]:
        """Offsets, columns and images of a full list that has all of them."""
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
        converted(atoms, neighbor_list, neighbor_ptr, neighbor_shifts, None, None, None, False)
        # Of an alias: a view would keep its base, and with it this entry, alive.
        columns = neighbor_list.detach()[1]
        # Neither tensors that do not tell when they are changed, nor views that belong to a transform.
        if not (neighbor_list.is_inference() or neighbor_ptr.is_inference() or _transforms_active()):
            pairs, ptr = weakref.ref(neighbor_list, lambda _: _known.pop(key, None)), weakref.ref(neighbor_ptr)
            versions = (neighbor_list._version, neighbor_ptr._version)
            places = (neighbor_list.data_ptr(), neighbor_ptr.data_ptr())
            _known[key] = (pairs, ptr, columns, atoms, *versions, *places)
        return neighbor_ptr, columns, neighbor_shifts


class Graph:
    """The same in graphs, where constants are part of the graph, and lists are what they are said to be.

    What depends on values breaks the graph.
    """

    converted = staticmethod(torch.compiler.disable(converted))
    searched = staticmethod(torch.compiler.disable(searched))
    waves = staticmethod(torch.compiler.disable(waves))

    @staticmethod
    def one_system(like: torch.Tensor, n: int) -> torch.Tensor:
        """As `Eager.one_system`."""
        return like.new_zeros(n, dtype=torch.int32)

    @staticmethod
    def no_strain(like: torch.Tensor) -> torch.Tensor:
        """As `Eager.no_strain`."""
        return like.new_empty(0)

    @staticmethod
    def constant(value: float, like: torch.Tensor, systems: int) -> torch.Tensor:
        """As `Eager.constant`."""
        return like.new_full((systems,), value)

    @staticmethod
    def coo(neighbor_list: Any, neighbor_ptr: Any, neighbor_shifts: Any, atoms: int) -> tuple[Any, Any, Any]:
        """As `Eager.coo`."""
        return neighbor_ptr, neighbor_list[1], neighbor_shifts
