"""A training step on latent charges, beside the package `les`, in one run on the same threads.

    python benches/python/latent.py [--threads 2] [--systems 32] [--channels 1] [--dtype float64] [--json FILE]

Structures of 50 to 200 atoms at 0.05 atoms per Å³, periodic, open, or both in turn, with charges that depend on the
positions by one weight of each atom; the loss is that of energies and forces, so its gradient is a second derivative.
Each library has a process of its own, whose peak memory is that above what a batch of two structures took before: for
madelung with its lists, which are made once, outside of the time of a step (their time is told). Times are medians.
`les` is measured where it can be imported.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIGMA, DL, DENSITY = 1.0, 2.0, 0.05
KINDS = ("periodic", "open", "both")
LIBRARIES = ("madelung", "les")


def structures(kind: str, systems: int, channels: int, dtype: Any) -> list[dict[str, Any]]:
    """Atoms at random places of a lattice, so that none are close."""
    import numpy as np

    rng = np.random.default_rng(1)
    found = []
    for n in range(systems):
        atoms = int(rng.integers(50, 201))
        side = (atoms / DENSITY) ** (1 / 3)
        per_axis = int(np.ceil(atoms ** (1 / 3)))
        sites = np.stack(np.meshgrid(*[np.arange(per_axis)] * 3, indexing="ij"), -1).reshape(-1, 3)
        places = rng.permutation(sites)[:atoms] + 0.4 * rng.random((atoms, 3))
        is_periodic = kind == "periodic" or (kind == "both" and n % 2 == 0)
        cell = side * (np.eye(3) + 0.05 * rng.normal(size=(3, 3))) * is_periodic
        weights, energy = rng.normal(size=(atoms, channels)), rng.normal()
        arrays = {"positions": places * side / per_axis, "cell": cell, "weights": weights, "energy": energy}
        found.append({name: np.asarray(x, dtype) for name, x in arrays.items()})
    return found


def training(library: str, given: list[dict[str, Any]], channels: int) -> tuple[Callable[[], float], int, float]:
    """A step of training, the number of atoms, and how long the lists took."""
    import torch

    from madelung.torch import nn
    from madelung.units import LATENT_EWALD

    batch = nn.collate(given)
    start = time.perf_counter()
    lists = nn.collate(given, dl=DL)["latent_ewald"] if library == "madelung" else {}
    made = time.perf_counter() - start
    positions, weights = batch["positions"].requires_grad_(), batch["weights"].requires_grad_()
    cell, idx = batch["cell"], batch["batch_idx"]

    energies: Callable[[Any], Any]
    if library == "madelung":
        model = nn.LatentEwald(SIGMA, DL, prefactor=LATENT_EWALD)

        def energies(q: Any) -> Any:
            return model(positions, q, cell, idx, **lists)

    else:
        from les.module import Ewald

        ewald, of = Ewald(dl=DL, sigma=SIGMA), idx.long()

        def energies(q: Any) -> Any:
            return ewald(q, positions, cell, of)[0]

    def step() -> float:
        charges = weights * (1.0 + 0.1 * torch.sin(positions).sum(1, keepdim=True))
        energy = energies(charges[:, 0] if channels == 1 else charges)
        (gradient,) = torch.autograd.grad(energy.sum(), positions, create_graph=True)
        loss = ((energy - batch["energy"]) ** 2).mean() + (gradient**2).mean()
        weights.grad = None
        loss.backward(inputs=[weights])
        return loss.item()

    return step, len(positions), made


def measure(library: str, kind: str, systems: int, channels: int, dtype: str, threads: int) -> dict[str, Any]:
    """The median time of a step, its peak memory, and a number to compare."""
    os.environ["MADELUNG_NUM_THREADS"] = str(threads)
    import torch

    torch.set_num_threads(threads)
    # What libraries load and keep at their first calls is no step's memory.
    training(library, structures(kind, 2, channels, dtype), channels)[0]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step, atoms, made = training(library, structures(kind, systems, channels, dtype), channels)
    loss, times = step(), []
    while not times or (sum(times) < 2.0 and len(times) < 30):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    row = {"library": library, "kind": kind, "atoms": atoms, "channels": channels, "dtype": dtype}
    return row | {"ms": 1e3 * statistics.median(times), "peak_mb": peak, "loss": loss, "lists_ms": 1e3 * made}


def main() -> int:
    """Gives 0."""
    parser = argparse.ArgumentParser(description="Training steps on latent charges, beside `les`.")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--systems", type=int, default=32)
    parser.add_argument("--channels", type=int, default=1)
    parser.add_argument("--dtype", default="float64", choices=("float32", "float64"))
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        size = (options.systems, options.channels, options.dtype, options.threads)
        print(json.dumps(measure(*options.one, *size)))
        return 0
    rows = []
    for kind in options.kinds:
        for library in LIBRARIES:
            if library == "les" and importlib.util.find_spec("les") is None:
                print("les is not installed")
                continue
            done = subprocess.run(
                [sys.executable, *sys.argv, "--one", library, kind], capture_output=True, text=True, check=True
            )
            row = json.loads(done.stdout.splitlines()[-1])
            rows.append(row)
            print(
                f"{kind:9} {library:9} {row['ms']:9.1f} ms  {row['peak_mb']:8.1f} MB  loss {row['loss']:.9g}"
                + (f"  lists {row['lists_ms']:.1f} ms" if library == "madelung" else "")
            )
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
