"""The functions: values, derivatives, batches, transformations, lists with a capacity."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec
from jax.test_util import check_grads
from jax_cases import (
    ALPHA,
    CUTOFF,
    K_CUTOFF,
    ON_CPU,
    close,
    differences,
    four_devices,
    listed,
    recorded,
    same,
    system,
    total,
)

import madelung.jax as mj
import madelung.numpy as mn
from conftest import METHOD, assert_close, required
from differences import check_jax

EVERYTHING = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}
REDUCTIONS = pytest.mark.parametrize("reduction", ["atom", "system"])


def shard_map(f: Any, mesh: Any, in_specs: Any, out_specs: Any) -> Any:
    return jax.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs)


@REDUCTIONS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("ewald_summation", METHOD),
        ("ewald_summation", {"alpha": 0.8, "cutoff": 4.5, "k_cutoff": 5.0, "accuracy": None, "prefactor": 14.4}),
        ("ewald_real_space", {"alpha": 0.9, "cutoff": 4.0}),
        ("ewald_reciprocal_space", {"alpha": 0.9, "k_cutoff": 6.0}),
    ],
)
def test_same_bits_as_numpy(name: str, settings: dict[str, float], reduction: str, dtype: Any) -> None:
    arrays = [np.asarray(x, dtype) for x in system(12)]
    given = [jnp.asarray(x) for x in arrays]
    options = {"energy_reduction": reduction, **settings}
    of_numpy, of_jax = getattr(mn, name), getattr(mj, name)
    energies = of_numpy(*arrays, **options)
    _, *others = of_numpy(*arrays, **options, **EVERYTHING)
    found = of_jax(*given, **options, **EVERYTHING)
    assert all(x.dtype == dtype for x in found)
    # NumPy's energies per atom that come with gradients are summed in another order.
    for x, y in zip((of_jax(*given, **options), *found), (energies, energies, *others)):
        same(x, y)


@REDUCTIONS
def test_same_bits_under_jit(reduction: str) -> None:
    r, q, h = system(12)
    lists = listed(r, h)
    options = {"energy_reduction": reduction, **EVERYTHING}
    found = jax.jit(lambda *xs: mj.ewald_summation(*xs, ALPHA, **lists, **options))(r, q, h)
    expected = mj.ewald_summation(r, q, h, ALPHA, cutoff=CUTOFF, k_cutoff=K_CUTOFF, accuracy=None, **options)
    for x, y in zip(found, expected):
        assert np.array_equal(x, y)


def test_same_bits_as_torch() -> None:
    torch = required("torch")
    import madelung.torch as mt

    arrays = [np.array(x) for x in system(12)]
    options = {"energy_reduction": "system", **EVERYTHING, **METHOD}
    expected = mt.ewald_summation(*map(torch.from_numpy, arrays), **options)
    for x, y in zip(mj.ewald_summation(*map(jnp.asarray, arrays), **options), expected):
        same(x, y.numpy())
    r = torch.from_numpy(arrays[0]).requires_grad_()
    h = torch.from_numpy(arrays[2])
    _, _, _, distances = mt.neighbor_list(r, 4.0, h, return_distances=True)
    (by_r,) = torch.autograd.grad((distances**2).sum(), r)

    def square(r: Any) -> Any:
        return (mj.neighbor_list(r, 4.0, jnp.asarray(arrays[2]), return_distances=True)[3] ** 2).sum()

    same(jax.grad(square)(jnp.asarray(arrays[0])), by_r.numpy())


def test_references(case: Any) -> None:
    """The stored sums that the NumPy functions are held against."""
    r, q, h = map(jnp.asarray, case.system)
    e, f = mj.ewald_summation(r, q, h, accuracy=1e-14, energy_reduction="system", compute_forces=True)
    # Rounding and truncation, as in test_ewald.py; on another device what docs/cuda.md says.
    of_energy, of_forces = (2e-14, 1e-13) if ON_CPU else (1e-12, 1e-12)
    assert_close(np.asarray(e), np.array([case.energy]), of_energy)
    assert_close(np.asarray(f), case.forces, of_forces, case.least_forces)


def test_two_orders_by_every_argument() -> None:
    r, q, h = system(4)
    lists = listed(r, h)
    # With this a pair at the cutoff has an energy of 1e-19: one that crosses it makes no jump.
    alpha = 1.6
    check_jax(total(lists, alpha), (r, q, h))

    def outputs(r: Any, q: Any, h: Any, alpha: Any) -> Any:
        return mj.ewald_summation(r, q, h, alpha, **lists)

    check_jax(outputs, (r, q, h, jnp.asarray(alpha)))


@REDUCTIONS
def test_what_comes_with_the_energies_has_derivatives(reduction: str) -> None:
    r, q, h = system(4)
    lists = listed(r, h)

    def outputs(r: Any, q: Any, h: Any) -> Any:
        return mj.ewald_summation(r, q, h, ALPHA, energy_reduction=reduction, **EVERYTHING, **lists)

    check_grads(outputs, (r, q, h), 1, modes=("fwd", "rev"), atol=1e-4, rtol=1e-4)
    energy, forces, potential, virial = outputs(r, q, h)
    f = total(lists)
    close(forces, -jax.grad(f)(r, q, h))
    close(potential, jax.grad(f, 1)(r, q, h))
    strained = lambda e: f(r @ (jnp.eye(3) + e), q, h @ (jnp.eye(3) + e))  # noqa: E731
    close(virial, -jax.grad(strained)(jnp.zeros((3, 3))))
    close(energy.sum(), f(r, q, h))


def test_hessian_of_twelve_atoms() -> None:
    """Against differences of forces of fourth order: at a step of 1e-4 they err by h⁴ f⁽⁵⁾/30 ≈ 1e-15 and by rounding,
    1e-16/1e-4 = 1e-12 of the largest force."""
    r, q, h = system(12)
    f = total(listed(r, h))
    hessian = jax.hessian(f)(r, q, h)
    gradient = jax.jit(jax.grad(f))
    close(hessian, differences(lambda x: gradient(jnp.asarray(x), q, h), r), 1e-7)
    close(hessian, jnp.transpose(hessian, (2, 3, 0, 1)))


def test_stress_by_the_strain_to_second_order() -> None:
    r, q, h = system(6)
    f = total(listed(r, h))

    def strained(e: Any) -> Any:
        return f(r @ (jnp.eye(3) + e), q, h @ (jnp.eye(3) + e))

    zero = jnp.zeros((3, 3))
    gradient = jax.jit(jax.grad(strained))
    close(jax.hessian(strained)(zero), differences(lambda e: gradient(jnp.asarray(e)), zero), 1e-7)


def test_gradients_through_vmap_jit_and_scan() -> None:
    r, q, h = system(6)
    f = total(listed(r, h))
    many = jnp.stack([r, r + 0.01, 0.99 * r])
    each = jnp.stack([jax.grad(f)(x, q, h) for x in many])
    close(jax.vmap(jax.grad(f), (0, None, None))(many, q, h), each)
    close(jax.jit(jax.grad(lambda xs: jax.vmap(f, (0, None, None))(xs, q, h).sum()))(many), each)

    def scanned(xs: Any) -> Any:
        return jax.lax.scan(lambda sum_, x: (sum_ + f(x, q, h), None), 0.0, xs)[0]

    close(jax.grad(scanned)(many), each)
    close(jax.jit(jax.hessian(scanned))(many)[0, :, :, 0], jax.hessian(f)(many[0], q, h))


def test_gradients_through_shard_map() -> None:
    """Systems on four devices, none of them gathered; what they share is summed."""
    r, q, h = system(6)
    lists = listed(r, h)
    many = jnp.stack([r + 0.01 * n for n in range(8)])
    mesh = jax.sharding.Mesh(four_devices(), ("systems",))
    spec = PartitionSpec("systems")

    def energies(xs: Any, q: Any) -> Any:
        return jax.vmap(lambda x: total(lists)(x, q, h))(xs)

    sharded = jax.jit(shard_map(energies, mesh, (spec, PartitionSpec()), spec))
    expected = energies(many, q)
    close(sharded(many, q), expected)
    assert "all-gather" not in sharded.lower(many, q).compile().as_text()
    for argument in (0, 1):
        by = jax.grad(lambda *xs: (sharded(*xs) ** 2).sum(), argument)(many, q)
        close(by, jax.grad(lambda *xs: (energies(*xs) ** 2).sum(), argument)(many, q))

    def inside(xs: Any, q: Any) -> Any:
        """Gradients taken on each device."""
        return jax.grad(lambda x: energies(x, q).sum())(xs)

    close(
        jax.jit(shard_map(inside, mesh, (spec, PartitionSpec()), spec))(many, q),
        jax.vmap(lambda x: jax.grad(total(lists))(x, q, h))(many),
    )


def test_batches() -> None:
    """Several systems in one call are what each is alone, and what `vmap` makes of them."""
    one, two = system(6, 0), system(6, 1)
    r, q = (jnp.concatenate(pair) for pair in list(zip(one, two))[:2])
    h = jnp.stack([one[2], two[2]])
    idx = jnp.repeat(jnp.arange(2), 6)
    together = mj.ewald_summation(
        r, q, h, ALPHA, cutoff=CUTOFF, k_cutoff=K_CUTOFF, accuracy=None, batch_idx=idx, **EVERYTHING
    )
    alone = [
        mj.ewald_summation(*x, ALPHA, cutoff=CUTOFF, k_cutoff=K_CUTOFF, accuracy=None, **EVERYTHING) for x in (one, two)
    ]
    for k in range(3):
        assert np.array_equal(together[k], jnp.concatenate([x[k] for x in alone]))
    assert np.array_equal(together[3], jnp.stack([x[3] for x in alone]))

    @jax.jit
    @jax.vmap
    def mapped(r: Any, q: Any, h: Any) -> Any:
        pairs, ptr, shifts, *_ = mj.neighbor_list(r, CUTOFF, h, capacity=1000)
        lists = {"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts}
        return mj.ewald_real_space(r, q, h, ALPHA, cutoff=CUTOFF, **lists)

    got = mapped(*(jnp.stack(pair) for pair in zip(one, two)))
    for x, s in zip(got, (one, two)):
        close(x, mj.ewald_real_space(*s, ALPHA, cutoff=CUTOFF), 1e-14)


def test_hybrid_forces() -> None:
    r, q, h = system(6)
    lists = listed(r, h)
    w = jnp.linspace(0.2, 1.0, 6)

    def charges(r: Any) -> Any:
        return q + jnp.sin(r @ jnp.array([0.3, -0.2, 0.5])) * w

    def hybrid(r: Any, h: Any, x: Any = None) -> Any:
        x = charges(r) if x is None else x
        options = {"hybrid_forces": True, "compute_forces": True, "energy_reduction": "system"}
        e, f = mj.ewald_summation(r, x, h, ALPHA, **lists, **options)
        return e[0], f

    plain = total(lists)
    true = jax.grad(lambda r: plain(r, charges(r), h))(r)
    through, forces = jax.grad(hybrid, has_aux=True)(r, h)
    close(forces - through, -true)
    assert not np.asarray(jax.grad(lambda r: hybrid(r, h, q)[0])(r)).any()
    assert not np.asarray(jax.grad(lambda h: hybrid(r, h, q)[0])(h)).any()

    def force(r: Any) -> Any:
        through, forces = jax.grad(hybrid, has_aux=True)(r, h)
        return forces - through

    # A loss of forces, and so second derivatives, is that of the true function.
    close(jax.jacrev(force)(r), -jax.hessian(lambda r: plain(r, charges(r), h))(r), 1e-9)
    many = jnp.stack([r, r + 0.01])
    close(jax.vmap(force)(many), jnp.stack([force(x) for x in many]))


def test_lists_are_those_of_numpy() -> None:
    r, _, h = system(8)
    for form in ("coo", "csr", "matrix"):
        for half in (False, True):
            options = {"format": form, "half_fill": half, "return_distances": True, "return_vectors": True}
            expected = mn.neighbor_list(np.asarray(r), 3.0, np.asarray(h), **options)
            found = mj.neighbor_list(r, 3.0, h, **options)
            for k, (x, y) in enumerate(zip(found, expected)):
                assert np.array_equal(x, y) if k < 3 else np.allclose(x, y, rtol=1e-14, atol=1e-14)
    # Without a cell, and along some axes alone.
    assert np.array_equal(mj.neighbor_list(r, 3.0)[0], mn.neighbor_list(np.asarray(r), 3.0)[0])
    pbc = np.array([True, False, True])
    some = mn.neighbor_list(np.asarray(r), 3.0, np.asarray(h), pbc)
    found = jax.jit(lambda r: mj.neighbor_list(r, 3.0, h, pbc, capacity=500))(r)
    assert np.array_equal(found[0][:, : found[3]], some[0])
    open_axes = jax.jit(lambda r: mj.neighbor_list(r, 3.0, pbc=np.zeros(3, bool), capacity=500))(r)
    assert np.array_equal(open_axes[0][:, : open_axes[3]], mn.neighbor_list(np.asarray(r), 3.0)[0])


def test_lists_with_a_capacity() -> None:
    r, _, h = system(8)
    exact = mj.neighbor_list(r, 3.0, h, return_distances=True)
    count = exact[0].shape[1]
    search = lambda capacity: jax.jit(  # noqa: E731
        lambda r: mj.neighbor_list(r, 3.0, h, capacity=capacity, return_distances=True)
    )
    for found in (search(count + 9)(r), mj.neighbor_list(r, 3.0, h, capacity=count + 9, return_distances=True)):
        pairs, ptr, shifts, distances, needed, overflow = found
        assert (needed, overflow) == (count, False)
        assert np.array_equal(pairs[:, :count], exact[0])
        assert (np.asarray(pairs[:, count:]) == 8).all()
        assert np.array_equal(ptr, exact[1])
        assert np.array_equal(shifts[:count], exact[2])
        assert np.array_equal(distances[:count], exact[3])
        assert not np.asarray(distances[count:]).any()
    with recorded("expected room for all that there is"):
        pairs, _, _, distances, needed, overflow = search(count - 1)(r)
        assert (needed, overflow) == (count, True)
        assert np.isnan(distances).all()
        assert (np.asarray(pairs) == 8).all()
    with pytest.raises(ValueError, match=f"`capacity`: expected at least {count}"):
        mj.neighbor_list(r, 3.0, h, capacity=count - 1)


def test_a_short_list_in_a_batch_spoils_its_own_system_alone() -> None:
    (r, q, h), (_, _, wide) = system(6), system(6, 1)
    counts = [mn.neighbor_list(np.asarray(r), CUTOFF, np.asarray(x))[0].shape[1] for x in (h, 1.5 * wide)]

    @jax.vmap
    def energies(h: Any) -> Any:
        found = mj.neighbor_list(r, CUTOFF, h, capacity=counts[1])
        lists = dict(zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), found))
        return mj.ewald_real_space(r, q, h, ALPHA, cutoff=CUTOFF, **lists), found[4]

    assert counts[0] > counts[1]
    with recorded("expected room for all that there is"):
        e, overflow = jax.block_until_ready(jax.jit(energies)(jnp.stack([h, 1.5 * wide])))
    assert overflow.tolist() == [True, False]
    assert np.isnan(e[0]).all()
    close(e[1], mj.ewald_real_space(r, q, 1.5 * wide, ALPHA, cutoff=CUTOFF), 1e-14)


@pytest.mark.parametrize("shared", [False, True])
def test_batches_whose_offsets_pass_32_bits_are_loops(shared: bool) -> None:
    """A call of all of them would have offsets that wrap."""
    r, q, h = system(8)
    room = 1 << 20
    lists = [jax.ShapeDtypeStruct(shape, jnp.int32) for shape in ((2, room), (9,), (room, 3))]

    def energies(r: Any, pairs: Any, ptr: Any, shifts: Any) -> Any:
        given = {"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts}
        return mj.ewald_real_space(r, q, h, ALPHA, cutoff=2.5, **given)

    for size, is_loop in ((2047, False), (2048, True)):
        given = lists if shared else [jax.ShapeDtypeStruct((size, *x.shape), x.dtype) for x in lists]
        mapped = jax.vmap(energies, (0, None, None, None) if shared else 0)
        traced = jax.make_jaxpr(mapped)(jax.ShapeDtypeStruct((size, *r.shape), r.dtype), *given)
        assert is_loop == any(e.primitive.name == "scan" for e in traced.eqns)


def test_lists_that_are_kept() -> None:
    r, q, h = system(8)
    search = mj.NeighborList(cutoff=2.5, skin=0.5)
    first = search.allocate(r, h)
    assert search.update(first, r + 0.1, h) is first
    miller, _ = mj.generate_miller_indices(h, K_CUTOFF)

    @jax.jit
    def run(r: Any, neighbors: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            r, neighbors = state
            neighbors = search.update(neighbors, r, h)
            e = mj.ewald_summation(r, q, h, ALPHA, cutoff=2.5, miller_indices=miller, neighbors=neighbors)
            return (r * jnp.array([1.0, 1.0, 0.93]), neighbors), e

        return jax.lax.scan(step, (r, neighbors), length=6)

    state, energies = run(r, first)
    assert not state[1].did_overflow
    for n, e in enumerate(energies):
        at = r * jnp.array([1.0, 1.0, 0.93**n])
        close(e, mj.ewald_summation(at, q, h, ALPHA, cutoff=2.5, k_cutoff=K_CUTOFF, accuracy=None), 1e-12)
    # Too little room: the flag stays, what follows is NaN, and outside of jit the list grows.
    tight = mj.NeighborList(cutoff=2.5, skin=0.5, room=1.0)
    with recorded("expected room for all that there is"):
        state, energies = run(r, tight.allocate(2.0 * r, 2.0 * h))
        assert state[1].did_overflow
        assert np.isnan(energies).all()
    several = jax.tree.map(lambda x: jnp.stack([x, x]), state[1])
    kept = jax.jit(jax.vmap(lambda n: tight.update(n, jnp.nan * r, h)))(several)
    assert kept.did_overflow.all()
    grown = tight.update(tight.allocate(2.0 * r, 2.0 * h), r, h)
    assert not grown.did_overflow
    assert grown.num_pairs == mj.neighbor_list(r, 3.0, h)[0].shape[1]


def test_export() -> None:
    r, q, h = system(6)
    f = jax.jit(jax.value_and_grad(total(listed(r, h))))
    from jax import export

    targets = {line.split('"')[0] for line in f.lower(r, q, h).as_text().split("custom_call @")[1:]}
    names = {t.split("(")[0] for t in targets}
    checks = [export.DisabledSafetyCheck.custom_call(name) for name in names]
    exported = export.deserialize(export.export(f, disabled_checks=checks)(r, q, h).serialize())
    expected = f(r, q, h)
    for x, y in zip(exported.call(r, q, h), expected):
        assert np.array_equal(x, y)
    after = "" if ON_CPU else "_with_scratch"
    assert names == {f"madelung.ewald_summation_total_v1{member}{after}" for member in ("", "_vjp")}


def test_float32_with_x64_off() -> None:
    """In a process of its own, in which nothing turns x64 on; on the CPU, for the bits."""
    text = """
