"""Pair lists that a call has checked, and that have not changed since.

Whether a full list is full is found out by a sum over its pairs, which costs as much as a cheap kernel. A call that
ended well has checked it; the next one with the same tensors says so (`CHECKED` in the kind of the list), and then only
that every index is in range is looked at, which no call leaves out. On a device nothing is looked at then: lists that
were searched there are known from the beginning, and long ones of others when the outcome of their first call has come
to the host, for which nobody waits.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
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
    """A list that was checked: its arrays and their state then, and whether that holds in every call, as of lists that
    were searched here, and on the CPU, where calls look at indices. Else the batch of the call that has checked it, and
    until it is known the outcome."""

    refs: tuple[weakref.ref[Any], ...]
    state: Any
    holds: bool
    batch: Any = None
    outcome: _Outcome | None = None


class Lists:
    """The pair lists among an op's inputs."""

    def __init__(self, op: Op) -> None:
        # Offsets, columns, images and kind follow each other.
        self.starts = [n for n, i in enumerate(op.inputs) if i.part == "ptr"]
        self.columns = [op.args[op.inputs[n].arg]["columns"] for n in self.starts]
        batches = (n for n, i in enumerate(op.inputs) if i.part == "batch_idx")
        self.batches = [(n, op.args[op.inputs[n].arg]["systems"]) for n in batches]
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
            batch = self._batch(args, dims) if arrays[1].is_cuda else None
            if _is_known(arrays, kind, dims[columns], (batch,)):
                marked[n + 3] = kind | CHECKED
                continue
            state = state_of(arrays, kind, dims[columns])
            if arrays[1].is_cpu:
                pending.append((arrays, _Known((), state, True)))
            elif id(arrays[1]) in _lasting and not torch.cuda.is_current_stream_capturing():
                device = arrays[1].device.index
                outcome = _Outcome(device, _native.device_looks(device))
                pending.append((arrays, _Known((), state, False, batch, outcome)))
        return marked, pending

    def _batch(self, args: Sequence[Any], dims: dict[str, Any]) -> Any:
        """The state of the systems of atoms, where there are several: pairs are of atoms of one system."""
        several = (args[n] for n, systems in self.batches if dims[systems] != 1)
        return [(x._version, x.data_ptr(), x.shape) for x in several if tells(x)]


class _Words:
    """Pinned words of the host that devices write; −1 until they have. They are never freed, so no device is late."""

    def __init__(self) -> None:
        # A collection of garbage within `take` may give words back.
        self.lock, self.memory = threading.RLock(), None
        self.words = np.empty(0, np.int32)
        self.free: list[int] = []
        self.left: list[int] = []
        """Words that nobody waits for any more, which a device may have still to write."""

    def take(self) -> int | None:
        """A word; None where all are in use."""
        with self.lock:
            if self.memory is None:
                self.memory = torch.full((1 << 8,), -1, dtype=torch.int32, device="cpu", pin_memory=True)
                self.words = self.memory.numpy()
                self.free = list(range(len(self.words)))
            left, self.left = self.left, []
            for n in left:
                (self.left if self.words[n] == -1 else self.free).append(n)
            if not self.free:
                return None
            word = self.free.pop()
            self.words[word] = -1
            return word

    def give(self, word: int) -> None:
        with self.lock:
            self.left.append(word)


_WORDS = _Words()


class _Outcome:
    """Whether the calls of a device have raised no error up to one, once the device has come so far."""

    def __init__(self, device: int, looks: int) -> None:
        self.device, self.looks = device, looks
        self.word: int | None = None

    def begin(self) -> bool:
        """Asks for it, behind the call; whether there is a word for the answer."""
        self.word = _WORDS.take()
        if self.word is None:
            return False
        _native.note_record(self.device, _WORDS.words.ctypes.data + 4 * self.word)
        weakref.finalize(self, _WORDS.give, self.word)
        return True

    def is_there(self) -> bool:
        # Read without asking the driver, which a capture would not allow.
        return bool(_WORDS.words[self.word] != -1)

    def is_good(self) -> bool:
        return bool(_WORDS.words[self.word] == 0) and _native.device_looks(self.device) == self.looks


def tells(x: Any) -> bool:
    """Whether a tensor tells when it is changed: those of inference mode do not, and fake ones have no place."""
    return not (x.is_inference() or hasattr(x, "fake_mode"))


