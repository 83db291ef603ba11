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
    summed: _Summed,
    positions: torch.Tensor,
    charges: Any,
    fixed: dict[str, Any],
    wanted: Sequence[bool],
    per_atom: bool,
) -> tuple[Any, ...]:
    """The results of a process, the share of the energy in the graph of its positions and charges, not of what is
    `fixed`, the cell and parameters."""
    # The same in all processes, also in those without atoms, whose tensors may be in no graph.
    is_in_graph = torch.is_grad_enabled() and not per_atom

    def arrays() -> list[Any]:
        for name, x in fixed.items():
            if is_in_graph and getattr(x, "requires_grad", False):
                words = (
                    "no tensor with requires_grad; a sum of several processes has gradients by positions and charges"
                )
                raise NotImplementedError(f"`{name}`: expected {words}, and a virial")
        given = (positions, charges, fixed["cell"])
        return [x.detach().cpu().numpy() if isinstance(x, torch.Tensor) else x for x in given]

    found = summed(arrays, [wanted[0] or is_in_graph, wanted[1] or is_in_graph, wanted[2]])
    energy, *others = (None if x is None else torch.from_numpy(x).to(positions.device) for x in found)
    of = [x if isinstance(x, torch.Tensor) else positions.detach() for x in (positions, charges)]
    if is_in_graph and any(x.requires_grad for x in of):
        energy = _Share.apply(energy, (-others[0].to(of[0]), others[1].to(of[1])), *of)
    return (energy, *(x for x, is_wanted in zip(others, wanted) if is_wanted))
