"""Neighbour lists: declaration and body of the public function."""

from __future__ import annotations

from typing import Any

from madelung import _arguments as check
from madelung._functions import lists
from madelung._functions.declare import KEYWORDS, Parameter, function, text
from madelung._functions.framework import Framework
from madelung._functions.parameters import BATCH_IDX, CELL, ERRORS, PBC, POSITIONS, STREAM
from madelung._neighbors import Neighbors

_CUTOFF = Parameter("cutoff", "positive", text("in the unit of the positions.", jax="A Python number."))
_ATOMS = (
    POSITIONS.but(
        text=text(
            "(N, 3), float32 or float64, anywhere: they need not lie inside the cell.",
        )
    ),
    _CUTOFF,
    CELL.but(default=None, text=text("(3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.")),
    PBC.but(
        text=text(
            "(3,) or (B, 3) of bool, or one for all axes. None: the axes of a cell whose vectors are not zero.",
            cuda="An array of NumPy.",
        ),
    ),
    BATCH_IDX.but(
        text=text(
            "(N,), the system of each atom, sorted.",
            jax="Under `jit` with a cell for each system.",
            cuda="Without a cell for each system its last one is read.",
        )
    ),
    Parameter("batch_ptr", "integers", text("(B+1,), where each system begins.", cuda="It is read."), None, ("B+1",)),
)


@function(
    _ATOMS[0].but(
        text=text(
            "(N, 3), or without a cell (N, 2) or (N, 1), float32 or float64, anywhere: they need not lie inside the "
            "cell."
        )
    ),
    _CUTOFF.but(
        kind="cutoffs",
        text=text(
            "in the unit of the positions. Several numbers in a tuple, for a list each, from one search; with `types` "
            "(T, T), for two types each, and 0 where they are no pair.",
            jax="Python numbers.",
        ),
    ),
    *_ATOMS[2:],
    KEYWORDS,
    Parameter(
        "half_fill",
        "flag",
        text("every pair once (i < j, and of an atom's own images one of each two) instead of from both sides."),
        False,
    ),
    Parameter(
        "format",
        "word",
        text(
            'which arrays are returned, see below: "coo", "csr" or "matrix".',
            jax='With a capacity "coo" or "csr".',
            cuda='A "matrix" is made on the host.',
        ),
        "coo",
        words=("coo", "csr", "matrix"),
    ),
    Parameter(
        "max_neighbors",
        "count",
        text(
            "the most pairs that an atom may have, and the width of a matrix. None: as many as it has.",
            torch="On a CUDA device it goes with `capacity` for a matrix alone, which has −1 everywhere (N + 1 where "
            "that is the `fill_value`) if it does not fit.",
            cuda="Makes the list on the host.",
        ),
        None,
    ),
    Parameter(
        "capacity",
        "count",
        text(
            "the most pairs that the list may have, within the largest of several cutoffs. None: as many as it has.",
            jax="With one, arrays have that length.",
            cuda="With one, arrays have that length, with N, and zero in images, behind the last pair, whose number is "
            "the last of `neighbor_ptr`. A list of more has no pair at all; `madelung.check_device` raises that, and "
            "every function that is given the list makes NaN of it.",
        ),
        None,
    ),
    Parameter("fill_value", "count", text("the entry behind the neighbours of a row of a matrix. None: N."), None),
    Parameter(
        "return_distances",
        "flag",
        text("whether |r_ij| and r_ij of each pair are returned, zero in the padding."),
        False,
    ),
    Parameter("return_vectors", "flag", default=False),
    Parameter(
        "types",
        "integers",
        text("(N,), the type of each atom, from 0 on.", cuda="Makes the list on the host."),
        None,
        ("N",),
    ),
    Parameter(
        "centers",
        "integers",
        text(
            "(M,), rising indices of the atoms whose neighbours are wanted, which become rows 0 to M − 1 of the list. "
            "None: all.",
            cuda="Makes the list on the host.",
        ),
        None,
        ("M",),
    ),
    Parameter(
        "sources",
        "reals",
        text(
            "(M, 3), points that are the neighbours of atoms in place of other atoms, and the system of each (M,). One "
            "that is on an atom is a neighbour at distance zero.",
            cuda="Makes the list on the host.",
        ),
        None,
    ),
    Parameter("source_batch_idx", "integers", default=None, shape=("M",)),
    Parameter(
        "method",
        "word",
        text(
            '"cell_list" or "brute_force" (all pairs). None chooses by the size of the system.',
            cuda="There is one on a device, and the list is the same.",
        ),
        None,
        words=("cell_list", "brute_force"),
    ),
    STREAM,
    notes={
        "torch": "Distances and vectors are differentiable twice in positions and cell; which pairs there are is not. "
        "The number of pairs depends on values, so a compiled graph breaks here (an error with `fullgraph=True` and "
        "in exported graphs): make the list outside of it.\n\nCUDA tensors are searched on their device. Without "
        "`capacity` the number of pairs is read from it. With one, nothing is read or waited for, and "
        "`torch.cuda.graph` can capture the call: the tensors have room for `capacity` pairs, with N behind the last "
        "one (and zero in shifts, distances and vectors) and true offsets, and a list that does not fit is an error "
        "of `madelung.check_device` in the functions that read it.",
        "jax": "Distances and vectors are differentiable twice in positions and cell; which pairs there are is "
        "not.\n\nSizes of arrays may not depend on values under `jit` (and `vmap`, `scan`, `shard_map`). There "
        "`capacity` is the number of pairs that the list has room for, and the arrays have that length, filled up "
        "with N (images and distances with zero); `neighbor_ptr` and `num_pairs` say how many pairs there are. Where "
        "they are more than fit, `overflow` is True and the list holds none: every function that is given it returns "
        "NaN. Make a larger one then.",
        "cuda": "The list is made on the device, for images up to 500 boxes away along the first axis and 1000 along "
        "the others. Without a capacity the call waits once, for the number of pairs; with one it waits for nothing.",
    },
    returns=text(
        'For "coo": `neighbor_list` (2, P), `neighbor_ptr` (N+1,), `neighbor_shifts` (P, 3);\n'
        'for "csr": `neighbor_ptr` (N+1,), `indices` (P,), `neighbor_shifts` (P, 3);\n'
        'for "matrix": `neighbor_matrix` (N, M), `num_neighbors` (N,), `neighbor_matrix_shifts` (N, M, 3);\n'
        "all int32; then distances (P,) or (N, M) and vectors (P, 3) or (N, M, 3) if asked for.\n"
        "For several cutoffs, a tuple with these of each.",
        jax="Then, with a capacity (which is P), `num_pairs` () int32 and `overflow` () bool.",
    ),
    raises=text(
        f"{ERRORS.common} ValueError also where the list does not fit `max_neighbors` or `capacity`: the message has "
        "the size that is needed. A list is never cut short.",
        **ERRORS.notes,
    ),
    result="tuple[Any, ...]",
    eager=True,
)
def neighbor_list(
    f: Framework,
    positions: Any,
    cutoff: Any,
    cell: Any,
    pbc: Any,
    batch_idx: Any,
    batch_ptr: Any,
    half_fill: Any,
    format: Any,
    max_neighbors: Any,
    capacity: Any,
    fill_value: Any,
    return_distances: Any,
    return_vectors: Any,
    types: Any,
    centers: Any,
    sources: Any,
    source_batch_idx: Any,
    method: Any,
) -> tuple[Any, ...]:
    """All pairs of atoms and images closer than `cutoff` (strictly).

    The cell may have any shape and handedness and may be smaller than the cutoff. Rows are ordered by i, then j, then
    S, and the list depends neither on the method nor on the number of threads.
    """
    options = check.list_options(
        half_fill, format, method, max_neighbors, capacity, fill_value, return_distances, return_vectors
    )
    chosen = lists.Chosen(types, centers, sources, source_batch_idx)
    return f.neighbor_list(positions, cutoff, cell, pbc, batch_idx, batch_ptr, chosen, options)


