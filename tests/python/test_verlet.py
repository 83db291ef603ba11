"""When lists with a skin are made again, against displacements in NumPy, in every namespace."""

from __future__ import annotations

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
def test_periodic_axes_that_change(space: str) -> None:
    """Of each system by itself; rows for all systems or for each, flags by value, and none for those of a cell."""
    r, of = np.random.default_rng(0).random((9, 3)), np.array([0] * 4 + [2] * 5, np.int32)
    cells = np.tile(np.eye(3), (3, 1, 1))
    slab, every = np.array([True, True, False]), np.full(3, True)
    mixed = np.stack([slab, every, slab])
    for now, before, expected in (
        (None, None, [False] * 3),
        (every, None, [False] * 3),
        (None, slab, [True] * 3),
        (slab, slab, [False] * 3),
        (mixed, slab, [False, True, False]),
        (mixed, None, [True, False, True]),
        (mixed, mixed.copy(), [False] * 3),
        (mixed[[1, 0, 2]], mixed, [True, True, False]),
    ):
        given = {"pbc": now, "reference_pbc": before, "batch_idx": of}
        assert call(space, r, r, 1.0, cells, cells, **given).tolist() == expected
        plain = {key: x.tolist() if key != "batch_idx" and x is not None else x for key, x in given.items()}
        assert call(space, r, r, 1.0, cells, cells, **plain).tolist() == expected
        # Beside an atom that moves, and another cell.
        moved, other = r.copy(), cells.copy()
        moved[0, 1] += 0.6
        other[1] *= 1.1
        found = call(space, moved, r, 1.0, other, cells, **given)
        assert found.tolist() == [True, True, expected[2]]
    for open_axes in (False, [False, False, False]):
        assert call(space, r, r, 1.0, pbc=open_axes).tolist() == [False]
        assert call(space, r, r, 1.0, np.eye(3), np.eye(3), pbc=open_axes).tolist() == [True]


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
        ((r, r, 1.0, h, h), {"pbc": np.full((2, 3), True)}, r"`pbc`: expected one row for all systems, or one for "),
        (
            (r, r, 1.0, h, h),
            {"reference_pbc": np.full(2, True)},
            r"`reference_pbc`: expected .*shape \(3,\) or \(B, 3\)",
        ),
        ((r, r, 1.0, h, h), {"pbc": np.full(3, 0.5)}, r"`pbc`: expected "),
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
    axes = torch.tensor([[True] * 3, [True, False, True]])
    flags = torch.compile(
        lambda r, axes: mt.needs_rebuild(r, before, 0.4, cells, cells, pbc=axes, batch_idx=of),
        fullgraph=True,
        backend="aot_eager",
    )
    assert flags(before, axes).tolist() == [False, True]
    assert flags(before, axes.flip(0)).tolist() == [True, False]
    mapped = torch.func.vmap(lambda r: mt.needs_rebuild(r, before, 0.4, cells, cells, pbc=axes[0], batch_idx=of))
    assert mapped(torch.stack([before, moved.detach()])).tolist() == [[False, False], [False, True]]
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
    axes = jnp.asarray([[True] * 3, [True, False, True]])
    changed = jax.jit(lambda axes: mj.needs_rebuild(before, before, 0.4, cells, cells, pbc=axes, batch_idx=of))
    assert changed(axes).tolist() == [False, True] and changed(axes[0]).tolist() == [False, False]
    stacked = jax.vmap(lambda r: mj.needs_rebuild(r, before, 0.4, cells, cells, pbc=axes, batch_idx=of))
    assert stacked(jnp.stack([before, moved])).tolist() == [[False, True], [False, True]]


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
        # Those of JAX have room to spare, filled up with the number of atoms in columns.
        pairs = int(found.num_pairs) if form == "rows" else None
        for name, used in (("index", None), ("columns", pairs), ("images", pairs)):
            x, y = (np.asarray(getattr(x, name)) for x in (found, fresh))
            most = min(len(x), len(y)) if used is None else used
            behind = len(r) if (form, name) == ("rows", "columns") else 0
            assert (x[most:] == behind).all() and (y[most:] == behind).all()
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


SIZES = (40, 0, 700, 9, 300)


