"""Machine code of kernels made at run time: the bits of the interpreter, which the Rust tests hold against others."""

from __future__ import annotations

import itertools
import json
import os
import stat
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import madelung.numpy
from conftest import required, turn_within
from kernel_cases import crystal as fluid
from madelung import _native
from madelung._neighbors import checked
from madelung._schema import DIRECT, GRADIENT, GRADIENT_TANGENT, SECOND, TANGENT, VALUE
from madelung.kernels import _llvm
from madelung.numpy._ops import Op
from op_arguments import arguments
from shapes import EVERY, stands_for_others

required("llvmlite")

REAL_SPACE = """
#[kernel(fast(positions))]
fn real_space(
    i: Atom, positions: &[Vec3; Atom], charges: &[Real; Atom], cell: &[Mat3; System], alpha: &[Real; System],
    cutoff: Real, atoms: &Batch<Atom, System>, pairs: &Pairs<Atom>, energy: &mut [Real; Atom],
) {
    let b = atoms.of(i);
    let mut e = 0.0;
    for (j, shift) in pairs.row(i) {
        let d = positions[j] - positions[i] + shift * cell[b];
        let r = length(d);
        if r < cutoff { e += charges[j] * erfc(alpha[b] * r) / r; }
    }
    energy[i] = 0.5 * charges[i] * e;
}
"""
LENNARD_JONES = """
#[kernel(fast(positions))]
fn fluid(
    i: Atom, positions: &[Vec3; Atom], cell: &[Mat3; System], sigma: &[Real; System], cutoff: Real,
    atoms: &Batch<Atom, System>, pairs: &Pairs<Atom>, energy: &mut [Real; Atom],
) {
    let b = atoms.of(i);
    let mut e = 0.0;
    for (j, shift) in pairs.row(i) {
        let d = positions[j] - positions[i] + shift * cell[b];
        let s = sigma[b] * sigma[b] / dot(d, d);
        let s6 = s * s * s;
        if dot(d, d) < cutoff * cutoff { e += 2.0 * (s6 * s6 - s6); }
    }
    energy[i] = e;
}
"""
# A function of each pair, of one row to one column: on lanes of the arrays' type. Of each row: on lanes of f64.
PAIRWISE = """
#[kernel]
fn pairwise(i: Atom, x: &[Real; Atom], y: &[Real; Atom], pairs: &Pairs<Atom>, out: &mut [Real; Atom]) {{
    let mut e = 0.0;
    for (j, shift) in pairs.row(i) {{ e += {}; }}
    out[i] = e;
}}
"""
ROWWISE = """
#[kernel]
fn rowwise(i: Atom, x: &[Real; Atom], y: &[Real; Atom], out: &mut [Real; Atom]) {{ out[i] = {}; }}
"""
ONE = ["exp", "log", "erf", "erfc", "sin", "cos", "tanh", "asin", "acos", "sqrt", "floor"]
# Of quotients, which are any number, infinities and NaN among them: arguments of ops are finite.
FUNCTIONS = [f"{f}(x[{{0}}] / y[{{0}}])" for f in ONE]
FUNCTIONS += ["pow(x[{0}], y[{0}])", "atan2(x[{0}], y[{0}])", "x[{0}] / y[{0}]", "exp(-x[{0}] * x[{0}])"]
# What shares its work.
FUNCTIONS += ["erfc(x[{0}]) + exp(-x[{0}] * x[{0}]) * y[{0}]", "sin(x[{0}]) * cos(x[{0}])"]
FUNCTIONS += ["sqrt(x[{0}]) + y[{0}] / sqrt(x[{0}])"]

# Chains of operations, which the interpreter keeps in registers: each with the value so far at every place.
FUNCTIONS += ["x[{0}] * x[{0}] + y[{0}]", "y[{0}] - x[{0}] * x[{0}]", "(x[{0}] - y[{0}]) * (x[{0}] - y[{0}])"]
FUNCTIONS += [
    "y[{0}] - (x[{0}] - y[{0}]) * y[{0}]",
    "x[{0}] * y[{0}] - (x[{0}] - y[{0}])",
    "-(x[{0}] + y[{0}]) * x[{0}]",
]
FUNCTIONS += ["(x[{0}] + y[{0}]) + (x[{0}] + y[{0}])", "(x[{0}] - y[{0}]) * y[{0}] + (x[{0}] - y[{0}])"]
FUNCTIONS += ["(if x[{0}] < y[{0}] {{ x[{0}] * y[{0}] }} else {{ x[{0}] - y[{0}] }}) * y[{0}]"]

