"""Charge equilibration: declarations and bodies of the public functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung._functions.boundaries import BOUNDARIES, SLAB_CORRECTION, Boundaries, boundaries, slab_term
from madelung._functions.declare import KEYWORDS, Group, Parameter, function, text
from madelung._functions.ewald import check_accuracy, parameters_of
from madelung._functions.exclusions import total
from madelung._functions.framework import Framework
from madelung._functions.gaussians import WIDTHS, gaussian_inputs, reach_of_widths
from madelung._functions.lists import pairs_of
from madelung._functions.mesh import mesh_parameters
from madelung._functions.parameters import ACCURACY, BATCH_IDX, CELL, ENERGY_ERRORS, OUTPUTS, POSITIONS
from madelung._functions.segments import segment_sum
from madelung._functions.waves import waves_of

# Residual of the charges over that of the start; below it rounding is all that changes.
_TOLERANCES = {"float64": 1e-12, "float32": 1e-6}

# Beyond it the errors of meshes are those of their rounding.
_FINEST_MESH = 1e-10

_NO_LISTS = (None,) * 7 + (False,)


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
            "1e-14 to below 1."
        ),
        or_none=False,
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
    edges = boundaries(f, pbc, cell, slab_correction)
    given = {"positions": positions, "electronegativity": electronegativity, "hardness": hardness, "widths": widths}
    for name, x in (given | {"cell": cell, "total_charge": total_charge, "batch_idx": batch_idx}).items():
        # All of them are read: one that has no values is refused by its own name.
        f.untraced(f.value, name, x)
    if method is not None:
        check.word("method", method, ("ewald", "pme"))
    lattice = f.no_cell(positions) if cell is None else cell
    ones = f.numbers(np.ones(positions.shape[0]), positions)
    system = f.system(positions, ones, lattice, batch_idx)
    edges.check(system.systems)
    like, _, idx = f.atoms(system)
    sites, each_system = ((positions.shape[0],),), ((), (system.systems,))
    chi = _reals(f, "electronegativity", electronegativity, sites, system)
    eta = _reals(f, "hardness", hardness, sites, system)
    sigma = _reals(f, "widths", widths, sites, system)
    charge = _reals(f, "total_charge", total_charge, each_system, system)
    of = np.asarray(f.value("batch_idx", idx), np.int64)
    count = np.bincount(of, minlength=system.systems)
    lost = (count == 0) & (np.broadcast_to(_values(f, charge), system.systems) != 0.0)
    if charge.shape and lost.any():
        check.refuse(
            "total_charge", f"0 of system {int(lost.argmax())}, which has no atoms", _values(f, charge).tolist()
        )
    sums = _Sums.found(f, (positions, ones, lattice, batch_idx), cell, pbc, edges, accuracy, sigma, method)

    def energy(q: Any, r: Any, h: Any, width: Any, two: Any) -> Any:
        """The part of the energy of second degree, and its gradient by charges."""
        found, potentials = sums.of(f, (r, q, h, batch_idx), width, each)
        return found.sum() + (0.5 * two * q * q).sum(), potentials + two * q

    def both(u: Any, v: Any, *of: Any) -> Any:
        """u ∂²E/∂q² v, from energies alone: so it has as many derivatives as these."""
        return energy(u + v, *of)[0] - energy(u, *of)[0] - energy(v, *of)[0]

    # The same numbers, which nothing is differentiated by.
    arrays = (positions, lattice, sigma, eta)
    plain = [f.numbers(f.untraced(_values, f, x), like) for x in arrays]
    own = _values(f, plain[3]) + unit / (math.sqrt(math.pi) * _values(f, plain[2]))
    tolerance = next(x for name, x in _TOLERANCES.items() if name in str(like.dtype))
    minimum = _Minimum(lambda q: _values(f, energy(f.numbers(q, like), *plain)[1]), own, of, system.systems, tolerance)
    share = f.numbers(1.0 / count[of], like)
    spread = charge * share if not charge.shape else f.taken(charge, f.indices(of.astype(np.int32), like)) * share
    q = f.minimum(minimum, both, chi, spread, arrays)
    energies = sums.of(f, (positions, q, lattice, batch_idx), sigma, wanted)
    energies, *others = energies if isinstance(energies, tuple) else (energies,)
    sites = q * (chi + 0.5 * eta * q)
    if reduction == "system":
        sites = segment_sum(f, sites, idx, system.systems)
    return q, energies + sites, *others


def _reals(f: Framework, name: str, x: Any, shapes: tuple[tuple[int, ...], ...], system: Any) -> Any:
    """Finite numbers of the positions' dtype, of one of some shapes."""
    like = f.atoms(system)[0]
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
    return f.table(name, x, shapes[0] if x.shape else (), system) if len(shapes) == 1 else x


