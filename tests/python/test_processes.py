"""One system over several processes of PyTorch and JAX: the results of one process."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import spawned
from madelung.numpy import particle_mesh_ewald as of_one
from madelung.processes import particle_mesh_ewald

GIVEN: dict[str, Any] = {"cutoff": 6.0, "mesh_dimensions": (20, 18, 24), "spline_order": 6, "prefactor": 14.4}
ALPHA = 0.5
EVERYTHING = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}


def system() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ions on displaced sites of an oblique cell, not neutral, some of them outside of it."""
    random = np.random.default_rng(7)
    cell = np.array([[11.0, 0.0, 0.5], [2.0, 10.0, 0.0], [-1.0, 1.5, 13.0]])
    sites = np.stack(np.meshgrid(*[np.arange(4)] * 3, indexing="ij"), -1).reshape(-1, 3)
    places = (sites + 0.4 * random.random(sites.shape)) / 4 + random.integers(-1, 2, sites.shape)
    return places @ cell, random.normal(size=len(places)), cell


def own(rank: int, ranks: int) -> np.ndarray:
    """Atoms of a process: slices of the cell, of which the last process has none."""
    positions, _, cell = system()
    slices = np.floor((positions @ np.linalg.inv(cell))[:, 0] % 1.0 * max(ranks - 1, 1)).astype(int)
    return np.flatnonzero(slices == rank)


def compare(found: list[tuple[np.ndarray, ...]]) -> None:
    """Results of all processes against those of one."""
    positions, charges, cell = system()
    expected = of_one(positions, charges, cell, ALPHA, accuracy=None, **GIVEN, **EVERYTHING)
    energies, forces, potentials, virial = (np.asarray(x) for x in expected)
    ranks = len(found)
    size = np.abs(energies).sum()
    assert sum(one[0][0] for one in found) == pytest.approx(energies.sum(), abs=1e-13 * size)
    for rank, one in enumerate(found):
        atoms = own(rank, ranks)
        np.testing.assert_allclose(one[1], forces[atoms], rtol=0.0, atol=1e-12 * np.abs(forces).max())
        np.testing.assert_allclose(one[2], potentials[atoms], rtol=0.0, atol=1e-12 * np.abs(potentials).max())
    share = sum(one[3] for one in found)
    np.testing.assert_allclose(share, virial, rtol=0.0, atol=1e-12 * np.abs(virial).max())


class Alone:
    """One process, which sends itself what it has."""

    rank, ranks = 0, 1

    def all_to_all(self, send: np.ndarray, sent: list[int], received: list[int]) -> np.ndarray:
        assert sent == received == [len(send)]
        return send


def test_one_process() -> None:
    arrays = system()
    compare([particle_mesh_ewald(Alone(), *arrays, ALPHA, **GIVEN, **EVERYTHING)])
    (energies,) = particle_mesh_ewald(Alone(), *arrays, ALPHA, energy_reduction="atom", **GIVEN)
    expected = of_one(*arrays, ALPHA, accuracy=None, **GIVEN)
    np.testing.assert_allclose(energies, expected, rtol=0.0, atol=1e-12 * np.abs(expected).max())
    # All numbers chosen, as one process chooses them.
    (energy,) = particle_mesh_ewald(Alone(), *arrays, accuracy=1e-8)
    assert energy[0] == pytest.approx(np.sum(of_one(*arrays, accuracy=1e-8)), rel=1e-13)


