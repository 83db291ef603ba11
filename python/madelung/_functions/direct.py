"""Sums of small systems over all pairs and waves at once: `method="direct"`."""

from __future__ import annotations

import functools
from collections.abc import Callable
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

METHODS = ("direct", "list")
METHOD = Parameter(
    "method",
    "word",
    text(
        '"direct": all pairs and waves in one pass, without a list, for systems of some tens to a few hundred atoms '
        "and batches of them. The cutoff is then at most the smallest height of the cell, and half of it or all where "
        'it is chosen. "list": pairs of a list, which is given or searched for. None: "list" where a list or a '
        "parameter is given; else, for each system, the sum that costs less.",
        torch="In graphs, under transforms of `torch.func` and on devices that is the one over a list.",
        jax="On devices that is the one over a list.",
        cuda="That is the one over a list.",
    ),
    None,
    words=METHODS,
)

# Kinds of sums that parts of a batch may have: over a list, directly over nearest images, and over more of them.
_LIST, _NEAREST, _MORE = range(3)
LIST = (_LIST,)

# The cutoff of open systems, in periods: of all their pairs, the nearest image counts alone.
_REACH = 0.25


def kinds_of_sums(f: Framework, of: tuple[Any, ...], accuracy: float, edges: Boundaries) -> tuple[int, ...]:
    """The kind of sum that costs least for each system, all parameters chosen; one for all where they agree.

    Arguments with errors have that over a list, which names them.
    """
    positions, charges, cell, batch_idx = of
    period = edges.closed(f, cell, positions)
    system = f.system(positions, charges, period, batch_idx)
    edges.check(system.systems)
    r, _, idx = f.atoms(system)
    if str(getattr(idx, "dtype", "")).rpartition(".")[2] not in ("int32", "int64"):
        return LIST
    try:
        atoms = _atoms_of_systems(f, r, batch_idx, system.systems)
        cells = np.asarray(f.value("cell", period), np.float64)
        return _kinds(cells.tobytes(), atoms, accuracy, edges.no_lattice)
    except ValueError:
        return LIST


def _atoms_of_systems(f: Framework, positions: Any, batch_idx: Any, systems: int) -> tuple[int, ...]:
    """The number of atoms of each system."""
    atoms = positions.shape[0]
    if batch_idx is None:
        return (atoms,)
    idx = check.integers("batch_idx", f.value("batch_idx", batch_idx), (atoms,))
    if atoms and (idx[0] < 0 or idx[-1] >= systems or (idx[1:] < idx[:-1]).any()):
        check.refuse(
            "batch_idx",
            f"systems 0 to {systems - 1}, sorted (the atoms of one, then those of the next)",
            check.described(idx),
        )
    return tuple(np.bincount(idx, minlength=systems).tolist())


@functools.lru_cache(maxsize=8)
def _kinds(cells: bytes, atoms: tuple[int, ...], accuracy: float, no_lattice: tuple[bool, ...]) -> tuple[int, ...]:
    h, closed = _lattices(cells, atoms, no_lattice)
    kinds = np.where(np.array(atoms) <= _native.most_open_atoms(), _NEAREST, _LIST)
    if closed.any():
        numbers = tuple(n for n, there in zip(atoms, closed) if there)
        listed = _native.listed_costs(list(numbers), h, accuracy)
        direct = _parameters(h.tobytes(), numbers, None, None, None, accuracy)
        kinds[closed] = [
            _LIST if cost > other else _NEAREST if max(images) == 1 else _MORE
            for (_, images, cost), other in zip(direct, listed)
        ]
    counted = kinds[np.array(atoms) > 0]
    if (counted == counted[:1]).all():
        return (int(counted[0]),) if len(counted) else LIST
    # An empty system takes part in any sum.
    kinds[np.array(atoms) == 0] = counted[0]
    return tuple(kinds.tolist())


