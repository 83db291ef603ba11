"""Ops of Python functions, and functions of autograd by hand: values, two derivatives, transforms, graphs, errors."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest

import madelung.torch
from conftest import required
from madelung.kernels import Array, Batch, Int, Int64, Mat3, Out, Pairs, Real, Vec3, dims, kernel, launch, length

torch = required("torch")
kit = importlib.import_module("madelung.torch.autograd")
OutputSpec = kit.OutputSpec
pytestmark = pytest.mark.host("kernels of the host")

Atom, System, Feature = dims("Atom System Feature")
CUTOFF = 3.0
F64 = {"dtype": torch.float64}
OLD = torch.__version__.startswith("2.7")


@kernel
def pair_energy(
    i: Atom,
    positions: Array[Vec3, Atom],
    charges: Array[Real, Atom],
    cell: Array[Mat3, System],
    cutoff: Real,
    atoms: Batch[Atom, System],
    pairs: Pairs[Atom],
    energy: Out[Real, Atom],
):
    b = atoms.of(i)
    e = 0.0
    for j, shift in pairs.row(i):
        r = length(positions[j] - positions[i] + shift @ cell[b])
        if r < cutoff:
            e += charges[j] * (1 - r / cutoff) ** 4 / r
    energy[i] = charges[i] * e / 2


@kernel
def total_energy(i: Atom, energy: Array[Real, Atom], atoms: Batch[Atom, System], total: Out[Real, System]):
    total[atoms.of(i)] += energy[i]


def body(positions: Any, charges: Any, cell: Any, cutoff: Any, atoms: Any, pairs: Any) -> Any:
    """Two kernels, and functions of PyTorch between them."""
    energy = pair_energy(positions, charges, cell, cutoff, atoms, pairs)
    return torch.tanh(energy), total_energy(energy**2, (atoms, cell.shape[0])), (energy > 0).int()


@kit.custom_op(
    "madelung_tests::energies",
    outputs=[
        OutputSpec("energy", Real, (Atom,)),
        OutputSpec("total", Real, (System,)),
        OutputSpec("sign", Int, (Atom,)),
    ],
)
def energies(
    positions: Array[Vec3, Atom],
    charges: Array[Real, Atom],
    cell: Array[Mat3, System],
    cutoff: Real,
    atoms: Batch[Atom, System],
    pairs: Pairs[Atom],
):
    """Energies."""
    return body(positions, charges, cell, cutoff, atoms, pairs)


def system() -> tuple[list[Any], tuple[Any, ...]]:
    """Positions, charges and cells of two systems, and the arguments without derivatives."""
    random = torch.Generator().manual_seed(3)
    positions = 4 * torch.rand(7, 3, generator=random, **F64)
    charges = torch.randn(7, generator=random, **F64)
    cell = torch.stack([4 * torch.eye(3, **F64), 4.5 * torch.eye(3, **F64)])
    atoms = torch.tensor([0, 0, 0, 1, 1, 1, 1], dtype=torch.int32)
    pairs = madelung.torch.find_neighbors(positions, CUTOFF, cell, batch_idx=atoms).coo()
    return [positions, charges, cell], (CUTOFF, atoms, pairs)


def smooth(f: Any, rest: Any) -> Any:
    return lambda *x: f(*x, *rest)[:2]


def number(f: Any, rest: Any) -> Any:
    return lambda *x: sum((out * torch.cos(torch.arange(out.numel(), **F64))).sum() for out in f(*x, *rest)[:2])


def leaves(x: list[Any]) -> list[Any]:
    return [t.clone().requires_grad_() for t in x]


def test_values() -> None:
    x, rest = system()
    for a, b in zip(energies(*x, *rest), body(*x, *rest)):
        assert torch.equal(a, b) and a.dtype == b.dtype
    assert energies.__name__ == "energies" and energies.__doc__ == "Energies."


def test_calls_are_those_of_kernels() -> None:
    """Arguments by name; one system without a batch, its cell without that axis, and numbers."""
    x, (cutoff, _, _) = system()
    r, q, cell = x[0][:3], x[1][:3], x[2][0]
    pairs = madelung.torch.find_neighbors(r, cutoff, cell).coo()
    found = energies(r, charges=q, cell=cell, cutoff=cutoff, pairs=pairs)
    for a, b in zip(found, body(r, q, cell[None], cutoff, torch.zeros(3, dtype=torch.int32), pairs)):
        assert torch.equal(a, b)


def test_derivatives() -> None:
    """By differences, and to the rounding of the functions themselves."""
    x, rest = system()
    assert torch.autograd.gradcheck(smooth(energies, rest), leaves(x))
    assert torch.autograd.gradgradcheck(smooth(energies, rest), leaves(x))
    at = leaves(x)
    for f in (energies, body):
        (g,) = torch.autograd.grad(number(f, rest)(*at), at[:1], create_graph=True)
        h = torch.autograd.grad((g * torch.sin(g)).sum(), at)
        if f is energies:
            expected = g, *h
    for a, b in zip(expected, (g, *h)):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    again = energies(*at, *rest)[0].sum()
    first = torch.autograd.grad(again, at, retain_graph=True)
    assert all(torch.equal(a, b) for a, b in zip(first, torch.autograd.grad(again, at)))


@pytest.mark.parametrize("outer", ["jacrev", "jacfwd"])
@pytest.mark.parametrize("inner", ["jacrev", "jacfwd"])
def test_transforms_of_derivatives(outer: str, inner: str) -> None:
    x, rest = system()

    def twice(f: Any) -> Any:
        first = getattr(torch.func, inner)(number(f, rest), 1)
        return getattr(torch.func, outer)(first, (0, 1, 2))(*x)

    if (outer, inner) == ("jacfwd", "jacfwd"):
        with pytest.raises(NotImplementedError, match="at most two derivatives.* forward over forward"):
            twice(energies)
        return
    for a, b in zip(twice(energies), twice(body)):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


def test_vmap() -> None:
    """The bits of calls one by one, and gradients within."""
    x, rest = system()
    stacked = [torch.stack([t, 1.01 * t, 0.99 * t]) for t in x]
    found = torch.func.vmap(lambda *at: energies(*at, *rest))(*stacked)
    for n in range(3):
        for a, b in zip(found, body(*(t[n] for t in stacked), *rest)):
            assert torch.equal(a[n], b)
    gradients = torch.func.vmap(torch.func.grad(number(energies, rest)), (0, None, None))(stacked[0], *x[1:])
    for n in range(3):
        expected = torch.func.grad(number(body, rest))(stacked[0][n], *x[1:])
        torch.testing.assert_close(gradients[n], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_graphs(backend: str) -> None:
    """One op in the graph, with its gradient and under `vmap`, and of any number of atoms."""
    x, rest = system()
    torch.compiler.reset()
    compiled = torch.compile(number(energies, rest), fullgraph=True, backend=backend)
    at = leaves(x)
    value = compiled(*at)
    torch.testing.assert_close(value, number(body, rest)(*at), rtol=1e-13, atol=1e-13)
    expected = torch.autograd.grad(number(body, rest)(*at), at)
    for a, b in zip(torch.autograd.grad(value, at), expected):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    # PyTorch 2.7 runs no op of its `torch.library` under `vmap` in a graph.
    if OLD:
        return
    mapped = torch.compile(torch.func.vmap(smooth(energies, rest), (0, None, None)), fullgraph=True, backend=backend)
    found = mapped(torch.stack([x[0], x[0] + 0.01]), *x[1:])
    assert torch.equal(found[1][1], body(x[0] + 0.01, *x[1:], *rest)[1])


def test_dynamic_graphs() -> None:
    """A graph for any number of atoms, and not one for each."""
    x, (_, atoms, _) = system()

    def f(function: Any, *a: Any) -> Any:
        return function(*a[:3], CUTOFF, *a[3:])[1]

    graphs = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph

    torch.compiler.reset()
    compiled = torch.compile(lambda *a: f(energies, *a), fullgraph=True, backend=backend, dynamic=True)
    for n in (7, 5, 6, 4):
        pairs = madelung.torch.find_neighbors(x[0][:n], CUTOFF, x[2], batch_idx=atoms[:n]).coo()
        arguments = x[0][:n], x[1][:n], x[2], atoms[:n], pairs
        assert torch.equal(compiled(*arguments), f(body, *arguments))
    assert len(graphs) < 3


def test_export() -> None:
    x, rest = system()
    cutoff, atoms, lists = rest

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, tensor in zip(("atoms", "pairs", "ptr", "shifts"), (atoms, *lists)):
                self.register_buffer(name, tensor)

        def forward(self, *x: Any) -> Any:
            return energies(*x, cutoff, self.atoms, (self.pairs, self.ptr, self.shifts))

    program = torch.export.export(Module(), tuple(x))
    assert any("energies" in str(node.target) for node in program.graph.nodes)
    for a, b in zip(program.module()(*x), body(*x, *rest)):
        assert torch.equal(a, b)


def test_the_library_checks_it() -> None:
    """PyTorch's own checks of schema, fake results, autograd and graphs, of the op and of its gradient."""
    x, (cutoff, atoms, (pairs, ptr, shifts)) = system()
    integers = pairs.int(), ptr.int(), shifts.int(), 0
    flat = (*leaves(x), cutoff, atoms, *integers)
    ops = torch.ops.madelung_tests
    torch.library.opcheck(ops.energies, flat)
    weights = torch.rand(7, **F64, requires_grad=True), torch.rand(2, **F64, requires_grad=True)
    torch.library.opcheck(ops.energies_backward, (*flat, *weights, 0b101))


