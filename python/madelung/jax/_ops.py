"""All ops as families of primitives: `pair_vectors(positions, cell, …)` and so on, by their names.

Importing this module registers them with the JAX that is loaded. Nothing here names an op.
"""

from __future__ import annotations

import ctypes
import json

import jax

from madelung import _cuda, _native
from madelung.jax._autodiff import Family, Op

OPS: dict[str, Family] = {op.short: Family(op) for op in map(Op, json.loads(_native.described_ops()))}
__all__ = list(OPS)


def _register() -> None:
    _cuda.prepare()
    suffix, handlers = _native.jax_handlers()
    targets = [target for family in OPS.values() for target in family.op.targets.values()]
    for platform, pair in handlers:
        for handler, after in zip(pair, ("", suffix)):
            if handler:
                capsule = jax.ffi.pycapsule(ctypes.c_void_p(handler))
                for name in targets:
                    jax.ffi.register_ffi_target(name + after, capsule, platform=platform)


_register()
globals().update(OPS)
