"""Gradients of several processes: those of one, without `DistributedDataParallel`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from scripts import load, run
from torch.nn.parallel import DistributedDataParallel

from conftest import spawned

pytestmark = pytest.mark.host("the examples run there")

example = load("train_ddp")
# Structures of each process: more in one than in the other, and of other sizes.
PARTS = ([0, 1, 4], [2, 3])


def potential() -> Any:
    """One whose charges and energies are not those at the start of a training, where the last layer is zero."""
    torch.manual_seed(3)
    network = example.Network()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return example.Potential(example.Energy(network), hybrid=True).double()


def gradient(of: Any, loss: torch.Tensor) -> torch.Tensor:
    loss.backward()
    return torch.nn.utils.parameters_to_vector(p.grad for p in of.parameters())


def process(rank: int, folder: Path, data: Any, units: dict[str, float]) -> None:
    torch.set_num_threads(1)
    # The file is where processes find each other, so there is no port to be free.
    dist.init_process_group("gloo", f"file://{folder}/processes", rank=rank, world_size=len(PARTS))
    of = DistributedDataParallel(potential())
    batch = example.collate([data[n] for n in PARTS[rank]])
    torch.save(gradient(of, example.loss(of(batch), batch, units)), folder / f"{rank}.pt")
    dist.destroy_process_group()


def test_gradients_of_two_processes(tmp_path: Path) -> None:
    data = example.structures(5, seed=5)
    units = example.spread(data)
    of, batch = potential(), example.collate(data)
    parts = example.errors(of(batch), batch)
    expected = gradient(of, sum(parts[name] / units[name] for name in ("energy", "forces")))

    spawned(process, (tmp_path, data, units), len(PARTS))
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(len(PARTS))]
    assert torch.equal(*found)
    assert torch.linalg.norm(found[0] - expected) <= 1e-12 * torch.linalg.norm(expected)


def test_the_script() -> None:
    output = run("train_ddp", "--epochs", 2, "--systems", 5, "--batch", 2)
    losses = [float(x) for x in re.findall(r"loss (\S+)", output)]
    assert len(losses) == 2 and losses[1] < losses[0]
    assert re.search(r"2 processes, not trained on: \S+ meV/atom", output)
