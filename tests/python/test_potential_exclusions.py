"""Pairs that potentials leave out or scale, and mixing rules, in every namespace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import required
from differences import check_torch
from test_potentials import CELL, CUTOFF, FORMULAS, TABLES, TAPER, ions

torch, jax = required("torch"), required("jax")
import jax.numpy as jnp  # noqa: E402

import madelung.jax as mj  # noqa: E402
import madelung.torch as mt  # noqa: E402

NAMES = list(FORMULAS)
PAIRS = np.array([[0, 1], [5, 2], [3, 9], [8, 8], [20, 26]], np.int32)
IMAGES = np.array([[0, 0, 0], [0, 0, 1], [0, -1, 0], [1, 0, 0], [0, 0, 0]], np.int32)
FACTORS = np.array([0.0, 0.5, -0.25, 1.5, 0.0])
ARRAYS: dict[Any, Any] = {mn: np.asarray, mt: lambda x: torch.from_numpy(np.array(x)), mj: jnp.asarray}


def pair_energy(name: str, r: Any, types: Any, tables: Any) -> Any:
    """The tapered energies of the pairs, in their images."""
    i, j = PAIRS.T
    distance = np.linalg.norm(r[j] - r[i] + IMAGES @ CELL, axis=1)
    x = np.clip((distance - TAPER) / (CUTOFF - TAPER), 0.0, 1.0)
    tapered = (distance < CUTOFF) * (1 - 10 * x**3 + 15 * x**4 - 6 * x**5)
    return tapered * FORMULAS[name](distance, *[t[types[i], types[j]] for t in tables])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", [None, "csr"])
def test_the_rest_without_pairs(name: str, form: str | None) -> None:
    """A sum is the whole one less (1 − f) times the energies of pairs: over a list in clusters, and in rows."""
    r, types = ions()
    given: dict[str, Any] = {"onset": TAPER, "compute_forces": True, "compute_virial": True}
    if form is not None:
        pairs, ptr, shifts = mn.neighbor_list(r, CUTOFF, CELL)
        given |= {"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts}
    of = getattr(mn, name)
    whole, *_ = of(r, types, *TABLES[name], CUTOFF, CELL, **given)
    energies, forces, virial = of(r, types, *TABLES[name], CUTOFF, CELL, exclusions=(PAIRS, FACTORS, IMAGES), **given)
    expected = whole.copy()
    for atom in range(2):
        np.subtract.at(expected, PAIRS[:, atom], 0.5 * (1 - FACTORS) * pair_energy(name, r, types, TABLES[name]))
    assert np.abs(energies - expected).max() < 1e-13 * np.abs(whole).max() * 27
    # The forces are those of the energies, by differences of fourth order.
    step = np.random.default_rng(2).normal(size=r.shape)

    def along(h: float) -> float:
        moved = of(r + h * step, types, *TABLES[name], CUTOFF, CELL, onset=TAPER, exclusions=(PAIRS, FACTORS, IMAGES))
        return moved.sum()

    by_step = (8 * (along(1e-4) - along(-1e-4)) - (along(2e-4) - along(-2e-4))) / 12e-4
    assert (forces * step).sum() == pytest.approx(-by_step, rel=1e-6, abs=1e-7)
    strain = 1e-4 * np.random.default_rng(3).normal(size=(3, 3))

    def strained(k: int) -> float:
        by = np.eye(3) + k * strain
        moved = of(r @ by, types, *TABLES[name], CUTOFF, CELL @ by, onset=TAPER, exclusions=(PAIRS, FACTORS, IMAGES))
        return moved.sum()

    by_strain = (8 * (strained(1) - strained(-1)) - (strained(2) - strained(-2))) / 12
    assert (virial * strain).sum() == pytest.approx(-by_strain, rel=1e-6, abs=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_every_namespace_gives_the_same_bits(name: str) -> None:
    r, types = ions()
    found = []
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        for module, array in ARRAYS.items():
            left_out = array(PAIRS), array(FACTORS), array(IMAGES)
            tables = [array(x) for x in TABLES[name]]
            for exclusions in (left_out, (left_out[0], None, left_out[2]), (left_out[0], 0.5, left_out[2])):
                of = getattr(module, name)
                found.append(
                    of(
                        array(r),
                        array(types),
                        *tables,
                        CUTOFF,
                        array(CELL),
                        onset=TAPER,
                        exclusions=exclusions,
                        compute_forces=True,
                        compute_virial=True,
                    )
                )
        for x, y, z in zip(found[:3], found[3:6], found[6:]):
            assert all(np.array_equal(a, b) and np.array_equal(a, c) for a, b, c in zip(x, y, z))
    # Without factors as with factors of 0.
    r[1], r[26] = r[0], r[20]
    tables = TABLES[name]
    given = {"onset": TAPER, "compute_forces": True}
    zero = getattr(mn, name)(r, types, *tables, CUTOFF, CELL, exclusions=(PAIRS, 0.0, IMAGES), **given)
    none = getattr(mn, name)(r, types, *tables, CUTOFF, CELL, exclusions=(PAIRS, None, IMAGES), **given)
    assert all(np.array_equal(a, b) and np.isfinite(a).all() for a, b in zip(zero, none))


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_to_second_order(name: str) -> None:
    """By positions, cell, every table and the factors."""
    r, types = ions()
    some = np.array([0, 1, 2], np.int64)
    r, types, cell = torch.from_numpy(r[:6]), torch.from_numpy(types[:6]), torch.from_numpy(CELL)
    listed = dict(zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), mt.neighbor_list(r, CUTOFF + 0.1, cell)))
    pairs = torch.tensor([[0, 1], [5, 2], [3, 4]])

    def energies(*x: Any) -> Any:
        positions, lattice, factors, *tables = x
        of = getattr(mt, name)
        return of(positions, types, *tables, CUTOFF, lattice, onset=TAPER, exclusions=(pairs, factors), **listed)

    factors = torch.from_numpy(FACTORS[some + 1])
    inputs = [x.clone().requires_grad_() for x in (r, cell, factors, *map(torch.from_numpy, TABLES[name]))]
    check_torch(energies, inputs)


def test_graphs_and_jit() -> None:
    r, types = ions()
    tables = TABLES["lennard_jones"]
    expected = mn.lennard_jones(
        r, types, *tables, CUTOFF, CELL, exclusions=(PAIRS, FACTORS, IMAGES), compute_forces=True
    )
    a, b, e, s, h, p, f, g = map(ARRAYS[mt], (r, types, *tables, CELL, PAIRS, FACTORS, IMAGES))
    near = mt.find_neighbors(a, CUTOFF, h)

    def call(a: Any, e: Any) -> Any:
        return mt.lennard_jones(a, b, e, s, CUTOFF, h, neighbors=near, exclusions=(p, f, g), compute_forces=True)

    for of in (call, torch.compile(call, fullgraph=True, backend="aot_eager")):
        for x, y in zip(of(a, e), expected):
            assert np.abs(x.numpy() - y).max() < 1e-13 * np.abs(y).max()
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        x, y, e, s, h, p, f, g = map(jnp.asarray, (r, types, *tables, CELL, PAIRS, FACTORS, IMAGES))
        near = mj.find_neighbors(x, CUTOFF, h)
        energy = jax.jit(lambda x: mj.lennard_jones(x, y, e, s, CUTOFF, h, neighbors=near, exclusions=(p, f, g)).sum())
        assert np.abs(-jax.grad(energy)(x) - expected[1]).max() < 1e-13 * np.abs(expected[1]).max()


def test_batches() -> None:
    r, types = ions()
    n = len(r)
    two, of = np.concatenate([r, 1.05 * r]), np.repeat([0, 1], n).astype(np.int32)
    cells, kinds = np.stack([CELL, 1.05 * CELL]), np.concatenate([types, 1 - types])
    pairs, factors = np.concatenate([PAIRS, PAIRS[:2] + n]), np.concatenate([FACTORS, FACTORS[:2]])
    images = np.concatenate([IMAGES, IMAGES[:2]])
    tables = TABLES["lennard_jones"]
    given: dict[str, Any] = {"energy_reduction": "system", "compute_forces": True}
    energies, forces = mn.lennard_jones(
        two, kinds, *tables, CUTOFF, cells, batch_idx=of, exclusions=(pairs, factors, images), **given
    )
    for b, some in enumerate((slice(None), slice(2))):
        alone = (PAIRS[some], FACTORS[some], IMAGES[some])
        energy, own = mn.lennard_jones(
            two[of == b], kinds[of == b], *tables, CUTOFF, cells[b], exclusions=alone, **given
        )
        assert energies[b] == energy[0]
        assert np.array_equal(forces[of == b], own)


@pytest.mark.parametrize("module", [mn, mt, mj])
@pytest.mark.parametrize("name", ["lennard_jones", "mie", "soft_core"])
def test_mixing(module: Any, name: str) -> None:
    """Against tables of each rule's formula."""
    array = ARRAYS[module]
    r, types = ions()
    epsilon, sigma = np.array([0.2, 0.1]), np.array([1.0, 0.8])
    rest = TABLES[name][2:]
    e, s = epsilon[:, None] * epsilon, (sigma[:, None], sigma)
    sixth = 0.5 * (s[0] ** 6 + s[1] ** 6)
    rules = {
        "lorentz-berthelot": (np.sqrt(e), 0.5 * (s[0] + s[1])),
        "geometric": (np.sqrt(e), np.sqrt(s[0] * s[1])),
        "waldman-hagler": (np.sqrt(e) * s[0] ** 3 * s[1] ** 3 / sixth, sixth ** (1 / 6)),
    }
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        of = getattr(module, name)
        first, others = [array(x) for x in (r, types)], [array(x) for x in rest]
        for rule, tables in rules.items():
            expected = getattr(mn, name)(r, types, *tables, *rest, CUTOFF, CELL)
            mixed = [array(x) for x in (epsilon, sigma)]
            found = of(*first, *mixed, *others, CUTOFF, array(CELL), mixing=rule)
            assert np.abs(np.asarray(found) - expected).max() < 1e-13 * np.abs(expected).max() * 27
            for wrong, message in (
                ({"mixing": "arithmetic"}, "`mixing`: expected"),
                ({"mixing": None}, r"`epsilon`: expected"),
                ({"sigma": mixed[1][:1]}, r"`sigma`: expected shape \(2,\)"),
                ({"epsilon": -mixed[0]}, "`epsilon`: expected finite numbers >= 0"),
            ):
                names = ("epsilon", "sigma")
                given = dict(zip(names, mixed)) | {"mixing": rule} | wrong
                with pytest.raises((ValueError, RuntimeError), match=message):
                    of(*first, *[given[x] for x in names], *others, CUTOFF, array(CELL), mixing=given["mixing"])


