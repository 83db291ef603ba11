"""`vmap` over a call: one call of a larger batch where the declaration allows, else a loop.

Lists may have more room than pairs. Those of a batch are concatenated without the gaps, as the larger call takes them;
arrays with an element per pair are packed and unpacked alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from madelung._neighbors import STALE
from madelung._schema import DIRECT, is_one_mesh

if TYPE_CHECKING:
    from madelung.jax._autodiff import Member

_LARGEST = np.iinfo(np.int32).max


def batched(member: Member, operands: Sequence[Any], axes: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The results of calls along the mapped axes, along a new first axis."""
    operands = [x if d is None else jnp.moveaxis(x, d, 0) for x, d in zip(operands, axes)]
    size = next(x.shape[0] for x, d in zip(operands, axes) if d is not None)
    mapped = [d is not None for d in axes]
    shapes = member.arguments([x.shape[m:] for x, m in zip(operands, mapped)], params["numbers"], params["mask"])
    lists = (shape for i, shape in zip(member.op.inputs, shapes) if i.part in ("ptr", "others"))
    # Calls with lists in clusters are large, and ranges of rows are none of a larger call. Offsets into the lists of
    # all calls have 32 bits.
    if size and member.op.stackable and all(len(x) == 1 and size * x[0] <= _LARGEST for x in lists):
        stack = Stack(member, size, mapped, operands, params)
        if all(size * dim <= _LARGEST for dim in stack.dims.values() if isinstance(dim, int)):
            return stack.run(params)
    return _loop(member, operands, mapped, params)


def _loop(member: Member, operands: Sequence[Any], mapped: Sequence[bool], params: dict[str, Any]) -> list[Any]:
    def call(xs: list[Any]) -> list[Any]:
        left = iter(xs)
        return member.primitive.bind(*[next(left) if m else x for x, m in zip(operands, mapped)], **params)

    return lax.map(call, [x for x, m in zip(operands, mapped) if m])


class Gaps:
    """Packing of stacked lists without the unused entries between them."""

    def __init__(self, ptr: Any, room: int) -> None:
        self.size, self.room = ptr.shape[0], room
        counts = ptr[:, -1]
        # A list that is too short, or out of date, counts as empty; its results are made NaN.
        self.short = (counts > room) | (ptr[:, 0] == STALE)
        counts = jnp.where(self.short, 0, counts)
        ends = jnp.cumsum(counts, dtype=counts.dtype)
        begin = ends - counts
        rows = jnp.where(self.short[:, None], 0, ptr[:, :-1]) + begin[:, None]
        self.ptr = jnp.concatenate([rows.reshape(-1), ends[-1:]])
        place = jnp.arange(self.size * room, dtype=counts.dtype)
        of = jnp.repeat(jnp.arange(self.size, dtype=counts.dtype), counts, total_repeat_length=self.size * room)
        self._source = jnp.clip(of * room + place - begin[of], 0, max(self.size * room - 1, 0))
        entry = jnp.arange(room, dtype=counts.dtype)
        self._there = entry[None, :] < counts[:, None]
        self._back = jnp.where(self._there, begin[:, None] + entry[None, :], 0).reshape(-1)

    def close(self, x: Any) -> Any:
        """Entries (size · room, …) without gaps."""
        return x if x.shape[0] == 0 else jnp.take(x, self._source, axis=0)

    def open(self, x: Any) -> Any:
        """Entries with gaps again, zero in these."""
        if x.shape[0] == 0:
            return x
        there = self._there.reshape(-1, *[1] * (x.ndim - 1))
        return jnp.where(there, jnp.take(x, self._back, axis=0), jnp.zeros((), x.dtype))


