"""Calls of every op, made from its declaration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from madelung.torch import _ops

OPS = _ops.OPS

SYSTEMS, ROWS = 2, 4


def number(out: Any) -> torch.Tensor:
    """A number that depends on every element of an op's results, not linearly."""
    out = out if isinstance(out, tuple) else (out,)
    return sum((x * x * torch.arange(1, x.numel() + 1).reshape(x.shape)).sum() for x in out)


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

    def to(self, dtype: torch.dtype) -> Case:
        return Case(self.op, [x.to(dtype) if n in self.op.reals else x for n, x in enumerate(self.args)])


def _pairs(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A full list within systems, with images, an atom with its own image among them."""
    entries = set()
    for first in range(0, SYSTEMS * ROWS, ROWS):
        for i in range(first, first + ROWS):
            entries |= {(i, i, 1, 0, 0), (i, i, -1, 0, 0)}
            for j in range(i + 1, first + ROWS):
                s = (rng.integers(-1, 2, 3) * (rng.random() < 0.4)).tolist()
                entries |= {(i, j, *s), (j, i, *(-k for k in s))}
    rows = np.array(sorted(entries), dtype=np.int32)
    ptr = np.searchsorted(rows[:, 0], np.arange(SYSTEMS * ROWS + 1)).astype(np.int32)
    return ptr, rows[:, 1].copy(), rows[:, 2:].copy()


def make(op: Any, seed: int = 0, dtype: torch.dtype = torch.float64) -> Case:
    """A call of an op. What is named here is what an argument must satisfy, never an op."""
    rng = np.random.default_rng(seed)
    systems = {a["systems"] for a in op.args if "systems" in a}

    def shape(arg: dict[str, Any]) -> list[int]:
        return [
            s["const"] if "const" in s else SYSTEMS if s["dim"] in systems else SYSTEMS * ROWS for s in arg["shape"]
        ]

    def real(arg: dict[str, Any]) -> np.ndarray:
        if arg["zero"]:
            return np.zeros(0)
        x = rng.uniform(-1, 1, shape(arg))
        if arg["constraint"] == "positive":
            return 0.8 + 0.2 * np.abs(x)
        if x.shape[1:] == (3, 3):
            return 0.2 * x + np.array([3.1, 3.4, -3.7])[:, None] * np.eye(3)
        if x.shape[1:] == (3,):
            # Points stay apart, so that differences of values tell derivatives.
            return 0.25 * x + 0.8 * (np.arange(len(x))[:, None] % ROWS)
        return x

    lists = dict(zip(("ptr", "others", "shifts"), _pairs(rng)))
    args: list[Any] = []
    for i in op.inputs:
        arg = op.args[i.arg]
        if i.part == "real":
            args.append(torch.tensor(real(arg), dtype=dtype))
        elif i.part == "ints":
            # Never 0: wave vectors are made of integers, and that of 0 has no energy.
            args.append(torch.tensor(rng.choice([-1, 1], shape(arg)), dtype=torch.int32))
        elif i.part == "batch_idx":
            args.append(torch.arange(SYSTEMS, dtype=torch.int32).repeat_interleave(ROWS))
        elif i.part in lists:
            args.append(torch.from_numpy(lists[i.part]))
        elif i.part == "list_kind":
            args.append(0)
        elif i.part == "scalar":
            args.append(float(rng.uniform(3.3, 3.6)))
        else:
            raise NotImplementedError(f"{op!r}: the tests have no {i.part} yet")
    return Case(op, args)
