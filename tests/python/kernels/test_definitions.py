"""Functions, names and places of definitions of kernels."""

import linecache
import textwrap
from typing import Any

from marked import SCOPE, Atom, translated

import madelung.kernels as mk
from madelung.kernels import Array, Out, Real, Vec3


def test_functions():
    @mk.func
    def inner(x: Real) -> Real:
        y = 2 * x
        return y if x > 0 else 1

    @inner.derivative
    def inner_derivative(x: Real) -> Real:
        return 2.0

    @mk.func
    def switched(r: Real, n: mk.Int, v: Vec3) -> Real:
        """A function with branches."""
        s = r / 2
        if s > 1:
            return 0
        if s > 0.5:
            return inner(s)
        return inner(1) * n + v.x

    @mk.func
    def product(x: Real, y: Real) -> Real:
        return x * y

    @product.derivative
    def product_by_each(x: Real, y: Real) -> tuple[Real, Real]:
        return y, x

    @mk.kernel
    def k(i: Atom, x: Array[Vec3, Atom], y: Out[Real, Atom]):
        y[i] = switched(1, 2, x[i]) + inner(3) + product(1, 2)

    assert k.source == textwrap.dedent(
        """\
        #[func]
        fn inner(x: Real) -> Real {
            let y = 2.0 * x;
            if x > 0.0 { y } else { 1.0 }
        }

        #[derivative(inner)]
        fn inner_derivative(x: Real) -> Real {
            2.0
        }

        #[func]
        fn switched(r: Real, n: i32, v: Vec3) -> Real {
            let s = r / 2.0;
            if s > 1.0 { 0.0 } else { if s > 0.5 { inner(s) } else { inner(1.0) * (n as Real) + v.x } }
        }

        #[func]
        fn product(x: Real, y: Real) -> Real {
            x * y
        }

        #[derivative(product)]
        fn product_derivative(x: Real, y: Real) -> (Real, Real) {
            (y, x)
        }

        #[kernel]
        fn k(
            i: Atom,
            x: &[Vec3; Atom],
            y: &mut [Real; Atom],
        ) {
            y[i] = switched(1.0, 2, x[i]) + inner(3.0) + product(1.0, 2.0);
        }
        """
    )


def test_names():
    source = translated(
        """\
        def k(i: Atom, ε: Array[Real], σ: Array[Real], sigma: Array[Real], type: Array[Real, Atom], box: Array[Real],
              энергия: Out[Real, Atom]):
            é = ε * σ + sigma
            ｘ = é
            энергия[i] = x * type[i] + box
        """,
        fast=[("ε", "type")],
    )
    assert source == textwrap.dedent(
        """\
        #[kernel(fast(epsilon, type_))]
        fn k(
            i: Atom,
            epsilon: &Real,
            sigma_2: &Real,
            sigma: &Real,
            type_: &[Real; Atom],
            box_: &Real,
            eenieergheiya: &mut [Real; Atom],
        ) {
            let ue9 = epsilon * sigma_2 + sigma;
            let x = ue9;
            eenieergheiya[i] = x * type_[i] + box_;
        }
        """
    )


def test_functions_of_one_name():
    def made(factor):
        @mk.func
        def f(x: Real) -> Real:
            return factor * x

        return f

    one, other = made(2.0), made(3.0)

    @mk.func
    def exp(x: Real) -> Real:
        return 1 + mk.exp(x)

    @mk.kernel
    def k(i: Atom, x: Array[Real, Atom], y: Out[Real, Atom]):
        y[i] = one(x[i]) + other(x[i]) + one(exp(1))

    assert [line for line in k.source.splitlines() if line.startswith(("fn", "    y", "    1", "    2", "    3"))] == [
        "fn f(x: Real) -> Real {",
        "    2.0 * x",
        "fn f_2(x: Real) -> Real {",
        "    3.0 * x",
        "fn exp_2(x: Real) -> Real {",
        "    1.0 + exp(x)",
        "fn k(",
        "    y: &mut [Real; Atom],",
        "    y[i] = f(x[i]) + f_2(x[i]) + f(exp_2(1.0));",
    ]


def test_kept_by_its_text():
    assert SCOPE["kernel"] is mk.kernel
    # Comments, blank lines, strings over several lines, and lines that go on.
    source = translated(
        '''\
        @kernel  # a comment behind the decorator
        def k(i: Atom, x: Array[Real, Atom],  # a parameter
              y: Out[Real, Atom]):
            """A text
        with lines further left."""
        # a comment further left

            a = (x[i] +
          1)  # goes on further left
            y[i] = a; pass
        ''',
        {"kernel": lambda f: f},
    )
    assert source.endswith(") {\n    let a = x[i] + 1.0;\n    y[i] = a;\n}\n")


def above(f):
    """A decorator that stands above."""
    return f


class Within:
    @above
    @mk.kernel(fast=[("x",)])
    # A comment between.
    def k(i: Atom, x: Array[Real, Atom], y: Out[Real, Atom]):
        y[i] = x[i]  # indented further


def test_decorators_and_nested_definitions():
    assert Within.k.source.splitlines()[0] == "#[kernel(fast(x))]"
    assert "    y[i] = x[i];" in Within.k.source.splitlines()

    def outer(factor):
        Inner = mk.dims("Inner")[0]

        def middle():
            @above
            @mk.kernel
            def k(i: Inner, x: Array[Real, Inner], y: Out[Real, Inner]):
                y[i] = factor * x[i]

            return k

        return middle()

    assert "    y[i] = 2.5 * x[i];" in outer(2.5).source.splitlines()
    assert "i: Inner," in outer(2.5).source


def test_annotations_that_are_strings():
    """With `from __future__ import annotations`, names of an enclosing function are taken for dimensions."""
    source = textwrap.dedent(
        """\
        from __future__ import annotations
        from madelung.kernels import *

        def outer():
            Inner = dims("Inner")[0]

            @kernel
            def k(i: Inner, x: Array[Real, Inner], y: "Out[Real, Inner]"):
                y[i] = 2 * x[i]

            return k
        """
    )
    # As a notebook keeps its cells.
    file = "<cell 7 of a notebook>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    scope: dict[str, Any] = {}
    exec(compile(source, file, "exec"), scope)
    assert scope["outer"]().source == textwrap.dedent(
        """\
        #[kernel]
        fn k(
            i: Inner,
            x: &[Real; Inner],
            y: &mut [Real; Inner],
        ) {
            y[i] = 2.0 * x[i];
        }
        """
    )
