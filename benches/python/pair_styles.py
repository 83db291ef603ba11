"""Styles of Madelung beside LAMMPS' own in one run, in the environment of `make lammps`.

Times of a directed pair (each pair from both sides), energies and forces, within the list of a cutoff and skin; and of
whole steps of molten salt, with `pppm` of LAMMPS beside both pair styles, and with `madelung/pme` on the same mesh. The
least of several runs in turn.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

BIN = Path(sys.executable).parent
IONS = """
units metal
atom_style charge
lattice custom 5.6402 basis 0 0 0 basis 0 0.5 0.5 basis 0.5 0 0.5 basis 0.5 0.5 0 &
    basis 0.5 0.5 0.5 basis 0.5 0 0 basis 0 0.5 0 basis 0 0 0.5
region all block 0 {cells} 0 {cells} 0 {cells}
create_box 2 all
create_atoms 1 box basis 5 2 basis 6 2 basis 7 2 basis 8 2
mass 1 22.99
mass 2 35.45
set type 1 charge 1
set type 2 charge -1
displace_atoms all random 0.1 0.1 0.1 7
"""
ALONE = """
pair_style {pair} 9.0
pair_coeff * *
kspace_style ewald 1e-5
kspace_modify gewald 0.32 compute no
neighbor 1.0 bin
neigh_modify delay 1000 every 1000 check no
thermo 1000
run {steps}
"""
# By LAMMPS' styles, and by Madelung's: sigma of pairs, exponents as 1/ρ.
BORN = [(0.2637, 2.340, 1.048553, 0.499369), (0.2110, 2.755, 6.990358, 8.675720), (0.1582, 3.170, 72.40217, 145.4285)]
MELT = """
pair_style hybrid/overlay {pair}
{coefficients}
kspace_style {waves} 1e-5
kspace_modify mesh {nodes} {nodes} {nodes} gewald 0.31 order 5
neighbor 1.0 bin
neigh_modify every 1 delay 0 check yes
velocity all create 2400 1 loop geom
fix 1 all nve
timestep 0.001
thermo 1000
run {steps}
"""


def of_melt(is_ours: bool) -> dict[str, str]:
    types = ["1 1", "1 2", "2 2"]
    if is_ours:
        rows = [
            f"pair_coeff {t} madelung/pair {a} {1 / 0.317:.15g} {s} {c} {d}" for t, (a, s, c, d) in zip(types, BORN)
        ]
        pair, coulomb = "madelung/coul/long 9.0 madelung/pair law=born_mayer 9.0 end cut", "madelung/coul/long"
    else:
        rows = [f"pair_coeff {t} born {a} 0.317 {s} {c} {-d}" for t, (a, s, c, d) in zip(types, BORN)]
        pair, coulomb = "coul/long 9.0 born 9.0", "coul/long"
    return {"pair": pair, "coefficients": "\n".join([f"pair_coeff * * {coulomb}", *rows])}


def run(text: str, ranks: int = 1) -> str:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "in.bench").write_text(text)
        command = [BIN / "mpiexec", "-n", str(ranks), BIN / "lmp", "-log", "none", "-in", "in.bench"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if "Loop time" not in done.stdout:
            sys.exit(done.stdout + done.stderr)
        return done.stdout


def number(pattern: str, text: str) -> float:
    return float(re.findall(pattern, text, re.MULTILINE)[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=6, help="cells of eight ions along each axis")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=1, help="processes of whole steps")
    given = parser.parse_args()
    found: dict[str, list[tuple[float, ...]]] = {}
    for _ in range(given.runs):
        for name in ("madelung/coul/long", "coul/long", "coul/long without its table"):
            text = (IONS + ALONE).format(cells=given.cells, pair=name.split()[0], steps=given.steps)
            if "without" in name:
                text = text.replace("pair_coeff * *", "pair_modify table 0\npair_coeff * *")
            said = run(text)
            pairs = 2.0 * number(r"Total # of neighbors = (\d+)", said)
            seconds = number(r"^Pair +\| [\d.e+-]+ +\| ([\d.e+-]+)", said)
            found.setdefault(name, []).append((1e9 * seconds / (given.steps + 1) / pairs,))
        for name in ("madelung and its mesh", "madelung", "LAMMPS"):
            waves, of = "madelung/pme" if "mesh" in name else "pppm", of_melt("madelung" in name)
            keys = {"cells": given.cells, "steps": given.steps, "waves": waves, "nodes": 6 * given.cells}
            said = run((IONS + MELT).format(**keys, **of), given.ranks)
            parts = [number(rf"^{part} +\| [\d.e+-]+ +\| ([\d.e+-]+)", said) for part in ("Pair", "Kspace", "Neigh")]
            times = (number(r"Loop time of ([\d.e+-]+)", said), *parts)
            found.setdefault(f"step by {name}", []).append(tuple(1e3 * t / given.steps for t in times))
    for name, rows in found.items():
        least = np.min(rows, axis=0)
        unit = "ns a directed pair" if len(least) == 1 else "ms a step: whole, pairs, waves, lists"
        print(f"{name:30} {' '.join(f'{x:8.2f}' for x in least)}  {unit}")


if __name__ == "__main__":
    main()
