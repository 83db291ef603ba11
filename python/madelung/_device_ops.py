"""The ops on arrays of CUDA devices. Nothing here names an op."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from madelung import _native, _schema
from madelung._derivative_rules import NEGATIVE_GRADIENTS
from madelung._device_arrays import Array
from madelung._schema import DIRECT, NEGATIVE, VALUE


class Op(_schema.Op):
    """An op with the targets of its members."""

    float32, float64 = np.dtype(np.float32), np.dtype(np.float64)
    integers: ClassVar = {"i32": np.dtype(np.int32), "i64": np.dtype(np.int64)}
    stored = (float32, float64)

    def __init__(self, described: dict[str, Any]) -> None:
        super().__init__(described)
        self.targets: dict[str, str] = dict(described["targets"])
        names = [self.inputs[n].name for n in self.reals]
        self.bit = {name: 1 << k for k, name in enumerate(names)}
        self.negative = sum(1 << k for k, name in enumerate(names) if name in NEGATIVE_GRADIENTS)

    def run(
        self,
        member: str,
        flat: Sequence[Any],
        stream: _native.DeviceStream,
        extra: Sequence[Array | None] = (),
        want: int = 0,
        negate: int = 0,
    ) -> list[Array | None]:
        """Puts a member on a stream: bits of `want` ask for gradients, those of `negate` for results' other sign."""
        self.check(flat)
        tensors = [flat[n]._native for n in self.tensors]
        numbers = [flat[n] for n in self.numbers]
        more = [None if x is None else x._native for x in extra]
        results = _native.device_call(self.targets[member], stream, tensors, numbers, more, want, negate)
        return [None if x is None else Array(x) for x in results]

    def energies(self, flat: Sequence[Any], want: int, stream: _native.DeviceStream) -> list[Any]:
        """The energies, then minus the gradients by positions and strain, and those by other inputs in `want`."""
        if not want:
            return self.run(VALUE, flat, stream)
        if want & ~self.negative:
            energies, *gradients = self.run(DIRECT, flat, stream, (), want, (self.negative & want) << 1)
        else:
            energies, *gradients = self.run(DIRECT, flat, stream, (), want | NEGATIVE)
        return [energies, *(g for k, g in enumerate(gradients) if want >> k & 1)]


OPS: dict[str, Op] = {op.short: op for op in map(Op, json.loads(_native.described_ops()))}
