"""Functions of Python with a kernel's annotations, which frameworks take as one opaque op.

A call of one is bound as that of a kernel is, and the shapes of its results follow from the names of dimensions, so
that nothing has to run for them to be known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import GenericAlias
from typing import Any, NamedTuple

from madelung import _arguments as check
from madelung._neighbors import Neighbors
from madelung._schema import HALF
from madelung.kernels import _types as kinds
from madelung.kernels._bind import Call, named
from madelung.kernels._definition import Definition
from madelung.kernels._op import OutputSpec

_AXES = {"Vec3": (3,), "IVec3": (3,), "Mat3": (3, 3)}
_INTEGERS = {"i32": "int32", "i64": "int64", "IVec3": "int32"}
# The inputs of each kind of argument.
_PARTS = {
    "batch": ("batch_idx",),
    "map": ("map_of",),
    "pairs": ("list", "ptr", "shifts", "list_kind"),
}
_EXPECTED = (
    "Array[T], Array[T, Rows] or Array[Real, Rows, Channels] with T = Real, Vec3, Mat3, IVec3 or Int, Real, Int, "
    "Batch[Rows, Systems], Pairs[Rows], Pairs[Rows, Columns, Entries], Map[Rows, Elements], or an array type of the "
    "framework"
)


class _Input(NamedTuple):
    """An input, as `madelung._schema.Input`."""

    name: str
    type: str
    arg: int
    part: str


def _names(annotation: Any) -> list[str]:
    return [d if isinstance(d, int) else d.__name__ for d in annotation.__args__]


def _shape(element: str, dims: Sequence[Any]) -> list[dict[str, Any]]:
    """A shape of the registry: sizes by the name of a dimension, and constant ones."""
    named = [{"const": d} if isinstance(d, int) else {"dim": d.__name__} for d in dims]
    return named + [{"const": n} for n in _AXES.get(element, ())]


class Output(NamedTuple):
    """A result: its name, its shape by dimensions and constants, and its dtype if it has integers."""

    name: str
    shape: list[dict[str, Any]]
    integer: str | None

    @classmethod
    def of(cls, spec: Any) -> Output:
        """The output that a declaration means."""
        is_spec = isinstance(spec, OutputSpec) and isinstance(spec.name, str)
        element = kinds.components(spec.type) if is_spec else ""
        sizes = tuple(spec.dims) if is_spec else ()
        is_dim = [isinstance(d, int) or (isinstance(d, type) and issubclass(d, kinds.Dim)) for d in sizes]
        if not element or not all(is_dim):
            check.refuse("outputs", "OutputSpec(name, type, dimensions)", repr(spec), TypeError)
        return cls(spec.name, _shape(element, sizes), _INTEGERS.get(element))


class _Call(Call):
    """A call of a body: a pair list stays as it was given, and there may be arrays of any kind."""

    def _first(self) -> tuple[Any, str]:
        for arg in self.op.args:
            if arg["kind"] in ("real", "any") and self.f.is_own(x := self.of(arg)):
                return x, self.name(arg)
        arg = next(arg for arg in self.op.args if arg["kind"] in ("real", "any"))
        got = check.described(self.of(arg))
        return check.refuse(self.name(arg), "an array of the function's framework", got, TypeError)

    def _pairs(self, arg: Mapping[str, Any]) -> dict[str, Any]:
        name, x = self.name(arg), self.of(arg)
        if isinstance(x, Neighbors):
            expected = "(neighbor_list, neighbor_ptr, neighbor_shifts), as `neighbors.coo()` gives"
            check.refuse(name, expected, "Neighbors", TypeError)
        parts = super()._pairs(arg)
        return {**parts, "list": self.f.integers(f"{name}: neighbor_list", x[0], (2, "P"), True)}

    def _any(self, arg: Mapping[str, Any]) -> dict[str, Any]:
        name, x = self.name(arg), self.of(arg)
        if not self.f.is_own(x):
            check.refuse(name, "an array of the function's framework", check.described(x), TypeError)
        return {"any": x}


class Body:
    """A function, its arguments in the words of the registry, and its results."""

    def __init__(self, function: Callable[..., Any], outputs: Sequence[Any] | None, array: type) -> None:
        """`outputs` are those that the function returns; None: those of its parameters that are `Out[…]`."""
        definition = Definition(function)
        self.function, self.label = function, definition.name
        self.args: list[dict[str, Any]] = []
        self.outputs = [] if outputs is None else [Output.of(spec) for spec in outputs]
        f = definition.tree.args
        if f.vararg or f.kwarg or f.kwonlyargs or f.defaults:
            check.refuse(self.label, "plain parameters", "defaults, or parameters with stars")
        for node in (*f.posonlyargs, *f.args):
            annotation = node.annotation and definition.annotation(node.arg, node.annotation)
            if outputs is None and getattr(annotation, "__origin__", None) is kinds.Out:
                element, *sizes = annotation.__args__
                self.outputs.append(Output.of(OutputSpec(node.arg, element, sizes)))
                continue
            if self.outputs and outputs is None:
                check.refuse(node.arg, "`Out[…]`, as outputs are the last parameters", "an input", TypeError)
            self.args.append({"name": node.arg, "zero": False, **self._declared(node.arg, annotation, array)})
        if not self.outputs:
            check.refuse("outputs", "one or more", "none")
        self._inputs()

    @staticmethod
    def _declared(name: str, annotation: Any, array: type) -> dict[str, Any]:
        if isinstance(annotation, type) and not isinstance(annotation, GenericAlias) and issubclass(annotation, array):
            return {"kind": "any"}
        if kinds.is_attribute(annotation) and annotation is not kinds.Int64:
            return {"kind": "int_scalar" if annotation in kinds.INTEGERS else "scalar"}
        origin = getattr(annotation, "__origin__", None)
        element = kinds.components(annotation) if origin is kinds.Array else ""
        if kinds.written(annotation) is None or not (element or origin in (kinds.Batch, kinds.Pairs, kinds.Map)):
            check.refuse(name, _EXPECTED, "no annotation" if annotation is None else annotation, TypeError)
        if element:
            kind = "ints" if element in _INTEGERS else "real"
            return {"kind": kind, "shape": _shape(element, annotation.__args__[1:])}
        names = _names(annotation)
        if origin is kinds.Pairs:
            rows, columns, entries = [*names, *[names[0], None][len(names) - 1 :]]
            return {"kind": "pairs", "rows": rows, "columns": columns, "entries": entries}
        return {
            "kind": origin.__name__.lower(),
            "rows": names[0],
            "systems" if origin is kinds.Batch else "into": names[1],
        }

    def _inputs(self) -> None:
        """The inputs in order, and which of them say how large each dimension is."""
        self.inputs: list[_Input] = []
        # By dimension: the input, its axis (None: the number itself), and by how much it is longer.
        self.places: dict[str, tuple[int, int | None, int]] = {}
        for n, arg in enumerate(self.args):
            for part in _PARTS.get(arg["kind"], (arg["kind"],)):
                at, is_number = len(self.inputs), part in ("scalar", "int_scalar", "list_kind")
                name = arg["name"] if part in ("list", arg["kind"], "batch_idx", "map_of") else f"{arg['name']}_{part}"
                self.inputs.append(
                    _Input(name, ("float" if part == "scalar" else "int") if is_number else "tensor", n, part)
                )
                if part in ("real", "ints"):
                    for axis, size in enumerate(arg["shape"]):
                        self.places.setdefault(size.get("dim", ""), (at, axis, 0))
                elif part in ("batch_idx", "map_of", "ptr"):
                    self.places.setdefault(arg["rows"], (at, 0, int(part == "ptr")))
                elif part == "list" and arg["entries"]:
                    self.places.setdefault(arg["entries"], (at, 1, 0))
        for n, arg in enumerate(self.args):
            if arg["kind"] == "batch" and arg["systems"] not in self.places:
                self.places[arg["systems"]] = (len(self.inputs), None, 0)
                self.inputs.append(_Input(f"{arg['name']}_systems", "int", n, "systems"))
        self.reals = [n for n, i in enumerate(self.inputs) if i.part == "real"]

    def needs(self, sizes: Collection[str] = ()) -> None:
        """Refuses results of dimensions that no argument has, and of which no size is given."""
        for out in self.outputs:
            for size in out.shape:
                if "dim" in size and size["dim"] not in {*self.places, *sizes}:
                    known = ", ".join(sorted(x for x in self.places if x)) or "none"
                    check.refuse(out.name, f"dimensions that an argument has ({known})", size["dim"])

    def flat(self, framework: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The inputs of a call, checked."""
        return _Call(self, framework, named(self.label, self, {}, args, kwargs), {}).flat()  # type: ignore[arg-type]

    def arguments(self, flat: Sequence[Any]) -> list[Any]:
        """The function's arguments: batches and lists as a kernel takes them."""
        given: list[list[Any]] = [[] for _ in self.args]
        for i, x in zip(self.inputs, flat):
            given[i.arg].append(x)
        found: list[Any] = []
        for arg, parts in zip(self.args, given):
            if arg["kind"] == "pairs":
                found.append((*parts[:3], True) if parts[3] == HALF else tuple(parts[:3]))
            else:
                found.append(parts[0] if len(parts) == 1 else tuple(parts))
        return found

    def shapes(self, flat: Sequence[Any], sizes: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """The shapes of the results; `sizes` has those of dimensions that no argument has."""

        def size(of: dict[str, Any]) -> Any:
            if "const" in of:
                return of["const"]
            if of["dim"] not in self.places:
                return (sizes or {})[of["dim"]]
            n, axis, more = self.places[of["dim"]]
            return flat[n] if axis is None else flat[n].shape[axis] - more

        return [tuple(map(size, out.shape)) for out in self.outputs]