def state_of(arrays: Sequence[Any], kind: int, columns: int) -> Any:
    """State of a list, which is the same until somebody changes it."""
    return kind, columns, [(x._version, x.data_ptr(), x.shape) for x in arrays]


def _is_known(arrays: Sequence[Any], kind: int, columns: int, batch: tuple[Any] | None) -> bool:
    """Whether a list was checked; `batch`: in a call with this one, or None: with any."""
    key = id(arrays[1])
    known = _checked.get(key)
    # Tensors that are remembered tell when they are changed.
    if known is None or not all([ref() is x for ref, x in zip(known.refs, arrays)]):
        return False
    if known.state != state_of(arrays, kind, columns):
        return False
    if known.holds:
        return True
    # The replay of a graph reads what others have written to a list since.
    if batch is None or (known.batch,) != batch or torch.cuda.is_current_stream_capturing():
        return False
    outcome = known.outcome
    if outcome is None:
        return True
    if not outcome.is_there():
        return False
    # The next call checks a list again whose outcome is not good, or not known to be.
    if not outcome.is_good():
        _checked.pop(key, None)
        return False
    _checked[key] = known._replace(outcome=None)
    return True


def is_checked(arrays: Sequence[Any], kind: int, columns: int) -> bool:
    """Whether a search has made a list, which has not changed since."""
    return not torch._C._are_functorch_transforms_active() and _is_known(arrays, kind, columns, None)


def remember(pending: list[Any]) -> None:
    """A call with these lists ended well, or on a device is under way."""
    for arrays, known in pending:
        key = id(arrays[1])
        if known.outcome is not None:
            before = _checked.get(key)
            if before is not None and before.outcome is not None and before[1:4] == known[1:4]:
                # Its outcome is under way.
                continue
            if not known.outcome.begin():
                continue

        def forget(_: Any, key: int = key) -> None:
            _checked.pop(key, None)

        refs = weakref.ref(arrays[0]), weakref.ref(arrays[1], forget), weakref.ref(arrays[2])
        _checked[key] = known._replace(refs=refs)


def remember_search(arrays: Sequence[Any], kind: int, columns: int) -> None:
    """A list that a search has made."""
    remember([(arrays, _Known((), state_of(arrays, kind, columns), True))])


# The columns of lists on a device, by the identity of the list, which is held weakly: one view of them for all calls,
# so that calls know them as checked.
_columns: dict[int, tuple[Any, ...]] = {}

# The columns of long lists of others, by their identity: other tensors are of a single call.
_lasting: set[int] = set()


def remember_columns(pairs: torch.Tensor, columns: torch.Tensor) -> None:
    """The second row of a list."""
    key = id(pairs)
    _columns[key] = (weakref.ref(pairs, lambda _: _columns.pop(key, None)), columns, pairs.data_ptr(), pairs.shape)


def columns_of(pairs: Any) -> Any:
    """The second row of a list: of a long one the same tensor in each call, so that calls know it."""
    known = _columns.get(id(pairs))
    if known is not None and known[0]() is pairs and known[2:] == (pairs.data_ptr(), pairs.shape):
        return known[1]
    columns = pairs[1]
    if columns.numel() < MANY or torch._C._are_functorch_transforms_active() or not tells(pairs):
        return columns
    # Of an alias: a view would keep its base, and with it this entry, alive.
    columns = pairs.detach()[1]
    key = id(columns)
    _lasting.add(key)
    weakref.finalize(columns, _lasting.discard, key)
    remember_columns(pairs, columns)
    return columns


# For each cell of a list that was found on a device, by its identity: the tensor that it is a copy of, and the state of
# that one. Both are held weakly.
_cells: dict[int, tuple[Any, ...]] = {}


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


def is_same(known: torch.Tensor, x: Any) -> bool:
    """Whether a cell of the host is known to be that of a list. Unchanged ones are not compared again."""
    if is_made_in(known, x):
        return True
    is_plain = type(x) in (torch.Tensor, torch.nn.Parameter) and x.is_cpu and x.dtype == known.dtype
    if not is_plain or x.numel() != known.numel() or torch._C._are_functorch_transforms_active():
        return False
    if not torch.equal(known.view_as(x), x):
        return False
    if tells(x):
        remember_cell(known, x)
    return True
