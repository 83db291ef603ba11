"""Sums by plans: the arguments of a call make a request, its plan says which ops add up, and these are called.

`madelung_electrostatics::plan` decides; here are the arrays.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any, NamedTuple

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung._functions.boundaries import axes_of, each_system, integers_of_kind, of_kind, open_axes, with_unit_cells
from madelung._functions.exclusions import Excluded, excluded_pairs, without
from madelung._functions.framework import Framework
from madelung._functions.gaussians import reach_of_widths, widest_of
from madelung._functions.laws import check_neutral
from madelung._functions.lists import pairs_of, reach_of
from madelung._functions.numbers import kinds_of, numbers_of, values_of
from madelung._functions.parameters import LISTS
from madelung._functions.requests import Given, Numbers, Plan, Request, Sum
from madelung._functions.sum_arguments import Arguments, changed
from madelung._functions.waves import waves_of

# Sums that converge whatever the sum of the charges is.
_OF_PAIRS = ("real_space", "pairs", "shifted")


class Call(NamedTuple):
    """A call and its plan."""

    f: Framework
    of: Arguments
    system: Any
    """Its atoms, in the cells that are given."""
    axes: Any
    """The periodic axes of each system or of all, in Python's own types; or, where nobody has read them, an array."""
    plan: Plan
    numbers: Any
    """The parameters that `plan::numbers` has chosen."""
    excluded: Excluded | None


def summed(f: Framework, of: Arguments, interactions: Sum, outputs: tuple[Any, ...]) -> Any:
    """The results of a sum."""
    try:
        return _summed(f, of, interactions, outputs)
    except (ValueError, RuntimeError):
        # A cell that was refused may have open axes. What is wrong with one that cannot be looked at has been said.
        axes = None
        with contextlib.suppress(ValueError, TypeError):
            axes = open_axes(f, of.cell, of.pbc)
        if axes is None:
            raise
    return _summed(f, changed(of, pbc=axes), interactions, outputs)


def _summed(f: Framework, of: Arguments, interactions: Sum, outputs: tuple[Any, ...]) -> Any:
    call, inputs = prepared(f, of, interactions)
    if call.plan.parts:
        return _in_parts(f, call.of, call.axes, call.plan.parts, outputs)
    results = evaluated(call, inputs, f.outputs(outputs))
    return _without_slabs(call, results, outputs) if call.plan.refuses_slabs else results


def _without_slabs(call: Call, results: Any, outputs: tuple[Any, ...]) -> Any:
    """The results with NaN for slabs, which are not permitted, where the periodic axes have no values."""
    f, (like, _, idx) = call.f, call.f.atoms(call.system)
    is_slab = f.axes("pbc", call.of.pbc, call.system).sum(-1) == 2
    each = f.where(is_slab, math.nan, f.numbers(np.ones(call.system.systems), like))
    _, reduction, _, _, virial, _ = outputs
    of_atoms, several = f.taken(each, idx), results if isinstance(results, tuple) else (results,)
    factors = [each if reduction == "system" else of_atoms, *[of_atoms] * (len(several) - 1)]
    factors[-1] = each if virial is True else factors[-1]
    found = tuple([x * by.reshape(-1, *[1] * (len(x.shape) - 1)) for x, by in zip(several, factors)])
    return found if isinstance(results, tuple) else found[0]


