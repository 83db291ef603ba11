"""Derivatives of every op against finite differences, in every mode and order that there is."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_cases import Case, close, every_op, every_trait, recorded

from differences import check_jax
from madelung.jax import _vmap


@every_op
def test_two_orders_in_both_modes(case: Case) -> None:
    """By all arguments at once, and by each alone."""
    check_jax(case.at, case.inputs)
    for k in range(len(case.inputs)):

        def one(x: Any, k: int = k) -> Any:
            return case.at(*[x if n == k else y for n, y in enumerate(case.inputs)])

        check_jax(one, (case.inputs[k],), seed=k)


@every_op
def test_all_orders_agree(case: Case) -> None:
    """Hessians by every pair of modes are the same."""
    x, f = case.positions, case.energy
    expected = jax.jacfwd(jax.grad(f))(x)
    terms = float(jnp.abs(jax.grad(f)(x)).max() / jnp.abs(x).max())
    for composed in (
        jax.hessian(f),
        jax.jacrev(jax.grad(f)),
        jax.jacrev(jax.jacfwd(f)),
        jax.jacfwd(jax.jacfwd(f)),
        jax.jit(jax.hessian(f)),
    ):
        close(composed(x), expected, terms=terms)
    u = jnp.linspace(-1, 1, x.size).reshape(x.shape)
    hvp = jnp.tensordot(expected, u, x.ndim)
    close(jax.jvp(jax.grad(f), (x,), (u,))[1], hvp, terms=terms)
    close(jax.grad(lambda r: jax.jvp(f, (r,), (u,))[1])(x), hvp, terms=terms)
    close(jax.vjp(jax.grad(f), x)[1](u)[0], hvp, terms=terms)
    close(jax.linearize(jax.grad(f), x)[1](u), hvp, terms=terms)
    # A direction that varies with the point: ∂ᵥ(∇f · ux) = ux · H v + ∇f · uv.
    v = jnp.cos(jnp.arange(x.size)).reshape(x.shape)
    along = jax.jvp(lambda r: jax.jvp(f, (r,), (u * r,))[1], (x,), (v,))[1]
    close(along, (u * x * jnp.tensordot(expected, v, x.ndim)).sum() + (jax.grad(f)(x) * u * v).sum())
    close(jax.jit(jax.grad(jax.checkpoint(f)))(x), jax.grad(f)(x))


@every_op
def test_strain(case: Case) -> None:
    """Given as zeros, it has the derivative along r → r(1 + ε), cell → cell(1 + ε) at fixed charges."""
    op = case.family.op
    missing = set(op.reals) - set(case.reals)
    if not missing:
        return
    (strain,) = missing
    names = [op.inputs[n].name for n in case.reals]
    at = dict(zip(names, case.inputs))

    def energy(positions: Any, cell: Any, strain_: Any) -> Any:
        args = list(case.args)
        args[strain] = strain_
        for n, name in zip(case.reals, names):
            args[n] = {"positions": positions, "cell": cell}.get(name, args[n])
        return case.family(*args).sum()

    r, h = at["positions"], at["cell"]
    by_r, by_h, by_strain = jax.grad(energy, (0, 1, 2))(r, h, jnp.zeros((2, 3, 3)))
    of_atoms = r[:, :, None] * by_r[:, None, :]
    expected = jnp.stack([of_atoms[:4].sum(0), of_atoms[4:].sum(0)]) + jnp.swapaxes(h, 1, 2) @ by_h
    close(by_strain, expected)


@every_trait
def test_third_order_says_so(case: Case) -> None:
    name = case.family.op.short
    with pytest.raises(NotImplementedError, match=f"{name}_v1: derivatives by its inputs exist to second order"):
        jax.jacrev(jax.hessian(case.energy))(case.positions)


@every_op
def test_vmap(case: Case) -> None:
    x, f = case.positions, case.energy
    many = jnp.stack([x, x + 0.01, 0.99 * x])
    close(jax.vmap(f)(many), jnp.stack([f(r) for r in many]))
    close(jax.vmap(f, in_axes=x.ndim)(jnp.moveaxis(many, 0, -1)), jnp.stack([f(r) for r in many]))
    close(jax.vmap(jax.grad(f))(many), jnp.stack([jax.grad(f)(r) for r in many]))
    twice = jnp.stack([many, 1.01 * many])
    close(jax.vmap(jax.vmap(f))(twice), jnp.stack([jnp.stack([f(r) for r in rs]) for rs in twice]))
    close(jax.grad(lambda r: jax.vmap(f)(r).sum())(many), jnp.stack([jax.grad(f)(r) for r in many]))


@every_op
def test_vmap_over_everything(case: Case) -> None:
    """Every array mapped, lists and batches too."""
    op = case.family.op
    arrays = [n for n in op.tensors if case.args[n].shape != (0,)]
    cases = [case.args, [0.98 * x if n in case.reals else x for n, x in enumerate(case.args)]]

    def f(*xs: Any) -> Any:
        args = list(case.args)
        for n, x in zip(arrays, xs):
            args[n] = x
        return case.family(*args)

    found = jax.vmap(f)(*[jnp.stack([args[n] for args in cases]) for n in arrays])
    expected = [case.family(*args) for args in cases]
    jax.tree.map(lambda got, *each: close(got, jnp.stack(each)), found, *expected)


@every_op
def test_vmap_is_one_call(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of batches is a larger batch: no loop over the mapped axis, but where systems have a table in common."""
    tables = [a for a in case.family.op.args if a["kind"] == "map"]
    assert case.family.op.stackable == (not tables)
    many = jnp.stack([case.positions, case.positions + 0.01])
    expected = jax.vmap(case.energy)(many)
    with monkeypatch.context() as patched:
        if not tables:
            patched.setattr(_vmap, "_loop", lambda *_: pytest.fail("a loop"))
        close(jax.vmap(case.energy)(many), expected)
    monkeypatch.setattr(type(case.family.op), "stackable", False)
    close(jax.vmap(case.energy)(many), expected)
    close(jax.vmap(jax.grad(case.energy))(many), jnp.stack([jax.grad(case.energy)(r) for r in many]))


