"""Python functions as targets of `jax.ffi.ffi_call`, on the buffers of XLA themselves.

The structures are those of XLA's `ffi/api/c_api.h`, as `crates/bridge-jax` has them: the common prefix of the runtimes
from 0.1 on.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from madelung import _arguments as check
from madelung.cuda import _arrays

_VERSION = (0, 1)
_METADATA, _EXECUTE, _BUFFER, _INVALID_ARGUMENT = 1, 3, 1, 3
_ARRAY, _SCALAR, _STRING = 1, 3, 4
_DTYPES = {1: "bool", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "uint8", 7: "uint16", 8: "uint32", 9: "uint64"}
_DTYPES |= {10: "float16", 11: "float32", 12: "float64", 15: "complex64", 18: "complex128"}
_OF = {n: np.dtype(name) for n, name in _DTYPES.items()} | {16: np.dtype(jnp.bfloat16)}


def _struct(**fields: Any) -> type[c.Structure]:
    return type("Struct", (c.Structure,), {"_fields_": list(fields.items())})


_HEAD = {"size": c.c_size_t, "extension": c.c_void_p}
_Extension = _struct(size=c.c_size_t, kind=c.c_uint32, next=c.c_void_p)
_Version = _struct(**_HEAD, major=c.c_int, minor=c.c_int)
_Metadata = _struct(size=c.c_size_t, version=_Version, traits=c.c_uint32)
_MetadataExtension = _struct(base=_Extension, metadata=c.POINTER(_Metadata))
_StreamGet = _struct(**_HEAD, context=c.c_void_p, stream=c.c_size_t)
_ErrorCreate = _struct(**_HEAD, message=c.c_char_p, code=c.c_uint32)
_CREATE = c.CFUNCTYPE(c.c_void_p, c.POINTER(_ErrorCreate))
_GET = c.CFUNCTYPE(c.c_void_p, c.POINTER(_StreamGet))
_Api = _struct(
    **_HEAD, version=_Version, internal=c.c_void_p, error_create=_CREATE, between=c.c_void_p * 3, stream_get=_GET
)
_Text = _struct(start=c.c_void_p, length=c.c_size_t)
_Scalar = _struct(dtype=c.c_uint32, value=c.c_void_p)
_Array = _struct(dtype=c.c_uint32, length=c.c_size_t, data=c.c_void_p)
_Buffer = _struct(**_HEAD, dtype=c.c_uint32, data=c.c_void_p, rank=c.c_int64, dims=c.POINTER(c.c_int64))
_Many = {**_HEAD, "count": c.c_int64, "kinds": c.POINTER(c.c_uint32)}
_Buffers = _struct(**_Many, items=c.POINTER(c.POINTER(_Buffer)))
_Attributes = _struct(**_Many, names=c.POINTER(c.POINTER(_Text)), items=c.POINTER(c.c_void_p))
_Frame = _struct(
    **_HEAD,
    api=c.POINTER(_Api),
    context=c.c_void_p,
    stage=c.c_uint32,
    operands=_Buffers,
    results=_Buffers,
    attributes=_Attributes,
)


@dataclass(frozen=True)
class FfiContext:
    """Context of a callback: `stream` is the handle of XLA's CUDA stream, and None on the CPU."""

    stream: int | None = None


class _Failure(Exception):
    """An error of XLA's own."""


def _memory(address: int, number: int, shape: tuple[int, ...], writeable: bool) -> np.ndarray:
    """An array of memory of the host that is there."""
    dtype = _dtype(number)
    if 0 in shape:
        return np.zeros(shape, dtype)
    # NumPy has no name for some dtypes: the bytes are read first.
    interface = {"data": (address, not writeable), "shape": shape, "typestr": f"|V{dtype.itemsize}", "version": 3}
    return np.asarray(SimpleNamespace(__array_interface__=interface)).view(dtype)


def _dtype(number: int) -> np.dtype:
    if number not in _OF:
        raise TypeError(f"expected arrays of booleans and numbers of at least 8 bits, got XLA's dtype {number}")
    return _OF[number]


def _on_host(_: Any) -> tuple[int | None, Callable[..., Any]]:
    """The stream of a call, and what makes arrays of its memory."""
    return None, _memory


def _on_device(frame: Any) -> tuple[int | None, Callable[..., Any]]:
    """See `_on_host`; arrays are those of `madelung.cuda`."""
    found = _StreamGet(c.sizeof(_StreamGet), None, frame.context, 0)
    if failure := frame.api.contents.stream_get(found):
        raise _Failure(failure)
    stream = _arrays.stream_of(found.stream, None)

    def memory(address: int, number: int, shape: tuple[int, ...], writeable: bool) -> _arrays.Array:
        return _arrays.viewed("array of the call", address or 0, shape, _dtype(number), stream, not writeable)

    return found.stream, memory


def _buffers(of: Any, memory: Callable[..., Any], writeable: bool) -> list[Any]:
    found = [of.items[n].contents for n in range(of.count)]
    return [memory(b.data, b.dtype, tuple(b.dims[: b.rank]), writeable) for b in found]


