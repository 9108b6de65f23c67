"""One life: a run of one or more processes from their start to their end, under a supervisor.

Lives here: the start of a process, the wait for its end, the report of where it hangs. Never: the check of a ledger
(verify).
"""

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from .place import Place
from .proxy_control import HOME, ProxyControl

START_SECONDS = 60.0
AWS_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


END_SECONDS = 60.0  # after which a process that has not ended counts as hung; a busy machine may need most of them


@dataclass
class Life:
    """A life, as its supervisor sees it: ``network`` lies between its processes and the store."""

    kind: str
    place: Place
    proxy: ProxyControl
    network: str
    scratch: Path
    stop_seconds: float = 2.0
    gives_back: bool = False  # whether all that is cut off has to come back
    noise: re.Pattern[str] = re.compile(r"(?!)")  # lines that it may print to standard error
    violations: list[str] = field(default_factory=list)
    hung: bool = False
    ended_in: float = 0.0

    @property
    def mode(self) -> str:
        """Its mode, of those of its kind."""
        return self.place.mode

    def pause(self, least: float = 0.02, most: float = 0.4) -> None:
        """Let some time pass; the same for the same life."""
        time.sleep(self.place.chance("pause").uniform(least, most))

    def apply_network(self) -> None:
        """Replace the network that was healthy at first by the network of this life."""
        self.proxy.use(self.network)

    @contextmanager
    def process(self, number: int = 0) -> Iterator["Process"]:
        """A process of this life that has begun; in the end it is gone."""
        self.proxy.use("slow" if self.network == "slow" else "healthy")  # over a faulty one, opening may fail
        process = Process(self, number)
        try:
            process.wait_until_ready()
            if self.network == "faulty":
                self.apply_network()
            yield process
        finally:
            process.end()

    def violation(self, what: str) -> None:
        """Note something that must not be."""
        self.violations.append(what)


class Process:
    """A process of a life, with a process group of its own."""

    def __init__(self, life: Life, number: int) -> None:
        self._life = life
        self.errors = life.scratch / f"errors-{number}.txt"
        command = [sys.executable, "-m", "lifecycle.program", life.kind, life.place.written()]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        with self.errors.open("wb") as errors:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=HOME,
                env={**kept, **AWS_ENVIRONMENT},
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        """Wait for its ``ready``."""
        assert self._popen.stdout
        if not select.select([self._popen.stdout], [], [], START_SECONDS)[0]:
            self._life.violation("a process did not begin")
            self._dump()
        self._popen.stdout.readline()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        with suppress(ProcessLookupError):
            self._popen.send_signal(number)

    def wait(self, seconds: float | None = None) -> None:
        """Wait for its end; a process that hangs prints where, and is killed."""
        begun = time.monotonic()
        seconds = seconds or END_SECONDS
        try:
            code = self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self._life.hung = True
            self._life.violation(f"hung: a process did not end within {seconds:.0f} s")
            self._dump()
            return
        self._life.ended_in = max(self._life.ended_in, time.monotonic() - begun)
        if code:
            self._life.violation(f"a process ended with {code}")

    def kill(self) -> None:
        """Kill it, with all that it has forked."""
        with suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()

    def end(self) -> None:
        """Kill it; unexpected output on standard error is a violation."""
        self.kill()
        assert self._popen.stdout
        self._popen.stdout.close()
        if said := self._life.noise.sub("", self.errors.read_text(errors="replace")).strip():
            self._life.violation(f"on standard error: {said[:10000]}")

    def _dump(self) -> None:
        for number in (signal.SIGUSR2, signal.SIGUSR1):
            with suppress(ProcessLookupError):
                os.killpg(self._popen.pid, number)
            time.sleep(0.5)
        self.kill()
