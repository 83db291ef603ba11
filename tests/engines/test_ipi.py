"""The example of i-PI: its server and our client as processes that talk over a unix socket."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

import ase.io
import numpy as np
import pytest
from ase.build import bulk
from ase.calculators.socketio import actualunixsocketname

from madelung.numpy import born_mayer, ewald_summation
from madelung.units import EV_ANGSTROM

ROOT = Path(__file__).resolve().parents[2]
# What a process may take to start, run and end, in s, on a machine with other work.
PATIENCE = 180.0
# Fumi and Tosi: A, 1/ρ, σ, C and D of Na-Na, Na-Cl and Cl-Cl.
TABLES = [(0.26375, 0.211, 0.15825), (1 / 0.317,) * 3, (2.34, 2.755, 3.17), (1.05, 6.99, 72.4), (0.499, 8.68, 145.4)]


class Run:
    """A run of the example in a folder, with what both processes have printed."""

    def __init__(self, folder: Path, steps: int, client: str, stack: ExitStack) -> None:
        self.folder = folder
        example, address = ROOT / "examples" / "ipi", f"madelung_{uuid4().hex}"
        given = (example / "input.xml").read_text(encoding="utf-8")
        for before, after in (("<address>madelung", f"<address>{address}"), ("steps>200", f"steps>{steps}")):
            assert before in given
            given = given.replace(before, after)
        (folder / "input.xml").write_text(given, encoding="utf-8")
        (folder / "client.py").write_text(client, encoding="utf-8")
        subprocess.run([sys.executable, str(example / "start.py")], cwd=folder, check=True, timeout=PATIENCE)
        # Where i-PI and ASE have their sockets.
        socket = Path(actualunixsocketname(address))
        stack.callback(socket.unlink, missing_ok=True)
        self.server = self._started(stack, "server", str(Path(sys.executable).parent / "i-pi"), "input.xml")
        self.wait(lambda: socket.exists() or self.server.poll() is not None)
        self.client = self._started(stack, "client", "client.py", address)

    def _started(self, stack: ExitStack, name: str, *command: str) -> subprocess.Popen[bytes]:
        environment = os.environ | {"PYTHONPATH": str(ROOT / "python")}
        log = stack.enter_context((self.folder / f"{name}.log").open("wb"))
        of = {"cwd": self.folder, "env": environment, "stdout": log, "stderr": log}
        process = subprocess.Popen([sys.executable, *command], **of)
        stack.callback(process.wait)
        stack.callback(process.kill)
        return process

    def wait(self, condition: Callable[[], bool]) -> None:
        """Waits until a condition holds."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, self.printed("server") + self.printed("client")
            time.sleep(0.05)

    def ended(self) -> tuple[int, int]:
        """The exit statuses of server and client, which end by themselves."""
        self.wait(lambda: None not in (self.server.poll(), self.client.poll()))
        return self.server.returncode, self.client.returncode

    def printed(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(encoding="utf-8")

    @property
    def steps(self) -> int:
        """The number of steps whose energies i-PI has written."""
        file = self.folder / "salt.md"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return sum(len(line.split()) == 5 for line in lines if not line.startswith("#"))


@contextmanager
def running(folder: Path, steps: int = 200, client: str | None = None) -> Iterator[Run]:
    """A run of which no process and no socket is left behind, however the block ends."""
    text = client or (ROOT / "examples" / "ipi" / "client.py").read_text(encoding="utf-8")
    with ExitStack() as stack:
        yield Run(folder, steps, text, stack)


def energy(atoms: ase.Atoms) -> float:
    types = (atoms.numbers == 17).astype(np.int32)
    system = atoms.positions, 1.0 - 2.0 * types, atoms.cell.array
    of_charges = ewald_summation(*system, accuracy=1e-10, prefactor=EV_ANGSTROM).sum()
    tables = [np.array([[a, b], [b, c]]) for a, b, c in TABLES]
    return float(of_charges + born_mayer(atoms.positions, types, *tables, 8.0, atoms.cell.array).sum())


def test_constant_energy(tmp_path: Path) -> None:
    with running(tmp_path) as run:
        assert run.ended() == (0, 0), run.printed("server") + run.printed("client")
    step, _, conserved, potential, kinetic = np.loadtxt(tmp_path / "salt.md").T
    assert step.tolist() == list(range(201))
    start = energy(ase.io.read(tmp_path / "start.xyz"))
    # Of each of 64 ions at 2.82 Å, to the accuracy of the client.
    assert potential[0] == pytest.approx(start, rel=0, abs=64 * 1e-6 * EV_ANGSTROM / 2.82)
    # Verlet's energy of a mode moves by (ωΔt)²/4 of it at most; 0.07/fs is above the longitudinal modes of these ions,
    # ω² = ω_TO² + 4πnq²/μ = (0.031/fs)² + (0.053/fs)².
    of_motion = kinetic[0] + start - energy(bulk("NaCl", "rocksalt", a=5.64, cubic=True).repeat(2))
    assert np.ptp(conserved) < 0.07**2 / 4 * of_motion
    assert np.ptp(kinetic) > 0.2 * of_motion


def test_a_client_with_bad_input(tmp_path: Path) -> None:
    """It says what is wrong, and i-PI ends, without a step."""
    client = (ROOT / "examples" / "ipi" / "client.py").read_text(encoding="utf-8")
    assert '"Cl": -1}' in client
    with running(tmp_path, client=client.replace('"Cl": -1}', '"K": -1}')) as run:
        assert run.ended()[1] == 1
        assert "`charges`: expected one for each element of the atoms, got none for Cl" in run.printed("client")
        assert "Client shutdown" in run.printed("server")
        assert run.steps == 0


@pytest.mark.parametrize("name", ["server", "client"])
def test_one_dies(tmp_path: Path, name: str) -> None:
    """The other one ends, too."""
    with running(tmp_path, steps=10**6) as run:
        run.wait(lambda: run.steps > 5 or run.server.poll() is not None)
        getattr(run, name).kill()
        run.ended()
        assert 5 < run.steps < 10**6
