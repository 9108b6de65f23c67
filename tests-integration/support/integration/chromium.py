"""What lives here: a headless Chromium that a test drives through DevTools, over a pipe.
What never does: what a page has to be, or a claim.

https://chromedevtools.github.io/devtools-protocol/
"""

import base64
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from .browser import FLAGS, chromium
from .fetch import npm_package

ANSWER_SECONDS = 120  # on a busy machine
END = b"\0"  # of a message
LATER = 250  # a descriptor that no pipe has: 3 may be the one that 4 has to be


@dataclass
class Page:
    """One tab: it goes somewhere, presses keys, and says what is there."""

    writes_to: int
    reads_from: int
    session: str = ""
    last: int = 0
    rest: bytes = b""
    events: list[dict[str, Any]] = field(default_factory=list)

    def send(self, method: str, **values: Any) -> dict[str, Any]:
        """The answer to a command; `RuntimeError` if it fails."""
        self.last += 1
        session = {"sessionId": self.session} if self.session else {}
        asked = {"id": self.last, "method": method, "params": values, **session}
        os.write(self.writes_to, json.dumps(asked).encode() + END)
        while (told := self._next()).get("id") != self.last:
            self.events.append(told)
        if "error" in told:
            raise RuntimeError(f"{method}: {told['error']}")
        return dict(told["result"])

    def go(self, url: str) -> None:
        """Open an address, and wait until it is loaded."""
        self._loaded(lambda: self.send("Page.navigate", url=url))

    def press(self, key: str, *, loads: bool = False) -> None:
        """Press a key; with ``loads``, wait for the page that it opens."""
        code = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39, "Escape": 27}[key]
        text = {"text": "\r"} if key == "Enter" else {}

        def press() -> None:
            for kind in ("keyDown", "keyUp"):
                more = text if kind == "keyDown" else {}
                self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **more)

        self._loaded(press) if loads else press()

    def says(self, script: str) -> Any:
        """The value of an expression of JavaScript."""
        told = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise RuntimeError(f"{script}: {told['exceptionDetails']}")
        return told["result"].get("value")

    def look(self, *, width: int, scheme: Literal["light", "dark"]) -> None:
        """Show the page in a window this wide, in a colour scheme."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def accessible(self) -> list[tuple[str, str]]:
        """The role and the name of everything that assistive technology sees."""
        nodes = self.send("Accessibility.getFullAXTree")["nodes"]
        seen = [each for each in nodes if not each.get("ignored")]
        return [(each["role"]["value"], str(each.get("name", {}).get("value", ""))) for each in seen]

    def violations(self) -> list[str]:
        """What axe finds wrong with the page, as it is shown now: the rule, and the elements."""
        axe = npm_package("axe-core", "4.14.1") / "axe.min.js"
        self.says(f"{axe.read_text('utf-8')};0")
        rules = "r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.target.join(' ')).join(', '))"
        return list(self.says(f"axe.run({{resultTypes: ['violations']}}).then(r => {rules})"))

    def picture(self, path: Path) -> None:
        """Write a picture of the whole page."""
        told = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(told["data"]))

    def _loaded(self, act: Any) -> None:
        self.events.clear()
        act()
        while not any(each.get("method") == "Page.loadEventFired" for each in self.events):
            self.events.append(self._next())

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + ANSWER_SECONDS
        while END not in self.rest:
            if not select.select([self.reads_from], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"Chromium said nothing for {ANSWER_SECONDS} s")
            read = os.read(self.reads_from, 1 << 16)
            if not read:
                raise EOFError("Chromium ended")
            self.rest += read
        message, _, self.rest = self.rest.partition(END)
        return dict(json.loads(message))


@contextmanager
def browsing(profile: Path) -> Iterator[Page]:
    """A tab of a browser that has never been anywhere."""
    theirs, ours = os.pipe()
    read, write = os.pipe()
    words = [chromium(), *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]
    command = ["bash", "-c", f'exec "$0" "$@" {LATER}<&{write} 3<&{theirs} 4>&{LATER}', *words]  # sh: one digit alone
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(theirs, write)
    ) as it:
        os.close(theirs)
        os.close(write)
        try:
            page = Page(ours, read)
            target = page.send("Target.createTarget", url="about:blank")["targetId"]
            page.session = page.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Accessibility"):
                page.send(f"{domain}.enable")
            yield page
        finally:
            os.close(ours)
            os.close(read)
            it.terminate()
            try:
                it.wait(ANSWER_SECONDS)
            except subprocess.TimeoutExpired:
                it.kill()
