"""The example of a whole training: its physics against differences, and that it is resumed and exported alike."""

from __future__ import annotations

import argparse
import re
from typing import Any

import pytest
import torch
from scripts import load, main, run

from differences import fourth_order

pytestmark = pytest.mark.host("the examples run there")

training = load("train_potential")
KINDS = ("energy", "forces", "stress")


@pytest.fixture(scope="module")
def data() -> Any:
    return training.structures(5, seed=5)


@pytest.fixture(scope="module")
def batch(data: Any) -> Any:
    """A crystal, a slab, a molecule, another crystal and another slab."""
    return training.collate(data)


@pytest.fixture
def network() -> Any:
    """One that says something about every ion: not as training begins, where the last layer is zero."""
    torch.manual_seed(3)
    model = training.Network()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model.double()


def potential(local: Any, hybrid: bool = False) -> Any:
    return training.Potential(training.Energy(local), hybrid).double()


def options(**changed: Any) -> argparse.Namespace:
    given = {"device": "cpu", "seed": 0, "batch": 2, "workers": 0, "rate": 1e-2, "epochs": 4}
    return argparse.Namespace(**given | changed)


def loss(found: Any, batch: Any) -> Any:
    return sum(training.errors(found, batch).values())


def started(data: Any, hybrid: bool = False, **changed: Any) -> Any:
    torch.manual_seed(0)
    return training.Training(potential(training.Network(), hybrid), data, options(**changed))


def parameters(run: Any) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(run.potential.parameters()).detach()


def test_every_kind_of_structure_is_in_a_batch(batch: Any) -> None:
    assert batch["pbc"].sum(1).tolist() == [3, 2, 0, 3, 2]
    # The reference is a potential too: what it says of a batch is what it said of each structure alone.
    found = potential(training.reference)(batch)
    for name in KINDS:
        torch.testing.assert_close(found[name].detach(), batch[name], rtol=1e-12, atol=1e-12)
    assert (batch["stress"].abs().amax((1, 2)) > 0).tolist() == [True, False, False, True, False]


@pytest.mark.parametrize("hybrid", [False, True], ids=["autograd", "hybrid"])
@pytest.mark.parametrize("which", ["reference", "network"])
def test_forces_and_stresses_are_those_of_the_energy(batch: Any, network: Any, which: str, hybrid: bool) -> None:
    """With charges that move with the ions. Pairs leave the list along the way, and with them what is nearly zero."""
    of = potential(network if which == "network" else training.reference, hybrid)
    found = {name: x.detach() for name, x in of(batch).items()}
    random = torch.Generator().manual_seed(1)
    direction = torch.randn(batch["positions"].shape, generator=random, dtype=torch.float64)
    strain = torch.randn(3, 3, generator=random, dtype=torch.float64)
    is_crystal = batch["pbc"].all(1)

    def energies(**changed: Any) -> Any:
        return of.energy({**batch, **changed})[1].detach()

    # Pairs that cross the cutoff are worth erfc(α r)/r, 6e-5 eV: the reason for the width of the bounds.
    by_direction = fourth_order(lambda h: energies(positions=batch["positions"] + h * direction).sum().item(), 1e-4)
    assert -float((found["forces"] * direction).sum()) == pytest.approx(by_direction, rel=1e-4)

    def strained(h: float) -> float:
        deformation = torch.eye(3) + h * strain
        moved = {name: batch[name] @ deformation for name in ("positions", "cell")}
        return energies(**moved)[is_crystal].sum().item()

    volumes = torch.linalg.det(batch["cell"]).abs()
    by_strain = float((volumes[:, None, None] * found["stress"] * strain).sum())
    assert by_strain == pytest.approx(fourth_order(strained, 1e-5), rel=1e-4)


def test_the_total_charge_is_kept(batch: Any, network: Any) -> None:
    for local in (network, training.reference):
        charges = potential(local)(batch)["charges"].detach()
        totals = torch.zeros(5, dtype=torch.float64).index_add(0, batch["batch_idx"], charges)
        assert totals.abs().max() < 1e-12
        assert charges.std() > 0.1