ISAS = ["Portable", "Avx2", "Avx512"][: ["Portable", "Avx2", "Avx512"].index(_native.isa()) + 1]


def op_of(source: str, name: str) -> Op:
    described = json.loads(_native.kernel_op(("tests", name, 1), name, [(source, name)], [], [], []))
    return Op(described[0])


def compile_parts(source: str, single: bool, form: str = "") -> None:
    """Machine code for the parts of a source's kernels, of all forms or of one."""
    for name in (name for *_, name in _native.kernel_parts(source) if f"_{form}" in name):
        assert not _native.has_machine_code(source, name, single, _native.isa())
        assert _llvm.install(source, name, single)
        assert _native.has_machine_code(source, name, single, _native.isa())


def flat_of(op: Op, given: dict[str, Any]) -> list[Any]:
    return [given[i.name] for i in op.inputs]


def members(op: Op, flat: list[Any], dtype: Any, wanted: int | None = None) -> list[Any]:
    """Every member: values, alone and with gradients, tangents of both orders, the gradient, and its tangent.

    `wanted`: bits of the inputs by which gradients are taken; None: all."""
    rng, everything = np.random.default_rng(5), (1 << len(op.reals)) - 1
    everything = everything if wanted is None else wanted
    found = op.run(VALUE, flat)
    weights = [rng.normal(size=out.shape).astype(dtype) for out in found[: len(op.outputs)]]
    if GRADIENT in op.targets:
        slopes = op.run(GRADIENT, flat, weights, everything)
        like = [flat[n] if x is None else x for n, x in zip(op.reals, slopes)]
        u, v = ([rng.normal(size=x.shape).astype(dtype) for x in like] for _ in range(2))
        found += slopes + (op.run(DIRECT, flat, (), everything) if DIRECT in op.targets else [])
        found += op.run(TANGENT, flat, u) + op.run(SECOND, flat, [*u, *v])
        found += op.run(GRADIENT_TANGENT, flat, [*weights, *u], everything)
    return [x for x in found if x is not None]


def crystal(dtype: Any, kind: int) -> dict[str, Any]:
    """Ions of a jittered lattice and a list of the given kind (0: full; 2: directed)."""
    rng, n = np.random.default_rng(1), 4
    sites = np.array(list(itertools.product(range(n), repeat=3)), float)
    positions = sites + 0.2 * rng.normal(size=sites.shape)
    others, shifts, ptr = [], [], [0]
    for i, j in itertools.product(range(len(sites)), repeat=2):
        for image in itertools.product((-1, 0, 1), repeat=3):
            d = positions[j] - positions[i] + n * np.array(image)
            if 0.0 < d @ d < 1.9**2:
                others.append(j)
                shifts.append(image)
        if j == len(sites) - 1:
            ptr.append(len(others))
    return {
        "positions": positions.astype(dtype),
        "charges": (1.0 - 2.0 * (sites.sum(axis=1) % 2)).astype(dtype),
        "cell": (n * np.eye(3))[None].astype(dtype),
        "alpha": np.array([0.8], dtype),
        "sigma": np.array([0.9], dtype),
        "cutoff": 1.8,
        "atoms": np.zeros(len(sites), np.int32),
        "pairs_ptr": np.array(ptr, np.int64),
        "pairs": np.array(others, np.int32),
        "pairs_shifts": np.array(shifts, np.int32),
        "pairs_kind": kind,
    }


