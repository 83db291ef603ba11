"""`madelung.cuda` with arrays of libraries that are made here, on the stand-ins for CUDA's libraries.

What is computed is held against `madelung.numpy`, which the other tests hold against independent sums: here it is the
way of the arrays that is tested.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import madelung
import madelung.cuda
import stand_in

HERE = Path(__file__).resolve().parent
pytestmark = pytest.mark.host("stand-ins are for machines without a GPU")

PREAMBLE = """
import ctypes, gc
import numpy as np
import madelung
import madelung.cuda as mc
import madelung.numpy as mn
import device_lenders as dev
from device_lenders import Block, Interface, Lender, close, refused

rng = np.random.default_rng(7)
corners = np.array([[n & 1, n >> 1 & 1, n >> 2 & 1] for n in range(8)], float)
h = np.diag([3.0, 3.3, -3.5]) + 0.3 * rng.random((3, 3))
r = 1.6 * corners + 0.5 * rng.random((8, 3))
q = 2 * rng.random(8) - 0.7
pairs, ptr, shifts = mn.neighbor_list(r, 4.0, h)
full = {"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts}
everything = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}
split = {"cutoff": 4.0, "k_cutoff": 6.0, "accuracy": None}
def there(x):
    return {name: Interface(array) for name, array in x.items()}
def all_close(found, expected, tolerance=1e-12):
    found, expected = (x if isinstance(x, tuple) else (x,) for x in (found, expected))
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert isinstance(a, mc.Array) and a.shape == b.shape and a.dtype == b.dtype
        close(a, b, tolerance)
"""


def run(program: str) -> None:
    # Kernels are compiled once, by the stand-in that they are for.
    cache = stand_in.folder() / "cache"
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = stand_in.run(PREAMBLE + program + "\nprint('done')", MADELUNG_CACHE=str(cache), PYTHONPATH=path)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stdout + done.stderr


def test_sums_are_those_of_numpy() -> None:
    run("""
here = (Interface(r), Lender(q), Interface(h))
expected = mn.ewald_summation(r, q, h, 0.9, **split, **everything)
found = mc.ewald_summation(*here, 0.9, **split, **there(full), **everything)
all_close(found, expected)
# The cell's values are not looked at, and nothing is waited for.
waits = dev.calls("cuStreamSynchronize")
miller, of = mc.generate_miller_indices(here[2], 6.0)
assert dev.calls("cuStreamSynchronize") > waits
lists = {name: mc.asarray(x) for name, x in full.items()}
waits = dev.calls("cuStreamSynchronize")
waves = {"miller_indices": miller, "miller_batch_idx": of}
again = mc.ewald_summation(*here, 0.9, cutoff=4.0, **waves, **lists, **everything)
assert dev.calls("cuStreamSynchronize") == waits and dev.calls("cuCtxSynchronize") == 0
for a, b in zip(found, again):
    np.testing.assert_array_equal(a, b)
# What NumPy takes is copied; parameters, waves and lists are made of values.
loose = mc.ewald_summation(here[0], q, h.tolist(), accuracy=1e-6)
all_close(loose, mn.ewald_summation(r, q, h, accuracy=1e-6, method="list"))

# A slab, in a cell of the library's own height, and of one that is given.
slab = {"pbc": (True, True, False), "slab_correction": True}
all_close(mc.ewald_summation(*here, **slab), mn.ewald_summation(r, q, h, method="list", **slab))
slab |= {"slab_height": 40.0, "cutoff": 4.0, "alpha": 0.9, "k_cutoff": 7.0}
all_close(mc.ewald_summation(*here, **slab), mn.ewald_summation(r, q, h, **slab))
upright = [n.generate_miller_indices(x, 5.0, pbc=slab["pbc"], slab_height=40.0) for n, x in ((mc, here[2]), (mn, h))]
for found, expected in zip(*upright):
    assert np.array_equal(found.numpy(), expected)
assert mc.estimate_ewald_parameters(*here) == mn.estimate_ewald_parameters(r, q, h)
# The parts, per system, with a unit.
unit = {"prefactor": 14.4, "energy_reduction": "system"}
all_close(mc.ewald_real_space(*here, 0.9, cutoff=4.0, **lists, **unit, **everything),
          mn.ewald_real_space(r, q, h, 0.9, cutoff=4.0, **full, **unit, **everything))
