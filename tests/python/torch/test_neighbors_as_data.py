"""Neighbours as data of PyTorch: moved, pinned, saved, loaded and shown."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import required

torch = required("torch")
import madelung.torch as mt  # noqa: E402
from madelung.torch import nn  # noqa: E402

RANDOM = np.random.default_rng(6)
R = torch.tensor(RANDOM.uniform(0.0, 12.0, (64, 3)))
Q = torch.tensor(np.where(np.arange(64) % 2, 1.0, -1.0))
H = 12.0 * torch.eye(3, dtype=torch.float64)


def lists() -> list[Any]:
    idx = torch.repeat_interleave(torch.arange(2, dtype=torch.int32), 32)
    return [
        mt.find_neighbors(R, 4.0, H),
        mt.find_neighbors(R, 4.0, H, form="clusters"),
        mt.find_neighbors(R, 4.0),
        mt.NeighborList(3.5, 0.5).allocate(R, torch.stack([H, H]), batch_idx=idx),
    ]


def same(x: Any, y: Any) -> bool:
    of = [[getattr(z, field.name) for field in dataclasses.fields(z)] for z in (x, y)]
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in zip(*of))


@pytest.mark.parametrize("n", range(4))
def test_saved_and_loaded(n: int) -> None:
    neighbors, file = lists()[n], io.BytesIO()
    torch.save({"neighbors": neighbors, "cutoff": 4.0}, file)
    file.seek(0)
    assert same(torch.load(file, weights_only=True)["neighbors"], neighbors)


@pytest.mark.parametrize("n", range(4))
def test_moved(n: int) -> None:
    neighbors = lists()[n]
    assert same(neighbors.to("cpu"), neighbors) and same(
        neighbors.to(torch.device("cpu"), non_blocking=True), neighbors
    )
    # Where there are no values, in rows.
    moved = neighbors.to("meta")
    assert moved.form == "rows" and {x.device.type for x in (moved.index, moved.columns, moved.images)} == {"meta"}
    assert moved.columns.shape == neighbors.csr()[1].shape and (moved.cell is None) == (neighbors.cell is None)


def test_rows_of_clusters_are_the_same_list() -> None:
    """The list that `to` makes of clusters for a device, by its energies on the host."""
    _, clusters, *_ = lists()
    index, columns, images = clusters.csr()
    rows = dataclasses.replace(clusters, index=index, columns=columns, images=images, form="rows")
    found = [mt.ewald_real_space(R, Q, H, 0.6, neighbors=x, cutoff=4.0) for x in (clusters, rows)]
    assert torch.allclose(*found, rtol=1e-12, atol=1e-14)


def test_pinned_memory_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `DataLoader` pins memory where there is a device."""
    pinned: list[Any] = []

    def pin_memory(x: Any) -> Any:
        pinned.append(x)
        return x.clone()

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin_memory)
    neighbors = nn.collate([{"positions": R, "cell": H}], cutoff=4.0)["neighbors"]
    assert same(torch.utils.data._utils.pin_memory.pin_memory({"neighbors": neighbors})["neighbors"], neighbors)
    assert len(pinned) == 4


def test_of_other_arrays() -> None:
    neighbors = mn.find_neighbors(R.numpy(), 4.0)
    for call in (lambda: neighbors.to("cpu"), neighbors.pin_memory):
        with pytest.raises(TypeError, match="`neighbors`: expected a list of PyTorch's tensors, got one of int32"):
            call()


def test_shown_in_a_line() -> None:
    for neighbors in [*lists(), mn.find_neighbors(R.numpy(), 4.0), lists()[0].to("meta")]:
        assert "atoms=64, cutoff=" in repr(neighbors) and len(repr(neighbors)) < 160
    assert repr(lists()[0]) == ("Neighbors(form='rows', atoms=64, cutoff=4.0, pbc=None, skin=0.0, arrays of torch)")
