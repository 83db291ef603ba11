"""Ops of Python functions: what calls cost, sizes and dtypes of results, arguments that are written to, autocast."""

from __future__ import annotations

import importlib
import weakref
from typing import Any

import pytest

import madelung.torch
from conftest import required
from madelung.kernels import Array, Batch, InOut, Int, Int64, Mat3, Out, Pairs, Real, Vec3, dims, kernel, launch, length

torch = required("torch")
kit = importlib.import_module("madelung.torch.autograd")
OutputSpec = kit.OutputSpec
pytestmark = pytest.mark.host("kernels of the host")

Atom, System, M, k = dims("Atom System M k")
F64 = {"dtype": torch.float64}
OLD = torch.__version__.startswith("2.7")
X = torch.tensor([0.5, -1.5, 2.0], **F64)


def summed(name: str = "madelung_tests::summed") -> tuple[Any, list[Any]]:
    """An op of the sum over pairs, and what its function was given in each of its runs."""
    runs: list[Any] = []

    @kit.custom_op(name, outputs=[OutputSpec("energy", Real, (Atom,))], differentiable=["positions", "charges"])
    def energies(
        positions: Array[Vec3, Atom],
        charges: Array[Real, Atom],
        cell: Array[Mat3],
        atoms: Batch[Atom, System],
        pairs: Pairs[Atom],
    ):
        runs.append((*atoms, *pairs))
        lists = dict(zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), pairs))
        return torch.tanh(madelung.torch.ewald_real_space(positions, charges, cell, 0.5, cutoff=3.0, **lists))

    return energies, runs


def salt(n: int = 6) -> tuple[Any, ...]:
    """Random charges in a box and their list."""
    random = torch.Generator().manual_seed(5)
    positions = 6 * torch.rand(n, 3, generator=random, **F64)
    charges = torch.randn(n, generator=random, **F64)
    cell = 6.5 * torch.eye(3, **F64)
    pairs = madelung.torch.find_neighbors(positions, 3.0, cell).coo()
    return positions, charges, cell, (torch.zeros(n, dtype=torch.int32), 1), pairs


def test_one_run_for_values_and_gradients() -> None:
    """A call runs its function once, on the integers that were given, and no derivative runs it again."""
    op, runs = summed()
    r, q, cell, atoms, pairs = salt()
    r, q = r.requires_grad_(), q.requires_grad_()
    y = op(r, q, cell, atoms, pairs)
    found = torch.autograd.grad(y.sum(), [r, q], create_graph=True)
    twice = torch.autograd.grad(found[0].square().sum(), [r, q])
    assert len(runs) == 1
    for x, given in zip(runs[0], (*atoms, *pairs)):
        assert x is given
    lists = dict(zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), pairs))
    expected = torch.tanh(madelung.torch.ewald_real_space(r, q, cell, 0.5, cutoff=3.0, **lists))
    assert torch.equal(y, expected)
    by = torch.autograd.grad(expected.sum(), [r, q], create_graph=True)
    for x, z in zip((*found, *twice), (*by, *torch.autograd.grad(by[0].square().sum(), [r, q]))):
        assert torch.equal(x, z)


def test_graphs_are_kept_as_long_as_asked() -> None:
    """The graph is freed after the backward pass, but with `retain_graph`."""

    @kit.custom_op("madelung_tests::kept", outputs=[OutputSpec("y", Real, (Atom,))])
    def kept(x: Array[Real, Atom]):
        return torch.sin(x) * x

    class Held:
        def __init__(self, x: Any) -> None:
            self.x = x

    held: list[Any] = []

    def pack(x: Any) -> Any:
        box = Held(x)
        held.append(weakref.ref(box))
        return box

    x = X.clone().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda box: box.x):
        y = kept(x)
    assert held
    expected = torch.cos(X) * X + torch.sin(X)
    for _ in range(2):
        torch.testing.assert_close(torch.autograd.grad(y.sum(), x, retain_graph=True)[0], expected)
    assert any(ref() is not None for ref in held)
    y.sum().backward()
    torch.testing.assert_close(x.grad, expected)
    assert all(ref() is None for ref in held)
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_changes_in_place_are_seen() -> None:
    @kit.custom_op("madelung_tests::square", outputs=[OutputSpec("y", Real, (Atom,))])
    def square(x: Array[Real, Atom], scale: torch.Tensor):
        return scale * x * x

    x = X.clone().requires_grad_()
    base, scale = 2 * x, torch.ones(3, **F64)
    y = square(base, scale)
    base.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    y = square(x, scale)
    scale.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_own_arguments_as_results() -> None:
    @kit.custom_op("madelung_tests::itself", outputs=[OutputSpec("y", Real, (Atom,)), OutputSpec("z", Real, (Atom,))])
    def itself(x: Array[Real, Atom]):
        return x, x[:]

    x = X.clone().requires_grad_()
    y, z = itself(x)
    assert len({t.data_ptr() for t in (x, y, z)}) == 3
    y.detach().mul_(0)
    assert torch.equal(torch.autograd.grad((2 * y + 3 * z).sum(), x)[0], torch.full_like(X, 5.0)) and torch.equal(x, X)


