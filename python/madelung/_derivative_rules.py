"""The rules by which the family of derivatives is closed, written once for all ops and every way of calling them.

F_k(x; u₁…u_k) is the k-th directional derivative of the outputs, G_k(x; w; u₁…u_k) = ∇ₓ⟨w, F_k⟩. Differentiating a
member by x adds a direction; transposing F_k in a direction gives G_{k−1}, transposing G_k in w gives F_{k+1}.
F₀, F₁, F₂, G₀ and G₁ exist.

`Call` holds a call of a member: the inputs of the op, cotangents w (none for F), and directions, each with a tangent
per differentiable input. None stands for zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from madelung._schema import GRADIENT, GRADIENT_TANGENT, SECOND, TANGENT, VALUE, Op

Tangents = tuple[Any, ...]
# A call of a member: with the inputs, the arrays that follow them, and the wanted gradients. The results are those of
# the outputs (F) or of all differentiable inputs (G), None where unwanted.
Run = Callable[[str, Sequence[Any], Sequence[Any], int], Sequence[Any]]

_MEMBERS = {
    (False, 0): VALUE,
    (False, 1): TANGENT,
    (False, 2): SECOND,
    (True, 0): GRADIENT,
    (True, 1): GRADIENT_TANGENT,
}


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a member of an op's family."""

    op: Op
    flat: Sequence[Any]
    directions: tuple[Tangents, ...] = ()
    cotangents: Tangents | None = None
    saved: Tangents = ()
    want: int = 0

    @classmethod
    def parse(cls, op: Op, member: str, args: Sequence[Any], want: int) -> Call:
        """The call, from the inputs and the arrays that follow them."""
        n, reals, outputs = len(op.inputs), len(op.reals), len(op.outputs)
        flat, rest = args[:n], tuple(args[n:])
        if member == VALUE:
            return cls(op, flat)
        if member == TANGENT:
            return cls(op, flat, (rest,))
        if member == SECOND:
            return cls(op, flat, (rest[:reals], rest[reals:]))
        if member == GRADIENT:
            return cls(op, flat, (), rest[:outputs], rest[outputs:], want)
        return cls(op, flat, (rest[outputs:],), rest[:outputs], (), want)

    def run(self, run: Run) -> Sequence[Any]:
        """The results; None for each where a direction or the cotangents are zero."""
        op = self.op
        zero = any(_is_zero(u) for u in self.directions) or (self.cotangents is not None and _is_zero(self.cotangents))
        if zero:
            return [None] * len(op.outputs if self.cotangents is None else op.reals)
        member = _MEMBERS.get((self.cotangents is not None, len(self.directions)))
        if member is None:
            raise NotImplementedError(
                f"{op!r}: derivatives by its inputs exist to second order, and a third one was asked for (of a "
                "Hessian-vector product, say, or of forces differentiated twice, be it that they are returned beside "
                "the energies and not used). Differentiate once less, leave out `compute_forces` and the like, or hide "
                "(`.detach()`, `stop_gradient`) what the last derivative need not see"
            )
        if self.cotangents is None:
            extra: list[Any] = [t for u in self.directions for t in u]
        else:
            saved = self.saved or (None,) * len(op.saves)
            extra = [*self.cotangents, *(saved if member == GRADIENT else self.directions[0])]
        return run(member, self.flat, extra, self.want)

    def _put(self, j: int, tangents: Tangents) -> tuple[Tangents, ...]:
        return (*self.directions[:j], tangents, *self.directions[j + 1 :])

    def backward(self, run: Run, v: Tangents, needs: Sequence[bool]) -> list[Any]:
        """The gradients by the call's arguments for cotangents `v` of its results; `needs` says of which."""
        op, n, reals = self.op, len(self.op.inputs), len(self.op.reals)
        grads: list[Any] = [None] * len(needs)
        by_x = [needs[at] for at in op.reals]
        first = n
        if self.cotangents is None:
            _spread(grads, op.reals, by_x, replace(self, cotangents=v), run)
        else:
            _spread(grads, op.reals, by_x, replace(self, directions=(*self.directions, v), saved=()), run)
            if any(needs[n : n + len(op.outputs)]):
                of_w = replace(self, cotangents=None, directions=(*self.directions, v), saved=(), want=0).run(run)
                for k, g in enumerate(of_w):
                    if needs[n + k] and k in op.smooth:
                        grads[n + k] = g
            first += len(op.outputs)
        for j in range(len(self.directions)):
            places = range(first + j * reals, first + (j + 1) * reals)
            if self.cotangents is None:
                others = (*self.directions[:j], *self.directions[j + 1 :])
                transposed = replace(self, directions=others, cotangents=v)
            else:
                transposed = replace(self, directions=self._put(j, v))
            _spread(grads, places, [needs[at] for at in places], transposed, run)
        return grads

    def tangent(self, run: Run, tangents: Sequence[Any]) -> Sequence[Any]:
        """The derivative of the results along tangents of the call's arguments."""
        op, n, reals = self.op, len(self.op.inputs), len(self.op.reals)
        dx = tuple(tangents[at] for at in op.reals)
        sums = replace(self, directions=(*self.directions, dx), saved=()).run(run)
        first = n
        if self.cotangents is not None:
            dw = tuple(tangents[n : n + len(op.outputs)])
            sums = _add(sums, replace(self, cotangents=dw, saved=()).run(run))
            first += len(op.outputs)
        for j in range(len(self.directions)):
            du = tuple(tangents[first + j * reals : first + (j + 1) * reals])
            sums = _add(sums, replace(self, directions=self._put(j, du)).run(run))
        return sums


def bits(flags: Sequence[bool]) -> int:
    """Flags as an integer."""
    return sum(1 << n for n, flag in enumerate(flags) if flag)


def _is_zero(tangents: Tangents) -> bool:
    return all(t is None for t in tangents)


def _spread(grads: list[Any], places: Sequence[int], wanted: Sequence[bool], call: Call, run: Run) -> None:
    """Puts a gradient into its place, if it is wanted."""
    if any(wanted):
        for at, want, g in zip(places, wanted, replace(call, want=bits(wanted)).run(run)):
            if want:
                grads[at] = g


def _add(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    return [y if x is None else x if y is None else x + y for x, y in zip(a, b)]
