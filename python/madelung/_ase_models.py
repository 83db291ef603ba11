"""ASE calculators of models that have all their parameters, and the neighbours that calculators keep."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from ase import Atoms, units
from ase.calculators.calculator import Calculator, all_changes
from ase.stress import full_3x3_to_voigt_6_stress

from madelung import _arguments as check
from madelung.forcefield import ForceField
from madelung.numpy import NeighborList, Neighbors

if TYPE_CHECKING:
    from madelung.d3 import D3

Floats = npt.NDArray[np.float64]


class SkinList:
    """Neighbours within cutoff + skin, kept as long as no pair within the cutoff is missing."""

    def __init__(self, cutoff: float, skin: float) -> None:
        self.builds = 0
        self._search = NeighborList(cutoff, skin)
        self._neighbors: Neighbors | None = None
        # The number of atoms of the list, and their periodic axes.
        self._made_for: tuple[int, bool, tuple[bool, ...]] | None = None

    def of(self, positions: Floats, cell: Floats | None, pbc: Any) -> Neighbors:
        """The neighbours of these positions; of a cell without axes all of them are periodic."""
        known, of = self._neighbors, (len(positions), cell is None, () if pbc is None else tuple(map(bool, pbc)))
        if known is None or self._made_for != of or not self._serves(known, positions, cell):
            known = self._neighbors = self._search.allocate(positions, cell, pbc)
            self._made_for = of
            self.builds += 1
        # Atoms were measured here, with the strain of the cell.
        return replace(known, positions=None, cell=known.cell if cell is None else cell[None])

    def _serves(self, known: Neighbors, positions: Floats, cell: Floats | None) -> bool:
        """Whether no pair has come within the cutoff from beyond cutoff and skin. A vector is that of the list,
        strained as the cell is, and what both of its atoms have moved besides."""
        cutoff, skin = self._search.cutoff, self._search.skin
        strain = np.eye(3) if cell is None else np.linalg.solve(known.cell[0], cell)
        moved = np.sqrt(((positions - known.positions @ strain) ** 2).sum(1).max(initial=0.0))
        return skin > 0.0 and bool((cutoff + 2.0 * moved) * np.linalg.norm(np.linalg.inv(strain), 2) <= cutoff + skin)


def checked_skin(value: Any) -> float:
    """The skin of a list, checked."""
    skin = check.number("skin", value)
    if skin < 0.0:
        check.refuse("skin", "a length of zero or more", skin)
    return skin


def virial_of(properties: list[str] | tuple[str, ...]) -> bool | str:
    """The virial that a calculation of properties asks for: that of each atom for their stresses."""
    return "atom" if "stresses" in properties else True


def stresses_of(virial: Any, volume: float) -> dict[str, Any]:
    """The stress from a virial, or from those of atoms their stresses too, which add up to it."""
    if virial.ndim == 2:
        return {"stress": full_3x3_to_voigt_6_stress(-virial / volume)}
    # xx yy zz yz xz xy.
    of_atoms = -0.5 * (virial + virial.swapaxes(1, 2))[:, (0, 1, 2, 1, 0, 0), (0, 1, 2, 2, 2, 1)] / volume
    return {"stress": of_atoms.sum(0), "stresses": of_atoms}


class _OfModel(Calculator):
    """Calculator of a model that has all its parameters: its energy, with its derivatives, at once."""

    name = "madelung"
    implemented_properties: ClassVar = ["energy", "free_energy", "energies", "forces", "stress"]
    ignored_changes: ClassVar = {"initial_magmoms", "initial_charges"}

    def set(self, **kwargs: Any) -> dict[str, Any]:
        """Refuses parameters: the model has them."""
        if kwargs:
            raise TypeError(f"expected no parameters, as the model has them, got {', '.join(kwargs)}")
        return super().set()

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: list[str] | tuple[str, ...] = ("energy",),
        system_changes: list[str] = all_changes,
    ) -> None:
        """All properties at once: forces and stress come with the energy for little more."""
        super().calculate(atoms, properties, system_changes)
        wanted = {"energy_reduction": "atom", "compute_forces": True, "compute_virial": virial_of(properties)}
        energies, forces, virial = self._evaluated(self.atoms, wanted)
        energy = float(energies.sum())
        self.results = {"energy": energy, "free_energy": energy, "energies": energies, "forces": forces}
        if self.atoms.pbc.any() and self.atoms.cell.rank == 3:
            self.results |= stresses_of(virial, self.atoms.get_volume())

    def _evaluated(self, atoms: Atoms, wanted: dict[str, Any]) -> Any:
        """Energies, forces and virial of atoms, which are checked."""
        raise NotImplementedError


class ForceFieldCalculator(_OfModel):
    """The energy of a force field of molecules, with its derivatives, in eV and Å.

    Properties: `energy` and `free_energy` (the same number) and `energies` (N,), a term's energy split equally between
    its atoms; `forces` (N, 3), −∂E/∂r; `stress` (6,) of periodic atoms, +(1/V) ∂E/∂ε, as of `Madelung`, and `stresses`
    (N, 6), those of the energies of atoms, which add up to it.

    The atoms are those of the field, in its order.

    Args:
        field: a `madelung.forcefield.ForceField` in nm and kJ/mol, of `from_openmm`. With a cutoff all axes of the
            atoms are periodic, without one none is.
        skin: in Å. Neighbours within cutoff + skin are kept until an atom has moved by more than skin/2.
    """

    implemented_properties: ClassVar = [*_OfModel.implemented_properties, "stresses"]

    def __init__(self, field: ForceField, *, skin: float = 0.5) -> None:
        super().__init__()
        if not isinstance(field, ForceField):
            check.refuse("field", "a madelung.forcefield.ForceField", check.described(field), TypeError)
        self._field = field.in_units(10.0, units.kJ / units.mol)
        cutoff, skin = self._field.cutoff, checked_skin(skin)
        self._pairs = None if cutoff is None else SkinList(cutoff, skin)

    def _evaluated(self, atoms: Atoms, wanted: dict[str, Any]) -> Any:
        is_periodic = self._pairs is not None
        if len(atoms) != len(self._field.charges):
            check.refuse("atoms", f"the {len(self._field.charges)} of the field", f"{len(atoms)} atoms")
        if not (atoms.pbc == is_periodic).all():
            check.refuse("atoms.pbc", "all axes periodic" if is_periodic else "no axis periodic", atoms.pbc.tolist())
        positions, cell = atoms.positions, atoms.cell.array
        given = {"cell": cell, "neighbors": self._pairs.of(positions, cell, None)} if is_periodic else {}
        return self._field(positions, **given, **wanted)


class D3Calculator(_OfModel):
    """D3 dispersion, with its derivatives, in eV and Å: alone, or in ASE's `SumCalculator` beside a model without it.

    Properties are those of `ForceFieldCalculator` but for `stresses`: half the energy of a pair, and a third of that of
    a triple, are its atoms'. Any axes of the atoms may be periodic; the stress needs a cell that spans a volume.

    Args:
        d3: a `madelung.d3.D3` in Å and eV, as of `D3.of_functional("pbe", length="angstrom", energy="eV")`.
        skin: in Å. Neighbours within its cutoffs + skin are kept until an atom has moved by more than skin/2; a strain
            of the cell takes its part.
    """

    def __init__(self, d3: D3, *, skin: float = 0.5) -> None:
        # Its kernels are made when it is imported.
        from madelung.d3 import D3

        super().__init__()
        if not isinstance(d3, D3):
            check.refuse("d3", "a madelung.d3.D3", check.described(d3), TypeError)
        if (d3.length, d3.energy) != ("angstrom", "eV"):
            check.refuse("d3", 'one with length="angstrom" and energy="eV"', f"{d3.length} and {d3.energy}")
        self._d3, skin = d3, checked_skin(skin)
        pairs, counted, triples = d3.cutoffs
        self._lists = {"neighbors": SkinList(max(pairs, counted), skin)}
        if d3.s9 != 0.0:
            self._lists["near"] = SkinList(triples, skin)

    def _evaluated(self, atoms: Atoms, wanted: dict[str, Any]) -> Any:
        missing = atoms.pbc & ~atoms.cell.array.any(axis=1)
        if missing.any():
            check.refuse("atoms.cell", "a lattice vector along each periodic axis", f"none along {missing.argmax()}")
        cell = atoms.cell.complete().array if atoms.pbc.any() else None
        pbc = None if cell is None else atoms.pbc
        lists = {name: pairs.of(atoms.positions, cell, pbc) for name, pairs in self._lists.items()}
        return self._d3(atoms.positions, atoms.numbers, cell, **lists, pbc=pbc, **wanted)