def test_without_gradients() -> None:
    op, _ = summed("madelung_tests::plain")
    r, q, *rest = salt()
    expected = op(r, q, *rest)
    r, rest[0] = r.requires_grad_(), rest[0].requires_grad_()
    with torch.no_grad():
        assert op(r, q, *rest).grad_fn is None
    with torch.inference_mode():
        y = op(r, q, *rest)
    assert y.is_inference() and torch.equal(y, expected)
    # Not by the cell, which is left out.
    y = op(r.detach(), q, *rest)
    assert not y.requires_grad and rest[0].grad is None


def test_checkpoints() -> None:
    from torch.utils.checkpoint import checkpoint

    op, runs = summed("madelung_tests::again")
    r, *rest = salt()
    r.requires_grad_()
    (expected,) = torch.autograd.grad(op(r, *rest).sum(), r)
    runs.clear()
    (found,) = torch.autograd.grad(checkpoint(op, r, *rest, use_reentrant=False).sum(), r)
    assert torch.equal(found, expected) and len(runs) == 2


def test_sums_of_gradients_that_the_function_takes() -> None:
    """A function may differentiate by its own arguments; the gradient of a caller is left as it was."""

    @kit.custom_op("madelung_tests::slope", outputs=[OutputSpec("slope", Real, (Atom,))])
    def slope(x: Array[Real, Atom]):
        with kit.tape_if(True) as tape:
            x = x if x.requires_grad else tape.watch(x).requires_grad_()
            return torch.autograd.grad((x**3).sum(), x, create_graph=True)[0]

    x = X.clone().requires_grad_()
    torch.testing.assert_close(slope(X), 3 * X**2)
    assert not X.requires_grad
    torch.testing.assert_close(torch.autograd.grad(slope(x).sum(), x)[0], 6 * X)
    assert x.grad is None


def wide_table(name: str, size: Any) -> Any:
    @kit.custom_op(name, outputs=[OutputSpec("table", Real, (M, size)), OutputSpec("both", Vec3, (size, 2))])
    def table(x: Array[Real, M], k: Int):
        powers = x[:, None] ** torch.arange(k)
        return powers, powers.sum().expand(k, 2, 3)

    return table


@pytest.mark.parametrize("size", [k, "k"])
def test_sizes_from_numbers(size: Any) -> None:
    """A dimension with the name of a parameter `Int`, in eager calls, transforms, graphs and in an empty call."""
    table = wide_table("madelung_tests::table", size)
    x = X.clone().requires_grad_()
    found, both = table(x, 4)
    torch.testing.assert_close(found, torch.stack([X**n for n in range(4)], 1))
    assert both.shape == (4, 2, 3) and table(x, 0)[0].shape == (3, 0)
    assert torch.autograd.gradcheck(lambda x: table(x, 4), x)
    (expected,) = torch.autograd.grad(found[:, 3].sum(), x)
    torch.compiler.reset()
    compiled = torch.compile(lambda x, n: table(x, n)[0], fullgraph=True, backend="aot_eager", dynamic=True)
    for n in (4, 5):
        y = compiled(x, n)
        assert y.shape == (3, n)
        torch.testing.assert_close(torch.autograd.grad(y[:, 3].sum(), x)[0], expected)
    assert torch.func.vmap(lambda x: table(x, 2)[1])(torch.stack([X, X])).shape == (2, 2, 2, 3)
    with pytest.raises(ValueError, match="`k`: expected an integer from 0 up, got -1"):
        table(x, -1)


