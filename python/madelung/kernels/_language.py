"""The functions of the kernel language by their names, and the reasons of `raise_`."""

from __future__ import annotations

from typing import Any


class Function:
    """Function of the kernel language."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __repr__(self) -> str:
        return f"madelung.kernels.{self.__name__}"

    def __call__(self, *args: Any) -> Any:
        raise TypeError(
            f"`{self.__name__}` is a function of the kernel language: it is called within a kernel or `@func`"
        )


class Reason:
    """Reason of `raise_`."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __repr__(self) -> str:
        return f"madelung.kernels.{self.__name__}"


sqrt = Function("sqrt")
exp = Function("exp")
log = Function("log")
pow = Function("pow")
erf = Function("erf")
erfc = Function("erfc")
tanh = Function("tanh")
sin = Function("sin")
cos = Function("cos")
asin = Function("asin")
acos = Function("acos")
atan = Function("atan")
atan2 = Function("atan2")
floor = Function("floor")
nearest = Function("nearest")
abs = Function("abs")
min = Function("min")
max = Function("max")
dot = Function("dot")
cross = Function("cross")
length = Function("length")
vec2 = Function("vec2")
vec3 = Function("vec3")
vec4 = Function("vec4")
mat2 = Function("mat2")
mat3 = Function("mat3")
row = Function("row")
stop_gradient = Function("stop_gradient")
derivative = Function("derivative")
is_finite = Function("is_finite")
atomic_add = Function("atomic_add")
atomic_max = Function("atomic_max")
atomic_min = Function("atomic_min")
raise_ = Function("raise_")

CAPACITY = Reason("CAPACITY")
INDEX = Reason("INDEX")
COINCIDENT = Reason("COINCIDENT")
NOT_FINITE = Reason("NOT_FINITE")
OVERFLOW = Reason("OVERFLOW")

FUNCTIONS = frozenset(name for name, value in list(globals().items()) if isinstance(value, Function))
