"""Charge equilibration: declarations and bodies of the public functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung._functions.boundaries import (
    BOUNDARIES,
    SLAB_CORRECTION,
    SLAB_HEIGHT,
    axes_of,
    open_axes,
    periodic_axes,
)
from madelung._functions.declare import KEYWORDS, Group, Parameter, function, text
from madelung._functions.exclusions import EXCLUSIONS
from madelung._functions.fields import of_systems
from madelung._functions.framework import Framework
from madelung._functions.gaussians import WIDTHS
from madelung._functions.lists import pairs_of, reach_of
from madelung._functions.mesh import CHOSEN_CUTOFF, MESH, mesh_of
from madelung._functions.minima import Form, Parts, values
from madelung._functions.parameters import (
    ACCURACY,
    ALPHA,
    BATCH_IDX,
    CELL,
    ENERGY_ERRORS,
    K_CUTOFF,
    LISTS,
    MILLER,
    OUTPUTS,
    POSITIONS,
)
from madelung._functions.plans import all_added, evaluated, of_other_atoms, parameters, prepared
from madelung._functions.requests import Sum
from madelung._functions.segments import segment_sum
from madelung._functions.sum_arguments import Arguments, arguments
from madelung._functions.waves import check_waves
from madelung._functions.whole import whole


def _shapes(f: Framework, positions: Any, *rest: Any) -> list[tuple[Any, ...]]:
    """The shapes of the results."""
    cell, batch_idx, (_, reduction, forces, virial) = rest[3], *rest[-2:]
    lattice = f.no_cell(positions) if cell is None else cell
    system = f.system(positions, check.NO_CHARGES, lattice, batch_idx)
    atoms, systems = (positions.shape[0],), (system.systems,)
    found = [atoms, systems if reduction == "system" else atoms]
    if forces:
        found.append((*atoms, 3))
    if virial:
        found.append((*(atoms if virial == "atom" else () if system.single else systems), 3, 3))
    return found


@function(
    POSITIONS,
    Parameter(
        "electronegativity",
        "reals",
        text("(N,), χ, in units of energy over charge, that of the energies: see `prefactor`."),
        shape=("N",),
    ),
    Parameter("hardness", "reals", text("(N,), η, in units of energy over charge squared."), shape=("N",)),
    WIDTHS,
    CELL.but(
        default=None,
        text=text("(3, 3), for all systems, or (B, 3, 3); rows are lattice vectors. None: no axis is periodic."),
    ),
    Parameter(
        "total_charge",
        "reals",
        text("of each system, a number or (B,); with `molecule_idx` of each molecule, (M,)."),
        0.0,
    ),
    KEYWORDS,
    Group(
        "constraints",
        (
            Parameter(
                "molecule_idx",
                "integers",
                text(
                    "(N,), the molecule of each atom, from 0 on, each in one system: each keeps a total charge of its "
                    "own. None: charge goes all over a system."
                ),
                None,
                shape=("N",),
            ),
            Parameter(
                "held_atoms",
                "integers",
                text("(H,), atoms whose charges are `held_charges`, (H,), each once; the others take the rest."),
                None,
                shape=("H",),
            ),
            Parameter("held_charges", "reals", default=None, shape=("H",)),
            Parameter(
                "initial_charges",
                "reals",
                text("(N,), charges to start from, as of the step before. None: alike in all atoms of a total charge."),
                None,
                shape=("N",),
            ),
        ),
    ),
    Parameter(
        "external_field",
        "reals",
        text(
            "uniform electric field, (3,) or (B, 3), in units of energy over charge and length: −Σ qᵢ rᵢ·field is part "
            "of the energy. Along periodic axes it depends on which images of the atoms are given, but with "
            "`orbital_exponents`."
        ),
        None,
        shape=("B", 3),
    ),
    Parameter(
        "orbital_exponents",
        "reals",
        text(
            "(N,), α of an orbital exp(−αr²) of each atom, in 1/L²: atoms attract charge from others as far as their "
            "orbitals overlap (QTPIE). With the overlaps S, 1 of an orbital with itself, the electronegativity of atom "
            "i is Σⱼ Sᵢⱼ (χᵢ − χⱼ)/Σⱼ Sᵢⱼ over all atoms and images, and a field is among the χ (Chen and Martínez, "
            "Chem. Phys. Lett. 463, 288 (2008)). A list that is given has to reach √(78/α). None: χ, wherever atoms "
            "are."
        ),
        None,
        shape=("N",),
    ),
    EXCLUSIONS,
    ALPHA.but(default=None),
    K_CUTOFF,
    CHOSEN_CUTOFF,
    MILLER,
    MESH,
    LISTS,
    ACCURACY.but(
        text=text(
            "of the Ewald sum: the RMS force error that charges of ±1 would have, in units of 1/(V/N)^(2/3), from "
            "1e-14 (1e-5 in float32) to below 1. Parameters that are None are chosen for it, and given ones that "
            "cannot meet it are an error. None: given ones are taken as they are, and others are chosen for 1e-6 "
            "(1e-5 in float32)."
        )
    ),
    BOUNDARIES,
    SLAB_CORRECTION,
    SLAB_HEIGHT,
    Parameter(
        "method",
        "word",
        text(
            '"ewald" (sums over waves) or "pme" (on a mesh, for large systems). None: the one that costs less; over '
            "waves for an accuracy below 1e-10."
        ),
        None,
        words=("ewald", "pme"),
    ),
    BATCH_IDX,
    Group(
        "sums",
        tuple(p for p in OUTPUTS.parameters if p.name not in ("compute_charge_gradients", "hybrid_forces")),
    ),
    notes={
        "torch": "Differentiable twice in everything but the accuracy and the parameters of the sum: each "
        "differentiation solves for charges again, by the implicit function theorem. Compiled graphs hold the call as "
        "one op, which reads values: they may leave open what other calls may, and have one derivative.",
        "jax": "Differentiable twice in everything but the accuracy and the parameters of the sum, by backward passes "
        "and forward derivatives of one: each differentiation solves for charges again, by the implicit function "
        "theorem. Under `jit`, `vmap` and `scan` the list, `cutoff`, `alpha`, and `miller_indices` or "
        "`mesh_dimensions` are given, and `molecule_idx`, `held_atoms` and `orbital_exponents` have values. There "
        "charges of a system without a minimum are NaN, and so are its other results.",
    },
    returns=text(
        "The charges (N,) and the energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3) and "
        "virial −∂E/∂ε, which are those at fixed charges and of the whole energy alike, as it does not change with the "
        "charges to first order."
    ),
    raises=text(
        f"{ENERGY_ERRORS.common}\nValueError: Also where a hardness is so small that the energy has no minimum.",
        **ENERGY_ERRORS.notes,
    ),
    result="tuple[Array, ...]",
    without=("cuda",),
)
@whole(_shapes)
def qeq(
    f: Framework,
    positions: Any,
    electronegativity: Any,
    hardness: Any,
    widths: Any,
    cell: Any,
    total_charge: Any,
    constraints: tuple[Any, ...],
    external_field: Any,
    orbital_exponents: Any,
    exclusions: Any,
    alpha: Any,
    k_cutoff: Any,
    cutoff: Any,
    miller: tuple[Any, Any],
    mesh: tuple[Any, ...],
    lists: tuple[Any, ...],
    accuracy: Any,
    pbc: Any,
    slab_correction: Any,
    slab_height: Any,
    method: Any,
    batch_idx: Any,
    outputs: tuple[Any, ...],
) -> tuple[Any, ...]:
    """The charges that minimise an energy at a fixed total charge: charge equilibration of Gaussian charges.

    E(q) = Σ χ_i q_i + ½ Σ η_i q_i² + E_Coulomb(q), the last for Gaussian charges of widths σ_i with whatever boundaries
    `pbc` says (`gaussian_correction` on top of an Ewald sum). Rappé and Goddard, J. Phys. Chem. 95, 3358 (1991), with
    the Gaussians of Ko, Finkler, Goedecker and Behler, Nat. Commun. 12, 398 (2021). By conjugate gradients, for each
    system of a batch alone; no matrix is made.
    """
    prefactor, reduction, forces, virial = outputs
    unit = check.number("prefactor", prefactor)
    wanted = f.outputs((unit, reduction, forces, False, virial, False))
    each = f.outputs((unit, "atom", False, True, False, False))
    lattice = f.no_cell(positions) if cell is None else cell
    pbc = axes_of(f, open_axes(f, cell, pbc) if pbc is None else pbc)
    ones = f.full((positions.shape[0],), 1.0, positions)
    system = f.system(positions, ones, lattice, batch_idx)
    like, _, idx = f.atoms(system)
    sites = ((positions.shape[0],),)
    chi = _reals(f, "electronegativity", electronegativity, sites, system)
    eta = _reals(f, "hardness", hardness, sites, system)
    sigma = _reals(f, "widths", widths, sites, system)
    groups, free, start = _start(f, total_charge, constraints, batch_idx, system)
    slopes, field = chi, None
    if external_field is not None:
        given = _reals(f, "external_field", external_field, ((3,), (system.systems, 3)), system)
        field = of_systems(f, given, system, "external_field")
    # What is linear in the charges, and no sum of theirs with χ: its op, and inputs before and behind those of all ops.
    linear = None if field is None else ("uniform_field", (field,), ())
    if orbital_exponents is not None:
        exponents = _reals(f, "orbital_exponents", orbital_exponents, sites, system)
        reach = _reach(f, orbital_exponents, lists, cutoff)
        try:
            pairs = pairs_of(f, system, (positions, cell, pbc, batch_idx), lists, reach)
        except ValueError as error:
            if "`cutoff`" in str(error):
                expected = "orbitals that reach over fewer atoms than can be listed"
                check.refuse("orbital_exponents", expected, f"some of {reach:.4} lengths")
            raise
        along = f.numbers(np.zeros((system.systems, 3)), like) if field is None else field
        linear = ("charge_transfer", (chi, exponents, along), (*pairs, reach))
        chi = 0.0 * chi
    if linear is not None:
        op, reals, rest = linear
        # Of charges of 1 each: energies are their slopes.
        slopes = chi + f.energies(op, system, reals, rest, f.outputs((1.0, "atom", False, False, False, False)))
    coulomb = arguments(
        positions,
        ones,
        cell,
        batch_idx,
        pbc=pbc,
        slab_correction=slab_correction,
        slab_height=slab_height,
        lists=lists,
        alpha=alpha,
        cutoff=cutoff,
        k_cutoff=k_cutoff,
        miller=miller,
        mesh=mesh_of(f, cell, mesh, tuple([sum(row) < 2 for row in periodic_axes(f, cell, pbc)])),
        exclusions=exclusions,
        widths=sigma,
        accuracy=accuracy,
    )
    sums = prepared(f, coulomb, _interactions(f, coulomb, method, mesh))

    def energy(q: Any, r: Any, h: Any, width: Any, two: Any, factors: Any) -> Any:
        """The part of the energy of second degree, and its gradient by charges."""
        found, potentials = evaluated(*of_other_atoms(*sums, r, q, h, width, factors), each)
        return found.sum() + (0.5 * two * q * q).sum(), potentials + two * q

    def diagonal(r: Any, h: Any, width: Any, two: Any, factors: Any) -> Any:
        return two + unit / (math.sqrt(math.pi) * width)

    excluded = sums[0].excluded
    of = (positions, lattice, sigma, eta, f.numbers(np.zeros(0), like) if excluded is None else excluded.factors)
    systems = Parts(system.systems, idx, None)
    form = Form(f, energy, diagonal, systems, groups, free, like.dtype.itemsize == 4)
    q = found = f.minimum(form, slopes, start, of)
    is_unread = f.has_no_value(found)
    if is_unread:
        # Ops refuse charges that are NaN, which those of systems without a minimum are.
        is_missing = found != found
        q = f.where(is_missing, 0.0, found)
    terms = [evaluated(*of_other_atoms(*sums, positions, q, lattice, sigma), wanted)]
    if linear is not None:
        op, reals, rest = linear
        atoms = f.system(positions, q, lattice, batch_idx)
        terms.append(f.energies(op, atoms, reals, rest, f.outputs((1.0, reduction, forces, False, virial, False))))
    energies = all_added(f, terms)
    energies, *others = energies if isinstance(energies, tuple) else (energies,)
    own = q * (chi + 0.5 * eta * q)
    if is_unread:
        own = f.where(is_missing, 0.0, own)
    if reduction == "system":
        own = segment_sum(f, own, idx, system.systems)
    results = [energies + own, *others]
    if is_unread:
        results = _spoilt(f, results, is_missing, systems, (reduction == "system", virial is True))
    return found, *results


def _spoilt(f: Framework, results: list[Any], is_missing: Any, systems: Parts, of_each: tuple[bool, bool]) -> Any:
    """The results, energies first and virials last, with NaN for systems whose charges are."""
    by_system, has_virials = of_each
    count = systems.sums(f, f.where(is_missing, 1.0, f.full(is_missing.shape, 0.0, results[0])))
    each = f.where(count > 0.0, math.nan, f.full((systems.count,), 1.0, results[0]))
    of_atoms = f.taken(each, systems.of)
    factors = [each if by_system else of_atoms, *[of_atoms] * (len(results) - 1)]
    factors[-1] = each if has_virials else factors[-1]
    return [x * by.reshape(-1, *[1] * (len(x.shape) - 1)) for x, by in zip(results, factors)]


def _interactions(f: Framework, of: Arguments, method: Any, mesh: tuple[Any, ...]) -> Sum:
    """The sum over waves or on a mesh, by the parameters that are given; else the one that costs less."""
    check_waves(of.k_cutoff, of.miller)
    names = ("mesh_dimensions", "mesh_spacing", "spline_order"), ("k_cutoff", "miller_indices", "miller_batch_idx")
    both = [
        [name for name, x in zip(names, given) if x is not None]
        for names, given in zip(names, (mesh, (of.k_cutoff, *of.miller)))
    ]
    of_mesh, of_waves = both
    if method is None:
        if of_mesh and of_waves:
            check.refuse(of_mesh[0], f"it or `{of_waves[0]}`", "both")
        if of_mesh or of_waves or f.has_no_value(of.positions):
            return "mesh" if of_mesh else "waves"
        if not _native.meshes_reach(None if of.accuracy is None else check.number("accuracy", of.accuracy)):
            return "waves"
        return "mesh" if parameters(f, of, "mesh").cost < parameters(f, of, "waves").cost else "waves"
    on_mesh = check.word("method", method, ("ewald", "pme")) == "pme"
    for name in of_waves if on_mesh else of_mesh:
        check.refuse(name, f'None with `method="{method}"`', "another value")
    return "mesh" if on_mesh else "waves"


def _reach(f: Framework, exponents: Any, lists: tuple[Any, ...], cutoff: Any) -> float:
    """The distance beyond which orbitals do not overlap, to the last digit: exp(−αr²/2) is 1e-17 there."""
    least = np.array(f.untraced(f.value, "orbital_exponents", exponents), np.float64)
    if not (least > 0.0).all():
        check.refuse("orbital_exponents", "numbers above zero", float(least.min()))
    reach = math.sqrt(34.0 * math.log(10.0) / float(np.min(least, initial=1e30)))
    if any([x is not None for x in lists[:-1]]):
        within = f.distance("cutoff", reach_of(lists, None) or cutoff)
        if within is None or within < reach:
            overlap = "as far as orbitals of `orbital_exponents` overlap, in a list that is given"
            check.refuse("cutoff", f"at least {reach:.4}, {overlap}", within)
    return reach


def _start(
    f: Framework, total_charge: Any, constraints: tuple[Any, ...], batch_idx: Any, system: Any
) -> tuple[Parts, Any, Any]:
    """The atoms whose charges keep their sum, which of them are not held, and charges of these sums."""
    molecules, held_atoms, held_charges, initial = constraints
    like, _, idx = f.atoms(system)
    atoms = like.shape[0]
    groups = Parts(system.systems, idx, None) if molecules is None else _molecules(f, molecules, batch_idx, like)
    count = groups.count
    charge = _reals(f, "total_charge", total_charge, ((), (count,)), system)
    start, free = (f.full((atoms,), x, like) for x in (0.0, 1.0))
    if (held_atoms is None) != (held_charges is None):
        check.refuse("held_charges", "charges of `held_atoms`, both or neither", check.described(held_charges))
    if held_atoms is not None:
        held = f.untraced(_held, f, held_atoms, atoms)
        is_held, place = np.zeros(atoms), np.full(atoms, len(held), np.int32)
        is_held[held], place[held] = 1.0, np.arange(len(held))
        free = f.numbers(1.0 - is_held, like)
    if initial is not None:
        start = _reals(f, "initial_charges", initial, ((atoms,),), system) * free
    if held_charges is not None:
        charges = _reals(f, "held_charges", held_charges, ((len(held),),), system)
        padded = f.joined([charges, f.numbers(np.zeros(1), like)])
        start = start + f.taken(padded, f.indices(place, like))
    # What is left of each total goes to the atoms that are not held, alike.
    left = charge - groups.sums(f, start)
    members, shares = (groups.sums(f, x) for x in (f.full((atoms,), 1.0, like), free))
    # Sums of charges that are held are rounded, and so are these charges.
    digits = float(np.finfo(str(like.dtype).rpartition(".")[2]).eps)
    rounding = (1e-6 + 8.0 * digits * groups.sums(f, abs(start))) * (members > 0.0)
    is_lost = (shares == 0.0) & (abs(left) > rounding)
    if not charge.shape:
        is_lost = is_lost & (members > 0.0)
    if f.has_no_value(left):
        left = f.where(is_lost, math.nan, left)
        start = f.where(f.taken(is_lost, groups.of), math.nan, start)
    else:
        lost = f.untraced(f.value, "total_charge", is_lost)
        if lost.any():
            b, whole = int(lost.argmax()), "system" if molecules is None else "molecule"
            of_held = f"the sum of the charges of {whole} {b}, which are all held"
            expected = of_held if values(f, members)[b] else f"0 of {whole} {b}, which has no atoms"
            check.refuse("total_charge", expected, values(f, charge).tolist())
    share = f.taken(left * (1.0 / (shares + (shares == 0.0))), groups.of)
    return groups, free, start + share * free


def _molecules(f: Framework, molecules: Any, batch_idx: Any, like: Any) -> Parts:
    """The molecules of a call, by values: each is in one system."""
    atoms = like.shape[0]
    given = {"molecule_idx": molecules, "batch_idx": np.zeros(atoms, np.int32) if batch_idx is None else batch_idx}
    of, systems = (check.integers(name, f.untraced(f.value, name, x), (atoms,)) for name, x in given.items())
    count = min(int(of.max(initial=-1)) + 1, atoms)
    first = np.full(count, -1, np.int32)
    for i, (molecule, b) in enumerate(zip(of.tolist(), systems.tolist())):
        if not 0 <= molecule < count or first[molecule] not in (-1, b):
            expected = f"numbers below {atoms} from 0 up, the same for atoms of one system alone"
            check.refuse("molecule_idx", expected, f"{molecule} of atom {i}")
        first[molecule] = b
    order = np.argsort(of, kind="stable").astype(np.int32)
    return Parts(count, f.indices(of, like), f.indices(order, like))


def _held(f: Framework, held_atoms: Any, atoms: int) -> np.ndarray:
    held = np.asarray(check.integers("held_atoms", f.value("held_atoms", held_atoms), ("H",)), np.int64)
    within = np.clip(held, 0, atoms - 1)
    bad = (held < 0) | (held >= atoms) | (np.bincount(within, minlength=1)[within] > 1)
    if bad.any():
        check.refuse("held_atoms", f"atoms below {atoms}, each once", int(held[bad][0]))
    return held


def _reals(f: Framework, name: str, x: Any, shapes: tuple[tuple[int, ...], ...], system: Any) -> Any:
    """Finite numbers of the positions' dtype, of one of some shapes."""
    like = system.positions
    if isinstance(x, np.generic) or not hasattr(x, "shape"):
        try:
            x = f.numbers(np.asarray(np.nan if x is None else x, np.float64), like)
        except (TypeError, ValueError):
            check.refuse(name, "real numbers", check.described(x), TypeError)
    if str(x.dtype) != str(like.dtype):
        check.refuse(name, f"{like.dtype}, as the positions", x.dtype, TypeError)
    if tuple(x.shape) not in shapes:
        expected = " or ".join(f"shape {shape}" if shape else "a number" for shape in shapes)
        check.refuse(name, expected, tuple(x.shape))
    if not f.has_no_value(x):
        found = values(f, x).reshape(-1)
        if not np.isfinite(found).all():
            bad = int((~np.isfinite(found)).argmax())
            check.refuse(name, "finite numbers", f"{found[bad]} in row {bad}")
    return f.reals(name, x, shapes[0] if x.shape else (), like) if len(shapes) == 1 else x
