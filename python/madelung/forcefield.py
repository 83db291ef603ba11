"""Force fields of molecules: charges, Lennard-Jones potentials, exclusions and bonded terms as one object.

```python
from openmm.app import ForceField, PDBFile, PME
from madelung.forcefield import from_openmm

pdb = PDBFile("water.pdb")
system = ForceField("amber14/tip3p.xml").createSystem(pdb.topology, nonbondedMethod=PME)
field = from_openmm(system)
energy, forces = field(positions, cell, compute_forces=True)
```

OpenMM reads files of AMBER, GROMACS and others, and its own; what it has made of them is read here. Lengths are in nm,
energies in kJ/mol, until `in_units` gives the same field in others. A call computes in the library of its positions:
NumPy, PyTorch or JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import ModuleType
from typing import Any, Literal

import numpy as np

from madelung import _arguments as check
from madelung._functions.ends import nodes
from madelung._functions.powers import root_of
from madelung._libraries import library_of
from madelung.numpy import call as op_of_numpy

__all__ = ["ForceField", "Terms", "from_openmm"]

# e²/4πε₀ in kJ nm/mol, of CODATA 2018, as OpenMM has it.
COULOMB = 138.93545764438198

# A cutoff beyond all pairs of a field without one, in the unit of lengths.
_ALL = 1e6

# A length on which nothing changes, in the unit of lengths: exp(−r/ρ) is 1.
_FLAT = 1e30

# Powers of energy and length in the units of the parameters of bonded terms.
_DIMENSIONS: dict[str, dict[str, tuple[int, int]]] = {
    "harmonic_bonds": {"stiffness": (1, -2), "rest": (0, 1)},
    "harmonic_angles": {"stiffness": (1, 0), "rest": (0, 0)},
    "harmonic_impropers": {"stiffness": (1, 0), "rest": (0, 0)},
    "periodic_dihedrals": {"stiffness": (1, 0), "periodicity": (0, 0), "phase": (0, 0)},
    "ryckaert_bellemans": {f"c{n}": (1, 0) for n in range(6)},
    "lennard_jones_pairs": {"epsilon": (1, 0), "sigma": (0, 1)},
}

# Energies of forces of OpenMM with formulas, as its readers of files of CHARMM and GROMACS write them, without blanks.
_IMPROPER = "k*(theta-theta0)^2"
_WRAPPED = "k*min(dtheta,2*pi-dtheta)^2;dtheta=abs(theta-theta0);pi=3.1415926535"
_NEAR = "4*epsilon*((sigma/r)^12-(sigma/r)^6)"
_TABLES = "acoef(type1,type2)/r^12-bcoef(type1,type2)/r^6"
_ROOTS = "(a/r6)^2-b/r6;r6=r^6;a=acoef(type1,type2);b=bcoef(type1,type2)"
_PRODUCTS = "A1*A2/r^12-C1*C2/r^6"
_NEAR_POWERS = "-C/r^6+A/r^12"

# Forces of OpenMM that have no energy.
_WITHOUT_ENERGY = (
    "AndersenThermostat",
    "CMMotionRemover",
    "MonteCarloAnisotropicBarostat",
    "MonteCarloBarostat",
    "MonteCarloFlexibleBarostat",
    "MonteCarloMembraneBarostat",
    "RPMDMonteCarloBarostat",
)


@dataclass(frozen=True, eq=False)
class Terms:
    """Bonded terms of one function of `madelung.numpy`: its name, atoms (P, n) and parameters (P,), by their names."""

    function: str
    atoms: Any
    parameters: dict[str, Any]


@lru_cache(maxsize=1)
def _all_pairs(n: int) -> dict[str, np.ndarray]:
    """The list of all pairs of atoms, as the functions take it."""
    if n * (n - 1) > np.iinfo(np.int32).max:
        check.refuse("positions", "at most 46,341 atoms of a field without a cutoff, whose pairs are all listed", n)
    i, k = np.divmod(np.arange(n * (n - 1), dtype=np.int32), max(n - 1, 1))
    return {
        "neighbor_list": np.stack([i, k + (k >= i)]).astype(np.int32),
        "neighbor_ptr": (n - 1) * np.arange(n + 1, dtype=np.int32),
        "neighbor_shifts": np.zeros((len(i), 3), np.int32),
    }


def _added(found: list[Any]) -> Any:
    """The sum of results, each one array or a tuple of several."""
    if not isinstance(found[0], tuple):
        return sum(found[1:], found[0])
    return tuple(sum(of[1:], of[0]) for of in zip(*found))


def _is_there(x: Any) -> bool:
    """Whether a sum has something to add: an array of another library may be traced, and is not looked at."""
    return not isinstance(x, np.ndarray) or bool(x.any())


@dataclass(frozen=True, eq=False)
class ForceField:
    """A force field of one system, whose call gives its energy, forces and virial.

    Arrays may be replaced (`dataclasses.replace`) by others of the same shape, by tensors that require gradients too.
    """

    charges: Any
    """(N,), in elementary charges."""
    types: Any
    """(N,) int32, the type of each atom."""
    epsilon: Any
    """(K, K), the depths of the Lennard-Jones potentials of two types."""
    sigma: Any
    """(K, K), their lengths."""
    excluded: Any
    """(P, 2) int32, the pairs that neither sum has but for the factors of their charges."""
    factors: Any
    """(P,), by which the Coulomb energy of these pairs is multiplied; 0 leaves a pair out."""
    terms: tuple[Terms, ...]
    """The bonded terms, Lennard-Jones potentials of excluded pairs (1-4) among them."""
    cutoff: float | None
    """Radius of the sums over pairs; None: over all pairs, without periodic axes."""
    switch: float | None = None
    """Distance from which on Lennard-Jones potentials are tapered to 0 at the cutoff; None: cut off there."""
    tail: bool = False
    """Whether the mean energy of Lennard-Jones pairs beyond the cutoff is added."""
    dispersion: bool = False
    """Whether −C₆/r⁶ of Lennard-Jones potentials counts beyond the cutoff, too, over all pairs and images (LJ-PME), C₆
    there the geometric mean of those of two types."""
    shift: float | None = None
    """With `dispersion`: the share of C₆/r⁶ at the cutoff that is on the mesh, where energies of pairs are shifted to
    end there, as OpenMM has them; None: they are not shifted."""
    accuracy: float = 5e-4
    """Target for the Ewald sums, as `madelung.numpy.particle_mesh_ewald` takes it; in float32 never below 1e-5."""
    alpha: float | None = None
    """Splitting parameter of the Ewald sums; with `mesh_dimensions` nothing is chosen, as graphs and `jit` need it."""
    mesh_dimensions: tuple[int, int, int] | None = None
    """The nodes of their meshes along the lattice vectors."""
    coulomb: float = COULOMB
    """e²/4πε₀ in the units of the field."""
    constraints: Any = field(default_factory=lambda: np.zeros((0, 2), np.int32))
    """(C, 2) int32, pairs whose distance is constrained, which have no energy."""

    def __call__(
        self,
        positions: Any,
        cell: Any = None,
        *,
        neighbors: Any = None,
        energy_reduction: Literal["atom", "system"] = "system",
        compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False,
    ) -> Any:
        """The energy, and what else is asked for.

        Args:
            positions: (N, 3), an array of NumPy, PyTorch or JAX, of float32 or float64.
            cell: (3, 3), rows are lattice vectors; of a field with a cutoff.
            neighbors: a list of `find_neighbors` or `NeighborList` for the cutoff or a longer one, of a field with a
                cutoff. None: found in this call, which graphs and `jit` cannot.
            energy_reduction: "system", (1,), or "atom", (N,).
            compute_forces: whether forces (N, 3), −∂E/∂r, follow.
            compute_virial: whether the virial (3, 3), −∂E/∂ε, follows, or with "atom" those of atoms, (N, 3, 3).

        Returns:
            The energy, or a tuple of it and the others.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name.
        """
        library, positions, cell = library_of(positions, cell)
        module, array = library.module, library.array
        own = self._in(array)
        if self.cutoff is None:
            for name, x in (("cell", cell), ("neighbors", neighbors)):
                if x is not None:
                    check.refuse(name, "None, as the field has no cutoff", check.described(x))
        elif cell is None:
            check.refuse("cell", "a cell, as the field has a cutoff", "None")
        else:
            check.fits("cell", cell, (3, 3))
        check.fits("positions", positions, (len(self.charges), 3))
        wanted = {
            "energy_reduction": energy_reduction,
            "compute_forces": compute_forces,
            "compute_virial": compute_virial,
        }
        if self.cutoff is not None and neighbors is None:
            neighbors = module.find_neighbors(positions, self.cutoff, cell)
        sums = [own._charged] if _is_there(self.charges) or not self.terms else []
        sums += [own._uncharged] if _is_there(self.epsilon) else []
        pairs = {"neighbors": neighbors}
        if self.cutoff is None and sums:
            pairs = {name: array(x) for name, x in _all_pairs(len(self.charges)).items()}
        found = [of(module, positions, cell, pairs, wanted) for of in sums]
        for terms in own.terms:
            function = getattr(module, terms.function)
            found.append(function(positions, terms.atoms, *terms.parameters.values(), cell, **wanted))
        if self.tail and cell is not None:
            found.append(own._beyond(positions, cell, array(self._shares()), array(np.eye(3)), wanted))
        return _added(found)

    def in_units(self, length: float, energy: float) -> ForceField:
        """Force field in other units: `length` of them are one of the present ones, and `energy` of the energies.

        From nm and kJ/mol to Å and eV: `field.in_units(10.0, kJ / mol)` with `kJ` and `mol` of `ase.units`.
        """
        check.positive("length", length)
        check.positive("energy", energy)

        def of_terms(terms: Terms) -> Terms:
            scales = {x: energy**a * length**b for x, (a, b) in _DIMENSIONS[terms.function].items()}
            return replace(terms, parameters={x: array * scales[x] for x, array in terms.parameters.items()})

        return replace(
            self,
            epsilon=self.epsilon * energy,
            sigma=self.sigma * length,
            terms=tuple(map(of_terms, self.terms)),
            cutoff=None if self.cutoff is None else self.cutoff * length,
            switch=None if self.switch is None else self.switch * length,
            alpha=None if self.alpha is None else self.alpha / length,
            coulomb=self.coulomb * energy * length,
        )

    def _in(self, array: Callable[[Any], Any]) -> ForceField:
        """The field with arrays of a library; those that it has already stay."""

        def of(x: Any) -> Any:
            return array(x) if isinstance(x, np.ndarray) else x

        names = ("charges", "types", "epsilon", "sigma", "excluded", "factors")
        terms = [
            replace(t, atoms=of(t.atoms), parameters={x: of(p) for x, p in t.parameters.items()}) for t in self.terms
        ]
        return replace(self, **{name: of(getattr(self, name)) for name in names}, terms=tuple(terms))

    def _charged(self, module: ModuleType, r: Any, cell: Any, pairs: dict[str, Any], wanted: dict[str, Any]) -> Any:
        """The Coulomb energy and what else is asked for."""
        given = {"prefactor": self.coulomb, **pairs, **wanted}
        if len(self.excluded):
            given["exclusions"] = self.excluded, self.factors
        if self.cutoff is None:
            return module.coulomb(r, self.charges, cutoff=_ALL, **given)
        return module.particle_mesh_ewald(r, self.charges, cell, cutoff=self.cutoff, **self._split(r), **given)

    def _split(self, r: Any) -> dict[str, Any]:
        """The parameters of the Ewald sums of some positions."""
        given = {"alpha": self.alpha, "mesh_dimensions": self.mesh_dimensions}
        if self.alpha is None or self.mesh_dimensions is None:
            given["accuracy"] = max(self.accuracy, 1e-5) if "float32" in str(r.dtype) else self.accuracy
        return given

    def _uncharged(self, module: ModuleType, r: Any, cell: Any, pairs: dict[str, Any], wanted: dict[str, Any]) -> Any:
        """The Lennard-Jones energy and what else is asked for."""
        reach = _ALL if self.cutoff is None else self.cutoff
        shared = {**pairs, **wanted, **({"exclusions": self.excluded} if len(self.excluded) else {})}
        given = {**({"end": "cut"} if self.switch is None else {"onset": self.switch}), **shared}
        found = [module.lennard_jones(r, self.types, self.epsilon, self.sigma, reach, cell, **given)]
        if self.dispersion:
            root = 2.0 * root_of(self.epsilon.diagonal()) * self.sigma.diagonal() ** 3
            c6 = root[:, None] * root
            far = {"cutoff": reach, "exponent": 6, "prefactor": -1.0, **self._split(r), **shared}
            found.append(module.particle_mesh_ewald(r, root[self.types], cell, **far))
            # What that sum has within the cutoff, too, is taken off, and with it a constant by which pairs end there.
            flat, at_end = 0.0 * c6, 0.0 * c6
            if self.shift is not None:
                s6 = (self.sigma / reach) ** 6
                at_end = 4.0 * self.epsilon * s6 * (s6 - 1.0) + self.shift * c6 / reach**6
            tables = (at_end, _FLAT + flat, c6)
            found.append(module.buckingham(r, self.types, *tables, reach, cell, prefactor=-1.0, **given))
        return _added(found)

    def _shares(self) -> np.ndarray:
        """The share of each two types among the pairs of all atoms, each with itself too, (K, K)."""
        counts = np.bincount(np.asarray(self.types), minlength=len(self.epsilon)).astype(np.float64)
        n = counts.sum()
        return (np.outer(counts, counts) + np.diag(counts)) / (n * (n + 1))

    def _beyond(self, r: Any, h: Any, shares: Any, unit: Any, wanted: dict[str, Any]) -> Any:
        """The mean energy of Lennard-Jones pairs beyond the cutoff, and below it of what a taper takes away: C/V, equal
        in all atoms, and its virial, C/V along each axis.

        C = 8πN² ⟨ε(σ¹²J₁₂ − σ⁶J₆)⟩ over the pairs of all atoms, each with itself too, with Jₙ = ∫ (1 − S) r²⁻ⁿ dr,
        where the taper S is 0 beyond the cutoff (Shirts et al., J. Phys. Chem. B 111, 13052 (2007)).
        """
        end, n = self.cutoff, len(self.charges)
        begin = end if self.switch is None else self.switch
        at, weights = nodes(begin, end)
        factor, _, _ = op_of_numpy("end_shapes", at, end, begin, end, 0.0)
        taken = weights * (1.0 - factor)
        beyond = {m: end ** (3 - m) / (m - 3) + float((taken * at ** (2 - m)).sum()) for m in (6, 12)}
        s6 = self.sigma**6
        mean = shares * self.epsilon * s6 * (beyond[12] * s6 - beyond[6])
        minors = [h[1, i] * h[2, j] - h[1, j] * h[2, i] for i, j in ((1, 2), (2, 0), (0, 1))]
        volume = abs(sum(h[0, k] * minor for k, minor in enumerate(minors)))
        energy = 8.0 * np.pi * n**2 * mean.sum() / volume
        of_atoms = energy / n + 0.0 * r[:, 0] if wanted["energy_reduction"] == "atom" else energy.reshape(1)
        results = [of_atoms]
        if wanted["compute_forces"]:
            results.append(0.0 * r)
        if wanted["compute_virial"]:
            of_each = (energy / n + 0.0 * r[:, 0]).reshape((n, 1, 1))
            results.append((of_each if wanted["compute_virial"] == "atom" else energy) * unit)
        return tuple(results) if len(results) > 1 else of_atoms


def from_openmm(system: Any, leave_out: Collection[str] = ()) -> ForceField:
    """The force field of a `System` of OpenMM, as its readers make it of files of AMBER, GROMACS and others.

    Args:
        system: an `openmm.System` with at most one `NonbondedForce` (without cutoff, or with Ewald's sum, PME or
            LJPME), and any number of harmonic bonds and angles, periodic and Ryckaert–Bellemans torsions; and what
            readers of files of CHARMM and GROMACS make beside them: a `CustomNonbondedForce` of tables of Lennard-Jones
            potentials or of products, a `CustomBondForce` of 1-4 pairs, a `CustomTorsionForce` of harmonic impropers.
            With a cutoff bonded atoms are nearest images, as in forces of OpenMM that use periodic boundary conditions;
            others take whole molecules, of which both are the same.
        leave_out: names of forces of the system, `["CMAPTorsionForce"]`, whose energies the field lacks.

    Returns:
        The field, in nm, kJ/mol and elementary charges. Constraints have no energy, and stand in it.

    Raises:
        TypeError, ValueError: For a force or a formula that there is no function for, with its name: none is dropped;
            for a charge of an exception that is no multiple of those of its atoms; for virtual sites; for periodic
            bonded forces without a cutoff.
    """
    try:
        import openmm
    except ImportError:
        raise ImportError("madelung.forcefield.from_openmm needs OpenMM: pip install openmm") from None
    if not isinstance(system, openmm.System):
        check.refuse("system", "an openmm.System", check.described(system), TypeError)
    if isinstance(leave_out, str):
        check.refuse("leave_out", "a list of names", check.described(leave_out), TypeError)
    there = {type(force).__name__ for force in system.getForces()}
    if unknown := set(leave_out) - there:
        check.refuse("leave_out", f"names among {', '.join(sorted(there))}", min(unknown))
    n = system.getNumParticles()
    for i in range(n):
        if system.isVirtualSite(i):
            check.refuse("system", "atoms without virtual sites", f"one at {i}")
    readers = {
        "HarmonicBondForce": _bonds,
        "HarmonicAngleForce": _angles,
        "PeriodicTorsionForce": _dihedrals,
        "RBTorsionForce": _ryckaert_bellemans,
        "CustomTorsionForce": _impropers,
        "CustomBondForce": _near_pairs,
    }
    terms, nonbonded, tables, periodic = [], [], [], []
    for force in system.getForces():
        name = type(force).__name__
        if name in leave_out or name in _WITHOUT_ENERGY:
            continue
        if name in ("NonbondedForce", "CustomNonbondedForce"):
            (nonbonded if name == "NonbondedForce" else tables).append(force)
        elif name in readers:
            terms += readers[name](force)
            periodic += [name] if force.usesPeriodicBoundaryConditions() else []
        else:
            check.refuse("system", "forces that there are functions for, or `leave_out` with their names", name)
    if len(nonbonded) > 1:
        check.refuse("system", "one NonbondedForce", f"{len(nonbonded)} of them")
    if len(tables) > len(nonbonded):
        check.refuse("system", "one CustomNonbondedForce at most, beside a NonbondedForce", f"{len(tables)} of them")
    pairs = [system.getConstraintParameters(k)[:2] for k in range(system.getNumConstraints())]
    constraints = np.array(pairs, np.int32).reshape(-1, 2)
    of_pairs = _pairs(nonbonded[0]) if nonbonded else _no_pairs(n)
    terms += of_pairs.pop("terms")
    if tables:
        of_pairs |= _of_tables(tables[0], of_pairs)
    if periodic and of_pairs["cutoff"] is None:
        check.refuse("system", "a cutoff where bonded forces are periodic", f"none, and a periodic {periodic[0]}")
    return ForceField(**of_pairs, terms=tuple(t for t in terms if len(t.atoms)), constraints=constraints)


def _number(x: Any) -> float:
    """A quantity in OpenMM's units: nm, kJ/mol, rad, elementary charges."""
    from openmm import unit

    return float(x.value_in_unit_system(unit.md_unit_system)) if unit.is_quantity(x) else float(x)


