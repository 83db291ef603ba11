"""Neighbour lists beside other libraries, in one run.

    python benches/python/neighbors.py [--atoms 1000 10000 100000] [--cutoffs 5 10] [--threads 2] [--json FILE]

Full lists with images of atoms at random in a periodic cube, 0.1 of them in a cubic Å, float64: of `madelung` as
`Neighbors`, as arrays of pairs, and with lengths and vectors in PyTorch; of vesin, matscipy and nvalchemi-toolkit-ops
as arrays of pairs, where they can be imported. SciPy's `cKDTree` finds the pairs alone, without images, from one side,
freud those of float32 with their vectors, in place of images. The libraries take turns, so that what else the machine
does falls on all of them alike, and all find as many pairs (freud to one in a hundred thousand); times are medians, in
nanoseconds a directed pair.

Arrays of hundreds of megabytes are fresh memory in each call, where MADELUNG_KEEP_BYTES does not ask for more than
256 MiB to be kept; a virtual machine may take some nanoseconds for each of their bytes.
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

import numpy as np

DENSITY = 0.1
Call = Callable[[], int]


def in_torch(positions: np.ndarray, cell: np.ndarray, cutoff: float, is_few: bool) -> dict[str, Call]:
    """Searches of tensors."""
    import torch

    import madelung.torch as mt

    r, h = torch.from_numpy(positions), torch.from_numpy(cell)
    found: dict[str, Call] = {
        "madelung.torch, vectors": lambda: mt.neighbor_list(r, cutoff, h, return_distances=True, return_vectors=True)[
            0
        ].shape[1]
    }
    if is_few and importlib.util.find_spec("nvalchemiops"):
        from nvalchemiops.torch.neighbors import neighbor_list

        pbc = torch.ones(1, 3, dtype=torch.bool)
        found["nvalchemiops"] = lambda: neighbor_list(
            r, cutoff, h[None], pbc, method="cell_list", return_neighbor_list=True
        )[0].shape[1]
    return found


def calls(positions: np.ndarray, side: float, cutoff: float, most_atoms: int, threads: int) -> dict[str, Call]:
    """Searches, each of which says how many directed pairs it has found."""
    import madelung.numpy as mn

    cell = side * np.eye(3)
    found: dict[str, Call] = {
        "madelung, Neighbors": lambda: int(mn.find_neighbors(positions, cutoff, cell).num_pairs),
        "madelung, arrays": lambda: mn.neighbor_list(positions, cutoff, cell)[0].shape[1],
    }
    if importlib.util.find_spec("torch"):
        found |= in_torch(positions, cell, cutoff, len(positions) <= most_atoms)
    if len(positions) > most_atoms:
        return found
    if importlib.util.find_spec("vesin"):
        from vesin import NeighborList

        vesin = NeighborList(cutoff=cutoff, full_list=True)
        found["vesin"] = lambda: len(vesin.compute(positions, cell, periodic=True, quantities="ijS")[0])
    if importlib.util.find_spec("matscipy"):
        from matscipy.neighbours import neighbour_list

        options = {"positions": positions, "cell": cell, "pbc": [True] * 3, "cutoff": cutoff}
        found["matscipy"] = lambda: len(neighbour_list("ijS", **options)[0])
    if importlib.util.find_spec("scipy") and 2.0 * cutoff < side:
        from scipy.spatial import cKDTree

        found["cKDTree, no images"] = lambda: (
            2 * len(cKDTree(positions, boxsize=side).query_pairs(cutoff, output_type="ndarray"))
        )
    if importlib.util.find_spec("freud") and 2.0 * cutoff < side:
        import freud

        freud.parallel.set_num_threads(threads)
        box = freud.box.Box.cube(side)
        # Its boxes are around the origin.
        at = box.wrap(positions - 0.5 * side).astype(np.float32)
        found["freud, float32"] = lambda: len(
            freud.locality.AABBQuery(box, at).query(at, {"r_max": cutoff, "exclude_ii": True}).toNeighborList()
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--atoms", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--cutoffs", type=float, nargs="+", default=[5.0, 10.0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--others", type=int, default=100_000, help="the most atoms that other libraries are given")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    # Before madelung makes its threads.
    os.environ["MADELUNG_NUM_THREADS"] = str(options.threads)
    rows = []
    for atoms in options.atoms:
        side = (atoms / DENSITY) ** (1 / 3)
        positions = np.random.default_rng(0).random((atoms, 3)) * side
        for cutoff in options.cutoffs:
            each = calls(positions, side, cutoff, options.others, options.threads)
            times: dict[str, list[float]] = {name: [] for name in each}
            pairs = 0
            for turn in range(options.rounds + 1):
                for name, call in each.items():
                    start = time.perf_counter()
                    found = call()
                    if turn:  # The first turn warms up.
                        times[name].append(time.perf_counter() - start)
                    pairs = pairs or found
                    rounded = pairs // 100_000 if "float32" in name else 0
                    assert abs(found - pairs) <= rounded, f"{name}: {found} pairs, and {pairs} by the first"
            of = {name: 1e9 * statistics.median(seconds) / pairs for name, seconds in times.items()}
            for name, nanoseconds in of.items():
                ratio = of["vesin"] / nanoseconds if "vesin" in of else float("nan")
                print(f"{atoms:8} atoms, {cutoff:4} Å, {name:24} {nanoseconds:8.2f} ns a pair {ratio:7.1f} of vesin")
                rows.append((atoms, cutoff, name, nanoseconds, ratio))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
