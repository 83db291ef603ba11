"""Charge equilibration: declarations and bodies of the public functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung._functions.boundaries import BOUNDARIES, SLAB_CORRECTION
from madelung._functions.declare import KEYWORDS, Group, Parameter, function, text
from madelung._functions.exclusions import EXCLUSIONS
from madelung._functions.fields import of_systems
from madelung._functions.framework import Framework
from madelung._functions.gaussians import WIDTHS
from madelung._functions.lists import pairs_of
from madelung._functions.parameters import ACCURACY, BATCH_IDX, CELL, ENERGY_ERRORS, OUTPUTS, POSITIONS
from madelung._functions.plans import all_added, evaluated, of_other_atoms, parameters, prepared
from madelung._functions.segments import segment_sum
from madelung._functions.sum_arguments import NO_LISTS, arguments


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
            "Chem. Phys. Lett. 463, 288 (2008)). None: χ, wherever atoms are."
        ),
        None,
        shape=("N",),
    ),
    EXCLUSIONS,
    ACCURACY.but(
        text=text(
            "of the Ewald sum: the RMS force error that charges of ±1 would have, in units of 1/(V/N)^(2/3), from "
            "1e-14 (1e-5 in float32) to below 1. None: 1e-6, and 1e-5 in float32."
        )
    ),
    BOUNDARIES,
    SLAB_CORRECTION,
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
        "torch": "Differentiable twice in everything but the accuracy: each differentiation solves for charges again, "
        "by the implicit function theorem. Compiled graphs break at this call.",
        "jax": "Differentiable twice in everything but the accuracy, also by forward derivatives: each differentiation "
        "solves for charges again, by the implicit function theorem. Not under `jit`.",
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
    eager=True,
    without=("cuda",),
)
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
    accuracy: Any,
    pbc: Any,
    slab_correction: Any,
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
    given = {"positions": positions, "electronegativity": electronegativity, "hardness": hardness, "widths": widths}
    for name, x in (given | {"cell": cell, "total_charge": total_charge, "batch_idx": batch_idx}).items():
        # All of them are read: one that has no values is refused by its own name.
        f.untraced(f.value, name, x)
    if method is not None:
        check.word("method", method, ("ewald", "pme"))
    lattice = f.no_cell(positions) if cell is None else cell
    ones = f.numbers(np.ones(positions.shape[0]), positions)
    system = f.system(positions, ones, lattice, batch_idx)
    like, _, idx = f.atoms(system)
    sites = ((positions.shape[0],),)
    chi = _reals(f, "electronegativity", electronegativity, sites, system)
    eta = _reals(f, "hardness", hardness, sites, system)
    sigma = _reals(f, "widths", widths, sites, system)
    of = np.require(f.value("batch_idx", idx), np.int32, ["C", "A"])
    groups, start = _start(f, total_charge, constraints, of, system)
    slopes, field = chi, None
    if external_field is not None:
        given = _reals(f, "external_field", external_field, ((3,), (system.systems, 3)), system)
        field = of_systems(f, given, system, "external_field")
    # What is linear in the charges, and no sum of theirs with χ: its op, and inputs before and behind those of all ops.
    linear = None if field is None else ("uniform_field", (field,), ())
    if orbital_exponents is not None:
        exponents = _reals(f, "orbital_exponents", orbital_exponents, sites, system)
        reach = _reach(f.untraced(_values, f, exponents))
        try:
            pairs = pairs_of(f, system, (positions, cell, pbc, batch_idx), NO_LISTS, reach)
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
    boundary = {"pbc": pbc, "slab_correction": slab_correction, "exclusions": exclusions}
    coulomb = arguments(positions, ones, cell, batch_idx, **boundary, widths=sigma, accuracy=accuracy)
    on_mesh = method == "pme"
    if method is None and _native.meshes_reach(None if accuracy is None else check.number("accuracy", accuracy)):
        on_mesh = parameters(f, coulomb, "mesh").cost < parameters(f, coulomb, "waves").cost
    sums = prepared(f, coulomb, "mesh" if on_mesh else "waves")

    def energy(q: Any, r: Any, h: Any, width: Any, two: Any, factors: Any) -> Any:
        """The part of the energy of second degree, and its gradient by charges."""
        found, potentials = evaluated(*of_other_atoms(*sums, r, q, h, width, factors), each)
        return found.sum() + (0.5 * two * q * q).sum(), potentials + two * q

    def both(u: Any, v: Any, *of: Any) -> Any:
        """u ∂²E/∂q² v, from energies alone: so it has as many derivatives as these."""
        return energy(u + v, *of)[0] - energy(u, *of)[0] - energy(v, *of)[0]

    excluded = sums[0].excluded
    arrays = (positions, lattice, sigma, eta, f.numbers(np.zeros(0), like) if excluded is None else excluded.factors)
    # The same numbers, which nothing is differentiated by.
    plain = [f.numbers(f.untraced(_values, f, x), like) for x in arrays]
    own = _values(f, plain[3]) + unit / (math.sqrt(math.pi) * _values(f, plain[2]))

    def minimum(slopes: np.ndarray, start: np.ndarray) -> np.ndarray:
        a, x = (np.require(each, np.float64, ["C", "A"]) for each in (slopes, start))
        search = _native.LeastCharges(a, x, own, of, system.systems, groups, like.dtype.itemsize == 4)
        while (asked := search.asked) is not None:
            search.answered(_values(f, energy(f.numbers(asked, like), *plain)[1]))
        return search.charges

    q = f.minimum(minimum, both, slopes, start, arrays)
    terms = [evaluated(*of_other_atoms(*sums, positions, q, lattice, sigma), wanted)]
    if linear is not None:
        op, reals, rest = linear
        atoms = f.system(positions, q, lattice, batch_idx)
        terms.append(f.energies(op, atoms, reals, rest, f.outputs((1.0, reduction, forces, False, virial, False))))
    energies = all_added(f, terms)
    energies, *others = energies if isinstance(energies, tuple) else (energies,)
    sites = q * (chi + 0.5 * eta * q)
    if reduction == "system":
        sites = segment_sum(f, sites, idx, system.systems)
    return q, energies + sites, *others


def _reach(exponents: np.ndarray) -> float:
    """The distance beyond which orbitals do not overlap, to the last digit: exp(−αr²/2) is 1e-17 there."""
    if not (exponents > 0.0).all():
        check.refuse("orbital_exponents", "numbers above zero", float(exponents.min()))
    return math.sqrt(34.0 * math.log(10.0) / float(np.min(exponents, initial=1e30)))


def _start(
    f: Framework, total_charge: Any, constraints: tuple[Any, ...], systems: np.ndarray, system: Any
) -> tuple[np.ndarray, Any]:
    """The group of each atom whose charges keep their sum, −1 of those that are held, and charges of these sums."""
    molecules, held_atoms, held_charges, initial = constraints
    atoms, like = len(systems), system.positions
    of, count = systems.copy(), system.systems
    if molecules is not None:
        of = np.require(f.value("molecule_idx", f.integers("molecule_idx", molecules, (atoms,))), np.int32, ["C"])
        count = min(int(of.max(initial=-1)) + 1, atoms)
        first = np.full(count, -1, np.int32)
        for i, (molecule, b) in enumerate(zip(of.tolist(), systems.tolist())):
            if not 0 <= molecule < count or first[molecule] not in (-1, b):
                expected = f"numbers below {atoms} from 0 up, the same for atoms of one system alone"
                check.refuse("molecule_idx", expected, f"{molecule} of atom {i}")
            first[molecule] = b
    charge = _reals(f, "total_charge", total_charge, ((), (count,)), system)
    members, groups = np.bincount(of, minlength=count), of.copy()
    held = np.empty(0, np.int64)
    if held_atoms is not None:
        held = np.asarray(f.value("held_atoms", f.integers("held_atoms", held_atoms, ("H",))), np.int64)
        within = np.clip(held, 0, atoms - 1)
        bad = (held < 0) | (held >= atoms) | (np.bincount(within, minlength=1)[within] > 1)
        if bad.any():
            check.refuse("held_atoms", f"atoms below {atoms}, each once", int(held[bad][0]))
        groups[held] = -1
    if (held_atoms is None) != (held_charges is None):
        check.refuse("held_charges", "charges of `held_atoms`, both or neither", check.described(held_charges))
    start = f.numbers(np.zeros(atoms), like)
    free = f.numbers((groups >= 0).astype(np.float64), like)
    if initial is not None:
        start = _reals(f, "initial_charges", initial, ((atoms,),), system) * free
    if held_charges is not None:
        charges = _reals(f, "held_charges", held_charges, ((len(held),),), system)
        place = np.full(atoms, len(held), np.int32)
        place[held] = np.arange(len(held))
        padded = f.joined([charges, f.numbers(np.zeros(1), like)])
        start = start + f.taken(padded, f.indices(place, like))
    # What is left of each total goes to the atoms that are not held, alike.
    order = np.argsort(of, kind="stable").astype(np.int32)
    sums = segment_sum(f, f.taken(start, f.indices(order, like)), f.indices(of[order], like), count)
    left = charge - sums
    shares = np.bincount(groups[groups >= 0], minlength=count)
    values, total = _values(f, left), _values(f, charge)
    # Sums of charges that are held are rounded, and so are these charges.
    sizes = np.bincount(of, np.abs(_values(f, start)), minlength=count)
    rounding = np.where(members, 1e-6 + 8.0 * np.finfo(str(like.dtype).rpartition(".")[2]).eps * sizes, 0.0)
    lost = (shares == 0) & (np.abs(values) > rounding) & ((members > 0) | bool(charge.shape))
    if lost.any():
        b, whole = int(lost.argmax()), "system" if molecules is None else "molecule"
        of_held = f"the sum of the charges of {whole} {b}, which are all held"
        expected = of_held if members[b] else f"0 of {whole} {b}, which has no atoms"
        check.refuse("total_charge", expected, total.tolist())
    share = f.numbers((groups >= 0) / np.maximum(shares, 1)[of], like)
    return groups, start + f.taken(left, f.indices(of, like)) * share


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
    values = f.untraced(_values, f, x)
    if not np.isfinite(values).all():
        bad = values.reshape(-1)[~np.isfinite(values.reshape(-1))][0]
        check.refuse(name, "finite numbers", f"{bad} in row {int((~np.isfinite(values.reshape(-1))).argmax())}")
    return f.reals(name, x, shapes[0] if x.shape else (), like) if len(shapes) == 1 else x


def _values(f: Framework, x: Any) -> np.ndarray:
    return np.array(f.value("charges", x), np.float64)
