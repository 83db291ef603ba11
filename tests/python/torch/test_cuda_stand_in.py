"""PyTorch's build for CUDA, with the driver, the runtime, NVRTC and cuFFT stood in for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import stand_in

HERE = Path(__file__).resolve().parent


def _missing() -> str | None:
    if (torch.version.cuda or "none").split(".")[0] != "13":
        return f"the runtime that stands in is that of CUDA 13, and this PyTorch is made for {torch.version.cuda}"
    if not hasattr(torch.library, "get_kernel"):
        return "this PyTorch does not give its kernels away, so that the host could run them"
    return None


pytestmark = [
    pytest.mark.host("stand-ins are for machines without a GPU"),
    pytest.mark.skipif(sys.platform != "linux", reason="the stand-ins are libraries for Linux"),
    pytest.mark.cuda(_missing()),
]


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    paths = [str(HERE), str(HERE.parent), *sys.path]
    settings = {"MADELUNG_CACHE": str(stand_in.folder() / "cache"), "PYTHONPATH": os.pathsep.join(paths)}
    return stand_in.run(program, runtime=True, **settings, **environment)


def suite(*arguments: str, **environment: str) -> None:
    """Tests in a process of their own, where PyTorch has two devices."""
    program = f"""
import pytest, sys, torch, on_host
torch.cuda.init()
on_host.install()
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *{arguments!r}]))
"""
    done = run(program, **environment)
    assert done.returncode == 0, done.stdout + done.stderr


def test_tensors_on_devices() -> None:
    suite(str(HERE / "on_devices.py"))


def test_straight_calls_on_devices() -> None:
    suite(str(HERE / "straight_on_devices.py"))


def test_functions_on_devices() -> None:
    """But for what needs PyTorch's own kernels in captured graphs."""
    suite(str(HERE / "test_cuda.py"), str(HERE / "test_calls.py"), MADELUNG_TEST_DEVICE="cuda")


def test_points_around_queries_on_devices() -> None:
    suite(str(HERE / "test_cuda_around.py"), MADELUNG_TEST_DEVICE="cuda")


def test_exclusions_on_devices() -> None:
    """But for what needs PyTorch's own kernels in captured graphs."""
    suite(str(HERE / "test_cuda_exclusions.py"), MADELUNG_TEST_DEVICE="cuda")


def test_memory_is_that_of_a_pool_of_the_users() -> None:
    """Plugged into PyTorch, as RMM's is: all memory of searches and aggregations, forwards and backwards, comes from
    there, and none from the driver beside it."""
    done = run("""
import ctypes, torch, stand_in
path = str(stand_in.folder() / "libpool.so")
pool = torch.cuda.memory.CUDAPluggableAllocator(path, "pool_take", "pool_give")
torch.cuda.memory.change_current_allocator(pool)
import on_host
torch.cuda.init()
on_host.install()
import madelung, madelung.torch as mt
library, driver = ctypes.CDLL(path), ctypes.CDLL("libcuda.so.1")
driver.stand_in_calls.restype = ctypes.c_ulonglong
def counts():
    torch.cuda.synchronize()
    found = (ctypes.c_size_t * 4)()
    library.pool_counts(found)
    return list(found), sum(driver.stand_in_calls(name) for name in (b"cuMemAlloc_v2", b"cuMemAllocAsync"))
g = torch.Generator().manual_seed(0)
q, r, x = (torch.rand(n, 3, generator=g, dtype=torch.float64).cuda() for n in (40, 60, 60))
sigma = torch.tensor(0.4, dtype=torch.float64).cuda()
inputs = [t.requires_grad_() for t in (q, r, x, sigma)]
def gradients(f, *own, **more):
    out = f(*inputs[:3], *own, inputs[3], **more)
    return torch.autograd.grad(out, inputs, torch.ones_like(out))
calls = {
    "radius_aggregate": lambda: gradients(mt.radius_aggregate, 0.5, max_neighbors=60),
    "radius_aggregate, waiting": lambda: gradients(mt.radius_aggregate, 0.5),
    "knn_aggregate": lambda: gradients(mt.knn_aggregate, 7),
    "knn": lambda: torch.autograd.grad(mt.knn(q, r, 5)[1].sum(), (q, r)),
    "radius": lambda: torch.autograd.grad(mt.radius(q, r, 0.5)[2].sum(), (q, r)),
    "spatial_order": lambda: mt.spatial_order(r),
}
for name, call in calls.items():
    # Texts are compiled, and the device's record is made, by a call before.
    call()
    (asked, taken, live, _), driven = counts()
    library.pool_forget()
    call()
    (asked_then, taken_then, _, most), driven_then = counts()
    assert taken_then > taken and driven_then - driven == taken_then - taken, name
    assert most > live and asked_then > asked, name
madelung.check_device()
print("done")
""")
    assert done.returncode == 0 and done.stdout.strip() == "done", done.stdout + done.stderr


