"""Training: a network learns charges from energies, forces and stresses alone.

In a batch of random ionic configurations the charge of each ion depends on its neighbours by an analytic law, which
gives reference energies, forces and stresses. A network that sees smooth functions of the distances predicts charges,
`madelung.torch.ewald_summation` makes energies of them, and the loss compares energies, forces and stresses: its
gradient is a second derivative of the Ewald sum. The reference charges are never shown; how well they are met is told
at the end, for configurations that were not trained on.

    python examples/train_charges.py             # forces and stresses by autograd
    python examples/train_charges.py --hybrid    # at fixed charges from the kernel, and what q(r) adds by autograd

Both reach the same result. The loss is plotted to train_charges.png. Lengths are in Å, energies in eV.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from madelung.torch import estimate_ewald_parameters, ewald_summation, neighbor_list
from madelung.units import EV_ANGSTROM

# Of the network's eyes, of the reference's charge transfer and of the real-space sum, so that one list serves all.
CUTOFF = 6.0
QUANTITIES = ("energy", "forces", "stress")

Charges = Callable[["Batch", torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Batch:
    """N ions in B cells."""

    positions: torch.Tensor
    """(N, 3)"""
    cell: torch.Tensor
    """(B, 3, 3)"""
    species: torch.Tensor
    """(N,), 0 for a cation, 1 for an anion"""
    batch_idx: torch.Tensor
    """(N,)"""
    alpha: torch.Tensor
    """(B,)"""
    k_cutoff: torch.Tensor
    """(B,)"""

    @property
    def ions(self) -> torch.Tensor:
        """In each cell."""
        return torch.bincount(self.batch_idx, minlength=len(self.cell))


@dataclass(frozen=True)
class Prediction:
    """What a model of charges says about a batch."""

    energy: torch.Tensor
    """(B,), per ion, in eV"""
    forces: torch.Tensor
    """(N, 3), in eV/Å"""
    stress: torch.Tensor
    """(B, 3, 3), +(1/V) ∂E/∂ε in eV/Å³"""
    charges: torch.Tensor
    """(N,)"""


def configurations(systems: int, seed: int, accuracy: float = 1e-4) -> Batch:
    """Strained and rattled supercells of rock salt and caesium chloride, 16 to 32 ions each."""
    random = torch.Generator().manual_seed(seed)
    rock_salt = torch.tensor([[0.0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]], dtype=torch.float64)
    caesium_chloride = torch.zeros(1, 3, dtype=torch.float64)
    kinds = [(rock_salt, 5.7, (2, 1, 1)), (caesium_chloride, 3.5, (2, 2, 2)), (rock_salt, 5.7, (2, 2, 1))]
    positions, cells, species, ions = [], [], [], []
    for n in range(systems):
        cation, side, repeats = kinds[n % len(kinds)]
        strain = 0.05 * torch.randn(3, 3, generator=random, dtype=torch.float64)
        frame = side * (torch.eye(3, dtype=torch.float64) + strain)
        images = torch.cartesian_prod(*[torch.arange(m, dtype=torch.float64) for m in repeats])
        sites = torch.cat([cation, cation + 0.5])
        ideal = (images[:, None] + sites).reshape(-1, 3) @ frame
        positions.append(ideal + 0.15 * torch.randn(ideal.shape, generator=random, dtype=torch.float64))
        cells.append(torch.tensor(repeats, dtype=torch.float64)[:, None] * frame)
        species.append(torch.arange(2).repeat_interleave(len(cation)).repeat(len(images)))
        ions.append(len(ideal))
    r, h, kind = torch.cat(positions), torch.stack(cells), torch.cat(species)
    batch_idx = torch.arange(systems, dtype=torch.int32).repeat_interleave(torch.tensor(ions))
    split = estimate_ewald_parameters(r, (1 - 2 * kind).double(), h, accuracy, CUTOFF, batch_idx=batch_idx)
    return Batch(r, h, kind, batch_idx, split.alpha, split.k_cutoff)


def smooth(distances: torch.Tensor) -> torch.Tensor:
    """Falls from 1 to 0 at the cutoff, with three continuous derivatives: forces are trained on."""
    return (1 - (distances / CUTOFF).clamp(max=1.0) ** 2) ** 4


def reference_charges(batch: Batch, pairs: torch.Tensor, distances: torch.Tensor) -> torch.Tensor:
    """Formal charges ±1, less what each cation has given to the anions near it: more, the nearer they are.

    What one loses the other gains, so the total charge is zero in every configuration.
    """
    i, j = pairs
    sign = 1.0 - 2.0 * batch.species
    given = 0.06 * torch.exp((2.8 - distances) / 0.6) * smooth(distances) * (sign[i] != sign[j])
    return sign * (1 - torch.zeros_like(batch.positions[:, 0]).index_add(0, i, given))


class ChargeNetwork(torch.nn.Module):
    """Charges from radial symmetry functions (Behler, J. Chem. Phys. 134, 074106 (2011)).

    For each ion and each species of neighbour, Σ_j exp(−η (r_ij − μ_k)²) smooth(r_ij) for a row of centres μ_k. What
    the network says in sum about a configuration is taken off again in equal parts: the total charge stays zero.
    """

    def __init__(self, centers: int = 8, width: int = 24) -> None:
        super().__init__()
        self.register_buffer("centers", torch.linspace(1.0, 5.0, centers))
        self.eta = float(0.5 / (self.centers[1] - self.centers[0]) ** 2)
        self.formal = torch.nn.Parameter(torch.tensor([1.0, -1.0]))
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(2 * centers + 2, width),
            torch.nn.SiLU(),
            torch.nn.Linear(width, width),
            torch.nn.SiLU(),
            torch.nn.Linear(width, 1, bias=False),
        )
        # The first guess is the formal charges.
        torch.nn.init.zeros_(self.layers[-1].weight)

    def forward(self, batch: Batch, pairs: torch.Tensor, distances: torch.Tensor) -> torch.Tensor:
        i, j = pairs
        bumps = torch.exp(-self.eta * (distances[:, None] - self.centers) ** 2) * smooth(distances)[:, None]
        sums = bumps.new_zeros(2 * len(batch.species), len(self.centers)).index_add(0, 2 * i + batch.species[j], bumps)
        kind = torch.nn.functional.one_hot(batch.species, 2).to(bumps.dtype)
        features = torch.cat([sums.reshape(len(kind), -1), kind], 1)
        charges = self.formal[batch.species] + self.layers(features)[:, 0]
        excess = charges.new_zeros(len(batch.cell)).index_add(0, batch.batch_idx, charges) / batch.ions
        return charges - excess[batch.batch_idx]


def predict(model: Charges, batch: Batch, hybrid: bool = False) -> Prediction:
    """Energies, forces and stresses, as functions of the model's parameters that can be differentiated again."""
    positions = batch.positions.clone().requires_grad_()
    strain = torch.zeros_like(batch.cell).requires_grad_()
    deformation = torch.eye(3, dtype=strain.dtype) + strain
    r = (positions[:, None] @ deformation[batch.batch_idx])[:, 0]
    cell = batch.cell @ deformation

    pairs, ptr, shifts, distances = neighbor_list(r, CUTOFF, cell, batch_idx=batch.batch_idx, return_distances=True)
    charges = model(batch, pairs, distances)
    results = ewald_summation(
        r,
        charges,
        cell,
        batch.alpha,
        k_cutoff=batch.k_cutoff,
        cutoff=CUTOFF,
        # Chosen for it before, in the cell without strain.
        neighbor_list=pairs,
        neighbor_ptr=ptr,
        neighbor_shifts=shifts,
        batch_idx=batch.batch_idx,
        prefactor=EV_ANGSTROM,
        energy_reduction="system",
        compute_forces=hybrid,
        compute_virial=hybrid,
        hybrid_forces=hybrid,
    )
    energies = results[0] if hybrid else results
    by_positions, by_strain = torch.autograd.grad(energies.sum(), (positions, strain), create_graph=True)
    forces, virial = -by_positions, -by_strain
    if hybrid:
        # What autograd gave is only what comes through the charges; the kernel has the rest.
        forces, virial = forces + results[1], virial + results[2]
    stress = -virial / torch.linalg.det(batch.cell).abs()[:, None, None]
    return Prediction(energies / batch.ions, forces, stress, charges)


