"""Particle mesh Ewald sums: declarations and bodies of the public functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung._functions.boundaries import BOUNDARIES, LATTICES, SLAB_CORRECTION, SLAB_HEIGHT, periodic_axes
from madelung._functions.channels import ENERGIES_OF_CHANNELS, of_channels
from madelung._functions.declare import KEYWORDS, Group, Parameter, function, text
from madelung._functions.ewald import DERIVATIVES, SYSTEM, SYSTEM_OF_CHANNELS
from madelung._functions.exclusions import EXCLUSIONS
from madelung._functions.framework import Framework
from madelung._functions.gaussians import SPREADS
from madelung._functions.laws import EXPONENT, LAW, law_of
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
from madelung._functions.plans import estimated, summed
from madelung._functions.results import PmeParameters
from madelung._functions.sum_arguments import Arguments, arguments, part

MESH_DIMENSIONS = Parameter(
    "mesh_dimensions",
    "nodes",
    text(
        "nodes of the mesh along each lattice vector, three integers, for all systems or for each (B, 3). They are "
        "Python integers, so that shapes are known in graphs and under `jit`."
    ),
    None,
)
MESH = Group(
    "mesh",
    (
        MESH_DIMENSIONS,
        Parameter(
            "mesh_spacing",
            "positive",
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
            "counts",
            text(
                "order p of the splines, 4 to 8, for all systems or for each: they are polynomials of degree p − 1, "
                "over p nodes of each axis. None: 5 with a mesh, else the order at which the sum costs the least for "
                "its accuracy."
            ),
            None,
        ),
    ),
)
CHOSEN_CUTOFF = CUTOFF.but(
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
    MESH,
    EXCLUSIONS,
    LAW,
    BATCH_IDX,
    OUTPUTS,
    STREAM,
    returns=ENERGIES_OF_CHANNELS,
    raises=ENERGY_ERRORS,
    op="ewald_mesh_reciprocal_space",
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
    pair_law: tuple[Any, Any],
    batch_idx: Any,
    outputs: tuple[Any, ...],
) -> Any:
    """The reciprocal part of an Ewald sum on a mesh (Essmann et al., J. Chem. Phys. 103, 8577 (1995)).

    The self term −α/√π Σq² and the uniform background −πQ²/(2α²V) of a charged cell are part of it. The influence
    function is the one that gives the least error of the energy; forces are exact derivatives of that energy, so it is
    conserved, and their sum is not exactly zero.
    """
    nodes = mesh_of(f, cell, mesh)
    if nodes[0] is None:
        check.refuse("mesh_dimensions", "three integers (or `mesh_spacing`)", "None")
    given = {"mesh": nodes, "exclusions": exclusions, "law": law_of(pair_law, exclusions)}
    of = part(positions, charges, cell, batch_idx, alpha=alpha, **given)
    return summed(f, of, "mesh_reciprocal_space", outputs)


@function(
    *SYSTEM_OF_CHANNELS,
    ALPHA.but(default=None),
    KEYWORDS,
    MESH,
    CHOSEN_CUTOFF,
    LISTS,
    EXCLUSIONS,
    LAW,
    SPREADS,
    ACCURACY,
    BOUNDARIES,
    SLAB_CORRECTION,
    SLAB_HEIGHT,
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
    op="ewald_mesh_summation",
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
    pair_law: tuple[Any, Any],
    widths: Any,
    accuracy: Any,
    pbc: Any,
    slab_correction: Any,
    slab_height: Any,
    batch_idx: Any,
    outputs: tuple[Any, ...],
) -> Any:
    """The Coulomb energy of periodic point charges, with the reciprocal part of Ewald's sum on a mesh.

    Time goes with N log N, where that of `ewald_summation` goes with N^(3/2). A charged cell gets a uniform background.
    Those of `alpha`, `cutoff` and the mesh that are None are chosen for `accuracy` (see `estimate_pme_parameters`), for
    each system as if it were alone.
    In graphs, under transforms and on devices given parameters are taken as they are.
    """
    # Nodes that are so far apart are counted along the vectors of the cell.
    rows = () if mesh[1] is None else periodic_axes(f, cell, pbc)
    nodes = mesh_of(f, cell, mesh, tuple([sum(row) < 2 for row in rows]))
    parameters = (alpha, cutoff, None, (None, None), nodes)
    others = (exclusions, law_of(pair_law, exclusions), widths, accuracy, None)
    slabs = (pbc, slab_correction, slab_height)
    of = Arguments(positions, charges, cell, batch_idx, *slabs, lists, *parameters, *others)
    return summed(f, of, "mesh", outputs)


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
    MESH,
    EXPONENT,
    LATTICES,
    SLAB_HEIGHT,
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
    pbc: Any,
    slab_height: Any,
    batch_idx: Any,
) -> PmeParameters:
    """The parameters that `particle_mesh_ewald` uses: the cheapest for an accuracy, and the error that is expected.

    The real-space error is that of Kolafa and Perram, Mol. Simul. 9, 351 (1992); that of the mesh comes from the
    nearest aliases of each wave, between charges at random places and of a charge with itself. Measured errors were 0.7
    times the estimate in the median, less in crystals, and up to twice the estimate where cells are long and thin.
    Parameters that are chosen have an estimate of 5/8 of the accuracy.
    """
    given = {
        "alpha": alpha,
        "cutoff": cutoff,
        "mesh": mesh_of(f, cell, mesh),
        "law": law_of((exponent, None)),
        "accuracy": accuracy,
    }
    of = arguments(positions, charges, cell, batch_idx, pbc=pbc, slab_correction=True, slab_height=slab_height, **given)
    found, single = estimated(f, of, "mesh")
    meshes = [found.mesh[n : n + 4] for n in range(0, len(found.mesh), 4)]
    nodes, orders = tuple([(k1, k2, k3) for k1, k2, k3, _ in meshes]), tuple([p for *_, p in meshes])
    if single:
        return PmeParameters(found.alpha[0], found.cutoff[0], nodes[0], orders[0], found.errors[0], found.heights[0])
    each = (found.alpha, found.cutoff, found.errors, found.heights)
    split, reach, error, heights = (f.array(np.array(x), positions) for x in each)
    return PmeParameters(split, reach, nodes, orders, error, heights)


# Nodes along the axes of all systems or of each, and orders of splines likewise.
_Given = tuple[list[tuple[int, ...]] | None, list[int] | None]


def mesh_of(f: Framework, cell: Any, mesh: tuple[Any, ...], no_lattice: tuple[bool, ...] = (False,)) -> _Given:
    """The meshes that are given, by nodes or by how far apart these are, with the order of splines on them; or None."""
    dimensions, spacing, order = mesh
    order = None if order is None else _orders(order)
    nodes = None if dimensions is None else _nodes(dimensions)
    if spacing is not None:
        if nodes is not None:
            check.refuse("mesh_spacing", "it or `mesh_dimensions`", "both")
        apart, orders = check.positive("mesh_spacing", spacing), order or [_ORDER]
        if False not in no_lattice:
            return None, order
        # Cells of open systems are not looked at.
        cells = check.cells(f.value("cell", cell)).reshape(-1, 3, 3)
        is_none = np.broadcast_to(no_lattice, (max(len(cells), len(no_lattice)),))
        cells = check.lattice(np.where(is_none[:, None, None], np.eye(3, dtype=cells.dtype), cells))
        nodes = []
        for b in range(max(len(cells), len(orders))):
            h, p = cells[b % len(cells)][None], orders[b % len(orders)]
            nodes.append((p, p, p) if is_none[b % len(cells)] else tuple(_native.mesh_of_spacing(h, apart, p)[0]))
    if nodes is None:
        return None, order
    order = order or [_ORDER]
    for n in range(max(len(nodes), len(order))):
        row, p = nodes[n % len(nodes)], order[n % len(order)]
        if min(row) < p:
            check.refuse("mesh_dimensions", f"three integers from {p}, the order of the splines, up", list(row))
    return nodes, order


# The order of the splines on a mesh that is given.
_ORDER = 5


def _orders(order: Any) -> list[int]:
    """Orders of splines, of all systems or of each."""
    found = check.integer_list("spline_order", order if _is_list(order) else [order])
    if not found:
        check.refuse("spline_order", "4 to 8", "no number")
    for p in found:
        if not 4 <= p <= 8:
            check.refuse("spline_order", "4 to 8", p)
    return list(found)


def _nodes(dimensions: Any) -> list[tuple[int, ...]]:
    """Nodes along the axes, of all systems or of each."""
    try:
        rows = list(dimensions)
        rows = [list(row) for row in rows] if any([_is_list(row) for row in rows]) else [rows]
    except TypeError:
        rows = [[]]
    if any([len(row) != 3 for row in rows]):
        expected = "three integers, or three for each system"
        check.refuse("mesh_dimensions", expected, check.described(dimensions), TypeError)
    return [tuple(check.at_least_one("mesh_dimensions", k) for k in row) for row in rows]


def _is_list(x: Any) -> bool:
    return isinstance(x, (tuple, list)) or (isinstance(x, np.ndarray) and x.ndim > 0)