def test_words_of_errors() -> None:
    positions, charges, cell = system()

    class Broken(Alone):
        def all_to_all(self, send: np.ndarray, sent: list[int], received: list[int]) -> np.ndarray:
            raise ConnectionError("no word from process 1")

    class Short(Alone):
        def all_to_all(self, send: np.ndarray, sent: list[int], received: list[int]) -> np.ndarray:
            return send[1:]

    class Odd(Alone):
        rank = 1

    with pytest.raises(ValueError, match="`rank`: expected a process from 0 to below their number, got 1 of 1"):
        particle_mesh_ewald(Odd(), positions, charges, cell)
    with pytest.raises(ValueError, match="`positions`: expected atoms within 1e6 cells of the origin"):
        particle_mesh_ewald(Alone(), positions + 1e9, charges, cell)
    of_numbers = [("mesh_dimensions", 20), ("mesh_dimensions", (8, 8)), ("spline_order", 0), ("spline_order", 5.0)]
    of_numbers += [("alpha", -1.0), ("accuracy", "high"), ("prefactor", np.inf), ("compute_forces", 1)]
    for name, bad in of_numbers:
        with pytest.raises((TypeError, ValueError), match=f"`{name}`: expected"):
            particle_mesh_ewald(Alone(), positions, charges, cell, **{name: bad})
    for name, bad in (("positions", positions.astype(complex)), ("charges", charges.astype(np.float16))):
        arrays = {"positions": positions, "charges": charges, "cell": cell, name: bad}
        with pytest.raises(TypeError, match=f"`{name}`: expected float32 or float64"):
            particle_mesh_ewald(Alone(), **arrays)
    with pytest.raises(ConnectionError, match="no word from process 1"):
        particle_mesh_ewald(Broken(), positions, charges, cell)
    with pytest.raises(ValueError, match=r"`all_to_all`: expected \d+ numbers, got \d+"):
        particle_mesh_ewald(Short(), positions, charges, cell)
    with pytest.raises(ValueError, match=r"`charges`: expected shape \(64,\), got \(63,\)"):
        particle_mesh_ewald(Alone(), positions, charges[1:], cell)
    with pytest.raises(ValueError, match="`positions`: expected finite numbers, got NaN"):
        particle_mesh_ewald(Alone(), positions * np.nan, charges, cell)
    with pytest.raises(ValueError, match="`cell`"):
        particle_mesh_ewald(Alone(), positions, charges, 0.0 * cell)
    with pytest.raises(ValueError, match="`energy_reduction`: expected 'atom' or 'system'"):
        particle_mesh_ewald(Alone(), positions, charges, cell, energy_reduction="sum")


def test_tensors_of_one_process() -> None:
    torch = pytest.importorskip("torch")
    positions, charges, cell = system()
    r = torch.from_numpy(positions).requires_grad_()
    (expected,) = particle_mesh_ewald(Alone(), positions, charges, cell, ALPHA, **GIVEN)
    # Lists keep their digits beside tensors.
    (energy,) = particle_mesh_ewald(Alone(), r, charges.tolist(), cell.tolist(), ALPHA, **GIVEN)
    assert energy.detach().numpy() == expected
    (gradient,) = torch.autograd.grad(energy.sum(), r)
    _, forces = of_one(positions, charges, cell, ALPHA, accuracy=None, **GIVEN, compute_forces=True)
    np.testing.assert_allclose(-gradient.numpy(), forces, rtol=0.0, atol=1e-12 * np.abs(forces).max())
    # Gradients have the dtype of their tensors.
    narrow = [torch.tensor(x, dtype=torch.float32).requires_grad_() for x in (positions, charges)]
    (energy,) = particle_mesh_ewald(Alone(), *narrow, cell, ALPHA, **GIVEN)
    by = torch.autograd.grad(energy.sum(), narrow)
    assert energy.dtype == torch.float64 and all(x.dtype == torch.float32 for x in by)
    np.testing.assert_allclose(-by[0].numpy(), forces, rtol=0.0, atol=1e-4 * np.abs(forces).max())
    with pytest.raises(NotImplementedError, match="`alpha`: expected no tensor with requires_grad"):
        particle_mesh_ewald(Alone(), r, charges, cell, torch.tensor(ALPHA, requires_grad=True), **GIVEN)


