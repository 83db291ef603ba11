"""The site in headless Chromium, and its links."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from conftest import wide

# Pages of which `--screenshots` takes pictures.
SHOWN = [
    "docs/index", "docs/choose", "docs/electrostatics", "docs/electrostatics/ewald", "docs/reference",
    "docs/reference/sums-of-charges", "docs/from/torch-pme", "gallery/index", "gallery/phonons", "docs/training",
]  # fmt: skip
SET = 'return [...document.querySelectorAll("main .math")].every((e) => e.querySelector("mjx-container svg"))'
# Elements whose text ends beyond the window, none of whose parents scrolls.
BEYOND = """
const width = document.documentElement.clientWidth, found = [];
const kinds = ["auto", "scroll", "hidden"];
const scrolls = (e) => e && (kinds.includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
const walk = document.createTreeWalker(document.querySelector("main") ?? document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const range = document.createRange();
  range.selectNodeContents(walk.currentNode);
  const box = range.getBoundingClientRect();
  const beyond = box.width && box.right > width + 1 && !scrolls(walk.currentNode.parentElement);
  if (beyond) found.push(walk.currentNode.textContent);
}
if (document.documentElement.scrollWidth > width + 1) found.push(`a page ${document.documentElement.scrollWidth} wide`);
return found;
"""


def pages(site: Path) -> list[str]:
    """All pages of the site."""
    return sorted(page.relative_to(site).as_posix() for page in site.rglob("*.html") if "_static" not in page.parts)


class Links(HTMLParser):
    """The links of a page, and what they may lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.anchors |= {given["id"]} if "id" in given else set()
        of = {"a": "href", "img": "src", "script": "src", "link": "href"}.get(tag)
        self.links += [given[of]] if of in given else []


def test_links(site: Path) -> None:
    """Every link within the site leads to a page and an anchor, and two of them anywhere from the first page."""
    read = {page: Links((site / page).read_text(encoding="utf-8")) for page in pages(site)}
    dead, checked = [], 0
    leads: dict[str, set[str]] = {page: set() for page in read}
    for page, here in read.items():
        for link in here.links:
            path, _, anchor = link.partition("#")
            if re.match(r"\w+:|//", link):
                continue
            file = ((site / page).parent / unquote(path.partition("?")[0])).resolve() if path else site / page
            name = file.relative_to(site).as_posix() if file.is_relative_to(site) else ""
            there = file.is_file() and (not anchor or name not in read or unquote(anchor) in read[name].anchors)
            checked += 1
            leads[page] |= {name} & read.keys()
            dead += [] if there else [f"{page}: {link}"]
    print(f"{checked} links of {len(read)} pages")
    assert not dead
    first = {"docs/index.html"}.union(leads["docs/index.html"])
    second = first.union(*(leads[page] for page in first))
    assert second >= read.keys() - {"index.html", "search.html", "genindex.html"}, "more than two clicks away"


@pytest.mark.parametrize("width", [380, 1280])
def test_pages(site: Path, address: str, browser: webdriver.Chrome, width: int, pytestconfig: pytest.Config) -> None:
    """No page writes to the console, leaves mathematics unset, or has text beyond the edge."""
    wide(browser, width)
    faults: list[str] = []
    screenshots, formulas = pytestconfig.getoption("--screenshots"), 0
    for page in pages(site):
        browser.get(f"{address}/{page}")
        written = browser.find_elements(By.CSS_SELECTOR, "main .math")
        if written:
            formulas += len(written)
            WebDriverWait(browser, 20).until(lambda b: b.execute_script(SET), f"{page}: formulas")
        faults += [f"{page}: {text.strip()[:80]}" for text in browser.execute_script(BEYOND)]
        logged = [entry for entry in browser.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")]
        faults += [f"{page}: {entry['message']}" for entry in logged]
        if screenshots and page.removesuffix(".html") in SHOWN:
            browser.save_screenshot(str(screenshots / f"{page.removesuffix('.html').replace('/', '-')}-{width}.png"))
    assert formulas
    assert not faults, "\n".join(faults)


def test_search(address: str, browser: webdriver.Chrome) -> None:
    """The search finds a function and a page by their words."""
    wide(browser, 1280)
    for words, found in (("particle_mesh_ewald", "sums-of-charges"), ("slab energy", "slabs-and-wires")):
        browser.get(f"{address}/search.html?q={words}")
        link = (By.CSS_SELECTOR, f"#search-results li a[href*='{found}']")
        WebDriverWait(browser, 20).until(lambda b, link=link: b.find_elements(*link), f"{words}: no {found}")


def test_themes(address: str, browser: webdriver.Chrome) -> None:
    """A page has a dark and a light form."""
    wide(browser, 1280)
    colours = set()
    for theme in ("light", "dark"):
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        )
        browser.get(f"{address}/docs/index.html")
        colours.add(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert len(colours) == 2