def test_third_derivatives_are_refused() -> None:
    """Under transforms and in graphs by the op, else by the kernels that its function calls."""
    x, rest = system()
    at = leaves(x)
    y = number(energies, rest)(*at)
    for _ in range(2):
        (y,) = torch.autograd.grad(y, at[:1], create_graph=True)
        y = y.square().sum()
    with pytest.raises(NotImplementedError, match="derivatives by its inputs exist to second order"):
        torch.autograd.grad(y, at[:1])

    def of_gradient(f: Any) -> Any:
        return torch.func.grad(lambda r: f(r).square().sum())

    first = torch.func.grad(lambda r: number(energies, rest)(r, *x[1:]))
    with pytest.raises(NotImplementedError, match="`madelung_tests::energies`: expected at most two derivatives"):
        of_gradient(of_gradient(first))(x[0])


def test_forward_mode_in_a_graph_is_refused() -> None:
    x, rest = system()
    tangents = tuple(map(torch.ones_like, x))
    compiled = torch.compile(number(energies, rest), fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match=None if OLD else "forward mode"):
        torch.compile(lambda: torch.func.jvp(compiled, tuple(x), tangents), fullgraph=True, backend="aot_eager")()


def test_what_is_not_differentiable() -> None:
    """A parameter that is left out has no gradient; a tensor of any shape has one."""

    @kit.custom_op(
        "madelung_tests::network", outputs=[OutputSpec("y", Real, (Atom, 2))], differentiable=["weights", "x"]
    )
    def network(x: Array[Real, Atom, Feature], scale: Array[Real], weights: torch.Tensor):
        return scale * torch.sin(x @ weights)

    x, scale, weights = leaves([torch.rand(4, 3, **F64), torch.tensor(2.0, **F64), torch.rand(3, 2, **F64)])
    found = torch.autograd.grad(network(x, scale, weights).sum(), [x, scale, weights], allow_unused=True)
    expected = torch.autograd.grad((scale * torch.sin(x @ weights)).sum(), [x, weights])
    assert found[1] is None and torch.equal(found[0], expected[0]) and torch.equal(found[2], expected[1])
    assert torch.autograd.gradgradcheck(lambda x, w: network(x, 2.0, w), (x, weights))