def test_derivatives_by_mixed_parameters() -> None:
    r, types = ions()
    r, types, cell = torch.from_numpy(r[:6]), torch.from_numpy(types[:6]), torch.from_numpy(CELL)
    near = mt.find_neighbors(r, CUTOFF, cell)
    for rule in ("lorentz-berthelot", "geometric", "waldman-hagler"):

        def energies(e: Any, s: Any, rule: str = rule) -> Any:
            return mt.lennard_jones(r, types, e, s, CUTOFF, cell, mixing=rule, neighbors=near)

        mixed = [torch.tensor(x, dtype=r.dtype, requires_grad=True) for x in ([0.2, 0.1], [1.0, 0.8])]
        check_torch(energies, mixed)
        compiled = torch.compile(energies, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(*mixed, rule), energies(*mixed, rule))
        expected = torch.autograd.grad(energies(*mixed, rule).sum(), mixed)
        for a, b in zip(of_jax(rule, *[x.detach().numpy() for x in (r, types, cell, *mixed)]), expected):
            assert np.abs(a - b.numpy()).max() < 1e-13 * np.abs(b.numpy()).max()


def of_jax(rule: str, *arrays: Any) -> Any:
    """The derivatives by ε and σ in JAX, under `jit`."""
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        r, types, cell, *mixed = map(jnp.asarray, arrays)
        listed = dict(zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), mj.neighbor_list(r, CUTOFF, cell)))

        def total(e: Any, s: Any) -> Any:
            return mj.lennard_jones(r, types, e, s, CUTOFF, cell, mixing=rule, **listed).sum()

        return [np.asarray(x) for x in jax.jit(jax.grad(total, (0, 1)))(*mixed)]


@pytest.mark.parametrize("module", [mn, mt, mj])
def test_wrong_exclusions(module: Any) -> None:
    array = ARRAYS[module]
    r, types = ions()
    dtype = np.float32 if module is mj else np.float64
    r, cell = r.astype(dtype), CELL.astype(dtype)
    tables = [t.astype(dtype) for t in TABLES["lennard_jones"]]
    factors = FACTORS.astype(dtype)
    wrong: list[tuple[str, Any]] = [
        ("indices below 27, got 27", np.array([[0, 27]], np.int32)),
        ("each pair once", np.array([[0, 1], [1, 0]], np.int32)),
        ("an atom with itself", np.array([[2, 2]], np.int32)),
        (r"`exclusions`: expected shape \(5,\)", (PAIRS, factors[:2])),
        ("a tuple of 4", (PAIRS, factors, IMAGES, IMAGES)),
    ]
    for message, given in wrong:
        x = tuple(map(array, given)) if isinstance(given, tuple) else array(given)
        with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match=message):
            module.lennard_jones(*map(array, (r, types, *tables)), CUTOFF, array(cell), exclusions=x)
