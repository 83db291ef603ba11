"""Neighbour lists in cases in which other libraries were reported to miss pairs, or to find pairs that are none."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree

import madelung.jax as mj
import madelung.numpy as mn
import madelung.torch as mt

SIZES = (120, 7, 300, 64)


def systems(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Atoms of several sheared cells, in and around them."""
    g = np.random.default_rng(seed)
    cells = np.stack([n ** (1 / 3) * (np.eye(3) + 0.2 * g.normal(size=(3, 3))) for n in SIZES])
    of = np.repeat(np.arange(len(SIZES), dtype=np.int32), SIZES)
    r = np.einsum("nk,nkl->nl", g.uniform(-0.3, 1.3, (len(of), 3)), cells[of])
    return r.astype(np.float32), cells.astype(np.float32), of


def alone(r: np.ndarray, cells: np.ndarray, of: np.ndarray, cutoff: float, pbc: Any = None) -> np.ndarray:
    """Rows (i, j, S) of every system, searched for by itself."""
    rows = []
    for b in range(len(SIZES)):
        axes = None if pbc is None else pbc[b]
        pairs, _, shifts = mn.neighbor_list(r[of == b], cutoff, cells[b], axes)
        rows.append(np.concatenate([pairs.T + sum(SIZES[:b]), shifts], 1))
    return np.concatenate(rows)


@pytest.mark.parametrize("vary", [False, True])
def test_a_batch_under_jit_misses_no_pair(vary: bool) -> None:
    """Of systems of several sizes, with periodic axes of their own or all."""
    r, cells, of = systems()
    pbc = np.random.default_rng(1).random((len(SIZES), 3)) < 0.6 if vary else None
    expected = alone(r, cells, of, 2.5, pbc)
    search = jax.jit(lambda r, h, of: mj.neighbor_list(r, 2.5, h, pbc, batch_idx=of, capacity=len(expected) + 100))
    pairs, ptr, shifts, count, overflow = search(*map(jnp.asarray, (r, cells, of)))
    assert int(count) == len(expected) == int(ptr[-1])
    assert not overflow
    found = np.concatenate([np.asarray(pairs).T, np.asarray(shifts)], 1)
    np.testing.assert_array_equal(found[:count], expected)
    assert len({tuple(row) for row in found[:count].tolist()}) == count


@pytest.mark.parametrize("method", ["brute_force", "cell_list"])
def test_no_method_joins_systems(method: str) -> None:
    r, cells, of = systems()
    expected = alone(r, cells, of, 2.5)
    for module, array in ((mn, np.asarray), (mt, torch.from_numpy), (mj, jnp.asarray)):
        given = (array(r), 2.5, array(cells))
        pairs, _, shifts = module.neighbor_list(*given, batch_idx=array(of), method=method)
        np.testing.assert_array_equal(np.concatenate([np.asarray(pairs).T, np.asarray(shifts)], 1), expected)


@pytest.mark.parametrize("hand", [1, -1])
@pytest.mark.parametrize("boxes", [0.3, 0.5, 0.7, 1.6])
def test_kept_lists_of_skewed_cells_and_long_cutoffs(hand: int, boxes: float) -> None:
    """Of either hand, with cutoffs below and beyond half of the cell: counts against every image, under `jit`."""
    cell = np.array([[6.0, 0.0, 0.0], [3.5, 5.0, 0.0], [-2.0, 2.5, 5.5 * hand]], np.float32)
    r = (np.random.default_rng(2).random((30, 3)) @ cell).astype(np.float32)
    cutoff, skin = float(6.0 * boxes), 0.3
    n = np.stack(np.meshgrid(*[np.arange(-6, 7)] * 3, indexing="ij"), -1).reshape(-1, 3)
    moved = (r + np.float32(0.2) * np.random.default_rng(3).normal(size=r.shape)).astype(np.float32)
    at = moved.astype(np.float64)
    far = np.linalg.norm(at[None, :, None] - at[:, None, None] + n @ cell.astype(np.float64), axis=-1)
    # Pairs are decided in float32, whose distances of these coordinates are right to 2e-5.
    least, most = (int((far < cutoff + skin + 2e-5 * sign).sum()) - len(r) for sign in (-1, 1))
    assert most - least < 10
    search = mj.NeighborList(cutoff, skin, form="rows", room=2.0)
    first = search.allocate(jnp.asarray(r), jnp.asarray(cell))
    found = jax.jit(lambda found, r: search.update(found, r, jnp.asarray(cell)))(first, jnp.asarray(moved))
    assert least <= int(found.num_pairs) <= most
    fixed = mt.NeighborList(cutoff, skin, room=2.0)
    before, now, h = map(torch.from_numpy, (r, moved, cell))
    kept = fixed.update(fixed.allocate(before, h), now, h)
    assert least <= int(kept.num_pairs) <= most


ARRAYS = [(mn, np.asarray), (mt, torch.from_numpy), (mj, jnp.asarray)]
spaces = pytest.mark.parametrize(("module", "array"), ARRAYS, ids=["numpy", "torch", "jax"])


def images(r: np.ndarray, cell: np.ndarray, pbc: tuple[bool, ...], cutoff: float, most: int) -> np.ndarray:
    """Rows (i, j, S) of every pair closer than a cutoff, tried one by one up to `most` cells away."""
    along = [np.arange(-most, most + 1) if axis else np.zeros(1, int) for axis in pbc]
    n = np.stack(np.meshgrid(*along, indexing="ij"), -1).reshape(-1, 3)
    d = r[None, :, None] - r[:, None, None] + n @ cell
    i, j, s = np.nonzero((d**2).sum(-1) < cutoff**2)
    rows = np.column_stack([i, j, n[s]])
    return rows[(i != j) | n[s].any(1)]


