"""Latent charges: a short-range network learns long-range electrostatics of molecules, slabs and crystals together.

The structures are clusters of ions without periodic axes, slabs in cells with vacuum, and crystals, with positive and
negative ions in any order on rattled places. Their reference energies and forces are made up, from sums of this
library: a Born–Mayer repulsion, and the Coulomb energy of ions ±0.9, of Gaussian width 1 Å: `latent_ewald` with waves
down to 1 Å, so converged. The network knows the distances to the neighbours within 4.5 Å alone; from these it makes an
energy and a charge for each atom. Nobody tells it a charge: they are learnt from energies and forces, through
`madelung.torch.nn.LatentEwald`. One batch holds all kinds of structures. The same network without charges is trained
beside it.

    python examples/latent_charges.py
    python examples/latent_charges.py --plot latent_charges.png

Lengths are in Å, energies in eV.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from madelung.torch import born_mayer, latent_ewald, neighbor_list, nn, segment_sum
from madelung.units import EV_ANGSTROM

CUTOFF, DL = 4.5, 2.0
CHARGE, SIGMA = 0.9, 1.0
# Of like and unlike ions: energy (eV), inverse length (1/Å).
AMPLITUDE = [[0.2, 0.9], [0.9, 0.4]]
STEEPNESS, CONTACT = 3.2, 2.5


def lattice(shape: Sequence[int], spacing: float, random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Rattled places of a simple cubic lattice, and ions of two kinds on them in any order, as many of either."""
    places = torch.cartesian_prod(*[torch.arange(n, dtype=torch.float64) for n in shape])
    moved = spacing * places + 0.2 * torch.randn(places.shape, generator=random, dtype=torch.float64)
    return moved, (torch.randperm(len(places), generator=random) % 2).to(torch.int32)


