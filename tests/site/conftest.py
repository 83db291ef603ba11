"""The built site, served to a headless Chromium that reaches nothing else."""

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver

ROOT = Path(__file__).resolve().parents[2]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--site", type=Path, default=ROOT / "target/site", help="the folder that `make docs` wrote")
    parser.addoption("--screenshots", type=Path, help="a folder for pictures of some pages")


@pytest.fixture(scope="session")
def site(pytestconfig: pytest.Config) -> Path:
    """The folder of the site."""
    folder: Path = pytestconfig.getoption("--site")
    assert (folder / "index.html").exists(), f"{folder}: no site; `make docs` builds it"
    return folder.resolve()


class Silent(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, without a line for each."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """The site's address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Silent, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    """Chromium without a network: what a page takes from elsewhere is an error of its console."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for word in ("headless=new", "no-sandbox", "disable-gpu", "host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"):
        options.add_argument(f"--{word}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


def wide(browser: webdriver.Chrome, width: int) -> None:
    """A window of so many pixels, as that of a phone where it is narrow."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
