"""What calls cost on an NVIDIA GPU, beside what the card can do and beside other libraries, in one run.

    python benches/python/gpu.py [--device cuda] [--seconds 0.5] [--small] [--json FILE]

The card's limits are measured first: a copy in its memory (bytes read and written) and products of matrices in each
dtype. Then each call, eager (the time from call to call of a queue that is kept full, so the larger of what the host
and what the device need) and replayed from a graph (device time). `bytes` is the least that a call has to move, each
array read or written once; `flops` is counted in the text of the kernel's loop over pairs, where a special function
counts as in FLOPS. The limit is the larger of bytes over copy bandwidth and flops over matrix rate. Times are medians
of batches of calls; all systems are charges near the points of a lattice, and results of libraries are compared before
they are timed.

nvalchemi-toolkit-ops and torch-pme are measured where they can be imported. `--device cpu` runs the same program
without a GPU and without graphs, to try it; `--small` takes small systems.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

import madelung
import madelung.torch as mt
from madelung import _native
from madelung._schema import CHECKED
from samples import System

DTYPES = {"f32": torch.float32, "f64": torch.float64}
ALPHA = {6.0: 0.55, 9.0: 0.35, 10.0: 0.32}
"""Splitting parameter by cutoff: erfc(αr) is about 1e-5 there."""
FLOPS = {"erfc_exp_neg_sq": 30, "sqrt_recip": 8, "sin_cos": 30, "exp": 15, "erfc": 30, "sqrt": 6, "recip": 4}
FLOPS["sin_cos_turns"] = FLOPS["sin_cos"]
BARS = {
    "real space, 8 atoms, eager": 15.0,
    "Ewald sum and forces, 1,000 atoms, eager": 100.0,
    "Ewald sum and forces, 1,000 atoms, graph": 40.0,
    "list, 100,000 atoms, 6 Å, eager": 300.0,
    "real space and forces, 131,072 atoms, 9 Å, f32, eager": 600.0,
    "real space and forces, 131,072 atoms, 9 Å, f64, eager": 1500.0,
}
"""What was promised, in microseconds."""


@dataclass(frozen=True)
class Row:
    """A time, and what it is to be compared with."""

    what: str
    library: str
    dtype: str
    mode: str
    atoms: int
    pairs: int
    microseconds: float
    quartiles: tuple[float, float]
    bytes: int | None = None
    flops: int | None = None
    of_limit: float | None = None
    bar: float | None = None


@dataclass
class Card:
    """A device, how time is taken on it, and its limits."""

    device: str
    seconds: float
    small: bool
    bandwidth: float = 0.0
    rates: dict[str, float] = field(default_factory=dict)

    @property
    def is_cuda(self) -> bool:
        return self.device.startswith("cuda")

    def wait(self) -> None:
        if self.is_cuda:
            torch.cuda.synchronize()

    def batches(self, call: Callable[[], Any]) -> list[float]:
        """Microseconds of a call, from each of many batches of calls."""
        for _ in range(3):
            call()
        self.wait()
        begin = time.perf_counter()
        call()
        self.wait()
        once = max(time.perf_counter() - begin, 1e-6)
        many = max(1, min(200, int(0.01 / once)))
        times, start = [], time.perf_counter()
        while len(times) < 5 or time.perf_counter() - start < self.seconds:
            begin = time.perf_counter()
            for _ in range(many):
                call()
            self.wait()
            times.append(1e6 * (time.perf_counter() - begin) / many)
            if time.perf_counter() - start > 10 * self.seconds:
                break
        return times

    def measure_limits(self) -> None:
        elements = 1 << (22 if self.small else 28)
        source = torch.rand(elements, device=self.device)
        target = torch.empty_like(source)
        moved = 2 * source.numel() * source.element_size()
        self.bandwidth = moved / (1e-6 * min(self.batches(lambda: target.copy_(source))))
        n = 256 if self.small else 8192
        for name, dtype in DTYPES.items():
            a, b = (torch.rand(n, n, device=self.device).to(dtype) for _ in range(2))
            self.rates[name] = 2 * n**3 / (1e-6 * min(self.batches(lambda a=a, b=b: a @ b)))

    def limit(self, dtype: str, moved: int | None, flops: int | None) -> float:
        """The shortest time that they need, in microseconds; 0 where nothing is known."""
        return 1e6 * max((moved or 0) / self.bandwidth, (flops or 0) / self.rates[dtype])


def flops_of_a_pair(kernel: str, function: str) -> int:
    """What the loop over pairs of a kernel computes for each, by its text."""
    text = next(s["text"] for s in _native.cuda_sources() if (s["kernel"], s["name"]) == (kernel, function))
    body = re.search(r"\nfor \(.*?\) \{\n(.*?)\n\}", text, re.DOTALL)
    assert body, f"{function} has no loop"
    # Indices are integers, which another unit computes.
    loop = re.sub(r"\[[^\]]*\]", "", body[1])
    functions = sum(FLOPS[name] for name in re.findall(r"\b(\w+)\(", loop) if name in FLOPS)
    return functions + len(re.findall(r" [-+*/] | [-+]= ", loop))


@dataclass
class Case:
    """A call, by library, and what it moves and computes at least."""

    what: str
    dtype: str
    system: System
    calls: dict[str, Callable[[], Any]]
    moved: int | None = None
    flops: int | None = None
    graph: bool = True


def size(*tensors: torch.Tensor) -> int:
    return sum(x.numel() * x.element_size() for x in tensors)


def real_space(s: System, cutoff: float, **options: Any) -> Callable[[], Any]:
    return lambda: mt.ewald_real_space(
        s.positions, s.charges, s.cell, ALPHA[cutoff], cutoff=cutoff, **s.given, **options
    )


def small_calls(card: Card) -> Iterator[Case]:
    """What a call costs when there is nothing to do."""
    s = System.of(8, 6.0, 0.05, device=card.device)
    calls = {"madelung": real_space(s, 6.0)}
    if peer := nvalchemi():
        calls["nvalchemiops"] = lambda: peer.real_space(s, ALPHA[6.0])
    yield Case("real space, 8 atoms", "f64", s, calls)
    yield Case("real space and forces, 8 atoms", "f64", s, {"madelung": real_space(s, 6.0, compute_forces=True)})


def sums(card: Card) -> Iterator[Case]:
    """The whole Ewald sum with forces, of a thousand atoms, the list given; and a step of training."""
    for name, dtype in DTYPES.items():
        cutoff = 10.0
        s = System.of(1000, cutoff, 0.1, dtype, card.device)
        alpha = ALPHA[cutoff]
        k_cutoff = 2 * alpha * 3.4
        miller, _ = mt.generate_miller_indices(s.cell, k_cutoff)
        given = {"cutoff": cutoff, "miller_indices": miller, **s.given}

        def energies(s=s, r=None, alpha=alpha, given=given, **options: Any) -> Any:
            return mt.ewald_summation(s.positions if r is None else r, s.charges, s.cell, alpha, **given, **options)

        def training(s=s, energies=energies) -> torch.Tensor:
            """A loss of forces, and its gradient with charges."""
            r, q = s.positions.detach().requires_grad_(), s.charges.detach().requires_grad_()
            energy = energies(s=System(r, q, s.cell, s.pairs, s.ptr, s.shifts))
            (gradient,) = torch.autograd.grad(energy.sum(), r, create_graph=True)
            return torch.autograd.grad(gradient.square().sum(), q)[0]

        title = "1,000 atoms" if name == "f64" else "1,000 atoms, f32"
        calls = {"madelung": lambda energies=energies: energies(compute_forces=True)}
        if peer := nvalchemi():
            calls["nvalchemiops"] = lambda s=s, alpha=alpha, k=k_cutoff: peer.summation(s, alpha, k)
        if peer := torchpme():
            calls["torch-pme"] = peer.summation(s, alpha, k_cutoff)
        yield Case(f"Ewald sum and forces, {title}", name, s, calls)
        yield Case(f"force loss, gradient with charges, {title}", name, s, {"madelung": training})


def lists(card: Card) -> Iterator[Case]:
    """Lists of 100,000 atoms."""
    for cutoff in (6.0, 10.0):
        s = System.of(1000 if card.small else 100_000, cutoff, 0.1, torch.float32, card.device)
        room = int(1.1 * len(s.shifts))

        def fixed(s=s, cutoff=cutoff, room=room) -> Any:
            return mt.neighbor_list(s.positions, cutoff, s.cell, capacity=room)

        calls: dict[str, Callable[[], Any]] = {"madelung": fixed}
        if peer := nvalchemi():
            calls["nvalchemiops"] = lambda s=s, cutoff=cutoff: peer.list(s, cutoff)
        moved = size(s.positions, s.pairs, s.ptr, s.shifts)
        yield Case(f"list, 100,000 atoms, {cutoff:.0f} Å", "f32", s, calls, moved)


def large_calls(card: Card) -> Iterator[Case]:
    """Forty million pairs, and work that is bound by memory."""
    atoms, cutoff = (1024 if card.small else 131_072), 9.0
    for name, dtype in DTYPES.items():
        s = System.of(atoms, cutoff, 0.1, dtype, card.device)
        forces = torch.empty_like(s.positions)
        moved = size(s.positions, s.charges, s.pairs[1], s.ptr, s.shifts, s.charges, forces)
        flops = len(s.shifts) * flops_of_a_pair("ewald_real_space", "ewald_real_space_gradient_positions_0")
        calls = {"madelung": real_space(s, cutoff, compute_forces=True)}
        if peer := nvalchemi():
            calls["nvalchemiops"] = lambda s=s: peer.real_space(s, ALPHA[9.0], compute_forces=True)
        title = f"real space and forces, 131,072 atoms, 9 Å, {name}"
        yield Case(title, name, s, calls, moved, flops)
        batch = torch.zeros(atoms, dtype=torch.int32, device=card.device)

        def vectors(s=s, batch=batch) -> Any:
            op = torch.ops.madelung._pair_vectors_v1
            return op(s.positions, s.cell[None], batch, s.ptr, s.pairs[1], s.shifts, CHECKED)

        made = 4 * len(s.shifts) * s.positions.element_size()
        moved = size(s.positions, s.pairs[1], s.ptr, s.shifts) + made
        yield Case(f"vectors of the pairs, {name}", name, s, {"madelung": vectors}, moved)


CASES = {"floor": small_calls, "sums": sums, "lists": lists, "large": large_calls}


def nvalchemi() -> Any:
    """The calls of nvalchemi-toolkit-ops, where it is."""
    if not importlib.util.find_spec("nvalchemiops"):
        return None
    from nvalchemiops.torch.interactions import electrostatics
    from nvalchemiops.torch.neighbors import neighbor_list

    class Calls:
        @staticmethod
        def real_space(s: System, alpha: float, **options: Any) -> Any:
            split = torch.tensor([alpha], dtype=s.cell.dtype, device=s.cell.device)
            return electrostatics.ewald_real_space(s.positions, s.charges, s.cell[None], split, **s.given, **options)

        @staticmethod
        def summation(s: System, alpha: float, k_cutoff: float) -> Any:
            split = torch.tensor([alpha], dtype=s.cell.dtype, device=s.cell.device)
            return electrostatics.ewald_summation(
                s.positions, s.charges, s.cell[None], alpha=split, k_cutoff=k_cutoff, compute_forces=True, **s.given
            )

        @staticmethod
        def list(s: System, cutoff: float) -> Any:
            pbc = torch.ones(1, 3, dtype=torch.bool, device=s.cell.device)
            return neighbor_list(s.positions, cutoff, s.cell[None], pbc, return_neighbor_list=True)

    return Calls


def torchpme() -> Any:
    """The Ewald sum of torch-pme with forces by autograd, where it is."""
    if not importlib.util.find_spec("torchpme"):
        return None
    import torchpme

    class Calls:
        @staticmethod
        def summation(s: System, alpha: float, k_cutoff: float) -> Callable[[], Any]:
            potential = torchpme.CoulombPotential(smearing=1 / (2**0.5 * alpha))
            sums = torchpme.EwaldCalculator(potential, lr_wavelength=2 * torch.pi / k_cutoff, full_neighbor_list=True)
            sums = sums.to(s.positions.device, s.positions.dtype)
            columns, charges = s.pairs.T.long(), s.charges[:, None]

            def call() -> tuple[torch.Tensor, torch.Tensor]:
                r = s.positions.detach().requires_grad_()
                vectors = r[columns[:, 1]] - r[columns[:, 0]] + s.shifts.to(r.dtype) @ s.cell
                potentials = sums(charges, s.cell, r, columns, vectors.norm(dim=1))
                energies = (0.5 * charges * potentials)[:, 0]
                return energies.detach(), -torch.autograd.grad(energies.sum(), r)[0]

            return call

    return Calls


def agree(case: Case) -> None:
    """Raises what is wrong with the results of other libraries, by ours: their times are then not comparable."""
    if len(case.calls) < 2 or "list" in case.what:
        return
    found = {library: call() for library, call in case.calls.items()}
    last = {library: (x[-1] if isinstance(x, (tuple, list)) else x).detach().double() for library, x in found.items()}
    ours = last.pop("madelung")
    for library, theirs in last.items():
        error = float((theirs - ours).square().mean().sqrt() / ours.square().mean().sqrt())
        if not error < 1e-3:
            raise ValueError(f"{library} differs by {error:.1e} of the RMS")


def captured(call: Callable[[], Any]) -> Callable[[], None]:
    """The call as a graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph, kept = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph):
        kept.append(call())
    return lambda graph=graph, kept=kept: graph.replay()


