"""All ops as families of primitives: `pair_vectors(positions, cell, …)` and so on, by their names.

Importing this module registers them with the JAX that is loaded; `add` registers others. Nothing here names an op.
"""

from __future__ import annotations

import ctypes
import json

import jax

from madelung import _cuda, _native
from madelung._functions.laws import follow
from madelung.jax._autodiff import Family, Op

_cuda.prepare()
_SUFFIX, _HANDLERS = _native.jax_handlers()
_CAPSULES = [
    (platform, after, jax.ffi.pycapsule(ctypes.c_void_p(handler)))
    for platform, pair in _HANDLERS
    for handler, after in zip(pair, ("", _SUFFIX))
    if handler
]


def add(op: Op) -> Family:
    """The primitives of an op, whose targets are registered here."""
    for platform, after, capsule in _CAPSULES:
        for name in op.targets.values():
            jax.ffi.register_ffi_target(name + after, capsule, platform=platform)
    return Family(op)


OPS: dict[str, Family] = {op.short: add(op) for op in map(Op, json.loads(_native.described_ops()))}
__all__ = list(OPS)

globals().update(OPS)
follow(lambda law: OPS.update({op.short: add(op) for op in map(Op, law.described)}))
