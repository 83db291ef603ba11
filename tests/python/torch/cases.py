"""Calls of every op, made from its declaration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from conftest import DEVICE
from madelung.torch import _ops
from op_arguments import arguments

# Searches have tests of their own.
OPS = {name: op for name, op in _ops.OPS.items() if op.smooth}


def number(out: Any) -> torch.Tensor:
    """A number that depends on every element of an op's results, not linearly."""
    out = out if isinstance(out, tuple) else (out,)
    return sum((x * x * torch.arange(1, x.numel() + 1, device=x.device).reshape(x.shape)).sum() for x in out)


@dataclass
class Case:
    """An op with arguments that fit its declaration: two small systems, a full list with images, and so on."""

    op: Any
    args: list[Any]
    reals: list[int] = field(init=False)

    def __post_init__(self) -> None:
        # The strain has derivatives of its own, in a test of its own.
        self.reals = [n for n in self.op.reals if not self.op.args[self.op.inputs[n].arg]["zero"]]

    @property
    def name(self) -> str:
        return self.op.short

    @property
    def call(self) -> Callable[..., Any]:
        return getattr(_ops, self.name)

    @property
    def public(self) -> Callable[..., Any]:
        return self.op.overload("", private=False)

    def inputs(self) -> list[torch.Tensor]:
        """New leaves for the differentiable arguments."""
        return [self.args[n].clone().requires_grad_() for n in self.reals]

    def put(self, xs: Sequence[Any]) -> list[Any]:
        """All arguments, with these for the differentiable ones."""
        args = list(self.args)
        for n, x in zip(self.reals, xs):
            args[n] = x
        return args

    def at(self, *xs: Any) -> Any:
        return self.call(*self.put(xs))

    def scalar(self, *xs: Any) -> torch.Tensor:
        """A number that depends on every output, not linearly."""
        return number(self.at(*xs))

    def energy(self, positions: torch.Tensor) -> torch.Tensor:
        """The same, of the first argument alone."""
        return self.scalar(positions, *[self.args[n] for n in self.reals[1:]])

    @property
    def positions(self) -> torch.Tensor:
        return self.args[self.reals[0]]

    def without_rows(self) -> list[Any]:
        """All arguments, without atoms, systems and pairs; types and columns of tables are there without atoms."""
        types = {a["into"] for a in self.op.args if "into" in a}
        types |= {size["dim"] for a in self.op.args for size in a.get("shape", [])[1:2] if "dim" in size}
        shapes = [self.op.args[i.arg].get("shape") or [{}] for i in self.op.inputs]
        rows = [
            isinstance(x, torch.Tensor) and x.shape != (0,) and s[0].get("dim") not in types
            for x, s in zip(self.args, shapes)
        ]
        sizes = [0 if i.part == "systems" else x for i, x in zip(self.op.inputs, self.args)]
        return [x[:0] if there else x for x, there in zip(sizes, rows)]

    def to(self, dtype: torch.dtype) -> Case:
        return Case(self.op, [x.to(dtype) if n in self.op.reals else x for n, x in enumerate(self.args)])


def make(op: Any, seed: int = 0, dtype: torch.dtype = torch.float64) -> Case:
    """A call of an op."""
    args = [torch.tensor(x, device=DEVICE) if isinstance(x, np.ndarray) else x for x in arguments(op, seed)]
    # Lists of the host are tensors on the CPU.
    args = [torch.tensor(x) if isinstance(x, list) else x for x in args]
    return Case(op, args).to(dtype)
