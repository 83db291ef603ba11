"""The types of a kernel's parameters.

They say what a parameter is, and hold nothing: callers hand on the arrays of their own library. Only a grid is an
argument too, as its points come with a cell.
"""

from __future__ import annotations

from types import GenericAlias
from typing import Any, NamedTuple

from madelung._grids import HashGrid


class Dim:
    """Dimension of arrays: atoms, systems, pairs. Its size comes from the arrays of a call.

    `class Atom(Dim): ...` makes one, as `dims("Atom System")` makes several.
    """


def dims(names: str) -> tuple[type[Dim], ...]:
    """Dimensions of these names, separated by spaces or commas, as a tuple: `Atom, System = dims("Atom System")`,
    `(Atom,) = dims("Atom")`."""
    words = names.replace(",", " ").split()
    for word in words:
        if not (word.isidentifier() and word.isascii()):
            raise ValueError(f"`names`: expected names of dimensions, as in `dims('Atom System')`, got {word!r}")
    return tuple(type(word, (Dim,), {}) for word in words)


class Type:
    """A type of the language, by its word there, and the axes of one element in an array."""

    word = ""
    axes: tuple[int, ...] = ()


class Real(Type):
    """Real number. As a parameter of a kernel: an attribute, the same for all rows and without derivative."""

    word = "Real"


class Int(Type):
    """Integer. As a parameter of a kernel: an attribute; in arrays: 32 bits."""

    word = "i32"


class Int64(Type):
    """Integer of 64 bits, in arrays of kernels that are not differentiated. As a parameter of a Python function: an
    attribute."""

    word = "i64"


class Vec2(Type):
    """Two reals."""

    word, axes = "Vec2", (2,)


class Vec3(Type):
    """Three reals."""

    word, axes = "Vec3", (3,)


class Vec4(Type):
    """Four reals."""

    word, axes = "Vec4", (4,)


class IVec3(Type):
    """Three integers."""

    word, axes = "IVec3", (3,)


class Mat2(Type):
    """Two rows of two reals."""

    word, axes = "Mat2", (2, 2)


class Mat3(Type):
    """Three rows of three reals."""

    word, axes = "Mat3", (3, 3)


class _Parametrised(Type):
    def __class_getitem__(cls, args: Any) -> GenericAlias:
        return GenericAlias(cls, args if isinstance(args, tuple) else (args,))


class Array(_Parametrised):
    """Input: `Array[T]` is one element, `Array[T, Rows]` one for each row, and `Array[T, Rows, Channels]` one for each
    row and channel; of reals that may be a table over the elements of maps. T is Real, Vec2, Vec3, Vec4, Mat2 or Mat3;
    without channels IVec3 or Int, too.
    """


class Zero(_Parametrised):
    """Input that is zero in every call, and is there for its derivatives: `Zero[Mat3, System]`, the strain."""


class Out(_Parametrised):
    """Output: `Out[T]` is one element, `Out[T, Rows]` one for each row, and `Out[T, Rows, Channels]` one for each row
    and channel."""


class InOut(_Parametrised):
    """Output that holds at first what the caller's array holds, in kernels with `adjoint=False`: `InOut[T]`,
    `InOut[T, Rows]`. A row may read its own element at any time, and atomics count onto what is there."""


class Batch(_Parametrised):
    """System of each row: `Batch[Rows, Systems]` has `atoms.of(i)` and `atoms.members(b)`."""

    word = "Batch"


class Pairs(_Parametrised):
    """Pairs of rows: `Pairs[Rows]`, `Pairs[Rows, Columns]` or `Pairs[Rows, Columns, Entries]` has `pairs.row(i)`."""

    word = "Pairs"


class Map(_Parametrised):
    """Element of another dimension for each row: `Map[Rows, Elements]` has `kinds.of(i)`."""

    word = "Map"


class Mesh(_Parametrised):
    """Mesh of each system: `Mesh[Systems, Nodes]` or `Mesh[Systems, Nodes, Waves]` has `mesh.around(b, u)`."""

    word = "Mesh"


INTEGERS = (Int, Int64, int)
COMPONENTS = (Real, Int, Int64, Vec2, Vec3, Vec4, IVec3, Mat2, Mat3)
# The words of values: what a name in a kernel may be, and what a function takes and gives back.
VALUES = ("Real", "i32", "Vec2", "Vec3", "Vec4", "Mat2", "Mat3")
VALUES_EXPECTED = "Real, Int, Vec2, Vec3, Vec4, Mat2 or Mat3"
OUTPUTS = (Out, InOut)
STRUCTURES = (Batch, Pairs, Map, Mesh, HashGrid)


