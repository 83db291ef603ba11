"""One system over several processes of MPI, by mpi4py: the results of one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from madelung.numpy import particle_mesh_ewald

PROGRAM = """
import sys
import numpy as np
from mpi4py import MPI
from madelung.processes import MpiProcesses, particle_mesh_ewald
world = MPI.COMM_WORLD
given = np.load(sys.argv[1])
own = np.arange(len(given["charges"])) % world.size == world.rank
r, q, cell = given["positions"][own], given["charges"][own], given["cell"]
energy, forces = particle_mesh_ewald(MpiProcesses(world), r, q, cell, accuracy=1e-8, compute_forces=True)
all_forces = np.zeros((len(own), 3))
all_forces[own] = forces
total, all_forces = world.allreduce(energy[0]), world.allreduce(all_forces)
if world.rank == 0:
    np.savez(sys.argv[2], energy=total, forces=all_forces)
"""


@pytest.mark.parametrize("ranks", [1, 3])
def test_processes_of_mpi(tmp_path: Path, ranks: int) -> None:
    random = np.random.default_rng(5)
    cell = np.array([[12.0, 0.0, 0.0], [3.0, 11.0, 0.0], [0.0, -1.0, 10.0]])
    positions, charges = random.random((80, 3)) @ cell, random.normal(size=80)
    np.savez(tmp_path / "given.npz", positions=positions, charges=charges, cell=cell)
    command = [Path(sys.executable).parent / "mpiexec", "-n", str(ranks), sys.executable, "-c", PROGRAM]
    subprocess.run([*command, tmp_path / "given.npz", tmp_path / "found.npz"], check=True, timeout=120)
    found = np.load(tmp_path / "found.npz")
    energies, forces = particle_mesh_ewald(positions, charges, cell, accuracy=1e-8, compute_forces=True)
    assert float(found["energy"]) == pytest.approx(float(energies.sum()), rel=1e-12)
    np.testing.assert_allclose(found["forces"], forces, rtol=0.0, atol=1e-12 * np.abs(forces).max())
