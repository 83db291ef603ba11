"""Charge equilibration: declarations and bodies of the public functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung._functions.boundaries import BOUNDARIES, SLAB_CORRECTION
from madelung._functions.declare import KEYWORDS, Group, Parameter, function, text
from madelung._functions.framework import Framework
from madelung._functions.gaussians import WIDTHS
from madelung._functions.parameters import ACCURACY, BATCH_IDX, CELL, ENERGY_ERRORS, OUTPUTS, POSITIONS
from madelung._functions.plans import evaluated, of_other_atoms, parameters, prepared
from madelung._functions.segments import segment_sum
from madelung._functions.sum_arguments import arguments


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
    Parameter("total_charge", "reals", text("of each system, a number or (B,)."), 0.0),
    KEYWORDS,
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
    sites, each_system = ((positions.shape[0],),), ((), (system.systems,))
    chi = _reals(f, "electronegativity", electronegativity, sites, system)
    eta = _reals(f, "hardness", hardness, sites, system)
    sigma = _reals(f, "widths", widths, sites, system)
    charge = _reals(f, "total_charge", total_charge, each_system, system)
    of = np.require(f.value("batch_idx", idx), np.int32, ["C", "A"])
    count = np.bincount(of, minlength=system.systems)
    lost = (count == 0) & (np.broadcast_to(_values(f, charge), system.systems) != 0.0)
    if charge.shape and lost.any():
        check.refuse(
            "total_charge", f"0 of system {int(lost.argmax())}, which has no atoms", _values(f, charge).tolist()
        )
    boundary = {"pbc": pbc, "slab_correction": slab_correction}
    coulomb = arguments(positions, ones, cell, batch_idx, **boundary, widths=sigma, accuracy=accuracy)
    on_mesh = method == "pme"
    if method is None and _native.meshes_reach(None if accuracy is None else check.number("accuracy", accuracy)):
        on_mesh = parameters(f, coulomb, "mesh").cost < parameters(f, coulomb, "waves").cost
    sums = prepared(f, coulomb, "mesh" if on_mesh else "waves")

    def energy(q: Any, r: Any, h: Any, width: Any, two: Any) -> Any:
        """The part of the energy of second degree, and its gradient by charges."""
        found, potentials = evaluated(*of_other_atoms(*sums, r, q, h, width), each)
        return found.sum() + (0.5 * two * q * q).sum(), potentials + two * q

    def both(u: Any, v: Any, *of: Any) -> Any:
        """u ∂²E/∂q² v, from energies alone: so it has as many derivatives as these."""
        return energy(u + v, *of)[0] - energy(u, *of)[0] - energy(v, *of)[0]

    # The same numbers, which nothing is differentiated by.
    arrays = (positions, lattice, sigma, eta)
    plain = [f.numbers(f.untraced(_values, f, x), like) for x in arrays]
    own = _values(f, plain[3]) + unit / (math.sqrt(math.pi) * _values(f, plain[2]))

    def minimum(slopes: np.ndarray, start: np.ndarray) -> np.ndarray:
        a, x = (np.require(each, np.float64, ["C", "A"]) for each in (slopes, start))
        search = _native.LeastCharges(a, x, own, of, system.systems, like.dtype.itemsize == 4)
        while (asked := search.asked) is not None:
            search.answered(_values(f, energy(f.numbers(asked, like), *plain)[1]))
        return search.charges

    share = f.numbers(1.0 / count[of], like)
    spread = charge * share if not charge.shape else f.taken(charge, f.indices(of, like)) * share
    q = f.minimum(minimum, both, chi, spread, arrays)
    energies = evaluated(*of_other_atoms(*sums, positions, q, lattice, sigma), wanted)
    energies, *others = energies if isinstance(energies, tuple) else (energies,)
    sites = q * (chi + 0.5 * eta * q)
    if reduction == "system":
        sites = segment_sum(f, sites, idx, system.systems)
    return q, energies + sites, *others


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
