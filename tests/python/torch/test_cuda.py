"""On a GPU: captured graphs, streams, lifetimes, several devices, the same bits, and the values of the CPU.

`MADELUNG_TEST_DEVICE=cuda` runs these, and the other tests of this folder with CUDA tensors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch

import madelung
import madelung.torch as mt
from conftest import DEVICE
from madelung._schema import CHECKED, FULL
from madelung.torch import _bound
from madelung.torch._framework import Device

pytestmark = pytest.mark.skipif(DEVICE != "cuda", reason="not asked for: MADELUNG_TEST_DEVICE=cuda")

ALPHA, CUTOFF, K_CUTOFF = 0.6, 4.0, 4.0
EVERYTHING = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}


def salt(repeat: int = 2, dtype: torch.dtype = torch.float64, device: str = DEVICE) -> tuple[torch.Tensor, ...]:
    """Rock salt, every ion moved a little from its place, in a skewed cell."""
    random = torch.Generator().manual_seed(repeat)
    axis = torch.arange(2.0 * repeat, dtype=torch.float64)
    places = torch.cartesian_prod(axis, axis, axis)
    skew = torch.tensor([[2.8, 0.0, 0.0], [0.2, 2.7, 0.0], [-0.1, 0.3, 2.9]], dtype=torch.float64)
    r = places @ skew + 0.2 * torch.rand(len(places), 3, generator=random, dtype=torch.float64)
    q = 1.0 - 2.0 * (places.sum(1) % 2)
    return tuple(x.to(dtype).to(device) for x in (r, q, 2 * repeat * skew))


def rms(x: torch.Tensor) -> float:
    return float(x.square().mean().sqrt())


def moved(r: torch.Tensor, seed: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return r + 0.1 * torch.rand(r.shape, generator=random, dtype=r.dtype).to(r.device)


def given_waves(h: torch.Tensor) -> dict[str, Any]:
    miller, of = mt.generate_miller_indices(h, K_CUTOFF)
    return {"alpha": ALPHA, "cutoff": CUTOFF, "miller_indices": miller, "miller_batch_idx": of}


def listed(r: torch.Tensor, h: torch.Tensor, capacity: int | None = None) -> dict[str, Any]:
    found = mt.neighbor_list(r, CUTOFF, h, capacity=capacity)
    return dict(zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), found))


def sleep() -> None:
    """Keeps the current stream from what comes next for a while."""
    # A device that is stood in for does nothing before somebody waits for it.
    with contextlib.suppress(RuntimeError):
        torch.cuda._sleep(50_000_000)


def captured(step: Callable[[], Any]) -> tuple[torch.cuda.CUDAGraph, Any]:
    """A step as a graph, after it has run once beside it, as PyTorch asks for."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()
    return graph, out


def equal(a: Any, b: Any) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_the_values_of_the_cpu(dtype: torch.dtype, tolerance: float) -> None:
    """Energies, forces and second derivatives, against the RMS of what they are, or of forces."""
    results = []
    for device in ("cpu", DEVICE):
        r, q, h = (x.requires_grad_() for x in salt(dtype=dtype, device=device))
        out = mt.ewald_summation(r, q, h, ALPHA, cutoff=CUTOFF, k_cutoff=K_CUTOFF, accuracy=None, **EVERYTHING)
        grads = torch.autograd.grad(out[1].square().sum(), (r, q, h))
        assert all(x.device.type == device for x in (*out, *grads))
        results.append([x.detach().double().cpu() for x in (*out, *grads)])
    # Rounding errors are those of forces, where sums over charges cancel too.
    least = rms(results[0][1])
    for expected, got in zip(*results):
        assert rms(got - expected) <= tolerance * max(rms(expected), least)


@pytest.mark.parametrize("half", [False, True], ids=["full", "half"])
@pytest.mark.parametrize("form", ["coo", "csr", "matrix"])
def test_the_lists_of_the_cpu(form: str, half: bool) -> None:
    options = {"format": form, "half_fill": half, "return_vectors": True}
    (r, _, h), (at, _, cell) = salt(), salt(device="cpu")
    *found, vectors = mt.neighbor_list(r, CUTOFF, h, **options)
    *expected, of_cpu = mt.neighbor_list(at, CUTOFF, cell, **options)
    assert equal([x.cpu() for x in found], expected)
    torch.testing.assert_close(vectors.cpu(), of_cpu, rtol=1e-14, atol=1e-14)


def test_the_same_bits() -> None:
    """Of every repeat, whatever else runs, and of a system alone and in a batch."""
    r, q, h = salt()
    lists, waves = listed(r, h), given_waves(h)
    expected = mt.ewald_summation(r, q, h, **lists, **waves, **EVERYTHING)
    for _ in range(5):
        assert equal(mt.ewald_summation(r, q, h, **lists, **waves, **EVERYTHING), expected)
    two = (torch.cat([r, moved(r, 1)]), torch.cat([q, q]), torch.stack([h, h]))
    idx = torch.arange(2, device=DEVICE).repeat_interleave(len(r))
    options = {"cutoff": CUTOFF, "k_cutoff": K_CUTOFF, "accuracy": None, "batch_idx": idx}
    for x, y in zip(mt.ewald_summation(*two, ALPHA, **options, **EVERYTHING), expected):
        assert torch.equal(x[: len(y)] if y.shape != (3, 3) else x[0], y)