def test_sizes_of_numbers_and_arrays_agree() -> None:
    @kit.custom_op("madelung_tests::agree", outputs=[OutputSpec("y", Real, (System,))])
    def agree(x: Array[Real, Atom, k], k: Int, atoms: Batch[Atom, System], System: Int):
        return x.new_zeros(System).index_add(0, atoms.long(), x.sum(1))

    x, atoms = torch.ones(4, 2, **F64), torch.tensor([0, 0, 1, 1])
    assert agree(x, 2, atoms, 3).tolist() == [4.0, 4.0, 0.0]
    with pytest.raises(ValueError, match="`k`: expected 2, the size that other arguments say, got 3"):
        agree(x, 3, atoms, 3)
    with pytest.raises(ValueError, match="`System`: expected 2, the size that other arguments say, got 3"):
        agree(x, 2, (atoms, 2), 3)


def test_dtypes_of_results() -> None:
    """Energies of float64 beside gradients of float32, in graphs too."""
    outputs = [
        OutputSpec("energy", Real, (System,), "float64"),
        OutputSpec("small", Vec3, (Atom,), dtype=torch.float32),
        OutputSpec("rank", Int, (Atom,), "int64"),
    ]

    @kit.custom_op("madelung_tests::precise", outputs=outputs)
    def precise(x: Array[Vec3, Atom], atoms: Batch[Atom, System], System: Int):
        e = x.double().square().sum(1)
        return e.new_zeros(System).index_add(0, atoms.long(), e), x.float() / 2, e.argsort()

    x = torch.rand(4, 3, generator=torch.Generator().manual_seed(1))
    atoms = torch.tensor([0, 1, 1, 1])
    at = x.clone().requires_grad_()
    expected = x.double().square().sum(1)
    torch.compiler.reset()
    for f in (precise, torch.compile(lambda *a: precise(*a), fullgraph=True, backend="aot_eager")):
        energy, small, rank = f(at, atoms, 2)
        assert [y.dtype for y in (energy, small, rank)] == [torch.float64, torch.float32, torch.int64]
        torch.testing.assert_close(energy, torch.stack([expected[0], expected[1:].sum()]), rtol=1e-15, atol=0)
        (g,) = torch.autograd.grad(energy.sum() + small.sum(), at)
        assert g.dtype == torch.float32
        torch.testing.assert_close(g, 2 * x + 0.5)
    at = at.detach().double().requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: precise(x, atoms, 2)[0], at)


def test_integers_of_64_bits_as_numbers() -> None:
    @kit.custom_op("madelung_tests::seeded", outputs=[OutputSpec("seed", Int64, (Atom,))])
    def seeded(n: Array[Int64, Atom], seed: Int64, small: Int):
        return n.long() + seed + small

    n = torch.tensor([1, 2])
    assert (seeded(n, 2**40, 3) - 2**40).tolist() == [4, 5]
    assert torch.equal(seeded(n.int(), 2**40, 3), seeded(n, 2**40, 3))
    with pytest.raises(ValueError, match="`small`: expected an integer that 32 bits can hold"):
        seeded(n, 0, 2**40)
    with pytest.raises(ValueError, match="`seed`: expected an integer that 64 bits can hold"):
        seeded(n, 2**63, 0)


def test_half_precision() -> None:
    """Functions of arrays that are all of half precision, declared with their shapes or as tensors."""

    @kit.custom_op("madelung_tests::_halves", outputs=[OutputSpec("y", Real, (Atom,))])
    def halves(x: Array[Real, Atom], w: Array[Real, Atom]):
        return x * w

    @kit.custom_op("madelung_tests::tensors", outputs=[OutputSpec("y", Real, (2, "k"))])
    def tensors(n: torch.Tensor, x: torch.Tensor, k: Int):
        return x[n].expand(2, k)

    x, w = (torch.tensor(v, dtype=torch.bfloat16, requires_grad=True) for v in ([1.5, 2.0], [0.5, 3.0]))
    y = halves(x, w)
    assert y.dtype == torch.bfloat16 and y.tolist() == [0.75, 6.0]
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], w)
    assert tensors(torch.tensor([1]), x, 3).dtype == torch.bfloat16
    with pytest.raises(TypeError, match="`w`: expected bfloat16, as `x`, got float32"):
        halves(x, w.float())
    with pytest.raises(TypeError, match="`w`: expected float32 or float64, got bfloat16"):
        halves(x.float(), w)
    with pytest.raises(ValueError, match=r"`w`: expected shape \(Atom,\), got \(1, 2\)"):
        halves(x, w[None])
    with pytest.raises(ValueError, match="`y`: expected a dtype of its own, as no argument is an array of reals"):
        tensors(torch.tensor([1]), torch.tensor([1, 2]), 3)


