"""Kernels in Python as ops of PyTorch: the values of NumPy, every derivative, transforms and graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import madelung.kernels as mk
import madelung.torch
from conftest import required
from differences import check_torch, fourth_order
from kernel_cases import Atom, Case, cases, crystal, lennard_jones, on_waves, tensors
from madelung.kernels import Array, Out, Real

torch = required("torch")
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

pytestmark = pytest.mark.host("kernels of the host")


def case_of(name: str) -> tuple[Case, list[Any], dict[str, Any]]:
    case = cases()[name]
    return case, [tensors(np.asarray(x)) for x in case.smooth.values()], tensors(case.rest)


def outputs(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def total(x: Any) -> Any:
    return sum((o * torch.cos(torch.arange(o.numel(), dtype=o.dtype)).reshape(o.shape)).sum() for o in outputs(x))


every = pytest.mark.parametrize("name", cases())


@every
def test_values(name: str) -> None:
    case, x, rest = case_of(name)
    for a, b in zip(outputs(case(*x, **rest)), outputs(case(*case.smooth.values()))):
        np.testing.assert_array_equal(a.numpy(), b)


@every
def test_derivatives(name: str) -> None:
    """Gradients and all second derivatives, by autograd twice and by dual numbers over autograd."""
    case, x, rest = case_of(name)
    check_torch(lambda *at: case(*at, **rest), x, forward=True)


@every
def test_gradients_against_differences(name: str) -> None:
    case, x, rest = case_of(name)
    leaves = [t.requires_grad_() for t in x]
    assert torch.autograd.gradcheck(lambda *at: total(case(*at, **rest)), leaves, eps=1e-5, atol=1e-6, rtol=1e-6)


@every
def test_transforms(name: str) -> None:
    """`torch.func`: gradients are those of autograd, and `vmap` has the bits of calls one by one."""
    case, x, rest = case_of(name)

    def f(*at: Any) -> Any:
        return total(case(*at, **rest))

    every_input = tuple(range(len(x)))
    leaves = [t.clone().requires_grad_() for t in x]
    expected = torch.autograd.grad(f(*leaves), leaves)
    for a, b in zip(torch.func.grad(f, every_input)(*x), expected):
        assert torch.equal(a, b)
    stacked = [torch.stack([t, t * 1.01, t * 0.99]) for t in x]
    found = outputs(torch.func.vmap(lambda *at: case(*at, **rest))(*stacked))
    for n in range(3):
        for a, b in zip(found, outputs(case(*(t[n] for t in stacked), **rest))):
            assert torch.equal(a[n], b)


@every
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_graphs(name: str, backend: str) -> None:
    """Compiled without a break, the first call included; second derivatives through the graph."""
    case, x, rest = case_of(name)

    def f(*at: Any) -> Any:
        return total(case(*at, **rest))

    torch.compiler.reset()
    compiled = torch.compile(f, fullgraph=True, backend=backend)
    leaves = [t.clone().requires_grad_() for t in x]
    value = compiled(*leaves)
    torch.testing.assert_close(value, f(*leaves), rtol=1e-13, atol=1e-13)
    for a, b in zip(torch.autograd.grad(value, leaves), torch.autograd.grad(f(*leaves), leaves)):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_first_call_in_a_graph() -> None:
    """An op that PyTorch has not met is registered while its first call is traced."""

    @mk.kernel
    def fresh(i: Atom, x: Array[Real, Atom], y: Out[Real, Atom]):
        y[i] = 17.25 * x[i] ** 2

    torch.compiler.reset()
    x = torch.arange(4.0, dtype=torch.float64, requires_grad=True)
    y = torch.compile(lambda x: fresh(x).sum(), fullgraph=True, backend="aot_eager")(x)
    assert y.item() == 17.25 * 14
    assert torch.equal(torch.autograd.grad(y, x)[0], 34.5 * x.detach())


def test_dynamic_graphs() -> None:
    """Graphs in which numbers and sizes are open."""

    @mk.kernel
    def scaled(i: Atom, x: Array[Real, Atom], scale: Real, y: Out[Real, Atom]):
        y[i] = scale * x[i]

    torch.compiler.reset()
    compiled = torch.compile(lambda x, s: scaled(x, s), fullgraph=True, backend="aot_eager", dynamic=True)
    for n, s in ((3, 2.0), (5, 0.5)):
        assert torch.equal(compiled(torch.ones(n), s), torch.full((n,), s))


@pytest.mark.filterwarnings("ignore")
def test_traces() -> None:
    """A trace keeps no tensor of the call that it was made of, and searches are refused in one."""

    def function_of(name: str) -> Any:
        case, (r, *others), rest = case_of(name)
        return r, lambda r: case(r, *others, **rest)

    r, energies = function_of("lennard_jones")
    for trace in (lambda f: torch.jit.trace(f, r), lambda f: make_fx(f)(r)):
        for a, b in zip(outputs(trace(energies)(0.9 * r)), outputs(energies(0.9 * r)), strict=True):
            assert torch.equal(a, b)
    r, energies = function_of("within")
    with pytest.raises(ValueError, match=r"a call outside of `torch.jit.trace`"):
        torch.jit.trace(energies, r)
    with pytest.raises(ValueError, match=r"a call outside of `make_fx`"):
        make_fx(energies)(r)


def test_derivatives_of_functions() -> None:
    """The derivative that a function is given stands in place of the derived one, at both orders."""

    @mk.func
    def step(x: Real) -> Real:
        return mk.floor(x)

    @step.derivative
    def smooth_step(x: Real) -> Real:
        return x**3

    @mk.kernel
    def k(i: Atom, x: Array[Real, Atom], y: Out[Real, Atom]):
        y[i] = step(x[i])

    x = torch.tensor([0.5, 2.5], dtype=torch.float64, requires_grad=True)
    y = k(x)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    assert y.tolist() == [0.0, 2.0]
    torch.testing.assert_close(g, x**3)
    torch.testing.assert_close(h, 3 * x**2)


def test_strain() -> None:
    """The derivative by a strain that is zero in every call is that of strained positions and cells."""
    case, x, rest = case_of("lennard_jones")
    strain = torch.zeros(2, 3, 3, dtype=torch.float64, requires_grad=True)
    given = dict(zip(case.smooth, x), **rest)
    (g,) = torch.autograd.grad(case.kernel(**given, strain=strain).sum(), strain)
    along = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def energy(h: float) -> Any:
        turned = torch.eye(3, dtype=torch.float64) + h * along
        moved = torch.einsum("ni,nij->nj", x[0], turned[rest["atoms"].long()])
        return case.kernel(**{**given, "positions": moved, "cell": x[1] @ turned}).sum()

    h = 1e-4
    expected = fourth_order(energy, h)
    torch.testing.assert_close((g * along).sum(), expected, rtol=1e-9, atol=0)


def test_launch() -> None:
    case, x, rest = case_of("lennard_jones")
    given = dict(zip(case.smooth, [t.requires_grad_() for t in x]), **rest)
    out = torch.full((16,), torch.nan, dtype=torch.float64)
    mk.launch(case.kernel, inputs=given, outputs={"energy": out})
    assert torch.equal(out, case(*x, **rest).detach())
    with pytest.raises(ValueError, match="`energy`: expected memory of its own, got that of `positions`"):
        mk.launch(case.kernel, given, {"energy": x[0].detach()[:, 1]})
    with pytest.raises(TypeError, match="`energy`: expected float64, got float32"):
        mk.launch(case.kernel, given, {"energy": out.float()})
    # Sizes that a mesh says, of integers of the host.
    of_waves = {"scale": torch.tensor([2.0, 3.0]), "mesh": [(4, 5, 6, 4), (5, 4, 4, 4)]}
    expected = on_waves(**of_waves)
    out = torch.full_like(expected, torch.nan)
    mk.launch(on_waves, of_waves, {"counted": out})
    assert torch.equal(out, expected)


def test_neighbors() -> None:
    case, x, rest = case_of("lennard_jones")
    found = madelung.torch.find_neighbors(x[0], case.rest["cutoff"], x[1], batch_idx=rest["atoms"])
    torch.testing.assert_close(case(*x, **{**rest, "pairs": found}), case(*x, **rest), rtol=1e-14, atol=1e-14)


def test_float32() -> None:
    case, x, rest = case_of("lennard_jones")
    e = case(*(t.float() for t in x), **rest)
    assert e.dtype == torch.float32
    torch.testing.assert_close(e.double(), case(*x, **rest), rtol=1e-4, atol=1e-4)


def test_bad_arguments() -> None:
    case, x, rest = case_of("lennard_jones")
    given = dict(zip(case.smooth, x), **rest)
    k = case.kernel
    with pytest.raises(TypeError, match="`cell`: expected a tensor"):
        k(**{**given, "cell": np.eye(3)})
    with pytest.raises(TypeError, match="`cell`: expected float64, as `positions`, got float32"):
        k(**{**given, "cell": x[1].float()})
    with pytest.raises(TypeError, match="`atoms`: expected integers, got float64"):
        k(**{**given, "atoms": rest["atoms"].double()})
    with pytest.raises(ValueError, match=r"`positions`: expected shape \(Atom, 3\)"):
        k(**{**given, "positions": x[0][:, :2]})
    with pytest.raises(ValueError, match="`σ`: expected finite"):
        k(**{**given, "σ": x[2] * torch.nan})
    with pytest.raises(ValueError, match="`positions`: expected a tensor on cpu|`cell`: expected a tensor on cpu"):
        k(**{**given, "cell": x[1].to("meta")})
    with pytest.raises(ValueError, match="`atoms"):
        k(**{**given, "atoms": rest["atoms"][:-1]})


def test_one_window_under_vmap() -> None:
    """The numbers of one mesh serve the systems of all calls."""
    case = cases()["interpolated"]
    u, charges, potential = map(torch.from_numpy, case.smooth.values())
    mesh, potential = case.rest["mesh"][0], potential[:216]

    def energy(u: Any) -> Any:
        return case.kernel(u=u, charges=charges, potential=potential, mesh=mesh)

    many = torch.stack([u, u + 0.25, u.flip(0)])
    assert torch.equal(torch.func.vmap(energy)(many), torch.stack([energy(u) for u in many]))


def test_lists_in_clusters_wherever_they_are_used_first() -> None:
    """In inference mode, under a transform, in a graph: later calls do not notice. Gradients by the cell need rows."""
    r, cell = map(torch.from_numpy, crystal())

    def energy(r: Any, pairs: Any, cell: Any = cell) -> Any:
        return lennard_jones(r, cell, σ=torch.ones((), dtype=r.dtype), epsilon=0.1, cutoff=5.0, pairs=pairs)

    def found() -> Any:
        return madelung.torch.find_neighbors(r, 5.0, cell)

    assert found().form == "clusters"
    in_rows = energy(r, found().coo())
    with torch.inference_mode():
        neighbors = found()
        expected = energy(r, neighbors)
    # Sums of some hundred pairs in another order.
    torch.testing.assert_close(expected, in_rows, rtol=1e-13, atol=1e-13)
    assert not torch.equal(expected, in_rows)
    for pairs in (neighbors, found()):
        mapped = torch.func.vmap(lambda r, pairs=pairs: energy(r, pairs))(r[None])[0]
        compiled = torch.compile(lambda r, pairs=pairs: energy(r, pairs), fullgraph=True, backend="aot_eager")(r)
        for y in (mapped, compiled, energy(r, pairs)):
            assert torch.equal(y, expected)
        cells = cell.clone().requires_grad_()
        assert torch.equal(energy(r, pairs, cells), in_rows)
    x = r.clone().requires_grad_()
    slope, of_rows = (torch.autograd.grad(energy(x, of).sum(), x)[0] for of in (found(), found().coo()))
    torch.testing.assert_close(slope, of_rows, rtol=1e-12, atol=1e-12)


def test_a_kernel_may_be_defined_again() -> None:
    """A cell of a notebook may run a second time, and no release of PyTorch registers an op twice."""

    def defined() -> Any:
        @mk.kernel
        def doubled(i: Atom, x: Array[Real, Atom], y: Out[Real, Atom]):
            y[i] = 2.0 * x[i]

        return doubled

    first, second = defined(), defined()
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    for kernel in (first, second, first):
        assert torch.equal(torch.autograd.grad(kernel(x).sum(), x)[0], torch.full_like(x, 2.0))


def test_numbers_that_are_differentiated() -> None:
    """A number for all rows has no gradient: one that should have it is refused, by whatever it is differentiated."""

    @mk.kernel
    def scaled(i: Atom, x: Array[Real, Atom], scale: Real, y: Out[Real, Atom]):
        y[i] = scale * x[i]

    grad, vmap = torch.func.grad, torch.func.vmap
    x, number, leaf = torch.ones(3), torch.tensor(2.0), torch.tensor(2.0, requires_grad=True)

    def dual(s: Any, f: Any = lambda s: scaled(x, s)) -> Any:
        with torch.autograd.forward_ad.dual_level():
            return f(torch.autograd.forward_ad.make_dual(s, s))

    calls = [
        lambda _: scaled(x, leaf),
        lambda _: scaled(x, 2 * leaf),
        lambda _: grad(lambda x: scaled(x, leaf).sum())(x),
        dual,
        grad(lambda s: scaled(x, s).sum()),
        grad(lambda s: grad(lambda x: scaled(x, s).sum())(x).sum()),
        grad(lambda s: grad(lambda x, s: scaled(x, s).sum())(x, s).sum()),
        grad(lambda s: vmap(lambda x: scaled(x, s))(x[None]).sum()),
        lambda s: torch.func.jvp(lambda s: scaled(x, s), (s,), (s,)),
        lambda s: torch.func.jvp(lambda s: grad(lambda x: scaled(x, s).sum())(x), (s,), (s,)),
        lambda s: torch.func.jvp(lambda s: grad(lambda x, s: scaled(x, s).sum())(x, s), (s,), (s,)),
        lambda s: torch.func.jvp(lambda s: torch.func.jvp(lambda x: scaled(x, s), (x,), (x,)), (s,), (s,)),
        lambda s: dual(s, lambda s: grad(lambda x: scaled(x, s).sum())(x)),
        lambda s: grad(lambda s: torch.func.jvp(lambda x: scaled(x, s), (x,), (x,))[1].sum())(s),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"`scale`: expected a number, which has no gradient \(annotate it `Array"):
            call(number)
    for found in (scaled(x, number), scaled(x, leaf.detach()), grad(lambda x, s: scaled(x, s).sum())(x, number)):
        assert found.tolist() == [2.0, 2.0, 2.0]
    with torch.no_grad():
        assert scaled(x, leaf).tolist() == [2.0, 2.0, 2.0]
    y = torch.empty(3)
    mk.launch(scaled, {"x": x, "scale": leaf}, {"y": y})
    assert y.tolist() == [2.0, 2.0, 2.0]
