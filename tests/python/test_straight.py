"""Straight calls, on plain arrays in one call of the extension, beside the way of all other calls."""

import dataclasses
import gc

import numpy as np
import pytest
import torch

import madelung.numpy as mn
import madelung.torch as mt
from bodies import ALPHA, CUTOFF, FLAGS, SIDE, arguments, lent, passed
from madelung import _native
from madelung._functions.declare import FUNCTIONS
from madelung.numpy import _bound as of_numpy
from madelung.numpy._framework import Numpy
from madelung.torch import _bound as of_torch
from madelung.torch._framework import mode_of
from madelung.torch._plain import PLAIN

NAMES = [name for name, declared in FUNCTIONS.items() if declared.op is not None]
has_table = pytest.mark.skipif(PLAIN is None, reason="PyTorch before 2.10 has no table of functions for tensors")


def both(name: str, given: dict, namespace: str) -> tuple:
    """The results of a straight call, and those of its body."""
    at = passed(name, given)
    body = FUNCTIONS[name].body
    calls = of_torch.STRAIGHT if namespace == "torch" else of_numpy.STRAIGHT
    framework = mode_of(given["positions"]) if namespace == "torch" else Numpy
    found, other = calls[body](at), body(framework, *at)
    found = of_torch.Eager.evaluated(*found.arguments) if isinstance(found, _native.InGraph) else found
    return (found if isinstance(found, tuple) else (found,)), (other if isinstance(other, tuple) else (other,))


