"""Plain calls of an op of a Python function as straight lines: Python source that is made from its declaration.

Each is a call of the function, on plain tensors of the CPU that are what its parameters declare, outside of graphs,
transforms and modes. Every other call is left to the general way, which converts arguments and has the errors.
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from madelung._schema import DIRECTED, FULL
from madelung.kernels._body import Body
from madelung.torch._inputs import FLOATS, HALF, PLAIN
from madelung.torch._specialised import transforms_active

_TEMPLATE = """\
def call(args, kwargs):
    if transforms_active() or modes() or tracing() or autocast("cpu") or forward_ad._current_level >= 0:
        return NotImplemented
    if kwargs:
        rest = NAMES[len(args):]
        if len(kwargs) != len(rest) or [x for x in rest if x not in kwargs]:
            return NotImplemented
        args = (*args, *[kwargs[x] for x in rest])
    if len(args) != {count}:
        return NotImplemented
    {arguments} = args
    {open}
    if not ({accepted}):
        return NotImplemented
    flat = {flat}
    {cut}
    found = function({given})
    {result}
    if {fresh}:
        return found
    return checked(found, flat)
"""

_REALS, _INTEGERS = ("real", "any"), ("any", "ints", "batch_idx", "map_of", "list", "ptr", "shifts")


def _tensor(x: str, shape: Sequence[dict[str, Any]]) -> list[str]:
    """Conditions on a tensor of a shape."""
    fixed = [f"{x}.shape[{n}] == {size['const']}" for n, size in enumerate(shape) if "const" in size]
    return [f"type({x}) in PLAIN", f"{x}.dim() == {len(shape)}", *fixed]


def _dense(x: str) -> list[str]:
    return [f"{x}.is_cpu", f"{x}.layout is STRIDED"]


def _integers(x: str, shape: Sequence[dict[str, Any]]) -> list[str]:
    return [*_tensor(x, shape), f"{x}.dtype in INTEGERS"]


def straight(
    body: Body, by: Collection[int], checked: Callable[..., Any]
) -> Callable[[Sequence[Any], dict[str, Any]], Any]:
    """The function of the arguments of a plain call; NotImplemented for other calls.

    `by`: inputs that are differentiable. `checked`: what makes results of the function those of the op, by all inputs.
    """
    opened: list[str] = []
    accepted: list[str] = []
    given: list[str] = []
    names: list[str] = [""] * len(body.inputs)
    floats: list[str] = []
    for n, arg in enumerate(body.args):
        of = [at for at, i in enumerate(body.inputs) if i.arg == n]
        x, kind = f"a{n}", arg["kind"]
        names[of[0]], one = x, [{"dim": ""}]
        if kind == "real":
            like = f"{x}.dtype is {floats[0]}.dtype" if floats else f"{x}.dtype in FLOATS"
            accepted += [*_tensor(x, arg["shape"]), like, *_dense(x)]
            floats.append(x)
        elif kind == "any":
            accepted += [f"type({x}) in PLAIN", *_dense(x)]
        elif kind == "ints":
            accepted += _integers(x, arg["shape"])
        elif kind in ("batch", "map"):
            if len(of) == 2:
                opened.append(f"{x}, s{n} = {x} if type({x}) is tuple and len({x}) == 2 else (None, None)")
                accepted += [f"type(s{n}) is int", f"0 <= s{n} <= MOST"]
                names[of[1]] = f"s{n}"
            accepted += _integers(x, one)
        elif kind == "pairs":
            parts = [f"{x}_{k}" for k in range(3)]
            opened.append(f"{', '.join(parts)} = {x} if type({x}) is tuple and len({x}) == 3 else (None, None, None)")
            for part, shape in zip(parts, ([{"const": 2}, *one], one, [*one, {"const": 3}])):
                accepted += _integers(part, shape)
            for at, name in zip(of, (*parts, str(FULL if arg["rows"] == arg["columns"] else DIRECTED))):
                names[at] = name
        elif kind == "scalar":
            accepted += [f"type({x}) is float", f"-INFINITY < {x} < INFINITY"]
        else:
            least = "0" if arg["name"] in body.sizes else "-1 - MOST64" if arg["dtype"] == "i64" else "-1 - MOST"
            accepted += [f"type({x}) is int", f"{least} <= {x} <= {'MOST64' if arg['dtype'] == 'i64' else 'MOST'}"]
        given.append(f"({x}, s{n})" if len(of) == 2 else x)
    accepted += [f"{names[n]} == {_size(body, name, names)}" for name, n in body.sizes.items()]
    cut = [names[n] for n, i in enumerate(body.inputs) if i.part in _REALS]
    smooth = [names[n] for n in by]
    results = [f"y{k}" for k in range(len(body.outputs))]
    fresh: list[str] = []
    for k, (y, out) in enumerate(zip(results, body.outputs)):
        shape = [str(size["const"]) if "const" in size else _size(body, size["dim"], names) for size in out.shape]
        dtype = f"torch.{out.dtype}" if out.dtype else f"{floats[0]}.dtype" if floats else "None"
        fresh += [f"type({y}) in PLAIN", f"{y}.dtype is {dtype}", f"{y}.shape == ({''.join(s + ', ' for s in shape)})"]
        # Neither a view, nor `x.data`, which is one that does not say so.
        fresh += [f"not {y}._is_view()", f"not {y}.is_inference()"]
        parts = _INTEGERS if out.is_integer else _REALS
        others = (*[x for x, i in zip(names, body.inputs) if i.part in parts], *results[:k])
        taken = "".join(f"{x}.untyped_storage()._cdata, " for x in others)
        fresh.append(f"{y}.untyped_storage()._cdata not in ({taken})")
    several = f"{', '.join(results)} = found if type(found) is tuple and len(found) == {len(results)} else BLANK"
    text = _TEMPLATE.format(
        count=len(body.args),
        arguments=", ".join(f"a{n}" for n in range(len(body.args))) + ",",
        open="\n    ".join(opened),
        accepted=" and ".join(accepted),
        flat=f"({', '.join(names)},)",
        cut="\n    ".join(f"{x} = {f'{x} if {x}.requires_grad else ' * (x in smooth)}{x}.detach()" for x in cut),
        given=", ".join(given),
        result="y0 = found" if len(results) == 1 else several,
        fresh=" and ".join(fresh),
    )
    where = f"<{body.label}, as an op>"
    linecache.cache[where] = (len(text), None, text.splitlines(True), where)
    space: dict[str, Any] = {
        "BLANK": (None,) * len(results),
        "FLOATS": FLOATS + HALF,
        "INFINITY": math.inf,
        "INTEGERS": (torch.int32, torch.int64),
        "MOST": 2**31 - 1,
        "MOST64": 2**63 - 1,
        "NAMES": [arg["name"] for arg in body.args],
        "PLAIN": PLAIN,
        "STRIDED": torch.strided,
        "autocast": torch.is_autocast_enabled,
        "checked": checked,
        "forward_ad": forward_ad,
        "function": body.function,
        "modes": torch._C._len_torch_dispatch_stack,
        "torch": torch,
        "tracing": torch._C._get_tracing_state,
        "transforms_active": transforms_active,
        "__name__": __name__,
    }
    exec(compile(text, where, "exec"), space)
    return space["call"]


def _size(body: Body, dim: str, names: Sequence[str]) -> str:
    """The size of a dimension."""
    n, axis, more = body.places[dim]
    return names[n] if axis is None else f"{names[n]}.shape[{axis}]" + (f" - {more}" if more else "")
