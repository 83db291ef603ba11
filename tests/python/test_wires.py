"""Charges that are periodic along one axis, against direct sums over images and closed forms, in every namespace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import required
from differences import check_jax, check_torch
from wires import gaussians, points, potentials

EVERYTHING = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}
CELL = np.array([[8.0, 0.0, 0.0], [1.0, 8.0, 0.0], [0.0, 0.5, 8.0]])
AXIS = np.array([1.3, -2.0, 2.9])
"""Of a wire that lies along no axis of coordinates."""
WIRE = np.stack([np.zeros(3), AXIS, np.zeros(3)])
ALONG = [False, True, False]


def wire(seed: int, atoms: int, size: float, charge: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Charges at random places, some of them periods away, with a net charge."""
    rng = np.random.default_rng(seed)
    q = rng.normal(size=atoms)
    r = rng.uniform(0.0, size, (atoms, 3)) + rng.integers(-3, 4, (atoms, 1)) * AXIS
    return r, q + charge / atoms - q.mean()


def direct(r: np.ndarray, q: np.ndarray, axis: np.ndarray, pair: Any = points) -> np.ndarray:
    """Energies by direct sums."""
    return 0.5 * q * (potentials(r, axis, pair) @ q)


@pytest.mark.parametrize("sums", [mn.ewald_summation, mn.particle_mesh_ewald])
@pytest.mark.parametrize("charge", [0.0, 1.5])
def test_wires_against_direct_sums(sums: Any, charge: float) -> None:
    r, q = wire(1, 9, 6.0, charge)
    expected = direct(r, q, AXIS)
    found, forces, potentials, virial = sums(r, q, WIRE, pbc=ALONG, **EVERYTHING)
    assert np.abs(found - expected).max() < 1e-12 * np.abs(expected).max()
    assert abs(potentials @ q - 2 * expected.sum()) < 1e-12 * np.abs(expected).sum()
    rng, h, one = np.random.default_rng(2), 1e-2, np.eye(3)
    u, w, e = rng.normal(size=r.shape), rng.normal(size=q.shape), 0.1 * rng.normal(size=(3, 3))
    for slope, change in (
        (-(forces * u).sum(), lambda t: (r + t * u, q, AXIS)),
        (potentials @ w, lambda t: (r, q + t * w, AXIS)),
        (-(virial * e).sum(), lambda t: (r @ (one + t * e), q, AXIS @ (one + t * e))),
    ):
        f = [direct(*change(n * h)).sum() for n in (-2, -1, 1, 2)]
        assert abs((f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h) - slope) < 1e-6 * np.abs(expected).sum()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_constant_of_a_chain(axis: int, dtype: Any) -> None:
    """Alternating charges at distances a have the energy −2 ln 2/a an ion pair."""
    for direction in (np.eye(3)[axis], AXIS):
        cell = np.zeros((3, 3), dtype)
        cell[axis] = 2.0 * 1.7 * direction / np.linalg.norm(direction)
        r = np.array([[0.1, 0.2, 0.3]], dtype) + np.array([[0.0], [0.5]], dtype) * cell[axis]
        pbc = [k == axis for k in range(3)]
        found = mn.ewald_summation(r, np.array([1.0, -1.0], dtype), cell, pbc=pbc, energy_reduction="system")
        exact = -2.0 * np.log(2.0) / 1.7
        assert found.dtype == dtype and abs(found[0] - exact) < (1e-14 if dtype is np.float64 else 1e-6) * abs(exact)


@pytest.mark.parametrize("distance", [0.01, 1.0, 300.0])
def test_the_potential_of_a_row_of_charges(distance: float) -> None:
    """A row of unit charges has the potential 2[γ − ln 2]/L on its own places and, by its sum over waves (Bessel
    functions), −(2/L) ln(ρ/L) and 4/L Σ K₀(2πmρ/L) at the distance ρ."""
    special = required("scipy.special")
    period = 2.5
    r, q = np.array([[0.0, 0.0, 0.0], [distance, 0.0, 0.3]]), np.array([1.0, 1e-3])
    pbc = [False, False, True]
    potentials = mn.ewald_summation(r, q, period * np.eye(3), pbc=pbc, compute_charge_gradients=True)[1]
    own = 2.0 / period * (np.euler_gamma - np.log(2.0))
    m = np.arange(1, int(40 * period / (2 * np.pi * distance)) + 2)
    waves = 4.0 * (special.k0(2 * np.pi * m * distance / period) * np.cos(2 * np.pi * m * 0.3 / period)).sum()
    line = (waves - 2.0 * np.log(distance / period)) / period
    for found, exact in ((potentials[0], own + 1e-3 * line), (potentials[1], line + 1e-3 * own)):
        assert abs(found - exact) < 3e-13 * max(1.0, abs(exact))


