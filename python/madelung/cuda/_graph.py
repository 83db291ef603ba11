"""Graphs: calls on a stream that are captured once, and launched again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from madelung import _arguments as check
from madelung import _native
from madelung.cuda._arrays import stream_of


class Graph:
    """Calls that were captured. Arrays that they read and write stay as long as the graph is there."""

    def __init__(self, native: _native.DeviceGraph, stream: Any, device: int) -> None:
        self._native, self._stream, self._device = native, stream, device

    def launch(self, stream: Any = None) -> None:
        """Puts the captured calls on a stream of their device, with the numbers that are in their arrays by then.

        None: on that on which they were captured. Nothing is waited for.

        Raises:
            ValueError: For a stream of another device, and a graph whose capture failed.
        """
        on = stream_of(self._stream if stream is None else stream, self._device)
        self._native.launch(on)


@contextmanager
def capture(stream: Any, device: int = 0) -> Iterator[Graph]:
    """See `madelung.kernels.capture`."""
    ordinal = check.count("device", device) or 0
    native = _native.DeviceGraph(stream_of(stream, ordinal))
    try:
        yield Graph(native, stream, ordinal)
    except BaseException:
        native.abandon()
        raise
    native.end()
