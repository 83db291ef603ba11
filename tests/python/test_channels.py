"""Several sets of charges at once, and Gaussian charges as arguments of sums: the same as one call after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import required
from differences import check_jax, check_torch

EVERYTHING = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}
CELL = np.array([[8.0, 0.0, 0.0], [1.0, 8.0, 0.0], [0.0, 0.5, 8.0]])
GIVEN: dict[str, Any] = {"alpha": 0.7, "cutoff": 7.0, "accuracy": None}
MESH = {"mesh_dimensions": (24, 24, 24)}
SUMS: dict[str, Any] = {
    "ewald_real_space": lambda r, q, h, **more: mn.ewald_real_space(r, q, h, 0.7, cutoff=7.0, **more),
    "ewald_reciprocal_space": lambda r, q, h, **more: mn.ewald_reciprocal_space(r, q, h, 0.7, 6.0, **more),
    "ewald_summation": lambda r, q, h, **more: mn.ewald_summation(r, q, h, k_cutoff=6.0, **GIVEN, **more),
    "pme_reciprocal_space": lambda r, q, h, **more: mn.pme_reciprocal_space(r, q, h, 0.7, **MESH, **more),
    "particle_mesh_ewald": lambda r, q, h, **more: mn.particle_mesh_ewald(r, q, h, **MESH, **GIVEN, **more),
    "slab_correction": lambda r, q, h, **more: mn.slab_correction(r, q, h, [True, True, False], **more),
    "coulomb": lambda r, q, h, **more: mn.coulomb(r, q, h, cutoff=6.0, **more),
    "dsf": lambda r, q, h, **more: mn.dsf(r, q, 6.0, 0.2, h, **more),
    "gaussian_correction": lambda r, q, h, **more: mn.gaussian_correction(r, q, np.full(len(r), 0.7), h, **more),
}


def channels(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Two systems with four sets of charges."""
    rng = np.random.default_rng(seed)
    idx = np.repeat(np.arange(2, dtype=np.int32), [3, 9])
    return rng.uniform(0.0, 8.0, (12, 3)), rng.normal(size=(12, 4)), np.stack([CELL, CELL + 0.2]), idx


@pytest.mark.parametrize("reduction", ["atom", "system"])
@pytest.mark.parametrize("name", SUMS)
def test_each_set_has_its_results(name: str, reduction: str) -> None:
    r, q, h, idx = channels()
    for positions, charges, cell, more in (
        (r, q, h, {"batch_idx": idx}),
        # Three atoms of one system: forces and virial are (3, 3) alike.
        (r[:3], q[:3], CELL, {}),
    ):
        call: dict[str, Any] = {**more, "energy_reduction": reduction}
        for wanted in ({}, {"compute_forces": True}, {"compute_virial": True}, EVERYTHING):
            found = SUMS[name](positions, charges, cell, **call, **wanted)
            found = found if isinstance(found, tuple) else (found,)
            for c in range(4):
                alone = SUMS[name](positions, np.ascontiguousarray(charges[:, c]), cell, **call, **wanted)
                for n, x in enumerate(alone if isinstance(alone, tuple) else (alone,)):
                    is_one = wanted.get("compute_virial") and n == len(found) - 1 and not more
                    assert np.array_equal(found[n][c] if is_one else found[n][:, c], x)


def test_bad_channels() -> None:
    r, q, h, idx = channels()
    with pytest.raises(ValueError, match="`charges`: expected at least one set"):
        mn.ewald_summation(r, q[:, :0], h, batch_idx=idx)
    with pytest.raises(ValueError, match=r"`charges`: expected shape \(12,\)"):
        mn.ewald_summation(r, q[:5], h, batch_idx=idx)
    with pytest.raises(ValueError, match="`charges`: expected shape"):
        mn.ewald_summation(r, q[:, :, None], h, batch_idx=idx)


