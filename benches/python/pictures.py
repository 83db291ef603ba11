"""The pictures of docs/electrostatics.md, measured on this machine.

python benches/python/pictures.py                       all of them, into docs/pictures
python benches/python/pictures.py convergence           the error of a mesh against the distance of its nodes
python benches/python/pictures.py cost                  the error of a sum against the time that it takes
python benches/python/pictures.py size --most 1000000   time against the number of atoms

Times are the least of several calls from NumPy, each with its list and the choice of its parameters.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import madelung
import madelung.numpy as mn

Array = npt.NDArray[np.float64]
System = tuple[Array, Array, Array]

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
SPACING = 2.8
ERROR = "RMS force error, in q²$_{rms}$/(V/N)$^{2/3}$"
ORDERS = range(4, 9)
# Text stays text, and the same figures make the same file.
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "madelung", "font.size": 9, "lines.markersize": 4})


def salt(atoms: int, disorder: float = 0.3) -> System:
    """As many ions of either sign on places of a simple cubic lattice, displaced by normal deviates, in Å."""
    rng = np.random.default_rng(atoms)
    edge = int(np.ceil((atoms - 0.5) ** (1 / 3)))
    places = np.stack(np.meshgrid(*[np.arange(edge)] * 3, indexing="ij"), -1).reshape(-1, 3)[:atoms]
    positions = SPACING * (places + disorder / SPACING * rng.normal(size=places.shape))
    return positions, np.where(places.sum(1) % 2, -1.0, 1.0), SPACING * atoms ** (1 / 3) * np.eye(3)


def unit(system: System) -> float:
    """That of `accuracy`."""
    _, charges, cell = system
    return np.mean(charges**2) / (np.linalg.det(cell) / len(charges)) ** (2 / 3)


def rms(vectors: Array) -> float:
    """Over atoms, of the lengths."""
    return float(np.sqrt(np.mean(np.sum(vectors**2, axis=1))))


def least_time(call: Callable[[], Any], seconds: float = 0.5) -> float:
    """Of calls that take so long together, three at least; of one, where it takes longer."""
    call()
    times: list[float] = []
    while not times or (sum(times) < seconds and max(times) < seconds) or (len(times) < 3 and max(times) < seconds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def axes(title: str, x: str, y: str) -> tuple[Figure, Axes]:
    """Of logarithms."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    plot = figure.subplots()
    plot.set(title=title, xlabel=x, ylabel=y, xscale="log", yscale="log")
    plot.grid(linewidth=0.3)
    return figure, plot


def convergence(_: argparse.Namespace) -> Figure:
    """Errors of the reciprocal sum on meshes, as measured and as `estimate_pme_parameters` expects them."""
    system, alpha = salt(512), 0.35
    side = system[2][0, 0]
    exact = mn.ewald_reciprocal_space(*system, alpha, k_cutoff=13 * alpha, compute_forces=True)[1]
    figure, plot = axes("Particle mesh Ewald: 512 ions, α = 0.35/Å", "α × distance of nodes", ERROR)
    for n, order in enumerate(ORDERS):
        apart, measured, expected = [], [], []
        for nodes in (12, 15, 18, 21, 24, 28, 32, 40, 48, 60, 75, 96, 120):
            mesh = {"mesh_dimensions": (nodes,) * 3, "spline_order": order}
            forces = mn.pme_reciprocal_space(*system, alpha, **mesh, compute_forces=True)[1]
            error = rms(forces - exact) / unit(system)
            if error > 1e-12:
                apart.append(alpha * side / nodes)
                measured.append(error)
                p = mn.estimate_pme_parameters(*system, None, 1e3, alpha=alpha, **mesh)
                expected.append(p.predicted_force_error)
        plot.plot(apart, measured, "o", color=f"C{n}", label=f"order {order}")
        plot.plot(apart, expected, "-", color=f"C{n}", linewidth=0.8)
        slope = np.polyfit(np.log(apart[-4:]), np.log(measured[-4:]), 1)[0]
        print(f"order {order}: slope {slope:.2f} of the four finest meshes, {order - 1} expected", flush=True)
    plot.plot([], [], "k-", linewidth=0.8, label="as expected for random charges")
    plot.legend()
    return figure


