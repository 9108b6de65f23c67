"""Watch the parent process by a pipe whose other end the parent holds.

This module imports the standard library alone, because it runs inside Lambdas too.
"""

import os
import signal
import subprocess
import sys
import threading


def watch_parent(pipe: int) -> None:
    """Kill this process and its group when the other end of ``pipe`` is closed, for whatever reason."""
    threading.Thread(target=_watch, args=(pipe,), daemon=True).start()


def guard() -> None:
    """Run a command that does not watch its parent, in this process's group: argv is the pipe, then the command."""
    watch_parent(int(sys.argv[1]))
    sys.exit(subprocess.call(sys.argv[2:]))


def _watch(pipe: int) -> None:
    while os.read(pipe, 1):
        pass
    os.killpg(0, signal.SIGKILL)
