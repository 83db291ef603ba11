"""Compiled and exported calls: equal to eager ones, or a loud error; never a silent zero and never a cut graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from cases import Case, make, number
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacrev, jvp, vmap

from conftest import DEVICE
from madelung.torch import _ops


@pytest.fixture(autouse=True)
def _forget() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12 * float(b.abs().max()))


class Module(torch.nn.Module):
    """A call as a module of what may vary, with the rest inside."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case

    def forward(self, *xs: torch.Tensor) -> Any:
        return self.case.at(*xs)


def test_opcheck(op_case: Case) -> None:
    """Schema, autograd, fake kernel and ahead-of-time dispatch with symbolic shapes, of every public member."""
    args = op_case.put(op_case.inputs())
    torch.library.opcheck(op_case.public, tuple(args))
    reals, op = len(op_case.op.reals), op_case.op
    x = [args[n].detach() for n in op.reals]
    for n, t in zip(op.reals, x):
        if t.shape == (0,):
            x[op.reals.index(n)] = torch.zeros(2, 3, 3, dtype=torch.float64, device=DEVICE)
    out = op_case.call(*[a.detach() if isinstance(a, torch.Tensor) else a for a in args])
    w = [torch.ones_like(o) for o in (out if isinstance(out, tuple) else (out,))]
    absent, all_reals = torch.empty(0, device=DEVICE), (1 << reals) - 1
    of_w = (1 << len(w)) - 1
    checks = ("test_schema", "test_faketensor", "test_autograd_registration")
    for member, extra in {
        "_jvp": [*x, all_reals],
        "_jvp2": [*x, *x, all_reals << reals | all_reals],
        "_vjp": [*w, *[absent] * len(op.saves), of_w, all_reals],
        "_vjp_jvp": [*w, *x, all_reals << len(w) | of_w, all_reals],
    }.items():
        torch.library.opcheck(op.overload(member, private=False), (*args, *extra), test_utils=checks)


def test_fake_kernels_of_private_ops(op_case: Case) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        args = [mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in op_case.args]
        want = (1 << len(op_case.op.reals)) - 1
        members = {"": [], "_saving": [want], "_direct": [want]}
        for member, extra in members.items():
            if member not in op_case.op.members:
                continue
            fake = op_case.op.overload(member, private=True)(*args, *extra)
            shapes = [tuple(x.shape) for x in (fake if isinstance(fake, tuple) else (fake,))]
            with torch._subclasses.fake_tensor.unset_fake_temporarily():
                real = op_case.op.overload(member, private=True)(*op_case.args, *extra)
            real = real if isinstance(real, tuple) else (real,)
            # The strain came as (0,): its saved gradient has the shape of the strain.
            assert shapes == [tuple(x.shape) for x in real]


def check_compiled(case: Case, **options: Any) -> None:
    call = case.call
    compiled = torch.compile(lambda *args: number(call(*args)), fullgraph=True, **options)
    for seed in (0, 1):
        case = make(case.op, seed)
        a, b = case.inputs(), case.inputs()
        expected, got = case.scalar(*a), compiled(*case.put(b))
        close(got, expected)
        expected.backward()
        got.backward()
        for x, y in zip(a, b):
            close(y.grad, x.grad)
    with torch.no_grad():
        close(compiled(*case.put(case.inputs())), case.scalar(*case.inputs()))


def test_compile(op_case: Case) -> None:
    check_compiled(op_case, dynamic=False, backend="aot_eager")


def test_compile_to_machine_code(trait_case: Case) -> None:
    check_compiled(trait_case, dynamic=True, backend="inductor")


def test_compiled_lists_may_grow(plain_case: Case) -> None:
    """Sizes are symbols: another list is no new graph."""
    graphs = 0

    def count(graph: torch.fx.GraphModule, _: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return graph.forward

    compiled = torch.compile(lambda *args: plain_case.call(*args)[0], fullgraph=True, dynamic=True, backend=count)
    positions, cell, of, ptr, others, shifts, _ = plain_case.args
    rows = torch.arange(len(positions), device=DEVICE).repeat_interleave(ptr.diff())
    for kept in (shifts[:, 0] < 2, (shifts == 0).all(1), (rows - others).abs() == 1):
        begin = torch.searchsorted(rows[kept], torch.arange(len(positions) + 1, device=DEVICE)).int()
        args = [positions, cell, of, begin, others[kept], shifts[kept], 0]
        assert torch.equal(compiled(*args), plain_case.call(*args)[0])
    assert graphs == 1


# Before the release that takes the public op, which has no `setup_context`, for one with derivatives.
OLD = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 14)
UNSUPPORTED, FAILED = torch._dynamo.exc.Unsupported, torch._dynamo.exc.TorchRuntimeError
BY_REVERSE = ("grad", "jacrev", "vmap of grad")
LOUD = {
    **{(True, name): FAILED if OLD else UNSUPPORTED for name in BY_REVERSE},
    **{(True, name): UNSUPPORTED for name in ("hessian", "jvp", "grad around", "vmap around", "jvp around")},
    **{(True, name): UNSUPPORTED for name in ("dual numbers", "dual numbers around")},
    **({(False, name): FAILED for name in BY_REVERSE} if OLD else {}),
}
"""The transforms, by whether one graph is asked for, that PyTorch's compiler refuses, for every op, and its error; all
others give the numbers of eager calls. On PyTorch 2.7, 2.11 and 2.15; a release in between may refuse fewer."""


