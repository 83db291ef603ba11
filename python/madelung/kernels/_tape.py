"""Gradients of calls on NumPy arrays, which have no automatic differentiation of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np

from madelung import _arguments as check
from madelung._schema import GRADIENT, GRADIENT_TANGENT, TANGENT

# An array, or None for one that is zero.
Weight = np.ndarray | None

_active: ContextVar[tuple[Tape, ...]] = ContextVar("madelung tapes", default=())


def is_recording() -> bool:
    """Whether calls are recorded."""
    return bool(_active.get())


@dataclass(frozen=True)
class _Node:
    """Arrays that were made of others, and what weights of the ones are as weights of the others."""

    inputs: Sequence[np.ndarray]
    outputs: Sequence[np.ndarray]
    pull: Callable[[list[Weight]], list[Weight]]
    # By name the arrays that were given for numbers, by which there is no derivative.
    numbers: Mapping[str, np.ndarray] = field(default_factory=dict)


class Tape:
    """Record of the calls of kernels on NumPy arrays within `with`: gradients of what they gave, by what was given.

    Within the `with` of another tape gradients are recorded too, so that they can be differentiated again, to second
    order. Values are those of the calls, whatever becomes of the arrays afterwards. NumPy's own operations are not
    recorded: what lies between two calls is a kernel. PyTorch and JAX have tapes of their own, on which kernels are ops
    like others.
    """

    def __init__(self) -> None:
        self._nodes: list[_Node] = []

    def __enter__(self) -> Tape:
        if self in _active.get():
            raise ValueError("`tape`: expected one that does not record yet, got one within its own `with`")
        self._token = _active.set((*_active.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _active.reset(self._token)

    @overload
    def gradient(self, of: np.ndarray, by: np.ndarray, weights: Any = None) -> np.ndarray: ...
    @overload
    def gradient(self, of: np.ndarray, by: Sequence[np.ndarray], weights: Any = None) -> list[np.ndarray]: ...
    def gradient(self, of: Any, by: Any, weights: Any = None) -> Any:
        """Gradient of Σ weights · of.

        Args:
            of: an output of a recorded call, or a gradient.
            by: an array that was given to one, or several of them; the object itself, not a copy.
            weights: array of the shape of `of`; None: one for each element.

        Returns:
            An array of the shape of `by`, or a list of them.

        Raises:
            ValueError: For arrays that no recorded call gave or was given, for one from which no recorded calls lead to
                `of`, and where one on the way, or `by` itself, was given for a number of a call (`Real`).
        """
        nodes = tuple(self._nodes)
        several = isinstance(by, (list, tuple))
        arrays = list(by) if several else [by]
        if not any(of is y for node in nodes for y in node.outputs):
            check.refuse("of", "an output of a call that was recorded", check.described(of))
        _check_paths(nodes, of, {f"by[{n}]" if several else "by": x for n, x in enumerate(arrays)})
        seed = np.ones_like(of) if weights is None else check.reals("weights", weights, of.shape).astype(of.dtype)
        sums: dict[int, np.ndarray] = {id(of): seed}
        for node in reversed(nodes):
            given = [sums.get(id(y)) for y in node.outputs]
            if all(w is None for w in given):
                continue
            for x, g in zip(node.inputs, node.pull(given)):
                if g is not None:
                    sums[id(x)] = _added(sums[id(x)], g) if id(x) in sums else g
        found = [sums[id(x)] for x in arrays]
        return found if several else found[0]


def _check_paths(nodes: Sequence[_Node], of: np.ndarray, by: Mapping[str, np.ndarray]) -> None:
    """Refuses arrays from which no recorded calls lead to a result, or some that have no derivative."""
    for name, x in by.items():
        if not any(x is given for node in nodes for given in node.inputs):
            check.refuse(name, "arrays of floats that a recorded call was given", check.described(x))
    # The arrays that depend on those of `by`, and those on which the result does.
    after, before = set(map(id, by.values())), {id(of)}
    for node in nodes:
        if any(id(x) in after for x in (*node.inputs, *node.numbers.values())):
            after.update(map(id, node.outputs))
    for node in reversed(nodes):
        if any(id(y) in before for y in node.outputs):
            before.update(map(id, node.inputs))
            for name, x in node.numbers.items():
                if id(x) in after:
                    expected = "a number, which has no gradient (annotate it `Array[Real]`)"
                    check.refuse(name, expected, "an array by which a gradient is asked for")
    for name, x in by.items():
        if id(x) not in before:
            expected = "an array from which recorded calls lead to `of` (NumPy's own operations are not recorded)"
            check.refuse(name, expected, f"{check.described(x)}, from which none do")


def record(op: Any, given: Any, name: Callable[[Any], str], flat: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Notes a call of an op: `given` are its arguments by name, `flat` the inputs that were made of them."""
    of_real = {k: given.get(name(op.args[op.inputs[n].arg])) for k, n in enumerate(op.reals)}
    by = {k: x for k, x in of_real.items() if isinstance(x, np.ndarray)}
    of_numbers = {name(a): given.get(name(a)) for a in op.args if a["kind"] == "scalar"}
    numbers = {k: x for k, x in of_numbers.items() if isinstance(x, np.ndarray)}
    kept = [x.copy() if n in op.reals else x for n, x in enumerate(flat)]
    smooth = [outputs[n] for n in op.smooth]
    _note(_Node(list(by.values()), smooth, lambda w: _gradients(op, kept, by, numbers, w), numbers))


def _gradients(
    op: Any, flat: list[Any], by: dict[int, np.ndarray], numbers: Mapping[str, np.ndarray], weights: list[Weight]
) -> list[Weight]:
    """The gradients of a call by some of its differentiable inputs."""
    want = sum(1 << k for k in by)
    of_outputs: list[Weight] = [None] * len(op.outputs)
    for n, w in zip(op.smooth, weights):
        of_outputs[n] = w
    found = op.run(GRADIENT, flat, [*of_outputs, *[None] * len(op.saves)], want)
    gradients = [found[k].reshape(x.shape) for k, x in by.items()]

    def pull(along: list[Weight]) -> list[Weight]:
        """Second derivatives are symmetric: those of the gradient, along its own weights."""
        direction: list[Weight] = [None] * len(op.reals)
        for k, u in zip(by, along):
            direction[k] = None if u is None else np.ascontiguousarray(u).reshape(found[k].shape)
        second = op.run(GRADIENT_TANGENT, flat, [*of_outputs, *direction], want)
        tangents = op.run(TANGENT, flat, direction)
        by_weights = [tangents[n] for n, w in zip(op.smooth, weights) if w is not None]
        results = [*(second[k].reshape(x.shape) for k, x in by.items()), *by_weights]
        _note(_Node([*inputs, *(u for u in along if u is not None)], results, _third, numbers))
        return results

    inputs = [*by.values(), *(w for w in weights if w is not None)]
    _note(_Node(inputs, gradients, pull, numbers))
    return gradients


def _third(_: list[Weight]) -> list[Weight]:
    raise NotImplementedError("derivatives of third order")


def _added(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    both = x + y
    _note(_Node([x, y], [both], lambda w: [w[0], w[0]]))
    return both


def _note(node: _Node) -> None:
    for tape in _active.get():
        tape._nodes.append(node)
