"""Small libraries of arrays in the memory of CUDA devices, on the driver alone: what `madelung.cuda` takes from others.

For programs that run on the stand-ins (`stand_in.run`), which find this folder in their path.
"""

from __future__ import annotations

import ctypes
import sys
from collections import Counter
from typing import Any, ClassVar

import numpy as np

_driver = ctypes.CDLL("libcuda.so.1")
_python = ctypes.pythonapi
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_python.PyCapsule_GetName.restype = ctypes.c_char_p
_python.PyCapsule_GetName.argtypes = (ctypes.py_object,)
_python.PyCapsule_SetName.argtypes = (ctypes.py_object, ctypes.c_char_p)


def driver(name: str, *args: Any) -> None:
    """Calls the driver."""
    code = getattr(_driver, name)(*args)
    assert code == 0, f"{name}: {code}"


def calls(name: str) -> int:
    """How often somebody called a function of the driver."""
    _driver.stand_in_calls.restype = ctypes.c_ulonglong
    return _driver.stand_in_calls(name.encode())


_contexts: dict[int, ctypes.c_void_p] = {}


def context(device: int) -> ctypes.c_void_p:
    """The primary context of a device."""
    if device not in _contexts:
        driver("cuInit", 0)
        _contexts[device] = ctypes.c_void_p()
        driver("cuDevicePrimaryCtxRetain", ctypes.byref(_contexts[device]), device)
    return _contexts[device]


def current() -> int | None:
    """The context that is current."""
    found = ctypes.c_void_p()
    driver("cuCtxGetCurrent", ctypes.byref(found))
    return found.value


