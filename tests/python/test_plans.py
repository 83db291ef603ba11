"""What a sum consists of, whatever is given: slabs in any cell, open systems beside any list, batches of any mix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import required

EVERYTHING = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}
CRYSTAL, SLAB, WIRE, OPEN = (True,) * 3, (True, True, False), (False, True, False), (False,) * 3
SUMS = {
    "ewald": lambda *x, **more: mn.ewald_summation(*x, method="list", **more),
    "direct": lambda *x, **more: mn.ewald_summation(*x, method="direct", **more),
    "pme": mn.particle_mesh_ewald,
}


def layer() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """64 ions of rock salt, moved by up to 0.15, periodic along two axes of period 11.28."""
    rng = np.random.default_rng(0)
    sites = np.stack(np.meshgrid(*[np.arange(4)] * 3, indexing="ij"), -1).reshape(-1, 3)
    r = 2.82 * sites + rng.uniform(-0.15, 0.15, sites.shape)
    return r, (-1.0) ** sites.sum(1), np.diag([11.28, 11.28, 60.0])


def molecule(seed: int, atoms: int = 12, size: float = 8.0) -> tuple[np.ndarray, np.ndarray]:
    """Charges at random places, with a net charge."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0.0, size, (atoms, 3)), rng.normal(size=atoms)


