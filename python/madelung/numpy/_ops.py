"""The ops on NumPy arrays. Nothing here names an op."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from madelung import _native
from madelung._schema import NamedOp

_NONE = np.empty(0, np.int32)


class Op(NamedOp):
    """An op of NumPy arrays."""

    def run(
        self, member: str, flat: Sequence[Any], extra: Sequence[Any] = (), want: int = 0, negate: int = 0
    ) -> list[Any]:
        """Calls a member: bits of `want` ask for gradients, those of `negate` for results' other sign.

        A `_native.Pairs` may stand in the place of a list's offsets; its other parts are then not read.
        """
        tensors, numbers = [flat[n] for n in self.tensors], [flat[n] for n in self.numbers]
        made = next((x for x in tensors if isinstance(x, _native.Pairs)), None)
        arrays = [_NONE if x is None or x is made else x for x in tensors]
        return _native.host_call(self.targets[member], arrays, numbers, made, extra, want, negate)


OPS: dict[str, Op] = {op.short: op for op in map(Op, json.loads(_native.described_ops()))}
