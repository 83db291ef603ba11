"""Pair potentials between atoms of types: declarations, with one body for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from madelung import _arguments as check
from madelung._functions.declare import KEYWORDS, REQUIRED, Group, Parameter, function, text
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

_OUTPUTS = Group(
    "sums", tuple(p for p in OUTPUTS.parameters if p.name not in ("compute_charge_gradients", "hybrid_forces"))
)
_TYPES = Parameter("types", "integers", text("(N,), the type of each atom, from 0 to below K."), shape=("N",))
_TAPER = Parameter(
    "taper",
    "positive",
    text(
        "distance from which the energy of a pair is multiplied by 1 − 10x³ + 15x⁴ − 6x⁵, where x goes from 0 there to "
        "1 at the cutoff, so that it vanishes with two continuous derivatives. None: nine tenths of the cutoff. At the "
        "cutoff or beyond: the energy is cut off.",
        jax="A Python number.",
    ),
    None,
)
_RETURNS = text(
    "The energies, (N,) or (B,), a pair's energy split half and half between its atoms, followed by the requested ones "
    "of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3)), where E "
    "is the sum of the energies. A single array comes unwrapped, several as a tuple."
)


# The tables of each potential.
TABLES: dict[str, tuple[str, ...]] = {}


def pair_potential(name: str, said: str, **parameters: str) -> Callable[..., Any]:
    """Declares the function of an op of `pair_potential!`: its docstring, and its tables with their texts."""
    TABLES[name] = tuple(parameters)
    tables = tuple(
        Parameter(
            table,
            "reals",
            replace(text(f"(K, K), {of}"), notes={"cuda": "One of NumPy is copied to the device."}),
            shape=("K", "K"),
        )
        for table, of in parameters.items()
    )

    def body(f: Framework, positions: Any, types: Any, *others: Any) -> Any:
        tables, others = others[: len(parameters)], others[len(parameters) :]
        cutoff, cell, taper, lists, pbc, batch_idx, (prefactor, reduction, forces, virial) = others
        wanted = f.outputs((prefactor, reduction, forces, False, virial, False))
        lattice = f.no_cell(positions) if cell is None else cell
        system = f.system(positions, check.NO_CHARGES, lattice, batch_idx)
        reach = f.distance("cutoff", reach_given(cutoff))
        onset = 0.9 * reach if taper is None else f.distance("taper", taper)
        if not onset > 0.0:
            check.positive("taper", onset)
        given = [f.reals(table, x, ("K", "K"), system.positions) for table, x in zip(parameters, tables)]
        for table, x in zip(parameters, given):
            check.fits(table, x, (given[0].shape[0],) * 2)
        kinds = f.integers("types", types, (positions.shape[0],))
        pairs = pairs_of(f, system, (positions, cell, pbc, batch_idx), lists, reach)
        return f.energies(name, system, given, (kinds, *pairs, reach, onset), wanted)

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
        _TAPER,
        LISTS,
        PBC.but(
            text=text(
                "(3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero.",
                cuda="An array of NumPy.",
            )
        ),
        BATCH_IDX,
        _OUTPUTS,
        STREAM,
        notes={
            "torch": "Differentiable twice in positions, cell and the tables, forces and virial once more.",
            "jax": "Differentiable twice in positions, cell and the tables, forces and virial once more. Under `jit` "
            "the list is given (`neighbors`).",
        },
        returns=_RETURNS,
        op=name,
        raises=ENERGY_ERRORS,
    )(body)


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
    table.
    """,
    epsilon="the depth ε.",
    sigma="the length σ.",
)
