"""Settings of the site, which `make docs` builds from the pages of this folder."""

import re
import sys
import sysconfig
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

project = "Madelung"
author = "the authors of Madelung"
version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)[1]
root_doc = "docs/index"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
# Docstrings have code between single backticks.
default_role = "code"
autodoc_typehints = "none"
# Shapes of results are no types.
nitpick_ignore = [("py:class", "N"), ("py:class", "3")]
autodoc_mock_imports = ["openmm", "torch_sim"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
# Anchors as GitHub makes them, which links of pages have.
myst_heading_anchors = 4
# Ellipses in code.
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "pydata_sphinx_theme"
html_title = f"Madelung {version}"
html_theme_options = {
    "logo": {"text": "Madelung", "image_light": "pictures/mark.svg", "image_dark": "pictures/mark.svg"},
    "header_links_before_dropdown": 9,
    "navbar_align": "left",
    "show_prev_next": False,
    "show_toc_level": 2,
    "footer_start": [],
    "footer_end": [],
}
html_sidebars = {"docs/index": [], "docs/choose": []}
html_context = {"default_mode": "auto"}
html_favicon = "pictures/mark.svg"
html_copy_source = False
html_show_sourcelink = False
# MathJax in one file of a package, so that formulas are set without a network.
html_static_path = [
    "site.css",
    f"{sysconfig.get_path('purelib')}/sphinx-mathjax-offline/static/mathjax/tex-svg.js",
]
html_css_files = ["site.css"]
mathjax_path = "tex-svg.js"

# Docstrings of attributes, in which the reader of Google's style takes what stands before a colon for a type.
attributes: dict[str, list[str]] = {}


def before(_: Sphinx, what: str, name: str, of: Any, options: Any, lines: list[str]) -> None:
    """A docstring whose indented blocks are code, ahead of the reader of Google's style."""
    text = re.sub(r"^(\S.*)\n\n(?=    \S)", r"\1\n\n::\n\n", "\n".join(lines), flags=re.MULTILINE)
    lines[:] = text.split("\n")
    if what in ("attribute", "property"):
        attributes[name] = list(lines)


def behind(_: Sphinx, what: str, name: str, of: Any, options: Any, lines: list[str]) -> None:
    """A docstring of an attribute as it was."""
    lines[:] = attributes.pop(name, lines)


def setup(app: Sphinx) -> None:
    """Connects what looks at docstrings."""
    app.connect("autodoc-process-docstring", before, priority=400)
    app.connect("autodoc-process-docstring", behind, priority=600)