def test_results_have_memory_of_their_own() -> None:
    @kit.custom_op("madelung_tests::same", outputs=[OutputSpec("y", Real, (Atom,)), OutputSpec("z", Real, (Atom,))])
    def same(x: Array[Real, Atom]):
        return x, x

    x = torch.rand(3, **F64)
    y, z = same(x)
    assert len({t.data_ptr() for t in (x, y, z)}) == 3 and torch.equal(y, x) and torch.equal(z, x)


def test_integers_of_64_bits() -> None:
    @kit.custom_op("madelung_tests::ranks", outputs=[OutputSpec("rank", Int64, (Atom,))])
    def ranks(x: Array[Real, Atom]):
        return 2**40 + x.argsort().argsort()

    found = ranks(torch.tensor([3.0, 1.0, 2.0]))
    assert found.dtype == torch.int64 and (found - 2**40).tolist() == [2, 0, 1]


def test_batches_alone_and_edges() -> None:
    """Sizes of systems by the batch, of edges by the list; halves of lists are known as such."""
    Edge = dims("Edge")[0]
    outputs = [OutputSpec("total", Real, (System,)), OutputSpec("vector", Vec3, (Edge,))]

    @kit.custom_op("madelung_tests::edges", outputs=outputs)
    def edges(x: Array[Vec3, Atom], atoms: Batch[Atom, System], pairs: Pairs[Atom, Atom, Edge]):
        (batch_idx, systems), both = atoms, pairs[0].long()
        assert len(pairs) == 4 and pairs[3] is True
        total = x.new_zeros(systems).index_add(0, batch_idx.long(), x.square().sum(1))
        return total, x[both[1]] - x[both[0]]

    x, (_, atoms, _) = system()
    pairs = torch.tensor([[0, 1], [1, 2]]), torch.tensor([0, 1, 2, 2, 2, 2, 2, 2]), torch.zeros(2, 3, dtype=torch.int32)
    total, vectors = edges(x[0], (atoms, 3), (*pairs, True))
    assert total.shape == (3,) and total[2] == 0 and torch.equal(vectors, x[0][1:3] - x[0][:2])


