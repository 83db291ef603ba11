"""Bonded terms in every namespace: against OpenMM's Reference platform, and against differences.

OpenMM's values stand in tests/data/bonded_references.json, made by make_bonded_references.py.
"""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import ROOT, required
from differences import check_jax, check_torch, fourth_order

torch, jax = required("torch"), required("jax")
import jax.numpy as jnp  # noqa: E402

import madelung.jax as mj  # noqa: E402
import madelung.torch as mt  # noqa: E402

STORED = json.loads((ROOT / "tests" / "data" / "bonded_references.json").read_text())
NAMES = list(STORED["terms"])
POSITIONS, CELL = np.array(STORED["positions"]), np.array(STORED["cell"])
ARRAYS: dict[Any, Any] = {mn: np.asarray, mt: lambda x: torch.from_numpy(np.array(x)), mj: jnp.asarray}
ALL = {"compute_forces": True, "compute_virial": True}

pytestmark = pytest.mark.usefixtures("double_precision")


def terms(name: str) -> tuple[np.ndarray, list[np.ndarray]]:
    """The atoms of terms, and their parameters."""
    of = STORED["terms"][name]
    return np.array(of["atoms"], np.int32), list(np.array(of["parameters"]).T.copy())


def called(module: Any, name: str, r: Any = POSITIONS, h: Any = CELL, dtype: Any = np.float64, **given: Any) -> Any:
    atoms, parameters = terms(name)
    array = ARRAYS[module]
    reals = [array(np.asarray(x, dtype)) for x in (r, *parameters)]
    return getattr(module, name)(reals[0], array(atoms), *reals[1:], array(np.asarray(h, dtype)), **given)


@pytest.mark.parametrize("module", ARRAYS)
@pytest.mark.parametrize("name", NAMES)
def test_against_openmm(module: Any, name: str) -> None:
    expected = STORED["terms"][name]
    energy, forces, virial = (np.asarray(x) for x in called(module, name, energy_reduction="system", **ALL))
    # Forces are stored to nine decimals.
    largest = np.abs(expected["forces"]).max()
    assert abs(energy[0] - expected["energy"]) < 1e-12 * sum(np.abs(called(mn, name)))
    assert np.abs(forces - expected["forces"]).max() < 1e-12 * largest + 1e-9
    if module is not mn:
        for a, b in zip((energy, forces, virial), called(mn, name, energy_reduction="system", **ALL)):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", NAMES)
def test_the_virial_is_the_derivative_by_a_strain(name: str) -> None:
    _, _, virial = called(mn, name, **ALL)
    strain = np.random.default_rng(1).normal(size=(3, 3))

    def energy(h: float) -> float:
        by = np.eye(3) + h * strain
        return called(mn, name, POSITIONS @ by, CELL @ by).sum()

    h = 1e-4
    by_strain = fourth_order(energy, h)
    assert (virial * strain).sum() == pytest.approx(-by_strain, rel=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_of_both_orders(name: str) -> None:
    """In units in which bonds are about one long, and constants about one."""
    atoms, parameters = terms(name)
    r, h, scaled = 8.0 * POSITIONS, 8.0 * CELL, [*parameters]
    scaled[0] = scaled[0] / np.abs(parameters[0]).max()
    if name in ("harmonic_bonds", "lennard_jones_pairs"):
        scaled[1] = 8.0 * scaled[1]
    if name == "morse_bonds":
        scaled[1], scaled[2] = scaled[1] / 8.0, 8.0 * scaled[2]
    if name == "ryckaert_bellemans":
        scaled = [x / 10.0 for x in parameters]
    given = [torch.tensor(x, requires_grad=True) for x in (r, h, *scaled)]
    check_torch(lambda r, h, *p: getattr(mt, name)(r, torch.from_numpy(atoms), *p, h), given, forward=True)
    arrays = [jnp.asarray(x) for x in (r, h, *scaled)]
    check_jax(lambda r, h, *p: getattr(mj, name)(r, jnp.asarray(atoms), *p, h), arrays)


@pytest.mark.parametrize("name", NAMES)
def test_batches_dtypes_and_orders(name: str) -> None:
    atoms, parameters = terms(name)
    alone = called(mn, name, **ALL)
    n = len(POSITIONS)
    turned = np.random.default_rng(2).permutation(len(atoms))
    both = np.concatenate([atoms, atoms[turned] + n]).astype(np.int32)
    idx = np.repeat(np.arange(2, dtype=np.int32), n)
    given = [np.concatenate([x, x[turned]]) for x in parameters]
    cells = np.stack([CELL, CELL])
    found = getattr(mn, name)(np.tile(POSITIONS, (2, 1)), both, *given, cells, batch_idx=idx, **ALL)
    for k in range(2):
        for a, b in zip((found[0][idx == k], found[1][idx == k], found[2][k]), alone):
            # In another order sums are rounded otherwise.
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-14 * np.abs(b).max() * (1 + 50 * k))
    # Atoms in the open, where chains are whole: each goes on from the one before.
    whole = POSITIONS.copy()
    for i in range(1, n):
        d = (whole[i] - whole[i - 1]) @ np.linalg.inv(CELL)
        whole[i] -= np.round(d) @ CELL
    opened = getattr(mn, name)(whole, atoms, *parameters, **ALL)
    for a, b in zip(opened, alone):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(b).max())
    flags = getattr(mn, name)(whole, atoms, *parameters, CELL, pbc=[True, False, True], **ALL)
    for a, b in zip(flags, alone):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(b).max())
    single = called(mn, name, dtype=np.float32, **ALL)
    for a, b in zip(single, alone):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-4 * np.abs(b).max())
    empty = getattr(mn, name)(POSITIONS, atoms[:0], *[x[:0] for x in parameters], CELL, **ALL)
    assert [x.any() for x in empty] == [False] * 3 and empty[1].shape == (n, 3)


