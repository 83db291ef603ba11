"""Kernels in Python as ops of JAX: the values of NumPy, every nesting of derivatives, `jit`, `vmap` and `scan`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import madelung.jax
from conftest import DEVICE, required
from differences import check_jax
from kernel_cases import Atom, Case, cases, crystal, lennard_jones, on_waves
from madelung.kernels import Array, Out, Real, kernel

jax = required("jax")
jnp = jax.numpy


pytestmark = pytest.mark.usefixtures("double_precision")


def arrays(x: Any) -> Any:
    """The arguments of a case, as arrays of JAX where they are arrays."""
    if isinstance(x, np.ndarray):
        return jnp.asarray(x)
    if isinstance(x, tuple):
        return tuple(map(arrays, x))
    return {k: arrays(v) for k, v in x.items()} if isinstance(x, dict) else x


def case_of(name: str) -> tuple[Case, list[Any], dict[str, Any]]:
    case = cases()[name]
    return case, [arrays(np.asarray(x)) for x in case.smooth.values()], arrays(case.rest)


def total(x: Any) -> Any:
    return sum((o * jnp.cos(jnp.arange(o.size)).reshape(o.shape)).sum() for o in jax.tree.leaves(x))


every = pytest.mark.parametrize("name", cases())


def same(found: Any, expected: np.ndarray) -> None:
    """The bits of the CPU; a device adds the same terms in another order."""
    least = 0.0 if DEVICE == "cpu" else 1e-13 * np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=least)


@every
def test_values(name: str) -> None:
    case, x, rest = case_of(name)
    expected = jax.tree.leaves(case(*case.smooth.values()))
    for f in (lambda *at: case(*at, **rest), jax.jit(lambda *at: case(*at, **rest))):
        for a, b in zip(jax.tree.leaves(f(*x)), expected):
            same(a, b)


@every
def test_derivatives(name: str) -> None:
    """Gradients and all second derivatives, in every order of the modes."""
    case, x, rest = case_of(name)
    check_jax(lambda *at: case(*at, **rest), x)


@every
def test_gradients_against_differences(name: str) -> None:
    """Central differences of fourth order along a direction: their error is h⁴ = 1e-12 times the fifth derivative."""
    case, x, rest = case_of(name)

    @jax.jit
    def f(*at: Any) -> Any:
        return total(case(*at, **rest))

    rng = np.random.default_rng(5)
    along = [jnp.asarray(rng.normal(size=a.shape)) for a in x]
    slope = sum((a * b).sum() for a, b in zip(jax.grad(f, tuple(range(len(x))))(*x), along))

    def ends(h: float) -> Any:
        return f(*(a + h * b for a, b in zip(x, along))) - f(*(a - h * b for a, b in zip(x, along)))

    h = 1e-3
    expected = (8 * ends(h) - ends(2 * h)) / (12 * h)
    np.testing.assert_allclose(slope, expected, rtol=1e-7)
    np.testing.assert_allclose(jax.jvp(f, tuple(x), tuple(along))[1], slope, rtol=1e-11)


@every
def test_vmap(name: str) -> None:
    case, x, rest = case_of(name)
    stacked = [jnp.stack([a, a * 1.01, a * 0.99]) for a in x]
    found = jax.tree.leaves(jax.jit(jax.vmap(lambda *at: case(*at, **rest)))(*stacked))
    for n in range(3):
        for a, b in zip(found, jax.tree.leaves(case(*(t[n] for t in stacked), **rest))):
            np.testing.assert_array_equal(a[n], b)


def test_scan() -> None:
    """Steepest descent, one step after the other in one program."""
    case, x, rest = case_of("lennard_jones")
    energy = jax.jit(lambda r: case(r, *x[1:], **rest).sum())

    def step(r: Any, _: Any) -> Any:
        e, g = jax.value_and_grad(energy)(r)
        return r - 1e-3 * g / (1 + jnp.abs(g).max()), e

    _, energies = jax.lax.scan(step, x[0], None, length=5)
    assert (jnp.diff(energies) < 0).all()


def test_neighbors() -> None:
    case, x, rest = case_of("lennard_jones")
    found = madelung.jax.find_neighbors(x[0], case.rest["cutoff"], x[1], batch_idx=rest["atoms"])
    np.testing.assert_allclose(case(*x, **{**rest, "pairs": found}), case(*x, **rest), rtol=1e-13)


def test_windows_have_no_waves() -> None:
    for mesh in ((8, 8, 8, 4), (8, 8, 8, 4, 0, 0, 0, 8, 8, 8)):
        counts = jax.jit(lambda x, mesh=mesh: on_waves(mesh=mesh, scale=x))(jnp.ones(1))
        assert counts.shape == (320,) and counts.sum() == 512
    with pytest.raises(ValueError, match="`mesh`: expected whole meshes, as waves are those of all nodes, got windows"):
        on_waves(mesh=(8, 8, 8, 4, 0, 0, 0, 4, 8, 8), scale=jnp.ones(1))


def test_one_window_under_vmap() -> None:
    """The numbers of one mesh serve the systems of all calls."""
    case = cases()["interpolated"]
    u, charges, potential = map(jnp.asarray, case.smooth.values())
    mesh, potential = case.rest["mesh"][0], potential[:216]

    def energy(u: Any) -> Any:
        return case.kernel(u=u, charges=charges, potential=potential, mesh=mesh)

    many = jnp.stack([u, u + 0.25, u[::-1]])
    assert (jax.vmap(energy)(many) == jnp.stack([energy(u) for u in many])).all()


def test_bad_arguments() -> None:
    case, x, rest = case_of("lennard_jones")
    given = dict(zip(case.smooth, x), **rest)
    k = case.kernel
    with pytest.raises(TypeError, match="`cell`: expected float64, as `positions`, got float32"):
        k(**{**given, "cell": x[1].astype(jnp.float32)})
    with pytest.raises(TypeError, match="`atoms`: expected integers, got float64"):
        k(**{**given, "atoms": rest["atoms"].astype(float)})
    with pytest.raises(ValueError, match=r"`positions`: expected shape \(Atom, 3\)"):
        jax.jit(lambda r: k(**{**given, "positions": r}))(x[0][:, :2])
    with pytest.raises(TypeError, match="`cutoff`"):
        jax.jit(lambda c: k(**{**given, "cutoff": c}))(3.0)


@pytest.mark.host("lists in clusters are those of the CPU")
def test_lists_in_clusters_wherever_they_are_used_first():
    """Under `jit`, of which nothing is left, or outside; and as arguments of a program."""
    r, cell = map(jnp.asarray, crystal())

    def energy(r, pairs):
        return lennard_jones(r, cell, σ=jnp.ones(()), epsilon=0.1, cutoff=5.0, pairs=pairs)

    neighbors = madelung.jax.find_neighbors(r, 5.0, cell)
    assert neighbors.form == "clusters"
    expected = energy(r, neighbors)
    # Sums of some hundred pairs in another order.
    np.testing.assert_allclose(expected, energy(r, neighbors.coo()), rtol=1e-13, atol=1e-13)
    assert not np.array_equal(expected, energy(r, neighbors.coo()))
    in_rows = jax.grad(lambda r: energy(r, neighbors.coo()).sum())(r)
    for f in (jax.jit(lambda r: energy(r, neighbors)), lambda r: energy(r, neighbors)):
        np.testing.assert_array_equal(f(r), expected)
        slope = jax.grad(lambda r, f=f: f(r).sum())(r)
        np.testing.assert_allclose(slope, in_rows, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(jax.jit(energy)(r, neighbors), expected)


def test_numbers_that_are_differentiated() -> None:
    """A number for all rows has no gradient: one that should have it is refused, by whatever it is differentiated."""

    @kernel
    def scaled(i: Atom, x: Array[Real, Atom], scale: Real, y: Out[Real, Atom]):
        y[i] = scale * x[i]

    x, grad = jnp.ones(3), jax.grad
    calls = [
        grad(lambda s: scaled(x, s).sum()),
        grad(lambda s: scaled(x, 2 * s).sum()),
        grad(lambda s: grad(lambda x: scaled(x, s).sum())(x).sum()),
        lambda s: jax.jvp(lambda s: scaled(x, s), (s,), (s,)),
        lambda s: jax.linearize(lambda s: scaled(x, s), s),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"`scale`: expected a number, which has no gradient \(annotate it `Array"):
            call(2.0)
    # Traced for other reasons.
    for call in (jax.jit(calls[0]), jax.hessian(lambda s: scaled(x, s).sum()), jax.jit(lambda s: scaled(x, s))):
        with pytest.raises(TypeError, match=r"`scale`: expected a number.*`Array\[Real\]`"):
            call(2.0)
    assert grad(lambda s: scaled(x, jax.lax.stop_gradient(s)).sum() * s)(2.0) == 6.0
    assert grad(lambda x: scaled(x, jnp.asarray(2.0)).sum())(x).tolist() == [2.0, 2.0, 2.0]