def detached(prediction: Prediction) -> Prediction:
    """The same numbers, without their graph."""
    return Prediction(*(x.detach() for x in vars(prediction).values()))


def errors(found: Prediction, reference: Prediction) -> dict[str, torch.Tensor]:
    """Mean square differences."""
    return {name: torch.mean((getattr(found, name) - getattr(reference, name)) ** 2) for name in vars(reference)}


class Loss:
    """Σ of the mean square errors of energy, forces and stress, each in units of how much the reference varies."""

    def __init__(self, reference: Prediction) -> None:
        self.reference = reference
        self.scales = {name: getattr(reference, name).var() for name in QUANTITIES}

    def __call__(self, found: Prediction) -> tuple[torch.Tensor, dict[str, float]]:
        """The loss, and its parts."""
        squares = errors(found, self.reference)
        parts = {name: squares[name] / scale for name, scale in self.scales.items()}
        return torch.stack(list(parts.values())).sum(), {name: part.item() for name, part in parts.items()}


def train(
    model: ChargeNetwork, batch: Batch, loss: Loss, steps: int, rate: float, hybrid: bool
) -> Iterator[dict[str, float]]:
    """Adam on the whole batch, with a falling rate. Yields the parts of the loss before each step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        total, parts = loss(predict(model, batch, hybrid))
        total.backward()
        optimizer.step()
        schedule.step()
        yield parts


class Bar:
    """A progress bar, for where there is no tqdm."""

    def __init__(self, iterable: Iterator[dict[str, float]], total: int) -> None:
        self.iterable, self.total, self.postfix = iterable, total, ""

    def __iter__(self) -> Iterator[dict[str, float]]:
        for done, x in enumerate(self.iterable, 1):
            yield x
            filled = 30 * done // self.total
            print(f"\r|{'#' * filled:<30}| {done}/{self.total} {self.postfix}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)

    def set_postfix_str(self, text: str) -> None:
        self.postfix = text


def progress(iterable: Iterator[dict[str, float]], total: int) -> Bar:
    """tqdm's bar where it is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return Bar(iterable, total)
    return tqdm(iterable, total=total)


