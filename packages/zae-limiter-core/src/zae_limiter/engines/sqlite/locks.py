"""Whether a file system keeps locks between processes: a child takes one, and this process is refused it.

SQLite's locks are of a process, so two of them are needed. It costs 20 ms, so it is for file systems that are not known
to be good. A child that cannot be started, or says nothing, proves nothing: programs that are frozen or embed Python
have no interpreter to start.
"""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from .faults import is_of_system

_SECONDS: Final = 5
_CHILD: Final = f"""
import fcntl, signal, sys
signal.alarm({_SECONDS})
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""


def loses_locks(folder: Path) -> bool:
    """Return whether a lock of another process on a file in this folder is certainly not seen. Raises ``OSError``."""
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    if getattr(sys, "frozen", False) or not Path(sys.executable or "").name.startswith(("python", "pypy")):
        return False
    with NamedTemporaryFile(dir=folder, prefix=".zae-limiter-locks-") as file:
        command = [sys.executable, "-I", "-S", "-c", _CHILD, file.name]
        try:
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        except OSError as error:
            if is_of_system(error):
                return False
            raise
        with child:
            assert child.stdout is not None
            if child.stdout.readline() != b"held\n":
                return False
            with suppress(BlockingIOError, PermissionError):  # as POSIX lets it be refused
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            return False
