"""Open every page of the built site in Chromium, at the width of a phone and of a desk, in both colour schemes.

python -m website.check [FOLDER]   (with tools on PYTHONPATH; `just docs-check` calls it)

It needs Chromium: apt-get install chromium
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final, Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, sync_playwright

from .build import ROOT

WIDTHS: Final = (400, 1400)
Scheme = Literal["light", "dark"]
SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")
CHROMIUM: Final = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
# What is wider than the window although the page cannot be scrolled is hidden; so ask whether it can be
SIDEWAYS: Final = "() => { scrollTo(10000, 0); const moved = scrollX; scrollTo(0, 0); return moved }"
SOURCES: Final = "() => document.querySelectorAll('pre.mermaid').length"
BROKEN: Final = """() => [...document.querySelectorAll('a[href*="#"]')]
    .filter(a => a.pathname === location.pathname && a.hash)
    .filter(a => !document.getElementById(decodeURIComponent(a.hash.slice(1))))
    .map(a => a.hash)"""


def problems(site: Path) -> list[str]:
    """Return what is wrong with each page, a line for each fault."""
    with served(site) as address, sync_playwright() as playwright:
        path = next(path for path in CHROMIUM if Path(path).exists())
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        found = [
            line for width in WIDTHS for scheme in SCHEMES for line in _look(browser, site, address, width, scheme)
        ]
        browser.close()
    return found


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve the folder on a port of its own until the end of the block."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site))) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its base names it so
        """Write nothing on stderr."""


def _look(browser: Browser, site: Path, address: str, width: int, scheme: Scheme) -> Iterator[str]:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on(
        "request", lambda request: said.append(f"asks {request.url}") if _is_foreign(request.url, address) else None
    )
    for path in sorted(site.rglob("index.html")):
        name = path.parent.relative_to(site).as_posix()
        said.clear()
        page.goto(f"{address}/{name}/" if name != "." else f"{address}/", wait_until="load")
        yield from (f"/{name}/ at {width} px, {scheme}: {fault}" for fault in [*_faults(page), *said])
    context.close()


def _is_foreign(url: str, address: str) -> bool:
    return urlsplit(url).scheme in {"http", "https", "ws"} and not url.startswith(address)


def _faults(page: Page) -> Iterator[str]:
    if page.locator("pre.mermaid, div.mermaid").count():
        page.wait_for_timeout(1500)  # the diagrams are drawn after the page has loaded
        if left := page.evaluate(SOURCES):
            yield f"{left} diagrams are shown as source"
    if moved := page.evaluate(SIDEWAYS):
        yield f"scrolls sideways by {moved} px"
    for target in page.evaluate(BROKEN):
        yield f"has a link to {target}, which is not there"


if __name__ == "__main__":
    lines = problems(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site")
    print("\n".join(lines) or "every page is sound")
    sys.exit(bool(lines))
