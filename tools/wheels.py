#!/usr/bin/env python3
"""Checks of wheels and the source archive, as an index and a user will meet them, and their sizes and checksums.

.venv/bin/python tools/wheels.py target/wheels

Metadata and README by twine, platforms by auditwheel, no folder of the machine that built them, and for wheels of this
machine an environment with nothing else in it, in which `madelung check` passes.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_wheel(wheel: Path) -> None:
    """No folder of this machine inside, the platform that its name says, and use in an environment of its own."""
    with zipfile.ZipFile(wheel) as archive:
        library = next(name for name in archive.namelist() if name.startswith("madelung/_native"))
        compiled = archive.read(library)
    for folder in (ROOT, Path.home()):
        if os.fsencode(folder) + b"/" in compiled:
            sys.exit(f"{wheel.name}: {library} has the folder {folder} of this machine")
    audit = run(sys.executable, "-m", "auditwheel", "show", wheel)
    wanted = re.search(r"manylinux_\d+_\d+_\w+", wheel.name)
    if wanted and f'"{wanted[0]}"' not in audit:
        sys.exit(f"{wheel.name}: expected the platform {wanted[0]}, got\n{audit}")
    if not wheel.stem.endswith(platform.machine()):
        return
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "venv", folder)
        start = time.perf_counter()
        run(Path(folder) / "bin" / "pip", "install", "--quiet", wheel)
        run(Path(folder) / "bin" / "madelung", "check")
        print(f"{wheel.name}: installed and checked in {time.perf_counter() - start:.1f} s")


def main() -> None:
    folder = Path(sys.argv[1])
    files = sorted([*folder.glob("*.whl"), *folder.glob("*.tar.gz")])
    if not any(file.suffix == ".whl" for file in files):
        sys.exit(f"{folder}: expected wheels, got none")
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    for file in files:
        if file.suffix == ".whl":
            check_wheel(file)
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in files]
    (folder / "SHA256SUMS").write_text("\n".join([*sums, ""]), encoding="utf-8")
    for file in files:
        print(f"{file.stat().st_size / 1e6:6.1f} MB  {file.name}")


if __name__ == "__main__":
    main()
