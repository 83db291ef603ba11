"""Neighbour lists in cases in which other libraries were reported to miss pairs, or to find pairs that are none."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

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
    expected = int((far < cutoff + skin).sum()) - len(r)
    search = mj.NeighborList(cutoff, skin, form="rows", room=2.0)
    first = search.allocate(jnp.asarray(r), jnp.asarray(cell))
    found = jax.jit(lambda found, r: search.update(found, r, jnp.asarray(cell)))(first, jnp.asarray(moved))
    assert int(found.num_pairs) == expected
    fixed = mt.NeighborList(cutoff, skin, room=2.0)
    before, now, h = map(torch.from_numpy, (r, moved, cell))
    kept = fixed.update(fixed.allocate(before, h), now, h)
    assert int(kept.num_pairs) == expected
