#!/usr/bin/env python3
"""Checks of the rules in docs/design.md that no compiler makes; `make lint` runs them.

python3 tools/house.py            the checks: a line for each breach, and exit status 1
python3 tools/house.py --circles  the same, and the import circles that there are
python3 tools/house.py --lines    lines of each crate, in its sources and its tests
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

# Dependencies that a crate may have on others of the workspace; tests and benches have those that they like.
ARROWS = {
    "abi": "",
    "kernel": "abi",
    "macros": "kernel",
    "memory": "",
    "lanes": "abi memory",
    "interpreter": "kernel lanes",
    "core": "interpreter lanes macros memory",
    "jit": "core interpreter kernel",
    "cpu": "core",
    "cuda": "core",
    "neighbors": "core cpu cuda",
    "electrostatics": "core neighbors",
    "potentials": "core neighbors",
    "madelung": "core cpu cuda neighbors electrostatics jit potentials",
    "bridge": "core",
    "bridge-torch": "bridge core cpu cuda",
    "bridge-jax": "bridge core cpu cuda",
    "c": "bridge madelung",
    "tch": "madelung",
    "python": "madelung core cuda neighbors electrostatics potentials bridge bridge-torch bridge-jax",
}

# Crates that are workspaces of their own, with lints of their own.
APART = ["tch"]

# Import circles among the top-level modules of a crate, none where nothing is said. Numbers only fall.
CIRCLES = {"kernel": 1, "core": 1, "cpu": 1, "cuda": 2}

PHYSICS = ["neighbors", "electrostatics", "potentials"]
NOT_IN_PHYSICS = {"rayon", "cudarc", "pyo3"}
UNSAFE_IN_PHYSICS = "crates/neighbors/src/device/"

# Dependencies that no line of a package names: by these a build of the module shares all else with one of the tests.
UNNAMED = {"python": {"approx", "either", "serde"}}

BRIDGES = ["bridge", "bridge-torch", "bridge-jax"]

# Files that tools/functions.py writes.
WRITTEN = [ROOT / "python/madelung/_api.py", *sorted((ROOT / "python/madelung").glob("*/_functions.py"))]

LONGEST = 600
# Files that may be longer, and why.
LONGER: dict[str, str] = {}

SOURCES = {".rs", ".py", ".pyi", ".cu", ".cuh", ".c", ".cpp", ".h"}
FOLDERS = ["src", "crates", "python", "engines", "tests", "benches", "examples", "tools"]

TOKENS = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>r(?P<hashes>\#*)".*?"(?P=hashes)|"(?:\\.|[^"\\])*"|'(?:\\[^']+|[^'\\])')""",
    re.DOTALL,
)


def code(text: str, strings: bool = False) -> str:
    """Rust text without comments, and without the contents of strings unless they are wanted."""
    return TOKENS.sub(lambda m: "" if m["comment"] else m[0] if strings else '""', text)


def closing(text: str, start: int) -> int:
    """The position behind the brace that closes the one before `start`."""
    depth = 1
    while depth:
        depth += {"{": 1, "}": -1}.get(text[start], 0)
        start += 1
    return start


