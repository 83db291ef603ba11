"""PyTorch behind public functions and kernels: the part that is the same in every mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from madelung import _arguments as check
from madelung import _neighbors as _found
from madelung._functions.framework import Common, Result, with_unit_cells
from madelung.torch import _inputs as given
from madelung.torch import _ops
from madelung.torch._least import Least


class Calls(Common):
    """The part of `madelung._functions.framework.Framework` that is the same in every mode."""

    keeps_room, kept = False, staticmethod(given.kept)

    @staticmethod
    def is_own(x: Any) -> bool:
        return isinstance(x, torch.Tensor)

    @staticmethod
    def atoms(system: Any) -> tuple[Any, Any, Any]:
        return system.positions, system.lattice, system.atoms

    @staticmethod
    def op(name: str, *inputs: Any) -> tuple[torch.Tensor, ...]:
        found = getattr(_ops, name)(*inputs)
        return found if isinstance(found, tuple) else (found,)

    @classmethod
    def segments(cls, arrays: dict[str, Any], segment_idx: Any, num_segments: Any) -> tuple[list[Any], Any, Any]:
        """See `Framework`; the op checks the indices."""
        (first, x), *others = arrays.items()
        if x.dim() == 0:
            check.fits(first, x, ("P",))
        for name, y in others:
            given.expect(name, y, x)
            check.alike(name, y, first, x)
        if num_segments is None:
            segments = cls.last_segment(segment_idx, x)
        elif isinstance(num_segments, (int, torch.SymInt)) and not isinstance(num_segments, bool):
            segments = num_segments
        else:
            segments = check.count("num_segments", num_segments)
        return list(arrays.values()), segment_idx, segments

    @staticmethod
    def last_segment(segment_idx: Any, like: torch.Tensor) -> int:
        """One more than the last index, which is read."""
        if given.is_traced(segment_idx):
            check.refuse("num_segments", "the number of segments, where the indices have no values", "None")
        last = given.view("segment_idx", segment_idx[-1:], like)
        return int(last[0]) + 1 if len(last) else 0

    @staticmethod
    def channels(charges: Any) -> Sequence[Any]:
        return charges.unbind(1) if charges.dim() == 2 else [charges]

    @staticmethod
    def opened(system: Any, pbc: Any, own: tuple[float, float]) -> tuple[Any, torch.Tensor]:
        h, axes = system.lattice, pbc
        if pbc is not None and not (isinstance(pbc, torch.Tensor) and given.is_traced(pbc)):
            values = check.periodic(given.view("pbc", pbc) if isinstance(pbc, torch.Tensor) else pbc)
            axes = torch.tensor(values.tolist(), device=h.device)
        cells, numbers = with_unit_cells(torch.where, h, torch.eye(3, dtype=h.dtype, device=h.device), axes, own)
        return system._replace(lattice=cells), numbers.to(h.dtype).expand(system.systems)

    @staticmethod
    def stacked(arrays: Sequence[torch.Tensor], axis: int = 1) -> torch.Tensor:
        return torch.stack(list(arrays), axis)

    @staticmethod
    def joined(arrays: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.cat(list(arrays))

    @staticmethod
    def integer_list(values: Sequence[int]) -> torch.Tensor:
        """See `Framework`: a tensor on the CPU, as the dispatcher's kernels take no lists."""
        return torch.tensor(values, dtype=torch.int64, device="cpu")

    @staticmethod
    def where(systems: Any, value: Any, x: torch.Tensor) -> torch.Tensor:
        chosen = systems if isinstance(systems, torch.Tensor) else torch.tensor(systems, device=x.device)
        value = x.new_tensor(value)
        return torch.where(chosen.reshape(-1, *[1] * value.dim()), value, x)

    @staticmethod
    def minimum(form: Any, slopes: torch.Tensor, start: torch.Tensor, arrays: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return Least.apply(form, slopes, start, *arrays)

    @staticmethod
    def apart(idx: torch.Tensor, columns: Any, segments: Any) -> torch.Tensor:
        columns = torch.arange(columns, dtype=idx.dtype, device=idx.device)
        return (columns[:, None] * segments + idx).reshape(-1)

    @classmethod
    def search(cls, name: str, *inputs: Any) -> tuple[torch.Tensor, ...]:
        return cls.op(name, *(x.detach() if isinstance(x, torch.Tensor) else x for x in inputs))

    @staticmethod
    def numbers(values: np.ndarray, like: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(values, dtype=like.dtype, device=like.device)

    @staticmethod
    def reals(
        name: str,
        x: Any,
        shape: Sequence[int | str],
        like: torch.Tensor,
        other: str | None = None,
        exact: bool = False,
    ) -> torch.Tensor:
        """See `Framework`; the ops of public functions check theirs."""
        if other is not None:
            return given.reals_beside(name, x, shape, like, other)
        x = x if isinstance(x, torch.Tensor) else given.tensor_of(name, x, like)
        return given.exact(x, like) if exact else x

    @staticmethod
    def integers(name: str, x: Any, shape: Sequence[int | str], by_name: bool = False, wide: bool = False) -> Any:
        """See `Framework`; the ops of public functions check theirs."""
        return given.integers(name, x, shape, None) if by_name else x

    @staticmethod
    def full(shape: Sequence[Any], x: float, like: torch.Tensor) -> torch.Tensor:
        return torch.full(list(shape), x, dtype=like.dtype, device=like.device)

    @classmethod
    def counted(cls, name: str, *inputs: Any) -> tuple[torch.Tensor, ...]:
        return cls.search(name, *inputs)

    @staticmethod
    def widened(x: Any, like: Any = None) -> Any:
        return x.to(torch.float32 if like is None else like.dtype) if getattr(x, "dtype", None) in given.HALF else x

    @staticmethod
    def rounded(x: torch.Tensor, like: Any) -> torch.Tensor:
        return x.to(like.dtype) if getattr(like, "dtype", None) in given.HALF else x

    @staticmethod
    def default_real() -> torch.Tensor | None:
        dtype = torch.get_default_dtype()
        return None if dtype == torch.float64 else torch.empty(0, dtype=dtype)

    @staticmethod
    def in_dtype(x: torch.Tensor, like: Any) -> torch.Tensor:
        return x.to(like.dtype)

    @staticmethod
    def taken(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        # Under `vmap` PyTorch 2.7 takes indices of 64 bits alone.
        return x.index_select(0, rows.long() if given.is_transformed(x) else rows)

    @classmethod
    def at(cls, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return cls.taken(x, rows.clamp(max=x.shape[0] - 1))

    @staticmethod
    def has_no_value(x: Any) -> bool:
        return isinstance(x, torch.Tensor) and given.is_traced(x)

    @staticmethod
    def is_readable(*arrays: Any) -> bool:
        return True not in [isinstance(x, torch.Tensor) and (not x.is_cpu or given.is_traced(x)) for x in arrays]

    @staticmethod
    def is_host(x: torch.Tensor) -> bool:
        return x.is_cpu

    is_differentiated, under_autocast = staticmethod(given.is_differentiated), staticmethod(given.under_autocast)

    @staticmethod
    def axes(name: str, x: Any, system: Any) -> torch.Tensor:
        if not isinstance(x, torch.Tensor):
            plain = _found.plain_axes(x)
            if plain is not None and plain[0] in ((True,) * 3, (False,) * 3) and len(plain) == 1:
                # Filled where it lies, as captured graphs can.
                full = (system.systems, 3)
                return system.positions.new_full(full, int(plain[0][0]), dtype=torch.int32)
            x = torch.tensor(_found.axes_of_systems(name, x, system.systems) if plain is None else plain)
        rows = x.expand(1, 3) if x.dim() < 2 and x.shape in ((), (3,)) else x
        if rows.dim() != 2 or rows.shape[1] != 3 or x.is_floating_point():
            check.refuse(name, "flags of shape (3,) or (B, 3)", f"{x.dtype} {tuple(x.shape)}")
        _found.axes_fit(name, rows.shape[0], system.systems)
        return (rows != 0).to(system.positions.device, torch.int32).expand(system.systems, 3)

    @staticmethod
    def indices(values: np.ndarray, like: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(values, dtype=torch.int32, device=like.device)

    @staticmethod
    def without_derivatives(function: Callable[[], Result]) -> Result:
        with torch.no_grad():
            return function()

    @staticmethod
    def check_output(name: str, out: Any, shape: Sequence[int], dtype: Any, like: Any) -> None:
        given.expect(name, out)
        if out.device != like.device:
            check.refuse(name, f"a tensor on {like.device}", f"one on {out.device}")
        if out.dtype != dtype:
            check.refuse(name, given.short(dtype), given.short(out.dtype), TypeError)
        check.fits(name, out, shape)
        if out.requires_grad:
            check.refuse(name, "a tensor without gradient", "one that requires it")
        if out.numel() and any([n > 1 and stride == 0 for n, stride in zip(out.shape, out.stride())]):
            check.refuse(name, "a tensor with memory for each element", "one that was expanded")
        if out.is_inference() and not torch.is_inference_mode_enabled():
            check.refuse(name, "a tensor that can be written to", "one of inference mode")

    @staticmethod
    def overlap(out: torch.Tensor, x: Any) -> bool:
        if not isinstance(x, torch.Tensor) or not out.numel() or not x.numel():
            return False
        before, after = out.data_ptr(), x.data_ptr()
        return after < _end(out, before) if before <= after else before < _end(x, after)

    @staticmethod
    def write(out: torch.Tensor, x: torch.Tensor) -> None:
        out.copy_(x)


def _end(x: torch.Tensor, first: int) -> int:
    """The address of the byte behind a tensor's last one."""
    if x.is_contiguous():
        return first + x.numel() * x.element_size()
    last = sum((n - 1) * stride for n, stride in zip(x.shape, x.stride()))
    return first + (last + 1) * x.element_size()
