"""Kernels that go on with what arrays hold, arguments for them, and what NumPy makes of these."""

from __future__ import annotations

from typing import Any

import numpy as np

from madelung.kernels import Array, InOut, Int, Int64, Mat3, Out, Real, Vec3, atomic_add, atomic_max, dims, kernel

Point, Bin = dims("Point Bin")


@kernel(adjoint=False)
def axpy(i: Point, a: Real, x: Array[Real, Point], y: InOut[Real, Point]):
    y[i] = a * x[i] + y[i]


@kernel(adjoint=False)
def go_on(
    i: Point,
    x: Array[Real, Point],
    bin: Array[Int, Point],
    y: InOut[Real, Point],
    v: InOut[Vec3, Point],
    m: InOut[Mat3, Point],
    n: InOut[Int, Point],
    wide: InOut[Int64, Point],
    counts: InOut[Int, Bin],
    most: InOut[Int64],
    one: InOut[Real],
    new: Out[Int, Bin],
):
    y[i] += 0.5 * x[i]
    v[i] -= Vec3(x[i], y[i], 1.0)
    m[i] = m[i] @ m[i] + m[i]
    if n[i] > 2:
        n[i] *= 3
    wide[i] += n[i]
    atomic_add(counts[bin[i]], n[i])
    atomic_add(new[bin[i]], n[i])
    atomic_max(most, wide[i])
    if int(i) == 0:
        one = 2 * one


def arguments(dtype: Any = np.float64, rows: int = 6) -> tuple[dict[str, Any], dict[str, Any]]:
    """The inputs, and the arrays that `go_on` goes on with: numbers whose sums and products float32 has exactly."""
    rng = np.random.default_rng(4)

    def reals(*shape: int) -> Any:
        return (rng.integers(-40, 40, shape) / 8).astype(dtype)

    def integers(dtype: Any, *shape: int) -> Any:
        return rng.integers(-9, 10, shape).astype(dtype)

    inputs = {"x": reals(rows), "bin": rng.integers(0, 3, rows).astype(np.int32)}
    held = {"y": reals(rows), "v": reals(rows, 3), "m": reals(rows, 3, 3)}
    held |= {"n": integers(np.int32, rows), "wide": 2**40 + integers(np.int64, rows)}
    held |= {"counts": integers(np.int32, 3), "most": np.array(7), "one": np.array(1.5, dtype)}
    return inputs, held


def expected(inputs: dict[str, Any], held: dict[str, Any]) -> dict[str, Any]:
    """The arrays after a run, and the new one."""
    x, m, rows = inputs["x"], held["m"], len(inputs["x"])
    y = held["y"] + x / 2
    n = np.where(held["n"] > 2, 3 * held["n"], held["n"])
    wide = held["wide"] + n
    new = np.array([n[inputs["bin"] == k].sum() for k in range(3)], np.int32)
    return {
        "y": y,
        "v": held["v"] - np.stack([x, y, np.ones_like(x)], 1),
        "m": np.einsum("nij,njk->nik", m, m) + m,
        "n": n,
        "wide": wide,
        "counts": held["counts"] + new,
        "most": max([held["most"], *wide]),
        "one": held["one"] * (2 if rows else 1),
        "new": new,
    }
