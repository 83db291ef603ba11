"""Sums of small systems in one pass (`method="direct"`) beside those over a list, in one run.

    python benches/python/direct.py [--sizes 1x16 16x64 256x64] [--accuracy 1e-4] [--threads 2] [--json FILE]

Batches of B systems of N ions, BxN, at 0.1 of them in a cubic Å, float64, in PyTorch on the CPU: energies of systems,
forces and charge gradients, and a step of training on forces (the gradient by the charges of a loss on forces). Each
call makes all that it needs, for the same accuracy of forces; both are compared before they are timed. The methods
take turns, so that what else the machine does falls on both alike; times are medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

METHODS = ("direct", "list")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["1x16", "1x64", "1x256", "1x512", "16x64", "256x16", "256x64"])
    parser.add_argument("--accuracy", type=float, default=1e-4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each row, about")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    # Before madelung makes its threads.
    os.environ["MADELUNG_NUM_THREADS"] = str(options.threads)
    import torch

    import madelung.torch as mt

    torch.set_num_threads(options.threads)

    def batch(systems: int, atoms: int) -> tuple[Any, ...]:
        """Ions near the places of a lattice, neutral."""
        random = torch.Generator().manual_seed(atoms)
        side = (atoms / 0.1) ** (1 / 3)
        per_axis = next(n for n in range(1, atoms + 1) if n**3 >= atoms)
        places = torch.cartesian_prod(*[torch.arange(per_axis, dtype=torch.float64)] * 3)[:atoms].repeat(systems, 1)
        moved = places + 0.3 * torch.rand(systems * atoms, 3, generator=random, dtype=torch.float64)
        charges = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(systems * atoms // 2)
        cells = (side * torch.eye(3, dtype=torch.float64)).repeat(systems, 1, 1)
        of = torch.arange(systems, dtype=torch.int32).repeat_interleave(atoms)
        return moved * side / per_axis, charges, cells, of

    def calls(systems: int, atoms: int) -> dict[tuple[str, str], Callable[[], Any]]:
        r, q, h, of = batch(systems, atoms)
        made: dict[tuple[str, str], Callable[[], Any]] = {}
        for method in METHODS:
            given = {"accuracy": options.accuracy, "batch_idx": of, "method": method, "energy_reduction": "system"}

            def evaluated(given: dict[str, Any] = given) -> Any:
                return mt.ewald_summation(r, q, h, compute_forces=True, compute_charge_gradients=True, **given)

            def trained(given: dict[str, Any] = given) -> Any:
                x, charges = r.clone().requires_grad_(), q.clone().requires_grad_()
                energies = mt.ewald_summation(x, charges, h, **given)
                (slopes,) = torch.autograd.grad(energies.sum(), x, create_graph=True)
                return torch.autograd.grad(slopes.square().sum(), charges)

            made["energies, forces, charge gradients", method] = evaluated
            made["training step on forces", method] = trained
        forces = [made["energies, forces, charge gradients", method]()[1] for method in METHODS]
        unit = 0.1 ** (2 / 3)
        off = (forces[0] - forces[1]).square().sum(1).mean().sqrt() / unit
        assert off < 2.0 * options.accuracy, f"{systems}x{atoms}: forces differ by {off}"
        return made

    rows = []
    for size in options.sizes:
        systems, atoms = map(int, size.split("x"))
        made = calls(systems, atoms)
        times: dict[tuple[str, str], list[float]] = {key: [] for key in made}
        begin = time.perf_counter()
        while time.perf_counter() - begin < options.seconds * len(made) or len(next(iter(times.values()))) < 5:
            for key, call in made.items():
                start = time.perf_counter()
                call()
                times[key].append(time.perf_counter() - start)
        for (what, name), of in times.items():
            # The first turn warms up.
            rows.append((size, what, name, 1e6 * statistics.median(of[1:])))
            print(f"{size:8} {what:36} {name:8} {rows[-1][-1]:10.1f} µs", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
