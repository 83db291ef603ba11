"""Molecules, slabs and crystals, alone and in one batch, against direct sums and tall boxes; sums with a cutoff."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import required
from differences import check_jax, check_torch

EVERYTHING = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}
CELL = np.array([[8.0, 0.0, 0.0], [1.0, 8.0, 0.0], [0.0, 0.5, 8.0]])
SLAB = np.array([[5.0, 0.0, 0.0], [1.0, 5.5, 0.0], [0.8, -0.6, 24.0]])
AXES = [[True, True, True], [False, False, False], [True, True, False]]


def cloud(seed: int, atoms: int, size: float) -> tuple[np.ndarray, np.ndarray]:
    """Charges at random places, with a net charge."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0.0, size, (atoms, 3)), rng.normal(size=atoms)


def mixed() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A crystal, a molecule and a slab, each with a net charge."""
    systems = [cloud(1, 16, 8.0), cloud(2, 20, 6.0), cloud(3, 10, 4.0)]
    r, q = (np.concatenate([s[n] for s in systems]) for n in (0, 1))
    cells = np.stack([CELL, np.zeros((3, 3)), SLAB])
    return r, q, cells, np.repeat(np.arange(3, dtype=np.int32), [16, 20, 10])


def direct(r: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Energies, forces, potentials and the virial of charges in free space."""
    d = r[None] - r[:, None]
    length = np.linalg.norm(d, axis=-1)
    np.fill_diagonal(length, np.inf)
    potentials = (q / length).sum(1)
    pairs = (q[:, None] * q / length**3)[..., None] * d
    return 0.5 * q * potentials, -pairs.sum(1), potentials, 0.5 * np.einsum("ija,ijb->ab", pairs, d)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_open_systems_against_direct_sums(dtype: Any) -> None:
    r, q = (x.astype(dtype) for x in cloud(4, 25, 7.0))
    expected = direct(r.astype(np.float64), q.astype(np.float64))
    bound = 2e-14 if dtype is np.float64 else 2e-6
    for found in (
        mn.coulomb(r, q, **EVERYTHING),
        mn.coulomb(r, q, np.eye(3, dtype=dtype), pbc=False, **EVERYTHING),
        mn.ewald_summation(r, q, None, **EVERYTHING),
        mn.ewald_summation(r, q, np.zeros((3, 3), dtype), pbc=False, accuracy=1e-4, **EVERYTHING),
        mn.particle_mesh_ewald(r, q, None, **EVERYTHING),
    ):
        for a, b in zip(found, expected):
            assert a.shape == b.shape and np.abs(a - b).max() < bound * np.abs(b).max()


@pytest.mark.parametrize("method", ["ewald", "pme"])
def test_a_mixed_batch_is_its_systems(method: str) -> None:
    r, q, cells, idx = mixed()
    sums, given = mn.ewald_summation, {"accuracy": 1e-9, **EVERYTHING}
    if method == "pme":
        sums, given = mn.particle_mesh_ewald, {"accuracy": 1e-5, "mesh_dimensions": (32, 32, 128), **EVERYTHING}
    both = sums(r, q, cells, pbc=AXES, slab_correction=True, batch_idx=idx, **given)
    for b in range(3):
        of = idx == b
        boundary: dict[str, Any] = {"pbc": AXES[b], "slab_correction": b == 2}
        alone = sums(r[of], q[of], None if b == 1 else cells[b], **boundary, **given)
        for n, x in enumerate(alone):
            found = both[n][b] if n == 3 else both[n][of]
            assert np.abs(found - x).max() <= 1e-15 * np.abs(x).max()
        if b == 1:
            assert np.abs(alone[0] - direct(r[of], q[of])[0]).max() < 1e-13


