"""Derivatives to second order along random directions, against differences of first derivatives, in every framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from conftest import assert_close, rms

STEP = 3e-4
"""Of central differences of fourth order. Along a direction with elements of about 1, the derivatives of sums of 1/r to
r⁻¹² at distances of about 1 grow by 10 to 30 per order: the fifth makes an error of h⁴·30⁴/30 = 2e-10 of the first, and
rounding one of 1e-16/h = 3e-13 of what is differentiated."""
BOUND = 5e-9
"""Ten times the 2e-10 above, or what six seeds show of every op: 5e-10 (Lennard-Jones), and 2e-11 for Ewald sums."""

Arrays = list[np.ndarray]


def fourth_order(f: Callable[[float], Any], h: float) -> Any:
    """The derivative of a function at 0, with an error of h⁴."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


def directions(shapes: list[tuple[int, ...]], seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in shapes]


def check(gradient: Callable[[Arrays], Arrays], products: dict[str, Arrays], x: Arrays, u: Arrays) -> None:
    """Products of second derivatives with a direction, each a way to compute them, against differences of gradients."""
    x = [np.asarray(a) for a in x]

    def change(h: float) -> Arrays:
        ends = [gradient([a + sign * h * b for a, b in zip(x, u)]) for sign in (1, -1)]
        return [np.asarray(a) - np.asarray(b) for a, b in zip(*ends)]

    expected = [(8 * near - far) / (12 * STEP) for near, far in zip(change(STEP), change(2 * STEP))]
    # Derivatives by an argument that chooses a law (an exponent) are zero.
    largest = max(map(rms, expected)) or 1.0
    for name, found in products.items():
        for k, (a, b) in enumerate(zip(found, expected)):
            # An argument that has no part in second derivatives leaves the rounding of the others; alone, exact zeros.
            scale = max(rms(b), 1e-3 * largest) or 1.0
            print(f"{name}, argument {k}: {rms(np.asarray(a) - b) / scale:.0e}")
            assert_close(np.asarray(a), b, BOUND, 1e-3 * largest)


def check_torch(f: Callable[..., Any], x: Any, forward: bool = False, seed: int = 0) -> None:
    """All second derivatives of a function of tensors, those by the weights of its results included, by autograd twice
    and, with `forward`, by dual numbers over autograd."""
    import torch

    def results(x: Any) -> Any:
        out = f(*x)
        return out if isinstance(out, (tuple, list)) else (out,)

    def number(*both: Any) -> Any:
        return sum((w * o).sum() for w, o in zip(both[len(x) :], results(both[: len(x)])))

    shapes = [tuple(o.shape) for o in results(x)]
    like = {"dtype": torch.float64, "device": x[0].device}
    inputs = [*x, *(torch.tensor(w, **like) for w in directions(shapes, seed + 1))]
    u = directions([tuple(t.shape) for t in inputs], seed)
    along = [torch.tensor(a, **like) for a in u]

    def leaves(arrays: Any) -> Any:
        return [torch.as_tensor(a, **like).detach().clone().requires_grad_() for a in arrays]

    def once(arrays: Any, **options: Any) -> Any:
        at = leaves(arrays)
        return at, torch.autograd.grad(number(*at), at, materialize_grads=True, **options)

    def read(tensors: Any) -> Arrays:
        return [t.detach().cpu().numpy() for t in tensors]

    at, g = once(inputs, create_graph=True)
    slope = sum((a * b).sum() for a, b in zip(g, along))
    products = {"reverse over reverse": read(torch.autograd.grad(slope, at, materialize_grads=True))}
    if forward:
        gradient = torch.func.grad(number, tuple(range(len(inputs))))
        fixed = tuple(t.detach() for t in inputs)
        products["forward over reverse"] = read(torch.func.jvp(gradient, fixed, tuple(along))[1])
    check(lambda arrays: read(once(arrays)[1]), products, read(inputs), u)


def check_jax(f: Callable[..., Any], x: Any, seed: int = 0) -> None:
    """All second derivatives of a function of arrays, those by the weights of its results included, in every order of
    the modes."""
    import jax
    import jax.numpy as jnp

    def number(*both: Any) -> Any:
        out = jax.tree.leaves(f(*both[: len(x)]))
        return sum((w * o).sum() for w, o in zip(both[len(x) :], out))

    shapes = [o.shape for o in jax.tree.leaves(jax.eval_shape(f, *x))]
    inputs = (*x, *map(jnp.asarray, directions(shapes, seed + 1)))
    every = tuple(range(len(inputs)))
    u = directions([t.shape for t in inputs], seed)
    along = tuple(map(jnp.asarray, u))
    gradient = jax.grad(number, every)

    def slope_forward(*at: Any) -> Any:
        return jax.jvp(number, at, along)[1]

    def slope_reverse(*at: Any) -> Any:
        return sum((a * b).sum() for a, b in zip(gradient(*at), along))

    products = {
        "forward over reverse": jax.jvp(gradient, inputs, along)[1],
        "reverse over forward": jax.grad(slope_forward, every)(*inputs),
        "reverse over reverse": jax.grad(slope_reverse, every)(*inputs),
    }
    twice = jax.jvp(slope_forward, inputs, along)[1]
    expected = sum((a * b).sum() for a, b in zip(products["forward over reverse"], along))
    assert_close(
        twice,
        expected,
        1e-12,
        sum(float(jnp.abs(a * b).sum()) for a, b in zip(products["forward over reverse"], along)),
    )
    jitted = jax.jit(gradient)
    check(lambda arrays: jitted(*arrays), products, inputs, u)
