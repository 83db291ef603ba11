"""A few charges in a skewed, left-handed cell, for the tests of the functions."""

from __future__ import annotations

from typing import Any

import torch

import madelung.torch as mt
from conftest import DEVICE


def system(atoms: int = 4) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(atoms)

    def random(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=rng, dtype=torch.float64)

    corners = torch.tensor([[n & 1, n >> 1 & 1, n >> 2 & 1] for n in range(8)], dtype=torch.float64)
    cell = torch.diag(torch.tensor([3.0, 3.3, -3.5], dtype=torch.float64)) + 0.3 * random(3, 3)
    x = 1.6 * corners[:atoms] + 0.5 * random(atoms, 3), 2 * random(atoms) - 0.7, cell
    return tuple(t.to(DEVICE) for t in x)


def leaves(*x: torch.Tensor) -> list[torch.Tensor]:
    return [t.detach().clone().requires_grad_() for t in x]


def listed(r: torch.Tensor, h: torch.Tensor) -> dict[str, Any]:
    """All that depends on values."""
    pairs, ptr, shifts = mt.neighbor_list(r, 4.0, h)
    miller, of = mt.generate_miller_indices(h, 6.0)
    given = {"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts, "cutoff": 4.0}
    return {**given, "miller_indices": miller, "miller_batch_idx": of}