@pytest.mark.parametrize("charge", [0.0, 0.7])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_slabs_do_not_depend_on_the_gap(charge: float, axis: int) -> None:
    """The energy for any period along the normal; of tall boxes without correction it is the limit."""
    r, q = cloud(5, 12, 4.0)
    q += charge / len(q) - q.mean()
    turn = np.roll(np.arange(3), axis - 2)
    r, cell = r[:, turn], SLAB[turn][:, turn]
    pbc = [k != axis for k in range(3)]
    found = []
    for gap in (24.0, 36.0, 60.0):
        cell[axis] *= gap / abs(cell[axis, axis])
        given = {"pbc": pbc, "slab_correction": True, "accuracy": 1e-12, **EVERYTHING}
        found.append(mn.ewald_summation(r, q, cell, **given))
    for other in found[:2]:
        assert abs(other[0].sum() - found[2][0].sum()) < 1e-9 * np.abs(found[2][0]).sum()
        assert np.abs(other[1] - found[2][1]).max() < 1e-9 * np.abs(found[2][1]).max()
    if charge == 0.0:
        energies = []
        for gap in (200.0, 400.0):
            cell[axis] *= gap / abs(cell[axis, axis])
            energies.append(mn.ewald_summation(r, q, cell, 0.9, cutoff=8.0, k_cutoff=11.0, accuracy=None).sum())
        # The field of the dipoles of the images falls as one over the period.
        limit = 2 * energies[1] - energies[0]
        assert abs(limit - found[0][0].sum()) < 1e-8 * np.abs(found[0][0]).sum()


def test_the_correction_by_its_formula() -> None:
    r, q = cloud(6, 9, 4.0)
    h = np.diag([5.0, 6.0, 20.0])
    z, total = r[:, 2], q.sum()
    energy = 2 * np.pi / 600.0 * ((q @ z) ** 2 - total * (q @ z**2) - total**2 * 400.0 / 12)
    found = mn.slab_correction(r, q, h, [True, True, False], energy_reduction="system", **EVERYTHING)
    assert abs(found[0][0] - energy) < 1e-13 * abs(energy)
    force = -4 * np.pi / 600.0 * q * (q @ z - total * z)
    assert np.abs(found[1][:, 2] - force).max() < 1e-13 * np.abs(force).max() and not found[1][:, :2].any()


def shifted(r: np.ndarray, q: np.ndarray, cell: np.ndarray, alpha: float, cutoff: float) -> float:
    """The damped shifted force energy by its definition, over images."""
    from math import erfc

    v = lambda x: erfc(alpha * x) / x  # noqa: E731
    slope = -v(cutoff) / cutoff - 2 * alpha / np.sqrt(np.pi) * np.exp(-((alpha * cutoff) ** 2)) / cutoff
    energy = -((v(cutoff) - slope * cutoff) / 2 + alpha / np.sqrt(np.pi)) * (q @ q)
    images = np.stack(np.meshgrid(*[np.arange(-2, 3)] * 3), -1).reshape(-1, 3) @ cell
    for i in range(len(q)):
        for j in range(len(q)):
            for x in np.linalg.norm(r[j] - r[i] + images, axis=1):
                if 0.0 < x < cutoff:
                    energy += 0.5 * q[i] * q[j] * (v(x) - v(cutoff) - slope * (x - cutoff))
    return energy


def gap(r: Any, cell: np.ndarray) -> float:
    """The middle of the widest gap between the distances of pairs from 5 to 7."""
    x = np.asarray(r.detach()) if hasattr(r, "detach") else np.asarray(r)
    images = np.stack(np.meshgrid(*[np.arange(-2, 3)] * 3), -1).reshape(-1, 3) @ cell
    d = np.linalg.norm(x[None, :, None] - x[:, None, None] + images, axis=-1).reshape(-1)
    d = np.sort(d[(d > 5.0) & (d < 7.0)])
    at = np.argmax(np.diff(d))
    return float(d[at] + d[at + 1]) / 2


