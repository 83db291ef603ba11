"""One op of PyTorch made of a Python function, with two derivatives.

Outside of graphs a call is one of the function, and its derivatives are those of what it has computed. Graphs and
transforms hold the op, its gradient, and the gradient of that as three opaque ops. The derivative of each is a call of
the next, which computes the function again under autograd.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from string import ascii_lowercase
from typing import Any

import torch
from torch.autograd import forward_ad as _forward_ad

from madelung import _arguments as check
from madelung.kernels._body import Body
from madelung.torch import _inputs as given
from madelung.torch._autograd import _transforms_active
from madelung.torch._framework import Graph, mode_among
from madelung.torch._straight_op import straight

# How calls are dispatched outside of all ops, where autograd sees them.
with torch.inference_mode(False):
    _PLAIN = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
_ORDERS = ("", "_backward", "_double_backward")
_Function = Callable[..., tuple[torch.Tensor, ...]]


@contextmanager
def recording() -> Iterator[None]:
    """A region in which gradients are recorded, also within an op, which runs below autograd."""
    if torch.compiler.is_compiling():
        with torch.enable_grad():
            yield
    else:
        with torch._C._ForceDispatchKeyGuard(*_PLAIN), torch.enable_grad():
            yield


def _vjp(f: _Function, count: int, by: Sequence[int]) -> _Function:
    """The function (*inputs, *weights, want) ↦ gradients of Σ ⟨weights, results⟩ by the inputs `by`.

    `want` has a bit for each; the gradients by the others are empty. It can be differentiated itself.
    """

    def gradients(*args: Any) -> tuple[torch.Tensor, ...]:
        inputs, weights, want = list(args[:count]), args[count:-1], args[-1]
        wanted = [n for bit, n in enumerate(by) if want >> bit & 1]
        is_nested = any(isinstance(x, torch.Tensor) and x.requires_grad for x in args)
        with recording():
            for n in wanted:
                x = inputs[n]
                inputs[n] = x.view_as(x) if x.requires_grad else x.detach().requires_grad_()
            results = [x for x in f(*inputs) if x.is_floating_point()]
            ends = [(x, w) for x, w in zip(results, weights) if x.requires_grad]
            found: Sequence[Any] = [None] * len(wanted)
            if ends and wanted:
                outputs, along = zip(*ends)
                leaves = [inputs[n] for n in wanted]
                found = torch.autograd.grad(outputs, leaves, along, create_graph=is_nested, allow_unused=True)
            of = dict(zip(wanted, found))
            zeros = {n: torch.zeros_like(inputs[n]) for n, x in of.items() if x is None}
            return tuple(inputs[n].new_empty(0) if n not in of else zeros.get(n, of[n]) for n in by)

    return gradients


class _Member:
    """One of the three ops."""

    def __init__(self, name: str, body: Body, by: Sequence[int], before: _Member | None = None) -> None:
        self.name, self.body, self.before = name, body, before
        self.order: int = 0 if before is None else before.order + 1
        if before is None:
            types = {"tensor": "Tensor", "int": "SymInt", "float": "float"}
            self.schema = [f"{types[i.type]} {i.name}" for i in body.inputs]
            for letter, n in zip(ascii_lowercase, body.writes):
                self.schema[n] = f"Tensor({letter}!) {body.inputs[n].name}"
            self.function: _Function = self._of_body
            self.by, results = list(by), len(body.outputs)
            self.smooth = [n for n, out in enumerate(body.outputs) if not out.is_integer]
            arrays = [n for n, i in enumerate(body.inputs) if i.part in ("real", "any") and n not in body.writes]
            self._cut = [(n, n in self.by) for n in arrays]
        else:
            first, results = len(before.schema), len(before.by)
            weights = [f"Tensor weight{self.order}_{n}" for n in range(len(before.smooth))]
            self.schema = [*before.schema, *weights, f"SymInt want{self.order}"]
            self.function = _vjp(before.function, first, before.by)
            self.by, self.smooth = [*before.by, *range(first, first + len(weights))], list(range(results))
            self._cut = [*before._cut, *((first + n, True) for n in range(len(weights)))]
        self.single, self._first = results == 1, self if before is None else before._first
        is_last = self.order + 1 == len(_ORDERS) or not self.by or not self.smooth
        self.next = None if is_last else _Member(name, body, by, self)
        self._register(results)

    def _register(self, results: int) -> None:
        returns = "Tensor" if self.single else f"({', '.join(['Tensor'] * results)})"
        schema = f"({', '.join(self.schema)}) -> {returns}"
        label = f"{self.name}{_ORDERS[self.order]}"
        written = [self.body.inputs[n].name for n in self.body.writes]
        op: Any = torch.library.custom_op(label, self._run, mutates_args=written, schema=schema)
        op.register_fake(lambda *args: self._given_back(self._fake(args)))
        op.register_vmap(lambda *args: tuple(map(self._given_back, self._vmap(*args))))
        self.overload = op._opoverload
        if written:
            return
        op.register_autograd(self._backward, setup_context=self._setup)
        # Functions of autograd know transforms and forward mode, which an op of the library does not.
        rules = {
            "forward": self._forward,
            "setup_context": self._setup,
            "backward": self._backward,
            "jvp": self._jvp,
            "vmap": self._vmap,
        }
        rules = {name: staticmethod(f) for name, f in rules.items()}
        self.eager = type(label.replace("::", "_"), (torch.autograd.Function,), rules)

    def __call__(self, *args: Any) -> tuple[torch.Tensor, ...]:
        """The results of the op, with their derivatives."""
        if self.body.writes:
            return self._forward(*args)
        if not torch.compiler.is_compiling():
            return self.eager.apply(*args)
        if _forward_ad._current_level >= 0:
            message = f"`{self.name}`: PyTorch would drop the tangents of this op in a graph without a word"
            raise NotImplementedError(f"{message}: take forward mode outside of `torch.compile`")
        return self._forward(*args)

    def direct(self, flat: Sequence[Any]) -> Any:
        """The results of the function itself, with their own graph. Its arguments are those of the caller, so that what
        is known of lists holds; reals without a gradient are cut off."""
        args = list(flat)
        for n, is_smooth in self._cut:
            x = flat[n]
            args[n] = x if is_smooth and x.requires_grad else x.detach()
        results = _apart(self._of_body(*args), args)
        for n in self.body.writes:
            torch.autograd.graph.increment_version(flat[n])
        return self._given_back(results)

    def _own(self, found: Any, flat: Sequence[Any]) -> Any:
        """The results of a plain call, where they are not known to be those of the op."""
        return self._given_back(_apart(self._checked(found, flat), flat))

    def _given_back(self, results: tuple[Any, ...]) -> Any:
        return results[0] if self.single else results or None

    def _forward(self, *args: Any) -> tuple[torch.Tensor, ...]:
        results = self.overload(*args)
        return (results,) if self.single else tuple(results or ())

    def _of_body(self, *flat: Any) -> tuple[torch.Tensor, ...]:
        arguments, like = self.body.arguments(flat), self._like(flat)
        # Layers would give other dtypes than those that are declared.
        is_cast = like.device.type in ("cpu", "cuda") and torch.is_autocast_enabled(like.device.type)
        with torch._C._DisableAutocast() if is_cast else nullcontext():
            return self._checked(self.body.function(*arguments), flat)

    def _checked(self, results: Any, flat: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """The results of the function, if they are what is declared."""
        if not isinstance(results, (tuple, list)):
            results = () if results is None and not self.body.outputs else (results,)
        expected = self._fake(flat, empty=False)
        if len(results) != len(expected):
            check.refuse(self.name, f"{len(expected)} results of its function", len(results))
        for out, x, (shape, dtype) in zip(self.body.outputs, results, expected):
            if not isinstance(x, torch.Tensor):
                check.refuse(out.name, "a tensor", check.described(x), TypeError)
            if x.shape != shape or x.dtype != dtype:
                check.refuse(out.name, f"{dtype} of shape {tuple(shape)}", f"{x.dtype} of shape {tuple(x.shape)}")
        return tuple(results)

    def _run(self, *args: Any) -> Any:
        plain = list(args)
        for n, _ in self._cut:
            plain[n] = args[n].detach()
        with torch.no_grad():
            results = _apart([x.detach() for x in self.function(*plain)], plain)
        return self._given_back(results)

    def _like(self, args: Sequence[Any]) -> torch.Tensor:
        """The tensor by which results have their place, and their dtype where they have none of their own."""
        for n in self.body.arrays:
            if args[n].is_floating_point():
                return args[n]
        for out in self.body.outputs:
            if out.dtype is None:
                check.refuse(out.name, "a dtype of its own, as no argument is an array of reals", "none")
        return args[self.body.arrays[0]]

    def _fake(self, args: Sequence[Any], empty: bool = True) -> tuple[Any, ...]:
        """The results without values, or their shapes and dtypes."""
        if self.before is not None:
            of = enumerate(self.before.by)
            return tuple(torch.empty_like(args[n]) if args[-1] >> bit & 1 else args[n].new_empty(0) for bit, n in of)
        like = self._like(args)
        dtypes = [getattr(torch, out.dtype) if out.dtype else like.dtype for out in self.body.outputs]
        found = list(zip(self.body.shapes(args), dtypes))
        return tuple(like.new_empty(shape, dtype=dtype) for shape, dtype in found) if empty else tuple(found)

    def _setup(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        if not self.by:
            ctx.mark_non_differentiable(*([output] if isinstance(output, torch.Tensor) else output))
        tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        ctx.others = [None if isinstance(x, torch.Tensor) else x for x in inputs]

    def _kept(self, ctx: Any) -> list[Any]:
        left = iter(ctx.saved_tensors)
        return [next(left) if x is None else x for x in ctx.others]

    def _after(self) -> _Member:
        if self.next is None:
            message = f"`{self.name}`: expected at most two derivatives of an op made by `custom_op`, got a third"
            raise NotImplementedError(f"{message}, or forward over forward mode (take reverse mode once)")
        return self.next

    def _backward(self, ctx: Any, *v: Any) -> tuple[Any, ...]:
        args, needs = self._kept(ctx), ctx.needs_input_grad
        want = sum(1 << bit for bit, n in enumerate(self.by) if needs[n])
        if self.next is None and not args[-1] % (1 << len(self._first.by)):
            gradients = self._backward_of_direction(args, v, want)
        else:
            gradients = dict(zip(self.by, self._after()(*args, *(v[n] for n in self.smooth), want)))
        return tuple(gradients.get(n) if need else None for n, need in enumerate(needs))

    def _backward_of_direction(self, args: list[Any], v: Sequence[Any], want: int) -> dict[int, Any]:
        """Gradients of ⟨v, J t⟩, of which `_jvp` takes J t from the last member: second derivatives, no third ones."""
        before, first = self.before, self._first
        assert before is not None
        inputs, mask, along = args[: len(first.schema)], args[len(before.schema) - 1], args[len(before.schema) : -1]
        weights = v[len(first.by) :]
        bits = want % (1 << len(first.by))
        by_inputs = self(*inputs, *weights, mask, *along, bits)
        by_along = before(*inputs, *weights, mask)
        return {**dict(zip(first.by, by_inputs)), **dict(zip(range(len(before.schema), len(args)), by_along))}

    def _jvp(self, ctx: Any, *tangents: Any) -> tuple[Any, ...]:
        """Derivatives along a direction t, by the member after the next for J t, and by the next for the gradient: its
        derivative by the inputs is symmetric, and it is linear in the weights."""
        after, args = self._after(), self._kept(ctx)
        first = self._first
        absent = args[first.by[0]].new_empty(0)
        along = [absent if tangents[n] is None else tangents[n] for n in first.by]
        mask = sum(1 << bit for bit, n in enumerate(first.by) if tangents[n] is not None)
        if self.before is None:
            zeros = [torch.zeros_like(x) for x in (self._fake(args)[n] for n in self.smooth)]
            want = sum(1 << len(self.by) + n for n in range(len(zeros)))
            found = dict(zip(self.smooth, after._after()(*args, *zeros, mask, *along, want)[len(self.by) :]))
            return tuple(found.get(n) for n in range(len(self.body.outputs)))
        weights = [torch.zeros_like(args[n]) if tangents[n] is None else tangents[n] for n in self.by[len(first.by) :]]
        by_inputs = after(*args[:-1], mask, *along, args[-1])
        by_weights = self(*args[: len(first.schema)], *weights, args[-1])
        return tuple(x + y for x, y in zip(by_inputs, by_weights))

    def _vmap(self, info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """One call after the other."""
        for n in self.body.writes:
            if in_dims[n] is None:
                check.refuse(self.body.inputs[n].name, "an array for each call of `vmap`, to be written to", "one")
        calls = [
            self(*(x if d is None else x.select(d, n) for x, d in zip(args, in_dims))) for n in range(info.batch_size)
        ]
        results = tuple(map(torch.stack, zip(*calls)))
        return results, (0,) * len(results)


def _apart(results: Sequence[torch.Tensor], args: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    """The results of an op, which have memory of their own."""
    taken = {x.untyped_storage()._cdata for x in args if isinstance(x, torch.Tensor)}
    apart = []
    for x in results:
        apart.append(x.clone() if x.untyped_storage()._cdata in taken else x)
        taken.add(apart[-1].untyped_storage()._cdata)
    return tuple(apart)


def _is_plain(flat: Sequence[Any]) -> bool:
    """Whether neither a transform nor a mode is to see the op, and all tensors have memory."""
    if _transforms_active() or _forward_ad._current_level >= 0 or torch._C._len_torch_dispatch_stack():
        return False
    return all([type(x) in given.PLAIN for x in flat if isinstance(x, torch.Tensor)])


class CustomOp:
    """Op of PyTorch made of a Python function; see `custom_op`."""

    def __init__(self, name: str, body: Body, by: Sequence[int]) -> None:
        self.__name__, self.__doc__ = body.label, body.function.__doc__
        self._name, self._body = name, body
        self._op = _Member(name, body, by)
        self._straight = None if body.writes else straight(body, by, self._op._own)

    def __repr__(self) -> str:
        return f"<op {self._name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs: one as it is, several as a tuple. Arguments are those of the function, given as to a kernel."""
        if self._straight is not None and not torch.compiler.is_compiling():
            found = self._straight(args, kwargs)
            if found is not NotImplemented:
                return found
        mode = mode_among((*args, *kwargs.values()))
        flat = self._body.flat(mode, args, kwargs)
        is_direct = not issubclass(mode, Graph) and _is_plain(flat)
        return self._op.direct(flat) if is_direct else self._op._given_back(self._op(*flat))


