"""Open every page of the built site in Chromium, in both colour schemes, at the width of a desk and of a phone.

python -m website.check [FOLDER]   (with tools on PYTHONPATH; `just docs-check` calls it)

It needs Chromium: apt-get install chromium.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread, Timer
from typing import Final, Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Error, Page, sync_playwright

from .build import ROOT
from .search import not_found

WIDTHS: Final[Mapping[str, tuple[int, int]]] = {
    "light": (1440, 400),
    "dark": (400, 1440),
}  # loaded at, and then resized to
HEIGHT: Final = 900
LONGEST: Final = 12_000  # pixels of a page of the reference at the width of a desk
Scheme = Literal["light", "dark"]
SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")
CHROMIUM: Final = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
NOT_HERE: Final = "there is no Chromium: `apt-get install chromium` has it on Debian"
PAGE_MS: Final = 60_000
PAGE_SECONDS: Final = 180  # a renderer that hangs answers no question, and a question has no time limit of its own
# What is wider than the window although the page cannot be scrolled is hidden; so ask whether it can be
SIDEWAYS: Final = "() => { scrollTo(10000, 0); const moved = scrollX; scrollTo(0, 0); return moved }"
TALL: Final = "() => document.documentElement.scrollHeight"
DRAWN: Final = "() => !document.querySelector('pre.mermaid')"
BROKEN: Final = """() => [...document.querySelectorAll('a[href*="#"]')]
    .filter(a => a.pathname === location.pathname && a.hash)
    .filter(a => !document.getElementById(decodeURIComponent(a.hash.slice(1))))
    .map(a => a.hash)"""
BLANK: Final = "() => [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"


def main(site: Path) -> int:
    """Print what is wrong; return the exit code."""
    chromium = next((path for path in CHROMIUM if Path(path).exists()), None)
    if chromium is None:
        print(NOT_HERE, file=sys.stderr)
        return 1
    lines = problems(site, chromium, SCHEMES)
    print("\n".join(lines) or "every page is sound")
    return bool(lines)


def problems(site: Path, chromium: str, schemes: Sequence[Scheme]) -> list[str]:
    """Return what is wrong with each page, a line for each fault."""
    pages = sorted(path.parent.relative_to(site).as_posix() for path in site.rglob("index.html"))
    if not pages:
        return [f"{site} has no page"]
    with served(site) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"], timeout=PAGE_MS
        )
        found = [line for scheme in schemes for line in _look(browser, pages, address, scheme)]
        with _bounded("search"):
            found += not_found(browser.new_page(viewport={"width": WIDTHS["light"][0], "height": HEIGHT}), address)
        browser.close()
    return found


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve the folder on a port of its own until the end of the block."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site))) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # a connection for several files

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its base names it so
        """Write nothing on stderr."""


def _look(browser: Browser, pages: list[str], address: str, scheme: Scheme) -> Iterator[str]:
    context = browser.new_context(viewport={"width": WIDTHS[scheme][0], "height": HEIGHT}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(PAGE_MS)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on(
        "request", lambda request: said.append(f"asks {request.url}") if _is_foreign(request.url, address) else None
    )
    for name in pages:
        said.clear()
        with _bounded(name):
            found = _found(page, f"{address}/{name}/" if name != "." else f"{address}/", WIDTHS[scheme])
        yield from (f"/{name}/, {scheme}: {fault}" for fault in [*found, *said])
    context.close()


@contextmanager
def _bounded(name: str) -> Iterator[None]:
    timer = Timer(PAGE_SECONDS, _give_up, [name])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _give_up(name: str) -> None:
    print(f"/{name}/: no answer within {PAGE_SECONDS} s", file=sys.stderr, flush=True)
    os._exit(1)  # the browser ends with the pipe to it


def _is_foreign(url: str, address: str) -> bool:
    return urlsplit(url).scheme in {"http", "https", "ws"} and not url.startswith(address)


def _found(page: Page, url: str, widths: Sequence[int]) -> list[str]:
    try:
        return [*_faults(page, url, widths)]
    except Error as error:
        return [str(error).partition("\n")[0]]


def _faults(page: Page, url: str, widths: Sequence[int]) -> Iterator[str]:
    page.set_viewport_size({"width": widths[0], "height": HEIGHT})
    page.goto(url, wait_until="load")
    if not page.evaluate(DRAWN):
        page.wait_for_function(DRAWN)  # diagrams are drawn after the page has loaded
    for target in page.evaluate(BROKEN):
        yield f"has a link to {target}, which is not there"
    for source in page.evaluate(BLANK):
        yield f"does not show {source}"
    for width in widths:
        page.set_viewport_size({"width": width, "height": HEIGHT})
        if moved := page.evaluate(SIDEWAYS):
            yield f"scrolls sideways by {moved} px at {width} px"
        if "/reference/" in url and width == max(widths) and (height := page.evaluate(TALL)) > LONGEST:
            yield f"is {height} px long, of at most {LONGEST}: divide it in tools/website"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site"))