def test_sums_with_a_cutoff() -> None:
    r, q = cloud(7, 14, 8.0)
    energy = mn.dsf(r, q, 7.0, 0.25, CELL).sum()
    assert abs(energy - shifted(r, q, CELL, 0.25, 7.0)) < 1e-13 * np.abs(q).sum() ** 2
    _, forces = mn.dsf(r, q, 7.0, 0.25, CELL, compute_forces=True)
    step = np.zeros_like(r)
    step[3, 1] = 1e-4
    slope = (mn.dsf(r + step, q, 7.0, 0.25, CELL).sum() - mn.dsf(r - step, q, 7.0, 0.25, CELL).sum()) / 2e-4
    assert abs(slope + forces[3, 1]) < 1e-6 * np.abs(forces).max()
    found = mn.coulomb(r, q, CELL, cutoff=7.0, alpha=0.3)
    assert np.array_equal(found, mn.ewald_real_space(r, q, CELL, 0.3, cutoff=7.0))
    plain = mn.coulomb(r, q, cutoff=4.0)
    d = np.linalg.norm(r[None] - r[:, None], axis=-1)
    near = (d < 4.0) & (d > 0.0)
    assert np.abs(plain - 0.5 * q * (near * q / np.where(near, d, 1.0)).sum(1)).max() < 1e-13


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pbc": [True, True, False]}, "`pbc`: expected two periodic axes with `slab_correction=True`"),
        ({"pbc": [[True] * 3, [False] * 3, [True] * 3]}, "`batch_idx`|`pbc`"),
        ({"pbc": [True, True]}, "`pbc`: expected shape"),
        ({"slab_correction": 2}, "`slab_correction`: expected True or False"),
    ],
)
def test_bad_boundaries(given: dict[str, Any], message: str) -> None:
    r, q = cloud(8, 9, 4.0)
    with pytest.raises((ValueError, TypeError), match=message):
        mn.ewald_summation(r, q, SLAB, **given)


def test_bad_cells() -> None:
    r, q = cloud(8, 9, 4.0)
    with pytest.raises(ValueError, match="`cell`: expected lattice vectors for the periodic axes"):
        mn.ewald_summation(r, q, None, pbc=True)
    with pytest.raises(ValueError, match="`cutoff`: expected the radius of the sum, as there are periodic axes"):
        mn.coulomb(r, q, SLAB)
    with pytest.raises(ValueError, match="`alpha`"):
        mn.coulomb(r, q, alpha=-1.0)
    assert not mn.slab_correction(r, q, SLAB, [True, False, False]).any()


def test_upright_cells() -> None:
    """The normal times a height in place of the vector of an open axis, by NumPy; derivatives by differences."""
    torch, ops = required("torch"), required("madelung.torch._ops")
    cells, heights = np.stack([SLAB, CELL, SLAB[[2, 0, 1]]]), np.array([9.0, 2.0, 30.0])
    open_axis = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], np.int32)
    expected = cells.copy()
    for b, k in ((0, 2), (2, 0)):
        normal = np.cross(cells[b, (k + 1) % 3], cells[b, (k + 2) % 3])
        expected[b, k] = heights[b] * normal / np.linalg.norm(normal)
    h, z = (torch.tensor(x, requires_grad=True) for x in (cells, heights))
    found = ops.upright_cells(h, z, torch.tensor(open_axis))
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-15, atol=1e-15)
    # Vectors of open axes do not count, so that they may be zero; other planes may have no normal.
    cells[0, 2] = cells[2, 0] = cells[1] = 0.0
    h = torch.tensor(cells, requires_grad=True)
    upright = ops.upright_cells(h, z, torch.tensor(open_axis))
    assert torch.equal(upright[[0, 2]], found[[0, 2]]) and not upright[1].any()
    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check(lambda h, z: ops.upright_cells(h, z, torch.tensor(open_axis)), (h, z))


