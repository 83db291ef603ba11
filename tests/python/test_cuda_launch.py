"""Kernels written in Python on the arrays of any library in the memory of a device, their streams and their graphs, on
the stand-ins for CUDA's libraries. What they give is held against plain loops.
"""

import pytest

import test_cuda_arrays

pytestmark = pytest.mark.host("stand-ins are for machines without a GPU")

PREAMBLE = """
import madelung.kernels as mk
from kernel_cases import cases

def at(x, **how):
    if isinstance(x, tuple):
        return tuple(at(y, **how) for y in x)
    return Interface(x, **how) if isinstance(x, np.ndarray) else x
def given(case, **how):
    return case.arguments({name: at(x, **how) for name, x in (case.smooth | case.rest).items()})
def plainly(case, **changed):
    found = case.expected(**(case.smooth | case.rest | changed))
    return [np.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]
def room(shape, **how):
    out = Interface(np.full(shape, np.nan), **how)
    out.__cuda_array_interface__["data"] = (out.block.address, False)
    return out
def read(out, stream):
    return dev.read(out.block.address, out.block.shape, out.block.dtype, out.block.device, stream)
def rewritten(array, values, stream):
    values = np.ascontiguousarray(values)
    dev._hosts.append(values)
    with dev.on(array.block.device):
        what = dev.ctypes.c_ulonglong(array.block.address), dev.ctypes.c_void_p(values.ctypes.data)
        dev.driver("cuMemcpyHtoDAsync_v2", *what, dev.ctypes.c_size_t(values.nbytes), dev.ctypes.c_void_p(stream))
lj, both = cases()["lennard_jones"], cases()["real_space"]
"""


def run(program: str) -> None:
    test_cuda_arrays.run(PREAMBLE + program)


def test_calls() -> None:
    """With arrays of other libraries, and with ours: results are ours."""
    run("""
for case in cases().values():
    expected = plainly(case)
    for inputs in (given(case), {name: mc.asarray(x) if isinstance(x, np.ndarray) else x
                                 for name, x in given(case).items()}):
        found = case.kernel(**inputs)
        for a, b in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
            assert isinstance(a, mc.Array)
            close(a, b, 1e-11)
# One system without its axis, a number for an element of every one, a list as it is found, arrays of the host.
one = np.zeros(8, np.int32)
positions, cell = lj.smooth["positions"][:8], lj.smooth["cell"][0]
pairs = mn.neighbor_list(positions, 3.2, cell)
expected = plainly(lj, positions=positions, cell=cell[None], epsilon=np.array([0.5]), atoms=one, pairs=pairs)[0]
r, h = Lender(positions), Interface(cell)
for pairs in (mc.find_neighbors(r, 3.2, h), mn.find_neighbors(positions, 3.2, cell)):
    close(lj.kernel(r, h, σ=1.9, epsilon=0.5, cutoff=3.2, pairs=pairs), expected, 1e-11)
with refused(ValueError, "`pairs`", "neighbors of 8 rows"):
    lj.kernel(r, h, σ=1.9, epsilon=0.5, cutoff=3.2, pairs=mc.find_neighbors(Interface(positions[:7]), 3.2, h))
array = mc.asarray(positions)
close(array[-1], positions[-1])
assert [x.shape for x in array] == [(3,)] * 8
madelung.check_device()
""")


