"""The library's own functions for kernels: `from madelung.kernels.functions import born_mayer`.

They are those of its potentials, with the derivatives that these have: `dir()` lists them. A name that several
potentials share comes with that of its potential, as in `coulomb_short_range`.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from madelung import _native
from madelung.kernels._text import Text, joined

if TYPE_CHECKING:
    from madelung.kernels._source import Block


class LibraryFunction:
    """Function of the library, which kernels import by its path."""

    # They take reals, and give back one.
    gives_integer = False
    integer_parameters: frozenset[int] = frozenset()

    def __init__(self, name: str, path: str) -> None:
        self.name = self.__name__ = name
        self._path = path
        self.__doc__ = f"{path} of the library."

    def __repr__(self) -> str:
        return f"<func {self.name} of the library>"

    def __call__(self, *args: Any) -> Any:
        raise TypeError(f"`{self.name}` is a function of kernels: it is called within a kernel or another `@func`")

    def sources(self, block: Block, name: str) -> list[Text]:
        """See `Function`."""
        return [joined(None, f"use {self._path} as {name};\n")]


@lru_cache(maxsize=1)
def _all() -> dict[str, LibraryFunction]:
    paths = [path.split("::") for path in _native.kernel_functions()]
    count = Counter(parts[-1] for parts in paths)
    named = (("_".join(parts[-2:]) if count[parts[-1]] > 1 else parts[-1], parts) for parts in paths)
    return {name: LibraryFunction(name, "::".join(parts)) for name, parts in named}


def __getattr__(name: str) -> LibraryFunction:
    if name in _all():
        return _all()[name]
    raise AttributeError(f"there is no function `{name}` for kernels: there are {', '.join(sorted(_all()))}")


def __dir__() -> list[str]:
    return sorted(_all())
