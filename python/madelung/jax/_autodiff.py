"""The members of an op's family as JAX primitives, with the rules of `madelung._derivative_rules`.

Operands are the tensors of the op's inputs, then the nonzero arrays that follow them (`mask` has a bit for each).
Static parameters are the `numbers` among the inputs, and `want`, the bits of the wanted gradients. A zero never becomes
an array.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from madelung import _native
from madelung._derivative_rules import Call, bits
from madelung._schema import DIRECT, GRADIENT, GRADIENT_TANGENT, SAVING, VALUE, NamedOp
from madelung.jax import _compat
from madelung.jax._vmap import batched

_WITH_SCRATCH = _native.jax_handlers()[0]


class Op(NamedOp):
    """An op of JAX arrays."""

    stored = (np.dtype(np.float16), np.dtype(jnp.bfloat16), NamedOp.float32, NamedOp.float64)


class Family:
    """An op and the primitives of its members."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.members = {suffix: Member(self, suffix) for suffix in op.targets if suffix != SAVING}

    def __call__(self, *flat: Any) -> Any:
        """The outputs, of all inputs in order: arrays and numbers."""
        op = self.op
        if len(flat) != len(op.inputs):
            names = ", ".join(i.name for i in op.inputs)
            raise TypeError(f"{op!r}: expected {len(op.inputs)} arguments ({names}), got {len(flat)}")
        results = self.members[VALUE].bind(flat, (), 0)
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, member: str, flat: Sequence[Any], extra: Sequence[Any], want: int) -> Sequence[Any]:
        """A member's results: those of the outputs, or of all differentiable inputs, None for those not wanted."""
        results = self.members[member].bind(flat, extra, want)
        return results if member not in (GRADIENT, GRADIENT_TANGENT) else _expanded(results, want, len(self.op.reals))


def _expanded(results: Sequence[Any], want: int, count: int) -> list[Any]:
    left = iter(results)
    return [next(left) if want >> k & 1 else None for k in range(count)]


