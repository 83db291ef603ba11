"""Writes a folder that tests and measures Madelung on any x86-64 Linux machine with an NVIDIA GPU: see run.sh.

    python tools/gpu_bundle/build.py FOLDER

Everything compiled is linked by Zig, so that it runs with glibc 2.17 and newer: maturin and cargo-zigbuild find it in
the Python that runs this (`make gpu-bundle` installs all three).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = "x86_64-unknown-linux-gnu"
GLIBC = "2.17"
MOST = 60_000_000
"""Bytes that the folder may have."""
PROGRAMS = {"suite": "ops", "primitives": "primitives", "all": "neighbors"}
"""Test programs in Rust and their names in the bundle: `suite` is of madelung, `all` of madelung-neighbors."""
PACKAGES = ("-p", "madelung", "-p", "madelung-cuda", "-p", "madelung-neighbors")
COPIED = ("tests/python", "tests/data", "benches/python", "examples", "LICENSE-APACHE", "LICENSE-MIT")
# Wheels for run.sh, which has no network: pure Python, with what they need in the oldest Python.
WHEELS = ("pytest>=8", "exceptiongroup", "tomli", "typing-extensions")


def run(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, check=True, text=True, cwd=ROOT, **options)


def programs(folder: Path) -> None:
    """The test programs."""
    named = [word for name in PROGRAMS for word in ("--test", name)]
    command = ("cargo-zigbuild", "zigbuild", "--release", "--target", f"{TARGET}.{GLIBC}", *PACKAGES, *named)
    said = run(*command, "--message-format=json-render-diagnostics", stdout=subprocess.PIPE).stdout
    messages = [json.loads(line) for line in said.splitlines()]
    made = {m["target"]["name"]: m["executable"] for m in messages if m.get("executable")}
    folder.mkdir()
    for name, called in PROGRAMS.items():
        shutil.copy(made[name], folder / called)


def main() -> None:
    bundle = Path(sys.argv[1]).absolute()
    shutil.rmtree(bundle, ignore_errors=True)
    bundle.mkdir(parents=True)
    # The tools beside this Python; and nothing in what is built says where a symbol came from.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    os.environ["CARGO_PROFILE_RELEASE_STRIP"] = "symbols"
    wheels = str(bundle / "wheels")
    run("maturin", "build", "--release", "--zig", "--target", TARGET, "--compatibility", "manylinux2014", "-o", wheels)
    pure = ("--only-binary=:all:", "--python-version", "3.10", "--implementation", "py", "--abi", "none")
    run(sys.executable, "-m", "pip", "download", "--quiet", *pure, "--platform", "any", "-d", wheels, *WHEELS)
    programs(bundle / "bin")
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in COPIED:
        source, target = ROOT / name, bundle / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=ignored)
        else:
            shutil.copy(source, target)
    for name in ("run.sh", "summary.py"):
        shutil.copy(Path(__file__).with_name(name), bundle)
    size = sum(path.stat().st_size for path in bundle.rglob("*") if path.is_file())
    print(f"{bundle}: {size / 1e6:.1f} MB")
    if size > MOST:
        raise SystemExit(f"the bundle is larger than {MOST / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
