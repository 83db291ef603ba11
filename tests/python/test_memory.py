"""Memory that is not there: `MemoryError` with the size and the argument, and the process goes on."""

import subprocess
import sys

import pytest

from conftest import ROOT, required

pytest.importorskip("resource")

# The prelude of a process in which little more can be allocated than is in use already.
LIMITED = """
import resource
import numpy as np
import madelung.numpy as m

g = np.random.default_rng(0)
n, length = 400, 15.0
r, q, h = g.random((n, 3)) * length, np.tile([1.0, -1.0], n // 2), length * np.eye(3)
types, table = np.zeros(n, np.int32), np.ones((1, 1))

def limit(more):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    # The free parts of the heap and of each thread's arena are in use already.
    resource.setrlimit(resource.RLIMIT_AS, (used + more, resource.getrlimit(resource.RLIMIT_AS)[1]))

def refused(name, call):
    try:
        call()
    except MemoryError as error:
        text = str(error)
        assert f"`{name}`: out of memory: " in text and " are needed" in text, text
    else:
        raise AssertionError(f"no error: {name}")
"""

NUMPY = """
expected = m.ewald_summation(r, q, h, compute_forces=True)
limit(2 << 30)
far = 200.0
for options in (
    {}, {"format": "csr"}, {"format": "matrix"}, {"half_fill": True}, {"return_distances": True},
    {"return_vectors": True}, {"method": "brute_force"}, {"method": "cell_list"},
):
    refused("cutoff", lambda: m.neighbor_list(r, far, h, True, **options))
refused("max_neighbors", lambda: m.neighbor_list(r, 3.0, h, True, format="matrix", max_neighbors=1 << 20))
for form in (None, "rows", "clusters"):
    refused("cutoff", lambda: m.find_neighbors(r, 2 * far, h, True, form=form))
refused("k_cutoff", lambda: m.generate_miller_indices(h, 300.0))
refused("k_cutoff", lambda: m.generate_miller_indices(np.repeat(h[None], 40, axis=0), 90.0))
refused("k_cutoff", lambda: m.ewald_reciprocal_space(r, q, h, 0.5, 300.0))
refused("k_cutoff", lambda: m.ewald_reciprocal_space(r, q, h, 0.5, 130.0))
refused("k_cutoff", lambda: m.ewald_summation(r, q, h, 0.5, cutoff=5.0, k_cutoff=300.0, accuracy=None))
refused("cutoff", lambda: m.ewald_summation(r, q, h, 0.01, cutoff=far, k_cutoff=1.0, accuracy=None))
refused("cutoff", lambda: m.ewald_real_space(r, q, h, 0.01, cutoff=far))
refused("cutoff", lambda: m.lennard_jones(r, types, table, table, far, cell=h, pbc=True))
again = m.ewald_summation(r, q, h, compute_forces=True)
assert all((x == y).all() for x, y in zip(expected, again))
"""

TORCH = """
import torch
import madelung.torch as mt

r, q, h = map(torch.from_numpy, (r, q, h))
expected = mt.ewald_summation(r, q, h, compute_forces=True)
limit(2 << 30)
refused("cutoff", lambda: mt.neighbor_list(r, 200.0, h, True))
refused("cutoff", lambda: mt.find_neighbors(r, 400.0, h, True))
refused("k_cutoff", lambda: mt.ewald_reciprocal_space(r, q, h, 0.5, 130.0))
refused("k_cutoff", lambda: mt.ewald_reciprocal_space(r.requires_grad_(), q, h, 0.5, 130.0))
refused("cutoff", lambda: mt.ewald_real_space(r, q, h, 0.01, cutoff=200.0))
again = mt.ewald_summation(r.detach(), q, h, compute_forces=True)
assert all((x == y).all() for x, y in zip(expected, again))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of the address space is one of Linux")
@pytest.mark.parametrize("program", [NUMPY, TORCH], ids=["numpy", "torch"])
def test_large_buffers(program):
    if program is TORCH:
        required("torch")
    done = subprocess.run([sys.executable, "-c", LIMITED + program], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


# Eighty million pairs, of which a list would have 640 MB at least.
AGGREGATION = """
import torch
import madelung.torch as mt

def gradients(queries, points):
    inputs = torch.rand(queries, 3), torch.rand(points, 3), torch.rand(points, 4), torch.tensor(0.5)
    inputs = [x.requires_grad_() for x in inputs]
    return torch.autograd.grad(mt.radius_aggregate(*inputs[:3], 2.0, inputs[3]).square().sum(), inputs)

gradients(100, 100)
limit(400 << 20)
assert all(x.isfinite().all() for x in gradients(4_000, 20_000))
"""


def test_no_list_of_pairs_is_kept() -> None:
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, "-c", LIMITED + AGGREGATION], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# Pages that are touched for the first time, which depend on what else runs.
REBUILDS = """
import resource, sys
import numpy as np
import madelung.{space} as m
array = {array}
n, rng = 40_000, np.random.default_rng(0)
side = (n / 0.1) ** (1 / 3)
r, h = rng.random((n, 3)) * side, array(side * np.eye(3))
search = m.NeighborList(5.0, skin=1.0, form={form!r})
found, steps = search.allocate(array(r), h), [array(r + 0.3 * rng.normal(size=r.shape)) for _ in range(24)]
page, fresh = resource.getpagesize(), []
for moved in steps:
    before, known = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, found
    found = search.update(found, moved, h)
    assert found is not known
    fresh.append(page * (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before))
    del known
size = sum(x.nbytes for x in (found.index, found.columns, found.images))
# Two lists in turn: both are there once the first rebuilds are done.
print(size, sorted(fresh[12:])[6], 24 * n)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts pages as Linux does")
@pytest.mark.parametrize("form", ["rows", "clusters"])
@pytest.mark.parametrize("space", ["numpy", "torch"])
def test_a_rebuild_takes_no_new_memory(space: str, form: str) -> None:
    """Lists and what a search needs come from memory of former ones: what the process touches for the first time is at
    most the copy of the positions, which the framework allocates."""
    array = {"numpy": "np.asarray", "torch": "__import__('torch').from_numpy"}[space]
    program = REBUILDS.format(space=space, form=form, array=array)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    size, fresh, row = map(int, done.stdout.split())
    assert fresh < 1.25 * row < size / 2, (size, fresh, row)
