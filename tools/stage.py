#!/usr/bin/env python3
"""Runs a stage of a build or test, and says what it took.

python3 tools/stage.py NAME COMMAND...   runs the command; its seconds go to the table, and what failed stands last
python3 tools/stage.py --table           the table of all stages since it was last printed

The output goes to target/stages/NAME.log too. Where the output is no terminal it is printed when the stage is over, so
that stages that run side by side do not mix.
"""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

STAGES = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).resolve().parent.parent / "target")) / "stages"

# Causes that tools report in the middle of what follows from them: a disk, memory, a registry out of reach.
CAUSES = re.compile(
    r"No space left on device|[Dd]isk quota exceeded|Read-only file system"
    r"|Cannot allocate memory|^MemoryError|memory allocation of \d+ bytes failed|LLVM ERROR: out of memory"
    r"|virtual memory exhausted|signal: 9|SIGKILL|^Killed"
    r"|Could not resolve|Temporary failure in name resolution|[Ff]ailed to (?:download|fetch)|Network is unreachable"
    r"|Connection (?:refused|reset|timed out)|No matching distribution|error sending request|spurious network error"
)


def cause(log: Path) -> str | None:
    """The first line of a log that says that something outside of the project failed."""
    with log.open(errors="replace") as lines:
        return next((line.strip() for line in lines if CAUSES.search(line)), None)


def record(name: str, wall: float, code: int) -> dict[str, object]:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu, peak = used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6
    row = {"name": name, "wall": wall, "cpu": cpu, "peak": peak, "code": code, "end": time.time()}
    (STAGES / f"{name}.json").write_text(json.dumps(row))
    return row


def run(name: str, command: list[str]) -> int:
    STAGES.mkdir(parents=True, exist_ok=True)
    log, begin = STAGES / f"{name}.log", time.monotonic()
    on_terminal = sys.stdout.isatty()
    with log.open("w") as output:
        streams = {} if on_terminal else {"stdout": output, "stderr": subprocess.STDOUT}
        try:
            code = subprocess.run(command, **streams).returncode
        except OSError as error:
            print(error, file=None if on_terminal else output)
            code = 127
    row = record(name, time.monotonic() - begin, code)
    if not on_terminal:
        with log.open(errors="replace") as lines:
            shutil.copyfileobj(lines, sys.stdout)
    print(f"stage {name}: {row['wall']:.0f} s, {row['cpu']:.0f} s of processors, {row['peak']:.1f} GB", flush=True)
    if code:
        why = cause(log)
        print(*filter(None, [why, f"stage {name} failed ({code}): {log}"]), sep="\n", file=sys.stderr, flush=True)
    return code


def table() -> int:
    """Prints the stages in the order of their ends, and whether one of them failed, the name last."""
    files = list(STAGES.glob("*.json"))
    rows = sorted((json.loads(file.read_text()) for file in files), key=lambda row: row["end"])
    for file in files:
        file.unlink()
    print(f"\n{'stage':24} {'wall s':>8} {'CPU s':>8} {'GB':>6}")
    for row in rows:
        print(f"{row['name']:24} {row['wall']:8.0f} {row['cpu']:8.0f} {row['peak']:6.1f}")
    if rows:
        begin = min(row["end"] - row["wall"] for row in rows)
        print(f"{'all':24} {rows[-1]['end'] - begin:8.0f} {sum(row['cpu'] for row in rows):8.0f}")
    failed = [row["name"] for row in rows if row["code"]]
    for name in failed:
        print(*filter(None, [cause(STAGES / f"{name}.log"), f"failed: {name}"]), sep="\n")
    return bool(failed)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--table"]:
            sys.exit(table())
        case [name, *command] if command and re.fullmatch(r"[\w-]+", name):
            sys.exit(run(name, command))
        case _:
            sys.exit(__doc__)
