"""PyTorch's own operators where a GPU is stood in for: its machine code cannot run, so the host computes.

An operator of CUDA tensors runs as ever. Where that comes to the launch of a kernel, which the stand-in refuses, the
operator is called again with images of its arguments on the host, and what it has written goes back. Where nothing may
wait, in captures above all, it is queued instead, and called in its turn with what then lies where its arguments lay.
"""

from __future__ import annotations

import ctypes
import os
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

REFUSALS = ("not supported by the stand-in", "CUBLAS_STATUS", "CUSOLVER_STATUS")
RUNTIME = ctypes.CDLL("libstand_in_cudart.so")
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
# What streams and graphs will call.
KEPT: list[Any] = []
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


@dataclass(frozen=True)
class Lying:
    """Where a tensor lies on a device."""

    address: int
    bytes: int
    dtype: torch.dtype
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    @staticmethod
    def of(x: Any) -> Any:
        if isinstance(x, torch.device) and x.type == "cuda":
            return torch.device("cpu")
        if not isinstance(x, torch.Tensor) or x.device.type != "cuda":
            return x
        storage = x.untyped_storage()
        return Lying(storage.data_ptr(), storage.nbytes(), x.dtype, x.storage_offset(), x.shape, x.stride())

    def tensor(self) -> torch.Tensor:
        """That memory itself, which is open to the host while the stream runs."""
        if self.bytes == 0:
            return torch.empty_strided(self.shape, self.stride, dtype=self.dtype)
        memory = torch.frombuffer((ctypes.c_char * self.bytes).from_address(self.address), dtype=torch.uint8)
        return torch.empty(0, dtype=self.dtype).set_(memory.untyped_storage(), self.offset, self.shape, self.stride)


def _tensor(x: Any) -> Any:
    return x.tensor() if isinstance(x, Lying) else x


def _without_memory(x: Any) -> Any:
    if isinstance(x, torch.device):
        return torch.device("meta")
    if not isinstance(x, torch.Tensor) or x.device.type != "cuda":
        return x
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")


def _queue(work: Callable[[], None]) -> None:
    """Puts it on the current stream."""

    def called(_: Any) -> None:
        try:
            with torch.no_grad():
                work()
        except BaseException:
            # Nobody could catch it.
            traceback.print_exc()
            os._exit(1)

    KEPT.append(HOST_FUNCTION(called))
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    if error := RUNTIME.cudaLaunchHostFunc(stream, KEPT[-1], None):
        raise RuntimeError(f"an operator of PyTorch's was not queued: {error}")


def _queued(op: Any, args: Any, kwargs: Any, device: Any, in_place: bool) -> Any:
    """The results of an operator whose turn will come."""
    given = tree_map(Lying.of, (args, kwargs))
    results, targets = None, []
    if not in_place:
        results = op(*tree_map(_without_memory, args), **tree_map(_without_memory, kwargs))
        results = tree_map(
            lambda x: (
                torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device)
                if isinstance(x, torch.Tensor)
                else x
            ),
            results,
        )
        targets = [Lying.of(x) for x in tree_leaves(results) if isinstance(x, torch.Tensor)]

    def work() -> None:
        there = tree_map(_tensor, given)
        made = op(*there[0], **there[1])
        for target, x in zip(targets, (x for x in tree_leaves(made) if isinstance(x, torch.Tensor))):
            target.tensor().copy_(x)

    _queue(work)
    return results


def _as_written(op: Any, written: list[str], given: dict[str, Any]) -> Any:
    """What an operator gives that writes to its arguments."""
    if not op._schema.returns:
        return None
    return given[written[0]] if len(written) == 1 else tuple(given[x] for x in written)


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
        found = [x for x in tree_leaves(given) if isinstance(x, torch.Tensor)]
        device = next((x.device for x in found if x.device.type == "cuda"), given.get("device"))
        if torch.cuda.is_current_stream_capturing() or torch.cuda.get_sync_debug_mode():
            results = _queued(op, args, kwargs, device, bool(written))
            return _as_written(op, written, given) if written else results
        images = Images()
        results = op(*tree_map(images.of, args), **tree_map(images.of, kwargs))
        if written:
            images.write()
            return _as_written(op, written, given)
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
