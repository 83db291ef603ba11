"""What `NeighborList.update` costs where nothing is to be found anew.

    python benches/python/verlet.py [--atoms 100000 1000000] [--threads 1 2]

Nanoseconds for each atom, the least and the median of 50 calls, beside a product of the two arrays of positions by
NumPy, which reads as much memory.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import madelung
import madelung.numpy as mn
import madelung.torch as mt


def nanoseconds(call: Callable[[], Any], atoms: int) -> str:
    """The least and the median time of a call, for each atom."""
    times = []
    for _ in range(50):
        begin = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - begin) / atoms)
    return f"{min(times):6.2f} ({statistics.median(times):6.2f})"


def measure(atoms: int, dtype: type, threads: int) -> None:
    """A gas, so that lists are short, of which each atom has moved a little."""
    madelung.set_num_threads(threads)
    torch.set_num_threads(threads)
    side = (atoms / 0.05) ** (1 / 3)
    r, h = (np.random.default_rng(0).random((atoms, 3)) * side).astype(dtype), (side * np.eye(3)).astype(dtype)
    moved = r + dtype(0.01)
    print(f"{threads} threads, {atoms} atoms, {np.dtype(dtype).name}:", end=" ")
    for name, module, array in (("NumPy", mn, np.asarray), ("PyTorch", mt, torch.from_numpy)):
        search = module.NeighborList(1.0, skin=0.3)
        before, now, cell = map(array, (r, moved, h))
        found = search.allocate(before, cell)
        assert search.update(found, now, cell) is found
        print(name, nanoseconds(lambda s=search, f=found, x=now, c=cell: s.update(f, x, c), atoms), end=", ")
    print("a product", nanoseconds(lambda: np.dot(r.ravel(), moved.ravel()), atoms))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--atoms", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    given = parser.parse_args()
    for threads in given.threads:
        for atoms in given.atoms:
            for dtype in (np.float64, np.float32):
                measure(atoms, dtype, threads)
