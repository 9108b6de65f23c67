"""One life: its processes, what is done to them, and what is found wrong.

Lives here: how a process is started, waited for, and made to tell where it hangs. Never: what counts as wrong in a
ledger (judge).
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
from .sky import HOME, Sky

START_SECONDS = 30.0
AWS_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


@dataclass
class Life:
    """What a kind of life attends to: ``weather`` is what comes over it, ``way`` how it is lived."""

    kind: str
    place: Place
    sky: Sky
    weather: str
    scratch: Path
    stop_seconds: float = 2.0
    gives_back: bool = False  # whether all that is cut off has to come back
    noise: re.Pattern[str] = re.compile(r"(?!)")  # what it may say on standard error
    wrongs: list[str] = field(default_factory=list)
    hung: bool = False
    ended_in: float = 0.0

    @property
    def way(self) -> str:
        """Which of the ways of its kind it is."""
        return self.place.way

    @property
    def patience(self) -> float:
        """How long a process may take to end: the budget of a call and the deadline of a write, on a busy machine."""
        return 10.0 if self.weather in {"fair", "slow"} else 15.0

    def pause(self, least: float = 0.02, most: float = 0.4) -> None:
        """Let some time pass; the same for the same life."""
        time.sleep(self.place.chance("pause").uniform(least, most))

    def break_weather(self) -> None:
        """What was fair becomes what the life has to bear."""
        self.sky.turn(self.weather)

    @contextmanager
    def process(self, number: int = 0) -> Iterator["Process"]:
        """A process of this life that has begun; in the end it is gone."""
        self.sky.turn("slow" if self.weather == "slow" else "fair")  # what opens in foul weather may be told so
        process = Process(self, number)
        try:
            process.wait_until_ready()
            if self.weather == "foul":
                self.break_weather()
            yield process
        finally:
            process.end()

    def wrong(self, what: str) -> None:
        """Something was found that must not be."""
        self.wrongs.append(what)


class Process:
    """A process, with a group of its own."""

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
            self._life.wrong("a process did not begin")
            self._dump()
        self._popen.stdout.readline()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        with suppress(ProcessLookupError):
            self._popen.send_signal(number)

    def wait(self, seconds: float | None = None) -> None:
        """Wait for its end; one that hangs says where, and is killed."""
        begun = time.monotonic()
        seconds = seconds or self._life.patience
        try:
            code = self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self._life.hung = True
            self._life.wrong(f"hung: a process did not end within {seconds:.0f} s")
            self._dump()
            return
        self._life.ended_in = max(self._life.ended_in, time.monotonic() - begun)
        if code:
            self._life.wrong(f"a process ended with {code}")

    def kill(self) -> None:
        """Kill it, with all that it has forked."""
        with suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()

    def end(self) -> None:
        """It is gone; what it said on standard error is wrong."""
        self.kill()
        assert self._popen.stdout
        self._popen.stdout.close()
        if said := self._life.noise.sub("", self.errors.read_text(errors="replace")).strip():
            self._life.wrong(f"on standard error: {said[:10000]}")

    def _dump(self) -> None:
        for number in (signal.SIGUSR2, signal.SIGUSR1):
            with suppress(ProcessLookupError):
                os.killpg(self._popen.pid, number)
            time.sleep(0.5)
        self.kill()
