"""The Python examples: their physics against differences and closed forms, and short runs as a user starts them."""

import importlib.util
import itertools
import math
import re

import numpy as np
import pytest
import torch
from scripts import load, main, run

import madelung.numpy
from conftest import required
from differences import fourth_order

MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None

pytestmark = pytest.mark.host("the examples run there")


message_passing = load("message_passing")


@pytest.fixture
def crystals():
    return message_passing.crystals(2, seed=4)


@pytest.fixture
def messages():
    torch.manual_seed(1)
    return message_passing.Network(width=8, heads=2).double()


def test_forces_of_messages_are_those_of_the_energy(crystals, messages):
    """Pairs cross the cutoff along the way, and with them nothing changes but what is zero there."""
    found = message_passing.predict(messages, crystals)
    direction = torch.randn(crystals.positions.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def energy(h: float) -> float:
        moved = crystals.positions + h * direction
        return messages(message_passing.Batch(moved, crystals.cell, crystals.batch_idx)).sum().item()

    assert -float((found.forces * direction).sum()) == pytest.approx(fourth_order(energy, 1e-4), rel=1e-8)
    sums = torch.zeros(2, 3, dtype=torch.float64).index_add(0, crystals.batch_idx, found.forces)
    assert sums.abs().max() < 1e-12 * found.forces.abs().max()


def test_messages_turn_with_the_crystal(crystals, messages):
    """And do not depend on the order of the atoms."""
    found = message_passing.predict(messages, crystals)
    turn = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64))[0]
    order = torch.cat([torch.arange(32).flip(0), 32 + torch.arange(32).roll(5)])
    at = message_passing.Batch(crystals.positions[order] @ turn, crystals.cell @ turn, crystals.batch_idx)
    other = message_passing.predict(messages, at)
    torch.testing.assert_close(other.energy, found.energy, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(other.forces, found.forces[order] @ turn, rtol=1e-10, atol=1e-10)


def test_the_gradient_of_messages_is_that_of_the_loss(crystals, messages):
    wanted = message_passing.reference(crystals)
    parameters = list(messages.parameters())
    loss = message_passing.error(message_passing.predict(messages, crystals), wanted)
    gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)])
    start = torch.nn.utils.parameters_to_vector(parameters).detach()
    direction = torch.randn(start.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)

    def at(h: float) -> float:
        torch.nn.utils.vector_to_parameters(start + h * direction, parameters)
        return message_passing.error(message_passing.predict(messages, crystals), wanted).item()

    assert float(gradient @ direction) == pytest.approx(fourth_order(at, 1e-4), rel=1e-7)


def test_the_message_passing_script(tmp_path, capsys):
    short = ("--steps", 15, "--systems", 2)
    outputs = [run("message_passing", *short, "--plot", tmp_path / "plot.png")]
    assert main(message_passing, *short) == 0
    outputs.append(capsys.readouterr().out)
    for output in outputs:
        first, last = map(float, re.search(r"error (\S+) -> (\S+),", output).groups())
        assert last < first / 2
    assert (tmp_path / "plot.png").exists() == MATPLOTLIB


latent_charges = load("latent_charges")


