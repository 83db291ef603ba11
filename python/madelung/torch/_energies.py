"""Energies with their gradients as results, and the first-order rule of hybrid forces.

Forces, charge gradients and virials come from a member of the op's family (G₀ with a weight of one for every energy),
so they have derivatives like any other: those of forces are Hessian-vector products. Nothing is detached.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd import Function
from torch.autograd import forward_ad as _forward_ad

from madelung._derivative_rules import Call, Tangents, bits
from madelung._schema import DIRECT, GRADIENT, NEGATIVE, VALUE
from madelung.torch import _ops
from madelung.torch._autograd import Family, _function, _keep, _kept, _transforms_active, kernel_of
from madelung.torch._lists import MANY, Lists, remember
from madelung.torch._vmap import batched


class Energies:
    """An op whose only output is energies, in all ways in which public functions call it."""

    def __init__(self, name: str) -> None:
        self.op = op = _ops.OPS[name]
        self.family = family = Family(op)
        # The energies alone, outside of graphs and in them.
        self.value, self.public = family.value, getattr(_ops, name)
        names = [op.inputs[n].name for n in op.reals]
        # Bits of the gradients that functions return: forces, charge gradients and virial.
        self.wanted_bits = tuple(op.bits(name) for name in ("positions", "charges", "strain"))
        self.negative = [bool(op.negative >> k & 1) for k in range(len(names))]
        self.positive = bits([not sign for sign in self.negative])
        self.geometry = op.hybrid_constants
        self.lists = Lists(op)
        self.columns = [n + 1 for n in self.lists.starts]
        self.kernel, self.direct = kernel_of(op, VALUE), kernel_of(op, DIRECT)
        self.function = _eager(self, family)
        self.hybrid = _hybrid(self, family)

    def eager(self, flat: Sequence[Any], want: int, hybrid: bool) -> tuple[torch.Tensor, ...]:
        """The energies, then minus the gradients by positions and strain, and those by other inputs in `want`."""
        if _transforms_active() or _forward_ad._current_level >= 0:
            return self._transformed(flat, want, hybrid)
        pending: list[Any] = []
        for n in self.columns:
            if flat[n].numel() >= MANY or flat[n].is_cuda:
                flat, pending = self.lists.mark(flat)
        if self.family.requires_graph(flat):
            results = self.function.apply(*[flat[n] for n in self.op.reals], (flat, want, hybrid))
        else:
            results = self.results(flat, want)
        if pending:
            remember(pending)
        return results

    def results(self, flat: Sequence[Any], want: int) -> tuple[torch.Tensor, ...]:
        """The results of a call, without a graph."""
        energies, gradients, negated = self.compute(flat, want)
        return (energies, *[g.neg_() if sign and not negated else g for g, sign in self.wanted(gradients, want)])

    def compute(self, flat: Sequence[Any], want: int) -> tuple[torch.Tensor, Sequence[torch.Tensor], bool]:
        """Energies and gradients in one pass without a graph, and whether the gradients have the other sign."""
        if not want:
            return self.kernel(*flat), (), False
        negated = not want & self.positive
        energies, *gradients = self.direct(*flat, want | (NEGATIVE if negated else 0))
        return energies, gradients, negated

    def wanted(self, gradients: Sequence[Any], want: int) -> list[tuple[Any, bool]]:
        """The gradients that a call returns, and whether with the other sign."""
        return [(g, sign) for k, (g, sign) in enumerate(zip(gradients, self.negative)) if want >> k & 1]

    def _signed(self, gradients: Sequence[Any], want: int) -> list[torch.Tensor]:
        return [-g if sign else g for g, sign in self.wanted(gradients, want)]

    def along(self, flat: Sequence[Any], along: Sequence[dict[str, Any]]) -> torch.Tensor:
        """The derivative of the energies along one direction, or along two."""
        run = self.family.run_public if torch.compiler.is_compiling() else self.family.run
        member, extra = self.op.tangent(along)
        (found,) = run(member, flat, extra, 0)
        return found

    def in_graph(self, flat: Sequence[Any], want: int, hybrid: bool) -> tuple[torch.Tensor, ...]:
        """The results of a call, in a graph."""
        op, at = self.op, list(flat)
        if hybrid:
            # A compiled graph is differentiated once, so here a constant is as good as the rule.
            for k, n in enumerate(op.reals):
                if self.geometry >> k & 1:
                    at[n] = flat[n].detach()
        energies = self.public(*at)
        if not want:
            return (energies,)
        extra = [torch.ones_like(energies), *[None] * len(op.saves)]
        return (energies, *self._signed(self.family.run_public(GRADIENT, flat, extra, want), want))

    def _transformed(self, flat: Sequence[Any], want: int, hybrid: bool) -> tuple[torch.Tensor, ...]:
        if hybrid:
            (energies,) = self.hybrid.apply(*flat)
        else:
            (energies,) = self.family.run(VALUE, flat, [], 0)
        if not want:
            return (energies,)
        extra = [torch.ones_like(energies), *[None] * len(self.op.saves)]
        return (energies, *self._signed(self.family.run(GRADIENT, flat, extra, want), want))

    def first_order(self, needs: int, hybrid: bool) -> int:
        """The inputs by which the energies are differentiated."""
        return needs & ~self.geometry if hybrid else needs


def _eager(e: Energies, family: Family) -> type[Function]:
    """Energies and gradients of ordinary calls. One pass computes both where the op has that; backward scales them."""
    op = e.op
    n, tensors, numbers = len(op.inputs), op.tensors, op.numbers

    def forward(ctx: Any, *args: Any) -> Any:
        flat, want, hybrid = args[-1]
        needs = bits(ctx.needs_input_grad[:-1])
        first = e.first_order(needs, hybrid) if family.together else 0
        if first:
            energies, *gradients = e.direct(*flat, want | first)
            results = (energies, *e._signed(gradients, want))
        else:
            results, gradients = e.results(flat, want), ()
        ctx.there = [bool(first >> k & 1) for k in range(len(op.saves))]
        saved = [g.detach() for g, there in zip(gradients, ctx.there) if there]
        ctx.save_for_backward(*[flat[at] for at in tensors], *saved)
        ctx.numbers, ctx.want, ctx.hybrid, ctx.shape = [flat[at] for at in numbers], want, hybrid, results[0].shape
        ctx.set_materialize_grads(False)
        return results

    def backward(ctx: Any, v: Any, *u: Any) -> Any:
        kept = ctx.saved_tensors
        flat: list[Any] = [None] * n
        for at, x in zip((*tensors, *numbers), (*kept[: len(tensors)], *ctx.numbers)):
            flat[at] = x
        needs = bits(ctx.needs_input_grad[:-1])
        sums: Tangents = (None,) * len(op.reals)
        if v is not None:
            left = iter(kept[len(tensors) :])
            saved = tuple(next(left) if there else None for there in ctx.there)
            by_energies = Call(op, flat, (), (v,), saved, e.first_order(needs, ctx.hybrid))
            if by_energies.want:
                sums = tuple(by_energies.run(family.run))
        if any([x is not None for x in u]):
            left = iter(u)
            direction = tuple(next(left) if ctx.want >> k & 1 else None for k in range(len(op.reals)))
            direction = tuple(-x if x is not None and sign else x for x, sign in zip(direction, e.negative))
            ones = flat[op.reals[0]].new_ones(ctx.shape)
            second = Call(op, flat, (direction,), (ones,), (), needs).run(family.run)
            sums = tuple(b if a is None else a if b is None else a + b for a, b in zip(sums, second))
        if ctx.hybrid:
            # Zero where nothing else depends on the geometry, for `autograd.grad` to find.
            zero = needs & e.geometry
            sums = tuple(
                torch.zeros_like(flat[at]) if x is None and zero >> k & 1 else x
                for k, (at, x) in enumerate(zip(op.reals, sums))
            )
        return (*sums, None)

    return _function(f"{op.name}_with_gradients", forward=forward, backward=backward)


def _hybrid(e: Energies, family: Family) -> type[Function]:
    """Hybrid energies under transforms and in forward mode."""
    op = e.op
    member = family.members[VALUE]

    def forward(*args: Any) -> Any:
        return tuple(member.run_private(args, 0))

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _keep(member, ctx, (*inputs, 0))
        ctx.save_for_forward(*[inputs[n] for n in member.tensors])
        ctx.shape = output[0].shape

    def backward(ctx: Any, v: Any) -> Any:
        flat = _kept(member, ctx, ctx.saved_tensors)
        grads: list[Any] = [None] * len(flat)
        needs = bits([ctx.needs_input_grad[at] for at in op.reals])
        call = Call(op, flat, (), (v,), (), e.first_order(needs, True))
        if v is not None and call.want:
            for at, g in zip(op.reals, call.run(family.run)):
                grads[at] = g
        return tuple(grads)

    def jvp(ctx: Any, *tangents: Any) -> Any:
        flat = _kept(member, ctx, ctx.saved_tensors)
        direction = tuple(None if e.geometry >> k & 1 else tangents[at] for k, at in enumerate(op.reals))
        (tangent,) = Call(op, flat, (direction,)).run(family.run)
        return flat[op.reals[0]].new_zeros(ctx.shape) if tangent is None else tangent

    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        return batched(op, lambda *a: e.hybrid.apply(*a), info.batch_size, in_dims, args)

    return _function(
        f"{op.name}_hybrid",
        forward=forward,
        setup_context=setup_context,
        backward=backward,
        jvp=jvp,
        vmap=vmap,
    )