def prepared(f: Framework, of: Arguments, interactions: Sum) -> tuple[Call, list[Any]]:
    """A call with all that its plan chooses and searches for, and the inputs of its ops."""
    positions, charges, cell, batch_idx = of.positions, of.charges, of.cell, of.batch_idx
    system = f.system(positions, charges, f.no_cell(positions) if cell is None else cell, batch_idx)
    is_unread = f.has_no_value(of.pbc)
    axes = f.axes("pbc", of.pbc, system) if is_unread else axes_of(f, of.pbc)
    accuracy = None if of.accuracy is None else check.positive("accuracy", of.accuracy)
    cutoff = _cutoff(f, of, system.systems)
    if cutoff is not of.cutoff or accuracy is not of.accuracy:
        of = changed(of, cutoff=cutoff, accuracy=accuracy)
    request = _request(f, of, system, axes, interactions)
    plan, values = f.planned(request), None
    if is_unread and plan.chooses:
        return prepared(f, changed(of, pbc=axes_of(f, of.pbc)), interactions)
    if plan.asks or plan.chooses:
        values = f.untraced(values_of, f, of, system, axes, plan.by_extents)
        if axes is None and values[0] is None:
            return prepared(f, of._replace(pbc=values[1]), interactions)
    if plan.refuses_slabs:
        # They are summed as open systems, and NaN in the end.
        axes = axes * (axes.sum(-1) != 2)[:, None]
    if plan.asks:
        kinds = kinds_of(request, *values, of.accuracy)
        if batch_idx is not None and str(f.atoms(system)[2].dtype).rpartition(".")[2] not in ("int32", "int64"):
            # The op over a list refuses them.
            kinds = (0,) * len(kinds)
        request = request._replace(kinds=kinds)
        plan = f.planned(request)
    numbers = excluded = None
    if plan.chooses:
        numbers = f.untraced(numbers_of, f, of, system, request, values, plan.is_direct)
    if plan.parts:
        return Call(f, of, system, axes, plan, None, None), []
    if not is_unread and request.sum not in _OF_PAIRS:
        check_neutral(f, (positions, charges, cell, batch_idx), of.law, plan.no_lattice)
    if (
        not is_unread
        and False not in plan.no_lattice
        and f.is_readable(of.positions, of.charges, of.cell, of.batch_idx)
    ):
        _check_unused(f, of, system, request)
    if of.widths is not None:
        _check_widths(f, of, system, request)
    if of.exclusions is not None:
        excluded = excluded_pairs(f, system, (positions, cell, axes, batch_idx), of.exclusions)
    call = Call(f, of, system, axes, plan, numbers, excluded)
    return call, [_INPUTS[kind](call, *rest) for kind, *rest in plan.inputs]


def all_added(f: Framework, results: list[Any]) -> Any:
    """The results of a call from those of its terms."""
    if len(results) == 1:
        return results[0]
    return tuple([f.added(each) for each in zip(*results)]) if isinstance(results[0], tuple) else f.added(results)


def evaluated(call: Call, inputs: list[Any], wanted: Any) -> Any:
    """The results of a call's terms, added up."""
    return all_added(call.f, [call.f.energies(*term, wanted) for term in _terms(call, inputs)])


def evaluated_along(call: Call, inputs: list[Any], prefactor: float, *along: dict[str, Any]) -> Any:
    """The derivatives of the energies of atoms along one direction, or along two."""
    return call.f.added([call.f.energies_along(*term, prefactor, *along) for term in _terms(call, inputs)])


def _terms(call: Call, inputs: list[Any]) -> list[tuple[Any, ...]]:
    """The terms of a call: op, atoms and the inputs before and behind those of all energies."""
    found, lattice = [], None
    for op, is_lattice, charged, reals, rest in call.plan.terms:
        if is_lattice and lattice is None:
            lattice = _cells(call)
        atoms = _atoms(call, lattice if is_lattice else None, charged)
        own, others = ([x for n in numbers for x in inputs[n]] for numbers in (reals, rest))
        found.append((op, atoms, tuple(own), tuple(others)))
    return found


def of_other_atoms(
    call: Call, inputs: list[Any], positions: Any, charges: Any, cell: Any, widths: Any, factors: Any = None
) -> Any:
    """The call for other positions, charges, cells, widths and factors of exclusions, with what was found before."""
    f, of = call.f, call.of
    of = of._replace(positions=positions, charges=charges, cell=None if of.cell is None else cell, widths=widths)
    system = f.system(positions, charges, cell, of.batch_idx)
    call = call._replace(of=of, system=system)
    kinds = [kind for kind, *_ in call.plan.inputs]
    found = [_widths(call) if kind == "widths" else x for kind, x in zip(kinds, inputs)]
    if factors is not None:
        found = [(*x[:-1], factors) if kind == "excluded" else x for kind, x in zip(kinds, found)]
    return call, found


def parameters(f: Framework, of: Arguments, interactions: Sum, is_read: bool = False) -> Numbers:
    """The parameters of each system in a sum over a list, and their cost; `is_read`: from values of all arrays."""
    positions, charges, cell, batch_idx = of.positions, of.charges, of.cell, of.batch_idx
    system = f.system(positions, charges, f.no_cell(positions) if cell is None else cell, batch_idx)
    axes = axes_of(f, of.pbc)
    accuracy = None if of.accuracy is None else check.positive("accuracy", of.accuracy)
    of = of._replace(cutoff=_cutoff(f, of, system.systems), accuracy=accuracy, method="list")
    request = _request(f, of, system, axes, interactions)
    if is_read:
        request = request._replace(given=request.given._replace(readable=True))
    values = f.untraced(values_of, f, of, system, axes, f.planned(request).by_extents)
    if values[0] is None:
        return parameters(f, of._replace(pbc=values[1]), interactions, is_read)
    return f.untraced(numbers_of, f, of, system, request, values, False)


