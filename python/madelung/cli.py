"""The command line: `madelung energy`, `madelung choose`, `madelung info`, `madelung check`."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import madelung
from madelung import _native, _structures
from madelung._sums import METHODS, Parameters, chosen, summed
from madelung.numpy import EwaldParameters, PmeParameters
from madelung.units import EV_ANGSTROM, GPA

_REPEATS, _ENOUGH_SECONDS = 5, 1.0
_VOIGT = ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))


class Refusal(Exception):
    """An error message for the user, without a traceback."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One frame's results, in e²/Å and its derivatives, in f64."""

    energy: float
    forces: npt.NDArray[np.float64]
    stress: npt.NDArray[np.float64] | None
    """None without a periodic axis."""
    parameters: Parameters
    seconds: float
    repeats: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and gives the exit status: 0, 1 for a check that failed, 2 where something is refused."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except Refusal as refusal:
        print(f"madelung: {refusal}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of a pipe has seen enough.
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="madelung", description="Ewald sums of periodic point charges.")
    parser.add_argument("--version", action="version", version=f"madelung {madelung.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    energy = commands.add_parser(
        "energy",
        help="energy, forces and stress of structure files",
        description="Energy, forces and stress of the point charges in structure files (any format that ASE reads; "
        "lengths in angstrom). A file or a frame that fails is reported, and the others are computed; the exit status "
        "is 2 then.",
    )
    _structures_of(energy)
    energy.add_argument("--alpha", type=float, help="splitting parameter, 1/angstrom (default: chosen)")
    energy.add_argument("--cutoff", type=float, help="radius of the real-space sum, angstrom (default: chosen)")
    energy.add_argument("--k-cutoff", type=float, help="radius of the reciprocal sum, rad/angstrom (default: chosen)")
    energy.add_argument(
        "--method",
        choices=METHODS,
        help="the reciprocal sum over waves, or on a mesh (default: the one that costs less)",
    )
    energy.add_argument(
        "--units",
        choices=("eV", "reduced"),
        default="eV",
        help="of forces and stress: eV and angstrom, or e2/angstrom (the energy is shown in both)",
    )
    energy.add_argument(
        "--known",
        type=Path,
        metavar="FILE.json",
        help="what is known about the files, to compare with (default: known.json beside a file, where it names it)",
    )
    energy.add_argument(
        "--json",
        action="store_true",
        help="one JSON object a line for each frame, in --units: file, frame, formula, atoms, volume, total_charge, "
        "alpha, cutoff, k_cutoff, mesh_dimensions, spline_order, predicted_force_error, units, energy, forces, "
        "stress (xx, yy, zz, yz, xz, xy), "
        "seconds",
    )
    energy.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write energy, forces and stress, in ASE's units (eV, angstrom), as .xyz (extended), .traj or .json",
    )
    energy.add_argument("--overwrite", action="store_true", help="replace the file of --output if it is there")
    energy.set_defaults(run=_energy)

    choose = commands.add_parser(
        "choose",
        help="which sum to take for structure files, with which parameters, and what it costs here",
        description="Sums over waves and on a mesh, for one or three accuracies: their parameters, the expected error "
        "of forces and the time of a call on this machine. The fastest of each accuracy is marked, and the exit "
        "status is 2 where a file cannot be read.",
    )
    _structures_of(choose)
    choose.add_argument("--json", action="store_true", help="one JSON object a line for each sum")
    choose.set_defaults(run=_choose)

    info = commands.add_parser("info", help="version, processor features, threads, backends, ops")
    info.set_defaults(run=_info)
    check = commands.add_parser("check", help="verify this installation against known crystals")
    check.set_defaults(run=_check)
    return parser