def by_hand(positions: Any, charges: Any, cell: Any, cutoff: Any, atoms: Any, pairs: Any) -> Any:
    """The pattern of kernels under a tape: what is recorded in `forward` is what `backward` differentiates."""

    class Energies(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, positions: Any, charges: Any, cutoff: Any) -> Any:
            with kit.tape_if(kit.needs_grad(positions, charges)) as tape:
                r, q = tape.watch(positions, charges)
                outputs = body(r, q, cell, cutoff, atoms, pairs)[:2]
            return kit.attach_for_backward(ctx, tape, outputs, inputs=(r, q, cutoff))

        @staticmethod
        def backward(ctx: Any, *grad_outputs: Any) -> Any:
            return kit.standard_backward(ctx, *grad_outputs)

    return Energies.apply(positions, charges, cutoff)


def test_functions_by_hand() -> None:
    """Values, two derivatives, `retain_graph`, gradients of some; a third one is an error."""
    x, rest = system()
    at = leaves(x[:2])

    def f(*x: Any) -> Any:
        return by_hand(*x, system()[0][2], *rest)

    assert all(torch.equal(a, b) for a, b in zip(f(*x[:2]), body(*x, *rest)))
    assert not f(*x[:2])[0].requires_grad
    assert torch.autograd.gradcheck(f, at) and torch.autograd.gradgradcheck(f, at)
    # One argument depends on the other one: nothing is counted twice.
    (found,) = torch.autograd.grad(f(at[0], at[0].sum(1))[1].sum(), at[:1])
    (expected,) = torch.autograd.grad(body(at[0], at[0].sum(1), x[2], *rest)[1].sum(), at[:1])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    y = f(at[0], x[1])[1].sum()
    first = torch.autograd.grad(y, at[:1], retain_graph=True)
    assert torch.equal(*first, *torch.autograd.grad(y, at[:1], create_graph=True))
    (g,) = torch.autograd.grad(y, at[:1], create_graph=True)
    (h,) = torch.autograd.grad(g.square().sum(), at[:1], create_graph=True)
    with pytest.raises(NotImplementedError, match="`standard_backward`: expected at most two derivatives"):
        torch.autograd.grad(h.sum(), at[:1])


