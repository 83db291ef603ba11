"""Kernels called with NumPy arrays, by name."""

from __future__ import annotations

import copy
import math
import pickle
import re
from typing import Any

import numpy as np
import pytest

import madelung.kernels as mk
import madelung.numpy
from conftest import assert_close
from kernel_cases import CUTOFF, Case, cases, lennard_jones, on_waves, real_space
from madelung.kernels import Array, Batch, Out, Real, functions
from madelung.numpy._framework import Numpy

Atom, System, Bin = mk.dims("Atom System Bin")


def outputs(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


@pytest.mark.parametrize("name", cases())
def test_values(name: str) -> None:
    """What plain loops give: their sums of some twenty terms agree to 1e-15 times their number."""
    case = cases()[name]
    found = outputs(case(*case.smooth.values()))
    expected = outputs(case.expected(**case.smooth, **case.rest))
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert a.dtype == np.float64
        assert_close(a, b, 1e-13)


@pytest.mark.parametrize("name", cases())
def test_float32(name: str) -> None:
    """In float32 positions have errors of 6e-8, and these laws slopes of at most ten per relative change."""
    case = cases()[name]
    single = [np.asarray(x, np.float32) for x in case.smooth.values()]
    found, expected = outputs(case(*single)), outputs(case.expected(**case.smooth, **case.rest))
    for a, b in zip(found, expected):
        assert a.dtype == np.float32
        assert_close(a, b, 1e-5)


@mk.func
def screened(r: Real, k: Real) -> Real:
    return mk.exp(-k * r) / r


@mk.kernel
def slopes(
    i: Atom, r: Array[Real, Atom], k: Array[Real, Atom], first: Out[Real, Atom], second: Out[Real, Atom]
) -> None:
    y = screened(r[i], k[i])
    first[i] = mk.derivative(y, r[i])
    second[i] = mk.derivative(mk.derivative(y, r[i]), k[i])


def test_derivatives_within_a_row() -> None:
    r, k = np.linspace(0.5, 3.0, 7), np.linspace(0.2, 1.4, 7)
    first, second = slopes(r, k)
    t = np.exp(-k * r) / r
    assert_close(first, -t * (k + 1 / r), 1e-14)
    assert_close(second, t * k * r, 1e-14)

    def wrong(i: Atom, r: Array[Real, Atom], out: Out[Real, Atom]) -> None:
        out[i] = mk.derivative(r[i], 2.0)

    with pytest.raises(mk.KernelError, match="a constant has no derivative by it"):
        mk.kernel(wrong)


def system() -> tuple[Case, dict[str, Any]]:
    """One system of the crystal: arguments without its axis."""
    case = cases()["lennard_jones"]
    positions, cell = case.smooth["positions"][:8].copy(), case.smooth["cell"][0]
    pairs = madelung.numpy.neighbor_list(positions, CUTOFF, cell)
    return case, {"positions": positions, "cell": cell, "σ": 1.9, "epsilon": 0.5, "pairs": pairs, "cutoff": CUTOFF}


def test_what_may_be_left_out() -> None:
    """A batch of one, its axes, the strain; numbers stand for arrays of one element."""
    case, one = system()
    e = case.kernel(**one)
    both = case(*case.smooth.values())
    np.testing.assert_array_equal(e, both[:8])
    whole = {**one, "cell": one["cell"][None], "epsilon": np.array([0.5]), "strain": np.zeros((1, 3, 3))}
    np.testing.assert_array_equal(case.kernel(**whole, atoms=np.zeros(8, np.int32)), e)
    np.testing.assert_array_equal(case.kernel(**whole, atoms=(np.zeros(8, np.int32), 1)), e)
    # By their places, as far as one likes.
    np.testing.assert_array_equal(
        case.kernel(one["positions"], one["cell"], None, 1.9, epsilon=0.5, cutoff=CUTOFF, pairs=one["pairs"]), e
    )
    np.testing.assert_array_equal(case.kernel(**{**one, "positions": one["positions"].tolist()}), e)


def test_lists() -> None:
    """Neighbors of a search, plain arrays, and each pair once."""
    case, one = system()
    e = case.kernel(**one)
    found = madelung.numpy.find_neighbors(one["positions"], CUTOFF, one["cell"])
    assert_close(case.kernel(**{**one, "pairs": found}), e, 1e-15)
    half = madelung.numpy.neighbor_list(one["positions"], CUTOFF, one["cell"], half_fill=True)
    assert_close(2 * case.kernel(**{**one, "pairs": (*half, True)}).sum(), e.sum(), 1e-14)


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"positions": None}, TypeError, "`lennard_jones`: `positions` is missing"),
    ({"sigma": 1.0}, TypeError, "`lennard_jones`: there is no argument `sigma`: expected positions, cell"),
    ({"positions": np.zeros((8, 3), complex)}, TypeError, "`positions`: expected float32 or float64, got complex128"),
    ({"cell": np.eye(3, dtype=np.float32)}, TypeError, "`cell`: expected float64, as `positions`, got float32"),
    ({"positions": np.zeros((8, 2))}, ValueError, r"`positions`: expected shape \(Atom, 3\), got \(8, 2\)"),
    ({"positions": np.zeros(8)}, ValueError, r"`positions`: expected shape \(Atom, 3\)"),
    ({"positions": np.zeros((7, 3))}, ValueError, "`pairs"),
    ({"cell": np.zeros((2, 3, 3))}, ValueError, "`atoms`: expected the system of each row, as there are 2 of them"),
    ({"epsilon": np.ones(3)}, ValueError, "`atoms`: expected the system of each row, as there are 3 of them"),
    ({"epsilon": "much"}, TypeError, "`epsilon`"),
    ({"σ": np.ones(2)}, ValueError, r"`σ`: expected shape \(\)"),
    ({"σ": np.array(np.nan)}, ValueError, "`σ`: expected finite"),
    ({"cutoff": None}, TypeError, "`lennard_jones`: `cutoff` is missing"),
    ({"cutoff": "near"}, TypeError, "`cutoff`: expected a number, got 'near'"),
    ({"cutoff": np.inf}, ValueError, "`cutoff`: expected a finite number"),
    ({"atoms": np.zeros(16)}, TypeError, "`atoms`: expected integers, got float64"),
    ({"atoms": np.zeros(15, np.int32)}, ValueError, "`atoms"),
    ({"atoms": np.full(16, 3, np.int32)}, ValueError, "`atoms"),
    ({"pairs": 3}, TypeError, "`pairs`: expected what `find_neighbors` gives, or"),
    (
        {"pairs": (np.zeros((3, 4), np.int32), np.zeros(9, np.int32), np.zeros((4, 3), np.int32))},
        ValueError,
        "`pairs: n",
    ),
    (
        {"pairs": (np.zeros((2, 0)), np.zeros(9, np.int32), np.zeros((0, 3), np.int32))},
        TypeError,
        "`pairs: neighbor_list",
    ),
    (
        {"pairs": (np.full((2, 1), 8, np.int32), np.array([0] * 8 + [1]), np.zeros((1, 3), np.int32))},
        ValueError,
        "`pairs",
    ),
]


