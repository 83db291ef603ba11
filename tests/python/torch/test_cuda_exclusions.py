"""Pairs that sums leave out on a GPU: lists are the CPU's bit for bit, values and derivatives within rounding.

`MADELUNG_TEST_DEVICE=cuda` runs these.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from test_cuda import captured

import madelung
import madelung.torch as mt
from conftest import DEVICE

pytestmark = pytest.mark.skipif(DEVICE != "cuda", reason="not asked for: MADELUNG_TEST_DEVICE=cuda")

CELL = np.array([[9.0, 0.0, 0.0], [2.0, 9.0, 0.0], [-1.0, 1.5, 9.0]])
WIRE = np.array([[0.0, 0.0, 0.0], [1.3, -2.0, 2.9], [0.0, 0.0, 0.0]])
PAIRS = np.array([[1, 0], [4, 5], [7, 2], [9, 3], [11, 12]])
FACTORS = np.array([0.0, 0.3, 0.5, 1.0, 0.0])
GIVEN: dict[str, Any] = {"alpha": 0.5, "k_cutoff": 3.0, "cutoff": 5.0, "accuracy": None}


def charges(seed: int, atoms: int = 16) -> list[np.ndarray]:
    """Charges in and outside of a triclinic cell, two on one point."""
    rng = np.random.default_rng(seed)
    r = rng.uniform(-9.0, 18.0, (atoms, 3))
    r[1] = r[0]
    return [r, rng.normal(size=atoms), CELL]


def there(x: Any) -> Any:
    return x.to(DEVICE) if isinstance(x, torch.Tensor) else x


def tensors(xs: Any, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    return [torch.tensor(x).to(dtype) for x in xs]


def close(found: Any, expected: Any, tolerance: float = 1e-12) -> None:
    for a, b in zip(found, expected, strict=True):
        assert a.device.type == DEVICE and a.dtype == b.dtype
        torch.testing.assert_close(a.cpu(), b, rtol=0, atol=tolerance * float(b.abs().max()))


@pytest.mark.parametrize("skew", [0.0, 3.0, 20.0])
@pytest.mark.parametrize("axes", [7, 5, 2, 0])
@pytest.mark.parametrize("images", [False, True])
def test_lists_are_those_of_the_cpu(skew: float, axes: int, images: bool) -> None:
    """In two systems, to integers of either width; one pair there with several images."""
    rng = np.random.default_rng(9)
    h = np.array([[4.0, 0.0, 0.0], [4.0 * skew, 5.0, 0.0], [0.7, -5.0 * skew, 3.0]])
    cells = torch.tensor(np.stack([h, 1.3 * h.T]))
    r, idx = torch.tensor(rng.uniform(-20.0, 20.0, (40, 3))), torch.arange(40, dtype=torch.int32) // 20
    pairs = np.concatenate([rng.permutation(20).reshape(-1, 2) + start for start in (20, 0)])
    if images:
        pairs = np.concatenate([pairs, pairs[:7, ::-1], pairs[3:5]])
    periodic = np.array([axes >> k & 1 for k in range(3)])
    shifts = np.arange(3 * len(pairs)).reshape(-1, 3) % 7 * periodic if images else np.empty((0, 3))
    if images and axes != 7:
        pairs, shifts = pairs[:20], shifts[:20]
    none = torch.empty((0, 3), dtype=torch.int32)
    for dtype in (torch.int32, torch.int64):
        given = (r, cells, none, torch.tensor(pairs, dtype=dtype), torch.tensor(shifts, dtype=dtype), idx, axes)
        here, on_device = (
            torch.ops.madelung.exclusion_list_v1(*(device(x) for x in given)) for device in (lambda x: x, there)
        )
        for a, b in zip(on_device, here, strict=True):
            assert a.dtype == b.dtype and torch.equal(a.cpu(), b)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("images", [False, True])
def test_the_values_of_the_cpu(dtype: torch.dtype, tolerance: float, images: bool) -> None:
    """Energies, forces, and derivatives by positions and factors."""
    pairs = (torch.tensor(PAIRS), *tensors([FACTORS], dtype))
    more = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}
    shifts = [torch.tensor(np.arange(15).reshape(5, 3) % 3 - 1)] if images else []
    results = []
    for device in (lambda x: x, there):
        r, q, h = (device(x) for x in tensors(charges(1), dtype))
        if images:
            r[1] += 0.5
        both = r.requires_grad_(), device(pairs[1]).requires_grad_()
        exclusions = (device(pairs[0]), both[1], *map(device, shifts))
        found = mt.ewald_summation(r, q, h, **GIVEN, exclusions=exclusions, **more)
        number = found[0].sum() + (found[1] ** 2).sum()
        results.append([*(x.detach() for x in found), *torch.autograd.grad(number, both)])
    close(results[1], results[0], tolerance)


@pytest.mark.parametrize("sums", [mt.ewald_summation, mt.particle_mesh_ewald])
def test_mixed_batches(sums: Any) -> None:
    """A crystal, a wire and a molecule."""
    r, q = (np.concatenate([charges(seed)[n] for seed in (1, 2, 3)]) for n in (0, 1))
    cells, axes = np.stack([CELL, WIRE, np.zeros((3, 3))]), [[True] * 3, [False, True, False], [False] * 3]
    pairs = torch.tensor(np.concatenate([PAIRS, PAIRS + 16, PAIRS + 32]))
    idx = torch.arange(3, dtype=torch.int32).repeat_interleave(16)
    results = []
    for device in (lambda x: x, there):
        arrays = [device(x) for x in tensors([r, q, cells])]
        given = {"pbc": axes, "batch_idx": device(idx), "exclusions": device(pairs), "compute_forces": True}
        results.append(sums(*arrays, **given, accuracy=1e-8))
    # On a device the list reaches to the largest cutoff of the batch, so the crystal has some pairs more.
    close(results[1], results[0], 1e-7)


def test_graphs() -> None:
    """A whole step in one captured graph, with other points at every replay."""
    r, q, h = map(there, tensors(charges(5)))
    pairs, factors = torch.tensor(PAIRS), torch.tensor(FACTORS)
    waves = mt.generate_miller_indices(h.cpu(), GIVEN["k_cutoff"])
    lists = mt.neighbor_list(r, GIVEN["cutoff"], h, capacity=4000)
    names = ("neighbor_list", "neighbor_ptr", "neighbor_shifts")
    given = {"alpha": 0.5, "cutoff": GIVEN["cutoff"], "accuracy": None, "miller_indices": there(waves[0])}
    exclusions = (there(pairs), there(factors))

    def step() -> Any:
        lists = mt.neighbor_list(r, GIVEN["cutoff"], h, capacity=4000)
        found = dict(zip(names, lists))
        return mt.ewald_summation(r, q, h, **given, **found, exclusions=exclusions, compute_forces=True)

    assert lists[0].shape[1] == 4000
    graph, results = captured(step)
    start = r.clone()
    for shift in (0.0, 0.3):
        r.copy_(start + shift * torch.sin(40.0 * start))
        graph.replay()
        here = [x.cpu() for x in (r, q, h)]
        expected = mt.ewald_summation(*here, **GIVEN, exclusions=(pairs, factors), compute_forces=True)
        close(results, expected, 1e-11)


@pytest.mark.parametrize(
    ("pairs", "images", "message"),
    [
        ([[0, 1], [3, 2], [1, 0]], None, "each pair once"),
        ([[0, 1], [2, 2]], None, "pairs of two atoms"),
        ([[0, 1], [2, 99]], None, "indices of rows that are there"),
        ([[0, 1], [2, -1]], None, "indices of rows that are there"),
        ([[0, 1], [2, 20]], None, "pairs within one system"),
        ([[0, 1], [2, 3]], [[0, 0, 0], [0, 1, 0]], "images along periodic axes"),
    ],
)
def test_bad_pairs(pairs: Any, images: Any, message: str) -> None:
    r, q = (torch.tensor(np.concatenate([charges(seed)[n] for seed in (1, 2)])) for n in (0, 1))
    given: dict[str, Any] = {"cutoff": 5.0, "batch_idx": there(torch.arange(32, dtype=torch.int32) // 16)}
    exclusions = (torch.tensor(pairs), None, *([torch.tensor(images)] if images else []))
    axes = [True, False, True]
    h = torch.tensor(CELL).expand(2, 3, 3).contiguous()
    found = mt.coulomb(there(r), there(q), there(h), pbc=axes, **given, exclusions=tuple(map(there, exclusions)))
    assert not torch.isfinite(found).all()
    with pytest.raises(ValueError, match=f"exclusions.*{message}"):
        madelung.check_device()
