"""Kernels written in Python on a GPU: their CUDA text is compiled at the first call; numbers are the CPU's within
rounding, to second derivatives.

`MADELUNG_TEST_DEVICE=cuda` runs these.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import madelung
from conftest import DEVICE
from kernel_cases import Case, cases, tensors

pytestmark = pytest.mark.skipif(DEVICE != "cuda", reason="not asked for: MADELUNG_TEST_DEVICE=cuda")


def there(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.to(DEVICE)
    if isinstance(x, dict):
        return {name: there(y) for name, y in x.items()}
    return type(x)(map(there, x)) if isinstance(x, (tuple, list)) else x


def results(case: Case, dtype: torch.dtype, place: Any) -> list[torch.Tensor]:
    """Outputs, gradients and their derivatives along the gradients."""
    smooth = [place(tensors(np.asarray(x)).to(dtype)).requires_grad_() for x in case.smooth.values()]
    found = case(*smooth, **place(tensors(case.rest)))
    outputs = found if isinstance(found, tuple) else (found,)
    first = torch.autograd.grad(sum(out.sum() for out in outputs), smooth, create_graph=True)
    second = torch.autograd.grad(sum(slope.square().sum() for slope in first), smooth, allow_unused=True)
    return [x.detach() for x in (*outputs, *first, *second) if x is not None]


@pytest.mark.parametrize("name", list(cases()))
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 1e-3)])
def test_numbers_are_those_of_the_cpu(name: str, dtype: torch.dtype, tolerance: float) -> None:
    case = cases()[name]
    # Of f32, as rounding of f32 goes into both, against the CPU's in f64.
    expected = results(case, torch.float64, lambda x: x)
    for a, b in zip(results(case, dtype, there), expected, strict=True):
        assert a.device.type == DEVICE and a.dtype == dtype
        torch.testing.assert_close(a.cpu().double(), b, rtol=0, atol=tolerance * float(b.abs().max()))
    madelung.check_device()
