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
    name, suffix = _native.jax_targets()
    for platform, member, with_scratch, search in _native.jax_handlers():
        capsules = [(jax.ffi.pycapsule(ctypes.c_void_p(member)), "")]
        if with_scratch:
            capsules.append((jax.ffi.pycapsule(ctypes.c_void_p(with_scratch)), suffix))
        for family in OPS.values():
            for target in family.op.targets.values():
                for capsule, after in capsules:
                    jax.ffi.register_ffi_target(target + after, capsule, platform=platform)
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(ctypes.c_void_p(search)), platform=platform)


_register()
globals().update(OPS)
