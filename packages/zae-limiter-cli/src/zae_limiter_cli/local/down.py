"""What lives here: ending a local stack from another process.
What never does: what has to be ended: the stack does that itself, and where it is killed, the system.
"""

import os
import signal
import time
from contextlib import suppress
from typing import Final, Literal

from ..errors import CommandError
from .home import Home

PATIENCE_SECONDS: Final = 10.0

Ending = Literal["is down", "was killed", "had crashed: nothing of it is left"]


def end(home: Home) -> Ending:
    """How it ended. Raises ``CommandError`` where nothing runs."""
    if home.crashed():
        home.forget()
        return "had crashed: nothing of it is left"
    if not home.is_held():
        raise CommandError(f"{home.name} does not run: `zae-limiter local up --name {home.name}` starts it")
    pid = home.holder()
    if _send(home, pid, signal.SIGTERM):
        return "is down"
    if _send(home, pid, signal.SIGKILL):
        home.forget()
        return "was killed"
    raise CommandError(f"{home.name} does not end: its process is {pid}")


def _send(home: Home, pid: int, number: signal.Signals) -> bool:
    """Whether the stack is gone some time after a signal."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while home.is_held():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
