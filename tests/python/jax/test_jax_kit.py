"""Kernels by `jax_kernel`, and Python functions in programs of JAX: values, derivatives, transforms, errors."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import madelung.jax
from conftest import required
from differences import check_jax
from madelung.jax import jax_callable, jax_kernel, register_ffi_callback
from madelung.kernels import (
    Array,
    Batch,
    Int,
    Int64,
    Mat3,
    Out,
    OutputSpec,
    Pairs,
    Real,
    Vec3,
    atomic_add,
    dims,
    kernel,
    launch,
    length,
    op,
    sin,
)

jax = required("jax")
jnp = jax.numpy

Atom, System, Feature, Node = dims("Atom System Feature Node")


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield


@kernel
def scaled(i: Atom, a: Array[Real, Atom], b: Array[Real, Atom], s: Array[Real], c: Out[Real, Atom], d: Out[Real, Atom]):
    c[i] = (a[i] * s + b[i]) ** 2
    d[i] = a[i] * sin(b[i]) * s


@kernel
def row_sums(
    i: Atom, values: Array[Real, Atom], atoms: Batch[Atom, System], sums: Out[Real, System], twice: Out[Real, Atom]
):
    sums[atoms.of(i)] += values[i] ** 2
    twice[i] = 2 * values[i]


@kernel
def pair_energy(
    i: Atom,
    positions: Array[Vec3, Atom],
    cell: Array[Mat3],
    width: Array[Real],
    cutoff: Real,
    pairs: Pairs[Atom],
    energy: Out[Real, Atom],
):
    e = 0.0
    for j, shift in pairs.row(i):
        r = length(positions[j] - positions[i] + shift @ cell)
        if r < cutoff:
            e += (1 - r / cutoff) ** 4 / (r + width)
    energy[i] = e / 2


@kernel
def total_energy(i: Atom, energy: Array[Real, Atom], atoms: Batch[Atom, System], total: Out[Real, System]):
    total[atoms.of(i)] += energy[i]


def arrays(*shape: int, seed: int = 0) -> Any:
    return jnp.asarray(np.random.default_rng(seed).uniform(0.2, 1.0, shape))


def test_values_and_traced_scalars() -> None:
    """The pattern of two outputs; the scale is traced, and differentiated by."""
    f = jax.jit(jax_kernel(scaled, num_outputs=2))
    a, b, s = arrays(5), arrays(5, seed=1), jnp.asarray(1.5)
    c, d = f(a, b, s)
    np.testing.assert_allclose(c, (a * s + b) ** 2, rtol=1e-14)
    np.testing.assert_allclose(d, a * jnp.sin(b) * s, rtol=1e-14)
    slope = jax.grad(lambda s: f(a, b, s)[0].sum())(s)
    np.testing.assert_allclose(slope, (2 * (a * s + b) * a).sum(), rtol=1e-13)
    assert jax_kernel(scaled).__name__ == "scaled"
    of_numpy = jax_kernel(scaled)(np.asarray(a), np.asarray(b), 1.5)
    assert all(isinstance(x, jax.Array) and (x == y).all() for x, y in zip(of_numpy, f(a, b, s)))


def test_derivatives() -> None:
    check_jax(jax_kernel(scaled), (arrays(5), arrays(5, seed=1), jnp.asarray(1.5)))
    h = jax.jit(jax.jacfwd(jax.grad(lambda a: jax_kernel(scaled)(a, a, jnp.asarray(2.0))[0].sum())))(arrays(4))
    np.testing.assert_allclose(h, 18 * np.eye(4), rtol=1e-13)


def test_vmap_and_scan() -> None:
    a, b, s = arrays(3, 5), arrays(5, seed=1), jnp.asarray(1.5)
    for method in (None, "sequential", "expand_dims", "broadcast_all"):
        f = jax_kernel(scaled, vmap_method=method)
        c, _ = jax.jit(jax.vmap(f, (0, None, None)))(a, b, s)
        np.testing.assert_array_equal(c, jnp.stack([f(x, b, s)[0] for x in a]))
    end, _ = jax.lax.scan(lambda x, _: (0.1 * f(x, b, s)[1], None), a[0], None, length=3)
    expected = a[0]
    for _ in range(3):
        expected = 0.1 * f(expected, b, s)[1]
    np.testing.assert_allclose(end, expected, rtol=1e-14)


def test_ops_of_several_kernels() -> None:
    steps = op("tests::total", steps=[pair_energy, total_energy], scratch=[OutputSpec("energy", Real, (Atom,))])
    f = jax_kernel(steps, num_outputs=1)
    r, cell = 3 * arrays(6, 3), 3 * jnp.eye(3)
    pairs = madelung.jax.find_neighbors(r, 1.5, cell)
    e = jax.jit(lambda r: f(r, cell, jnp.asarray(0.3), cutoff=1.5, pairs=pairs)[0][0])
    (alone,) = jax_kernel(pair_energy)(r, cell, jnp.asarray(0.3), 1.5, pairs)
    np.testing.assert_allclose(e(r), alone.sum(), rtol=1e-13)
    np.testing.assert_allclose(jax.grad(e)(r).sum(0), np.zeros(3), atol=1e-12)


def test_in_out_arguments() -> None:
    """Sums and rows go on from what is given, by position or name. Both are differentiable."""
    f = jax_kernel(row_sums, in_out_argnames=["sums", "twice"], output_dims={System: 2})
    values, atoms = arrays(5), jnp.asarray([0, 0, 1, 1, 1])
    before, rows = jnp.asarray([10.0, 20.0]), jnp.arange(5.0)
    sums, twice = jax.jit(f)(values, atoms, before, rows)
    squares = np.asarray(values) ** 2
    np.testing.assert_allclose(sums, [10 + squares[:2].sum(), 20 + squares[2:].sum()], rtol=1e-14)
    np.testing.assert_array_equal(twice, rows + 2 * values)
    again, _ = f(values, atoms=atoms, sums=sums, twice=rows)
    np.testing.assert_allclose(again, 2 * sums - before, rtol=1e-14)
    by_values, by_sums = jax.grad(lambda v, s: f(v, atoms, s, rows)[0].sum(), (0, 1))(values, before)
    np.testing.assert_allclose(by_values, 2 * values, rtol=1e-14)
    np.testing.assert_array_equal(by_sums, [1, 1])
    stacked = jax.vmap(lambda v, s: f(v, atoms, s, rows)[0])(
        jnp.stack([values, 2 * values]), jnp.stack([before, before])
    )
    np.testing.assert_allclose(stacked[1], before + 4 * (sums - before), rtol=1e-14)


def test_without_derivatives() -> None:
    f = jax_kernel(scaled, enable_backward=False)
    a, b, s = arrays(5), arrays(5, seed=1), jnp.asarray(1.5)
    np.testing.assert_array_equal(jax.jit(f)(a, b, s)[0], scaled(a, b, s)[0])
    with pytest.raises(ValueError, match="`enable_backward`: expected True, as a derivative of `scaled` is taken"):
        jax.grad(lambda a: f(a, b, s)[0].sum())(a)


def test_refused_kernels() -> None:
    @kernel(adjoint=False)
    def counted(i: Atom, x: Array[Real, Atom], n: Out[Int]):
        if x[i] > 0:
            atomic_add(n, 1)

    a = arrays(5)
    assert jax_kernel(counted)(a) == (5,)
    with pytest.raises(TypeError, match="`kernel`: expected a kernel, or what `op` gives, got 3"):
        jax_kernel(3)
    with pytest.raises(ValueError, match="`num_outputs`: expected 2, as `scaled` has, got 1"):
        jax_kernel(scaled, 1)
    with pytest.raises(ValueError, match="`vmap_method`: expected 'sequential' or"):
        jax_kernel(scaled, vmap_method="legacy")
    with pytest.raises(ValueError, match="`in_out_argnames`: expected outputs: c, d, got 'a'"):
        jax_kernel(scaled, in_out_argnames="a")
    with pytest.raises(
        ValueError, match="`in_out_argnames`: expected an output of a kernel with derivatives.*, got `n`"
    ):
        jax_kernel(counted, in_out_argnames=["n"])
    f = jax_kernel(scaled, in_out_argnames=["d"])
    with pytest.raises(TypeError, match="`scaled`: `d` is missing: expected an array for this output"):
        f(a, a, 1.0)
    with pytest.raises(ValueError, match=r"`d`: expected float64 of shape \(5,\), got float64 of shape \(4,\)"):
        f(a, a, 1.0, a[1:])
    with pytest.raises(TypeError, match="`scaled`: expected 3 arguments"):
        f(a, a, 1.0, a, a)
    with pytest.raises(TypeError, match="`b`: expected float64, as `a`, got float32"):
        f(a, a.astype(jnp.float32), 1.0, a)


def both(
    a: Array[Real, Atom], b: Array[Vec3, Atom], s: Real, c: Out[Real, Atom], d: Out[Vec3, Atom], e: Out[Int, Node]
):
    """Two results by NumPy, one of a size of its own."""
    assert isinstance(a, np.ndarray) and not a.flags.writeable and c.flags.writeable
    c[...] = s * a
    d[...] = s * b
    e[...] = np.arange(len(e))


@pytest.mark.host("callbacks get arrays of NumPy there")
def test_callables() -> None:
    f = jax_callable(both, num_outputs=3, output_dims={"Node": 4}, graph_mode="none", vmap_method="sequential")
    a, b = arrays(5), arrays(5, 3)
    for c, d, e in (f(a, b, 2.0), jax.jit(lambda a, b: f(a, b, s=2.0))(a, b)):
        np.testing.assert_array_equal(c, 2 * a)
        np.testing.assert_array_equal(d, 2 * b)
        assert e.tolist() == [0, 1, 2, 3] and e.dtype == jnp.int32
    np.testing.assert_array_equal(f(np.asarray(a), np.asarray(b), 2.0)[0], 2 * a)
    c, _, _ = jax.vmap(partial(f, s=3.0), (0, None))(jnp.stack([a, -a]), b)
    np.testing.assert_array_equal(c[1], -3 * a)
    assert f.__name__ == "both" and f.__doc__ == both.__doc__
    assert f(a.astype(jnp.float32), b.astype(jnp.float32), 2.0)[0].dtype == jnp.float32
    with pytest.raises(ValueError, match="cannot be differentiated"):
        jax.grad(lambda a: f(a, b, 2.0)[0].sum())(a)


@pytest.mark.host("callbacks get arrays of NumPy there")
def test_callables_copy_nothing() -> None:
    """Inputs are arrays of JAX where they lie, read-only, and outputs what the program goes on with."""
    seen = []

    def doubled(a: Array[Real, Atom], b: Out[Real, Atom]):
        seen.append((a.ctypes.data, a.flags.writeable, b.ctypes.data))
        b[...] = 2 * a

    a = arrays(5)
    (b,) = jax_callable(doubled, graph_mode="jax")(a)
    assert seen == [(a.unsafe_buffer_pointer(), False, b.unsafe_buffer_pointer())]
    np.testing.assert_array_equal(b, 2 * a)

    def failing(a: Array[Real, Atom], b: Out[Real, Atom]):
        raise OverflowError("too much of it")

    with pytest.raises(Exception, match="_failing`: OverflowError: too much of it"):
        jax.block_until_ready(jax_callable(failing)(a))


@pytest.mark.host("callbacks get arrays of NumPy there")
def test_integers_of_callables() -> None:
    def ranks(x: Array[Real, Atom], rank: Out[Int64, Atom], count: Out[Int]):
        rank[...] = 2**40 + np.argsort(np.argsort(x))
        count[...] = len(x)

    rank, count = jax_callable(ranks)(jnp.asarray([3.0, 1.0, 2.0]))
    assert (rank.dtype, count.dtype) == (jnp.int64, jnp.int32)
    assert (rank - 2**40).tolist() == [2, 0, 1] and count == 3


def test_callables_that_launch_kernels() -> None:
    """Several kernels in one callback, with a list of pairs: nothing here asks where the arrays lie."""

    def energies(
        positions: Array[Vec3, Atom],
        cell: Array[Mat3],
        pairs: Pairs[Atom],
        atoms: Batch[Atom, System],
        energy: Out[Real, Atom],
        total: Out[Real, System],
    ):
        given = {"positions": positions, "cell": cell, "width": 0.3, "cutoff": 1.5, "pairs": pairs}
        launch(pair_energy, given, {"energy": energy})
        launch(total_energy, {"energy": energy, "atoms": atoms}, {"total": total})

    r, cell = 3 * arrays(6, 3), 3 * jnp.eye(3)
    pairs = madelung.jax.find_neighbors(r, 1.5, cell).coo()
    atoms = jnp.asarray([0, 0, 1, 1, 1, 1], jnp.int32)
    f = jax_callable(energies)
    energy, total = jax.jit(lambda *given: f(*given, (atoms, 2)))(r, cell, pairs)
    np.testing.assert_array_equal(energy, pair_energy(r, cell, jnp.asarray(0.3), 1.5, pairs))
    np.testing.assert_allclose(total, [energy[:2].sum(), energy[2:].sum()], rtol=1e-14)


def test_refused_callables() -> None:
    def mixed(c: Out[Real, Atom], a: Array[Real, Atom]):
        pass

    def silent(a: Array[Real, Atom]):
        pass

    with pytest.raises(ValueError, match="`num_outputs`: expected 3, as `both` has, got 2"):
        jax_callable(both, 2)
    with pytest.raises(ValueError, match="`graph_mode`: expected None, 'none' or 'jax', got 'warp'"):
        jax_callable(both, graph_mode="warp")
    with pytest.raises(ValueError, match="`vmap_method`: expected None or 'sequential', .*, got 'expand_dims'"):
        jax_callable(both, vmap_method="expand_dims")
    with pytest.raises(ValueError, match=r"`e`: expected dimensions that an argument has \(Atom\), got Node"):
        jax_callable(both)(arrays(5), arrays(5, 3), 1.0)
    with pytest.raises(ValueError, match=r"`output_dims`: expected names of .* \(Atom, Node\), got Element"):
        jax_callable(both, output_dims={"Element": 3})
    for sizes in ({Atom: 3, Node: 1}, {"c": 3, "e": 1}, {"d": (3, 3), "e": 1}, 3):
        with pytest.raises(ValueError, match="`output_dims`: expected 5 of `Atom`, as the arguments have, got 3"):
            jax_callable(both)(arrays(5), arrays(5, 3), 1.0, output_dims=sizes)
    with pytest.raises(TypeError, match="`a`: expected `Out\\[…\\]`, as outputs are the last parameters"):
        jax_callable(mixed)
    with pytest.raises(ValueError, match="`outputs`: expected one or more, got none"):
        jax_callable(silent)
    f = jax_callable(both, output_dims={"Node": 1})
    with pytest.raises(ValueError, match=r"`b`: expected shape \(Atom, 3\), got \(5,\)"):
        f(arrays(5), arrays(5), 1.0)
    with pytest.raises(TypeError, match="`s`: expected a number that is known when the function is traced"):
        jax.jit(f)(arrays(5), arrays(5, 3), 1.0)


@pytest.mark.host("callbacks get arrays of NumPy there")
def test_ffi_callbacks() -> None:
    """The pattern of Warp: attributes, several outputs, under `jit` and `vmap`, on XLA's own memory."""
    seen = []

    def callback(inputs: Any, outputs: Any, attrs: Any, ctx: Any) -> None:
        seen.append((attrs, ctx.stream, [x.flags.writeable for x in (*inputs, *outputs)], inputs[0].ctypes.data))
        if attrs["scale"] < 0:
            raise ValueError("a scale from zero up, please")
        outputs[0][...] = attrs["scale"] * inputs[0]
        outputs[1][...] = inputs[1][::-1]

    register_ffi_callback("madelung_tests_scale", callback)
    a, b = arrays(4), jnp.arange(6, dtype=jnp.int32).reshape(3, 2)
    types = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (a, b)]
    call = jax.ffi.ffi_call("madelung_tests_scale", types, vmap_method="sequential")
    c, d = jax.jit(lambda a, b: call(a, b, scale=2.0, word="near", counts=np.arange(3)))(a, b)
    np.testing.assert_array_equal(c, 2 * a)
    np.testing.assert_array_equal(d, b[::-1])
    attrs, stream, writeable, _ = seen[0]
    assert attrs["scale"] == 2.0 and attrs["word"] == "near" and attrs["counts"].tolist() == [0, 1, 2]
    assert stream is None and writeable == [False, False, True, True]
    call(a, b, scale=2.0)
    assert seen[-1][3] == a.unsafe_buffer_pointer()
    mapped, _ = jax.vmap(lambda a: call(a, b, scale=3.0))(jnp.stack([a, -a]))
    np.testing.assert_array_equal(mapped[1], -3 * a)
    with pytest.raises(Exception, match="`madelung_tests_scale`: ValueError: a scale from zero up, please"):
        jax.block_until_ready(call(a, b, scale=-1.0))
    register_ffi_callback("madelung_tests_scale", lambda inputs, outputs, attrs, ctx: outputs[0].fill(7))
    assert call(a, b, scale=2.0)[0].tolist() == [7] * 4


