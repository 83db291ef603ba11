"""The command line, as a user runs it."""

import json
import os
import shutil
import subprocess
import sys

import ase.build
import ase.io
import numpy as np
import pytest
from ase.calculators.singlepoint import SinglePointCalculator

from conftest import ROOT
from madelung.numpy import ewald_summation, particle_mesh_ewald
from madelung.units import EV_ANGSTROM

DATA = ROOT / "examples" / "data"


def run(*arguments, status=0):
    """Standard output, or for a refusal standard error."""
    command = [sys.executable, "-m", "madelung.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr if status == 2 else done.stdout


def value(output, name):
    """The first number after a name."""
    line = next(line for line in output.splitlines() if line.strip().startswith(name))
    return float(line.strip()[len(name) :].split()[0])


def test_energy_of_all_examples_with_what_is_known():
    files = sorted(DATA.glob("*.xyz"))
    known = json.loads((DATA / "known.json").read_text())
    output = run("energy", "--accuracy", "1e-12", *files)
    blocks = output.split(str(DATA))[1:]
    assert len(blocks) == len(files) == len(known)
    for file, block in zip(files, blocks):
        assert value(block, "energy") == pytest.approx(known[file.name]["energy"], rel=1e-11)
        assert value(block, "known energy") == pytest.approx(known[file.name]["energy"], rel=1e-11)
        constant = known[file.name]["madelung_constant"]
        if constant is not None:
            assert value(block, "Madelung constant") == pytest.approx(constant, rel=1e-11)
        for name in ("atoms", "cell volume", "total charge", "parameters", "force error", "stress", "time"):
            assert name in block


def test_chosen_parameters_units_and_dtype():
    file = DATA / "rock_salt.xyz"
    output = run(
        "energy", file, "--alpha", 0.6, "--cutoff", 10, "--k-cutoff", 8, "--units", "reduced", "--dtype", "float32"
    )
    assert "alpha 0.60000" in output
    assert "cutoff 10.0000" in output
    assert "k_cutoff 8.0000" in output
    assert "float32" in output
    assert "e2/A^2" in output
    assert value(output, "energy") == pytest.approx(-2.4787271297233175, rel=1e-5)


def test_output_goes_round_through_ase(tmp_path):
    out = tmp_path / "out.xyz"
    files = [DATA / "rutile.xyz", DATA / "triclinic.xyz"]
    run("energy", "--accuracy", "1e-10", *files, "--output", out)
    for atoms, file in zip(ase.io.read(out, index=":"), files):
        source = ase.io.read(file)
        volume = source.get_volume()
        energies, forces, virial = ewald_summation(
            source.positions,
            source.get_initial_charges(),
            source.cell.array,
            accuracy=1e-10,
            prefactor=EV_ANGSTROM,
            compute_forces=True,
            compute_virial=True,
        )
        assert atoms.get_potential_energy() == pytest.approx(energies.sum(), rel=1e-9)
        np.testing.assert_allclose(atoms.get_forces(), forces, atol=1e-6)
        np.testing.assert_allclose(atoms.get_stress(voigt=False), -virial / volume, atol=1e-6)
        np.testing.assert_allclose(atoms.get_initial_charges(), source.get_initial_charges())
        np.testing.assert_allclose(atoms.positions, source.positions, atol=1e-7)


@pytest.fixture
def bare(tmp_path):
    """Rock salt without charges."""
    file = tmp_path / "NaCl.cif"
    ase.io.write(file, ase.build.bulk("NaCl", "rocksalt", a=5.6402, cubic=True))
    return file


def test_charges_by_element(bare):
    output = run("energy", bare, "--charges", "Na=1,Cl=-1", "--accuracy", "1e-12")
    assert value(output, "energy") == pytest.approx(-2.4787271297233175, rel=1e-7)


def test_the_last_frame_is_taken_and_said(tmp_path):
    file = tmp_path / "trajectory.xyz"
    frames = []
    for a in (5.5, 5.6402):
        atoms = ase.build.bulk("NaCl", "rocksalt", a=a, cubic=True)
        atoms.set_initial_charges([1, -1] * 4)
        frames.append(atoms)
    ase.io.write(file, frames)
    output = run("energy", file, "--accuracy", "1e-12")
    assert "frame 1 of 0 to 1" in output
    assert value(output, "energy") == pytest.approx(-2.4787271297233175, rel=1e-9)
    first = run("energy", file, "--frames", 0, "--accuracy", "1e-12")
    assert value(first, "energy") == pytest.approx(-2.4787271297233175 * 5.6402 / 5.5, rel=1e-9)
    assert "there is no frame 2, it has 2" in run("energy", file, "--frames", 2, status=2)


def test_frames_as_json(tmp_path):
    """One object a line, for each frame that is asked for."""
    file = tmp_path / "trajectory.xyz"
    lengths = (5.5, 5.6402, 5.7, 5.8)
    frames = [ase.build.bulk("NaCl", "rocksalt", a=a, cubic=True) for a in lengths]
    ase.io.write(file, frames)
    out = tmp_path / "out.traj"
    options = ("--charges", "Na=1,Cl=-1", "--accuracy", "1e-12", "--json")
    for index, chosen in ((":", (0, 1, 2, 3)), ("1:3", (1, 2)), ("::-2", (3, 1)), ("-2", (2,))):
        lines = run("energy", file, "--frames", index, *options, "--output", out, "--overwrite").splitlines()
        found = [json.loads(line) for line in lines]
        assert [each["frame"] for each in found] == list(chosen)
        for each, atoms in zip(found, ase.io.read(out, index=":"), strict=True):
            expected = -2.4787271297233175 * 5.6402 / lengths[each["frame"]] * EV_ANGSTROM
            assert each["energy"] == pytest.approx(expected, rel=1e-9)
            assert each["units"] == {"energy": "eV", "length": "angstrom"} and each["atoms"] == 8
            assert atoms.get_potential_energy() == pytest.approx(expected, rel=1e-9)
            np.testing.assert_allclose(each["forces"], atoms.get_forces(), atol=1e-12)
            np.testing.assert_allclose(each["stress"], atoms.get_stress(), rtol=1e-12)
    (reduced,) = run("energy", file, *options, "--units", "reduced", "--frames", 1).splitlines()
    assert json.loads(reduced)["energy"] == pytest.approx(-2.4787271297233175, rel=1e-9)


def test_a_file_that_fails_does_not_lose_the_others(tmp_path, bare):
    files = [DATA / "rutile.xyz", tmp_path / "absent.xyz", bare, DATA / "triclinic.xyz"]
    out = tmp_path / "out.xyz"
    command = [sys.executable, "-m", "madelung.cli", "energy", *map(str, files), "--json", "--output", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert [json.loads(line)["file"] for line in done.stdout.splitlines()] == [str(files[0]), str(files[3])]
    assert len(ase.io.read(out, index=":")) == 2
    first, second, written = done.stderr.splitlines()
    assert "absent.xyz: no such file" in first and "NaCl.cif: it has no charges" in second and "written" in written


def test_a_frame_that_fails_does_not_lose_the_others(tmp_path):
    file, out = tmp_path / "run.xyz", tmp_path / "out.xyz"
    frames = [ase.build.bulk("NaCl", "rocksalt", a=a, cubic=True) for a in (5.5, 5.6, 5.7)]
    frames[1].positions[1] = frames[1].positions[0]
    ase.io.write(file, frames)
    options = ("--frames", ":", "--charges", "Na=1,Cl=-1", "--json", "--output", out)
    error = run("energy", file, *options, status=2)
    assert "run.xyz: frame 1: `positions`: expected no two atoms on one point" in error
    volumes = [atoms.get_volume() for atoms in ase.io.read(out, index=":")]
    np.testing.assert_allclose(volumes, [5.5**3, 5.7**3])


def test_molecules_wires_and_slabs(tmp_path):
    molecule, slab, wire = (
        ase.build.molecule("H2O"),
        ase.Atoms("NaCl", [[0, 0, 5], [2, 2, 7]], cell=[4, 4, 20], pbc=(1, 1, 0)),
        ase.Atoms("NaCl", [[0, 0, 0], [2, 0, 0]], cell=[4, 0, 0], pbc=(1, 0, 0)),
    )
    files = [tmp_path / "molecule.xyz", tmp_path / "slab.xyz", tmp_path / "wire.xyz"]
    for file, atoms in zip(files, (molecule, slab, wire)):
        ase.io.write(file, atoms)
    options = ("--charges", "H=1,O=-2,Na=1,Cl=-1", "--json", "--accuracy", 1e-9)
    first, second, third = map(json.loads, run("energy", *files, *options).splitlines())
    d = molecule.get_all_distances()
    q = np.array([-2.0 if symbol == "O" else 1.0 for symbol in molecule.symbols])
    pairs = sum(q[i] * q[j] / d[i, j] for i, j in ((0, 1), (0, 2), (1, 2)))
    assert abs(first["energy"] / EV_ANGSTROM - pairs) < 1e-12 and first["stress"] is first["alpha"] is None
    corrected = ewald_summation(
        slab.positions, [1.0, -1.0], slab.cell.array, pbc=slab.pbc, slab_correction=True, accuracy=1e-9
    )
    assert abs(second["energy"] / EV_ANGSTROM - corrected.sum()) < 1e-12 and len(second["stress"]) == 6
    # Madelung's constant of a chain.
    assert abs(third["energy"] / EV_ANGSTROM + np.log(2.0)) < 1e-13
    assert third["stress"] is third["alpha"] is third["volume"] is None
    text = run("energy", *files, "--charges", "H=1,O=-2,Na=1,Cl=-1")
    assert "over all pairs " in text and "over all pairs and images along the periodic axis" in text
    assert "(slab, corrected)" in text


def test_help_names_every_field_of_the_json(bare):
    (line,) = run("energy", bare, "--charges", "Na=1,Cl=-1", "--json").splitlines()
    text = " ".join(run("energy", "--help").split())
    listed = text.split("in --units: ")[1].replace(" (xx, yy, zz, yz, xz, xy)", "").split(" --output")[0]
    assert listed.split(", ") == list(json.loads(line))


@pytest.mark.parametrize("shown", ["results", "nothing"])
def test_progress_does_not_mix_with_results(tmp_path, shown):
    """On a terminal there is progress where the results go elsewhere."""
    file = tmp_path / "run.xyz"
    ase.io.write(file, [ase.build.bulk("NaCl", "rocksalt", a=a, cubic=True) for a in (5.5, 5.6)])
    command = [sys.executable, "-m", "madelung.cli", "energy", str(file), "--frames", ":", "--charges", "Na=1,Cl=-1"]
    ours, theirs = os.openpty()
    stdout = theirs if shown == "results" else subprocess.DEVNULL
    assert subprocess.run(command, stdout=stdout, stderr=theirs, timeout=120, check=False).returncode == 0
    os.close(theirs)
    text = b""
    while chunk := _read(ours):
        text += chunk
    os.close(ours)
    assert (b"frame 2 of 2" in text) == (shown == "nothing")
    assert (b"per atom" in text) == (shown == "results")


def _read(terminal):
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        # The other side is closed.
        return b""


CIF = """data_salt
_cell_length_a 5.64
_cell_length_b 5.64
_cell_length_c 5.64
_cell_angle_alpha 90
_cell_angle_beta 90
_cell_angle_gamma 90
_space_group_name_H-M_alt 'F m -3 m'
_space_group_IT_number 225
loop_
_atom_site_label
_atom_site_type_symbol
_atom_site_fract_x
_atom_site_fract_y
_atom_site_fract_z
_atom_site_charge
Na1 Na 0 0 0 1.0
Cl1 Cl 0.5 0.5 0.5 -1.0
"""
# In the order of LAMMPS: id, type, charge, position.
LAMMPS = """rock salt, primitive cell in its cubic setting

8 atoms
2 atom types

0.0 5.64 xlo xhi
0.0 5.64 ylo yhi
0.0 5.64 zlo zhi

Masses

1 22.98977
2 35.453

Atoms # charge

"""


def test_charges_wherever_files_keep_them(tmp_path):
    """Rock salt in each format, by its Madelung constant; and two charges without a cell."""
    salt = ase.build.bulk("NaCl", "rocksalt", a=5.64, cubic=True)
    charges = np.where(salt.numbers == 11, 1.0, -1.0)
    (tmp_path / "salt.cif").write_text(CIF)
    rows = [f"{n} {1 + (q < 0)} {q} {x} {y} {z}" for n, (q, (x, y, z)) in enumerate(zip(charges, salt.positions), 1)]
    (tmp_path / "data.salt").write_text(LAMMPS + "\n".join(rows) + "\n")
    crystal = [
        f"HETATM {n} {s.upper()} {s.upper()} 1 {x:.3f} {y:.3f} {z:.3f} {q:.4f} 1.5"
        for n, (s, q, (x, y, z)) in enumerate(zip(salt.symbols, charges, salt.positions), 1)
    ]
    (tmp_path / "salt.pqr").write_text("\n".join(["CRYST1 5.64 5.64 5.64 90 90 90 P 1", *crystal, "END", ""]))
    with_results = salt.copy()
    with_results.calc = SinglePointCalculator(with_results, charges=charges)
    ase.io.write(tmp_path / "salt.xyz", with_results, format="extxyz")
    assert not ase.io.read(tmp_path / "salt.xyz").has("initial_charges")
    files = [tmp_path / name for name in ("salt.cif", "data.salt", "salt.pqr", "salt.xyz")]
    lines = run("energy", "--json", "--accuracy", 1e-10, "--units", "reduced", *files).splitlines()
    lines += run(
        "energy", "--json", "--accuracy", 1e-10, "--units", "reduced", "--charge-column", "charges", files[3]
    ).splitlines()
    assert len(lines) == 5
    for line in map(json.loads, lines):
        assert (line["atoms"], line["formula"]) == (8, "Cl4Na4")
        assert line["energy"] == pytest.approx(-4 * 1.74756459463318 / 2.82, rel=1e-9)
    (tmp_path / "pair.pqr").write_text(
        "REMARK two charges\nATOM 1 CA ALA A 1 0.0 0.0 0.0 0.5 1.9\nATOM 2 1HB ALA A 1 0.0 0.0 2.0 -0.25 1.1\n"
    )
    (line,) = map(json.loads, run("energy", "--json", "--units", "reduced", tmp_path / "pair.pqr").splitlines())
    assert line["formula"] == "CH" and line["energy"] == pytest.approx(-0.0625, rel=1e-12)


def test_files_that_break_off(tmp_path):
    (tmp_path / "short.pqr").write_text("ATOM 1 CA ALA 1 0.0\n")
    assert "short.pqr: it cannot be read as pqr: ValueError: expected name" in run(
        "energy", tmp_path / "short.pqr", status=2
    )
    (tmp_path / "empty.pqr").write_text("END\n")
    assert "it has no ATOM records" in run("energy", tmp_path / "empty.pqr", status=2)
    (tmp_path / "unknown.cif").write_text(CIF.replace("0 0 0 1.0", "0 0 0 ?"))
    assert "unknown.cif: it has no charges" in run("energy", tmp_path / "unknown.cif", status=2)
    (tmp_path / "salt.unheard").write_text("of\n")
    assert "its format is not recognised" in run("energy", tmp_path / "salt.unheard", status=2)


def test_charges_by_column_and_label(tmp_path):
    file = tmp_path / "salt.xyz"
    atoms = ase.build.bulk("NaCl", "rocksalt", a=5.6402, cubic=True)
    atoms.arrays["q"] = np.array([1.0, -1.0] * 4)
    atoms.arrays["site"] = np.array(["up", "down"] * 4)
    ase.io.write(file, atoms)
    for options in (("--charge-column", "q"), ("--label-column", "site", "--charges", "up=1,down=-1")):
        output = run("energy", file, *options, "--accuracy", "1e-12", "--format", "extxyz")
        assert value(output, "energy") == pytest.approx(-2.4787271297233175, rel=1e-9)
    error = run("energy", file, "--label-column", "site", "--charges", "up=1", status=2)
    assert "--charges has none for down" in error


def test_known_values_from_another_file(tmp_path):
    file = shutil.copy(DATA / "rock_salt.xyz", tmp_path / "salt.xyz")
    assert "known energy" not in run("energy", file)
    known = tmp_path / "values.json"
    known.write_text(json.dumps({"salt.xyz": {"energy": -2.4787271297233175}}))
    assert "known energy" in run("energy", file, "--known", known)
    assert "does not name" in run("energy", DATA / "rutile.xyz", "--known", known, status=2)
    known.write_text("{")
    assert "values.json" in run("energy", file, "--known", known, status=2)
    known.write_text(json.dumps({"salt.xyz": {"madelung_constant": 1}}))
    assert "not as expected" in run("energy", file, "--known", known, status=2)


def test_refusals_are_one_clear_line(tmp_path, bare):
    wire = tmp_path / "wire.xyz"
    ase.io.write(wire, ase.Atoms("NaCl", [[0, 0, 0], [2, 0, 0]], cell=[0, 9, 9], pbc=(True, False, False)))
    molecule = tmp_path / "molecule.xyz"
    ase.io.write(molecule, ase.build.molecule("H2O"))
    junk = tmp_path / "junk.xyz"
    junk.write_text("this is not a structure\n")
    clash = tmp_path / "clash.xyz"
    ase.io.write(clash, ase.Atoms("NaCl", [[0, 0, 0]] * 2, cell=[4, 4, 4], pbc=True))
    salt = DATA / "rock_salt.xyz"
    cases = [
        ((tmp_path / "absent.xyz",), "no such file"),
        ((bare,), "no charges"),
        ((bare, "--charges", "Na=1"), "has none for Cl"),
        ((wire, "--charges", "Na=1,Cl=-1"), "`cell`: expected a lattice vector along the periodic axis"),
        ((molecule, "--charges", "H=1,O=-2", "--alpha", 0.3), "`alpha`: expected None with at most one periodic axis"),
        ((molecule, "--charges", "H=1,O=-2", "--method", "pme"), "`method`: expected 'direct'"),
        ((salt, "--method", "direct"), "`method`: expected 'ewald' or 'pme'"),
        ((junk,), "it cannot be read as"),
        ((clash, "--charges", "Na=1,Cl=-1"), "no two atoms on one point"),
        ((salt, "--accuracy", 2), "`accuracy`"),
        ((salt, "--alpha", -1), "`alpha`"),
        ((salt, "--output", tmp_path / "absent" / "out.xyz"), "cannot write"),
        ((salt, "--output", tmp_path / "out.cif"), "forces and stress go into files of .xyz, "),
        ((salt, "--output", junk), "it is there already (--overwrite replaces it)"),
        ((salt, "--output", salt, "--overwrite"), "it is one of the files to read"),
        ((salt, "--frames", "1:"), "there is no frame 1:, it has 1"),
        ((salt, "--frames", "first"), "there is no frame first, it has 1"),
        ((salt, "--format", "cif"), "it cannot be read as cif: its contents are not of that format"),
        ((tmp_path,), "it is a directory: give the files in it"),
        ((salt, "--charge-column", "q"), "--charge-column q is not in it; it has initial_charges, numbers, positions"),
        ((salt, "--charge-column", "positions"), "has not a number for each atom"),
        ((salt, "--charges", "Na=1,Cl=-1", "--label-column", "site"), "--label-column site is not in it"),
        ((salt, "--charges", "Na=1,Cl=-1", "--charge-column", "q"), "charges are given by --charges too"),
        ((salt, "--label-column", "site"), "labels need their charges"),
        ((salt, "--json", "--known", DATA / "known.json"), "--known: it is compared in the report"),
    ]
    for arguments, message in cases:
        error = run("energy", *arguments, status=2)
        assert message in error, arguments
        assert error.startswith("madelung: ")
        assert len(error.splitlines()) == 1, error
    assert "expected ELEMENT=CHARGE" in run("energy", salt, "--charges", "Na", status=2)
    assert "expected one charge for Na, got two" in run("energy", salt, "--charges", "Na=1,Na=2", status=2)
    assert "usage" in run(status=2)


def test_info():
    output = run("info")
    for word in ("madelung 0.", "instruction set", "threads", "cpu", "madelung.ewald_summation v1"):
        assert word in output


def test_check_passes():
    output = run("check")
    assert "all checks passed" in output
    assert "FAIL" not in output
    assert output.count("PASS") >= 14
    assert "fluorite, float64" in output


def test_check_fails_where_a_number_is_wrong(monkeypatch, capsys):
    from madelung import _crystals, cli

    wrong = _crystals.Crystal("wrong", _crystals.CRYSTALS[0].sublattices, 0.5, 4, 1.75)
    monkeypatch.setattr(_crystals, "CRYSTALS", (wrong,))
    assert cli.main(["check"]) == 1
    assert "FAIL  wrong, float64" in capsys.readouterr().out


def test_the_script_is_installed():
    script = shutil.which("madelung", path=str(sys.executable).rsplit("/", 1)[0])
    assert script is not None
    assert "madelung 0." in subprocess.run([script, "--version"], capture_output=True, text=True, check=True).stdout


def test_a_mesh():
    file = DATA / "rutile.xyz"
    energy = value(run("energy", file, "--accuracy", "1e-9", "--method", "ewald"), "energy")
    output = run("energy", file, "--accuracy", "1e-6", "--method", "pme")
    assert value(output, "energy") == pytest.approx(energy, rel=1e-6)
    assert "mesh " in output and "spline order " in output
    (frame,) = map(json.loads, run("energy", file, "--method", "pme", "--json").splitlines())
    assert len(frame["mesh_dimensions"]) == 3 and frame["spline_order"] in range(4, 9) and frame["k_cutoff"] is None
    assert "`k_cutoff`: expected None on a mesh" in run("energy", file, "--method", "pme", "--k-cutoff", 3, status=2)


def test_choices(tmp_path):
    """Sums of each accuracy, whose errors beside an accurate sum are below those that are told."""
    file = DATA / "triclinic.xyz"
    rows = [json.loads(line) for line in run("choose", file, "--json").splitlines()]
    assert [row["accuracy"] for row in rows] == [1e-4, 1e-4, 1e-6, 1e-6, 1e-8, 1e-8]
    assert sum(row["fastest"] for row in rows) == 3 and all(row["seconds"] > 0 for row in rows)
    atoms = ase.io.read(file)
    system = (atoms.positions, atoms.get_initial_charges(), atoms.cell.array)
    exact = ewald_summation(*system, accuracy=1e-12, compute_forces=True)[1]
    unit = np.mean(system[1] ** 2) / (atoms.get_volume() / len(atoms)) ** (2 / 3)
    for row in rows:
        of = {name: row[name] for name in ("cutoff", "k_cutoff", "mesh_dimensions", "spline_order") if row[name]}
        call = {"ewald_summation": ewald_summation, "particle_mesh_ewald": particle_mesh_ewald}[row["call"]]
        forces = call(*system, row["alpha"], accuracy=None, compute_forces=True, **of)[1]
        error = np.sqrt(((forces - exact) ** 2).sum(1).mean()) / unit
        assert row["predicted_force_error"] <= row["accuracy"] and error < row["accuracy"], row
    table = run("choose", file, "--accuracy", "1e-5")
    assert table.count("1e-05") == 2 and sum(line.startswith("*") for line in table.splitlines()) == 1
    molecule = ase.build.molecule("H2O")
    molecule.set_initial_charges([-0.8, 0.4, 0.4])
    ase.io.write(tmp_path / "water.xyz", molecule)
    assert "all pairs" in run("choose", tmp_path / "water.xyz")
    assert "no such file" in run("choose", tmp_path / "none.xyz", file, status=2)
    assert "`accuracy`: expected a relative force error" in run("choose", file, "--accuracy", "2", status=2)