def structures(systems: int, seed: int) -> list[dict[str, torch.Tensor]]:
    """Molecules, slabs and crystals in turn, each of its own density."""
    random = torch.Generator().manual_seed(seed)
    found = []
    for n in range(systems):
        spacing = 2.6 + 0.4 * torch.rand((), generator=random, dtype=torch.float64).item()
        shape = [(2, 2, 3), (2, 4, 2), (4, 4, 2), (4, 2, 4)][(n // 3) % 4] if n % 3 else (2, 2, 2 + (n // 3) % 4)
        positions, kinds = lattice(shape, spacing, random)
        # A layer of a crystal is there again behind 12 Å of vacuum; molecules have no cell.
        vacuum = torch.tensor([0.0, 0.0, 12.0 if n % 3 == 1 else 0.0], dtype=torch.float64)
        shape_even = torch.tensor([k + k % 2 for k in shape], dtype=torch.float64)
        cell = torch.diag(spacing * shape_even + vacuum) if n % 3 else torch.zeros(3, 3, dtype=torch.float64)
        found.append({"positions": positions, "kinds": kinds, "cell": cell})
    return found


@dataclass(frozen=True)
class Prediction:
    """Energies (B,), per atom, and forces (N, 3)."""

    energy: torch.Tensor
    forces: torch.Tensor


def reference(batch: dict[str, Any]) -> Prediction:
    """Made-up energies: repulsion, and the Coulomb energy of Gaussian ions."""
    atoms = {name: batch[name] for name in ("pbc", "batch_idx")}
    wanted: dict[str, Any] = {"energy_reduction": "system", "compute_forces": True}
    table = torch.tensor(AMPLITUDE, dtype=torch.float64)
    numbers = [torch.full_like(table, x) for x in (STEEPNESS, CONTACT, 0.0, 0.0)]
    cells = batch["cell"] + torch.eye(3, dtype=torch.float64) * ~batch["pbc"][:, :, None]
    kinds = batch["kinds"]
    repulsion = born_mayer(batch["positions"], kinds, table, *numbers, CUTOFF, cells, **atoms, **wanted)
    charges = CHARGE * (1.0 - 2.0 * kinds.double())
    cell = batch["cell"]
    coulomb = latent_ewald(batch["positions"], charges, cell, SIGMA, 1.0, prefactor=EV_ANGSTROM, **atoms, **wanted)
    energy, forces = (a + b for a, b in zip(repulsion, coulomb))
    return Prediction(energy / torch.bincount(batch["batch_idx"]), forces)


class Network(torch.nn.Module):
    """Energies of atoms, and their latent charges, from the distances to neighbours of either kind."""

    def __init__(self, has_charges: bool, width: int = 24, radial: int = 10) -> None:
        super().__init__()
        self.register_buffer("centers", torch.linspace(1.6, CUTOFF, radial))
        self.eta = float(0.5 / (self.centers[1] - self.centers[0]) ** 2)
        self.body = torch.nn.Sequential(
            torch.nn.Linear(2 + 2 * radial, width), torch.nn.SiLU(), torch.nn.Linear(width, width), torch.nn.SiLU()
        )
        self.energy, self.charge = torch.nn.Linear(width, 1), torch.nn.Linear(width, 1)
        self.sum = nn.LatentEwald(SIGMA, DL, prefactor=EV_ANGSTROM) if has_charges else None

    def forward(self, batch: dict[str, Any], positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The energy of each system, (B,), and the charges, (N,)."""
        kinds, idx, systems = batch["kinds"].long(), batch["batch_idx"], len(batch["cell"])
        pairs, _, _, distances = neighbor_list(
            positions, CUTOFF, batch["cell"], pbc=batch["pbc"], batch_idx=idx, return_distances=True
        )
        j = pairs[1].long()
        fade = (1 - (distances / CUTOFF) ** 4) ** 3
        basis = torch.exp(-self.eta * (distances[:, None] - self.centers) ** 2) * fade[:, None]
        of_kind = torch.nn.functional.one_hot(kinds, 2).to(positions.dtype)
        seen = segment_sum((basis[:, None, :] * of_kind[j][:, :, None]).flatten(1), pairs[0], len(positions))
        h = self.body(torch.cat([of_kind, seen], 1))
        charges, energy = self.charge(h)[:, 0], segment_sum(self.energy(h)[:, 0], idx, systems)
        if self.sum is not None:
            energy = energy + self.sum(positions, charges, batch["cell"], idx, **batch["latent_ewald"])
        return energy, charges


def predict(model: Network, batch: dict[str, Any]) -> Prediction:
    """Energies and forces, as functions of the network's parameters."""
    positions = batch["positions"].clone().requires_grad_()
    energy, _ = model(batch, positions)
    (gradient,) = torch.autograd.grad(energy.sum(), positions, create_graph=True)
    return Prediction(energy / torch.bincount(batch["batch_idx"]), -gradient)


def errors(found: Prediction, wanted: Prediction) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean square errors of energies per atom (but for one constant) and of forces."""
    off = found.energy - wanted.energy
    return ((off - off.mean()) ** 2).mean(), ((found.forces - wanted.forces) ** 2).mean()


def train(model: Network, batch: dict[str, Any], wanted: Prediction, steps: int, rate: float) -> list[float]:
    """Adam on the whole batch, with a falling rate. Gives the error of the forces before each step, in eV/Å."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    history = []
    for _ in range(steps):
        optimizer.zero_grad()
        of_energies, of_forces = errors(predict(model, batch), wanted)
        (10.0 * of_energies + of_forces).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        history.append(of_forces.item() ** 0.5)
    return history


def plot(histories: dict[str, list[float]], found: dict[str, Prediction], wanted: Prediction, file: Path) -> None:
    """The error of the forces against the step, and held-out forces against the reference's."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no plot: Matplotlib is not installed")
        return
    figure = Figure(figsize=(9, 4), layout="constrained")
    learning, forces = figure.subplots(1, 2)
    for name, history in histories.items():
        learning.semilogy(history, label=name)
        x, y = wanted.forces.flatten(), found[name].forces.detach().flatten()
        forces.plot(x, y, ".", markersize=2, label=name)
    learning.set(xlabel="step", ylabel="error of the forces / (eV/Å)")
    learning.legend()
    forces.axline((0, 0), slope=1, color="k", linewidth=0.7)
    forces.set(xlabel="force / (eV/Å)", ylabel="network", title="structures that were not trained on", aspect="equal")
    figure.savefig(file, dpi=150)
    print(f"plot in {file}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Gives 0, or 1 where charges have not helped."""
    parser = argparse.ArgumentParser(description="A short-range network learns charges from energies and forces.")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--systems", type=int, default=18, help="structures to train on (default 18)")
    parser.add_argument("--rate", type=float, default=2e-2, help="Adam's first (default 0.02)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, metavar="FILE.png")
    parser.add_argument("--threads", type=int, default=1, help="for PyTorch (default 1: the tensors are small)")
    options = parser.parse_args(arguments)

    torch.set_num_threads(options.threads)
    batch, unseen = (nn.collate(structures(n, options.seed + k), dl=DL) for k, n in enumerate((options.systems, 12)))
    wanted, wanted_unseen = reference(batch), reference(unseen)
    atoms = torch.bincount(batch["batch_idx"])
    print(f"{len(atoms)} molecules, slabs and crystals of {atoms.min()} to {atoms.max()} atoms")

    histories, found, held_out = {}, {}, {}
    for name, has_charges in (("without charges", False), ("with latent charges", True)):
        torch.manual_seed(options.seed)
        model = Network(has_charges).double()
        start = time.perf_counter()
        histories[name] = train(model, batch, wanted, options.steps, options.rate)
        seconds = time.perf_counter() - start
        found[name] = predict(model, unseen)
        energy, force = (x.item() ** 0.5 for x in errors(found[name], wanted_unseen))
        held_out[name] = force
        print(
            f"{name}: {options.steps} steps in {seconds:.1f} s; structures that were not trained on: energies off by "
            f"{1e3 * energy:.1f} meV per atom, forces by {1e3 * force:.0f} meV/Å"
        )
        if has_charges:
            _, charges = model(unseen, unseen["positions"])
            means = [charges[unseen["kinds"] == kind].mean().item() for kind in (0, 1)]
            print(f"latent charges {means[0]:+.2f} and {means[1]:+.2f}, and those of the reference ±{CHARGE}")
    if options.plot is not None:
        plot(histories, found, wanted_unseen, options.plot)
    return 0 if held_out["with latent charges"] < held_out["without charges"] else 1


if __name__ == "__main__":
    sys.exit(main())
