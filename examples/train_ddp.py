"""Training in several processes: `DistributedDataParallel` over the potential of `examples/train_potential.py`.

A network of energies and charges learns energies and forces, in hybrid mode. Each process has its part of the
structures of a step. The loss is the mean over all of them, so how they are spread changes gradients by rounding alone.

    python examples/train_ddp.py                                    # two processes on this machine
    torchrun --nproc-per-node 4 examples/train_ddp.py               # four
    torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint HOST:29400 examples/train_ddp.py
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from train_potential import Batch, Energy, Network, Potential, collate, errors, report, spread, structures

LEARNED = ("energy", "forces")


def loss(found: Batch, batch: Batch, units: dict[str, float]) -> torch.Tensor:
    """The mean over structures and ions of all processes, whose gradient is the mean of those of the processes."""
    counts = torch.tensor([len(batch[name]) for name in LEARNED], dtype=torch.float64)
    total = counts.clone()
    dist.all_reduce(total)
    parts, weights = errors(found, batch), dist.get_world_size() * counts / total
    return sum(weight * parts[name] / units[name] for name, weight in zip(LEARNED, weights))


def train(options: argparse.Namespace) -> tuple[torch.nn.Module, list[float]]:
    """The potential, alike in all processes, and the mean loss of each epoch."""
    torch.manual_seed(options.seed)
    data = structures(options.systems, options.seed)
    units = spread(data)
    potential = DistributedDataParallel(Potential(Energy(Network()), hybrid=True).double())
    optimizer = torch.optim.Adam(potential.parameters(), lr=options.rate)
    # Each process has as many structures as the others: where that does not work out, some are taken twice.
    sampler = DistributedSampler(data, seed=options.seed)
    batches = DataLoader(data, options.batch, sampler=sampler, collate_fn=collate)
    losses = []
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        total = torch.zeros((), dtype=torch.float64)
        for batch in batches:
            # Forces are results of the wrapped module: it contains the call of `autograd.grad`.
            value = loss(potential(batch), batch, units)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            total += value.detach() / len(batches)
        dist.all_reduce(total)
        losses.append(total.item() / dist.get_world_size())
        if dist.get_rank() == 0:
            print(f"epoch {epoch + 1}: loss {losses[-1]:.3e}", flush=True)
    return potential.module, losses


def main(arguments: Sequence[str] | None = None) -> int:
    """Gives 0, or 1 where the loss did not fall."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--systems", type=int, default=30, help="structures to train on (default 30)")
    parser.add_argument("--batch", type=int, default=3, help="structures of a step of each process (default 3)")
    parser.add_argument("--rate", type=float, default=2e-2, help="Adam's (default 0.02)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    if not dist.is_torchelastic_launched():
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        return subprocess.run([*launcher, __file__, *(sys.argv[1:] if arguments is None else arguments)]).returncode

    # Calls of Madelung take as many threads as PyTorch.
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    potential, losses = train(options)
    if dist.get_rank() == 0:
        report(
            f"{dist.get_world_size()} processes, not trained on", potential, collate(structures(10, options.seed + 1))
        )
    dist.destroy_process_group()
    return 0 if losses[-1] <= losses[0] else 1


if __name__ == "__main__":
    sys.exit(main())
