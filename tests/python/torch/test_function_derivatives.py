"""Derivatives of the public functions: of energies twice, of what is returned beside them once, plain and hybrid."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from systems import leaves, listed, system
from torch.autograd import grad, gradcheck
from torch.func import functional_call, hessian, jacfwd, jacrev, jvp, vmap

import madelung.torch as mt
from conftest import DEVICE
from differences import check_torch

EVERYTHING = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}
# With these a pair at the cutoff has an energy of 1e-16.
SPLIT = {"alpha": 1.5, "cutoff": 4.0, "k_cutoff": 6.0, "accuracy": None}
REDUCTIONS = pytest.mark.parametrize("reduction", ["atom", "system"])


@pytest.fixture(params=["real", "reciprocal", "sum"])
def energies(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """One of the functions, of positions, charges, cell and alpha."""

    def call(r: torch.Tensor, q: torch.Tensor, h: torch.Tensor, alpha: Any = 1.5, **options: Any) -> Any:
        if request.param == "real":
            return mt.ewald_real_space(r, q, h, alpha, cutoff=4.0, **options)
        if request.param == "reciprocal":
            return mt.ewald_reciprocal_space(r, q, h, alpha, 6.0, **options)
        return mt.ewald_summation(r, q, h, alpha, cutoff=4.0, k_cutoff=6.0, accuracy=None, **options)

    return call


@REDUCTIONS
def test_energies_twice(energies: Callable[..., Any], reduction: str) -> None:
    x = leaves(*system(), torch.tensor(1.1, dtype=torch.float64, device=DEVICE))

    def f(*x: torch.Tensor) -> torch.Tensor:
        return energies(*x, energy_reduction=reduction)

    gradcheck(f, x, fast_mode=True)
    check_torch(f, x)


@REDUCTIONS
@pytest.mark.parametrize("hybrid", [False, True], ids=["plain", "hybrid"])
def test_outputs_once(energies: Callable[..., Any], reduction: str, hybrid: bool) -> None:
    """Forces, charge gradients and virials have all derivatives, in hybrid mode too."""
    x = leaves(*system(), torch.tensor(1.1, dtype=torch.float64, device=DEVICE))

    def f(*x: torch.Tensor) -> Any:
        return energies(*x, energy_reduction=reduction, hybrid_forces=hybrid, **EVERYTHING)[1:]

    gradcheck(f, x, fast_mode=True)


@REDUCTIONS
def test_outputs_are_gradients(energies: Callable[..., Any], reduction: str) -> None:
    r, q, h = leaves(*system())
    strain = torch.zeros(3, 3, dtype=torch.float64, device=DEVICE, requires_grad=True)
    deform = torch.eye(3, dtype=torch.float64, device=DEVICE) + strain
    at = {"energy_reduction": reduction}
    e, forces, by_charges, virial = energies(r, q, h, **at, **EVERYTHING)
    by = grad(energies(r @ deform, q, h @ deform, **at).sum(), (r, q, strain))
    assert e.sum().shape == ()
    for got, expected in zip((-forces, by_charges, -virial), by):
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@REDUCTIONS
def test_losses_of_everything(energies: Callable[..., Any], reduction: str) -> None:
    """One backward pass through all outputs at once is the sum of those through each."""
    x = leaves(*system())
    out = energies(*x, energy_reduction=reduction, **EVERYTHING)
    parts = [grad((o * o).sum(), x, retain_graph=True, allow_unused=True) for o in out]
    together = grad(sum((o * o).sum() for o in out), x)
    for k, got in enumerate(together):
        torch.testing.assert_close(got, sum(p[k] for p in parts), rtol=1e-12, atol=1e-12)


def differences(f: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, step: float = 2e-3) -> torch.Tensor:
    """The gradient of a number by central differences of eighth order."""
    weights = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
    out = torch.zeros_like(x).flatten()
    for n in range(x.numel()):
        for k, w in weights.items():
            for sign in (1, -1):
                y = x.detach().clone().flatten()
                y[n] += sign * k * step
                out[n] += sign * w / step * f(y.reshape(x.shape)).detach()
    return out.reshape(x.shape)


class Charges(torch.nn.Module):
    """Charges that depend on all positions, not linearly."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([[0.3, -0.5, 0.7]], dtype=torch.float64, device=DEVICE))

    def forward(self, r: torch.Tensor) -> torch.Tensor:
        x = torch.tanh((r * self.w).sum(1) - 0.4)
        return x + 0.1 * torch.sin(r.sum() * self.w.sum()) + 0.2 * x.sum() * x


