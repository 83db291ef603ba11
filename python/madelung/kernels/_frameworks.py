"""The framework of a call, by its arrays, and the functions that call an op in each.

A framework is imported when arrays of it are first given: who uses one needs no other.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

# The type of a framework's arrays, by the package that has it.
_ARRAYS = {"torch": "Tensor", "jax": "Array"}


# Arguments that are no arrays of a device, as most are.
_PLAIN = (np.ndarray, float, int, tuple, list)
# DLPack's numbers of CUDA's memory.
_CUDA = (2, 13)


def framework_of(given: Sequence[Any]) -> str:
    """The name of the framework whose arrays are among the arguments: "cuda" for those of other libraries in the memory
    of a device, NumPy where there is no other."""
    for name, kind in _ARRAYS.items():
        package = sys.modules.get(name)
        if package is not None and any([isinstance(x, getattr(package, kind)) for x in given]):
            return name
    return "cuda" if any([_is_on_device(x) for x in given if type(x) not in _PLAIN]) else "numpy"


def _is_on_device(x: Any) -> bool:
    if hasattr(x, "__dlpack_device__"):
        return x.__dlpack_device__()[0] in _CUDA
    return hasattr(x, "__cuda_array_interface__")


def opened(framework: str, given: Mapping[str, Any], stream: Any) -> tuple[Any, Mapping[str, Any]]:
    """The `Framework` of a call on a stream (None: the framework's own), and the call's arguments as it takes them."""
    return importlib.import_module(f"madelung.{framework}._kernels").opened(given, stream)


class Calls:
    """An op's functions, one for each framework."""

    def __init__(self, target: Callable[[], Any]) -> None:
        # By framework: what opens a call, the op as it has it, and the function that calls it with all inputs in order.
        self.made: dict[str, tuple[Any, Any, Callable[..., Any]]] = {}

        def prepare(framework: str) -> bool:
            """Registers the op with a framework where it was not."""
            if framework not in self.made:
                module = importlib.import_module(f"madelung.{framework}._kernels")
                self.made[framework] = (module.opened, *module.add(target()))
            return True

        # `torch.compiler.assume_constant_result`: where the first call is compiled, this runs while it is traced.
        prepare._dynamo_marked_constant = True  # type: ignore[attr-defined]
        self.prepare = prepare

    def of(self, framework: str) -> tuple[Any, Any, Callable[..., Any]]:
        """See `made`."""
        self.prepare(framework)
        return self.made[framework]
