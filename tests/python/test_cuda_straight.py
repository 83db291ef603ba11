"""Straight calls of `madelung.cuda`, one call of the extension each, beside the way of all other calls."""

import pytest

from madelung._functions.declare import FUNCTIONS
from madelung.cuda._framework import STRAIGHT
from test_cuda_arrays import run

pytestmark = pytest.mark.host("stand-ins are for machines without a GPU")

NAMES = [name for name, declared in FUNCTIONS.items() if declared.op is not None]

PROGRAM = """
import dataclasses
from bodies import ALPHA, CUTOFF, FLAGS, SIDE, arguments, passed
from madelung._functions.declare import FUNCTIONS
from madelung._neighbors import Neighbors
from madelung.cuda._arrays import stream_of
from madelung.cuda._framework import STRAIGHT, Cuda

def on_device(x):
    if isinstance(x, Neighbors):
        return dataclasses.replace(x, **{k: on_device(getattr(x, k)) for k in Neighbors.ARRAYS})
    return mc.asarray(x) if isinstance(x, np.ndarray) else x

def placed(given):
    return {k: on_device(v) for k, v in given.items()}

def straight(name, given):
    # After a call that has made the constants.
    return STRAIGHT[FUNCTIONS[name].body](passed(name, given), stream_of(None, 0))

def same(name, given):
    other = FUNCTIONS[name].body(Cuda(stream_of(None, 0)), *passed(name, given))
    found = straight(name, given)
    found, other = (x if isinstance(x, tuple) else (x,) for x in (found, other))
    assert len(found) == len(other), (name, found)
    for x, y in zip(found, other):
        assert (type(x), x.dtype, x.shape) == (mc.Array, y.dtype, y.shape)
        np.testing.assert_array_equal(x, y)
        assert np.isfinite(x.numpy()).all()

def plain(given):
    return {k: v for k, v in given.items() if k != "neighbors"} | given["neighbors"].lists
"""


@pytest.mark.parametrize("name", NAMES)
def test_bits_are_those_of_other_calls(name: str) -> None:
    run(f"""{PROGRAM}
name = {name!r}
of = {{p.name for p in FUNCTIONS[name].parameters()}}
for dtype, systems in (np.float32, 0), (np.float64, 0), (np.float64, 3):
    given = placed(arguments(name, dtype, systems)) | {{"prefactor": 1.5}}
    lists = [given] if "neighbors" not in given else [given, placed(plain(arguments(name, dtype, systems)))]
    for at in lists:
        for reduction in ("atom", "system"):
            for asked in (), FLAGS[:1], FLAGS[1:]:
                flags = {{flag: True for flag in asked if flag in of}}
                same(name, at | flags | {{"energy_reduction": reduction}})
madelung.check_device(0)
""")


def test_calls_of_all_libraries_are_straight() -> None:
    run(f"""{PROGRAM}
given = plain(arguments("ewald_real_space", np.float64, 0))
expected = mn.ewald_real_space(**given, compute_forces=True)
foreign = {{k: Interface(v) if isinstance(v, np.ndarray) else v for k, v in given.items()}}
of_cuda = mc.ewald_real_space
body, calls = FUNCTIONS["ewald_real_space"].body, []
def counted(*at):
    calls.append(before(*at))
    return calls[-1]
of_cuda(**placed(given))
before, STRAIGHT[body] = STRAIGHT[body], counted
for at in (placed(given), foreign):
    found = of_cuda(**at, compute_forces=True)
    assert found is calls.pop() and not calls
    for x, y in zip(found, expected):
        close(x, y, 1e-12)
# With arrays of NumPy beside those of a device the call goes the other way, which copies them.
mixed = of_cuda(**placed(given) | {{"charges": given["charges"]}}, compute_forces=True)
assert calls == [NotImplemented]
for x, y in zip(mixed, expected):
    close(x, y, 1e-12)
""")


def test_other_calls_go_another_way() -> None:
    run(f"""{PROGRAM}
given = placed(plain(arguments("ewald_summation", np.float64, 0)))
mc.ewald_summation(**given)
assert straight("ewald_summation", given) is not NotImplemented
half = placed({{"positions": np.ones((12, 3), np.float32)}})
for change in (
    {{"accuracy": 1e-3}},
    {{"pbc": (True, True, False)}},
    {{"exponent": 6}},
    {{"alpha": None}},
    {{"cutoff": 0.0}},
    {{"miller_indices": None, "miller_batch_idx": None, "k_cutoff": 3.0}},
    {{"neighbor_ptr": None}},
    {{"neighbor_shifts": None}},
    {{"charges": arguments("ewald_summation", np.float64, 0)["charges"]}},
    {{"cell": None}},
    {{"compute_forces": 1}},
    {{"hybrid_forces": True}},
    half,
):
    assert straight("ewald_summation", given | change) is NotImplemented, change
of_list = placed(arguments("coulomb", np.float64, 0))
mc.coulomb(**of_list)
assert straight("coulomb", of_list) is not NotImplemented
for change in (
    {{"cutoff": None}},
    {{"cutoff": 2 * CUTOFF}},
    {{"cell": None}},
    {{"neighbors": dataclasses.replace(of_list["neighbors"], atoms=3)}},
    {{"neighbors": dataclasses.replace(of_list["neighbors"], cell=None)}},
    {{"neighbors": dataclasses.replace(of_list["neighbors"], pbc=((True, True, False),))}},
):
    assert straight("coulomb", of_list | change) is NotImplemented, change
""")


