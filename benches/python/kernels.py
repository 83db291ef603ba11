"""Kernels made at run time beside those compiled with the library, and beside NVIDIA Warp, in one run.

    python benches/python/kernels.py [--atoms 1728] [--cutoff 10] [--threads 1] [--clusters | --warp | --first]
        [--json FILE]

The library's own sources of the real-space Ewald sum and of a Lennard-Jones fluid, compiled with it by rustc, made at
run time by LLVM, and run in the interpreter: values, forces, the gradient by everything with a weight for each atom,
and its derivative along a direction (a Hessian-vector product), on a full list, row by row, one thread; ns of its time
per directed pair, the least of several turns, in which all take their part. All give the same bits, which is checked.

`--clusters`: the same on a list in clusters of atoms, without gradients by the cell.

`--warp`: energies of the fluid and their gradient by positions beside a kernel of Warp (PyPI's warp-lang) with
its tape, over the same list, on the CPU; milliseconds, medians.

`--first`: what a kernel of Python costs before it runs for the first time, in processes that are started for that, with
the cache on disk empty and filled, and llvmlite imported before or not; milliseconds, medians of the processes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TURNS = 9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--atoms", type=int, default=1728)
    parser.add_argument("--cutoff", type=float, default=10.0)
    parser.add_argument("--threads", type=int, default=1, help="of Madelung, beside Warp")
    parser.add_argument("--clusters", action="store_true")
    parser.add_argument("--warp", action="store_true")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.first:
        rows = first_calls()
    else:
        # Before madelung makes its threads. The interpreter is to stay one.
        os.environ |= {"MADELUNG_NUM_THREADS": str(options.threads), "MADELUNG_KERNELS": "interpreter"}
        rows = beside_warp(options) if options.warp else beside_rustc(options)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def fluid(options: argparse.Namespace, dtype: Any) -> dict[str, Any]:
    """Ions near the places of a lattice, 0.1 of them in a cubic Å, and their full list."""
    import numpy as np

    import madelung.numpy as mn
    from madelung._schema import CHECKED, FULL

    rng, side = np.random.default_rng(1), (options.atoms / 0.1) ** (1 / 3)
    per_axis = next(n for n in range(1, options.atoms + 1) if n**3 >= options.atoms)
    sites = np.indices((per_axis,) * 3).reshape(3, -1).T[: options.atoms]
    positions = (sites + 0.5 + 0.3 * rng.uniform(-1, 1, sites.shape)) * side / per_axis
    neighbors, ptr, shifts = mn.neighbor_list(positions, options.cutoff, side * np.eye(3))
    count, columns = len(shifts), neighbors[1]
    if options.clusters:
        found = mn.find_neighbors(positions, options.cutoff, side * np.eye(3))
        assert found.form == "clusters"
        ptr, columns, shifts = found.index, found.columns, found.images
    table = {"epsilon": 0.01, "sigma": 1.5}
    return {
        "positions": positions.astype(dtype),
        "charges": (1.0 - 2.0 * (sites.sum(axis=1) % 2)).astype(dtype),
        "cell": (side * np.eye(3))[None].astype(dtype),
        "alpha": np.array([0.3], dtype),
        "strain": np.zeros(0, dtype),
        "cutoff": options.cutoff,
        "taper": options.cutoff - 1.0,
        "prefactor": 1.0,
        "atoms": np.zeros(len(positions), np.int32),
        "types": np.zeros(len(positions), np.int32),
        "pairs_ptr": ptr,
        "pairs": columns,
        "pairs_count": count,
        "pairs_shifts": shifts,
        "pairs_kind": FULL | CHECKED,
        **{name: np.full((1, 1), x, dtype) for name, x in table.items()},
    }


def beside_rustc(options: argparse.Namespace) -> list[dict[str, Any]]:
    """One row for each kernel, dtype and member: ns per pair, by the kinds of code."""
    import numpy as np

    from madelung import _native
    from madelung._schema import DIRECT, GRADIENT, GRADIENT_TANGENT, VALUE
    from madelung.kernels import _llvm
    from madelung.numpy._ops import OPS, Op

    sources = {name: source for source, name in _native.library_kernels()}

    def made(source: str, name: str, kind: str) -> Op:
        constraints = [("cell", "cell")]
        described = _native.kernel_op(("benches", f"{name}_{kind}", 1), name, [(source, name)], [], [], constraints)
        return Op(json.loads(described)[0])

    rows = []
    for name in ("ewald_real_space", "lennard_jones_energies"):
        compiled = next(op for short, op in OPS.items() if short in (name, name.removesuffix("_energies")))
        # Other text, and so a kernel of its own, which keeps the interpreter.
        ops = {
            "rustc": compiled,
            "LLVM": made(sources[name], name, "compiled"),
            "interpreter": made(sources[name] + "\n", name, "interpreted"),
        }
        for dtype in (np.float64, np.float32):
            assert _llvm.install_all(sources[name], dtype == np.float32), _llvm.compiler()
            given = fluid(options, dtype)
            rng, n = np.random.default_rng(2), len(given["positions"])
            weights = [rng.normal(size=n).astype(dtype)]
            u = {"positions": (n, 3), "charges": (n,), "cell": (1, 3, 3), "alpha": (1,), "strain": (1, 3, 3)}
            along = {k: rng.normal(size=shape).astype(dtype) for k, shape in u.items()}

            def call(
                op: Op, member: str, given: dict[str, Any] = given, weights: Any = weights, along: Any = along
            ) -> Any:
                flat = [given[i.name] for i in op.inputs]
                names = [op.inputs[k].name for k in op.reals]
                everything = (1 << len(names)) - 1 & ~(op.bits("cell") if options.clusters else 0)
                direction = [along.get(k, np.ones((1, 1), given["positions"].dtype)) for k in names]
                extra, want = {
                    VALUE: ([], 0),
                    DIRECT: ([], op.bits("positions")),
                    GRADIENT: (weights, everything),
                    GRADIENT_TANGENT: ([*weights, *direction], everything),
                }[member]
                return {
                    names[k] if member in (GRADIENT, GRADIENT_TANGENT) else k: x
                    for k, x in enumerate(op.run(member, flat, extra, want))
                }

            members = {
                "value": VALUE,
                "forces": DIRECT,
                "gradient": GRADIENT,
                "Hessian-vector product": GRADIENT_TANGENT,
            }
            for title, member in members.items():
                found = [call(op, member) for op in ops.values()]
                for other in found[1:]:
                    assert all((x is None and other[k] is None) or (x == other[k]).all() for k, x in found[0].items())
                least = {kind: float("inf") for kind in ops}
                for _ in range(TURNS):
                    for kind, op in ops.items():
                        start = time.thread_time_ns()
                        call(op, member)
                        least[kind] = min(least[kind], (time.thread_time_ns() - start) / given["pairs_count"])
                ratios = {kind: least[kind] / least["rustc"] for kind in ops}
                rows.append({"kernel": name, "dtype": np.dtype(dtype).name, "member": title, "ns": least})
                print(
                    f"{name:23} {np.dtype(dtype).name:8} {title:22} "
                    + "  ".join(f"{kind} {x:6.2f} ns" for kind, x in least.items())
                    + f"   LLVM {ratios['LLVM']:.2f}, interpreter {ratios['interpreter']:.2f} of rustc"
                )
    return rows


def beside_warp(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Energies and their gradient by positions: milliseconds of Warp and of Madelung."""
    import numpy as np
    import torch
    import warp as wp

    import madelung.torch as mt
    from madelung.kernels import Array, Batch, Mat3, Out, Pairs, Real, Vec3, dims, dot, kernel

    wp.config.quiet = True
    Atom, System = dims("Atom System")
    torch.set_num_threads(options.threads)

    @kernel(fast=["positions"])
    def ours(
        i: Atom,
        positions: Array[Vec3, Atom],
        cell: Array[Mat3, System],
        sigma: Real,
        cutoff: Real,
        atoms: Batch[Atom, System],
        pairs: Pairs[Atom],
        energy: Out[Real, Atom],
    ):
        b = atoms.of(i)
        e = 0.0
        for j, shift in pairs.row(i):
            d = positions[j] - positions[i] + shift @ cell[b]
            s = sigma**2 / dot(d, d)
            if dot(d, d) < cutoff**2:
                e += 2.0 * (s**6 - s**3)
        energy[i] = e

    @wp.kernel
    def theirs(
        positions: wp.array(dtype=wp.vec3d),
        cell: wp.array(dtype=wp.mat33d),
        sigma: wp.float64,
        cutoff: wp.float64,
        ptr: wp.array(dtype=wp.int32),
        others: wp.array(dtype=wp.int32),
        shifts: wp.array(dtype=wp.vec3i),
        energy: wp.array(dtype=wp.float64),
    ):
        i = wp.tid()
        for k in range(ptr[i], ptr[i + 1]):
            s = shifts[k]
            shift = wp.vec3d(wp.float64(s[0]), wp.float64(s[1]), wp.float64(s[2]))
            d = positions[others[k]] - positions[i] + shift * cell[0]
            r2 = wp.dot(d, d)
            x = sigma * sigma / r2
            x3 = x * x * x
            if r2 < cutoff * cutoff:
                wp.atomic_add(energy, i, wp.float64(2.0) * (x3 * x3 - x3))

    given = fluid(options, np.float64)
    n = options.atoms
    rows = []
    with wp.ScopedDevice("cpu"):
        x = wp.array(given["positions"], dtype=wp.vec3d, requires_grad=True)
        h = wp.array(given["cell"], dtype=wp.mat33d)
        lists = [
            wp.array(np.asarray(given[k], np.int32), dtype=t)
            for k, t in [("pairs_ptr", wp.int32), ("pairs", wp.int32), ("pairs_shifts", wp.vec3i)]
        ]
        ones = wp.array(np.ones(n), dtype=wp.float64)

        def warp() -> Any:
            e = wp.zeros(n, dtype=wp.float64, requires_grad=True)
            with wp.Tape() as tape:
                inputs = [x, h, wp.float64(1.5), wp.float64(options.cutoff), *lists]
                wp.launch(theirs, dim=n, inputs=inputs, outputs=[e])
            tape.backward(grads={e: ones})
            found = e.numpy().copy(), x.grad.numpy().copy()
            tape.zero()
            return found

        assert ours.compile()
        positions, cell = (torch.from_numpy(given[k]) for k in ("positions", "cell"))
        pairs = mt.find_neighbors(positions, options.cutoff, cell[0])

        def madelung() -> Any:
            r = positions.clone().requires_grad_()
            e = ours(r, cell, sigma=1.5, cutoff=options.cutoff, pairs=pairs)
            return e.detach().numpy(), torch.autograd.grad(e.sum(), r)[0].numpy()

        for a, b in zip(warp(), madelung()):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
        methods: dict[str, Callable[[], Any]] = {"Warp": warp, "Madelung": madelung}
        times: dict[str, list[float]] = {kind: [] for kind in methods}
        for _ in range(3 * TURNS):
            for kind, run in methods.items():
                start = time.perf_counter()
                run()
                times[kind].append(1e3 * (time.perf_counter() - start))
        medians = {kind: statistics.median(of) for kind, of in times.items()}
        rows.append({"threads": options.threads, "pairs": given["pairs_count"], "ms": medians})
        print(
            f"{given['pairs_count']} pairs, energies and gradient: Warp {medians['Warp']:.2f} ms, "
            f"Madelung on {options.threads} threads {medians['Madelung']:.2f} ms "
            f"({medians['Warp'] / medians['Madelung']:.1f} times as fast)"
        )
    return rows


