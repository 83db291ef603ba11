"""What the compiler of kernels rejects: the place in Python, and words of Python."""

import re
from pathlib import Path

import pytest
from marked import PARAMETERS, body, defined, in_loop, refused, value

import madelung.kernels as mk
from madelung.kernels._errors import in_python

ROOT = Path(__file__).resolve().parents[3]


def test_sums():
    carried = "is read inside the loop that adds to it"
    in_loop("e += 0.5 * «e» + charges[j]", carried)
    in_loop("e += charges[j]\nx = «e» * 2.0\nif x > 0.0:\n    e -= x", carried)
    in_loop("if «e» < 1.0:\n    e += charges[j]", carried)
    body("v = positions[i]\nfor m in range(n):\n    v += cross(«v», positions[i])", carried)
    body("m = «atoms.of(i)»\nm += m", "what `+=` adds to is a sum, of reals, vectors or matrices")
    body("m = positions[i]\n«m[0]» += g", "`a[k] += …` (a vector as a whole)")


def test_extrema():
    where = "is found by a loop that stands in the block where `m` was declared, and by one statement in it"
    body("m = 0.0\nfor k in range(n):\n    for l in range(k):\n        «m = max(m, charges[i])»", where)
    body(
        "m = 0.0\nfor k in range(n):\n    m = max(m, charges[i])\n    «m» = min(m, 1.0)",
        "`m` is sought twice in this loop",
    )


def test_loops():
    loop = "a loop is `for n in range(lo, hi)`, `for j, shift in pairs.row(i)`, `for j, shift, p in pairs.row(i)`"
    body("for j in «pairs.row(i)»:\n    pass", loop)
    body("for j, shift in «pairs.rows(i)»:\n    pass", loop)
    body("for m in «charges»:\n    pass", loop)
    body("for m in range(«charges[i]»):\n    pass", "expected an integer: a constant, an `Int` attribute")
    body("if cutoff > 1.0:\n    for j, shift in «pairs.row(i)»:\n        pass", "move the condition into the loop")
    in_loop("for k, t in pairs.row(«j»):\n    e += charges[k]", "those of the kernel's own row")
    in_loop(
        "if charges[j] > 1.0:\n    e += 1.0\n    «continue»",
        "`continue` stands alone in an `if` without `else`: `if condition: continue`",
    )


def test_dimensions():
    alone = "expected a dimension, got the tuple that `dims` gives: `(A,) = dims('A')`, or `class A(Dim): ...`"
    scope = {"A": mk.dims("A")}
    refused("def k(i: «A», x: Array[Real, A], y: Out[Real, A]):\n    y[i] = x[i]", f"`i`: {alone}", scope)
    refused("def k(i: Atom, x: «Array[Real, A]», y: Out[Real, Atom]):\n    y[i] = x[i]", f"`x`: {alone}", scope)


def test_outputs():
    body("energy[i] = 0.0\n«energy[i] = 1.0»", "this output was already written")
    body("energy[i] = 0.0\n«energy[i] += 1.0»", "a row writes its own element once: `output[i] = …`")
    body("energy[i] = «energy»[i]", "an output cannot be read")
    body("energy[i] = 0.0\nx = «one» + 1.0", "an output cannot be read")
    in_loop("«energy[i] = e»", "an output is written once per row, at the end")
    in_loop("«total[atoms.of(i)] += charges[j]»", "sum into a name of its own and add once after the loop")
    body("energy[i] = 0.0\n«charges»[i] = 1.0", "this parameter is read-only: declare it `Out[…]`")
    body("total[«atoms.of(i)»] = 1.0", "a row stores to its own element only; add to shared ones with `+=`")
    body("«one[i]» = 1.0\nenergy[i] = 0.0", "this output is one element: `output += …`")
    body("energy[i] = «positions[i]»", "expected a Real")
    refused("def «k»(i: Atom, x: Array[Real, Atom], out: Out[Real, Atom]):\n    pass", "this kernel writes nothing")


def test_indices():
    value("cell[«i»]", "this array has an element per `System`, and the index is an `Atom`")
    value("charges[«atoms.of(i)»]", "an element per `Atom`, and the index is an `System`")
    value("charges[«0»]", "(a computed number could be out of range)")
    value("charges[«n + 1»]", "index it by the kernel's own row, a pair's column, a member, or `batch.of(row)`")
    value("charges[«positions[i]»]", "expected a row")
    value("«g»[i]", "`g` is not an array, batch or pair list")
    value("«i + 1»", "a row is not a number")
    in_loop("x = 1.0 if «i == j» else 0.0", "a row is not a number")


