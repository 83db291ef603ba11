"""All ops as families of primitives: `pair_vectors(positions, cell, …)` and so on, by their names.

Importing this module registers them with the JAX that is loaded. Nothing here names an op.
"""

from __future__ import annotations

import ctypes

import jax

from madelung import _cuda, _native
from madelung.jax._primitives import Family
from madelung.jax._schema import parse

OPS: dict[str, Family] = {op.short: Family(op) for op in parse(_native.described_ops())}
__all__ = list(OPS)


def _register() -> None:
    _cuda.prepare()
    for platform, member, search, name in _native.jax_handlers():
        capsules = jax.ffi.pycapsule(ctypes.c_void_p(member)), jax.ffi.pycapsule(ctypes.c_void_p(search))
        for family in OPS.values():
            for target in family.op.targets.values():
                jax.ffi.register_ffi_target(target, capsules[0], platform=platform)
        jax.ffi.register_ffi_target(name, capsules[1], platform=platform)


_register()
globals().update(OPS)
