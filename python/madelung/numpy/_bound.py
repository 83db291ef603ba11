"""Calls of the public functions with arrays of NumPy."""

from __future__ import annotations

from typing import Any

from madelung._functions.bound import straight_calls, through
from madelung._interop import on_host
from madelung.numpy._framework import Numpy
from madelung.numpy._ops import PLAIN

STRAIGHT = straight_calls(PLAIN)


def own(name: str, x: Any) -> Any:
    """An argument with arrays of other libraries as those of NumPy."""
    return tuple([on_host(name, y) for y in x]) if type(x) is tuple else on_host(name, x)


call = through("numpy", Numpy, STRAIGHT, own)