def cost(_: argparse.Namespace) -> Figure:
    """Times of calls by accuracy, and the errors that they have."""
    systems = {"1,000 ions": salt(1000), "13,824 ions": salt(13824)}
    figure, plot = axes(f"Energy and forces, {madelung.get_num_threads()} threads", ERROR, "time, ms")
    kinds = {"ewald": (mn.ewald_summation, np.float64, "o"), "pme": (mn.particle_mesh_ewald, np.float64, "s")}
    kinds["pme, float32"] = (mn.particle_mesh_ewald, np.float32, "^")
    for n, (title, system) in enumerate(systems.items()):
        exact = mn.particle_mesh_ewald(*system, accuracy=1e-10, compute_forces=True)[1]
        for name, (summed, dtype, marker) in kinds.items():
            of, found = tuple(x.astype(dtype) for x in system), []
            targets = 10.0 ** -np.arange(2, 10 if dtype is np.float64 else 6)
            for target in targets[:7] if name == "ewald" and n else targets:
                given = {"accuracy": float(target), "compute_forces": True, "energy_reduction": "system"}
                call = partial(summed, *of, **given)
                found.append((rms(call()[1] - exact) / unit(system), 1e3 * least_time(call)))
                print(f"{title}, {name}, {target:.0e}: {found[-1][0]:.1e} in {found[-1][1]:.2f} ms", flush=True)
            line = "-" if n else "--"
            plot.plot(*zip(*found), line, marker=marker, color=f"C{list(kinds).index(name)}", label=f"{name}, {title}")
    plot.invert_xaxis()
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def size(options: argparse.Namespace) -> Figure:
    """Times of calls by the number of atoms, as far as a call takes no longer than five seconds."""
    accuracy = 1e-4
    given = {"compute_forces": True, "energy_reduction": "system"}
    methods: dict[str, Callable[[System], Any]] = {
        "ewald": lambda s: mn.ewald_summation(*s, accuracy=accuracy, **given),
        "pme": lambda s: mn.particle_mesh_ewald(*s, accuracy=accuracy, **given),
        "all pairs, open": lambda s: mn.coulomb(*s[:2], **given),
        "dsf, 12 Å": lambda s: mn.dsf(*s[:2], 12.0, 0.2, s[2], **given),
    }
    figure, plot = axes(
        f"Energy and forces, accuracy 1e-4, {madelung.get_num_threads()} threads, float64", "atoms", "time, ms"
    )
    counts = [n for power in range(1, 7) for n in (10**power, 3 * 10**power) if n <= options.most]
    for n, (name, call) in enumerate(methods.items()):
        times: list[float] = []
        for atoms in counts:
            # Three times the atoms take at most ten times as long.
            if times and 10 * times[-1] > 5.0:
                break
            system = salt(atoms)
            times.append(least_time(partial(call, system)))
            print(f"{name}, {atoms} atoms: {1e3 * times[-1]:.3g} ms", flush=True)
        plot.plot(counts[: len(times)], 1e3 * np.array(times), "o-", color=f"C{n}", label=name)
    plot.legend()
    return figure


PICTURES = {"convergence": convergence, "cost": cost, "size": size}


def main() -> None:
    """Measures and draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures", nargs="*", choices=[*PICTURES, []], help="all where none is named")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--suffix", default="svg")
    parser.add_argument("--most", type=int, default=1_000_000, help="atoms of the largest system")
    options = parser.parse_args()
    for name in options.pictures or PICTURES:
        file = options.folder / f"{name}.{options.suffix}"
        PICTURES[name](options).savefig(file, metadata={"Date": None} if options.suffix == "svg" else None)
        print(f"picture in {file}")


if __name__ == "__main__":
    main()
