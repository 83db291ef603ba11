"""The ops as frameworks have them, read from the compiled part's description of their registration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from madelung import _arguments as check

# The members of an op's family, by the suffix of their names: values, values and residuals for the gradient, values and
# the gradients of their sum, derivatives along one and two directions, the gradient, and its derivative along a
# direction.
VALUE, SAVING, DIRECT, TANGENT, SECOND = "", "_saving", "_direct", "_jvp", "_jvp2"
GRADIENT, GRADIENT_TANGENT = "_vjp", "_vjp_jvp"

# Among the gradients that are wanted of DIRECT: that all of them have the other sign.
NEGATIVE = 1 << 32

# The kinds of pair lists, by their numbers in a call; and the bit of a list that needs no check.
FULL, HALF, DIRECTED, CHECKED = 0, 1, 2, 4

# The numbers of a mesh: three sizes and the order of the splines; and of a window besides: three origins and extents.
_WHOLE, _WINDOW = 4, 10


@dataclass(frozen=True, slots=True)
class Input:
    """An input of an op (a tensor, an integer, a float or integers), and the part of its argument that it is."""

    name: str
    type: str
    arg: int
    part: str


def _size(size: Any, dims: dict[str, Any], attrs: dict[str, Any]) -> Any:
    """A size of the registry; where a dimension is symbolic, so is the result."""
    ((kind, what),) = size.items()
    if kind == "const":
        return what
    if kind == "dim":
        return dims[what]
    if kind == "attr":
        return attrs[what]
    parts = [_size(part, dims, attrs) for part in what]
    total = parts[0]
    for part in parts[1:]:
        total = total + part if kind == "sum" else total * part
    return total


def is_one_mesh(numbers: int) -> bool:
    """Whether so many numbers are those of one mesh or window, for all systems."""
    return numbers in (_WHOLE, _WINDOW)


def counted(meshes: Sequence[int], systems: Any) -> tuple[Any, Any]:
    """The nodes and the waves of meshes, of all systems alike or of each; None for the waves of windows."""
    is_one = is_one_mesh(len(meshes))
    width = _WINDOW if len(meshes) == _WINDOW or (not is_one and len(meshes) == _WINDOW * systems) else _WHOLE
    each = [meshes[n : n + width] for n in range(0, len(meshes), width)]
    nodes = sum(math.prod(mesh[7:] or mesh[:3]) for mesh in each)
    is_whole = all(tuple(mesh[4:]) in ((), (0, 0, 0, *mesh[:3])) for mesh in each)
    waves = sum(k1 * k2 * (k3 // 2 + 1) for k1, k2, k3, *_ in each) if is_whole else None
    of_all = systems if is_one else 1
    return nodes * of_all, None if waves is None else waves * of_all


class Op:
    """An op: the inputs of its call in order, and its outputs. Frameworks have their own dtypes."""

    float32: Any
    float64: Any
    integers: dict[str, Any]
    stored: tuple[Any, ...]
    tensor_types: ClassVar = {"tensor"}

    def __init__(self, described: dict[str, Any]) -> None:
        op = described["op"]
        self.namespace: str = op["namespace"]
        self.short: str = op["name"]
        self.name = f"{op['name']}_v{op['version']}"
        self.args: list[dict[str, Any]] = op["args"]
        self.outputs: list[dict[str, Any]] = op["outputs"]
        self.scratch: list[dict[str, Any]] = op["scratch"]
        self.saves: list[str] = described["saves"]
        self.computes_indices: bool = op["computes_indices"]
        self.inputs = [Input(i["name"], i["type"], i["arg"], i["part"]) for i in described["inputs"]]
        # Positions among the inputs.
        self.reals = [n for n, i in enumerate(self.inputs) if i.part == "real"]
        self.tensors = [n for n, i in enumerate(self.inputs) if i.type in self.tensor_types]
        self.numbers = [n for n, i in enumerate(self.inputs) if i.type not in self.tensor_types]
        # Bits of the differentiable inputs by name; of those whose gradients are returned with the other sign, and of
        # those by which hybrid energies have no first derivative.
        names = [self.inputs[n].name for n in self.reals]
        self.bit = {name: 1 << k for k, name in enumerate(names)}
        reals = [self.args[self.inputs[n].arg] for n in self.reals]
        self.negative = self.bits(*(a["name"] for a in reals if a["negated"]))
        self.hybrid_constants = self.bits(*(a["name"] for a in reals if a["geometry"]))
        # Positions among the outputs of those that have derivatives.
        self.smooth = [n for n, o in enumerate(self.outputs) if o["dtype"] is None]
        # Integers that are sizes of dimensions of outputs, by the names of these.
        dims = {size.get("dim") for o in self.outputs for size in o["shape"]}
        self.sized = [i.name for i in self.inputs if i.part == "int_scalar" and i.name in dims]

    def __repr__(self) -> str:
        return f"{self.namespace}::{self.name}"

    def bits(self, *names: str) -> int:
        """The bits of differentiable inputs."""
        return sum(self.bit.get(name, 0) for name in names)

    def wanted(self, outputs: check.Outputs) -> int:
        """The bits of the gradients that a call returns."""
        flags = {"positions": outputs.forces, "charges": outputs.charge_gradients, "strain": outputs.virial}
        return self.bits(*(name for name, wanted in flags.items() if wanted))

    def tangent(self, directions: Sequence[dict[str, Any]]) -> tuple[str, list[Any]]:
        """The member that differentiates along one direction or along two, and the tensors behind its inputs: for each
        direction one of each differentiable input, or None."""
        extra = [direction.get(name) for direction in directions for name in self.bit]
        return (TANGENT, SECOND)[len(directions) - 1], extra

    def extras(self, member: str) -> int:
        """The number of tensors that follow the inputs."""
        return len(self.extra_shapes(member))

    def extra_shapes(self, member: str) -> list[Any]:
        """The shapes of the tensors that follow the inputs; None for saved ones."""
        outputs, reals = (
            [o["shape"] for o in self.outputs],
            [self.args[self.inputs[n].arg]["shape"] for n in self.reals],
        )
        return {
            VALUE: [],
            SAVING: [],
            DIRECT: [],
            TANGENT: reals,
            SECOND: [*reals, *reals],
            GRADIENT: [*outputs, *[None] * len(self.saves)],
            GRADIENT_TANGENT: [*outputs, *reals],
        }[member]

    @cached_property
    def _order(self) -> list[tuple[int, str, int]]:
        """The inputs that give the sizes of dimensions: (input, dimension, axis); −1: the number itself, −2: rows +
        1."""
        places = []
        for n, i in enumerate(self.inputs):
            arg = self.args[i.arg]
            if i.part in ("real", "ints") and not arg.get("zero"):
                places += [(n, s["dim"], axis) for axis, s in enumerate(arg["shape"]) if "dim" in s]
            elif i.part in ("batch_idx", "map_of"):
                places.append((n, arg["rows"], 0))
            elif i.part == "ptr":
                places.append((n, arg["rows"], -2))
            elif i.part == "others" and arg["entries"] is not None:
                places.append((n, arg["entries"], 0))
            elif i.part in ("systems", "columns", "into"):
                places.append((n, arg[i.part], -1))
            elif i.name in self.sized:
                places.append((n, arg["name"], -1))
        return places

    def dims(self, flat: Sequence[Any], shape: Callable[[int, Any], Any] = lambda _, t: t.shape) -> dict[str, Any]:
        """The sizes of the dimensions."""
        dims: dict[str, Any] = {}
        for n, dim, axis in self._order:
            if dim not in dims:
                if axis == -1:
                    dims[dim] = flat[n]
                elif axis == -2:
                    dims[dim] = shape(n, flat[n])[0] - 1
                else:
                    dims[dim] = shape(n, flat[n])[axis]
        for n, i in enumerate(self.inputs):
            arg = self.args[i.arg]
            # The numbers of a tensor are not known in a graph.
            if i.part == "meshes" and isinstance(flat[n], tuple):
                dims[arg["nodes"]], dims[arg["waves"]] = counted(flat[n], dims[arg["systems"]])
                if dims[arg["waves"]] is None and any({"dim": arg["waves"]} in o["shape"] for o in self.outputs):
                    check.refuse(arg["name"], "whole meshes, as waves are those of all nodes", "windows")
        return dims

    def shape(self, sizes: list[Any], flat: Sequence[Any], dims: dict[str, Any]) -> list[Any]:
        """The shape of an array of the registry."""
        attrs = {i.name: flat[n] for n, i in enumerate(self.inputs) if i.part == "int_scalar"}
        return [_size(size, dims, attrs) for size in sizes]

    def dtype(self, flat: Sequence[Any]) -> Any:
        """The dtype that kernels compute in: of the real arrays without a storage dtype of their own."""
        stored = []
        for n in self.reals:
            if not self.args[self.inputs[n].arg]["stored"]:
                return flat[n].dtype
            stored.append(flat[n].dtype)
        return self.float64 if self.float64 in stored or not stored else self.float32

    def output_dtype(self, output: dict[str, Any], flat: Sequence[Any]) -> Any:
        """The dtype of an output."""
        if output["dtype"] is not None:
            return self.integers[output["dtype"]]
        if output["stored_as"] is not None:
            return next(flat[n].dtype for n in self.reals if self.inputs[n].name == output["stored_as"])
        return self.dtype(flat)

    def check(self, flat: Sequence[Any]) -> None:
        """Errors that tracing would otherwise bury: the kernel finds these, and more, when it runs."""
        real = self.dtype(flat)
        for n in self.tensors:
            i, tensor = self.inputs[n], flat[n]
            arg = self.args[i.arg]
            absent = bool(arg.get("zero")) and tensor.ndim == 1
            if i.part == "real" and not absent:
                allowed = self.stored if arg["stored"] else (self.float32, self.float64)
                if tensor.dtype not in allowed or (not arg["stored"] and tensor.dtype != real):
                    wanted = real if real in allowed and not arg["stored"] else "one of floating-point numbers"
                    raise ValueError(f"`{i.name}`: expected {wanted}, got {tensor.dtype}")
            elif i.part != "real" and tensor.dtype not in self.integers.values():
                int32, int64 = self.integers.values()
                raise ValueError(f"`{i.name}`: expected {int32} or {int64}, got {tensor.dtype}")
            if i.part in ("ptr", "others", "shifts"):
                # Offsets or ranges of rows; of rows, or of clusters.
                axes = (1, 2)
            else:
                axes = (len(arg["shape"]) if i.part in ("real", "ints") else 1,)
            if not absent and tensor.ndim not in axes:
                expected = " or ".join(map(str, axes))
                raise ValueError(f"`{i.name}`: expected {expected} axes, got shape {tuple(tensor.shape)}")

    @cached_property
    def stackable(self) -> bool:
        """Whether many calls are one call of a larger batch: every array has rows of a dimension, so that nothing is
        shared between calls nor summed over all, and no map or kernel names elements by their numbers."""
        if self.computes_indices or any(a["kind"] == "map" for a in self.args):
            return False
        arrays = [a["shape"] for a in self.args if a["kind"] in ("real", "ints")]
        arrays += [o["shape"] for o in [*self.outputs, *self.scratch]]
        # Dimensions that a larger batch has more of; features are as many as before.
        grown = {shape[0].get("dim") for shape in arrays if shape}
        grown |= {a[side] for a in self.args for side in ("rows", "systems", "columns", "into", "entries") if side in a}

        def stays(size: dict[str, Any]) -> bool:
            return "const" in size or ("dim" in size and size["dim"] not in grown)

        return all(shape and "dim" in shape[0] and all(map(stays, shape[1:])) for shape in arrays)


class NamedOp(Op):
    """An op whose members are called by name, on arrays whose dtypes are NumPy's."""

    float32, float64 = np.dtype(np.float32), np.dtype(np.float64)
    integers: ClassVar = {"i32": np.dtype(np.int32), "i64": np.dtype(np.int64)}
    stored = (float32, float64)

    def __init__(self, described: dict[str, Any]) -> None:
        super().__init__(described)
        self.targets: dict[str, str] = dict(described["targets"])

    @property
    def members(self) -> list[str]:
        """The suffixes of its members."""
        return list(self.targets)

    def energies(self, want: int, run: Callable[[str, int, int], list[Any]]) -> list[Any]:
        """The energies, then minus the gradients by positions and strain, and those by other inputs in `want`.

        `run` calls a member with bits of wanted gradients, and of results whose other sign is returned.
        """
        if not want:
            return run(VALUE, 0, 0)
        if want & ~self.negative:
            energies, *gradients = run(DIRECT, want, (self.negative & want) << 1)
        else:
            energies, *gradients = run(DIRECT, want | NEGATIVE, 0)
        return [energies, *(g for k, g in enumerate(gradients) if want >> k & 1)]

    def arrays(self, inputs: Sequence[Any], cotangents: Any) -> dict[str, Any]:
        """The arrays of a call by their names: those of the inputs, and cotangents that are not None."""
        if len(inputs) != len(self.inputs):
            expected = ", ".join(i.name for i in self.inputs)
            check.refuse("inputs", f"{len(self.inputs)} of them ({expected})", len(inputs))
        if not isinstance(cotangents, (list, tuple, type(None))):
            expected = "a tuple with an array, or None for zero, for each output"
            check.refuse("cotangents", expected, check.described(cotangents), TypeError)
        extra = [] if cotangents is None else list(cotangents)
        if cotangents is not None and len(extra) != len(self.outputs):
            check.refuse("cotangents", f"{len(self.outputs)}, one for each output", len(extra))
        given = {self.inputs[n].name: inputs[n] for n in self.tensors}
        named = {f"cotangent of {output['name']}": x for output, x in zip(self.outputs, extra)}
        return given | {name: x for name, x in named.items() if x is not None}

    def call(
        self, inputs: Sequence[Any], arrays: dict[str, Any], cotangents: Any, run: Callable[..., list[Any]]
    ) -> Any:
        """The outputs, or with cotangents the gradients by all differentiable inputs; `run` calls a member."""
        flat = [arrays[i.name] if i.type == "tensor" else _number(i, x) for i, x in zip(self.inputs, inputs)]
        if cotangents is None:
            return tuple(run(VALUE, flat))
        weights = [arrays.get(f"cotangent of {output['name']}") for output in self.outputs]
        return tuple(run(GRADIENT, flat, [*weights, *[None] * len(self.saves)], (1 << len(self.reals)) - 1))


def _number(i: Input, x: Any) -> float | int | tuple[int, ...]:
    if i.type == "integers":
        return check.integer_list(i.name, x)
    return check.integer(i.name, x) if i.type == "int" else check.number(i.name, x)


def named(ops: Mapping[str, Any], name: Any) -> Any:
    """The op of a name."""
    op = ops.get(name) if isinstance(name, str) else None
    if op is None:
        check.refuse("name", "one of " + ", ".join(ops), check.described(name))
    return op
