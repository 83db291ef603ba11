"""Python functions as targets of XLA on a GPU: frames of calls as XLA makes them (`xla_frames`), on the stand-ins for
CUDA's libraries. What is computed is held against plain loops.
"""

import pytest

import test_cuda_launch
from conftest import required

required("jax")
pytestmark = pytest.mark.host("stand-ins are for machines without a GPU")

PREAMBLE = """
import threading
import jax
jax.config.update("jax_enable_x64", True)
import xla_frames as xla
from madelung.jax import jax_callable, register_ffi_callback

def waits():
    names = "cuStreamSynchronize", "cuCtxSynchronize", "cuMemcpyDtoDAsync_v2", "cuMemcpyDtoHAsync_v2"
    return [dev.calls(name) for name in names]
def place(x, arrays):
    # An argument with numbers of arrays of a frame in the place of arrays.
    if isinstance(x, tuple):
        return tuple(place(y, arrays) for y in x)
    if isinstance(x, Interface):
        arrays.append(x)
        return slice(len(arrays) - 1, None)
    return x
def filled(x, inputs):
    if isinstance(x, tuple):
        return tuple(filled(y, inputs) for y in x)
    return inputs[x.start] if isinstance(x, slice) else x
def frame(case):
    arrays = []
    return {name: place(x, arrays) for name, x in given(case).items()}, arrays
stream, (places, operands) = dev.stream(), frame(both)
def launched(inputs, outputs, attrs, ctx):
    given = {name: filled(x, inputs) for name, x in places.items()}
    mk.launch(both.kernel, given, {"energy": outputs[0], "total": outputs[1]})
def check(results, stream, **changed):
    for out, want in zip(results, plainly(both, **changed), strict=True):
        close(read(out, stream), want, 1e-11)
def of_driver(name, *made):
    found = dev.ctypes.c_void_p()
    dev.driver(name, *made, dev.ctypes.byref(found)) if name == "cuStreamEndCapture" else dev.driver(
        name, dev.ctypes.byref(found), *made)
    return found
"""


def run(program: str) -> None:
    test_cuda_launch.run(PREAMBLE + program)


def test_callbacks() -> None:
    """On XLA's buffers and XLA's stream, without a copy or a wait, from any thread."""
    run("""
seen = []
def callback(inputs, outputs, attrs, ctx):
    seen.append((inputs, outputs, attrs, ctx.stream))
    launched(inputs, outputs, attrs, ctx)
register_ffi_callback("twice", callback)
attrs = {"scale": 2.0, "count": 3, "word": "near", "counts": np.arange(3)}
for device in (0, 1):
    on, there = dev.stream(device), [Interface(x.block.host, device=device) for x in operands]
    results, failed = [room(16, device=device), room(2, device=device)], []
    before = waits()
    thread = threading.Thread(target=lambda: failed.append(xla.call("twice", on, there, results, **attrs)))
    thread.start()
    thread.join()
    assert failed == [None] and waits() == before
    check(results, on)
    inputs, outputs, found, handle = seen[-1]
    assert handle == on and all(isinstance(x, mc.Array) and x.stream == on for x in inputs + outputs)
    for array, x in zip(inputs + outputs, there + results, strict=True):
        said = array.__cuda_array_interface__
        assert said["data"] == (x.block.address, array in inputs) and array.device == device
        assert array.shape == x.block.shape and array.dtype == x.block.dtype
    assert found.pop("counts").tolist() == [0, 1, 2] and found == {"scale": 2.0, "count": 3, "word": "near"}
# Afterwards a call that names no stream is on the default one again.
assert mc.asarray(r).stream == 1
register_ffi_callback("twice", lambda *_: seen.clear())
assert xla.call("twice", stream, operands, [room(16), room(2)], **attrs) is None and not seen
madelung.check_device(0)
madelung.check_device(1)
""")


def test_dtypes() -> None:
    """Those that XLA and DLPack both have, to and fro as a library that takes DLPack copies them."""
    run("""
import ml_dtypes
def copied(inputs, outputs, attrs, ctx):
    lent = [dev.taken(x.__dlpack__(stream=-1, max_version=(1, 0))) for x in (inputs[0], outputs[0])]
    (a, _), (b, _) = lent
    assert (a.tensor.code, a.tensor.bits, a.flags, b.flags) == (b.tensor.code, b.tensor.bits, 1, 0)
    what = (dev.ctypes.c_ulonglong(b.tensor.data), dev.ctypes.c_ulonglong(a.tensor.data))
    size = a.tensor.bits // 8 * inputs[0].size
    with dev.on(0):
        dev.driver("cuMemcpyDtoDAsync_v2", *what, dev.ctypes.c_size_t(size), dev.ctypes.c_void_p(ctx.stream))
    for _, give_back in lent:
        give_back()
    seen.append(inputs[0].dtype)
register_ffi_callback("copied", copied)
seen = []
names = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128"
for dtype in (np.dtype(getattr(ml_dtypes, name, name)) for name in names.split()):
    x, out = (Block(values.astype(dtype)) for values in (np.arange(6).reshape(3, 2), np.ones((3, 2))))
    assert xla.call("copied", stream, [x], [out]) is None and seen[-1] == dtype
    np.testing.assert_array_equal(dev.read(out.address, out.shape, dtype, 0, stream), x.host, strict=True)
""")