def _terms(function: str, width: int, rows: Iterable[tuple[Any, ...]]) -> Terms:
    """Terms from rows of atoms and parameters, in the order of the function."""
    rows = list(rows)
    atoms = np.array([row[:width] for row in rows], np.int32).reshape(-1, width)
    names = list(_DIMENSIONS[function])
    columns = np.array([[_number(x) for x in row[width:]] for row in rows]).reshape(-1, len(names)).T
    return Terms(function, atoms, {name: column.copy() for name, column in zip(names, columns)})


def _bonds(force: Any) -> list[Terms]:
    rows = (force.getBondParameters(k) for k in range(force.getNumBonds()))
    return [_terms("harmonic_bonds", 2, ((i, j, k, r) for i, j, r, k in rows))]


def _angles(force: Any) -> list[Terms]:
    rows = (force.getAngleParameters(k) for k in range(force.getNumAngles()))
    return [_terms("harmonic_angles", 3, ((*row[:3], row[4], row[3]) for row in rows))]


def _dihedrals(force: Any) -> list[Terms]:
    rows = (force.getTorsionParameters(k) for k in range(force.getNumTorsions()))
    return [_terms("periodic_dihedrals", 4, ((*row[:4], row[6], row[4], row[5]) for row in rows))]


def _ryckaert_bellemans(force: Any) -> list[Terms]:
    return [_terms("ryckaert_bellemans", 4, (force.getTorsionParameters(k) for k in range(force.getNumTorsions())))]