def in_clusters(dtype: Any) -> dict[str, Any]:
    """A larger crystal, whose list is one in clusters."""
    positions, cell = fluid()
    neighbors = madelung.numpy.find_neighbors(positions, 5.0, cell)
    assert neighbors.form == "clusters"
    index, columns, images, kind = checked(neighbors, len(positions), None, ())
    given = crystal(dtype, kind)
    return given | {
        "positions": positions.astype(dtype),
        "charges": np.random.default_rng(2).normal(size=len(positions)).astype(dtype),
        "cell": cell[None].astype(dtype),
        "cutoff": 4.9,
        "atoms": np.zeros(len(positions), np.int32),
        "pairs_ptr": index,
        "pairs": columns,
        "pairs_shifts": images,
    }


def same_bits(got: list[Any], want: list[Any]) -> int:
    assert len(got) == len(want)
    for x, y in zip(got, want):
        assert x.dtype == y.dtype
        # A NaN is one, whatever its sign.
        bits = np.dtype(f"i{x.dtype.itemsize}")
        assert ((x.view(bits) == y.view(bits)) | (np.isnan(x) & np.isnan(y))).all()
    return sum(x.size for x in got)


def points(dtype: Any) -> tuple[Any, Any]:
    """Ordinary numbers, and all that are special."""
    rng, info = np.random.default_rng(3), np.finfo(dtype)
    x = np.concatenate([rng.normal(size=3000) * 10.0**k for k in (-8, -2, 0, 0, 1, 2, 4)]).astype(dtype)
    ends = [0.0, 1.0, 0.5, 2.0, 3.0, 88.7, 709.7, 745.0, info.max]
    ends += [info.tiny, info.tiny / 8, info.smallest_subnormal]
    ends = np.array([s * e for e in ends for s in (1.0, -1.0)], dtype)
    pairs = np.array(list(itertools.product(ends, repeat=2)), dtype)
    return np.concatenate([x, pairs[:, 0]]), np.concatenate([rng.permutation(x), pairs[:, 1]])


def check_crystals() -> int:
    """Every form of both potentials, on full, directed and clustered lists; the count of numbers."""
    count = 0
    for source, name in [(REAL_SPACE, "real_space"), (LENNARD_JONES, "fluid")]:
        op = op_of(source, name)
        for dtype in (np.float64, np.float32):
            given = [(crystal(dtype, kind), None) for kind in (0, 2)]
            # Of the gradients that there are in clusters, all, and those by positions.
            large = in_clusters(dtype)
            given += [(large, ~op.bits("cell") & (1 << len(op.reals)) - 1), (large, op.bits("positions"))]
            want = [members(op, flat_of(op, g), dtype, wanted) for g, wanted in given]
            compile_parts(source, dtype == np.float32)
            got = [members(op, flat_of(op, g), dtype, wanted) for g, wanted in given]
            count += sum(map(same_bits, got, want))
    return count


def check_functions() -> int:
    """Special functions, traced and compiled, at many points; the count of numbers."""
    count = 0
    for kind, index in [(PAIRWISE, "j"), (ROWWISE, "i")]:
        for n, formula in enumerate(FUNCTIONS):
            name = f"{'pairwise' if index == 'j' else 'rowwise'}_{n}"
            # Results of ops are finite.
            bounded = f"max(min({formula.format(index)}, 1e30), -1e30)"
            source = kind.format(bounded).replace(name.split("_")[0], name, 1)
            op = op_of(source, name)
            for dtype in (np.float64, np.float32):
                x, y = points(dtype)
                at = np.arange(len(x), dtype=np.int32)
                given = {"x": x, "y": y, "pairs": at[::-1].copy(), "pairs_kind": 2}
                # Rows of 100 pairs would add NaN to all: one pair each.
                given |= {"pairs_ptr": np.arange(len(x) + 1), "pairs_shifts": np.zeros((len(x), 3), np.int32)}
                flat = flat_of(op, given)
                want = op.run(VALUE, flat)
                compile_parts(source, dtype == np.float32, "value_")
                count += same_bits(op.run(VALUE, flat), want)
    return count


