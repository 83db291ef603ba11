"""What a call of a function costs in small systems, beside that of other libraries, in one run on one thread.

    python benches/python/overhead.py [--atoms 8 64 512 4096] [--json FILE]

Sixteen atoms in a box of 5 Å with a cutoff of 2 Å unless other sizes are asked for, at the same density; float64, on
the CPU. Lists are made once and given. The libraries take turns, so that what else the machine does falls on all of
them alike. Times are medians. `custom_op` is the same call as an op of a Python function. nvalchemi-toolkit-ops and
vesin-torch are measured where they can be imported, in what they have; JAX, `jax.pure_callback` and Warp's `jax_kernel`
likewise, under jit, beside a jitted `x + 1` and the same op in PyTorch's dispatcher.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# Before madelung makes its threads.
os.environ["MADELUNG_NUM_THREADS"] = "1"

import numpy as np
import torch

import madelung
import madelung.torch as mt
from madelung.kernels import Array, Mat3, OutputSpec, Pairs, Real, Vec3, dims
from madelung.torch.autograd import custom_op
from samples import System

ALPHA, CUTOFF, DENSITY = 0.9, 2.0, 16 / 5.0**3
(Atom,) = dims("Atom")


@dataclass(frozen=True)
class Row:
    """A median time, in microseconds."""

    atoms: int
    pairs: int
    what: str
    library: str
    microseconds: float
    calls: int


Calls = dict[str, dict[str, Callable[[], Any]]]


def backward(energies: Callable[[torch.Tensor], torch.Tensor], positions: torch.Tensor) -> Callable[[], Any]:
    """Energies of positions that require gradients, and the gradient of their sum."""
    leaf = positions.clone().requires_grad_()

    def call() -> torch.Tensor:
        leaf.grad = None
        energies(leaf).sum().backward()
        return leaf.grad

    return call


@custom_op("madelung_benches::real_space", outputs=[OutputSpec("energy", Real, (Atom,))])
def wrapped(positions: Array[Vec3, Atom], charges: Array[Real, Atom], cell: Array[Mat3], pairs: Pairs[Atom]):
    lists = dict(zip(("neighbor_list", "neighbor_ptr", "neighbor_shifts"), pairs))
    return mt.ewald_real_space(positions, charges, cell, ALPHA, cutoff=CUTOFF, **lists)


def of_madelung(s: System) -> Calls:
    given = {**s.given, "cutoff": CUTOFF}

    def energies(r: torch.Tensor, **options: Any) -> Any:
        return mt.ewald_real_space(r, s.charges, s.cell, ALPHA, **given, **options)

    def in_op(r: torch.Tensor) -> torch.Tensor:
        return wrapped(r, s.charges, s.cell, (s.pairs, s.ptr, s.shifts))

    def vectors(r: torch.Tensor) -> torch.Tensor:
        return mt.neighbor_list(r, CUTOFF, s.cell, return_distances=True)[3]

    per_system = {"energy_reduction": "system"}
    return {
        "real space, energies": {"madelung": lambda: energies(s.positions), "custom_op": lambda: in_op(s.positions)},
        "real space, energies and forces": {
            "madelung": lambda: energies(s.positions, compute_forces=True),
            "madelung (per system)": lambda: energies(s.positions, compute_forces=True, **per_system),
        },
        "real space, forward and backward": {
            "madelung": backward(energies, s.positions),
            "madelung (per system)": backward(lambda r: energies(r, **per_system), s.positions),
            "custom_op": backward(in_op, s.positions),
        },
        "list": {"madelung": lambda: mt.neighbor_list(s.positions, CUTOFF, s.cell)},
        "list, distances, backward": {"madelung": backward(vectors, s.positions)},
    }


def of_nvalchemi(s: System) -> Calls:
    from nvalchemiops.torch.interactions.electrostatics import ewald_real_space
    from nvalchemiops.torch.neighbors import neighbor_list

    alpha, pbc = torch.tensor([ALPHA], dtype=torch.float64), torch.ones(1, 3, dtype=torch.bool)
    given = s.given

    def energies(r: torch.Tensor, **options: Any) -> Any:
        return ewald_real_space(r, s.charges, s.cell[None], alpha, **given, **options)

    return {
        "real space, energies": {"nvalchemiops": lambda: energies(s.positions)},
        "real space, energies and forces": {"nvalchemiops": lambda: energies(s.positions, compute_forces=True)},
        "real space, forward and backward": {"nvalchemiops": backward(energies, s.positions)},
        "list": {
            "nvalchemiops": lambda: neighbor_list(s.positions, CUTOFF, s.cell[None], pbc, return_neighbor_list=True)
        },
    }


def of_vesin(s: System) -> Calls:
    from vesin_torch import NeighborList

    search = NeighborList(cutoff=CUTOFF, full_list=True, sorted=True, n_threads=1)

    def distances(r: torch.Tensor) -> torch.Tensor:
        return search.compute(r, s.cell, periodic=True, quantities="ijSd")[3]

    return {
        "list": {"vesin": lambda: search.compute(s.positions, s.cell, periodic=True, quantities="ijS")},
        "list, distances, backward": {"vesin": backward(distances, s.positions)},
    }


def of_jax(s: System) -> Calls:
    """What a compiled call costs: to each belongs the time of `x + 1`, and what the work itself takes."""
    import jax
    import jax.numpy as jnp

    import madelung.jax as mj

    jax.config.update("jax_enable_x64", True)
    r, q, h, pairs, ptr, shifts = (jnp.asarray(x.numpy()) for x in vars(s).values())
    given = {"neighbor_list": pairs, "neighbor_ptr": ptr, "neighbor_shifts": shifts, "cutoff": CUTOFF}

    def energies(r: Any) -> Any:
        return mj.ewald_real_space(r, q, h, ALPHA, **given)

    def at(f: Callable[[Any], Any]) -> Callable[[], Any]:
        jitted = jax.jit(f)
        return lambda: jax.block_until_ready(jitted(r))

    one = jax.ShapeDtypeStruct(r.shape, r.dtype)
    idx, no_strain, split = (
        torch.zeros(len(s.positions), dtype=torch.int32),
        torch.empty(0),
        s.cell.new_full((1,), ALPHA),
    )
    flat = (
        s.positions,
        s.charges,
        s.cell[None],
        split,
        no_strain.double(),
        idx,
        1.0,
        s.ptr,
        s.pairs[1],
        s.shifts,
        0,
        CUTOFF,
    )
    op = torch.ops.madelung._ewald_real_space_v1
    calls = {
        "madelung": at(energies),
        "madelung, gradient": at(jax.grad(lambda r: energies(r).sum())),
        "x + 1": at(lambda r: r + 1),
        "pure_callback of x + 1": at(lambda r: jax.pure_callback(lambda x: np.asarray(x) + 1, one, r)),
        "the op, called by PyTorch": lambda: op(*flat),
    }
    if importlib.util.find_spec("warp"):
        calls["jax_kernel of x + 1"] = at(_of_warp(r.shape))
    return {"under jit": calls}


def _of_warp(shape: tuple[int, ...]) -> Callable[[Any], Any]:
    import warp as wp

    @wp.kernel
    def plus_one(x: wp.array2d(dtype=wp.float64), y: wp.array2d(dtype=wp.float64)):
        i, k = wp.tid()
        y[i, k] = x[i, k] + wp.float64(1.0)

    call = wp.jax_kernel(plus_one, launch_dims=shape)
    return lambda x: call(x)[0]


PEERS = {"jax": of_jax, "nvalchemiops": of_nvalchemi, "vesin_torch": of_vesin}


def agree(calls: dict[str, Callable[[], Any]]) -> None:
    """Times of different results are not compared."""
    found = {}
    for library, call in calls.items():
        x = call()
        found[library] = (x[-1] if isinstance(x, (tuple, list)) else x).detach()
    first, *others = [x for x in found.values() if x.is_floating_point() and x.dim()]
    for x in others:
        if x.shape == first.shape:
            torch.testing.assert_close(x, first, rtol=1e-6, atol=1e-6)


def measure(calls: dict[str, Callable[[], Any]], seconds: float) -> dict[str, list[float]]:
    """Times of calls that take turns."""
    times: dict[str, list[float]] = {library: [] for library in calls}
    for call in calls.values():
        for _ in range(20):
            call()
    start = time.perf_counter()
    while time.perf_counter() - start < seconds * len(calls):
        for library, call in calls.items():
            for n in range(12):
                begin = time.perf_counter()
                call()
                # The first ones find the caches full of what the others left.
                if n >= 2:
                    times[library].append(time.perf_counter() - begin)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--atoms", type=int, nargs="+", default=[16], metavar="N")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each number")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    torch.set_num_threads(1)
    versions = {"madelung": madelung.__version__, "torch": torch.__version__}
    peers = {name: of for name, of in PEERS.items() if importlib.util.find_spec(name)}
    for name in sorted(PEERS.keys() - peers):
        print(f"{name} cannot be imported and is left out")
    rows = []
    for atoms in options.atoms:
        system = System.of(atoms, CUTOFF, DENSITY)
        calls = of_madelung(system)
        for of in peers.values():
            for what, others in of(system).items():
                calls.setdefault(what, {}).update(others)
        for what, libraries in calls.items():
            if "list" not in what and "jit" not in what:
                agree(libraries)
            for library, ts in measure(libraries, options.seconds).items():
                row = Row(atoms, system.pairs.shape[1], what, library, 1e6 * statistics.median(ts), len(ts))
                rows.append(row)
                print(f"{row.atoms:6} atoms {row.pairs:7} pairs  {what:34} {library:22} {row.microseconds:12.1f} µs")
    if options.json:
        options.json.write_text(json.dumps({"versions": versions, "rows": [asdict(r) for r in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
