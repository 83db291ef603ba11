"""Training: a potential of short-range energies and long-range charges, from energies, forces and stresses.

Crystals, slabs and molecules of two kinds of ions are mixed in every batch. Their reference is made here: charges that
depend on the neighbours by a formula, summed over the lattice, and a Born–Mayer repulsion. A network that sees the
neighbours within 5 Å predicts an energy and a charge of each ion, `madelung.torch.nn.EwaldSum` adds the Coulomb energy
of all charges, and the loss compares energies, forces and stresses: its gradient is a second derivative of the sum. No
charge of the reference is shown; how well they are met is told at the end, for structures that were not trained on.

    python examples/train_potential.py                      # forces and stresses by autograd
    python examples/train_potential.py --hybrid             # those at fixed charges from the sum, the rest by autograd
    python examples/train_potential.py --mixed --workers 2  # float32, and layers in bfloat16
    python examples/train_potential.py --checkpoint run.pt  # goes on where a run that was stopped has left off

docs/training.md walks through this file. Lengths are in Å, energies in eV.
"""

from __future__ import annotations

import argparse
import functools
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from madelung.torch import generate_miller_indices, nn
from madelung.units import EV_ANGSTROM

# Numbers of the sum, which belong to the model: its errors of forces are 1 meV/Å.
ALPHA, CUTOFF, K_CUTOFF = 0.6, 5.0, 3.6
# Height of the cells of slabs: their thickness and twice their period.
HEIGHT = 32.0
QUANTITIES = ("energy", "forces", "stress")

