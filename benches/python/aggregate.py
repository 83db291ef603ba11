"""Aggregation of features of points around queries, beside other libraries, in one run.

    python benches/python/aggregate.py [--radius 0.1 0.2] [--features 25] [--threads 2] [--json FILE]

27,000 queries on a grid of [−1, 1]³ and a cloud of points, float32, in PyTorch on the CPU: 25,000 points uniform on
[−1, 1]³ and within a radius, or 100,000 normally distributed ones and the 7 nearest. Each call builds all that it
needs. Beside it the k nearest points by SciPy's `cKDTree`, with weights and sums in PyTorch, and, where Warp can be
imported, a kernel around its hash grid, which takes one thread; all give equal sums before they are timed. The
libraries take turns, so that what else the machine does falls on all of them alike; times are medians.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Call = Callable[[bool], Any]


def clouds(features: int) -> dict[str, tuple[Any, ...]]:
    """Queries, points, features and the length of the weight, which require gradients."""
    import torch

    random = torch.Generator().manual_seed(0)
    queries = torch.cartesian_prod(*[torch.linspace(-1.0, 1.0, 30)] * 3)
    both = {
        "uniform": 2.0 * torch.rand(25_000, 3, generator=random) - 1.0,
        "normal": torch.randn(100_000, 3, generator=random),
    }
    return {
        name: tuple(
            x.clone().requires_grad_()
            for x in (queries, points, torch.randn(len(points), features, generator=random), torch.tensor(0.1))
        )
        for name, points in both.items()
    }


def timed(function: Callable[..., Any], inputs: tuple[Any, ...], backward: bool) -> None:
    import torch

    if not backward:
        with torch.no_grad():
            function(*inputs)
        return
    out = function(*inputs)
    torch.autograd.grad(out, inputs, torch.ones_like(out))


def tree(k: int, threads: int) -> Callable[..., Any]:
    import torch
    from scipy.spatial import cKDTree

    def aggregate(q: Any, r: Any, x: Any, sigma: Any) -> Any:
        _, nearest = cKDTree(r.detach().numpy()).query(q.detach().numpy(), k, workers=threads)
        near = torch.from_numpy(nearest)
        d = (r[near] - q[:, None]).norm(dim=-1)
        return (torch.softmax(-d / sigma, 1)[..., None] * x[near]).sum(1)

    return aggregate


def hash_grid(radius: float) -> Callable[..., Any]:
    """Sums of Warp over the points of its hash grid, and their derivatives by its tape."""
    import torch
    import warp as wp

    wp.config.quiet = True
    wp.init()

    @wp.kernel
    def around(
        grid: wp.uint64,
        queries: wp.array(dtype=wp.vec3),
        points: wp.array(dtype=wp.vec3),
        features: wp.array2d(dtype=wp.float32),
        sigma: wp.array(dtype=wp.float32),
        reach: wp.float32,
        total: wp.array2d(dtype=wp.float32),
        norm: wp.array(dtype=wp.float32),
    ):
        i = wp.tid()
        q = queries[i]
        for j in wp.hash_grid_query(grid, q, reach):
            d = wp.length(points[j] - q)
            if d <= reach:
                w = wp.exp(-d / sigma[0])
                norm[i] += w
                for c in range(features.shape[1]):
                    total[i, c] += w * features[j, c]

    class Sums(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            q, r, x, sigma = inputs
            graded = any(ctx.needs_input_grad)
            given = [
                wp.from_torch(t.detach(), dtype=dtype, requires_grad=graded)
                for t, dtype in zip((q, r, x, sigma[None]), (wp.vec3, wp.vec3, wp.float32, wp.float32))
            ]
            grid = wp.HashGrid(64, 64, 64, device="cpu")
            grid.build(given[1], radius)
            sums = wp.zeros((len(q), x.shape[1]), dtype=wp.float32, device="cpu", requires_grad=graded)
            norms = wp.zeros(len(q), dtype=wp.float32, device="cpu", requires_grad=graded)
            ctx.tape, ctx.grid, ctx.arrays = wp.Tape(), grid, (*given, sums, norms)
            with ctx.tape:
                wp.launch(around, len(q), [grid.id, *given, radius], [sums, norms], device="cpu")
            return wp.to_torch(sums), wp.to_torch(norms)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            *given, sums, norms = ctx.arrays
            by = {array: wp.from_torch(g.contiguous()) for array, g in zip((sums, norms), cotangents)}
            ctx.tape.backward(grads=by)
            *grads, sigma = (wp.to_torch(array.grad) for array in given)
            return *grads, sigma[0]

    def aggregate(q: Any, r: Any, x: Any, sigma: Any) -> Any:
        total, norm = Sums.apply(q, r, x, sigma)
        return total / (norm + 1e-8)[:, None]

    return aggregate


def check(function: Callable[..., Any], expected: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    """Two functions have the same values and gradients, but where float32 decides otherwise who is within a radius."""
    import torch

    both = []
    for each in (function, expected):
        out = each(*inputs)
        both.append((out, *torch.autograd.grad(out.square().mean(), inputs)))
    for x, y in zip(*both):
        off = ((x - y).abs() > 1e-3 * y.abs().max()).float().mean()
        assert off < 1e-4, f"{function.__qualname__}: {off} of {tuple(y.shape)} numbers are others"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--radius", type=float, nargs="+", default=[0.1, 0.2])
    parser.add_argument("--k", type=int, default=7)
    parser.add_argument("--features", type=int, default=25)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    # Before madelung makes its threads.
    os.environ["MADELUNG_NUM_THREADS"] = str(options.threads)
    import torch

    import madelung.torch as mt

    torch.set_num_threads(options.threads)
    inputs = clouds(options.features)
    calls: dict[tuple[str, str, str], Callable[[], None]] = {}
    for way in ("forward", "forward and backward"):
        backward = way != "forward"
        for radius in options.radius:
            for cloud in inputs:

                def within(q: Any, r: Any, x: Any, sigma: Any, radius: float = radius) -> Any:
                    return mt.radius_aggregate(q, r, x, radius, sigma)

                others = {"madelung": within}
                if importlib.util.find_spec("warp"):
                    others["Warp, hash grid"] = hash_grid(radius)
                for library, function in others.items():
                    if not backward and library != "madelung":
                        check(function, within, inputs[cloud])
                    calls[f"radius {radius}, {cloud}", library, way] = lambda f=function, x=inputs[cloud], b=backward: (
                        timed(f, x, b)
                    )

        def nearest(q: Any, r: Any, x: Any, sigma: Any) -> Any:
            return mt.knn_aggregate(q, r, x, options.k, sigma)

        others = {"madelung": nearest, "cKDTree and PyTorch": tree(options.k, options.threads)}
        if not backward:
            check(others["cKDTree and PyTorch"], nearest, inputs["normal"])
        for library, function in others.items():
            calls[f"k = {options.k}, normal", library, way] = lambda f=function, x=inputs["normal"], b=backward: timed(
                f, x, b
            )
    times: dict[tuple[str, str, str], list[float]] = {key: [] for key in calls}
    for turn in range(options.rounds + 1):
        for key, call in calls.items():
            start = time.perf_counter()
            call()
            if turn:  # The first turn warms up.
                times[key].append(time.perf_counter() - start)
    rows = [(*key, 1e3 * statistics.median(of)) for key, of in times.items()]
    for what, library, way, milliseconds in sorted(rows):
        print(f"{what:22} {way:22} {library:22} {milliseconds:8.1f} ms")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