class on:
    """A device is current while this lasts."""

    def __init__(self, device: int) -> None:
        self.context = context(device)

    def __enter__(self) -> None:
        driver("cuCtxPushCurrent_v2", self.context)

    def __exit__(self, *_: object) -> None:
        driver("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


def stream(device: int = 0) -> int:
    """A stream that the default one does not wait for."""
    made = ctypes.c_void_p()
    with on(device):
        driver("cuStreamCreate", ctypes.byref(made), 1)
    return made.value


# What copies that are under way read.
_hosts: list[np.ndarray] = []


def wait(device: int, stream: int) -> None:
    """Waits for a stream."""
    with on(device):
        driver("cuStreamSynchronize", ctypes.c_void_p(stream))


class Block:
    """Memory of a device with the elements of an array, copied in the order of a stream, or at once."""

    def __init__(self, array: Any, device: int = 0, stream: int | None = None) -> None:
        self.host = np.array(array, order="C")
        _hosts.append(self.host)
        self.device, self.stream = device, stream
        self.shape, self.dtype = self.host.shape, self.host.dtype
        address = ctypes.c_ulonglong()
        with on(device):
            # A driver gives nothing away for nothing.
            driver("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(self.host.nbytes, 1)))
            self.address = address.value
            what = (address, ctypes.c_void_p(self.host.ctypes.data), ctypes.c_size_t(self.host.nbytes))
            if stream is None:
                driver("cuMemcpyHtoD_v2", *what)
            else:
                driver("cuMemcpyHtoDAsync_v2", *what, ctypes.c_void_p(stream))

    def free(self) -> None:
        """Gives it back at once."""
        with on(self.device):
            driver("cuMemFree_v2", ctypes.c_ulonglong(self.address))

    def free_later(self, stream: int) -> None:
        """Gives it back when a stream has come so far; what is there by then is gone."""
        with on(self.device):
            driver("cuMemFreeAsync", ctypes.c_ulonglong(self.address), ctypes.c_void_p(stream))


class Interface:
    """An array with a `__cuda_array_interface__`; what is said of it can be changed."""

    def __init__(self, array: Any, device: int = 0, stream: int | None = None, **said: Any) -> None:
        self.block = Block(array, device, stream)
        self.__cuda_array_interface__ = {
            "shape": self.block.shape,
            "typestr": self.block.dtype.str,
            "data": (self.block.address, True),
            "strides": None,
            "stream": stream,
            "version": 3,
            **said,
        }


class Tensor(ctypes.Structure):
    """DLPack's array, from its header."""

    _fields_: ClassVar = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


# DLPack's codes of NumPy's kinds, of which bfloat16 has none of its own.
CODES = {"i": 0, "u": 1, "f": 2, "V": 4, "c": 5, "b": 6}

DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    """What is lent, without a version."""

    _fields_: ClassVar = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    """And with one."""

    _fields_: ClassVar = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


FORMS = {b"dltensor": Managed, b"dltensor_versioned": Versioned}

# What was lent and not given back yet, and how often each was given back.
_lent: dict[int, Any] = {}
returned: Counter[int] = Counter()


@DELETER
def _give_back(managed: int) -> None:
    returned[managed] += 1
    del _lent[managed]


class Lender:
    """An array that speaks DLPack: the old one, or version 1 too. What it says can be chosen."""

    def __init__(
        self, array: Any, device: int = 0, versioned: bool = True, kind: int = 2, strides: Any = None, flags: int = 0
    ) -> None:
        self.block, self.versioned, self.kind, self.flags = Block(array, device), versioned, kind, flags
        self.strides, self.asked, self.lent = strides, [], []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, self.block.device

    def __dlpack__(self, stream: Any = None, **more: Any) -> Any:
        if more and not self.versioned:
            raise TypeError("an old lender")
        self.asked.append(stream)
        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        managed = FORMS[name]()
        axes = self.block.host.ndim
        shape = (ctypes.c_int64 * max(axes, 1))(*self.block.shape)
        strides = None if self.strides is None else (ctypes.c_int64 * max(axes, 1))(*self.strides)
        managed.deleter = _give_back
        # The elements begin behind the pointer, to see that the offset counts.
        managed.tensor = Tensor(
            self.block.address - 64,
            self.kind,
            self.block.device,
            axes,
            CODES[self.block.dtype.kind],
            8 * self.block.dtype.itemsize,
            1,
            shape,
            strides,
            64,
        )
        if self.versioned:
            managed.major, managed.flags = 1, self.flags
        address = ctypes.addressof(managed)
        _lent[address] = managed, shape, strides
        self.lent.append(address)
        # It gives back what nobody has taken only where the test does so.
        return _python.PyCapsule_New(address, name, None)


def taken(capsule: Any) -> tuple[Any, Any]:
    """Takes a capsule as any library does: its struct, and a function that gives it back."""
    name = _python.PyCapsule_GetName(capsule)
    address = _python.PyCapsule_GetPointer(capsule, name)
    managed = FORMS[name].from_address(address)
    # Capsules keep the address of their name.
    _names.append(ctypes.create_string_buffer(b"used_" + name))
    assert _python.PyCapsule_SetName(capsule, _names[-1]) == 0
    return managed, lambda: managed.deleter(address)


_names: list[Any] = []


def read(address: int, shape: Any, dtype: Any, device: int, stream: int) -> np.ndarray:
    """Elements of a device, read in the order of a stream."""
    host = np.empty(shape, dtype)
    with on(device):
        what = (ctypes.c_void_p(host.ctypes.data), ctypes.c_ulonglong(address), ctypes.c_size_t(host.nbytes))
        driver("cuMemcpyDtoHAsync_v2", *what, ctypes.c_void_p(stream))
    wait(device, stream)
    return host


def close(found: Any, expected: np.ndarray, tolerance: float = 1e-12) -> None:
    """The largest difference against the largest element."""
    found = np.asarray(found)
    assert found.shape == expected.shape and found.dtype == expected.dtype, (found, expected)
    if expected.size == 0:
        return
    scale = max(np.abs(expected).max(), 1e-300)
    error = np.abs(found.astype(np.float64) - expected).max() / scale
    assert error <= tolerance, f"{error:.1e}"


def refused(kind: type[Exception], *parts: str) -> Any:
    """A context in which an error of a kind with these words is raised."""
    return _Refused(kind, parts)


class _Refused:
    def __init__(self, kind: type[Exception], parts: tuple[str, ...]) -> None:
        self.kind, self.parts = kind, parts

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, _: Any) -> bool:
        assert kind is self.kind, f"{error!r} in place of {self.kind.__name__} with {self.parts}"
        assert all(part in str(error) for part in self.parts), f"{error} without {self.parts}"
        print(f"{kind.__name__}: {error}", file=sys.stderr)
        return True