def test_types():
    value("«positions[i] * positions[i]»", "their products")
    value("«positions[i] + charges[i]»", "(Real and Int do not mix: write `float(n)`, `1.0`)")
    value("«cell[atoms.of(i)] - positions[i]»", "and, or on conditions")
    value("1.0 if «n» else 2.0", "expected a condition: a comparison, or several joined by and, or, not")
    value("1.0 if not «n» else 2.0", "expected a condition")
    value("length(«charges[i]»)", "expected a vector")
    value("row(«positions[i]», 1)", "expected a matrix")
    value("row(cell[atoms.of(i)], «3»)", "index 3 is out of range: the elements are 0 to 2")
    value("«charges[i]».x", "only vectors have components")
    value("«positions[i].w»", "components of a Vec3 are .x, .y and .z")
    value("«1.0 if g > 1.0 else positions[i]»", "both branches must be reals, or vectors or matrices of one type")
    value("positions[i, «3»]", "index 3 is out of range: the elements are 0 to 2")
    value("positions[i][«n»]", "is indexed by constants and by the variables of loops with constant bounds")
    value("«vec2(g, g) + positions[i]»", "their products")
    body("x: «Vec3» = cell[atoms.of(i)]", "this value is Mat3")
    body("x: «Int» = g", "this value is Real")


def test_functions():
    value("«lenght(positions[i])»", "there is no function `lenght` with 1 argument(s): builtins are sqrt exp log")
    value("«norm(positions[i])»", "write `length(v)`; builtins are")
    value("«log10(g)»", "others are `@func`s", {"log10": __import__("math").log10})
    value("«sqrt(1.0, 2.0)»", "there is no function `sqrt` with 2 argument(s)")
    value("«round(g)»", "write `nearest(x)`")
    value("«pairs.of(i)»", "methods are `batch.of(row)`")

    @mk.func
    def f(v: mk.Vec3) -> mk.Real:
        return v.x

    value("«f(positions[i], 1.0)»", "`f` takes 1 argument(s), not 2", {"f": f})
    value("f(«charges[i]»)", "`f` takes a Vec3 here", {"f": f})


def test_errors_in_functions_are_there():
    @mk.func
    def f(x: mk.Real) -> mk.Real:
        return mk.length(x)

    with pytest.raises(mk.KernelError, match="expected a vector") as caught:
        defined(f"def k({PARAMETERS}):\n    energy[i] = f(g)\n", {"f": f})
    error = caught.value
    assert Path(error.filename) == Path(__file__)
    assert error.text.strip() == "return mk.length(x)"
    assert error.text[error.offset - 1 : error.end_offset - 1] == "x"


def test_channels_and_local_arrays():
    parameters = (
        "i: Atom, f: Array[Real, Atom, Feature], g: Array[Real, Atom, Wide], x: Array[Real, Atom], n: Int, out: "
        "Out[Real, Atom, Feature]"
    )

    def channels(lines, message):
        text = "".join(f"    {line}\n" for line in lines.splitlines())
        refused(f"def k({parameters}):\n{text}    for c in Feature:\n        out[i, c] = 0.0\n", message)

    which = "this has a value for each channel: index it by the variable of `for c in Feature`"
    channels("y = f[i, «i»]", which)
    channels("for c in Wide:\n    y = f[i, «c»]", which)
    channels("y = «f[i]»", "this array has channels: `array[row, c]` in a loop `for c in Feature`")
    channels("y = «x»[i, i]", "this array has no channels: one that has is `Array[Real, Atom, Feature]`")
    channels("s = [«1.0»] * Feature\nfor c in Feature:\n    s[c] += f[i, c]", "sums over channels begin at 0.0")
    channels("s = «[0.0] * Feature»", "a value for each channel is a sum: `s = [0.0] * Feature`")
    channels("a = [0.0] * 4\ny = a[«4»]", "is out of range: the elements are 0 to 3")
    channels(
        "a = [0.0] * 4\ny = a[«n»]",
        "by constants and by the variables of loops with constant bounds (`for k in range(4)`)",
    )
    channels("a = [0.0] * «n»", "a local array has a constant number of elements, 1 to 64")


def test_patterns_without_transpose():
    body(
        "e = 0.0\nfor j, s in pairs.row(i):\n    for k, t in pairs.row(i):\n        e += charges[j] * charges[k]\n"
        "energy[i] = e",
        "a loop over pairs inside another loop has no transpose: put it outside, or ask for `scatter`",
    )
    loops = "for m in range(n):\n        for k in waves.members(atoms.of(i)):\n            e += z[k]"
    text = f"def «k»({PARAMETERS}):\n    e = 0.0\n    {loops}\n    energy[i] = e\n"
    refused(text, "a loop over members inside another loop has no transpose")


