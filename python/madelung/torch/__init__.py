"""Madelung's ops in PyTorch: registered with the dispatcher when this package is imported."""

from __future__ import annotations

try:
    import torch as _torch
except ImportError as error:
    raise ImportError("madelung.torch needs PyTorch 2.7 or newer: pip install 'madelung[torch]'") from error

from madelung.torch import _ops

__all__: list[str] = []
