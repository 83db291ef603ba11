"""A little XLA for the handlers of targets, on the driver of the stand-ins: registration, and frames of calls.

The structures are those of jaxlib's `xla/ffi/api/c_api.h`, declared apart from the package's own. For programs that run
on the stand-ins (`stand_in.run`).
"""

from __future__ import annotations

import ctypes as c
from typing import Any

import jax
import numpy as np

from device_lenders import _python
from kernel_cases import Atom, System, real_space
from madelung.kernels import Array, Batch, Mat3, Out, Pairs, Real, Vec3, launch

_HEAD = [("struct_size", c.c_size_t), ("extension_start", c.c_void_p)]
_EXECUTE, _BUFFER, _ARRAY, _SCALAR, _STRING = 3, 1, 1, 3, 4
_DTYPES = {"bool": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint8": 6, "uint16": 7, "uint32": 8, "uint64": 9}
_DTYPES |= {"float16": 10, "float32": 11, "float64": 12, "complex64": 15, "bfloat16": 16, "complex128": 18}


class ErrorCreate(c.Structure):
    _fields_ = [*_HEAD, ("message", c.c_char_p), ("errc", c.c_int)]


class StreamGet(c.Structure):
    _fields_ = [*_HEAD, ("ctx", c.c_void_p), ("stream", c.c_void_p)]


class ApiVersion(c.Structure):
    _fields_ = [*_HEAD, ("major_version", c.c_int), ("minor_version", c.c_int)]


CREATE = c.CFUNCTYPE(c.c_void_p, c.POINTER(ErrorCreate))
GET = c.CFUNCTYPE(c.c_void_p, c.POINTER(StreamGet))


class Api(c.Structure):
    _fields_ = [*_HEAD, ("version", ApiVersion), ("internal_api", c.c_void_p), ("error_create", CREATE)]
    _fields_ += [(name, c.c_void_p) for name in ("error_get_message", "error_destroy", "handler_register")]
    _fields_ += [("stream_get", GET), ("others", c.c_void_p * 12)]


class Buffer(c.Structure):
    _fields_ = [*_HEAD, ("dtype", c.c_int), ("data", c.c_void_p), ("rank", c.c_int64), ("dims", c.POINTER(c.c_int64))]


class ByteSpan(c.Structure):
    _fields_ = [("ptr", c.c_char_p), ("len", c.c_size_t)]


class Scalar(c.Structure):
    _fields_ = [("dtype", c.c_int), ("value", c.c_void_p)]


class Numbers(c.Structure):
    _fields_ = [("dtype", c.c_int), ("size", c.c_size_t), ("data", c.c_void_p)]


class Arrays(c.Structure):
    _fields_ = [*_HEAD, ("size", c.c_int64), ("types", c.POINTER(c.c_int)), ("args", c.POINTER(c.c_void_p))]


class Attrs(c.Structure):
    _fields_ = [*_HEAD, ("size", c.c_int64), ("types", c.POINTER(c.c_int)), ("names", c.POINTER(c.POINTER(ByteSpan)))]
    _fields_ += [("attrs", c.POINTER(c.c_void_p))]


class CallFrame(c.Structure):
    _fields_ = [*_HEAD, ("api", c.POINTER(Api)), ("ctx", c.c_void_p), ("stage", c.c_int), ("args", Arrays)]
    _fields_ += [("rets", Arrays), ("attrs", Attrs), ("future", c.c_void_p)]


class Metadata(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("api_version", ApiVersion), ("traits", c.c_uint32)]


class MetadataExtension(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("type", c.c_int), ("next", c.c_void_p), ("metadata", c.POINTER(Metadata))]


HANDLER = c.CFUNCTYPE(c.c_void_p, c.POINTER(CallFrame))

# By name: the handlers for CUDA that were registered since this was imported.
targets: dict[str, Any] = {}
_register = jax.ffi.register_ffi_target


def _registered(name: str, capsule: Any, platform: str) -> None:
    if platform == "CUDA":
        targets[name] = HANDLER(_python.PyCapsule_GetPointer(capsule, _python.PyCapsule_GetName(capsule)))
    _register(name, capsule, platform=platform)


jax.ffi.register_ffi_target = _registered


def _made(kind: type[c.Structure], *values: Any) -> Any:
    """A struct that begins with its size and no extension."""
    return kind(c.sizeof(kind), None, *values)


# The errors that handlers made, by their numbers.
_errors: list[tuple[int, str]] = []
# The stream of the running call; None: XLA has none.
_stream: int | None = None


@CREATE
def _error_create(args: Any) -> int:
    _errors.append((args.contents.errc, args.contents.message.decode()))
    return len(_errors)


@GET
def _stream_get(args: Any) -> int:
    if _stream is None:
        _errors.append((12, "no stream"))
        return len(_errors)
    args.contents.stream = _stream
    return 0


_API = _made(Api, _made(ApiVersion, 0, 1), None, _error_create, None, None, None, _stream_get)


def _arrays(given: Any) -> tuple[Any, Any]:
    """Arrays of the memory of a device: blocks of it, or what has one."""
    kept, pointers = [], []
    for x in given:
        block = getattr(x, "block", x)
        dims = (c.c_int64 * max(len(block.shape), 1))(*block.shape)
        kept += [dims, _made(Buffer, _DTYPES[block.dtype.name], block.address, len(block.shape), dims)]
        pointers.append(c.addressof(kept[-1]))
    n = len(pointers)
    types = (c.c_int * max(n, 1))(*[_BUFFER] * n)
    return _made(Arrays, n, types, (c.c_void_p * max(n, 1))(*pointers)), kept


def _attributes(given: dict[str, Any]) -> tuple[Any, Any]:
    kept, types, items, names = [], [], [], []
    for name, x in sorted(given.items()):
        names.append(ByteSpan(name.encode(), len(name)))
        if isinstance(x, str):
            types.append(_STRING)
            kept.append(ByteSpan(x.encode(), len(x.encode())))
        else:
            x = np.asarray(x)
            kept.append(x)
            types.append(_ARRAY if x.ndim else _SCALAR)
            dtype = _DTYPES[x.dtype.name]
            kept.append(Numbers(dtype, x.size, x.ctypes.data) if x.ndim else Scalar(dtype, x.ctypes.data))
        items.append(c.addressof(kept[-1]))
    n, room = len(items), max(len(items), 1)
    spans = (c.POINTER(ByteSpan) * room)(*map(c.pointer, names))
    return _made(Attrs, n, (c.c_int * room)(*types), spans, (c.c_void_p * room)(*items)), (kept, names)


def call(name: str, stream: int | None, inputs: Any, outputs: Any, **attrs: Any) -> tuple[int, str] | None:
    """Calls the handler of a target as XLA does on a device; the code and text of its error."""
    global _stream
    _stream = stream
    (args, a), (rets, b), (attributes, d) = _arrays(inputs), _arrays(outputs), _attributes(attrs)
    frame = _made(CallFrame, c.pointer(_API), None, _EXECUTE, args, rets, attributes, None)
    failed = targets[name](frame)
    del a, b, d
    return _errors[failed - 1] if failed else None


def traits(name: str) -> int:
    """The traits that a handler answers with when it is registered."""
    metadata = Metadata(c.sizeof(Metadata), _made(ApiVersion, -1, -1), 0)
    extension = MetadataExtension(c.sizeof(MetadataExtension), 1, None, c.pointer(metadata))
    frame = CallFrame(c.sizeof(CallFrame), c.addressof(extension))
    assert not targets[name](frame)
    assert (metadata.api_version.major_version, metadata.api_version.minor_version) == (0, 1)
    return metadata.traits


def energies(
    positions: Array[Vec3, Atom],
    charges: Array[Real, Atom],
    cell: Array[Mat3, System],
    alpha: Array[Real, System],
    cutoff: Real,
    atoms: Batch[Atom, System],
    pairs: Pairs[Atom],
    energy: Out[Real, Atom],
    total: Out[Real, System],
) -> None:
    """A function for `jax_callable` that launches a kernel."""
    inputs = {"positions": positions, "charges": charges, "cell": cell, "alpha": alpha}
    inputs |= {"cutoff": cutoff, "atoms": atoms, "pairs": pairs}
    launch(real_space, inputs, {"energy": energy, "total": total})
