"""Neighbour lists and Ewald sums of PyTorch tensors, with all their derivatives.

The functions of `madelung.numpy`, with its names, arguments, units and signs; results are in the graph of their
arguments, on the CPU or on the CUDA device where these are. The ops behind them are registered with PyTorch's
dispatcher when this package is imported.
"""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("torch") is None:
    raise ImportError("madelung.torch needs PyTorch 2.7 or newer: pip install 'madelung[torch]'")

from madelung._functions.results import EwaldParameters, PmeParameters
from madelung._neighbors import Neighbors
from madelung.torch import _functions
from madelung.torch import _laws as _laws
from madelung.torch import _ops as _ops
from madelung.torch._functions import *  # noqa: F403
from madelung.torch._neighbor_list import NeighborList

__all__ = ["EwaldParameters", "NeighborList", "Neighbors", "PmeParameters"]
__all__ += _functions.__all__
