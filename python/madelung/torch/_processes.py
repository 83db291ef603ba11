"""Sums of systems that several processes share, of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

_Summed = Callable[[Callable[[], Sequence[Any]], Sequence[bool]], list[np.ndarray | None]]


class _Share(torch.autograd.Function):
    """A share of an energy, with the gradients of the whole one by own positions and charges."""

    @staticmethod
    def forward(ctx: Any, energy: torch.Tensor, gradients: Sequence[torch.Tensor], *_: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*gradients)
        return energy

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, weight: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return None, None, *(weight.to(x) * x for x in ctx.saved_tensors)


def of_tensors(
    summed: _Summed, positions: torch.Tensor, charges: Any, cell: Any, wanted: Sequence[bool], per_atom: bool
) -> tuple[Any, ...]:
    """The results of a process, the share of the energy in the graph of its positions and charges."""
    r, q, h = (x if isinstance(x, torch.Tensor) else torch.as_tensor(x) for x in (positions, charges, cell))
    # The same in all processes, also in those without atoms, whose tensors may be in no graph.
    is_in_graph = torch.is_grad_enabled() and not per_atom

    def arrays() -> list[np.ndarray]:
        if is_in_graph and h.requires_grad:
            words = "a cell without gradients: `compute_virial` has those of a sum of several processes"
            raise NotImplementedError(f"`cell`: expected {words}, got one with requires_grad")
        return [x.detach().cpu().numpy() for x in (r, q, h)]

    found = summed(arrays, [wanted[0] or is_in_graph, wanted[1] or is_in_graph, wanted[2]])
    energy, *others = (None if x is None else torch.from_numpy(x).to(r.device) for x in found)
    if is_in_graph and (r.requires_grad or q.requires_grad):
        energy = _Share.apply(energy, (-others[0].to(r.dtype), others[1].to(q.dtype)), r, q)
    return (energy, *(x for x, is_wanted in zip(others, wanted) if is_wanted))