def test_launches_on_a_stream() -> None:
    run("""
class OfCuda:
    def __init__(self, handle): self.handle = handle
    def __cuda_stream__(self): return 0, self.handle
class OfCuPy:
    def __init__(self, ptr): self.ptr = ptr
expected = plainly(both)
for device, kind in ((0, int), (0, OfCuda), (1, OfCuPy)):
    handle, other = dev.stream(device), dev.stream(device)
    # Written on one stream, read on another one.
    inputs = given(both, device=device, stream=other)
    outputs = {"energy": room(16, device=device), "total": room(2, device=device)}
    waits = [dev.calls(name) for name in ("cuStreamSynchronize", "cuCtxSynchronize")]
    mk.launch(both.kernel, inputs=inputs, outputs=outputs, stream=kind(handle))
    assert waits == [dev.calls(name) for name in ("cuStreamSynchronize", "cuCtxSynchronize")]
    for out, want in zip(outputs.values(), expected):
        close(read(out, handle), want, 1e-11)
# An op, one of its outputs, and CUDA's default stream.
op = mk.op("mine::both", steps=[both.kernel])
total = room(2)
mk.launch(op, given(both), {"total": total})
close(read(total, 1), expected[1], 1e-11)
madelung.check_device(0)
madelung.check_device(1)
""")


def test_refused_launches() -> None:
    run("""
stream, inputs = dev.stream(), given(lj)
def bad(kind, *parts, **outputs):
    with refused(kind, *parts):
        mk.launch(lj.kernel, inputs, outputs, stream=stream)
bad(ValueError, "`energy`: expected shape (16,), got (7,)", energy=room(7))
bad(TypeError, "`energy`: expected float64, got int32", energy=Interface(np.zeros(16, np.int32)))
bad(TypeError, "`energy`: expected an array in the memory of a CUDA device", energy=np.zeros(16))
bad(ValueError, "`energy`: expected an array that can be written to", energy=Interface(np.zeros(16)))
bad(ValueError, "`energy`: expected an array of device 0", energy=room(16, device=1))
inside = room(16)
inside.__cuda_array_interface__["data"] = (inputs["positions"].block.address, False)
bad(ValueError, "`energy`: expected memory of its own, got that of `positions`", energy=inside)
with refused(TypeError, "`stream`: expected the handle of a stream"):
    mk.launch(lj.kernel, inputs, {"energy": room(16)}, stream="mine")
with refused(TypeError, "expected arrays in the memory of a CUDA device for `positions`, `cell`"):
    mk.launch(lj.kernel, lj.smooth | lj.rest, {}, stream=stream)
with refused(TypeError, "expected arrays in the memory of a CUDA device for `positions`, `cell`"):
    mk.launch(lj.kernel, lj.smooth | lj.rest, {"energy": room(16)})
energy, total = room(16), room(2)
total.__cuda_array_interface__["data"] = energy.__cuda_array_interface__["data"]
with refused(ValueError, "`total`: expected memory of its own, got that of `energy`"):
    mk.launch(both.kernel, given(both), {"energy": energy, "total": total}, stream=stream)
""")


def test_captured_launches() -> None:
    """Run as often as the graph is launched, with what is in the arrays by then, in memory that nobody else gets."""
    run("""
stream, other = dev.stream(), dev.stream()
inputs = given(both)
energy, total, squares = room(16), room(2), room(16)
others = given(lj) | {"epsilon": total}
with mk.capture(stream) as graph:
    mk.launch(both.kernel, inputs, {"energy": energy, "total": total}, stream=stream)
    # What the first one writes, a later one reads.
    mk.launch(lj.kernel, others, {"energy": squares}, stream=stream)
assert np.isnan(read(energy, stream)).all()
def check(stream, **changed):
    expected = plainly(both, **changed)
    close(read(energy, stream), expected[0], 1e-11)
    close(read(total, stream), expected[1], 1e-11)
    close(read(squares, stream), plainly(lj, epsilon=expected[1])[0], 1e-11)
graph.launch()
check(stream)
# Work between, on the same stream, whose memory is given back again and again.
gc.collect()
for _ in range(3):
    mk.launch(lj.kernel, given(lj), {"energy": room(16)}, stream=stream)
    close(mc.ewald_real_space(Interface(r), q, h, 0.9, cutoff=4.0, stream=stream),
          mn.ewald_real_space(r, q, h, 0.9, cutoff=4.0))
charges = np.linspace(-1, 2, 16)
rewritten(inputs["charges"], charges, stream)
launches = dev.calls("cuLaunchKernel")
graph.launch(stream)
assert dev.calls("cuLaunchKernel") == launches
check(stream, charges=charges)
rewritten(inputs["charges"], -charges, other)
graph.launch(other)
check(other, charges=-charges)
# Functions of `madelung.cuda` too: lists of a stream and results, which are there when the graph has run.
lists = {name: mc.asarray(Interface(x, stream=stream)) for name, x in full.items()}
one = np.zeros(8, np.int32)
*here, of = [mc.asarray(Interface(x, stream=stream)) for x in (r, q, h[None], one)]
with mk.capture(stream) as sums:
    energies = mc.ewald_real_space(*here, 0.9, cutoff=4.0, batch_idx=of, **lists, stream=stream)
sums.launch(other)
close(energies, mn.ewald_real_space(r, q, h, 0.9, cutoff=4.0))
with refused(ValueError, "`stream`: expected one of device 0, got one of device 1"):
    graph._native.launch(mc._arrays.stream_of(dev.stream(1), 1))
del graph, sums
gc.collect()
close(energies, mn.ewald_real_space(r, q, h, 0.9, cutoff=4.0))
madelung.check_device()
""")


