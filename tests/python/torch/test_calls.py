"""What calls do to the process, and what they say when they are given the wrong thing."""

from __future__ import annotations

import gc
import json
import multiprocessing
import re
import resource
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from cases import Case, make

from conftest import DEVICE
from madelung._schema import VALUE
from madelung.torch import _ops
from madelung.torch._specialised import specialised


def replaced(case: Case, part: str, new: Any) -> list[Any]:
    """The arguments with another one for the first of that part; `new` makes it from the old one."""
    args = list(case.args)
    n = next(n for n, i in enumerate(case.op.inputs) if i.part == part)
    args[n] = new(args[n])
    return args


def last_real(case: Case, new: Any) -> list[Any]:
    args = list(case.args)
    args[case.reals[-1]] = new(args[case.reals[-1]])
    return args


def first(case: Case) -> tuple[str, list[Any], str | None]:
    """The name of the first real array, its shape, and the name of the batch of its rows, if the op has batches."""
    inputs = case.op.inputs
    real = inputs[case.reals[0]]
    batch = next((i.name for i in inputs if i.part == "batch_idx"), None)
    return real.name, [size for s in case.op.args[real.arg]["shape"] for size in s.values()], batch


def test_wrong_dtypes(op_case: Case) -> None:
    atoms = first(op_case)[2]
    names = [op_case.op.inputs[n].name for n in op_case.reals]
    plain = next(n for n in op_case.reals if not op_case.op.args[op_case.op.inputs[n].arg]["stored"])
    half = list(op_case.args)
    half[plain] = half[plain].half()
    wrong = {
        rf"`{names[0]}`: expected .*float32 or float64, got int64": replaced(op_case, "real", lambda x: x.long()),
        rf"`{op_case.op.inputs[plain].name}`: expected float.*, got float16": half,
        rf"`{names[0]}`: expected a tensor of floating-point": replaced(
            op_case, "real", lambda x: x.to(torch.complex64)
        ),
    }
    if atoms is not None:
        wrong |= {
            rf"`{atoms}`: expected a tensor of int32 or int64, got float64": replaced(
                op_case, "batch_idx", lambda x: x.double()
            ),
            rf"`{atoms}`: expected a tensor of .* int64, got one of another dtype": replaced(
                op_case, "batch_idx", torch.Tensor.bool
            ),
        }
    if len(names) > 1:
        wrong[rf"`{names[-1]}`: expected float64, got float32"] = last_real(op_case, lambda x: x.float())
    for message, args in wrong.items():
        with pytest.raises(RuntimeError, match=message):
            op_case.call(*args)
        args = [x.requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in args]
        with pytest.raises(RuntimeError, match=message):
            op_case.call(*args)


@pytest.mark.host("errors of values come when a device is asked for them")
def test_wrong_shapes(op_case: Case) -> None:
    real, (rows, *rest), atoms = first(op_case)
    declared = re.escape(f"({', '.join(map(str, (rows, *rest)))})")
    n = len(op_case.args[op_case.reals[0]])
    other, got = ((lambda x: x[:, :2]), rf"\[{n}, 2\]") if rest == [3] else ((lambda x: x[None]), rf"\[1, {n}")
    wrong = {
        # Elements of a map are counted by the array's first axis.
        rf"`{real}`: expected shape {declared}, got {got}|: map`: expected elements from 0 to below 1": replaced(
            op_case, "real", other
        ),
        rf"`{op_case.op.inputs[op_case.reals[-1]].name}`: expected (rows of )?shape": last_real(
            op_case, lambda x: x[..., None]
        ),
    }
    if atoms is not None:
        wrong |= {
            rf"expected 8 rows \({rows}\)|indices below|expected 7 rows \({rows}\)|expected 7 integers": replaced(
                op_case, "batch_idx", lambda x: x[:-1]
            ),
            rf"`{atoms}: batch_idx`: expected a sorted array": replaced(op_case, "batch_idx", lambda x: x.flip(0)),
            rf"`{atoms}: batch_idx`: expected shape \(N,\)": replaced(op_case, "batch_idx", lambda x: x[None]),
        }
    pairs = next((i.name for i in op_case.op.inputs if i.part == "others"), None)
    if pairs is not None:
        wrong |= {
            rf"`{pairs}: neighbor_list`: expected indices from 0 to below 8, got 8": replaced(
                op_case, "others", lambda x: torch.where(x == 3, 8, x)
            ),
            rf"`{pairs}: neighbor_ptr`: expected N \+ 1 offsets": replaced(op_case, "ptr", lambda x: x + 1),
            rf"`{pairs}: neighbor_shifts`: expected an image for each": replaced(
                op_case, "shifts", lambda x: x.flatten()
            ),
            rf"`{pairs}: neighbor_list`: expected a full list": replaced(op_case, "shifts", lambda x: x * 0 + 1),
            r"pairs`: expected a kind of list: 0 \(full\), 1 \(half\), 2 \(directed\), got 3": replaced(
                op_case, "list_kind", lambda _: 3
            ),
        }
    for message, args in wrong.items():
        with pytest.raises(RuntimeError, match=message):
            op_case.call(*args)