def first_calls() -> list[dict[str, Any]]:
    """Milliseconds of a kernel's first steps, in fresh processes."""
    rows = []
    for imported in (False, True):
        found: dict[str, list[dict[str, float]]] = {"empty": [], "filled": []}
        for _ in range(TURNS):
            with tempfile.TemporaryDirectory() as cache:
                for times in found.values():
                    here = f"import kernels, json; print(json.dumps(kernels.first_call({imported})))"
                    settings = os.environ | {"MADELUNG_CACHE": cache}
                    folder = Path(__file__).parent
                    done = subprocess.run([sys.executable, "-c", here], env=settings, cwd=folder, capture_output=True)
                    assert done.returncode == 0, done.stderr.decode()
                    times.append(json.loads(done.stdout))
        for cache_, times in found.items():
            medians = {step: statistics.median(t[step] for t in times) for step in times[0]}
            rows.append({"llvmlite imported": imported, "cache": cache_, "ms": medians})
            print(f"llvmlite {'imported before' if imported else 'not imported'}, cache {cache_}:")
            print("".join(f"    {step:42} {x:8.1f} ms\n" for step, x in medians.items()), end="", flush=True)
    return rows


def first_call(imported: bool) -> dict[str, float]:
    """Milliseconds of a kernel's first steps, in this process."""
    import numpy as np

    import madelung.numpy as mn
    from madelung.kernels import Array, Batch, Mat3, Out, Pairs, Real, Tape, Vec3, dims, exp, kernel, length

    if imported:
        import llvmlite.binding  # noqa: F401
    Atom, System = dims("Atom System")

    def cell_of_a_notebook() -> Any:
        @kernel
        def yukawa(
            i: Atom,
            positions: Array[Vec3, Atom],
            charges: Array[Real, Atom],
            cell: Array[Mat3, System],
            kappa: Array[Real, System],
            cutoff: Real,
            atoms: Batch[Atom, System],
            pairs: Pairs[Atom],
            energy: Out[Real, Atom],
        ):
            b = atoms.of(i)
            e = 0.0
            for j, shift in pairs.row(i):
                r = length(positions[j] - positions[i] + shift @ cell[b])
                if r < cutoff:
                    e += charges[j] * exp(-kappa[b] * r) / r
            energy[i] = charges[i] * e / 2

        return yukawa

    rng, side = np.random.default_rng(0), 8.0 * np.eye(3)
    positions, charges = 8.0 * rng.uniform(size=(40, 3)), rng.normal(size=40)
    pairs = mn.find_neighbors(positions, 4.0, side)
    times: dict[str, float] = {}

    def timed(step: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        found = work()
        times[step] = 1e3 * (time.perf_counter() - start)
        return found

    def call() -> Any:
        return yukawa(positions, charges, side, 0.7, cutoff=4.0, pairs=pairs)

    def gradient() -> Any:
        with Tape() as tape:
            energies = call()
        return tape.gradient(energies, positions)

    yukawa = timed("definition", cell_of_a_notebook)
    timed("first call", call)
    timed("next call", call)
    timed("first gradient", gradient)
    yukawa = timed("the same definition again", cell_of_a_notebook)
    timed("its first call", call)
    assert timed("machine code of all parts, float64", yukawa.compile)
    timed("first call of machine code", call)
    return times


if __name__ == "__main__":
    main()
