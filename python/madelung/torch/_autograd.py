"""Autograd of the ops: eager, under `torch.func` and forward mode, and in graphs.

Each member of a family is called in one of three ways.

* Eagerly through a `Function` of the old style, whose `forward` has the context: it costs a fourth of the other style.
  That of the values is made from source (`_specialised`), for the sake of small systems.
* Under a transform of `torch.func`, or with forward mode on, through a `Function` with `setup_context`, `jvp` and
  `vmap`.
* In graphs (compile, export) through the op that autograd knows: functions would be inlined there, and on PyTorch
  before 2.15 transforms in the graph would then differentiate past the op, silently.

The private ops are called only below autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._library.autograd import Info, make_autograd_impl
from torch.autograd import Function
from torch.autograd import forward_ad as _forward_ad

from madelung._derivative_rules import Call, bits
from madelung._schema import DIRECT, GRADIENT, GRADIENT_TANGENT, SAVING, VALUE
from madelung.torch._plain import plain
from madelung.torch._schema import Op
from madelung.torch._specialised import ABSENT, not_compiled, specialised
from madelung.torch._specialised import transforms_active as _transforms_active
from madelung.torch._vmap import batched

_is_compiling = torch.compiler.is_compiling
_grad_enabled = torch.is_grad_enabled


def kernel_of(op: Op, member: str) -> Callable[..., Any]:
    """The private op: of plain tensors without the dispatcher, else the function that its overload calls."""
    return plain(f"{op.namespace}.{op.name}{member}", op.overload(member, private=True)._op)


class Member:
    """A member of an op's family, in every way in which it can be called."""

    def __init__(self, op: Op, member: str, family: Family) -> None:
        self.op, self.member, self.family = op, member, family
        self.private = kernel_of(op, member)
        self.public = op.overload(member, private=False)
        self.is_gradient = member in (GRADIENT, GRADIENT_TANGENT)
        self.extras = op.extras(member)
        end = len(op.inputs)
        tensors = [*op.tensors, *range(end, end + self.extras)]
        self.tensors, self.numbers = tensors, op.numbers
        self.single = len(op.outputs if not self.is_gradient else op.reals) == 1
        # Inputs that may carry derivatives: all others are integers.
        self.carriers = [*op.reals, *range(end, end + self.extras)]
        self.no_tangents = (
            f"{op!r}{member}: PyTorch would drop the tangents of this op without a word. Call it by its function in "
            "`madelung.torch`, and take forward mode outside of `torch.compile` and exported graphs (or leave the call "
            "out of the graph: `torch.compiler.disable`)"
        )
        self.eager = None if member == VALUE else _eager(self)
        self.functional = _functional(self)

    def run_private(self, args: Sequence[Any], want: int) -> Sequence[Any]:
        """Calls the kernel, with None for zero among the tensors that follow the inputs."""
        return self._run(self.private, args, want, ABSENT)

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
        if self.eager is None:
            results = self.family.value(*args)
            return (results,) if self.single else results
        if _grad_enabled():
            for n in self.carriers:
                if args[n] is not None and args[n].requires_grad:
                    return self.eager.apply(*args, want)
        return self.run_private(args, want)


