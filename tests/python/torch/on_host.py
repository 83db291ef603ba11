"""PyTorch's own operators where a GPU is stood in for: its machine code cannot run, so the host computes.

An operator of CUDA tensors runs as ever. Where that comes to the launch of a kernel, which the stand-in refuses, the
operator is called again with images of its arguments on the host, and what it has written goes back.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

REFUSALS = ("not supported by the stand-in", "CUBLAS_STATUS", "CUSOLVER_STATUS")
RUNTIME = ctypes.CDLL("libstand_in_cudart.so")
# What is changed here stays so while this is there.
LIBRARY = torch.library.Library("aten", "IMPL")


class Images:
    """Memory of devices on the host, each storage once, so that tensors that share one still do."""

    def __init__(self) -> None:
        self.storages: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}

    def of(self, x: Any) -> Any:
        """A tensor as it lies in the image; everything else is the same, but for a device."""
        if isinstance(x, torch.device) and x.type == "cuda":
            return torch.device("cpu")
        if not isinstance(x, torch.Tensor) or x.device.type != "cuda":
            return x
        storage = x.untyped_storage()
        there = self.storages.setdefault(storage._cdata, (storage, storage.cpu()))[1]
        image = torch.empty(0, dtype=x.dtype)
        return image.set_(there, x.storage_offset(), x.shape, x.stride())

    def write(self) -> None:
        """Puts everything back."""
        for storage, image in self.storages.values():
            storage.copy_(image)


def _wrapped(name: str, kernel: Any) -> Callable[..., Any]:
    base, _, overload = name.removeprefix("aten::").partition(".")
    op = getattr(getattr(torch.ops.aten, base), overload or "default")
    written = [a.name for a in op._schema.arguments if a.alias_info and a.alias_info.is_write]
    tensors = [a.name for a in op._schema.arguments if "Tensor" in str(a.type)]
    names = [a.name for a in op._schema.arguments]

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args)), **kwargs}
        # Numbers that stand for tensors are known to Python's side only.
        if not any(isinstance(given.get(name), (int, float, complex)) for name in tensors):
            try:
                results = kernel.call_boxed(keys, *args, **kwargs)
                # Not every launch is looked after.
                if RUNTIME.cudaGetLastError() == 0:
                    return results
            except RuntimeError as error:
                if not any(refusal in str(error) for refusal in REFUSALS):
                    raise
        found = [x for x in torch.utils._pytree.tree_leaves(given) if isinstance(x, torch.Tensor)]
        device = next((x.device for x in found if x.device.type == "cuda"), given.get("device"))
        images = Images()
        results = op(*tree_map(images.of, args), **tree_map(images.of, kwargs))
        if written:
            images.write()
            if not op._schema.returns:
                return None
            return given[written[0]] if len(written) == 1 else tuple(given[x] for x in written)
        return tree_map(lambda x: x.to(device) if isinstance(x, torch.Tensor) else x, results)

    return run


def install() -> None:
    """From here on, for all of the process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Copies are registered for all devices together; allocating needs no kernels.
        for name in (*torch._C._dispatch_get_registrations_for_dispatch_key("CUDA"), "aten::copy_"):
            if name.startswith("aten::") and not name.startswith("aten::empty"):
                run = _wrapped(name, torch.library.get_kernel(name, "CUDA"))
                LIBRARY.impl(name.removeprefix("aten::"), run, "CUDA", with_keyset=True)
