"""Lennard-Jones potentials whose attraction is summed over all pairs and images."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import required
from differences import fourth_order

CUTOFF, EDGE = 7.5, 3
METHODS = ("ewald", "pme")
EPSILON, SIGMA = np.array([0.24, 0.34, 0.0]), np.array([3.4, 3.65, 2.0])
WANTED = {"energy_reduction": "system", "compute_forces": True, "compute_virial": True}


def crystal() -> dict[str, Any]:
    """A jittered crystal of atoms of three types, the last one without a depth, in a sheared cell."""
    rng = np.random.default_rng(0)
    sites = 3.9 * np.array(list(itertools.product(range(EDGE), repeat=3)))
    cell = 3.9 * EDGE * np.eye(3) + rng.normal(scale=0.3, size=(3, 3))
    positions = sites + rng.normal(scale=0.15, size=sites.shape)
    types = rng.integers(0, 3, len(sites)).astype(np.int32)
    return {"positions": positions, "types": types, "epsilon": EPSILON, "sigma": SIGMA, "cutoff": CUTOFF, "cell": cell}


def summed(given: dict[str, Any], mixing: str, method: str, **others: Any) -> Any:
    own = {"mixing": mixing, "dispersion": method, "end": "cut", "accuracy": 1e-7}
    return mn.lennard_jones(**(own | given | others))


def directly(given: dict[str, Any], mixing: str, excluded: Any = ()) -> float:
    """σ¹²/r¹² within the cutoff, and C₆/r⁶ of images within a large sphere, with the mean beyond it."""
    r, types, cell, reach = given["positions"], given["types"], given["cell"], 70.0
    epsilon, sigma = EPSILON[types], SIGMA[types]
    length = np.sqrt(np.outer(sigma, sigma)) if mixing == "geometric" else 0.5 * np.add.outer(sigma, sigma)
    depth = np.sqrt(np.outer(epsilon, epsilon))
    c6 = 4.0 * depth * length**6
    energy, most = 0.0, int(np.ceil(reach / np.linalg.svd(cell)[1].min())) + 1
    for image in itertools.product(range(-most, most + 1), repeat=3):
        d = np.linalg.norm(r - r[:, None] + np.array(image) @ cell, axis=-1)
        if image == (0, 0, 0):
            np.fill_diagonal(d, np.inf)
            for i, j in excluded:
                d[i, j] = d[j, i] = np.inf
        energy += 0.5 * (4.0 * depth * (length / d) ** 12)[d < CUTOFF].sum() - 0.5 * (c6 / d**6)[d < reach].sum()
    return float(energy - 2.0 * np.pi * c6.sum() / (3.0 * reach**3 * abs(np.linalg.det(cell))))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mixing", ["geometric", "lorentz-berthelot"])
def test_energies_are_those_of_a_direct_sum(mixing: str, method: str) -> None:
    """The mean density beyond 70 Å is off by less than a millionth of the sum."""
    given = crystal()
    assert summed(given, mixing, method, energy_reduction="system") == pytest.approx(
        [directly(given, mixing)], rel=2e-6
    )


@pytest.mark.parametrize("method", METHODS)
def test_pairs_that_are_left_out_have_no_attraction(method: str) -> None:
    given = crystal()
    pairs = np.array([[0, 1], [4, 7], [13, 14]], np.int32)
    found = summed(given, "geometric", method, energy_reduction="system", exclusions=pairs)
    # The nearest images of these pairs are the atoms themselves.
    assert found == pytest.approx([directly(given, "geometric", pairs)], rel=2e-6)
    half = summed(given, "geometric", method, energy_reduction="system", exclusions=(pairs, 0.5))
    whole = summed(given, "geometric", method, energy_reduction="system")
    assert half == pytest.approx(0.5 * (found + whole), rel=1e-9)


@pytest.mark.parametrize("mixing", ["geometric", "lorentz-berthelot"])
def test_forces_and_virials_are_differences(mixing: str) -> None:
    given, rng = crystal(), np.random.default_rng(2)
    # Waves and splitting stay, as differences need; no pair is near the cutoff with a taper.
    fixed = {"end": "taper", "onset": 0.7 * CUTOFF, "alpha": 0.55, "mesh_dimensions": (24, 24, 24), "accuracy": None}
    _, forces, virial = summed(given, mixing, "pme", **WANTED, **fixed)
    step, strain = rng.normal(size=forces.shape), rng.normal(size=(3, 3))

    def energy(h: float) -> float:
        moved = {"positions": given["positions"] + h * step}
        return float(summed(given | moved, mixing, "pme", energy_reduction="system", **fixed)[0])

    def strained(h: float) -> float:
        by = np.eye(3) + h * strain
        moved = {"positions": given["positions"] @ by, "cell": given["cell"] @ by}
        return float(summed(given | moved, mixing, "pme", energy_reduction="system", **fixed)[0])

    assert -(forces * step).sum() == pytest.approx(fourth_order(energy, 1e-4), rel=1e-7)
    assert -(virial * strain).sum() == pytest.approx(fourth_order(strained, 1e-4), rel=1e-7)


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_libraries_agree_and_differentiate_by_parameters(library: str) -> None:
    module, given = required(library), crystal()
    fixed = {"end": "taper", "onset": 0.7 * CUTOFF, "alpha": 0.55, "mesh_dimensions": (24, 24, 24), "accuracy": None}
    given["sigma"] = SIGMA * [1.0, 1.0, 0.0]
    weights = np.random.default_rng(4).normal(size=given["positions"].shape)

    def loss(h: float) -> float:
        changed = {"epsilon": given["epsilon"] + h * np.array([1.0, -0.5, 0.0])}
        _, forces = summed(given | changed, "lorentz-berthelot", "pme", compute_forces=True, **fixed)
        return float((weights * forces).sum())

    expected = fourth_order(loss, 1e-3)
    own = {"mixing": "lorentz-berthelot", "dispersion": "pme", "compute_forces": True} | fixed
    names = ("positions", "types", "epsilon", "sigma", "cell")
    if library == "torch":
        import madelung.torch as mt

        tensors = {name: module.tensor(given[name]) for name in names}
        epsilon = tensors["epsilon"].requires_grad_()
        _, forces = mt.lennard_jones(**(given | tensors), **own)
        (slope,) = module.autograd.grad((module.tensor(weights) * forces).sum(), epsilon)
    else:
        import madelung.jax as mj

        with module.enable_x64(True) if hasattr(module, "enable_x64") else nullcontext():
            arrays = {name: module.numpy.asarray(given[name]) for name in names}
            pairs = mj.find_neighbors(arrays["positions"], CUTOFF, arrays["cell"])

            def of(epsilon: Any) -> Any:
                own_arrays = given | arrays | {"epsilon": epsilon, "neighbors": pairs}
                return (weights * mj.lennard_jones(**own_arrays, **own)[1]).sum()

            slope = np.asarray(module.jit(module.grad(of))(arrays["epsilon"]))
    # That by a depth of zero is infinite, and taken as zero.
    assert float(slope[0] - 0.5 * slope[1]) == pytest.approx(expected, rel=1e-6) and float(slope[2]) == 0.0


def test_a_batch_has_the_numbers_of_its_systems() -> None:
    given = crystal()
    n = len(given["types"])
    other = given["positions"] + np.random.default_rng(5).normal(scale=0.05, size=(n, 3))
    both = {
        "positions": np.concatenate([given["positions"], other]),
        "types": np.tile(given["types"], 2),
        "cell": np.stack([given["cell"]] * 2),
        "batch_idx": np.repeat(np.arange(2, dtype=np.int32), n),
    }
    together = summed(given | both, "geometric", "pme", **WANTED)
    for b, positions in enumerate((given["positions"], other)):
        alone = summed(given | {"positions": positions}, "geometric", "pme", **WANTED)
        assert together[0][b] == pytest.approx(alone[0][0], rel=1e-12)
        np.testing.assert_allclose(together[1][b * n : (b + 1) * n], alone[1], atol=1e-12)
        np.testing.assert_allclose(together[2][b], alone[2], atol=1e-10)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "mixing": ({"mixing": "waldman-hagler"}, "`dispersion`: expected `mixing` of .*, got 'waldman-hagler'"),
    "tables": ({"mixing": None, "epsilon": np.eye(3), "sigma": np.eye(3)}, "`dispersion`: expected `mixing`"),
    "slab": ({"pbc": (True, True, False)}, "`pbc`: expected all axes periodic"),
    "method": ({"dispersion": "mesh"}, "`dispersion`: expected"),
    "open": ({"cell": None}, "`cell`: expected lattice vectors"),
    "without": ({"dispersion": None}, "`accuracy`: expected None without `dispersion`"),
    "nodes": ({"mesh_dimensions": (8, 8, 8)}, "`mesh_dimensions`: expected None, or `dispersion"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_named(name: str) -> None:
    changed, said = BAD[name]
    with pytest.raises(ValueError, match=said):
        mn.lennard_jones(**(crystal() | {"mixing": "geometric", "dispersion": "ewald", "accuracy": 1e-5} | changed))
