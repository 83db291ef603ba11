"""Calls of the public functions with arrays of NumPy."""

from __future__ import annotations

from madelung._functions.bound import straight_calls, through
from madelung.numpy._framework import Numpy
from madelung.numpy._ops import PLAIN

STRAIGHT = straight_calls(PLAIN)

call = through("numpy", Numpy, STRAIGHT)