@pytest.mark.parametrize(
    ("alpha", "options"),
    [
        ("tensor", {"energy_reduction": "system", "compute_charge_gradients": True}),
        ("number", {"compute_forces": True}),
    ],
)
def test_a_step_in_a_graph(alpha: str, options: dict[str, Any]) -> None:
    """List, energies and gradients: replayed, they are what a call gives."""
    r, q, h = salt()
    waves, capacity = given_waves(h), 2 * int(mt.neighbor_list(r, CUTOFF, h)[1][-1])
    start = r.clone()

    def step() -> Any:
        return mt.ewald_summation(r, q, h, **listed(r, h, capacity), **waves, **options)

    if alpha == "tensor":
        waves["alpha"] = r.new_tensor([ALPHA])
    graph, out = captured(step)
    for seed in range(3):
        r.copy_(moved(start, seed))
        graph.replay()
        assert equal(out, mt.ewald_summation(r, q, h, **listed(r, h), **waves, **options))


def test_a_list_that_grows_too_long_in_a_graph() -> None:
    r, q, h = salt()
    waves, capacity = given_waves(h), int(mt.neighbor_list(r, CUTOFF, h)[1][-1])
    waves["alpha"] = r.new_tensor([ALPHA])
    graph, out = captured(lambda: mt.ewald_summation(r, q, h, **listed(r, h, capacity), **waves))
    r *= 0.8
    h *= 0.8
    graph.replay()
    assert out.isnan().all()
    with pytest.raises(ValueError, match="capacity"):
        madelung.check_device()


def test_a_training_step_in_a_graph() -> None:
    """The loss is one on forces, so its gradient is a second derivative."""
    r, q, h = salt()
    given = {**listed(r, h), **given_waves(h)}
    wanted = torch.linspace(-1, 1, 3 * len(r), dtype=r.dtype, device=DEVICE).reshape(-1, 3)

    def trained(steps: int, in_graph: bool) -> torch.Tensor:
        w = q.clone().requires_grad_()
        optimizer = torch.optim.SGD([w], lr=1e-3)

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            _, forces = mt.ewald_summation(r, w, h, **given, compute_forces=True)
            (forces - wanted).square().sum().backward()
            optimizer.step()

        if not in_graph:
            for _ in range(steps):
                step()
            return w.detach()
        # The steps ahead of the capture count too; that of the capture itself does not run.
        graph, _ = captured(step)
        for _ in range(steps - 2):
            graph.replay()
        return w.detach()

    assert torch.equal(trained(6, True), trained(6, False))


def test_what_cannot_be_captured_says_so() -> None:
    r, q, h = salt()
    given = {**listed(r, h), **given_waves(h)}
    waves = ("miller_indices", "miller_batch_idx")
    for message, call in {
        "`capacity`: expected how many pairs": lambda: mt.neighbor_list(r, CUTOFF, h),
        "while a CUDA graph is captured": lambda: mt.ewald_summation(r, q, h),
        "`miller_indices`: expected what": lambda: mt.ewald_summation(
            r, q, h, k_cutoff=K_CUTOFF, accuracy=None, **{k: x for k, x in given.items() if k not in waves}
        ),
    }.items():
        graph = torch.cuda.CUDAGraph()
        with pytest.raises(ValueError, match=message), torch.cuda.graph(graph):
            call()
    mt.ewald_summation(r, q, h, **given)


def test_a_loop_with_one_cell_reads_nothing() -> None:
    """Parameters and wave vectors are those of the first call, with a list of its own capacity."""
    r, q, h = salt()
    capacity = 2 * int(mt.neighbor_list(r, CUTOFF, h)[1][-1])
    options = {"accuracy": 1e-4, "cutoff": CUTOFF, "compute_forces": True}
    positions = [moved(r, seed) for seed in range(3)]
    expected = [mt.ewald_summation(x, q, h, **listed(x, h, capacity), **options) for x in positions]
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        got = [mt.ewald_summation(x, q, h, **listed(x, h, capacity), **options) for x in positions]
    finally:
        torch.cuda.set_sync_debug_mode(before)
    for a, b in zip(got, expected):
        assert equal(a, b)