def added(name: str, annotation: Any, **options: Any) -> Any:
    """An op that adds elements to those of an array at their indices."""

    def added(total: Any, x: Array[Real, Atom], index: Array[Int, Atom]):
        total.index_add_(0, index, x)
        return total.sum().reshape(1) if options.get("outputs") else None

    added.__annotations__["total"] = annotation
    return kit.custom_op(name, **options)(added)


WRITERS = {
    "annotated": (InOut[Real, M], {}),
    "named": (Array[Real, M], {"mutates_args": ["total"]}),
    "tensor": (torch.Tensor, {"mutates_args": ("total",)}),
    "beside a result": (InOut[Real, M], {"outputs": [OutputSpec("y", Real, (1,))]}),
}


@pytest.mark.parametrize("how", WRITERS)
def test_arguments_that_are_written_to(how: str) -> None:
    """Eager, under `vmap`, and in graphs, where a later read sees what was written."""
    annotation, options = WRITERS[how]
    add = added(f"madelung_tests::add_{list(WRITERS).index(how)}", annotation, **options)
    x, index = torch.tensor([1.0, 2.0, 4.0], **F64), torch.tensor([0, 2, 2])
    expected = torch.tensor([1.0, 0.0, 6.0, 0.0], **F64)

    def called(total: Any) -> Any:
        before = 3 * total
        y = add(total, x, index)
        return before, 2 * total, y

    torch.compiler.reset()
    for f in (called, *(torch.compile(called, fullgraph=True, backend=b) for b in ("aot_eager", "inductor"))):
        total = torch.ones(4, **F64)
        version = total._version
        before, twice, y = f(total)
        assert torch.equal(total, 1 + expected) and total._version > version
        assert torch.equal(twice, 2 * total) and torch.equal(before, torch.full_like(total, 3.0))
        assert y.tolist() == [11.0] if options.get("outputs") else y is None
    # What autograd has saved has changed.
    z = torch.ones(4, **F64, requires_grad=True)
    product = z * total
    add(total, x, index)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    torch.library.opcheck(getattr(torch.ops.madelung_tests, add._name.split("::")[1]), (total, x, index))
    totals = torch.zeros(2, 4, **F64)
    torch.func.vmap(lambda t, x: (add(t, x, index), x)[1])(totals, torch.stack([x, 2 * x]))
    assert torch.equal(totals, torch.stack([expected, 2 * expected]))


def test_refused_writes() -> None:
    add = added("madelung_tests::add", InOut[Real, M])
    x, index, total = torch.ones(3, **F64), torch.tensor([0, 1, 1]), torch.zeros(3, **F64)
    gradient = r"expected no gradient, as `added` writes to `total` and has no derivatives \(`.detach\(\)`\)"
    with pytest.raises(ValueError, match=f"`x`: {gradient}"):
        add(total, x.clone().requires_grad_(), index)
    with pytest.raises(ValueError, match=f"`total`: {gradient}"):
        add(total.clone().requires_grad_(), x, index)
    with pytest.raises(ValueError, match=f"`x`: {gradient}"):
        torch.func.grad(lambda x: (add(total, x, index), x.sum())[1])(x)
    with pytest.raises(Exception, match=None if OLD else "`x`: expected no gradient"):
        torch.compile(lambda x: add(total, x, index), fullgraph=True, backend="eager")(x.clone().requires_grad_())
    with torch.no_grad():
        add(total, x.clone().requires_grad_(), index)
    assert total.tolist() == [1.0, 2.0, 0.0]
    with pytest.raises(ValueError, match="`total`: expected memory of its own, got that of `x`"):
        add(x, x[1:], index[1:])
    with pytest.raises((TypeError, ValueError), match="`total`: expected an array for each call of `vmap`"):
        torch.func.vmap(lambda x: (add(total, x, index), x)[1])(torch.stack([x, x]))

    @kit.custom_op("madelung_tests::count", mutates_args=["counts"])
    def count(counts: Array[Int, M], x: Array[Real, M]):
        counts += (x > 0).to(counts.dtype)

    counts = torch.zeros(3, dtype=torch.int64)
    count(counts, x)
    assert counts.tolist() == [1, 1, 1]
    with pytest.raises(TypeError, match="`counts`: expected an array of torch.int64, as it is written to, got Tensor"):
        count(counts.short(), x)


