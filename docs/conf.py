"""Settings of the site, which `make docs` builds from the pages of this folder."""

import re
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

project = "Madelung"
author = "the authors of Madelung"
version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)[1]
root_doc = "docs/index"
extensions = ["myst_parser", "sphinx.ext.mathjax", "sphinx_copybutton", "sphinx_design"]
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
