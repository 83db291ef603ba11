"""Calls and launches whose arguments are like those of an earlier one.

What becomes of arguments depends on their names, types, dtypes and shapes, and not on what is in them. So the second
call of a kind has the inputs of its op from where the first one found them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from madelung.kernels._bind import Call

# How many kinds of calls an op keeps.
_KEPT = 64
_INT32 = 2**31
_NUMBERS = (float, int)


class _Plan(NamedTuple):
    """Places, among the values of a call, of everything that its op takes."""

    f: Any
    """The framework."""
    inputs: list[tuple[int | None, Any]]
    """Inputs: the place of each, or None and the input itself."""
    numbers: list[int]
    """Numbers, whose values are checked."""
    rooms: list[int | None]
    """Arrays in which results are computed."""
    apart: list[tuple[int, int]]
    """Pairs of such an array and another one, which may not share memory."""
    owners: list[tuple[int, int]]
    """Pairs of which each has memory of its own, so that they share some if they are one array."""

    def fits(self, values: Sequence[Any]) -> bool:
        """Whether numbers are finite, integers short, and arrays apart; what does not fit is refused by a call."""
        for k in self.numbers:
            x = values[k]
            if not (math.isfinite(x) if type(x) is float else -_INT32 <= x < _INT32):
                return False
        for n, k in self.owners:
            if values[n] is values[k]:
                return False
        return not self.apart or not any([self.f.overlap(values[n], values[k]) for n, k in self.apart])


class _Like(NamedTuple):
    """Values of a call, and the plan of an earlier one that is like it."""

    values: tuple[Any, ...]
    names: tuple[Any, ...]
    key: tuple[Any, ...]
    """Names, types, dtypes and shapes, by which plans are kept."""
    plan: _Plan | None

    def run(self, call: Callable[..., Any]) -> Any:
        """The results of the op by the plan."""
        inputs = [x if k is None else self.values[k] for k, x in self.plan.inputs]
        return self.plan.f.again(call, inputs, [None if k is None else self.values[k] for k in self.plan.rooms])


class Repeated:
    """Plans of the calls of an op."""

    def __init__(self) -> None:
        self._plans: dict[Any, _Plan | None] = {}

    def like(
        self, kind: Callable[[Any], Any], args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> _Like:
        """A call with what is known of others like it.

        `kind`: what of an array a plan depends on, and whether it has memory of its own; None where a plan depends on
        more.
        """
        values = (*args, *kwargs.values(), *outputs.values())
        names = (len(args), len(outputs), *kwargs, *outputs)
        key = (*names, *[type(x) if type(x) in _NUMBERS else kind(x) for x in values])
        plan = self._plans.get(key)
        return _Like(values, names, key, plan if plan is not None and plan.fits(values) else None)

    def keep(self, like: _Like, call: Call, flat: Sequence[Any], rooms: Sequence[Any]) -> None:
        """Keeps the plan of a call, of which the inputs and the rooms are known."""
        if like.key not in self._plans and None not in like.key:
            if len(self._plans) == _KEPT:
                self._plans.clear()
            self._plans[like.key] = _planned(like, call, flat, rooms)


def _planned(like: _Like, call: Call, flat: Sequence[Any], rooms: Sequence[Any]) -> _Plan | None:
    """The plan of a call; None where its inputs are not the arguments as they are."""
    if call.rounds_to is not None:
        return None
    values, (args, outputs, *named) = like.values, like.names
    places = {name: k for k, name in enumerate([*map(call.name, call.op.args[:args]), *named])}
    inputs: list[tuple[int | None, Any]] = []
    numbers: list[int] = []
    for i, x in zip(call.op.inputs, flat):
        k = places.get(call.name(call.op.args[i.arg]))
        # Sizes follow from shapes, and what was left out from these.
        if k is None or i.part in ("systems", "columns", "into"):
            inputs.append((None, x))
            continue
        # A size and outputs that have another one are compared by a call.
        if x is not values[k] or (outputs and i.name in call.op.sized):
            return None
        inputs.append((k, None))
        numbers += [k] * (i.part in ("scalar", "int_scalar"))
    at = [next((k for k, x in enumerate(values) if x is room), None) for room in rooms]
    written = [k for k in at if k is not None]
    if len(written) != outputs:
        return None
    others = [k for k, x in enumerate(values) if type(x) not in _NUMBERS and k not in written]
    apart = [(n, k) for m, n in enumerate(written) for k in (*others, *written[:m])]
    kinds = like.key[len(like.names) :]
    owners = [(n, k) for n, k in apart if kinds[n][-1] and kinds[k][-1]]
    return _Plan(call.f, inputs, numbers, at, [pair for pair in apart if pair not in owners], owners)
