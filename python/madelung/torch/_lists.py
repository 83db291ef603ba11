"""Pair lists that a call has checked, and that have not changed since.

Whether a full list is full is found out by a sum over its pairs, which costs as much as a cheap kernel. A call that
ended well has checked it; the next one with the same tensors says so (`CHECKED` in the kind of the list), and then only
that every index is in range is looked at, which no call leaves out. On a device nothing is looked at then: lists that
were searched there are known from the beginning, and long ones of others when the outcome of their first call has come
to the host, for which nobody waits.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import torch

from madelung import _native
from madelung._schema import CHECKED
from madelung.torch._schema import Op

# Pairs below which a check costs less than to look for an earlier one, but for lists of a device, where a check is two
# launches.
MANY = 4096

# Lists that were checked, by the identity of their columns.
_checked: dict[int, _Known] = {}


class _Known(NamedTuple):
    """A list that was checked: its arrays and their state then, and until it is known the outcome."""

    refs: tuple[weakref.ref[Any], ...]
    state: Any
    outcome: _Outcome | None


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
            if _is_known(arrays, kind, dims[columns]):
                marked[n + 3] = kind | CHECKED
                continue
            state = state_of(arrays, kind, dims[columns])
            if arrays[1].is_cpu:
                pending.append((arrays, state, None))
            elif arrays[1].numel() >= MANY and not torch.cuda.is_current_stream_capturing():
                pending.append((arrays, state, _native.device_looks(arrays[1].device.index)))
        return marked, pending


class _Outcome:
    """Whether the calls of a device have raised no error up to one, once the device has come so far."""

    # Outcomes that the device has still to write, which nobody may have any more.
    under_way: ClassVar[list[_Outcome]] = []

    def __init__(self, device: torch.device, looks: int) -> None:
        self.device, self.looks = device, looks
        # Read without asking the driver, which a capture would not allow.
        self.word = torch.full((1,), -1, dtype=torch.int32, pin_memory=True)
        _native.note_record(device.index, self.word.data_ptr())
        _Outcome.under_way = [*(outcome for outcome in _Outcome.under_way if not outcome.is_there()), self]

    def is_there(self) -> bool:
        return int(self.word) != -1

    def is_good(self) -> bool:
        return int(self.word) == 0 and _native.device_looks(self.device.index) == self.looks


def tells(x: Any) -> bool:
    """Whether a tensor tells when it is changed: those of inference mode do not, and fake ones have no place."""
    return not (x.is_inference() or hasattr(x, "fake_mode"))


def state_of(arrays: Sequence[Any], kind: int, columns: int) -> Any:
    """State of a list, which is the same until somebody changes it."""
    return kind, columns, [(x._version, x.data_ptr(), x.shape) for x in arrays]


def _is_known(arrays: Sequence[Any], kind: int, columns: int) -> bool:
    known = _checked.get(id(arrays[1]))
    # Tensors that are remembered tell when they are changed.
    if known is None or not all([ref() is x for ref, x in zip(known.refs, arrays)]):
        return False
    if known.state != state_of(arrays, kind, columns):
        return False
    outcome = known.outcome
    if outcome is None:
        return True
    if not outcome.is_there():
        return False
    # The next call checks a list again whose outcome is not good, or not known to be.
    del _checked[id(arrays[1])]
    if outcome.is_good():
        _checked[id(arrays[1])] = known._replace(outcome=None)
        return True
    return False


def is_checked(arrays: Sequence[Any], kind: int, columns: int) -> bool:
    """Whether a list was checked, and has not changed since."""
    return not torch._C._are_functorch_transforms_active() and _is_known(arrays, kind, columns)


def remember(pending: list[Any]) -> None:
    """A call with these lists ended well. On a device, where that is not known yet, each comes with the number of times
    that the record was looked at before."""
    for arrays, state, looks in pending:
        key, outcome = id(arrays[1]), None
        if looks is not None:
            known = _checked.get(key)
            if known is not None and known.outcome is not None and known.state == state:
                # It is under way.
                continue
            outcome = _Outcome(arrays[1].device, looks)

        def forget(_: Any, key: int = key) -> None:
            _checked.pop(key, None)

        refs = weakref.ref(arrays[0]), weakref.ref(arrays[1], forget), weakref.ref(arrays[2])
        _checked[key] = _Known(refs, state, outcome)


# The columns of lists on a device, by the identity of the list, which is held weakly: one view of them for all calls,
# so that calls know them as checked.
_columns: dict[int, tuple[Any, torch.Tensor]] = {}

# For each cell of a list that was found there, by its identity: the tensor that it is a copy of, and the state of that
# one. Both are held weakly.
_cells: dict[int, tuple[Any, ...]] = {}


def remember_columns(pairs: torch.Tensor, columns: torch.Tensor) -> None:
    """The second row of a list."""
    key = id(pairs)
    _columns[key] = (weakref.ref(pairs, lambda _: _columns.pop(key, None)), columns)


def columns_of(pairs: Any) -> Any:
    """The second row of a list: of a long one the same tensor in each call, so that calls know it."""
    known = _columns.get(id(pairs))
    if known is not None and known[0]() is pairs:
        return known[1]
    columns = pairs[1]
    if columns.numel() < MANY or torch._C._are_functorch_transforms_active() or not tells(pairs):
        return columns
    # Of an alias: a view would keep its base, and with it this entry, alive.
    columns = pairs.detach()[1]
    remember_columns(pairs, columns)
    return columns


def remember_cell(copy: torch.Tensor, cell: torch.Tensor) -> None:
    """The cell of a list, a copy."""
    key = id(copy)
    of = weakref.ref(copy, lambda _: _cells.pop(key, None))
    _cells[key] = (of, weakref.ref(cell), cell._version, cell.data_ptr())


def is_made_in(reference: Any, cell: torch.Tensor) -> bool:
    """Whether the cell of a list is a copy of a tensor that has not changed since, for which no value is read."""
    known = _cells.get(id(reference))
    if known is None or known[0]() is not reference or known[1]() is not cell:
        return False
    return known[2:] == (cell._version, cell.data_ptr())
