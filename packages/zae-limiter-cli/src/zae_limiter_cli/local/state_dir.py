"""The state of a local stack between commands: a directory of the user, locked while the stack runs."""

import fcntl
import json
import os
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ..errors import CommandError
from .credentials import Credentials, write_private

STATUS_PATH: Final = "/_zae-limiter/status"  # where a stack that runs tells how it is

_LOCK_TRIES: Final = 20  # another command may hold it for a moment, to see whether anything runs
_LOCK_PAUSE: Final = 0.02


@dataclass(frozen=True, slots=True)
class Running:
    """A local stack that is up; ``ready_seconds`` is how long that took."""

    name: str
    pid: int
    endpoint_url: str
    region: str
    plane: str
    ready_seconds: float
    credentials: Credentials


class StateDir:
    """The directory of one local stack. Raises ``CommandError`` where it cannot be written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.directory = state_directory() / name
        self.logs = self.directory / "logs"
        self.code = self.directory / "code"
        self._state = self.directory / "running.json"
        self._lock = self.directory / "lock"

    def take(self) -> None:
        """Run here, alone, until this process is gone. Raises ``CommandError`` where another one does."""
        # A descriptor that nobody closes: the lock then tells of the process, not of how far it got on its way down.
        lock = self._open_lock()
        if not _locked(lock, fcntl.LOCK_EX):
            running = self._read()
            told = f"at {running.endpoint_url}" if running else "and is on its way up or down"
            os.close(lock)
            raise CommandError(
                f"{self.name} runs already, {told}: `zae-limiter local down --name {self.name}` stops it"
            )
        _sign(lock)
        self.forget()
        for directory in (self.logs, self.code):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(exist_ok=True)

    def write(self, running: Running) -> None:
        """Tell other commands of this user."""
        write_private(self._state, json.dumps(asdict(running)))

    def running(self) -> Running | None:
        """What runs here and is ready; what a crash has left is not taken for it."""
        return self._read() if self.is_held() else None

    def is_held(self) -> bool:
        """Whether anything runs here, ready or not."""
        if not self._lock.exists():
            return False
        lock = self._open_lock()
        try:
            return not _locked(lock, fcntl.LOCK_SH, tries=1)
        finally:
            os.close(lock)

    def holder(self) -> int:
        """The process that runs here, while it does. Raises ``CommandError`` where it does not tell."""
        for _ in range(_LOCK_TRIES):
            pid, end, _ = self._lock.read_text(encoding="ascii").partition("\n")
            if end:
                return int(pid)
            time.sleep(_LOCK_PAUSE)
        raise CommandError(f"{self.name} is still starting: try again")

    def crashed(self) -> bool:
        """Whether what ran here last was killed."""
        return not self.is_held() and self._state.exists()

    def _read(self) -> Running | None:
        try:
            told = json.loads(self._state.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return Running(**{**told, "credentials": Credentials(**told["credentials"])})

    def forget(self) -> None:
        """Nothing is known of what ran here."""
        self._state.unlink(missing_ok=True)

    def make(self) -> None:
        """Have the directory."""
        os.close(self._open_lock())

    def _open_lock(self) -> int:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            for directory in (self.directory.parent, self.directory):
                directory.chmod(0o700)  # also of one that was there before
            return os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CommandError(
                f"{error.filename}: {error.strerror}; set XDG_STATE_HOME to a writable directory"
            ) from error


def state_directory() -> Path:
    """Where the user's programs keep their state."""
    base = os.environ.get("XDG_STATE_HOME")
    if base:
        return Path(base) / "zae-limiter" / "local"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "zae-limiter" / "local"
    return Path.home() / ".local" / "state" / "zae-limiter" / "local"


def state_dirs() -> list[StateDir]:
    """One for each local stack that ever was."""
    directory = state_directory()
    return [StateDir(place.name) for place in sorted(directory.iterdir())] if directory.is_dir() else []


def the_one(name: str | None) -> StateDir:
    """The stack of that name; without a name the one that runs. Raises ``CommandError`` where that is not clear."""
    if name is not None:
        return StateDir(name)
    up = [state_dir for state_dir in state_dirs() if state_dir.is_held()]
    if len(up) > 1:
        raise CommandError(
            f"several local stacks run: {', '.join(state_dir.name for state_dir in up)}; choose one with --name"
        )
    if not up:
        raise CommandError("no local stack runs: `zae-limiter local up --name my-app` starts one")
    return up[0]


def running_stack(name: str | None) -> Running:
    """What runs of that stack, without a name of the one that runs. Raises ``CommandError`` where none is up."""
    state_dir = the_one(name)
    running = state_dir.running()
    if running is None:
        raise CommandError(f"{state_dir.name} is not up: `zae-limiter local up --name {state_dir.name}` brings it up")
    return running


def _sign(lock: int) -> None:
    """Say in a lock that this process holds it; a reader never sees half of that, nor what stood there after it."""
    signed = f"{os.getpid()}\n".encode()
    os.pwrite(lock, signed, 0)
    os.ftruncate(lock, len(signed))


def _locked(lock: int, kind: int, tries: int = _LOCK_TRIES) -> bool:
    for _ in range(tries):
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_PAUSE)
        else:
            return True
    return False
