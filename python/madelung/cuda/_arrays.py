"""Arrays in the memory of CUDA devices, in and out, and the streams that work on them is put on.

No array library is needed: arrays from outside speak DLPack or have a `__cuda_array_interface__`, and ours have both.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt

from madelung import _arguments as check
from madelung import _cuda, _native

# CUDA's handle of the legacy default stream.
_LEGACY = 1

# The stream of calls that name none.
CURRENT: ContextVar[int] = ContextVar("madelung stream", default=_LEGACY)

# DLPack's numbers of devices.
_CPU, _CUDA, _CUDA_MANAGED = 1, 2, 13

# Of copies of NumPy's arrays, and those that libraries name as NumPy does.
_DTYPES = tuple(map(np.dtype, ("f8", "f4", "i8", "i4")))
_CARRIED = (*_DTYPES, *map(np.dtype, ("?", "i1", "i2", "u1", "u2", "u4", "u8", "f2", "c8", "c16")))


# NumPy makes a dtype of a name, and the name of one, anew each time.
@functools.cache
def _dtype_of(name: str) -> np.dtype:
    return _bfloat16() if name == "bfloat16" else np.dtype(name)


@functools.cache
def _name_of(dtype: Any) -> str:
    return np.dtype(dtype).name


# For errors: the expected arrays.
ON_DEVICE = "an array in the memory of a CUDA device (`madelung.cuda.asarray` copies NumPy's)"


class Array:
    """An array in the memory of a CUDA device, in row-major order. Only launches of kernels and graphs write to it.

    It may have any dtype of DLPack's: booleans, integers, real and complex numbers of 8 bits and more. Calls here take
    float32, float64, int32 and int64, and refuse others by the argument's name.

    It goes to CuPy (`cupy.asarray`), Numba (`numba.cuda.as_cuda_array`), PyTorch (`torch.from_dlpack`), JAX
    (`jax.dlpack.from_dlpack`) and other libraries that speak DLPack or read `__cuda_array_interface__`, without a
    copy, and its memory stays as long as any of them has it. It was written in the order of a stream; both protocols
    let the taker's stream wait for that. Memory without an owner goes to later work of its stream, so a taker that
    works on another stream keeps the array until that stream is done with it.
    """

    __slots__ = ("__weakref__", "_native")

    def __init__(self, native: _native.DeviceArray) -> None:
        self._native = native

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of every axis."""
        return self._native.shape

    @property
    def dtype(self) -> np.dtype:
        """The type of the elements, as NumPy has it: bfloat16 is that of `ml_dtypes`."""
        return _dtype_of(self._native.dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def device(self) -> int:
        """The device, as CUDA counts those that are visible."""
        return self._native.device

    @property
    def stream(self) -> int | None:
        """The handle of the stream in whose order it was written; None where that was over when it came."""
        return self._native.stream

    def reshape(self, shape: Sequence[int]) -> Array:
        """An array of the same elements in another shape."""
        if math.prod(shape) != self.size:
            check.refuse("shape", f"one of {self.size} elements", tuple(shape))
        return part(self, 0, shape)

    def numpy(self) -> npt.NDArray:
        """A copy in the host's memory, for which it waits."""
        return self._native.read(stream_of(self.stream, self.device)).view(self.dtype).reshape(self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray:
        if copy is False:
            check.refuse("copy", "True or None: the elements lie in the memory of a CUDA device", False)
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._native.dtype == "bfloat16":
            raise AttributeError("`__cuda_array_interface__`: it has no bfloat16, which DLPack has")
        # 0 is not allowed: it does not say which default stream it is.
        stream = _LEGACY if self.stream == 0 else self.stream
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._native.address, self._native.read_only),
            "strides": None,
            "stream": stream,
            "version": 3,
        }

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        versioned = max_version is not None and max_version[0] >= 1
        if dl_device is not None and tuple(dl_device) == (_CPU, 0) and copy is not False:
            host = self.numpy()
            return host.__dlpack__(max_version=max_version) if versioned else host.__dlpack__()
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            got = f"{tuple(dl_device)} with copy={copy}"
            raise BufferError(f"`dl_device`: expected {self.__dlpack_device__()}, where the array lies, got {got}")
        if stream == 0:
            check.refuse("stream", "1, 2, -1 or the handle of a stream", 0)
        waits = None if stream == -1 else stream_of(_LEGACY if stream is None else stream, self.device)
        native = self._native
        if copy:
            native = native.copy(waits or stream_of(self.stream, self.device))
        return native.lend(waits, bool(copy) if versioned else None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, self.device

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __getitem__(self, n: int) -> Array:
        rows, row = len(self), self.shape[1:]
        if not -rows <= (n := operator.index(n)) < rows:
            raise IndexError(f"row {n} of {rows}")
        return part(self, n % rows * math.prod(row), row)

    def __repr__(self) -> str:
        return f"madelung.cuda.Array({self.dtype} of shape {self.shape} on device {self.device})"


def _bfloat16() -> np.dtype:
    try:
        import ml_dtypes
    except ImportError:
        # Two bytes of this name: NumPy has no such numbers.
        return np.dtype([("bfloat16", np.uint16)])
    return np.dtype(ml_dtypes.bfloat16)


def part(array: Array, first: int, shape: Sequence[int]) -> Array:
    """Elements from `first` on in a shape of their own, in the array's memory."""
    return Array(array._native.part(first, list(shape)))


def asarray(x: Any, device: int | None = None, stream: Any = None) -> Array:
    """An array of a CUDA device: without a copy of one that lies there, and a copy of one that NumPy takes.

    Args:
        x: anything that has `__dlpack__` or `__cuda_array_interface__` and lies in the memory of a device, or what
            `numpy.asarray` makes an array of float32, float64, int32 or int64 of.
        device: for a copy: which device, as CUDA counts those that are visible. None: the first one.
        stream: as for `madelung.cuda.ewald_summation`. The host waits for a copy.

    Raises:
        TypeError, ValueError: For another dtype (of a device's array: one that NumPy and DLPack have not in common) or
            layout; `device`, where the array lies on another one.
    """
    ordinal = None if device is None else check.count("device", device)
    if is_given(x):
        array = arrays_of({"x": x}, stream)[0]["x"]
        if ordinal not in (None, array.device):
            check.refuse("device", f"{array.device}, where the array lies", ordinal)
        return array
    host = np.asarray(x)
    if host.dtype not in _DTYPES:
        check.refuse("x", "float32, float64, int32 or int64", host.dtype, TypeError)
    return uploaded(host, stream_of(stream, ordinal or 0))


def uploaded(host: Any, stream: _native.DeviceStream) -> Array:
    """A copy of NumPy's array. Waits for the stream."""
    kind = host.dtype.newbyteorder("=")
    # `require` makes an axis of none.
    plain = np.require(host, kind, ["C", "A"]).reshape(host.shape)
    return Array(_native.device_upload(plain, stream))


def filled(shape: Sequence[int], dtype: Any, x: float, stream: _native.DeviceStream) -> Array:
    """One number everywhere."""
    return Array(_native.device_filled(list(shape), _name_of(dtype), x, stream))


def constant(count: int, dtype: Any, x: float, stream: _native.DeviceStream) -> Array:
    """One number everywhere, as an input of ops that nobody gets: kept for later calls on the stream."""
    return Array(_native.device_constant(count, _name_of(dtype), x, stream))


def stream_of(stream: Any, device: int | None) -> _native.DeviceStream:
    """The stream of a device that a caller means: a handle, or any library's object for one. None: of its device."""
    _cuda.prepare()
    return _native.DeviceStream(device, _handle(stream), stream)


def _handle(stream: Any) -> int:
    if stream is None:
        return CURRENT.get()
    if isinstance(stream, bool):
        check.refuse("stream", _STREAMS, check.described(stream), TypeError)
    found = stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        # Some have it as a property.
        answer = protocol() if callable(protocol) else protocol
        if not (isinstance(answer, tuple) and len(answer) == 2 and answer[0] == 0):
            check.refuse("stream", "(0, handle) from its `__cuda_stream__`", answer)
        found = answer[1]
    else:
        for name in ("cuda_stream", "ptr", "handle"):
            if hasattr(stream, name):
                found = getattr(stream, name)
                break
    # Numba has an object of ctypes.
    found = getattr(found, "value", found)
    try:
        # An object of ctypes has None for 0.
        handle = 0 if found is None else operator.index(found)
    except TypeError:
        check.refuse("stream", _STREAMS, check.described(stream), TypeError)
    if handle < 0:
        check.refuse("stream", _STREAMS, handle)
    return handle or _LEGACY


_STREAMS = "the handle of a stream, or an object with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`"


def is_given(x: Any) -> bool:
    """Whether it says that it lies in the memory of a CUDA device."""
    if x is None:
        return False
    return isinstance(x, Array) or _device_of(x) is not None or _interface(x) is not None


def _device_of(x: Any) -> tuple[int, int] | None:
    """The device of an array of DLPack, if it is one of CUDA's."""
    if isinstance(x, np.ndarray) or not (hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")):
        return None
    kind, ordinal = x.__dlpack_device__()
    return (int(kind), int(ordinal)) if kind in (_CUDA, _CUDA_MANAGED) else None


def _interface(x: Any) -> Any:
    try:
        return getattr(x, "__cuda_array_interface__", None)
    except Exception:
        # PyTorch has the attribute on the CPU too, where it raises.
        return None


def arrays_of(given: dict[str, Any], stream: Any) -> tuple[dict[str, Array], _native.DeviceStream]:
    """The arrays of a call by their names, all on the device of the first one, and the stream of the call."""
    places = {name: _place(name, x) for name, x in given.items()}
    # Arrays without elements may not know where they lie.
    first = next((place for place in places.values() if place is not None), 0)
    for name, place in places.items():
        if place not in (None, first):
            check.refuse(name, f"an array of device {first}, as the other arrays", f"one of device {place}")
    on = stream_of(stream, first)
    return {name: _taken(name, x, on) for name, x in given.items()}, on


def _place(name: str, x: Any) -> int | None:
    if isinstance(x, Array):
        x._native.check(name)
        return x.device
    at = _device_of(x)
    if at is not None:
        return at[1]
    interface = _interface(x)
    if not isinstance(interface, dict):
        check.refuse(name, ON_DEVICE, check.described(x), TypeError)
    address, shape = _entry(name, interface, "data")[0], _entry(name, interface, "shape")
    return None if 0 in shape else _native.device_of_pointer(name, address)


def _taken(name: str, x: Any, stream: _native.DeviceStream) -> Array:
    if isinstance(x, Array):
        return x
    if _device_of(x) is not None:
        if stream.captures and type(x).__module__.partition(".")[0] in ("jax", "jaxlib"):
            check.refuse(
                name, "in a capture, what `madelung.cuda.asarray` made of an array of JAX before", "one of JAX"
            )
        # -1: a capture waits for no other stream.
        handle = -1 if stream.captures else stream.handle
        return Array(_native.device_from_capsule(name, stream.within(lambda: _capsule(x, handle)), stream))
    return _from_interface(name, x, stream.device)


def _capsule(x: Any, stream: int) -> Any:
    try:
        return x.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:
        # Older than version 1.
        return x.__dlpack__(stream=stream)


def _entry(name: str, interface: dict[str, Any], key: str) -> Any:
    value = interface.get(key)
    if not isinstance(value, tuple):
        check.refuse(name, f"a tuple as `{key}` of its `__cuda_array_interface__`", check.described(value))
    return value


def viewed(
    name: str, address: int, shape: Sequence[int], dtype: np.dtype, stream: _native.DeviceStream, read_only: bool
) -> Array:
    """Memory of a stream's device as an array, which may be used while somebody else keeps it."""
    layout = (address, tuple(shape), None)
    return Array(_native.device_from_address(name, read_only, layout, _name_of(dtype), stream.device, stream, None))


def _from_interface(name: str, x: Any, device: int) -> Array:
    interface = _interface(x)
    if interface.get("mask") is not None:
        check.refuse(name, "an array without a mask", "a masked one")
    try:
        dtype = np.dtype(interface.get("typestr"))
    except TypeError:
        dtype = None
    if dtype not in _CARRIED:
        expected = "booleans, integers, or real or complex numbers in the machine's order of bytes"
        check.refuse(name, expected, interface.get("typestr"), TypeError)
    shape = tuple(operator.index(n) for n in _entry(name, interface, "shape"))
    address, read_only = _entry(name, interface, "data")
    stream = interface.get("stream")
    if stream == 0:
        check.refuse(name, "1, 2 or a handle as `stream` of its `__cuda_array_interface__`", 0)
    written = None if stream is None else stream_of(stream, device)
    strides = interface.get("strides")
    layout = (operator.index(address), shape, None if strides is None else tuple(strides))
    return Array(_native.device_from_address(name, bool(read_only), layout, _name_of(dtype), device, written, x))