TEST_MODULE = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*mod (\w+)\s*([{;])")


def product(sources: Path, strings: bool = False) -> dict[Path, str]:
    """The code of each file of a crate, without its unit tests."""
    files = {file: code(file.read_text(), strings) for file in sorted(sources.rglob("*.rs"))}
    for file, text in list(files.items()):
        if file not in files:  # a test, of a file before
            continue
        folder = file.parent if file.stem in ("lib", "mod") else file.with_suffix("")
        while test := TEST_MODULE.search(text):
            end = test.end()
            if test[2] == "{":
                end = closing(text, end)
            else:
                tests = folder / test[1]
                files = {f: t for f, t in files.items() if f != tests.with_suffix(".rs") and tests not in f.parents}
            text = text[: test.start()] + text[end:]
        files[file] = text
    return files


def leaves(tree: str) -> list[str]:
    """The paths of a use tree: `a::{b, c::d}` is `a::b` and `a::c::d`."""
    head, brace, inner = tree.strip().partition("{")
    if not brace:
        return [head.split(" as ")[0]]
    paths, depth, begin = [], 0, 0
    inner = inner[: inner.rindex("}")] + ","
    for n, c in enumerate(inner):
        depth += {"{": 1, "}": -1}.get(c, 0)
        if c == "," and depth == 0:
            paths += [head + path for path in leaves(inner[begin:n]) if path]
            begin = n + 1
    return paths


def imports(sources: Path) -> dict[str, set[str]]:
    """The top-level modules that each top-level module of a crate names."""
    files = product(sources)
    root = files.pop(sources / "lib.rs")
    modules = set(re.findall(r"\bmod (\w+)\s*[;{]", root))
    # Names that the root re-exports stand for the module that they come from.
    origin = {name: name for name in modules}
    for tree in re.findall(r"\bpub(?:\([^)]*\))? use ([^;]+);", root):
        origin |= {path.split("::")[-1]: path.split("::")[0] for path in leaves(tree) if path.split("::")[0] in modules}
    found: dict[str, set[str]] = {}
    for file, text in files.items():
        here = [part for part in file.relative_to(sources).with_suffix("").parts if part != "mod"]
        inline = [(m.end(), closing(text, m.end())) for m in re.finditer(r"\bmod \w+\s*\{", text)]
        for use in re.finditer(r"\buse ([^;]+);|(?<![\w$:])(?:crate|super)::[\w:]+", text):
            depth = sum(begin < use.start() < end for begin, end in inline)
            for path in leaves(use[1]) if use[1] else [use[0]]:
                base, *names = path.split("::")
                if base not in ("crate", "super"):
                    continue
                around = here + ["(inline)"] * depth if base == "super" else []
                while base == "super":
                    around.pop()
                    base, *names = names if names[:1] == ["super"] else ["", *names]
                to = origin.get(next(iter(around + names), ""))
                if to and to != here[0]:
                    found.setdefault(here[0], set()).add(to)
    return found


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The circles of a graph, each once, from its first node in alphabetical order."""
    found = []

    def walk(path: list[str]) -> None:
        for to in sorted(edges.get(path[-1], ())):
            if to == path[0]:
                found.append(path)
            elif to > path[0] and to not in path:
                walk([*path, to])

    for start in sorted(edges):
        walk([start])
    return found


def folder_of(crate: str) -> Path:
    if crate in ("madelung", "python"):
        return ROOT / crate.removeprefix("madelung")
    return next((ROOT / "crates").glob(f"**/{crate}/Cargo.toml")).parent


def packages_of_cargo() -> dict[str, Any]:
    """The packages of all workspaces, as Cargo reads their manifests."""
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--no-deps", "--offline", "--format-version=1"]
    packages = {}
    for workspace in [ROOT, *(folder_of(crate) for crate in APART)]:
        metadata = json.loads(subprocess.run(command, cwd=workspace, check=True, capture_output=True).stdout)
        packages |= {p["name"].removeprefix("madelung-"): p for p in metadata["packages"]}
    return packages


TAKEN_IN = re.compile(r'^ *#\[path = "([^"]+)"', re.MULTILINE)


def sources_of(folder: Path) -> str:
    """The Rust text of a package, with files elsewhere that it takes in by their path."""
    others = [f.parent for f in folder.rglob("Cargo.toml") if f.parent != folder]
    files = {f for f in folder.rglob("*.rs") if not any(other in f.parents for other in others)}
    new = files
    while new:
        paths = {(f.parent / x).resolve() for f in new for x in TAKEN_IN.findall(f.read_text())}
        beside = {g for f in paths for g in (f.parent.rglob("*.rs") if f.name == "mod.rs" else [f]) if g.exists()}
        new, files = beside - files, files | beside
    return "".join(f.read_text() for f in sorted(files))


def check_dependencies(packages: dict[str, Any]) -> list[str]:
    """Each dependency of a package is named in its sources."""
    breaches = []
    for crate, package in sorted(packages.items()):
        manifest = Path(package["manifest_path"])
        text = sources_of(manifest.parent)
        for name in sorted({d["name"] for d in package["dependencies"]} - UNNAMED.get(crate, set())):
            word = name.replace("-", "_")
            if not re.search(rf"\b{word}(?:::|!| as )|\buse {word}\b", text):
                breaches.append(f"{manifest.relative_to(ROOT)}: no line names {name}")
    return breaches


def lints(manifest: Path, prefix: str) -> list[str]:
    """The lints of a manifest: of Rust, of clippy, and where else they are from."""
    text = manifest.read_text()
    titles = (f"{prefix}lints.rust", f"{prefix}lints.clippy", f"{prefix}lints")
    return [text.partition(f"[{title}]")[2].partition("[")[0].split("#")[0].strip() for title in titles]


def check_arrows(packages: dict[str, Any]) -> list[str]:
    """Dependencies against ARROWS, and those that a crate of physics never has."""
    breaches, of_workspace = [], lints(ROOT / "Cargo.toml", "workspace.")
    for crate, package in sorted(packages.items()):
        manifest = Path(package["manifest_path"])
        if lints(manifest, "") != (["", "", "workspace = true"] if crate not in APART else [*of_workspace[:2], ""]):
            breaches.append(f"{manifest.relative_to(ROOT)}: does not take the lints of the workspace")
        if not {ROOT / "tests", ROOT / "examples", ROOT / "benches"}.isdisjoint(manifest.parents):
            continue
        if crate not in ARROWS:
            breaches.append(f"{manifest.relative_to(ROOT)}: the crate is not in ARROWS of tools/house.py")
            continue
        names = {d["name"] for d in package["dependencies"] if d["kind"] != "dev"}
        ours = {name.removeprefix("madelung-") for name in names if name.startswith("madelung")}
        refused = ours - set(ARROWS[crate].split()) | (names & NOT_IN_PHYSICS if crate in PHYSICS else set())
        breaches += [f"{manifest.relative_to(ROOT)}: {crate} may not depend on {name}" for name in sorted(refused)]
    return breaches


def check_circles(show: bool) -> list[str]:
    breaches = []
    for crate in ARROWS:
        found = circles(imports(folder_of(crate) / "src"))
        if show:
            print(f"{crate}: {len(found)} import circles", *(" → ".join([*c, c[0]]) for c in found), sep="\n    ")
        if len(found) > CIRCLES.get(crate, 0):
            breaches.append(
                f"{crate}: {len(found)} import circles, at most {CIRCLES.get(crate, 0)} are allowed (--circles)"
            )
    return breaches


def check_physics() -> list[str]:
    breaches = []
    for crate in PHYSICS:
        for file, text in product(folder_of(crate) / "src").items():
            name = str(file.relative_to(ROOT))
            words = {"core::arch", "std::arch"} | (set() if name.startswith(UNSAFE_IN_PHYSICS) else {"unsafe"})
            breaches += [f"{name}: has {word}" for word in sorted(words) if re.search(rf"\b{word}\b", text)]
    return breaches


def ops() -> set[str]:
    """Names of the ops that crates of physics declare: as they stand, or as sums of a potential with a prefix."""
    text = "".join(t for crate in PHYSICS for t in product(folder_of(crate) / "src", strings=True).values())
    names = set(re.findall(r'\bOp::new\(\s*"madelung",\s*"(\w+)"', text))
    prefixes, sums = (
        re.findall(r"\bstatic \w+: (\w+) = crate::potential::", text),
        re.findall(r'\("(\w+)", &\[Part::', text),
    )
    names |= {f"{prefix}_{name}" for prefix in prefixes for name in sums}
    names |= set(re.findall(r"\bstatic \w+: (\w+) =\s+crate::formula::", text))
    assert {"pair_vectors", "neighbor_search", "ewald_summation", "born_mayer"} <= names, (
        f"ops are declared in a way that is not read here: {names}"
    )
    return names | {f"{name}_total" for name in names}


def check_bridges() -> list[str]:
    """Bridges name no op and no crate of physics."""
    words = "|".join([*(rf"{op}(?:_v\d+\w*)?" for op in sorted(ops())), *(f"madelung_{crate}" for crate in PHYSICS)])
    breaches = []
    for crate in BRIDGES:
        for file, text in product(folder_of(crate) / "src", strings=True).items():
            found = sorted(set(re.findall(rf"\b(?:{words})\b", text)))
            breaches += [f"{file.relative_to(ROOT)}: names {word}" for word in found]
    return breaches


def lines(folder: Path) -> int:
    files = [f for f in folder.rglob("*") if f.suffix in SOURCES] if folder.is_dir() else []
    return sum(len(f.read_text().splitlines()) for f in files)


def check_lengths() -> list[str]:
    files = [f for folder in FOLDERS for f in sorted((ROOT / folder).rglob("*")) if f.suffix in SOURCES]
    files = [f for f in files if f not in WRITTEN]
    long = {str(f.relative_to(ROOT)): n for f in files if (n := len(f.read_text().splitlines())) > LONGEST}
    return [f"{name}: {n} lines, more than {LONGEST}" for name, n in long.items() if name not in LONGER]


DOC = ("///", "//!")
PRONOUNS = re.compile(r'(?://[/!] |""")(?:Those|What|Where|The same|That|Another|It|They|Of|Whoever|As)\b')


