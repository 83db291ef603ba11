"""How autograd meets the ops: eagerly, under `torch.func` and forward mode, and in graphs.

Each member of a family is called in one of three ways.

* Eagerly through a `Function` of the old style, whose `forward` has the context: it costs a fourth of the other style.
* Under a transform of `torch.func`, or with forward mode on, through a `Function` with `setup_context`, `jvp` and
  `vmap`.
* In graphs (compile, export) through the op that autograd knows: functions would be inlined there, and on PyTorch
  before 2.15 transforms in the graph would then differentiate past the op, silently.

The private ops are called only where autograd is done with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import Function
from torch.autograd import forward_ad as _forward_ad

from madelung.torch._family import Call, bits
from madelung.torch._schema import GRADIENT, GRADIENT_TANGENT, SAVING, VALUE, Op
from madelung.torch._vmap import batched

_is_compiling = torch.compiler.is_compiling
_transforms_active: Callable[[], bool] = torch._C._are_functorch_transforms_active
_grad_enabled = torch.is_grad_enabled

# Stands for a tensor that is zero. Never written to, and never part of a graph.
_ABSENT = torch.empty(0)


class Member:
    """A member of an op's family, in every way in which it can be called."""

    def __init__(self, op: Op, member: str, family: Family) -> None:
        self.op, self.member, self.family = op, member, family
        self.private = op.overload(member, private=True)
        self.public = op.overload(member, private=False)
        self.is_gradient = member in (GRADIENT, GRADIENT_TANGENT)
        self.extras = op.extras(member)
        end = len(op.inputs)
        tensors = [*op.tensors, *range(end, end + self.extras)]
        self.tensors, self.numbers = tensors, op.numbers
        self.single = len(op.outputs if not self.is_gradient else op.reals) == 1
        # Inputs that may carry derivatives: whoever else does is an integer.
        self.carriers = [*op.reals, *range(end, end + self.extras)]
        self.eager, self.functional = _eager(self), _functional(self)

    def run_private(self, args: Sequence[Any], want: int) -> Sequence[Any]:
        """The kernel, with None for zero among what follows the inputs."""
        return self._run(self.private, args, want, _ABSENT)

    def run_public(self, args: Sequence[Any], want: int) -> Sequence[Any]:
        """The op that autograd knows."""
        return self._run(self.public, args, want, None)

    def _run(self, overload: Callable[..., Any], args: Sequence[Any], want: int, absent: Any) -> Sequence[Any]:
        if not self.extras:
            results = overload(*args)
            return (results,) if self.single else results
        n = len(self.op.inputs)
        given = args[n : n + self.extras]
        mask = bits([x is not None for x in given])
        if absent is None and mask + 1 != 1 << self.extras:
            absent = args[self.op.tensors[0]].new_empty(0, dtype=torch.float32)
        full = [absent if x is None else x for x in given]
        if not self.is_gradient:
            results = overload(*args[:n], *full, mask)
            return (results,) if self.single else results
        results = overload(*args[:n], *full, mask, want)
        if self.single:
            results = (results,)
        return tuple(g if want >> bit & 1 else None for bit, g in enumerate(results))

    def __call__(self, args: Sequence[Any], want: int) -> Sequence[Any]:
        """The call that is right here and now, outside graphs."""
        if _transforms_active() or _forward_ad._current_level >= 0:
            return self.functional.apply(*args, want)
        if _grad_enabled():
            for n in self.carriers:
                if args[n] is not None and args[n].requires_grad:
                    return self.eager.apply(*args, want)
        return self.run_private(args, want)


