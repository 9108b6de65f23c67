"""Give a process a network of its own, whose ports no other user of this machine can reach: a network namespace of
Linux.

Some engines listen on every address, and none of them knows one user from another. In a network of its own, only the
engine has what it opens; the parent process gets connections as descriptors, over a socket that only it holds.

This module imports the standard library alone, because it runs in a bare interpreter.
"""

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

from .parent_watch import watch_parent

CONNECTED, REFUSED = b"+", b"-"

# Of Linux's <sched.h>, <bits/ioctls.h> and <net/if.h>.
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1
_REQUEST: Final = "16sH22x"  # `struct ifreq`


def guard() -> None:
    """Run a command in a network of its own: argv is the parent's pipe, its socket, a port, then the command."""
    pipe, line, port, *command = sys.argv[1:]
    enter()
    watch_parent(int(pipe))
    threading.Thread(target=_connect, args=(socket.socket(fileno=int(line)), int(port)), daemon=True).start()
    sys.exit(subprocess.call(command))


def enter() -> None:
    """Move this process to a network where it is alone. Raises ``OSError`` where the system does not let it."""
    user, group = os.geteuid(), os.getegid()
    if not _unshare(_NEW_NETWORK):
        if not _unshare(_NEW_USER | _NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "no network of its own")
        own = Path("/proc/self")
        (own / "setgroups").write_text("deny", encoding="ascii")
        (own / "uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        (own / "gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    _bring_up_loopback()


def _unshare(flags: int) -> bool:
    return bool(ctypes.CDLL(None, use_errno=True).unshare(flags) == 0)


def _bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        name, flags = struct.unpack(_REQUEST, fcntl.ioctl(any_socket, _GET_FLAGS, struct.pack(_REQUEST, b"lo", 0)))
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack(_REQUEST, name, flags | _UP))


def _connect(line: socket.socket, port: int) -> None:
    """Pass a connection to a port to the parent, for each byte that the parent sends."""
    while line.recv(1):
        try:
            with socket.create_connection(("127.0.0.1", port)) as made:
                socket.send_fds(line, [CONNECTED], [made.fileno()])
        except OSError:
            line.send(REFUSED)
