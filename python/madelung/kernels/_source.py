"""Kernels in Python as source of the kernel language, with a map back.

One language, one lowering: what a kernel means, and what it may not do, is said by its compiler. Refused here is what
would mean something else there, and what has no words there.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from madelung.kernels import _language
from madelung.kernels import _text as binds
from madelung.kernels import _types as kinds
from madelung.kernels._definition import Definition
from madelung.kernels._errors import KernelError, in_python
from madelung.kernels._expressions import Expressions
from madelung.kernels._names import unique
from madelung.kernels._text import Text, joined

_PLAIN = (
    "this statement is not part of the kernel language: there are assignments, `+=`, `-=`, `if`, `for`, `continue` and "
    "`output[i] = …`"
)
_REFUSED: dict[type[ast.AST], str] = {
    ast.Try: "a kernel has no exceptions",
    ast.Raise: "a kernel has no exceptions",
    ast.Assert: "a kernel has no exceptions: `assert` what holds of the arrays before the call",
    ast.With: "a kernel has no context managers",
    ast.FunctionDef: "a kernel has no functions of its own: write a `@func` beside it",
    ast.AsyncFunctionDef: "a kernel has no functions of its own: write a `@func` beside it",
    ast.AsyncFor: "a kernel is a plain function",
    ast.AsyncWith: "a kernel is a plain function",
    ast.ClassDef: "a kernel has no classes",
    ast.Import: "modules are imported outside of kernels",
    ast.ImportFrom: "modules are imported outside of kernels",
    ast.Global: "a kernel changes nothing but its parameters `Out[…]`",
    ast.Nonlocal: "a kernel changes nothing but its parameters `Out[…]`",
    ast.Delete: "names end with the block they are assigned in: `del` is not needed",
    ast.Match: "there is no `match` in kernels: write `if` and `elif`",
}
# What has no backward pass: there with `adjoint=False`.
_CARRIED: dict[type[ast.AST], str] = {
    ast.While: "`while` has no trip count that the backward pass could replay: use `for n in range(lo, hi)`, or a "
    "loop over "
    "pairs or members (or `@kernel(adjoint=False)`)",
    ast.Break: "`break` makes later iterations depend on earlier ones, which the backward pass cannot replay: put what "
    "follows under an `if` (or `@kernel(adjoint=False)`)",
    ast.Return: "a kernel has no early return: put what follows under an `if` (or `@kernel(adjoint=False)`)",
}
_COMPOUND = {ast.Add: "+=", ast.Sub: "-=", ast.Mult: "*=", ast.Div: "/="}


class Function(Protocol):
    """Protocol of an object made by `@func`, or of a function of the library."""

    name: str
    gives_integer: bool
    integer_parameters: frozenset[int]

    def sources(self, block: Block, name: str) -> list[Text]:
        """Its source under a name, and that of its derivative."""
        ...


class Block:
    """The functions that a kernel calls, each once and under a name of its own."""

    def __init__(self, is_func: Any, named: Mapping[str, Function] = MappingProxyType({})) -> None:
        """`named`: functions that are written in any case, under these names."""
        self.is_func = is_func
        self.texts: list[Text] = []
        self._written = {id(function): name for name, function in named.items()}
        self._kept: list[Function] = list(named.values())
        self.changed: dict[Definition, dict[str, str]] = {}
        for name, function in named.items():
            self.texts += function.sources(self, name)

    def use(self, function: Function) -> str:
        """The name of a function in the source, which is written where it is first called."""
        if id(function) not in self._written:
            taken = {*self._written.values(), *_language.FUNCTIONS}
            name = self._written[id(function)] = unique(function.name, taken)
            # Names are told apart by their objects, which stay.
            self._kept.append(function)
            self.texts += function.sources(self, name)
        return self._written[id(function)]


class Source:
    """The source of a kernel, and for each stretch of it the place in Python."""

    def __init__(self, block: Block, kernel: Text, definition: Definition) -> None:
        self.text = joined(None, *[joined(None, part, "\n") for part in block.texts], kernel)
        self._changed, self._definition = block.changed, definition

    def __str__(self) -> str:
        return str(self.text)

    def error(self, message: str, line: int, column: int, end: tuple[int, int] | None = None) -> KernelError:
        """An error of the compiler at a place of the source, as one at the place in Python."""
        definition, node = self.text.place(line, column, end) or (self._definition, self._definition.tree)
        return definition.error(node, in_python(message, self._changed.get(definition)))


class Translator(Expressions):
    """Statements of a function: a kernel, a `@func`, or the derivative of one."""

    def __init__(self, definition: Definition, block: Block, adjoint: bool = True) -> None:
        super().__init__(definition, block, adjoint)
        f = definition.tree
        stored = [n.id for n in ast.walk(f) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        self._parameters = self._checked_parameters(f)
        self.bound = {*stored, *(a.arg for a in self._parameters)}
        self._mutable = self._changing(f, stored)
        self._lines: list[Text] = []
        self._depth = 0
        block.changed[definition] = self.names.changed
        self.body = f.body[1:] if ast.get_docstring(f) is not None else f.body

    def _checked_parameters(self, f: ast.FunctionDef) -> list[ast.arg]:
        args = f.args
        extra = args.vararg or args.kwarg or next(iter(args.kwonlyargs), None)
        if extra is not None:
            raise self.error(extra, "parameters are plain ones, each with an annotation: no `*`, no `**`")
        if args.defaults:
            raise self.error(
                args.defaults[0],
                "a parameter has no default: every call gives it (but for `Zero[…]`, and a batch of one)",
            )
        return [*args.posonlyargs, *args.args]

    def _changing(self, f: ast.AST, stored: Sequence[str]) -> set[str]:
        """The names that are declared as ones that change: sums, what a loop seeks, and any variable where there is no
        derivative."""
        changing: set[str] = set()
        for n in ast.walk(f):
            if isinstance(n, ast.AugAssign) and (isinstance(n.op, (ast.Add, ast.Sub)) or not self.adjoint):
                target = n.target
                while isinstance(target, ast.Subscript):
                    target = target.value
                changing |= {target.id} if isinstance(target, ast.Name) else set()
            elif isinstance(n, ast.Assign) and self._sought(n):
                changing.add(n.targets[0].id)  # type: ignore[attr-defined]
        if not self.adjoint:
            changing |= {name for name in stored if stored.count(name) > 1}
        return changing - {a.arg for a in self._parameters}

    def _sought(self, s: ast.Assign) -> bool:
        """Whether a statement is `m = max(m, x)` or `m = min(m, x)`."""
        match s:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=f, args=[a, b])):
                itself = any(isinstance(x, ast.Name) and x.id == name for x in (a, b))
                return itself and self.function(f) in ("max", "min")
        return False

    @property
    def rows(self) -> str:
        """The dimension over whose rows a kernel that was translated runs."""
        return self.annotations[self._parameters[0].arg].__name__

    @property
    def parameters(self) -> list[kinds.Parameter]:
        """The parameters of a kernel that was translated, without its index."""
        return [kinds.Parameter(a.arg, self.names[a.arg], self.annotations[a.arg]) for a in self._parameters[1:]]

    # Functions.

    def kernel(self, options: Mapping[str, Any]) -> Text:
        """The kernel, with its attribute."""
        f = self.definition.tree
        if f.returns is not None and not (isinstance(f.returns, ast.Constant) and f.returns.value is None):
            raise self.error(f.returns, "a kernel returns nothing: it writes to its parameters `Out[…]`")
        self._line(self.at(f, f"fn {self.names[f.name]}("))
        self._depth += 1
        for n, a in enumerate(self._parameters):
            written = self._annotated(a)
            is_dim = isinstance(self.annotations[a.arg], type) and issubclass(self.annotations[a.arg], kinds.Dim)
            if is_dim != (n == 0):
                message = "the first parameter of a kernel is its index, with the name of a dimension: `i: Atom`"
                raise self.error(
                    a,
                    message
                    if n == 0
                    else f"a dimension is the type of the first parameter alone, the index: {kinds.EXPECTED}",
                )
            kind = {"Real": "real", "i32": "int"}.get(written, "")
            self.scopes[0][a.arg] = "row" if is_dim else kind
            self._line(self.at(a, self.names[a.arg], ": ", self.at(a.annotation, written), ","))
        self._depth -= 1
        if not self._parameters:
            raise self.error(f, "the first parameter of a kernel is its index, with the name of a dimension: `i: Atom`")
        self._line(joined(None, ") {"))
        self._block(self.body)
        self._line(joined(None, "}"))
        return joined(None, *[joined(None, line, "\n") for line in [self._attribute(f, options), *self._lines]])

    def _attribute(self, f: ast.FunctionDef, options: Mapping[str, Any]) -> Text:
        if not self.adjoint:
            return joined(None, "#[kernel(no_adjoint)]")
        given = {k.arg: k.value for d in f.decorator_list if isinstance(d, ast.Call) for k in d.keywords}
        known = {a.arg for a in self._parameters}
        parts: list[Text] = []
        for inputs in options["fast"]:
            for name in inputs:
                if name not in known:
                    raise self.error(given.get("fast", f), f"`fast`: expected names of parameters, got {name!r}")
            names = ", ".join(self.names[name] for name in inputs)
            parts.append(self.at(given.get("fast", f), f"fast({names})"))
        over_pairs = any(getattr(of, "__origin__", None) is kinds.Pairs for of in self.annotations.values())
        options = {**options, "clusters": over_pairs and not (options["fast"] or options["small"])}
        parts += [joined(None, word) for word in ("scatter", "clusters", "small") if options[word]]
        if not parts:
            return joined(None, "#[kernel]")
        listed = [joined(None, ", " if n else "", part) for n, part in enumerate(parts)]
        return joined(None, "#[kernel(", *listed, ")]")

    def _annotated(self, a: ast.arg) -> str:
        if a.annotation is None:
            raise self.error(a, f"`{a.arg}` has no annotation: expected {kinds.EXPECTED}")
        annotation = self.annotations[a.arg] = self.definition.annotation(a.arg, a.annotation)
        written = kinds.written(annotation)
        if written is None:
            raise self.error(a.annotation, f"`{a.arg}`: expected {kinds.tuple_of_dims(annotation) or kinds.EXPECTED}")
        return written

    def func(self, name: str, attribute: str, returns: str) -> Text:
        """A function of kernels under a name, which gives back a type, or a tuple of as many reals as it has
        parameters."""
        f = self.definition.tree
        parts: list[str | Text] = []
        for a in self._parameters:
            written = self._annotated(a)
            if written not in kinds.VALUES:
                raise self.error(a.annotation, f"`{a.arg}`: a parameter of a function is {kinds.VALUES_EXPECTED}")
            self.scopes[0][a.arg] = {"Real": "real", "i32": "int"}.get(written, "")
            parts += [", "] * bool(parts) + [self.at(a, self.names[a.arg], ": ", self.at(a.annotation, written))]
        self._line(joined(None, f"#[{attribute}]"))
        self._line(self.at(f, f"fn {name}(", *parts, f") -> {returns} {{"))
        self._depth += 1
        self.scopes.append({})
        self._line(self._returned(f, self.body, returns == "i32"))
        self._depth -= 1
        self._line(joined(None, "}"))
        return joined(None, *[joined(None, line, "\n") for line in self._lines])

    def _returned(self, at: ast.AST, body: Sequence[ast.stmt], integer: bool) -> Text:
        """The value of a function: assignments, and then one `return`, or one in each branch of an `if`."""
        form = "a function is assignments and one `return …` at the end, or one in each branch of an `if`"
        for n, s in enumerate(body):
            match s:
                case ast.Return(value=ast.Tuple(elts=elts) as value):
                    parts = [joined(None, ", " if k else "", self.real(x)) for k, x in enumerate(elts)]
                    return self.at(value, "(", *parts, ")") if len(parts) > 1 else parts[0]
                case ast.Return(value=value) if value is not None:
                    if n + 1 < len(body):
                        raise self.error(body[n + 1], "nothing follows a `return`")
                    return self.expr(value) if integer else self.real(value)
                case ast.If(test=test, body=[ast.Return() as then], orelse=orelse):
                    otherwise = [*orelse, *body[n + 1 :]]
                    if not otherwise or not isinstance(otherwise[0], (ast.Return, ast.If)):
                        raise self.error(s, form)
                    a, b = (self._returned(s, branch, integer) for branch in ([then], otherwise))
                    return self.at(s, "if ", self.expr(test), " { ", a, " } else { ", b, " }")
                case ast.Assign() | ast.AnnAssign():
                    self._statement(s)
                case ast.AugAssign():
                    raise self.error(s, "a function has no sums: `+=` belongs in the kernel")
                case _:
                    raise self.error(s, _REFUSED.get(type(s), form))
        raise self.error(at, form)

    # Statements.

    def _line(self, text: Text) -> None:
        self._lines.append(joined(None, "    " * self._depth, text))

    def _block(self, body: Sequence[ast.stmt], names: Mapping[str, str] | None = None) -> None:
        self._depth += 1
        self.scopes += [dict(names or {}), {}] if names else [{}]
        for s in body:
            self._statement(s)
        for _ in range(2 if names else 1):
            self.closed |= self.scopes.pop().keys()
        self._depth -= 1

    def _statement(self, s: ast.stmt) -> None:
        match s:
            case ast.Assign(targets=targets, value=value):
                if len(targets) > 1:
                    self._once(s, value)
                for target in targets:
                    self._assign(s, target, value)
            case ast.AnnAssign(target=target, value=value, annotation=annotation):
                if value is None:
                    raise self.error(s, "a name is assigned where it is first written")
                self._assign(s, target, value, self._declared(annotation))
            case ast.AugAssign():
                self._change(s)
            case ast.If():
                self._if(s)
            case ast.For():
                self._for(s)
            case ast.Continue():
                self._line(self.at(s, "continue;"))
            case ast.Pass() | ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.While() | ast.Break() | ast.Return() if self.adjoint:
                raise self.error(s, _CARRIED[type(s)])
            case ast.While(test=test, body=body, orelse=orelse):
                self._no_else(s, orelse)
                always = isinstance(test, ast.Constant) and test.value is True
                self._line(self.at(s, "loop {") if always else self.at(s, "while ", self.expr(test), " {"))
                self._block(body)
                self._line(joined(None, "}"))
            case ast.Break():
                self._line(self.at(s, "break;"))
            case ast.Return(value=value):
                if value is not None:
                    raise self.error(value, "a kernel returns nothing: it writes to its parameters `Out[…]`")
                self._line(self.at(s, "return;"))
            case ast.Expr(value=ast.Call() as call) if not self.adjoint:
                self._line(self.at(s, self.expr(call), ";"))
            case ast.Expr():
                raise self.error(s, "a value that is not assigned does nothing here")
            case _:
                raise self.error(s, _REFUSED.get(type(s), _PLAIN))

    def _declared(self, annotation: ast.expr) -> tuple[ast.expr, str]:
        written = kinds.written(self.definition.annotation("", annotation))
        if written not in (*kinds.VALUES, "i64"):
            raise self.error(annotation, f"a value is {kinds.VALUES_EXPECTED}")
        return annotation, "i64" if written == "i32" and not self.adjoint else written

    def _assign(
        self, s: ast.stmt, target: ast.expr, value: ast.expr, declared: tuple[ast.expr, str] | None = None
    ) -> None:
        match target:
            case ast.Name(id=name):
                self._assign_name(s, target, name, value, declared)
            case ast.Subscript():
                integer = not self.adjoint and self.is_int(target)
                # A value is computed before its place, as in Python.
                text = self.expr(value) if integer else self.real(value)
                self._line(self.at(s, self.expr(target), " = ", text, ";"))
            case ast.Tuple() | ast.List():
                raise self.error(target, "names are assigned one by one")
            case ast.Attribute():
                raise self.error(target, "components are not assigned one by one: `v = vec3(x, y, z)`")
            case _:
                raise self.error(target, _PLAIN)

    def _assign_name(
        self, s: ast.stmt, target: ast.expr, name: str, value: ast.expr, declared: tuple[ast.expr, str] | None
    ) -> None:
        here, known = name in self.scopes[-1], self.kind(name) is not None
        if name in self.annotations:
            if self.adjoint or not kinds.single(self.annotations[name]):
                raise self.error(
                    target, f"`{name}` is a parameter: take another name, or write to an element, `{name}[row] = …`"
                )
            self._line(
                self.at(s, f"*{self.names[name]} = ", self._valued(value, kinds.integers(self.annotations[name])), ";")
            )
            return
        sought = known and not here and isinstance(s, ast.Assign) and self._sought(s)
        if known and not here and self.adjoint and not sought:
            raise self.error(
                target,
                f"`{name}` was assigned outside this block, and the backward pass cannot replay a variable that "
                f"changes: give "
                f"the new value another name, write `{name} = a if condition else b`, or a sum, `{name} += …`",
            )
        changes = name in self._mutable
        integer = self.is_int(value) and not (self.adjoint and changes) and (declared is None or declared[1] != "Real")
        text = self._initial(value) if isinstance(value, ast.BinOp) else None
        text = text or self._valued(value, integer)
        kind = "int" if integer else "row" if self.is_row(value) else "ivec" if self.is_ivec(value) else ""
        if sought or (known and not self.adjoint):
            self._line(self.at(s, self.at(target, self.names[name]), " = ", text, ";"))
            return
        # Known after its value: in `x = x + 1` the value's name is the older one.
        self.scopes[-1][name] = kind
        self.closed.discard(name)
        typed = joined(None, ": ", self.at(*declared)) if declared else ""
        let = "let mut " if changes else "let "
        self._line(self.at(s, let, self.at(target, self.names[name]), typed, " = ", text, ";"))

    def _valued(self, value: ast.expr, integer: bool) -> Text:
        return self.expr(value) if integer else self.real(value)

    def _initial(self, e: ast.BinOp) -> Text | None:
        """`[0.0] * 4` and `[0.0] * Channels`: an array of as many equal elements."""
        match e:
            case ast.BinOp(left=ast.List(elts=[x]), op=ast.Mult(), right=n):
                return self.at(e, "[", self.real(x), "; ", self.expr(n), "]")
        return None

    def _change(self, s: ast.AugAssign) -> None:
        op, target = s.op, s.target
        name = target.id if isinstance(target, ast.Name) else None
        read = target if name is None else ast.copy_location(ast.Name(name, ast.Load()), target)
        if self.adjoint and not isinstance(op, (ast.Add, ast.Sub)):
            if name is None or name not in self.scopes[-1] or name in self.annotations:
                raise self.error(
                    s,
                    "only `+=` and `-=` change a sum: a product or quotient carried through a loop cannot be replayed "
                    "backwards "
                    "(sum the logarithms)",
                )
            # No sum: in the block that a name belongs to, a new value takes the old one's place.
            let = "let mut " if name in self._mutable else "let "
            self._line(
                self.at(s, let, self.at(target, self.names[name]), " = ", self._binary(s, read, op, s.value), ";")
            )
            return
        if name is None:
            place = self.expr(target)
        else:
            # Its error says why it is not known here, where it is not.
            self.expr(read)
            single = kinds.single(self.annotations.get(name))
            place = self.at(target, "*" if single else "", self.names[name])
        integer = self.is_int(read) and not (self.adjoint and name is not None)
        word = _COMPOUND.get(type(op))
        if word is None or (integer and isinstance(op, ast.Div)):
            self._line(self.at(s, place, " = ", self._binary(s, read, op, s.value), ";"))
            return
        self._line(self.at(s, place, f" {word} ", self._valued(s.value, integer), ";"))

    def _no_else(self, s: ast.stmt, orelse: Sequence[ast.stmt]) -> None:
        if orelse:
            raise self.error(orelse[0], "a loop has no `else` here")

    def _if(self, s: ast.If) -> None:
        self._line(self.at(s, "if ", self.expr(s.test), " {"))
        self._block(s.body)
        orelse = s.orelse
        while len(orelse) == 1 and isinstance(orelse[0], ast.If):
            branch = orelse[0]
            self._line(self.at(branch, "} else if ", self.expr(branch.test), " {"))
            self._block(branch.body)
            orelse = branch.orelse
        if orelse:
            self._line(joined(None, "} else {"))
            self._block(orelse)
        self._line(joined(None, "}"))

    def _for(self, s: ast.For) -> None:
        self._no_else(s, s.orelse)
        targets = s.target.elts if isinstance(s.target, ast.Tuple) else [s.target]
        names = []
        for target in targets:
            if not isinstance(target, ast.Name):
                raise self.error(target, "the variables of a loop are plain names")
            if target.id != "_" and self.kind(target.id) is not None:
                raise self.error(
                    target, f"`{target.id}` has a value before the loop, which it would lose: take another name"
                )
            names.append(target.id)
        written = [name if name == "_" else self.names[name] for name in names]
        pattern = f"({', '.join(written)})" if isinstance(s.target, ast.Tuple) else written[0]
        over, known = self._over(s.iter, len(names))
        self._line(self.at(s, "for ", self.at(s.target, pattern), " in ", over, " {"))
        self._block(s.body, {name: kind for name, kind in zip(names, known) if name != "_"} or {"_": ""})
        self._line(joined(None, "}"))

    def _over(self, e: ast.expr, count: int) -> tuple[Text, list[str]]:
        """Range of a loop, and its variables."""
        match e:
            case ast.Call(func=f, args=args, keywords=[]) if self.function(f) == "range":
                if len(args) == 3:
                    raise self.error(e, "a range has no step: loop over `range(lo, hi)` and compute")
                if not args or any(isinstance(a, ast.Starred) for a in args):
                    raise self.error(e, "expected `range(lo, hi)`")
                lo: str | Text = self.expr(args[0]).within(binds.SHIFT) if len(args) == 2 else "0"
                return self.at(e, lo, "..", self.expr(args[-1]).within(binds.SHIFT)), ["int"]
            case ast.Call(func=ast.Attribute(attr="row" | "query")):
                return self.expr(e), ["row", "ivec", "row"]
            case ast.Call(func=ast.Attribute(attr="around")):
                return self.expr(e), ["row", ""]
            case ast.Call(func=ast.Name()):
                raise self.error(
                    e,
                    "a loop goes over `range(lo, hi)`, `pairs.row(i)`, `batch.members(b)`, `grid.query(x[i], "
                    "radius)`, `mesh.around(b, u)` or channels",
                )
        return self.expr(e), ["row"] * count
