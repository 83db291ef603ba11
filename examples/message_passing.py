"""Message passing: an equivariant network learns the forces of a Lennard-Jones crystal.

Rattled and strained crystals of several densities have energies and forces by `madelung.torch.lennard_jones`. The
network knows the vectors from each atom to its neighbours alone, which `madelung.torch.neighbor_list` finds and
differentiates. In each of two layers the neighbours send scalars and vectors, and `segment_sum` and `segment_softmax`
(attention that fades out at the cutoff) gather them. The loss compares forces, so its gradient is a second derivative
of all of this: of the pairs' vectors, the segment operations and the network.

    python examples/message_passing.py
    python examples/message_passing.py --plot message_passing.png

Lengths are in σ, energies in ε.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from madelung.torch import lennard_jones, neighbor_list, segment_softmax, segment_sum

# Of the reference and of the network.
CUTOFF = 1.6


@dataclass(frozen=True)
class Batch:
    """N atoms in B cells."""

    positions: torch.Tensor
    """(N, 3)"""
    cell: torch.Tensor
    """(B, 3, 3)"""
    batch_idx: torch.Tensor
    """(N,)"""


@dataclass(frozen=True)
class Prediction:
    """Energies and forces of a batch."""

    energy: torch.Tensor
    """(B,)"""
    forces: torch.Tensor
    """(N, 3)"""


def crystals(systems: int, seed: int) -> Batch:
    """Rattled and strained face-centred cubic crystals of 32 atoms, each of its own density."""
    random = torch.Generator().manual_seed(seed)
    sites = torch.tensor([[0.0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]], dtype=torch.float64)
    images = torch.cartesian_prod(*[torch.arange(2, dtype=torch.float64)] * 3)
    ideal = (images[:, None] + sites).reshape(-1, 3) / 2
    strain = 0.02 * torch.randn(systems, 3, 3, generator=random, dtype=torch.float64)
    sides = torch.linspace(1.52, 1.66, systems, dtype=torch.float64)
    cell = 2 * sides[:, None, None] * (torch.eye(3, dtype=torch.float64) + strain)
    positions = ideal @ cell
    positions = positions + 0.04 * torch.randn(positions.shape, generator=random, dtype=torch.float64)
    batch_idx = torch.arange(systems, dtype=torch.int32).repeat_interleave(len(ideal))
    return Batch(positions.reshape(-1, 3), cell, batch_idx)


def reference(batch: Batch) -> Prediction:
    """The Lennard-Jones crystal."""
    one = torch.ones(1, 1, dtype=torch.float64)
    types = torch.zeros(len(batch.positions), dtype=torch.int32)
    energy, forces = lennard_jones(
        batch.positions,
        types,
        one,
        one,
        CUTOFF,
        batch.cell,
        batch_idx=batch.batch_idx,
        energy_reduction="system",
        compute_forces=True,
    )
    return Prediction(energy, forces)


class Layer(torch.nn.Module):
    """Messages from the neighbours of each atom: plain sums, sums with attention, and vectors.

    The sums say how many neighbours there are and how near, attention which of them count, and the lengths of the
    vectors how they lie around the atom. All fade out at the cutoff, so energies and forces are continuous.
    """

    def __init__(self, width: int, heads: int, radial: int) -> None:
        super().__init__()
        self.heads = heads
        self.send = torch.nn.Linear(width, 3 * width)
        self.filter = torch.nn.Linear(radial, 3 * width, bias=False)
        self.score = torch.nn.Linear(radial, heads)
        self.query = torch.nn.Linear(width, width, bias=False)
        self.key = torch.nn.Linear(width, width, bias=False)
        self.update = torch.nn.Sequential(
            torch.nn.Linear(4 * width, width), torch.nn.SiLU(), torch.nn.Linear(width, width)
        )

    def forward(
        self, h: torch.Tensor, pairs: torch.Tensor, basis: torch.Tensor, fade: torch.Tensor, direction: torch.Tensor
    ) -> torch.Tensor:
        (i, j), (atoms, width) = pairs, h.shape
        # The vector of each pair is in its direction; scalars are those of the sender, filtered by the distance.
        plain, attended, along = (self.send(h)[j] * self.filter(basis)).chunk(3, 1)
        alike = (self.query(h)[i] * self.key(h)[j]).reshape(-1, self.heads, width // self.heads).sum(2)
        # The logarithm makes a weight in proportion to `fade`.
        scores = alike / (width // self.heads) ** 0.5 + self.score(basis) + torch.log(fade)[:, None]
        weights = segment_softmax(scores, i, atoms).repeat_interleave(width // self.heads, 1)
        sums = segment_sum(plain, i, atoms)
        attention = segment_sum(weights * attended, i, atoms)
        vectors = segment_sum(direction[:, :, None] * along[:, None], i, atoms)
        return h + self.update(torch.cat([h, sums, attention, (vectors**2).sum(1)], 1))


class Network(torch.nn.Module):
    """Energies of crystals from the vectors between neighbours: the same for any rotation and order of the atoms."""

    def __init__(self, width: int = 16, heads: int = 4, radial: int = 8, layers: int = 2) -> None:
        super().__init__()
        self.register_buffer("centers", torch.linspace(0.9, CUTOFF, radial))
        self.eta = float(0.5 / (self.centers[1] - self.centers[0]) ** 2)
        self.start = torch.nn.Parameter(torch.ones(width))
        self.layers = torch.nn.ModuleList(Layer(width, heads, radial) for _ in range(layers))
        self.energy = torch.nn.Sequential(
            torch.nn.Linear(width, width), torch.nn.SiLU(), torch.nn.Linear(width, 1, bias=False)
        )

    def forward(self, batch: Batch) -> torch.Tensor:
        """The energy of each system, (B,)."""
        atoms = len(batch.positions)
        pairs, _, _, distances, vectors = neighbor_list(
            batch.positions, CUTOFF, batch.cell, batch_idx=batch.batch_idx, return_distances=True, return_vectors=True
        )
        # Falls from 1 to 0 at the cutoff, with three continuous derivatives.
        fade = ((1 - (distances / CUTOFF) ** 6) ** 4).clamp(min=1e-30)
        basis = torch.exp(-self.eta * (distances[:, None] - self.centers) ** 2) * fade[:, None]
        h = self.start.expand(atoms, -1)
        for layer in self.layers:
            h = layer(h, pairs, basis, fade, vectors / distances[:, None])
        return segment_sum(self.energy(h)[:, 0], batch.batch_idx, len(batch.cell))


def predict(model: Network, batch: Batch) -> Prediction:
    """Energies and forces, as functions of the network's parameters."""
    positions = batch.positions.clone().requires_grad_()
    energy = model(Batch(positions, batch.cell, batch.batch_idx))
    (gradient,) = torch.autograd.grad(energy.sum(), positions, create_graph=True)
    return Prediction(energy, -gradient)