def estimated(f: Framework, of: Arguments, interactions: Sum) -> tuple[Numbers, bool]:
    """The parameters of systems that are all lattices, and whether there is one that is no batch."""
    rows = open_axes(f, of.cell, of.pbc) if of.pbc is None else axes_of(f, of.pbc)
    for row in rows or ():
        if sum(row) < 2:
            expected = "two or three periodic axes: other sums have no parameters"
            check.refuse("cell" if of.pbc is None else "pbc", expected, list(row))
    # All of its arrays are read, and checked.
    single = f.values(of.positions, of.charges, of.cell, of.batch_idx).single
    return parameters(f, of, interactions, True), single


def _cutoff(f: Framework, of: Arguments, systems: int) -> Any:
    """The cutoff of a call, or a list of those of each system."""
    cutoff = reach_of(of.lists, of.cutoff)
    if not isinstance(cutoff, (float, int)) and getattr(cutoff, "ndim", isinstance(cutoff, (list, tuple))):
        each = check.per_system("cutoff", f.value("cutoff", cutoff), systems)
        return each[0] if len(each) == 1 else each
    return cutoff


def _check_unused(f: Framework, of: Arguments, system: Any, request: Request) -> None:
    """Refuses bad parameters of sums over lattices in a call that has none."""
    for name in ("alpha", "cutoff", "k_cutoff"):
        x = getattr(of, name)
        if x is not None and f.is_readable(x):
            check.per_system(name, f.value(name, x), system.systems)
    _native.sum_accuracy(of.accuracy, request.given.narrow)
    if of.lists[0] is None:
        f.listed(system, of.lists, None)
    if of.miller[0] is not None:
        waves_of(f, system, of.cell, None, of.miller)


def _check_widths(f: Framework, of: Arguments, system: Any, request: Request) -> None:
    """Refuses a list that lacks pairs of Gaussian charges which differ from points."""
    spreads = f.reals("widths", of.widths, ("N",), system.positions)
    if not request.given.list or of.cutoff is None or not f.is_readable(spreads, of.cutoff):
        return
    largest = max(check.per_system("cutoff", f.value("cutoff", of.cutoff), system.systems))
    widest = f.untraced(widest_of, f, spreads)
    needed = _native.gaussian_reach(widest, _native.sum_accuracy(of.accuracy, request.given.narrow))
    if largest < needed:
        expected = f"at least {needed:.4} with a width of {widest:.4}, in a list that is given"
        check.refuse("cutoff", expected, largest)


def _request(f: Framework, of: Arguments, system: Any, axes: Any, interactions: Sum) -> Request:
    is_unread = not (axes is None or isinstance(axes, tuple))
    given = Given(
        of.alpha is not None,
        of.cutoff is not None,
        isinstance(of.cutoff, list),
        of.k_cutoff is not None,
        of.miller[0] is not None,
        of.mesh[0] is not None,
        any([x is not None for x in of.lists[:-1]]),
        of.exclusions is not None,
        of.widths is not None,
        of.accuracy is not None,
        of.cell is not None,
        check.flag("slab_correction", of.slab_correction),
        of.slab_height is not None,
        system.positions.dtype.itemsize == 4,
        not is_unread and f.is_readable(of.positions, of.charges, of.cell, of.batch_idx),
        is_unread,
    )
    if of.lists[-1] is not False and not given.list and check.flag("half_fill", of.lists[-1]):
        check.refuse("half_fill", "False without a list", True)
    if of.miller[0] is None and of.miller[1] is not None:
        check.refuse("miller_batch_idx", "it with `miller_indices`", "it without")
    if of.method is not None and check.word("method", of.method, ("direct", "list")) == "direct":
        for p, x in zip(LISTS.parameters[:-1], of.lists):
            if x is not None:
                check.refuse(p.name, 'None with `method="direct"`', check.described(x))
    return Request(interactions, of.method, of.law.planned, None if is_unread else axes, given, None)


# Atoms.


def _cells(call: Call) -> Any:
    """The cells of the sum over the lattice."""
    f, plan, h = call.f, call.plan, call.of.cell
    if plan.upright is not None:
        of, like = call.system, call.system.positions
        if plan.chooses_height:
            heights = f.numbers(np.array(call.numbers.heights), like)
        else:
            heights = f.per_system("slab_height", call.of.slab_height, of)
        single = len(h.shape) == 2 and of.systems == 1
        axes = f.indices(_integers_of(call, plan.upright), like)
        (h,) = f.op("upright_cells", f.atoms(of)[1], heights, axes)
        h = h[0] if single else h
    if isinstance(plan.no_lattice, tuple) and True not in plan.no_lattice:
        return h
    return with_unit_cells(f, _systems(call, plan.no_lattice), h, call.system.systems)


