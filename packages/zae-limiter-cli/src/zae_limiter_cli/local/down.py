"""Stop a local stack from another process."""

import os
import signal
import time
from contextlib import suppress
from typing import Final, Literal

from ..errors import CommandError
from .state_dir import StateDir

TIMEOUT_SECONDS: Final = 30.0

Ending = Literal["is down", "was killed", "had crashed: nothing of it is left"]


def end(state_dir: StateDir) -> Ending:
    """Stop the stack, and return how it ended. Raises ``CommandError`` if nothing runs."""
    if state_dir.crashed():
        state_dir.forget()
        return "had crashed: nothing of it is left"
    pid = state_dir.holder()
    if pid is None:
        raise CommandError(f"{state_dir.name} does not run: `zae-limiter local up --name {state_dir.name}` starts it")
    if pid == 0:
        raise CommandError(f"{state_dir.name} runs in another container: end it there")
    if _send(state_dir, pid, signal.SIGTERM):
        return "is down"
    if _send(state_dir, pid, signal.SIGKILL):
        state_dir.forget()
        return "was killed"
    raise CommandError(f"{state_dir.name} does not stop: its process is {pid}")


def _send(state_dir: StateDir, pid: int, number: signal.Signals) -> bool:
    """Send a signal, and return whether the stack is gone some time later."""
    with suppress(ProcessLookupError):
        if state_dir.holder() == pid:  # or its id may be anybody's by now
            os.kill(pid, number)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while state_dir.is_held():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