def plot(history: list[dict[str, float]], title: str, file: Path) -> None:
    """The loss and its parts against the step."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no plot: Matplotlib is not installed")
        return
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.semilogy([sum(parts.values()) for parts in history], "k", label="loss")
    for name in QUANTITIES:
        axes.semilogy([parts[name] for parts in history], linewidth=0.9, label=name)
    axes.set(xlabel="step", ylabel="mean square error / variance", title=title)
    axes.legend()
    figure.savefig(file, dpi=150)
    print(f"plot in {file}")


def report(title: str, squares: dict[str, torch.Tensor]) -> None:
    """Root mean square errors in a line."""
    energy, forces, stress, charges = (float(squares[name]) ** 0.5 for name in (*QUANTITIES, "charges"))
    print(f"{title:<8} {energy:10.2e} eV/ion {forces:10.2e} eV/Å {stress:10.2e} eV/Å³ {charges:10.2e} e")


def main(arguments: Sequence[str] | None = None) -> int:
    """Gives 0, or 1 where the loss did not fall."""
    parser = argparse.ArgumentParser(description="A network learns charges from energies, forces and stresses.")
    parser.add_argument("--hybrid", action="store_true", help="forces and virial at fixed charges from the kernel")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--systems", type=int, default=12, help="configurations to train on (default 12)")
    parser.add_argument("--rate", type=float, default=2e-2, help="Adam's first (default 0.02)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, default=Path("train_charges.png"), metavar="FILE.png")
    parser.add_argument("--threads", type=int, default=1, help="for PyTorch (default 1: the tensors are small)")
    options = parser.parse_args(arguments)

    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    model = ChargeNetwork().double()
    batch, unseen = configurations(options.systems, options.seed), configurations(6, options.seed + 1)
    loss = Loss(detached(predict(reference_charges, batch)))
    unseen_reference = detached(predict(reference_charges, unseen))
    mode = "hybrid forces" if options.hybrid else "forces by autograd"
    print(f"{options.systems} configurations, {len(batch.species)} ions, {mode}")
    before = errors(detached(predict(model, unseen)), unseen_reference)

    history: list[dict[str, float]] = []
    start = time.perf_counter()
    bar = progress(train(model, batch, loss, options.steps, options.rate, options.hybrid), options.steps)
    for parts in bar:
        history.append(parts)
        bar.set_postfix_str(f"loss {sum(parts.values()):.2e}")
    seconds = time.perf_counter() - start

    with_last = [*history, loss(predict(model, batch, options.hybrid))[1]]
    first, last = (sum(with_last[n].values()) for n in (0, -1))
    print(f"{options.steps} steps in {seconds:.1f} s: loss {first:.3e} -> {last:.3e}, a ratio of {first / last:.0f}")
    print("root mean square errors for configurations that were not trained on:")
    report("before", before)
    report("after", errors(detached(predict(model, unseen)), unseen_reference))
    plot(with_last, f"{mode}: the loss falls {first / last:.0f} times", options.plot)
    return 0 if last < first else 1


if __name__ == "__main__":
    sys.exit(main())