all_close(mc.ewald_reciprocal_space(*here, 0.9, 6.0, **unit, **everything),
          mn.ewald_reciprocal_space(r, q, h, 0.9, 6.0, **unit, **everything))
# Lists in other forms.
half = dict(zip(full, mn.neighbor_list(r, 4.0, h, half_fill=True)))
all_close(mc.ewald_real_space(*here, 0.9, cutoff=4.0, half_fill=True, **there(half)),
          mn.ewald_real_space(r, q, h, 0.9, cutoff=4.0))
matrix, _, images = mn.neighbor_list(r, 4.0, h, format="matrix")
rows = there({"neighbor_matrix": matrix, "neighbor_matrix_shifts": images})
all_close(mc.ewald_real_space(*here, 0.9, cutoff=4.0, **rows), mn.ewald_real_space(r, q, h, 0.9, cutoff=4.0))
wide = {name: x.astype(np.int64) for name, x in full.items()}
all_close(mc.ewald_real_space(*here, 0.9, **there(wide)), mn.ewald_real_space(r, q, h, 0.9, **full))
madelung.check_device()
""")


def test_a_law_of_ones_own() -> None:
    run("""
from test_laws import yukawa
here, given = (Interface(r), Lender(q), Interface(h)), {**split, **everything}
mesh = {"mesh_dimensions": (16, 16, 16), "cutoff": 4.0, **everything}
expected = [f(r, q, h, 0.9, **x, law=yukawa(kappa=0.8))
            for f, x in ((mn.ewald_summation, given), (mn.particle_mesh_ewald, mesh))]
for kappa in (0.8, mc.asarray(np.array([0.8]))):
    all_close(mc.ewald_summation(*here, 0.9, **given, law=yukawa(kappa=kappa)), expected[0])
    all_close(mc.particle_mesh_ewald(*here, 0.9, **mesh, law=yukawa(kappa=kappa)), expected[1])
""")


def test_batches_and_single_precision() -> None:
    run("""
both, charges = np.concatenate([r, r + 0.1]), np.concatenate([q, q[::-1]])
idx = np.repeat([0, 1], 8).astype(np.int32)
cells, alpha = np.stack([h, 1.1 * h]), np.array([0.9, 0.8])
splits = {**split, "k_cutoff": [6.0, 5.0]}
lists = dict(zip(full, mn.neighbor_list(both, 4.0, cells, batch_idx=idx)))
expected = mn.ewald_summation(both, charges, cells, alpha, **splits, batch_idx=idx, **everything)
given = there({"batch_idx": idx, **lists})
found = mc.ewald_summation(
    Lender(both), Interface(charges), Interface(cells), Interface(alpha), cutoff=4.0, k_cutoff=[6.0, 5.0], **given,
    **everything)
all_close(found, expected)
found = mc.ewald_summation(Interface(both), charges, cells, alpha, **splits, batch_idx=idx)
all_close(found, expected[0])
# One cell for all.
lists = dict(zip(full, mn.neighbor_list(both, 4.0, h, batch_idx=idx)))
given = there({"batch_idx": idx.astype(np.int64), **lists})
all_close(mc.ewald_real_space(Interface(both), charges, Interface(h), 0.9, cutoff=4.0, **given, **everything),
          mn.ewald_real_space(both, charges, h, 0.9, cutoff=4.0, batch_idx=idx, **everything))
# Single precision, to its own error.
r4, q4, h4 = (x.astype(np.float32) for x in (r, q, h))
all_close(mc.ewald_summation(Interface(r4), Lender(q4, versioned=False), h4, 0.9, **split),
          mn.ewald_summation(r4, q4, h4, 0.9, **split), 1e-5)
# No atoms.
none = np.zeros((0, 3)), np.zeros(0), h
all_close(mc.ewald_summation(*map(Interface, none), 0.9, **split, **everything),
          mn.ewald_summation(*none, 0.9, **split, **everything))
# Any op by its name, and its gradients.
_, distances = mc.call(
    "pair_vectors", mc.asarray(r), mc.asarray(h[None]), *map(mc.asarray, (np.zeros(8, np.int32), ptr, pairs[1])),
    mc.asarray(shifts), 0)
vectors = r[pairs[1]] - r[pairs[0]] + shifts @ h
close(distances, np.linalg.norm(vectors, axis=1))
w = rng.random(len(vectors))
by_r, by_h = mc.call(
    "pair_vectors", mc.asarray(r), mc.asarray(h[None]), *map(mc.asarray, (np.zeros(8, np.int32), ptr, pairs[1])),
    mc.asarray(shifts), 0, cotangents=(None, mc.asarray(w)))
