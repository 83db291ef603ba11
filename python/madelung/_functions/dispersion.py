"""Dispersion −C₆/r⁶ of all pairs and images, beside a sum of pair potentials within a cutoff."""

from __future__ import annotations

from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung._functions.declare import Group, Parameter, text
from madelung._functions.ewald import ewald_summation
from madelung._functions.framework import Framework
from madelung._functions.mesh import MESH_DIMENSIONS, particle_mesh_ewald
from madelung._functions.parameters import ACCURACY, ALPHA
from madelung._functions.powers import dispersion_coefficients, root_of

_METHODS = ("ewald", "pme")
_ONLY_WITH = text("of the sum of `dispersion`, as of `particle_mesh_ewald` with `exponent=6`.")
DISPERSION = Group(
    "dispersion",
    (
        Parameter(
            "dispersion",
            "word",
            text(
                "how −C₆/r⁶, C₆ = 4εσ⁶, is summed. None: within the cutoff, as all else. Over all pairs of a crystal "
                'and their images: "ewald", over waves, or "pme", on a mesh. C₆ then follows from a rule of `mixing`, '
                '"geometric", one sum, or "lorentz-berthelot", seven (see `dispersion_coefficients`). At the cutoff '
                "r⁻¹² alone ends."
            ),
            None,
            words=_METHODS,
            without=("cuda",),
        ),
        ACCURACY.but(text=_ONLY_WITH, without=("cuda",)),
        ALPHA.but(default=None, text=_ONLY_WITH, without=("cuda",)),
        MESH_DIMENSIONS.but(text=_ONLY_WITH, without=("cuda",)),
    ),
)


def method_of(given: tuple[Any, ...], mixing: Any, cell: Any) -> str | None:
    """The method of the sum over all pairs, checked with what it takes; None without one."""
    method, *others = given
    if method is None:
        for name, x in zip(("accuracy", "alpha", "mesh_dimensions"), others):
            if x is not None:
                check.refuse(name, "None without `dispersion`", check.described(x))
        return None
    check.word("dispersion", method, _METHODS)
    if mixing not in ("geometric", "lorentz-berthelot"):
        expected = '`mixing` of "geometric" or "lorentz-berthelot" with it'
        check.refuse("dispersion", expected, "None" if mixing is None else repr(mixing))
    if cell is None:
        check.refuse("cell", "lattice vectors (3, 3) or (B, 3, 3) with `dispersion`", "None")
    if method == "ewald" and others[2] is not None:
        check.refuse("mesh_dimensions", 'None, or `dispersion="pme"`', check.described(others[2]))
    return str(method)


def long_range(
    f: Framework,
    given: tuple[Any, ...],
    mixing: str,
    per_atom: tuple[Any, Any],
    atoms: tuple[Any, Any, Any, Any],
    others: tuple[Any, Any, Any],
    outputs: tuple[Any, ...],
) -> list[Any]:
    """Results of the sums of −C₆/r⁶ over all pairs that are not left out: `per_atom` are ε and σ, `atoms`
    positions, cell, axes and batch, `others` the cutoff, lists and exclusions of the call."""
    method, accuracy, alpha, mesh = given
    positions, cell, pbc, batch_idx = atoms
    cutoff, lists, exclusions = others
    prefactor, *wanted = outputs
    if not positions.shape[0]:
        return []
    if pbc is not None and f.is_readable(pbc) and not np.asarray(f.value("pbc", pbc)).all():
        check.refuse("pbc", "all axes periodic with `dispersion`", np.asarray(f.value("pbc", pbc)).tolist())
    epsilon, sigma = per_atom
    if mixing == "geometric":
        sets = [(2.0 * root_of(epsilon) * sigma**3, 1.0)]
    else:
        coefficients, _ = dispersion_coefficients(f, sigma, epsilon)
        sets = [(q, -1.0 if n and n % 2 == 0 else 1.0) for n, q in enumerate(f.channels(coefficients))]
    found = []
    for q, sign in sets:
        of = (f, positions, q, cell, alpha)
        ends = (exclusions, (6, None), None, accuracy, pbc, False, None)
        signed = (-sign * prefactor, *wanted)
        if method == "pme":
            found.append(particle_mesh_ewald(*of, (mesh, None, None), cutoff, lists, *ends, batch_idx, signed))
        else:
            found.append(ewald_summation(*of, None, cutoff, (None, None), lists, *ends, None, batch_idx, signed))
    return found
