"""Charges that are periodic along one axis, against direct sums over images and closed forms, in every namespace."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import required
from differences import check_jax, check_torch

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


def summed(r: np.ndarray, q: np.ndarray, axis: np.ndarray, images: int) -> np.ndarray:
    """Energies of charges with so many images to either side, less those of line charges as long."""
    period = np.linalg.norm(axis)
    d = r[None] - r[:, None]
    d -= np.rint(d @ axis / period**2)[..., None] * axis
    potentials = np.full(len(q), -2.0 / period * np.log(2.0 * images) * q.sum())
    for n in range(-images, images + 1):
        x = np.linalg.norm(d + n * axis, axis=-1)
        x[x == 0.0] = np.inf
        potentials += (q / x).sum(1)
    return 0.5 * q * potentials


def direct(r: np.ndarray, q: np.ndarray, axis: np.ndarray) -> np.ndarray:
    """Energies by direct sums, whose rest, of powers of one over the number of images, Richardson's scheme removes."""
    table = [summed(r, q, axis, 100 * 2**k) for k in range(6)]
    for power in range(1, 6):
        table = [(2**power * b - a) / (2**power - 1) for a, b in itertools.pairwise(table)]
    return table[0]


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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cell": np.zeros((3, 3))}, "`cell`: expected a lattice vector along the periodic axis"),
        ({"cell": None}, "`cell`: expected lattice vectors for the periodic axes"),
        ({"exclusions": np.array([[0, 1]])}, "`exclusions`: expected None with a system that is periodic along one"),
        (
            {"positions": np.ones((2, 3))},
            "`positions`: expected no two atoms on one point, got atoms 0",
        ),
        ({"positions": np.full((2, 3), np.nan)}, "`positions`: expected finite"),
        ({"slab_correction": True}, "`slab_correction`: expected False without"),
    ],
)
def test_bad_input(given: dict[str, Any], message: str) -> None:
    call = {"positions": np.eye(3)[:2], "charges": np.ones(2), "cell": WIRE, "pbc": ALONG, **given}
    with pytest.raises(ValueError, match=message):
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
