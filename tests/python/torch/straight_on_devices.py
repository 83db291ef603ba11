"""Straight calls on tensors of CUDA, beside the way of all other calls. Runs where a GPU is stood in for: see
test_cuda_stand_in.py."""

from typing import Any

import numpy as np
import pytest
import torch

import madelung
import madelung.torch as mt
from bodies import CUTOFF, FLAGS, arguments, passed
from madelung import _native
from madelung._functions.declare import FUNCTIONS
from madelung._schema import CHECKED
from madelung.torch import _lists
from madelung.torch._bound import STRAIGHT
from madelung.torch._framework import Device

NAMES = [name for name, declared in FUNCTIONS.items() if declared.op is not None]
LISTS = [name for name in NAMES if "neighbors" in {p.name for p in FUNCTIONS[name].parameters()}]


def there(name: str, dtype: type, systems: int) -> dict[str, Any]:
    """Everything that a function takes, on the device."""
    given = arguments(name, dtype, systems)
    found = given.pop("neighbors", None)
    given = {k: torch.from_numpy(x).cuda() if isinstance(x, np.ndarray) else x for k, x in given.items()}
    if found is not None:
        at = (given["positions"], CUTOFF, given["cell"])
        given["neighbors"] = mt.find_neighbors(*at, batch_idx=given.get("batch_idx"))
    return given


def straight(name: str, given: dict[str, Any]) -> Any:
    return STRAIGHT[FUNCTIONS[name].body](passed(name, given))


def both(name: str, given: dict[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The results of a straight call, and those of its body."""
    found = straight(name, given)
    if isinstance(found, _native.InGraph):
        found = Device.evaluated(*found.arguments)
    other = FUNCTIONS[name].body(Device, *passed(name, given))
    return tuple(x if isinstance(x, tuple) else (x,) for x in (found, other))  # type: ignore[return-value]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("systems", [0, 3])
@pytest.mark.parametrize("name", NAMES)
def test_bits_are_those_of_other_calls(name: str, systems: int, dtype: type) -> None:
    of, given = {p.name for p in FUNCTIONS[name].parameters()}, there(name, dtype, systems)
    for reduction in ("atom", "system"):
        for asked in ((), FLAGS[:1], FLAGS):
            flags = {flag: True for flag in asked if flag in of}
            found, other = both(name, given | flags | {"energy_reduction": reduction, "prefactor": 1.5})
            assert found[0] is not NotImplemented and len(found) == len(other)
            for x, y in zip(found, other):
                assert x.is_cuda and (x.dtype, x.shape) == (y.dtype, y.shape)
                assert torch.equal(x.cpu(), y.cpu()), (reduction, asked)
    madelung.check_device()


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_plain_arrays(name: str) -> None:
    given = there(name, np.float64, 0)
    at = (given["positions"], CUTOFF, given["cell"])
    del given["neighbors"]
    given |= dict(zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), mt.neighbor_list(*at)))
    foreign = {k: x.cpu().cuda() for k, x in given.items() if k.startswith("neighbor_")}
    for of in (given, given | foreign):
        found, other = both(name, of | {"compute_forces": True})
        assert found[0] is not NotImplemented
        assert all(torch.equal(x.cpu(), y.cpu()) for x, y in zip(found, other))
    madelung.check_device()
    # What is wrong with a list that nobody has checked is found on the device.
    foreign["neighbor_list"][1, 0] = 99
    result = straight(name, given | foreign)
    with pytest.raises(ValueError, match="expected indices of rows that are there"):
        madelung.check_device()
    assert result.isnan().cpu().all()


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_those_of_other_calls(name: str) -> None:
    given = there(name, np.float64, 0)
    inputs = [k for k in ("positions", "charges", "cell") if k in given]
    for k in inputs:
        given[k] = given[k].clone().requires_grad_()
    if "neighbors" in given:
        at = (given["positions"].detach(), CUTOFF, given["cell"].detach())
        pairs = dict(zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), mt.neighbor_list(*at)))
        given = {k: x for k, x in given.items() if k != "neighbors"} | pairs
    found, other = both(name, given)
    assert found[0].requires_grad
    weights = torch.linspace(0.5, 1.5, len(found[0]), dtype=torch.float64).cuda()
    gradients = [torch.autograd.grad(x[0], [given[k] for k in inputs], weights) for x in (found, other)]
    assert all(torch.equal(x.cpu(), y.cpu()) for x, y in zip(*gradients))


def test_other_calls_go_another_way() -> None:
    name = "ewald_real_space"
    given = there(name, np.float64, 0)
    assert straight(name, given) is not NotImplemented
    for change in (
        # Another cell than that of the list; a tensor of the CPU, of another device; one that is not contiguous.
        {"cell": given["cell"] * 1.5},
        {"charges": given["charges"].cpu()},
        {"charges": given["charges"].to("cuda:1")},
        {"positions": given["positions"].t().contiguous().t()},
        {"cell": None},
    ):
        assert straight(name, given | change) is NotImplemented, change
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        assert straight(name, given) is NotImplemented


def test_long_lists_of_others_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    mark = _lists.Lists.mark

    def marked(self: _lists.Lists, args: Any) -> Any:
        found, pending = mark(self, args)
        seen.append(bool(found[self.starts[0] + 3] & CHECKED))
        return found, pending

    monkeypatch.setattr(_lists.Lists, "mark", marked)
    generator = torch.Generator().manual_seed(7)
    r = (9 * torch.rand(150, 3, generator=generator, dtype=torch.float64)).cuda()
    q, h = torch.linspace(-1, 1, 150, dtype=torch.float64).cuda(), (9 * torch.eye(3, dtype=torch.float64)).cuda()
    names = ("neighbor_list", "neighbor_ptr", "neighbor_shifts")
    pairs = {name: x.cpu().cuda() for name, x in zip(names, mt.neighbor_list(r, 4.0, h))}
    assert pairs["neighbor_list"].shape[1] >= _lists.MANY

    def is_checked(cell: torch.Tensor = h, **batch: Any) -> bool:
        """Whether a call leaves the check of its list out."""
        energies, forces = mt.ewald_real_space(r, q, cell, 0.6, cutoff=4.0, **pairs, compute_forces=True, **batch)
        results.append((energies.cpu(), forces.cpu()))
        return seen[-1]

    results: list[tuple[torch.Tensor, ...]] = []
    madelung.check_device()
    with torch.device("cuda"):
        assert not is_checked()
    assert is_checked() and is_checked()
    assert all(torch.equal(x, y) for again in results for x, y in zip(again, results[0]))
    # A graph reads what is there when it is replayed.
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        mt.ewald_real_space(r, q, h, 0.6, cutoff=4.0, **pairs, compute_forces=True)
    assert not seen[-1] and is_checked()
    # Several systems have other borders.
    several = {"cell": h.expand(2, 3, 3).contiguous(), "batch_idx": (torch.arange(150) >= 75).int().cuda()}
    assert not is_checked(**several)
    with pytest.raises(ValueError, match="expected pairs of rows of one system|system"):
        madelung.check_device()
    # A list that was written to is another one, and so is one whose first call has met an error.
    assert not is_checked() and is_checked()
    pairs["neighbor_list"].add_(0)
    assert not is_checked() and is_checked()
    pairs["neighbor_list"].add_(0)
    q[0] = torch.nan
    assert not is_checked() and not is_checked()
    with pytest.raises(ValueError, match="charges`: expected finite"):
        madelung.check_device()
    q[0] = 1.0
    # The record was looked at between the call and its outcome.
    assert not is_checked() and is_checked()
    madelung.check_device()
