"""Gaussian charges against sums over waves and pairs, and charges that minimise an energy against dense solutions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import madelung.jax as mj
import madelung.numpy as mn
import madelung.torch as mt
from wires import gaussians, potentials

ATOMS = 8
EVERYTHING: dict[str, Any] = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}
CELL = np.array([[6.0, 0.3, 0.0], [1.0, 7.0, 0.2], [0.5, -0.6, 6.5]])


@pytest.fixture(autouse=True)
def doubles() -> Iterator[None]:
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield


def atoms(seed: int) -> tuple[np.ndarray, ...]:
    """Positions apart from each other, charges, widths, electronegativities and hardnesses."""
    rng = np.random.default_rng(seed)
    places = np.array([(i, j, k) for i in range(2) for j in range(2) for k in range(2)])
    r = 2.8 * places + rng.uniform(-0.4, 0.4, (ATOMS, 3))
    return r, *(rng.uniform(*x, ATOMS) for x in ((-1.0, 1.0), (0.3, 0.9), (-1.0, 1.0), (0.5, 1.0)))


def over_waves(r: np.ndarray, q: np.ndarray, widths: np.ndarray, cell: np.ndarray) -> tuple[float, np.ndarray]:
    """(2π/V) Σ |Σ q exp(−σ²k²/2) exp(ikr)|²/k² over k ≠ 0, and its gradient by the charges."""
    n = np.arange(-16, 17)
    miller = np.stack(np.meshgrid(n, n, n), -1).reshape(-1, 3)
    k = miller[(miller != 0).any(1)] @ (2.0 * np.pi * np.linalg.inv(cell).T)
    square = (k**2).sum(1)
    waves = np.exp(1j * k @ r.T - 0.5 * square[:, None] * widths**2)
    whole, volume = waves @ q, abs(np.linalg.det(cell))
    energy = 2.0 * np.pi / volume * (abs(whole) ** 2 / square).sum()
    return energy, 4.0 * np.pi / volume * ((waves.conj() * whole[:, None]).real / square[:, None]).sum(0)


def over_pairs(r: np.ndarray, q: np.ndarray, widths: np.ndarray) -> float:
    """Σ q_i q_j erf(r/√(2(σ_i²+σ_j²)))/r over pairs, and Σ q²/(2√π σ)."""
    energy = (q**2 / (2.0 * math.sqrt(math.pi) * widths)).sum()
    for i in range(len(r)):
        for j in range(i):
            d = float(np.linalg.norm(r[i] - r[j]))
            energy += q[i] * q[j] * math.erf(d / math.sqrt(2.0 * (widths[i] ** 2 + widths[j] ** 2))) / d
    return float(energy)


def test_gaussian_charges_of_a_charged_crystal_are_those_of_a_sum_over_waves() -> None:
    r, q, widths, _, _ = atoms(0)
    given: dict[str, Any] = {"energy_reduction": "system", "compute_charge_gradients": True}
    points = mn.ewald_summation(r, q, CELL, accuracy=1e-13, **given)
    rest = mn.gaussian_correction(r, q, widths, CELL, **given)
    energy, potentials = over_waves(r, q, widths, CELL)
    assert abs(q.sum()) > 0.1
    np.testing.assert_allclose(points[0] + rest[0], energy, rtol=0, atol=1e-12)
    np.testing.assert_allclose(points[1] + rest[1], potentials, rtol=0, atol=1e-12)


def test_gaussian_charges_of_a_molecule_are_those_of_all_pairs() -> None:
    r, q, widths, _, _ = atoms(1)
    given: dict[str, Any] = {"energy_reduction": "system"}
    got = mn.coulomb(r, q, **given) + mn.gaussian_correction(r, q, widths, **given)
    np.testing.assert_allclose(got, over_pairs(r, q, widths), rtol=0, atol=1e-13)


def test_gaussian_corrections_of_a_batch_are_those_of_its_systems() -> None:
    each, axes = [atoms(seed) for seed in range(3)], [[True] * 3, [False] * 3, [True, True, False]]
    r, q, widths = (np.concatenate([x[n] for x in each]) for n in range(3))
    idx = np.repeat(np.arange(3, dtype=np.int32), ATOMS)
    both = mn.gaussian_correction(r, q, widths, np.stack([CELL] * 3), pbc=axes, batch_idx=idx, **EVERYTHING)
    for b, (x, c, w, *_) in enumerate(each):
        alone = mn.gaussian_correction(x, c, w, CELL, pbc=axes[b], cutoff=11.0 * float(widths.max()), **EVERYTHING)
        for got, want in zip(both[:3], alone[:3]):
            np.testing.assert_array_equal(got[idx == b], want)
        np.testing.assert_array_equal(both[3][b], alone[3])


def test_gaussian_corrections_have_two_derivatives() -> None:
    r, q, widths, _, _ = atoms(2)
    inputs = [torch.tensor(x, requires_grad=True) for x in (r, q, widths, CELL)]
    found = mn.neighbor_list(r, 10.0, CELL)
    lists = dict(zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), map(torch.tensor, found)))

    def energy(*x: torch.Tensor) -> torch.Tensor:
        return mt.gaussian_correction(*x, cutoff=9.9, energy_reduction="system", **lists)

    assert torch.autograd.gradcheck(energy, inputs, atol=1e-8, rtol=1e-6)
    assert torch.autograd.gradgradcheck(energy, inputs, atol=1e-7, rtol=1e-5)
    whole = torch.compile(energy, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(whole(*inputs), energy(*inputs), rtol=0, atol=0)
    by_jax = jax.jit(lambda *x: mj.gaussian_correction(*x, cutoff=9.9, energy_reduction="system", **lists_of(found)))
    np.testing.assert_array_equal(by_jax(*(x.detach().numpy() for x in inputs)), energy(*inputs).detach().numpy())


def lists_of(found: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), map(jnp.asarray, found)))


def dense(
    r: np.ndarray, chi: np.ndarray, eta: np.ndarray, widths: np.ndarray, cell: Any, total: float
) -> tuple[np.ndarray, float]:
    """The charges and the energy by a solution with the whole matrix, and a multiplier for the total charge."""
    rows = []
    for i in range(len(r)):
        e = np.eye(len(r))[i]
        if cell is None:
            # By polarisation, E(e_i + e_j) − E(e_i) − E(e_j), from energies alone.
            row = [
                over_pairs(r, e + f, widths) - over_pairs(r, e, widths) - over_pairs(r, f, widths)
                for f in np.eye(len(r))
            ]
        else:
            row = over_waves(r, e, widths, cell)[1]
        rows.append(row)
    matrix = np.diag(eta) + np.array(rows)
    one = np.ones((len(r), 1))
    both = np.block([[matrix, one], [one.T, np.zeros((1, 1))]])
    q = np.linalg.solve(both, np.append(-chi, total))[: len(r)]
    return q, float(chi @ q + 0.5 * q @ matrix @ q)


@pytest.mark.parametrize("cell", [None, CELL], ids=["molecule", "crystal"])
def test_equilibrated_charges_are_those_of_a_dense_solution(cell: Any) -> None:
    r, _, widths, chi, eta = atoms(3)
    q, energy = mn.qeq(r, chi, eta, widths, cell, 0.6, accuracy=1e-13, energy_reduction="system")
    want, lowest = dense(r, chi, eta, widths, cell, 0.6)
    np.testing.assert_allclose(q, want, rtol=0, atol=1e-11)
    np.testing.assert_allclose(energy, lowest, rtol=0, atol=1e-11)
    # An error of 1e-9 of forces between unit charges, on a mesh, is about one of 1e-8 of potentials, which hardnesses
    # of about one turn into charges; that of the energy at its minimum is of the same size.
    q, energy = mn.qeq(r, chi, eta, widths, cell, 0.6, accuracy=1e-9, method="pme", energy_reduction="system")
    np.testing.assert_allclose(q, want, rtol=0, atol=1e-8)
    np.testing.assert_allclose(energy, lowest, rtol=0, atol=1e-8)
    per_atom = mn.qeq(r, chi, eta, widths, cell, 0.6, accuracy=1e-13)[1]
    np.testing.assert_allclose(per_atom.sum(), lowest, rtol=0, atol=1e-11)


def test_forces_and_virials_are_those_of_the_minimum() -> None:
    r, _, widths, chi, eta = atoms(4)
    given: dict[str, Any] = {"prefactor": 14.4, "accuracy": 1e-13, "energy_reduction": "system"}
    _, _, forces, virial = mn.qeq(r, chi, eta, widths, CELL, compute_forces=True, compute_virial=True, **given)
    rng, h = np.random.default_rng(0), 1e-3
    moves, strain = rng.normal(size=r.shape), rng.normal(size=(3, 3))

    def along(t: float, u: float) -> float:
        by = np.eye(3) + u * strain
        return float(mn.qeq((r + t * moves) @ by, chi, eta, widths, CELL @ by, **given)[1].sum())

    # Central differences of fourth order; their rounding is 1e-14 of energies of order ten, over h.
    for moved, analytic in ((lambda t: along(t, 0.0), forces * moves), (lambda t: along(0.0, t), virial * strain)):
        slope = (8.0 * (moved(h) - moved(-h)) - (moved(2.0 * h) - moved(-2.0 * h))) / (12.0 * h)
        np.testing.assert_allclose(-slope, analytic.sum(), rtol=0, atol=1e-8 * np.abs(analytic).sum())


@pytest.mark.parametrize(("method", "error"), [("ewald", 1e-12), ("pme", 1e-9)])
def test_a_mixed_batch_has_the_charges_of_its_systems(method: str, error: float) -> None:
    each, axes = [atoms(seed) for seed in range(4)], [[True] * 3, [False] * 3, [True, True, False], ALONG]
    r, _, widths, chi, eta = (np.concatenate([x[n] for x in each]) for n in range(5))
    tall = np.stack([CELL, CELL, np.diag([7.0, 7.0, 25.0]), WIRE])
    idx, totals = np.repeat(np.arange(4, dtype=np.int32), ATOMS), np.array([0.0, 1.0, -0.5, 0.4])
    given: dict[str, Any] = {"accuracy": error, "energy_reduction": "system", "method": method}
    q, energies = mn.qeq(r, chi, eta, widths, tall, totals, pbc=axes, slab_correction=True, batch_idx=idx, **given)
    np.testing.assert_allclose(np.bincount(idx, q), totals, rtol=0, atol=1e-14)
    for b, (x, _, w, one, two) in enumerate(each):
        boundary: dict[str, Any] = {"pbc": axes[b], "slab_correction": b == 2}
        alone, energy = mn.qeq(x, one, two, w, tall[b], totals[b], **boundary, **given)
        np.testing.assert_allclose(q[idx == b], alone, rtol=0, atol=10.0 * error)
        np.testing.assert_allclose(energies[b], energy[0], rtol=0, atol=10.0 * error)


AXIS = np.array([2.0, -4.0, 3.1])
"""Of a wire, whose cell has nothing else."""
WIRE = np.stack([np.zeros(3), AXIS, np.zeros(3)])
ALONG = [False, True, False]


def test_equilibrated_charges_of_wires() -> None:
    """Against a dense solution of potentials by direct sums; forces and virial against differences of the minimum."""
    r, _, widths, chi, eta = atoms(10)
    matrix = np.diag(eta) + potentials(r, AXIS, gaussians(widths))
    one = np.ones((ATOMS, 1))
    both = np.block([[matrix, one], [one.T, np.zeros((1, 1))]])
    want = np.linalg.solve(both, np.append(-chi, 0.6))[:ATOMS]
    given: dict[str, Any] = {"pbc": ALONG, "energy_reduction": "system"}
    q, energy, forces, virial = mn.qeq(
        r, chi, eta, widths, WIRE, 0.6, compute_forces=True, compute_virial=True, **given
    )
    np.testing.assert_allclose(q, want, rtol=0, atol=1e-11)
    np.testing.assert_allclose(energy, chi @ want + 0.5 * want @ matrix @ want, rtol=0, atol=1e-11)
    rng, h = np.random.default_rng(0), 1e-3
    moves, strain = rng.normal(size=r.shape), rng.normal(size=(3, 3))

    def along(t: float, u: float) -> float:
        by = np.eye(3) + u * strain
        return float(mn.qeq((r + t * moves) @ by, chi, eta, widths, WIRE @ by, 0.6, **given)[1].sum())

    for moved, analytic in ((lambda t: along(t, 0.0), forces * moves), (lambda t: along(0.0, t), virial * strain)):
        slope = (8.0 * (moved(h) - moved(-h)) - (moved(2.0 * h) - moved(-2.0 * h))) / (12.0 * h)
        np.testing.assert_allclose(-slope, analytic.sum(), rtol=0, atol=1e-8 * np.abs(analytic).sum())


@pytest.mark.parametrize("cell", [None, CELL, "mesh", WIRE], ids=["molecule", "crystal", "on a mesh", "wire"])
def test_charges_have_two_derivatives(cell: Any) -> None:
    r, _, widths, chi, eta = atoms(5)
    # The mesh is chosen for the cell, so differences by the cell would be those of several meshes.
    fixed, given = cell, {"accuracy": 1e-13}
    if isinstance(cell, str):
        fixed, given = CELL, {"accuracy": 1e-8, "method": "pme"}
    if cell is WIRE:
        given["pbc"] = ALONG
    varies = fixed is not None and fixed is cell
    arrays = [r[:5], chi[:5], eta[:5], widths[:5], *([fixed] if varies else []), np.array([0.3])]
    inputs = [torch.tensor(x, requires_grad=True) for x in arrays]
    weight = np.random.default_rng(6).normal(size=5)

    def charges(space: Any, forces: bool, *x: Any) -> Any:
        here = None if fixed is None else (torch.tensor if space is mt else jnp.asarray)(fixed)
        h, total = x[4:] if varies else (here, x[4])
        return space.qeq(*x[:4], h, total, compute_forces=forces, **given)

    def by_torch(*x: torch.Tensor) -> torch.Tensor:
        q, energy = charges(mt, False, *x)
        return (q * torch.tensor(weight)).sum() + energy.sum()

    def with_forces(*x: torch.Tensor) -> torch.Tensor:
        q, _, forces = charges(mt, True, *x)
        return (q**2).sum() + (forces**2).sum()

    def by_jax(x: list[Any]) -> Any:
        q, energy = charges(mj, False, *x)
        return (q * weight).sum() + energy.sum()

    assert torch.autograd.gradcheck(with_forces, inputs, atol=1e-7, rtol=1e-5)
    assert torch.autograd.gradcheck(by_torch, inputs, atol=1e-7, rtol=1e-5)
    assert torch.autograd.gradgradcheck(by_torch, inputs, atol=1e-6, rtol=1e-4)
    first = torch.autograd.grad(by_torch(*inputs), inputs, create_graph=True)
    at = [jnp.asarray(x) for x in arrays]
    for got, want in zip(jax.grad(by_jax)(at), first):
        np.testing.assert_allclose(got, want.detach().numpy(), rtol=0, atol=1e-10)
    moves = [np.random.default_rng(7).normal(size=x.shape) for x in arrays]
    along = sum((g * torch.tensor(m)).sum() for g, m in zip(first, moves))
    twice = jax.grad(lambda x: sum((g * m).sum() for g, m in zip(jax.grad(by_jax)(x), moves)))(at)
    for got, want in zip(twice, torch.autograd.grad(along, inputs)):
        np.testing.assert_allclose(got, want.numpy(), rtol=0, atol=1e-9 * float(want.abs().max() + 1.0))


@pytest.mark.parametrize("space", [mn, mt, mj], ids=["numpy", "torch", "jax"])
def test_float32_has_the_charges_of_float64(space: Any) -> None:
    r, _, widths, chi, eta = atoms(8)
    make = {mn: np.asarray, mt: torch.tensor, mj: jnp.asarray}[space]
    single = [make(np.asarray(x, np.float32)) for x in (r, chi, eta, widths, CELL)]
    q, energy = space.qeq(*single, accuracy=1e-5, energy_reduction="system")
    assert "float32" in str(q.dtype) and "float32" in str(energy.dtype)
    want = mn.qeq(r, chi, eta, widths, CELL, accuracy=1e-10)[0]
    np.testing.assert_allclose(np.asarray(q), want, rtol=0, atol=1e-5)


def test_bad_arguments_say_what_is_wrong() -> None:
    r, q, widths, chi, eta = atoms(9)
    for given, said in (
        ({"hardness": -2.0 * np.ones(ATOMS)}, "`hardness`: expected numbers so large that the energy has a minimum"),
        ({"widths": np.zeros(ATOMS)}, "`widths`: expected numbers above zero"),
        ({"hardness": eta[:3]}, r"`hardness`: expected shape \(8,\), got \(3,\)"),
        ({"total_charge": np.zeros(2)}, r"`total_charge`: expected a number or shape \(1,\), got \(2,\)"),
        ({"accuracy": 2.0}, "`accuracy`: expected a relative force error"),
        ({"method": "direct"}, "`method`: expected 'ewald' or 'pme', got 'direct'"),
        ({"pbc": [True, False, False], "method": "direct"}, "`method`: expected 'ewald' or 'pme', got 'direct'"),
    ):
        arguments = {"electronegativity": chi, "hardness": eta, "widths": widths, "cell": CELL, **given}
        with pytest.raises(ValueError, match=said):
            mn.qeq(r, **arguments)
    bad = chi.copy()
    bad[1] = np.nan
    two = {"cell": np.stack([CELL] * 2), "batch_idx": np.zeros(ATOMS, np.int32)}
    for space, make in ((mn, np.asarray), (mt, torch.tensor), (mj, jnp.asarray)):
        for name in ("electronegativity", "hardness"):
            for x, kind, said in (
                (make(bad), ValueError, f"`{name}`: expected finite numbers, got nan in row 1"),
                (make(np.arange(ATOMS)), TypeError, f"`{name}`: expected .*float64, as the positions, got .*int"),
                (make(chi.astype(np.float32)), TypeError, f"`{name}`: expected .*float64, as the positions, got .*32"),
                (None, ValueError, f"`{name}`: expected .*, got"),
                ("none", TypeError, f"`{name}`: expected real numbers, got"),
                (make(-2.0 * np.ones(ATOMS)), ValueError, "`hardness`: expected numbers so large"),
            ):
                if name == "electronegativity" and "so large" in said:
                    continue
                arguments = {"electronegativity": make(chi), "hardness": make(eta), name: x}
                with pytest.raises(kind, match=said):
                    space.qeq(make(r), **arguments, widths=make(widths), cell=make(CELL))
        given = [make(x) for x in (r, chi, eta, widths)]
        with pytest.raises(ValueError, match="`total_charge`: expected finite numbers"):
            space.qeq(*given, make(CELL), math.nan)
        with pytest.raises(ValueError, match="`total_charge`: expected 0 of system 1, which has no atoms"):
            space.qeq(*given, make(two["cell"]), make(np.ones(2)), batch_idx=make(two["batch_idx"]))
    # Under `jit` what is traced is named.
    names = ("positions", "electronegativity", "hardness", "widths", "cell", "total_charge")
    values = dict(zip(names, map(jnp.asarray, (r, chi, eta, widths, CELL, 0.5))))
    for name in ("positions", "widths", "cell"):
        x = values[name]
        with pytest.raises(ValueError, match=f"`{name}`: expected an array with a value.*got a traced array"):
            jax.jit(lambda x, name=name: mj.qeq(**(values | {name: x})))(x)
    with pytest.raises(ValueError, match="`widths`: expected numbers above zero"):
        mn.gaussian_correction(r, q, -widths, CELL)
    with pytest.raises(Exception, match="widths"):
        mn.gaussian_correction(r, q, widths[:3], CELL)
