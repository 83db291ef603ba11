"""The ops on NumPy arrays. Nothing here names an op."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from madelung import _native
from madelung._functions.laws import follow
from madelung._schema import VALUE, NamedOp

PLAIN = _native.Plain.of_numpy()
"""Arrays that calls take as they are."""


class Op(NamedOp):
    """An op of NumPy arrays."""

    @cached_property
    def value(self) -> Callable[..., tuple[Any, ...]]:
        """The outputs, of all inputs in order."""
        plain = _native.PlainOp(self.targets[VALUE], PLAIN, False)

        def value(*flat: Any) -> tuple[Any, ...]:
            found = plain(*flat)
            return tuple(self.run(VALUE, flat)) if found is NotImplemented else found

        return value

    def run(
        self,
        member: str,
        flat: Sequence[Any],
        extra: Sequence[Any] = (),
        want: int = 0,
        negate: int = 0,
        into: Sequence[Any] = (),
    ) -> list[Any]:
        """Calls a member: bits of `want` ask for gradients, those of `negate` for results' other sign.

        Results that lie in the arrays `into` are None."""
        tensors, numbers = [flat[n] for n in self.tensors], [flat[n] for n in self.numbers]
        return _native.host_call(self.targets[member], tensors, numbers, extra, want, negate, into)


OPS: dict[str, Op] = {op.short: op for op in map(Op, json.loads(_native.described_ops()))}
follow(lambda law: OPS.update({op.short: op for op in map(Op, law.described)}))
