"""Arrays of half precision in kernels: stored so, computed with in float32 or in the dtype of the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from madelung.kernels import (
    Array,
    HashGrid,
    InOut,
    Int,
    Out,
    Real,
    Tape,
    Vec3,
    dims,
    dot,
    kernel,
    launch,
)

Atom, Probe, Site = dims("Atom Probe Site")
pytestmark = pytest.mark.usefixtures("double_precision")


@kernel
def energy_of(i: Atom, x: Array[Vec3, Atom], k: Array[Real, Atom], e: Out[Real, Atom]):
    e[i] = k[i] * dot(x[i], x[i]) * dot(x[i], x[i])


@kernel(adjoint=False)
def counted(i: Atom, x: Array[Vec3, Atom], e: Out[Real, Atom], n: Out[Int, Atom]):
    e[i] = 0.5 * x[i].y
    n[i] = 3 if x[i].x > 0.5 else -1


@kernel(adjoint=False)
def scaled(i: Atom, a: Real, y: InOut[Real, Atom]):
    y[i] = a * y[i]


@kernel
def around(
    i: Probe, x: Array[Vec3, Probe], sites: Array[Vec3, Site], r: Real, near: HashGrid[Probe, Site], s: Out[Real, Probe]
):
    t = 0.0
    for j, _ in near.query(x[i], r):
        t += dot(sites[j] - x[i], sites[j] - x[i])
    s[i] = t


def dtypes(framework: str) -> list[Any]:
    if framework == "torch":
        import torch

        return [torch.float16, torch.bfloat16]
    if framework == "jax":
        import jax.numpy as jnp

        return [jnp.float16, jnp.bfloat16]
    return [np.float16]


def halves(framework: str, x: np.ndarray, dtype: Any) -> tuple[Any, np.ndarray]:
    """An array in half precision, and what it holds."""
    if framework == "torch":
        import torch

        y = torch.from_numpy(x).to(dtype)
        return y, y.double().numpy()
    if framework == "jax":
        import jax.numpy as jnp

        y = jnp.asarray(x, dtype)
    else:
        y = x.astype(dtype)
    return y, np.asarray(y).astype(np.float64)


def values(x: Any) -> np.ndarray:
    return (x.detach().double().numpy() if hasattr(x, "detach") else np.asarray(x)).astype(np.float64)


CASES = [(framework, n) for framework in ("numpy", "torch", "jax") for n in range(1 if framework == "numpy" else 2)]


@pytest.mark.parametrize(("framework", "n"), CASES)
def test_results_are_those_of_float32_rounded_once(framework: str, n: int) -> None:
    dtype, rng = dtypes(framework)[n], np.random.default_rng(3)
    (x, x64), (k, k64) = (halves(framework, rng.uniform(size=s), dtype) for s in ((50, 3), (50,)))
    e = energy_of(x, k)
    assert e.dtype == dtype
    exact = k64 * (x64**2).sum(1) ** 2
    # Half a unit in the last place, and eight roundings of float32.
    digits = 2.0**-8 if "bfloat16" in str(dtype) else 2.0**-11
    np.testing.assert_allclose(values(e), exact, rtol=digits * (1 + 2.0**-10), atol=2.0**-25)
    e, count = counted(x)
    assert str(count.dtype).endswith("int32")
    np.testing.assert_array_equal(values(count), np.where(x64[:, 0] > 0.5, 3, -1))
    np.testing.assert_array_equal(values(e), 0.5 * x64[:, 1])


@pytest.mark.parametrize(("framework", "n"), CASES)
@pytest.mark.parametrize("wide", ["float32", "float64"])
def test_beside_other_arrays_they_are_computed_with_as_these_are(framework: str, n: int, wide: str) -> None:
    dtype, rng = dtypes(framework)[n], np.random.default_rng(4)
    k, k64 = halves(framework, rng.uniform(size=50), dtype)
    x64 = rng.uniform(size=(50, 3))
    if framework == "torch":
        import torch

        x = torch.from_numpy(x64).to(getattr(torch, wide))
    elif framework == "jax":
        import jax.numpy as jnp

        x = jnp.asarray(x64, wide)
    else:
        x = x64.astype(wide)
    e = energy_of(x, k)
    assert str(e.dtype).endswith(wide)
    exact = k64 * (values(x) ** 2).sum(1) ** 2
    np.testing.assert_allclose(values(e), exact, rtol=8 * np.finfo(wide).eps)


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_gradients_have_the_dtype_of_their_arrays(framework: str) -> None:
    dtype, rng = dtypes(framework)[1], np.random.default_rng(5)
    (x, x64), (k, k64) = (halves(framework, rng.uniform(size=s), dtype) for s in ((40, 3), (40,)))
    if framework == "torch":
        import torch

        gx, gk = torch.autograd.grad(energy_of(x.requires_grad_(), k.requires_grad_()).sum(), (x, k))
    else:
        import jax

        gx, gk = jax.jit(jax.grad(lambda x, k: energy_of(x, k).astype("float32").sum(), (0, 1)))(x, k)
    assert gx.dtype == gk.dtype == dtype
    square = (x64**2).sum(1)
    np.testing.assert_allclose(values(gx), 4 * (k64 * square)[:, None] * x64, rtol=2.0**-8 * 1.01)
    np.testing.assert_allclose(values(gk), square**2, rtol=2.0**-8 * 1.01)


def test_gradients_beyond_their_range_are_infinite() -> None:
    """A gradient of 3 · 4 · 3000 · 3 · 1 = 108,000 is beyond float16."""
    import jax
    import jax.numpy as jnp

    k = jnp.full(2, 3000.0, jnp.float16)
    gradient = jax.grad(lambda x: 3 * energy_of(x, k).astype("float32").sum())(jnp.ones((2, 3), jnp.float16))
    assert gradient.dtype == jnp.float16
    assert np.isposinf(values(gradient)).all()


def test_loss_scaling_sees_gradients_beyond_their_range() -> None:
    import torch

    k, weights = torch.full((2,), 3000.0, dtype=torch.float16), torch.ones((2, 3), requires_grad=True)
    optimizer, scaler = torch.optim.SGD([weights], lr=1e-6), torch.amp.GradScaler("cpu", init_scale=3.0)
    # 108,000 is skipped and the factor halved; 54,000 is a step.
    for scale, moved in ((1.5, False), (1.5, True)):
        optimizer.zero_grad()
        scaler.scale(energy_of(weights.half(), k).float().sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == scale
        assert bool((weights != 1).all()) == moved


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
def test_results_beyond_their_range_are_refused(framework: str) -> None:
    dtype = dtypes(framework)[0]
    (x, _), (k, _) = (halves(framework, 16.0 * np.ones(s), dtype) for s in ((2, 3), (2,)))
    with pytest.raises(ValueError, match="`e`: expected numbers that float16 holds, got 9437184"):
        energy_of(x, k)
    if framework != "jax":
        with pytest.raises(ValueError, match="`e`: expected numbers that float16 holds, got 9437184"):
            launch(energy_of, {"x": x, "k": k}, {"e": 0 * k})
    # 65504 is the largest one.
    (x, _), (k, _) = (halves(framework, y * np.ones(s), dtype) for y, s in ((1.0, (2, 3)), (7277.0, (2,))))
    assert np.isfinite(values(energy_of(x, k))).all()


def test_launches_write_rounded_results() -> None:
    import torch

    rng = np.random.default_rng(6)
    for make in (lambda x: x.astype(np.float16), lambda x: torch.from_numpy(x).to(torch.bfloat16)):
        x, k = make(rng.uniform(size=(30, 3))), make(rng.uniform(size=30))
        e, n = counted(x)
        found = {"e": 0 * k, "n": 0 * n}
        for _ in range(3):
            launch(counted, inputs={"x": x}, outputs=found)
        np.testing.assert_array_equal(values(found["e"]), values(e))
        np.testing.assert_array_equal(values(found["n"]), values(n))
        y = 1 * k
        for _ in range(2):
            launch(scaled, inputs={"a": 0.5}, outputs={"y": y})
        # Halves of halves are exact.
        np.testing.assert_array_equal(values(y), 0.25 * values(k))


def test_grids_of_half_precision() -> None:
    rng = np.random.default_rng(7)
    x, sites = rng.uniform(size=(20, 3)).astype(np.float16), rng.uniform(size=(60, 3)).astype(np.float16)
    s = around(x, sites, 0.75, near=HashGrid(sites))
    assert s.dtype == np.float16
    square = ((sites[None].astype(float) - x[:, None].astype(float)) ** 2).sum(-1)
    np.testing.assert_allclose(s, (square * (square <= 0.75**2)).sum(1), rtol=2.0**-11 * 1.01)


def test_what_half_precision_cannot_be_is_refused() -> None:
    x, k = np.ones((4, 3), np.float16), np.ones(4, np.float16)
    with pytest.raises(TypeError, match="`e`: expected float16, got float32"):
        launch(energy_of, inputs={"x": x, "k": k}, outputs={"e": np.zeros(4, np.float32)})
    with pytest.raises(TypeError, match="`e`: expected float64, got float16"):
        launch(energy_of, inputs={"x": np.ones((4, 3)), "k": k}, outputs={"e": np.zeros(4, np.float16)})
    with pytest.raises(TypeError, match="`k`: expected float32"):
        energy_of(x, np.ones(4, int))
    with Tape(), pytest.raises(TypeError, match="`x`: expected float32 or float64 on a tape"):
        energy_of(x, k)
