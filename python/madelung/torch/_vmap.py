"""`vmap` over a call: one call of a larger batch where the declaration allows, else a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from madelung._schema import CHECKED, DIRECTED, is_one_mesh
from madelung.torch._schema import Op

_LARGEST = torch.iinfo(torch.int32).max


def batched(
    op: Op, call: Callable[..., Sequence[Any]], size: int, in_dims: Sequence[Any], args: Sequence[Any]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The results of `size` calls, along a new first axis, and where that axis is."""
    args = [x.movedim(d, 0) if d is not None else x for x, d in zip(args, in_dims)]
    mapped = [d is not None for d in in_dims]
    # Calls with lists in clusters are large, and ranges of rows are none of a larger call.
    lists = (x.dim() - m for i, x, m in zip(op.inputs, args, mapped) if i.part in ("ptr", "others"))
    # Sizes of meshes are numbers of the host, the same for all calls.
    has_sizes = any(m for i, m in zip(op.inputs, mapped) if i.part == "meshes")
    if size and op.stackable and not has_sizes and all(axes == 1 for axes in lists) and not _has_room(op, args):
        stacked = _stack(op, size, mapped, args)
        if stacked is not None:
            results = call(*stacked)
            return _apart(size, results)
    return _loop(call, size, mapped, args)


def _has_room(op: Op, args: Sequence[Any]) -> bool:
    """Whether a list has room behind its last pair, which a larger list would take for pairs, or none for all of them,
    or is out of date. Where its offsets cannot be read, one that a search of a grid has just made may have."""
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    for k in (k for k, i in enumerate(op.inputs) if i.part == "ptr"):
        ptr, pairs, kind = args[k], args[k + 1].shape[-1], args[k + 3]
        is_known = type(ptr) is torch.Tensor and ptr.is_cpu and not wrapped(ptr)
        # One that is out of date does not begin at 0.
        if not ((ptr[..., 0] == 0) & (ptr[..., -1] == pairs)).all() if is_known else kind == DIRECTED + CHECKED:
            return True
    return False


def _stack(op: Op, size: int, mapped: Sequence[bool], args: Sequence[Any]) -> list[Any] | None:
    """The arguments of one call with the systems of all; None where an i32 cannot number their elements."""
    n = len(op.inputs)
    dims = op.dims(args[:n], lambda k, x: x.shape[1:] if mapped[k] else x.shape)
    if any(size * dim > _LARGEST for dim in dims.values()):
        return None

    def together(k: int, offset: int | None = None) -> Any:
        x = args[k] if mapped[k] else args[k].unsqueeze(0).expand(size, *args[k].shape)
        if offset is not None:
            starts = offset * torch.arange(size, device=x.device, dtype=x.dtype)
            x = x + starts.view(-1, *[1] * (x.dim() - 1))
        return x.reshape(-1, *x.shape[2:])

    out: list[Any] = []
    for k, i in enumerate(op.inputs):
        arg = op.args[i.arg]
        if i.part in ("real", "ints", "others", "shifts"):
            absent = bool(arg.get("zero")) and args[k].dim() == 1 and not mapped[k]
            offset = dims[arg["columns"]] if i.part == "others" else None
            out.append(args[k] if absent else together(k, offset))
        elif i.part == "batch_idx":
            out.append(together(k, dims[arg["systems"]]))
        elif i.part == "map_of":
            out.append(together(k, dims[arg["into"]]))
        elif i.part == "ptr":
            out.append(_offsets(args[k], mapped[k], size, args[k + 1].shape[1 if mapped[k + 1] else 0]))
        elif i.part in ("systems", "columns", "into"):
            out.append(args[k] * size)
        elif i.part == "meshes":
            # The numbers of one mesh serve the systems of all calls; those of a mesh for each system are repeated.
            out.append(args[k] if is_one_mesh(args[k].shape[0]) else args[k].repeat(size))
        else:
            out.append(args[k])
    for k in range(n, len(args)):
        x = args[k]
        out.append(together(k) if isinstance(x, torch.Tensor) else x)
    return out


def _offsets(ptr: Any, mapped: bool, size: int, pairs: int) -> Any:
    """The offsets of rows in concatenated lists."""
    starts = ptr[:, :-1] if mapped else ptr[:-1].unsqueeze(0).expand(size, -1)
    begin = pairs * torch.arange(size, device=ptr.device, dtype=torch.int64)
    return torch.cat([(starts + begin[:, None]).reshape(-1), begin.new_full((1,), pairs * size)])


def _apart(size: int, results: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    out = [None if x is None else x.reshape(size, x.shape[0] // size, *x.shape[1:]) for x in results]
    return tuple(out), tuple(None if x is None else 0 for x in out)


def _loop(
    call: Callable[..., Sequence[Any]], size: int, mapped: Sequence[bool], args: Sequence[Any]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    if not size:
        raise ValueError("vmap: expected a mapped axis with at least one element, got none")
    calls = [call(*[x[b] if m else x for x, m in zip(args, mapped)]) for b in range(size)]
    for xs in zip(*calls):
        shapes = {tuple(x.shape) for x in xs if x is not None}
        if len(shapes) > 1:
            raise ValueError(f"`capacity`: expected one number of pairs for all calls of `vmap`, got {sorted(shapes)}")
    out = [None if xs[0] is None else torch.stack(xs) for xs in zip(*calls)]
    return tuple(out), tuple(None if x is None else 0 for x in out)
