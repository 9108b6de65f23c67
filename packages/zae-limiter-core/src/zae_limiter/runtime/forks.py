"""Who has to begin again in a process that was forked off.

Lives here: the list of them. Never: what they forget.
"""

import os
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """Something that a child process must not share with its parent: connections, locks, queues."""

    def forget(self) -> None:
        """Begin again, in the child; nothing of the parent's may be touched, not even to close it."""


_registered: "WeakSet[Forked]" = WeakSet()
generation = 0  # how many forks this process is away from the first one


def register(forked: Forked) -> None:
    """Have ``forked`` begin again in every child process."""
    _registered.add(forked)


def _in_child() -> None:
    global generation
    generation += 1
    for forked in list(_registered):
        forked.forget()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_in_child)
