"""Madelung's ops in PyTorch: registered with the dispatcher when this package is imported."""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("torch") is None:
    raise ImportError("madelung.torch needs PyTorch 2.7 or newer: pip install 'madelung[torch]'")

from madelung.torch import _ops as _ops

__all__: list[str] = []
