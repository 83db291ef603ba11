"""Torch modules called from JAX."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec
from jax_cases import close, four_devices

from conftest import required
from differences import check_jax

torch = required("torch")
import madelung.jax as mj  # noqa: E402


class Mixed(torch.nn.Module):
    """Smooth, of two arguments, with a result for each and a number of them."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4))

    def forward(self, x: torch.Tensor, y: torch.Tensor, power: int = 2) -> dict[str, torch.Tensor]:
        z = torch.tanh(x @ self.matrix)
        return {"energy": (z**power).sum(-1) * torch.sin(y), "features": z * y[..., None]}


def plain(x: Any, y: Any, power: int = 2) -> dict[str, Any]:
    """The same in JAX."""
    z = jnp.tanh(x @ jnp.linspace(-1, 1, 12).reshape(3, 4))
    return {"energy": (z**power).sum(-1) * jnp.sin(y), "features": z * y[..., None]}


X, Y = jnp.linspace(-0.7, 0.9, 15).reshape(5, 3), jnp.linspace(0.2, 1.4, 5)


def module(**options: Any) -> Any:
    return mj.TorchModule(Mixed(), **{"compile": False, "enable_vjp": True, **options})


def scalar(f: Any) -> Any:
    return lambda x, y: sum((out**2).sum() for out in jax.tree.leaves(f(x, y)))


def test_values() -> None:
    f = module()
    for call in (f, jax.jit(f)):
        jax.tree.map(close, call(X, Y), plain(X, Y))
    jax.tree.map(close, f(x=X, y=Y, power=3), plain(X, Y, 3))
    jax.tree.map(close, f(X, y=Y, power=3), plain(X, Y, 3))
    jax.tree.map(
        close, jax.lax.scan(lambda s, y: (s, f(X, y * Y)), 0.0, jnp.ones(2))[1]["energy"][1], plain(X, Y)["energy"]
    )


def test_every_mode_and_nested() -> None:
    f, g = scalar(module()), scalar(plain)
    check_jax(f, (X, Y))
    for argument in (0, 1):
        for transform in (jax.grad, jax.jacfwd, jax.hessian):
            close(transform(f, argument)(X, Y), transform(g, argument)(X, Y))
        close(jax.jacrev(jax.jacrev(f, argument), argument)(X, Y), jax.hessian(g, argument)(X, Y))
        close(jax.jacfwd(jax.jacfwd(f, argument), argument)(X, Y), jax.hessian(g, argument)(X, Y))
    close(jax.jit(jax.hessian(f))(X, Y), jax.hessian(g)(X, Y))
    third = [jax.jacfwd(jax.hessian(lambda y, h=h: h(X, y)))(Y) for h in (f, g)]
    close(*third)


@pytest.mark.parametrize("method", ["broadcast_all", "expand_dims", "sequential"])
def test_vmap(method: str) -> None:
    f = module(vmap_method=method)
    many = jnp.stack([X, 1.1 * X, X - 0.2])
    jax.tree.map(close, jax.vmap(f, (0, None))(many, Y), jax.vmap(plain, (0, None))(many, Y))
    for argument in (0, 1):
        of = [jax.vmap(jax.grad(scalar(h), argument), (0, None))(many, Y) for h in (f, plain)]
        close(*of)
        over = [jax.grad(lambda y, h=h: jax.vmap(scalar(h), (0, None))(many, y).sum())(Y) for h in (f, plain)]
        close(*over)


def test_shard_map() -> None:
    mesh, spec = Mesh(four_devices(), ("rows",)), PartitionSpec("rows")
    x, y = jnp.linspace(-1, 1, 24).reshape(8, 3), jnp.linspace(0.1, 1, 8)
    f = jax.jit(jax.shard_map(module(), mesh=mesh, in_specs=(spec, spec), out_specs=spec))
    jax.tree.map(close, f(x, y), plain(x, y))
    close(jax.grad(scalar(f))(x, y), jax.grad(scalar(plain))(x, y))


def test_specs() -> None:
    f = mj.TorchModule(
        lambda x, n: x * n, [mj.TorchDtypeSpec((-1, 3), torch.float32), mj.ScalarSpec(int)], compile=False
    )
    out = f(X, 3)
    assert out.dtype == jnp.float32
    close(out, (3 * X).astype(jnp.float32), 1e-6)
    with pytest.raises(ValueError, match=r"`argument 0`: expected shape \(-1, 3\), got \(5,\)"):
        f(Y, 3)
    with pytest.raises(TypeError, match="`argument 1`: expected a Python int"):
        f(X, 3.0)
    with pytest.raises(ValueError, match="`input_spec`: expected an entry per leaf"):
        f(X)
    both = mj.TorchModule(lambda x, k: (x.round().to(torch.int32), x > 0, k), compile=False)
    whole, positive, k = both(X, jnp.arange(4))
    assert (whole.dtype, positive.dtype, k.dtype) == (jnp.int32, jnp.bool_, jnp.int64)


