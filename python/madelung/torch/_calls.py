"""Calls of ops by their names, in every mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from madelung.torch import _ops


class Calls:
    """The part of a mode that calls ops: see `madelung._functions.framework.Framework`."""

    @staticmethod
    def atoms(system: Any) -> tuple[Any, Any, Any]:
        """See `Framework`."""
        return system.positions, system.lattice, system.atoms

    @staticmethod
    def op(name: str, *inputs: Any) -> tuple[torch.Tensor, ...]:
        """See `Framework`."""
        return getattr(_ops, name)(*inputs)

    @staticmethod
    def search(name: str, *inputs: Any) -> tuple[torch.Tensor, ...]:
        """See `Framework`."""
        found = getattr(_ops, name)(*(x.detach() if isinstance(x, torch.Tensor) else x for x in inputs))
        return found if isinstance(found, tuple) else (found,)

    @staticmethod
    def flags(x: torch.Tensor) -> torch.Tensor:
        """See `Framework`."""
        return x != 0

    @staticmethod
    def indices(values: np.ndarray, like: torch.Tensor) -> torch.Tensor:
        """See `Framework`."""
        return like.new_tensor(values.tolist(), dtype=torch.int32).reshape(values.shape)
