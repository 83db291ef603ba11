"""Kernels written by chance, beside the functions as plain Python, and their machine code beside the interpreter."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import madelung.kernels as mk
from conftest import required
from madelung import _native
from madelung.kernels import _llvm

required("llvmlite")

Atom, System, Feature = mk.dims("Atom System Feature")
HEAD = """
def by_chance_{seed}(i: Atom, positions: Array[Vec3, Atom], charges: Array[Real, Atom],
           table: Array[Real, Atom, Feature], scale: Array[Real, System], cell: Array[Mat3, System], cutoff: Real,
           order: Int, atoms: Batch[Atom, System], pairs: Pairs[Atom],
           energy: Out[Real, Atom], total: Out[Real, System]):
    b = atoms.of(i)
"""
NAMES = ("Array", "Batch", "Int", "Mat3", "Out", "Pairs", "Real", "Vec3")
SMOOTH = ("positions", "charges", "table", "scale", "cell")


class Author:
    """Writes functions whose numbers stay of order one, and whose conditions are no edges of their values."""

    def __init__(self, seed: int) -> None:
        self.rng, self.lines, self.numbers = np.random.default_rng(seed), [], itertools.count()

    def one(self, *of: Any) -> Any:
        return of[self.rng.integers(len(of))]

    def real(self, names: list[str], depth: int = 0) -> str:
        if depth > 3 or self.rng.random() < 0.2:
            return self.one(*names, *names, f"{self.rng.uniform(-2, 2):.3f}", str(self.rng.integers(1, 4)), "order")
        x, y, z = (self.real(names, depth + 1) for _ in range(3))
        return self.one(
            f"({x} + {y})", f"({x} - {y})", f"{x} - ({y} - {z})", f"sin({x}) * {y}", f"tanh({x} * {y})",
            f"-tanh({x}) ** 2", f"exp(-({x}) ** 2)", f"({x}) / (1 + ({y}) ** 2)", f"sqrt(1.5 + cos({x}))",
            f"(2 + sin({x})) ** -{self.one(1, 2, 3)}", f"(tanh({x}) if {self.condition(names)} else cos({y}))",
            f"erfc(tanh({x}))", f"max(tanh({x}), sin({y}) - 3)", f"abs(3 + tanh({x}))", f"1 / (2 + cos({x}))",
            f"order * tanh({x}) / 2", f"tanh({x}) * {y} / 3",
        )  # fmt: skip

    def condition(self, names: list[str]) -> str:
        x, low, high = self.one(*names), *sorted(self.rng.uniform(-1, 1, 2))
        return self.one(
            f"{x} > {low:.3f}", f"{low:.3f} < {x} <= {high:.3f}", f"not {x} < {low:.3f} and order > 2",
            f"order == 3 or {x} < {high:.3f}", f"({x} < {low:.3f} or {x} > {high:.3f})",
        )  # fmt: skip

    def let(self, names: list[str], indent: str) -> None:
        name = f"x{next(self.numbers)}"
        self.lines.append(f"{indent}{name} = {self.real(names)}")
        names.append(name)

    def text(self, seed: int) -> str:
        outside = ["charges[i]", "scale[b]", "cutoff"]
        for _ in range(self.rng.integers(0, 3)):
            self.let(outside, "    ")
        self.lines.append(f"    e = {self.one('0.0', '0', self.real(outside))}")
        many = self.rng.random() < 0.5
        if many:
            self.lines.append("    s = 0.0")
        self.lines += ["    for j, shift in pairs.row(i):", "        d = positions[j] - positions[i] + shift @ cell[b]"]
        self.lines.append("        r = length(d)")
        if self.rng.random() < 0.4:
            self.lines += ["        if r >= cutoff:", "            continue"]
        inside = [*outside, "charges[j]", "r", "d.x" if self.rng.random() < 0.3 else "dot(d, d)"]
        for _ in range(self.rng.integers(0, 4)):
            self.let(inside, "        ")
        if self.rng.random() < 0.3:
            self.lines += ["        w = 0.0", "        for c in Feature:", "            w += table[i, c] * table[j, c]"]
            inside.append("w")
        term = self.one("e += {}", "e -= {}", "if {c}:\n            e += {}\n        else:\n            e -= {}")
        self.lines.append("        " + term.format(self.real(inside), self.real(inside), c=self.condition(inside)))
        if many:
            self.lines.append(f"        s += {self.real(inside)}")
        self.lines.append(f"    energy[i] = {self.one('e', 'e / 2', 'tanh(e) * charges[i]')}{' - s' if many else ''}")
        self.lines.append(f"    total[b] += {self.one('e', 'e ** 2', '-e / 3')}")
        return HEAD.format(seed=seed) + "\n".join(self.lines) + "\n"


class Rows:
    """A batch of one system, and a list, as plain Python goes through them."""

    def __init__(self, ptr: np.ndarray, others: np.ndarray, shifts: np.ndarray) -> None:
        self.ptr, self.others, self.shifts = ptr, others, shifts

    def of(self, i: int) -> int:
        return 0

    def row(self, i: int) -> Any:
        span = slice(self.ptr[i], self.ptr[i + 1])
        return zip(self.others[span].tolist(), self.shifts[span].astype(float))


class Vector(np.ndarray):
    x = property(lambda self: float(self[0]))


def system(seed: int) -> dict[str, Any]:
    rng, n = np.random.default_rng(seed), 7
    pairs = [
        (i, j, s, *t)
        for i, j in itertools.product(range(n), repeat=2)
        for s, *t in [(0, 0, 0), (1, 0, -1), (-1, 0, 1)]
        if (i != j or s != 0) and (i + j + abs(s)) % 3
    ]
    rows = np.array(sorted(pairs), np.int32)
    ptr = np.searchsorted(rows[:, 0], np.arange(n + 1)).astype(np.int32)
    smooth = {"positions": rng.uniform(-1, 1, (n, 3)), "charges": rng.uniform(-1, 1, n)}
    smooth |= {
        "table": rng.uniform(-1, 1, (n, 3)),
        "scale": rng.uniform(0.5, 1.5, 1),
        "cell": rng.uniform(-0.3, 0.3, (1, 3, 3)),
    }
    lists = (rows[:, :2].T.copy(), ptr, rows[:, 2:].copy())
    return {**smooth, "cutoff": 1.3, "order": int(rng.integers(1, 5)), "pairs": lists}


def plainly(text: str, name: str, given: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The function as Python runs it."""
    scope: dict[str, Any] = dict.fromkeys(NAMES) | {"Feature": range(given["table"].shape[1])}
    scope |= {f: getattr(math, f) for f in ("sin", "cos", "tanh", "exp", "sqrt", "erfc")}
    scope |= {"dot": lambda u, v: float(np.dot(u, v)), "length": lambda u: float(np.sqrt(np.dot(u, u)))}
    exec("from __future__ import annotations\n" + text, scope)
    energy, total, (lists, ptr, shifts) = np.zeros(len(given["charges"])), np.zeros(1), given["pairs"]
    rows = Rows(ptr, lists[1], shifts)
    for i in range(len(energy)):
        scope[name](i, given["positions"].view(Vector), given["charges"], given["table"], given["scale"], given["cell"],
                    given["cutoff"], given["order"], rows, rows, energy, total)  # fmt: skip
    return energy, total


