"""Ops of kernels: declared by the annotations of their parameters, called by name in every framework."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung._interop import framework_of
from madelung.kernels import _llvm, _tape
from madelung.kernels import _types as kinds
from madelung.kernels._bind import Call, Query, named
from madelung.kernels._frameworks import Calls, rooms_of
from madelung.kernels._repeated import Repeated
from madelung.kernels._types import Parameter

_CONSTRAINTS = ("positive", "not_negative", "finite", "cell", "full")
# Dimensions of batches, lists, maps and meshes, by what they are there.
_SIDES = ("rows", "columns", "entries", "systems", "into", "nodes", "waves")
_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class OutputSpec:
    """Array that an op gives back, or keeps between its steps: its name, the type of an element, and the dimensions.

    `OutputSpec("total", Real, (System,))` is a real for each system. A dimension of an op of a Python function may also
    be the name of a parameter `Int`, or a number.
    """

    name: str
    type: Any = kinds.Real
    dims: Sequence[Any] = ()
    dtype: Any = None
    """Precision of a Python function's result: "float32" or "float64" of reals, "int32" or "int64" of integers. None:
    that of the arrays of reals, and of integers that of the type."""

    def __post_init__(self) -> None:
        if not isinstance(self.dims, (tuple, list)):
            expected = f"a tuple of dimensions of `{self.name}`, such as (Atom,)"
            check.refuse("dims", expected, check.described(self.dims), TypeError)
        object.__setattr__(self, "dims", tuple(self.dims))


def _array(annotation: Any) -> tuple[str, ...]:
    """The word of an array's elements, and the names of its dimensions."""
    return kinds.components(annotation), *(d.__name__ for d in annotation.__args__[1:])


def _is_output(p: Parameter) -> bool:
    return getattr(p.annotation, "__origin__", None) in kinds.OUTPUTS


def _is_in_out(p: Parameter) -> bool:
    return getattr(p.annotation, "__origin__", None) is kinds.InOut


