"""All ops, registered: `pair_vectors(positions, cell, …)` and so on, by their names.

Importing this module registers them with the PyTorch that is loaded; `add` registers others. Nothing here names an op.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from madelung import _cuda, _native
from madelung.torch import _autograd, _fake
from madelung.torch._schema import Op, parse


def libtorch() -> str:
    """The library that `import torch` has loaded."""
    names = {"darwin": "libtorch_cpu.dylib", "win32": "torch_cpu.dll"}
    return str(Path(torch.__file__).parent / "lib" / names.get(sys.platform, "libtorch_cpu.so"))


def add(op: Op) -> Callable[..., Any]:
    """The function that calls an op, whose rules are registered here; its kernels are."""
    fragment = torch.library.Library(op.namespace, "FRAGMENT")
    _KEPT.append(fragment)
    for member in op.members:
        fake = _fake.kernel(op, member)
        for private in (False, True):
            name = f"{'_' if private else ''}{op.name}{member}"
            torch.library.register_fake(f"{op.namespace}::{name}", fake, lib=fragment)
            if private:
                # Autograd passes by: it is done with where a private op is called.
                fragment.impl(name, torch.library.fallthrough_kernel, "Autograd")
    return _autograd.callable_of(op, fragment)


_cuda.prepare()
# Without these objects torch would forget the registrations made through them.
_KEPT: list[torch.library.Library] = []
OPS: dict[str, Op] = {op.short: op for op in parse(_native.torch_init(libtorch()))}
__all__ = list(OPS)

globals().update({name: add(op) for name, op in OPS.items()})
