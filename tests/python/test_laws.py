"""A user's pair law in every sum: Yukawa's potential against plain sums over images, in each namespace."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import ROOT, required
from madelung.kernels import Int, Real, erfc, exp, func, law

# What a user writes.


@func
def short_range(r: Real, alpha: Real, kappa: Real) -> Real:
    s = kappa / (2 * alpha)
    return (exp(kappa * r) * erfc(alpha * r + s) + exp(-kappa * r) * erfc(alpha * r - s)) / (2 * r)


@func
def long_range_k2(k2: Real, volume: Real, alpha: Real, kappa: Real) -> Real:
    q2 = k2 + kappa**2
    return 4 * math.pi / (volume * q2) * exp(-q2 / (4 * alpha**2))


@func
def self_term(alpha: Real, kappa: Real) -> Real:
    s = kappa / (2 * alpha)
    return 2 / math.sqrt(math.pi) * alpha * exp(-s * s) - kappa * erfc(s)


@func
def background(volume: Real, alpha: Real, kappa: Real) -> Real:
    return -long_range_k2(0.0, volume, alpha, kappa)


@func
def full(r: Real, kappa: Real) -> Real:
    return exp(-kappa * r) / r


FOUR = {
    "short_range": short_range,
    "long_range_k2": long_range_k2,
    "self_term": self_term,
    "background": background,
}
yukawa = law("yukawa", kappa=Real)(**FOUR, full=full)

# Until here.

KAPPA = 0.9
CELL = np.array([[5.0, 0.2, -0.5], [0.9, 4.8, 0.2], [-0.3, 1.2, 5.5]])
EVERYTHING = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}


def split(alpha: float) -> dict[str, Any]:
    """Parameters at which exp(−x²) is below 1e-16."""
    return {"alpha": alpha, "cutoff": 6.2 / alpha, "k_cutoff": 12.4 * alpha}


def atoms(seed: int, number: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Atoms apart from each other, with charges that have a sum."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(*[np.arange(2) / 2] * 3), -1).reshape(-1, 3)[:number]
    return (grid + rng.uniform(-0.12, 0.12, grid.shape)) @ CELL, rng.normal(size=number) + 0.3


def plain(r: np.ndarray, q: np.ndarray, h: np.ndarray, kappa: float, by_kappa: int = 0) -> np.ndarray:
    """Energies of atoms, or their derivatives by κ, over images as far as exp(−κr) counts."""
    reach = math.ceil(40.0 / kappa / 4.0)
    images = np.stack(np.meshgrid(*[np.arange(-reach, reach + 1)] * 3, indexing="ij"), -1).reshape(-1, 3) @ h
    found = np.zeros(len(q))
    for i in range(len(q)):
        d = np.linalg.norm(r[None] - r[i] + images[:, None], axis=-1)
        d[d == 0.0] = np.inf
        d[d > 40.0 / kappa] = np.inf
        with np.errstate(invalid="ignore"):
            each = np.where(np.isinf(d), 0.0, (-d) ** by_kappa * np.exp(-kappa * d) / d)
        found[i] = 0.5 * q[i] * (each @ q).sum()
    return found


def lists(r: np.ndarray, cutoff: float, cell: np.ndarray, alpha: float) -> dict[str, Any]:
    """What a call under `jit` and in a graph is given."""
    pairs = dict(zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), mn.neighbor_list(r, cutoff, cell)))
    miller, of = mn.generate_miller_indices(cell, 12.4 * alpha)
    return {**pairs, "miller_indices": miller, "miller_batch_idx": of}


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.3])
def test_energies_are_those_of_the_lattice_sum(alpha: float) -> None:
    r, q = atoms(1)
    expected, given = plain(r, q, CELL, KAPPA), split(alpha)
    scale = np.abs(expected).max()
    found = mn.ewald_summation(r, q, CELL, **given, law=yukawa(kappa=KAPPA))
    assert np.abs(found - expected).max() < 1e-13 * scale
    total = mn.ewald_summation(r, q, CELL, **given, law=yukawa(kappa=KAPPA), energy_reduction="system")
    assert abs(total[0] - expected.sum()) < 1e-12 * scale
    real = mn.ewald_real_space(r, q, CELL, alpha, cutoff=given["cutoff"], law=yukawa(kappa=KAPPA))
    waves = mn.ewald_reciprocal_space(r, q, CELL, alpha, given["k_cutoff"], law=yukawa(kappa=KAPPA))
    assert np.abs(real + waves - found).max() < 1e-13 * scale


def test_the_mesh_has_the_sum_over_waves() -> None:
    r, q = atoms(2)
    given = split(1.0)
    expected = mn.ewald_summation(r, q, CELL, **given, law=yukawa(kappa=KAPPA), **EVERYTHING)
    mesh: dict[str, Any] = {"mesh_dimensions": (80, 80, 80), "spline_order": 8, "law": yukawa(kappa=KAPPA)}
    found = mn.particle_mesh_ewald(r, q, CELL, 1.0, cutoff=given["cutoff"], **mesh, **EVERYTHING)
    for a, b in zip(found, expected):
        assert np.abs(a - b).max() < 1e-9 * np.abs(b).max()
    waves = mn.ewald_reciprocal_space(r, q, CELL, 1.0, given["k_cutoff"], law=yukawa(kappa=KAPPA))
    assert np.abs(mn.pme_reciprocal_space(r, q, CELL, 1.0, **mesh) - waves).max() < 1e-9 * np.abs(waves).max()


def test_first_derivatives_are_those_of_the_lattice_sum() -> None:
    r, q = atoms(3)
    _, forces, potentials, virial = mn.ewald_summation(r, q, CELL, **split(1.0), law=yukawa(kappa=KAPPA), **EVERYTHING)
    rng = np.random.default_rng(0)
    dr, dq, strain = rng.normal(size=r.shape), rng.normal(size=q.shape), rng.normal(size=(3, 3)) / 5.0

    def energy(t: float, by: str) -> float:
        e = np.eye(3) + t * strain * (by == "strain")
        return plain((r + t * dr * (by == "r")) @ e, q + t * dq * (by == "q"), CELL @ e, KAPPA).sum()

    def slope(by: str) -> float:
        first, second = ((energy(h, by) - energy(-h, by)) / (2.0 * h) for h in (2e-3, 4e-3))
        return (4.0 * first - second) / 3.0

    for by, found in (("r", -(forces * dr).sum()), ("q", potentials @ dq), ("strain", -(virial * strain).sum())):
        assert abs(found - slope(by)) < 1e-9 * np.abs(forces).max(), by


def test_a_batch_has_a_parameter_for_each_system() -> None:
    (r, q), kappas = atoms(4), np.array([KAPPA, 1.6])
    idx = np.repeat(np.arange(2, dtype=np.int32), len(r))
    both = np.concatenate([r, r]), np.concatenate([q, 0.7 * q])
    for given in (kappas, list(kappas)):
        args = (*both, np.stack([CELL, 1.1 * CELL]))
        found = mn.ewald_summation(*args, **split(1.0), law=yukawa(kappa=given), batch_idx=idx)
        for b, kappa in enumerate(kappas):
            alone = (both[0][idx == b], both[1][idx == b], args[2][b])
            own = mn.ewald_summation(*alone, **split(1.0), law=yukawa(kappa=kappa))
            assert np.array_equal(found[idx == b], own)
            assert np.abs(own - plain(*alone, kappa)).max() < 1e-12 * np.abs(own).max()
    # A cutoff for each system is one that its search goes by.
    each = {**split(1.0), "cutoff": np.array([6.2, 6.2])}
    assert np.array_equal(mn.ewald_summation(*args, **each, law=yukawa(kappa=kappas), batch_idx=idx), found)


def test_float32() -> None:
    r, q = atoms(5)
    expected = plain(r, q, CELL, KAPPA)
    found = mn.ewald_summation(*(x.astype(np.float32) for x in (r, q, CELL)), **split(1.0), law=yukawa(kappa=KAPPA))
    assert found.dtype == np.float32 and np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()


def test_exclusions_take_whole_pairs_away() -> None:
    r, q = atoms(6)
    pairs, factors = np.array([[0, 1], [2, 5]]), np.array([0.0, 0.4])
    images = np.stack(np.meshgrid(*[np.arange(-1, 2)] * 3), -1).reshape(-1, 3) @ CELL
    expected = plain(r, q, CELL, KAPPA).sum()
    for (i, j), f in zip(pairs, factors):
        d = np.linalg.norm(r[j] - r[i] + images, axis=1).min()
        expected -= (1.0 - f) * q[i] * q[j] * math.exp(-KAPPA * d) / d
    given: dict[str, Any] = {"exclusions": (pairs, factors), "law": yukawa(kappa=KAPPA)}
    energies, forces = mn.ewald_summation(r, q, CELL, **split(1.0), **given, compute_forces=True)
    assert abs(energies.sum() - expected) < 1e-12 * np.abs(energies).max()
    mesh: dict[str, Any] = {"mesh_dimensions": (60, 60, 60), "spline_order": 8}
    on_mesh = mn.particle_mesh_ewald(r, q, CELL, 1.0, cutoff=6.2, **mesh, **given)
    parts = mn.ewald_real_space(r, q, CELL, 1.0, cutoff=6.2, **given)
    parts = parts + mn.ewald_reciprocal_space(r, q, CELL, 1.0, 12.4, **given)
    for found in (on_mesh, parts):
        assert np.abs(found - energies).max() < 1e-9 * np.abs(energies).max()
    step = np.zeros_like(r)
    step[1, 2] = 1e-5
    ends = [mn.ewald_summation(r + s * step, q, CELL, **split(1.0), **given).sum() for s in (-1, 1)]
    assert abs((ends[0] - ends[1]) / 2e-5 - forces[1, 2]) < 1e-8 * np.abs(forces).max()


def test_equal_functions_are_one_law() -> None:
    again = law("yukawa", kappa=Real)(**FOUR, full=full)
    assert again.prefix == yukawa.prefix and repr(again) == "<law yukawa>"
    r, q = atoms(7)

    @func
    def background(volume: Real, alpha: Real, kappa: Real) -> Real:
        return 0.0

    other = law("yukawa", kappa=Real)(**{**FOUR, "background": background})
    assert other.prefix != yukawa.prefix
    found = [mn.ewald_summation(r, q, CELL, **split(1.0), law=x(kappa=KAPPA)) for x in (yukawa, other)]
    # That of the term k = 0, which it lacks.
    constant = -4.0 * math.pi / (np.linalg.det(CELL) * KAPPA**2) * math.exp(-(KAPPA**2) / 4.0)
    assert np.abs(found[0] - found[1] + 0.5 * q * constant * q.sum()).max() < 1e-13


def test_a_law_without_parameters_is_one_of_numbers() -> None:
    @func
    def short(r: Real, alpha: Real) -> Real:
        return erfc(alpha * r) / r

    @func
    def waves(k2: Real, volume: Real, alpha: Real) -> Real:
        return 4 * math.pi / (volume * k2) * exp(-k2 / (4 * alpha**2))

    @func
    def own(alpha: Real) -> Real:
        return 2 * alpha / math.sqrt(math.pi)

    @func
    def uniform(volume: Real, alpha: Real) -> Real:
        return math.pi / (alpha**2 * volume)

    coulomb = law("coulomb")(short_range=short, long_range_k2=waves, self_term=own, background=uniform)
    r, q = atoms(8)
    found, expected = (mn.ewald_summation(r, q, CELL, **split(1.0), **x) for x in ({"law": coulomb()}, {}))
    assert np.abs(found - expected).max() < 1e-13 * np.abs(expected).max()


WHOLE: dict[str, Any] = {**split(1.0), "law": yukawa(kappa=KAPPA)}
without = law("screened", kappa=Real)(**FOUR)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"alpha": None}, "`alpha`: expected a value with `law=yukawa`, whose errors nothing estimates, got None"),
        ({"cutoff": None}, "`cutoff`: expected a value with `law=yukawa`"),
        ({"k_cutoff": None}, "`k_cutoff`: expected a value with `law=yukawa`"),
        ({"accuracy": 1e-5}, "`accuracy`: expected None with `law=yukawa`, whose errors nothing estimates"),
        ({"exponent": 6}, "`exponent`: expected 1 with `law`, got 6"),
        ({"method": "direct"}, '`law`: expected None with `method="direct"`, got yukawa'),
        ({"widths": np.ones(8)}, "`law`: expected None with `widths`, got yukawa"),
        (
            {"pbc": [True, True, False], "slab_correction": True},
            "`law`: expected None with slabs and wires, got yukawa",
        ),
        ({"pbc": [True, False, False]}, "`law`: expected None with slabs and wires"),
        ({"pbc": [False] * 3}, "`law`: expected None with open systems"),
        ({"cell": None}, "`law`: expected None with open systems"),
        ({"cell": np.zeros((3, 3))}, "`law`: expected None with open systems"),
        ({"law": without(kappa=1.0), "exclusions": [[0, 1]]}, "`law`: expected one with `long_range` or `full`"),
        ({"law": yukawa}, "`law`: expected a law with its parameters, as `yukawa.kappa=0.8.`, got Law"),
        ({"law": "yukawa"}, "`law`: expected a law with its parameters"),
        ({"law": yukawa(kappa=np.ones(3))}, "`kappa`: expected a number, or shape .1,., got .3,."),
        ({"law": yukawa(kappa="0.8")}, "`kappa`: expected a number"),
        ({"law": yukawa(kappa=True)}, "`kappa`: expected a number, or one for each system, got True"),
        ({"law": yukawa(kappa=math.nan)}, "`kappa`: expected a finite number, got nan"),
        ({"law": yukawa(kappa=np.array([math.nan]))}, "`kappa`: expected"),
        ({"law": yukawa(kappa=None)}, "`kappa`: expected"),
    ],
)
def test_what_a_law_does_not_have_is_refused(given: dict[str, Any], message: str) -> None:
    r, q = atoms(9)
    with pytest.raises((TypeError, ValueError), match=message):
        mn.ewald_summation(**{"positions": r, "charges": q, "cell": CELL, **WHOLE, **given})


def test_a_mesh_and_parts_refuse_by_name() -> None:
    r, q = atoms(9)
    for given, message in [
        ({}, "`mesh_dimensions`: expected a value with `law=yukawa`"),
        ({"mesh_spacing": 0.2, "alpha": None}, "`alpha`: expected a value"),
        ({"mesh_spacing": 0.2, "cutoff": None}, "`cutoff`: expected a value"),
    ]:
        with pytest.raises(ValueError, match=message):
            mn.particle_mesh_ewald(r, q, CELL, **{"alpha": 1.0, "cutoff": 6.2, "law": yukawa(kappa=1.0), **given})
    with pytest.raises(ValueError, match="`law`: expected one with `long_range` or `full`"):
        mn.ewald_real_space(r, q, CELL, 1.0, cutoff=6.2, exclusions=[[0, 1]], law=without(kappa=1.0))


def test_a_law_is_checked_where_it_is_made() -> None:
    @func
    def of_integers(r: Real, alpha: Real, kappa: Int) -> Real:
        return r * alpha * kappa

    for given, message in [
        (
            {"background": short_range},
            r"`background`: expected reals \(volume, alpha, kappa\), got \(r, alpha, kappa\)",
        ),
        ({"self_term": full}, r"`self_term`: expected reals \(alpha, kappa\), got \(r, kappa\)"),
        ({"short_range": of_integers}, "`short_range`: expected reals"),
        ({"full": math.exp}, "`full`: expected a function that `@func` made, got builtin_function_or_method"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            law("yukawa", kappa=Real)(**{**FOUR, **given})
    with pytest.raises(TypeError, match="background"):
        law("yukawa", kappa=Real)(short_range=short_range, long_range_k2=long_range_k2, self_term=self_term)
    with pytest.raises(TypeError, match="`kappa`: expected Real, got 0.8"):
        law("yukawa", kappa=0.8)
    with pytest.raises(ValueError, match="`name`: expected a name of letters"):
        law("my law", kappa=Real)
    with pytest.raises(ValueError, match="`parameters`: expected a name .* no word of the kernel language, got 'type'"):
        law("yukawa", type=Real)
    with pytest.raises(TypeError, match="`yukawa`: `kappa` is missing: expected kappa"):
        yukawa()
    with pytest.raises(TypeError, match="`yukawa`: there is no parameter `mu`: expected kappa"):
        yukawa(kappa=1.0, mu=2.0)

    @func
    def of_cutoff(r: Real, alpha: Real, cutoff: Real) -> Real:
        return r * alpha * cutoff

    @func
    def of_cutoff_k2(k2: Real, volume: Real, alpha: Real, cutoff: Real) -> Real:
        return k2 * volume * alpha * cutoff

    @func
    def of_cutoff_alone(alpha: Real, cutoff: Real) -> Real:
        return alpha * cutoff

    @func
    def of_cutoff_and_volume(volume: Real, alpha: Real, cutoff: Real) -> Real:
        return volume * alpha * cutoff

    parts = {"short_range": of_cutoff, "long_range_k2": of_cutoff_k2, "self_term": of_cutoff_alone}
    with pytest.raises(ValueError, match="`cutoff`: expected a name that the kernels of sums do not use"):
        law("cut", cutoff=Real)(**parts, background=of_cutoff_and_volume)


def test_torch() -> None:
    torch, mt = required("torch"), required("madelung.torch")
    r, q = atoms(10)
    given = {name: torch.tensor(x) for name, x in lists(r, 6.2, CELL, 1.0).items()}
    arrays = [torch.tensor(x) for x in (r, q, CELL)]
    kept: dict[str, Any] = {"cutoff": 6.2, **given}
    expected = mn.ewald_summation(r, q, CELL, 1.0, cutoff=6.2, k_cutoff=12.4, law=yukawa(kappa=KAPPA), **EVERYTHING)
    for a, b in zip(mt.ewald_summation(*arrays, 1.0, **kept, law=yukawa(kappa=KAPPA), **EVERYTHING), expected):
        assert np.abs(a.numpy() - b).max() < 1e-14 * np.abs(b).max()

    def energy(r: Any, kappa: Any) -> Any:
        return mt.ewald_summation(r, *arrays[1:], 1.0, **kept, law=yukawa(kappa=kappa)).sum()

    def direction(x: Any) -> Any:
        return torch.from_numpy(np.random.default_rng(1).normal(size=x.shape))

    at, kappa = arrays[0].clone().requires_grad_(), torch.tensor([KAPPA], dtype=torch.float64, requires_grad=True)
    slope, by_kappa = torch.autograd.grad(energy(at, kappa), (at, kappa), create_graph=True)
    scale = np.abs(expected[1]).max()
    assert np.abs(slope.detach().numpy() + expected[1]).max() < 1e-14 * scale
    # Derivatives by κ of both orders, and one by both, are those of the plain sum.
    assert abs(by_kappa.item() - plain(r, q, CELL, KAPPA, 1).sum()) < 1e-11 * scale
    (second,) = torch.autograd.grad(by_kappa, kappa, retain_graph=True)
    assert abs(second.item() - plain(r, q, CELL, KAPPA, 2).sum()) < 1e-11 * scale
    mixed, along = torch.autograd.grad(by_kappa, at, retain_graph=True)[0], direction(at)
    step = 1e-3 * along.numpy()
    ends = [plain(r + s * step, q, CELL, KAPPA, 1).sum() for s in (-2, -1, 1, 2)]
    difference = (8.0 * (ends[2] - ends[1]) - ends[3] + ends[0]) / 12e-3
    assert abs((mixed * along).sum().item() - difference) < 1e-8 * scale
    # A Hessian-vector product, against differences of forces.
    (product,) = torch.autograd.grad((slope * along).sum(), at)
    ends = [
        mn.ewald_summation(r + s * 1e-4 * along.numpy(), q, CELL, **split(1.0), law=yukawa(kappa=KAPPA), **EVERYTHING)[
            1
        ]
        for s in (-1, 1)
    ]
    assert np.abs(product.numpy() - (ends[0] - ends[1]) / 2e-4).max() < 1e-6 * np.abs(product.numpy()).max()

    # Functional transforms, and graphs whose law is bound within.
    of_both = torch.func.grad(energy, argnums=(0, 1))(arrays[0], kappa.detach())
    for a, b in zip(of_both, (slope, by_kappa)):
        assert (a - b).abs().max() < 1e-13 * scale
    kappas = torch.tensor([KAPPA, 1.4], dtype=torch.float64)
    each = torch.func.vmap(lambda k: energy(arrays[0], k))(kappas)
    alone = torch.stack([energy(arrays[0], k) for k in kappas])
    assert (each - alone).abs().max() < 1e-13 * scale
    for dynamic in (False, True):
        compiled = torch.compile(energy, fullgraph=True, dynamic=dynamic)
        found = torch.autograd.grad(compiled(at, kappa), (at, kappa))
        for a, b in zip(found, (slope, by_kappa)):
            assert (a - b).abs().max() < 1e-13 * scale
        torch.compiler.reset()

    mesh = {"mesh_dimensions": (40, 40, 40), "spline_order": 8}
    pairs = {name: x for name, x in given.items() if "neighbor" in name}

    def on_mesh(r: Any, kappa: Any) -> Any:
        args = (r, *arrays[1:], 1.0)
        return mt.particle_mesh_ewald(*args, cutoff=6.2, **pairs, **mesh, law=yukawa(kappa=kappa)).sum()

    found = torch.autograd.grad(torch.compile(on_mesh, fullgraph=True)(at, kappa), (at, kappa))
    for a, b in zip(found, (slope, by_kappa)):
        assert (a - b).abs().max() < 1e-7 * scale
    # A law that is made while PyTorch is there has its ops there.
    late = law("late", kappa=Real)(**FOUR)
    assert mt.ewald_summation(*arrays, 1.0, **kept, law=late(kappa=KAPPA)).sum() == energy(arrays[0], KAPPA)


def test_jax() -> None:
    jax, mj = required("jax"), required("madelung.jax")
    with jax.enable_x64(True):
        r, q = atoms(11)
        given = {name: jax.numpy.asarray(x) for name, x in lists(r, 6.2, CELL, 1.0).items()}
        arrays = [jax.numpy.asarray(x) for x in (r, q, CELL)]
        expected = mn.ewald_summation(r, q, CELL, **split(1.0), law=yukawa(kappa=KAPPA), **EVERYTHING)
        eager = mj.ewald_summation(*arrays, **split(1.0), law=yukawa(kappa=KAPPA), **EVERYTHING)
        scale = np.abs(expected[1]).max()
        for a, b in zip(eager, expected):
            assert np.abs(np.asarray(a) - b).max() < 1e-14 * np.abs(b).max()

        def energy(r: Any, kappa: Any) -> Any:
            args = (r, *arrays[1:], 1.0)
            return mj.ewald_summation(*args, cutoff=6.2, **given, law=yukawa(kappa=kappa)).sum()

        gradients = jax.jit(jax.grad(energy, (0, 1)))(arrays[0], KAPPA)
        assert np.abs(np.asarray(gradients[0]) + expected[1]).max() < 1e-14 * scale
        assert abs(float(gradients[1]) - plain(r, q, CELL, KAPPA, 1).sum()) < 1e-11 * scale
        second = jax.jit(jax.grad(jax.grad(energy, 1), 1))(arrays[0], KAPPA)
        assert abs(float(second) - plain(r, q, CELL, KAPPA, 2).sum()) < 1e-11 * scale
        each = jax.vmap(lambda kappa: energy(arrays[0], kappa))(jax.numpy.array([KAPPA, 1.4]))
        assert abs(float(each[0]) - expected[0].sum()) < 1e-12 * scale

        def on_mesh(r: Any) -> Any:
            mesh: dict[str, Any] = {"mesh_dimensions": (40, 40, 40), "spline_order": 8, "law": yukawa(kappa=KAPPA)}
            pairs = {name: x for name, x in given.items() if "neighbor" in name}
            return mj.particle_mesh_ewald(r, *arrays[1:], 1.0, cutoff=6.2, **pairs, **mesh).sum()

        assert np.abs(np.asarray(jax.jit(jax.grad(on_mesh))(arrays[0])) + expected[1]).max() < 1e-7 * scale


def test_a_user_writes_thirty_lines_at_most() -> None:
    """Here and in the tutorial, which test_docs.py runs."""
    here = (ROOT / "tests/python/test_laws.py").read_text(encoding="utf-8")
    tutorial = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    of_here = here.partition("# What a user writes.")[2].partition("# Until here.")[0]
    (of_tutorial,) = re.findall(r"^```python\n(from math.*?)^```$", tutorial, re.DOTALL | re.MULTILINE)
    for text in (of_here, of_tutorial):
        assert len([line for line in text.splitlines() if line.strip()]) <= 30
