"""Energies with their gradients as results, and the first-order rule of hybrid forces.

Forces, charge gradients and virials come with the energies in one pass (F₀, and G₀ with a weight of one for every
energy), and have derivatives like any other: those of forces are Hessian-vector products. Nothing is detached.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from madelung._arguments import Outputs
from madelung._schema import DIRECT, VALUE
from madelung.jax._ops import OPS


def energies(name: str, flat: Sequence[Any], outputs: Outputs) -> list[Any]:
    """The energies of an op, then minus the gradients by positions and strain, and those by other inputs wanted."""
    family = OPS[name]
    op, want = family.op, family.op.wanted(outputs)
    frozen = op.hybrid_constants if outputs.hybrid else 0
    values, *gradients = family.members[DIRECT if want else VALUE].bind(flat, (), want, frozen)
    signs = [op.negative >> k & 1 for k in range(len(op.reals)) if want >> k & 1]
    return [values, *(-g if sign else g for g, sign in zip(gradients, signs))]


def tangents(name: str, flat: Sequence[Any], along: Sequence[dict[str, Any]]) -> Any:
    """The derivative of the energies of an op along one direction, or along two."""
    family = OPS[name]
    member, extra = family.op.tangent(along)
    return family.members[member].bind(flat, extra, 0)[0]