def _formula(force: Any, *known: str) -> str:
    """The formula of a force, which is a known one."""
    found = "".join(str(force.getEnergyFunction()).split()).rstrip(";")
    if found not in known:
        expected = f"a {type(force).__name__} with the energy {' or '.join(known)}, or `leave_out` with its name"
        check.refuse("system", expected, found)
    return found


def _columns(force: Any, kind: str, rows: list[Any], *names: str) -> list[tuple[Any, ...]]:
    """Rows of atoms and parameters of a force with a formula, its parameters in the order of their names."""
    count = getattr(force, f"getNumPer{kind}Parameters")()
    at = {getattr(force, f"getPer{kind}ParameterName")(k): k for k in range(count)}
    return [(*row[:-1], *[row[-1][at[name]] for name in names]) for row in rows]


def _impropers(force: Any) -> list[Terms]:
    formula = _formula(force, _IMPROPER, _WRAPPED)
    rows = [force.getTorsionParameters(k) for k in range(force.getNumTorsions())]
    found = [(*of, 2.0 * k, rest) for *of, k, rest in _columns(force, "Torsion", rows, "k", "theta0")]
    # Without a turn by 2π the formula is periodic around 0 alone.
    if formula == _IMPROPER and (turned := [row for row in found if row[-1] != 0.0]):
        check.refuse("system", f"{_IMPROPER} with theta0 = 0, as it is not periodic", f"{turned[0][-1]}")
    return [_terms("harmonic_impropers", 4, found)]