def test_errors() -> None:
    run("""
def bad(text, function=launched, inputs=operands, outputs=None, stream=stream, code=3):
    register_ffi_callback("bad", function)
    failed = xla.call("bad", stream, inputs, [room(16), room(2)] if outputs is None else outputs)
    assert failed and failed[0] == code and failed[1].startswith(text), (failed, text)
def raises(*_):
    raise KeyError("nothing here")
bad("`bad`: KeyError: 'nothing here'", raises)
bad("`bad`: ValueError: `energy`: expected shape (16,), got (2,)", outputs=[room(2), room(16)])
# Inputs are not written to.
def swapped(inputs, outputs, *more):
    launched(inputs, [inputs[1], outputs[1]], *more)
bad("`bad`: ValueError: `energy`: expected an array that can be written to", swapped)
flags = [Interface(np.zeros(x.block.shape, bool)) for x in operands]
bad("`bad`: TypeError: `charges`: expected float32 or float64, got bool", inputs=[operands[0], flags[1], *operands[2:]])
bad("`bad`: ValueError: `stream`: expected a stream that belongs to a device", stream=0)
# An error of XLA's own.
bad("no stream", stream=None, code=12)
with refused(ValueError, "`graph_compatible`: expected False, with which `bad` was registered, got True"):
    register_ffi_callback("bad", raises, graph_compatible=True)
""")


def test_callables() -> None:
    """A function that launches a kernel is the same on the CPU and on a GPU."""
    run("""
f = jax_callable(xla.energies, graph_mode="jax")
jax_callable(xla.energies)
first, second = list(xla.targets)[-2:]
# A function has one target, however often a program is traced.
jax_callable(xla.energies, graph_mode="jax")
assert list(xla.targets)[-1] == second
assert [xla.traits(name) for name in (first, second)] == [1, 0]
expected, cutoff = plainly(both), both.rest["cutoff"]
for a, b in zip(f(**both.smooth, **both.rest), expected, strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-12)
inputs = [*both.smooth.values(), both.rest["atoms"], *both.rest["pairs"]]
operands, results = [Interface(x) for x in inputs], [room(16), room(2)]
attrs = {"cutoff": cutoff, "pairs_list_kind": 0}
for target in (first, second):
    assert xla.call(target, stream, operands, results, **attrs) is None
    for a, b in zip(results, expected):
        close(read(a, stream), b, 1e-11)
madelung.check_device()
""")


def test_captured_callbacks() -> None:
    """What XLA captures is run whenever it runs the graph, in memory that stays as long as XLA has that."""
    run("""
register_ffi_callback("captured", launched, graph_compatible=True)
register_ffi_callback("eager", launched)
assert [xla.traits(name) for name in ("captured", "eager")] == [1, 0]
results = [room(16), room(2)]
def captured(count=1):
    with dev.on(0):
        dev.driver("cuStreamBeginCapture_v2", dev.ctypes.c_void_p(stream), 1)
        failed = [xla.call("captured", stream, operands, results) for _ in range(count)]
        graph = of_driver("cuStreamEndCapture", dev.ctypes.c_void_p(stream))
        assert failed == [None] * count
        made = of_driver("cuGraphInstantiateWithFlags", graph, dev.ctypes.c_ulonglong(0))
        dev.driver("cuGraphDestroy", graph)
    return made
def replayed(made):
    with dev.on(0):
        dev.driver("cuGraphLaunch", made, dev.ctypes.c_void_p(stream))
# Nothing was compiled or allocated before the first capture.
first = captured()
assert np.isnan(read(results[0], stream)).all() and dev.calls("cuUserObjectCreate") == 1
replayed(first)
check(results, stream)
# Memory of the graph goes to nobody else, on this stream or in another graph of it.
second = captured(2)
assert dev.calls("cuUserObjectCreate") == 2
gc.collect()
mc.release_memory()
for _ in range(3):
    assert xla.call("eager", stream, operands, [room(16), room(2)]) is None
charges = np.linspace(-1, 2, 16)
rewritten(operands[1], charges, stream)
for made in (first, second, first):
    replayed(made)
    check(results, stream, charges=charges)
# It is given back when XLA has destroyed the graph, but not in the thread of the driver that says so.
freed = dev.calls("cuMemFree_v2")
with dev.on(0):
    dev.driver("cuGraphExecDestroy", first)
assert dev.calls("cuMemFree_v2") == freed
mc.release_memory()
assert dev.calls("cuMemFree_v2") > freed
replayed(second)
check(results, stream, charges=charges)
# Nor is the stream's next work part of any of them.
mk.launch(both.kernel, given(both), {"energy": results[0], "total": results[1]}, stream=stream)
check(results, stream)
madelung.check_device()
""")
