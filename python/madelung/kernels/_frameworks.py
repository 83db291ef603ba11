"""The framework of a call, by its arrays, and the functions that call an op in each.

A framework is imported when arrays of it are first given: who uses one needs no other.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from madelung import _arguments as check
from madelung._neighbors import Neighbors
from madelung.kernels._types import HashGrid

if TYPE_CHECKING:
    from madelung.kernels._bind import Call


def mapped(name: str, x: Any, f: Callable[[str, Any], Any]) -> Any:
    """An argument whose arrays, each under a name of its own, are replaced."""
    if isinstance(x, HashGrid):
        parts = {part: f(f"{name}: {part}", getattr(x, part)) for part in HashGrid.ARRAYS}
        # What a grid keeps is lost with a new one.
        return x if all(made is getattr(x, part) for part, made in parts.items()) else replace(x, **parts)
    if isinstance(x, (tuple, list)):
        return type(x)([f(f"{name}: {n}", y) for n, y in enumerate(x)])
    return f(name, x)


def rooms_of(
    call: Call, flat: Sequence[Any], given: Mapping[str, Any], outputs: Mapping[int, tuple[str, Any]]
) -> list[Any]:
    """The arrays of the caller in which an op's results are computed, in its order; None where they are copied.

    All of them are checked before anything is written. `flat` are the inputs; `outputs` are the caller's names and
    arrays by the number of the result.
    """
    op, f = call.op, call.f
    # PyTorch's integers of the host are a tensor.
    flat = [tuple(map(int, x)) if i.part == "meshes" else x for i, x in zip(op.inputs, flat)]
    names = {name for name, _ in outputs.values()}
    others = [(name, y) for name, x in given.items() if name not in names for y in _arrays(x)]
    dims, found = op.dims(flat), [None] * len(op.outputs)
    for n, (name, out) in outputs.items():
        shape = tuple(op.shape(op.outputs[n]["shape"], flat, dims))
        like = flat[op.tensors[0]] if op.tensors else out
        dtype = op.output_dtype(op.outputs[n], flat)
        is_rounded = call.rounds_to is not None and op.outputs[n]["dtype"] is None
        f.check_output(name, out, shape, call.rounds_to.dtype if is_rounded else dtype, like)
        for other, x in others:
            if f.overlap(out, x):
                check.refuse(name, "memory of its own", f"that of `{other}`")
        others.append((name, out))
        found[n] = None if is_rounded else f.room(out)
    return found


def _arrays(x: Any) -> Sequence[Any]:
    """The arrays of an argument, which may be several."""
    if isinstance(x, Neighbors):
        return x.index, x.columns, x.images
    if isinstance(x, HashGrid):
        return [getattr(x, part) for part in HashGrid.ARRAYS]
    return x if isinstance(x, (tuple, list)) else (x,)


class Calls:
    """An op's functions, one for each framework."""

    def __init__(self, target: Callable[[], Any]) -> None:
        # By framework: what opens a call, the op as it has it, the function that calls it with all inputs in order, and
        # which of these are repeated (see `Repeated`).
        self.made: dict[str, tuple[Any, Any, Callable[..., Any], Any]] = {}

        def prepare(framework: str) -> bool:
            """Registers the op with a framework where it was not."""
            if framework not in self.made:
                module = importlib.import_module(f"madelung.{framework}._kernels")
                self.made[framework] = (module.opened, *module.add(target()), getattr(module, "repeats", None))
            return True

        # `torch.compiler.assume_constant_result`: where the first call is compiled, this runs while it is traced.
        prepare._dynamo_marked_constant = True  # type: ignore[attr-defined]
        self.prepare = prepare

    def of(self, framework: str) -> tuple[Any, Any, Callable[..., Any], Any]:
        """See `made`."""
        self.prepare(framework)
        return self.made[framework]