AXES = [[True] * 3, [False, True, False], [False] * 3, [True, True, False]]


def mixed() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A crystal, a wire, a molecule and a slab, each with a net charge."""
    rng = np.random.default_rng(3)
    sizes = [16, 9, 12, 10]
    r = [rng.uniform(0.0, size, (n, 3)) for n, size in zip(sizes, (8.0, 6.0, 5.0, 4.0))]
    q = [rng.normal(size=n) for n in sizes]
    cells = np.stack([CELL, WIRE, np.zeros((3, 3)), np.diag([5.0, 5.5, 24.0])])
    return np.concatenate(r), np.concatenate(q), cells, np.repeat(np.arange(4, dtype=np.int32), sizes)


@pytest.mark.parametrize("method", ["ewald", "pme"])
def test_a_mixed_batch_is_its_systems(method: str) -> None:
    r, q, cells, idx = mixed()
    sums, given = mn.ewald_summation, {"accuracy": 1e-9, **EVERYTHING}
    if method == "pme":
        sums, given = mn.particle_mesh_ewald, {"accuracy": 1e-5, "mesh_dimensions": (32, 32, 128), **EVERYTHING}
    both = sums(r, q, cells, pbc=AXES, slab_correction=True, batch_idx=idx, **given)
    for b in range(4):
        of = idx == b
        alone = sums(r[of], q[of], cells[b], pbc=AXES[b], slab_correction=b == 3, **given)
        for n, x in enumerate(alone):
            found = both[n][b] if n == 3 else both[n][of]
            assert np.abs(found - x).max() <= 1e-15 * np.abs(x).max()


def test_lists_do_not_count_for_wires() -> None:
    """A list of the batch may have the pairs of its wires, whose sum needs none."""
    r, q, cells, idx = mixed()
    few = idx < 2
    r, q, idx = r[few], q[few], idx[few]
    cells = np.stack([CELL, np.stack([9.0 * np.eye(3)[0], AXIS, 9.0 * np.eye(3)[2]])])
    given: dict[str, Any] = {"pbc": AXES[:2], "batch_idx": idx, "accuracy": 1e-8}
    expected = mn.ewald_summation(r, q, cells, cutoff=5.0, **given)
    pairs, ptr, shifts = mn.neighbor_list(r, 5.0, cells, AXES[:2], idx)
    lists = {"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts}
    assert (np.diff(ptr)[idx == 1] > 0).any()
    found = mn.ewald_summation(r, q, cells, cutoff=5.0, **lists, **given)
    assert np.abs(found - expected).max() < 1e-13 * np.abs(expected).max()


PAIRS = np.array([[1, 0], [4, 5], [7, 2], [8, 3]], np.int32)
FACTORS = np.array([0.0, 0.3, 0.5, 0.0])
WITH_EXCLUSIONS = [mn.ewald_summation, mn.particle_mesh_ewald]


def excluding(pairs: np.ndarray, factors: np.ndarray, images: np.ndarray) -> Any:
    """1/r, of some pairs with one image times their factors."""

    def pair(x: np.ndarray, image: np.ndarray) -> np.ndarray:
        found = points(x, image)
        for (i, j), f, n in zip(pairs, factors, images):
            for a, b, m in ((i, j, n), (j, i, -n)):
                found[a, b] = f * found[a, b] if image[a, b] == m else found[a, b]
        return found

    return pair


def nearest(r: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    return -np.rint((r[pairs[:, 1]] - r[pairs[:, 0]]) @ AXIS / (AXIS @ AXIS))


@pytest.mark.parametrize("sums", WITH_EXCLUSIONS)
@pytest.mark.parametrize("charge", [0.0, 1.5])
def test_exclusions_against_direct_sums(sums: Any, charge: float) -> None:
    """A pair that is left out and a thousandth of a period apart included: its energy is subtracted nowhere."""
    r, q = wire(4, 9, 6.0, charge)
    r[1] = r[0] + [1e-3, 2e-3, -2e-3] + 2 * AXIS
    pair = excluding(PAIRS, FACTORS, nearest(r, PAIRS))
    given: dict[str, Any] = {"pbc": ALONG, "exclusions": (PAIRS, FACTORS)}
    expected = direct(r, q, AXIS, pair)
    found, forces, gradients, virial = sums(r, q, WIRE, **given, **EVERYTHING)
    assert np.abs(found - expected).max() < 1e-12 * np.abs(expected).max()
    assert abs(gradients @ q - 2 * expected.sum()) < 1e-12 * np.abs(expected).sum()
    rng, h, one = np.random.default_rng(5), 1e-2, np.eye(3)
    u, e = rng.normal(size=r.shape), 0.1 * rng.normal(size=(3, 3))
    for slope, change in (
        (-(forces * u).sum(), lambda t: (r + t * u, q, AXIS)),
        (-(virial * e).sum(), lambda t: (r @ (one + t * e), q, AXIS @ (one + t * e))),
    ):
        f = [direct(*change(n * h), pair).sum() for n in (-2, -1, 1, 2)]
        assert abs((f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h) - slope) < 1e-6 * np.abs(expected).sum()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_left_out_charges_on_one_point(dtype: Any) -> None:
    r, q = wire(6, 9, 6.0, 0.7)
    r[1], r[5] = r[0] + AXIS, r[4]
    pairs = np.array([[1, 0], [4, 5]], np.int32)
    arrays = [x.astype(dtype) for x in (r, q, WIRE)]
    found, forces = mn.ewald_summation(*arrays, pbc=ALONG, exclusions=pairs, compute_forces=True)
    expected = direct(r, q, AXIS, excluding(pairs, np.zeros(2), nearest(r, pairs)))
    bound = 1e-12 if dtype is np.float64 else 1e-5
    assert np.abs(found - expected).max() < bound * np.abs(expected).max()
    assert np.isfinite(forces).all() and np.abs(forces.sum(0)).max() < bound * np.abs(forces).max()
    with pytest.raises(ValueError, match="no two atoms on one point, got atoms"):
        mn.ewald_summation(*arrays, pbc=ALONG, exclusions=pairs[:1])
    with pytest.raises(ValueError, match="no two atoms on one point|finite"):
        mn.ewald_summation(*arrays, pbc=ALONG, exclusions=(pairs, np.array([0.0, 0.5], dtype)))


def test_images_of_exclusions() -> None:
    """Also of a charge with itself, of one pair twice, and far away."""
    r, q = wire(7, 9, 6.0, 0.4)
    pairs = np.array([[3, 3], [8, 6], [8, 6], [2, 5]], np.int32)
    along = np.array([1, -2, 0, 14], np.int32)
    images = along[:, None] * np.array([0, 1, 0], np.int32)
    found = mn.ewald_summation(r, q, WIRE, pbc=ALONG, exclusions=(pairs, None, images))
    expected = direct(r, q, AXIS, excluding(pairs, np.zeros(4), along))
    assert np.abs(found - expected).max() < 1e-12 * np.abs(expected).max()
    with pytest.raises(ValueError, match="images along periodic axes"):
        mn.ewald_summation(r, q, WIRE, pbc=ALONG, exclusions=(pairs, None, images[:, ::-1] + [1, 0, 0]))


@pytest.mark.parametrize("reach", [0.7, 1.5, 30.0])
@pytest.mark.parametrize("form", ["rows", "coo"])
def test_exclusions_with_a_list(reach: float, form: str) -> None:
    """Of pairs closer than half a period, or less: the splitting follows."""
    r, q = wire(8, 9, 6.0, 0.4)
    r[1] = r[0] + [0.0, 0.1, 0.0]
    given: dict[str, Any] = {"pbc": ALONG, "exclusions": (PAIRS, FACTORS), **EVERYTHING}
    expected = mn.ewald_summation(r, q, WIRE, **given)
    if form == "rows":
        lists: dict[str, Any] = {"neighbors": mn.find_neighbors(r, reach, WIRE, ALONG)}
    else:
        pairs, ptr, shifts = mn.neighbor_list(r, reach, WIRE, ALONG)
        lists = {"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts, "cutoff": reach}
    for sums in WITH_EXCLUSIONS:
        for found, want in zip(sums(r, q, WIRE, **lists, **given), expected):
            assert np.abs(found - want).max() < 1e-12 * np.abs(want).max()


@pytest.mark.parametrize("method", ["ewald", "pme"])
def test_exclusions_of_a_mixed_batch_are_those_of_its_systems(method: str) -> None:
    r, q, cells, idx = mixed()
    starts = np.flatnonzero(np.diff(idx, prepend=-1)).astype(np.int32)
    own = np.array([[1, 0], [2, 5], [7, 6]], np.int32)
    pairs, factors = np.concatenate([own + start for start in starts]), np.tile([0.0, 0.5, 0.2], 4)
    sums, given = mn.ewald_summation, {"accuracy": 1e-9, **EVERYTHING}
    if method == "pme":
        sums, given = mn.particle_mesh_ewald, {"accuracy": 1e-5, "mesh_dimensions": (32, 32, 128), **EVERYTHING}
    boundary: dict[str, Any] = {"pbc": AXES, "slab_correction": True}
    both = sums(r, q, cells, **boundary, batch_idx=idx, exclusions=(pairs, factors), **given)
    for b in range(4):
        of = idx == b
        boundary = {"pbc": AXES[b], "slab_correction": b == 3}
        alone = sums(r[of], q[of], cells[b], **boundary, exclusions=(own, factors[:3]), **given)
        for n, x in enumerate(alone):
            found = both[n][b] if n == 3 else both[n][of]
            assert np.abs(found - x).max() <= 1e-15 * np.abs(x).max()


@pytest.mark.parametrize("sums", WITH_EXCLUSIONS)
def test_gaussian_charges_against_direct_sums(sums: Any) -> None:
    r, q = wire(9, 9, 6.0, 0.8)
    widths = np.random.default_rng(10).uniform(0.3, 0.8, 9)
    expected = direct(r, q, AXIS, gaussians(widths))
    found, forces = sums(r, q, WIRE, pbc=ALONG, widths=widths, compute_forces=True)
    assert np.abs(found - expected).max() < 1e-12 * np.abs(expected).max()
    u, h = np.random.default_rng(11).normal(size=r.shape), 1e-2
    f = [direct(r + n * h * u, q, AXIS, gaussians(widths)).sum() for n in (-2, -1, 1, 2)]
    slope = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
    assert abs(slope + (forces * u).sum()) < 1e-6 * np.abs(expected).sum()
    # Beside a crystal, with the same bits.
    box, idx = np.random.default_rng(12).uniform(0.0, 8.0, (9, 3)), np.repeat(np.arange(2, dtype=np.int32), 9)
    both = sums(
        np.concatenate([box, r]), np.tile(q, 2), np.stack([CELL, WIRE]), pbc=AXES[:2], batch_idx=idx,
        widths=np.tile(widths, 2), compute_forces=True,
    )  # fmt: skip
    assert np.array_equal(both[0][9:], found) and np.array_equal(both[1][9:], forces)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cell": np.zeros((3, 3))}, "`cell`: expected a lattice vector along the periodic axis"),
        ({"cell": None}, "`cell`: expected lattice vectors for the periodic axes"),
        ({"exclusions": np.array([[0, 1], [1, 0]])}, "`exclusions`: expected each pair once"),
        ({"widths": np.array([0.5, -0.5])}, "`widths`: expected numbers above zero"),
        ({"exponent": 6}, "`exponent`: expected 1 with slabs and wires"),
        # Of what the call does not use.
        ({"alpha": -1.0}, "`alpha`: expected"),
        ({"cutoff": 0.0}, "`cutoff`: expected"),
        ({"k_cutoff": np.nan}, "`k_cutoff`: expected"),
        ({"accuracy": 2.0}, "`accuracy`: expected"),
        ({"neighbor_list": np.zeros((3, 2), np.int32), "cutoff": 1.0}, "`neighbor_list`: expected"),
        ({"miller_indices": np.zeros((2, 2), np.int32)}, "`miller_indices`: expected"),
        (
            {"positions": np.ones((2, 3))},
            "`positions`: expected no two atoms on one point, got atoms 0",
        ),
        ({"positions": np.full((2, 3), np.nan)}, "`positions`: expected finite"),
    ],
)
def test_bad_input(given: dict[str, Any], message: str) -> None:
    call = {"positions": np.eye(3)[:2], "charges": np.ones(2), "cell": WIRE, "pbc": ALONG, **given}
    with pytest.raises((ValueError, TypeError), match=message):
        mn.ewald_summation(**call)


def test_torch() -> None:
    torch, mt = required("torch"), required("madelung.torch")
    r, q, cells, idx = mixed()
    arrays = [torch.tensor(x) for x in (r, q, cells)]
    boundary: dict[str, Any] = {"pbc": AXES, "slab_correction": True}
    expected = mn.ewald_summation(r, q, cells, **boundary, batch_idx=idx, **EVERYTHING)
    found = mt.ewald_summation(*arrays, **boundary, batch_idx=torch.tensor(idx), **EVERYTHING)
    for a, b in zip(found, expected):
        assert np.array_equal(a.numpy(), b)
    of_wire = [torch.tensor(x) for x in (r[idx == 1], q[idx == 1], WIRE + np.diag([1.0, 0.0, 1.0]))]

    def sums(r: Any, q: Any, h: Any) -> Any:
        return mt.ewald_summation(r, q, h, pbc=ALONG)

    check_torch(sums, of_wire)
    compiled = torch.compile(sums, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*of_wire), sums(*of_wire))
    pairs, factors = torch.tensor(PAIRS.astype(np.int64)), torch.tensor(FACTORS)
    lists = {"neighbors": mt.find_neighbors(of_wire[0], 1.9, of_wire[2], ALONG), "cutoff": 1.9}

    def without(r: Any, q: Any, h: Any, factors: Any) -> Any:
        return mt.ewald_summation(r, q, h, pbc=ALONG, exclusions=(pairs, factors), **lists)

    check_torch(lambda r, q, f: without(r, q, of_wire[2], f), [*of_wire[:2], factors])
    compiled = torch.compile(without, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*of_wire, factors), without(*of_wire, factors))
    expected = mn.ewald_summation(*(x.numpy() for x in of_wire), pbc=ALONG, exclusions=(PAIRS, FACTORS))
    assert np.abs(without(*of_wire, factors).numpy() - expected).max() < 1e-12 * np.abs(expected).max()


def test_jax() -> None:
    jax, mj = required("jax"), required("madelung.jax")
    r, q, cells, idx = mixed()
    boundary: dict[str, Any] = {"pbc": AXES, "slab_correction": True, "batch_idx": idx}
    expected = mn.ewald_summation(r, q, cells, **boundary, **EVERYTHING)
    with jax.enable_x64(True):
        arrays = [jax.numpy.asarray(x) for x in (r, q, cells)]
        found = mj.ewald_summation(*arrays, **boundary, **EVERYTHING)
        for a, b in zip(found, expected):
            assert np.array_equal(np.asarray(a), b)
        of_wire = [jax.numpy.asarray(x) for x in (r[idx == 1], q[idx == 1], WIRE)]
        check_jax(lambda r, q, h: mj.ewald_summation(r, q, h, pbc=ALONG), of_wire)
        lists = {"neighbors": mj.find_neighbors(of_wire[0], 1.9, of_wire[2], ALONG), "cutoff": 1.9}

        def without(r: Any, q: Any, f: Any) -> Any:
            return mj.ewald_summation(r, q, of_wire[2], pbc=ALONG, exclusions=(PAIRS, f), **lists)

        check_jax(without, [*of_wire[:2], jax.numpy.asarray(FACTORS)])
        expected = mn.ewald_summation(*map(np.asarray, of_wire), pbc=ALONG, exclusions=(PAIRS, FACTORS))
        for of in (without, jax.jit(without)):
            found = np.asarray(of(*of_wire[:2], jax.numpy.asarray(FACTORS)))
            assert np.abs(found - expected).max() < 1e-12 * np.abs(expected).max()