@pytest.mark.parametrize("first", range(0, 240, 24))
def test_kernels_written_by_chance(first: int) -> None:
    for seed in range(first, first + 24):
        text, given = Author(seed).text(seed), system(seed)
        scope: dict[str, Any] = {
            name: getattr(mk, name) for name in (*NAMES, "sin", "cos", "tanh", "exp", "sqrt", "erfc")
        }
        scope |= {"dot": mk.dot, "length": mk.length, "Atom": Atom, "System": System, "Feature": Feature}
        exec("from __future__ import annotations\n" + text, scope)
        name = f"by_chance_{seed}"
        made = mk.kernel(source=text)(scope[name])
        smooth = [given[k] for k in SMOOTH]
        with mk.Tape() as tape:
            energy, total = made(**given)
        # Plain Python rounds as often, and sums in another order.
        for got, want in zip((energy, total), plainly(text, name, given)):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11, err_msg=text)
        gradients = tape.gradient(energy, smooth)
        rng, step = np.random.default_rng(seed), 1e-5
        along = [rng.normal(size=x.shape) for x in smooth]
        ends = []
        for sign in (1, -1):
            moved = dict(zip(SMOOTH, (x + sign * step * u for x, u in zip(smooth, along))))
            ends.append(plainly(text, name, given | moved)[0].sum())
        slope = sum((g * u).sum() for g, u in zip(gradients, along))
        size = sum(np.abs(g * u).sum() for g, u in zip(gradients, along))
        assert abs((ends[0] - ends[1]) / (2 * step) - slope) < 1e-6 * (1 + size), text
        parts = [part for *_, part in _native.kernel_parts(made.source) if "_value_" in part or "_gradient_" in part]
        assert all([_llvm.install(made.source, part, False) for part in parts[:3]])
        with mk.Tape() as tape:
            again = made(**given)
        for x, y in zip((energy, total, *gradients), (*again, *tape.gradient(again[0], smooth)), strict=True):
            np.testing.assert_array_equal(x, y, err_msg=text)