def test_launch_in_a_function_that_writes() -> None:
    """A kernel that goes on with its array, in an op that says so."""

    @kernel(adjoint=False)
    def axpy(i: Atom, a: Real, x: Array[Real, Atom], y: InOut[Real, Atom]):
        y[i] = a * x[i] + y[i]

    @kit.custom_op("madelung_tests::axpy")
    def added_to(a: Real, x: Array[Real, Atom], y: InOut[Real, Atom]):
        launch(axpy, {"a": a, "x": x}, {"y": y})

    y = torch.ones(3, **F64)
    added_to(2.0, X, y)
    assert torch.equal(y, 2 * X + 1)


def test_refused_declarations() -> None:
    def good(x: Array[Real, Atom], n: Int):
        return x

    def refused(kind: Any, match: str, function: Any = good, name: str = "madelung_tests::bad", **options: Any) -> None:
        with pytest.raises(kind, match=match):
            kit.custom_op(name, **{"outputs": [OutputSpec("y", Real, (Atom,))], **options})(function)

    def y(dims: Any = (Atom,), kind: Any = Real, **options: Any) -> Any:
        return [OutputSpec("y", kind, dims, **options)]

    known = r"`y`: expected dimensions that an argument has \(Atom\), got"
    refused(ValueError, f"{known} m", outputs=y((Atom, "m")))
    refused(ValueError, f"{known} k", outputs=y((Atom, k)))
    for wrong in (-1, True, 2.0):
        refused(TypeError, r"`outputs`: expected OutputSpec\(name, type, dimensions\)", outputs=y((wrong,)))
    refused(ValueError, "`y: dtype`: expected 'float32' or 'float64', got 'int64'", outputs=y(dtype="int64"))
    refused(
        ValueError, "`y: dtype`: expected 'float32' or 'float64', got torch.bfloat16", outputs=y(dtype=torch.bfloat16)
    )
    refused(ValueError, "`y: dtype`: expected 'int32' or 'int64', got 'float32'", outputs=y(kind=Int, dtype="float32"))
    refused(ValueError, "`y: dtype`: expected 'int64', got 'int32'", outputs=y(kind=Int64, dtype="int32"))
    refused(ValueError, "`mutates_args`: expected parameters that are arrays: x, got 'n'", mutates_args=["n"])
    refused(TypeError, r"`mutates_args`: expected names of parameters, as in \('x',\), got 'x'", mutates_args="x")
    expected = "`differentiable`: expected no names, as a function that writes to arguments has no derivatives"
    refused(ValueError, expected, mutates_args=["x"], differentiable=["x"])
    for name in ("mylib::__lj", "mylib::_", "_lj", "mylib::lj_v1.0"):
        refused(ValueError, "`name`: expected a namespace and a name", name=name)

    def integers(n: Array[Int, Atom]):
        return n

    def numbers(x: Real):
        return x

    expected = "expected an array of reals among the parameters"
    refused(ValueError, f"`integers`: {expected}, or a dtype of each output, got n", integers)
    refused(ValueError, f"`numbers`: {expected}, got x", numbers, outputs=y((2,)))
    with pytest.raises(ValueError, match="`energy`: expected no dtype, as kernels compute in that of their arrays"):
        madelung.kernels.op("mylib::wide", [paired], outputs=[OutputSpec("energy", Real, (Atom,), "float64")])


@kernel
def paired(i: Atom, r: Array[Vec3, Atom], q: Array[Real, Atom], pairs: Pairs[Atom], energy: Out[Real, Atom]):
    e = 0.0
    for j, _ in pairs.row(i):
        e += q[j] / length(r[j] - r[i])
    energy[i] = q[i] * e
