"""Pairs that sums leave out or scale, against explicit subtraction of their energies."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import required
from differences import check_jax, check_torch

EVERYTHING = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}
CELL = np.array([[9.0, 0.0, 0.0], [2.0, 9.0, 0.0], [-1.0, 1.5, 9.0]])
GIVEN = {"alpha": 0.5, "k_cutoff": 9.0, "cutoff": 14.0, "accuracy": None}
PAIRS = np.array([[1, 0], [4, 5], [7, 2], [9, 3], [11, 12]], np.int32)
FACTORS = np.array([0.0, 0.3, 0.5, 1.0, 0.0])


def charges(seed: int = 0, atoms: int = 30) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Charges in a triclinic cell, the first two close to each other."""
    rng = np.random.default_rng(seed)
    r, q = rng.uniform(0.0, 9.0, (atoms, 3)), rng.normal(size=atoms)
    r[1] = r[0] + [0.3, 0.2, 0.1]
    return r, q, CELL


def nearest(r: np.ndarray, i: int, j: int) -> float:
    """The distance to the nearest image, by brute force."""
    images = (np.stack(np.meshgrid(*[np.arange(-3, 4)] * 3), -1).reshape(-1, 3)) @ CELL
    return float(np.linalg.norm(r[j] - r[i] + images, axis=1).min())


def subtracted(r: np.ndarray, q: np.ndarray) -> float:
    """The energy that the factors take away."""
    return sum((1.0 - f) * q[i] * q[j] / nearest(r, i, j) for (i, j), f in zip(PAIRS, FACTORS))


def test_factors_against_subtraction() -> None:
    r, q, h = charges()
    whole, rest = (mn.ewald_summation(r, q, h, **GIVEN, exclusions=x).sum() for x in (None, (PAIRS, FACTORS)))
    assert abs(whole - rest - subtracted(r, q)) < 1e-12 * abs(subtracted(r, q))
    # The parts add up, and the mesh has the same pairs.
    real = mn.ewald_real_space(r, q, h, 0.5, cutoff=14.0, exclusions=(PAIRS, FACTORS)).sum()
    waves = mn.ewald_reciprocal_space(r, q, h, 0.5, 9.0, exclusions=(PAIRS, FACTORS)).sum()
    assert abs(real + waves - rest) < 1e-12 * abs(rest)
    mesh = {"mesh_dimensions": (48, 48, 48), "spline_order": 8}
    on_mesh = mn.particle_mesh_ewald(r, q, h, 0.5, cutoff=14.0, **mesh, accuracy=None, exclusions=(PAIRS, FACTORS))
    assert abs(on_mesh.sum() - rest) < 1e-8 * abs(rest)
    on_mesh = mn.pme_reciprocal_space(r, q, h, 0.5, **mesh, exclusions=(PAIRS, FACTORS))
    assert abs(on_mesh.sum() - waves) < 1e-8 * abs(waves)


@pytest.mark.parametrize("name", ["ewald_summation", "particle_mesh_ewald"])
@pytest.mark.parametrize("pbc", [(True, True, True), (True, True, False), (False, False, False)])
def test_gaussian_charges_against_subtraction(name: str, pbc: tuple[bool, ...]) -> None:
    r, q, _ = charges(3)
    # A gap along the open axis of a slab; pairs are nearest images along the others.
    h = CELL.copy() if all(pbc) else np.diag([9.0, 9.0, 30.0])
    sigma, h_step = np.random.default_rng(4).uniform(0.3, 0.8, len(r)), 1e-3

    def subtracted(x: np.ndarray) -> float:
        steps = [np.arange(-2, 3) if periodic else np.zeros(1) for periodic in pbc]
        images = np.stack(np.meshgrid(*steps), -1).reshape(-1, 3) @ h
        energy = 0.0
        for (i, j), factor in zip(PAIRS, FACTORS):
            d = np.linalg.norm(x[j] - x[i] + images, axis=1).min()
            energy += (1.0 - factor) * q[i] * q[j] * math.erf(d / math.sqrt(2.0 * (sigma[i] ** 2 + sigma[j] ** 2))) / d
        return energy

    given = {"pbc": pbc, "slab_correction": True, "accuracy": 1e-9, "widths": sigma, "compute_forces": True}
    whole, rest = (getattr(mn, name)(r, q, h, **given, exclusions=x) for x in (None, (PAIRS, FACTORS)))
    want = subtracted(r)
    assert abs((whole[0] - rest[0]).sum() - want) < 1e-8 * abs(want)
    move = np.random.default_rng(5).normal(size=r.shape)
    near, far = (subtracted(r + t * move) - subtracted(r - t * move) for t in (h_step, 2.0 * h_step))
    slope = (8.0 * near - far) / (12.0 * h_step)
    assert abs(((whole[1] - rest[1]) * move).sum() + slope) < 1e-7 * np.abs((whole[1] - rest[1]) * move).sum()