def several(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Atoms of several systems: one is worth clusters, one has no atoms."""
    g = np.random.default_rng(seed)
    cells = np.stack([(max(n, 1) ** (1 / 3)) * np.eye(3) + 0.1 * g.normal(size=(3, 3)) for n in SIZES])
    of = np.repeat(np.arange(len(SIZES), dtype=np.int32), SIZES)
    return np.einsum("nk,nkl->nl", g.random((len(of), 3)), cells[of]), cells, of


@pytest.mark.parametrize("form", ["rows", "clusters", None])
@spaces
def test_the_systems_of_a_batch_are_searched_for_one_by_one(space: str, form: str | None) -> None:
    """Those that have moved too far, or have another cell, against lists of each alone; all others keep theirs, and are
    measured from where they were."""
    module, array = NAMESPACES[space]
    r, cells, of = several(0)
    search = module.NeighborList(2.6, skin=0.4, form=form)
    kept = np.zeros(len(SIZES), int)
    known = [(r, cells)]
    found = search.allocate(array(r), array(cells), batch_idx=array(of))
    g = np.random.default_rng(1)
    for raised in ([2], [0, 4], [], [3], [0, 2, 3, 4], [1]):
        moved, wide = known[-1][0].copy(), known[-1][1].copy()
        # Half of them by their atoms, half by their cells.
        for b in raised:
            if b in (1, 4):
                wide[b] *= 1.01
            else:
                moved[np.flatnonzero(of == b)[g.integers(SIZES[b])]] += 0.21
        last, found = found, search.update(found, array(moved), array(wide), batch_idx=array(of))
        assert (found is last) == (not raised)
        known.append((moved, wide))
        kept[raised] = len(known) - 1
        (i, j), _, shifts = (np.asarray(x) for x in found.coo())
        count = int(found.num_pairs)
        rows, first = np.column_stack([i, j, shifts])[:count], 0
        for b, n in enumerate(kept):
            at, lattice = known[n]
            pairs, _, images = mn.neighbor_list(at[of == b], 3.0, lattice[b])
            expected = np.column_stack([*(pairs + first), images])
            np.testing.assert_array_equal(rows[(rows[:, 0] >= first) & (rows[:, 0] < first + SIZES[b])], expected)
            np.testing.assert_array_equal(np.asarray(found.positions)[of == b], at[of == b])
            first += SIZES[b]
        np.testing.assert_array_equal(np.asarray(found.cell), wide)


@spaces
def test_axes_and_systems_of_a_batch_are_noticed(space: str) -> None:
    """Of other periodic axes, or other systems, all of the list is made anew."""
    module, array = NAMESPACES[space]
    r, cells, of = several(0)
    search = module.NeighborList(2.6, skin=0.4)
    axes = np.ones((len(SIZES), 3), bool)
    found = search.allocate(array(r), array(cells), axes, array(of))
    assert search.update(found, array(r), array(cells), axes, array(of)) is found
    slab = axes.copy()
    slab[3, 1] = False
    other = of.copy()
    other[39] = 2
    for changed_axes, changed_of in ((slab, of), (axes, other)):
        again = search.update(found, array(r), array(cells), changed_axes, array(changed_of))
        fresh = mn.find_neighbors(r, 3.0, cells, changed_axes, changed_of)
        assert int(again.num_pairs) == int(fresh.num_pairs) != int(found.num_pairs)


@spaces
def test_a_system_that_is_wrong_is_named_by_its_atoms(space: str) -> None:
    module, array = NAMESPACES[space]
    r, cells, of = several(0)
    search = module.NeighborList(2.6, skin=0.4)
    found = search.allocate(array(r), array(cells), batch_idx=array(of))
    lost = r.copy()
    lost[742, 1] = np.nan
    with pytest.raises(ValueError, match=r"`positions`: expected finite coordinates, got .* for atom 742"):
        search.update(found, array(lost), array(cells), batch_idx=array(of))


def test_a_batch_is_renewed_under_jit() -> None:
    r, cells, of = several(0)
    search = mj.NeighborList(2.6, skin=0.4, form="rows", room=1.5)
    h, systems = jnp.asarray(cells), jnp.asarray(of)
    first = search.allocate(jnp.asarray(r), h, batch_idx=systems)
    step = jax.jit(lambda found, r, h, of: search.update(found, r, h, batch_idx=of))
    moved = r.copy()
    moved[700] += 0.3
    wide = cells.copy()
    wide[3] *= 1.02
    for at, lattice, other in ((moved, cells, of), (r, wide, of), (moved, wide, of), (r, cells, np.roll(of, 0))):
        found = step(first, jnp.asarray(at), jnp.asarray(lattice), jnp.asarray(other))
        eager = search.update(first, jnp.asarray(at), jnp.asarray(lattice), batch_idx=jnp.asarray(other))
        for name in ("index", "columns", "images", "positions", "cell"):
            np.testing.assert_array_equal(getattr(found, name), getattr(eager, name))
    other = of.copy()
    other[39] = 2
    found = step(first, jnp.asarray(r), h, jnp.asarray(other))
    assert int(found.num_pairs) == int(mn.find_neighbors(r, 3.0, cells, batch_idx=other).num_pairs)
    step = jax.jit(lambda found, axes: search.update(found, jnp.asarray(r), h, axes, systems))
    with pytest.raises(ValueError, match="`pbc`: expected flags with values under `jit`"):
        step(first, jnp.ones((5, 3), bool))
    with pytest.raises(ValueError, match="`neighbors`: expected a list for the periodic axes"):
        jax.jit(lambda found: search.update(found, jnp.asarray(r), h, (True, True, False), systems))(first)


FIXED = [{"form": "rows", "room": 1.3}, {"form": "clusters", "room": 1.5}, {"capacity": 200_000}]


class Step(torch.nn.Module):
    """A step of a simulation of several systems: list, energies, forces and a loss of both."""

    def __init__(self, search: mt.NeighborList, of: torch.Tensor | None) -> None:
        super().__init__()
        self.search, self.of = search, of

    def forward(self, r: Any, q: Any, h: Any, found: Any) -> Any:
        found = self.search.update(found, r, h, batch_idx=self.of)
        given = {"cutoff": 2.6, "neighbors": found, "batch_idx": self.of}
        energies, forces = mt.ewald_real_space(r, q, h, 0.9, compute_forces=True, **given)
        return energies.sum() + (forces**2).sum(), found


@pytest.mark.parametrize("options", FIXED)
@pytest.mark.parametrize("batched", [True, False])
def test_lists_of_a_fixed_size_stand_in_graphs_of_pytorch(options: dict[str, Any], batched: bool) -> None:
    """List, energies, forces and a backward pass in one graph: the bits of eager steps."""
    r, cells, of = several(0)
    if not batched:
        r, cells, of = r[of == 2], cells[2:3], of[of == 2] - 2
    positions, h = torch.from_numpy(r), torch.from_numpy(cells)
    q = torch.from_numpy(np.random.default_rng(2).normal(size=len(r)))
    search = mt.NeighborList(2.6, skin=0.4, **options)
    systems = torch.from_numpy(of) if batched else None
    found = search.allocate(positions, h, batch_idx=systems)
    step = Step(search, systems)
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    known, g = found, np.random.default_rng(3)
    rebuilt = 0
    for scale in (0.0, 0.02, 0.06, 0.2, 0.02):
        moved = known.positions + torch.from_numpy(scale * g.normal(size=r.shape))
        x, y = (moved.clone().requires_grad_() for _ in range(2))
        loss, found = compiled(x, q, h, found)
        expected, known = step(y, q, h, known)
        assert not bool(found.did_overflow)
        for name in ("index", "columns", "images", "positions", "cell"):
            assert torch.equal(getattr(found, name), getattr(known, name)), name
        rebuilt += bool((known.positions != moved).any())
        torch.testing.assert_close(loss, expected, rtol=0, atol=0)
        gradients = (torch.autograd.grad(z, at)[0] for z, at in ((loss, x), (expected, y)))
        torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)
    assert 0 < rebuilt < 5
    exported = torch.export.export(step, (positions, q, h, found)).module()
    loss, again = exported(moved, q, h, found)
    assert torch.equal(loss, step(moved, q, h, known)[0])
    assert torch.equal(again.columns, known.columns)


def test_lists_that_do_not_fit_a_graph_are_never_short() -> None:
    r, cells, of = several(0)
    positions, h, systems = torch.from_numpy(r), torch.from_numpy(cells), torch.from_numpy(of)
    q = torch.ones(len(r), dtype=torch.float64)
    for options in ({"form": "rows", "room": 1.01}, {"form": "clusters", "room": 1.01}):
        search = mt.NeighborList(2.6, skin=0.4, **options)
        first = search.allocate(positions, h, batch_idx=systems)
        renew = torch.compile(
            lambda found, r, s=search: s.update(found, r, h, batch_idx=systems), fullgraph=True, backend="aot_eager"
        )
        # Closer atoms share entries of a list in clusters: at 0.8 there are 17 % more pairs, in 7 % fewer entries.
        close = 0.6 * positions
        over = renew(first, close)
        assert bool(over.did_overflow)
        assert int(over.num_pairs) == int(mn.find_neighbors(close.numpy(), 3.0, cells, batch_idx=of).num_pairs)
        # Whatever is given it fails, in graphs and outside; and it stays as it is, as positions may follow it.
        with pytest.raises((ValueError, RuntimeError), match="neighbor"):
            mt.ewald_real_space(close, q, h, 0.9, cutoff=2.6, neighbors=over, batch_idx=systems)
        with pytest.raises((ValueError, RuntimeError), match="neighbor"):
            torch.compile(Step(search, systems), fullgraph=True, backend="aot_eager")(close, q, h, over)
        assert bool(renew(over, positions + torch.nan).did_overflow)
        again = search.update(over, close, h, batch_idx=systems)
        assert not bool(again.did_overflow)
    with pytest.raises(ValueError, match=r"`capacity`: expected at least \d+, the number of pairs .*, got 10"):
        mt.NeighborList(2.6, skin=0.4, capacity=10).allocate(positions, h, batch_idx=systems)


def test_a_list_with_a_capacity_is_made_in_a_graph() -> None:
    r, cells, of = several(0)
    positions, h, systems = torch.from_numpy(r), torch.from_numpy(cells), torch.from_numpy(of)
    for capacity, fits in ((200_000, True), (500, False)):
        search = mt.NeighborList(2.6, skin=0.4, capacity=capacity)
        first = torch.compile(
            lambda r, s=search: s.allocate(r, h, batch_idx=systems), fullgraph=True, backend="aot_eager"
        )
        found = first(positions)
        fresh = mn.find_neighbors(r, 3.0, cells, batch_idx=of, form="rows")
        assert np.array_equal(found.index, fresh.index)
        assert bool(found.did_overflow) != fits
        if fits:
            eager = search.allocate(positions, h, batch_idx=systems)
            assert torch.equal(found.columns, eager.columns) and torch.equal(found.images, eager.images)
    search = mt.NeighborList(2.6, skin=0.4, capacity=200_000)
    for call, said in (
        (lambda r: search.update(search.allocate(r, h, batch_idx=systems), r, h), "`batch_idx`"),
        (lambda r: search.allocate(r, h[0], batch_idx=systems), "`cell`"),
        (lambda r: search.allocate(r, h, torch.ones(5, 3), systems), "`pbc`"),
    ):
        with pytest.raises(Exception, match=said):
            torch.compile(call, fullgraph=True, backend="aot_eager")(positions)


@pytest.mark.parametrize("format", ["coo", "csr", "matrix"])
def test_plain_lists_with_a_capacity_stand_in_graphs_of_pytorch(format: str) -> None:
    r, cells, of = several(0)
    positions, h, systems = torch.from_numpy(r), torch.from_numpy(cells), torch.from_numpy(of)
    q = torch.from_numpy(np.random.default_rng(2).normal(size=len(r)))
    options = {"batch_idx": systems, "return_distances": True, "return_vectors": True, "format": format}
    exact = mt.neighbor_list(positions, 2.6, h, **options)
    width = {"max_neighbors": exact[0].shape[1] + 2} if format == "matrix" else {}
    pairs = int(mn.find_neighbors(r, 2.6, cells, batch_idx=of).num_pairs)

    def step(r: Any, capacity: int) -> Any:
        found = mt.neighbor_list(r, 2.6, h, capacity=capacity, **options, **width)
        given = dict(zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), found)) if format == "coo" else {}
        energies = mt.ewald_real_space(r, q, h, 0.9, cutoff=2.6, batch_idx=systems, **given) if given else r.sum()
        return found, energies.sum() + (found[-2] ** 2).sum() + found[-1].sin().sum()

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    x, y = (positions.clone().requires_grad_() for _ in range(2))
    found, loss = compiled(x, pairs + 50)
    if format == "matrix":
        for a, b in zip(found, exact):
            behind = len(r) if a is found[0] else 0
            assert torch.equal(a[:, : b.shape[1]] if a.dim() > 1 else a, b)
            assert a.dim() == 1 or bool((a[:, b.shape[1] :] == behind).all())
        return
    for a, b in zip(found, exact):
        rows = {"coo": 1, "csr": 0}[format] if a is found[0] else 0
        n = b.shape[rows]
        head, rest = a.narrow(rows, 0, n), a.narrow(rows, n, a.shape[rows] - n)
        assert torch.equal(head, b)
        index = (format == "coo" and a is found[0]) or (format == "csr" and a is found[1])
        assert bool((rest == (len(r) if index else 0)).all())
    lists = dict(zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), exact)) if format == "coo" else {}
    energies = mt.ewald_real_space(y, q, h, 0.9, cutoff=2.6, batch_idx=systems, **lists) if lists else y.sum()
    distances, vectors = mt.neighbor_list(y, 2.6, h, **options)[-2:]
    expected = energies.sum() + (distances**2).sum() + vectors.sin().sum()
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    for a, b in zip(torch.autograd.grad(loss, x), torch.autograd.grad(expected, y)):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    # One that does not fit has true offsets and fails in what it is given to.
    with pytest.raises((ValueError, RuntimeError), match="neighbor_ptr`: expected .* got 0 to"):
        compiled(positions, pairs - 1)
