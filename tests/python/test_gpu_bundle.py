"""What the bundle for machines with a GPU says of its parts, from the logs of passing and failing programs."""

import json
import subprocess
import sys

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