def test_forces_of_latent_charges_are_those_of_the_energy():
    """Of the network and of the reference, in molecules, slabs and crystals."""
    batch = latent_charges.nn.collate(latent_charges.structures(3, seed=2), dl=latent_charges.DL)
    torch.manual_seed(1)
    model = latent_charges.Network(has_charges=True).double()
    direction = torch.randn(batch["positions"].shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    atoms = torch.bincount(batch["batch_idx"])
    for predict in (lambda batch: latent_charges.predict(model, batch), latent_charges.reference):

        def energy(h: float, predict=predict) -> float:
            moved = {**batch, "positions": batch["positions"] + h * direction}
            return (predict(moved).energy * atoms).sum().item()

        found = predict(batch)
        assert -float((found.forces * direction).sum()) == pytest.approx(fourth_order(energy, 1e-4), rel=1e-7)


def test_the_latent_charges_script(tmp_path, capsys):
    assert main(latent_charges, "--steps", 100, "--systems", 24, "--plot", tmp_path / "plot.png") == 0
    assert "latent charges" in capsys.readouterr().out
    assert (tmp_path / "plot.png").exists() == MATPLOTLIB


@pytest.fixture
def nve_salt():
    required("ase")
    return load("nve_salt")


def test_repulsion_of_two_ions(nve_salt):
    """In closed form, inside and beyond the taper; b, ρ, σ and c as Fumi and Tosi have them for NaCl."""
    from ase import Atoms

    for symbols, sigma, factor in (("Na2", 2.340, 1.25), ("NaCl", 2.755, 1.0), ("Cl2", 3.170, 0.75)):
        for r in (2.5, 4.0, 7.5):
            atoms = Atoms(symbols, positions=[[0, 0, 0], [0, 0, r]], cell=[20, 20, 20], pbc=True)
            atoms.calc = nve_salt.BornMayer()
            energy = 0.2110 * factor * torch.exp(torch.tensor((sigma - r) / 0.3170, dtype=torch.float64)).item()
            expected = energy if r < nve_salt.BornMayer.onset else 0.0
            assert atoms.get_potential_energy() == pytest.approx(expected, rel=1e-12)
            assert atoms.get_forces()[1, 2] == pytest.approx(expected / 0.3170, rel=1e-12)


def test_forces_of_the_salt(nve_salt):
    """Against differences of the energy, with ions in the taper."""
    atoms = nve_salt.salt(2, 0.0, 0)
    random = torch.Generator().manual_seed(4)
    noise, direction = (torch.randn(len(atoms), 3, generator=random, dtype=torch.float64).numpy() for _ in range(2))
    atoms.positions += 0.2 * noise
    positions = atoms.positions.copy()
    atoms.calc = nve_salt.BornMayer()
    forces = atoms.get_forces()

    def energy(h: float) -> float:
        atoms.positions = positions + h * direction
        return atoms.get_potential_energy()

    assert -(forces * direction).sum() == pytest.approx(fourth_order(energy, 1e-3), rel=1e-8)


def test_the_salt_keeps_its_energy(nve_salt):
    runs = {}
    for time_step in (1.0, 0.5):
        atoms = nve_salt.salt(2, 600.0, 0)
        assert abs(atoms.get_momenta().sum(axis=0)).max() < 1e-10
        atoms.calc = nve_salt.potential(accuracy=1e-9)
        runs[time_step] = nve_salt.simulate(atoms, round(60 / time_step), time_step)
    coarse, fine = runs.values()
    assert coarse.drift < nve_salt.ALLOWED_DRIFT
    assert coarse.kinetic.max() > 2 * coarse.kinetic.min()  # it did move
    # Velocity Verlet's error goes as the square of the time step, and nothing else is left of it.
    assert coarse.drift / fine.drift == pytest.approx(4.0, rel=0.05)


def test_the_salt_script(nve_salt, tmp_path, capsys):
    plot = tmp_path / "nve.png"
    output = run("nve_salt", "--steps", 20, "--size", 2, "--plot", plot)
    assert "64 ions, 20 steps of 1 fs" in output
    assert plot.exists() == MATPLOTLIB
    assert main(nve_salt, "--steps", 20, "--size", 2, "--time-step", 8, "--plot", plot) == 1
    drift = float(re.search(r"relative to \|E\(0\)\|\s+(\S+)", capsys.readouterr().out)[1])
    assert drift > nve_salt.ALLOWED_DRIFT


def test_own_kernel():
    """The parameters that the reference forces come from are found again."""
    said = run("own_kernel")
    found = [float(x) for x in re.findall(r"minimum: \[(.*)\]", said)[-1].split(",")]
    assert found == pytest.approx([0.3429, 1.3588, 2.866], rel=1e-7)


stillinger_weber = load("stillinger_weber")


def silicon_by_triplets(positions: np.ndarray, cell: np.ndarray) -> list[float]:
    """The energy of each atom in eV, bond by bond and angle by angle, as Stillinger and Weber write it."""
    epsilon, sigma, cutoff = 2.1683, 2.0951, 1.8 * 2.0951
    images = [np.array(n) @ cell for n in itertools.product(range(-2, 3), repeat=3)]
    energies = []
    for x in positions:
        bonds = [d.tolist() for y in positions for n in images if 0 < np.linalg.norm(d := y + n - x) < cutoff]
        energy = 0.0
        for d in bonds:
            r = math.hypot(*d) / sigma
            energy += 0.5 * epsilon * 7.049556277 * (0.6022245584 / r**4 - 1) * math.exp(1 / (r - 1.8))
        for d, f in itertools.combinations(bonds, 2):
            r, s = math.hypot(*d), math.hypot(*f)
            cosine = sum(a * b for a, b in zip(d, f)) / (r * s)
            decay = math.exp(1.2 / (r / sigma - 1.8) + 1.2 / (s / sigma - 1.8))
            energy += 21.0 * epsilon * decay * (cosine + 1 / 3) ** 2
        energies.append(energy)
    return energies


@pytest.fixture(scope="module")
def rattled():
    """Eight atoms in a sheared cell, each with images of itself and its neighbours around it."""
    positions, cell = stillinger_weber.diamond(1)
    rng = np.random.default_rng(6)
    strain = np.eye(3) + rng.normal(scale=0.03, size=(3, 3))
    return positions @ strain + rng.normal(scale=0.2, size=positions.shape), cell @ strain


def test_silicon_is_a_sum_over_triplets(rattled):
    positions, cell = rattled
    pairs = madelung.numpy.find_neighbors(positions, stillinger_weber.CUTOFF + 0.5, cell)
    energies = stillinger_weber.stillinger_weber(positions, cell, pairs=pairs)
    np.testing.assert_allclose(energies, silicon_by_triplets(positions, cell), rtol=1e-12)


def test_forces_of_silicon(rattled):
    """Against differences of the sum over triplets."""
    positions, cell = rattled
    direction = np.random.default_rng(7).normal(size=positions.shape)
    energy, forces = stillinger_weber.potential(cell)(positions)
    expected = fourth_order(lambda h: sum(silicon_by_triplets(positions + h * direction, cell)), 1e-3)
    assert energy == pytest.approx(sum(silicon_by_triplets(positions, cell)), rel=1e-12)
    assert -(forces * direction).sum() == pytest.approx(expected, rel=1e-8)


def test_the_crystal_of_silicon():
    """Its cohesive energy and lattice parameter as published: −2 ε, and bonds of 2^(1/6) σ."""
    constant = 4 / math.sqrt(3) * 2 ** (1 / 6) * 2.0951
    energies = []
    for scale in (0.999, 1.0, 1.001):
        positions, cell = stillinger_weber.diamond(2, scale * constant)
        energy, forces = stillinger_weber.potential(cell)(positions)
        assert abs(forces).max() < 1e-12
        energies.append(energy / len(positions))
    assert energies[1] == pytest.approx(-4.3366, abs=1e-6)
    assert energies[1] < min(energies[0], energies[2])
    assert constant == pytest.approx(5.431, abs=5e-4)


def test_silicon_keeps_its_energy():
    positions, cell = stillinger_weber.diamond(2)
    largest = []
    for time_step in (1.0, 0.5):
        rng = np.random.default_rng(0)
        energies = stillinger_weber.simulate(positions, cell, round(60 / time_step), time_step, 600.0, rng)
        total, kinetic = energies.sum(1), energies[:, 1]
        largest.append(abs(total - total[0]).max() / kinetic.mean())
        assert kinetic.max() > 2 * kinetic.min()  # it did move
    assert largest[0] < stillinger_weber.ALLOWED_DRIFT
    # Velocity Verlet's error goes as the square of the time step, and nothing else is left of it.
    assert largest[0] / largest[1] == pytest.approx(4.0, rel=0.05)


def test_the_silicon_script(tmp_path):
    plot = tmp_path / "silicon.png"
    output = run("stillinger_weber", "--steps", 20, "--size", 2, "--plot", plot)
    assert "-4.336600 eV per atom" in output
    assert "64 atoms, 20 steps of 1 fs" in output
    assert plot.exists() == MATPLOTLIB
