"""Kernels in Python as source of the kernel language."""

import math
import textwrap

import numpy as np
from marked import Atom, System, statements, translated

import madelung.kernels as mk
from madelung.kernels import Array, Batch, Mat3, Out, Pairs, Real, Vec3, Zero, erfc, length


@mk.func
def screened(r: Real, alpha: Real) -> Real:
    return erfc(alpha * r) / r


@mk.kernel(fast=[("positions", "strain")])
def real_space(
    i: Atom,
    positions: Array[Vec3, Atom],
    charges: Array[Real, Atom],
    cell: Array[Mat3, System],
    alpha: Array[Real, System],
    strain: Zero[Mat3, System],
    cutoff: Real,
    atoms: Batch[Atom, System],
    pairs: Pairs[Atom],
    energy: Out[Real, Atom],
):
    """Real-space part of the Ewald sum."""
    b = atoms.of(i)
    e = 0.0
    for j, shift in pairs.row(i):
        d = positions[j] - positions[i] + shift @ cell[b]
        d = d + d @ strain[b]
        r = length(d)
        if r < cutoff:
            e += charges[j] * screened(r, alpha[b])
    energy[i] = 0.5 * charges[i] * e


REAL_SPACE = """\
#[func]
fn screened(r: Real, alpha: Real) -> Real {
    erfc(alpha * r) / r
}

#[kernel(fast(positions, strain))]
fn real_space(
    i: Atom,
    positions: &[Vec3; Atom],
    charges: &[Real; Atom],
    cell: &[Mat3; System],
    alpha: &[Real; System],
    strain: &[Zero<Mat3>; System],
    cutoff: Real,
    atoms: &Batch<Atom, System>,
    pairs: &Pairs<Atom>,
    energy: &mut [Real; Atom],
) {
    let b = atoms.of(i);
    let mut e = 0.0;
    for (j, shift) in pairs.row(i) {
        let d = positions[j] - positions[i] + shift * cell[b];
        let d = d + d * strain[b];
        let r = length(d);
        if r < cutoff {
            e += charges[j] * screened(r, alpha[b]);
        }
    }
    energy[i] = 0.5 * charges[i] * e;
}
"""


def test_a_kernel():
    assert real_space.source == REAL_SPACE
    assert (real_space.__name__, real_space.__doc__) == ("real_space", "Real-space part of the Ewald sum.")


def test_parameters():
    source = translated(
        """\
        def k(i: Atom, a: Real, b: Int, c: float, d: int, e: Array[Mat3], f: Array[IVec3, Atom], g: Array[Int, Atom],
              h: Array[Real, Atom, Feature], t: Array[Real, Element, Element],
              z: Zero[Vec3, Atom], y: Array[Zero[Mat3], System], y_: Array[Vec3, Atom],
              m: Map[Atom, Element], mesh: Mesh[System, Node, Wave], p: Pairs[Atom, Point, Edge],
              q: HashGrid[Atom, Point],
              o: Out[Vec3], w: Out[Real, Atom, Feature], /):
            for j, shift in q.query(y_[i], a):
                pass
            o += f[i] @ e
        """
    )
    lines = [line.strip().rstrip(",") for line in source.split(") {")[0].splitlines()[2:]]
    assert lines == [
        "i: Atom",
        "a: Real",
        "b: i32",
        "c: Real",
        "d: i32",
        "e: &Mat3",
        "f: &[IVec3; Atom]",
        "g: &[i32; Atom]",
        "h: &[[Real; Feature]; Atom]",
        "t: &[[Real; Element]; Element]",
        "z: &[Zero<Vec3>; Atom]",
        "y: &[Zero<Mat3>; System]",
        "y_: &[Vec3; Atom]",
        "m: &Map<Atom, Element>",
        "mesh: &Mesh<System, Node, Wave>",
        "p: &Pairs<Atom, Point, Edge>",
        "q: &HashGrid<Atom, Point>",
        "o: &mut Vec3",
        "w: &mut [[Real; Feature]; Atom]",
    ]


def test_options():
    source = "def k(i: Atom, x: Array[Real, Atom], y: Out[Real, Atom]):\n    y[i] = x[i]\n"

    def attribute(**options):
        return translated(source, **options).splitlines()[0]

    assert attribute() == "#[kernel]"
    assert attribute(fast=["x"]) == "#[kernel(fast(x))]"
    assert attribute(fast=[("x",)], scatter=True, small=True) == "#[kernel(fast(x), scatter, small)]"
    assert attribute(adjoint=False) == "#[kernel(no_adjoint)]"


