"""Kernels written by chance, each in Python and by hand in the kernel language, and numbers for them."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

import madelung.kernels as mk
from madelung.kernels import Real, exp

Atom, System, Feature, Element, Node, Site = mk.dims("Atom System Feature Element Node Site")
PYTHON = """
def by_chance_{seed}(i: Atom, positions: Array[Vec3, Atom], charges: Array[Real, Atom],
           table: Array[Real, Atom, Feature], dipoles: Array[Vec3, Atom, Feature],
           scale: Array[Real, System], cell: Array[Mat3, System], cutoff: Real,
           order: Int, atoms: Batch[Atom, System], pairs: Pairs[Atom], strength: Array[Real, Element, Element],
           kinds: Map[Atom, Element], field: Array[Real, Node], mesh: Mesh[System, Node], sites: Array[Vec3, Site],
           of_sites: Batch[Site, System], {near}energy: Out[Real, Atom],
           total: Out[Real, System]):
    b = atoms.of(i)
"""
RUST = """
#[func]
fn bell(u: Real, v: Real) -> Real {{ exp(-0.2 * u * u) * v }}
#[kernel(clusters)]
fn by_chance_{seed}(i: Atom, positions: &[Vec3; Atom], charges: &[Real; Atom], table: &[[Real; Feature]; Atom],
           dipoles: &[[Vec3; Feature]; Atom],
           scale: &[Real; System], cell: &[Mat3; System], cutoff: Real, order: i32, atoms: &Batch<Atom, System>,
           pairs: &Pairs<Atom>, strength: &[[Real; Element]; Element], kinds: &Map<Atom, Element>, field: &[Real; Node],
           mesh: &Mesh<System, Node>, sites: &[Vec3; Site], of_sites: &Batch<Site, System>, {near}
           energy: &mut [Real; Atom], total: &mut [Real; System]) {{
    let b = atoms.of(i);
"""
NAMES = ("Array", "Batch", "HashGrid", "Int", "Map", "Mat3", "Mesh", "Out", "Pairs", "Real", "Vec3")
DIMS = {dim.__name__: dim for dim in (Atom, System, Feature, Element, Node, Site)}
NEAR = ("near: HashGrid[Atom, Site], ", "near: &HashGrid<Atom, Site>,")
FUNCTIONS = ("sin", "cos", "tanh", "exp", "sqrt", "erfc")
SMOOTH = ("positions", "charges", "table", "dipoles", "scale", "cell", "strength", "field", "sites")

# How tightly operators of Python bind.
CHOICE, SUM, PRODUCT, SIGN, POWER, ATOM = range(6)


@mk.func
def bell(u: Real, v: Real) -> Real:
    return exp(-0.2 * u * u) * v


class Term(NamedTuple):
    """An expression: in Python, with as few brackets as it needs, and in the kernel language, with all."""

    python: str
    binds: int
    rust: str
    is_integer: bool = False
    number: int | None = None
    """Of integers that are written as numbers, which Python computes with as it reads them."""

    def within(self, binds: int) -> str:
        """In Python, as an operand of what binds so tightly."""
        return self.python if self.binds >= binds else f"({self.python})"

    @property
    def real(self) -> str:
        """In the kernel language, where a real is expected."""
        if not self.is_integer:
            return self.rust
        return f"({self.rust} as Real)" if self.number is None else f"({self.number}.0)"

    def __add__(self, other: Term) -> Term:
        return self._both("+", other, SUM)

    def __sub__(self, other: Term) -> Term:
        return self._both("-", other, SUM)

    def __mul__(self, other: Term) -> Term:
        return self._both("*", other, PRODUCT)

    def __truediv__(self, other: Term) -> Term:
        python = f"{self.within(PRODUCT)} / {other.within(SIGN)}"
        return Term(python, PRODUCT, f"({self.real} / {other.real})")

    def __neg__(self) -> Term:
        python = f"-{self.within(POWER)}"
        if self.number is not None:
            return integer(-self.number, python, SIGN)
        return Term(python, SIGN, f"(0 - {self.rust})" if self.is_integer else f"(-{self.rust})")

    def __pow__(self, n: int) -> Term:
        python, rust = f"{self.within(ATOM)} ** {n}", f"pow({self.real}, {abs(n)})"
        if self.number is not None and n > 0:
            return integer(self.number**n, python, POWER)
        return Term(python, POWER, rust if n > 0 else f"(1.0 / {rust})")

    def _both(self, operator: str, other: Term, binds: int) -> Term:
        is_integer = self.is_integer and other.is_integer
        x, y = (self.rust, other.rust) if is_integer else (self.real, other.real)
        python = f"{self.within(binds)} {operator} {other.within(binds + 1)}"
        if self.number is not None and other.number is not None:
            number = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}[operator](self.number, other.number)
            return integer(number, python, binds)
        return Term(python, binds, f"({x} {operator} {y})", is_integer)


def has_grid(seed: int) -> bool:
    """Whether a kernel queries one, as a third of them do: a grid without a query is an error."""
    return seed % 3 == 0


def name(python: str) -> Term:
    """A name, an element or a component: written alike in both."""
    return Term(python, ATOM, python)


def integer(n: int, python: str | None = None, binds: int = ATOM) -> Term:
    return Term(python or str(n), binds, str(n) if n >= 0 else f"(0 - {-n})", True, int(n))


def real(x: float) -> Term:
    text = f"{x:.3f}"
    return Term(text, SIGN if x < 0 else ATOM, f"({text})")


def call(function: str, *args: Term) -> Term:
    python, rust = ", ".join(x.python for x in args), ", ".join(x.real for x in args)
    return Term(f"{function}({python})", ATOM, f"{function}({rust})")


class Author:
    """Writes functions whose numbers stay of order one, and whose conditions are no edges of their values."""

    def __init__(self, seed: int) -> None:
        self.rng, self.numbers, self.seed = np.random.default_rng(seed), itertools.count(), seed
        python, rust = NEAR if has_grid(seed) else ("", "")
        self.python, self.rust = [PYTHON.format(seed=seed, near=python)], [RUST.format(seed=seed, near=rust)]
        self.depth = 1
        self._body()
        self.rust.append("}")

    def one(self, *of: Any) -> Any:
        return of[self.rng.integers(len(of))]

    def line(self, python: str, rust: str) -> None:
        self.python.append("    " * self.depth + python + "\n")
        self.rust.append("    " * self.depth + rust + "\n")

    def open(self, python: str, rust: str) -> None:
        self.line(f"{python}:", f"{rust} {{")
        self.depth += 1

    def close(self) -> None:
        self.depth -= 1
        self.rust.append("    " * self.depth + "}\n")

    def term(self, names: list[Term], depth: int = 0) -> Term:
        if depth > 3 or self.rng.random() < 0.2:
            number = integer(self.rng.integers(1, 4))
            return self.one(*names, *names, real(self.rng.uniform(-2, 2)), number, ORDER)
        x, y, z = (self.term(names, depth + 1) for _ in range(3))
        n = self.one(1, 2, 3)
        one, two, three = map(integer, (1, 2, 3))
        return self.one(
            x + y, x - y, x - (y - z), call("sin", x) * y, call("tanh", x * y), -(call("tanh", x) ** 2),
            call("exp", -(x ** 2)), x / (one + y ** 2), call("sqrt", real(1.5) + call("cos", x)),
            (two + call("sin", x)) ** -n, self.choice(call("tanh", x), call("cos", y), names),
            call("erfc", call("tanh", x)), call("max", call("tanh", x), call("sin", y) - three),
            call("abs", three + call("tanh", x)), one / (two + call("cos", x)), ORDER * call("tanh", x) / two,
            call("tanh", x) * y / three, call("bell", x, call("cos", y)),
        )  # fmt: skip

    def choice(self, x: Term, y: Term, names: list[Term]) -> Term:
        python, rust = self.condition(names)
        text = f"{x.within(SUM)} if {python} else {y.within(SUM)}"
        return Term(text, CHOICE, f"(if {rust} {{ {x.real} }} else {{ {y.real} }})")

    def condition(self, names: list[Term]) -> tuple[str, str]:
        x, (low, high) = self.one(*names), map(real, sorted(self.rng.uniform(-1, 1, 2)))
        p, r, (a, b), (c, d) = x.within(SUM), x.real, (low.python, high.python), (low.rust, high.rust)
        return self.one(
            (f"{p} > {a}", f"{r} > {c}"),
            (f"{a} < {p} <= {b}", f"{c} < {r} && {r} <= {d}"),
            (f"not {p} < {a} and order > 2", f"!({r} < {c}) && 2 < order"),
            (f"order == 3 or {p} < {b}", f"order == 3 || {r} < {d}"),
            (f"({p} < {a} or {p} > {b})", f"({r} < {c} || {r} > {d})"),
        )

    def let(self, names: list[Term]) -> None:
        found, value = f"x{next(self.numbers)}", self.term(names)
        self.line(f"{found} = {value.python}", f"let {found} = {value.rust};")
        if not value.is_integer and self.rng.random() < 0.2:
            # Another value of the name.
            self.line(f"{found} = 2 - {found} / 3", f"let {found} = 2.0 - {found} / 3.0;")
        names.append(name(found)._replace(is_integer=value.is_integer))

    def add(self, to: str, value: Term, sign: str = "+") -> None:
        self.line(f"{to} {sign}= {value.python}", f"{to} {sign}= {value.real};")

    def sum(self, to: str, first: Term) -> None:
        self.line(f"{to} = {first.python}", f"let mut {to} = {first.real};")

    def of_kinds(self, i: str, j: str) -> Term:
        python, rust = (f"strength[kinds.of({i}){between}kinds.of({j})]" for between in (", ", "]["))
        return Term(python, ATOM, rust)

    def _terms(self, inside: list[Term]) -> None:
        way = self.rng.integers(3)
        if way < 2:
            self.add("e", self.term(inside), "+-"[way])
            return
        python, rust = self.condition(inside)
        self.open(f"if {python}", f"if {rust}")
        self.add("e", self.term(inside))
        self.close()
        self.open("else", "else")
        self.add("e", self.term(inside), "-")
        self.close()

    def _inner(self, inside: list[Term]) -> None:
        """Loops over channels and over numbers."""
        if self.rng.random() < 0.3:
            self.sum("w", Term("0.0", ATOM, "0.0"))
            self.open("for c in Feature", "for c in Feature")
            self.line("w += table[i, c] * table[j, c]", "w += table[i][c] * table[j][c];")
            if self.seed % 2:
                self.line("w += dot(dipoles[i, c], dipoles[j, c])", "w += dot(dipoles[i][c], dipoles[j][c]);")
            self.close()
            inside.append(name("w"))
        if self.rng.random() < 0.3:
            m = name("m")._replace(is_integer=True)
            self.sum("t", Term("0", ATOM, "0.0"))
            self.open("for m in range(1, order)", "for m in 1..order")
            self.add("t", call("tanh", self.term([*inside, m])) / (m + integer(1)))
            self.close()
            inside.append(name("t"))

    def _around(self, outside: list[Term]) -> None:
        """Loops over the nodes of a mesh, and over points within a radius, where terms vanish."""
        if self.rng.random() < 0.3:
            self.sum("v", Term("0.0", ATOM, "0.0"))
            loop = "in mesh.around(b, positions[i])"
            self.open(f"for node, weight {loop}", f"for (node, weight) {loop}")
            self.add("v", name("weight") * call("tanh", self.term([*outside, name("field[node]")], 3)))
            self.close()
            outside.append(name("v"))
        if not has_grid(self.seed):
            return
        self.sum("g", Term("0", ATOM, "0.0"))
        loop = "in near.query(positions[i], cutoff)"
        self.open(f"for k, image {loop}", f"for (k, image) {loop}")
        vector = "sites[k] - positions[i] + image {} cell[b]"
        self.line(f"u = {vector.format('@')}", f"let u = {vector.format('*')};")
        inside = integer(1) - name("dot(u, u)") / name("cutoff") ** 2
        self.add("g", inside ** self.one(2, 3) * call("tanh", self.term([*outside, name("dot(u, u)")], 3)))
        self.close()
        outside.append(name("g"))

    def _body(self) -> None:
        outside = [name("charges[i]"), name("scale[b]"), name("cutoff"), self.of_kinds("i", "i")]
        self._around(outside)
        for _ in range(self.rng.integers(0, 3)):
            self.let(outside)
        self.sum("e", self.one(Term("0.0", ATOM, "0.0"), Term("0", ATOM, "0.0"), self.term(outside)))
        many = self.rng.random() < 0.5
        if many:
            self.sum("s", Term("0.0", ATOM, "0.0"))
        self.open("for j, shift in pairs.row(i)", "for (j, shift) in pairs.row(i)")
        vector = "positions[j] - positions[i] + shift {} cell[b]"
        self.line(f"d = {vector.format('@')}", f"let d = {vector.format('*')};")
        self.line("r = length(d)", "let r = length(d);")
        if self.rng.random() < 0.4:
            self.open("if r >= cutoff", "if r >= cutoff")
            self.line("continue", "continue;")
            self.close()
        inside = [*outside, name("charges[j]"), self.of_kinds("i", "j"), name("r")]
        inside.append(name("d.x" if self.rng.random() < 0.3 else "dot(d, d)"))
        for _ in range(self.rng.integers(0, 4)):
            self.let(inside)
        self._inner(inside)
        self._terms(inside)
        if many:
            self.add("s", self.term(inside))
        self.close()
        e, s = name("e"), name("s")
        energy = self.one(e, e / integer(2), call("tanh", e) * name("charges[i]"))
        energy = energy - s if many else energy
        self.line(f"energy[i] = {energy.python}", f"energy[i] = {energy.real};")
        self.add("total[b]", self.one(e, e**2, -e / integer(3)))

    @property
    def text(self) -> str:
        """The function in Python."""
        return "".join(self.python)

    @property
    def source(self) -> str:
        """The kernel in the kernel language."""
        return "".join(self.rust)

    def kernel(self) -> mk.Kernel:
        """The kernel that is made of the function."""
        scope: dict[str, Any] = {name: getattr(mk, name) for name in (*NAMES, *FUNCTIONS, "dot", "length")}
        scope |= {**DIMS, "bell": bell}
        exec("from __future__ import annotations\n" + self.text, scope)
        return mk.kernel(source=self.text)(scope[f"by_chance_{self.seed}"])

    def plainly(self, given: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """The function as Python runs it."""
        scope: dict[str, Any] = dict.fromkeys(NAMES) | {"Feature": range(given["table"].shape[1])}
        scope |= {f: getattr(math, f) for f in FUNCTIONS}
        scope |= {"dot": lambda u, v: float(np.dot(u, v)), "length": lambda u: float(np.sqrt(np.dot(u, u)))}
        scope |= {"bell": lambda u, v: math.exp(-0.2 * u * u) * v}
        exec("from __future__ import annotations\n" + self.text, scope)
        energy, total, (lists, ptr, shifts, *_) = np.zeros(len(given["charges"])), np.zeros(1), given["pairs"]
        rows, function = Rows(ptr, lists[1], shifts), scope[f"by_chance_{self.seed}"]
        positions = given["positions"].view(Vector)
        near = [Near(given["near"].points)] if "near" in given else []
        for i in range(len(energy)):
            function(i, positions, given["charges"], given["table"], given["dipoles"], given["scale"],
                     given["cell"], given["cutoff"], given["order"], rows, rows, given["strength"],
                     Kinds(given["kinds"]), given["field"], Nodes(*given["mesh"]),
                     given["sites"].view(Vector), rows, *near, energy, total)  # fmt: skip
        return energy, total


ORDER = name("order")._replace(is_integer=True)


class Rows:
    """A batch of one system, and a list, as plain Python goes through them."""

    def __init__(self, ptr: np.ndarray, others: np.ndarray, shifts: np.ndarray) -> None:
        self.ptr, self.others, self.shifts = ptr, others, shifts

    def of(self, i: int) -> int:
        return 0

    def row(self, i: int) -> Any:
        span = slice(self.ptr[i], self.ptr[i + 1])
        return zip(self.others[span].tolist(), self.shifts[span].astype(float))


class Kinds(NamedTuple):
    """The element of each row."""

    elements: np.ndarray

    def of(self, i: int) -> int:
        return int(self.elements[i])


class Near(NamedTuple):
    """Points without images."""

    points: np.ndarray

    def query(self, x: np.ndarray, radius: float) -> Any:
        d = np.asarray(self.points - x)
        return ((k, np.zeros(3)) for k in np.flatnonzero((d**2).sum(-1) <= radius**2).tolist())


class Nodes(NamedTuple):
    """A mesh: its sizes and the order of its splines."""

    k1: int
    k2: int
    k3: int
    order: int

    def around(self, b: int, u: np.ndarray) -> Any:
        """All nodes: images of a node have one weight, the sum of theirs."""
        axes = [self.weights(k, float(x)) for k, x in zip(self[:3], u)]
        for node in np.ndindex(*self[:3]):
            yield int(np.ravel_multi_index(node, self[:3])), math.prod(w[n] for w, n in zip(axes, node))

    def weights(self, k: int, u: float) -> list[float]:
        return [sum(spline(self.order, k * (u + s) - n) for s in range(-3, 4)) for n in range(k)]


def spline(order: int, x: float) -> float:
    """Cardinal B-spline, by its recursion."""
    if order == 1:
        return float(0 <= x < 1)
    return (x * spline(order - 1, x) + (order - x) * spline(order - 1, x - 1)) / (order - 1)


class Vector(np.ndarray):
    x = property(lambda self: float(self[0]))


def system(seed: int) -> dict[str, Any]:
    """Numbers for a kernel."""
    rng, n, half = np.random.default_rng(seed), 7, seed % 4 == 0
    pairs = [
        (i, j, s, *t)
        for i, j in itertools.product(range(n), repeat=2)
        for s, *t in [(0, 0, 0), (1, 0, -1), (-1, 0, 1)]
        if ((i, 0) < (j, s) if half else (i != j or s != 0)) and (i + j + abs(s)) % 3
    ]
    rows = np.array(sorted(pairs), np.int32)
    ptr = np.searchsorted(rows[:, 0], np.arange(n + 1)).astype(np.int32)
    smooth = {"positions": rng.uniform(-1, 1, (n, 3)), "charges": rng.uniform(-1, 1, n)}
    smooth |= {
        "table": rng.uniform(-1, 1, (n, 3)),
        "scale": rng.uniform(0.5, 1.5, 1),
        "cell": rng.uniform(-0.3, 0.3, (1, 3, 3)),
    }
    smooth |= {"strength": rng.uniform(-1, 1, (2, 2)), "field": rng.uniform(-1, 1, 5 * 4 * 6)}
    smooth["sites"] = rng.uniform(-1, 1, (9, 3))
    lists = (rows[:, :2].T.copy(), ptr, rows[:, 2:].copy(), *[True] * half)
    rest: dict[str, Any] = {"kinds": rng.integers(0, 2, n, np.int32), "mesh": (5, 4, 6, 4)}
    if has_grid(seed):
        rest["near"] = mk.HashGrid(smooth["sites"])
    rest |= {"cutoff": 1.3, "order": int(rng.integers(1, 5)), "pairs": lists}
    smooth["dipoles"] = rng.uniform(-1, 1, (n, 3, 3))
    return {**smooth, **rest}
