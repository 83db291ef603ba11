"""The script of docs/machines.md: a job array has what one run has."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from conftest import ROOT, required

required("ase")

DATA = ROOT / "examples" / "data"
TASKS = 2


def lines(texts: list[str]) -> dict[str, dict]:
    """Results by file, without the time that they took."""
    found = [json.loads(line) for text in texts for line in text.splitlines()]
    assert len({each["file"] for each in found}) == len(found)
    return {each["file"]: {name: x for name, x in each.items() if name != "seconds"} for each in found}


def test_the_array_has_what_one_run_has(tmp_path: Path) -> None:
    """With a task that fails, for one of its files, and is run again."""
    script, complete = re.findall(r"^```bash\n(.*?)^```$", (ROOT / "docs/machines.md").read_text(), re.M | re.S)
    assert "--array=0-99" in script and "tasks=100 " in script
    (tmp_path / "energies.sh").write_text(script.replace("tasks=100 ", f"tasks={TASKS} "))
    # Names with spaces are names.
    files = [str(DATA / f"{name}.xyz") for name in ("rock_salt", "rutile", "triclinic")]
    spaced = tmp_path / "rock salt.xyz"
    spaced.write_bytes(Path(files[0]).read_bytes())
    files.append(str(spaced))
    scripts = os.path.dirname(sys.executable)
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "SLURM_CPUS_PER_TASK": "1"}

    def run(*command: str, **changed: str) -> subprocess.CompletedProcess[str]:
        given = {"cwd": tmp_path, "env": environment | changed, "capture_output": True, "text": True, "timeout": 120}
        return subprocess.run(command, **given)

    def task(number: int) -> subprocess.CompletedProcess[str]:
        return run("bash", "energies.sh", SLURM_ARRAY_TASK_ID=str(number))

    def written(name: str) -> dict[str, dict]:
        return lines([file.read_text() for file in tmp_path.glob(name)])

    listed = tmp_path / "files.txt"
    listed.write_text("\n".join([*files[:3], "nowhere.xyz"]) + "\n")
    assert task(0).returncode != 0
    assert not list(tmp_path.glob("*.jsonl")) and list(written("*.part")) == [files[1]]
    listed.write_text("\n".join(files) + "\n")
    assert task(1).returncode == 0
    assert run("bash", "-c", complete).stdout == ""
    assert task(0).returncode == 0
    assert run("bash", "-c", complete).stdout == "complete\n"

    one = run("madelung", "energy", "--json", *files)
    assert one.returncode == 0
    assert written("*.jsonl") == lines([one.stdout]) and len(written("*.jsonl")) == len(files)
    assert not list(tmp_path.glob("*.part"))
