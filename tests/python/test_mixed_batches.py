"""Batches of any mix of crystals, slabs, wires and molecules, with any list and any subset of parameters given.

Their results are those of single calls, and the same whichever way a call goes."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from bodies import lent, passed
from conftest import required
from madelung._functions.declare import FUNCTIONS
from madelung.numpy._framework import Numpy

EVERYTHING = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}
CRYSTAL, SLAB, WIRE, OPEN = (True,) * 3, (True, True, False), (False, True, False), (False,) * 3
SUMS = ("ewald_summation", "particle_mesh_ewald")


def mixture(seed: int) -> dict[str, Any]:
    """Up to five systems of any kind."""
    rng = np.random.default_rng(seed)
    kinds = [CRYSTAL, SLAB, WIRE, OPEN]
    axes = [kinds[k] for k in rng.integers(0, 4, rng.integers(1, 6))]
    counts = rng.integers(0, 14, len(axes))
    counts[rng.integers(0, len(axes))] = 12
    cells = np.diag([7.0, 7.5, 8.0]) + rng.uniform(-0.5, 0.5, (len(axes), 3, 3))
    for h, row in zip(cells, axes):
        h[~np.array(row)] *= rng.uniform(0.0, 1.0)
    r = rng.uniform(0.0, 6.0, (counts.sum(), 3))
    return {
        "positions": r,
        "charges": rng.normal(size=len(r)),
        "cell": cells,
        "pbc": np.array(axes),
        "batch_idx": np.repeat(np.arange(len(axes), dtype=np.int32), counts),
        "slab_correction": True,
    }


def options(seed: int, of: dict[str, Any]) -> dict[str, Any]:
    """Some of the parameters of a sum, perhaps a list, perhaps exclusions."""
    rng = np.random.default_rng(1000 + seed)
    given: dict[str, Any] = {"accuracy": 1e-7} if rng.random() < 0.5 else {}
    if rng.random() < 0.3:
        given |= {"alpha": 0.9, "accuracy": 1e-6}
    if rng.random() < 0.4:
        given["neighbors"] = mn.find_neighbors(of["positions"], 6.5, of["cell"], of["pbc"], of["batch_idx"])
    elif rng.random() < 0.3:
        given |= {"cutoff": 5.5}
    if rng.random() < 0.4:
        first = np.flatnonzero(of["batch_idx"] == of["batch_idx"][0])
        given |= {"exclusions": np.array([[first[0], first[-1]]], np.int32)} if len(first) > 1 else {}
    return given


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("namespace", ["numpy", "torch", "jax"])
def test_batches_are_their_systems(namespace: str, seed: int) -> None:
    of = mixture(seed)
    given = options(seed, of)
    name = SUMS[seed % 2]
    both = called(namespace, name, of | given | EVERYTHING)
    reach = given.pop("neighbors").cutoff if "neighbors" in given else given.pop("cutoff", None)
    pair = given.pop("exclusions", None)
    for b, row in enumerate(of["pbc"]):
        own, more = of["batch_idx"] == b, dict(given)
        first = int(np.argmax(own))
        if reach is not None and row.sum() > 1:
            more["cutoff"] = reach
        if pair is not None and of["batch_idx"][pair[0, 0]] == b:
            more["exclusions"] = pair - first
        elif pair is not None and name == "ewald_summation":
            more["method"] = "list"
        system = {"positions": of["positions"][own], "charges": of["charges"][own], "cell": of["cell"][b], "pbc": row}
        alone = called("numpy", name, system | more | {"slab_correction": True} | EVERYTHING)
        for n, x in enumerate(alone):
            found = both[n][b] if n == 3 else both[n][own]
            # Sums of different lists, wholly the same but for the order of their terms.
            assert np.abs(found - x).max(initial=0.0) <= 1e-11 * np.abs(x).max(initial=1.0), (b, row, n)


def called(namespace: str, name: str, given: dict[str, Any]) -> list[np.ndarray]:
    """The results of a function of a namespace, as arrays of NumPy."""
    if namespace == "numpy":
        return list(getattr(mn, name)(**given))
    module = required(f"madelung.{namespace}")
    if namespace == "torch":
        return [np.asarray(x) for x in getattr(module, name)(**{k: lent(x) for k, x in given.items()})]
    jax = required("jax")
    with jax.enable_x64(True):
        neighbors = given.get("neighbors")
        given = {k: jax.numpy.asarray(x) if isinstance(x, np.ndarray) else x for k, x in given.items()}
        if neighbors is not None:
            system = [given[k] for k in ("positions", "cell", "pbc", "batch_idx")]
            given["neighbors"] = module.find_neighbors(system[0], neighbors.cutoff, *system[1:])
        return [np.asarray(x) for x in getattr(module, name)(**given)]


def requests(seed: int) -> tuple[str, dict[str, Any]]:
    """A sum and what it is asked for: in either precision, with lists in any form, waves, meshes, widths, factors."""
    rng = np.random.default_rng(2000 + seed)
    of, name = mixture(seed), SUMS[rng.integers(0, 2)]

    def likely(p: float) -> bool:
        return bool(rng.random() < p)

    if likely(0.3):
        # One system that is no batch.
        b = int(of["batch_idx"][0])
        own = of.pop("batch_idx") == b
        of |= {"positions": of["positions"][own], "charges": of["charges"][own], "cell": of["cell"][b]}
        of["pbc"] = of["pbc"][b]
    of["pbc"] = of["pbc"].tolist() if likely(0.5) else of["pbc"]
    if likely(0.3):
        of |= {k: of[k].astype(np.float32) for k in ("positions", "charges", "cell")}
    atoms, count = len(of["positions"]), len(np.atleast_3d(of["cell"])) if "batch_idx" in of else 1
    given: dict[str, Any] = {"energy_reduction": ("atom", "system")[rng.integers(0, 2)], "prefactor": 2.5}
    given |= {flag: likely(0.5) for flag in EVERYTHING}
    if likely(0.4):
        given["accuracy"] = 1e-4
    if likely(0.4):
        given["alpha"] = 0.9 if likely(0.5) else np.full(count, 0.9, of["positions"].dtype)
    if likely(0.5):
        search = {k: of[k] for k in ("cell", "pbc", "batch_idx") if k in of}
        found = mn.find_neighbors(of["positions"], 5.5, **search)
        given |= {"neighbors": found} if likely(0.6) else found.lists | {"cutoff": 5.5}
    elif likely(0.4):
        given["cutoff"] = 5.5 if likely(0.5) else np.linspace(5.0, 5.5, count).astype(of["positions"].dtype)
    if name == "particle_mesh_ewald" and likely(0.5):
        given |= {"mesh_dimensions": (12, 14, 16), "spline_order": (None, 4)[rng.integers(0, 2)]}
    elif name == "ewald_summation" and likely(0.4):
        if likely(0.5):
            given["k_cutoff"] = 4.0
        else:
            given["slab_height"] = 14.0
            waves = mn.generate_miller_indices(of["cell"], 4.0, pbc=of["pbc"], slab_height=14.0)
            given |= dict(zip(("miller_indices", "miller_batch_idx"), waves))
    if name == "ewald_summation" and likely(0.3):
        given["method"] = ("direct", "list")[rng.integers(0, 2)]
    if likely(0.3) and atoms > 2:
        pairs = np.array([[0, 1]], np.int64)
        given["exclusions"] = pairs if likely(0.5) else (pairs, 0.5)
    elif likely(0.3):
        given["widths"] = rng.uniform(0.3, 0.5, atoms).astype(of["positions"].dtype)
    return name, of | given


@pytest.mark.parametrize("namespace", ["numpy", "torch"])
def test_native_sums_have_the_bits_of_composed_ones(namespace: str) -> None:
    """Plain calls are composed and run in Rust, others in Python: by the same plans, with the same bits or an error."""
    bound = importlib.import_module(f"madelung.{namespace}._bound")
    if not bound.STRAIGHT:
        pytest.skip("PyTorch before 2.10 has no table of functions for tensors")
    taken, failed = 0, 0
    for seed in range(160):
        name, given = requests(seed)
        body = FUNCTIONS[name].body
        framework: Any = Numpy
        if namespace == "torch":
            given = {k: lent(x) for k, x in given.items()}
            framework = bound.mode_of(given["positions"])
        at = passed(name, given)
        found = bound.STRAIGHT[body](at)
        try:
            composed = body(framework, *at)
        except (ValueError, TypeError, RuntimeError):
            composed = NotImplemented
            failed += 1
        if found is NotImplemented:
            continue
        assert composed is not NotImplemented, seed
        taken += 1
        several = (x if isinstance(x, tuple) else (x,) for x in (found, composed))
        for x, y in zip(*several, strict=True):
            assert (type(x), x.dtype, x.shape) == (type(y), y.dtype, y.shape), seed
            assert np.array_equal(np.asarray(x), np.asarray(y)), (seed, name)
    assert taken > 3 * (160 - failed) // 4, (taken, failed)


def test_sums_whose_inputs_have_derivatives_keep_them() -> None:
    import torch

    import madelung.torch as mt

    rng = np.random.default_rng(5)
    r, q, h = rng.uniform(0.0, 6.0, (12, 3)), rng.normal(size=12), 7.0 * np.eye(3)
    given = {"positions": r, "charges": q, "cell": h, "alpha": np.array([0.9]), "cutoff": 3.0, "k_cutoff": 6.0}
    tensors = {k: torch.from_numpy(x) if isinstance(x, np.ndarray) else x for k, x in given.items()}
    pairs = torch.tensor([[0, 1]])
    factors, widths = torch.tensor([0.5], dtype=torch.float64), torch.full((12,), 0.25, dtype=torch.float64)
    for more, inputs in (
        ({}, ("positions", "charges", "cell", "alpha")),
        ({"exclusions": (pairs, factors)}, ("positions", "charges", "cell", "alpha", "factors")),
        ({"widths": widths, "accuracy": 1e-2}, ("positions", "charges", "cell", "widths")),
    ):
        for name in inputs:
            own = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in (tensors | more).items()}
            if name == "factors":
                leaf = factors.clone().requires_grad_()
                own["exclusions"] = (pairs, leaf)
            else:
                leaf = own[name].requires_grad_()
            energies = mt.ewald_summation(**own)
            assert torch.autograd.grad(energies.sum(), leaf)[0].any(), (list(more), name)


def crystal() -> dict[str, Any]:
    """Twelve charges in a box, with a list, α and a radius of waves."""
    rng = np.random.default_rng(5)
    of = {"positions": rng.uniform(0.0, 6.0, (12, 3)), "charges": rng.normal(size=12), "cell": 7.0 * np.eye(3)}
    found = mn.find_neighbors(of["positions"], 3.0, of["cell"])
    return of | found.lists | {"alpha": 0.9, "cutoff": 3.0, "k_cutoff": 4.0}


WAVES, OF_WAVES = mn.generate_miller_indices(7.0 * np.eye(3), 4.0)
DIRECT = {name: None for name in ("neighbor_list", "neighbor_ptr", "neighbor_shifts", "k_cutoff")}
DIRECT |= {"method": "direct", "miller_indices": WAVES}
BATCH = {"cell": np.stack([7.0 * np.eye(3)] * 3), "batch_idx": np.repeat([0, 2], 6), "slab_correction": True}


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("ewald_summation", {"neighbor_shifts": np.zeros(30, np.int32)}, "`neighbor_shifts`: expected shape"),
        ("ewald_summation", DIRECT | {"miller_batch_idx": OF_WAVES[:-1].copy()}, "`miller_batch_idx`: expected shape"),
        (
            "ewald_summation",
            DIRECT | {"miller_batch_idx": np.append(OF_WAVES, 0)},
            "`miller_batch_idx`: expected shape",
        ),
        ("ewald_summation", BATCH | {"pbc": np.array([CRYSTAL, SLAB])}, "`pbc`: expected one row"),
        ("ewald_summation", BATCH | {"pbc": np.array([OPEN] * 2), "exclusions": np.array([[0, 1]])}, "`pbc`: expected"),
        ("ewald_summation", {"pbc": np.array([True] * 3, object)}, "`pbc`: expected True or False for each axis"),
        ("ewald_summation", {"slab_correction": 2}, "`slab_correction`: expected True or False"),
        ("ewald_summation", {"pbc": (False, True, False), "accuracy": 2.0}, "`accuracy`: expected"),
        ("particle_mesh_ewald", {"pbc": False, "spline_order": 3}, "`spline_order`: expected 4 to 8, got 3"),
        ("particle_mesh_ewald", {"pbc": False, "mesh_dimensions": (2**31, 12, 12)}, "`mesh_dimensions`: expected"),
    ],
)
def test_what_is_wrong_with_plain_calls_is_told(name: str, wrong: dict[str, Any], message: str) -> None:
    given = crystal() | wrong
    if "cell" in wrong:
        given |= {k: None for k in DIRECT if k.startswith("neighbor")}
    takes = {p.name for p in FUNCTIONS[name].parameters()}
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(mn, name)(**{k: x for k, x in given.items() if k in takes})


def test_lists_without_a_cell_are_those_of_no_axis() -> None:
    of = crystal()
    r, q, found = of["positions"], of["charges"], mn.find_neighbors(of["positions"], 3.0)
    pairs = [[0, 1]]  # A list of Python, which is not plain.
    expected = mn.ewald_summation(r, q, None, exclusions=pairs)
    for pbc in (None, False, (False, False, False)):
        energies = mn.ewald_summation(r, q, None, neighbors=found, pbc=pbc, exclusions=pairs)
        # The pairs within the list are added first.
        assert np.abs(energies - expected).max() < 1e-14


def test_arrays_of_another_byte_order() -> None:
    of = {k: x for k, x in crystal().items() if k in ("positions", "charges", "cell")}
    expected = mn.ewald_summation(**of)
    for name in of:
        swapped = of | {name: of[name].astype(">f8")}
        assert np.array_equal(mn.ewald_summation(**swapped), expected), name
