"""Tensors of CUDA, and ops on them. Runs where a GPU is stood in for: see test_cuda_stand_in.py."""

import ctypes
import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from cases import OPS, Case, make
from torch.func import grad, jvp, vmap

import madelung
import madelung.torch as mt

CUDA = torch.device("cuda", 0)
DRIVER = ctypes.CDLL("libcuda.so.1")
RUNTIME = ctypes.CDLL("libstand_in_cudart.so")
for library in (DRIVER, RUNTIME):
    library.stand_in_calls.restype = ctypes.c_ulonglong
DRIVER.stand_in_memory.argtypes = [ctypes.c_size_t]
# What waits, allocates, or copies between device and host.
UNASKED = {
    DRIVER: (
        *("cuMemAlloc_v2", "cuMemAllocAsync", "cuMemFree_v2", "cuMemFreeAsync", "cuStreamCreate", "cuStreamWaitEvent"),
        *("cuMemcpyDtoH_v2", "cuMemcpyHtoD_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2", "cuEventRecord"),
        *("cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "cuModuleLoadData"),
    ),
    RUNTIME: ("cudaMalloc", "cudaFree", "cudaMemcpyAsync", "cudaLaunchKernel", "cudaEventRecord", "cudaHostAlloc"),
}


def calls() -> dict[str, int]:
    return {name: there.stand_in_calls(name.encode()) for there, names in UNASKED.items() for name in names}


def moved(case: Case, device: torch.device | str = CUDA) -> Case:
    # Meshes are integers of the host.
    stay = [i.part == "meshes" for i in case.op.inputs]
    args = zip(case.args, stay)
    return Case(case.op, [x if at_home or not isinstance(x, torch.Tensor) else x.to(device) for x, at_home in args])


def as_tuple(x: torch.Tensor | Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return (x,) if isinstance(x, torch.Tensor) else tuple(x)


def close(found: Any, expected: Any, tolerance: float = 1e-12) -> None:
    """Sums on a device are those of the CPU in another order: a few of some ten terms' roundings, and once more for
    each derivative. What is zero but for rounding has terms of the size of the others."""
    found, expected = as_tuple(found), as_tuple(expected)
    assert len(found) == len(expected)
    sizes = [float(b.abs().max()) if b.numel() else 0.0 for b in expected]
    for a, b, size in zip(found, expected, sizes):
        assert a.is_cuda and not b.is_cuda and a.dtype == b.dtype
        scale = size if size > 1e-13 * max(sizes) else max(sizes)
        torch.testing.assert_close(a.cpu(), b, rtol=0, atol=tolerance * scale)


def values(case: Case) -> tuple[torch.Tensor, ...]:
    return as_tuple(case.call(*case.args))


def one() -> Case:
    """A case of an op that has everything: a list, a batch, a cell, gradients that are saved."""
    return make(OPS["ewald_real_space"])


def test_pytorch_itself() -> None:
    assert torch.cuda.is_available() and torch.cuda.device_count() == 2
    x = torch.arange(6.0).reshape(2, 3)
    for device in ("cuda:0", "cuda:1"):
        y = x.to(device)
        assert str(y.device) == device and torch.equal(y.cpu(), x)
        assert torch.equal((y.t() + 1).contiguous().cpu(), x.t() + 1)
    assert torch.equal(x.to("cuda:0").to("cuda:1").cpu(), x)


def test_values(op_case: Case) -> None:
    close(values(moved(op_case)), values(op_case))


def test_derivatives(op_case: Case) -> None:
    """To second order, in both modes and their compositions, under `vmap`, and of some outputs alone."""

    def derivatives(case: Case) -> list[torch.Tensor]:
        xs = case.inputs()
        first = torch.autograd.grad(case.scalar(*xs), xs, create_graph=True)
        weights = [torch.linspace(-1, 1, g.numel(), dtype=g.dtype).reshape(g.shape).to(g.device) for g in first]
        second = torch.autograd.grad(sum((g * w).sum() for g, w in zip(first, weights)), xs)
        r, u = case.positions, weights[0]
        forward = jvp(case.energy, (r,), (u,))[1]
        across = jvp(grad(case.energy), (r,), (u,))[1]
        many = torch.stack([r, 0.99 * r])
        mapped = vmap(case.energy)(many), vmap(grad(case.energy))(many)
        (last,) = torch.autograd.grad(as_tuple(case.at(*xs))[-1].sum(), xs[:1])
        return [*first, *second, forward, across, *mapped, last]

    close(*[[x.detach() for x in derivatives(case)] for case in (moved(op_case), op_case)], 1e-11)


@pytest.mark.parametrize("device", ["cuda:0", "cuda:1"])
def test_other_dtypes_and_layouts(device: str) -> None:
    """float32; integers of 64 bits; tensors with strides; one number for all elements."""
    case = one().to(torch.float32)
    close(values(moved(case, device)), values(case), 1e-5)
    case = one()
    there, expected = moved(case, device), values(case)
    n = case.reals[0]
    args = [x.long() if isinstance(x, torch.Tensor) and not x.is_floating_point() else x for x in there.args]
    args[n] = args[n].t().contiguous().t()
    assert not args[n].is_contiguous()
    close(case.call(*args), expected)
    xs = there.inputs()
    (e,) = as_tuple(there.at(*xs))
    cotangent = torch.tensor(0.3, dtype=e.dtype, device=device)
    a = torch.autograd.grad(e, xs, cotangent.expand_as(e), retain_graph=True)
    b = torch.autograd.grad(e, xs, cotangent.expand_as(e).contiguous())
    assert all(torch.equal(x, y) for x, y in zip(a, b))


def test_nothing_is_waited_for(op_case: Case) -> None:
    """Nor allocated nor copied between device and host, by a call like one before: PyTorch has the memory."""
    there = moved(op_case)

    def call() -> list[tuple[str, int, int]]:
        xs = there.inputs()
        before = calls()
        out = as_tuple(there.at(*xs))
        between = calls()
        cotangents = [x.detach().clone() for x in out]
        again = calls()
        torch.autograd.grad(out, xs, cotangents)
        return [(name, between[name] - before[name], now - again[name]) for name, now in calls().items()]

    call()
    torch.cuda.synchronize()
    launches = DRIVER.stand_in_calls(b"cuLaunchKernel")
    counts = call()
    assert DRIVER.stand_in_calls(b"cuLaunchKernel") > launches + 1
    assert counts == [(name, 0, 0) for name, _, _ in counts]


@pytest.mark.parametrize("side", [False, True])
def test_inputs_may_go_before_the_stream_has_run(side: bool) -> None:
    case = one()
    sevens = [torch.full_like(x, 7).pin_memory() for x in case.args if isinstance(x, torch.Tensor)]
    with torch.cuda.stream(torch.cuda.Stream() if side else None):
        there, expected = moved(case), values(case)
        addresses = {x.data_ptr() for x in there.args if isinstance(x, torch.Tensor)}
        done = case.call(*there.args)
        del there
        # Whoever gets the memory writes to it, behind what is queued.
        others = [torch.empty_like(x, device=CUDA) for x in sevens]
        assert addresses & {x.data_ptr() for x in others}
        for x, seven in zip(others, sevens):
            x.copy_(seven, non_blocking=True)
        close(done, expected)


def test_side_streams() -> None:
    """A call is on the stream that PyTorch works on: what waits for that one alone finds results."""
    case = one()
    expected = values(case)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        there = moved(Case(case.op, [x.pin_memory() if isinstance(x, torch.Tensor) else x for x in case.args]))
        done = as_tuple(there.call(*there.args))
        before = DRIVER.stand_in_calls(b"cuCtxSynchronize")
        close(done, expected)
        assert DRIVER.stand_in_calls(b"cuCtxSynchronize") == before
        xs = there.inputs()
        out = as_tuple(there.at(*xs))
        cotangents = [x.detach().clone() for x in out]
    # Another stream waits by an event.
    other = torch.cuda.Stream()
    other.wait_stream(stream)
    with torch.cuda.stream(other):
        close(there.call(*there.args), expected)
    # What goes backwards is on the stream of what went forwards, and the stream of the caller waits for it.
    here = case.inputs()
    e = as_tuple(case.at(*here))
    close(torch.autograd.grad(out, xs, cotangents), torch.autograd.grad(e, here, [x.detach() for x in e]))


def test_a_device_that_is_not_the_current_one(op_case: Case) -> None:
    second = torch.device("cuda", 1)
    there = moved(op_case, second)
    xs = there.inputs()
    assert torch.cuda.current_device() == 0
    out = as_tuple(there.at(*xs))
    assert all(x.device == second for x in out)
    close([x.detach() for x in out], values(op_case))
    grads = torch.autograd.grad(out, xs, [x.detach().clone() for x in out])
    assert all(g.device == second for g in grads) and torch.cuda.current_device() == 0


def test_arguments_in_several_places(op_case: Case) -> None:
    there = moved(op_case)
    first = op_case.reals[0]
    name = op_case.op.inputs[first].name
    # Meshes are integers of the host.
    moves = [n for n in op_case.op.tensors if op_case.op.inputs[n].part != "meshes"]
    others = [n for n in moves if n != first and op_case.args[n].numel()]
    if not others:
        return
    for n, place in ((others[0], op_case.args), (others[-1], moved(op_case, torch.device("cuda", 1)).args)):
        args = list(there.args)
        args[n] = place[n]
        got = "cpu" if place is op_case.args else "cuda:1"
        with pytest.raises(
            RuntimeError, match=rf"`{op_case.op.inputs[n].name}`: expected a tensor on cuda:0.*on {got}"
        ):
            op_case.call(*args)
    args = list(there.args)
    args[first] = op_case.args[first]
    with pytest.raises(RuntimeError, match=rf"`{name}`|on the CPU like the others"):
        op_case.call(*args)


def test_what_only_values_show() -> None:
    """Is told by the device's record; results are NaN, and later calls are what they were."""
    case = one()
    there, expected = moved(case), values(case)
    others = [i.part for i in case.op.inputs].index("others")
    for n, wrong, message in (
        (case.reals[0], torch.full_like(case.positions, torch.nan), "positions`: expected finite numbers"),
        (others, case.args[others] + 5, "pairs`: expected indices of rows that are there"),
    ):
        args = list(there.args)
        args[n] = wrong.to(CUDA)
        assert bool(torch.isnan(case.call(*args).cpu()).all())
        with pytest.raises(ValueError, match=message):
            madelung.check_device(0)
        madelung.check_device(0)
    close(values(there), expected)


@pytest.mark.parametrize("name", ["ewald_real_space", "pair_vectors", "list_aggregate_exponential"])
def test_images_beyond_32_bits_are_an_error(name: str) -> None:
    """Of full lists and of directed ones, whose pairs stand for themselves."""
    case = moved(make(OPS[name]))
    shifts = next(n for n, i in enumerate(case.op.inputs) if i.part == "shifts")
    args = list(case.args)
    args[shifts] = args[shifts].long()
    close(as_tuple(case.call(*args)), [x.cpu() for x in values(case)], 0.0)
    args[shifts] = args[shifts].cpu().index_fill(0, torch.tensor([1]), 2**33).to(CUDA)
    case.call(*args)
    with pytest.raises(ValueError, match="expected integers that fit"):
        madelung.check_device(0)


@contextmanager
def no_memory() -> Iterator[None]:
    """No more than what PyTorch uses already."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    DRIVER.stand_in_memory(1)
    kept = []
    try:
        for n in (1 << 20, 1 << 14, 1 << 9, 1):
            while True:
                try:
                    kept.append(torch.empty(n, dtype=torch.uint8, device=CUDA))
                except torch.OutOfMemoryError:
                    break
        yield
    finally:
        kept.clear()
        DRIVER.stand_in_memory(1 << 30)


def test_out_of_memory(op_case: Case) -> None:
    there, expected = moved(op_case), values(op_case)
    close(values(there), expected)
    with no_memory(), pytest.raises(RuntimeError, match=r"out of memory: \d+ bytes are needed"):
        there.call(*there.args)
    close(values(there), expected)


def test_nothing_is_kept(saving_case: Case) -> None:
    """Of PyTorch's memory, by calls that end well and by others."""
    there = moved(saving_case)
    wrong = list(there.args)
    wrong[there.reals[0]] = there.positions.to("cuda:1")

    def used() -> int:
        xs = there.inputs()
        out = as_tuple(there.at(*xs))
        torch.autograd.grad(out, xs, [x.detach().clone() for x in out])
        with pytest.raises(RuntimeError, match="expected a tensor on"):
            there.call(*wrong)
        del xs, out
        gc.collect()
        return torch.cuda.memory_allocated()

    # PyTorch's thread of a device lets go of the last backward pass a moment later, that of the test before too: what
    # is held at the least is what stays.
    first, last = (min(used() for _ in range(3)) for _ in range(2))
    assert 0 < last <= first


def test_no_atoms(op_case: Case) -> None:
    args = moved(op_case).without_rows()
    for n in (n for n, i in enumerate(op_case.op.inputs) if i.part == "ptr"):
        args[n] = torch.zeros(1, dtype=torch.int32).to(CUDA)
    xs = [args[n].clone().requires_grad_() for n in op_case.reals]
    for n, x in zip(op_case.reals, xs):
        args[n] = x
    out = as_tuple(op_case.call(*args))
    assert all(x.is_cuda and x.shape[0] == 0 for x in out)
    grads = torch.autograd.grad(out, xs, [x.detach() for x in out])
    assert [(g.shape, g.device) for g in grads] == [(x.shape, x.device) for x in xs]


def test_compiled_and_exported(tmp_path: Path) -> None:
    """As PyTorch's graphs hold it; Inductor's own kernels need a driver that Triton knows."""
    case = one()
    there = moved(case)

    class Call(torch.nn.Module):
        def forward(self, *args: Any) -> torch.Tensor:
            return there.public(*args)

    xs, here = there.inputs(), case.inputs()
    e = torch.compile(there.scalar, backend="aot_eager", fullgraph=True)(*xs)
    expected = case.scalar(*here)
    close([e.detach()], [expected.detach()])
    close(torch.autograd.grad(e, xs), torch.autograd.grad(expected, here))
    torch.export.save(torch.export.export(Call(), tuple(there.args)), tmp_path / "call.pt2")
    close(torch.export.load(tmp_path / "call.pt2").module()(*there.args), values(case))


def test_graphs(op_case: Case) -> None:
    """A call and its gradient as a graph of PyTorch's, with other positions at every replay."""
    there = moved(op_case)
    xs = there.inputs()

    def step() -> tuple[torch.Tensor, ...]:
        out = as_tuple(there.at(*xs))
        return *[x.detach() for x in out], *torch.autograd.grad(out, xs, [x.detach() for x in out])

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    stream.synchronize()
    madelung.check_device()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step()
    for scale in (1.0, 0.99):
        case = Case(op_case.op, list(op_case.args))
        case.args[case.reals[0]] = scale * op_case.positions
        with torch.no_grad():
            xs[0].copy_(case.positions)
        graph.replay()
        here = case.inputs()
        out = as_tuple(case.at(*here))
        gradients = torch.autograd.grad(out, here, [x.detach() for x in out])
        close(results, [*[x.detach() for x in out], *gradients])


def test_graphs_with_operators_of_pytorch() -> None:
    """Before an op and behind it, forwards and backwards."""
    case = one()
    there = moved(case)

    def step(case: Case, x: torch.Tensor, others: list[torch.Tensor]) -> list[torch.Tensor]:
        e = case.at(0.5 * x.t().contiguous(), *others)
        loss = (e * e).sum() / len(e)
        return [e.detach(), loss.detach(), torch.autograd.grad(loss, x)[0]]

    xs, here = there.inputs(), case.inputs()
    x = (2 * there.positions).t().clone().requires_grad_()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step(there, x, xs[1:])
    stream.synchronize()
    madelung.check_device()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step(there, x, xs[1:])
    for scale in (1.0, 0.99, 1.01):
        y = (2 * scale * case.positions).t().clone().requires_grad_()
        with torch.no_grad():
            x.copy_(y)
        graph.replay()
        close(results, step(case, y, here[1:]))


def test_a_small_call_is_three_launches() -> None:
    """One ahead of the kernel that checks, one behind it that looks at the results; constants are there already."""
    random = torch.Generator().manual_seed(3)
    r = 5 * torch.rand(8, 3, generator=random, dtype=torch.float64).to(CUDA)
    q, h = torch.linspace(-1, 1, 8, dtype=torch.float64, device=CUDA), 5 * torch.eye(3, dtype=torch.float64).to(CUDA)
    given = dict(zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), mt.neighbor_list(r, 2.0, h)))
    names = (DRIVER, b"cuLaunchKernel"), (DRIVER, b"cuMemsetD8Async"), (RUNTIME, b"cudaLaunchKernel")
    counts = []
    for _ in range(3):
        before = [library.stand_in_calls(name) for library, name in names]
        mt.ewald_real_space(r, q, h, 0.9, cutoff=2.0, **given)
        counts = [library.stand_in_calls(name) - n for (library, name), n in zip(names, before)]
    assert counts == [3, 0, 0]
    madelung.check_device()