def test_constants_are_made_once_for_each_stream() -> None:
    run(f"""{PROGRAM}
import madelung.kernels
given = placed(plain(arguments("ewald_real_space", np.float64, 0)))
def launches(**more):
    before = dev.calls("cuLaunchKernel") + dev.calls("cuMemsetD8Async")
    mc.ewald_real_space(**given | more)
    return dev.calls("cuLaunchKernel") + dev.calls("cuMemsetD8Async") - before
first = launches()
assert launches() < first
again = launches()
other = dev.stream()
assert launches(stream=other) == first and launches(stream=other) == again
# A graph makes its own.
side = dev.stream()
assert launches(stream=side) == first and launches(stream=side) == again
beside = {{k: mc.asarray(x.numpy(), stream=side) if isinstance(x, mc.Array) else x for k, x in given.items()}}
with madelung.kernels.capture(side) as graph:
    assert launches(**beside, stream=side) == first
    captured = mc.ewald_real_space(**beside, stream=side)
graph.launch(side)
np.testing.assert_array_equal(captured, mc.ewald_real_space(**given))
mc.release_memory()
assert launches(stream=side) == first
""")


def test_lists_are_checked_unless_a_search_has_made_them_here() -> None:
    run(f"""{PROGRAM}
given = placed(plain(arguments("ewald_real_space", np.float64, 0)))
wrong = given["neighbor_list"].numpy()
wrong[1, 0] = 99
assert np.isnan(mc.ewald_real_space(**given | {{"neighbor_list": mc.asarray(wrong)}}).numpy()).all()
with refused(ValueError, "one out of range"):
    madelung.check_device(0)

def is_checked(*list):
    ptr, columns, images = (x._native for x in list)
    return ptr.is_checked_list(columns, images)

def of_list(neighbors):
    return neighbors.index, neighbors.columns, neighbors.images

def searched():
    return mc.find_neighbors(given["positions"], CUTOFF, given["cell"])

others = {{k: v for k, v in given.items() if not k.startswith("neighbor_")}}
expected = mc.ewald_real_space(**given)
found, again = searched(), searched()
pairs, ptr, shifts = mc.neighbor_list(given["positions"], CUTOFF, given["cell"])
whole = {{"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts}}
for list in ({{"neighbors": found}}, whole):
    np.testing.assert_array_equal(mc.ewald_real_space(**others, **list), expected)
    at = {{"positions": given["positions"], "charges": given["charges"]}}
    np.testing.assert_array_equal(mc.coulomb(**at, cell=given["cell"], cutoff=CUTOFF, **list), mc.coulomb(
        **at, cell=given["cell"], cutoff=CUTOFF, **{{k: given[k] for k in whole}}))
assert is_checked(*of_list(found)) and is_checked(ptr, pairs, shifts) and is_checked(ptr, pairs[1], shifts)
half, half_ptr, half_shifts = mc.neighbor_list(given["positions"], CUTOFF, given["cell"], half_fill=True)
assert not is_checked(half_ptr, half, half_shifts)
assert not is_checked(ptr, pairs[0], shifts) and not is_checked(*of_list(found)[:2], again.images)
assert not any(is_checked(*of_list(found)[:n], x, *of_list(found)[n + 1 :])
               for n, x in enumerate((mc.asarray(given["neighbor_ptr"]), pairs[1], shifts)))
# What others have may change.
found.columns.__cuda_array_interface__
again.images.__dlpack__()
assert not is_checked(*of_list(found)) and not is_checked(*of_list(again))
np.testing.assert_array_equal(mc.ewald_real_space(**others, neighbors=found), expected)
madelung.check_device(0)
""")


def test_lists_that_did_not_fit_are_errors() -> None:
    run(f"""{PROGRAM}
given = placed(plain(arguments("ewald_real_space", np.float64, 0)))
others = {{k: v for k, v in given.items() if not k.startswith("neighbor_")}}
pairs, ptr, shifts = mc.neighbor_list(given["positions"], CUTOFF, given["cell"], capacity=7)
with refused(ValueError, "capacity"):
    madelung.check_device(0)
list = {{"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts}}
assert np.isnan(mc.ewald_real_space(**others, **list).numpy()).all()
with refused(ValueError, "a capacity that is too small"):
    madelung.check_device(0)
""")


def test_functions_have_straight_calls() -> None:
    assert {FUNCTIONS[name].body for name in NAMES} == set(STRAIGHT)
