"""Energies with their gradients as results, and the first-order rule of hybrid forces.

Forces, charge gradients and virials come from a member of the op's family (G₀ with a weight of one for every energy),
so they have derivatives like any other: those of forces are Hessian-vector products. Nothing is detached.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from madelung._arguments import Outputs
from madelung._schema import GRADIENT, SAVING, VALUE
from madelung.jax._ops import OPS


def energies(name: str, flat: Sequence[Any], outputs: Outputs) -> list[Any]:
    """The energies of an op, then minus the gradients by positions and strain, and those by other inputs wanted."""
    family = OPS[name]
    op, members, want = family.op, family.members, family.op.wanted(outputs)
    frozen = op.hybrid_constants if outputs.hybrid else 0
    # The gradients come with the energies, where the op is declared so.
    if want and family.saved == list(range(len(op.reals))):
        values, *gradients = members[SAVING].bind(flat, (), want, frozen)
    else:
        (values,) = members[VALUE].bind(flat, (), 0, frozen)
        gradients = []
        if want:
            extra = [jnp.ones_like(values), *[None] * len(family.saved)]
            gradients = members[GRADIENT].bind(flat, extra, want)
    signs = [op.negative >> k & 1 for k in range(len(op.reals)) if want >> k & 1]
    return [values, *(-g if sign else g for g, sign in zip(gradients, signs))]