@pytest.mark.host("errors of values come when a device is asked for them")
def test_wrong_numbers(op_case: Case) -> None:
    with pytest.raises(RuntimeError, match=f"`{first(op_case)[0]}`: expected finite numbers, got NaN in row 0"):
        op_case.call(*replaced(op_case, "real", lambda x: x * torch.nan))


@pytest.mark.host("there are no arrays of NumPy on a device")
def test_wrong_kinds(op_case: Case) -> None:
    real, _, atoms = first(op_case)
    with pytest.raises(TypeError, match=f"`{real}`: expected a tensor, got ndarray"):
        op_case.call(*replaced(op_case, "real", lambda x: x.numpy()))
    if atoms is not None:
        with pytest.raises(TypeError, match=f"`{atoms}`: expected a tensor, got list"):
            op_case.call(*replaced(op_case, "batch_idx", lambda x: x.tolist()))
    with pytest.raises(
        TypeError, match=rf"expected {len(op_case.args)} arguments \({real}, .*, got {len(op_case.args) - 1}"
    ):
        op_case.call(*op_case.args[:-1])
    with pytest.raises(TypeError, match=rf"got {len(op_case.args) + 1}"):
        op_case.call(*op_case.args, 1)


def test_long_messages_are_whole() -> None:
    """Nothing is cut off on the way through C++."""
    case = make(_ops.OPS["pair_vectors"])
    with pytest.raises(RuntimeError) as caught:
        case.call(*replaced(case, "real", lambda x: x.reshape(*[1] * 600, 8, 3)))
    assert str(caught.value).count("1, ") == 600 and str(caught.value).endswith("8, 3]")


@pytest.mark.host("the other tensors lie there")
def test_meta_tensors(op_case: Case) -> None:
    """All on `meta`: shapes alone, as with every op of torch. Some: an error that names one."""
    meta = [x.to("meta") if isinstance(x, torch.Tensor) else x for x in op_case.args]
    got, expected = op_case.call(*meta), op_case.call(*op_case.args)
    for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (got, expected)]):
        assert a.device.type == "meta" and a.shape == b.shape and a.dtype == b.dtype
    if sum(isinstance(x, torch.Tensor) for x in meta) == 1:
        return
    mixed = [x if n == op_case.reals[0] else y for n, (x, y) in enumerate(zip(meta, op_case.args))]
    like = rf"`\w+`: expected a tensor on meta like `{first(op_case)[0]}` .*got one on cpu"
    with pytest.raises(ValueError, match=like):
        op_case.call(*mixed)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_cuda_gives_what_the_cpu_gives(op_case: Case) -> None:
    here = [x.cpu() if isinstance(x, torch.Tensor) else x for x in op_case.args]
    # Meshes are integers of the host.
    on_host = [i.part == "meshes" for i in op_case.op.inputs]
    there = [x.cuda() if isinstance(x, torch.Tensor) and not host else x for x, host in zip(op_case.args, on_host)]
    got, expected = op_case.call(*there), op_case.call(*here)
    for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (got, expected)]):
        assert a.device.type == "cuda"
        torch.testing.assert_close(a.cpu(), b, rtol=1e-12, atol=1e-12)
    if sum(isinstance(x, torch.Tensor) for x in there) == 1:
        return
    mixed = [x if n == op_case.reals[0] else y for n, (x, y) in enumerate(zip(there, here))]
    with pytest.raises((RuntimeError, ValueError), match=r"expected a tensor on cuda.*got one on cpu"):
        op_case.call(*mixed)