@pytest.mark.parametrize(("bad", "kind", "message"), REFUSED, ids=[f"{n}" for n in range(len(REFUSED))])
def test_bad_arguments(bad: dict[str, Any], kind: type[Exception], message: str) -> None:
    case, one = system()
    given = {**case.smooth, **case.rest} if "atoms" in bad else one
    with pytest.raises(kind, match=message):
        case.kernel(**{**given, **bad})


def test_windows_have_no_waves() -> None:
    for mesh in ((8, 8, 8, 4), (8, 8, 8, 4, 0, 0, 0, 8, 8, 8), np.array([[8, 8, 8, 4]])):
        counts = on_waves(mesh=mesh, scale=np.ones(1))
        assert counts.shape == (320,) and counts.sum() == 512
    with pytest.raises(ValueError, match="`mesh`: expected whole meshes, as waves are those of all nodes, got windows"):
        on_waves(mesh=(8, 8, 8, 4, 0, 0, 0, 4, 8, 8), scale=np.ones(1))


@pytest.mark.parametrize(
    ("mesh", "kind", "message"),
    [
        ((), TypeError, "expected (K₁, K₂, K₃, order)"),
        ((8.0, 8, 8, 6), TypeError, "or as many for each system, got (8.0, 8, 8, 6)"),
        ((8, 8, 8, 6, True, False, False, 8, 8, 8), TypeError, "got (8, 8, 8, 6, True"),
        ((8, 8, 8, 6, -1, 0, 0, 8, 8, 8), TypeError, "got (8, 8, 8, 6, -1"),
        ((2**40, 8, 8, 6), TypeError, "got (1099511627776"),
        (((8, 8, 8, 6), (8, 8, 8, 6, 0, 0, 0, 8, 8, 8)), TypeError, "got (8, 8, 8, 6, 0, 0, 0, 8, 8, 8) (system 1)"),
        (((8, 8, 8, 6),), ValueError, "expected meshes of 2 systems, got 1"),
        (((20, 20, 20, 4),) * 5, ValueError, "expected meshes of 2 systems, got 5"),
        (
            (8, 8, 8, 6, 8, 0, 0, 8, 8, 8),
            ValueError,
            "expected a window of [8, 8, 8], no extent below the spline order",
        ),
        ((8, 8, 8, 6, 0, 0, 0, 5, 8, 8), ValueError, "6, got [5, 8, 8] nodes from [0, 0, 0] on"),
    ],
)
def test_bad_meshes(mesh: Any, kind: type[Exception], message: str) -> None:
    case = cases()["interpolated"]
    with pytest.raises(kind, match=r"`mesh`: .*" + re.escape(message)):
        case.kernel(**case.smooth, atoms=(case.rest["atoms"], 2), mesh=mesh)