def error(found: Prediction, wanted: Prediction) -> torch.Tensor:
    """The mean square error of the forces, in units of their mean square."""
    return ((found.forces - wanted.forces) ** 2).mean() / (wanted.forces**2).mean()


def train(model: Network, batch: Batch, wanted: Prediction, steps: int, rate: float) -> Iterator[float]:
    """Adam on the whole batch, with a falling rate. Yields the error before each step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = error(predict(model, batch), wanted)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        yield loss.item()


def progress(steps: Iterator[float], total: int) -> Iterable[float]:
    """A bar where a terminal is looked at, and tqdm is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return steps
    return tqdm(steps, total=total, disable=None)


def plot(history: Sequence[float], found: Prediction, wanted: Prediction, file: Path) -> None:
    """The error against the step, and forces against the reference's."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no plot: Matplotlib is not installed")
        return
    figure = Figure(figsize=(9, 4), layout="constrained")
    learning, forces = figure.subplots(1, 2)
    learning.semilogy(history, "k")
    learning.set(xlabel="step", ylabel="mean square error of the forces / mean square")
    x, y = wanted.forces.flatten(), found.forces.detach().flatten()
    forces.plot(x, y, ".", markersize=2)
    forces.axline((0, 0), slope=1, color="k", linewidth=0.7)
    forces.set(xlabel="force / (ε/σ)", ylabel="network", title="crystals that were not trained on", aspect="equal")
    figure.savefig(file, dpi=150)
    print(f"plot in {file}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Gives 0, or 1 where the network has not learnt."""
    parser = argparse.ArgumentParser(description="A network learns the forces of a Lennard-Jones crystal.")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--systems", type=int, default=8, help="crystals to train on (default 8)")
    parser.add_argument("--rate", type=float, default=2e-2, help="Adam's first (default 0.02)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, metavar="FILE.png")
    parser.add_argument("--threads", type=int, default=1, help="for PyTorch (default 1: the tensors are small)")
    options = parser.parse_args(arguments)

    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    model = Network().double()
    batch, unseen = crystals(options.systems, options.seed), crystals(5, options.seed + 1)
    wanted, wanted_unseen = reference(batch), reference(unseen)
    print(f"{options.systems} crystals of {len(batch.positions) // options.systems} atoms")

    start = time.perf_counter()
    history = list(progress(train(model, batch, wanted, options.steps, options.rate), options.steps))
    seconds = time.perf_counter() - start

    found = predict(model, unseen)
    first, last = history[0], error(predict(model, batch), wanted).item()
    rms = wanted_unseen.forces.square().mean().sqrt().item()
    print(f"{options.steps} steps in {seconds:.1f} s: error {first:.3e} -> {last:.3e}, a ratio of {first / last:.0f}")
    print(
        f"forces of crystals that were not trained on: {error(found, wanted_unseen).item() ** 0.5:.2%} of their root "
        f"mean square, {rms:.2f} ε/σ"
    )
    if options.plot is not None:
        plot([*history, last], found, wanted_unseen, options.plot)
    return 0 if last < first else 1


if __name__ == "__main__":
    sys.exit(main())