@pytest.mark.host("callbacks get arrays of NumPy there")
@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint8", "float16", "bfloat16", "float32", "complex128"])
def test_ffi_dtypes(dtype: str) -> None:
    def copied(inputs: Any, outputs: Any, attrs: Any, ctx: Any) -> None:
        assert str(inputs[0].dtype) == dtype
        outputs[0][...] = inputs[0]

    register_ffi_callback("madelung_tests_copy", copied)
    for shape in ((), (0, 2), (3, 2)):
        x = jnp.ones(shape, dtype)
        found = jax.ffi.ffi_call("madelung_tests_copy", jax.ShapeDtypeStruct(shape, x.dtype))(x)
        assert found.dtype == x.dtype and (found == x).all()


def test_refused_callbacks() -> None:
    with pytest.raises(TypeError, match="`name`: expected the name of a target, got 3"):
        register_ffi_callback(3, print)
    with pytest.raises(TypeError, match=r"`func`: expected a function of \(inputs, outputs, attrs, ctx\), got None"):
        register_ffi_callback("madelung_tests_none", None)
    register_ffi_callback("madelung_tests_eager", print)
    with pytest.raises(ValueError, match="`graph_compatible`: expected False, .*, got True"):
        register_ffi_callback("madelung_tests_eager", print, graph_compatible=True)
