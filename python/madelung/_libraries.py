"""The library that has made an array, NumPy, PyTorch or JAX, as objects that compute in each of them ask for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from madelung import _arguments as check

_Function = Callable[..., list[Any]]


def is_real(x: np.ndarray) -> bool:
    return x.dtype.kind == "f"


@dataclass(frozen=True)
class Library:
    """The namespace of a library, its arrays of those of NumPy, and what NumPy has no word of its own for."""

    module: ModuleType
    array: Callable[[np.ndarray], Any]
    """An array beside the positions of a call: of their dtype if it is real, and on their device."""
    gradients: Callable[[_Function, Sequence[Any], Sequence[Any]], tuple[list[Any], list[Any]]]
    """Results of a function of arrays, and the gradients of the sum of all their elements by each of these arrays; both
    with derivatives by these and by some other arrays where the library has them."""
    of_systems: Callable[[Any, Any, int], Any]
    """The sums (B,) of numbers of atoms (N,), by the system of each atom."""
    value: Callable[[Any], np.ndarray | None]
    """An array as one of NumPy, or None where it has no value, under `jit`."""

    def integers(self, name: str, x: Any) -> Any:
        """Integers of the library, of 32 bits, from such an array of its own or NumPy's."""
        if not str(getattr(x, "dtype", "")).rpartition(".")[2].startswith(("int", "uint")):
            check.refuse(name, "an array of integers", check.described(x), TypeError)
        if isinstance(x, np.ndarray):
            return self.array(x.astype(np.int32))
        return x.int() if hasattr(x, "detach") else x.astype(np.int32)

    def still(self, x: Any) -> Any:
        """An array as one that nothing is differentiated by."""
        return x.detach() if hasattr(x, "detach") else x


def library_of(positions: Any, cell: Any, shape: tuple[int | str, ...] = (3, 3)) -> tuple[Library, Any, Any]:
    """The library that has made an array of positions, these, and a cell of a shape or None, both checked if they are
    NumPy's."""
    torch, jax = (sys.modules.get(name) for name in ("torch", "jax"))
    if torch is not None and isinstance(positions, torch.Tensor):
        return _torch(torch, positions), positions, cell
    if jax is not None and isinstance(positions, jax.Array):
        return _jax(jax, positions), positions, cell
    r = check.reals("positions", positions, ("N", 3))
    h = None if cell is None else check.reals("cell", cell, shape)
    return _numpy(r), r, h


def _numpy(r: np.ndarray) -> Library:
    import madelung.numpy
    from madelung.kernels import Tape

    def gradients(of: _Function, by: Sequence[Any], _: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        with Tape() as tape:
            results = of(*by)
        each = [tape.gradient(y, list(by)) for y in results]
        return results, [sum(of_one[1:], of_one[0]) for of_one in zip(*each)]

    return Library(
        madelung.numpy,
        lambda x: x.astype(r.dtype) if is_real(x) else x,
        gradients,
        lambda x, idx, systems: np.bincount(idx, x, systems).astype(x.dtype),
        np.asarray,
    )


def _torch(torch: Any, r: Any) -> Library:
    import madelung.torch

    like = {"dtype": r.dtype, "device": r.device}
    integers = like | {"dtype": torch.int32}

    def gradients(of: _Function, by: Sequence[Any], others: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        is_kept = torch.is_grad_enabled() and any(x.requires_grad for x in (*by, *others))
        with torch.enable_grad():
            by = [x if x.requires_grad else x.detach().requires_grad_() for x in by]
            results = of(*by)
            found = torch.autograd.grad(sum(y.sum() for y in results), by, create_graph=is_kept)
        return results if is_kept else [y.detach() for y in results], list(found)

    return Library(
        madelung.torch,
        lambda x: torch.as_tensor(x, **(like if is_real(x) else integers)),
        gradients,
        lambda x, idx, systems: x.new_zeros(systems).index_add(0, idx, x),
        lambda x: np.asarray(x.detach().cpu() if isinstance(x, torch.Tensor) else x),
    )


def _jax(jax: Any, r: Any) -> Library:
    import madelung.jax

    def gradients(of: _Function, by: Sequence[Any], _: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        results, pull = jax.vjp(of, *by)
        return results, list(pull([jax.numpy.ones_like(y) for y in results]))

    return Library(
        madelung.jax,
        lambda x: jax.numpy.asarray(x, r.dtype if is_real(x) else None),
        gradients,
        lambda x, idx, systems: jax.ops.segment_sum(x, idx, systems),
        lambda x: None if isinstance(x, jax.core.Tracer) else np.asarray(x),
    )