def test_gradients_of_both_modes_are_those_of_the_loss(batch: Any, network: Any) -> None:
    """Energies, forces and stresses in one loss: second derivatives, in both modes and against differences."""
    gradients = {}
    for hybrid in (False, True):
        network.zero_grad()
        loss(potential(network, hybrid)(batch), batch).backward()
        gradients[hybrid] = torch.nn.utils.parameters_to_vector(p.grad for p in network.parameters())
    difference = torch.linalg.norm(gradients[True] - gradients[False])
    assert difference <= 1e-12 * torch.linalg.norm(gradients[False])

    start = torch.nn.utils.parameters_to_vector(network.parameters()).detach()
    direction = torch.randn(start.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    def at(h: float) -> float:
        torch.nn.utils.vector_to_parameters(start + h * direction, network.parameters())
        return loss(potential(network)(batch), batch).item()

    assert float(gradients[False] @ direction) == pytest.approx(fourth_order(at, 1e-4), rel=1e-7)


def test_a_training_that_was_stopped_goes_on_alike(data: Any, tmp_path: Any) -> None:
    """Saved after two epochs and loaded with PyTorch's defaults, to the last bit."""
    whole = started(data)
    losses = [whole.run() for _ in range(4)]
    assert losses[-1] < losses[0]
    first = started(data)
    for _ in range(2):
        first.run()
    torch.save(first.state(), tmp_path / "run.pt")
    second = started(data, seed=7)
    second.load(torch.load(tmp_path / "run.pt"))
    assert [second.run() for _ in range(2)] == losses[2:]
    assert torch.equal(parameters(second), parameters(whole))


def test_both_modes_and_workers_train_alike(data: Any) -> None:
    found = []
    for changed in ({}, {"workers": 2}, {"hybrid": True}):
        run = started(data, **changed)
        for _ in range(2):
            run.run()
        found.append(parameters(run))
    assert torch.equal(found[0], found[1])
    # Adam's first steps are gradients over their own size, so rounding shows where a gradient is nearly zero.
    assert (found[2] - found[0]).abs().max() < 1e-6


def test_layers_in_half_precision(data: Any, network: Any) -> None:
    """Distances, sums and energies stay float32: what the layers lose is all that is lost."""
    narrow = [
        {n: x.float() if torch.is_tensor(x) and x.dtype == torch.float64 else x for n, x in one.items()} for one in data
    ]
    batch = training.collate(narrow)
    found = {}
    for mixed in (False, True):
        network.mixed = mixed
        found[mixed] = training.Potential(training.Energy(network)).float()(batch)
        loss(found[mixed], batch).backward()
    assert all(torch.isfinite(p.grad).all() for p in network.parameters())
    for name in (*KINDS, "charges"):
        of, wide = found[True][name], found[False][name].detach()
        assert of.dtype == torch.float32
        off = (of.detach() - wide).square().mean().sqrt() / wide.square().mean().sqrt()
        # bfloat16 has eight bits.
        assert 1e-5 < off < 5e-2, (name, off)


def test_the_graph_of_the_energies(data: Any, network: Any, tmp_path: Any) -> None:
    """Made of a batch of two, saved, loaded, and called for one of five; forces by its own derivative."""
    energy = training.Energy(network)
    graph = training.exported(energy, training.collate(data[:2]), tmp_path / "energy.pt2")
    batch = training.collate(data)
    forces = []
    for of in (energy, graph):
        r = batch["positions"].clone().requires_grad_()
        charges, energies = of({**batch, "positions": r})
        forces.append((charges.detach(), energies.detach(), torch.autograd.grad(energies.sum(), r)[0]))
    for found, expected in zip(forces[1], forces[0]):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_the_script(tmp_path: Any, capsys: Any) -> None:
    short = ("--systems", 5, "--batch", 3)
    outputs = [run("train_potential", *short, "--epochs", 3, "--mixed", "--workers", 1)]
    checkpoint = ("--checkpoint", tmp_path / "run.pt", "--export", tmp_path / "energy.pt2")
    for epochs, first in ((2, 0), (4, 2)):
        assert main(training, *short, *checkpoint, "--hybrid", "--epochs", epochs) == 0
        outputs.append(capsys.readouterr().out)
        assert f"from epoch {first}" in outputs[-1]
    for output in outputs:
        difference = float(re.search(r"saved graph differs by (\S+) eV", output)[1])
        assert difference < 1e-3
