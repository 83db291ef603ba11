"""Pair potentials in every namespace: values against plain sums, derivatives against differences, equal bits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import required
from differences import check_torch

torch, jax = required("torch"), required("jax")
import jax.numpy as jnp  # noqa: E402

import madelung.jax as mj  # noqa: E402
import madelung.torch as mt  # noqa: E402

CUTOFF, TAPER = 3.0, 2.4
CELL = np.array([[4.1, 0.0, 0.0], [0.5, 3.9, 0.0], [0.0, -0.4, 4.3]])


def table(low: float, high: float, seed: int) -> Any:
    x = np.random.default_rng(seed).uniform(low, high, (2, 2))
    return 0.5 * (x + x.T)


TABLES: dict[str, list[Any]] = {
    "born_mayer": [table(0.5, 1.0, 1), table(2.0, 3.0, 2), table(1.0, 1.5, 3), table(0.0, 0.2, 4), table(0.0, 0.1, 5)],
    "buckingham": [table(20.0, 30.0, 6), table(0.2, 0.3, 7), table(0.0, 0.2, 8)],
    "lennard_jones": [table(0.1, 0.3, 9), table(0.9, 1.1, 10)],
    "mie": [table(0.1, 0.3, 11), table(0.9, 1.1, 12), table(9.0, 13.0, 13), table(5.0, 7.0, 14)],
    "morse": [table(0.1, 0.3, 15), table(1.0, 2.0, 16), table(1.0, 1.5, 17)],
    "soft_core": [table(0.1, 0.3, 18), table(0.9, 1.1, 19), table(0.2, 0.9, 20), table(0.4, 0.6, 21)],
    "tang_toennies": [table(20.0, 30.0, 22), table(3.0, 4.0, 23), *(table(0.1, 0.3, 24 + k) for k in range(3))],
    "yukawa": [table(0.5, 1.0, 27), table(0.5, 1.0, 28)],
    "zbl": [table(0.5, 1.0, 29), table(0.4, 0.6, 30)],
}


def damped(n: int, x: Any) -> Any:
    """The damping of Tang and Toennies."""
    return 1 - np.exp(-x) * sum(x**k / math.factorial(k) for k in range(n + 1))


def universal(x: Any) -> Any:
    """The screening function of Ziegler, Biersack and Littmark."""
    terms = ((0.18175, 3.19980), (0.50986, 0.94229), (0.28022, 0.40290), (0.02817, 0.20162))
    return sum(c * np.exp(-b * x) for c, b in terms)


FORMULAS: dict[str, Callable[..., Any]] = {
    "born_mayer": lambda r, a, b, s, c, d: a * np.exp(b * (s - r)) - c / r**6 - d / r**8,
    "buckingham": lambda r, a, rho, c: a * np.exp(-r / rho) - c / r**6,
    "lennard_jones": lambda r, e, s: 4 * e * ((s / r) ** 12 - (s / r) ** 6),
    "mie": lambda r, e, s, n, m: n / (n - m) * (n / m) ** (m / (n - m)) * e * ((s / r) ** n - (s / r) ** m),
    "morse": lambda r, d, a, x: d * ((1 - np.exp(-a * (r - x))) ** 2 - 1),
    "soft_core": lambda r, e, s, c, a: (
        4 * e * c * ((a * (1 - c) ** 2 + (r / s) ** 6) ** -2 - (a * (1 - c) ** 2 + (r / s) ** 6) ** -1)
    ),
    "tang_toennies": lambda r, a, b, *c: (
        a * np.exp(-b * r) - sum(damped(n, b * r) * x / r**n for n, x in zip((6, 8, 10), c))
    ),
    "yukawa": lambda r, a, k: a * np.exp(-k * r) / r,
    "zbl": lambda r, a, x: a / r * universal(r / x),
}
NAMES = list(FORMULAS)


def ions() -> tuple[Any, Any]:
    sites = np.array(list(itertools.product(range(3), repeat=3))) / 3
    rng = np.random.default_rng(0)
    return (sites + 0.05 * rng.normal(size=sites.shape)) @ CELL, rng.integers(0, 2, len(sites)).astype(np.int32)


def plain(name: str, positions: Any, types: Any, tables: Any, cell: Any) -> Any:
    """Energies of atoms by a sum over all images within reach."""
    energies = np.zeros(len(positions))
    given = [t[types][:, types] for t in tables]
    for image in itertools.product(range(-2, 3), repeat=3) if cell is not None else [(0, 0, 0)]:
        shift = 0.0 if cell is None else np.array(image) @ cell
        r = np.linalg.norm(positions[None] - positions[:, None] + shift, axis=-1)
        there = (r < CUTOFF) & (r > 0.0)
        r = np.where(there, r, 1.0)
        x = np.clip((r - TAPER) / (CUTOFF - TAPER), 0.0, 1.0)
        pair = FORMULAS[name](r, *given) * (1 - 10 * x**3 + 15 * x**4 - 6 * x**5)
        energies += 0.5 * np.where(there, pair, 0.0).sum(1)
    return energies


@pytest.mark.parametrize("name", NAMES)
def test_values_and_derivatives(name: str) -> None:
    r, types = ions()
    of = getattr(mn, name)

    def energies(positions: Any = r, cell: Any = CELL, tables: Any = TABLES[name], **wanted: Any) -> Any:
        return of(positions, types, *tables, CUTOFF, cell, onset=TAPER, **wanted)

    for cell in (CELL, None):
        expected = plain(name, r, types, TABLES[name], cell)
        assert np.abs(energies(cell=cell) - expected).max() <= 1e-13 * np.abs(expected).max() * 27
    total, forces, virial = energies(energy_reduction="system", compute_forces=True, compute_virial=True)
    assert total[0] == pytest.approx(plain(name, r, types, TABLES[name], CELL).sum(), rel=1e-12)
    # Differences of fourth order are wrong by h⁴ times the fifth derivative, and by rounding over h.
    rng = np.random.default_rng(1)
    step, strain = rng.normal(size=r.shape), rng.normal(size=(3, 3))

    def along(f: Callable[[float], float], h: float = 3e-4) -> float:
        return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)

    by_step = along(lambda h: plain(name, r + h * step, types, TABLES[name], CELL).sum())
    assert (forces * step).sum() == pytest.approx(-by_step, rel=1e-6, abs=1e-7)
    move = [lambda h, x=x: x @ (np.eye(3) + h * strain) for x in (r, CELL)]
    by_strain = along(lambda h: plain(name, move[0](h), types, TABLES[name], move[1](h)).sum(), 1e-4)
    assert (virial * strain).sum() == pytest.approx(-by_strain, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_every_namespace_gives_the_same_bits(name: str) -> None:
    r, types = ions()
    wanted = {"onset": TAPER, "compute_forces": True, "compute_virial": True}
    expected = getattr(mn, name)(r, types, *TABLES[name], CUTOFF, CELL, **wanted)
    tensors = [torch.from_numpy(np.array(x)) for x in (r, types, *TABLES[name], CELL)]
    of_torch = getattr(mt, name)(*tensors[:-1], CUTOFF, tensors[-1], **wanted)
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        arrays = [jnp.asarray(x) for x in (r, types, *TABLES[name], CELL)]
        of_jax = getattr(mj, name)(*arrays[:-1], CUTOFF, arrays[-1], **wanted)
        for x, y, z in zip(expected, of_torch, of_jax):
            assert np.array_equal(x, y)
            assert np.array_equal(x, z)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_to_second_order(name: str) -> None:
    """By positions, cell and every table."""
    r, types = ions()
    r, types = torch.from_numpy(r[:6]), torch.from_numpy(types[:6])
    cell = torch.from_numpy(CELL)
    pairs, ptr, shifts = mt.neighbor_list(r, CUTOFF + 0.1, cell)
    lists = {"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts}

    def energies(*x: Any) -> Any:
        positions, lattice, *tables = x
        return getattr(mt, name)(positions, types, *tables, CUTOFF, lattice, onset=TAPER, **lists)

    inputs = [x.clone().requires_grad_() for x in (r, cell, *map(torch.from_numpy, TABLES[name]))]
    assert torch.autograd.gradcheck(energies, inputs, fast_mode=True, rtol=1e-4, atol=1e-6)
    check_torch(energies, inputs)


def test_batches_graphs_and_jit() -> None:
    r, types = ions()
    two, of = np.concatenate([r, r + 0.1]), np.repeat([0, 1], len(r)).astype(np.int32)
    kinds, cells = np.concatenate([types, 1 - types]), np.stack([CELL, 1.05 * CELL])
    tables = TABLES["lennard_jones"]
    batch = mn.lennard_jones(two, kinds, *tables, CUTOFF, cells, batch_idx=of, energy_reduction="system")
    alone = [
        mn.lennard_jones(two[of == b], kinds[of == b], *tables, CUTOFF, cells[b], energy_reduction="system")[0]
        for b in (0, 1)
    ]
    assert np.array_equal(batch, alone)
    a, b, e, s, h = (torch.from_numpy(np.array(x)) for x in (r, types, *tables, CELL))
    found = mt.find_neighbors(a, CUTOFF, h)
    call = lambda a, e: mt.lennard_jones(a, b, e, s, CUTOFF, h, neighbors=found)  # noqa: E731
    assert torch.equal(torch.compile(call, fullgraph=True, backend="aot_eager")(a, e), call(a, e))
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        x, y, z, w, c = (jnp.asarray(x) for x in (r, types, *tables, CELL))
        near = mj.find_neighbors(x, CUTOFF, c)
        jitted = jax.jit(jax.grad(lambda x: mj.lennard_jones(x, y, z, w, CUTOFF, c, neighbors=near).sum()))
        forces = mn.lennard_jones(r, types, *tables, CUTOFF, CELL, compute_forces=True)[1]
        assert np.array_equal(-jitted(x), forces)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("module", [mn, mt, mj])
def test_batches_in_one_cell(module: Any, name: str) -> None:
    """The number of systems is that of the indices, and no charges are there to look at."""
    array = {mn: np.asarray, mt: torch.from_numpy, mj: jnp.asarray}[module]
    r, types = ions()
    of = (np.arange(len(r)) > 11).astype(np.int32)
    cells = CELL.astype(np.float32), np.stack([CELL, CELL]).astype(np.float32)
    tables = [array(x.astype(np.float32)) for x in TABLES[name]]
    one, two = (
        getattr(module, name)(
            *map(array, (r.astype(np.float32), types)), *tables, CUTOFF, array(cell), batch_idx=array(of)
        )
        for cell in cells
    )
    assert np.array_equal(one, two)


@pytest.mark.parametrize("module", [mn, mt, mj])
def test_wrong_arguments(module: Any) -> None:
    array = {mn: np.asarray, mt: torch.from_numpy, mj: jnp.asarray}[module]
    r, types = ions()
    dtype = np.float32 if module is mj else np.float64
    r, types, cell = array(r.astype(dtype)), array(types), array(CELL.astype(dtype))
    epsilon, sigma = (array(t.astype(dtype)) for t in TABLES["lennard_jones"])
    good = {"positions": r, "types": types, "epsilon": epsilon, "sigma": sigma, "cutoff": CUTOFF, "cell": cell}
    wrong: list[tuple[str, dict[str, Any]]] = [
        (r"`sigma`: expected shape \(2, 2\), got \(1, 2\)", {"sigma": sigma[:1]}),
        (r"`epsilon`: expected finite numbers", {"epsilon": epsilon * np.nan}),
        (r"`types.*elements from 0 to below 2, got", {"types": types + 1}),
        (r"`types`: expected (shape \(27,\)|27 rows)", {"types": types[1:]}),
        (r"`cutoff`: expected the radius of the sum, got None", {"cutoff": None}),
        (r"`cutoff`: expected a number above zero", {"cutoff": -1.0}),
        (r"`onset`: expected a number above zero", {"onset": -1.0}),
        (r"`energy_reduction`: expected", {"energy_reduction": "pair"}),
    ]
    for message, arguments in wrong:
        with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match=message):
            module.lennard_jones(**(good | arguments))


@pytest.mark.parametrize("name", NAMES)
def test_tables_are_not_narrowed(name: str) -> None:
    r, types = ions()
    with pytest.raises(TypeError, match=r"expected float32, as the positions \(convert `.*`\), got float64"):
        getattr(mn, name)(r.astype(np.float32), types, *TABLES[name], CUTOFF, CELL.astype(np.float32))
    # Nested lists have no dtype of their own.
    lists = [t.tolist() for t in TABLES[name]]
    assert getattr(mn, name)(r.astype(np.float32), types, *lists, CUTOFF, CELL.astype(np.float32)).dtype == np.float32
