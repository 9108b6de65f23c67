"""Call what a program that does not close its objects still owes, as the interpreter ends."""

import atexit
import logging
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

log = logging.getLogger(__name__)

_registered: WeakKeyDictionary[Any, Callable[[Any], object]] = WeakKeyDictionary()


def register(owner: Any, last: Callable[[Any], object]) -> None:
    """Call ``last`` with the owner if that is alive when the interpreter ends; not in one that is killed.

    It has seconds: no thread can be started any more, and no event loop runs.
    """
    _registered[owner] = last


@atexit.register
def _end() -> None:
    for owner, last in list(_registered.items()):
        try:
            last(owner)
        except Exception as error:  # noqa: BLE001 - a program that has ended shall not fail
            log.debug("not all was written at the end of the program: %r", error)
