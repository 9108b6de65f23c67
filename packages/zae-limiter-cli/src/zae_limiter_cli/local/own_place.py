"""Use directories of this user, in which no other user can have planted anything."""

import os
import stat
from pathlib import Path

from ..errors import CommandError


def check_own(directory: Path, base: Path) -> None:
    """Raise ``CommandError`` if a directory, or one on the way to it from ``base``, is another user's or a link.

    ``base``, or the nearest one above it that exists, may be root's: `/tmp` is.
    """
    above = next(place for place in (base, *base.absolute().parents) if place.exists())
    for status in (above.lstat(), above.stat()):
        if status.st_uid not in (os.geteuid(), 0):
            raise _foreign(above, status.st_uid)
    for part in (*reversed(directory.relative_to(base).parents), directory.relative_to(base)):
        if part != Path():
            _check(base / part)


def _check(place: Path) -> None:
    try:
        status = place.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISLNK(status.st_mode):
        raise CommandError(f"{place} is a link: set XDG_STATE_HOME to where it leads, or remove it")
    if status.st_uid != os.geteuid():
        raise _foreign(place, status.st_uid)


def _foreign(place: Path, owner: int) -> CommandError:
    return CommandError(
        f"{place} belongs to user {owner}, you are user {os.geteuid()}: set XDG_STATE_HOME to a directory of your own"
    )
