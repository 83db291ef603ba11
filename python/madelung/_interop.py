"""Arrays of other libraries: whose they are, and the same memory as arrays of NumPy."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from madelung import _arguments as check

# The type of a framework's arrays, by the package that has it.
_ARRAYS = {"torch": "Tensor", "jax": "Array"}
# Arguments that are no arrays of others, as most are, and the most frequent of these.
_PLAIN = (np.ndarray, np.generic, float, int, str, tuple, list, type(None))
_NUMPY = (np.ndarray, float, int)
# DLPack's numbers of memory that the host reads (its own, and pinned memory of CUDA), and of CUDA's memory.
_HOST, _CUDA = (1, 3), (2, 13)
_EXPECTED = "an array in the memory of the host, of floats or integers"


def framework_of(given: Sequence[Any]) -> str:
    """The name of the framework whose arrays are among the arguments: "cuda" for those of other libraries in the memory
    of a device, NumPy where there is no other."""
    given = [x for x in given if type(x) not in _NUMPY]
    if not given:
        return "numpy"
    for name, kind in _ARRAYS.items():
        package = sys.modules.get(name)
        if package is not None and any([isinstance(x, getattr(package, kind)) for x in given]):
            return name
    return "cuda" if any([_is_on_device(x) for x in given if not isinstance(x, _PLAIN)]) else "numpy"


def _is_on_device(x: Any) -> bool:
    if hasattr(x, "__dlpack_device__"):
        return x.__dlpack_device__()[0] in _CUDA
    return hasattr(x, "__cuda_array_interface__")


def on_host(name: str, x: Any) -> Any:
    """Array of NumPy of what another library has in the host's memory, without a copy; anything else as it is.

    It is one that has `__array_interface__` or `__dlpack__`, or DLPack's capsule, but for tensors of PyTorch and arrays
    of JAX.
    """
    if isinstance(x, _PLAIN):
        return x
    if hasattr(x, "__array_interface__"):
        return np.asarray(x)
    is_capsule = type(x).__name__ == "PyCapsule"
    if not (is_capsule or hasattr(x, "__dlpack__") or hasattr(x, "__cuda_array_interface__")):
        return x
    if framework_of([x]) in _ARRAYS:
        return x
    if not is_capsule and _is_on_device(x):
        if hasattr(x, "__array__"):
            return x
        check.refuse(name, _EXPECTED, "one of a CUDA device, as kernels and `madelung.cuda` take", TypeError)
    return _of_dlpack(name, x, is_capsule)


def _of_dlpack(name: str, x: Any, is_capsule: bool) -> np.ndarray:
    if is_capsule and not re.search('"dltensor(_versioned)?"', repr(x)):
        check.refuse(name, "a capsule of DLPack that nobody has taken yet (or the array itself)", repr(x))
    lent = _Lent(x, is_capsule)
    try:
        array = np.from_dlpack(lent)
    except Exception as error:
        raise TypeError(f"`{name}`: expected {_EXPECTED}, got {check.described(x)} ({error})") from error
    if array.flags.writeable or not lent.is_old:
        return array
    # NumPy takes memory of the old protocol, which does not say whether it may be written to, for read-only.
    return np.asarray(_Writable(array))


class _Lent:
    """Array that `numpy.from_dlpack` takes, or a capsule in the place of one."""

    is_old = False

    def __init__(self, x: Any, is_capsule: bool) -> None:
        self._x, self._is_capsule = x, is_capsule

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._x if self._is_capsule else self._x.__dlpack__(**options)
        self.is_old = '"dltensor"' in repr(capsule)
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        # That of a capsule is in it, where NumPy looks.
        return (_HOST[0], 0) if self._is_capsule else self._x.__dlpack_device__()


class _Writable:
    """Memory of an array that may be written to."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        found = array.__array_interface__
        self.__array_interface__ = {**found, "data": (found["data"][0], False)}


def asarray(x: Any) -> Any:
    """Array of any library as one that kernels take, without a copy.

    Args:
        x: array with `__dlpack__`, `__array_interface__` or `__cuda_array_interface__`: of CuPy, Numba, Paddle, Warp;
            or a capsule of DLPack with memory of the host, which is taken once.

    Returns:
        `x` itself if it is an array of NumPy, PyTorch or JAX; else an array of NumPy of the host's memory, and a tensor
        of PyTorch of a device's.

    Raises:
        TypeError, ValueError: For what is no array, or one of other numbers than NumPy has.
    """
    if isinstance(x, np.ndarray) or framework_of([x]) in _ARRAYS:
        return x
    if framework_of([x]) == "cuda":
        torch = importlib.import_module("torch")
        return torch.from_dlpack(x) if hasattr(x, "__dlpack__") else torch.as_tensor(x, device="cuda")
    found = on_host("x", x)
    if not isinstance(found, np.ndarray):
        check.refuse("x", "an array, with `__dlpack__` or an array interface", check.described(x), TypeError)
    return found
