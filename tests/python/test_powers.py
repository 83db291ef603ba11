"""Sums of inverse powers of the distance against direct lattice sums, for every exponent, and their parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import required
from differences import check_jax, check_torch

EVERYTHING = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}
CELL = np.array([[5.0, 0.2, -0.5], [0.9, 4.8, 0.2], [-0.3, 1.2, 5.5]])
SPLIT = {"alpha": 1.15, "cutoff": 6.0, "k_cutoff": 14.0, "accuracy": None}
"""αr_c = 6.9 and k_c/2α = 6.1: exp(−x²) is below 1e-16."""


def atoms(seed: int, exponent: int, number: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Atoms apart from each other, with coefficients that have a sum where the sum of the exponent has a limit then."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(*[np.arange(2) / 2] * 3), -1).reshape(-1, 3)[:number]
    q = rng.normal(size=number) + 0.3
    return (grid + rng.uniform(-0.12, 0.12, grid.shape)) @ CELL, q if exponent > 3 else q - q.mean()


def lattice_sum(r: np.ndarray, q: np.ndarray, cell: np.ndarray, exponent: int) -> np.ndarray:
    """Energies by sums over (2n + 1)³ images, whose rest is a series in n + ½ (Euler–Maclaurin), powers 2 apart."""
    reach = np.array([2, 3, 4, 5, 6, 7, 8])
    steps = np.stack(np.meshgrid(*[np.arange(-reach[-1], reach[-1] + 1)] * 3, indexing="ij"), -1).reshape(-1, 3)
    shell, images = np.abs(steps).max(1), steps @ cell
    potentials = np.zeros((len(reach), len(q)))
    for i in range(len(q)):
        d = np.linalg.norm(r[None] - r[i] + images[:, None], axis=-1)
        with np.errstate(divide="ignore"):
            each = np.where(d > 0.0, d, np.inf) ** -exponent @ q
        by_shell = np.bincount(shell, each)
        potentials[:, i] = np.cumsum(by_shell)[reach]
    # Of a neutral cell the leading term is that of dipoles, whose moments are two powers lower.
    first = exponent - 3 if abs(q.sum()) > 1e-12 else exponent - 1
    powers = first + 2.0 * np.arange(len(reach) - 1)
    columns = [np.ones(len(reach)), *((reach + 0.5) ** -power for power in powers)]
    return 0.5 * q * np.linalg.solve(np.stack(columns, 1), potentials)[0]


@pytest.mark.parametrize("exponent", [2, 3, 4, 5, 6])
def test_against_lattice_sums(exponent: int) -> None:
    r, q = atoms(1, exponent)
    expected = lattice_sum(r, q, CELL, exponent)
    scale = np.abs(expected).max()
    found = mn.ewald_summation(r, q, CELL, **SPLIT, exponent=exponent)
    assert np.abs(found - expected).max() < 1e-8 * scale
    # The result does not depend on the splitting, and parts and mesh add up to it.
    other = mn.ewald_summation(r, q, CELL, 0.95, cutoff=7.2, k_cutoff=12.0, accuracy=None, exponent=exponent)
    assert np.abs(found - other).max() < 1e-12 * scale
    real = mn.ewald_real_space(r, q, CELL, 1.15, cutoff=6.0, exponent=exponent)
    waves = mn.ewald_reciprocal_space(r, q, CELL, 1.15, 14.0, exponent=exponent)
    assert np.abs(real + waves - found).max() < 1e-13 * scale
    mesh: dict[str, Any] = {"mesh_dimensions": (54, 54, 54), "spline_order": 8, "exponent": exponent}
    assert np.abs(mn.pme_reciprocal_space(r, q, CELL, 1.15, **mesh) - waves).max() < 1e-8 * scale
    on_mesh = mn.particle_mesh_ewald(r, q, CELL, 1.15, cutoff=6.0, **mesh, accuracy=None)
    assert np.abs(on_mesh - found).max() < 1e-8 * scale


@pytest.mark.parametrize("exponent", [2, 3, 4, 5, 6])
def test_first_derivatives(exponent: int) -> None:
    """Forces, potentials and virial against differences of the energy."""
    r, q = atoms(2, exponent)
    given: dict[str, Any] = {**SPLIT, "exponent": exponent}

    def energy(r: np.ndarray, q: np.ndarray, h: np.ndarray) -> float:
        return float(mn.ewald_summation(r, q, h, **given).sum())

    _, forces, potentials, virial = mn.ewald_summation(r, q, CELL, **given, **EVERYTHING)
    rng, h, one = np.random.default_rng(3), 1e-3, np.eye(3)
    u, w, e = rng.normal(size=r.shape), rng.normal(size=q.shape), rng.normal(size=(3, 3))
    w -= w.mean()
    for slope, change in (
        (-(forces * u).sum(), lambda t: (r + t * u, q, CELL)),
        (potentials @ w, lambda t: (r, q + t * w, CELL)),
        (-(virial * e).sum(), lambda t: (r @ (one + t * e), q, CELL @ (one + t * e))),
    ):
        f = [energy(*change(n * h)) for n in (-2, -1, 1, 2)]
        assert abs((f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h) - slope) < 1e-8 * np.abs(slope).max() + 1e-9


def test_the_constants_of_lattices() -> None:
    """Sums of r⁻⁶ over the simple and the face-centred cubic lattice, in units of the nearest neighbours' distance
    (Jones and Ingham, Proc. R. Soc. Lond. A 107, 636 (1925))."""
    fcc = np.array([[0.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [0.5, 0.5, 0.0]])
    for sites, side, constant in ((np.zeros((1, 3)), 1.0, 8.4019), (fcc, np.sqrt(2.0), 14.4539)):
        one = np.ones(len(sites))
        found = mn.ewald_summation(side * sites, one, side * np.eye(3), exponent=6, accuracy=1e-10).sum()
        assert abs(2.0 * found / len(sites) - constant) < 5e-5


@pytest.mark.parametrize("exponent", [2, 4, 5, 6])
def test_one_and_the_open_sum(exponent: int) -> None:
    r, q = atoms(4, 6)
    d = np.linalg.norm(r[None] - r[:, None], axis=-1)
    np.fill_diagonal(d, np.inf)
    expected = 0.5 * q * (q / d**exponent).sum(1)
    for found in (mn.coulomb(r, q, exponent=exponent), mn.ewald_summation(r, q, None, exponent=exponent)):
        assert np.abs(found - expected).max() < 2e-14 * np.abs(expected).max()
    with_one = mn.ewald_summation(r, q, CELL, **SPLIT, exponent=1)
    assert np.array_equal(with_one, mn.ewald_summation(r, q, CELL, **SPLIT))


@pytest.mark.parametrize("exponent", [2, 3, 4, 5, 6])
def test_exclusions(exponent: int) -> None:
    """Pairs are taken out as they were put in, near and far, and on one point."""
    r, q = atoms(5, exponent)
    pairs, factors = np.array([[0, 1], [2, 5], [7, 3]], np.int32), np.array([0.0, 0.4, 0.0])
    r[1] = r[0] + [0.05, 0.0, 0.03]
    given: dict[str, Any] = {**SPLIT, "exponent": exponent}
    images = np.stack(np.meshgrid(*[np.arange(-1, 2)] * 3), -1).reshape(-1, 3) @ CELL
    taken = 0.0
    for (i, j), f in zip(pairs, factors):
        taken += (1.0 - f) * q[i] * q[j] * np.linalg.norm(r[j] - r[i] + images, axis=1).min() ** -exponent
    whole = mn.ewald_summation(r, q, CELL, **given).sum()
    rest = mn.ewald_summation(r, q, CELL, **given, exclusions=(pairs, factors)).sum()
    assert abs(whole - rest - taken) < 1e-12 * abs(taken)
    r[1] = r[0]
    splits = [mn.ewald_summation(r, q, CELL, **{**given, "alpha": a}, exclusions=pairs) for a in (1.1, 1.15)]
    assert np.abs(splits[0] - splits[1]).max() < 1e-11 * np.abs(splits[0]).max()


@pytest.mark.parametrize("exponent", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("accuracy", [1e-3, 1e-6])
def test_the_accuracy_is_kept(exponent: int, accuracy: float) -> None:
    """The RMS force error of random systems, in units of q²_rms/(V/N)^((p+1)/3), is below the target."""
    rng = np.random.default_rng(6)
    number, side = 60, 12.0
    r = rng.uniform(0.0, side, (number, 3))
    q = rng.normal(size=number)
    q = q if exponent > 3 else q - q.mean()
    h = side * np.eye(3)
    unit = (q @ q) / number / (side**3 / number) ** ((exponent + 1) / 3)
    exact = mn.ewald_summation(r, q, h, accuracy=1e-12, exponent=exponent, compute_forces=True)[1]
    p = mn.estimate_ewald_parameters(r, q, h, accuracy, exponent=exponent)
    # Half of the square for each of both sums, which are chosen for 1/1.4 and 1/4 of their targets.
    assert 0.53 * accuracy < p.predicted_force_error < 0.54 * accuracy
    for name, sums in (("ewald", mn.ewald_summation), ("pme", mn.particle_mesh_ewald)):
        forces = sums(r, q, h, accuracy=accuracy, exponent=exponent, compute_forces=True)[1]
        error = np.sqrt(((forces - exact) ** 2).sum(1).mean()) / unit / accuracy
        print(f"p = {exponent}, {accuracy:g}, {name}: {error:.2f} of the target")
        assert error < 1.0


@pytest.mark.parametrize("exponent", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("x", [1.2, 1.4, 2.0, 3.0])
def test_predicted_errors_of_given_parameters(exponent: int, x: float) -> None:
    """Measured errors of cutoffs at αr_c = x, where the first term of an expansion in 1/x is up to five times too low.

    They are no more than 1.1 times the prediction (500 random charges scatter by 5 %), and at least 0.6 of it."""
    rng = np.random.default_rng(13)
    number, side, alpha = 500, 16.0, 0.5
    r, q, h = rng.uniform(0.0, side, (number, 3)), rng.normal(size=number), side * np.eye(3)
    q = q if exponent > 3 else q - q.mean()
    unit = (q @ q) / number / (side**3 / number) ** ((exponent + 1) / 3)
    given: dict[str, Any] = {"alpha": alpha, "k_cutoff": 7.0, "accuracy": None, "exponent": exponent}
    exact, found = (
        mn.ewald_summation(r, q, h, cutoff=cutoff, **given, compute_forces=True)[1] for cutoff in (13.0, x / alpha)
    )
    error = np.sqrt(((found - exact) ** 2).sum(1).mean()) / unit
    predicted = mn.estimate_ewald_parameters(
        r, q, h, None, x / alpha, **{k: given[k] for k in given if k != "accuracy"}
    )
    print(f"p = {exponent}, x = {x}: {error / predicted.predicted_force_error:.2f}")
    assert 0.6 < error / predicted.predicted_force_error < 1.1


def test_given_parameters_are_judged_by_their_own_power() -> None:
    """Cutoffs at which a sum of 1/r has an error above the target, and one of 1/r⁶ has not."""
    r, q = atoms(12, 6)
    given = {"alpha": 0.1, "cutoff": 20.0, "k_cutoff": 2.0}
    error = mn.estimate_ewald_parameters(r, q, CELL, None, exponent=6, **given).predicted_force_error
    assert error < 1e-4 < mn.estimate_ewald_parameters(r, q, CELL, None, **given).predicted_force_error
    exact, found = (
        mn.ewald_summation(r, q, CELL, exponent=6, **x) for x in ({"accuracy": 1e-12}, given | {"accuracy": 1e-4})
    )
    assert np.abs(found - exact).max() < 1e-4 * np.abs(exact).max()


def test_coefficients_of_lorentz_and_berthelot() -> None:
    rng = np.random.default_rng(7)
    r, _ = atoms(8, 6)
    sigma, epsilon = rng.uniform(2.5, 4.0, len(r)), rng.uniform(0.1, 1.0, len(r))
    coefficients, signs = mn.dispersion_coefficients(sigma, epsilon)
    c6 = 4.0 * np.sqrt(epsilon[:, None] * epsilon) * (0.5 * (sigma[:, None] + sigma)) ** 6
    assert coefficients.shape == (len(r), 7) and sorted(signs.tolist()) == [-1.0] * 3 + [1.0] * 4
    assert np.abs((coefficients * signs) @ coefficients.T - c6).max() < 1e-13 * c6.max()
    energies, forces = mn.ewald_summation(r, coefficients, CELL, **SPLIT, exponent=6, compute_forces=True)
    images = np.stack(np.meshgrid(*[np.arange(-9, 10)] * 3), -1).reshape(-1, 3) @ CELL
    total = 0.0
    for i in range(len(r)):
        d = np.linalg.norm(r[None] - r[i] + images[:, None], axis=-1)
        total += 0.5 * (c6[i] * np.where((d > 0.0) & (d < 40.0), d, np.inf) ** -6.0).sum()
    # Beyond 40 the sum is an integral but for the roughness of the sphere: its part is 4π/3 ρ/40³ of 1.
    total += 0.5 * c6.sum() * 4.0 * np.pi / 3.0 / 40.0**3 / abs(np.linalg.det(CELL))
    assert abs((energies @ signs).sum() - total) < 1e-5 * total
    summed = np.einsum("ncx,c->nx", forces, signs)
    step = np.zeros_like(r)
    step[3, 1] = 1e-3
    ends = [(mn.ewald_summation(r + s * step, coefficients, CELL, **SPLIT, exponent=6) @ signs).sum() for s in (-1, 1)]
    assert abs((ends[0] - ends[1]) / 2e-3 - summed[3, 1]) < 1e-4 * np.abs(summed).max()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"exponent": 7}, "`exponent`: expected 1 to 6, got 7"),
        ({"exponent": 0}, "`exponent`: expected 1 to 6, got 0"),
        ({"exponent": 3}, "`charges`: expected a sum of zero with `exponent=3`"),
        ({"exponent": 6, "pbc": [True, True, False], "slab_correction": True}, "`exponent`: expected 1 with slabs"),
        ({"exponent": 6, "pbc": [True, False, False]}, "`exponent`: expected 1 with slabs and wires"),
        (
            {"exponent": 6, "alpha": 1.0, "cutoff": 2.0, "accuracy": 1e-6},
            "`cutoff`: expected at least .* with the exponent 6",
        ),
        ({"exponent": 6, "alpha": 9.0, "accuracy": 1e-14}, "`accuracy`: expected at least .* with the exponent 6"),
    ],
)
def test_bad_input(given: dict[str, Any], message: str) -> None:
    r, q = atoms(9, 6)
    with pytest.raises(ValueError, match=message):
        mn.ewald_summation(r, q, CELL, **given)


def test_torch() -> None:
    torch, mt = required("torch"), required("madelung.torch")
    r, q = atoms(10, 6)
    lists = mn.neighbor_list(r, 6.0, CELL)
    pairs = dict(zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), map(torch.tensor, lists)))
    arrays = [torch.tensor(x) for x in (r, q, CELL)]
    given: dict[str, Any] = {**SPLIT, "exponent": 6}
    expected = mn.ewald_summation(r, q, CELL, **given, **EVERYTHING)
    for a, b in zip(mt.ewald_summation(*arrays, **given, **EVERYTHING), expected):
        assert np.array_equal(a.numpy(), b)
    check_torch(lambda r, q, h: mt.ewald_summation(r, q, h, **given, **pairs), arrays)


def test_jax() -> None:
    jax, mj = required("jax"), required("madelung.jax")
    r, q = atoms(10, 6)
    with jax.enable_x64(True):
        arrays = [jax.numpy.asarray(x) for x in (r, q, CELL)]
        lists = mj.find_neighbors(arrays[0], 6.0, arrays[2])
        waves, _ = mj.generate_miller_indices(arrays[2], 14.0)
        given: dict[str, Any] = {"alpha": 1.15, "cutoff": 6.0, "neighbors": lists, "miller_indices": waves}
        check_jax(lambda r, q: mj.ewald_summation(r, q, CELL, **given, exponent=4), arrays[:2])
