"""Report of a stage of `.ci/run`: seconds, and the cause of a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT

TOOL = ROOT / "tools" / "stage.py"
pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="this is the bundle, without its sources")


def stage(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"CARGO_TARGET_DIR": str(folder)}
    return subprocess.run([sys.executable, str(TOOL), *words], capture_output=True, text=True, env=environment)


def test_seconds_and_the_table(tmp_path: Path) -> None:
    """The table has every stage since the last one was printed, and their sum."""
    work = "n = sum(range(3_000_000)); print('worked')"
    for name in ("build", "test-python"):
        done = stage(tmp_path, name, sys.executable, "-c", work)
        assert done.returncode == 0 and done.stdout.startswith("worked\n") and f"stage {name}: " in done.stdout
    table = stage(tmp_path, "--table")
    rows = {line.split()[0]: line.split()[1:] for line in table.stdout.splitlines() if line}
    assert table.returncode == 0 and list(rows) == ["stage", "build", "test-python", "all"]
    assert abs(float(rows["all"][1]) - sum(float(rows[name][1]) for name in ("build", "test-python"))) <= 1.0
    assert "build" not in stage(tmp_path, "--table").stdout


@pytest.mark.parametrize(
    "line",
    [
        "error: failed to download `syn v3.0.0`",
        "Could not resolve host: index",
        "OSError: [Errno 28] No space left on device: 'x'",
        "  process didn't exit successfully: `rustc` (signal: 9, SIGKILL: kill)",
    ],
)
def test_a_failure_says_why_and_its_name_last(line: str, tmp_path: Path) -> None:
    """The line that names the cause, and not one of what followed from it."""
    program = f"import sys; print({line!r}); print('make: *** Error 101'); sys.exit(3)"
    done = stage(tmp_path, "module", sys.executable, "-c", program)
    assert done.returncode == 3
    assert done.stderr.splitlines() == [line.strip(), f"stage module failed (3): {tmp_path}/stages/module.log"]
    table = stage(tmp_path, "--table")
    assert table.returncode == 1 and table.stdout.splitlines()[-2:] == [line.strip(), "failed: module"]


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    done = stage(tmp_path, "lint", "no-such-command")
    assert done.returncode == 127 and "no-such-command" in done.stdout
    assert done.stderr.splitlines()[-1].startswith("stage lint failed (127)")
    assert stage(tmp_path, "no command").returncode