def check_library(part: int = 0, of: int = 1) -> int:
    """The library's own kernels, each as an op, on full lists and on those that need the transpose; every `of`-th of
    them from `part` on. Those that search in grids take pairs that were found before, as `…_listed`."""
    count = 0
    kernels = [(source, name) for source, name in _native.library_kernels() if stands_for_others(name)]
    for n, (source, name) in list(enumerate(kernels))[part::of]:
        # Grids come from searches, the number of systems from other steps, and terms are made of indices.
        if name.endswith("_around") or name in ("wire_unsplit", "open_splitting", "bonded_atoms"):
            continue
        described = json.loads(_native.kernel_op(("library", name, 1), name, [(source, name)], [], [], []))
        op = Op(described[0])
        # In one dtype, in turn, and by `make test-all` in both.
        dtypes = (np.float64, np.float32)
        for dtype in dtypes if EVERY in os.environ else (dtypes[n // of % 2],):
            given = [x.astype(dtype) if getattr(x, "dtype", None) == np.float64 else x for x in arguments(op)]
            kinds = [n for n, i in enumerate(op.inputs) if i.part == "list_kind"]
            both = [given, [2 if n in kinds else x for n, x in enumerate(given)]]
            want = [members(op, flat, dtype) for flat in both]
            compile_parts(source, dtype == np.float32)
            count += sum(same_bits(members(op, flat, dtype), w) for flat, w in zip(both, want))
    return count


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("check", ["check_crystals()", "check_functions()", "check_library()"])
def test_machine_code_has_the_bits_of_the_interpreter(isa, check, tmp_path):
    turn = turn_within("test_kernels_llvm.py", 3)
    if check == "check_library()" and isa != ISAS[-1]:
        check = f"check_library({ISAS.index(isa)}, 4)"
    elif check == "check_library()" and turn is not None:
        check = f"check_library({turn}, 3)"
    # The instruction set is chosen once in a process.
    run = f"import test_kernels_llvm as t; assert t._native.isa() == {isa!r}; print(t.{check})"
    # Machine code comes when it is asked for, and not by itself.
    environment = {"MADELUNG_ISA": isa.lower(), "MADELUNG_CACHE": str(tmp_path), "MADELUNG_KERNELS": "interpreter"}
    assert int(python(run, environment)) > 1000


def python(code: str, environment: dict[str, str]) -> str:
    paths = [str(Path(__file__).parent), *sys.path]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | environment
    code = textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


TEXT = f"define void @{_native.machine_code_name()}(ptr %a, i64 %lo, i64 %hi, ptr %p) {{\n  ret void\n}}\n"
# What a new process does with it: the number of times that LLVM compiled it.
COMPILES = f"""
from madelung.kernels import _llvm
compiler = _llvm._the_compiler()
compiled, object_of = [], compiler._object
compiler._object = lambda text: compiled.append(text) or object_of(text)
assert compiler.address({TEXT!r})
print(len(compiled))
"""


def test_object_code_is_kept_and_made_again_where_it_is_damaged(tmp_path):
    environment = {"MADELUNG_CACHE": str(tmp_path / "new")}
    assert [int(python(COMPILES, environment)) for _ in range(2)] == [1, 0]
    (file,) = (tmp_path / "new").iterdir()
    whole = file.read_bytes()
    for damaged in (whole[:-1], b"", whole[:20], whole[:-1] + bytes([whole[-1] ^ 1]), b"x" + whole[1:]):
        file.write_bytes(damaged)
        assert int(python(COMPILES, environment)) == 1
        assert file.read_bytes() == whole


def test_code_for_another_processor_is_made_again(tmp_path):
    environment = {"MADELUNG_CACHE": str(tmp_path)}
    other = COMPILES.replace("compiled, object_of", "compiler._processor = ('x86-64', '')\ncompiled, object_of")
    assert [int(python(code, environment)) for code in (COMPILES, other, COMPILES, other)] == [1, 1, 0, 0]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path):
    file = tmp_path / "file"
    file.touch()
    assert int(python(COMPILES, {"MADELUNG_CACHE": str(file)})) == 1
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert int(python(COMPILES, {"MADELUNG_CACHE": str(closed)})) == 1


def test_processes_that_start_together_share_the_cache(tmp_path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "MADELUNG_CACHE": str(tmp_path)}
    start = [subprocess.Popen([sys.executable, "-c", COMPILES], env=environment) for _ in range(2)]
    assert [process.wait() for process in start] == [0, 0]
    assert [f.suffix for f in tmp_path.iterdir()] == [".o"]
    assert int(python(COMPILES, {"MADELUNG_CACHE": str(tmp_path)})) == 0


@pytest.mark.parametrize(
    ("llvmlite", "reason", "warned"),
    [("raise ImportError", "not installed", 0), ("__version__ = '0.44.0'\nfrom . import binding", "too old", 1)],
)
def test_without_a_usable_llvmlite_the_interpreter_stays(llvmlite, reason, warned, tmp_path):
    (tmp_path / "llvmlite").mkdir()
    (tmp_path / "llvmlite" / "__init__.py").write_text(llvmlite)
    (tmp_path / "llvmlite" / "binding.py").touch()
    run = f"""
    import sys, warnings
    sys.path.insert(0, {str(tmp_path)!r})
    from madelung import _native
    from madelung.kernels import _llvm
    source = {LENNARD_JONES!r}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for *_, name in _native.kernel_parts(source):
            assert not _llvm.install(source, name, False)
    assert len(found) == {warned}, found
    assert {reason!r} in _llvm.compiler(), _llvm.compiler()
    """
    python(run, {})


def test_text_that_llvm_refuses_is_a_warning(monkeypatch):
    source = ROWWISE.format("x[i] * y[i]")
    (*_, name) = _native.kernel_parts(source)[0]
    for text, reason in [("no text", "expected top-level entity"), ("declare void @nobody()\n" + TEXT, "`nobody`")]:
        with monkeypatch.context() as patch, warnings.catch_warnings():
            patch.setattr(_llvm._native, "kernel_llvm", lambda *_, text=text: text)
            with pytest.warns(RuntimeWarning, match=reason):
                assert not _llvm.install(source, name, False)
    assert not _native.has_machine_code(source, name, False, _native.isa())
    assert _llvm.install(source, name, False)
    assert _llvm.compiler().startswith("llvmlite ")


# Calls until a part has machine code: the seconds that it took, or nothing where it never came.
CALLS = """
import threading, time
import numpy as np
import test_kernels_llvm as t
from madelung.kernels import _background
given = t.crystal(np.float64, 0)
op = t.op_of(t.LENNARD_JONES, "fluid")
part = next(name for *_, name in t._native.kernel_parts(t.LENNARD_JONES) if "_value_" in name)

def calls(seconds):
    end, first = time.monotonic() + seconds, op.run(t.VALUE, t.flat_of(op, given))
    while time.monotonic() < end and not t._native.has_machine_code(t.LENNARD_JONES, part, False, t._native.isa()):
        t.same_bits(op.run(t.VALUE, t.flat_of(op, given)), first)
    t.same_bits(op.run(t.VALUE, t.flat_of(op, given)), first)
    return t._native.has_machine_code(t.LENNARD_JONES, part, False, t._native.isa())

_background.start()
"""


def test_parts_that_run_for_long_get_machine_code(tmp_path):
    many = """
    found = []
    threads = [threading.Thread(target=lambda: found.append(calls(60))) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(int(all(found) and len(found) == 4))
    """
    assert int(python(CALLS + textwrap.dedent(many), {"MADELUNG_CACHE": str(tmp_path)})) == 1


def test_a_process_that_forks_has_a_compiler_of_its_own(tmp_path):
    fork = """
    import os
    _background._llvm.info()
    child = os.fork()
    if child == 0:
        os._exit(0 if calls(60) else 1)
    print(int(calls(60) and os.waitpid(child, 0)[1] == 0))
    """
    assert int(python(CALLS + textwrap.dedent(fork), {"MADELUNG_CACHE": str(tmp_path)})) == 1


def test_the_interpreter_stays_where_it_is_asked_for():
    assert int(python(CALLS + "print(int(not calls(1.0)))", {"MADELUNG_KERNELS": "interpreter"})) == 1
    refused = subprocess.run(
        [sys.executable, "-c", "from madelung.kernels import _background as b; b.start()"],
        capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "MADELUNG_KERNELS": "fast"},
    )  # fmt: skip
    assert "`MADELUNG_KERNELS`: expected 'compiled' or 'interpreter', got 'fast'" in refused.stderr
