"""The ops of users' laws, registered when a law is made."""

from __future__ import annotations

from typing import Any

from madelung._functions.laws import follow
from madelung.torch import _ops
from madelung.torch._energies import Energies
from madelung.torch._framework import ENERGIES, PLAIN
from madelung.torch._schema import parse


def _add(law: Any) -> None:
    for op in parse(law.for_torch(_ops.libtorch())):
        _ops.OPS[op.short] = op
        setattr(_ops, op.short, _ops.add(op))
    for name in (op["op"]["name"] for op in law.described):
        if f"{name}_total" in _ops.OPS:
            ENERGIES[name] = Energies(name), Energies(f"{name}_total")
            PLAIN[name] = ENERGIES[name][0].value


follow(_add)
