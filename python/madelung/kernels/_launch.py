"""Kernels by hand: results go to arrays of the caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from madelung import _arguments as check
from madelung.kernels._frameworks import arrays_of, framework_of


def launch(kernel: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Runs a kernel or an op and writes what it gives to arrays that the caller has.

    Args:
        kernel: a kernel, or what `op` gives.
        inputs: its arguments by name, as for a call.
        outputs: arrays of NumPy or PyTorch for its outputs by name, of their shapes and dtypes; others are not kept.

    Raises:
        TypeError, ValueError: As a call; and for an array that does not fit its output, cannot be written to, or lies
            in the memory of an input.
    """
    names = kernel.outputs
    for name in outputs:
        if name not in names:
            check.refuse("outputs", f"arrays for {', '.join(names)}", f"one for `{name}`")
    arrays = arrays_of(framework_of((*inputs.values(), *outputs.values())))
    results = arrays.plain(kernel, inputs)
    found = dict(zip(names, results if isinstance(results, tuple) else (results,)))
    for name, out in outputs.items():
        arrays.check_output(name, out, found[name])
        for other, x in _arrays(inputs):
            if arrays.overlap(out, x):
                check.refuse(name, "memory of its own", f"that of `{other}`")
    for name, out in outputs.items():
        arrays.write(out, found[name])


def _arrays(inputs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The inputs, and the arrays of those that are several."""
    return [(name, y) for name, x in inputs.items() for y in (x if isinstance(x, tuple) else (x,))]