def test_the_key_of_other_devices_says_so(op_case: Case) -> None:
    """The kernel for CUDA is there, so that its error is Madelung's."""
    assert torch._C._dispatch_has_kernel_for_dispatch_key(f"madelung::{op_case.op.name}", "CUDA")
    assert torch._C._dispatch_has_kernel_for_dispatch_key(f"madelung::_{op_case.op.name}_vjp", "CUDA")


def test_nothing(op_case: Case) -> None:
    """No atoms, no systems, no pairs: empty results, and gradients of the inputs' shapes."""
    args = op_case.without_rows()
    for n in (n for n, i in enumerate(op_case.op.inputs) if i.part == "ptr"):
        args[n] = torch.zeros(1, dtype=torch.int32, device=DEVICE)
    xs = [args[n].clone().requires_grad_() for n in op_case.reals]
    for n, x in zip(op_case.reals, xs):
        args[n] = x
    out = op_case.call(*args)
    for o, spec in zip(out if isinstance(out, tuple) else (out,), op_case.op.outputs):
        assert [*o.shape] == op_case.op.shape(spec["shape"], args, op_case.op.dims(args)) and o.numel() == 0
    grads = torch.autograd.grad([o.sum() for o in (out if isinstance(out, tuple) else (out,))], xs)
    assert [g.shape for g in grads] == [x.shape for x in xs]


def test_the_process_stays_as_it_is() -> None:
    code = (
        "import torch; torch.set_num_threads(3); before = torch.get_num_threads(), torch.get_num_interop_threads()\n"
        "import madelung.torch\n"
        "assert (torch.get_num_threads(), torch.get_num_interop_threads()) == before\n"
        "assert torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled()\n"
        "from madelung.torch import _ops; import importlib; importlib.reload(madelung.torch)\n"
        "import sys; assert 'jax' not in sys.modules\n"
        "r = torch.eye(3, requires_grad=True)\n"
        "madelung.torch.neighbor_list(r, 2.0, return_distances=True)[3].sum().backward()\n"
        "assert 'torch._dynamo' not in sys.modules, 'it takes a second and a half to import'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.host("errors of values come when a device is asked for them")
def test_handles_do_not_leak(saving_case: Case, plain_case: Case) -> None:
    """Memory stands still over thousands of calls that work and that fail."""

    def work(times: int) -> None:
        for case in (saving_case, plain_case):
            bad = replaced(case, "batch_idx", lambda x: x.flip(0))
            for _ in range(times):
                case.scalar(*case.inputs()).backward()
                case.call(*case.args)
                with pytest.raises(RuntimeError):
                    case.call(*bad)

    work(300)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work(1500)
    gc.collect()
    # A tensor of these systems takes more than 100 bytes; a handle that leaks with each call would be 1 MB and more.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600


@pytest.mark.host("another profile")
def test_results_are_memory_of_torch(op_case: Case, tmp_path: Path) -> None:
    """Torch's allocator gives each result once, and nothing besides: arrays between steps are the library's."""
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, profile_memory=True) as profile:
        results = op_case.op.overload("", private=True)(*op_case.args)
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    given = [event["args"]["Bytes"] for event in events if event["name"] == "[memory]"]
    sizes = [x.nbytes for x in (results if isinstance(results, tuple) else (results,))]
    assert sorted(given) == sorted(sizes)


def test_expanded_cotangents(op_case: Case) -> None:
    """What a sum hands back is one number for all elements: as if each had its own."""
    xs = op_case.inputs()
    out = op_case.at(*xs)
    for x in out if isinstance(out, tuple) else (out,):
        one = torch.tensor(0.3, dtype=x.dtype, device=x.device)
        expanded = torch.autograd.grad(x, xs, one.expand_as(x), retain_graph=True)
        filled = torch.autograd.grad(x, xs, one.expand_as(x).contiguous(), retain_graph=True)
        assert all(torch.equal(a, b) for a, b in zip(expanded, filled))


