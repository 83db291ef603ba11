"""Machine code for the parts of kernels that run for long, made by a thread while the interpreter goes on.

`MADELUNG_KERNELS=interpreter` keeps the interpreter: no thread is started.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import threading

from madelung import _arguments as check
from madelung import _native
from madelung.kernels import _llvm

_thread: threading.Thread | None = None
_lock = threading.Lock()
_ends = threading.Event()


def _serve() -> None:
    # Where warnings are errors, that of a compiler which fails ends the thread, and no more.
    with contextlib.suppress(RuntimeWarning):
        while (wanted := _native.wanted_parts()) is not None:
            for source, part, single, isa in wanted:
                if _ends.is_set() or (not _llvm.install(source, part, single, isa) and _llvm.refused()):
                    return


def start() -> None:
    """Starts the thread, once in a process, where `llvmlite` is installed."""
    global _thread
    with _lock:
        if _thread is not None or not _asked() or importlib.util.find_spec("llvmlite") is None:
            return
        _thread = threading.Thread(target=_serve, name="madelung kernels", daemon=True)
        _thread.start()


def _asked() -> bool:
    word = os.environ.get("MADELUNG_KERNELS", "compiled")
    return check.word("MADELUNG_KERNELS", word, ("compiled", "interpreter")) == "compiled"


def _stop() -> None:
    """Ends the thread before Python ends, after the part that it compiles."""
    if _thread is not None and _thread.is_alive():
        _ends.set()
        _native.stop_waiting()
        _thread.join()


def _start_in_child() -> None:
    global _thread, _lock
    _lock = threading.Lock()
    if _thread is not None:
        _thread = None
        start()


atexit.register(_stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_in_child)
