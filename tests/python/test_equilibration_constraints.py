"""Charge equilibration with held charges, totals of molecules and fields, against dense solutions."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import required
from madelung import _native
from test_equilibration import ATOMS, CELL, atoms, over_pairs, over_waves

torch, jax = required("torch"), required("jax")
import jax.numpy as jnp  # noqa: E402

import madelung.jax as mj  # noqa: E402
import madelung.torch as mt  # noqa: E402

pytestmark = pytest.mark.usefixtures("double_precision")
MOLECULES = np.array([0, 1, 0, 0, 1, 1, 0, 1], np.int32)
TOTALS = np.array([0.4, -0.7])
HELD, HELD_CHARGES = np.array([2, 4], np.int32), np.array([0.25, -0.3])
FIELD = np.array([0.05, -0.1, 0.2])
CONSTRAINED: dict[str, Any] = {
    "molecule_idx": MOLECULES,
    "held_atoms": HELD,
    "held_charges": HELD_CHARGES,
    "external_field": FIELD,
}


def matrix_of(r: np.ndarray, widths: np.ndarray, cell: Any) -> np.ndarray:
    """Second derivatives of the Coulomb energy by charges."""
    ones = np.eye(len(r))
    if cell is not None:
        return np.array([over_waves(r, e, widths, cell)[1] for e in ones])
    alone = [over_pairs(r, e, widths) for e in ones]
    both = [[over_pairs(r, e + f, widths) for f in ones] for e in ones]
    return np.array(both) - np.add.outer(alone, alone)


def solved(matrix: np.ndarray, chi: np.ndarray) -> tuple[np.ndarray, float]:
    """Charges and energy with the constraints, by multipliers."""
    rows = [(k == MOLECULES).astype(float) for k in range(2)] + [np.eye(ATOMS)[i] for i in HELD]
    b = np.array(rows)
    whole = np.block([[matrix, b.T], [b, np.zeros((4, 4))]])
    q = np.linalg.solve(whole, np.concatenate([-chi, TOTALS, HELD_CHARGES]))[:ATOMS]
    return q, float(chi @ q + 0.5 * q @ matrix @ q)


def check_derivatives(value: Any, arrays: list[np.ndarray]) -> None:
    """Two derivatives in PyTorch against differences, and the first in JAX; `value`: of a namespace, what makes its
    arrays, and these."""

    def by_torch(*x: Any) -> Any:
        return value(mt, torch.tensor, *x)

    inputs = [torch.tensor(x, requires_grad=True) for x in arrays]
    assert torch.autograd.gradcheck(by_torch, inputs, atol=1e-7, rtol=1e-5)
    assert torch.autograd.gradgradcheck(by_torch, inputs, atol=1e-6, rtol=1e-4)
    first = torch.autograd.grad(by_torch(*inputs), inputs)
    found = jax.grad(lambda x: value(mj, jnp.asarray, *x))([jnp.asarray(x) for x in arrays])
    for got, want in zip(found, first):
        np.testing.assert_allclose(got, want.numpy(), rtol=0, atol=1e-10)


@pytest.mark.parametrize("cell", [None, CELL], ids=["molecule", "crystal"])
def test_dense_solutions(cell: Any) -> None:
    r, _, widths, chi, eta = atoms(3)
    want, lowest = solved(matrix_of(r, widths, cell) + np.diag(eta), chi - r @ FIELD)
    given = {**CONSTRAINED, "accuracy": 1e-13, "energy_reduction": "system"}
    q, energy = mn.qeq(r, chi, eta, widths, cell, TOTALS, **given)
    np.testing.assert_allclose(q, want, rtol=0, atol=1e-11)
    np.testing.assert_allclose(energy, lowest, rtol=0, atol=1e-11)
    again = mn.qeq(r, chi, eta, widths, cell, TOTALS, initial_charges=want + 0.01, **given)[0]
    np.testing.assert_allclose(again, want, rtol=0, atol=1e-11)


def test_forces_and_virials_in_a_field() -> None:
    r, _, widths, chi, eta = atoms(4)
    given: dict[str, Any] = {**CONSTRAINED, "energy_reduction": "system"}
    _, _, forces, virial = mn.qeq(r, chi, eta, widths, None, TOTALS, compute_forces=True, compute_virial=True, **given)
    of_atoms = mn.qeq(r, chi, eta, widths, None, TOTALS, compute_virial="atom", **given)[-1]
    np.testing.assert_allclose(of_atoms.sum(0), np.reshape(virial, (3, 3)), rtol=0, atol=1e-12)
    rng, h = np.random.default_rng(0), 1e-3
    moves, strain = rng.normal(size=r.shape), rng.normal(size=(3, 3))

    def along(t: float, u: float) -> float:
        moved = (r + t * moves) @ (np.eye(3) + u * strain)
        return float(mn.qeq(moved, chi, eta, widths, None, TOTALS, **given)[1].sum())

    for moved, analytic in ((lambda t: along(t, 0.0), forces * moves), (lambda t: along(0.0, t), virial * strain)):
        slope = (8.0 * (moved(h) - moved(-h)) - (moved(2.0 * h) - moved(-2.0 * h))) / (12.0 * h)
        np.testing.assert_allclose(-slope, analytic.sum(), rtol=0, atol=1e-8 * np.abs(analytic).sum())


@pytest.mark.parametrize("cell", [None, CELL], ids=["molecule", "crystal"])
def test_exclusions(cell: Any) -> None:
    r, _, widths, chi, eta = atoms(10)
    pairs, factors = np.array([[0, 1], [3, 2]], np.int32), np.array([0.0, 0.4])
    matrix = matrix_of(r, widths, cell) + np.diag(eta)
    for (i, j), factor in zip(pairs, factors):
        # Of nearest images, as in a molecule.
        alone = (1.0 - factor) * matrix_of(r[[i, j]], widths[[i, j]], None)[0, 1]
        matrix[[i, j], [j, i]] -= alone
    want, lowest = solved(matrix, chi - r @ FIELD)
    given = {**CONSTRAINED, "accuracy": 1e-13, "energy_reduction": "system", "exclusions": (pairs, factors)}
    q, energy = mn.qeq(r, chi, eta, widths, cell, TOTALS, **given)
    np.testing.assert_allclose(q, want, rtol=0, atol=1e-11)
    np.testing.assert_allclose(energy, lowest, rtol=0, atol=1e-11)


@pytest.mark.parametrize("cell", [None, CELL], ids=["molecule", "crystal"])
def test_derivatives_by_factors(cell: Any) -> None:
    r, _, widths, chi, eta = atoms(11)
    pairs, weight = np.array([[0, 1], [3, 2]], np.int32), np.random.default_rng(6).normal(size=ATOMS)

    def value(space: Any, make: Any, r: Any, factors: Any) -> Any:
        fixed = [make(x) for x in (chi, eta, widths)] + [None if cell is None else make(cell)]
        q, energy = space.qeq(r, *fixed, exclusions=(make(pairs), factors), accuracy=1e-12)
        return (q * make(weight)).sum() + energy.sum()

    check_derivatives(value, [r, np.array([0.2, 0.4])])


def test_derivatives() -> None:
    r, _, widths, chi, eta = atoms(5)
    arrays = [r, chi, eta, TOTALS, HELD_CHARGES, FIELD]
    weight = np.random.default_rng(6).normal(size=ATOMS)

    def value(space: Any, make: Any, r: Any, chi: Any, eta: Any, totals: Any, held: Any, field: Any) -> Any:
        constrained = {"molecule_idx": make(MOLECULES), "held_atoms": make(HELD), "held_charges": held}
        q, energy = space.qeq(r, chi, eta, make(widths), None, totals, external_field=field, **constrained)
        return (q * make(weight)).sum() + energy.sum()

    check_derivatives(value, arrays)


def test_batches() -> None:
    """Molecules of two systems, a field for each."""
    each, fields = [atoms(seed) for seed in (6, 7)], np.array([FIELD, -2.0 * FIELD])
    r, _, widths, chi, eta = (np.concatenate([x[n] for x in each]) for n in range(5))
    given: dict[str, Any] = {"accuracy": 1e-12, "energy_reduction": "system"}
    q, energies = mn.qeq(
        r,
        chi,
        eta,
        widths,
        np.stack([CELL, 1.2 * CELL]),
        np.concatenate([TOTALS, [0.1]]),
        molecule_idx=np.concatenate([MOLECULES, np.full(ATOMS, 2)]).astype(np.int32),
        held_atoms=[1, 9],
        held_charges=[0.2, 0.3],
        external_field=fields,
        batch_idx=np.repeat([0, 1], ATOMS).astype(np.int32),
        **given,
    )
    first = {"molecule_idx": MOLECULES, "total_charge": TOTALS, "held_charges": [0.2]}
    for b, (own, cell) in enumerate(((first, CELL), ({"total_charge": 0.1, "held_charges": [0.3]}, 1.2 * CELL))):
        x, _, w, one, two = each[b]
        alone, energy = mn.qeq(x, one, two, w, cell, held_atoms=[1], external_field=fields[b], **own, **given)
        np.testing.assert_allclose(q[b * ATOMS : (b + 1) * ATOMS], alone, rtol=0, atol=1e-11)
        np.testing.assert_allclose(energies[b], energy[0], rtol=0, atol=1e-11)


class Counted:
    """The search for charges, which counts the sums that it asks for."""

    made: ClassVar[list[Counted]] = []
    search = _native.LeastCharges

    def __init__(self, *arguments: Any) -> None:
        self.own, self.sums = Counted.search(*arguments), 0
        self.made.append(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def answered(self, image: Any) -> None:
        self.sums += 1
        self.own.answered(image)


def test_a_start_near_the_minimum_saves_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    r, _, widths, chi, eta = atoms(8)
    given: dict[str, Any] = {"accuracy": 1e-12, "held_atoms": [0], "held_charges": [0.2]}
    q = mn.qeq(r, chi, eta, widths, CELL, 0.3, **given)[0]
    monkeypatch.setattr(_native, "LeastCharges", Counted)
    for start in (None, q + 1e-10 * np.sin(np.arange(ATOMS)), q):
        mn.qeq(r, chi, eta, widths, CELL, 0.3, initial_charges=start, **given)
    cold, near, at = (found.sums for found in Counted.made)
    assert cold > near > at and at <= 2


@pytest.mark.parametrize(
    ("message", "given"),
    [
        (
            "`molecule_idx`: expected numbers below 8 from 0 up, .*, got -1 of atom 1",
            {"molecule_idx": [0, -1, *[0] * 6]},
        ),
        ("`held_atoms`: expected atoms below 8, each once, got 8", {"held_atoms": [1, 8], "held_charges": [0.0, 0.0]}),
        ("`held_atoms`: expected atoms below 8, each once, got 1", {"held_atoms": [1, 1], "held_charges": [0.0, 0.0]}),
        ("`held_charges`: expected charges of `held_atoms`, both or neither", {"held_atoms": [1]}),
        (r"`held_charges`: expected shape \(1,\), got \(2,\)", {"held_atoms": [1], "held_charges": [0.1, 0.2]}),
        (
            "`total_charge`: expected the sum of the charges of molecule 1, which are all held, got",
            {"molecule_idx": [0] * 7 + [1], "held_atoms": [7], "held_charges": [0.5], "total_charge": np.zeros(2)},
        ),
        (r"`external_field`: expected shape \(3,\) or shape \(1, 3\)", {"external_field": np.zeros(2)}),
    ],
)
def test_errors(message: str, given: dict[str, Any]) -> None:
    r, _, widths, chi, eta = atoms(9)
    given = {k: np.array(v, np.int32) if k in ("molecule_idx", "held_atoms") else v for k, v in given.items()}
    with pytest.raises(ValueError, match=message):
        mn.qeq(r, chi, eta, widths, CELL, **given)
