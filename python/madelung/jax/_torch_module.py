"""Torch modules as JAX functions, with every derivative that torch has.

A call is a primitive with a *program*: the module, or the derivative of another program along directions (`Jvp`) or of
weighted outputs (`Vjp`). Derivatives of programs are programs, and the transpose of either kind is the other, so that
JAX's modes nest as deeply as torch can differentiate the module. Arrays are handed over without a copy, in and out, by
`jax.experimental.buffer_callback`, on the CPU as on CUDA devices, on the stream that XLA computes on.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax
from jax.experimental.buffer_callback import buffer_callback
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from torch._subclasses import FakeTensor, FakeTensorMode

from madelung import _arguments as check
from madelung.jax import _compat
from madelung.jax import _inputs as given

__all__ = ["ScalarSpec", "TorchDtypeSpec", "TorchModule"]

_DTYPES = {
    torch.float16: np.dtype(np.float16),
    torch.bfloat16: np.dtype(jnp.bfloat16),
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
    torch.int8: np.dtype(np.int8),
    torch.int16: np.dtype(np.int16),
    torch.int32: np.dtype(np.int32),
    torch.int64: np.dtype(np.int64),
    torch.uint8: np.dtype(np.uint8),
    torch.bool: np.dtype(np.bool_),
    torch.complex64: np.dtype(np.complex64),
    torch.complex128: np.dtype(np.complex128),
}
_TORCH = {dtype: of_torch for of_torch, dtype in _DTYPES.items()}
_METHODS = ("broadcast_all", "expand_dims", "sequential")
_SCALARS = (bool, int, float)
# Torch's errors of operations on tensors of different dtypes.
_OF_DTYPES = re.compile(r"dtype|scalar type|type \(")


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """An argument that is a Python number of this type and stays one."""

    python_type: type


@dataclass(frozen=True, slots=True)
class TorchDtypeSpec:
    """An argument that the module gets as a tensor of this dtype; −1 in the shape stands for any length."""

    shape: tuple[int, ...]
    dtype: torch.dtype


class TorchModule:
    """A `torch.nn.Module` (or any function of tensors) as a function of JAX arrays.

    Arguments and results may be pytrees; Python numbers among the arguments stay what they are. Works under `jit`,
    `vmap`, `scan` and `shard_map`, on the CPU and on CUDA devices (with a copy of the module on each but its own).

    With `enable_vjp`, `grad`, `jvp`, `hessian` and all other modes work by torch's autograd, nested as deeply as torch
    can differentiate the module. The module's parameters are constants to JAX; each call has their present values, on
    every device. JAX's caches keep a module that was called until `jax.clear_caches()`.

    Args:
        module: what is called.
        input_spec: None, or a flat list with an entry per leaf of the arguments: `TorchDtypeSpec` casts, `ScalarSpec`
            says that the leaf is a Python number, None leaves it as it is.
        vmap_method: "broadcast_all" and "expand_dims" call the module once with a batch axis in front of every argument
            (of length one where an argument is not mapped, for the latter), "sequential" once for each element.
        enable_vjp: whether it is differentiable.
        requires_grad: whether torch's autograd is on in a plain call, for modules that compute gradients themselves.
        compile: whether values and first derivatives run through `torch.compile`.
    """

    def __init__(
        self,
        module: Callable[..., Any],
        input_spec: Sequence[Any] | None = None,
        vmap_method: str = "broadcast_all",
        enable_vjp: bool = False,
        requires_grad: bool = False,
        compile: bool = True,
    ) -> None:
        if not callable(module):
            check.refuse("module", "a torch module", check.described(module), TypeError)
        self.module = module
        self.input_spec = None if input_spec is None else list(input_spec)
        self.vmap_method = check.word("vmap_method", vmap_method, _METHODS)
        self.enable_vjp = check.flag("enable_vjp", enable_vjp)
        self.requires_grad = check.flag("requires_grad", requires_grad)
        self.compile = check.flag("compile", compile)
        self._lock = threading.Lock()
        self._modules: dict[tuple[torch.device, bool], Callable[..., Any]] = {}
        self._results: dict[Any, Any] = {}
        # For each device but the module's own: a copy, and the state of the numbers in it.
        self._copies: dict[torch.device, tuple[torch.nn.Module, Any]] = {}
        # Of each program of the module, which thus lives no longer than it.
        self.jitted: dict[Any, Callable[..., Any]] = {}
        # The error of the last call with arguments that the module does not take.
        self.refused: Exception | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The module's results as JAX arrays."""
        leaves, tree = jax.tree.flatten((args, kwargs))
        spec = self._spec(leaves)
        arrays = [jnp.asarray(x) for x, s in zip(leaves, spec) if not isinstance(s, ScalarSpec)]
        scalars = tuple(x for x, s in zip(leaves, spec) if isinstance(s, ScalarSpec))
        program = Forward(self, tree, tuple(spec), scalars)
        _, structure = program.results(arrays)
        return jax.tree.unflatten(structure, _bind(program, arrays))

    def _spec(self, leaves: Sequence[Any]) -> list[Any]:
        if self.input_spec is None:
            return [ScalarSpec(type(x)) if type(x) in _SCALARS else None for x in leaves]
        if len(self.input_spec) != len(leaves):
            got = f"{len(leaves)} leaves in the arguments"
            check.refuse("input_spec", f"an entry per leaf of the arguments, and there are {len(self.input_spec)}", got)
        for n, (x, s) in enumerate(zip(leaves, self.input_spec)):
            name = f"argument {n}"
            if isinstance(s, ScalarSpec):
                if type(x) is not s.python_type:
                    expected = f"a Python {s.python_type.__name__} (under `jit` a static argument)"
                    check.refuse(name, expected, check.described(x), TypeError)
            elif isinstance(s, TorchDtypeSpec):
                shape = jnp.shape(x)
                if len(shape) != len(s.shape) or any(want not in (-1, have) for want, have in zip(s.shape, shape)):
                    check.refuse(name, f"shape {s.shape}", shape)
            elif s is not None:
                check.refuse("input_spec", "None, TorchDtypeSpec or ScalarSpec", type(s).__name__, TypeError)
        return self.input_spec

    def on(self, device: torch.device, compiled: bool) -> Callable[..., Any]:
        """The module on a device, compiled or as it is."""
        with self._lock:
            key = (device, compiled and self.compile)
            module = self.module
            if isinstance(module, torch.nn.Module) and device != _home(module, device):
                module = self._copy(device)
            if key not in self._modules:
                self._modules[key] = torch.compile(module) if key[1] else module
            return self._modules[key]

    def _copy(self, device: torch.device) -> torch.nn.Module:
        """The module on another device than its own, with its present numbers."""
        numbers = [*self.module.parameters(), *self.module.buffers()]
        state = [(x.data_ptr(), x._version) for x in numbers]
        known, copied = self._copies.get(device, (None, None))
        if known is None:
            known = copy.deepcopy(self.module).to(device)
        elif state != copied:
            with torch.no_grad():
                for to, x in zip((*known.parameters(), *known.buffers()), numbers, strict=True):
                    to.copy_(x)
        self._copies[device] = known, state
        return known

    def results(self, key: Any, compute: Callable[[], Any]) -> Any:
        """The results of calls of a kind, cached."""
        with self._lock:
            known = self._results.get(key)
        if known is None:
            known = compute()
            with self._lock:
                self._results[key] = known
        return known


