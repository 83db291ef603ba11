"""Lists that are no longer those of the call: atoms that have left the skin, lists of kernels of one's own, and atoms
on one point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import required
from madelung.kernels import Array, Batch, HashGrid, Mat3, Out, Pairs, Real, Vec2, Vec3, dims, dot, exp, kernel, length

torch = required("torch")
jax = required("jax")
import jax.numpy as jnp  # noqa: E402

import madelung.jax as mj  # noqa: E402
import madelung.torch as mt  # noqa: E402

(Atom, System) = dims("Atom System")

pytestmark = pytest.mark.usefixtures("double_precision")

NAMESPACES = [(mn, np.asarray), (mt, torch.as_tensor), (mj, jnp.asarray)]
N, SIDE, SKIN = 300, 24.0, 0.4
CHARGES = np.where(np.arange(N) % 2, 1.0, -1.0)
CELL = SIDE * np.eye(3)


def lattice(n: int = N) -> np.ndarray:
    points = np.stack(np.meshgrid(*[np.arange(12)] * 3, indexing="ij"), -1).reshape(-1, 3)[:n]
    return 2.0 * points + np.random.default_rng(3).uniform(0.0, 0.5, (n, 3))


@kernel
def inverse(
    i: Atom,
    positions: Array[Vec3, Atom],
    cell: Array[Mat3, System],
    atoms: Batch[Atom, System],
    pairs: Pairs[Atom],
    cutoff: Real,
    energy: Out[Real, Atom],
):
    b = atoms.of(i)
    e = 0.0
    for j, shift in pairs.row(i):
        r = length(positions[j] - positions[i] + shift @ cell[b])
        if r < cutoff:
            e += 1.0 / r
    energy[i] = e


@kernel
def distances(
    i: Atom,
    positions: Array[Vec3, Atom],
    cell: Array[Mat3, System],
    atoms: Batch[Atom, System],
    pairs: Pairs[Atom],
    energy: Out[Real, Atom],
):
    e = 0.0
    for j, shift in pairs.row(i):
        e += length(positions[j] - positions[i] + shift @ cell[atoms.of(i)])
    energy[i] = e


@pytest.mark.parametrize(("namespace", "array"), NAMESPACES)
def test_atoms_that_have_left_the_skin(namespace: Any, array: Any) -> None:
    r, q, h = lattice(), array(CHARGES), array(CELL)
    near, far = r.copy(), r.copy()
    near[7, 0] += 0.49 * SKIN
    far[7, 1] += 0.51 * SKIN
    search = namespace.NeighborList(cutoff=4.0, skin=SKIN)
    neighbors = search.allocate(array(r), h)

    def energy(positions: np.ndarray, known: Any = neighbors, **others: Any) -> Any:
        return namespace.ewald_real_space(array(positions), q, h, 0.8, neighbors=known, cutoff=4.0, **others)

    expected = namespace.ewald_real_space(array(near), q, h, 0.8, cutoff=4.0)
    np.testing.assert_allclose(energy(near), expected, rtol=1e-12, atol=1e-12)
    refusal = r"`neighbors`: expected a list that `update` gave .* skin is 0\.4, got one from which an atom has moved"
    for others in ({}, {"compute_forces": True}):
        with pytest.raises(ValueError, match=refusal):
            energy(far, **others)
    with pytest.raises(ValueError, match=refusal):
        namespace.ewald_summation(array(far), q, h, 0.8, cutoff=4.0, k_cutoff=3.0, neighbors=neighbors)
    with pytest.raises(ValueError, match=refusal):
        inverse(positions=array(far), cell=h, pairs=neighbors, cutoff=4.0)
    updated = search.update(neighbors, array(far), h)
    np.testing.assert_allclose(
        energy(far, updated), namespace.ewald_real_space(array(far), q, h, 0.8, cutoff=4.0), rtol=1e-12, atol=1e-12
    )
    # Lists that follow no atoms, and positions that are refused by their own name.
    energy(far, namespace.find_neighbors(array(r), 4.0 + 2.0 * SKIN, h))
    far[3, 2] = np.nan
    with pytest.raises(ValueError, match="`positions`"):
        energy(far)


def test_derivatives_by_the_atoms_look_too() -> None:
    r = lattice()
    far = r + np.array([SKIN, 0.0, 0.0])
    known = mt.NeighborList(cutoff=4.0, skin=SKIN).allocate(torch.as_tensor(r), torch.as_tensor(CELL))
    moved = torch.as_tensor(far).requires_grad_()
    with pytest.raises(ValueError, match="`neighbors`: expected a list that `update` gave"):
        mt.ewald_real_space(moved, torch.as_tensor(CHARGES), torch.as_tensor(CELL), 0.8, neighbors=known, cutoff=4.0)
    of_jax = mj.NeighborList(cutoff=4.0, skin=SKIN).allocate(jnp.asarray(r), jnp.asarray(CELL))

    def energy(r: Any) -> Any:
        return mj.ewald_real_space(r, jnp.asarray(CHARGES), jnp.asarray(CELL), 0.8, neighbors=of_jax, cutoff=4.0).sum()

    with pytest.raises(ValueError, match="`neighbors`: expected a list that `update` gave"):
        jax.grad(energy)(jnp.asarray(far))


@pytest.mark.parametrize(("namespace", "array"), NAMESPACES)
def test_lists_of_kernels(namespace: Any, array: Any) -> None:
    """A kernel's `cutoff` and `cell` are compared with those of its list."""
    r, h = array(lattice(60)), array(CELL)
    neighbors = namespace.find_neighbors(r, 4.0, h)
    found = inverse(positions=r, cell=h, pairs=neighbors, cutoff=4.0)
    # A second call, which knows the cell; rounding of float32 is none of another cell.
    np.testing.assert_array_equal(inverse(positions=r, cell=h, pairs=neighbors, cutoff=4.0), found)
    inverse(positions=r, cell=h * (1.0 + 1e-7), pairs=neighbors, cutoff=4.0)
    with pytest.raises(ValueError, match=r"`pairs`: expected a list for a cutoff of 4.5 or more, got one for 4"):
        inverse(positions=r, cell=h, pairs=neighbors, cutoff=4.5)
    for cell in (1.02 * h, (1.02 * h)[None]):
        with pytest.raises(ValueError, match="`pairs`: expected a list that was made in this cell, got one of another"):
            inverse(positions=r, cell=cell, pairs=neighbors, cutoff=4.0)