def _structures_of(command: argparse.ArgumentParser) -> None:
    """Arguments of commands that read structures: files, charges, frames, accuracy and precision."""
    command.add_argument("files", nargs="+", type=Path, metavar="FILE")
    command.add_argument(
        "--charges",
        type=_charges,
        metavar="Na=1,Cl=-1",
        help="charge of each element, in e; without it those in the file are taken: initial_charges or charges of "
        "extended XYZ, _atom_site_charge of CIF, those of LAMMPS' data files and of PQR",
    )
    command.add_argument("--label-column", metavar="NAME", help="per-atom labels that --charges names, for elements")
    command.add_argument("--charge-column", metavar="NAME", help="per-atom numbers of the file that are the charges")
    command.add_argument("--format", metavar="NAME", help="format of the files, by ASE's name (default: recognised)")
    command.add_argument(
        "--frames",
        default="-1",
        metavar="INDEX",
        help="frames of a file: 0, 3:10, ::2, : for all; -1, the last (default)",
    )
    command.add_argument(
        "--accuracy",
        type=float,
        help="target for the RMS force error, in units of q2_rms/(V/N)^(2/3) (default: 1e-6, 1e-5 in float32)",
    )
    command.add_argument("--dtype", choices=("float64", "float32"), default="float64")


def _charges(text: str) -> dict[str, float]:
    charges = {}
    for item in text.split(","):
        element, _, charge = item.partition("=")
        try:
            number = float(charge)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected ELEMENT=CHARGE,..., got {item!r}") from None
        if charges.setdefault(element.strip(), number) != number:
            raise argparse.ArgumentTypeError(f"expected one charge for {element.strip()}, got two")
    return charges


def _energy(options: argparse.Namespace) -> int:
    ase_io = _ase()
    _check_charges(options)
    _check_output(options)
    if options.known is not None and options.json:
        raise Refusal("--known: it is compared in the report, not in --json")
    written: list[Any] = []
    try:
        failed = sum(_energies_of(ase_io, file, written, options) for file in options.files)
    finally:
        # What there is by then, where the user interrupts.
        _write(ase_io, written, options)
    return 2 if failed else 0


def _write(ase_io: Any, frames: list[Any], options: argparse.Namespace) -> None:
    if options.output is None or not frames:
        return
    try:
        ase_io.write(options.output, frames, format=_WRITTEN[options.output.suffix])
    except OSError as error:
        raise Refusal(f"cannot write {options.output}: {error.strerror or error}") from None
    done = f"written to {options.output}: energy, forces and stress in eV and angstrom"
    print(f"madelung: {done}" if options.json else f"\n{done}", file=sys.stderr if options.json else sys.stdout)


def _check_charges(options: argparse.Namespace) -> None:
    if options.charge_column is not None and options.charges is not None:
        raise Refusal("--charge-column: charges are given by --charges too")
    if options.label_column is not None and options.charges is None:
        raise Refusal("--label-column: labels need their charges, --charges LABEL=CHARGE,...")


# Formats that hold energies, forces and stress.
_INSTRUCTIONS = {
    "Avx512": "AVX-512",
    "Avx2": "AVX2 with FMA",
    "Portable": "baseline" + (", kernels are interpreted" if platform.machine() in ("x86_64", "AMD64") else ""),
}
_WRITTEN = {".xyz": "extxyz", ".extxyz": "extxyz", ".traj": "traj", ".json": "json"}


def _check_output(options: argparse.Namespace) -> None:
    file = options.output
    if file is None:
        return
    if file.suffix not in _WRITTEN:
        raise Refusal(f"--output {file}: forces and stress go into files of {', '.join(_WRITTEN)}")
    if any(file.resolve() == given.resolve() for given in options.files):
        raise Refusal(f"--output {file}: it is one of the files to read")
    if file.exists() and not options.overwrite:
        raise Refusal(f"--output {file}: it is there already (--overwrite replaces it)")


def _energies_of(ase_io: Any, file: Path, written: list[Any], options: argparse.Namespace) -> int:
    """Reports the frames of a file, adds them with their results, and gives the number of failures."""
    try:
        frames = _read(ase_io, file, options)
    except Refusal as refusal:
        print(f"madelung: {refusal}", file=sys.stderr)
        return 1
    # Reports on a terminal show how far it is.
    shows_progress = len(frames) > 1 and sys.stderr.isatty() and not sys.stdout.isatty()
    erased, failed = "\r\033[K" if shows_progress else "", 0
    for done, (number, frame, atoms) in enumerate(frames):
        if shows_progress:
            print(f"\r{file}: frame {done + 1} of {len(frames)} ", end="", file=sys.stderr, flush=True)
        of = f"{file}: frame {number}" if len(frames) > 1 else str(file)
        try:
            charges = _charges_of(atoms, of, options)
            outcome = _compute(atoms, charges, of, len(frames) == 1, options)
            if options.json:
                print(json.dumps(_as_json(file, number, atoms, charges, outcome, options)))
            else:
                if written:
                    print()
                _report(file, frame, atoms, charges, outcome, options)
        except Refusal as refusal:
            # The others are computed all the same.
            print(f"{erased}madelung: {refusal}", file=sys.stderr)
            failed += 1
        else:
            written.append(_with_results(atoms, charges, outcome))
    print(erased, end="", file=sys.stderr, flush=True)
    return failed