def _listed(dtypes: Sequence[torch.dtype]) -> str:
    return ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)


def _home(module: torch.nn.Module, otherwise: torch.device) -> torch.device:
    return next((x.device for x in [*module.parameters(), *module.buffers()]), otherwise)


@dataclass(frozen=True)
class Forward:
    """The module."""

    module: TorchModule
    tree: Any
    spec: tuple[Any, ...]
    scalars: tuple[Any, ...]

    @property
    def root(self) -> Forward:
        return self

    @property
    def count(self) -> int:
        """The number of arrays that the module takes."""
        return sum(not isinstance(s, ScalarSpec) for s in self.spec)

    linear = 0

    def types(self, avals: Sequence[Any]) -> list[tuple[tuple[int, ...], np.dtype]]:
        """Shapes and dtypes of the results."""
        return self.results(avals)[0]

    def results(self, arrays: Sequence[Any]) -> Any:
        """Shapes and dtypes of the results, and their tree."""
        key = (self.tree, self.spec, self.scalars, tuple((a.shape, a.dtype) for a in arrays))
        return self.module.results(key, lambda: self._looked(arrays))

    def _looked(self, arrays: Sequence[Any]) -> Any:
        """The results of a call with tensors that have no memory; where the module reads values, with those, or
        zeros."""
        module = self.module.module
        device = torch.device("cpu")
        if isinstance(module, torch.nn.Module):
            device = _home(module, device)

        def call(make: Callable[[Any], torch.Tensor]) -> Any:
            tensors = [make(a).to(device) for a in arrays]
            with torch.enable_grad() if self.module.requires_grad else torch.no_grad():
                return self._called(module, tensors)

        try:
            with FakeTensorMode(allow_non_fake_inputs=True):
                out = call(_zeros)
        except Exception:
            out = None
        if out is None:
            # Apart from that error, which is not the one of a call with values.
            values = [given.hidden(a) for a in arrays]
            is_traced = any(isinstance(a, (jax.core.Tracer, jax.core.ShapedArray)) for a in values)
            try:
                out = call(_zeros if is_traced else lambda a: torch.from_numpy(np.array(given.hidden(a))))
            except Exception as error:
                self._check_dtypes([_TORCH[np.dtype(a.dtype)] for a in arrays], error)
                if not is_traced:
                    raise
                raise ValueError(
                    "TorchModule: expected a module that tells the shapes of its results from those of its "
                    "arguments, got one that looks at values: call it once outside of `jit` with arrays of these "
                    "shapes, and the shapes are known (under `vmap`, see `vmap_method`); the module said: "
                    f"{error}"
                ) from error
        leaves, structure = jax.tree.flatten(out)
        for n, x in enumerate(leaves):
            if not isinstance(x, torch.Tensor):
                check.refuse(f"result {n} of the module", "a tensor", type(x).__name__, TypeError)
            if jax.dtypes.canonicalize_dtype(_DTYPES[x.dtype]) != _DTYPES[x.dtype]:
                expected = "32-bit numbers, as x64 is off in JAX (a cast in the module, or `jax_enable_x64`)"
                check.refuse(f"result {n} of the module", expected, str(x.dtype).removeprefix("torch."), TypeError)
        return [(tuple(x.shape), _DTYPES[x.dtype]) for x in leaves], structure

    def _check_dtypes(self, given: Sequence[torch.dtype], error: Exception) -> None:
        """Refuses arguments of other dtypes than the module takes, where its error is about that."""
        said = [line for line in str(error).splitlines() if _OF_DTYPES.search(line)]
        if not isinstance(error, RuntimeError) or not said:
            return
        module, specs = self.module.module, [s for s in self.spec if not isinstance(s, ScalarSpec)]
        given = [s.dtype if isinstance(s, TorchDtypeSpec) else dtype for s, dtype in zip(specs, given)]
        own = {x.dtype for x in module.parameters()} if isinstance(module, torch.nn.Module) else set()
        weights = f"its weights are {_listed(sorted(own, key=str))}; " if own else ""
        self.module.refused = TypeError(
            f"TorchModule: expected arguments of dtypes that the module takes ({weights}`TorchDtypeSpec(shape, dtype)` "
            f"in `input_spec` casts one), got {_listed(given)}; the module said: {said[0].strip()}"
        )
        raise self.module.refused from None

    def _called(self, module: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> Any:
        arrays, scalars, leaves = iter(tensors), iter(self.scalars), []
        for s in self.spec:
            if isinstance(s, ScalarSpec):
                leaves.append(next(scalars))
            else:
                x = next(arrays)
                leaves.append(x.to(s.dtype) if isinstance(s, TorchDtypeSpec) else x)
        args, kwargs = jax.tree.unflatten(self.tree, leaves)
        return module(*args, **kwargs)

    def run(self, tensors: Sequence[torch.Tensor], order: int) -> list[torch.Tensor]:
        """The results, to be differentiated so many times."""
        # Compiled modules have first derivatives alone.
        module = self.module.on(tensors[0].device if tensors else torch.device("cpu"), order <= 1)
        graph = order > 0 or self.module.requires_grad
        with torch.enable_grad() if graph else torch.no_grad():
            try:
                results = jax.tree.leaves(self._called(module, tensors))
            except Exception as error:
                self._check_dtypes([x.dtype for x in tensors], error)
                raise
        if any(isinstance(x, FakeTensor) for x in results):
            raise RuntimeError(
                "TorchModule: expected results with memory, got ones without: the module, or a library in it, has kept "
                "tensors from the call that found out the shapes of its results"
            )
        return results


class Derivative:
    """A program that follows from another one, `of`, with inputs behind that one's."""

    of: Any
    linear: int

    @property
    def root(self) -> Forward:
        """The module that it is a derivative of."""
        return self.of.root

    @property
    def count(self) -> int:
        """The number of arrays that the derivative takes."""
        return self.of.count + self.linear


@dataclass(frozen=True)
class Jvp(Derivative):
    """The derivative of `of` along directions of its inputs `wrt`, which follow these."""

    of: Any
    wrt: tuple[int, ...]

    @property
    def linear(self) -> int:
        """The number of the last inputs that the derivative is linear in."""
        return len(self.wrt)

    def types(self, avals: Sequence[Any]) -> list[tuple[tuple[int, ...], np.dtype]]:
        return [t for t in self.of.types(avals[: self.of.count]) if _is_real(t[1])]

    def along(self, places: Sequence[int]) -> Jvp:
        """The derivative along some of its linear inputs."""
        return Jvp(self.of, tuple(self.wrt[k] for k in places))

    def transpose(self, undefined: Sequence[int], cotangents: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        """The cotangents of the undefined linear inputs, None for the others."""
        avals = [jax.typeof(x) for x in inputs]
        places = [k for k, t in enumerate(self.of.types(avals)) if _is_real(t[1])]
        known = [k for k, ct in enumerate(cotangents) if ct is not None]
        program = Vjp(self.of, tuple(self.wrt[k] for k in undefined), tuple(places[k] for k in known))
        results = iter(_bind(program, [*inputs, *(cotangents[k] for k in known)]))
        return [next(results) if k in undefined else None for k in range(self.linear)]

    def run(self, tensors: Sequence[torch.Tensor], order: int) -> list[torch.Tensor]:
        n = self.of.count
        with torch.enable_grad():
            inputs, leaves = _leaves(tensors[:n], self.wrt)
            outputs = [y for y in self.of.run(inputs, order + 2) if y.dtype.is_floating_point or y.dtype.is_complex]
            moving = [y for y in outputs if y.requires_grad]
            weights = [torch.zeros_like(y, requires_grad=True) for y in moving]
            # The derivative of the gradient by its weights, in which it is linear.
            gradients = torch.autograd.grad(moving, leaves, weights, create_graph=True, allow_unused=True)
            pairs = [(g, u) for g, u in zip(gradients, tensors[n:]) if g is not None and g.requires_grad]
            along: Sequence[Any] = [None] * len(moving)
            if pairs:
                of, directions = zip(*pairs)
                along = torch.autograd.grad(of, weights, directions, create_graph=order > 0, allow_unused=True)
        left = iter(along)
        found = [next(left) if y.requires_grad else None for y in outputs]
        return [torch.zeros_like(y) if t is None else t for y, t in zip(outputs, found)]


@dataclass(frozen=True)
class Vjp(Derivative):
    """The gradients by the inputs `wrt` of the outputs `outs` of `of`, with weights that follow the inputs."""

    of: Any
    wrt: tuple[int, ...]
    outs: tuple[int, ...]

    @property
    def linear(self) -> int:
        return len(self.outs)

    def types(self, avals: Sequence[Any]) -> list[tuple[tuple[int, ...], np.dtype]]:
        return [(avals[k].shape, np.dtype(avals[k].dtype)) for k in self.wrt]

    def along(self, places: Sequence[int]) -> Vjp:
        return Vjp(self.of, self.wrt, tuple(self.outs[k] for k in places))

    def transpose(self, undefined: Sequence[int], cotangents: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        avals = [jax.typeof(x) for x in inputs]
        places = [k for k, t in enumerate(self.of.types(avals)) if _is_real(t[1])]
        known = [k for k, ct in enumerate(cotangents) if ct is not None]
        program = _along(self.of, tuple(self.wrt[k] for k in known))
        results = dict(zip(places, _bind(program, [*inputs, *(cotangents[k] for k in known)])))
        return [results[place] if k in undefined else None for k, place in enumerate(self.outs)]

    def run(self, tensors: Sequence[torch.Tensor], order: int) -> list[torch.Tensor]:
        n = self.of.count
        with torch.enable_grad():
            inputs, leaves = _leaves(tensors[:n], self.wrt)
            outputs = self.of.run(inputs, order + 1)
            pairs = [(outputs[k], w) for k, w in zip(self.outs, tensors[n:]) if outputs[k].requires_grad]
            found: Sequence[Any] = [None] * len(leaves)
            if pairs:
                of, weights = zip(*pairs)
                found = torch.autograd.grad(of, leaves, weights, create_graph=order > 0, allow_unused=True)
            elif isinstance(self.of, Forward):
                raise ValueError(
                    "TorchModule: expected results that depend on the arguments in torch's graph, got none (a "
                    "`.detach()` in the module, or `torch.no_grad`?)"
                )
        return [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, found)]


def _along(program: Any, wrt: tuple[int, ...]) -> Any:
    """The derivative of a program along directions of some of its inputs.

    That of a gradient is the gradient by what it is by, of the gradient by what the directions are of, as mixed
    derivatives do not depend on their order: two backward passes, where `Jvp` needs a third.
    """
    if isinstance(program, Vjp):
        return Vjp(Vjp(program.of, wrt, program.outs), program.wrt, tuple(range(len(wrt))))
    return Jvp(program, wrt)


def _leaves(tensors: Sequence[torch.Tensor], wrt: Sequence[int]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The inputs, and those of them that are differentiated: in the graph of an outer derivative, if there is one."""
    inputs = list(tensors)
    for k in set(wrt):
        x = inputs[k]
        inputs[k] = x.view_as(x) if x.requires_grad else x.detach().requires_grad_()
    return inputs, [inputs[k] for k in wrt]


def _zeros(a: Any) -> torch.Tensor:
    return torch.zeros(a.shape, dtype=_TORCH[np.dtype(a.dtype)])


def _is_real(dtype: Any) -> bool:
    return bool(jnp.issubdtype(dtype, jnp.inexact))


def _bind(program: Any, arrays: Sequence[Any]) -> list[Any]:
    return _call.bind(*_compat.vary(arrays), program=program)


def _types(*avals: Any, program: Any) -> list[Any]:
    if not avals:
        check.refuse("arguments", "an array among them", "none", TypeError)
    return [_compat.like(avals[0], shape, dtype) for shape, dtype in program.types(avals)]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, program: Any) -> tuple[list[Any], list[Any]]:
    if not program.root.module.enable_vjp:
        raise TypeError("TorchModule: expected `enable_vjp=True` where it is differentiated, got False")
    results = _bind(program, primals)
    inputs = program.count - program.linear
    there = [k for k, t in enumerate(tangents) if type(t) is not ad.Zero]
    curved, linear = [k for k in there if k < inputs], [k - inputs for k in there if k >= inputs]
    changes: list[Any] = [None] * len(results)
    if curved:
        found = iter(_bind(_along(program, tuple(curved)), [*primals, *(tangents[k] for k in curved)]))
        changes = [next(found) if _is_real(r.dtype) else None for r in results]
    if linear:
        same = _bind(program.along(linear), [*primals[:inputs], *(tangents[inputs + k] for k in linear)])
        changes = [b if a is None else a + b for a, b in zip(changes, same)]
    return results, [ad.Zero(jax.typeof(r).to_tangent_aval()) if t is None else t for r, t in zip(results, changes)]


def _transpose(cotangents: Sequence[Any], *operands: Any, program: Any) -> list[Any]:
    cts = [None if type(ct) is ad.Zero else ct for ct in cotangents]
    if all(ct is None for ct in cts):
        return [None] * len(operands)
    inputs = program.count - program.linear
    undefined = [k for k, x in enumerate(operands[inputs:]) if ad.is_undefined_primal(x)]
    return [None] * inputs + program.transpose(undefined, cts, operands[:inputs])


def _batch(operands: Sequence[Any], axes: Sequence[Any], *, program: Any) -> tuple[list[Any], list[int]]:
    module = program.root.module
    operands = [x if d is None else jnp.moveaxis(x, d, 0) for x, d in zip(operands, axes)]
    size = next(x.shape[0] for x, d in zip(operands, axes) if d is not None)
    if module.vmap_method == "sequential":

        def call(xs: list[Any]) -> list[Any]:
            left = iter(xs)
            return _bind(program, [x if d is None else next(left) for x, d in zip(operands, axes)])

        results = lax.map(call, [x for x, d in zip(operands, axes) if d is not None])
        return results, [0] * len(results)
    # Gradients by what all elements share are those of its copies, so derivatives always take copies.
    whole = module.vmap_method == "broadcast_all" or not isinstance(program, Forward)
    length = size if whole else 1
    spread = [jnp.broadcast_to(x[None], (length, *x.shape)) if d is None else x for x, d in zip(operands, axes)]
    results = _bind(program, spread)
    for n, x in enumerate(results):
        if not x.shape or x.shape[0] != size:
            expected = f"a batch axis of length {size} in front (or `vmap_method='sequential'`)"
            check.refuse(f"result {n} of the module under vmap", expected, f"shape {x.shape}")
    return results, [0] * len(results)


def _lower(*arrays: Any, program: Any) -> Any:
    types = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in program.types(arrays)]

    def callback(context: Any, outputs: Any, *inputs: Any) -> None:
        tensors = [torch.utils.dlpack.from_dlpack(x) for x in inputs]
        device = tensors[0].device
        with contextlib.ExitStack() as stack:
            if device.type == "cuda":
                stack.enter_context(torch.cuda.stream(torch.cuda.ExternalStream(context.stream, device)))
            for output, x in zip(outputs, program.run(tensors, 0), strict=True):
                torch.utils.dlpack.from_dlpack(output).copy_(x.detach())

    return buffer_callback(callback, types, vmap_method="sequential")(*arrays)


def _jitted(program: Any) -> Callable[..., Any]:
    known = program.root.module.jitted
    if program not in known:
        known[program] = jax.jit(functools.partial(_call.bind, program=program))
    return known[program]


def _impl(*arrays: Any, program: Any) -> list[Any]:
    module = program.root.module
    module.refused = None
    try:
        # A module is compiled in any case, as JAX's own operations are.
        with jax.disable_jit(False):
            return _jitted(program)(*arrays)
    except jax.errors.JaxRuntimeError:
        # XLA's error has all frames on the way to it in its text.
        if module.refused is not None:
            raise module.refused from None
        raise


_call = Primitive("madelung.torch_module")
_call.multiple_results = True
_call.def_impl(_impl)
_call.def_abstract_eval(_types)
ad.primitive_jvps[_call] = _jvp
ad.primitive_transposes[_call] = _transpose
batching.primitive_batchers[_call] = _batch
mlir.register_lowering(_call, mlir.lower_fun(_lower, multiple_results=True))
