"""Bonded terms: declarations, with one body for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from madelung import _arguments as check
from madelung._functions.declare import KEYWORDS, Parameter, function, text
from madelung._functions.framework import Framework
from madelung._functions.parameters import BATCH_IDX, CELL, PBC, POSITIONS, STREAM
from madelung._functions.potentials import OUTPUTS_OF_PAIRS

_CELL = CELL.but(
    default=None,
    text=text(
        "(3, 3) or (B, 3, 3), rows are lattice vectors. The vector between two bonded atoms is then that to the image "
        "whose components along the lattice vectors are nearest to zero: the nearest one wherever the two are closer "
        "than half of each height of the cell. None: no axis is periodic."
    ),
)
_PBC = PBC.but(
    text=text(
        "(3,) or (B, 3) of bool, with a cell. None: all axes. An axis whose lattice vector is zero is open.",
        cuda="An array of NumPy.",
    )
)
_ERRORS = text(
    "TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for an atom "
    "twice in a term, atoms of two systems, and bonded atoms on one point, with the term.",
    jax="What only the kernel can see is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.",
)
_RETURNS = text(
    "The energies, (N,) or (B,), a term's energy split equally between its atoms, followed by the requested ones of: "
    "forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, "
    "else (B, 3, 3), or (N, 3, 3)), where E is "
    "the sum of the energies. A single array comes unwrapped, several as a tuple."
)
_DIFFERENTIABLE = "Differentiable twice in positions, cell and parameters, forces and virial once more."


def bonded_term(name: str, said: str, atoms: str, width: int, **parameters: str) -> Callable[..., Any]:
    """Declares the function of an op of `bonded_term!`: its docstring, what its atoms are, and its parameters."""
    own = [Parameter(x, "reals", text(f"(P,), {of}"), shape=("P",)) for x, of in parameters.items()]

    def body(f: Framework, positions: Any, atoms: Any, *others: Any) -> Any:
        given, (cell, pbc, batch_idx, outputs) = others[: len(parameters)], others[len(parameters) :]
        prefactor, reduction, forces, virial = outputs
        wanted = f.outputs((prefactor, reduction, forces, False, virial, False))
        system = f.system(positions, check.NO_CHARGES, f.no_cell(positions) if cell is None else cell, batch_idx)
        r, _, idx = f.atoms(system)
        atoms = f.integers("atoms", atoms, ("P", width))
        check.fits("atoms", atoms, ("P", width))
        if "int" not in str(atoms.dtype):
            check.refuse("atoms", "integers", atoms.dtype, TypeError)
        terms = atoms.shape[0]
        reals = [f.reals(x, array, ("P",), r) for x, array in zip(parameters, given)]
        for x, array in zip(parameters, reals):
            check.fits(x, array, (terms,))
        columns, systems = f.search("bonded_atoms", atoms.reshape((width * terms,)), width, idx, system.systems)
        columns = columns.reshape((width, terms))
        maps = [columns[k] for k in range(width)], systems.reshape((width, terms))[0]
        if cell is None and pbc is not None:
            check.refuse("pbc", "None where there is no cell", check.described(pbc))
        axes = f.axes("pbc", (cell is not None,) * 3 if pbc is None else pbc, system)
        return f.energies(name, system, tuple(reals), (*maps[0], maps[1], axes), wanted)

    body.__name__, body.__doc__ = name, said
    return function(
        POSITIONS,
        Parameter("atoms", "integers", text(f"(P, {width}), {atoms}"), shape=("P", width)),
        *own,
        _CELL,
        KEYWORDS,
        _PBC,
        BATCH_IDX,
        OUTPUTS_OF_PAIRS,
        STREAM,
        notes={"torch": _DIFFERENTIABLE, "jax": _DIFFERENTIABLE},
        returns=_RETURNS,
        raises=_ERRORS,
    )(body)


_BOND = "the two atoms of each bond."
_ANGLE = "the three atoms of each angle, the one at its corner in the middle."
_DIHEDRAL = (
    "the four atoms of each dihedral angle, in the order of its bonds. It is 0 where the outer two are on one side, "
    "and positive for a right-handed screw (IUPAC)."
)

harmonic_bonds = bonded_term(
    "harmonic_bonds",
    """Harmonic bonds: ½k(r − r₀)².

    Terms of Urey and Bradley are harmonic bonds between the outer atoms of angles. Programs that write k(r − r₀)²
    (AMBER, CHARMM, LAMMPS) have half of this k.
    """,
    _BOND,
    2,
    stiffness="the constant k, an energy over a length squared.",
    rest="the length r₀.",
)

morse_bonds = bonded_term(
    "morse_bonds",
    """Morse's bonds: D[1 − exp(−a(r − r₀))]².

    Morse, Phys. Rev. 34, 57 (1929). The energy is 0 at r₀, and D of two atoms far apart.
    """,
    _BOND,
    2,
    depth="the energy D.",
    steepness="the inverse length a.",
    rest="the length r₀.",
)

harmonic_angles = bonded_term(
    "harmonic_angles",
    """Harmonic angles: ½k(θ − θ₀)², in radians.

    An angle of 0 or 180° has no derivative, and is an error where one is asked for: `cosine_angles` has those of atoms
    in a line. Programs that write k(θ − θ₀)² (AMBER, CHARMM, LAMMPS) have half of this k.
    """,
    _ANGLE,
    3,
    stiffness="the energy k.",
    rest="the angle θ₀, in radians.",
)

cosine_angles = bonded_term(
    "cosine_angles",
    """Angles harmonic in the cosine: ½k(cos θ − cos θ₀)², of GROMOS and DREIDING.

    It has all derivatives where the atoms lie in a line.
    """,
    _ANGLE,
    3,
    stiffness="the energy k.",
    rest="the angle θ₀, in radians.",
)

periodic_dihedrals = bonded_term(
    "periodic_dihedrals",
    """Periodic dihedrals, proper or improper: k[1 + cos(nφ − φ₀)].

    A Fourier series is several terms of the same atoms.
    """,
    _DIHEDRAL,
    4,
    stiffness="the energy k.",
    periodicity="the number n of minima, of the dtype of the positions.",
    phase="the angle φ₀, in radians.",
)

ryckaert_bellemans = bonded_term(
    "ryckaert_bellemans",
    """Ryckaert–Bellemans dihedrals: Σₙ Cₙ cosⁿ(φ − π), n = 0 to 5.

    Ryckaert and Bellemans, Chem. Phys. Lett. 30, 123 (1975).
    """,
    _DIHEDRAL,
    4,
    c0="the energy C₀.",
    c1="the energy C₁.",
    c2="the energy C₂.",
    c3="the energy C₃.",
    c4="the energy C₄.",
    c5="the energy C₅.",
)

harmonic_impropers = bonded_term(
    "harmonic_impropers",
    """Harmonic improper dihedrals: ½k(φ − φ₀)², with the difference in [−π, π].

    The improper of CHARMM, which writes k(φ − φ₀)² and has half of this k.
    """,
    _DIHEDRAL,
    4,
    stiffness="the energy k.",
    rest="the angle φ₀, in radians.",
)

lennard_jones_pairs = bonded_term(
    "lennard_jones_pairs",
    """Lennard-Jones potentials of given pairs: 4ε[(σ/r)¹² − (σ/r)⁶], without a cutoff.

    Those that force fields have between atoms three bonds apart (1-4), which `exclusions` leave out of `lennard_jones`.
    """,
    "the two atoms of each pair.",
    2,
    epsilon="the depth ε.",
    sigma="the length σ.",
)
