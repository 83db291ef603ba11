"""Energies with their gradients as results, and the first-order rule of hybrid forces.

Forces, charge gradients and virials come from a member of the op's family (G₀ with a weight of one for every energy),
so they have derivatives like any other: those of forces are Hessian-vector products. Nothing is detached.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from madelung._derivative_rules import HYBRID_CONSTANTS, NEGATIVE_GRADIENTS, bits
from madelung._schema import GRADIENT, SAVING, VALUE
from madelung.jax._ops import OPS


class Energies:
    """An op whose only output is energies, in all ways in which public functions call it."""

    def __init__(self, name: str) -> None:
        self.family = family = OPS[name]
        op = family.op
        names = [op.inputs[n].name for n in op.reals]
        self.bit = {name: 1 << k for k, name in enumerate(names)}
        self.negative = [name in NEGATIVE_GRADIENTS for name in names]
        self.constants = bits([name in HYBRID_CONSTANTS for name in names])
        # The gradients come with the energies, where the op is declared so.
        self.together = family.saved == list(range(len(op.reals)))

    def __call__(self, flat: Sequence[Any], want: int, hybrid: bool) -> list[Any]:
        """The energies, then minus the gradients by positions and strain, and those by other inputs in `want`."""
        members, frozen = self.family.members, self.constants if hybrid else 0
        if want and self.together:
            energies, *gradients = members[SAVING].bind(flat, (), want, frozen)
        else:
            (energies,) = members[VALUE].bind(flat, (), 0, frozen)
            gradients = []
            if want:
                extra = [jnp.ones_like(energies), *[None] * len(self.family.saved)]
                gradients = members[GRADIENT].bind(flat, extra, want)
        signs = [sign for k, sign in enumerate(self.negative) if want >> k & 1]
        return [energies, *(-g if sign else g for g, sign in zip(gradients, signs))]