def right_or_loud(fullgraph: bool, name: str, got: Any, expected: Any, at: tuple[torch.Tensor, ...]) -> None:
    if (fullgraph, name) not in LOUD:
        close(got(*at), expected(*at))
        return
    with pytest.raises(LOUD[fullgraph, name]):
        got(*at)


def test_transforms_in_one_graph_are_right_or_loud(op_case: Case) -> None:
    check_transforms(op_case, fullgraph=True)


def test_transforms_in_graphs_that_break_are_right_or_loud(trait_case: Case) -> None:
    check_transforms(trait_case, fullgraph=False)


def check_transforms(case: Case, fullgraph: bool) -> None:
    x, f = case.positions, case.energy
    u, many = torch.ones_like(x), torch.stack([x, 0.99 * x])
    for name, transform, at in [
        ("grad", grad(f), (x,)),
        ("jacrev", jacrev(f), (x,)),
        ("hessian", hessian(f), (x,)),
        ("vmap", vmap(f), (many,)),
        ("vmap of grad", vmap(grad(f)), (many,)),
        ("jvp", lambda r: jvp(f, (r,), (u,))[1], (x,)),
    ]:
        torch._dynamo.reset()
        compiled = torch.compile(transform, fullgraph=fullgraph, backend="aot_eager")
        right_or_loud(fullgraph, name, compiled, transform, at)
    torch._dynamo.reset()
    compiled = torch.compile(f, fullgraph=fullgraph, backend="aot_eager")
    for name, outer, at in [
        ("grad around", grad, (x,)),
        ("vmap around", vmap, (many,)),
        ("jvp around", lambda g: lambda r: jvp(g, (r,), (u,))[1], (x,)),
    ]:
        right_or_loud(fullgraph, name, outer(compiled), outer(f), at)


@pytest.mark.parametrize("fullgraph", [True, False])
def test_dual_numbers_in_graphs_are_right_or_loud(plain_case: Case, fullgraph: bool) -> None:
    x, f = plain_case.positions, plain_case.energy

    def tangent(r: torch.Tensor, f: Any = f) -> torch.Tensor:
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(f(forward_ad.make_dual(r, torch.ones_like(r)))).tangent

    compiled = torch.compile(tangent, fullgraph=fullgraph, backend="aot_eager")
    right_or_loud(fullgraph, "dual numbers", compiled, tangent, (x,))
    torch._dynamo.reset()
    inner = torch.compile(f, fullgraph=fullgraph, backend="aot_eager")
    right_or_loud(fullgraph, "dual numbers around", lambda r: tangent(r, inner), tangent, (x,))


def test_the_public_op_has_no_silent_tangent(plain_case: Case) -> None:
    x, others = plain_case.positions, [plain_case.args[n] for n in plain_case.reals[1:]]

    def f(r: torch.Tensor) -> torch.Tensor:
        return plain_case.public(*plain_case.put([r, *others]))[0]

    with pytest.raises(NotImplementedError, match="drop the tangents"):
        jvp(f, (x,), (torch.ones_like(x),))
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="drop the tangents"):
        f(forward_ad.make_dual(x, torch.ones_like(x)))
    with pytest.raises(RuntimeError, match="setup_context"):
        grad(lambda r: f(r).sum())(x)
    many = torch.stack([x, 0.99 * x])
    assert torch.equal(vmap(f)(many), torch.stack([f(r) for r in many]))


@pytest.mark.parametrize("strict", [True, False])
def test_export(op_case: Case, strict: bool, tmp_path: Path) -> None:
    xs = [x.detach() for x in op_case.inputs()]
    exported = torch.export.export(Module(op_case), tuple(xs), strict=strict)
    calls = [str(n.target) for n in exported.graph.nodes if "madelung" in str(n.target)]
    assert calls == [f"madelung.{op_case.op.name}.default"], "the op that autograd knows, and no other"
    torch.export.save(exported, tmp_path / "call.pt2")
    loaded = torch.export.load(tmp_path / "call.pt2").module()
    a, b = op_case.inputs(), op_case.inputs()
    first = [x if isinstance(x, torch.Tensor) else x[0] for x in (op_case.at(*a), loaded(*b))]
    assert torch.equal(*first)
    for x, y in zip(
        torch.autograd.grad(first[0].sum(), a, allow_unused=True),
        torch.autograd.grad(first[1].sum(), b, allow_unused=True),
    ):
        assert (x is None) == (y is None) and (x is None or torch.equal(x, y))


@pytest.mark.parametrize("name", ["pair_vectors", next(n for n, op in _ops.OPS.items() if op.saves)])
def test_packages(name: str, tmp_path: Path) -> None:
    """A package of the ahead-of-time compiler runs."""
    case = make(_ops.OPS[name])
    xs = tuple(x.detach() for x in case.inputs())
    with torch.no_grad():
        exported = torch.export.export(Module(case), xs)
        path = torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "call.pt2"))
        package = torch._inductor.aoti_load_package(path)
        got, expected = package(*xs), case.at(*xs)
    for a, b in zip(*[x if isinstance(x, (tuple, list)) else (x,) for x in (got, expected)]):
        assert torch.equal(a, b)
