"""On a GPU: `madelung.cuda` with arrays of CuPy, Numba, PyTorch and JAX, those that are installed.

`MADELUNG_TEST_DEVICE=cuda` runs these. Results are held against `madelung.numpy`, whose part runs everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import madelung
import madelung.cuda as mc
import madelung.numpy as mn
from conftest import DEVICE, assert_close

ALPHA, CUTOFF, K_CUTOFF = 0.9, 4.0, 6.0
EVERYTHING = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}


@dataclass(frozen=True)
class Library:
    """How a library takes arrays of the host, and those of `madelung.cuda`, and gives them back to the host."""

    send: Callable[[np.ndarray], Any]
    take: Callable[[mc.Array], Any]
    read: Callable[[Any], np.ndarray]
    stream: Callable[[], Any]


def _cupy() -> Library:
    cupy = pytest.importorskip("cupy")
    return Library(cupy.asarray, cupy.from_dlpack, cupy.asnumpy, lambda: cupy.cuda.Stream(non_blocking=True))


def _numba() -> Library:
    cuda = pytest.importorskip("numba.cuda")
    if not cuda.is_available():
        pytest.skip("Numba finds no GPU")
    return Library(cuda.to_device, cuda.as_cuda_array, lambda x: x.copy_to_host(), cuda.stream)


def _torch() -> Library:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no GPU")
    return Library(
        lambda x: torch.as_tensor(x).cuda(),
        torch.from_dlpack,
        lambda x: x.cpu().numpy(),
        lambda: torch.cuda.Stream(),
    )


def _jax() -> Library:
    jax = pytest.importorskip("jax")
    try:
        device = jax.devices("cuda")[0]
    except RuntimeError:
        pytest.skip("JAX finds no GPU")
    jax.config.update("jax_enable_x64", True)
    return Library(lambda x: jax.device_put(x, device), jax.dlpack.from_dlpack, np.asarray, lambda: None)


@pytest.fixture(params=[_cupy, _numba, _torch, _jax], ids=["cupy", "numba", "torch", "jax"])
def opened(request: pytest.FixtureRequest) -> Callable[[], Library]:
    """Opens the library, or leaves out the rest of the test."""

    def call() -> Library:
        if DEVICE != "cuda":
            pytest.skip("not asked for: MADELUNG_TEST_DEVICE=cuda")
        return request.param()

    return call


@pytest.fixture
def system() -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(7)
    corners = np.array([[n & 1, n >> 1 & 1, n >> 2 & 1] for n in range(8)], float)
    cell = np.diag([3.0, 3.3, -3.5]) + 0.3 * random.random((3, 3))
    return 1.6 * corners + 0.5 * random.random((8, 3)), 2 * random.random(8) - 0.7, cell


def test_sums(opened: Callable[[], Library], system: tuple[np.ndarray, ...]) -> None:
    """On the default stream and on one of the library's; arrays come and go without a copy."""
    how = {"cutoff": CUTOFF, "k_cutoff": K_CUTOFF, "accuracy": None, **EVERYTHING}
    expected = mn.ewald_summation(*system, ALPHA, **how)
    library = opened()
    sent = [library.send(x) for x in system]
    for stream in (None, library.stream()):
        found = mc.ewald_summation(*sent, ALPHA, **how, stream=stream)
        for x, want in zip(found, expected):
            assert_close(x.numpy(), want, 1e-12)
            assert_close(library.read(library.take(x)), want, 1e-12)
    madelung.check_device()


def test_lists(opened: Callable[[], Library], system: tuple[np.ndarray, ...]) -> None:
    """The list of the CPU, and what is computed with it."""
    expected = mn.neighbor_list(system[0], CUTOFF, system[2])
    sums = mn.ewald_real_space(*system, ALPHA, cutoff=CUTOFF, compute_forces=True)
    library = opened()
    r, q, h = (library.send(x) for x in system)
    found = mc.neighbor_list(r, CUTOFF, h)
    for x, want in zip(found, expected):
        np.testing.assert_array_equal(x.numpy(), want)
    given = dict(zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), map(library.take, found)))
    for x, want in zip(mc.ewald_real_space(r, q, h, ALPHA, cutoff=CUTOFF, compute_forces=True, **given), sums):
        assert_close(x.numpy(), want, 1e-12)
    madelung.check_device()


def test_memory_that_is_none(opened: Callable[[], Library], system: tuple[np.ndarray, ...]) -> None:
    """What was given back, and the host's, is found out before anything is launched."""

    class Pointer:
        def __init__(self, address: int) -> None:
            self.__cuda_array_interface__ = {
                "data": (address, False), "shape": (8, 3), "typestr": "<f8", "version": 3, "strides": None,
            }  # fmt: skip

    expected = mn.ewald_real_space(*system, ALPHA, cutoff=CUTOFF)
    library = opened()
    r, q, h = (library.send(x) for x in system)
    for address in (system[0].ctypes.data, 1 << 20):
        with pytest.raises((ValueError, TypeError), match="positions"):
            mc.ewald_real_space(Pointer(address), q, h, ALPHA, cutoff=CUTOFF)
    e = mc.ewald_real_space(r, q, h, ALPHA, cutoff=CUTOFF)
    assert_close(e.numpy(), expected, 1e-12)


def test_a_stream_orders_work(opened: Callable[[], Library], system: tuple[np.ndarray, ...]) -> None:
    """Many calls on one stream, whose inputs go before they have run, and then one look at all of them."""
    steps = [system[0] + 0.01 * n for n in range(20)]
    expected = [mn.ewald_real_space(r, *system[1:], ALPHA, cutoff=CUTOFF) for r in steps]
    library = opened()
    stream, found = library.stream(), []
    for r in steps:
        sent = [library.send(x) for x in (r, *system[1:])]
        found.append(mc.ewald_real_space(*sent, ALPHA, cutoff=CUTOFF, stream=stream))
        del sent
    for x, want in zip(found, expected):
        assert_close(x.numpy(), want, 1e-12)
