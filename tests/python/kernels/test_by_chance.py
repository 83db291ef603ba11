"""Kernels written by chance, beside the functions as plain Python, and their machine code beside the interpreter."""

import numpy as np
import pytest
from by_chance import SMOOTH, Author, system

import madelung.kernels as mk
from conftest import required
from madelung import _native
from madelung.kernels import _llvm

required("llvmlite")


@pytest.mark.parametrize("first", range(0, 240, 24))
def test_kernels_written_by_chance(first: int) -> None:
    for seed in range(first, first + 24):
        author, given = Author(seed), system(seed)
        text, made = author.text, author.kernel()
        smooth = [given[k] for k in SMOOTH]
        with mk.Tape() as tape:
            energy, total = made(**given)
        # Plain Python rounds as often, and sums in another order.
        for got, want in zip((energy, total), author.plainly(given)):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11, err_msg=text)
        gradients = tape.gradient(energy, smooth)
        rng, step = np.random.default_rng(seed), 1e-5
        along = [rng.normal(size=x.shape) for x in smooth]
        ends = []
        for sign in (1, -1):
            moved = dict(zip(SMOOTH, (x + sign * step * u for x, u in zip(smooth, along))))
            ends.append(author.plainly(given | moved)[0].sum())
        slope = sum((g * u).sum() for g, u in zip(gradients, along))
        size = sum(np.abs(g * u).sum() for g, u in zip(gradients, along))
        assert abs((ends[0] - ends[1]) / (2 * step) - slope) < 1e-6 * (1 + size), text
        # LLVM takes a second for those of a kernel.
        if seed % 4:
            continue
        parts = [part for *_, part in _native.kernel_parts(made.source) if "_value_" in part or "_gradient_" in part]
        assert all([_llvm.install(made.source, part, False) for part in parts[:3]])
        with mk.Tape() as tape:
            again = made(**given)
        for x, y in zip((energy, total, *gradients), (*again, *tape.gradient(again[0], smooth)), strict=True):
            np.testing.assert_array_equal(x, y, err_msg=text)