def _ase() -> Any:
    try:
        import ase.io
    except ImportError:
        raise Refusal("structure files are read by ASE: pip install 'madelung[cli]'") from None
    return ase.io


def _read(ase_io: Any, file: Path, options: argparse.Namespace) -> list[tuple[int, str, Any]]:
    """The frames of a file that are asked for: number, description and atoms of each."""
    if file.is_dir():
        raise Refusal(f"{file}: it is a directory: give the files in it")
    if not file.is_file():
        raise Refusal(f"{file}: no such file")
    try:
        frames = _structures.read(file, options.format)
    except ase_io.formats.UnknownFileTypeError:
        raise Refusal(f"{file}: its format is not recognised: give it by ASE's name, --format NAME") from None
    except Exception as error:  # ASE's readers raise whatever they meet
        said = f"{type(error).__name__}: {error}" if str(error) else "its contents are not of that format"
        raise Refusal(f"{file}: it cannot be read as {options.format or file.suffix[1:]}: {said}") from None
    if not frames:
        raise Refusal(f"{file}: it has no frames")
    numbers = range(len(frames))
    try:
        index = ase_io.formats.string2index(options.frames)
        numbers = numbers[index] if isinstance(index, slice) else [numbers[index]]
    except (IndexError, ValueError, TypeError):
        numbers = []
    if not numbers:
        raise Refusal(f"{file}: there is no frame {options.frames}, it has {len(frames)}")
    described = f"frame {{}} of 0 to {len(frames) - 1}" if len(frames) > 1 else ""
    return [(number, described.format(number), frames[number]) for number in numbers]


def _charges_of(atoms: Any, file: str, options: argparse.Namespace) -> npt.NDArray[np.float64]:
    given, column = options.charges, options.charge_column
    if column is not None:
        try:
            return np.asarray(_column(atoms, file, "--charge-column", column), dtype=np.float64).reshape(len(atoms))
        except (TypeError, ValueError):
            raise Refusal(f"{file}: --charge-column {column} has not a number for each atom") from None
    if given is None:
        charges = _structures.charges_of(atoms)
        if charges is None:
            raise Refusal(
                f"{file}: it has no charges (initial_charges, or charges); give them: --charges Na=1,Cl=-1, or "
                "--charge-column NAME"
            )
        return np.asarray(charges, np.float64)
    labels = atoms.symbols
    if options.label_column is not None:
        labels = [str(label) for label in _column(atoms, file, "--label-column", options.label_column)]
    missing = sorted(set(labels) - set(given))
    if missing:
        raise Refusal(f"{file}: --charges has none for {', '.join(missing)}")
    return np.array([given[label] for label in labels], dtype=np.float64)


def _column(atoms: Any, file: str, option: str, name: str) -> npt.NDArray:
    found = _structures.column_of(atoms, name)
    if found is None:
        raise Refusal(f"{file}: {option} {name} is not in it; it has {', '.join(sorted(atoms.arrays))}")
    return found


def _as_json(
    file: Path, number: int, atoms: Any, charges: npt.NDArray, outcome: Outcome, options: argparse.Namespace
) -> dict[str, Any]:
    unit, name = (EV_ANGSTROM, "eV") if options.units == "eV" else (1.0, "e2/angstrom")
    parameters = outcome.parameters
    return {
        "file": str(file),
        "frame": number,
        "formula": atoms.get_chemical_formula(),
        "atoms": len(atoms),
        "volume": atoms.get_volume() if _has_volume(atoms) else None,
        "total_charge": float(charges.sum()),
        **_described(parameters),
        "units": {"energy": name, "length": "angstrom"},
        "energy": outcome.energy * unit,
        "forces": (outcome.forces * unit).tolist(),
        # xx, yy, zz, yz, xz, xy
        "stress": None if outcome.stress is None else [outcome.stress[a, b] * unit for a, b in _VOIGT],
        "seconds": outcome.seconds,
    }


