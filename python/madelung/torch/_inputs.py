"""Conversion of the functions' arguments to the ops' inputs.

Valid calls take a short path; errors are found by the op, or by a missing attribute here, and then `views` makes NumPy
arrays of all arguments for the checks of `madelung.numpy`, which have the messages.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch._functorch.pyfunctorch import temporarily_pop_interpreter_stack
from torch.autograd import forward_ad as _forward_ad
from torch.utils._python_dispatch import _disable_current_modes

from madelung import _arguments as check
from madelung import _native
from madelung.torch._autograd import _transforms_active, has_tangent

_is_compiling = torch.compiler.is_compiling
_functorch = torch._C._functorch

FLOATS = (torch.float32, torch.float64)
HALF = (torch.float16, torch.bfloat16)
PLAIN = (torch.Tensor, torch.nn.Parameter)
# Indices of larger systems are made anew: the cost does not matter there, and they are not kept.
KEPT = 1 << 16
# Values of larger tensors of a device are not kept on the host.
_READ = 1 << 20


class System(NamedTuple):
    """Charges of a call."""

    positions: Any
    charges: Any
    lattice: Any
    """(B, 3, 3)"""
    atoms: Any
    """The system of each atom."""
    systems: int
    single: bool
    cell: Any
    """Cell of the caller, beside the `batch_idx` of the caller."""
    batch_idx: Any


def tensor_of(name: str, x: Any, like: torch.Tensor) -> torch.Tensor:
    """Numbers as a tensor beside another one."""
    try:
        return like.new_tensor(x)
    except (TypeError, ValueError, RuntimeError):
        check.refuse(name, "a tensor of real numbers", check.described(x), TypeError)


def view(name: str, x: Any, positions: Any = None) -> Any:
    """A tensor as a NumPy array, for checks and for the native search; `None` stays `None`.

    On the CPU the array shares the tensor's memory; of a CUDA tensor it is a copy, see `_values`.
    """
    if x is None:
        return None
    if type(x) in PLAIN and not _transforms_active():
        try:
            return x.detach().numpy()
        except (TypeError, RuntimeError):
            # The error is raised below.
            pass
    expect(name, x, positions)
    if x.device.type == "meta" or is_traced(x):
        refuse_without_values(name, x)
    try:
        # Transforms would make a tensor of their own of it, without memory.
        with torch._C._DisableFuncTorch():
            return _values(name, x) if x.is_cuda else x.detach().resolve_neg().numpy()
    except (TypeError, RuntimeError) as error:
        expected = "float32 or float64" if x.is_floating_point() else "a dtype that NumPy has"
        raise TypeError(f"`{name}`: expected {expected}, got {short(x.dtype)} ({error})") from error


def expect(name: str, x: Any, positions: Any = None) -> None:
    """Refuses anything but a dense tensor on the positions' device."""
    if not isinstance(x, torch.Tensor):
        check.refuse(name, "a tensor (`torch.as_tensor` makes one)", check.described(x), TypeError)
    if isinstance(positions, torch.Tensor) and x.device != positions.device:
        expected = f"a tensor on {positions.device} like `positions` (`.to(…)` moves it)"
        check.refuse(name, expected, f"one on {x.device}")
    if x.device.type not in ("cpu", "cuda", "meta"):
        check.refuse(name, "a tensor on the CPU or on a CUDA device (`.cpu()` moves it)", f"one on {x.device}")
    if x.layout is not torch.strided:
        check.refuse(name, "a dense tensor (`.to_dense()`)", str(x.layout).removeprefix("torch."), TypeError)


def refuse_without_values(name: str, x: torch.Tensor) -> None:
    """Refuses a tensor whose values decide on sizes, and which has none."""
    expected = (
        "a tensor with values: what depends on them is computed eagerly (in a graph, give the neighbour list, the "
    )
    expected += "cutoff, alpha and the Miller indices)"
    check.refuse(name, expected, "one on meta" if x.device.type == "meta" else "a traced tensor")


def reals_like(name: str, x: Any, shape: Sequence[int | str], positions: Any) -> None:
    """Checks real numbers as far as possible without reading them."""
    expect(name, x, positions)
    if x.dtype not in FLOATS or x.dtype != positions.dtype:
        dtype = check.as_positions(name, short(positions.dtype))
        expected = "float32 or float64" if x is positions else dtype
        check.refuse(name, expected, short(x.dtype), TypeError)
    check.fits(name, x, shape)


