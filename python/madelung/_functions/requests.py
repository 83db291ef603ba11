"""Requests of sums and their plans, as tuples of Python: `madelung_electrostatics::plan` decides."""

from __future__ import annotations

import functools
from typing import Any, Literal, NamedTuple

from madelung import _native

# Interactions that a sum has: the words for `plan::Sum` of Rust.
Sum = Literal["waves", "mesh", "real_space", "reciprocal_space", "mesh_reciprocal_space", "pairs", "shifted"]


class Given(NamedTuple):
    """Arguments that a caller gives: the fields of Rust's `plan::Given`."""

    alpha: bool
    cutoff: bool
    cutoffs: bool
    k_cutoff: bool
    waves: bool
    mesh: bool
    list: bool
    exclusions: bool
    widths: bool
    accuracy: bool
    cell: bool
    slabs: bool
    slab_height: bool
    narrow: bool
    readable: bool
    unread_axes: bool


class Request(NamedTuple):
    """Sum that is asked for: the fields of Rust's `plan::Request`."""

    sum: Sum
    method: str | None
    law: Any
    """p of 1/rᵖ; or name, prefix of its ops and parameters of a user's law."""
    pbc: tuple[tuple[bool, ...], ...] | None
    given: Given
    kinds: tuple[int, ...] | None


class Plan(NamedTuple):
    """The terms of a sum: `plan::Terms` of Rust, whose inputs stand once, for all terms."""

    inputs: tuple[tuple[Any, ...], ...]
    terms: tuple[tuple[Any, ...], ...]
    """Op, whether in the cells of the sum over the lattice, factors of charges, numbers of its inputs: real, others."""
    no_lattice: tuple[bool, ...] | str
    """Rows of systems, here and in inputs; or the kind of systems that they are of, by an array of periodic axes."""
    upright: tuple[tuple[int, ...], ...] | str | None
    chooses_height: bool
    chooses: bool
    by_extents: bool
    is_direct: bool
    refuses_slabs: bool
    """Whether slabs are not permitted, and `pbc` has no values by which they could be refused."""
    parts: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Sums of some systems each: methods and systems."""
    asks: bool = False
    """Whether the cheapest kind of sum of each system is asked for."""


@functools.lru_cache(maxsize=256)
def plan_of(request: Request) -> Plan:
    """The plan of a request."""
    return Plan(*_native.sum_plan(request))


def plan_in_graph(request: Request) -> Plan:
    """The plan of a request, by plain tuples alone, for functions that are compiled."""
    given = tuple(request.given)
    return constant_plan(request.sum, request.method, request.law, request.pbc, given, request.kinds)


def constant_plan(*fields: Any) -> Plan:
    """The plan of plain tuples. Compiled graphs hold it as a constant."""
    *some, given, kinds = fields
    return plan_of(Request(*some, Given(*given), kinds))


class Numbers(NamedTuple):
    """The parameters of each system: the fields of Rust's `plan::Chosen`."""

    alpha: Any
    cutoff: Any
    k_cutoff: Any
    mesh: Any
    heights: Any
    errors: Any
    """Expected relative errors of forces."""
    cost: float
    """Cost of a sum over lists, in the unit of a pair's."""
    lines: tuple[Any, ...] = ()
    """Images along each axis of a direct sum, and lines of waves, as inputs of its op."""
    by_crowding: bool = False
    """Whether atoms that crowd in a part of their cells may change what is chosen."""