def _element(annotation: Any) -> str | None:
    if isinstance(annotation, type) and issubclass(annotation, COMPONENTS):
        return annotation.word
    if isinstance(annotation, GenericAlias) and annotation.__origin__ is Zero and len(annotation.__args__) == 1:
        inner = _element(annotation.__args__[0])
        return inner and f"Zero<{inner}>"
    return {float: "Real", int: "i32"}.get(annotation)


def _dimension(argument: Any) -> str | None:
    return argument.__name__ if isinstance(argument, type) and issubclass(argument, Dim) else None


def written(annotation: Any) -> str | None:
    """An annotation as the language writes it; None where it is none."""
    if not isinstance(annotation, GenericAlias):
        return _dimension(annotation) or _element(annotation)
    origin, args = annotation.__origin__, annotation.__args__
    if origin in STRUCTURES:
        names = [_dimension(argument) for argument in args]
        return None if None in names else f"&{origin.word}<{', '.join(map(str, names))}>"
    if origin not in (Array, Zero, *OUTPUTS) or not 1 <= len(args) <= 3:
        return None
    element, names = _element(args[0]), [_dimension(argument) for argument in args[1:]]
    if element is None or None in names:
        return None
    text = f"{origin.__name__}<{element}>" if origin in (Zero, InOut) else element
    for name in reversed(names):
        text = f"[{text}; {name}]"
    return f"&mut {text}" if origin in OUTPUTS else f"&{text}"


EXPECTED = (
    "the name of a dimension (the index), Real or Int (attributes), Array[T], Array[T, Rows] or Array[T, Rows, "
    "Channels] with T = Real, Vec2, Vec3, Vec4, Mat2, Mat3, IVec3 or Int, Zero[T, Rows], Out[T], Out[T, Rows] or "
    "Out[T, Rows, Channels], InOut[T] or InOut[T, Rows], Batch[Rows, Systems], Pairs[Rows], "
    "Pairs[Rows, Columns, Entries], HashGrid[Rows, Points], Map[Rows, Elements], Mesh[Systems, Nodes] or "
    "Mesh[Systems, Nodes, Waves]"
)


def tuple_of_dims(annotation: Any) -> str:
    """Expectation in the place of a tuple that `dims` gives; empty where there is none."""
    for x in annotation.__args__ if isinstance(annotation, GenericAlias) else (annotation,):
        if isinstance(x, tuple) and x and all(_dimension(dim) for dim in x):
            names = ", ".join(dim.__name__ for dim in x)
            one = f"`({names},) = dims('{names}')`, or `class {names}(Dim): ...`" if len(x) == 1 else f"one of {names}"
            return f"a dimension, got the tuple that `dims` gives: {one}"
    return ""


def integers(annotation: Any) -> bool:
    """Whether a parameter, or an element of it, is an integer."""
    if isinstance(annotation, GenericAlias):
        annotation = annotation.__args__[0]
    return annotation in INTEGERS


def single(annotation: Any) -> bool:
    """Whether a parameter is an array of one element."""
    return (
        isinstance(annotation, GenericAlias)
        and annotation.__origin__ in (Array, *OUTPUTS)
        and len(annotation.__args__) == 1
    )


def is_place(annotation: Any) -> bool:
    """Whether an array of one element is read and written at its place, with a star, in kernels without adjoint."""
    return single(annotation) and (annotation.__origin__ in OUTPUTS or integers(annotation))


def components(annotation: Any) -> str:
    """The word of an array's elements; empty where there are none."""
    while isinstance(annotation, GenericAlias):
        annotation = annotation.__args__[0]
    if annotation in (float, int):
        return _element(annotation) or ""
    return annotation.word if isinstance(annotation, type) and issubclass(annotation, COMPONENTS) else ""


def is_attribute(annotation: Any) -> bool:
    """Whether a parameter is one number for all rows."""
    return annotation in (Real, float, *INTEGERS)


def is_zero(annotation: Any) -> bool:
    """Whether an input is zero in every call."""
    inner = annotation.__args__[0]
    return annotation.__origin__ is Zero or (isinstance(inner, GenericAlias) and inner.__origin__ is Zero)


class Parameter(NamedTuple):
    """Parameter of a kernel: its name in Python and in the source, and its annotation."""

    name: str
    written: str
    annotation: Any
