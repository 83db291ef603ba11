"""Errors of calls that failed, in the words of this library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from madelung import _arguments as check
from madelung._functions.declare import FUNCTIONS, ON_DEVICE, Group
from madelung.torch import _inputs as given

# Errors that an op, the checks before it, or a tensor's method called on another object may raise.
FAILURES = (AttributeError, IndexError, TypeError, ValueError, RuntimeError)

# Checks of the kinds of numbers.
NUMBERS = {"number": check.number, "positive": check.positive}


def explained(name: str, error: Exception, passed_on: tuple[Any, ...]) -> Exception:
    """The error of a call that failed, in the words of this library: raised, or returned. `passed_on`: the body's."""
    declared = FUNCTIONS[name]
    parameters, groups, passed = [p for p in declared.parameters() if p.kind != "stream"], {}, {}
    for item, x in zip(declared.arguments(), passed_on):
        if isinstance(item, Group):
            groups[item.name] = item, x
            passed |= {p.name: each for p, each in zip(item.parameters, x)}
        else:
            passed[item.name] = x
    if any(isinstance(x, torch.Tensor) and given.is_transformed(x) for x in _of_kind(parameters, passed, "reals")):
        return _renamed(error)
    first = passed[parameters[0].name]
    for p in parameters[1:]:
        if p.kind in ON_DEVICE and isinstance(passed[p.name], torch.Tensor):
            given.expect(p.name, passed[p.name], first)
    # A trace would record looks at numbers.
    is_recorded = torch.jit.is_tracing()
    if isinstance(first, torch.Tensor) and (given.is_traced(first) or given.is_captured(first) or is_recorded):
        return _renamed(error)
    if "charges" in passed:
        q, cell = passed["charges"], passed["cell"]
        of = {p.name: p for p in parameters}
        if len(of["charges"].shape) == 2 and isinstance(q, torch.Tensor) and q.dim() == 2:
            # The channels are of one length.
            q = q.sum(1, dtype=q.dtype)
        if cell is None and of["cell"].default is None:
            cell = first.new_zeros(3, 3)
        system = given.charged(first, q, cell, passed["batch_idx"])
        for p in parameters:
            if p.kind in ("per_system", "sizes"):
                given.numbers(p.name, passed[p.name], system.systems)
    elif not isinstance(first, torch.Tensor):
        expected = "a tensor" if first is None else "a tensor (`torch.as_tensor` makes one)"
        check.refuse(parameters[0].name, expected, check.described(first), TypeError)
    if "segment_idx" in passed:
        check.fits(parameters[0].name, first, check.with_features(first))
        check.segmented(given.view("segment_idx", passed["segment_idx"], first), passed["num_segments"], len(first))
    for p in parameters:
        if p.kind in NUMBERS and passed[p.name] is not None:
            NUMBERS[p.kind](p.name, passed[p.name])
    for group, values in groups.values():
        if group.name == "lists" and values[0] is None:
            given.converted(first, *values[1:])
        elif group.name == "outputs":
            check.outputs(values)
        elif group.name == "miller":
            for p, x in zip(group.parameters, values):
                if x is not None:
                    check.integers(p.name, given.view(p.name, x, first), p.shape)
    if "got one of another dtype" in str(error):
        for p in parameters:
            x = passed[p.name]
            if p.kind == "integers" and isinstance(x, torch.Tensor) and x.dtype not in (torch.int32, torch.int64):
                check.refuse(p.name, "int32 or int64", str(x.dtype).removeprefix("torch."), TypeError)
    return _renamed(error)


def _of_kind(parameters: Sequence[Any], passed: dict[str, Any], kind: str) -> list[Any]:
    return [passed[p.name] for p in parameters if p.kind == kind]


def _renamed(error: Exception) -> Exception:
    """An op's error in the names of the functions' arguments."""
    text = str(error)
    is_ours = isinstance(error, RuntimeError) and text.startswith(("`", "out of memory"))
    return check.renamed(error) if is_ours else error
