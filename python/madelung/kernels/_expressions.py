"""Python expressions as expressions of the kernel language."""

from __future__ import annotations

import ast
import difflib
import math
import numbers
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from madelung.kernels import _language
from madelung.kernels import _text as binds
from madelung.kernels import _types as kinds
from madelung.kernels._definition import MISSING, Definition
from madelung.kernels._errors import KernelError
from madelung.kernels._names import Names
from madelung.kernels._text import Text, joined

if TYPE_CHECKING:
    from madelung.kernels._source import Block

_ARITHMETIC = {
    ast.Add: ("+", binds.SUM),
    ast.Sub: ("-", binds.SUM),
    ast.Mult: ("*", binds.PRODUCT),
    ast.MatMult: ("*", binds.PRODUCT),
    ast.Div: ("/", binds.PRODUCT),
}
_BITS = {
    ast.BitAnd: ("&", binds.AND_BITS),
    ast.BitOr: ("|", binds.OR_BITS),
    ast.BitXor: ("^", binds.XOR_BITS),
    ast.LShift: ("<<", binds.SHIFT),
    ast.RShift: (">>", binds.SHIFT),
}
_COMPARED = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
# What other modules call a function of the language.
_ELSEWHERE = {
    "fabs": "abs",
    "absolute": "abs",
    "minimum": "min",
    "maximum": "max",
    "power": "pow",
    "float_power": "pow",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "isfinite": "is_finite",
    "raise_": "raise",
}
# Modules whose functions stand for the language's of the same name.
_MODULES = frozenset(("builtins", "math", "numpy", "torch", "jax", "jaxlib", "scipy", "cupy"))
_TYPES = {
    float: "float",
    int: "int",
    range: "range",
    kinds.Real: "float",
    kinds.Int: "int",
    kinds.Int64: "int",
    kinds.Vec2: "vec2",
    kinds.Vec3: "Vec3",
    kinds.Vec4: "vec4",
    kinds.Mat2: "mat2",
    kinds.Mat3: "mat3",
}
_OUTSIDE = (
    "this expression is not part of the kernel language: there are names, numbers, operators, `array[row]`, `v.x`, "
    "functions, "
    "`float(n)` and `a if c else b`"
)
_REFUSED: dict[type[ast.AST], str] = {
    ast.Lambda: "a kernel has no functions of its own: write a `@func` beside it",
    ast.ListComp: "there are no comprehensions: write a loop, or a list of constant length",
    ast.GeneratorExp: "there are no comprehensions: write a loop",
    ast.SetComp: "there are no comprehensions: write a loop",
    ast.DictComp: "there are no comprehensions: write a loop",
    ast.NamedExpr: "a name is assigned in a statement of its own",
    ast.JoinedStr: "a kernel has no strings",
    ast.Starred: "arguments are written one by one",
    ast.Slice: "there are no slices: a loop visits the rows of an array, and `for c in Channels` its channels",
    ast.Await: "a kernel is a plain function",
    ast.Yield: "a kernel writes its results to its parameters `Out[…]`",
    ast.Dict: "a kernel has no dictionaries",
    ast.Tuple: "a value is a number, a vector or a matrix: `vec3(x, y, z)`, or a list of constant length, `[x, y, z]`",
}