units = w[:, None] * vectors / np.linalg.norm(vectors, axis=1)[:, None]
by_hand = np.zeros_like(r)
np.add.at(by_hand, pairs[1], units)
np.add.at(by_hand, pairs[0], -units)
close(by_r, by_hand, 1e-11)
close(by_h, (shifts.T @ units)[None], 1e-11)
madelung.check_device()
""")


def test_latent_charges_are_those_of_numpy() -> None:
    run("""
both, idx = np.concatenate([r, r + 0.1]), np.repeat([0, 1], 8).astype(np.int32)
cells, channels = np.stack([h, np.zeros((3, 3))]), rng.normal(size=(16, 2))
lists = mc.latent_ewald_lists(Interface(both), Interface(cells), 1.0, batch_idx=Interface(idx))
for charges in (channels[:, 0].copy(), channels):
    for given in ({}, lists):
        found = mc.latent_ewald(
            Interface(both), Lender(charges), Interface(cells), 0.9, 1.0, batch_idx=Interface(idx), **given,
            **everything)
        all_close(found, mn.latent_ewald(both, charges, cells, 0.9, 1.0, batch_idx=idx, **everything))
all_close(mc.latent_ewald(Interface(r), Lender(q)), mn.latent_ewald(r, q))
madelung.check_device()
""")


def test_neighbor_lists_are_those_of_numpy() -> None:
    run("""