def _compute(atoms: Any, charges: npt.NDArray, file: str, times: bool, options: argparse.Namespace) -> Outcome:
    positions, charges, cell = (
        np.asarray(x, dtype=options.dtype) for x in (atoms.positions, charges, atoms.cell.array)
    )
    system = (positions, charges, cell)
    split = {"alpha": options.alpha, "cutoff": options.cutoff, "k_cutoff": options.k_cutoff}

    def call() -> tuple[Parameters, tuple[npt.NDArray, ...]]:
        parameters = chosen(system, atoms.pbc, options.method, options.accuracy, **split)
        wanted = {"energy_reduction": "system", "compute_forces": True, "compute_virial": True}
        return parameters, summed(system, atoms.pbc, parameters, **wanted)

    try:
        (parameters, (energy, forces, virial)), seconds, repeats = _timed(
            call, _REPEATS if times and not options.json else 1
        )
    except (ValueError, NotImplementedError, MemoryError) as error:
        raise Refusal(f"{file}: {error}") from None
    stress = -virial.astype(np.float64) / atoms.get_volume() if _has_volume(atoms) else None
    return Outcome(float(energy[0]), forces.astype(np.float64), stress, parameters, seconds, repeats)


def _has_volume(atoms: Any) -> bool:
    """Whether there are a volume and a stress: with periodic axes, in a cell of three lattice vectors."""
    return bool(atoms.pbc.any()) and atoms.cell.rank == 3


def _timed(call: Callable[[], Any], most: int) -> tuple[Any, float, int]:
    """Result, median time, and of how many calls."""
    times: list[float] = []
    while len(times) < most and sum(times) < _ENOUGH_SECONDS:
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return result, statistics.median(times), len(times)


def _with_results(atoms: Any, charges: npt.NDArray, outcome: Outcome) -> Any:
    from ase.calculators.singlepoint import SinglePointCalculator

    copy = atoms.copy()
    copy.set_initial_charges(charges)
    results = {"energy": outcome.energy * EV_ANGSTROM, "forces": outcome.forces * EV_ANGSTROM}
    if outcome.stress is not None:
        results["stress"] = np.array([outcome.stress[a, b] for a, b in _VOIGT]) * EV_ANGSTROM
    copy.calc = SinglePointCalculator(copy, **results)
    return copy