class Expressions:
    """Expressions of one function, what its names are, and which of its values are integers in Python."""

    def __init__(self, definition: Definition, block: Block, adjoint: bool) -> None:
        self.definition, self.block, self.adjoint = definition, block, adjoint
        self.names = Names(definition.tree)
        # The names of each open block, and what each is: "int", "row", "ivec", or something else.
        self.scopes: list[dict[str, str]] = [{}]
        self.closed: set[str] = set()
        self.annotations: dict[str, Any] = {}
        self.bound: set[str] = set()

    def error(self, node: ast.AST, message: str) -> KernelError:
        """An error at a node."""
        return self.definition.error(node, message)

    def at(self, node: ast.AST, *parts: str | Text, binds: int = binds.CLOSED) -> Text:
        """Text that came from a node."""
        return joined((self.definition, node), *parts, binds=binds)

    def operated(self, e: ast.AST, a: Text, word: str, b: Text, level: int) -> Text:
        """Two operands of an operator that takes those on its left first."""
        return self.at(e, a.within(level), f" {word} ", b.within(level + 1), binds=level)

    # What is known of values.

    def kind(self, name: str) -> str | None:
        """Kind of a name of the function; None where it is not known."""
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def constant(self, e: ast.AST) -> int | float | None:
        """The number that an expression is in every call."""
        match e:
            case ast.Constant(value=value):
                return value if _is_number(value) else None
            case ast.Name(id=name):
                outside = None if name in self.bound else self.definition.lookup(name)
                return _number(outside)
            case ast.Attribute():
                return _number(self.outside(e))
            case ast.UnaryOp(op=ast.USub(), operand=x):
                value = self.constant(x)
                return None if value is None else -value
            case ast.BinOp(left=a, op=op, right=b):
                x, y = self.constant(a), self.constant(b)
                if isinstance(x, int) and isinstance(y, int):
                    return _folded(op, x, y)
        return None

    def is_int(self, e: ast.AST) -> bool:
        """Whether a value is an integer."""
        constant = self.constant(e)
        if constant is not None:
            return isinstance(constant, int)
        match e:
            case ast.Name(id=name):
                return self.kind(name) == "int" or (self.is_place(name) and kinds.integers(self.annotations[name]))
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert(), operand=x):
                return self.is_int(x)
            case ast.BinOp(left=a, op=op, right=b):
                return not isinstance(op, (ast.Div, ast.Pow)) and self.is_int(a) and self.is_int(b)
            case ast.IfExp(body=a, orelse=b):
                return self.is_int(a) and self.is_int(b)
            case ast.Call(func=f, args=args):
                found = self.function(f)
                if isinstance(found, str):
                    if found in ("abs", "min", "max"):
                        return not self.adjoint and all(map(self.is_int, args))
                    return found in ("len", "int") or found.startswith("atomic_")
                return found is not None and found.gives_integer
            case ast.Subscript(value=value, slice=index):
                if self.adjoint:
                    return False
                if isinstance(value, ast.Name) and kinds.integers(self.annotations.get(value.id)):
                    return True
                of_element = isinstance(index, ast.Tuple) and self._holds_ivec(value)
                return of_element or self.is_ivec(value)
            case ast.Attribute(value=value, attr="x" | "y" | "z"):
                return not self.adjoint and self.is_ivec(value)
        return False

    def is_ivec(self, e: ast.AST) -> bool:
        """Whether a value is three integers."""
        match e:
            case ast.Name(id=name):
                return self.kind(name) == "ivec"
            case ast.Subscript(value=value, slice=index):
                return not isinstance(index, ast.Tuple) and self._holds_ivec(value)
        return False

    def _holds_ivec(self, e: ast.AST) -> bool:
        return isinstance(e, ast.Name) and kinds.components(self.annotations.get(e.id)) == "IVec3"

    def is_place(self, name: str) -> bool:
        """Whether a parameter of one element is written with a star."""
        return not self.adjoint and kinds.is_place(self.annotations.get(name))

    def is_row(self, e: ast.AST) -> bool:
        """Whether a value says which element of an array is meant."""
        match e:
            case ast.Name(id=name):
                return self.kind(name) == "row"
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="of" | "system")):
                return self.kind(name) is not None
        return False

    # What stands around the function.

    def outside(self, e: ast.AST) -> Any:
        """The value of a name, or of an attribute of one, that is not the function's own; `MISSING` where it is."""
        match e:
            case ast.Name(id=name) if name not in self.bound:
                return self.definition.lookup(name)
            case ast.Attribute(value=value, attr=attr):
                owner = self.outside(value)
                return MISSING if owner is MISSING else getattr(owner, attr, MISSING)
        return MISSING

    def function(self, f: ast.AST) -> Any:
        """Called function: the name of one of the language, or an object made by `@func`; None where neither."""
        found = self.outside(f)
        name = f.id if isinstance(f, ast.Name) else f.attr if isinstance(f, ast.Attribute) else ""
        if self.block.is_func(found):
            return found
        if isinstance(found, _language.Function):
            return _ELSEWHERE.get(found.__name__, found.__name__)
        if found is MISSING:
            return name if isinstance(f, ast.Name) and name not in self.bound else None
        if isinstance(found, type):
            return _TYPES.get(found)
        module = getattr(found, "__module__", None) or type(found).__module__
        if module.split(".")[0] not in _MODULES:
            return None
        name = getattr(found, "__name__", name)
        return _ELSEWHERE.get(name, name)

    # Expressions.

    def real(self, e: ast.AST) -> Text:
        """An expression where a real is expected: integers become one."""
        if not self.is_int(e):
            return self.expr(e)
        value = self.constant(e)
        if value is not None:
            return self.number(e, float(value))
        if isinstance(e, ast.IfExp):
            return self._choice(e, self.real(e.body), self.real(e.orelse))
        return self.at(e, self.expr(e).within(), " as Real", binds=binds.CHOICE)

    def _choice(self, e: ast.IfExp, a: Text, b: Text) -> Text:
        return self.at(e, "if ", self.expr(e.test), " { ", a, " } else { ", b, " }", binds=binds.CHOICE)

    def number(self, e: ast.AST, value: int | float) -> Text:
        """A number, as it is written in the language."""
        if not math.isfinite(value):
            raise self.error(e, f"this number is {value}: constants are finite")
        if value == math.pi:
            return self.at(e, "PI")
        digits = repr(abs(value))
        if value >= 0:
            return self.at(e, digits)
        # Differentiable kernels have no integers with a sign.
        if isinstance(value, int) and self.adjoint:
            return self.at(e, "0 - ", digits, binds=binds.SUM)
        return self.at(e, "-", digits, binds=binds.SIGN)

    def expr(self, e: ast.AST) -> Text:
        """An expression."""
        value = self.constant(e)
        if value is not None:
            return self.number(e, value)
        match e:
            case ast.Constant(value=bool() as value) if not self.adjoint:
                return self.at(e, str(value).lower())
            case ast.Constant(value=str() | bytes()):
                raise self.error(e, "a kernel has no strings")
            case ast.Constant(value=bool()):
                raise self.error(e, "a condition is a comparison here, or several of them")
            case ast.Name():
                return self._name(e)
            case ast.UnaryOp():
                return self._unary(e)
            case ast.BinOp():
                return self._binary(e, e.left, e.op, e.right)
            case ast.BoolOp(op=op, values=values):
                word, level = (" && ", binds.AND) if isinstance(op, ast.And) else (" || ", binds.OR)
                return self.at(e, *_between(word, [self.expr(v).within(level + 1) for v in values]), binds=level)
            case ast.Compare():
                return self._compare(e)
            case ast.IfExp(body=a, orelse=b):
                return self._choice(e, *(map(self.expr, (a, b)) if self.is_int(e) else map(self.real, (a, b))))
            case ast.Subscript(value=value, slice=index):
                # An index of its own for each axis: `array[row, channel]`.
                each = index.elts if isinstance(index, ast.Tuple) else [index]
                text = self._indexed(value)
                for i in each:
                    text = self.at(e, text, "[", self.expr(i), "]")
                return text
            case ast.Call():
                return self._call(e)
            case ast.Attribute(value=value, attr=attr):
                if self.outside(value) is not MISSING:
                    return self._around(e, ast.unparse(e), self.outside(e))
                return self.at(e, self.expr(value).within(), f".{attr}")
            case ast.List(elts=elts):
                return self.at(e, "[", *_between(", ", [self.real(x) for x in elts]), "]")
        raise self.error(e, _REFUSED.get(type(e), _OUTSIDE))

    def _name(self, e: ast.Name) -> Text:
        name = e.id
        if self.kind(name) is not None:
            star, level = ("*", binds.SIGN) if self.is_place(name) else ("", binds.CLOSED)
            return self.at(e, star, self.names[name], binds=level)
        if name in self.bound:
            if name in self.closed:
                message = (
                    f"`{name}` is known only in the branch or loop where it was assigned: assign it before, or once, "
                    f"by "
                    f"`{name} = a if condition else b`"
                )
            else:
                message = f"`{name}` is read before it is assigned"
            raise self.error(e, message)
        return self._around(e, name, self.definition.lookup(name))

    def _around(self, e: ast.AST, name: str, value: Any) -> Text:
        """Value from around the function that is no number."""
        if (isinstance(value, type) and issubclass(value, kinds.Dim)) or isinstance(value, _language.Reason):
            return self.at(e, value.__name__)
        if isinstance(value, bool) and not self.adjoint:
            return self.at(e, str(value).lower())
        if name in ("pi", "PI") and value is MISSING:
            return self.at(e, "PI")
        raise self._foreign(e, name, value)

    def _foreign(self, e: ast.AST, name: str, value: Any) -> KernelError:
        if value is MISSING:
            known = [n for scope in self.scopes for n in scope] + list(_language.FUNCTIONS)
            close = difflib.get_close_matches(name, known, 1)
            message = f"there is no `{name}` here" + (f" (`{close[0]}`?)" if close else "")
            message += ": a kernel sees its parameters, its own names and numbers of the scope around it"
        elif hasattr(value, "shape") and hasattr(value, "dtype"):
            message = f"`{name}` is an array of the scope around"
            message += f": a kernel has the arrays that are its parameters, `{name}: Array[…]`"
        else:
            message = f"`{name}` is a {type(value).__name__} of the scope around"
            message += ": a kernel sees numbers from there, as they are when it is defined"
        return self.error(e, message)

    def _indexed(self, e: ast.AST) -> Text:
        """Array that is indexed: its name, without the star of those with one element."""
        if isinstance(e, ast.Name) and e.id in self.annotations and self.kind(e.id) is not None:
            return self.at(e, self.names[e.id])
        return self.expr(e).within()

    def _unary(self, e: ast.UnaryOp) -> Text:
        x = e.operand
        if isinstance(e.op, ast.Not):
            return self.at(e, "!", self.expr(x).within(), binds=binds.SIGN)
        if isinstance(e.op, ast.UAdd):
            return self.expr(x)
        if isinstance(e.op, ast.Invert):
            if self.adjoint:
                raise self.error(
                    e,
                    "integers have no bits in kernels that are differentiated: the opposite of a condition is `not c`",
                )
            return self.at(e, "!", self.expr(x).within(), binds=binds.SIGN)
        if self.adjoint and self.is_int(x):
            return self.at(e, "0 - ", self.expr(x).within(binds.PRODUCT), binds=binds.SUM)
        return self.at(e, "-", self.expr(x).within(), binds=binds.SIGN)

    def _pair(self, a: ast.AST, b: ast.AST) -> tuple[Text, Text]:
        """Two operands: where one is an integer and the other is not, both are reals."""
        if self.is_int(a) == self.is_int(b) or self.is_row(a) or self.is_row(b):
            return self.expr(a), self.expr(b)
        return self.real(a), self.real(b)

    def _binary(self, e: ast.AST, a: ast.AST, op: ast.operator, b: ast.AST) -> Text:
        integers = self.is_int(a) and self.is_int(b)
        if isinstance(op, ast.Pow):
            return self._power(e, a, b)
        if isinstance(op, ast.Div) and integers:
            # As Python has it: the quotient of integers is a real.
            return self.operated(e, self.real(a), "/", self.real(b), binds.PRODUCT)
        if type(op) in _ARITHMETIC:
            x, y = self._pair(a, b)
            word, level = _ARITHMETIC[type(op)]
            return self.operated(e, x, word, y, level)
        if isinstance(op, (ast.FloorDiv, ast.Mod)):
            return self._floored(e, a, op, b, integers)
        if self.adjoint:
            hint = ": a power is `x ** 2`" if isinstance(op, ast.BitXor) else ""
            raise self.error(e, f"integers have no bits in kernels that are differentiated{hint}")
        word, level = _BITS[type(op)]
        return self.operated(e, self.expr(a), word, self.expr(b), level)

    def _floored(self, e: ast.AST, a: ast.AST, op: ast.operator, b: ast.AST, integers: bool) -> Text:
        """`a // b` and `a % b`, rounded down as in Python; the language rounds towards zero."""
        if integers and self.adjoint:
            raise self.error(
                e, "integers are not divided in kernels that are differentiated, nor have they a remainder"
            )
        self._once(e, a, b)
        if not integers:
            x, y = self.real(a).within(), self.real(b).within()
            whole = joined(None, "floor(", x, " / ", y, ")")
            if isinstance(op, ast.FloorDiv):
                return self.at(e, whole)
            return self.at(e, x, " - ", y, " * ", whole, binds=binds.SUM)
        x, y = self.expr(a).within(binds.SIGN), self.expr(b).within(binds.SIGN)
        rest = self.at(e, "(", x, " % ", y, " + ", y, ") % ", y, binds=binds.PRODUCT)
        return rest if isinstance(op, ast.Mod) else self.at(e, "(", x, " - ", rest, ") / ", y, binds=binds.PRODUCT)

    def _once(self, e: ast.AST, *operands: ast.AST) -> None:
        """Refuses operands that must not be evaluated twice."""
        for node in (n for operand in operands for n in ast.walk(operand)):
            if isinstance(node, ast.Call) and str(self.function(node.func)).startswith("atomic_"):
                raise self.error(
                    e, "what counts atomically stands in an assignment of its own: `before = atomic_add(…)`"
                )

    def _power(self, e: ast.AST, a: ast.AST, b: ast.AST) -> Text:
        n = self.constant(b)
        if not isinstance(n, int):
            return self.at(e, "pow(", self.real(a), ", ", self.real(b), ")")
        digits = str(abs(n)) if abs(n) <= 64 else repr(float(abs(n)))
        power = self.at(e, "pow(", self.real(a), ", ", self.at(b, digits), ")")
        return power if n >= 0 else self.at(e, "1.0 / ", power, binds=binds.PRODUCT)

    def _compare(self, e: ast.Compare) -> Text:
        parts: list[Text] = []
        sides = [e.left, *e.comparators]
        self._once(e, *sides[1:-1])
        for a, op, b in zip(sides, e.ops, sides[1:]):
            if isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
                word = {ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"}[type(op)]
                raise self.error(e, f"there is no `{word}` in kernels: comparisons are <, <=, >, >=, == and !=")
            x, y = self._pair(a, b)
            word, opposite = _COMPARED[type(op)], False
            if self.adjoint:
                # The language compares with fewer words there, and these mean the same.
                integers = self.is_int(a) and self.is_int(b)
                turned = {"<=": ">", ">=": "<"} if integers else {}
                if not (self.is_row(a) and self.is_row(b)):
                    turned["!="] = "=="
                opposite, word = word in turned, turned.get(word, word)
            text = self.at(e, x.within(binds.OR_BITS), f" {word} ", y.within(binds.OR_BITS), binds=binds.COMPARISON)
            parts.append(self.at(e, "!", text.within(), binds=binds.SIGN) if opposite else text)
        if len(parts) == 1:
            return parts[0]
        return self.at(e, *_between(" && ", parts), binds=binds.AND)

    # Calls.

    def _call(self, e: ast.Call) -> Text:
        f, args = e.func, e.args
        if e.keywords:
            raise self.error(e, "arguments of functions are given by their places here, not by name")
        for a in args:
            if isinstance(a, ast.Starred):
                raise self.error(a, _REFUSED[ast.Starred])
        if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name) and self.kind(f.value.id) is not None:
            receiver = self.at(f.value, self.names[f.value.id])
            return self.at(e, receiver, f".{f.attr}(", *_between(", ", [self.expr(a) for a in args]), ")")
        found = self.function(f)
        if found is None:
            raise self._not_called(e, f)
        if not isinstance(found, str):
            name, takes = self.block.use(found), found.integer_parameters
            given = [self.expr(a) if n in takes else self.real(a) for n, a in enumerate(args)]
            return self.at(e, self.at(f, name), "(", *_between(", ", given), ")")
        return self._language(e, found, args)

    def _language(self, e: ast.Call, name: str, args: Sequence[ast.expr]) -> Text:
        """A call of a function of the language, or of one of Python that has a word there."""
        match name, args:
            case "float", [x]:
                if self.is_int(x) or (self.is_row(x) and not self.adjoint):
                    return self.real(x) if self.is_int(x) else self.at(e, self.expr(x), " as Real", binds=binds.CHOICE)
                return self.expr(x)
            case "int", [x]:
                if self.adjoint:
                    raise self.error(
                        e, "a real does not become an integer in kernels that are differentiated (`floor(x)` is a real)"
                    )
                return (
                    self.expr(x) if self.is_int(x) else self.at(e, self.expr(x).within(), " as i64", binds=binds.CHOICE)
                )
            case "len", [ast.Name() as x]:
                return self.at(e, self._indexed(x), ".len()")
            case "Vec3", [x]:
                return (
                    self.expr(x) if self.adjoint else self.at(e, self.expr(x).within(), " as Vec3", binds=binds.CHOICE)
                )
            case "Vec3", _:
                name = "vec3"
            case "pow", [x, y]:
                return self._power(e, x, y)
            case "row", [m, n]:
                return self.at(e, "row(", self.expr(m), ", ", self.expr(n), ")")
            case "min" | "max", [_, _, _, *_]:
                head = ast.copy_location(ast.Call(e.func, list(args[:-1]), []), e)
                return self._language(e, name, [head, args[-1]])
            case "range", _:
                raise self.error(e, "a range is what a loop goes over: `for n in range(lo, hi)`")
            case "raise" | "atomic_add" | "atomic_max" | "atomic_min", _:
                if self.adjoint:
                    raise self.error(
                        e,
                        f"`{name.replace('raise', 'raise_')}` is for kernels that are not differentiated: "
                        f"`@kernel(adjoint=False)`",
                    )
                given = [self._indexed(a) if name == "raise" and n else self.expr(a) for n, a in enumerate(args)]
                return self.at(e, f"{name}(", *_between(", ", given), ")")
        integers = not self.adjoint and name in ("abs", "min", "max") and all(map(self.is_int, args))
        given = [self.expr(a) if integers else self.real(a) for a in args]
        return self.at(e, self.at(e.func, name), "(", *_between(", ", given), ")")

    def _not_called(self, e: ast.Call, f: ast.expr) -> KernelError:
        name = ast.unparse(f)
        if isinstance(f, ast.Attribute) and self.outside(f) is MISSING:
            return self.error(
                f, f"there is no `{name}` here (components of a vector are `v.x`, functions are called as `sqrt(x)`)"
            )
        if self.outside(f) is MISSING:
            return self.error(f, f"`{name}` is no function here")
        if hasattr(self.outside(f), "parameters"):
            return self.error(f, f"`{name}` is a kernel: `op` makes one op of several, and `@func`s are called within")
        return self.error(
            f, f"`{name}` is a function of Python: put `@func` above its definition, and kernels can call it"
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _number(value: Any) -> int | float | None:
    if not _is_number(value) or (hasattr(value, "ndim") and value.ndim):
        return None
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def _folded(op: ast.operator, x: int, y: int) -> int | None:
    match op:
        case ast.Add():
            return x + y
        case ast.Sub():
            return x - y
        case ast.Mult():
            return x * y
        case ast.FloorDiv() if y:
            return x // y
        case ast.Mod() if y:
            return x % y
        case ast.Pow() if 0 <= y <= 64:
            return x**y
    return None


def _between(separator: str, parts: Sequence[Text]) -> list[str | Text]:
    """The parts, with a separator between any two."""
    out: list[str | Text] = []
    for part in parts:
        out += [separator] * bool(out) + [part]
    return out
