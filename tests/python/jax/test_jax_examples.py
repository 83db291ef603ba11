"""The examples run, short ones."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from jax_cases import ON_CPU

from conftest import DEVICE, ROOT


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(ROOT / "examples" / name), *arguments]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu" if ON_CPU else f"{DEVICE},cpu"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_energy_is_conserved(tmp_path: Path) -> None:
    said = run("jax_md.py", "--steps", "50", "--size", "3", "--plot", str(tmp_path / "drift.png"))
    assert "216 ions, 50 steps" in said


@pytest.mark.skipif(not ON_CPU, reason="the example makes its devices of the host")
@pytest.mark.parametrize("processes", [1, 2])
def test_devices_share_the_work(processes: int) -> None:
    said = run("jax_sharded.py", "--processes", str(processes))
    assert said.count("the same bits as on one device") == processes


def optical_phonon_of_silicon(bond: float) -> float:
    """The frequency at Γ in THz by the potential of Stillinger and Weber, in closed form, for a bond length in Å.

    Where the sublattices move apart by u, an atom's four bonds cost ½ (4/3 φ″ + 8/3 φ′/r) u². Its six cosines, −1/3 at
    rest, change by −4/3 u · (n_j + n_k)/r, whose squares add up to 128/27 u²/r²; so do those of the other atom.
    """
    epsilon, sigma = 2.1683, 2.0951
    x = bond / sigma
    # φ = A ε (B/x⁴ − 1) g, g = exp(1/(x − a)), by x.
    g = 7.049556277 * epsilon * math.exp(1 / (x - 1.8))
    p = [0.6022245584 / x**4 - 1, -4 * 0.6022245584 / x**5, 20 * 0.6022245584 / x**6]
    d = [-1 / (x - 1.8) ** 2, 2 / (x - 1.8) ** 3 + 1 / (x - 1.8) ** 4]
    first, second = g * (p[1] + p[0] * d[0]), g * (p[2] + 2 * p[1] * d[0] + p[0] * d[1])
    angles = 2 * 2 * 21.0 * epsilon * math.exp(2 * 1.2 / (x - 1.8)) * 128 / 27 / x**2
    stiffness = (4 / 3 * second + 8 / 3 * first / x + angles) / sigma**2
    joules, metres, kilograms = 1.602176634e-19, 1e-10, 1.66053906660e-27
    reduced_mass = 28.0855 / 2 * kilograms
    return math.sqrt(stiffness * joules / metres**2 / reduced_mass) / (2e12 * math.pi)


def test_phonons_of_silicon(tmp_path: Path) -> None:
    said = run("phonons.py", "--plot", str(tmp_path / "phonons.png"))
    gamma, x = ([float(f) for f in line.split(",")] for line in re.findall(r"frequencies at .\s+(.*) THz", said))
    assert gamma[:3] == [0.0, 0.0, 0.0]
    assert gamma[3:] == pytest.approx(3 * [optical_phonon_of_silicon(5.431 * math.sqrt(3) / 4)], abs=1e-4)
    # Along Γ-X modes are transverse pairs, and at X longitudinal sound meets the optical branch.
    assert x[0::2] == pytest.approx(x[1::2], abs=1e-3)
    for rule in (r"acoustic sum rule at Γ\s+(\S+)", r"D\(q\) less its adjoint\s+(\S+)"):
        assert float(re.search(rule, said)[1]) < 1e-12
    constants = [float(c) for c in re.search(r"C11, C44\s+(\S+), (\S+) GPa", said).groups()]
    assert constants == pytest.approx([151.4, 56.4], abs=0.1)
