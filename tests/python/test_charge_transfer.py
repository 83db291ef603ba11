"""Charge equilibration with electronegativities of overlapping orbitals (QTPIE), against dense solutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from test_equilibration import ATOMS, CELL, atoms, dense
from test_equilibration_constraints import check_derivatives

pytestmark = pytest.mark.usefixtures("double_precision")
EXPONENTS = np.random.default_rng(0).uniform(0.2, 0.5, ATOMS)
FIELD = np.array([0.05, -0.1, 0.2])


def effective(r: np.ndarray, chi: np.ndarray, cell: Any, field: np.ndarray) -> np.ndarray:
    """Electronegativities of QTPIE, by plain loops over atoms and images."""
    n = np.arange(-5, 6) if cell is not None else np.zeros(1, int)
    images = np.stack(np.meshgrid(n, n, n), -1).reshape(-1, 3) @ (np.eye(3) if cell is None else cell)
    found = np.zeros(len(r))
    for i, a in enumerate(EXPONENTS):
        above = below = 0.0
        for j, b in enumerate(EXPONENTS):
            d = r[j] - r[i] + images
            s = (4.0 * a * b / (a + b) ** 2) ** 0.75 * np.exp(-a * b / (a + b) * (d**2).sum(1))
            above += (s * (chi[i] - chi[j] + d @ field)).sum()
            below += s.sum()
        found[i] = above / below
    return found


@pytest.mark.parametrize("field", [None, FIELD], ids=["alone", "in a field"])
@pytest.mark.parametrize("cell", [None, CELL], ids=["molecule", "crystal"])
def test_dense_solutions(cell: Any, field: Any) -> None:
    r, _, widths, chi, eta = atoms(3)
    want, lowest = dense(r, effective(r, chi, cell, np.zeros(3) if field is None else field), eta, widths, cell, 0.6)
    given = {"orbital_exponents": EXPONENTS, "external_field": field, "accuracy": 1e-13, "energy_reduction": "system"}
    q, energy = mn.qeq(r, chi, eta, widths, cell, 0.6, **given)
    np.testing.assert_allclose(q, want, rtol=0, atol=1e-11)
    np.testing.assert_allclose(energy, lowest, rtol=0, atol=1e-11)


def test_atoms_far_apart_are_neutral() -> None:
    r, _, widths, chi, eta = atoms(4)
    apart = (chi, eta, widths)
    assert np.abs(mn.qeq(1e3 * r, *apart)[0]).max() > 0.1
    np.testing.assert_allclose(mn.qeq(1e3 * r, *apart, orbital_exponents=EXPONENTS)[0], 0.0, rtol=0, atol=1e-15)


def test_a_constant_of_a_molecule_apart_changes_nothing() -> None:
    """Of two equal molecules: charge that QEq moves between them at any distance, where electronegativities differ."""
    r, _, widths, chi, eta = atoms(4)
    both, apart = np.concatenate([r, r + np.array([1e3, 0.0, 0.0])]), np.concatenate([chi, chi + 0.5])
    given = [np.concatenate([x, x]) for x in (eta, widths)]
    moved = mn.qeq(both, apart, *given)[0][:ATOMS].sum()
    q = mn.qeq(both, apart, *given, orbital_exponents=np.tile(EXPONENTS, 2))[0]
    assert abs(moved) > 0.1
    # Their dipoles are what is left: 1e-3 of a Coulomb potential at one length, cubed.
    alone = mn.qeq(r, chi, eta, widths, orbital_exponents=EXPONENTS)[0]
    np.testing.assert_allclose(q, np.tile(alone, 2), rtol=0, atol=1e-6)


@pytest.mark.parametrize("field", [None, FIELD], ids=["alone", "in a field"])
@pytest.mark.parametrize("cell", [None, CELL], ids=["molecule", "crystal"])
def test_forces_and_virials(cell: Any, field: Any) -> None:
    r, _, widths, chi, eta = atoms(5)
    given: dict[str, Any] = {"orbital_exponents": EXPONENTS, "external_field": field, "accuracy": 1e-12}
    rest = (chi, eta, widths)
    _, energies, forces, virial = mn.qeq(r, *rest, cell, compute_forces=True, compute_virial=True, **given)
    *_, of_atoms = mn.qeq(r, *rest, cell, compute_virial="atom", **given)
    np.testing.assert_allclose(of_atoms.sum(0), np.reshape(virial, (3, 3)), rtol=0, atol=1e-12)
    total = mn.qeq(r, *rest, cell, energy_reduction="system", **given)[1]
    np.testing.assert_allclose(energies.sum(), total[0], rtol=0, atol=1e-12)
    rng, h = np.random.default_rng(0), 1e-3
    moves, strain = rng.normal(size=r.shape), 0.3 * rng.normal(size=(3, 3))

    def along(t: float, u: float) -> float:
        turned = np.eye(3) + u * strain
        moved, grown = (r + t * moves) @ turned, None if cell is None else cell @ turned
        return float(mn.qeq(moved, *rest, grown, **given)[1].sum())

    for moved, analytic in ((lambda t: along(t, 0.0), forces * moves), (lambda t: along(0.0, t), virial * strain)):
        slope = (8.0 * (moved(h) - moved(-h)) - (moved(2.0 * h) - moved(-2.0 * h))) / (12.0 * h)
        np.testing.assert_allclose(-slope, analytic.sum(), rtol=0, atol=1e-8 * np.abs(analytic).sum())


def test_derivatives() -> None:
    r, _, widths, chi, eta = atoms(6)
    arrays = [r, chi, eta, EXPONENTS, FIELD]
    weight = np.random.default_rng(6).normal(size=ATOMS)

    def value(space: Any, make: Any, r: Any, chi: Any, eta: Any, exponents: Any, field: Any) -> Any:
        q, energy = space.qeq(r, chi, eta, make(widths), orbital_exponents=exponents, external_field=field)
        return (q * make(weight)).sum() + energy.sum()

    check_derivatives(value, arrays)


def test_batches() -> None:
    """A crystal and a molecule."""
    each = [atoms(seed) for seed in (6, 7)]
    r, _, widths, chi, eta = (np.concatenate([x[n] for x in each]) for n in range(5))
    given: dict[str, Any] = {"accuracy": 1e-12, "energy_reduction": "system"}
    axes = np.array([[True] * 3, [False] * 3])
    q, energies = mn.qeq(
        r, chi, eta, widths, np.stack([CELL, CELL]), np.array([0.2, -0.3]), pbc=axes,
        orbital_exponents=np.tile(EXPONENTS, 2), batch_idx=np.repeat([0, 1], ATOMS).astype(np.int32), **given,
    )  # fmt: skip
    for b, (x, _, w, one, two) in enumerate(each):
        of = {"pbc": axes[b], "orbital_exponents": EXPONENTS}
        alone, energy = mn.qeq(x, one, two, w, CELL, [0.2, -0.3][b], **of, **given)
        np.testing.assert_allclose(q[b * ATOMS : (b + 1) * ATOMS], alone, rtol=0, atol=1e-11)
        np.testing.assert_allclose(energies[b], energy[0], rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("exponents", "message"),
    [
        (np.zeros(ATOMS), "`orbital_exponents`: expected numbers above zero, got 0.0"),
        (np.ones(3), r"`orbital_exponents`: expected shape \(8,\), got \(3,\)"),
        (
            np.full(ATOMS, 1e-12),
            "`orbital_exponents`: expected orbitals that reach over fewer atoms .*, got some of 8.8",
        ),
        (np.full(ATOMS, np.nan), "`orbital_exponents`: expected finite numbers, got nan in row 0"),
    ],
)
def test_errors(exponents: np.ndarray, message: str) -> None:
    r, _, widths, chi, eta = atoms(8)
    with pytest.raises(ValueError, match=message):
        mn.qeq(r, chi, eta, widths, CELL, orbital_exponents=exponents)
