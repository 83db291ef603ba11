"""Derivatives of every op against finite differences, in every mode and order that there is."""

import pytest
import torch
from cases import Case, make
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from conftest import DEVICE
from differences import check_torch
from madelung._schema import DIRECT, NEGATIVE
from madelung.torch import _ops


def close(a: torch.Tensor, b: torch.Tensor, tolerance: float = 1e-12, terms: float = 0.0) -> None:
    """Elementwise, against the largest; against its `terms`, where these cancel but for rounding."""
    largest = float(b.abs().max()) if b.numel() else 0.0
    largest = terms if largest < 1e-13 * terms else largest
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * largest)


def test_first_order(op_case: Case) -> None:
    torch.autograd.gradcheck(
        op_case.at, op_case.inputs(), check_forward_ad=True, check_batched_grad=True, fast_mode=True
    )


def test_second_order(op_case: Case) -> None:
    check_torch(op_case.at, op_case.inputs(), forward=True)


def test_entry_by_entry() -> None:
    case = make(_ops.OPS["pair_vectors"])
    torch.autograd.gradcheck(case.at, case.inputs(), check_forward_ad=True)


def test_strain(op_case: Case) -> None:
    """Given as zeros, it has the derivative along r → r(1 + ε), cell → cell(1 + ε) at fixed charges."""
    if len(op_case.reals) == len(op_case.op.reals):
        pytest.skip("no argument that is zero in every call")
    (strain,) = set(op_case.op.reals) - set(op_case.reals)
    names = [op_case.op.inputs[n].name for n in op_case.reals]
    args = op_case.put(op_case.inputs())
    args[strain] = torch.zeros(2, 3, 3, dtype=torch.float64, device=DEVICE, requires_grad=True)
    at = {name: args[n] for name, n in zip(names, op_case.reals)}
    e = op_case.call(*args).sum()
    by_strain, by_r, by_h = torch.autograd.grad(e, (args[strain], at["positions"], at["cell"]))
    r, h = at["positions"].detach(), at["cell"].detach()
    of_atoms = r[:, :, None] * by_r[:, None, :]
    expected = torch.stack([of_atoms[:4].sum(0), of_atoms[4:].sum(0)]) + h.transpose(1, 2) @ by_h
    close(by_strain, expected)


def test_all_orders_agree(op_case: Case) -> None:
    """Hessians by every pair of modes are those of autograd's double backward, which `test_second_order` holds
    against finite differences."""
    x, f = op_case.positions, op_case.energy
    expected = torch.autograd.functional.hessian(f, x)
    terms = float(grad(f)(x).abs().max()) / float(x.abs().max())
    for name, composed in {
        "hessian": hessian(f),
        "forward over reverse": jacfwd(jacrev(f)),
        "reverse over forward": jacrev(jacfwd(f)),
        "reverse over reverse": jacrev(jacrev(f)),
        "forward over forward": jacfwd(jacfwd(f)),
    }.items():
        close(composed(x), expected, terms=terms)
        assert name
    u = torch.linspace(-1, 1, x.numel(), dtype=x.dtype, device=DEVICE).reshape(x.shape)
    hvp = torch.tensordot(expected, u, x.dim())
    close(jvp(grad(f), (x,), (u,))[1], hvp, terms=terms)
    close(grad(lambda r: jvp(f, (r,), (u,))[1])(x), hvp, terms=terms)
    close(vjp(grad(f), x)[1](u)[0], hvp, terms=terms)
    # A direction that varies with the point: ∂ᵥ(∇f · ux) = ux · H v + ∇f · uv.
    v = torch.cos(torch.arange(x.numel(), dtype=x.dtype, device=DEVICE)).reshape(x.shape)
    along = jvp(lambda r: jvp(f, (r,), (u * r,))[1], (x,), (v,))[1]
    close(along, (u * x * torch.tensordot(expected, v, x.dim())).sum() + (grad(f)(x) * u * v).sum())


def test_dual_numbers(op_case: Case) -> None:
    x = op_case.positions
    u = torch.linspace(-1, 1, x.numel(), dtype=x.dtype, device=DEVICE).reshape(x.shape)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(op_case.energy(forward_ad.make_dual(x, u))).tangent
    close(tangent, (grad(op_case.energy)(x) * u).sum())


def test_third_order_says_so(trait_case: Case) -> None:
    with pytest.raises(
        NotImplementedError, match=f"{trait_case.name}_v1: derivatives by its inputs exist to second order"
    ):
        jacrev(hessian(trait_case.energy))(trait_case.positions)
    (x,) = (trait_case.positions.clone().requires_grad_(),)
    (g,) = torch.autograd.grad(trait_case.energy(x), x, create_graph=True)
    (h,) = torch.autograd.grad((g * g).sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="third"):
        h.sum().backward()


def test_vmap(op_case: Case) -> None:
    x, f = op_case.positions, op_case.energy
    many = torch.stack([x, x + 0.01, 0.99 * x])
    close(vmap(f)(many), torch.stack([f(r) for r in many]))
    close(vmap(f, in_dims=x.dim())(many.movedim(0, -1)), torch.stack([f(r) for r in many]))
    close(vmap(grad(f))(many), torch.stack([grad(f)(r) for r in many]))
    close(vmap(hessian(f))(many[:2]), torch.stack([hessian(f)(r) for r in many[:2]]))
    twice = torch.stack([many, 1.01 * many])
    close(vmap(vmap(f))(twice), torch.stack([torch.stack([f(r) for r in rs]) for rs in twice]))
    close(grad(lambda r: vmap(f)(r).sum())(many), torch.stack([grad(f)(r) for r in many]))


