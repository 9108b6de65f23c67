"""The state of a local stack between commands: a directory of the user, locked while the stack runs."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ..errors import CommandError
from ..stack.options import check_stack_name, is_stack_name
from . import process_lock
from .credentials import Credentials, write_private
from .own_place import check_own

STATUS_PATH: Final = "/_zae-limiter/status"  # where a stack that runs reports its state
THROTTLE_PATH: Final = "/_zae-limiter/throttle"  # where its writes are throttled for a while


@dataclass(frozen=True, slots=True)
class Running:
    """A local stack that is up; ``ready_seconds`` is how long its start took."""

    name: str
    pid: int
    endpoint_url: str
    region: str
    plane: str
    ready_seconds: float
    credentials: Credentials
    audit_retention_days: int | None = None


class StateDir:
    """The directory of one local stack.

    Raises ``CommandError`` for a name that no stack can have, if another user owns the directory, and if it cannot be
    written.
    """

    def __init__(self, name: str) -> None:
        self.name = check_stack_name(name)
        self.directory = state_directory() / name
        self.logs = self.directory / "logs"
        self.code = self.directory / "code"
        self.items = self.directory / "items"
        self._state = self.directory / "running.json"
        self._lock = self.directory / "lock"
        self._check()

    def take(self) -> None:
        """Lock the directory until this process is gone. Raises ``CommandError`` if another process has it."""
        self.make()
        with _readable(self._lock):
            taken = process_lock.take(self._lock)
        if not taken:
            running = self._read()
            told = f"at {running.endpoint_url}" if running else "and is on its way up or down"
            raise CommandError(
                f"{self.name} runs already, {told}: `zae-limiter local down --name {self.name}` stops it"
            )
        self.forget()
        for directory in (self.logs, self.code, self.items):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(exist_ok=True)

    def write(self, running: Running) -> None:
        """Store what runs, for other commands of this user."""
        write_private(self._state, json.dumps(asdict(running)))

    def running(self) -> Running | None:
        """Return what runs here and is ready; ignore what a crash has left."""
        return self._read() if self.is_held() else None

    def is_held(self) -> bool:
        """Return whether a stack runs here, ready or not."""
        return self.holder() is not None

    def holder(self) -> int | None:
        """Return the process that runs here, as the system knows it, if one does; 0 for one in another container."""
        with _readable(self._lock):
            return process_lock.holder(self._lock)

    def crashed(self) -> bool:
        """Return whether the stack that ran here last was killed."""
        return not self.is_held() and self._state.exists()

    def _read(self) -> Running | None:
        try:
            told = json.loads(self._state.read_text(encoding="utf-8"))
            return Running(**{**told, "credentials": Credentials(**told["credentials"])})
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            again = f"end the stack with `zae-limiter local down --name {self.name}` and start it again"
            raise CommandError(f"{self._state} is damaged: {again}") from error

    def forget(self) -> None:
        """Remove the record of what ran here, and the items that were not to be kept."""
        self._state.unlink(missing_ok=True)
        shutil.rmtree(self.items, ignore_errors=True)

    def make(self) -> None:
        """Create the directory, for this user alone."""
        with _readable(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            self._check()
            for directory in (self.directory.parent, self.directory):
                directory.chmod(0o700)  # also of one that was there before

    def _check(self) -> None:
        with _readable(self.directory):
            check_own(self.directory, _base())


def state_directory() -> Path:
    """Return the directory with the state of the user's local stacks."""
    return _base() / "zae-limiter" / "local"


def state_dirs() -> list[StateDir]:
    """Return the directory of each local stack that ever was."""
    directory = state_directory()
    names = sorted(place.name for place in directory.iterdir()) if directory.is_dir() else []
    return [StateDir(name) for name in names if is_stack_name(name)]


def _base() -> Path:
    """Return the directory where the user's programs keep their state."""
    given = os.environ.get("XDG_STATE_HOME")
    if given:
        return Path(given)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    return Path.home() / ".local" / "state"


def the_one(name: str | None) -> StateDir:
    """Return the stack of that name; without a name the one that runs. Raises ``CommandError`` if that is not clear."""
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
    """Return what runs of that stack; without a name, of the one that runs. Raises ``CommandError`` if none is up."""
    state_dir = the_one(name)
    running = state_dir.running()
    if running is None:
        raise CommandError(f"{state_dir.name} is not up: `zae-limiter local up --name {state_dir.name}` brings it up")
    return running


@contextmanager
def _readable(place: Path) -> Iterator[None]:
    """Raise ``CommandError`` if the system does not let the block use the directory."""
    try:
        yield
    except OSError as error:
        where = error.filename or place
        raise CommandError(f"{where}: {error.strerror}; set XDG_STATE_HOME to a writable directory") from error