@spaces
@pytest.mark.parametrize("pbc", [(True, True, False), (False, True, False), (False, False, False)])
@pytest.mark.parametrize("method", ["brute_force", "cell_list"])
def test_open_axes_have_no_images(module: Any, array: Any, pbc: tuple[bool, ...], method: str) -> None:
    """Slabs, wires and molecules in sheared cells shorter than the cutoff: no pair twice, and none that is none."""
    cell = np.array([[4.0, 0.0, 0.0], [1.5, 3.5, 0.0], [-1.0, 0.5, 5.0]])
    # Numbers of float32, as JAX has no others here.
    r = (np.random.default_rng(4).uniform(-0.5, 1.5, (40, 3)) @ cell).astype(np.float32).astype(np.float64)
    expected = images(r, cell, pbc, 4.5, 6)
    assert np.abs(expected[:, 2:]).max() < 6, "all images were tried"
    pairs, _, shifts = module.neighbor_list(array(r), 4.5, array(cell), pbc, method=method)
    np.testing.assert_array_equal(np.concatenate([np.asarray(pairs).T, np.asarray(shifts)], 1), expected)


@spaces
def test_short_cutoffs_are_no_overflow(module: Any, array: Any) -> None:
    """Of gases with crowds in them: lists are as long as there are pairs, not as a density makes believe."""
    g = np.random.default_rng(5)
    r = np.concatenate([30.0 * g.random((300, 3)), 10.0 + 0.05 * g.random((60, 3))]).astype(np.float32).astype(float)
    cell = 30.0 * np.eye(3)
    expected = images(r, cell, (True, True, True), 0.3, 1)
    pairs, ptr, shifts, *_ = module.neighbor_list(array(r), 0.3, array(cell))
    np.testing.assert_array_equal(np.concatenate([np.asarray(pairs).T, np.asarray(shifts)], 1), expected)
    search = module.NeighborList(0.2, 0.1, form="rows")
    found = search.update(search.allocate(array(r), array(cell)), array(r), array(cell))
    assert int(found.num_pairs) == len(expected) == int(ptr[-1]) >= 59 * 60


@spaces
def test_more_pairs_than_integers_count(module: Any, array: Any) -> None:
    """2³¹ pairs and a few: an error with their number, and no list."""
    atoms = 46_342
    r = array(np.random.default_rng(6).random((atoms, 3)).astype(np.float32))
    text = f"`cutoff`: expected at most 2147483647 pairs.*got {atoms * (atoms - 1)} pairs"
    with pytest.raises(Exception, match=text):
        module.neighbor_list(r, 4.0)


@spaces
def test_tens_of_thousands_of_atoms(module: Any, array: Any) -> None:
    """37,000 atoms, as a list that is kept and as one with all lengths: pairs against those of a tree."""
    g = np.random.default_rng(7)
    side = (37_000 / 0.05) ** (1 / 3)
    r = (side * g.random((37_000, 3))).astype(np.float32)
    wrapped = np.mod(r.astype(np.float64), side)
    cell = array(np.float32(side) * np.eye(3, dtype=np.float32))
    expected = cKDTree(wrapped, boxsize=float(np.float32(side))).query_pairs(4.5, output_type="ndarray")
    pairs, _, _, distances = module.neighbor_list(array(r), 4.5, cell, return_distances=True)
    i, j = np.asarray(pairs)
    both = np.concatenate([expected, expected[:, ::-1]])
    np.testing.assert_array_equal(np.stack([i, j], 1), both[np.lexsort((both[:, 1], both[:, 0]))])
    assert 0.0 < float(distances.min()) < float(distances.max()) <= 4.5
    search = module.NeighborList(4.0, 0.5)
    found = search.update(search.allocate(array(r), cell), array(r + np.float32(0.1)), cell)
    assert int(found.num_pairs) == len(i)


@pytest.mark.parametrize(("space", "dtype"), [(mt, torch.bfloat16), (mj, jnp.bfloat16)], ids=["torch", "jax"])
def test_nearest_points_in_bfloat16(space: Any, dtype: Any) -> None:
    """The points that the rounded coordinates have, and all of them within a radius."""
    g = np.random.default_rng(8)
    cast = (lambda x: torch.from_numpy(x).to(dtype)) if space is mt else (lambda x: jnp.asarray(x).astype(dtype))
    wide = (lambda x: x.double().numpy()) if space is mt else (lambda x: np.asarray(x.astype(jnp.float32), np.float64))
    q, r = (cast(g.random((n, 3)).astype(np.float32)) for n in (30, 500))
    squares = ((wide(r)[None] - wide(q)[:, None]) ** 2).sum(-1)
    indices, distances = space.knn(q, r, 5)
    order = np.lexsort((np.broadcast_to(np.arange(500), squares.shape), squares), axis=1)[:, :5]
    np.testing.assert_array_equal(np.asarray(indices), order)
    assert distances.dtype == dtype
    ptr, _, _ = space.radius(q, r, 0.3)
    np.testing.assert_array_equal(np.diff(np.asarray(ptr)), (squares <= np.float64(0.3) ** 2).sum(1))
