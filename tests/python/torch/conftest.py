"""Fixtures: every op, with arguments made from its declaration. Without PyTorch there is nothing to test."""

from __future__ import annotations

import importlib.util

import pytest

if importlib.util.find_spec("torch.library") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    from cases import Case, make

    from madelung.torch import _ops

    @pytest.fixture(params=_ops.OPS.values(), ids=_ops.OPS)
    def case(request: pytest.FixtureRequest) -> Case:
        return make(request.param)

    @pytest.fixture
    def total() -> Case:
        """An op whose gradients are saved by the forward pass."""
        return make(next(op for op in _ops.OPS.values() if op.saves))

    @pytest.fixture
    def plain() -> Case:
        """One that saves nothing."""
        return make(next(op for op in _ops.OPS.values() if not op.saves))
