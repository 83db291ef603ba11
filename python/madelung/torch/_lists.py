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
            # Tensors of inference mode do not tell when they are changed, and fake ones have no place.
            few = arrays[1].numel() < MANY and not arrays[1].is_cuda
            if kind & CHECKED or few or any(x.is_inference() or hasattr(x, "fake_mode") for x in arrays):
                continue
            state = (kind, dims[columns], [(x._version, x.data_ptr(), x.shape) for x in arrays])
            refs, before = _checked.get(id(arrays[1]), ((), None))
            if before == state and all(ref() is x for ref, x in zip(refs, arrays)):
                marked[n + 3] = kind | CHECKED
            elif arrays[1].is_cpu:
                # Errors on a device are not known when a call ends.
                pending.append((arrays, state))
        return marked, pending


def remember(pending: list[Any]) -> None:
    """A call with these lists ended well."""
    for arrays, state in pending:
        key = id(arrays[1])

        def forget(_: Any, key: int = key) -> None:
            _checked.pop(key, None)

        _checked[key] = ((weakref.ref(arrays[0]), weakref.ref(arrays[1], forget), weakref.ref(arrays[2])), state)
