"""What the bundle for machines with a GPU says of its parts, from the logs of passing and failing programs."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from conftest import ROOT

BUNDLE = ROOT / "tools" / "gpu_bundle"
pytestmark = pytest.mark.skipif(not BUNDLE.exists(), reason="this is the bundle, without its sources")

LOGS = {
    "rust": (
        "test a ... ok\n\ntest result: ok. 11 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 2s\n"
        "test result: FAILED. 30 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.80s\n",
        "101 12 240",
    ),
    "torch": ("....\nFAILED tests/a.py::b - assert 1 failed\n1 failed, 300 passed, 2 skipped in 61.00s\n", "1 61 240"),
    "jax": ("left out: JAX is not installed\n", "0 1 240"),
    "registers": ("..........\n10 passed in 3.21s\n", "0 4 240"),
    "sanitizer": ("========= COMPUTE-SANITIZER\n", "143 60 60"),
    "bench": ("the CPU: copies 2 GB/s\n", "0 5 130"),
}


def test_summary(tmp_path):
    for name, (log, status) in LOGS.items():
        (tmp_path / f"{name}.log").write_text(log)
        (tmp_path / f"{name}.status").write_text(status + "\n")
    (tmp_path / "bench.json").write_text('{"rows": []}')
    words = [sys.executable, str(BUNDLE / "summary.py"), str(tmp_path), *LOGS]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    found = {p["part"]: (p["result"], p["tests"]) for p in results["parts"]}
    assert found == {
        "rust": ("FAILED (101)", {"passed": 41, "failed": 2, "skipped": 1}),
        "torch": ("FAILED (1)", {"failed": 1, "passed": 300, "skipped": 2}),
        "jax": ("left out: JAX is not installed", {}),
        "registers": ("passed", {"passed": 10}),
        "sanitizer": ("stopped after 60 s", {}),
        "bench": ("passed", {}),
    }
    assert results["bench"] == {"rows": []}
    assert done.stdout == (tmp_path / "summary.txt").read_text()
    assert "the CPU: copies 2 GB/s" in done.stdout and "41 passed, 2 failed, 1 skipped" in done.stdout


def test_unknown_words_are_refused():
    done = subprocess.run(["bash", str(BUNDLE / "run.sh"), "benchmarks"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "sanitizer" in done.stderr and "--device" in done.stderr


def built_by() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build", BUNDLE / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_manifest_has_what_the_script_runs():
    """Every part of run.sh, every file that it names, every program and its modules."""
    build, script = built_by(), (BUNDLE / "run.sh").read_text()
    parts = re.search(r"\|\| parts=\((.*)\)", script)[1].split()
    assert list(build.PARTS) == parts
    files = build.manifest(parts)
    assert all(source.is_file() for source in files.values())
    named = {path.rstrip("/") for path in re.findall(r'"\$here/([\w/.]+)"', script)} - {"glibc"}
    folders = {str(parent) for name in files for parent in Path(name).parents}
    assert named and named <= files.keys() | folders, named - files.keys() - folders
    assert set(re.findall(r'"\$out/bin/(\w+)"', script)) == set(build.PROGRAMS)

    described = subprocess.run(
        ["cargo", "metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    targets = {
        (package["name"], target["name"]): Path(target["src_path"])
        for package in json.loads(described.stdout)["packages"]
        for target in package["targets"]
        if "test" in target["kind"]
    }
    for name, program in build.PROGRAMS.items():
        modules = set(re.findall(r"^mod (\w+);", targets[program].read_text(), re.MULTILINE))
        asked = re.findall(rf'(?:"\$out/bin/{name}"|check \w+ {name}|checked \w+ {name}) (.*)', script)
        words = {word.split("::")[0] for line in asked for word in line.split() if "::" in word}
        assert words <= modules, f"{name} has no {words - modules}"


def test_a_part_has_only_what_it_needs():
    build = built_by()
    small, whole = build.manifest(["bench"]), build.manifest(list(build.PARTS))
    assert small.keys() < whole.keys() and not any(name.startswith("tests") for name in small)
    done = subprocess.run(
        [sys.executable, str(BUNDLE / "build.py"), "nowhere", "benchmarks"], capture_output=True, text=True
    )
    assert done.returncode and "PART: expected some of info, rust" in done.stderr and not Path("nowhere").exists()


def test_the_oldest_c_library():
    oldest = built_by().oldest_glibc
    assert oldest(b"GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0") == (2, 34) and oldest(b"") == (2, 0)