@pytest.fixture(params=[False, True], ids=["uniform", "weighted"])
def weights(request: pytest.FixtureRequest) -> torch.Tensor:
    return torch.tensor([0.3, 1.7, -0.6, 1.1] if request.param else [1.0] * 4, dtype=torch.float64, device=DEVICE)


def energy(r: torch.Tensor, q: torch.Tensor, h: torch.Tensor, w: torch.Tensor, **options: Any) -> torch.Tensor:
    return (w * mt.ewald_summation(r, q, h, **SPLIT, **options)).sum()


def total_forces(
    r: torch.Tensor, model: Callable[..., Any], h: torch.Tensor, w: torch.Tensor, hybrid: bool, graph: bool
) -> torch.Tensor:
    """−dE/dr of E = Σ w_i e_i(r, q(r)), by autograd alone or as the hybrid scheme has it."""
    q = model(r)
    if not hybrid:
        return -grad(energy(r, q, h, w), r, create_graph=graph)[0]
    e, forces = mt.ewald_summation(r, q, h, **SPLIT, hybrid_forces=True, compute_forces=True)
    if not bool((w == 1).all()):
        # The forces are those of the sum of all energies: what weights add, at fixed charges, is for the user to add.
        at = r.clone()
        (rest,) = grad(energy(at, q, h, w - 1), at, create_graph=graph, retain_graph=True)
        forces = forces - rest
    (through_charges,) = grad((w * e).sum(), r, create_graph=graph, retain_graph=True)
    return forces - through_charges