def test_bad_calls() -> None:
    case, one = system()
    with pytest.raises(TypeError, match="`positions` was given twice"):
        case.kernel(one["positions"], **one)
    with pytest.raises(TypeError, match="expected 8 arguments"):
        case.kernel(*[1.0] * 9)
    with pytest.raises(TypeError, match="expected arrays of NumPy, PyTorch or JAX for `positions`"):
        real_space(positions=1.0, charges=1.0, cell=1.0, alpha=1.0, cutoff=1.0, pairs=one["pairs"])
    one["positions"][3] = np.nan
    with pytest.raises(ValueError, match="`positions`: expected finite"):
        case.kernel(**one)


@mk.kernel
def inverse_square(i: Atom, x: Array[Real, Atom], y: Out[Real, Atom]):
    y[i] = 1 / x[i] ** 2


@pytest.mark.parametrize("called", [inverse_square, mk.op("mine::several", [inverse_square])])
def test_a_result_beyond_the_range_names_the_kernel(called: Any) -> None:
    """Two atoms on one point give such a result: the error has the name that the user gave, and no hash."""
    with pytest.raises(
        ValueError, match=rf"^`{called.__name__}`: expected arguments with a finite result, got an infinity or NaN"
    ):
        called(np.zeros(3))


def test_launches_by_place() -> None:
    with pytest.raises(TypeError, match="`inputs`: expected arrays by the names of parameters, .* got list"):
        mk.launch(inverse_square, [np.ones(3)], [np.ones(3)])
    with pytest.raises(
        TypeError, match="`outputs`: expected arrays by the names of parameters, .* got float64 of shape"
    ):
        mk.launch(inverse_square, {"x": np.ones(3)}, np.ones(3))
    with pytest.raises(TypeError, match="`kernel`: expected a kernel, or what `op` gives, got function"):
        mk.launch(lambda x: x, {"x": np.ones(3)}, {"y": np.ones(3)})
    for dims in (3, lambda x: x):
        with pytest.raises(TypeError, match="`dims`: expected a tuple of dimensions of `y`"):
            mk.OutputSpec("y", Real, dims)


