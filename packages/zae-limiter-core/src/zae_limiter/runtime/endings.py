"""Call objects as the interpreter ends, for what a program that does not close them still owes."""

import atexit
import logging
from typing import Protocol
from weakref import WeakSet

log = logging.getLogger(__name__)


class Ending(Protocol):
    """An object with something to do before the interpreter is gone."""

    def at_exit(self) -> None:
        """Do it, within seconds. No thread can be started any more, and no event loop runs."""


_registered: "WeakSet[Ending]" = WeakSet()


def register(ending: Ending) -> None:
    """Call ``at_exit`` of ``ending`` if it is alive when the interpreter ends; not in one that is killed."""
    _registered.add(ending)


@atexit.register
def _end() -> None:
    for ending in list(_registered):
        try:
            ending.at_exit()
        except Exception as error:  # noqa: BLE001 - a program that has ended shall not fail
            log.debug("not all was written at the end of the program: %r", error)