def custom_op(
    name: str,
    *,
    outputs: Sequence[Any] = (),
    differentiable: Sequence[str] | None = None,
    mutates_args: Sequence[str] = (),
) -> Callable[[Callable[..., Any]], CustomOp]:
    """Decorator: one op of a Python function that calls several kernels, or any functions of PyTorch.

    Its parameters are annotated as those of a kernel, `Array[Vec3, Atom]` and so on, and given alike; the function gets
    tensors of these shapes, batches and pair lists as a kernel takes them. Parameters of other shapes are annotated
    `torch.Tensor`. Reals may all be of half precision. Under `torch.autocast` they are widened as those of a kernel
    are, but for tensors of other shapes, and the function runs without it. It may differentiate by
    `torch.autograd.grad`, but not by `backward`, which would add to the gradients of the caller's tensors.

    Graphs and transforms run the function again for each derivative, of which they have two, and `vmap` is a loop.
    There gradients are by arguments alone, and not by tensors from around the function.

    Args:
        name: that of the op in PyTorch, such as "mylib::lj". An op of this name that is there is replaced.
        outputs: `OutputSpec(name, type, dimensions, dtype)` of each result, by dimensions of the parameters, names of
            parameters that are `Int`, and numbers. None at all: of a function that only writes to its arguments.
        differentiable: names of parameters; None: all arrays of reals, and tensors.
        mutates_args: names of parameters whose arrays the function writes to, beside those annotated `InOut[T, Rows]`.
            It must not write to others. A function that writes to some has no derivatives.

    Raises:
        TypeError, ValueError: For other annotations or outputs; in calls as for a kernel, and for a function that gives
            something else than it declares.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z]\w*::_?[A-Za-z]\w*", name, re.ASCII):
        check.refuse("name", "a namespace and a name, as in 'mylib::lj'", repr(name))

    if isinstance(mutates_args, str):
        check.refuse("mutates_args", "names of parameters, as in ('x',)", repr(mutates_args), TypeError)

    def made(function: Callable[..., Any]) -> CustomOp:
        body = Body(function, outputs, torch.Tensor, mutates_args)
        body.needs()
        smooth = {i.name: n for n, i in enumerate(body.inputs) if i.part in ("real", "any")}
        if not body.arrays or (not smooth and any(out.dtype is None for out in body.outputs)):
            expected = "an array of reals among the parameters" + (", or a dtype of each output" if body.arrays else "")
            check.refuse(body.label, expected, ", ".join(a["name"] for a in body.args))
        if body.writes and differentiable:
            expected = "no names, as a function that writes to arguments has no derivatives"
            check.refuse("differentiable", expected, repr(differentiable))
        for each in () if differentiable is None else differentiable:
            if each not in smooth:
                check.refuse("differentiable", "parameters that are arrays of reals: " + ", ".join(smooth), repr(each))
        by = [n for x, n in smooth.items() if differentiable is None or x in differentiable]
        return CustomOp(name, body, [] if body.writes else by)

    return made
