"""What the translator of kernels refuses, and where the error points."""

import ast
import math
import textwrap
import traceback

import numpy as np
import pytest
from marked import PARAMETERS, SCOPE, body, defined, in_loop, refused, value

import madelung.kernels as mk


def test_names_of_outer_blocks_do_not_change():
    changes = "was assigned outside this block, and the backward pass cannot replay a variable that changes"
    body("a = g\nif a < 0.0:\n    «a» = -a\nenergy[i] = a", changes)
    body("a = g\nfor k in range(n):\n    «a» = 2.0 * a\nenergy[i] = a", changes)
    body("a = g\nif a < 0.0:\n    b = a\nelse:\n    «a» = 1.0\nenergy[i] = a", changes)
    body("for k in range(n):\n    b = g\n    if b < 0.0:\n        «b»: Real = 1.0", changes)
    in_loop("«e» = e + charges[j]", changes)
    lost = "has a value before the loop, which it would lose"
    body("k = 1.0\nfor «k» in range(n):\n    pass", lost)
    body("for j, shift in pairs.row(i):\n    for «j» in range(n):\n        pass", lost)
    body("«cutoff» = 2.0", "`cutoff` is a parameter: take another name")
    body("«energy» = 2.0", "`energy` is a parameter: take another name, or write to an element, `energy[row] = …`")


def test_names_end_with_their_blocks():
    ends = "is known only in the branch or loop where it was assigned"
    body("if g < 0.0:\n    a = 1.0\nelse:\n    a = 2.0\nenergy[i] = «a»", ends)
    body("for k in range(n):\n    a = 1.0\nenergy[i] = 2.0 * «a»", ends)
    in_loop("e += 1.0\nenergy[i] = float(«k»)\nfor k in range(n):\n    pass", "`k` is read before it is assigned")
    body("energy[i] = «a»\na = 1.0", "`a` is read before it is assigned")
    # A global of the same name is not meant: Python reads the local, too.
    body("energy[i] = «a»\na = 1.0", "`a` is read before it is assigned", {"a": 3.0})
    body("«a» += 1.0", "`a` is read before it is assigned")


def test_statements_without_words():
    body(
        "«while g < 1.0:»\n    pass",
        "`while` has no trip count that the backward pass could replay: use `for n in range(lo, hi)`",
    )
    in_loop("if charges[j] > 1.0:\n    «break»", "`break` makes later iterations depend on earlier ones")
    body("if g < 1.0:\n    «return»", "a kernel has no early return: put what follows under an `if`")
    body("return «g»", "a kernel returns nothing: it writes to its parameters `Out[…]`", adjoint=False)
    body("«try:»\n    pass\nfinally:\n    pass", "a kernel has no exceptions")
    body("«raise ValueError»", "a kernel has no exceptions")
    body("«assert g > 1.0»", "a kernel has no exceptions")
    body("«with g:»\n    pass", "a kernel has no context managers")
    body("«def f(x):»\n    return x", "a kernel has no functions of its own: write a `@func` beside it")
    body("«class A:»\n    pass", "a kernel has no classes")
    body("«import math»", "modules are imported outside of kernels")
    body("«from math import exp»", "modules are imported outside of kernels")
    body("«global cutoff_2»", "a kernel changes nothing but its parameters `Out[…]`")
    body("«del g»", "`del` is not needed")
    body("«match n:»\n    case 1:\n        pass", "write `if` and `elif`")
    body("«length(positions[i])»", "a value that is not assigned does nothing here")
    body("«x: Real»", "a name is assigned where it is first written")
    body("x: «Atom» = 1.0", "a value is Real, Int, Vec2, Vec3, Vec4, Mat2 or Mat3")
    body("«x, y» = 1.0, 2.0", "names are assigned one by one")
    body("v = positions[i]\n«v.x» = 1.0", "components are not assigned one by one")
    body("for k in range(n):\n    pass\nelse:\n    «pass»", "a loop has no `else` here")
    body("while g < 1.0:\n    pass\nelse:\n    «pass»", "a loop has no `else` here", adjoint=False)
    in_loop("«e *= charges[j]»", "only `+=` and `-=` change a sum")
    in_loop("«e **= 2.0»", "only `+=` and `-=` change a sum")


