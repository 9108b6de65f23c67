"""The place of a file: its URL, its folder, its file system. A way out is in each refusal."""

import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from ...exceptions import ValidationError
from ...operations.errors import NotApplied
from ...runtime.named_tuple import NamedTuple
from .faults import is_of_system
from .owners import check_file, risks_of

SCHEME: Final = "sqlite:"
FORM: Final = "must be sqlite:///file.db for a path from here, or sqlite:////folder/file.db for one from the root"

MOUNTS: Final = Path("/proc/self/mountinfo")

# File systems of several hosts, and those that stand between two kernels: locks or shared memory fail on them silently.
# A program of FUSE has `fuse.` before the name.
NETWORKS: Final = frozenset(
    {
        "9p", "acfs", "afs", "beegfs", "blobfuse", "blobfuse2", "ceph", "ceph-fuse", "cifs", "coda", "curvefs",
        "cvmfs2", "davfs", "fakeowner", "gcsfuse", "geesefs", "gfs2", "glusterfs", "goofys", "gpfs", "grpcfuse",
        "hdfs", "juicefs", "lizardfs", "lustre", "mfs", "moosefs", "mount-s3", "mountpoint-s3", "ncpfs", "nfs",
        "nfs4", "ocfs2", "orangefs", "osxfs", "prl_fs", "pvfs2", "quobyte", "rclone", "s3fs", "saunafs", "seaweedfs",
        "smb2", "smb3", "smbfs", "sshfs", "vboxsf", "virtiofs", "vmhgfs", "vmhgfs-fuse", "wekafs", "xrootdfs",
    }
)  # fmt: skip
# Those of one kernel, which are not probed.
LOCAL: Final = frozenset(
    {
        "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "jfs", "ntfs3", "overlay", "ramfs", "reiserfs",
        "tmpfs", "vfat", "xfs", "zfs",
    }
)  # fmt: skip
Inode = tuple[int, int]
_probed: set[int] = set()  # the devices of this process
_told: set[str] = set()  # the risks of which this process has warned
logger = logging.getLogger(__name__)


class Mount(NamedTuple):
    """Where a file system is mounted, its type and its device, as the system writes it."""

    point: str
    kind: str
    device: str


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


def make_file(path: Path, *, mounts: Path = MOUNTS) -> None:
    """Make the file if it is missing, for its owner alone. Raises ``NotApplied``.

    A file that is there is not opened: closing it would end the locks of this process's other connections to it.
    """
    with _refusing(path):
        check_place(path, mounts=mounts)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600))
        check_file(path)
        for risk in risks_of(path):
            if risk.told not in _told:
                _told.add(risk.told)
                logger.warning("%s; %s", risk.told, risk.remedy)


def check_place(path: Path, *, mounts: Path = MOUNTS, probe: bool = False) -> None:
    """Check that a file, if it is there, may be opened, and can share its lock and its log with all programs that use
    it. Raises ``NotApplied``.

    ``probe``: whether to probe locks also where the type of the file system is known to keep them.
    """
    with _refusing(path):
        real = Path(os.path.realpath(path))  # a link may lead to another file system
        folder = real.parent
        if not folder.is_dir():
            raise NotApplied(f"the folder {folder} does not exist: make it, or name another file")
        found = mounts_in(mounts)
        if any(mount.point == str(real) for mount in found):
            raise NotApplied(
                f"{path} is mounted without its folder, so each container would have a log of its own, and a limit of"
                " its own: mount the folder"
            )
        kind = _kind_of(folder, found)
        if kind is not None and kind.removeprefix("fuse.") in NETWORKS:
            raise NotApplied(
                f"{path} is on a file system of the kind {kind}, where locks between processes cannot be trusted:"
                " name a file on a disk of this host, or use DynamoDB"
            )
        if path.is_dir():
            raise NotApplied(f"{path} is a folder: name a file in it")
        device = folder.stat().st_dev
        if probe or (sys.platform == "linux" and kind not in LOCAL and device not in _probed):
            from .locks import loses_locks  # seldom: `subprocess` takes its time to be imported

            if loses_locks(folder):
                raise NotApplied(
                    f"{path} is on a file system ({kind or 'of an unknown kind'}) that lets two processes have the"
                    " same lock: name a file on a disk of this host, or use DynamoDB"
                )
            _probed.add(device)
        with suppress(FileNotFoundError):
            check_file(path)


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, UnicodeError) as error:
        if isinstance(error, OSError) and not is_of_system(error):
            raise
        why = getattr(error, "strerror", None) or error
        raise NotApplied(f"{str(path)!r} cannot be used: {why}; name a file in a folder that is writable") from error


def check_again(path: Path) -> None:
    """Check what is beside a file once a connection has it open. Raises ``NotApplied``."""
    with _refusing(path), suppress(FileNotFoundError):  # one that was deleted is found at the next look at the inodes
        check_file(path)


def mounts_in(mounts: Path) -> list[Mount]:
    """Return the mounts of this process, the last one of a place first; none outside Linux."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError as error:
        if is_of_system(error):
            return []
        raise
    found = []
    for line in reversed(lines):
        fields = line.split()
        if len(fields) > 6 and "-" in fields:
            point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])  # a space is \040
            found.append(Mount(point, fields[fields.index("-") + 1], fields[2]))
    return found


def _kind_of(folder: Path, mounts: Sequence[Mount]) -> str | None:
    """Return the type of the file system of a folder; ``None`` where the system does not tell."""
    above = {str(folder), *map(str, folder.parents)}
    holding = [mount for mount in mounts if mount.point in above]
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}" if mounts else ""
    # A mount may hide others below it. By the device it is certain, but some file systems give several to one mount.
    exact = [mount for mount in holding if mount.device == number]
    return max(exact or holding, key=lambda mount: len(mount.point)).kind if holding else None


def inode_of(path: str | Path, *, least: int = 0) -> Inode | None:
    """Return what identifies a file; ``None`` if there is none of at least so many bytes."""
    found = status_of(path)
    return (found.st_dev, found.st_ino) if found is not None and found.st_size >= least else None


def status_of(path: str | Path) -> os.stat_result | None:
    """Return what the system tells of a file; ``None`` if it finds none."""
    try:
        return os.stat(path)  # noqa: PTH116 - `Path.stat` takes half as long again
    except OSError as error:
        if is_of_system(error):
            return None
        raise