def test_launches_in_place() -> None:
    """Results are written where they are to lie, once they are known to fit there."""
    run("""
stream, inputs = dev.stream(), given(both)
energy, total = room(16), room(2)
before = dev.calls("cuMemcpyDtoDAsync_v2")
mk.launch(both.kernel, inputs, {"energy": energy, "total": total}, stream=stream)
ours = mc.asarray(room(16))
mk.launch(both.kernel, inputs, {"energy": ours}, stream=stream)
assert dev.calls("cuMemcpyDtoDAsync_v2") == before
expected = plainly(both)
close(read(energy, stream), expected[0], 1e-11)
close(read(total, stream), expected[1], 1e-11)
close(dev.read(ours._native.address, (16,), float, 0, stream), expected[0], 1e-11)
# Where one output is refused, nothing was launched.
launches = dev.calls("cuLaunchKernel")
with refused(ValueError, "`total`: expected shape (2,), got (3,)"):
    mk.launch(both.kernel, inputs, {"energy": room(16), "total": room(3)}, stream=stream)
assert dev.calls("cuLaunchKernel") == launches
inside = room(16)
pairs = both.rest["pairs"]
listed = Interface(pairs[0]), Interface(pairs[1]), Interface(pairs[2])
inside.__cuda_array_interface__["data"] = (listed[2].block.address, False)
with refused(ValueError, "`energy`: expected memory of its own, got that of `pairs`"):
    mk.launch(both.kernel, inputs | {"pairs": listed}, {"energy": inside}, stream=stream)
found = mc.find_neighbors(Interface(both.smooth["positions"]), 3.2, Interface(both.smooth["cell"]),
                          batch_idx=Interface(both.rest["atoms"]))
inside.__cuda_array_interface__["data"] = (found.images._native.address, False)
launches = dev.calls("cuLaunchKernel")
with refused(ValueError, "`energy`: expected memory of its own, got that of `pairs`"):
    mk.launch(both.kernel, inputs | {"pairs": found}, {"energy": inside}, stream=stream)
assert dev.calls("cuLaunchKernel") == launches
# What only values show makes the results NaN, and is an error later.
mk.launch(both.kernel, inputs | {"alpha": Interface(np.array([np.inf, 1.0]))}, {"energy": energy}, stream=stream)
assert np.isnan(read(energy, stream)).all()
with refused(ValueError, "alpha`: expected finite numbers"):
    madelung.check_device()
""")


