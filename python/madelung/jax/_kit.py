"""Kernels and Python functions as functions of JAX, in the forms that Warp's users know."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from madelung import _arguments as check
from madelung.jax._ffi import register_ffi_callback
from madelung.jax._framework import Jax
from madelung.kernels import Kernel, Op
from madelung.kernels._body import Body

# Numbers of callables, for the names of their targets.
_CALLABLES = itertools.count()

_VMAP_METHODS = ("sequential", "expand_dims", "broadcast_all")
# Numbers among an op's inputs that say how large a dimension is.
_SIZES = ("systems", "columns", "into")


def jax_kernel(
    kernel: Kernel | Op,
    num_outputs: int | None = None,
    *,
    output_dims: Mapping[Any, int] | None = None,
    vmap_method: str | None = None,
    in_out_argnames: Sequence[str] | None = None,
    enable_backward: bool = True,
) -> Callable[..., Any]:
    """Function of JAX arrays of a kernel, or of an op of several: what a call of it is, with the options of Warp.

    It works under `jit`, `vmap` and `scan`, and has two derivatives in every mode. One output comes as it is, several
    as a tuple, in the order in which the kernel declares them.

    Args:
        kernel: a kernel, or what `op` gives.
        num_outputs: their number, for the sake of a check.
        output_dims: sizes of dimensions, by name, that no array has: those of systems where a batch alone has them.
        vmap_method: "sequential", "expand_dims" or "broadcast_all": taken for Warp's callers. The results are those of
            calls one by one in each, and a batch is one larger call where the kernel allows.
        in_out_argnames: names of outputs for which arrays are given, behind the inputs or by name. Sums (of systems, or
            of all rows) are added to what was given; an output of each row takes its place. A parameter `InOut[…]` is
            given at its own place among the arguments, named here or not.
        enable_backward: whether there are derivatives; without, taking one is an error.

    Raises:
        TypeError, ValueError: For another number of outputs, names that the kernel does not have, and arrays that do
            not fit their outputs; and as a call of the kernel.
    """
    if not isinstance(kernel, (Kernel, Op)):
        check.refuse("kernel", "a kernel, or what `op` gives", check.described(kernel), TypeError)
    op = kernel._op if isinstance(kernel, Kernel) else kernel
    schema = op._calls.of("jax")[1]
    if num_outputs is not None and num_outputs != len(op.outputs):
        check.refuse("num_outputs", f"{len(op.outputs)}, as `{op.__name__}` has", num_outputs)
    if vmap_method is not None:
        check.word("vmap_method", vmap_method, _VMAP_METHODS)
    open_dims = {schema.args[i.arg][i.part] for i in schema.inputs if i.part in _SIZES}
    sizes = _sizes(output_dims, open_dims)
    in_out = _added(op, () if in_out_argnames is None else in_out_argnames)
    inputs = len(schema.args)
    has_derivatives = check.flag("enable_backward", enable_backward)

    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tuple(map(_own, args)), {name: _own(x) for name, x in kwargs.items()}
        kept = dict(zip(in_out, args[inputs:]))
        kept |= {name: kwargs.pop(name) for name in in_out if name in kwargs}
        for name in in_out:
            if name not in kept:
                raise TypeError(f"`{op.__name__}`: `{name}` is missing: expected an array for this output")
        given = args[:inputs] if len(args) <= inputs + len(in_out) else args
        results = op.called(given, kwargs, sizes)
        results = dict(zip(op.outputs, results if isinstance(results, tuple) else (results,)))
        for name, is_sum in in_out.items():
            x, like = kept[name], results[name]
            if not isinstance(x, jax.Array) or x.shape != like.shape or x.dtype != like.dtype:
                check.refuse(name, f"{like.dtype} of shape {like.shape}", _described(x))
            results[name] = x + like if is_sum else like
        found = tuple(results.values())
        return found[0] if len(found) == 1 else found

    def without(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = jax.tree.flatten((args, kwargs))
        at = [n for n, x in enumerate(leaves) if isinstance(x, jax.Array)]

        @jax.custom_jvp
        def values(arrays: list[Any]) -> Any:
            args, kwargs = tree.unflatten([dict(zip(at, arrays)).get(n, x) for n, x in enumerate(leaves)])
            return call(*args, **kwargs)

        @values.defjvp
        def _(primals: Any, tangents: Any) -> Any:
            check.refuse("enable_backward", f"True, as a derivative of `{op.__name__}` is taken", "False")

        return values([leaves[n] for n in at])

    function = call if has_derivatives else without
    function.__name__, function.__doc__ = op.__name__, getattr(kernel, "__doc__", None)
    return function


def _own(x: Any) -> Any:
    """Reals of NumPy as an array of JAX, so that a call is one of JAX."""
    return jnp.asarray(x) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x


def _described(x: Any) -> str:
    return f"{x.dtype} of shape {x.shape}" if hasattr(x, "dtype") else check.described(x)


def _sizes(output_dims: Mapping[Any, int] | None, open_dims: set[str]) -> dict[str, int]:
    """Sizes by the names of dimensions, of those that no array has."""
    sizes: dict[str, int] = {}
    if output_dims is None:
        return sizes
    if not isinstance(output_dims, Mapping):
        named = f"sizes by names of dimensions, as in {{{next(iter(sorted(open_dims)), 'Rows')!r}: 4}}"
        check.refuse("output_dims", named, check.described(output_dims), TypeError)
    for dim, size in output_dims.items():
        name = dim if isinstance(dim, str) else getattr(dim, "__name__", repr(dim))
        if name not in open_dims:
            known = ", ".join(sorted(open_dims)) or "none here"
            check.refuse("output_dims", f"sizes of dimensions that no array has ({known})", name)
        sizes[name] = check.at_least_one(f"output_dims: {name}", size)
    return sizes


def _added(op: Op, names: Sequence[str]) -> dict[str, bool]:
    """Outputs for which arrays are given that the op does not read, in its order, and whether they are sums."""
    if isinstance(names, str):
        names = (names,)
    sums = {}
    for k in op._declaration.steps:
        for p in k.parameters:
            if p.name in names and p.name in op.outputs:
                if p.name in op.in_out:
                    continue
                if not k.adjoint:
                    expected = f"an output of a kernel with derivatives, or an `InOut[…]` (`{k.__name__}` writes to it)"
                    check.refuse("in_out_argnames", expected, f"`{p.name}`, an `Out[…]`")
                sums[p.name] = [dim.__name__ for dim in p.annotation.__args__[1:2]] != [k.rows]
    for name in names:
        if name not in op.outputs:
            check.refuse("in_out_argnames", "outputs: " + ", ".join(op.outputs), repr(name))
    return {name: sums[name] for name in op.outputs if name in sums}


@cache
def _on_buffers(func: Callable[..., None], graph_compatible: bool) -> tuple[Body, str]:
    """A function's declaration, and the target that calls it, which is there once however often a program is traced."""
    body = Body(func, None, jax.Array)
    target = f"madelung_callable_{next(_CALLABLES)}_{body.label}"

    def on_buffers(inputs: list[Any], outputs: list[Any], attrs: dict[str, Any], _: Any) -> None:
        arrays = iter(inputs)
        flat = [next(arrays) if i.type == "tensor" else attrs[i.name] for i in body.inputs]
        func(*body.arguments(flat), *outputs)

    register_ffi_callback(target, on_buffers, graph_compatible)
    return body, target


