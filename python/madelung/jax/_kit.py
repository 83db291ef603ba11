"""Kernels and Python functions as functions of JAX, in the forms that Warp's users know."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
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
# What calls of kernels take beside their arguments.
_OPTIONS = ("launch_dims", "output_dims", "vmap_method")
# Numbers among an op's inputs that say how large a dimension is.
_SIZES = ("systems", "columns", "into")


def jax_kernel(
    kernel: Kernel | Op,
    num_outputs: int | None = None,
    *,
    launch_dims: Any = None,
    output_dims: Any = None,
    vmap_method: str | None = None,
    in_out_argnames: Sequence[str] | None = None,
    enable_backward: bool = True,
) -> Callable[..., Any]:
    """Function of JAX arrays of a kernel, or of an op of several, with the options of Warp.

    It works under `jit`, `vmap` and `scan`, and has two derivatives in every mode. The outputs come as a tuple, one
    alone too, in the order in which the kernel declares them. Calls take `launch_dims`, `output_dims` and `vmap_method`
    by name, in the place of those given here.

    Args:
        kernel: a kernel, or what `op` gives.
        num_outputs: their number, for the sake of a check.
        launch_dims: the number of rows. Arrays say it, so it is checked; it is needed where a batch alone has the rows.
        output_dims: the size of all outputs, or sizes by names of outputs, a number or a shape (with or without the
            axes of an element), or by dimensions. Those that arrays have are checked; others are needed, as that of
            systems where a batch alone has them.
        vmap_method: "sequential", "expand_dims" or "broadcast_all": taken for Warp's callers. The results are those of
            calls one by one in each, and a batch is one larger call where the kernel allows.
        in_out_argnames: names of outputs for which arrays are given, behind the inputs or by name, to which the outputs
            are added: sums and those of each row. A parameter `InOut[…]`, with which the kernel itself goes on, is
            given at its own place among the arguments, named here or not.
        enable_backward: whether there are derivatives; without, taking one is an error.

    Raises:
        TypeError, ValueError: For another number of outputs, names that the kernel does not have, sizes that the arrays
            do not have, and arrays that do not fit their outputs; and as a call of the kernel.
    """
    if not isinstance(kernel, (Kernel, Op)):
        check.refuse("kernel", "a kernel, or what `op` gives", check.described(kernel), TypeError)
    op = kernel._op if isinstance(kernel, Kernel) else kernel
    schema = op._calls.of("jax")[1]
    _count(num_outputs, op.outputs, op.__name__)
    _checked_method(vmap_method)
    open_dims = {schema.args[i.arg][i.part] for i in schema.inputs if i.part in _SIZES} | set(schema.sized)
    names = op._declaration.names
    dims = _Dims({names[out["name"]]: out["shape"] for out in schema.outputs}, (dim for _, dim, _ in schema._order))
    rows = {k.rows for k in op._declaration.steps}
    dims.sizes(output_dims), _rows(launch_dims, rows)
    in_out = _added(op, () if in_out_argnames is None else in_out_argnames)
    inputs = len(schema.args)
    has_derivatives = check.flag("enable_backward", enable_backward)

    def call(
        *args: Any,
        launch_dims: Any = launch_dims,
        output_dims: Any = output_dims,
        vmap_method: Any = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        _checked_method(vmap_method)
        asked = {"output_dims": dims.sizes(output_dims), "launch_dims": _rows(launch_dims, rows)}
        args, kwargs = tuple(map(_own, args)), {name: _own(x) for name, x in kwargs.items()}
        kept = _kept(op.__name__, in_out, args[inputs:], kwargs)
        given = args[:inputs] if len(args) <= inputs + len(in_out) else args
        sizes = {dim: n for of in asked.values() for dim, n in of.items() if dim in open_dims}

        def seen(schema: Any, flat: Sequence[Any]) -> None:
            have = schema.dims(flat)
            for option, of in asked.items():
                for dim, n in of.items():
                    if have.get(dim, n) != n:
                        check.refuse(option, f"{have[dim]} of `{dim}`, as the arguments have", n)

        results = op.called(given, kwargs, sizes, seen=seen)
        results = dict(zip(op.outputs, results if isinstance(results, tuple) else (results,)))
        for name, x in kept.items():
            _check_like(name, x, results[name])
            results[name] = x + results[name]
        return tuple(results.values())

    def without(*args: Any, **kwargs: Any) -> Any:
        options = {name: kwargs.pop(name) for name in _OPTIONS if name in kwargs}
        leaves, tree = jax.tree.flatten((args, kwargs))
        at = [n for n, x in enumerate(leaves) if isinstance(x, jax.Array)]

        @jax.custom_jvp
        def values(arrays: list[Any]) -> Any:
            args, kwargs = tree.unflatten([dict(zip(at, arrays)).get(n, x) for n, x in enumerate(leaves)])
            return call(*args, **kwargs, **options)

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


def _count(num_outputs: Any, outputs: Sequence[Any], label: str) -> None:
    if num_outputs is not None and num_outputs != len(outputs):
        check.refuse("num_outputs", f"{len(outputs)}, as `{label}` has", num_outputs)


def _checked_method(vmap_method: Any) -> None:
    if vmap_method is not None:
        check.word("vmap_method", vmap_method, _VMAP_METHODS)


def _kept(label: str, names: Iterable[str], behind: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arrays that are given for outputs: behind the inputs, or by name among other arguments."""
    kept = dict(zip(names, behind))
    kept |= {name: kwargs.pop(name) for name in names if name in kwargs}
    for name in names:
        if name not in kept:
            raise TypeError(f"`{label}`: `{name}` is missing: expected an array for this output")
    return kept


