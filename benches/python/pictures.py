"""The pictures of docs/electrostatics, measured on this machine.

python benches/python/pictures.py                       all of them, into docs/pictures
python benches/python/pictures.py convergence           the error of a mesh against the distance of its nodes
python benches/python/pictures.py cost                  the error of a sum against the time that it takes
python benches/python/pictures.py size --most 1000000   time against the number of atoms
python benches/python/pictures.py splitting             the error of Ewald's sum against α
python benches/python/pictures.py cut                   the errors of sums with a cutoff
python benches/python/pictures.py gap                   the energy of a slab against the gap of its cell
python benches/python/pictures.py dispersion            the errors of a sum of 1/r⁶ with a cutoff
python benches/python/pictures.py waves                 the energy of latent charges against the shortest wavelength
python benches/python/pictures.py targets               error over target, of each system of accuracy.py

Times are the least of several calls from NumPy, each with its list and the choice of its parameters. Pictures of errors
alone do not depend on the machine.
"""

from __future__ import annotations

import argparse
import json
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

import accuracy
import madelung
import madelung.numpy as mn

Array = npt.NDArray[np.float64]
System = tuple[Array, Array, Array]

ROOT = Path(__file__).parents[2]
FOLDER, DATA = ROOT / "docs" / "pictures", ROOT / "tests" / "data"
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
    given = {"accuracy": 1e-4, "compute_forces": True, "energy_reduction": "system"}
    plain = {"compute_forces": True, "energy_reduction": "system"}
    methods: dict[str, Callable[[System], Any]] = {
        "ewald, 1e-4": lambda s: mn.ewald_summation(*s, **given),
        "pme, 1e-4": lambda s: mn.particle_mesh_ewald(*s, **given),
        "all pairs, open": lambda s: mn.coulomb(*s[:2], **plain),
        "dsf, 12 Å": lambda s: mn.dsf(*s[:2], 12.0, 0.2, s[2], **plain),
    }
    figure, plot = axes(f"Energy and forces, {madelung.get_num_threads()} threads, float64", "atoms", "time, ms")
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


def splitting(_: argparse.Namespace) -> Figure:
    """Errors of Ewald's sum with both cutoffs given, as measured and as `estimate_ewald_parameters` expects them."""
    system, cutoff = salt(512), 8.0
    exact = mn.ewald_summation(*system, accuracy=1e-12, compute_forces=True)[1]
    figure, plot = axes("Ewald's sum: 512 ions, cutoff 8 Å", "α, 1/Å", ERROR)
    for n, k_cutoff in enumerate((1.5, 2.5, 4.0)):
        alphas, measured, expected = np.geomspace(0.15, 0.8, 22), [], []
        for alpha in alphas:
            given = {"cutoff": cutoff, "k_cutoff": k_cutoff}
            forces = mn.ewald_summation(*system, alpha, **given, compute_forces=True)[1]
            measured.append(rms(forces - exact) / unit(system))
            p = mn.estimate_ewald_parameters(*system, None, **given, alpha=alpha)
            expected.append(p.predicted_force_error)
        ratios = np.array(measured) / expected
        print(f"k_c = {k_cutoff}/Å: measured over expected {ratios.min():.2f} to {ratios.max():.2f}", flush=True)
        plot.plot(alphas, measured, "o", color=f"C{n}", label=f"$k_c$ = {k_cutoff}/Å")
        plot.plot(alphas, expected, "-", color=f"C{n}", linewidth=0.8)
    plot.plot([], [], "k-", linewidth=0.8, label="as expected for random charges")
    plot.legend()
    return figure


def stored(file: str, name: str, length: float) -> System:
    """A system of the references of the tests, in Å."""
    cases = json.loads((DATA / f"{file}_references.json").read_text(encoding="utf-8"))
    case = cases["cases"][name] if "cases" in cases else next(each for each in cases if each["name"] == name)
    positions, charges, cell = (np.array(case[key]) for key in ("positions", "charges", "cell"))
    return length * positions, charges, length * cell


