"""The ops on arrays of CUDA devices. Nothing here names an op."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from madelung import _native
from madelung._functions.laws import follow
from madelung._schema import NamedOp
from madelung.cuda._arrays import Array


class Op(NamedOp):
    """An op of device arrays."""

    def run(
        self,
        member: str,
        flat: Sequence[Any],
        stream: _native.DeviceStream,
        extra: Sequence[Array | None] = (),
        want: int = 0,
        negate: int = 0,
        into: Sequence[Array | None] = (),
    ) -> list[Any]:
        """Puts a member on a stream: bits of `want` ask for gradients, those of `negate` for results' other sign.

        Results that lie in the arrays `into` are None."""
        self.check(flat)
        tensors = [flat[n]._native for n in self.tensors]
        numbers = [flat[n] for n in self.numbers]
        more, rooms = ([None if x is None else x._native for x in of] for of in (extra, into))
        results = _native.device_call(self.targets[member], stream, tensors, numbers, more, want, negate, rooms)
        return [None if x is None else Array(x) for x in results]


OPS: dict[str, Op] = {op.short: op for op in map(Op, json.loads(_native.described_ops()))}
follow(lambda law: OPS.update({op.short: op for op in map(Op, law.described)}))