def test_a_cell_that_is_written_to() -> None:
    """Knowledge of a cell ends with a change in place."""
    r, h = torch.as_tensor(lattice(60)), torch.as_tensor(CELL).clone()
    neighbors = mt.find_neighbors(r, 4.0, h)
    for _ in range(2):
        inverse(positions=r, cell=h, pairs=neighbors, cutoff=4.0)
    h *= 1.02
    with pytest.raises(ValueError, match="`pairs`: expected a list that was made in this cell"):
        inverse(positions=r, cell=h, pairs=neighbors, cutoff=4.0)


@kernel
def both(
    i: Atom,
    positions: Array[Vec3, Atom],
    near: Pairs[Atom],
    far: Pairs[Atom],
    cutoff: Real,
    number: Out[Real, Atom],
):
    n = 0.0
    for j, _ in near.row(i):
        n += length(positions[j] - positions[i])
    for j, _ in far.row(i):
        if length(positions[j] - positions[i]) < cutoff:
            n += 1.0
    number[i] = n


def test_of_several_lists_each_has_its_own_cutoff() -> None:
    r = lattice(60)
    both(positions=r, near=mn.find_neighbors(r, 2.0), far=mn.find_neighbors(r, 5.0), cutoff=5.0)


def test_lists_of_another_cell_in_graphs() -> None:
    """A kernel of one's own sees the mark of the list, as the library's functions do."""
    r = lattice()
    for scale in (1.0, 1.01):
        known, cell = torch.as_tensor(CELL), torch.as_tensor(CELL * scale)
        near = mt.find_neighbors(torch.as_tensor(r), 3.0, known)
        call = torch.compile(lambda r, h, n: inverse(r, h, pairs=n, cutoff=3.0), fullgraph=True, backend="aot_eager")
        if scale == 1.0:
            expected = inverse(r, CELL, pairs=mn.find_neighbors(r, 3.0, CELL), cutoff=3.0)
            np.testing.assert_allclose(call(torch.as_tensor(r), cell, near), expected, rtol=1e-14)
        else:
            with pytest.raises((ValueError, RuntimeError), match="of another cell"):
                call(torch.as_tensor(r), cell, near)
        listed = mj.find_neighbors(jnp.asarray(r), 3.0, jnp.asarray(CELL))
        found = jax.jit(lambda r, h, n: inverse(r, h, pairs=n, cutoff=3.0))(jnp.asarray(r), CELL * scale, listed)
        if scale == 1.0:
            np.testing.assert_allclose(found, expected, rtol=1e-14)
        else:
            assert np.isnan(np.asarray(found)).all()


