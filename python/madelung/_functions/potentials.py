"""Pair potentials between atoms of types: declarations, with one body for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung._functions.declare import KEYWORDS, REQUIRED, Group, Parameter, function, text
from madelung._functions.dispersion import DISPERSION, long_range, method_of
from madelung._functions.ends import ENDS, at_end, ends_of, tail_integrals
from madelung._functions.exclusions import EXCLUSIONS, excluded_pairs, without
from madelung._functions.framework import Framework
from madelung._functions.lists import pairs_of
from madelung._functions.parameters import (
    BATCH_IDX,
    CELL,
    CUTOFF,
    ENERGY_ERRORS,
    LISTS,
    OUTPUTS,
    PBC,
    POSITIONS,
    STREAM,
)
from madelung._functions.plans import all_added

OUTPUTS_OF_PAIRS = Group(
    "sums", tuple(p for p in OUTPUTS.parameters if p.name not in ("compute_charge_gradients", "hybrid_forces"))
)
_TYPES = Parameter("types", "integers", text("(N,), the type of each atom, from 0 to below K."), shape=("N",))
_EXCLUSIONS = EXCLUSIONS.but(
    text=text(
        "pairs (P, 2) of atoms that are left out, each once; or a tuple of pairs and factors (P,), or one for all, by "
        "which their energies are multiplied instead of 0 (differentiable), or of pairs, factors (or None) and images "
        "(P, 3), the nearest by default. A pair that is left out may lie on one point.",
    )
)
# Depth and length of a type, which mixing rules take.
_MIXED = ("epsilon", "sigma")
# Rules of which pairs have products and sums.
_OF_ATOMS = ("lorentz-berthelot", "geometric")
_MIXING = Parameter(
    "mixing",
    "word",
    text(
        "how ε and σ of two types follow from those of each, which are then given as (K,), from 0 up: "
        '"lorentz-berthelot", σ = (σ₁ + σ₂)/2 and ε = √(ε₁ε₂); "geometric", σ = √(σ₁σ₂) and ε = √(ε₁ε₂); '
        '"waldman-hagler", σ⁶ = (σ₁⁶ + σ₂⁶)/2 and ε = √(ε₁ε₂) σ₁³σ₂³/σ⁶. None: they are tables. Where each atom has '
        "parameters of its own, each is a type."
    ),
    None,
    words=("lorentz-berthelot", "geometric", "waldman-hagler"),
)
_DIFFERENTIABLE = (
    "Differentiable twice in positions, cell, parameters and factors of exclusions, forces and virial once more."
)
_RETURNS = text(
    "The energies, (N,) or (B,), a pair's energy split half and half between its atoms, followed by the requested ones "
    "of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, "
    "else (B, 3, 3), or (N, 3, 3)), where E "
    "is the sum of the energies. A single array comes unwrapped, several as a tuple."
)


# The tables of each potential.
TABLES: dict[str, tuple[str, ...]] = {}


def pair_potential(name: str, said: str, disperses: bool = False, **parameters: str) -> Callable[..., Any]:
    """Declares the function of an op of `pair_potential!`: its docstring, and its tables with their texts. `disperses`:
    whether it has the term −4ε(σ/r)⁶, which can be summed over all pairs."""
    TABLES[name] = tuple(parameters)
    is_mixed = set(_MIXED) <= set(parameters)
    tables = tuple(
        Parameter(
            table,
            "reals",
            replace(
                text(
                    f"(K, K), {of}" if not is_mixed or table not in _MIXED else f"(K, K), or (K,) with `mixing`, {of}"
                ),
                notes={"cuda": "One of NumPy is copied to the device."},
            ),
            shape=("K", "K"),
        )
        for table, of in parameters.items()
    )

    def body(f: Framework, positions: Any, types: Any, *others: Any) -> Any:
        tables, others = dict(zip(parameters, others)), others[len(parameters) :]
        cutoff, cell, given, *rules, exclusions, lists, pbc, batch_idx, (prefactor, reduction, forces, virial) = others
        far = method_of(rules[1], rules[0], cell) if disperses else None
        mixing = next(iter(rules), None)
        if mixing is not None:
            check.word("mixing", mixing, _MIXING.words)
        outputs = (prefactor, reduction, forces, False, virial, False)
        wanted = f.outputs(outputs)
        lattice = f.no_cell(positions) if cell is None else cell
        system = f.system(positions, check.NO_CHARGES, lattice, batch_idx)
        reach = f.distance("cutoff", reach_given(cutoff))
        ends = ends_of(f, given, reach, cell, pbc)
        # Means of parameters of atoms, where nothing else needs those of all pairs of types.
        is_of_atoms = disperses and mixing in _OF_ATOMS and not ends.takes_off and not ends.has_tail
        kinds = f.integers("types", types, (positions.shape[0],))
        op = f"{name}_of_atoms" if is_of_atoms else name
        own = _parts(f, tables, mixing, kinds, system) if is_of_atoms else _tables(f, tables, mixing, system)
        lead = () if is_of_atoms else (kinds,)
        atoms = (positions, cell, pbc, batch_idx)
        excluded = excluded_pairs(f, system, atoms, exclusions)
        pairs = without(f, pairs_of(f, system, atoms, lists, reach), excluded)
        scaled = None
        if excluded is not None and not excluded.are_left_out:
            scaled = (*excluded.pairs, excluded.exclusion_of, excluded.factors)

        # Energies alone, of shifts: constants have no forces.
        constants: list[Any] = []

        def results_of(sign: float, is_constant: bool = False) -> Any:
            if is_constant:
                return f.outputs((sign * prefactor, reduction, False, False, False, False))
            return wanted if sign == 1.0 else f.outputs((sign * prefactor, *outputs[1:]))

        def within(op: str, tables: list[Any], sign: float = 1.0) -> list[Any]:
            """The energies of pairs with their ends, times a sign."""
            taken, found = at_end(f, op, tables, ends, system.positions), []
            terms = [(op, tables, ends.numbers(), sign)]
            if taken:
                terms.append(("end_terms", taken, (reach, ends.bend, reach), -sign))
            for name, given, numbers, by in terms:
                is_constant = name == "end_terms" and ends.word == "shift"
                results, into = results_of(by, is_constant), constants if is_constant else found
                into.append(f.energies(name, system, tuple(given), (*lead, *pairs, *numbers), results))
                if scaled is not None:
                    of_excluded = (*lead, *scaled, *numbers)
                    into.append(f.energies(f"{name}_exclusions", system, tuple(given), of_excluded, results))
            if ends.has_tail:
                beyond = tail_integrals(f, op, tables, taken, ends, system.positions)
                types = f.numbers(np.arange(beyond.shape[0]), system.positions)
                found.append(f.energies("tail", system, (beyond,), (kinds, kinds, types), results_of(sign)))
            return found

        found = within(op, own)
        if far is not None:
            # What the sum over all pairs has within the cutoff, too, is taken off.
            if is_of_atoms:
                found += within("dispersion_of_atoms", own, -1.0)
            else:
                # −C₆/r⁶ is Buckingham's potential.
                c6 = 4.0 * own[0] * own[1] ** 6
                found += within("buckingham", [0.0 * c6, f.full(c6.shape, 1.0, system.positions), c6], -1.0)
            per_atom = [f.taken(f.reals(x, tables[x], ("K",), system.positions), kinds) for x in _MIXED]
            found += long_range(f, rules[1], mixing, tuple(per_atom), atoms, (reach, lists, exclusions), outputs)
        total = all_added(f, found)
        if not constants:
            return total
        energies, *others = total if isinstance(total, tuple) else (total,)
        energies = f.added([energies, *constants])
        return (energies, *others) if others else energies

    def reach_given(cutoff: Any) -> Any:
        if cutoff is None:
            check.refuse("cutoff", "the radius of the sum", "None")
        return cutoff

    body.__name__, body.__doc__ = name, said
    return function(
        POSITIONS,
        _TYPES,
        *tables,
        CUTOFF.but(default=REQUIRED, text=text("radius of the sum, in L.", jax="A Python number.")),
        CELL.but(default=None, text=text("(3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.")),
        KEYWORDS,
        ENDS,
        *([_MIXING] if is_mixed else []),
        *([DISPERSION] if disperses else []),
        _EXCLUSIONS,
        LISTS,
        PBC.but(
            text=text(
                "(3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero.",
                cuda="An array of NumPy.",
            )
        ),
        BATCH_IDX,
        OUTPUTS_OF_PAIRS,
        STREAM,
        notes={
            "torch": _DIFFERENTIABLE,
            "jax": f"{_DIFFERENTIABLE} Under `jit` the list is given (`neighbors`).",
        },
        returns=_RETURNS,
        op=name,
        raises=ENERGY_ERRORS,
    )(body)


def _parts(f: Framework, given: dict[str, Any], mixing: str, types: Any, system: Any) -> list[Any]:
    """√ε of each atom and the parts of its σ, of which pairs have products and sums."""
    epsilon, sigma = (f.reals(x, given[x], ("K",), system.positions) for x in _MIXED)
    check.fits("epsilon", epsilon, ("K",))
    check.fits("sigma", sigma, (epsilon.shape[0],))
    return list(f.op("mixing_parts", epsilon, sigma, int(mixing == "geometric"), types))


def _tables(f: Framework, given: dict[str, Any], mixing: str | None, system: Any) -> list[Any]:
    """The tables of a potential as inputs of its op, ε and σ by a mixing rule."""
    like, found = system.positions, dict(given)
    if mixing is not None:
        epsilon, sigma = (f.reals(x, given[x], ("K",), like) for x in _MIXED)
        check.fits("epsilon", epsilon, ("K",))
        kinds = epsilon.shape[0]
        check.fits("sigma", sigma, (kinds,))
        types = np.indices((kinds, kinds), np.int32).reshape(2, -1)
        mixed = f.op(f"mixed_{mixing.replace('-', '_')}", epsilon, sigma, *[f.indices(x, like) for x in types])
        found |= {name: x.reshape((kinds, kinds)) for name, x in zip(_MIXED, mixed)}
    found = {name: f.reals(name, x, ("K", "K"), like) for name, x in found.items()}
    kinds = next(iter(found.values())).shape[0]
    for name, x in found.items():
        check.fits(name, x, (kinds, kinds))
    return list(found.values())


born_mayer = pair_potential(
    "born_mayer",
    """Born–Mayer–Huggins potential: A exp(B(σ − r)) − C/r⁶ − D/r⁸, of molten and crystalline salts.

    Huggins and Mayer, J. Chem. Phys. 1, 643 (1933); parameters of the alkali halides: Fumi and Tosi, J. Phys. Chem.
    Solids 25, 31 and 45 (1964), where B = 1/ρ. The parameters of two types are the mean of both elements of a table.
    """,
    amplitude="the energy A.",
    steepness="the inverse length B = 1/ρ.",
    sigma="the length σ.",
    c6="the dispersion coefficient C.",
    c8="the dispersion coefficient D.",
)

buckingham = pair_potential(
    "buckingham",
    """Buckingham potential: A exp(−r/ρ) − C/r⁶.

    Buckingham, Proc. R. Soc. Lond. A 168, 264 (1938). It falls to −∞ at r = 0. The parameters of two types are the mean
    of both elements of a table.
    """,
    amplitude="the energy A.",
    rho="the length ρ, above zero.",
    c6="the dispersion coefficient C.",
)

lennard_jones = pair_potential(
    "lennard_jones",
    """Lennard-Jones potential: 4ε[(σ/r)¹² − (σ/r)⁶].

    Lennard-Jones, Proc. Phys. Soc. 43, 461 (1931). The parameters of two types are the mean of both elements of a
    table. With `dispersion` the attraction has no cutoff.
    """,
    disperses=True,
    epsilon="the depth ε.",
    sigma="the length σ.",
)

mie = pair_potential(
    "mie",
    """Mie potential: C ε[(σ/r)ⁿ − (σ/r)ᵐ] with C = n/(n − m) (n/m)^(m/(n − m)), of depth ε.

    Mie, Ann. Phys. 316, 657 (1903). The exponents n and m differ for all pairs of types. The parameters of two types
    are the mean of both elements of a table.
    """,
    epsilon="the depth ε.",
    sigma="the length σ, above zero.",
    repulsive="the exponent n, above zero.",
    attractive="the exponent m, above zero.",
)

morse = pair_potential(
    "morse",
    """Morse potential: D{[1 − exp(−a(r − r₀))]² − 1}.

    Morse, Phys. Rev. 34, 57 (1929). The parameters of two types are the mean of both elements of a table.
    """,
    depth="the depth D.",
    steepness="the inverse length a.",
    length="the distance r₀ of the least energy.",
)

soft_core = pair_potential(
    "soft_core",
    """Soft-core potential: 4ελ(u⁻² − u⁻¹) with u = α(1 − λ)² + (r/σ)⁶, for atoms that appear or vanish.

    Beutler et al., Chem. Phys. Lett. 222, 529 (1994). At λ = 1 it is the potential of Lennard-Jones, at λ = 0 nothing;
    between them energy and forces stay finite as r goes to 0. The derivative by λ, for thermodynamic integration, is
    that by its table. The parameters of two types are the mean of both elements of a table.
    """,
    epsilon="the depth ε.",
    sigma="the length σ, above zero.",
    coupling="the coupling λ, from 0 to 1.",
    softness="the softness α, such as 0.5.",
)

tang_toennies = pair_potential(
    "tang_toennies",
    """Tang–Toennies potential: A exp(−br) − Σₙ fₙ(br) Cₙ/rⁿ over n = 6, 8, 10, with damped dispersion.

    fₙ(x) = 1 − exp(−x) Σₖ xᵏ/k!, k from 0 to n: Tang and Toennies, J. Chem. Phys. 80, 3726 (1984), eqs. 1 and 2. The
    damping is a difference of near numbers: in float32 f₆ has five digits and f₁₀ three at br = 3, in float64 f₁₀ has
    eight at br = 1. The parameters of two types are the mean of both elements of a table.
    """,
    amplitude="the energy A.",
    steepness="the inverse length b.",
    c6="the dispersion coefficient C₆.",
    c8="the dispersion coefficient C₈.",
    c10="the dispersion coefficient C₁₀.",
)

yukawa = pair_potential(
    "yukawa",
    """Yukawa potential: A exp(−κr)/r, of screened charges in colloids and plasmas.

    Yukawa, Proc. Phys.-Math. Soc. Jpn. 17, 48 (1935). The parameters of two types are the mean of both elements of a
    table.
    """,
    amplitude="A, an energy times a length.",
    kappa="the inverse screening length κ.",
)

zbl = pair_potential(
    "zbl",
    """Ziegler–Biersack–Littmark potential: A φ(r/a)/r, of nuclei at short distances, such as in radiation damage.

    Ziegler, Biersack and Littmark, The Stopping and Range of Ions in Solids (1985), with the universal
    screening function φ. For atomic numbers Z₁ and Z₂, A = Z₁Z₂ e²/4πε₀ (Z₁Z₂ times `madelung.units.EV_ANGSTROM`) and
    a = 0.46850 Å/(Z₁^0.23 + Z₂^0.23). The parameters of two types are the mean of both elements of a table.
    """,
    amplitude="A, an energy times a length.",
    length="the screening length a, above zero.",
)
