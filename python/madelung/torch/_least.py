"""Minima of functions of second degree, with derivatives by the implicit function theorem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from madelung._functions.minima import Form


class Least(torch.autograd.Function):
    """See `Framework.minimum`."""

    @staticmethod
    def forward(form: Form, slopes: torch.Tensor, start: torch.Tensor, *arrays: torch.Tensor) -> torch.Tensor:
        """The vector, from values."""
        return slopes.new_tensor(form.least(slopes, start, arrays))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        """Keeps the result and what the matrix depends on."""
        ctx.form = inputs[0]
        ctx.save_for_backward(output, *inputs[3:])

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """A solution for the gradient, and derivatives of the matrix between both."""
        found, *arrays = ctx.saved_tensors
        if not torch.is_grad_enabled() and not g.any():
            zeros = (torch.zeros_like(x) if x.requires_grad else None for x in arrays)
            return None, torch.zeros_like(g), torch.zeros_like(g), *zeros
        by = Least.apply(ctx.form, -g, torch.zeros_like(g), *arrays)
        with torch.enable_grad():
            # Views end the differentiation here; what they are of depends on the arrays too.
            views = [x.view_as(x) if x.requires_grad else x for x in (found, *arrays)]
            needed = [x for x in views if x.requires_grad]
            # Vectors of one length: in sums of both neither is lost.
            lengths = [x.detach().norm() for x in (found, by)]
            scale = torch.where((lengths[0] > 0.0) & (lengths[1] > 0.0), lengths[0] / lengths[1], 1.0)
            value = ctx.form.both(by * scale, *views) / scale
            gradients = iter(torch.autograd.grad(value, needed, create_graph=True, allow_unused=True))
        of_found, *of_arrays = (next(gradients) if x.requires_grad else None for x in views)
        return None, -by, g - of_found, *(None if x is None else -x for x in of_arrays)
