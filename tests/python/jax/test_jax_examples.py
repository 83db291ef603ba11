"""The examples run, short ones."""

from __future__ import annotations

import os
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