def test_errors_at_the_call() -> None:
    """Where the environment asks for it; otherwise the error waits for somebody who asks."""
    program = """
import torch, madelung
from cases import OPS, make
case = make(OPS["ewald_real_space"])
args = [x.cuda() if isinstance(x, torch.Tensor) else x for x in case.args]
args[0] = (case.args[0] * torch.nan).cuda()
try:
    case.call(*args)
except RuntimeError as error:
    print("at the call:", error)
try:
    madelung.check_device()
except ValueError as error:
    print("later:", error)
print(madelung.devices())
"""
    expected = "positions`: expected finite numbers"
    for name in ("MADELUNG_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING"):
        done = run(program, **{name: "1"})
        assert done.returncode == 0, done.stderr
        assert "at the call:" in done.stdout and expected in done.stdout and "later:" not in done.stdout, done.stdout
    done = run(program, MADELUNG_LAUNCH_BLOCKING="0")
    assert done.returncode == 0, done.stderr
    assert "later:" in done.stdout and expected in done.stdout and "at the call:" not in done.stdout, done.stdout
    assert "['cpu', 'cuda:0', 'cuda:1']" in done.stdout


NODES = {
    "real space": (3, 0),
    "real space, forces": (3, 0),
    "real space, forces, a list that is not known": (3, 1),
    "reciprocal space, forces": (12, 0),
    "sum": (10, 0),
    "sum, forces": (13, 0),
    "mesh, forces": (19, 1),
}
"""Launches and fills of calls: the nodes of a graph that captures them."""


def test_nodes_of_calls() -> None:
    """`pytest -s` shows their names, and how many blocks of how many threads each has."""
    done = run("""
import ctypes, torch, on_host
torch.cuda.init()
on_host.install()
import madelung.torch as mt
driver, runtime = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libstand_in_cudart.so")
driver.stand_in_queued.restype = ctypes.c_char_p
random = torch.Generator().manual_seed(5)
r = (9 * torch.rand(96, 3, generator=random, dtype=torch.float64)).cuda()
q = torch.linspace(-1, 1, 96, dtype=torch.float64).cuda()
h = (9 * torch.eye(3, dtype=torch.float64)).cuda()
pairs = dict(zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), mt.neighbor_list(r, 4.0, h)))
unknown = {name: x.cpu().cuda() for name, x in pairs.items()}
waves = dict(zip(("miller_indices", "miller_batch_idx"), mt.generate_miller_indices(h, 2.0)))
calls = {
    "real space": lambda: mt.ewald_real_space(r, q, h, 0.6, cutoff=4.0, **pairs),
    "real space, forces": lambda: mt.ewald_real_space(r, q, h, 0.6, cutoff=4.0, **pairs, compute_forces=True),
    "real space, forces, a list that is not known": lambda: mt.ewald_real_space(
        r, q, h, 0.6, cutoff=4.0, **unknown, compute_forces=True
    ),
    "reciprocal space, forces": lambda: mt.ewald_reciprocal_space(r, q, h, 0.6, **waves, compute_forces=True),
    "sum": lambda: mt.ewald_summation(r, q, h, 0.6, cutoff=4.0, **pairs, **waves),
    "sum, forces": lambda: mt.ewald_summation(r, q, h, 0.6, cutoff=4.0, **pairs, **waves, compute_forces=True),
    "mesh, forces": lambda: mt.particle_mesh_ewald(
        r, q, h, 0.6, cutoff=4.0, **pairs, mesh_dimensions=(12, 12, 12), compute_forces=True
    ),
}
for name, call in calls.items():
    call()
    driver.stand_in_queued()
    before = runtime.stand_in_calls(b"cudaLaunchKernel")
    call()
    assert runtime.stand_in_calls(b"cudaLaunchKernel") == before, "a kernel of PyTorch's"
    nodes = driver.stand_in_queued().decode().splitlines()
    fills = sum(node.startswith("fill") for node in nodes)
    print(f"{name}: {len(nodes) - fills} launches, {fills} fills", *nodes, sep="\\n    ")
torch.cuda.synchronize()
""")
    assert done.returncode == 0, done.stderr
    print(f"\n{done.stdout}")
    titles = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert titles == [f"{name}: {launches} launches, {fills} fills" for name, (launches, fills) in NODES.items()]


def test_kernels_of_pytorch_are_refused() -> None:
    """Never wrong in silence; ops of Madelung need none of them."""
    done = run("""
import torch
from cases import OPS, make
x = torch.arange(3.0).to("cuda")
try:
    x + 1
except torch.AcceleratorError as error:
    assert "not supported by the stand-in" in str(error)
else:
    raise SystemExit("a kernel of PyTorch's was launched")
assert torch.equal(x.cpu(), torch.arange(3.0))
case = make(OPS["ewald_real_space"])
there = case.call(*[a.to("cuda") if isinstance(a, torch.Tensor) else a for a in case.args])
torch.testing.assert_close(there.cpu(), case.call(*case.args), rtol=1e-12, atol=1e-12)
""")
    assert done.returncode == 0, done.stderr


def test_a_driver_without_devices() -> None:
    program = """
import torch, madelung
assert not torch.cuda.is_available()
try:
    madelung.check_device()
except (NotImplementedError, ValueError) as error:
    print(type(error).__name__, error)
"""
    done = run(program, STAND_IN_DEVICES="0")
    assert done.returncode == 0, done.stderr
    assert "CUDA_ERROR_NO_DEVICE" in done.stdout, done.stdout


def test_kernels_on_devices() -> None:
    suite(str(HERE / "test_cuda_kernels.py"), MADELUNG_TEST_DEVICE="cuda")