def test_without_adjoint() -> None:
    @mk.kernel(adjoint=False)
    def histogram(
        i: Atom,
        x: Array[Real, Atom],
        edges: Array[Real, Bin],
        width: Real,
        counts: Out[mk.Int, Bin],
        place: Out[mk.Int64, Atom],
    ):
        b = int(mk.floor(x[i] / width)) % len(edges)
        place[i] = mk.atomic_add(counts[b], 1)
        while b > 0 and x[i] < edges[b]:
            b -= 1

    rng = np.random.default_rng(3)
    x = rng.uniform(-4, 4, 50)
    counts, place = histogram(x, np.arange(5.0), width=0.5)
    expected = np.bincount(np.floor(x / 0.5).astype(int) % 5, minlength=5)
    np.testing.assert_array_equal(counts, expected)
    assert (counts.dtype, place.dtype) == (np.int32, np.int64)
    assert sorted(place) == sorted(k for count in expected for k in range(count))


def test_maps_without_adjoint() -> None:
    """Charges of each kind, counted in units of 1e-6: a map names the element, and a variable the last row of it."""

    @mk.kernel(adjoint=False)
    def counted(
        i: Atom, q: Array[Real, Atom], kinds: mk.Map[Atom, Bin], mass: Array[Real, Bin], units: Out[mk.Int64, Bin],
        weight: Out[Real, Atom],
    ):  # fmt: skip
        k = kinds.of(i)
        mk.atomic_add(units[k], int(mk.nearest(q[i] * 1e6)))
        weight[i] = mass[k] if k != kinds.of(0) else -mass[k]

    rng = np.random.default_rng(4)
    q, of = rng.uniform(-1, 1, 30), rng.integers(0, 4, 30)
    units, weight = counted(q, of, mass := rng.uniform(1, 2, 4))
    np.testing.assert_array_equal(units, np.bincount(of, np.rint(q * 1e6), minlength=4).astype(np.int64))
    np.testing.assert_array_equal(weight, np.where(of == of[0], -mass[of], mass[of]))


def test_functions_of_the_library() -> None:
    """The short-range part of Coulomb's law is erfc(αr)/r; a pair of Lennard-Jones has its minimum −ε at 2^(1/6) σ."""

    @mk.kernel
    def k(i: Atom, r: Array[Real, Atom], y: Out[Real, Atom], z: Out[Real, Atom]):
        y[i] = functions.coulomb_short_range(r[i], 0.5)
        z[i] = functions.lennard_jones(r[i], 2, 1.5)

    r = np.array([0.3, 1.5 * 2 ** (1 / 6), 7.0])
    y, z = k(r)
    assert_close(y, np.array([math.erfc(0.5 * x) / x for x in r]), 1e-14)
    assert abs(z[1] + 2) < 1e-14
    assert "coulomb_short_range" in dir(functions)
    with pytest.raises(AttributeError, match="there is no function `short` for kernels: there are born_mayer"):
        functions.__getattr__("short")


def test_equal_sources_are_one() -> None:
    def made(factor: float) -> mk.Kernel:
        @mk.kernel
        def k(i: Atom, x: Array[Real, Atom], y: Out[Real, Atom]):
            y[i] = factor * x[i]

        return k

    x = np.arange(3.0)
    same, again, other = made(2.0), made(2.0), made(3.0)
    assert same.source == again.source != other.source
    for k, factor in ((same, 2), (other, 3), (again, 2)):
        np.testing.assert_array_equal(k(x), factor * x)


