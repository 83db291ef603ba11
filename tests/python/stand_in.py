"""The stand-ins for CUDA's libraries (tests/stand_in), for tests in Python.

They are made once, by what they are made of. A process finds them by the environment that it is started with, so what
runs on them are programs of their own.
"""

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "stand_in"
# As in tests/stand_in/src/libraries.rs: a source, the library's name, other names for it.
LIBRARIES = (
    ("cuda.cpp", "libcuda.so", ("libcuda.so.1",)),
    ("nvrtc.cpp", "libnvrtc.so.12", ("libnvrtc.so",)),
    ("cufft.cpp", "libcufft.so.11", ("libcufft.so",)),
)
# What PyTorch's build for CUDA 13 calls, in front of the runtime that it brings.
RUNTIME = ("cudart.cpp", "libstand_in_cudart.so", ())
# A user's pool of memory, for PyTorch.
POOL = ("pool.cpp", "libpool.so", ())
# What the stand-in for NVRTC puts around texts.
AROUND = ("host.cuh", "blocks.cuh", "races.cuh")
OPTIONS = ("-std=c++17", "-O1", "-fPIC", "-shared", "-ffp-contract=off", "-Wall", "-Wno-unused")


def folder() -> Path:
    """The folder of the libraries."""
    compiler = os.environ.get("CXX", "c++")
    hashed = hashlib.sha256(repr((compiler, LIBRARIES, RUNTIME, POOL, AROUND, OPTIONS)).encode())
    for path in sorted(SOURCES.glob("*.[ch]*")):
        hashed.update(path.read_bytes())
    made = Path(tempfile.gettempdir()) / f"madelung-stand-in-python-{os.getuid()}-{hashed.hexdigest()[:16]}"
    if not made.exists():
        _make(made, compiler)
    if made.stat().st_uid != os.getuid():
        raise PermissionError(f"{made} belongs to somebody else, and what is in it would run here")
    return made


def _make(folder: Path, compiler: str) -> None:
    # In a folder that then gets its name: nobody sees half of them.
    making = Path(tempfile.mkdtemp(dir=folder.parent))
    for source, name, others in (*LIBRARIES, RUNTIME, POOL):
        words = [*shlex.split(compiler), *OPTIONS, str(SOURCES / source), "-o", str(making / name)]
        subprocess.run([*words, f"-Wl,-soname,{name}", "-ldl", "-pthread"], check=True)
        for other in others:
            (making / other).symlink_to(name)
    for name in AROUND:
        shutil.copy(SOURCES / name, making)
    try:
        making.rename(folder)
    except OSError:
        # Another process was faster.
        shutil.rmtree(making)


def run(program: str, runtime: bool = False, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program of Python on a machine with two GPUs that stand in, for PyTorch too with `runtime`."""
    made = folder()
    paths = [str(made), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    # Loaded from the start: the NVRTC and cuFFT of an installed PyTorch are then not looked for.
    libraries = (*LIBRARIES, RUNTIME) if runtime else LIBRARIES
    loaded = os.pathsep.join(str(made / name) for _, name, _ in libraries)
    settings = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(paths), "LD_PRELOAD": loaded, **environment}
    # Tests that a program runs have its turn.
    settings.pop("MADELUNG_TEST_TURN", None)
    words = [sys.executable, "-c", program]
    return subprocess.run(words, env=settings, capture_output=True, text=True, timeout=1500)
