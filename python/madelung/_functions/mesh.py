"""Particle mesh Ewald sums: declarations and bodies of the public functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung._functions.boundaries import (
    BOUNDARIES,
    PERIODIC,
    SLAB_CORRECTION,
    Boundaries,
    boundaries,
    slab_term,
)
from madelung._functions.channels import ENERGIES_OF_CHANNELS, of_channels
from madelung._functions.declare import KEYWORDS, Group, Parameter, function, text
from madelung._functions.ewald import DERIVATIVES, SYSTEM, SYSTEM_OF_CHANNELS, cutoffs_of, known_reach
from madelung._functions.exclusions import EXCLUSIONS, excluded_pairs, total, without
from madelung._functions.framework import Framework
from madelung._functions.gaussians import SPREADS, widths_term
from madelung._functions.lists import pairs_of
from madelung._functions.parameters import (
    ACCURACY,
    ALPHA,
    BATCH_IDX,
    CUTOFF,
    ENERGY_ERRORS,
    ERRORS,
    LISTS,
    OUTPUTS,
    STREAM,
)
from madelung._functions.powers import EXPONENT, check_neutral, law_of, power_of
from madelung._functions.results import PmeParameters

_MESH = Group(
    "mesh",
    (
        Parameter(
            "mesh_dimensions",
            "nodes",
            text("nodes of the mesh along each lattice vector, three integers, the same for all systems."),
            None,
        ),
        Parameter(
            "mesh_spacing",
            "number",
            text(
                "in their place, how far apart nodes may be along a lattice vector, in L.",
                torch="Where it is given the cell is read.",
                jax="Not under `jit`.",
                cuda="The cell is then read, for which the call waits.",
            ),
            None,
        ),
        Parameter(
            "spline_order",
            "count",
            text(
                "order p of the splines, 4 to 8: they are polynomials of degree p − 1, over p nodes of each axis. "
                "None: 5 with a mesh, else the order at which the sum costs the least for its accuracy."
            ),
            None,
        ),
    ),
)
_CHOSEN_CUTOFF = CUTOFF.but(
    kind="per_system",
    text=text(
        "radius of the real-space sum, in L, one for all systems or (B,); one is needed with a neighbour list.",
        jax="Python numbers.",
    ),
)


@function(
    *SYSTEM_OF_CHANNELS,
    ALPHA,
    KEYWORDS,
    _MESH,
    EXCLUSIONS,
    EXPONENT,
    BATCH_IDX,
    OUTPUTS,
    STREAM,
    returns=ENERGIES_OF_CHANNELS,
    raises=ENERGY_ERRORS,
)
@of_channels
def pme_reciprocal_space(
    f: Framework,
    positions: Any,
    charges: Any,
    cell: Any,
    alpha: Any,
    mesh: tuple[Any, ...],
    exclusions: Any,
    exponent: Any,
    batch_idx: Any,
    outputs: tuple[Any, ...],
) -> Any:
    """The reciprocal part of an Ewald sum on a mesh (Essmann et al., J. Chem. Phys. 103, 8577 (1995)).

    The self term −α/√π Σq² and the uniform background −πQ²/(2α²V) of a charged cell are part of it. The influence
    function is the one that gives the least error of the energy; forces are exact derivatives of that energy, so it is
    conserved, and their sum is not exactly zero.
    """
    wanted, system = f.outputs(outputs), f.system(positions, charges, cell, batch_idx)
    nodes = _nodes(f, cell, mesh)
    if nodes is None:
        check.refuse("mesh_dimensions", "three integers (or `mesh_spacing`)", "None")
    split = f.per_system("alpha", alpha, system)
    excluded = excluded_pairs(f, system, exclusions)
    check_neutral(f, (positions, charges, cell, batch_idx), exponent, PERIODIC.is_open)
    law = law_of(f, system, split, exponent)
    left_out = excluded and excluded.term(law, check.UNBOUNDED, (0.0, 1.0))
    waves = f"{law.prefix}_mesh_reciprocal_space", law.reals, (*nodes, order_of(mesh))
    return total(f, system, wanted, waves, left_out)


@function(
    *SYSTEM_OF_CHANNELS,
    ALPHA.but(default=None),
    KEYWORDS,
    _MESH,
    _CHOSEN_CUTOFF,
    LISTS,
    EXCLUSIONS,
    EXPONENT,
    SPREADS,
    ACCURACY,
    BOUNDARIES,
    SLAB_CORRECTION,
    BATCH_IDX,
    OUTPUTS,
    STREAM,
    notes={
        "torch": DERIVATIVES + ". In a compiled graph, lists, `alpha`, `cutoff` and `mesh_dimensions` are given.",
        "jax": DERIVATIVES + "; in every mode of JAX. Under `jit`, `vmap`, `scan` and `shard_map` the list (with its "
        "`neighbor_ptr`), `cutoff`, `alpha` and `mesh_dimensions` are given.",
        "cuda": "With `alpha`, `cutoff`, `mesh_dimensions` and a full list with its offsets and images nothing is "
        "waited for. Otherwise the call waits for charges and cell and reads them.",
    },
    returns=ENERGIES_OF_CHANNELS,
    raises=ENERGY_ERRORS,
)
@of_channels
def particle_mesh_ewald(
    f: Framework,
    positions: Any,
    charges: Any,
    cell: Any,
    alpha: Any,
    mesh: tuple[Any, ...],
    cutoff: Any,
    lists: tuple[Any, ...],
    exclusions: Any,
    exponent: Any,
    widths: Any,
    accuracy: Any,
    pbc: Any,
    slab_correction: Any,
    batch_idx: Any,
    outputs: tuple[Any, ...],
) -> Any:
    """The Coulomb energy of periodic point charges, with the reciprocal part of Ewald's sum on a mesh.

    Time goes with N log N, where that of `ewald_summation` goes with N^(3/2). A charged cell gets a uniform background.
    Those of `alpha`, `cutoff` and the mesh that are None are chosen for `accuracy` (see `estimate_pme_parameters`).
    In graphs, under transforms and on devices given parameters are taken as they are.
    """
    edges = boundaries(f, pbc, cell, slab_correction)
    has_list = any([x is not None for x in lists[:-1]])
    cutoff = known_reach(lists, cutoff, alpha, edges)
    period = edges.closed(f, cell, positions)
    wanted, system = f.outputs(outputs), f.system(positions, charges, period, batch_idx)
    edges.check(system.systems)
    cutoff, reach = cutoffs_of(f, lists, cutoff, system.systems)
    nodes, of = _nodes(f, cell, mesh), (positions, charges, period, batch_idx)
    order = mesh[2] if nodes is None else order_of(mesh)
    edges.check_law(f, of, exponent)
    edges.check_widths(widths, exclusions, exponent)
    wires = edges.wires(f, of, cell, exclusions)
    if edges.only_wires:
        return total(f, system, wanted, wires)
    is_left = alpha is None or nodes is None or (not has_list and (cutoff is None or edges.any_open))
    if is_left or (accuracy is not None and f.is_readable(*of, alpha)):
        given = (nodes, None, order)
        _, rows, nodes, order = f.untraced(_parameters, f, of, alpha, cutoff, given, accuracy, edges, exponent)
        if not has_list and (cutoff is None or edges.any_open):
            # The search keeps to the cutoff of each system.
            cutoff, reach = [row[1] for row in rows], check.UNBOUNDED
        if alpha is None:
            alpha = [row[0] for row in rows]
    reach = check.UNBOUNDED if edges.any_open else reach
    excluded = excluded_pairs(f, system, exclusions)
    listed = edges.listed(f, system, of, cell)
    pairs = without(f, pairs_of(f, *listed, lists, cutoff), excluded)
    law = law_of(f, system, edges.splits(f, f.per_system("alpha", alpha, system)), exponent)
    sums = f"{law.prefix}_mesh_summation", law.reals, (*pairs, reach, *nodes, order)
    left_out = excluded and excluded.term(law, reach, (1.0, 1.0))
    slabs = slab_term(f, system, edges.slab_axes)
    spread = widths_term(f, system, widths, (listed[0], (positions, cell, pbc, batch_idx)), lists, (cutoff, accuracy))
    return total(f, edges.lattices(f, system, of), wanted, sums, slabs, wires, left_out, spread)


@function(
    *SYSTEM,
    ACCURACY,
    CUTOFF.but(
        kind="per_system",
        text=text(
            "radius of the real-space sum, in L, one for all systems or (B,). Kept where it is given, as are `alpha` "
            "and the mesh."
        ),
    ),
    KEYWORDS,
    ALPHA.but(default=None, text=text("splitting parameter in 1/L, one for all systems or (B,).")),
    _MESH,
    EXPONENT,
    BATCH_IDX.but(text=text("(N,), the system of each atom, sorted. None: one system.")),
    notes={"jax": "Not under `jit`.", "cuda": "Arrays on a device are read, for which the call waits."},
    returns=text(
        "Numbers for one system; for a batch (a cell (B, 3, 3), or `batch_idx`) arrays (B,) of float64.",
        torch="They are tensors, on the positions' device.",
        jax="They are arrays of NumPy.",
        cuda="They are arrays of NumPy.",
    ),
    raises=ERRORS,
    result="PmeParameters",
    eager=True,
)
def estimate_pme_parameters(
    f: Framework,
    positions: Any,
    charges: Any,
    cell: Any,
    accuracy: Any,
    cutoff: Any,
    alpha: Any,
    mesh: tuple[Any, ...],
    exponent: Any,
    batch_idx: Any,
) -> PmeParameters:
    """The parameters that `particle_mesh_ewald` uses: the cheapest for an accuracy, and the error that is expected.

    The real-space error is that of Kolafa and Perram, Mol. Simul. 9, 351 (1992); that of the mesh comes from the
    nearest aliases of each wave, between charges at random places and of a charge with itself. Measured errors were 0.1
    to 1.4 times the estimate; in crystals they are the smaller ones.
    """
    nodes = _nodes(f, cell, mesh)
    of = (positions, charges, cell, batch_idx)
    given = (nodes, None, mesh[2])
    system, rows, (k1, k2, k3), order = _parameters(f, of, alpha, cutoff, given, accuracy, PERIODIC, exponent)
    if system.single:
        ((split, reach, error),) = rows
        return PmeParameters(split, reach, (k1, k2, k3), order, error)
    split, reach, error = (f.array(x, positions) for x in np.array(rows).reshape(-1, 3).T.copy())
    return PmeParameters(split, reach, (k1, k2, k3), order, error)


def _nodes(f: Framework, cell: Any, mesh: tuple[Any, ...]) -> list[int] | None:
    """The nodes of a mesh, where they are given, or how far apart they are."""
    dimensions, spacing, _ = mesh
    nodes, p = _checked(dimensions, order_of(mesh))
    if spacing is None:
        return nodes
    if nodes is not None:
        check.refuse("mesh_spacing", "it or `mesh_dimensions`", "both")
    cells = check.cells(f.value("cell", cell)).reshape(-1, 3, 3)
    return list(_native.mesh_of_spacing(check.lattice(cells), check.positive("mesh_spacing", spacing), p))


def order_of(mesh: tuple[Any, ...]) -> Any:
    """The order of the splines on a mesh that is given."""
    return 5 if mesh[2] is None else mesh[2]


def _checked(nodes: Any, order: Any) -> tuple[list[int] | None, int]:
    """The nodes of a mesh along its three axes, if they are given, and the order of its splines."""
    p = check.integer("spline_order", order)
    if not 4 <= p <= 8:
        check.refuse("spline_order", "4 to 8", p)
    if nodes is None:
        return None, p
    try:
        each = [check.at_least_one("mesh_dimensions", k) for k in nodes]
    except TypeError:
        each = []
    if len(each) != 3:
        check.refuse("mesh_dimensions", "three integers", check.described(nodes), TypeError)
    if min(each) < p:
        check.refuse("mesh_dimensions", f"three integers from {p}, the order of the splines, up", each)
    return each, p


def _parameters(
    f: Framework,
    of: tuple[Any, ...],
    alpha: Any,
    cutoff: Any,
    mesh: tuple[Any, ...],
    accuracy: Any,
    edges: Boundaries = PERIODIC,
    exponent: Any = 1,
) -> tuple[check.Charges, list[list[float]], list[int], int]:
    """Charges as arrays of NumPy, (alpha, cutoff, predicted error) of each system, nodes and order of the mesh."""
    charges, split = f.values(*of), f.value("alpha", alpha)
    settings = check.mesh_settings(charges.systems, split, f.value("cutoff", cutoff), *mesh, accuracy)
    # Systems that are all open need none.
    order = order_of(mesh)
    nodes = [order] * 3 if mesh[0] is None else mesh[0]

    def estimated(some: check.Charges, settings: check.MeshSettings) -> Any:
        nonlocal nodes, order
        rows, nodes, order = _native.pme_parameters(some, settings, power_of(exponent))
        return rows

    rows = edges.parameters(f, of, charges, settings, estimated)
    return charges, rows, nodes, order