def _text(at: Any) -> str:
    return c.string_at(at.start, at.length).decode()


def _attributes(of: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for n in range(of.count):
        name, kind, at = _text(of.names[n].contents), of.kinds[n], of.items[n]
        if kind == _STRING:
            found[name] = _text(c.cast(at, c.POINTER(_Text)).contents)
        elif kind == _SCALAR:
            x = c.cast(at, c.POINTER(_Scalar)).contents
            found[name] = _memory(x.value, x.dtype, (), False)[()].item()
        elif kind == _ARRAY:
            x = c.cast(at, c.POINTER(_Array)).contents
            found[name] = _memory(x.data, x.dtype, (x.length,), False).copy()
        else:
            raise TypeError(f"`{name}`: expected a number, a text or an array of numbers, got a dictionary")
    return found


# By name: the function, and what XLA calls, which must not be freed, with its trait.
_FUNCTIONS: dict[str, Callable[..., None]] = {}
_HANDLERS: dict[str, tuple[int, list[Any]]] = {}
# By platform: where its arrays lie.
_PLATFORMS = {"cpu": _on_host, "CUDA": _on_device}
# XLA's trait of handlers whose work it may capture in a command buffer.
_CAPTURABLE = 1


def _handler(name: str, place: Callable[[Any], Any], traits: int) -> Any:
    @c.CFUNCTYPE(c.c_void_p, c.POINTER(_Frame))
    def handler(at: Any) -> int | None:
        frame = at.contents
        if frame.extension and c.cast(frame.extension, c.POINTER(_Extension)).contents.kind == _METADATA:
            metadata = c.cast(frame.extension, c.POINTER(_MetadataExtension)).contents.metadata.contents
            metadata.version.major, metadata.version.minor = _VERSION
            metadata.traits = traits
            return None
        if frame.stage != _EXECUTE:
            return None
        try:
            stream, memory = place(frame)
            inputs, outputs = _buffers(frame.operands, memory, False), _buffers(frame.results, memory, True)
            token = _arrays.CURRENT.set(stream or _arrays.CURRENT.get())
            try:
                _FUNCTIONS[name](inputs, outputs, _attributes(frame.attributes), FfiContext(stream))
            finally:
                _arrays.CURRENT.reset(token)
        except _Failure as failure:
            return failure.args[0]
        except BaseException as error:
            message = f"`{name}`: {type(error).__name__}: {error}".encode()
            arguments = _ErrorCreate(c.sizeof(_ErrorCreate), None, message, _INVALID_ARGUMENT)
            return frame.api.contents.error_create(arguments)
        return None

    return handler


def register_ffi_callback(name: str, func: Callable[..., None], graph_compatible: bool = False) -> None:
    """Registers a Python function as a target of `jax.ffi.ffi_call`, on the CPU and on GPUs.

    It is called as func(inputs, outputs, attrs, ctx), while the program runs: with lists of arrays on XLA's own
    buffers, without a copy, of which those of the inputs are read-only and those of the outputs are to be written; a
    dict of the attributes of the call; and a context. On the CPU the arrays are NumPy's, and `ctx.stream` is None. On a
    GPU they are `madelung.cuda.Array`s, and `ctx.stream` is the handle of XLA's stream, on which work is put that
    nobody waits for. Calls of `madelung.kernels.launch` and `madelung.cuda` that name no stream are on it, so one
    function may serve both. The arrays may not be kept: when the function returns, their memory is XLA's again, on a
    GPU for what comes on the stream later. The function must not call JAX; what it raises is an error of the call.

    Args:
        name: that of the target. A function that was registered under it here is replaced, in compiled programs too.
        func: the function.
        graph_compatible: whether XLA may capture what the function puts on the stream in a CUDA graph. The function is
            then called when a graph is made, and not when it runs: it must not wait, copy from or to the host, look at
            values, or do what is to be done at every run. Memory that its launches need stays while XLA has the graph.

    Raises:
        TypeError: For something else than a name, a function and a flag.
        ValueError: For another `graph_compatible` than before under this name.
    """
    if not isinstance(name, str) or not name:
        check.refuse("name", "the name of a target", repr(name), TypeError)
    if not callable(func):
        check.refuse("func", "a function of (inputs, outputs, attrs, ctx)", check.described(func), TypeError)
    traits = _CAPTURABLE if check.flag("graph_compatible", graph_compatible) else 0
    before, _ = _HANDLERS.get(name, (traits, []))
    if before != traits:
        check.refuse("graph_compatible", f"{not traits}, with which `{name}` was registered", bool(traits))
    _FUNCTIONS[name] = func
    if name not in _HANDLERS:
        handlers = [_handler(name, place, traits) for place in _PLATFORMS.values()]
        # Kept first, as XLA has the address of what it was given whatever comes then.
        _HANDLERS[name] = traits, handlers
        for platform, handler in zip(_PLATFORMS, handlers):
            jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(c.cast(handler, c.c_void_p)), platform=platform)
