"""Energies, forces and every derivative of them for charged particles and their neighbourhoods.

`madelung.numpy` has the functions for NumPy arrays, `madelung.torch` those for PyTorch tensors, `madelung.jax`
those for JAX arrays, `madelung.cuda` those for arrays of any library in the memory of a GPU, `madelung.ase` a
calculator for ASE, `madelung.units` the Coulomb constant.
"""

from __future__ import annotations

import json
from typing import Any

from madelung import _arguments, _cuda, _native, units
from madelung._cuda import check_device
from madelung._grids import HashGrid

__all__ = ["HashGrid", "__version__", "check_device", "devices", "get_num_threads", "ops", "set_num_threads", "units"]

__version__: str = _native.version()


def ops() -> list[dict[str, Any]]:
    """The ops of this build: for each its name, arguments, outputs with their shapes, and derivatives."""
    return json.loads(_native.registry_json())["ops"]


def devices() -> list[str]:
    """The devices that this build can compute on here: "cpu", and "cuda:0" and so on, where there are a driver and
    NVRTC.

    The call initialises the NVIDIA driver, after which a forked process cannot use it; no device is opened.
    """
    _cuda.prepare()
    return ["cpu", *(f"cuda:{n}" for n in range(_native.cuda_devices()))]


def get_num_threads() -> int:
    """The number of threads that share the work of a call; `madelung.torch` uses `torch.get_num_threads()` at most."""
    return _native.threads()


def set_num_threads(threads: int) -> None:
    """Sets the number of threads of calls that begin from now on.

    The environment variable `MADELUNG_NUM_THREADS` gives the number that a process begins with, by default all threads
    that it may use. Results do not depend on the number of threads.

    Args:
        threads: A number of at least 1.

    Raises:
        TypeError, ValueError: `threads` is no such number.
    """
    _native.set_threads(_arguments.at_least_one("threads", threads))
