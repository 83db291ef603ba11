"""Functions of Python with a kernel's annotations, which frameworks take as one opaque op.

A call of one is bound as that of a kernel is, and the shapes of its results follow from the names of dimensions, so
that nothing has to run for them to be known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import GenericAlias
from typing import Any, ClassVar, NamedTuple

from madelung import _arguments as check
from madelung._functions.framework import is_half
from madelung._neighbors import Neighbors
from madelung._schema import HALF
from madelung.kernels import _types as kinds
from madelung.kernels._bind import Call, named
from madelung.kernels._definition import Definition
from madelung.kernels._op import OutputSpec

_AXES = {kind.word: kind.axes for kind in kinds.COMPONENTS}
_INTEGERS = {"i32": "int32", "i64": "int64", "IVec3": "int32"}
# The inputs of each kind of argument.
_PARTS = {
    "batch": ("batch_idx",),
    "map": ("map_of",),
    "pairs": ("list", "ptr", "shifts", "list_kind"),
}
_EXPECTED = (
    "Array[T], Array[T, Rows] or Array[T, Rows, Channels] with T = Real, Vec2, Vec3, Vec4, Mat2, Mat3, IVec3, Int "
    "or Int64, Real, Int, Int64, Batch[Rows, Systems], Pairs[Rows], Pairs[Rows, Columns, Entries], "
    "Map[Rows, Elements], or an array type of the framework"
)
_DTYPES = {"i32": ("int32", "int64"), "i64": ("int64",), "IVec3": ("int32", "int64")}
_REALS = ("float32", "float64")
# Kinds of arguments that are arrays; results are beside one of the first kind that there is.
_ARRAYS = ("real", "any", "ints")


class _Input(NamedTuple):
    """An input, as `madelung._schema.Input`."""

    name: str
    type: str
    arg: int
    part: str


def _names(annotation: Any) -> list[str]:
    return [d if isinstance(d, int) else d.__name__ for d in annotation.__args__]


def _shape(element: str, dims: Sequence[Any]) -> list[dict[str, Any]]:
    """A shape of the registry: sizes by the name of a dimension or of a parameter, and constant ones."""
    named = [{"const": d} if isinstance(d, int) else {"dim": getattr(d, "__name__", d)} for d in dims]
    return named + [{"const": n} for n in _AXES.get(element, ())]


class Output(NamedTuple):
    """A result: its name, its shape by dimensions and constants, its dtype (None: that of the reals), and whether it
    has integers."""

    name: str
    shape: list[dict[str, Any]]
    dtype: str | None
    is_integer: bool

    @classmethod
    def of(cls, spec: Any) -> Output:
        """The output that a declaration means."""
        is_spec = isinstance(spec, OutputSpec) and isinstance(spec.name, str)
        element = kinds.components(spec.type) if is_spec else ""
        sizes = tuple(spec.dims) if is_spec else ()
        if not element or not all(map(_is_size, sizes)):
            check.refuse("outputs", "OutputSpec(name, type, dimensions)", repr(spec), TypeError)
        dtype, allowed = _INTEGERS.get(element), _DTYPES.get(element, _REALS)
        if spec.dtype is not None:
            dtype = str(getattr(spec.dtype, "__name__", spec.dtype)).removeprefix("torch.")
            if dtype not in allowed:
                check.refuse(f"{spec.name}: dtype", " or ".join(map(repr, allowed)), repr(spec.dtype))
        return cls(spec.name, _shape(element, sizes), dtype, element in _INTEGERS)


def _is_size(d: Any) -> bool:
    """Whether it is a dimension of an output: one of arrays, the name of a parameter, or a number."""
    if isinstance(d, int):
        return not isinstance(d, bool) and d >= 0
    return isinstance(d, str) or (isinstance(d, type) and issubclass(d, kinds.Dim))


class _Call(Call):
    """A call of a body: a pair list stays as it was given, and there may be arrays of any kind."""

    def __init__(self, body: Any, framework: Any, given: Mapping[str, Any]) -> None:
        # Arrays of any kind are none of a kernel's, and keep their precision.
        self._as_given = given
        super().__init__(body, framework, given, {})

    def _first(self) -> tuple[Any, str]:
        arrays = [arg for kind in _ARRAYS for arg in self.op.args if arg["kind"] == kind]
        for arg in arrays:
            if self.f.is_own(x := self.of(arg)):
                return x, self.name(arg)
        got = check.described(self.of(arrays[0]))
        return check.refuse(self.name(arrays[0]), "an array of the function's framework", got, TypeError)

    def _in_one_precision(self) -> Any:
        """Nothing: a function takes half precision as it is."""

    def flat(self) -> list[Any]:
        """See `Call`; numbers that are sizes fit those of arrays, and others can be written to."""
        flat = super().flat()
        self._check_written(flat)
        for name, n in self.op.sizes.items():
            size = flat[n]
            if size < 0:
                check.refuse(name, "an integer from 0 up", size)
            if self.dims.setdefault(name, size) != size:
                check.refuse(name, f"{self.dims[name]}, the size that other arguments say", size)
        return flat

    def _check_written(self, flat: Sequence[Any]) -> None:
        inputs = [(i.name, x) for i, x in zip(self.op.inputs, flat) if i.type == "tensor"]
        for n in self.op.writes:
            name, x = self.op.inputs[n].name, flat[n]
            was = self._as_given[name]
            if not self.f.is_own(was) or was.dtype != x.dtype:
                check.refuse(name, f"an array of {x.dtype}, as it is written to", check.described(was), TypeError)
            for other, y in inputs:
                if self.f.is_differentiated(y):
                    expected = f"no gradient, as `{self.op.label}` writes to `{name}` and has no derivatives"
                    check.refuse(other, f"{expected} (`.detach()`)", "an array that is differentiated")
                has_memory = not (self.f.has_no_value(x) or self.f.has_no_value(y))
                if other != name and has_memory and self.f.overlap(x, y):
                    check.refuse(name, "memory of its own", f"that of `{other}`")

    def _real(self, arg: Mapping[str, Any]) -> dict[str, Any]:
        x = self.of(arg)
        if not self.f.is_own(x) or x.dtype != self.like.dtype or not is_half(x):
            return super()._real(arg)
        return {"real": self._array(arg, x, _of_half)}

    def _pairs(self, arg: Mapping[str, Any]) -> dict[str, Any]:
        name, x = self.name(arg), self.of(arg)
        if isinstance(x, Neighbors):
            expected = "(neighbor_list, neighbor_ptr, neighbor_shifts), as `neighbors.coo()` gives"
            check.refuse(name, expected, "Neighbors", TypeError)
        parts = super()._pairs(arg)
        return {**parts, "list": self.f.integers(f"{name}: neighbor_list", x[0], (2, "P"), True)}

    def _any(self, arg: Mapping[str, Any]) -> dict[str, Any]:
        name, x = self.name(arg), self._as_given[arg["name"]]
        if not self.f.is_own(x):
            check.refuse(name, "an array of the function's framework", check.described(x), TypeError)
        return {"any": x}


def _of_half(name: str, x: Any, shape: Sequence[int | str]) -> Any:
    """An array of half precision, which only functions take."""
    check.fits(name, x, shape)
    return x


class Body:
    """A function, its arguments in the words of the registry, and its results."""

    # Integers that are sizes of dimensions that no array has: see `Op`.
    sized: ClassVar[Sequence[str]] = ()

    def __init__(
        self,
        function: Callable[..., Any],
        outputs: Sequence[Any] | None,
        array: type,
        writes: Sequence[str] = (),
    ) -> None:
        """`outputs` are those that the function returns; None: those of its parameters that are `Out[…]`. `writes`:
        parameters whose arrays it writes to, beside those that are `InOut[…]`."""
        definition = Definition(function)
        self.function, self.label = function, definition.name
        self.args: list[dict[str, Any]] = []
        self.outputs = [] if outputs is None else [Output.of(spec) for spec in outputs]
        f = definition.tree.args
        if f.vararg or f.kwarg or f.kwonlyargs or f.defaults:
            check.refuse(self.label, "plain parameters", "defaults, or parameters with stars")
        for node in (*f.posonlyargs, *f.args):
            annotation = node.annotation and definition.annotation(node.arg, node.annotation)
            origin = getattr(annotation, "__origin__", None)
            if outputs is None and origin is kinds.Out:
                element, *sizes = annotation.__args__
                self.outputs.append(Output.of(OutputSpec(node.arg, element, sizes)))
                continue
            if self.outputs and outputs is None:
                check.refuse(node.arg, "`Out[…]`, as outputs are the last parameters", "an input", TypeError)
            arrays = (kinds.Array,) if outputs is None else (kinds.Array, kinds.InOut)
            declared = self._declared(node.arg, annotation, array, arrays)
            is_written = origin is kinds.InOut or node.arg in writes
            self.args.append({"name": node.arg, "zero": False, "in_out": is_written, **declared})
        self._inputs()
        # Arrays, those first by which results have their dtype; and those that the function writes to.
        self.arrays = [n for part in _ARRAYS for n, i in enumerate(self.inputs) if i.part == part]
        self.writes = [n for n, i in enumerate(self.inputs) if self.args[i.arg]["in_out"] and i.part in _ARRAYS]
        for name in writes:
            if name not in (known := [i.name for i in self.inputs if i.part in _ARRAYS]):
                check.refuse("mutates_args", "parameters that are arrays: " + ", ".join(known), repr(name))
        if not self.outputs and not self.writes:
            check.refuse("outputs", "one or more", "none")

    @staticmethod
    def _declared(name: str, annotation: Any, array: type, arrays: Sequence[Any]) -> dict[str, Any]:
        if isinstance(annotation, type) and not isinstance(annotation, GenericAlias) and issubclass(annotation, array):
            return {"kind": "any"}
        if kinds.is_attribute(annotation):
            if annotation not in kinds.INTEGERS:
                return {"kind": "scalar"}
            return {"kind": "int_scalar", "dtype": "i64" if annotation is kinds.Int64 else "i32"}
        origin = getattr(annotation, "__origin__", None)
        element = kinds.components(annotation) if origin in arrays else ""
        if kinds.written(annotation) is None or not (element or origin in (kinds.Batch, kinds.Pairs, kinds.Map)):
            expected = _EXPECTED if kinds.InOut not in arrays else f"{_EXPECTED}, or InOut[T, Rows]"
            check.refuse(name, expected, "no annotation" if annotation is None else annotation, TypeError)
        if element:
            kind = "ints" if element in _INTEGERS else "real"
            return {"kind": kind, "shape": _shape(element, annotation.__args__[1:]), "dtype": element}
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
        # Numbers that are the sizes of dimensions of their names.
        dims = {size.get("dim") for out in self.outputs for size in out.shape} | set(self.places)
        dims |= {arg["systems"] for arg in self.args if arg["kind"] == "batch"}
        numbers = {i.name: n for n, i in enumerate(self.inputs) if i.part == "int_scalar"}
        self.sizes = {name: n for name, n in numbers.items() if name in dims}
        for name, at in self.sizes.items():
            self.places.setdefault(name, (at, None, 0))
        for n, arg in enumerate(self.args):
            if arg["kind"] == "batch" and arg["systems"] not in self.places:
                self.places[arg["systems"]] = (len(self.inputs), None, 0)
                self.inputs.append(_Input(f"{arg['name']}_systems", "int", n, "systems"))

    def needs(self, sizes: Collection[str] = ()) -> None:
        """Refuses results of dimensions that no argument has, and of which no size is given."""
        for out in self.outputs:
            for size in out.shape:
                if "dim" in size and size["dim"] not in {*self.places, *sizes}:
                    known = ", ".join(sorted(x for x in self.places if x)) or "none"
                    check.refuse(out.name, f"dimensions that an argument has ({known})", size["dim"])

    def flat(self, framework: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The inputs of a call, checked."""
        given = named(self.label, self, {}, args, kwargs)  # type: ignore[arg-type]
        return _Call(self, framework, given).flat()

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
