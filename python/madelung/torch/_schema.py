"""The ops as the dispatcher has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch

from madelung import _schema


class Op(_schema.Op):
    """An op of the dispatcher."""

    float32, float64 = torch.float32, torch.float64
    integers: ClassVar = {"i32": torch.int32, "i64": torch.int64}
    stored = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    # The dispatcher's kernels have no lists before PyTorch 2.10: integers of the host are a tensor on the CPU.
    tensor_types: ClassVar = {"tensor", "integers"}

    def __init__(self, described: dict[str, Any]) -> None:
        super().__init__(described)
        self.schemas: dict[str, str] = dict(described["schemas"])

    @property
    def members(self) -> list[str]:
        """The suffixes of its members."""
        return list(self.schemas)

    def overload(self, member: str, private: bool) -> Callable[..., Any]:
        """A member in the dispatcher; the private one is not seen by autograd."""
        packet = getattr(torch.ops, self.namespace)
        return getattr(packet, f"{'_' if private else ''}{self.name}{member}").default

    def check_kinds(self, args: Sequence[Any]) -> None:
        """Whether there are as many arguments as inputs, and tensors where they have to be."""
        names = [i.name for i in self.inputs]
        if len(args) != len(names):
            raise TypeError(f"{self!r}: expected {len(names)} arguments ({', '.join(names)}), got {len(args)}")
        for n in self.tensors:
            if not isinstance(args[n], torch.Tensor):
                raise TypeError(f"`{names[n]}`: expected a tensor, got {type(args[n]).__name__}")

    def check(self, flat: Sequence[Any]) -> None:
        """The checks of every framework, and of devices."""
        first = self.reals[0] if self.reals else self.tensors[0]
        for n in self.tensors:
            if self.inputs[n].type == "tensor" and flat[n].device != flat[first].device:
                raise ValueError(
                    f"`{self.inputs[n].name}`: expected a tensor on {flat[first].device} like "
                    f"`{self.inputs[first].name}` (`.to(…)` moves it), got one on {flat[n].device}"
                )
        super().check(flat)


def parse(described: str) -> list[Op]:
    """The ops of a description."""
    return [Op(d) for d in json.loads(described)]
