"""Calls of ops on plain tensors, without PyTorch's dispatcher: contiguous, and of no graph, transform or mode.

By the table of functions that PyTorch 2.10 and later have for DLPack. What is not plain goes by the dispatcher.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad

from madelung import _native
from madelung.torch._lists import columns_of, is_checked, is_made_in
from madelung.torch._specialised import transforms_active

_TABLE = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)

# What the dispatcher would tell others of: transforms, modes, a profiler, and a trace.
_UNUSUAL = [
    transforms_active,
    torch._C._len_torch_dispatch_stack,
    torch._C._len_torch_function_stack,
    torch._C._autograd._profiler_enabled,
    torch._C._get_tracing_state,
]

# In the order of `Plain.of_torch`.
_DTYPES = [torch.float64, torch.float32, torch.int32, torch.int64, torch.float16, torch.bfloat16]
_EMPTY = (torch.empty, _DTYPES)

# What is known of lists on a device.
_KNOWN = [columns_of, is_checked, is_made_in]

PLAIN: Any = None
"""Tensors that are plain; None before PyTorch 2.10."""
if _TABLE is not None:
    _TYPES = [torch.Tensor, torch.nn.Parameter]
    PLAIN = _native.Plain.of_torch(_TABLE, _TYPES, _UNUSUAL, forward_ad, torch.is_grad_enabled, _KNOWN, _EMPTY)


def is_usual() -> bool:
    """Whether the dispatcher would tell nobody of a call."""
    return not any([unusual() for unusual in _UNUSUAL])


def plain(target: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A member of an op, below autograd, that the dispatcher calls as `kernel`."""
    if PLAIN is None:
        return kernel
    in_memory = _native.PlainOp(target, PLAIN, True)

    def called(*flat: Any) -> Any:
        found = in_memory(*flat)
        return kernel(*flat) if found is NotImplemented else found

    return called
