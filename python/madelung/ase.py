"""An ASE calculator (Ewald sums of point charges, with pair potentials beside them, in eV and Å), and neighbour lists.

```python
from ase.build import bulk
from madelung.ase import Madelung

atoms = bulk("NaCl", "rocksalt", a=5.64)
atoms.calc = Madelung({"Na": 1, "Cl": -1}, accuracy=1e-8)
atoms.get_potential_energy()
```
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from madelung import _arguments as check
from madelung import numpy as _numpy
from madelung._functions.potentials import TABLES
from madelung._sums import METHODS, Method, Parameters, chosen, summed
from madelung.numpy import EwaldParameters
from madelung.units import EV_ANGSTROM

try:
    from ase import Atoms
    from ase.calculators.calculator import Calculator, all_changes
    from ase.data import atomic_numbers, chemical_symbols
except ImportError:
    raise ImportError("madelung.ase needs ASE 3.23 or newer: pip install 'madelung[ase]'") from None

from madelung._ase_models import (
    D3Calculator,
    ForceFieldCalculator,
    SkinList,
    checked_skin,
    stresses_of,
    virial_of,
)

__all__ = ["D3Calculator", "ForceFieldCalculator", "Madelung", "neighbor_list"]

Floats = npt.NDArray[np.float64]
Potentials = dict[str, dict[str, dict[str, float]]]

# Largest strain, as the norm of its matrix, under which an Ewald sum keeps its parameters: its waves and its mesh are
# those that the cell needs when it has grown by as much.
_SAME_SHAPE = 0.1

# Radius of a search that finds no pair.
_SHORTEST = 1e-12

# Radius of a search, or those of pairs of elements, or half of one for each atom.
Reach = float | dict[tuple[str | int, str | int], float] | npt.ArrayLike


def neighbor_list(quantities: str, atoms: Atoms, cutoff: Reach, self_interaction: bool = False) -> Any:
    """The pairs of atoms and images closer than a cutoff, with the arguments and results of ASE's function.

    Args:
        quantities: letters of the arrays to return, in that order: i and j, the indices of the atoms of each pair (P,);
            S, the image of j (P, 3) int64; D, the vector r_j − r_i + S · cell (P, 3) in Å; d, its length (P,).
        atoms: their cell and periodic axes count; axes that are not periodic need no lattice vector.
        cutoff: in Å. For all pairs; or by pairs of elements, {("Na", "Cl"): 3.2, …} in either order and by symbols or
            atomic numbers, where other pairs are left out; or (N,) radii of atoms, whose sum counts.
        self_interaction: whether each atom is a neighbour of itself too, if there is a cutoff for its kind.

    Returns:
        The arrays, or one array for one letter. Every pair is there from both sides, ordered by i, then j, then S.

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name.
    """
    if not isinstance(quantities, str) or not quantities or not set(quantities) <= set("ijSDd"):
        check.refuse("quantities", "letters of i, j, S, D and d", check.described(quantities))
    if not isinstance(atoms, Atoms):
        check.refuse("atoms", "ASE's Atoms", check.described(atoms), TypeError)
    check.flag("self_interaction", self_interaction)
    missing = atoms.pbc & ~atoms.cell.array.any(axis=1)
    if missing.any():
        check.refuse("atoms.cell", "a lattice vector along each periodic axis", f"none along axis {missing.argmax()}")
    largest, limits = _limits(atoms, cutoff)
    measured = {
        "return_distances": limits is not None or "d" in quantities or self_interaction,
        "return_vectors": "D" in quantities,
    }
    cell = atoms.cell.complete().array if atoms.pbc.any() else None
    of_cell = {"cell": cell, "pbc": None if cell is None else atoms.pbc}
    pairs, _, shifts, *more = _numpy.neighbor_list(atoms.positions, largest, **of_cell, **measured)
    i, j = pairs.astype(np.intp)
    found = {"i": i, "j": j, "S": shifts.astype(np.int64)}
    found |= dict(zip([letter for letter, flag in zip("dD", measured.values()) if flag], more))
    if self_interaction:
        own = np.arange(len(atoms))
        zeros = {letter: np.zeros((len(own), *x.shape[1:]), x.dtype) for letter, x in found.items()}
        found = {letter: np.concatenate([x, (zeros | {"i": own, "j": own})[letter]]) for letter, x in found.items()}
        order = np.lexsort([*found["S"].T[::-1], found["j"], found["i"]])
        found = {letter: x[order] for letter, x in found.items()}
    if limits is not None:
        within = found["d"] < limits(found["i"], found["j"])
        found = {letter: x[within] for letter, x in found.items()}
    results = tuple(found[letter] for letter in quantities)
    return results[0] if len(results) == 1 else results


def _limits(atoms: Atoms, cutoff: Reach) -> tuple[float, Callable[[Any, Any], Floats] | None]:
    """The largest cutoff, and that of each pair where they differ."""
    if isinstance(cutoff, dict):
        if not cutoff:
            check.refuse("cutoff", "at least one pair of elements", "none")
        of = np.zeros((len(atomic_numbers), len(atomic_numbers)))
        for pair, given in cutoff.items():
            if not isinstance(pair, tuple) or len(pair) != 2:
                check.refuse("cutoff", "pairs of elements as keys", check.described(pair))
            (a, b), reach = map(_number_of, pair), check.positive(f"cutoff[{pair!r}]", given)
            if of[a, b] not in (0.0, reach):
                check.refuse(f"cutoff[{pair!r}]", f"{of[a, b]:g}, as for the same pair of elements before", reach)
            of[a, b] = of[b, a] = reach
        numbers = atoms.numbers
        there = np.unique(numbers)
        return of[np.ix_(there, there)].max(initial=0.0) or _SHORTEST, lambda i, j: of[numbers[i], numbers[j]]
    if np.ndim(cutoff) == 0:
        return check.positive("cutoff", cutoff), None
    radii = np.asarray(check.reals("cutoff", cutoff, (len(atoms),)), np.float64)
    if not (np.isfinite(radii).all() and (radii >= 0.0).all()):
        check.refuse("cutoff", "radii from 0 up", radii[~(radii >= 0.0) | ~np.isfinite(radii)][0])
    return 2.0 * radii.max(initial=0.0) or _SHORTEST, lambda i, j: radii[i] + radii[j]


def _number_of(element: Any) -> int:
    """The atomic number of a symbol or of itself."""
    if isinstance(element, str) and element in atomic_numbers:
        return int(atomic_numbers[element])
    if isinstance(element, (int, np.integer)) and 0 <= element < len(atomic_numbers):
        return int(element)
    return check.refuse("cutoff", "symbols or atomic numbers of elements", check.described(element))


class Madelung(Calculator):
    """The energy of point charges, by Ewald's sum or over all pairs, and of pair potentials, with its derivatives.

    Properties, with lengths in Å: `energy` and `free_energy` (the same number) and `energies` (N,) in eV, a pair's
    energy split half and half; `forces` (N, 3) in eV/Å, −∂E/∂r; `stress` (6,) in eV/Å³, +(1/V) ∂E/∂ε (tensile
    positive) in ASE's order xx yy zz yz xz xy; `stresses` (N, 6), those of the energies of atoms, which add up to it;
    `charges` (N,), those that were used, in elementary charges. A charged
    cell has a uniform background.

    The cell may have any shape. Atoms that are periodic along two axes are a slab, whose cell has a gap along the
    third, and get the correction for slabs. Those with one axis, or none, are summed over all pairs, exactly, with all
    images along the axis, where the cell needs no other vector. There is no stress without a periodic axis, or without
    a volume of the cell. `set` takes the same arguments, and discards the results.

    Args:
        charges: a dict with the charge of each element, {"Na": 1, "Cl": -1}, or an array (N,). None: the atoms'
            initial charges, `atoms.get_initial_charges()`, which they must have.
        accuracy: target for the RMS force error in units of q²_rms/(V/N)^(2/3) times e²/4πε₀. What is left open of
            `alpha`, `cutoff` and `k_cutoff` is chosen for it at the first calculation, and again only when the number
            of atoms changes or the cell by more than a tenth: choosing anew moves the energy by the error of the sum.
            Waves and mesh are kept as long, as if they were drawn on the cell: those that it needs at any strain up to
            a tenth. What is given and cannot meet it is an error; with None it is taken as it is.
        alpha: splitting parameter, in 1/Å.
        cutoff: radius of the real-space sum, in Å. It may exceed the cell.
        k_cutoff: radius of the reciprocal sum, in rad/Å; with it the sum goes over waves.
        method: "ewald", the sum over waves, or "pme", the one on a mesh, both to the accuracy; "direct", over all
            pairs, for atoms with at most one periodic axis. None: the one that costs less, which is the mesh from about
            a thousand atoms on.
        potentials: pair potentials beside the charges, by their names in `madelung.numpy`, with the parameters of each
            pair of elements, in eV and Å: {"lennard_jones": {"Na-Cl": {"epsilon": 0.01, "sigma": 3.1}, …}}. Every pair
            of the atoms' elements is given once, in either order.
        potential_cutoff: radius of the sums of potentials, in Å, tapered from nine tenths of it on. It is a parameter
            of the model, as theirs are, and given with them.
        external_field: uniform electric field (3,), in V/Å; −Σ qᵢ rᵢ·field is part of the energy, of the atoms where
            they are, which dynamics does not wrap.
        exclusions: pairs (P, 2) of atoms that all sums leave out, each once; or a tuple of pairs and factors (P,),
            or one for all, by which their energies are multiplied instead, or of pairs, factors (or None) and images
            (P, 3), the nearest by default.
        skin: in Å. Neighbours within cutoff + skin are kept until an atom has moved by more than skin/2, or the number
            of atoms has changed. A strain of the cell takes its part of the skin, and atoms are then measured from
            where it has moved them to. Pairs beyond the cutoff do not count, so results depend on it by rounding alone.
            At 0 they are found anew for each calculation.

    Raises:
        TypeError, ValueError: here or at a calculation, with the name of the argument.
    """

    name = "madelung"
    implemented_properties: ClassVar = [
        "energy", "free_energy", "energies", "forces", "stress", "stresses", "charges",
    ]  # fmt: skip
    default_parameters: ClassVar = {
        "charges": None,
        "accuracy": 1e-6,
        "alpha": None,
        "cutoff": None,
        "k_cutoff": None,
        "method": None,
        "potentials": None,
        "potential_cutoff": None,
        "external_field": None,
        "exclusions": None,
        "skin": 0.5,
    }
    discard_results_on_any_change = True

    def __init__(
        self,
        charges: dict[str, float] | npt.ArrayLike | None = None,
        *,
        accuracy: float | None = 1e-6,
        alpha: float | None = None,
        cutoff: float | None = None,
        k_cutoff: float | None = None,
        method: Method | None = None,
        potentials: Potentials | None = None,
        potential_cutoff: float | None = None,
        external_field: npt.ArrayLike | None = None,
        exclusions: npt.ArrayLike | tuple[Any, ...] | None = None,
        skin: float = 0.5,
    ) -> None:
        """The parameters are those of the class."""
        self._split: _Split | None = None
        self._pairs: SkinList | None = None
        super().__init__(
            charges=charges,
            accuracy=accuracy,
            alpha=alpha,
            cutoff=cutoff,
            k_cutoff=k_cutoff,
            method=method,
            potentials=potentials,
            potential_cutoff=potential_cutoff,
            external_field=external_field,
            exclusions=exclusions,
            skin=skin,
        )

    @property
    def ewald_parameters(self) -> Parameters | None:
        """Parameters of the last calculation, `EwaldParameters` or those of a mesh; None before the first."""
        return None if self._split is None else self._split.parameters

    @property
    def list_builds(self) -> int:
        """The number of neighbour lists built for the present parameters."""
        return 0 if self._pairs is None else self._pairs.builds

    def set(self, **kwargs: Any) -> dict[str, Any]:
        """Changes parameters, by their names; gives those that are new."""
        checked = {name: _checked(name, value) for name, value in kwargs.items()}
        of = self.parameters | checked
        if of["potentials"] and of["potential_cutoff"] is None:
            check.refuse("potential_cutoff", "the radius of the potentials, which is a parameter of the model", "None")
        changed = super().set(**checked)
        if changed:
            self._split = self._pairs = None
            # The atoms' own charges count only where no others were given.
            given = self.parameters["charges"] is not None
            self.ignored_changes = {"initial_magmoms", "initial_charges"} if given else {"initial_magmoms"}
        return changed

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: list[str] | tuple[str, ...] = ("energy",),
        system_changes: list[str] = all_changes,
    ) -> None:
        """All properties at once: forces and stress come with the energy for little more."""
        super().calculate(atoms, properties, system_changes)
        atoms = self.atoms
        pbc, is_open = atoms.pbc, not atoms.pbc.any()
        positions, cell = atoms.positions, None if is_open else atoms.cell.array
        if np.linalg.matrix_rank(atoms.cell.array[pbc]) < pbc.sum():
            expected = {1: "a lattice vector along the periodic axis", 2: "two lattice vectors that span a plane"}
            expected = expected.get(pbc.sum(), "three lattice vectors that span a volume")
            check.refuse("atoms.cell", expected, atoms.cell.array.tolist())
        if pbc.sum() == 1:
            cell = atoms.cell.complete().array
        charges = _charges_of(atoms, self.parameters["charges"])

        if self._split is None or not self._split.suits(positions, cell, pbc):
            given = {name: self.parameters[name] for name in ("method", "accuracy", "alpha", "cutoff", "k_cutoff")}
            system = (positions, charges, cell)
            self._split = _Split(chosen(system, pbc, **given), system, pbc)
            self._pairs = self._skin_list(self._split.parameters)
        split, cell = self._split.parameters, self._split.placed(cell)
        system = (positions, charges, cell)
        axes = None if is_open or pbc.all() else pbc
        neighbors = None if self._pairs is None else self._pairs.of(positions, cell, axes)
        wanted: dict[str, Any] = {"compute_forces": True, "compute_virial": virial_of(properties)}
        if (left_out := self.parameters["exclusions"]) is not None:
            wanted["exclusions"] = tuple(left_out.get(name) for name in ("pairs", "factors", "images"))
        of_charges = {"prefactor": EV_ANGSTROM, **wanted, **self._split.waves}
        if split is not None:
            of_charges["neighbors"] = neighbors
        energies, forces, virial = summed(system, pbc, split, **of_charges)
        for name, given in (self.parameters["potentials"] or {}).items():
            types, tables = _tables(atoms, name, given)
            reach, of_pairs = self.parameters["potential_cutoff"], {**wanted, "neighbors": neighbors, "pbc": axes}
            more = getattr(_numpy, name)(positions, types, *tables, reach, cell, **of_pairs)
            energies, forces, virial = (x + y for x, y in zip((energies, forces, virial), more))
        if (field := self.parameters["external_field"]) is not None:
            in_field = {name: x for name, x in wanted.items() if name != "exclusions"}
            more = _numpy.uniform_field(positions, charges, field, cell, **in_field)
            energies, forces, virial = (x + np.reshape(y, x.shape) for x, y in zip((energies, forces, virial), more))
        energy = float(energies.sum())
        self.results = {
            "energy": energy,
            "free_energy": energy,
            "energies": energies,
            "forces": forces,
            "charges": charges,
        }
        if not is_open and atoms.cell.rank == 3:
            self.results |= stresses_of(virial, atoms.get_volume())

    def _skin_list(self, split: Parameters) -> SkinList | None:
        """The list of a sum and of potentials; None where nothing needs one."""
        reaches = [] if split is None else [split.cutoff]
        if self.parameters["potentials"]:
            reaches.append(self.parameters["potential_cutoff"])
        return SkinList(max(reaches), self.parameters["skin"]) if reaches else None


class _Split:
    """Parameters of a sum, with its waves, and the system that they were chosen for."""

    def __init__(self, parameters: Parameters, system: tuple[Floats, Floats, Floats], pbc: Floats) -> None:
        positions, charges, cell = system
        self._of = len(positions), tuple(pbc)
        self.waves: dict[str, Any] = {}
        grown = 1.0 + _SAME_SHAPE
        # The open axis of a slab, its height, and how thick it may become in that.
        self._open, self._height, self._thickest = int(np.argmin(pbc)), 0.0, np.inf
        if parameters is not None and not pbc.all():
            self._height = grown * parameters.slab_height
            cell = self.placed(cell)
            self._thickest = self._thickness(positions, cell) + _SAME_SHAPE * parameters.slab_height
            parameters = replace(parameters, slab_height=0.0)
        self._inverse = None if parameters is None else np.linalg.inv(cell)
        if isinstance(parameters, EwaldParameters):
            self.waves["miller_indices"], _ = _numpy.generate_miller_indices(cell, grown * parameters.k_cutoff)
        elif parameters is not None:
            given = {"alpha": parameters.alpha, "spline_order": parameters.spline_order}
            apart = float((np.linalg.norm(cell, axis=1) / parameters.mesh_dimensions).min())
            of = grown * positions, charges, grown * cell
            parameters = _numpy.estimate_pme_parameters(*of, None, parameters.cutoff, **given, mesh_spacing=apart)
        self.parameters = parameters

    def placed(self, cell: Floats) -> Floats:
        """The cell of a call: that of a slab has a height of its own along the normal."""
        if not self._height:
            return cell
        normal = np.cross(cell[(self._open + 1) % 3], cell[(self._open + 2) % 3])
        found = cell.copy()
        found[self._open] = normal * (self._height / np.linalg.norm(normal))
        return found

    def _thickness(self, positions: Floats, cell: Floats) -> float:
        return float(np.ptp(positions @ cell[self._open])) / self._height if len(positions) else 0.0

    def suits(self, positions: Floats, cell: Floats | None, pbc: Floats) -> bool:
        """Whether the parameters serve these atoms, too."""
        if self._of != (len(positions), tuple(pbc)):
            return False
        if self._inverse is None or cell is None:
            return True
        cell = self.placed(cell)
        if self._height and self._thickness(positions, cell) > self._thickest:
            return False
        return bool(np.linalg.norm(self._inverse @ cell - np.eye(3), 2) <= _SAME_SHAPE)


def _checked(name: str, value: Any) -> Any:
    if name == "external_field":
        return None if value is None else np.asarray(check.reals(name, value, (3,)), np.float64)
    if name == "charges":
        return _checked_charges(value)
    if name == "skin":
        return checked_skin(value)
    if name == "potentials":
        return _checked_potentials(value)
    if name == "exclusions":
        return _checked_exclusions(value)
    if name == "method" and value is not None:
        return check.word("method", value, METHODS)
    if name not in Madelung.default_parameters:
        raise TypeError(f"`{name}`: expected one of the parameters {', '.join(Madelung.default_parameters)}")
    if value is None:
        return None
    return check.positive(name, value)


def _checked_charges(charges: Any) -> dict[str, float] | Floats | None:
    if charges is None:
        return None
    if isinstance(charges, dict):
        for symbol in charges:
            if symbol not in atomic_numbers:
                check.refuse("charges", "chemical symbols as keys", check.described(symbol))
        return {symbol: check.number(f"charges[{symbol!r}]", charge) for symbol, charge in charges.items()}
    # A copy: later changes of the caller's array do not change the calculator.
    return np.array(check.reals("charges", charges, ("N",)), dtype=np.float64)


def _checked_exclusions(exclusions: Any) -> dict[str, Any] | None:
    """Pairs, and factors and images where they are given, by their names: ASE compares no tuples of arrays."""
    if exclusions is None:
        return None
    names = ("pairs", "factors", "images")
    if not isinstance(exclusions, dict):
        given = exclusions if isinstance(exclusions, tuple) else (exclusions,)
        if len(given) > len(names):
            check.refuse("exclusions", "pairs, or a tuple of pairs, factors and images", f"a tuple of {len(given)}")
        exclusions = dict(zip(names, given))
    elif not set(exclusions) <= set(names):
        check.refuse("exclusions", f"a dict with keys among {', '.join(names)}", check.described(exclusions))
    found = {name: np.array(x) for name, x in exclusions.items() if x is not None}
    pairs = check.integers("exclusions", found.get("pairs"), ("P", 2))
    if "factors" in found and found["factors"].ndim:
        check.fits("exclusions", check.reals("exclusions", 1.0 * found["factors"], ("P",)), (len(pairs),))
    if "images" in found:
        check.fits("exclusions", check.integers("exclusions", found["images"], ("P", 3)), (len(pairs), 3))
    return found | {"pairs": pairs}


def _checked_potentials(potentials: Any) -> Potentials | None:
    if potentials is None:
        return None
    if not isinstance(potentials, dict) or not set(potentials) <= set(TABLES):
        check.refuse("potentials", f"a dict with keys among {', '.join(TABLES)}", check.described(potentials))
    for name, of_pairs in potentials.items():
        where = f"potentials[{name!r}]"
        if not isinstance(of_pairs, dict):
            check.refuse(where, "a dict from pairs of elements to parameters", check.described(of_pairs))
        for pair, given in of_pairs.items():
            elements = pair.split("-") if isinstance(pair, str) else ()
            if len(elements) != 2 or not set(elements) <= set(atomic_numbers):
                check.refuse(where, 'two chemical symbols as each key, such as "Na-Cl"', check.described(pair))
            if not isinstance(given, dict) or set(given) != set(TABLES[name]):
                check.refuse(f"{where}[{pair!r}]", f"the parameters {', '.join(TABLES[name])}", check.described(given))
            for parameter, x in given.items():
                check.number(f"{where}[{pair!r}][{parameter!r}]", x)
            if elements[0] != elements[1] and "-".join(elements[::-1]) in of_pairs:
                check.refuse(where, f"{pair} once", "it in both orders")
    return copy.deepcopy(potentials)


def _tables(atoms: Atoms, name: str, given: dict[str, dict[str, float]]) -> tuple[Any, list[Floats]]:
    """The type of each atom, and the tables of a potential's parameters."""
    elements = sorted(_elements(atoms))
    type_of = np.zeros(len(chemical_symbols), np.int32)
    type_of[[atomic_numbers[element] for element in elements]] = np.arange(len(elements))
    tables = np.zeros((len(TABLES[name]), len(elements), len(elements)))
    for i, a in enumerate(elements):
        for j, b in enumerate(elements):
            of_pair = given.get(f"{a}-{b}", given.get(f"{b}-{a}"))
            if of_pair is None:
                check.refuse(f"potentials[{name!r}]", "parameters for each pair of elements", f"none for {a}-{b}")
            tables[:, i, j] = [of_pair[parameter] for parameter in TABLES[name]]
    return type_of[atoms.numbers], list(tables)


def _charges_of(atoms: Atoms, charges: dict[str, float] | Floats | None) -> Floats:
    if charges is None:
        if not atoms.has("initial_charges"):
            check.refuse("charges", "a dict or an array, as the atoms have no initial charges", "None")
        return atoms.get_initial_charges().astype(np.float64)
    if isinstance(charges, dict):
        missing = sorted(set(_elements(atoms)) - set(charges))
        if missing:
            check.refuse("charges", "one for each element of the atoms", f"none for {', '.join(missing)}")
        charge_of = np.zeros(len(chemical_symbols))
        charge_of[[atomic_numbers[element] for element in charges]] = list(charges.values())
        return charge_of[atoms.numbers]
    check.fits("charges", charges, (len(atoms),))
    return charges.copy()


def _elements(atoms: Atoms) -> list[str]:
    """The symbols of the elements that there are. Symbols of ten thousand atoms would take as long as their list."""
    return [chemical_symbols[number] for number in np.flatnonzero(np.bincount(atoms.numbers))]