def test_loops_without_words():
    body("for k in «range(0, n, 2)»:\n    pass", "a range has no step")
    body("for k in «range()»:\n    pass", "expected `range(lo, hi)`")
    body("for k in «enumerate(charges)»:\n    pass", "a loop goes over `range(lo, hi)`")
    body("for «k[0]» in range(n):\n    pass", "the variables of a loop are plain names")
    body("for (k, «(a, b)») in pairs.row(i):\n    pass", "the variables of a loop are plain names")
    value("«range(n)»", "a range is what a loop goes over")


def test_expressions_without_words():
    value("«lambda x: x»", "a kernel has no functions of its own")
    value("length(«[positions[j] for j in range(n)]»)", "there are no comprehensions")
    value("max(«(charges[k] for k in range(n))», 1.0)", "there are no comprehensions: write a loop")
    value("(«a := 1.0») + 1.0", "a name is assigned in a statement of its own")
    value("charges[«0:2»]", "there are no slices")
    value("«'text'»", "a kernel has no strings")
    value("«f'{g}'»", "a kernel has no strings")
    value("«{1: 2}»", "a kernel has no dictionaries")
    value("«(1.0, 2.0)»", "a value is a number, a vector or a matrix")
    value("1.0 if «g is one» else 2.0", "there is no `is` in kernels")
    value("1.0 if «g in charges» else 2.0", "there is no `in` in kernels")
    value("1.0 if «g is not one» else 2.0", "there is no `is not` in kernels")
    value("«True»", "a condition is a comparison here")
    value("length(«*positions»)", "arguments are written one by one")
    value("«sqrt(x=g)»", "arguments of functions are given by their places here")
    value("«n // 2»", "integers are not divided in kernels that are differentiated")
    value("«n % 2»", "integers are not divided in kernels that are differentiated")
    value("«g ^ 2»", "a power is `x ** 2`")
    value("«n << 2»", "integers have no bits in kernels that are differentiated")
    value("«~n»", "integers have no bits")
    value("«int(g)»", "a real does not become an integer in kernels that are differentiated")
    value(
        "«atomic_add(energy[i], 1)»",
        "`atomic_add` is for kernels that are not differentiated: `@kernel(adjoint=False)`",
    )
    value("«raise_(CAPACITY)»", "`raise_` is for kernels that are not differentiated")
    value("«1e999»", "this number is inf: constants are finite")


class Holder:
    x = 2.0


def plain(x):
    return x


def test_the_scope_around():
    value("«weights»[i]", "`weights` is an array of the scope around", {"weights": np.ones(3)})
    value(
        "«holder»", "`holder` is a Holder of the scope around: a kernel sees numbers from there", {"holder": Holder()}
    )
    value("«holder.y»", "there is no `holder.y` here", {"holder": Holder()})
    value("«label»", "`label` is a str of the scope around", {"label": "no number"})
    value("«nothing»", "there is no `nothing` here: a kernel sees its parameters, its own names and numbers")
    value("«charge»[i]", "there is no `charge` here (`charges`?)")
    value("«plain»(g)", "`plain` is a function of Python: put `@func` above its definition", {"plain": plain})
    value("«g»(1.0)", "`g` is no function here")
    other = defined("def k(i: Atom, x: Array[Real, Atom], y: Out[Real, Atom]):\n    y[i] = x[i]")
    value("«other»(g)", "`other` is a kernel: `op` makes one op of several", {"other": other})
    value("«np.linalg.foo»(g)", "there is no `np.linalg.foo` here", {"np": np})
    value("«infinite»", "this number is inf", {"infinite": math.inf})


def test_parameters():
    refused(
        "def k(i: Atom, «x», y: Out[Real, Atom]):\n    y[i] = x[i]",
        "`x` has no annotation: expected the name of a dimension",
    )
    refused("def k(i: Atom, x: «str», y: Out[Real, Atom]):\n    y[i] = x[i]", "`x`: expected the name of a dimension")
    refused("def k(i: Atom, x: «Array[Real, 3]», y: Out[Real, Atom]):\n    y[i] = x[i]", "`x`: expected")
    refused("def k(i: Atom, x: «Batch[Atom, Real]», y: Out[Real, Atom]):\n    y[i] = 0.0", "`x`: expected")
    refused("def k(i: Atom, *«x: Real»):\n    pass", "parameters are plain ones")
    refused("def k(i: Atom, *, «x: Real»):\n    pass", "parameters are plain ones")
    refused("def k(i: Atom, **«x: Real»):\n    pass", "parameters are plain ones")
    refused("def k(i: Atom, x: Real = «1.0»):\n    pass", "a parameter has no default")
    index = "the first parameter of a kernel is its index, with the name of a dimension: `i: Atom`"
    refused("def k(«x: Real»):\n    pass", index)
    refused("def «k»():\n    pass", index)
    refused("def k(i: Atom, «j: Atom»):\n    pass", "a dimension is the type of the first parameter alone")
    refused("def k(i: Atom, y: Out[Real, Atom]) -> «float»:\n    y[i] = 0.0", "a kernel returns nothing")
    refused("async def «k»(i: Atom):\n    pass", "a kernel is a plain function")