def reals_beside(name: str, x: Any, shape: Sequence[int | str], like: torch.Tensor, other: str) -> torch.Tensor:
    """A tensor of real numbers of the dtype and on the device of another argument."""
    expect(name, x)
    if x.device != like.device:
        check.refuse(name, f"a tensor on {like.device} like `{other}` (`.to(…)` moves it)", f"one on {x.device}")
    if x.dtype not in FLOATS:
        check.refuse(name, "float32 or float64", short(x.dtype), TypeError)
    if x.dtype != like.dtype:
        check.refuse(name, f"{short(like.dtype)}, as `{other}`", short(x.dtype), TypeError)
    check.fits(name, x, shape)
    return x


def integers(name: str, x: Any, shape: Sequence[int | str], positions: Any) -> Any:
    """Checks integers without reading them; they come as int32 or int64."""
    expect(name, x, positions)
    if x.is_floating_point() or x.is_complex() or x.dtype == torch.bool:
        check.refuse(name, "integers", short(x.dtype), TypeError)
    check.fits(name, x, shape)
    return x if x.dtype in (torch.int32, torch.int64) else x.long()


def exact(x: Any, positions: Any) -> Any:
    """Integers as real numbers of the positions' dtype; any other tensor as it is."""
    return x if x.is_floating_point() or x.is_complex() or x.dtype == torch.bool else x.to(positions.dtype)