@pytest.mark.parametrize("form", ["rows", "clusters"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_charges_on_one_point(form: str, dtype: Any) -> None:
    r, q, h = (x.astype(dtype) for x in charges(1))
    r[5] = r[4]
    pairs = np.array([[4, 5], [7, 2]], np.int32)
    bound = 1e-11 if dtype is np.float64 else 3e-5
    results = []
    for alpha in (0.42, 0.5):
        given = {**GIVEN, "alpha": alpha, "neighbors": mn.find_neighbors(r, 14.0, h, form=form)}
        results.append(mn.ewald_summation(r, q, h, **given, exclusions=pairs, **EVERYTHING))
    for a, b in zip(*results):
        assert np.abs(a - b).max() < bound * np.abs(b).max()
    # The pair's own part is that of two Gaussian charges on one point, 2α/√π.
    coulomb = mn.ewald_reciprocal_space(r, q, h, 0.5, 9.0).sum(dtype=np.float64)
    own = mn.ewald_reciprocal_space(r, q, h, 0.5, 9.0, exclusions=pairs[:1]).sum(dtype=np.float64)
    exact = float(q[4]) * float(q[5]) * 2 * 0.5 / np.sqrt(np.pi)
    assert abs(coulomb - own - exact) < (1e-12 if dtype is np.float64 else 1e-4) * abs(exact)
    with pytest.raises(ValueError, match="no two atoms on one point, got atoms 4 and 5"):
        mn.ewald_summation(r, q, h, **GIVEN, exclusions=pairs[1:])
    with pytest.raises(ValueError, match="no two atoms on one point|finite"):
        mn.ewald_summation(r, q, h, **GIVEN, exclusions=(pairs, np.array([0.5, 0.0], dtype)))


def test_images() -> None:
    r, q, h = charges(2)
    pairs, images = np.array([[3, 3], [8, 6]], np.int32), np.array([[1, 0, 0], [0, -2, 1]], np.int32)
    rest = mn.ewald_summation(r, q, h, **GIVEN, exclusions=(pairs, None, images)).sum()
    whole = mn.ewald_summation(r, q, h, **GIVEN).sum()
    far = np.linalg.norm(r[6] - r[8] + images[1] @ h)
    assert abs(whole - rest - q[3] ** 2 / 9.0 - q[8] * q[6] / far) < 1e-11


@pytest.mark.parametrize("sums", [mn.coulomb, mn.ewald_summation, mn.particle_mesh_ewald])
@pytest.mark.parametrize("cell", [None, CELL])
def test_open_systems(sums: Any, cell: Any) -> None:
    """Of molecules no pair has an image, whatever their cells are."""
    r, q, _ = charges(3)
    given = {"cell": cell, "pbc": False, "exclusions": (PAIRS, FACTORS)}
    found = sums(r, q, **given)
    scale = np.ones((len(r), len(r))) - np.eye(len(r))
    for (i, j), f in zip(PAIRS, FACTORS):
        scale[i, j] = scale[j, i] = f
    d = np.linalg.norm(r[None] - r[:, None], axis=-1) + np.eye(len(r))
    expected = 0.5 * q * ((scale / d) @ q)
    assert np.abs(found - expected).max() < 1e-13 * np.abs(expected).max()
    shifts = np.zeros((len(PAIRS), 3), np.int32)
    assert np.array_equal(sums(r, q, **given | {"exclusions": (PAIRS, FACTORS, shifts)}), found)
    shifts[1, 0] = 1
    with pytest.raises(ValueError, match="images along periodic axes"):
        sums(r, q, **given | {"exclusions": (PAIRS, FACTORS, shifts)})


def test_pairs_of_partly_periodic_systems() -> None:
    """Nearest images are those along periodic axes."""
    r, q, h = charges(4)
    pbc = [True, False, True]
    given: dict[str, Any] = {"cutoff": 14.0, "pbc": pbc}
    whole, rest = (mn.coulomb(r, q, h, **given, exclusions=x).sum() for x in (None, (PAIRS, FACTORS)))
    images = np.stack(np.meshgrid(*[np.arange(-3, 4) if axis else [0] for axis in pbc]), -1).reshape(-1, 3) @ h
    taken = sum(
        (1.0 - f) * q[i] * q[j] / np.linalg.norm(r[j] - r[i] + images, axis=1).min()
        for (i, j), f in zip(PAIRS, FACTORS)
    )
    assert abs(whole - rest - taken) < 1e-12 * abs(taken)


@pytest.mark.parametrize("skew", [0.0, 0.4, 3.0, 20.0])
def test_nearest_images_by_brute_force(skew: float) -> None:
    rng = np.random.default_rng(9)
    h = np.array([[4.0, 0.0, 0.0], [4.0 * skew, 5.0, 0.0], [0.7, -5.0 * skew, 3.0]])
    r = rng.uniform(-20.0, 20.0, (16, 3))
    pairs = np.array([[n, n + 8] for n in range(8)], np.int32)
    none, of = np.empty((0, 3), np.int32), np.zeros(16, np.int32)
    ptr, columns, images, exclusion_of = mn.call("exclusion_list", r, h[None], none, pairs, none, of, 7)
    assert np.array_equal(ptr, np.arange(17)) and np.array_equal(columns, np.arange(16) ^ 8)
    assert np.array_equal(exclusion_of, np.arange(16) % 8) and np.array_equal(images[:8], -images[8:])
    for i, j in pairs:
        # Reduced to a cell of near right angles, a few images around the rounded one are enough.
        d, reduced = r[j] - r[i], h.copy()
        for _ in range(40):
            for a, b in ((1, 0), (2, 1), (2, 0), (0, 1), (1, 2), (0, 2)):
                reduced[a] -= np.round(reduced[a] @ reduced[b] / (reduced[b] @ reduced[b])) * reduced[b]
        d = d - np.round(d @ np.linalg.inv(reduced)) @ reduced
        around = np.stack(np.meshgrid(*[np.arange(-4, 5)] * 3), -1).reshape(-1, 3) @ reduced
        shortest = np.linalg.norm(d + around, axis=1).min()
        assert abs(np.linalg.norm(r[j] - r[i] + images[i] @ h) - shortest) < 1e-11


def test_a_batch_is_its_systems() -> None:
    systems = [charges(n, atoms) for n, atoms in ((3, 20), (4, 31))]
    r, q = (np.concatenate([s[n] for s in systems]) for n in (0, 1))
    idx = np.repeat(np.arange(2, dtype=np.int32), [20, 31])
    pairs = np.concatenate([PAIRS, PAIRS[::-1] + 20])
    both = mn.ewald_summation(r, q, CELL, **GIVEN, batch_idx=idx, exclusions=(pairs, np.tile(FACTORS, 2)), **EVERYTHING)
    for b, (pairs, factors) in enumerate([(PAIRS, FACTORS), (PAIRS[::-1].copy(), FACTORS)]):
        alone = mn.ewald_summation(*systems[b], **GIVEN, exclusions=(pairs, factors), **EVERYTHING)
        for n, x in enumerate(alone):
            assert np.array_equal(both[n][b] if n == 3 else both[n][idx == b], x)


@pytest.mark.parametrize("space", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_factors_of_all_pairs_and_integers(space: str, dtype: Any) -> None:
    """One number stands for as many of them, an integer for the real number."""
    module, array = (mn, np.asarray) if space == "numpy" else (required(f"madelung.{space}"), None)
    if space == "torch":
        array = required("torch").as_tensor
    elif space == "jax":
        array = required("jax").numpy.asarray
    with contextlib.nullcontext() if space != "jax" else required("jax").enable_x64(True):
        r, q, h = (array(x.astype(dtype)) for x in charges())

        def energies(factors: Any) -> np.ndarray:
            exclusions = (array(PAIRS), factors)
            return np.asarray(module.ewald_real_space(r, q, h, 0.5, cutoff=9.0, exclusions=exclusions))

        half = energies(array(np.full(5, 0.5, dtype)))
        for one in (0.5, np.float64(0.5), np.float32(0.5), array(np.asarray(0.5, dtype)), [0.5] * 5):
            assert np.array_equal(energies(one), half)
        whole = energies(array(FACTORS.round().astype(dtype)))
        for integers in (array(FACTORS.round().astype(np.int32)), FACTORS.round().astype(int).tolist()):
            assert np.array_equal(energies(integers), whole)
        assert np.array_equal(energies(0), energies(None))


@pytest.mark.parametrize(
    ("exclusions", "message"),
    [
        (np.array([[0, 1], [1, 0]], np.int32), "each pair once, in one order of its atoms, got pairs 0 and 1"),
        (np.array([[2, 2]], np.int32), "two atoms, or an atom and its image"),
        (np.array([[0, 99]], np.int32), "indices below 30, got 99"),
        (np.array([[0, -1]], np.int32), "indices below 30, got -1"),
        (np.array([0, 1], np.int32), r"shape \(P, 2\)"),
        (np.array([[0.0, 1.0]]), "integers"),
        ((PAIRS, FACTORS[:2]), r"shape \(5,\)"),
        ((PAIRS, "0.5"), "float64"),
        ((PAIRS, np.nan), "finite"),
        ((PAIRS, FACTORS, np.zeros((2, 3), np.int32)), "shifts of 5 pairs"),
        ((PAIRS, np.full(5, np.nan)), "finite"),
        ((PAIRS, FACTORS, np.zeros((5, 3), np.int32), 1), "a tuple of pairs, factors and images"),
    ],
)
def test_bad_exclusions(exclusions: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"`exclusions.*{message}"):
        mn.ewald_summation(*charges(), **GIVEN, exclusions=exclusions)


def test_pairs_of_two_systems() -> None:
    r, q, _ = charges()
    idx = np.repeat(np.arange(2, dtype=np.int32), 15)
    with pytest.raises(ValueError, match="`exclusions`: expected pairs of atoms of one system"):
        mn.ewald_summation(r, q, CELL, **GIVEN, batch_idx=idx, exclusions=np.array([[3, 20]], np.int32))


def test_torch() -> None:
    torch, mt = required("torch"), required("madelung.torch")
    r, q, h = charges(5)
    arrays = [torch.tensor(x) for x in (r, q, h, FACTORS)]
    pairs = torch.tensor(PAIRS.astype(np.int64))
    lists = mt.find_neighbors(arrays[0], 14.0, arrays[2], form="clusters")
    miller, _ = mt.generate_miller_indices(arrays[2], 9.0)
    given = {"cutoff": 14.0, "neighbors": lists, "miller_indices": miller, "accuracy": None}

    def energies(r: Any, q: Any, h: Any, f: Any, **wanted: bool) -> Any:
        return mt.ewald_summation(r, q, h, 0.5, **given, exclusions=(pairs, f), **wanted)

    expected = mn.ewald_summation(r, q, h, **GIVEN, exclusions=(PAIRS, FACTORS), **EVERYTHING)
    for a, b in zip(energies(*arrays, **EVERYTHING), expected):
        assert np.abs(a.numpy() - b).max() < 1e-12 * np.abs(b).max()
    check_torch(lambda r, q, f: energies(r, q, arrays[2], f), [arrays[0], arrays[1], arrays[3]])

    def loss(r: Any, f: Any) -> Any:
        e, forces = energies(r, arrays[1], arrays[2], f, compute_forces=True)
        return e.sum() + (forces**2).sum()

    of = [arrays[0].requires_grad_(), arrays[3].requires_grad_()]
    eager = torch.autograd.grad(loss(*of), of)
    compiled = torch.autograd.grad(torch.compile(loss, fullgraph=True, backend="aot_eager")(*of), of)
    for a, b in zip(compiled, eager):
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-12 * float(b.abs().max()))


def test_jax() -> None:
    jax, mj = required("jax"), required("madelung.jax")
    r, q, h = charges(6)
    with jax.enable_x64(True):
        arrays = [jax.numpy.asarray(x) for x in (r, q, h, FACTORS)]
        miller, _ = mj.generate_miller_indices(h, 9.0)
        for form in ("rows", "clusters"):
            lists = mj.find_neighbors(arrays[0], 14.0, arrays[2], form=form)
            given = {"cutoff": 14.0, "neighbors": lists, "miller_indices": miller, "accuracy": None}

            def energies(r: Any, q: Any, h: Any, f: Any, given: Any = given, wanted: Any = EVERYTHING) -> Any:
                return mj.ewald_summation(r, q, h, 0.5, **given, exclusions=(PAIRS, f), **wanted)

            expected = mn.ewald_summation(r, q, h, **GIVEN, exclusions=(PAIRS, FACTORS), **EVERYTHING)
            for of in (energies, jax.jit(energies)):
                for a, b in zip(of(*arrays), expected):
                    assert np.abs(np.asarray(a) - b).max() < 1e-12 * np.abs(b).max()
        check_jax(lambda r, q, f: energies(r, q, arrays[2], f, wanted={}), [arrays[0], arrays[1], arrays[3]])


@pytest.mark.parametrize("form", ["rows", "clusters", "coo"])
def test_transforms_of_jax(form: str) -> None:
    """With lists from outside, of which a transform knows nothing, each call has the results of an eager one."""
    jax, mj = required("jax"), required("madelung.jax")
    np_of = jax.numpy
    with jax.enable_x64(True):
        r, q, h = map(np_of.asarray, charges(7))
        miller, _ = mj.generate_miller_indices(h, 4.0)
        if form == "coo":
            lists = dict(zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), mj.neighbor_list(r, 5.0, h)))
        else:
            lists = {"neighbors": mj.find_neighbors(r, 5.0, h, form=form)}

        def energies(r: Any, f: Any, lists: Any = lists) -> Any:
            given = {"cutoff": 5.0, "miller_indices": miller, "accuracy": None, **lists}
            return mj.ewald_summation(r, q, h, 0.5, **given, exclusions=(PAIRS, f), **EVERYTHING)

        def loss(r: Any, f: Any) -> Any:
            return sum((x**2).sum() for x in energies(r, f))

        at, factors = np_of.stack([r, r + 0.01 * np_of.sin(50 * r)]), np_of.asarray([FACTORS, 1.0 - FACTORS])
        gradient = jax.grad(loss, (0, 1))
        expected = [[*energies(*x), *gradient(*x)] for x in zip(at, factors)]
        calls: dict[str, Any] = {
            "jit": lambda: zip(*([*jax.jit(energies)(*x), *jax.jit(gradient)(*x)] for x in zip(at, factors))),
            "list as argument": lambda: zip(*([*jax.jit(energies)(*x, lists)] for x in zip(at, factors))),
            "vmap": lambda: [*jax.vmap(energies)(at, factors), *jax.vmap(gradient)(at, factors)],
            "jit of vmap": lambda: jax.jit(jax.vmap(gradient))(at, factors),
        }
        for name, call in calls.items():
            want = [[*e[-2:]] if name == "jit of vmap" else e for e in expected]
            for found, each in zip(call(), zip(*want)):
                for a, b in zip(found, each, strict=True):
                    assert np.abs(a - b).max() < 1e-12 * np.abs(b).max(), name


