"""Arguments of a call by their names, as the inputs of an op in its order.

Nothing here knows a framework: each is a `Framework`, as public functions take it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from madelung import _arguments as check
from madelung import _neighbors, _schema
from madelung._functions.framework import Framework, is_half
from madelung._functions.sites import around, within
from madelung._schema import CHECKED, DIRECTED, FULL, HALF, is_one_mesh
from madelung.kernels._types import HashGrid

# A list whose pairs stand once each, in place of a full one.
_HALF_FILL = 4
# The least numbers that round to infinity: the largest of the dtype and half a unit in its last place.
_INFINITE = {"float16": 65520.0, "bfloat16": (2.0 - 2.0**-8) * 2.0**127, "float32": (2.0 - 2.0**-24) * 2.0**127}


def _is_mesh(x: Any) -> bool:
    return isinstance(x, (tuple, list)) and is_one_mesh(len(x)) and all([_is_size(k) for k in x])


def _is_size(x: Any) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool) and 0 <= x < 2**31


class Query(NamedTuple):
    """Query of a grid, by the names of arguments."""

    positions: str
    radius: str
    points: Sequence[str]
    """Arrays of the points of the grid, as far as the kernel says: it subtracts the positions of a query from them."""


class Call:
    """A call of an op: what was given for each of its arguments, and the sizes that this says."""

    def __init__(
        self,
        op: _schema.Op,
        framework: Framework,
        given: Mapping[str, Any],
        names: Mapping[str, str],
        sizes: Mapping[str, Any] | None = None,
        queries: Mapping[str, Query] | None = None,
        is_recorded: bool = False,
    ) -> None:
        """`queries`: what each grid is queried with. `is_recorded`: on a tape."""
        wide = framework.under_autocast(tuple(given.values()))
        given = given if wide is None else dict(zip(given, wide))
        self.op, self.f, self._given, self._names, self.is_recorded = op, framework, given, names, is_recorded
        self.is_widened = wide is not None
        # Graphs of older versions of PyTorch know no other mapping.
        self._queries = {} if queries is None else queries
        self.dims: dict[str, Any] = {} if sizes is None else dict(sizes)
        # The array whose dtype results have that ops give in another one.
        self.rounds_to = self._in_one_precision()
        self.like, self.other = self._first()
        batches = [a for a in op.args if a["kind"] == "batch"]
        # Rows of one system each need no batch, and what there is one of for each system no axis for it.
        self.lone = {a["systems"]: self.name(a) for a in batches if self.of(a) is None}
        # Meshes of each system: the dimension of the systems, and how many there are.
        self.counts: dict[str, tuple[str, int]] = {}

    def name(self, arg: Mapping[str, Any]) -> str:
        """The name of an argument in Python."""
        return self._names.get(arg["name"], arg["name"])

    def of(self, arg: Mapping[str, Any]) -> Any:
        """Value given for an argument; None where there is none."""
        return self._given.get(self.name(arg))

    def _first(self) -> tuple[Any, str]:
        arrays = [a for a in self.op.args if a["kind"] == "real"] or [a for a in self.op.args if a["kind"] == "ints"]
        for arg in arrays:
            if self.f.is_own(x := self.of(arg)):
                return x, self.name(arg)
        if not arrays:
            # Without inputs the outputs of a launch say where, and NumPy else.
            return next((x for x in self._given.values() if self.f.is_own(x)), np.empty(0)), ""
        names = ", ".join(f"`{self.name(arg)}`" for arg in arrays)
        raise TypeError(f"expected {self.f.kind} for {names}, got none")

    def _in_one_precision(self) -> Any:
        """Widens arrays of half precision, which are stored so and not computed with, to the dtype of others or to
        float32. Gives one of them where there are no others: results are rounded to its dtype. Without an array of
        reals kernels compute in float64: the outputs of a launch say what results are, or what the framework has."""
        if not any([arg["kind"] == "real" for arg in self.op.args]):
            outputs = [output["name"] for output in self.op.outputs if output["dtype"] is None]
            given = [x for name in outputs if self.f.is_own(x := self._given.get(self._names.get(name, name)))]
            like = given[0] if given else self.f.default_real() if outputs else None
            dtype = "" if like is None else str(like.dtype).removeprefix("torch.")
            return like if dtype in _INFINITE and self.f.rounds else None
        arrays = [(self.name(arg), self.of(arg)) for arg in self.op.args if arg["kind"] == "real"]
        reals = {name: x for name, x in arrays if self.f.is_own(x) and hasattr(x, "dtype")}
        halves = {name: x for name, x in reals.items() if is_half(x)}
        for name, x in halves.items() if self.is_recorded else ():
            check.refuse(name, "float32 or float64 on a tape", check.described(x), TypeError)
        if not halves:
            return None
        # Graphs of older versions of PyTorch do not know `next` with a default.
        wide, *_ = [*[x for x in reals.values() if str(x.dtype).endswith(("float32", "float64"))], None]
        self._given = {**self._given, **{name: self.f.widened(x, wide) for name, x in halves.items()}}
        self.is_widened = True
        return next(iter(halves.values())) if len(halves) == len(reals) else None

    def rounded(self, results: Any) -> Any:
        """Results in the dtype that they are to have."""
        if self.rounds_to is None:
            return results
        self.check_range(results)
        found = [
            self.f.in_dtype(x, self.rounds_to) if output["dtype"] is None else x
            for output, x in zip(self.op.outputs, results if isinstance(results, (tuple, list)) else [results])
        ]
        return tuple(found) if isinstance(results, (tuple, list)) else found[0]

    def check_range(self, results: Any) -> None:
        """Refuses results that are rounded to infinity, where they have values."""
        if self.rounds_to is None:
            return
        dtype = str(self.rounds_to.dtype).removeprefix("torch.")
        for output, x in zip(self.op.outputs, results if isinstance(results, (tuple, list)) else [results]):
            if x is None or output["dtype"] is not None or not self.f.is_readable(x):
                continue
            largest = np.abs(self.f.value(output["name"], x)).max(initial=0.0)
            if largest >= _INFINITE[dtype]:
                check.refuse(self._names.get(output["name"], output["name"]), f"numbers that {dtype} holds", largest)

    def flat(self) -> list[Any]:
        """The inputs."""
        parts: dict[tuple[int, str], Any] = {}
        late = []
        for n, arg in enumerate(self.op.args):
            kind = arg["kind"]
            # What goes by the sizes of others.
            if isinstance(self.of(arg), HashGrid) or (kind in ("real", "ints") and _is_number(self.of(arg))):
                late.append(n)
            else:
                for part, x in getattr(self, f"_{kind}")(arg).items():
                    parts[n, part] = x
        for systems, batch in self.lone.items():
            if self.dims.setdefault(systems, 1) != 1:
                check.refuse(batch, f"the system of each row, as there are {self.dims[systems]} of them", "None")
        for name, (systems, count) in self.counts.items():
            if self.dims[systems] != count:
                check.refuse(name, f"meshes of {self.dims[systems]} systems", count)
        for n in late:
            arg = self.op.args[n]
            found = self._grid(arg) if isinstance(self.of(arg), HashGrid) else {arg["kind"]: self._filled(arg)}
            parts.update({(n, part): x for part, x in found.items()})
        for n, arg in enumerate(self.op.args):
            if parts.get((n, "batch_idx"), False) is None:
                parts[n, "batch_idx"] = self.f.one_system(self.like, self._size(arg, "rows"))
        return [
            parts[i.arg, i.part] if (i.arg, i.part) in parts else self._size(self.op.args[i.arg], i.part)
            for i in self.op.inputs
        ]

    def _size(self, arg: Mapping[str, Any], side: str) -> Any:
        if arg[side] not in self.dims:
            check.refuse(self.name(arg), f"another argument that says how many `{arg[side]}` there are", "none")
        return self.dims[arg[side]]

    def _array(self, arg: Mapping[str, Any], x: Any, take: Any, *like: Any) -> Any:
        name, sizes = self.name(arg), arg["shape"]
        shape = [size.get("const", size.get("dim")) for size in sizes]
        if sizes and sizes[0].get("dim") in self.lone and _axes(x) == len(shape) - 1:
            one = take(name, x, shape[1:], *like)
            return one.reshape((1, *one.shape))
        array = take(name, x, shape, *like)
        for size, have in zip(sizes, array.shape):
            if "dim" in size:
                self.dims.setdefault(size["dim"], have)
        return array

    def _real(self, arg: Mapping[str, Any]) -> dict[str, Any]:
        x = self.of(arg)
        if x is None and arg["zero"]:
            return {"real": self.f.absent(self.like)}
        return {"real": self._array(arg, x, self.f.reals, self.like, self.other)}

    def _filled(self, arg: Mapping[str, Any]) -> Any:
        name, x = self.name(arg), self.of(arg)
        sizes = [size["const"] if "const" in size else self.dims.get(size["dim"]) for size in arg["shape"]]
        # A number stands for all systems; for other rows each has its own.
        rows = [size["dim"] for size in arg["shape"] if "dim" in size]
        systems = {a["systems"] for a in self.op.args if "systems" in a}
        if None in sizes or not set(rows) <= systems or arg["kind"] == "ints":
            check.refuse(name, "an array", check.described(x), TypeError)
        return self.f.full(sizes, check.number(name, x), self.like)

    def _ints(self, arg: Mapping[str, Any]) -> dict[str, Any]:
        return {"ints": self._array(arg, self.of(arg), self.f.integers, True, arg.get("dtype") == "i64")}

    def _rows(self, arg: Mapping[str, Any], x: Any) -> Any:
        idx = self.f.integers(self.name(arg), x, (arg["rows"],), True)
        self.dims.setdefault(arg["rows"], idx.shape[0])
        return idx

    def _batch(self, arg: Mapping[str, Any]) -> dict[str, Any]:
        x = self.of(arg)
        if x is None:
            return {"batch_idx": None}
        if isinstance(x, tuple):
            if len(x) != 2:
                check.refuse(self.name(arg), "`batch_idx`, or it and the number of systems", f"{len(x)} of them")
            x, systems = x
            self.dims[arg["systems"]] = check.integer(self.name(arg), systems)
        return {"batch_idx": self._rows(arg, x)}

    def _map(self, arg: Mapping[str, Any]) -> dict[str, Any]:
        return {"map_of": self._rows(arg, self.of(arg))}

    def _pairs(self, arg: Mapping[str, Any]) -> dict[str, Any]:
        name, x = self.name(arg), self.of(arg)
        is_queried = arg["name"] in self._queries
        expected = "what `find_neighbors` gives, or (neighbor_list, neighbor_ptr, neighbor_shifts)"
        if is_queried:
            # What a query finds has each row's own point in it, and what lies at the radius.
            expected = "HashGrid(points, cell), or what `neighbor_list(x, radius, cell, sources=points)` gives"
        if isinstance(x, _neighbors.Neighbors) and not is_queried:
            rows = self.dims.setdefault(arg["rows"], x.atoms)
            if rows != x.atoms:
                check.refuse(name, f"neighbors of {rows} rows", x.atoms)
            given = self._given if self._has_cell() else {**self._given, "cell": None}
            _neighbors.check_kernel_list(self.f, name, x, given)
            # What goes through pairs row by row does so call after call through the same rows.
            if x.form == "clusters" and self.f.is_readable(x.columns) and not self._in_clusters(arg):
                *rows, kind = _neighbors.rows_of(x)
                ptr, columns, shifts = (self.f.indices(row, self.like) for row in rows)
            else:
                ptr, columns, shifts, kind = _neighbors.checked(x, x.atoms, None, ())
                ptr = _neighbors.marked(self.f, ptr, x, given.get("cell"))
            # Others may have written to the arrays of a device, where the host does not look at them.
            kind = kind if self.f.is_host(columns) else FULL
        else:
            if not isinstance(x, (tuple, list)) or len(x) not in (3, 4):
                check.refuse(name, expected, check.described(x), TypeError)
            both = self.f.integers(f"{name}: neighbor_list", x[0], (2, "P"), True)
            ptr = self.f.integers(f"{name}: neighbor_ptr", x[1], ("N+1",), True)
            columns, shifts = both[1], self.f.integers(f"{name}: neighbor_shifts", x[2], ("P", 3), True)
            self.dims.setdefault(arg["rows"], ptr.shape[0] - 1)
            half = len(x) == _HALF_FILL and check.flag(f"{name}: half_fill", x[3])
            kind = DIRECTED if arg["rows"] != arg["columns"] or is_queried else HALF if half else FULL
        if arg["entries"] is not None:
            self.dims.setdefault(arg["entries"], columns.shape[0])
        return {"ptr": ptr, "others": columns, "shifts": shifts, "list_kind": kind}

    def _in_clusters(self, arg: Mapping[str, Any]) -> bool:
        """Whether a list is taken in clusters: no gradient is asked for that needs its rows."""
        if arg["clusters"] is None or self.is_recorded:
            return False
        left = [x for name in arg["clusters"] if self.f.is_own(x := self._given.get(self._names.get(name, name)))]
        return not any([self.f.has_no_value(x) or self.f.is_differentiated(x) for x in left])

    def _grid(self, arg: Mapping[str, Any]) -> dict[str, Any]:
        """The pairs that a search finds, of values alone: no derivative goes through it."""
        name, grid = self.name(arg), self.of(arg)
        if arg["name"] not in self._queries:
            expected = "what `find_neighbors` gives, or (neighbor_list, neighbor_ptr, neighbor_shifts)"
            check.refuse(name, expected, "a grid, which no kernel queries", TypeError)
        args, query = {a["name"]: a for a in self.op.args}, self._queries[arg["name"]]
        positions, radius = args[query.positions], args[query.radius]
        arrays = self.like, grid.points, grid.cell
        _, *arrays = self.f.under_autocast(arrays) or arrays
        points, cell = (self.f.widened(x, self.like) for x in arrays)
        q, points = self._real(positions)["real"], self._reals(f"{name}: points", points, ("N", 3))
        if cell is not None:
            cell = self._reals(f"{name}: cell", cell, (3, 3) if _axes(cell) == 2 else ("B", 3, 3))
        reach = check.positive(self.name(radius), self._scalar(radius)["scalar"])
        options = check.list_options(False, "csr", None, None, grid.capacity, None, False, False)
        of_rows, of_points = self._systems(arg["rows"]), grid.batch_idx
        if of_points is None:
            of_points = self._systems(arg["columns"])
        try:
            if points is grid.points and of_points is grid.batch_idx:
                call = around(self.f, q, grid, None, None, (of_rows, None))
            else:
                call = around(self.f, q, points, cell, grid.pbc, (of_rows, of_points))
            ptr, columns, shifts = within(self.f, call, reach, options.capacity)
            if self.f.is_readable(ptr):
                check.list_fits(self.f.value(name, ptr), options)
        except (TypeError, ValueError, RuntimeError) as error:
            raise _of_grid(error, name, self.name(positions)) from None
        self._check_points(name, [args[other] for other in query.points], grid.points, points)
        for dim, x in ((arg["columns"], points), (arg["entries"], columns)):
            size = x.shape[0] if dim is None else self.dims.setdefault(dim, x.shape[0])
            if size != x.shape[0]:
                check.refuse(name, f"{size} of `{dim}`, as in other arguments", x.shape[0])
        return {"ptr": ptr, "others": columns, "shifts": shifts, "list_kind": DIRECTED + CHECKED}

    def _check_points(self, name: str, args: Sequence[Mapping[str, Any]], known: Any, points: Any) -> None:
        """Refuses a grid of other points than those of any of some arguments, where values can be read."""
        if self.is_widened or not args or any([self.of(arg) is known for arg in args]):
            return
        for arg in args:
            x = self._real(arg)["real"]
            if x.shape != points.shape or not (self.f.is_host(x) and self.f.is_readable(x, points)):
                return
            if np.array_equal(self.f.value(name, x), self.f.value(name, points)):
                return
        names = " or ".join([f"`{self.name(arg)}`" for arg in args])
        check.refuse(name, f"a grid of the points {names}", "one of other points")

    def _has_cell(self) -> bool:
        """Whether an argument `cell` has lattice vectors, as those of lists are."""
        shapes = [a["shape"] for a in self.op.args if a["kind"] == "real" and self.name(a) == "cell"]
        return [[size.get("const") for size in shape[-2:]] for shape in shapes] == [[3, 3]]

    def _reals(self, name: str, x: Any, shape: Sequence[int | str]) -> Any:
        return self.f.reals(name, x, shape, self.like, self.other)

    def _systems(self, rows: str) -> Any:
        """The system of each row in the batch over a dimension; None where there is none."""
        batches = [a for a in self.op.args if a["kind"] == "batch" and a["rows"] == rows]
        return self._batch(batches[0])["batch_idx"] if batches else None

    def _mesh(self, arg: Mapping[str, Any]) -> dict[str, Any]:
        name, x = self.name(arg), self.of(arg)
        x = x.tolist() if hasattr(x, "tolist") else x
        of_each = isinstance(x, (tuple, list)) and len(x) > 0 and isinstance(x[0], (tuple, list))
        each = x if of_each else [x]
        for n, mesh in enumerate(each):
            if not _is_mesh(mesh) or len(mesh) != len(each[0]):
                expected = "(K₁, K₂, K₃, order), with a window (…, o₁, o₂, o₃, e₁, e₂, e₃), or as many for each system"
                got = mesh if isinstance(mesh, (tuple, list)) else check.described(mesh)
                check.refuse(name, expected, f"{got} (system {n})" if of_each else got, TypeError)
        if of_each:
            self.dims.setdefault(arg["systems"], len(each))
            self.counts[name] = arg["systems"], len(each)
        return {"meshes": self.f.integer_list(tuple([int(k) for mesh in each for k in mesh]))}

    def _scalar(self, arg: Mapping[str, Any]) -> dict[str, Any]:
        name, x = self.name(arg), self.of(arg)
        if type(x) is not float and self.f.is_own(x):
            if self.f.is_differentiated(x):
                expected = "a number, which has no gradient (annotate it `Array[Real]`, or give one without)"
                check.refuse(name, expected, "an array that is differentiated", TypeError)
            try:
                x = float(x)
            except Exception:
                expected = "a number that is known when the function is traced (`Array[Real]` may be traced)"
                check.refuse(name, expected, check.described(x), TypeError)
        return {"scalar": check.number(name, x)}

    def _int_scalar(self, arg: Mapping[str, Any]) -> dict[str, Any]:
        n = check.integer(self.name(arg), self.of(arg), arg.get("dtype") == "i64")
        if n < 0 and arg["name"] in self.op.sized:
            check.refuse(self.name(arg), "the size of a dimension, from 0 up", n)
        return {"int_scalar": n}


def _of_grid(error: Exception, name: str, positions: str) -> Exception:
    """The error of a search, in the names of the kernel."""
    _, of_search, rest = (*str(error).split("`", 2), "", "")[:3]
    here = {"queries": positions, "batch_idx": name, "query_batch_idx": name, "capacity": f"{name}: capacity"}
    here = {x: f"{name}: {x}" for x in HashGrid.ARRAYS} | here
    if of_search not in here:
        return error
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"`{here[of_search]}`{rest}")


def named(
    label: str, op: _schema.Op, names: Mapping[str, str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by their names in Python, those given by their places too."""
    known = [names.get(arg["name"], arg["name"]) for arg in op.args]
    optional = {names.get(a["name"], a["name"]) for a in op.args if a["kind"] == "batch" or a.get("zero")}
    if len(args) > len(known):
        raise TypeError(f"`{label}`: expected {len(known)} arguments ({', '.join(known)}), got {len(args)}")
    given = dict(zip(known, args))
    for name, x in kwargs.items():
        if name not in known:
            raise TypeError(f"`{label}`: there is no argument `{name}`: expected {', '.join(known)}")
        if name in given:
            raise TypeError(f"`{label}`: `{name}` was given twice")
        given[name] = x
    missing = [name for name in known if given.get(name) is None and name not in optional]
    if missing:
        raise TypeError(f"`{label}`: `{missing[0]}` is missing: expected {', '.join(known)}")
    return given


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float, np.generic)) and not isinstance(x, bool)


def _axes(x: Any) -> int:
    return x.ndim if hasattr(x, "ndim") else np.ndim(x)