def _systems(call: Call, rows: Any) -> Any:
    """Truths of systems: those of a plan, or from an array of periodic axes."""
    return rows if isinstance(rows, tuple) else of_kind(call.axes, rows)


def _factors_of(call: Call, rows: Any) -> Any:
    """A number of each system."""
    if not isinstance(rows, tuple):
        return of_kind(call.axes, rows)
    return np.array(each_system(rows, call.system.systems))


def _integers_of(call: Call, rows: Any) -> Any:
    """Integers of each system: one, or one along each axis."""
    if not isinstance(rows, tuple):
        return integers_of_kind(call.axes, rows)
    each = np.array(each_system(rows, call.system.systems), np.int32)
    return each.reshape(-1) if len(rows[0]) == 1 else each


def _atoms(call: Call, cells: Any, charged: Any) -> Any:
    """The atoms of a term, in cells or in those that are given, with factors of the charges of each system."""
    f, positions, charges, batch_idx = call.f, call.of.positions, call.of.charges, call.of.batch_idx
    if cells is not None and (cells is not call.of.cell or charged is not None):
        system = f.system(positions, charges, cells, batch_idx)
    elif charged is None:
        return call.system
    else:
        system, cells = call.system, call.of.cell
        cells = f.no_cell(positions) if cells is None else cells
    if charged is None:
        return system
    r, _, idx = f.atoms(system)
    factors = f.taken(f.numbers(_factors_of(call, charged), r), idx)
    return f.system(positions, charges * factors, cells, batch_idx)


# Inputs of ops, by the words that plans have for them.


def _argument(call: Call, name: str) -> tuple[Any, ...]:
    return (call.f.per_system(name, getattr(call.of, name), call.system),)


def _chosen(call: Call, name: str) -> tuple[Any, ...]:
    x = getattr(call.numbers, name)
    return (x if call.plan.is_direct else call.f.per_system(name, list(x), call.system),)


def _masked(call: Call, value: float, systems: Any, other: tuple[Any, ...]) -> tuple[Any, ...]:
    kind, *rest = other
    (x,) = _INPUTS[kind](call, *rest)
    return (call.f.where(_systems(call, systems), value, x),)


def _number(call: Call, x: float) -> tuple[Any, ...]:
    return (call.f.full((call.system.systems,), x, call.system.positions),)


def _of_law(call: Call, name: str) -> tuple[Any, ...]:
    return (call.f.per_system(name, call.of.law.parameters[name], call.system, signed=True),)


def _scalar(call: Call, x: float) -> tuple[Any, ...]:
    return (x,)


def _reach(call: Call) -> tuple[Any, ...]:
    return (call.f.distance("cutoff", call.of.cutoff),)


def _pairs(call: Call, search: Any, is_without: bool) -> tuple[Any, ...]:
    f, positions, cell, batch_idx = call.f, call.of.positions, call.of.cell, call.of.batch_idx
    reach = check.largest(call.of.cutoff) if search is None else None
    if search is not None:
        kind, *rest = search
        reach = list(call.numbers.cutoff) if kind == "chosen" else _INPUTS[kind](call, *rest)[0]
    pairs = pairs_of(f, call.system, (positions, cell, call.axes, batch_idx), call.of.lists, reach)
    return without(f, pairs, call.excluded) if is_without else pairs


def _excluded(call: Call) -> tuple[Any, ...]:
    found = call.excluded
    assert found is not None
    return *found.pairs, found.exclusion_of, found.factors


def _waves(call: Call) -> tuple[Any, ...]:
    return waves_of(call.f, call.system, call.of.cell, None, call.of.miller)


def _waves_within(call: Call, name: str, is_given: bool) -> tuple[Any, ...]:
    if is_given:
        return waves_of(call.f, call.system, _cells(call), call.of.k_cutoff, (None, None))
    # Systems that are no lattice have a radius of zero.
    return call.f.waves(_cells(call), list(call.numbers.k_cutoff), call.system.systems)


def _direct_lines(call: Call, is_given: bool) -> tuple[Any, ...]:
    f, system = call.f, call.system
    if not is_given:
        return call.numbers.lines
    indices, idx = call.of.miller
    if call.numbers is None:
        # Two images reach as far as any cutoff that there may be; a wave is a line of its own.
        waves, of = waves_of(f, system, call.of.cell, None, call.of.miller)
        return 2, 2, 2, waves, f.one_system(system.positions, waves.shape[0]), of
    return *call.numbers.lines[:3], *f.untraced(grouped, f, system, indices, idx)