def test_torch() -> None:
    torch, mt = required("torch"), required("madelung.torch")
    r, q, cells, idx = mixed()
    arrays = [torch.tensor(x) for x in (r, q, cells)]
    boundary: dict[str, Any] = {"pbc": AXES, "slab_correction": True, "batch_idx": torch.tensor(idx)}
    expected = mn.ewald_summation(
        r, q, cells, pbc=AXES, slab_correction=True, batch_idx=idx, accuracy=1e-6, **EVERYTHING
    )
    found = mt.ewald_summation(*arrays, **boundary, accuracy=1e-6, **EVERYTHING)
    for a, b in zip(found, expected):
        assert np.array_equal(a.numpy(), b)
    p = mn.estimate_ewald_parameters(r[:16], q[:16], CELL, 1e-6)
    searched = {"pbc": AXES, "batch_idx": boundary["batch_idx"]}
    lists = mt.find_neighbors(arrays[0], 14.0, arrays[2], **searched)
    miller, of = mn.generate_miller_indices(cells, p.k_cutoff, pbc=AXES, slab_height=24.0)
    waves = {"miller_indices": torch.tensor(miller), "miller_batch_idx": torch.tensor(of), "slab_height": 24.0}
    given = {**boundary, "alpha": p.alpha, "neighbors": lists, **waves, "accuracy": None}

    def sums(r: Any, q: Any, **wanted: bool) -> Any:
        return mt.ewald_summation(r, q, arrays[2], **given, **wanted)

    check_torch(sums, arrays[:2])

    def loss(r: Any, q: Any) -> Any:
        e, forces = sums(r, q, compute_forces=True)
        return e.sum() + (forces**2).sum()

    of_both = [x.clone().requires_grad_() for x in arrays[:2]]
    eager = torch.autograd.grad(loss(*of_both), of_both)
    compiled = torch.autograd.grad(torch.compile(loss, fullgraph=True, backend="aot_eager")(*of_both), of_both)
    for a, b in zip(compiled, eager):
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-12 * float(b.abs().max()))
    of_slab = [arrays[0][36:], arrays[1][36:], arrays[2][2]]
    check_torch(lambda r, q, h: mt.slab_correction(r, q, h, AXES[2]), of_slab)
    # The second derivative jumps where a pair crosses the cutoff: none is near this one.
    reach = gap(of_slab[0], SLAB)
    check_torch(lambda r, q, h: mt.dsf(r, q, reach, 0.3, h), of_slab)
    check_torch(lambda r, q: mt.coulomb(r, q), of_slab[:2])


def test_jax() -> None:
    jax, mj = required("jax"), required("madelung.jax")
    r, q, cells, idx = mixed()
    expected = mn.ewald_summation(
        r, q, cells, pbc=AXES, slab_correction=True, batch_idx=idx, accuracy=1e-6, **EVERYTHING
    )
    with jax.enable_x64(True):
        arrays = [jax.numpy.asarray(x) for x in (r, q, cells)]
        boundary: dict[str, Any] = {"pbc": AXES, "slab_correction": True, "batch_idx": idx}
        found = mj.ewald_summation(*arrays, **boundary, accuracy=1e-6, **EVERYTHING)
        for a, b in zip(found, expected):
            assert np.array_equal(np.asarray(a), b)
        of_slab = [arrays[0][36:], arrays[1][36:], arrays[2][2]]
        check_jax(lambda r, q, h: mj.slab_correction(r, q, h, AXES[2]), of_slab)
        lists = mj.find_neighbors(of_slab[0], 6.0, of_slab[2])
        jitted = jax.jit(lambda r, q, h: mj.dsf(r, q, 6.0, 0.3, h, neighbors=lists).sum())
        assert float(jitted(*of_slab)) == pytest.approx(mn.dsf(r[36:], q[36:], 6.0, 0.3, SLAB).sum(), rel=1e-13)


ZERO_VECTORS = [np.zeros((3, 3)), np.diag([0.0, 9.0, 0.0]), np.array([[9.0, 0.0, 0.0], [1.0, 9.0, 0.0], [0.0] * 3])]
GIVEN: dict[str, Any] = {"alpha": 1.0, "cutoff": 3.0, "slab_correction": True, "slab_height": 30.0}
CALLS: dict[str, Any] = {
    "nothing given": lambda m, r, q, h, w, b: m.ewald_summation(r, q, h, slab_correction=True, **b),
    "waves": lambda m, r, q, h, w, b: m.ewald_summation(r, q, h, miller_indices=w, **GIVEN, **b),
    "k_cutoff": lambda m, r, q, h, w, b: m.ewald_summation(r, q, h, k_cutoff=4.0, **GIVEN, **b),
    "a list": lambda m, r, q, h, w, b: m.ewald_summation(
        r, q, h, miller_indices=w, neighbors=m.find_neighbors(r, 3.0, h), **GIVEN, **b
    ),
    "a mesh": lambda m, r, q, h, w, b: m.particle_mesh_ewald(r, q, h, mesh_dimensions=(12, 12, 32), **GIVEN, **b),
    "direct": lambda m, r, q, h, w, b: m.ewald_summation(r, q, h, method="direct", slab_correction=True, **b),
    "coulomb": lambda m, r, q, h, w, b: m.coulomb(r, q, h, cutoff=3.0, **b),
    "damped": lambda m, r, q, h, w, b: m.coulomb(r, q, h, cutoff=3.0, alpha=0.5, **b),
    "dsf": lambda m, r, q, h, w, b: m.dsf(r, q, 3.0, cell=h, **b),
    "gaussians": lambda m, r, q, h, w, b: m.gaussian_correction(r, q, 0.0 * q + 0.5, h, **b),
    "pairs": lambda m, r, q, h, w, b: m.neighbor_list(r, 3.0, h, return_distances=True, **b)[-1],
    "nearest": lambda m, r, q, h, w, b: m.knn(r, r, 2, cell=h, **b)[0],
}


