"""`kspace_style madelung/pme`, a mesh that all processes share, against the mesh of one process."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from test_lammps import BAR, MELT, METAL, STEPS, lammps, results, rock_salt, write_data

from madelung.numpy import ewald_summation, particle_mesh_ewald

WHOLE = """
units metal
atom_style charge
{before}
read_data ions.data
pair_style madelung/coul/long 9.0
pair_coeff * *
kspace_style madelung/pme {accuracy}
{modify}
neighbor 1.0 bin
"""
GIVEN = "kspace_modify gewald 0.35 mesh 30 32 36 order 5"


def test_a_displaced_crystal_on_any_grid(tmp_path: Path) -> None:
    """Energy, forces and virial of an oblique cell: the same on every grid of processes, and Madelung's own."""
    positions, charges, cell = rock_salt(4, 0.2, shear=True)
    write_data(tmp_path, positions, charges, cell)
    energy, forces, virial = particle_mesh_ewald(
        positions,
        charges,
        cell,
        0.35,
        cutoff=9.0,
        mesh_dimensions=(30, 32, 36),
        spline_order=5,
        accuracy=None,
        prefactor=METAL,
        energy_reduction="system",
        compute_forces=True,
        compute_virial=True,
    )
    stress = np.asarray(virial).reshape(3, 3) / np.linalg.det(cell) * BAR
    wanted = [stress[0, 0], stress[1, 1], stress[2, 2], stress[0, 1], stress[0, 2], stress[1, 2]]
    alone = None
    for before in ("processors 1 1 1", "", "processors 1 1 3", "processors 2 2 1", "newton off"):
        ranks = np.prod([int(x) for x in re.findall(r"\d", before)] or [2])
        (total, *_), pressures, got = results(tmp_path, WHOLE.format(before=before, accuracy=1e-6, modify=GIVEN), ranks)
        alone = total if alone is None else alone
        assert total == pytest.approx(alone, rel=1e-14), before
        assert total == pytest.approx(float(energy[0]), rel=1e-12), before
        np.testing.assert_allclose(got, forces, rtol=0.0, atol=1e-12, err_msg=before)
        np.testing.assert_allclose(pressures, wanted, rtol=0.0, atol=1e-11 * np.abs(wanted).max(), err_msg=before)


def test_energies_of_atoms(tmp_path: Path) -> None:
    """Energies of atoms by `compute pe/atom`, whose sum is the energy."""
    positions, charges, cell = rock_salt(2, 0.2, shear=True)
    write_data(tmp_path, positions, charges, cell)
    text = WHOLE.format(before="", accuracy=1e-6, modify=GIVEN) + (
        "compute each all pe/atom\ncompute sum all reduce sum c_each\nthermo_style custom pe c_sum\nrun 0\n"
        'print "value $(pe:%.16g) $(c_sum:%.16g)"\n'
        "write_dump all custom energies.dump id c_each modify sort id format float %.16g\n"
    )
    said = lammps(tmp_path, text, 3)
    found = re.search(r"^value (.*)$", said, re.MULTILINE)
    assert found, said
    whole, of_atoms = (float(x) for x in found.group(1).split())
    assert of_atoms == pytest.approx(whole, rel=1e-13)
    keys = {"mesh_dimensions": (30, 32, 36), "spline_order": 5, "accuracy": None, "prefactor": METAL}
    energies = particle_mesh_ewald(positions, charges, cell, 0.35, cutoff=9.0, **keys)
    got = np.loadtxt(tmp_path / "energies.dump", skiprows=9)[:, 1]
    np.testing.assert_allclose(got, energies, rtol=0.0, atol=1e-12 * np.abs(energies).max())


@pytest.mark.parametrize("accuracy", [1e-3, 1e-5, 1e-7])
def test_the_accuracy_is_kept(tmp_path: Path, accuracy: float) -> None:
    """LAMMPS' accuracy is an RMS error of forces, in that of two charges 1 Å apart."""
    positions, charges, cell = rock_salt(4, 0.2)
    write_data(tmp_path, positions, charges, cell)
    _, _, forces = results(tmp_path, WHOLE.format(before="", accuracy=accuracy, modify=""), 2)
    keys = {"accuracy": 1e-10, "prefactor": METAL, "compute_forces": True}
    exact = np.asarray(ewald_summation(positions, charges, cell, **keys)[1])
    error = np.sqrt(((forces - exact) ** 2).sum(1).mean())
    assert 0.02 * accuracy * METAL < error < accuracy * METAL


def test_beside_the_mesh_of_lammps(tmp_path: Path) -> None:
    """Energy and forces of `pppm` on its own mesh, to its accuracy."""
    write_data(tmp_path, *rock_salt(4, 0.2, shear=True))
    ours = WHOLE.format(before="", accuracy=1e-6, modify="")
    theirs = ours.replace("madelung/pme", "pppm")
    (energy, *_), _, forces = results(tmp_path, ours, 2)
    (expected, *_), _, wanted = results(tmp_path, theirs, 2)
    assert energy == pytest.approx(expected, rel=1e-5)
    assert np.sqrt(((forces - wanted) ** 2).sum(1).mean()) < 2e-6 * METAL