def check_openings() -> list[str]:
    """Documentation opens with a noun of the field, not with a word that stands for one."""
    files = [*(ROOT / "python" / "madelung").rglob("*.py")]
    files += [file for crate in ARROWS for file in (folder_of(crate) / "src").rglob("*.rs")]
    breaches = []
    for file in sorted(files):
        rows = [line.lstrip() for line in file.read_text().splitlines()]
        for n, (before, row) in enumerate(zip(["", *rows], rows, strict=False), 1):
            if PRONOUNS.match(row) and not before.startswith(DOC):
                breaches.append(f"{file.relative_to(ROOT)}:{n}: the documentation opens with no noun: {row}")
    return breaches


def print_lines() -> None:
    rows = [(crate, lines(folder_of(crate) / "src"), lines(folder_of(crate) / "tests")) for crate in ARROWS]
    written = sum(len(f.read_text().splitlines()) for f in WRITTEN)
    by_hand = lines(ROOT / "python" / "madelung") - written
    rows.append(("python (Python)", by_hand, lines(ROOT / "tests" / "python")))
    rows.append(("engines", lines(ROOT / "engines"), lines(ROOT / "tests" / "engines")))
    # The facade's tests share their folder with these.
    others = lines(ROOT / "tests" / "python") + lines(ROOT / "tests" / "engines")
    rows = [(c, s, t - others if c == "madelung" else t) for c, s, t in rows]
    rows.append(("all", sum(s for _, s, _ in rows), sum(t for _, _, t in rows)))
    print(f"{'crate':16} {'sources':>8} {'tests':>8}", *(f"{c:16} {s:8} {t:8}" for c, s, t in rows), sep="\n")
    print(f"written by tools/functions.py, not counted: {written}")


def main() -> None:
    if "--lines" in sys.argv[1:]:
        return print_lines()
    packages = packages_of_cargo()
    breaches = check_arrows(packages) + check_dependencies(packages)
    breaches += check_circles("--circles" in sys.argv[1:]) + check_physics()
    breaches += check_bridges() + check_lengths() + check_openings()
    print(*breaches, sep="\n", end="\n" if breaches else "")
    sys.exit(bool(breaches))


if __name__ == "__main__":
    main()
