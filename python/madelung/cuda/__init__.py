"""Neighbour lists and Ewald sums of arrays in the memory of an NVIDIA GPU, from any library.

The functions of `madelung.numpy` for CuPy, Numba, PyTorch, JAX, and other libraries that speak DLPack or have a
`__cuda_array_interface__`, without PyTorch or JAX being there. Units, signs and words are those of `madelung.numpy`;
results are `Array`s, which those libraries take without a copy.

`positions` say on which device a call runs, whichever is current. Every other array lies there too, or is one that
NumPy takes and is copied there, for which the host waits. Arrays are in row-major order, of float32 or float64 as the
positions, and of int32 or int64.

A call is put on `stream` and waits for nothing but where its documentation says so: the handle of a stream of the
positions' device, or any library's object for one (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`); None:
CUDA's legacy default stream. Results keep the object, and the stream has to live as long as they do. It waits for those
that the arrays were written on; what is written to them later has to be on one of these streams, or behind a
synchronisation.

Every function raises ValueError also for arrays or a stream of another device and memory that was given back, and
NotImplementedError where there is no NVIDIA driver, with what to install.
Errors that only values show (two charges on one point, a list that has passed its capacity) make results NaN or
infinite, and `madelung.check_device` raises them.
"""

from __future__ import annotations

from typing import Any

from madelung import _native
from madelung._functions.results import EwaldParameters, PmeParameters
from madelung._schema import named
from madelung.cuda import _functions
from madelung.cuda._arrays import Array, arrays_of, asarray
from madelung.cuda._functions import *  # noqa: F403
from madelung.cuda._ops import OPS

__all__ = ["Array", "EwaldParameters", "PmeParameters", "asarray", "call", "release_memory"]
__all__ += _functions.__all__


def call(name: str, *inputs: Any, cotangents: Any = None, stream: Any = None) -> tuple[Array | None, ...]:
    """Any op of `madelung.ops()`, by its name, with arrays of a device and numbers as its inputs, in their order.

    A structured argument is several inputs: a batch the system of each row; a list of pairs its offsets, columns,
    images and kind (0 full, 1 half, 2 directed); numbers that no array says follow. Nothing is waited for.

    Args:
        name: such as "pair_vectors".
        inputs: arrays are in the memory of one device.
        cotangents: one array, or None for zero, for each output.
        stream: as for `ewald_summation`.

    Returns:
        The outputs; with cotangents the gradients by all differentiable arguments in their place.

    Raises:
        TypeError, ValueError: For an op that there is not, and inputs that are not its own.
    """
    op = named(OPS, name)
    arrays, on = arrays_of(op.arrays(inputs, cotangents), stream)

    def run(member: str, flat: Any, *rest: Any) -> list[Any]:
        return op.run(member, flat, on, *rest)

    return op.call(inputs, arrays, cotangents, run)


def release_memory() -> None:
    """Gives the memory that arrays and calls have left back to the driver, which waits for the devices."""
    _native.release_device_memory()
