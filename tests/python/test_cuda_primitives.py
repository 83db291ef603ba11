"""The texts of the CUDA backend's own work go through NVRTC and ptxas with all their types, for each architecture.

`pytest -s` shows the registers of each function.
"""

import itertools
from concurrent.futures import ThreadPoolExecutor

from madelung import _native
from test_cuda_text import Nvrtc, usages


def test_primitives_compile_without_spills() -> None:
    nvrtc = Nvrtc()
    programs = _native.cuda_primitives()
    assert programs
    assert all(program["text"].isascii() for program in programs)
    jobs = list(itertools.product(programs, nvrtc.architectures()))
    with ThreadPoolExecutor() as pool:
        logs = list(pool.map(lambda job: nvrtc.compile(job[0]["text"], None, job[1]), jobs))

    spilled = []
    for (program, architecture), log in zip(jobs, logs):
        assert "warning" not in log, log
        found = usages(log)
        assert set(found) == set(program["functions"])
        for function, usage in found.items():
            name = f"{function}<{', '.join(program['types'])}>"
            print(f"{name:40}{architecture:>8}{usage.registers:>5}")
            if usage.spilled:
                spilled.append(f"{name}: {usage.spilled} bytes on {architecture}")
    assert not spilled