@every_op
def test_lists_with_room(case: Case) -> None:
    """What stands behind the last pair changes nothing, in values, derivatives and batches; too many pairs are NaN.

    Maps with a row for each pair have the room of the list.
    """
    op = case.family.op
    ptr = (
        next(n for n, i in enumerate(op.inputs) if i.part == "ptr") if "pairs" in {a["kind"] for a in op.args} else None
    )
    if ptr is None:
        return
    count = case.args[ptr + 1].shape[0]
    entries = op.args[op.inputs[ptr].arg]["entries"]
    maps = [n for n, i in enumerate(op.inputs) if i.part == "map_of" and op.args[i.arg]["rows"] == entries]

    def roomy(*xs: Any, room: int = count + 7) -> Any:
        args = list(case.args)
        for n, x in zip(case.reals, xs):
            args[n] = x
        args[ptr + 1] = jnp.resize(args[ptr + 1], (room,))
        args[ptr + 2] = jnp.resize(args[ptr + 2], (room, 3))
        for n in maps:
            args[n] = jnp.resize(args[n], (room,))
        return case.family(*args)

    def cut(x: Any, *, of: Any) -> None:
        assert not np.asarray(x[len(of) :]).any()
        assert np.array_equal(x[: len(of)], of)

    def scalar(f: Any, *xs: Any) -> Any:
        return sum((x**2).sum() for x in jax.tree.leaves(f(*xs)))

    jax.tree.map(lambda x, y: cut(x, of=y), roomy(*case.inputs), case.at(*case.inputs))
    for k in range(len(case.inputs)):
        by = jax.grad(lambda *xs: scalar(roomy, *xs), k)
        close(by(*case.inputs), jax.grad(lambda *xs: scalar(case.at, *xs), k)(*case.inputs))
    close(jax.hessian(lambda r: scalar(roomy, r, *case.inputs[1:]))(case.positions),
          jax.hessian(lambda r: scalar(case.at, r, *case.inputs[1:]))(case.positions))  # fmt: skip
    with recorded("expected room for all that there is"):
        short = jax.jit(lambda *xs: roomy(*xs, room=count - 2))(*case.inputs)
        assert all(np.isnan(x).all() for x in jax.tree.leaves(short))


@every_op
def test_nothing_is_computed_that_nobody_wants(case: Case) -> None:
    """A Hessian-vector product is one call once what is not used has been left out."""
    x = case.positions
    u = jnp.ones_like(x)

    def hvp(r: Any) -> Any:
        f = lambda r: jax.tree.leaves(case.at(r, *case.inputs[1:]))[0].sum()  # noqa: E731
        return jax.jvp(jax.grad(f), (r,), (u,))[1]

    text = jax.jit(hvp).lower(x).compile().as_text()
    assert text.count('custom_call_target="madelung.') == 1