def _report(
    file: Path, frame: str, atoms: Any, charges: npt.NDArray, outcome: Outcome, options: argparse.Namespace
) -> None:
    in_ev = options.units == "eV"
    unit, name = (EV_ANGSTROM, "eV") if in_ev else (1.0, "e2/A")
    parameters = outcome.parameters
    force_name = f"{name}/A" if in_ev else "e2/A^2"
    stress_name = "eV/A^3" if in_ev else "e2/A^4"
    lengths = np.linalg.norm(outcome.forces, axis=1)

    print(f"{file}" + (f"  ({frame})" if frame else ""))
    _line("formula", atoms.get_chemical_formula())
    _line("atoms", f"{len(atoms)}")
    total = _rounded(float(charges.sum()), 6)
    if parameters is None:
        _line("total charge", f"{total:+.6f} e")
        images = " and images along the periodic axis" if atoms.pbc.any() else ""
        _line("sum", f"over all pairs{images}   {options.dtype}")
    else:
        volume = atoms.get_volume()
        is_slab = not atoms.pbc.all()
        _line("cell volume", f"{volume:.6f} A^3" + ("  (slab, corrected)" if is_slab else ""))
        _line("total charge", f"{total:+.6f} e" + ("  (uniform background)" if total and not is_slab else ""))
        sums = f"alpha {parameters.alpha:.5f} /A   cutoff {parameters.cutoff:.4f} A   {_mesh_or_waves(parameters)}"
        _line("parameters", f"{sums}   {options.dtype}")
        predicted = parameters.predicted_force_error
        error = predicted * np.mean(charges**2) / (volume / len(atoms)) ** (2.0 / 3.0) * unit
        _line("force error", f"{error:.1e} {force_name} RMS predicted   ({predicted:.1e} relative)")
    print()
    _line("energy", f"{outcome.energy:.12g} e2/A   =   {outcome.energy * EV_ANGSTROM:.12g} eV")
    _line(
        "per atom", f"{outcome.energy / len(atoms):.12g} e2/A   =   {outcome.energy / len(atoms) * EV_ANGSTROM:.12g} eV"
    )
    _known(file, outcome.energy, options.known)
    _line("force", f"largest {lengths.max() * unit:.6g}   RMS {_rms(lengths) * unit:.6g} {force_name}")
    if outcome.stress is not None:
        stress = [outcome.stress[a, b] * unit for a, b in _VOIGT]
        _line("stress", "   ".join(f"{axis:>11}" for axis in ("xx", "yy", "zz", "yz", "xz", "xy")))
        _line(f"  {stress_name}", "   ".join(f"{s:>11.4e}" for s in stress))
        if in_ev:
            _line("  GPa", "   ".join(f"{_rounded(s * GPA, 4):>11.4f}" for s in stress))
    print()
    calls = "one call" if outcome.repeats == 1 else f"median of {outcome.repeats} calls"
    _line(
        "time",
        f"{_duration(outcome.seconds)}  ({calls}: neighbour list, energy, forces and virial; "
        f"{_native.threads()} threads)",
    )


def _described(parameters: Parameters) -> dict[str, Any]:
    """The parameters of a sum, None where they are those of another method."""
    names = ("alpha", "cutoff", "k_cutoff", "mesh_dimensions", "spline_order", "predicted_force_error")
    return {name: getattr(parameters, name, None) for name in names}


def _mesh_or_waves(parameters: EwaldParameters | PmeParameters) -> str:
    if isinstance(parameters, EwaldParameters):
        return f"k_cutoff {parameters.k_cutoff:.4f} rad/A"
    return f"mesh {'x'.join(map(str, parameters.mesh_dimensions))}   spline order {parameters.spline_order}"


def _line(name: str, text: str) -> None:
    print(f"  {name:<18} {text}")


def _rounded(x: float, digits: int) -> float:
    """A rounded number, without the sign of a negative zero."""
    return round(x, digits) + 0.0


def _rms(lengths: npt.NDArray) -> float:
    return float(np.sqrt(np.mean(lengths**2)))


