"""Find the user at the other end of a connection of this machine, as Linux tells:
https://docs.kernel.org/networking/proc_net_tcp.html.
"""

import socket
import struct
from pathlib import Path

CONNECTIONS = Path("/proc/net/tcp")

_READINGS = 3  # a row may be missed while others come and go
_LOCAL, _REMOTE, _USER, _INODE = 1, 2, 7, 9


def user_of(connection: socket.socket) -> int | None:
    """Return the user whose process has the other end; ``None`` if none has, or the system does not tell."""
    try:
        ends = _written(*connection.getpeername()), _written(*connection.getsockname())
        for _ in range(_READINGS):
            for row in map(str.split, CONNECTIONS.read_text(encoding="ascii").splitlines()):
                # Without an inode no process has it any more, and the user is no longer there.
                if (row[_LOCAL], row[_REMOTE]) == ends and row[_INODE] != "0":
                    return int(row[_USER])
    except OSError:
        return None
    return None


def _written(host: str, port: int) -> str:
    """Return an address as the table has it: in the machine's own order of bytes."""
    (number,) = struct.unpack("=I", socket.inet_aton(host))
    return f"{number:08X}:{port:04X}"
