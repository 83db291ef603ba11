"""Tensors of CUDA, and ops on them. Runs where a GPU is stood in for: see test_cuda_stand_in.py."""

from collections.abc import Sequence

import pytest
import torch
from cases import OPS, Case, make

CUDA = torch.device("cuda", 0)


def moved(case: Case, device: torch.device = CUDA) -> Case:
    return Case(case.op, [x.to(device) if isinstance(x, torch.Tensor) else x for x in case.args])


def as_tuple(x: torch.Tensor | Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return (x,) if isinstance(x, torch.Tensor) else tuple(x)


def close(found: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-13) -> None:
    assert found.is_cuda and not expected.is_cuda
    scale = float(expected.abs().max()) if expected.numel() else 0.0
    torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=tolerance * scale)


def test_pytorch_itself() -> None:
    assert torch.cuda.is_available() and torch.cuda.device_count() == 2
    x = torch.arange(5.0)
    for device in ("cuda:0", "cuda:1"):
        y = x.to(device)
        assert str(y.device) == device and torch.equal(y.cpu(), x)


def test_values(op_case: Case) -> None:
    for found, expected in zip(
        as_tuple(moved(op_case).call(*moved(op_case).args)), as_tuple(op_case.call(*op_case.args))
    ):
        close(found, expected)