def test_launches_go_on() -> None:
    """In-out arrays are read and written where they are; calls copy them."""
    run("""
from in_out_kernels import arguments, axpy, expected, go_on
stream = dev.stream()
def writable(x):
    out = Interface(x)
    out.__cuda_array_interface__["data"] = (out.block.address, False)
    return out
def check(arrays, wanted):
    for name, x in wanted.items():
        np.testing.assert_array_equal(read(arrays[name], stream), x, name)
for dtype in (np.float64, np.float32):
    inputs, held = arguments(dtype)
    wanted = expected(inputs, held)
    there = {name: Interface(x) for name, x in inputs.items()}
    arrays = {name: writable(x) for name, x in held.items()} | {"new": writable(np.full(3, 99, np.int32))}
    before = dev.calls("cuMemcpyDtoDAsync_v2")
    mk.launch(go_on, there, arrays, stream=stream)
    assert dev.calls("cuMemcpyDtoDAsync_v2") == before
    check(arrays, wanted)
    again = expected(inputs, {name: wanted[name] for name in held})
    mk.launch(go_on, there, {name: arrays[name] for name in held}, stream=stream)
    check(arrays, {name: again[name] for name in held})
    given = {name: Interface(x) for name, x in held.items()}
    for name, x in zip(wanted, go_on(**there, **given)):
        np.testing.assert_array_equal(x.numpy(), wanted[name], name)
    check(given, held)
# In a graph, as often as it is launched.
inputs, held = arguments()
x, y = Interface(inputs["x"], stream=stream), writable(held["y"])
with mk.capture(stream) as graph:
    mk.launch(axpy, {"a": 0.5, "x": x}, {"y": y}, stream=stream)
for _ in range(3):
    graph.launch()
np.testing.assert_array_equal(read(y, stream), held["y"] + 1.5 * inputs["x"])
with refused(ValueError, "`y`: expected its array under `outputs` alone", "got one under `inputs`"):
    mk.launch(axpy, {"a": 0.5, "x": x, "y": y}, {"y": y}, stream=stream)
with refused(ValueError, "`y`: expected memory of its own, got that of `x`"):
    mk.launch(axpy, {"a": 0.5, "x": y}, {"y": y}, stream=stream)
with refused(ValueError, "`y`: expected an array that can be written to"):
    mk.launch(axpy, {"a": 0.5, "x": x}, {"y": Interface(held["y"])}, stream=stream)
madelung.check_device()
""")


def test_captures_end_anywhere() -> None:
    """In any thread; one that is given up makes no graph, and leaves the stream as it was."""
    run("""
import threading
stream, inputs, out = dev.stream(), given(lj), room(16)
context = mk.capture(stream)
graph = context.__enter__()
mk.launch(lj.kernel, inputs, {"energy": out}, stream=stream)
thread = threading.Thread(target=context.__exit__, args=(None, None, None))
thread.start()
thread.join()
graph.launch()
close(read(out, stream), plainly(lj)[0], 1e-11)
made = dev.calls("cuGraphInstantiateWithFlags")
def failing():
    with refused(ZeroDivisionError):
        with mk.capture(stream):
            mk.launch(lj.kernel, inputs, {"energy": out}, stream=stream)
            1 / 0
def closed():
    context = mk.capture(stream)
    context.__enter__()
    mk.launch(lj.kernel, inputs, {"energy": out}, stream=stream)
    thread = threading.Thread(target=context.gen.close)
    thread.start()
    thread.join()
for abandoned in (failing, closed):
    abandoned()
    assert dev.calls("cuGraphInstantiateWithFlags") == made
    mk.launch(lj.kernel, inputs, {"energy": room(16)}, stream=stream)
# One that Python forgets.
native = madelung._native.DeviceGraph(mc._arrays.stream_of(stream, 0))
del native
mk.launch(lj.kernel, inputs, {"energy": room(16)}, stream=stream)
assert dev.calls("cuGraphInstantiateWithFlags") == made
madelung.check_device()
""")


