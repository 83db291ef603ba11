"""The code of README and docs, as it is printed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import ase.build
import ase.io
import pytest

from conftest import ROOT

# What shows that the functions of a page work.
THEN = {
    "CONTRIBUTING.md": """
import numpy, torch
from jax import config, numpy as jnp
config.update("jax_enable_x64", True)
import madelung.jax, madelung.numpy, madelung.torch
rock_salt = numpy.stack(numpy.meshgrid(*[numpy.arange(2)] * 3), -1).reshape(-1, 3)
signs, images = (-1.0) ** rock_salt.sum(1), numpy.stack(numpy.meshgrid(*[numpy.arange(-40, 41)] * 3), -1).reshape(-1, 3)
r = numpy.linalg.norm(images, axis=1)[images.any(1)]
expected = 0.5 * ((-1.0) ** images[images.any(1)].sum(1) * numpy.exp(-0.8 * r) / r).sum()
for namespace, array in ((madelung.numpy, numpy.array), (madelung.torch, torch.tensor), (madelung.jax, jnp.array)):
    system = [array(x) for x in (1.0 * rock_salt, signs, 2.0 * numpy.eye(3))]
    found = namespace.ewald_summation(*system, 1.2, cutoff=5.2, k_cutoff=15.0, law=yukawa(kappa=0.8))
    assert abs(float(found[0]) - expected) < 1e-10, (namespace, float(found[0]), expected)
""",
    "docs/torch.md": """
energies, forces = energy_and_forces(positions, charges, cell, pairs, ptr, shifts, miller, of)
expected = ewald_summation(positions, charges, cell, alpha, cutoff=cutoff, k_cutoff=k_cutoff, accuracy=None)
assert torch.allclose(energies, expected, rtol=0, atol=1e-12)
energy, neighbors = step(positions, neighbors)
assert not neighbors.did_overflow
""",
    "docs/jax.md": """
positions, neighbors = step(positions, neighbors)
assert not neighbors.did_overflow and not overflow and hessian.shape == (48, 3, 48, 3)
""",
}
# Blocks that cannot run here, by a word in them.
ELSEWHERE = {
    "torch.cuda.CUDAGraph": "needs a GPU",
    "import cupy": "needs a GPU and CuPy",
    "import torch_sim": "needs TorchSim: tests/engines has it",
    "born_mayer = pair_potential(": "a declaration of this package, with an ellipsis",
    "@function(POSITIONS, CHARGES": "a declaration of this package",
}


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_python(page: str, tmp_path: Path) -> None:
    """The blocks of a page run one after the other, from a file: kernels are read from their source."""
    here = [block for block in blocks(page, "python") if not any(word in block for word in ELSEWHERE)]
    program = "\n".join([*here, THEN.get(page, "")])
    script = tmp_path / "page.py"
    script.write_text(program, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_excerpts() -> None:
    """Functions and classes of the page of training stand so in its example."""
    example = (ROOT / "examples/train_potential.py").read_text(encoding="utf-8")
    shown = [block for block in blocks("docs/training.md", "python") if block.startswith(("def ", "class "))]
    assert len(shown) == 4
    assert all(block in example for block in shown)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    plain = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", plain, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links(page: str) -> None:
    """Links between pages, to their headings, to pictures and to files lead somewhere, and paths of tests are there."""
    text = (ROOT / page).read_text(encoding="utf-8")
    plain = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    for target, _, anchor in (x.partition("#") for x in re.findall(r"\]\(([^)\s]+)\)", plain)):
        if ":" in target:
            continue
        file = (ROOT / page).parent / target if target else ROOT / page
        assert file.exists(), f"{page}: {target}"
        assert not anchor or anchor in anchors(file.read_text(encoding="utf-8")), f"{page}: {target}#{anchor}"
    for path in re.findall(r"`((?:tests|benches|examples|crates|tools)/[\w./-]+\.\w+)`", plain):
        assert (ROOT / path).exists(), f"{page}: {path}"


def code(rust: str) -> list[str]:
    """The code between ellipses, without comments and spaces."""
    parts = re.sub(r"//(?! …).*", "", rust).split("// …")
    return ["".join(part.split()) for part in parts]


def test_rust() -> None:
    """Rust code of every page stands in a file that is compiled, or in a doctest, as whole pages are."""
    folders = ("crates", "examples", "tests", "src")
    texts = [file.read_text(encoding="utf-8") for folder in folders for file in (ROOT / folder).rglob("*.rs")]
    doctests = [re.sub(r"^ *//[/!]", "", text, flags=re.MULTILINE) for text in texts]
    compiled = ["".join(code(text)) for text in (*texts, *doctests)]
    heads = "\n".join((ROOT / of).read_text(encoding="utf-8") for of in ("src/lib.rs", "crates/tch/src/lib.rs"))
    pages = re.findall(r'include_str!\("(?:\.\./)+([^"]+)"\)', heads)
    assert pages == ["README.md", "docs/rust.md", "docs/tch.md"]
    for page in PAGES:
        for block in blocks(page, "rust") if page not in pages else []:
            parts = code(block)
            assert any(all(part in text for part in parts) for text in compiled), f"{page}:\n{block}"


def test_what_runs_elsewhere_is_there() -> None:
    """A table that names blocks which are gone would let others pass unseen."""
    every = "\n".join(block for page in PAGES for block in blocks(page, "python"))
    assert all(word in every for word in ELSEWHERE)


def test_commands(tmp_path: Path) -> None:
    """The lines that begin with `$ madelung`."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    salt = ase.build.bulk("NaCl", "rocksalt", a=5.64, cubic=True)
    ase.io.write(tmp_path / "NaCl.cif", salt)
    salt.arrays["q"] = 2.0 * (salt.numbers == 11) - 1.0
    ase.io.write(tmp_path / "run.xyz", [salt] * 21)
    lines = [line for page in PAGES for line in (ROOT / page).read_text(encoding="utf-8").splitlines()]
    commands = [line.removeprefix("$ madelung ") for line in lines if line.startswith("$ madelung ")]
    assert len(commands) >= 5
    for command in commands:
        words = shlex.split(command.split("|")[0], comments=True)
        done = subprocess.run(
            [sys.executable, "-m", "madelung.cli", *words], capture_output=True, text=True, timeout=300, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
