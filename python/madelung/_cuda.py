"""Folders of CUDA's libraries in Python packages, and errors of a device."""

from __future__ import annotations

import functools
import operator
import site
import sysconfig
from pathlib import Path

from madelung import _arguments as check
from madelung import _native


def folders() -> list[str]:
    """The folders of the installed packages that bring NVRTC and cuFFT: NVIDIA's own, PyTorch's and JAX's."""
    roots = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
    if site.ENABLE_USER_SITE:
        roots.append(site.getusersitepackages())
    found: dict[str, None] = {}
    for root in dict.fromkeys(roots):
        for pattern in ("nvidia/*/lib", "torch/lib", "jax_plugins/*"):
            found.update(dict.fromkeys(str(path) for path in sorted(Path(root).glob(pattern)) if path.is_dir()))
    return list(found)


@functools.cache
def prepare() -> None:
    """Tells the compiled part of these folders, once: it loads nothing before a call on a device needs it."""
    _native.set_library_folders(folders())


def check_device(ordinal: int = 0) -> None:
    """Waits for a CUDA device, and raises the first error that a call on it has recorded since the last look.

    Calls on a device wait for nothing: errors that only values show (a list that has passed its capacity, two charges
    on one point) make their results NaN, and are raised here.

    Args:
        ordinal: which device, as CUDA counts those that are visible.

    Raises:
        TypeError, ValueError: For an ordinal that is none; ValueError for what was recorded, which is then forgotten.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    try:
        number = operator.index(ordinal)
    except TypeError:
        check.refuse("ordinal", "an integer", type(ordinal).__name__, TypeError)
    if number < 0:
        check.refuse("ordinal", "an integer from 0 up", number)
    _native.check_device(number)
