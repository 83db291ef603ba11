"""Calls under `torch.autocast`: what layers give in half precision is widened, and sums have the bits of float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from conftest import required

torch = required("torch")
import madelung.torch as mt  # noqa: E402
from madelung.kernels import (  # noqa: E402
    Array,
    Batch,
    HashGrid,
    Out,
    OutputSpec,
    Pairs,
    Real,
    Vec3,
    dims,
    kernel,
    launch,
    length,
    op,
)
from madelung.torch import nn  # noqa: E402
from madelung.torch.autograd import custom_op  # noqa: E402

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


Atom, System, Point = dims("Atom System Point")


@kernel
def screened(
    i: Atom,
    positions: Array[Vec3, Atom],
    charges: Array[Real, Atom],
    kappa: Array[Real],
    pairs: Pairs[Atom],
    energy: Out[Real, Atom],
):
    e = 0.0
    for j, _ in pairs.row(i):
        r = length(positions[j] - positions[i])
        e += charges[j] * kappa / (1 + r)
    energy[i] = charges[i] * e


@kernel
def squared(i: Atom, energy: Array[Real, Atom], atoms: Batch[Atom, System], total: Out[Real, System]):
    total[atoms.of(i)] += energy[i] ** 2


@kernel
def near(i: Atom, positions: Array[Vec3, Atom], radius: Real, points: HashGrid[Atom, Point], n: Out[Real, Atom]):
    e = 0.0
    for _, r in points.query(positions[i], radius):
        e += 1 / (1 + length(r))
    n[i] = e


BOTH = op("madelung_tests::both", [screened, squared], scratch=[OutputSpec("energy", Real, (Atom,))])
CUTOFF = 4.0
FOUND = mt.find_neighbors(R, CUTOFF)
ONE = torch.zeros(24, dtype=torch.int32), 1


@custom_op("madelung_tests::mixed", outputs=[OutputSpec("y", Real, (Atom,)), OutputSpec("z", Real, (Atom,))])
def mixed(positions: Array[Vec3, Atom], charges: Array[Real, Atom], features: torch.Tensor, pairs: Pairs[Atom]):
    # Without autocast, which would give half precision of the product.
    energy = screened(positions, charges, 0.5 * charges[:1].sum(), pairs)
    return energy, (positions @ features.to(positions)).sum(1)


KERNELS: dict[str, Sum] = {
    "kernel": lambda r, q: screened(r, q, q[0], FOUND),
    "op": lambda r, q: BOTH(positions=r, charges=q, kappa=q[0], pairs=FOUND, atoms=ONE),
    "custom_op": lambda r, q: mixed(r, q, q[:3, None], FOUND.coo())[0],
    "both": lambda r, q: mixed(r, q, q[:3, None], FOUND.coo())[1],
}


@pytest.mark.host("kernels of the host")
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_ones_own(name: str, dtype: Any) -> None:
    """Kernels as functions of the library: in the dtype of the positions, or in float32."""
    half = torch.tensor(RANDOM.normal(size=24), dtype=dtype, requires_grad=True)
    wide = half.detach().float().requires_grad_()
    expected = KERNELS[name](R, wide)
    if name in ("kernel", "op"):
        assert torch.equal(KERNELS[name](R, half), expected)
    else:
        with pytest.raises((TypeError, ValueError), match="float16"):
            KERNELS[name](R, half)
    with torch.autocast("cpu", dtype=dtype):
        assert torch.equal(KERNELS[name](R, wide), expected)
        found = KERNELS[name](R, half)
        in_double = KERNELS[name](R.double(), half)
        all_half = KERNELS[name](R.to(dtype), half)
    assert found.dtype == torch.float32 and in_double.dtype == torch.float64
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(in_double, KERNELS[name](R.double(), half.double()))
    assert torch.equal(all_half, KERNELS[name](R.to(dtype).float(), half.float()))
    (by_half,), (by_wide,) = (torch.autograd.grad(e.sum(), x) for e, x in ((found, half), (expected, wide)))
    assert by_half.dtype == dtype and torch.allclose(by_half.float(), by_wide, rtol=2e-2, atol=2e-2)


@pytest.mark.host("kernels of the host")
def test_grids_and_launches() -> None:
    half = R.bfloat16()
    out = torch.empty(24)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = near(R, CUTOFF, HashGrid(half))
        launch(screened, {"positions": R, "charges": half[:, 0], "kappa": 1.0, "pairs": FOUND}, {"energy": out})
        with pytest.raises(TypeError, match="`energy`: expected float32, got bfloat16"):
            launch(
                screened,
                {"positions": R, "charges": half[:, 0], "kappa": 1.0, "pairs": FOUND},
                {"energy": out.bfloat16()},
            )
    assert torch.equal(found, near(R, CUTOFF, HashGrid(half.float())))
    assert torch.equal(out, screened(R, half[:, 0].float(), 1.0, FOUND))


@pytest.mark.host("kernels of the host")
@pytest.mark.parametrize("name", KERNELS)
def test_compiled_kernels(name: str) -> None:
    half = torch.tensor(RANDOM.normal(size=24), dtype=torch.bfloat16, requires_grad=True)
    pairs = FOUND.coo()
    calls: dict[str, Any] = {
        "kernel": lambda r, q, p: screened(r, q, q[0], p),
        "op": lambda r, q, p: BOTH(positions=r, charges=q, kappa=q[0], pairs=p, atoms=ONE),
        "custom_op": lambda r, q, p: mixed(r, q, q[:3, None], p)[0],
        "both": lambda r, q, p: mixed(r, q, q[:3, None], p)[1],
    }
    torch.compiler.reset()
    compiled = torch.compile(calls[name], fullgraph=True, backend="aot_eager")
    wide = half.detach().float().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = compiled(R, half, pairs)
    expected = calls[name](R, wide, pairs)
    assert torch.equal(found, expected)
    (by_half,), (by_wide,) = (torch.autograd.grad(e.sum(), x) for e, x in ((found, half), (expected, wide)))
    assert by_half.dtype == torch.bfloat16 and torch.allclose(by_half.float(), by_wide, rtol=2e-2, atol=2e-2)