def _values(f: Framework, x: Any) -> np.ndarray:
    return np.array(f.value("charges", x), np.float64)


@dataclass(frozen=True)
class _Sums:
    """The Coulomb sum of Gaussian charges, with what it is over."""

    edges: Boundaries
    boundary: tuple[Any, Any]
    pairs: tuple[Any, ...]
    """Those closer than widths reach."""
    reach: float
    op: str | None = None
    """That of the sum over the lattice; None of wires alone."""
    split: Any = None
    rest: tuple[Any, ...] = ()

    @classmethod
    def found(
        cls,
        f: Framework,
        of: tuple[Any, ...],
        cell: Any,
        pbc: Any,
        edges: Boundaries,
        accuracy: Any,
        widths: Any,
        method: Any,
    ) -> _Sums:
        """The lists, waves or mesh, and parameters for these atoms."""
        check_accuracy(f, accuracy)
        positions, charges, lattice, batch_idx = of
        of = (positions, charges, edges.closed(f, lattice, positions), batch_idx)
        system, reach = f.system(*of), f.untraced(reach_of_widths, f, widths)
        listed = edges.listed(f, system, of, cell)
        widest = pairs_of(f, *listed, _NO_LISTS, reach)
        sums = cls(edges, (cell, pbc), widest, reach)
        if edges.only_wires:
            return sums
        mesh, rows = f.untraced(_chosen, f, of, accuracy, edges, method)
        alpha, cutoff = ([row[n] for row in rows] for n in range(2))
        near = pairs_of(f, *listed, _NO_LISTS, cutoff if len(cutoff) > 1 else cutoff[0])
        if mesh:
            waves: tuple[Any, ...] = (f.integer_list(mesh),)
        else:
            waves = waves_of(f, system, of[2], [row[2] for row in rows], (None, None))
        split = edges.splits(f, f.per_system("alpha", alpha if len(alpha) > 1 else alpha[0], system))
        op = "ewald_mesh_summation" if mesh else "ewald_summation"
        return replace(sums, op=op, split=split, rest=(*near, check.UNBOUNDED, *waves))

    def of(self, f: Framework, atoms: tuple[Any, ...], widths: Any, wanted: Any) -> Any:
        """The energies, and what else is wanted, of positions, charges, cells and systems."""
        positions, charges, lattice, batch_idx = atoms
        of = (positions, charges, self.edges.closed(f, lattice, positions), batch_idx)
        system, own = f.system(*of), f.system(*atoms)
        gaussian = gaussian_inputs(f, own, widths, self.boundary, self.pairs, self.reach)
        return total(
            f,
            self.edges.lattices(f, system, of),
            wanted,
            None if self.op is None else (self.op, (self.split,), self.rest),
            slab_term(f, system, self.edges.slab_axes),
            self.edges.wires(f, of, lattice, (), None, None),
            ("gaussian_correction", (), gaussian, own),
        )


