"""Eager calls of an op's values as straight lines: Python source that is made from the op's description at import.

Loops over inputs, outputs and residuals, which each call of a general function repeats, are unrolled here once. The
source is registered with `linecache`, so tracebacks and debuggers show it.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import torch
from torch.autograd import Function
from torch.autograd import forward_ad as _forward_ad

from madelung._schema import GRADIENT, VALUE
from madelung.torch._lists import MANY, Lists, remember

if TYPE_CHECKING:
    from madelung.torch._autograd import Family

# A private name of PyTorch, unchanged from 2.7 to 2.15, like `_current_level`.
transforms_active: Callable[[], bool] = torch._C._are_functorch_transforms_active

Given, Result = ParamSpec("Given"), TypeVar("Result")

_WHY = (
    "sizes depend on values here: make lists, cutoffs, alpha, Miller indices and `slab_height` outside of the graph, "
    "and give them; where one of them is open, `pbc` has to be flags of Python (`pbc.tolist()`)"
)


def not_compiled(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """`torch.compiler.disable`, but importing the compiler (1.5 s) when the function is called, not when it is made."""
    disabled = torch._disable_dynamo(function)
    # By these names, unchanged from 2.7 to 2.15, a graph that may not break says why it would.
    disabled._torchdynamo_disable, disabled._torchdynamo_disable_msg = True, _WHY
    return disabled


# Stands for a tensor that is zero. Never written to, and never part of a graph.
ABSENT = torch.empty(0)

# The arguments of the function are the differentiable inputs, and then all inputs as one tuple: each argument costs
# PyTorch 0.7 µs.
_TEMPLATE = """\
def requires_graph(flat):
    return grad_enabled() and ({required})


def forward(ctx, {reals}flat):
    {compute}
    ctx.save_for_backward({kept_tensors})
    ctx.numbers = {kept_numbers}
    ctx.set_materialize_grads(False)
    {mark}
    return {returned}


def backward(ctx, {cotangents}):
    if {nothing_comes}:
        return {nothing}
    {tensors} = ctx.saved_tensors
    {numbers} = ctx.numbers
    needs = ctx.needs_input_grad
    follows = grad_enabled() or transforms_active() or forward_ad._current_level >= 0
    {scaled}
    want = {want}
    if follows:
        {gradients} = run(GRADIENT, ({inputs},), ({extra}), want)
    else:
        {computed} = gradient({inputs}, {present}, {mask}, want)
    return {results}


def call(*flat):
    if transforms_active() or forward_ad._current_level >= 0:
        return functional(*flat, 0){single}
    pending = None
    try:
        if {long_list}:
            flat, pending = mark(flat)
        if requires_graph(flat):
            results = apply({applied}flat)
        else:
            results = kernel(*flat)
    except (AttributeError, IndexError, TypeError, RuntimeError):
        check_kinds(flat)
        raise
    if pending:
        remember(pending)
    return results
"""


def _tuple(parts: Sequence[str]) -> str:
    return "(" + "".join(f"{part}, " for part in parts) + ")"


def specialised(family: Family) -> tuple[Callable[..., Any], Callable[[Sequence[Any]], bool]]:
    """The function that calls an op outside of graphs, and whether a call of some inputs is part of one."""
    op, count = family.op, len(family.op.outputs)
    names = [f"x{n}" for n in range(len(op.inputs))]
    cotangents, kept = [f"v{k}" for k in range(count)], [f"s{k}" for k in range(len(op.saves))]
    gradients = [f"g{k}" for k in range(len(op.reals))]
    results, extra = [f"y{k}" for k in range(count)], [*cotangents, *kept]
    by = list(enumerate(op.reals))
    want = " | ".join(f"(needs[{k}] and {1 << k})" for k, _ in by)
    compute, returned = "results = kernel(*flat)", "results"
    scaled = ""
    if family.saving is not None:
        compute = f"needs = ctx.needs_input_grad\n    {', '.join([*results, *kept])} = saving(*flat, {want})"
        returned = results[0] if count == 1 else _tuple(results)
    elif len(op.smooth) != count:
        compute = f"{results[0] if count == 1 else _tuple(results)} = results = kernel(*flat)"
    if family.together:
        # The gradients of the energy of one system.
        products = _tuple([f"{s} * v0 if needs[{k}] else None" for k, s in enumerate(kept)] + ["None"])
        scaled = f"if not follows and v0.shape[0] == 1:\n        return {products}"
    integers = [results[k] for k in range(count) if k not in op.smooth]
    lists = Lists(op)
    columns = [f"flat[{n + 1}]" for n in lists.starts]
    text = _TEMPLATE.format(
        required=" or ".join(f"flat[{n}].requires_grad" for n in op.reals) or "False",
        reals="".join(f"r{n}, " for n in op.reals),
        compute=compute,
        kept_tensors=", ".join([f"flat[{n}]" for n in op.tensors] + kept),
        kept_numbers=_tuple([f"flat[{n}]" for n in op.numbers]),
        mark=f"ctx.mark_non_differentiable({', '.join(integers)})" if integers else "",
        returned=returned,
        cotangents=", ".join(cotangents),
        nothing_comes=" and ".join(f"{v} is None" for v in cotangents),
        nothing=_tuple(["None"] * (len(by) + 1)),
        tensors=_tuple([names[n] for n in op.tensors] + kept),
        numbers=_tuple([names[n] for n in op.numbers]),
        scaled=scaled,
        want=want or "0",
        gradients=_tuple(gradients),
        computed=gradients[0] if len(gradients) == 1 else _tuple(gradients),
        inputs=", ".join(names),
        extra="".join(f"{x}, " for x in extra),
        present=", ".join(f"ABSENT if {x} is None else {x}" for x in extra),
        mask=" | ".join(f"({x} is not None and {1 << k})" for k, x in enumerate(extra)),
        results=_tuple([f"{g} if needs[{k}] else None" for k, g in enumerate(gradients)] + ["None"]),
        single="[0]" if count == 1 else "",
        long_list=" or ".join(f"{c}.numel() >= MANY or {c}.is_cuda" for c in columns) or "False",
        applied="".join(f"flat[{n}], " for n in op.reals),
    )
    where = f"<{op!r}, specialised>"
    linecache.cache[where] = (len(text), None, text.splitlines(True), where)
    space: dict[str, Any] = {
        "ABSENT": ABSENT,
        "GRADIENT": GRADIENT,
        "MANY": MANY,
        "check_kinds": op.check_kinds,
        "forward_ad": _forward_ad,
        "functional": family.members[VALUE].functional.apply,
        "grad_enabled": torch.is_grad_enabled,
        "gradient": family.gradient,
        "kernel": family.members[VALUE].private,
        "mark": lists.mark,
        "remember": remember,
        "run": family.run,
        "saving": family.saving,
        "transforms_active": transforms_active,
        "__name__": __name__,
    }
    exec(compile(text, where, "exec"), space)
    rules = {rule: staticmethod(space[rule]) for rule in ("forward", "backward")}
    space["apply"] = type(op.name, (Function,), rules).apply
    return space["call"], space["requires_graph"]