def test_backward_by_hand() -> None:
    """The two steps of `standard_backward`, with a scale between them."""

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            with kit.tape_if(True) as tape:
                leaf = tape.watch(x)
                y = leaf**3
            return kit.attach_for_backward(ctx, tape, y, [leaf])

        @staticmethod
        def backward(ctx: Any, v: Any) -> Any:
            recorded = kit.retrieve_for_backward(ctx)
            assert recorded.outputs[0].requires_grad and recorded.given[0] is not recorded.inputs[0]
            return kit.extract_gradients(recorded, [2 * v])[0]

    x = torch.tensor([1.0, 2.0], **F64, requires_grad=True)
    (g,) = torch.autograd.grad(Scaled.apply(x).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    torch.testing.assert_close(g, 6 * x**2)
    torch.testing.assert_close(h, 12 * x)


def test_tapes() -> None:
    """A tape in an op, and without a flag; `launch` records nothing."""
    seen = []

    @kit.custom_op("madelung_tests::forces", outputs=[OutputSpec("forces", Vec3, (Atom,))], differentiable=[])
    def forces(
        positions: Array[Vec3, Atom],
        charges: Array[Real, Atom],
        cell: Array[Mat3, System],
        cutoff: Real,
        atoms: Batch[Atom, System],
        pairs: Pairs[Atom],
    ):
        with kit.tape_if(True) as tape:
            r = tape.watch(positions.requires_grad_())
            energy = pair_energy(r, charges, cell, cutoff, atoms, pairs).sum()
        with kit.tape_if(False) as tape:
            seen.append(tape.watch(r) is r and not (2 * r).requires_grad)
        return -torch.autograd.grad(energy, r)[0]

    x, rest = system()
    at = x[0].clone().requires_grad_()
    (expected,) = torch.autograd.grad(pair_energy(at, *x[1:], *rest).sum(), at)
    assert torch.equal(forces(*x, *rest), -expected) and seen == [True]
    out = torch.empty(7, **F64)
    names = ("positions", "charges", "cell", "cutoff", "atoms", "pairs")
    launch(pair_energy, dict(zip(names, (at, *x[1:], *rest))), {"energy": out})
    assert not kit.needs_grad(out, None) and kit.needs_grad(None, at)


def test_refused_declarations() -> None:
    def made(function: Any, name: str = "madelung_tests::bad", outputs: Any = None, **options: Any) -> None:
        kit.custom_op(name, outputs=[OutputSpec("y", Real, (Atom,))] if outputs is None else outputs, **options)(
            function
        )

    def good(x: Array[Real, Atom], n: Int):
        return x

    def starred(*x: Array[Real, Atom]):
        return x

    def bare(x):
        return x

    def integers(n: Array[Int, Atom]):
        return n

    with pytest.raises(ValueError, match="`name`: expected a namespace and a name, .*, got 'bad'"):
        made(good, "bad")
    with pytest.raises(TypeError, match=r"`outputs`: expected OutputSpec\(name, type, dimensions\), got 'y'"):
        made(good, outputs=["y"])
    with pytest.raises(ValueError, match="`outputs`: expected one or more, got none"):
        made(good, outputs=[])
    with pytest.raises(ValueError, match=r"`y`: expected dimensions that an argument has \(Atom\), got System"):
        made(good, outputs=[OutputSpec("y", Real, (System,))])
    with pytest.raises(ValueError, match="`differentiable`: expected parameters that are arrays of reals: x, got 'n'"):
        made(good, differentiable=["n"])
    with pytest.raises(ValueError, match="`starred`: expected plain parameters"):
        made(starred)
    with pytest.raises(TypeError, match=r"`x`: expected Array\[T\].*, got no annotation"):
        made(bare)
    with pytest.raises(
        ValueError, match="`integers`: expected an array of reals among the parameters, or a dtype.*, got n"
    ):
        made(integers)


def test_refused_calls() -> None:
    x, rest = system()
    with pytest.raises(
        TypeError, match="`positions`: expected an array of the function's framework, got float64 of shape"
    ):
        energies(*(t.numpy() for t in x), *rest)
    with pytest.raises(TypeError, match="`charges`: expected float64, as `positions`, got float32"):
        energies(x[0], x[1].float(), x[2], *rest)
    with pytest.raises(ValueError, match=r"`positions`: expected shape \(Atom, 3\), got \(7, 2\)"):
        energies(x[0][:, :2], *x[1:], *rest)
    with pytest.raises(TypeError, match="`energies`: `pairs` is missing"):
        energies(*x, *rest[:2])
    found = madelung.torch.find_neighbors(x[0], CUTOFF, x[2], batch_idx=rest[1])
    with pytest.raises(TypeError, match=r"`pairs`: expected \(neighbor_list.*`neighbors.coo\(\)` gives, got Neighbors"):
        energies(*x, *rest[:2], found)

    def wrong(results: Any) -> Any:
        @kit.custom_op("madelung_tests::wrong", outputs=[OutputSpec("y", Real, (Atom,))])
        def wrong(x: Array[Real, Atom]):
            return results

        return wrong(x[1])

    with pytest.raises(
        ValueError, match=r"`y`: expected torch.float64 of shape \(7,\), got torch.float64 of shape \(2,\)"
    ):
        wrong(torch.zeros(2, **F64))
    with pytest.raises(TypeError, match="`y`: expected a tensor, got 3"):
        wrong(3)
    with pytest.raises(ValueError, match="`madelung_tests::wrong`: expected 1 results of its function, got 2"):
        wrong((x[1], x[1]))


def test_refused_tapes() -> None:
    x = torch.ones(2, **F64, requires_grad=True)

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, how: Any) -> Any:
            with kit.tape_if(True) as tape:
                leaf = tape.watch(x)
            return how(ctx, tape, leaf, x)

        @staticmethod
        def backward(ctx: Any, v: Any) -> Any:
            return kit.extract_gradients(kit.retrieve_for_backward(ctx), [v, v])

    def refused(how: Any, kind: Any, match: str) -> None:
        with pytest.raises(kind, match=match):
            Wrong.apply(x, how)

    attach = kit.attach_for_backward
    refused(
        lambda ctx, t, y, x: attach(ctx, t, y, [y]),
        ValueError,
        "`inputs`: expected the 2 arguments of `forward`, got 1",
    )
    refused(
        lambda ctx, t, y, x: attach(ctx, t, y, [x, 0]), ValueError, r"`inputs\[0\]`: expected what `tape.watch` gave"
    )
    refused(lambda ctx, t, y, x: attach(ctx, None, y, [y, 0]), TypeError, "`tape`: expected what `with tape_if")
    refused(lambda ctx, t, y, x: attach(ctx, t, [1], [y, 0]), TypeError, "`outputs`: expected a tensor, or several")
    refused(lambda ctx, t, y, x: attach(x, t, y, [y, 0]), TypeError, "`ctx`: expected the context of an")
    y = Wrong.apply(x, lambda ctx, t, y, x: attach(ctx, t, 2 * y, [y, 0]))
    with pytest.raises(ValueError, match="`grad_outputs`: expected one for each of the 1 outputs, got 2"):
        y.sum().backward()
    with pytest.raises(ValueError, match="`ctx`: expected a context that `attach_for_backward` was given"):
        kit.retrieve_for_backward(SimpleNamespace())
    with pytest.raises(TypeError, match="`tensors`: expected tensors, or None, got 1.0"):
        kit.needs_grad(x, 1.0)
    with pytest.raises(TypeError, match="`flag`: expected True or False, got 1"):
        kit.tape_if(1)
