"""Neighbours as a value: the bits of every namespace, transformations, and lists that do not fit a call."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import required

torch, jax = required("torch"), required("jax")
import jax.numpy as jnp  # noqa: E402

import madelung.jax as mj  # noqa: E402
import madelung.torch as mt  # noqa: E402

CUTOFF, ALPHA = 3.4, 0.7


def liquid(edge: int, dtype: Any = np.float64, seed: int = 0) -> tuple[Any, Any, Any]:
    """Ions near the sites of a skewed lattice, with density 1: 165 neighbours each."""
    rng = np.random.default_rng(seed)
    sites = np.stack(np.meshgrid(*[np.arange(edge)] * 3, indexing="ij"), -1).reshape(-1, 3)
    cell = edge * np.array([[1.0, 0.0, 0.0], [0.2, 1.0, 0.0], [0.0, -0.1, 1.0]])
    positions = (sites + 0.3 * rng.uniform(size=sites.shape)) / edge @ cell
    return positions.astype(dtype), np.where(sites.sum(1) % 2, 1.0, -1.0).astype(dtype), cell.astype(dtype)


def sums(module: Any, r: Any, q: Any, h: Any, **lists: Any) -> list[Any]:
    outputs = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}
    return [np.asarray(x) for x in module.ewald_real_space(r, q, h, ALPHA, **lists, **outputs)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_namespace_gives_the_same_bits_in_clusters(dtype: Any) -> None:
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        given = liquid(9, dtype)
        tensors, arrays = [torch.from_numpy(x) for x in given], [jnp.asarray(x) for x in given]
        found = mn.find_neighbors(given[0], CUTOFF, given[2])
        assert found.form == "clusters"
        expected = sums(mn, *given, neighbors=found)
        of_torch = mt.find_neighbors(tensors[0], CUTOFF, tensors[2])
        of_jax = mj.find_neighbors(arrays[0], CUTOFF, arrays[2])
        for other in (of_torch, of_jax):
            for name in ("index", "columns", "images"):
                assert np.array_equal(getattr(other, name), getattr(found, name))
        others = [
            sums(mt, *tensors, neighbors=of_torch),
            sums(mj, *arrays, neighbors=of_jax),
            [np.asarray(x) for x in jax.jit(lambda *x: sums_traced(*x))(*arrays, of_jax)],
            # A call that finds its own.
            sums(mn, *given, cutoff=CUTOFF),
            sums(mt, *tensors, cutoff=CUTOFF),
        ]
        for other in others:
            for x, y in zip(other, expected):
                assert np.array_equal(x, y)
        # In rows within what another order of summation loses: by the sums of absolute terms, of order one here.
        bound = 1e-13 if dtype == np.float64 else 1e-5
        rows = sums(mn, *given, neighbors=mn.find_neighbors(given[0], CUTOFF, given[2], form="rows"))
        plain = sums(mn, *given, cutoff=CUTOFF, **dict(zip(LISTS, mn.neighbor_list(given[0], CUTOFF, given[2]))))
        for x, y, z in zip(expected, rows, plain):
            assert np.array_equal(y, z)
            assert np.abs(x - y).max() <= bound * max(1.0, np.abs(y).max())


LISTS = ("neighbor_list", "neighbor_ptr", "neighbor_shifts")


def sums_traced(r: Any, q: Any, h: Any, neighbors: Any) -> Any:
    outputs = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}
    return mj.ewald_real_space(r, q, h, ALPHA, neighbors=neighbors, **outputs)


def test_a_system_alone_and_in_a_batch() -> None:
    systems = [liquid(9, seed=1), liquid(3, seed=2), liquid(8, seed=3)]
    r, q = (np.concatenate([s[k] for s in systems]) for k in (0, 1))
    h, idx = np.stack([s[2] for s in systems]), np.repeat(np.arange(3), [len(s[0]) for s in systems])
    together = mn.find_neighbors(r, CUTOFF, h, batch_idx=idx)
    assert together.form == "clusters"
    of_batch = mn.ewald_real_space(r, q, h, ALPHA, neighbors=together, batch_idx=idx, compute_forces=True)
    forms = []
    for b, (r1, q1, h1) in enumerate(systems):
        alone = mn.find_neighbors(r1, CUTOFF, h1)
        forms.append(alone.form)
        for x, y in zip(mn.ewald_real_space(r1, q1, h1, ALPHA, neighbors=alone, compute_forces=True), of_batch):
            assert np.array_equal(x, y[idx == b])
    assert forms == ["clusters", "rows", "clusters"]


@pytest.mark.parametrize("form", ["clusters", "rows"])
def test_plain_arrays_of_neighbors(form: str) -> None:
    r, _, h = liquid(5)
    expected = mn.neighbor_list(r, CUTOFF, h)
    found = mn.find_neighbors(r, CUTOFF, h, form=form)
    assert found.form == form
    assert found.num_pairs == expected[0].shape[1]
    assert not found.did_overflow
    of_torch = mt.find_neighbors(torch.from_numpy(r), CUTOFF, torch.from_numpy(h), form=form)
    for x, y, z in zip(found.coo(), expected, of_torch.coo()):
        assert np.array_equal(x, y)
        assert isinstance(z, torch.Tensor)
        assert np.array_equal(z, y)
    assert all(np.array_equal(x, y) for x, y in zip(found.csr(), mn.neighbor_list(r, CUTOFF, h, format="csr")))
    matrix = mn.neighbor_list(r, CUTOFF, h, format="matrix", fill_value=-1)
    assert all(np.array_equal(x, y) for x, y in zip(found.matrix(-1), matrix))
    assert set(found.lists) == set(LISTS)
    for other in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert all(np.array_equal(x, y) for x, y in zip(other.coo(), expected))


@pytest.mark.parametrize("module", [mn, mt, mj])
def test_lists_that_do_not_fit_are_refused(module: Any) -> None:
    array = {mn: np.asarray, mt: torch.from_numpy, mj: jnp.asarray}[module]
    dtype = np.float32 if module is mj else np.float64
    r, q, h = (array(x) for x in liquid(8, dtype))
    for form in ("clusters", "rows"):
        found = module.find_neighbors(r, CUTOFF, h, form=form)

        def real_space(r: Any = r, q: Any = q, h: Any = h, **given: Any) -> Any:
            return module.ewald_real_space(r, q, h, ALPHA, **given)

        def refused(expected: str, kind: type[Exception] = ValueError, **given: Any) -> None:
            with pytest.raises(kind, match=f"`neighbors`: expected {expected}"):
                real_space(**given)

        refused("a list that was made in this cell", h=1.01 * h, neighbors=found)
        refused("a list of 511 atoms, got 512", r=r[1:], q=q[1:], neighbors=found)
        refused("a list for a cutoff of 3.5 or more, got one for 3.4", cutoff=3.5, neighbors=found)
        slab = module.find_neighbors(r, CUTOFF, h, [True, True, False], form=form)
        refused("a list for the periodic axes of the cell, got one for", neighbors=slab)
        refused("a list that was made with a cell", neighbors=module.find_neighbors(r, CUTOFF, form=form))
        refused("one list", neighbors=found, neighbor_list=found.coo()[0])
        refused("what `find_neighbors` or `NeighborList` gives", TypeError, neighbors=found.coo())
        stale = replace(found, index=array(np.concatenate([[-2], np.asarray(found.index)[1:]]).astype(np.int32)))
        if module is mj:
            assert np.isnan(np.asarray(jax.jit(lambda x: real_space(neighbors=x))(stale))).all()
        else:
            refused("a list that was made in this cell", neighbors=stale)
    with pytest.raises(ValueError, match="`form`: expected"):
        module.find_neighbors(r, CUTOFF, h, form="columns")
    with pytest.raises(ValueError, match="`cutoff`: expected a number above zero"):
        module.find_neighbors(r, -1.0, h)


def test_transformations_of_torch_take_neighbors() -> None:
    r, q, h = (torch.from_numpy(x) for x in liquid(8))
    for form in ("clusters", "rows"):
        found = mt.find_neighbors(r, CUTOFF, h, form=form)

        def energy(r: Any, found: Any) -> Any:
            return mt.ewald_real_space(r, q, h, ALPHA, neighbors=found).sum()

        leaf = r.clone().requires_grad_()
        (expected,) = torch.autograd.grad(energy(leaf, found), leaf)
        assert torch.equal(torch.func.grad(energy)(r, found), expected)
        compiled = torch.compile(energy, fullgraph=True, backend="aot_eager")
        (by_compiled,) = torch.autograd.grad(compiled(leaf, found), leaf)
        assert torch.equal(by_compiled, expected)
        mapped = torch.func.vmap(energy, in_dims=(0, None))(torch.stack([r, r + 0.01]), found)
        assert torch.equal(mapped, torch.stack([energy(r, found), energy(r + 0.01, found)]))

        class Model(torch.nn.Module):
            def forward(self, r: Any, q: Any, h: Any, found: Any) -> Any:
                return mt.ewald_real_space(r, q, h, ALPHA, neighbors=found).sum()

        exported = torch.export.export(Model(), (r, q, h, found)).module()
        assert torch.equal(exported(r, q, h, found), energy(r, found))
        # Second derivatives, and those by the cell, which has none in clusters: by another list.
        lattice = h.clone().requires_grad_()
        plain = dict(zip(LISTS, found.coo()))
        results = []
        for lists in ({"neighbors": found}, {**plain, "cutoff": CUTOFF}):
            e = mt.ewald_real_space(leaf, q, lattice, ALPHA, **lists)
            forces, by_cell = torch.autograd.grad(e.sum(), (leaf, lattice), create_graph=True)
            loss = (forces**2).sum() + (by_cell**2).sum()
            results.append([by_cell.detach(), *torch.autograd.grad(loss, (leaf, lattice))])
        for x, y in zip(*results):
            assert (x - y).abs().max() <= 1e-12 * y.abs().max()


def test_transformations_of_jax_take_neighbors() -> None:
    r, q, h = (jnp.asarray(x) for x in liquid(8, np.float32))
    for form in ("clusters", "rows"):
        found = mj.find_neighbors(r, CUTOFF, h, form=form)

        def energy(r: Any, found: Any) -> Any:
            return mj.ewald_real_space(r, q, h, ALPHA, neighbors=found).sum()

        assert found.form == form
        assert len(jax.tree.leaves(found)) == 4
        by_r = jax.grad(energy)(r, found)
        assert np.array_equal(jax.jit(jax.grad(energy))(r, found), by_r)
        _, energies = jax.lax.scan(lambda found, r: (found, energy(r, found)), found, jnp.stack([r, r + 0.01]))
        mapped = jax.vmap(energy, in_axes=(0, None))(jnp.stack([r, r + 0.01]), found)
        both = jax.tree.map(lambda x: jnp.stack([x, x]), found)
        each = jax.jit(jax.vmap(energy))(jnp.stack([r, r + 0.01]), both)
        assert np.array_equal(energies, mapped)
        assert np.array_equal(energies, each)
        assert energies[0] == energy(r, found)
        stale = jax.jit(lambda h, found: mj.ewald_real_space(r, q, h, ALPHA, neighbors=found))(1.01 * h, found)
        assert np.isnan(stale).all()


@pytest.mark.parametrize("form", ["clusters", "rows"])
def test_a_list_serves_its_own_cell_alone_among_several(form: str) -> None:
    arrays = liquid(8, np.float32)
    r, q, h = map(jnp.asarray, arrays)
    found = mj.find_neighbors(r, CUTOFF, h, form=form)

    def energies(h: Any) -> Any:
        return mj.ewald_real_space(r, q, h, ALPHA, neighbors=found)

    same, other = jax.vmap(energies)(jnp.stack([h, 1.01 * h]))
    assert np.array_equal(same, energies(h))
    assert np.isnan(other).all()
    r, q, h = map(torch.from_numpy, arrays)
    of_tensors = mt.find_neighbors(r, CUTOFF, h, form=form)
    with pytest.raises(ValueError, match="`neighbors`: expected a list that was made in this cell"):
        torch.func.vmap(lambda h: mt.ewald_real_space(r, q, h, ALPHA, neighbors=of_tensors))(torch.stack([h, 1.01 * h]))


@pytest.mark.parametrize("module", [mn, mt])
def test_lists_with_a_skin(module: Any) -> None:
    array = {mn: np.array, mt: lambda x: torch.as_tensor(x).clone()}[module]
    r, q, h = (array(x) for x in liquid(8))
    search = module.NeighborList(CUTOFF, skin=0.4)
    found = search.allocate(r, h)
    assert found.cutoff == CUTOFF
    moved = array(r)
    moved[0, 0] += 0.199
    moved[1, 1] -= 0.199
    assert search.update(found, moved, h) is found
    expected = sums(module, moved, q, h, cutoff=CUTOFF)
    for x, y in zip(sums(module, moved, q, h, neighbors=found), expected):
        assert np.abs(x - y).max() <= 1e-12 * np.abs(y).max()
    # The reference is a copy: atoms that are moved in place are noticed.
    r[5, 2] += 0.21
    again = search.update(found, r, h)
    assert again is not found
    for others in ((r, 1.001 * h), (r, h, [True, True, False]), (r[:-1], h)):
        assert search.update(again, *others) is not again
    with pytest.raises(ValueError, match="`skin`: expected a number from 0 up"):
        module.NeighborList(CUTOFF, skin=-0.1)


def test_clusters_of_jax_are_updated_under_jit() -> None:
    r, q, h = (jnp.asarray(x) for x in liquid(8, np.float32))
    search = mj.NeighborList(CUTOFF, skin=0.2)
    first = search.allocate(r, h)
    assert first.form == "clusters"
    step = jax.jit(lambda found, r: search.update(found, r, h))
    moved = r + 0.15 * jnp.asarray(np.random.default_rng(1).normal(size=r.shape), r.dtype)
    found = step(first, moved)
    assert not found.did_overflow
    fresh = mj.find_neighbors(moved, CUTOFF + 0.2, h)
    assert found.num_pairs == fresh.num_pairs
    mine, theirs = (mj.ewald_real_space(moved, q, h, ALPHA, cutoff=CUTOFF, neighbors=x) for x in (found, fresh))
    assert np.array_equal(mine, theirs)
    # Too little room: a flag, and NaN in whatever is computed.
    tight = mj.NeighborList(CUTOFF, skin=0.2, room=1.0)
    over = jax.jit(lambda found, r: tight.update(found, r, h))(tight.allocate(1.3 * r, 1.3 * h), r)
    assert over.did_overflow
    assert np.isnan(mj.ewald_real_space(r, q, h, ALPHA, cutoff=CUTOFF, neighbors=over)).all()
    assert not tight.update(over, r, h).did_overflow


@pytest.mark.parametrize("form", ["rows", "clusters"])
@pytest.mark.parametrize("module", [mn, mt, mj])
def test_lists_know_their_systems(module: Any, form: str) -> None:
    """A list whose atoms belong to other systems than before is out of date."""
    array = {mn: np.array, mt: torch.as_tensor, mj: jnp.asarray}[module]
    r, _, h = liquid(4, np.float32)
    cells = array(np.stack([h, h]))
    one, other = (array(np.repeat(np.array([0, 1], np.int32), (n, len(r) - n))) for n in (20, 30))
    r = array(r)
    search = module.NeighborList(CUTOFF, skin=0.4, form=form)
    found = search.allocate(r, cells, batch_idx=one)
    assert search.update(found, r, cells, batch_idx=one) is found
    expected = {
        of: int(module.find_neighbors(r, CUTOFF + 0.4, cells, batch_idx=x, form=form).num_pairs)
        for of, x in (("one", one), ("other", other))
    }
    assert expected["one"] != expected["other"]
    assert int(found.num_pairs) == expected["one"]
    assert int(search.update(found, r, cells, batch_idx=other).num_pairs) == expected["other"]
    if module is mj:
        roomy = mj.NeighborList(CUTOFF, skin=0.4, form=form, room=3.0)
        step = jax.jit(lambda found, of: roomy.update(found, r, cells, batch_idx=of))
        for of, count in ((other, expected["other"]), (one, expected["one"])):
            found = step(roomy.allocate(r, cells, batch_idx=one), of)
            assert not found.did_overflow and int(found.num_pairs) == count
        with pytest.raises(ValueError, match="`batch_idx`: expected the systems of the atoms"):
            search.update(search.allocate(r, cells[0]), r, cells, batch_idx=one)


@pytest.mark.parametrize("module", [mn, mt, mj])
def test_stray_indices_name_no_systems(module: Any) -> None:
    array = {mn: np.asarray, mt: torch.from_numpy, mj: jnp.asarray}[module]
    r, q, h = (array(np.array(x, np.float32)) for x in ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [1, -1, 0], 4 * np.eye(3)))
    of = array(np.array([0, 0, 5], np.int32))
    for call in (
        lambda: module.find_neighbors(r, 1.5, batch_idx=of),
        lambda: module.neighbor_list(r, 1.5, h, batch_idx=of),
        lambda: module.ewald_summation(r, q, h, batch_idx=of),
        lambda: module.ewald_reciprocal_space(r, q, h, 0.5, 4.0, batch_idx=of),
    ):
        with pytest.raises(ValueError, match="`batch_idx`: expected systems .* below 3, the number of atoms, .* got 5"):
            call()
    # With a cell for each system their number is known, and a system may be empty.
    six = array(np.stack([4 * np.eye(3, dtype=np.float32)] * 6))
    assert int(module.find_neighbors(r, 1.5, six, batch_idx=of).num_pairs) == 2


@pytest.mark.parametrize("module", [mn, mt, mj])
def test_a_wave_vector_of_zero_is_named(module: Any) -> None:
    """By the name of the op's argument in JAX, where the op finds it behind the call."""
    array = {mn: np.asarray, mt: torch.from_numpy, mj: jnp.asarray}[module]
    r, q, h = (array(np.array(x, np.float32)) for x in ([[0, 0, 0], [1, 0, 0]], [1, -1], 4 * np.eye(3)))
    zero = array(np.array([[1, 0, 0], [0, 0, 0]], np.int32))
    name, kind = ("miller", jax.errors.JaxRuntimeError) if module is mj else ("miller_indices", ValueError)
    with pytest.raises(kind, match=rf"`{name}`: expected wave vectors other than \(0, 0, 0\), got it in row 1"):
        np.asarray(module.ewald_reciprocal_space(r, q, h, 0.5, miller_indices=zero))


@pytest.mark.parametrize("form", ["rows", "clusters"])
@pytest.mark.parametrize("module", [mn, mt, mj])
def test_lists_know_their_cutoff_and_skin(module: Any, form: str) -> None:
    array = {mn: np.array, mt: torch.as_tensor, mj: jnp.asarray}[module]
    r, _, h = map(array, liquid(4))
    found = module.NeighborList(CUTOFF, skin=0.4, form=form).allocate(r, h)
    for cutoff, skin in ((CUTOFF, 0.7), (CUTOFF + 0.3, 0.4), (CUTOFF, 0.1)):
        other = module.NeighborList(cutoff, skin, form).update(found, r, h)
        assert (other.cutoff, other.skin) == (cutoff, skin)
        fresh = module.find_neighbors(r, cutoff + skin, h, form=form).csr()
        assert all(np.array_equal(x, y) for x, y in zip(other.csr(), fresh))
    if module is mj:
        with pytest.raises(
            ValueError, match="`neighbors`: expected a list for a cutoff of 3.4 and a skin of 0.7 under"
        ):
            jax.jit(lambda r: mj.NeighborList(CUTOFF, 0.7).update(found, r, h))(r)