@pytest.mark.parametrize("hybrid", [False, True], ids=["plain", "hybrid"])
@pytest.mark.parametrize("graph", [False, True], ids=["", "create_graph"])
def test_charges_that_depend_on_positions(hybrid: bool, graph: bool, weights: torch.Tensor) -> None:
    r, _, h = system()
    model = Charges()
    expected = -differences(lambda x: energy(x, model(x), h, weights), r)
    (x,) = leaves(r)
    forces = total_forces(x, model, h, weights, hybrid, graph)
    assert forces.requires_grad == graph or hybrid
    torch.testing.assert_close(forces.detach(), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("hybrid", [False, True], ids=["plain", "hybrid"])
def test_losses_of_total_forces(hybrid: bool, weights: torch.Tensor) -> None:
    """The gradient of a loss on forces by positions and parameters against differences of the loss."""
    r, _, h = system()
    model = Charges()

    def loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        forces = total_forces(x, lambda y: functional_call(model, {"w": w}, (y,)), h, weights, hybrid, True)
        return (forces * torch.arange(12.0, device=DEVICE).reshape(4, 3)).sum() + forces.square().sum()

    x, w = leaves(r, model.w)
    by_r, by_w = grad(loss(x, w), (x, w))
    expected = differences(lambda y: loss(y.requires_grad_(), w), r)
    scale = float(expected.abs().max())
    torch.testing.assert_close(by_r, expected, rtol=0, atol=1e-8 * scale)
    expected = differences(lambda y: loss(x, y.requires_grad_()), model.w)
    torch.testing.assert_close(by_w, expected, rtol=0, atol=1e-8 * scale)


@REDUCTIONS
def test_the_hybrid_rule(energies: Callable[..., Any], reduction: str) -> None:
    """Zero by positions and cell, ∂E/∂q by the charges; and ∂E/∂q is a function of all of them."""
    x = leaves(*system(), torch.tensor(1.1, dtype=torch.float64, device=DEVICE))
    options = {"energy_reduction": reduction}
    e = energies(*x, hybrid_forces=True, **options)
    plain = energies(*x, **options)
    assert torch.equal(e, plain)
    w = torch.linspace(0.5, 2.0, len(e), dtype=torch.float64, device=DEVICE)
    by_r, by_q, by_h, by_alpha = grad((w * e).sum(), x, create_graph=True, allow_unused=True)
    assert by_r is None or not by_r.any()
    assert by_h is None or not by_h.any()
    expected = grad((w * plain).sum(), x, create_graph=True)
    torch.testing.assert_close(by_q, expected[1], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(by_alpha, expected[3], rtol=1e-12, atol=1e-12)
    u = torch.linspace(-1, 1, 4, dtype=torch.float64, device=DEVICE)
    for a, b in zip(grad((u * by_q).sum(), x), grad((u * expected[1]).sum(), x)):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@REDUCTIONS
def test_transforms(reduction: str) -> None:
    """`torch.func`: Hessians by every mode, maps, and tangents, of energies and of forces."""
    r, q, h = system()
    given = listed(r, h)

    def e(r: torch.Tensor) -> torch.Tensor:
        return mt.ewald_summation(r, q, h, 1.5, energy_reduction=reduction, **given).sum()

    def forces(r: torch.Tensor) -> torch.Tensor:
        return mt.ewald_summation(r, q, h, 1.5, energy_reduction=reduction, compute_forces=True, **given)[1]

    expected = torch.autograd.functional.hessian(e, r)
    for found in (hessian(e)(r), jacrev(jacrev(e))(r), jacfwd(jacfwd(e))(r), -jacrev(forces)(r), -jacfwd(forces)(r)):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    many = torch.stack([r, 1.01 * r])
    torch.testing.assert_close(vmap(forces)(many), torch.stack([forces(x) for x in many]))
    u = torch.ones_like(r)
    torch.testing.assert_close(jvp(e, (r,), (u,))[1], -(forces(r) * u).sum(), rtol=1e-12, atol=1e-12)


def test_the_hybrid_rule_under_transforms() -> None:
    r, q, h = system()
    given = listed(r, h)

    def e(r: torch.Tensor, q: torch.Tensor, hybrid: bool = True) -> torch.Tensor:
        return mt.ewald_summation(r, q, h, 1.5, hybrid_forces=hybrid, **given).sum()

    def by_charges(r: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(e, 1)(r, q)

    expected = torch.func.grad(e, 1)(r, q, False)
    assert not torch.func.grad(e)(r, q).any()
    torch.testing.assert_close(by_charges(r), expected)
    mixed = jacrev(lambda r: torch.func.grad(e, 1)(r, q, False))(r)
    torch.testing.assert_close(jacrev(by_charges)(r), mixed)
    torch.testing.assert_close(jacfwd(by_charges)(r), mixed)
    many = torch.stack([r, 1.01 * r])
    torch.testing.assert_close(vmap(by_charges)(many), torch.stack([by_charges(x) for x in many]))
    torch.testing.assert_close(jvp(lambda q: e(r, q), (q,), (torch.ones_like(q),))[1], expected.sum())
    assert float(jvp(lambda r: e(r, q), (r,), (torch.ones_like(r),))[1]) == 0.0


@pytest.mark.parametrize("forces", [False, True])
def test_backward_is_a_scale(forces: bool) -> None:
    """Energies per system come with their gradients: backward multiplies what was saved, and does not sum again."""
    x = leaves(*system())
    saved: list[torch.Tensor] = []

    def pack(t: torch.Tensor) -> Any:
        # All but the inputs: gradients. Twice as large, they show that they are what is used.
        if any(t is y or t.data_ptr() == y.data_ptr() for y in x) or t.dtype != torch.float64 or t.shape == (1,):
            return t
        saved.append(t)
        return 2 * t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = mt.ewald_summation(*x, **SPLIT, energy_reduction="system", compute_forces=forces)
    e = out[0] if forces else out
    expected = grad(mt.ewald_summation(*x, **SPLIT).sum(), x)
    for got, g in zip(grad(3.0 * e.sum(), x), expected):
        torch.testing.assert_close(got, 6.0 * g)
    assert len(saved) == 3


def test_vectors_of_points_on_one_place() -> None:
    """Vectors are linear in positions and cell, wherever the points lie; a length of zero has no derivative."""
    r, _, h = leaves(*system())
    with torch.no_grad():
        r[1] = r[0]

    def vectors(r: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return mt.neighbor_list(r, 4.0, h, return_vectors=True)[-1]

    pairs, _, shifts = mt.neighbor_list(r, 4.0, h)
    assert ((pairs[0] == 0) & (pairs[1] == 1)).any()
    expected = r[pairs[1]] - r[pairs[0]] + shifts.to(r.dtype) @ h
    assert torch.allclose(vectors(r, h), expected, rtol=0, atol=1e-13)
    weights = torch.linspace(-1, 1, expected.numel(), dtype=r.dtype, device=DEVICE).reshape(expected.shape)
    found = grad((vectors(r, h) * weights).sum(), (r, h), create_graph=True)
    for x, y in zip(found, grad((expected * weights).sum(), (r, h))):
        assert torch.allclose(x, y, rtol=0, atol=1e-12)
    if DEVICE == "cpu":
        with pytest.raises(RuntimeError, match="points that are apart, where distances are differentiated"):
            mt.neighbor_list(r, 4.0, h, return_distances=True)[-1].sum().backward()


@REDUCTIONS
def test_scaled_losses_overflow_as_trainers_expect(energies: Callable[..., Any], reduction: str) -> None:
    """`GradScaler` looks for infinities in the gradients, skips the step and lowers its scale."""
    r, q, h = leaves(*system())
    e, forces = energies(r, q, h, energy_reduction=reduction, compute_forces=True)
    for scale in (float("inf"), float("nan")):
        for loss in (e.sum() * scale, (forces**2).sum() * scale):
            found = grad(loss, (r, q, h), retain_graph=True)
            assert all(not x.isfinite().any() for x in found)
    expected = grad(e.sum(), (r, q, h))
    assert all(x.isfinite().all() for x in expected)


@REDUCTIONS
def test_hybrid_energies_at_constant_charges(energies: Callable[..., Any], reduction: str) -> None:
    """Where charges do not depend on positions, the total force is that at fixed charges."""
    r, q, h = leaves(*system())
    e, forces = energies(r, q, h, energy_reduction=reduction, compute_forces=True, hybrid_forces=True)
    by_r, by_q, by_h = grad(e.sum(), (r, q, h), create_graph=True)
    assert not by_r.any() and not by_h.any() and by_q.any()
    total = energies(r, q, h, energy_reduction=reduction, compute_forces=True)[1]
    assert torch.allclose(forces - by_r, total, rtol=0, atol=1e-13 * total.abs().max().item())
    # What comes through the charges is that of the true function.
    plain = grad(energies(r, q, h, energy_reduction=reduction).sum(), q, create_graph=True)[0]
    weights = torch.linspace(-1, 1, len(q), dtype=q.dtype, device=DEVICE)
    for x, y in zip(grad(by_q @ weights, (r, q, h)), grad(plain @ weights, (r, q, h))):
        assert torch.allclose(x, y, rtol=0, atol=1e-12)


def test_vmap_over_any_arguments() -> None:
    """Each of the 31 choices of mapped arguments, lists among them, is a loop over its elements."""
    r, q, h = (torch.stack([x, 1.01 * x]) for x in system())
    lists = [torch.stack([x, x]) for x in mt.neighbor_list(r[0], 2.5, h[0])]
    whole = (r, q, h, torch.tensor([1.1, 1.2], dtype=r.dtype, device=DEVICE), *lists)

    def energies(r: Any, q: Any, h: Any, alpha: Any, pairs: Any, ptr: Any, shifts: Any) -> Any:
        of_list = {"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts}
        return mt.ewald_real_space(r, q, h, alpha, cutoff=2.4, compute_forces=True, **of_list)

    for mapped in product((True, False), repeat=5):
        mapped = (*mapped[:4], *mapped[4:] * 3)
        if not any(mapped):
            continue
        given = [x if each else x[0] for x, each in zip(whole, mapped)]
        found = vmap(energies, in_dims=tuple(0 if each else None for each in mapped))(*given)
        for n in range(2):
            expected = energies(*[x[n] if each else x for x, each in zip(given, mapped)])
            for x, y in zip(found, expected):
                assert torch.allclose(x[n], y, rtol=0, atol=1e-13), mapped