@pytest.mark.parametrize("form", ["rows", "clusters", "capacity"])
def test_lists_that_are_none_stay_none(form: str) -> None:
    """What is made of a list of another cell, or of one that has overflowed, is NaN with exclusions too."""
    jax, mj = required("jax"), required("madelung.jax")
    with jax.enable_x64(True):
        r, q, h = map(jax.numpy.asarray, charges(8))
        names = ("neighbor_list", "neighbor_ptr", "neighbor_shifts")
        lists = {} if form == "capacity" else {"neighbors": mj.find_neighbors(r, 5.0, h, form=form)}

        def energies(h: Any, lists: Any, exclusions: Any = PAIRS) -> Any:
            if form == "capacity":
                lists = dict(zip(names, mj.neighbor_list(r, 5.0, h, capacity=len(r))))
            return mj.ewald_real_space(r, q, h, 0.5, cutoff=5.0, **lists, exclusions=exclusions)

        stretched = 1.01 * h
        assert np.isnan(jax.jit(energies)(stretched, lists)).all()
        found = jax.vmap(lambda h: energies(h, lists))(jax.numpy.stack([h, stretched]))
        assert np.isnan(found[1]).all()
        if form != "capacity":
            assert np.array_equal(found[0], energies(h, lists))
        # So are the lists of some of its pairs.
        cut = jax.jit(lambda r: mj.neighbor_list(r, (5.0, 4.0), h, capacity=len(r)))
        assert all(bool(overflow) for *_, overflow in cut(r))