def measured(card: Card, case: Case, library: str, mode: str, call: Callable[[], Any]) -> Row:
    times = card.batches(call)
    quarter, median, three = statistics.quantiles(times, n=4)
    limit = card.limit(case.dtype, case.moved, case.flops)
    ours = library == "madelung"
    return Row(
        case.what,
        library,
        case.dtype,
        mode,
        len(case.system.positions),
        len(case.system.shifts),
        median,
        (quarter, three),
        case.moved if ours else None,
        case.flops if ours else None,
        limit / median if ours and limit else None,
        BARS.get(f"{case.what}, {mode}") if ours and card.is_cuda and not card.small else None,
    )


def shown(row: Row) -> str:
    line = f"{row.what:52} {row.library:13} {row.mode:6} {row.microseconds:11.1f} µs"
    if row.bytes:
        line += f" {1e-3 * row.bytes / row.microseconds:8.0f} GB/s"
    if row.flops:
        line += f" {1e-6 * row.flops / row.microseconds:7.2f} TFLOP/s"
    if row.of_limit:
        line += f" {100 * row.of_limit:5.0f} % of the limit"
    if row.bar:
        line += f"   promised {row.bar:.0f} µs: {'met' if row.microseconds <= row.bar else 'MISSED'}"
    return line


def kernels(card: Card, case: Case) -> list[dict[str, Any]]:
    """What the device runs for one call, and for how long (µs), by the profiler."""
    from torch.profiler import ProfilerActivity, profile

    call = case.calls["madelung"]
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(10):
            call()
        card.wait()
    events = [e for e in found.key_averages() if e.device_time_total > 0]
    return [
        {"what": case.what, "kernel": e.key, "launches": e.count / 10, "microseconds": e.device_time_total / 10}
        for e in sorted(events, key=lambda e: -e.device_time_total)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each number")
    parser.add_argument("--small", action="store_true", help="small systems")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--json", type=Path, metavar="FILE", help="figures; those of other groups in it stay")
    options = parser.parse_args()
    card = Card(options.device, options.seconds, options.small)
    name = torch.cuda.get_device_name() if card.is_cuda else "the CPU"
    card.measure_limits()
    rates = ", ".join(f"{rate / 1e12:.1f} TFLOP/s in {dtype}" for dtype, rate in card.rates.items())
    print(f"{name}: copies {card.bandwidth / 1e9:.0f} GB/s, products of matrices {rates}", flush=True)
    rows: list[Row] = []
    traces: list[dict[str, Any]] = []
    failed: list[str] = []
    # Figures of other groups, which a process of their own has taken.
    before = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    report = {
        "device": name,
        "versions": {"madelung": madelung.__version__, "torch": torch.__version__},
        "bandwidth": card.bandwidth,
        "rates": card.rates,
    }

    def keep() -> None:
        if options.json:
            taken = {"rows": [asdict(r) for r in rows], "kernels": traces, "failed": failed}
            found = {**report, **{key: before.get(key, []) + new for key, new in taken.items()}}
            options.json.write_text(json.dumps(found, indent=1) + "\n")

    @contextmanager
    def noted(what: str) -> Iterator[None]:
        """What goes wrong is kept, and the rest goes on."""
        try:
            yield
        except Exception as error:
            failed.append(f"{what}: {type(error).__name__}: {error}")
            print(failed[-1], flush=True)
        keep()

    for group in options.only:
        with noted(group):
            for case in CASES[group](card):
                with noted(f"{case.what}, results"):
                    agree(case)
                for library, call in case.calls.items():
                    for mode in ("eager", "graph") if card.is_cuda and case.graph else ("eager",):
                        with noted(f"{case.what}, {library}, {mode}"):
                            timed = captured(call) if mode == "graph" else call
                            rows.append(measured(card, case, library, mode, timed))
                            print(shown(rows[-1]), flush=True)
                if card.is_cuda:
                    with noted(f"{case.what}, profile"):
                        traces += kernels(card, case)
    if card.is_cuda:
        with noted("what calls have found"):
            madelung.check_device(torch.cuda.current_device())
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