class Family:
    """All members of an op."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.members = {name: Member(op, name, self) for name in op.members if name != SAVING}
        self.saving = op.overload(SAVING, private=True) if SAVING in op.members else None

    def run(self, member: str, flat: Sequence[Any], extra: Sequence[Any], want: int) -> Sequence[Any]:
        """A member, eagerly."""
        return self.members[member]((*flat, *extra), want)

    def run_public(self, member: str, flat: Sequence[Any], extra: Sequence[Any], want: int) -> Sequence[Any]:
        """A member, in a graph."""
        return self.members[member].run_public((*flat, *extra), want)


def _needed(flags: Sequence[bool], args: Sequence[Any]) -> list[bool]:
    """Whose gradients somebody needs: what is None stands for zero and has none."""
    return [need and x is not None for need, x in zip(flags, args)]


def _keep(m: Member, ctx: Any, args: Sequence[Any], saved: Sequence[Any] = ()) -> None:
    """What the rules need later."""
    ctx.save_for_backward(*[args[n] for n in m.tensors], *saved)
    ctx.numbers = [args[n] for n in m.numbers]
    ctx.want = args[-1]
    ctx.set_materialize_grads(False)


def _kept(m: Member, ctx: Any, tensors: Sequence[Any]) -> list[Any]:
    """The arguments again, without `want`."""
    args: list[Any] = [None] * (len(m.op.inputs) + m.extras)
    for n, x in zip(m.tensors, tensors):
        args[n] = x
    for n, x in zip(m.numbers, ctx.numbers):
        args[n] = x
    return args


def _mark(m: Member, ctx: Any, results: Sequence[Any]) -> None:
    """Integers have no derivatives."""
    if not m.is_gradient and len(m.op.smooth) != len(m.op.outputs):
        ctx.mark_non_differentiable(*[x for n, x in enumerate(results) if n not in m.op.smooth])


def _cotangents(m: Member, v: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(v) if m.is_gradient else tuple(x if n in m.op.smooth else None for n, x in enumerate(v))


def _eager(m: Member) -> type[Function]:
    """The function of ordinary eager calls."""
    count = len(m.op.tensors) + m.extras

    class Eager(Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            saved: Sequence[Any] = ()
            saving = m.family.saving
            if saving is not None and m.member == VALUE:
                want = bits([ctx.needs_input_grad[n] for n in m.op.reals])
                outputs = len(m.op.outputs)
                results = saving(*args[:-1], want)
                results, saved = results[:outputs], results[outputs:]
            else:
                results = m.run_private(args[:-1], args[-1])
            _keep(m, ctx, args, saved)
            _mark(m, ctx, results)
            return tuple(results)

        @staticmethod
        def backward(ctx: Any, *v: Any) -> Any:
            tensors = ctx.saved_tensors
            args = _kept(m, ctx, tensors)
            call = Call.parse(m.op, m.member, args, ctx.want)
            needs = _needed(ctx.needs_input_grad, args)
            saved = tuple(tensors[count:])
            run = m.family.run
            if not saved:
                return (*call.backward(run, _cotangents(m, v), needs), None)
            if all(x is None for x in v):
                return (None,) * (len(args) + 1)
            # What was saved belongs to the values as they were: the gradient is a scale of it.
            want = [needs[n] for n in m.op.reals]
            present = [x if x.shape != (0,) else None for x in saved]
            gradients = run(GRADIENT, call.flat, [*_cotangents(m, v), *present], bits(want))
            grads: list[Any] = [None] * (len(args) + 1)
            for n, g in zip(m.op.reals, gradients):
                grads[n] = g
            return tuple(grads)

    Eager.__name__ = Eager.__qualname__ = f"{m.op.name}{m.member}"
    return Eager


def _functional(m: Member) -> type[Function]:
    """The function under transforms."""

    class Functional(Function):
        @staticmethod
        def forward(*args: Any) -> Any:
            return tuple(m.run_private(args[:-1], args[-1]))

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            _keep(m, ctx, inputs)
            ctx.save_for_forward(*[inputs[n] for n in m.tensors])
            _mark(m, ctx, output)

        @staticmethod
        def backward(ctx: Any, *v: Any) -> Any:
            args = _kept(m, ctx, ctx.saved_tensors)
            call = Call.parse(m.op, m.member, args, ctx.want)
            needs = _needed(ctx.needs_input_grad, args)
            return (*call.backward(m.family.run, _cotangents(m, v), needs), None)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            args = _kept(m, ctx, ctx.saved_tensors)
            call = Call.parse(m.op, m.member, args, ctx.want)
            return tuple(call.tangent(m.family.run, tangents))

        @staticmethod
        def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
            return batched(m.op, lambda *a: m(a[:-1], a[-1]), info.batch_size, in_dims, args)

    Functional.__name__ = Functional.__qualname__ = f"{m.op.name}{m.member}"
    return Functional


def register_autograd(m: Member) -> None:
    """The formula of the op that graphs see."""
    op, n = m.op, len(m.op.inputs)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        mask = inputs[n + m.extras] if m.extras else 0
        ctx.present = [bool(mask >> k & 1) for k in range(m.extras)]
        want = inputs[-1] if m.is_gradient else 0
        _keep(m, ctx, (*inputs[: n + m.extras], want))
        ctx.trailing = len(inputs) - n - m.extras

    def backward(ctx: Any, *v: Any) -> Any:
        args = _kept(m, ctx, ctx.saved_tensors)
        args[n:] = [x if there else None for x, there in zip(args[n:], ctx.present)]
        call = Call.parse(op, m.member, args, ctx.want)
        needs = _needed(ctx.needs_input_grad, args)
        return (*call.backward(m.family.run_public, _cotangents(m, v), needs), *(None,) * ctx.trailing)

    torch.library.register_autograd(f"{op.namespace}::{op.name}{m.member}", backward, setup_context=setup_context)


def callable_of(op: Op) -> Callable[..., Any]:
    """The function that calls an op, whatever is going on around it."""
    family = Family(op)
    value = family.members[VALUE]
    for m in family.members.values():
        register_autograd(m)
    private, public, single = value.private, value.public, value.single
    eager, functional, reals = value.eager, value.functional, op.reals

    def call(*args: Any) -> Any:
        if _is_compiling():
            if _forward_ad._current_level >= 0:
                raise NotImplementedError(
                    f"{op!r}: PyTorch drops the tangents of custom ops in compiled graphs; take forward mode outside of "
                    "`torch.compile`, or leave this call out of the graph (`torch.compiler.disable`)"
                )
            return public(*args)
        if _transforms_active() or _forward_ad._current_level >= 0:
            results = functional.apply(*args, 0)
            return results[0] if single else results
        if _grad_enabled():
            for n in reals:
                if args[n].requires_grad:
                    results = eager.apply(*args, 0)
                    return results[0] if single else results
        return private(*args)

    call.__name__ = call.__qualname__ = op.short
    call.__doc__ = f"`{op!r}`: {', '.join(i.name for i in op.inputs)}."
    return call
