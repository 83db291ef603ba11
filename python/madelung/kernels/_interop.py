"""Arrays of other libraries."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung.kernels._frameworks import framework_of

# DLPack's numbers of memory that the host reads: its own, and pinned memory of CUDA.
_HOST = (1, 3)


def asarray(x: Any) -> Any:
    """Array of any library as one that kernels take, without a copy.

    Args:
        x: array with `__dlpack__`, `__array_interface__` or `__cuda_array_interface__`: of CuPy, Numba, Paddle, Warp.

    Returns:
        `x` itself if it is an array of NumPy, PyTorch or JAX; else an array of NumPy of the host's memory, and a tensor
        of PyTorch of a device's.

    Raises:
        TypeError: For what is no array.
    """
    if isinstance(x, np.ndarray) or framework_of([x]) in ("torch", "jax"):
        return x
    if hasattr(x, "__dlpack__"):
        on_host = int(x.__dlpack_device__()[0]) in _HOST
        return (np if on_host else importlib.import_module("torch")).from_dlpack(x)
    if hasattr(x, "__cuda_array_interface__"):
        return importlib.import_module("torch").as_tensor(x, device="cuda")
    if not hasattr(x, "__array_interface__"):
        check.refuse("x", "an array, with `__dlpack__` or an array interface", check.described(x), TypeError)
    return np.asarray(x)
