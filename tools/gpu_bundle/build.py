"""Writes a folder that tests and measures Madelung on an x86-64 Linux machine with an NVIDIA GPU: see run.sh.

    python tools/gpu_bundle/build.py FOLDER [PART...]

The module and the test programs are those that `make test` builds, so a built tree has little to do, and the folder
needs a C library as new as the symbols that they ask for, which it says. PARTS are those of run.sh; without any, all.
"""

from __future__ import annotations

import json
import lzma
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
MOST = 45_000_000
"""Bytes that the folder may have."""

# Test programs in Rust by their names in the folder: package and target.
PROGRAMS = {
    "ops": ("madelung", "suite"),
    "primitives": ("madelung-cuda", "primitives"),
    "neighbors": ("madelung-neighbors", "all"),
}
SUITES = ("tests/python", "tests/data", "examples")
BENCHES = ("benches/python",)
ALWAYS = ("LICENSE-APACHE", "LICENSE-MIT")
# What each part of run.sh needs, beside the module.
PARTS: dict[str, tuple[str, ...]] = {
    "info": (),
    "rust": (),
    "torch": SUITES,
    "compiled": SUITES,
    "jax": SUITES,
    "arrays": SUITES,
    "registers": SUITES,
    "sanitizer": (),
    "bench": BENCHES,
}
WITH_PROGRAMS = {"rust", "sanitizer"}
# Wheels for run.sh, which has no network: pure Python, with what they need in the oldest Python.
WHEELS = ("pytest>=8", "exceptiongroup", "tomli", "typing-extensions")


def manifest(parts: Sequence[str]) -> dict[str, Path]:
    """Files of the folder that are copied, by their places in it.

    Raises:
        FileNotFoundError: where the tree lacks what a part needs.
    """
    names = {*ALWAYS, *(name for part in parts for name in PARTS[part])}
    files = {name: HERE / name for name in ("run.sh", "summary.py")}
    for name in sorted(names):
        source = ROOT / name
        found = [source] if source.is_file() else [f for f in source.rglob("*") if f.is_file()]
        found = [f for f in found if f.suffix != ".pyc"]
        if not found:
            raise FileNotFoundError(f"{name} is not in {ROOT}")
        files |= {str(f.relative_to(ROOT)): f for f in found}
    return files


def run(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, check=True, text=True, cwd=ROOT, **options)


def oldest_glibc(binary: bytes) -> tuple[int, int]:
    """The oldest C library that a program or module runs with, from the versions of its symbols."""
    return max((tuple(map(int, v.split(b"."))) for v in re.findall(rb"GLIBC_(\d+\.\d+)", binary)), default=(2, 0))


def wheels(folder: Path) -> bytes:
    """Writes the wheel, which has the module of this tree, and those that tests need; the module."""
    build = ("--release", "--locked", "--compatibility", "linux", "--out", str(folder))
    run(str(Path(sys.executable).with_name("maturin")), "build", *build)
    pure = ("--only-binary=:all:", "--python-version", "3.10", "--implementation", "py", "--abi", "none")
    run(sys.executable, "-m", "pip", "download", "--quiet", *pure, "--platform", "any", "-d", str(folder), *WHEELS)
    return next((ROOT / "python" / "madelung").glob("_native*.so")).read_bytes()


def programs(folder: Path) -> list[bytes]:
    """Writes the test programs, stripped and compressed."""
    # As in the Makefile.
    tested = ("--locked", "--release", "--workspace", "--exclude", "madelung-benches")
    said = run("cargo", "test", *tested, "--no-run", "--message-format=json", stdout=subprocess.PIPE).stdout
    messages = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    made = {(m["manifest_path"], m["target"]["name"]): m["executable"] for m in messages if m.get("executable")}
    crates = {manifest.parent.name: manifest for manifest in (ROOT / "crates").rglob("Cargo.toml")}
    folder.mkdir()
    binaries = []
    for name, (package, target) in PROGRAMS.items():
        crate = ROOT / "Cargo.toml" if package == "madelung" else crates[package.removeprefix("madelung-")]
        stripped = folder / name
        run("strip", "-o", str(stripped), made[str(crate), target])
        binaries.append(stripped.read_bytes())
        (folder / f"{name}.xz").write_bytes(lzma.compress(binaries[-1], preset=6))
        stripped.unlink()
    return binaries


def main(folder: str, *parts: str) -> None:
    if unknown := set(parts) - set(PARTS):
        raise SystemExit(f"PART: expected some of {', '.join(PARTS)}, got {', '.join(sorted(unknown))}")
    bundle, parts = Path(folder).absolute(), parts or tuple(PARTS)
    files = manifest(parts)
    shutil.rmtree(bundle, ignore_errors=True)
    for name, source in files.items():
        (bundle / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, bundle / name)
    binaries = [wheels(bundle / "wheels")]
    if not WITH_PROGRAMS.isdisjoint(parts):
        binaries += programs(bundle / "bin")
    glibc = ".".join(map(str, max(map(oldest_glibc, binaries))))
    (bundle / "glibc").write_text(f"{glibc}\n")
    size = sum(path.stat().st_size for path in bundle.rglob("*") if path.is_file())
    print(f"{bundle}: {size / 1e6:.1f} MB, for glibc {glibc} and newer: {' '.join(parts)}")
    if size > MOST:
        raise SystemExit(f"the bundle is larger than {MOST / 1e6:.0f} MB")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
