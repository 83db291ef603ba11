"""One op of PyTorch made of a Python function, with two derivatives.

The op, its gradient, and the gradient of that are three opaque ops, and graphs see no more of them. The derivative of
each is a call of the next, which computes the function again under autograd.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd import forward_ad as _forward_ad

from madelung import _arguments as check
from madelung.kernels._body import Body
from madelung.torch._framework import mode_among

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
            self.function: _Function = self._of_body
            self.by, results = list(by), len(body.outputs)
            self.smooth = [n for n, out in enumerate(body.outputs) if not out.integer]
        else:
            first, results = len(before.schema), len(before.by)
            weights = [f"Tensor weight{self.order}_{n}" for n in range(len(before.smooth))]
            self.schema = [*before.schema, *weights, f"SymInt want{self.order}"]
            self.function = _vjp(before.function, first, before.by)
            self.by, self.smooth = [*before.by, *range(first, first + len(weights))], list(range(results))
        self.single, self._first = results == 1, self if before is None else before._first
        is_last = self.order + 1 == len(_ORDERS) or not self.by or not self.smooth
        self.next = None if is_last else _Member(name, body, by, self)
        self._register(results)

    def _register(self, results: int) -> None:
        returns = "Tensor" if self.single else f"({', '.join(['Tensor'] * results)})"
        schema = f"({', '.join(self.schema)}) -> {returns}"
        label = f"{self.name}{_ORDERS[self.order]}"
        op: Any = torch.library.custom_op(label, self._run, mutates_args=(), schema=schema)
        op.register_fake(lambda *args: self._given_back(self._fake(args)))
        op.register_autograd(self._backward, setup_context=self._setup)
        op.register_vmap(lambda *args: tuple(map(self._given_back, self._vmap(*args))))
        self.overload = op._opoverload
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
        """The results, with their derivatives."""
        if not torch.compiler.is_compiling():
            return self.eager.apply(*args)
        if _forward_ad._current_level >= 0:
            message = f"`{self.name}`: PyTorch would drop the tangents of this op in a graph without a word"
            raise NotImplementedError(f"{message}: take forward mode outside of `torch.compile`")
        return self._forward(*args)

    def _given_back(self, results: tuple[Any, ...]) -> Any:
        return results[0] if self.single else results

    def _forward(self, *args: Any) -> tuple[torch.Tensor, ...]:
        results = self.overload(*args)
        return (results,) if self.single else tuple(results)

    def _of_body(self, *flat: Any) -> tuple[torch.Tensor, ...]:
        results = self.body.function(*self.body.arguments(flat))
        results = results if isinstance(results, (tuple, list)) else (results,)
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
        plain = [x.detach() if isinstance(x, torch.Tensor) else x for x in args]
        with torch.no_grad():
            results = [x.detach() for x in self.function(*plain)]
        # The results of an op have memory of their own.
        taken = {x.untyped_storage()._cdata for x in plain if isinstance(x, torch.Tensor)}
        for n, x in enumerate(results):
            results[n] = x.clone() if x.untyped_storage()._cdata in taken else x
            taken.add(results[n].untyped_storage()._cdata)
        return self._given_back(tuple(results))

    def _fake(self, args: Sequence[Any], empty: bool = True) -> tuple[Any, ...]:
        """The results without values, or their shapes and dtypes."""
        if self.before is not None:
            of = enumerate(self.before.by)
            return tuple(torch.empty_like(args[n]) if args[-1] >> bit & 1 else args[n].new_empty(0) for bit, n in of)
        like = args[self.body.reals[0]]
        dtypes = [getattr(torch, out.integer) if out.integer else like.dtype for out in self.body.outputs]
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
        calls = [
            self(*(x if d is None else x.select(d, n) for x, d in zip(args, in_dims))) for n in range(info.batch_size)
        ]
        results = tuple(map(torch.stack, zip(*calls)))
        return results, (0,) * len(results)


class CustomOp:
    """Op of PyTorch made of a Python function; see `custom_op`."""

    def __init__(self, name: str, body: Body, by: Sequence[int]) -> None:
        self.__name__, self.__doc__ = body.label, body.function.__doc__
        self._name, self._body = name, body
        self._op = _Member(name, body, by)

    def __repr__(self) -> str:
        return f"<op {self._name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs: one as it is, several as a tuple. Arguments are those of the function, given as to a kernel."""
        flat = self._body.flat(mode_among((*args, *kwargs.values())), args, kwargs)
        return self._op._given_back(self._op(*flat))


def custom_op(
    name: str, *, outputs: Sequence[Any], differentiable: Sequence[str] | None = None
) -> Callable[[Callable[..., Any]], CustomOp]:
    """Decorator: one op of a Python function that calls several kernels, or any functions of PyTorch.

    Its parameters are annotated as those of a kernel, `Array[Vec3, Atom]` and so on, and given alike; the function gets
    tensors of these shapes, batches and pair lists as a kernel takes them. Parameters of other shapes are annotated
    `torch.Tensor`. The function must not change its arguments. It is run again for each derivative, of which there are
    two; `vmap` is a loop.

    Args:
        name: that of the op in PyTorch, such as "mylib::lj". An op of this name that is there is replaced.
        outputs: `OutputSpec(name, type, dimensions)` of each result, by dimensions of the parameters.
        differentiable: names of parameters; None: all arrays of reals, and tensors.

    Raises:
        TypeError, ValueError: For other annotations or outputs; in calls as for a kernel, and for a function that gives
            something else than it declares.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z]\w*::[A-Za-z]\w*", name, re.ASCII):
        check.refuse("name", "a namespace and a name, as in 'mylib::lj'", repr(name))

    def made(function: Callable[..., Any]) -> CustomOp:
        body = Body(function, outputs, torch.Tensor)
        body.needs()
        smooth = {i.name: n for n, i in enumerate(body.inputs) if i.part in ("real", "any")}
        if not body.reals:
            check.refuse(body.label, "an array of reals among the parameters", ", ".join(a["name"] for a in body.args))
        for each in () if differentiable is None else differentiable:
            if each not in smooth:
                check.refuse("differentiable", "parameters that are arrays of reals: " + ", ".join(smooth), repr(each))
        return CustomOp(name, body, [n for x, n in smooth.items() if differentiable is None or x in differentiable])

    return made