class Member:
    """A member as a primitive."""

    def __init__(self, family: Family, suffix: str) -> None:
        self.family, self.op, self.suffix = family, family.op, suffix
        self.is_gradient = suffix in (GRADIENT, GRADIENT_TANGENT)
        self.target = self.op.targets[suffix]
        self.primitive = p = Primitive(self.target)
        p.multiple_results = True
        p.def_impl(functools.partial(_called, p))
        p.def_abstract_eval(self._types)
        ad.primitive_jvps[p] = self._jvp
        ad.primitive_transposes[p] = self._transpose
        batching.primitive_batchers[p] = self._batch
        mlir.register_lowering(p, self._lower)
        mlir.register_lowering(p, self._lower_on_cuda, platform="cuda")

    def bind(self, flat: Sequence[Any], extra: Sequence[Any], want: int, frozen: int = 0) -> list[Any]:
        """The wanted results. Of F₀, `frozen` has the inputs by which its first derivative is zero, for hybrid
        forces."""
        op = self.op
        operands = [flat[n] for n in op.tensors] + [x for x in extra if x is not None]
        numbers = tuple(tuple(flat[n]) if op.inputs[n].type == "integers" else flat[n] for n in op.numbers)
        mask = bits([x is not None for x in extra])
        return self.primitive.bind(*_compat.vary(operands), numbers=numbers, mask=mask, want=want, frozen=frozen)

    def arguments(self, operands: Sequence[Any], numbers: Sequence[Any], mask: int) -> list[Any]:
        """The inputs in order, then the arrays that follow them, None for zero."""
        op = self.op
        args: list[Any] = [None] * len(op.inputs)
        for n, x in zip(op.numbers, numbers):
            args[n] = x
        for n, x in zip(op.tensors, operands):
            args[n] = x
        left = iter(operands[len(op.tensors) :])
        return args + [next(left) if mask >> k & 1 else None for k in range(op.extras(self.suffix))]

    def _operands(self, args: Sequence[Any], mask: int) -> list[Any]:
        """The operands among `arguments`."""
        n = len(self.op.inputs)
        return [args[k] for k in self.op.tensors] + [x for k, x in enumerate(args[n:]) if mask >> k & 1]

    def _types(self, *avals: Any, numbers: Any, mask: int, want: int, frozen: int) -> list[Any]:
        op = self.op
        flat = self.arguments(avals, numbers, mask)[: len(op.inputs)]
        op.check(flat)
        dims, dtype = op.dims(flat), op.dtype(flat)

        def gradient(n: int) -> Any:
            arg = op.args[op.inputs[n].arg]
            of = flat[n].dtype if arg["stored"] else dtype
            return _compat.like(avals[0], op.shape(arg["shape"], flat, dims), of)

        gradients = [gradient(n) for bit, n in enumerate(op.reals) if want >> bit & 1]
        if self.is_gradient:
            return gradients
        outputs = [
            _compat.like(avals[0], op.shape(o["shape"], flat, dims), op.output_dtype(o, flat)) for o in op.outputs
        ]
        return [*outputs, *gradients] if self.suffix == DIRECT else outputs

    def _jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, numbers: Any, mask: int, want: int, frozen: int
    ) -> tuple[list[Any], list[Any]]:
        op, run = self.op, self.family.run
        args = self.arguments(primals, numbers, mask)
        moved = [None if type(t) is ad.Zero else t for t in tangents]
        moved = self.arguments(moved, [None] * len(numbers), mask)
        results = self.bind(args[: len(op.inputs)], args[len(op.inputs) :], want, frozen)
        if self.suffix in (VALUE, DIRECT):
            direction = tuple(None if frozen >> k & 1 else moved[n] for k, n in enumerate(op.reals))
            changes = list(Call(op, args[: len(op.inputs)], (direction,)).run(run))
            if self.suffix == DIRECT:
                direction = tuple(moved[n] for n in op.reals)
                ones = tuple(jax.numpy.ones_like(x) for x in results[: len(op.outputs)])
                second = Call(op, args[: len(op.inputs)], (direction,), ones, (), want).run(run)
                changes += [x for k, x in enumerate(second) if want >> k & 1]
        else:
            changes = Call.parse(op, self.suffix, args, want).tangent(run, moved)
            if self.is_gradient:
                changes = [x for k, x in enumerate(changes) if want >> k & 1]
        return results, [_zero(r) if t is None else t for r, t in zip(results, changes)]

    def _transpose(
        self, cotangents: Sequence[Any], *operands: Any, numbers: Any, mask: int, want: int, frozen: int
    ) -> list[Any]:
        v: Sequence[Any] = [None if type(ct) is ad.Zero else ct for ct in cotangents]
        if all(ct is None for ct in v):
            return [None] * len(operands)
        if self.is_gradient:
            v = _expanded(v, want, len(self.op.reals))
        args = self.arguments(operands, numbers, mask)
        call = Call.parse(self.op, self.suffix, args, want)
        needs = [x is not None and ad.is_undefined_primal(x) for x in args]
        return self._operands(call.backward(self.family.run, tuple(v), needs), mask)

    def _batch(self, operands: Sequence[Any], axes: Sequence[Any], **params: Any) -> tuple[list[Any], list[int]]:
        results = batched(self, operands, axes, params)
        return results, [0] * len(results)

    def _lower(self, ctx: Any, *operands: Any, numbers: Any, mask: int, want: int, frozen: int) -> Any:
        del frozen
        return jax.ffi.ffi_lowering(self.target)(ctx, *operands, **self._attributes(numbers, mask, want))

    def _lower_on_cuda(self, ctx: Any, *operands: Any, numbers: Any, mask: int, want: int, frozen: int) -> Any:
        """The lowering with scratch as one more result, so that XLA may capture the call in a graph.

        Without it where only the device knows how much a call needs, or sizes are open (as `jax.export` allows).
        """
        attributes = self._attributes(numbers, mask, want)
        bits = [bit for n, x in zip(self.op.numbers, numbers) for bit in _bits(self.op.inputs[n].type, x)]
        types = [[(str(aval.dtype), aval.shape) for aval in avals] for avals in (ctx.avals_in, ctx.avals_out)]
        if all(isinstance(n, int) for arrays in types for _, shape in arrays for n in shape):
            try:
                size = _native.jax_scratch(self.target, mask, want, bits, *types)
            except NotImplementedError:
                pass
            else:
                scratch = jax.core.ShapedArray((size,), np.dtype(np.uint8))
                ctx = ctx.replace(avals_out=[*ctx.avals_out, scratch])
                lowered = jax.ffi.ffi_lowering(self.target + _WITH_SCRATCH)
                return list(lowered(ctx, *operands, **attributes))[:-1]
        return self._lower(ctx, *operands, numbers=numbers, mask=mask, want=want, frozen=frozen)

    def _attributes(self, numbers: Sequence[Any], mask: int, want: int) -> dict[str, Any]:
        attributes: dict[str, Any] = {"target": self.target, "mask": np.int64(mask), "want": np.int64(want)}
        for n, x in zip(self.op.numbers, numbers):
            i = self.op.inputs[n]
            if i.type == "integers":
                attributes[i.name] = " ".join(map(str, x))
            else:
                attributes[i.name] = np.float64(x) if i.type == "float" else np.int64(x)
        return attributes


def _bits(kind: str, x: Any) -> list[int]:
    """A number among the inputs, as 64-bit integers; ahead of a list stands its length."""
    if kind == "integers":
        return [len(x), *x]
    return [int((np.float64(x) if kind == "float" else np.int64(x)).view(np.int64))]


def _zero(result: Any) -> Any:
    return ad.Zero(jax.typeof(result).to_tangent_aval())


def _called(p: Primitive, *operands: Any, **params: Any) -> Any:
    call = _jitted(p, tuple(sorted(params.items())))
    if not jax.config.jax_disable_jit:
        return call(*operands)
    # An op is compiled in any case, as JAX's own are.
    with jax.disable_jit(False):
        return call(*operands)


@functools.lru_cache(maxsize=4096)
def _jitted(p: Primitive, params: tuple[tuple[str, Any], ...]) -> Callable[..., Any]:
    return jax.jit(functools.partial(p.bind, **dict(params)))
