"""Calls under `torch.autocast`: what layers give in half precision is widened, and sums have the bits of float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from conftest import required

torch = required("torch")
import madelung.torch as mt  # noqa: E402
from madelung.torch import nn  # noqa: E402

RANDOM = np.random.default_rng(2)
R = torch.tensor(RANDOM.uniform(0.0, 10.0, (24, 3)), dtype=torch.float32)
CELL = 10.0 * torch.eye(3)
IDX = torch.repeat_interleave(torch.arange(3, dtype=torch.int32), 8)
PAIRS = torch.tensor([[0, 1]])
HALF = [torch.bfloat16, torch.float16]

Sum = Callable[[Any, Any], Any]
SUMS: dict[str, Sum] = {
    "ewald": lambda r, q: mt.ewald_summation(
        r, q, CELL.to(r), 0.8, cutoff=3.0, k_cutoff=4.0, energy_reduction="system"
    ),
    "chosen": lambda r, q: nn.EwaldSum()(r, q, CELL.to(r)),
    "mesh": lambda r, q: nn.ParticleMeshEwald()(r, q, CELL.to(r)),
    "latent": lambda r, q: nn.LatentEwald()(r, q, CELL.to(r)),
    "channels": lambda r, q: mt.latent_ewald(r, torch.stack([q, 2 * q], 1), CELL.to(r)),
    "open": lambda r, q: mt.coulomb(r, q),
    "excluded": lambda r, q: mt.coulomb(r, q, exclusions=(PAIRS, q[:1])),
    "qeq": lambda r, q: mt.qeq(r, q, torch.ones_like(q), torch.ones_like(q), CELL.to(r))[0],
    "sum": lambda r, q: mt.segment_sum(q, IDX, 3),
    "features": lambda r, q: mt.segment_mean(q[:, None] * torch.ones_like(q[:3]), IDX, 3),
    "softmax": lambda r, q: mt.segment_softmax(q, IDX, 3),
    "dot": lambda r, q: mt.segment_dot(q, q, IDX, 3),
}


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", SUMS)
def test_half_precision_of_layers(name: str, dtype: Any) -> None:
    half = torch.tensor(RANDOM.normal(size=24), dtype=dtype, requires_grad=True)
    wide = half.detach().float().requires_grad_()
    expected = SUMS[name](R, wide)
    with pytest.raises((TypeError, ValueError), match="float16"):
        SUMS[name](R, half)
    with torch.autocast("cpu", dtype=dtype):
        # Of float32, too, nothing is narrowed on the way.
        assert torch.equal(SUMS[name](R, wide), expected)
        found = SUMS[name](R, half)
    assert found.dtype == torch.float32 and torch.equal(found, expected)
    (by_half,), (by_wide,) = (torch.autograd.grad(e.sum(), x) for e, x in ((found, half), (expected, wide)))
    # Where it comes from several places it is added up in half precision, by PyTorch.
    assert by_half.dtype == dtype and torch.allclose(by_half.float(), by_wide, rtol=1e-2, atol=1e-2)


def test_the_dtype_of_positions() -> None:
    q = torch.ones(24, dtype=torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert SUMS["ewald"](R.double(), q).dtype == torch.float64
        # Functions that take half precision give it back.
        assert mt.radius_aggregate(R, R, q[:, None], 3.0, 1.0).dtype == torch.bfloat16
    with pytest.raises(TypeError, match="`charges`"), torch.autocast("cpu", dtype=torch.bfloat16):
        mt.coulomb(R, torch.ones(24, dtype=torch.complex64))


@pytest.mark.parametrize("name", ["open", "sum"])
def test_compiled(name: str) -> None:
    half = torch.tensor(RANDOM.normal(size=24), dtype=torch.bfloat16)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def step(r: Any, q: Any) -> Any:
        return SUMS[name](r, q)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = step(R, half)
    assert torch.equal(found, SUMS[name](R, half.float()))
