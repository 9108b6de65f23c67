"""Run a data plane: its process, the wait until it answers, and its application."""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from ..errors import CommandError
from .children import Child
from .engine_process import Connect, running
from .engines import Engine
from .http_data_plane import HttpDataPlane
from .wsgi import Application

START_SECONDS: Final = 30.0


class DataPlane:
    """A running engine, from now on until ``close``; requests to it have the access key ``key``."""

    def __init__(self, engine: Engine, log: Path, key: str) -> None:
        self._engine = engine
        self._key = key
        self._log = log
        self._parts = ExitStack()
        self._process: tuple[Child, Connect] | None = None
        if engine.command is not None:
            with log.open("wb") as output:
                self._process = self._parts.enter_context(running(engine.command, output=output.fileno()))

    def application(self, moto: Application) -> Application:
        """Return the application that reaches its items, once it answers. Raises ``CommandError`` if it does not."""
        if self._process is None:
            from .moto_data_plane import MotoDataPlane

            return MotoDataPlane(moto)
        child, connect = self._process
        self._wait(child, connect)
        if self._engine.prepare is not None:
            self._engine.prepare()
        way = HttpDataPlane(self._engine.name, connect, self._key)
        self._parts.callback(way.close)
        return way

    def close(self) -> None:
        """End its process."""
        self._parts.close()

    def _wait(self, child: Child, connect: Connect) -> None:
        deadline, asked = time.monotonic() + START_SECONDS, f"--data-plane {self._engine.name}"
        while not _answers(connect):
            if child.process.poll() is not None:
                raise CommandError(f"{asked}: it ended with code {child.process.returncode}: {self._last_words()}")
            if time.monotonic() > deadline:
                raise CommandError(f"{asked}: it does not answer after {START_SECONDS:.0f} s; its log is {self._log}")
            time.sleep(0.02)

    def _last_words(self) -> str:
        said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return said[-1] if said else "no reason given"


def _answers(connect: Connect) -> bool:
    try:
        connect().close()
    except OSError:
        return False
    return True
