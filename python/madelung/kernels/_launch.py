"""Kernels by hand: results go to arrays of the caller."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from madelung import _arguments as check


def launch(kernel: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any], stream: Any = None) -> None:
    """Runs a kernel or an op and writes what it gives to arrays that the caller has.

    Results are computed where they are to lie; to arrays with gaps they are copied. A `Tape` records launches on arrays
    of NumPy. Arguments are checked before anything is written; what only values show (a list with a wrong index,
    coincident charges) is found while the kernel runs, and leaves arbitrary numbers in the outputs. What an output held
    before is overwritten: its sums and counts begin at zero. A parameter `InOut[…]` goes on with what its array holds.

    Args:
        kernel: a kernel, or what `op` gives.
        inputs: its arguments by name, as for a call, but for those that are `InOut[…]`.
        outputs: arrays for its outputs by name, of their shapes and dtypes: of any library but JAX; others are not
            kept. One for each parameter `InOut[…]` is needed.
        stream: stream of CUDA on which arrays in the memory of a device are read and written, as for
            `madelung.cuda.ewald_summation`: a handle, or the object of any library. None: PyTorch's current stream for
            its tensors, and else CUDA's default stream. Before outputs are read, or inputs are freed or overwritten, on
            another stream, the caller lets that stream wait for this one.

    Raises:
        TypeError, ValueError: As a call; and for an array that does not fit its output, cannot be written to, or lies
            in the memory of an input.
    """
    launched = getattr(getattr(kernel, "_op", kernel), "launched", None)
    if launched is None:
        check.refuse("kernel", "a kernel, or what `op` gives", check.described(kernel), TypeError)
    for name, x in (("inputs", inputs), ("outputs", outputs)):
        if not isinstance(x, Mapping):
            check.refuse(name, "arrays by the names of parameters, such as {'x': x}", check.described(x), TypeError)
    launched(inputs, outputs, stream)


def capture(stream: Any, device: int = 0) -> AbstractContextManager[Any]:
    """Context in which launches on a stream of CUDA are captured, and do not run: it gives their graph.

    `graph.launch()` puts all of them on the stream with one call, and `graph.launch(stream)` on another one of the
    device. Arrays keep their places, so inputs are changed by writing to them. Memory for what lies between is the
    graph's own, which is kept until its last launch is over. A capture waits for no other stream: the caller makes sure
    that arrays are written before the graph is launched. Functions of `madelung.cuda` are captured too; those of
    PyTorch are by `torch.cuda.graph`, whose graph keeps the memory of both. An error in the context ends the capture
    without a graph.

    Args:
        stream: as for `launch`, and not CUDA's default stream.
        device: that of the stream, as CUDA counts those that are visible.

    Raises:
        ValueError: For the default stream; in the context, for arrays that were written on another stream.
        NotImplementedError: For a stream that captures already; in the context, for arrays of the host, which would
            have to be copied.
    """
    return importlib.import_module("madelung.cuda._graph").capture(stream, device)
