"""Kernels whose interpreter machine code takes the place of, by LLVM of `llvmlite`."""

from __future__ import annotations

import numpy as np
import pytest

import madelung.kernels as mk
from conftest import required
from kernel_cases import Case, cases, tensors
from madelung.kernels import _llvm

torch = required("torch")

NAMES = ("lennard_jones", "real_space")


def results(case: Case, dtype: str) -> list[np.ndarray]:
    """Outputs, gradients and their derivatives along the gradients."""
    smooth = [tensors(np.asarray(x, dtype)).requires_grad_() for x in case.smooth.values()]
    found = case(*smooth, **tensors(case.rest))
    outputs = found if isinstance(found, tuple) else (found,)
    first = torch.autograd.grad(sum(out.sum() for out in outputs), smooth, create_graph=True)
    second = torch.autograd.grad(sum(slope.square().sum() for slope in first), smooth, allow_unused=True)
    return [x.detach().numpy() for x in (*outputs, *first, *second) if x is not None]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_machine_code_has_the_bits_of_the_interpreter(name: str, dtype: str) -> None:
    case = cases()[name]
    interpreted = results(case, dtype)
    assert case.kernel.compile(dtype) is True
    for before, after in zip(interpreted, results(case, dtype), strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_compiler_that_is_not_there_leaves_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    case = cases()["lennard_jones"]
    monkeypatch.setattr(_llvm, "_compiler", _llvm._Refused("llvmlite is not installed"))
    monkeypatch.setattr(_llvm._native, "has_machine_code", lambda *of: False)
    assert case.kernel.compile() is False
    assert mk.info()["compiler"] == "interpreter: llvmlite is not installed"


def test_what_runs_kernels_is_told() -> None:
    assert mk.info()["compiler"].startswith("llvmlite 0.")


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(ValueError, match="`dtypes`: expected"):
        cases()["lennard_jones"].kernel.compile("float16")