@function(
    *_ATOMS,
    KEYWORDS,
    Parameter(
        "form",
        "word",
        text(
            'how the pairs are kept, "rows" or "clusters" (of atoms that are neighbours in space). None: in clusters '
            "where that is faster (a system of 512 atoms or more, with some hundred neighbours each, on the CPU), else "
            "in rows. A system's results do not depend on its batch.",
            cuda="In rows on a device.",
        ),
        None,
        words=("clusters", "rows"),
    ),
    STREAM,
    notes={
        "torch": "A compiled graph breaks at this call: the sizes depend on values. Make the list outside of it. CUDA "
        "tensors are searched on their device, and the number of pairs is read from it.",
        "jax": "Not under `jit`: see `NeighborList`, whose `update` is.",
        "cuda": "The call waits once, for the number of pairs.",
    },
    returns=text("The neighbours, for the argument `neighbors` of other functions."),
    raises=ERRORS,
    result="Neighbors",
    eager=True,
)
def find_neighbors(
    f: Framework,
    positions: Any,
    cutoff: Any,
    cell: Any,
    pbc: Any,
    batch_idx: Any,
    batch_ptr: Any,
    form: Any,
) -> Neighbors:
    """All pairs of atoms and images closer than `cutoff` (strictly), in the form that is fastest to use.

    The pairs of `neighbor_list`; sums over them, and the search, take about half of the time that they take with plain
    arrays. The clusters are those of S. Páll and B. Hess, Comput. Phys. Commun. 184, 2641 (2013).
    """
    if form is not None:
        check.word("form", form, ("clusters", "rows"))
    return f.find_neighbors(positions, check.positive("cutoff", cutoff), cell, pbc, batch_idx, batch_ptr, form)
