"""Every CUDA text goes through NVRTC and ptxas, for each type: this needs neither a GPU nor a driver.

For one architecture, and by `make test-all` for each.
`pytest -s` shows the registers of each function.
"""

import ctypes
import importlib.util
import itertools
import multiprocessing
import os
import re
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import pytest

from conftest import turn_within
from madelung import _native
from shapes import EVERY, stands_for_others

ARCHITECTURES = ("sm_80", "sm_90", "sm_120") if EVERY in os.environ else ("sm_90",)
REALS = ("float", "double")
ORDER = 6
"""Of the splines on meshes."""
WAYS = ((1, 0), (32, 0), (32, 1))
"""Threads of a row, where rows may be shared; and whether what rows gather comes from records."""


@dataclass(frozen=True)
class Usage:
    """What ptxas says of a function."""

    registers: int
    stack: int
    """Bytes of local memory, for arrays that are no registers."""
    spilled: int
    """Bytes of stores to and loads from local memory because registers ran out."""


class Nvrtc:
    """The compiler from the wheel nvidia-cuda-nvrtc: the newest of those that are installed."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(self.path))

    @cached_property
    def path(self) -> Path:
        # No driver and no CUDA toolkit: only the wheel's own folder is looked at.
        wheels = importlib.util.find_spec("nvidia")
        folders = wheels.submodule_search_locations if wheels else None
        found = {
            int(match[1]): path
            for folder in folders or []
            for path in Path(folder).rglob("libnvrtc.so.*")
            if (match := re.fullmatch(r"libnvrtc\.so\.(\d+)", path.name))
        }
        assert found, "these tests need NVRTC: the wheel nvidia-cuda-nvrtc (pip install 'madelung[test]')"
        return found[max(found)]

    def architectures(self) -> list[str]:
        """Those of ours that it knows."""
        count = ctypes.c_int()
        self._check(self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
        known = (ctypes.c_int * count.value)()
        self._check(self._library.nvrtcGetSupportedArchs(known))
        found = [name for name in ARCHITECTURES if int(name.removeprefix("sm_")) in list(known)]
        assert "sm_90" in found
        return found

    def _check(self, status: int) -> None:
        error = self._library.nvrtcGetErrorString
        error.restype = ctypes.c_char_p
        assert status == 0, error(status).decode()

    def compile(
        self, source: str, real: str | None, architecture: str, *, lanes: int = 1, packed: int = 0, scatter: int = 0
    ) -> str:
        """Compiles to a cubin and returns the log; an error is an assertion with the log.

        Without `real` the text says itself what its numbers are.
        """
        options = [
            "--std=c++17",
            f"--gpu-architecture={architecture}",
            *([f"--define-macro=REAL={real}"] if real else []),
            f"--define-macro=LANES={lanes}",
            f"--define-macro=SCATTER={scatter}",
            f"--define-macro=PACKED={packed}",
            f"--define-macro=ORDER={ORDER}",
            "--fmad=false",
            "--ptxas-options=-v",
            # The system of a row whose sums the backend puts in their place.
            "--diag-suppress=177",
        ]
        encoded = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        program = ctypes.c_void_p()
        create = self._library.nvrtcCreateProgram
        self._check(create(ctypes.byref(program), source.encode("ascii"), b"madelung.cu", 0, None, None))
        try:
            status = self._library.nvrtcCompileProgram(program, len(options), encoded)
            size = ctypes.c_size_t()
            self._check(self._library.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
            log = ctypes.create_string_buffer(size.value)
            self._check(self._library.nvrtcGetProgramLog(program, log))
            text = log.value.decode()
            assert status == 0, text
            self._check(self._library.nvrtcGetCUBINSize(program, ctypes.byref(size)))
            assert size.value > 0
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))
        return text


def usages(log: str) -> dict[str, Usage]:
    """Reads the reports of ptxas, function by function."""
    found = {}
    for report in log.split("Compiling entry function ")[1:]:
        name = re.match(r"'(\w+)'", report)
        registers = re.search(r"Used (\d+) registers", report)
        stack = re.search(r"(\d+) bytes stack frame", report)
        stores = re.search(r"(\d+) bytes spill stores", report)
        loads = re.search(r"(\d+) bytes spill loads", report)
        assert name and registers and stack and stores and loads, report
        found[name[1]] = Usage(int(registers[1]), int(stack[1]), int(stores[1]) + int(loads[1]))
    return found


def program(sources: Iterable[dict]) -> str:
    """One program of several functions: what they share stands in it once."""
    sources = list(sources)
    prelude = sources[0]["prelude"]
    return prelude + "".join(source["text"].removeprefix(prelude) for source in sources)


@pytest.fixture(scope="module")
def sources() -> list[dict]:
    return _native.cuda_sources()


def test_texts_are_complete(sources: list[dict]) -> None:
    assert sources
    names = [source["name"] for source in sources]
    assert len(set(names)) == len(names), "functions of one name could not share a program"
    for source in sources:
        text = source["text"]
        assert text.isascii(), source["name"]
        assert text.startswith(source["prelude"])
        functions = [source["name"], *([source["records"]] if source["records"] else [])]
        assert text.count('extern "C" __global__ void ') == len(functions)
        assert all(f'extern "C" __global__ void {name}(' in text for name in functions)
        assert "#define REAL" not in text
        # Neither NaN nor infinity is a C++ literal; Rust prints them as words.
        assert not re.search(r"REAL\(-?(inf|NaN)\)", text), source["name"]


@cache
def compiler() -> Nvrtc:
    """The compiler, loaded once in a process."""
    return Nvrtc()


def compiled(job: tuple[list[dict], str, str, int, int]) -> str:
    """The log of one program."""
    those, real, architecture, lanes, packed = job
    return compiler().compile(program(those), real, architecture, lanes=lanes, packed=packed)


def is_compiled(source: dict, n: int, k: int) -> bool:
    """Whether a function is compiled for a column. Derivatives of derivatives, which take most of the time and may
    spill, are for one that their kernel's number says, and by `make test-all` for each."""
    if not source["dual"] or EVERY in os.environ:
        return True
    own = [k for k, way in enumerate(WAYS * len(REALS)) if source["records"] or not way[1]]
    return k == own[n % len(own)]


