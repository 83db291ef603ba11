"""Pair lists that a call has checked, and that have not changed since.

Whether a full list is full is found out by a sum over its pairs, which costs as much as a cheap kernel. A call that
ended well has checked it; the next one with the same tensors says so (`CHECKED` in the kind of the list), and then only
that every index is in range is looked at, which no call leaves out. On a device that is so of lists alone that were
searched there, and then nothing is looked at.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch

from madelung._schema import CHECKED
from madelung.torch._schema import Op

# Pairs below which a check costs less than to look for an earlier one, but for lists of a device, where a check is two
# launches.
MANY = 4096

# For each list that was checked its state, by the identity of its columns.
_checked: dict[int, tuple[tuple[weakref.ref[Any], ...], Any]] = {}


class Lists:
    """The pair lists among an op's inputs."""

    def __init__(self, op: Op) -> None:
        # Offsets, columns, images and kind follow each other.
        self.starts = [n for n, i in enumerate(op.inputs) if i.part == "ptr"]
        self.columns = [op.args[op.inputs[n].arg]["columns"] for n in self.starts]
        self.op = op

    def mark(self, args: Sequence[Any]) -> tuple[Sequence[Any], list[Any]]:
        """The arguments with lists that were checked before marked so; and the lists to `remember` if the call
        succeeds."""
        marked, pending, dims = list(args), [], self.op.dims(args)
        for n, columns in zip(self.starts, self.columns):
            arrays, kind = args[n : n + 3], args[n + 3]
            few = arrays[1].numel() < MANY and not arrays[1].is_cuda
            if kind & CHECKED or few or not all(map(tells, arrays)):
                continue
            state = state_of(arrays, kind, dims[columns])
            if _is_known(arrays, state):
                marked[n + 3] = kind | CHECKED
            elif arrays[1].is_cpu:
                # Errors on a device are not known when a call ends.
                pending.append((arrays, state))
        return marked, pending


def tells(x: Any) -> bool:
    """Whether a tensor tells when it is changed: those of inference mode do not, and fake ones have no place."""
    return not (x.is_inference() or hasattr(x, "fake_mode"))


def state_of(arrays: Sequence[Any], kind: int, columns: int) -> Any:
    """State of a list, which is the same until somebody changes it."""
    return kind, columns, [(x._version, x.data_ptr(), x.shape) for x in arrays]


def _is_known(arrays: Sequence[Any], state: Any) -> bool:
    refs, before = _checked.get(id(arrays[1]), ((), None))
    return before == state and all(ref() is x for ref, x in zip(refs, arrays))


def is_checked(arrays: Sequence[Any], kind: int, columns: int) -> bool:
    """Whether a list was checked, and has not changed since."""
    if torch._C._are_functorch_transforms_active() or not all(map(tells, arrays)):
        return False
    return _is_known(arrays, state_of(arrays, kind, columns))


def remember(pending: list[Any]) -> None:
    """A call with these lists ended well."""
    for arrays, state in pending:
        key = id(arrays[1])

        def forget(_: Any, key: int = key) -> None:
            _checked.pop(key, None)

        _checked[key] = ((weakref.ref(arrays[0]), weakref.ref(arrays[1], forget), weakref.ref(arrays[2])), state)
