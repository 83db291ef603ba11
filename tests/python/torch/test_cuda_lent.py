"""`madelung.cuda` with CUDA tensors of PyTorch, on the stand-ins."""

from test_cuda_stand_in import pytestmark, run  # noqa: F401

from test_cuda_arrays import PREAMBLE
from test_cuda_launch import PREAMBLE as LAUNCHES


def test_tensors_come_and_go_without_a_copy() -> None:
    done = run(
        PREAMBLE
        + """
import torch
expected = mn.ewald_summation(r, q, h, 0.9, cutoff=4.0, k_cutoff=6.0, accuracy=None, **everything)
how = {"cutoff": 4.0, "k_cutoff": 6.0, "accuracy": None, **everything}
# On PyTorch's stream, and on another one; on a device that is not the current one.
side = torch.cuda.Stream()
for device, stream in (("cuda:0", None), ("cuda:0", side), ("cuda:1", None), ("cuda:1", dev.stream(1))):
    tensors = [torch.tensor(x, device=device) for x in (r, q, h)]
    found = mc.ewald_summation(*tensors, 0.9, **how, stream=stream)
    assert torch.cuda.current_device() == 0
    for array, want in zip(found, expected):
        with torch.cuda.device(device):
            tensor = torch.from_dlpack(array)
            by_interface = torch.as_tensor(array, device=device)
        address = array.__cuda_array_interface__["data"][0]
        assert tensor.data_ptr() == by_interface.data_ptr() == address and str(tensor.device) == device
        close(tensor.cpu().numpy(), want)
# Tensors that are written on PyTorch's own stream, where the call is on another one.
with torch.cuda.stream(side):
    charges = torch.tensor(q, device="cuda")
    found = mc.ewald_real_space(mc.asarray(r), charges, h, 0.9, cutoff=4.0)
close(found, mn.ewald_real_space(r, q, h, 0.9, cutoff=4.0))
with refused(BufferError, "gradient"):
    mc.asarray(torch.tensor(q, device="cuda", requires_grad=True))
with refused(ValueError, "`positions`", "row-major order without gaps"):
    mc.ewald_summation(torch.empty((3, 8), dtype=torch.float64, device="cuda").T, q, h)
# Dtypes that no call takes: of bfloat16 NumPy has no name, and so no interface.
for dtype in (torch.bool, torch.uint8, torch.float16, torch.bfloat16, torch.complex64):
    x = torch.ones(3, dtype=dtype).cuda()
    back = torch.from_dlpack(mc.asarray(x))
    assert back.dtype == dtype and back.data_ptr() == x.data_ptr()
with refused(TypeError, "`charges`", "float32 or float64", "bool"):
    mc.ewald_summation(torch.tensor(r, device="cuda"), torch.ones(8, dtype=torch.bool).cuda(), h)
with refused(TypeError, "`positions`", "an array in the memory of a CUDA device"):
    mc.ewald_summation(torch.tensor(r), q, h)
# What the host has is copied.
close(mc.asarray(torch.tensor(q)), q)
print("done")
"""
    )
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stdout + done.stderr


def test_launches_on_streams_of_pytorch() -> None:
    """And graphs of them: tensors are read and written where they are."""
    done = run(
        PREAMBLE
        + LAUNCHES
        + """
import torch
def tensors(x):
    if isinstance(x, tuple):
        return tuple(map(tensors, x))
    return torch.tensor(x, device="cuda") if isinstance(x, np.ndarray) else x
given = {name: tensors(x) for name, x in (both.smooth | both.rest).items()}
given["positions"].requires_grad_()
expected = plainly(both)
side = torch.cuda.Stream()
for stream in (side, side.cuda_stream):
    energy, total = (torch.empty(n, dtype=torch.float64, device="cuda") for n in (16, 2))
    mk.launch(both.kernel, given, {"energy": energy, "total": total}, stream=stream)
    torch.cuda.current_stream().wait_stream(side)
    close(energy.cpu().numpy(), expected[0], 1e-11)
    close(total.cpu().numpy(), expected[1], 1e-11)
torch.cuda.synchronize()
energy = torch.zeros(16, dtype=torch.float64, device="cuda")
torch.cuda.synchronize()
with mk.capture(side) as graph:
    mk.launch(both.kernel, given, {"energy": energy}, stream=side)
assert not energy.cpu().any()
graph.launch(side)
side.synchronize()
close(energy.cpu().numpy(), expected[0], 1e-11)
madelung.check_device()
print("done")
"""
    )
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stdout + done.stderr
