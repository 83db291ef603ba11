"""A table of how the parts of run.sh ended, and everything in one file: summary.txt and results.json."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

PYTEST = re.compile(r"(\d+) (passed|failed|skipped|errors?|xfailed)\b")
RUST = re.compile(r"test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored.*")


def counts(log: str) -> dict[str, int]:
    """Tests by how they ended, in what pytest and Rust's harness print last."""
    found: dict[str, int] = {}
    for match in RUST.finditer(log):
        for outcome, n in zip(("passed", "failed", "skipped"), match.groups()):
            found[outcome] = found.get(outcome, 0) + int(n)
    lines = [line for line in RUST.sub("", log).splitlines() if PYTEST.search(line) and re.search(r" in \d", line)]
    for n, outcome in PYTEST.findall(lines[-1]) if lines else []:
        found[outcome] = found.get(outcome, 0) + int(n)
    return {outcome: n for outcome, n in found.items() if n}


def part(out: Path, name: str) -> dict[str, Any]:
    if not (out / f"{name}.status").exists():
        return {"part": name, "result": "FAILED: it did not end", "seconds": 0, "tests": {}}
    log = (out / f"{name}.log").read_text(errors="replace")
    code, seconds, limit = map(int, (out / f"{name}.status").read_text().split())
    left_out = re.search(r"^left out: (.*)", log, re.MULTILINE)
    if code == 0 and left_out and not counts(log):
        result = f"left out: {left_out[1]}"
    elif code == 0:
        result = "passed"
    elif seconds >= limit:
        result = f"stopped after {limit} s"
    else:
        result = f"FAILED ({code})"
    return {"part": name, "result": result, "seconds": seconds, "tests": counts(log)}


def main() -> None:
    out, names = Path(sys.argv[1]), sys.argv[2:]
    parts = [part(out, name) for name in names]
    lines = []
    for p in parts:
        tests = ", ".join(f"{n} {outcome}" for outcome, n in p["tests"].items())
        lines.append(f"{p['part']:10} {p['seconds']:4} s  {p['result']}{f': {tests}' if tests else ''}")
    bench = out / "bench.log"
    if "bench" in names and bench.exists():
        lines += ["", bench.read_text(errors="replace").rstrip()]
    text = "\n".join(lines) + "\n"
    figures = out / "bench.json"
    results = {"parts": parts, "bench": json.loads(figures.read_text()) if figures.exists() else None}
    (out / "summary.txt").write_text(text)
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    print(text, end="")
    raise SystemExit(any(p["result"].startswith(("FAILED", "stopped")) for p in parts))


if __name__ == "__main__":
    main()