def _near_pairs(force: Any) -> list[Terms]:
    formula = _formula(force, _NEAR, _NEAR_POWERS)
    rows = [force.getBondParameters(k) for k in range(force.getNumBonds())]
    if formula == _NEAR:
        return [_terms("lennard_jones_pairs", 2, _columns(force, "Bond", rows, "epsilon", "sigma"))]
    *atoms, a, b = np.array(_columns(force, "Bond", rows, "A", "C")).reshape(-1, 4).T
    pairs = np.stack(atoms, axis=1).astype(int).tolist()
    return [_terms("lennard_jones_pairs", 2, [(*of, *x) for of, *x in zip(pairs, *_of_powers(a, b))])]


def _of_powers(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ε and σ of a/r¹² − b/r⁶."""
    has_both = (a != 0.0) & (b != 0.0)
    if ((a != 0.0) ^ (b != 0.0)).any():
        check.refuse("system", "pairs with both terms of Lennard-Jones' potential, or none", "some with one")
    over, under = np.where(has_both, a, 1.0), np.where(has_both, b, 1.0)
    return np.where(has_both, b**2 / (4.0 * over), 0.0), np.where(has_both, (over / under) ** (1 / 6), 0.0)


def _of_tables(force: Any, of_pairs: dict[str, Any]) -> dict[str, Any]:
    """The fields that a `CustomNonbondedForce` gives in the place of those of the `NonbondedForce`."""
    formula = _formula(force, _TABLES, _ROOTS, _PRODUCTS)
    if of_pairs["epsilon"].any() or of_pairs.get("dispersion"):
        check.refuse("system", "Lennard-Jones potentials in one force", "them in a CustomNonbondedForce and another")
    if force.getNumInteractionGroups():
        check.refuse("system", "a CustomNonbondedForce of all pairs", "one with interaction groups")
    cutoff = None if force.getNonbondedMethod() == force.NoCutoff else _number(force.getCutoffDistance())
    if cutoff != of_pairs["cutoff"]:
        check.refuse("system", f"a CustomNonbondedForce with the cutoff {of_pairs['cutoff']}", str(cutoff))
    excluded = [tuple(sorted(force.getExclusionParticles(k))) for k in range(force.getNumExclusions())]
    if {*excluded} != {tuple(sorted(pair)) for pair in of_pairs["excluded"].tolist()}:
        check.refuse("system", "a CustomNonbondedForce that excludes the pairs of the NonbondedForce", "other pairs")
    rows = [(force.getParticleParameters(i),) for i in range(force.getNumParticles())]
    if formula == _PRODUCTS:
        found = np.array(_columns(force, "Particle", rows, "A", "C"))
        kinds, types = np.unique(found.reshape(-1, 2), axis=0, return_inverse=True)
        a, b = (np.outer(x, x) for x in kinds.T)
    else:
        types = np.array([of for (of,) in _columns(force, "Particle", rows, "type")])
        named = {force.getTabulatedFunctionName(k): force.getTabulatedFunction(k) for k in range(2)}
        k, _, values = named["acoef"].getFunctionParameters()
        a, b = (np.reshape(x, (k, k)) for x in (values, named["bcoef"].getFunctionParameters()[2]))
        a = a**2 if formula == _ROOTS else a
    epsilon, sigma = _of_powers(a, b)
    has_switch = cutoff is not None and force.getUseSwitchingFunction()
    return {
        "types": types.reshape(-1).astype(np.int32),
        "epsilon": epsilon,
        "sigma": sigma,
        "switch": _number(force.getSwitchingDistance()) if has_switch else None,
        "tail": cutoff is not None and force.getUseLongRangeCorrection(),
    }


def _no_pairs(n: int) -> dict[str, Any]:
    """Fields of atoms without charges and Lennard-Jones potentials."""
    table = np.zeros((1, 1))
    return {
        "charges": np.zeros(n),
        "types": np.zeros(n, np.int32),
        "epsilon": table,
        "sigma": table,
        "excluded": np.zeros((0, 2), np.int32),
        "factors": np.zeros(0),
        "terms": [],
        "cutoff": None,
    }


def _pairs(force: Any) -> dict[str, Any]:
    """The fields that a `NonbondedForce` gives."""
    name = {force.NoCutoff: "NoCutoff", force.CutoffNonPeriodic: "CutoffNonPeriodic", force.LJPME: "LJPME"}
    name |= {force.CutoffPeriodic: "CutoffPeriodic", force.Ewald: "Ewald", force.PME: "PME"}
    method = name[force.getNonbondedMethod()]
    if method not in ("NoCutoff", "Ewald", "PME", "LJPME"):
        check.refuse("system", "a NonbondedForce of NoCutoff, Ewald, PME or LJPME", method)
    if force.getNumParticleParameterOffsets() or force.getNumExceptionParameterOffsets():
        check.refuse("system", "a NonbondedForce without parameter offsets", "one with them")
    n = force.getNumParticles()
    particles = [[_number(x) for x in force.getParticleParameters(i)] for i in range(n)]
    charges, sigma, epsilon = np.array(particles).reshape(n, 3).T
    # Atoms without a depth have no length.
    kinds, types = np.unique(np.stack([epsilon, np.where(epsilon == 0.0, 0.0, sigma)]), axis=1, return_inverse=True)
    depths, lengths = kinds
    rows = [force.getExceptionParameters(k) for k in range(force.getNumExceptions())]
    excluded = np.array([row[:2] for row in rows], np.int32).reshape(-1, 2)
    numbers = np.array([[_number(x) for x in row[2:]] for row in rows]).reshape(-1, 3)
    products = charges[excluded].prod(axis=1)
    wrong = np.flatnonzero((products == 0.0) & (numbers[:, 0] != 0.0))
    if len(wrong):
        pair = excluded[wrong[0]].tolist()
        check.refuse("system", "exceptions whose charges are multiples of those of the atoms", f"not those of {pair}")
    near = numbers[:, 2] != 0.0
    of_near = [(*pair, depth, length) for pair, (_, length, depth) in zip(excluded[near], numbers[near])]
    has_cutoff = method != "NoCutoff"
    switch = _number(force.getSwitchingDistance()) if has_cutoff and force.getUseSwitchingFunction() else None
    of_dispersion: dict[str, Any] = {}
    if method == "LJPME":
        if switch is not None:
            check.refuse("system", "a NonbondedForce of LJPME without a switching function", "one with it")
        of_dispersion = {"dispersion": True, "tail": False, "shift": _shift(force)}
    return {
        "charges": charges,
        "types": types.reshape(-1).astype(np.int32),
        "epsilon": np.sqrt(np.outer(depths, depths)),
        "sigma": 0.5 * np.add.outer(lengths, lengths),
        "excluded": excluded,
        "factors": numbers[:, 0] / np.where(products == 0.0, 1.0, products),
        "terms": [_terms("lennard_jones_pairs", 2, of_near)],
        "cutoff": _number(force.getCutoffDistance()) if has_cutoff else None,
        "switch": switch,
        "tail": has_cutoff and force.getUseDispersionCorrection(),
        "accuracy": force.getEwaldErrorTolerance(),
        **_splitting(force),
        **of_dispersion,
    }


def _shift(force: Any) -> float:
    """The share of C₆/r⁶ that OpenMM has on the mesh at the cutoff."""
    cutoff, alpha = _number(force.getCutoffDistance()), _number(force.getLJPMEParameters()[0])
    x2 = -np.log(2.0 * force.getEwaldErrorTolerance()) if alpha == 0.0 else (alpha * cutoff) ** 2
    return float(1.0 - np.exp(-x2) * (1.0 + x2 + 0.5 * x2**2))


def _splitting(force: Any) -> dict[str, Any]:
    """The parameters of PME, where they were set."""
    alpha, *nodes = force.getPMEParameters()
    return {"alpha": _number(alpha), "mesh_dimensions": tuple(nodes)} if _number(alpha) and all(nodes) else {}