def test_statements():
    assert statements(
        """\
        'A string alone is a comment.'
        b = atoms.of(i)
        e = total_2 = 0
        m = -1e30
        a = [0] * 3
        for j, _ in pairs.row(i):
            if charges[j] <= 0 and not charges[j] == -1:
                continue
            if g > 2:
                e += 1
            elif g > 1:
                e -= charges[j]
            else:
                pass
            m = max(m, charges[j])
            for k in range(3):
                a[k] += charges[j] * k
        for l in atoms.members(b):
            total_2 += charges[l] if l != i else 0
        f = 2 * e
        f *= 3
        x: Real = f
        energy[i] = e + a[0] + m + x
        one += e
        total[b] += total_2
        """
    ) == textwrap.dedent(
        """\
        let b = atoms.of(i);
        let mut e = 0.0;
        let mut total_2 = 0.0;
        let mut m = -1e+30;
        let mut a = [0.0; 3];
        for (j, _) in pairs.row(i) {
            if charges[j] <= 0.0 && !(charges[j] == -1.0) {
                continue;
            }
            if g > 2.0 {
                e += 1.0;
            } else if g > 1.0 {
                e -= charges[j];
            } else {
            }
            m = max(m, charges[j]);
            for k in 0..3 {
                a[k] += charges[j] * (k as Real);
            }
        }
        for l in atoms.members(b) {
            total_2 += if l != i { charges[l] } else { 0.0 };
        }
        let f = 2.0 * e;
        let f = f * 3.0;
        let x: Real = f;
        energy[i] = e + a[0] + m + x;
        *one += e;
        total[b] += total_2;
        """
    )


def test_channels_tables_grids_and_meshes():
    parameters = (
        "i: Atom, x: Array[Vec3, Atom], f: Array[Real, Atom, Feature], t: Array[Real, Element, Element], kind: "
        "Map[Atom, Element], "
        "grid: HashGrid[Atom, Point, Edge], mesh: Mesh[System, Node], systems: Batch[Atom, System], v: Array[Real, "
        "Node], radius: Real, out: "
        "Out[Real, Atom, Feature], w: Out[Real, Edge], e: Out[Real, Atom]"
    )
    assert statements(
        """\
        s = [0.0] * Feature
        for j, shift, p in grid.query(x[i], radius):
            w[p] = t[kind.of(i), kind.of(i)]
            for c in Feature:
                s[c] += f[i, c]
        u = 0.0
        for node, weight in mesh.around(systems.of(i), x[i]):
            u += weight * v[node]
        for c in Feature:
            out[i, c] = s[c]
        e[i] = u
        """,
        parameters,
    ) == textwrap.dedent(
        """\
        let mut s = [0.0; Feature];
        for (j, shift, p) in grid.query(x[i], radius) {
            w[p] = t[kind.of(i)][kind.of(i)];
            for c in Feature {
                s[c] += f[i][c];
            }
        }
        let mut u = 0.0;
        for (node, weight) in mesh.around(systems.of(i), x[i]) {
            u += weight * v[node];
        }
        for c in Feature {
            out[i][c] = s[c];
        }
        e[i] = u;
        """
    )


def value(expression, scope=None, **options):
    """An expression in the kernel language."""
    end = "" if options.get("adjoint") is False else "\nenergy[i] = 0.0"
    return statements(f"value = {expression}{end}", scope=scope, **options).splitlines()[0][len("let value = ") : -1]


class Units:
    coulomb = 14.399645478425667


def test_expressions():
    cases = {
        # Python's order of operators.
        "g - (g - 1.5) * 2.0": "g - (g - 1.5) * 2.0",
        "g - 1.5 - 2.0": "g - 1.5 - 2.0",
        "g - (1.5 - g)": "g - (1.5 - g)",
        "g / (2.5 * g)": "g / (2.5 * g)",
        "-g * 2.0": "-g * 2.0",
        "-(g * 2.0)": "-(g * 2.0)",
        "+g": "g",
        # Powers: of a whole number a product.
        "g ** 6": "pow(g, 6)",
        "-g ** 2": "-pow(g, 2)",
        "g ** -6": "1.0 / pow(g, 6)",
        "g ** 0.5": "pow(g, 0.5)",
        "g ** 100": "pow(g, 100.0)",
        "pow(g, 3)": "pow(g, 3)",
        "g ** n": "pow(g, n as Real)",
        # Integers: reals where they meet reals, as in Python.
        "1 / g": "1.0 / g",
        "g * n": "g * (n as Real)",
        "1 / 3": "1.0 / 3.0",
        "n / 2": "(n as Real) / 2.0",
        "n + 2 * n": "n + 2 * n",
        "-n": "0 - n",
        "float(n)": "n as Real",
        "float(g)": "g",
        "sqrt(2)": "sqrt(2.0)",
        "g // 2": "floor(g / 2.0)",
        "g % 2": "g - 2.0 * floor(g / 2.0)",
        # Conditions.
        "1.0 if g < 2 <= cutoff else 0": "if g < 2.0 && 2.0 <= cutoff { 1.0 } else { 0.0 }",
        "1.0 if n >= 2 or not n != 3 else 0.0": "if !(n < 2) || !(!(n == 3)) { 1.0 } else { 0.0 }",
        "1.0 if (g < 1.0 or g > 2.0) and g > cutoff else 0.0": "if (g < 1.0 || g > 2.0) && g > cutoff { 1.0 } else { "
        "0.0 }",
        "(1.0 if g < 1.0 else 2.0) * g": "(if g < 1.0 { 1.0 } else { 2.0 }) * g",
        # Vectors and matrices.
        "positions[i] @ cell[atoms.of(i)]": "positions[i] * cell[atoms.of(i)]",
        "positions[i].x": "positions[i].x",
        "(positions[i] - positions[i]).y": "(positions[i] - positions[i]).y",
        "Vec3(1, g, 0)": "vec3(1.0, g, 0.0)",
        "row(cell[atoms.of(i)], 0)": "row(cell[atoms.of(i)], 0)",
        "[g, 2, 1.5]": "[g, 2.0, 1.5]",
        "max(g, 1, cutoff)": "max(max(g, 1.0), cutoff)",
    }
    for expression, expected in cases.items():
        assert value(expression) == expected, expression