def test_modules_that_differentiate_themselves() -> None:
    def forces(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = x.detach().requires_grad_()
        energy = (x**3).sum()
        return energy, -torch.autograd.grad(energy, x)[0]

    energy, found = jax.jit(mj.TorchModule(forces, requires_grad=True, compile=False))(X)
    close(found, -3 * X**2)
    close(energy, (X**3).sum())


def test_madelung_within() -> None:
    """A torch module around `madelung.torch`, and JAX's derivatives of it."""
    from jax_cases import ALPHA, listed, system, total

    import madelung.torch as mt

    r, q, h = system(4)
    lists = listed(r, h)
    of_torch = {k: torch.from_numpy(np.array(v)) if isinstance(v, jax.Array) else v for k, v in lists.items()}

    def energy(r: torch.Tensor, q: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return mt.ewald_summation(r, q, h, ALPHA, energy_reduction="system", **of_torch)[0]

    f, g = mj.TorchModule(energy, vmap_method="sequential", enable_vjp=True, compile=False), total(lists)
    assert f(r, q, h) == g(r, q, h)
    close(jax.grad(f)(r, q, h), jax.grad(g)(r, q, h))
    close(jax.hessian(f)(r, q, h), jax.hessian(g)(r, q, h))


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(TypeError, match="TorchModule: expected `enable_vjp=True`"):
        jax.grad(scalar(module(enable_vjp=False)))(X, Y)
    with pytest.raises(TypeError, match="`result 0 of the module`: expected a tensor, got int"):
        mj.TorchModule(lambda x: 3, compile=False)(X)
    with pytest.raises(ValueError, match="`vmap_method`: expected 'broadcast_all' or"):
        module(vmap_method="loop")
    with pytest.raises(ValueError, match="result 0 of the module under vmap.*batch axis of length 3"):
        jax.vmap(mj.TorchModule(lambda x: x.sum(), compile=False))(jnp.ones((3, 2)))
    detached = mj.TorchModule(lambda x: x.detach() ** 2, enable_vjp=True, compile=False)
    with pytest.raises(jax.errors.JaxRuntimeError, match="depend on the arguments in torch's graph"):
        jax.block_until_ready(jax.grad(lambda x: detached(x).sum())(X))

    def fail(x: torch.Tensor) -> torch.Tensor:
        if not isinstance(x, torch._subclasses.FakeTensor):
            raise RuntimeError("a defect of the module")
        return x

    with pytest.raises(jax.errors.JaxRuntimeError, match="a defect of the module"):
        jax.block_until_ready(mj.TorchModule(fail, compile=False)(X))


@pytest.mark.parametrize("compile", [False, True])
def test_dtypes_that_the_module_does_not_take(compile: bool) -> None:
    """A short error that says how to cast, whether the module has weights or not; under `jit` XLA's text has it."""
    layer = torch.nn.Linear(3, 2, dtype=torch.float64)
    x, weight = jnp.ones((4, 3), jnp.float32), torch.ones(3, 2, dtype=torch.float64)
    text = (
        r"dtypes that the module takes \((its weights are float64; )?`TorchDtypeSpec\(shape, dtype\)` .* got float32; "
    )
    for module in (layer, lambda x: x @ weight):
        wrapped = mj.TorchModule(module, compile=compile, enable_vjp=True)
        for call in (wrapped, jax.vmap(wrapped), jax.grad(lambda x, f=wrapped: f(x).sum())):
            with pytest.raises(TypeError, match=text) as caught:
                call(x)
            assert caught.value.__suppress_context__ and ("its weights" in str(caught.value)) == (module is layer)
            assert str(caught.value).count("\n") == 0
        with pytest.raises((TypeError, jax.errors.JaxRuntimeError), match=text):
            jax.block_until_ready(jax.jit(wrapped)(x))
        cast = mj.TorchModule(module, [mj.TorchDtypeSpec((-1, 3), torch.float64)], compile=compile)
        close(cast(x), module(torch.ones(4, 3, dtype=torch.float64)).detach().numpy())

    def defective(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no such column")

    with pytest.raises(RuntimeError, match="^no such column$"):
        mj.TorchModule(defective, compile=compile)(x)


def test_modules_that_look_at_values() -> None:
    """The shapes of their results are known after a call outside of `jit`."""

    def picky(x: torch.Tensor) -> torch.Tensor:
        if not bool((x > -5).all()) or float(x.abs().max()) == 0.0:
            raise ValueError("expected numbers")
        return 2 * x

    f = mj.TorchModule(picky, compile=False)
    with pytest.raises(ValueError, match="call it once outside of `jit`.*said: expected numbers"):
        jax.jit(f)(X)
    close(f(X), 2 * X)
    close(jax.jit(f)(X), 2 * X)


def test_compiled() -> None:
    """Values and first derivatives through `torch.compile`, second ones without."""
    f, g = scalar(module(compile=True)), scalar(plain)
    close(f(X, Y), g(X, Y))
    close(jax.grad(f)(X, Y), jax.grad(g)(X, Y))
    close(jax.hessian(f)(X, Y), jax.hessian(g)(X, Y))


def test_copies_follow_the_module() -> None:
    """The copy for another device (here the CPU by another name) has the weights of the last step."""
    module = torch.nn.BatchNorm1d(3, dtype=torch.float64)
    wrapped = mj.TorchModule(module, compile=False)
    elsewhere = torch.device("cpu:0")
    copied = wrapped.on(elsewhere, False)
    assert copied is not module
    with torch.no_grad():
        module.weight.mul_(2.0)
        module.running_mean.add_(0.5)
    again = wrapped.on(elsewhere, False)
    assert again is copied
    assert all(torch.equal(x, y) for x, y in zip(again.state_dict().values(), module.state_dict().values()))
    module.load_state_dict({name: 3 * x for name, x in module.state_dict().items()})
    assert torch.equal(wrapped.on(elsewhere, False).weight, module.weight)


def test_modules_end_with_the_caches() -> None:
    def called() -> list[Any]:
        module = torch.nn.Linear(3, 1, dtype=torch.float64)
        wrapped = mj.TorchModule(module, compile=False, enable_vjp=True)
        x = jnp.ones((2, 3))
        jax.grad(lambda x: wrapped(x).sum())(x)
        jax.jit(wrapped)(x)
        return [weakref.ref(module), weakref.ref(wrapped)]

    refs = called()
    jax.clear_caches()
    gc.collect()
    assert [ref() for ref in refs] == [None, None]