def of_process(rank: int, ranks: int, folder: Path) -> None:
    """A process of PyTorch: all results, gradients through charges by positions, and errors of one process."""
    import torch
    import torch.distributed as dist

    from madelung.processes import TorchProcesses

    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/processes", rank=rank, world_size=ranks)
    exchange, atoms = TorchProcesses(), own(rank, ranks)
    positions, charges, cell = (torch.from_numpy(x) for x in system())
    r, q = positions[atoms], charges[atoms]
    with torch.no_grad():
        found = particle_mesh_ewald(exchange, r, q, cell, ALPHA, **GIVEN, **EVERYTHING)
    r.requires_grad_()
    (energy,) = particle_mesh_ewald(exchange, r, q + torch.sin(r.sum(1)), cell, ALPHA, **GIVEN)
    (3.0 * energy).sum().backward()
    words = ""
    try:
        particle_mesh_ewald(exchange, r, q * (torch.nan if rank == 0 else 1.0), cell, ALPHA, **GIVEN)
    except ValueError as error:
        words = str(error)
    try:
        particle_mesh_ewald(exchange, r, q, cell.clone().requires_grad_(rank == 0), ALPHA, **GIVEN)
    except (NotImplementedError, ValueError) as error:
        words += "\n" + str(error)
    try:
        particle_mesh_ewald(exchange, r, q, cell, ALPHA, mesh_dimensions=20 if rank == 0 else (20, 20, 20))
    except (TypeError, ValueError) as error:
        words += "\n" + str(error)
    np.savez(folder / f"{rank}.npz", *(x.numpy() for x in found), gradient=r.grad.numpy(), words=words)
    dist.destroy_process_group()


@pytest.mark.parametrize("ranks", [2, 4])
def test_processes_of_torch(tmp_path: Path, ranks: int) -> None:
    torch = pytest.importorskip("torch")
    spawned(of_process, (ranks, tmp_path), ranks)
    files = [np.load(tmp_path / f"{rank}.npz") for rank in range(ranks)]
    compare([tuple(file[f"arr_{k}"] for k in range(4)) for file in files])
    positions, charges, cell = (torch.from_numpy(x) for x in system())
    from madelung.torch import particle_mesh_ewald as in_graph

    positions.requires_grad_()
    energies = in_graph(positions, charges + torch.sin(positions.sum(1)), cell, ALPHA, accuracy=None, **GIVEN)
    (3.0 * energies).sum().backward()
    for rank, file in enumerate(files):
        expected = positions.grad[own(rank, ranks)].numpy()
        np.testing.assert_allclose(file["gradient"], expected, rtol=0.0, atol=1e-11 * np.abs(expected).max(initial=1.0))
        words = str(file["words"]).split("\n")
        if rank == 0:
            assert words[0] == "`charges`: expected finite numbers, got NaN"
            assert words[1].startswith("`cell`: expected no tensor with requires_grad")
            assert words[2] == "`mesh_dimensions`: expected integers, got 20"
        else:
            same = "`exchange`: expected the same cell, mesh and options in all processes, got an error in process 0"
            assert words == [same] * 3


JAX = """
import sys
import jax
import jax.numpy as jnp
import numpy as np
address, ranks, rank, precise, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "1", sys.argv[5]
sys.path.insert(0, sys.argv[6])
jax.config.update("jax_enable_x64", precise)
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(address, ranks, rank)
from madelung.processes import JaxProcesses, particle_mesh_ewald
from test_processes import ALPHA, EVERYTHING, GIVEN, own, system
atoms = own(rank, ranks)
positions, charges, cell = system()
arrays = [x if not precise else jnp.asarray(x) for x in (positions[atoms], charges[atoms], cell)]
found = particle_mesh_ewald(JaxProcesses(), *arrays, ALPHA, **GIVEN, **EVERYTHING)
assert all(isinstance(x, jax.Array) == precise for x in found)
np.savez(f"{folder}/{rank}.npz", *map(np.asarray, found))
"""


@pytest.mark.parametrize(("ranks", "precise"), [(2, True), (4, True), (2, False)])
def test_processes_of_jax(tmp_path: Path, ranks: int, precise: bool) -> None:
    """Messages keep all bits, whether JAX has float64 or not."""
    pytest.importorskip("jax")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [sys.executable, "-c", JAX, address, str(ranks)]
    rest = [str(int(precise)), str(tmp_path), str(Path(__file__).parent)]
    running = [subprocess.Popen([*command, str(rank), *rest]) for rank in range(ranks)]
    try:
        assert all(process.wait(timeout=240) == 0 for process in running)
    finally:
        for process in running:
            process.kill()
            process.wait()
    files = [np.load(tmp_path / f"{rank}.npz") for rank in range(ranks)]
    compare([tuple(file[f"arr_{k}"] for k in range(4)) for file in files])