def test_the_scope_around():
    sigma = 3.4
    scope = {"math": math, "np": np, "N": 6, "x32": np.float32(0.5), "K": np.int64(3), "units": Units, "sigma": sigma}
    cases = {
        "sigma * g": "3.4 * g",
        "N * g": "6.0 * g",
        "g ** N": "pow(g, 6)",
        "g ** -N": "1.0 / pow(g, 6)",
        "x32": "0.5",
        "n + K": "n + 3",
        "units.coulomb": "14.399645478425667",
        "math.pi * g": "PI * g",
        "PI": "PI",
        "math.sqrt(g)": "sqrt(g)",
        "np.arctan2(g, 1)": "atan2(g, 1.0)",
        "np.exp(-g)": "exp(-g)",
        "math.fabs(g)": "abs(g)",
        "abs(g)": "abs(g)",
        "-N": "0 - 6",
        "-sigma": "-3.4",
    }
    for expression, expected in cases.items():
        assert value(expression, scope) == expected, expression
    # Later changes of the scope do not change a kernel.
    parameter = 2.0

    @mk.kernel
    def k(i: Atom, x: Array[Real, Atom], y: Out[Real, Atom]):
        y[i] = parameter * x[i]

    before = k.source
    parameter = 3.0
    assert "2.0 * x[i]" in before
    assert k.source == before


def test_without_adjoint():
    parameters = (
        "i: Atom, x: Array[Real, Atom], kinds: Array[Int, Atom], width: Array[Real], most: Array[Int], n: Int, counts: "
        "Out[Int, System], ids: Out[Int64, Atom], one: Out[Int], two: Out[Real], pairs: Pairs[Atom]"
    )
    assert statements(
        """\
        c = int(floor(x[i] / width))
        while c < 0:
            c += len(counts)
        while True:
            if c < 3:
                break
            c = c // 2
        last = kinds[i] % most
        two = 0.0
        for j, shift in pairs.row(i):
            if shift.x == 0 and isfinite(x[j]):
                continue
            v = Vec3(shift)
            two = two + 2 * n + v.x
            last = last + 1
        c *= n
        c <<= 2
        before = atomic_add(counts[c & 7], 1)
        if before >= 1000 or False:
            raise_(CAPACITY, counts)
            return
        ids[i] = int(last / 2) + (1 if c > 2 else 0)
        one = int(i)
        raise_(INDEX)
        """,
        parameters,
        {"isfinite": math.isfinite},
        adjoint=False,
    ) == textwrap.dedent(
        """\
        let mut c = floor(x[i] / width) as i64;
        while c < 0 {
            c += counts.len();
        }
        loop {
            if c < 3 {
                break;
            }
            c = (c - (c % 2 + 2) % 2) / 2;
        }
        let mut last = (kinds[i] % *most + *most) % *most;
        *two = 0.0;
        for (j, shift) in pairs.row(i) {
            if shift.x == 0 && is_finite(x[j]) {
                continue;
            }
            let v = shift as Vec3;
            *two = *two + ((2 * n) as Real) + v.x;
            last = last + 1;
        }
        c *= n;
        c = c << 2;
        let before = atomic_add(counts[c & 7], 1);
        if before >= 1000 || false {
            raise(CAPACITY, counts);
            return;
        }
        ids[i] = (((last as Real) / 2.0) as i64) + (if c > 2 { 1 } else { 0 });
        *one = i as i64;
        raise(INDEX);
        """
    )
