"""The place of a file: its URL, its folder, its file system. A way out is in each refusal."""

import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from ...exceptions import ValidationError
from ...operations.errors import NotApplied

SCHEME: Final = "sqlite:"
FORM: Final = "must be sqlite:///file.db for a path from here, or sqlite:////folder/file.db for one from the root"

# File systems of several hosts, and those that stand between two kernels: locks or shared memory fail on them silently.
NETWORKS: Final = frozenset(
    [
        "9p",
        "acfs",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "fuse.ceph",
        "fuse.gcsfuse",
        "fuse.glusterfs",
        "fuse.juicefs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "gfs2",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "smb2",
        "smb3",
        "smbfs",
        "vboxsf",
    ]
)


def path_of(url: object, *, field: str = "store") -> Path:
    """Return the path in a URL like ``sqlite:///limits.db``, as SQLAlchemy reads it. Raises ``ValidationError``."""
    if not isinstance(url, str) or not url.startswith(f"{SCHEME}///"):
        raise ValidationError(field, url, FORM)
    if "?" in url:
        raise ValidationError(field, url, f"takes no options after a question mark; {FORM}")
    return checked_path(unquote(url.removeprefix(f"{SCHEME}///")), field=field)


def url_of(path: object) -> str:
    """Return the URL of a path. Raises ``ValidationError``."""
    return f"{SCHEME}///{quote(os.fspath(checked_path(path)))}"


def checked_path(path: object, *, field: str = "path") -> Path:
    """Return a path that may be one of a file. Raises ``ValidationError``: no table is in SQLite's own memory."""
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise ValidationError(field, path, "must be the path of a file")
    text = os.fspath(path)
    if text in {"", ":memory:"} or "\0" in text or text.endswith("/"):
        raise ValidationError(field, path, "must be the path of a file; in_memory() keeps a table in this process")
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ValidationError(field, path, "must be the path of a file, in characters that UTF-8 has")
    return Path(text)


def make_file(path: Path, *, mount_type: Callable[[Path], str | None] | None = None) -> None:
    """Make the file if it is missing, for its owner alone. Raises ``NotApplied``.

    A file that is there is not opened: closing it would end the locks of this process's other connections to it.
    """
    try:
        _check_folder(path, mount_type or mount_type_of)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600))
        _check_file(path)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise NotApplied(f"{str(path)!r} cannot be used: {why}; name a file in a folder that is writable") from error


def _check_folder(path: Path, mount_type: Callable[[Path], str | None]) -> None:
    folder = path.absolute().parent
    if not folder.is_dir():
        raise NotApplied(f"the folder {folder} does not exist: make it, or name another file")
    kind = mount_type(folder)
    if kind in NETWORKS:
        raise NotApplied(
            f"{path} is on a file system of the kind {kind}, where locks between processes cannot be trusted:"
            " name a file on a disk of this host, or use DynamoDB"
        )
    if path.is_dir():
        raise NotApplied(f"{path} is a folder: name a file in it")


def _check_file(path: Path) -> None:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise NotApplied(f"{path} is no file that keeps what is written: name another one")
    if found.st_nlink > 1:  # each name would have a log of its own
        raise NotApplied(f"{path} has {found.st_nlink} names (hard links): remove the others, or name another file")


def mount_type_of(folder: Path, *, mounts: Path = Path("/proc/self/mountinfo")) -> str | None:
    """Return the type of the file system of a folder; ``None`` where the system does not tell, as outside Linux."""
    if sys.platform != "linux":
        return None
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    device = folder.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in reversed(lines):  # the last mount of a place hides the others
        fields = line.split()
        if len(fields) > 6 and fields[2] == wanted and "-" in fields:
            return fields[fields.index("-") + 1]
    return None
