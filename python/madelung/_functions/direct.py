"""Sums of small systems over all pairs and waves at once: `method="direct"`."""

from __future__ import annotations

from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung._functions.boundaries import Boundaries, period_of, slab_term
from madelung._functions.declare import Parameter, text
from madelung._functions.exclusions import total
from madelung._functions.framework import Framework
from madelung._functions.parameters import LISTS
from madelung._functions.waves import waves_of

METHOD = Parameter(
    "method",
    "word",
    text(
        '"direct": all pairs and waves in one pass, without a list, for systems of some tens to a few hundred atoms '
        "and batches of them. The cutoff is then at most the smallest height of the cell, and half of it or all where "
        "it is chosen. None: pairs of a list, which is given or searched for."
    ),
    None,
    words=("direct",),
)


# The cutoff of open systems, in periods: of all their pairs, the nearest image counts alone.
_REACH = 0.25


def direct_sum(
    f: Framework,
    of: tuple[Any, ...],
    given: tuple[Any, Any, Any],
    miller: tuple[Any, Any],
    refused: tuple[Any, Any, tuple[Any, ...]],
    accuracy: Any,
    edges: Boundaries,
    outputs: tuple[Any, ...],
) -> Any:
    """The sum of positions, charges, cell and systems; `given`: alpha, cutoff and k_cutoff; `refused`: what may not
    be, exclusions, widths and lists."""
    exclusions, widths, lists = refused
    names = ("exclusions", "widths", *(p.name for p in LISTS.parameters[:-1]))
    for name, x in zip(names, (exclusions, widths, *lists[:-1])):
        if x is not None:
            check.refuse(name, 'None with `method="direct"`', check.described(x))
    positions, charges, cell, batch_idx = of
    period = edges.closed(f, cell, positions)
    wanted, system = f.outputs(outputs), f.system(positions, charges, period, batch_idx)
    edges.check(system.systems)
    wires = edges.wires(f, of, cell, (), None, None)
    if edges.only_wires:
        return total(f, system, wanted, wires)
    (alpha, cutoff, _), (indices, idx) = given, miller
    is_whole = alpha is not None and cutoff is not None and indices is not None
    waves = waves_of(f, system, period, None, miller) if indices is not None or idx is not None else None
    if is_whole and not f.is_readable(period, indices):
        # Two images reach as far as any cutoff that there may be; a wave is a line of its own.
        images, lines = (2, 2, 2), [waves[0], f.one_system(waves[0].shape[0], system), waves[1]]
        if not edges.is_lattice:
            reach = f.where(edges.no_lattice, _REACH * period_of(positions), f.per_system("cutoff", cutoff, system))
    else:
        accuracy = None if is_whole else accuracy
        atoms = (positions, period, batch_idx)
        split, reach, images, *lines = f.untraced(_kept, f, atoms, given, accuracy, edges, system)
        if indices is not None:
            lines = f.untraced(_grouped, f, system, indices, idx)
    if alpha is not None:
        split = edges.splits(f, f.per_system("alpha", alpha, system))
    if cutoff is not None and edges.is_lattice:
        reach = f.per_system("cutoff", cutoff, system)
    return total(
        f,
        edges.lattices(f, system, (positions, charges, period, batch_idx)),
        wanted,
        ("ewald_direct", (split, reach), (*images, *lines)),
        slab_term(f, system, edges.slab_axes),
        wires,
    )


def _grouped(f: Framework, system: Any, indices: Any, idx: Any) -> list[Any]:
    """Lines of waves whose indices can be read."""
    waves = check.integers("miller_indices", f.value("miller_indices", indices), ("K", 3))
    of = np.zeros(len(waves), np.int32)
    if idx is not None:
        of = check.integers("miller_batch_idx", f.value("miller_batch_idx", idx), (len(waves),))
    systems = system.systems
    if not ((of >= 0) & (of < systems)).all() or (np.diff(of) < 0).any():
        check.refuse(
            "miller_batch_idx", f"numbers of systems, 0 to {systems - 1}, in ascending order", check.described(idx)
        )
    for row in np.flatnonzero((waves == 0).all(axis=1))[:1]:
        check.refuse("miller_indices", "wave vectors other than (0, 0, 0)", f"it in row {row}")
    like, _, _ = f.atoms(system)
    return [f.indices(x, like) for x in _native.wave_lines(*(np.require(x, np.int32, ["C", "A"]) for x in (waves, of)))]


def _kept(f: Framework, of: tuple[Any, Any, Any], given: Any, accuracy: Any, edges: Boundaries, system: Any) -> Any:
    """Inputs of a call from values of its cells, the numbers of its atoms and the given parameters."""
    positions, period, batch_idx = of
    systems = system.systems
    cells = np.asarray(f.value("cell", period), np.float64).reshape(-1, 3, 3)
    if len(cells) != systems:
        cells = np.broadcast_to(cells, (systems, 3, 3))
    atoms: tuple[int, ...] = (positions.shape[0],)
    if batch_idx is not None:
        atoms = tuple(np.bincount(f.value("batch_idx", batch_idx), minlength=systems).tolist())
    numbers = [
        None if x is None else tuple(check.per_system(name, f.value(name, x), systems))
        for name, x in zip(("alpha", "cutoff", "k_cutoff"), given)
    ]
    period = None if edges.is_lattice else period_of(positions)
    return f.kept(_inputs, (cells.tobytes(), atoms, *numbers, accuracy, edges.no_lattice, period), positions)


def _inputs(
    cells: bytes,
    atoms: tuple[int, ...],
    alpha: Any,
    cutoff: Any,
    k_cutoff: Any,
    accuracy: float | None,
    no_lattice: tuple[bool, ...],
    period: float | None,
) -> tuple[Any, ...]:
    """Splitting parameter and cutoff of each system, images along each axis, and lines of waves."""
    h = np.frombuffer(cells).reshape(-1, 3, 3)
    closed = ~np.broadcast_to(no_lattice, (len(h),))

    def chosen(x: Any) -> Any:
        return x if x is None or len(x) == 1 else [each for each, there in zip(x, closed) if there]

    settings = check.Settings(chosen(alpha), chosen(cutoff), chosen(k_cutoff), accuracy)
    rows, images = _native.direct_parameters([n for n, there in zip(atoms, closed) if there], h[closed], settings)
    # Of open systems there are no waves, and all pairs.
    each = np.array([0.0, 0.0, 0.0, 0.0] if period is None else [1.0 / period, _REACH * period, 0.0, 0.0])
    each = np.tile(each, (len(h), 1))
    each[closed] = np.array(rows).reshape(-1, 4)
    miller, of = check.miller_indices(h.copy(), each[:, 2].tolist(), len(h))
    return each[:, 0].copy(), each[:, 1].copy(), tuple(images), *_native.wave_lines(miller, of)
