"""Modes of JAX: without `jit`, and with strict promotion of dtypes. Results are those of the ordinary mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from conftest import required

jax = required("jax")
import jax.numpy as jnp  # noqa: E402

import madelung.jax as mj  # noqa: E402
from madelung.kernels import Array, Out, Real, dims, kernel  # noqa: E402

(Atom,) = dims("Atom")
RANDOM = np.random.default_rng(5)
R = RANDOM.uniform(0.0, 10.0, (20, 3))
Q = np.where(np.arange(20) % 2, 1.0, -1.0)
IDX = np.repeat(np.arange(2, dtype=np.int32), 10)


@kernel
def cubed(i: Atom, x: Array[Real, Atom], y: Out[Real, Atom]):
    y[i] = x[i] * x[i] * x[i]


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def summed(**given: Any) -> Callable[[Any], Any]:
    given = {"cutoff": 3.0, "k_cutoff": 4.0, **given}
    return lambda r: mj.ewald_summation(r, jnp.asarray(Q), 10.0 * jnp.eye(3), 0.8, **given).sum()


def listed(form: str, r: Any) -> Any:
    return mj.NeighborList(cutoff=3.0, skin=0.2, form=form).allocate(r, 10.0 * jnp.eye(3))


def of_offsets(r: Any, ptr: Any) -> Any:
    cells = jnp.stack([10.0 * jnp.eye(3)] * 2)
    return mj.neighbor_list(r, 3.0, cells, batch_ptr=ptr, capacity=400)[1]


CALLS: dict[str, Callable[[Any], Any]] = {
    "ewald": summed(),
    "chosen": lambda r: mj.ewald_summation(r, jnp.asarray(Q), 10.0 * jnp.eye(3)),
    "mesh": lambda r: mj.particle_mesh_ewald(r, jnp.asarray(Q), 10.0 * jnp.eye(3)),
    "gradient": jax.grad(summed()),
    "second": lambda r: jax.jvp(jax.grad(summed()), (r,), (r,))[1],
    "open": lambda r: mj.coulomb(r, jnp.asarray(Q)),
    "rows": lambda r: listed("rows", r).lists["neighbor_list"],
    "rows under jit": lambda r: jax.jit(lambda x: x.lists["neighbor_shifts"])(listed("rows", r)),
    "clusters": lambda r: listed("clusters", r).lists["neighbor_list"],
    "update": lambda r: mj.NeighborList(3.0, 0.2).update(listed("rows", r), r + 1.0, 10.0 * jnp.eye(3)).coo()[0],
    "offsets": lambda r: jax.jit(of_offsets)(r, jnp.array([0, 10, 20])),
    "segments": lambda r: mj.segment_softmax(r, jnp.asarray(IDX), 2),
    "vmap": lambda r: jax.vmap(lambda q: mj.coulomb(r, q))(jnp.stack([jnp.asarray(Q)] * 2)),
    "kernel": lambda r: jax.grad(lambda x: cubed(x).sum())(r[:, 0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_without_jit(name: str) -> None:
    expected = CALLS[name](jnp.asarray(R))
    with jax.disable_jit():
        found = CALLS[name](jnp.asarray(R))
        assert jax.config.jax_disable_jit
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_a_module_of_torch_without_jit() -> None:
    torch = pytest.importorskip("torch")
    module = mj.TorchModule(torch.nn.Linear(3, 1), enable_vjp=True)
    x = jnp.ones((2, 3), jnp.float32)
    expected = module(x), jax.grad(lambda x: module(x).sum())(x)
    with jax.disable_jit():
        found = module(x), jax.grad(lambda x: module(x).sum())(x)
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("name", CALLS)
def test_strict_promotion(name: str) -> None:
    expected = CALLS[name](jnp.asarray(R))
    with jax.numpy_dtype_promotion("strict"):
        found = CALLS[name](jnp.asarray(R))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