def test_a_box_that_changes(tmp_path: Path) -> None:
    """Parameters stay as a barostat or `change_box` changes the box; charges may come after the first run."""
    positions, charges, cell = rock_salt(4, 0.2)
    write_data(tmp_path, positions, charges, cell)
    keys = {"mesh_dimensions": (30, 32, 36), "spline_order": 5, "accuracy": None, "prefactor": METAL}
    text = WHOLE.format(before="", accuracy=1e-6, modify=GIVEN)
    changed = text + "run 0\nchange_box all x scale 1.02 z scale 0.97 remap\n"
    (energy, *_), _, forces = results(tmp_path, changed, 2)
    # About the middle of the box.
    scale, middle = np.diag([1.02, 1.0, 0.97]), cell.sum(0) / 2
    wanted = particle_mesh_ewald(
        (positions - middle) @ scale + middle, charges, cell @ scale, 0.35, cutoff=9.0, compute_forces=True, **keys
    )
    assert energy == pytest.approx(float(wanted[0].sum()), rel=1e-12)
    np.testing.assert_allclose(forces, wanted[1], rtol=0.0, atol=1e-11)
    barostat = "fix 1 all npt temp 300 300 0.1 iso 0 0 1\ntimestep 0.0005\nrun 20\n"
    said = lammps(tmp_path, text + barostat, 3)
    assert "Loop time" in said and "ERROR" not in said, said
    neutral = text.replace(GIVEN, "") + (
        "set type 1*2 charge 0.0\nrun 0\nset type 1 charge 1.0\nset type 2 charge -1.0\n"
    )
    (energy, *_), _, _ = results(tmp_path, neutral, 2)
    exact = float(ewald_summation(positions, charges, cell, accuracy=1e-10, prefactor=METAL).sum())
    assert energy == pytest.approx(exact, rel=1e-5)


def test_processes_without_atoms(tmp_path: Path) -> None:
    """Two charges in the corner of a long box, on four processes of which three have none."""
    text = WHOLE.format(
        before="processors 4 1 1", accuracy=1e-6, modify="kspace_modify gewald 0.3 mesh 90 18 20 order 4"
    )
    positions, cell = np.array([[1.0, 1.0, 1.0], [3.0, 1.0, 1.0]]), np.diag([100.0, 20.0, 20.0])
    charges = np.array([1.0, -1.0])
    write_data(tmp_path, positions, charges, cell)
    keys = {"mesh_dimensions": (90, 18, 20), "spline_order": 4, "accuracy": None, "prefactor": METAL}
    energies, expected = particle_mesh_ewald(positions, charges, cell, 0.3, cutoff=9.0, compute_forces=True, **keys)
    (energy, *_), _, forces = results(tmp_path, text, 4)
    assert energy == pytest.approx(float(energies.sum()), rel=1e-13)
    np.testing.assert_allclose(forces, expected, rtol=0.0, atol=1e-13)


def test_molten_salt_keeps_its_energy(tmp_path: Path) -> None:
    """Steps of ions that change processes: the energy moves as with `pppm`."""
    positions, charges, cell = rock_salt(3, 0.05)
    write_data(tmp_path, positions, charges, cell * 1.06)
    steps = STEPS // 2
    output = (
        f"thermo {steps // 20}\nthermo_style custom step etotal temp\nthermo_modify format float %.12g\nrun {steps}\n"
    )
    drifts = []
    for waves in ("madelung/pme", "pppm"):
        text = MELT.format(pair="madelung/coul/long").replace("kspace_style pppm", f"kspace_style {waves}")
        said = lammps(tmp_path, text + output, 2)
        rows = re.findall(r"^ +(\d+) +(-[\d.]+) +([\d.]+) *$", said, re.MULTILINE)
        energies = np.array([float(energy) for step, energy, _ in rows if int(step) >= steps // 5])
        assert len(energies) == 17 and int(rows[-1][0]) == steps, said
        drifts.append(np.ptp(energies) / abs(energies[0]))
    assert drifts[0] < 2e-5
    assert drifts[0] < 2.0 * drifts[1] + 1e-6


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("", "kspace_style madelung/pme", "expected an accuracy, got 0 arguments"),
        ("", "kspace_style madelung/pme 0.0", "expected an accuracy above 0, got 0.0"),
        ("boundary p p f", "", "periodic along all axes"),
        ("boundary p p f", "kspace_modify slab 3.0", "periodic along all axes"),
        ("", "kspace_modify slab nozforce", "are not for kspace_style madelung/pme"),
        ("", "kspace_modify gewald 0.3 mesh 4 30 30 order 5", "`mesh`: expected three sizes ≥ the spline order, 5"),
        ("", "kspace_modify mesh 8 8 8", "`accuracy`: expected one that the given parameters allow"),
        ("", "kspace_modify gewald 0.3 mesh 30 30 30 order 12", "`spline_order`: expected 2 to 10, got 12"),
        ("", "variable far atom 1e308*10\nset atom 1 charge v_far", "`charges`: expected finite numbers, got inf"),
        ("", "compute 1 all stress/atom NULL kspace\ndump 1 all custom 1 d c_1[1]", "no virial of single atoms"),
    ],
)
def test_words_of_errors(tmp_path: Path, before: str, after: str, words: str) -> None:
    """Bad input ends the run with its reason, on one process and on two."""
    write_data(tmp_path, *rock_salt(2, 0.1))
    text = WHOLE.format(before=before, accuracy=1e-4, modify=after) + "run 0\n"
    for ranks in (1, 2):
        said = lammps(tmp_path, text, ranks)
        assert "ERROR" in said and words in said and "Segmentation" not in said, said
