"""The ops as XLA's custom calls."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from madelung import _schema


class Op(_schema.Op):
    """An op with the targets of its members."""

    float32, float64 = np.dtype(np.float32), np.dtype(np.float64)
    integers: ClassVar = {"i32": np.dtype(np.int32), "i64": np.dtype(np.int64)}
    stored = (np.dtype(np.float16), np.dtype(jnp.bfloat16), float32, float64)

    def __init__(self, described: dict[str, Any]) -> None:
        super().__init__(described)
        self.targets: dict[str, str] = dict(described["targets"])


def parse(described: str) -> list[Op]:
    """The ops of a description."""
    return [Op(d) for d in json.loads(described)]