def _duration(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def _known(file: Path, energy: float, given: Path | None) -> None:
    """Reference values of the file, beside the results."""
    source = given if given is not None else file.parent / "known.json"
    if given is None and not source.is_file():
        return
    try:
        known = json.loads(source.read_text(encoding="utf-8")).get(file.name)
    except (OSError, ValueError, AttributeError) as error:
        raise Refusal(f"{source}: cannot be read as what is known: {error}") from None
    if known is None:
        if given is not None:
            raise Refusal(f"{source}: it does not name {file.name}")
        return
    try:
        reference = float(known["energy"])
        _line(
            "known energy",
            f"{reference:.12g} e2/A   difference {energy - reference:+.1e}   "
            f"relative {abs(energy / reference - 1):.1e}",
        )
        if known.get("madelung_constant") is not None:
            constant, distance = float(known["madelung_constant"]), float(known["reference_distance"])
            found = -energy * distance / int(known["formula_units"])
            _line("Madelung constant", f"{found:.13g}   known {constant:.13g}   difference {found - constant:+.1e}")
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise Refusal(f"{source}: the entry of {file.name} is not as expected: {error!r}") from None


def _choose(options: argparse.Namespace) -> int:
    ase_io = _ase()
    _check_charges(options)
    failed = 0
    for file in options.files:
        try:
            for number, frame, atoms in _read(ase_io, file, options):
                of = f"{file} ({frame})" if frame else str(file)
                _choices(file, number, of, atoms, _charges_of(atoms, of, options), options)
        except Refusal as refusal:
            print(f"madelung: {refusal}", file=sys.stderr)
            failed += 1
    return 2 if failed else 0


def _choices(file: Path, number: int, of: str, atoms: Any, charges: npt.NDArray, options: argparse.Namespace) -> None:
    """The sums of a structure for each accuracy, and the fastest of them."""
    system = tuple(np.asarray(x, dtype=options.dtype) for x in (atoms.positions, charges, atoms.cell.array))
    accuracies = (1e-4, 1e-6, 1e-8) if options.dtype == "float64" else (1e-3, 1e-4, 1e-5)
    methods: tuple[Any, ...] = ("ewald", "pme") if sum(atoms.pbc) > 1 else ("direct",)
    for n, accuracy in enumerate((options.accuracy,) if options.accuracy is not None else accuracies):
        rows: list[tuple[str, Parameters, float]] = []
        for method in methods:
            try:
                parameters = chosen(system, atoms.pbc, method, accuracy, None, None, None)

                def call(parameters: Parameters = parameters) -> Any:
                    return summed(system, atoms.pbc, parameters, compute_forces=True)

                rows.append((method, parameters, _timed(call, _REPEATS)[1]))
            except (ValueError, NotImplementedError, MemoryError) as error:
                if method == methods[-1] and not rows:
                    raise Refusal(f"{of}: {error}") from None
        if n == 0 and not options.json:
            print(f"{of}: {len(atoms)} atoms, {_native.threads()} threads, {options.dtype}\n")
            print(f"  {'accuracy':<10} {'call':<20} {'force error':<12} {'time':<10} parameters")
        fastest = min(seconds for _, _, seconds in rows)
        for method, parameters, seconds in rows:
            name = {"ewald": "ewald_summation", "pme": "particle_mesh_ewald"}.get(method, "coulomb")
            if options.json:
                found = {"file": str(file), "frame": number, "atoms": len(atoms), "accuracy": accuracy, "call": name}
                print(
                    json.dumps({**found, **_described(parameters), "seconds": seconds, "fastest": seconds == fastest})
                )
                continue
            mark, error, text = "*" if seconds == fastest else " ", "none", "all pairs"
            if parameters is not None:
                unit = np.mean(charges**2) / (atoms.get_volume() / len(atoms)) ** (2.0 / 3.0) * EV_ANGSTROM
                error = f"{parameters.predicted_force_error * unit:.1e} eV/A"
                text = (
                    f"alpha {parameters.alpha:.4f} /A   cutoff {parameters.cutoff:.2f} A   {_mesh_or_waves(parameters)}"
                )
            print(f"{mark} {accuracy:<10g} {name:<20} {error:<12} {_duration(seconds):<10} {text}")
    if not options.json:
        print("\n  * the fastest; energies and forces, neighbour list included, parameters given")


def _info(_options: argparse.Namespace) -> int:
    print(f"madelung {madelung.__version__}")
    _line("instruction set", _INSTRUCTIONS[_native.isa()])
    _line("threads", f"{_native.threads()}")
    _line("backends", ", ".join(madelung.devices()))
    _line("python, numpy", f"{sys.version.split()[0]}, {np.__version__}")
    print("\n  MADELUNG_NUM_THREADS and MADELUNG_ISA (portable, avx2) in the environment ask for less.\n\n  ops")
    for op in madelung.ops():
        outputs = ", ".join(str(output["name"]) for output in op["outputs"])
        print(f"    {op['namespace']}.{op['name']} v{op['version']}  ->  {outputs}")
    return 0


def _check(_options: argparse.Namespace) -> int:
    from madelung._crystals import findings

    print(f"{'':4}  {'what':<34} {'expected':>20} {'found':>20} {'error':>9} {'allowed':>9}")
    bad = 0
    for finding in findings():
        bad += not finding.good
        print(
            f"{'PASS' if finding.good else 'FAIL'}  {finding.what:<34} {finding.expected:>20.14g} "
            f"{finding.found:>20.14g} {finding.error:>9.1e} {finding.tolerance:>9.1e}"
        )
    print(f"\n{bad} of the checks failed" if bad else "\nall checks passed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