def cut(_: argparse.Namespace) -> Figure:
    """Force errors of sums with a cutoff, in liquid water and in an amorphous salt."""
    systems = {"water": stored("ewald", "water_801", 1.0), "NaCl": stored("openmm", "amorphous_salt", 10.0)}
    figure, plot = axes("Sums with a cutoff: 801 atoms of water, 894 of amorphous NaCl", "cutoff, Å", ERROR)
    radii = np.linspace(5.0, 16.0, 23)
    for name, marker, line in zip(systems, "os", ("-", "--")):
        system = systems[name]
        energies, exact = mn.ewald_summation(*system, accuracy=1e-9, compute_forces=True)
        print(f"{name}: RMS force {rms(exact) / unit(system):.2f} in the unit of errors")
        for n, alpha in enumerate((None, 0.1, 0.2, 0.3)):
            title, found = "coulomb" if alpha is None else f"dsf, α = {alpha}/Å", []
            for r in radii:
                if alpha is None:
                    of = mn.coulomb(*system, cutoff=float(r), compute_forces=True)
                else:
                    of = mn.dsf(*system[:2], float(r), alpha, system[2], compute_forces=True)
                found.append((rms(of[1] - exact) / unit(system), abs(of[0].sum() / energies.sum() - 1.0)))
            for k, what in enumerate(("forces", "energy")):
                text = (f"{r:g} Å: {pair[k]:.1e}" for r, pair in zip(radii[::2], found[::2]))
                print(f"{name}, {title}, {what}", *text, sep="  ", flush=True)
            errors = [pair[0] for pair in found]
            plot.plot(radii, errors, f"{marker}{line}", color=f"C{n}", linewidth=0.8, label=f"{title}, {name}")
    plot.set(xscale="linear")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def gap(_: argparse.Namespace) -> Figure:
    """Energies of slabs with a dipole against the gap, with the correction and without."""
    figure, plot = axes("Slabs with a dipole", "gap over the period along the slab", "relative error of the energy")
    given = {"accuracy": 1e-12, "energy_reduction": "system"}
    for n, (edge, layers) in enumerate(((6, 6), (12, 3))):
        rng = np.random.default_rng(edge)
        places = np.stack(np.meshgrid(*map(np.arange, (edge, edge, layers)), indexing="ij"), -1).reshape(-1, 3)
        charges, side = np.where(places.sum(1) % 2, -1.0, 1.0), SPACING * edge
        positions = SPACING * places + rng.normal(scale=0.2, size=places.shape)
        positions[:, 2] += 0.3 * charges
        thickness = float(np.ptp(positions[:, 2]))

        def energy(space: float, correct: bool, of: tuple[Any, ...] = (positions, charges, side, thickness)) -> float:
            r, q, width, thick = of
            tall = np.diag([width, width, thick + space])
            boundary = {"pbc": (True, True, not correct), "slab_correction": correct}
            return float(mn.ewald_summation(r, q, tall, **boundary, **given)[0])

        exact = energy(5.0 * side, True)
        for correct in (False, True):
            gaps = side * np.geomspace(0.1, 2.5, 15)
            errors = [abs(energy(float(x), correct) / exact - 1.0) for x in gaps]
            name = f"{thickness:.0f} Å thick, {side:.0f} Å wide, " + ("corrected" if correct else "three axes")
            print(name, *(f"{x / side:.2f}: {e:.1e}" for x, e in zip(gaps, errors)), sep="  ", flush=True)
            plot.plot(gaps / side, errors, "o-" if correct else "o--", color=f"C{n}", linewidth=0.8, label=name)
    plot.set(xscale="linear")
    plot.legend()
    return figure