def test_many_definitions() -> None:
    """A notebook defines a kernel again and again."""

    def defined(n: int) -> mk.Kernel:
        @mk.kernel
        def k(i: Atom, x: Array[Real, Atom], y: Out[Real, Atom]):
            y[i] = n * x[i]

        return k

    for n in range(500):
        assert defined(n)(np.ones(1))[0] == n


@mk.kernel
def pair_energy(
    i: Atom, x: Array[Real, Atom], atoms: Batch[Atom, System], energy: Out[Real, Atom], total_x: Out[Real, System]
):
    energy[i] = x[i] ** 2 + 1
    total_x[atoms.of(i)] += x[i]


@mk.kernel
def sum_over_system(
    i: Atom,
    energy: Array[Real, Atom],
    total_x: Array[Real, System],
    atoms: Batch[Atom, System],
    total: Out[Real, System],
):
    total[atoms.of(i)] += energy[i] * total_x[atoms.of(i)]


@mk.kernel
def summed_twice(
    i: Atom,
    energy: Array[Real, Atom],
    atoms: Batch[Atom, System],
    total: Out[Real, System],
    twice: Out[Real, System],
):
    total[atoms.of(i)] += energy[i]
    twice[atoms.of(i)] += 2 * energy[i]


def test_ops_of_several_kernels() -> None:
    x, atoms = np.random.default_rng(4).normal(size=7), np.array([0, 0, 0, 1, 1, 1, 1], np.int32)
    between = [mk.OutputSpec("energy", Real, (Atom,)), mk.OutputSpec("total_x", Real, (System,))]
    op = mk.op("mylib::squares", steps=[pair_energy, sum_over_system], scratch=between)
    expected = np.array([((x[a] ** 2 + 1) * x[a].sum()).sum() for a in (atoms == 0, atoms == 1)])
    assert_close(op(x, atoms=(atoms, 2)), expected, 1e-14)
    with_total = mk.op("mylib::squares", [pair_energy, summed_twice], scratch=between[:1])
    total_x, total, twice = with_total(x, atoms=(atoms, 2))
    assert_close(total_x, np.array([x[:3].sum(), x[3:].sum()]), 1e-15)
    assert_close(total, np.array([(x[a] ** 2 + 1).sum() for a in (atoms == 0, atoms == 1)]), 1e-14)
    assert_close(twice, 2 * total, 1e-15)
    turned = mk.op(
        "mylib::squares",
        [pair_energy, summed_twice],
        outputs=[mk.OutputSpec(name, Real, (System,)) for name in ("twice", "total_x", "total")],
        scratch=between[:1],
    )
    for a, b in zip(turned(x, atoms=(atoms, 2)), (twice, total_x, total)):
        np.testing.assert_array_equal(a, b)
    saved = mk.op("mylib::squares", [pair_energy, sum_over_system], saved=between)
    assert_close(saved(x, atoms=(atoms, 2)), expected, 1e-14)
    assert op.source == pair_energy.source + "\n" + sum_over_system.source


def test_bad_ops() -> None:
    steps = [pair_energy, sum_over_system]
    between = [mk.OutputSpec("energy", Real, (Atom,)), mk.OutputSpec("total_x", Real, (System,))]
    with pytest.raises(ValueError, match=r"`steps`: expected `energy` to be written before `sum_over_system` reads it"):
        mk.op("a::b", steps[::-1])
    with pytest.raises(
        ValueError, match=r"`outputs`: expected arrays that a step writes: energy, total_x, total, got foo"
    ):
        mk.op("a::b", steps, outputs=[mk.OutputSpec("foo", Real, (Atom,))])
    with pytest.raises(ValueError, match=r"`scratch`: expected `energy`, which a step writes and `outputs` leaves out"):
        mk.op("a::b", steps, outputs=[mk.OutputSpec("total", Real, (System,))])
    with pytest.raises(ValueError, match="`total`: expected the type and dimensions that it has in the step"):
        mk.op("a::b", steps, outputs=[mk.OutputSpec("total", Real, (Atom,))])
    with pytest.raises(TypeError, match="`outputs`: expected OutputSpec"):
        mk.op("a::b", steps, outputs=["total"])
    with pytest.raises(ValueError, match="`constraints`: expected names of arguments: x, atoms, got y"):
        mk.op("a::b", steps, scratch=between, constraints={"y": "finite"})
    with pytest.raises(ValueError, match="`constraints`: expected 'positive' or"):
        mk.op("a::b", steps, scratch=between, constraints={"x": "large"})
    with pytest.raises(ValueError, match="`scratch`: expected `energy`, which `sum_over_system` reads"):
        mk.op("a::b", steps)
    with pytest.raises(ValueError, match="`name`: expected a namespace and a name, as in 'mylib::lj', got 'b'"):
        mk.op("b", steps)
    with pytest.raises(ValueError, match="`steps`: expected kernels, got none"):
        mk.op("a::b", [])
    positive = mk.op("a::b", steps, scratch=between, constraints={"x": "positive"})
    with pytest.raises(ValueError, match="`x`: expected"):
        positive(np.array([-1.0]), atoms=(np.zeros(1, np.int32), 1))


