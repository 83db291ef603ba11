"""Lennard-Jones potentials with means of parameters of atoms, against the same pairs with tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import required

torch, jax = required("torch"), required("jax")
import jax.numpy as jnp  # noqa: E402

import madelung.jax as mj  # noqa: E402
import madelung.torch as mt  # noqa: E402

pytestmark = pytest.mark.usefixtures("double_precision")
CELL = np.array([[11.0, 0.0, 0.0], [1.0, 10.0, 0.0], [-2.0, 0.5, 12.0]])
CUTOFF = 4.5
RULES = ("lorentz-berthelot", "geometric")
EVERYTHING: dict[str, Any] = {"compute_forces": True, "compute_virial": True}


def atoms() -> tuple[np.ndarray, ...]:
    """Positions apart from each other, and ε and σ of each atom, one of them without energy."""
    rng = np.random.default_rng(0)
    places = np.stack(np.meshgrid(*[np.arange(4)] * 3), -1).reshape(-1, 3)
    r = places @ CELL / 4.0 + rng.uniform(-0.3, 0.3, (64, 3))
    epsilon, sigma = rng.uniform(0.2, 1.0, 64), rng.uniform(1.6, 2.4, 64)
    epsilon[5] = 0.0
    return r, epsilon, sigma


def tables(mixing: str, epsilon: np.ndarray, sigma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = np.add.outer(sigma, sigma) / 2.0 if mixing == "lorentz-berthelot" else np.sqrt(np.outer(sigma, sigma))
    return np.sqrt(np.outer(epsilon, epsilon)), mean


@pytest.mark.parametrize("end", ["taper", "switch", "cut"])
@pytest.mark.parametrize("mixing", RULES)
def test_means_are_those_of_tables(mixing: str, end: str) -> None:
    r, epsilon, sigma = atoms()
    each = np.arange(64, dtype=np.int32)
    excluded = np.array([[0, 1], [7, 6], [20, 40]], np.int32), np.array([0.0, 0.5, 0.3])
    for given in ({}, {"neighbors": mn.find_neighbors(r, CUTOFF, CELL, form="rows")}, {"exclusions": excluded}):
        of = {"end": end, **given, **EVERYTHING}
        want = mn.lennard_jones(r, each, *tables(mixing, epsilon, sigma), CUTOFF, CELL, **of)
        got = mn.lennard_jones(r, each, epsilon, sigma, CUTOFF, CELL, mixing=mixing, **of)
        for x, y in zip(got, want):
            np.testing.assert_allclose(x, y, rtol=0, atol=1e-12 * np.abs(y).max())
    # Types that atoms share.
    kinds = (each % 3).astype(np.int32)
    want = mn.lennard_jones(r, kinds, *tables(mixing, epsilon[:3], sigma[:3]), CUTOFF, CELL, end=end)
    got = mn.lennard_jones(r, kinds, epsilon[:3], sigma[:3], CUTOFF, CELL, mixing=mixing, end=end)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-12 * np.abs(want).max())


@pytest.mark.parametrize("mixing", RULES)
def test_ends_and_tails_have_tables(mixing: str) -> None:
    r, epsilon, sigma = atoms()
    each = np.arange(64, dtype=np.int32)
    for of in ({"end": "force-switch"}, {"end": "shift"}, {"tail_correction": True}):
        want = mn.lennard_jones(r, each, *tables(mixing, epsilon, sigma), CUTOFF, CELL, **of)
        got = mn.lennard_jones(r, each, epsilon, sigma, CUTOFF, CELL, mixing=mixing, **of)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-12 * np.abs(want).max())


@pytest.mark.parametrize("mixing", RULES)
def test_dispersion_of_all_pairs(mixing: str) -> None:
    """Dispersion is the same at two cutoffs, where r⁻¹² is cut off alike."""
    r, epsilon, sigma = atoms()
    each, of = np.arange(64, dtype=np.int32), {"mixing": mixing, "dispersion": "ewald", "accuracy": 1e-11}
    energies = [
        mn.lennard_jones(r, each, epsilon, sigma, cutoff, CELL, end="cut", **of)
        - mn.lennard_jones(r, each, *tables(mixing, epsilon, sigma), cutoff, CELL, end="cut")
        - np.array(plain_attraction(r, *tables(mixing, epsilon, sigma), cutoff))
        for cutoff in (CUTOFF, 5.2)
    ]
    np.testing.assert_allclose(energies[0], energies[1], rtol=0, atol=1e-9 * np.abs(energies[0]).max())


def plain_attraction(r: np.ndarray, epsilon: np.ndarray, sigma: np.ndarray, cutoff: float) -> list[float]:
    """Attraction of pairs within a cutoff, ½ Σ 4ε(σ/r)⁶, by plain loops."""
    images = np.stack(np.meshgrid(*[np.arange(-1, 2)] * 3), -1).reshape(-1, 3) @ CELL
    found = []
    for i in range(len(r)):
        d = np.linalg.norm(r[:, None] - r[i] + images, axis=2)
        near = (d > 0.0) & (d < cutoff)
        found.append(
            (np.where(near, 2.0 * epsilon[i][:, None] * (sigma[i][:, None] / np.maximum(d, 1e-3)) ** 6, 0.0)).sum()
        )
    return found


@pytest.mark.parametrize("mixing", RULES)
def test_derivatives(mixing: str) -> None:
    r, epsilon, sigma = (x[:12] for x in atoms())
    epsilon = epsilon + 0.1
    each = np.arange(12, dtype=np.int32)
    inputs = [torch.tensor(x, requires_grad=True) for x in (r, epsilon, sigma)]
    weight = np.random.default_rng(1).normal(size=12)

    def value(space: Any, make: Any, r: Any, epsilon: Any, sigma: Any) -> Any:
        energies, forces = space.lennard_jones(
            r, make(each), epsilon, sigma, CUTOFF, mixing=mixing, compute_forces=True
        )
        return (energies * make(weight)).sum() + (forces[:, 0] * make(weight)).sum()

    def energy(*x: Any) -> Any:
        return (mt.lennard_jones(x[0], torch.tensor(each), *x[1:], CUTOFF, mixing=mixing) * torch.tensor(weight)).sum()

    assert torch.autograd.gradcheck(energy, inputs, atol=1e-7, rtol=1e-5)
    assert torch.autograd.gradgradcheck(energy, inputs, atol=1e-6, rtol=1e-4)
    first = torch.autograd.grad(value(mt, torch.tensor, *inputs), inputs)
    found = jax.grad(lambda x: value(mj, jnp.asarray, *x))([jnp.asarray(x) for x in (r, epsilon, sigma)])
    for got, want in zip(found, first):
        np.testing.assert_allclose(got, want.numpy(), rtol=0, atol=1e-11 * float(want.abs().max()))


def test_errors() -> None:
    r, epsilon, sigma = atoms()
    each, of = np.arange(64, dtype=np.int32), {"mixing": "geometric"}
    for types, given, message in (
        (each + 1, (epsilon, sigma), "`types: map`: expected elements from 0 to below 64"),
        (each, (epsilon, sigma[:5]), r"`sigma`: expected .*64"),
        (each, (-epsilon, sigma), "`epsilon`: expected finite numbers >= 0"),
    ):
        with pytest.raises(ValueError, match=message):
            mn.lennard_jones(r, types, *given, CUTOFF, CELL, **of)