@pytest.mark.host("errors of values come when a device is asked for them")
def test_big_inputs_do_not_leak(plain_case: Case) -> None:
    """Of a call that fails after all handles were taken."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20):
        with pytest.raises(RuntimeError, match="4000000"):
            plain_case.call(*replaced(plain_case, "real", lambda x: torch.zeros(4_000_000, 3, dtype=x.dtype)))
    # In kB: two of these tensors, and not twenty.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_threads_at_once(op_case: Case) -> None:
    expected = torch.autograd.grad(op_case.scalar(*(xs := op_case.inputs())), xs)
    wrong: list[str] = []

    def work() -> None:
        for _ in range(50):
            got = torch.autograd.grad(op_case.scalar(*(xs := op_case.inputs())), xs)
            if not all(torch.equal(a, b) for a, b in zip(got, expected)):
                wrong.append("another result")

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.host("errors of values come when a device is asked for them")
def test_errors_of_threads_stay_apart(plain_case: Case) -> None:
    """The text of an error belongs to the thread that it came from."""
    wrong: list[str] = []

    def work(fill: float, word: str) -> None:
        args = list(plain_case.args)
        args[0] = torch.full_like(args[0], fill)
        for _ in range(300):
            try:
                plain_case.call(*args)
            except RuntimeError as error:
                if word not in str(error):
                    wrong.append(str(error))

    threads = [threading.Thread(target=work, args=a) for a in ((torch.nan, "NaN"), (torch.inf, "inf"))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.host("it is about the processor's threads and processes")
def test_the_number_of_threads_changes_no_bit() -> None:
    case = make(_ops.OPS["ewald_real_space"])
    before, expected = torch.get_num_threads(), case.call(*case.args)
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            assert torch.equal(case.call(*case.args), expected)
    finally:
        torch.set_num_threads(before)


class Energies(torch.utils.data.Dataset):
    """Items that are computed where they are asked for."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, n: int) -> torch.Tensor:
        case = make(_ops.OPS["ewald_real_space_total"], seed=n)
        xs = case.inputs()
        (g,) = torch.autograd.grad(case.at(*xs).sum(), xs[0])
        return g


def check_workers(method: str) -> None:
    """Workers compute what their parent does."""
    data = Energies()
    expected = [data[n] for n in range(len(data))]
    context = multiprocessing.get_context(method)
    loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=2, multiprocessing_context=context)
    for got, want in zip(loader, expected, strict=True):
        assert torch.equal(got, want)


@pytest.mark.host("it is about the processor's threads and processes")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers(method: str) -> None:
    """In children too, forked after the parent has used its threads.

    The parent is a fresh process: autograd's own threads, which compiled graphs start, refuse a fork.
    """
    here = Path(__file__).parent
    paths = [str(here), str(here.parent)]
    code = f"import sys; sys.path[:0] = {paths!r}; import test_calls; test_calls.check_workers({method!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def stub(reals: list[int], kernel: Any, **rules: Any) -> Any:
    """An op of one tensor and one output, as `specialised` looks at it."""
    op = SimpleNamespace(inputs=[SimpleNamespace(part="real", arg=0)], outputs=[{}], saves=[], tensors=[0], numbers=[])
    op.reals, op.smooth, op.args, op.name, op.check_kinds = reals, reals, [], "stub", lambda _: None
    members = {VALUE: SimpleNamespace(private=kernel, functional=torch.autograd.Function)}
    return SimpleNamespace(op=op, saving=None, together=False, members=members, gradient=None, run=None, **rules)


def test_ops_of_one_input_and_of_integers() -> None:
    """No op of the library has these shapes, so far: x² by one input, and a sum of integers."""
    square = stub([0], lambda x: x**2)
    square.gradient = lambda x, v, mask, want: 2 * x * v
    square.run = lambda member, flat, extra, want: [2 * flat[0] * extra[0]]
    call, _ = specialised(square)
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    assert torch.autograd.grad(call(x).sum(), x)[0].tolist() == [2.0, 6.0]
    (first,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
    assert torch.autograd.grad(first.sum(), x)[0].tolist() == [2.0, 2.0]
    call, requires_graph = specialised(stub([], lambda n: n.sum()))
    n = torch.tensor([1, 2, 3])
    assert call(n) == 6 and not requires_graph((n,))