def grouped(f: Framework, system: Any, indices: Any, idx: Any) -> list[Any]:
    """Lines of waves whose indices can be read."""
    waves = check.integers("miller_indices", f.value("miller_indices", indices), ("K", 3))
    if idx is None and system.systems != 1:
        check.refuse("miller_batch_idx", f"the system of each index, as there are {system.systems} systems", "None")
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


def _mesh(call: Call, is_given: bool) -> tuple[Any, ...]:
    return (call.f.integer_list(meshes(*call.of.mesh, call.system.systems) if is_given else call.numbers.mesh),)


def meshes(nodes: Any, order: Any, systems: Any) -> list[int]:
    """(K₁, K₂, K₃, order) of all systems alike, or of one after the other."""
    for name, rows in (("spline_order", order), ("mesh_dimensions", nodes)):
        if len(rows) != 1 and len(rows) != systems:
            check.refuse(name, f"one for all, or one for each of {systems} systems", f"{len(rows)} of them")
    rows = range(max(len(nodes), len(order)))
    return [k for b in rows for k in (*nodes[b % len(nodes)], order[b % len(order)])]


def _integers(call: Call, rows: Any) -> tuple[Any, ...]:
    return (call.f.indices(_integers_of(call, rows), call.system.positions),)


def _reals(call: Call, x: Any) -> tuple[Any, ...]:
    return (call.f.numbers(_factors_of(call, x), call.system.positions),)


def _widths(call: Call) -> tuple[Any, ...]:
    return (call.f.reals("widths", call.of.widths, ("N",), call.system.positions),)


def _reach_of_widths(call: Call) -> tuple[Any, ...]:
    return (call.f.untraced(reach_of_widths, call.f, _widths(call)[0]),)


_INPUTS: dict[str, Any] = {
    "argument": _argument,
    "chosen": _chosen,
    "masked": _masked,
    "number": _number,
    "of_law": _of_law,
    "scalar": _scalar,
    "cutoff": _reach,
    "pairs": _pairs,
    "excluded": _excluded,
    "waves": _waves,
    "waves_within": _waves_within,
    "lines": _direct_lines,
    "mesh": _mesh,
    "integers": _integers,
    "numbers": _reals,
    "widths": _widths,
    "reach_of_widths": _reach_of_widths,
}


# Batches of several kinds of sums.


def _in_parts(f: Framework, of: Arguments, axes: Any, parts: Any, outputs: tuple[Any, ...]) -> Any:
    """The results of a batch, each part of which has a sum of its own systems."""
    positions, charges, cell, batch_idx = of.positions, of.charges, of.cell, of.batch_idx
    positions, cell, idx = f.atoms(
        f.system(positions, charges, f.no_cell(positions) if cell is None else cell, batch_idx)
    )
    index = check.integers("batch_idx", f.value("batch_idx", idx), positions.shape[:1])
    charges = charges if hasattr(charges, "dtype") else np.asarray(charges, positions.dtype)
    check.fits("charges", charges, positions.shape[:1])

    def rows(x: Any) -> Any:
        return f.indices(x.astype(np.int32), positions)

    found, atoms_of, systems_of = [], [], []
    for method, of_part in parts:
        has = np.zeros(cell.shape[0], bool)
        has[list(of_part)] = True
        atoms, systems = np.flatnonzero(has[index]), np.flatnonzero(has)
        own = of._replace(
            positions=f.taken(positions, rows(atoms)),
            charges=f.taken(charges, rows(atoms)),
            cell=f.taken(cell, rows(systems)),
            batch_idx=rows((np.cumsum(has) - 1)[index[atoms]]),
            pbc=axes if axes is None or len(axes) == 1 else [axes[b] for b in systems],
            method=method,
        )
        try:
            found.append(summed(f, own, "waves", outputs))
        except (ValueError, TypeError, RuntimeError):
            # The error of the whole has the numbers of its atoms and systems.
            summed(f, of._replace(method="list"), "waves", outputs)
            raise
        atoms_of.append(atoms)
        systems_of.append(systems)
    by_atom, by_system = (rows(np.argsort(np.concatenate(x))) for x in (atoms_of, systems_of))
    if not isinstance(found[0], tuple):
        return f.taken(f.joined(found), by_system if outputs[1] == "system" else by_atom)
    # Forces and charge gradients are those of atoms; the virial is the last result.
    each = [by_atom] * len(found[0])
    each[0] = by_system if outputs[1] == "system" else by_atom
    each[-1] = by_system if outputs[4] is True else by_atom
    return tuple([f.taken(f.joined(parts), order) for parts, order in zip(zip(*found), each)])
