"""`top` and the console over 50,000 entities while 200 calls a second are refused: their frames, and their reads.

Lives here: `top` in a terminal of its own, whose keys are pressed, the console's pages, one after the other. Never:
what is stored (screens_store).

The store is a file that answers each request after 4 ms, as a table would: the requests are the same. A frame of `top`
is the time from new rows, or a key, to the painted screen. Each screen has an interpreter of its own:
``python -m benchmarks.screens top|console --place PLACE --result FILE``.
"""

import argparse
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from .measure import percentile
from .report import Row
from .screens_store import ENTITIES, RESOURCE, Counting, call_in_another_process, fill

SECONDS = 60.0
EVERY = 2.0  # seconds between two looks, as the commands have it
MOST = 50  # rows, as the commands have it
COLUMNS, LINES = 120, 40
FRAME_MS, READS, ROUND_SECONDS = 100.0, 5.0, 10.0
FRAMES = {
    "the rows again, a table": "/rows?shape=list",
    "the rows again, a tree": "/rows",
    "changes": "/changes",
}
PAGES = {
    **FRAMES,
    "the start page, with budgets": "/",
    "its pictures again": "/figures",
    "why, with charts": f"/bucket?entity=key-00001&resource={RESOURCE}",
    "usage": "/usage",
}


def measure() -> list[Row]:
    """The figures of both screens."""
    with TemporaryDirectory() as folder:
        place = str(Path(folder, "limits.db"))
        fill(place)
        with call_in_another_process(place):
            top = _shown("top", place, Path(folder, "top.json"))
            console = _shown("console", place, Path(folder, "console.json"))
    return [*_of_top(top), *_of_console(console)]


def _shown(screen: str, place: str, result: Path) -> Any:
    """What a screen's process measured, in a terminal that is read all the time."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    command = [sys.executable, "-m", "benchmarks.screens", screen, "--place", place, "--result", str(result)]
    environment = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    Thread(target=_drain, args=(ours,), daemon=True).start()
    while process.poll() is None:
        time.sleep(1.0)
        if screen == "top":
            os.write(ours, b"s")  # the next order: every row is another
    os.close(ours)
    if process.returncode:
        raise RuntimeError(f"{screen} ended with {process.returncode}")
    return json.loads(result.read_text())


def _drain(terminal: int) -> None:
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:  # closed
        return


def _of_top(found: Mapping[str, Any]) -> list[Row]:
    passed, cpu = zip(*found["frames_ms"], strict=True)
    return [
        Row(f"`top`: a frame, median of {len(passed)}", median(passed), "ms", at_most=FRAME_MS),
        Row("`top`: CPU of its thread for a frame, median", median(cpu), "ms", at_most=FRAME_MS),
        Row("`top`: CPU of its thread for a frame, p95", percentile(cpu, 95), "ms", at_most=FRAME_MS),
        Row(f"`top`: a round of the usage of {ENTITIES:,} entities", found["round"], "s", at_most=ROUND_SECONDS),
        Row("`top`: reads a second after the round, in the worst 10 s", found["reads"], at_most=READS),
    ]


def _of_console(found: Mapping[str, Any]) -> list[Row]:
    rows = [
        Row(f"console: {page}, median", median(times), "ms", at_most=FRAME_MS if page in FRAMES else None)
        for page, times in found["pages_ms"].items()
    ]
    reads = Row("console: reads a second after the round, in the worst 10 s", found["reads"], at_most=READS)
    return [*rows, reads]


@contextmanager
def _reader(place: str) -> Iterator[tuple[Any, Any, Counting]]:
    """A repository, the reader of the screens, and the store that counts from the end of the first round on."""
    from zae_limiter import Options, SyncRepository
    from zae_limiter_cli.live.reading import Reader

    store = Counting(place)
    with SyncRepository.over(store, Options()) as repository:
        begun = time.monotonic()

        class Timed(Reader):
            """Notes how long the first round takes."""

            round_seconds = 0.0

            def read(self) -> Any:
                reading = super().read()
                if self.complete and not self.round_seconds:
                    self.round_seconds = time.monotonic() - begun
                    store.begin()
                return reading

        yield repository, Timed(repository, None, MOST, EVERY), store


class _Well:
    """The health of a stack that there is none of."""

    def line(self) -> str:
        return "nothing is looked at"


def _top(place: str) -> dict[str, Any]:
    from zae_limiter_cli.live.screen import Look, TopScreen

    frames: list[tuple[float, float]] = []

    class Timed(TopScreen):
        def on_mount(self) -> None:
            super().on_mount()
            self.set_timer(SECONDS, self.exit)

        def _show(self) -> None:
            begun, cpu = time.perf_counter(), time.thread_time()
            super()._show()
            self.call_after_refresh(lambda: self._painted(begun, cpu))

        def _painted(self, begun: float, cpu: float) -> None:
            if self._shown:
                frames.append((1000 * (time.perf_counter() - begun), 1000 * (time.thread_time() - cpu)))

    with _reader(place) as (_, reader, store):
        health: Any = _Well()
        Timed(reader, health, Look(order="refused"), title="default", every=EVERY, options=[]).run()
        if not reader.complete:
            raise RuntimeError(f"the usage of {reader.known} entities was read in {SECONDS:.0f} s")
        return {"frames_ms": frames, "reads": store.worst(), "round": reader.round_seconds}


def _console(place: str) -> dict[str, Any]:
    from starlette.testclient import TestClient

    from zae_limiter_cli.console.access import Access
    from zae_limiter_cli.console.app import Console, application
    from zae_limiter_cli.console.pages import Pages

    times: dict[str, list[float]] = {page: [] for page in PAGES}
    applies: Any = _NoApplies()
    health: Any = _Well()
    with _reader(place) as (repository, reader, store):
        pages = Pages(repository, reader, health, every=EVERY, options=[])
        console = Console(pages, applies, Access(), "default", allow_changes=False, every=EVERY)
        client = TestClient(application(console, ["testserver"]))
        sent = {"token": console.access.token}
        client.base_url = client.post("/enter", params=sent, headers={"origin": "http://testserver"}).url
        while not reader.complete:  # on a busy machine a round takes longer; its reads are not those of the pages
            client.get("/rows")
            time.sleep(EVERY)
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            for page, address in PAGES.items():
                begun = time.perf_counter()
                if client.get(address).status_code != 200:
                    raise RuntimeError(f"{address} is not a page")
                times[page].append(1000 * (time.perf_counter() - begun))
                time.sleep(EVERY)
        return {"pages_ms": times, "reads": store.worst()}


class _NoApplies:
    """The applies of a namespace without a manifest."""

    def list_last(self) -> tuple[()]:
        return ()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("screen", choices=["top", "console"])
    parser.add_argument("--place", required=True)
    parser.add_argument("--result", required=True, type=Path)
    given = parser.parse_args()
    given.result.write_text(json.dumps({"top": _top, "console": _console}[given.screen](given.place)))