Batch = dict[str, Any]
# Charges and energies of atoms (N,), from a batch and the distances of its pairs.
Local = Callable[[Batch, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def structures(count: int, seed: int, dtype: torch.dtype = torch.float64) -> list[Batch]:
    """Crystals, slabs and molecules in turn: strained rock salt, rattled, of 8 to 36 ions."""
    random = torch.Generator().manual_seed(seed)
    normal = functools.partial(torch.randn, generator=random, dtype=torch.float64)
    found = []
    for n in range(count):
        shape, axes = [((2, 4, 4), 3), ((4, 4, 2), 2), ((2, 3, 2), 0), ((4, 2, 2), 3), ((2, 4, 3), 2)][n % 5]
        places = torch.cartesian_prod(*[torch.arange(k, dtype=torch.float64) for k in shape])
        lattice = (2.8 + 0.1 * normal(1)) * (torch.eye(3, dtype=torch.float64) + 0.03 * normal(3, 3))
        pbc = torch.arange(3) < axes
        positions = places @ lattice + 0.12 * normal(len(places), 3)
        # Vectors of open axes are zero.
        cell = torch.tensor(shape, dtype=torch.float64)[:, None] * lattice * pbc[:, None]
        one = {"positions": positions.to(dtype), "cell": cell.to(dtype), "pbc": pbc}
        found.append(one | {"species": places.sum(1).long() % 2})
    made = Potential(Energy(reference))
    return [one | labels(made(collate([one]))) for one in found]


def labels(found: Batch) -> Batch:
    """Targets of a structure, of a batch of one."""
    return {
        "energy": found["energy"][0].item(),
        "forces": found["forces"].detach(),
        "stress": found["stress"][0].detach(),
    }


def collate(listed: list[Batch]) -> Batch:
    """A batch of structures as tensors alone, with the pairs and waves of its sums. Workers run this."""
    batch = nn.collate(listed, cutoff=CUTOFF)
    waves = generate_miller_indices(batch["cell"], K_CUTOFF, pbc=batch["pbc"], slab_height=HEIGHT)
    batch |= batch.pop("neighbors").lists
    return batch | dict(zip(("miller_indices", "miller_batch_idx"), waves))


def loader(data: list[Batch], size: int, workers: int, device: str, random: torch.Generator) -> Any:
    """Batches in an order that is drawn anew in each epoch."""
    return torch.utils.data.DataLoader(
        data,
        batch_size=size,
        # A loader's own generator is drawn from for its workers as well, and the order would depend on their number.
        sampler=torch.utils.data.RandomSampler(data, generator=random),
        collate_fn=collate,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=device != "cpu",
    )


def distances(batch: Batch) -> torch.Tensor:
    """The distance of each pair, with derivatives by positions and cell."""
    i, j = batch["neighbor_list"].long()
    of_image = batch["neighbor_shifts"].to(batch["cell"].dtype)[:, None] @ batch["cell"][batch["batch_idx"].long()[i]]
    return torch.linalg.norm(batch["positions"][j] - batch["positions"][i] + of_image[:, 0], dim=1)


def added(x: torch.Tensor, rows: torch.Tensor, count: int) -> torch.Tensor:
    """The sum of the entries of each row: `segment_sum`, in graphs for any number of rows."""
    return x.new_zeros(count, *x.shape[1:]).index_add(0, rows, x)


def smooth(r: torch.Tensor) -> torch.Tensor:
    """Falls from 1 to 0 at the cutoff, with three continuous derivatives: forces are trained on."""
    return (1 - (r / CUTOFF).clamp(max=1.0) ** 2) ** 4


def reference(batch: Batch, r: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Ions of ±0.9 that have given some of it to the other kind near them, and a Born–Mayer repulsion."""
    i, j = batch["neighbor_list"]
    kinds = batch["species"]
    given = 0.06 * torch.exp((2.8 - r) / 0.6) * smooth(r) * (kinds[i] != kinds[j])
    repulsion = 500.0 * torch.exp(-r / 0.35) * smooth(r)
    charges = (1.0 - 2.0 * kinds) * (0.9 - added(given, i, kinds.shape[0]))
    return charges, added(repulsion, i, kinds.shape[0])


class Network(torch.nn.Module):
    """Charges and energies from radial symmetry functions (Behler, J. Chem. Phys. 134, 074106 (2011))."""

    def __init__(self, radial: int = 10, width: int = 32, mixed: bool = False) -> None:
        super().__init__()
        self.mixed = mixed
        self.register_buffer("centers", torch.linspace(1.6, CUTOFF, radial))
        self.eta = float(0.5 / (self.centers[1] - self.centers[0]) ** 2)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(2 * radial + 2, width),
            torch.nn.SiLU(),
            torch.nn.Linear(width, width),
            torch.nn.SiLU(),
            torch.nn.Linear(width, 2),
        )
        # The first guess is formal charges.
        torch.nn.init.zeros_(self.layers[-1].weight)

    def forward(self, batch: Batch, r: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Charges and energies of atoms, (N,) each."""
        kinds, (i, j) = batch["species"], batch["neighbor_list"]
        bumps = torch.exp(-self.eta * (r[:, None] - self.centers) ** 2) * smooth(r)[:, None]
        of_kind = torch.nn.functional.one_hot(kinds, 2).to(r.dtype)
        seen = added((bumps[:, None] * of_kind[j][:, :, None]).flatten(1), i, kinds.shape[0])
        # Only the layers compute in half precision. Distances and sums of energies have too few digits in it.
        with torch.autocast(r.device.type, torch.bfloat16, enabled=self.mixed):
            moved, energies = self.layers(torch.cat([of_kind, seen], 1)).to(r.dtype).unbind(1)
        return 1.0 - 2.0 * kinds + moved, energies


class Energy(torch.nn.Module):
    """Energies of systems: those of their atoms, and the Coulomb energy of their charges."""

    def __init__(self, local: Local) -> None:
        super().__init__()
        self.local, self.sum = local, nn.EwaldSum(ALPHA, CUTOFF, prefactor=EV_ANGSTROM)

    def forward(self, batch: Batch, hybrid: bool = False) -> tuple[torch.Tensor, ...]:
        """Charges (N,), energies (B,), and in hybrid mode forces (N, 3) and virials (B, 3, 3) at fixed charges."""
        idx, systems = batch["batch_idx"], batch["cell"].shape[0]
        charges, energies = self.local(batch, distances(batch))
        charges = charges - (added(charges, idx, systems) / added(torch.ones_like(charges), idx, systems))[idx]
        names = ("neighbor_list", "neighbor_ptr", "neighbor_shifts", "miller_indices", "miller_batch_idx")
        given = {name: batch[name] for name in names} | {"slab_correction": True, "slab_height": HEIGHT}
        wanted = {"compute_forces": hybrid, "compute_virial": hybrid, "hybrid_forces": hybrid}
        summed = self.sum(batch["positions"], charges, batch["cell"], idx, batch["pbc"], **given, **wanted)
        total, *at_fixed_charges = summed if hybrid else (summed,)
        return charges, total + added(energies, idx, systems), *at_fixed_charges


class Potential(torch.nn.Module):
    """Energies per atom, forces and stresses as functions of the parameters, which a loss differentiates again."""

    def __init__(self, energy: Energy, hybrid: bool = False) -> None:
        super().__init__()
        self.energy, self.hybrid = energy, hybrid

    def forward(self, batch: Batch) -> Batch:
        """`energy` (B,), `forces` (N, 3), `stress` (B, 3, 3) of crystals, zero of others, and `charges` (N,)."""
        positions = batch["positions"].detach().clone().requires_grad_()
        strain = torch.zeros_like(batch["cell"]).requires_grad_()
        deformation = torch.eye(3, dtype=strain.dtype, device=strain.device) + strain
        moved = (positions[:, None] @ deformation[batch["batch_idx"]])[:, 0]
        of_strain = {**batch, "positions": moved, "cell": batch["cell"] @ deformation}
        charges, energies, *at_fixed_charges = self.energy(of_strain, self.hybrid)
        by_positions, by_strain = torch.autograd.grad(energies.sum(), (positions, strain), create_graph=True)
        forces, virial = -by_positions, -by_strain
        if self.hybrid:
            # Autograd has what comes through the charges and the energies of atoms; the sum has the rest.
            forces, virial = forces + at_fixed_charges[0], virial + at_fixed_charges[1]
        is_crystal = batch["pbc"].all(1)
        volumes = torch.where(is_crystal, torch.linalg.det(batch["cell"]).abs(), torch.inf)
        atoms = torch.bincount(batch["batch_idx"], minlength=len(volumes))
        return {
            "energy": energies / atoms,
            "forces": forces,
            "stress": -virial / volumes[:, None, None],
            "charges": charges,
        }


def errors(found: Batch, batch: Batch) -> dict[str, torch.Tensor]:
    """Mean square differences from the reference."""
    return {name: (found[name] - batch[name]).square().mean() for name in QUANTITIES}


def spread(data: list[Batch]) -> dict[str, float]:
    """Variances of the reference, which are the units of the loss."""
    return {name: torch.cat([torch.as_tensor(one[name]).flatten() for one in data]).var().item() for name in QUANTITIES}


class Training:
    """A potential, its optimiser and its data, which can be saved between two epochs and go on elsewhere."""

    def __init__(self, potential: torch.nn.Module, data: list[Batch], options: argparse.Namespace) -> None:
        self.potential, self.device, self.epoch, self.units = potential, options.device, 0, spread(data)
        self.random = torch.Generator().manual_seed(options.seed)
        self.batches = loader(data, options.batch, options.workers, options.device, self.random)
        self.optimizer = torch.optim.Adam(potential.parameters(), lr=options.rate)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, options.epochs)

    def state(self) -> dict[str, Any]:
        """All that the next epoch depends on: tensors and numbers, which `torch.load` takes with its defaults."""
        parts = {name: getattr(self, name).state_dict() for name in ("potential", "optimizer", "schedule")}
        return parts | {"random": self.random.get_state(), "epoch": self.epoch}

    def load(self, state: dict[str, Any]) -> None:
        """Goes on from a state."""
        for name in ("potential", "optimizer", "schedule"):
            getattr(self, name).load_state_dict(state[name])
        self.random.set_state(state["random"])
        self.epoch = state["epoch"]

    def run(self) -> float:
        """An epoch. Gives its mean loss."""
        losses = []
        for batch in self.batches:
            here = {name: x.to(self.device, non_blocking=True) for name, x in batch.items()}
            parts = errors(self.potential(here), here)
            loss = sum(parts[name] / self.units[name] for name in QUANTITIES)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.detach())
        self.schedule.step()
        self.epoch += 1
        return torch.stack(losses).mean().item()


def exported(energy: Energy, batch: Batch, file: Path) -> torch.nn.Module:
    """The energies as a graph, saved to a file and loaded again, for batches of any sizes."""
    free = {name: dict.fromkeys(range(x.ndim), torch.export.Dim.AUTO) for name, x in batch.items()}
    torch.export.save(torch.export.export(energy, (batch,), dynamic_shapes=(free,), strict=False), file)
    return torch.export.load(file).module()


def report(title: str, potential: Potential, batch: Batch) -> None:
    """Root mean square errors in a line."""
    found = potential(batch)
    energy, forces, stress = (x.item() ** 0.5 for x in errors(found, batch).values())
    charges = (found["charges"] - Potential(Energy(reference))(batch)["charges"]).square().mean().item() ** 0.5
    print(f"{title}: {1e3 * energy:.1f} meV/atom, {1e3 * forces:.0f} meV/Å, {1e3 * stress:.2f} meV/Å³, {charges:.4f} e")


def main(arguments: Sequence[str] | None = None) -> int:
    """Gives 0, or 1 where the loss did not fall or the saved graph has other numbers."""
    parser = argparse.ArgumentParser(description="A network learns a short-range energy and charges.")
    parser.add_argument("--hybrid", action="store_true", help="forces and virials at fixed charges from the sum")
    parser.add_argument("--mixed", action="store_true", help="float32, and layers in bfloat16")
    parser.add_argument("--epochs", type=int, default=80)
    parser.add_argument("--systems", type=int, default=30, help="structures to train on (default 30)")
    parser.add_argument("--batch", type=int, default=5, help="structures of a batch (default 5)")
    parser.add_argument("--rate", type=float, default=2e-2, help="Adam's first (default 0.02)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0, help="processes that make batches (default 0: this one)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE.pt", help="kept after each epoch, and gone on from")
    parser.add_argument("--export", type=Path, metavar="FILE.pt2", help="the graph of the energies")
    parser.add_argument("--threads", type=int, default=1, help="for PyTorch (default 1: the tensors are small)")
    options = parser.parse_args(arguments)

    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    dtype = torch.float32 if options.mixed else torch.float64
    data, unseen = structures(options.systems, options.seed, dtype), structures(10, options.seed + 1, dtype)
    potential = Potential(Energy(Network(mixed=options.mixed)), options.hybrid).to(options.device, dtype)
    training = Training(potential, data, options)
    if options.checkpoint is not None and options.checkpoint.exists():
        training.load(torch.load(options.checkpoint))
    atoms = sum(len(one["positions"]) for one in data)
    print(f"{len(data)} crystals, slabs and molecules, {atoms} ions; from epoch {training.epoch}")

    losses, start = [], time.perf_counter()
    while training.epoch < options.epochs:
        losses.append(training.run())
        if options.checkpoint is not None:
            torch.save(training.state(), options.checkpoint)
        if training.epoch % 10 == 0 or training.epoch == options.epochs:
            print(f"epoch {training.epoch}: loss {losses[-1]:.3e}, {time.perf_counter() - start:.1f} s")

    batch = {name: x.to(options.device) for name, x in collate(unseen).items()}
    report("not trained on", potential, batch)
    with tempfile.TemporaryDirectory() as folder:
        graph = exported(potential.energy, collate(data[:3]), options.export or Path(folder) / "energy.pt2")
    difference = (graph(batch)[1] - potential.energy(batch)[1]).abs().max().item()
    print(f"the saved graph differs by {difference:.0e} eV")
    is_same = difference <= 1e3 * torch.finfo(dtype).eps
    return 0 if is_same and (not losses or losses[-1] <= losses[0]) else 1


if __name__ == "__main__":
    sys.exit(main())