class Declaration:
    """An op's arguments, outputs and steps."""

    def __init__(
        self,
        name: str,
        steps: Sequence[Any],
        outputs: Sequence[OutputSpec] | None = None,
        scratch: Sequence[OutputSpec] = (),
        saved: Sequence[OutputSpec] = (),
        constraints: Mapping[str, str] = _NONE,
    ) -> None:
        self.steps = list(steps)
        self.names: dict[str, str] = {}
        for p in (p for k in self.steps for p in k.parameters):
            self.names.setdefault(p.written, p.name)
        made = {p.written: _array(p.annotation) for k in self.steps for p in k.parameters if _is_output(p)}
        self.scratch, self.saved = (self._chosen("scratch", made, x) for x in (scratch, saved))
        written = [name for name in made if name not in {*self.scratch, *self.saved}]
        self.outputs = written if outputs is None else self._chosen("outputs", made, outputs)
        if left := [name for name in written if name not in self.outputs]:
            check.refuse("scratch", f"`{left[0]}`, which a step writes and `outputs` leaves out", "none of this name")
        # Where each of the outputs stands among those of the steps.
        self.order = [written.index(name) for name in self.outputs]
        # In-out arrays of which no earlier step leaves anything begin as arguments.
        firsts = {p.written: p for k in reversed(self.steps) for p in reversed(k.parameters) if _is_output(p)}
        self.in_out = [name for name in self.outputs if _is_in_out(firsts[name])]
        self._arguments(made, firsts)
        self.queries = self._queried(made)
        self.constraints = self._constrained(made, constraints)
        namespace, _, self.label = name.rpartition("::")
        meant = [[k.source for k in self.steps], self.scratch, self.saved, self.constraints]
        digest = hashlib.sha256(json.dumps(meant).encode()).hexdigest()[:10]
        # With what it means in its name: a changed op is another one, and graphs keep the one they were compiled with.
        self.name = (namespace or "user", f"{self.label}_{digest}", 1)

    def _chosen(self, what: str, made: Mapping[str, Any], specs: Sequence[OutputSpec]) -> list[str]:
        """The names in the source of arrays that steps write."""
        of = {self.names[written]: written for written in made}
        for spec in specs:
            array = kinds.Out[(spec.type, *spec.dims)] if isinstance(spec, OutputSpec) else None
            if array is not None and spec.dtype is not None:
                check.refuse(spec.name, "no dtype, as kernels compute in that of their arrays", repr(spec.dtype))
            if array is None or kinds.written(array) is None:
                check.refuse(what, "OutputSpec(name, type, dimensions)", repr(spec), TypeError)
            if spec.name not in of:
                check.refuse(what, "arrays that a step writes: " + ", ".join(of), spec.name)
            if _array(array) != made[of[spec.name]]:
                check.refuse(spec.name, "the type and dimensions that it has in the step that writes it", "others")
        return [of[spec.name] for spec in specs]

    def _arguments(self, made: Mapping[str, Any], firsts: Mapping[str, Parameter]) -> None:
        """Refuses steps that do not fit each other."""
        for name in (*self.scratch, *self.saved):
            if _is_in_out(firsts[name]):
                expected = f"`{self.names[name]}` to be written by a step before one that goes on with it"
                check.refuse("scratch", expected, "none")
        found: dict[str, str | None] = {}
        written: set[str] = set()
        for k in self.steps:
            for p in k.parameters:
                if p.written not in made:
                    kind = kinds.written(p.annotation)
                    if found.setdefault(p.written, kind) != kind:
                        check.refuse("steps", f"one type for `{p.name}` in all of them", f"another in `{k.__name__}`")
                elif p.written not in written and not _is_output(p) and p.written not in self.in_out:
                    check.refuse("steps", f"`{p.name}` to be written before `{k.__name__}` reads it", "a later step")
                elif p.written in written and not _is_output(p) and p.written not in {*self.scratch, *self.saved}:
                    reads = f"`{p.name}`, which `{k.__name__}` reads after an earlier step wrote it"
                    check.refuse("scratch", reads, "none of this name")
                elif _array(p.annotation) != made[p.written]:
                    check.refuse("steps", f"one type for `{p.name}` in all of them", f"another in `{k.__name__}`")
            written |= {p.written for p in k.parameters if _is_output(p)}

    def _queried(self, made: Mapping[str, Any]) -> dict[str, Query]:
        """The query of each grid: one search for all steps, ahead of them."""
        found: dict[str, tuple[str, str]] = {}
        points: dict[str, set[str]] = {}
        for k in self.steps:
            for grid, (positions, radius) in k.queries.items():
                name, of = self.names[grid], (positions, radius)
                if positions in made:
                    expected = f"`{name}` to be queried around an argument, as the search comes before the steps"
                    check.refuse("steps", expected, f"`{self.names[positions]}`, which a step writes")
                if found.setdefault(grid, of) != of:
                    expected = f"one query of `{name}` in all of them (or two grids)"
                    check.refuse("steps", expected, f"another in `{k.__name__}`")
                of_points = next(p.annotation for p in k.parameters if p.written == grid).__args__[1]
                apart = k.differences.get(positions, set()) - made.keys()
                points.setdefault(grid, set()).update(
                    [p.written for p in k.parameters if p.written in apart and p.annotation.__args__[1] is of_points]
                )
        return {grid: Query(*of, sorted(points[grid])) for grid, of in found.items()}

    def _constrained(self, made: Mapping[str, Any], constraints: Mapping[str, str]) -> list[tuple[str, str]]:
        of = {name: written for written, name in self.names.items() if written not in made or written in self.in_out}
        for name, constraint in constraints.items():
            if name not in of:
                check.refuse("constraints", "names of arguments: " + ", ".join(of), name)
            check.word("constraints", constraint, _CONSTRAINTS)
        return [(of[name], constraint) for name, constraint in constraints.items()]


class Target:
    """An op that was made, as frameworks are told of it."""

    def __init__(self, declared: Declaration) -> None:
        steps = [(k.source, k.name) for k in declared.steps]
        (self.described,) = json.loads(
            _native.kernel_op(
                declared.name, declared.label, steps, declared.scratch, declared.saved, declared.constraints
            )
        )
        self._check_sizes(declared.names)
        namespace, name, version = declared.name
        self._full_name = f"{namespace}::{name}.v{version}"

    def _check_sizes(self, names: Mapping[str, str]) -> None:
        """Refuses outputs whose size no argument says."""
        args = self.described["op"]["args"]
        known = {size.get("dim") for a in args if not a.get("zero") for size in a.get("shape", ())}
        known |= {a["name"] for a in args if a["kind"] == "int_scalar"}
        known |= {a[side] for a in args for side in _SIDES if a.get(side)}
        for out in self.described["op"]["outputs"]:
            for size in out["shape"]:
                if "dim" in size and size["dim"] not in known:
                    check.refuse(names[out["name"]], "dimensions that an argument has", f"`{size['dim']}`")

    def for_torch(self, library: str) -> str:
        """Its description, after it was registered with a libtorch."""
        return _native.torch_kernel_ops(library, self._full_name)


