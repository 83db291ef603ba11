"""Functions that read values, each as one op of graphs: it calls the function outside of them."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch.autograd import forward_ad as _forward_ad

from madelung._functions.declare import FUNCTIONS
from madelung._functions.whole import SHAPES
from madelung._neighbors import Neighbors

# Of arguments in a text: an array by its number, a number by that of an array, which a graph may change, neighbours by
# their fields, several, and anything else.
_ARRAY, _NUMBER, _NEIGHBORS, _SEVERAL, _PLAIN = "array", "number", "neighbors", "several", "plain"
_FIELDS = tuple([x.name for x in fields(Neighbors)])


def in_graph(name: str, given: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    """The results of a public function, as those of an op."""
    if _forward_ad._current_level >= 0:
        message = f"`{name}`: PyTorch would drop the tangents of this op in a graph without a word"
        raise NotImplementedError(f"{message}: take forward mode outside of `torch.compile`")
    arrays: list[torch.Tensor] = []
    settings = _settings(tuple([_apart(x, arrays) for x in given]))
    return tuple(OPS[name](arrays, settings))


def _apart(x: Any, arrays: list[torch.Tensor]) -> Any:
    """An argument by constants, with its tensors and numbers put behind others."""
    if isinstance(x, torch.Tensor):
        arrays.append(x)
        return _ARRAY, len(arrays) - 1
    if isinstance(x, (int, float)) and not isinstance(x, bool):
        dtype = torch.float64 if isinstance(x, float) else torch.int64
        arrays.append(torch.full((), x, dtype=dtype, device="cpu"))
        return _NUMBER, len(arrays) - 1
    if isinstance(x, Neighbors):
        return _NEIGHBORS, tuple([_apart(getattr(x, name), arrays) for name in _FIELDS])
    if isinstance(x, (tuple, list)):
        return _SEVERAL, tuple([_apart(each, arrays) for each in x])
    return _PLAIN, x


def _together(x: Any, arrays: Sequence[torch.Tensor], has_values: bool) -> Any:
    """An argument again; numbers without values are all 1."""
    kind, value = x
    if kind == _ARRAY:
        return arrays[value]
    if kind == _NUMBER:
        return arrays[value].item() if has_values else 1
    if kind == _PLAIN:
        return value
    several = tuple([_together(each, arrays, has_values) for each in value])
    return Neighbors(**dict(zip(_FIELDS, several))) if kind == _NEIGHBORS else several


def _settings(x: Any) -> str:
    """Constants as a text, which graphs hold as a constant."""
    return repr(x)


_settings._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _given(settings: str, arrays: Sequence[torch.Tensor], has_values: bool = True) -> list[Any]:
    return [_together(x, arrays, has_values) for x in ast.literal_eval(settings)]


def _called(name: str, arrays: Sequence[torch.Tensor], settings: str) -> tuple[torch.Tensor, ...]:
    """The results of the function outside of graphs."""
    from madelung.torch._bound import call

    return tuple(call(FUNCTIONS[name].body, None, *_given(settings, arrays)))


def _op(name: str, shapes: Callable[..., Sequence[Any]]) -> Callable[..., Any]:
    """The op of a function, and the one of its gradients, which calls the function again."""

    def value(arrays: Sequence[torch.Tensor], settings: str) -> list[torch.Tensor]:
        with torch.no_grad():
            return list(_called(name, [x.detach() for x in arrays], settings))

    def gradients(
        arrays: Sequence[torch.Tensor], settings: str, weights: Sequence[torch.Tensor], by: Sequence[int]
    ) -> list[torch.Tensor]:
        from madelung.torch._custom_op import recording

        with recording():
            leaves = [x.detach().requires_grad_(n in by) for n, x in enumerate(arrays)]
            ends = [(x, w) for x, w in zip(_called(name, leaves, settings), weights) if x.requires_grad]
            of = [leaves[n] for n in by]
            found = torch.autograd.grad([x for x, _ in ends], of, [w for _, w in ends], allow_unused=True)
        return [torch.zeros_like(x) if g is None else g for g, x in zip(found, of)]

    def results(arrays: Sequence[torch.Tensor], settings: str) -> list[torch.Tensor]:
        from madelung.torch._framework import Graph

        return [arrays[0].new_empty(shape) for shape in shapes(Graph, *_given(settings, arrays, False))]

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        arrays, ctx.settings = inputs
        ctx.save_for_backward(*arrays)

    def backward(ctx: Any, weights: Sequence[torch.Tensor]) -> tuple[Any, None]:
        by = [n for n, need in enumerate(ctx.needs_input_grad[0]) if need]
        found = dict(zip(by, of_gradients(list(ctx.saved_tensors), ctx.settings, list(weights), by)))
        return [found.get(n) for n in range(len(ctx.saved_tensors))], None

    define, label = torch.library.custom_op, f"madelung::{name}_v1"
    op = define(label, value, mutates_args=(), schema="(Tensor[] arrays, str settings) -> Tensor[]")
    schema = "(Tensor[] arrays, str settings, Tensor[] weights, int[] by) -> Tensor[]"
    of_gradients = define(f"{label}_vjp", gradients, mutates_args=(), schema=schema)
    op.register_fake(results)
    of_gradients.register_fake(lambda arrays, settings, weights, by: [torch.empty_like(arrays[n]) for n in by])
    op.register_autograd(backward, setup_context=keep)
    return op


# Which declares the functions.
importlib.import_module("madelung._api")
OPS = {name: _op(name, shapes) for name, shapes in SHAPES.items()}