def test_vmap_over_everything(op_case: Case) -> None:
    """Every tensor mapped, lists and batches too."""
    tensors = [n for n in op_case.op.tensors if op_case.args[n].shape != (0,)]
    cases = [op_case.args, [0.98 * x if n in op_case.reals else x for n, x in enumerate(op_case.args)]]

    def f(*xs: torch.Tensor) -> torch.Tensor:
        args = list(op_case.args)
        for n, x in zip(tensors, xs):
            args[n] = x
        return op_case.call(*args)

    got = vmap(f)(*[torch.stack([args[n] for args in cases]) for n in tensors])
    expected = [op_case.call(*args) for args in cases]
    for k, x in enumerate(got if isinstance(got, tuple) else (got,)):
        close(x, torch.stack([e[k] if isinstance(e, tuple) else e for e in expected]))


def test_vmap_is_one_call(op_case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of batches is a larger batch: no loop over the mapped axis, but where systems have a table in common."""
    from madelung.torch import _vmap

    tables = [a for a in op_case.op.args if a["kind"] == "map"]
    assert op_case.op.stackable == (not tables)
    many = torch.stack([op_case.positions, op_case.positions + 0.01])
    expected = vmap(op_case.energy)(many)
    with monkeypatch.context() as patched:
        if not tables:
            patched.setattr(_vmap, "_loop", lambda *_: pytest.fail("a loop"))
        close(vmap(op_case.energy)(many), expected)
    monkeypatch.setattr(_vmap, "_stack", lambda *_: None)
    close(vmap(op_case.energy)(many), expected)
    close(vmap(grad(op_case.energy))(many), torch.stack([grad(op_case.energy)(r) for r in many]))


def test_only_what_is_wanted(op_case: Case) -> None:
    """Gradients by some arguments are those of all, and the others stay without."""
    everything = torch.autograd.grad(op_case.scalar(*(xs := op_case.inputs())), xs)
    for n, expected in enumerate(everything):
        xs = [x.detach() for x in op_case.inputs()]
        xs[n].requires_grad_()
        op_case.scalar(*xs).backward()
        close(xs[n].grad, expected)
        assert all(x.grad is None for k, x in enumerate(xs) if k != n)


def test_graphs_are_kept(op_case: Case) -> None:
    xs = op_case.inputs()
    e = op_case.scalar(*xs)
    first = torch.autograd.grad(e, xs, retain_graph=True)
    second = torch.autograd.grad(e, xs, create_graph=True)
    for a, b in zip(first, second):
        assert not a.requires_grad and b.requires_grad
        close(a, b)


def test_checkpoints(op_case: Case) -> None:
    from torch.utils.checkpoint import checkpoint

    for reentrant in (False, True):
        plain, again = op_case.inputs(), op_case.inputs()
        op_case.scalar(*plain).backward()
        checkpoint(op_case.scalar, *again, use_reentrant=reentrant).backward()
        for a, b in zip(plain, again):
            assert torch.equal(a.grad, b.grad)


def test_saved_tensors_may_be_moved(op_case: Case) -> None:
    """All that a graph keeps goes through the hooks for saved tensors."""
    plain, moved = op_case.inputs(), op_case.inputs()
    op_case.scalar(*plain).backward()
    with torch.autograd.graph.save_on_cpu():
        e = op_case.scalar(*moved)
    e.backward()
    for a, b in zip(plain, moved):
        assert torch.equal(a.grad, b.grad)


def test_changed_inputs_are_noticed(op_case: Case) -> None:
    xs = op_case.inputs()
    e = op_case.scalar(*xs)
    with torch.no_grad():
        xs[0].add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        e.backward()


@pytest.mark.host("errors of values come when a device is asked for them")
def test_points_on_one_place() -> None:
    """A distance of zero has no derivative; the error says between which points."""
    case = make(_ops.OPS["pair_vectors"])
    x = case.positions.clone()
    j, shift = case.args[4][0], case.args[5][0]
    args = list(case.args)
    args[1] = torch.zeros_like(args[1])
    x[int(j)] = x[0]
    args[0] = x.requires_grad_()
    assert shift.shape == (3,)
    _, distances = case.call(*args)
    assert float(distances.min()) == 0.0
    with pytest.raises(RuntimeError, match=r"`positions`: expected points that are apart.*points 0 and"):
        distances.sum().backward()


def test_values_and_gradients_at_once(op_case: Case) -> None:
    """The member that has both, with either sign, against a backward pass."""
    op = op_case.op
    if DIRECT not in op.members:
        assert len(op.outputs) != 1 or len(op.smooth) != 1
        return
    xs = op_case.inputs()
    out = op_case.at(*xs)
    gradients = torch.autograd.grad(out.sum(), xs)
    at = [x.detach() if isinstance(x, torch.Tensor) else x for x in op_case.put(xs)]
    direct, every = op.overload(DIRECT, private=True), (1 << len(op.reals)) - 1
    value, *found = direct(*at, every)
    _, *negative = direct(*at, every | NEGATIVE)
    torch.testing.assert_close(value, out.detach(), rtol=1e-13, atol=1e-13)
    assert len(found) == len(op.reals) and all(torch.equal(-g, minus) for g, minus in zip(found, negative))
    for n, expected in zip(op_case.reals, gradients):
        close(found[op.reals.index(n)], expected, 1e-12)
    value, *found = direct(*at, 1)
    assert found[0] is not None and all(g is None for g in found[1:])
