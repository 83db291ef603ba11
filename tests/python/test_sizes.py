"""Numbers that set sizes, such as cutoffs: a gradient by one would be lost, and is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from conftest import required

torch = required("torch")
jax = required("jax")
import jax.numpy as jnp  # noqa: E402

import madelung.jax as mj  # noqa: E402
import madelung.torch as mt  # noqa: E402

RANDOM = np.random.default_rng(4)
R = RANDOM.uniform(0.0, 10.0, (20, 3))
Q = np.where(np.arange(20) % 2, 1.0, -1.0)
H = 10.0 * np.eye(3)
KINDS = np.zeros(20, np.int32)

Call = Callable[[Any, Any, Any, Any, Any], Any]
CALLS: dict[str, tuple[float, Call]] = {
    "cutoff": (3.0, lambda m, r, q, h, x: m.ewald_summation(r, q, h, 0.8, cutoff=x, k_cutoff=4.0)),
    "k_cutoff": (4.0, lambda m, r, q, h, x: m.ewald_summation(r, q, h, 0.8, cutoff=3.0, k_cutoff=x)),
    "mesh_spacing": (1.0, lambda m, r, q, h, x: m.particle_mesh_ewald(r, q, h, 0.8, cutoff=3.0, mesh_spacing=x)),
    "accuracy": (1e-4, lambda m, r, q, h, x: m.ewald_summation(r, q, h, accuracy=x)),
    "prefactor": (2.0, lambda m, r, q, h, x: m.coulomb(r, q, prefactor=x)),
    "radius": (3.0, lambda m, r, q, h, x: m.radius_aggregate(r, r, q[:, None], x, 1.0)),
    "dl": (2.0, lambda m, r, q, h, x: m.latent_ewald(r, q, h, dl=x)),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_gradient_by_sizes(name: str) -> None:
    value, call = CALLS[name]
    of = [torch.tensor(x) for x in (R, Q, H)]
    x = torch.tensor(value, dtype=torch.float64, requires_grad=True)
    refusal = rf"`{name}`: expected a number, by which there is no gradient \(`\.detach\(\)`"
    with pytest.raises(TypeError, match=refusal):
        call(mt, *of, x)
    with pytest.raises(TypeError, match=refusal):
        call(mt, *of, x[None] if name in ("cutoff", "k_cutoff", "dl") else x)
    assert torch.equal(call(mt, *of, x.detach()), call(mt, *of, value))
    of_jax = [jnp.asarray(x) for x in (R, Q, H)]
    with pytest.raises((TypeError, ValueError), match=f"`{name}`: expected a number"):
        jax.grad(lambda x: call(mj, *of_jax, x).sum())(value)
    np.testing.assert_array_equal(call(mj, *of_jax, jnp.asarray(value)), call(mj, *of_jax, value))


def test_searches() -> None:
    x = torch.tensor(3.0, requires_grad=True)
    for call in (lambda: mt.find_neighbors(torch.tensor(R), x), lambda: mt.NeighborList(x)):
        with pytest.raises(TypeError, match="`cutoff`: expected a number, by which there is no gradient"):
            call()


def test_numbers_with_a_gradient() -> None:
    """Splittings and heights of slabs are no sizes."""
    of = [torch.tensor(x) for x in (R, Q, H)]
    alpha = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(mt.ewald_summation(*of, alpha, cutoff=3.0, k_cutoff=4.0).sum(), alpha)
    step = 1e-5
    ends = [mt.ewald_summation(*of, 0.8 + d, cutoff=3.0, k_cutoff=4.0).sum() for d in (-step, step)]
    assert float(slope) == pytest.approx(float(ends[1] - ends[0]) / (2 * step), rel=1e-6)
