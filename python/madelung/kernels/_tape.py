"""Gradients of calls on NumPy arrays, which have no automatic differentiation of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from madelung import _arguments as check
from madelung._interop import on_host
from madelung._schema import GRADIENT, GRADIENT_TANGENT, TANGENT

if TYPE_CHECKING:
    from madelung.kernels._bind import Call

# An array, or None for one that is zero.
Weight = np.ndarray | None
# Place of an array in memory: equal for two objects that are the same elements.
Place = tuple[Any, ...]
# State of an array on a tape: its place, and how many recorded calls have written to it by then.
State = tuple[Place, int]

_active: ContextVar[tuple[Tape, ...]] = ContextVar("madelung tapes", default=())


def is_recording() -> bool:
    """Whether calls are recorded."""
    return bool(_active.get())


class Tape:
    """Record of the calls and launches of kernels on NumPy arrays within `with`.

    `replay` runs all of it again, at the present values of the arrays that were given, and writes to those that were
    results. `backward` adds gradients of results to `gradients`, as often as it is called; `gradient` gives one at
    once. Within the `with` of another tape the latter is recorded too, so that it can be differentiated again, to
    second order.

    Derivatives are those at the values of the calls, or of the last replay. NumPy's own operations are not recorded:
    what lies between two calls is a kernel. PyTorch and JAX have tapes of their own, on which kernels are ops like
    others.
    """

    def __init__(self) -> None:
        self._nodes: list[_Node] = []
        # What the last recorded call that wrote to an array has left in it.
        self._left: dict[Place, np.ndarray] = {}
        # By the place of an array: it, and its gradient.
        self._sums: dict[Place, tuple[np.ndarray, np.ndarray]] = {}

    def __enter__(self) -> Tape:
        if self in _active.get():
            raise ValueError("`tape`: expected one that does not record yet, got one within its own `with`")
        self._token = _active.set((*_active.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _active.reset(self._token)

    def replay(self) -> None:
        """Runs the recorded calls again, in their order, with what is in their arrays by now.

        Results are written to the arrays that the calls gave, or were launched to; an `InOut[…]` goes on from what its
        array holds. Nothing is recorded.

        Raises:
            ValueError: As the calls; and where a result (of a search in a grid) has another size than before.
        """
        with _paused():
            for node in self._nodes:
                node.again()
                self._keep(node)

    def backward(self, loss: Any, weights: Any = None) -> None:
        """Adds the gradient of Σ weights · loss to `gradients`, by every array that calls were given and none made.

        Args:
            loss: a result of a recorded call, or several.
            weights: array of the shape of `loss`, or one for each; None: one for each element.

        Raises:
            ValueError: As `gradient`; and for arrays that were written to since they were given, until a `replay`.
        """
        several = isinstance(loss, (list, tuple))
        results = [on_host("loss", y) for y in (loss if several else [loss])]
        each = [None] * len(results) if weights is None else list(weights) if several else [weights]
        if len(each) != len(results):
            check.refuse("weights", f"one for each of {len(results)} results", len(each))
        order = _Order(self._nodes)
        with _paused():
            seeds: dict[State, np.ndarray] = {}
            for y, w in zip(results, each):
                state, seed = order.seed("loss", y, w)
                seeds[state] = seeds[state] + seed if state in seeds else seed
            sums = order.sums(seeds)
            reached = {place: x for place, x in order.arguments().items() if (place, 0) in sums}
            order.check_numbers(seeds, [(place, 0) for place in reached])
            order.check_unchanged(reached)
            for place, x in reached.items():
                if place in self._sums:
                    self._sums[place][1][...] += sums[place, 0]
                else:
                    self._sums[place] = x, sums[place, 0].copy()

    @property
    def gradients(self) -> Mapping[Any, np.ndarray]:
        """The gradients by arrays, `gradients[x]`: sums over the calls of `backward` since the last `zero`.

        They have those that a backward pass has reached, for which each gradient is one array for good.
        """
        return _Gradients(self._sums)

    def zero(self) -> None:
        """Sets the gradients to zero."""
        for _, gradient in self._sums.values():
            gradient[...] = 0

    @overload
    def gradient(self, of: np.ndarray, by: np.ndarray, weights: Any = None) -> np.ndarray: ...
    @overload
    def gradient(self, of: np.ndarray, by: Sequence[np.ndarray], weights: Any = None) -> list[np.ndarray]: ...
    def gradient(self, of: Any, by: Any, weights: Any = None) -> Any:
        """Gradient of Σ weights · of.

        Args:
            of: an output of a recorded call, or a gradient.
            by: an array that was given to one, or several of them; the array itself, not a copy. One that calls were
                given and wrote to is meant as it was at first.
            weights: array of the shape of `of`; None: one for each element.

        Returns:
            An array of the shape of `by`, or a list of them.

        Raises:
            ValueError: For arrays that no recorded call gave or was given, for one from which no recorded calls lead to
                `of`, and where one on the way, or `by` itself, was given for a number of a call (`Real`).
        """
        several = isinstance(by, (list, tuple))
        names = [f"by[{n}]" for n in range(len(by))] if several else ["by"]
        arrays = [on_host(name, x) for name, x in zip(names, by if several else [by])]
        order = _Order(self._nodes)
        of, seed = order.seed("of", on_host("of", of), weights)
        states = [order.state(name, x) for name, x in zip(names, arrays)]
        order.check_numbers([of], states)
        order.check_paths(of, states, names, arrays)
        sums = order.sums({of: seed})
        found = [sums[state] for state in states]
        return found if several else found[0]

    def _note(self, node: _Node) -> None:
        self._nodes.append(node)
        self._keep(node)

    def _keep(self, node: _Node) -> None:
        self._left.update({_place(y): y.copy() for y in node.smooth})


class _Gradients(Mapping[Any, np.ndarray]):
    """Gradients of a tape by arrays, which are no keys of a dictionary."""

    def __init__(self, sums: Mapping[Place, tuple[np.ndarray, np.ndarray]]) -> None:
        self._sums = sums

    def __getitem__(self, x: Any) -> np.ndarray:
        array = on_host("gradients", x)
        found = self._sums.get(_place(array)) if isinstance(array, np.ndarray) else None
        if found is None:
            expected = "an array that calls were given, from which recorded calls lead to a `loss` of `backward`"
            check.refuse("gradients", expected, check.described(x), KeyError)
        return found[1]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (x for x, _ in self._sums.values())

    def __len__(self) -> int:
        return len(self._sums)


class _Order:
    """Recorded computations with the states of arrays that they read and leave."""

    def __init__(self, nodes: Sequence[_Node]) -> None:
        self.nodes = list(nodes)
        self.written: dict[Place, int] = {}
        # Of each node: the states of what it was given, for numbers by name, and of its results that have derivatives.
        self.reads: list[list[State]] = []
        self.numbers: list[dict[str, State]] = []
        self.makes: list[list[State]] = []
        # Arrays that were given to calls, in each state.
        self.given: dict[State, np.ndarray] = {}
        for node in self.nodes:
            self.reads.append([self._at(x) for x in node.inputs])
            self.numbers.append({name: self._at(x) for name, x in node.numbers.items()})
            self.given.update(zip(self.reads[-1], node.inputs))
            for y in node.outputs:
                self.written[_place(y)] = self.written.get(_place(y), 0) + 1
            self.makes.append([self._at(y) for y in node.smooth])

    def _at(self, x: np.ndarray) -> State:
        place = _place(x)
        return place, self.written.get(place, 0)

    def seed(self, name: str, y: Any, weights: Any) -> tuple[State, np.ndarray]:
        """The state of a result, and the weights of its elements."""
        if not isinstance(y, np.ndarray) or not any(self._at(y) in makes for makes in self.makes):
            check.refuse(name, "an output of a call that was recorded", check.described(y))
        return self._at(y), (
            np.ones_like(y) if weights is None else check.reals("weights", weights, y.shape).astype(y.dtype)
        )

    def state(self, name: str, x: Any) -> State:
        """The first state of an array that calls were given."""
        states = [(_place(x), 0), (_place(x), 1)] if isinstance(x, np.ndarray) else []
        found = [state for state in states if state in self.given]
        if not found:
            check.refuse(name, "arrays of floats that a recorded call was given", check.described(x))
        return found[0]

    def sums(self, seeds: Mapping[State, np.ndarray]) -> dict[State, np.ndarray]:
        """Gradients of Σ seeds · results by every array on the way to these, in its states."""
        sums = dict(seeds)
        for node, reads, makes in zip(reversed(self.nodes), reversed(self.reads), reversed(self.makes)):
            weights = [sums.get(state) for state in makes]
            if all(w is None for w in weights):
                continue
            for state, g in zip(reads, node.pull(weights)):
                if g is not None:
                    sums[state] = _Sum(sums[state], g).outputs[0] if state in sums else g
        return sums

    def _before(self, of: Sequence[State]) -> set[State]:
        """The states on which results depend, and these."""
        found = set(of)
        for reads, makes in zip(reversed(self.reads), reversed(self.makes)):
            if not found.isdisjoint(makes):
                found.update(reads)
        return found

    def check_numbers(self, of: Sequence[State] | Mapping[State, Any], by: Sequence[State]) -> None:
        """Refuses results that depend on arrays through numbers, which have no derivative."""
        after = set(by)
        for reads, numbers, makes in zip(self.reads, self.numbers, self.makes):
            if not after.isdisjoint((*reads, *numbers.values())):
                after.update(makes)
        before = self._before(list(of))
        for numbers, makes in zip(self.numbers, self.makes):
            for name, state in numbers.items():
                if state in after and not before.isdisjoint(makes):
                    expected = "a number, which has no gradient (annotate it `Array[Real]`)"
                    check.refuse(name, expected, "an array by which a gradient is asked for")

    def check_paths(self, of: State, by: Sequence[State], names: Sequence[str], arrays: Sequence[np.ndarray]) -> None:
        """Refuses arrays from which no recorded calls lead to a result."""
        before = self._before([of])
        for state, name, x in zip(by, names, arrays):
            if state not in before:
                expected = "an array from which recorded calls lead to `of` (NumPy's own operations are not recorded)"
                check.refuse(name, expected, f"{check.described(x)}, from which none do")

    def arguments(self) -> dict[Place, np.ndarray]:
        """The arrays that calls were given."""
        return {_place(x): x for node in self.nodes for _, x, _ in node.values()}

    def check_unchanged(self, arrays: Mapping[Place, np.ndarray]) -> None:
        """Refuses arrays that no call wrote to and that have other values than calls were given."""
        for node in self.nodes:
            for name, x, value in node.values():
                if _place(x) in arrays and _place(x) not in self.written and not _is_same(x, value):
                    expected = "the values that the recorded calls were given (`replay` takes others)"
                    check.refuse(name, expected, "an array that was written to since")


class _Node:
    """Computation that was recorded: arrays made of others."""

    # By name the arrays that were given for numbers, by which there is no derivative.
    numbers: Mapping[str, np.ndarray] = MappingProxyType({})

    def __init__(self, inputs: Sequence[np.ndarray]) -> None:
        self.inputs = inputs
        self.outputs = self.compute()
        for tape in _active.get():
            tape._note(self)

    @property
    def smooth(self) -> Sequence[np.ndarray]:
        """The outputs that have derivatives."""
        return self.outputs

    def compute(self) -> list[np.ndarray]:
        """The outputs, of what is in the inputs by now."""
        raise NotImplementedError

    def pull(self, weights: list[Weight]) -> Sequence[Weight]:
        """Gradients by the inputs of the outputs that have derivatives, with weights."""
        raise NotImplementedError

    def again(self) -> None:
        """Writes to the outputs what they are by now."""
        for y, x in zip(self.outputs, self.compute(), strict=True):
            if y.shape != x.shape:
                check.refuse("replay", f"a result of shape {y.shape}, as the recorded call gave", x.shape)
            np.copyto(y, x)

    def values(self) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """The name of each array that a call was given, the array, and what it held."""
        return []


class _Evaluated(_Node):
    """Call of an op.

    `given` are its arguments by name; `run` calls it and gives the inputs that were made of them, which nobody changes
    afterwards, and the results last.
    """

    def __init__(self, call: Call, given: Mapping[str, Any], run: Callable[[], tuple[list[Any], ...]]) -> None:
        op, name = call.op, call.name
        self.op, self._run = op, run
        names = {k: name(op.args[op.inputs[n].arg]) for k, n in enumerate(op.reals)}
        self.names = {k: x for k, x in names.items() if isinstance(given.get(x), np.ndarray)}
        of_numbers = {name(a): given.get(name(a)) for a in op.args if a["kind"] == "scalar"}
        self.numbers = {k: x for k, x in of_numbers.items() if isinstance(x, np.ndarray)}
        self.by = {k: given[x] for k, x in self.names.items()}
        super().__init__(list(self.by.values()))

    @property
    def smooth(self) -> Sequence[np.ndarray]:
        return [self.outputs[n] for n in self.op.smooth]

    def compute(self) -> list[np.ndarray]:
        self.flat, *_, results = self._run()
        return results

    def pull(self, weights: list[Weight]) -> Sequence[Weight]:
        return _Gradient(self, weights).outputs

    def values(self) -> list[tuple[str, np.ndarray, np.ndarray]]:
        return [(self.names[k], x, self.flat[self.op.reals[k]].reshape(x.shape)) for k, x in self.by.items()]


class _Gradient(_Node):
    """Gradients of a call with weights."""

    def __init__(self, of: _Evaluated, weights: list[Weight]) -> None:
        self.of, self.weights, self.numbers = of, weights, of.numbers
        self.extra: list[Weight] = [None] * len(of.op.outputs)
        for n, w in zip(of.op.smooth, weights):
            self.extra[n] = w
        self.want = sum(1 << k for k in of.by)
        super().__init__([*of.by.values(), *(w for w in weights if w is not None)])

    def compute(self) -> list[np.ndarray]:
        op, self.flat = self.of.op, self.of.flat
        self.found = op.run(GRADIENT, self.flat, [*self.extra, *[None] * len(op.saves)], self.want)
        return [self.found[k].reshape(x.shape) for k, x in self.of.by.items()]

    def pull(self, weights: list[Weight]) -> Sequence[Weight]:
        return _Second(self, weights).outputs


class _Second(_Node):
    """Derivatives of gradients, which are symmetric: those of the gradient, along its own weights."""

    def __init__(self, of: _Gradient, along: list[Weight]) -> None:
        self.of, self.numbers, by = of, of.numbers, of.of.by
        self.direction: list[Weight] = [None] * len(of.of.op.reals)
        for k, u in zip(by, along):
            self.direction[k] = None if u is None else np.ascontiguousarray(u).reshape(of.found[k].shape)
        super().__init__([*of.inputs, *(u for u in along if u is not None)])

    def compute(self) -> list[np.ndarray]:
        of, op = self.of, self.of.of.op
        second = op.run(GRADIENT_TANGENT, of.flat, [*of.extra, *self.direction], of.want)
        tangents = op.run(TANGENT, of.flat, self.direction)
        by_weights = [tangents[n] for n, w in zip(op.smooth, of.weights) if w is not None]
        return [*(second[k].reshape(x.shape) for k, x in of.of.by.items()), *by_weights]

    def pull(self, weights: list[Weight]) -> Sequence[Weight]:
        raise NotImplementedError("derivatives of third order")


class _Sum(_Node):
    """Sum of two gradients."""

    def __init__(self, *both: np.ndarray) -> None:
        super().__init__(both)

    def compute(self) -> list[np.ndarray]:
        return [self.inputs[0] + self.inputs[1]]

    def pull(self, weights: list[Weight]) -> Sequence[Weight]:
        return weights * 2


def recorded(call: Call, given: Mapping[str, Any], run: Callable[[], tuple[list[Any], ...]]) -> list[np.ndarray]:
    """The results of a call that is recorded: see `_Evaluated`."""
    op, name, in_out = call.op, call.name, {out["name"] for out in call.op.outputs}
    for arg in (op.args[op.inputs[n].arg] for n in op.reals):
        x = given.get(name(arg))
        for tape in _active.get() if isinstance(x, np.ndarray) and arg["name"] not in in_out else ():
            left = tape._left.get(_place(x))
            if left is not None and not _is_same(x, left):
                expected = "an array as a recorded call left it (NumPy's own operations are not recorded)"
                check.refuse(name(arg), expected, "one that was written to since")
    return _Evaluated(call, given, run).outputs


@contextmanager
def _paused() -> Iterator[None]:
    """Context in which nothing is recorded."""
    token = _active.set(())
    try:
        yield
    finally:
        _active.reset(token)


def _place(x: np.ndarray) -> Place:
    return x.__array_interface__["data"][0], x.shape, x.strides, x.dtype.str


def _is_same(x: np.ndarray, y: np.ndarray) -> bool:
    return np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