def dispersion(_: argparse.Namespace) -> Figure:
    """Errors of a sum of 1/r⁶ that ends at a cutoff, of a liquid and of a layer of it with a surface."""
    rng = np.random.default_rng(0)
    places = np.stack(np.meshgrid(*[np.arange(10)] * 3, indexing="ij"), -1).reshape(-1, 3)
    positions, charges = 3.7 * places + rng.normal(scale=0.3, size=places.shape), np.ones(len(places))
    figure, plot = axes("Sums of 1/r⁶ with a cutoff: 1,000 atoms", "cutoff, Å", "relative error")
    radii = np.linspace(7.0, 18.0, 12)
    for n, (name, height) in enumerate((("liquid", 37.0), ("layer", 111.0))):
        cell = np.diag([37.0, 37.0, height])
        given = {"exponent": 6, "prefactor": -1.0, "compute_forces": True, "energy_reduction": "system"}
        energy, forces = mn.ewald_summation(positions, charges, cell, accuracy=1e-10, **given)
        errors = []
        for r in radii:
            e, f = mn.coulomb(positions, charges, cell, cutoff=float(r), **given)
            errors.append((abs(e[0] / energy[0] - 1.0), rms(f - forces) / rms(forces)))
        for k, (what, line) in enumerate((("energy", "-"), ("forces", "--"))):
            found = [pair[k] for pair in errors]
            print(name, what, *(f"{r:g} Å: {e:.1e}" for r, e in zip(radii, found)), sep="  ", flush=True)
            plot.plot(radii, found, f"o{line}", color=f"C{n}", linewidth=0.8, label=f"{what}, {name}")
    plot.set(xscale="linear")
    plot.legend()
    return figure


def waves(_: argparse.Namespace) -> Figure:
    """Energies of latent charges against the shortest wavelength of their sum."""
    positions, charges, cell = salt(216)
    figure, plot = axes("Latent charges: 216 ions", "dl, Å", "relative error of the energy")
    for sigma in (0.7, 1.0, 1.5):
        lengths, errors = np.geomspace(0.7 * sigma, 4.5, 16), []
        call = partial(mn.latent_ewald, positions, charges, cell, sigma, energy_reduction="system")
        exact = float(call(0.6 * sigma)[0])
        for length in lengths:
            errors.append(max(abs(float(call(float(length))[0]) / exact - 1.0), 1e-16))
        print(f"σ = {sigma}", *(f"{x:.2f} Å: {e:.1e}" for x, e in zip(lengths, errors)), sep="  ", flush=True)
        plot.plot(lengths, errors, "o-", linewidth=0.8, label=f"σ = {sigma} Å")
    plot.axvline(2.0, color="k", linewidth=0.8, linestyle=":")
    plot.legend()
    return figure


def targets(_: argparse.Namespace) -> Figure:
    """Error over target of the systems of `accuracy.py`, as the share of systems that are below it."""
    figure, plot = axes("350 systems of seven kinds", "RMS force error over target", "share of systems, %")
    rng, shares = np.random.default_rng(0), np.linspace(0.0, 1.0, 101)
    found = [accuracy.ratios(accuracy.KINDS[kind](rng)) for kind in list(accuracy.KINDS) * 50]
    for n, method in enumerate(accuracy.METHODS):
        for k, target in enumerate(accuracy.TARGETS):
            ratios = np.quantile([each[method, target] for each in found], shares)
            label = f"{method}, {accuracy.TARGETS[0]:.0e} to {accuracy.TARGETS[-1]:.0e}" if k == 0 else None
            plot.plot(np.maximum(ratios, 0.01), 100 * shares, color=f"C{n}", linewidth=0.8, label=label)
    plot.axvline(1.0, color="k", linewidth=0.8)
    plot.set(yscale="linear", xlim=(0.05, 2.0))
    plot.legend(loc="upper left")
    return figure


PICTURES = {
    "convergence": convergence,
    "cost": cost,
    "size": size,
    "splitting": splitting,
    "cut": cut,
    "gap": gap,
    "dispersion": dispersion,
    "waves": waves,
    "targets": targets,
}


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