@pytest.mark.parametrize("namespace", ["numpy", pytest.param("torch", marks=has_table)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("systems", [0, 1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_bits_are_those_of_other_calls(name, systems, dtype, namespace):
    of = {p.name for p in FUNCTIONS[name].parameters()}
    for reduction in ("atom", "system"):
        for asked in ((), FLAGS[:1], FLAGS[1:2], FLAGS[2:], FLAGS):
            given = arguments(name, dtype, systems) | {"energy_reduction": reduction, "prefactor": 1.5}
            given |= {flag: True for flag in asked if flag in of}
            given = {k: lent(v) for k, v in given.items()} if namespace == "torch" else given
            found, other = both(name, given, namespace)
            assert found[0] is not NotImplemented
            assert len(found) == len(other)
            for x, y in zip(found, other):
                assert (type(x), x.dtype, x.shape) == (type(y), y.dtype, y.shape)
                assert np.array_equal(np.asarray(x), np.asarray(y)), (reduction, asked)


def of_plain_arrays(given):
    """The same with the list as pairs, offsets and images."""
    return {k: v for k, v in given.items() if k != "neighbors"} | given["neighbors"].lists


WITH_LISTS = [name for name in NAMES if "neighbors" in {p.name for p in FUNCTIONS[name].parameters()}]


@pytest.mark.parametrize("namespace", ["numpy", pytest.param("torch", marks=has_table)])
@pytest.mark.parametrize("systems", [0, 3])
@pytest.mark.parametrize("name", WITH_LISTS)
def test_lists_of_plain_arrays(name, systems, namespace):
    given = of_plain_arrays(arguments(name, np.float64, systems)) | {"compute_forces": True}
    of = {k: lent(v) for k, v in given.items()} if namespace == "torch" else given
    found, other = both(name, of, namespace)
    assert found[0] is not NotImplemented
    assert all(np.array_equal(np.asarray(x), np.asarray(y)) for x, y in zip(found, other))
    pairs, ptr = given["neighbor_list"], given["neighbor_ptr"]
    swapped, early = pairs.copy(), ptr.copy()
    swapped[0, 0], early[1] = 5, ptr[1] - 1
    for change in (
        {"neighbor_list": swapped},
        {"neighbor_list": pairs[:, :-1].copy()},
        {"neighbor_list": pairs.astype(np.int64)},
        {"neighbor_ptr": early},
        {"neighbor_ptr": -ptr},
        {"neighbor_ptr": ptr[:-1].copy()},
        {"neighbor_ptr": None},
        {"neighbor_shifts": given["neighbor_shifts"][:-1].copy()},
    ):
        at = {k: lent(v) for k, v in (given | change).items()} if namespace == "torch" else given | change
        straight = (of_torch if namespace == "torch" else of_numpy).STRAIGHT[FUNCTIONS[name].body]
        assert straight(passed(name, at)) is NotImplemented, change


@has_table
@pytest.mark.parametrize("systems", [0, 2])
@pytest.mark.parametrize(("name", "plain"), [*((n, False) for n in NAMES), *((n, True) for n in WITH_LISTS)])
def test_derivatives_are_those_of_other_calls(name, systems, plain):
    given = arguments(name, np.float64, systems)
    given = {k: lent(v) for k, v in (of_plain_arrays(given) if plain else given).items()}
    given |= {"energy_reduction": "system", "compute_forces": True}
    inputs = [k for k in ("positions", "charges", "cell") if k in given]
    for k in inputs:
        given[k] = given[k].clone().requires_grad_()
    found, other = both(name, given, "torch")
    for (energies, forces), (energies_too, forces_too) in [(found, other)]:
        assert torch.equal(energies, energies_too) and torch.equal(forces, forces_too)
        gradients, gradients_too = (
            torch.autograd.grad(e.sum() + (f * f).sum(), [given[k] for k in inputs], create_graph=True)
            for e, f in ((energies, forces), (energies_too, forces_too))
        )
        assert all(torch.equal(x, y) for x, y in zip(gradients, gradients_too))
    with torch.no_grad():
        assert not both(name, given, "torch")[0][0].requires_grad


@pytest.mark.parametrize("namespace", ["numpy", pytest.param("torch", marks=has_table)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_coulomb_within_a_cutoff_and_without(alpha, dtype, namespace):
    given = arguments("coulomb", dtype, 0) | {"alpha": alpha, "compute_forces": True}
    zero = given["cell"] * np.array([[1], [1], [0]], dtype)
    open_list = mn.find_neighbors(given["positions"], CUTOFF)
    for change, is_straight in (
        ({}, True),
        ({"cutoff": None}, True),
        ({"cutoff": None, "cell": zero}, False),
        ({"cutoff": None, "cell": None, "neighbors": open_list}, False),
        ({"cell": None, "neighbors": open_list}, True),
        ({"pbc": (True, True, False)}, False),
        ({"alpha": np.ones(1, dtype)}, False),
    ):
        at = given | change
        at = {k: lent(v) for k, v in at.items()} if namespace == "torch" else at
        straight = (of_torch if namespace == "torch" else of_numpy).STRAIGHT[FUNCTIONS["coulomb"].body]
        assert (straight(passed("coulomb", at)) is not NotImplemented) == is_straight, change
        if is_straight:
            found, other = both("coulomb", at, namespace)
            assert all(np.array_equal(np.asarray(x), np.asarray(y)) for x, y in zip(found, other))


@has_table
@pytest.mark.parametrize("rows", [[1, 2], [0, 1, 2]])
@pytest.mark.parametrize("name", ["ewald_summation", "particle_mesh_ewald"])
def test_gradients_of_cells_with_open_axes(name, rows):
    given = arguments(name, np.float64, 0)
    given["cell"][rows] = 0.0
    given["neighbors"] = mn.find_neighbors(given["positions"], CUTOFF, given["cell"])
    given = {k: lent(v) for k, v in given.items()}
    energies = getattr(mt, name)(**given)
    given["positions"] = given["positions"].clone().requires_grad_()
    again = getattr(mt, name)(**given)
    assert again.requires_grad
    assert torch.equal(again, energies)


@pytest.mark.parametrize("field", [{"atoms": -1}, {"atoms": None}, {"cutoff": None}, {"cell": np.eye(3) * SIDE}])
def test_lists_that_no_search_made(field):
    given = arguments("dsf", np.float64, 0)
    given["neighbors"] = dataclasses.replace(given["neighbors"], **field)
    assert of_numpy.STRAIGHT[FUNCTIONS["dsf"].body](passed("dsf", given)) is NotImplemented


@pytest.mark.parametrize("namespace", ["numpy", pytest.param("torch", marks=has_table)])
@pytest.mark.parametrize("name", ["lennard_jones", "dsf", "coulomb"])
def test_systems_without_a_cell(name, namespace):
    given = arguments(name, np.float64, 0, has_cell=False)
    given = {k: lent(v) for k, v in given.items()} if namespace == "torch" else given
    straight = (of_torch if namespace == "torch" else of_numpy).STRAIGHT[FUNCTIONS[name].body]
    assert straight(passed(name, given | {"pbc": True})) is NotImplemented
    found, other = both(name, given | {"compute_virial": True}, namespace)
    assert found[0] is not NotImplemented
    assert all(np.array_equal(np.asarray(x), np.asarray(y)) and x.shape == y.shape for x, y in zip(found, other))


# Changes of a sum with everything given, as functions of its arguments.
OTHERS = {
    "accuracy": lambda of: {"accuracy": 1e-3},
    "slabs": lambda of: {"pbc": (True, True, False), "slab_correction": True},
    "exponent": lambda of: {"exponent": 6},
    "alpha without axes": lambda of: {"alpha": torch.tensor(ALPHA, dtype=torch.float64)},
    "a longer cutoff": lambda of: {"cutoff": 2 * CUTOFF},
    "hybrid forces": lambda of: {"hybrid_forces": True},
    "a number for a flag": lambda of: {"compute_forces": 1},
    "another word": lambda of: {"energy_reduction": "all"},
    "sets of charges": lambda of: {"charges": torch.ones(12, 2, dtype=torch.float64)},
    "charges of integers": lambda of: {"charges": torch.ones(12, dtype=torch.int64)},
    "too few charges": lambda of: {"charges": torch.ones(11, dtype=torch.float64)},
    "columns first": lambda of: {"positions": of["positions"].T.contiguous().T},
    "single precision": lambda of: {"positions": of["positions"].float()},
    "negatives": lambda of: {"positions": torch._neg_view(of["positions"])},
    "sparse": lambda of: {"positions": of["positions"].to_sparse()},
    "no memory": lambda of: {"positions": of["positions"].to("meta")},
    "another library": lambda of: {"positions": of["positions"].numpy()},
    "another cell": lambda of: {"cell": of["cell"] * 1.001},
    "a cell that is not finite": lambda of: {"cell": of["cell"] * torch.nan},
    "no cell": lambda of: {"cell": None},
    "negative images": lambda of: (
        of["neighbors"].lists
        | {"neighbors": None, "neighbor_shifts": torch._neg_view(of["neighbors"].lists["neighbor_shifts"])}
    ),
    "packed images": lambda of: (
        of["neighbors"].lists
        | {"neighbors": None, "neighbor_shifts": of["neighbors"].lists["neighbor_shifts"][:, 0].contiguous()}
    ),
}


@has_table
@pytest.mark.parametrize("change", OTHERS)
def test_other_calls_go_another_way(change):
    given = {k: lent(v) for k, v in arguments("ewald_summation", np.float64, 0).items()}
    straight = of_torch.STRAIGHT[FUNCTIONS["ewald_summation"].body]
    assert straight(passed("ewald_summation", given)) is not NotImplemented
    assert straight(passed("ewald_summation", given | OTHERS[change](given))) is NotImplemented


@has_table
def test_negatives_are_seen():
    given = {k: lent(v) for k, v in arguments("ewald_summation", np.float64, 0).items()}
    whole = given | {"charges": torch._neg_view(given["charges"]), "compute_charge_gradients": True}
    energies, potentials = mt.ewald_summation(**whole)
    plain, opposite = mt.ewald_summation(**given, compute_charge_gradients=True)
    assert torch.equal(energies, plain) and torch.equal(potentials, -opposite)


@has_table
def test_those_who_watch_the_dispatcher_see_calls():
    given = {k: lent(v) for k, v in arguments("ewald_real_space", np.float64, 0).items()}
    del given["neighbors"], given["cutoff"]
    pairs = mt.find_neighbors(given["positions"], CUTOFF, given["cell"])

    def energies(positions):
        return mt.ewald_real_space(**given | {"positions": positions}, neighbors=pairs)

    with torch.profiler.profile() as profile:
        energies(given["positions"])
    assert any("ewald_real_space" in event.name for event in profile.events())

    seen = []

    class Watching(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **kwargs or {})

    with Watching():
        energies(given["positions"])
    assert any("ewald_real_space" in name for name in seen)

    moved = given["positions"] * 0.99
    with pytest.raises(ValueError, match="outside of `torch.jit.trace`"):
        torch.jit.trace(energies, (moved,))

    along = torch.ones_like(moved)
    _, tangent = torch.func.jvp(energies, (moved,), (along,))
    slope = torch.autograd.grad(energies(moved.requires_grad_()).sum(), moved)[0].sum()
    assert torch.allclose(tangent.sum(), slope, rtol=0, atol=1e-12)


@has_table
def test_results_are_freed_and_arguments_kept():
    given = {k: lent(v) for k, v in arguments("ewald_real_space", np.float64, 0).items()}
    forces = mt.ewald_real_space(**given, compute_forces=True)[1]
    kept = forces.clone()
    gc.collect()
    for _ in range(50):
        mt.ewald_real_space(**given, compute_forces=True)
    assert torch.equal(forces, kept)
    forces.resize_(0)
    forces = mt.ewald_real_space(**given, compute_forces=True)[1]
    assert forces.is_contiguous() and forces.untyped_storage().nbytes() == forces.numel() * 8
    with torch.inference_mode():
        assert mt.ewald_real_space(**given).is_inference() is torch.ones(1).is_inference()


def test_arrays_of_numpy_that_are_not_plain():
    given = arguments("ewald_real_space", np.float64, 0)
    body = FUNCTIONS["ewald_real_space"].body
    expected = mn.ewald_real_space(**given)
    r = given["positions"]
    for other in (np.asfortranarray(r), r.astype(">f8"), r[::-1][::-1], r.tolist(), np.ma.array(r)):
        call = of_numpy.STRAIGHT[body]
        is_plain = type(other) is np.ndarray and other.flags.c_contiguous and other.dtype.isnative
        assert (call(passed("ewald_real_space", given | {"positions": other})) is NotImplemented) != is_plain
        if not isinstance(other, np.ma.MaskedArray):
            assert np.array_equal(mn.ewald_real_space(**given | {"positions": other}), expected)
    r.flags.writeable = False
    assert np.array_equal(mn.ewald_real_space(**given), expected)


def test_parameters_that_no_call_has():
    targets = [["madelung.ewald_real_space_v1"] * 2] * 2
    with pytest.raises(ValueError, match="`positions`: expected a parameter of the function, got none"):
        _native.Straight(targets, [("charges", [])], [None], _native.Plain.of_numpy(), type(None), None)
    with pytest.raises(NotImplementedError, match="no such op"):
        _native.PlainOp("madelung.nothing_v1", _native.Plain.of_numpy(), False)
