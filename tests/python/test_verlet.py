"""When lists with a skin are made again, against displacements in NumPy, in every namespace."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import madelung.jax as mj
import madelung.numpy as mn
import madelung.torch as mt
from conftest import ROOT

NAMESPACES = {"numpy": (mn, np.array), "torch": (mt, torch.tensor), "jax": (mj, jnp.asarray)}
spaces = pytest.mark.parametrize("space", NAMESPACES)


@pytest.fixture(autouse=True)
def doubles() -> Iterator[None]:
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield


def call(space: str, *inputs: Any, **options: Any) -> np.ndarray:
    module, array = NAMESPACES[space]
    given = {name: array(x) if isinstance(x, np.ndarray) else x for name, x in options.items()}
    found = module.needs_rebuild(*(array(x) if isinstance(x, np.ndarray) else x for x in inputs), **given)
    assert str(found.dtype).removeprefix("torch.") == "bool"
    return np.asarray(found)


@spaces
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sizes", [(30_000,), (1, 0, 9, 20_000, 7, 17, 0), (3,) * 900])
def test_each_system_by_its_own_atoms(space: str, dtype: Any, sizes: tuple[int, ...]) -> None:
    """Systems that end within a task, or take several, and such without atoms."""
    g = np.random.default_rng(len(sizes))
    of = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    before = g.uniform(-20.0, 20.0, (len(of), 3)).astype(dtype)
    batch = {} if len(sizes) == 1 else {"batch_idx": of}
    cell = None if len(sizes) == 1 else np.tile(np.eye(3, dtype=dtype), (len(sizes), 1, 1))
    skin = 0.8
    for far in (0, 1, len(of) // 2, len(of) - 1):
        # Nobody moves by more than 0.39, but some.
        steps = g.normal(size=before.shape)
        steps *= (0.39 * g.random((len(of), 1))) / np.linalg.norm(steps, axis=1, keepdims=True)
        now = (before + steps).astype(dtype)
        now[far] = before[far] + np.array([0.3, -0.3, 0.0], dtype)
        moved = np.linalg.norm(now.astype(np.float64) - before, axis=1) > 0.5 * skin
        expected = np.array([moved[of == b].any() for b in range(len(sizes))])
        assert expected.sum() == 1
        np.testing.assert_array_equal(call(space, now, before, skin, cell, cell, **batch), expected)
        now[far] = before[far]
        assert not call(space, now, before, skin, cell, cell, **batch).any()


@spaces
def test_half_of_the_skin_is_not_beyond_it(space: str) -> None:
    before = np.zeros((1, 3))
    for skin, x, expected in (
        (1.0, 0.5, False),
        (1.0, np.nextafter(0.5, 1.0), True),
        (0.0, 0.0, False),
        (0.0, 1e-9, True),
    ):
        for axis in range(3):
            now = before.copy()
            now[0, axis] = -x
            assert call(space, now, before, skin).tolist() == [expected]


@spaces
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_have_moved(space: str, wrong: float) -> None:
    before = np.random.default_rng(0).random((37, 3))
    of = np.repeat(np.arange(2, dtype=np.int32), (30, 7))
    cells = np.tile(np.eye(3), (2, 1, 1))
    for atom in (0, 8, 29, 30, 36):
        now = before.copy()
        now[atom, atom % 3] = wrong
        expected = [atom < 30, atom >= 30]
        assert call(space, now, before, 1.0, cells, cells, batch_idx=of).tolist() == expected
        assert call(space, before, now, 1.0, cells, cells, batch_idx=of).tolist() == expected
        assert call(space, now, now, 1.0, cells, cells, batch_idx=of).tolist() == expected
    lost = cells.copy()
    lost[1, 2, 2] = wrong
    assert call(space, before, before, 1.0, lost, cells, batch_idx=of).tolist() == [False, True]


@spaces
def test_another_cell(space: str) -> None:
    r = np.random.default_rng(0).random((12, 3))
    of = np.repeat(np.arange(3, dtype=np.int32), 4)
    cells = np.tile(4.0 * np.eye(3), (3, 1, 1))
    other = cells.copy()
    other[1, 0, 2] = 1e-15
    assert call(space, r, r, 1.0, cells, cells, batch_idx=of).tolist() == [False, False, False]
    assert call(space, r, r, 1.0, other, cells, batch_idx=of).tolist() == [False, True, False]
    assert call(space, r, r, 1.0, cells[0], cells[0], batch_idx=of).tolist() == [False, False, False]
    assert call(space, r, r, 1.0, cells[0], 1.01 * cells[0], batch_idx=of).tolist() == [True, True, True]
    assert call(space, r, r, 1.0, cells[0], -cells[0]).tolist() == [True]


@spaces
def test_no_atoms(space: str) -> None:
    none = np.zeros((0, 3))
    assert call(space, none, none, 1.0).tolist() == [False]
    cells = np.tile(np.eye(3), (2, 1, 1))
    of = np.zeros(0, np.int32)
    assert call(space, none, none, 1.0, cells, 2 * cells, batch_idx=of).tolist() == [True, True]


@spaces
def test_wrong_arguments(space: str) -> None:
    r, h = np.zeros((4, 3)), np.eye(3)
    of = np.array([0, 0, 1, 1], np.int32)
    for arguments, options, message in (
        ((r, r[:3], 1.0), {}, r"`reference_positions`: expected "),
        ((r, r.astype(np.float32), 1.0), {}, r"`reference_positions`: expected .*float64.*float32"),
        ((r, r, -1.0), {}, r"`skin`: expected a number from 0 up, got -1"),
        ((r, r, 1.0, h), {}, r"`reference_cell`: expected a cell where there is one now, else None, got "),
        ((r, r, 1.0, None, h), {}, r"`reference_cell`: expected a cell where there is one now"),
        ((r, r, 1.0, h, h[None]), {}, r"`reference_cell`: expected shape \(3, 3\), got \(1, 3, 3\)"),
        ((r, r, 1.0, h, h), {"batch_idx": of[:3]}, r"`batch_idx`: expected "),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            call(space, *arguments, **options)
    with pytest.raises(
        (ValueError, TypeError, jax.errors.JaxRuntimeError), match=r"`batch_idx(: batch_idx)?`: expected a sorted"
    ):
        call(space, r, r, 1.0, np.tile(h, (2, 1, 1)), np.tile(h, (2, 1, 1)), batch_idx=of[::-1].copy())


def test_in_graphs_of_pytorch() -> None:
    before, cells = torch.rand(8, 3, dtype=torch.float64), torch.eye(3, dtype=torch.float64).expand(2, 3, 3)
    of = torch.tensor([0] * 5 + [1] * 3)
    step = torch.compile(
        lambda r, h: mt.needs_rebuild(r, before, 0.4, h, cells, batch_idx=of), fullgraph=True, backend="aot_eager"
    )
    moved = before.clone()
    moved[6, 1] += 0.201
    assert step(before, cells).tolist() == [False, False]
    assert step(moved, cells).tolist() == [False, True]
    assert step(moved.requires_grad_(), 2 * cells).tolist() == [True, True]
    mapped = torch.func.vmap(lambda r: mt.needs_rebuild(r, before, 0.4, cells, cells, batch_idx=of))
    assert mapped(torch.stack([before, moved.detach()])).tolist() == [[False, False], [False, True]]


def test_in_transforms_of_jax() -> None:
    before, cells = jnp.asarray(np.random.default_rng(0).random((8, 3))), jnp.tile(jnp.eye(3), (2, 1, 1))
    of = jnp.asarray([0] * 5 + [1] * 3)

    def flags(r: Any) -> Any:
        return mj.needs_rebuild(r, before, 0.4, cells, cells, batch_idx=of)

    moved = before.at[6, 1].add(0.201)
    assert jax.jit(flags)(moved).tolist() == [False, True]
    assert jax.vmap(flags)(jnp.stack([before, moved])).tolist() == [[False, False], [False, True]]


@pytest.mark.parametrize("space", ["numpy", "torch"])
def test_positions_that_are_lost_are_no_reason_to_keep_a_list(space: str) -> None:
    module, array = NAMESPACES[space]
    r, h = np.random.default_rng(0).random((50, 3)) * 5.0, 5.0 * np.eye(3)
    search = module.NeighborList(1.5, skin=0.5)
    found = search.allocate(array(r), array(h))
    r[49, 2] = np.nan
    with pytest.raises(ValueError, match="`positions`: expected finite coordinates, got .* for atom 49"):
        search.update(found, array(r), array(h))


def test_lists_that_are_updated_under_jit() -> None:
    r, h = jnp.asarray(np.random.default_rng(0).random((50, 3)) * 5.0), 5.0 * jnp.eye(3)
    search = mj.NeighborList(1.5, skin=0.5, form="rows", room=2.0)
    found, step = search.allocate(r, h), jax.jit(lambda found, r: search.update(found, r, h))
    near, far = r.at[49, 2].add(0.24), r.at[49, 2].add(0.26)
    for moved, reference in ((near, r), (far, far)):
        assert jnp.array_equal(step(found, moved).positions, reference)
        assert (search.update(found, moved, h) is found) == (moved is near)
    # Each call for itself, in one call for all.
    mapped = jax.vmap(lambda r: search.update(found, r, h))(jnp.stack([near, far]))
    assert jnp.array_equal(mapped.positions, jnp.stack([r, far]))
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="`positions`: expected finite"):
        jax.block_until_ready(step(found, r.at[49, 2].set(jnp.nan)))
    with pytest.raises(ValueError, match="`neighbors`: expected a list that `allocate` or `update` gave, got one of"):
        search.update(mj.find_neighbors(r, 2.0, h), r, h)
    with pytest.raises(TypeError, match="`positions`: expected float64, as the list was allocated for, got float32"):
        jax.jit(lambda found, r: search.update(found, r, h.astype(jnp.float32)))(found, r.astype(jnp.float32))


@spaces
def test_another_dtype_is_another_list(space: str) -> None:
    module, array = NAMESPACES[space]
    r, h = np.random.default_rng(0).random((50, 3)) * 5.0, 5.0 * np.eye(3)
    search = module.NeighborList(1.5, skin=0.5)
    found = search.allocate(array(r), array(h))
    narrow = search.update(found, array(r.astype(np.float32)), array(h.astype(np.float32)))
    assert narrow is not found
    assert narrow.positions.dtype == array(r.astype(np.float32)).dtype


@pytest.mark.parametrize("form", ["rows", "clusters"])
@spaces
def test_a_list_does_not_depend_on_former_ones(space: str, form: str) -> None:
    """Rows and clusters have the order that the positions alone give them."""
    module, array = NAMESPACES[space]
    g = np.random.default_rng(0)
    r, h = g.random((600, 3)) * 12.0, array(12.0 * np.eye(3))
    search = module.NeighborList(3.0, skin=0.5, form=form, **({"room": 1.5} if space == "jax" else {}))
    found = search.allocate(array(r), h)
    for _ in range(3):
        known, r = found, r + g.normal(scale=0.2, size=r.shape)
        found, fresh = search.update(found, array(r), h), search.allocate(array(r), h)
        assert found is not known
        # Those of JAX have room to spare.
        pairs = int(found.num_pairs) if form == "rows" else None
        for name, used in (("index", None), ("columns", pairs), ("images", pairs)):
            x, y = (np.asarray(getattr(x, name)) for x in (found, fresh))
            most = min(len(x), len(y)) if used is None else used
            assert not (x[most:].any() or y[most:].any())
            np.testing.assert_array_equal(x[:most], y[:most])
        assert search.update(found, array(r + 0.1), h) is found


def test_a_compiled_step_breaks_where_the_list_is_kept() -> None:
    """The rest of the step is compiled, and the list found anew when it must be."""
    g = torch.Generator().manual_seed(0)
    r, q = (
        12.0 * torch.rand(600, 3, generator=g, dtype=torch.float64),
        torch.randn(600, generator=g, dtype=torch.float64),
    )
    h, search = 12.0 * torch.eye(3, dtype=torch.float64), mt.NeighborList(3.0, skin=0.4)

    def step(r: Any, found: Any) -> Any:
        found = search.update(found, r, h)
        return mt.ewald_real_space(r, q, h, 0.8, cutoff=3.0, neighbors=found, compute_forces=True), found

    compiled, found = torch.compile(step, backend="aot_eager"), search.allocate(r, h)
    for moved, is_kept in ((0.1, True), (0.05, True), (0.1, False), (0.0, True)):
        r = r.clone()
        r[7, 1] += moved
        known = found
        results, found = compiled(r, known)
        assert (found.index is known.index) == is_kept
        for x, y in zip(results, step(r, known)[0]):
            assert torch.equal(x, y)
    with pytest.raises(Exception, match="make lists.* outside of the graph"):
        torch.compile(lambda r: search.update(found, r, h).index, fullgraph=True, backend="aot_eager")(r)


MEMORY = """
import resource, sys
import numpy as np
import madelung.{space} as m
array = {array}
n, rng = 40_000, np.random.default_rng(0)
side = (n / 0.1) ** (1 / 3)
r, h = rng.random((n, 3)) * side, array(side * np.eye(3))
search = m.NeighborList(5.0, skin=1.0, form={form!r})
found, steps = search.allocate(array(r), h), [array(r + 0.3 * rng.normal(size=r.shape)) for _ in range(24)]
page, fresh = resource.getpagesize(), []
for moved in steps:
    before, known = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, found
    found = search.update(found, moved, h)
    assert found is not known
    fresh.append(page * (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before))
    del known
size = sum(x.nbytes for x in (found.index, found.columns, found.images))
# Two lists in turn: both are there once the first rebuilds are done.
print(size, sorted(fresh[12:])[6], 24 * n)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts pages as Linux does")
@pytest.mark.parametrize("form", ["rows", "clusters"])
@pytest.mark.parametrize("space", ["numpy", "torch"])
def test_a_rebuild_takes_no_new_memory(space: str, form: str) -> None:
    """Lists and what a search needs come from memory of former ones: what the process touches for the first time is at
    most the copy of the positions, which the framework allocates."""
    array = {"numpy": "np.asarray", "torch": "__import__('torch').from_numpy"}[space]
    program = MEMORY.format(space=space, form=form, array=array)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    size, fresh, row = map(int, done.stdout.split())
    assert fresh < 1.25 * row < size / 2, (size, fresh, row)