def sizes(seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Charges of a cell, and their widths."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0.0, 8.0, (10, 3)), rng.normal(size=10), rng.uniform(0.3, 0.8, 10)


def waves_of_gaussians(r: np.ndarray, q: np.ndarray, sigma: np.ndarray, cell: np.ndarray) -> float:
    """The energy of Gaussian charges in a periodic cell by waves alone, without the one of k = 0."""
    n = np.stack(np.meshgrid(*[np.arange(-28, 29)] * 3), -1).reshape(-1, 3)
    k = n[(n != 0).any(1)] @ (2 * np.pi * np.linalg.inv(cell).T)
    k2 = (k**2).sum(1)
    k, k2 = k[k2 < 400.0], k2[k2 < 400.0]
    s = (q * np.exp(-0.5 * k2[:, None] * sigma**2 + 1j * k @ r.T)).sum(1)
    return float(2 * np.pi / abs(np.linalg.det(cell)) * (np.abs(s) ** 2 / k2).sum())


@pytest.mark.parametrize("sums", [mn.ewald_summation, mn.particle_mesh_ewald])
def test_widths_against_waves(sums: Any) -> None:
    """Widths of 0.5 and more, whose waves end at exp(−k²σ²) = e⁻¹⁰⁰."""
    r, q, sigma = sizes()
    sigma += 0.2
    expected = waves_of_gaussians(r, q, sigma, CELL)
    given = {"accuracy": 1e-10} if sums is mn.ewald_summation else {"accuracy": 1e-7}
    found = sums(r, q, CELL, widths=sigma, **given, energy_reduction="system")
    assert abs(found[0] - expected) < 30 * given["accuracy"] * abs(expected)


def test_widths_are_the_correction() -> None:
    r, q, sigma = sizes(2)
    for cell, boundary in ((CELL, {}), (None, {}), (np.diag([8.0, 8.0, 30.0]), {"pbc": [True, True, False]})):
        slab = {"slab_correction": True} if boundary else {}
        whole = mn.ewald_summation(r, q, cell, widths=sigma, **boundary, **slab, **EVERYTHING)
        points = mn.ewald_summation(r, q, cell, method="list", **boundary, **slab, **EVERYTHING)
        correction = mn.gaussian_correction(r, q, sigma, cell, **boundary, **EVERYTHING)
        for a, b, c in zip(whole, points, correction):
            assert np.abs(a - b - c).max() < 1e-13 * np.abs(b).max()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"widths": np.zeros(10)}, "`widths`: expected numbers above zero"),
        ({"widths": np.ones(9)}, "`widths`: expected 10 rows"),
        ({"exponent": 6}, "`exponent`: expected 1 with `widths`"),
        (
            {"neighbors": mn.find_neighbors(sizes()[0], 3.0, CELL)},
            "`cutoff`: expected at least 5.399 with a width of 0.7263",
        ),
        (
            {"neighbors": mn.find_neighbors(sizes()[0], 3.0, CELL), "cutoff": np.float32(3.0)},
            "`cutoff`: expected at least 5.399 with a width of 0.7263",
        ),
    ],
)
def test_bad_widths(given: dict[str, Any], message: str) -> None:
    r, q, sigma = sizes()
    with pytest.raises(ValueError, match=message):
        mn.ewald_summation(r, q, CELL, **{"widths": sigma, **given})


def test_torch() -> None:
    torch, mt = required("torch"), required("madelung.torch")
    r, q, h, idx = channels(3)
    arrays = [torch.tensor(x) for x in (r, q, h)]
    given: dict[str, Any] = {"k_cutoff": 6.0, **GIVEN}
    expected = mn.ewald_summation(r, q, h, batch_idx=idx, **given, **EVERYTHING)
    found = mt.ewald_summation(*arrays, batch_idx=torch.tensor(idx), **given, **EVERYTHING)
    for a, b in zip(found, expected):
        assert np.array_equal(a.numpy(), b)
    one = [torch.tensor(r[3:]), torch.tensor(q[3:, :2]), torch.tensor(CELL)]
    check_torch(lambda r, q, h: mt.coulomb(r, q, h, cutoff=30.0, pbc=False), one)
    r, q, sigma = (torch.tensor(x) for x in sizes(4))
    lists = mt.find_neighbors(r, 9.0, one[2])

    def smeared(r: Any, q: Any, sigma: Any) -> Any:
        return mt.ewald_summation(r, q, one[2], widths=sigma, neighbors=lists, k_cutoff=5.0, alpha=0.6, cutoff=9.0)

    check_torch(smeared, [r, q, sigma])
    with pytest.raises(ValueError, match=r"`charges`: expected shape \(10,\)"):
        mt.ewald_summation(r, arrays[1], one[2])


def test_jax() -> None:
    jax, mj = required("jax"), required("madelung.jax")
    r, q, h, idx = channels(3)
    given: dict[str, Any] = {"k_cutoff": 6.0, **GIVEN}
    expected = mn.ewald_summation(r, q, h, batch_idx=idx, **given, **EVERYTHING)
    with jax.enable_x64(True):
        arrays = [jax.numpy.asarray(x) for x in (r, q, h)]
        found = mj.ewald_summation(*arrays, batch_idx=idx, **given, **EVERYTHING)
        for a, b in zip(found, expected):
            assert np.array_equal(np.asarray(a), b)
        of_one = [jax.numpy.asarray(x) for x in sizes(4)]
        lists = mj.find_neighbors(of_one[0], 9.0, CELL)
        waves, _ = mj.generate_miller_indices(jax.numpy.asarray(CELL), 5.0)
        more: dict[str, Any] = {"alpha": 0.6, "cutoff": 9.0, "neighbors": lists, "miller_indices": waves}
        check_jax(lambda r, q, sigma: mj.ewald_summation(r, q, CELL, widths=sigma, **more), of_one)