class Family:
    """All members of an op."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.gradient = kernel_of(op, GRADIENT) if GRADIENT in op.members else None
        # Whether the residuals are the gradients by all inputs, so that one pass with the energies has them.
        self.together = op.saves == [f"gradient by {op.inputs[n].name}" for n in op.reals]
        self.saving = None
        if SAVING in op.members:
            self.saving = kernel_of(op, DIRECT if self.together else SAVING)
        self.members = {name: Member(op, name, self) for name in op.members if name not in (SAVING, DIRECT)}
        # The op outside of graphs, and whether a call of some inputs is part of one.
        self.value, self.requires_graph = specialised(self)

    def run(self, member: str, flat: Sequence[Any], extra: Sequence[Any], want: int) -> Sequence[Any]:
        """A member, eagerly."""
        return self.members[member]((*flat, *extra), want)

    def run_public(self, member: str, flat: Sequence[Any], extra: Sequence[Any], want: int) -> Sequence[Any]:
        """A member, in a graph."""
        return self.members[member].run_public((*flat, *extra), want)


def _needed(flags: Sequence[bool], args: Sequence[Any]) -> list[bool]:
    """The arguments whose gradients are needed: None stands for zero and has none."""
    return [need and x is not None for need, x in zip(flags, args)]


def _keep(m: Member, ctx: Any, args: Sequence[Any]) -> None:
    """Saves the arguments that the derivative rules need."""
    ctx.save_for_backward(*[args[n] for n in m.tensors])
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


def _function(name: str, **rules: Callable[..., Any]) -> type[Function]:
    """A function under a name that graphs show."""
    return type(name, (Function,), {rule: staticmethod(f) for rule, f in rules.items()})


def _eager(m: Member) -> type[Function]:
    """The function of ordinary eager calls of the other members."""

    def forward(ctx: Any, *args: Any) -> Any:
        results = m.run_private(args[:-1], args[-1])
        _keep(m, ctx, args)
        return tuple(results)

    def backward(ctx: Any, *v: Any) -> Any:
        args = _kept(m, ctx, ctx.saved_tensors)
        call = Call.parse(m.op, m.member, args, ctx.want)
        needs = _needed(ctx.needs_input_grad, args)
        return (*call.backward(m.family.run, _cotangents(m, v), needs), None)

    return _function(f"{m.op.name}{m.member}", forward=forward, backward=backward)


def _functional(m: Member) -> type[Function]:
    """The function under transforms. Around a graph that was broken for one, its rules are not compiled either."""

    def forward(*args: Any) -> Any:
        return tuple(m.run_private(args[:-1], args[-1]))

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _keep(m, ctx, inputs)
        ctx.save_for_forward(*[inputs[n] for n in m.tensors])
        _mark(m, ctx, output)

    @not_compiled
    def backward(ctx: Any, *v: Any) -> Any:
        args = _kept(m, ctx, ctx.saved_tensors)
        call = Call.parse(m.op, m.member, args, ctx.want)
        needs = _needed(ctx.needs_input_grad, args)
        return (*call.backward(m.family.run, _cotangents(m, v), needs), None)

    @not_compiled
    def jvp(ctx: Any, *tangents: Any) -> Any:
        args = _kept(m, ctx, ctx.saved_tensors)
        call = Call.parse(m.op, m.member, args, ctx.want)
        return tuple(call.tangent(m.family.run, tangents))

    @not_compiled
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        return batched(m.op, lambda *a: m(a[:-1], a[-1]), info.batch_size, in_dims, args)

    return _function(
        f"{m.op.name}{m.member}",
        forward=forward,
        setup_context=setup_context,
        backward=backward,
        jvp=jvp,
        vmap=vmap,
    )


def _register_public(m: Member, library: torch.library.Library) -> None:
    """Registers the rules of the op that graphs see: its formula for autograd, and for `vmap`."""
    op, n, public = m.op, len(m.op.inputs), m.public

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

    formula = make_autograd_impl(public, Info(backward, setup_context))

    def autograd(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if _forward_ad._current_level >= 0 and any(has_tangent(args[k]) for k in m.carriers):
            raise NotImplementedError(m.no_tangents)
        return formula(keyset, *args, **kwargs)

    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        def call(*args: Any) -> Any:
            results = public(*args)
            return (results,) if m.single else results

        results, out_dims = batched(op, call, info.batch_size, in_dims, args)
        return (results[0], out_dims[0]) if m.single else (results, out_dims)

    name = f"{op.name}{m.member}"
    library.impl(name, autograd, "Autograd", with_keyset=True)
    torch.library.register_vmap(f"{op.namespace}::{name}", vmap, lib=library)


def has_tangent(x: Any) -> bool:
    """Whether a tensor has a derivative of forward mode."""
    return isinstance(x, torch.Tensor) and _forward_ad.unpack_dual(x).tangent is not None


def callable_of(op: Op, library: torch.library.Library) -> Callable[..., Any]:
    """The function that calls an op, in eager calls, under transforms and in graphs."""
    family = Family(op)
    value = family.members[VALUE]
    for m in family.members.values():
        _register_public(m, library)
    eager, public, no_tangents = family.value, value.public, value.no_tangents

    def call(*args: Any) -> Any:
        if not _is_compiling():
            return eager(*args)
        if _forward_ad._current_level >= 0:
            raise NotImplementedError(no_tangents)
        return public(*args)

    call.__name__ = call.__qualname__ = op.short
    call.__doc__ = f"`{op!r}`: {', '.join(i.name for i in op.inputs)}."
    return call