def _lattices(cells: bytes, atoms: tuple[int, ...], no_lattice: tuple[bool, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The cells of systems that are summed over a lattice, and which these are."""
    h = np.frombuffer(cells).reshape(-1, 3, 3)
    closed = ~np.broadcast_to(no_lattice, (len(atoms),))
    return np.ascontiguousarray(np.broadcast_to(h, (len(atoms), 3, 3))[closed]), closed


@functools.lru_cache(maxsize=8)
def _parameters(
    cells: bytes, atoms: tuple[int, ...], alpha: Any, cutoff: Any, k_cutoff: Any, accuracy: float | None
) -> list[tuple[Any, Any, float]]:
    """Parameters, images and costs of direct sums."""
    settings = check.Settings(alpha, cutoff, k_cutoff, accuracy)
    return _native.direct_parameters(list(atoms), np.frombuffer(cells).reshape(-1, 3, 3), settings)


def by_kind(
    f: Framework,
    body: Callable[..., Any],
    of: tuple[Any, ...],
    pbc: Any,
    kinds: tuple[int, ...],
    outputs: tuple[Any, ...],
) -> Any:
    """The results of a batch with several kinds of sums, each of its own systems.

    `body` takes positions, charges, cell, periodic axes, whether there are slabs, method and the system of each atom.
    """
    positions, charges, cell, batch_idx = of
    positions, cell, idx = f.atoms(f.system(positions, charges, cell, batch_idx))
    index = check.integers("batch_idx", f.value("batch_idx", idx), positions.shape[:1])
    charges = charges if hasattr(charges, "dtype") else np.asarray(charges, positions.dtype)
    check.fits("charges", charges, positions.shape[:1])
    axes = check.periodic(f.value("pbc", pbc))

    def rows(x: Any) -> Any:
        return f.indices(x.astype(np.int32), positions)

    found, atoms_of, systems_of = [], [], []
    for kind in sorted(set(kinds)):
        has = np.array(kinds) == kind
        atoms, systems = np.flatnonzero(has[index]), np.flatnonzero(has)
        own = f.taken(positions, rows(atoms)), f.taken(charges, rows(atoms)), f.taken(cell, rows(systems))
        own_axes = axes if axes is None or len(axes) == 1 else axes[systems]
        has_slabs = own_axes is not None and bool((own_axes.sum(1) == 2).any())
        method = "list" if kind == _LIST else "direct"
        found.append(body(*own, own_axes, has_slabs, method, rows((np.cumsum(has) - 1)[index[atoms]])))
        atoms_of.append(atoms)
        systems_of.append(systems)
    by_atom, by_system = (rows(np.argsort(np.concatenate(x))) for x in (atoms_of, systems_of))
    if not isinstance(found[0], tuple):
        return f.taken(f.joined(found), by_system if outputs[1] == "system" else by_atom)
    # Forces and charge gradients are those of atoms; the virial is the last result.
    each = [by_atom] * len(found[0])
    each[0] = by_system if outputs[1] == "system" else by_atom
    each[-1] = by_system if outputs[4] else by_atom
    return tuple([f.taken(f.joined(parts), order) for parts, order in zip(zip(*found), each)])


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
    positions, _, _ = f.atoms(system)
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
    atoms = _atoms_of_systems(f, f.atoms(system)[0], batch_idx, systems)
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
    lattices, closed = _lattices(cells, atoms, no_lattice)

    def chosen(x: Any) -> Any:
        return x if x is None or len(x) == 1 else tuple(each for each, there in zip(x, closed) if there)

    numbers = tuple(n for n, there in zip(atoms, closed) if there)
    found = _parameters(lattices.tobytes(), numbers, *map(chosen, (alpha, cutoff, k_cutoff)), accuracy)
    images = np.max([reached for _, reached, _ in found], axis=0, initial=1) if found else np.ones(3, int)
    # Of open systems there are no waves, and all pairs.
    each = np.array([0.0, 0.0, 0.0, 0.0] if period is None else [1.0 / period, _REACH * period, 0.0, 0.0])
    each = np.tile(each, (len(h), 1))
    each[closed] = np.array([row for row, _, _ in found]).reshape(-1, 4)
    miller, of = check.miller_indices(h.copy(), each[:, 2].tolist(), len(h))
    return each[:, 0].copy(), each[:, 1].copy(), tuple(images.tolist()), *_native.wave_lines(miller, of)
