"""Arrays of a device are not read where a call has all that it needs. There need be no device: it is said to be one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_cases import ALPHA as SPLITTING
from jax_cases import close, listed, system

import madelung.jax as mj
from conftest import METHOD
from madelung.jax import _inputs as given

ALPHA, CUTOFF, K_CUTOFF = 0.8, 2.4, 4.0


def test_an_array_of_the_cpu_is_not_remote() -> None:
    there = jax.device_put(jnp.ones(3), jax.devices("cpu")[0])
    assert not given.is_remote(there, None, np.ones(2), 1.0)


def test_a_call_with_everything_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    positions = jnp.asarray(5.0 * rng.random((8, 3)), jnp.float32)
    charges = jnp.asarray([1.0, -1.0] * 4, jnp.float32)
    cell = 5.0 * jnp.eye(3, dtype=jnp.float32)
    pairs, ptr, shifts = mj.neighbor_list(positions, CUTOFF, cell)
    miller, _ = mj.generate_miller_indices(cell, K_CUTOFF)

    def energies() -> Any:
        alpha = jnp.asarray(ALPHA, jnp.float32)
        lists = {"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts}
        return mj.ewald_summation(
            positions, charges, cell, alpha, cutoff=CUTOFF, miller_indices=miller, compute_forces=True, **lists
        )

    def read(name: str, x: Any) -> Any:
        if x is not None:
            pytest.fail(f"`{name}` was read")

    want = energies()
    monkeypatch.setattr(given, "is_remote", lambda *xs: any(x is not None for x in xs))
    monkeypatch.setattr(given, "value", read)
    for a, b in zip(energies(), want, strict=True):
        assert np.array_equal(a, b)


def test_integers_that_are_read_are_those_that_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one alone, where it says how many there are."""
    monkeypatch.setattr(given, "is_remote", lambda *xs: any(x is not None for x in xs))
    r, q, h = system(6)
    wide = jnp.arange(6, dtype=jnp.int64) + 2**32
    with pytest.raises(ValueError, match="`batch_idx`: expected systems numbered from 0 .*, got 4294967301"):
        mj.ewald_summation(r, q, h, SPLITTING, **listed(r, h), batch_idx=wide)
    with pytest.raises(ValueError, match="`segment_idx`: expected integers that 32 bits can hold, got 4294967301"):
        mj.segment_sum(q, wide)


def test_what_is_made_lies_where_the_positions_were_put() -> None:
    """Lists and waves, which are made on the host, and what is computed with them."""
    device = jax.devices("cpu")[1]
    plain = system(6)
    r, q, h = (jax.device_put(x, device) for x in plain)
    lists = mj.neighbor_list(r, CUTOFF, h, return_distances=True, capacity=999)
    kept = mj.NeighborList(CUTOFF).allocate(r, h)
    waves = mj.generate_miller_indices(h, K_CUTOFF)
    sums = mj.ewald_summation(r, q, h, compute_forces=True, **METHOD)
    by_r = jax.grad(lambda r: mj.ewald_summation(r, q, h).sum())(r)
    for x in jax.tree.leaves((lists, kept, mj.NeighborList(CUTOFF).update(kept, 1.5 * r, h), waves, sums, by_r)):
        assert x.devices() == {device}
    close(sums[1], mj.ewald_summation(*plain, compute_forces=True, **METHOD)[1], 1e-12)
    # What nobody has put anywhere goes where JAX puts arrays, and may be used with others.
    free = listed(plain[0], plain[2])
    assert not free["neighbor_list"].committed
    assert mj.ewald_summation(r, q, h, SPLITTING, **free).devices() == {device}


def test_what_is_traced_for_derivatives_or_is_spread_has_no_place_of_its_own() -> None:
    device = jax.devices("cpu")[1]
    r, _, h = system(6)
    found = []

    def length(r: Any) -> Any:
        *lists, distances = mj.neighbor_list(r, CUTOFF, h, return_distances=True)
        found.extend(lists)
        return distances.sum()

    jax.grad(length)(jax.device_put(r, device))
    assert all(x.devices() == {device} for x in found)
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:2]), ("all",))
    spread = jax.device_put(r, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("all")))
    assert not mj.neighbor_list(spread, CUTOFF, h)[0].committed