import jax, jax.numpy as jnp, numpy as np
import madelung.jax as mj, madelung.numpy as mn
rng = np.random.default_rng(0)
r, q, h = rng.uniform(0, 6, (8, 3)), rng.normal(size=8), np.diag([6.0, 6.3, -6.5])
r, q, h = (x.astype(np.float32) for x in (r, q, h))
options = {"compute_forces": True, "energy_reduction": "system"}
e, f = mj.ewald_summation(jnp.asarray(r), jnp.asarray(q), jnp.asarray(h), **options)
expected = mn.ewald_summation(r, q, h, **options)
assert e.dtype == f.dtype == jnp.float32
assert np.array_equal(e, expected[0]) and np.array_equal(f, expected[1])
pairs, ptr, shifts, n, over = jax.jit(lambda r: mj.neighbor_list(r, 4.0, jnp.asarray(h), capacity=999))(r)
assert pairs.dtype == ptr.dtype == n.dtype == jnp.int32 and not over
def energy(r):
    lists = dict(neighbor_list=pairs, neighbor_ptr=ptr, neighbor_shifts=shifts)
    return mj.ewald_real_space(r, jnp.asarray(q), jnp.asarray(h), 0.8, cutoff=4.0, **lists).sum()
assert jax.jit(jax.hessian(energy))(jnp.asarray(r)).dtype == jnp.float32
assert not jax.config.jax_enable_x64
"""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "UserWarning" not in done.stderr


def test_lists_own_their_arrays() -> None:
    """A step may donate its positions and its list."""
    r, _, h = system(6)
    search, kept = mj.NeighborList(CUTOFF, skin=0.5), jnp.array(r)
    neighbors = search.allocate(kept, cells := jnp.array(h)[None])
    step = jax.jit(lambda r, n: (r + 0.01, search.update(n, r, cells)), donate_argnums=(0, 1))
    moved, _ = step(jnp.array(r), neighbors)
    assert not (kept.is_deleted() or cells.is_deleted())
    close(moved, r + 0.01, 1e-15)


def test_lists_of_numpy_arrays() -> None:
    """In the precision that JAX has: float64 is float32 without x64."""
    r, _, h = map(np.asarray, system(6))
    # Under another name in JAX 0.6.
    with jax.enable_x64(False) if hasattr(jax, "enable_x64") else jax.experimental.disable_x64():
        found = mj.NeighborList(1.5).allocate(r, h)
        assert found.cell.dtype == jnp.float32
        count = mn.find_neighbors(r.astype(np.float32), 1.5, h.astype(np.float32)).num_pairs
        assert int(found.num_pairs) == int(count)


def test_integer_charges():
    """Formal charges are numbers like any others."""
    r, _, h = map(jnp.asarray, system(12))
    q = jnp.asarray(np.arange(len(r)) % 3 - 1)
    expected = mj.ewald_real_space(r, q.astype(r.dtype), h, 0.4, cutoff=4.0)
    assert (mj.ewald_real_space(r, q, h, 0.4, cutoff=4.0) == expected).all()
    pairs, ptr, shifts = mj.neighbor_list(r, 4.0, h)
    lists = {"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts}
    traced = jax.jit(lambda q: mj.ewald_real_space(r, q, h, 0.4, cutoff=4.0, **lists))
    assert (traced(q) == expected).all()