def test_threads_with_streams_of_their_own() -> None:
    case = one()
    there, expected = moved(case), values(case)
    torch.cuda.synchronize()
    failed: list[BaseException] = []

    def work(check: Callable[..., None]) -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(5):
                    check(there.call(*there.args), expected)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(close,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


def test_the_age_of_a_list() -> None:
    """Decided on the device as on the host, by systems."""
    for dtype in (torch.float64, torch.float32):
        r = torch.rand(37, 3, generator=torch.Generator().manual_seed(0), dtype=dtype)
        of, cells = torch.tensor([0] * 30 + [1] * 7, dtype=torch.int32), torch.eye(3, dtype=dtype).repeat(2, 1, 1)
        far, lost, other = r.clone(), r.clone(), cells.clone()
        far[33, 1], lost[2, 2], other[1, 0, 1] = far[33, 1] + 0.3, torch.nan, 1e-7
        for now, cell, expected in (
            (r, cells, [False, False]),
            (far, cells, [False, True]),
            (lost, cells, [True, False]),
            (r, other, [False, True]),
        ):
            assert mt.needs_rebuild(now, r, 0.5, cell, cells, batch_idx=of).tolist() == expected
            there = [x.cuda() for x in (now, r, cell, cells, of)]
            found = mt.needs_rebuild(*there[:2], 0.5, *there[2:4], batch_idx=there[4])
            assert found.is_cuda and found.tolist() == expected
        axes = torch.tensor([[True] * 3, [True, False, True]])
        found = mt.needs_rebuild(*there[:2], 0.5, there[3], there[3], pbc=axes.cuda(), batch_idx=there[4])
        assert mt.needs_rebuild(now, r, 0.5, cells, cells, pbc=axes, batch_idx=of).tolist() == found.tolist()
        assert found.tolist() == [False, True]
        search, h = mt.NeighborList(0.4, skin=0.2), 3.0 * cells[0].cuda()
        kept = search.allocate(r.cuda(), h)
        assert search.update(kept, (r + 0.05).cuda(), h) is kept
        assert search.update(kept, far.cuda(), h) is not kept
    madelung.check_device()
