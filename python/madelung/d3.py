"""DFT-D3 dispersion with Becke–Johnson damping and the three-body term, for crystals and molecules.

```python
from madelung.d3 import D3

d3 = D3.of_functional("pbe", length="angstrom", energy="eV")
energy, forces = d3(positions, numbers, cell, compute_forces=True)
```

Grimme, Antony, Ehrlich and Krieg, J. Chem. Phys. 132, 154104 (2010); Grimme, Ehrlich and Goerigk, J. Comput. Chem. 32,
1456 (2011). The tables of the elements and the parameters of functionals are those of the package `tad-dftd3`. A call
computes in the library of its positions, NumPy, PyTorch or JAX, with derivatives to second order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np

from madelung import _arguments as check
from madelung._libraries import Library, library_of
from madelung._neighbors import Neighbors
from madelung.kernels import (
    Array,
    Batch,
    Map,
    Mat3,
    Out,
    OutputSpec,
    Pairs,
    Real,
    Vec3,
    Zero,
    dims,
    dot,
    exp,
    func,
    kernel,
    length,
    op,
    sqrt,
)

__all__ = ["D3", "Elements"]

Atom, System, Element, Reference, Feature = dims("Atom System Element Reference Feature")

# CODATA 2018, as the reference implementation has them: the bohr in each unit of length, the hartree in each of energy.
_LENGTHS = {"bohr": 1.0, "angstrom": 0.529177210903, "nm": 0.0529177210903}
_ENERGIES = {"hartree": 1.0, "eV": 27.211386245988, "kJ/mol": 2625.4996394798254, "kcal/mol": 627.5094740630558}
# Most references of an element.
_REFERENCES = 7
# A coordination number so far from all others that its reference has no weight.
_NOWHERE = 1e4
# Share of the largest below which a part of the coefficients is rounding.
_NOTHING = 1e-14


@kernel
def coordination(
    i: Atom,
    positions: Array[Vec3, Atom],
    cell: Array[Mat3, System],
    radii: Array[Real, Element],
    strain: Zero[Mat3, System],
    coordination_cutoff: Real,
    elements: Map[Atom, Element],
    atoms: Batch[Atom, System],
    pairs: Pairs[Atom],
    number: Out[Real, Atom],
):
    """The coordination number: Σⱼ 1/(1 + exp(−16 [(R_i + R_j)/r − 1]))."""
    b = atoms.of(i)
    mine = elements.of(i)
    n = 0.0
    for j, shift in pairs.row(i):
        d = positions[j] - positions[i] + shift @ cell[b]
        r = length(d + d @ strain[b])
        if r < coordination_cutoff:
            n += 1 / (1 + exp(-16 * ((radii[mine] + radii[elements.of(j)]) / r - 1)))
    number[i] = n


@kernel
def features(
    i: Atom,
    number: Array[Real, Atom],
    references: Array[Real, Element, Reference],
    basis_0: Array[Real, Element, Feature],
    basis_1: Array[Real, Element, Feature],
    basis_2: Array[Real, Element, Feature],
    basis_3: Array[Real, Element, Feature],
    basis_4: Array[Real, Element, Feature],
    basis_5: Array[Real, Element, Feature],
    basis_6: Array[Real, Element, Feature],
    elements: Map[Atom, Element],
    feature: Out[Real, Atom, Feature],
):
    """The features f of an atom, by which C₆ of two is Σ ± f f: those of the references of its element, with weights
    ∝ exp(−4 (n − n_reference)²)."""
    z = elements.of(i)
    d0 = (number[i] - references[z, 0]) ** 2
    d1 = (number[i] - references[z, 1]) ** 2
    d2 = (number[i] - references[z, 2]) ** 2
    d3 = (number[i] - references[z, 3]) ** 2
    d4 = (number[i] - references[z, 4]) ** 2
    d5 = (number[i] - references[z, 5]) ** 2
    d6 = (number[i] - references[z, 6]) ** 2
    # Weights count relative to the largest: all of them are below the smallest number far from every reference.
    least = min(d0, min(min(d1, min(d2, d3)), min(d4, min(d5, d6))))
    w0 = exp(4 * (least - d0))
    w1 = exp(4 * (least - d1))
    w2 = exp(4 * (least - d2))
    w3 = exp(4 * (least - d3))
    w4 = exp(4 * (least - d4))
    w5 = exp(4 * (least - d5))
    w6 = exp(4 * (least - d6))
    norm = 1 / (w0 + w1 + w2 + w3 + w4 + w5 + w6)
    for f in Feature:
        low = w0 * basis_0[z, f] + w1 * basis_1[z, f] + w2 * basis_2[z, f] + w3 * basis_3[z, f]
        high = w4 * basis_4[z, f] + w5 * basis_5[z, f] + w6 * basis_6[z, f]
        feature[i, f] = norm * (low + high)


@kernel
def pair_energies(
    i: Atom,
    positions: Array[Vec3, Atom],
    cell: Array[Mat3, System],
    feature: Array[Real, Atom, Feature],
    signs: Array[Real, Element, Feature],
    ratios: Array[Real, Element],
    strain: Zero[Mat3, System],
    cutoff: Real,
    s6: Real,
    s8: Real,
    a1: Real,
    a2: Real,
    elements: Map[Atom, Element],
    atoms: Batch[Atom, System],
    pairs: Pairs[Atom],
    energy: Out[Real, Atom],
):
    """−½ Σⱼ C₆ [s₆/(r⁶ + R⁶) + s₈ R₀²/(r⁸ + R⁸)] with R₀² = C₈/C₆ and R = a₁R₀ + a₂."""
    b = atoms.of(i)
    mine = elements.of(i)
    e = 0.0
    for j, shift in pairs.row(i):
        d = positions[j] - positions[i] + shift @ cell[b]
        d = d + d @ strain[b]
        r2 = dot(d, d)
        if r2 < cutoff**2:
            c6 = 0.0
            for f in Feature:
                c6 += feature[i, f] * signs[mine, f] * feature[j, f]
            ratio = ratios[mine] * ratios[elements.of(j)]
            s2 = (a1 * ratio + a2) ** 2
            e += c6 * (s6 / (r2**3 + s2**3) + s8 * ratio**2 / (r2**4 + s2**4))
    energy[i] = -e / 2


@func
def triple(c6: Real, a: Real, b: Real, c: Real, radii: Real) -> Real:
    """Axilrod, Teller and Muto: C₉ (3 cos α cos β cos γ + 1)/(r_a r_b r_c)³, damped, of squares of distances; C₉ is the
    root of three C₆."""
    product = a * b * c
    r = sqrt(product)
    cosines = (a + b - c) * (b + c - a) * (c + a - b) / product
    damping = 1 / (1 + 6 * (radii / r) ** (16 / 3))
    return sqrt(c6) * (0.375 * cosines + 1) * damping / (product * r)


@kernel(scatter=True)
def triple_energies(
    i: Atom,
    positions: Array[Vec3, Atom],
    cell: Array[Mat3, System],
    feature: Array[Real, Atom, Feature],
    signs: Array[Real, Element, Feature],
    contacts: Array[Real, Element, Element],
    strain: Zero[Mat3, System],
    three_body_cutoff: Real,
    s9: Real,
    elements: Map[Atom, Element],
    atoms: Batch[Atom, System],
    near: Pairs[Atom],
    energy: Out[Real, Atom],
):
    """A third of the energies of all triples of an atom, each of which is met twice."""
    b = atoms.of(i)
    mine = elements.of(i)
    limit = three_body_cutoff**2
    e = 0.0
    for j, n in near.row(i):
        u = positions[j] - positions[i] + n @ cell[b]
        u = u + u @ strain[b]
        u2 = dot(u, u)
        theirs = elements.of(j)
        of_u = 0.0
        for f in Feature:
            of_u += feature[i, f] * signs[mine, f] * feature[j, f]
        for k, m in near.row(i):
            v = positions[k] - positions[i] + m @ cell[b]
            v = v + v @ strain[b]
            w = v - u
            v2 = dot(v, v)
            w2 = dot(w, w)
            # The inner loop visits j itself, too, at w = 0.
            if u2 < limit and v2 < limit and 1e-12 * u2 < w2 < limit:
                of_v = 0.0
                of_w = 0.0
                for f in Feature:
                    of_v += feature[i, f] * signs[mine, f] * feature[k, f]
                    of_w += feature[j, f] * signs[mine, f] * feature[k, f]
                other = elements.of(k)
                radii = contacts[mine, theirs] * contacts[mine, other] * contacts[theirs, other]
                e += triple(of_u * of_v * of_w, u2, v2, w2, radii)
    energy[i] = s9 * e / 6


_SAVED = [OutputSpec("number", Real, (Atom,)), OutputSpec("feature", Real, (Atom, Feature))]
_pairs = op("madelung::d3_pairs", steps=[coordination, features, pair_energies], saved=_SAVED)
_triples = op("madelung::d3_triples", steps=[coordination, features, triple_energies], saved=_SAVED)


@dataclass(frozen=True, eq=False)
class Elements:
    """The tables of D3, in atomic units; row z is that of atomic number z."""

    radii: np.ndarray
    """(Z,), covalent radii times 4/3, by which coordination numbers are counted."""
    references: np.ndarray
    """(Z, 7), coordination numbers of the references of an element; below zero where there are fewer."""
    c6: np.ndarray
    """(Z, Z, 7, 7), dispersion coefficients of two references."""
    ratios: np.ndarray
    """(Z,), √Q of each element: C₈/C₆ of two elements is 3 √Q √Q."""
    contacts: np.ndarray
    """(Z, Z), cutoff radii R₀ of two elements, which damp the three-body term."""

    @staticmethod
    @cache
    def of_package() -> Elements:
        """The tables of `tad-dftd3`, read once."""
        try:
            import torch
            from tad_dftd3.data import R4R2
            from tad_dftd3.reference import Reference as References
            from tad_mctc.data.radii import COV_D3, VDW_PAIRWISE
        except ImportError:
            raise ImportError("the tables of D3 are those of tad-dftd3: pip install 'madelung[d3]'") from None
        kind = {"dtype": torch.float64, "device": torch.device("cpu")}
        found = References(**kind)
        tables = (COV_D3(**kind), found.cn, found.c6, R4R2(**kind), VDW_PAIRWISE(**kind))
        radii, references, c6, ratios, contacts = (x.numpy()[: len(found.cn)] for x in tables)
        # Published in Å, with two digits and four: here they were converted with an older bohr, and to float32.
        bohr = _LENGTHS["angstrom"]
        radii = 4.0 / 3.0 * np.round(0.75 * radii * bohr, 2) / bohr
        return Elements(radii, references, c6, ratios, np.round(contacts * bohr, 4) / bohr)

    def chosen(self, numbers: tuple[int, ...]) -> dict[str, np.ndarray]:
        """The arguments of kernels that the tables of some elements make up, in atomic units.

        The matrix of C₆ between all their references, by its eigenvectors and the roots of its eigenvalues, is a sum of
        products of one factor of each atom: features.
        """
        z = list(numbers)
        present = self.references[z] >= 0.0
        which = np.argwhere(present)
        of = np.array(z)[which[:, 0]]
        c6 = self.c6[of[:, None], of, which[:, None, 1], which[:, 1]]
        values, vectors = np.linalg.eigh(c6)
        is_some = np.abs(values) > _NOTHING * np.abs(values).max()
        values, vectors = values[is_some], vectors[:, is_some]
        basis = np.zeros((_REFERENCES, len(z), len(values)))
        basis[which[:, 1], which[:, 0]] = vectors * np.sqrt(np.abs(values))
        return {
            "radii": self.radii[z],
            "references": np.where(present, self.references[z], _NOWHERE),
            "signs": np.tile(np.sign(values), (len(z), 1)),
            "ratios": np.sqrt(np.sqrt(3.0) * self.ratios[z]),
            "contacts": 4.0 / 3.0 * self.contacts[np.ix_(z, z)],
        } | dict(zip(_BASIS, basis))


_BASIS = tuple(f"basis_{n}" for n in range(_REFERENCES))
# Powers of length and energy in the units of what kernels are given: of R₀ and of C₆ two atoms have a root each.
_DIMENSIONS = {"radii": (1.0, 0.0), "contacts": (1.0, 0.0), "ratios": (0.5, 0.0)} | dict.fromkeys(_BASIS, (3.0, 0.5))


@dataclass(frozen=True, eq=False)
class D3:
    """D3 dispersion of one functional, whose call gives the energy, forces and virial.

    Lengths and energies are in the units that it is made with. Fields may be replaced (`dataclasses.replace`).
    """

    s6: float
    """Factor of the term of C₆."""
    s8: float
    """Factor of the term of C₈."""
    a1: float
    """Factor of R₀ in the damping."""
    a2: float
    """Length in the damping, in bohr."""
    length: str
    """Unit of lengths: "bohr", "angstrom" or "nm"."""
    energy: str
    """Unit of energies: "hartree", "eV", "kJ/mol" or "kcal/mol"."""
    s9: float = 0.0
    """Factor of the three-body term; 0 leaves it out."""
    elements: tuple[int, ...] | None = None
    """Atomic numbers of the elements of calls; None: of each call its own, which `jit` cannot know."""
    tables: Elements = field(default_factory=Elements.of_package)
    """Tables of the elements."""
    cutoff: float | None = None
    """Radius of the sum over pairs, in the unit of lengths; None: 60 bohr."""
    coordination_cutoff: float | None = None
    """Radius of coordination numbers; None: 40 bohr."""
    three_body_cutoff: float | None = None
    """Longest side of a triple; None: 40 bohr. The time goes with its sixth power."""
    _kept: dict[tuple[int, ...], dict[str, np.ndarray]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        check.word("length", self.length, tuple(_LENGTHS))
        check.word("energy", self.energy, tuple(_ENERGIES))
        for name in ("s6", "s8", "s9", "a1", "a2"):
            check.number(name, getattr(self, name))
        for name in ("cutoff", "coordination_cutoff", "three_body_cutoff"):
            if getattr(self, name) is not None:
                check.positive(name, getattr(self, name))
        if self.elements is not None:
            found = np.unique(np.asarray(self.elements))
            self._check_elements("elements", found)
            object.__setattr__(self, "elements", tuple(found.tolist()))

    @staticmethod
    def of_functional(
        name: str,
        *,
        length: Literal["bohr", "angstrom", "nm"],
        energy: Literal["hartree", "eV", "kJ/mol", "kcal/mol"],
        three_body: bool = False,
        elements: Sequence[int] | None = None,
    ) -> D3:
        """D3 of a functional, with Becke–Johnson damping.

        Args:
            name: of the functional, as `tad-dftd3` knows it: "pbe", "b3lyp", "r2scan", …
            length: unit of lengths.
            energy: unit of energies.
            three_body: whether the term of Axilrod, Teller and Muto is added.
            elements: atomic numbers, of calls under `jit`.

        Raises:
            ValueError: For a functional or a unit that is not known.
            ImportError: Without `tad-dftd3`.
        """
        tables = Elements.of_package()
        import torch
        from tad_dftd3.param import get_functional_params

        try:
            found = get_functional_params(name, "bj", dtype=torch.float64, device=torch.device("cpu"))
        except (AttributeError, KeyError, ValueError):
            check.refuse("name", "a functional that has parameters of D3(BJ)", name)
        p = {x: float(found[x]) for x in ("s6", "s8", "a1", "a2", "s9")}
        p["s9"] *= check.flag("three_body", three_body)
        return D3(**p, length=length, energy=energy, elements=elements, tables=tables)

    def __call__(
        self,
        positions: Any,
        numbers: Any,
        cell: Any = None,
        *,
        neighbors: Any = None,
        near: Any = None,
        pbc: Any = None,
        batch_idx: Any = None,
        energy_reduction: Literal["atom", "system"] = "system",
        compute_forces: bool = False,
        compute_virial: bool = False,
    ) -> Any:
        """The energy, and what else is asked for.

        Args:
            positions: (N, 3), an array of NumPy, PyTorch or JAX, of float32 or float64.
            numbers: (N,) integers, atomic numbers.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
            neighbors: a list of `find_neighbors` or `NeighborList` for the larger of both cutoffs of pairs or a longer
                one. None: found in this call, which `jit` cannot.
            near: such a list for `three_body_cutoff`.
            pbc: (3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero.
            batch_idx: (N,) int32, the system of each atom, sorted; with a cell (B, 3, 3).
            energy_reduction: "system", (B,) or (1,), or "atom", (N,): half the energy of a pair and a third of that of
                a triple.
            compute_forces: whether forces (N, 3), −∂E/∂r, follow.
            compute_virial: whether the virial, −∂E/∂ε, follows: (3, 3) for a (3, 3) cell, else (B, 3, 3).

        Returns:
            The energy, or a tuple of it and the others.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name.
        """
        check.word("energy_reduction", energy_reduction, ("atom", "system"))
        check.flag("compute_forces", compute_forces)
        check.flag("compute_virial", compute_virial)
        cutoff, counted, third = self.cutoffs
        call = self._call(positions, numbers, cell, pbc, batch_idx)
        library, r, lattice = call.library, call.positions, call.lattice
        shared = call.counting(call.listed("neighbors", neighbors, max(cutoff, counted)), counted)
        shared |= {x: call.tables[x] for x in ("references", "signs", *_BASIS)}
        damping = {"s6": self.s6, "s8": self.s8, "a1": self.a1, "a2": self.a2 * _LENGTHS[self.length]}
        of_pairs = {"ratios": call.tables["ratios"], "cutoff": cutoff} | damping
        of_triples: dict[str, Any] = {}
        if self.s9 != 0.0:
            of_triples = {"contacts": call.tables["contacts"], "near": call.listed("near", near, third)}
            # C₉ is the root of three C₆ in atomic units alone.
            of_triples |= {"three_body_cutoff": third, "s9": self.s9 / _ENERGIES[self.energy] ** 0.5}

        def energies(r: Any, strain: Any = None) -> list[Any]:
            own = {"positions": r, "strain": strain} | shared
            found = [_pairs(**own, **of_pairs)]
            return [*found, _triples(**own, **of_triples)] if of_triples else found

        systems = lattice.shape[0]
        gradients: list[Any] = []
        if compute_forces or compute_virial:
            by = [r, *([library.array(np.zeros((systems, 3, 3)))] if compute_virial else [])]
            found, gradients = library.gradients(energies, by, [lattice])
        else:
            found = energies(r)
        total = sum(found[1:], found[0])
        if energy_reduction == "system":
            total = (
                total.sum().reshape(1)
                if batch_idx is None
                else library.of_systems(total, call.at["batch_idx"], systems)
            )
        results = [total]
        if compute_forces:
            results.append(-gradients[0])
        if compute_virial:
            results.append(-gradients[1].reshape((3, 3) if call.is_single else (systems, 3, 3)))
        return tuple(results) if len(results) > 1 else total

    def coordination_numbers(
        self,
        positions: Any,
        numbers: Any,
        cell: Any = None,
        *,
        neighbors: Any = None,
        pbc: Any = None,
        batch_idx: Any = None,
    ) -> Any:
        """The coordination number of each atom, (N,), with derivatives where the library has them.

        Arguments are those of a call; `neighbors` for `coordination_cutoff` or a longer one.
        """
        _, counted, _ = self.cutoffs
        call = self._call(positions, numbers, cell, pbc, batch_idx)
        return coordination(call.positions, **call.counting(call.listed("neighbors", neighbors, counted), counted))

    @property
    def cutoffs(self) -> tuple[float, float, float]:
        """The radii of pairs, of coordination numbers and of triples, in the unit of lengths."""
        unit, given = _LENGTHS[self.length], (self.cutoff, self.coordination_cutoff, self.three_body_cutoff)
        pairs, counted, triples = (bohr * unit if x is None else x for x, bohr in zip(given, (60.0, 40.0, 40.0)))
        return pairs, counted, triples

    def _call(self, positions: Any, numbers: Any, cell: Any, pbc: Any, batch_idx: Any) -> _Call:
        """The atoms of a call, checked."""
        is_single = batch_idx is None and len(getattr(cell, "shape", (3, 3))) == 2
        shape: tuple[int | str, ...] = (3, 3) if is_single else ("B", 3, 3)
        library, r, h = library_of(positions, cell, shape)
        check.fits("positions", r, ("N", 3))
        if h is None and not is_single:
            check.refuse("cell", "(B, 3, 3), zeros for systems without periodic axes, with `batch_idx`", "None")
        if h is not None:
            check.fits("cell", h, shape)
        elements, kinds = self._kinds(library, numbers, r.shape[0])
        if elements not in self._kept:
            units = {x: _LENGTHS[self.length] ** a * _ENERGIES[self.energy] ** b for x, (a, b) in _DIMENSIONS.items()}
            self._kept[elements] = {x: units.get(x, 1.0) * table for x, table in self.tables.chosen(elements).items()}
        tables = {name: library.array(x) for name, x in self._kept[elements].items()}
        if batch_idx is not None:
            batch_idx = library.integers("batch_idx", batch_idx)
            check.fits("batch_idx", batch_idx, (r.shape[0],))
        lattice = library.array(np.zeros((1, 3, 3))) if h is None else h.reshape((-1, 3, 3))
        at = {name: x for name, x in (("cell", h), ("pbc", pbc), ("batch_idx", batch_idx)) if x is not None}
        return _Call(library, r, lattice, kinds, tables, at, is_single)

    def _kinds(self, library: Library, numbers: Any, atoms: int) -> tuple[tuple[int, ...], Any]:
        """The elements of a call, and the place of each atom's among them."""
        z = library.value(numbers)
        check.fits("numbers", numbers if z is None else z, (atoms,))
        if z is None:
            if self.elements is None:
                check.refuse("numbers", "`elements` of the D3 where they cannot be read", "an array of one")
            places = np.full(len(self.tables.radii) + 1, len(self.elements), np.int32)
            places[list(self.elements)] = np.arange(len(self.elements))
            return self.elements, library.array(places)[library.integers("numbers", numbers)]
        there = np.unique(z)
        self._check_elements("numbers", there)
        elements = tuple(there.tolist()) or (1,) if self.elements is None else self.elements
        if missing := set(there.tolist()) - set(elements):
            check.refuse("numbers", f"elements among {elements}, as `elements` says", min(missing))
        return elements, library.array(np.searchsorted(elements, z).astype(np.int32))

    def _check_elements(self, name: str, z: np.ndarray) -> None:
        if z.dtype.kind not in "iu" and z.size:
            check.refuse(name, "integers, atomic numbers", check.described(z), TypeError)
        bad = z[(z < 1) | (z >= len(self.tables.radii))]
        if bad.size:
            check.refuse(name, f"atomic numbers from 1 to {len(self.tables.radii) - 1}", int(bad[0]))


@dataclass(frozen=True)
class _Call:
    """The atoms of a call."""

    library: Library
    positions: Any
    lattice: Any
    kinds: Any
    tables: dict[str, Any]
    at: dict[str, Any]
    is_single: bool

    def listed(self, name: str, pairs: Any, cutoff: float) -> Any:
        """A list that was given, or that of this call."""
        if pairs is not None:
            if not isinstance(pairs, Neighbors):
                check.refuse(name, "what `find_neighbors` or `NeighborList` gives", check.described(pairs), TypeError)
            if pairs.cutoff < cutoff:
                check.refuse(name, f"a list for a cutoff of {cutoff:g} or more", f"one for {pairs.cutoff:g}")
            return pairs
        still = {name: self.library.still(x) for name, x in self.at.items()}
        return self.library.module.find_neighbors(self.library.still(self.positions), cutoff, **still)

    def counting(self, pairs: Any, cutoff: float) -> dict[str, Any]:
        """The arguments of `coordination` beside the positions."""
        given = {"cell": self.lattice, "radii": self.tables["radii"], "coordination_cutoff": cutoff}
        given |= {"elements": self.kinds, "pairs": pairs}
        idx = self.at.get("batch_idx")
        return given if idx is None else given | {"atoms": (idx, self.lattice.shape[0])}
