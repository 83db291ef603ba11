#!/usr/bin/env python3
"""Sources of the site: pages of the tree with their files, and a gallery of examples that it runs.

.venv-docs/bin/python tools/pages.py target/site-source

Pages stay plain Markdown in the tree. Their contents, links to examples and the gallery are added here, on the way.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "engines/lammps/README.md"]

# Contents below a page, by titles where the page's own is long.
CONTENTS = {
    "docs/index.md": [
        "Choose <choose>",
        "Electrostatics <electrostatics>",
        "Neighbours <neighbors>",
        "Potentials <potentials>",
        "Guides <guides>",
        "From … <from>",
        "Gallery <../gallery/index>",
        "Functions <reference>",
        "Project <project>",
    ],
    "docs/electrostatics.md": ["electrostatics/*"],
    "docs/guides.md": [
        "torch",
        "jax",
        "training",
        "cuda",
        "ase",
        "engines",
        "../engines/lammps/README",
        "kernels",
        "kernel-language",
        "rust",
        "c",
        "tch",
        "machines",
        "command-line",
    ],
    "docs/from.md": ["from/*"],
    "docs/reference.md": ["reference/*"],
    "docs/project.md": [
        "conventions",
        "measured",
        "examples",
        "../README",
        "../CONTRIBUTING",
        "design",
        "house",
        "../CHANGELOG",
    ],
    "docs/design.md": ["design/*"],
}
# Examples that the build runs, with their options where those of `make examples` take longer.
RUN = {
    "train_potential": "",
    "message_passing": "",
    "latent_charges": "",
    "stillinger_weber": "",
    "phonons": "",
    "nve_salt": "",
    "jax_md": "",
    "water_md": "--steps 2000 --equilibration 1000",
    "radius_projector": "--eager --points 10000 --edge 20",
    "knn_projector": "",
    "own_kernel": "",
    "heat_flux": "--steps 4000",
    "jax_sharded": "",
}
# Those that it shows alone, and why.
SHOWN = {"train_ddp": "it trains in several processes", "ray_energies": "it needs Ray"}
# Entries of the page of classes, by chapters, whose texts are the docstrings.
CLASSES = {
    "Neighbours": ["numpy.NeighborList", "numpy.Neighbors", "HashGrid"],
    "Parameters of sums": ["numpy.EwaldParameters", "numpy.PmeParameters"],
    "Modules of PyTorch": [
        "torch.nn.EwaldSum",
        "torch.nn.ParticleMeshEwald",
        "torch.nn.LatentEwald",
        "torch.nn.collate",
        "torch.nn.born_charges",
    ],
    "Modules of PyTorch in JAX": ["jax.TorchModule"],
    "ASE": ["ase.Madelung", "ase.ForceFieldCalculator", "ase.D3Calculator", "ase.neighbor_list"],
    "Force fields and dispersion": ["forcefield.from_openmm", "forcefield.ForceField", "d3.D3"],
    "Engines": ["openmm.take_coulomb", "openmm.coulomb_force", "torchsim.MadelungModel"],
    "Kernels": ["kernels.kernel", "kernels.op", "kernels.launch", "kernels.Tape"],
}
LINK = re.compile(r"\]\(([^)\s:#]+)(#[^)]*)?\)")


def stage(page: Path, target: Path) -> None:
    """A page with the files that it links to."""
    text = page.read_text(encoding="utf-8")
    name, folder = page.relative_to(ROOT).as_posix(), page.parent

    def linked(link: re.Match[str]) -> str:
        file = (folder / link[1]).resolve()
        copy = target / file.relative_to(ROOT)
        if file.parent == ROOT / "examples" and file.stem in RUN | SHOWN and file.suffix == ".py":
            return f"]({os.path.relpath(target / 'gallery' / f'{file.stem}.md', target / folder.relative_to(ROOT))})"
        if file.suffix != ".md":
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copy)
        return link[0]

    # A link that shows the name of a file shows the title of its page.
    text = re.sub(r"\[[\w/-]+\.md\]\(", "[](", LINK.sub(linked, text))
    if name in CONTENTS:
        text += contents(CONTENTS[name])
    write(target / name, text)


def contents(names: list[str]) -> str:
    """Pages below a page, for the menus."""
    return "\n".join(["", "```{toctree}", ":hidden:", ":glob:", "", *names, "```", ""])


def classes() -> str:
    """The page of what is no function of every namespace."""
    lines = ["# Classes and modules", ""]
    for title, names in CLASSES.items():
        lines += [f"## {title}", "", "```{eval-rst}"]
        for name in names:
            kind = "class" if name.rpartition(".")[2][0].isupper() else "function"
            lines += [f".. auto{kind}:: madelung.{name}", *["   :members:"] * (kind == "class"), ""]
        lines += ["```", ""]
    return "\n".join(lines)


def write(file: Path, text: str) -> None:
    """A file that is left alone where it has the text: Sphinx then does not read it again."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


