"""Structures as ASE keeps them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np


def is_atoms(x: Any) -> bool:
    """Whether something is ASE's `Atoms`, which whoever has them has imported."""
    ase = sys.modules.get("ase")
    return ase is not None and isinstance(x, ase.Atoms)


def charges_of(atoms: Any) -> np.ndarray | None:
    """Charges that come with `Atoms`: the initial ones, else those among a calculator's results; None: neither."""
    if atoms.has("initial_charges"):
        return atoms.get_initial_charges()
    if atoms.calc is None:
        return None
    try:
        # Of these very atoms, and nothing is computed for it.
        return atoms.calc.get_property("charges", atoms, allow_calculation=False)
    except NotImplementedError:
        return None


def arrays_of(atoms: Any) -> dict[str, Any]:
    """`Atoms` as arrays by this library's names."""
    found = {"positions": atoms.positions, "cell": atoms.cell.array, "pbc": atoms.pbc}
    charges = charges_of(atoms)
    return found if charges is None else {**found, "charges": charges}


def column_of(atoms: Any, name: str) -> Any:
    """An array of atoms by its name, one of the file's own or of a calculator's results; None where there is none."""
    results = {} if atoms.calc is None else atoms.calc.results
    return atoms.arrays.get(name, results.get(name))


def read(file: Path, form: str | None) -> list[Any]:
    """All frames of a file, with the charges that ASE leaves out; `form`: by ASE's name, or recognised."""
    import ase.io

    if form is None:
        # ASE knows neither by the name of the file.
        form = "pqr" if file.suffix.lower() == ".pqr" else "lammps-data" if _is_lammps_data(file) else None
    if form == "pqr":
        return [_read_pqr(file)]
    frames = ase.io.read(str(file), index=":", format=form)
    if form == "cif" or (form is None and file.suffix.lower() == ".cif"):
        _add_charges_of_cif(file, frames)
    return frames


def _is_lammps_data(file: Path) -> bool:
    """Whether a file begins as LAMMPS' data files do: a comment, and numbers of atoms before the box."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        head = [line.split("#")[0].split() for _, line in zip(range(40), lines)][1:]
    return any(line[1:] == ["atoms"] for line in head) and any(line[2:] == ["xlo", "xhi"] for line in head)


def _read_pqr(file: Path) -> Any:
    """The atoms of a PQR file: words between blanks, of which the last five are x, y, z, charge and radius."""
    import ase

    symbols, numbers, cell = [], [], None
    for line in file.read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words[:1] == ["CRYST1"]:
            cell = [float(x) for x in words[1:7]]
        if words[:1] in (["ATOM"], ["HETATM"]):
            if len(words) < 9:
                raise ValueError(f"expected name, residue, position, charge and radius, got {line!r}")
            symbols.append(_element(words[2], words[3]))
            numbers.append([float(x) for x in words[-5:-1]])
    if not numbers:
        raise ValueError("it has no ATOM records")
    values = np.array(numbers)
    return ase.Atoms(symbols, values[:, :3], charges=values[:, 3], cell=cell, pbc=cell is not None)


def _element(name: str, residue: str) -> str:
    """The element of an atom by its name: CA is carbon, but in a residue of that name, an ion."""
    from ase.data import atomic_numbers

    letters = "".join(x for x in name if x.isalpha())
    known = [x.capitalize() for x in (letters[:2], letters[:1]) if x.capitalize() in atomic_numbers]
    is_ion = residue.upper().startswith(letters.upper()) or letters[:2].upper() in ("CL", "BR")
    return "X" if not known else known[0] if is_ion else known[-1]


def _add_charges_of_cif(file: Path, frames: list[Any]) -> None:
    """Charges of the sites, which ASE does not read, for each atom that symmetry makes of one."""
    from ase.io.cif import parse_cif

    blocks = [block for block in parse_cif(str(file)) if block.has_structure()]
    for atoms, block in zip(frames, blocks) if len(blocks) == len(frames) else ():
        given, kinds = block.get("_atom_site_charge"), atoms.arrays.get("spacegroup_kinds")
        if given is None or kinds is None or atoms.has("initial_charges"):
            continue
        # Words are what is unknown, or does not apply.
        if not any(isinstance(x, str) for x in given):
            atoms.set_initial_charges(np.array(given, np.float64)[kinds])
