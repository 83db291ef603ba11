"""Minima of functions of second degree, with derivatives by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from madelung.jax import _inputs as given
from madelung.jax._linear import linear

if TYPE_CHECKING:
    from madelung._functions.minima import Form


def least(form: Form, slopes: Any, start: Any, arrays: tuple[Any, ...]) -> Any:
    """See `Framework.minimum`. Derivatives along a direction are the minimum of another form with the same matrix."""

    rest, form_of = _apart(form, slopes, arrays) if given.is_traced(slopes, start, *arrays) else ([], lambda _: form)
    count = len(arrays)

    @jax.custom_jvp
    def found(a: Any, x: Any, arrays: tuple[Any, ...], rest: list[Any]) -> Any:
        if given.is_traced(a, x, *arrays):
            return searched(form_of(rest), a, x, arrays)
        # Errors of the solver then reach the caller as they are.
        return jnp.asarray(form_of(rest).least(a, x, arrays), a.dtype)

    def forward(kept: Sequence[Any], moved: Sequence[Any]) -> list[Any]:
        q, arrays, rest = kept[0], tuple(kept[1 : count + 1]), list(kept[count + 1 :])
        (da, dx, *changes), energy, at = moved, form_of(rest).energy, _finite(q)
        da = da + jax.jvp(lambda *arrays: energy(at, *arrays)[1], arrays, tuple(changes))[1]
        return [_finite(found(da, dx, arrays, rest)) + 0.0 * q]

    def backward(kept: Sequence[Any], moved: Sequence[Any]) -> list[Any]:
        q, arrays, rest = kept[0], tuple(kept[1 : count + 1]), list(kept[count + 1 :])
        (g,), both = moved, form_of(rest).both
        by = found(-g, jnp.zeros_like(g), arrays, rest)
        # NaN of systems without a minimum, for all that may depend on them.
        spoilt = 0.0 * (q + by).sum()
        at, along = _finite(q), _finite(by)
        # Vectors of one length: in sums of both neither is lost.
        lengths = [jnp.sqrt((lax.stop_gradient(x) ** 2).sum()) for x in (at, along)]
        scale = jnp.where((lengths[0] > 0.0) & (lengths[1] > 0.0), lengths[0] / lengths[1], 1.0)
        of_found, of_arrays = jax.grad(lambda x, arrays: both(along * scale, x, *arrays) / scale, (0, 1))(at, arrays)
        return [-by, g - of_found + spoilt, *(spoilt - x for x in of_arrays)]

    @found.defjvp
    def derivative(primals: Any, tangents: Any) -> tuple[Any, Any]:
        (a, x, arrays, rest), (da, dx, changes, _) = primals, tangents
        q = found(a, x, arrays, rest)
        return q, linear(forward, backward, (q, *arrays, *rest), (da, dx, *changes), (q,))[0]

    return found(slopes, start, arrays, rest)


def _apart(form: Form, slopes: Any, arrays: tuple[Any, ...]) -> tuple[list[Any], Callable[[list[Any]], Form]]:
    """All other arrays that a form refers to, and the form of such arrays: rules of derivatives may run when those of
    the call are no longer traced."""
    of = jax.make_jaxpr(form.energy)(slopes, *arrays)
    (systems, groups), count = (form.systems, form.groups), len(of.consts)
    others = [systems.of, groups.of, form.free, *([] if groups.order is None else [groups.order])]

    def made(rest: list[Any]) -> Form:
        energy, (of_systems, of_groups, free, *order) = jaxpr_as_fun(ClosedJaxpr(of.jaxpr, rest[:count])), rest[count:]
        return form._replace(
            energy=lambda *x: tuple(energy(*x)),
            systems=systems._replace(of=of_systems),
            groups=groups._replace(of=of_groups, order=order[0] if order else None),
            free=free,
        )

    return [lax.stop_gradient(jnp.asarray(x)) for x in (*of.consts, *others)], made


def _finite(x: Any) -> Any:
    """Numbers that ops take, which refuse others."""
    return jnp.where(jnp.isfinite(x), x, 0.0)


def searched(form: Form, slopes: Any, start: Any, arrays: tuple[Any, ...]) -> Any:
    """The search of `equilibration::Minimum` of Rust, in a graph; NaN for systems without a minimum."""
    f, dtype = form.f, slopes.dtype
    # Below it rounding is all that changes.
    wide, tolerance = jax.dtypes.canonicalize_dtype(np.float64), 1e-6 if form.narrow else 1e-12
    free, of, group = form.free.astype(wide), form.systems.of, form.groups.of
    most = 4 * slopes.shape[0] + 20

    def times(q: Any) -> Any:
        return form.energy(q.astype(dtype), *arrays)[1].astype(wide)

    def sums(parts: Any, x: Any) -> Any:
        """Sums over parts; NaN where a number is not finite, which the op would refuse."""
        is_finite = jnp.isfinite(x)
        each = jnp.stack([jnp.where(is_finite, x, 0.0), jnp.where(is_finite, 0.0, 1.0).astype(x.dtype)], 1)
        found = parts.sums(f, each)
        return jnp.where(found[:, 1] > 0.0, jnp.nan, found[:, 0])

    def dot(x: Any, y: Any) -> Any:
        return sums(form.systems, x * y)

    own = form.diagonal(*arrays).astype(wide)
    inverse = free * jnp.where(own > 0.0, 1.0 / jnp.where(own > 0.0, own, 1.0), 1.0)
    weight = sums(form.groups, inverse)
    weight = jnp.where(weight > 0.0, weight, 1.0)

    def level(r: Any) -> Any:
        """Slopes without what those of a group have in common, and none of charges that are held."""
        return (r - (sums(form.groups, inverse * r) / weight)[group]) * free

    def step(state: Any) -> Any:
        x, r, along, product, is_open, is_wrong, n = state
        image = times(along)
        curvature = dot(along, image)
        goes = is_open & (curvature > 0.0)
        size = (jnp.where(goes, product, 0.0) / jnp.where(goes, curvature, 1.0))[of]
        moves = goes[of]
        x = jnp.where(moves, x - size * along, x)
        r = level(jnp.where(moves, r - size * image, 0.0))
        scaled = inverse * r
        after = dot(r, scaled)
        turn = jnp.where(goes, after, 0.0) / jnp.where(goes, product, 1.0)
        along = jnp.where(moves, scaled + turn[of] * along, 0.0)
        still = goes & ~(jnp.sqrt(dot(r, r)) <= limit)
        return x, r, along, after, still, is_wrong | (is_open & ~goes), n + 1

    x = _finite(start.astype(wide))
    image, without = times(x), slopes.astype(wide)
    lengths = [dot(y, y) for y in (level(without), level(image))]
    limit = tolerance * jnp.sqrt(jnp.maximum(*lengths))
    r = level(without + image + (start - x))
    is_open = ~(jnp.sqrt(dot(r, r)) <= limit)
    along = _finite(inverse * r)
    state = (x, r, along, dot(r, along), is_open, is_open & False, 0)
    x, _, _, _, is_open, is_wrong, _ = lax.while_loop(lambda s: s[4].any() & (s[6] < most), step, state)
    return jnp.where((is_open | is_wrong)[of], jnp.nan, x).astype(dtype)
