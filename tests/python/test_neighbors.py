"""Neighbour lists against a slow search in NumPy."""

import importlib
import itertools

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree

from madelung.numpy import neighbor_list

CELLS = {
    "cubic": np.eye(3) * 6.0,
    "triclinic": np.array([[5.0, 0.3, -0.4], [1.9, 4.2, 0.1], [-1.1, 2.0, 6.3]]),
    "left-handed": np.array([[1.9, 4.2, 0.1], [5.0, 0.3, -0.4], [-1.1, 2.0, 6.3]]),
    "small": np.array([[1.3, 0.0, 0.0], [0.4, 1.1, 0.0], [0.0, -0.3, 1.7]]),
}
PERIODICITIES = [(True, True, True), (True, True, False), (False, False, True), (False, False, False)]


def brute_force(r, cutoff, cell, pbc, half=False):
    """All (i, j, S), their vectors and distances, ordered by i, then j, then S."""
    r = np.asarray(r, dtype=np.float64)
    heights = 1.0 / np.linalg.norm(np.linalg.inv(cell), axis=0)
    fractional = r @ np.linalg.inv(cell)
    spread = np.ceil(np.ptp(fractional, axis=0)) if len(r) else np.zeros(3)
    reach = [int(np.ceil(cutoff / h) + s) if periodic else 0 for h, s, periodic in zip(heights, spread, pbc)]
    found = []
    for shift in itertools.product(*(range(-n, n + 1) for n in reach)):
        d = r[None, :] - r[:, None] + np.array(shift) @ cell
        length = np.sqrt(np.sum(d * d, axis=2))
        for i, j in np.argwhere(length < cutoff):
            if i == j and shift == (0, 0, 0):
                continue
            if half and not (i < j or (i == j and shift > (0, 0, 0))):
                continue
            found.append(((int(i), int(j), *shift), d[i, j], length[i, j]))
    found.sort(key=lambda pair: pair[0])
    keys = np.array([pair[0] for pair in found], dtype=np.int64).reshape(-1, 5)
    vectors = np.array([pair[1] for pair in found]).reshape(-1, 3)
    return keys[:, :2].T, keys[:, 2:], vectors, np.array([pair[2] for pair in found])


def points(cell, n, dtype=np.float64, seed=1):
    """Atoms in and around a cell."""
    return (np.random.default_rng(seed).uniform(-1.2, 2.1, (n, 3)) @ cell).astype(dtype)


