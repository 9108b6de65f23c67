"""What lives here: a headless Chromium, and a site of somebody else whose page reports what its script got.
What never does: what a page tries, or a claim.
"""

import json
import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .fetch import Unavailable

EVIL = "evil.example"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
REPORT_SECONDS = 120


def chromium() -> str:
    """The program; `Unavailable` where there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        raise Unavailable("there is no Chromium: `apt-get install chromium` has it on Debian")
    return found


@dataclass
class Site:
    """A site of somebody else on this machine: its page, and what the page's script reports.

    If ``rebound`` is an address, whatever is not the page is passed on to it as it came, name and all: that is what a
    browser does once the name of the site leads elsewhere.
    """

    page: str
    rebound: str | None = None
    port: int = 0
    report: dict[str, Any] = field(default_factory=dict)
    reported: threading.Event = field(default_factory=threading.Event)


class Handler(BaseHTTPRequestHandler):
    """The site's answers."""

    site: Site

    def do_GET(self) -> None:
        if self.path == "/page":
            self._answer(200, self.site.page.encode())
        else:
            self._pass_on()

    def do_POST(self) -> None:
        if self.path == "/report":
            self.site.report = json.loads(self._body())
            self.site.reported.set()
            self._answer(200, b"")
        else:
            self._pass_on()

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _pass_on(self) -> None:
        if self.site.rebound is None:
            return self._answer(404, b"")
        url, body = self.site.rebound + self.path, self._body() or None
        asked = urllib.request.Request(url, body, dict(self.headers), method=self.command)
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                return self._answer(answer.status, answer.read())
        except urllib.error.HTTPError as refusal:
            return self._answer(refusal.code, refusal.read())

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    """The site, up."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("OfSite", (Handler,), {"site": site}))
    site.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def visit(site: Site, profile: Path) -> dict[str, Any]:
    """What the script of the site's page reports to it, in a browser that has never been anywhere."""
    rules = f"--host-resolver-rules=MAP {EVIL} 127.0.0.1"
    words = [chromium(), *FLAGS, f"--user-data-dir={profile}", rules, "--remote-debugging-port=0"]
    with subprocess.Popen(
        [*words, f"http://{EVIL}:{site.port}/page"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as browser:
        try:
            if not site.reported.wait(REPORT_SECONDS):
                raise TimeoutError(f"the page reported nothing within {REPORT_SECONDS} s")
        finally:
            browser.terminate()
            browser.communicate()
    return site.report