class Stack:
    """The arguments of one call with the systems of all."""

    def __init__(
        self, member: Member, size: int, mapped: Sequence[bool], operands: Sequence[Any], params: dict[str, Any]
    ) -> None:
        self.member, self.op, self.size = member, member.op, size
        none = [None] * len(params["numbers"])
        self.args = member.arguments(operands, params["numbers"], params["mask"])
        self.mapped = [bool(m) for m in member.arguments(mapped, none, params["mask"])]
        inputs = self.args[: len(self.op.inputs)]
        self.dims = self.op.dims(inputs, lambda k, x: x.shape[1:] if self.mapped[k] else x.shape)
        self.gaps: dict[str, Gaps] = {}
        self.lists: dict[int, Gaps] = {}
        for n, i in enumerate(self.op.inputs):
            if i.part == "ptr":
                ptr, others = self._all(n), self.args[n + 1]
                gaps = Gaps(ptr, others.shape[1 if self.mapped[n + 1] else 0])
                self.lists[i.arg] = gaps
                entries = self.op.args[i.arg]["entries"]
                if entries is not None:
                    self.gaps[entries] = gaps

    def _all(self, k: int) -> Any:
        x = self.args[k]
        return x if self.mapped[k] else jnp.broadcast_to(x[None], (self.size, *x.shape))

    def _together(self, k: int, offset: Any = None, gaps: Gaps | None = None) -> Any:
        x = self._all(k)
        if offset is not None:
            starts = offset * jnp.arange(self.size, dtype=x.dtype)
            x = x + starts.reshape(-1, *[1] * (x.ndim - 1))
        x = x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])
        return x if gaps is None else gaps.close(x)

    def _gaps_of(self, shape: Any) -> Gaps | None:
        return self.gaps.get(shape[0].get("dim")) if shape else None

    def _input(self, k: int) -> Any:
        i, arg = self.op.inputs[k], self.op.args[self.op.inputs[k].arg]
        if i.part in ("real", "ints"):
            absent = bool(arg.get("zero")) and self.args[k].ndim == 1 and not self.mapped[k]
            return self.args[k] if absent else self._together(k, gaps=self._gaps_of(arg["shape"]))
        if i.part == "ptr":
            return self.lists[i.arg].ptr
        if i.part == "others":
            return self._together(k, self.dims[arg["columns"]], self.lists[i.arg])
        if i.part == "shifts":
            return self._together(k, gaps=self.lists[i.arg])
        if i.part == "batch_idx":
            return self._together(k, self.dims[arg["systems"]])
        if i.part == "map_of":
            return self._together(k, self.dims[arg["into"]])
        if i.part in ("systems", "columns", "into"):
            return self.args[k] * self.size
        if i.part == "meshes":
            return self.args[k] if is_one_mesh(len(self.args[k])) else self.args[k] * self.size
        return self.args[k]

    def run(self, params: dict[str, Any]) -> list[Any]:
        """The results of every call."""
        op, member = self.op, self.member
        flat = [self._input(k) for k in range(len(op.inputs))]
        extra = []
        for k, shape in enumerate(op.extra_shapes(member.suffix), len(flat)):
            extra.append(None if self.args[k] is None else self._together(k, gaps=self._gaps_of(shape)))
        results = member.bind(flat, extra, params["want"], params["frozen"])
        gradients = [op.args[op.inputs[n].arg]["shape"] for k, n in enumerate(op.reals) if params["want"] >> k & 1]
        outputs = [o["shape"] for o in op.outputs]
        shapes = gradients if member.is_gradient else outputs + (gradients if member.suffix == DIRECT else [])
        return [self._apart(x, self._gaps_of(shape)) for x, shape in zip(results, shapes)]

    def _apart(self, x: Any, gaps: Gaps | None) -> Any:
        x = x if gaps is None else gaps.open(x)
        x = x.reshape(self.size, x.shape[0] // self.size, *x.shape[1:])
        for short in {id(g): g.short for g in self.lists.values()}.values():
            if jax.dtypes.issubdtype(x.dtype, np.floating):
                x = jnp.where(short.reshape(-1, *[1] * (x.ndim - 1)), jnp.asarray(jnp.nan, x.dtype), x)
        return x