def test_captures_of_others() -> None:
    """What another library captures keeps the memory of our calls for as long as it has the graph."""
    run("""
stream, inputs = dev.stream(), given(both)
energy, total = room(16), room(2)
lists = {name: mc.asarray(Interface(x, stream=stream)) for name, x in full.items()}
*here, of = [mc.asarray(Interface(x, stream=stream)) for x in (r, q, h[None], np.zeros(8, np.int32))]
graph, made, handle = dev.ctypes.c_void_p(), dev.ctypes.c_void_p(), dev.ctypes.c_void_p(stream)
with dev.on(0):
    dev.driver("cuStreamBeginCapture_v2", handle, 1)
    mk.launch(both.kernel, inputs, {"energy": energy, "total": total}, stream=stream)
    energies = mc.ewald_real_space(*here, 0.9, cutoff=4.0, batch_idx=of, **lists, stream=stream)
    dev.driver("cuStreamEndCapture", handle, dev.ctypes.byref(graph))
    dev.driver("cuGraphInstantiateWithFlags", dev.ctypes.byref(made), graph, dev.ctypes.c_ulonglong(0))
    dev.driver("cuGraphDestroy", graph)
gc.collect()
mc.release_memory()
mk.launch(both.kernel, inputs, {"energy": room(16), "total": room(2)}, stream=stream)
with dev.on(0):
    dev.driver("cuGraphLaunch", made, handle)
close(read(energy, stream), plainly(both)[0], 1e-11)
close(read(total, stream), plainly(both)[1], 1e-11)
close(energies, mn.ewald_real_space(r, q, h, 0.9, cutoff=4.0))
freed = dev.calls("cuMemFree_v2")
del energies
with dev.on(0):
    dev.driver("cuGraphExecDestroy", made)
assert dev.calls("cuMemFree_v2") == freed
mc.release_memory()
assert dev.calls("cuMemFree_v2") > freed
madelung.check_device()
""")


def test_refused_captures() -> None:
    run("""
stream, inputs, out = dev.stream(), given(lj), room(16)
with refused(ValueError, "`stream`: expected one that can be captured, got the legacy default stream"):
    with mk.capture(1): pass
def bad(kind, *parts, inputs=inputs):
    with refused(kind, *parts):
        with mk.capture(stream) as graph:
            mk.launch(lj.kernel, inputs, {"energy": out}, stream=stream)
    with refused(ValueError, "`graph`: expected one that was captured"):
        graph.launch()
bad(NotImplementedError, "copying from the host", inputs=inputs | {"epsilon": lj.smooth["epsilon"]})
foreign = "expected an array of the stream of the call, got one of another stream, while one of them is captured"
bad(ValueError, f"`positions`: {foreign}", inputs=given(lj, stream=dev.stream()))
# Nor does work on another stream become part of the graph by an array of the one that is captured.
there, other = mc.asarray(Interface(r, stream=stream), stream=stream), dev.stream()
with mk.capture(stream) as graph:
    mk.launch(lj.kernel, inputs, {"energy": out}, stream=stream)
    for taken in (lambda: mc.spatial_order(there, stream=other), lambda: mc.asarray(there).__dlpack__(stream=other)):
        with refused(ValueError, foreign):
            taken()
# A graph is no part of another one, which would not keep its memory.
with mk.capture(other):
    with refused(NotImplementedError, "launching a graph while its stream is captured"):
        graph.launch(other)
graph.launch(other)
close(read(out, stream), plainly(lj)[0], 1e-11)
with refused(ZeroDivisionError):
    with mk.capture(stream): 1 / 0
with mk.capture(stream):
    with refused(NotImplementedError, "capturing a graph"):
        with mk.capture(stream): pass
# The stream is what it was.
mk.launch(lj.kernel, inputs, {"energy": out}, stream=stream)
close(read(out, stream), plainly(lj)[0], 1e-11)
madelung.check_device()
""")
