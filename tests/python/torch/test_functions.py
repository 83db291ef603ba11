"""The public functions against those of `madelung.numpy`, in every form of their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from systems import system

import madelung.numpy as mn
import madelung.torch as mt
from conftest import DEVICE, METHOD
from differences import check_torch

EVERYTHING = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}
ALPHA, CUTOFF, K_CUTOFF = 0.9, 4.0, 5.0


def charges_in_cells(systems: int, dtype: str = "float64") -> list[np.ndarray]:
    """Positions, charges, cells and batch indices; the systems differ in size, and the first has no atoms."""
    rng = np.random.default_rng(systems)
    sizes = [6] if systems == 1 else [0, *range(3, 2 + systems)]
    idx = np.repeat(np.arange(systems, dtype=np.int32), sizes)
    cell = np.array([4.1, 4.5, -4.8])[:, None] * np.eye(3) + rng.normal(scale=0.3, size=(systems, 3, 3))
    inside = (np.concatenate([np.arange(n) for n in sizes])[:, None] + rng.uniform(0.1, 0.6, (len(idx), 3))) / 6.5
    positions = np.einsum("nk,nkc->nc", inside[:, [0, 1, 2]], cell[idx])
    return [positions.astype(dtype), rng.normal(size=len(idx)).astype(dtype), cell.astype(dtype), idx]


def tensor(array: Any) -> torch.Tensor:
    return torch.from_numpy(np.array(array)).to(DEVICE)


def tensors(arrays: Any) -> list[torch.Tensor]:
    return [tensor(x) for x in arrays]


def same(got: Any, expected: Any, tolerance: float = 1e-12) -> None:
    got, expected = (x if isinstance(x, tuple) else (x,) for x in (got, expected))
    assert len(got) == len(expected)
    for x, y in zip(got, expected):
        x = x.detach()
        assert tuple(x.shape) == y.shape and str(x.dtype) == f"torch.{y.dtype}"
        np.testing.assert_allclose(
            x.cpu().numpy(), y, rtol=tolerance, atol=tolerance * max(1.0, np.abs(y).max(initial=0))
        )


@pytest.mark.parametrize("graph", [False, True], ids=["no graph", "graph"])
@pytest.mark.parametrize("reduction", ["atom", "system"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("batched", [False, True], ids=["one", "batch"])
def test_as_numpy(batched: bool, dtype: str, reduction: str, graph: bool) -> None:
    r, q, h, idx = charges_in_cells(3 if batched else 1, dtype)
    options = {"energy_reduction": reduction, "prefactor": 2.5, **EVERYTHING}
    if batched:
        options["batch_idx"] = idx
    else:
        h = h[0]
    of_torch = {k: tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    x = tensors((r, q, h))
    if graph:
        x = [t.requires_grad_() for t in x]
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    expected = mn.ewald_summation(r, q, h, **options, **METHOD)
    same(mt.ewald_summation(*x, **of_torch, **METHOD), expected, tolerance)
    same(mt.ewald_summation(*x, hybrid_forces=True, **of_torch, **METHOD), expected, tolerance)
    alpha = np.full(3, ALPHA) if batched else ALPHA
    at = tensor(alpha) if batched else alpha
    expected = mn.ewald_real_space(r, q, h, alpha, cutoff=CUTOFF, **options)
    same(mt.ewald_real_space(*x, at, cutoff=CUTOFF, **of_torch), expected, tolerance)
    expected = mn.ewald_reciprocal_space(r, q, h, alpha, K_CUTOFF, **options)
    same(mt.ewald_reciprocal_space(*x, at, K_CUTOFF, **of_torch), expected, tolerance)


@pytest.mark.parametrize("wanted", range(8))
def test_what_is_asked_for(wanted: int) -> None:
    """Every choice of outputs, in order, and a single one unwrapped."""
    r, q, h, _ = charges_in_cells(1)
    options = METHOD | {name: bool(wanted >> k & 1) for k, name in enumerate(EVERYTHING)}
    expected = mn.ewald_summation(r, q, h[0], energy_reduction="system", **options)
    for graph in (False, True):
        x = [t.requires_grad_(graph) for t in tensors((r, q, h[0]))]
        got = mt.ewald_summation(*x, energy_reduction="system", **options)
        assert isinstance(got, tuple) == bool(wanted)
        same(got, expected)


@pytest.mark.parametrize("half", [False, True], ids=["full", "half"])
@pytest.mark.parametrize("width", [torch.int32, torch.int64])
def test_lists(half: bool, width: torch.dtype) -> None:
    r, q, h, idx = charges_in_cells(3)
    x, of = tensors((r, q, h)), tensor(idx)
    expected = mn.ewald_real_space(r, q, h, ALPHA, cutoff=CUTOFF, batch_idx=idx, **EVERYTHING)

    def at(**given: Any) -> Any:
        given = {k: v.to(width) if isinstance(v, torch.Tensor) else v for k, v in given.items()}
        return mt.ewald_real_space(*x, ALPHA, batch_idx=of.to(width), half_fill=half, **given, **EVERYTHING)

    # A list that reaches further than the cutoff changes nothing.
    pairs, ptr, shifts = mt.neighbor_list(x[0], CUTOFF + 0.5, x[2], batch_idx=of, half_fill=half)
    coo = {"neighbor_list": pairs, "neighbor_shifts": shifts}
    same(at(**coo, neighbor_ptr=ptr, cutoff=CUTOFF), expected)
    same(at(**coo, cutoff=CUTOFF), expected)
    for fill in (None, -1):
        matrix, _, shifts = mt.neighbor_list(
            x[0], CUTOFF, x[2], batch_idx=of, half_fill=half, format="matrix", fill_value=fill
        )
        given = {"neighbor_matrix": matrix, "neighbor_matrix_shifts": shifts, "fill_value": fill}
        same(at(**given, cutoff=CUTOFF), expected)
        same(at(**given), expected)


@pytest.mark.parametrize("form", ["coo", "csr", "matrix"])
@pytest.mark.parametrize("half", [False, True], ids=["full", "half"])
@pytest.mark.parametrize("how", ["one", "batch_idx", "batch_ptr", "open", "slab"])
def test_neighbor_list(how: str, half: bool, form: str) -> None:
    r, _, h, idx = charges_in_cells(3)
    options: dict[str, Any] = {"half_fill": half, "format": form, "return_distances": True, "return_vectors": True}
    if how == "batch_ptr":
        options["batch_ptr"] = np.searchsorted(idx, np.arange(4)).astype(np.int32)
    elif how != "one":
        options["batch_idx"] = idx
    else:
        h = h[2]
    if how == "open":
        h = None
    if how == "slab":
        options["pbc"] = np.array([True, False, True])
    of_torch = {k: tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    expected = mn.neighbor_list(r, 3.0, h, **options)
    got = mt.neighbor_list(tensor(r), 3.0, None if h is None else tensor(h), **of_torch)
    for x, y in zip(got[:3], expected[:3]):
        assert np.array_equal(x.cpu().numpy(), y) and x.dtype == torch.int32
    same(got, expected)


@pytest.mark.parametrize("form", ["csr", "matrix"])
def test_distances_have_derivatives(form: str) -> None:
    r, _, h, idx = charges_in_cells(2)
    of = tensor(idx)

    def measured(r: torch.Tensor, h: torch.Tensor) -> Any:
        return mt.neighbor_list(r, 2.5, h, batch_idx=of, format=form, return_distances=True, return_vectors=True)[3:]

    x = [t.requires_grad_() for t in tensors((r, h))]
    assert measured(*x)[0].numel() > 0
    torch.autograd.gradcheck(measured, x, fast_mode=True)
    check_torch(measured, x)


def test_batches_are_their_systems() -> None:
    """The same bits, alone and in a batch, gradients too."""
    r, q, h, idx = charges_in_cells(4)
    given = {"cutoff": CUTOFF, "k_cutoff": K_CUTOFF, "accuracy": None, "energy_reduction": "system", **EVERYTHING}

    def at(*x: torch.Tensor, **options: Any) -> list[torch.Tensor]:
        x = [t.clone().requires_grad_() for t in x]
        out = mt.ewald_summation(*x, ALPHA, **given, **options)
        loss = sum((o * o).sum() for o in out)
        return [*out, *torch.autograd.grad(loss, x)]

    many = at(*tensors((r, q, h)), batch_idx=tensor(idx))
    per_atom = [1, 2, 4, 5]
    for b in range(1, 4):
        one = at(*tensors((r[idx == b], q[idx == b], h[b : b + 1])))
        for k, (x, y) in enumerate(zip(many, one)):
            x = x[tensor(idx == b)] if k in per_atom else x[b : b + 1]
            assert torch.equal(x, y), k


def test_one_cell_for_all() -> None:
    r, q, h, idx = charges_in_cells(3)
    x = [t.requires_grad_() for t in tensors((r, q, h[1]))]
    got = mt.ewald_summation(*x, batch_idx=tensor(idx), **EVERYTHING, **METHOD)
    same(got, mn.ewald_summation(r, q, h[1], batch_idx=idx, **EVERYTHING, **METHOD))
    (g,) = torch.autograd.grad(got[0].sum(), x[2])
    assert g.shape == (3, 3)


def test_an_empty_batch() -> None:
    r, q, h = (np.zeros(s) for s in ((0, 3), 0, (0, 3, 3)))
    idx = np.zeros(0, np.int32)
    options = {"cutoff": CUTOFF, "k_cutoff": K_CUTOFF, "accuracy": None, **EVERYTHING}
    for reduction in ("atom", "system"):
        expected = mn.ewald_summation(r, q, h, ALPHA, batch_idx=idx, energy_reduction=reduction, **options)
        for graph in (False, True):
            x = [t.requires_grad_(graph) for t in tensors((r, q, h))]
            got = mt.ewald_summation(*x, ALPHA, batch_idx=tensor(idx), energy_reduction=reduction, **options)
            same(got, expected)
            if graph:
                for g, t in zip(torch.autograd.grad(sum(o.sum() for o in got), x), x):
                    assert g.shape == t.shape


def test_parameters() -> None:
    r, q, h, idx = charges_in_cells(3)
    one = mt.estimate_ewald_parameters(*tensors((r, q, h[0])), 1e-5)
    assert one == mn.estimate_ewald_parameters(r, q, h[0], 1e-5)
    got = mt.estimate_ewald_parameters(*tensors((r, q, h)), alpha=0.7, batch_idx=tensor(idx))
    expected = mn.estimate_ewald_parameters(r, q, h, alpha=0.7, batch_idx=idx)
    for name in ("alpha", "cutoff", "k_cutoff", "predicted_force_error"):
        assert np.array_equal(getattr(got, name).cpu().numpy(), getattr(expected, name))


def test_parameters_fit_their_sums() -> None:
    """What is estimated for a batch may be handed to the sum as it is."""
    r, q, h, idx = charges_in_cells(3)
    x, of = tensors((r, q, h)), tensor(idx)
    p = mt.estimate_ewald_parameters(*x, batch_idx=of)
    got = mt.ewald_summation(*x, p.alpha, cutoff=p.cutoff, k_cutoff=p.k_cutoff, batch_idx=of)
    assert torch.equal(got, mt.ewald_summation(*x, batch_idx=of, method="list"))


def test_miller_indices() -> None:
    r, q, h, idx = charges_in_cells(3)
    x, of = tensors((r, q, h)), tensor(idx)
    indices, waves = mt.generate_miller_indices(x[2], torch.tensor([3.0, 4.0, 5.0], device=DEVICE))
    for b, k_cutoff in enumerate((3.0, 4.0, 5.0)):
        k = 2 * np.pi * indices[waves == b].cpu().numpy() @ np.linalg.inv(h[b]).T
        most = int(k_cutoff * np.linalg.norm(h[b], axis=1).max() / (2 * np.pi)) + 1
        grid = np.stack(np.meshgrid(*[np.arange(-most, most + 1)] * 3), -1).reshape(-1, 3)
        inside = np.linalg.norm(2 * np.pi * grid @ np.linalg.inv(h[b]).T, axis=1) <= k_cutoff
        assert len(k) == (inside.sum() - 1) // 2 and np.linalg.norm(k, axis=1).max() <= k_cutoff
    options = {"batch_idx": of, **EVERYTHING}
    expected = mt.ewald_reciprocal_space(*x, ALPHA, torch.tensor([3.0, 4.0, 5.0], device=DEVICE), **options)
    given = {"miller_indices": indices, "miller_batch_idx": waves}
    for a, b in zip(mt.ewald_reciprocal_space(*x, ALPHA, **given, **options), expected):
        assert torch.equal(a, b)
    # What is handed out is not what is kept.
    indices.zero_()
    assert torch.equal(
        mt.ewald_reciprocal_space(*x, ALPHA, torch.tensor([3.0, 4.0, 5.0], device=DEVICE), **options)[0], expected[0]
    )


@pytest.mark.host("errors of values come when a device is asked for them")
def test_lists_may_change_in_place() -> None:
    """What is remembered of a list is that it was checked, and only while it stays as it was."""
    r, q, h, _ = charges_in_cells(1)
    x = tensors((r, q, h[0]))
    pairs, ptr, shifts = mt.neighbor_list(x[0], CUTOFF, x[2])
    given = {"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts}
    before = mt.ewald_real_space(*x, ALPHA, **given)
    pairs[0, 0] = 3
    with pytest.raises(ValueError, match="`neighbor_list`: expected pairs sorted by row i"):
        mt.ewald_real_space(*x, ALPHA, **given)
    pairs[0, 0] = 0
    assert torch.equal(mt.ewald_real_space(*x, ALPHA, **given), before)
    # Memory that others write to: still a full list, of other images.
    shifts.numpy()[:] *= 2
    got = mt.ewald_real_space(*x, ALPHA, **given)
    assert torch.equal(got, mt.ewald_real_space(*x, ALPHA, **{k: t.clone() for k, t in given.items()}))
    assert not torch.equal(got, before)


@pytest.mark.host("on a device nothing is remembered of lists of others")
def test_lists_are_forgotten() -> None:
    from madelung.torch import _framework

    r, q, h, _ = charges_in_cells(1)
    x = tensors((r, q, h[0]))
    before = len(_framework._known)
    # Straight calls keep no list: with a tensor without axes for each system the call is none.
    alpha = torch.tensor(ALPHA, dtype=x[0].dtype)
    for _ in range(5):
        pairs, ptr, shifts = mt.neighbor_list(x[0], CUTOFF, x[2])
        mt.ewald_real_space(*x, alpha, neighbor_list=pairs, neighbor_ptr=ptr, neighbor_shifts=shifts)
        assert len(_framework._known) == before + 1
        del pairs
        assert len(_framework._known) == before


def test_inference_mode() -> None:
    """Nothing made in it stays behind."""
    r, q, h, _ = charges_in_cells(1)
    with torch.inference_mode():
        x = tensors((r, q, h[0]))
        pairs, ptr, shifts = mt.neighbor_list(x[0], CUTOFF, x[2])
        given = {"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts}
        inside = mt.ewald_summation(*x, 0.77, cutoff=CUTOFF, k_cutoff=K_CUTOFF, accuracy=None, **given, **EVERYTHING)
    x = [t.requires_grad_() for t in tensors((r, q, h[0]))]
    outside = mt.ewald_summation(*x, 0.77, cutoff=CUTOFF, k_cutoff=K_CUTOFF, accuracy=None, **EVERYTHING)
    outside[0].sum().backward()
    for a, b in zip(inside, outside):
        assert torch.equal(a, b)


def test_the_process_stays_as_it_is() -> None:
    r, q, h, _ = charges_in_cells(1)
    before = torch.get_default_dtype(), torch.get_num_threads(), torch.get_default_device()
    x = [t.requires_grad_() for t in tensors((r, q, h[0]))]
    mt.ewald_summation(*x, **EVERYTHING)[1].sum().backward()
    assert before == (torch.get_default_dtype(), torch.get_num_threads(), torch.get_default_device())


@pytest.mark.host("on a device no constants are kept")
def test_calls_without_memory_leave_nothing_behind() -> None:
    """Tensors that are made beside fake ones are not kept for later calls."""
    from torch._subclasses import FakeTensorMode

    r, q, h, _ = tensors(charges_in_cells(1))
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, pytest.raises(ValueError, match="tensor with values"):
        mt.ewald_real_space(*map(mode.from_tensor, (r, q, h[0])), 0.4321, cutoff=3.0)
    e = mt.ewald_real_space(r, q, h[0], 0.4321, cutoff=3.0)
    assert type(e) is torch.Tensor
    same(e, mn.ewald_real_space(r.cpu().numpy(), q.cpu().numpy(), h[0].cpu().numpy(), 0.4321, cutoff=3.0))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64])
@pytest.mark.parametrize("batched", [False, True])
def test_integer_charges(dtype: torch.dtype, batched: bool) -> None:
    """Formal charges are numbers like any others."""
    r, _, h = system()
    q = (torch.arange(len(r), device=DEVICE) % 3 - 1).to(dtype)
    of = {"batch_idx": torch.zeros(len(r), dtype=torch.int32, device=DEVICE)} if batched else {}
    h = h.expand(1, 3, 3) if batched else h
    expected = mt.ewald_real_space(r, q.to(r.dtype), h, 0.4, cutoff=4.0, compute_forces=True, **of)
    found = mt.ewald_real_space(r, q, h, 0.4, cutoff=4.0, compute_forces=True, **of)
    assert all(torch.equal(x, y) for x, y in zip(found, expected))
    assert torch.equal(mt.ewald_summation(r, q, h, **of), mt.ewald_summation(r, q.to(r.dtype), h, **of))