def test_atoms_on_one_point() -> None:
    """The atoms are named, and the kernel never by a hash: in the call, in a backward pass, and under `jit`."""
    r = lattice()
    r[7] = r[2] + CELL[0]
    text = r"`positions`: expected no two atoms on one point, got atoms 2 and 7 \(image.*not finite"
    given = {"pairs": mn.find_neighbors(r, 3.0, CELL), "cutoff": 3.0}
    with pytest.raises(ValueError, match=text):
        inverse(r, CELL, **given)
    x, h = torch.as_tensor(r), torch.as_tensor(CELL)
    given["pairs"] = mt.find_neighbors(x, 3.0, h)
    with pytest.raises((ValueError, RuntimeError), match=text):
        inverse(x, h, **given)
    # A distance has no derivative there, and a value.
    found = distances(x.requires_grad_(), h, pairs=given["pairs"])
    with pytest.raises((ValueError, RuntimeError), match=text):
        found.sum().backward()
    given["pairs"] = mj.find_neighbors(jnp.asarray(r), 3.0, jnp.asarray(CELL))
    with pytest.raises(jax.errors.JaxRuntimeError, match=text):
        jax.jit(lambda r: inverse(r, jnp.asarray(CELL), **given))(jnp.asarray(r)).block_until_ready()


@kernel
def steep(i: Atom, positions: Array[Vec2, Atom], pairs: Pairs[Atom], energy: Out[Real, Atom]):
    e = 0.0
    for j, _ in pairs.row(i):
        e += exp(1e5 * length(positions[j] - positions[i]))
    energy[i] = e


@kernel
def steep_grid(
    i: Atom, positions: Array[Vec3, Atom], radius: Real, near: HashGrid[Atom, Atom], energy: Out[Real, Atom]
):
    e = 0.0
    for j, _ in near.query(positions[i], radius):
        d = positions[j] - positions[i]
        e += exp(1e5 * dot(d, d))
    energy[i] = e


def test_what_is_too_large_accuses_no_atoms() -> None:
    """Points of two coordinates, and lists in which each atom has itself."""
    r = np.random.default_rng(0).random((6, 2))
    pairs, ptr, shifts = mn.neighbor_list(np.pad(r, ((0, 0), (0, 1))), 2.0)
    with pytest.raises(ValueError, match="`steep`: expected arguments with a finite result"):
        steep(r, pairs=(pairs, ptr, shifts))
    x = np.random.default_rng(0).random((6, 3))
    with pytest.raises(ValueError, match="`steep_grid`: expected arguments with a finite result"):
        steep_grid(x, 2.0, near=HashGrid(x))


@kernel
def boxed(i: Atom, positions: Array[Vec3, Atom], cell: Real, pairs: Pairs[Atom], energy: Out[Real, Atom]):
    e = 0.0
    for j, _ in pairs.row(i):
        e += cell * length(positions[j] - positions[i])
    energy[i] = e


def test_a_cell_that_is_a_number() -> None:
    r = lattice()
    expected = boxed(r, SIDE, pairs=mn.find_neighbors(r, 3.0, CELL))
    listed = mj.find_neighbors(jnp.asarray(r), 3.0, jnp.asarray(CELL))
    found = jax.jit(lambda r, n: boxed(r, SIDE, pairs=n))(jnp.asarray(r), listed)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
