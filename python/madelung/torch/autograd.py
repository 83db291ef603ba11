"""Derivatives of functions made of several kernels and PyTorch's own operations.

Every kernel is an op that autograd knows, so the graph of PyTorch is the tape. `custom_op` makes one opaque op of a
Python function, with two derivatives, `vmap` and graphs. The other names are for an `autograd.Function` by hand, whose
`backward` is that of what its `forward` computed under `tape_if`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NamedTuple

import torch
from torch.autograd.function import FunctionCtx

from madelung import _arguments as check
from madelung.kernels import OutputSpec
from madelung.torch._custom_op import custom_op, recording

__all__ = [
    "OutputSpec",
    "Region",
    "attach_for_backward",
    "custom_op",
    "extract_gradients",
    "needs_grad",
    "retrieve_for_backward",
    "standard_backward",
    "tape_if",
]


def needs_grad(*tensors: torch.Tensor | None) -> bool:
    """Whether one of the tensors requires a gradient."""
    for x in tensors:
        if x is not None and not isinstance(x, torch.Tensor):
            check.refuse("tensors", "tensors, or None", check.described(x), TypeError)
    return any(x is not None and x.requires_grad for x in tensors)


class Region:
    """Region of `tape_if`, and the tensors in it by which results are differentiated. PyTorch keeps the record."""

    def __init__(self, flag: bool) -> None:
        self.records = flag
        # By the identity of a tensor in the region: it, and the one that was given for it.
        self.watched: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def watch(self, *tensors: torch.Tensor) -> Any:
        """The tensors for use in the region, cut off from the graph around it: one as it is, several as a tuple.

        Those that require a gradient do so here. Where nothing is recorded all come as they are.
        """
        found = []
        for x in tensors:
            if not isinstance(x, torch.Tensor):
                check.refuse("tensors", "tensors", check.described(x), TypeError)
            leaf = x.detach().requires_grad_(x.requires_grad) if self.records else x
            self.watched[id(leaf)] = leaf, x
            found.append(leaf)
        return found[0] if len(found) == 1 else tuple(found)


class tape_if(AbstractContextManager):
    """Region in which gradients are recorded if `flag` is true, and are not otherwise.

    Also within `autograd.Function.forward` and custom ops, where PyTorch records nothing by itself.
    """

    def __init__(self, flag: bool) -> None:
        self._flag, self._stack = check.flag("flag", flag), ExitStack()

    def __enter__(self) -> Region:
        self._stack.enter_context(recording() if self._flag else torch.no_grad())
        return Region(self._flag)

    def __exit__(self, *error: object) -> None:
        self._stack.close()


class Recorded(NamedTuple):
    """Record of a forward pass for its backward pass: results with their graph, and the tensors at its ends."""

    outputs: tuple[torch.Tensor, ...]
    inputs: tuple[Any, ...]
    """The arguments of `forward` in order: the watched tensors in place of those that were given."""
    given: tuple[torch.Tensor | None, ...]
    """The tensors that were given for the watched ones; None for other arguments."""


def attach_for_backward(ctx: Any, tape: Region, outputs: Any, inputs: Sequence[Any]) -> Any:
    """Outputs without their graph, for `forward` to return; the graph is kept on the context for the backward pass.

    Args:
        ctx: the context of an `autograd.Function`.
        tape: that of the region in which the outputs were computed.
        outputs: a tensor or several.
        inputs: the arguments of `forward` in their order, those that are differentiable as `tape.watch` gave them.

    Raises:
        TypeError, ValueError: For another context, or for arguments that are not those of `forward`.
    """
    if not isinstance(ctx, FunctionCtx):
        check.refuse("ctx", "the context of an `autograd.Function`", check.described(ctx), TypeError)
    if not isinstance(tape, Region):
        check.refuse("tape", "what `with tape_if(…) as tape` gives", check.described(tape), TypeError)
    several = (outputs,) if isinstance(outputs, torch.Tensor) else tuple(outputs)
    if not all(isinstance(x, torch.Tensor) for x in several):
        check.refuse("outputs", "a tensor, or several", check.described(outputs), TypeError)
    needs = ctx.needs_input_grad  # type: ignore[attr-defined]
    if len(inputs) != len(needs):
        check.refuse("inputs", f"the {len(needs)} arguments of `forward`", len(inputs))
    found = [tape.watched.get(id(x), (x, None)) for x in inputs]
    for n, (need, (x, given)) in enumerate(zip(needs, found)):
        if need and tape.records and given is None:
            check.refuse(f"inputs[{n}]", "what `tape.watch` gave for it, as it requires a gradient", check.described(x))
    ctx.save_for_backward(*(given for _, given in found))
    ctx.set_materialize_grads(False)  # type: ignore[attr-defined]
    ctx.recorded = several, tuple(x for x, _ in found)  # type: ignore[attr-defined]
    plain = [x.detach() for x in several]
    return plain[0] if isinstance(outputs, torch.Tensor) else tuple(plain)


def retrieve_for_backward(ctx: Any) -> Recorded:
    """Record that `attach_for_backward` has kept on a context."""
    if not hasattr(ctx, "recorded"):
        check.refuse("ctx", "a context that `attach_for_backward` was given in `forward`", check.described(ctx))
    return Recorded(*ctx.recorded, ctx.saved_tensors)


def extract_gradients(recorded: Recorded, grad_outputs: Sequence[torch.Tensor | None]) -> tuple[Any, ...]:
    """The gradients of what was recorded, by each argument of `forward`: None for those without.

    They are differentiable once more, by the arguments and by `grad_outputs`.

    Args:
        recorded: what `retrieve_for_backward` gives.
        grad_outputs: the derivatives by each output; None for zero.
    """
    v = tuple(grad_outputs)
    if len(v) != len(recorded.outputs):
        check.refuse("grad_outputs", f"one for each of the {len(recorded.outputs)} outputs", len(v))
    return _Gradients.apply(recorded, *recorded.given, *v)


def standard_backward(ctx: Any, *grad_outputs: torch.Tensor | None) -> Any:
    """Gradients by each argument of `forward`, for `backward` to return."""
    found = extract_gradients(retrieve_for_backward(ctx), grad_outputs)
    return found[0] if len(found) == 1 else found


class _Gradients(torch.autograd.Function):
    """Gradients along the graph of a `Recorded`, which ends where it was cut off from that around it."""

    @staticmethod
    def forward(ctx: Any, recorded: Recorded, *tensors: torch.Tensor | None) -> tuple[Any, ...]:
        count = len(recorded.inputs)
        inputs = [x if given is not None and x.requires_grad else None for x, given in zip(*recorded[1:])]
        with recording():
            v = [None if x is None else x.detach().requires_grad_() for x in tensors[count:]]
            found = _gradients(recorded.outputs, inputs, v, create_graph=True)
        ctx.save_for_backward(*tensors)
        ctx.ends, ctx.found = [*inputs, *v], found
        ctx.set_materialize_grads(False)
        return tuple(None if g is None else g.detach() for g in found)

    @staticmethod
    def backward(ctx: Any, *w: torch.Tensor | None) -> tuple[Any, ...]:
        return (None, *_Second.apply(ctx.ends, ctx.found, *w, *ctx.saved_tensors))


class _Second(torch.autograd.Function):
    """Gradients of `_Gradients` with weights `w`; what follows those is there to say that there is no third one."""

    @staticmethod
    def forward(ctx: Any, ends: Sequence[Any], found: Sequence[Any], *tensors: Any) -> tuple[Any, ...]:
        return tuple(_gradients(found, ends, tensors[: len(found)], create_graph=False))

    @staticmethod
    def backward(ctx: Any, *w: Any) -> Any:
        raise NotImplementedError(
            "`standard_backward`: expected at most two derivatives of what was recorded, got a third"
        )


def _gradients(outputs: Sequence[Any], ends: Sequence[Any], weights: Sequence[Any], create_graph: bool) -> list[Any]:
    """Gradients of Σ ⟨weights, outputs⟩ by those ends of its graph that are not None."""
    used = [(y, w) for y, w in zip(outputs, weights) if y is not None and w is not None and y.requires_grad]
    leaves = [x for x in ends if x is not None]
    if not used or not leaves:
        return [None] * len(ends)
    results, along = zip(*used)
    options = {"retain_graph": True, "create_graph": create_graph, "allow_unused": True}
    left = iter(torch.autograd.grad(results, leaves, along, **options))
    return [None if x is None else next(left) for x in ends]
