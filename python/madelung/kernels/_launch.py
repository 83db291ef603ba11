"""Kernels by hand: results go to arrays of the caller."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from madelung import _arguments as check
from madelung._neighbors import Neighbors
from madelung.kernels._frameworks import framework_of, opened
from madelung.kernels._types import HashGrid


def launch(kernel: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any], stream: Any = None) -> None:
    """Runs a kernel or an op and writes what it gives to arrays that the caller has.

    Results are computed where they are to lie; to tensors of PyTorch and arrays with gaps they are copied. Arguments
    are checked before anything is written; what only values show (a list with a wrong index, coincident charges) is
    found while the kernel runs, and leaves arbitrary numbers in the outputs. What an output held before is overwritten:
    its sums and counts begin at zero. A parameter `InOut[…]` goes on with what its array holds.

    Args:
        kernel: a kernel, or what `op` gives.
        inputs: its arguments by name, as for a call, but for those that are `InOut[…]`.
        outputs: arrays for its outputs by name, of their shapes and dtypes: of NumPy, of PyTorch, or of any library in
            the memory of a CUDA device; others are not kept. One for each parameter `InOut[…]` is needed.
        stream: stream of CUDA on which arrays in the memory of a device are read and written, as for
            `madelung.cuda.ewald_summation`: a handle, or the object of any library. None: PyTorch's current stream for
            its tensors, and else CUDA's default stream. Before outputs are read, or inputs are freed or overwritten, on
            another stream, the caller lets that stream wait for this one.

    Raises:
        TypeError, ValueError: As a call; and for an array that does not fit its output, cannot be written to, or lies
            in the memory of an input.
    """
    names, in_out = kernel.outputs, kernel.in_out
    for name in outputs:
        if name not in names:
            check.refuse("outputs", f"arrays for {', '.join(names)}", f"one for `{name}`")
        if framework_of([outputs[name]]) == "jax":
            check.refuse(name, "an array that can be written to", "one of JAX")
    for name in in_out:
        if name in inputs:
            check.refuse(name, "its array under `outputs` alone, where it is read and written", "one under `inputs`")
        if name not in outputs:
            check.refuse("outputs", f"an array for `{name}`, which is read and written", "none")
    framework = framework_of((*inputs.values(), *outputs.values())) if stream is None else "cuda"
    f, given = opened(framework, {**inputs, **outputs}, stream)
    inputs, outputs = ({name: given[name] for name in of} for of in (inputs, outputs))

    def into(op: Any, flat: Sequence[Any], places: Mapping[str, int]) -> list[Any]:
        """The outputs in the op's order, checked before anything is written; None for those that are copied."""
        if framework == "torch":
            # Its integers of the host are a tensor.
            flat = [tuple(map(int, x)) if i.part == "meshes" else x for i, x in zip(op.inputs, flat)]
        dims, others, rooms = op.dims(flat), _arrays(inputs), [None] * len(op.outputs)
        for name, out in outputs.items():
            n = places[name]
            shape = tuple(op.shape(op.outputs[n]["shape"], flat, dims))
            f.check_output(name, out, shape, op.output_dtype(op.outputs[n], flat), flat[op.tensors[0]])
            for other, x in others:
                if f.overlap(out, x):
                    check.refuse(name, "memory of its own", f"that of `{other}`")
            others.append((name, out))
            rooms[n] = f.room(out)
        return rooms

    arguments = {**inputs, **{name: outputs[name] for name in in_out}}
    results = f.without_derivatives(lambda: kernel.called((), arguments, framework=framework, stream=stream, into=into))
    for name, x in zip(names, results if isinstance(results, tuple) else (results,)):
        if name in outputs and x is not None:
            f.write(outputs[name], x)


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


def _arrays(inputs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The inputs, and the arrays of those that are several."""

    def parts(x: Any) -> Sequence[Any]:
        if isinstance(x, Neighbors):
            return x.index, x.columns, x.images
        if isinstance(x, HashGrid):
            return [getattr(x, part) for part in HashGrid.ARRAYS]
        return x if isinstance(x, (tuple, list)) else (x,)

    return [(name, y) for name, x in inputs.items() for y in parts(x)]
