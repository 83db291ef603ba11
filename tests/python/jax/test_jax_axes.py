"""Periodic axes as a traced array: one compiled function for all kinds of systems."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_cases import ON_CPU

import madelung.jax as mj
import madelung.numpy as mn
from conftest import assert_close

EVERYTHING = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}
CRYSTAL, SLAB, WIRE, OPEN = (True, True, True), (True, True, False), (False, True, False), (False, False, False)
BATCHES = [[CRYSTAL, OPEN, SLAB, WIRE], [WIRE, SLAB, OPEN, CRYSTAL], [CRYSTAL] * 4, [OPEN] * 4]
HEIGHT, ATOMS = 30.0, 8
ROOM = {"pairs": 4000, "waves": 1200}


def batch(pbc: list[tuple[bool, ...]]) -> dict[str, Any]:
    """Systems of one size, whose cells are zero along open axes, with lists and waves in arrays of one length."""
    g = np.random.default_rng(3)
    axes, atoms = np.array(pbc), len(pbc) * ATOMS
    h = np.array([[6.0, 0.0, 0.0], [0.5, 6.0, 0.0], [0.0, 0.3, 6.0]]) * axes[:, :, None]
    idx = np.repeat(np.arange(len(pbc), dtype=np.int32), ATOMS)
    r, q = g.uniform(0.0, 5.0, (atoms, 3)), g.normal(size=atoms)
    given = {"positions": r, "charges": q, "cell": h, "pbc": axes, "batch_idx": idx}
    pairs, ptr, shifts = mn.neighbor_list(r, 3.0, h, pbc=axes, batch_idx=idx)
    room = ROOM["pairs"] - pairs.shape[1]
    given["neighbor_list"] = np.pad(pairs, ((0, 0), (0, room)), constant_values=atoms)
    given["neighbor_ptr"], given["neighbor_shifts"] = ptr, np.pad(shifts, ((0, room), (0, 0)))
    return {name: jnp.asarray(x) for name, x in given.items()}


def waves(given: dict[str, Any]) -> dict[str, Any]:
    found = mn.generate_miller_indices(np.asarray(given["cell"]), 3.0, pbc=np.asarray(given["pbc"]), slab_height=HEIGHT)
    return dict(zip(("miller_indices", "miller_batch_idx"), map(jnp.asarray, found)))


def ewald(given: dict[str, Any], **options: Any) -> Any:
    options = {"slab_correction": True, "slab_height": HEIGHT, **EVERYTHING, **options}
    return mj.ewald_summation(alpha=0.9, cutoff=3.0, **given, **options)


def mesh(given: dict[str, Any], **options: Any) -> Any:
    options = {"slab_correction": True, "slab_height": HEIGHT, **EVERYTHING, **options}
    return mj.particle_mesh_ewald(alpha=0.9, cutoff=3.0, mesh_dimensions=(12, 12, 32), **given, **options)


def with_exclusions(given: dict[str, Any], **options: Any) -> Any:
    return mesh(given, exclusions=jnp.array([[0, 1], [ATOMS, ATOMS + 3]]), **options)


def by_flags(given: dict[str, Any]) -> dict[str, Any]:
    """Results by flags of Python, by which a plan has the terms of these systems alone."""
    return given | {"pbc": np.asarray(given["pbc"]).tolist()}


def close(found: Any, expected: Any) -> None:
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        assert_close(np.asarray(a), np.asarray(b), 1e-12)


@pytest.mark.parametrize("f", [mesh, with_exclusions])
def test_one_function_for_all_kinds_of_systems(f: Any) -> None:
    traces = []

    @jax.jit
    def jitted(given: dict[str, Any]) -> Any:
        traces.append(given)
        return f(given)

    for axes in BATCHES:
        given = batch(axes)
        close(jitted(given), f(by_flags(given)))
    assert len(traces) == 1


def test_waves_and_gradients() -> None:
    given = batch(BATCHES[0])
    given |= waves(given)
    close(jax.jit(ewald)(given), ewald(by_flags(given)))

    def loss(r: Any, given: dict[str, Any]) -> Any:
        return sum((x * x).sum() for x in ewald(given | {"positions": r}))

    close([jax.jit(jax.grad(loss))(given["positions"], given)], [jax.grad(loss)(given["positions"], by_flags(given))])


def test_vmap_over_axes() -> None:
    """One system a call, whose axes are those of a row."""
    given = batch(BATCHES[0])
    r, q = given["positions"].reshape(4, ATOMS, 3), given["charges"].reshape(4, ATOMS)
    cell = 6.0 * jnp.eye(3)
    options = {"mesh_dimensions": (12, 12, 32), "slab_correction": True, "slab_height": HEIGHT}

    def f(r: Any, q: Any, pbc: Any, lists: Any) -> Any:
        names = ("neighbor_list", "neighbor_ptr", "neighbor_shifts")
        given = dict(zip(names, lists))
        return mj.particle_mesh_ewald(r, q, cell, 0.9, cutoff=3.0, pbc=pbc, **given, **options, **EVERYTHING)

    each = [mj.neighbor_list(r[b], 3.0, cell, pbc=np.asarray(given["pbc"][b]), capacity=500)[:3] for b in range(4)]
    lists = [jnp.stack(x) for x in zip(*each)]
    found = jax.vmap(f)(r, q, given["pbc"], lists)
    for b in range(4):
        close([x[b] for x in found], f(r[b], q[b], np.asarray(given["pbc"][b]).tolist(), each[b]))


def test_slabs_that_are_not_permitted_are_nan() -> None:
    given = batch(BATCHES[0])
    expected = mesh(by_flags(given))
    energies, forces, *_, virial = jax.jit(
        lambda given: mesh(given, slab_correction=False, slab_height=None, energy_reduction="system")
    )(given)
    is_slab = np.asarray(given["batch_idx"]) == 2
    assert np.isnan(energies[2]) and not np.isnan(energies[jnp.array([0, 1, 3])]).any()
    assert np.isnan(forces[is_slab]).all() and np.isnan(virial[2]).all()
    assert_close(np.asarray(forces)[~is_slab], np.asarray(expected[1])[~is_slab], 1e-12)


@pytest.mark.skipif(not ON_CPU, reason="values of a device's arrays are not looked at by a call")
def test_what_a_trace_cannot_have_is_named() -> None:
    given = batch(BATCHES[0])
    given |= waves(given)
    for f, message in (
        (lambda given: ewald(given, exponent=6), "`pbc`: expected flags of Python with `exponent` above 1"),
        (
            lambda given: ewald(given | {"cell": None, "batch_idx": None, "pbc": given["pbc"][:1]}),
            "`cell`: expected latt",
        ),
        (lambda given: ewald({k: x for k, x in given.items() if k[:6] != "miller"}), "`pbc`: expected an array with"),
    ):
        with pytest.raises(ValueError, match=message):
            jax.jit(f)(given)
