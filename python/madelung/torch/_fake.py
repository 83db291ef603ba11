"""The shapes and dtypes of a call's results, without computing them: for tracing, with symbolic sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from madelung._schema import DIRECT, GRADIENT, GRADIENT_TANGENT, SAVING
from madelung.torch._schema import Op


def kernel(op: Op, member: str) -> Callable[..., Any]:
    """The fake kernel of a member."""
    count = len(op.inputs)

    rooms = {size["attr"] for o in op.outputs for size in o["shape"] if "attr" in size}

    def room(n: int, x: Any) -> Any:
        # A capacity of as many as a search finds.
        found = op.inputs[n].name in rooms and x < 0
        return torch.library.get_ctx().new_dynamic_size() if found else x

    def fake(*args: Any) -> Any:
        flat = [room(n, x) for n, x in enumerate(args[:count])]
        op.check(flat)
        like, dims = flat[op.tensors[0]], op.dims(flat)
        dtype = op.dtype(flat)

        def absent() -> torch.Tensor:
            return like.new_empty((0,), dtype=dtype)

        def gradient(n: int) -> torch.Tensor:
            arg = op.args[op.inputs[n].arg]
            of = flat[n].dtype if arg["stored"] else dtype
            return like.new_empty(op.shape(arg["shape"], flat, dims), dtype=of)

        results = []
        if member not in (GRADIENT, GRADIENT_TANGENT):
            results = [
                like.new_empty(op.shape(o["shape"], flat, dims), dtype=op.output_dtype(o, flat)) for o in op.outputs
            ]
        if member in (DIRECT, GRADIENT, GRADIENT_TANGENT):
            results += [gradient(n) if args[-1] >> bit & 1 else absent() for bit, n in enumerate(op.reals)]
        if member == SAVING:
            names = {f"gradient by {op.inputs[n].name}": (bit, n) for bit, n in enumerate(op.reals)}
            arrays = {s["name"]: s["shape"] for s in op.scratch if s["saved"]}
            for name in op.saves:
                if name in arrays:
                    results.append(like.new_empty(op.shape(arrays[name], flat, dims), dtype=dtype))
                else:
                    bit, n = names[name]
                    results.append(gradient(n) if args[-1] >> bit & 1 else absent())
        return results[0] if len(results) == 1 else tuple(results)

    return fake