def test_launch() -> None:
    case, one = system()
    expected = case.kernel(**one)
    out = np.full(8, np.nan)
    mk.launch(case.kernel, inputs=one, outputs={"energy": out})
    np.testing.assert_array_equal(out, expected)
    wide = np.zeros((8, 2))
    mk.launch(case.kernel, one, {"energy": wide[:, 1]})
    np.testing.assert_array_equal(wide, np.stack([np.zeros(8), expected], 1))
    both = cases()["real_space"]
    total = np.zeros(2)
    mk.launch(both.kernel, {**both.smooth, **both.rest}, {"total": total})
    np.testing.assert_array_equal(total, both(*both.smooth.values())[1])


def test_launch_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A contiguous output is where the result is computed; nothing is copied, and nothing written before all fits."""
    both = cases()["real_space"]
    given, expected = {**both.smooth, **both.rest}, both(*both.smooth.values())
    copied = []
    monkeypatch.setattr(Numpy, "write", staticmethod(lambda out, x: copied.append(out) or np.copyto(out, x)))
    energy, total, wide = np.full(16, np.nan), np.full(2, 7.0), np.zeros((2, 16))
    mk.launch(both.kernel, given, {"energy": energy, "total": total})
    mk.launch(both.kernel, given, {"energy": wide[1]})
    assert not copied
    np.testing.assert_array_equal(energy, expected[0])
    np.testing.assert_array_equal(total, expected[1])
    np.testing.assert_array_equal(wide, [np.zeros(16), expected[0]])
    mk.launch(both.kernel, given, {"total": total[::-1]})
    assert [out.strides for out in copied] == [(-8,)]
    np.testing.assert_array_equal(total, expected[1][::-1])
    kept = np.full(16, 3.0)
    with pytest.raises(ValueError, match=r"`total`: expected shape \(2,\), got \(3,\)"):
        mk.launch(both.kernel, given, {"energy": kept, "total": np.zeros(3)})
    with pytest.raises(ValueError, match="`total`: expected memory of its own, got that of `energy`"):
        mk.launch(both.kernel, given, {"energy": kept, "total": kept[:2]})
    with pytest.raises(TypeError, match="`total`: expected float64, got >f8"):
        mk.launch(both.kernel, given, {"energy": kept, "total": np.zeros(2, ">f8")})
    np.testing.assert_array_equal(kept, 3.0)
    found = madelung.numpy.find_neighbors(
        both.smooth["positions"], 3.2, both.smooth["cell"], batch_idx=both.rest["atoms"]
    )
    inside = found.columns[:4].view(np.float64)
    with pytest.raises(ValueError, match="`total`: expected memory of its own, got that of `pairs`"):
        mk.launch(both.kernel, given | {"pairs": found}, {"total": inside})


def test_bad_launches() -> None:
    case, one = system()

    def refused(kind: type[Exception], message: str, **outputs: Any) -> None:
        with pytest.raises(kind, match=message):
            mk.launch(case.kernel, one, outputs)

    refused(ValueError, "`outputs`: expected arrays for energy, got one for `forces`", forces=np.zeros(8))
    refused(ValueError, r"`energy`: expected shape \(8,\), got \(7,\)", energy=np.zeros(7))
    refused(TypeError, "`energy`: expected float64, got float32", energy=np.zeros(8, np.float32))
    refused(TypeError, "`energy`: expected an array of NumPy, as the inputs, got list", energy=[0.0] * 8)
    fixed = np.zeros(8)
    fixed.flags.writeable = False
    refused(ValueError, "`energy`: expected an array that can be written to", energy=fixed)
    refused(ValueError, "`energy`: expected memory of its own, got that of `positions`", energy=one["positions"][:, 0])


def test_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(lennard_jones)) is lennard_jones
    assert copy.deepcopy({"kernel": lennard_jones})["kernel"] is lennard_jones


def test_outputs_whose_size_is_an_argument() -> None:
    @mk.kernel
    def k(i: Atom, x: Array[Real], y: Out[Real, Atom]):
        y[i] = x

    with pytest.raises(TypeError, match="`Atom` is missing: expected x, Atom"):
        k(np.ones(()))
    np.testing.assert_array_equal(k(np.full((), 3.0), Atom=4), np.full(4, 3.0))


class Lent:
    """An array of another library, with some of the ways to its memory."""

    def __init__(self, x: np.ndarray, *ways: str) -> None:
        self._x, self._ways = x, ways

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_x") or name not in self._ways:
            raise AttributeError(name)
        return getattr(self._x, name)


class LentByDlpack(Lent):
    def __dlpack__(self, **options: Any) -> Any:
        return self._x.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._x.__dlpack_device__()


def test_arrays_of_other_libraries_are_taken_without_a_copy() -> None:
    x = np.arange(6.0).reshape(2, 3)
    for lent in (LentByDlpack(x), Lent(x, "__array_interface__")):
        found = mk.asarray(lent)
        assert isinstance(found, np.ndarray) and np.shares_memory(found, x)
        np.testing.assert_array_equal(found, x)
    assert mk.asarray(x) is x
    with pytest.raises(TypeError, match="`x`: expected an array, with `__dlpack__` or an array interface, got"):
        mk.asarray([1.0])


def test_vectors_and_matrices_without_derivatives() -> None:
    """Components of integers are integers, and those of reals are reals."""

    @mk.kernel(adjoint=False)
    def turned(
        i: Atom,
        x: Array[mk.Vec2, Atom],
        s: Array[mk.IVec3, Atom],
        q: mk.InOut[mk.Vec4, Atom],
        m: Out[mk.Mat2, Atom],
        n: Out[mk.Int, Atom],
    ):
        v = x[i]
        m[i] = mk.mat2(v, mk.vec2(-v[1], v.x))
        k = s[i, 1]
        n[i] = s[i, 0] + 2 * s[i][2] + k // 2
        q[i] = q[i] * float(k) if k > 0 else mk.vec4(q[i].w, m[i][1, 0], 0.0, x[i, 1])

    x, s = np.array([[1.0, 2.0], [3.0, -1.0]]), np.array([[1, 3, 5], [-2, -4, 6]], np.int32)
    q = np.arange(8.0).reshape(2, 4)
    found_q, m, n = turned(x=x, s=s, q=q)
    np.testing.assert_array_equal(m, [[[1, 2], [-2, 1]], [[3, -1], [1, 3]]])
    np.testing.assert_array_equal(n, [1 + 10 + 1, -2 + 12 - 2])
    np.testing.assert_array_equal(found_q, [q[0] * 3, [q[1, 3], 1, 0, -1]])
    with pytest.raises(ValueError, match=re.escape("`x`: expected")):
        turned(x=np.ones((2, 3)), s=s, q=q)