def check_zero_vectors(call: str, m: Any, convert: Any) -> None:
    """Without `pbc` a call with such a cell is the call that says its axes, whatever else is given."""
    waves = mn.generate_miller_indices(np.diag([9.0, 9.0, 30.0]), 2.0)[0]
    r, q, w = (convert(x) for x in (*cloud(9, 10, 4.0), waves))
    for cell in ZERO_VECTORS:
        h = convert(cell)
        found, expected = (CALLS[call](m, r, q, h, w, b) for b in ({}, {"pbc": cell.any(-1).tolist()}))
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


@pytest.mark.parametrize("call", CALLS)
def test_vectors_of_zero_are_open_axes(call: str) -> None:
    check_zero_vectors(call, mn, np.asarray)


@pytest.mark.parametrize("call", CALLS)
def test_vectors_of_zero_are_open_axes_in_torch(call: str) -> None:
    torch, mt = required("torch"), required("madelung.torch")
    check_zero_vectors(call, mt, torch.tensor)


@pytest.mark.parametrize("call", CALLS)
def test_vectors_of_zero_are_open_axes_in_jax(call: str) -> None:
    jax, mj = required("jax"), required("madelung.jax")
    with jax.enable_x64(True):
        check_zero_vectors(call, mj, jax.numpy.asarray)


def test_cells_of_zeros_are_molecules() -> None:
    """Against a sum over pairs by hand; other functions know them, too."""
    r, q = cloud(10, 12, 5.0)
    energies, forces, potentials, virial = direct(r, q)
    for found in (
        mn.ewald_summation(r, q, ZERO_VECTORS[0], 1.0, cutoff=3.0, k_cutoff=4.0, **EVERYTHING),
        mn.particle_mesh_ewald(r, q, ZERO_VECTORS[0], 1.0, cutoff=3.0, mesh_dimensions=(8, 8, 8), **EVERYTHING),
        mn.coulomb(r, q, ZERO_VECTORS[0], **EVERYTHING),
        mn.coulomb(r, q, ZERO_VECTORS[0], neighbors=mn.find_neighbors(r, 2.0, ZERO_VECTORS[0]), **EVERYTHING),
    ):
        for a, b in zip(found, (energies, forces, potentials, virial)):
            assert np.abs(a - b).max() < 2e-14 * np.abs(b).max()
    cells = np.stack([ZERO_VECTORS[0], CELL])
    both = np.concatenate([r, r]), np.concatenate([q, q]), np.repeat(np.arange(2, dtype=np.int32), 12)
    correction = mn.slab_correction(both[0], both[1], cells, [[False] * 3, [True] * 3], batch_idx=both[2])
    assert not correction.any()
    indices, of = mn.generate_miller_indices(cells, 3.0)
    alone, _ = mn.generate_miller_indices(CELL, 3.0)
    assert np.array_equal(indices, alone) and (of == 1).all()


def test_estimates_of_slabs_by_their_cells() -> None:
    r, q = cloud(11, 10, 4.0)
    for estimate in (mn.estimate_ewald_parameters, mn.estimate_pme_parameters):
        assert estimate(r, q, ZERO_VECTORS[2]) == estimate(r, q, ZERO_VECTORS[2], pbc=[True, True, False])
        with pytest.raises(ValueError, match="`cell`: expected two or three periodic axes: other sums have no"):
            estimate(r, q, ZERO_VECTORS[0])
    with pytest.raises(ValueError, match="`cell`: expected three lattice vectors .* that span a volume"):
        # Of waves that are given nobody knows the cell.
        mn.ewald_summation(
            r, q, ZERO_VECTORS[2], 1.0, cutoff=3.0, miller_indices=np.array([[1, 0, 0]], np.int32), slab_correction=True
        )