def _chosen(
    f: Framework, of: tuple[Any, ...], accuracy: float, edges: Boundaries, method: Any
) -> tuple[list[int] | None, list[Any]]:
    """The meshes of the systems if there are any, and the parameters of each system, alpha and cutoff first."""
    on_mesh, over_waves = None, None
    if method != "pme":
        charges, over_waves = parameters_of(f, of, None, None, None, accuracy, edges)
    if method == "pme" or (method is None and accuracy >= _FINEST_MESH):
        try:
            charges, on_mesh, meshes = mesh_parameters(f, of, None, None, (None, None), accuracy, edges)
        except ValueError:
            # An accuracy that no mesh has.
            if over_waves is None:
                raise
    if on_mesh is None or over_waves is None:
        return (None, over_waves) if on_mesh is None else (meshes, on_mesh)
    idx, systems = charges.groups.of(len(charges.positions))
    count = np.bincount(idx, minlength=systems)
    sizes = list(zip(count.tolist(), abs(np.linalg.det(np.broadcast_to(charges.cell, (systems, 3, 3)))).tolist()))
    costs = (
        sum(_native.ewald_cost(*size, row[1], row[2]) for size, row in zip(sizes, over_waves)),
        sum(
            _native.pme_cost(*size, row[1], meshes[4 * b : 4 * b + 3], meshes[4 * b + 3])
            for b, (size, row) in enumerate(zip(sizes, on_mesh))
        ),
    )
    return (None, over_waves) if costs[0] <= costs[1] else (meshes, on_mesh)


@dataclass(frozen=True)
class _Minimum:
    """The charges that minimise an energy of second degree, of a given total charge in each system."""

    times: Callable[[np.ndarray], np.ndarray]
    """The matrix times charges."""
    own: np.ndarray
    """About its diagonal, which conjugate gradients are preconditioned by."""
    of: np.ndarray
    systems: int
    tolerance: float

    def sums(self, x: np.ndarray) -> np.ndarray:
        """The sum over each system."""
        return np.bincount(self.of, x, self.systems)

    def __call__(self, slopes: np.ndarray, start: np.ndarray) -> np.ndarray:
        """The charges with these slopes at zero, from charges that have the total charge, by conjugate gradients for
        each system alone."""
        of, sums = self.of, self.sums
        inverse = 1.0 / np.where(self.own > 0.0, self.own, 1.0)
        weight = np.maximum(sums(inverse), 1e-300)

        def across(r: np.ndarray) -> np.ndarray:
            """Slopes less what those of a system have in common, which would be all that is left of them in the end."""
            return r - (sums(inverse * r) / weight)[of]

        x = np.array(start, np.float64)
        r = across(np.asarray(slopes, np.float64) + (self.times(x) if x.any() else 0.0))
        limit = self.tolerance * np.sqrt(sums(r**2))
        p = z = inverse * r
        product = sums(r * z)
        is_open = limit > 0.0
        for _ in range(4 * len(x) + 20):
            if not is_open.any():
                break
            image = self.times(p)
            curvature, length = sums(p * image), sums(p * p)
            bad = is_open & ~(curvature > 0.0)
            if bad.any():
                b = int(bad.argmax())
                expected = "numbers so large that the energy has a minimum at fixed total charge"
                check.refuse("hardness", expected, f"a curvature of {curvature[b] / length[b]:.3g} (system {b})")
            step = np.where(is_open, product / np.where(is_open, curvature, 1.0), 0.0)
            x, r = x - step[of] * p, across(r - step[of] * image)
            z = inverse * r
            product, before = sums(r * z), product
            p = z + np.where(is_open, product / np.where(is_open, before, 1.0), 0.0)[of] * p
            is_open = is_open & (np.sqrt(sums(r**2)) > limit)
        if is_open.any():
            b = int(is_open.argmax())
            found = f"slopes of {np.sqrt(sums(r**2))[b]:.3g} (system {b})"
            check.refuse("hardness", f"numbers for which slopes fall below {limit[b]:.3g}", found)
        return x