def example(name: str, gallery: Path) -> str:
    """The page of an example: its docstring, output, picture and source."""
    source = ROOT / "examples" / f"{name}.py"
    docstring, code = re.match(r'"""(.*?)"""\n(.*)', source.read_text(encoding="utf-8"), re.DOTALL).groups()
    title, _, text = docstring.partition("\n")
    head, _, rest = title.rstrip(".").partition(": ")
    lines = [f"# {head}", "", f"{rest[:1].upper()}{rest[1:]}." if rest else "", text, ""]
    if name in RUN:
        picture, output = gallery / f"{name}.png", gallery / f"{name}.txt"
        if not output.exists() or output.stat().st_mtime < source.stat().st_mtime:
            run(name, picture, output)
        said = output.read_text(encoding="utf-8").replace(str(ROOT) + os.sep, "")
        lines += ["## Output", "", "```text", said.rstrip(), "```", ""]
        lines += [f"![What it plots]({name}.png)", ""] if picture.exists() else []
    else:
        lines += [f"Not run for this page: {SHOWN[name]}.", ""]
    lines += ["## Source", "", f"`examples/{name}.py`", "", "```python", code.strip(), "```", ""]
    return "\n".join(lines)


def run(name: str, picture: Path, output: Path) -> None:
    """An example's output, with the command and the time it took."""
    command = [f"{name}.py", *RUN[name].split()]
    plots = "--plot" in (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, *command, *(["--plot", str(picture)] if plots else [])],
        cwd=ROOT / "examples",
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"examples/{name}.py failed\n{done.stdout}{done.stderr}")
    said = "\n".join(line for line in done.stdout.splitlines() if str(picture) not in line)
    took = time.monotonic() - began
    output.write_text(f"$ python {' '.join(command)}\n{said}\n({took:.0f} s)\n", encoding="utf-8")
    print(f"examples/{name}.py: {took:.0f} s", flush=True)


def gallery(target: Path) -> None:
    """The pages of all examples, and one that shows their pictures."""
    target.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        names = [*RUN, *SHOWN]
        pages = dict(zip(names, pool.map(lambda name: example(name, target), names)))
    cards = []
    for name, page in pages.items():
        write(target / f"{name}.md", page)
        title, said = re.match(r"# (.*)\n\n(.*)\n", page).groups()
        cards += [f":::{{grid-item-card}} {title}", f":link: {name}", ":link-type: doc"]
        cards += [f":img-bottom: {name}.png"] if (target / f"{name}.png").exists() else []
        cards += ["", said, ":::"]
    head = (
        "# Gallery\n\nPrograms in Python, run for these pages with what they plot. `make examples` runs them longer.\n"
    )
    grid = "\n::::{grid} 1 2 2 3\n:gutter: 3\n\n" + "\n".join(cards) + "\n::::\n"
    write(target / "index.md", head + grid + contents(list(pages)))


def main() -> None:
    """Stages all pages, and runs the examples."""
    target = Path(sys.argv[1]).resolve()
    shutil.rmtree(target / "docs", ignore_errors=True)
    for page in [*(ROOT / name for name in PAGES), *sorted((ROOT / "docs").rglob("*.md"))]:
        stage(page, target)
    write(target / "docs/reference/classes.md", classes())
    gallery(target / "gallery")


if __name__ == "__main__":
    main()