def _check_like(name: str, x: Any, like: Any) -> None:
    """Refuses an array that does not fit an output."""
    if not isinstance(x, jax.Array) or x.shape != like.shape or x.dtype != like.dtype:
        got = f"{x.dtype} of shape {x.shape}" if hasattr(x, "dtype") else check.described(x)
        check.refuse(name, f"{like.dtype} of shape {like.shape}", got)


def _rows(launch_dims: Any, rows: set[str]) -> dict[str, int]:
    """The size that `launch_dims` says, by the dimension of a kernel's rows."""
    if launch_dims is None:
        return {}
    sizes = tuple(launch_dims) if isinstance(launch_dims, (tuple, list)) else (launch_dims,)
    if len(sizes) != 1 or len(rows) != 1:
        one = "one number, of rows, as a kernel has one index (other dimensions are those of its loops)"
        check.refuse(
            "launch_dims", one if len(rows) == 1 else f"None, as kernels have rows of {_and(rows)}", launch_dims
        )
    return {dim: _size("launch_dims", n) for dim in rows for n in sizes}


def _size(name: str, n: Any) -> int:
    size = check.integer(name, n)
    if size < 0:
        check.refuse(name, "an integer from 0 up", size)
    return size


def _and(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none here"


class _Dims:
    """Outputs by name, with the sizes of their axes as the registry has them, and the dimensions of the inputs."""

    def __init__(self, outputs: Mapping[str, list[dict[str, Any]]], dims: Iterable[str]) -> None:
        self._outputs = outputs
        self._dims = {*dims, *(size["dim"] for shape in outputs.values() for size in shape if "dim" in size)}

    def sizes(self, output_dims: Any) -> dict[str, int]:
        """The sizes that `output_dims` says, by dimension."""
        if output_dims is None:
            return {}
        if not isinstance(output_dims, Mapping):
            output_dims = dict.fromkeys(self._outputs, output_dims)
        found: dict[str, int] = {}
        for key, given in output_dims.items():
            name = key if isinstance(key, str) else getattr(key, "__name__", repr(key))
            if name in self._outputs:
                parts = self._of_output(name, given)
            elif name in self._dims:
                parts = [(name, _size(f"output_dims: {name}", given))]
            else:
                expected = f"names of outputs ({', '.join(self._outputs)}) or of dimensions ({_and(self._dims)})"
                check.refuse("output_dims", expected, name)
            for dim, size in parts:
                if found.setdefault(dim, size) != size:
                    check.refuse("output_dims", f"one size of `{dim}`", f"{found[dim]} and {size}")
        return found

    def _of_output(self, name: str, given: Any) -> list[tuple[str, int]]:
        shape = self._outputs[name]
        option = f"output_dims: {name}"
        sizes = [_size(option, n) for n in (given if isinstance(given, (tuple, list)) else (given,))]
        dims = [size["dim"] for size in shape if "dim" in size]
        constant = [size.get("const") for size in shape]
        is_whole = len(sizes) == len(shape) and all(c in (None, n) for c, n in zip(constant, sizes))
        if not is_whole and len(sizes) != len(dims):
            check.refuse(option, f"sizes of ({', '.join(str(s.get('dim', s.get('const'))) for s in shape)})", given)
        return [(size["dim"], n) for size, n in zip(shape, sizes) if "dim" in size]


def _added(op: Op, names: Sequence[str]) -> list[str]:
    """Outputs for which arrays are given that the op does not read, in its order."""
    names = (names,) if isinstance(names, str) else names
    _check_names(names, op.outputs)
    added = [name for name in op.outputs if name in names and name not in op.in_out]
    for k in op._declaration.steps:
        for p in k.parameters:
            if p.name in added and not k.adjoint:
                expected = f"an output of a kernel with derivatives, or an `InOut[…]` (`{k.__name__}` writes to it)"
                check.refuse("in_out_argnames", expected, f"`{p.name}`, an `Out[…]`")
    return added


def _check_names(names: Iterable[str], outputs: Sequence[str]) -> None:
    for name in names:
        if name not in outputs:
            check.refuse("in_out_argnames", "outputs: " + ", ".join(outputs), repr(name))


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
    output_dims: Any = None,
    vmap_method: str | None = None,
    in_out_argnames: Sequence[str] = (),
) -> Callable[..., Any]:
    """Function of JAX arrays of a Python function that writes its outputs, on XLA's own memory.

    Its parameters are annotated as those of a kernel, the outputs `Out[…]` last. While the program runs it gets the
    arrays of `register_ffi_callback`, without a copy: NumPy's on the CPU and `madelung.cuda.Array`s on a GPU. Inputs
    are read-only; outputs have arbitrary numbers, and are to be written as a whole. Launches that name no stream are on
    XLA's. It must do nothing else, and not call JAX. There are no derivatives: `jax.custom_jvp` gives it some. XLA
    keeps the function, and what it refers to, for the life of the process: define it once, not in a loop.

    The outputs come as a tuple, one alone too. Calls take `output_dims` and `vmap_method` by name, in the place of
    those given here.

    Args:
        func: the function.
        num_outputs: the number of its outputs, for the sake of a check.
        graph_mode: "jax": XLA may capture the function's launches in a CUDA graph, on the terms of
            `register_ffi_callback(graph_compatible=True)`. None or "none": the function is called in every run.
        output_dims: sizes, as for `jax_kernel`: those of dimensions that no argument has are needed.
        vmap_method: None or "sequential": one call after the other.
        in_out_argnames: names of outputs that hold at first what is in arrays that are given for them, behind the
            inputs or by name. Those stay as they are: XLA copies them, but where a program has no more use for them.

    Raises:
        TypeError, ValueError: For other annotations, options and outputs; in calls as for a kernel.
    """
    if graph_mode not in (None, "none", "jax"):
        check.refuse("graph_mode", "None, 'none' or 'jax'", repr(graph_mode))
    _check_sequential(vmap_method)
    body, target = _on_buffers(func, graph_mode == "jax")
    outputs = [out.name for out in body.outputs]
    _count(num_outputs, outputs, body.label)
    wanted = (in_out_argnames,) if isinstance(in_out_argnames, str) else tuple(in_out_argnames)
    _check_names(wanted, outputs)
    # The places of those outputs that begin as arguments.
    in_out = {name: n for n, name in enumerate(outputs) if name in wanted}
    dims = _Dims({out.name: out.shape for out in body.outputs}, filter(None, body.places))
    dims.sizes(output_dims)

    def call(*args: Any, output_dims: Any = output_dims, vmap_method: Any = None, **kwargs: Any) -> tuple[Any, ...]:
        _check_sequential(vmap_method)
        inputs = len(body.args)
        args, kwargs = tuple(map(_own, args)), {name: _own(x) for name, x in kwargs.items()}
        kept = _kept(body.label, in_out, args[inputs:], kwargs)
        given = args[:inputs] if len(args) <= inputs + len(in_out) else args
        flat = body.flat(Jax, given, kwargs)
        sizes = dims.sizes(output_dims)
        for name, x in kept.items():
            for size, n in zip(body.outputs[in_out[name]].shape, np.shape(x)):
                if "dim" in size and size["dim"] not in body.places:
                    sizes.setdefault(size["dim"], n)
        body.needs(sizes)
        real = next((x.dtype for x, i in zip(flat, body.inputs) if i.part == "real"), jnp.float32)
        types = [jax.dtypes.canonicalize_dtype(out.dtype) if out.dtype else real for out in body.outputs]
        found = body.shapes(flat, sizes)
        shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in zip(found, types)]
        for out, shape in zip(body.outputs, found):
            for size, n in zip(out.shape, shape):
                if "dim" in size and sizes.get(size["dim"], n) != n:
                    check.refuse("output_dims", f"{n} of `{size['dim']}`, as the arguments have", sizes[size["dim"]])
        for name, x in kept.items():
            _check_like(name, x, shapes[in_out[name]])
        arrays = [x for x, i in zip(flat, body.inputs) if i.type == "tensor"]
        numbers = {
            i.name: (np.float64 if i.type == "float" else np.int64)(x)
            for x, i in zip(flat, body.inputs)
            if i.type != "tensor"
        }
        aliases = {len(arrays) + k: n for k, n in enumerate(in_out.values())}
        function = jax.ffi.ffi_call(target, shapes, vmap_method="sequential", input_output_aliases=aliases)
        return tuple(function(*arrays, *kept.values(), **numbers))

    call.__name__, call.__doc__ = body.label, func.__doc__
    return call


def _check_sequential(vmap_method: Any) -> None:
    if vmap_method not in (None, "sequential"):
        expected = "None or 'sequential', as the function is one of arrays of the axes it declares"
        check.refuse("vmap_method", expected, repr(vmap_method))