def jax_callable(
    func: Callable[..., None],
    num_outputs: int | None = None,
    *,
    graph_mode: str | None = None,
    output_dims: Mapping[Any, int] | None = None,
    vmap_method: str | None = None,
) -> Callable[..., Any]:
    """Function of JAX arrays of a Python function that writes its outputs, on XLA's own memory.

    Its parameters are annotated as those of a kernel, the outputs `Out[…]` last. While the program runs it gets the
    arrays of `register_ffi_callback`, without a copy: NumPy's on the CPU and `madelung.cuda.Array`s on a GPU. Inputs
    are read-only; outputs have arbitrary numbers, and are to be written as a whole. Launches that name no stream are on
    XLA's. It must do nothing else, and not call JAX. There are no derivatives: `jax.custom_jvp` gives it some. XLA
    keeps the function, and what it refers to, for the life of the process: define it once, not in a loop.

    Args:
        func: the function.
        num_outputs: the number of its outputs, for the sake of a check.
        graph_mode: "jax": XLA may capture the function's launches in a CUDA graph, on the terms of
            `register_ffi_callback(graph_compatible=True)`. None or "none": the function is called in every run.
        output_dims: sizes of dimensions, by name, that no argument has.
        vmap_method: None or "sequential": one call after the other.

    Raises:
        TypeError, ValueError: For other annotations, options and outputs; in calls as for a kernel.
    """
    if graph_mode not in (None, "none", "jax"):
        check.refuse("graph_mode", "None, 'none' or 'jax'", repr(graph_mode))
    if vmap_method not in (None, "sequential"):
        expected = "None or 'sequential', as the function is one of arrays of the axes it declares"
        check.refuse("vmap_method", expected, repr(vmap_method))
    body, target = _on_buffers(func, graph_mode == "jax")
    if num_outputs is not None and num_outputs != len(body.outputs):
        check.refuse("num_outputs", f"{len(body.outputs)}, as `{body.label}` has", num_outputs)
    dims = {size["dim"] for out in body.outputs for size in out.shape if "dim" in size}
    sizes = _sizes(output_dims, dims - set(body.places))
    body.needs(sizes)

    def call(*args: Any, **kwargs: Any) -> Any:
        flat = body.flat(Jax, tuple(map(_own, args)), {name: _own(x) for name, x in kwargs.items()})
        real = next((x.dtype for x, i in zip(flat, body.inputs) if i.part == "real"), jnp.float32)
        types = [jax.dtypes.canonicalize_dtype(out.dtype) if out.dtype else real for out in body.outputs]
        shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in zip(body.shapes(flat, sizes), types)]
        arrays = [x for x, i in zip(flat, body.inputs) if i.type == "tensor"]
        numbers = {
            i.name: (np.float64 if i.type == "float" else np.int64)(x)
            for x, i in zip(flat, body.inputs)
            if i.type != "tensor"
        }
        found = jax.ffi.ffi_call(target, shapes, vmap_method="sequential")(*arrays, **numbers)
        return found[0] if len(found) == 1 else tuple(found)

    call.__name__, call.__doc__ = body.label, func.__doc__
    return call