def test_without_adjoint():
    def alone(lines, message):
        body(lines, message, adjoint=False)

    alone(
        "c = 1\nif n > 2:\n    c = «2.5»\none = 1.0",
        "the variable is Int64, and this is Real (a real without its fraction is `int(x)`",
    )
    alone("one = charges[«positions[i]»]", "expected a row, or an integer")
    alone("one = cell[«i»]", "(a number of it is `int(…)`)")
    alone("«total[atoms.of(i)] += 1.0»", "another row may change this element in between")
    unwritten = "is read before this row writes it on every path, and outputs start as zeros: write it first, "
    remedies = "give the old values as an input, or mark it `InOut` to read what the array holds"
    alone("energy[i] = g * charges[i] + «energy[i]»", unwritten + remedies)
    alone("energy[i] = «energy[i]» * g", "`energy` " + unwritten)
    alone("«energy[i]» += g", "`energy` " + unwritten)
    alone("«energy[i]» **= 2", "`energy` " + unwritten)
    alone("one = «one» + g", "`one` " + unwritten)
    alone("if g > 1.0:\n    energy[i] = g\none = «energy[i]»", unwritten)
    alone("for j, shift in pairs.row(i):\n    «energy[i]» += charges[j]", unwritten)
    others = "an element of `energy` other than the row's own is read before this row writes one: rows run in any order"
    alone("energy[i] = g\nfor j, shift in pairs.row(i):\n    one = «energy[j]»", others)
    alone("energy[n] = «energy[n]» + g", others)


def test_in_out():
    def of(annotation, message, lines="y[i] = 1.0", **options):
        refused(f"def k(i: Atom, n: Int, y: {annotation}):\n    {lines}\n", message, **options)

    inputs = "a kernel with derivatives does not read what it writes: give the old values as an input"
    of("«InOut[Real, Atom]»", inputs)
    of("«InOut[Mat3]»", inputs)
    of(
        "«InOut[IVec3, Atom]»",
        "`Out[T]` with these but IVec3 (outputs; `InOut[T, Dim]` and `InOut[T]` where",
        adjoint=False,
    )
    of("«InOut[Real, Atom, Feature]»", "a parameter of a kernel without adjoint is one of", adjoint=False)
    of("«InOut[Zero[Mat3], Atom]»", "a zero is there for its derivatives", adjoint=False)
    of("«InOut[3]»", "`y`: expected the name of a dimension (the index), Real or Int", adjoint=False)
    others = "rows run in any order, and its old value may be gone (read an input, write to another array)"
    of("InOut[Real, Atom]", others, "y[i] = «y[n]»", adjoint=False)
    of("InOut[Int, System]", others, "y[n] = «y[n]» + 1", adjoint=False)
    of("InOut[Int]", "another row may change this element in between", "«y += 1»", adjoint=False)


def test_names_are_those_of_python():
    in_loop("σ = charges[j]\ne += «σ».x", "only vectors have components")
    body("type = g\nfor k in range(n):\n    e = «type»(2.0)", "`type` is no function here")
    refused(
        "def k(i: Atom, σ: Array[Real], y: Out[Real, Atom]):\n    y[i] = «σ»[i]",
        "`σ` is not an array, batch or pair list",
    )
    refused(
        "def k(i: Atom, type: Array[Real], y: Out[Real, Atom]):\n    y[i] = «type»[i]",
        "`type` is not an array, batch or pair list",
    )


RUST = re.compile(
    r"`let\b|\blet mut|&mut|&\[|&\w|&&|\|\||#\[|\bfn\b|\w; \w+\]|\.\.| as "
    r"[RiVf]|i32|i64|f64|::|`\*\w|\]\[|\{|\}|<\w|`loop|\bmut\b|no_adjoint|kernels!"
)


def messages():
    """The compiler's messages, with words where values go."""
    # Imports are written by the translator, and never by who defines a kernel.
    source = ROOT / "crates/language/kernel/src"
    files = [f for f in (source / "lower").rglob("*.rs") if f.name != "imports.rs"]
    files += [*source.glob("*.rs"), *(source / "mirror").glob("*.rs")]
    for file in sorted(files):
        text = re.sub(r"^\s*//.*$", "", file.read_text(), flags=re.MULTILINE)
        for literal in re.findall(r'"((?:[^"\\]|\\.)*)"', text, flags=re.DOTALL):
            message = re.sub(r"\\\n\s*", "", literal)
            message = re.sub(
                r"(?<!\w)\{\w*(?::\?)?\}|(?<=[<`( ])\{\w*\}", "name", message.replace("{ ", "{\0").replace(" }", "\0}")
            )
            message = message.replace("\0", " ")
            if " " in message:
                yield message


def test_no_word_of_rust_is_left():
    found = list(messages())
    assert len(found) > 180
    for message in found:
        said = in_python(message)
        # Fragments of a list of names, and `a -> b` of annotations of Python, are none.
        assert not RUST.search(said), f"{message}\n{said}"
