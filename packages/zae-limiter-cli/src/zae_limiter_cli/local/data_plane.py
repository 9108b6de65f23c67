"""A running data plane: its process, the wait until it answers, and its application."""

import socket
import time
from pathlib import Path
from typing import Final

from ..errors import CommandError
from .children import Child, start_command
from .engines import Engine
from .http_data_plane import HttpDataPlane
from .loopback import free_port, hidden_host
from .wsgi import Application

START_SECONDS: Final = 30.0


class DataPlane:
    """An engine at work, from now on until ``close``; it is asked with the access key ``key``."""

    def __init__(self, engine: Engine, log: Path, key: str) -> None:
        self._engine = engine
        self._key = key
        self._log = log
        self._host = hidden_host()
        self._port = free_port(self._host)
        self._child: Child | None = None
        self._way: HttpDataPlane | None = None
        if engine.command is not None:
            with log.open("wb") as output:
                self._child = start_command(engine.command(self._host, self._port), output=output.fileno())

    def application(self, moto: Application) -> Application:
        """The way to its items, once it answers. Raises ``CommandError`` where it does not."""
        if self._child is None:
            from .moto_data_plane import MotoDataPlane

            return MotoDataPlane(moto)
        self._wait(self._child)
        self._way = HttpDataPlane(self._engine.name, f"{self._host}:{self._port}", self._key)
        return self._way

    def close(self) -> None:
        """End its process."""
        if self._way is not None:
            self._way.close()
        if self._child is not None:
            self._child.end()

    def _wait(self, child: Child) -> None:
        deadline, asked = time.monotonic() + START_SECONDS, f"--data-plane {self._engine.name}"
        while not _answers(self._host, self._port):
            if child.process.poll() is not None:
                raise CommandError(f"{asked}: it ended with code {child.process.returncode}: {self._last_words()}")
            if time.monotonic() > deadline:
                raise CommandError(f"{asked}: it does not answer after {START_SECONDS:.0f} s; its log is {self._log}")
            time.sleep(0.02)

    def _last_words(self) -> str:
        said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return said[-1] if said else "no reason given"


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True