class Op:
    """Op of one kernel or several: a function of NumPy, PyTorch and JAX arrays, with derivatives, and of others in the
    memory of a CUDA device."""

    def __init__(self, declaration: Declaration) -> None:
        self._declaration = declaration
        self._calls = Calls(lambda: self._target)
        self._repeated = Repeated()
        self.__name__ = declaration.label

    @cached_property
    def _target(self) -> Target:
        return Target(self._declaration)

    def __repr__(self) -> str:
        return f"<op {self.__name__}>"

    @property
    def source(self) -> str:
        """The kernels in the kernel language, in the order of their steps."""
        return "\n".join(k.source for k in self._declaration.steps)

    @cached_property
    def outputs(self) -> list[str]:
        """The names of the outputs."""
        return [self._declaration.names[name] for name in self._declaration.outputs]

    @cached_property
    def in_out(self) -> list[str]:
        """The names of those outputs that begin as arguments."""
        return [self._declaration.names[name] for name in self._declaration.in_out]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs: one as it is, several as a tuple.

        Arguments are the parameters of the kernels by name, or in their order, without index and outputs; an `InOut[…]`
        is both, and its argument stays as it is. A `Zero[…]` and a batch of one system may be left out, and then arrays
        with an element for each system may come without that axis; a number stands for an element of every system.
        `Pairs` are what `find_neighbors` of the namespace gives, or (neighbor_list, neighbor_ptr, neighbor_shifts). A
        grid is a `HashGrid(points, cell)`, in which the call searches, or the pairs that a search has found.

        Raises:
            TypeError, ValueError: For a missing or unknown argument, and for one of the wrong dtype, shape or value.
        """
        return self.called(args, kwargs)

    def called(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        sizes: Mapping[str, Any] | None = None,
        seen: Callable[[Any, Sequence[Any]], None] | None = None,
    ) -> Any:
        """See `__call__`. `sizes` has those of dimensions that are said by no argument; `seen` is given the op and its
        inputs before it runs."""
        results = self._evaluated(framework_of((*args, *kwargs.values())), args, kwargs, sizes=sizes, seen=seen)
        if not isinstance(results, (tuple, list)):
            return results
        order = self._declaration.order
        return results[order[0]] if len(order) == 1 else tuple([results[n] for n in order])

    def launched(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], stream: Any) -> None:
        """See `launch`."""
        framework = framework_of((*inputs.values(), *outputs.values())) if stream is None else "cuda"
        self._evaluated(framework, (), inputs, outputs, stream)

    def _evaluated(
        self,
        framework: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        outputs: Mapping[str, Any] | None = None,
        stream: Any = None,
        sizes: Mapping[str, Any] | None = None,
        seen: Callable[[Any, Sequence[Any]], None] | None = None,
    ) -> Any:
        """The results in the op's order; of a launch those of `outputs` in the arrays of the caller."""
        opened, op, call, repeats = self._calls.of(framework)
        is_recorded = framework == "numpy" and _tape.is_recording()
        like = None
        if repeats is not None and not is_recorded and (kind := repeats(outputs is not None)) is not None:
            like = self._repeated.like(kind, args, kwargs, outputs or _NONE)
            if like.plan is not None:
                try:
                    return like.run(call)
                except (RuntimeError, ValueError) as error:
                    raise self._renamed(error) from None
        if outputs is not None:
            kwargs = self._with_in_out(framework, kwargs, outputs)
        if op.sized:
            kwargs = {**self._sizes(op, sizes or _NONE, outputs or _NONE), **kwargs}
        given = named(self._declaration.label, op, self._declaration.names, args, kwargs)
        f, given = opened({**given, **outputs} if outputs else given, stream)
        bound = Call(op, f, given, self._declaration.names, sizes, self._declaration.queries, is_recorded)
        if is_recorded:
            return _tape.recorded(bound, given, lambda: self._launched(call, bound, given, outputs or _NONE))
        if outputs:
            flat, rooms, results = f.without_derivatives(lambda: self._launched(call, bound, given, outputs))
        else:
            try:
                flat, rooms = bound.flat(), []
                if seen is not None:
                    seen(op, flat)
                results = bound.rounded(f.run(call, flat))
            except (RuntimeError, ValueError) as error:
                raise self._renamed(error) from None
        if like is not None:
            self._repeated.keep(like, bound, flat, rooms)
        return results

    def _sizes(self, op: Any, sizes: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Sizes of dimensions that no array among the arguments has: those that are known, and those of outputs."""
        found = {dim: sizes[dim] for dim in op.sized if dim in sizes}
        for name, n in zip(self.outputs, self._declaration.order):
            shape = np.shape(outputs.get(name, 0.0))
            for size, have in zip(op.outputs[n]["shape"], shape):
                if size.get("dim") in op.sized:
                    found.setdefault(size["dim"], have)
        return found

    def _with_in_out(self, framework: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments of a launch, those that are read and written among its outputs too."""
        for name, x in outputs.items():
            if name not in self.outputs:
                check.refuse("outputs", f"arrays for {', '.join(self.outputs)}", f"one for `{name}`")
            if framework == "jax" and framework_of([x]) == "jax":
                check.refuse(name, "an array that can be written to", "one of JAX")
        for name in self.in_out:
            if name in inputs:
                check.refuse(
                    name, "its array under `outputs` alone, where it is read and written", "one under `inputs`"
                )
            if name not in outputs:
                check.refuse("outputs", f"an array for `{name}`, which is read and written", "none")
        return {**inputs, **{name: outputs[name] for name in self.in_out}}

    def _launched(
        self, call: Callable[..., Any], bound: Call, given: Mapping[str, Any], outputs: Iterable[str]
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """The inputs of a call (of one that is recorded their values, for good), the arrays in which results were
        computed, and all results, those of `outputs` in the arrays that were given."""
        op, f, places = bound.op, bound.f, dict(zip(self.outputs, self._declaration.order))
        try:
            flat = bound.flat()
            kept = [x.copy() if n in op.reals else x for n, x in enumerate(flat)] if bound.is_recorded else flat
            into = {places[name]: (name, given[name]) for name in outputs}
            rooms = rooms_of(bound, flat, given, into)
            results = f.run(call, flat, rooms)
            bound.check_range(results)
        except (RuntimeError, ValueError) as error:
            raise self._renamed(error) from None
        found = list(results) if isinstance(results, tuple) else [results]
        for n, (_, out) in into.items():
            if found[n] is not None:
                f.write(out, found[n])
            found[n] = out
        return kept, rooms, found

    def compile(self, *dtypes: str) -> bool:
        """Machine code in the place of the interpreter, from the next call on: of values and all derivatives, with the
        same bits.

        LLVM makes it, as PyPI's `llvmlite` has it (`pip install 'madelung[kernels]'`), in some seconds; code that was
        made before comes from a cache on disk.

        Args:
            dtypes: "float32", "float64" or both, those of the arrays; by default "float64".

        Returns:
            Whether there is machine code of all parts. Without `llvmlite` the interpreter stays: see `info`.

        Raises:
            ValueError: For another dtype.
        """
        singles = [check.word("dtypes", dtype, ("float32", "float64")) == "float32" for dtype in dtypes or ("float64",)]
        return all(_llvm.install_all(k.source, single) for k in self._declaration.steps for single in singles)

    def _renamed(self, error: Exception) -> Exception:
        """An op's error in the names of Python."""
        text = str(error)
        namespace, name, version = self._declaration.name
        of_op = text.replace(f"{namespace}::{name}.v{version}", self._declaration.label)
        if not text.startswith("`"):
            return error if of_op == text else type(error)(of_op)
        text = of_op
        for written, name in self._declaration.names.items():
            if written != name:
                text = re.sub(rf"(?<=`){re.escape(written)}\b", name, text)
        return ValueError(text)


def op(
    name: str,
    steps: Sequence[Any],
    outputs: Sequence[OutputSpec] | None = None,
    scratch: Sequence[OutputSpec] = (),
    saved: Sequence[OutputSpec] = (),
    constraints: Mapping[str, str] = _NONE,
) -> Op:
    """Op of several kernels, which run one after the other and share arrays by name.

    Args:
        name: such as "mylib::lj".
        steps: kernels; what one writes, later ones may read as `Array[…]`, or go on with as `InOut[…]`, which is an
            argument of the op where none has written it.
        outputs: what the op gives back; None: all that steps write, but for scratch.
        scratch: arrays between steps.
        saved: arrays between steps that are kept for the backward pass, which then does not compute them again.
        constraints: conditions on arguments by name: "positive", "not_negative", "finite", "cell" (three vectors that
            span a volume) or "full" (each pair from both sides).

    Raises:
        TypeError, ValueError: For steps that do not fit each other, or outputs that no step writes.
    """
    if not re.fullmatch(r"[A-Za-z]\w*::[A-Za-z]\w*", name, re.ASCII):
        check.refuse("name", "a namespace and a name, as in 'mylib::lj'", repr(name))
    if not steps:
        check.refuse("steps", "kernels", "none")
    return Op(Declaration(name, steps, outputs, scratch, saved, constraints))