def test_texts_compile_without_spills(sources: list[dict]) -> None:
    nvrtc = compiler()
    sources = [source for source in sources if stands_for_others(source["kernel"])]
    groups = itertools.groupby(sources, key=lambda source: source["kernel"])
    by_kernel = [(n, list(group)) for n, (_, group) in enumerate(groups)]
    turn = turn_within("test_cuda_text.py", 4)
    if turn is not None:
        by_kernel = by_kernel[turn::4]
        sources = [source for _, group in by_kernel for source in group]
    columns = list(itertools.product(REALS, nvrtc.architectures(), WAYS))
    jobs = []
    for n, group in by_kernel:
        for k, (real, architecture, (lanes, packed)) in enumerate(columns):
            those = [source for source in group if (source["records"] or not packed) and is_compiled(source, n, k)]
            if those:
                jobs.append((those, real, architecture, lanes, packed))

    # NVRTC compiles one program at a time in a process.
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        logs = list(pool.map(compiled, jobs))

    table: dict[str, dict[tuple[str, str, tuple[int, int]], Usage]] = {}
    for (those, real, architecture, *way), log in zip(jobs, logs):
        found = usages(log)
        functions = {source["name"] for source in those}
        assert set(found) == functions | ({source["records"] for source in those} if way[1] else set())
        assert "warning" not in log, log
        for name in functions:
            table.setdefault(name, {})[real, architecture, tuple(way)] = found[name]

    titles = (f"{real} {architecture} x{lanes}{'p' * packed}" for real, architecture, (lanes, packed) in columns)
    head = "".join(f"{title:>19}" for title in titles)
    print(f"\n{nvrtc.path.name}: registers, and bytes of stack where there are any; p: from records\n{'':44}{head}")
    for source in sources:
        row = table[source["name"]]
        cells = (
            f"{usage.registers}" + (f" ({usage.stack} B)" if usage.stack else "") if usage else "-"
            for usage in (row.get(column) for column in columns)
        )
        print(f"{source['name']:44}" + "".join(f"{cell:>19}" for cell in cells))

    # Derivatives of derivatives may spill: they are not taken at every step.
    plain = [source["name"] for source in sources if not source["dual"]]
    spilled = {name: table[name] for name in plain if any(usage.spilled for usage in table[name].values())}
    assert not spilled
    # Nor are arrays of a thread's in memory: an index that differs among lanes would put them there. CUDA's own sine
    # and cosine have one for angles beyond 10⁵.
    waves = {s["name"] for s in sources if re.search(r"\b(sin|cos|sin_cos)\(", s["text"].removeprefix(s["prelude"]))}
    stacked = {
        name: {k: usage for k, usage in table[name].items() if usage.stack > 40 * (name in waves)} for name in plain
    }
    assert not any(stacked.values()), {name: usage for name, usage in stacked.items() if usage}


SCATTERS = """
extern "C" __global__ void scatters(const Launch a, double* partials) {
  scatter((SCATTERED(REAL)*)a.pointers[0], threadIdx.x / 2, a.reals[0]);
  AtNodes nodes((NODES(REAL)*)a.pointers[2], (const int*)a.pointers[3], threadIdx.x / 16);
  nodes.add(threadIdx.x / 2, a.reals[0]);
  nodes.leave(lanes_of_row());
  put((REAL*)a.pointers[1], threadIdx.x, a.reals[0], true);
  leave(partials, threadIdx.x, a.reals[1]);
}
"""


@pytest.mark.parametrize("scatter", [0, 1, 2])
def test_every_way_to_scatter_compiles(sources: list[dict], scatter: int) -> None:
    nvrtc = Nvrtc()
    for real, architecture in itertools.product(REALS, nvrtc.architectures()):
        log = nvrtc.compile(sources[0]["prelude"] + SCATTERS, real, architecture, scatter=scatter)
        assert "warning" not in log, log
        assert usages(log)["scatters"] == replace(usages(log)["scatters"], stack=0, spilled=0)
