"""Latent Ewald sums: numbers of another implementation, batches, derivatives, graphs, modules and Born charges."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import ROOT, required
from differences import check_torch
from madelung.units import LATENT_EWALD

torch, jax = required("torch"), required("jax")
import jax.numpy as jnp  # noqa: E402

import madelung.jax as mj  # noqa: E402
import madelung.torch as mt  # noqa: E402
from madelung.jax import nn as jax_nn  # noqa: E402
from madelung.torch import nn  # noqa: E402

CASES = json.loads((ROOT / "tests" / "data" / "latent_references.json").read_text(encoding="utf-8"))
TRICLINIC = np.array([[6.9, 0.0, 0.0], [2.1, 7.7, 0.0], [-1.3, 0.9, 8.3]])


@pytest.fixture(autouse=True)
def double() -> Any:
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield


def close(found: Any, expected: Any) -> None:
    found, expected = (x.detach().numpy() if hasattr(x, "detach") else np.asarray(x) for x in (found, expected))
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 1e-10 * max(np.abs(expected).max(), 1e-3 * LATENT_EWALD)


def given(case: dict[str, Any]) -> tuple[Any, ...]:
    """The system of a case, and the options of a call."""
    q = np.array(case["charges"])
    q = q[:, 0] if q.shape[1] == 1 else q
    options = {name: case[name] for name in ("sigma", "dl", "remove_self_interaction")}
    options |= {"prefactor": LATENT_EWALD, "energy_reduction": "system"}
    return np.array(case["positions"]), q, np.array(case["cell"]), options


@pytest.mark.parametrize("name", CASES)
def test_numbers_of_another_implementation(name: str) -> None:
    case = CASES[name]
    r, q, h, options = given(case)
    wanted = {"compute_forces": True, "compute_charge_gradients": True}
    found = mn.latent_ewald(r, q, h, **options, **wanted)
    expected = [[case["energy"]], case["forces"], np.array(case["charge_gradients"]).reshape(q.shape)]
    for x, y in zip(found, expected):
        close(x, y)
    of_torch = mt.latent_ewald(*map(torch.from_numpy, (r, q, h)), **options, **wanted)
    of_jax = mj.latent_ewald(*map(jnp.asarray, (r, q, h)), **options, **wanted)
    for x, y, z in zip(found, of_torch, of_jax):
        assert np.array_equal(x, y)
        assert np.array_equal(x, z)
    # Without a cell, and by periodic axes.
    pbc = bool(h.any())
    assert np.array_equal(mn.latent_ewald(r, q, h, pbc=[pbc] * 3, **options), found[0])
    if not pbc:
        assert np.array_equal(mn.latent_ewald(r, q, **options), found[0])
        assert np.array_equal(mn.latent_ewald(r, q, TRICLINIC, pbc=[False] * 3, **options), found[0])
    atoms = mn.latent_ewald(r, q, h, **options | {"energy_reduction": "atom"})
    close(atoms.sum(), case["energy"])


@pytest.mark.parametrize("name", CASES)
def test_second_order_of_a_loss_on_forces(name: str) -> None:
    case = CASES[name]
    r, q, h, options = given(case)
    expected = case["second_by_positions"], np.array(case["second_by_charges"]).reshape(q.shape)
    w = np.array(case["direction"])

    x, y, cell = (torch.from_numpy(a).requires_grad_() for a in (r, q, h))
    energy = mt.latent_ewald(x, y, cell, **options).sum()
    (gradient,) = torch.autograd.grad(energy, x, create_graph=True)
    by_autograd = torch.autograd.grad(-(gradient * torch.from_numpy(w)).sum(), (x, y))
    forces = mt.latent_ewald(x, y, cell, compute_forces=True, **options)[1]
    of_forces = torch.autograd.grad((forces * torch.from_numpy(w)).sum(), (x, y))

    def loss(r: Any, q: Any) -> Any:
        return (mj.latent_ewald(r, q, jnp.asarray(h), compute_forces=True, **options)[1] * w).sum()

    for found in (by_autograd, of_forces, jax.grad(loss, (0, 1))(jnp.asarray(r), jnp.asarray(q))):
        for a, b in zip(found, expected):
            close(a, b)


def mixed(channels: int | None = None) -> list[dict[str, Any]]:
    """Structures of both kinds, alternating, of several sizes."""
    rng = np.random.default_rng(3)
    found = []
    for n, atoms in enumerate((7, 5, 1, 9, 6)):
        cell = TRICLINIC + 0.3 * rng.normal(size=(3, 3)) if n % 2 == 0 else np.zeros((3, 3))
        q = rng.normal(size=atoms if channels is None else (atoms, channels))
        found.append({"positions": rng.uniform(0.0, 7.0, (atoms, 3)), "cell": cell, "charges": q, "energy": float(n)})
    return found


@pytest.mark.parametrize("channels", [None, 2])
def test_a_batch_of_both_kinds_is_its_systems(channels: int | None) -> None:
    structures = mixed(channels)
    batch = nn.collate(structures, dl=1.7)
    options = {"dl": 1.7, "compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}
    options |= {"sigma": torch.tensor([1.0, 0.9, 1.1, 0.8, 1.2], dtype=torch.float64)}
    system = batch["positions"], batch["charges"], batch["cell"]
    energies, forces, potentials, virial = mt.latent_ewald(*system, batch_idx=batch["batch_idx"], **options)
    lists = mt.latent_ewald(*system, batch_idx=batch["batch_idx"], pbc=batch["pbc"], **options, **batch["latent_ewald"])
    for a, b in zip((energies, forces, potentials, virial), lists):
        assert torch.equal(a, b)
    for n, one in enumerate(structures):
        of = batch["batch_idx"] == n
        alone = mn.latent_ewald(
            one["positions"], one["charges"], one["cell"], **options | {"sigma": float(options["sigma"][n])}
        )
        for a, b in zip(alone, (energies[of], forces[of], potentials[of], virial[n])):
            assert np.array_equal(a, b)


@pytest.mark.parametrize("remove", [True, False])
def test_derivatives_to_second_order(remove: bool) -> None:
    """By positions, charges, cell and sigma, in a batch of both kinds."""
    batch = nn.collate(mixed()[:2], dl=2.2)
    periodic = batch["batch_idx"] == 0

    def energies(r: Any, q: Any, cell: Any, sigma: Any) -> Any:
        h = torch.stack([cell, torch.zeros_like(cell)])
        return mt.latent_ewald(
            r,
            q,
            h,
            sigma,
            batch_idx=batch["batch_idx"],
            remove_self_interaction=remove,
            energy_reduction="system",
            **batch["latent_ewald"],
        )

    sigma = torch.tensor([1.0, 1.3], dtype=torch.float64)
    inputs = [x.clone().requires_grad_() for x in (batch["positions"], batch["charges"], batch["cell"][0], sigma)]
    check_torch(energies, inputs, forward=True)
    gradient = torch.autograd.grad(energies(*inputs)[1], inputs[:3], allow_unused=True)
    assert not gradient[0][periodic].any() and gradient[0][~periodic].any()


@pytest.mark.parametrize("channels", [None, 2])
def test_compiled_in_one_graph(channels: int | None) -> None:
    batch = nn.collate(mixed(channels), dl=2.0)
    model = nn.LatentEwald(1.1, learnable=True).double()
    system = batch["charges"], batch["cell"], batch["batch_idx"]

    def forces(r: Any, charges: Any, cell: Any, idx: Any, pbc: Any) -> Any:
        return model(r, charges, cell, idx, pbc, compute_forces=True, **batch["latent_ewald"])[1]

    compiled = torch.compile(forces, fullgraph=True)
    for pbc in (None, batch["pbc"]):
        leaves = [batch["positions"].clone().requires_grad_() for _ in range(2)]
        found, expected = compiled(leaves[0], *system, pbc), forces(leaves[1], *system, pbc)
        # Graphs and eager calls ask for other sets of gradients, whose forms round differently.
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)
        for x, r in zip((found, expected), leaves):
            (x**2).sum().backward()
            assert r.grad.any()
        torch.testing.assert_close(leaves[0].grad, leaves[1].grad, rtol=1e-12, atol=1e-13)
    assert model.sigma.grad != 0.0


def test_under_jit_and_vmap() -> None:
    batch = jax_nn.collate(mixed(), dl=2.0)

    def energies(r: Any, q: Any, lists: Any) -> Any:
        return mj.latent_ewald(r, q, batch["cell"], batch_idx=batch["batch_idx"], energy_reduction="system", **lists)

    r, q, lists = batch["positions"], batch["charges"], batch["latent_ewald"]
    expected = energies(r, q, lists)
    assert (jax.jit(energies)(r, q, lists) == expected).all()
    both = jax.vmap(energies, (None, 0, None))(r, jnp.stack([q, 2 * q]), lists)
    assert (both[0] == expected).all() and (both[1] == energies(r, 2 * q, lists)).all()
    with pytest.raises(ValueError, match="a traced array"):
        jax.jit(lambda r, q, h: mj.latent_ewald(r, q, h))(r[:7], q[:7], batch["cell"][0])


def polarisation(r: np.ndarray, q: np.ndarray, cell: np.ndarray, atom: int) -> np.ndarray:
    """As the paper defines it: from the point of view of an atom, by its phases, where the system is periodic."""
    q = q - q.mean()
    if not cell.any():
        return q @ r
    inverse = np.linalg.inv(cell)
    moved, here = np.exp(2j * np.pi * (r @ inverse)), np.exp(2j * np.pi * (ORIGIN[atom] @ inverse))
    return np.real(here.conj() * (q @ moved) / 2j / np.pi) @ cell


ORIGIN = mixed()[0]["positions"]


def moving(xp: Any, r: Any) -> Any:
    """Charges that depend on the positions of all atoms."""
    d = r[:, None] - r[None]
    return xp.cos((xp.sin(d) * d).sum(-1)).sum(1) + 0.3 * r[:, 0]


@pytest.mark.parametrize("periodic", [True, False])
def test_born_charges_are_differences_of_the_polarisation(periodic: bool) -> None:
    cell = TRICLINIC if periodic else np.zeros((3, 3))
    r = torch.from_numpy(ORIGIN).requires_grad_()
    found = nn.born_charges(r, moving(torch, r), torch.from_numpy(cell), epsilon=4.0).numpy()
    of_jax = jax_nn.born_charges(lambda x: moving(jnp, x), jnp.asarray(ORIGIN), jnp.asarray(cell), epsilon=4.0)
    assert np.abs(found - of_jax).max() <= 1e-12 * np.abs(found).max()
    h = 1e-3
    for i in range(len(ORIGIN)):
        for b in range(3):
            step = np.zeros_like(ORIGIN)
            step[i, b] = 1.0
            at = {n: ORIGIN + n * h * step for n in (-2, -1, 1, 2)}
            p = {n: polarisation(x, moving(np, x), cell, i) for n, x in at.items()}
            expected = 2.0 * (8 * (p[1] - p[-1]) - (p[2] - p[-2])) / (12 * h)
            assert np.abs(found[i, :, b] - expected).max() <= 1e-7 * np.abs(found).max()


def test_born_charges_of_a_batch_and_their_derivatives() -> None:
    batch = nn.collate([{"positions": ORIGIN, "cell": h} for h in (TRICLINIC, np.zeros((3, 3)))])
    charges = torch.randn(2 * len(ORIGIN), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    r, q = batch["positions"].requires_grad_(), charges.requires_grad_()
    moved = q * (1.0 + 0.0 * r.sum())
    found = nn.born_charges(r, moved, batch["cell"], batch["batch_idx"], remove_mean=False, create_graph=True)
    # Charges that do not move with the atoms.
    assert torch.allclose(found, q[:, None, None] * torch.eye(3, dtype=torch.float64), rtol=0.0, atol=1e-13)
    (gradient,) = torch.autograd.grad(found.diagonal(dim1=1, dim2=2).sum(), q)
    assert torch.allclose(gradient, torch.full_like(q, 3.0), rtol=0.0, atol=1e-12)


def test_modules_are_their_functions() -> None:
    structures = mixed()[::2]
    batch = nn.collate(structures, per_system=("energy",), cutoff=4.0)
    system = batch["positions"], batch["charges"], batch["cell"]
    axes = {"batch_idx": batch["batch_idx"], "pbc": batch["pbc"]}
    assert batch["energy"].tolist() == [0.0, 2.0, 4.0] and batch["energy"].dtype == torch.float64
    module = nn.EwaldSum(0.8, 4.0, 5.0)
    expected = mt.ewald_summation(*system, 0.8, cutoff=4.0, k_cutoff=5.0, accuracy=None, batch_idx=axes["batch_idx"])
    found = module(*system, **axes, neighbors=batch["neighbors"], energy_reduction="atom")
    assert torch.allclose(found, expected, rtol=1e-12, atol=1e-12)
    mesh = nn.ParticleMeshEwald(0.8, 4.0, (24, 24, 24), 6)(*system, **axes, neighbors=batch["neighbors"])
    assert torch.allclose(mesh, module(*system, **axes), rtol=2e-3, atol=2e-3)
    # Left out, numbers are those that the function has by default.
    options = {"cutoff": 4.0, "accuracy": 1e-3, "neighbors": batch["neighbors"], "energy_reduction": "system", **axes}
    of_function = mt.particle_mesh_ewald(*system, 0.8, **options)
    assert torch.equal(
        nn.ParticleMeshEwald(0.8, 4.0, accuracy=1e-3)(*system, **axes, neighbors=batch["neighbors"]), of_function
    )
    chosen = nn.EwaldSum(accuracy=1e-8)(*system, **axes)
    assert torch.allclose(chosen, mt.ewald_summation(*system, accuracy=1e-8, energy_reduction="system", **axes))
    assert list(nn.LatentEwald().state_dict()) == ["sigma"] and not list(nn.LatentEwald().parameters())
    assert "sigma=1.0" in repr(nn.LatentEwald()) and "alpha=None" in repr(nn.EwaldSum())


def test_bad_input_is_named() -> None:
    one = mixed()[0]
    r, q, h = one["positions"], one["charges"], one["cell"]
    slab = h * np.array([1.0, 1.0, 0.0])[:, None]
    calls: list[tuple[str, Any]] = [
        ("pbc", lambda: mn.latent_ewald(r, q, h, pbc=[True, True, False])),
        ("pbc", lambda: mn.latent_ewald(r, q, slab)),
        ("cell", lambda: mn.latent_ewald(r, q, pbc=True)),
        ("sigma", lambda: mn.latent_ewald(r, q, h, -1.0)),
        ("dl", lambda: mn.latent_ewald(r, q, h, dl=0.0)),
        ("charges", lambda: mn.latent_ewald(r, q[:, None][:, :0], h)),
        ("charges", lambda: mn.latent_ewald(r, q[:3], h)),
        ("remove_self_interaction", lambda: mn.latent_ewald(r, q, h, remove_self_interaction=1)),
        ("neighbors", lambda: mn.latent_ewald(r, q, h, neighbors=mn.find_neighbors(r, 3.0, h))),
        ("neighbors", lambda: mn.latent_ewald(r, q, h, **mn.latent_ewald_lists(r))),
        ("neighbors", lambda: mn.latent_ewald(r, q, h, neighbors=mn.neighbor_list(r, 3.0, h))),
        ("learnable", lambda: nn.EwaldSum(learnable=True)),
        ("structures", lambda: nn.collate([])),
        ("structures", lambda: nn.collate([one, {"positions": r}])),
        ("weights", lambda: nn.collate([{"positions": r, "weights": np.zeros(3)}])),
        ("cell", lambda: nn.collate([{"positions": r, "pbc": True}])),
        ("charges", lambda: nn.born_charges(torch.zeros(2, 3, requires_grad=True), torch.zeros(2, 2))),
        ("positions", lambda: nn.born_charges(torch.zeros(2, 3), torch.zeros(2))),
    ]
    for name, call in calls:
        with pytest.raises((ValueError, TypeError), match=f"`{'alpha' if name == 'learnable' else name}`"):
            call()
