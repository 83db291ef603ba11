"""Covering sets of ops: few that have all that a bridge sees of the many.

A bridge sees of an op its declaration: kinds and roles of its arguments, outputs, members, what is saved. `make lint`
holds that no bridge names an op, so that what works for a trait of one works for the same trait of another; and where
two traits meet in any op, they meet in one of these. The formulas of all ops are held in Rust, and `make test-all` runs
every op. So it is with kernels that one macro makes, which differ in a formula alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import combinations
from typing import Any

from madelung._functions.declare import FUNCTIONS
from madelung._functions.potentials import TABLES

EVERY = "MADELUNG_TEST_EVERY_OP"
"""The variable of the environment that has every op stand for itself."""
FEW = "MADELUNG_TEST_FEW_OPS"
"""That by which traits stand alone, not two together: for another version of a framework."""

Trait = tuple[Any, ...]
ROLES = ("rows", "columns", "entries", "systems", "into", "nodes", "waves")


def traits(op: Any) -> frozenset[Trait]:
    """The traits of an op's declaration."""
    roles: dict[str, str] = {}
    for arg in op.args:
        for role in ROLES:
            if arg.get(role):
                roles.setdefault(arg[role], role)

    def array(declared: dict[str, Any]) -> Trait:
        """The number of axes, and what the first one counts."""
        sizes = declared["shape"]
        kind, what = next(iter(sizes[0].items())) if sizes else ("const", 1)
        return roles.get(what, "features") if kind == "dim" else kind, len(sizes)

    found: set[Trait] = {("outputs", min(2, len(op.outputs))), ("stackable", op.stackable)}
    for arg in op.args:
        kind = arg["kind"]
        if kind in ("real", "ints"):
            found.add((kind, *array(arg), *(flag for flag in ("zero", "stored") if arg.get(flag))))
        elif kind == "pairs":
            found.add((kind, arg["rows"] == arg["columns"], arg["entries"] is not None, arg["constraint"]))
        else:
            found.add((kind,))
    found |= {("output", *array(o), o["dtype"], o["stored_as"] is not None) for o in op.outputs}
    found |= {("member", name) for name in op.members}
    found |= {("saves", "a gradient" if name.startswith("gradient by") else "values") for name in op.saves}
    return frozenset(found)


def covering(ops: Mapping[str, Any], together: int = 2) -> dict[str, Any]:
    """Ops such that as many traits as `together`, where they meet in any op, meet in one of these.

    The op that adds most comes first, and of equal ones the first of the registry.
    """
    if EVERY in os.environ:
        return dict(ops)
    together = 1 if FEW in os.environ else together
    has = {name: set(combinations(sorted(traits(op), key=str), together)) for name, op in ops.items()}
    missing = set().union(*has.values())
    chosen: dict[str, Any] = {}
    while missing:
        best = max(has, key=lambda name: len(has[name] & missing))
        chosen[best] = ops[best]
        missing -= has[best]
    return chosen


def stands_for_others(kernel: str) -> bool:
    """Whether a kernel of the library is one that tests compile: of those that one macro makes, the first."""
    first = {"lennard_jones", "harmonic_bonds", "harmonic_angles", "periodic_dihedrals"}
    made = {*TABLES} | {name for name, f in FUNCTIONS.items() if any(p.name == "atoms" for p in f.parameters())}
    return bool(os.environ.get(EVERY)) or kernel.rpartition("_")[0] not in made - first
