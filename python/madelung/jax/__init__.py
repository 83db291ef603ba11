"""Neighbour lists and Ewald sums of JAX arrays, with all their derivatives.

The functions of `madelung.numpy`, with its names, arguments, units and signs, as JAX primitives: under `jit`, `vmap`,
`scan` and `shard_map`, with every derivative to second order in every mode. No switch of JAX is flipped: arrays are
float32 unless you turn x64 on.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

if importlib.util.find_spec("jax") is None:
    raise ImportError("madelung.jax needs JAX 0.6 or newer: pip install 'madelung[jax]'")

import jax

if tuple(int(part) for part in jax.__version__.split(".")[:2]) < (0, 6):
    raise ImportError(f"madelung.jax needs JAX 0.6 or newer, and this is {jax.__version__}")

from madelung._functions.results import EwaldParameters, PmeParameters
from madelung.jax import _functions
from madelung.jax._ffi import register_ffi_callback
from madelung.jax._functions import *  # noqa: F403
from madelung.jax._kit import jax_callable, jax_kernel
from madelung.jax._neighbors import NeighborList, Neighbors

if TYPE_CHECKING:
    from madelung.jax._torch_module import ScalarSpec as ScalarSpec
    from madelung.jax._torch_module import TorchDtypeSpec as TorchDtypeSpec
    from madelung.jax._torch_module import TorchModule as TorchModule

# Names that need PyTorch, imported at first use.
_OF_TORCH = ("ScalarSpec", "TorchDtypeSpec", "TorchModule")

__all__ = ["EwaldParameters", "NeighborList", "Neighbors", "PmeParameters"]
__all__ += ["jax_callable", "jax_kernel", "register_ffi_callback"]
__all__ += _functions.__all__
if importlib.util.find_spec("torch") is not None:
    __all__ += _OF_TORCH


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Names that need PyTorch, imported at first use."""
    if name not in _OF_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if importlib.util.find_spec("torch") is None:
        raise ImportError(f"madelung.jax.{name} needs PyTorch 2.7 or newer: pip install 'madelung[torch]'")
    from madelung.jax import _torch_module

    return getattr(_torch_module, name)
