"""The objects that begin again in a forked child."""

import os
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """An object that a child process must not share with its parent, such as connections, locks and queues."""

    def forget(self) -> None:
        """Begin again, in the child; touch nothing of the parent's, not even to close it."""


_registered: "WeakSet[Forked]" = WeakSet()
generation = 0  # the number of forks between the first process and this one


def register(forked: Forked) -> None:
    """Call ``forget`` of ``forked`` in every child process."""
    _registered.add(forked)


def _in_child() -> None:
    global generation
    generation += 1
    for forked in list(_registered):
        forked.forget()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_in_child)