def under_autocast(arrays: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Arguments of a call under autocast, whose layers give half precision: those in the dtype of the first array in
    another precision, or in float32. None where there are none, or no autocast."""
    device = ""
    for x in arrays:
        if isinstance(x, torch.Tensor):
            device = x.device.type
            break
    if device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device) or not _has_half(arrays):
        return None
    dtypes = [x.dtype for x in arrays if isinstance(x, torch.Tensor) and x.dtype in FLOATS]
    return _cast(arrays, dtypes[0] if dtypes else torch.float32)


def _has_half(x: Any) -> bool:
    if type(x) is tuple:
        return any([_has_half(y) for y in x])
    return isinstance(x, torch.Tensor) and x.dtype in HALF


def _cast(x: Any, dtype: torch.dtype) -> Any:
    if type(x) is tuple:
        return tuple([_cast(y, dtype) for y in x])
    return x.to(dtype) if _has_half(x) else x


def short(dtype: torch.dtype) -> str:
    """The name of a dtype, as NumPy has it."""
    return str(dtype).removeprefix("torch.")


def is_captured(x: Any) -> bool:
    """Whether operations on a tensor go into a CUDA graph, so that its values cannot be read."""
    if not isinstance(x, torch.Tensor) or not x.is_cuda or hasattr(x, "fake_mode"):
        return False
    return torch.cuda.is_current_stream_capturing()


def refuse_in_capture(name: str, expected: str, x: Any, got: str = "what would have to be read") -> None:
    """Refuses an argument, where a CUDA graph is captured, that only a copy to or from the device could make use of."""
    if is_captured(x):
        check.refuse(name, f"{expected} while a CUDA graph is captured", got)


# For each CUDA tensor whose values were read: its state, and the copy, by identity. Tensors are held weakly.
_read: dict[int, tuple[Any, ...]] = {}


def _values(name: str, x: torch.Tensor) -> Any:
    """The values of a CUDA tensor, read once as long as the tensor does not change."""
    key = id(x)
    known = _read.get(key)
    if known is not None:
        tensor, version, at, values = known
        if tensor() is x and version == x._version and at == x.data_ptr():
            return values
    expected = "to be spared by giving the neighbour list, the cutoff, alpha, the Miller indices and a cell per system"
    refuse_in_capture(name, expected, x)
    values = x.detach().resolve_neg().cpu().numpy()
    # Tensors of inference mode do not tell when they are changed.
    if x.numel() <= _READ and not x.is_inference():
        _read[key] = (weakref.ref(x, lambda _: _read.pop(key, None)), x._version, x.data_ptr(), values)
    return values


def is_traced(x: torch.Tensor) -> bool:
    """Whether there is no memory behind it: in graphs, and under transforms."""
    return is_transformed(x) or hasattr(x, "fake_mode")


def is_transformed(x: torch.Tensor) -> bool:
    """Whether it is a tensor of a graph or of a transform, but not a fake tensor, whose device is known."""
    return _is_compiling() or _functorch.is_functorch_wrapped_tensor(x)


def is_differentiated(x: torch.Tensor) -> bool:
    """Whether derivatives by a tensor are taken, by PyTorch or by a transform of any level."""
    follows = x.requires_grad and torch.is_grad_enabled()
    if follows or _is_compiling():
        return follows
    top, level = _functorch.peek_interpreter_stack(), _functorch.maybe_get_level(x)
    if top is not None and top.level() > level:
        # A transform sees no tangents of those around it.
        with temporarily_pop_interpreter_stack():
            return is_differentiated(x)
    if _forward_ad._current_level >= 0 and has_tangent(x):
        return True
    return level >= 0 and is_differentiated(_functorch.get_unwrapped(x))


def reals(positions: Any, charges: Any, cell: Any) -> tuple[Any, Any, Any]:
    """Views of the arrays that are differentiable, of one dtype. Positions on a device are not read: zeros do."""
    if isinstance(positions, torch.Tensor) and positions.is_cuda and not is_traced(positions):
        expect("positions", positions)
        r = np.zeros(positions.shape, np.float64 if positions.dtype == torch.float64 else np.float32)
    else:
        r = view("positions", positions)
    if positions is not None and positions.dtype not in FLOATS:
        expected = "float32 or float64 (`positions.double()`)"
        check.refuse("positions", expected, short(positions.dtype), TypeError)
    q = charges if charges is check.NO_CHARGES else view("charges", charges, positions)
    return r, q, view("cell", cell, positions)


def charged(positions: Any, charges: Any, cell: Any, batch_idx: Any) -> check.Charges:
    """The charges of a call as the native functions take them."""
    for name, x in (("positions", positions), ("charges", charges), ("cell", cell)):
        if x is None:
            check.refuse(name, "a tensor", "None", TypeError)
    r, q, h = reals(positions, charges, cell)
    return check.charged(r, q, h, view("batch_idx", batch_idx, positions))


@contextmanager
def plain() -> Iterator[None]:
    """A scope in which tensors for later calls are made: of no transform or mode, and usable in any graph."""
    with torch.inference_mode(False), torch._C._DisableFuncTorch(), _disable_current_modes():
        yield


def numbers(name: str, x: Any, systems: int) -> list[float] | None:
    """Numbers for each system that only set sizes."""
    if x is None:
        return None
    return check.per_system(name, view(name, x) if isinstance(x, torch.Tensor) else x, systems)


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
    """Offsets, columns and images of a list in any form, checked; None without one."""
    atoms = positions.shape[0]
    found = check.neighbors(
        atoms,
        view("neighbor_list", neighbor_list, positions),
        view("neighbor_ptr", neighbor_ptr, positions),
        view("neighbor_shifts", neighbor_shifts, positions),
        view("neighbor_matrix", neighbor_matrix, positions),
        view("neighbor_matrix_shifts", neighbor_matrix_shifts, positions),
        fill_value,
        half_fill,
    )
    return None if found is None else tuple(map(torch.from_numpy, _native.full_list(found, atoms)))


def cells_of(cell: Any, systems: int) -> Any:
    """The values of the cells of all systems, (B, 3, 3)."""
    cells = np.require(view("cell", cell).reshape(-1, 3, 3), np.float64, ["C", "A"])
    return cells if len(cells) == systems else np.repeat(cells, systems, axis=0)


def waves(cell: Any, k_cutoff: Sequence[float], systems: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Miller indices up to a cutoff, and the system of each."""
    return waves_of(cells_of(cell, systems).tobytes(), tuple(k_cutoff))


def kept(make: Any, key: Any, like: torch.Tensor) -> tuple[Any, ...]:
    """See `Framework`; on a device for each stream, as its memory is reused in the order of that."""
    refuse_in_capture("miller_indices", "it, `alpha` and `cutoff`", like)
    return _kept(make, key, like.dtype, like.device, stream_of(like))


def stream_of(like: torch.Tensor) -> int:
    """The stream that PyTorch puts work on, where a tensor lies: without the object that `torch.cuda` makes of it."""
    return torch._C._cuda_getCurrentRawStream(like.device.index) if like.is_cuda else 0


@lru_cache(maxsize=8)
def _kept(make: Any, key: Any, dtype: torch.dtype, device: torch.device, stream: int) -> tuple[Any, ...]:
    with plain():
        found = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in make(*key)]
        moved = [x.to(device) if isinstance(x, torch.Tensor) else x for x in found]
        return tuple(x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in moved)


# Most runs ask for one cell again and again. The key is the cell's value.
@lru_cache(maxsize=8)
def waves_of(cells: bytes, k_cutoff: tuple[float, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """The wave vectors of cells, given by value."""
    lattice = np.frombuffer(cells).reshape(-1, 3, 3)
    miller, idx = check.miller_indices(lattice.copy(), k_cutoff, len(lattice))
    with plain():
        return torch.from_numpy(miller), torch.from_numpy(idx)


def systems_of(positions: Any, charges: Any, cell: Any, batch_idx: Any) -> int:
    """The number of systems where there is one cell for all."""
    return charged(positions, charges, cell, batch_idx).systems