def test_side_streams() -> None:
    r, q, h = salt()
    expected = mt.ewald_summation(r, q, h, ALPHA, cutoff=CUTOFF, k_cutoff=K_CUTOFF, accuracy=None, **EVERYTHING)
    (by_r,) = torch.autograd.grad(
        mt.ewald_summation(
            x := r.clone().requires_grad_(), q, h, ALPHA, cutoff=CUTOFF, k_cutoff=K_CUTOFF, accuracy=None
        ).sum(),
        x,
    )
    streams = [torch.cuda.Stream() for _ in range(3)]
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            # What is made here is made late.
            sleep()
            x = r.clone().requires_grad_()
            got = mt.ewald_summation(x, q, h, ALPHA, cutoff=CUTOFF, k_cutoff=K_CUTOFF, accuracy=None, **EVERYTHING)
            (g,) = torch.autograd.grad(got[0].sum(), x)
        torch.cuda.current_stream().wait_stream(stream)
        assert equal(got, expected) and torch.equal(g, by_r)


def test_inputs_may_be_freed_at_once() -> None:
    """Their memory is used again behind what reads it."""
    r, q, h = salt()
    given = {**listed(r, h), **given_waves(h)}
    expected = mt.ewald_summation(r, q, h, **given, compute_forces=True)
    sleep()
    got = mt.ewald_summation(
        r.clone(),
        q.clone(),
        h.clone(),
        **{k: x.clone() if isinstance(x, torch.Tensor) else x for k, x in given.items()},
        compute_forces=True,
    )
    others = [
        torch.full_like(x, 7) for x in (r, q, h, *given.values()) if isinstance(x, torch.Tensor) for _ in range(4)
    ]
    assert equal(got, expected) and all((x == 7).all() for x in others)


def test_another_device_than_the_current_one() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    options = {"cutoff": CUTOFF, "k_cutoff": K_CUTOFF, "accuracy": None}
    expected = mt.ewald_summation(*salt(device="cuda:0"), ALPHA, **options, **EVERYTHING)
    with torch.cuda.device(0):
        r, q, h = (x.requires_grad_() for x in salt(device="cuda:1"))
        got = mt.ewald_summation(r, q, h, ALPHA, **options, **EVERYTHING)
        got[0].sum().backward()
        assert torch.cuda.current_device() == 0
    assert all(x.device == r.device for x in (*got, r.grad)) and equal([x.cuda(0) for x in got], expected)
    madelung.check_device(1)
    with pytest.raises(ValueError, match="`charges`: expected a tensor on cuda:1 like `positions`"):
        mt.ewald_summation(r, q.cuda(0), h, ALPHA, **options)


def test_errors_of_values_are_told_when_asked() -> None:
    r, q, h = salt()
    given = {**listed(r, h), **given_waves(h)}
    r[3] = torch.nan
    assert mt.ewald_summation(r, q, h, **given).isnan().all()
    with pytest.raises(ValueError, match="positions`: expected finite numbers"):
        madelung.check_device()


def seen_kinds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The kinds of the lists of searches that calls take from here on."""
    kinds: list[int] = []
    checked = Device.found.__func__

    def found(cls: Any, *args: Any) -> Any:
        *arrays, kind = checked(cls, *args)
        kinds.append(kind)
        return *arrays, kind

    monkeypatch.setattr(Device, "found", classmethod(found))
    # Straight calls ask for themselves.
    monkeypatch.setattr(_bound, "STRAIGHT", {})
    return kinds


def test_lists_of_a_search_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = seen_kinds(monkeypatch)
    r, q, h = salt()
    neighbors, given = mt.find_neighbors(r, CUTOFF, h), {"alpha": ALPHA, "cutoff": CUTOFF, **EVERYTHING}
    expected = mt.ewald_real_space(r, q, h, **given, **neighbors.lists)
    # The cell of the search, an equal one, and one that is written to and back again.
    assert equal(mt.ewald_real_space(r, q, h, neighbors=neighbors, **given), expected)
    assert equal(mt.ewald_real_space(r, q, h.clone(), neighbors=neighbors, **given), expected)
    h.mul_(2.0).mul_(0.5)
    assert equal(mt.ewald_real_space(r, q, h, neighbors=neighbors, **given), expected)
    assert kinds == [FULL + CHECKED] * 3
    # In another cell it is out of date, as it is after that of the search has changed.
    for cell in (1.1 * h, h.mul_(1.1)):
        assert all(x.isnan().all() for x in mt.ewald_real_space(r, q, cell, neighbors=neighbors, **given))
        with pytest.raises(ValueError, match="ewald_real_space.*pairs"):
            madelung.check_device()
    assert kinds == [FULL + CHECKED] * 5
    h.copy_(neighbors.cell[0])
    # What others have written to is looked at.
    neighbors.columns[0] += 1
    assert mt.ewald_real_space(r, q, h, neighbors=neighbors, **given)[0].isnan().all()
    with pytest.raises(ValueError, match="a full list"):
        madelung.check_device()
    assert kinds[5:] == [FULL]


def test_devices() -> None:
    assert madelung.devices() == ["cpu", *(f"cuda:{n}" for n in range(torch.cuda.device_count()))]
