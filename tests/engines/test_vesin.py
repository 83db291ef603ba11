"""Pairs of vesin, with the calls that docs/from/vesin.md has beside ours."""

from __future__ import annotations

import numpy as np
import pytest
import vesin

from madelung.numpy import neighbor_list


@pytest.mark.parametrize("periodic", [True, False, (True, True, False)], ids=str)
def test_pairs(periodic: bool | tuple[bool, ...]) -> None:
    """Full lists are the same pairs in another order."""
    random = np.random.default_rng(5)
    points, box = 9.0 * random.random((200, 3)), 9.0 * np.eye(3) + random.normal(scale=0.5, size=(3, 3))
    theirs = vesin.NeighborList(cutoff=4.0, full_list=True).compute(points, box, periodic, quantities="PSdD")
    pairs, _, *ours = neighbor_list(points, 4.0, box, periodic, return_distances=True, return_vectors=True)
    order = np.lexsort([*theirs[1].T[::-1], *theirs[0].T[::-1]])
    for mine, other in zip([pairs.T, *ours], (x[order] for x in theirs)):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-12)


def test_half_lists() -> None:
    """Half lists have as many pairs, each once."""
    points, box = 9.0 * np.random.default_rng(6).random((100, 3)), 9.0 * np.eye(3)
    (theirs,) = vesin.NeighborList(cutoff=4.0, full_list=False).compute(points, box, True, quantities="P")
    assert neighbor_list(points, 4.0, box, True, half_fill=True)[0].shape[1] == len(theirs)