def same(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        if b.dtype == np.int32:
            np.testing.assert_array_equal(a.numpy(), b, strict=True)
        else:
            close(a, b, 1e-14)
def both(x, *args, **more):
    wrapped = {name: Interface(y) if name.startswith("batch") else y for name, y in more.items()}
    lattice = [Interface(args[1]) if args[1] is not None else None] if len(args) > 1 else []
    same(mc.neighbor_list(Lender(x), args[0], *lattice, *args[2:], **wrapped), mn.neighbor_list(x, *args, **more))
measured = {"return_distances": True, "return_vectors": True}
both(r, 4.0, h, **measured)
both(r, 4.0, h, format="csr", half_fill=True, **measured)
both(r, 2.0, **measured)
both(r, 4.0, h, [True, False, True], method="brute_force")
both(r, 4.0, h, format="matrix", fill_value=-1, **measured)
both(r, 4.0, h, max_neighbors=100)
both(r, 0.1, h, **measured)
both(r[:0], 4.0, h, **measured)
both(r.astype(np.float32), 4.0, h.astype(np.float32))
two = np.concatenate([r, r + 0.1])
idx, starts = np.repeat([0, 1], 8).astype(np.int32), np.array([0, 8, 16])
both(two, 3.0, np.stack([h, 1.1 * h]), batch_idx=idx.astype(np.int64), **measured)
both(two, 3.0, h, batch_idx=idx, **measured)
both(two, 3.0, batch_ptr=starts, **measured)
axes = np.array([[True, False, True], [False, True, True]])
same(mc.neighbor_list(Interface(two), 3.0, Interface(h), axes, batch_idx=Interface(idx)),
     mn.neighbor_list(two, 3.0, h, axes, batch_idx=idx))
# With a capacity nothing is waited for.
expected, distances = mn.neighbor_list(r, 4.0, h), mn.neighbor_list(r, 4.0, h, return_distances=True)[3]
points, lattice = Interface(r), Interface(h)
waits = dev.calls("cuStreamSynchronize")
roomy = mc.neighbor_list(points, 4.0, lattice, capacity=600, return_distances=True)
energies = mc.ewald_real_space(points, Interface(q), lattice, 0.9, **dict(zip(full, roomy)))
assert dev.calls("cuStreamSynchronize") == waits
close(energies, mn.ewald_real_space(r, q, h, 0.9, **full))
spare = 600 - len(distances)
filled_up = np.pad(expected[0], ((0, 0), (0, spare)), constant_values=8)
images = np.pad(expected[2], ((0, spare), (0, 0)))
same(roomy, [filled_up, expected[1], images, np.pad(distances, (0, spare))])
madelung.check_device()
# What does not fit is no list, and says so.
short = mc.neighbor_list(points, 4.0, lattice, capacity=100)
np.testing.assert_array_equal(short[0].numpy(), np.full((2, 100), 8))
np.testing.assert_array_equal(short[1].numpy(), expected[1])
energies = mc.ewald_real_space(points, q, lattice, 0.9, **dict(zip(full, short)))
assert np.isnan(energies.numpy()).all()
with refused(ValueError, "`neighbor_list::capacity`", "room for all that there is"):
    madelung.check_device()
# What only the device sees, where the host waits anyway.
with refused(ValueError, "positions"):
    mc.neighbor_list(Interface(np.full((8, 3), np.nan)), 4.0, lattice)
for more, name in (
    ({"cutoff": 0.0}, "cutoff"), ({"pbc": [True, True, True], "cell": None}, "cell"), ({"format": "dense"}, "format"),
    ({"capacity": -1}, "capacity"), ({"fill_value": 3}, "fill_value"), ({"method": "tree"}, "method"),
    ({"max_neighbors": 3}, "max_neighbors"), ({"cell": Interface(h[None].repeat(2, 0))}, "batch_idx"),
    ({"pbc": axes[[0, 1, 1]]}, "batch_idx"),
):
    with refused(ValueError, f"`{name}`"):
        mc.neighbor_list(**{"positions": points, "cutoff": 4.0, "cell": lattice, **more})
""")


def test_the_age_of_a_list_is_that_of_numpy() -> None:
    run("""
of, cells = np.array([0] * 5 + [1] * 3, np.int32), np.stack([h, h])
for dtype in (np.float64, np.float32):
    before, known = r.astype(dtype), cells.astype(dtype)
    for atom, step, cell in ((0, 0.2, known), (4, 0.26, known), (7, np.nan, known), (0, 0.0, 1.01 * known)):
        now = before.copy()
        now[atom, 1] += step
        given = {"positions": now, "reference_positions": before, "cell": cell, "reference_cell": known}
        given["batch_idx"] = of
        expected = mn.needs_rebuild(**given, skin=0.5)
        found = mc.needs_rebuild(**there(given), skin=0.5)
        assert found.dtype == np.int32 and found.numpy().tolist() == expected.tolist()
axes = np.array([[1, 1, 1], [1, 0, 1]], np.int32)
for now, before in ((axes, axes[::-1].copy()), (axes, None), (axes[0], axes[1])):
    given = {"positions": r, "reference_positions": r, "cell": cells, "reference_cell": cells, "batch_idx": of}
    expected = mn.needs_rebuild(**given, skin=0.5, pbc=now, reference_pbc=before)
    for wrapped in (Interface, lambda x: x):
        pbc = {"pbc": wrapped(now), "reference_pbc": None if before is None else wrapped(before)}
        assert mc.needs_rebuild(**there(given), skin=0.5, **pbc).numpy().tolist() == expected.tolist()
alone = mc.needs_rebuild(Interface(r), Interface(r + 0.2), 0.5)
assert alone.numpy().tolist() == [1]
madelung.check_device()
""")


def test_streams_and_devices() -> None:
    run("""
class Torch:
    def __init__(self, handle): self.cuda_stream = handle
class CuPy:
    def __init__(self, handle): self.ptr = handle
class Numba:
    def __init__(self, handle): self.handle = ctypes.c_void_p(handle)
class Cuda:
    def __init__(self, handle): self.handle = handle
    def __cuda_stream__(self): return 0, self.handle
assert dev.current() is None
expected = mn.ewald_summation(r, q, h, 0.9, **split, compute_forces=True)
for device, wrap in ((0, int), (1, Torch), (1, CuPy), (0, Numba), (1, Cuda)):
    # Arrays that are still under way on a stream of their own, while another device is current.
    theirs, ours = dev.stream(device), dev.stream(device)
    def lent(x):
        return Interface(x, device, theirs)
    lists = {name: lent(x) for name, x in full.items()}
    charges = Lender(q, device, versioned=device == 0)
    with dev.on(1 - device):
        before = dev.current()
        found = mc.ewald_summation(
            lent(r), charges, lent(h), 0.9, cutoff=4.0, k_cutoff=6.0, compute_forces=True, stream=wrap(ours), **lists)
        assert dev.current() == before
        assert all(x.device == device and x.stream == ours for x in found)
        # The lender was told of the stream, and has its memory back once the work was queued.
        assert charges.asked == [ours]
        energies = found[0].__cuda_array_interface__
        assert energies["stream"] == ours and energies["strides"] is None and energies["version"] == 3
        # Read where the results say that they were written: they are not, until somebody waits.
        address, _ = energies["data"]
        close(dev.read(address, energies["shape"], energies["typestr"], device, ours), expected[0])
    all_close(found, expected)
assert dev.current() is None
# Default streams: the legacy one by either number, and the thread's.
for stream, said in ((None, 1), (0, 1), (1, 1), (2, 2)):
    charges = Lender(q)
    found = mc.ewald_real_space(Interface(r), charges, Interface(h), 0.9, stream=stream, **there(full))
    assert charges.asked == [said] and found.__cuda_array_interface__["stream"] == said
    all_close(found, mn.ewald_real_space(r, q, h, 0.9, **full))
# What is written on one stream and read on another.
first, second = dev.stream(), dev.stream()
energies = mc.ewald_real_space(Interface(r), Interface(q), Interface(h), 0.9, stream=first, **there(full))
doubled = mc.ewald_real_space(Interface(r), energies, Interface(h), 0.9, stream=second, **there(full))
one = mn.ewald_real_space(r, q, h, 0.9, **full)
all_close(doubled, mn.ewald_real_space(r, one, h, 0.9, **full))
# Arrays of two devices, and a stream of another one.
with refused(ValueError, "`charges`", "an array of device 1", "one of device 0"):
    mc.ewald_real_space(Interface(r, 1), Interface(q), Interface(h, 1), 0.9, cutoff=3.0)
with refused(ValueError, "`charges`", "an array of device 0", "one of device 1"):
    mc.ewald_real_space(Lender(r), Lender(q, 1), Interface(h), 0.9, cutoff=3.0)
with refused(ValueError, "`stream`", "a stream of device 1"):
    mc.ewald_real_space(Interface(r, 1), Interface(q, 1), Interface(h, 1), 0.9, cutoff=3.0, stream=first)
for wrong, kind in ((-1, ValueError), (1.5, TypeError), (True, TypeError), ("0", TypeError)):
    with refused(kind, "`stream`", "the handle of a stream"):
        mc.asarray(r, stream=wrong)
for device in 0, 1:
    madelung.check_device(device)
""")


def test_memory_stays_as_long_as_it_is_used() -> None:
    run("""
expected = mn.ewald_real_space(r, q, h, 0.9, **full)
# Inputs that are given back behind the call, before it has run.
stream = dev.stream()
arrays = [Interface(x, stream=stream) for x in (r, q, h, pairs, ptr, shifts)]
found = mc.ewald_real_space(
    *arrays[:3], 0.9, neighbor_list=arrays[3], neighbor_ptr=arrays[4], neighbor_shifts=arrays[5], stream=stream)
for x in arrays:
    x.block.free_later(stream)
del x, arrays
close(found, expected)
# A call on another stream than the one that the input's memory is given back on.
charges = Interface(q, stream=stream)
found = mc.ewald_real_space(Interface(r), charges, Interface(h), 0.9, stream=dev.stream(), **there(full))
charges.block.free_later(stream)
dev.wait(0, stream)
close(found, expected)
# A lender's memory is given back once, after the work was queued, and not while an array has it.
for versioned in (False, True):
    charges = Lender(q, versioned=versioned)
    mc.ewald_real_space(Interface(r), charges, Interface(h), 0.9, **there(full))
    array = mc.asarray(charges)
    gc.collect()
    assert [dev.returned[at] for at in charges.lent] == [1, 0]
    capsule = array.__dlpack__()
    del array
    gc.collect()
    assert [dev.returned[at] for at in charges.lent] == [1, 0]
    del capsule
    gc.collect()
    assert [dev.returned[at] for at in charges.lent] == [1, 1]
# What is lent out: never taken; taken once, and used after the array is gone.
array = mc.asarray(q)
array = mc.asarray(np.arange(12.0).reshape(3, 4))
assert len(array) == 3 and "float64 of shape (3, 4) on device 0" in repr(array)
array.__dlpack__(max_version=(1, 1))
for version, form in ((None, dev.Managed), ((0, 8), dev.Managed), ((1, 2), dev.Versioned)):
    array = mc.asarray(np.arange(12.0).reshape(3, 4))
    address, before = array.__cuda_array_interface__["data"][0], array.numpy()
    capsule = array.__dlpack__(max_version=version, stream=stream)
    managed, give_back = dev.taken(capsule)
    assert isinstance(managed, form)
    del array, capsule
    gc.collect()
    # If the memory were free, this would be there.
    other = mc.asarray(np.ones((3, 4)))
    tensor = managed.tensor
    assert (tensor.device_type, tensor.device_id, tensor.ndim) == (2, 0, 2)
    assert (tensor.code, tensor.bits, tensor.lanes, tensor.byte_offset) == (2, 64, 1, 0)
    assert (tensor.shape[:2], tensor.strides[:2]) == ([3, 4], [4, 1])
    assert form is dev.Managed or (managed.major, managed.minor, managed.flags) == (1, 0, 0)
    assert tensor.data == address
    np.testing.assert_array_equal(dev.read(address, (3, 4), "f8", 0, stream), before)
    give_back()
    # Now it goes to the next one.
    assert mc.asarray(before).__cuda_array_interface__["data"][0] == address
# One capsule is taken once.
capsule = mc.asarray(q).__dlpack__()
class Once:
    __dlpack_device__ = lambda self: (2, 0)
    __dlpack__ = lambda self, **_: capsule
close(mc.asarray(Once()), q)
with refused(ValueError, "`x`", "that nobody has taken yet"):
    mc.asarray(Once())
# Copies.
array = mc.asarray(q)
copied = mc.asarray(type("Copied", (), {
    "__dlpack_device__": lambda self: (2, 0), "__dlpack__": lambda self, **_: array.__dlpack__(copy=True)})())
assert copied.__cuda_array_interface__["data"] != array.__cuda_array_interface__["data"]
close(copied, q)
close(np.from_dlpack(array, device="cpu"), q)
# What may not be written to stays so; a copy says that it is one.
def flags(array, **how):
    managed, give_back = dev.taken(array.__dlpack__(max_version=(1, 0), **how))
    give_back()
    return array.__cuda_array_interface__["data"][1], managed.flags
assert flags(array) == (False, 0) and flags(array, copy=True) == (False, 2)
locked, open_, told = Interface(q), Interface(q), Lender(q, flags=1)
open_.__cuda_array_interface__["data"] = (open_.block.address, False)
assert [flags(mc.asarray(x)) for x in (locked, open_, told)] == [(True, 1), (False, 0), (True, 1)]
assert flags(mc.asarray(locked), copy=True) == (True, 2)
managed, give_back = dev.taken(array.__dlpack__(dl_device=(1, 0)))
assert managed.tensor.device_type == 1
give_back()
for wrong in ({"dl_device": (2, 1)}, {"dl_device": (1, 0), "copy": False}):
    with refused(BufferError, "`dl_device`", "expected (2, 0)"):
        array.__dlpack__(**wrong)
with refused(ValueError, "`stream`", "got 0"):
    array.__dlpack__(stream=0)
assert np.asarray(array, np.float32).dtype == np.float32
with refused(ValueError, "`copy`"):
    array.__array__(copy=False)
# A step that ran once allocates nothing; what is free is given back on demand.
given = there(full)
here = [Interface(x) for x in (r, q, h)]
for _ in range(2):
    allocated = dev.calls("cuMemAlloc_v2")
    mc.ewald_real_space(*here, 0.9, **given)
assert dev.calls("cuMemAlloc_v2") == allocated
freed = dev.calls("cuMemFree_v2")
mc.release_memory()
assert dev.calls("cuMemFree_v2") > freed
close(array, q)
""")


def test_bad_input_is_refused_before_anything_is_launched() -> None:
    run("""
good = {"positions": Interface(r), "charges": Interface(q), "cell": Interface(h), "alpha": 0.9, **there(full)}
mc.ewald_real_space(**good)
launched = dev.calls("cuLaunchKernel")
def wrong(name, x, kind, *parts, **more):
    with refused(kind, f"`{name}`", *parts):
        mc.ewald_real_space(**{**good, name: x, **more})
# Whose memory it is.
gone = Interface(q)
gone.block.free()
wrong("charges", gone, ValueError, "an address of the host's memory, or of memory that was given back")
host = np.ones(8)
wrong("charges", Interface(q, data=(host.ctypes.data, False)), ValueError, "an address of the host's memory")
wrong("charges", Interface(q, data=(0, False)), ValueError, "an address of the host's memory")
kept, lent = mc.asarray(gone := Interface(q)), mc.asarray(lender := Lender(q))
gone.block.free()
lender.block.free()
for x in kept, lent:
    wrong("charges", x, ValueError, "memory that was given back")
    with refused(ValueError, "memory that was given back"):
        x.numpy()
wrong("positions", r, TypeError, "an array in the memory of a CUDA device", "float64 of shape (8, 3)")
wrong("positions", None, TypeError, "an array in the memory of a CUDA device", "None")
wrong("positions", Lender(r, kind=3), TypeError, "an array in the memory of a CUDA device")
# What it says of itself.
wrong("charges", Interface(q, mask=object()), ValueError, "without a mask")
wrong("charges", Interface(q, strides=(16,)), ValueError, "row-major order without gaps", "strides [16] of [8]")
wrong("positions", Interface(r, strides=(8, 64)), ValueError, "row-major order without gaps")
wrong("positions", Lender(r, strides=(1, 8)), ValueError, "row-major order without gaps", "strides [1, 8] of [8, 3]")
wrong("charges", Interface(q, stream=0), ValueError, "1, 2 or a handle")
wrong("charges", Interface(q, shape=None), ValueError, "a tuple as `shape`")
wrong("charges", Interface(q, data=None), ValueError, "a tuple as `data`")
address = good["charges"].block.address
wrong("charges", Interface(q, data=(address + 4, True)), ValueError, "a multiple of 8")
mc.ewald_real_space(**{**good, "charges": Interface(q, strides=(8,), version=2, stream=None)})
launched = dev.calls("cuLaunchKernel")
# Types and shapes.
wrong("charges", Interface(q.astype(np.float16)), TypeError, "float32 or float64", "float16")
wrong("charges", Interface(q.astype(">f8")), TypeError, "in the machine's order of bytes", ">f8")
wrong("charges", Interface(q.astype("U1")), TypeError, "real or complex numbers", "<U1")
wrong("neighbor_list", Lender(pairs.astype(np.int16)), TypeError, "integers of int32 or int64", "int16")
wrong("batch_idx", Interface(np.zeros(8, bool)), TypeError, "integers of int32 or int64", "bool")
huge = Interface(q, shape=(1 << 40, 1 << 40))
wrong("charges", huge, ValueError, "a shape that fits in memory")
wrong("charges", Interface(q.astype(np.float32)), TypeError, "float64, as the positions", "float32")
wrong("charges", q.astype(np.float32), TypeError, "float64, as the positions", "float32")
wrong("charges", Lender(q.astype(np.int64)), TypeError, "float32 or float64", "int64")
wrong("charges", Interface(q[1:]), ValueError, "shape (8,)", "(7,)")
wrong("positions", Interface(r[:, :2].copy()), ValueError, "shape (N, 3)", "(8, 2)")
wrong("cell", Interface(h[0]), ValueError, "shape (3, 3) or (B, 3, 3)", "(3,)")
with refused(ValueError, "`batch_idx`", "as there are 2 cells"):
    mc.ewald_real_space(**{**good, "cell": Interface(np.stack([h, h]))})
wrong("neighbor_list", Interface(pairs.astype(float)), TypeError, "integers", "float64")
wrong("neighbor_ptr", Interface(ptr[1:]), ValueError, "shape (9,)")
wrong("neighbor_shifts", Interface(shifts[1:]), ValueError, "shape")
wrong("alpha", Interface(np.array([0.9, 0.8])), ValueError, "shape (1,)", "(2,)")
wrong("alpha", Interface(np.array([1])), TypeError, "float64, as the positions")
wrong("alpha", -1.0, ValueError, "above zero")
wrong("cutoff", -1.0, ValueError, "above zero")
wrong("prefactor", "1", TypeError, "a number")
wrong("energy_reduction", "all", ValueError, "'atom' or 'system'")
wrong("compute_forces", 1, TypeError, "True or False")
wrong("cutoff", None, ValueError, "no neighbour list", neighbor_list=None, neighbor_ptr=None, neighbor_shifts=None)
with refused(ValueError, "`neighbor_ptr`", "with the list that it belongs to"):
    mc.ewald_real_space(**{**good, "neighbor_list": None, "cutoff": 3.0})
with refused(ValueError, "`miller_batch_idx`", "it with `miller_indices`"):
    mc.ewald_reciprocal_space(*list(good.values())[:4], 6.0, miller_batch_idx=np.zeros(3, np.int32))
with refused(ValueError, "`pbc`"):
    mc.ewald_summation(*list(good.values())[:3], 0.9, cutoff=3.0, k_cutoff=6.0, accuracy=None, pbc=[True, True, False])
with refused(TypeError, "`x`", "float32, float64, int32 or int64", "complex128"):
    mc.asarray(np.ones(3, complex))
with refused(ValueError, "`device`", "where the array lies"):
    mc.asarray(good["charges"], device=1)
with refused(ValueError, "`ordinal`", "2 devices"):
    mc.asarray(q, device=2)
with refused(ValueError, "`name`", "pair_vectors"):
    mc.call("pair_vector")
with refused(ValueError, "`inputs`", "positions, cell"):
    mc.call("pair_vectors", good["positions"])
flags = Interface(np.ones((8, 3), bool))
with refused(ValueError, "`positions`", "floating-point numbers", "bool"):
    lists = map(mc.asarray, (h[None], np.zeros(8, np.int32), ptr, pairs[1], shifts))
    mc.call("pair_vectors", flags, *lists, 0)
assert dev.calls("cuLaunchKernel") == launched
# What only values show is found there.
madelung.check_device()
twice = r.copy()
twice[1] = twice[0]
result = mc.ewald_real_space(**{**good, "positions": Interface(twice)})
assert not np.isfinite(result.numpy()[:2]).any()
with refused(ValueError, "ewald_real_space", "two points on one place"):
    madelung.check_device()
far = pairs.copy()
far[1, 3] = 99
assert np.isnan(mc.ewald_real_space(**{**good, "neighbor_list": Interface(far)}).numpy()).all()
with refused(ValueError, "ewald_real_space.v1::pairs", "out of range"):
    madelung.check_device()
""")


def test_what_is_missing_without_a_driver() -> None:
    try:
        madelung.check_device()
    except NotImplementedError:
        pass
    else:
        pytest.skip("there is a driver")

    class There:
        def __init__(self, x: np.ndarray) -> None:
            self.__cuda_array_interface__ = {"shape": x.shape, "typestr": "<f8", "data": (64, True), "version": 3}

    r, q, h = np.zeros((1, 3)), np.ones(1), np.eye(3)
    with pytest.raises(NotImplementedError, match="no NVIDIA driver"):
        madelung.cuda.asarray(q)
    with pytest.raises(NotImplementedError, match="no NVIDIA driver"):
        madelung.cuda.ewald_summation(There(r), There(q), There(h))
    with pytest.raises(TypeError, match=r"`positions`: expected an array in the memory of a CUDA device"):
        madelung.cuda.ewald_summation(r, q, h)
    madelung.cuda.release_memory()


def test_no_array_library_is_loaded() -> None:
    program = "import sys, madelung.cuda; print([m for m in ('torch', 'jax', 'cupy', 'numba') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_segments_are_those_of_numpy() -> None:
    """Sums over indices in the memory of the device, with features and without, and empty segments."""
    run("""
idx = np.array([0, 0, 2, 2, 2, 3], np.int32)
for shape in ((), (5,), (2, 3)):
    x, y = rng.normal(size=(2, 6, *shape))
    for name in ("segment_sum", "segment_mean", "segment_max", "segment_softmax"):
        for segments in (None, 5):
            found = getattr(mc, name)(Interface(x), Interface(idx), segments)
            all_close(found, getattr(mn, name)(x, idx, segments))
    all_close(mc.segment_dot(Interface(x), Interface(y), Interface(idx), 5), mn.segment_dot(x, y, idx, 5))
    all_close(mc.segment_sum(Interface(x), idx, 5), mn.segment_sum(x, idx, 5))
with refused(ValueError, "`segment_idx`: expected shape (6,), got (5,)"):
    mc.segment_sum(Interface(x), Interface(idx[:5]))
with refused(ValueError, "`y`: expected shape (6, 2, 3), as `x`"):
    mc.segment_dot(Interface(x), Interface(y[:, 0]), idx)
with refused(ValueError, "`segment_idx`: expected integers that 32 bits can hold, got 4294967299"):
    mc.segment_sum(Interface(x), Interface(idx.astype(np.int64) + 2**32))
mc.segment_sum(Interface(x), Interface(idx[::-1].copy()), 5)
with refused(ValueError, "segment_idx"):
    madelung.check_device()
""")