def pairs_of(r: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Energies and forces of charges in free space, in float64."""
    r, q = r.astype(np.float64), q.astype(np.float64)
    d = r[None] - r[:, None]
    length = np.linalg.norm(d, axis=-1)
    np.fill_diagonal(length, np.inf)
    return 0.5 * q * (q / length).sum(1), -((q[:, None] * q / length**3)[..., None] * d).sum(1)


# A vector along the open axis is no physics: of any length, zero, in the plane, across it at any angle.
VECTORS = [(0.0, 0.0, h) for h in (22.0, 8.0, 5.0, 1.0, 0.0)] + [(3.0, 1.0, 0.0), (4.0, -2.0, 9.0), (0.0, 0.0, -30.0)]


@pytest.mark.parametrize("method", SUMS)
def test_slabs_do_not_depend_on_the_open_vector(method: str) -> None:
    r, q, h = layer()
    given: dict[str, Any] = {"pbc": SLAB, "slab_correction": True, "accuracy": 1e-6, **EVERYTHING}
    expected = SUMS[method](r, q, h, **given)
    # In a cell of five periods and to 1e-11, all images of the gap are gone.
    tall = np.diag([11.28, 11.28, 66.0])
    p = mn.estimate_ewald_parameters(r, q, tall, 1e-11)
    miller, of = mn.generate_miller_indices(tall, p.k_cutoff)
    whole = {"cutoff": p.cutoff, "miller_indices": miller, "miller_batch_idx": of, **given, "accuracy": None}
    exact = mn.ewald_summation(r, q, tall, p.alpha, **whole)
    unit = (11.28 * 11.28 * 11.28 / 64) ** (-2.0 / 3.0)
    assert np.sqrt(((expected[1] - exact[1]) ** 2).sum(1).mean()) < 1e-6 * unit
    assert abs(expected[0].sum() - exact[0].sum()) < 1e-5
    for vector in VECTORS:
        cell = np.stack([h[0], h[1], vector])
        for a, b in zip(SUMS[method](r, q, cell, **given), expected):
            assert np.abs(a - b).max() <= 1e-13 * np.abs(b).max(), vector


@pytest.mark.parametrize("axis", [0, 1])
def test_slabs_along_any_axis_and_lists_of_two(axis: int) -> None:
    r, q, h = layer()
    given: dict[str, Any] = {"slab_correction": True, "accuracy": 1e-8, "method": "list", **EVERYTHING}
    expected = mn.ewald_summation(r, q, h, pbc=SLAB, **given)
    turned = np.roll(np.arange(3), axis + 1)
    pbc = np.array(SLAB)[turned]
    x, cell = np.ascontiguousarray(r[:, turned]), np.ascontiguousarray(h[turned][:, turned])
    cell[pbc.argmin()] = 0.0
    lists = mn.find_neighbors(x, 9.0, cell, pbc)
    for more in ({}, {"neighbors": lists}, {**lists.lists, "cutoff": 9.0}):
        found = mn.ewald_summation(x, q, cell, pbc=pbc, **given, **more)
        assert np.abs(found[1] - expected[1][:, turned]).max() < 5e-9


def test_derivatives_of_slabs_by_the_cell() -> None:
    torch = required("torch")
    import madelung.torch as mt

    r, q, h = (torch.tensor(x) for x in layer())
    r, q, h = r[:12], q[:12], h + 0.3 * torch.tensor([[0.0, 1.0, 0.5], [0.2, 0.0, 0.3], [1.0, 2.0, 0.0]])
    given: dict[str, Any] = {"pbc": SLAB, "slab_correction": True, "method": "list", "accuracy": 1e-12}

    def energy(h: Any) -> Any:
        return mt.ewald_summation(r, q, h, **given).sum()

    h.requires_grad_()
    (by_cell,) = torch.autograd.grad(energy(h), h)
    assert (by_cell[2] == 0.0).all()
    for row, column in ((0, 0), (0, 2), (1, 1), (1, 0), (2, 2)):
        step = torch.zeros(3, 3, dtype=torch.float64)
        step[row, column] = 1e-4
        slope = (energy(h.detach() + step) - energy(h.detach() - step)) / 2e-4
        assert abs(slope - by_cell[row, column]) < 1e-7


def test_heights_that_are_given() -> None:
    r, q, h = layer()
    given: dict[str, Any] = {"pbc": SLAB, "slab_correction": True, "method": "list"}
    expected = mn.ewald_summation(r, q, h, accuracy=1e-9, **given)
    assert np.abs(mn.ewald_summation(r, q, h, accuracy=1e-9, slab_height=60.0, **given) - expected).max() < 1e-8
    p = mn.estimate_ewald_parameters(r, q, h, 1e-9, pbc=SLAB)
    miller, of = mn.generate_miller_indices(h, p.k_cutoff, pbc=SLAB, slab_height=p.slab_height)
    whole = {
        "cutoff": p.cutoff,
        "miller_indices": miller,
        "miller_batch_idx": of,
        "slab_height": p.slab_height,
        **given,
    }
    assert (
        np.abs(mn.ewald_summation(r, q, h * 0.0 + np.diag([11.28] * 2 + [0.0]), p.alpha, **whole) - expected).max()
        < 1e-8
    )
    mesh = mn.estimate_pme_parameters(r, q, h, 1e-7, pbc=SLAB)
    sizes = {"mesh_dimensions": mesh.mesh_dimensions, "spline_order": mesh.spline_order, "cutoff": mesh.cutoff}
    on_mesh = {"pbc": SLAB, "slab_correction": True, "slab_height": mesh.slab_height, **sizes}
    found = mn.particle_mesh_ewald(r, q, h, mesh.alpha, **on_mesh)
    assert np.abs(found - expected).max() < 1e-6
    with pytest.raises(ValueError, match="`slab_height`: expected a height of at least"):
        mn.ewald_summation(r, q, h, slab_height=12.0, **given)
    short = np.diag([11.28, 11.28, 9.0])
    with pytest.raises(ValueError, match="`cell`: expected a height of at least"):
        mn.ewald_summation(r, q, short, p.alpha, **{**whole, "slab_height": None})
    with pytest.raises(ValueError, match="`slab_height`: expected the height"):
        mn.generate_miller_indices(h, 2.0, pbc=SLAB)


def test_charges_in_equilibrium_on_slabs() -> None:
    r, _, h = layer()
    rng = np.random.default_rng(1)
    chi, eta, widths = rng.normal(size=64), rng.uniform(1.0, 2.0, 64), rng.uniform(0.4, 0.7, 64)
    given: dict[str, Any] = {"pbc": SLAB, "slab_correction": True, "accuracy": 1e-9}
    expected = mn.qeq(r, chi, eta, widths, h, **given)
    for vector in VECTORS[2:6]:
        found = mn.qeq(r, chi, eta, widths, np.stack([h[0], h[1], vector]), **given)
        assert np.abs(found[0] - expected[0]).max() < 1e-10 and np.abs(found[1] - expected[1]).max() < 1e-10


@pytest.mark.parametrize("sums", [mn.ewald_summation, mn.particle_mesh_ewald, mn.coulomb])
def test_open_systems_sum_all_pairs_whatever_list_is_given(sums: Any) -> None:
    r, q = molecule(0, 20)
    energies, forces = pairs_of(r, q)
    lists = mn.find_neighbors(r, 3.0)
    assert lists.coo()[0].shape[1] < 20 * 19
    for more in ({}, {"neighbors": lists}, lists.lists):
        found = sums(r, q, None, compute_forces=True, **more)
        assert np.abs(found[0] - energies).max() < 1e-13 and np.abs(found[1] - forces).max() < 1e-12
    # Beside exclusions too, where a list has the pairs around these.
    pairs, factors = np.array([[0, 1], [2, 3], [0, 7]], np.int32), np.array([0.0, 0.5, 1.0])
    left_out = energies.copy()
    for (i, j), f in zip(pairs, factors):
        e = 0.5 * (1.0 - f) * q[i] * q[j] / np.linalg.norm(r[i] - r[j])
        left_out[[i, j]] -= e
    for more in ({}, {"neighbors": lists}):
        found = sums(r, q, None, exclusions=(pairs, factors), **more)
        assert np.abs(found - left_out).max() < 1e-12


def test_a_batch_with_a_molecule_of_any_size() -> None:
    required("torch")
    from madelung.torch import nn

    (r, q), crystal = molecule(3, 9, 20.0), molecule(4, 16, 8.0)
    cell = np.diag([8.0, 8.5, 9.0])
    structures = [
        {"positions": crystal[0], "charges": crystal[1], "cell": cell, "pbc": np.array(CRYSTAL)},
        {"positions": r, "charges": q},
    ]
    batch = nn.collate(structures, cutoff=5.0)
    neighbors = batch.pop("neighbors")
    found = nn.EwaldSum(energy_reduction="atom")(**batch, neighbors=neighbors)
    assert np.abs(found[16:].numpy() - pairs_of(r, q)[0]).max() < 1e-13
    alone = nn.EwaldSum(energy_reduction="atom", cutoff=5.0)(
        *(x[:16] for x in (batch["positions"], batch["charges"])), batch["cell"][0]
    )
    assert (found[:16] - alone).abs().max() < 1e-13


def test_single_precision_of_open_systems() -> None:
    far = np.array([[0.0, 0.0, 0.0], [1e6, 0.0, 0.0]], np.float32)
    one = np.ones(2, np.float32)
    for found in (mn.coulomb(far, one), mn.ewald_summation(far, one, None)):
        assert found.sum() == pytest.approx(1e-6, rel=2e-7)


def test_permission_for_slabs_without_one() -> None:
    r, q = molecule(5)
    h = np.diag([9.0, 9.0, 9.0])
    for sums in (mn.ewald_summation, mn.particle_mesh_ewald):
        for of in (
            {"cell": h},
            {"cell": None},
            {"cell": h, "pbc": WIRE},
            {"cell": h[None], "batch_idx": np.zeros(12, np.int32)},
        ):
            assert (sums(r, q, slab_correction=True, **of) == sums(r, q, **of)).all()
        none = np.empty((0, 3))
        assert sums(none, none[:, 0], h, slab_correction=True).shape == (0,)


def test_all_given_means_given() -> None:
    torch, jax = required("torch"), required("jax")
    import madelung.jax as mj
    import madelung.torch as mt

    r, q = molecule(6, 16)
    h = np.diag([8.0, 8.0, 8.0])
    # Of an accuracy of some 1e-3.
    given: dict[str, Any] = {"alpha": 0.6, "cutoff": 4.0, "mesh_dimensions": (12, 12, 12)}
    expected = mn.particle_mesh_ewald(r, q, h, **given)
    assert np.abs(mt.particle_mesh_ewald(*map(torch.tensor, (r, q, h)), **given).numpy() - expected).max() < 1e-13
    with jax.enable_x64(True):
        lists = mj.find_neighbors(r, 4.0, h)
        under_jit = jax.jit(lambda r: mj.particle_mesh_ewald(r, q, h, neighbors=lists, **given))(r)
        assert np.abs(under_jit - expected).max() < 1e-12
    with pytest.raises(ValueError, match="`accuracy`: expected one that the given parameters allow"):
        mn.particle_mesh_ewald(r, q, h, accuracy=1e-6, **given)
    # A list without its cutoff is what is summed; so is one of several cutoffs.
    waves = {"alpha": 0.6, "k_cutoff": 6.0}
    plain = mn.find_neighbors(r, 4.0, h).lists
    assert (
        mn.ewald_summation(r, q, h, **waves, **plain) == mn.ewald_summation(r, q, h, cutoff=4.0, **waves, **plain)
    ).all()
    both = np.concatenate([r, r]), np.concatenate([q, q]), np.stack([h, h]), np.repeat(np.arange(2, dtype=np.int32), 16)
    plain = mn.find_neighbors(both[0], 4.0, both[2], batch_idx=both[3]).lists
    found = mn.ewald_summation(*both[:3], cutoff=[4.0, 4.0], batch_idx=both[3], **waves, **plain)
    assert np.abs(found[:16] - mn.ewald_summation(r, q, h, cutoff=4.0, **waves)).max() < 1e-14


def test_single_precision_promises_what_it_reaches() -> None:
    r, q = (x.astype(np.float32) for x in molecule(7, 60, 10.0))
    h = np.diag([10.0, 10.0, 10.0]).astype(np.float32)
    exact = mn.ewald_summation(r.astype(float), q.astype(float), h.astype(float), accuracy=1e-11, compute_forces=True)[
        1
    ]
    found = mn.ewald_summation(r, q, h, compute_forces=True)[1]
    unit = (q.astype(float) ** 2).mean() * (1000.0 / 60) ** (-2.0 / 3.0)
    assert np.sqrt(((found - exact) ** 2).sum(1).mean()) < 1e-5 * unit
    for call in (mn.ewald_summation, mn.particle_mesh_ewald, mn.estimate_ewald_parameters):
        with pytest.raises(
            ValueError, match="`accuracy`: expected a relative force error from 1e-5 .the rounding of float32"
        ):
            call(r, q, h, accuracy=1e-6)
