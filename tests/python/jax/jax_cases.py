"""Calls of every op, in float64, and a few charges in a skewed, left-handed cell.

On four devices of the host, or on those of the platform that MADELUNG_TEST_DEVICE names ("cuda").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import DEVICE
from op_arguments import arguments
from shapes import covering

# Before anything runs on a device.
ON_CPU = DEVICE == "cpu"
jax.config.update("jax_platforms", "cpu" if ON_CPU else f"{DEVICE},cpu")
jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_enable_x64", True)

import madelung  # noqa: E402
import madelung.jax as mj  # noqa: E402
from madelung.jax import _ops  # noqa: E402

# Searches have tests of their own.
OPS = {name: family for name, family in _ops.OPS.items() if family.op.smooth}

only_on_cpu: Any = pytest.mark.skipif(not ON_CPU, reason="values of a device's arrays are not looked at by a call")


@dataclass
class Case:
    """An op with arguments that fit its declaration."""

    family: Any
    args: list[Any]
    reals: list[int] = field(init=False)

    def __post_init__(self) -> None:
        # The strain has derivatives of its own, in a test of its own.
        op = self.family.op
        self.reals = [n for n in op.reals if not op.args[op.inputs[n].arg]["zero"]]

    @property
    def inputs(self) -> tuple[Any, ...]:
        return tuple(self.args[n] for n in self.reals)

    @property
    def positions(self) -> Any:
        return self.args[self.reals[0]]

    def at(self, *xs: Any) -> Any:
        args = list(self.args)
        for n, x in zip(self.reals, xs):
            args[n] = x
        return self.family(*args)

    def scalar(self, *xs: Any) -> Any:
        """A number that depends on every output, not linearly."""
        out = self.at(*xs)
        out = out if isinstance(out, tuple) else (out,)
        return sum((x * x * jnp.arange(1, x.size + 1).reshape(x.shape)).sum() for x in out)

    def energy(self, positions: Any) -> Any:
        """The same, of the first argument alone."""
        return self.scalar(positions, *self.inputs[1:])


def make(name: str) -> Case:
    family = OPS[name]
    return Case(family, [jnp.asarray(x) if isinstance(x, np.ndarray) else x for x in arguments(family.op)])


def _of(names: Iterable[str]) -> Callable[..., Any]:
    return pytest.mark.parametrize("case", [make(name) for name in names], ids=list(names))


# Ops with all pairs of traits, and, for what is slow, with all traits: see shapes.py.
_ALL = {name: family.op for name, family in OPS.items()}
every_op, every_trait = _of(covering(_ALL)), _of(covering(_ALL, together=1))


def close(found: Any, expected: Any, tolerance: float = 1e-12, terms: float = 0.0) -> None:
    """Elementwise, against the largest of what is expected, or its `terms`, where these cancel but for rounding."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    scale = np.abs(expected).max() if expected.size else 0.0
    scale = terms if scale < 1e-13 * terms else scale
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale)


def same(found: Any, expected: Any) -> None:
    """The same bits as on the CPU; another device agrees to what docs/cuda.md says."""
    if ON_CPU:
        assert np.array_equal(found, expected)
    else:
        close(found, expected, 1e-12 if np.asarray(expected).dtype == np.float64 else 1e-5)


def four_devices() -> np.ndarray:
    """Devices for tests that share work among them."""
    if len(jax.devices()) < 4:
        pytest.skip(f"{DEVICE} has {len(jax.devices())} devices, and this needs four")
    return np.array(jax.devices()[:4])


def wait(result: Any) -> Any:
    """The result once it is there, and what its computation has found wrong as an exception."""
    jax.block_until_ready(result)
    if not ON_CPU:
        for device in jax.local_devices():
            madelung.check_device(device.local_hardware_id)
    return result


@contextmanager
def recorded(text: str) -> Iterator[None]:
    """A context of calls whose results are NaN, for a reason that a device records."""
    yield
    if not ON_CPU:
        with pytest.raises(ValueError, match=text):
            wait(())


CUTOFF, K_CUTOFF, ALPHA = 4.0, 6.0, 0.9


def system(atoms: int = 4, seed: int = 0) -> tuple[Any, Any, Any]:
    """Positions, charges with a net charge, and the cell."""
    rng = np.random.default_rng(100 * atoms + seed)
    corners = np.array([[n & 1, n >> 1 & 1, n >> 2 & 1] for n in range(8)] + [[0.5, 0.5, n] for n in range(4)])
    cell = np.diag([3.0, 3.3, -3.5]) + 0.3 * rng.random((3, 3))
    r = 1.6 * corners[:atoms] + 0.3 * rng.random((atoms, 3))
    return jnp.asarray(r), jnp.asarray(2 * rng.random(atoms) - 0.7), jnp.asarray(cell)


def listed(positions: Any, cell: Any, **options: Any) -> dict[str, Any]:
    """All that depends on values."""
    pairs, ptr, shifts = mj.neighbor_list(positions, CUTOFF, cell, **options)[:3]
    miller, of = mj.generate_miller_indices(cell, K_CUTOFF)
    lists = {"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts, "cutoff": CUTOFF}
    return {**lists, "miller_indices": miller, "miller_batch_idx": of}


def total(lists: dict[str, Any], alpha: Any = ALPHA) -> Callable[..., Any]:
    """The energy of positions, charges and cell."""

    def energy(positions: Any, charges: Any, cell: Any) -> Any:
        return mj.ewald_summation(positions, charges, cell, alpha, energy_reduction="system", **lists)[0]

    return energy


def differences(f: Callable[..., Any], x: Any, step: float = 1e-4) -> np.ndarray:
    """The derivative of an array by central differences of fourth order."""
    x = np.asarray(x)
    out = []
    for k in range(x.size):
        e = np.zeros(x.size)
        e[k] = step
        e = e.reshape(x.shape)
        near, far = (np.asarray(f(x + n * e)) - np.asarray(f(x - n * e)) for n in (1, 2))
        out.append((8 * near - far) / (12 * step))
    return np.moveaxis(np.array(out), 0, -1).reshape(*out[0].shape, *x.shape)
