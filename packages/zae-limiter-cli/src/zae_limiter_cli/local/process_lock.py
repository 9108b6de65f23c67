"""Lock a file so that the system itself says who holds the lock; nothing that is written in a file is believed.

POSIX's record lock tells the holder's process id; ``flock`` does not. It belongs to the process: it ends with the
process, and as soon as the process closes the file, through whichever descriptor.
"""

import fcntl
import os
import struct
import sys
from pathlib import Path

# `struct flock`, with the type and the process among its fields.
_FORM, _TYPE, _PROCESS = ("qqihh", 3, 2) if sys.platform == "darwin" else ("hhqqi4x", 0, 4)


def take(path: Path) -> bool:
    """Lock a file until this process ends; return whether it was free. The process must not open the file
    again.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # POSIX lets systems choose
        os.close(descriptor)
        return False
    return True


def holder(path: Path) -> int | None:
    """Return the id of the other process that holds a file's lock; 0 where it is in another container."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        found = struct.unpack(_FORM, fcntl.fcntl(descriptor, fcntl.F_GETLK, _question()))
    finally:
        os.close(descriptor)
    return None if found[_TYPE] == fcntl.F_UNLCK else max(0, int(found[_PROCESS]))


def _question() -> bytes:
    """Return the description of a lock on a whole file."""
    fields = [0] * len(struct.unpack(_FORM, bytes(struct.calcsize(_FORM))))
    fields[_TYPE] = fcntl.F_WRLCK
    return struct.pack(_FORM, *fields)