@pytest.mark.parametrize("method", [None, "cell_list", "brute_force"])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("pbc", PERIODICITIES)
@pytest.mark.parametrize("name", CELLS)
def test_coo(name, pbc, half, method):
    cell, cutoff = CELLS[name], 2.9
    r = points(cell, 4 if name == "small" else 25)
    pairs, ptr, shifts, distances, vectors = neighbor_list(
        r, cutoff, cell, np.array(pbc), half_fill=half, method=method, return_distances=True, return_vectors=True
    )
    expected, images, d, lengths = brute_force(r, cutoff, cell, pbc, half)
    assert {a.dtype for a in (pairs, ptr, shifts)} == {np.dtype(np.int32)}
    assert np.array_equal(pairs, expected)
    assert np.array_equal(shifts, images)
    assert np.array_equal(ptr, np.searchsorted(expected[0], np.arange(len(r) + 1)))
    np.testing.assert_allclose(vectors, d, rtol=0, atol=1e-12)
    np.testing.assert_allclose(distances, lengths, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("half", [False, True])
def test_the_three_formats_agree(dtype, half):
    cell = CELLS["triclinic"].astype(dtype)
    r = points(cell, 30, dtype)
    wish = {"half_fill": half, "return_distances": True, "return_vectors": True}
    pairs, ptr, shifts, distances, vectors = neighbor_list(r, 3.1, cell, **wish)
    assert distances.dtype == vectors.dtype == dtype

    csr = neighbor_list(r, 3.1, cell, format="csr", **wish)
    for a, b in zip(csr, (ptr, pairs[1], shifts, distances, vectors)):
        assert np.array_equal(a, b)

    longest = int(np.diff(ptr).max())
    for width, fill in ((None, None), (longest, -1), (longest + 3, 99)):
        matrix, counts, images, lengths, d = neighbor_list(
            r, 3.1, cell, format="matrix", max_neighbors=width, fill_value=fill, **wish
        )
        assert matrix.shape == (30, width or longest)
        assert np.array_equal(counts, np.diff(ptr))
        used = np.arange(matrix.shape[1]) < counts[:, None]
        assert np.array_equal(matrix[used], pairs[1])
        assert np.array_equal(images[used], shifts)
        assert np.array_equal(lengths[used], distances)
        assert np.array_equal(d[used], vectors)
        assert (matrix[~used] == (30 if fill is None else fill)).all()
        assert not (images[~used].any() or lengths[~used].any() or d[~used].any())


def test_float32_is_decided_for_its_own_coordinates():
    cell = CELLS["triclinic"].astype(np.float32)
    r = points(cell, 40, np.float32)
    pairs, _, shifts = neighbor_list(r, 3.0, cell)
    expected, images, _, _ = brute_force(r, 3.0, cell.astype(np.float64), (True,) * 3)
    assert np.array_equal(pairs, expected)
    assert np.array_equal(shifts, images)


def test_without_a_cell_nothing_is_periodic():
    r = points(np.eye(3) * 3.0, 40)
    pairs, _, shifts = neighbor_list(r, 2.0)
    expected, _, _, _ = brute_force(r, 2.0, np.eye(3), (False,) * 3)
    assert np.array_equal(pairs, expected)
    assert not shifts.any()


def test_a_batch_is_its_systems_one_after_the_other():
    names = ["cubic", "triclinic", "small", "left-handed"]
    cells = np.stack([CELLS[name] for name in names])
    pbc = np.array(PERIODICITIES)
    sizes = [20, 0, 3, 15]
    parts = [points(cell, n, seed=n) for cell, n in zip(cells, sizes)]
    r = np.concatenate(parts)
    batch_idx = np.repeat(np.arange(4), sizes)
    batch_ptr = np.cumsum([0, *sizes])
    batch = neighbor_list(r, 2.5, cells, pbc, batch_idx, return_vectors=True)
    for given in ({"batch_ptr": batch_ptr}, {"batch_idx": batch_idx, "batch_ptr": batch_ptr}):
        for a, b in zip(batch, neighbor_list(r, 2.5, cells, pbc, **given, return_vectors=True)):
            assert np.array_equal(a, b)
    start = 0
    for b, part in enumerate(parts):
        pairs, _, shifts, vectors = neighbor_list(part, 2.5, cells[b], pbc[b], return_vectors=True)
        mine = batch_idx[batch[0][0]] == b
        assert np.array_equal(batch[0][:, mine], pairs + start)
        assert np.array_equal(batch[2][mine], shifts)
        assert np.array_equal(batch[3][mine], vectors)
        start += len(part)


def test_one_cell_or_one_pbc_for_all_systems():
    cell, r = CELLS["triclinic"], points(CELLS["triclinic"], 12)
    alone, _, _ = neighbor_list(r, 2.5, cell, np.array([True, False, True]))
    twice = {"batch_idx": np.repeat([0, 1], 12)}
    both = np.concatenate([r, r])
    expected = np.concatenate([alone, alone + 12], axis=1)
    for lattice in (cell, np.stack([cell, cell])):
        for pbc in ([True, False, True], [[True, False, True]] * 2):
            pairs, _, _ = neighbor_list(both, 2.5, lattice, np.array(pbc), **twice)
            assert np.array_equal(pairs, expected)


def test_periodic_axes_in_any_form():
    r, cell = np.random.default_rng(5).random((20, 3)) * 4.0, 4.0 * np.eye(3)
    for some, plain in ((True, [True] * 3), (False, [False] * 3), ((1, 1, 0), [True, True, False])):
        for a, b in zip(neighbor_list(r, 3.0, cell, some), neighbor_list(r, 3.0, cell, np.array(plain))):
            np.testing.assert_array_equal(a, b)
    with pytest.raises(TypeError, match=r"`pbc`: expected True or False for each axis, got \[1, 2, 0\]"):
        neighbor_list(r, 3.0, cell, (1, 2, 0))


def test_no_atoms_and_one_atom():
    for cell in (None, np.eye(3)):
        pairs, ptr, shifts = neighbor_list(np.zeros((0, 3)), 1.5, cell)
        assert (pairs.shape, ptr.tolist(), shifts.shape) == ((2, 0), [0], (0, 3))
        matrix, counts, images = neighbor_list(np.zeros((0, 3)), 1.5, cell, format="matrix")
        assert (matrix.shape, counts.shape, images.shape) == ((0, 0), (0,), (0, 0, 3))
    # Six images at 1, twelve at the square root of 2.
    assert neighbor_list(np.zeros((1, 3)), 1.5, np.eye(3))[0].shape == (2, 18)
    assert neighbor_list(np.zeros((1, 3)), 1.5, np.eye(3), half_fill=True)[0].shape == (2, 9)
    assert neighbor_list(np.zeros((1, 3)), 1.5)[0].shape == (2, 0)


def test_the_cutoff_is_strict_and_points_may_coincide():
    r = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert neighbor_list(r, 1.0)[0].tolist() == [[1, 2], [2, 1]]
    assert neighbor_list(r, np.nextafter(1.0, 2.0))[0].shape == (2, 6)


@pytest.mark.parametrize("limit", ["capacity", "max_neighbors"])
@pytest.mark.parametrize("form", ["coo", "csr", "matrix"])
def test_a_limit_is_kept_or_the_call_fails_with_what_is_needed(form, limit):
    r, cell = points(CELLS["cubic"], 30), CELLS["cubic"]
    _, ptr, _ = neighbor_list(r, 2.5, cell)
    needed = int(ptr[-1] if limit == "capacity" else np.diff(ptr).max())
    neighbor_list(r, 2.5, cell, format=form, **{limit: needed})
    with pytest.raises(ValueError, match=rf"`{limit}`.*\b{needed}\b"):
        neighbor_list(r, 2.5, cell, format=form, **{limit: needed - 1})


def test_a_matrix_that_cannot_be_addressed_is_refused():
    apart = np.arange(30000.0)[:, None] * [10.0, 0.0, 0.0]
    # 770 TB: beyond every address.
    with pytest.raises(MemoryError, match="^`max_neighbors`"):
        neighbor_list(apart, 2.5, format="matrix", max_neighbors=2**31 - 1, return_distances=True)


def test_methods_agree_on_a_larger_system():
    cell = np.eye(3) * 25.0
    r = points(cell, 1500)
    a = neighbor_list(r, 4.0, cell, method="cell_list")
    b = neighbor_list(r, 4.0, cell, method="brute_force")
    assert all(np.array_equal(x, y) for x, y in zip(a, b))


def test_one_large_and_a_thousand_small_systems():
    g = np.random.default_rng(5)
    sizes = np.concatenate([g.integers(0, 9, 500), [4000], g.integers(0, 9, 500)])
    sides = np.where(sizes > 100, 30.0, 5.0)
    of = np.repeat(np.arange(len(sizes)), sizes)
    r, cells = g.random((len(of), 3)) * sides[of, None], sides[:, None, None] * np.eye(3)
    pairs, ptr, shifts = neighbor_list(r, 2.4, cells, batch_idx=of)
    first = np.concatenate([[0], np.cumsum(sizes)])
    for b, (start, end) in enumerate(itertools.pairwise(first)):
        own = slice(ptr[start], ptr[end])
        if sizes[b] > 100:
            near = cKDTree(r[start:end], boxsize=sides[b]).query_pairs(2.4, output_type="ndarray")
            both = np.concatenate([near, near[:, ::-1]])
            expected = both[np.lexsort((both[:, 1], both[:, 0]))].T
        else:
            expected, images, *_ = brute_force(r[start:end], 2.4, cells[b], (True, True, True))
            assert np.array_equal(shifts[own], images)
        assert np.array_equal(pairs[:, own] - start, expected)


@pytest.mark.parametrize("method", [None, "cell_list"])
def test_a_crowd_in_one_corner(method):
    """Of a box a thousand times as long, and one atom in the corner opposite, next to it by its images."""
    r = np.concatenate([np.random.default_rng(6).random((3000, 3)), [[999.98, 999.98, 999.98]]])
    pairs, _, shifts = neighbor_list(r, 0.25, 1000.0 * np.eye(3), method=method)
    at = np.concatenate([r[:-1], r[-1:] - 1000.0])
    near = cKDTree(at).query_pairs(0.25, output_type="ndarray")
    both = np.concatenate([near, near[:, ::-1]])
    assert np.array_equal(pairs.T, both[np.lexsort((both[:, 1], both[:, 0]))])
    assert (both == 3000).any()
    assert np.array_equal(shifts, ((pairs[0] == 3000)[:, None] * 1 - (pairs[1] == 3000)[:, None]) * np.ones(3, int))


def test_atoms_a_hundred_thousand_boxes_away():
    """In numbers that float64 holds exactly, so that not one bit of a distance changes."""
    g = np.random.default_rng(7)
    r, cell = g.integers(0, 8 << 10, (300, 3)) / 1024.0, 8.0 * np.eye(3)
    boxes = g.integers(-100_000, 100_001, r.shape)
    pairs, ptr, shifts, distances = neighbor_list(r, 2.6, cell, return_distances=True)
    far = neighbor_list(r + 8.0 * boxes, 2.6, cell, return_distances=True)
    assert np.array_equal(pairs, far[0])
    assert np.array_equal(ptr, far[1])
    assert np.array_equal(shifts + boxes[pairs[0]] - boxes[pairs[1]], far[2])
    assert np.array_equal(distances, far[3])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("space", ["numpy", "torch", "jax"])
def test_no_distance_of_a_list_is_at_its_cutoff(space, dtype, double_precision):
    module = importlib.import_module(f"madelung.{space}")
    array = {"numpy": np.asarray, "torch": torch.as_tensor, "jax": jnp.asarray}[space]
    g = np.random.default_rng(1)
    cell = array(CELLS["triclinic"].astype(dtype))
    r = array((30.0 + 6.0 * g.random((60, 3))).astype(dtype))

    def distances(cutoff, **options):
        return np.asarray(module.neighbor_list(r, cutoff, cell, return_distances=True, **options)[3])

    every = distances(3.0)
    for n, d in enumerate(every[:: len(every) // 60]):
        found = distances(float(d), half_fill=False, method=("cell_list", "brute_force")[n % 2])
        assert (found < d).all() and len(found) == (every < d).sum()


def test_positions_on_a_line_and_in_a_plane():
    g = np.random.default_rng(2)
    for axes in (1, 2):
        r = g.random((80, axes)) * 5
        pairs, ptr, shifts, d, v = neighbor_list(r, 1.2, return_distances=True, return_vectors=True)
        difference = r - r[:, None]
        length = np.linalg.norm(difference, axis=-1)
        i, j = np.nonzero((length < 1.2) & ~np.eye(80, dtype=bool))
        np.testing.assert_array_equal(pairs, [i, j])
        np.testing.assert_allclose(d, length[i, j], rtol=1e-14)
        np.testing.assert_allclose(v, difference[i, j], rtol=0, atol=1e-15)
        assert not shifts.any() and ptr[-1] == len(i)
    with pytest.raises(ValueError, match="`positions`: expected three coordinates with a cell"):
        neighbor_list(r, 1.2, np.eye(3))