def test_options():
    with pytest.raises(mk.KernelError, match=r"`fast`: expected names of parameters, got 'positons'") as caught:

        @mk.kernel(fast=[("positons",)])
        def k(i: mk.dims("Atom")[0], positions: mk.Array[mk.Vec3, mk.dims("Atom")[0]]):
            pass

    error = caught.value
    assert error.text is not None
    assert error.text[error.offset - 1 : error.end_offset - 1] == '[("positons",)]'


def test_functions():
    def func(source, message):
        source = textwrap.dedent(source)
        plain = source.replace("«", "").replace("»", "")
        scope = dict(SCOPE)
        exec(plain, scope)
        with pytest.raises(mk.KernelError, match=".*") as caught:
            mk.func(source=plain)(scope["f"])
        assert message in caught.value.msg
        e, lines = caught.value, plain.splitlines()
        marked = source.split("«")[1].split("»")[0]
        assert lines[e.lineno - 1][e.offset - 1 : e.end_offset - 1] == marked

    form = "a function is assignments and one `return …` at the end"
    func("def «f»(x: Real):\n    return x", "say what `f` gives back: `-> Real`")
    func("def f(x: Real) -> «Atom»:\n    return x", "a function gives back Real, Int, Vec2, Vec3, Vec4, Mat2 or Mat3")
    func("def f(x: «Array[Real]») -> Real:\n    return x", "a parameter of a function is Real, Int, Vec2, Vec3")
    func("def «f»(x: Real) -> Real:\n    y = x", form)
    func("def f(x: Real) -> Real:\n    y = x\n    «y += 1.0»\n    return y", "a function has no sums")
    func("def f(x: Real) -> Real:\n    «for k in range(3):»\n        pass\n    return x", form)
    func("def f(x: Real) -> Real:\n    return x\n    «y = x»", "nothing follows a `return`")
    func("def f(x: Real) -> Real:\n    «if x > 1.0:»\n        return x", form)
    func("def f(x: Real) -> Real:\n    «if x > 1.0:»\n        y = x\n        return y\n    return x", form)
    func("def f(x: Real) -> Real:\n    return x * «y»", "there is no `y` here")


def test_functions_are_for_kernels():
    @mk.func
    def f(x: mk.Real) -> mk.Real:
        return x

    with pytest.raises(TypeError, match="`f` is a function of kernels"):
        f(1.0)
    with pytest.raises(TypeError, match="`erfc` is a function of the kernel language"):
        mk.erfc(1.0)


def test_without_source():
    scope = dict(SCOPE)
    exec("def k(i: Atom, x: Array[Real, Atom], y: Out[Real, Atom]):\n    y[i] = x[i]", scope)
    with pytest.raises(mk.KernelError, match=r"`k` has no source that could be read .* `source=`"):
        mk.kernel(scope["k"])
    with pytest.raises(mk.KernelError, match="`source`: expected a definition of `k`, got none"):
        mk.kernel(source="def l(): pass")(scope["k"])
    with pytest.raises(TypeError, match="a kernel is made of a function, got int"):
        mk.kernel(3)


def test_shown_as_a_syntax_error():
    lines = ["σ = 2.0  # π and ε in a comment", "x = 'π' + σ * lenght(positions[i])", "energy[i] = 1.0"]
    source = f"def k({PARAMETERS}):\n" + "".join(f"    {line}\n" for line in lines)
    with pytest.raises(SyntaxError) as caught:
        defined(source)
    shown = "".join(traceback.format_exception_only(caught.value)).splitlines()
    assert shown[1] == "    x = 'π' + σ * lenght(positions[i])"
    assert shown[2].rstrip() == "        ^^^"
    assert shown[3] == "madelung.kernels.KernelError: a kernel has no strings"
    assert ast.parse(source)