def test_transforms_and_graphs() -> None:
    for name in NAMES:
        atoms, parameters = terms(name)
        expected = called(mn, name, energy_reduction="system")
        r, h, *given = (torch.from_numpy(x) for x in (POSITIONS, CELL, *parameters))
        of = torch.compile(getattr(mt, name), fullgraph=True, backend="aot_eager")
        found = of(r, torch.from_numpy(atoms), *given, h, energy_reduction="system")
        np.testing.assert_array_equal(found, expected)
        r, h, *given = (jnp.asarray(x) for x in (POSITIONS, CELL, *parameters))
        of = functools.partial(getattr(mj, name), energy_reduction="system")
        f = jax.jit(lambda r, a, h, *p, of=of: of(r, a, *p, h))
        np.testing.assert_array_equal(f(r, jnp.asarray(atoms), h, *given), expected)
        several = jax.vmap(f, in_axes=(0, None, None, *[None] * len(given)))
        np.testing.assert_allclose(several(jnp.stack([r, r]), jnp.asarray(atoms), h, *given)[1], expected, rtol=1e-13)


@pytest.mark.parametrize("module", ARRAYS)
def test_what_is_wrong_is_named(module: Any) -> None:
    array = ARRAYS[module]
    r = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [2, 1, 0], [5, 5, 5], [5, 5, 6]])
    idx = np.array([0, 0, 0, 0, 1, 1], np.int32)
    errors = (ValueError, RuntimeError)

    def bonds(atoms: Any, count: int | None = None, **given: Any) -> Any:
        atoms = np.array(atoms, np.int32)
        k = array(np.ones(len(atoms) if count is None else count))
        return module.harmonic_bonds(array(r), array(atoms), k, k, **given)

    for atoms, text in [
        ([[0, 1], [2, 6]], r"`atoms`: expected indices from 0 to below 6, got 6 \(term 1: \[2, 6\]\)"),
        ([[0, 1], [-1, 2]], r"`atoms`: expected indices from 0 to below 6, got -1 \(term 1"),
        ([[3, 3]], r"`atoms`: expected atoms that differ in each term, got atom 3 twice \(term 0"),
    ]:
        with pytest.raises(errors, match=text):
            bonds(atoms)
    with pytest.raises(
        errors, match=r"`atoms`: expected atoms of one system in each term, got systems 0 and 1 \(term 1"
    ):
        bonds([[0, 1], [3, 4]], batch_idx=array(idx), cell=array(np.stack([9 * np.eye(3)] * 2)))
    with pytest.raises(errors, match=r"`stiffness`: expected shape \(2,\)"):
        bonds([[0, 1], [1, 2]], 3)
    with pytest.raises(errors, match="`atoms`"):
        bonds([[0, 1, 2]])
    with pytest.raises((TypeError, *errors), match="`atoms`: expected integers"):
        module.harmonic_bonds(array(r), array(np.zeros((1, 2))), array(np.ones(1)), array(np.ones(1)))
    with pytest.raises(errors, match="`pbc`: expected None where there is no cell, got True"):
        bonds([[0, 1]], pbc=True)
    one = array(np.ones(1))
    line, corner = array(np.array([[0, 1, 2]], np.int32)), array(np.array([[0, 1, 3]], np.int32))
    with pytest.raises(errors, match=r"`positions`: expected angles between 0° and 180°.*term 0: \[0, 1, 2\]"):
        module.harmonic_angles(array(r), line, one, one, compute_forces=True)
    assert np.isfinite(np.asarray(module.cosine_angles(array(r), line, one, one, compute_forces=True)[1])).all()
    assert np.isfinite(np.asarray(module.harmonic_angles(array(r), corner, one, one, compute_forces=True)[1])).all()
    atoms = array(np.array([[0, 1, 2, 3]], np.int32))
    with pytest.raises(errors, match="dihedral angles of which no three atoms lie in a line"):
        module.periodic_dihedrals(array(r), atoms, one, one, one, compute_forces=True)
    r[1] = r[0]
    with pytest.raises(
        errors, match=r"`positions`: expected bonded atoms that are apart, got those of term 0: \[0, 1\]"
    ):
        bonds([[0, 1]], compute_forces=True)
